/* What lanes load of the operands of a product with a few rows, a step ahead of what they multiply. */
#include "codegen/templates/matmul_skinny_load.h"

#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_result.h"

Run skinny_run(const Skinny *s, const SkinnySide *side, const KExpr *k0, const KExpr *u, const KExpr *line) {
    Builder *b = s->b;
    const MatmulOperand *operand = side->operand;
    bool is_across = side->is_across;
    const KExpr *k = k_add(b, k0, s->thread_k);
    k = k_add(b, k, k_mul(b, u, k_i32(b, SKINNY_LANES_K * s->shape.width)));
    const KExpr *mn = is_across ? k_mul(b, s->lane_line, k_i32(b, side->width))
                                : k_add(b, s->lane_line, k_mul(b, line, k_i32(b, SKINNY_ROWS)));
    k = is_across ? k_add(b, k, line) : k;
    mn = k_add(b, mn, side->is_weight ? k_add(b, s->tile.col, s->warp_n) : s->tile.row);
    const GemvPlace place = {mn, k, side->tile_mn, is_across ? operand->mn_axis : operand->k_axis,
                             side->width};
    return gemv_run(b, s->plan, s->schedule, operand, s->tile.batch, &place);
}

const KExpr *skinny_slot(const Skinny *s, const SkinnySide *side, const KExpr *u, const KExpr *line) {
    return k_add(s->b, k_mul(s->b, u, k_i32(s->b, side->lines)), line);
}

bool skinny_varies(const SkinnySide *side, const MatmulScale *scale) {
    const MatmulScaleAxis *along = &scale->axis[side->operand->mn_axis];
    return along->stride && along->block % side->width != 0;
}

/* Factors of neighbouring columns that one access brings. */
static int skinny_factor_access(const Skinny *s, const SkinnySide *side, const MatmulScale *scale) {
    DimTable *dims = s->plan->graph->dims;
    const MatmulOperand *operand = side->operand;
    const MatmulScaleAxis *along = &scale->axis[operand->mn_axis];
    if (along->block != 1 || !dim_is(along->stride, 1))
        return 1;
    int access = GEMV_ACCESS_BITS / dtype_bits(scale->base->dtype);
    access = side->width < access ? side->width : access;
    while (access > 1 && dim_divisor(dims, scale->offset) % access != 0)
        access /= 2;
    for (int axis = 0; axis < operand->value->rank; axis++)
        while (access > 1 && axis != operand->mn_axis && scale->axis[axis].stride &&
               dim_divisor(dims, scale->axis[axis].stride) % access != 0)
            access /= 2;
    return access;
}

/* The factors, or the zeros, of the columns of a run. */
static void skinny_load_factors(const Skinny *s, const SkinnySide *side, const MatmulScale *scale,
                                const Run *run, const KVar *to, const KExpr *slot) {
    Builder *b = s->b;
    KType type = lower_index_type(side->lower);
    int columns = side->is_across && skinny_varies(side, scale) ? side->width : 1;
    int access = columns > 1 ? skinny_factor_access(s, side, scale) : 1;
    for (int column = 0; column < columns; column += access) {
        const KExpr *index = k_dim(b, scale->offset, type);
        for (int axis = 0; axis < run->rank; axis++) {
            const MatmulScaleAxis *along = &scale->axis[axis];
            if (!along->stride)
                continue;
            const KExpr *coord = k_convert(b, run->coords[axis], type);
            if (axis == side->operand->mn_axis)
                coord = k_add(b, coord, k_int(b, type, column));
            const KExpr *block = k_div(b, coord, k_int(b, type, along->block));
            index = k_add(b, index, k_mul(b, block, k_dim(b, along->stride, type)));
        }
        k_load(b, to, k_add(b, slot, k_i32(b, column)), k_global(b, scale->base, false), index, access,
               run->guard, CACHE_DEFAULT);
    }
}

/* A line's words of memory. What lies outside comes as zeros. */
static void skinny_load_line(const Skinny *s, const SkinnySide *side, const Run *run, const KExpr *slot) {
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
}

/* What belongs to the sums of a run: of line `line`, or of all columns of a lane. */
static void skinny_load_parts(const Skinny *s, const SkinnySide *side, const Run *run, const KExpr *u,
                              const KExpr *line) {
    const KExpr *slot = k_add(s->b, k_mul(s->b, u, k_i32(s->b, s->shape.columns)), line);
    if (side->factor)
        skinny_load_factors(s, side, &side->source.factor, run, side->factor, slot);
    if (side->zero)
        skinny_load_factors(s, side, &side->source.zero, run, side->zero, slot);
}

static Run skinny_run_where(const Skinny *s, const SkinnySide *side, const KExpr *k0, const KExpr *u,
                            const KExpr *line, const KExpr *more) {
    Run run = skinny_run(s, side, k0, u, line);
    run.guard = k_and(s->b, more, run.guard);
    return run;
}

static void skinny_load(const Skinny *s, const SkinnySide *side, const KExpr *k0, const KExpr *u,
                        const KExpr *more) {
    Builder *b = s->b;
    if (!side->source.is_direct)
        return;
    const KExpr *line = epilogue_loop(b, "line", side->lines);
    Run run = skinny_run_where(s, side, k0, u, line, more);
    skinny_load_line(s, side, &run, skinny_slot(s, side, u, line));
    if (!side->is_across)
        skinny_load_parts(s, side, &run, u, line);
    epilogue_loop_end(b, side->lines);
    if (side->is_across && (side->factor || side->zero)) {
        const KExpr *first = k_i32(b, 0);
        run = skinny_run_where(s, side, k0, u, first, more);
        skinny_load_parts(s, side, &run, u, first);
    }
}

void skinny_load_both(const Skinny *s, const KExpr *k0, const KExpr *u, const KExpr *more) {
    for (int i = 0; i < s->n_w; i++)
        skinny_load(s, &s->w[i], k0, u, more);
    for (int i = 0; i < s->n_x; i++)
        skinny_load(s, &s->x[i], k0, u, more);
}

void skinny_begin(Skinny *s, SkinnySide *side, const KExpr *k0) {
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

void skinny_end(SkinnySide *side) {
    if (!side->source.is_direct)
        lower_batch_end(side->lower);
}

/* Arrays for the runs of a step, of memory that lanes take themselves. */
static void skinny_arrays(Skinny *s, SkinnySide *side, int access) {
    Builder *b = s->b;
    const SkinnySource *source = &side->source;
    const char *name = source->view.base->name ? source->view.base->name : "operand";
    int runs = s->shape.unroll;
    side->access = access;
    side->raw = k_array(b, text_format(b->arena, "%s_bits", name), K_U32,
                        runs * side->lines * skinny_source_words(source, side->width), NULL);
    if (source->has_factor)
        side->factor =
            k_array(b, "factor", ktype_of(source->factor.base->dtype), runs * s->shape.columns, NULL);
    if (source->has_zero)
        side->zero = k_array(b, "zero", ktype_of(source->zero.base->dtype), runs * s->shape.columns, NULL);
}

void skinny_side(Skinny *s, SkinnySide *side, const MatmulOperand *operand, bool is_weight) {
    Builder *b = s->b;
    const Schedule *schedule = s->schedule;
    bool is_across = is_weight && s->shape.is_across;
    *side = (SkinnySide){.operand = operand,
                         .is_weight = is_weight,
                         .is_across = is_across,
                         .lines = is_across   ? s->shape.width
                                  : is_weight ? s->shape.columns
                                              : s->shape.groups,
                         .tile_mn = is_weight ? schedule->tile_n : schedule->tile_m,
                         .width = is_across ? s->shape.columns : s->shape.width,
                         .cache = !is_weight                           ? CACHE_KEEP
                                  : matmul_leaves_l2(s->plan, operand) ? CACHE_STREAM
                                                                       : CACHE_DEFAULT,
                         .source = *skinny_source(s->plan, operand)};
    SkinnySource *source = &side->source;
    int most = GEMV_ACCESS_BITS / dtype_bits(source->is_direct ? source->dtype : operand->elem);
    int axis = is_across ? operand->mn_axis : operand->k_axis;
    int access =
        source->is_direct ? view_vector_width(s->plan->graph, &source->view, operand->value, axis, most) : 1;
    access = access < side->width ? access : side->width;
    if (is_weight) {
        source->is_direct = s->shape.is_direct;
    } else if (source->is_direct) { /* the rows as they are, by vectors */
        source->is_direct = source->dtype == operand->elem && !source->is_across && !source->has_factor &&
                            !source->has_zero && access > 1;
    }
    side->lower = lower_new(b, matmul_operand_space(b->arena, s->plan->region, operand->value));
    lower_set_cache(side->lower, side->cache);
    if (source->is_direct)
        skinny_arrays(s, side, access);
}
