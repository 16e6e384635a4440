/* Loads, stores and addresses: bounds, alignment, and conversion between elements and registers. */
#include "codegen/kernel_value.h"
#include "codegen/simulate_internal.h"

/* Global addresses: the buffer's number + 1 above bit 44, the byte offset below. */
enum { MEMORY_OFFSET_BITS = 44 };

int64_t sim_global_address(const KBuffer *buffer, int64_t index) {
    return (int64_t)(((uint64_t)(buffer->id + 1) << MEMORY_OFFSET_BITS) +
                     (uint64_t)(index * dtype_bits(buffer->elem) / 8));
}

int64_t sim_shared_base(const Sim *sim, const SimCta *cta) {
    /* Aligned to what is promised and to nothing more, so that a broken promise shows. In a cluster,
     * addresses have the block's number in bits that a matrix descriptor has no room for. */
    int align = sim->kernel->smem_align;
    int64_t block = sim->n_ctas > 1 ? (int64_t)(cta->rank + 1) << 24 : 0;
    return block + (align >= 1024 ? 1024 : 1024 + align);
}

int64_t sim_shared_offset(Sim *sim, const SimWarp *warp, int lane, int64_t address, int64_t bytes,
                          int align) {
    int64_t offset = address - sim_shared_base(sim, warp->cta);
    if (offset < 0 || offset + bytes > sim->kernel->smem_bytes) {
        sim_fail(sim, warp, lane, "shared bytes %lld to %lld of %lld", (long long)offset,
                 (long long)(offset + bytes), (long long)sim->kernel->smem_bytes);
        return -1;
    }
    if (address % align != 0) {
        sim_fail(sim, warp, lane, "shared address %lld is not aligned to %d", (long long)address, align);
        return -1;
    }
    return offset;
}

uint8_t *sim_global_bytes(Sim *sim, SimWarp *warp, int lane, int64_t address, int64_t bytes, int align,
                          bool is_write) {
    int64_t id = (address >> MEMORY_OFFSET_BITS) - 1,
            offset = address & (((int64_t)1 << MEMORY_OFFSET_BITS) - 1);
    if (id < 0 || (size_t)id >= sim->kernel->buffers.n || !sim->globals[id].at) {
        sim_fail(sim, warp, lane, "%#llx is no global address", (unsigned long long)address);
        return NULL;
    }
    SimGlobal *global = &sim->globals[id];
    const KBuffer *buffer = global->buffer;
    if (offset + bytes > global->bytes) {
        sim_fail(sim, warp, lane, "bytes %lld to %lld of '%s', which has %lld", (long long)offset,
                 (long long)(offset + bytes), buffer->name, (long long)global->bytes);
        return NULL;
    }
    if (offset % align != 0 || buffer->align % align != 0) {
        sim_fail(sim, warp, lane, "byte %lld of '%s', aligned to %d, is not aligned to %d", (long long)offset,
                 buffer->name, buffer->align, align);
        return NULL;
    }
    int bits = dtype_bits(buffer->elem);
    int64_t first = offset * 8 / bits, end = ((offset + bytes) * 8 + bits - 1) / bits;
    return shadow_global(sim, warp, lane, global, first, end - first, is_write, NULL) ? global->at + offset
                                                                                      : NULL;
}

/* Bytes of a raw load up to the first that nobody wrote: that and the next are NaNs, of which nothing comes.
 */
static int64_t memory_written(const SimCta *cta, int64_t first, int64_t bytes) {
    int64_t n = 0;
    while (n < bytes && cta->shadow[first + n].flags != BYTE_PARTIAL)
        n++;
    return n;
}

/* Checks one access and gives its first byte; NULL after a report. `again` as of shadow_global(). */
static uint8_t *memory_access(Sim *sim, SimWarp *warp, int lane, const KStmt *stmt, int64_t index,
                              bool *again) {
    const KBuffer *buffer = stmt->buffer;
    bool is_write = stmt->kind == KS_STORE;
    int bits = dtype_bits(buffer->elem), width = stmt->width;
    SimGlobal *global = buffer->space == SPACE_GLOBAL ? &sim->globals[buffer->id] : NULL;
    int64_t count = global ? global->count : buffer->count;
    if (index < 0 || index > count - width) {
        if (width == 1)
            sim_fail(sim, warp, lane, "element %lld of '%s', which has %lld", (long long)index, buffer->name,
                     (long long)count);
        else
            sim_fail(sim, warp, lane, "elements %lld to %lld of '%s', which has %lld", (long long)index,
                     (long long)index + width, buffer->name, (long long)count);
        return NULL;
    }
    if (index % width != 0) {
        sim_fail(sim, warp, lane, "element %lld of '%s' is accessed %d wide: not aligned", (long long)index,
                 buffer->name, width);
        return NULL;
    }
    int64_t first = index * bits / 8, bytes = (width * bits + 7) / 8;
    if (global)
        return shadow_global(sim, warp, lane, global, index, width, is_write, again) ? global->at + first
                                                                                     : NULL;
    first += buffer->offset;
    if (stmt->raw && !is_write)
        bytes = memory_written(warp->cta, first, bytes);
    bool ordered = is_write ? shadow_write(sim, warp, lane, warp->cta, first, bytes, shadow_writer(warp))
                            : bytes == 0 || shadow_read(sim, warp, lane, first, bytes);
    return ordered ? warp->cta->shared + first : NULL;
}

/* The lanes where the guard holds. */
static LaneMask memory_guarded(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    if (!sim_has(&stmt->guard))
        return mask;
    const Lanes *guard = sim_eval(sim, warp, &stmt->guard, mask);
    LaneMask holds = 0;
    FOR_LANES(lane, mask)
    if (guard->at[lane].i)
        holds |= 1u << lane;
    return holds;
}

/* The first register of the access, after its bounds are checked; -1 after a report. */
static int memory_registers(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask, int count) {
    int64_t at = sim_has(&stmt->at) ? sim_eval_uniform(sim, warp, &stmt->at, mask) : 0;
    const KVar *var = stmt->source->var;
    if (at < 0 || at + count > (var->count ? var->count : 1)) {
        sim_fail(sim, warp, -1, "elements %lld to %lld of register array '%s', which has %d", (long long)at,
                 (long long)at + count, var->name, var->count);
        return -1;
    }
    return stmt->reg + (int)at;
}

enum { WORD_BYTES = 4 };

static int memory_raw_bytes(const KStmt *stmt) {
    return stmt->width * dtype_bits(stmt->buffer->elem) / 8;
}

/* Bytes of each register that a raw access moves. */
static size_t memory_raw_part(const KStmt *stmt) {
    int bytes = memory_raw_bytes(stmt);
    return (size_t)(bytes < WORD_BYTES ? bytes : WORD_BYTES);
}

static int memory_register_count(const KStmt *stmt) {
    return stmt->raw ? (memory_raw_bytes(stmt) + WORD_BYTES - 1) / WORD_BYTES : stmt->width;
}

void sim_load(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    const KStmt *source = stmt->source;
    int count = memory_register_count(source);
    int reg = memory_registers(sim, warp, stmt, mask, count);
    LaneMask guarded = memory_guarded(sim, warp, stmt, mask);
    const Lanes *index = guarded ? sim_eval(sim, warp, &stmt->index, guarded) : NULL;
    if (sim->failed)
        return;
    DType elem = source->buffer->elem;
    int bits = dtype_bits(elem);
    size_t part = memory_raw_part(source);
    FOR_LANES(lane, mask) {
        const uint8_t *from = NULL;
        int64_t i = 0;
        if (guarded >> lane & 1) {
            i = index->at[lane].i;
            from = memory_access(sim, warp, (int)lane, source, i, NULL);
            if (!from)
                return;
        }
        for (int e = 0; e < count; e++) {
            Number *to = &warp->registers[reg + e].at[lane];
            *to = (Number){0};
            if (from && source->raw) {
                uint32_t word = 0; /* of a part of one the low bits */
                memcpy(&word, from + WORD_BYTES * e, part);
                to->i = word;
            } else if (from) { /* of two elements in a byte, the odd one is the second; the register holds
                                  every element */
                *to = sim_element_load(elem, from, e + (bits < 8 ? i % (8 / bits) : 0));
            }
        }
    }
    for (int e = 0; e < count; e++)
        sim_set_register(sim, warp, reg + e, mask);
}

void sim_store(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    enum { STORE_BYTES = 128 }; /* more than a store's elements have */
    const KStmt *source = stmt->source;
    int count = memory_register_count(source);
    int reg = memory_registers(sim, warp, stmt, mask, count);
    LaneMask guarded = memory_guarded(sim, warp, stmt, mask);
    if (!guarded || sim->failed)
        return;
    const Lanes *index = sim_eval(sim, warp, &stmt->index, guarded);
    sim_check_registers(sim, warp, reg, count, guarded);
    if (sim->failed)
        return;
    DType elem = source->buffer->elem;
    size_t part = memory_raw_part(source);
    FOR_LANES(lane, guarded) {
        bool again = false;
        uint8_t *to = memory_access(sim, warp, (int)lane, source, index->at[lane].i,
                                    sim->kernel->rewrites ? &again : NULL);
        if (!to)
            return;
        uint8_t before[STORE_BYTES];
        size_t bytes = again ? ((size_t)source->width * (size_t)dtype_bits(elem) + 7) / 8 : 0;
        memcpy(before, to, bytes);
        for (int e = 0; e < count; e++) {
            Number value = warp->registers[reg + e].at[lane];
            if (source->raw) {
                uint32_t word = (uint32_t)value.i;
                memcpy(to + WORD_BYTES * e, &word, part);
            } else {
                sim_element_store(elem, to, e, value, source->var->type);
            }
        }
        if (memcmp(before, to, bytes) != 0)
            sim_fail(sim, warp, (int)lane,
                     "element %lld of '%s' is written by two threads, not the same bits",
                     (long long)index->at[lane].i, source->buffer->name);
    }
}
