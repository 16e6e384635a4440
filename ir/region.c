/* What a region borders on, and the text of a partition: what --emit=regions shows. */
#include "ir/region.h"

#include <string.h>

#include "ir/print.h"
#include "ir/value_map.h"

Region *region_part(Arena *arena, const Region *whole, Value *const *outputs, size_t n_outputs,
                    const Value *held, const Value *core) {
    Region *part = ARENA_NEW(arena, Region);
    *part = (Region){.id = whole->id, .kind = TEMPLATE_MATMUL, .name = whole->name, .rank = core->rank};
    memcpy(part->dims, core->dims, sizeof part->dims);
    ValueMap needed = {.arena = arena};
    for (size_t i = 0; i < n_outputs; i++) {
        vec_push(arena, &part->outputs, outputs[i]);
        value_map_set(&needed, outputs[i], true);
    }
    for (size_t i = whole->values.n; i-- > 0;) { /* users before what they use */
        Value *value = whole->values.at[i];
        if (!value_map_get(&needed, value))
            continue;
        if (value == held) {
            vec_push(arena, &part->inputs, value);
            continue;
        }
        vec_push(arena, &part->values, value);
        for (int k = 0; k < value->n_in; k++)
            value_map_set(&needed, value->in[k], true);
    }
    for (size_t i = 0, n = part->values.n; i < n / 2; i++) { /* topological again */
        Value *value = part->values.at[i];
        part->values.at[i] = part->values.at[n - 1 - i];
        part->values.at[n - 1 - i] = value;
    }
    for (size_t i = 0; i < whole->inputs.n; i++)
        if (value_map_get(&needed, whole->inputs.at[i]))
            vec_push(arena, &part->inputs, whole->inputs.at[i]);
    return part;
}

#define REGION_COPY(arena, to, from)                                                                         \
    do {                                                                                                     \
        memset(&(to), 0, sizeof(to));                                                                        \
        for (size_t i_ = 0; i_ < (from).n; i_++)                                                             \
            vec_push((arena), &(to), (from).at[i_]);                                                         \
    } while (0)

Region *region_copy(Arena *arena, const Region *region) {
    Region *copy = ARENA_NEW(arena, Region);
    *copy = *region;
    REGION_COPY(arena, copy->values, region->values);
    REGION_COPY(arena, copy->inputs, region->inputs);
    REGION_COPY(arena, copy->outputs, region->outputs);
    REGION_COPY(arena, copy->cores, region->cores);
    REGION_COPY(arena, copy->sums, region->sums);
    REGION_COPY(arena, copy->windows, region->windows);
    if (region->guest)
        copy->guest = region_copy(arena, region->guest);
    return copy;
}

const Dim *region_extent(const Graph *graph, const Region *region, int begin, int end) {
    return dims_product(graph->dims, (const Dim *const *)region->dims + begin, end - begin);
}

bool region_reads(const Region *region, const Value *value) {
    for (size_t i = 0; i < region->inputs.n; i++)
        if (region->inputs.at[i] == value)
            return true;
    return false;
}

bool region_is_memory(void *region, const Value *value) {
    return region_reads(region, value);
}

bool region_writes(const Region *region, const Value *value) {
    for (size_t i = 0; i < region->outputs.n; i++)
        if (region->outputs.at[i] == value)
            return true;
    return false;
}

bool region_kernel_computes(const Region *region, const Value *value) {
    for (const Region *part = region; part; part = part->guest)
        for (size_t i = 0; i < part->values.n; i++)
            if (part->values.at[i] == value)
                return true;
    return false;
}

bool region_kernel_writes(const Region *region, const Value *value) {
    for (const Region *part = region; part; part = part->guest)
        if (region_writes(part, value))
            return true;
    return false;
}

bool region_has_piece_dims(const Region *region, const Value *value) {
    int last = region->rank - 1;
    if (region->kind != TEMPLATE_ROWS || region->n_reduced != 2 || value->rank != region->rank ||
        !dim_is(value->dims[last], 1) || dim_is(region->dims[last], 1) || dim_is(region->dims[last - 1], 1))
        return false;
    for (int i = 0; i < last; i++)
        if (value->dims[i] != region->dims[i])
            return false;
    return true;
}

bool region_is_piece(const Region *region, const Value *value) {
    return op_info(value->op)->class_ == OPCLASS_REDUCTION && value->in[0]->rank == region->rank &&
           value->in[0]->dims[region->rank - 1] == region->dims[region->rank - 1] &&
           region_has_piece_dims(region, value);
}

const RegionWindow *region_window(const Region *region, const Value *value) {
    for (size_t i = 0; i < region->windows.n; i++)
        if (region->windows.at[i].value == value)
            return &region->windows.at[i];
    return NULL;
}

static const char *const region_kinds[TEMPLATE_COUNT] = {
    [TEMPLATE_POINTWISE] = "pointwise", [TEMPLATE_ROWS] = "rows",     [TEMPLATE_COLUMNS] = "columns",
    [TEMPLATE_TRANSPOSE] = "transpose", [TEMPLATE_MATMUL] = "matmul", [TEMPLATE_CHAIN] = "chain",
    [TEMPLATE_RELAY] = "relay",
};

static void region_print_names(Text *out, const Graph *graph, const char *what, Value *const *values,
                               size_t n) {
    text_add(out, "%s", what);
    for (size_t i = 0; i < n; i++) {
        text_add(out, "%s", i ? ", " : " ");
        value_print_name(out, graph, values[i]);
    }
}

/* A region behind what it is called, without its guest. */
static void region_print_part(Text *out, const Graph *graph, const Region *region) {
    text_add(out, " over [");
    for (int i = 0; i < region->rank; i++) {
        text_add(out, "%s", i ? ", " : "");
        dim_print(out, graph->dims, region->dims[i]);
    }
    text_add(out, "]");
    if (region->n_reduced)
        text_add(out, ", the %s %d reduced", region->kind == TEMPLATE_COLUMNS ? "first" : "last",
                 region->n_reduced);
    if (region->sums.n)
        text_add(out, ", %zu products added up", region->cores.n);
    if (region->column_block)
        text_add(out, ", columns moved within blocks of %d", region->column_block);
    region_print_names(out, graph, "\n    reads", region->inputs.at, region->inputs.n);
    region_print_names(out, graph, "\n    writes", region->outputs.at, region->outputs.n);
    text_add(out, "\n");
    for (size_t i = 0; i < region->values.n; i++) {
        text_add(out, "        ");
        value_print(out, graph, region->values.at[i]);
        text_add(out, "\n");
    }
}

void region_print(Text *out, const Graph *graph, const Region *region) {
    text_add(out, "region %d: %s \"%s\"", region->id, region_kinds[region->kind], region->name);
    region_print_part(out, graph, region);
    for (const Region *guest = region->guest; guest; guest = guest->guest) {
        text_add(out, "    and its guest: %s", region_kinds[guest->kind]);
        region_print_part(out, graph, guest);
    }
}

Value *partition_stored(const Partition *partition, const Value *value, const Dim **first) {
    DimTable *table = partition->graph->dims;
    const Dim *at = dim_const(table, 0);
    for (size_t i = partition->stored.n; i-- > 0;)
        if (partition->stored.at[i].value == value) {
            value = partition->stored.at[i].in; /* whose own place, if it has one, stands before */
            at = dim_add(table, at, partition->stored.at[i].first);
        }
    if (first)
        *first = at;
    return (Value *)(uintptr_t)value;
}

void partition_print(Text *out, const Partition *partition) {
    for (size_t i = 0; i < partition->regions.n; i++)
        region_print(out, partition->graph, partition->regions.at[i]);
    for (size_t i = 0; i < partition->buffers.n; i++) {
        const Buffer *buffer = &partition->buffers.at[i];
        region_print_names(out, partition->graph, i ? "            " : "workspace:  ", &buffer->value, 1);
        text_add(out, " at byte ");
        dim_print(out, partition->graph->dims, buffer->offset);
        text_add(out, ", ");
        dim_print(out, partition->graph->dims, buffer->bytes);
        text_add(out, " bytes\n");
    }
    for (size_t i = 0; i < partition->stored.n; i++) {
        const Stored *stored = &partition->stored.at[i];
        region_print_names(out, partition->graph, "within", (Value *const *)&stored->in, 1);
        region_print_names(out, partition->graph, ":", (Value *const *)&stored->value, 1);
        text_add(out, " from element ");
        dim_print(out, partition->graph->dims, stored->first);
        text_add(out, " on\n");
    }
}
