/* Boxes of an operand, by TMA into a ring of stages. */
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_tma.h"
#include "codegen/templates/matmul_windows.h"

enum { TMA_BOX_MAX = 256, TMA_FEW = 4 /* tiles, of which the last counts */ };

/* Elements of a page along the tile's rows, of which boxes are a part each; NULL: there are no pages. */
static const Dim *tma_page(const MatmulTma *tma) {
    return tma->operand->chosen ? tma->operand->chosen->page : NULL;
}

/* The tile's elements along M or N. */
static int tma_whole(const MatmulTma *tma) {
    return tma->operand->major == MAJOR_K ? tma->tile.rows : tma->tile.cols;
}

/* Whether tiles are clipped, where the operand's extent along M or N is no multiple of theirs. */
static bool tma_is_clipped(const MatmulTma *tma) {
    const Dim *mn = tma->operand->mn;
    int whole = tma_whole(tma);
    return tma->is_clipped && tma->share == 1 && tma->members.n <= 1 && !tma->operand->mn_part &&
           !tma_page(tma) && whole <= TMA_BOX_MAX && dim_is_const(mn) && mn->value > 0 &&
           mn->value % whole != 0;
}

/* Of the tile's elements along M or N, those that are loaded: of any tile, or of all but the last. */
static int tma_loaded(const MatmulTma *tma) {
    int whole = tma_whole(tma), unit = tma->operand->major == MAJOR_MN ? tma->tile.span : 1;
    if (!tma_is_clipped(tma) || tma->operand->mn->value > whole)
        return whole;
    return ((int)tma->operand->mn->value + unit - 1) / unit * unit;
}

/* Those of the last of several tiles, where it has a map of its own; else 0. */
static int tma_rest(const MatmulTma *tma) {
    if (!tma_is_clipped(tma) || tma->operand->major != MAJOR_K)
        return 0;
    int64_t mn = tma->operand->mn->value, whole = tma_whole(tma);
    return mn > whole && mn < TMA_FEW * whole ? (int)(mn % whole) : 0;
}

/* Whether the tile at mn0 is that one. */
static const KExpr *tma_is_last(Builder *b, const MatmulTma *tma, const KExpr *mn0) {
    return k_ge(b, mn0, k_i32(b, tma->operand->mn->value - tma_rest(tma)));
}

const KExpr *matmul_tma_bytes(Builder *b, const MatmulTma *tma, const KExpr *mn0) {
    int64_t row = tile_bytes(&tma->tile) / tma_whole(tma);
    const KExpr *bytes = k_int(b, K_U32, row * tma_loaded(tma));
    return tma_rest(tma) ? k_select(b, tma_is_last(b, tma, mn0), k_int(b, K_U32, row * tma_rest(tma)), bytes)
                         : bytes;
}

/* Boxes one below the other of what one block of a cluster loads; tma_box_rows: rows of each. */
static int tma_boxes(const MatmulTma *tma) {
    if (tma->patch)
        return 1;
    if (tma_page(tma))
        return tma->tile.rows / (int)dim_gcd(tma->tile.rows, tma_page(tma)->value);
    return tma->tile.rows / tma->share > TMA_BOX_MAX ? 2 : 1;
}

/* Whether rows are dealt out to the operand's matrices. */
static bool tma_is_dealt(const MatmulTma *tma) {
    return tma->dealt && tma->dealt->count;
}

/* Whether an axis of the operand's batch is one with M or N, of which the tile has several matrices, or with
 * K, as rows that are dealt out lie in one line. */
static bool tma_is_joined(const MatmulTma *tma, int axis) {
    return (tma->members.n > 1 && tma->members.own_axis == axis) ||
           (tma_is_dealt(tma) && tma->dealt->axis == axis);
}

/* Boxes side by side, and elements of the operand in a row of each: the tile may count its bytes otherwise.
 */
static int tma_blocks(const MatmulTma *tma) {
    int cols = tma->operand->major == MAJOR_MN ? tma_loaded(tma) : tma->tile.cols;
    return cols / tma->tile.span;
}

static int tma_span(const MatmulTma *tma) {
    return tma->tile.span * dtype_bits(tma->tile.elem) / dtype_bits(tma->operand->elem);
}

/* Elements that TMA moves as one: bytes of two. */
static int tma_packed(const MatmulTma *tma) {
    return dtype_bits(tma->operand->elem) < 8 ? 8 / dtype_bits(tma->operand->elem) : 1;
}

static const Dim *tma_packs(DimTable *dims, const MatmulTma *tma, const Dim *elements) {
    int packed = tma_packed(tma);
    return packed == 1 ? elements : dim_ceil_div(dims, elements, dim_const(dims, packed));
}

static int tma_box_rows(const MatmulTma *tma) {
    return (tma->operand->major == MAJOR_MN ? tma->tile.rows : tma_loaded(tma) / tma->share) / tma_boxes(tma);
}

/* The parts that the map has K in; NULL: in one. */
static const Dim *tma_k_part(const MatmulTma *tma) {
    return tma->unit ? tma->unit : tma->operand->k_part;
}

/* The part of one of the operand's two axes that lies in one piece, and beyond it the outer part. */
static const Dim *tma_part(DimTable *dims, const MatmulTma *tma, bool is_k) {
    const MatmulOperand *operand = tma->operand;
    const Dim *part = !is_k ? operand->mn_part : tma->unit ? tma->unit_end : operand->k_part;
    if (!is_k && tma->members.n > 1)
        return dim_mul(dims, operand->mn, operand->value->dims[tma->members.own_axis]);
    if (is_k && tma_is_dealt(tma))
        return matmul_dealt_line(dims, operand, tma->dealt);
    int axis = is_k ? operand->k_axis : operand->mn_axis;
    if (tma_page(tma) && operand->chosen->page_axis == axis)
        return tma_page(tma);
    return part ? part : operand->value->dims[axis];
}

static void tma_add_dim(KTensorMap *map, const Dim *dim, const Dim *stride) {
    map->dims[map->rank] = dim;
    map->strides[map->rank] = stride;
    map->box[map->rank++] = 1;
}

/* From one of the operand's rows in memory to the next; where there is one alone a view may say 0, which no
 * map takes. */
static const Dim *tma_pitch(DimTable *dims, const MatmulOperand *operand, int outer) {
    enum { ANY = 128 };
    const Dim *stride = operand->view.strides[outer];
    return dim_is(stride, 0) ? dim_const(dims, ANY) : stride;
}

/* Of rows that are places, in patches. */
static int tma_patch_map(Builder *b, DimTable *dims, const MatmulTma *tma) {
    const MatmulOperand *operand = tma->operand;
    const Value *value = operand->value;
    KTensorMap map = {.buffer = k_global(b, operand->view.base, false),
                      .elem = operand->elem,
                      .dims = {value->dims[operand->mn_axis]},
                      .strides = {operand->view.strides[operand->mn_axis]},
                      .offset = operand->view.offset,
                      .box = {tma_span(tma)},
                      .swizzle = tma->tile.swizzle};
    matmul_patch_dims(dims, tma->patch, tma_pitch(dims, operand, operand->k_axis), tma->tile.rows, &map);
    for (int i = operand->n_batch; i-- > 0;)
        tma_add_dim(&map, value->dims[operand->batch[i]], operand->view.strides[operand->batch[i]]);
    const char *name = operand->view.base->name ? operand->view.base->name : tma->tile.buffer->name;
    return k_tensor_map(b, text_format(b->arena, "%s_map", name), map);
}

static int tma_map(Builder *b, DimTable *dims, const MatmulTma *tma, int box_rows) {
    const MatmulOperand *operand = tma->operand;
    const Value *value = operand->value;
    if (operand->windows)
        return matmul_windows_map(b, dims, tma, tma_span(tma), box_rows);
    if (tma->patch)
        return tma_patch_map(b, dims, tma);
    bool is_k = operand->major == MAJOR_K;
    int inner = is_k ? operand->k_axis : operand->mn_axis;
    int outer = is_k ? operand->mn_axis : operand->k_axis;
    KTensorMap map = {
        .buffer = k_global(b, operand->view.base, false),
        .elem = tma_packed(tma) > 1 ? DTYPE_U8 : operand->elem,
        .rank = 2,
        .dims = {tma_packs(dims, tma, tma_part(dims, tma, is_k)), tma_part(dims, tma, !is_k)},
        .strides = {operand->view.strides[inner], tma_packs(dims, tma, tma_pitch(dims, operand, outer))},
        .offset = tma_packs(dims, tma, operand->view.offset),
        .box = {tma_span(tma) / tma_packed(tma), box_rows},
        .swizzle = tma->tile.swizzle};
    const Dim *part = tma_k_part(tma);
    if (part)
        tma_add_dim(&map, dim_div(dims, value->dims[operand->k_axis], part),
                    operand->k_part ? operand->k_outer
                                    : dim_mul(dims, operand->view.strides[operand->k_axis], part));
    if (operand->mn_part)
        tma_add_dim(&map, dim_div(dims, value->dims[operand->mn_axis], operand->mn_part), operand->mn_outer);
    for (int i = operand->n_batch; i-- > 0;) /* innermost batch axis first */
        if (!tma_is_joined(tma, operand->batch[i]))
            tma_add_dim(&map, value->dims[operand->batch[i]],
                        tma_packs(dims, tma, operand->view.strides[operand->batch[i]]));
    if (operand->chosen)
        tma_add_dim(&map, operand->chosen->extent, tma_packs(dims, tma, operand->chosen->step));
    const char *name = operand->view.base->name ? operand->view.base->name : tma->tile.buffer->name;
    return k_tensor_map(b, text_format(b->arena, "%s_map", name), map);
}

MatmulMaps matmul_tma_maps(Builder *b, DimTable *dims, const MatmulTma *tma) {
    int rest = tma_rest(tma);
    if (rest || tma_loaded(tma) < tma_whole(tma))
        k_partial(b, tma->tile.buffer);
    int whole = tma_map(b, dims, tma, tma_box_rows(tma));
    return (MatmulMaps){whole, rest ? tma_map(b, dims, tma, rest) : whole};
}

/* A coordinate within its part, where its axis is in two; and the part's number behind the other coordinates.
 */
static const KExpr *tma_within(Builder *b, const Dim *part, const KExpr *at) {
    return part ? k_mod(b, at, k_dim(b, part, K_I32)) : at;
}

static const KExpr *tma_beyond(Builder *b, const Dim *part, const KExpr *at) {
    return k_div(b, at, k_dim(b, part, K_I32));
}

/* Elements of K that steps count for a part; NULL: it is in one. */
static const Dim *tma_k_counted(DimTable *dims, const MatmulTma *tma) {
    return tma->unit ? dim_const(dims, tma->filled) : tma->operand->k_part;
}

/* Of the blocks that share a tile, this one's number. */
static const KExpr *tma_share(Builder *b, const MatmulTma *tma) {
    const KExpr *part = k_div(b, k_special(b, SPECIAL_CTA_RANK), k_i32(b, tma->share_step));
    return tma->share * tma->share_step == tma->cluster ? part : k_mod(b, part, k_i32(b, tma->share));
}

/* Those blocks, a bit for each rank. */
static const KExpr *tma_mask(Builder *b, const MatmulTma *tma) {
    int64_t mask = 0;
    for (int i = 0; i < tma->share; i++)
        mask |= (int64_t)1 << (i * tma->share_step);
    if (tma->share == tma->cluster)
        return k_int(b, K_U32, mask);
    const KExpr *first =
        k_sub(b, k_special(b, SPECIAL_CTA_RANK), k_mul(b, tma_share(b, tma), k_i32(b, tma->share_step)));
    return k_scalar(b, OP_shl, k_int(b, K_U32, mask), k_convert(b, first, K_U32), NULL);
}

/* The row of a tile's box `below` others, from the tile's first one, at `first` of the operand, and where TMA
 * finds it along that axis. */
static const KExpr *tma_row(Builder *b, const MatmulTma *tma, const KExpr *first, const KExpr *row) {
    const Dim *page = tma_page(tma);
    if (!page)
        return k_add(b, first, row);
    return page->value == tma_box_rows(tma) ? k_i32(b, 0)
                                            : k_mod(b, k_add(b, first, row), k_dim(b, page, K_I32));
}

/* A box of columns from `col` on of the places of the patch whose first row is `row`. */
static void tma_load_places(Builder *b, const MatmulPlan *plan, const MatmulTma *tma, int map,
                            const KExpr *to, const KExpr *full, const KExpr *col, const KExpr *row,
                            const KExpr *const *batch) {
    static const AtomId atoms[] = {ATOM_tma_load_3d, ATOM_tma_load_4d, ATOM_tma_load_5d};
    const MatmulOperand *operand = tma->operand;
    MatmulPlace place = matmul_patch_place(b, tma->patch, row, k_i32(b, 0), k_i32(b, 0));
    KOperand operands[8] = {k_operand(to), k_operand(k_tensor_map_addr(b, map)), k_operand(full),
                            k_operand(col)};
    int n = 4 + matmul_patch_coords(&place, operands + 4);
    for (int i = operand->n_batch; i-- > 0;)
        operands[n++] = k_operand(matmul_batch_coord(b, plan, operand, operand->batch[i], batch));
    k_atom(b, atoms[n - 6], NULL, operands, n);
}

/* One load: box `box` of this block's, first those one below the other, then the next span of columns. */
static void tma_load_box(Builder *b, const MatmulPlan *plan, const MatmulTma *tma, const KExpr *stage,
                         const KExpr *full, const KExpr *mn0, const KExpr *k0, const KExpr *const *batch,
                         int box, int map) {
    const MatmulOperand *operand = tma->operand;
    const Tile *tile = &tma->tile;
    bool is_shared = tma->share > 1;
    const KExpr *part = is_shared ? tma_share(b, tma) : k_i32(b, 0);
    const KExpr *to, *inner, *outer;
    int below = box % tma_boxes(tma), block = box / tma_boxes(tma);
    const KExpr *row = k_i32(b, (int64_t)below * tma_box_rows(tma));
    if (operand->major == MAJOR_K) {
        row = k_add(b, k_mul(b, part, k_i32(b, tile->rows / tma->share)), row);
        const KExpr *at =
            k_add(b, k_mul(b, stage, k_i32(b, tile->pitch)), k_mul(b, row, k_i32(b, tile->span)));
        at = k_add(b, at, k_i32(b, (int64_t)block * tile->rows * tile->span));
        to = k_smem_addr(b, tile->buffer, at);
        inner = k_add(b, k0, k_i32(b, (int64_t)block * tma_span(tma)));
        inner = tma_is_dealt(tma) ? k_add(b, inner, tma->piece) : inner;
        outer = tma_row(b, tma, mn0, row);
    } else {
        /* of blocks that two share, 2 i + part is this one's to load */
        const KExpr *number = k_add(b, k_i32(b, (int64_t)block * tma->share), part);
        const KExpr *at = k_mul(b, number, k_i32(b, (int64_t)tile->rows * tile->span));
        at = k_add(b, k_mul(b, stage, k_i32(b, tile->pitch)), at);
        to = k_smem_addr(b, tile->buffer, k_add(b, at, k_mul(b, row, k_i32(b, tile->span))));
        inner = k_add(b, mn0, k_mul(b, number, k_i32(b, tma_span(tma))));
        outer = tma_row(b, tma, k0, row);
    }
    inner = tma_packed(tma) > 1 ? k_div(b, inner, k_i32(b, tma_packed(tma))) : inner;
    if (operand->windows) {
        bool shares_places = operand->major == MAJOR_K;
        matmul_windows_load(b, plan, tma, map, to, full, shares_places ? inner : outer, batch,
                            tma->windows + (ptrdiff_t)(shares_places ? below : block) * WINDOWS_COORDS);
        return;
    }
    if (tma->patch) {
        tma_load_places(b, plan, tma, map, to, full, inner, outer, batch);
        return;
    }
    bool is_k = operand->major == MAJOR_K;
    const Dim *k_part = tma_k_counted(plan->graph->dims, tma);
    const Dim *inner_part = is_k ? k_part : operand->mn_part, *outer_part = is_k ? operand->mn_part : k_part;
    KOperand operands[8] = {k_operand(to), k_operand(k_tensor_map_addr(b, map)), k_operand(full),
                            k_operand(tma_within(b, inner_part, inner)),
                            k_operand(tma_within(b, outer_part, outer))};
    int n = 5;
    if (k_part)
        operands[n++] = k_operand(tma_beyond(b, k_part, is_k ? inner : outer));
    if (operand->mn_part)
        operands[n++] = k_operand(tma_beyond(b, operand->mn_part, is_k ? outer : inner));
    for (int i = operand->n_batch; i-- > 0;)
        if (!tma_is_joined(tma, operand->batch[i]))
            operands[n++] = k_operand(matmul_batch_coord(b, plan, operand, operand->batch[i], batch));
    if (operand->chosen)
        operands[n++] = k_operand(tma->pages ? tma->pages[below] : tma->chosen);
    static const AtomId atoms[2][1 + MATMUL_TMA_BEYOND] = {
        {ATOM_tma_load_2d, ATOM_tma_load_3d, ATOM_tma_load_4d, ATOM_tma_load_5d},
        {ATOM_tma_load_2d_once, ATOM_tma_load_3d_once, ATOM_tma_load_4d_once, ATOM_tma_load_5d_once}};
    AtomId atom = atoms[tma->is_once][n - 5];
    if (is_shared) {
        atom = n == 5 ? ATOM_tma_load_2d_multicast : ATOM_tma_load_3d_multicast;
        operands[n++] = k_operand(tma_mask(b, tma));
    }
    k_atom(b, atom, NULL, operands, n);
}

void matmul_tma_find_pages(Builder *b, const MatmulPlan *plan, MatmulTma *tma, const KExpr *mn0,
                           const KExpr *k0, const KExpr *const *batch) {
    if (!tma_page(tma))
        return;
    int n = tma_boxes(tma);
    tma->pages = ARENA_ARRAY(b->arena, const KExpr *, n);
    for (int i = 0; i < n; i++) {
        const KExpr *first = tma->operand->major == MAJOR_K ? mn0 : k0;
        const KExpr *row = k_add(b, first, k_i32(b, (int64_t)i * tma_box_rows(tma)));
        tma->pages[i] = k_let_expr(b, "page", matmul_chosen(b, plan, tma->operand, batch, row));
    }
}

void matmul_tma_find_windows(Builder *b, const MatmulPlan *plan, MatmulTma *tma, const KExpr *mn0,
                             const KExpr *const *batch) {
    if (!tma->operand->windows)
        return;
    bool is_k = tma->operand->major == MAJOR_K;
    int n = is_k ? tma_boxes(tma) : tma_blocks(tma), step = is_k ? tma_box_rows(tma) : tma->tile.span;
    tma->windows = ARENA_ARRAY(b->arena, const KExpr *, (size_t)n *WINDOWS_COORDS);
    for (int i = 0; i < n; i++)
        matmul_windows_part(b, plan, tma, !is_k, k_add(b, mn0, k_i32(b, (int64_t)i * step)), batch,
                            tma->windows + (ptrdiff_t)i * WINDOWS_COORDS);
    for (int i = 0; i < n * WINDOWS_COORDS; i++) {
        const char *name = i % WINDOWS_COORDS ? (is_k ? "place" : "tap") : is_k ? "image" : "channel";
        tma->windows[i] = tma->windows[i] ? k_let_expr(b, name, tma->windows[i]) : NULL;
    }
}

void matmul_tma_load(Builder *b, const MatmulPlan *plan, const MatmulTma *tma, const KExpr *stage,
                     const KExpr *full, const KExpr *mn0, const KExpr *k0, const KExpr *const *batch) {
    bool is_k = tma->operand->major == MAJOR_K;
    if (tma->members.n > 1) {
        const KExpr *member = matmul_batch_coord(b, plan, tma->operand, tma->members.own_axis, batch);
        mn0 = k_add(b, mn0, k_mul(b, member, k_dim(b, tma->operand->mn, K_I32)));
    }
    int boxes = tma_boxes(tma) * tma_blocks(tma) / (is_k ? 1 : tma->share);
    if (tma_rest(tma)) {
        k_if_begin(b, tma_is_last(b, tma, mn0));
        for (int box = 0; box < boxes; box++)
            tma_load_box(b, plan, tma, stage, full, mn0, k0, batch, box, tma->maps.last);
        k_else(b);
    }
    for (int box = 0; box < boxes; box++)
        tma_load_box(b, plan, tma, stage, full, mn0, k0, batch, box, tma->maps.whole);
    if (tma_rest(tma))
        k_end(b);
}
