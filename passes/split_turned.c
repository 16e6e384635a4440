/* Reductions beside an output that is another one transposed: in parts of 128 rows first, by the kernel that
 * has these rows on chip to store them both ways, as columns of a block of rows.
 *
 *     q = cast(x / s);  t = transpose(q);  a = reduce_max(abs(x), over=[0, 1])    x: [8192, 4096]
 * ->  u = transpose(reshape(x, dims=[64, 128, 4096]), perm=[1, 0, 2])
 *     v = cast(u / s)
 *     q = reshape(transpose(v, perm=[1, 0, 2]), dims=[8192, 4096])
 *     t = reshape(transpose(v, perm=[2, 1, 0]), dims=[4096, 8192])
 *     a = reduce_max(reduce_max(abs(u), over=0), over=[1, 2])     the outer by other kernels
 *
 * So have sums down the columns, as the gradient of a bias is. (H200, 8192 x 8192 from bf16 to e4m3 both
 * ways and its largest 115 us, 79 so; its columns' sums too, 144 and 82.) */
#include "passes/fuse.h"
#include "passes/movement.h"
#include "passes/split.h"

enum {
    TURNED_ROWS = 128,
    TURNED_STRIP = 64, /* columns */
    TURNED_LEAST = 1 << 20,
    TURNED_CONE = 256,
    TURNED_PAIRS = 4096, /* of an output and a reduction, looked at */
};

typedef enum TurnedRole {
    TURNED_NONE,
    TURNED_STRAIGHT, /* what is stored turned, and perhaps as it is */
    TURNED_OUTPUT,   /* it, turned */
    TURNED_ALONE,    /* what is computed of turned tensors, which nothing else has straight */
    TURNED_REDUCED
} TurnedRole;

bool split_takes_turned(const Pass *pass, const Value *value) {
    if (!pass->options->limits || value->rank != 2 || !dim_is_const(value->dims[0]) ||
        !dim_is_const(value->dims[1]))
        return false;
    int64_t rows = value->dims[0]->value, columns = value->dims[1]->value;
    return rows % TURNED_ROWS == 0 && columns % TURNED_STRIP == 0 && columns > 0 &&
           rows >= TURNED_LEAST / columns &&
           rows / TURNED_ROWS >= (int64_t)pass->options->limits->sm_count * TURNED_STRIP / columns;
}

static bool turned_exchanges(const Value *value) {
    return value->op == OP_transpose && value->rank == 2 && value->attrs[0].ints[0] == 1;
}

/* What a value is computed of, element by element. */
typedef struct TurnedSources {
    ValueMap seen, tensors;           /* in memory, that it reads all of */
    bool has_straight, has_exchanged; /* whether any of them is read as it is, any with its axes exchanged */
    int room;
} TurnedSources;

/* False where anything is a reduction or a product, or there is too much to see. */
static bool turned_collect(TurnedSources *sources, const Value *value, int64_t count, bool is_exchanged) {
    if (value_map_get(&sources->seen, value))
        return true;
    value_map_set(&sources->seen, value, 1);
    if (--sources->room < 0 || value_is_heavy(value))
        return false;
    if (value->op == OP_input && value->rank == 2 && dim_is_const(value->dims[0]) &&
        dim_is_const(value->dims[1]) && value->dims[1]->value > 0 && count % value->dims[1]->value == 0 &&
        value->dims[0]->value == count / value->dims[1]->value) {
        value_map_set(&sources->tensors, value, 1);
        sources->has_exchanged |= is_exchanged;
        sources->has_straight |= !is_exchanged;
    }
    for (int i = 0; i < value->n_in; i++)
        if (!turned_collect(sources, value->in[i], count, is_exchanged != turned_exchanges(value)))
            return false;
    return true;
}

static bool turned_sources(const Pass *pass, const Value *value, TurnedSources *sources) {
    *sources = (TurnedSources){.seen.arena = pass->arena, .tensors.arena = pass->arena, .room = TURNED_CONE};
    return turned_collect(sources, value, value->dims[0]->value * value->dims[1]->value, false);
}

static bool turned_share(const Graph *graph, const TurnedSources *a, const TurnedSources *b) {
    for (size_t i = 0; i < graph->inputs.n; i++)
        if (value_map_get(&a->tensors, graph->inputs.at[i]) &&
            value_map_get(&b->tensors, graph->inputs.at[i]))
            return true;
    return false;
}

/* Whether it reduces columns of a matrix, or all of it, and may do so in parts. */
static bool turned_is_reduction(const Value *value) {
    return value_class(value) == OPCLASS_REDUCTION && split_takes_parts(value->op) && value->attrs[1].i &&
           value->in[0]->rank == 2 && value_reduces(value, 0);
}

/* An output that has a matrix with its axes exchanged. */
typedef struct TurnedPair {
    const Value *output;
    const Value *straight; /* that it is the transpose of; NULL: it is computed of what is read exchanged */
    TurnedSources sources;
} TurnedPair;

static bool turned_pair(const Pass *pass, const Value *output, TurnedPair *pair) {
    *pair = (TurnedPair){.output = output, .straight = turned_exchanges(output) ? output->in[0] : NULL};
    const Value *computed = pair->straight ? pair->straight : output;
    if (computed->rank != 2 || !value_is_pointwise(computed) || dtype_bits(output->dtype) < 8 ||
        !dim_is_const(output->dims[0]) || !dim_is_const(output->dims[1]) ||
        output->dims[0]->value > INT64_MAX / (output->dims[1]->value + 1) || dim_is(output->dims[1], 0) ||
        !turned_sources(pass, computed, &pair->sources))
        return false;
    return pair->straight ? !pair->sources.has_exchanged : !pair->sources.has_straight;
}

/* Whether a reduction is of the matrix that the output has turned. */
static bool turned_suits(const Pass *pass, const Graph *graph, const TurnedPair *pair, const Value *value) {
    const Value *operand = value->in[0];
    TurnedSources sources;
    return operand->dims[0] == pair->output->dims[1] && operand->dims[1] == pair->output->dims[0] &&
           split_takes_turned(pass, operand) && turned_sources(pass, operand, &sources) &&
           !sources.has_exchanged && turned_share(graph, &pair->sources, &sources);
}

/* By id, what each value is to the pass; NULL: it finds nothing. */
static TurnedRole *turned_find(Pass *pass, const Graph *graph) {
    TurnedRole *roles = ARENA_ARRAY(pass->arena, TurnedRole, graph->values.n + 1);
    int pairs = 0;
    bool found = false;
    for (size_t i = 0; i < graph->outputs.n; i++) {
        TurnedPair pair;
        if (!turned_pair(pass, graph->outputs.at[i].value, &pair))
            continue;
        for (size_t k = 0; k < graph->values.n && pairs < TURNED_PAIRS; k++) {
            const Value *value = graph->values.at[k];
            if (!turned_is_reduction(value))
                continue;
            pairs++;
            if (!turned_suits(pass, graph, &pair, value))
                continue;
            roles[value->id] = TURNED_REDUCED;
            roles[pair.output->id] = pair.straight ? TURNED_OUTPUT : TURNED_ALONE;
            if (pair.straight)
                roles[pair.straight->id] = TURNED_STRAIGHT;
            found = true;
        }
    }
    return found ? roles : NULL;
}

/* A matrix as blocks of 128 rows, [row of the block, block, column], moved to what it is computed of. */
static Value *turned_cut(Rewrite *rewrite, Value *value, const Value *like) {
    DimTable *table = rewrite->graph->dims;
    static const int perm[] = {1, 0, 2};
    if (value->op == OP_reshape && value->in[0]->op == OP_transpose && value->in[0]->rank == 3)
        return value->in[0]->in[0]; /* cut before */
    const Dim *rows = dim_const(table, TURNED_ROWS);
    const Dim *dims[] = {dim_div(table, value->dims[0], rows), rows, value->dims[1]};
    Value *moved = build_reshape(rewrite, value, 3, dims, like);
    Respace respace;
    if (!moved || !respace_of(rewrite->graph, moved, &respace) ||
        !(moved = respace_apply(rewrite, &respace, value, like)))
        return NULL;
    respace = respace_transpose(moved, perm);
    return respace_apply(rewrite, &respace, moved, like);
}

/* What is cut in the order that the graph has it in. */
static Value *turned_back(Rewrite *rewrite, Value *cut, bool is_turned, const Value *like) {
    static const int straight[] = {1, 0, 2}, turned[] = {2, 1, 0};
    Value *moved = cut ? build_transpose(rewrite, cut, is_turned ? turned : straight, like) : NULL;
    return moved ? build_reshape(rewrite, moved, 2, (const Dim *const *)like->dims, like) : NULL;
}

static Value *turned_reduced(Rewrite *rewrite, Value *value) {
    int first = 0, along = 2;
    Value *cut = turned_cut(rewrite, value->in[0], value);
    Value *fresh = cut ? build_reduce(rewrite, value->op, cut, 1, &first, true, value) : NULL;
    if (fresh && value_reduces(value, 1))
        fresh = build_reduce(rewrite, value->op, fresh, 1, &along, true, value);
    if (fresh) /* of each block, as rows of a matrix */
        fresh = build_reshape(rewrite, fresh, 2, (const Dim *const *)fresh->dims + 1, value);
    fresh = fresh ? build_reduce(rewrite, value->op, fresh, 1, &first, true, value) : NULL;
    if (!fresh || fresh->dtype != value->dtype || !value_same_dims(fresh, value))
        return value;
    pass_decide(rewrite->pass, "split", true, fresh, NULL, NULL,
                "the kernel that stores the same rows both ways reduces %d of them at a time, another kernel "
                "their results",
                TURNED_ROWS);
    return fresh;
}

static Value *turned_alone(Rewrite *rewrite, Value *value) {
    static const int exchange[] = {1, 0};
    Respace respace = respace_transpose(value, exchange);
    Value *straight = respace_apply(rewrite, &respace, value, value);
    return straight ? turned_back(rewrite, turned_cut(rewrite, straight, value), true, value) : NULL;
}

static Value *turned_rule(Rewrite *rewrite, Value *value) {
    const TurnedRole *roles = rewrite->pass->state;
    Value *fresh = value;
    switch (value->id < rewrite->n_before ? roles[value->id] : TURNED_NONE) {
    case TURNED_NONE: break;
    case TURNED_STRAIGHT:
        fresh = turned_back(rewrite, turned_cut(rewrite, value, value), false, value);
        break;
    case TURNED_OUTPUT:
        fresh = turned_back(rewrite, turned_cut(rewrite, value->in[0], value), true, value);
        break;
    case TURNED_ALONE: fresh = turned_alone(rewrite, value); break;
    case TURNED_REDUCED: return turned_reduced(rewrite, value);
    }
    return fresh && value_same_dims(fresh, value) ? fresh : value;
}

bool pass_split_turned(Pass *pass, Graph *graph) {
    if (pass->options->no_fusion || !pass->options->limits)
        return false;
    graph_renumber(graph);
    pass->state = turned_find(pass, graph);
    bool changed = pass->state && rewrite_graph(pass, graph, turned_rule);
    return changed && (pass_cse(pass, graph), true);
}
