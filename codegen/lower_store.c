/* Stores of outputs, and how wide the runs of a region may be. */
#include "codegen/lower_internal.h"
#include "ir/view.h"

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
                   lower_name(lower, output));
        lower->run = outer_run;
        lower->shape = outer_shape;
        return;
    }
    LaneCoord offset = lane_memory(lower, output, coords);
    const KBuffer *buffer = k_global(b, output, true);
    const KExpr *first = at ? k_convert(b, at, K_I32) : k_i32(b, 0);
    int bits = dtype_bits(output->dtype), width = run->width, chunk = 1;
    if (offset.step == 1 && !lower_expr_varies(lower, offset.at)) {
        chunk = width * bits > 128 ? 128 / bits : width;
        chunk = chunk > offset.align ? offset.align : chunk;
    }
    b->span = output->span;
    if (width == 1 || (chunk > 1 && chunk * bits >= 8)) {
        const KExpr *to = lower_concrete(lower, offset.at);
        if (width > chunk && to->kind != KX_INT)
            to = k_let_expr(b, text_format(lower->arena, "%s_at", lower_name(lower, output)), to);
        for (int i = 0; i < width; i += chunk)
            k_store(b, buffer, k_add(b, to, k_int(b, to->type, i)), src,
                    src->count == 0 ? NULL : k_add(b, first, k_i32(b, i)), chunk, run->guard, lower->cache);
    } else {
        lower->lane = k_for_begin(b, "j", k_i32(b, 0), k_i32(b, width), 1, UNROLL_FULL);
        k_store(b, buffer, lower_concrete(lower, lane_expr(lower, offset)), src, k_add(b, first, lower->lane),
                1, run->guard, lower->cache);
        k_end(b);
    }
    lower_close_scope(lower, mark);
    lower->run = outer_run;
    lower->shape = outer_shape;
}

void lower_store_at(Lower *lower, const Value *output, const KExpr *const *coords, const KExpr *element) {
    Builder *b = lower->b;
    const Dim *strides[RANK_MAX];
    LaneCoord at[RANK_MAX];
    for (int i = 0; i < output->rank; i++)
        at[i] = (LaneCoord){k_convert(b, coords[i], lower->index), 0, 1};
    view_base_strides(lower->graph, output, strides);
    k_store_scalar(b, k_global(b, output, true), lane_offset(lower, output->rank, at, strides).at, element,
                   NULL);
}

bool lower_can_store(const Graph *graph, const Region *region, const Value *output, int axis, int width) {
    if (!lower_output_is_whole(graph, region, output) && !lower_output_is_kept(graph, region, output))
        return false;
    Diags diags = {.arena = graph->arena};
    Builder b = builder_new(graph->arena, region, graph, NULL, &diags);
    Lower *lower = lower_new(&b, region);
    Run run = {.rank = region->rank, .axis = axis, .width = width};
    LaneCoord coords[RANK_MAX];
    lower->shape = &run;
    if (!lower_output_coords(lower, output, &run, coords))
        return false;
    LaneCoord offset = lane_memory(lower, output, coords);
    int bits = dtype_bits(output->dtype);
    return bits >= 8 || (width * bits >= 8 && offset.step == 1 && offset.align * bits >= 8 &&
                         !lower_expr_varies(lower, offset.at));
}

/* Whether a run of this width reads and writes in whole vectors wherever elements lie side by side in memory;
 * *useful where some do. */
static bool width_fits(Lower *lower, int axis, int width, bool *useful) {
    const Region *region = lower->region;
    Run run = {.rank = region->rank, .axis = axis, .width = width};
    int n = (int)region->outputs.n;
    size_t room = region->outputs.n + region->values.n + 1;
    LowerTarget *targets = ARENA_ARRAY(lower->arena, LowerTarget, room);
    int n_targets = 0;
    for (int i = 0; i < n; i++)
        targets[n_targets++].value = region->outputs.at[i];
    for (size_t i = 0; i < region->values.n; i++)
        if (lower_is_space_reduction(region, region->values.at[i])) {
            lower_bind_expr(lower, region->values.at[i], lower->zero);
            targets[n_targets++].value = region->values.at[i]->in[0];
        }
    for (size_t i = 0; i < region->cores.n; i++)
        lower_bind_expr(lower, region->cores.at[i], lower->zero);
    size_t mark = lower_open_scope(lower);
    lower_plan(lower, &run, targets, n_targets);
    lower_close_scope(lower, mark);
    for (size_t i = 0; i < lower->loads.n; i++) {
        const LowerEntry *entry = lower->loads.at[i];
        LaneCoord offset = lane_memory(lower, entry->key.value, entry->key.coords);
        if (entry->kind == ENTRY_LANES && offset.step == 1)
            return false;
        int bits = dtype_bits(entry->key.value->dtype);
        int whole = width * bits > 128 ? 128 / bits : width;
        if (entry->kind == ENTRY_VECTOR && entry->chunk < whole)
            return false;
        *useful = *useful || entry->kind == ENTRY_VECTOR;
    }
    for (int i = 0; i < n; i++) {
        LaneCoord coords[RANK_MAX];
        const Value *output = region->outputs.at[i];
        if (!lower_output_coords(lower, output, &run, coords))
            return false;
        LaneCoord offset = lane_memory(lower, output, coords);
        int bits = dtype_bits(output->dtype), whole = width * bits > 128 ? 128 / bits : width;
        if (offset.step == 1 && (offset.align < whole || lower_expr_varies(lower, offset.at)))
            return false;
        *useful = *useful || offset.step == 1;
    }
    return true;
}

/* Bits of the narrowest and the widest element that the region reads or writes. */
static void width_bits(const Region *region, int *narrow, int *wide) {
    *narrow = 128;
    *wide = 1;
    for (size_t i = 0; i < region->inputs.n + region->outputs.n; i++) {
        const Value *value =
            i < region->inputs.n ? region->inputs.at[i] : region->outputs.at[i - region->inputs.n];
        int bits = dtype_bits(value->dtype);
        if (value->rank == 0)
            continue;
        *narrow = bits < *narrow ? bits : *narrow;
        *wide = bits > *wide ? bits : *wide;
    }
}

int lower_vector_width(const Graph *graph, const Region *region, int axis) {
    if (axis < 0 || axis >= region->rank)
        return 1;
    int narrow, wide;
    width_bits(region, &narrow, &wide);
    int width = narrow >= 128 ? 4 : 128 / narrow;
    width = width > 16 ? 16 : width;
    while (width > 2 && width * wide > 256) /* two vectors of the widest at most */
        width /= 2;
    int64_t divisor = dim_divisor(graph->dims, region->dims[axis]);
    while (width > 1 && divisor % width != 0)
        width /= 2;
    Diags diags = {.arena = graph->arena};
    Builder b = builder_new(graph->arena, region, graph, NULL, &diags);
    Lower *lower = lower_new(&b, region);
    lower->is_dry = true;
    for (; width > 1; width /= 2) {
        bool useful = false;
        if (width_fits(lower, axis, width, &useful))
            return useful ? width : 1;
    }
    return 1;
}
