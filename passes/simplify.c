/* Algebra: the rules of rules.def, and what a table of patterns over scalars cannot say: casts, reductions of
 * nothing, and operands of products that tensor cores take as they are.
 *
 *     y = (x + 0) / 8           ->   y = x * 0.125
 *     z = cast(cast(x, f32), bf16)   ->   z = x          (x is bf16: widened and narrowed back)
 *     p = cast(x, f32) @ cast(w, f32)   ->   p = x @ w   (bf16: the products are exact in f32 either way)
 *
 * Patterns are read from their text each time a Value's operation is at their head; there are few a head, and
 * the text is short. */
#include "passes/rewrite.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

typedef enum SimplifyExactness { EXACT, INEXACT } SimplifyExactness;

enum { MATCH_LETTERS = 128 /* ASCII */, SIMPLIFY_INT8_LENGTH = 32768 };

typedef struct SimplifyMatch {
    Rewrite *rewrite;
    Value *root;
    Value *bound[MATCH_LETTERS]; /* what each letter of the pattern stands for */
} SimplifyMatch;

/* ---- conditions
 * ----------------------------------------------------------------------------------------------------------
 */

static Value *simplify_letter(const SimplifyMatch *match, char letter) {
    return match->bound[letter & (MATCH_LETTERS - 1)];
}

static double simplify_number(const SimplifyMatch *match, char letter) {
    double number = 0;
    value_is_constant(simplify_letter(match, letter), &number);
    return number;
}

static bool simplify_if_always(const SimplifyMatch *match) {
    (void)match;
    return true;
}

/* The replacement is an operand: it must have the type and dims of the whole, which the builder checks. */
static bool simplify_if_computed(const SimplifyMatch *match) {
    return match->root->n_in > 0;
}

static bool simplify_if_integer(const SimplifyMatch *match) {
    return !dtype_is_float(match->root->dtype);
}

static bool simplify_if_float(const SimplifyMatch *match) {
    return dtype_is_float(match->root->dtype);
}

/* The operand is used more than once by the replacement: only where it is of the type computed in. */
static bool simplify_if_computed_operand(const SimplifyMatch *match) {
    return simplify_letter(match, 'a')->dtype == match->root->dtype;
}

static bool simplify_if_power_of_two(const SimplifyMatch *match) {
    int exponent;
    double c = simplify_number(match, 'C');
    return dtype_is_float(match->root->dtype) && isfinite(c) && fabs(frexp(c, &exponent)) == 0.5 &&
           abs(exponent) < 120;
}

static bool simplify_if_safe_product(const SimplifyMatch *match) {
    double product = fabs(simplify_number(match, 'C') * simplify_number(match, 'D'));
    return !dtype_is_float(match->root->dtype) || (product > 1e-30 && product < 1e30);
}

static bool simplify_if_variable(const SimplifyMatch *match) {
    return !value_is_scalar_constant(simplify_letter(match, 'a'));
}

/* exp of f32 overflows above 88. */
static bool simplify_if_bounded_exp(const SimplifyMatch *match) {
    const Value *a = simplify_letter(match, 'a');
    return a->op == OP_tanh || a->op == OP_sigmoid || a->op == OP_sin || a->op == OP_cos;
}

static bool simplify_not_negative(const Value *value, int depth) {
    double number;
    if (depth > 8)
        return false;
    switch (value->op) {
    case OP_exp:
    case OP_exp2:
    case OP_log1pexp:
    case OP_sigmoid:
    case OP_abs:
    case OP_sqrt:
    case OP_rsqrt:
    case OP_dim: return true;
    case OP_constant: return value_is_constant(value, &number) && number >= 0;
    case OP_mul:
        if (value->in[0] == value->in[1])
            return dtype_is_float(value->dtype);
        return dtype_is_float(value->dtype) && simplify_not_negative(value->in[0], depth + 1) &&
               simplify_not_negative(value->in[1], depth + 1);
    case OP_add:
    case OP_div:
        return dtype_is_float(value->dtype) && simplify_not_negative(value->in[0], depth + 1) &&
               simplify_not_negative(value->in[1], depth + 1);
    case OP_max:
        return simplify_not_negative(value->in[0], depth + 1) ||
               simplify_not_negative(value->in[1], depth + 1);
    case OP_sum:
    case OP_reduce_max:
    case OP_reduce_min:
    case OP_reshape:
    case OP_transpose:
    case OP_broadcast: return dtype_is_float(value->dtype) && simplify_not_negative(value->in[0], depth + 1);
    case OP_cast: return dtype_is_float(value->dtype) && simplify_not_negative(value->in[0], depth + 1);
    default: return false;
    }
}

static bool simplify_if_nonnegative(const SimplifyMatch *match) {
    return simplify_not_negative(simplify_letter(match, 'a'), 0);
}

typedef struct SimplifyRule {
    const char *name;
    SimplifyExactness exactness;
    const char *pattern, *replacement;
    bool (*condition)(const SimplifyMatch *match);
} SimplifyRule;

static const SimplifyRule simplify_rules[] = {
#define RULE(NAME, EXACTNESS, PATTERN, REPLACEMENT, CONDITION, DOC)                                          \
    {#NAME, EXACTNESS, PATTERN, REPLACEMENT, simplify_if_##CONDITION},
#include "passes/rules.def"
#undef RULE
};

enum { SIMPLIFY_RULES = sizeof simplify_rules / sizeof *simplify_rules };

/* ---- matching
 * ------------------------------------------------------------------------------------------------------------
 */

static void simplify_space(const char **at) {
    while (**at == ' ' || **at == ',')
        ++*at;
}

/* Reads a name from a pattern; its operation, OP_COUNT where it is none. */
static OpKind simplify_op(const char **at) {
    char name[32];
    size_t n = 0;
    while ((isalnum((unsigned char)**at) || **at == '_') && n < sizeof name - 1)
        name[n++] = *(*at)++;
    name[n] = 0;
    return op_find(name);
}

static bool simplify_match(SimplifyMatch *match, const char **at, Value *value) {
    simplify_space(at);
    char c = **at, next = (*at)[1];
    if (isdigit((unsigned char)c) || c == '-') {
        char *end;
        double number = strtod(*at, &end), have;
        *at = end;
        return value_is_constant(value, &have) && have == number;
    }
    if (isalpha((unsigned char)c) && !isalnum((unsigned char)next) && next != '_' && next != '(') {
        Value **bound = &match->bound[c & (MATCH_LETTERS - 1)];
        ++*at;
        if (isupper((unsigned char)c) && !value_is_scalar_constant(value))
            return false;
        if (!*bound)
            *bound = value;
        return *bound == value;
    }
    OpKind op = simplify_op(at);
    if (value->op != op || **at != '(')
        return false;
    /* What is joined across two operations must have been computed in one type: i32 wraps where i64 does not.
     */
    ScalarRule kind = op_info(op)->rule;
    if ((kind == RULE_ARITH || kind == RULE_FLOAT || kind == RULE_BITS) && value->dtype != match->root->dtype)
        return false;
    ++*at;
    for (int i = 0; i < value->n_in; i++)
        if (!simplify_match(match, at, value->in[i]))
            return false;
    simplify_space(at);
    return *(*at)++ == ')';
}

static Value *simplify_build(SimplifyMatch *match, const char **at);

/* `@name(...)`: computed now, from constants. */
static Value *simplify_compute(SimplifyMatch *match, const char **at) {
    const Value *root = match->root;
    if (!strncmp(*at, "zero(", 5)) {
        *at += 5;
        simplify_build(match, at);
        ++*at;
        Value *zero = build_constant(match->rewrite, (Number){.i = 0}, root->dtype, root);
        return zero && root->rank
                   ? build_broadcast(match->rewrite, zero, root->rank, (const Dim *const *)root->dims, root)
                   : zero;
    }
    const OpInfo *info = op_info(simplify_op(at));
    double f[OP_MAX_ARITY] = {0};
    ++*at;
    for (int i = 0; **at != ')'; simplify_space(at)) {
        f[i++] = simplify_number(match, **at);
        ++*at;
    }
    ++*at;
    Number number;
    double computed = info->float_ref(f[0], f[1], f[2]);
    if (dtype_is_float(root->dtype))
        number.f = dtype_round(computed, root->dtype);
    else if (info->int_ref)
        number = dtype_convert((Number){.i = info->int_ref((int64_t)f[0], (int64_t)f[1], (int64_t)f[2])},
                               DTYPE_I64, root->dtype);
    else
        return NULL;
    return build_constant(match->rewrite, number, root->dtype, root);
}

static Value *simplify_build(SimplifyMatch *match, const char **at) {
    simplify_space(at);
    char c = **at, next = (*at)[1];
    if (c == '@') {
        ++*at;
        return simplify_compute(match, at);
    }
    if (isalpha((unsigned char)c) && !isalnum((unsigned char)next) && next != '_' && next != '(') {
        ++*at;
        return simplify_letter(match, c);
    }
    if (isdigit((unsigned char)c) || c == '-') {
        char *end;
        double number = strtod(*at, &end);
        *at = end;
        DType dtype = match->root->dtype;
        Number constant = dtype_is_float(dtype) ? (Number){.f = number} : (Number){.i = (int64_t)number};
        return build_constant(match->rewrite, constant, dtype, match->root);
    }
    OpKind op = simplify_op(at);
    Value *in[OP_MAX_ARITY] = {NULL};
    ++*at;
    for (int i = 0; i < op_info(op)->n_in; i++) {
        in[i] = simplify_build(match, at);
        if (!in[i])
            return NULL;
    }
    simplify_space(at);
    ++*at;
    return build_scalar(match->rewrite, op, in[0], in[1], in[2], match->root);
}

/* Integers above 2^53 do not pass through the double in which patterns compare and compute constants. */
static bool simplify_constants_fit(const Value *value) {
    for (int i = 0; i < value->n_in; i++) {
        const Value *in = value->in[i];
        if (in->op == OP_constant && !dtype_is_float(in->dtype) &&
            llabs(in->attrs[0].number.i) > INT64_C(1) << 53)
            return false;
    }
    return true;
}

static Value *simplify_algebra(Rewrite *rewrite, Value *value) {
    const char *name = op_info(value->op)->name;
    size_t length = strlen(name);
    if (!simplify_constants_fit(value))
        return value;
    for (int i = 0; i < SIMPLIFY_RULES; i++) {
        const SimplifyRule *rule = &simplify_rules[i];
        if (strncmp(rule->pattern, name, length) || rule->pattern[length] != '(')
            continue;
        SimplifyMatch match = {.rewrite = rewrite, .root = value};
        const char *at = rule->pattern;
        if (!simplify_match(&match, &at, value) || !rule->condition(&match))
            continue;
        at = rule->replacement;
        Value *fresh = simplify_build(&match, &at);
        if (fresh && fresh->dtype != value->dtype && dtype_widens(fresh->dtype, value->dtype))
            fresh = build_cast(rewrite, fresh, value->dtype, value);
        if (fresh && fresh->dtype == value->dtype && value_same_dims(fresh, value))
            return fresh;
    }
    return value;
}

/* ---- casts, reductions, products
 * ----------------------------------------------------------------------------------------- */

static Value *simplify_cast(Rewrite *rewrite, Value *value) {
    Value *operand = value->in[0];
    if (operand->dtype == value->dtype)
        return operand;
    if (operand->op != OP_cast)
        return value;
    DType first = operand->in[0]->dtype;
    if (!dtype_widens(first, operand->dtype))
        return value;
    return first == value->dtype ? operand->in[0] : build_cast(rewrite, operand->in[0], value->dtype, value);
}

/* A reduction over axes of one element, or over none, is its operand. */
static Value *simplify_reduction(Rewrite *rewrite, Value *value) {
    const Value *operand = value->in[0];
    bool numbers = value->op == OP_sum || value->op == OP_prod || value->op == OP_reduce_min ||
                   value->op == OP_reduce_max;
    for (int i = 0; i < value->attrs[0].axes.n; i++)
        if (!dim_is(operand->dims[value->attrs[0].axes.at[i]], 1))
            return value;
    if (!numbers)
        return value;
    Value *fresh = build_cast(rewrite, value->in[0], value->dtype, value);
    return fresh && !value_same_dims(fresh, value)
               ? build_reshape(rewrite, fresh, value->rank, (const Dim *const *)value->dims, value)
               : fresh;
}

/* The type that tensor cores multiply exactly for operands of these two; DTYPE_COUNT where there is none. */
static DType simplify_tensor_type(DType a, DType b) {
    bool half_a = a == DTYPE_F16 || a == DTYPE_BF16, half_b = b == DTYPE_F16 || b == DTYPE_BF16;
    if (a == b && half_a)
        return a;
    if (half_a && !half_b && dtype_widens(b, a))
        return a;
    if (half_b && !half_a && dtype_widens(a, b))
        return b;
    return DTYPE_COUNT;
}

/* Below transposes and other views, the cast that widens a matmul's operand; NULL where there is none. */
static Value *simplify_widening(Value *value) {
    while (value->op == OP_transpose || value->op == OP_reshape || value->op == OP_slice ||
           value->op == OP_broadcast)
        value = value->in[0];
    return value->op == OP_cast && dtype_widens(value->in[0]->dtype, value->dtype) ? value : NULL;
}

/* The same views over another Value. */
static Value *simplify_revisit(Rewrite *rewrite, Value *value, const Value *cast, Value *fresh) {
    if (value == cast)
        return fresh;
    Value *in = simplify_revisit(rewrite, value->in[0], cast, fresh);
    return in ? build_like(rewrite, value, &in) : NULL;
}

/* matmul(cast(x), cast(w)) multiplies what x and w hold: exactly, in f32 or in i32, whichever way it is
 * written. */
static Value *simplify_matmul(Rewrite *rewrite, Value *value) {
    Value *cast[2], *in[2];
    DType type[2];
    for (int i = 0; i < 2; i++) {
        cast[i] = simplify_widening(value->in[i]);
        type[i] = cast[i] ? cast[i]->in[0]->dtype : value->in[i]->dtype;
    }
    bool fp8 = dtype_is_fp8(type[0]) && dtype_is_fp8(type[1]);
    bool int8 = dtype_is_int8(type[0]) && dtype_is_int8(type[1]);
    DType common = simplify_tensor_type(type[0], type[1]);
    if ((!fp8 && !int8 && common == DTYPE_COUNT) || value->dtype == DTYPE_F64)
        return value;
    /* K products of two bytes sum up inside i32 up to this length. */
    int64_t longest = dim_upper(rewrite->graph->dims, value->in[0]->dims[value->in[0]->rank - 1]);
    if (int8 && value->dtype != DTYPE_I32 && longest > SIMPLIFY_INT8_LENGTH)
        return value;
    bool changed = false;
    for (int i = 0; i < 2; i++) {
        DType wanted = fp8 || int8 ? type[i] : common;
        in[i] = value->in[i];
        if (in[i]->dtype == wanted)
            continue;
        in[i] = cast[i] ? simplify_revisit(rewrite, in[i], cast[i],
                                           build_cast(rewrite, cast[i]->in[0], wanted, value))
                        : build_cast(rewrite, in[i], wanted, value);
        changed = true;
    }
    return changed ? build_cast(rewrite, build_like(rewrite, value, in), value->dtype, value) : value;
}

static Value *simplify_rule(Rewrite *rewrite, Value *value) {
    if (op_is_scalar(value->op))
        return simplify_algebra(rewrite, value);
    if (value->op == OP_cast)
        return simplify_cast(rewrite, value);
    if (value->op == OP_matmul)
        return simplify_matmul(rewrite, value);
    return value_class(value) == OPCLASS_REDUCTION ? simplify_reduction(rewrite, value) : value;
}

bool pass_simplify(Pass *pass, Graph *graph) {
    return rewrite_graph(pass, graph, simplify_rule);
}
