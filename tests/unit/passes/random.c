/* Graphs at random: whatever operations follow one another, the passes end, each keeps the graph's invariants
 * and its meaning, and the partition is one that can be launched. Failures print their seed: RANDOM_SEED=n
 * RANDOM_COUNT=1 runs that graph alone. */
#include "support.h"

#include <stdlib.h>

#include "ir/infer.h"
#include "passes/rewrite.h"

typedef struct Random {
    uint64_t state;
    Arena *arena;
    Graph *graph;
    Diags diags; /* of attempts: an operation that does not fit is simply not there */
    int seed;
    bool failed;
} Random;

static int random_below(Random *random, int n) {
    random->state = random->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((random->state >> 33) % (uint64_t)n);
}

/* Inputs share few shapes, so that operations find partners. */
static int random_shape(Random *random, const Dim **dims) {
    static const int shapes[][5] = {{2, 4, 6}, {2, 6, 4},    {3, 2, 4, 6}, {1, 6},   {2, 4, 1},
                                    {2, 0, 6}, {3, 2, 0, 6}, {0},          {2, 4, 6}};
    const int *shape = shapes[random_below(random, 9)];
    for (int i = 0; i < shape[0]; i++)
        dims[i] = shape[i + 1] ? dim_const(random->graph->dims, shape[i + 1])
                               : dim_symbol(random->graph->dims, "N");
    return shape[0];
}

static const Dim *random_dim(Random *random) {
    static const int extents[] = {1, 2, 4, 6, 4, 6};
    int i = random_below(random, 8);
    return i == 7 ? dim_symbol(random->graph->dims, "N") : dim_const(random->graph->dims, extents[i % 6]);
}

static Value *random_value(Random *random) {
    int n = (int)random->graph->values.n, back = random_below(random, n < 8                     ? n
                                                                      : random_below(random, 3) ? 8
                                                                                                : n);
    return random->graph->values.at[n - 1 - back];
}

static void random_input(Random *random, int i) {
    static const DType types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F32, DTYPE_E4M3, DTYPE_I32, DTYPE_I8};
    const Dim *dims[4];
    int rank = random_shape(random, dims);
    graph_add_input(random->graph, text_format(random->arena, "x%d", i), types[random_below(random, 6)], rank,
                    dims, NULL, (Span){0});
}

static void random_axes(Random *random, const Value *value, Attr *attr) {
    for (int i = 0; i < value->rank; i++)
        if (random_below(random, 2))
            attr->axes.at[attr->axes.n++] = i;
}

static void random_reshape(Random *random, const Value *value, Attr *attr) {
    const Dim **dims = ARENA_ARRAY(random->arena, const Dim *, RANK_MAX);
    int n = 0;
    for (int i = 0; i < value->rank; i++) {
        if (random_below(random, 4) == 0)
            dims[n++] = dim_const(random->graph->dims, 1);
        if (n && random_below(random, 4) == 0)
            dims[n - 1] = dim_mul(random->graph->dims, dims[n - 1], value->dims[i]);
        else if (dim_is(value->dims[i], 6) || dim_is(value->dims[i], 4)) {
            dims[n++] = dim_const(random->graph->dims, 2);
            dims[n++] = dim_const(random->graph->dims, value->dims[i]->value / 2);
        } else {
            dims[n++] = value->dims[i];
        }
        if (n > RANK_MAX - 3)
            break;
    }
    attr->dims = dims;
    attr->n_dims = n;
}

static void random_slice(Random *random, const Value *value, Attr *attrs) {
    for (int a = 0; a < 2; a++) {
        attrs[a].dims = ARENA_ARRAY(random->arena, const Dim *, RANK_MAX);
        attrs[a].n_dims = value->rank;
    }
    attrs[2].ints = ARENA_ARRAY(random->arena, int, RANK_MAX);
    attrs[2].n_ints = value->rank;
    for (int i = 0; i < value->rank; i++) {
        bool half = dim_is_const(value->dims[i]) && value->dims[i]->value > 1 && random_below(random, 2);
        bool high = half && random_below(random, 2);
        const Dim *middle = half ? dim_const(random->graph->dims, value->dims[i]->value / 2) : NULL;
        attrs[0].dims[i] = high ? middle : dim_const(random->graph->dims, 0);
        attrs[1].dims[i] = half && !high ? middle : value->dims[i];
        attrs[2].ints[i] = 1;
    }
}

static void random_window(Random *random, const Value *value, Attr *attrs) {
    attrs[0].i = value->rank ? random_below(random, value->rank) : 0;
    attrs[1].dim = dim_const(random->graph->dims, 1 + random_below(random, 3));
    attrs[2].i = 1 + random_below(random, 2);
    attrs[3].i = 1 + (random_below(random, 4) == 0);
}

static void random_transpose(Random *random, const Value *value, Attr *attr) {
    attr->ints = ARENA_ARRAY(random->arena, int, RANK_MAX);
    attr->n_ints = value->rank;
    for (int i = 0; i < value->rank; i++)
        attr->ints[i] = i;
    for (int i = value->rank - 1; i > 0; i--) {
        int k = random_below(random, i + 1), kept = attr->ints[i];
        attr->ints[i] = attr->ints[k];
        attr->ints[k] = kept;
    }
}

static void random_movement(Random *random, Value *value) {
    static const OpKind kinds[] = {OP_reshape, OP_transpose, OP_slice,     OP_transpose, OP_reshape,
                                   OP_pad,     OP_concat,    OP_broadcast, OP_window};
    OpKind op = kinds[random_below(random, 9)];
    Attr attrs[OP_MAX_ATTRS] = {{0}};
    Value *in[2] = {value, value};
    int n_in = 1;
    switch (op) {
    case OP_reshape: random_reshape(random, value, &attrs[0]); break;
    case OP_transpose: random_transpose(random, value, &attrs[0]); break;
    case OP_slice: random_slice(random, value, attrs); break;
    case OP_window: random_window(random, value, attrs); break;
    case OP_pad:
        in[1] =
            graph_append(random->graph, OP_cast, (Value *[]){graph_constant_int(random->graph, 1, (Span){0})},
                         1, (Attr[OP_MAX_ATTRS]){{.dtype = value->dtype}}, (Span){0}, &random->diags);
        n_in = 2;
        random_slice(random, value, attrs);
        for (int a = 0; a < 2; a++)
            for (int i = 0; i < value->rank; i++)
                attrs[a].dims[i] = dim_const(random->graph->dims, random_below(random, 2));
        break;
    case OP_concat:
        n_in = 2;
        attrs[0].i = value->rank ? random_below(random, value->rank) : 0;
        break;
    default: {
        const Dim **dims = ARENA_ARRAY(random->arena, const Dim *, RANK_MAX);
        attrs[0].n_dims = value->rank + (value->rank < 4);
        attrs[0].dims = dims;
        dims[0] = dim_const(random->graph->dims, 2);
        for (int i = 0; i < value->rank; i++)
            dims[i + (value->rank < 4)] = dim_is(value->dims[i], 1) ? random_dim(random) : value->dims[i];
    }
    }
    graph_append(random->graph, op, in, n_in, attrs, (Span){0}, &random->diags);
}

static void random_operation(Random *random) {
    static const OpKind unary[] = {OP_neg, OP_abs, OP_tanh, OP_sigmoid, OP_sin, OP_tanh};
    static const OpKind binary[] = {OP_add, OP_mul, OP_sub, OP_max, OP_min, OP_add, OP_mul};
    static const OpKind reductions[] = {OP_sum, OP_reduce_max, OP_reduce_min, OP_sum, OP_argmax};
    Value *value = random_value(random), *other = random_value(random);
    for (int tries = 0; tries < 8; tries++) {
        const Dim *dims[RANK_MAX];
        if (value->rank && other->rank && other != value &&
            infer_broadcast_dims(random->graph->dims, value->rank, value->dims, other->rank, other->dims,
                                 dims) >= 0)
            break;
        other = random_value(random);
    }
    Attr attrs[OP_MAX_ATTRS] = {{0}};
    switch (random_below(random, 12)) {
    case 0:
    case 1:
    case 2:
    case 3:
        graph_append(random->graph, binary[random_below(random, 7)], (Value *[]){value, other}, 2, NULL,
                     (Span){0}, &random->diags);
        break;
    case 4:
        graph_append(random->graph, unary[random_below(random, 6)], &value, 1, NULL, (Span){0},
                     &random->diags);
        break;
    case 5:
        attrs[0].dtype = random_below(random, 2) ? DTYPE_F32 : DTYPE_F64;
        graph_append(random->graph, OP_cast, &value, 1, attrs, (Span){0}, &random->diags);
        break;
    case 6:
    case 7:
        random_axes(random, value, &attrs[0]);
        attrs[1].i = random_below(random, 2);
        graph_append(random->graph, reductions[random_below(random, 5)], &value, 1, attrs, (Span){0},
                     &random->diags);
        break;
    case 8:
        graph_append(random->graph, OP_matmul, (Value *[]){value, other}, 2, NULL, (Span){0}, &random->diags);
        break;
    default: random_movement(random, value); break;
    }
}

/* A third of the Values is output, and the last ones; products of long chains are kept small. */
static void random_outputs(Random *random) {
    Graph *graph = random->graph;
    size_t n = graph->values.n;
    for (size_t i = 0; i < n && graph->outputs.n < 6; i++)
        if (i + 2 >= n || random_below(random, 5) == 0)
            graph_add_output(graph, text_format(random->arena, "y%zu", i), graph->values.at[i], NULL,
                             (Span){0});
}

/* How often a product or a reduction is computed by more than one kernel. */
static int random_repeated(Random *random, const Partition *partition) {
    int *computed = ARENA_ARRAY(random->arena, int, random->graph->values.n + 1), repeated = 0;
    for (size_t i = 0; i < partition->regions.n; i++)
        for (size_t k = 0; k < partition->regions.at[i]->values.n; k++) {
            const Value *value = partition->regions.at[i]->values.at[k];
            int64_t count = value->op == OP_matmul ? 1 << 20 : 1; /* short reductions are computed in place */
            for (int a = 0; value_class(value) == OPCLASS_REDUCTION && a < value->attrs[0].axes.n; a++) {
                const Dim *dim = value->in[0]->dims[value->attrs[0].axes.at[a]];
                count *= dim_is_const(dim) ? dim->value : 1 << 20;
            }
            repeated += value_is_heavy(value) && count > 8 && computed[value->id]++ > 0;
        }
    return repeated;
}

static double random_compare(Random *random, const Graph *before, Support *support) {
    support->dims = (const SupportDim[]){{"N", 3}, {NULL, 0}};
    const Tensor *expected = support_evaluate(support, before),
                 *got = support_evaluate(support, random->graph);
    double worst = 0;
    for (size_t i = 0; expected && got && i < before->outputs.n; i++) {
        double scale = 1;
        for (int64_t k = 0; k < expected[i].count; k++)
            if (dtype_is_float(expected[i].dtype) && isfinite(expected[i].at[k].f))
                scale = fmax(scale, fabs(expected[i].at[k].f));
        for (int64_t k = 0; k < expected[i].count; k++) {
            bool real = dtype_is_float(expected[i].dtype);
            double a = real ? expected[i].at[k].f : (double)expected[i].at[k].i;
            double b = real ? got[i].at[k].f : (double)got[i].at[k].i;
            double difference = a == b || (isnan(a) && isnan(b)) ? 0 : fabs(a - b) / scale;
            worst = difference <= worst ? worst : difference;
        }
    }
    return expected && got ? worst : INFINITY;
}

static void random_body(void *context) {
    Random *random = context;
    Support support = {.arena = random->arena, .limits = support_limits()};
    random->graph = graph_new(random->arena, "random");
    random->diags = (Diags){.arena = random->arena, .error_limit = 1};
    support.diags = (Diags){.arena = random->arena};
    for (int i = 0; i < 4; i++)
        random_input(random, i);
    for (int i = 0, n = 6 + random_below(random, 40); i < n; i++)
        random_operation(random);
    random_outputs(random);
    graph_renumber(random->graph);
    Graph *before = graph_clone(random->arena, random->graph, NULL, &support.diags);
    if (random->seed % 5 == 1)
        support.limits.max_inputs = 4, support.limits.max_outputs = 2;
    PassOptions options = {
        .limits = &support.limits, .verify = true, .pass_limit = -1, .no_fusion = random->seed % 7 == 3};
    options.skip = random->seed % 11 == 4 ? "movement" : random->seed % 11 == 5 ? "cse" : NULL;
    Text text = text_new(random->arena);
    graph_print(&text, random->graph);
    support.partition = passes_run(random->graph, &options, &support.diags);
    double worst = support.partition ? random_compare(random, before, &support) : INFINITY;
    int repeated =
        support.partition && support.limits.max_inputs > 4 ? random_repeated(random, support.partition) : 0;
    if (support.partition && !support.diags.errors && worst < 1e-6 && !repeated)
        return;
    random->failed = true;
    print_message("seed %d: off by %g, %d computed twice\n%s\n", random->seed, worst, repeated, text.at);
    text = text_new(random->arena);
    graph_print(&text, random->graph);
    if (support.partition)
        partition_print(&text, support.partition);
    print_message("becomes\n%s\n", text.at);
    for (size_t i = 0; i < support.diags.list.n; i++)
        print_message("  %s\n", support.diags.list.at[i].message);
}

static void test_random_graphs(void **state) {
    (void)state;
    int first = getenv("RANDOM_SEED") ? atoi(getenv("RANDOM_SEED")) : 1;
    int count = getenv("RANDOM_COUNT") ? atoi(getenv("RANDOM_COUNT")) : 600, failures = 0;
    for (int seed = first; seed < first + count && failures < 3; seed++) {
        Random random = {
            .state = (uint64_t)seed * UINT64_C(0x9e3779b97f4a7c15), .seed = seed, .arena = arena_new(0)};
        assert_non_null(random.arena);
        assert_true(arena_run(random.arena, random_body, &random));
        failures += random.failed;
        arena_free(random.arena);
    }
    assert_int_equal(failures, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
