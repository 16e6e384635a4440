/* Lowering of graph Values to kernel arithmetic, at coordinates: the one place that gives operations their
 * per-element code, for every template's prologue, body and epilogue.
 *
 * The unit is a run: `width` consecutive elements along one axis of the region's iteration space. lower_run()
 * first emits the loads that the targets need (16-byte vectors where the view of an input allows, scalars
 * else), then one unrolled loop over the run's elements that computes the targets into register arrays.
 * Movement operations become coordinate arithmetic; a Value that the template has already computed (an
 * accumulator, a row statistic) is bound to its registers; a reduction or matmul that is not bound becomes a
 * loop in place, so every Value can be lowered at any coordinates. */
#ifndef SINTER_CODEGEN_LOWER_H
#define SINTER_CODEGEN_LOWER_H

#include "codegen/kernel_build.h"
#include "codegen/reduce.h"
#include "ir/block.h"

typedef struct Lower Lower;

/* Where runs begin. Where rows are of odd length, memory has its vectors at multiples of their width among
 * all elements of the space; runs that begin there need the numbers below. */
typedef enum RunStart {
    RUN_IN_ROW, /* at a multiple of the width in their row */
    RUN_SKEWED, /* in all of the space; they lie within a row */
    RUN_FLAT,   /* in all of the space, and in the axes from split on; they go on in the next row: each
                 * element has coordinates of its own along these axes. With split 0 they begin at multiples
                 * of their width */
} RunStart;

typedef struct Run {
    int rank;                      /* of the space */
    const KExpr *coords[RANK_MAX]; /* of the run's first element; of lower_index_type(), or converted to it */
    int axis;                      /* along which the run goes */
    int width;                     /* 1, 2, 4, 8, 16 */
    /* Where `axis` is the innermost and the caller has them, else NULL: row-major numbers of the run's first
     * element within axes [0, split) and within axes [split, rank); the latter NULL where split is rank.
     * Neighbouring axes of the space that are neighbours in memory too are then addressed without taking the
     * numbers apart. */
    const KExpr *outer, *inner;
    int split;
    RunStart start;
    bool repeats;       /* all runs of a batch have the same coordinate along `axis` */
    const KExpr *guard; /* false: outside the space: nothing is read, results do not matter; NULL: inside */
} Run;

/* Elements of a target that go into partial results as they are computed. */
typedef struct LowerFold {
    const Value *reduction; /* NULL: none */
    PartialVars acc; /* scalars; arrays with one partial result for each element of the run where by_lane */
    bool by_lane;
    const KExpr *at;     /* the partial result of the run's first element, by_lane; NULL: 0 */
    const KExpr *number; /* of the run's first element among the reduced ones (argmin, argmax); the next has
                          * the next number, or the same where by_lane */
    const KExpr *inside; /* false: the run lies outside what is reduced; NULL: inside */
} LowerFold;

typedef struct LowerTarget {
    const Value *value; /* with the space's dims, or dims that broadcast to it */
    const KVar *dst;    /* register array of ktype_of(value->dtype), or a scalar where the run's width is 1;
                           NULL: only folded */
    const KExpr *at;    /* first element of dst that the run fills; NULL: 0 */
    bool stored;        /* dst only goes to lower_store(), which rounds: a last rounding cast is left to it */
    LowerFold fold;
} LowerTarget;

Lower *lower_new(Builder *b, const Region *region);
/* Makes the region's inputs and outputs parameters of the kernel, so that they have their names before
 * anything else. */
void lower_declare_params(Lower *lower);
/* The name of a value in the graph's canonical text. */
const char *lower_value_name(const Lower *lower, const Value *value);
/* Type of coordinates and offsets: i32, or i64 where a dim or a number of elements may pass 2^31. */
KType lower_index_type(const Lower *lower);
/* How loads of what each element of the space reads once are cached from now on; CACHE_DEFAULT at first. */
void lower_set_cache(Lower *lower, KCache cache);

/* From now on, element j of the run has dst[at + j] as its `value` (an accumulator fragment, a resident row).
 */
void lower_bind_array(Lower *lower, const Value *value, const KVar *array, const KExpr *at);
/* From now on `value` is `expr` wherever it is asked for (a row statistic while one row is handled). */
void lower_bind_expr(Lower *lower, const Value *value, const KExpr *expr);
void lower_unbind(Lower *lower, const Value *value);
/* From now on bound arrays hold a product's columns as a fragment does (ir/columns.h): of each row, two of
 * every group of eight. They can then be read at other columns of the same row, and conditions on the column
 * that the group alone decides are known when loops are unrolled. NULL: no longer. */
typedef struct LowerColumns {
    const KExpr *group; /* of the run, within the tile: known when loops are unrolled */
    const KExpr *first; /* element of the arrays where the run would be in group 0 */
    const KExpr *lane;  /* the thread's first column of a group */
    int groups;         /* of the tile */
    int group_stride;   /* elements of the arrays from one group to the next */
    int64_t begin, end; /* columns that runs from now on may have */
} LowerColumns;
void lower_set_columns(Lower *lower, const LowerColumns *columns);
/* Loads of what only the place in the tile says, its row among it, as a table of cosines for each head: how
 * many registers they take for `slots` runs, and after how many groups they repeat (0: there are none). */
int lower_tile_registers(Lower *lower, const Run *shape, const LowerTarget *targets, int n, int slots,
                         int *period);
/* A batch of these loads alone, around those of the boxes that share them. */
void lower_tile_begin(Lower *lower, const Run *shape, const LowerTarget *targets, int n, int slots);
/* A batch around others, whose runs find its loads too; and one of those loads alone that are the same along
 * an axis of the space, which only runs of the others have coordinates along. */
void lower_outer_begin(Lower *lower, const Run *shape, const LowerTarget *targets, int n, int slots);
void lower_fixed_begin(Lower *lower, const Run *shape, const LowerTarget *targets, int n, int slots,
                       int axis);
/* Which of its slots, or of the tile's batch, runs have from now on. */
void lower_set_outer_slot(Lower *lower, const KExpr *slot);

void lower_run(Lower *lower, const Run *run, const LowerTarget *targets, int n);

/* The same in steps, so that the loads of several runs are in flight before the first is used: begin declares
 * registers for the loads of `slots` runs of one shape (rank, axis, width, and whether it has outer and inner
 * numbers, count; bind what is bound before), load, directly after begin, emits the loads of one run, run
 * computes targets of it, once or in several passes. What those targets read besides is loaded by run itself.
 * A slot is any expression below `slots` that is constant once loops are unrolled. Batches nest. */
void lower_batch_begin(Lower *lower, const Run *shape, const LowerTarget *targets, int n, int slots);
void lower_batch_load(Lower *lower, const Run *run, const KExpr *slot);
/* The loads that all runs of the batch share, where shape->repeats: once, between begin and the first load.
 */
void lower_batch_load_shared(Lower *lower, const Run *run);
void lower_batch_run(Lower *lower, const Run *run, const KExpr *slot, const LowerTarget *targets, int n);
void lower_batch_end(Lower *lower);
/* How many registers the loads of one of its runs would take. */
int lower_load_registers(Lower *lower, const Run *shape, const LowerTarget *targets, int n);
/* Which loads a batch holds from now on: all (at first), or only inputs with as many elements as the space.
 */
void lower_batch_streams_only(Lower *lower, bool streams_only);
/* Within a batch: computes once, here, what the targets need that does not vary along the axes from
 * run->split on: what belongs to the whole row. */
void lower_row_values(Lower *lower, const Run *run, const LowerTarget *targets, int n);

/* The four words that one counter gives for uniform(): those of the element at `coords`, whose row-major
 * number is a multiple of four, and of the next three; and the number in [0, 1) that a word is. */
enum { LOWER_WORDS = 4 };
void lower_random_four(Lower *lower, const Value *value, const KExpr *const *coords,
                       const KVar *word[LOWER_WORDS]);
const KExpr *lower_random_number(Builder *b, const KExpr *word);

/* Words of integers of 4 or 8 bits, with each element counted from the least of its type; the element of such
 * a word whose lowest bit is `low`, in its lower half, as a float. */
const KExpr *lower_word_counted(Builder *b, DType dtype, const KExpr *word);
const KExpr *lower_word_element(Builder *b, DType dtype, const KExpr *word, int low);
/* All elements of such a word, not counted yet, as floats: to[first] and on. */
void lower_word_widen(Builder *b, DType dtype, const KExpr *word, const KVar *to, int first);
/* Integers of 4 bits, which are bits 0 to 3 and 16 to 19 of a word, as a pair of f16 or bf16. */
const KExpr *lower_nibble_pair(Builder *b, DType dtype, DType elem, const KExpr *word);

/* 2 to the power x, in one instruction (ATOM_ex2_ftz). */
const KExpr *lower_power_of_two(Builder *b, const KExpr *x);
/* One element, at coordinates of `value` itself (value->rank of them). */
const KExpr *lower_at(Lower *lower, const Value *value, const KExpr *const *coords, const KExpr *guard);
/* Writes the run's elements src[at + j] of an output (region->outputs) to memory, as one vector where strides
 * and alignment allow, rounding as stores do. Coordinates of reduced axes are dropped. Where src is of u32, a
 * type that no element has, it holds words as memory has them, from `at` on, of a run that is stored as
 * vectors or of one element. */
void lower_store(Lower *lower, const Run *run, const Value *output, const KVar *src, const KExpr *at);

/* Computes and writes a bundle (region.h) for the run's row, where the run has one element. */
void lower_store_bundle(Lower *lower, const Run *run, const Value *output);
/* Writes one element of an output, at coordinates of `root`: the output itself, or what it is by reshapes and
 * transposes. */
void lower_store_at(Lower *lower, const Value *output, const Value *root, const KExpr *const *coords,
                    const KExpr *element);

/* Whether a value reduces something with the space's dims over exactly the region's reduced axes. */
bool lower_is_space_reduction(const Region *region, const Value *value);
/* The region's reductions of its space by level: those of one level need only reductions of lower ones, so
 * that one pass over the space computes them. Each, and each reduction of pieces, is bound to a zero until
 * the template binds its result, so that plans stop there. */
typedef struct ReduceLevel {
    const Value **at;
    size_t n;
} ReduceLevel;
typedef struct ReduceLevels {
    ReduceLevel *at;
    int n;
} ReduceLevels;
ReduceLevels lower_find_levels(Lower *lower);
/* How many levels a region has; 0: it reduces nothing. */
int lower_count_levels(const Graph *graph, const Region *region);
/* How many of them a value needs, the first ones; 0: no result of any. */
int lower_levels_of(const Graph *graph, const Region *region, const Value *value);

/* Whether an output is a statistic of blocks of the space's rows (ir/block.h), which no run of the space
 * stores. */
bool lower_output_is_block(const Region *region, const Value *output, BlockStatistic *block);

/* Whether a value varies along the space's last axis and along no reduced one. */
bool lower_is_column(const Region *region, const Value *value);
/* Whether a value has the space's dims. */
bool lower_is_whole(const Region *region, const Value *value);
/* The Value that is computed for an output: below trailing transposes and reshapes, the one that has the
 * space's dims. */
const Value *lower_root(const Region *region, const Value *output);
/* The space's elements of inputs, each as the Value that work starts from: the input itself, or the last of
 * the movements that bring its elements into the space's order. At most `room` into `out`; how many. */
int lower_moved_inputs(const Region *region, const Value **out, int room);
/* Whether an output has an element for each point of the space, rather than for each point of its axes that
 * are kept. */
bool lower_output_is_whole(const Graph *graph, const Region *region, const Value *output);
/* Whether any of the region's outputs has. */
bool lower_stores_whole(const Graph *graph, const Region *region);
/* Whether it has one for each piece of the space's rows. */
bool lower_output_is_piece(const Region *region, const Value *output);
/* Whether runs of this shape can store an output: it fits the space, and elements of less than a byte move in
 * whole bytes. */
bool lower_can_store(const Graph *graph, const Region *region, const Value *output, int axis, int width);
/* Whether runs along the innermost axis that start RUN_SKEWED store an output of the space's size as whole
 * vectors of at most 16 bytes. */
bool lower_can_store_skewed(const Graph *graph, const Region *region, const Value *output, int width);

/* The widest run along `axis` of the space for which every input and output that varies along it can move
 * whole vectors of at most 16 bytes, and the axis' extent is a multiple of it; at least 1. Templates and the
 * cost model agree through this. */
int lower_vector_width(const Graph *graph, const Region *region, int axis);
/* The same where the outputs go to memory: stores of more than 16 bytes a thread leave gaps between them, and
 * sectors are written in twice (H200, log-softmax of 8192 x 8192 from bf16 to f32: 148 us with runs of 8, 106
 * with runs of 4; 11008 x 4096 of i4 to bf16: 44 and 33). */
int lower_stored_width(const Graph *graph, const Region *region, int axis);
/* The widest run that starts so for which every input with as many elements as the space, and every output,
 * moves whole vectors of at most 16 bytes; at least 1. What repeats from row to row is read by the element.
 */
int lower_unaligned_width(const Graph *graph, const Region *region, RunStart start);
/* Whether neighbours along the last axis read elements that are near each other, but one by one: of windows,
 * every second one, alternately of two places. */
bool lower_reads_apart(const Graph *graph, const Region *region);
/* The axis of the space along which neighbouring elements of what `value` reads (for an output: of where it
 * is written) are neighbours in memory; -1 where there is none, or where it reads
 * several inputs. */
int lower_read_axis(const Graph *graph, const Region *region, const Value *value);
int lower_write_axis(const Graph *graph, const Region *region, const Value *output);
/* The coordinates in `value` of a point of the region's space: aligned at the right, 0 where value's dim
 * is 1. */
int lower_value_coords(Builder *b, const Region *region, const Value *value, int rank,
                       const KExpr *const *space, const KExpr **coords);
/* A linear element number to coordinates in dims (row-major), by division. */
void lower_delinearize(Builder *b, const KExpr *linear, int rank, const Dim *const *dims,
                       const KExpr **coords);

#endif
