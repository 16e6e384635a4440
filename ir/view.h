/* Affine views: a Value that is its base's memory under other strides, with nothing computed.
 *
 * transpose, slice, broadcast, a reshape that splits or joins packed axes, and exact widening casts are
 * views. Element (c0, ..., cr-1) of the Value is element offset + sum(ci * stride[i]) of the base's buffer.
 * Matmul and attention templates ask for the view of an operand to see whether TMA can read it; pointwise
 * code asks for vector width. */
#ifndef SINTER_IR_VIEW_H
#define SINTER_IR_VIEW_H

#include "ir/graph.h"

typedef struct View {
    Value *base;                  /* where the walk stopped: an input, or what some kernel computes */
    const Dim *offset;            /* elements */
    const Dim *strides[RANK_MAX]; /* elements; 0 along broadcast axes */
} View;

/* Follows views from `value` down to the first base for which is_base(context, v) holds or that is no view.
 * Always succeeds: a computed value is its own base, packed row-major. */
View view_of(const Graph *graph, Value *value, bool (*is_base)(void *context, const Value *v), void *context);
/* An is_base for walks down to what a graph is given. */
bool view_is_input(void *context, const Value *value);
/* The axis of its operand that an axis of a reshape is, where this does no more than put in or leave out axes
 * of one; -1: it does, or the axis is one of those. */
int view_axis_below_reshape(const Value *reshape, int axis);
/* A view of slices that indices choose (gather), of data that is a view: element (c0, ..., cr-1) is that of
 * `data` with `at * step` more, where `at` is the element of `index` at the same coordinates, both with
 * strides of 0 along the axes that are not theirs; 0 where `at` is not from 0 to `extent` - 1.
 *
 * Slices may be pages, as those of a cache are: one behind the other along page_axis, where `data` takes an
 * element's coordinate within its page, and `index` the number of the page. */
typedef struct ViewGather {
    View data, index;
    const Dim *step, *extent; /* of data's base along the axis of which slices are chosen */
    const Dim *page;          /* elements of a page along page_axis; NULL: there are no pages */
    int page_axis;
} ViewGather;
/* False where `value` is no gather under views, or strides cannot say where its elements are. */
bool view_gather(const Graph *graph, Value *value, bool (*is_base)(void *context, const Value *v),
                 void *context, ViewGather *gather);
/* The same of pages; false where `value` is not of pages along one axis. */
bool view_pages(const Graph *graph, Value *value, bool (*is_base)(void *context, const Value *v),
                void *context, ViewGather *gather);
/* Strides of the memory of a base: its declared ones, or packed. */
void view_base_strides(const Graph *graph, const Value *base, const Dim **strides);
/* Where the axes of a Value lie in memory that has them in another order, or in parts. Axes in order, of each
 * the outer factors first; an axis of one element has none. */
enum { VIEW_FACTORS_MAX = 2 * RANK_MAX };
typedef struct ViewFactor {
    int axis, base_axis; /* of the base: that of which it is a part; unless factors were joined */
    const Dim *dim, *stride;
} ViewFactor;
typedef struct ViewFactors {
    ViewFactor at[VIEW_FACTORS_MAX];
    int n;
    const Dim *offset; /* of element 0, in elements */
} ViewFactors;
/* That of `root`, taken as a tensor of dims `as` with as many elements, in the memory of `stored`, which is
 * `root` by reshapes and transposes alone. False where strides cannot say. */
bool view_stored(const Graph *graph, const Value *stored, const Value *root, int rank, const Dim *const *as,
                 ViewFactors *factors);
/* The other way: where the axes of `value` lie in memory in which `base` lies with these strides (0: it
 * repeats there), from which it comes by reshapes, transposes and slices alone. False where strides cannot
 * say. */
bool view_factors(const Graph *graph, const Value *value, const Value *base, const Dim *const *strides,
                  ViewFactors *factors);
/* Where a Value's elements are in a base: along its axis i at start[i] + sum(coordinate * stride) over the
 * factors of base_axis i, whose strides are steps along that axis here. Where that is outside of the base,
 * and has_border, the element is zero. */
typedef struct ViewPlaces {
    Value *base;
    ViewFactors factors; /* none joined; offset is NULL */
    const Dim *start[RANK_MAX];
    bool has_border;
    bool is_cut[RANK_MAX]; /* axes of the base of which elements may be left out */
} ViewPlaces;
/* Through reshapes, transposes, slices, windows and, along axes that these leave whole below them, pads with
 * zeros, down to the first base for which is_base(context, v) holds or that is none of these. False where
 * steps cannot say. */
bool view_places(const Graph *graph, Value *value, bool (*is_base)(void *context, const Value *v),
                 void *context, ViewPlaces *places);
/* What a Value comes from by those alone, or the first base for which is_base(context, v) holds. */
Value *view_below_movements(Value *value, bool (*is_base)(void *context, const Value *v), void *context);
/* Whether a distance in elements is known to be one of whole 16 bytes, in which TMA moves. */
bool view_is_step(const Graph *graph, const Dim *distance, DType elem);
/* Largest power of two (in elements, at most `limit`) such that an access at any coordinate that is a
 * multiple of it along `axis` is contiguous and aligned to it; 1 if not contiguous there. */
int view_vector_width(const Graph *graph, const View *view, const Value *value, int axis, int limit);

#endif
