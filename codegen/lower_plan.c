/* What a run reads: walks from the targets to the inputs, and tells loads that move vectors, loads that are
 * the same for the whole run, and loads that differ from lane to lane; and which computed values are the same
 * for the whole run. Emits nothing but the arrays. */
#include "codegen/lower_internal.h"

static void plan_value(Lower *lower, const Value *value, const LaneCoord *coords, const KExpr *guard,
                       bool in_uniform);

static bool plan_is_uniform(const Lower *lower, const Value *value, const LaneCoord *coords,
                            const KExpr *guard) {
    if (lower_expr_varies(lower, guard))
        return false;
    for (int i = 0; i < value->rank; i++)
        if (lane_varies(lower, coords[i]))
            return false;
    return true;
}

/* What the run's elements are computed from, where words have them: they are widened before the loop over
 * lanes. */
static void plan_widening(Lower *lower, const LowerEntry *words, const LowerKey *key) {
    if (!words->per_word)
        return;
    LowerEntry *entry = lower_remember(lower, ENTRY_WIDE, key);
    entry->words = words;
    vec_push(lower->arena, &lower->hoisted, entry);
}

/* A condition as parts that the lane's number alone decides, and the others. */
static void plan_part_guard(Lower *lower, const KExpr *guard, const KExpr **of_lane, const KExpr **others) {
    if (guard->kind == KX_SCALAR && guard->op == OP_and) {
        plan_part_guard(lower, guard->args[0], of_lane, others);
        plan_part_guard(lower, guard->args[1], of_lane, others);
        return;
    }
    const KExpr **part = lower_expr_is_of_lane(guard) ? of_lane : others;
    *part = k_and(lower->b, *part, guard);
}

/* Whether a condition of the lane's number holds for one at least of each `share` lanes. */
static bool plan_holds_for_all(Lower *lower, const KExpr *of_lane, int share) {
    const KExpr *before = lower->lane;
    bool holds = true;
    for (int first = 0; holds && first < lower->shape->width; first += share) {
        holds = false;
        for (int i = first; !holds && i < first + share; i++) {
            lower->lane = k_i32(lower->b, i);
            const KExpr *known = lower_concrete(lower, of_lane);
            holds = known->kind == KX_INT && known->i;
        }
    }
    lower->lane = before;
    return holds;
}

/* Of a load that lanes share, for some of those that do under a condition which their numbers alone decide:
 * the same without it, so that it is one load for all of them, whichever condition each has. */
static bool plan_key_of_lanes(Lower *lower, LowerKey *key) {
    const KExpr *of_lane = NULL, *others = NULL;
    if (!key->guard || !lower_expr_varies(lower, key->guard))
        return false;
    plan_part_guard(lower, key->guard, &of_lane, &others);
    LaneCoord offset = lane_memory(lower, key->value, key->coords);
    int share = lower->shape->width / lane_shares(lower, offset);
    if (!of_lane || share < 2 || lower_expr_varies(lower, offset.at) || lower_expr_varies(lower, others) ||
        !plan_holds_for_all(lower, of_lane, share))
        return false;
    key->guard = others;
    return true;
}

bool lower_key_of_load(Lower *lower, LowerKey *key, int *period) {
    return lower_key_of_tile(lower, key, period) || plan_key_of_lanes(lower, key);
}

/* One load for each input and coordinates: in vectors as wide as its strides and alignment allow. */
static void plan_load(Lower *lower, LowerKey *key) {
    const Value *value = key->value;
    int period = 0;
    if (lower_key_of_load(lower, key, &period) && lower_find(lower, key, ENTRY_SEEN, ENTRY_RANDOM))
        return;
    LaneCoord offset = lane_memory(lower, value, key->coords);
    int width = lane_shares(lower, offset), bits = dtype_bits(value->dtype);
    EntryKind kind = ENTRY_LANES;
    int chunk = 1;
    if (!lane_varies(lower, offset) && !lower_expr_varies(lower, key->guard)) {
        kind = ENTRY_UNIFORM;
    } else if (offset.step == 1 && !lower_expr_varies(lower, offset.at) &&
               !lower_expr_varies(lower, key->guard)) {
        chunk = width * bits > 128 ? 128 / bits : width;
        chunk = chunk > offset.align ? offset.align : chunk;
        kind = chunk * bits >= 8 && (chunk > 1 || offset.share > 1) ? ENTRY_VECTOR : ENTRY_LANES;
    }
    LowerEntry *entry = lower_remember(lower, kind, key);
    entry->chunk = chunk;
    entry->share = kind == ENTRY_VECTOR ? offset.share : 1;
    entry->period = period;
    entry->per_word = lower_word_elements(lower, entry);
    vec_push(lower->arena, &lower->loads, entry);
    plan_widening(lower, entry, key);
}

static void plan_operands(Lower *lower, const Value *value, const LaneCoord *coords, const KExpr *guard,
                          bool in_uniform) {
    LaneCoord at[RANK_MAX];
    for (int i = 0; i < value->n_in; i++) {
        lower_broadcast_coords(lower, value->in[i], value->rank, coords, at);
        plan_value(lower, value->in[i], at, guard, in_uniform);
    }
}

static void plan_parts(Lower *lower, const Value *value, const LaneCoord *coords, const KExpr *guard,
                       bool in_uniform) {
    int parts = value->op == OP_pad ? 1 : value->n_in;
    for (int i = 0; i < parts; i++) {
        LaneCoord at[RANK_MAX];
        const KExpr *inside;
        lower_part_coords(lower, value, i, coords, at, &inside);
        plan_value(lower, value->in[i], at, k_and(lower->b, guard, inside), in_uniform);
    }
    if (value->op == OP_pad)
        plan_value(lower, value->in[1], NULL, guard, in_uniform);
}

static void plan_gather(Lower *lower, const Value *value, const LaneCoord *coords, const KExpr *guard,
                        bool in_uniform) {
    LaneCoord index_coords[RANK_MAX], at[RANK_MAX];
    const KExpr *inside;
    lower_gather_coords(lower, value, coords, guard, index_coords, at, &inside);
    plan_value(lower, value->in[1], index_coords, guard, in_uniform);
    plan_value(lower, value->in[0], at, k_and(lower->b, guard, inside), in_uniform);
}

static void plan_op(Lower *lower, const Value *value, const LaneCoord *coords, const KExpr *guard,
                    bool in_uniform) {
    LaneCoord at[RANK_MAX];
    if (lower_is_plain_movement(value->op)) {
        lower_operand_coords(lower, value, coords, at);
        plan_value(lower, value->in[0], at, guard, in_uniform);
        return;
    }
    switch (op_info(value->op)->class_) {
    case OPCLASS_POINTWISE: plan_operands(lower, value, coords, guard, in_uniform); return;
    case OPCLASS_MOVEMENT:
        if (value->op == OP_gather)
            plan_gather(lower, value, coords, guard, in_uniform);
        else
            plan_parts(lower, value, coords, guard, in_uniform);
        return;
    case OPCLASS_RANDOM:
        plan_value(lower, value->in[0], NULL, guard, true);
        if (!in_uniform && lower_random_is_wide(lower, value, coords)) {
            LowerKey key = lower_key(value, coords, guard);
            vec_push(lower->arena, &lower->hoisted, lower_remember(lower, ENTRY_RANDOM, &key));
        }
        return;
    /* Loops in place load where they stand. */
    case OPCLASS_REDUCTION:
    case OPCLASS_CONTRACTION:
    case OPCLASS_BORDER:
    case OPCLASS_COMPOSITE:
    case OPCLASS_RECURRENT:
    case OPCLASS_COLLECTIVE: return;
    }
}

/* Walks below `value`; in_uniform: below a value that is computed once for the run. */
static void plan_value(Lower *lower, const Value *value, const LaneCoord *coords, const KExpr *guard,
                       bool in_uniform) {
    if (lower_known(lower, value)->binding.is_bound ||
        (op_info(value->op)->class_ == OPCLASS_BORDER && value->op != OP_input))
        return;
    LowerKey key = lower_key(value, coords, guard);
    const LowerEntry *seen = lower_find(lower, &key, ENTRY_SEEN, ENTRY_RANDOM);
    if (seen) {
        plan_widening(lower, seen, &key);
        return;
    }
    if (lower_is_leaf(lower, value)) {
        plan_load(lower, &key);
        return;
    }
    bool starts_uniform = !in_uniform && !lower_is_plain_movement(value->op) && value->op != OP_index &&
                          plan_is_uniform(lower, value, coords, guard);
    lower_remember(lower, ENTRY_SEEN, &key);
    plan_op(lower, value, coords, guard, in_uniform || starts_uniform);
    if (starts_uniform) {
        LowerEntry *entry = ARENA_NEW(lower->arena, LowerEntry);
        *entry = (LowerEntry){.kind = ENTRY_EXPR, .key = key};
        vec_push(lower->arena, &lower->hoisted, entry);
    }
}

static void plan_declare(Lower *lower, LowerEntry *entry, int slots) {
    const Value *value = entry->key.value;
    const char *name = text_format(lower->arena, "%s_v", lower_value_name(lower, value));
    int elements = (entry->kind == ENTRY_UNIFORM ? 1 : lower->shape->width / entry->share) * slots;
    KType type = entry->kind == ENTRY_WIDE ? K_F32 : entry->per_word ? K_U32 : ktype_of(value->dtype);
    if (entry->per_word)
        elements /= entry->per_word;
    entry->slots = slots;
    entry->array = elements == 1 ? k_variable(lower->b, name, type, NULL)
                                 : k_array(lower->b, name, type, elements, NULL);
}

void lower_declare_loads(Lower *lower, int slots) {
    for (size_t i = 0; i < lower->loads.n; i++)
        plan_declare(lower, lower->loads.at[i], lower->loads.at[i]->is_shared ? 1 : slots);
}

void lower_plan(Lower *lower, const Run *shape, const LowerTarget *targets, int n) {
    lower->shape = shape;
    lower->loads.n = 0;
    lower->hoisted.n = 0;
    for (int i = 0; i < n; i++) {
        LaneCoord coords[RANK_MAX];
        const Value *root = lower_root(lower->region, targets[i].value);
        if (lower_root_coords(lower, targets[i].value, shape, coords))
            plan_value(lower, root, coords, lower_window(lower, targets[i].value),
                       shape->width == 1 && !shape->inner);
    }
}

bool lower_is_stream(const Lower *lower, const Value *value) {
    return value_count(lower->graph, value) ==
           region_extent(lower->graph, lower->region, 0, lower->region->rank);
}

static void plan_emit_load(Lower *lower, const LowerEntry *entry) {
    Builder *b = lower->b;
    const Value *value = entry->key.value;
    LaneCoord offset = lane_memory(lower, value, entry->key.coords);
    const KBuffer *buffer = k_global(b, value, false);
    bool is_uniform = entry->kind == ENTRY_UNIFORM;
    int width = is_uniform ? 1 : lower->shape->width / entry->share;
    const KExpr *slot = entry->slots > 1 ? k_convert(b, lower->slot, K_I32) : k_i32(b, 0);
    int per_register = entry->per_word ? entry->per_word : 1;
    const KExpr *first = k_mul(b, slot, k_i32(b, width / per_register));
    KCache cache = lower_is_stream(lower, value) ? lower->cache : CACHE_DEFAULT;
    b->span = value->span;
    if (entry->kind == ENTRY_LANES && width > 1) {
        lower->lane = k_for_begin(b, "j", k_i32(b, 0), k_i32(b, width), 1, UNROLL_FULL);
        size_t mark = lower_open_scope(lower);
        const KExpr *at = lower_concrete(lower, lane_expr(lower, offset));
        const KExpr *guard = k_and(b, lower->run->guard, lower_condition(lower, entry->key.guard));
        k_load(b, entry->array, k_add(b, first, lower->lane), buffer, at, 1, guard, cache);
        lower_close_scope(lower, mark);
        k_end(b);
        return;
    }
    lower->lane = k_i32(b, 0);
    const KExpr *guard = k_and(b, lower->run->guard, lower_condition(lower, entry->key.guard));
    const KExpr *at = lower_concrete(lower, offset.at);
    if (entry->array->count == 0 && !entry->per_word) {
        k_load(b, entry->array, NULL, buffer, at, 1, guard, cache);
        return;
    }
    if (width > entry->chunk && at->kind != KX_INT)
        at = k_let_expr(b, text_format(lower->arena, "%s_at", lower_value_name(lower, value)), at);
    for (int i = 0; i < width; i += entry->chunk) {
        const KExpr *to = k_add(b, first, k_i32(b, i / per_register)),
                    *from = k_add(b, at, k_int(b, at->type, i));
        if (entry->per_word)
            k_load_raw(b, entry->array, to, buffer, from, entry->chunk, guard, cache);
        else
            k_load(b, entry->array, to, buffer, from, entry->chunk, guard, cache);
    }
}

void lower_emit_loads(Lower *lower, bool shared) {
    Span span = lower->b->span;
    for (size_t i = 0; i < lower->loads.n; i++)
        if (lower->loads.at[i]->is_shared == shared)
            plan_emit_load(lower, lower->loads.at[i]);
    lower->b->span = span;
}

/* Values that do not vary along the run, and random numbers, which come in fours. */
void lower_emit_hoisted(Lower *lower) {
    lower->lane = k_i32(lower->b, 0);
    for (size_t i = 0; i < lower->hoisted.n; i++) {
        LowerEntry *entry = lower->hoisted.at[i];
        if (entry->kind == ENTRY_RANDOM || entry->kind == ENTRY_WIDE) {
            plan_declare(lower, entry, 1);
            if (entry->kind == ENTRY_WIDE)
                lower_words_widen(lower, entry);
            else
                lower_random_fill(lower, entry);
            continue;
        }
        const KExpr *expr = lower_eval(lower, entry->key.value, entry->key.coords, entry->key.guard);
        LowerEntry *known = lower_find(lower, &entry->key, ENTRY_EXPR, ENTRY_EXPR);
        expr = k_let_expr(lower->b, lower_value_name(lower, entry->key.value), expr);
        if (known)
            known->expr = expr;
    }
}
