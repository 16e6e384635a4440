/* What the rows template has in hand while it builds a kernel; rows.c, rows_ahead.c, rows_down.c,
 * rows_held.c, rows_pieces.c, rows_rounds.c and rows_skewed.c include it. */
#ifndef SINTER_CODEGEN_TEMPLATES_ROWS_BUILD_H
#define SINTER_CODEGEN_TEMPLATES_ROWS_BUILD_H

#include "codegen/lower.h"
#include "codegen/reduce.h"
#include "codegen/rounds.h"
#include "codegen/templates/rows_plan.h"
#include "codegen/templates/transpose.h"

enum { ROUNDS_CHAINS = 2 };

typedef struct RowsHeld {
    const Value *value; /* computed in one pass and used in later ones */
    const KVar *array;
} RowsHeld;

/* An extremum that another reduction of the same elements finds: argmax the maximum. */
typedef struct RowsBeside {
    const Value *value, *finder;
} RowsBeside;

/* The row's elements of an input, which stay in shared memory. */
typedef struct RowsKept {
    const Value *value;
    KBuffer *buffer;
    const KVar *run; /* one run of it */
} RowsKept;

/* An input whose rows are brought ahead of their turn. */
typedef struct RowsAhead {
    const Value *value;
    KBuffer *ring; /* of schedule->stages rows */
} RowsAhead;

/* Rounds that find a row's largest elements one after the other (rows_rounds.c). */
typedef struct RowsRounds {
    const Value *x;    /* what is searched */
    const Value *left; /* that, without what all rounds have found; NULL: nobody asks */
    int n, level;      /* level: of the first */
    const Value *at[ROUNDS_MAX], *best[ROUNDS_MAX]; /* argmax; reduce_max of the same, or NULL */
    const KVar *elements;                           /* of x, a thread's; taken ones are the lowest */
    const KVar *found_at,
        *found_best; /* round j's in lane j of the row, of its warps' lanes; then the next */
} RowsRounds;

typedef struct Rows {
    Builder *b;
    const Region *region;
    const Schedule *schedule;
    Lower *lower;
    KType index;
    int split, width, lanes,
        runs;   /* lanes: threads a row in a block; runs: of a thread, where resident; else in flight */
    int blocks; /* that share the row */
    const Dim *rows, *extent;
    const KExpr *row, *lane, *row_inside;
    ReduceLevels levels;
    RowsRounds rounds[ROUNDS_CHAINS]; /* in no level */
    int n_rounds;
    VEC(RowsBeside) beside; /* in no level */
    VEC(RowsHeld) held;
    RowsKept kept[ROWS_KEPT_MAX]; /* where the row stays in shared memory */
    int n_kept;
    VEC(const Value *) whole, reduced; /* outputs: along the row, one a row */
    VEC(const Value *) bundles;        /* a few a row */
    VEC(const Value *) of_pieces;      /* one a piece */
    VEC(const Value *) pieces;         /* reductions of pieces, in no level, topological */
    RowsDown down[ROWS_DOWN_MAX];
    PartialVars down_acc[ROWS_DOWN_MAX]; /* a thread's columns */
    int n_down;
    const KExpr *first_row; /* the thread's first one of the block */
    RowsAhead ahead[ROWS_AHEAD_MAX];
    int n_ahead;
    Transpose tile;            /* of what is stored across rows (rows_turned.h) */
    const KExpr **tile_places; /* where the thread's row begins in each of its buffers */
    RunStart start;
    const KExpr *head;    /* skewed: elements of the row before its first run */
    const KExpr *at_edge; /* whether the thread has an element of the row's edges */
    Run edge;             /* that element */
} Rows;

/* Elements from one run of a thread to its next. */
int64_t rows_stride(const Rows *rows);

/* Values of the pass at `level` that later passes start from, and that are worth keeping: appended to
 * rows->held. */
void rows_find_held(Rows *rows, int level);
/* Binds the first `n` of them for the run `slot` of the thread. */
void rows_bind_held(Rows *rows, size_t n, const KExpr *slot);

/* Computes and writes outputs that have one element for the run, whose width is 1. */
void rows_store_single(Rows *rows, const Run *run, const Value *const *outputs, size_t n);

/* Fills rows->pieces. */
void rows_find_pieces(Rows *rows);
/* The statistics of the piece that a run of the last pass lies in, known to the run's thread from here on;
 * behind what else the run computes, what has an element for each piece is written. */
void rows_pieces_run(Rows *rows, const Run *run, const KExpr *slot, bool exact);
void rows_pieces_store(Rows *rows, const Run *run);

/* Declares the partial results of columns, ahead of the loop over a block's rows. */
void rows_declare_down(Rows *rows);
/* What the last pass over a row adds to them: rows->n_down targets. */
void rows_down_targets(Rows *rows, LowerTarget *targets);
/* Brings those of all threads together, behind that loop, and writes them for the block number `number`. */
void rows_store_down(Rows *rows, const KExpr *number);

/* Begins the copies of the block's first rows, ahead of the loop over them. */
void rows_ahead_begin(Rows *rows);
/* Holds what was brought of the block's row number `at`, and begins the copy of a later one. */
void rows_ahead_take(Rows *rows, const KExpr *at);

/* Whether a run of the thread that begins at element `at` lies in the row. */
const KExpr *rows_inside(const Rows *rows, const KExpr *at);
/* rows_skewed.c: around all passes over a row, and what each adds for its edges: rows that are not skewed
 * have none. `acc` has the partial results of the targets that are folded, in their order. */
void rows_edges_begin(Rows *rows, const LowerTarget *targets, int n);
void rows_edges_pass(Rows *rows, const LowerTarget *targets, const PartialVars *acc, int n);
void rows_edges_end(Rows *rows);

/* Takes rounds out of the levels, where there are any and the row stays in registers. */
void rows_find_rounds(Rows *rows);
/* The number of the rounds that the level's pass begins, or -1. */
int rows_rounds_of(const Rows *rows, int level);
/* Finds what rounds find in their elements, which the pass of their level has filled. All threads of the row
 * know it from here on, where anything but bundles that rows_store_rounds() takes asks. */
void rows_build_rounds(Rows *rows, RowsRounds *rounds);
/* Computes and writes a bundle, each of whose elements is a round's: by the lanes that have found them.
 * False: the bundle is not of that kind. */
bool rows_store_rounds(Rows *rows, const Value *output);

#endif
