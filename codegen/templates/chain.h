/* Shared by the files of the chain template; nobody else includes it.
 *
 * A chain is two or three matrix products, each the first operand of the next, in one kernel: a block keeps
 * its rows of what lies between them in registers.
 *
 *     h = relu(x @ w1.T + b1)        link 0: x and w1 from memory; h stays in registers, 16 bits an element
 *     y = relu(h @ w2.T + b2)        link 1: h from registers, w2 from memory; y is stored
 *
 *     chain.c         what the links are (ChainPlan), which schedules it can take, the Template row
 *     chain_wgmma.c   the kernel
 *     chain_stream.c  the kernel where a softmax of long rows lies between two links: chain_softmax.c has
 *                     what is done in registers, chain_exchange.c what warpgroups tell each other
 *     chain_values.c  values that are columns of the keys
 *
 * A link is a matrix product with its epilogue, so each has a MatmulPlan, of a region of its own; everything
 * that is known of products, epilogues and row statistics serves links as well. */
#ifndef SINTER_CODEGEN_TEMPLATES_CHAIN_H
#define SINTER_CODEGEN_TEMPLATES_CHAIN_H

#include "codegen/templates/chain_parts.h"
#include "ir/softmax.h"

enum {
    CHAIN_LINKS = 3,
    CHAIN_COLUMNS = 320, /* of a link that hands its result on: 160 accumulators of a thread */
    CHAIN_COLUMNS_LAST = 256
};

/* What the scores of a softmax in parts are computed of besides, that has one element a key (chain_keyed.c).
 */
enum { CHAIN_KEYED_MOST = 4 };
typedef struct ChainKeyed {
    int n;
    const Value *value[CHAIN_KEYED_MOST];
    View view[CHAIN_KEYED_MOST];
} ChainKeyed;

typedef struct ChainPlan {
    const Graph *graph;
    const Region *region;
    const Target *target;
    int n_links;
    MatmulPlan link[CHAIN_LINKS];
    const Value *held[CHAIN_LINKS]; /* what link i hands on in registers; NULL for the last */
    int columns[CHAIN_LINKS];       /* of the result, rounded up to what wgmma takes; of the last: all */
    /* Two links with a softmax of any length between them, of which tile_k columns are computed at a time:
     * link 0 hands on what the softmax is of. Outputs that are computed from its maximum and its sum, one
     * element a row, are a plan's of their own. */
    bool streams;
    int64_t
        values_from; /* the values are columns of the keys' own rows, from this one on; -1: they are not */
    Softmax softmax;
    ChainKeyed keyed;
    MatmulPlan rows; /* region NULL: there are none */
    MatmulPlan sink; /* the same, of a softmax in parts that has none */
    MatmulPlan
        weighed; /* the same, where its weights are multiplied with nothing: its product is the share */
} ChainPlan;

/* False, with a person's words in *why, where the region is no chain that the kernel takes. */
bool chain_plan(const Graph *graph, const Region *region, const Target *target, ChainPlan *plan,
                const char **why);

/* Columns of a link's accumulators under a schedule: the last link may go through its columns in passes. */
int chain_tile_columns(const ChainPlan *plan, const Schedule *schedule, int link);
int chain_passes(const ChainPlan *plan, const Schedule *schedule);
/* Matrix instructions side by side that a link's columns take. */
int chain_parts(int columns);
/* Steps of tile_k that a later link's sum takes. */
int chain_later_steps(const ChainPlan *plan, const Schedule *schedule, int link);
/* Elements of a slot of the ring of later second operands. */
int64_t chain_slot_elements(const ChainPlan *plan, const Schedule *schedule);
/* Bytes of shared memory without the epilogues' vectors. */
int64_t chain_smem(const ChainPlan *plan, const Schedule *schedule);
int chain_blocks_per_sm(const ChainPlan *plan, const Schedule *schedule);
/* Tiles of 64 rows and more; no tile beside another along the columns. */
MatmulTiles chain_tiles(const ChainPlan *plan, const Schedule *schedule);

void chain_build(Builder *b, const ChainPlan *plan);

/* chain_keyed.c: ChainPlan.keyed, of two links around a softmax in parts. */
void chain_find_keyed(ChainPlan *plan);
/* chain_values.c: ChainPlan.values_from, of two links around a softmax. */
int64_t chain_values_from(const ChainPlan *plan);

/* chain_weigh.c: the uniform numbers that weights are dropped by, where fours of them are a row's; NULL:
 * there are none. */
const Value *chain_random(const ChainPlan *plan);

/* chain_stream.c */
bool chain_stream_accepts(const ChainPlan *plan, const Schedule *schedule, const char **why);
int chain_stream_schedules(const ChainPlan *plan, const DimBindings *hint, Schedule *out, int room);
void chain_stream_build(Builder *b, const ChainPlan *plan);

#endif
