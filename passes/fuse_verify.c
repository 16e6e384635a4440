/* What every partition keeps, whatever fusion decided (region.h):
 *   1  regions stand in launch order: an input is the graph's, or an output of an earlier region
 *   2  an operand of a Value computed in a region is computed there, an input, a constant or a dim
 *   3  Values are topological, and each is needed by an output
 *   4  each output of the graph is written, by one region; no Value is written twice
 *   5  a matmul stands in a matmul region (up to four cores, or what sums add up), a chain or a relay
 *   6  reduced axes lie inside the space
 *   7  an output has the space's elements, or its rows', or a window of its columns, or is a statistic of
 *      blocks of a product or of rows, or a product across a relay's rows
 *   8  a guest is a region of rows or of columns, or a product that may have a product for a guest
 *   9  its host is a product */
#include "passes/fuse.h"
#include "passes/relay.h"

typedef struct PartitionCheck {
    const Partition *partition;
    Diags *diags;
    int *written; /* by Value.id: 1 + the region that wrote it */
    int *here;    /* by Value.id: 1 + the last region that computes or reads it */
    int regions;  /* looked at so far, guests included: their numbers here */
    bool good;
} PartitionCheck;

static void verify_fail(PartitionCheck *check, const Region *region, const Value *value, const char *what) {
    check->good = false;
    diag_error(check->diags, DIAG_INTERNAL, value ? value->span : check->partition->graph->span,
               "after fuse: region '%s': value %s%s%u %s", region ? region->name : "?",
               value && value->name ? value->name : "", value && value->name ? " = v" : "v",
               value ? value->id : 0, what);
}

static void verify_inputs(PartitionCheck *check, const Region *region, int mark) {
    for (size_t i = 0; i < region->inputs.n; i++) {
        const Value *input = region->inputs.at[i];
        if (input->op != OP_input && !check->written[input->id])
            verify_fail(check, region, input, "is read before any region has written it");
        check->here[input->id] = mark;
    }
}

static void verify_values(PartitionCheck *check, const Region *region, int mark) {
    int cores = 0;
    for (size_t i = 0; i < region->values.n; i++) {
        const Value *value = region->values.at[i];
        for (int k = 0; k < value->n_in; k++) {
            const Value *in = value->in[k];
            if (in->op != OP_constant && in->op != OP_dim && check->here[in->id] != mark)
                verify_fail(check, region, in, "is used, but neither computed before nor read");
        }
        check->here[value->id] = mark;
        if (value->op == OP_matmul)
            cores++;
    }
    bool is_chain = region->kind == TEMPLATE_CHAIN, is_relay = region->kind == TEMPLATE_RELAY;
    bool is_product = is_chain || is_relay || region->kind == TEMPLATE_MATMUL;
    int fewest = is_chain || is_relay ? 2 : is_product, most = is_relay     ? RELAY_FIRST + RELAY_LAST + 1
                                                               : is_chain   ? 3
                                                               : is_product ? REGION_CORES_MAX
                                                                            : 0;
    if (region->sums.n)
        fewest = most = (int)region->sums.n + 1;
    if ((is_product && (size_t)cores != region->cores.n) || cores < fewest || cores > most)
        verify_fail(check, region, region->values.at[0], "begins a region with the wrong number of matmuls");
}

/* Whether it is a statistic of the tiles, stored in any order. */
static bool verify_is_block(const Region *region, const Value *output) {
    BlockStatistic block;
    const Value *statistic =
        region->kind == TEMPLATE_MATMUL || region->kind == TEMPLATE_ROWS ? block_stored(output) : NULL;
    return statistic && block_statistic(statistic, &block) && block.of->rank == region->rank;
}

/* Whether it has an element for each piece of a row, stored in any order. */
static bool verify_is_of_pieces(const Region *region, const Value *output) {
    while (!region_has_piece_dims(region, output) && (output->op == OP_reshape || output->op == OP_transpose))
        output = output->in[0];
    return region_has_piece_dims(region, output);
}

/* Whether it is a product of what the region computes the other way around. */
static bool verify_is_across(const Region *region, const Value *output) {
    return region->kind == TEMPLATE_RELAY && output->op == OP_matmul && value_turned(output->in[0]) &&
           output->rank == region->rank;
}

/* The output's space: the region's, or that with reduced axes one or dropped, in any order. */
static bool verify_output_dims(const Partition *partition, const Region *region, const Value *output) {
    if (verify_is_block(region, output) || verify_is_across(region, output) ||
        verify_is_of_pieces(region, output))
        return true;
    DimTable *table = partition->graph->dims;
    const Dim *full = dim_const(table, 1), *kept = full, *count = value_count(partition->graph, output);
    const RegionWindow *window = region_window(region, output);
    for (int i = 0; i < region->rank; i++) {
        bool columns = region->kind == TEMPLATE_COLUMNS;
        bool reduced = columns ? i < region->n_reduced : i >= region->rank - region->n_reduced;
        full = dim_mul(table, full, region->dims[i]);
        kept = reduced ? kept : dim_mul(table, kept, region->dims[i]);
    }
    if (window) {
        const Dim *columns = region->dims[region->rank - 1];
        return window->is_bundle ||
               (dim_is_const(columns) && window->first + window->width <= columns->value);
    }
    return !count || count == kept || count == full || !full;
}

static void verify_outputs(PartitionCheck *check, const Region *region, int mark) {
    for (size_t i = 0; i < region->outputs.n; i++) {
        const Value *output = region->outputs.at[i];
        if (check->here[output->id] != mark || output->op == OP_input)
            verify_fail(check, region, output, "is an output that the region does not compute");
        if (check->written[output->id])
            verify_fail(check, region, output, "is written twice");
        if (!verify_output_dims(check->partition, region, output))
            verify_fail(check, region, output, "is an output whose dims are not of the region's space");
        check->written[output->id] = mark;
    }
    if (!region->outputs.n)
        verify_fail(check, region, NULL, "the region writes nothing");
}

static void verify_region(PartitionCheck *check, const Region *region) {
    int mark = ++check->regions;
    if (region->n_reduced < 0 || region->n_reduced > region->rank)
        verify_fail(check, region, NULL, "more axes reduced than the space has");
    verify_inputs(check, region, mark);
    verify_values(check, region, mark);
    verify_outputs(check, region, mark);
}

bool partition_verify(const Partition *partition, Diags *diags) {
    const Graph *graph = partition->graph;
    PartitionCheck check = {.partition = partition, .diags = diags, .good = true};
    check.written = ARENA_ARRAY(graph->arena, int, graph->values.n + 1);
    check.here = ARENA_ARRAY(graph->arena, int, graph->values.n + 1);
    for (size_t i = 0; i < partition->regions.n; i++) {
        const Region *region = partition->regions.at[i];
        verify_region(&check, region);
        for (const Region *host = region; host->guest; host = host->guest) {
            bool is_rows = host->guest->kind == TEMPLATE_ROWS && host == region,
                 is_columns = host->guest->kind == TEMPLATE_COLUMNS && host == region;
            if (host->kind != TEMPLATE_MATMUL ||
                (!is_rows && !is_columns && host->guest->kind != TEMPLATE_MATMUL))
                verify_fail(&check, region, NULL,
                            "is no product, or its guest neither a product nor rows nor columns");
            for (size_t k = 0; k < host->guest->inputs.n && !is_rows; k++)
                if (region_kernel_writes(region, host->guest->inputs.at[k]))
                    verify_fail(&check, region, host->guest->inputs.at[k], "is what its own kernel writes");
            verify_region(&check, host->guest);
        }
    }
    for (size_t i = 0; i < graph->outputs.n; i++)
        if (!check.written[graph->outputs.at[i].value->id])
            verify_fail(&check, NULL, graph->outputs.at[i].value,
                        "is an output of the graph that no region writes");
    return check.good;
}
