/* What the files movement*.c share: a reshape or transpose as a change of space, applied to whatever
 * broadcasts to that space. */
#ifndef SINTER_PASSES_MOVEMENT_H
#define SINTER_PASSES_MOVEMENT_H

#include "passes/rewrite.h"

/* A change of space: elements of dims `from` are elements of dims `to` in another order or under other
 * coordinates. */
typedef struct Respace {
    bool is_transpose;
    int rank_from, rank_to;
    const Dim *from[RANK_MAX], *to[RANK_MAX];
    int perm[RANK_MAX]; /* transpose: result axis i is axis perm[i] */
    /* reshape: runs of axes with equal products; group g takes from[begin_from[g]..begin_from[g+1]) to
     * to[begin_to[g]..) */
    int n_groups;
    int begin_from[2 * RANK_MAX + 1], begin_to[2 * RANK_MAX + 1];
} Respace;

/* What a reshape or transpose Value does; false where the reshape does not factor into runs of axes. */
bool respace_of(const Graph *graph, const Value *movement, Respace *out);
/* Axes of `operand` in another order. */
Respace respace_transpose(const Value *operand, const int *perm);
bool respace_inverse(const Respace *respace, Respace *out);
/* Whether a Value that broadcasts to `from` can be expressed as one that broadcasts to `to`. */
bool respace_can(const Respace *respace, const Value *value);
/* Whether what a Value is computed from, element by element, is a reduction in the midst of axes that the
 * movement makes one of columns. */
bool respace_has_leading(const Respace *respace, const Value *value, int depth);
/* That Value, with the movement pushed up through what is element by element towards inputs. */
Value *respace_apply(Rewrite *rewrite, const Respace *respace, Value *value, const Value *like);

/* Whether a transpose keeps the order of the axes that are not of one element. */
bool movement_keeps_order(const Value *transpose);

/* Rules of the pass, by the operation that they look at. Each answers `value` where it has nothing to say. */
Value *movement_hoist(Rewrite *rewrite,
                      Value *value); /* reshape, transpose above what is element by element */
Value *movement_sink(Rewrite *rewrite,
                     Value *value); /* what is element by element above reshape, transpose */
Value *movement_both_ways(Rewrite *rewrite, Value *value);    /* an output that is another one, transposed */
Value *movement_turn_operand(Rewrite *rewrite, Value *value); /* made of transposed matrices, for a product */
Value *movement_turn_result(Rewrite *rewrite, Value *value);  /* a transposed product that is an output */
Value *movement_reduce(Rewrite *rewrite, Value *value);       /* reductions */
/* Whether dims, as those that a border has, are all 0. */
bool movement_is_zero(int n, const Dim *const *dims);
/* The scalar operation that a reduction repeats; OP_COUNT where it is none. */
OpKind movement_repeated(OpKind reduction);
Value *movement_reduce_concat(Rewrite *rewrite, Value *value); /* reductions of single elements, joined */
Value *movement_slice(Rewrite *rewrite, Value *value);
/* By id, which products are cut into the parts of their columns that are read: Pass.state of the pass. */
bool *movement_find_cut(Pass *pass, Graph *graph);
Value *movement_cast_joined(Rewrite *rewrite, Value *value);  /* a rounding behind a concat */
Value *movement_cast_windows(Rewrite *rewrite, Value *value); /* a rounding behind windows */
Value *movement_window(Rewrite *rewrite, Value *value);       /* windows of one element */
Value *movement_below(Rewrite *rewrite, Value *value);        /* slice, concat, reshape of what is moved */

#endif
