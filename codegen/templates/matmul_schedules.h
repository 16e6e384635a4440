/* Shared by the files that list a matrix product's schedules; nobody else includes it.
 *
 *     matmul_schedules.c           all paths, and which of them come first
 *     matmul_schedules_patches.c   convolutions by patches of the image (matmul_patch.c) */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_SCHEDULES_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_SCHEDULES_H

#include "codegen/templates/cost_matmul.h"

enum { SCHEDULES_MOST = 2048, WGMMA_STAGES = 12 };

typedef struct Candidates {
    Schedule at[SCHEDULES_MOST];
    int n;
} Candidates;

typedef bool SchedulesAccept(const MatmulPlan *plan, const Schedule *schedule, const char **why);

/* The most stages, from `most` down to 2, with which `blocks` blocks share an SM. */
void schedules_add_deepest(const Cost *c, SchedulesAccept *accepts, Candidates *found, Schedule s, int most,
                           int blocks);

/* Patches of rows, by steps of `step` channels or fewer, and of K; nothing where there are no windows. */
void schedules_patches(const Cost *c, SchedulesAccept *accepts, Candidates *found, int step);

#endif
