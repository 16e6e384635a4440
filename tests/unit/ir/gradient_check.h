/* A derived gradient against differences of its forward graph, both evaluated by the reference.
 *
 * Along a random direction v of the inputs, the sum of dx * v is what dy * (f(x + h v) - f(x - h v)) / 2h
 * sums up to. */
#ifndef SINTER_TESTS_UNIT_IR_GRADIENT_CHECK_H
#define SINTER_TESTS_UNIT_IR_GRADIENT_CHECK_H

#include <math.h>

#include "ir/gradient.h"
#include "ir/reference.h"

enum { GRADIENT_DIRECTIONS = 4 };

typedef struct GradientCheck {
    Arena *arena;
    Diags *diags;
    const Graph *forward;
    int64_t size;         /* of every symbol that has none in `sizes` */
    double low, high;     /* of the inputs */
    double tolerance;     /* relative */
    int64_t below;        /* integer inputs are less; 0: 2 */
    bool are_ties;        /* values are multiples of 1/2: many are equal */
    const int64_t *sizes; /* by symbol; NULL: none */
} GradientCheck;

static uint64_t gradient_draw(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double gradient_uniform(uint64_t *state, double low, double high) {
    return low + (high - low) * (double)(gradient_draw(state) >> 11) * 0x1p-53;
}

static inline DimBindings gradient_bindings(const GradientCheck *check) {
    const DimTable *dims = check->forward->dims;
    DimBindings bindings = dim_bindings_new(check->arena, dims);
    for (int s = 0; s < bindings.n; s++) {
        bindings.known[s] = true;
        bindings.value[s] = check->sizes ? check->sizes[s] : check->size;
    }
    return bindings;
}

static inline Tensor gradient_tensor(const GradientCheck *check, const DimBindings *bindings,
                                     const Value *like) {
    Tensor tensor;
    int64_t dims[RANK_MAX];
    for (int i = 0; i < like->rank; i++)
        assert_true(dim_eval(like->dims[i], bindings, &dims[i]));
    assert_true(tensor_new(check->arena, like->dtype, like->rank, dims, &tensor));
    return tensor;
}

static inline void gradient_fill(const GradientCheck *check, Tensor *tensor, double low, double high,
                                 uint64_t *state) {
    for (int64_t i = 0; i < tensor->count; i++) {
        double drawn = gradient_uniform(state, low, high);
        if (dtype_is_float(tensor->dtype))
            tensor->at[i].f = check->are_ties ? floor(2 * drawn) / 2 : drawn;
        else
            tensor->at[i].i = (int64_t)(gradient_draw(state) % (uint64_t)(check->below ? check->below : 2));
    }
}

/* The sum of dy * f(x + step * v) over all outputs of a floating-point type. */
static inline double gradient_loss(const GradientCheck *check, const DimBindings *bindings, const Tensor *x,
                                   const Tensor *v, double step, const Tensor *dy) {
    const Graph *graph = check->forward;
    Tensor *moved = ARENA_ARRAY(check->arena, Tensor, graph->inputs.n + 1);
    Tensor *outputs = ARENA_ARRAY(check->arena, Tensor, graph->outputs.n + 1);
    for (size_t k = 0; k < graph->inputs.n; k++) {
        moved[k] = gradient_tensor(check, bindings, graph->inputs.at[k]);
        for (int64_t i = 0; i < x[k].count; i++) {
            moved[k].at[i] = x[k].at[i];
            if (dtype_is_float(x[k].dtype))
                moved[k].at[i].f += step * v[k].at[i].f;
        }
    }
    assert_true(reference_run(check->arena, graph, bindings, moved, outputs, check->diags));
    double loss = 0;
    size_t at = 0;
    for (size_t k = 0; k < graph->outputs.n; k++) {
        if (!dtype_is_float(outputs[k].dtype))
            continue;
        for (int64_t i = 0; i < outputs[k].count; i++)
            if (isfinite(outputs[k].at[i].f)) /* what is masked has no slope */
                loss += dy[at].at[i].f * outputs[k].at[i].f;
        at++;
    }
    return loss;
}

/* The gradient of all inputs of floating-point types; NULL, with diagnostics, where there is none. */
static inline Graph *gradient_derive(Arena *arena, const Graph *forward, Diags *diags) {
    int *of = ARENA_ARRAY(arena, int, forward->inputs.n + 1), n = 0;
    for (size_t i = 0; i < forward->inputs.n; i++)
        if (dtype_is_float(forward->inputs.at[i]->dtype))
            of[n++] = (int)i;
    GradientRequest request = {.name = "derived", .of = of, .n = n, .max_values = 20000};
    return gradient_build(arena, forward, &request, diags);
}

static inline Graph *gradient_of_all(Arena *arena, const Graph *forward, Diags *diags) {
    Graph *derived = gradient_derive(arena, forward, diags);
    if (!derived)
        fail_msg("%s: %s", forward->name, diags->list.n ? diags->list.at[0].message : "no gradient");
    return derived;
}

/* The outputs of a gradient graph, of inputs and gradients of outputs that `state` draws; x and dy as they
 * are drawn. */
static inline Tensor *gradient_run(const GradientCheck *check, const Graph *derived,
                                   const DimBindings *bindings, uint64_t *state, Tensor **inputs) {
    Tensor *in = ARENA_ARRAY(check->arena, Tensor, derived->inputs.n + 1);
    Tensor *out = ARENA_ARRAY(check->arena, Tensor, derived->outputs.n + 1);
    for (size_t k = 0; k < derived->inputs.n; k++) {
        bool is_x = k < check->forward->inputs.n;
        in[k] = gradient_tensor(check, bindings, derived->inputs.at[k]);
        gradient_fill(check, &in[k], is_x ? check->low : -1, is_x ? check->high : 1, state);
    }
    assert_true(reference_run(check->arena, derived, bindings, in, out, check->diags));
    *inputs = in;
    return out;
}

static inline void gradient_check(const GradientCheck *check) {
    const Graph *forward = check->forward;
    const Graph *derived = gradient_of_all(check->arena, forward, check->diags);
    DimBindings bindings = gradient_bindings(check);
    uint64_t state = 42;
    Tensor *in, *out = gradient_run(check, derived, &bindings, &state, &in);
    for (int direction = 0; direction < GRADIENT_DIRECTIONS; direction++) {
        Tensor *v = ARENA_ARRAY(check->arena, Tensor, forward->inputs.n + 1);
        double step = 1e-5, along = 0, largest = 0;
        size_t at = 0;
        for (size_t k = 0; k < forward->inputs.n; k++) {
            v[k] = gradient_tensor(check, &bindings, forward->inputs.at[k]);
            for (int64_t i = 0; i < v[k].count && dtype_is_float(v[k].dtype); i++) {
                v[k].at[i].f = gradient_uniform(&state, -1, 1);
                double part = v[k].at[i].f * out[at].at[i].f;
                along += part;
                largest = fmax(largest, fabs(part));
            }
            at += dtype_is_float(v[k].dtype);
        }
        const Tensor *dy = in + forward->inputs.n;
        double slope = (gradient_loss(check, &bindings, in, v, step, dy) -
                        gradient_loss(check, &bindings, in, v, -step, dy)) /
                       (2 * step);
        if (!(fabs(along - slope) <= check->tolerance * (1 + largest + fabs(slope))))
            fail_msg("%s: direction %d: the gradient gives %.12g, differences %.12g", forward->name,
                     direction, along, slope);
    }
}

#endif
