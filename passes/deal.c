/* A first operand whose rows are no multiple of 16 bytes long is read as it lies: every n-th of its rows
 * begin alike (codegen/templates/matmul_dealt.c), so the product becomes one of n matrices of those.
 *
 *     y = x @ w                         x: bf16[8192, 50257], w: bf16[50257, 768]
 * ->  p = transpose(reshape(x, dims=[1024, 8, 50257]), perm=[1, 0, 2]) @ w
 *     y = reshape(transpose(p, perm=[1, 0, 2]), dims=[8192, 768])
 *
 * Nothing moves: these are views, and the result is stored where it belongs. It is done for inputs, where
 * what follows goes element by element, since sums and products of the result want its rows in order. */
#include "passes/fuse.h"
#include "passes/movement.h"
#include "passes/realign.h"

#include <math.h>

enum {
    DEAL_PIECE = 8,  /* elements of 16 bytes */
    DEAL_TILE = 64,  /* rows of the least tile, of one matrix each */
    DEAL_LEAST = 64, /* columns */
};
/* Rows that tiles have for each of the result's, at most. */
static const double deal_waste = 1.3;
/* What it costs beside a copy to aligned rows: operations a second of such a product, the share that rows
 * lose which lie in two lines each; seconds in which a tile's first step and last get their zeros. H200, us,
 * copied and dealt: 8192 x 4096 x 4001 387 and 364, 512 x 4096 x 1001, of 64 rows a matrix, 13.1 and 15.4,
 * 8192 x 3072 x 767, whose 12 steps become 13, 62 and 66. */
static const double deal_rate = 600e12, deal_lines = 0.04, deal_zeros = 0.5e-6;
/* Tiles, and how many times as long as a large one's an element of theirs takes. */
static const struct {
    int rows, columns;
    double slow;
} deal_tiles[] = {{128, 256, 1}, {128, 192, 1.02}, {128, 128, 1.15}, {64, 256, 1.6}, {64, 128, 2}};
/* A product of aligned rows and a long K shares what does not fill a round (stream_k), and takes so much. */
static const double deal_shared = 1.05;
enum { DEAL_LONG = 2048 };

/* Whether an operand is an input of known extents, packed. */
static bool deal_is_packed(const Value *operand) {
    return operand->op == OP_input && !operand->strides && operand->rank == 2 &&
           dim_is_const(operand->dims[0]) && dim_is_const(operand->dims[1]);
}

/* How many times as long as its operations a product takes, by rounds of whole tiles, of `count` matrices of
 * so many rows. */
static double deal_rounds(const Rewrite *rewrite, double count, double rows, double columns) {
    double sms = rewrite->pass->options->limits->sm_count, least = INFINITY;
    for (size_t i = 0; i < sizeof deal_tiles / sizeof *deal_tiles; i++) {
        double tiles = count * ceil(rows / deal_tiles[i].rows) * ceil(columns / deal_tiles[i].columns);
        double elements = ceil(tiles / sms) * sms * deal_tiles[i].rows * deal_tiles[i].columns;
        least = fmin(least, elements * deal_tiles[i].slow / (count * rows * columns));
    }
    return least;
}

/* Seconds that a product loses in `count` matrices of so many rows. */
static double deal_loss(const Rewrite *rewrite, const Value *product, double k, double count, double rows) {
    enum { STEP = 64, TILE_M = 128, TILE_N = 256 };
    double n = (double)product->dims[1]->value, tiles = count * ceil(rows / TILE_M) * ceil(n / TILE_N);
    double steps = ceil(k / STEP), more = ceil((k + DEAL_PIECE - 1) / STEP) - steps;
    double copied = deal_rounds(rewrite, 1, count * rows, n);
    if (k >= DEAL_LONG)
        copied = fmin(copied, deal_shared);
    double share = deal_lines + more / steps + fmax(0, deal_rounds(rewrite, count, rows, n) - copied);
    return realign_operations(product) / deal_rate * share +
           ceil(tiles / rewrite->pass->options->limits->sm_count) * deal_zeros;
}

/* Matrices that the rows of a product's first operand are dealt out to; 0: they are not. */
static int64_t deal_count(const Rewrite *rewrite, const Value *product) {
    const bool *taken = rewrite->pass->state;
    const Value *a = product->in[0], *b = product->in[1];
    if (product->id >= rewrite->n_before || taken[product->id] || product->rank != 2 || !deal_is_packed(a) ||
        !deal_is_packed(b) || dtype_bits(a->dtype) != 16 || !dtype_is_float(a->dtype) ||
        a->dtype != b->dtype || rewrite_has_schedule(rewrite->graph, product))
        return 0;
    int64_t m = a->dims[0]->value, k = a->dims[1]->value, n = b->dims[1]->value;
    int64_t count = DEAL_PIECE / dim_gcd(DEAL_PIECE, k), rows = m / count;
    bool fits = count > 1 && m % count == 0 && n % DEAL_PIECE == 0 && n >= DEAL_LEAST && rows >= DEAL_TILE &&
                k <= INT32_MAX / DEAL_PIECE;
    return fits && ceil((double)rows / DEAL_TILE) * DEAL_TILE <= deal_waste * (double)rows &&
                   deal_loss(rewrite, product, (double)k, (double)count, (double)rows) <
                       realign_copy_seconds(a)
               ? count
               : 0;
}

static Value *deal_rule(Rewrite *rewrite, Value *value) {
    static const int perm[] = {1, 0, 2};
    DimTable *table = rewrite->graph->dims;
    int64_t count = value->op == OP_matmul ? deal_count(rewrite, value) : 0;
    if (!count)
        return value;
    Value *a = value->in[0];
    const Dim *dims[] = {dim_const(table, a->dims[0]->value / count), dim_const(table, count), a->dims[1]};
    Value *rows = build_reshape(rewrite, a, 3, dims, value);
    Value *in[] = {rows ? build_transpose(rewrite, rows, perm, value) : NULL, value->in[1]};
    Value *product = in[0] ? build_like(rewrite, value, in) : NULL;
    Value *turned = product ? build_transpose(rewrite, product, perm, value) : NULL;
    Value *fresh = turned ? build_reshape(rewrite, turned, 2, (const Dim *const *)value->dims, value) : NULL;
    if (!fresh || fresh->dtype != value->dtype)
        return value;
    pass_decide(
        rewrite->pass, "deal", true, product, a, NULL,
        "rows of %lld bytes begin alike %lld apart, so it is read in place as %lld matrices of such rows",
        (long long)(a->dims[1]->value * dtype_bits(a->dtype) / 8), (long long)count, (long long)count);
    return fresh;
}

bool pass_deal(Pass *pass, Graph *graph) {
    if (pass->options->no_fusion || !pass->options->limits || !pass->options->limits->brings_rows)
        return false;
    graph_renumber(graph);
    pass->state = rewrite_find_taken(pass, graph, value_is_heavy);
    if (!rewrite_graph(pass, graph, deal_rule))
        return false;
    for (int round = 0; round < 4 && pass_movement(pass, graph); round++)
        continue; /* the views belong on the inputs, and on what is stored */
    return true;
}
