/* Several groups of a convolution's channels in one product (groups.c): how many, and what is made of them.
 *
 * The times that decide are of an H200, of 16-bit elements, 3 x 3 taps and 1 x 1, each number of groups that
 * divides 8 to 64 of them by itself. */
#include <math.h>

#include "ir/gaps.h"
#include "passes/groups.h"

enum {
    GROUPS_LINE = 64,          /* channels of a line of memory, and of a step of K */
    GROUPS_MOST = 512,         /* channels together */
    GROUPS_POINTS_MOST = 256,  /* the same where windows are of one place: memory is what takes the time */
    GROUPS_PLACES_LEAST = 512, /* of a gradient of weights: fewer are little work */
    GROUPS_SPARE = 64          /* columns that what a tile takes of its rows counts as */
};

/* Elements of K times columns a second: by matrix instructions, forward and for the gradient of weights, and
 * one by one; bytes a second; and what the weights' kernel takes, in seconds. */
static const double groups_rate = 4.57e14, groups_gradient_rate = 2.87e14, groups_elements = 8e12,
                    groups_bytes = 4e12, groups_copy = 3e-6;
/* The share of its time at which to multiply groups together is preferred. */
static const double groups_gain = 0.8;

static double groups_lines(double n) {
    return ceil(n / GROUPS_LINE) * GROUPS_LINE;
}

static bool groups_are_known(const WindowRows *rows) {
    return rows->grouped && dim_is_const(rows->channels) && dim_is_const(rows->groups) &&
           rows->channels->value > 0 && rows->groups->value > 1;
}

/* A product of several groups, to its estimates. */
typedef struct GroupsProduct {
    const WindowRows *rows;
    double features, neighbours; /* of a group; that are neighbours in the result */
    double places, taps;
    bool is_few; /* a group by itself is done element by element */
} GroupsProduct;

static GroupsProduct groups_of(const DimTable *table, const WindowRows *rows, const Dim *features) {
    return (GroupsProduct){.rows = rows,
                           .features = (double)features->value,
                           .neighbours = (double)features->value,
                           .places = (double)dim_lower(table, rows->places),
                           .taps = (double)dim_lower(table, rows->taps)};
}

/* The bytes of lines that memory gives for one of so many channels; TMA takes multiples of 8. */
static double groups_traffic(double width) {
    return (1 + 40 / width) * (fmod(width, 8) != 0 ? 2.5 : width < 48 ? 1.6 : 1);
}

/* Seconds that memory takes: windows of several places read lines again, which L2 has, but those of one, and
 * results in phases, are runs of channels of as many groups. */
static double groups_memory(const GroupsProduct *p, int64_t together) {
    double channels = (double)p->rows->channels->value;
    double bytes = 2 * p->places * (double)p->rows->groups->value * (channels + p->features);
    bool has_phases = p->neighbours < p->features;
    double run = (double)together * (has_phases ? p->neighbours : channels);
    return bytes * (p->taps == 1 || has_phases ? groups_traffic(run) : 1) / groups_bytes;
}

/* Of the numbers of groups that divide all of them, and whose channels TMA takes, that which takes least; 1
 * where that is hardly less. */
typedef double GroupsSeconds(const GroupsProduct *p, int64_t together);
static int64_t groups_best(const GroupsProduct *p, GroupsSeconds *seconds) {
    int64_t groups = p->rows->groups->value, channels = p->rows->channels->value, best = 1;
    double least = seconds(p, 1) * groups_gain;
    for (int64_t q = 2; q <= groups && q <= GROUPS_MOST / channels; q++) {
        double taken = groups % q == 0 && q * channels % 8 == 0 ? seconds(p, q) : INFINITY;
        if (taken < least) {
            least = taken;
            best = q;
        }
    }
    return best;
}

/* Whether elements of a space of these dims lie on the diagonal of two axes: are a group's own. */
static Value *groups_are_own(Rewrite *rewrite, int rank, const Dim *const *dims, int a, int b,
                             const Value *like) {
    Value *i = build_index(rewrite, rank, dims, a, like), *j = build_index(rewrite, rank, dims, b, like);
    return i && j ? build_scalar(rewrite, OP_eq, i, j, NULL, like) : NULL;
}

/* ---- forward, and back to the input */

bool groups_product(Rewrite *rewrite, const Value *product, WindowRows *rows) {
    const Value *second = product->in[1];
    return window_rows(rewrite->graph->dims, product->in[0], rows) && groups_are_known(rows) &&
           second->rank == 3 && second->dims[0] == rows->groups && dim_is_const(second->dims[2]) &&
           second->dims[2]->value > 0 && !gaps_in(second); /* which only one matrix has, not one of several */
}

/* The features of a group that are neighbours in the result: those of one phase, of the gradient of strided
 * windows, where a group's columns are (phase, feature) and the weights are so joined (library.sg). */
static const Dim *groups_neighbours(const Value *weights) {
    const Dim *all = weights->dims[2];
    const Value *parts = weights->op == OP_reshape ? weights->in[0] : weights;
    const Dim *last = parts->dims[parts->rank - 1];
    bool divides = dim_is_const(last) && last->value > 0 && all->value % last->value == 0;
    return divides ? last : all;
}

/* How often a step of K of whole lines fits into the time of one of so many channels a tap: TMA brings boxes
 * of the largest power of two that divides them, and what it does not bring is computed. */
static double groups_steps(int64_t width, bool is_all) {
    if (width % 64 == 0)
        return 1;
    if (width % 32 == 0)
        return width == 32 ? 1.65 : 1.1;
    if (is_all && width > 64) /* multiplied as if they were lines (realign_windows.c) */
        return groups_lines((double)width) / (double)width;
    if (width % 16 == 0)
        return width == 16 ? 1.65 : 2.2;
    return width < 48 ? 4.5 : 2.5;
}

static double groups_seconds(const GroupsProduct *p, int64_t together) {
    int64_t groups = p->rows->groups->value, width = together * p->rows->channels->value;
    if (p->taps == 1 && together > 1 && width > GROUPS_POINTS_MOST)
        return INFINITY;
    double k = (double)groups * (double)p->rows->channels->value;
    if (together == 1 && p->is_few)
        return p->places * p->taps * k * p->features / groups_elements;
    double columns = (double)together * p->features + GROUPS_SPARE;
    double multiplied =
        p->places * p->taps * k * groups_steps(width, together == groups) * columns / groups_rate;
    return fmax(multiplied, groups_memory(p, together)) + (together > 1 ? groups_copy : 0);
}

int64_t groups_together(Rewrite *rewrite, const Value *product, const WindowRows *rows, bool is_few) {
    const Value *weights = product->in[1];
    if (dtype_bits(product->in[0]->dtype) != 16 || dtype_bits(weights->dtype) != 16)
        return 1;
    GroupsProduct p = groups_of(rewrite->graph->dims, rows, weights->dims[2]);
    p.neighbours = (double)groups_neighbours(weights)->value;
    p.is_few = is_few;
    return groups_best(&p, groups_seconds);
}

/* The rows of so many groups together: a batch of matrices, or one of all. */
static Value *groups_joined_rows(Rewrite *rewrite, const WindowRows *rows, int64_t together) {
    DimTable *table = rewrite->graph->dims;
    int n = together == rows->groups->value ? 0 : 1; /* axes of the batch */
    const Dim *groups = dim_const(table, rows->groups->value / together),
              *channels = dim_const(table, rows->channels->value * together);
    const Dim *parts[] = {rows->places, groups, channels, rows->taps};
    const Dim *whole[] = {groups, rows->places, dim_mul(table, rows->taps, channels)};
    parts[!n] = rows->places; /* in place of the one group */
    Value *apart = build_reshape(rewrite, rows->windows, 3 + n, parts + !n, rows->windows);
    Value *turned = apart ? build_transpose(rewrite, apart, window_rows_order(n), rows->windows) : NULL;
    return turned ? build_reshape(rewrite, turned, 2 + n, whole + !n, rows->windows) : NULL;
}

/* The product of two such operands, of which the rows are one, with its batch: [G / q, M, N]. */
static Value *groups_multiply(Rewrite *rewrite, const Value *product, Value *first, Value *second) {
    if (!first || !second)
        return NULL;
    const Dim *one = dim_const(rewrite->graph->dims, 1);
    Value *in[] = {first, second};
    for (int i = 0; i < 2; i++)
        if (in[i]->rank == 3 && in[!i]->rank == 2)
            in[i] = build_reshape(rewrite, in[i], 2, (const Dim *const *)in[i]->dims + 1, product);
    Value *all = in[0] && in[1] ? build_like(rewrite, product, in) : NULL;
    if (!all || all->rank == 3)
        return all;
    return build_reshape(rewrite, all, 3, (const Dim *[]){one, all->dims[0], all->dims[1]}, product);
}

/* The second operands of so many groups, [G, R S C, P F], as one with gaps around each (ir/gaps.h), of
 * neighbours along K. The groups' columns alternate, P times, since their features are neighbours in the
 * result. */
static Value *groups_joined_weights(Rewrite *rewrite, const WindowRows *rows, int64_t together,
                                    Value *weights) {
    DimTable *table = rewrite->graph->dims;
    enum { FEATURES_OF = 2, CHANNELS_OF = 5, RANK = 7 };
    const Dim *q = dim_const(table, together), *one = dim_const(table, 1);
    const Dim *features = groups_neighbours(weights), *phases = dim_div(table, weights->dims[2], features);
    const Dim *groups = dim_const(table, rows->groups->value / together);
    const Dim *parts[] = {groups, q, rows->taps, rows->channels, phases, features};
    const Dim *apart[RANK] = {groups, phases, q, features, rows->taps, one, rows->channels};
    const Dim *wide[RANK] = {groups, phases, q, features, rows->taps, q, rows->channels};
    const Dim *whole[] = {groups, dim_mul(table, q, weights->dims[2]),
                          dim_mul(table, rows->taps, dim_mul(table, q, rows->channels))};
    Value *turned = build_reshape(rewrite, weights, 6, parts, weights);
    turned = turned ? build_transpose(rewrite, turned, (int[]){0, 4, 1, 5, 2, 3}, weights) : NULL;
    Value *own = turned ? build_reshape(rewrite, turned, RANK, apart, weights) : NULL;
    own = own ? build_broadcast(rewrite, own, RANK, wide, weights) : NULL;
    Value *is_own = groups_are_own(rewrite, RANK, wide, CHANNELS_OF, FEATURES_OF, weights);
    Value *zero = build_constant(rewrite, (Number){.f = 0}, weights->dtype, weights),
          *gap = build_constant(rewrite, (Number){.f = -0.0}, weights->dtype, weights);
    if (!is_own || !own || !zero || !gap)
        return NULL;
    Value *is_zero = build_scalar(rewrite, OP_eq, own, zero, NULL, weights);
    own = is_zero ? build_scalar(rewrite, OP_select, is_zero, zero, own, weights) : NULL;
    Value *all = own ? build_scalar(rewrite, OP_select, is_own, own, gap, weights) : NULL;
    all = all ? build_cast(rewrite, all, weights->dtype, weights) : NULL; /* as it was: nothing is rounded */
    all = all ? build_reshape(rewrite, all, 3, whole, weights) : NULL;
    return all ? build_turned(rewrite, all, weights) : NULL;
}

Value *groups_multiplied(Rewrite *rewrite, const Value *product, const WindowRows *rows, int64_t together) {
    DimTable *table = rewrite->graph->dims;
    Value *weights = product->in[1];
    Value *all = groups_multiply(rewrite, product, groups_joined_rows(rewrite, rows, together),
                                 groups_joined_weights(rewrite, rows, together, weights));
    if (!all)
        return NULL;
    const Dim *features = groups_neighbours(weights);
    const Dim *parts[] = {all->dims[0], all->dims[1], dim_div(table, weights->dims[2], features),
                          dim_const(table, together), features};
    Value *apart = build_reshape(rewrite, all, 5, parts, product);
    Value *turned = apart ? build_transpose(rewrite, apart, (int[]){0, 3, 1, 2, 4}, product) : NULL;
    return turned ? build_reshape(rewrite, turned, 3, (const Dim *const *)product->dims, product) : NULL;
}

/* ---- the gradient of weights */

bool groups_gradient(Rewrite *rewrite, const Value *product, WindowRows *rows) {
    const Value *first = product->in[0];
    return window_rows(rewrite->graph->dims, product->in[1], rows) && groups_are_known(rows) &&
           first->rank == 3 && first->dims[0] == rows->groups && first->dims[2] == rows->places &&
           dim_is_const(first->dims[1]) &&
           dim_lower(rewrite->graph->dims, rows->places) >= GROUPS_PLACES_LEAST;
}

/* How often a tile of lines of channels fits into the time of one of so many, along N: boxes have lines of
 * one tap, or less of one where lines are not whole. */
static double groups_boxes(const GroupsProduct *p, int64_t width, int64_t together) {
    bool is_point = p->taps == 1, is_all = together == p->rows->groups->value;
    if (width % GROUPS_LINE == 0 || (width > GROUPS_LINE && (is_all || is_point)))
        return 1;
    if (width > GROUPS_LINE)
        return together == 1 ? 2.2 : width % 32 == 0 ? 2 : 8;
    return !is_point || width % 8 ? 8 : width < 32 ? 2.5 : 1.2;
}

static double groups_gradient_seconds(const GroupsProduct *p, int64_t together) {
    int64_t width = together * p->rows->channels->value;
    double q = (double)together, products = (double)p->rows->groups->value / q;
    double tiles = products * groups_lines(q * p->features) * groups_lines((double)width) *
                   groups_boxes(p, width, together);
    return fmax(p->places * p->taps * tiles / groups_gradient_rate, groups_memory(p, together));
}

int64_t groups_gradient_together(Rewrite *rewrite, const Value *product, const WindowRows *rows) {
    GroupsProduct p = groups_of(rewrite->graph->dims, rows, product->dims[1]);
    return groups_best(&p, groups_gradient_seconds);
}

/* Each group's own features and channels of p. */
static Value *groups_own(Rewrite *rewrite, const WindowRows *rows, int64_t together, Value *all,
                         const Value *product) {
    DimTable *table = rewrite->graph->dims;
    const Dim *q = dim_const(table, together);
    const Dim *apart[] = {all->dims[0], q, product->dims[1], rows->taps, q, rows->channels};
    enum { FEATURES_OF = 1, CHANNELS_OF = 4, RANK = 6 };
    Value *parts = build_reshape(rewrite, all, RANK, apart, product);
    Value *zero = build_constant(rewrite, (Number){.f = 0}, product->dtype, product);
    Value *is_own = groups_are_own(rewrite, RANK, apart, FEATURES_OF, CHANNELS_OF, product);
    Value *own =
        is_own && parts && zero ? build_scalar(rewrite, OP_select, is_own, parts, zero, product) : NULL;
    Value *sum = own ? build_reduce(rewrite, OP_sum, own, 1, (int[]){CHANNELS_OF}, false, product) : NULL;
    return sum ? build_reshape(rewrite, sum, 3, (const Dim *const *)product->dims, product) : NULL;
}

Value *groups_gradient_multiplied(Rewrite *rewrite, const Value *product, const WindowRows *rows,
                                  int64_t together) {
    DimTable *table = rewrite->graph->dims;
    const Value *first = product->in[0];
    const Dim *joined[] = {dim_const(table, rows->groups->value / together),
                           dim_mul(table, first->dims[1], dim_const(table, together)), first->dims[2]};
    Value *all = groups_multiply(rewrite, product, build_reshape(rewrite, product->in[0], 3, joined, first),
                                 groups_joined_rows(rewrite, rows, together));
    return all ? groups_own(rewrite, rows, together, all, product) : NULL;
}
