/* What one kernel stores lies within what another Value is in memory, so that no kernel copies it there.
 *
 * Twins: a result that is wanted in two forms of the same elements in the same order, as the graph's output
 * in its own dims and as the matrix that the next kernel reads, is written as the output alone.
 *
 * Joined parts: each kernel writes its own part of what is joined of several,
 *
 *     a = relu(conv(x, w))         kernel: writes a            ->  writes channels 0 to 127 of c
 *     b = relu(conv(a, v))         kernel: reads a, writes b   ->  reads these, writes channels 128 and on
 *     c = concat(a, b, axis=3)     kernel: copies both         ->  none
 *     z = conv(c, u)
 *
 * and so on where c itself is part of another. Where one part is computed by the kernel that joins them, that
 * part is all that this kernel writes from then on; and if that is a product in another order, as a
 * transposed convolution's places are, it is the product's kernel that does. Parts lie in whole sectors, as
 * TMA and vectors of 16 bytes want them; where one is an input of the graph, or wanted as an output of its
 * own, what is joined is copied.
 *
 * From here on such a Value has strides, those of the memory that it is part of. */
#include <string.h>

#include "ir/block.h"
#include "ir/view.h"
#include "passes/fuse.h"
#include "passes/movement.h"

enum { IN_PLACE_SECTOR = 256 /* bits */, IN_PLACE_PARTS = 16 };

typedef struct InPlace {
    Pass *pass;
    Graph *graph;
    Partition *partition;
    Region **writer; /* by id: the region that writes a Value */
} InPlace;

static void in_place_note(InPlace *p, const Value *value, const Value *in, const Dim *first) {
    vec_push(p->graph->arena, &p->partition->stored, ((Stored){value, in, first}));
}

static bool in_place_is_noted(const InPlace *p, const Value *value) {
    for (size_t i = 0; i < p->partition->stored.n; i++)
        if (p->partition->stored.at[i].value == value)
            return true;
    return false;
}

static void in_place_find_writers(InPlace *p) {
    for (size_t i = 0; i < p->partition->regions.n; i++)
        for (Region *part = p->partition->regions.at[i]; part; part = part->guest)
            for (size_t k = 0; k < part->outputs.n; k++)
                p->writer[part->outputs.at[k]->id] = part;
}

/* What a value is, with the same elements in the same order. */
static Value *in_place_elements(Value *value) {
    while (value->op == OP_reshape || (value->op == OP_transpose && movement_keeps_order(value)))
        value = value->in[0];
    return value;
}

/* ---- twins */

/* Whether a value's rows follow each other in memory. */
static bool in_place_is_packed(const Graph *graph, const Value *value) {
    const Dim *strides[RANK_MAX], *packed[RANK_MAX];
    view_base_strides(graph, value, strides);
    dims_packed_strides(graph->dims, value->rank, value->dims, packed);
    return !memcmp(strides, packed, (size_t)value->rank * sizeof *strides);
}

/* The graph's output, packed, that a region writes and that has the elements of another of its outputs. */
static Value *in_place_twin(const InPlace *p, const Region *region, Value *value) {
    for (size_t k = 0; k < region->outputs.n && !value_is_output(p->graph, value); k++) {
        Value *output = region->outputs.at[k];
        if (value_is_output(p->graph, output) && output->dtype == value->dtype &&
            in_place_elements(output) == in_place_elements(value) && in_place_is_packed(p->graph, output))
            return output;
    }
    return NULL;
}

static void in_place_take_twins(InPlace *p, Region *region) {
    size_t kept = 0;
    for (size_t k = 0; k < region->outputs.n; k++) {
        Value *value = region->outputs.at[k], *twin = in_place_twin(p, region, value);
        if (twin)
            in_place_note(p, value, twin, dim_const(p->graph->dims, 0));
        else
            region->outputs.at[kept++] = value;
    }
    region->outputs.n = kept;
    kept = 0;
    for (size_t k = 0; k < region->windows.n; k++)
        if (!in_place_is_noted(p, region->windows.at[k].value))
            region->windows.at[kept++] = region->windows.at[k];
    region->windows.n = kept;
}

/* ---- parts of what is joined */

typedef struct InPlacePart {
    Value *value;     /* what is stored: an operand of the concat, or what that is by reshapes */
    const Dim *first; /* its first element, within what is joined */
    const Dim *strides[RANK_MAX];
} InPlacePart;

typedef struct InPlaceJoin {
    Region *region;
    Value *joined, *concat; /* what the region writes, and what that is by reshapes */
    InPlacePart part[IN_PLACE_PARTS];
    int computed; /* the part that the region computes; -1: none */
} InPlaceJoin;

/* Elements of the axes from `axis` on; 0 where they are not known, or none. */
static int64_t in_place_inner(const Value *value, int axis) {
    int64_t n = 1;
    for (int i = axis; i < value->rank; i++)
        if (!dim_is_const(value->dims[i]) || __builtin_mul_overflow(n, value->dims[i]->value, &n))
            return 0;
    return n;
}

/* Strides of a part that has `inner` elements one behind the other, and the next ones `pitch` behind; false
 * where its axes are not so apart. */
static bool in_place_strides(DimTable *table, InPlacePart *part, int64_t inner, const Dim *pitch) {
    const Value *value = part->value;
    int axis = value->rank;
    while (axis > 0 && in_place_inner(value, axis) < inner)
        axis--;
    if (in_place_inner(value, axis) != inner)
        return false;
    dims_packed_strides(table, value->rank, value->dims, part->strides);
    const Dim *stride = pitch;
    for (int i = axis - 1; i >= 0; i--) {
        part->strides[i] = stride;
        stride = dim_mul(table, stride, value->dims[i]);
    }
    return stride != NULL;
}

/* Whether a kernel stores a Value element by element, and nobody wants it packed. */
static bool in_place_is_free(const InPlace *p, const Value *value) {
    const Region *writer = p->writer[value->id];
    const RegionWindow *window = writer ? region_window(writer, value) : NULL;
    return writer && writer->kind != TEMPLATE_RELAY && !(window && window->is_bundle) &&
           !block_stored(value) && !value_is_output(p->graph, value) && !in_place_is_noted(p, value);
}

/* Whether another kernel stores a part. */
static bool in_place_is_stored(const InPlace *p, const Value *part, const Region *joining) {
    return in_place_is_free(p, part) && p->writer[part->id] != joining && region_reads(joining, part);
}

/* Whether the region computes a part, for this alone, and no other kernel stores it as well: its only output,
 * from then on. */
static bool in_place_is_computed(const InPlace *p, const InPlaceJoin *join, const Value *part) {
    bool is_here = false;
    if (p->writer[part->id] || in_place_is_noted(p, part) || value_is_output(p->graph, part))
        return false;
    for (size_t i = 0; i < join->region->values.n; i++) {
        const Value *value = join->region->values.at[i];
        is_here |= value == part;
        for (int k = 0; k < value->n_in; k++)
            if (value->in[k] == part && value != join->concat)
                return false;
    }
    return is_here;
}

static bool in_place_add(InPlace *p, InPlaceJoin *join, int i, const Dim *first, const Dim *pitch) {
    Value *operand = join->concat->in[i];
    InPlacePart *part = &join->part[i];
    int64_t inner = in_place_inner(operand, (int)join->concat->attrs[0].i);
    int bits = dtype_bits(operand->dtype);
    *part = (InPlacePart){.value = in_place_elements(operand), .first = first};
    for (int k = 0; k < i; k++)
        if (join->part[k].value == part->value)
            return false;
    if (inner % IN_PLACE_SECTOR * bits % IN_PLACE_SECTOR || inner == 0 ||
        part->value->dtype != join->joined->dtype)
        return false;
    if (!in_place_is_stored(p, part->value, join->region)) {
        part->value = operand;
        if (join->computed >= 0 || !in_place_is_computed(p, join, operand))
            return false;
        join->computed = i;
    }
    return in_place_strides(p->graph->dims, part, inner, pitch);
}

/* Whether a region joins what other kernels store, and how its parts then lie. */
static bool in_place_join(InPlace *p, Region *region, InPlaceJoin *join) {
    DimTable *table = p->graph->dims;
    if (region->kind != TEMPLATE_POINTWISE || region->outputs.n != 1 || region->guest ||
        region->schedule_hint)
        return false;
    *join = (InPlaceJoin){.region = region, .joined = region->outputs.at[0], .computed = -1};
    join->concat = in_place_elements(join->joined);
    const Value *concat = join->concat;
    if (concat->op != OP_concat || concat->n_in > IN_PLACE_PARTS ||
        (join->joined != concat && !in_place_is_packed(p->graph, join->joined)))
        return false;
    int axis = (int)concat->attrs[0].i;
    int64_t inner = in_place_inner(concat, axis);
    const Dim *strides[RANK_MAX], *first = dim_const(table, 0);
    view_base_strides(p->graph, concat, strides);
    const Dim *pitch = axis > 0 ? strides[axis - 1] : dim_const(table, inner);
    for (int i = 1; i < concat->rank; i++) /* but for its pitch, memory is as if it were packed */
        if (i != axis && strides[i - 1] != dim_mul(table, strides[i], concat->dims[i]))
            return false;
    if (!dim_is(strides[concat->rank - 1], 1) || inner == 0)
        return false;
    if (dim_divisor(table, pitch) % IN_PLACE_SECTOR * dtype_bits(concat->dtype) % IN_PLACE_SECTOR)
        return false;
    for (int i = 0; i < concat->n_in; i++) {
        if (!in_place_add(p, join, i, first, pitch))
            return false;
        first = dim_add(table, first, dim_const(table, in_place_inner(concat->in[i], axis)));
    }
    return first != NULL;
}

/* The region writes its own part alone. */
static void in_place_narrow(InPlace *p, const InPlaceJoin *join) {
    Region *region = join->region;
    Value *own = join->part[join->computed].value;
    bool *is_needed = ARENA_ARRAY(p->pass->arena, bool, p->graph->values.n + 1);
    is_needed[own->id] = true;
    for (size_t i = region->values.n; i-- > 0;)
        for (int k = 0; k < region->values.at[i]->n_in; k++)
            is_needed[region->values.at[i]->in[k]->id] |= is_needed[region->values.at[i]->id];
    size_t kept = 0;
    for (size_t i = 0; i < region->values.n; i++)
        if (is_needed[region->values.at[i]->id])
            region->values.at[kept++] = region->values.at[i];
    region->values.n = kept;
    kept = 0;
    for (size_t i = 0; i < region->inputs.n; i++)
        if (is_needed[region->inputs.at[i]->id])
            region->inputs.at[kept++] = region->inputs.at[i];
    region->inputs.n = kept;
    region->outputs.at[0] = own;
    region->rank = own->rank;
    for (int i = 0; i < own->rank; i++)
        region->dims[i] = own->dims[i];
    p->writer[own->id] = region;
}

/* What a kernel has for a region that does nothing but store it in another order: NULL, where this does more,
 * or others want it. */
static Value *in_place_moved(const InPlace *p, const Region *region) {
    Value *moved = region->inputs.n == 1 ? region->inputs.at[0] : NULL;
    if (!moved || !in_place_is_free(p, moved) || p->writer[moved->id]->kind != TEMPLATE_MATMUL)
        return NULL;
    for (size_t i = 0; i < region->values.n; i++)
        if (region->values.at[i]->op != OP_reshape && region->values.at[i]->op != OP_transpose)
            return NULL;
    for (size_t i = 0; i < p->partition->regions.n; i++)
        for (const Region *part = p->partition->regions.at[i]; part; part = part->guest)
            if (part != region && region_reads(part, moved))
                return NULL;
    return moved;
}

/* The kernel that computes what is moved stores it in that order itself. */
static void in_place_store_moved(InPlace *p, const Region *region, const Value *moved) {
    Region *writer = p->writer[moved->id];
    Value *own = region->outputs.at[0];
    for (size_t i = 0; i < region->values.n; i++)
        vec_push(p->graph->arena, &writer->values, region->values.at[i]);
    for (size_t i = 0; i < writer->outputs.n; i++)
        if (writer->outputs.at[i] == moved)
            writer->outputs.at[i] = own;
    for (size_t i = 0; i < writer->windows.n; i++)
        if (writer->windows.at[i].value == moved)
            writer->windows.at[i].value = own;
    p->writer[own->id] = writer;
}

/* Gives the parts their places; false: the region has nothing to do any more. */
static bool in_place_apply(InPlace *p, const InPlaceJoin *join) {
    for (int i = 0; i < join->concat->n_in; i++) {
        const InPlacePart *part = &join->part[i];
        part->value->strides = ARENA_ARRAY(p->graph->arena, const Dim *, (size_t)part->value->rank + 1);
        for (int k = 0; k < part->value->rank; k++)
            part->value->strides[k] = part->strides[k];
        in_place_note(p, part->value, join->joined, part->first);
    }
    pass_decide(p->pass, "in_place", true, join->joined, NULL, NULL,
                "its parts are stored where it lies%s, so that no kernel joins them",
                join->computed >= 0 ? " by the kernels that compute them" : "");
    if (join->computed < 0)
        return false;
    in_place_narrow(p, join);
    const Value *moved = in_place_moved(p, join->region);
    if (moved)
        in_place_store_moved(p, join->region, moved);
    return !moved;
}

bool pass_in_place(Pass *pass, Graph *graph) {
    Partition *partition = pass->partition;
    InPlace p = {pass, graph, partition, ARENA_ARRAY(pass->arena, Region *, graph->values.n + 1)};
    if (pass->options->no_fusion)
        return false;
    for (size_t i = 0; i < partition->regions.n; i++)
        for (Region *part = partition->regions.at[i]; part; part = part->guest)
            in_place_take_twins(&p, part);
    in_place_find_writers(&p);
    bool *is_gone = ARENA_ARRAY(pass->arena, bool, partition->regions.n + 1);
    InPlaceJoin join;
    for (size_t i = partition->regions.n; i-- > 0;) /* what is joined of something joined comes first */
        while (!is_gone[i] && in_place_join(&p, partition->regions.at[i], &join))
            is_gone[i] = !in_place_apply(&p, &join);
    size_t kept = 0;
    for (size_t i = 0; i < partition->regions.n; i++)
        if (!is_gone[i])
            partition->regions.at[kept++] = partition->regions.at[i];
    partition->regions.n = kept;
    fuse_number(graph, partition);
    return false;
}
