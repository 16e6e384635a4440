/* wgmma: 64 x n matrix products of a warpgroup with B, and mostly A, in shared memory (PTX ISA 9.7.15).
 *
 * Each warp of the warpgroup is simulated alone: warp w has rows 16 w .. 16 w + 15 of the 64, and its
 * accumulators are those of n / 8 mma.sync tiles side by side. With g = lane / 4 and t = lane % 4, register
 * 4 j + r has row 16 w + g + 8 * (r / 2), column 8 j + 2 t + r % 2.
 *
 * A matrix descriptor (9.7.15.5.1) says where the operand lies:
 *
 *     63 62 | 51 .. 49    | 45 .. 32  | 29 .. 16  | 13 .. 0
 *     mode  | base offset | S >> 4    | L >> 4    | start address >> 4
 *
 * mode: 0 no swizzle, 1 128 bytes, 2 64 bytes, 3 32 bytes; L and S are byte offsets, "leading dimension" and
 * "stride". With rows of W = 16, 32, 64 or 128 bytes by the swizzle, element (mn, k) of `size` bytes lies,
 * before the swizzle, at start +
 *
 *     K-major:            mn % 8 * W + mn / 8 * S + k * size; the second 16 bytes at L where W is 16
 *     MN-major, swizzled: mn * size % W + mn * size / W * L + k % 8 * W + k / 8 * S
 *     MN-major, W = 16:   mn * size % 16 + mn * size / 16 * S + k % 8 * 16 + k / 8 * L
 *
 * A in registers: of 16 bits, word 2 j + h of a lane has row 16 w + g + 8 h, columns 8 j + 2 t and the next:
 * the layout of the accumulators of 16 columns, packed in pairs. Of 32 bits it has column 4 j + t. */
#include "codegen/simulate_internal.h"

enum { WGMMA_ROWS = 16 /* a warp's */, WGMMA_N_MAX = 256, WGMMA_K_MAX = 32 };

typedef struct WgmmaMatrix {
    int64_t start, leading, stride; /* bytes */
    KSwizzle swizzle;
    bool is_mn_major;
    DType type;
} WgmmaMatrix;

typedef struct WgmmaShape {
    int n, k;
    bool is_integer;
    DType a, b;
    bool a_mn_major, b_mn_major;
    bool a_in_registers;
} WgmmaShape;

static WgmmaShape wgmma_shape(const KStmt *stmt) {
    const int *shape = stmt->shape;
    switch (stmt->atom) {
    case ATOM_wgmma_16bit:
        return (WgmmaShape){.n = shape[0],
                            .k = 16,
                            .a = (DType)shape[1],
                            .b = (DType)shape[1],
                            .a_mn_major = shape[2] != 0,
                            .b_mn_major = shape[3] != 0};
    case ATOM_wgmma_16bit_rs:
        return (WgmmaShape){.n = shape[0],
                            .k = 16,
                            .a = (DType)shape[1],
                            .b = (DType)shape[1],
                            .b_mn_major = shape[2] != 0,
                            .a_in_registers = true};
    case ATOM_wgmma_tf32:
    case ATOM_wgmma_tf32_rs:
        return (WgmmaShape){.n = shape[0],
                            .k = 8,
                            .a = DTYPE_TF32,
                            .b = DTYPE_TF32,
                            .a_in_registers = stmt->atom == ATOM_wgmma_tf32_rs};
    default:
        return (WgmmaShape){.n = shape[0],
                            .k = 32,
                            .is_integer = stmt->atom == ATOM_wgmma_int8,
                            .a = (DType)shape[1],
                            .b = (DType)shape[2]};
    }
}

static WgmmaMatrix wgmma_matrix(uint64_t descriptor, DType type, bool is_mn_major) {
    static const KSwizzle swizzles[] = {SWIZZLE_NONE, SWIZZLE_128, SWIZZLE_64, SWIZZLE_32};
    return (WgmmaMatrix){
        .start = (int64_t)(descriptor & 0x3fff) << 4,
        .leading = (int64_t)(descriptor >> 16 & 0x3fff) << 4,
        .stride = (int64_t)(descriptor >> 32 & 0x3fff) << 4,
        .swizzle = swizzles[descriptor >> 62],
        .is_mn_major = is_mn_major,
        .type = type,
    };
}

/* The shared address of the 16-byte chunk that holds elements (mn, k) and those behind it along the major
 * dimension. */
static int64_t wgmma_chunk(const WgmmaMatrix *m, int mn, int k) {
    int size = dtype_bits(m->type) / 8;
    int64_t width = (int64_t)16 << m->swizzle, address = m->start;
    if (!m->is_mn_major) {
        int64_t chunk = (int64_t)k * size / 16;
        address +=
            mn % 8 * width + mn / 8 * m->stride + chunk * (m->swizzle == SWIZZLE_NONE ? m->leading : 16);
    } else if (m->swizzle == SWIZZLE_NONE) {
        address += (int64_t)mn * size / 16 * m->stride + k % 8 * 16 + k / 8 * m->leading;
    } else {
        int64_t bytes = (int64_t)mn * size;
        address += bytes % width / 16 * 16 + bytes / width * m->leading + k % 8 * width + k / 8 * m->stride;
    }
    return sim_swizzle(m->swizzle, address);
}

/* Visits the chunks of mn in [first, first + count) and all k; stops and answers false where visit does. */
typedef bool WgmmaVisit(void *context, int64_t address, int mn, int k);

static bool wgmma_each_chunk(const WgmmaMatrix *m, int first, int count, int k_count, WgmmaVisit *visit,
                             void *context) {
    int along = 128 / dtype_bits(m->type); /* elements of a chunk */
    int mn_step = m->is_mn_major ? along : 1, k_step = m->is_mn_major ? 1 : along;
    for (int mn = first; mn < first + count; mn += mn_step)
        for (int k = 0; k < k_count; k += k_step)
            if (!visit(context, wgmma_chunk(m, mn, k), mn, k))
                return false;
    return true;
}

typedef struct WgmmaRead {
    Sim *sim;
    SimWarp *warp;
    const WgmmaMatrix *matrix;
    int first;
    double *to; /* [mn - first][WGMMA_K_MAX] */
} WgmmaRead;

/* Of the chunk in shared memory: a descriptor holds the low 18 bits of an address. */
static int64_t wgmma_offset(const WgmmaRead *read, int64_t address) {
    return address - (sim_shared_base(read->sim, read->warp->cta) & 0x3ffff);
}

static bool wgmma_read_chunk(void *context, int64_t address, int mn, int k) {
    WgmmaRead *read = context;
    int64_t whole = sim_shared_base(read->sim, read->warp->cta) + wgmma_offset(read, address);
    int64_t offset = sim_shared_offset(read->sim, read->warp, -1, whole, 16, 16);
    if (offset < 0 || !shadow_read_async(read->sim, read->warp, offset, 16))
        return false;
    int along = 128 / dtype_bits(read->matrix->type);
    const uint8_t *from = read->warp->cta->shared + offset;
    double *to = read->to + (mn - read->first) * WGMMA_K_MAX + k;
    for (int i = 0; i < along; i++)
        to[read->matrix->is_mn_major ? i * WGMMA_K_MAX : i] = sim_matrix_element(read->matrix->type, from, i);
    return true;
}

static bool wgmma_mark_chunk(void *context, int64_t address, int mn, int k) {
    const WgmmaRead *read = context;
    (void)mn;
    (void)k;
    shadow_read_done(read->sim, read->warp, wgmma_offset(read, address), 16);
    return true;
}

static bool wgmma_read_again(void *context, int64_t address, int mn, int k) {
    const WgmmaRead *read = context;
    (void)mn;
    (void)k;
    return shadow_read_async(read->sim, read->warp, wgmma_offset(read, address), 16);
}

/* Visits all that a product reads. */
static bool wgmma_each_operand(Sim *sim, SimWarp *warp, const SimProduct *product, WgmmaVisit *visit) {
    WgmmaShape shape = wgmma_shape(product->stmt->source);
    WgmmaMatrix a = wgmma_matrix(product->desc_a, shape.a, shape.a_mn_major);
    WgmmaMatrix b = wgmma_matrix(product->desc_b, shape.b, shape.b_mn_major);
    WgmmaRead read = {.sim = sim, .warp = warp};
    return (shape.a_in_registers ||
            wgmma_each_chunk(&a, warp->number % 4 * WGMMA_ROWS, WGMMA_ROWS, shape.k, visit, &read)) &&
           wgmma_each_chunk(&b, 0, shape.n, shape.k, visit, &read);
}

/* Registers of a product, accumulators or A, must be fenced from ordinary code (9.7.15.7.1), and belong to
 * the product until it is waited for. */
static bool wgmma_take_registers(Sim *sim, SimWarp *warp, const SimOperand *operand, const char *what,
                                 bool reads_them) {
    for (int i = operand->reg; i < operand->reg + operand->count; i++) {
        if (reads_them && warp->set[i] != SIM_ALL_LANES) {
            sim_fail(sim, warp, __builtin_ctz(~warp->set[i]), "%s %d is read, which nobody set", what,
                     i - operand->reg);
            return false;
        }
        if (warp->touched_at[i] >= warp->matrix_fences) {
            sim_fail(sim, warp, -1, "%s %d was touched and not fenced from wgmma (wgmma_fence)", what,
                     i - operand->reg);
            return false;
        }
        warp->set[i] = SIM_ALL_LANES;
        warp->in_flight[i]++;
    }
    return true;
}

static bool wgmma_descriptor_is_valid(Sim *sim, const SimWarp *warp, uint64_t descriptor, const char *name) {
    uint64_t known = 0x3fffull | 0x3fffull << 16 | 0x3fffull << 32 | 3ull << 62;
    if (descriptor & ~known) {
        sim_fail(sim, warp, -1, "the descriptor of %s, %#llx, has unknown bits or a base offset", name,
                 (unsigned long long)descriptor);
        return false;
    }
    return true; /* any row of the pattern may be the first: the swizzle goes by addresses (layout.h) */
}

static void wgmma_accumulate(const WgmmaShape *shape, Lanes *c, const double *a, const double *b,
                             bool keeps) {
    for (int lane = 0; lane < SIM_LANES; lane++)
        for (int r = 0; r < shape->n / 2; r++) {
            const double *row = a + (lane / 4 + 8 * (r / 2 % 2)) * WGMMA_K_MAX;
            const double *column = b + (r / 4 * 8 + 2 * (lane % 4) + r % 2) * WGMMA_K_MAX;
            double sum = 0;
            for (int k = 0; k < shape->k; k++)
                sum += row[k] * column[k];
            Number *value = &c[r].at[lane];
            if (shape->is_integer)
                value->i = (int32_t)((keeps ? (uint32_t)value->i : 0) + (uint32_t)(int64_t)sum);
            else
                value->f = (float)((keeps ? value->f : 0) + sum);
        }
}

/* A's elements from four registers of each lane. */
static void wgmma_read_registers(const SimWarp *warp, const SimOperand *operand, DType type, double *to) {
    int each = 32 / dtype_bits(type); /* elements of a word */
    for (int lane = 0; lane < SIM_LANES; lane++)
        for (int word = 0; word < operand->count; word++) {
            uint32_t bits = (uint32_t)warp->registers[operand->reg + word].at[lane].i;
            int column = each * (word / 2 * 4 + lane % 4);
            double *row = to + (lane / 4 + 8 * (word % 2)) * WGMMA_K_MAX + column;
            for (int i = 0; i < each; i++)
                row[i] = sim_matrix_element(type, &bits, i);
        }
}

/* The four warps of a warpgroup execute the same wgmma instructions with the same descriptors (9.7.15.1). */
static void wgmma_note(SimWarp *warp, uint64_t word) {
    warp->matrix_history = (warp->matrix_history ^ word) * 0x100000001b3u + 1;
}

void sim_check_warpgroup(Sim *sim, const SimWarp *warp) {
    int first = warp->number / 4 * 4;
    for (int w = first; w < first + 4; w++) {
        const SimWarp *other = w < sim->n_warps ? &warp->cta->warps[w] : NULL;
        bool differs = other ? other->finished && other->matrix_history != warp->matrix_history
                             : warp->matrix_history != 0;
        if (differs)
            sim_fail(sim, warp, -1,
                     "warps %d and %d are of one warpgroup and executed different wgmma instructions",
                     warp->number, w);
    }
}

void sim_wgmma(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    if (mask != SIM_ALL_LANES) {
        sim_fail(sim, warp, -1, "all lanes of a warp execute this together; lanes %#x do", mask);
        return;
    }
    WgmmaShape shape = wgmma_shape(stmt->source);
    SimProduct product = {.stmt = stmt, .group = warp->matrix_groups, .clock = warp->clock[warp->agent]};
    if (!shape.a_in_registers)
        product.desc_a = (uint64_t)sim_operand_uniform(sim, warp, &stmt->operands[1], mask);
    product.desc_b = (uint64_t)sim_operand_uniform(sim, warp, &stmt->operands[2], mask);
    bool keeps = sim_operand_uniform(sim, warp, &stmt->operands[3], mask) != 0;
    if (sim->failed || !wgmma_take_registers(sim, warp, &stmt->operands[0], "accumulator", keeps) ||
        (shape.a_in_registers ? !wgmma_take_registers(sim, warp, &stmt->operands[1], "register of A", true)
                              : !wgmma_descriptor_is_valid(sim, warp, product.desc_a, "A")) ||
        !wgmma_descriptor_is_valid(sim, warp, product.desc_b, "B"))
        return;
    wgmma_note(warp, (uint64_t)(uintptr_t)stmt);
    wgmma_note(warp, product.desc_a);
    wgmma_note(warp, product.desc_b ^ (uint64_t)keeps);
    double a[WGMMA_ROWS * WGMMA_K_MAX], b[WGMMA_N_MAX * WGMMA_K_MAX];
    WgmmaMatrix matrix_a = wgmma_matrix(product.desc_a, shape.a, shape.a_mn_major);
    WgmmaMatrix matrix_b = wgmma_matrix(product.desc_b, shape.b, shape.b_mn_major);
    int first = warp->number % 4 * WGMMA_ROWS;
    WgmmaRead read_a = {.sim = sim, .warp = warp, .matrix = &matrix_a, .first = first, .to = a};
    WgmmaRead read_b = {.sim = sim, .warp = warp, .matrix = &matrix_b, .first = 0, .to = b};
    if (shape.a_in_registers)
        wgmma_read_registers(warp, &stmt->operands[1], shape.a, a);
    if ((!shape.a_in_registers &&
         !wgmma_each_chunk(&matrix_a, first, WGMMA_ROWS, shape.k, wgmma_read_chunk, &read_a)) ||
        !wgmma_each_chunk(&matrix_b, 0, shape.n, shape.k, wgmma_read_chunk, &read_b))
        return;
    wgmma_accumulate(&shape, &warp->registers[stmt->operands[0].reg], a, b, keeps);
    vec_push(sim->arena, &warp->products, product);
}

/* Products of closed groups but the latest `left` are complete. */
static void wgmma_wait(Sim *sim, SimWarp *warp, uint32_t left) {
    size_t kept = 0;
    for (size_t i = 0; i < warp->products.n; i++) {
        SimProduct product = warp->products.at[i];
        if (product.group + left >= warp->matrix_groups) {
            warp->products.at[kept++] = product;
            continue;
        }
        wgmma_each_operand(sim, warp, &product, wgmma_mark_chunk);
        int held = wgmma_shape(product.stmt->source).a_in_registers ? 2 : 1; /* accumulators, then A */
        if (held == 2 && warp->reads_over < product.clock)
            warp->reads_over = product.clock;
        for (int i = 0; i < held; i++) {
            const SimOperand *registers = &product.stmt->operands[i];
            for (int r = registers->reg; r < registers->reg + registers->count; r++)
                warp->in_flight[r]--;
        }
    }
    bool retired = kept < warp->products.n;
    warp->products.n = kept;
    for (size_t i = 0; retired && i < kept;
         i++) /* what later products share with earlier ones is still being read */
        wgmma_each_operand(sim, warp, &warp->products.at[i], wgmma_read_again);
    clock_release(sim, warp, NULL);
}

void sim_wgmma_order(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    if (mask != SIM_ALL_LANES) {
        sim_fail(sim, warp, -1, "all lanes of a warp execute this together; lanes %#x do", mask);
        return;
    }
    switch (stmt->source->atom) {
    case ATOM_wgmma_fence: warp->matrix_fences++; return;
    case ATOM_wgmma_commit: warp->matrix_groups++; return;
    default: wgmma_wait(sim, warp, (uint32_t)stmt->source->shape[0]); return;
    }
}
