/* Expressions of kernel IR in C++, with no parentheses but those that precedence asks for. */
#include "codegen/emit_cuda.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "codegen/kernel_value.h"

typedef struct CudaSpelling {
    const char *f32, *f64, *integer, *data;
} CudaSpelling;

static const CudaSpelling cuda_spellings[] = {
#define CUDA(NAME, F32, F64, INTEGER, DATA) [OP_##NAME] = {F32, F64, INTEGER, DATA},
#include "codegen/scalar_cuda.def"
#undef CUDA
};
_Static_assert(sizeof cuda_spellings / sizeof *cuda_spellings == OP_SCALAR_COUNT,
               "scalar_cuda.def and scalar.def list the same operations");

const char *cuda_type_name(KType type) {
    static const char *const names[] = {"bool", "int", "u32", "i64", "u64", "float", "double"};
    return names[type];
}

const char *cuda_element_name(DType type) {
    switch (type) {
    case DTYPE_F64: return "double";
    case DTYPE_F32: return "float";
    case DTYPE_I32: return "int";
    case DTYPE_I4: return "i4x2";
    case DTYPE_U4: return "u4x2";
    case DTYPE_BOOL: return "bool8";
    default: return dtype_name(type);
    }
}

/* ---- constants
 * --------------------------------------------------------------------------------------------- */

static void cuda_int(EmitCuda *e, const KExpr *x) {
    switch (x->type) {
    case K_BOOL: text_add(&e->body, x->i ? "true" : "false"); break;
    case K_U32:
        text_add(&e->body, x->i > 9999 ? "0x%llxu" : "%lluu", (unsigned long long)(uint32_t)x->i);
        break;
    case K_U64: text_add(&e->body, "%lluull", (unsigned long long)x->i); break;
    case K_I64:
        if (x->i == INT64_MIN)
            text_add(&e->body, "(-9223372036854775807ll - 1)");
        else
            text_add(&e->body, "%lldll", (long long)x->i);
        break;
    default:
        if (x->i == INT32_MIN)
            text_add(&e->body, "(-2147483647 - 1)");
        else
            text_add(&e->body, "%lld", (long long)x->i);
    }
}

/* The shortest decimal that reads back as the same value of the type. */
static void cuda_float(EmitCuda *e, const KExpr *x) {
    const char *type = x->type == K_F32 ? "f32" : "f64";
    if (isnan(x->f) || isinf(x->f)) {
        text_add(&e->body, "%s%s_%s()", x->f < 0 ? "-" : "", type, isnan(x->f) ? "nan" : "infinity");
        return;
    }
    char digits[40];
    for (int n = 1; n <= 17; n++) {
        snprintf(digits, sizeof digits, "%.*g", n, x->f);
        if (x->type == K_F32 ? strtof(digits, NULL) == (float)x->f : strtod(digits, NULL) == x->f)
            break;
    }
    text_add(&e->body, "%s%s%s", digits, digits[strcspn(digits, ".e")] ? "" : ".0",
             x->type == K_F32 ? "f" : "");
}

static CudaPrec cuda_constant_prec(const KExpr *x) {
    bool is_negative = x->kind == KX_INT ? x->i < 0 && x->type != K_U64 : signbit(x->f) && !isnan(x->f);
    return is_negative ? PREC_UNARY : PREC_POSTFIX;
}

/* ---- scalar operations
 * ------------------------------------------------------------------------------------- */

/* Precedence of the operator in a spelling: what stands between its first two operands, or before its only
 * one. */
static CudaPrec cuda_spelling_prec(const char *text) {
    static const struct {
        const char *text;
        CudaPrec prec;
    } operators[] = {
        {"?", PREC_SELECT},  {"||", PREC_OR},      {"&&", PREC_AND},    {"|", PREC_BIT_OR},
        {"^", PREC_BIT_XOR}, {"&", PREC_BIT_AND},  {"==", PREC_EQUAL},  {"!=", PREC_EQUAL},
        {"<", PREC_COMPARE}, {"<=", PREC_COMPARE}, {">", PREC_COMPARE}, {">=", PREC_COMPARE},
        {"<<", PREC_SHIFT},  {">>", PREC_SHIFT},   {"+", PREC_ADD},     {"-", PREC_ADD},
        {"*", PREC_MUL},     {"/", PREC_MUL},      {"%", PREC_MUL},
    };
    if (*text == '-' || *text == '!')
        return PREC_UNARY;
    const char *space = strchr(text, ' ');
    if (!space || memchr(text, '(', (size_t)(space - text)))
        return strncmp(text, "1.0 /", 5) == 0 ? PREC_MUL : PREC_POSTFIX;
    size_t bytes = strcspn(space + 1, " ");
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (strlen(operators[i].text) == bytes && memcmp(operators[i].text, space + 1, bytes) == 0)
            return operators[i].prec;
    return PREC_POSTFIX;
}

/* What the place of an operand asks for, `$` standing at text + at, `left` being the first operand's own
 * precedence. Inside a call's parentheses anything may stand. */
static CudaPrec cuda_operand_place(const char *text, size_t at, CudaPrec prec, CudaPrec left) {
    if (prec == PREC_POSTFIX)
        return PREC_ANY;
    if (prec == PREC_UNARY)
        return PREC_POSTFIX;
    if (at > 0 && text[at - 1] == '(')
        return PREC_ANY;
    if (prec == PREC_SELECT)
        return at == 0 ? PREC_OR : PREC_SELECT;
    if (text[at + 1] == 'c') /* $a * $b + $c */
        return PREC_MUL;
    /* Few readers know by heart how shifts and bitwise operators bind; only a chain of the same one goes
     * without. */
    if (prec == PREC_SHIFT || (prec >= PREC_BIT_OR && prec <= PREC_BIT_AND))
        return at == 0 && left == prec ? prec : PREC_UNARY;
    return at == 0 ? prec : prec + 1;
}

static const char *cuda_spelling(const EmitCuda *e, const KExpr *x) {
    const CudaSpelling *row = &cuda_spellings[x->op];
    KType type = x->args[op_info(x->op)->rule == RULE_SELECT ? 1 : 0]->type;
    if (x->is_rounded)
        return type == K_F32 ? "__fmul_rn($a, $b)" : "__dmul_rn($a, $b)";
    if (ktype_is_float(type))
        return type == K_F32 ? row->f32 : row->f64;
    if (!row->data || !*row->data)
        return row->integer;
    bool divides = x->op == OP_div || x->op == OP_mod;
    if (divides && emit_is_safe_divisor(x->args[1]))
        return row->integer;
    bool wraps = type == K_I32 || type == K_I64 ? true : divides;
    return wraps && e->is_data_tree ? row->data : row->integer;
}

static CudaPrec cuda_prec(const EmitCuda *e, const KExpr *x);

static CudaPrec cuda_scalar_prec(const EmitCuda *e, const KExpr *x) {
    const char *text = cuda_spelling(e, x);
    /* $a * $b + $c is a sum; its first operator is not */
    return strcmp(text, "$a * $b + $c") == 0 ? PREC_ADD : cuda_spelling_prec(text);
}

static void cuda_scalar(EmitCuda *e, const KExpr *x) {
    const char *text = cuda_spelling(e, x);
    CudaPrec prec = cuda_scalar_prec(e, x);
    for (size_t i = 0; text[i]; i++) {
        if (text[i] == '$' && text[i + 1] == 't') {
            text_add(&e->body, "%s", ktype_name(x->args[0]->type));
            i++;
        } else if (text[i] == '$') {
            CudaPrec place = cuda_operand_place(text, i, prec, cuda_prec(e, x->args[0]));
            if (prec == PREC_ADD && text[i + 1] != 'c' && strchr(text, '*'))
                place = text[i + 1] == 'a' ? PREC_MUL : PREC_UNARY;
            cuda_expr(e, x->args[text[++i] - 'a'], place);
        } else {
            text_add_bytes(&e->body, &text[i], 1);
        }
    }
}

/* ---- the other kinds
 * --------------------------------------------------------------------------------------- */

static void cuda_call(EmitCuda *e, const char *function, const KExpr *argument) {
    text_add(&e->body, "%s(", function);
    cuda_expr(e, argument, PREC_ANY);
    text_add(&e->body, ")");
}

static void cuda_cast(EmitCuda *e, const char *type, const KExpr *argument) {
    text_add(&e->body, "(%s)", type);
    cuda_expr(e, argument, PREC_UNARY);
}

static void cuda_special(EmitCuda *e, KSpecial special) {
    static const char *const texts[] = {
        [SPECIAL_TID] = "(int)threadIdx.x",  [SPECIAL_LANE] = "(int)threadIdx.x % 32",
        [SPECIAL_WARP] = "warp_index()",     [SPECIAL_CTA_X] = "(int)blockIdx.x",
        [SPECIAL_CTA_Y] = "(int)blockIdx.y", [SPECIAL_CTA_Z] = "(int)blockIdx.z",
        [SPECIAL_GRID_X] = "(int)gridDim.x", [SPECIAL_CTA_RANK] = "cluster_rank()",
    };
    text_add(&e->body, "%s", texts[special]);
}

static void cuda_convert(EmitCuda *e, const KExpr *x) {
    const KExpr *from = x->args[0];
    if (x->type == K_BOOL) {
        cuda_expr(e, from, PREC_COMPARE);
        text_add(&e->body,
                 ktype_is_float(from->type) ? from->type == K_F32 ? " != 0.0f" : " != 0.0" : " != 0");
    } else if (ktype_is_float(from->type) && ktype_is_int(x->type)) {
        cuda_call(e, text_format(e->arena, "%s_to_%s", ktype_name(from->type), ktype_name(x->type)), from);
    } else {
        cuda_cast(e, cuda_type_name(x->type), from);
    }
}

/* An f64 reaches the small types through an f32 rounded to odd, so that it is rounded once. */
static void cuda_round(EmitCuda *e, const KExpr *x) {
    const KExpr *from = x->args[0];
    if (x->dtype == DTYPE_F64 || (x->dtype == DTYPE_F32 && x->type == K_F32)) {
        cuda_expr(e, from, PREC_UNARY);
    } else if (x->dtype == DTYPE_F32) {
        text_add(&e->body, "(double)");
        cuda_cast(e, "float", from);
    } else if (x->type == K_F64) {
        text_add(&e->body, "(double)round_%s(", dtype_name(x->dtype));
        cuda_call(e, "f64_to_f32_odd", from);
        text_add(&e->body, ")");
    } else {
        cuda_call(e, text_format(e->arena, "round_%s", dtype_name(x->dtype)), from);
    }
}

static void cuda_bitcast(EmitCuda *e, const KExpr *x) {
    KType from = x->args[0]->type;
    if (ktype_is_float(x->type) && ktype_is_float(from)) {
        cuda_expr(e, x->args[0], PREC_UNARY);
    } else if (ktype_is_float(x->type)) {
        cuda_call(e, x->type == K_F32 ? "f32_from_bits" : "f64_from_bits", x->args[0]);
    } else if (ktype_is_float(from)) {
        text_add(&e->body, x->type == K_I32 ? "(int)" : x->type == K_I64 ? "(i64)" : "");
        cuda_call(e, from == K_F32 ? "f32_bits" : "f64_bits", x->args[0]);
    } else {
        cuda_cast(e, cuda_type_name(x->type), x->args[0]);
    }
}

static void cuda_pack(EmitCuda *e, const KExpr *x) {
    text_add(&e->body, "pack_%s(", dtype_name(x->dtype));
    for (int i = 0; i < x->n_args; i++) {
        text_add(&e->body, i ? ", " : "");
        cuda_expr(e, x->args[i], PREC_ANY);
    }
    text_add(&e->body, ")");
}

static void cuda_address(EmitCuda *e, const KBuffer *buffer, const KExpr *index) {
    text_add(&e->body, "%s", e->buffer_names[buffer->id]);
    if (index->kind == KX_INT && index->i == 0)
        return;
    bool is_half = dtype_bits(buffer->elem) < 8;
    text_add(&e->body, " + ");
    cuda_expr(e, index, is_half ? PREC_MUL : PREC_ADD);
    text_add(&e->body, is_half ? " / 2" : "");
}

/* ---- the tree
 * ---------------------------------------------------------------------------------------------- */

static CudaPrec cuda_prec(const EmitCuda *e, const KExpr *x) {
    switch (x->kind) {
    case KX_INT:
    case KX_FLOAT: return cuda_constant_prec(x);
    case KX_SCALAR:
        if (x->op == OP_abs && (x->type == K_U32 || x->type == K_U64))
            return cuda_prec(e, x->args[0]);
        return cuda_scalar_prec(e, x);
    case KX_SPECIAL:
        return x->i == SPECIAL_LANE                               ? PREC_MUL
               : x->i == SPECIAL_WARP || x->i == SPECIAL_CTA_RANK ? PREC_POSTFIX
                                                                  : PREC_UNARY;
    case KX_CONVERT:
        if (x->type == x->args[0]->type)
            return cuda_prec(e, x->args[0]);
        return x->type == K_BOOL ? PREC_EQUAL : PREC_UNARY;
    case KX_PARAM: return x->type == K_I64 ? PREC_POSTFIX : PREC_UNARY;
    case KX_ROUND:
    case KX_BITCAST: return PREC_UNARY;
    default: return PREC_POSTFIX;
    }
}

/* The index is a tree of its own: what counts the elements of an array of data is no data. */
static void cuda_elem(EmitCuda *e, const KExpr *x) {
    bool is_data_tree = e->is_data_tree;
    text_add(&e->body, "%s[", e->var_names[x->var->id]);
    e->is_data_tree = emit_is_data(&e->facts, x->args[0]);
    cuda_expr(e, x->args[0], PREC_ANY);
    e->is_data_tree = is_data_tree;
    text_add(&e->body, "]");
}

static void cuda_expr_bare(EmitCuda *e, const KExpr *x) {
    switch (x->kind) {
    case KX_INT: cuda_int(e, x); break;
    case KX_FLOAT: cuda_float(e, x); break;
    case KX_VAR: text_add(&e->body, "%s", e->var_names[x->var->id]); break;
    case KX_ELEM: cuda_elem(e, x); break;
    case KX_PARAM: text_add(&e->body, "%s%s", x->type == K_I64 ? "" : "(int)", e->param_names[x->i]); break;
    case KX_SPECIAL: cuda_special(e, (KSpecial)x->i); break;
    case KX_SCALAR:
        if (x->op == OP_abs && (x->type == K_U32 || x->type == K_U64))
            cuda_expr_bare(e, x->args[0]);
        else
            cuda_scalar(e, x);
        break;
    case KX_MUL_HI:
        text_add(&e->body, "__umulhi(");
        cuda_expr(e, x->args[0], PREC_ANY);
        text_add(&e->body, ", ");
        cuda_expr(e, x->args[1], PREC_ANY);
        text_add(&e->body, ")");
        break;
    case KX_CONVERT:
        if (x->type == x->args[0]->type)
            cuda_expr_bare(e, x->args[0]);
        else
            cuda_convert(e, x);
        break;
    case KX_ROUND: cuda_round(e, x); break;
    case KX_BITCAST: cuda_bitcast(e, x); break;
    case KX_PACK: cuda_pack(e, x); break;
    case KX_UNPACK:
        text_add(&e->body, "unpack_%s(", dtype_name(x->dtype));
        cuda_expr(e, x->args[0], PREC_ANY);
        text_add(&e->body, ", %lld)", (long long)x->i);
        break;
    case KX_SMEM_ADDR:
    case KX_GLOBAL_ADDR:
        text_add(&e->body, x->kind == KX_SMEM_ADDR ? "smem_address(" : "global_address(");
        cuda_address(e, x->buffer, x->args[0]);
        text_add(&e->body, ")");
        break;
    case KX_TENSOR_MAP: text_add(&e->body, "tensor_map_address(&%s)", e->param_names[x->i]); break;
    }
}

void cuda_expr(EmitCuda *e, const KExpr *expr, CudaPrec place) {
    bool parentheses = cuda_prec(e, expr) < place;
    text_add(&e->body, parentheses ? "(" : "");
    cuda_expr_bare(e, expr);
    text_add(&e->body, parentheses ? ")" : "");
}

const char *cuda_expr_text(EmitCuda *e, const KExpr *expr, CudaPrec place) {
    Text outer = e->body;
    e->body = text_new(e->arena);
    e->is_data_tree = emit_is_data(&e->facts, expr);
    cuda_expr(e, expr, place);
    const char *text = e->body.at;
    e->body = outer;
    return text;
}

const char *cuda_address_text(EmitCuda *e, const KBuffer *buffer, const KExpr *index) {
    Text outer = e->body;
    e->body = text_new(e->arena);
    e->is_data_tree = emit_is_data(&e->facts, index);
    cuda_address(e, buffer, index);
    const char *text = e->body.at;
    e->body = outer;
    return text;
}
