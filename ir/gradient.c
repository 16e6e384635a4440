/* The gradient graph: a copy of the forward graph, rules applied from its outputs up, and the order of what
 * is left. */
#include "ir/gradient.h"

#include <string.h>

#include "ir/gradient_internal.h"

/* ---- giving ------------------------------------------------------------------------------------------ */

bool gradient_wants(const Gradient *g, int operand) {
    return g->wanted[g->value->in[operand]->id];
}

void gradient_give_value(Gradient *g, Value *to, Value *contribution) {
    if (!g->wanted[to->id])
        return;
    Value *value = derive_summed(g, contribution, to->rank, (const Dim *const *)to->dims);
    value = derive_cast(g, value, dtype_compute(to->dtype));
    Value **sum = &g->sums[to->id];
    *sum = *sum ? derive_scalar(g, OP_add, *sum, value, NULL) : value;
    g->cut[to->id] |= g->is_cut;
    g->failed |= !*sum;
}

void gradient_give(Gradient *g, int operand, Value *contribution) {
    gradient_give_value(g, g->value->in[operand], contribution);
}

void gradient_give_cut(Gradient *g, int operand, Value *contribution) {
    g->is_cut = true;
    gradient_give(g, operand, contribution);
}

void gradient_refuse(Gradient *g, const char *why) {
    if (!g->failed)
        diag_error(g->diags, DIAG_UNSUPPORTED, g->value->span, "'%s' has no gradient here: %s",
                   op_info(g->value->op)->name, why);
    g->failed = true;
}

/* ---- names ------------------------------------------------------------------------------------------- */

static bool gradient_is_taken(const Graph *graph, const char *name) {
    for (size_t i = 0; i < graph->inputs.n; i++)
        if (strcmp(graph->inputs.at[i]->name, name) == 0)
            return true;
    for (size_t i = 0; i < graph->outputs.n; i++)
        if (strcmp(graph->outputs.at[i].name, name) == 0)
            return true;
    return dim_find_symbol(graph->dims, name) != NULL;
}

/* What the gradient of an input or output is called. */
static const char *gradient_name(Gradient *g, const char *name) {
    for (int i = 0; i < 2; i++) {
        const char *own = text_format(g->graph->arena, i == 0 ? "d%s" : "d_%s", name);
        if (!gradient_is_taken(g->graph, own))
            return own;
    }
    diag_error(g->diags, DIAG_REDEFINED, g->graph->span,
               "the gradient of '%s' would be called 'd%s' or 'd_%s', and both names are taken", name, name,
               name);
    g->failed = true;
    return name;
}

/* Sums are called d<name>; the printer numbers what has another's name. */
static void gradient_name_sums(Gradient *g, size_t n_forward) {
    for (size_t i = 0; i < n_forward; i++) {
        const Value *value = g->graph->values.at[i];
        Value *sum = g->sums[i];
        if (value->name && sum && !sum->name)
            sum->name = text_format(g->graph->arena, "d%s", value->name);
    }
}

/* ---- the border -------------------------------------------------------------------------------------- */

static void gradient_add_inputs(Gradient *g, const Output *outputs, size_t n) {
    for (size_t i = 0; i < n && !g->failed; i++) {
        const Output *output = &outputs[i];
        Value *y = output->value;
        if (!dtype_is_float(y->dtype))
            continue;
        const char *name = gradient_name(g, output->name);
        Value *dy = graph_add_input(g->graph, name, y->dtype, y->rank, (const Dim *const *)y->dims,
                                    output->strides, output->span);
        g->value = y;
        g->is_cut = false;
        gradient_give_value(g, y, dy);
    }
}

/* The layout of x, unless elements of x may share a place, as those of a broadcast input do: packed then.
 * Places are apart where each stride reaches beyond all that axes of lesser strides reach. */
static const Dim **gradient_strides(DimTable *dims, const Value *x) {
    const Dim *reach = dim_const(dims, 1);
    bool passed[RANK_MAX] = {false};
    for (int n = 0; x->strides && n < x->rank; n++) {
        int least = -1;
        for (int i = 0; i < x->rank && (least < 0 || x->strides[least] != reach); i++)
            if (!passed[i] &&
                (least < 0 || x->strides[i] == reach || dim_known_le(dims, x->strides[i], x->strides[least])))
                least = i;
        if (!dim_known_le(dims, reach, x->strides[least]))
            return NULL;
        passed[least] = true;
        reach = dim_mul(dims, x->strides[least], x->dims[least]);
    }
    return x->strides;
}

static void gradient_add_outputs(Gradient *g, const GradientRequest *request) {
    for (int i = 0; i < request->n && !g->failed; i++) {
        Value *x = g->graph->inputs.at[request->of[i]];
        Value *dx = g->sums[x->id];
        g->value = g->dy = x;
        if (!dx) {
            Attr attrs[OP_MAX_ATTRS] = {{.number = {.f = 0}}, {.dtype = dtype_compute(x->dtype)}};
            dx = graph_append(g->graph, OP_constant, NULL, 0, attrs, x->span, g->diags);
        }
        dx = derive_cast(g, dx, x->dtype);
        dx = derive_broadcast(g, dx, x->rank, (const Dim *const *)x->dims);
        const char *name = gradient_name(g, x->name);
        if (!g->failed)
            graph_add_output(g->graph, name, dx, gradient_strides(g->graph->dims, x), x->span);
    }
}

/* ---- the graph --------------------------------------------------------------------------------------- */

/* Which values a wanted input reaches through operations that have a gradient. */
static void gradient_mark(Gradient *g, size_t n, const GradientRequest *request) {
    for (int i = 0; i < request->n; i++)
        g->wanted[g->graph->inputs.at[request->of[i]]->id] = true;
    for (size_t i = 0; i < n; i++) {
        const Value *value = g->graph->values.at[i];
        if (!dtype_is_float(value->dtype) || op_info(value->op)->gradient == gradient_none)
            continue;
        for (int k = 0; k < value->n_in; k++)
            g->wanted[i] |= g->wanted[value->in[k]->id];
    }
}

static void gradient_apply(Gradient *g, size_t n, const GradientRequest *request) {
    for (size_t i = n; i-- > 0 && !g->failed;) {
        g->value = g->graph->values.at[i];
        g->dy = g->sums[i];
        if (!g->dy || g->value->op == OP_input)
            continue;
        g->is_cut = g->cut[i];
        if (!gradient_of_softmax(g))
            op_info(g->value->op)->gradient(g);
        if (g->graph->values.n > request->max_values) {
            diag_error(g->diags, DIAG_LIMIT, request->span, "the gradient has too many operations (%zu)",
                       request->max_values);
            g->failed = true;
        }
    }
}

/* What the outputs need, in an order that depends on operands alone. */
static void gradient_order(Graph *graph) {
    graph->values.n = 0;
    for (size_t i = 0; i < graph->inputs.n; i++)
        vec_push(graph->arena, &graph->values, graph->inputs.at[i]);
    for (size_t i = 0; i < graph->outputs.n; i++)
        if (graph->outputs.at[i].value->op != OP_input)
            vec_push(graph->arena, &graph->values, graph->outputs.at[i].value);
    graph_sort(graph);
}

Graph *gradient_build(Arena *arena, const Graph *forward, const GradientRequest *request, Diags *diags) {
    Graph *graph = graph_clone(arena, forward, NULL, diags);
    if (!graph)
        return NULL;
    size_t n = graph->values.n, n_outputs = graph->outputs.n;
    Gradient g = {.graph = graph,
                  .diags = diags,
                  .sums = ARENA_ARRAY(arena, Value *, n),
                  .wanted = ARENA_ARRAY(arena, bool, n),
                  .cut = ARENA_ARRAY(arena, bool, n)};
    const Output *outputs = graph->outputs.at;
    int errors = diags->errors;
    graph->name = arena_strdup(arena, request->name);
    graph->span = request->span;
    graph->outputs.at = NULL;
    graph->outputs.n = graph->outputs.room = 0;
    graph->hints.n = graph->checks.n = 0;
    gradient_mark(&g, n, request);
    gradient_add_inputs(&g, outputs, n_outputs);
    gradient_apply(&g, n, request);
    gradient_add_outputs(&g, request);
    if (g.failed) {
        if (diags->errors == errors)
            diag_error(diags, DIAG_DIM, g.value->span, "sizes in the gradient of this overflow 64 bits");
        size_t said = diags->list.n;
        if (said && diags->list.at[said - 1].span.begin != request->span.begin)
            diag_note(diags, request->span, "'%s' is asked for here", request->name);
        return NULL;
    }
    gradient_name_sums(&g, n);
    gradient_order(graph);
    return graph;
}
