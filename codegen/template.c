#include "codegen/template.h"
#include "ir/base/checked.h"

const Template *template_of(TemplateKind kind) {
    static const Template *const templates[TEMPLATE_COUNT] = {
        [TEMPLATE_POINTWISE] = &template_pointwise, [TEMPLATE_ROWS] = &template_rows,
        [TEMPLATE_COLUMNS] = &template_columns,     [TEMPLATE_TRANSPOSE] = &template_transpose,
        [TEMPLATE_MATMUL] = &template_matmul,       [TEMPLATE_CHAIN] = &template_chain,
        [TEMPLATE_RELAY] = &template_relay,
    };
    return templates[kind];
}

bool template_takes_rows(const Schedule *schedule, const char **why) {
    if (is_power_of_two(schedule->threads_per_row) && schedule->rows_per_block >= 1 &&
        schedule->threads >= 32 && schedule->threads <= 1024 && schedule->threads % 32 == 0 &&
        (int64_t)schedule->threads_per_row * schedule->rows_per_block == schedule->threads)
        return true;
    *why =
        "threads must be threads_per_row (a power of two) times rows_per_block, a multiple of 32 up to 1024";
    return false;
}

bool template_takes_vector(const Graph *graph, const Region *region, const Schedule *schedule,
                           const char **why) {
    int vector = schedule->vector;
    const Dim *inner = region->rank > 0 ? region->dims[region->rank - 1] : NULL;
    if (vector == 1 ||
        (is_power_of_two(vector) && vector <= 16 && inner && dim_divisor(graph->dims, inner) % vector == 0))
        return true;
    *why = "vector must be a power of two up to 16 that divides the innermost dim";
    return false;
}

/* Blocks of a grid that each say that the next may start. All of them together say so once in 1.2 ns: 513024
 * short blocks, maxima of 128 elements, took 618 us for 312 on an H200. Of more than these the next kernel
 * gains nothing (rms norm of 1024 elements in 8192 rows, then a product: 26.2 us for 27.6; in 16384 rows 48.5
 * for 48.2). */
enum { TEMPLATE_ANNOUNCING = 2048 };

void template_order(Builder *b, const Region *region) {
    if (b->kernel->target->sm < atom_info(ATOM_grid_wait)->sm)
        return;
    if (b->kernel->waits)
        k_atom(b, ATOM_grid_wait, NULL, NULL, 0);
    if (!region->leads)
        return;
    bool may_be_many = !region->schedule.persistent;
    if (may_be_many)
        k_if_begin(b, k_lt(b, k_special(b, SPECIAL_GRID_X), k_i32(b, TEMPLATE_ANNOUNCING + 1)));
    k_atom(b, ATOM_grid_launch, NULL, NULL, 0);
    if (may_be_many)
        k_end(b);
}
