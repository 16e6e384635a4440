/* Expressions of kernel IR as LLVM IR. LLVM's builder folds constants, so that an index is a constant once
 * its loop's variable is. */
#include "codegen/emit_llvm.h"

#include "codegen/kernel_value.h"

LLVMTypeRef llvm_type(const EmitLlvm *e, KType type) {
    switch (type) {
    case K_BOOL: return e->i1;
    case K_I32:
    case K_U32: return e->i32;
    case K_I64:
    case K_U64: return e->i64;
    case K_F32: return e->f32;
    case K_F64: return e->f64;
    }
    return e->i32;
}

LLVMValueRef llvm_int(const EmitLlvm *e, KType type, int64_t value) {
    return LLVMConstInt(llvm_type(e, type), (unsigned long long)value, 1);
}

LLVMValueRef llvm_zero(const EmitLlvm *e, KType type) {
    return LLVMConstNull(llvm_type(e, type));
}

static bool expr_is_signed(KType type) {
    return type == K_I32 || type == K_I64;
}

/* Sums and products may become fused multiply-adds, as NVRTC makes them. */
static LLVMValueRef expr_contract(LLVMValueRef value) {
    if (LLVMIsAInstruction(value) && LLVMCanValueUseFastMathFlags(value))
        LLVMSetFastMathFlags(value, LLVMFastMathAllowContract);
    return value;
}

/* ---- scalar operations that are no single instruction
 * ------------------------------------------------------ */

typedef LLVMValueRef ExprBuild(EmitLlvm *e, const KExpr *x, LLVMValueRef *args);

/* Toward zero, 0 where divided by zero, and no trap at the smallest integer over -1; indices need no such
 * care. */
static LLVMValueRef build_divide(EmitLlvm *e, const KExpr *x, LLVMValueRef *args) {
    bool is_signed = expr_is_signed(x->type), is_mod = x->op == OP_mod;
    LLVMOpcode opcode = is_mod ? is_signed ? LLVMSRem : LLVMURem : is_signed ? LLVMSDiv : LLVMUDiv;
    if (!e->is_data_tree || emit_is_safe_divisor(x->args[1]))
        return LLVMBuildBinOp(e->builder, opcode, args[0], args[1], "");
    LLVMValueRef zero = llvm_zero(e, x->type), one = llvm_int(e, x->type, 1),
                 minus_one = llvm_int(e, x->type, -1);
    LLVMValueRef is_zero = LLVMBuildICmp(e->builder, LLVMIntEQ, args[1], zero, "");
    LLVMValueRef is_special = is_zero, special = zero;
    if (is_signed) {
        LLVMValueRef is_minus_one = LLVMBuildICmp(e->builder, LLVMIntEQ, args[1], minus_one, "");
        is_special = LLVMBuildOr(e->builder, is_zero, is_minus_one, "");
        if (!is_mod)
            special = LLVMBuildSelect(e->builder, is_zero, zero, LLVMBuildNeg(e->builder, args[0], ""), "");
    }
    LLVMValueRef divisor = LLVMBuildSelect(e->builder, is_special, one, args[1], "");
    LLVMValueRef value = LLVMBuildBinOp(e->builder, opcode, args[0], divisor, "");
    return LLVMBuildSelect(e->builder, is_special, special, value, "");
}

/* a where it is beyond b or NaN, else b. */
static LLVMValueRef build_extreme_f64(EmitLlvm *e, const KExpr *x, LLVMValueRef *args) {
    LLVMRealPredicate predicate = x->op == OP_min ? LLVMRealOLT : LLVMRealOGT;
    LLVMValueRef beyond = LLVMBuildFCmp(e->builder, predicate, args[0], args[1], "");
    LLVMValueRef nan = LLVMBuildFCmp(e->builder, LLVMRealUNO, args[0], args[0], "");
    return LLVMBuildSelect(e->builder, LLVMBuildOr(e->builder, beyond, nan, ""), args[0], args[1], "");
}

static LLVMValueRef build_extreme_int(EmitLlvm *e, const KExpr *x, LLVMValueRef *args) {
    bool is_signed = expr_is_signed(x->type);
    LLVMIntPredicate less = is_signed ? LLVMIntSLT : LLVMIntULT,
                     greater = is_signed ? LLVMIntSGT : LLVMIntUGT;
    LLVMValueRef first = LLVMBuildICmp(e->builder, x->op == OP_min ? less : greater, args[0], args[1], "");
    return LLVMBuildSelect(e->builder, first, args[0], args[1], "");
}

static LLVMValueRef build_fma_int(EmitLlvm *e, const KExpr *x, LLVMValueRef *args) {
    (void)x;
    return LLVMBuildAdd(e->builder, LLVMBuildMul(e->builder, args[0], args[1], ""), args[2], "");
}

static LLVMValueRef build_negate(EmitLlvm *e, const KExpr *x, LLVMValueRef *args) {
    return ktype_is_float(x->type) ? LLVMBuildFNeg(e->builder, args[0], "")
                                   : LLVMBuildNeg(e->builder, args[0], "");
}

static LLVMValueRef build_abs_int(EmitLlvm *e, const KExpr *x, LLVMValueRef *args) {
    if (!expr_is_signed(x->type))
        return args[0];
    LLVMValueRef negative = LLVMBuildICmp(e->builder, LLVMIntSLT, args[0], llvm_zero(e, x->type), "");
    return LLVMBuildSelect(e->builder, negative, LLVMBuildNeg(e->builder, args[0], ""), args[0], "");
}

static LLVMValueRef build_sign(EmitLlvm *e, const KExpr *x, LLVMValueRef *args) {
    LLVMTypeRef type = llvm_type(e, x->type);
    LLVMValueRef zero = LLVMConstNull(type);
    LLVMValueRef above = LLVMBuildFCmp(e->builder, LLVMRealOGT, args[0], zero, "");
    LLVMValueRef below = LLVMBuildFCmp(e->builder, LLVMRealOLT, args[0], zero, "");
    LLVMValueRef rest = LLVMBuildSelect(e->builder, below, LLVMConstReal(type, -1), args[0], "");
    return LLVMBuildSelect(e->builder, above, LLVMConstReal(type, 1), rest, "");
}

static LLVMValueRef build_sign_int(EmitLlvm *e, const KExpr *x, LLVMValueRef *args) {
    LLVMValueRef zero = llvm_zero(e, x->type), one = llvm_int(e, x->type, 1);
    bool is_signed = expr_is_signed(x->type);
    LLVMValueRef above = LLVMBuildICmp(e->builder, is_signed ? LLVMIntSGT : LLVMIntUGT, args[0], zero, "");
    LLVMValueRef rest = zero;
    if (is_signed) {
        LLVMValueRef below = LLVMBuildICmp(e->builder, LLVMIntSLT, args[0], zero, "");
        rest = LLVMBuildSelect(e->builder, below, llvm_int(e, x->type, -1), zero, "");
    }
    return LLVMBuildSelect(e->builder, above, one, rest, "");
}

static LLVMValueRef build_reciprocal_f64(EmitLlvm *e, const KExpr *x, LLVMValueRef *args) {
    (void)x;
    return LLVMBuildFDiv(e->builder, LLVMConstReal(e->f64, 1), args[0], "");
}

static LLVMValueRef build_rsqrt_f64(EmitLlvm *e, const KExpr *x, LLVMValueRef *args) {
    LLVMValueRef root = llvm_intrinsic(e, "llvm.sqrt", e->f64, args, 1);
    return build_reciprocal_f64(e, x, &root);
}

static LLVMValueRef build_isnan(EmitLlvm *e, const KExpr *x, LLVMValueRef *args) {
    (void)x;
    return LLVMBuildFCmp(e->builder, LLVMRealUNO, args[0], args[0], "");
}

static LLVMValueRef build_isfinite(EmitLlvm *e, const KExpr *x, LLVMValueRef *args) {
    LLVMTypeRef type = llvm_type(e, x->args[0]->type);
    LLVMValueRef magnitude = llvm_intrinsic(e, "llvm.fabs", type, args, 1);
    return LLVMBuildFCmp(e->builder, LLVMRealOLT, magnitude, LLVMConstReal(type, __builtin_inf()), "");
}

static LLVMValueRef build_never(EmitLlvm *e, const KExpr *x, LLVMValueRef *args) {
    (void)x;
    (void)args;
    return LLVMConstInt(e->i1, 0, 0);
}

static LLVMValueRef build_always(EmitLlvm *e, const KExpr *x, LLVMValueRef *args) {
    (void)x;
    (void)args;
    return LLVMConstInt(e->i1, 1, 0);
}

static LLVMValueRef build_not(EmitLlvm *e, const KExpr *x, LLVMValueRef *args) {
    (void)x;
    return LLVMBuildNot(e->builder, args[0], "");
}

static LLVMValueRef build_select(EmitLlvm *e, const KExpr *x, LLVMValueRef *args) {
    (void)x;
    if (LLVMIsAConstantInt(args[0]))
        return LLVMConstIntGetZExtValue(args[0]) ? args[1] : args[2];
    return LLVMBuildSelect(e->builder, args[0], args[1], args[2], "");
}

/* ---- the table
 * --------------------------------------------------------------------------------------------- */

typedef enum SpellingKind {
    SPELLING_NONE,
    SPELLING_OP,
    SPELLING_CALL,
    SPELLING_ASM,
    SPELLING_MATH,
    SPELLING_COMPARE,
    SPELLING_INT_COMPARE,
    SPELLING_INT,
    SPELLING_BUILD,
} SpellingKind;

typedef struct LlvmSpelling {
    SpellingKind kind;
    int code, unsigned_code; /* opcode or predicate */
    const char *text;
    ExprBuild *build;
} LlvmSpelling;

static const LlvmSpelling llvm_spellings[][3] = {
#define NONE                                                                                                 \
    { .kind = SPELLING_NONE }
#define OP(OPCODE)                                                                                           \
    { .kind = SPELLING_OP, .code = LLVM##OPCODE }
#define CALL(NAME)                                                                                           \
    { .kind = SPELLING_CALL, .text = NAME }
#define ASM(TEXT)                                                                                            \
    { .kind = SPELLING_ASM, .text = TEXT }
#define MATH(NAME)                                                                                           \
    { .kind = SPELLING_MATH, .text = NAME }
#define CMP(PREDICATE)                                                                                       \
    { .kind = SPELLING_COMPARE, .code = LLVMReal##PREDICATE }
#define ICMP(SIGNED, UNSIGNED)                                                                               \
    { .kind = SPELLING_INT_COMPARE, .code = LLVMInt##SIGNED, .unsigned_code = LLVMInt##UNSIGNED }
#define INT(SIGNED, UNSIGNED)                                                                                \
    { .kind = SPELLING_INT, .code = LLVM##SIGNED, .unsigned_code = LLVM##UNSIGNED }
#define BUILD(FUNCTION)                                                                                      \
    { .kind = SPELLING_BUILD, .build = FUNCTION }
#define LLVM(NAME, F32, F64, INTEGER) [OP_##NAME] = {F32, F64, INTEGER},
#include "codegen/scalar_llvm.def"
#undef LLVM
#undef BUILD
#undef INT
#undef ICMP
#undef CMP
#undef MATH
#undef ASM
#undef CALL
#undef OP
#undef NONE
};
_Static_assert(sizeof llvm_spellings / sizeof *llvm_spellings == OP_SCALAR_COUNT,
               "scalar_llvm.def and scalar.def list the same operations");

/* A coordinate's sum, difference or product does not overflow. */
static LLVMValueRef expr_int_op(EmitLlvm *e, LLVMOpcode opcode, bool no_wrap, LLVMValueRef *args) {
    LLVMBuilderRef b = e->builder;
    if (no_wrap)
        switch (opcode) {
        case LLVMAdd: return LLVMBuildNSWAdd(b, args[0], args[1], "");
        case LLVMSub: return LLVMBuildNSWSub(b, args[0], args[1], "");
        case LLVMMul: return LLVMBuildNSWMul(b, args[0], args[1], "");
        default: break;
        }
    return LLVMBuildBinOp(b, opcode, args[0], args[1], "");
}

static LLVMValueRef expr_scalar(EmitLlvm *e, const KExpr *x) {
    KType type = x->args[op_info(x->op)->rule == RULE_SELECT ? 1 : 0]->type;
    const LlvmSpelling *spelling = &llvm_spellings[x->op][type == K_F32 ? 0 : type == K_F64 ? 1 : 2];
    LLVMValueRef args[OP_MAX_ARITY];
    for (int i = 0; i < x->n_args; i++)
        args[i] = llvm_expr(e, x->args[i]);
    bool is_signed = expr_is_signed(type);
    switch (spelling->kind) {
    case SPELLING_OP: {
        LLVMValueRef value = LLVMBuildBinOp(e->builder, (LLVMOpcode)spelling->code, args[0], args[1], "");
        return x->is_rounded ? value : expr_contract(value);
    }
    case SPELLING_CALL: return llvm_intrinsic(e, spelling->text, llvm_type(e, type), args, x->n_args);
    case SPELLING_ASM:
        return llvm_asm(e, spelling->text, x->n_args == 1 ? "=f,f" : "=f,f,f", e->f32, args, x->n_args,
                        LLVM_ASM_PURE);
    case SPELLING_MATH: return llvm_math(e, spelling->text, llvm_type(e, type), args, x->n_args);
    case SPELLING_COMPARE:
        return LLVMBuildFCmp(e->builder, (LLVMRealPredicate)spelling->code, args[0], args[1], "");
    case SPELLING_INT_COMPARE:
        return LLVMBuildICmp(e->builder,
                             (LLVMIntPredicate)(is_signed ? spelling->code : spelling->unsigned_code),
                             args[0], args[1], "");
    case SPELLING_INT:
        return expr_int_op(e, (LLVMOpcode)(is_signed ? spelling->code : spelling->unsigned_code),
                           is_signed && !e->is_data_tree, args);
    case SPELLING_BUILD: return spelling->build(e, x, args);
    case SPELLING_NONE: break;
    }
    llvm_fail(e, NULL, "operation '%s' has no form for %s", op_info(x->op)->name, ktype_name(type));
    return llvm_zero(e, x->type);
}

/* ---- variables and addresses
 * ------------------------------------------------------------------------------- */

LLVMValueRef llvm_slot(EmitLlvm *e, const KVar *var, LLVMValueRef index, int offset) {
    int64_t at = offset;
    if (index && LLVMIsAConstantInt(index)) {
        at += LLVMConstIntGetSExtValue(index);
    } else if (index) {
        llvm_fail(e, NULL, "an index of array '%s' is not constant after unrolling", var->name);
        return e->slots[var->id][0];
    }
    int room = var->count ? var->count : 1;
    if (at < 0 || at >= room) {
        llvm_fail(e, NULL, "element %lld of '%s' is used, which has %d", (long long)at, var->name, room);
        return e->slots[var->id][0];
    }
    return e->slots[var->id][at];
}

LLVMValueRef llvm_load_slot(EmitLlvm *e, const KVar *var, LLVMValueRef slot) {
    return LLVMBuildLoad2(e->builder, llvm_type(e, var->type), slot, "");
}

LLVMValueRef llvm_address(EmitLlvm *e, const KBuffer *buffer, LLVMValueRef index) {
    int bits = dtype_bits(buffer->elem);
    LLVMTypeRef element = bits == 64 ? e->i64 : bits == 32 ? e->i32 : bits == 16 ? e->i16 : e->i8;
    if (bits < 8)
        index = LLVMBuildAShr(e->builder, index, LLVMConstInt(LLVMTypeOf(index), 1, 0), "");
    LLVMValueRef base;
    if (buffer->space == SPACE_SHARED) {
        LLVMValueRef offset = LLVMConstInt(e->i32, (unsigned long long)buffer->offset, 0);
        base = LLVMBuildInBoundsGEP2(e->builder, e->i8, e->smem, &offset, 1, "");
    } else {
        size_t i = 0;
        while (i + 1 < e->kernel->params.n &&
               (e->kernel->params.at[i].kind != PARAM_BUFFER || e->kernel->params.at[i].buffer != buffer))
            i++;
        base = LLVMGetParam(e->function, (unsigned)i);
    }
    return LLVMBuildInBoundsGEP2(e->builder, element, base, &index, 1, "");
}

/* ---- the other kinds
 * --------------------------------------------------------------------------------------- */

static LLVMValueRef expr_range(EmitLlvm *e, LLVMValueRef call, unsigned low, unsigned high) {
    LLVMMetadataRef bounds[] = {LLVMValueAsMetadata(LLVMConstInt(e->i32, low, 0)),
                                LLVMValueAsMetadata(LLVMConstInt(e->i32, high, 0))};
    LLVMMetadataRef node = LLVMMDNodeInContext2(e->context, bounds, 2);
    LLVMSetMetadata(call, LLVMGetMDKindIDInContext(e->context, "range", 5),
                    LLVMMetadataAsValue(e->context, node));
    return call;
}

static LLVMValueRef expr_special_register(EmitLlvm *e, const char *name, unsigned low, unsigned high) {
    return expr_range(
        e, llvm_intrinsic(e, text_format(e->arena, "llvm.nvvm.read.ptx.sreg.%s", name), NULL, NULL, 0), low,
        high);
}

static LLVMValueRef expr_special(EmitLlvm *e, KSpecial special) {
    switch (special) {
    case SPECIAL_TID: return expr_special_register(e, "tid.x", 0, (unsigned)e->kernel->threads);
    case SPECIAL_LANE: {
        LLVMValueRef tid = expr_special(e, SPECIAL_TID);
        return LLVMBuildAnd(e->builder, tid, LLVMConstInt(e->i32, 31, 0), "");
    }
    case SPECIAL_WARP: {
        LLVMValueRef tid = expr_special(e, SPECIAL_TID);
        LLVMValueRef warp = LLVMBuildLShr(e->builder, tid, LLVMConstInt(e->i32, 5, 0), "");
        LLVMValueRef args[] = {LLVMConstInt(e->i32, 0xffffffff, 0), warp, LLVMConstInt(e->i32, 0, 0),
                               LLVMConstInt(e->i32, 31, 0)};
        return expr_range(e, llvm_intrinsic(e, "llvm.nvvm.shfl.sync.idx.i32", NULL, args, 4), 0, 32);
    }
    case SPECIAL_CTA_X: return expr_special_register(e, "ctaid.x", 0, 0x7fffffff);
    case SPECIAL_CTA_Y: return expr_special_register(e, "ctaid.y", 0, 0xffff);
    case SPECIAL_CTA_Z: return expr_special_register(e, "ctaid.z", 0, 0xffff);
    case SPECIAL_GRID_X: return expr_special_register(e, "nctaid.x", 1, 0x80000000);
    case SPECIAL_CTA_RANK:
        return llvm_asm(e, "mov.u32 $0, %cluster_ctarank;", "=r", e->i32, NULL, 0, LLVM_ASM_PURE);
    }
    return llvm_zero(e, K_I32);
}

/* Toward zero, saturating as cvt does; NaN gives 0, which cvt alone does not where 64 bits take part. */
static LLVMValueRef expr_float_to_int(EmitLlvm *e, KType from, KType to, LLVMValueRef value) {
    bool is_wide = to == K_I64 || to == K_U64;
    const char *name = text_format(e->arena, "llvm.nvvm.%s2%s.rz", from == K_F32 ? "f" : "d",
                                   to == K_I32   ? "i"
                                   : to == K_U32 ? "ui"
                                   : to == K_I64 ? "ll"
                                                 : "ull");
    LLVMValueRef result = llvm_intrinsic(e, name, NULL, &value, 1);
    if (!is_wide && from == K_F32)
        return result;
    LLVMValueRef is_number = LLVMBuildFCmp(e->builder, LLVMRealORD, value, value, "");
    return LLVMBuildSelect(e->builder, is_number, result, llvm_zero(e, to), "");
}

/* A predicate as 0 or 1, of which LLVM knows no more than that it is a word: it would make `2 * p + p` of it
 * the disjoint bits (p ? 2 : 0) | (p ? 1 : 0), and ptxas 13.0 of these, exclusive or another predicate, a
 * PLOP3 that forgets the other. */
static LLVMValueRef expr_bool_to_int(EmitLlvm *e, KType to, LLVMValueRef value) {
    LLVMValueRef word = llvm_asm(e, "selp.u32 $0, 1, 0, $1;", "=r,b", e->i32, &value, 1, LLVM_ASM_PURE);
    return LLVMBuildIntCast2(e->builder, word, llvm_type(e, to), false, "");
}

static LLVMValueRef expr_convert(EmitLlvm *e, KType from, KType to, LLVMValueRef value) {
    LLVMTypeRef type = llvm_type(e, to);
    bool is_signed = expr_is_signed(from);
    if (from == to)
        return value;
    if (to == K_BOOL)
        return ktype_is_float(from) ? LLVMBuildFCmp(e->builder, LLVMRealUNE, value, llvm_zero(e, from), "")
                                    : LLVMBuildICmp(e->builder, LLVMIntNE, value, llvm_zero(e, from), "");
    if (ktype_is_float(from) && ktype_is_float(to))
        return from == K_F32 ? LLVMBuildFPExt(e->builder, value, type, "")
                             : LLVMBuildFPTrunc(e->builder, value, type, "");
    if (ktype_is_float(from))
        return expr_float_to_int(e, from, to, value);
    if (ktype_is_float(to))
        return is_signed ? LLVMBuildSIToFP(e->builder, value, type, "")
                         : LLVMBuildUIToFP(e->builder, value, type, "");
    if (from == K_BOOL)
        return expr_bool_to_int(e, to, value);
    return LLVMBuildIntCast2(e->builder, value, type, is_signed, "");
}

static LLVMValueRef expr_round(EmitLlvm *e, const KExpr *x) {
    LLVMValueRef value = llvm_expr(e, x->args[0]);
    if (x->dtype == DTYPE_F64 || (x->dtype == DTYPE_F32 && x->type == K_F32))
        return value;
    bool is_wide = x->type == K_F64;
    if (is_wide && x->dtype == DTYPE_F32)
        value = LLVMBuildFPTrunc(e->builder, value, e->f32, "");
    else if (is_wide)
        value = llvm_math(e, "f64_to_f32_odd", e->f32, &value, 1);
    if (x->dtype != DTYPE_F32)
        value = llvm_unpack(e, x->dtype, llvm_pack(e, x->dtype, &value, 1), 0);
    return is_wide ? LLVMBuildFPExt(e->builder, value, e->f64, "") : value;
}

static LLVMValueRef expr_pack(EmitLlvm *e, const KExpr *x) {
    LLVMValueRef values[8];
    for (int i = 0; i < x->n_args; i++)
        values[i] = llvm_expr(e, x->args[i]);
    return llvm_pack(e, x->dtype, values, x->n_args);
}

static LLVMValueRef expr_mul_hi(EmitLlvm *e, const KExpr *x) {
    LLVMValueRef a = LLVMBuildZExt(e->builder, llvm_expr(e, x->args[0]), e->i64, "");
    LLVMValueRef b = LLVMBuildZExt(e->builder, llvm_expr(e, x->args[1]), e->i64, "");
    LLVMValueRef product = LLVMBuildMul(e->builder, a, b, "");
    return LLVMBuildTrunc(e->builder, LLVMBuildLShr(e->builder, product, LLVMConstInt(e->i64, 32, 0), ""),
                          e->i32, "");
}

/* The index is a tree of its own: what counts the elements of an array of data is no data. */
static LLVMValueRef expr_elem(EmitLlvm *e, const KExpr *x) {
    bool is_data_tree = e->is_data_tree;
    LLVMValueRef index = llvm_whole_expr(e, x->args[0]);
    e->is_data_tree = is_data_tree;
    return llvm_load_slot(e, x->var, llvm_slot(e, x->var, index, 0));
}

LLVMValueRef llvm_expr(EmitLlvm *e, const KExpr *x) {
    switch (x->kind) {
    case KX_INT: return llvm_int(e, x->type, x->i);
    case KX_FLOAT: return LLVMConstReal(llvm_type(e, x->type), x->f);
    case KX_VAR:
        if (x->var->is_let)
            return e->lets[x->var->id];
        return llvm_load_slot(e, x->var, e->slots[x->var->id][0]);
    case KX_ELEM: return expr_elem(e, x);
    case KX_PARAM: return expr_convert(e, K_I64, x->type, LLVMGetParam(e->function, (unsigned)x->i));
    case KX_SPECIAL: return expr_special(e, (KSpecial)x->i);
    case KX_SCALAR: return expr_scalar(e, x);
    case KX_MUL_HI: return expr_mul_hi(e, x);
    case KX_CONVERT: return expr_convert(e, x->args[0]->type, x->type, llvm_expr(e, x->args[0]));
    case KX_ROUND: return expr_round(e, x);
    case KX_BITCAST: return LLVMBuildBitCast(e->builder, llvm_expr(e, x->args[0]), llvm_type(e, x->type), "");
    case KX_PACK: return expr_pack(e, x);
    case KX_UNPACK: return llvm_unpack(e, x->dtype, llvm_expr(e, x->args[0]), (int)x->i);
    case KX_SMEM_ADDR:
        return LLVMBuildPtrToInt(e->builder, llvm_address(e, x->buffer, llvm_expr(e, x->args[0])), e->i32,
                                 "");
    case KX_GLOBAL_ADDR:
        return LLVMBuildPtrToInt(e->builder, llvm_address(e, x->buffer, llvm_expr(e, x->args[0])), e->i64,
                                 "");
    case KX_TENSOR_MAP:
        return LLVMBuildPtrToInt(e->builder, LLVMGetParam(e->function, (unsigned)x->i), e->i64, "");
    }
    return llvm_zero(e, x->type);
}

LLVMValueRef llvm_whole_expr(EmitLlvm *e, const KExpr *expr) {
    e->is_data_tree = emit_is_data(&e->facts, expr);
    return llvm_expr(e, expr);
}
