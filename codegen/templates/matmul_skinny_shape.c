/* How products with a few dozen rows are divided among lanes and warps, for each schedule: what the path
 * takes of an SM, and what it accepts. */
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_partials.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_skinny.h"
#include "ir/base/checked.h"

/* The longest run along K, up to `most`, within which blocks that share a factor do not end. */
static int skinny_width_of_blocks(const MatmulScale *scale, const MatmulOperand *operand, int most) {
    const MatmulScaleAxis *axis = &scale->axis[operand->k_axis];
    while (axis->stride && most > 1 && axis->block % (SKINNY_LANES_K * most) != 0)
        most /= 2;
    return most;
}

/* The longest run of an operand that lanes take from memory; 0: they do not. */
static int skinny_width_direct(const MatmulPlan *plan, const MatmulOperand *operand) {
    const SkinnySource *source = skinny_source(plan, operand);
    if (!source->is_direct || source->is_across)
        return 0;
    int most = GEMV_ACCESS_BITS / dtype_bits(source->dtype);
    int width = view_vector_width(plan->graph, &source->view, operand->value, operand->k_axis, most);
    if (source->has_factor)
        width = skinny_width_of_blocks(&source->factor, operand, width);
    if (source->has_zero)
        width = skinny_width_of_blocks(&source->zero, operand, width);
    return width < SKINNY_OWN || skinny_source_words(source, width) < 1 ? 0 : width;
}

/* Elements of a lane's run: as many as the weights' memory gives at once; taken from it where that goes for
 * all. */
static int skinny_width(const MatmulPlan *plan, const Schedule *schedule, bool *is_direct) {
    int most = schedule->vector ? schedule->vector : SKINNY_WIDTH_MAX, direct = most, computed = most;
    const SkinnySource *first = skinny_source(plan, gemv_weights(plan, schedule, 0));
    for (int i = 0; i < gemv_n_weights(plan, schedule); i++) {
        const MatmulOperand *w = gemv_weights(plan, schedule, i);
        const MatmulRuns *runs = gemv_runs(plan, w);
        const SkinnySource *source = skinny_source(plan, w);
        int width = skinny_width_direct(plan, w), run = runs->axis == w->k_axis ? runs->width_k : 0;
        bool is_alike = source->dtype == first->dtype;
        direct = !is_alike ? 0 : width < direct ? width : direct;
        computed = run < computed ? run : computed;
    }
    *is_direct = direct > 0;
    return direct ? direct : computed;
}

/* Elements along K of a lane's run of all its columns, where the weights lie along N; 0: they do not, or not
 * all. */
static int skinny_width_across(const MatmulPlan *plan, const Schedule *schedule) {
    enum { WIDTH = 8 };
    int width = schedule->vector ? schedule->vector : WIDTH;
    const SkinnySource *first = skinny_source(plan, gemv_weights(plan, schedule, 0));
    for (int i = 0; i < gemv_n_weights(plan, schedule); i++) {
        const MatmulOperand *w = gemv_weights(plan, schedule, i);
        const SkinnySource *source = skinny_source(plan, w);
        if (!source->is_direct || !source->is_across || source->dtype != first->dtype)
            return 0;
        width = source->has_factor ? skinny_width_of_blocks(&source->factor, w, width) : width;
        width = source->has_zero ? skinny_width_of_blocks(&source->zero, w, width) : width;
    }
    while (width > 1 && dim_divisor(plan->graph->dims, plan->k) % width != 0)
        width /= 2;
    return width > SKINNY_WIDTH_MAX ? SKINNY_WIDTH_MAX : width;
}

/* Whether the columns of a lane are whole words in each of the weights, and all or none lie within. */
static bool skinny_columns_across(const MatmulPlan *plan, const Schedule *schedule, int columns) {
    if (columns < SKINNY_OWN || columns > SKINNY_ACROSS_MAX || !is_power_of_two(columns))
        return false;
    for (int i = 0; i < gemv_n_weights(plan, schedule); i++) {
        const MatmulOperand *w = gemv_weights(plan, schedule, i);
        const SkinnySource *source = skinny_source(plan, w);
        int per_word = skinny_per_word(source);
        if (columns % per_word != 0 || dim_divisor(plan->graph->dims, w->mn) % columns != 0 ||
            view_vector_width(plan->graph, &source->view, w->value, w->mn_axis, per_word) < per_word)
            return false;
    }
    return true;
}

int matmul_skinny_bits(const MatmulPlan *plan, const MatmulOperand *operand) {
    const SkinnySource *source = skinny_source(plan, operand);
    return source->is_direct ? dtype_bits(source->dtype) : gemv_runs(plan, operand)->bits;
}

bool matmul_skinny_is_across(const MatmulPlan *plan, const Schedule *schedule) {
    return skinny_width_across(plan, schedule) > 0;
}

int matmul_skinny_step(const MatmulPlan *plan, const Schedule *schedule) {
    bool is_direct;
    int across = skinny_width_across(plan, schedule);
    return SKINNY_LANES_K * schedule->warps_m * (across ? across : skinny_width(plan, schedule, &is_direct));
}

/* The columns of a warp; false where the schedule does not divide them. */
static bool skinny_shape_columns(const MatmulPlan *plan, const Schedule *schedule, SkinnyShape *shape) {
    int columns = schedule->tile_n / schedule->warps_n;
    shape->columns = columns / SKINNY_ROWS;
    shape->wide = 1;
    if (shape->is_across) {
        const SkinnySource *source = skinny_source(plan, gemv_weights(plan, schedule, 0));
        if (!skinny_columns_across(plan, schedule, shape->columns))
            return false;
        shape->wide = skinny_per_word(source) / 2;
    }
    shape->blocks = shape->columns / 2 / shape->wide;
    return shape->blocks >= 1 && columns * schedule->warps_n == schedule->tile_n &&
           2 * shape->blocks * shape->wide * SKINNY_ROWS == columns;
}

bool skinny_shape(const MatmulPlan *plan, const Schedule *schedule, SkinnyShape *shape) {
    int across = skinny_width_across(plan, schedule);
    *shape = (SkinnyShape){.is_direct = true,
                           .is_across = across > 0,
                           .width = across,
                           .groups = schedule->tile_m / SKINNY_ROWS};
    if (!across)
        shape->width = skinny_width(plan, schedule, &shape->is_direct);
    if (shape->width < SKINNY_OWN || shape->groups < 1 || !skinny_shape_columns(plan, schedule, shape))
        return false;
    int step = SKINNY_LANES_K * schedule->warps_m * shape->width;
    shape->unroll = schedule->tile_k / step;
    return shape->unroll * step == schedule->tile_k && is_power_of_two(shape->unroll) &&
           shape->unroll <= GEMV_UNROLL_MAX && shape->groups * SKINNY_ROWS == schedule->tile_m;
}

int matmul_skinny_registers(const MatmulPlan *plan, const Schedule *schedule) {
    enum { ADDRESSES = 40, COMPUTED = 8 /* what a run's elements are computed with */ };
    SkinnyShape s;
    if (!skinny_shape(plan, schedule, &s))
        return 255;
    int registers = ADDRESSES + s.width; /* a block's words, and a run's on their way there */
    int lines = s.unroll * (s.is_across ? s.width : s.columns), elements = s.is_across ? s.columns : s.width;
    for (int i = 0; i < gemv_n_weights(plan, schedule); i++) {
        const SkinnySource *source = skinny_source(plan, gemv_weights(plan, schedule, i));
        if (s.is_direct)
            registers += lines * skinny_source_words(source, elements) +
                         s.unroll * s.columns * (source->has_factor + source->has_zero);
        else
            registers += lines * (s.width / 2 + 1) + s.width + COMPUTED;
    }
    registers += gemv_n_few(plan, schedule) * s.groups * s.width / 2 * (s.unroll + 1);
    return registers + 4 * s.groups * s.wide * (s.blocks + s.is_direct) * plan->n_cores;
}

bool matmul_accepts_skinny(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    *why = "the target has no such matrix instruction, or none holds both operands exactly in 16 bits";
    if (!plan->target->has_mma_bf16 || plan->kind != MATMUL_16BIT)
        return false;
    for (int i = 0; i < gemv_n_few(plan, schedule); i++) {
        *why = schedule->swap_ab ? "the second operand would be computed anew for every row"
                                 : "the first operand would be computed anew for every column";
        if (!gemv_few(plan, schedule, i)->is_memory)
            return false;
    }
    for (int i = 0; i < gemv_n_weights(plan, schedule); i++) {
        *why = "the operand that streams does not lie in memory along K, or as it is along the other axis";
        const MatmulOperand *w = gemv_weights(plan, schedule, i);
        if (gemv_runs(plan, w)->axis != w->k_axis && !skinny_width_direct(plan, w) &&
            !skinny_width_across(plan, schedule))
            return false;
    }
    *why = "nothing waits in stages here, and vector is a power of two: elements of a load at most";
    if (schedule->stages < 0 || (schedule->vector && !is_power_of_two(schedule->vector)))
        return false;
    *why = "tile_m is 8, 16, 32 or 64 rows, tile_n a multiple of 16 columns for each of warps_n, at most 16 "
           "warps";
    int warps = schedule->warps_m * schedule->warps_n;
    if (!is_power_of_two(schedule->tile_m) || schedule->tile_m > SKINNY_ROWS_MAX ||
        !is_power_of_two(schedule->tile_n) || !is_power_of_two(warps) || warps > 16)
        return false;
    SkinnyShape shape;
    *why = "tile_k is 1, 2, 4 or 8 runs of four elements or more of each lane and warp along K";
    if (!skinny_shape(plan, schedule, &shape))
        return false;
    *why = "a thread's sums and loads do not fit its registers";
    if (matmul_skinny_registers(plan, schedule) > 255)
        return false;
    *why = "the parts of the sums do not fit shared memory";
    if (matmul_smem_gemv(plan, schedule) > plan->target->smem_per_block - 1024)
        return false;
    return matmul_accepts_split(plan, schedule, why);
}
