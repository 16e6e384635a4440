/* Evaluation of expressions, 32 lanes at a time. Lanes outside the mask may hold anything, so fast operations
 * do not look at it. */
#include "codegen/kernel_value.h"
#include "codegen/simulate_internal.h"

#include <math.h>

void sim_check_registers(Sim *sim, SimWarp *warp, int reg, int count, LaneMask mask) {
    for (int i = reg; i < reg + count; i++) {
        LaneMask unset = mask & ~warp->set[i];
        if (unset)
            sim_fail(sim, warp, __builtin_ctz(unset), "a register is read that nobody set (element %d)",
                     i - reg);
        if (warp->in_flight[i])
            sim_fail(sim, warp, -1, "a register of a matrix product is read before its wgmma is waited for");
        warp->touched_at[i] = warp->matrix_fences;
    }
}

void sim_set_register(Sim *sim, SimWarp *warp, int reg, LaneMask mask) {
    if (warp->in_flight[reg])
        sim_fail(sim, warp, -1, "a register of a matrix product is written before its wgmma is waited for");
    warp->set[reg] |= mask;
    warp->touched_at[reg] = warp->matrix_fences;
}

static inline const Lanes *expr_ref(const SimWarp *warp, SimRef ref) {
    return ref.fixed ? ref.fixed : &warp->registers[ref.reg];
}

/* var[index]: the index is the same in all lanes, but that is not relied upon. */
static void expr_elem(Sim *sim, SimWarp *warp, const SimOp *op, const Lanes *index, LaneMask mask) {
    FOR_LANES(lane, mask) {
        int64_t i = index->at[lane].i;
        if (i < 0 || i >= op->count) {
            sim_fail(sim, warp, (int)lane, "element %lld of register array '%s', which has %d", (long long)i,
                     op->expr->var->name, op->count);
            return;
        }
        sim_check_registers(sim, warp, op->reg + (int)i, 1, 1u << lane);
        op->dst->at[lane] = warp->registers[op->reg + i].at[lane];
    }
}

static void expr_pack(const SimOp *op, const Lanes *const *args, LaneMask mask) {
    const KExpr *x = op->expr;
    FOR_LANES(lane, mask) {
        uint32_t word = 0;
        for (int i = 0; i < x->n_args; i++)
            dtype_store(x->dtype, &word, i, kvalue_to_element(args[i]->at[lane], op->type, x->dtype));
        op->dst->at[lane].i = word;
    }
}

static void expr_unpack(const SimOp *op, const Lanes *word, LaneMask mask) {
    const KExpr *x = op->expr;
    FOR_LANES(lane, mask) {
        uint32_t bits = (uint32_t)word->at[lane].i;
        op->dst->at[lane] = kvalue_from_element(dtype_load(x->dtype, &bits, x->i), x->dtype, x->type);
    }
}

static void expr_address(Sim *sim, const SimWarp *warp, const SimOp *op, const Lanes *index, LaneMask mask) {
    const KBuffer *buffer = op->expr->buffer;
    int bits = dtype_bits(buffer->elem);
    FOR_LANES(lane, mask) {
        int64_t i = index->at[lane].i;
        op->dst->at[lane].i =
            buffer->space == SPACE_SHARED
                ? (int64_t)(uint32_t)(sim_shared_base(sim, warp->cta) + buffer->offset + i * bits / 8)
                : sim_global_address(buffer, i);
    }
}

#define EVERY_LANE(FIELD, VALUE)                                                                             \
    for (int lane = 0; lane < SIM_LANES; lane++)                                                             \
        op->dst->at[lane].FIELD = (VALUE);                                                                   \
    return
/* Where what other lanes hold may have no result. */
#define ACTIVE_LANES(FIELD, VALUE)                                                                           \
    FOR_LANES(lane, mask)                                                                                    \
    op->dst->at[lane].FIELD = (VALUE);                                                                       \
    return
#define A(FIELD) args[0]->at[lane].FIELD
#define B(FIELD) args[1]->at[lane].FIELD
#define C(FIELD) args[2]->at[lane].FIELD
/* What is divided as 32 unsigned bits are, as coordinates may be; the rest by the table of operations. */
#define ARE_PLAIN (A(i) >= 0 && B(i) > 0)
#define SCALAR kvalue_scalar(x->op, op->type, args[0]->at[lane], args[1]->at[lane], nothing.at[lane])

static void expr_op(Sim *sim, SimWarp *warp, const SimOp *op, LaneMask mask) {
    const Lanes *args[8] = {0};
    static const Lanes nothing;
    const KExpr *x = op->expr;
    for (int i = 0; i < x->n_args; i++)
        args[i] = expr_ref(warp, op->args[i]);
    switch (op->code) {
    case SIM_CHECK: sim_check_registers(sim, warp, op->reg, op->count, mask); return;
    case SIM_ELEM: expr_elem(sim, warp, op, args[0], mask); return;
    case SIM_I32_ADD: EVERY_LANE(i, (int32_t)((uint32_t)A(i) + (uint32_t)B(i)));
    case SIM_I32_SUB: EVERY_LANE(i, (int32_t)((uint32_t)A(i) - (uint32_t)B(i)));
    case SIM_I32_MUL: EVERY_LANE(i, (int32_t)((uint32_t)A(i) * (uint32_t)B(i)));
    case SIM_I32_DIV: ACTIVE_LANES(i, ARE_PLAIN ? (uint32_t)A(i) / (uint32_t)B(i) : SCALAR.i);
    case SIM_I32_MOD: ACTIVE_LANES(i, ARE_PLAIN ? (uint32_t)A(i) % (uint32_t)B(i) : SCALAR.i);
    case SIM_I32_LT: EVERY_LANE(i, A(i) < B(i));
    case SIM_I32_GE: EVERY_LANE(i, A(i) >= B(i));
    case SIM_BOOL_AND: EVERY_LANE(i, A(i) & B(i));
    case SIM_F32_ADD: EVERY_LANE(f, (float)A(f) + (float)B(f));
    case SIM_F32_SUB: EVERY_LANE(f, (float)A(f) - (float)B(f));
    case SIM_F32_MUL: EVERY_LANE(f, (float)A(f) * (float)B(f));
    case SIM_F32_FMA: EVERY_LANE(f, fmaf((float)A(f), (float)B(f), (float)C(f)));
    case SIM_SELECT: EVERY_LANE(i, A(i) ? B(i) : C(i)); /* the union's bits, whichever member counts */
    case SIM_MUL_HI: EVERY_LANE(i, (int64_t)((uint64_t)(uint32_t)A(i) * (uint32_t)B(i) >> 32));
    case SIM_SCALAR:
        for (int i = x->n_args; i < 3; i++)
            args[i] = &nothing;
        FOR_LANES(lane, mask)
        op->dst->at[lane] =
            kvalue_scalar(x->op, op->type, args[0]->at[lane], args[1]->at[lane], args[2]->at[lane]);
        return;
    case SIM_CONVERT:
        FOR_LANES(lane, mask)
        op->dst->at[lane] = kvalue_convert(args[0]->at[lane], op->type, x->type);
        return;
    case SIM_ROUND: ACTIVE_LANES(f, dtype_round(A(f), x->dtype));
    case SIM_BITCAST:
        FOR_LANES(lane, mask)
        op->dst->at[lane] = kvalue_from_bits(kvalue_bits(args[0]->at[lane], op->type), x->type);
        return;
    case SIM_PACK: expr_pack(op, args, mask); return;
    case SIM_UNPACK: expr_unpack(op, args[0], mask); return;
    case SIM_ADDRESS: expr_address(sim, warp, op, args[0], mask); return;
    }
}

const Lanes *sim_eval(Sim *sim, SimWarp *warp, const SimExpr *expr, LaneMask mask) {
    for (int i = 0; i < expr->n; i++)
        expr_op(sim, warp, &expr->ops[i], mask);
    return expr_ref(warp, expr->result);
}

int64_t sim_eval_uniform(Sim *sim, SimWarp *warp, const SimExpr *expr, LaneMask mask) {
    const Lanes *value = sim_eval(sim, warp, expr, mask);
    int64_t first = value->at[__builtin_ctz(mask)].i;
    FOR_LANES(lane, mask)
    if (value->at[lane].i != first) {
        sim_fail(sim, warp, (int)lane, "lanes of a warp disagree: %lld and %lld", (long long)first,
                 (long long)value->at[lane].i);
        break;
    }
    return first;
}
