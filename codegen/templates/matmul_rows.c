/* Row statistics of a product whose rows lie whole within one tile, or one gang of blocks: softmax, RMS norm,
 * layer norm in the kernel that multiplies.
 *
 * A row's columns are spread over `row_lanes` neighbouring lanes and the registers of each. A statistic is
 * one pass over the registers, then an exchange between those lanes, and where a row lies in several blocks,
 * between those (matmul_gang.c); the next pass finds it bound to the row. */
#include "codegen/templates/matmul_rows.h"

/* Rounds find several statistics at once. */
static bool rows_is_known(const Epilogue *e, const Value *statistic) {
    for (size_t i = 0; i < e->rows.n; i++)
        if (e->rows.at[i].value == statistic)
            return true;
    return false;
}

void matmul_row_statistics(Epilogue *e, MatmulInputs *inputs) {
    const MatmulPlan *plan = e->plan;
    for (size_t i = 0; i < plan->statistics.n; i++) {
        MatmulInputs *own = i == 0 ? inputs : NULL;
        if (rows_take_pair(e, i, own)) {
            i++;
            continue;
        }
        const Value *statistic = plan->statistics.at[i];
        if (rows_is_known(e, statistic))
            continue;
        if (matmul_begins_rounds(e, statistic)) {
            rows_hold_next(e, i, own, NULL);
            matmul_row_rounds(e, statistic);
            continue;
        }
        PartialVars partial = rows_statistic(e, i, own, NULL);
        if (e->fragment->gang) {
            matmul_gang_send(e, &partial.x, 1);
            matmul_store_early(e);
            MatmulExchange exchange = matmul_gang_receive(e, &partial.x, 1);
            partial = matmul_gang_whole(e, statistic, &exchange, 0);
        }
        rows_bind(e, statistic, partial.number ? partial.number : partial.x);
    }
    matmul_store_early(e);
    if (plan->region->column_block) /* what is wanted at two columns is computed once */
        rows_hold_next(e, plan->statistics.n, NULL, NULL);
}
