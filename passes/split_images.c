/* Statistics of the places of each image, or of groups of its channels, of what a product gives: those of an
 * instance norm or a group norm behind a convolution. The product's kernel reduces 16 rows of each column at
 * a time, which is what a warp has of a tile, and a small kernel puts an image's blocks together, and the
 * channels of a group:
 *
 *     x = transpose(reshape(r, dims=[B, H, W, G, C]), [0, 3, 1, 2, 4])      r: [B H W, G C], of a product
 *     s = sum(x, over=[2, 3, 4]);  q = sum((x - m)^2, over=[2, 3, 4])       m made of s
 * ->  p = sum(reshape(r, dims=[B H W / 16, 16, G C]), over=1)
 *     t = sum(reshape((r - p / 16)^2), over=1)                  each p for its rows: the forms of ir/block.h
 *     s = sum(reshape(p, dims=[B, H W / 16, G, C]), over=[1, 3])
 *     q = sum(t + (p / 16 - m)^2 * 16, over=[1, 3])             (Chan, Golub and LeVeque, 1983)
 *
 * The pass `split` leaves them alone, so that `split_product` finds them as they were. */
#include "passes/fuse.h"
#include "passes/product.h"
#include "passes/split.h"

enum {
    IMAGES_DEPTH = 16,      /* operations between a product and what is reduced */
    IMAGES_LEAST = 1 << 20, /* elements: of fewer, a kernel that reads them again takes no longer */
    IMAGES_PLACES = 512,    /* of fewer, one kernel has a group's row whole, and applies what it reduces */
    IMAGES_COLUMNS = 256    /* of windows' products: with fewer, tiles are patches of the image, whose rows are
                               none of [M, N] (128 of 256 channels, 3 x 3: 51 us by the estimate, 66 else) */
};

/* How what is reduced lies in memory. */
typedef struct Images {
    Value *rows;      /* [M, N], of a product */
    const Value *cut; /* the reshape of it */
    int perm[RANK_MAX];        /* of the transpose of that: x's axis i is `cut`'s perm[i] */
    bool is_reduced[RANK_MAX];             /* of `cut` */
    int n_images, n_rows;                  /* axes of `cut` that are images; that are M: images and places */
    int64_t places;
} Images;

/* The axes that make up M, those behind them being N; false where none do. */
static bool images_axes(Images *images) {
    const Value *cut = images->cut, *rows = images->rows;
    int64_t columns = 1;
    int at = cut->rank;
    for (int i = 0; i < cut->rank; i++)
        if (!dim_is_const(cut->dims[i]))
            return false;
    while (at > 0 && columns < rows->dims[1]->value)
        columns *= cut->dims[--at]->value;
    if (columns != rows->dims[1]->value)
        return false;
    images->n_rows = at;
    images->n_images = 0;
    while (images->n_images < at && !images->is_reduced[images->n_images])
        images->n_images++;
    images->places = 1;
    for (int i = images->n_images; i < at; i++) {
        if (!images->is_reduced[i])
            return false;
        images->places *= cut->dims[i]->value;
    }
    return images->n_images < at;
}

/* Whether a product's operand is windows of a tensor. */
static bool images_has_windows(const Value *operand) {
    while (value_class(operand) == OPCLASS_MOVEMENT && operand->op != OP_window)
        operand = operand->in[0];
    return operand->op == OP_window;
}

/* Whether a product's kernel has tiles of whole rows, as its columns are many or it has no windows. */
static bool images_fit(const Graph *graph, const FuseLimits *limits, const Images *images) {
    const Value *product = product_below(images->rows, images->rows, IMAGES_DEPTH);
    int64_t m = images->rows->dims[0]->value, n = images->rows->dims[1]->value;
    return product && m <= INT32_MAX && m * n >= IMAGES_LEAST && product_uses_tensor_cores(limits, product) &&
           (n >= IMAGES_COLUMNS || !images_has_windows(product->in[0])) &&
           product_block_fits(graph, limits, product, false, PRODUCT_BLOCK_ROWS);
}

/* Whether `reduction`, of x or of squares of what is computed of it, is over an image's places. */
static bool images_of(const Graph *graph, const FuseLimits *limits, const Value *reduction, const Value *x,
                      Images *images) {
    bool is_turned = x->op == OP_transpose;
    *images = (Images){.cut = is_turned ? x->in[0] : x};
    const Value *cut = images->cut;
    if (cut->op != OP_reshape || cut->in[0]->rank != 2 || !dim_is_const(cut->in[0]->dims[0]) ||
        !dim_is_const(cut->in[0]->dims[1]) || dtype_bits(cut->dtype) > 32)
        return false;
    images->rows = cut->in[0];
    for (int i = 0; i < x->rank; i++) {
        images->perm[i] = is_turned ? x->attrs[0].ints[i] : i;
        images->is_reduced[images->perm[i]] = value_reduces(reduction, i);
    }
    return images_fit(graph, limits, images) && images_axes(images) && images->n_images > 0 &&
           images->places >= IMAGES_PLACES && images->places % PRODUCT_BLOCK_ROWS == 0;
}

static bool images_is_sum(const Value *value) {
    return value->op == OP_sum && value->attrs[1].i && value->dtype == DTYPE_F32;
}

/* What a sum of squares is around: x and g in (x - g)^2, g being the same for all that is summed; NULL: it is
 * none. */
static const Value *images_difference(const Value *value) {
    const Value *square = images_is_sum(value) ? value->in[0] : NULL;
    const Value *d = square && square->op == OP_mul && square->in[0] == square->in[1] ? square->in[0] : NULL;
    return d && d->op == OP_sub && value_same_dims(d->in[0], d) && value_same_dims(d->in[1], value) ? d : NULL;
}

/* Whether a mean is `sum` times or through a scalar. */
static bool images_is_mean(const Value *mean, const Value *sum) {
    return (mean->op == OP_mul || mean->op == OP_div) && mean->in[0] == sum && mean->in[1]->rank == 0;
}

/* Whether `squares` is such a sum around the mean of which `sum` is, of the same elements. */
static bool images_are_pair(const Value *sum, const Value *squares) {
    const Value *d = images_difference(squares);
    return d && images_is_sum(sum) && sum->in[0] == d->in[0] && value_same_dims(sum, squares) &&
           images_is_mean(d->in[1], sum);
}

struct SplitImages {
    ValueMap found; /* sums, and sums of squares */
};

const SplitImages *split_images_find(Pass *pass, const Graph *graph) {
    const FuseLimits *limits = pass->options->limits;
    SplitImages *found = ARENA_NEW(pass->arena, SplitImages);
    *found = (SplitImages){.found.arena = pass->arena};
    for (size_t i = 0; i < graph->values.n && limits && limits->has_tensor_cores; i++) {
        const Value *squares = graph->values.at[i], *d = images_difference(squares);
        Images images;
        if (!d || !images_of(graph, limits, squares, d->in[0], &images))
            continue;
        for (size_t k = 0; k < i; k++)
            if (images_are_pair(graph->values.at[k], squares)) {
                value_map_set(&found->found, graph->values.at[k], 1);
                value_map_set(&found->found, squares, 1);
            }
    }
    return found;
}

bool split_images_has(const SplitImages *found, const Value *value) {
    return value_map_get(&found->found, value);
}

/* ---- the parts */

static const Dim *images_number(Rewrite *rewrite, int64_t number) {
    return dim_const(rewrite->graph->dims, number);
}

/* [M, N] in blocks of rows: [M / 16, 16, N], or with one row each. */
static void images_block_dims(Rewrite *rewrite, const Images *images, int64_t rows, const Dim **dims) {
    dims[0] = images_number(rewrite, images->rows->dims[0]->value / PRODUCT_BLOCK_ROWS);
    dims[1] = images_number(rewrite, rows);
    dims[2] = images->rows->dims[1];
}

/* The sum of each block of a value of [M, N]. */
static Value *images_blocks(Rewrite *rewrite, const Images *images, Value *value) {
    enum { INNER = 1 };
    const Dim *dims[3];
    int axis = INNER;
    images_block_dims(rewrite, images, PRODUCT_BLOCK_ROWS, dims);
    return build_reduce(rewrite, OP_sum, build_reshape(rewrite, value, 3, dims, value), 1, &axis, true, value);
}

/* Each block's number for all of its rows. */
static Value *images_repeated(Rewrite *rewrite, const Images *images, Value *blocks) {
    const Dim *dims[3];
    images_block_dims(rewrite, images, PRODUCT_BLOCK_ROWS, dims);
    Value *wide = build_broadcast(rewrite, blocks, 3, dims, blocks);
    return build_reshape(rewrite, wide, 2, (const Dim *const *)images->rows->dims, blocks);
}

/* The images, blocks of each, and the channels. */
static int images_dims(Rewrite *rewrite, const Images *images, const Dim **dims) {
    int rank = 0;
    for (int i = 0; i < images->n_images; i++)
        dims[rank++] = images->cut->dims[i];
    dims[rank++] = images_number(rewrite, images->places / PRODUCT_BLOCK_ROWS);
    for (int i = images->n_rows; i < images->cut->rank; i++)
        dims[rank++] = images->cut->dims[i];
    return rank;
}

/* Their order in which the small kernel reduces: blocks and the channels of groups last, as rows, or blocks
 * first, as columns, where channels have no groups. How many are reduced. */
static int images_order(const Images *images, int rank, int *order) {
    bool is_reduced[RANK_MAX] = {false};
    int n = 0, at = 0;
    is_reduced[images->n_images] = true;
    for (int i = images->n_rows; i < images->cut->rank; i++)
        is_reduced[images->n_images + 1 + i - images->n_rows] = images->is_reduced[i];
    for (int i = 0; i < rank; i++)
        n += is_reduced[i];
    if (n == 1)
        order[at++] = images->n_images;
    for (int i = 0; i < rank; i++)
        if (!is_reduced[i])
            order[at++] = i;
    for (int i = 0; i < rank && n > 1; i++)
        if (is_reduced[i])
            order[at++] = i;
    return n;
}

/* Numbers of blocks, in that order. */
static Value *images_apart(Rewrite *rewrite, const Images *images, Value *blocks) {
    const Dim *dims[RANK_MAX];
    int order[RANK_MAX], rank = images_dims(rewrite, images, dims);
    images_order(images, rank, order);
    Value *apart = blocks ? build_reshape(rewrite, blocks, rank, dims, blocks) : NULL;
    return apart ? build_transpose(rewrite, apart, order, blocks) : NULL;
}

/* Of these, the sum of an image, or a group of it. */
static Value *images_sum(Rewrite *rewrite, const Images *images, Value *apart, const Value *like) {
    int axes[RANK_MAX], order[RANK_MAX];
    int n = apart ? images_order(images, apart->rank, order) : 0;
    for (int i = 0; i < n; i++)
        axes[i] = n == 1 ? 0 : apart->rank - n + i;
    return apart ? build_reduce(rewrite, OP_sum, apart, n, axes, true, like) : NULL;
}

/* Such sums in the dims of the reduction that they are. */
static Value *images_joined(Rewrite *rewrite, const Images *images, Value *sum, const Value *value) {
    const Dim *dims[RANK_MAX];
    for (int i = 0; i < images->cut->rank; i++)
        dims[i] = images->is_reduced[i] ? images_number(rewrite, 1) : images->cut->dims[i];
    Value *cut = sum ? build_reshape(rewrite, sum, images->cut->rank, dims, value) : NULL;
    return cut ? build_transpose(rewrite, cut, images->perm, value) : NULL;
}

static Value *images_float(Rewrite *rewrite, double number, const Value *like) {
    return build_constant(rewrite, (Number){.f = number}, DTYPE_F32, like);
}

/* Each block's squares around its own mean, brought to the mean of all, which is `around` of their sum. */
static Value *images_squares(Rewrite *rewrite, const Images *images, Value *sums, const Value *around,
                             const Value *value) {
    Value *each = images_float(rewrite, 1.0 / PRODUCT_BLOCK_ROWS, value);
    Value *own = build_scalar(rewrite, OP_mul, images_repeated(rewrite, images, sums), each, NULL, value);
    Value *d = build_scalar(rewrite, OP_sub, images->rows, own, NULL, value);
    Value *squares = images_blocks(rewrite, images, build_scalar(rewrite, OP_mul, d, d, NULL, value));
    Value *apart = images_apart(rewrite, images, sums), *mean = build_scalar(rewrite, OP_mul, apart, each, NULL, value);
    Value *g = build_scalar(rewrite, around->op, images_sum(rewrite, images, apart, value), around->in[1], NULL, value);
    Value *far = build_scalar(rewrite, OP_sub, mean, g, NULL, value);
    far = build_scalar(rewrite, OP_mul, build_scalar(rewrite, OP_mul, far, far, NULL, value),
                       images_float(rewrite, PRODUCT_BLOCK_ROWS, value), NULL, value);
    return build_scalar(rewrite, OP_add, images_apart(rewrite, images, squares), far, NULL, value);
}

Value *split_images_apply(Rewrite *rewrite, const SplitImages *found, Value *value) {
    const Value *d = images_difference(value), *x = d ? d->in[0] : value->n_in ? value->in[0] : NULL;
    Images images;
    if (!split_images_has(found, value) ||
        !images_of(rewrite->graph, rewrite->pass->options->limits, value, x, &images))
        return value;
    Value *sums = images_blocks(rewrite, &images, images.rows);
    Value *apart = !sums ? NULL
                   : d   ? images_squares(rewrite, &images, sums, d->in[1], value)
                         : images_apart(rewrite, &images, sums);
    Value *fresh = images_joined(rewrite, &images, images_sum(rewrite, &images, apart, value), value);
    if (!fresh || fresh->dtype != value->dtype || !value_same_dims(fresh, value))
        return value;
    pass_decide(rewrite->pass, "split_product", true, fresh, value, NULL,
                "the product's kernel reduces %d rows of each column at a time, another kernel their results",
                PRODUCT_BLOCK_ROWS);
    return fresh;
}
