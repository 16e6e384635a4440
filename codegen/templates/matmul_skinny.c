/* Products with a few rows, up to some dozens, by tensor cores: weights stream from memory to registers, many
 * loads under way, and are the first operand of mma.sync as they come; the few rows are its second. Nothing
 * goes through shared memory but the warps' parts of the sums. Weights of 4 and 8 bits become numbers of 16
 * in the registers, so that memory sets the pace there, too.
 *
 * The sum over K has no order of its own, so a lane's four elements of an instruction's 16 along K (PTX
 * ISA 9.7.14.5.8) are whatever it has loaded next, the same of both operands:
 *
 *     lane 4 g + q, a run:   K  q W .. q W + W       of columns g and g + 8 of 16, and of row g of 8
 *     instruction i          its elements 4 i .. 4 i + 3
 *
 * Nor have the columns of an instruction. Where weights lie along N a lane loads neighbouring columns at each
 * K of its run, and instructions have two of them each:
 *
 *     lane 4 g + q, a run:   K  q W .. q W + W       of columns g C .. g C + C, and of row g
 *     instruction i, j       its elements 4 i .. 4 i + 3 of columns 2 j and 2 j + 1
 *
 * A warp has tile_n / warps_n columns and all rows of the tile; warps_m of them share the K of a step, and
 * with split_k so do the blocks of a cluster (matmul_partials.c). swap_ab exchanges the operands' roles, for
 * few columns: what is said of rows and columns is then said of the transposed product, as in matmul_gemv.c.
 */
#include "codegen/templates/matmul_skinny_load.h"

#include "codegen/templates/matmul_partials.h"
#include "codegen/templates/matmul_paths.h"

static int skinny_pairs(const Skinny *s) {
    return s->shape.width / 2;
}

/* ---- words of two elements */

/* The pairs of a line along K in run `u`, of an operand that the graph's operations compute. */
static void skinny_compute(Skinny *s, SkinnySide *side, const KExpr *k0, const KExpr *u, const KExpr *line,
                           const KExpr **pairs) {
    Builder *b = s->b;
    const KExpr *slot = skinny_slot(s, side, u, line);
    Run run = skinny_run(s, side, k0, u, line);
    const Value *value = side->operand->value;
    const KVar *elements =
        k_array(b, value->name ? value->name : "operand", ktype_of(value->dtype), run.width, NULL);
    side->target.dst = elements;
    lower_batch_run(side->lower, &run, slot, &side->target, 1);
    for (int p = 0; p < skinny_pairs(s); p++) {
        const KExpr *pair[2];
        for (int e = 0; e < 2; e++)
            pair[e] = k_convert(b, k_elem_at(b, elements, skinny_pair_element(s->is_nibbles, p, e)), K_F32);
        pairs[p] = k_pack(b, side->operand->elem, pair);
        if (run.guard) /* what lies outside counts as zero, whatever is made of it */
            pairs[p] = k_select(b, run.guard, pairs[p], k_int(b, K_U32, 0));
    }
}

/* The pairs of a row in run `u`, in the order of the weights'. */
static void skinny_row_pairs(Skinny *s, SkinnySide *x, const KExpr *k0, const KExpr *u, const KExpr *line,
                             const KExpr **pairs) {
    Builder *b = s->b;
    if (!x->source.is_direct) {
        skinny_compute(s, x, k0, u, line, pairs);
        return;
    }
    int words = skinny_source_words(&x->source, s->shape.width);
    const KExpr *at = k_mul(b, skinny_slot(s, x, u, line), k_i32(b, words));
    if (s->is_nibbles)
        skinny_reorder(b, x->raw, at, s->shape.width, pairs);
    else
        skinny_widen(b, &x->source, x->operand->elem, x->raw, at, s->shape.width, pairs);
}

/* The rows' words of run `u`. */
static void skinny_take_rows(Skinny *s, int x, const KExpr *k0, const KExpr *u) {
    Builder *b = s->b;
    const KExpr *pairs[SKINNY_WIDTH_MAX / 2];
    const KExpr *line = epilogue_loop(b, "line", s->shape.groups);
    skinny_row_pairs(s, &s->x[x], k0, u, line, pairs);
    const KExpr *at = k_mul(b, line, k_i32(b, skinny_pairs(s)));
    for (int p = 0; p < skinny_pairs(s); p++)
        k_set_elem(b, s->b_words[x], k_add(b, at, k_i32(b, p)), pairs[p]);
    epilogue_loop_end(b, s->shape.groups);
}

/* The words of a block of 16 columns along K in run `u`: an instruction's four are the first pair of a column
 * g, the same of g + 8, and the second pair of both. */
static void skinny_take_block(Skinny *s, SkinnySide *w, const KExpr *k0, const KExpr *u, int block) {
    Builder *b = s->b;
    const KExpr *pairs[SKINNY_WIDTH_MAX / 2];
    bool is_direct = w->source.is_direct;
    int words = is_direct ? skinny_source_words(&w->source, s->shape.width) : 1,
        per_word = skinny_pairs(s) / words;
    const KExpr *half = epilogue_loop(b, "half", 2), *word = epilogue_loop(b, "word", words);
    const KExpr *line = k_add(b, half, k_i32(b, 2 * block));
    if (is_direct) {
        const KExpr *at = k_add(b, k_mul(b, skinny_slot(s, w, u, line), k_i32(b, words)), word);
        skinny_widen(b, &w->source, w->operand->elem, w->raw, at, 2 * per_word, pairs);
    } else {
        skinny_compute(s, w, k0, u, line, pairs);
    }
    const KExpr *to = k_add(b, half, k_mul(b, word, k_i32(b, 2 * per_word)));
    for (int p = 0; p < per_word; p++)
        k_set_elem(b, s->a_words, k_add(b, to, k_i32(b, 2 * p)), pairs[p]);
    epilogue_loop_end(b, words);
    epilogue_loop_end(b, 2);
}

/* The same of a word of neighbouring columns at each K of the run: an instruction has two of them. */
static void skinny_take_across(Skinny *s, SkinnySide *w, const KExpr *u, int block) {
    enum { PAIRS = SKINNY_OWN / 2 /* of an instruction's K */ };
    Builder *b = s->b;
    const KExpr *pairs[2 * SKINNY_OWN], *word[2];
    int words = skinny_source_words(&w->source, w->width), quads = s->shape.width / SKINNY_OWN;
    const KExpr *i = epilogue_loop(b, "i", quads), *p = epilogue_loop(b, "p", PAIRS);
    const KExpr *line = k_add(b, k_mul(b, i, k_i32(b, SKINNY_OWN)), k_mul(b, p, k_i32(b, 2)));
    for (int e = 0; e < 2; e++) {
        const KExpr *at = skinny_slot(s, w, u, k_add(b, line, k_i32(b, e)));
        word[e] = k_elem(b, w->raw, k_add(b, k_mul(b, at, k_i32(b, words)), k_i32(b, block)));
    }
    skinny_widen_across(b, &w->source, w->operand->elem, word[0], word[1], pairs);
    const KExpr *first = k_add(b, k_mul(b, i, k_i32(b, 4 * s->shape.wide)), k_mul(b, p, k_i32(b, 2)));
    for (int column = 0; column < 2 * s->shape.wide; column++)
        k_set_elem(b, s->a_words, k_add(b, first, k_i32(b, column / 2 * 4 + column % 2)), pairs[column]);
    epilogue_loop_end(b, PAIRS);
    epilogue_loop_end(b, quads);
}

/* ---- products */

/* sum[first ..] += the products of a block's instructions with all rows; `a`: of that with the rows alone. */
static void skinny_multiply(Skinny *s, const KVar *sum, int first, const KVar *a, int x) {
    Builder *b = s->b;
    int wide = a ? 1 : s->shape.wide;
    for (int i = 0; i < s->shape.width / SKINNY_OWN; i++)
        for (int c = 0; c < wide; c++)
            for (int group = 0; group < s->shape.groups; group++) {
                KOperand operands[] = {k_regs(sum, first + 4 * (c * s->shape.groups + group), 4),
                                       a ? k_regs(a, 0, 4) : k_regs(s->a_words, 4 * (i * wide + c), 4),
                                       k_regs(s->b_words[x], group * skinny_pairs(s) + 2 * i, 2)};
                k_atom(b, ATOM_mma_16bit, (int[]){s->plan->a.elem}, operands, 3);
            }
}

static void skinny_clear(Builder *b, const KVar *sums) {
    const KExpr *i = epilogue_loop(b, "i", sums->count);
    k_set_elem(b, sums, i, k_float(b, K_F32, 0));
    epilogue_loop_end(b, sums->count);
}

/* The sums of the rows' elements in a run: products with ones. */
static void skinny_sum_rows(Skinny *s, int x) {
    Builder *b = s->b;
    const KExpr *one[] = {k_float(b, K_F32, 1), k_float(b, K_F32, 1)};
    const KVar *ones = k_array(b, "ones", K_U32, 4, k_pack(b, s->plan->a.elem, one));
    skinny_clear(b, s->row_sum[x]);
    skinny_multiply(s, s->row_sum[x], 0, ones, x);
}

/* What is given to the sums of a column, of a lane's, in run `u`. */
static const KExpr *skinny_given(const Skinny *s, const SkinnySide *w, const KVar *of,
                                 const MatmulScale *scale, const KExpr *u, const KExpr *column) {
    Builder *b = s->b;
    const KExpr *slot = k_mul(b, u, k_i32(b, s->shape.columns));
    if (!w->is_across || skinny_varies(w, scale))
        slot = k_add(b, slot, column);
    return k_convert(b, k_elem(b, of, slot), K_F32);
}

/* A run's sums of a block of columns go to all of K's, times the factor and without the zero's part. */
static void skinny_add_part(Skinny *s, const SkinnySide *w, int core, int x, const KExpr *u, int block) {
    Builder *b = s->b;
    int wide = s->shape.wide, sums = 4 * s->shape.groups;
    const KExpr *c = epilogue_loop(b, "c", wide);
    const KExpr *group = epilogue_loop(b, "g", s->shape.groups), *half = epilogue_loop(b, "half", 2);
    const KExpr *e = epilogue_loop(b, "e", 2);
    const KExpr *column = k_add(b, half, k_mul(b, k_add(b, c, k_i32(b, block * wide)), k_i32(b, 2)));
    const KExpr *of_row = k_add(b, k_mul(b, group, k_i32(b, 4)), k_add(b, k_mul(b, half, k_i32(b, 2)), e));
    const KExpr *at = k_add(b, of_row, k_mul(b, c, k_i32(b, sums)));
    const KExpr *to = k_add(b, at, k_i32(b, block * wide * sums)), *part = k_elem(b, s->part, at);
    if (w->zero) {
        const KExpr *zero = skinny_given(s, w, w->zero, &w->source.zero, u, column);
        zero = k_sub(b, k_float(b, K_F32, 0), zero);
        part = k_scalar(b, OP_fma, zero, k_elem(b, s->row_sum[x], of_row), part);
    }
    const KExpr *sum = k_elem(b, s->accumulator[core], to);
    sum = w->factor
              ? k_scalar(b, OP_fma, skinny_given(s, w, w->factor, &w->source.factor, u, column), part, sum)
              : k_add(b, sum, part);
    k_set_elem(b, s->accumulator[core], to, sum);
    epilogue_loop_end(b, 2);
    epilogue_loop_end(b, 2);
    epilogue_loop_end(b, s->shape.groups);
    epilogue_loop_end(b, wide);
}

/* One of n_w and n_x is 1: their numbers' sum is the product's. */
static void skinny_block(Skinny *s, const KExpr *k0, const KExpr *u, int block) {
    for (int i = 0; i < s->n_w; i++) {
        SkinnySide *w = &s->w[i];
        if (s->shape.is_across)
            skinny_take_across(s, w, u, block);
        else
            skinny_take_block(s, w, k0, u, block);
        for (int x = 0; x < s->n_x; x++) {
            if (!w->factor && !w->zero) {
                skinny_multiply(s, s->accumulator[i + x], 4 * block * s->shape.wide * s->shape.groups, NULL,
                                x);
                continue;
            }
            skinny_clear(s->b, s->part);
            skinny_multiply(s, s->part, 0, NULL, x);
            skinny_add_part(s, w, i + x, x, u, block);
        }
    }
}

/* A step. What was loaded of a run is the next step's from there on, where `more` holds (NULL: there is
 * none). */
static void skinny_step(Skinny *s, const KExpr *k0, const KExpr *more) {
    Builder *b = s->b;
    for (int i = 0; i < s->n_w; i++)
        skinny_begin(s, &s->w[i], k0);
    for (int i = 0; i < s->n_x; i++)
        skinny_begin(s, &s->x[i], k0);
    const KExpr *u = epilogue_loop(b, "u", s->shape.unroll);
    for (int x = 0; x < s->n_x; x++) {
        skinny_take_rows(s, x, k0, u);
        if (s->has_zeros)
            skinny_sum_rows(s, x);
    }
    for (int block = 0; block < s->shape.blocks; block++)
        skinny_block(s, k0, u, block);
    if (more)
        skinny_load_both(s, k_add(b, k0, k_i32(b, s->schedule->tile_k)), u, more);
    epilogue_loop_end(b, s->shape.unroll);
    for (int i = 0; i < s->n_x; i++)
        skinny_end(&s->x[i]);
    for (int i = 0; i < s->n_w; i++)
        skinny_end(&s->w[i]);
}

static void skinny_product(Skinny *s) {
    Builder *b = s->b;
    DimTable *dims = s->plan->graph->dims;
    const Dim *all = dim_ceil_div(dims, s->plan->k, dim_const(dims, s->schedule->tile_k));
    const KExpr *first, *end, *tile_k = k_i32(b, s->schedule->tile_k);
    int split = matmul_split(s->schedule);
    matmul_partials_steps(b, all, split, &first, &end);
    const KExpr *some = split > 1 || !dim_is_const(all) ? k_lt(b, first, end) : NULL;
    const KExpr *u = epilogue_loop(b, "u", s->shape.unroll);
    skinny_load_both(s, k_mul(b, first, tile_k), u, some);
    epilogue_loop_end(b, s->shape.unroll);
    const KExpr *step = k_for_begin(b, "k_step", first, end, 1, UNROLL_NONE);
    bool is_once = split == 1 && dim_is(all, 1);
    skinny_step(s, k_let_expr(b, "k", k_mul(b, step, tile_k)),
                is_once ? NULL : k_lt(b, k_add(b, step, k_i32(b, 1)), end));
    k_end(b);
}

/* ---- the sums */

/* sums[at] of the lane to the parts: of columns that lie 8 apart one by one. */
static void skinny_put_along(const Skinny *s, const MatmulPartials *parts, const KExpr *warp_k,
                             const KExpr *row, const KExpr *group, const KExpr *e) {
    Builder *b = s->b;
    const KExpr *block = epilogue_loop(b, "block", s->shape.blocks), *half = epilogue_loop(b, "half", 2);
    const KExpr *col = k_add(b, s->warp_n, k_add(b, k_mul(b, block, k_i32(b, SKINNY_COLUMNS)), s->lane_line));
    col = k_add(b, col, k_mul(b, half, k_i32(b, SKINNY_ROWS)));
    const KExpr *at = k_add(b, k_mul(b, block, k_i32(b, s->shape.groups)), group);
    at = k_add(b, k_mul(b, at, k_i32(b, 4)), k_add(b, k_mul(b, half, k_i32(b, 2)), e));
    for (int core = 0; core < s->plan->n_cores; core++)
        k_store(b, parts->buffer[core], matmul_partials_index(b, parts, warp_k, row, col),
                s->accumulator[core], at, 1, NULL, CACHE_DEFAULT);
    epilogue_loop_end(b, 2);
    epilogue_loop_end(b, s->shape.blocks);
}

/* The same of neighbours, four at a time. */
static void skinny_put_across(const Skinny *s, const MatmulPartials *parts, const KExpr *warp_k,
                              const KExpr *row, const KExpr *group, const KExpr *e) {
    Builder *b = s->b;
    int fours = s->shape.columns / SKINNY_OWN;
    const KExpr *four = epilogue_loop(b, "four", fours);
    const KExpr *col = k_add(b, s->warp_n, k_mul(b, s->lane_line, k_i32(b, s->shape.columns)));
    col = k_add(b, col, k_mul(b, four, k_i32(b, SKINNY_OWN)));
    for (int core = 0; core < s->plan->n_cores; core++) {
        const KVar *sums = k_array(b, "sums", K_F32, SKINNY_OWN, NULL);
        for (int i = 0; i < SKINNY_OWN; i++) {
            const KExpr *at = k_add(b, k_mul(b, four, k_i32(b, 2)), k_i32(b, i / 2));
            at = k_add(b, k_mul(b, at, k_i32(b, s->shape.groups)), group);
            at = k_add(b, k_mul(b, at, k_i32(b, 4)), k_add(b, k_i32(b, 2 * (i % 2)), e));
            k_set_elem(b, sums, k_i32(b, i), k_elem(b, s->accumulator[core], at));
        }
        k_store(b, parts->buffer[core], matmul_partials_index(b, parts, warp_k, row, col), sums, NULL,
                SKINNY_OWN, NULL, CACHE_DEFAULT);
    }
    epilogue_loop_end(b, fours);
}

static void skinny_put(const Skinny *s, const MatmulPartials *parts, const KExpr *warp_k) {
    Builder *b = s->b;
    const KExpr *lane_pair = k_mod(b, k_special(b, SPECIAL_LANE), k_i32(b, SKINNY_LANES_K));
    lane_pair = k_mul(b, lane_pair, k_i32(b, 2));
    const KExpr *group = epilogue_loop(b, "g", s->shape.groups), *e = epilogue_loop(b, "e", 2);
    const KExpr *row = k_add(b, k_add(b, lane_pair, k_mul(b, group, k_i32(b, SKINNY_ROWS))), e);
    if (s->shape.is_across)
        skinny_put_across(s, parts, warp_k, row, group, e);
    else
        skinny_put_along(s, parts, warp_k, row, group, e);
    epilogue_loop_end(b, 2);
    epilogue_loop_end(b, s->shape.groups);
}

static void skinny_meet(const Skinny *s) {
    if (matmul_split(s->schedule) == 1)
        k_barrier(s->b);
    else
        k_cluster_barrier(s->b);
}

static void skinny_operands(Skinny *s) {
    Builder *b = s->b;
    const MatmulPlan *plan = s->plan;
    int sums = 4 * s->shape.groups;
    s->n_x = gemv_n_few(plan, s->schedule);
    s->n_w = gemv_n_weights(plan, s->schedule);
    for (int i = 0; i < s->n_w; i++) {
        skinny_side(s, &s->w[i], gemv_weights(plan, s->schedule, i), true);
        s->is_nibbles |= skinny_is_nibbles(&s->w[i].source);
        s->has_zeros |= s->w[i].zero != NULL;
        s->has_parts |= s->w[i].zero || s->w[i].factor;
    }
    for (int i = 0; i < s->n_x; i++) {
        skinny_side(s, &s->x[i], gemv_few(plan, s->schedule, i), false);
        s->b_words[i] = k_array(b, "b", K_U32, s->shape.groups * skinny_pairs(s), NULL);
        if (s->has_zeros)
            s->row_sum[i] = k_array(b, "row_sum", K_F32, sums, NULL);
    }
    s->a_words = k_array(b, "a", K_U32, 2 * skinny_pairs(s) * s->shape.wide, NULL);
    if (s->has_parts)
        s->part = k_array(b, "part", K_F32, sums * s->shape.wide, NULL);
    for (int core = 0; core < plan->n_cores; core++)
        s->accumulator[core] = k_array(b, plan->core[core]->name ? plan->core[core]->name : "acc", K_F32,
                                       sums * s->shape.blocks * s->shape.wide, k_float(b, K_F32, 0));
}

void matmul_build_skinny(Builder *b, const MatmulPlan *plan) {
    const Schedule *schedule = &plan->region->schedule;
    Kernel *kernel = b->kernel;
    Skinny s = {.b = b, .plan = plan, .schedule = schedule};
    skinny_shape(plan, schedule, &s.shape);
    int split = matmul_split(schedule);
    MatmulTiles tiles = matmul_tiles(plan, schedule);
    kernel->threads = GEMV_LANES * schedule->warps_m * schedule->warps_n;
    kernel->min_blocks = matmul_blocks_per_sm(plan, schedule);
    kernel->cluster[0] = split;
    kernel->grid[0] = dim_mul(plan->graph->dims, tiles.count, dim_const(plan->graph->dims, split));
    MatmulPartials parts =
        matmul_partials(b, plan, schedule->tile_m, schedule->tile_n, schedule->warps_m, split);
    parts.is_swapped = schedule->swap_ab;
    Lower *lower = lower_new(b, plan->region);

    const KExpr *lane = k_special(b, SPECIAL_LANE), *warp = k_special(b, SPECIAL_WARP);
    const KExpr *warp_k = k_let_expr(b, "warp_k", k_mod(b, warp, k_i32(b, schedule->warps_m)));
    const KExpr *warp_n = k_div(b, warp, k_i32(b, schedule->warps_m));
    const KExpr *lane_k = k_mod(b, lane, k_i32(b, SKINNY_LANES_K));
    s.lane_line = k_let_expr(b, "lane_line", k_div(b, lane, k_i32(b, SKINNY_LANES_K)));
    s.warp_n = k_let_expr(b, "warp_n", k_mul(b, warp_n, k_i32(b, schedule->tile_n / schedule->warps_n)));
    const KExpr *own_k = k_mul(b, warp_k, k_i32(b, SKINNY_LANES_K * s.shape.unroll));
    s.thread_k = k_let_expr(b, "thread_k", k_mul(b, k_add(b, own_k, lane_k), k_i32(b, s.shape.width)));
    const KExpr *number = k_special(b, SPECIAL_CTA_X);
    s.tile = matmul_tile_at(b, plan, &tiles, split > 1 ? k_div(b, number, k_i32(b, split)) : number);
    skinny_operands(&s);
    skinny_product(&s);
    skinny_put(&s, &parts, warp_k);
    skinny_meet(&s);
    matmul_partials_finish(b, plan, lower, &parts, k_special(b, SPECIAL_TID), kernel->threads, s.tile.row,
                           s.tile.col, s.tile.batch);
    if (split > 1) /* no block leaves while another may still read its parts */
        skinny_meet(&s);
    kernel->summary =
        text_format(b->arena,
                    "matmul by streaming to mma.sync: up to %d %s, %s %d in runs of %d along %s, %d under "
                    "way, %dx%d warps%s",
                    schedule->tile_m, schedule->swap_ab ? "columns" : "rows",
                    schedule->swap_ab ? "rows" : "weights", schedule->tile_n, s.w[0].width,
                    !s.shape.is_across  ? "K"
                    : schedule->swap_ab ? "M"
                                        : "N",
                    s.shape.unroll * s.w[0].lines, schedule->warps_m, schedule->warps_n,
                    split > 1 ? text_format(b->arena, ", K split among %d blocks of a cluster", split) : "");
}
