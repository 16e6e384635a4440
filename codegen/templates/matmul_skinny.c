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
 * A warp has tile_n / warps_n columns and all rows of the tile; warps_m of them share the K of a step, and
 * with split_k so do the blocks of a cluster (matmul_partials.c). swap_ab exchanges the operands' roles, for
 * few columns: what is said of rows and columns is then said of the transposed product, as in matmul_gemv.c.
 */
#include "codegen/templates/matmul_skinny.h"

#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_partials.h"
#include "codegen/templates/matmul_paths.h"

/* One operand: its lines (columns of the weights, or rows) of a lane, and what was loaded of them. */
typedef struct SkinnySide {
    const MatmulOperand *operand;
    bool is_weight;
    int lines, tile_mn;
    KCache cache;
    SkinnySource source;
    int access; /* elements of an access, where lanes take them from memory */
    const KVar *raw, *factor,
        *zero;    /* of all runs of a step, [run][line]: words of memory, factors and zeros */
    Lower *lower; /* else */
    LowerTarget target;
} SkinnySide;

typedef struct Skinny {
    Builder *b;
    const MatmulPlan *plan;
    const Schedule *schedule;
    SkinnyShape shape;
    int n_x, n_w;
    SkinnySide x[MATMUL_CORES], w[MATMUL_CORES];
    bool is_nibbles;                             /* in whose order pairs are */
    bool has_parts;                              /* factors or zeros are given to the sums of each run */
    bool has_zeros;                              /* which takes the sums of the rows, too */
    const KExpr *lane_line;                      /* g */
    const KExpr *thread_k;                       /* of the thread's first run in a step */
    const KExpr *warp_n;                         /* the warp's first column in the tile */
    const KVar *accumulator[MATMUL_CORES];       /* [block][group][half][pair] */
    const KVar *part, *row_sum[MATMUL_CORES];    /* of a run, a block of columns: [group][half][pair] */
    const KVar *a_words, *b_words[MATMUL_CORES]; /* of a block of columns, of all rows, in a run */
    MatmulTile tile;
} Skinny;

static int skinny_pairs(const Skinny *s) {
    return s->shape.width / 2;
}

/* ---- loads */

/* Where a lane's run `u` of a line is in the operand, in the step that begins at k0. */
static Run skinny_run(const Skinny *s, const SkinnySide *side, const KExpr *k0, const KExpr *u,
                      const KExpr *line) {
    Builder *b = s->b;
    DimTable *dims = s->plan->graph->dims;
    const MatmulOperand *operand = side->operand;
    const Value *value = operand->value;
    Run run = {.rank = value->rank, .axis = operand->k_axis, .width = s->shape.width};
    const KExpr *k = k_add(b, k0, s->thread_k);
    k = k_add(b, k, k_mul(b, u, k_i32(b, SKINNY_LANES_K * s->shape.width)));
    const KExpr *mn = k_add(b, s->lane_line, k_mul(b, line, k_i32(b, SKINNY_ROWS)));
    mn = k_add(b, mn, side->is_weight ? k_add(b, s->tile.col, s->warp_n) : s->tile.row);
    for (int i = 0; i < value->rank - 2; i++)
        run.coords[i] = matmul_batch_coord(b, s->plan, operand, i, s->tile.batch);
    run.coords[operand->mn_axis] = mn;
    run.coords[operand->k_axis] = k;
    if (dim_divisor(dims, operand->mn) % side->tile_mn != 0)
        run.guard = k_lt(b, mn, k_dim(b, operand->mn, K_I32));
    if (dim_divisor(dims, s->plan->k) % s->schedule->tile_k != 0)
        run.guard = k_and(b, run.guard, k_lt(b, k, k_dim(b, s->plan->k, K_I32)));
    return run;
}

static const KExpr *skinny_slot(const Skinny *s, const SkinnySide *side, const KExpr *u, const KExpr *line) {
    return k_add(s->b, k_mul(s->b, u, k_i32(s->b, side->lines)), line);
}

/* The factor, or the zero, of a run. */
static void skinny_load_factor(const Skinny *s, const SkinnySide *side, const MatmulScale *scale,
                               const Run *run, const KVar *to, const KExpr *slot) {
    Builder *b = s->b;
    KType type = lower_index_type(side->lower);
    const KExpr *index = k_dim(b, scale->offset, type);
    for (int axis = 0; axis < run->rank; axis++) {
        const MatmulScaleAxis *along = &scale->axis[axis];
        if (!along->stride)
            continue;
        const KExpr *block = k_div(b, k_convert(b, run->coords[axis], type), k_int(b, type, along->block));
        index = k_add(b, index, k_mul(b, block, k_dim(b, along->stride, type)));
    }
    k_load(b, to, slot, k_global(b, scale->base, false), index, 1, run->guard, CACHE_DEFAULT);
}

/* A run's words of memory. What lies outside comes as zeros. */
static void skinny_load_run(const Skinny *s, const SkinnySide *side, const Run *run, const KExpr *slot) {
    Builder *b = s->b;
    const View *view = &side->source.view;
    KType type = lower_index_type(side->lower);
    const KExpr *index = k_dim(b, view->offset, type);
    for (int axis = 0; axis < run->rank; axis++) {
        const Dim *stride = view->strides[axis];
        if (!dim_is(stride, 0))
            index = k_add(b, index, k_mul(b, k_convert(b, run->coords[axis], type), k_dim(b, stride, type)));
    }
    if (side->access < run->width)
        index = k_let_expr(b, "at", index);
    int words = skinny_source_words(&side->source, run->width);
    const KExpr *to = k_mul(b, slot, k_i32(b, words));
    for (int i = 0; i < run->width; i += side->access)
        k_load_raw(b, side->raw, k_add(b, to, k_i32(b, skinny_source_words(&side->source, i))),
                   k_global(b, view->base, false), k_add(b, index, k_int(b, type, i)), side->access,
                   run->guard, side->cache);
    if (side->factor)
        skinny_load_factor(s, side, &side->source.factor, run, side->factor, slot);
    if (side->zero)
        skinny_load_factor(s, side, &side->source.zero, run, side->zero, slot);
}

/* Run `u` of the step that begins at k0, of operands that lanes take from memory, where `more` holds (NULL:
 * always). */
static void skinny_load(const Skinny *s, const SkinnySide *side, const KExpr *k0, const KExpr *u,
                        const KExpr *more) {
    Builder *b = s->b;
    if (!side->source.is_direct)
        return;
    const KExpr *line = epilogue_loop(b, "line", side->lines);
    Run run = skinny_run(s, side, k0, u, line);
    run.guard = k_and(b, more, run.guard);
    skinny_load_run(s, side, &run, skinny_slot(s, side, u, line));
    epilogue_loop_end(b, side->lines);
}

static void skinny_load_both(const Skinny *s, const KExpr *k0, const KExpr *u, const KExpr *more) {
    for (int i = 0; i < s->n_w; i++)
        skinny_load(s, &s->w[i], k0, u, more);
    for (int i = 0; i < s->n_x; i++)
        skinny_load(s, &s->x[i], k0, u, more);
}

/* What all runs of a step are computed from, of the other operands. */
static void skinny_begin(Skinny *s, SkinnySide *side, const KExpr *k0) {
    Builder *b = s->b;
    const KExpr *zero = k_i32(b, 0);
    if (side->source.is_direct)
        return;
    Run run = skinny_run(s, side, k0, zero, zero);
    side->target = (LowerTarget){.value = side->operand->value, .stored = true};
    lower_batch_begin(side->lower, &run, &side->target, 1, s->shape.unroll * side->lines);
    const KExpr *u = epilogue_loop(b, "u", s->shape.unroll), *line = epilogue_loop(b, "line", side->lines);
    run = skinny_run(s, side, k0, u, line);
    lower_batch_load(side->lower, &run, skinny_slot(s, side, u, line));
    epilogue_loop_end(b, side->lines);
    epilogue_loop_end(b, s->shape.unroll);
}

static void skinny_end(SkinnySide *side) {
    if (!side->source.is_direct)
        lower_batch_end(side->lower);
}

/* ---- words of two elements */

/* The pairs of a line in run `u`. */
static void skinny_pairs_of(Skinny *s, SkinnySide *side, const KExpr *k0, const KExpr *u, const KExpr *line,
                            const KExpr **pairs) {
    Builder *b = s->b;
    const KExpr *slot = skinny_slot(s, side, u, line);
    if (side->source.is_direct) {
        const KExpr *at = k_mul(b, slot, k_i32(b, skinny_source_words(&side->source, s->shape.width)));
        if (s->is_nibbles && !side->is_weight)
            skinny_reorder(b, side->raw, at, s->shape.width, pairs);
        else
            skinny_widen(b, &side->source, side->operand->elem, side->raw, at, s->shape.width, pairs);
        return;
    }
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

/* The rows' words of run `u`. */
static void skinny_take_rows(Skinny *s, int x, const KExpr *k0, const KExpr *u) {
    Builder *b = s->b;
    const KExpr *pairs[SKINNY_WIDTH_MAX / 2];
    const KExpr *line = epilogue_loop(b, "line", s->shape.groups);
    skinny_pairs_of(s, &s->x[x], k0, u, line, pairs);
    const KExpr *at = k_mul(b, line, k_i32(b, skinny_pairs(s)));
    for (int p = 0; p < skinny_pairs(s); p++)
        k_set_elem(b, s->b_words[x], k_add(b, at, k_i32(b, p)), pairs[p]);
    epilogue_loop_end(b, s->shape.groups);
}

/* The words of a block of 16 columns in run `u`: an instruction's four are the first pair of a column g, the
 * same of g
 * + 8, and the second pair of both. */
static void skinny_take_block(Skinny *s, int w, const KExpr *k0, const KExpr *u, int block) {
    Builder *b = s->b;
    const KExpr *pairs[SKINNY_WIDTH_MAX / 2];
    const KExpr *half = epilogue_loop(b, "half", 2);
    skinny_pairs_of(s, &s->w[w], k0, u, k_add(b, half, k_i32(b, 2 * block)), pairs);
    for (int p = 0; p < skinny_pairs(s); p++)
        k_set_elem(b, s->a_words, k_add(b, half, k_i32(b, 2 * p)), pairs[p]);
    epilogue_loop_end(b, 2);
}

/* ---- products */

/* sum[first ..] += the instruction's products of a_words, or where `a` is not NULL of that, with all rows. */
static void skinny_multiply(Skinny *s, const KVar *sum, int first, const KVar *a, int x) {
    Builder *b = s->b;
    for (int i = 0; i < s->shape.width / SKINNY_OWN; i++)
        for (int group = 0; group < s->shape.groups; group++) {
            KOperand operands[] = {k_regs(sum, first + 4 * group, 4),
                                   a ? k_regs(a, 0, 4) : k_regs(s->a_words, 4 * i, 4),
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

/* A run's sums of a block of columns go to all of K's, times the factor and without the zero's part. */
static void skinny_add_part(Skinny *s, const SkinnySide *w, int core, int x, const KExpr *u, int block) {
    Builder *b = s->b;
    const KExpr *group = epilogue_loop(b, "g", s->shape.groups), *half = epilogue_loop(b, "half", 2);
    const KExpr *e = epilogue_loop(b, "e", 2);
    const KExpr *slot = skinny_slot(s, w, u, k_add(b, half, k_i32(b, 2 * block)));
    const KExpr *at = k_add(b, k_mul(b, group, k_i32(b, 4)), k_add(b, k_mul(b, half, k_i32(b, 2)), e));
    const KExpr *to = k_add(b, at, k_i32(b, 4 * block * s->shape.groups)), *part = k_elem(b, s->part, at);
    if (w->zero) {
        const KExpr *zero = k_sub(b, k_float(b, K_F32, 0), k_convert(b, k_elem(b, w->zero, slot), K_F32));
        part = k_scalar(b, OP_fma, zero, k_elem(b, s->row_sum[x], at), part);
    }
    const KExpr *sum = k_elem(b, s->accumulator[core], to);
    sum = w->factor ? k_scalar(b, OP_fma, k_convert(b, k_elem(b, w->factor, slot), K_F32), part, sum)
                    : k_add(b, sum, part);
    k_set_elem(b, s->accumulator[core], to, sum);
    epilogue_loop_end(b, 2);
    epilogue_loop_end(b, 2);
    epilogue_loop_end(b, s->shape.groups);
}

/* One of n_w and n_x is 1: their numbers' sum is the product's. */
static void skinny_block(Skinny *s, const KExpr *k0, const KExpr *u, int block) {
    for (int i = 0; i < s->n_w; i++) {
        const SkinnySide *w = &s->w[i];
        skinny_take_block(s, i, k0, u, block);
        for (int x = 0; x < s->n_x; x++) {
            if (!w->factor && !w->zero) {
                skinny_multiply(s, s->accumulator[i + x], 4 * block * s->shape.groups, NULL, x);
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

static void skinny_put(const Skinny *s, const MatmulPartials *parts, const KExpr *warp_k) {
    Builder *b = s->b;
    const KExpr *lane_pair = k_mod(b, k_special(b, SPECIAL_LANE), k_i32(b, SKINNY_LANES_K));
    lane_pair = k_mul(b, lane_pair, k_i32(b, 2));
    const KExpr *block = epilogue_loop(b, "block", s->shape.blocks);
    const KExpr *group = epilogue_loop(b, "g", s->shape.groups), *half = epilogue_loop(b, "half", 2);
    const KExpr *e = epilogue_loop(b, "e", 2);
    const KExpr *col = k_add(b, s->warp_n, k_add(b, k_mul(b, block, k_i32(b, SKINNY_COLUMNS)), s->lane_line));
    col = k_add(b, col, k_mul(b, half, k_i32(b, SKINNY_ROWS)));
    const KExpr *row = k_add(b, k_add(b, lane_pair, k_mul(b, group, k_i32(b, SKINNY_ROWS))), e);
    const KExpr *at = k_add(b, k_mul(b, block, k_i32(b, s->shape.groups)), group);
    at = k_add(b, k_mul(b, at, k_i32(b, 4)), k_add(b, k_mul(b, half, k_i32(b, 2)), e));
    for (int core = 0; core < s->plan->n_cores; core++)
        k_store(b, parts->buffer[core], matmul_partials_index(b, parts, warp_k, row, col),
                s->accumulator[core], at, 1, NULL, CACHE_DEFAULT);
    epilogue_loop_end(b, 2);
    epilogue_loop_end(b, 2);
    epilogue_loop_end(b, s->shape.groups);
    epilogue_loop_end(b, s->shape.blocks);
}

static void skinny_meet(const Skinny *s) {
    if (matmul_split(s->schedule) == 1)
        k_barrier(s->b);
    else
        k_cluster_barrier(s->b);
}

/* Arrays for the runs of a step, of memory that lanes take themselves. */
static void skinny_arrays(Skinny *s, SkinnySide *side, int access) {
    Builder *b = s->b;
    const SkinnySource *source = &side->source;
    const char *name = source->view.base->name ? source->view.base->name : "operand";
    int slots = s->shape.unroll * side->lines;
    side->access = access;
    side->raw = k_array(b, text_format(b->arena, "%s_bits", name), K_U32,
                        slots * skinny_source_words(source, s->shape.width), NULL);
    if (source->has_factor)
        side->factor = k_array(b, "factor", ktype_of(source->factor.base->dtype), slots, NULL);
    if (source->has_zero)
        side->zero = k_array(b, "zero", ktype_of(source->zero.base->dtype), slots, NULL);
}

static void skinny_side(Skinny *s, SkinnySide *side, const MatmulOperand *operand, bool is_weight) {
    Builder *b = s->b;
    const Schedule *schedule = s->schedule;
    *side = (SkinnySide){.operand = operand,
                         .is_weight = is_weight,
                         .lines = is_weight ? 2 * s->shape.blocks : s->shape.groups,
                         .tile_mn = is_weight ? schedule->tile_n : schedule->tile_m,
                         .cache = !is_weight                           ? CACHE_KEEP
                                  : matmul_leaves_l2(s->plan, operand) ? CACHE_STREAM
                                                                       : CACHE_DEFAULT,
                         .source = skinny_source(s->plan, operand)};
    SkinnySource *source = &side->source;
    int most = GEMV_ACCESS_BITS / dtype_bits(operand->elem), width = s->shape.width;
    if (is_weight) {
        source->is_direct = s->shape.is_direct;
    } else if (source->is_direct) { /* the rows as they are, by vectors */
        int vector = view_vector_width(s->plan->graph, &source->view, operand->value, operand->k_axis, most);
        width = vector < width ? vector : width;
        source->is_direct =
            source->dtype == operand->elem && !source->has_factor && !source->has_zero && width > 1;
    }
    side->lower = lower_new(b, matmul_operand_space(b->arena, s->plan->region, operand->value));
    lower_set_cache(side->lower, side->cache);
    if (source->is_direct)
        skinny_arrays(s, side, width);
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
    s->a_words = k_array(b, "a", K_U32, 2 * skinny_pairs(s), NULL);
    if (s->has_parts)
        s->part = k_array(b, "part", K_F32, sums, NULL);
    for (int core = 0; core < plan->n_cores; core++)
        s->accumulator[core] = k_array(b, plan->core[core]->name ? plan->core[core]->name : "acc", K_F32,
                                       sums * s->shape.blocks, k_float(b, K_F32, 0));
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
    s.warp_n = k_let_expr(b, "warp_n", k_mul(b, warp_n, k_i32(b, SKINNY_COLUMNS * s.shape.blocks)));
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
                    "matmul by streaming to mma.sync: up to %d %s, %s %d in runs of %d along K, %d under "
                    "way, %dx%d warps%s",
                    schedule->tile_m, schedule->swap_ab ? "columns" : "rows",
                    schedule->swap_ab ? "rows" : "weights", schedule->tile_n, s.shape.width,
                    s.shape.unroll * 2 * s.shape.blocks, schedule->warps_m, schedule->warps_n,
                    split > 1 ? text_format(b->arena, ", K split among %d blocks of a cluster", split) : "");
}
