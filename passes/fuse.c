/* Fusion: the graph is cut into regions, each one kernel.
 *
 * Every valid graph compiles; this pass only decides how many kernels it becomes. It grows groups greedily
 * from what cannot be computed element by element: each matmul starts a group, each reduction joins the group
 * that computes or reads its rows, or starts one. In one walk down the graph everything element by element
 * joins the group of its operand where it fits its iteration space; what does not, floats. A walk back up
 * then settles what lies in memory (fuse_store.c), kernels beside one another are joined (fuse_siblings.c),
 * and regions are written down (fuse_emit.c).
 *
 *     h = x @ w.T + b          matmul "h": computes the product, + b, max and the cast; writes h
 *     y = cast(max(h, 0))
 *
 * The rules are listed in fuse_rules.def; each case leaves a Decision. */
#include "passes/fuse.h"

/* A graph output needs a Value of its own that some kernel writes: inputs, constants and Values that are
 * output twice are copied. */
static bool fuse_copy_outputs(Pass *pass, Graph *graph) {
    bool changed = false;
    for (size_t i = 0; i < graph->outputs.n; i++) {
        Value *value = graph->outputs.at[i].value;
        bool copy = value->op == OP_input || value->op == OP_constant || value->op == OP_dim;
        for (size_t k = 0; k < i; k++)
            copy |= graph->outputs.at[k].value == value;
        if (!copy)
            continue;
        Attr attrs[OP_MAX_ATTRS] = {{.dtype = value->dtype}};
        Value *fresh = graph_append(graph, OP_cast, &value, 1, attrs, graph->outputs.at[i].span, pass->diags);
        if (!fresh)
            return changed;
        fresh->name = graph->outputs.at[i].name;
        graph->outputs.at[i].value = fresh;
        changed = true;
    }
    return changed;
}

/* A concat of more tensors than a kernel reads becomes one of concats. */
static Value *fuse_narrow_concat(Rewrite *rewrite, Value *value) {
    int most = rewrite->pass->options->limits->max_inputs / 2;
    if (value->op != OP_concat || value->n_in <= most)
        return value;
    int parts = (value->n_in + most - 1) / most;
    Value **in = ARENA_ARRAY(rewrite->pass->arena, Value *, (size_t)parts);
    for (int i = 0; i < parts; i++) {
        int n = value->n_in - i * most < most ? value->n_in - i * most : most;
        in[i] = n == 1 ? value->in[i * most]
                       : graph_append(rewrite->graph, OP_concat, value->in + i * most, n, value->attrs,
                                      value->span, rewrite->pass->diags);
    }
    return graph_append(rewrite->graph, OP_concat, in, parts, value->attrs, value->span,
                        rewrite->pass->diags);
}

/* Reshapes of one transpose are of the first of them, so that one is stored for all (fuse_joined.c). */
static bool fuse_share_reshapes(Pass *pass, Graph *graph) {
    bool changed = false;
    graph_renumber(graph);
    Value **first = ARENA_ARRAY(pass->arena, Value *, graph->values.n + 1);
    for (size_t i = 0; i < graph->values.n; i++) {
        Value *value = graph->values.at[i];
        if (value->op != OP_reshape || value->in[0]->op != OP_transpose)
            continue;
        Value **known = &first[value->in[0]->id];
        if (*known) {
            value->in[0] = *known;
            changed = true;
        } else {
            *known = value;
        }
    }
    return changed;
}

static bool fuse_prepare(Pass *pass, Graph *graph) {
    bool changed = !pass->options->no_fusion && fuse_share_reshapes(pass, graph);
    while (rewrite_graph(pass, graph, fuse_narrow_concat) && pass->diags->errors == 0)
        changed = true;
    changed |= fuse_copy_outputs(pass, graph);
    graph_renumber(graph);
    return changed;
}

static void fuse_mark_hints(Fuse *fuse) {
    for (size_t i = 0; i < fuse->graph->hints.n; i++) {
        const Hint *hint = &fuse->graph->hints.at[i];
        Value *value = fuse_hint_value(fuse->graph, hint);
        if (strcmp(hint->name, "fuse") || !value)
            continue;
        for (size_t k = 0; k < hint->args.n; k++) {
            if (!fuse_hint_says(&hint->args.at[k], "never"))
                continue;
            fuse_node(fuse, value)->barrier = true;
            pass_decide(fuse->pass, "hint", false, value, NULL, "no @fuse(never)",
                        "the graph asks for it in memory");
        }
    }
}

/* A pad of nothing is a copy. */
static bool fuse_is_copy(const Value *value) {
    bool is_copy = value->op == OP_pad;
    for (int i = 0; is_copy && i < value->rank; i++)
        is_copy = dim_is(value->attrs[0].dims[i], 0) && dim_is(value->attrs[1].dims[i], 0);
    return is_copy;
}

/* Copies are made to be read from memory. */
static void fuse_mark_copies(Fuse *fuse) {
    for (size_t i = 0; i < fuse->graph->values.n; i++) {
        Value *value = fuse->graph->values.at[i];
        if (fuse_is_copy(value))
            fuse_node(fuse, value)->barrier = true;
        if (value->op == OP_slice && value_is_realigned(value))
            fuse_node(fuse, value->in[0])->barrier = true;
    }
}

static Fuse *fuse_new(Pass *pass, Graph *graph, FuseKnown *known) {
    Fuse *fuse = ARENA_NEW(pass->arena, Fuse);
    *fuse = (Fuse){
        .pass = pass, .graph = graph, .arena = pass->arena, .limits = pass->options->limits, .known = known};
    fuse->nodes = ARENA_ARRAY(pass->arena, FuseNode, graph->values.n + 1);
    fuse->stamps = ARENA_ARRAY(pass->arena, int, graph->values.n + 1);
    for (size_t i = 0; i < graph->values.n; i++) {
        fuse->nodes[i].value = graph->values.at[i];
        fuse->nodes[i].free = graph->values.at[i]->op == OP_constant || graph->values.at[i]->op == OP_dim;
    }
    return fuse;
}

static void fuse_value(Fuse *fuse, Value *value) {
    if (value->op == OP_input || fuse_node(fuse, value)->free || fuse_relay(fuse, value))
        return;
    switch (value_class(value)) {
    case OPCLASS_CONTRACTION: fuse_matmul(fuse, value); return;
    case OPCLASS_REDUCTION: fuse_reduction(fuse, value); return;
    case OPCLASS_BORDER:
    case OPCLASS_POINTWISE:
    case OPCLASS_RANDOM:
    case OPCLASS_MOVEMENT: fuse_light(fuse, value); return;
    case OPCLASS_COMPOSITE:
    case OPCLASS_RECURRENT:
    case OPCLASS_COLLECTIVE: break;
    }
    diag_error(fuse->pass->diags, DIAG_UNSUPPORTED, value->span, "no template computes '%s'",
               op_info(value->op)->name);
}

double fuse_seconds(const Fuse *fuse, const Region *region) {
    const PassOptions *options = fuse->pass->options;
    return options->seconds ? options->seconds(options->takes_context, fuse->graph, region) : 0;
}

/* What a product's kernel without a schedule gives up first: of products that are added up the last, a chain
 * its later products, others their statistics, then what moves columns, then more than two products side by
 * side, then the second of two, then elements of less than a byte. One of rows gives up the statistics of
 * pieces, one of columns what it stores in another order. */
static int fuse_gives_up(const Region *region, const Value *value) {
    OpClass class_ = value_class(value);
    if (region->kind == TEMPLATE_ROWS && region_is_piece(region, value))
        return REFUSED_ROWS;
    if (region->kind == TEMPLATE_ROWS || region->kind == TEMPLATE_COLUMNS)
        return op_is_view(value->op) && region_writes(region, value) ? REFUSED_STORE : 0;
    if (region->sums.n)
        return value == region->cores.at[region->cores.n - 1] ? REFUSED_SUM : 0;
    if (region->kind == TEMPLATE_MATMUL && region->n_reduced > 0)
        return class_ == OPCLASS_REDUCTION ? REFUSED_ROWS : 0;
    if (region->column_block > 0 || region->windows.n > 0)
        return class_ != OPCLASS_CONTRACTION ? REFUSED_COLUMNS : 0;
    if (region->kind == TEMPLATE_MATMUL && region->cores.n > 2)
        return class_ == OPCLASS_CONTRACTION ? REFUSED_CORES : 0;
    if (region->cores.n > 1)
        return class_ == OPCLASS_CONTRACTION && value != region->cores.at[0] ? REFUSED_PRODUCT : 0;
    return dtype_bits(value->dtype) < 8 ? REFUSED_STORE : 0;
}

/* Marks what kernels of products, of rows in pieces and of columns took in where codegen has no schedule for
 * what came of it: rows that blocks cannot share, or more accumulators, computed operands and moved columns
 * than registers. */
static bool fuse_find_refused(Fuse *fuse) {
    const PassOptions *options = fuse->pass->options;
    bool found = false;
    for (size_t i = 0; i < fuse->pass->partition->regions.n && options->takes; i++) {
        const Region *region = fuse->pass->partition->regions.at[i];
        bool may_give_up = region->kind == TEMPLATE_CHAIN || region->kind == TEMPLATE_RELAY ||
                           region->kind == TEMPLATE_MATMUL || region->kind == TEMPLATE_ROWS ||
                           region->kind == TEMPLATE_COLUMNS,
             is_asked = false;
        const char *why = NULL;
        if (fuse_operand_refuse(fuse, region) || fuse_rows_refuse(fuse, region)) {
            found = true;
            continue;
        }
        for (size_t k = 0; k < region->values.n && may_give_up; k++) {
            const Value *value = region->values.at[k];
            int refusal = fuse_gives_up(region, value);
            if (!refusal || fuse->known->refused[value->id] & refusal)
                continue;
            if (!is_asked && options->takes(options->takes_context, fuse->graph, region, &why))
                break;
            fuse->known->refused[value->id] |= (uint8_t)refusal;
            is_asked = found = true;
        }
    }
    return found;
}

static bool fuse_all(Fuse *fuse) {
    fuse_mark_hints(fuse);
    fuse_mark_copies(fuse);
    chain_mark_stored(fuse);
    fuse_relays_find(fuse);
    for (size_t i = 0; i < fuse->graph->values.n && !fuse->is_stale; i++) {
        Value *value = fuse->graph->values.at[i];
        bool never = fuse->nodes[i].barrier;
        fuse_value(fuse, value);
        if (never && !fuse->nodes[i].home && value->op != OP_input && !fuse->nodes[i].free)
            group_join(fuse, group_new(fuse, TEMPLATE_POINTWISE, value->rank, value->dims, 0), value);
    }
    if (fuse->is_stale)
        return true;
    fuse_store(fuse);
    fuse_siblings(fuse);
    return fuse_emit(fuse);
}

Fuse *fuse_plan(Pass *pass, Graph *graph, FuseKnown *known) {
    size_t n_decisions = pass->partition->decisions.n;
    Fuse *fuse;
    do { /* each time there are fewer to refuse */
        pass->partition->decisions.n = n_decisions;
        fuse = fuse_new(pass, graph, known);
        if (!fuse_all(fuse))
            return NULL;
    } while (fuse->is_stale || fuse_find_refused(fuse));
    return fuse;
}

/* The plan of a graph: statistics of a product's rows in its kernel where they can be and are quicker there.
 */
static Fuse *fuse_best(Pass *pass, Graph *graph, FuseKnown *known) {
    size_t n_decisions = pass->partition->decisions.n;
    Fuse *fuse = fuse_plan(pass, graph, known);
    if (!fuse || !fuse_weigh_rows(fuse))
        return fuse;
    pass->partition->decisions.n = n_decisions;
    return fuse_plan(pass, graph, known);
}

bool pass_fuse(Pass *pass, Graph *graph) {
    bool changed = fuse_prepare(pass, graph);
    FuseKnown known = {.refused = ARENA_ARRAY(pass->arena, uint8_t, graph->values.n + 1),
                       .rows = ARENA_ARRAY(pass->arena, RowsEstimate, graph->values.n + 1)};
    Fuse *fuse = pass->options->no_fusion ? NULL : fuse_best(pass, graph, &known);
    if (fuse) {
        fuse_guests(fuse);
        fuse_products(fuse);
    } else {
        if (!pass->options->no_fusion && pass->options->verify)
            diag_error(pass->diags, DIAG_INTERNAL, graph->span,
                       "fusion left kernels that wait for each other");
        fuse = fuse_new(pass, graph, &known); /* slower, but right */
        fuse_unfused(fuse);
        fuse_store(fuse);
        fuse_emit(fuse);
    }
    if (pass->options->verify)
        partition_verify(pass->partition, pass->diags);
    return changed;
}
