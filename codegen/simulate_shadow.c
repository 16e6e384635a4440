/* Who touched which byte when: reads of what nobody wrote, and races.
 *
 * A write (agent a, at a's time t) and a later access by warp w are ordered if w's clock has reached t in
 * component a. Lanes of one warp share a clock, which passes at every barrier, arrival and __syncwarp: two
 * lanes that touch a byte within one tick, one of them writing, race. Reads by TMA stores and wgmma last
 * until they are waited for: their time is the end of time till then.
 *
 * TMA and wgmma use the asynchronous proxy. They see an ordinary store only if the writer's warp fenced
 * behind it (fence.proxy.async, PTX ISA 9.7.13.4), and TMA writes behind ordinary reads only if the reader's
 * did, so that is looked for too. */
#include "codegen/simulate_internal.h"

enum { SHADOW_END_OF_TIME = 0xffffff };

void clock_merge(const Sim *sim, uint32_t *into, const uint32_t *from) {
    for (int i = 0; i < sim->n_agents; i++)
        if (into[i] < from[i])
            into[i] = from[i];
}

void clock_release(const Sim *sim, SimWarp *warp, uint32_t *into) {
    if (into)
        clock_merge(sim, into, warp->clock);
    warp->clock[warp->agent]++;
}

SimWriter shadow_writer(const SimWarp *warp) {
    return (SimWriter){.agent = warp->agent, .clock = warp->clock[warp->agent], .is_generic = true};
}

/* Whether what `agent` did at `clock` is over and known to the warp; lanes of a warp know of one another only
 * after a tick. */
static bool shadow_is_before(const SimWarp *warp, int lane, int agent, uint32_t clock, int other_lane) {
    if (agent == warp->agent && clock == warp->clock[agent])
        return other_lane == lane && lane != SIM_LANES_SEVERAL;
    return warp->clock[agent] >= clock;
}

/* What to call a byte of shared memory. */
static const char *shadow_name(Sim *sim, int64_t offset) {
    const KBuffer *found = NULL;
    for (size_t i = 0; i < sim->kernel->buffers.n; i++) {
        const KBuffer *buffer = sim->kernel->buffers.at[i];
        int64_t bytes;
        if (buffer->space == SPACE_SHARED && dtype_bytes(buffer->elem, buffer->count, &bytes) &&
            offset >= buffer->offset && offset < buffer->offset + bytes)
            found = buffer;
    }
    if (!found)
        return text_format(sim->arena, "shared byte %lld", (long long)offset);
    return text_format(sim->arena, "shared byte %lld ('%s'[%lld])", (long long)offset, found->name,
                       (long long)((offset - found->offset) * 8 / dtype_bits(found->elem)));
}

static const char *shadow_agent(Sim *sim, int agent) {
    int warps = sim->n_warps * sim->n_ctas;
    if (agent < warps)
        return text_format(sim->arena, "warp %d of block %d of the cluster", agent % sim->n_warps,
                           agent / sim->n_warps);
    if (agent < 2 * warps)
        return text_format(sim->arena, "cp.async of warp %d", (agent - warps) % sim->n_warps);
    return "a TMA copy";
}

static bool shadow_unwritten(Sim *sim, SimWarp *warp, int lane, int64_t offset, const SimByte *byte) {
    if (byte->flags & BYTE_MBARRIER)
        sim_fail(sim, warp, lane, "%s is part of an mbarrier", shadow_name(sim, offset));
    else
        sim_fail(sim, warp, lane, "%s is read, which nobody wrote", shadow_name(sim, offset));
    return false;
}

bool shadow_read(Sim *sim, SimWarp *issuer, int lane, int64_t offset, int64_t bytes) {
    SimCta *cta = issuer->cta;
    uint32_t now = issuer->clock[issuer->agent];
    for (int64_t at = offset; at < offset + bytes; at++) {
        SimByte *byte = &cta->shadow[at];
        if ((byte->flags & (BYTE_WRITTEN | BYTE_MBARRIER)) != BYTE_WRITTEN)
            return shadow_unwritten(sim, issuer, lane, at, byte);
        if (!cta->reads)
            continue;
        if (!shadow_is_before(issuer, lane, byte->write_agent, byte->write_clock, byte->write_lane)) {
            sim_fail(sim, issuer, lane, "race: %s is read while %s writes it", shadow_name(sim, at),
                     shadow_agent(sim, byte->write_agent));
            return false;
        }
        uint32_t *read = &cta->reads[at * sim->n_warps + issuer->number];
        if (*read >> 8 == now && (*read & 255) != (uint32_t)lane)
            *read |= SIM_LANES_SEVERAL;
        else if (*read >> 8 != SHADOW_END_OF_TIME)
            *read = now << 8 | (uint32_t)lane;
    }
    return true;
}

bool shadow_read_remote(Sim *sim, SimWarp *issuer, int lane, SimCta *cta, int64_t offset, int64_t bytes) {
    for (int64_t at = offset; at < offset + bytes; at++) {
        const SimByte *byte = &cta->shadow[at];
        if ((byte->flags & (BYTE_WRITTEN | BYTE_MBARRIER)) != BYTE_WRITTEN)
            return shadow_unwritten(sim, issuer, lane, at, byte);
        if (!cta->remote_reads)
            continue;
        if (issuer->clock[byte->write_agent] < byte->write_clock) {
            sim_fail(sim, issuer, lane, "race: %s of block %d of the cluster is read while %s writes it",
                     shadow_name(sim, at), cta->rank, shadow_agent(sim, byte->write_agent));
            return false;
        }
        cta->remote_reads[at] = (SimRemoteRead){
            .clock = issuer->clock[issuer->agent], .agent = (uint16_t)issuer->agent, .lane = (uint8_t)lane};
    }
    return true;
}

bool shadow_read_async(Sim *sim, SimWarp *issuer, int64_t offset, int64_t bytes) {
    SimCta *cta = issuer->cta;
    int first = cta->rank * sim->n_warps, warps = sim->n_warps * sim->n_ctas;
    for (int64_t at = offset; at < offset + bytes; at++) {
        SimByte *byte = &cta->shadow[at];
        if (byte->flags == BYTE_PARTIAL)
            continue;
        if ((byte->flags & (BYTE_WRITTEN | BYTE_MBARRIER)) != BYTE_WRITTEN)
            return shadow_unwritten(sim, issuer, -1, at, byte);
        if (!cta->reads)
            continue;
        if (issuer->clock[byte->write_agent] < byte->write_clock) {
            sim_fail(sim, issuer, -1, "race: %s is read by TMA or wgmma while %s writes it",
                     shadow_name(sim, at), shadow_agent(sim, byte->write_agent));
            return false;
        }
        if (byte->flags & BYTE_GENERIC) {
            bool is_copy = byte->write_agent >= warps;
            const SimWarp *writer = &cta->warps[byte->write_agent - (is_copy ? warps : 0) - first];
            const uint32_t *fences = is_copy ? writer->async_fence_copies : writer->async_fence;
            if (byte->write_clock > fences[byte->write_lane]) {
                sim_fail(sim, issuer, -1,
                         "%s is read by TMA or wgmma; its writer did not fence (fence_async)",
                         shadow_name(sim, at));
                return false;
            }
        }
        cta->reads[at * sim->n_warps + issuer->number] = (uint32_t)SHADOW_END_OF_TIME << 8 | SIM_LANES_ASYNC;
    }
    return true;
}

void shadow_read_done(Sim *sim, SimWarp *issuer, int64_t offset, int64_t bytes) {
    SimCta *cta = issuer->cta;
    uint32_t now = issuer->clock[issuer->agent];
    if (!cta->reads)
        return;
    for (int64_t at = offset; at < offset + bytes; at++)
        cta->reads[at * sim->n_warps + issuer->number] = now << 8 | SIM_LANES_ASYNC;
}

/* Whether an ordinary read comes before a write by TMA that it is ordered before: the reader fenced behind
 * it, or has waited for products of registers that were made of it. An arrival alone may overtake a read
 * whose result nothing waits for. */
static bool shadow_is_fenced(const SimWarp *reader, uint32_t clock, uint32_t lane) {
    return lane == SIM_LANES_ASYNC || reader->reads_over >= clock ||
           reader->async_fence[lane == SIM_LANES_SEVERAL ? 0 : lane] >= clock;
}

/* Whether every read of the byte is over before the issuer's write. */
static bool shadow_reads_are_over(Sim *sim, SimWarp *issuer, int lane, const SimCta *cta, int64_t at,
                                  bool is_generic) {
    const uint32_t *reads = &cta->reads[at * sim->n_warps];
    for (int w = 0; w < sim->n_warps; w++) {
        uint32_t clock = reads[w] >> 8;
        if (clock == 0)
            continue;
        if (clock == SHADOW_END_OF_TIME) {
            sim_fail(sim, issuer, lane, "race: %s is written while TMA or wgmma of warp %d still reads it",
                     shadow_name(sim, at), w);
            return false;
        }
        if (!shadow_is_before(issuer, lane, cta->rank * sim->n_warps + w, clock, (int)(reads[w] & 255))) {
            sim_fail(sim, issuer, lane, "race: %s is written while warp %d reads it", shadow_name(sim, at),
                     w);
            return false;
        }
        if (!is_generic && !shadow_is_fenced(&cta->warps[w], clock, reads[w] & 255)) {
            sim_fail(sim, issuer, lane,
                     "race: %s is written by TMA; warp %d did not fence behind its reads (fence_async)",
                     shadow_name(sim, at), w);
            return false;
        }
    }
    const SimRemoteRead *remote = cta->remote_reads ? &cta->remote_reads[at] : NULL;
    if (remote && remote->clock &&
        !shadow_is_before(issuer, lane, remote->agent, remote->clock, remote->lane)) {
        sim_fail(sim, issuer, lane, "race: %s is written while %s reads it", shadow_name(sim, at),
                 shadow_agent(sim, remote->agent));
        return false;
    }
    return true;
}

bool shadow_write(Sim *sim, SimWarp *issuer, int lane, SimCta *cta, int64_t offset, int64_t bytes,
                  SimWriter writer) {
    for (int64_t at = offset; at < offset + bytes; at++) {
        SimByte *byte = &cta->shadow[at];
        if (byte->flags & BYTE_MBARRIER) {
            sim_fail(sim, issuer, lane, "%s is written, part of an mbarrier", shadow_name(sim, at));
            return false;
        }
        if (cta->reads) {
            if ((byte->flags & BYTE_WRITTEN) &&
                !shadow_is_before(issuer, lane, byte->write_agent, byte->write_clock, byte->write_lane)) {
                sim_fail(sim, issuer, lane, "race: %s is written while %s writes it", shadow_name(sim, at),
                         shadow_agent(sim, byte->write_agent));
                return false;
            }
            if (!shadow_reads_are_over(sim, issuer, lane, cta, at, writer.is_generic))
                return false;
        }
        byte->flags = (uint8_t)(BYTE_WRITTEN | (writer.is_generic ? BYTE_GENERIC : 0));
        byte->write_agent = (uint16_t)writer.agent;
        byte->write_clock = writer.clock;
        byte->write_lane = (uint8_t)(lane < 0 ? SIM_LANES_SEVERAL : lane);
    }
    return true;
}

static bool shadow_element_is_before(Sim *sim, const SimWarp *warp, int lane, uint32_t unit, uint16_t agent,
                                     uint32_t clock) {
    if (unit == 0)
        return true;
    return unit == sim->unit && shadow_is_before(warp, lane, agent, clock >> 8, (int)(clock & 255));
}

bool shadow_global(Sim *sim, SimWarp *issuer, int lane, SimGlobal *global, int64_t first, int64_t count,
                   bool is_write, bool *again) {
    if (again)
        *again = false;
    if (!global->shadow)
        return true;
    uint32_t now = issuer->clock[issuer->agent] << 8 | (uint32_t)lane;
    for (int64_t i = first; i < first + count; i++) {
        SimElement *element = &global->shadow[i];
        bool after_write = shadow_element_is_before(sim, issuer, lane, element->write_unit,
                                                    element->write_agent, element->write_clock);
        bool after_read = !is_write || shadow_element_is_before(sim, issuer, lane, element->read_unit,
                                                                element->read_agent, element->read_clock);
        if (!after_write && after_read && again)
            after_write = *again = true;
        if (!after_write || !after_read) {
            sim_fail(sim, issuer, lane,
                     "race: element %lld of '%s' is %s, and %s by another thread without order", (long long)i,
                     global->buffer->name, is_write ? "written" : "read", after_write ? "read" : "written");
            return false;
        }
        if (is_write) {
            element->write_unit = sim->unit;
            element->write_agent = (uint16_t)issuer->agent;
            element->write_clock = now;
        } else if (element->read_unit && element->read_unit != sim->unit) {
            element->read_unit = UINT32_MAX; /* several clusters: nobody may write it any more */
        } else {
            element->read_unit = sim->unit;
            element->read_agent = (uint16_t)issuer->agent;
            element->read_clock = now;
        }
    }
    return true;
}

void shadow_store_begins(SimElement *element) {
    element->write_clock = (uint32_t)SHADOW_END_OF_TIME << 8 | SIM_LANES_SEVERAL;
}

void shadow_store_ends(const SimWarp *issuer, SimElement *element) {
    element->write_clock = issuer->clock[issuer->agent] << 8 | SIM_LANES_SEVERAL;
}
