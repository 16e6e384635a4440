/* Tuned schedules, by the kernel cache's own means. */
#include "runtime/tuned.h"

#include <stdlib.h>
#include <string.h>

#include "ir/print.h"
#include "ir/vendor/blake3/blake3.h"

void tuned_key(const sinter_plan *plan, const Region *region, uint8_t key[CACHE_KEY_BYTES]) {
    ArenaMark mark = arena_mark(plan->arena);
    Text text = text_new(plan->arena);
    text_add(&text, "sinter %s tuned 1\n%s\n%s\n", sinter_version(), plan->target->name,
             plan->context->device.name);
    region_print(&text, plan->graph, region);
    for (const Region *part = region; part; part = part->guest)
        for (size_t i = 0; i < part->inputs.n; i++) {
            value_print_type(&text, plan->graph, part->inputs.at[i]);
            text_add(&text, "\n");
        }
    for (int i = 0; i < plan->n_free_dims; i++) {
        int symbol = plan->free_dims[i];
        if (plan->hint.known[symbol])
            text_add(&text, "%s=%lld\n", dim_symbol_name(plan->graph->dims, symbol),
                     (long long)plan->hint.value[symbol]);
    }
    blake3_hasher hasher;
    blake3_hasher_init(&hasher);
    blake3_hasher_update(&hasher, text.at, text.n);
    blake3_hasher_finalize(&hasher, key, CACHE_KEY_BYTES);
    arena_release(plan->arena, mark);
}

/* The rest of the line that begins with `word`; NULL: there is none. */
static const char *tuned_line(Arena *arena, const char *text, const char *word) {
    size_t n = strlen(word);
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (strncmp(line, word, n) == 0 && line[n] == ' ')
            return arena_strndup(arena, line + n + 1, strcspn(line + n + 1, "\n"));
    return NULL;
}

bool tuned_get(const sinter_context *context, Arena *arena, const uint8_t key[CACHE_KEY_BYTES], Tuned *out,
               const char **why) {
    Bytes bytes;
    *why = NULL;
    if (!cache_get(&context->tuned, arena, key, &bytes))
        return false;
    const char *text = arena_strndup(arena, (const char *)bytes.at, bytes.n);
    const char *schedule = tuned_line(arena, text, "schedule"), *us = tuned_line(arena, text, "us"),
               *model = tuned_line(arena, text, "model_us");
    *why = "it is not in the form that this version writes";
    if (!schedule || !us || !model || !schedule_parse(arena, schedule, &out->schedule))
        return false;
    out->us = strtod(us, NULL);
    out->model_us = strtod(model, NULL);
    *why = NULL;
    return true;
}

void tuned_put(const sinter_context *context, Arena *arena, const uint8_t key[CACHE_KEY_BYTES],
               const Tuned *tuned) {
    Text text = text_new(arena);
    text_add(&text, "schedule ");
    schedule_print(&text, &tuned->schedule);
    text_add(&text, "\nus %.3f\nmodel_us %.3f\n", tuned->us, tuned->model_us);
    cache_put(&context->tuned, arena, key, text.at, text.n);
}
