/* Random graphs of movement, arithmetic and reductions on integers, where every result is exact: whatever
 * meets in one kernel, the coordinates must be right. */
#include "ir/infer.h"
#include "tests/unit/codegen/template_harness.h"

enum { POOL_MAX = 40, ELEMENTS_MAX = 400 };

typedef struct Pool {
    Harness *h;
    Value *at[POOL_MAX];
    int n;
} Pool;

static int64_t pool_below(Pool *pool, int64_t n) {
    return (int64_t)(harness_random(pool->h) % (uint64_t)n);
}

static Value *pool_pick(Pool *pool) {
    return pool->at[pool_below(pool, pool->n)];
}

static void pool_add(Pool *pool, Value *value) {
    int64_t dims[RANK_MAX], count = harness_dims(pool->h, value, dims);
    if (value->dtype != DTYPE_I32)
        value = make_cast(pool->h, value, DTYPE_I32);
    if (count <= ELEMENTS_MAX && value->rank <= 5 && pool->n < POOL_MAX)
        pool->at[pool->n++] = value;
}

static Attr *pool_attrs(Pool *pool) {
    return ARENA_ARRAY(pool->h->arena, Attr, OP_MAX_ATTRS);
}

/* x and something that broadcasts with it. */
static Value *pool_arithmetic(Pool *pool) {
    static const OpKind ops[] = {OP_add, OP_sub, OP_mul, OP_min, OP_max, OP_bit_xor, OP_lt};
    Value *x = pool_pick(pool), *y = pool_pick(pool);
    const Dim *unused[RANK_MAX];
    if (infer_broadcast_dims(pool->h->graph->dims, x->rank, x->dims, y->rank, y->dims, unused) < 0)
        y = x;
    return make2(pool->h, ops[pool_below(pool, 7)], x, y);
}

static Value *pool_reshape(Pool *pool) {
    Value *x = pool_pick(pool);
    int64_t dims[RANK_MAX], to[RANK_MAX], count = harness_dims(pool->h, x, dims);
    int rank = 1 + (int)pool_below(pool, 4);
    for (int i = 0; i < rank - 1; i++) {
        to[i] = 1;
        for (int64_t factor = 1 + pool_below(pool, 12); factor > 1; factor--)
            if (count % factor == 0) {
                to[i] = factor;
                break;
            }
        count /= to[i];
    }
    to[rank - 1] = count;
    return make_reshape(pool->h, x, rank, to);
}

static Value *pool_transpose(Pool *pool) {
    Value *x = pool_pick(pool);
    int perm[RANK_MAX];
    for (int i = 0; i < x->rank; i++) {
        int k = (int)pool_below(pool, i + 1);
        perm[i] = perm[k];
        perm[k] = i;
    }
    return make_transpose(pool->h, x, perm);
}

static Value *pool_slice(Pool *pool) {
    Value *x = pool_pick(pool);
    int64_t dims[RANK_MAX], start[RANK_MAX], limit[RANK_MAX];
    Attr *attrs = pool_attrs(pool);
    harness_dims(pool->h, x, dims);
    attrs[2].ints = ARENA_ARRAY(pool->h->arena, int, RANK_MAX);
    for (int i = 0; i < x->rank; i++) {
        int64_t first = pool_below(pool, dims[i]), last = first + pool_below(pool, dims[i] - first);
        int step = 1 + (int)pool_below(pool, 3);
        bool down = pool_below(pool, 3) == 0;
        start[i] = down ? last : first;
        limit[i] = down ? first - 1 : last + 1;
        attrs[2].ints[i] = down ? -step : step;
    }
    attrs[0].dims = make_dims(pool->h, x->rank, start);
    attrs[1].dims = make_dims(pool->h, x->rank, limit);
    attrs[0].n_dims = attrs[1].n_dims = attrs[2].n_ints = x->rank;
    return make_named(pool->h, NULL, OP_slice, &x, 1, attrs);
}

static Value *pool_window(Pool *pool) {
    Value *x = pool_pick(pool);
    int64_t dims[RANK_MAX];
    if (x->rank == 0 || x->rank > 4)
        return x;
    Attr *attrs = pool_attrs(pool);
    harness_dims(pool->h, x, dims);
    attrs[0].i = pool_below(pool, x->rank);
    int64_t extent = dims[attrs[0].i], size = 1 + pool_below(pool, extent < 4 ? extent : 4);
    attrs[1].dim = dim_const(pool->h->graph->dims, size);
    attrs[2].i = 1 + pool_below(pool, 3);
    attrs[3].i = size == 1 ? 2 : 1 + pool_below(pool, (extent - 1) / (size - 1));
    return make_named(pool->h, NULL, OP_window, &x, 1, attrs);
}

static Value *pool_pad(Pool *pool) {
    Value *x = pool_pick(pool);
    int64_t low[RANK_MAX], high[RANK_MAX];
    Attr *attrs = pool_attrs(pool);
    for (int i = 0; i < x->rank; i++) {
        low[i] = pool_below(pool, 3);
        high[i] = pool_below(pool, 3);
    }
    attrs[0].dims = make_dims(pool->h, x->rank, low);
    attrs[1].dims = make_dims(pool->h, x->rank, high);
    attrs[0].n_dims = attrs[1].n_dims = x->rank;
    Value *in[] = {x, graph_constant_int(pool->h->graph, 7, (Span){0})};
    return make_named(pool->h, NULL, OP_pad, in, 2, attrs);
}

static Value *pool_concat(Pool *pool) {
    Value *x = pool_pick(pool), *in[] = {x, make1(pool->h, OP_neg, x), x};
    if (x->rank == 0)
        return x;
    Attr *attrs = pool_attrs(pool);
    attrs[0].i = pool_below(pool, x->rank);
    return make_named(pool->h, NULL, OP_concat, in, 2 + (int)pool_below(pool, 2), attrs);
}

static Value *pool_gather(Pool *pool) {
    Value *x = pool_pick(pool), *index = pool_pick(pool);
    if (x->rank == 0 || index->rank > 2)
        return x;
    Attr *attrs = pool_attrs(pool);
    attrs[0].i = pool_below(pool, x->rank);
    Value *in[] = {x, index};
    return make_named(pool->h, NULL, OP_gather, in, 2, attrs);
}

static Value *pool_broadcast(Pool *pool) {
    Value *x = pool_pick(pool);
    int64_t dims[RANK_MAX], to[RANK_MAX];
    harness_dims(pool->h, x, dims);
    to[0] = 1 + pool_below(pool, 3);
    for (int i = 0; i < x->rank; i++)
        to[i + 1] = dims[i] == 1 ? 1 + pool_below(pool, 4) : dims[i];
    return make_shaped(pool->h, OP_broadcast, x, x->rank + 1, to);
}

static Value *pool_reduce(Pool *pool) {
    static const OpKind ops[] = {OP_sum, OP_reduce_min, OP_reduce_max, OP_argmax, OP_argmin};
    Value *x = pool_pick(pool);
    int axes[RANK_MAX], n = 0;
    for (int i = 0; i < x->rank; i++)
        if (pool_below(pool, 2))
            axes[n++] = i;
    return make_reduce(pool->h, ops[pool_below(pool, 5)], x, axes, n, pool_below(pool, 2));
}

static Value *pool_narrow(Pool *pool) {
    static const DType types[] = {DTYPE_I8, DTYPE_U8, DTYPE_I4, DTYPE_U4, DTYPE_I16, DTYPE_I64};
    return make_cast(pool->h, pool_pick(pool), types[pool_below(pool, 6)]);
}

static Value *pool_index(Pool *pool) {
    int64_t dims[] = {1, 1, 1};
    Attr *attrs = pool_attrs(pool);
    attrs[1].i = pool_below(pool, 3);
    dims[attrs[1].i] = 1 + pool_below(pool, 8);
    attrs[0].dims = make_dims(pool->h, 3, dims);
    attrs[0].n_dims = 3;
    return make_named(pool->h, NULL, OP_index, NULL, 0, attrs);
}

static void check_seed(uint64_t seed) {
    static Value *(*const steps[])(Pool *) = {pool_arithmetic, pool_arithmetic, pool_reshape, pool_reshape,
                                              pool_transpose,  pool_transpose,  pool_slice,   pool_window,
                                              pool_pad,        pool_concat,     pool_gather,  pool_broadcast,
                                              pool_reduce,     pool_narrow,     pool_index};
    Harness h = harness_new();
    h.seed = seed;
    h.bindings = dim_bindings_new(h.arena, h.graph->dims);
    Pool pool = {.h = &h};
    pool_add(&pool, make_input(&h, "a", DTYPE_I8, 2, (int64_t[]){8, 16}));
    pool_add(&pool, make_input(&h, "b", DTYPE_I32, 3, (int64_t[]){2, 3, 8}));
    pool_add(&pool, make_input(&h, "c", DTYPE_I4, 1, (int64_t[]){12}));
    for (int i = 0; i < 12; i++)
        pool_add(&pool, steps[pool_below(&pool, (int64_t)(sizeof steps / sizeof *steps))](&pool));
    Value *out = make1(&h, OP_neg, pool.at[pool.n - 1]);
    harness_output(&h, "out", out);
    harness_region(&h, TEMPLATE_POINTWISE, out, 0);
    harness_check(&h, 1);
}

static void random_graphs(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 2000; seed++)
        check_seed(seed * 7919);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
