/* Rows: statistics of pieces of a row, each as long as the space's last axis, of what is computed of the
 * whole row's statistics: the scales of a norm's result in blocks.
 *
 * They come in the last pass, run by run: a run lies in one piece, which neighbouring lanes have between
 * them.
 *
 *     lanes     0 ... 15 | 16 ... 31
 *     run c     piece 0  | piece 1       acc = f(x_v), combined over the 16 lanes; y = g(x_v, acc)
 *     run c+1   piece 16 | piece 17      (256 elements a round of a row's 32 lanes)
 *
 * The first lane of a piece writes what has one element for it. */
#include <string.h>

#include "codegen/templates/rows_build.h"
#include "ir/base/checked.h"

static int64_t pieces_length(const Region *region) {
    return region->dims[region->rank - 1]->value;
}

bool rows_have_pieces(const Region *region) {
    for (size_t i = 0; i < region->values.n; i++)
        if (region_is_piece(region, region->values.at[i]))
            return true;
    return false;
}

bool rows_accepts_pieces(const Graph *graph, const Region *region, const Schedule *s, const char **why) {
    enum { LANES = 32 };
    RowsDown down[ROWS_DOWN_MAX];
    if (!rows_have_pieces(region))
        return true;
    const Dim *piece = region->dims[region->rank - 1];
    bool is_shared = s->resident && rows_blocks(s) == 1 && dim_is_const(piece) &&
                     is_power_of_two(piece->value) && piece->value % s->vector == 0 &&
                     piece->value / s->vector <= LANES &&
                     (int64_t)s->threads_per_row * s->vector % piece->value == 0;
    if (!is_shared || rows_start(graph, region, s->vector) != RUN_IN_ROW ||
        rows_find_down(region, down) > 0 || rows_may_have_rounds(region)) {
        *why = "a piece of a row is a power of two of elements that a warp's lanes have at once, of a row "
               "that stays in registers, and whose columns and largest elements are not asked for";
        return false;
    }
    return true;
}

void rows_find_pieces(Rows *rows) {
    const Region *region = rows->region;
    for (size_t i = 0; i < region->values.n; i++)
        if (region_is_piece(region, region->values.at[i]))
            vec_push(rows->b->arena, &rows->pieces, region->values.at[i]);
}

void rows_pieces_run(Rows *rows, const Run *run, const KExpr *slot, bool exact) {
    Builder *b = rows->b;
    for (size_t i = 0; i < rows->pieces.n; i++) {
        const Value *piece = rows->pieces.at[i];
        const char *name = lower_value_name(rows->lower, piece);
        PartialVars acc = reduce_declare(b, piece, text_format(b->arena, "%s_acc", name), 0, rows->index);
        LowerTarget target = {.value = piece->in[0], .fold = {.reduction = piece, .acc = acc}};
        target.fold.inside = exact ? NULL : rows_inside(rows, run->inner);
        lower_batch_run(rows->lower, run, slot, &target, 1);
        reduce_lanes(b, piece, acc, NULL, (int)(pieces_length(rows->region) / rows->width));
        const KExpr *result = reduce_result(b, piece, reduce_get(b, acc, NULL));
        lower_bind_expr(rows->lower, piece, k_let_expr(b, name, result));
    }
}

void rows_pieces_store(Rows *rows, const Run *run) {
    Builder *b = rows->b;
    if (!rows->of_pieces.n)
        return;
    Run first = {.rank = run->rank, .axis = run->axis, .width = 1};
    memcpy(first.coords, run->coords, sizeof first.coords);
    first.coords[run->axis] = k_int(b, rows->index, 0);
    const KExpr *at = k_mod(b, run->inner, k_int(b, rows->index, pieces_length(rows->region)));
    k_if_begin(b, k_and(b, k_eq(b, at, k_int(b, rows->index, 0)), run->guard));
    rows_store_single(rows, &first, rows->of_pieces.at, rows->of_pieces.n);
    k_end(b);
}
