/* From a region to a kernel: the schedule, with what the graph's @schedule asks for over the template's
 * choice, then the build. */
#include "codegen/codegen.h"

#include <stddef.h>

/* Fields of a schedule as @schedule names them: `n` numbers (tile=128x256x64 fills three fields). */
typedef struct HintField {
    const char *name;
    int n;
    size_t offset[3];
    bool is_flag;
} HintField;

#define FIELD(NAME) offsetof(Schedule, NAME)
static const HintField codegen_fields[] = {
    {"threads", 1, {FIELD(threads)}, false},
    {"vector", 1, {FIELD(vector)}, false},
    {"unroll", 1, {FIELD(unroll)}, false},
    {"threads_per_row", 1, {FIELD(threads_per_row)}, false},
    {"rows_per_block", 1, {FIELD(rows_per_block)}, false},
    {"resident", 1, {FIELD(resident)}, true},
    {"row_in_smem", 1, {FIELD(row_in_smem)}, true},
    {"tile_rows", 1, {FIELD(tile_rows)}, false},
    {"tile_cols", 1, {FIELD(tile_cols)}, false},
    {"tile", 3, {FIELD(tile_m), FIELD(tile_n), FIELD(tile_k)}, false},
    {"warps", 2, {FIELD(warps_m), FIELD(warps_n)}, false},
    {"stages", 1, {FIELD(stages)}, false},
    {"later_stages", 1, {FIELD(later_stages)}, false},
    {"cluster", 2, {FIELD(cluster_m), FIELD(cluster_n)}, false},
    {"split_k", 1, {FIELD(split_k)}, false},
    {"group_m", 1, {FIELD(group_m)}, false},
    {"persistent", 1, {FIELD(persistent)}, true},
    {"swap_ab", 1, {FIELD(swap_ab)}, true},
    {"tma_store", 1, {FIELD(tma_store)}, true},
    {"ping_pong", 1, {FIELD(ping_pong)}, true},
    {"promote", 1, {FIELD(promote)}, true},
    {"converters", 1, {FIELD(converters)}, false},
    {"registers", 2, {FIELD(producer_registers), FIELD(consumer_registers)}, false},
};
#undef FIELD

static const struct {
    const char *name;
    MatmulPath path;
} codegen_paths[] = {{"loop", MATMUL_LOOP},
                     {"simt", MATMUL_SIMT},
                     {"gemv", MATMUL_GEMV},
                     {"mma", MATMUL_MMA_SYNC},
                     {"wgmma", MATMUL_WGMMA}};

/* Sets a flag from true, false, 1 or 0. */
static bool codegen_flag(const HintArg *arg, bool *out) {
    bool is_true = arg->word && !strcmp(arg->word, "true"),
         is_false = arg->word && !strcmp(arg->word, "false");
    bool is_number = !arg->word && arg->n == 1 && (arg->values[0] == 0 || arg->values[0] == 1);
    *out = is_true || (is_number && arg->values[0]);
    return is_true || is_false || is_number;
}

/* Writes one argument of @schedule into the schedule; NULL, or a person's words why not. */
static const char *codegen_apply_arg(const HintArg *arg, Schedule *schedule) {
    if (!strcmp(arg->name, "path")) {
        for (size_t i = 0; arg->word && i < sizeof codegen_paths / sizeof *codegen_paths; i++)
            if (!strcmp(codegen_paths[i].name, arg->word)) {
                schedule->path = codegen_paths[i].path;
                return NULL;
            }
        return "path is one of loop, gemv, simt, mma and wgmma";
    }
    for (size_t i = 0; i < sizeof codegen_fields / sizeof *codegen_fields; i++) {
        const HintField *field = &codegen_fields[i];
        if (strcmp(field->name, arg->name) != 0)
            continue;
        if (field->is_flag)
            return codegen_flag(arg, (bool *)((char *)schedule + field->offset[0]))
                       ? NULL
                       : "a flag is true or false";
        bool is_off = !arg->word && arg->n == 1 && arg->values[0] == 0; /* 0 alone turns all of it off */
        if (arg->word || (arg->n != field->n && !is_off))
            return field->n == 1   ? "it takes one number"
                   : field->n == 2 ? "it takes two numbers, as in 2x1"
                                   : "it takes three numbers, as in 128x256x64";
        for (int k = 0; k < field->n; k++) {
            int64_t value = is_off ? 0 : arg->values[k];
            if (value < 0 || value > 1 << 20)
                return "the number is out of range";
            *(int *)((char *)schedule + field->offset[k]) = (int)value;
        }
        return NULL;
    }
    return "a schedule has no such field";
}

static bool codegen_apply_hint(const Hint *hint, Schedule *schedule, Diags *diags) {
    for (size_t i = 0; i < hint->args.n; i++) {
        const char *why = codegen_apply_arg(&hint->args.at[i], schedule);
        if (why) {
            diag_error(diags, DIAG_SCHEDULE, hint->span, "@schedule(%s): %s", hint->args.at[i].name, why);
            return false;
        }
    }
    return true;
}

bool codegen_schedule(const Graph *graph, Region *region, const Target *target, const DimBindings *hint,
                      Diags *diags) {
    enum { ROOM = 16 };
    Schedule choices[ROOM];
    const Template *template = template_of(region->kind);
    template->schedules(graph, region, target, hint, choices, ROOM);
    region->schedule = choices[0];
    if (!region->schedule_hint)
        return true;
    if (!codegen_apply_hint(region->schedule_hint, &region->schedule, diags))
        return false;
    const char *why = "the template refuses it";
    if (template->accepts(graph, region, &region->schedule, target, &why))
        return true;
    diag_error(diags, DIAG_SCHEDULE, region->schedule_hint->span,
               "the %s template cannot do this @schedule: %s", template->name, why);
    return false;
}

bool codegen_takes(const Graph *graph, const Region *region, const Target *target, const char **why) {
    Schedule choices[2]; /* the second is the loop, where that is not all there is */
    *why = "its template has no schedule for it";
    return template_of(region->kind)->schedules(graph, region, target, NULL, choices, 2) > 0 &&
           choices[0].path != MATMUL_LOOP;
}

/* What takes a region that its own template refuses, with the schedule set: rows and columns aside, every
 * region is pointwise if need be; and one thread an element takes them all. */
static const Template *codegen_fallback(const Graph *graph, Region *region, const Target *target) {
    const char *why;
    if (region->n_reduced == 0 && region->cores.n == 0) {
        template_pointwise.schedules(graph, region, target, NULL, &region->schedule, 1);
        if (template_pointwise.accepts(graph, region, &region->schedule, target, &why))
            return &template_pointwise;
    }
    template_any.schedules(graph, region, target, NULL, &region->schedule, 1);
    return &template_any;
}

/* Programmatic dependent launch: the kernels of a plan start while the one before still runs, so that
 * launches and first instructions overlap. Each waits, before it touches memory, until the one before has
 * completed, which by the same rule is after all before that; and lets the next start as soon as all of its
 * own blocks run. */
static void codegen_order(Builder *b, const Region *region) {
    if (b->kernel->target->sm < atom_info(ATOM_grid_wait)->sm)
        return;
    b->kernel->waits = region->follows;
    if (region->follows)
        k_atom(b, ATOM_grid_wait, NULL, NULL, 0);
    if (region->leads)
        k_atom(b, ATOM_grid_launch, NULL, NULL, 0);
}

Kernel *codegen_kernel(Arena *arena, const Graph *graph, const Region *region, const Target *target,
                       Diags *diags) {
    const Template *template = template_of(region->kind);
    const char *why = NULL;
    if (!template->accepts(graph, region, &region->schedule, target, &why)) {
        Region *fallback = ARENA_NEW(arena, Region);
        *fallback = *region;
        template = codegen_fallback(graph, fallback, target);
        region = fallback;
    }
    Builder b = builder_new(arena, region, graph, target, diags);
    int errors = diags->errors;
    codegen_order(&b, region);
    template->build(&b, region);
    if (why)
        b.kernel->summary = text_format(arena, "%s (the %s template: %s)", b.kernel->summary,
                                        template_of(region->kind)->name, why);
    return diags->errors == errors ? builder_finish(&b) : NULL;
}
