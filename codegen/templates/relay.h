/* Shared by the files of the relay template; nobody else includes it.
 *
 * A relay is one or two first products, what is computed of them element by element, and one or two last
 * products whose first operands that is, in one kernel: attention's gradients, attention whose weights are no
 * softmax, an MLP of few inputs and outputs.
 *
 *     s = q @ k.T                              first: of few k, all of it in shared memory for a tile's rows
 *     d = do @ v.T                             first
 *     e = cast(exp(s - l) * (d - r), bf16)     held: parts of tile_k columns, in registers
 *     dq = e @ k                               last: all columns in accumulators
 *
 *     relay.c         what the products are (RelayPlan), which schedules it can take, the Template row
 *     relay_wgmma.c   the kernel
 *
 * As a chain's links, each product has a MatmulPlan of a region of its own. */
#ifndef SINTER_CODEGEN_TEMPLATES_RELAY_H
#define SINTER_CODEGEN_TEMPLATES_RELAY_H

#include "codegen/templates/chain_parts.h"

enum { RELAY_PRODUCTS = 2 /* first ones, and last ones */ };

/* A second operand, of which a part comes at a time. */
typedef struct RelayBrought {
    const MatmulPlan *plan;
    const MatmulOperand *operand;
    bool is_last; /* of a last product: the part is along its sum */
} RelayBrought;

typedef struct RelayPlan {
    const Graph *graph;
    const Region *region;
    const Target *target;
    int n_first, n_last, n_held, n_brought;
    size_t n_outputs; /* of the last products together */
    MatmulPlan first[RELAY_PRODUCTS], last[RELAY_PRODUCTS];
    const Value *held[RELAY_PRODUCTS];
    /* What is held, as it is computed of the first products: bare of the selects by which it is zero beyond a
     * band, where the kernel masks what lies beyond. */
    MatmulPlan between;
    const Value *made[RELAY_PRODUCTS];
    int n_needed[RELAY_PRODUCTS];             /* of the first products, these many come into it */
    Band band;                                /* n 0: there is none */
    int held_of[RELAY_PRODUCTS];              /* of each last product */
    RelayBrought brought[2 * RELAY_PRODUCTS]; /* those that lie in memory alike come once */
    int first_from[RELAY_PRODUCTS], last_from[RELAY_PRODUCTS]; /* that each product reads */
    int columns; /* of a last product, rounded up to what wgmma takes */
} RelayPlan;

/* False, with a person's words in *why, where the region is none that the kernel takes. */
bool relay_plan(const Graph *graph, const Region *region, const Target *target, RelayPlan *plan,
                const char **why);
/* Elements along a first product's sum, rounded up to whole instructions. */
int relay_depth(const RelayPlan *plan, int first);
/* Columns of tiles of a second operand that comes in parts, or its elements along the first product's sum. */
int relay_width(const RelayPlan *plan, const RelayBrought *brought);
/* Whether the first products of a part are multiplied behind the last ones of the part before, without
 * waiting for these: then both have their registers. */
bool relay_runs_ahead(const RelayPlan *plan, const Schedule *schedule);
/* Tiles of rows in shared memory: two where they fit. */
int relay_row_stages(const RelayPlan *plan, const Schedule *schedule);
void relay_build(Builder *b, const RelayPlan *plan);

#endif
