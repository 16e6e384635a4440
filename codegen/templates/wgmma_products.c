/* Products that wait for nothing of one another in one launch: q, k and v of one input, where each has an
 * epilogue of its own (a norm of its heads) and no one product can be made of them.
 *
 *     tile of a block   0 .. t_q - 1 | t_q .. t_q + t_k - 1 | ...
 *     producer            q's maps   | k's maps             | v's
 *     consumers           products, alike for all | q's epilogue | k's | v's
 *
 * They have one K and operands of one kind, so that stages, instructions and registers serve any of them;
 * what differs is asked once a tile. A launch of each would fill its last round of tiles by itself, and read
 * the input anew. */
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/wgmma.h"

/* Whether two operands on one side come alike. */
static bool products_operands_agree(const MatmulOperand *x, const MatmulOperand *y) {
    return x->elem == y->elem && x->narrow == y->narrow && x->major == y->major;
}

bool wgmma_accepts_products(const MatmulPlan *plan, const Schedule *schedule, const char **why) {
    const MatmulPlan *guest = plan->guest;
    int n = 2;
    for (const MatmulPlan *more = guest->guest; more; more = more->guest)
        n++;
    *why = "a kernel has so many products at most";
    if (n > MATMUL_PRODUCTS_MAX)
        return false;
    *why = "products in one launch have a tile each, whole and in turn: no swap_ab, split_k or stream_k";
    if (schedule->swap_ab || schedule->stream_k || matmul_split(schedule) > 1 || !schedule->persistent ||
        matmul_gang(plan, schedule) > 1)
        return false;
    *why = "products in one launch are plain ones, of operands that TMA brings";
    if (plan->n_cores > 1 || plan->before || plan->columns.n || plan->block_cols || matmul_has_scale(plan) ||
        schedule->fragments || matmul_converters(plan, schedule))
        return false;
    *why = "products in one launch have one K and operands of one kind";
    if (guest->kind != plan->kind || guest->k != plan->k || guest->n_cores > 1 ||
        !products_operands_agree(&guest->a, &plan->a) || !products_operands_agree(&guest->b[0], &plan->b[0]))
        return false;
    *why = "the outputs of a guest leave through the shared memory of the host's, in boxes alike";
    if (!matmul_staging_serves(plan, guest, schedule))
        return false;
    if (!matmul_accepts_wgmma(matmul_wgmma_plan(guest), schedule, why))
        return false;
    *why = "products in one launch are plain ones, of operands that TMA brings";
    return !guest->before && !matmul_chooses_rows(guest) && !guest->columns.n && !guest->block_cols &&
           !matmul_has_scale(guest) && matmul_gang(guest, schedule) == 1 &&
           !matmul_converters(guest, schedule);
}

static const Dim *products_tiles(const MatmulPlan *plan, const Schedule *schedule) {
    const Dim *count = dim_const(plan->graph->dims, 0);
    for (; plan; plan = plan->guest)
        count = dim_add(plan->graph->dims, count, matmul_tiles(plan, schedule).count);
    return count;
}

const Dim *wgmma_grid(const MatmulPlan *plan, const Schedule *schedule) {
    MatmulTiles tiles = matmul_tiles(plan, schedule);
    tiles.count = products_tiles(plan, schedule);
    return matmul_grid(plan, &tiles, matmul_blocks_per_sm(plan, schedule));
}

/* The operand of a guest in the place of the host's on the same side. */
static WgmmaOperand products_operand(Wgmma *w, const WgmmaProduct *product, const MatmulOperand *operand,
                                     const WgmmaOperand *like) {
    Wgmma own = *w;
    own.plan = product->plan;
    own.tiles = product->tiles;
    WgmmaOperand o = *like;
    o.operand = operand;
    MatmulTma tma = wgmma_tma(&own, &o);
    o.maps = matmul_tma_maps(w->b, w->plan->graph->dims, &tma);
    o.is_early = false;
    return o;
}

void wgmma_add_products(Wgmma *w, const MatmulStaging *staging) {
    DimTable *dims = w->plan->graph->dims;
    w->count = w->tiles.count;
    if (!w->plan->guest)
        return;
    w->count = dim_const(dims, 0);
    for (const MatmulPlan *plan = w->plan; plan; plan = plan->guest) {
        WgmmaProduct *product = &w->products[w->n_products];
        *product = (WgmmaProduct){.plan = plan, .tiles = matmul_tiles(plan, w->schedule), .before = w->count};
        if (w->n_products++) {
            product->operands[0] = products_operand(w, product, &plan->a, &w->operands[0]);
            product->operands[1] = products_operand(w, product, &plan->b[0], &w->operands[1]);
            product->is_staged = matmul_staging(w->b, plan, w->schedule, staging, &product->staging);
        } else {
            memcpy(product->operands, w->operands, sizeof product->operands);
            product->is_staged = staging != NULL;
            if (staging)
                product->staging = *staging;
        }
        product->lower = lower_new(w->b, plan->region);
        w->count = dim_add(dims, w->count, product->tiles.count);
    }
}

/* Descriptors and what else consumers have come to know stay the host's. */
static Wgmma products_own(const Wgmma *w, int number) {
    Wgmma own = *w;
    const WgmmaProduct *product = &w->products[number];
    own.plan = product->plan;
    own.tiles = product->tiles;
    for (int i = 0; i < 2; i++) {
        const KExpr *descriptor = own.operands[i].descriptor;
        own.operands[i] = product->operands[i];
        own.operands[i].descriptor = descriptor;
    }
    return own;
}

void wgmma_of_product(Wgmma *w, const KExpr *number, WgmmaBody *body, void *context) {
    Builder *b = w->b;
    for (int i = 0; i < w->n_products; i++) {
        Wgmma own = products_own(w, i);
        bool is_last = i + 1 == w->n_products;
        if (!is_last)
            k_if_begin(b, k_lt(b, number, k_dim(b, w->products[i + 1].before, K_I32)));
        const KExpr *within = k_sub(b, number, k_dim(b, w->products[i].before, K_I32));
        MatmulTile tile = matmul_tile_at(b, own.plan, &own.tiles, k_let_expr(b, "tile_of_product", within));
        body(&own, i, &tile, context);
        if (!is_last)
            k_else(b);
    }
    for (int i = 0; i + 1 < w->n_products; i++)
        k_end(b);
}
