/* Where what passes between kernels lies in the workspace.
 *
 * A buffer's bytes are used again once its last reader has run. What lies within another Value's memory
 * (in_place.c) has no buffer, but that has. With constant sizes: buffers in order of size, each at the lowest
 * offset that is free over its whole life. With symbolic sizes: each buffer takes a place that is free and
 * known to be large enough, or a new one. */
#include "passes/pass.h"

#include <stdlib.h>

enum { WORKSPACE_ALIGN = 256 };

typedef struct WorkspaceLife {
    size_t buffer;   /* number in partition->buffers */
    int first, last; /* regions that write it, and that read it last */
    int64_t bytes, offset;
} WorkspaceLife;

typedef VEC(WorkspaceLife) WorkspaceLives;

static const Dim *workspace_bytes(const Graph *graph, const Value *value) {
    DimTable *table = graph->dims;
    const Dim *bits = dim_mul(table, value_count(graph, value), dim_const(table, dtype_bits(value->dtype)));
    const Dim *blocks = dim_ceil_div(table, bits, dim_const(table, 8 * WORKSPACE_ALIGN));
    return dim_mul(table, blocks, dim_const(table, WORKSPACE_ALIGN));
}

static int workspace_larger(const void *a, const void *b) {
    const WorkspaceLife *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

static int workspace_lower(const void *a, const void *b) {
    const WorkspaceLife *x = *(const WorkspaceLife *const *)a, *y = *(const WorkspaceLife *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Places lives[n] among the placed lives[0..n). */
static void workspace_place(WorkspaceLife *lives, size_t n, const WorkspaceLife **overlapping) {
    WorkspaceLife *life = &lives[n];
    size_t n_overlapping = 0;
    for (size_t i = 0; i < n; i++)
        if (lives[i].first <= life->last && life->first <= lives[i].last)
            overlapping[n_overlapping++] = &lives[i];
    if (n_overlapping)
        qsort(overlapping, n_overlapping, sizeof *overlapping, workspace_lower);
    life->offset = 0;
    for (size_t i = 0; i < n_overlapping; i++) {
        if (overlapping[i]->offset >= life->offset + life->bytes)
            break;
        if (overlapping[i]->offset + overlapping[i]->bytes > life->offset)
            life->offset = overlapping[i]->offset + overlapping[i]->bytes;
    }
}

static void workspace_share(Pass *pass, Partition *partition, WorkspaceLife *lives, size_t n) {
    DimTable *table = partition->graph->dims;
    const WorkspaceLife **overlapping = ARENA_ARRAY(pass->arena, const WorkspaceLife *, n + 1);
    int64_t total = 0;
    if (n)
        qsort(lives, n, sizeof *lives, workspace_larger);
    for (size_t i = 0; i < n; i++) {
        workspace_place(lives, i, overlapping);
        partition->buffers.at[lives[i].buffer].offset = dim_const(table, lives[i].offset);
        total = lives[i].offset + lives[i].bytes > total ? lives[i].offset + lives[i].bytes : total;
    }
    partition->workspace = dim_const(table, total);
}

/* A place of a symbolic size that buffers take one after another. */
typedef struct WorkspaceSlot {
    const Dim *bytes;
    int last; /* region that reads its present buffer last */
} WorkspaceSlot;

/* The slot that is free for a buffer and at least as large: one of equal size before a larger one. */
static size_t workspace_slot(DimTable *table, const WorkspaceSlot *slots, size_t n, const WorkspaceLife *life,
                             const Dim *bytes) {
    size_t found = n;
    for (size_t i = 0; i < n; i++) {
        if (slots[i].last >= life->first)
            continue;
        if (slots[i].bytes == bytes)
            return i;
        if (found == n && dim_known_le(table, bytes, slots[i].bytes))
            found = i;
    }
    return found;
}

static void workspace_take_turns(Pass *pass, Partition *partition, const WorkspaceLife *lives, size_t n) {
    DimTable *table = partition->graph->dims;
    VEC(WorkspaceSlot) slots = {0};
    size_t *taken = ARENA_ARRAY(pass->arena, size_t, n + 1);
    for (size_t i = 0; i < n; i++) {
        const Dim *bytes = partition->buffers.at[i].bytes;
        taken[i] = workspace_slot(table, slots.at, slots.n, &lives[i], bytes);
        if (taken[i] == slots.n)
            vec_push(pass->arena, &slots, ((WorkspaceSlot){.bytes = bytes}));
        slots.at[taken[i]].last = lives[i].last;
    }
    const Dim **offsets = ARENA_ARRAY(pass->arena, const Dim *, slots.n + 1);
    offsets[0] = dim_const(table, 0);
    for (size_t i = 0; i < slots.n; i++)
        offsets[i + 1] = dim_add(table, offsets[i], slots.at[i].bytes);
    for (size_t i = 0; i < n; i++)
        partition->buffers.at[i].offset = offsets[taken[i]];
    partition->workspace = offsets[slots.n];
}

/* The buffers that a region writes first, at its kernel's place. is_placed: by id, Values that have one. */
static bool workspace_add(Pass *pass, const Region *region, int place, const int *last, bool *is_placed,
                          WorkspaceLives *lives) {
    Partition *partition = pass->partition;
    const Graph *graph = partition->graph;
    for (size_t k = 0; k < region->outputs.n; k++) {
        Value *value = partition_stored(partition, region->outputs.at[k], NULL);
        if (value_is_output(graph, value) || is_placed[value->id])
            continue;
        is_placed[value->id] = true;
        Buffer buffer = {.value = value, .bytes = workspace_bytes(graph, value)};
        WorkspaceLife life = {.buffer = partition->buffers.n, .first = place, .last = last[value->id]};
        if (!buffer.bytes) {
            diag_error(pass->diags, DIAG_DIM, value->span,
                       "the size of an intermediate tensor overflows 64 bits");
            return false;
        }
        life.last = life.last > life.first ? life.last : life.first;
        life.bytes = dim_is_const(buffer.bytes) ? buffer.bytes->value : 0;
        vec_push(graph->arena, &partition->buffers, buffer);
        vec_push(pass->arena, lives, life);
    }
    return true;
}

bool pass_workspace(Pass *pass, Graph *graph) {
    Partition *partition = pass->partition;
    int *last = ARENA_ARRAY(pass->arena, int, graph->values.n + 1);
    bool *is_placed = ARENA_ARRAY(pass->arena, bool, graph->values.n + 1);
    WorkspaceLives lives = {0};
    bool constant = true;
    partition->buffers.n = 0;
    for (size_t i = 0; i < partition->regions.n; i++)
        for (const Region *part = partition->regions.at[i]; part; part = part->guest)
            for (size_t k = 0; k < part->inputs.n; k++)
                last[partition_stored(partition, part->inputs.at[k], NULL)->id] = (int)i;
    for (size_t i = 0; i < partition->regions.n; i++)
        for (const Region *part = partition->regions.at[i]; part; part = part->guest)
            if (!workspace_add(pass, part, (int)i, last, is_placed, &lives))
                return false;
    for (size_t i = 0; i < partition->buffers.n; i++)
        constant &= dim_is_const(partition->buffers.at[i].bytes);
    if (constant)
        workspace_share(pass, partition, lives.at, lives.n);
    else
        workspace_take_turns(pass, partition, lives.at, lives.n);
    if (!partition->workspace)
        diag_error(pass->diags, DIAG_DIM, graph->span, "the size of the workspace overflows 64 bits");
    return false;
}
