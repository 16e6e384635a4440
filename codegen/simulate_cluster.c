/* Loads from the shared memory of another block of the cluster. */
#include "codegen/simulate_internal.h"

void sim_cluster_load(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    enum { WORDS = 4 };
    const Lanes *address = sim_operand(sim, warp, &stmt->operands[1], mask);
    const Lanes *rank = sim_operand(sim, warp, &stmt->operands[2], mask);
    int reg = stmt->operands[0].reg;
    FOR_LANES(lane, mask) {
        int64_t block = rank->at[lane].i;
        if (sim->failed)
            return;
        if (block < 0 || block >= sim->n_ctas || sim->ctas[block].running == 0) {
            sim_fail(sim, warp, (int)lane, "a load from block %lld of the cluster, which %s",
                     (long long)block, block < 0 || block >= sim->n_ctas ? "does not exist" : "has ended");
            return;
        }
        SimCta *cta = &sim->ctas[block];
        int64_t offset = sim_shared_offset(sim, warp, (int)lane, address->at[lane].i, 4 * WORDS, 4 * WORDS);
        bool ok = offset >= 0 &&
                  (cta == warp->cta ? shadow_read(sim, warp, (int)lane, offset, 4 * WORDS)
                                    : shadow_read_remote(sim, warp, (int)lane, cta, offset, 4 * WORDS));
        if (!ok)
            return;
        for (int i = 0; i < WORDS; i++) {
            uint32_t word;
            memcpy(&word, cta->shared + offset + 4 * i, sizeof word);
            warp->registers[reg + i].at[lane].i = word;
        }
    }
    for (int i = 0; i < WORDS; i++)
        sim_set_register(sim, warp, reg + i, mask);
}
