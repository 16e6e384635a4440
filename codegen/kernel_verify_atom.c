/* Rules for atoms: see the head of kernel_verify.c, rules 11 to 14. */
#include "codegen/kernel_verify.h"

#include "codegen/atom.h"

static bool atom_type_is(int type, DType a, DType b) {
    return type == (int)a || type == (int)b;
}

/* 9.7.15.5.2: n is a multiple of 8 up to 256; for integers, above 32, of 16 (and 24 is allowed). */
static bool atom_wgmma_n_is_valid(AtomId atom, int n) {
    if (n < 8 || n > 256 || n % 8 != 0)
        return false;
    return atom != ATOM_wgmma_int8 || n <= 32 || n % 16 == 0;
}

/* The static parameters of a row; NULL where they are right. */
static const char *atom_shape_fault(AtomId atom, const int shape[4]) {
    switch (atom) {
    case ATOM_wgmma_16bit:
        if (!atom_type_is(shape[1], DTYPE_F16, DTYPE_BF16))
            return "the element type is neither f16 nor bf16";
        if ((shape[2] | shape[3]) & ~1)
            return "a transposition is 0 or 1";
        return atom_wgmma_n_is_valid(atom, shape[0]) ? NULL : "n is not a multiple of 8 from 8 to 256";
    case ATOM_wgmma_16bit_rs:
        if (!atom_type_is(shape[1], DTYPE_F16, DTYPE_BF16))
            return "the element type is neither f16 nor bf16";
        if (shape[2] & ~1)
            return "a transposition is 0 or 1";
        return atom_wgmma_n_is_valid(atom, shape[0]) ? NULL : "n is not a multiple of 8 from 8 to 256";
    case ATOM_wgmma_tf32:
    case ATOM_wgmma_tf32_rs:
        return atom_wgmma_n_is_valid(atom, shape[0]) ? NULL : "n is not a multiple of 8 from 8 to 256";
    case ATOM_wgmma_fp8:
        if (!atom_type_is(shape[1], DTYPE_E4M3, DTYPE_E5M2) ||
            !atom_type_is(shape[2], DTYPE_E4M3, DTYPE_E5M2))
            return "an element type is neither e4m3 nor e5m2";
        return atom_wgmma_n_is_valid(atom, shape[0]) ? NULL : "n is not a multiple of 8 from 8 to 256";
    case ATOM_wgmma_int8:
        if (!atom_type_is(shape[1], DTYPE_I8, DTYPE_U8) || !atom_type_is(shape[2], DTYPE_I8, DTYPE_U8))
            return "an element type is neither i8 nor u8";
        return atom_wgmma_n_is_valid(atom, shape[0]) ? NULL
                                                     : "n is not 8, 16, 24, 32 or a multiple of 16 to 256";
    case ATOM_fma_pairs:
    case ATOM_mul_pairs:
    case ATOM_mma_16bit:
        return atom_type_is(shape[0], DTYPE_F16, DTYPE_BF16) ? NULL
                                                             : "the element type is neither f16 nor bf16";
    case ATOM_mma_int8:
        return atom_type_is(shape[0], DTYPE_I8, DTYPE_U8) && atom_type_is(shape[1], DTYPE_I8, DTYPE_U8)
                   ? NULL
                   : "an element type is neither i8 nor u8";
    case ATOM_mma_fp8:
        return atom_type_is(shape[0], DTYPE_E4M3, DTYPE_E5M2) &&
                       atom_type_is(shape[1], DTYPE_E4M3, DTYPE_E5M2)
                   ? NULL
                   : "an element type is neither e4m3 nor e5m2";
    case ATOM_cp_async:
        return shape[0] == 4 || shape[0] == 8 || shape[0] == 16 ? NULL : "the size is not 4, 8 or 16 bytes";
    case ATOM_setmaxnreg_inc:
    case ATOM_setmaxnreg_dec:
        return shape[0] >= 24 && shape[0] <= 256 && shape[0] % 8 == 0
                   ? NULL
                   : "the registers are not a multiple of 8 from 24 to 256";
    case ATOM_settle_f32:
    case ATOM_settle_i32: return shape[0] >= 1 && shape[0] <= 128 ? NULL : "the registers are not 1 to 128";
    case ATOM_wgmma_wait:
        return shape[0] >= 0 && shape[0] <= 7 ? NULL : "the number of groups to leave is not from 0 to 7";
    case ATOM_cp_async_wait:
    case ATOM_bulk_wait:
    case ATOM_bulk_wait_read: return shape[0] >= 0 ? NULL : "the number of groups to leave is negative";
    default: return NULL;
    }
}

/* What the target must have besides a capability. */
static const char *atom_target_fault(AtomId atom, const Target *target) {
    switch (atom) {
    case ATOM_wgmma_16bit:
    case ATOM_wgmma_16bit_rs:
    case ATOM_wgmma_tf32:
    case ATOM_wgmma_tf32_rs:
    case ATOM_wgmma_fp8:
    case ATOM_wgmma_int8:
    case ATOM_wgmma_fence:
    case ATOM_wgmma_commit:
    case ATOM_wgmma_wait: return target->has_wgmma ? NULL : "the target has no wgmma";
    case ATOM_cluster_arrive:
    case ATOM_cluster_wait:
    case ATOM_cluster_load:
    case ATOM_mbar_arrive_remote:
    case ATOM_mbar_arrive_remote_early: return target->has_cluster ? NULL : "the target has no clusters";
    case ATOM_tma_load_2d:
    case ATOM_tma_load_3d:
    case ATOM_tma_load_4d:
    case ATOM_tma_load_5d:
    case ATOM_tma_load_2d_once:
    case ATOM_tma_load_3d_once:
    case ATOM_tma_load_4d_once:
    case ATOM_tma_load_5d_once:
    case ATOM_tma_load_windows_1:
    case ATOM_tma_load_windows_2:
    case ATOM_tma_load_windows_3:
    case ATOM_tma_load_2d_multicast:
    case ATOM_tma_load_3d_multicast:
    case ATOM_tma_store_2d:
    case ATOM_tma_store_3d:
    case ATOM_tma_store_4d:
    case ATOM_tma_add_2d:
    case ATOM_tma_add_3d:
    case ATOM_tma_add_4d: return target->has_tma ? NULL : "the target has no TMA";
    default: return NULL;
    }
}

static bool atom_constraint_takes(char constraint, KType type) {
    switch (constraint) {
    case 'r': return type == K_I32 || type == K_U32;
    case 'l': return type == K_I64 || type == K_U64;
    case 'f': return type == K_F32;
    case 'd': return type == K_F64;
    case 'n': return type == K_I32 || type == K_U32;
    default: return false;
    }
}

static const char *atom_operand_fault(Arena *arena, const KOperand *operand, const AtomOperand *wanted,
                                      int i) {
    if (wanted->constraint == 'n')
        return operand->expr && operand->expr->kind == KX_INT &&
                       atom_constraint_takes('n', operand->expr->type)
                   ? NULL
                   : text_format(arena, "operand %d is not an integer constant", i);
    if (!operand->var) {
        if (wanted->is_out || wanted->count != 1)
            return text_format(arena, "operand %d is an expression, not %d registers", i, wanted->count);
        if (!operand->expr)
            return text_format(arena, "operand %d is missing", i);
        if (!atom_constraint_takes(wanted->constraint, operand->expr->type))
            return text_format(arena, "operand %d has type %s where the row says \"%c\"", i,
                               ktype_name(operand->expr->type), wanted->constraint);
        return NULL;
    }
    const KVar *var = operand->var;
    int room = var->count ? var->count : 1;
    if (operand->count != wanted->count)
        return text_format(arena, "operand %d has %d registers where the row says %d", i, operand->count,
                           wanted->count);
    if (operand->at < 0 || operand->at > room - operand->count)
        return text_format(arena, "operand %d lies outside '%s'", i, var->name);
    if (!atom_constraint_takes(wanted->constraint, var->type))
        return text_format(arena, "operand %d has type %s where the row says \"%c\"", i,
                           ktype_name(var->type), wanted->constraint);
    if (wanted->is_out && var->is_let)
        return text_format(arena, "operand %d writes '%s', which is set once", i, var->name);
    return NULL;
}

static const char *atom_barrier_fault(const Kernel *kernel, const KStmt *stmt) {
    int64_t id = stmt->operands[0].expr->i, threads = stmt->operands[1].expr->i;
    if (id < 0 || id > 15)
        return "barriers are numbered 0 to 15";
    if (threads < 32 || threads % 32 != 0 || threads > kernel->threads)
        return "a barrier's threads are a multiple of 32, at most the block's";
    return NULL;
}

const char *verify_atom_fault(Arena *arena, const Kernel *kernel, const KStmt *stmt) {
    if (stmt->atom < 0 || stmt->atom >= ATOM_COUNT)
        return "there is no such atom";
    AtomId atom = (AtomId)stmt->atom;
    const AtomInfo *info = atom_info(atom);
    if (info->sm > kernel->target->sm)
        return text_format(arena, "it needs sm_%d; the target is %s", info->sm, kernel->target->name);
    const char *fault = atom_target_fault(atom, kernel->target);
    if (!fault)
        fault = atom_shape_fault(atom, stmt->shape);
    if (fault)
        return fault;
    AtomOperand wanted[ATOM_MAX_OPERANDS];
    int n = atom_operands(atom, stmt->shape, wanted);
    if (n != stmt->n_operands)
        return text_format(arena, "it has %d operands where the row says %d", stmt->n_operands, n);
    for (int i = 0; i < n && !fault; i++)
        fault = atom_operand_fault(arena, &stmt->operands[i], &wanted[i], i);
    if (!fault && atom == ATOM_grid_meet && kernel->gang == 1)
        fault = "the grid's barrier is there where blocks wait for each other, in a gang";
    if (!fault && (atom == ATOM_bar_sync || atom == ATOM_bar_arrive))
        fault = atom_barrier_fault(kernel, stmt);
    return fault;
}
