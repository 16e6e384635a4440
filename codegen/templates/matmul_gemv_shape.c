/* How products with few rows are divided among threads, for each schedule: what neighbours in memory allow,
 * what it takes of an SM, what the path accepts. */
#include "codegen/templates/matmul_gemv.h"

#include <math.h>

#include "codegen/lower.h"
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_partials.h"
#include "codegen/templates/matmul_paths.h"
#include "ir/base/checked.h"
#include "ir/value_map.h"

const MatmulOperand *gemv_weights(const MatmulPlan *plan, const Schedule *schedule, int i) {
    return schedule->swap_ab ? &plan->a : &plan->b[i];
}

int gemv_n_weights(const MatmulPlan *plan, const Schedule *schedule) {
    return schedule->swap_ab ? 1 : plan->n_cores;
}

const MatmulOperand *gemv_few(const MatmulPlan *plan, const Schedule *schedule, int i) {
    return schedule->swap_ab ? &plan->b[i] : &plan->a;
}

int gemv_n_few(const MatmulPlan *plan, const Schedule *schedule) {
    return schedule->swap_ab ? plan->n_cores : 1;
}

static int gemv_power_of_two(int width) {
    while (width & (width - 1))
        width &= width - 1;
    return width < 1 ? 1 : width > GEMV_WIDTH_MAX ? GEMV_WIDTH_MAX : width;
}

static int gemv_width(const MatmulPlan *plan, const MatmulOperand *operand, int axis) {
    Region *space = matmul_operand_space(plan->graph->arena, plan->region, operand->value);
    return gemv_power_of_two(lower_vector_width(plan->graph, space, axis));
}

static int gemv_axis_of(const MatmulPlan *plan, Value *value, int k, int n);

/* Whether a value is a reshape, and not of windows, which repeat what they are of. */
static bool gemv_is_in_order(const Value *value) {
    bool is_reshape = value->op == OP_reshape;
    while (value->op == OP_reshape || value->op == OP_transpose || value->op == OP_slice)
        value = value->in[0];
    return is_reshape && value->op != OP_window;
}

/* The same of a pointwise operation: of its operand that varies along both axes. Where several have their
 * dims, a factor that is repeated along one of them, or for each block of them, says nothing about memory. */
static int gemv_axis_of_pointwise(const MatmulPlan *plan, const Value *value, int k, int n) {
    for (int i = 0; i < value->n_in; i++) {
        Value *in = value->in[i];
        int shift = value->rank - in->rank;
        if (k < shift || n < shift || in->dims[k - shift] != value->dims[k] ||
            in->dims[n - shift] != value->dims[n])
            continue;
        View view = view_of(plan->graph, in, region_is_memory, (void *)(uintptr_t)plan->region);
        bool repeats = region_reads(plan->region, view.base) &&
                       (dim_is(view.strides[k - shift], 0) || dim_is(view.strides[n - shift], 0));
        int which = repeats ? -1 : gemv_axis_of(plan, in, k - shift, n - shift);
        if (which >= 0)
            return which;
    }
    return -1;
}

/* Which of two axes of a value neighbours in memory lie along: those of the input itself, or of the operand
 * that has both axes, where it is computed. -1: neither. */
static int gemv_axis_of(const MatmulPlan *plan, Value *value, int k, int n) {
    for (;;) {
        View view = view_of(plan->graph, value, region_is_memory, (void *)(uintptr_t)plan->region);
        if (region_reads(plan->region, view.base))
            return dim_is(view.strides[k], 1) ? 0 : dim_is(view.strides[n], 1) ? 1 : -1;
        if (value->op == OP_transpose) {
            k = (int)value->attrs[0].ints[k];
            n = (int)value->attrs[0].ints[n];
        } else if (value->op == OP_gather) { /* of slices that have both axes, or by indices that have them */
            int first = (int)value->attrs[0].i, behind = first + value->in[1]->rank;
            bool k_is_chosen = k >= first && k < behind, n_is_chosen = n >= first && n < behind;
            if (k_is_chosen && n_is_chosen)
                return gemv_axis_of(plan, value->in[1], k - first, n - first);
            if (k_is_chosen || n_is_chosen)
                return -1;
            k -= k < first ? 0 : value->in[1]->rank - 1;
            n -= n < first ? 0 : value->in[1]->rank - 1;
        } else if (op_info(value->op)->class_ == OPCLASS_POINTWISE) {
            return gemv_axis_of_pointwise(plan, value, k, n);
        } else { /* of bits taken out of words: as they would lie in order */
            int last = gemv_is_in_order(value) ? value->rank - 1 : -1;
            return k == last ? 0 : n == last ? 1 : -1;
        }
        value = value->in[0];
    }
}

/* The axis along which the weights, or what they are computed from, lie in memory; -1: neither K nor N. */
static int gemv_axis(const MatmulPlan *plan, const MatmulOperand *operand) {
    Value *value = (Value *)(uintptr_t)operand->value;
    int which = gemv_axis_of(plan, value, operand->k_axis, operand->mn_axis);
    return which < 0 ? -1 : which == 0 ? operand->k_axis : operand->mn_axis;
}

/* Adds the bits that are read to compute a value, of each input no more than `most` elements. */
static void gemv_count_bits(const MatmulPlan *plan, const Value *value, double most, ValueMap *seen,
                            double *bits) {
    if (value_map_get(seen, value))
        return;
    value_map_set(seen, value, 1);
    if (region_reads(plan->region, value)) {
        *bits += fmin(most, matmul_elements(plan, value)) * dtype_bits(value->dtype);
        return;
    }
    for (int i = 0; i < value->n_in; i++)
        gemv_count_bits(plan, value->in[i], most, seen, bits);
}

static int gemv_bits(const MatmulPlan *plan, const MatmulOperand *operand) {
    if (operand->is_memory)
        return dtype_bits(operand->narrow);
    ValueMap seen = {.arena = plan->graph->arena};
    double bits = 0, elements = matmul_elements(plan, operand->value);
    gemv_count_bits(plan, operand->value, elements, &seen, &bits);
    return (int)fmax(1, round(bits / fmax(1, elements)));
}

const MatmulRuns *gemv_runs(const MatmulPlan *plan, const MatmulOperand *operand) {
    MatmulRuns *runs = operand->runs;
    if (!runs->is_known) {
        runs->is_known = true;
        runs->axis = gemv_axis(plan, operand);
        runs->width_k = gemv_width(plan, operand, operand->k_axis);
        runs->width_mn = gemv_width(plan, operand, operand->mn_axis);
        runs->bits = gemv_bits(plan, operand);
    }
    return runs;
}

/* False where the schedule does not divide evenly; unroll and x_width follow from tile_k. */
static bool gemv_shape_lanes(const MatmulPlan *plan, const Schedule *schedule, GemvShape *shape) {
    const MatmulOperand *first = gemv_weights(plan, schedule, 0);
    int axis = gemv_runs(plan, first)->axis;
    *shape = (GemvShape){.along_k = axis == first->k_axis,
                         .width = schedule->vector ? schedule->vector : GEMV_WIDTH_MAX};
    for (int i = 0; i < gemv_n_weights(plan, schedule); i++) {
        const MatmulOperand *w = gemv_weights(plan, schedule, i);
        const MatmulRuns *runs = gemv_runs(plan, w);
        if (axis < 0 || runs->axis != (shape->along_k ? w->k_axis : w->mn_axis))
            return false;
        int width = shape->along_k ? runs->width_k : runs->width_mn;
        shape->width = width < shape->width ? width : shape->width;
    }
    int columns = schedule->tile_n / schedule->warps_n; /* of a warp */
    if (shape->along_k) {
        shape->cols = columns;
        shape->lanes_n = 1;
    } else {
        shape->cols = shape->width;
        shape->lanes_n = columns / shape->width;
    }
    if (!is_power_of_two(shape->cols) || !is_power_of_two(shape->lanes_n) || shape->lanes_n > GEMV_LANES)
        return false;
    shape->lanes_k = GEMV_LANES / shape->lanes_n;
    return true;
}

int matmul_gemv_step(const MatmulPlan *plan, const Schedule *schedule) {
    GemvShape shape;
    if (!gemv_shape_lanes(plan, schedule, &shape))
        return 0;
    return shape.lanes_k * schedule->warps_m * (shape.along_k ? shape.width : 1);
}

int gemv_run_k(const GemvShape *s) {
    return s->along_k ? s->width : s->unroll;
}

static int gemv_least(int a, int b) {
    return a < b ? a : b;
}

/* How the few rows are loaded. */
static void gemv_shape_few(const MatmulPlan *plan, const Schedule *schedule, GemvShape *shape) {
    int along_k = gemv_run_k(shape), along_mn = schedule->tile_m;
    bool is_across = true; /* neighbours in memory are rows, not places along K */
    for (int i = 0; i < gemv_n_few(plan, schedule); i++) {
        const MatmulOperand *few = gemv_few(plan, schedule, i);
        const MatmulRuns *runs = gemv_runs(plan, few);
        is_across &= runs->axis == few->mn_axis;
        along_k = gemv_least(along_k, runs->width_k);
        along_mn = gemv_least(along_mn, runs->width_mn);
    }
    shape->x_along_k = !is_across || along_mn == 1;
    shape->x_width = shape->x_along_k ? along_k : along_mn;
}

bool gemv_shape(const MatmulPlan *plan, const Schedule *schedule, GemvShape *shape) {
    if (!gemv_shape_lanes(plan, schedule, shape))
        return false;
    int step = shape->lanes_k * schedule->warps_m * (shape->along_k ? shape->width : 1);
    shape->unroll = schedule->tile_k / step;
    gemv_shape_few(plan, schedule, shape);
    return shape->unroll * step == schedule->tile_k && is_power_of_two(shape->unroll) &&
           shape->unroll <= GEMV_UNROLL_MAX;
}

/* Lines of the few rows that a warp asks for with one load. */
static double gemv_lines(const MatmulPlan *plan, const Schedule *schedule, const GemvShape *s, int64_t few) {
    enum { LINE = 128, RUN_MOST = 8 };
    const MatmulOperand *x = gemv_few(plan, schedule, 0);
    int lanes = s->along_k ? GEMV_LANES : s->lanes_k, run = gemv_run_k(s);
    double bytes = dtype_bits(x->elem) / 8.0;
    if (x->major == MAJOR_MN) /* from one k to the next lie all rows */
        return fmin(lanes, ceil(lanes * run * (double)few * bytes / LINE));
    return ceil(lanes * gemv_least(run, RUN_MOST) * bytes / LINE);
}

MatmulStream matmul_gemv_stream(const MatmulPlan *plan, const Schedule *schedule, int64_t few) {
    GemvShape s;
    if (!gemv_shape(plan, schedule, &s))
        return (MatmulStream){.line = 1, .columns = 1};
    int line = s.width * (s.along_k ? GEMV_LANES : s.lanes_n) *
               dtype_bits(gemv_weights(plan, schedule, 0)->narrow) / 8;
    bool is_apart = gemv_few(plan, schedule, 0)->major == MAJOR_MN;
    double loads = (double)schedule->tile_m / (s.cols * (is_apart && s.x_along_k ? 1 : s.x_width));
    return (MatmulStream){.along_k = s.along_k,
                          .is_apart = is_apart,
                          .line = line < 1 ? 1 : line,
                          .columns = s.cols,
                          .asked = loads * gemv_lines(plan, schedule, &s, few)};
}

int matmul_gemv_registers(const MatmulPlan *plan, const Schedule *schedule) {
    enum { ADDRESSES = 20 };
    GemvShape shape;
    if (!gemv_shape(plan, schedule, &shape))
        return 255;
    int words = shape.width * dtype_bits(gemv_weights(plan, schedule, 0)->narrow) / 32,
        wide = dtype_bits(plan->core[0]->dtype) / 32;
    int runs = shape.unroll * (shape.along_k ? shape.cols : 1) * gemv_n_weights(plan, schedule);
    int rows = schedule->tile_m * gemv_n_few(plan, schedule);
    int x = rows * shape.unroll * (shape.along_k ? shape.width : 1) *
            dtype_bits(gemv_few(plan, schedule, 0)->narrow);
    int at_once = rows * gemv_run_k(&shape) * wide;
    return ADDRESSES + runs * (words < 1 ? 1 : words) + x / 32 + at_once +
           schedule->tile_m * shape.cols * plan->n_cores * wide;
}

int64_t matmul_smem_gemv(const MatmulPlan *plan, const Schedule *schedule) {
    return matmul_partials_bytes(plan, schedule->tile_m, schedule->tile_n, schedule->warps_m);
}

bool matmul_accepts_split(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    int split = matmul_split(schedule);
    *why = "split_k takes a cluster of 2, 4 or 8 blocks, each with 4 columns or more and a step of K";
    if (split > 1 && (!plan->target->has_cluster || split > 8 || !is_power_of_two(split) ||
                      dtype_bits(plan->core[0]->dtype) != 32 || schedule->tile_n % 4 ||
                      schedule->tile_m * schedule->tile_n / 4 % split || schedule->cluster_m > 1 ||
                      schedule->cluster_n > 1 ||
                      dim_lower(plan->graph->dims, plan->k) < (int64_t)split * schedule->tile_k))
        return false;
    *why = "row statistics need whole rows in one block";
    if (plan->statistics.n || !matmul_holds_blocks(plan, 1, why))
        return false;
    *why = NULL;
    return true;
}

bool matmul_accepts_gemv(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    DType type = plan->core[0]->dtype;
    *why = "multiply-adds are in f32, f64, i32 or i64";
    if (type != DTYPE_F32 && type != DTYPE_F64 && type != DTYPE_I32 && type != DTYPE_I64)
        return false;
    for (int i = 0; i < gemv_n_few(plan, schedule); i++) {
        *why = schedule->swap_ab
                   ? "the second operand would be computed anew for every row: gemv reads it from memory"
                   : "the first operand would be computed anew for every column: gemv reads it from memory";
        const MatmulOperand *few = gemv_few(plan, schedule, i);
        if (!few->is_memory && !few->chosen)
            return false;
    }
    *why = "nothing waits in stages here, and vector is a power of two: elements of a load at most";
    if (schedule->stages < 0 || (schedule->vector && !is_power_of_two(schedule->vector)))
        return false;
    *why = "tile_m is 1, 2, 4, 8 or 16 rows, tile_n and the warps are powers of two, at most 16 warps";
    int warps = schedule->warps_m * schedule->warps_n;
    if (!is_power_of_two(schedule->tile_m) || schedule->tile_m > GEMV_ROWS_MAX ||
        !is_power_of_two(schedule->tile_n) || !is_power_of_two(warps) || warps > 16 ||
        schedule->tile_n % schedule->warps_n)
        return false;
    for (int i = 0; i < gemv_n_weights(plan, schedule); i++) {
        *why = schedule->swap_ab ? "the first operand lies in memory along neither K nor M"
                                 : "the weights lie in memory along neither K nor N";
        if (gemv_runs(plan, gemv_weights(plan, schedule, i))->axis < 0)
            return false;
    }
    GemvShape shape;
    *why = "tile_k is 1, 2, 4 or 8 runs of each lane and warp along K";
    if (!gemv_shape(plan, schedule, &shape))
        return false;
    *why = "a thread's sums and loads do not fit its registers";
    if (matmul_gemv_registers(plan, schedule) > 255)
        return false;
    *why = "the parts of the sums do not fit shared memory";
    if (matmul_smem_gemv(plan, schedule) > plan->target->smem_per_block - 1024)
        return false;
    return matmul_accepts_split(plan, schedule, why);
}
