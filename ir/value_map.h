/* What is known of a few Values of a graph: a map from Value to int, 0 for those never set.
 *
 * Codegen looks at one region at a time and at hundreds of them in a large graph. An array over all of the
 * graph's values for each region would cost the square of the graph; this map grows with what is put in. A
 * map of zeros is empty: {.arena = arena}. */
#ifndef SINTER_IR_VALUE_MAP_H
#define SINTER_IR_VALUE_MAP_H

#include "ir/graph.h"

typedef struct ValueMapSlot {
    const Value *value; /* NULL: free */
    int number;
} ValueMapSlot;

typedef struct ValueMap {
    Arena *arena;
    ValueMapSlot *slots; /* hashed by address, open addressing */
    size_t n, room;      /* slots taken; slots, a power of two or 0 */
} ValueMap;

int value_map_get(const ValueMap *map, const Value *value);
void value_map_set(ValueMap *map, const Value *value, int number);
/* Forgets everything and keeps the room. */
void value_map_clear(ValueMap *map);

#endif
