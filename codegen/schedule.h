/* Schedules as text: the words of @schedule(...), which `sinter explain` shows and a tuner keeps. */
#ifndef SINTER_CODEGEN_SCHEDULE_H
#define SINTER_CODEGEN_SCHEDULE_H

#include "ir/base/diag.h"
#include "ir/region.h"

/* The hint's fields over those of `schedule`. False, with DIAG_SCHEDULE, where it names a field that is none
 * or a value that the field does not take. */
bool schedule_apply_hint(const Hint *hint, Schedule *schedule, Diags *diags);
/* `path=wgmma, tile=128x256x64, stages=4`: the fields that are not zero. */
void schedule_print(Text *out, const Schedule *schedule);
/* Reads what schedule_print() writes; false where the text is anything else. */
bool schedule_parse(Arena *arena, const char *text, Schedule *out);
/* Whether they say the same; what is predicted of them does not count. */
bool schedule_equals(const Schedule *a, const Schedule *b);

/* The same, but that one of something (a block of a cluster, a part of K) is as good as none said. */
bool schedule_agrees(const Schedule *a, const Schedule *b);

/* schedule_near.c: those one step away, for a tuner to ask the template about; how many. */
int schedule_near(const Schedule *from, Schedule *out, int room);

/* wgmma: registers for the warpgroup that loads and for those that multiply, whose two take turns or,
 * `is_full`, hold much beside their sums: what there is. One alone keeps those at launch. */
void schedule_deal_registers(Schedule *schedule, bool is_full);

#endif
