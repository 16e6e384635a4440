/* Groups become regions: what each computes and reads follows from what lies in memory, and the order of
 * launches from that. */
#include "passes/fuse.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

typedef VEC(int) EmitNumbers;

enum {
    EMIT_TURNED_BYTES = 1 << 16, /* less is in the caches in any order */
    EMIT_TURNED_LEAST = 16,      /* elements of an axis that a tile has */
};

/* A region with the group that it comes from, and its place among those that wait. */
typedef struct EmitRegion {
    Region *region;
    Group *group;
    uint32_t first; /* id of its first output: the order among independent regions */
    int waits;      /* regions not yet placed that it reads from */
} EmitRegion;

typedef struct Emit {
    Fuse *fuse;
    VEC(EmitRegion) list;
    int *writer; /* by Value.id: number in the list of the region that writes it; -1 none */
} Emit;

int fuse_by_id(const void *a, const void *b) {
    const Value *x = *(Value *const *)a, *y = *(Value *const *)b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void emit_closure(Emit *emit, const Group *group, Region *region) {
    Arena *arena = emit->fuse->graph->arena;
    FuseClosure closure = fuse_closure(emit->fuse, group, region->outputs.at, region->outputs.n);
    for (size_t i = 0; i < closure.computed.n; i++)
        vec_push(arena, &region->values, closure.computed.at[i]);
    for (size_t i = 0; i < closure.read.n; i++)
        vec_push(arena, &region->inputs, closure.read.at[i]);
    qsort(region->values.at, region->values.n, sizeof(Value *), fuse_by_id);
    if (region->inputs.n)
        qsort(region->inputs.at, region->inputs.n, sizeof(Value *), fuse_by_id);
}

static bool emit_holds(const Region *region, const Value *value) {
    return region->values.n &&
           bsearch(&value, region->values.at, region->values.n, sizeof(Value *), fuse_by_id);
}

/* The first @schedule at a Value of the region. */
static const Hint *emit_schedule(const Graph *graph, const Region *region) {
    for (size_t i = 0; i < graph->hints.n; i++) {
        const Hint *hint = &graph->hints.at[i];
        if (hint->value && !strcmp(hint->name, "schedule") && emit_holds(region, hint->value))
            return hint;
    }
    return NULL;
}

static bool emit_allows(const Graph *graph, const Region *region, const char *what) {
    for (size_t i = 0; i < graph->hints.n; i++) {
        const Hint *hint = &graph->hints.at[i];
        if (hint->value && emit_holds(region, hint->value) && fuse_hint_allows(hint, what))
            return true;
    }
    return false;
}

/* An output that is a bundle of a row's statistics, or a reshape of one. */
static void emit_bundle(const Fuse *fuse, Region *region, const Value *output) {
    RegionWindow window = {.value = output, .root = output, .is_bundle = true};
    while (window.root->op == OP_reshape && !fuse_node(fuse, window.root)->bundle)
        window.root = window.root->in[0];
    if (!fuse_node(fuse, window.root)->bundle)
        return;
    window.width = window.root->dims[window.root->rank - 1]->value;
    vec_push(fuse->graph->arena, &region->windows, window);
}

static void emit_region(Emit *emit, Group *group, Value *const *outputs, size_t n_outputs) {
    Fuse *fuse = emit->fuse;
    Arena *arena = fuse->graph->arena;
    Region *region = ARENA_NEW(arena, Region);
    region->kind = group->is_relay ? TEMPLATE_RELAY : group->is_chain ? TEMPLATE_CHAIN : group->kind;
    region->rank = group->rank;
    region->n_reduced = group->n_reduced;
    for (int i = 0; i < group->rank; i++)
        region->dims[i] = group->dims[i];
    for (size_t i = 0; i < n_outputs; i++)
        vec_push(arena, &region->outputs, outputs[i]);
    qsort(region->outputs.at, n_outputs, sizeof(Value *), fuse_by_id);
    emit_closure(emit, group, region);
    for (size_t i = 0; i < group->cores.n; i++)
        if (emit_holds(region, group->cores.at[i]))
            vec_push(arena, &region->cores, group->cores.at[i]);
    for (size_t i = 0; i < group->sums.n; i++)
        if (emit_holds(region, group->sums.at[i]))
            vec_push(arena, &region->sums, group->sums.at[i]);
    for (size_t i = 0; i < region->outputs.n; i++)
        emit_bundle(fuse, region, region->outputs.at[i]);
    if (region->kind == TEMPLATE_MATMUL && !group->has_blocks) /* whose columns do not move */
        fuse_columns_windows(fuse, group, region);
    region->schedule_hint = emit_schedule(fuse->graph, region);
    region->fast_sums = emit_allows(fuse->graph, region, "fast_accumulation");
    EmitRegion entry = {.region = region, .group = group, .first = region->outputs.at[0]->id};
    for (size_t i = 0; i < n_outputs; i++)
        emit->writer[outputs[i]->id] = (int)emit->list.n;
    vec_push(fuse->arena, &emit->list, entry);
}

/* One region a group; more, each with a share of the outputs, where a kernel may not write that many. */
static void emit_group(Emit *emit, Group *group) {
    size_t most = (size_t)emit->fuse->limits->max_outputs, n = group->outputs.n;
    for (size_t at = 0; at < n; at += most)
        emit_region(emit, group, group->outputs.at + at, n - at < most ? n - at : most);
}

static void emit_name(const Graph *graph, Region *region) {
    Text text = text_new(graph->arena);
    const char *output = region->outputs.at[0]->name;
    for (size_t i = 0; i < graph->outputs.n; i++)
        if (graph->outputs.at[i].value == region->outputs.at[0])
            output = graph->outputs.at[i].name;
    text_add(&text, "%s_%d", graph->name && *graph->name ? graph->name : "graph", region->id);
    if (output)
        text_add(&text, "_%s", output);
    for (char *c = text.at; *c; c++)
        if (!isalnum((unsigned char)*c))
            *c = '_';
    region->name = isdigit((unsigned char)*text.at) ? text_format(graph->arena, "k%s", text.at) : text.at;
}

/* Whether an output is, by several reshapes and transposes, what the region computes with another axis
 * innermost. */
static bool emit_is_stored_turned(const Fuse *fuse, const Region *region, const Value *output) {
    const Value *base = output;
    while ((base->op == OP_reshape || base->op == OP_transpose) && emit_holds(region, base->in[0]))
        base = base->in[0];
    return base->rank == region->rank && value_is_pointwise(base) && !space_keeps_innermost(output, base) &&
           fuse_extent(fuse, output->dims[output->rank - 1]) >= EMIT_TURNED_LEAST &&
           fuse_extent(fuse, base->dims[base->rank - 1]) >= EMIT_TURNED_LEAST;
}

/* Reads and writes contiguous along different axes: some operand reaches the output only through a transpose
 * of its innermost axis, or an output is such a transpose of what the region computes. */
static bool emit_is_transpose(const Fuse *fuse, const Region *region) {
    if (region->kind != TEMPLATE_POINTWISE || region->rank < 2)
        return false;
    for (size_t i = 0; i < region->values.n; i++) {
        const Value *value = region->values.at[i];
        if (value->op == OP_transpose && value->rank != region->rank && region_writes(region, value) &&
            fuse_bytes(fuse, value) >= EMIT_TURNED_BYTES && emit_is_stored_turned(fuse, region, value))
            return true;
        if (value->op != OP_transpose || value->rank != region->rank)
            continue;
        int from = value->attrs[0].ints[value->rank - 1];
        if (from == value->rank - 1 || fuse_bytes(fuse, value) < EMIT_TURNED_BYTES)
            continue;
        int to = 0;
        while (value->attrs[0].ints[to] != value->rank - 1)
            to++;
        bool full = true, turned = region_writes(region, value);
        for (int k = 0; k < region->rank; k++) {
            full &= value->dims[k] == region->dims[k];
            turned &= value->in[0]->dims[k] == region->dims[k];
        }
        if ((full || turned) && fuse_extent(fuse, value->dims[value->rank - 1]) >= EMIT_TURNED_LEAST &&
            fuse_extent(fuse, value->dims[to]) >= EMIT_TURNED_LEAST)
            return true;
    }
    return false;
}

void fuse_number(const Graph *graph, Partition *partition) {
    for (size_t i = 0; i < partition->regions.n; i++) {
        Region *region = partition->regions.at[i];
        region->id = (int)i;
        region->follows = i > 0;
        region->leads = i + 1 < partition->regions.n;
        emit_name(graph, region);
    }
}

/* Regions in an order in which each finds what it reads; false where two wait for each other. */
static bool emit_order(Emit *emit, Partition *partition) {
    Fuse *fuse = emit->fuse;
    size_t n = emit->list.n;
    EmitNumbers *later = ARENA_ARRAY(fuse->arena, EmitNumbers, n + 1);
    for (size_t i = 0; i < n; i++) {
        const Region *region = emit->list.at[i].region;
        fuse->stamp++;
        for (size_t k = 0; k < region->inputs.n; k++) {
            int from = emit->writer[region->inputs.at[k]->id];
            if (from < 0)
                continue;
            vec_push(fuse->arena, &later[from], (int)i);
            emit->list.at[i].waits++;
        }
    }
    bool *placed = ARENA_ARRAY(fuse->arena, bool, n + 1);
    for (size_t done = 0; done < n; done++) {
        size_t next = n;
        for (size_t i = 0; i < n; i++)
            if (!placed[i] && !emit->list.at[i].waits &&
                (next == n || emit->list.at[i].first < emit->list.at[next].first))
                next = i;
        if (next == n)
            return false;
        placed[next] = true;
        for (size_t k = 0; k < later[next].n; k++)
            emit->list.at[later[next].at[k]].waits--;
        vec_push(fuse->graph->arena, &partition->regions, emit->list.at[next].region);
    }
    fuse_number(fuse->graph, partition);
    return true;
}

bool fuse_emit(Fuse *fuse) {
    Emit emit = {.fuse = fuse, .writer = ARENA_ARRAY(fuse->arena, int, fuse->graph->values.n + 1)};
    for (size_t i = 0; i < fuse->graph->values.n; i++)
        emit.writer[i] = -1;
    for (size_t i = 0; i < fuse->groups.n; i++)
        if (!fuse->groups.at[i]->dead)
            emit_group(&emit, fuse->groups.at[i]);
    Partition *partition = fuse->pass->partition;
    partition->regions.n = 0;
    for (size_t i = 0; i < emit.list.n; i++) {
        Region *region = emit.list.at[i].region;
        if (!emit_is_transpose(fuse, region))
            continue;
        region->kind = TEMPLATE_TRANSPOSE;
        pass_decide(fuse->pass, "transpose", true, region->outputs.at[0], NULL, NULL,
                    "it reads along one axis and writes along another, through a tile in shared memory");
    }
    return emit_order(&emit, partition);
}
