/* The walk and the builders of rewrite.h.
 *
 * A rule never changes a Value; it answers another one. The walk keeps old -> new in Value.scratch and
 * redirects operands before it hands a Value to the rule, so a rule sees its operands as they will be, and a
 * chain of replacements settles in one walk downward. */
#include "passes/rewrite.h"

OpClass value_class(const Value *value) {
    return op_info(value->op)->class_;
}

bool value_is_pointwise(const Value *value) {
    return op_is_scalar(value->op) || value->op == OP_cast;
}

bool value_reduces(const Value *reduction, int axis) {
    for (int i = 0; i < reduction->attrs[0].axes.n; i++)
        if (reduction->attrs[0].axes.at[i] == axis)
            return true;
    return false;
}

bool value_takes_columns(const Value *value) {
    if (value->op != OP_slice || !value_same_rows(value, value->in[0]))
        return false;
    for (int i = 0; i + 1 < value->rank; i++)
        if (value->attrs[2].ints[i] != 1)
            return false;
    return true;
}

bool value_is_arg(const Value *reduction) {
    return reduction->op == OP_argmax || reduction->op == OP_argmin;
}

bool op_is_view(OpKind op) {
    return op == OP_reshape || op == OP_transpose || op == OP_slice || op == OP_broadcast || op == OP_window;
}

Value *value_below_views(const Value *value) {
    while (op_is_view(value->op))
        value = value->in[0];
    return (Value *)(uintptr_t)value;
}

bool value_is_heavy(const Value *value) {
    switch (value_class(value)) {
    case OPCLASS_REDUCTION:
    case OPCLASS_CONTRACTION:
    case OPCLASS_COMPOSITE:
    case OPCLASS_RECURRENT:
    case OPCLASS_COLLECTIVE: return true;
    case OPCLASS_BORDER:
    case OPCLASS_POINTWISE:
    case OPCLASS_RANDOM:
    case OPCLASS_MOVEMENT: return false;
    }
    return false;
}

enum { COMPUTED_SEARCH = 256 };

/* Nearest ones first, each once: a statistic is near the rows it is of, however much lies behind both. */
bool value_is_computed_from(const Value *value, const Value *source) {
    const Value *found[COMPUTED_SEARCH] = {value};
    int n = 1;
    for (int at = 0; at < n; at++) {
        if (found[at] == source)
            return true;
        for (int i = 0; i < found[at]->n_in && n < COMPUTED_SEARCH; i++) {
            int known = 0;
            while (known < n && found[known] != found[at]->in[i])
                known++;
            if (known == n)
                found[n++] = found[at]->in[i];
        }
    }
    return false;
}

bool value_is_scalar_constant(const Value *value) {
    return value->op == OP_constant;
}

int rewrite_uses(const Rewrite *rewrite, const Value *value) {
    return value->id < rewrite->n_before ? rewrite->uses[value->id] : 1;
}

int rewrite_users(const Rewrite *rewrite, const Value *value) {
    return value->id < rewrite->n_before ? rewrite->users[value->id] : USER_OTHER;
}

static const uint8_t *rewrite_user_flags(Arena *arena, const Graph *graph) {
    uint8_t *users = ARENA_ARRAY(arena, uint8_t, graph->values.n + 1);
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i];
        int flag = value->op == OP_matmul                    ? USER_CONTRACTION
                   : value->op == OP_slice                   ? USER_SLICE
                   : value_class(value) == OPCLASS_REDUCTION ? USER_REDUCTION
                                                             : USER_OTHER;
        for (int k = 0; k < value->n_in; k++)
            users[value->in[k]->id] |= (uint8_t)flag;
    }
    for (size_t i = 0; i < graph->outputs.n; i++)
        users[graph->outputs.at[i].value->id] |= USER_OTHER;
    return users;
}

/* Values are looked at in the order in which they were appended, so that each operand's answer is there
 * before it is asked for. */
bool rewrite_is_heavy(Rewrite *rewrite, const Value *value) {
    const Graph *graph = rewrite->graph;
    while (rewrite->heavy.n < graph->values.n) {
        Value *next = graph->values.at[rewrite->heavy.n];
        bool heavy = value_is_heavy(next);
        next->id = (uint32_t)rewrite->heavy.n;
        for (int i = 0; i < next->n_in && !heavy; i++)
            heavy = rewrite->heavy.at[next->in[i]->id];
        vec_push(rewrite->pass->arena, &rewrite->heavy, heavy);
    }
    return rewrite->heavy.at[value->id];
}

bool *rewrite_find_taken(Pass *pass, const Graph *graph, bool (*takes)(const Value *reader)) {
    bool *taken = ARENA_ARRAY(pass->arena, bool, graph->values.n + 1);
    for (size_t i = graph->values.n; i-- > 0;) { /* topological */
        const Value *value = graph->values.at[i];
        bool passes_on = takes(value) || (!value_is_heavy(value) && taken[value->id]);
        for (int k = 0; k < value->n_in && passes_on; k++)
            taken[value->in[k]->id] = true;
    }
    return taken;
}

bool *rewrite_find_shown(Pass *pass, Graph *graph) {
    bool *shown = ARENA_ARRAY(pass->arena, bool, graph->values.n + 1);
    for (size_t i = 0; i < graph->outputs.n; i++)
        shown[graph->outputs.at[i].value->id] = dtype_bits(graph->outputs.at[i].value->dtype) > 16;
    for (size_t i = graph->values.n; i-- > 0;) {
        const Value *value = graph->values.at[i];
        for (int k = 0; k < value->n_in && dtype_bits(value->dtype) > 16; k++)
            shown[value->in[k]->id] |= shown[value->id];
    }
    return shown;
}

static Value *rewrite_resolve(Value *value) {
    while (value->scratch)
        value = value->scratch;
    return value;
}

/* Where a hint on `value` stands now: what was said of a computation is said of what computes it, not of what
 * moves its result to its place. */
static Value *rewrite_hinted(Value *value) {
    Value *fresh = rewrite_resolve(value);
    if (value_class(value) != OPCLASS_MOVEMENT)
        while (fresh != value && value_class(fresh) == OPCLASS_MOVEMENT && fresh->n_in == 1)
            fresh = fresh->in[0];
    return fresh;
}

bool rewrite_graph(Pass *pass, Graph *graph, RewriteRule rule) {
    graph_renumber(graph);
    Rewrite rewrite = {.pass = pass,
                       .graph = graph,
                       .uses = graph_use_counts(pass->arena, graph),
                       .users = rewrite_user_flags(pass->arena, graph),
                       .n_before = graph->values.n};
    bool changed = false;
    if (graph->values.n)
        rewrite_is_heavy(&rewrite,
                         graph->values.at[0]); /* before operands are redirected to Values further down */
    for (size_t i = 0; i < rewrite.n_before; i++)
        graph->values.at[i]->scratch = NULL;
    for (size_t i = 0; i < rewrite.n_before; i++) {
        Value *value = graph->values.at[i];
        for (int k = 0; k < value->n_in; k++)
            value->in[k] = rewrite_resolve(value->in[k]);
        Value *fresh = rule(&rewrite, value);
        if (!fresh || fresh == value)
            continue;
        value->scratch = fresh;
        if (!fresh->name && fresh->op != OP_input)
            fresh->name = value->name;
        changed = true;
    }
    if (changed) {
        for (size_t i = 0; i < graph->outputs.n; i++)
            graph->outputs.at[i].value = rewrite_resolve(graph->outputs.at[i].value);
        for (size_t i = 0; i < graph->hints.n; i++)
            if (graph->hints.at[i].value)
                graph->hints.at[i].value = rewrite_hinted(graph->hints.at[i].value);
        for (size_t i = 0; i < graph->values.n; i++)
            graph->values.at[i]->scratch = NULL;
    }
    bool appended = graph->values.n != rewrite.n_before;
    if (changed || appended)
        graph_sort(graph); /* what was appended and not used goes here */
    return changed;
}

bool rewrite_has_hint(const Graph *graph, const Value *value) {
    for (size_t i = 0; i < graph->hints.n; i++)
        if (graph->hints.at[i].value == value)
            return true;
    return false;
}

bool rewrite_has_schedule(const Graph *graph, const Value *value) {
    for (size_t i = 0; i < graph->hints.n; i++)
        if (!strcmp(graph->hints.at[i].name, "schedule") && graph->hints.at[i].value &&
            value_is_computed_from(graph->hints.at[i].value, value))
            return true;
    return false;
}

bool rewrite_is_free(const Rewrite *rewrite, const Value *value) {
    return rewrite_uses(rewrite, value) == 1 && !rewrite_has_hint(rewrite->graph, value);
}

static Value *build_append(Rewrite *rewrite, OpKind op, Value **in, int n_in, const Attr *attrs,
                           const Value *like) {
    Value *fresh = graph_append(rewrite->graph, op, in, n_in, attrs, like->span, rewrite->pass->diags);
    if (fresh)
        fresh->scratch = NULL;
    return fresh;
}

Value *build_scalar(Rewrite *rewrite, OpKind op, Value *a, Value *b, Value *c, const Value *like) {
    Value *in[OP_MAX_ARITY] = {a, b, c};
    return build_append(rewrite, op, in, c ? 3 : b ? 2 : 1, NULL, like);
}

Value *build_dim(Rewrite *rewrite, const Dim *dim, const Value *like) {
    Attr attrs[OP_MAX_ATTRS] = {{.dim = dim}};
    return build_append(rewrite, OP_dim, NULL, 0, attrs, like);
}

Value *build_index(Rewrite *rewrite, int rank, const Dim *const *dims, int axis, const Value *like) {
    Attr attrs[OP_MAX_ATTRS] = {{.dims = (const Dim **)(uintptr_t)dims, .n_dims = rank}, {.i = axis}};
    return build_append(rewrite, OP_index, NULL, 0, attrs, like);
}

Value *build_exp_below(Rewrite *rewrite, Value *x, Value *base, const Value *like) {
    return build_scalar(rewrite, OP_exp, build_scalar(rewrite, OP_sub, x, base, NULL, like), NULL, NULL,
                        like);
}

Value *build_cast(Rewrite *rewrite, Value *value, DType dtype, const Value *like) {
    if (!value || value->dtype == dtype)
        return value;
    Attr attrs[OP_MAX_ATTRS] = {{.dtype = dtype}};
    return build_append(rewrite, OP_cast, &value, 1, attrs, like);
}

static const Dim **build_dims(Rewrite *rewrite, int rank, const Dim *const *dims) {
    const Dim **copy = ARENA_ARRAY(rewrite->graph->arena, const Dim *, RANK_MAX);
    for (int i = 0; i < rank; i++)
        copy[i] = dims[i];
    return copy;
}

Value *build_reshape(Rewrite *rewrite, Value *value, int rank, const Dim *const *dims, const Value *like) {
    Attr attrs[OP_MAX_ATTRS] = {0};
    attrs[0].dims = build_dims(rewrite, rank, dims);
    attrs[0].n_dims = rank;
    return value ? build_append(rewrite, OP_reshape, &value, 1, attrs, like) : NULL;
}

Value *build_transpose(Rewrite *rewrite, Value *value, const int *perm, const Value *like) {
    if (!value)
        return NULL;
    Attr attrs[OP_MAX_ATTRS] = {0};
    attrs[0].ints = ARENA_ARRAY(rewrite->graph->arena, int, RANK_MAX);
    attrs[0].n_ints = value->rank;
    for (int i = 0; i < value->rank; i++)
        attrs[0].ints[i] = perm[i];
    return build_append(rewrite, OP_transpose, &value, 1, attrs, like);
}

void turn_perm(int rank, int *perm) {
    for (int i = 0; i < rank; i++)
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
}

Value *build_turned(Rewrite *rewrite, Value *value, const Value *like) {
    if (!value)
        return NULL;
    int perm[RANK_MAX];
    turn_perm(value->rank, perm);
    return build_transpose(rewrite, value, perm, like);
}

Value *build_broadcast(Rewrite *rewrite, Value *value, int rank, const Dim *const *dims, const Value *like) {
    Attr attrs[OP_MAX_ATTRS] = {0};
    attrs[0].dims = build_dims(rewrite, rank, dims);
    attrs[0].n_dims = rank;
    return value ? build_append(rewrite, OP_broadcast, &value, 1, attrs, like) : NULL;
}

Value *build_slice(Rewrite *rewrite, Value *value, const Dim *const *start, const Dim *const *limit,
                   const int *step, const Value *like) {
    if (!value)
        return NULL;
    Attr attrs[OP_MAX_ATTRS] = {0};
    attrs[0].dims = build_dims(rewrite, value->rank, start);
    attrs[0].n_dims = value->rank;
    attrs[1].dims = build_dims(rewrite, value->rank, limit);
    attrs[1].n_dims = value->rank;
    attrs[2].ints = ARENA_ARRAY(rewrite->graph->arena, int, RANK_MAX);
    attrs[2].n_ints = value->rank;
    for (int i = 0; i < value->rank; i++)
        attrs[2].ints[i] = step[i];
    return build_append(rewrite, OP_slice, &value, 1, attrs, like);
}

Value *build_window(Rewrite *rewrite, Value *value, int axis, const Dim *size, int step, const Value *like) {
    Attr attrs[OP_MAX_ATTRS] = {{.i = axis}, {.dim = size}, {.i = step}, {.i = 1}};
    return value ? build_append(rewrite, OP_window, &value, 1, attrs, like) : NULL;
}

Value *build_part(Rewrite *rewrite, Value *value, int axis, const Dim *start, const Dim *limit, int step,
                  const Value *like) {
    const Dim *starts[RANK_MAX], *limits[RANK_MAX];
    int steps[RANK_MAX];
    for (int i = 0; i < value->rank; i++) {
        starts[i] = i == axis ? start : dim_const(rewrite->graph->dims, 0);
        limits[i] = i == axis ? limit : value->dims[i];
        steps[i] = i == axis ? step : 1;
    }
    return build_slice(rewrite, value, starts, limits, steps, like);
}

Value *build_pad(Rewrite *rewrite, Value *value, Value *border, const Dim *const *low, const Dim *const *high,
                 const Value *like) {
    if (!value || !border)
        return NULL;
    Attr attrs[OP_MAX_ATTRS] = {0};
    attrs[0].dims = build_dims(rewrite, value->rank, low);
    attrs[0].n_dims = value->rank;
    attrs[1].dims = build_dims(rewrite, value->rank, high);
    attrs[1].n_dims = value->rank;
    return build_append(rewrite, OP_pad, (Value *[]){value, border}, 2, attrs, like);
}

Value *build_reduce(Rewrite *rewrite, OpKind op, Value *value, int n_axes, const int *axes, bool keep,
                    const Value *like) {
    if (!value)
        return NULL;
    Attr attrs[OP_MAX_ATTRS] = {0};
    attrs[0].axes.n = n_axes;
    for (int i = 0; i < n_axes; i++)
        attrs[0].axes.at[i] = axes[i];
    attrs[1].i = keep;
    return build_append(rewrite, op, &value, 1, attrs, like);
}

Value *build_matmul(Rewrite *rewrite, Value *a, Value *b, const Value *like) {
    Value *in[] = {a, b};
    return a && b ? build_append(rewrite, OP_matmul, in, 2, NULL, like) : NULL;
}

Value *build_constant(Rewrite *rewrite, Number number, DType dtype, const Value *like) {
    Attr attrs[OP_MAX_ATTRS] = {0};
    attrs[0].number = number;
    attrs[1].dtype = dtype;
    return build_append(rewrite, OP_constant, NULL, 0, attrs, like);
}

Value *build_like(Rewrite *rewrite, const Value *value, Value **in) {
    for (int i = 0; i < value->n_in; i++)
        if (!in[i])
            return NULL;
    return build_append(rewrite, value->op, in, value->n_in, value->attrs, value);
}
