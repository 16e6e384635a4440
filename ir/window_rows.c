#include "ir/window_rows.h"

const int *window_rows_order(int grouped) {
    static const int orders[][4] = {{0, 2, 1}, {1, 0, 3, 2}};
    return orders[grouped];
}

/* Whether these are the parts that rows are made of; fills in what they say. */
static bool window_rows_parts(DimTable *table, const Value *parts, int grouped, WindowRows *out) {
    Value *t = parts->in[0];
    int n = t->rank / 2 - 1;
    if (t->rank % 2 || n < 1 || n > WINDOW_ROWS_AXES || 2 * n + 2 + grouped > RANK_MAX ||
        parts->dims[0] != dims_product(table, (const Dim *const *)t->dims, n + 1) ||
        dims_product(table, (const Dim *const *)parts->dims + 1, 1 + grouped) != t->dims[n + 1])
        return false;
    *out = (WindowRows){.windows = t,
                        .n = n,
                        .grouped = grouped,
                        .images = t->dims[0],
                        .groups = grouped ? parts->dims[1] : dim_const(table, 1),
                        .channels = parts->dims[1 + grouped],
                        .places = parts->dims[0],
                        .taps = parts->dims[2 + grouped]};
    return true;
}

bool window_rows(DimTable *table, const Value *rows, WindowRows *out) {
    const Value *turned = rows->op == OP_reshape ? rows->in[0] : rows;
    const Value *parts = turned->op == OP_transpose ? turned->in[0] : turned;
    int grouped = rows->rank - 2;
    if (grouped < 0 || grouped > 1 || turned->op != OP_transpose || parts->op != OP_reshape ||
        parts->rank != 3 + grouped)
        return false;
    for (int i = 0; i < parts->rank; i++)
        if (turned->attrs[0].ints[i] != window_rows_order(grouped)[i])
            return false;
    return rows->dims[grouped] == parts->dims[0] && (!grouped || rows->dims[0] == parts->dims[1]) &&
           window_rows_parts(table, parts, grouped, out);
}
