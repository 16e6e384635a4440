/* What shape of runs suits a region, found by planning without building: how wide they may be, and along
 * which axis memory is contiguous. */
#include "codegen/lower_internal.h"

enum { WIDTH_PAIR = 2 }; /* neighbours, for a look at where they lie */

/* A lowering that only plans. */
static Lower *width_planner(const Graph *graph, const Region *region) {
    Diags *diags = ARENA_NEW(graph->arena, Diags);
    Builder *b = ARENA_NEW(graph->arena, Builder);
    diags->arena = graph->arena;
    *b = builder_new(graph->arena, region, graph, NULL, diags);
    Lower *lower = lower_new(b, region);
    lower->is_dry = true;
    return lower;
}

/* Where a run's elements of an output go in memory; false where the output does not fit the space. */
static bool width_output_offset(Lower *lower, const Value *output, const Run *run, LaneCoord *offset) {
    LaneCoord coords[RANK_MAX];
    lower->shape = run;
    if (!lower_output_coords(lower, output, run, coords))
        return false;
    *offset = lane_memory(lower, output, coords);
    return true;
}

bool lower_can_store(const Graph *graph, const Region *region, const Value *output, int axis, int width) {
    if (!lower_output_is_whole(graph, region, output) && !lower_output_is_kept(graph, region, output))
        return false;
    Lower *lower = width_planner(graph, region);
    Run run = {.rank = region->rank, .axis = axis, .width = width};
    LaneCoord offset;
    if (!width_output_offset(lower, output, &run, &offset))
        return false;
    int bits = dtype_bits(output->dtype);
    return bits >= 8 || (width * bits >= 8 && offset.step == 1 && offset.align * bits >= 8 &&
                         !lower_expr_varies(lower, offset.at));
}

int lower_write_axis(const Graph *graph, const Region *region, const Value *output) {
    Lower *lower = width_planner(graph, region);
    for (int axis = region->rank - 1; axis >= 0; axis--) {
        Run run = {.rank = region->rank, .axis = axis, .width = WIDTH_PAIR};
        LaneCoord offset;
        if (!dim_is(region->dims[axis], 1) && width_output_offset(lower, output, &run, &offset) &&
            offset.step == 1 && !lower_expr_varies(lower, offset.at))
            return axis;
    }
    return -1;
}

int lower_read_axis(const Graph *graph, const Region *region, const Value *value) {
    Lower *lower = width_planner(graph, region);
    for (int axis = region->rank - 1; axis >= 0; axis--) {
        if (dim_is(region->dims[axis], 1))
            continue;
        Run run = {.rank = region->rank, .axis = axis, .width = WIDTH_PAIR};
        LowerTarget target = {.value = value};
        size_t mark = lower_open_scope(lower);
        lower_plan(lower, &run, &target, 1);
        lower_close_scope(lower, mark);
        if (lower->loads.n != 1)
            return -1;
        const LowerKey *key = &lower->loads.at[0]->key;
        LaneCoord offset = lane_memory(lower, key->value, key->coords);
        if (offset.step == 1 && !lower_expr_varies(lower, offset.at) && !lower_expr_varies(lower, key->guard))
            return axis;
    }
    return -1;
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
    Lower *lower = width_planner(graph, region);
    for (; width > 1; width /= 2) {
        bool useful = false;
        if (width_fits(lower, axis, width, &useful))
            return useful ? width : 1;
    }
    return 1;
}
