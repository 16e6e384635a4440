/* Asynchronous copies: cp.async (PTX ISA 9.7.9.25) and TMA (9.7.9.27).
 *
 * The bytes move when the copy is issued, but they are written in the name of an agent of their own: the
 * warp's cp.async engine, whose time is the number of the group, or the mbarrier, whose time is its phase.
 * Who has not waited reads them in a race. The mbarrier is told of TMA's bytes as late as can be, and not in
 * the order of the copies. */
#include "codegen/simulate_internal.h"

/* ---- cp.async ------------------------------------------------------------------------------------------ */

static void copy_cp_async(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    int size = stmt->source->atom == ATOM_cp_async_16 ? 16 : stmt->source->shape[0];
    const Lanes *to = sim_operand(sim, warp, &stmt->operands[0], mask);
    const Lanes *from = sim_operand(sim, warp, &stmt->operands[1], mask);
    const Lanes *read = sim_operand(sim, warp, &stmt->operands[2], mask);
    SimWriter writer = {.agent = sim->n_warps * sim->n_ctas + warp->agent,
                        .clock = warp->copy_groups + 1,
                        .is_generic = true};
    FOR_LANES(lane, mask) {
        int64_t n = read->at[lane].i;
        if (sim->failed)
            return;
        if (n < 0 || n > size) {
            sim_fail(sim, warp, (int)lane, "cp.async reads %lld bytes of %d", (long long)n, size);
            return;
        }
        int64_t offset = sim_shared_offset(sim, warp, (int)lane, to->at[lane].i, size, size);
        const uint8_t *source = NULL;
        if (n > 0 && offset >= 0)
            source = sim_global_bytes(sim, warp, (int)lane, from->at[lane].i, n, size, false);
        if (offset < 0 || (n > 0 && !source) ||
            !shadow_write(sim, warp, (int)lane, warp->cta, offset, size, writer))
            return;
        memset(warp->cta->shared + offset, 0, (size_t)size);
        if (n > 0)
            memcpy(warp->cta->shared + offset, source, (size_t)n);
    }
}

void sim_cp_async(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    switch (stmt->source->atom) {
    case ATOM_cp_async_commit: warp->copy_groups++; return;
    case ATOM_cp_async_wait: {
        uint32_t left = (uint32_t)stmt->source->shape[0];
        uint32_t *known = &warp->clock[sim->n_warps * sim->n_ctas + warp->agent];
        if (warp->copy_groups > left && *known < warp->copy_groups - left)
            *known = warp->copy_groups - left;
        return;
    }
    default: copy_cp_async(sim, warp, stmt, mask); return;
    }
}

/* ---- TMA ----------------------------------------------------------------------------------------------- */

/* The 16-byte chunks of a row trade places by the row's number, so that a column of chunks lies in different
 * banks: address bits 4 to 6 (128 bytes), 4 to 5 (64) or 4 (32) are combined with the bits three places
 * above. */
int64_t sim_swizzle(KSwizzle swizzle, int64_t address) {
    static const int64_t masks[] = {0, 0x10, 0x30, 0x70};
    return address ^ (address >> 3 & masks[swizzle]);
}

enum { TMA_PIECE = 16 /* bytes: of a row, it begins with one and writes whole ones */ };

/* A box that moves between global and shared memory. */
typedef struct CopyBox {
    const SimMap *map;
    SimGlobal *global;
    int64_t first[5]; /* coordinates */
    int64_t tap[3];   /* of windows, along each axis */
    int64_t address;  /* in shared memory */
    int lane;         /* that issues it */
    int bytes;        /* an element */
} CopyBox;

static int64_t copy_box_bytes(const CopyBox *box) {
    int64_t bytes = box->bytes;
    for (int i = 0; i < box->map->map->rank; i++)
        bytes *= box->map->map->box[i];
    return bytes;
}

/* Places of windows along an axis. */
static int64_t copy_places(const SimMap *map, int axis) {
    const KPlaces *places = map->map->places;
    int64_t span = map->dims[axis + 1] - 1 + places->high[axis] - places->low[axis];
    return span < 0 ? 0 : span / places->step[axis] + 1;
}

/* The coordinates of the tap of the window `number` places behind the box's first. */
static void copy_window(const CopyBox *box, int64_t number, int64_t *coordinates) {
    const SimMap *map = box->map;
    const KPlaces *places = map->map->places;
    int last = map->map->rank - 1;
    for (int i = 0; i < last - 1; i++) {
        int64_t along = copy_places(map, i);
        number += (box->first[i + 1] - places->low[i]) / places->step[i];
        coordinates[i + 1] = places->low[i] + number % along * places->step[i] + box->tap[i];
        number /= along;
    }
    coordinates[last] = box->first[last] + number;
}

/* Whether the first window is one of the map's. */
static bool copy_is_place(const CopyBox *box) {
    const KPlaces *places = box->map->map->places;
    for (int i = 0; i < box->map->map->rank - 2; i++) {
        int64_t from = box->first[i + 1] - places->low[i];
        if (from < 0 || from % places->step[i] != 0 || from / places->step[i] >= copy_places(box->map, i))
            return false;
    }
    return true;
}

/* operands: which of the atom's are the map, the shared address and the first coordinate. */
static bool copy_read_box(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask lane_mask, int map,
                          int address, int coordinate, int rank, bool is_of_windows, CopyBox *box) {
    int64_t param = sim_operand_uniform(sim, warp, &stmt->operands[map], lane_mask);
    box->lane = __builtin_ctz(lane_mask);
    if (param < 0 || (size_t)param >= sim->kernel->params.n ||
        sim->kernel->params.at[param].kind != PARAM_TENSOR_MAP) {
        sim_fail(sim, warp, box->lane, "operand %d is no tensor map's address", map);
        return false;
    }
    box->map = &sim->maps[param];
    const KTensorMap *described = box->map->map;
    if (described->rank != rank) {
        sim_fail(sim, warp, box->lane, "a copy of rank %d through a tensor map of rank %d", rank,
                 described->rank);
        return false;
    }
    if (is_of_windows != (described->places != NULL)) {
        sim_fail(sim, warp, box->lane, "a copy of %s through a tensor map of %s",
                 is_of_windows ? "windows" : "tiles", described->places ? "windows" : "tiles");
        return false;
    }
    box->global = &sim->globals[described->buffer->id];
    box->bytes = dtype_bits(described->elem) / 8;
    box->address = sim_operand_uniform(sim, warp, &stmt->operands[address], lane_mask);
    for (int i = 0; i < rank; i++)
        box->first[i] = (int32_t)sim_operand_uniform(sim, warp, &stmt->operands[coordinate + i], lane_mask);
    for (int i = 0; is_of_windows && i < rank - 2; i++)
        box->tap[i] = sim_operand_uniform(sim, warp, &stmt->operands[coordinate + rank + i], lane_mask);
    if (!sim->failed && is_of_windows && !copy_is_place(box))
        sim_fail(sim, warp, box->lane, "the first window of a copy is none of those of '%s'",
                 described->buffer->name);
    if (!sim->failed && box->first[0] * box->bytes % TMA_PIECE != 0)
        sim_fail(sim, warp, box->lane,
                 "TMA takes boxes that begin at 16 bytes of a row: one of '%s' begins at %lld",
                 described->buffer->name, (long long)(box->first[0] * box->bytes));
    return !sim->failed &&
           sim_shared_offset(sim, warp, box->lane, box->address, copy_box_bytes(box), 128) >= 0;
}

/* The element of global memory at a place of the box; -1 outside the tensor. */
static int64_t copy_element(const CopyBox *box, const int *at) {
    const SimMap *map = box->map;
    int64_t element = map->offset, coordinates[5];
    for (int i = 0; i < map->map->rank; i++)
        coordinates[i] = box->first[i] + at[i];
    if (map->map->places)
        copy_window(box, at[1], coordinates);
    for (int i = 0; i < map->map->rank; i++) {
        int64_t coordinate = coordinates[i];
        if (coordinate < 0 || coordinate >= map->dims[i])
            return -1;
        element += coordinate * map->strides[i];
    }
    return element;
}

/* `again` as of shadow_global(). */
static bool copy_in_buffer(Sim *sim, SimWarp *warp, const CopyBox *box, int64_t element, bool is_write,
                           bool *again) {
    /* the map may count bytes of two elements */
    int width = box->bytes * 8 / dtype_bits(box->global->buffer->elem);
    element *= width;
    if (element + width > box->global->count) {
        sim_fail(sim, warp, box->lane, "a tensor map reaches element %lld of '%s', which has %lld",
                 (long long)element, box->global->buffer->name, (long long)box->global->count);
        return false;
    }
    return shadow_global(sim, warp, box->lane, box->global, element, width, is_write, again);
}

/* Advances a place of the box, innermost first; false behind the last. */
static bool copy_next(const KTensorMap *map, int *at) {
    for (int i = 0; i < map->rank; i++) {
        if (++at[i] < map->box[i])
            return true;
        at[i] = 0;
    }
    return false;
}

static bool copy_into(Sim *sim, SimWarp *warp, const CopyBox *box, SimCta *cta, SimWriter writer) {
    const KTensorMap *map = box->map->map;
    int at[5] = {0};
    int64_t base = sim_shared_base(sim, warp->cta), address = box->address;
    do {
        int64_t offset = sim_swizzle(map->swizzle, address) - base;
        int64_t element = copy_element(box, at);
        if (element >= 0 && !copy_in_buffer(sim, warp, box, element, false, NULL))
            return false;
        if (!shadow_write(sim, warp, box->lane, cta, offset, box->bytes, writer))
            return false;
        if (element >= 0)
            memcpy(cta->shared + offset, box->global->at + element * box->bytes, (size_t)box->bytes);
        else
            memset(cta->shared + offset, 0, (size_t)box->bytes);
        address += box->bytes;
    } while (copy_next(map, at));
    return true;
}

/* Into one block: its mbarrier at the same address counts the bytes. */
static void copy_load_into(Sim *sim, SimWarp *warp, const CopyBox *box, SimCta *cta,
                           int64_t mbarrier_address) {
    if (cta->running == 0) {
        sim_fail(sim, warp, box->lane, "a TMA copy into block %d of the cluster, which has ended", cta->rank);
        return;
    }
    SimMbarrier *mbarrier = sim_mbarrier(sim, warp, box->lane, cta, mbarrier_address, true);
    if (!mbarrier)
        return;
    SimWriter writer = {.agent = mbarrier->agent, .clock = mbarrier->phase + 1};
    if (copy_into(sim, warp, box, cta, writer))
        sim_mbarrier_expect_bytes(sim, mbarrier, copy_box_bytes(box));
}

void sim_tma_load(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    int rank = 2;
    bool is_multicast = false, is_of_windows = false;
    switch (stmt->source->atom) {
    case ATOM_tma_load_windows_1:
    case ATOM_tma_load_windows_2:
    case ATOM_tma_load_windows_3:
        rank = 3 + stmt->source->atom - ATOM_tma_load_windows_1; /* ORDER TMA_WINDOWS */
        is_of_windows = true;
        break;
    case ATOM_tma_load_3d:
    case ATOM_tma_load_3d_once: rank = 3; break;
    case ATOM_tma_load_4d:
    case ATOM_tma_load_4d_once: rank = 4; break;
    case ATOM_tma_load_5d:
    case ATOM_tma_load_5d_once: rank = 5; break;
    case ATOM_tma_load_2d_multicast: is_multicast = true; break;
    case ATOM_tma_load_3d_multicast:
        rank = 3;
        is_multicast = true;
        break;
    default: break;
    }
    FOR_LANES(lane, mask) { /* each lane issues a copy of its own; templates elect one */
        CopyBox box;
        LaneMask one = 1u << lane;
        if (!copy_read_box(sim, warp, stmt, one, 1, 0, 3, rank, is_of_windows, &box))
            return;
        int64_t mbarrier = sim_operand_uniform(sim, warp, &stmt->operands[2], one);
        if (!is_multicast) {
            copy_load_into(sim, warp, &box, warp->cta, mbarrier);
            continue;
        }
        uint32_t ctas = (uint32_t)sim_operand_uniform(sim, warp, &stmt->operands[3 + rank], one) & 0xffff;
        if (ctas >> sim->n_ctas)
            sim_fail(sim, warp, (int)lane, "a multicast to blocks %#x of a cluster of %d", ctas, sim->n_ctas);
        for (int c = 0; c < sim->n_ctas && !sim->failed; c++)
            if (ctas >> c & 1)
                copy_load_into(sim, warp, &box, &sim->ctas[c], mbarrier);
    }
}

/* Notes that an element of the box is on its way to memory. */
static void copy_store_begins(Sim *sim, const CopyBox *box, int64_t element, SimBulk *bulk) {
    int width = box->bytes * 8 / dtype_bits(box->global->buffer->elem);
    for (int i = 0; i < width && box->global->shadow; i++) {
        SimElement *written = &box->global->shadow[element * width + i];
        shadow_store_begins(written);
        vec_push(sim->arena, &bulk->written, written);
    }
}

/* Whether all pieces of 16 bytes that the box writes of a row are the tensor's: TMA writes whole ones, beyond
 * the end of a row that is none. */
static bool copy_writes_whole_pieces(Sim *sim, SimWarp *warp, const CopyBox *box) {
    const SimMap *map = box->map;
    int64_t row = map->dims[0] * box->bytes;
    if (row % TMA_PIECE == 0 || box->first[0] + map->map->box[0] <= row / TMA_PIECE * TMA_PIECE / box->bytes)
        return true;
    sim_fail(sim, warp, box->lane, "TMA writes whole pieces of 16 bytes: rows of '%s' of %lld end within one",
             map->map->buffer->name, (long long)row);
    return false;
}

/* One element of a box to memory: as it is, or (adds) added to what is there. */
static bool copy_store_element(Sim *sim, SimWarp *warp, const CopyBox *box, int64_t element,
                               const uint8_t *from, bool adds) {
    bool again = false;
    uint8_t *to = box->global->at + element * box->bytes;
    if (!copy_in_buffer(sim, warp, box, element, true, sim->kernel->rewrites && !adds ? &again : NULL))
        return false;
    if (again && memcmp(to, from, (size_t)box->bytes) != 0) {
        sim_fail(sim, warp, box->lane, "element %lld of '%s' is written by two threads, not the same bits",
                 (long long)element, box->global->buffer->name);
        return false;
    }
    if (adds) {
        float sum, term;
        memcpy(&sum, to, sizeof sum);
        memcpy(&term, from, sizeof term);
        sum += term;
        memcpy(to, &sum, sizeof sum);
    } else {
        memcpy(to, from, (size_t)box->bytes);
    }
    return true;
}

static void copy_store_box(Sim *sim, SimWarp *warp, const CopyBox *box, bool adds) {
    const KTensorMap *map = box->map->map;
    int at[5] = {0};
    int64_t base = sim_shared_base(sim, warp->cta), address = box->address;
    SimBulk bulk = {.offset = box->address - base, .bytes = copy_box_bytes(box), .group = warp->bulk_groups};
    do {
        int64_t offset = sim_swizzle(map->swizzle, address) - base;
        int64_t element = copy_element(box, at);
        if (!shadow_read_async(sim, warp, offset, box->bytes))
            return;
        if (element >= 0) {
            if (!copy_store_element(sim, warp, box, element, warp->cta->shared + offset, adds))
                return;
            copy_store_begins(sim, box, element, &bulk);
        }
        address += box->bytes;
    } while (copy_next(map, at));
    vec_push(sim->arena, &warp->bulks, bulk);
}

/* Each of the lanes' boxes, through a map of `rank` dims. */
static void copy_store(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask, int rank, bool adds) {
    FOR_LANES(lane, mask) {
        CopyBox box;
        if (!copy_read_box(sim, warp, stmt, 1u << lane, 0, 1, 2, rank, false, &box))
            return;
        const KBuffer *buffer = box.map->map->buffer;
        if (!buffer->written) {
            sim_fail(sim, warp, (int)lane, "'%s' promises that nothing is written to it", buffer->name);
            return;
        }
        if (adds && box.map->map->elem != DTYPE_F32) {
            sim_fail(sim, warp, (int)lane, "boxes are added in f32 alone: '%s' is %s", buffer->name,
                     dtype_name(box.map->map->elem));
            return;
        }
        if (!copy_writes_whole_pieces(sim, warp, &box))
            return;
        copy_store_box(sim, warp, &box, adds);
    }
}

void sim_tma_store(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    copy_store(sim, warp, stmt, mask, 2 + stmt->source->atom - ATOM_tma_store_2d,
               false); /* ORDER TMA_STORE */
}

void sim_tma_add(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    copy_store(sim, warp, stmt, mask, 2 + stmt->source->atom - ATOM_tma_add_2d, true); /* ORDER TMA_ADD */
}

void sim_bulk(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    (void)mask;
    if (stmt->source->atom == ATOM_bulk_commit) {
        warp->bulk_groups++;
        return;
    }
    uint32_t left = (uint32_t)stmt->source->shape[0];
    size_t kept = 0;
    for (size_t i = 0; i < warp->bulks.n; i++) {
        SimBulk bulk = warp->bulks.at[i];
        bool is_over = bulk.group + left < warp->bulk_groups, is_done = stmt->source->atom == ATOM_bulk_wait;
        if (is_over && !bulk.is_read)
            shadow_read_done(sim, warp, bulk.offset, bulk.bytes);
        bulk.is_read |= is_over;
        if (!is_over || !is_done)
            warp->bulks.at[kept++] = bulk;
        for (size_t k = 0; k < bulk.written.n && is_over && is_done; k++)
            shadow_store_ends(warp, bulk.written.at[k]);
    }
    warp->bulks.n = kept;
    clock_release(sim, warp, NULL);
}
