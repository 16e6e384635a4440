/* Runs: the loads that the targets need first, then one loop over the run's elements that computes the
 * targets. lower_internal.h says how coordinates are kept; lower_plan.c finds the loads, lower_eval.c the
 * arithmetic. */
#include "codegen/lower_internal.h"
#include "ir/print.h"

const LowerNode *lower_known(const Lower *lower, const Value *value) {
    static const LowerNode nothing;
    int number = value_map_get(&lower->numbers, value);
    return number ? lower->nodes.at[number - 1] : &nothing;
}

LowerNode *lower_node(Lower *lower, const Value *value) {
    int number = value_map_get(&lower->numbers, value);
    if (number)
        return lower->nodes.at[number - 1];
    LowerNode *node = ARENA_NEW(lower->arena, LowerNode);
    vec_push(lower->arena, &lower->nodes, node);
    value_map_set(&lower->numbers, value, (int)lower->nodes.n);
    return node;
}

/* How often values are used by the values that the region computes. */
static void lower_count_uses(Lower *lower) {
    const Region *region = lower->region;
    for (size_t i = 0; i < region->values.n; i++)
        for (int k = 0; k < region->values.at[i]->n_in; k++)
            lower_node(lower, region->values.at[i]->in[k])->uses++;
    for (size_t i = 0; i < region->outputs.n; i++)
        lower_node(lower, region->outputs.at[i])->uses++;
}

Lower *lower_new(Builder *b, const Region *region) {
    Lower *lower = ARENA_NEW(b->arena, Lower);
    const Graph *graph = b->kernel->graph;
    lower->b = b;
    lower->arena = b->arena;
    lower->region = region;
    lower->graph = graph;
    lower->index = lower_choose_index(graph, region);
    lower->zero = k_int(b, lower->index, 0);
    for (int i = 0; i < RANK_MAX; i++)
        lower->space[i] =
            (KVar){.name = "space", .type = lower->index, .is_let = true, .id = lower_space_placeholder(i)};
    lower->lane_var = (KVar){.name = "lane", .type = K_I32, .is_let = true, .id = lower_lane_placeholder()};
    lower->outer_var =
        (KVar){.name = "outer", .type = lower->index, .is_let = true, .id = lower_outer_placeholder()};
    lower->inner_var =
        (KVar){.name = "inner", .type = lower->index, .is_let = true, .id = lower_inner_placeholder()};
    lower->numbers.arena = b->arena;
    lower->cache = CACHE_DEFAULT;
    lower->names = graph->names ? graph->names : graph_value_names(b->arena, graph);
    for (size_t i = 0; i < region->inputs.n; i++)
        lower_node(lower, region->inputs.at[i])->is_input = true;
    lower_count_uses(lower);
    return lower;
}

void lower_declare_params(Lower *lower) {
    const Region *region = lower->region;
    for (size_t i = 0; i < region->inputs.n; i++)
        k_global(lower->b, region->inputs.at[i], false);
    for (size_t i = 0; i < region->outputs.n; i++)
        k_global(lower->b, region->outputs.at[i], true);
}

const char *lower_value_name(const Lower *lower, const Value *value) {
    return lower->names[value->id];
}

KType lower_index_type(const Lower *lower) {
    return lower->index;
}

void lower_set_cache(Lower *lower, KCache cache) {
    lower->cache = cache;
}

bool lower_is_leaf(const Lower *lower, const Value *value) {
    return lower_known(lower, value)->is_input || value->op == OP_input;
}

/* ---- what is bound */

void lower_bind_array(Lower *lower, const Value *value, const KVar *array, const KExpr *at) {
    lower_node(lower, value)->binding = (LowerBinding){.is_bound = true, .array = array, .at = at};
}

void lower_bind_expr(Lower *lower, const Value *value, const KExpr *expr) {
    lower_node(lower, value)->binding = (LowerBinding){.is_bound = true, .expr = expr};
}

void lower_unbind(Lower *lower, const Value *value) {
    lower_node(lower, value)->binding = (LowerBinding){.is_bound = false};
}

/* ---- what is known in the open scopes */

LowerKey lower_key(const Value *value, const LaneCoord *coords, const KExpr *guard) {
    LowerKey key = {.value = value, .guard = guard};
    for (int i = 0; i < value->rank; i++)
        key.coords[i] = coords[i];
    return key;
}

LowerEntry *lower_find(Lower *lower, const LowerKey *key, EntryKind first, EntryKind last) {
    for (LowerEntry *entry = lower_known(lower, key->value)->newest; entry; entry = entry->older) {
        bool same =
            entry->kind >= first && entry->kind <= last && lower_expr_equal(entry->key.guard, key->guard);
        for (int i = 0; same && i < key->value->rank; i++)
            same = lane_equal(entry->key.coords[i], key->coords[i]);
        if (same)
            return entry;
    }
    return NULL;
}

LowerEntry *lower_remember(Lower *lower, EntryKind kind, const LowerKey *key) {
    LowerEntry *entry = ARENA_NEW(lower->arena, LowerEntry);
    entry->kind = kind;
    entry->key = *key;
    entry->share = 1;
    LowerNode *node = lower_node(lower, key->value);
    entry->older = node->newest;
    node->newest = entry;
    vec_push(lower->arena, &lower->scope, entry);
    return entry;
}

void lower_remember_number(Lower *lower, EntryKind kind, int number) {
    LowerEntry *entry = ARENA_NEW(lower->arena, LowerEntry);
    entry->kind = kind;
    entry->index = number;
    vec_push(lower->arena, &lower->scope, entry);
}

size_t lower_open_scope(Lower *lower) {
    return lower->scope.n;
}

void lower_close_scope(Lower *lower, size_t mark) {
    while (lower->scope.n > mark) {
        LowerEntry *entry = lower->scope.at[--lower->scope.n];
        if (entry->kind == ENTRY_INDEX)
            lower->indices.at[entry->index]->expr = NULL;
        else if (entry->kind == ENTRY_SPACE)
            lower->space_expr[entry->index] = NULL;
        else
            lower_node(lower, entry->key.value)->newest = entry->older;
    }
}

/* ---- runs */

enum { COMMENT_LINES_MAX = 12 };

/* The graph's statements that compute `value`, each once a kernel, a line each. */
static void lower_statements(Lower *lower, const Value *value, Text *text, int *lines) {
    LowerNode *node = lower_node(lower, value);
    if (lower_is_leaf(lower, value) || node->is_commented || node->binding.is_bound)
        return;
    node->is_commented = true;
    for (int i = 0; i < value->n_in; i++)
        lower_statements(lower, value->in[i], text, lines);
    if (value->op == OP_constant || value->op == OP_dim || ++*lines > COMMENT_LINES_MAX)
        return;
    text_add(text, *lines > 1 ? "\n" : "");
    if (*lines == COMMENT_LINES_MAX)
        text_add(text, "...");
    else
        value_print(text, lower->graph, value);
}

/* Over the loop: what it computes and what it reduces. */
static void lower_comment(Lower *lower, const LowerTarget *targets, int n) {
    Text text = text_new(lower->arena);
    int lines = 0;
    for (int i = 0; i < n; i++) {
        const Value *reduction = targets[i].fold.reduction;
        lower_statements(lower, lower_root(lower->region, targets[i].value), &text, &lines);
        if (!reduction || lower_node(lower, reduction)->is_commented || ++lines > COMMENT_LINES_MAX)
            continue;
        lower_node(lower, reduction)->is_commented = true;
        text_add(&text, lines > 1 ? "\n" : "");
        value_print(&text, lower->graph, reduction);
    }
    if (lines > 0)
        k_comment(lower->b, "%s", text.at);
}

static void lower_fold(Lower *lower, const LowerFold *fold, const KExpr *x) {
    Builder *b = lower->b;
    const KExpr *number = fold->number;
    if (number && !fold->by_lane)
        number = k_add(b, number, k_convert(b, lower->lane, number->type));
    const KExpr *index = !fold->by_lane ? NULL : fold->at ? k_add(b, fold->at, lower->lane) : lower->lane;
    reduce_take(b, fold->reduction, fold->acc, index, x, number, fold->inside);
}

static void lower_set_target(Lower *lower, const LowerTarget *target) {
    Builder *b = lower->b;
    const Value *root = lower_root(lower->region, target->value);
    LaneCoord coords[RANK_MAX];
    if (!lower_root_coords(lower, target->value, lower->shape, coords)) {
        diag_error(b->diags, DIAG_INTERNAL, root->span, "'%s' does not fit the space of its region",
                   lower_value_name(lower, root));
        return;
    }
    /* A store rounds by itself; what is computed further uses the rounded value. */
    const Value *computed = target->stored && root->op == OP_cast && !lower_is_leaf(lower, root) &&
                                    !lower_known(lower, root)->binding.is_bound &&
                                    dtype_is_float(root->dtype) && dtype_is_float(root->in[0]->dtype)
                                ? root->in[0]
                                : root;
    const KExpr *expr = lower_eval(lower, computed, coords, lower_window(lower, target->value));
    if (target->fold.reduction && expr->kind != KX_VAR && expr->kind != KX_ELEM)
        expr = k_let_expr(b, lower_value_name(lower, computed), expr);
    if (target->dst) {
        const KExpr *first = target->at ? k_convert(b, target->at, K_I32) : k_i32(b, 0);
        bool is_scalar = target->dst->count == 0;
        k_set_elem(b, target->dst, is_scalar ? NULL : k_add(b, first, lower->lane),
                   k_convert(b, expr, target->dst->type));
    }
    if (target->fold.reduction)
        lower_fold(lower, &target->fold, expr);
}

void lower_batch_streams_only(Lower *lower, bool streams_only) {
    lower->streams_only = streams_only;
}

/* Whether the runs of a batch, which agree along their axis, agree in this load. */
static bool lower_is_shared(const Run *shape, const LowerEntry *entry) {
    bool along = lower_expr_is_along(entry->key.guard, shape->axis);
    for (int i = 0; along && i < entry->key.value->rank; i++)
        along = lower_expr_is_along(entry->key.coords[i].at, shape->axis);
    return along;
}

/* Whether a load is the same along an axis. */
static bool lower_is_fixed(const LowerEntry *entry, int axis) {
    bool is_fixed = lower_expr_is_fixed(entry->key.guard, axis);
    for (int i = 0; is_fixed && i < entry->key.value->rank; i++)
        is_fixed = lower_expr_is_fixed(entry->key.coords[i].at, axis);
    return is_fixed;
}

/* Whether all boxes of a tile have this load alike, and rows do not: what these share (a norm's factors) is
 * so little that it stays near, and need not take registers meanwhile. */
static bool lower_is_of_tile(const Run *shape, const LowerEntry *entry) {
    return entry->period && !lower_is_shared(shape, entry);
}

/* What planning has seen is forgotten, so that each run finds what it computes; the loads stay. */
void lower_batch_begin(Lower *lower, const Run *shape, const LowerTarget *targets, int n, int slots) {
    size_t mark = lower_open_scope(lower);
    vec_push(lower->arena, &lower->batches, mark);
    lower_plan(lower, shape, targets, n);
    size_t n_loads = lower->loads.n, kept = 0;
    lower_close_scope(lower, mark);
    for (size_t i = 0; i < n_loads; i++) {
        LowerEntry *entry = lower->loads.at[i];
        if ((lower->streams_only && !lower_is_stream(lower, entry->key.value)) ||
            (lower->tile_only && !lower_is_of_tile(shape, entry)) ||
            (lower->fixed_axis && !lower_is_fixed(entry, lower->fixed_axis)))
            continue;
        LowerEntry *held = lower_remember(lower, entry->kind, &entry->key);
        held->chunk = entry->chunk;
        held->period = entry->period;
        held->per_word = entry->per_word;
        held->share = entry->share;
        held->is_outer = lower->is_outer;
        held->is_shared = shape->repeats && lower_is_shared(shape, entry);
        lower->loads.at[kept++] = held;
    }
    lower->loads.n = kept;
    lower_declare_loads(lower, slots);
}

/* Registers of a load of one run. */
static int lower_entry_registers(const Run *shape, const LowerEntry *entry) {
    int words = ktype_bits(ktype_of(entry->key.value->dtype)) > 32 ? 2 : 1;
    if (entry->per_word)
        return shape->width / entry->per_word;
    return words * (entry->kind == ENTRY_UNIFORM ? 1 : shape->width / entry->share);
}

int lower_load_registers(Lower *lower, const Run *shape, const LowerTarget *targets, int n) {
    size_t mark = lower_open_scope(lower);
    int registers = 0;
    lower_plan(lower, shape, targets, n);
    for (size_t i = 0; i < lower->loads.n; i++)
        registers += lower_entry_registers(shape, lower->loads.at[i]);
    lower_close_scope(lower, mark);
    lower->loads.n = 0;
    lower->shape = NULL;
    return registers;
}

int lower_tile_registers(Lower *lower, const Run *shape, const LowerTarget *targets, int n, int slots,
                         int *period) {
    size_t mark = lower_open_scope(lower);
    int registers = 0;
    *period = 0;
    lower_plan(lower, shape, targets, n);
    for (size_t i = 0; i < lower->loads.n; i++) {
        const LowerEntry *entry = lower->loads.at[i];
        if (!lower_is_of_tile(shape, entry))
            continue;
        registers += slots * lower_entry_registers(shape, entry);
        *period = entry->period > *period ? entry->period : *period;
    }
    lower_close_scope(lower, mark);
    lower->loads.n = 0;
    lower->shape = NULL;
    return registers;
}

void lower_tile_begin(Lower *lower, const Run *shape, const LowerTarget *targets, int n, int slots) {
    lower->tile_only = true;
    lower_outer_begin(lower, shape, targets, n, slots);
    lower->tile_only = false;
}

void lower_outer_begin(Lower *lower, const Run *shape, const LowerTarget *targets, int n, int slots) {
    lower->is_outer = true;
    lower_batch_begin(lower, shape, targets, n, slots);
    lower->is_outer = false;
}

void lower_fixed_begin(Lower *lower, const Run *shape, const LowerTarget *targets, int n, int slots,
                       int axis) {
    lower->fixed_axis = axis;
    lower_outer_begin(lower, shape, targets, n, slots);
    lower->fixed_axis = 0;
}

void lower_set_outer_slot(Lower *lower, const KExpr *slot) {
    lower->outer_slot = slot;
}

void lower_batch_load_shared(Lower *lower, const Run *run) {
    size_t mark = lower_open_scope(lower);
    Run unguarded = *run;
    unguarded.guard = NULL; /* coordinates along one axis are inside, whichever run has them */
    lower->run = &unguarded;
    lower->shape = run;
    lower->slot = k_i32(lower->b, 0);
    lower_emit_loads(lower, true);
    lower_close_scope(lower, mark);
    lower->run = run;
}

void lower_batch_load(Lower *lower, const Run *run, const KExpr *slot) {
    size_t mark = lower_open_scope(lower);
    lower->run = run;
    lower->shape = run;
    lower->slot = slot;
    lower_emit_loads(lower, false);
    lower_close_scope(lower, mark);
}

void lower_batch_run(Lower *lower, const Run *run, const KExpr *slot, const LowerTarget *targets, int n) {
    Builder *b = lower->b;
    size_t mark = lower_open_scope(lower);
    lower->run = run;
    lower->slot = slot;
    lower_plan(lower, run, targets, n);
    lower_declare_loads(lower, 1);
    lower_emit_loads(lower, false);
    lower_comment(lower, targets, n);
    lower_emit_hoisted(lower);
    size_t inner = lower_open_scope(lower);
    bool is_loop = run->width > 1;
    lower->lane =
        is_loop ? k_for_begin(b, "j", k_i32(b, 0), k_i32(b, run->width), 1, UNROLL_FULL) : k_i32(b, 0);
    for (int i = 0; i < n; i++)
        lower_set_target(lower, &targets[i]);
    if (is_loop)
        k_end(b);
    lower_close_scope(lower, inner);
    lower_close_scope(lower, mark);
}

void lower_batch_end(Lower *lower) {
    lower_close_scope(lower, lower->batches.at[--lower->batches.n]);
    lower->shape = NULL;
    lower->run = NULL;
}

/* Whether coordinates and condition are those of the whole row. */
static bool lower_is_row_entry(const Lower *lower, const LowerEntry *entry, int split) {
    bool is_row = lower_expr_is_outer(lower, entry->key.guard, split);
    for (int i = 0; is_row && i < entry->key.value->rank; i++)
        is_row = entry->key.coords[i].step == 0 && lower_expr_is_outer(lower, entry->key.coords[i].at, split);
    return is_row;
}

void lower_row_values(Lower *lower, const Run *run, const LowerTarget *targets, int n) {
    size_t mark = lower_open_scope(lower), n_loads = 0, n_hoisted = 0;
    lower->run = run;
    lower->slot = k_i32(lower->b, 0);
    lower_plan(lower, run, targets, n);
    lower_close_scope(lower, mark); /* and what was planned is remembered again, without what was seen */
    for (size_t i = 0; i < lower->loads.n; i++) {
        LowerEntry *entry = lower->loads.at[i];
        if (entry->kind != ENTRY_UNIFORM || !lower_is_row_entry(lower, entry, run->split))
            continue;
        LowerEntry *held = lower_remember(lower, ENTRY_UNIFORM, &entry->key);
        held->chunk = 1;
        lower->loads.at[n_loads++] = held;
    }
    for (size_t i = 0; i < lower->hoisted.n; i++)
        if (lower->hoisted.at[i]->kind == ENTRY_EXPR &&
            lower_is_row_entry(lower, lower->hoisted.at[i], run->split))
            lower->hoisted.at[n_hoisted++] = lower->hoisted.at[i];
    lower->loads.n = n_loads;
    lower->hoisted.n = n_hoisted;
    lower_declare_loads(lower, 1);
    lower_emit_loads(lower, false);
    lower_emit_hoisted(lower);
}

void lower_run(Lower *lower, const Run *run, const LowerTarget *targets, int n) {
    lower_batch_run(lower, run, k_i32(lower->b, 0), targets, n);
    lower->shape = NULL;
    lower->run = NULL;
}

const KExpr *lower_at(Lower *lower, const Value *value, const KExpr *const *coords, const KExpr *guard) {
    Run nowhere = {.rank = 0, .width = 1};
    LaneCoord at[RANK_MAX];
    for (int i = 0; i < value->rank; i++)
        at[i] = dim_is(value->dims[i], 1)
                    ? lane_const(lower, 0)
                    : (LaneCoord){k_convert(lower->b, coords[i], lower->index), 0, 1, 1};
    size_t mark = lower_open_scope(lower);
    const Run *run = lower->run, *shape = lower->shape;
    const KExpr *lane = lower->lane;
    lower->run = &nowhere;
    lower->shape = NULL;
    lower->lane = k_i32(lower->b, 0);
    const KExpr *expr = lower_eval(lower, value, at, guard);
    lower->run = run;
    lower->shape = shape;
    lower->lane = lane;
    lower_close_scope(lower, mark);
    return expr;
}

/* ---- for the templates */

int lower_value_coords(Builder *b, const Region *region, const Value *value, int rank,
                       const KExpr *const *space, const KExpr **coords) {
    (void)region;
    int shift = rank - value->rank;
    for (int i = 0; i < value->rank; i++)
        coords[i] = dim_is(value->dims[i], 1) ? k_int(b, space[i + shift]->type, 0) : space[i + shift];
    return value->rank;
}

void lower_delinearize(Builder *b, const KExpr *linear, int rank, const Dim *const *dims,
                       const KExpr **coords) {
    int first = 0;
    while (first < rank - 1 && dim_is(dims[first], 1))
        first++;
    for (int i = rank - 1; i >= 0; i--) {
        if (i < first || dim_is(dims[i], 1)) {
            coords[i] = k_int(b, linear->type, 0);
        } else if (i == first) {
            coords[i] = linear;
        } else {
            const KExpr *extent = k_dim(b, dims[i], linear->type);
            coords[i] = k_mod(b, linear, extent);
            linear = k_div(b, linear, extent);
        }
    }
}
