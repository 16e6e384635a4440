/* Graphs: dims and inputs, one operation after the other, then outputs. */
#include <math.h>
#include <string.h>

#include "tests/fuzz/graphgen_internal.h"

enum { FLOAT_BOUND = 2, INTEGER_BOUND = 20 };

/* ---- random numbers ---------------------------------------------------------------------------------- */

/* splitmix64 */
uint64_t gen_draw(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int gen_below(Gen *gen, int n) {
    return (int)(gen_draw(&gen->random) % (uint64_t)n);
}

bool gen_chance(Gen *gen, int percent) {
    return gen_below(gen, 100) < percent;
}

/* ---- values ------------------------------------------------------------------------------------------ */

Known *gen_known(const Value *value) {
    return value->scratch;
}

static bool gen_count(const Gen *gen, const Value *value, int64_t *count) {
    *count = 1;
    for (int i = 0; i < value->rank; i++) {
        int64_t dim;
        if (!dim_eval(value->dims[i], &gen->bindings, &dim) || dim < 0)
            return false;
        *count *= dim;
        if (*count > gen->options.max_count)
            return false;
    }
    return true;
}

/* Appends, unless the rules, the size or the numbers are against it. */
Value *gen_append(Gen *gen, OpKind op, Value **in, int n_in, const Attr *attrs, Known known) {
    bool is_sane = known.low >= -9.3e18 && known.high <= 9.3e18 && known.error <= GEN_ERROR_MOST;
    if (!is_sane)
        return NULL;
    size_t before = gen->graph->values.n;
    Value *value = graph_append(gen->graph, op, in, n_in, attrs, (Span){0}, NULL);
    if (!value)
        return NULL;
    bool floats = dtype_is_float(value->dtype);
    if (!gen_count(gen, value, &known.count) || (floats && fmax(-known.low, known.high) > GEN_LARGEST)) {
        gen->graph->values.n = before;
        return NULL;
    }
    Known *kept = ARENA_NEW(gen->arena, Known);
    *kept = known;
    kept->used = false;
    value->scratch = kept;
    for (int i = 0; i < n_in; i++)
        gen_known(in[i])->used = true;
    return value;
}

/* What an input of this type is filled with. */
static Known gen_of_type(Gen *gen, DType dtype) {
    double low = (double)dtype_min_int(dtype), high = (double)dtype_max_int(dtype);
    if (dtype_is_float(dtype))
        return (Known){.low = -FLOAT_BOUND, .high = FLOAT_BOUND};
    if (dtype == DTYPE_I64 && gen_chance(gen, 20))
        return (Known){.low = -0x1p40, .high = 0x1p40};
    if (dtype_bits(dtype) > 8)
        return (Known){.low = -INTEGER_BOUND, .high = INTEGER_BOUND};
    return (Known){.low = low, .high = high};
}

Value *gen_constant(Gen *gen, double number, DType dtype) {
    Number value = dtype_convert((Number){.f = number}, DTYPE_F64, dtype);
    double held = dtype_is_float(dtype) ? value.f : (double)value.i;
    Attr attrs[OP_MAX_ATTRS] = {{.number = value}, {.dtype = dtype}};
    return gen_append(gen, OP_constant, NULL, 0, attrs, (Known){.low = held, .high = held});
}

DType gen_dtype(Gen *gen) {
    static const DType common[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    return gen_chance(gen, 50) ? common[gen_below(gen, 3)] : (DType)gen_below(gen, DTYPE_COUNT);
}

const Dim *gen_dim(Gen *gen) {
    return gen_chance(gen, 8) ? dim_const(gen->graph->dims, 1) : gen->pool[gen_below(gen, gen->n_pool)];
}

/* Strides of a buffer whose axes lie in another order than row-major. */
const Dim **gen_strides(Gen *gen, int rank, const Dim *const *dims) {
    if (gen->options.no_layouts || rank < 2 || !gen_chance(gen, 12))
        return NULL;
    const Dim **strides = ARENA_ARRAY(gen->arena, const Dim *, (size_t)rank);
    int first = gen_below(gen, rank);
    const Dim *stride = dim_const(gen->graph->dims, 1);
    for (int k = 0; k < rank; k++) {
        int axis = (first + k) % rank;
        strides[axis] = stride;
        stride = dim_mul(gen->graph->dims, stride, dims[axis]);
    }
    return strides;
}

Value *gen_input(Gen *gen, DType dtype, int rank, const Dim *const *dims) {
    Value like = {.rank = rank};
    memcpy(like.dims, dims, (size_t)rank * sizeof *dims);
    Known *known = ARENA_NEW(gen->arena, Known);
    *known = gen_of_type(gen, dtype);
    if (!gen_count(gen, &like, &known->count))
        return NULL;
    const char *name = text_format(gen->arena, "in%d", gen->n_inputs++);
    bool nibbles = dtype_bits(dtype) < 8;
    Value *value = graph_add_input(gen->graph, name, dtype, rank, dims,
                                   nibbles ? NULL : gen_strides(gen, rank, dims), (Span){0});
    value->scratch = known;
    return value;
}

Value *gen_random_input(Gen *gen) {
    const Dim *dims[4];
    int rank = gen_below(gen, 5);
    for (int i = 0; i < rank; i++)
        dims[i] = gen_dim(gen);
    return gen_input(gen, gen_dtype(gen), rank, dims);
}

/* Some value, mostly one that nobody uses yet, so that graphs grow deep and come together again; a scalar of
 * the border rarely. */
Value *gen_any(Gen *gen) {
    size_t n = gen->graph->values.n;
    Value *value = NULL;
    for (int attempt = 0; attempt < 8; attempt++) {
        value = gen->graph->values.at[gen_below(gen, (int)n)];
        bool plain = op_info(value->op)->class_ != OPCLASS_BORDER || value->op == OP_input;
        if (plain && (!gen_known(value)->used || gen_chance(gen, 25)))
            break;
    }
    return value;
}

/* What was appended since goes again. */
void gen_undo(Gen *gen, size_t values, size_t inputs) {
    gen->graph->values.n = values;
    gen->graph->inputs.n = inputs;
}

/* ---- operations -------------------------------------------------------------------------------------- */

static Value *gen_one(Gen *gen, OpKind op) {
    if (op_is_scalar(op))
        return gen_scalar(gen, op);
    switch (op_info(op)->class_) {
    case OPCLASS_REDUCTION: return gen_reduction(gen, op);
    case OPCLASS_RANDOM: return gen_shaped(gen, op);
    case OPCLASS_MOVEMENT: return gen_movement(gen, op, gen_any(gen));
    default: break;
    }
    switch (op) {
    case OP_input: return gen_random_input(gen);
    case OP_constant: return gen_constant(gen, (gen_below(gen, 33) - 16) / 8.0, gen_dtype(gen));
    case OP_dim: {
        Attr attrs[OP_MAX_ATTRS] = {{.dim = gen_dim(gen)}};
        return gen_append(gen, op, NULL, 0, attrs, (Known){.high = gen->options.max_dim});
    }
    case OP_cast: return gen_cast_to(gen, gen_any(gen), gen_dtype(gen));
    case OP_index: return gen_shaped(gen, op);
    case OP_matmul: return gen_matmul(gen);
    default: return NULL;
    }
}

/* ---- graphs ------------------------------------------------------------------------------------------ */

/* A handful of dims, so that shapes meet; some are symbols, some of these with a divisor or a lower bound. */
static void gen_choose_dims(Gen *gen) {
    static const int sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 24, 31, 32, 33, 40};
    DimTable *table = gen->graph->dims;
    int64_t chosen[GEN_POOL_MAX];
    gen->n_pool = 3 + gen_below(gen, GEN_POOL_MAX - 2);
    for (int i = 0; i < gen->n_pool; i++) {
        int64_t size = sizes[gen_below(gen, (int)(sizeof sizes / sizeof *sizes))];
        chosen[i] = size > gen->options.max_dim ? gen->options.max_dim : size;
        gen->pool[i] = dim_const(table, chosen[i]);
        if (gen->options.no_symbols || !gen_chance(gen, 35))
            continue;
        gen->pool[i] = dim_symbol(table, text_format(gen->arena, "D%d", i));
        if (chosen[i] % 4 == 0 && gen_chance(gen, 50))
            dim_constrain(table, dim_mod(table, gen->pool[i], dim_const(table, 4)), DIM_EQ,
                          dim_const(table, 0), (Span){0}, NULL);
        if (gen_chance(gen, 60))
            dim_constrain(table, gen->pool[i], DIM_GE, dim_const(table, chosen[i] / 2 + 1), (Span){0}, NULL);
    }
    gen->bindings = dim_bindings_new(gen->arena, table);
    for (int i = 0; i < gen->n_pool; i++)
        if (gen->pool[i]->kind == DIM_SYMBOL) {
            gen->bindings.value[gen->pool[i]->symbol] = chosen[i];
            gen->bindings.known[gen->pool[i]->symbol] = true;
        }
}

static bool gen_may_be_output(const Gen *gen, const Value *value) {
    bool nibbles = dtype_bits(value->dtype) < 8;
    return value->op != OP_input && value->op != OP_constant && !(nibbles && gen->options.no_nibbles);
}

/* Up to three values that nobody uses, the newest first; an input where there is none. */
static void gen_choose_outputs(Gen *gen) {
    Graph *graph = gen->graph;
    graph_renumber(graph);
    int *uses = graph_use_counts(gen->arena, graph), n = 1 + gen_below(gen, 3);
    for (size_t i = graph->values.n; i-- > 0 && n > 0;) {
        Value *value = graph->values.at[i];
        if (uses[i] > 0 || !gen_may_be_output(gen, value))
            continue;
        bool nibbles = dtype_bits(value->dtype) < 8;
        graph_add_output(graph, text_format(gen->arena, "out%zu", graph->outputs.n), value,
                         nibbles ? NULL : gen_strides(gen, value->rank, value->dims), (Span){0});
        n--;
    }
    if (graph->outputs.n == 0)
        graph_add_output(graph, "out0", graph->inputs.at[0], NULL, (Span){0});
}

/* Every symbol is a dim of some input, since that is how it gets its value at launch. */
static void gen_declare_symbols(Gen *gen) {
    Graph *graph = gen->graph;
    for (int symbol = 0; symbol < dim_symbol_count(graph->dims); symbol++) {
        const Dim *dim = dim_symbol_at(graph->dims, symbol);
        bool declared = false;
        for (size_t i = 0; i < graph->inputs.n; i++)
            for (int axis = 0; axis < graph->inputs.at[i]->rank; axis++)
                declared |= graph->inputs.at[i]->dims[axis] == dim;
        if (!declared)
            gen_input(gen, gen_dtype(gen), 1, &dim);
    }
}

/* Inputs that the outputs do not need go, but for a few: a caller may well pass what is not used. */
static void gen_drop_inputs(Gen *gen) {
    Graph *graph = gen->graph;
    graph_sort(graph);
    int *uses = graph_use_counts(gen->arena, graph);
    size_t values = 0, inputs = 0;
    for (size_t i = 0; i < graph->values.n; i++) {
        Value *value = graph->values.at[i];
        if (value->op == OP_input) {
            if (uses[i] == 0 && !gen_chance(gen, 5))
                continue;
            value->attrs[0].i = (int64_t)inputs;
            graph->inputs.at[inputs++] = value;
        }
        graph->values.at[values++] = value;
    }
    graph->values.n = values;
    graph->inputs.n = inputs;
    graph_renumber(graph);
}

GraphGen graphgen(Arena *arena, uint64_t seed, const GraphGenOptions *options) {
    Gen gen = {.arena = arena, .graph = graph_new(arena, "fuzz"), .random = seed};
    if (options)
        gen.options = *options;
    gen.options.operations = gen.options.operations ? gen.options.operations : 12;
    gen.options.max_dim = gen.options.max_dim ? gen.options.max_dim : 40;
    gen.options.max_count = gen.options.max_count ? gen.options.max_count : 6000;
    gen_choose_dims(&gen);
    while (gen.graph->inputs.n == 0)
        gen_random_input(&gen);
    int made = 0, most = 20 * gen.options.operations;
    for (int tried = 0; made < gen.options.operations && tried < most; tried++) {
        /* Classes as often as people use them, rows of a class alike. */
        static const struct {
            OpClass class_;
            int percent;
        } classes[] = {{OPCLASS_POINTWISE, 50},  {OPCLASS_MOVEMENT, 20}, {OPCLASS_REDUCTION, 14},
                       {OPCLASS_CONTRACTION, 9}, {OPCLASS_BORDER, 4},    {OPCLASS_RANDOM, 3}};
        int k = 0;
        for (int pick = gen_below(&gen, 100); pick >= classes[k].percent; k++)
            pick -= classes[k].percent;
        OpKind op;
        do
            op = (OpKind)gen_below(&gen, OP_COUNT);
        while (op_info(op)->class_ != classes[k].class_);
        size_t values = gen.graph->values.n, inputs = gen.graph->inputs.n;
        if (gen_one(&gen, op))
            made += op_info(op)->class_ != OPCLASS_BORDER;
        else
            gen_undo(&gen, values, inputs);
    }
    gen_choose_outputs(&gen);
    gen_drop_inputs(&gen);
    gen_declare_symbols(&gen);
    GraphGen out = {.graph = gen.graph,
                    .bindings = gen.bindings,
                    .ranges = ARENA_ARRAY(arena, GraphGenRange, gen.graph->inputs.n),
                    .tolerance = ARENA_ARRAY(arena, double, gen.graph->outputs.n)};
    for (size_t i = 0; i < gen.graph->inputs.n; i++) {
        const Known *known = gen_known(gen.graph->inputs.at[i]);
        out.ranges[i] = (GraphGenRange){known->low, known->high};
    }
    for (size_t i = 0; i < gen.graph->outputs.n; i++)
        out.tolerance[i] = 2 * gen_known(gen.graph->outputs.at[i].value)->error;
    for (size_t i = 0; i < gen.graph->values.n; i++)
        gen.graph->values.at[i]->scratch = NULL;
    return out;
}

Tensor *graphgen_inputs(Arena *arena, const GraphGen *generated, uint64_t seed) {
    const Graph *graph = generated->graph;
    Tensor *inputs = ARENA_ARRAY(arena, Tensor, graph->inputs.n);
    for (size_t i = 0; i < graph->inputs.n; i++) {
        const Value *value = graph->inputs.at[i];
        uint64_t random = seed ^ (i + 1) * 0xd1342543de82ef95u;
        int64_t dims[RANK_MAX] = {0};
        for (int axis = 0; axis < value->rank; axis++)
            if (!dim_eval(value->dims[axis], &generated->bindings, &dims[axis]))
                arena_give_up(arena);
        if (!tensor_new(arena, value->dtype, value->rank, dims, &inputs[i]))
            arena_give_up(arena);
        GraphGenRange range = generated->ranges[i];
        for (int64_t k = 0; k < inputs[i].count; k++) {
            double unit = (double)(gen_draw(&random) >> 11) * 0x1p-53,
                   drawn = range.low + unit * (range.high - range.low);
            if (dtype_is_float(value->dtype))
                inputs[i].at[k].f = dtype_round(drawn, value->dtype);
            else
                inputs[i].at[k].i = (int64_t)floor(range.low + unit * (range.high - range.low + 1));
        }
    }
    return inputs;
}
