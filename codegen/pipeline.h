/* A ring of shared-memory stages between one producer and its consumers, on mbarriers (PTX ISA 9.7.13.15).
 *
 *                  wait empty[s]                 wait full[s]
 *     producer  ------------------->  stage s  ------------------->  consumers
 *     TMA loads    arrive full[s]   0 1 2 3 ...    arrive empty[s]   matrix products
 *                  + bytes expected
 *
 * A barrier's phase ends when all arrivals (and bytes) of it have come; a wait names the parity of the phase.
 * Consumers begin with parity 0. The producer waits for the parity before, which a fresh barrier counts as
 * ended, so its first round through the ring does not wait. The parity flips each time the stage number
 * wraps. */
#ifndef SINTER_CODEGEN_PIPELINE_H
#define SINTER_CODEGEN_PIPELINE_H

#include "codegen/kernel_build.h"

typedef struct Pipeline {
    const KBuffer *full, *empty;
    int stages;
} Pipeline;

/* A role's place in the ring. */
typedef struct PipelineState {
    const KVar *stage; /* i32 */
    const KVar *phase; /* u32 */
} PipelineState;

Pipeline pipeline_new(Builder *b, const char *name, int stages);
/* By one thread, before a barrier that all threads pass: how many arrivals end a phase. */
void pipeline_init(Builder *b, const Pipeline *pipeline, int full_arrivals, int empty_arrivals);
/* The same of barriers that are no ring's. */
void pipeline_init_barriers(Builder *b, const KBuffer *barriers, int count, int arrivals);
PipelineState pipeline_start(Builder *b, const Pipeline *pipeline);
void pipeline_advance(Builder *b, const Pipeline *pipeline, const PipelineState *state);
/* Past `steps` stages that another consumer takes. */
void pipeline_skip(Builder *b, const Pipeline *pipeline, const PipelineState *state, const KExpr *steps);

void pipeline_wait_empty(Builder *b, const Pipeline *pipeline, const PipelineState *state); /* producer */
/* Arrives at full[stage] and announces `bytes` of copies to come. */
void pipeline_expect(Builder *b, const Pipeline *pipeline, const PipelineState *state, const KExpr *bytes);
const KExpr *pipeline_full_address(Builder *b, const Pipeline *pipeline, const PipelineState *state);
void pipeline_wait_full(Builder *b, const Pipeline *pipeline, const PipelineState *state); /* consumer */

/* One arrival of each calling warp at full[stage], behind what its lanes have written there. */
void pipeline_fill(Builder *b, const Pipeline *pipeline, const PipelineState *state);

/* The blocks that fill parts of one another's stages: of a cluster of m x n, whose ranks go along m first,
 * those in the same row or the same column of it. */
typedef struct PipelinePeers {
    int count;         /* this block among them; 1: it is alone */
    const KExpr *rank; /* of the block that a lane below `count` tells; where it is not alone */
} PipelinePeers;
int pipeline_peer_count(int m, int n);
PipelinePeers pipeline_peers(Builder *b, int m, int n);
/* One arrival of each calling warp at empty[stage], in every block of `peers`; NULL: in this block alone. */
void pipeline_release(Builder *b, const Pipeline *pipeline, const KExpr *stage, const PipelinePeers *peers);
/* The same by all lanes together, where long work that does not need the stage follows: the stage is free
 * before that. */
void pipeline_release_early(Builder *b, const Pipeline *pipeline, const KExpr *stage,
                            const PipelinePeers *peers);
/* The end of a consumer's step number `step`, whose reads are still under way while those of the step before
 * have ended: releases that step's stage, `previous`, if there is one, and goes on to the next. step NULL:
 * there is one. */
void pipeline_release_behind(Builder *b, const Pipeline *pipeline, const PipelineState *state,
                             const KVar *previous, const KExpr *step, const PipelinePeers *peers);

#endif
