/* The wgmma path of tiles whose rows are a patch of a convolution's places (matmul_patch.c): a stage has the
 * box of some channels, whose taps are multiplied one after the other; the weights come once for the launch,
 * or those of all taps with each box, where they are too many.
 *
 *     weights, once | w tap 0 | w tap 1 | ...                                       as steps of K lie
 *     ring          | box of channels 0-63 | box of channels 64-127 | box of the next tile | ...
 *     a stage       box at tap 0 x w tap 0, box at tap 1 x w tap 1, ... */
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/wgmma.h"

/* Bytes behind the last box. compute-sanitizer takes 16 places of 64 rows to be 2048 bytes in one piece,
 * which end behind it where taps overlap. */
static int64_t patch_behind(const MatmulPatch *patch) {
    enum { PIECE = 2048 };
    return patch->is_along_k ? PIECE : 0;
}

/* Weights of a step of K. */
static int64_t patch_step_bytes(const MatmulPlan *plan, const Schedule *schedule) {
    return (int64_t)matmul_held(plan, schedule, false) * schedule->tile_k * dtype_bits(plan->b[0].elem) / 8;
}

bool matmul_patch_stays(const MatmulPlan *plan, const Schedule *schedule) {
    if (schedule->swap_ab)
        return false;
    enum { STAY_BYTES = 160 << 10 /* beside which there is room for two boxes */ };
    int64_t steps = dim_upper(plan->graph->dims, matmul_k_steps(plan, schedule));
    return dim_is_const(plan->n) && plan->n->value <= schedule->tile_n &&
           steps <= STAY_BYTES / patch_step_bytes(plan, schedule);
}

int64_t wgmma_patch_bytes(const MatmulPlan *plan, const Schedule *schedule) {
    MatmulPatch patch = matmul_patch_of(plan, schedule);
    int64_t box = matmul_patch_pitch(plan, schedule) * dtype_bits(plan->a.elem) / 8,
            step = patch_step_bytes(plan, schedule);
    if (patch.is_along_k)
        return (box + step) * schedule->stages + patch_behind(&patch);
    if (matmul_patch_stays(plan, schedule))
        return box * schedule->stages + step * matmul_k_steps(plan, schedule)->value;
    return (box + step * patch.taps) * schedule->stages;
}

bool wgmma_accepts_patches(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    MatmulPatch patch;
    if (!matmul_patch(plan, schedule, &patch, why))
        return false;
    *why = "patches share neither K nor operands with other blocks";
    if (matmul_split(schedule) > 1 || schedule->stream_k || schedule->cluster_m > 1 ||
        schedule->cluster_n > 1 || schedule->fragments || matmul_converters(plan, schedule))
        return false;
    *why = "a patch's weights come by TMA, with a K that is known";
    if (!dim_is_const(plan->k) || plan->k->value < 1)
        return false;
    if (!patch.is_along_k)
        return !plan->b[0].chosen && !plan->b[0].windows;
    *why = "patches of a step have 64 places, and warpgroups that multiply side by side";
    return schedule->tile_k == PATCH_PLACES && !schedule->ping_pong;
}

void wgmma_patch_operand(Wgmma *w, WgmmaOperand *o, const char *name) {
    Builder *b = w->b;
    const Schedule *schedule = w->schedule;
    const MatmulPatch *patch = &w->tiles.patch;
    if (o->is_rows) {
        int elements = matmul_patch_elements(patch),
            channels = patch->is_along_k ? patch->channels : schedule->tile_k;
        int64_t pitch = matmul_patch_pitch(w->plan, schedule);
        int64_t behind = patch_behind(patch) * 8 / dtype_bits(o->operand->elem);
        const KBuffer *buffer = k_shared(b, name, o->operand->elem, pitch * schedule->stages + behind,
                                         swizzle_period(SWIZZLE_128));
        o->tile = tile_over(buffer, o->operand->elem, elements, channels, schedule->stages, pitch);
        o->tile.apart = patch->apart;
        if (patch->is_along_k) /* from a tap to the next beside it */
            o->tile.lead = (int)patch->windows->axis[0].tap_step;
        return;
    }
    if (patch->is_along_k) {
        o->tile = wgmma_tile(w, o, name, schedule->stages, NULL);
        return;
    }
    o->is_resident = matmul_patch_stays(w->plan, schedule);
    o->taps = patch->taps;
    /* one for each step of K, all of them or those of a box */
    int steps =
        o->is_resident ? (int)matmul_k_steps(w->plan, schedule)->value : schedule->stages * patch->taps;
    o->tile = wgmma_tile(w, o, name, steps, NULL);
}

void wgmma_load_taps(Wgmma *w, const MatmulTma *tma, const PipelineState *state, const KExpr *mn0,
                     const KExpr *k0, const KExpr *const *batch) {
    Builder *b = w->b;
    int taps = w->tiles.patch.taps;
    int64_t each = matmul_patch_steps(w->plan, w->schedule)->value * w->schedule->tile_k;
    const KExpr *tap = k_for_begin(b, "tap", k_i32(b, 0), k_i32(b, taps), 1, UNROLL_NONE);
    const KExpr *stage = k_add(b, k_mul(b, k_var(b, state->stage), k_i32(b, taps)), tap);
    matmul_tma_load(b, w->plan, tma, stage, pipeline_full_address(b, &w->pipeline, state), mn0,
                    k_add(b, k0, k_mul(b, tap, k_i32(b, each))), batch);
    k_end(b);
}

void wgmma_load_resident(Wgmma *w) {
    Builder *b = w->b;
    for (int i = 0; i < w->n_operands; i++) {
        const WgmmaOperand *o = &w->operands[i];
        if (!o->is_resident)
            continue;
        MatmulTma tma = wgmma_tma(w, o);
        PipelineState state = pipeline_start(b, &w->resident);
        const KExpr *col = k_i32(b, 0), *batch[RANK_MAX] = {NULL};
        pipeline_expect(b, &w->resident, &state,
                        k_mul(b, matmul_tma_bytes(b, &tma, col), k_int(b, K_U32, o->tile.stages)));
        const KExpr *step = k_for_begin(b, "k_step", k_i32(b, 0), k_i32(b, o->tile.stages), 1, UNROLL_NONE);
        matmul_tma_load(b, w->plan, &tma, step, pipeline_full_address(b, &w->resident, &state), col,
                        k_mul(b, step, k_i32(b, w->schedule->tile_k)), batch);
        k_end(b);
    }
}

/* LLVM adds a descriptor's constant bits in the loop, to what counts boxes, and ptxas 13.0 then loses the
 * upper half of them (the weights of a second box were read as if not swizzled): behind this they are one
 * number. */
static void patch_settle_descriptor(Wgmma *w, WgmmaOperand *o) {
    const KVar *settled = k_variable(w->b, "resident_descriptor", K_U64, o->descriptor);
    KOperand operand = k_reg(settled);
    k_atom(w->b, ATOM_settle_i64, (int[]){1}, &operand, 1);
    o->descriptor = k_var(w->b, settled);
}

void wgmma_wait_resident(Wgmma *w) {
    if (!w->resident.stages)
        return;
    PipelineState state = pipeline_start(w->b, &w->resident);
    pipeline_wait_full(w->b, &w->resident, &state);
    for (int i = 0; i < w->n_operands; i++)
        if (w->operands[i].is_resident)
            patch_settle_descriptor(w, &w->operands[i]);
}

void wgmma_multiply_taps(Wgmma *w, const KExpr *stage, const KExpr *step, bool is_cleared) {
    Builder *b = w->b;
    const WgmmaOperand *rows = &w->operands[0], *cols = &w->operands[1];
    const MatmulPatch *patch = &w->tiles.patch;
    int64_t units = tile_stage_units(&cols->tile);
    /* from a tap's weights to the next tap's, and from a box's to the next box's */
    int64_t each = cols->is_resident ? cols->tile.stages / patch->taps * units : units,
            boxes = cols->is_resident ? units : patch->taps * units;
    const KExpr *box = k_mul(b, k_convert(b, stage, K_U64), k_int(b, K_U64, tile_stage_units(&rows->tile)));
    box = k_let_expr(b, "box_at", k_add(b, rows->descriptor, box));
    const KExpr *weights =
        k_mul(b, k_convert(b, cols->is_resident ? step : stage, K_U64), k_int(b, K_U64, boxes));
    weights = k_let_expr(b, "weights_at", k_add(b, cols->descriptor, weights));
    int instructions = wgmma_instructions(w);
    for (int tap = 0; tap < patch->taps; tap++) {
        int64_t first = tile_descriptor_offset(&rows->tile, matmul_patch_tap(patch, tap), 0);
        for (int i = 0; i < instructions; i++) {
            const KExpr *keep = tap || i || is_cleared ? k_int(b, K_U32, 1) : k_convert(b, step, K_U32);
            const KExpr *bb = k_add(b, weights, k_int(b, K_U64, tap * each + wgmma_part(cols, 0, i)));
            for (int block = 0; block < w->blocks; block++) {
                const KExpr *a = k_add(b, box, k_int(b, K_U64, first + wgmma_part(rows, block * WGMMA_M, i)));
                int at = block * w->schedule->tile_n / 2;
                wgmma_issue(w, 0, k_regs(w->accumulator[0], at, w->schedule->tile_n / 2), k_operand(a), bb,
                            keep);
            }
        }
    }
}

const KExpr *wgmma_patch_group(Wgmma *w, const KExpr *group) {
    const WgmmaOperand *rows = &w->operands[1];
    int first = matmul_patch_warpgroup(&w->tiles.patch, w->blocks);
    int64_t own = tile_descriptor_offset(&rows->tile, first, 0);
    return k_mul(w->b, k_convert(w->b, group, K_U64), k_int(w->b, K_U64, own));
}

void wgmma_multiply_places(Wgmma *w, const KExpr *stage, const KExpr *step, bool is_cleared) {
    Builder *b = w->b;
    const WgmmaOperand *rows = &w->operands[1], *cols = &w->operands[0];
    const MatmulPatch *patch = &w->tiles.patch;
    enum { GROUPS = 2 /* of places, that an instruction multiplies */ };
    const KExpr *at[1 + MATMUL_CORES];
    wgmma_stage_at(w, stage, at);
    for (int i = 0; i < PATCH_PLACES / (GROUPS * PATCH_GROUP); i++) {
        const KExpr *keep = i || is_cleared ? k_int(b, K_U32, 1) : k_convert(b, step, K_U32);
        const KExpr *bb = k_add(b, at[0], k_int(b, K_U64, wgmma_part(cols, 0, i)));
        for (int block = 0; block < w->blocks; block++) {
            int first = matmul_patch_block(patch, block) + i * GROUPS * patch->apart;
            const KExpr *a = k_add(b, at[1], k_int(b, K_U64, tile_descriptor_offset(&rows->tile, first, 0)));
            int sums = block * w->schedule->tile_n / 2;
            wgmma_issue(w, 0, k_regs(w->accumulator[0], sums, w->schedule->tile_n / 2), k_operand(a), bb,
                        keep);
        }
    }
}
