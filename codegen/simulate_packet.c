/* Words by which the blocks of a gang wait for each other.
 *
 * Packets: words of 64 bits that are written and read whole, without any order towards other memory. So they
 * race with nobody, and a warp that has one knows nothing else of its sender.
 *
 * Flags: raised, or added to, behind what their warp has done, and waited for in front of what reads it.
 *
 * Tickets: numbers that each are given out once, and that order nothing.
 *
 * The grid's barrier: once, by one thread of each of the blocks that run together. */
#include "codegen/simulate_internal.h"

enum { PACKET_VALUES = 2, PACKET_BYTES = 8 * PACKET_VALUES };

/* The packet at a lane's address, as value and round twice; NULL after a report. */
static uint32_t *packet_at(Sim *sim, SimWarp *warp, LaneMask lane, int64_t address) {
    return (uint32_t *)(void *)sim_global_bytes(sim, warp, (int)lane, address, PACKET_BYTES, PACKET_BYTES,
                                                true);
}

static void packet_send(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    /* evaluating one operand may reuse the place of another's value */
    Lanes address = *sim_operand(sim, warp, &stmt->operands[0], mask);
    Lanes round = *sim_operand(sim, warp, &stmt->operands[1 + PACKET_VALUES], mask);
    for (int i = 0; i < PACKET_VALUES; i++) {
        const Lanes *value = sim_operand(sim, warp, &stmt->operands[1 + i], mask);
        FOR_LANES(lane, mask) {
            uint32_t *packet = packet_at(sim, warp, lane, address.at[lane].i);
            if (!packet)
                return;
            packet[2 * i] = (uint32_t)value->at[lane].i;
            packet[2 * i + 1] = (uint32_t)round.at[lane].i;
        }
    }
    sim->packets++;
}

/* Looks at the packets of the lanes, and sets their registers to what is there. */
static bool packet_look(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    const Lanes *address = sim_operand(sim, warp, &stmt->operands[2 * PACKET_VALUES], mask);
    for (int i = 0; i < 2 * PACKET_VALUES; i++) {
        Lanes *to = &warp->registers[stmt->operands[i].reg];
        bool is_signed = stmt->source->operands[i].var->type == K_I32;
        FOR_LANES(lane, mask) {
            const uint32_t *packet = packet_at(sim, warp, lane, address->at[lane].i);
            if (!packet)
                return false;
            uint32_t bits = packet[2 * (i % PACKET_VALUES) + i / PACKET_VALUES];
            to->at[lane].i = is_signed ? (int64_t)(int32_t)bits : (int64_t)bits;
        }
        sim_set_register(sim, warp, stmt->operands[i].reg, mask);
    }
    return true;
}

/* The lanes that have seen another round than they wait for. */
static LaneMask packet_old(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    LaneMask old = 0;
    Lanes round = *sim_operand(sim, warp, &stmt->operands[2 * PACKET_VALUES + 1], mask);
    for (int i = 0; i < PACKET_VALUES; i++) {
        const Lanes *seen = sim_operand(sim, warp, &stmt->operands[PACKET_VALUES + i], mask);
        FOR_LANES(lane, mask)
        if ((uint32_t)seen->at[lane].i != (uint32_t)round.at[lane].i)
            old |= 1u << lane;
    }
    return old;
}

static void packet_wait(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    LaneMask old = packet_old(sim, warp, stmt, mask);
    if (!old || !packet_look(sim, warp, stmt, old))
        return;
    old = packet_old(sim, warp, stmt, old);
    if (!old)
        return;
    const Lanes *round = sim_operand(sim, warp, &stmt->operands[2 * PACKET_VALUES + 1], mask);
    warp->wait = (SimWait){
        .kind = WAIT_PACKET, .packets = sim->packets, .round = (uint32_t)round->at[__builtin_ctz(old)].i};
    warp->frames.at[warp->frames.n - 1].next--; /* the same statement again, once packets have come */
}

void sim_packet(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    switch (stmt->source->atom) {
    case ATOM_packet_send: packet_send(sim, warp, stmt, mask); return;
    case ATOM_packet_peek: packet_look(sim, warp, stmt, mask); return;
    default: packet_wait(sim, warp, stmt, mask); return;
    }
}

/* The raised flag at an address; NULL: it is not. */
static SimFlag *flag_find(const Sim *sim, const uint32_t *at) {
    for (size_t i = 0; i < sim->flags.n; i++)
        if (sim->flags.at[i].at == at)
            return &sim->flags.at[i];
    return NULL;
}

static uint32_t *flag_at(Sim *sim, SimWarp *warp, LaneMask lane, int64_t address) {
    return (uint32_t *)(void *)sim_global_bytes(sim, warp, (int)lane, address, 4, 4, true);
}

/* Who has waited for the flag knows what the warp does now, and what those know that raised it before. */
static void flag_release(Sim *sim, SimWarp *warp, uint32_t *at) {
    SimFlag *flag = flag_find(sim, at);
    if (!flag) {
        SimFlag raised = {at, ARENA_ARRAY(sim->arena, uint32_t, (size_t)sim->n_agents)};
        vec_push(sim->arena, &sim->flags, raised);
        flag = &sim->flags.at[sim->flags.n - 1];
    }
    clock_release(sim, warp, flag->clock);
    flag->clock[warp->agent]--; /* not what other lanes did within this tick */
}

static void flag_raise(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    Lanes address = *sim_operand(sim, warp, &stmt->operands[0], mask);
    const Lanes *value = sim_operand(sim, warp, &stmt->operands[1], mask);
    FOR_LANES(lane, mask) {
        uint32_t *at = flag_at(sim, warp, lane, address.at[lane].i);
        if (!at)
            return;
        uint32_t before = stmt->source->atom == ATOM_flag_add ? *at : 0;
        *at = before + (uint32_t)value->at[lane].i;
        flag_release(sim, warp, at);
    }
    sim->packets++;
}

static void flag_wait(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    Lanes address = *sim_operand(sim, warp, &stmt->operands[0], mask);
    const Lanes *value = sim_operand(sim, warp, &stmt->operands[1], mask);
    FOR_LANES(lane, mask) {
        const uint32_t *at = flag_at(sim, warp, lane, address.at[lane].i);
        if (!at)
            return;
        const SimFlag *flag = flag_find(sim, at);
        uint32_t wanted = (uint32_t)value->at[lane].i;
        bool is_there = stmt->source->atom == ATOM_flag_reach ? *at >= wanted : *at == wanted;
        if (!is_there || !flag) {
            warp->wait = (SimWait){.kind = WAIT_PACKET, .packets = sim->packets, .round = wanted};
            warp->frames.at[warp->frames.n - 1].next--; /* the same statement again */
            return;
        }
        clock_merge(sim, warp->clock, flag->clock);
    }
}

void sim_flag(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    switch (stmt->source->atom) {
    case ATOM_flag_raise:
    case ATOM_flag_add: flag_raise(sim, warp, stmt, mask); return;
    default: flag_wait(sim, warp, stmt, mask); return;
    }
}

void sim_ticket(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    Lanes address = *sim_operand(sim, warp, &stmt->operands[1], mask);
    Lanes value = *sim_operand(sim, warp, &stmt->operands[2], mask);
    Lanes *to = &warp->registers[stmt->operands[0].reg];
    bool is_signed = stmt->source->operands[0].var->type == K_I32;
    FOR_LANES(lane, mask) {
        uint32_t *at = flag_at(sim, warp, lane, address.at[lane].i);
        if (!at)
            return;
        to->at[lane].i = is_signed ? (int64_t)(int32_t)*at : (int64_t)*at;
        *at += (uint32_t)value.at[lane].i;
    }
    sim_set_register(sim, warp, stmt->operands[0].reg, mask);
}

void sim_grid_meet(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    (void)stmt;
    if (!warp->is_meeting) {
        if ((mask & (mask - 1)) != 0 || sim->meeting == sim->n_ctas)
            sim_fail(sim, warp, -1,
                     "a block comes to the grid's barrier a second time, or with several threads");
        warp->is_meeting = true;
        sim->meeting++;
        sim->packets++;
        clock_release(sim, warp, sim->meeting_clock);
    }
    if (sim->meeting == sim->n_ctas) {
        clock_merge(sim, warp->clock, sim->meeting_clock);
        warp->is_meeting = false;
        return;
    }
    warp->wait = (SimWait){.kind = WAIT_PACKET, .packets = sim->packets};
    warp->frames.at[warp->frames.n - 1].next--; /* the same statement again, once others have come */
}
