/* Fragments of mma.sync by loads of single elements, where ldmatrix gives none: it takes tiles along K, and
 * those along M or N for 16-bit elements alone. Wider loads would bring neighbours along an axis on which the
 * registers of a lane are none.
 *
 * A lane of a fragment has t = lane % 4 along K and g = lane / 4 along M or N. It is the banks that decide
 * how the tile lies, or which elements of K are a lane's: any order will do, if both operands have the same.
 *
 * ---- 32 bits, along M or N: the other operand may come by ldmatrix, which has k = t in register 0 and t + 4
 * in register 1. 32 lanes read 8 elements in each of 4 rows, and rows are padded (matmul_prologue.c) so that
 * the next one begins 8 banks further, or 24, since tiles have multiples of 16 columns:
 *
 *     row t                     0        1         2         3
 *     banks, 32 or 64 columns   0 .. 7   8 .. 15   16 .. 23  24 .. 31
 *            16 or 48           0 .. 7   24 .. 31  16 .. 23  8 .. 15
 *
 * One address serves all fragments and steps so.
 *
 * ---- 64 bits: 16 lanes read at a time, 4 of K in each of 4 rows that are neighbours along M or N, and chunk
 * c of 16 bytes of row r of the tile stands at c ^ r % 8 (layout.h).
 *   Rows along M or N: from r = 4 j to 4 j + 3 a chunk takes all four places of its half of the row. Of lanes
 *     with even elements, and of those with odd ones, there is one in each half.
 *   Rows of K: the 4 neighbours are two chunks, 2 j and 2 j + 1, which r takes to those of another j for
 *     another r / 2 % 4. That differs from lane to lane.
 *
 *     t                         0   1   2   3
 *     k of step 0, register 0   0  10   5  15      a tile of one step, with rows of 64 bytes along K, whose
 *               of register 1   1  11   4  14      chunks stand at c ^ r / 2 % 4:     0  4  3  7
 *     k of step 1, register 0   2   8   7  13                                         1  5  2  6
 *               of register 1   3   9   6  12
 */
#include "codegen/templates/matmul_mma.h"

enum { ELEMENTS_HALF = 8 /* of a fragment along M or N */, ELEMENTS_NEXT_K = 4, ELEMENTS_F64_STEPS = 2 };

bool mma_takes_elements(const MatmulPlan *plan, const MatmulLoader *loader) {
    return plan->kind == MATMUL_F64 || (plan->kind == MATMUL_TF32 && loader->tile_major == MAJOR_MN);
}

void mma_elements_begin(Mma *m) {
    Builder *b = m->b;
    const KExpr *lane = k_special(b, SPECIAL_LANE), *two = k_i32(b, 2), *t = k_mod(b, lane, k_i32(b, 4));
    m->lane_mn = k_let_expr(b, "lane_mn", k_div(b, lane, k_i32(b, 4)));
    if (m->plan->kind == MATMUL_F64) {
        bool is_short = m->schedule->tile_k == mma_k(m->plan);
        t = k_add(b, k_mul(b, k_mod(b, t, two), k_i32(b, is_short ? 4 : 10)),
                  k_mul(b, k_div(b, t, two), k_i32(b, is_short ? 3 : 5)));
    }
    m->lane_k = k_let_expr(b, "lane_k", t);
}

/* Where the tile's elements for fragments from mn on, in such a step, begin. A lane's own places serve all of
 * them: in padded rows they are as far apart everywhere; 16 rows on the swizzle is the same, 16 columns of
 * f64 are a block of the tile, and two steps of it are either. */
static const KExpr *elements_from(const Mma *m, const MatmulLoader *loader, const KExpr *mn,
                                  const KExpr *first, const KExpr *kk) {
    Builder *b = m->b;
    const Tile *tile = &loader->tile;
    bool is_k = loader->tile_major == MAJOR_K;
    int step = mma_k(m->plan);
    if (m->plan->kind != MATMUL_F64)
        return k_add(b, mn, k_mul(b, k_add(b, first, kk), k_i32(b, (int64_t)step * tile->span)));
    const KExpr *steps = k_i32(b, ELEMENTS_F64_STEPS),
                *block = k_add(b, k_div(b, first, steps), k_div(b, kk, steps));
    int mn_pitch = is_k ? tile->span : tile->rows,
        block_pitch = tile->span * (is_k ? tile->rows : ELEMENTS_F64_STEPS * step);
    return k_add(b, k_mul(b, mn, k_i32(b, mn_pitch)), k_mul(b, block, k_i32(b, block_pitch)));
}

/* Element e of a lane along K. */
static const KExpr *elements_k(const Mma *m, const KExpr *kk, int e) {
    Builder *b = m->b;
    const KExpr *steps = k_i32(b, ELEMENTS_F64_STEPS);
    if (m->plan->kind != MATMUL_F64)
        return k_add(b, m->lane_k, k_i32(b, ELEMENTS_NEXT_K * e));
    return k_xor(b, m->lane_k, k_add(b, k_mul(b, k_mod(b, kk, steps), steps), k_i32(b, e)));
}

void mma_elements_load(const Mma *m, const MatmulLoader *loader, bool is_a, const KExpr *stage,
                       const KExpr *mn, const KExpr *first, const KExpr *kk, const KVar *elements, int at) {
    Builder *b = m->b;
    bool is_k = loader->tile_major == MAJOR_K;
    Tile tile = loader->tile;
    tile.cols = tile.span;
    const KExpr *from = elements_from(m, loader, mn, first, kk);
    for (int half = 0; half < 2; half++)
        for (int e = 0; e < 2; e++) {
            const KExpr *own = k_add(b, m->lane_mn, k_i32(b, ELEMENTS_HALF * half)),
                        *k = elements_k(m, kk, e);
            const KExpr *index = k_add(b, tile_index(b, &tile, stage, is_k ? own : k, is_k ? k : own), from);
            const KExpr *to = k_i32(b, at + (is_a ? half + 2 * e : 2 * half + e));
            if (elements->type == K_U32)
                k_load_raw(b, elements, to, tile.buffer, index, 1, NULL, CACHE_DEFAULT);
            else
                k_load(b, elements, to, tile.buffer, index, 1, NULL, CACHE_DEFAULT);
        }
}
