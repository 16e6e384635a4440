/* What a tuner found: for a region on a device the schedule that measured best. Kept as the kernel cache
 * keeps code, in a directory beside it, one small text an entry:
 *
 *     schedule path=wgmma, tile=128x256x64, warps=2x1, stages=4, ...
 *     us 512.4
 *     model_us 530.1
 *
 * It may vanish or be damaged at any time, and nothing happens but that the cost model decides again. */
#ifndef SINTER_RUNTIME_TUNED_H
#define SINTER_RUNTIME_TUNED_H

#include "runtime/plan.h"

typedef struct Tuned {
    Schedule schedule;
    double us, model_us; /* measured: the schedule's time, and that of the cost model's choice */
} Tuned;

/* Of the region's text with its inputs' types, the values that are expected of symbolic dims, the target, the
 * device's name and Sinter's version. */
void tuned_key(const sinter_plan *plan, const Region *region, uint8_t key[CACHE_KEY_BYTES]);
/* False where there is no entry; *why then tells what is wrong with one that is there but unreadable, else it
 * is NULL. */
bool tuned_get(const sinter_context *context, Arena *arena, const uint8_t key[CACHE_KEY_BYTES], Tuned *out,
               const char **why);
void tuned_put(const sinter_context *context, Arena *arena, const uint8_t key[CACHE_KEY_BYTES],
               const Tuned *tuned);

#endif
