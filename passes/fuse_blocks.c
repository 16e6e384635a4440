/* Statistics of blocks of a product: the kernel that multiplies reduces its own tile, and writes one element
 * a row and tile, or a column and 16 rows of it. split_product.c makes them where they pay; here they join,
 * with what repeats them over their block. Those that split.c makes of rows are a kernel of rows'
 * (fuse_rows.c).
 */
#include "passes/fuse.h"

/* The product's kernel that computes what is reduced. */
static Group *blocks_group(const Fuse *fuse, const BlockStatistic *block) {
    Group *group = fuse_home(fuse, block->of);
    bool is_product = group && group->kind == TEMPLATE_MATMUL && !fuse_node(fuse, block->of)->barrier;
    return is_product && space_same(group, block->of->rank, block->of->dims) ? group : NULL;
}

bool fuse_block_statistic(Fuse *fuse, Value *value) {
    BlockStatistic block;
    if (!block_statistic(value, &block))
        return false;
    Group *group = blocks_group(fuse, &block), *home = fuse_home(fuse, block.of);
    if (!group && (!home || home->kind == TEMPLATE_ROWS))
        return fuse_rows_block(fuse, value, &block);
    if (!group)
        return false;
    bool is_row = block.axis == group->rank - 1;
    Value *core = group->cores.at[0];
    if (!product_block_fits(fuse->graph, fuse->limits, block.of, is_row, block.block) || group->is_moved ||
        group->is_chain ||
        (is_row && (group->n_reduced || (group->block_cols && group->block_cols != block.block))) ||
        !group_has_room(fuse, group, value))
        return false;
    group->has_blocks = true;
    if (is_row)
        group->block_cols = block.block;
    group_join(fuse, group, value);
    pass_decide(fuse->pass, is_row ? "matmul_rows" : "matmul_columns", true, value, core, NULL,
                is_row ? "each tile of the product reduces its part of the rows"
                       : "each warp of the product's kernel reduces its 16 rows of the columns");
    return true;
}

bool fuse_block_repeated(Fuse *fuse, Value *value) {
    const Value *statistic = block_repeated(value);
    Group *home = statistic ? fuse_home(fuse, statistic) : NULL;
    if (!home || home->kind != TEMPLATE_MATMUL || fuse_home(fuse, value->in[0]) != home)
        return false;
    group_join(fuse, home, value);
    return true;
}
