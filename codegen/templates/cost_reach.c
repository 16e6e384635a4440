/* What tiles that differ in their steps (matmul_reach.c) change in the estimate of tiles by wgmma. */
#include <math.h>

#include "codegen/templates/cost_share.h"
#include "codegen/templates/matmul_reach.h"
#include "ir/base/checked.h"

enum { TILES_MOST = 1 << 13, BLOCKS_MOST = 512 };

/* Steps of the column of tiles that is number `n` in the order of tiles. */
static double reach_column(const MatmulReach *reach, const Schedule *s, int64_t columns, int64_t n) {
    int64_t column = reach->descends ? columns - 1 - n : n;
    return (double)matmul_reach_steps(reach, column * s->tile_n);
}

/* Steps of the block that has the most, of tiles dealt out as matmul_reach_tile() does it. */
static double reach_most(const MatmulReach *reach, const Schedule *s, int64_t rows, int64_t columns,
                         int blocks) {
    double own[BLOCKS_MOST] = {0}, most = 0;
    int64_t group = s->group_m > 1 ? s->group_m : 1;
    for (int64_t tile = 0; tile < rows * columns; tile++) {
        int64_t first = tile / (group * columns) * group, within = tile % (group * columns);
        int64_t there = rows - first < group ? rows - first : group;
        int64_t at = tile % blocks, block = tile / blocks % 2 ? blocks - 1 - at : at;
        own[block] += reach_column(reach, s, columns, within / there);
        most = fmax(most, own[block]);
    }
    return most;
}

double cost_reached_steps(const MatmulPlan *plan, const Schedule *s, const CostShare *w) {
    MatmulReach reach = matmul_reach(plan, s);
    if (!reach.axes)
        return w->steps;
    int64_t columns = (int64_t)w->tiles_n, rows = (int64_t)w->tiles_m;
    int blocks = (int)w->abreast;
    if (w->tiles_m * w->tiles_n <= TILES_MOST && blocks > 0 && blocks <= BLOCKS_MOST)
        return fmax(1, reach_most(&reach, s, rows, columns, blocks) / w->rounds);
    double all = 0;
    for (int64_t i = 0; i < columns; i++)
        all += reach_column(&reach, s, columns, i);
    return all / (double)columns; /* of so many tiles that it comes out even */
}
