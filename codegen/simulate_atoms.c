/* Which function gives each row of atoms.def its meaning, and the warp's shuffles. */
#include "codegen/simulate_internal.h"

#include <float.h>
#include <math.h>

const Lanes *sim_operand(Sim *sim, SimWarp *warp, const SimOperand *operand, LaneMask mask) {
    if (!operand->is_registers)
        return sim_eval(sim, warp, &operand->expr, mask);
    sim_check_registers(sim, warp, operand->reg, operand->count, mask);
    return &warp->registers[operand->reg];
}

int64_t sim_operand_uniform(Sim *sim, SimWarp *warp, const SimOperand *operand, LaneMask mask) {
    const Lanes *value = sim_operand(sim, warp, operand, mask);
    int64_t first = value->at[__builtin_ctz(mask)].i;
    FOR_LANES(lane, mask)
    if (value->at[lane].i != first) {
        sim_fail(sim, warp, (int)lane, "lanes of a warp disagree on an operand: %lld and %lld",
                 (long long)first, (long long)value->at[lane].i);
        break;
    }
    return first;
}

static void sim_shuffle(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    if (mask != SIM_ALL_LANES) {
        sim_fail(sim, warp, -1, "all lanes of a warp shuffle together; lanes %#x do", mask);
        return;
    }
    Lanes source = *sim_operand(sim, warp, &stmt->operands[1], mask);
    const Lanes *which = sim_operand(sim, warp, &stmt->operands[2], mask);
    Lanes *to = &warp->registers[stmt->operands[0].reg];
    const KVar *var = stmt->source->operands[0].var;
    for (int lane = 0; lane < SIM_LANES; lane++) {
        int64_t from = which->at[lane].i & 31;
        if (stmt->source->atom == ATOM_shuffle_xor)
            from ^= lane;
        uint32_t bits = (uint32_t)source.at[from].i;
        to->at[lane].i = var->type == K_I32 ? (int64_t)(int32_t)bits : (int64_t)bits;
    }
    sim_set_register(sim, warp, stmt->operands[0].reg, mask);
}

static void sim_redux(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    if (mask != SIM_ALL_LANES) {
        sim_fail(sim, warp, -1, "all lanes of a warp reduce together; lanes %#x do", mask);
        return;
    }
    const Lanes *of = sim_operand(sim, warp, &stmt->operands[1], mask);
    bool is_max = stmt->source->atom == ATOM_redux_max;
    uint32_t best = (uint32_t)of->at[0].i;
    for (int lane = 1; lane < SIM_LANES; lane++) {
        uint32_t other = (uint32_t)of->at[lane].i;
        best = (other > best) == is_max ? other : best;
    }
    Lanes *to = &warp->registers[stmt->operands[0].reg];
    for (int lane = 0; lane < SIM_LANES; lane++)
        to->at[lane].i = best;
    sim_set_register(sim, warp, stmt->operands[0].reg, mask);
}

static void sim_byte_permute(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    Lanes low = *sim_operand(sim, warp, &stmt->operands[1], mask);
    Lanes high = *sim_operand(sim, warp, &stmt->operands[2], mask);
    Lanes which = *sim_operand(sim, warp, &stmt->operands[3], mask);
    Lanes *to = &warp->registers[stmt->operands[0].reg];
    FOR_LANES(lane, mask) {
        uint64_t bytes = (uint64_t)(uint32_t)high.at[lane].i << 32 | (uint32_t)low.at[lane].i;
        uint32_t word = 0;
        for (int i = 0; i < 4; i++)
            word |= (uint32_t)(bytes >> 8 * (which.at[lane].i >> 4 * i & 7) & 0xff) << 8 * i;
        to->at[lane].i = word;
    }
    sim_set_register(sim, warp, stmt->operands[0].reg, mask);
}

/* $1 & $2, then with $3. */
static void sim_and(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask, bool is_xor) {
    Lanes a = *sim_operand(sim, warp, &stmt->operands[1], mask);
    Lanes b = *sim_operand(sim, warp, &stmt->operands[2], mask);
    Lanes c = *sim_operand(sim, warp, &stmt->operands[3], mask);
    Lanes *to = &warp->registers[stmt->operands[0].reg];
    FOR_LANES(lane, mask) {
        uint32_t masked = (uint32_t)(a.at[lane].i & b.at[lane].i), other = (uint32_t)c.at[lane].i;
        to->at[lane].i = is_xor ? masked ^ other : masked | other;
    }
    sim_set_register(sim, warp, stmt->operands[0].reg, mask);
}

static void sim_and_or(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    sim_and(sim, warp, stmt, mask, false);
}

static void sim_and_xor(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    sim_and(sim, warp, stmt, mask, true);
}

/* a b + c, or a b alone, of pairs. */
static void sim_pairs(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask, bool adds) {
    DType type = (DType)stmt->source->shape[0];
    Lanes a = *sim_operand(sim, warp, &stmt->operands[1], mask);
    Lanes b = *sim_operand(sim, warp, &stmt->operands[2], mask);
    Lanes c = {0};
    if (adds)
        c = *sim_operand(sim, warp, &stmt->operands[3], mask);
    Lanes *to = &warp->registers[stmt->operands[0].reg];
    FOR_LANES(lane, mask) {
        uint32_t of_a = (uint32_t)a.at[lane].i, of_b = (uint32_t)b.at[lane].i, of_c = (uint32_t)c.at[lane].i;
        uint32_t word = 0;
        for (int i = 0; i < 2; i++) {
            double result = dtype_load(type, &of_a, i).f * dtype_load(type, &of_b, i).f;
            if (adds)
                result += dtype_load(type, &of_c, i).f;
            dtype_store(type, &word, i, (Number){.f = dtype_round(result, type)});
        }
        to->at[lane].i = word;
    }
    sim_set_register(sim, warp, stmt->operands[0].reg, mask);
}

static void sim_fma_pairs(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    sim_pairs(sim, warp, stmt, mask, true);
}

static void sim_mul_pairs(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    sim_pairs(sim, warp, stmt, mask, false);
}

static void sim_ex2(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    Lanes x = *sim_operand(sim, warp, &stmt->operands[1], mask);
    Lanes *to = &warp->registers[stmt->operands[0].reg];
    FOR_LANES(lane, mask) {
        double y = dtype_round(exp2(x.at[lane].f), DTYPE_F32);
        to->at[lane].f = y < FLT_MIN ? 0 : y; /* NaN stays */
    }
    sim_set_register(sim, warp, stmt->operands[0].reg, mask);
}

/* Has no effect that the simulator could tell: prefetches, register counts, the order of kernels. */
static void sim_nothing(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    (void)sim;
    (void)warp;
    (void)stmt;
    (void)mask;
}

static SimAtom *const atom_functions[ATOM_COUNT] = {
    [ATOM_bar_sync] = sim_barrier,
    [ATOM_bar_arrive] = sim_barrier,
    [ATOM_fence_async] = sim_fence,
    [ATOM_fence_async_global] = sim_fence,
    [ATOM_fence_mbar_init] = sim_fence,
    [ATOM_warp_sync] = sim_fence,
    [ATOM_cluster_arrive] = sim_cluster,
    [ATOM_cluster_wait] = sim_cluster,
    [ATOM_cluster_load] = sim_cluster_load,
    [ATOM_mbar_init] = sim_mbarrier_atom,
    [ATOM_mbar_arrive] = sim_mbarrier_atom,
    [ATOM_cp_async_arrive] = sim_mbarrier_atom,
    [ATOM_mbar_arrive_remote] = sim_mbarrier_atom,
    [ATOM_mbar_arrive_early] = sim_mbarrier_atom,
    [ATOM_mbar_arrive_remote_early] = sim_mbarrier_atom,
    [ATOM_mbar_expect_tx] = sim_mbarrier_atom,
    [ATOM_mbar_wait] = sim_mbarrier_atom,
    [ATOM_tma_load_2d] = sim_tma_load,
    [ATOM_tma_load_3d] = sim_tma_load,
    [ATOM_tma_load_4d] = sim_tma_load,
    [ATOM_tma_load_5d] = sim_tma_load,
    [ATOM_tma_load_2d_once] = sim_tma_load,
    [ATOM_tma_load_3d_once] = sim_tma_load,
    [ATOM_tma_load_4d_once] = sim_tma_load,
    [ATOM_tma_load_5d_once] = sim_tma_load,
    [ATOM_tma_load_windows_1] = sim_tma_load,
    [ATOM_tma_load_windows_2] = sim_tma_load,
    [ATOM_tma_load_windows_3] = sim_tma_load,
    [ATOM_tma_load_2d_multicast] = sim_tma_load,
    [ATOM_tma_load_3d_multicast] = sim_tma_load,
    [ATOM_tma_store_2d] = sim_tma_store,
    [ATOM_tma_store_3d] = sim_tma_store,
    [ATOM_tma_store_4d] = sim_tma_store,
    [ATOM_tma_add_2d] = sim_tma_add,
    [ATOM_tma_add_3d] = sim_tma_add,
    [ATOM_tma_add_4d] = sim_tma_add,
    [ATOM_bulk_commit] = sim_bulk,
    [ATOM_bulk_wait_read] = sim_bulk,
    [ATOM_bulk_wait] = sim_bulk,
    [ATOM_tensor_map_prefetch] = sim_nothing,
    [ATOM_wgmma_16bit] = sim_wgmma,
    [ATOM_wgmma_16bit_rs] = sim_wgmma,
    [ATOM_wgmma_tf32] = sim_wgmma,
    [ATOM_wgmma_tf32_rs] = sim_wgmma,
    [ATOM_wgmma_fp8] = sim_wgmma,
    [ATOM_wgmma_int8] = sim_wgmma,
    [ATOM_wgmma_fence] = sim_wgmma_order,
    [ATOM_wgmma_commit] = sim_wgmma_order,
    [ATOM_wgmma_wait] = sim_wgmma_order,
    [ATOM_settle_f32] = sim_nothing,
    [ATOM_settle_i32] = sim_nothing,
    [ATOM_settle_i64] = sim_nothing,
    [ATOM_setmaxnreg_inc] = sim_nothing,
    [ATOM_setmaxnreg_dec] = sim_nothing,
    [ATOM_cp_async_16] = sim_cp_async,
    [ATOM_cp_async] = sim_cp_async,
    [ATOM_cp_async_commit] = sim_cp_async,
    [ATOM_cp_async_wait] = sim_cp_async,
    [ATOM_ldmatrix_x4] = sim_ldmatrix,
    [ATOM_ldmatrix_x4_trans] = sim_ldmatrix,
    [ATOM_ldmatrix_x2] = sim_ldmatrix,
    [ATOM_ldmatrix_x2_trans] = sim_ldmatrix,
    [ATOM_stmatrix_x4] = sim_stmatrix,
    [ATOM_stmatrix_x4_trans] = sim_stmatrix,
    [ATOM_mma_16bit] = sim_mma,
    [ATOM_mma_tf32] = sim_mma,
    [ATOM_mma_int8] = sim_mma,
    [ATOM_mma_fp8] = sim_mma,
    [ATOM_mma_f64] = sim_mma_f64,
    [ATOM_shuffle_xor] = sim_shuffle,
    [ATOM_shuffle_index] = sim_shuffle,
    [ATOM_redux_max] = sim_redux,
    [ATOM_redux_min] = sim_redux,
    [ATOM_byte_permute] = sim_byte_permute,
    [ATOM_and_or] = sim_and_or,
    [ATOM_and_xor] = sim_and_xor,
    [ATOM_fma_pairs] = sim_fma_pairs,
    [ATOM_mul_pairs] = sim_mul_pairs,
    [ATOM_ex2_ftz] = sim_ex2,
    [ATOM_packet_send] = sim_packet,
    [ATOM_packet_peek] = sim_packet,
    [ATOM_packet_wait] = sim_packet,
    [ATOM_flag_raise] = sim_flag,
    [ATOM_flag_wait] = sim_flag,
    [ATOM_flag_add] = sim_flag,
    [ATOM_flag_reach] = sim_flag,
    [ATOM_grid_meet] = sim_grid_meet,
    [ATOM_ticket] = sim_ticket,
    [ATOM_grid_wait] = sim_nothing,
    [ATOM_grid_launch] = sim_nothing,
};

void sim_atom(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    SimAtom *function = atom_functions[stmt->source->atom];
    if (function)
        function(sim, warp, stmt, mask);
    else
        sim_fail(sim, warp, -1, "the simulator does not know atom '%s'",
                 atom_info((AtomId)stmt->source->atom)->name);
}
