/* What the scores of a softmax in parts are computed of besides, with one element a key: a mask of what is
 * padding, numbers of documents, a bias. Loaded by the threads that need it, each would wait for memory in
 * the middle of every part. It comes with the part's keys instead, by TMA into the same stage, which is free
 * once the scores are computed. */
#include "codegen/templates/chain_stream.h"

#include "codegen/templates/matmul_operand.h"
#include "ir/base/checked.h"
#include "ir/view.h"

enum {
    KEYED_ALIGN = 128, /* bytes, of what TMA brings; and elements, so that all of a part begin at one */
    KEYED_BATCH = 3    /* coordinates */
};

_Static_assert((int)CHAIN_KEYED_MOST <= (int)VECTORS_MAX, "the epilogue finds all of them");

/* Whether a value has one element for each column of the product, of a matrix or of several. */
static bool keyed_is_column(const void *matmul_plan, const Value *value) {
    const MatmulPlan *link = matmul_plan;
    const Value *core = link->core[0];
    int rank = value->rank, shift = core->rank - rank;
    if (rank < 1 || shift < 0 || value->dims[rank - 1] != link->n || dim_is(link->n, 1))
        return false;
    for (int i = 0; i < rank - 1; i++) {
        bool is_batch = i + shift < core->rank - 2 && value->dims[i] == core->dims[i + shift];
        if (!dim_is(value->dims[i], 1) && !is_batch)
            return false;
    }
    return true;
}

/* Whether an axis of a keyed value has a coordinate in memory. */
static bool keyed_has_axis(const Value *value, const View *view, int axis) {
    return !dim_is(value->dims[axis], 1) && !dim_is(view->strides[axis], 0);
}

/* Whether TMA reads it where it lies. */
static bool keyed_is_brought(const MatmulPlan *link, Value *value, View *view) {
    enum { LINE_BITS = 128 };
    const Graph *graph = link->graph;
    int bits = dtype_bits(value->dtype), rank = value->rank, batch = 0;
    if (bits < 8 || !keyed_is_column(link, value) ||
        !matmul_is_read_in_place(link, value, keyed_is_column, link))
        return false;
    *view = view_of(graph, value, region_is_memory, (void *)(uintptr_t)link->region);
    if (!region_reads(link->region, view->base) || view->base->dtype != value->dtype ||
        !dim_is(view->strides[rank - 1], 1) || dim_divisor(graph->dims, view->offset) * bits % LINE_BITS != 0)
        return false;
    for (int i = 0; i < rank - 1; i++)
        if (keyed_has_axis(value, view, i)) {
            batch++;
            if (!view_is_step(graph, view->strides[i], value->dtype))
                return false;
        }
    return batch <= KEYED_BATCH;
}

/* Those that `value` is computed of, down to the product. */
static void keyed_search(const MatmulPlan *link, Value *value, ValueMap *seen, ChainKeyed *keyed) {
    View view;
    if (value == link->core[0] || value_map_get(seen, value) || keyed->n == CHAIN_KEYED_MOST)
        return;
    value_map_set(seen, value, true);
    if (keyed_is_brought(link, value, &view)) {
        keyed->value[keyed->n] = value;
        keyed->view[keyed->n++] = view;
        return;
    }
    bool is_passed = op_is_scalar(value->op) || value->op == OP_cast || value->op == OP_broadcast;
    for (int i = 0; i < value->n_in && is_passed; i++)
        keyed_search(link, value->in[i], seen, keyed);
}

void chain_find_keyed(ChainPlan *plan) {
    ValueMap seen = {.arena = plan->graph->arena};
    plan->keyed = (ChainKeyed){0};
    keyed_search(&plan->link[0], plan->softmax.x, &seen, &plan->keyed);
}

/* Elements from a stage to the next. */
static int64_t keyed_pitch(const Schedule *s) {
    return round_up(s->tile_k, KEYED_ALIGN);
}

int64_t stream_keyed_smem(const ChainPlan *plan, const Schedule *s) {
    int64_t bytes = 0;
    for (int i = 0; i < plan->keyed.n; i++)
        bytes += keyed_pitch(s) * dtype_bits(plan->keyed.value[i]->dtype) / 8 * s->stages;
    return bytes;
}

int64_t stream_keyed_bytes(const Stream *s) {
    int64_t bytes = 0;
    for (int i = 0; i < s->keyed.n; i++)
        bytes += (int64_t)s->schedule->tile_k * dtype_bits(s->keyed.value[i]->dtype) / 8;
    return bytes;
}

/* The map of one: keys, then the axes of its batch, innermost first; two axes at least. */
static int keyed_map(Stream *s, int i) {
    Builder *b = s->b;
    const MatmulPlan *link = &s->plan->link[0];
    const Value *value = s->plan->keyed.value[i];
    const View *view = &s->plan->keyed.view[i];
    const Dim *one = dim_const(link->graph->dims, 1);
    KTensorMap map = {.buffer = k_global(b, view->base, false),
                      .elem = value->dtype,
                      .rank = 1,
                      .dims = {link->n},
                      .strides = {one},
                      .offset = view->offset,
                      .box = {s->schedule->tile_k}};
    for (int axis = value->rank - 1; axis-- > 0;)
        if (keyed_has_axis(value, view, axis)) {
            map.dims[map.rank] = value->dims[axis];
            map.strides[map.rank] = view->strides[axis];
            map.box[map.rank++] = 1;
        }
    if (map.rank == 1) {
        map.dims[1] = one;
        map.strides[1] = dim_const(link->graph->dims, KEYED_ALIGN);
        map.box[map.rank++] = 1;
    }
    return k_tensor_map(b, text_format(b->arena, "%s_map", view->base->name ? view->base->name : "keyed"),
                        map);
}

void stream_keyed_declare(Stream *s) {
    Builder *b = s->b;
    const ChainKeyed *keyed = &s->plan->keyed;
    int stages = s->schedule->stages;
    s->keyed.n = keyed->n;
    for (int i = 0; i < keyed->n; i++) {
        const Value *value = keyed->value[i];
        const char *name = text_format(b->arena, "%s_of_keys", value->name ? value->name : "vector");
        s->keyed.value[i] = value;
        s->keyed.buffer[i] = k_shared(b, name, value->dtype, stages * keyed_pitch(s->schedule), KEYED_ALIGN);
        s->keyed_map[i] = keyed_map(s, i);
    }
}

void stream_keyed_load(Stream *s, const KExpr *stage, const KExpr *full, const KExpr *part,
                       const MatmulTile *tile) {
    static const AtomId atoms[] = {ATOM_tma_load_2d, ATOM_tma_load_3d, ATOM_tma_load_4d};
    Builder *b = s->b;
    for (int i = 0; i < s->keyed.n; i++) {
        const Value *value = s->plan->keyed.value[i];
        const KExpr *coords[RANK_MAX], *at = k_mul(b, stage, k_i32(b, keyed_pitch(s->schedule)));
        parts_coords(&s->parts, value, tile, coords);
        KOperand operands[4 + KEYED_BATCH] = {k_operand(k_smem_addr(b, s->keyed.buffer[i], at)),
                                              k_operand(k_tensor_map_addr(b, s->keyed_map[i])),
                                              k_operand(full),
                                              k_operand(k_mul(b, part, k_i32(b, s->schedule->tile_k)))};
        int n = 4;
        for (int axis = value->rank - 1; axis-- > 0;)
            if (keyed_has_axis(value, &s->plan->keyed.view[i], axis))
                operands[n++] = k_operand(coords[axis]);
        if (n == 4)
            operands[n++] = k_operand(k_i32(b, 0));
        k_atom(b, atoms[n - 5], NULL, operands, n);
    }
}

void stream_keyed_take(Stream *s, const PipelineState *key) {
    Builder *b = s->b;
    s->keyed_stage = k_let_expr(b, "keyed_stage", k_var(b, key->stage));
}

const MatmulVectors *stream_keyed_at(Stream *s, const KExpr *lane_col) {
    Builder *b = s->b;
    if (!s->keyed.n)
        return NULL;
    const KExpr *others = s->across ? k_mul(b, s->across, k_i32(b, stream_scored(s->schedule))) : k_i32(b, 0);
    s->keyed.lane_col = k_add(b, others, lane_col);
    s->keyed.base = k_mul(b, s->keyed_stage, k_i32(b, keyed_pitch(s->schedule)));
    return &s->keyed;
}

void stream_keyed_end(Stream *s) {
    Builder *b = s->b;
    if (!s->keyed.n || s->keeps_values)
        return;
    k_atom(b, ATOM_fence_async, NULL, NULL, 0);
    k_atom(b, ATOM_warp_sync, NULL, NULL, 0);
    pipeline_release(b, &s->keys, s->keyed_stage, NULL);
}
