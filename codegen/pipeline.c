#include "codegen/pipeline.h"

static const KExpr *pipeline_address(Builder *b, const KBuffer *barriers, const KExpr *stage) {
    return k_smem_addr(b, barriers, stage);
}

Pipeline pipeline_new(Builder *b, const char *name, int stages) {
    Pipeline pipeline = {.stages = stages};
    pipeline.full = k_shared(b, text_format(b->arena, "%s_full", name), DTYPE_I64, stages, 8);
    pipeline.empty = k_shared(b, text_format(b->arena, "%s_empty", name), DTYPE_I64, stages, 8);
    return pipeline;
}

static void pipeline_init_barrier(Builder *b, const KBuffer *barriers, const KExpr *stage, int arrivals) {
    KOperand operands[] = {k_operand(pipeline_address(b, barriers, stage)),
                           k_operand(k_int(b, K_U32, arrivals))};
    k_atom(b, ATOM_mbar_init, NULL, operands, 2);
}

void pipeline_init(Builder *b, const Pipeline *pipeline, int full_arrivals, int empty_arrivals) {
    const KExpr *stage = k_for_begin(b, "s", k_i32(b, 0), k_i32(b, pipeline->stages), 1, UNROLL_FULL);
    pipeline_init_barrier(b, pipeline->full, stage, full_arrivals);
    pipeline_init_barrier(b, pipeline->empty, stage, empty_arrivals);
    k_end(b);
    k_atom(b, ATOM_fence_mbar_init, NULL, NULL, 0);
}

void pipeline_init_barriers(Builder *b, const KBuffer *barriers, int count, int arrivals) {
    const KExpr *number = k_for_begin(b, "s", k_i32(b, 0), k_i32(b, count), 1, UNROLL_FULL);
    pipeline_init_barrier(b, barriers, number, arrivals);
    k_end(b);
    k_atom(b, ATOM_fence_mbar_init, NULL, NULL, 0);
}

PipelineState pipeline_start(Builder *b, const Pipeline *pipeline) {
    (void)pipeline;
    PipelineState state;
    state.stage = k_variable(b, "stage", K_I32, k_i32(b, 0));
    state.phase = k_variable(b, "phase", K_U32, k_int(b, K_U32, 0));
    return state;
}

void pipeline_advance(Builder *b, const Pipeline *pipeline, const PipelineState *state) {
    const KExpr *next = k_add(b, k_var(b, state->stage), k_i32(b, 1));
    k_set(b, state->stage, next);
    k_if_begin(b, k_eq(b, k_var(b, state->stage), k_i32(b, pipeline->stages)));
    k_set(b, state->stage, k_i32(b, 0));
    k_set(b, state->phase, k_xor(b, k_var(b, state->phase), k_int(b, K_U32, 1)));
    k_end(b);
}

void pipeline_skip(Builder *b, const Pipeline *pipeline, const PipelineState *state, const KExpr *steps) {
    const KExpr *stages = k_i32(b, pipeline->stages);
    const KExpr *at = k_let_expr(b, "stage_at", k_add(b, k_var(b, state->stage), steps));
    const KExpr *wraps = k_convert(b, k_mod(b, k_div(b, at, stages), k_i32(b, 2)), K_U32);
    k_set(b, state->phase, k_xor(b, k_var(b, state->phase), wraps));
    k_set(b, state->stage, k_mod(b, at, stages));
}

static void pipeline_wait(Builder *b, const KExpr *address, const KExpr *parity) {
    KOperand operands[] = {k_operand(address), k_operand(parity)};
    k_atom(b, ATOM_mbar_wait, NULL, operands, 2);
}

void pipeline_wait_empty(Builder *b, const Pipeline *pipeline, const PipelineState *state) {
    const KExpr *parity = k_xor(b, k_var(b, state->phase), k_int(b, K_U32, 1));
    pipeline_wait(b, pipeline_address(b, pipeline->empty, k_var(b, state->stage)), parity);
}

void pipeline_wait_full(Builder *b, const Pipeline *pipeline, const PipelineState *state) {
    pipeline_wait(b, pipeline_full_address(b, pipeline, state), k_var(b, state->phase));
}

const KExpr *pipeline_full_address(Builder *b, const Pipeline *pipeline, const PipelineState *state) {
    return pipeline_address(b, pipeline->full, k_var(b, state->stage));
}

void pipeline_expect(Builder *b, const Pipeline *pipeline, const PipelineState *state, const KExpr *bytes) {
    KOperand operands[] = {k_operand(pipeline_full_address(b, pipeline, state)), k_operand(bytes)};
    k_atom(b, ATOM_mbar_expect_tx, NULL, operands, 2);
}

int pipeline_peer_count(int m, int n) {
    return m + n - 1;
}

PipelinePeers pipeline_peers(Builder *b, int m, int n) {
    PipelinePeers peers = {.count = pipeline_peer_count(m, n)};
    const KExpr *lane = k_special(b, SPECIAL_LANE), *extent = k_i32(b, m);
    if (m == 1 || n == 1) {
        peers.rank = lane;
        return peers;
    }
    /* the row's blocks, then those of the column but for the one that is of both */
    const KExpr *own = k_special(b, SPECIAL_CTA_RANK);
    const KExpr *row = k_div(b, own, extent), *col = k_mod(b, own, extent), *other = k_sub(b, lane, extent);
    other = k_add(b, other, k_select(b, k_ge(b, other, row), k_i32(b, 1), k_i32(b, 0)));
    const KExpr *in_row = k_add(b, k_mul(b, row, extent), lane);
    const KExpr *in_col = k_add(b, k_mul(b, other, extent), col);
    peers.rank = k_let_expr(b, "peer", k_select(b, k_lt(b, lane, extent), in_row, in_col));
    return peers;
}

void pipeline_fill(Builder *b, const Pipeline *pipeline, const PipelineState *state) {
    k_atom(b, ATOM_warp_sync, NULL, NULL, 0);
    k_if_begin(b, k_eq(b, k_special(b, SPECIAL_LANE), k_i32(b, 0)));
    KOperand full = k_operand(pipeline_full_address(b, pipeline, state));
    k_atom(b, ATOM_mbar_arrive, NULL, &full, 1);
    k_end(b);
}

void pipeline_release(Builder *b, const Pipeline *pipeline, const KExpr *stage, const PipelinePeers *peers) {
    const KExpr *lane = k_special(b, SPECIAL_LANE), *address = pipeline_address(b, pipeline->empty, stage);
    if (!peers || peers->count == 1) {
        k_if_begin(b, k_eq(b, lane, k_i32(b, 0)));
        KOperand operands[] = {k_operand(address)};
        k_atom(b, ATOM_mbar_arrive, NULL, operands, 1);
    } else {
        k_if_begin(b, k_lt(b, lane, k_i32(b, peers->count)));
        KOperand operands[] = {k_operand(address), k_operand(k_convert(b, peers->rank, K_U32))};
        k_atom(b, ATOM_mbar_arrive_remote, NULL, operands, 2);
    }
    k_end(b);
}

void pipeline_release_early(Builder *b, const Pipeline *pipeline, const KExpr *stage,
                            const PipelinePeers *peers) {
    bool is_alone = !peers || peers->count == 1;
    KOperand operands[] = {k_operand(pipeline_address(b, pipeline->empty, stage)),
                           k_operand(k_convert(b, k_special(b, SPECIAL_LANE), K_U32)),
                           k_operand(k_int(b, K_U32, is_alone ? 1 : peers->count)),
                           {0}};
    if (!is_alone)
        operands[3] = k_operand(k_convert(b, peers->rank, K_U32));
    k_atom(b, is_alone ? ATOM_mbar_arrive_early : ATOM_mbar_arrive_remote_early, NULL, operands,
           is_alone ? 3 : 4);
}

void pipeline_release_behind(Builder *b, const Pipeline *pipeline, const PipelineState *state,
                             const KVar *previous, const KExpr *step, const PipelinePeers *peers) {
    if (step)
        k_if_begin(b, k_ge(b, step, k_i32(b, 1)));
    pipeline_release(b, pipeline, k_var(b, previous), peers);
    if (step)
        k_end(b);
    k_set(b, previous, k_var(b, state->stage));
    pipeline_advance(b, pipeline, state);
}
