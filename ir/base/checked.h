/* 64-bit size arithmetic that tells when it overflows. Each answers false and leaves *out alone where the
 * result does not fit. */
#ifndef SINTER_IR_BASE_CHECKED_H
#define SINTER_IR_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool checked_add(int64_t a, int64_t b, int64_t *out) {
    int64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool checked_sub(int64_t a, int64_t b, int64_t *out) {
    int64_t r;
    if (__builtin_sub_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool checked_mul(int64_t a, int64_t b, int64_t *out) {
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool checked_size_mul(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline int64_t ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b != 0 && (a % b > 0) == (b > 0));
}

static inline int64_t round_up(int64_t a, int64_t b) {
    return ceil_div(a, b) * b;
}

static inline bool is_power_of_two(int64_t x) {
    return x > 0 && (x & (x - 1)) == 0;
}

#endif
