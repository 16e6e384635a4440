/* Products that are added up in one kernel's accumulators. The last one's plan is the region's; what it is
 * added to has a plan of its own, which computes it from the accumulators that the steps of K before leave.
 *
 *     s = 2 * (t @ b.T) + x @ w.T        plan:   operands x, w; core s
 *     y = relu(s + c)                    before: operands t, b; core t @ b.T; output 2 * (t @ b.T) */
#include "codegen/templates/matmul.h"

MatmulSum matmul_last_sum(const Region *region) {
    size_t n = region->sums.n;
    const Value *sum = region->sums.at[n - 1];
    for (int i = 0; i < 2 && region->cores.n == n + 1; i++)
        if (sum->in[i] == region->cores.at[n])
            return (MatmulSum){sum, sum->in[i], sum->in[1 - i]};
    return (MatmulSum){0};
}

/* Whether what the plan's region computes is its core times factors that do not depend on it. */
static bool sum_is_multiple(const MatmulPlan *before) {
    ValueMap marks = {.arena = before->graph->arena};
    const Value *value = before->region->outputs.at[0];
    matmul_mark_dependents(before, before->core, 1, NULL, 0, &marks);
    while (value != before->core[0]) {
        int n = 0, of = 0;
        for (int i = 0; i < value->n_in; i++)
            if (value_map_get(&marks, value->in[i])) {
                of = i;
                n++;
            }
        if (!op_multiplies(value->op) || n != 1 || (value->op == OP_div && of != 0))
            return false;
        value = value->in[of];
    }
    return true;
}

const MatmulPlan *matmul_plan_before(const MatmulPlan *plan, const char **why) {
    const Graph *graph = plan->graph;
    const Region *whole = plan->region;
    size_t n = whole->sums.n;
    MatmulSum last = matmul_last_sum(whole);
    Region *part = region_part(graph->arena, whole, &last.to, 1, NULL, last.sum);
    for (size_t i = 0; i < n; i++)
        vec_push(graph->arena, &part->cores, whole->cores.at[i]);
    for (size_t i = 0; i + 1 < n; i++)
        vec_push(graph->arena, &part->sums, whole->sums.at[i]);
    MatmulPlan *before = ARENA_NEW(graph->arena, MatmulPlan);
    if (!matmul_plan(graph, part, plan->target, before, why))
        return NULL;
    *why = "products that are added up have operands of one type, and elements alone between them";
    bool is_alike = before->n_cores == 1 && before->kind == plan->kind && before->a.elem == plan->a.elem &&
                    before->b[0].elem == plan->b[0].elem && value_same_dims(before->core[0], last.sum) &&
                    last.to->dtype == last.sum->dtype && before->accumulator == plan->accumulator;
    before->is_changed = last.to != before->core[0];
    before->is_multiple = sum_is_multiple(before);
    return is_alike && !before->statistics.n && !before->columns.n ? before : NULL;
}
