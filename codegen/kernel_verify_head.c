/* Rules for what stands before the statements: sizes, shared memory, parameters, tensor maps; rules 15 to 18
 * of kernel_verify.c. */
#include "codegen/kernel_verify.h"

#include <stdlib.h>

#include "ir/base/checked.h"

static int verify_compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void verify_names(Verify *v) {
    const Kernel *kernel = v->kernel;
    size_t n = 0;
    const char **names =
        ARENA_ARRAY(v->arena, const char *, kernel->params.n + kernel->buffers.n + kernel->vars.n + 1);
    for (size_t i = 0; i < kernel->params.n; i++)
        names[n++] = kernel->params.at[i].name;
    for (size_t i = 0; i < kernel->buffers.n; i++)
        if (kernel->buffers.at[i]->space == SPACE_SHARED)
            names[n++] = kernel->buffers.at[i]->name;
    for (size_t i = 0; i < kernel->vars.n; i++)
        names[n++] = kernel->vars.at[i]->name;
    qsort(names, n, sizeof *names, verify_compare_names);
    for (size_t i = 1; i < n; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            verify_fail(v, "the name '%s' is taken twice", names[i]);
}

static void verify_shared(Verify *v, const KBuffer *buffer) {
    const Kernel *kernel = v->kernel;
    int64_t bytes, end;
    if (buffer->align < 1 || (buffer->align & (buffer->align - 1)) || buffer->offset % buffer->align != 0 ||
        buffer->align > kernel->smem_align)
        verify_fail(v, "shared buffer '%s' at %lld is not aligned to %d", buffer->name,
                    (long long)buffer->offset, buffer->align);
    if (buffer->offset < 0 || !dtype_bytes(buffer->elem, buffer->count, &bytes) ||
        !checked_add(buffer->offset, bytes, &end) || end > kernel->smem_bytes)
        verify_fail(v, "shared buffer '%s' ends behind shared memory", buffer->name);
}

static void verify_buffers(Verify *v) {
    const Kernel *kernel = v->kernel;
    for (size_t i = 0; i < kernel->buffers.n; i++) {
        const KBuffer *buffer = kernel->buffers.at[i];
        if (!verify_buffer(v, buffer))
            continue;
        if (buffer->space == SPACE_SHARED) {
            verify_shared(v, buffer);
            continue;
        }
        int params = 0;
        for (size_t p = 0; p < kernel->params.n; p++)
            params += kernel->params.at[p].kind == PARAM_BUFFER && kernel->params.at[p].buffer == buffer;
        bool holds_value = buffer->value && buffer->value->dtype == buffer->elem && !buffer->scratch;
        if (params != 1 || !(holds_value || (!buffer->value && buffer->scratch)))
            verify_fail(v,
                        "global buffer '%s' is not one parameter that holds a value of its type, or scratch",
                        buffer->name);
    }
}

static void verify_tensor_map(Verify *v, const char *name, const KTensorMap *map) {
    static const int spans[] = {256 * 16, 32, 64, 128}; /* bytes of a box's row that a swizzle allows */
    if (!v->kernel->target->has_tma)
        verify_fail(v, "tensor map '%s' on a target without TMA", name);
    if (!map->buffer || !verify_buffer(v, map->buffer) || map->buffer->space != SPACE_GLOBAL ||
        map->rank < 1 || map->rank > 5) {
        verify_fail(v, "tensor map '%s' has no global buffer, or no rank of 1 to 5", name);
        return;
    }
    int bits = dtype_bits(map->elem);
    if (bits < 8 ||
        (bits != dtype_bits(map->buffer->elem) && dtype_bits(map->buffer->elem) != 4)) /* two in a byte */
        verify_fail(v, "tensor map '%s' has elements of %d bits", name, bits);
    if (map->places && map->rank < 3) {
        verify_fail(v, "tensor map '%s' has places, but no axis for them", name);
        return;
    }
    for (int i = 0; i < map->rank; i++) {
        if (map->box[i] < 1 || map->box[i] > 256 || !map->dims[i] || !map->strides[i]) {
            verify_fail(v, "tensor map '%s' has a box outside 1 to 256, or no dim", name);
            return;
        }
        int64_t divisor = dim_divisor(v->kernel->graph->dims, map->strides[i]);
        if (i == 0 ? !dim_is(map->strides[0], 1) : divisor * bits % 128 != 0)
            verify_fail(v, "tensor map '%s': stride %d is not %s", name, i,
                        i ? "a multiple of 16 bytes" : "1");
    }
    int row = map->box[0] * bits / 8;
    if (row % 16 != 0 || (map->swizzle != SWIZZLE_NONE && row > spans[map->swizzle]))
        verify_fail(v, "tensor map '%s': rows of %d bytes do not fit its swizzle", name, row);
}

void verify_head(Verify *v) {
    const Kernel *kernel = v->kernel;
    if (kernel->threads < 32 || kernel->threads > 1024 || kernel->threads % 32 != 0)
        verify_fail(v, "a block has %d threads", kernel->threads);
    int64_t blocks = 1;
    for (int i = 0; i < 3; i++) {
        if (kernel->cluster[i] < 1 || kernel->cluster[i] > 8)
            verify_fail(v, "a cluster is %d blocks along axis %d", kernel->cluster[i], i);
        blocks *= kernel->cluster[i];
        if (!kernel->grid[i])
            verify_fail(v, "grid dim %d is missing or overflows", i);
    }
    if (blocks > 8 || (blocks > 1 && !kernel->target->has_cluster))
        verify_fail(v, "a cluster has %lld blocks", (long long)blocks);
    if (kernel->gang < 1 || kernel->gang > kernel->target->sm_count || (kernel->gang > 1 && blocks > 1))
        verify_fail(v, "a gang has %d blocks, in clusters of %lld", kernel->gang, (long long)blocks);
    if (kernel->smem_align != 16 && kernel->smem_align != 128 && kernel->smem_align != 1024)
        verify_fail(v, "shared memory is aligned to %d", kernel->smem_align);
    if (kernel->smem_bytes < 0 || kernel->smem_bytes > kernel->target->smem_per_block)
        verify_fail(v, "%lld bytes of shared memory; %s has %d", (long long)kernel->smem_bytes,
                    kernel->target->name, kernel->target->smem_per_block);
    for (size_t i = 0; i < kernel->params.n; i++) {
        const KParam *param = &kernel->params.at[i];
        if (param->kind == PARAM_DIM && !param->dim)
            verify_fail(v, "parameter '%s' has no dim", param->name);
        if (param->kind == PARAM_TENSOR_MAP)
            verify_tensor_map(v, param->name, &param->map);
    }
    verify_buffers(v);
    verify_names(v);
}
