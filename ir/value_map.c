#include "ir/value_map.h"

#include <string.h>

/* Where the value is, or would be: a free slot. Never called on a map without slots. */
static ValueMapSlot *value_map_find(const ValueMap *map, const Value *value) {
    /* Values lie in arenas, so the low four bits of their addresses are alike. */
    size_t at = (size_t)(((uintptr_t)value >> 4) * 0x9e3779b97f4a7c15u >> 32) & (map->room - 1);
    while (map->slots[at].value && map->slots[at].value != value)
        at = (at + 1) & (map->room - 1);
    return &map->slots[at];
}

int value_map_get(const ValueMap *map, const Value *value) {
    return map->room ? value_map_find(map, value)->number : 0;
}

static void value_map_grow(ValueMap *map) {
    ValueMap wider = {.arena = map->arena, .n = map->n, .room = map->room ? 2 * map->room : 16};
    wider.slots = ARENA_ARRAY(map->arena, ValueMapSlot, wider.room);
    for (size_t i = 0; i < map->room; i++)
        if (map->slots[i].value)
            *value_map_find(&wider, map->slots[i].value) = map->slots[i];
    *map = wider;
}

void value_map_set(ValueMap *map, const Value *value, int number) {
    if (2 * map->n >= map->room)
        value_map_grow(map);
    ValueMapSlot *slot = value_map_find(map, value);
    map->n += slot->value == NULL;
    *slot = (ValueMapSlot){value, number};
}

void value_map_clear(ValueMap *map) {
    if (map->room)
        memset(map->slots, 0, map->room * sizeof *map->slots);
    map->n = 0;
}
