/* The shared memory through which outputs leave: which do, by TMA or by rows, and their boxes. */
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_staging.h"
#include "codegen/templates/matmul_tiles.h"

enum { STAGING_COLS_LEAST = 16 /* columns of the narrowest box */ };

static bool staging_is_used(const Schedule *schedule) {
    bool is_of_weights = schedule->patches && schedule->swap_ab; /* whose rows are apart in memory */
    return schedule->tma_store && !is_of_weights && schedule->tile_n % STAGING_COLS_LEAST == 0 &&
           schedule->split_k <= 1;
}

/* Whether an output has all columns, or is no window of them. */
static bool staging_has_whole(const MatmulPlan *plan, const Value *output) {
    const RegionWindow *window = region_window(plan->region, output);
    return !window || (!window->is_bundle && window->first == 0 && dim_is(plan->n, window->width));
}

/* Columns of a box, all of one matrix: a row of the widest output is one span of a swizzle, 128 bytes at
 * most. */
static int staging_columns(const MatmulPlan *plan, const Schedule *schedule, const Value *const *staged,
                           int n) {
    int most = 64, cols = schedule->tile_n / matmul_members(plan, schedule).n;
    for (int i = 0; i < n; i++)
        most = dtype_bits(staged[i]->dtype) == 32 ? 32 : most;
    return most == 64 && cols % 64 == 0 ? 64 : cols % 32 == 0 ? 32 : STAGING_COLS_LEAST;
}

/* Whether TMA can store an output: of a transposed product one of 16 bits, which stmatrix transposes, or of
 * 32, where memory has all rows of a box in one piece. */
static bool staging_by_tma(const MatmulPlan *plan, const Schedule *schedule, const Value *output) {
    MatmulStored stored;
    if (!matmul_stored(plan, output, &stored))
        return false;
    if (schedule->patches) /* whose rows the map has in parts of its own */
        return stored.n == 2 && stored.at[1].is_last;
    int rows = staging_columns(plan, schedule, &output, 1), bits = dtype_bits(output->dtype);
    return !schedule->swap_ab ||
           ((bits == 16 || bits == 32) &&
            (stored.at[1].is_last || dim_divisor(plan->graph->dims, stored.at[1].dim) % rows == 0));
}

/* Outputs that leave through shared memory, those that TMA takes first; how many. */
static int staging_outputs(const MatmulPlan *plan, const Schedule *schedule, const Value **staged,
                           int *n_tma) {
    const Value *by_rows[STAGING_OUTPUTS];
    int n = 0, n_rows = 0;
    for (size_t i = 0; i < plan->region->outputs.n && staging_is_used(schedule); i++) {
        const Value *output = plan->region->outputs.at[i];
        if (!staging_has_whole(plan, output))
            continue;
        if (staging_by_tma(plan, schedule, output)) {
            if (n < STAGING_OUTPUTS)
                staged[n++] = output;
        } else if (!schedule->swap_ab && !schedule->patches && n_rows < STAGING_OUTPUTS &&
                   matmul_stored_width(plan, output, STAGING_COLS_LEAST)) {
            by_rows[n_rows++] = output;
        }
    }
    *n_tma = n;
    for (int i = 0; i < n_rows && n < STAGING_OUTPUTS; i++)
        staged[n++] = by_rows[i];
    return n;
}

/* The box that an output leaves in: its own, or that of an output of the same size which leaves at another
 * time. TMA moves bits, of either type of 16; lanes that store rows read elements. */
static int staging_home(const MatmulPlan *plan, const Value *const *staged, int n_tma, int output) {
    bool is_early = matmul_is_early(plan, staged[output]);
    int number = 0, other = 0;
    if (n_tma == 1 && output == 1) /* TMA would still read what lanes write */
        return output;
    for (int i = 0; i < output; i++)
        number += matmul_is_early(plan, staged[i]) == is_early;
    for (int i = 0; i < output; i++)
        if (matmul_is_early(plan, staged[i]) != is_early && other++ == number &&
            (staged[i]->dtype == staged[output]->dtype ||
             (output < n_tma && dtype_bits(staged[i]->dtype) == 16 &&
              dtype_bits(staged[output]->dtype) == 16)))
            return i;
    return output;
}

/* Outputs that are windows of the columns, where these are whole boxes and leave no column out; how many, in
 * order. */
static int staging_find_parts(const MatmulPlan *plan, const Schedule *schedule, MatmulPart *parts) {
    const Region *region = plan->region;
    int n = 0, cols = staging_columns(plan, schedule, NULL, 0); /* all of 16 bits */
    int64_t at = 0;
    if (!staging_is_used(schedule) || schedule->swap_ab || matmul_members(plan, schedule).n > 1 ||
        region->windows.n > STAGING_PARTS || region->windows.n != region->outputs.n ||
        dim_divisor(plan->graph->dims, plan->n) % schedule->tile_n != 0)
        return 0;
    for (size_t found = 0; found < region->windows.n; found++) {
        const RegionWindow *next = NULL;
        for (size_t i = 0; i < region->windows.n && !next; i++)
            next = region->windows.at[i].first == at ? &region->windows.at[i] : NULL;
        MatmulPart *part = &parts[n];
        if (!next || next->is_bundle || next->width % cols != 0 || dtype_bits(next->value->dtype) != 16 ||
            !dtype_is_float(next->value->dtype) || !matmul_stored(plan, next->value, &part->stored))
            return 0;
        part->output = next->value;
        part->first = at;
        part->width = next->width;
        n++;
        at += next->width;
    }
    return dim_is(plan->n, at) ? n : 0;
}

/* Three warpgroups write 12 boxes at a time: with as many again there is no room for a fourth stage. Nor is
 * there for a fifth of 64 x 256, whose steps in turn are so short that a load takes four of them: softmax of
 * 8192 x 1024 along 4096 took 138 us with three stages, 106 with four, 98 with five. */
static int staging_in_turn(const Schedule *schedule) {
    return schedule->warps_m == 3 || (schedule->ping_pong && schedule->tile_m == 64) ? 1 : 2;
}

int64_t matmul_staging_bytes(const MatmulPlan *plan, const Schedule *schedule) {
    const Value *staged[STAGING_OUTPUTS];
    MatmulPart parts[STAGING_PARTS];
    bool has_parts = staging_find_parts(plan, schedule, parts);
    int n_tma = 1, n = has_parts ? 1 : staging_outputs(plan, schedule, staged, &n_tma);
    if (has_parts)
        staged[0] = parts[0].output;
    int64_t bits = 0;
    for (int i = 0; i < n; i++)
        if (has_parts || staging_home(plan, staged, n_tma, i) == i)
            bits += (int64_t)staging_columns(plan, schedule, staged, n) * dtype_bits(staged[i]->dtype);
    return 4 * schedule->warps_m * staging_in_turn(schedule) * STAGING_ROWS * bits / 8;
}

/* Outputs that leave through shared memory, in the order of their boxes. */
typedef struct StagingLeaving {
    const Value *output[STAGING_OUTPUTS];
    int n, n_tma, cols;
} StagingLeaving;

static StagingLeaving staging_leaving(const MatmulPlan *plan, const Schedule *schedule) {
    StagingLeaving leaving = {.n = 1, .n_tma = 1};
    MatmulPart parts[STAGING_PARTS];
    if (staging_find_parts(plan, schedule, parts))
        leaving.output[0] = parts[0].output;
    else
        leaving.n = staging_outputs(plan, schedule, leaving.output, &leaving.n_tma);
    leaving.cols = staging_columns(plan, schedule, leaving.output, leaving.n);
    return leaving;
}

bool matmul_staging_serves(const MatmulPlan *plan, const MatmulPlan *other, const Schedule *schedule) {
    StagingLeaving own = staging_leaving(plan, schedule), others = staging_leaving(other, schedule);
    if (others.n == 0)
        return true;
    for (int i = 0; i < others.n && i < own.n; i++)
        if (own.output[i]->dtype != others.output[i]->dtype)
            return false;
    return own.n == others.n && own.n_tma == others.n_tma && own.cols == others.cols &&
           matmul_staging_bytes(plan, schedule) == matmul_staging_bytes(other, schedule);
}

/* The boxes of one output. */
static Tile staging_tile(Builder *b, const MatmulStaging *staging, const Schedule *schedule, int output,
                         const MatmulStaging *over) {
    DType type = staging->output[output]->dtype;
    int boxes = (staging->is_swapped ? 1 : 4) * schedule->warps_m * staging->in_turn;
    int rows = staging->is_swapped ? staging->cols : STAGING_ROWS,
        cols = staging->is_swapped ? WGMMA_M : staging->cols;
    if (over)
        return tile_over(over->tile[output].buffer, type, rows, cols, boxes, (int64_t)rows * cols);
    return tile_shared(b, output ? "staging_1" : "staging", type, rows, cols, boxes);
}

static int staging_map(Builder *b, const MatmulPlan *plan, const MatmulPatch *patch, const Value *output,
                       const MatmulStored *stored, const Tile *tile) {
    if (!patch->axes)
        return matmul_stored_map(b, output, stored, tile->rows, tile->span, tile->swizzle);
    KTensorMap map = {.buffer = k_global(b, output, true),
                      .elem = output->dtype,
                      .dims = {stored->at[0].dim},
                      .strides = {stored->at[0].stride},
                      .box = {tile->span},
                      .swizzle = tile->swizzle};
    matmul_patch_dims(plan->graph->dims, patch, stored->at[1].stride, tile->rows, &map);
    return k_tensor_map(b, text_format(b->arena, "%s_map", output->name ? output->name : "out"), map);
}

bool matmul_staging(Builder *b, const MatmulPlan *plan, const Schedule *schedule, const MatmulStaging *over,
                    MatmulStaging *staging) {
    *staging = (MatmulStaging){.is_swapped = schedule->swap_ab, .groups = schedule->warps_m};
    staging->n_parts = staging_find_parts(plan, schedule, staging->parts);
    staging->output[0] = staging->n_parts ? staging->parts[0].output : NULL;
    staging->n_outputs = staging->n_tma = 1;
    staging->in_turn = staging_in_turn(schedule);
    if (!staging->n_parts)
        staging->n_outputs = staging_outputs(plan, schedule, staging->output, &staging->n_tma);
    if (!staging->n_outputs)
        return false;
    staging->cols = staging_columns(plan, schedule, staging->output, staging->n_outputs);
    for (int i = 0; i < staging->n_outputs; i++) {
        int home = staging->n_parts ? 0 : staging_home(plan, staging->output, staging->n_tma, i);
        staging->tile[i] = home < i ? staging->tile[home] : staging_tile(b, staging, schedule, i, over);
    }
    MatmulPatch patch = matmul_patch_of(plan, schedule);
    for (int i = 0; i < staging->n_parts; i++)
        staging->parts[i].map = staging_map(b, plan, &patch, staging->parts[i].output,
                                            &staging->parts[i].stored, &staging->tile[0]);
    if (staging->n_parts)
        return true;
    for (int i = staging->n_tma; i < staging->n_outputs; i++)
        staging->row_width[i] = matmul_stored_width(plan, staging->output[i], staging->cols);
    for (int i = 0; i < staging->n_tma; i++) {
        matmul_stored(plan, staging->output[i], &staging->stored[i]);
        staging->map[i] =
            staging_map(b, plan, &patch, staging->output[i], &staging->stored[i], &staging->tile[i]);
    }
    return true;
}

const char *matmul_staging_name(const MatmulStaging *staging) {
    return staging->n_tma == staging->n_outputs ? ", outputs by TMA"
           : staging->n_tma                     ? ", outputs by TMA and by rows"
                                                : ", outputs by rows";
}
