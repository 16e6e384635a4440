/* Windows as an operand: TMA copies one tap of many windows at a time, so that a tile's box has the channels
 * of one tap along the operand's neighbours, and places along its other axis; or, where these are a patch,
 * all that their windows span. */
#include "codegen/templates/matmul_windows.h"

bool matmul_windows_are_lines(const MatmulTma *tma) {
    const Windows *windows = tma->operand->windows;
    return !tma->patch && tma->operand->major == MAJOR_MN && windows_have_lines(windows) &&
           (tma->unit ||
            (dim_is_const(windows->axis[0].places) && windows->axis[0].places->value % tma->tile.rows == 0));
}

int matmul_windows_map(Builder *b, DimTable *dims, const MatmulTma *tma, int channels, int places) {
    const MatmulPatch *patch = tma->patch;
    const MatmulOperand *operand = tma->operand;
    const Windows *windows = operand->windows;
    enum { ANY = 128 /* a stride, where there is one image */ };
    bool are_lines = matmul_windows_are_lines(tma);
    KPlaces *corners = ARENA_NEW(b->arena, KPlaces);
    KTensorMap map = {.buffer = k_global(b, windows->base, false),
                      .elem = operand->elem,
                      .rank = windows->n + (are_lines ? 1 : 2),
                      .dims = {tma->unit && operand->major == MAJOR_K
                                   ? tma->unit_end
                                   : windows->seen->dims[windows->channels_axis]},
                      .strides = {windows->strides[windows->channels_axis]},
                      .box = {channels, places, 1, 1, 1},
                      .swizzle = tma->tile.swizzle,
                      .places = patch || are_lines ? NULL : corners};
    for (int i = 0; i < windows->n; i++) {
        const WindowsAxis *axis = &windows->axis[i];
        map.dims[i + 1] = windows->seen->dims[axis->base_axis];
        map.strides[i + 1] = windows->strides[axis->base_axis];
        map.box[i + 1] = patch ? patch->box[i] : map.box[i + 1];
        if (!map.places)
            continue;
        corners->low[i] = (int)axis->low;
        corners->high[i] = (int)axis->high;
        corners->step[i] = (int)axis->step;
    }
    bool has_images = windows->images_axis >= 0;
    const char *name = windows->base->name ? windows->base->name : tma->tile.buffer->name;
    name = text_format(b->arena, "%s_map", name);
    if (are_lines)
        return k_tensor_map(b, name, map);
    map.dims[map.rank - 1] = has_images ? windows->seen->dims[windows->images_axis] : dim_const(dims, 1);
    map.strides[map.rank - 1] = has_images ? windows->strides[windows->images_axis] : dim_const(dims, ANY);
    return k_tensor_map(b, name, map);
}

/* What the batch adds along an axis of the base. */
static const KExpr *windows_of_batch(Builder *b, const MatmulPlan *plan, const MatmulOperand *operand,
                                     int base_axis, const KExpr *const *batch, const KExpr *at) {
    for (int i = 0; i < operand->value->rank; i++)
        if (base_axis >= 0 && operand->windows->batch[i].base_axis == base_axis)
            at = k_add(b, at,
                       k_mul(b, matmul_batch_coord(b, plan, operand, i, batch),
                             k_dim(b, operand->windows->batch[i].step, K_I32)));
    return at;
}

/* The tap along an axis, counted from where its first window begins. */
static const KExpr *windows_tap(Builder *b, const WindowsAxis *axis, const KExpr *tap) {
    if (axis->taps == 1)
        return k_i32(b, 0);
    tap = k_div(b, tap, k_i32(b, axis->taps_inner));
    tap = k_mod(b, tap, k_i32(b, axis->taps)); /* a tile's last box may reach beyond the last tap */
    if (axis->tap_step < 0)
        tap = k_sub(b, k_i32(b, axis->taps - 1), tap);
    return k_mul(b, tap, k_i32(b, axis->tap_step < 0 ? -axis->tap_step : axis->tap_step));
}

/* What lies within windows, from element `at` on: the channel, and the tap along each axis. */
static void windows_within(Builder *b, const MatmulPlan *plan, const MatmulTma *tma, const KExpr *at,
                           const KExpr *const *batch, const KExpr **out) {
    const MatmulOperand *operand = tma->operand;
    const Windows *windows = operand->windows;
    const KExpr *channels = tma->unit && operand->major == MAJOR_K ? k_i32(b, tma->filled)
                                                                   : k_dim(b, windows->channels, K_I32),
                *tap = k_div(b, at, channels);
    const KExpr *channel = k_add(b, k_mod(b, at, channels), k_dim(b, windows->first_channel, K_I32));
    out[0] = windows_of_batch(b, plan, operand, windows->channels_axis, batch, channel);
    for (int i = 0; i < windows->n; i++)
        out[i + 1] = k_convert(b, windows_tap(b, &windows->axis[i], tap), K_U32);
}

/* Windows from number `at` on: the image, and the first one's place along each axis. */
static void windows_place(Builder *b, const MatmulPlan *plan, const MatmulTma *tma, const KExpr *at,
                          const KExpr *const *batch, const KExpr **out) {
    const MatmulOperand *operand = tma->operand;
    const Windows *windows = operand->windows;
    for (int i = 0; i < windows->n; i++) {
        const WindowsAxis *axis = &windows->axis[i];
        bool is_filled = i == 0 && tma->unit && operand->major == MAJOR_MN;
        const KExpr *places = is_filled ? k_i32(b, tma->filled) : k_dim(b, axis->places, K_I32);
        const KExpr *first = k_mul(b, k_mod(b, at, places), k_i32(b, axis->step));
        out[i + 1] =
            axis->low < 0 ? k_sub(b, first, k_i32(b, -axis->low)) : k_add(b, first, k_i32(b, axis->low));
        at = k_div(b, at, places);
    }
    out[0] = windows_of_batch(b, plan, operand, windows->images_axis, batch, at);
}

void matmul_windows_part(Builder *b, const MatmulPlan *plan, const MatmulTma *tma, bool is_within,
                         const KExpr *at, const KExpr *const *batch, const KExpr **out) {
    for (int i = 0; i < WINDOWS_COORDS; i++)
        out[i] = NULL;
    if (is_within)
        windows_within(b, plan, tma, at, batch, out);
    else
        windows_place(b, plan, tma, at, batch, out);
}

void matmul_windows_load(Builder *b, const MatmulPlan *plan, const MatmulTma *tma, int map, const KExpr *to,
                         const KExpr *full, const KExpr *own_at, const KExpr *const *batch,
                         const KExpr *const *shared) {
    static const AtomId atoms[WINDOWS_IM2COL_MAX] = {ATOM_tma_load_windows_1, ATOM_tma_load_windows_2,
                                                     ATOM_tma_load_windows_3};
    static const AtomId boxes[] = {ATOM_tma_load_3d, ATOM_tma_load_4d, ATOM_tma_load_5d}; /* by their dims */
    bool are_lines = matmul_windows_are_lines(tma), has_boxes = tma->patch || are_lines;
    const MatmulOperand *operand = tma->operand;
    bool is_k = operand->major == MAJOR_K; /* then a tile's steps share the places */
    const KExpr *own[WINDOWS_COORDS];
    matmul_windows_part(b, plan, tma, is_k, own_at, batch, own);
    const KExpr *const *in = is_k ? own : shared, *const *of = is_k ? shared : own;
    int n = 3, axes = operand->windows->n;
    KOperand operands[3 + 2 + 2 * WINDOWS_AXES_MAX] = {k_operand(to), k_operand(k_tensor_map_addr(b, map)),
                                                       k_operand(full)};
    operands[n++] = k_operand(in[0]);
    for (int i = 0; i < axes; i++) {
        /* with the tile's tap, or first tap */
        bool begins_later = (are_lines && i > 0) || (tma->patch && tma->patch->is_along_k);
        operands[n++] =
            k_operand(begins_later ? k_add(b, of[i + 1], k_convert(b, in[i + 1], K_I32)) : of[i + 1]);
    }
    if (!are_lines)
        operands[n++] = k_operand(of[0]);
    for (int i = 0; i < axes && !has_boxes; i++)
        operands[n++] = k_operand(in[i + 1]);
    k_atom(b, has_boxes ? boxes[axes - (are_lines ? 2 : 1)] : atoms[axes - 1], NULL, operands, n);
}
