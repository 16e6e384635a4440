/* Deep copies of graphs, with values put in the place of symbols. */
#include <string.h>

#include "ir/graph.h"

typedef struct Clone {
    const Graph *from;
    Graph *to;
    const DimBindings *bindings;
    const DimGuards *guards; /* NULL: none */
    Diags *diags;
    Value **copies; /* by id in `from`, which is not written to: several threads may copy one graph */
} Clone;

static Value *clone_of(const Clone *clone, const Value *value) {
    return value ? clone->copies[value->id] : NULL;
}

static const Dim *clone_dim(Clone *clone, const Dim *d) {
    return dim_copy(clone->to->dims, clone->from->dims, d, clone->bindings);
}

static const Dim **clone_dims(Clone *clone, const Dim *const *dims, int n) {
    if (!dims)
        return NULL;
    const Dim **copy = ARENA_ARRAY(clone->to->arena, const Dim *, (size_t)n);
    for (int i = 0; i < n; i++)
        copy[i] = clone_dim(clone, dims[i]);
    return copy;
}

/* The symbols first and in order, so that bindings and checks mean the same in both graphs. */
static bool clone_symbols(Clone *clone) {
    const DimTable *from = clone->from->dims;
    const DimBindings *bindings = clone->bindings;
    for (int i = 0; i < dim_symbol_count(from); i++) {
        const char *name = dim_symbol_name(from, i);
        dim_symbol(clone->to->dims, name);
        if (!bindings || i >= bindings->n || !bindings->known[i])
            continue;
        if (bindings->value[i] < 0 || !dim_const(clone->to->dims, bindings->value[i])) {
            diag_error(clone->diags, DIAG_DIM, clone->from->span, "the dim '%s' cannot be %lld", name,
                       (long long)bindings->value[i]);
            return false;
        }
    }
    for (int i = 0; i < dim_constraint_count(from); i++) {
        const DimConstraint *c = dim_constraint_at(from, i);
        const Dim *a = clone_dim(clone, c->a);
        if (c->set ? !dim_constrain_set(clone->to->dims, a, c->set, c->n_set, c->span, clone->diags)
                   : !dim_constrain(clone->to->dims, a, c->relation, clone_dim(clone, c->b), c->span,
                                    clone->diags))
            return false;
    }
    return !clone->guards ||
           dim_constrain_guards(clone->to->dims, clone->guards, clone->from->span, clone->diags);
}

static bool clone_input(Clone *clone, const Value *value) {
    const Dim **dims = clone_dims(clone, value->dims, value->rank);
    for (int i = 0; i < value->rank; i++)
        if (!dims[i]) {
            diag_error(clone->diags, DIAG_DIM, value->span, "a dim of '%s' overflows 64 bits", value->name);
            return false;
        }
    clone->copies[value->id] = graph_add_input(clone->to, value->name, value->dtype, value->rank, dims,
                                               clone_dims(clone, value->strides, value->rank), value->span);
    return true;
}

static bool clone_value(Clone *clone, const Value *value) {
    if (value->op == OP_input)
        return clone_input(clone, value);
    const OpInfo *info = op_info(value->op);
    Attr attrs[OP_MAX_ATTRS];
    for (int i = 0; i < info->n_attrs; i++) {
        attrs[i] = value->attrs[i];
        if (info->attrs[i].kind == ATTR_DIM)
            attrs[i].dim = clone_dim(clone, attrs[i].dim);
        else if (info->attrs[i].kind == ATTR_DIMS)
            attrs[i].dims = clone_dims(clone, attrs[i].dims, attrs[i].n_dims);
    }
    Value **in = ARENA_ARRAY(clone->to->arena, Value *, (size_t)value->n_in);
    for (int i = 0; i < value->n_in; i++)
        in[i] = clone_of(clone, value->in[i]);
    Value *copy = graph_append(clone->to, value->op, in, value->n_in, attrs, value->span, clone->diags);
    if (copy && value->name)
        copy->name = arena_strdup(clone->to->arena, value->name);
    clone->copies[value->id] = copy;
    return copy != NULL;
}

static void clone_hint(Clone *clone, const Hint *hint) {
    Arena *arena = clone->to->arena;
    Hint copy = {
        .name = arena_strdup(arena, hint->name), .value = clone_of(clone, hint->value), .span = hint->span};
    for (size_t i = 0; i < hint->args.n; i++) {
        HintArg arg = hint->args.at[i];
        arg.name = arg.name ? arena_strdup(arena, arg.name) : NULL;
        arg.word = arg.word ? arena_strdup(arena, arg.word) : NULL;
        vec_push(arena, &copy.args, arg);
    }
    vec_push(arena, &clone->to->hints, copy);
}

static void clone_check(Clone *clone, const Check *check) {
    Arena *arena = clone->to->arena;
    Check copy = *check;
    memset(&copy.dims, 0, sizeof copy.dims);
    for (size_t i = 0; i < check->dims.n; i++) {
        CheckDim dim = check->dims.at[i];
        int64_t *values = ARENA_ARRAY(arena, int64_t, (size_t)dim.n);
        if (dim.n)
            memcpy(values, dim.values, (size_t)dim.n * sizeof *values);
        dim.values = values;
        vec_push(arena, &copy.dims, dim);
    }
    vec_push(arena, &clone->to->checks, copy);
}

Graph *graph_clone(Arena *arena, const Graph *graph, const DimBindings *bindings, Diags *diags) {
    return graph_narrow(arena, graph, bindings, NULL, diags);
}

Graph *graph_narrow(Arena *arena, const Graph *graph, const DimBindings *bindings, const DimGuards *guards,
                    Diags *diags) {
    Clone clone = {.from = graph,
                   .to = graph_new(arena, graph->name),
                   .bindings = bindings,
                   .guards = guards,
                   .diags = diags};
    clone.to->span = graph->span;
    clone.copies = ARENA_ARRAY(arena, Value *, graph->values.n);
    if (!clone_symbols(&clone))
        return NULL;
    for (size_t i = 0; i < graph->values.n; i++)
        if (!clone_value(&clone, graph->values.at[i]))
            return NULL;
    for (size_t i = 0; i < graph->inputs.n; i++) {
        clone.to->inputs.at[i] = clone_of(&clone, graph->inputs.at[i]);
        clone.to->inputs.at[i]->attrs[0].i = (int64_t)i;
    }
    for (size_t i = 0; i < graph->outputs.n; i++) {
        const Output *output = &graph->outputs.at[i];
        graph_add_output(clone.to, output->name, clone_of(&clone, output->value),
                         clone_dims(&clone, output->strides, output->value->rank), output->span);
    }
    for (size_t i = 0; i < graph->hints.n; i++)
        clone_hint(&clone, &graph->hints.at[i]);
    for (size_t i = 0; i < graph->checks.n; i++)
        clone_check(&clone, &graph->checks.at[i]);
    return clone.to;
}
