/* A libcuda.so.1 for tests of the command line on machines without a GPU: one sm_90 device whose memory is
 * the host's and whose kernels do what FAKE_CUDA says when they are launched (NVRTC does not live with it: it
 * calls the driver's private tables):
 *
 *     idle (or unset)  nothing            fault     the stream reports an illegal address from then on
 *     hang             never end          scribble  write before and behind every allocation
 *     abort            end the process    change    flip a byte in the middle of every allocation */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/driver.h"

#define EXPORT __attribute__((visibility("default")))
#define DRIVER(FIELD, SYMBOL, PARAMS) EXPORT CUresult SYMBOL PARAMS;
#include "runtime/driver.def"
#undef DRIVER

enum { ALLOCATIONS_MOST = 1024, ILLEGAL_ADDRESS = 700, NOT_READY = 600 };
static struct {
    uint8_t *at;
    size_t bytes;
} allocations[ALLOCATIONS_MOST];
static CUresult sticky;
static int hangs;

CUresult cuInit(unsigned int flags) {
    return (CUresult)flags;
}
CUresult cuDriverGetVersion(int *version) {
    *version = 13000;
    return 0;
}
CUresult cuGetErrorName(CUresult error, const char **text) {
    *text = error == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR";
    return 0;
}
CUresult cuGetErrorString(CUresult error, const char **text) {
    (void)error;
    *text = "an error of the fake driver";
    return 0;
}
CUresult cuDeviceGetCount(int *count) {
    *count = 1;
    return 0;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    *device = ordinal;
    return 0;
}
CUresult cuDeviceGetName(char *name, int room, CUdevice device) {
    (void)device;
    strncpy(name, "Fake GPU", (size_t)room);
    return 0;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    (void)device;
    *value = attribute == DRIVER_ATTRIBUTE_MAJOR          ? 9
             : attribute == DRIVER_ATTRIBUTE_MINOR        ? 0
             : attribute == DRIVER_ATTRIBUTE_SM_COUNT     ? 8
             : attribute == DRIVER_ATTRIBUTE_SHARED_OPTIN ? 232448
                                                          : 1 << 20;
    return 0;
}
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    (void)device;
    *bytes = (size_t)1 << 30;
    return 0;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    (void)device;
    *context = (CUcontext)(uintptr_t)16;
    return 0;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    (void)device;
    return 0;
}
CUresult cuCtxGetCurrent(CUcontext *context) {
    *context = NULL;
    return sticky;
}
CUresult cuCtxPushCurrent_v2(CUcontext context) {
    (void)context;
    return sticky;
}
CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    *context = NULL;
    return sticky;
}
CUresult cuCtxSynchronize(void) {
    return sticky;
}
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int n_options,
                            CUjit_option *options, void **values) {
    (void)n_options, (void)options, (void)values;
    const char *text = image;
    *module = (CUmodule)(uintptr_t)32;
    /* machine code, or PTX */
    return sticky ? sticky : memcmp(text, "\177ELF", 4) == 0 || strstr(text, ".target sm_90a") ? 0 : 218;
}
CUresult cuModuleUnload(CUmodule module) {
    (void)module;
    return sticky;
}
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    (void)module;
    *function = (CUfunction)(uintptr_t)48;
    return *name ? sticky : 500;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    (void)function;
    return attribute == DRIVER_FUNCTION_SHARED_MAX && value > 232448 ? 1 : sticky;
}
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
    (void)function, (void)attribute;
    *value = 32;
    return sticky;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                     size_t shared_bytes) {
    (void)function, (void)threads, (void)shared_bytes;
    *blocks = 1;
    return sticky;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra) {
    (void)function, (void)params, (void)extra;
    const char *what = getenv("FAKE_CUDA");
    if (sticky || config->sharedMemBytes > 232448)
        return sticky ? sticky : 1;
    if (!what)
        return 0;
    if (strcmp(what, "abort") == 0)
        abort();
    if (strcmp(what, "fault") == 0)
        sticky = ILLEGAL_ADDRESS;
    hangs = strcmp(what, "hang") == 0;
    for (int i = 0; i < ALLOCATIONS_MOST; i++) {
        if (!allocations[i].at)
            continue;
        if (strcmp(what, "scribble") == 0)
            allocations[i].at[100] = allocations[i].at[allocations[i].bytes - 1000] = 1;
        if (strcmp(what, "change") == 0 && allocations[i].bytes > 8448) /* more than guards */
            allocations[i].at[4096] ^= 1;
    }
    return 0;
}
CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill) {
    (void)type, (void)dims, (void)element_strides, (void)interleave, (void)swizzle, (void)promotion,
        (void)fill;
    memset(map, 0, sizeof *map);
    for (cuuint32_t i = 0; i < rank; i++)
        if (box[i] > 256 || box[i] == 0 || (i + 1 < rank && strides[i] % 16))
            return 1;
    return (uintptr_t)address % 16 ? 1 : sticky;
}
CUresult cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                 const cuuint64_t *dims, const cuuint64_t *strides, const int *low,
                                 const int *high, cuuint32_t channels, cuuint32_t places,
                                 const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                                 CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                 CUtensorMapFloatOOBfill fill) {
    (void)type, (void)dims, (void)low, (void)high, (void)element_strides, (void)interleave, (void)swizzle,
        (void)promotion, (void)fill;
    memset(map, 0, sizeof *map);
    for (cuuint32_t i = 0; i + 1 < rank; i++)
        if (strides[i] % 16)
            return 1;
    bool is_good = channels >= 1 && channels <= 256 && places >= 1 && places <= 1024;
    return is_good && (uintptr_t)address % 16 == 0 ? sticky : 1;
}
CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    *free_bytes = *total = (size_t)1 << 30;
    return sticky;
}
CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t bytes) {
    if (sticky || bytes > (size_t)1 << 30)
        return sticky ? sticky : 2;
    uint8_t *memory = aligned_alloc(512, (bytes + 511) / 512 * 512);
    for (int i = 0; i < ALLOCATIONS_MOST && memory; i++) {
        if (allocations[i].at)
            continue;
        allocations[i].at = memory;
        allocations[i].bytes = bytes;
        *at = (CUdeviceptr)(uintptr_t)memory;
        return 0;
    }
    return 2;
}
CUresult cuMemFree_v2(CUdeviceptr at) {
    for (int i = 0; i < ALLOCATIONS_MOST; i++) {
        if (allocations[i].at != (uint8_t *)(uintptr_t)at)
            continue;
        free(allocations[i].at);
        allocations[i].at = NULL;
        return sticky;
    }
    return 1;
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
    memcpy((void *)(uintptr_t)to, from, sticky ? 0 : bytes);
    return sticky;
}
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
    memcpy(to, (const void *)(uintptr_t)from, sticky ? 0 : bytes);
    return sticky;
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    (void)stream;
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, sticky ? 0 : bytes);
    return sticky;
}
CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t bytes, CUstream stream) {
    (void)stream;
    memset((void *)(uintptr_t)at, value, sticky ? 0 : bytes);
    return sticky;
}
CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
    (void)flags;
    *stream = (CUstream)(uintptr_t)80;
    return sticky;
}
CUresult cuStreamDestroy_v2(CUstream stream) {
    (void)stream;
    return sticky;
}
CUresult cuStreamQuery(CUstream stream) {
    (void)stream;
    return hangs ? NOT_READY : sticky;
}
CUresult cuStreamSynchronize(CUstream stream) {
    (void)stream;
    return sticky;
}
CUresult cuEventCreate(CUevent *event, unsigned int flags) {
    (void)flags;
    *event = (CUevent)(uintptr_t)96;
    return sticky;
}
CUresult cuEventDestroy_v2(CUevent event) {
    (void)event;
    return sticky;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
    (void)event, (void)stream;
    return sticky;
}
CUresult cuEventSynchronize(CUevent event) {
    (void)event;
    return sticky;
}
CUresult cuEventElapsedTime(float *ms, CUevent begin, CUevent end) {
    (void)begin, (void)end;
    *ms = 0.5f;
    return sticky;
}
