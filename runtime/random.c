/* Values come from a table of 65,536 draws, already in the element's format, so that filling gigabytes costs
 * little more than the memory's time. */
#include "runtime/random.h"

#include <assert.h>
#include <string.h>

enum { RANDOM_TABLE = 65536 };

/* SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). */
static uint64_t random_next(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static double random_unit(uint64_t *state) {
    return (double)(random_next(state) >> 11) * 0x1p-53;
}

/* Twelve uniform draws less six: normal enough for test data, bounded by 6, and without the library functions
 * whose last bits differ between machines. */
static double random_normal(uint64_t *state) {
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += random_unit(state);
    return sum;
}

static bool random_has_bound(const RandomPlan *plan) {
    return plan->kind == RANDOM_INDEX || plan->kind == RANDOM_LENGTH;
}

static Number random_draw(const RandomPlan *plan, DType dtype, uint64_t *state) {
    if (dtype_is_float(dtype)) {
        double value = plan->kind == RANDOM_POSITIVE ? 0.5 + random_unit(state) : random_normal(state);
        return (Number){.f = dtype_round(value, dtype)};
    }
    DTypeClass class_ = dtype_class(dtype);
    int64_t low = class_ == DTYPE_SIGNED ? -8 : 0, count = class_ == DTYPE_LOGICAL  ? 2
                                                           : class_ == DTYPE_SIGNED ? 16
                                                                                    : 8;
    if (random_has_bound(plan)) {
        low = plan->kind == RANDOM_LENGTH;
        count = plan->bound > 0 ? plan->bound : 1;
    } else if (plan->kind == RANDOM_POSITIVE) {
        low = 1;
        count = 7;
    }
    int64_t value = low + (int64_t)(random_next(state) % (uint64_t)count);
    int64_t most = dtype_max_int(dtype), least = dtype_min_int(dtype);
    return (Number){.i = class_ == DTYPE_LOGICAL ? value & 1
                         : value > most          ? most
                         : value < least         ? least
                                                 : value};
}

static uint64_t random_start(uint64_t seed, const char *name) {
    uint64_t state = seed * 0x2545F4914F6CDD1Du + 0x632BE59BD9B4E019u;
    for (const char *c = name; c && *c; c++)
        state = (state ^ (uint8_t)*c) * 0x100000001B3u;
    return state;
}

void random_fill(Arena *arena, Array *array, const RandomPlan *plan, uint64_t seed, const char *name) {
    uint64_t state = random_start(seed, name);
    int bits = dtype_bits(array->dtype);
    static_assert(RANDOM_TABLE == 1 << 16, "one draw takes 16 random bits");
    if (bits < 8 ||
        (random_has_bound(plan) && plan->bound > 4096)) { /* no table: packed nibbles, or too many values */
        for (int64_t i = 0; i < array->extent; i++)
            dtype_store(array->dtype, array->at, i, random_draw(plan, array->dtype, &state));
        return;
    }
    size_t size = (size_t)bits / 8;
    ArenaMark mark = arena_mark(arena);
    uint8_t *table = ARENA_ARRAY(arena, uint8_t, RANDOM_TABLE * size);
    for (int64_t i = 0; i < RANDOM_TABLE; i++)
        dtype_store(array->dtype, table, i, random_draw(plan, array->dtype, &state));
    for (int64_t i = 0; i < array->extent;) {
        uint64_t four = random_next(&state);
        for (int k = 0; k < 4 && i < array->extent; k++, i++, four >>= 16)
            memcpy(array->at + (size_t)i * size, table + (four & 0xFFFF) * size, size);
    }
    arena_release(arena, mark);
}

/* Whether `value` reads `input` through operations that keep a positive number positive. */
static bool random_reaches(const Value *value, const Value *input, int depth) {
    if (value == input)
        return true;
    if (depth == 0)
        return false;
    switch (value->op) {
    case OP_cast:
    case OP_broadcast:
    case OP_reshape:
    case OP_transpose:
    case OP_slice:
    case OP_window:
    case OP_add:
    case OP_max:
    case OP_select:
        for (int i = 0; i < value->n_in; i++)
            if (random_reaches(value->in[i], input, depth - 1))
                return true;
        return false;
    default: return false;
    }
}

/* The coordinate that `value` is, perhaps moved by some; NULL: it is none. */
static const Value *random_coordinate(const Value *value, int depth) {
    const Value *found = value->op == OP_index ? value : NULL;
    bool goes_on = value->op == OP_cast || value->op == OP_broadcast || value->op == OP_reshape ||
                   value->op == OP_add || value->op == OP_sub;
    for (int i = 0; i < value->n_in && goes_on && depth && !found; i++)
        found = random_coordinate(value->in[i], depth - 1);
    return found;
}

/* The coordinate that is compared with what `input` gives, as with the length of a sequence. */
static const Value *random_compared(const Value *v, const Value *input) {
    bool compares = v->op == OP_lt || v->op == OP_le || v->op == OP_gt || v->op == OP_ge;
    for (int i = 0; i < 2 && compares; i++)
        if (!dtype_is_float(input->dtype) && random_reaches(v->in[i], input, 8))
            return random_coordinate(v->in[1 - i], 8);
    return NULL;
}

RandomPlan random_plan(const Graph *graph, const Value *input, const DimBindings *bindings) {
    RandomPlan plan = {dtype_is_float(input->dtype) ? RANDOM_NORMAL : RANDOM_SMALL, 0};
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *v = graph->values.at[i];
        bool positive = v->op == OP_sqrt || v->op == OP_rsqrt || v->op == OP_log || v->op == OP_log2 ||
                        v->op == OP_pow || v->op == OP_reciprocal;
        if (positive && random_reaches(v->in[0], input, 8))
            plan.kind = RANDOM_POSITIVE;
        if ((v->op == OP_div || v->op == OP_mod) && random_reaches(v->in[1], input, 8))
            plan.kind = RANDOM_POSITIVE;
        const Value *coordinate = random_compared(v, input);
        if (coordinate && plan.kind == RANDOM_SMALL &&
            dim_eval(coordinate->dims[coordinate->attrs[1].i], bindings, &plan.bound))
            plan.kind = RANDOM_LENGTH;
        if (v->op == OP_gather && random_reaches(v->in[1], input, 8)) {
            plan.kind = RANDOM_INDEX;
            if (!dim_eval(v->in[0]->dims[v->attrs[0].i], bindings, &plan.bound))
                plan.bound = 1;
        }
    }
    return plan;
}
