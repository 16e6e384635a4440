/* Shared by the files that list a matrix product's schedules; nobody else includes it.
 *
 *     matmul_schedules.c           in which order tiles go, and which schedules come first
 *     matmul_schedules_wgmma.c     by wgmma
 *     matmul_schedules_patches.c   convolutions by patches of the image (matmul_patch.c)
 *     matmul_schedules_tiles.c     by mma.sync and by multiply-adds
 *     matmul_schedules_streams.c   few rows (matmul_gemv.c, matmul_skinny.c) */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_SCHEDULES_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_SCHEDULES_H

#include "codegen/templates/cost_matmul.h"

enum { SCHEDULES_MOST = 2048, WGMMA_STAGES = 12 };

typedef struct Candidates {
    Schedule at[SCHEDULES_MOST];
    int n;
} Candidates;

typedef bool SchedulesAccept(const MatmulPlan *plan, const Schedule *schedule, const char **why);

/* Adds a schedule, if it is accepted, with the order of its tiles and its estimate. */
void schedules_add(const Cost *c, SchedulesAccept *accepts, Candidates *found, Schedule s);
/* The most stages, from `most` down to 2, with which `blocks` blocks share an SM. */
void schedules_add_deepest(const Cost *c, SchedulesAccept *accepts, Candidates *found, Schedule s, int most,
                           int blocks);

/* Rounds that the tiles of a schedule are, a tile a SM. */
double schedules_rounds(const Cost *c, const Schedule *s);
/* Bytes of an operand of so many rows, or columns. */
double schedules_operand_bytes(const MatmulOperand *operand, int64_t mn, int64_t k);
/* Whether L2 holds neither operand and the result is not stored. */
bool schedules_only_reads(const Cost *c);
/* Whether an epilogue normalizes rows and reads tables besides. */
bool schedules_reads_tables(const MatmulPlan *plan);

/* Each path's. */
void schedules_wgmma(const Cost *c, SchedulesAccept *accepts, Candidates *found);
void schedules_mma(const Cost *c, SchedulesAccept *accepts, Candidates *found);
void schedules_simt(const Cost *c, SchedulesAccept *accepts, Candidates *found);
void schedules_gemv(const Cost *c, SchedulesAccept *accepts, Candidates *found);
void schedules_skinny(const Cost *c, SchedulesAccept *accepts, Candidates *found);
/* Patches of rows, by steps of `step` channels or fewer, and of K; nothing where there are no windows. */
void schedules_patches(const Cost *c, SchedulesAccept *accepts, Candidates *found, int step);

#endif
