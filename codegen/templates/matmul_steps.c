/* Steps of K where memory has it in parts that no step divides: the channels of a tap, a head's elements.
 *
 *     K          | part 0: 80 elements      | part 1                   | ...
 *     steps      | 0 .. 31 | .. 63 | .. 79  | 80 .. 111 | ...                     32 of each, the last 16
 *     in a tile  | x x x x | x x x | x x 0 0 | x x x x  | ...
 *
 * TMA leaves zeros behind the end of a part, of either operand, if both have a dim for it: so each part
 * begins a step of its own, and what a step has beyond it adds nothing. (Convolutions by steps that divide
 * channels, or by mma.sync, or so, H200: 480 channels 46 us by 32, 125, 34.5; 48 channels 35 by 16, 87, 25;
 * 80 channels 39 by 16, 90, 34.) A convolution's tap has channels; the weights' memory beside it is taken in
 * the same parts. */
#include "codegen/templates/matmul_dealt.h"
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_tma.h"
#include "ir/base/checked.h"

/* The parts that an operand's memory has of K; NULL: it is in one. */
static const Dim *steps_own_unit(const MatmulOperand *operand) {
    if (matmul_has_windows(operand) && operand->major == MAJOR_K)
        return operand->windows->channels;
    return matmul_is_parted(operand) ? operand->k_part : NULL;
}

/* Whether TMA finds the end of parts of `unit` elements: it has a dim that ends there, or room for one. */
static bool steps_end_known(const MatmulPlan *plan, const MatmulOperand *operand, const Dim *unit) {
    const char *why;
    if (matmul_has_windows(operand) && operand->major == MAJOR_K) {
        for (int i = 0; i < operand->value->rank; i++) /* an end for each matrix */
            if (operand->windows->batch[i].base_axis == operand->windows->channels_axis)
                return false;
        return operand->windows->channels == unit && dim_is(operand->windows->first_channel, 0);
    }
    if (matmul_has_windows(operand) && windows_have_lines(operand->windows)) {
        const WindowsAxis *line = &operand->windows->axis[0];
        return line->places == unit && operand->windows->seen->dims[line->base_axis] == unit;
    }
    if (matmul_is_parted(operand) && operand->k_part)
        return operand->k_part == unit;
    if (dtype_bits(operand->elem) < 8 || operand->is_parted || operand->chosen || operand->windows ||
        !matmul_is_tma(plan->graph, operand, &why))
        return false;
    const Dim *stride = operand->view.strides[operand->k_axis];
    return operand->n_batch < MATMUL_TMA_BEYOND &&
           view_is_step(plan->graph, dim_mul(plan->graph->dims, stride, unit), operand->elem);
}

const Dim *matmul_find_k_unit(const MatmulPlan *plan) {
    const Dim *unit = NULL;
    for (int i = 0; i < 1 + plan->n_cores && !unit; i++)
        unit = steps_own_unit(i ? &plan->b[i - 1] : &plan->a);
    if (!unit || !dim_is_const(unit) || unit->value < 1 || plan->guest || plan->scaled ||
        plan->operand_rows.n || dim_divisor(plan->graph->dims, plan->k) % unit->value != 0)
        return NULL;
    for (int i = 0; i < 1 + plan->n_cores; i++) {
        const MatmulOperand *operand = i ? &plan->b[i - 1] : &plan->a;
        if (operand->scale || !steps_end_known(plan, operand, unit))
            return NULL;
    }
    return unit;
}

/* Whether an operand's memory is a copy that has zeros behind each part, neighbours in memory, up to `filled`
 * elements of it. */
static bool steps_has_zeros(const MatmulPlan *plan, const MatmulOperand *operand, int64_t filled) {
    const Value *base = operand->windows ? operand->windows->seen : operand->view.base;
    int axis = operand->windows ? operand->windows->channels_axis : base->rank - 1;
    double border;
    return operand->major == MAJOR_K && base->op == OP_pad && value_is_constant(base->in[1], &border) &&
           border == 0 && dim_is(base->attrs[0].dims[axis], 0) && base->in[0]->dims[axis] == plan->k_unit &&
           dim_lower(plan->graph->dims, base->dims[axis]) >= filled;
}

const Dim *matmul_unit_end(const MatmulPlan *plan, const Schedule *schedule, const MatmulOperand *operand) {
    int64_t filled = matmul_filled_unit(plan, schedule);
    return steps_has_zeros(plan, operand, filled) ? dim_const(plan->graph->dims, filled) : plan->k_unit;
}

int64_t matmul_filled_unit(const MatmulPlan *plan, const Schedule *schedule) {
    if (!plan->k_unit || plan->k_unit->value % schedule->tile_k == 0)
        return 0;
    return round_up(plan->k_unit->value, schedule->tile_k);
}

const Dim *matmul_k_steps(const MatmulPlan *plan, const Schedule *schedule) {
    DimTable *dims = plan->graph->dims;
    int64_t filled = matmul_filled_unit(plan, schedule);
    MatmulDealt dealt;
    bool is_dealt = schedule->path == MATMUL_WGMMA && matmul_dealt(plan->graph, &plan->a, &dealt);
    const Dim *end = is_dealt ? dim_add(dims, plan->k, dim_const(dims, matmul_dealt_most(&dealt))) : plan->k;
    if (!filled)
        return dim_ceil_div(dims, end, dim_const(dims, schedule->tile_k));
    return dim_mul(dims, dim_div(dims, plan->k, plan->k_unit), dim_const(dims, filled / schedule->tile_k));
}
