/* Rows that begin anywhere in memory: their length is no multiple of a vector, as 50257 or 1001.
 *
 * Vectors begin where memory has them, so that each row has a few elements before its first whole vector and
 * behind its last one, its edges:
 *
 *     memory   | . . . . . . x x | x x x x x x x x | x x x x x x x x | x x x . . . . . |
 *                        head      runs of the row's threads           tail
 *
 * Whole vectors are the row's runs. The first threads have an element of the edges each, which they read
 * once, ahead of everything, and add to each pass. */
#include "codegen/lower.h"
#include "codegen/templates/rows_build.h"
#include "ir/base/checked.h"

enum {
    SKEWED_LEAST = 128, /* elements of a row: edges are a pass of their own (softmax of 77 elements in 100000
                         * rows: 13.5 us by the element, 14.4; of 129 in 60000: 14.4, 13.0) */
    SKEWED_EDGES = 2,   /* of less than a vector each */
};

/* ---- schedules */

RunStart rows_start(const Graph *graph, const Region *region, int vector) {
    if (region->rank == 0 || dim_divisor(graph->dims, region->dims[region->rank - 1]) % vector == 0)
        return RUN_IN_ROW;
    bool is_whole = dim_divisor(graph->dims, rows_extent(graph, region)) % vector == 0;
    return region->n_reduced > 1 && is_whole ? RUN_FLAT : RUN_SKEWED;
}

int rows_unaligned_vector(const Graph *graph, const Region *region) {
    RowsDown down[ROWS_DOWN_MAX];
    const Dim *extent = rows_extent(graph, region);
    if (rows_may_have_rounds(region) || rows_find_down(region, down) > 0)
        return 1;
    if (region->n_reduced > 1) {
        int vector = lower_unaligned_width(graph, region, RUN_FLAT);
        while (dim_divisor(graph->dims, extent) % vector != 0)
            vector /= 2;
        return rows_loaded_width(graph, region, vector);
    }
    if (!dim_is_const(extent) || extent->value < SKEWED_LEAST)
        return 1;
    return rows_loaded_width(graph, region, lower_unaligned_width(graph, region, RUN_SKEWED));
}

bool rows_accepts_unaligned(const Graph *graph, const Region *region, const Schedule *s, const char **why) {
    bool has_edges = rows_start(graph, region, s->vector) == RUN_SKEWED;
    if (is_power_of_two(s->vector) && s->vector <= rows_unaligned_vector(graph, region) &&
        (!has_edges || s->threads_per_row >= SKEWED_EDGES * s->vector))
        return true;
    *why = "vector must be a power of two that divides a row's length; or that memory takes where rows begin "
           "anywhere, and a row have two threads for each of its elements";
    return false;
}

/* ---- the kernel */

const KExpr *rows_inside(const Rows *rows, const KExpr *at) {
    Builder *b = rows->b;
    const KExpr *extent = k_dim(b, rows->extent, rows->index);
    if (rows->start != RUN_SKEWED)
        return k_lt(b, at, extent);
    return k_lt(b, k_add(b, at, k_int(b, rows->index, rows->width - 1)), extent);
}

/* What is left of the row without its runs, by the thread's number; and all that passes read of it. */
void rows_edges_begin(Rows *rows, const LowerTarget *targets, int n) {
    Builder *b = rows->b;
    if (rows->start != RUN_SKEWED)
        return;
    const KExpr *width = k_int(b, rows->index, rows->width), *extent = k_dim(b, rows->extent, rows->index);
    const KExpr *before = k_mul(b, k_mod(b, rows->row, width), k_mod(b, extent, width));
    rows->head = k_let_expr(b, "head", k_mod(b, k_sub(b, k_mul(b, width, width), before), width));
    const KExpr *runs = k_div(b, k_sub(b, extent, rows->head), width);
    runs = k_let_expr(b, "in_runs", k_mul(b, runs, width));
    const KExpr *is_head = k_lt(b, rows->lane, rows->head);
    const KExpr *at = k_select(b, is_head, rows->lane, k_add(b, rows->lane, runs));
    at = k_let_expr(b, "edge", at);
    const KExpr *inside = k_and(b, rows->row_inside, k_lt(b, at, extent));
    rows->at_edge = k_let_expr(b, "at_edge", inside);
    rows->edge = (Run){.rank = rows->region->rank,
                       .axis = rows->region->rank - 1,
                       .width = 1,
                       .outer = rows->row,
                       .inner = at,
                       .split = rows->split,
                       .guard = rows->at_edge};
    lower_delinearize(b, rows->row, rows->split, rows->region->dims, rows->edge.coords);
    rows->edge.coords[rows->split] = at;
    lower_batch_streams_only(rows->lower, true);
    lower_batch_begin(rows->lower, &rows->edge, targets, n, 1);
    lower_batch_streams_only(rows->lower, false);
    lower_batch_load(rows->lower, &rows->edge, k_i32(b, 0));
}

void rows_edges_end(Rows *rows) {
    if (rows->start == RUN_SKEWED)
        lower_batch_end(rows->lower);
}

/* Of an extremum's place, a thread's elements do not come in their order here: partial results of its own. */
void rows_edges_pass(Rows *rows, const LowerTarget *targets, const PartialVars *acc, int n) {
    Builder *b = rows->b;
    Lower *lower = rows->lower;
    if (rows->start != RUN_SKEWED)
        return;
    for (size_t i = 0; i < rows->held.n; i++)
        lower_unbind(lower, rows->held.at[i].value);
    for (int i = 0; i < rows->n_kept; i++)
        lower_unbind(lower, rows->kept[i].value);
    Run run = rows->edge;
    run.guard = NULL;
    LowerTarget *own = ARENA_ARRAY(b->arena, LowerTarget, (size_t)n + 1);
    int n_own = 0;
    k_if_begin(b, rows->at_edge);
    for (int i = 0; i < n; i++) {
        const Value *value = targets[i].value, *reduction = targets[i].fold.reduction;
        const char *name = text_format(b->arena, "%s_edge", lower_value_name(lower, value));
        LowerTarget target = {.value = value, .stored = targets[i].stored};
        if (reduction)
            target.fold = (LowerFold){.reduction = reduction,
                                      .acc = reduce_declare(b, reduction, name, 0, rows->index),
                                      .number = run.inner};
        else if (target.stored)
            target.dst = k_variable(b, name, ktype_of(value->dtype), NULL);
        else /* kept for a later pass, which computes it again */
            continue;
        own[n_own++] = target;
    }
    lower_batch_run(lower, &run, k_i32(b, 0), own, n_own);
    for (int i = 0, k = 0; i < n_own; i++)
        if (own[i].fold.reduction)
            reduce_into(b, own[i].fold.reduction, acc[k++], NULL, reduce_get(b, own[i].fold.acc, NULL));
        else
            lower_store(lower, &run, own[i].value, own[i].dst, NULL);
    k_end(b);
}
