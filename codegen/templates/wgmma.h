/* Shared by the files of the wgmma path of the matmul template; nobody else includes it. matmul_wgmma.c tells
 * how the kernel works.
 *
 *     matmul_wgmma.c    the kernel: its roles, the consumers' way through a tile
 *     wgmma_accepts.c   sizes of a tile and its parts; which schedules the path takes
 *     wgmma_load.c      operands, the loop over tiles, the producer and what computes operands on their way
 *     wgmma_product.c   instructions of one stage and of a tile, in one level of sums or two
 *     wgmma_fragments.c an operand that is computed in the registers that the products take it from
 *     wgmma_rows.c      an operand whose rows indices choose
 *     wgmma_turned.c    an operand of 32 bits along M or N, which goes there as it is
 *     wgmma_patch.c     convolutions whose tiles are patches of the image, all taps out of one box
 *     wgmma_sum.c       products that are added up, one behind the other
 *     wgmma_stream.c    tiles that do not fill a round, whose steps of K several blocks share
 *     signals.[ch]      words by which blocks wait for each other: cleared, before the first is used
 *     wgmma_guest.c     the rows kernel that follows the product, by warps that have nothing else to do
 *     wgmma_guest_columns.c  sums of columns that wait for nothing, by the same warps
 *     wgmma_products.c  products that wait for nothing of one another, their tiles one behind the other's
 */
#ifndef SINTER_CODEGEN_TEMPLATES_WGMMA_H
#define SINTER_CODEGEN_TEMPLATES_WGMMA_H

#include "codegen/templates/matmul_convert.h"
#include "codegen/templates/matmul_dealt.h"
#include "codegen/templates/matmul_partials.h"
#include "codegen/templates/matmul_scale.h"
#include "codegen/templates/signals.h"

enum {
    WGMMA_K_BYTES = 32,
    TMA_BOX_MAX = 256,
    WGMMA_OPERANDS = 26, /* registers besides the sums that the assembler wants for an instruction (C7602) */
    TURN_BARRIER = 1     /* and the next: each warpgroup's turn */
};

/* An operand as this kernel sees it: which side of the (maybe transposed) product it is on. */
typedef struct WgmmaFragments WgmmaFragments;
typedef struct WgmmaTurned WgmmaTurned;
typedef struct WgmmaRows WgmmaRows;
typedef struct WgmmaOperand {
    const MatmulOperand *operand;
    const MatmulConvert *convert; /* NULL: TMA brings it, or what fragments are made from */
    WgmmaFragments *fragments;    /* NULL: it is not computed where it is multiplied */
    WgmmaTurned *turned;          /* NULL: it does not lie along M or N, or may */
    WgmmaRows *rows;              /* NULL: indices do not choose its rows */
    Tile tile;
    bool is_rows; /* gives rows of the tile, else columns */
    int tile_mn;
    MatmulMaps maps;
    const KExpr *descriptor;
    bool is_resident;    /* all of it lies in shared memory, for all tiles (wgmma_patch.c) */
    int taps;            /* steps of K that a stage has of it; 0: one */
    bool is_early;       /* no kernel before writes what TMA brings of it */
    const KExpr *chosen; /* a producer's: the present tile's matrix, where indices choose it */
    const KExpr **pages; /* a producer's: those of the present stage, where indices choose pages */
    const KExpr *
        *windows; /* a producer's: what the present tile's steps share, where the operand is windows */
} WgmmaOperand;

/* The first operand's rows, where they are dealt out. */
typedef struct WgmmaDealt {
    MatmulDealt rows;   /* count 0: they are not */
    const KExpr *shift; /* of the present tile (matmul_dealt_shift) */
    const KExpr *piece; /* a producer's: the element of a line that its boxes begin with */
    const KExpr *group; /* a consumer's: its warpgroup */
} WgmmaDealt;

/* A product whose steps of K come before those of the one that is added to it. */
typedef struct WgmmaTerm {
    const MatmulPlan *plan;
    WgmmaOperand operands[2];
    const Dim *steps;
    Lower *lower; /* of what is computed of it in between; NULL: nothing is */
} WgmmaTerm;

/* One of the products whose tiles a kernel computes. */
typedef struct WgmmaProduct {
    const MatmulPlan *plan;
    MatmulTiles tiles;
    const Dim *before; /* tiles of the products before */
    WgmmaOperand operands[2];
    MatmulStaging staging;
    bool is_staged;
    Lower *lower;
} WgmmaProduct;

/* What blocks share of the tiles that do not fill a round. */
typedef struct WgmmaStream {
    int blocks;                    /* of the grid; 0: nothing is shared */
    int rounds;                    /* whole ones */
    int tiles;                     /* that are shared, the last ones */
    int group_tiles, group_blocks; /* so many blocks share so many of them */
    int groups;
    int steps; /* of a tile */
    KBuffer *parts[MATMUL_CORES], *flags;
    const KExpr *head, *tail, *tails; /* steps of the two parts of a tile; of all second ones of the group */
    const KExpr *group;               /* the block's */
    const KExpr *helper, *helpers; /* number of the block among those that share these; how many they are */
    const KExpr *in_group;         /* number of the present tile */
    const KExpr *first, *end, *count; /* what this block has of the present tile's steps */
} WgmmaStream;

/* The rows that the kernel hosts. */
typedef struct WgmmaGuest {
    const Region *region; /* NULL: none */
    int rows;             /* that a warp takes with one ticket */
    KBuffer *
        counters; /* the next ticket; and of each row of tiles, warps that have stored their part of a tile */
    const KVar *
        pending; /* of a consumer: the row of tiles that it has stored a part of, but not said so; -1: none */
    bool has_bulk; /* some of its stores are TMA's */
} WgmmaGuest;

typedef struct Wgmma {
    MatmulVectors vectors;
    const KVar *side; /* which of a vector's two copies is the present tile's */
    Builder *b;
    const MatmulPlan *plan;
    const Schedule *schedule;
    MatmulTiles tiles;
    WgmmaOperand operands[1 + MATMUL_CORES]; /* a, then each core's b */
    int n_operands;
    WgmmaTerm terms[REGION_SUM_MAX - 1]; /* in the order of their steps */
    int n_terms;
    WgmmaProduct products[MATMUL_PRODUCTS_MAX]; /* the plan's own, then its guests */
    int n_products;                             /* 0: there is the plan's own alone */
    const Dim *count;                           /* tiles of all of them */
    Pipeline pipeline;
    Pipeline resident;     /* its one stage: an operand that is; no stages: there is none */
    const KBuffer *landed; /* mbarriers: a stage's copies of chosen rows are complete; NULL: there are none */
    int consumers, blocks; /* warpgroups; m64 blocks of each */
    int cluster;
    PipelinePeers peers; /* a consumer's */
    int split;           /* blocks of a cluster that share a tile's K; 1: none */
    WgmmaStream stream;
    WgmmaGuest guest;
    VEC(MatmulRow) operand_rows; /* the plan's, of the present tile: as many as its blocks' halves have */
    MatmulPartials parts;
    MatmulGang gang; /* blocks 1: none */
    Signals signals;
    MatmulInputs inputs;
    const Dim *steps; /* of K */
    WgmmaDealt dealt;
    MatmulReached reached; /* of the present tile, where tiles differ in their steps (tiles.reach) */
    const KVar *accumulator[MATMUL_CORES];
    int partial_cols; /* 0: one level */
    const KVar *partial;
    MatmulScales scales[1 + MATMUL_CORES];    /* of each operand */
    const KVar *next[1 + MATMUL_CORES];       /* its factors for the next step; NULL: none, or by column */
    const KVar *factor[MATMUL_CORES];         /* of the present step's sums: [row][part]; NULL: 1 */
    MatmulConvert converts[1 + MATMUL_CORES]; /* those of operands that have one: one, or all brought */
    int n_converts;
    int converters; /* warpgroups */
    /* The first stages are filled with what is early before the kernel waits for the one before it. */
    bool starts_early;
} Wgmma;

/* wgmma_accepts.c */
int wgmma_k_bytes(const MatmulPlan *plan, const Schedule *schedule); /* of a tile's row */
int wgmma_rows(const Schedule *schedule);        /* of the tile that one consumer warpgroup computes */
int wgmma_blocks(const Schedule *schedule);      /* of 64 rows each that those are */
int wgmma_releases(const Schedule *schedule);    /* warps that must release a stage before it is free */
int wgmma_result_rows(const Schedule *schedule); /* the tile as the result has it */
int wgmma_result_cols(const Schedule *schedule);

/* Whether an operand comes as the schedule has it. */
bool wgmma_accepts_operand(const MatmulPlan *plan, const Schedule *schedule, const MatmulOperand *operand,
                           bool is_rows, const char **why);
/* wgmma_dealt.c: the same of a first operand whose rows are dealt out. Ahead of a tile's loads or products,
 * where its matrix begins; the element of a row that its boxes begin with, or NULL; ahead of the products of
 * a step, zeros for what its stage has of other rows. Nothing, where they are not dealt out. */
bool wgmma_accepts_dealt(const MatmulPlan *plan, const Schedule *schedule, const char **why);
const KExpr *wgmma_dealt_tile(Wgmma *w, const MatmulTile *tile);
void wgmma_dealt_step(Wgmma *w, const KExpr *stage, const KExpr *step, const KExpr *steps);
/* Whether the blocks of a cluster can bring the operand that they share. */
bool wgmma_accepts_shared(const MatmulPlan *plan, const Schedule *schedule, const char **why);

/* wgmma_sum.c */
/* Whether the products before the plan's own are read, and added up, as its schedule has it. */
bool wgmma_accepts_terms(const MatmulPlan *plan, const Schedule *schedule, const char **why);
/* Tiles and maps of those products' operands. */
void wgmma_add_terms(Wgmma *w);
/* Descriptors of their tiles, for this warpgroup. */
void wgmma_terms_descriptors(Wgmma *w, const KExpr *group);
/* The kernel as it is for one of them; for number n_terms, for the last product of all. */
Wgmma wgmma_term(const Wgmma *w, int number);
/* Stages of a tile that they take. */
const KExpr *wgmma_terms_steps(const Wgmma *w);
/* Whether the product, or each that is added up, has steps for each block that shares its K. */
bool wgmma_has_steps(const Wgmma *w);
bool wgmma_all_have_steps(const Wgmma *w);
/* Their part of a tile, whose elements of this thread `fragment` has. True where the last products are still
 * on their way then. */
bool wgmma_terms_product(Wgmma *w, const MatmulFragment *fragment, const MatmulTile *tile,
                         const PipelineState *state, const KVar *previous, bool is_cleared);

/* wgmma_stream.c */
/* How blocks share tiles under a schedule with stream_k; blocks 0 where they do not. */
WgmmaStream wgmma_stream(const MatmulPlan *plan, const Schedule *schedule);
bool wgmma_accepts_stream(const MatmulPlan *plan, const Schedule *schedule, const char **why);
void wgmma_stream_buffers(Wgmma *w);
/* Opens the loop over what this block has, and gives the tile's number. */
const KExpr *wgmma_stream_begin(Wgmma *w);
/* Around the epilogue: hands on what the warp has of a tile that another block owns; of its own, adds what
 * others have. */
void wgmma_stream_own_begin(Wgmma *w, const KExpr *warp);
void wgmma_stream_own_end(Wgmma *w);

/* wgmma_products.c */
bool wgmma_accepts_products(const MatmulPlan *plan, const Schedule *schedule, const char **why);
/* The plan's own and its guests: operands, outputs in the shared memory of the plan's own. */
void wgmma_add_products(Wgmma *w, const MatmulStaging *staging);
/* Blocks of the launch. */
const Dim *wgmma_grid(const MatmulPlan *plan, const Schedule *schedule);
/* Emits `body` for the product that a tile is of, with the kernel as it is for that one. */
typedef void WgmmaBody(Wgmma *w, int product, const MatmulTile *tile, void *context);
void wgmma_of_product(Wgmma *w, const KExpr *number, WgmmaBody *body, void *context);

/* wgmma_guest.c: nothing is done where the region has no guest of rows */
/* Whether warps of the producer's warpgroup have nothing else to do, and registers for a guest. */
bool wgmma_has_idle_warps(const MatmulPlan *plan, const Schedule *schedule, const char **why);
bool wgmma_accepts_guest(const MatmulPlan *plan, const Schedule *schedule, const char **why);
/* Declares counters and tickets; the grid is known. */
void wgmma_guest_new(Wgmma *w);
/* A consumer warp: before its tiles; behind a tile's epilogue; in a step of the plan's own product; behind
 * all tiles. */
void wgmma_guest_start(Wgmma *w, const MatmulStaging *staging);
void wgmma_guest_stored(Wgmma *w, const MatmulTile *tile);
void wgmma_guest_step(Wgmma *w, const KExpr *step, const KExpr *steps);
void wgmma_guest_end(Wgmma *w);
/* The calling warp, which has nothing else to do, takes rows until there are none, with so many registers a
 * thread (0: those at launch). */
void wgmma_guest_rows(Wgmma *w, int registers);
const char *wgmma_guest_name(const Wgmma *w); /* for a kernel's summary */

/* wgmma_guest_columns.c: nothing is done where the region has no guest of columns */
bool wgmma_accepts_columns(const MatmulPlan *plan, const Schedule *schedule, const char **why);
/* The producer's warps that do not load take their share of the strips. */
void wgmma_guest_columns(Wgmma *w);

/* wgmma_load.c */
void wgmma_add_operand(Wgmma *w, const MatmulOperand *operand, const char *name, bool is_rows);
MatmulTma wgmma_tma(const Wgmma *w, const WgmmaOperand *o);
/* Whether no kernel before writes what TMA reads of an operand. */
bool wgmma_is_early(Builder *b, const MatmulOperand *operand);
/* Loop over the tiles of this block: those from `skip` on, every `turns`-th. */
void wgmma_tiles_begin(Wgmma *w, const KExpr *skip, int turns, MatmulTile *tile);
/* The same loop over tiles of any product: their numbers. */
const KExpr *wgmma_numbers_begin(Wgmma *w, const KExpr *skip, int turns);
void wgmma_tiles_end(Wgmma *w);
/* Steps of K that this block takes, and the first of them; of the present tile where the next tells so. The
 * blocks of a split take them in turn: neighbours ask memory for neighbouring lines. */
const KExpr *wgmma_steps(Wgmma *w, const KExpr **first);
bool wgmma_steps_differ(const Wgmma *w);
/* The element of K at which a step of the block's begins. */
const KExpr *wgmma_k0(Wgmma *w, const KExpr *first, const KExpr *step);
/* The operand's tile of a stage: declared as `name`, or, where `over` is not NULL, in the place of that one.
 */
Tile wgmma_tile(const Wgmma *w, const WgmmaOperand *o, const char *name, int stages, const Tile *over);
void wgmma_produce(Wgmma *w);
/* Whether converters make their operand from raw tiles, which the producer brings. */
bool wgmma_has_raw(const Wgmma *w);
void wgmma_convert(Wgmma *w);

/* wgmma_bring.c: the converters' part where they bring operands from memory. */
void wgmma_bring(Wgmma *w);

/* wgmma_rows.c: nothing is done where indices choose no rows */
bool wgmma_accepts_rows(const MatmulPlan *plan, const Schedule *schedule, int tile_mn, const char **why);
/* Bytes of shared memory besides the tiles. */
int64_t wgmma_rows_bytes(const MatmulPlan *plan, const Schedule *schedule);
void wgmma_rows_new(Wgmma *w, WgmmaOperand *o);
void wgmma_rows_declare(Wgmma *w); /* behind all tiles, which begin at multiples of 1024 bytes */
/* By one thread, before a barrier that all threads pass. */
void wgmma_rows_init(Wgmma *w);
/* The part of the producer's warps that do not load by TMA. */
void wgmma_copy_rows(Wgmma *w);

/* wgmma_fragments.c */

/* Whether `operand`, which TMA cannot bring as wgmma takes it, can be computed where it is multiplied. */
bool wgmma_accepts_fragments(const MatmulPlan *plan, const Schedule *schedule, const MatmulOperand *operand,
                             bool is_rows, const char **why);
/* Declares o->tile, the ring of what the operand is computed from, and what computes it. */
void wgmma_fragments_new(Wgmma *w, WgmmaOperand *o, const char *name);
/* The operand that TMA brings. */
const MatmulOperand *wgmma_fragments_source(const WgmmaFragments *fragments);
/* What TMA brings besides to each stage, where it does: bytes, the copy of a step, and whether no kernel
 * before writes it. */
int64_t wgmma_fragments_bytes(const MatmulPlan *plan, const Schedule *schedule);
void wgmma_fragments_load(Wgmma *w, const WgmmaOperand *o, const PipelineState *state, const KExpr *k0);
bool wgmma_fragments_are_early(Wgmma *w, const WgmmaOperand *o);
/* The products of a tile, whose operand's rows begin at `warp_row` for this warp. */
void wgmma_fragments_product(Wgmma *w, const MatmulTile *tile, const KExpr *warp_row, const KExpr *first,
                             const KExpr *steps, const PipelineState *state, const KVar *previous,
                             bool is_cleared);

/* wgmma_turned.c */
/* Declares a consumer's registers for operands that are turned (matmul_is_turned), also of products that are
 * added up; the warp's rows begin at `warp_row`. Nothing is done where there are none. */
void wgmma_turned_begin(Wgmma *w, const KExpr *warp_row);
/* The products of a stage, in two groups of which the second is on its way then; those of the stage before
 * have ended. */
void wgmma_turned_stage(Wgmma *w, const KExpr *stage, const KExpr *keep);

/* wgmma_patch.c: where a tile's rows are a patch (matmul_patch.h) */
/* Bytes of its boxes and weights. */
int64_t wgmma_patch_bytes(const MatmulPlan *plan, const Schedule *schedule);
bool wgmma_accepts_patches(const MatmulPlan *plan, const Schedule *schedule, const char **why);
/* Tiles of the windows, and of the other operand, which stays. */
void wgmma_patch_operand(Wgmma *w, WgmmaOperand *o, const char *name);
/* The producer's: the weights of a box, where they do not stay. */
void wgmma_load_taps(Wgmma *w, const MatmulTma *tma, const PipelineState *state, const KExpr *mn0,
                     const KExpr *k0, const KExpr *const *batch);
/* The producer's: brings what stays. */
void wgmma_load_resident(Wgmma *w);
/* A consumer's, ahead of its tiles: that has come. */
void wgmma_wait_resident(Wgmma *w);
/* The products of a stage: all taps of the box, number `step` of the tile's. */
void wgmma_multiply_taps(Wgmma *w, const KExpr *stage, const KExpr *step, bool is_cleared);
/* The same where the places are K: for each block of the rows its taps and channels. */
void wgmma_multiply_places(Wgmma *w, const KExpr *stage, const KExpr *step, bool is_cleared);
/* What the descriptor of a warpgroup's rows begins behind that of the first one's. */
const KExpr *wgmma_patch_group(Wgmma *w, const KExpr *group);

/* wgmma_product.c */
/* K steps of 32 bytes that a stage has. Of a short product beside a long one, those that are not all zeros.
 */
int wgmma_instructions(const Wgmma *w);
/* One instruction: `a` an address or fragments. */
void wgmma_issue(Wgmma *w, int core, KOperand sums, KOperand a, const KExpr *bb, const KExpr *keep);
/* Descriptors of a stage's tiles. */
void wgmma_stage_at(Wgmma *w, const KExpr *stage, const KExpr **at);
/* Offset, in a descriptor's units, of the part of a tile at `mn` and K-step `i`. */
int64_t wgmma_part(const WgmmaOperand *o, int mn, int i);
/* The descriptor of the operand's first stage, for this warpgroup. */
const KExpr *wgmma_operand_descriptor(Wgmma *w, const WgmmaOperand *o, const KExpr *group);
/* The steps of one product; `goes_on`: those of another are still on their way. */
void wgmma_product_steps(Wgmma *w, const KExpr *steps, const PipelineState *state, const KVar *previous,
                         bool is_cleared, bool goes_on);
/* Registers for the factors of a step. */
void wgmma_factors(Wgmma *w);
/* Starts the copies of the factors of the tile's first step. */
void wgmma_scales_tile(Wgmma *w, const KExpr *warp, const KExpr *warp_row, const MatmulTile *tile);
void wgmma_tile_product_promoted(Wgmma *w, const KExpr *steps, const PipelineState *state);
/* Sums of the tile of this block, whose elements of this thread `fragment` has: for the warpgroup `group`,
 * whose warp has rows from `warp_row` on, steps of K from `first` on. */
void wgmma_tile_product(Wgmma *w, const MatmulTile *tile, const KExpr *group, const KExpr *warp_row,
                        const KExpr *first, const KExpr *steps, const PipelineState *state,
                        const KVar *previous, const MatmulFragment *fragment);
/* Waits for all products and releases the last stage; is_cleared: there may be none. */
void wgmma_tile_end(Wgmma *w, const KExpr *steps, const KVar *previous, bool is_cleared);

#endif
