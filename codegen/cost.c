#include "codegen/cost.h"

#include "ir/base/checked.h"

static const int64_t cost_saturated = (int64_t)1 << 62;

int64_t cost_symbol(const DimTable *table, int symbol, const DimBindings *hint) {
    if (hint && symbol < hint->n && hint->known[symbol])
        return hint->value[symbol];
    int64_t upper = dim_upper(table, dim_symbol_at(table, symbol));
    return upper < COST_UNKNOWN_EXTENT ? upper : COST_UNKNOWN_EXTENT;
}

int64_t cost_extent(const Graph *graph, const Dim *dim, const DimBindings *hint) {
    DimTable *table = graph->dims;
    int n = dim_symbol_count(table);
    DimBindings all = {.n = n,
                       .value = ARENA_ARRAY(graph->arena, int64_t, (size_t)n + 1),
                       .known = ARENA_ARRAY(graph->arena, bool, (size_t)n + 1)};
    if (!dim)
        return cost_saturated;
    for (int i = 0; i < n; i++) {
        all.known[i] = true;
        all.value[i] = cost_symbol(table, i, hint);
    }
    int64_t value, lower = dim_lower(table, dim), upper = dim_upper(table, dim);
    if (!dim_eval(dim, &all, &value) || value > cost_saturated)
        return cost_saturated;
    value = value > upper ? upper : value < lower ? lower : value;
    return value < 0 ? 0 : value;
}

int64_t cost_space(const Graph *graph, const Region *region, int begin, int end, const DimBindings *hint) {
    int64_t product = 1;
    for (int i = begin; i < end; i++)
        if (!checked_mul(product, cost_extent(graph, region->dims[i], hint), &product) ||
            product > cost_saturated)
            return cost_saturated;
    return product;
}

static int64_t cost_elements_bytes(const Value *value, int64_t elements) {
    return elements >= cost_saturated / 64 ? cost_saturated / 64 : elements * dtype_bits(value->dtype) / 8;
}

/* Elements of an input that the region reads: where it is gathered alone, no more than are chosen. */
static int64_t cost_elements_read(const Graph *graph, const Region *region, const Value *input,
                                  const DimBindings *hint) {
    int64_t all = cost_extent(graph, value_count(graph, input), hint), chosen = 0;
    for (size_t i = 0; i < region->values.n && chosen < all; i++) {
        const Value *value = region->values.at[i];
        for (int k = 0; k < value->n_in; k++) {
            if (value->in[k] != input)
                continue;
            bool is_chosen = value->op == OP_gather && k == 0;
            int64_t count = is_chosen ? cost_extent(graph, value_count(graph, value), hint) : all;
            chosen = count < all - chosen ? chosen + count : all;
        }
    }
    return chosen > 0 ? chosen : all;
}

int64_t cost_bytes(const Graph *graph, const Region *region, const DimBindings *hint) {
    int64_t bytes = 0;
    for (size_t i = 0; i < region->inputs.n + region->outputs.n; i++) {
        bool is_input = i < region->inputs.n;
        const Value *value = is_input ? region->inputs.at[i] : region->outputs.at[i - region->inputs.n];
        int64_t elements = is_input ? cost_elements_read(graph, region, value, hint)
                                    : cost_extent(graph, value_count(graph, value), hint);
        if (!checked_add(bytes, cost_elements_bytes(value, elements), &bytes))
            return cost_saturated;
    }
    return bytes;
}

/* Seconds of the reductions that follow others in a kernel over rows, as those of a top-k do; the first few
 * hide behind what they read. Fitted to the 2 to 8 largest of 8 to 256 columns, 1 to 16384 rows. */
static double cost_rounds(const Graph *graph, const Region *region, const DimBindings *hint) {
    enum { HIDDEN = 3 };
    static const double each = 0.14e-6, row = 0.05e-9, element = 0.0002e-9;
    int rounds = -HIDDEN;
    for (size_t i = 0; i < region->values.n; i++)
        rounds += op_info(region->values.at[i]->op)->class_ == OPCLASS_REDUCTION;
    if (region->kind != TEMPLATE_ROWS || rounds <= 0)
        return 0;
    int kept = region->rank - region->n_reduced;
    double rows = (double)cost_space(graph, region, 0, kept, hint);
    double columns = (double)cost_space(graph, region, kept, region->rank, hint);
    return rounds * (each + rows * (row + columns * element));
}

double cost_moving_seconds(const Graph *graph, const Region *region, const Target *target,
                           const DimBindings *hint) {
    static const double begin = 1.7e-6; /* fitted to norms and softmax behind 60 products */
    return begin + (double)cost_bytes(graph, region, hint) / target->memory_bytes_per_second +
           cost_rounds(graph, region, hint);
}

int cost_streams(const Graph *graph, const Region *region) {
    const Dim *space = region_extent(graph, region, 0, region->rank);
    int streams = 0;
    for (size_t i = 0; i < region->inputs.n; i++)
        streams += value_count(graph, region->inputs.at[i]) == space;
    return streams;
}

KCache cost_cache(const Graph *graph, const Region *region, const Target *target, const DimBindings *hint) {
    return cost_bytes(graph, region, hint) > target->l2_bytes ? CACHE_STREAM : CACHE_DEFAULT;
}

int cost_unroll(int64_t items, int64_t per_block, int64_t enough, int limit) {
    int unroll = 1;
    while (2 * unroll <= limit && items / (per_block * 2 * unroll) >= enough)
        unroll *= 2;
    return unroll;
}
