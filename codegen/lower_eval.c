/* The expression of a Value at coordinates: one case an operation, each node once. */
#include "codegen/lower_internal.h"

enum { EVAL_SIZE_MAX = 12 }; /* an expression of more nodes becomes a variable, so that lines stay readable */

static int eval_size(const KExpr *expr, int limit) {
    int size = 1;
    for (int i = 0; i < expr->n_args && size < limit; i++)
        size += eval_size(expr->args[i], limit - size);
    return size;
}

const KExpr *lower_load_at(Lower *lower, const Value *value, const LaneCoord *coords, const KExpr *guard) {
    Builder *b = lower->b;
    LaneCoord offset = lane_concrete(lower, lane_memory(lower, value, coords));
    const KExpr *condition = k_and(b, lower->run->guard, lower_condition(lower, guard));
    const char *name = text_format(lower->arena, "%s_v", lower_value_name(lower, value));
    return k_load_scalar(b, name, k_global(b, value, false), offset.at, condition);
}

const KExpr *lower_entry_slot(Lower *lower, const LowerEntry *entry) {
    return entry->is_outer    ? lower->outer_slot
           : entry->slots > 1 ? k_convert(lower->b, lower->slot, K_I32)
                              : k_i32(lower->b, 0);
}

/* An element that the run's loads have brought already. */
static const KExpr *eval_loaded(Lower *lower, const LowerEntry *entry) {
    Builder *b = lower->b;
    if (entry->array->count == 0)
        return k_var(b, entry->array);
    const KExpr *slot = lower_entry_slot(lower, entry);
    if (entry->kind == ENTRY_UNIFORM)
        return k_elem(b, entry->array, slot);
    const KExpr *first = k_mul(b, slot, k_i32(b, lower->shape->width / entry->share));
    return k_elem(b, entry->array, k_add(b, first, k_div(b, lower->lane, k_i32(b, entry->share))));
}

/* A value that the template holds in registers; NULL where it does not, or not at these coordinates. */
static const KExpr *eval_bound(Lower *lower, const Value *value, const LaneCoord *coords,
                               const KExpr *guard) {
    const LowerBinding *binding = &lower_known(lower, value)->binding;
    if (!binding->is_bound || binding->expr)
        return binding->is_bound ? binding->expr : NULL;
    LaneCoord own[RANK_MAX];
    if (!lower->shape || !lower->lane || !lower_place(lower, value, lower->shape, own))
        return NULL;
    for (int i = 0; i < value->rank; i++)
        if (!lane_equal(own[i], coords[i]))
            return lower->has_columns ? lower_moved(lower, binding, coords, value->rank, guard) : NULL;
    const KExpr *at = binding->at ? binding->at : k_i32(lower->b, 0);
    return k_elem(lower->b, binding->array, k_add(lower->b, k_convert(lower->b, at, K_I32), lower->lane));
}

static const KExpr *eval_constant(Lower *lower, const Value *value) {
    KType type = ktype_of(value->dtype);
    Number number = value->attrs[0].number;
    return dtype_is_float(value->dtype) ? k_float(lower->b, type, number.f) : k_int(lower->b, type, number.i);
}

static const KExpr *eval_scalar(Lower *lower, const Value *value, const LaneCoord *coords,
                                const KExpr *guard) {
    const KExpr *operands[OP_MAX_ARITY];
    for (int i = 0; i < value->n_in; i++) {
        LaneCoord at[RANK_MAX];
        lower_broadcast_coords(lower, value->in[i], value->rank, coords, at);
        operands[i] = lower_eval(lower, value->in[i], at, guard);
    }
    return lower_scalar_op(lower->b, value, operands);
}

/* Whether a pad fills in zeros around what is loaded, as loads do where their guard is false. */
static bool eval_fills_alike(const Lower *lower, const Value *pad) {
    const Value *fill = pad->in[1], *value = pad->in[0];
    while (lower_is_plain_movement(value->op))
        value = value->in[0];
    double number;
    return value_is_constant(fill, &number) && number == 0 && lower_is_leaf(lower, value) &&
           !lower_known(lower, value)->binding.is_bound;
}

static const KExpr *eval_pad(Lower *lower, const Value *value, const LaneCoord *coords, const KExpr *guard) {
    Builder *b = lower->b;
    LaneCoord at[RANK_MAX];
    const KExpr *inside;
    lower_part_coords(lower, value, 0, coords, at, &inside);
    const KExpr *x = lower_eval(lower, value->in[0], at, k_and(b, guard, inside));
    if (!inside || eval_fills_alike(lower, value))
        return x;
    const KExpr *fill = lower_eval(lower, value->in[1], NULL, guard);
    return k_select(b, lower_condition(lower, inside), x,
                    lower_cast(b, fill, value->in[1]->dtype, value->dtype));
}

static const KExpr *eval_concat(Lower *lower, const Value *value, const LaneCoord *coords,
                                const KExpr *guard) {
    Builder *b = lower->b;
    const KExpr *result = NULL;
    for (int i = value->n_in - 1; i >= 0; i--) {
        LaneCoord at[RANK_MAX];
        const KExpr *inside;
        lower_part_coords(lower, value, i, coords, at, &inside);
        const KExpr *x = lower_eval(lower, value->in[i], at, k_and(b, guard, inside));
        x = lower_cast(b, x, value->in[i]->dtype, value->dtype);
        result = result ? k_select(b, lower_condition(lower, inside), x, result) : x;
    }
    return result;
}

static const KExpr *eval_gather(Lower *lower, const Value *value, const LaneCoord *coords,
                                const KExpr *guard) {
    Builder *b = lower->b;
    LaneCoord index_coords[RANK_MAX], at[RANK_MAX];
    const KExpr *inside;
    lower_gather_coords(lower, value, coords, guard, index_coords, at, &inside);
    const KExpr *x = lower_eval(lower, value->in[0], at, k_and(b, guard, inside));
    if (lower_is_leaf(lower, value->in[0])) /* a load gives zero where its condition fails */
        return x;
    const KExpr *zero = k_convert(b, k_i32(b, 0), x->type);
    return k_select(b, lower_condition(lower, inside), x, zero);
}

static const KExpr *eval_op(Lower *lower, const Value *value, const LaneCoord *coords, const KExpr *guard) {
    Builder *b = lower->b;
    LaneCoord at[RANK_MAX];
    if (op_is_scalar(value->op))
        return eval_scalar(lower, value, coords, guard);
    if (lower_is_plain_movement(value->op)) {
        lower_operand_coords(lower, value, coords, at);
        return lower_eval(lower, value->in[0], at, guard);
    }
    switch (op_info(value->op)->class_) {
    case OPCLASS_BORDER:
        return value->op == OP_dim ? k_dim(b, value->attrs[0].dim, K_I64) : eval_constant(lower, value);
    case OPCLASS_POINTWISE:
        if (value->op == OP_index)
            return k_convert(b, lower_concrete(lower, lane_expr(lower, coords[value->attrs[1].i])), K_I32);
        return lower_cast(b, lower_eval(lower, value->in[0], coords, guard), value->in[0]->dtype,
                          value->dtype);
    case OPCLASS_MOVEMENT:
        return value->op == OP_pad      ? eval_pad(lower, value, coords, guard)
               : value->op == OP_concat ? eval_concat(lower, value, coords, guard)
                                        : eval_gather(lower, value, coords, guard);
    case OPCLASS_RANDOM: return lower_random(lower, value, coords, guard);
    case OPCLASS_REDUCTION: return lower_reduction(lower, value, coords, guard);
    case OPCLASS_CONTRACTION: return lower_matmul(lower, value, coords, guard);
    case OPCLASS_COMPOSITE:
    case OPCLASS_RECURRENT:
    case OPCLASS_COLLECTIVE: break;
    }
    diag_error(b->diags, DIAG_INTERNAL, value->span, "'%s' has no kernel code", op_info(value->op)->name);
    return k_convert(b, k_i32(b, 0), ktype_of(value->dtype));
}

/* Whether an operation gives code of its own, which is worth a name; the others only move coordinates. */
static bool eval_is_named(const Lower *lower, const Value *value, const KExpr *expr) {
    if (lower_is_plain_movement(value->op) || value->op == OP_constant || value->op == OP_dim)
        return false;
    return value->name || lower_known(lower, value)->uses > 1 ||
           eval_size(expr, EVAL_SIZE_MAX + 1) > EVAL_SIZE_MAX;
}

const KExpr *lower_eval(Lower *lower, const Value *value, const LaneCoord *coords, const KExpr *guard) {
    LowerKey key = lower_key(value, coords, guard);
    const KExpr *bound = eval_bound(lower, value, coords, guard);
    if (bound)
        return bound;
    int period;
    if (lower_is_leaf(lower, value))
        lower_key_of_load(lower, &key, &period);
    LowerEntry *known = lower_find(lower, &key, ENTRY_EXPR, ENTRY_RANDOM);
    if (known)
        return known->kind == ENTRY_EXPR ? known->expr : eval_loaded(lower, known);
    Span span = lower->b->span;
    lower->b->span = value->span;
    const KExpr *expr;
    if (lower_is_leaf(lower, value)) {
        expr = lower_load_at(lower, value, key.coords, key.guard);
    } else {
        expr = eval_op(lower, value, coords, guard);
        if (eval_is_named(lower, value, expr))
            expr = k_let_expr(lower->b, lower_value_name(lower, value), expr);
    }
    lower->b->span = span;
    lower_remember(lower, ENTRY_EXPR, &key)->expr = expr;
    return expr;
}
