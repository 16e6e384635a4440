/* The simulator's entry and its scheduler: sets up the launch, runs clusters one after another, and inside
 * one its warps in turn, each until it has to wait. simulate_internal.h tells how the parts fit. */
#include "codegen/simulate_internal.h"

#include <stdarg.h>

#include "codegen/kernel_print.h"

void sim_fail(Sim *sim, const SimWarp *warp, int lane, const char *format, ...) {
    if (sim->failed)
        return;
    sim->failed = true;
    Text *text = &sim->message;
    text_add(text, "kernel '%s'", sim->kernel->name);
    if (warp)
        text_add(text, ", block (%lld, %lld, %lld), warp %d", (long long)warp->cta->x,
                 (long long)warp->cta->y, (long long)warp->cta->z, warp->number);
    if (warp && lane >= 0)
        text_add(text, ", thread %d", warp->number * SIM_LANES + lane);
    text_add(text, ": ");
    va_list args;
    va_start(args, format);
    text_addv(text, format, args);
    va_end(args);
    if (sim->stmt) {
        sim->span = sim->stmt->source->span;
        text_add(text, ", in '");
        kernel_print_stmt(text, sim->kernel, sim->stmt->source);
        text_add(text, "'");
    }
}

/* ---- statements ---------------------------------------------------------------------------------------- */

static void sim_push_frame(Sim *sim, SimWarp *warp, const SimBlock *block, LaneMask mask,
                           const SimStmt *loop) {
    SimFrame frame = {.block = block, .mask = mask, .loop = loop};
    if (mask && block->n)
        vec_push(sim->arena, &warp->frames, frame);
}

static void sim_assign(Sim *sim, SimWarp *warp, int reg, const Lanes *value, LaneMask mask) {
    Lanes *to = &warp->registers[reg];
    FOR_LANES(lane, mask)
    to->at[lane] = value->at[lane];
    sim_set_register(sim, warp, reg, mask);
}

static void sim_declare(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    int count = stmt->source->var->count ? stmt->source->var->count : 1;
    const Lanes *value = sim_has(&stmt->value) ? sim_eval(sim, warp, &stmt->value, mask) : NULL;
    for (int i = 0; i < count; i++) {
        if (value)
            sim_assign(sim, warp, stmt->reg + i, value, mask);
        else
            warp->set[stmt->reg + i] &= ~mask;
    }
}

static void sim_set(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    const KVar *var = stmt->source->var;
    const Lanes *value = sim_eval(sim, warp, &stmt->value, mask);
    int64_t index = sim_has(&stmt->index) ? sim_eval_uniform(sim, warp, &stmt->index, mask) : 0;
    if (index < 0 || index >= (var->count ? var->count : 1))
        sim_fail(sim, warp, -1, "element %lld of register array '%s', which has %d", (long long)index,
                 var->name, var->count);
    else
        sim_assign(sim, warp, stmt->reg + (int)index, value, mask);
}

/* The lanes of a loop whose variable is below its end. */
static LaneMask sim_loop_lanes(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    const Lanes *end = sim_eval(sim, warp, &stmt->end, mask), *var = &warp->registers[stmt->reg];
    LaneMask below = 0;
    FOR_LANES(lane, mask)
    if (var->at[lane].i < end->at[lane].i)
        below |= 1u << lane;
    return below;
}

static void sim_for(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    sim_assign(sim, warp, stmt->reg, sim_eval(sim, warp, &stmt->begin, mask), mask);
    sim_push_frame(sim, warp, &stmt->body, sim_loop_lanes(sim, warp, stmt, mask), stmt);
}

/* Starts the next turn of a loop's frame; false where no lane has one. */
static bool sim_for_again(Sim *sim, SimWarp *warp, SimFrame *frame) {
    const SimStmt *stmt = frame->loop;
    sim->stmt = stmt;
    Lanes *var = &warp->registers[stmt->reg];
    const Lanes *step = sim_has(&stmt->step) ? sim_eval(sim, warp, &stmt->step, frame->mask) : NULL;
    int64_t limit = stmt->source->var->type == K_I32 ? INT32_MAX : INT64_MAX;
    FOR_LANES(lane, frame->mask) {
        int64_t by = step ? step->at[lane].i : stmt->source->step;
        if (by <= 0 || var->at[lane].i > limit - by) {
            sim_fail(sim, warp, (int)lane, "a loop's variable %lld cannot grow by %lld",
                     (long long)var->at[lane].i, (long long)by);
            return false;
        }
        var->at[lane].i += by;
    }
    frame->mask = sim_loop_lanes(sim, warp, stmt, frame->mask);
    frame->next = 0;
    return frame->mask != 0;
}

static void sim_if(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    const Lanes *condition = sim_eval(sim, warp, &stmt->value, mask);
    LaneMask holds = 0;
    FOR_LANES(lane, mask)
    if (condition->at[lane].i)
        holds |= 1u << lane;
    sim_push_frame(sim, warp, &stmt->other, mask & ~holds, NULL); /* below the body: runs after it */
    sim_push_frame(sim, warp, &stmt->body, holds, NULL);
}

static void sim_stmt(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    sim->stmt = stmt;
    switch (stmt->source->kind) {
    case KS_DECLARE: sim_declare(sim, warp, stmt, mask); return;
    case KS_SET: sim_set(sim, warp, stmt, mask); return;
    case KS_LOAD: sim_load(sim, warp, stmt, mask); return;
    case KS_STORE: sim_store(sim, warp, stmt, mask); return;
    case KS_FOR: sim_for(sim, warp, stmt, mask); return;
    case KS_IF: sim_if(sim, warp, stmt, mask); return;
    case KS_ATOM: sim_atom(sim, warp, stmt, mask); return;
    case KS_COMMENT: return;
    }
}

/* Runs a warp until it waits or ends. */
static void sim_run_warp(Sim *sim, SimWarp *warp) {
    while (warp->frames.n && warp->wait.kind == WAIT_NONE) {
        SimFrame *frame = &warp->frames.at[warp->frames.n - 1];
        if (frame->next == frame->block->n) {
            if (!frame->loop || !sim_for_again(sim, warp, frame))
                warp->frames.n--;
        } else {
            sim_stmt(sim, warp, frame->block->at[frame->next++], frame->mask);
        }
        if (++sim->steps > sim->options.step_limit)
            sim_fail(sim, warp, -1, "more than %llu statements", (unsigned long long)sim->options.step_limit);
        if (sim->failed)
            return;
    }
    if (!warp->frames.n)
        sim_warp_exits(sim, warp);
}

/* ---- clusters ------------------------------------------------------------------------------------------ */

static void sim_reset_warp(Sim *sim, SimCta *cta, SimWarp *warp) {
    size_t n = (size_t)sim->n_registers;
    memset(warp->set, 0, n * sizeof *warp->set);
    memset(warp->in_flight, 0, n * sizeof *warp->in_flight);
    memset(warp->touched_at, 0, n * sizeof *warp->touched_at);
    memset(warp->clock, 0, (size_t)sim->n_agents * sizeof *warp->clock);
    warp->clock[warp->agent] = 1;
    int64_t specials[SIM_FIRST_REGISTER] = {
        [SPECIAL_WARP] = warp->number, [SPECIAL_CTA_X] = cta->x,        [SPECIAL_CTA_Y] = cta->y,
        [SPECIAL_CTA_Z] = cta->z,      [SPECIAL_GRID_X] = sim->grid[0], [SPECIAL_CTA_RANK] = cta->rank,
    };
    for (int s = 0; s < SIM_FIRST_REGISTER; s++) {
        warp->set[s] = SIM_ALL_LANES;
        for (int lane = 0; lane < SIM_LANES; lane++) {
            int64_t value = specials[s];
            if (s == SPECIAL_TID)
                value = warp->number * SIM_LANES + lane;
            if (s == SPECIAL_LANE)
                value = lane;
            warp->registers[s].at[lane].i = value;
        }
    }
    warp->finished = false;
    warp->wait.kind = WAIT_NONE;
    memset(warp->async_fence, 0, sizeof warp->async_fence);
    memset(warp->async_fence_copies, 0, sizeof warp->async_fence_copies);
    memset(warp->mbarrier_fence, 0, sizeof warp->mbarrier_fence);
    warp->matrix_history = 0;
    warp->reads_over = 0;
    warp->copy_groups = warp->matrix_fences = warp->matrix_groups = warp->bulk_groups = 0;
    warp->frames.n = warp->products.n = warp->bulks.n = 0;
    warp->cluster_arrived = false;
    warp->is_meeting = false;
    sim_push_frame(sim, warp, &sim->program, SIM_ALL_LANES, NULL);
}

/* A block's shared memory as a cluster before left it. */
static void sim_clear_shared(const Sim *sim, SimCta *cta) {
    size_t shared = (size_t)sim->kernel->smem_bytes;
    memset(cta->shared, 0, shared);
    memset(cta->shadow, 0, shared * sizeof *cta->shadow);
    if (cta->reads)
        memset(cta->reads, 0, shared * (size_t)sim->n_warps * sizeof *cta->reads);
    if (cta->remote_reads)
        memset(cta->remote_reads, 0, shared * sizeof *cta->remote_reads);
}

/* NaNs where it may be read that nobody wrote. */
static void sim_poison_shared(const Kernel *kernel, SimCta *cta) {
    for (size_t i = 0; i < kernel->buffers.n; i++) {
        const KBuffer *buffer = kernel->buffers.at[i];
        int64_t bytes;
        if (!buffer->is_partial || !dtype_bytes(buffer->elem, buffer->count, &bytes))
            continue;
        memset(cta->shared + buffer->offset, 0xff, (size_t)bytes);
        for (int64_t at = buffer->offset; at < buffer->offset + bytes; at++)
            cta->shadow[at].flags = BYTE_PARTIAL;
    }
}

/* first: the coordinates of the cluster's first block. */
static void sim_reset_cluster(Sim *sim, const int64_t first[3]) {
    const Kernel *kernel = sim->kernel;
    bool is_first = sim->unit++ == 0; /* all of it is zero then */
    sim->running = sim->n_ctas * sim->n_warps;
    for (int c = 0; c < sim->n_ctas; c++) {
        SimCta *cta = &sim->ctas[c];
        int along_x = kernel->cluster[0] * kernel->gang;
        cta->x = first[0] + c % along_x;
        cta->y = first[1] + c / along_x % kernel->cluster[1];
        cta->z = first[2] + c / along_x / kernel->cluster[1];
        cta->running = sim->n_warps;
        if (!is_first)
            sim_clear_shared(sim, cta);
        sim_poison_shared(kernel, cta);
        for (int w = 0; w < sim->n_warps; w++)
            sim_reset_warp(sim, cta, &cta->warps[w]);
    }
    sim_reset_sync(sim);
}

static void sim_run_cluster(Sim *sim, const int64_t first[3]) {
    sim_reset_cluster(sim, first);
    while (sim->running && !sim->failed) {
        bool advanced = false;
        for (int c = 0; c < sim->n_ctas; c++)
            for (int w = 0; w < sim->n_warps && !sim->failed; w++) {
                SimWarp *warp = &sim->ctas[c].warps[w];
                if (warp->finished || !sim_wait_is_over(sim, warp))
                    continue;
                advanced = true;
                sim_run_warp(sim, warp);
            }
        if (!advanced && !sim_arrive_late(sim))
            sim_report_deadlock(sim);
    }
}

static void sim_run_grid(Sim *sim) {
    const int *cluster = sim->kernel->cluster;
    int64_t blocks = 0, first[3];
    for (first[2] = 0; first[2] < sim->grid[2]; first[2] += cluster[2])
        for (first[1] = 0; first[1] < sim->grid[1]; first[1] += cluster[1])
            for (first[0] = 0; first[0] < sim->grid[0]; first[0] += cluster[0] * sim->kernel->gang) {
                if (sim->failed || (sim->options.max_blocks && blocks >= sim->options.max_blocks))
                    return;
                sim_run_cluster(sim, first);
                blocks += sim->n_ctas;
            }
}

/* ---- the launch ---------------------------------------------------------------------------------------- */

static int64_t sim_dim(Sim *sim, const Dim *dim, const DimBindings *bindings, const char *what) {
    int64_t value = 0;
    if (!dim_eval(dim, bindings, &value))
        sim_fail(sim, NULL, -1, "%s cannot be worked out from the bound dims", what);
    return value;
}

static void sim_bind_grid(Sim *sim, const DimBindings *bindings) {
    static const int64_t most[] = {INT32_MAX, 65535, 65535};
    for (int i = 0; i < 3; i++) {
        sim->grid[i] = sim_dim(sim, sim->kernel->grid[i], bindings, "a grid dim");
        int together = sim->kernel->cluster[i] * (i == 0 ? sim->kernel->gang : 1);
        if (sim->grid[i] < 0 || sim->grid[i] > most[i] || sim->grid[i] % together != 0)
            sim_fail(sim, NULL, -1,
                     "grid dim %d is %lld: negative, too large, or no multiple of the cluster's or gang's %d",
                     i, (long long)sim->grid[i], together);
    }
}

static void sim_bind_scratch(Sim *sim, const KBuffer *buffer, const DimBindings *bindings) {
    SimGlobal *global = &sim->globals[buffer->id];
    global->buffer = buffer;
    global->count = sim_dim(sim, buffer->scratch, bindings, "the size of scratch memory");
    if (global->count < 0 || !dtype_bytes(buffer->elem, global->count, &global->bytes)) {
        sim_fail(sim, NULL, -1, "scratch '%s' has %lld elements", buffer->name, (long long)global->count);
        return;
    }
    global->at = ARENA_ARRAY(sim->arena, uint8_t, (size_t)global->bytes + 1);
    memset(global->at, 0xff, (size_t)global->bytes);
    const uint32_t raised = 1; /* of a launch before: a flag, or a packet of the first round */
    for (int64_t at = 0; buffer->is_signal && at + (int64_t)sizeof raised <= global->bytes;
         at += sizeof raised)
        memcpy(global->at + at, &raised, sizeof raised);
    if (sim->options.check_races && !buffer->is_signal)
        global->shadow = ARENA_ARRAY(sim->arena, SimElement, (size_t)global->count + 1);
}

static void sim_bind_buffer(Sim *sim, const KBuffer *buffer, const SimBuffer *buffers, int n_buffers) {
    SimGlobal *global = &sim->globals[buffer->id];
    global->buffer = buffer;
    for (int i = 0; i < n_buffers; i++)
        if (buffers[i].value == buffer->value) {
            global->at = buffers[i].at;
            global->bytes = buffers[i].bytes;
        }
    if (!global->at) {
        sim_fail(sim, NULL, -1, "no memory is given for '%s'", buffer->name);
        return;
    }
    global->count = global->bytes * 8 / dtype_bits(buffer->elem);
    if (buffer->written && sim->options.check_races)
        global->shadow = ARENA_ARRAY(sim->arena, SimElement, (size_t)global->count + 1);
}

static void sim_bind_map(Sim *sim, const KParam *param, SimMap *bound, const DimBindings *bindings) {
    const KTensorMap *map = &param->map;
    bound->map = map;
    bound->offset = map->offset ? sim_dim(sim, map->offset, bindings, "a tensor map's offset") : 0;
    for (int i = 0; i < map->rank; i++) {
        bound->dims[i] = sim_dim(sim, map->dims[i], bindings, "a tensor map's dim");
        bound->strides[i] = sim_dim(sim, map->strides[i], bindings, "a tensor map's stride");
        int64_t bytes = bound->strides[i] * dtype_bits(map->elem) / 8;
        if (bound->dims[i] < 0 || bound->dims[i] > UINT32_MAX || bound->strides[i] < 0 ||
            (i > 0 && bytes % 16 != 0))
            sim_fail(sim, NULL, -1, "tensor map '%s': dim %d is %lld with a stride of %lld bytes",
                     param->name, i, (long long)bound->dims[i], (long long)bytes);
    }
    if (bound->offset * dtype_bits(map->elem) % 128 != 0)
        sim_fail(sim, NULL, -1, "tensor map '%s' begins at element %lld, not at 16 bytes", param->name,
                 (long long)bound->offset);
}

static void sim_bind(Sim *sim, const DimBindings *bindings, const SimBuffer *buffers, int n_buffers) {
    const Kernel *kernel = sim->kernel;
    sim->globals = ARENA_ARRAY(sim->arena, SimGlobal, kernel->buffers.n + 1);
    sim->maps = ARENA_ARRAY(sim->arena, SimMap, kernel->params.n + 1);
    sim->params = ARENA_ARRAY(sim->arena, int64_t, kernel->params.n + 1);
    sim_bind_grid(sim, bindings);
    for (size_t i = 0; i < kernel->params.n; i++) {
        const KParam *param = &kernel->params.at[i];
        switch (param->kind) {
        case PARAM_BUFFER:
            if (param->buffer->scratch)
                sim_bind_scratch(sim, param->buffer, bindings);
            else
                sim_bind_buffer(sim, param->buffer, buffers, n_buffers);
            break;
        case PARAM_DIM: sim->params[i] = sim_dim(sim, param->dim, bindings, "a dim parameter"); break;
        case PARAM_TENSOR_MAP: sim_bind_map(sim, param, &sim->maps[i], bindings); break;
        }
    }
}

static void sim_new_warp(Sim *sim, SimCta *cta, int number) {
    SimWarp *warp = &cta->warps[number];
    size_t n = (size_t)sim->n_registers;
    warp->cta = cta;
    warp->number = number;
    warp->agent = cta->rank * sim->n_warps + number;
    warp->registers = ARENA_ARRAY(sim->arena, Lanes, n);
    warp->set = ARENA_ARRAY(sim->arena, LaneMask, n);
    warp->in_flight = ARENA_ARRAY(sim->arena, uint8_t, n);
    warp->touched_at = ARENA_ARRAY(sim->arena, uint32_t, n);
    warp->clock = ARENA_ARRAY(sim->arena, uint32_t, (size_t)sim->n_agents);
}

static void sim_new_cta(Sim *sim, SimCta *cta, int rank) {
    size_t shared = (size_t)sim->kernel->smem_bytes + 1, agents = (size_t)sim->n_agents;
    cta->rank = rank;
    cta->shared = ARENA_ARRAY(sim->arena, uint8_t, shared);
    cta->shadow = ARENA_ARRAY(sim->arena, SimByte, shared);
    if (sim->options.check_races)
        cta->reads = ARENA_ARRAY(sim->arena, uint32_t, shared * (size_t)sim->n_warps);
    if (sim->options.check_races && sim->n_ctas > 1)
        cta->remote_reads = ARENA_ARRAY(sim->arena, SimRemoteRead, shared);
    for (int i = 0; i < SIM_NAMED_BARRIERS; i++)
        cta->barriers[i].clock = ARENA_ARRAY(sim->arena, uint32_t, agents);
    for (int i = 0; i < SIM_MBARRIERS; i++) {
        cta->mbarriers[i].arriving = ARENA_ARRAY(sim->arena, uint32_t, agents);
        cta->mbarriers[i].done = ARENA_ARRAY(sim->arena, uint32_t, agents);
    }
    cta->warps = ARENA_ARRAY(sim->arena, SimWarp, (size_t)sim->n_warps);
    for (int w = 0; w < sim->n_warps; w++)
        sim_new_warp(sim, cta, w);
}

static void sim_new_machine(Sim *sim) {
    const Kernel *kernel = sim->kernel;
    sim->n_warps = kernel->threads / SIM_LANES;
    sim->n_ctas = kernel->cluster[0] * kernel->cluster[1] * kernel->cluster[2] * kernel->gang;
    sim->n_agents = (2 * sim->n_warps + SIM_MBARRIERS) * sim->n_ctas;
    sim->cluster_arriving = ARENA_ARRAY(sim->arena, uint32_t, (size_t)sim->n_agents);
    sim->cluster_done = ARENA_ARRAY(sim->arena, uint32_t, (size_t)sim->n_agents);
    sim->meeting_clock = ARENA_ARRAY(sim->arena, uint32_t, (size_t)sim->n_agents);
    sim->ctas = ARENA_ARRAY(sim->arena, SimCta, (size_t)sim->n_ctas);
    for (int c = 0; c < sim->n_ctas; c++)
        sim_new_cta(sim, &sim->ctas[c], c);
}

bool simulate(const Kernel *kernel, const DimBindings *bindings, const SimBuffer *buffers, int n_buffers,
              const SimOptions *options, Diags *diags) {
    if (!kernel_verify(kernel, diags))
        return false;
    char message[4096] = "";
    ArenaMark mark = arena_mark(diags->arena);
    Sim sim = {.kernel = kernel, .arena = diags->arena, .options = *options};
    sim.message = text_new(sim.arena);
    if (!sim.options.step_limit)
        sim.options.step_limit = (uint64_t)1 << 34;
    sim_bind(&sim, bindings, buffers, n_buffers);
    if (!sim.failed) {
        sim_compile(&sim);
        sim_new_machine(&sim);
        sim_run_grid(&sim);
    }
    if (sim.failed) {
        size_t n = sim.message.n < sizeof message - 1 ? sim.message.n : sizeof message - 1;
        memcpy(message, sim.message.at, n);
    }
    arena_release(diags->arena, mark);
    if (sim.failed)
        diag_error(diags, DIAG_INTERNAL, sim.span, "%s", message);
    return !sim.failed;
}
