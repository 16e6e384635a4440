/* The reference's reductions, matrix product and random numbers. */
#include <math.h>

#include "ir/reference_internal.h"

/* Running state of one reduced element. */
typedef struct Reduced {
    double f;
    int64_t i;
    int64_t best; /* argmin and argmax: number of the best so far; -1 before the first */
} Reduced;

static Reduced reduce_start(const Value *value, DType type) {
    bool is_float = dtype_is_float(type);
    switch (value->op) {
    case OP_prod: return (Reduced){.f = 1, .i = 1};
    case OP_all: return (Reduced){.i = 1};
    case OP_reduce_min: return (Reduced){.f = INFINITY, .i = is_float ? 0 : dtype_max_int(value->dtype)};
    case OP_reduce_max: return (Reduced){.f = -INFINITY, .i = is_float ? 0 : dtype_min_int(value->dtype)};
    case OP_argmin:
    case OP_argmax: return (Reduced){.best = -1};
    default: return (Reduced){0};
    }
}

static void reduce_arg(Reduced *r, Number x, bool is_float, bool largest, int64_t number) {
    bool better;
    if (r->best < 0)
        better = true;
    else if (is_float)
        better = r->f == r->f && (x.f != x.f || (largest ? x.f > r->f : x.f < r->f));
    else
        better = largest ? x.i > r->i : x.i < r->i;
    if (better)
        *r = (Reduced){.f = is_float ? x.f : 0, .i = is_float ? 0 : x.i, .best = number};
}

static void reduce_step(const Value *value, DType type, Reduced *r, Number x, int64_t number) {
    bool is_float = dtype_is_float(type);
    double f = number_as_double(x, type);
    int64_t i = is_float ? x.f != 0 : x.i;
    switch (value->op) {
    case OP_sum:
        r->f += f;
        r->i = (int64_t)((uint64_t)r->i + (uint64_t)i);
        break;
    case OP_prod:
        r->f *= f;
        r->i = (int64_t)((uint64_t)r->i * (uint64_t)i);
        break;
    case OP_reduce_min:
        r->f = f != f || f < r->f ? f : r->f;
        r->i = i < r->i ? i : r->i;
        break;
    case OP_reduce_max:
        r->f = f != f || f > r->f ? f : r->f;
        r->i = i > r->i ? i : r->i;
        break;
    case OP_any: r->i |= i != 0; break;
    case OP_all: r->i &= i != 0; break;
    default: reduce_arg(r, x, is_float, value->op == OP_argmax, number); break;
    }
}

void reference_reduction(Evaluation *e, const Value *value, Tensor *out) {
    const Tensor *x = evaluation_operand(e, value, 0);
    bool reduced[RANK_MAX] = {false};
    for (int i = 0; i < value->attrs[0].axes.n; i++)
        reduced[value->attrs[0].axes.at[i]] = true;

    Reduced *state = ARENA_ARRAY(e->arena, Reduced, out->count ? (size_t)out->count : 1);
    for (int64_t k = 0; k < out->count; k++)
        state[k] = reduce_start(value, x->dtype);

    /* Where each element of x goes, and its row-major number among those that go there. */
    int64_t to[RANK_MAX] = {0}, number[RANK_MAX] = {0}, kept = 1, inside = 1;
    for (int i = x->rank - 1; i >= 0; i--) {
        int64_t *step = reduced[i] ? &inside : &kept;
        (reduced[i] ? number : to)[i] = *step;
        *step *= x->dims[i];
    }
    Walk walk;
    walk_start(&walk, x);
    walk_add(&walk, to, 0);
    walk_add(&walk, number, 0);
    for (int64_t k = 0; k < x->count; k++, walk_next(&walk))
        reduce_step(value, x->dtype, &state[walk.offset[0]], x->at[k], walk.offset[1]);

    for (int64_t k = 0; k < out->count; k++) {
        if (value->op == OP_argmin || value->op == OP_argmax)
            out->at[k].i = state[k].best < 0 ? 0 : state[k].best;
        else if (dtype_is_float(out->dtype))
            out->at[k].f = state[k].f;
        else
            out->at[k].i = wrap_int(state[k].i, out->dtype);
    }
}

/* Offset of the matrix of a batched operand that belongs to batch coordinates `at` of the result: aligned at
 * the right; a dim that divides the result's repeats each matrix (grouped heads). */
static int64_t matmul_batch_offset(const Tensor *operand, const Tensor *out, const int64_t *at) {
    int64_t strides[RANK_MAX], offset = 0;
    tensor_strides(operand, strides);
    int shift = out->rank - operand->rank;
    for (int i = 0; i < operand->rank - 2; i++) {
        int64_t times = operand->dims[i] ? out->dims[i + shift] / operand->dims[i] : 1;
        offset += strides[i] * (at[i + shift] / (times ? times : 1));
    }
    return offset;
}

static double matmul_element(const Tensor *t, int64_t at) {
    double x = number_as_double(t->at[at], t->dtype);
    return t->dtype == DTYPE_TF32 ? dtype_round(x, DTYPE_TF32) : x;
}

enum { MATMUL_BLOCK = 64 /* of K, so that its part of the second operand stays in a cache */ };

/* One matrix of floats of a batch, whose result begins at out[0]: each element's products are added in the
 * order of K. `rows` has room for a block of rows of b. */
static void matmul_floats(const Tensor *a, int64_t a_at, const Tensor *b, int64_t b_at, const int64_t *mnk,
                          double *rows, Number *out) {
    int64_t m_extent = mnk[0], n_extent = mnk[1], k_extent = mnk[2];
    for (int64_t i = 0; i < m_extent * n_extent; i++)
        out[i].f = 0;
    for (int64_t begin = 0; begin < k_extent; begin += MATMUL_BLOCK) {
        int64_t block = k_extent - begin < MATMUL_BLOCK ? k_extent - begin : MATMUL_BLOCK;
        for (int64_t i = 0; i < block * n_extent; i++)
            rows[i] = matmul_element(b, b_at + begin * n_extent + i);
        for (int64_t m = 0; m < m_extent; m++)
            for (int64_t k = 0; k < block; k++) {
                double x = matmul_element(a, a_at + m * k_extent + begin + k);
                for (int64_t n = 0; n < n_extent; n++)
                    out[m * n_extent + n].f += x * rows[k * n_extent + n];
            }
    }
}

/* The same of integers, which wrap. */
static void matmul_integers(const Tensor *a, int64_t a_at, const Tensor *b, int64_t b_at, const int64_t *mnk,
                            DType dtype, Number *out) {
    for (int64_t i = 0; i < mnk[0] * mnk[1]; i++) {
        int64_t row = a_at + i / mnk[1] * mnk[2], column = b_at + i % mnk[1];
        uint64_t sum = 0;
        for (int64_t k = 0; k < mnk[2]; k++)
            sum += (uint64_t)a->at[row + k].i * (uint64_t)b->at[column + k * mnk[1]].i;
        out[i].i = wrap_int((int64_t)sum, dtype);
    }
}

void reference_matmul(Evaluation *e, const Value *value, Tensor *out) {
    const Tensor *a = evaluation_operand(e, value, 0), *b = evaluation_operand(e, value, 1);
    const int64_t mnk[] = {out->dims[out->rank - 2], out->dims[out->rank - 1], a->dims[a->rank - 1]};
    int64_t matrix = mnk[0] * mnk[1];
    double *rows = ARENA_ARRAY(e->arena, double, (size_t)mnk[1] * MATMUL_BLOCK + 1);
    Tensor batch = *out; /* its matrices, one element each */
    batch.dims[out->rank - 2] = batch.dims[out->rank - 1] = 1;
    Walk walk;
    walk_start(&walk, &batch);
    for (int64_t i = 0; i < out->count; i += matrix, walk_next(&walk)) {
        int64_t a_at = matmul_batch_offset(a, out, walk.at), b_at = matmul_batch_offset(b, out, walk.at);
        if (dtype_is_float(out->dtype))
            matmul_floats(a, a_at, b, b_at, mnk, rows, out->at + i);
        else
            matmul_integers(a, a_at, b, b_at, mnk, out->dtype, out->at + i);
    }
}

void philox4x32(uint64_t counter, uint64_t key, uint32_t out[4]) {
    uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c[3] ^ k1,
                            (uint32_t)p0};
        for (int i = 0; i < 4; i++)
            c[i] = next[i];
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++)
        out[i] = c[i];
}

void reference_random(Evaluation *e, const Value *value, Tensor *out) {
    const double unit = 1.0 / 16777216.0, turn = 6.283185307179586476925286766559;
    uint64_t key = (uint64_t)evaluation_operand(e, value, 0)->at[0].i;
    uint64_t offset = (uint64_t)value->attrs[1].i;
    uint32_t w[4] = {0};
    for (int64_t k = 0; k < out->count; k++) {
        int lane = (int)(k % 4);
        if (lane == 0)
            philox4x32((uint64_t)k / 4 + offset, key, w);
        if (value->op == OP_uniform) {
            out->at[k].f = (double)(w[lane] >> 8) * unit;
        } else {
            double radius = sqrt(-2.0 * log(((double)(w[lane & 2] >> 8) + 1) * unit));
            double angle = turn * ((double)(w[(lane & 2) + 1] >> 8) * unit);
            out->at[k].f = radius * (lane & 1 ? sin(angle) : cos(angle));
        }
    }
}
