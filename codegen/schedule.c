/* Schedules as text, field by field: what @schedule says, what `sinter explain` shows, what a tuner keeps. */
#include "codegen/schedule.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Fields of a schedule as @schedule names them: `n` numbers (tile=128x256x64 fills three fields). */
typedef struct HintField {
    const char *name;
    int n;
    size_t offset[3];
    bool is_flag;
} HintField;

#define FIELD(NAME) offsetof(Schedule, NAME)
static const HintField schedule_fields[] = {
    {"threads", 1, {FIELD(threads)}, false},
    {"vector", 1, {FIELD(vector)}, false},
    {"unroll", 1, {FIELD(unroll)}, false},
    {"threads_per_row", 1, {FIELD(threads_per_row)}, false},
    {"rows_per_block", 1, {FIELD(rows_per_block)}, false},
    {"resident", 1, {FIELD(resident)}, true},
    {"row_in_smem", 1, {FIELD(row_in_smem)}, true},
    {"places", 1, {FIELD(places)}, false},
    {"tile_rows", 1, {FIELD(tile_rows)}, false},
    {"tile_cols", 1, {FIELD(tile_cols)}, false},
    {"turned_vector", 1, {FIELD(turned_vector)}, false},
    {"tile", 3, {FIELD(tile_m), FIELD(tile_n), FIELD(tile_k)}, false},
    {"warps", 2, {FIELD(warps_m), FIELD(warps_n)}, false},
    {"stages", 1, {FIELD(stages)}, false},
    {"later_stages", 1, {FIELD(later_stages)}, false},
    {"cluster", 2, {FIELD(cluster_m), FIELD(cluster_n)}, false},
    {"split_k", 1, {FIELD(split_k)}, false},
    {"stream_k", 1, {FIELD(stream_k)}, true},
    {"group_m", 1, {FIELD(group_m)}, false},
    {"group_n", 1, {FIELD(group_n)}, false},
    {"persistent", 1, {FIELD(persistent)}, true},
    {"swap_ab", 1, {FIELD(swap_ab)}, true},
    {"patches", 1, {FIELD(patches)}, true},
    {"tma_store", 1, {FIELD(tma_store)}, true},
    {"ping_pong", 1, {FIELD(ping_pong)}, true},
    {"promote", 1, {FIELD(promote)}, true},
    {"converters", 1, {FIELD(converters)}, false},
    {"fragments", 1, {FIELD(fragments)}, true},
    {"registers", 2, {FIELD(producer_registers), FIELD(consumer_registers)}, false},
    {"ease", 1, {FIELD(ease)}, false},
};
#undef FIELD

static const struct {
    const char *name;
    MatmulPath path;
} schedule_paths[] = {{"loop", MATMUL_LOOP},     {"simt", MATMUL_SIMT},    {"gemv", MATMUL_GEMV},
                      {"skinny", MATMUL_SKINNY}, {"mma", MATMUL_MMA_SYNC}, {"wgmma", MATMUL_WGMMA}};

/* Sets a flag from true, false, 1 or 0. */
static bool schedule_flag(const HintArg *arg, bool *out) {
    bool is_true = arg->word && !strcmp(arg->word, "true"),
         is_false = arg->word && !strcmp(arg->word, "false");
    bool is_number = !arg->word && arg->n == 1 && (arg->values[0] == 0 || arg->values[0] == 1);
    *out = is_true || (is_number && arg->values[0]);
    return is_true || is_false || is_number;
}

/* Writes one argument of @schedule into the schedule; NULL, or a person's words why not. */
static const char *schedule_apply_arg(const HintArg *arg, Schedule *schedule) {
    if (!strcmp(arg->name, "path")) {
        for (size_t i = 0; arg->word && i < sizeof schedule_paths / sizeof *schedule_paths; i++)
            if (!strcmp(schedule_paths[i].name, arg->word)) {
                schedule->path = schedule_paths[i].path;
                return NULL;
            }
        return "path is one of loop, gemv, skinny, simt, mma and wgmma";
    }
    for (size_t i = 0; i < sizeof schedule_fields / sizeof *schedule_fields; i++) {
        const HintField *field = &schedule_fields[i];
        if (strcmp(field->name, arg->name) != 0)
            continue;
        if (field->is_flag)
            return schedule_flag(arg, (bool *)((char *)schedule + field->offset[0]))
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

bool schedule_apply_hint(const Hint *hint, Schedule *schedule, Diags *diags) {
    for (size_t i = 0; i < hint->args.n; i++) {
        const char *why = schedule_apply_arg(&hint->args.at[i], schedule);
        if (why) {
            diag_error(diags, DIAG_SCHEDULE, hint->span, "@schedule(%s): %s", hint->args.at[i].name, why);
            return false;
        }
    }
    return true;
}

static const int *schedule_number(const Schedule *schedule, size_t offset) {
    return (const int *)((const char *)schedule + offset);
}

void schedule_print(Text *out, const Schedule *schedule) {
    const char *comma = "";
    for (size_t i = 0; i < sizeof schedule_paths / sizeof *schedule_paths; i++)
        if (schedule_paths[i].path == schedule->path) {
            text_add(out, "path=%s", schedule_paths[i].name);
            comma = ", ";
        }
    for (size_t i = 0; i < sizeof schedule_fields / sizeof *schedule_fields; i++) {
        const HintField *field = &schedule_fields[i];
        const bool *flag = (const bool *)((const char *)schedule + field->offset[0]);
        bool is_set = field->is_flag && *flag;
        for (int k = 0; k < field->n && !field->is_flag; k++)
            is_set |= *schedule_number(schedule, field->offset[k]) != 0;
        if (!is_set)
            continue;
        text_add(out, "%s%s=", comma, field->name);
        comma = ", ";
        if (field->is_flag)
            text_add(out, "true");
        for (int k = 0; k < field->n && !field->is_flag; k++)
            text_add(out, "%s%d", k ? "x" : "", *schedule_number(schedule, field->offset[k]));
    }
}

/* One `name=value` as an argument of @schedule. */
static bool schedule_read_arg(Arena *arena, const char *text, size_t n, HintArg *arg) {
    const char *equals = memchr(text, '=', n), *end = text + n;
    if (!equals)
        return false;
    *arg = (HintArg){.name = arena_strndup(arena, text, (size_t)(equals - text))};
    const char *at = equals + 1;
    if (at < end && (*at < '0' || *at > '9')) {
        arg->word = arena_strndup(arena, at, (size_t)(end - at));
        return true;
    }
    while (at < end && arg->n < (int)(sizeof arg->values / sizeof *arg->values)) {
        int64_t value = 0;
        const char *digits = at;
        for (; at < end && *at >= '0' && *at <= '9' && value < INT32_MAX; at++)
            value = 10 * value + (*at - '0');
        if (at == digits)
            return false;
        arg->values[arg->n++] = value;
        if (at == end)
            return true;
        if (*at++ != 'x')
            return false;
    }
    return false;
}

bool schedule_parse(Arena *arena, const char *text, Schedule *out) {
    *out = (Schedule){0};
    while (*text) {
        size_t n = strcspn(text, ",");
        HintArg arg;
        if (!schedule_read_arg(arena, text, n, &arg) || schedule_apply_arg(&arg, out))
            return false;
        text += n;
        text += strspn(text, ", ");
    }
    return true;
}

static int schedule_least(int number, int least) {
    return number > least ? number : least;
}

/* Numbers below `least` count as that. */
static bool schedule_compare(const Schedule *a, const Schedule *b, int least) {
    if (a->path != b->path)
        return false;
    for (size_t i = 0; i < sizeof schedule_fields / sizeof *schedule_fields; i++) {
        const HintField *field = &schedule_fields[i];
        if (field->is_flag) {
            if (*(const bool *)((const char *)a + field->offset[0]) !=
                *(const bool *)((const char *)b + field->offset[0]))
                return false;
            continue;
        }
        for (int k = 0; k < field->n; k++)
            if (schedule_least(*schedule_number(a, field->offset[k]), least) !=
                schedule_least(*schedule_number(b, field->offset[k]), least))
                return false;
    }
    return true;
}

bool schedule_equals(const Schedule *a, const Schedule *b) {
    return schedule_compare(a, b, 0);
}

bool schedule_agrees(const Schedule *a, const Schedule *b) {
    return schedule_compare(a, b, 1);
}

void schedule_deal_registers(Schedule *schedule, bool is_full) {
    enum { ALONE, USUAL, FULL, THREE };
    static const int registers[][2] = {
        [ALONE] = {0, 0}, [USUAL] = {40, 232}, [FULL] = {24, 240}, [THREE] = {32, 160}};
    int dealt = schedule->warps_m == 3           ? THREE
                : schedule->warps_m != 2         ? ALONE
                : is_full || schedule->ping_pong ? FULL
                                                 : USUAL;
    schedule->producer_registers = registers[dealt][0];
    schedule->consumer_registers = registers[dealt][1];
}
