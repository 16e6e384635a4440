/* Shared by the files of gradients; besides them, the table of operations names the rules. */
#ifndef SINTER_IR_GRADIENT_INTERNAL_H
#define SINTER_IR_GRADIENT_INTERNAL_H

#include "ir/gradient.h"

/* What a rule sees: the Value y whose operands it gives to, and dy, of y's dims, in the type that y is
 * computed in. */
typedef struct Gradient {
    Graph *graph;
    Diags *diags;
    Value *value, *dy;
    bool is_cut; /* dy is 0 where a select or the like took something else: slopes there may be infinite */
    bool failed; /* something could not be built, which a diagnostic says */
    /* of the forward graph's Values, by id */
    Value **sums; /* of what users gave; NULL: nothing */
    bool *wanted; /* a wanted input is below */
    bool *cut;    /* is_cut of what was given */
} Gradient;

/* The rules. */
#define SCALAR(NAME, ARITY, RULE, FEXPR, IEXPR, GRADIENT, DOC) void gradient_##NAME(Gradient *g);
#include "ir/scalar.def"
#undef SCALAR
void gradient_none(Gradient *g);
void gradient_cast(Gradient *g);
void gradient_broadcast(Gradient *g);
void gradient_reshape(Gradient *g);
void gradient_transpose(Gradient *g);
void gradient_slice(Gradient *g);
void gradient_window(Gradient *g);
void gradient_pad(Gradient *g);
void gradient_concat(Gradient *g);
void gradient_gather(Gradient *g);
void gradient_sum(Gradient *g);
void gradient_prod(Gradient *g);
void gradient_extreme(Gradient *g);
void gradient_matmul(Gradient *g);

/* Softmax and its logarithms, whoever wrote them, have a gradient of their own: that of the row's largest,
 * which is subtracted only to keep exp in its range, cancels. True where y was one and its x has got its
 * gradient. */
bool gradient_of_softmax(Gradient *g);

/* Likewise what a convolution's windows are of, where y is a product of such windows by w; dy and w in the
 * type that they are multiplied in. */
bool gradient_of_convolved(Gradient *g, Value *dy, Value *w);
/* And where y is a sum of windows times weights, channel by channel; of the weights too. */
bool gradient_of_channels(Gradient *g);
/* The type in which dy is multiplied with an operand, so that tensor cores do; DTYPE_COUNT: as it is. Of 8
 * bits, dy would have too few. */
DType gradient_factor_type(const Gradient *g, DType operand);

/* ---- gradient.c: what rules give ---- */
bool gradient_wants(const Gradient *g, int operand);
/* Adds to the gradient of an operand of y; of what is larger than the operand, which was repeated, the sum.
 */
void gradient_give(Gradient *g, int operand, Value *contribution);
void gradient_give_value(Gradient *g, Value *to, Value *contribution);
/* The same with gradients that are 0 where something else was taken. */
void gradient_give_cut(Gradient *g, int operand, Value *contribution);
/* One diagnostic at y, which says why it has no gradient. */
void gradient_refuse(Gradient *g, const char *why);

/* ---- gradient_build.c: what rules build; each passes a NULL on ---- */
Value *derive_scalar(Gradient *g, OpKind op, Value *a, Value *b, Value *c);
Value *derive_number(Gradient *g, double number); /* of dy's type */
Value *derive_cast(Gradient *g, Value *x, DType dtype);
Value *derive_broadcast(Gradient *g, Value *x, int rank, const Dim *const *dims);
Value *derive_reshape(Gradient *g, Value *x, int rank, const Dim *const *dims);
Value *derive_transpose(Gradient *g, Value *x, const int *perm);
Value *derive_swapped(Gradient *g, Value *x); /* the last two axes */
Value *derive_reduced(Gradient *g, OpKind op, Value *x, const bool *over, bool keep);
Value *derive_padded(Gradient *g, Value *x, const Dim *const *low, const Dim *const *high); /* with zeros */
/* step NULL: 1 everywhere */
Value *derive_slice(Gradient *g, Value *x, const Dim *const *start, const Dim *const *limit, const int *step);
Value *derive_window(Gradient *g, Value *x, int axis, int64_t size, int64_t dilation);
Value *derive_product(Gradient *g, Value *a, Value *b);
/* Summed over what broadcasting, or a product's batch, repeated of a Value with these dims. */
Value *derive_summed(Gradient *g, Value *x, int rank, const Dim *const *dims);
/* x behind so many zeros, in an axis of `dim`; fewer than `step` of its last elements, zeros, may not fit and
 * are cut off. */
Value *derive_fitted(Gradient *g, Value *x, int axis, const Dim *before, int64_t step, const Dim *dim);
/* Elements of an axis `step` apart from `start` on, in `dim`, zeros elsewhere: a slice back. */
Value *derive_placed(Gradient *g, Value *x, int axis, const Dim *start, int64_t step, const Dim *dim);

#endif
