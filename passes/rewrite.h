/* What passes that replace Values share: one walk that replaces, and builders that read like the operations
 * they make. */
#ifndef SINTER_PASSES_REWRITE_H
#define SINTER_PASSES_REWRITE_H

#include "passes/pass.h"

/* One walk over a graph. `uses` counts, per id, who needs a Value that stood in the graph when the walk
 * began; below n_before. */
typedef struct Rewrite {
    Pass *pass;
    Graph *graph;
    const int *uses;
    const uint8_t *users; /* by id below n_before: USER_ bits of what reads the Value */
    size_t n_before;
    VEC(bool)
    heavy; /* by place in graph->values: a reduction or a matmul is among what the Value is computed from */
} Rewrite;

enum { USER_CONTRACTION = 1, USER_SLICE = 2, USER_REDUCTION = 4, USER_OTHER = 8 };

/* What stands for `value` from now on: `value` itself, or a Value of equal dtype and dims that was there or
 * was appended. */
typedef Value *(*RewriteRule)(Rewrite *rewrite, Value *value);

/* Calls rule(value) on each Value in topological order, its operands already replaced, and puts the graph in
 * order again. True where something was replaced. Names, outputs and hints move to what stands for the old
 * Value. */
bool rewrite_graph(Pass *pass, Graph *graph, RewriteRule rule);

/* Uses of a Value of the walk; Values made during the walk count as used once. */
int rewrite_uses(const Rewrite *rewrite, const Value *value);
/* USER_ bits of what reads `value`; Values made during the walk count as read by USER_OTHER. */
int rewrite_users(const Rewrite *rewrite, const Value *value);
/* Whether a reduction or a matmul is among what `value` is computed from. */
bool rewrite_is_heavy(Rewrite *rewrite, const Value *value);

/* By id, whether an output of more than 16 bits is computed of a value, rounded no more on the way: what
 * would show if factors were rounded elsewhere than the graph says. */
bool *rewrite_find_shown(Pass *pass, Graph *graph);

/* By id, whether an operation that `takes` reads a value, as it is or after what is computed of it element by
 * element. */
bool *rewrite_find_taken(Pass *pass, const Graph *graph, bool (*takes)(const Value *reader));

/* Whether the source says something of `value`; how to compute it, or what is computed of it. */
bool rewrite_has_hint(const Graph *graph, const Value *value);
bool rewrite_has_schedule(const Graph *graph, const Value *value);
/* Whether one operation alone reads `value`, and the source says nothing of it. */
bool rewrite_is_free(const Rewrite *rewrite, const Value *value);

/* Builders. The operations' rules must hold: a failure is a defect and leaves a diagnostic and NULL. */
Value *build_scalar(Rewrite *rewrite, OpKind op, Value *a, Value *b, Value *c, const Value *like);
/* exp(x - base). */
Value *build_exp_below(Rewrite *rewrite, Value *x, Value *base, const Value *like);
Value *build_cast(Rewrite *rewrite, Value *value, DType dtype, const Value *like);
Value *build_reshape(Rewrite *rewrite, Value *value, int rank, const Dim *const *dims, const Value *like);
Value *build_transpose(Rewrite *rewrite, Value *value, const int *perm, const Value *like);
/* The order that exchanges the last two of at least two axes, and the transpose to it. */
void turn_perm(int rank, int *perm);
Value *build_turned(Rewrite *rewrite, Value *value, const Value *like);
Value *build_broadcast(Rewrite *rewrite, Value *value, int rank, const Dim *const *dims, const Value *like);
Value *build_slice(Rewrite *rewrite, Value *value, const Dim *const *start, const Dim *const *limit,
                   const int *step, const Value *like);
/* What lies from `start` up to `limit` along one axis. */
Value *build_part(Rewrite *rewrite, Value *value, int axis, const Dim *start, const Dim *limit, int step,
                  const Value *like);
/* What windows of `size` elements have along an axis, `step` apart: their places there, and a last axis. */
Value *build_window(Rewrite *rewrite, Value *value, int axis, const Dim *size, int step, const Value *like);
Value *build_pad(Rewrite *rewrite, Value *value, Value *border, const Dim *const *low, const Dim *const *high,
                 const Value *like);
Value *build_reduce(Rewrite *rewrite, OpKind op, Value *value, int n_axes, const int *axes, bool keep,
                    const Value *like);
/* The product of two matrices, in the type that infer.c gives it. */
Value *build_matmul(Rewrite *rewrite, Value *a, Value *b, const Value *like);
/* A scalar constant of exactly this type. */
Value *build_constant(Rewrite *rewrite, Number number, DType dtype, const Value *like);
/* A dim as an i64 scalar. */
Value *build_dim(Rewrite *rewrite, const Dim *dim, const Value *like);
/* The coordinate along an axis of a space of these dims. */
Value *build_index(Rewrite *rewrite, int rank, const Dim *const *dims, int axis, const Value *like);
/* The same operation and attributes on other operands. */
Value *build_like(Rewrite *rewrite, const Value *value, Value **in);

/* Classes that passes ask for. */
bool value_is_pointwise(
    const Value *value);    /* scalar primitives and casts: element by element, operands broadcast */
bool op_is_view(OpKind op); /* reshape, transpose, slice, broadcast */
/* What a value is such operations of. */
Value *value_below_views(const Value *value);
bool value_is_heavy(const Value *value); /* reductions, contractions: what fusion is built around */
/* Whether `value` is computed from `source`, or is it, as far as a bounded search sees. */
bool value_is_computed_from(const Value *value, const Value *source);
bool value_is_scalar_constant(const Value *value);
/* Whether a reduction is over that axis of its operand; and whether it numbers elements (argmax, argmin), so
 * that their order is told. */
bool value_reduces(const Value *reduction, int axis);
bool value_is_arg(const Value *reduction);
/* Whether it is a slice that has all of its operand's rows, and some of the columns. */
bool value_takes_columns(const Value *value);
OpClass value_class(const Value *value);

#endif
