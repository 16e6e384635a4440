/* Whether rows of a product that are longer than a tile are shared by blocks that run together and exchange
 * their statistics (codegen/templates/matmul_gang.c), or stored and reduced by a kernel of their own.
 *
 *     gang   rounds * (exchange + skew * time of a tile + apply) + clear + lost
 *     two    (bytes stored and read again + bytes of what is applied) / rate + launch
 *
 * Both statistics of a softmax or of a layer norm travel together. Blocks that wait for each other lose what
 * the slowest of them is late by, a share of the tile's time; what a second kernel moves is not hidden behind
 * products. Lost is what rounds of whole gangs take longer than the product would take alone, whose tiles may
 * share the last of several rounds (1024 x 5120 x 1792: two rounds of six gangs, 52 us, where 160 tiles are
 * 1.2 rounds). The constants are fitted to four shapes on an H200: N of 768 to 4096, K of 768 to 4096, where
 * the rule takes the quicker plan of each. */
#include "passes/fuse.h"

#include <math.h>

static const double gang_exchange = 1.5e-6, gang_skew = 0.06, gang_apply = 0.8e-6, gang_clear = 2e-6;
static const double gang_launch = 2e-6, gang_shared = 1.07;

/* Bytes an element that a second kernel moves which reduces `operand`: what is stored between the two, unless
 * the graph wants it in memory anyway, what is read again, and a 16-bit result. */
static double gang_moved(const Fuse *fuse, const Value *operand) {
    enum { RESULT = 2 };
    while ((operand->op == OP_cast && dtype_widens(operand->in[0]->dtype, operand->dtype)) ||
           (operand->op == OP_mul && operand->in[0] == operand->in[1]))
        operand = operand->in[0];
    return (value_is_output(fuse->graph, operand) ? 1 : 2) * dtype_bits(operand->dtype) / 8.0 + RESULT;
}

GangEstimate fuse_gang(Fuse *fuse, const Group *group, const Value *statistic) {
    enum { TILE_ROWS = 128, TILE_COLS = 256 };
    const FuseLimits *limits = fuse->limits;
    const Value *core = group->cores.at[0], *operand = statistic->in[0];
    const Dim *row = operand->dims[operand->rank - 1];
    GangEstimate estimate = {0};
    if (!dim_is_const(row) || row->value > limits->matmul_gang_row_max)
        return estimate;
    estimate.chosen = group->n_reduced > 0; /* a statistic of these rows is there already */
    if (estimate.chosen)
        return estimate;
    double rows = (double)fuse_count(fuse, group->rank - 1, group->dims), cols = (double)row->value;
    double blocks = ceil(cols / TILE_COLS), tiles = ceil(rows / TILE_ROWS) * blocks;
    /* all blocks of such a launch run at once, so a product of few tiles would leave most of the machine
     * idle; such products are also where splitting K pays */
    if (tiles * 2 < limits->sm_count)
        return estimate;
    double rounds = ceil(tiles / blocks / floor(limits->sm_count / blocks));
    double k = (double)fuse_extent(fuse, core->in[0]->dims[core->rank - 1]) * (double)group->cores.n;
    double tile = 2.0 * TILE_ROWS * TILE_COLS * k / (limits->tensor_flops / limits->sm_count);
    double round = gang_exchange + gang_skew * tile + gang_apply;
    double alone = fmax(1, gang_shared * tiles / limits->sm_count);
    estimate.gang = rounds * round + gang_clear + fmax(0, rounds - alone) * tile;
    estimate.two = rows * cols * gang_moved(fuse, operand) / limits->memory_bytes_per_second + gang_launch;
    estimate.chosen = estimate.gang < estimate.two;
    return estimate;
}
