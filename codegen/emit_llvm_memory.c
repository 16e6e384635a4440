/* Loads, stores, and elements packed in 32-bit words. The machine instructions are those of
 * prelude/memory.cuh and pack.cuh. */
#include "codegen/emit_llvm.h"

#include "codegen/kernel_value.h"

static LLVMValueRef memory_word(const EmitLlvm *e, uint32_t value) {
    return LLVMConstInt(e->i32, value, 0);
}

/* ---- packed words
 * ------------------------------------------------------------------------------------------ */

/* `low` and `high` in the halves of a word. */
static LLVMValueRef memory_join(EmitLlvm *e, LLVMValueRef low, LLVMValueRef high, unsigned bits) {
    return LLVMBuildOr(e->builder, low, LLVMBuildShl(e->builder, high, memory_word(e, bits), ""), "");
}

/* Two values of an 8-bit float type as 16 bits of a word. */
static LLVMValueRef memory_pack_fp8(EmitLlvm *e, DType type, LLVMValueRef *pair) {
    const char *name = dtype_name(type);
    if (e->kernel->target->sm >= 89) {
        LLVMValueRef args[] = {pair[1], pair[0]};
        const char *text = text_format(e->arena, "cvt.rn.satfinite.%sx2.f32 $0, $1, $2;", name);
        LLVMValueRef half = llvm_asm(e, text, "=h,f,f", e->i16, args, 2, LLVM_ASM_PURE);
        return LLVMBuildZExt(e->builder, half, e->i32, "");
    }
    const char *encode = text_format(e->arena, "encode_%s", name);
    LLVMValueRef low = llvm_math(e, encode, e->i32, &pair[0], 1),
                 high = llvm_math(e, encode, e->i32, &pair[1], 1);
    return memory_join(e, low, high, 8);
}

static LLVMValueRef memory_pack_half(EmitLlvm *e, DType type, LLVMValueRef *pair) {
    LLVMValueRef args[] = {pair[1], pair[0]};
    return llvm_asm(e, type == DTYPE_F16 ? "cvt.rn.f16x2.f32 $0, $1, $2;" : "cvt.rn.bf16x2.f32 $0, $1, $2;",
                    "=r,f,f", e->i32, args, 2, LLVM_ASM_PURE);
}

LLVMValueRef llvm_pack(EmitLlvm *e, DType type, LLVMValueRef *values, int n) {
    LLVMBuilderRef b = e->builder;
    int bits = dtype_bits(type), lanes = 32 / bits;
    LLVMValueRef lane[8];
    for (int i = 0; i < lanes; i++)
        lane[i] = i < n ? values[i] : llvm_zero(e, ktype_of(type));
    switch (type) {
    case DTYPE_F32: return LLVMBuildBitCast(b, lane[0], e->i32, "");
    case DTYPE_TF32: return LLVMBuildBitCast(b, llvm_math(e, "round_tf32", e->f32, lane, 1), e->i32, "");
    case DTYPE_I32: return lane[0];
    case DTYPE_F16:
    case DTYPE_BF16: return memory_pack_half(e, type, lane);
    case DTYPE_E4M3:
    case DTYPE_E5M2: {
        LLVMValueRef low = memory_pack_fp8(e, type, lane);
        return n <= 2 ? low : memory_join(e, low, memory_pack_fp8(e, type, lane + 2), 16);
    }
    default: break;
    }
    LLVMValueRef word = memory_word(e, 0);
    for (int i = 0; i < lanes && i < n; i++) {
        LLVMValueRef element = type == DTYPE_BOOL ? LLVMBuildZExt(b, lane[i], e->i32, "") : lane[i];
        element = LLVMBuildAnd(b, element, memory_word(e, (1u << bits) - 1), "");
        word = LLVMBuildOr(b, word, LLVMBuildShl(b, element, memory_word(e, (uint32_t)(i * bits)), ""), "");
    }
    return word;
}

/* The float of the f16 in the low bits of a word. */
static LLVMValueRef memory_from_f16(EmitLlvm *e, LLVMValueRef word) {
    LLVMValueRef half =
        LLVMBuildBitCast(e->builder, LLVMBuildTrunc(e->builder, word, e->i16, ""), e->f16, "");
    return LLVMBuildFPExt(e->builder, half, e->f32, "");
}

static LLVMValueRef memory_unpack_e4m3(EmitLlvm *e, LLVMValueRef word, int lane) {
    LLVMBuilderRef b = e->builder;
    if (e->kernel->target->sm < 89) {
        LLVMValueRef code = LLVMBuildLShr(b, word, memory_word(e, (uint32_t)(8 * lane)), "");
        code = LLVMBuildAnd(b, code, memory_word(e, 0xff), "");
        return llvm_math(e, "decode_e4m3", e->f32, &code, 1);
    }
    LLVMValueRef pair = LLVMBuildLShr(b, word, memory_word(e, (uint32_t)(16 * (lane / 2))), "");
    pair = LLVMBuildTrunc(b, pair, e->i16, "");
    pair = llvm_asm(e, "cvt.rn.f16x2.e4m3x2 $0, $1;", "=r,h", e->i32, &pair, 1, LLVM_ASM_PURE);
    return memory_from_f16(e, LLVMBuildLShr(b, pair, memory_word(e, lane % 2 ? 16 : 0), ""));
}

LLVMValueRef llvm_unpack(EmitLlvm *e, DType type, LLVMValueRef word, int lane) {
    LLVMBuilderRef b = e->builder;
    int bits = dtype_bits(type);
    LLVMValueRef shift = memory_word(e, (uint32_t)(bits * lane));
    switch (type) {
    case DTYPE_F32:
    case DTYPE_TF32: return LLVMBuildBitCast(b, word, e->f32, "");
    case DTYPE_I32: return word;
    case DTYPE_F16: return memory_from_f16(e, LLVMBuildLShr(b, word, shift, ""));
    case DTYPE_BF16: /* the upper half of an f32 */
        word = lane ? LLVMBuildAnd(b, word, memory_word(e, 0xffff0000u), "")
                    : LLVMBuildShl(b, word, memory_word(e, 16), "");
        return LLVMBuildBitCast(b, word, e->f32, "");
    case DTYPE_E4M3: return memory_unpack_e4m3(e, word, lane);
    case DTYPE_E5M2: /* the upper half of an f16 */
        word = LLVMBuildLShr(b, word, shift, "");
        return memory_from_f16(e, LLVMBuildShl(b, word, memory_word(e, 8), ""));
    default: break;
    }
    if (dtype_class(type) == DTYPE_SIGNED) {
        word = LLVMBuildShl(b, word, memory_word(e, (uint32_t)(32 - bits - bits * lane)), "");
        return LLVMBuildAShr(b, word, memory_word(e, (uint32_t)(32 - bits)), "");
    }
    word = LLVMBuildAnd(b, LLVMBuildLShr(b, word, shift, ""), memory_word(e, (1u << bits) - 1), "");
    return type == DTYPE_BOOL ? LLVMBuildICmp(b, LLVMIntNE, word, memory_word(e, 0), "") : word;
}

/* ---- words in memory
 * --------------------------------------------------------------------------------------- */

static int memory_bytes(const KStmt *stmt) {
    int bits = stmt->width * dtype_bits(stmt->buffer->elem);
    return bits < 8 ? 1 : bits / 8;
}

/* Qualifiers of an access that LLVM has no instruction for; NULL: an ordinary one. */
static const char *memory_qualifiers(const KStmt *stmt) {
    if (stmt->buffer->space != SPACE_GLOBAL || (stmt->cache == CACHE_DEFAULT && !stmt->buffer->late))
        return NULL;
    if (stmt->kind == KS_STORE)
        return stmt->cache == CACHE_STREAM ? ".cs" : NULL;
    if (stmt->buffer->written)
        return NULL;
    if (stmt->buffer->late)
        return "";
    return stmt->cache == CACHE_STREAM ? ".nc.L1::no_allocate" : ".nc.L1::evict_last";
}

/* What the kernel before may write is not loaded before grid_wait. */
static LlvmAsm memory_load_effect(const KStmt *stmt) {
    return stmt->buffer->late ? LLVM_ASM_ORDERED : LLVM_ASM_PURE;
}

/* "v4.u32" and the like, for so many bytes. */
static const char *memory_ptx_type(int bytes) {
    return bytes == 16 ? "v4.u32" : bytes == 8 ? "v2.u32" : bytes == 4 ? "u32" : bytes == 2 ? "u16" : "u8";
}

static LLVMTypeRef memory_type(const EmitLlvm *e, int bytes) {
    return bytes == 16  ? LLVMVectorType(e->i32, 4)
           : bytes == 8 ? LLVMVectorType(e->i32, 2)
           : bytes == 4 ? e->i32
           : bytes == 2 ? e->i16
                        : e->i8;
}

/* Whether a guarded access is one predicated instruction rather than a branch. Loads: so that those of many
 * rows are all on their way before the first value is used. Stores: LLVM moves what feeds one into its
 * branch, reads of shared memory too, which then wait for each other. Value and index are safe to have where
 * the guard does not hold: they come of registers, and indices divide by dims alone. */
static bool memory_is_predicated(const KStmt *stmt) {
    return stmt->guard && stmt->buffer->space == SPACE_GLOBAL &&
           (stmt->kind == KS_STORE || !stmt->buffer->written);
}

/* The guard as an operand of inline assembly, which takes no predicate. */
static LLVMValueRef memory_inside(EmitLlvm *e, const KStmt *stmt) {
    return LLVMBuildZExt(e->builder, llvm_whole_expr(e, stmt->guard), e->i32, "");
}

/* Zeros, and no access, where the guard does not hold. */
static void memory_load_predicated(EmitLlvm *e, const KStmt *stmt, LLVMValueRef address,
                                   LLVMValueRef words[4]) {
    int bytes = memory_bytes(stmt), n = (bytes + 3) / 4;
    const char *qualifiers = memory_qualifiers(stmt);
    LLVMValueRef args[] = {LLVMBuildPtrToInt(e->builder, address, e->i64, ""), memory_inside(e, stmt)};
    Text text = text_new(e->arena);
    text_add(&text, "{ .reg .pred inside; setp.ne.u32 inside, $%d, 0; ", n + 1);
    for (int i = 0; i < n; i++)
        text_add(&text, "mov.u32 $%d, 0; ", i);
    const char *registers = n == 4 ? "{$0, $1, $2, $3}, [$4]" : n == 2 ? "{$0, $1}, [$2]" : "$0, [$1]";
    text_add(&text, "@inside ld.global%s.%s %s; }", qualifiers ? qualifiers : ".nc", memory_ptx_type(bytes),
             registers);
    LLVMTypeRef types[] = {e->i32, e->i32, e->i32, e->i32};
    LLVMTypeRef result = n == 1 ? e->i32 : LLVMStructTypeInContext(e->context, types, (unsigned)n, 0);
    const char *constraints = n == 4 ? "=&r,=&r,=&r,=&r,l,r" : n == 2 ? "=&r,=&r,l,r" : "=&r,l,r";
    LLVMValueRef value = llvm_asm(e, text.at, constraints, result, args, 2, memory_load_effect(stmt));
    for (int i = 0; i < n; i++)
        words[i] = n == 1 ? value : LLVMBuildExtractValue(e->builder, value, (unsigned)i, "");
}

/* Elements of 64 bits are loaded whole: of one that is put together from two words LLVM takes the first for a
 * load of its own. */
static LLVMTypeRef memory_loaded_type(const EmitLlvm *e, const KStmt *stmt) {
    int bytes = memory_bytes(stmt);
    if (dtype_bits(stmt->buffer->elem) < 64)
        return memory_type(e, bytes);
    return bytes == 16 ? LLVMVectorType(e->i64, 2) : e->i64;
}

static void memory_split(EmitLlvm *e, LLVMValueRef value, int n, LLVMValueRef words[4]) {
    LLVMBuilderRef b = e->builder;
    for (int i = 0; i < n; i++) {
        LLVMValueRef element =
            n > 1 ? LLVMBuildExtractElement(b, value, LLVMConstInt(e->i32, (unsigned)i, 0), "") : value;
        words[2 * i] = LLVMBuildTrunc(b, element, e->i32, "");
        element = LLVMBuildLShr(b, element, LLVMConstInt(e->i64, 32, 0), "");
        words[2 * i + 1] = LLVMBuildTrunc(b, element, e->i32, "");
    }
}

static void memory_load_words(EmitLlvm *e, const KStmt *stmt, LLVMValueRef address, LLVMValueRef words[4]) {
    int bytes = memory_bytes(stmt), n = (bytes + 3) / 4;
    const char *qualifiers = memory_qualifiers(stmt);
    if (memory_is_predicated(stmt)) {
        memory_load_predicated(e, stmt, address, words);
        return;
    }
    if (qualifiers) {
        address = LLVMBuildPtrToInt(e->builder, address, e->i64, "");
        const char *registers = n == 4 ? "{$0, $1, $2, $3}, [$4]" : n == 2 ? "{$0, $1}, [$2]" : "$0, [$1]";
        const char *text =
            text_format(e->arena, "ld.global%s.%s %s;", qualifiers, memory_ptx_type(bytes), registers);
        LLVMTypeRef types[] = {e->i32, e->i32, e->i32, e->i32};
        LLVMTypeRef result = n == 1 ? e->i32 : LLVMStructTypeInContext(e->context, types, (unsigned)n, 0);
        LLVMValueRef value = llvm_asm(e, text,
                                      n == 4   ? "=r,=r,=r,=r,l"
                                      : n == 2 ? "=r,=r,l"
                                               : "=r,l",
                                      result, &address, 1, memory_load_effect(stmt));
        for (int i = 0; i < n; i++)
            words[i] = n == 1 ? value : LLVMBuildExtractValue(e->builder, value, (unsigned)i, "");
        return;
    }
    LLVMValueRef value = LLVMBuildLoad2(e->builder, memory_loaded_type(e, stmt), address, "");
    LLVMSetAlignment(value, (unsigned)bytes);
    if (stmt->buffer->space == SPACE_GLOBAL && !stmt->buffer->written) {
        LLVMMetadataRef node = LLVMMDNodeInContext2(e->context, NULL, 0);
        LLVMSetMetadata(value, LLVMGetMDKindIDInContext(e->context, "invariant.load", 14),
                        LLVMMetadataAsValue(e->context, node));
    }
    if (dtype_bits(stmt->buffer->elem) == 64)
        memory_split(e, value, bytes / 8, words);
    else if (bytes < 4)
        words[0] = LLVMBuildZExt(e->builder, value, e->i32, "");
    else if (bytes == 4)
        words[0] = value;
    else
        for (int i = 0; i < n; i++)
            words[i] = LLVMBuildExtractElement(e->builder, value, LLVMConstInt(e->i32, (unsigned)i, 0), "");
}

/* A store that LLVM has no instruction for: one with qualifiers, or a predicate. */
static void memory_store_assembled(EmitLlvm *e, const KStmt *stmt, LLVMValueRef address,
                                   LLVMValueRef words[4]) {
    int bytes = memory_bytes(stmt), n = (bytes + 3) / 4;
    const char *qualifiers = memory_qualifiers(stmt);
    LLVMValueRef args[6] = {LLVMBuildPtrToInt(e->builder, address, e->i64, "")};
    memcpy(args + 1, words, (size_t)n * sizeof *words);
    int operands = n + 1;
    const char *registers = n == 4 ? "{$1, $2, $3, $4}" : n == 2 ? "{$1, $2}" : "$1";
    const char *text = text_format(e->arena, "st.global%s.%s [$0], %s;", qualifiers ? qualifiers : "",
                                   memory_ptx_type(bytes), registers);
    if (stmt->guard) {
        text = text_format(e->arena, "{ .reg .pred inside; setp.ne.u32 inside, $%d, 0; @inside %s }",
                           operands, text);
        args[operands++] = memory_inside(e, stmt);
    }
    static const char WORDS[] = ",r,r,r,r,r"; /* at most four of the value, and the guard */
    const char *constraints = text_format(e->arena, "l%.*s,~{memory}", 2 * (operands - 1), WORDS);
    llvm_asm(e, text, constraints, LLVMVoidTypeInContext(e->context), args, operands, LLVM_ASM_ORDERED);
}

static void memory_store_words(EmitLlvm *e, const KStmt *stmt, LLVMValueRef address, LLVMValueRef words[4]) {
    int bytes = memory_bytes(stmt), n = (bytes + 3) / 4;
    const char *qualifiers = memory_qualifiers(stmt);
    if (qualifiers || memory_is_predicated(stmt)) {
        memory_store_assembled(e, stmt, address, words);
        return;
    }
    LLVMTypeRef type = memory_type(e, bytes);
    LLVMValueRef value = bytes < 4 ? LLVMBuildTrunc(e->builder, words[0], type, "") : words[0];
    if (n > 1) {
        value = LLVMGetUndef(type);
        for (int i = 0; i < n; i++)
            value =
                LLVMBuildInsertElement(e->builder, value, words[i], LLVMConstInt(e->i32, (unsigned)i, 0), "");
    }
    LLVMSetAlignment(LLVMBuildStore(e->builder, value, address), (unsigned)bytes);
}

/* ---- statements
 * -------------------------------------------------------------------------------------------- */

/* Opens a block in which `guard` holds; the builder stands in it. Answers the block where both ways meet. */
static LLVMBasicBlockRef memory_guard(EmitLlvm *e, const KExpr *guard) {
    LLVMBasicBlockRef inside = LLVMAppendBasicBlockInContext(e->context, e->function, "inside");
    LLVMBasicBlockRef join = LLVMAppendBasicBlockInContext(e->context, e->function, "join");
    LLVMBuildCondBr(e->builder, llvm_whole_expr(e, guard), inside, join);
    LLVMPositionBuilderAtEnd(e->builder, inside);
    return join;
}

static void memory_join_guard(EmitLlvm *e, LLVMBasicBlockRef join) {
    LLVMBuildBr(e->builder, join);
    LLVMPositionBuilderAtEnd(e->builder, join);
}

static LLVMValueRef memory_first_register(EmitLlvm *e, const KStmt *stmt) {
    return stmt->at ? llvm_whole_expr(e, stmt->at) : NULL;
}

static int memory_registers(const KStmt *stmt) {
    return stmt->raw ? (memory_bytes(stmt) + 3) / 4 : stmt->width;
}

/* Element i of the loaded words as a register. */
static LLVMValueRef memory_element(EmitLlvm *e, DType type, LLVMValueRef *words, int i) {
    int bits = dtype_bits(type);
    if (bits < 64)
        return llvm_unpack(e, type, words[i * bits / 32], i % (32 / bits));
    LLVMValueRef low = LLVMBuildZExt(e->builder, words[2 * i], e->i64, "");
    LLVMValueRef high = LLVMBuildZExt(e->builder, words[2 * i + 1], e->i64, "");
    high = LLVMBuildShl(e->builder, high, LLVMConstInt(e->i64, 32, 0), "");
    return LLVMBuildBitCast(e->builder, LLVMBuildOr(e->builder, low, high, ""), llvm_type(e, ktype_of(type)),
                            "");
}

/* The two elements of a byte: the one that an odd or even index names, in the low bits. */
static LLVMValueRef memory_nibble(EmitLlvm *e, LLVMValueRef byte, LLVMValueRef index) {
    LLVMValueRef odd = LLVMBuildAnd(e->builder, index, LLVMConstInt(LLVMTypeOf(index), 1, 0), "");
    LLVMValueRef shift =
        LLVMBuildShl(e->builder, LLVMBuildIntCast2(e->builder, odd, e->i32, 0, ""), memory_word(e, 2), "");
    return LLVMBuildLShr(e->builder, byte, shift, "");
}

void llvm_load(EmitLlvm *e, const KStmt *stmt) {
    DType type = stmt->buffer->elem;
    LLVMValueRef first = memory_first_register(e, stmt);
    int n = memory_registers(stmt);
    LLVMBasicBlockRef join = NULL;
    if (stmt->guard && !memory_is_predicated(stmt)) {
        for (int i = 0; i < n; i++)
            LLVMBuildStore(e->builder, llvm_zero(e, stmt->var->type), llvm_slot(e, stmt->var, first, i));
        join = memory_guard(e, stmt->guard);
    }
    LLVMValueRef words[4];
    LLVMValueRef index = llvm_whole_expr(e, stmt->index);
    memory_load_words(e, stmt, llvm_address(e, stmt->buffer, index), words);
    if (dtype_bits(type) < 8 && stmt->width == 1 && !stmt->raw)
        words[0] = memory_nibble(e, words[0], index);
    for (int i = 0; i < n; i++) {
        LLVMValueRef value = stmt->raw ? words[i] : memory_element(e, type, words, i);
        LLVMBuildStore(e->builder, value, llvm_slot(e, stmt->var, first, i));
    }
    if (join)
        memory_join_guard(e, join);
}

/* Register i of what is stored. A let has no slot. */
static LLVMValueRef memory_stored(EmitLlvm *e, const KStmt *stmt, LLVMValueRef first, int i) {
    if (stmt->var->is_let)
        return e->lets[stmt->var->id];
    return llvm_load_slot(e, stmt->var, llvm_slot(e, stmt->var, first, i));
}

void llvm_store(EmitLlvm *e, const KStmt *stmt) {
    DType type = stmt->buffer->elem;
    int bits = dtype_bits(type), n = memory_registers(stmt);
    LLVMValueRef first = memory_first_register(e, stmt);
    LLVMBasicBlockRef join = stmt->guard && !memory_is_predicated(stmt) ? memory_guard(e, stmt->guard) : NULL;
    LLVMValueRef values[16], words[4];
    for (int i = 0; i < n; i++)
        values[i] = memory_stored(e, stmt, first, i);
    if (stmt->raw) {
        memcpy(words, values, (size_t)n * sizeof *words);
    } else if (bits == 64) {
        for (int i = 0; i < n; i++) {
            LLVMValueRef wide = LLVMBuildBitCast(e->builder, values[i], e->i64, "");
            words[2 * i] = LLVMBuildTrunc(e->builder, wide, e->i32, "");
            wide = LLVMBuildLShr(e->builder, wide, LLVMConstInt(e->i64, 32, 0), "");
            words[2 * i + 1] = LLVMBuildTrunc(e->builder, wide, e->i32, "");
        }
    } else {
        int lanes = 32 / bits;
        for (int i = 0; i < n; i += lanes)
            words[i / lanes] = llvm_pack(e, type, values + i, n - i < lanes ? n - i : lanes);
    }
    LLVMValueRef index = llvm_whole_expr(e, stmt->index);
    memory_store_words(e, stmt, llvm_address(e, stmt->buffer, index), words);
    if (join)
        memory_join_guard(e, join);
}
