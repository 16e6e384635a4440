/* Stores of outputs. */
#include "codegen/lower_internal.h"
#include "ir/view.h"

enum { WORD_BITS = 32 };

/* Elements [i, i + width) of a run that begins at src[first]. */
static void store_elements(Lower *lower, const KBuffer *buffer, const KExpr *to, const KVar *src,
                           const KExpr *first, int i, int width, const KExpr *guard) {
    Builder *b = lower->b;
    bool is_raw = src->type == K_U32;
    const KExpr *index = k_add(b, to, k_int(b, to->type, i));
    const KExpr *at = k_add(b, first, k_i32(b, is_raw ? i * dtype_bits(buffer->elem) / WORD_BITS : i));
    (is_raw ? k_store_raw : k_store)(b, buffer, index, src, src->count == 0 ? NULL : at, width, guard,
                                     lower->cache);
}

void lower_store(Lower *lower, const Run *run, const Value *output, const KVar *src, const KExpr *at) {
    Builder *b = lower->b;
    LaneCoord coords[RANK_MAX];
    const Run *outer_run = lower->run, *outer_shape = lower->shape;
    lower->run = run;
    lower->shape = run;
    lower->lane = k_i32(b, 0);
    size_t mark = lower_open_scope(lower);
    if (!lower_output_coords(lower, output, run, coords)) {
        diag_error(b->diags, DIAG_INTERNAL, output->span, "'%s' does not fit the space of its region",
                   lower_value_name(lower, output));
        lower->run = outer_run;
        lower->shape = outer_shape;
        return;
    }
    LaneCoord offset = lane_memory(lower, output, coords);
    const KExpr *guard = k_and(b, run->guard, lower_condition(lower, lower_window(lower, output)));
    const KBuffer *buffer = k_global(b, output, true);
    const KExpr *first = at ? k_convert(b, at, K_I32) : k_i32(b, 0);
    int bits = dtype_bits(output->dtype), width = run->width, chunk = 1;
    if (lane_is_run(offset) && !lower_expr_varies(lower, offset.at)) {
        chunk = width * bits > 128 ? 128 / bits : width;
        chunk = chunk > offset.align ? offset.align : chunk;
    }
    b->span = output->span;
    if (width == 1 || (chunk > 1 && chunk * bits >= 8)) {
        const KExpr *to = lower_concrete(lower, offset.at);
        if (width > chunk && to->kind != KX_INT)
            to = k_let_expr(b, text_format(lower->arena, "%s_at", lower_value_name(lower, output)), to);
        for (int i = 0; i < width; i += chunk)
            store_elements(lower, buffer, to, src, first, i, chunk, guard);
    } else {
        lower->lane = k_for_begin(b, "j", k_i32(b, 0), k_i32(b, width), 1, UNROLL_FULL);
        k_store(b, buffer, lower_concrete(lower, lane_expr(lower, offset)), src, k_add(b, first, lower->lane),
                1, guard, lower->cache);
        k_end(b);
    }
    lower_close_scope(lower, mark);
    lower->run = outer_run;
    lower->shape = outer_shape;
}

void lower_store_bundle(Lower *lower, const Run *run, const Value *output) {
    Builder *b = lower->b;
    Run at = *run;
    const char *name = text_format(lower->arena, "%s_v", lower_value_name(lower, output));
    LowerTarget target = {.value = output, .stored = true};
    for (int64_t j = 0; j < region_window(lower->region, output)->width; j++) {
        at.coords[at.axis] = k_int(b, lower->index, j);
        target.dst = k_variable(b, name, ktype_of(output->dtype), NULL);
        lower_run(lower, &at, &target, 1);
        lower_store(lower, &at, output, target.dst, NULL);
    }
}

/* Coordinates in `root` become those in `value`. */
static void store_move(Lower *lower, const Value *value, const Value *root, LaneCoord *at) {
    if (value == root)
        return;
    LaneCoord from[RANK_MAX];
    store_move(lower, value->in[0], root, at);
    memcpy(from, at, sizeof from);
    lower_move_coords(lower, value, from, at);
}

void lower_store_at(Lower *lower, const Value *output, const Value *root, const KExpr *const *coords,
                    const KExpr *element) {
    Builder *b = lower->b;
    const Dim *strides[RANK_MAX];
    LaneCoord at[RANK_MAX];
    for (int i = 0; i < root->rank; i++)
        at[i] = (LaneCoord){k_convert(b, coords[i], lower->index), 0, 1, 1};
    store_move(lower, output, root, at);
    view_base_strides(lower->graph, output, strides);
    k_store_scalar(b, k_global(b, output, true), lane_offset(lower, output->rank, at, strides).at, element,
                   NULL);
}
