/* Arithmetic of the language.
 *
 * Numbers are weak. Two numbers make a number, now. Next to a tensor, a number becomes a constant of the type
 * in which the tensor is computed: 2 and 0.5 next to bf16 are f32, 2 next to i8 is i32; only a real number
 * next to an integer tensor has no such type and becomes f32 (f64 beyond f32's range). Whole numbers and dims
 * divide like dims, rounding down; `1 / D`, which would be 0, is an error that says so. */
#include "frontend/expand.h"

#include <math.h>

enum { LIST_MAX = 4 * RANK_MAX }; /* items of a list that the language works out */

bool meaning_is_number(const Meaning *meaning) {
    return meaning->kind == MEANING_WHOLE || meaning->kind == MEANING_REAL || meaning->kind == MEANING_DIM ||
           meaning->kind == MEANING_TRUTH;
}

Meaning meaning_of_dim(const Dim *dim) {
    return dim_is_const(dim) ? (Meaning){.kind = MEANING_WHOLE, .whole = dim->value}
                             : (Meaning){.kind = MEANING_DIM, .dim = dim};
}

const Dim *meaning_dim(Expand *expand, Meaning meaning, Span span, const char *what) {
    const Dim *dim = NULL;
    if (meaning.kind == MEANING_DIM)
        dim = meaning.dim;
    else if (meaning.kind == MEANING_WHOLE)
        dim = dim_const(expand->graph->dims, meaning.whole);
    else if (meaning.kind != MEANING_FAILED)
        expand_fail(expand, DIAG_ATTRIBUTE, span, "%s is a whole number or made of dims, not %s", what,
                    meaning_noun(&meaning));
    if (!dim && meaning.kind == MEANING_WHOLE)
        expand_fail(expand, DIAG_DIM, span, "%s overflows 62 bits", what);
    return dim;
}

static double operator_real(const Meaning *meaning) {
    return meaning->kind == MEANING_REAL    ? meaning->real
           : meaning->kind == MEANING_WHOLE ? (double)meaning->whole
                                            : (double)meaning->truth;
}

static int64_t operator_whole(const Meaning *meaning) {
    return meaning->kind == MEANING_WHOLE ? meaning->whole : meaning->truth;
}

/* ---- constants ---- */

static Value *operator_constant(Expand *expand, Number number, DType type, Span span) {
    Attr attrs[OP_MAX_ATTRS] = {{.number = number}, {.dtype = type}};
    Meaning made = expand_append(expand, OP_constant, NULL, 0, attrs, span);
    return made.kind == MEANING_TENSOR ? made.value : NULL;
}

/* The constant that a number makes beside operands computed in `type`. */
static Value *operator_constant_beside(Expand *expand, const Meaning *meaning, DType type, Span span) {
    if (meaning->kind == MEANING_TRUTH)
        return operator_constant(expand, (Number){.i = meaning->truth}, DTYPE_BOOL, span);
    if (type == DTYPE_F64 || type == DTYPE_F32 || meaning->kind == MEANING_REAL) {
        double value = operator_real(meaning);
        if (type != DTYPE_F64 && type != DTYPE_F32)
            type = isfinite(value) && fabs(value) > dtype_max_finite(DTYPE_F32) ? DTYPE_F64 : DTYPE_F32;
        return operator_constant(expand, (Number){.f = dtype_round(value, type)}, type, span);
    }
    bool narrow = meaning->whole >= INT32_MIN && meaning->whole <= INT32_MAX;
    return operator_constant(expand, (Number){.i = meaning->whole},
                             narrow && type != DTYPE_I64 ? DTYPE_I32 : DTYPE_I64, span);
}

Value *operator_tensor(Expand *expand, Meaning meaning, DType type, Span span) {
    if (meaning.kind == MEANING_TENSOR)
        return meaning.value;
    if (meaning.kind == MEANING_DIM) {
        Attr attrs[OP_MAX_ATTRS] = {{.dim = meaning.dim}};
        Meaning made = expand_append(expand, OP_dim, NULL, 0, attrs, span);
        return made.kind == MEANING_TENSOR ? made.value : NULL;
    }
    if (meaning_is_number(&meaning))
        return operator_constant_beside(expand, &meaning, type, span);
    if (meaning.kind != MEANING_FAILED)
        expand_fail(expand, DIAG_TYPE_MISMATCH, span, "a tensor or a number is needed here, not %s",
                    meaning_noun(&meaning));
    return NULL;
}

Meaning operator_cast(Expand *expand, Meaning a, DType type, Span span) {
    Value *value = operator_tensor(expand, a, dtype_compute(type), span);
    if (!value)
        return (Meaning){.kind = MEANING_FAILED};
    if (value->dtype == type)
        return (Meaning){.kind = MEANING_TENSOR, .value = value};
    Attr attrs[OP_MAX_ATTRS] = {{.dtype = type}};
    return expand_append(expand, OP_cast, &value, 1, attrs, span);
}

/* ---- numbers alone ---- */

static bool operator_relation(OpKind op, DimRelation *relation) {
    switch (op) {
    case OP_eq: *relation = DIM_EQ; return true;
    case OP_ne: *relation = DIM_NE; return true;
    case OP_lt: *relation = DIM_LT; return true;
    case OP_le: *relation = DIM_LE; return true;
    case OP_gt: *relation = DIM_GT; return true;
    case OP_ge: *relation = DIM_GE; return true;
    default: return false;
    }
}

/* Whether a relation between dims is known to hold, or known not to. */
static bool operator_decide(DimTable *table, DimRelation relation, const Dim *a, const Dim *b, bool *truth) {
    const Dim *one = dim_const(table, 1);
    const Dim *a1 = dim_add(table, a, one), *b1 = dim_add(table, b, one);
    bool le = dim_known_le(table, a, b), ge = dim_known_le(table, b, a);
    bool lt = a1 && dim_known_le(table, a1, b), gt = b1 && dim_known_le(table, b1, a);
    bool equal = a == b || (le && ge), differ = lt || gt;
    switch (relation) {
    case DIM_EQ: *truth = equal; return equal || differ;
    case DIM_NE: *truth = differ; return equal || differ;
    case DIM_LT: *truth = lt; return lt || ge;
    case DIM_LE: *truth = le; return le || gt;
    case DIM_GT: *truth = gt; return gt || le;
    case DIM_GE: *truth = ge; return ge || lt;
    }
    return false;
}

/* Dims and whole numbers. False where dims have no such operation. */
static bool operator_fold_dims(Expand *expand, OpKind op, const Meaning *operands, int n, Span span,
                               Meaning *out) {
    enum { STEPS = 4 }; /* arithmetic on sums of many terms takes longer than other expressions */
    DimTable *table = expand->graph->dims;
    const Dim *d[2] = {dim_const(table, 0), NULL};
    expand->steps += STEPS;
    if (n > 2)
        return false;
    for (int i = 0; i < n; i++) {
        if (operands[i].kind != MEANING_DIM && operands[i].kind != MEANING_WHOLE)
            return false;
        d[n == 1 ? 1 : i] = meaning_dim(expand, operands[i], span, "a dim");
        if (!d[n == 1 ? 1 : i]) {
            *out = (Meaning){.kind = MEANING_FAILED};
            return true;
        }
    }
    DimRelation relation;
    if (operator_relation(op, &relation)) {
        *out = (Meaning){.kind = MEANING_TRUTH};
        return operator_decide(table, relation, d[0], d[1], &out->truth);
    }
    if ((op == OP_div || op == OP_mod) && dim_lower(table, d[1]) < 1 && dim_is_const(d[1])) {
        *out = expand_fail(expand, DIAG_DIM, span, "dims are divided by positive numbers alone");
        return true;
    }
    const Dim *result;
    switch (op) {
    case OP_add: result = dim_add(table, d[0], d[1]); break;
    case OP_sub:
    case OP_neg: result = dim_sub(table, d[0], d[1]); break;
    case OP_mul: result = dim_mul(table, d[0], d[1]); break;
    case OP_div: result = dim_div(table, d[0], d[1]); break;
    case OP_mod: result = dim_mod(table, d[0], d[1]); break;
    case OP_min: result = dim_min(table, d[0], d[1]); break;
    case OP_max: result = dim_max(table, d[0], d[1]); break;
    default: return false;
    }
    *out = result ? meaning_of_dim(result)
                  : expand_fail(expand, DIAG_DIM, span,
                                "this expression of dims is too large, or overflows 62 bits");
    return true;
}

/* b is not 0. The one quotient that overflows wraps, as the division of tensors does. */
static int64_t operator_floor(int64_t a, int64_t b) {
    if (b == -1)
        return (int64_t)(0 - (uint64_t)a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static Meaning operator_fold_whole(Expand *expand, OpKind op, const Meaning *operands, Span span) {
    int64_t a = operator_whole(&operands[0]), b = operator_whole(&operands[1]), result;
    const OpInfo *info = op_info(op);
    bool fits = true;
    switch (op) {
    case OP_add: fits = !__builtin_add_overflow(a, b, &result); break;
    case OP_sub: fits = !__builtin_sub_overflow(a, b, &result); break;
    case OP_mul: fits = !__builtin_mul_overflow(a, b, &result); break;
    case OP_neg: fits = !__builtin_sub_overflow((int64_t)0, a, &result); break;
    case OP_div:
    case OP_mod:
        if (b == 0)
            return expand_fail(expand, DIAG_ATTRIBUTE, span, "division of a whole number by 0");
        result = op == OP_div ? operator_floor(a, b) : b == -1 ? 0 : a - b * operator_floor(a, b);
        break;
    default: result = info->int_ref(a, b, operator_whole(&operands[2])); break;
    }
    if (!fits)
        return expand_fail(expand, DIAG_ATTRIBUTE, span, "this whole number overflows 64 bits");
    return (Meaning){.kind = MEANING_WHOLE, .whole = result};
}

/* All operands are numbers, none a dim. */
static Meaning operator_fold(Expand *expand, OpKind op, const Meaning *operands, int n, Span span) {
    const OpInfo *info = op_info(op);
    Meaning padded[OP_MAX_ARITY] = {
        {.kind = MEANING_WHOLE}, {.kind = MEANING_WHOLE}, {.kind = MEANING_WHOLE}};
    bool whole = true, truth = true;
    for (int i = 0; i < n; i++) {
        padded[i] = operands[i];
        whole &= operands[i].kind != MEANING_REAL;
        truth &= operands[i].kind == MEANING_TRUTH;
    }
    double a = operator_real(&padded[0]), b = operator_real(&padded[1]), c = operator_real(&padded[2]);
    switch (info->rule) {
    case RULE_COMPARE:
        return (Meaning){.kind = MEANING_TRUTH,
                         .truth = whole && info->int_ref ? info->int_ref(operator_whole(&padded[0]),
                                                                         operator_whole(&padded[1]), 0) != 0
                                                         : info->float_ref(a, b, c) != 0};
    case RULE_LOGIC: return (Meaning){.kind = MEANING_TRUTH, .truth = info->float_ref(a, b, c) != 0};
    case RULE_SELECT: return operator_real(&padded[0]) != 0 ? padded[1] : padded[2];
    case RULE_BITS:
        if (!whole)
            return expand_fail(expand, DIAG_TYPE_MISMATCH, span, "'%s' is for whole numbers", info->name);
        return operator_fold_whole(expand, op, padded, span);
    case RULE_ARITH:
        if (whole)
            return operator_fold_whole(expand, op, padded, span);
        break;
    case RULE_FLOAT:
        if (whole && !truth && op == OP_pow) {
            double power = info->float_ref(a, b, c);
            if (fabs(power) < 9007199254740992.0 && power == floor(power))
                return (Meaning){.kind = MEANING_WHOLE, .whole = (int64_t)power};
        }
        break;
    }
    return (Meaning){.kind = MEANING_REAL, .real = info->float_ref(a, b, c)};
}

/* ---- scalar primitives ---- */

/* The type in which the tensors among the operands are computed; DTYPE_COUNT where there are none. */
static DType operator_company(OpKind op, const Meaning *operands, int n) {
    DType company = DTYPE_COUNT;
    for (int i = op_info(op)->rule == RULE_SELECT; i < n; i++) {
        if (operands[i].kind != MEANING_TENSOR && operands[i].kind != MEANING_DIM)
            continue;
        DType type = operands[i].kind == MEANING_DIM ? DTYPE_I64 : dtype_compute(operands[i].value->dtype);
        company = company == DTYPE_COUNT ? type : dtype_promote(company, type);
    }
    for (int i = op_info(op)->rule == RULE_SELECT;
         i < n && !(company < DTYPE_COUNT && dtype_is_float(company)); i++)
        if (operands[i].kind == MEANING_REAL)
            company = DTYPE_F32;
    return company;
}

Meaning operator_scalar(Expand *expand, OpKind op, Meaning *operands, int n, Span span) {
    bool numbers = true, dims = false;
    for (int i = 0; i < n; i++) {
        if (operands[i].kind == MEANING_FAILED)
            return operands[i];
        if (operands[i].kind != MEANING_TENSOR && !meaning_is_number(&operands[i]))
            return expand_fail(expand, DIAG_TYPE_MISMATCH, span,
                               "'%s' is for tensors and numbers, not for %s", op_info(op)->name,
                               meaning_noun(&operands[i]));
        numbers &= operands[i].kind != MEANING_TENSOR;
        dims |= operands[i].kind == MEANING_DIM;
    }
    Meaning folded;
    if (numbers && dims && operator_fold_dims(expand, op, operands, n, span, &folded))
        return folded;
    if (numbers && !dims)
        return operator_fold(expand, op, operands, n, span);

    DType company = operator_company(op, operands, n);
    Value *in[OP_MAX_ARITY];
    for (int i = 0; i < n; i++) {
        in[i] = operator_tensor(expand, operands[i], company, span);
        if (!in[i])
            return (Meaning){.kind = MEANING_FAILED};
    }
    return expand_append(expand, op, in, n, NULL, span);
}

/* ---- lists and comparisons of what is no number ---- */

bool meaning_equal(const Meaning *a, const Meaning *b, bool *equal) {
    *equal = a->kind == b->kind;
    if (a->kind == MEANING_NONE || b->kind == MEANING_NONE)
        return true;
    if (!*equal)
        return (a->kind == MEANING_WHOLE && b->kind == MEANING_DIM) ||
               (a->kind == MEANING_DIM && b->kind == MEANING_WHOLE);
    switch (a->kind) {
    case MEANING_WHOLE: *equal = a->whole == b->whole; return true;
    case MEANING_DIM: *equal = a->dim == b->dim; return true;
    case MEANING_TYPE: *equal = a->dtype == b->dtype; return true;
    case MEANING_WORD: *equal = strcmp(a->word, b->word) == 0; return true;
    case MEANING_TRUTH: *equal = a->truth == b->truth; return true;
    case MEANING_LIST:
        *equal = a->list.n == b->list.n;
        for (int i = 0; *equal && i < a->list.n; i++)
            if (!meaning_equal(&a->list.at[i], &b->list.at[i], equal))
                return false;
        return true;
    default: return false;
    }
}

static Meaning operator_list_repeated(Expand *expand, const Meaning *list, const Meaning *times, Span span) {
    int64_t n = times->whole < 0 ? 0 : times->whole;
    if (list->list.n > 0 && n > LIST_MAX / list->list.n)
        return expand_fail(expand, DIAG_LIMIT, span, "a list of more than %d items", LIST_MAX);
    Meaning out = {.kind = MEANING_LIST, .list = {ARENA_ARRAY(expand->arena, Meaning, LIST_MAX), 0}};
    for (int64_t k = 0; k < n && list->list.n > 0; k++)
        for (int i = 0; i < list->list.n; i++)
            out.list.at[out.list.n++] = list->list.at[i];
    return out;
}

/* [a, b] + [c], and [a, b, c] - [b]. */
static Meaning operator_lists(Expand *expand, Operator operator_, const Meaning *a, const Meaning *b,
                              Span span) {
    if (operator_ != OPERATOR_ADD && operator_ != OPERATOR_SUB)
        return expand_fail(expand, DIAG_TYPE_MISMATCH, span,
                           "lists are joined by '+' and reduced by '-', not by '%s'",
                           operator_text(operator_));
    if (a->list.n > LIST_MAX || b->list.n > LIST_MAX)
        return expand_fail(expand, DIAG_LIMIT, span, "a list of more than %d items", LIST_MAX);
    Meaning out = {.kind = MEANING_LIST, .list = {ARENA_ARRAY(expand->arena, Meaning, 2 * LIST_MAX), 0}};
    for (int i = 0; i < a->list.n; i++) {
        bool dropped = false, equal;
        for (int j = 0; operator_ == OPERATOR_SUB && j < b->list.n; j++)
            dropped |= meaning_equal(&a->list.at[i], &b->list.at[j], &equal) && equal;
        if (!dropped)
            out.list.at[out.list.n++] = a->list.at[i];
    }
    for (int i = 0; operator_ == OPERATOR_ADD && i < b->list.n; i++)
        out.list.at[out.list.n++] = b->list.at[i];
    if (out.list.n > LIST_MAX)
        return expand_fail(expand, DIAG_LIMIT, span, "a list of more than %d items", LIST_MAX);
    return out;
}

static bool operator_is_symbolic(const Meaning *meaning) {
    return meaning->kind == MEANING_WORD || meaning->kind == MEANING_NONE || meaning->kind == MEANING_TYPE ||
           meaning->kind == MEANING_LIST;
}

Meaning operator_unary(Expand *expand, const Expr *expr, Meaning a) {
    return operator_scalar(expand, op_find(operator_primitive(expr->operator_)), &a, 1, expr->span);
}

Meaning operator_binary(Expand *expand, const Expr *expr, Meaning a, Meaning b) {
    if (a.kind == MEANING_FAILED || b.kind == MEANING_FAILED)
        return (Meaning){.kind = MEANING_FAILED};
    bool equal;
    if ((expr->operator_ == OPERATOR_EQ || expr->operator_ == OPERATOR_NE) &&
        (operator_is_symbolic(&a) || operator_is_symbolic(&b)) && meaning_equal(&a, &b, &equal))
        return (Meaning){.kind = MEANING_TRUTH, .truth = equal == (expr->operator_ == OPERATOR_EQ)};
    if (a.kind == MEANING_LIST && b.kind == MEANING_LIST)
        return operator_lists(expand, expr->operator_, &a, &b, expr->span);
    if (a.kind == MEANING_LIST && b.kind == MEANING_WHOLE && expr->operator_ == OPERATOR_MUL)
        return operator_list_repeated(expand, &a, &b, expr->span);
    if (expr->operator_ == OPERATOR_MATMUL)
        return product_of(expand, a, b, expr->span);
    bool drops =
        expr->operator_ == OPERATOR_DIV && expr->a->kind == EXPR_WHOLE && expr->a->whole != 0 &&
        (b.kind == MEANING_DIM || (b.kind == MEANING_WHOLE && b.whole != 0 && expr->a->whole % b.whole != 0));
    if (drops)
        return expand_fail(expand, DIAG_ATTRIBUTE, expr->span,
                           "whole numbers divide without remainder; for a fraction write %lld.0 / ...",
                           (long long)expr->a->whole);
    Meaning operands[OP_MAX_ARITY] = {a, b};
    return operator_scalar(expand, op_find(operator_primitive(expr->operator_)), operands, 2, expr->span);
}
