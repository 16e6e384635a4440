/* Levels of reductions: how many passes over its space a region takes. */
#include "codegen/lower_internal.h"

/* How many reductions of the space stand one behind the other below `value`, itself included; known holds
 * answers plus 1. */
static int levels_below(const Region *region, const Value *value, ValueMap *known) {
    int level = value_map_get(known, value) - 1;
    if (level >= 0)
        return level;
    level = 0;
    for (int i = 0; i < value->n_in; i++) {
        int below = levels_below(region, value->in[i], known);
        level = below > level ? below : level;
    }
    level += lower_is_space_reduction(region, value);
    value_map_set(known, value, level + 1);
    return level;
}

/* How many there are, and, in `known`, of which level each value is. */
static int levels_count(const Region *region, ValueMap *known) {
    int n = 0;
    for (size_t i = 0; i < region->inputs.n; i++) /* what is read was reduced by another kernel */
        value_map_set(known, region->inputs.at[i], 1);
    for (size_t i = 0; i < region->values.n; i++) {
        int level = levels_below(region, region->values.at[i], known);
        n = level > n ? level : n;
    }
    return n;
}

int lower_count_levels(const Graph *graph, const Region *region) {
    ValueMap known = {.arena = graph->arena};
    return levels_count(region, &known);
}

int lower_levels_of(const Graph *graph, const Region *region, const Value *value) {
    ValueMap known = {.arena = graph->arena};
    levels_count(region, &known);
    return levels_below(region, value, &known);
}

ReduceLevels lower_find_levels(Lower *lower) {
    const Region *region = lower->region;
    ValueMap known = {.arena = lower->arena};
    ReduceLevels levels = {.n = levels_count(region, &known)};
    levels.at = ARENA_ARRAY(lower->arena, ReduceLevel, (size_t)levels.n + 1);
    for (int level = 0; level < levels.n; level++)
        levels.at[level].at = ARENA_ARRAY(lower->arena, const Value *, region->values.n);
    for (size_t i = 0; i < region->values.n; i++) {
        const Value *value = region->values.at[i];
        bool is_whole = lower_is_space_reduction(region, value);
        if (!is_whole && !region_is_piece(region, value))
            continue;
        if (is_whole) {
            ReduceLevel *level = &levels.at[levels_below(region, value, &known) - 1];
            level->at[level->n++] = value;
        }
        lower_bind_expr(lower, value, k_convert(lower->b, k_i32(lower->b, 0), ktype_of(value->dtype)));
    }
    return levels;
}
