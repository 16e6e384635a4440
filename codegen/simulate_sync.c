/* Barriers, mbarriers, the cluster's barrier, fences; who waits for what, and what to say when everybody
 * waits. */
#include "codegen/simulate_internal.h"

void sim_reset_sync(Sim *sim) {
    size_t clock_bytes = (size_t)sim->n_agents * sizeof(uint32_t);
    for (int c = 0; c < sim->n_ctas; c++) {
        SimCta *cta = &sim->ctas[c];
        for (int i = 0; i < SIM_NAMED_BARRIERS; i++) {
            cta->barriers[i].arrived = 0;
            memset(cta->barriers[i].clock, 0, clock_bytes);
        }
        cta->n_mbarriers = 0;
    }
    sim->on_the_way.n = 0;
    sim->cluster_arrived = 0;
    sim->cluster_phase = 0;
    memset(sim->cluster_arriving, 0, clock_bytes);
    memset(sim->cluster_done, 0, clock_bytes);
    sim->meeting = 0;
    memset(sim->meeting_clock, 0, clock_bytes);
}

/* Atoms that the ISA calls .aligned need every lane of the warp. */
static bool sync_is_converged(Sim *sim, const SimWarp *warp, LaneMask mask) {
    if (mask != SIM_ALL_LANES)
        sim_fail(sim, warp, -1, "all lanes of a warp execute this together; lanes %#x do", mask);
    return mask == SIM_ALL_LANES;
}

/* ---- barriers of a block ------------------------------------------------------------------------------- */

void sim_barrier(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    if (!sync_is_converged(sim, warp, mask))
        return;
    int id = (int)sim_operand_uniform(sim, warp, &stmt->operands[0], mask);
    int threads = (int)sim_operand_uniform(sim, warp, &stmt->operands[1], mask);
    SimNamedBarrier *barrier = &warp->cta->barriers[id];
    if (barrier->arrived && barrier->expected != threads) {
        sim_fail(sim, warp, -1, "barrier %d is for %d threads here and for %d elsewhere", id, threads,
                 barrier->expected);
        return;
    }
    barrier->expected = threads;
    barrier->arrived += SIM_LANES;
    clock_release(sim, warp, barrier->clock);
    if (stmt->source->atom == ATOM_bar_sync)
        warp->wait = (SimWait){.kind = WAIT_BARRIER, .barrier = id};
    if (barrier->arrived < barrier->expected)
        return;
    for (int w = 0; w < sim->n_warps; w++) {
        SimWarp *waiting = &warp->cta->warps[w];
        if (waiting->wait.kind == WAIT_BARRIER && waiting->wait.barrier == id) {
            clock_merge(sim, waiting->clock, barrier->clock);
            waiting->wait.kind = WAIT_NONE;
        }
    }
    barrier->arrived = 0;
    memset(barrier->clock, 0, (size_t)sim->n_agents * sizeof(uint32_t));
}

/* Copies by cp.async of other warps that this one knows to be complete: a fence stands for them, too, on the
 * way from it to who reads them. */
static void sync_fence_copies(Sim *sim, const SimWarp *warp) {
    for (int w = 0; w < sim->n_warps; w++) {
        SimWarp *copier = &warp->cta->warps[w];
        uint32_t complete = warp->clock[sim->n_warps * sim->n_ctas + copier->agent];
        for (int lane = 0; lane < SIM_LANES && copier != warp; lane++)
            if (copier->async_fence_copies[lane] < complete)
                copier->async_fence_copies[lane] = complete;
    }
}

void sim_fence(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    if (stmt->source->atom == ATOM_warp_sync && !sync_is_converged(sim, warp, mask))
        return;
    FOR_LANES(lane, mask)
    switch (stmt->source->atom) {
    case ATOM_fence_async:
        warp->async_fence[lane] = warp->clock[warp->agent];
        warp->async_fence_copies[lane] = warp->clock[sim->n_warps * sim->n_ctas + warp->agent];
        break;
    case ATOM_fence_mbar_init: warp->mbarrier_fence[lane] = warp->clock[warp->agent]; break;
    default: break; /* ATOM_warp_sync: time passes */
    }
    if (stmt->source->atom == ATOM_fence_async)
        sync_fence_copies(sim, warp);
    clock_release(sim, warp, NULL);
}

/* ---- the cluster's barrier ----------------------------------------------------------------------------- */

static void sync_complete_cluster(Sim *sim) {
    if (sim->cluster_arrived == 0 || sim->cluster_arrived < sim->running)
        return;
    sim->cluster_arrived = 0;
    sim->cluster_phase++;
    clock_merge(sim, sim->cluster_done, sim->cluster_arriving);
}

void sim_cluster(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    if (!sync_is_converged(sim, warp, mask))
        return;
    bool is_arrival = stmt->source->atom == ATOM_cluster_arrive;
    if (is_arrival == warp->cluster_arrived) {
        sim_fail(sim, warp, -1,
                 is_arrival ? "a second arrival at the cluster's barrier without a wait"
                            : "a wait for the cluster's barrier without an arrival");
        return;
    }
    warp->cluster_arrived = is_arrival;
    if (!is_arrival) {
        warp->wait = (SimWait){.kind = WAIT_CLUSTER};
        return;
    }
    warp->cluster_phase = sim->cluster_phase;
    sim->cluster_arrived++;
    clock_release(sim, warp, sim->cluster_arriving);
    sync_complete_cluster(sim);
}

void sim_warp_exits(Sim *sim, SimWarp *warp) {
    warp->finished = true;
    warp->cta->running--;
    sim->running--;
    bool is_read = true;
    for (size_t i = 0; i < warp->bulks.n; i++)
        is_read &= warp->bulks.at[i].is_read;
    if (!is_read)
        sim_fail(sim, warp, -1, "the block ends while a TMA store may still read its shared memory");
    sim_check_warpgroup(sim, warp);
    sync_complete_cluster(sim);
}

/* ---- mbarriers ----------------------------------------------------------------------------------------- */

static SimMbarrier *sync_find_mbarrier(SimCta *cta, int64_t offset) {
    for (int i = 0; i < cta->n_mbarriers; i++)
        if (cta->mbarriers[i].offset == offset)
            return &cta->mbarriers[i];
    return NULL;
}

SimMbarrier *sim_mbarrier(Sim *sim, SimWarp *warp, int lane, SimCta *cta, int64_t address, bool is_remote) {
    int64_t offset = sim_shared_offset(sim, warp, lane, address, 8, 8);
    if (offset < 0)
        return NULL;
    SimMbarrier *mbarrier = sync_find_mbarrier(cta, offset);
    if (!mbarrier) {
        sim_fail(sim, warp, lane, "shared byte %lld of block %d of the cluster is no mbarrier yet",
                 (long long)offset, cta->rank);
        return NULL;
    }
    if (!sim->options.check_races)
        return mbarrier;
    if (warp->clock[mbarrier->init_agent] < mbarrier->init_clock) {
        sim_fail(sim, warp, lane, "race: the mbarrier at shared byte %lld is used while it is initialized",
                 (long long)offset);
        return NULL;
    }
    const SimWarp *init =
        &sim->ctas[mbarrier->init_agent / sim->n_warps].warps[mbarrier->init_agent % sim->n_warps];
    if (is_remote && init->mbarrier_fence[mbarrier->init_lane] < mbarrier->init_clock &&
        init->async_fence[mbarrier->init_lane] < mbarrier->init_clock) {
        sim_fail(sim, warp, lane,
                 "the mbarrier at shared byte %lld is used by TMA or by another block; its "
                 "initialization was not fenced (fence_mbar_init)",
                 (long long)offset);
        return NULL;
    }
    return mbarrier;
}

static void sync_init_mbarrier(Sim *sim, SimWarp *warp, int lane, int64_t address, int64_t count) {
    SimCta *cta = warp->cta;
    int64_t offset = sim_shared_offset(sim, warp, lane, address, 8, 8);
    if (offset < 0)
        return;
    if (count < 1 || count > 1048575) {
        sim_fail(sim, warp, lane, "an mbarrier for %lld arrivals", (long long)count);
        return;
    }
    SimMbarrier *mbarrier = sync_find_mbarrier(cta, offset);
    if (!mbarrier) {
        if (cta->n_mbarriers == SIM_MBARRIERS) {
            sim_fail(sim, warp, lane, "more than %d mbarriers in a block", SIM_MBARRIERS);
            return;
        }
        mbarrier = &cta->mbarriers[cta->n_mbarriers];
        mbarrier->offset = offset;
        mbarrier->agent = 2 * sim->n_warps * sim->n_ctas + cta->rank * SIM_MBARRIERS + cta->n_mbarriers++;
        memset(mbarrier->arriving, 0, (size_t)sim->n_agents * sizeof(uint32_t));
        memset(mbarrier->done, 0, (size_t)sim->n_agents * sizeof(uint32_t));
        if (!shadow_write(sim, warp, lane, cta, offset, 8, shadow_writer(warp)))
            return;
    }
    for (int i = 0; i < 8; i++)
        cta->shadow[offset + i].flags = BYTE_MBARRIER;
    mbarrier->count = mbarrier->pending = (int)count;
    mbarrier->bytes = 0;
    mbarrier->phase = 0;
    mbarrier->init_agent = warp->agent;
    mbarrier->init_lane = lane;
    mbarrier->init_clock = warp->clock[warp->agent];
}

static void sync_complete_mbarrier(const Sim *sim, SimMbarrier *mbarrier) {
    if (mbarrier->pending > 0 || mbarrier->bytes != 0)
        return;
    mbarrier->phase++;
    mbarrier->pending = mbarrier->count;
    clock_merge(sim, mbarrier->done, mbarrier->arriving);
    mbarrier->done[mbarrier->agent] = mbarrier->phase;
    memset(mbarrier->arriving, 0, (size_t)sim->n_agents * sizeof(uint32_t));
}

void sim_mbarrier_expect_bytes(Sim *sim, SimMbarrier *mbarrier, int64_t bytes) {
    SimArrival arrival = {mbarrier, bytes};
    vec_push(sim->arena, &sim->on_the_way, arrival);
}

bool sim_arrive_late(Sim *sim) {
    if (!sim->on_the_way.n)
        return false;
    sim->chance = sim->chance * 1664525 + 1013904223; /* Numerical Recipes */
    size_t i = (sim->chance >> 16) % sim->on_the_way.n;
    SimArrival arrival = sim->on_the_way.at[i];
    sim->on_the_way.at[i] = sim->on_the_way.at[--sim->on_the_way.n];
    arrival.mbarrier->bytes -= arrival.bytes;
    sync_complete_mbarrier(sim, arrival.mbarrier);
    return true;
}

/* `is_for_copies`: in the name of the warp's copies alone; what else it has done is not ordered before. */
static void sync_arrive(Sim *sim, SimWarp *warp, int lane, SimMbarrier *mbarrier, int64_t bytes,
                        bool is_for_copies) {
    if (!mbarrier)
        return;
    if (mbarrier->pending == 0) {
        sim_fail(sim, warp, lane,
                 "the mbarrier at shared byte %lld gets more than its %d arrivals in a phase",
                 (long long)mbarrier->offset, mbarrier->count);
        return;
    }
    if (is_for_copies) {
        uint32_t *complete = &mbarrier->arriving[sim->n_warps * sim->n_ctas + warp->agent];
        *complete = warp->copy_groups > *complete ? warp->copy_groups : *complete;
    } else {
        clock_merge(sim, mbarrier->arriving, warp->clock);
    }
    mbarrier->pending--;
    mbarrier->bytes += bytes;
    sync_complete_mbarrier(sim, mbarrier);
}

static void sync_wait_mbarrier(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    int64_t address = sim_operand_uniform(sim, warp, &stmt->operands[0], mask);
    int64_t parity = sim_operand_uniform(sim, warp, &stmt->operands[1], mask);
    if (parity & ~1)
        sim_fail(sim, warp, -1, "an mbarrier's parity is %lld", (long long)parity);
    SimMbarrier *mbarrier = sim->failed ? NULL : sim_mbarrier(sim, warp, -1, warp->cta, address, false);
    if (mbarrier)
        warp->wait = (SimWait){.kind = WAIT_MBARRIER, .mbarrier = mbarrier, .parity = (uint32_t)parity};
}

/* Those of the lanes that arrive: all, or whose number, the second operand, is below the third. */
static LaneMask sync_arriving(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    AtomId atom = stmt->source->atom;
    if (atom != ATOM_mbar_arrive_early && atom != ATOM_mbar_arrive_remote_early)
        return mask;
    const Lanes *number = sim_operand(sim, warp, &stmt->operands[1], mask),
                *end = sim_operand(sim, warp, &stmt->operands[2], mask);
    LaneMask arriving = 0;
    FOR_LANES(lane, mask) {
        if (number->at[lane].i < end->at[lane].i)
            arriving |= (LaneMask)1 << lane;
    }
    return arriving;
}

void sim_mbarrier_atom(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    AtomId atom = stmt->source->atom;
    if (atom == ATOM_mbar_wait) {
        sync_wait_mbarrier(sim, warp, stmt, mask);
        return;
    }
    if (atom == ATOM_cp_async_arrive) /* closes a group, as which the copies are known */
        warp->copy_groups++;
    mask = sync_arriving(sim, warp, stmt, mask);
    const Lanes *address = sim_operand(sim, warp, &stmt->operands[0], mask);
    int n = stmt->source->n_operands;
    const Lanes *second = n > 1 ? sim_operand(sim, warp, &stmt->operands[n - 1], mask) : NULL;
    FOR_LANES(lane, mask) {
        int64_t at = address->at[lane].i, value = second ? second->at[lane].i : 0;
        if (sim->failed)
            return;
        switch (atom) {
        case ATOM_mbar_init: sync_init_mbarrier(sim, warp, (int)lane, at, value); break;
        case ATOM_mbar_arrive:
        case ATOM_mbar_arrive_early:
        case ATOM_cp_async_arrive:
        case ATOM_mbar_expect_tx:
            sync_arrive(sim, warp, (int)lane, sim_mbarrier(sim, warp, (int)lane, warp->cta, at, false),
                        atom == ATOM_mbar_expect_tx ? value : 0, atom == ATOM_cp_async_arrive);
            break;
        default: { /* ATOM_mbar_arrive_remote, ATOM_mbar_arrive_remote_early */
            if (value < 0 || value >= sim->n_ctas || sim->ctas[value].running == 0) {
                sim_fail(sim, warp, (int)lane, "an arrival at block %lld of the cluster, which %s",
                         (long long)value,
                         value < 0 || value >= sim->n_ctas ? "does not exist" : "has ended");
                return;
            }
            SimCta *cta = &sim->ctas[value];
            sync_arrive(sim, warp, (int)lane, sim_mbarrier(sim, warp, (int)lane, cta, at, cta != warp->cta),
                        0, false);
            break;
        }
        }
    }
    clock_release(sim, warp, NULL);
}

/* ---- waiting ------------------------------------------------------------------------------------------- */

/* Whether the warp may go on; if so, it knows what happened before. */
bool sim_wait_is_over(Sim *sim, SimWarp *warp) {
    switch (warp->wait.kind) {
    case WAIT_NONE: return true;
    case WAIT_BARRIER: return false; /* the last arrival ends it */
    case WAIT_MBARRIER:
        if ((warp->wait.mbarrier->phase & 1) == warp->wait.parity)
            return false;
        clock_merge(sim, warp->clock, warp->wait.mbarrier->done);
        break;
    case WAIT_CLUSTER:
        if (sim->cluster_phase == warp->cluster_phase)
            return false;
        clock_merge(sim, warp->clock, sim->cluster_done);
        break;
    case WAIT_PACKET:
        if (sim->packets == warp->wait.packets)
            return false;
        break; /* it looks again */
    }
    warp->wait.kind = WAIT_NONE;
    return true;
}

static void sync_print_wait(Text *out, const Sim *sim, const SimWarp *warp) {
    text_add(out, "; block (%lld, %lld, %lld) warp %d waits for ", (long long)warp->cta->x,
             (long long)warp->cta->y, (long long)warp->cta->z, warp->number);
    const SimMbarrier *mbarrier = warp->wait.mbarrier;
    switch (warp->wait.kind) {
    case WAIT_BARRIER: {
        const SimNamedBarrier *barrier = &warp->cta->barriers[warp->wait.barrier];
        text_add(out, "barrier %d, where %d of %d threads are", warp->wait.barrier, barrier->arrived,
                 barrier->expected);
        return;
    }
    case WAIT_MBARRIER:
        text_add(out,
                 "parity %u of the mbarrier at shared byte %lld, in phase %u with %d of %d arrivals and %lld "
                 "bytes "
                 "to come",
                 warp->wait.parity, (long long)mbarrier->offset, mbarrier->phase, mbarrier->pending,
                 mbarrier->count, (long long)mbarrier->bytes);
        return;
    case WAIT_CLUSTER:
        text_add(out, "the cluster's barrier, where %d of %d warps are", sim->cluster_arrived, sim->running);
        return;
    case WAIT_PACKET: text_add(out, "a packet of round %u", warp->wait.round); return;
    case WAIT_NONE: return;
    }
}

void sim_report_deadlock(Sim *sim) {
    enum { SHOWN = 16 };
    int shown = 0, waiting = 0;
    Text text = text_new(sim->arena);
    for (int c = 0; c < sim->n_ctas; c++)
        for (int w = 0; w < sim->n_warps; w++) {
            const SimWarp *warp = &sim->ctas[c].warps[w];
            if (warp->finished)
                continue;
            waiting++;
            if (shown++ < SHOWN)
                sync_print_wait(&text, sim, warp);
        }
    if (waiting > SHOWN)
        text_add(&text, "; and %d more", waiting - SHOWN);
    sim->stmt = NULL;
    sim_fail(sim, NULL, -1, "deadlock: all %d warps that run wait%s", waiting, text.at);
}
