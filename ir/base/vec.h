/* Growing arrays on an arena: VEC(Type) declares one, vec_push(arena, &v, item) appends. Old storage stays in
 * the arena until it is freed, so pointers into a vector are stale after a push, but never dangling. */
#ifndef SINTER_IR_BASE_VEC_H
#define SINTER_IR_BASE_VEC_H

#include <string.h>

#include "ir/base/arena.h"

#define VEC(Type)                                                                                            \
    struct {                                                                                                 \
        Type *at;                                                                                            \
        size_t n, room;                                                                                      \
    }

static inline void *vec_grown(Arena *arena, const void *old, size_t n, size_t room, size_t size) {
    void *fresh = arena_alloc_array(arena, room, size);
    if (n)
        memcpy(fresh, old, n * size);
    return fresh;
}

#define vec_push(arena, v, item)                                                                             \
    do {                                                                                                     \
        if ((v)->n == (v)->room) {                                                                           \
            size_t room_ = (v)->room ? 2 * (v)->room : 8;                                                    \
            (v)->at = vec_grown((arena), (v)->at, (v)->n, room_, sizeof *(v)->at);                           \
            (v)->room = room_;                                                                               \
        }                                                                                                    \
        (v)->at[(v)->n++] = (item);                                                                          \
    } while (0)

#endif
