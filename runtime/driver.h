/* The CUDA driver, opened at run time: no CUDA header, no link. driver.def lists the calls; types and
 * constants below carry NVIDIA's names, so that a test can compile driver.def against the real cuda.h and
 * compare (tests/unit/runtime/driver_abi.c). */
#ifndef SINTER_RUNTIME_DRIVER_H
#define SINTER_RUNTIME_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef __cuda_cuda_h__
typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;
typedef unsigned int CUdevice_attribute, CUjit_option, CUfunction_attribute, CUtensorMapDataType,
    CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill,
    CUlaunchAttributeID;

typedef struct CUtensorMap_st {
    _Alignas(128) cuuint64_t opaque[16];
} CUtensorMap;

typedef union CUlaunchAttributeValue_union {
    uint64_t words[8];
    struct {
        unsigned int x, y, z;
    } clusterDim;
    int programmaticStreamSerializationAllowed;
    int cooperative;
} CUlaunchAttributeValue;

typedef struct CUlaunchAttribute_st {
    CUlaunchAttributeID id;
    char pad[8 - sizeof(CUlaunchAttributeID)];
    CUlaunchAttributeValue value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig_st {
    unsigned int gridDimX, gridDimY, gridDimZ;
    unsigned int blockDimX, blockDimY, blockDimZ;
    unsigned int sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned int numAttrs;
} CUlaunchConfig;
#endif

/* Constants of cuda.h, each checked against it by the test. DRIVER_CONSTANT(our name, NVIDIA's name, value)
 */
#define DRIVER_CONSTANTS(DRIVER_CONSTANT)                                                                    \
    DRIVER_CONSTANT(DRIVER_ATTRIBUTE_SM_COUNT, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                 \
    DRIVER_CONSTANT(DRIVER_ATTRIBUTE_L2_BYTES, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 38)                        \
    DRIVER_CONSTANT(DRIVER_ATTRIBUTE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                \
    DRIVER_CONSTANT(DRIVER_ATTRIBUTE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                \
    DRIVER_CONSTANT(DRIVER_ATTRIBUTE_CLOCK_KHZ, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 13)                          \
    DRIVER_CONSTANT(DRIVER_ATTRIBUTE_MEMORY_KHZ, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 36)                  \
    DRIVER_CONSTANT(DRIVER_ATTRIBUTE_BUS_BITS, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 37)              \
    DRIVER_CONSTANT(DRIVER_ATTRIBUTE_SHARED_OPTIN, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,    \
                    97)                                                                                      \
    DRIVER_CONSTANT(DRIVER_FUNCTION_REGISTERS, CU_FUNC_ATTRIBUTE_NUM_REGS, 4)                                \
    DRIVER_CONSTANT(DRIVER_FUNCTION_LOCAL_BYTES, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 3)                      \
    DRIVER_CONSTANT(DRIVER_FUNCTION_SHARED_MAX, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8)          \
    DRIVER_CONSTANT(DRIVER_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BUFFER, 5)                                        \
    DRIVER_CONSTANT(DRIVER_JIT_ERROR_LOG_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6)                       \
    DRIVER_CONSTANT(DRIVER_LAUNCH_CLUSTER, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 4)                         \
    DRIVER_CONSTANT(DRIVER_LAUNCH_PROGRAMMATIC, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 6)    \
    DRIVER_CONSTANT(DRIVER_LAUNCH_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 2)                           \
    DRIVER_CONSTANT(DRIVER_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING, 1)                                   \
    DRIVER_CONSTANT(DRIVER_EVENT_DEFAULT, CU_EVENT_DEFAULT, 0)                                               \
    DRIVER_CONSTANT(DRIVER_TMA_U8, CU_TENSOR_MAP_DATA_TYPE_UINT8, 0)                                         \
    DRIVER_CONSTANT(DRIVER_TMA_U16, CU_TENSOR_MAP_DATA_TYPE_UINT16, 1)                                       \
    DRIVER_CONSTANT(DRIVER_TMA_I32, CU_TENSOR_MAP_DATA_TYPE_INT32, 3)                                        \
    DRIVER_CONSTANT(DRIVER_TMA_I64, CU_TENSOR_MAP_DATA_TYPE_INT64, 5)                                        \
    DRIVER_CONSTANT(DRIVER_TMA_F16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 6)                                      \
    DRIVER_CONSTANT(DRIVER_TMA_F32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 7)                                      \
    DRIVER_CONSTANT(DRIVER_TMA_F64, CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 8)                                      \
    DRIVER_CONSTANT(DRIVER_TMA_BF16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 9)                                    \
    DRIVER_CONSTANT(DRIVER_TMA_TF32, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, 11)                                   \
    DRIVER_CONSTANT(DRIVER_TMA_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, 0)                                  \
    DRIVER_CONSTANT(DRIVER_TMA_SWIZZLE_32, CU_TENSOR_MAP_SWIZZLE_32B, 1)                                     \
    DRIVER_CONSTANT(DRIVER_TMA_SWIZZLE_64, CU_TENSOR_MAP_SWIZZLE_64B, 2)                                     \
    DRIVER_CONSTANT(DRIVER_TMA_SWIZZLE_128, CU_TENSOR_MAP_SWIZZLE_128B, 3)                                   \
    DRIVER_CONSTANT(DRIVER_TMA_PROMOTE_128, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, 2)                           \
    DRIVER_CONSTANT(DRIVER_TMA_PROMOTE_256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, 3)
#define DRIVER_ENUM(OURS, THEIRS, VALUE) OURS = VALUE,
enum { DRIVER_CONSTANTS(DRIVER_ENUM) };

enum { DRIVER_WHY_ROOM = 512 };

typedef struct Driver {
    void *library;
    int version; /* 13000 for 13.0 */
#define DRIVER(FIELD, SYMBOL, PARAMS) CUresult(*FIELD) PARAMS;
#include "runtime/driver.def"
#undef DRIVER
} Driver;

/* Opens `library` (NULL: libcuda.so.1) and starts the driver. False, with a sentence in `why`, where it is
 * missing, a stub, too old, or without a device. */
bool driver_open(Driver *driver, const char *library, char why[DRIVER_WHY_ROOM]);
void driver_close(Driver *driver);
/* "what: CUDA_ERROR_NAME, text" into `why`. */
void driver_explain(const Driver *driver, CUresult error, const char *what, char *why, size_t room);

/* One device, through its primary context. */
typedef struct Device {
    CUdevice device;
    CUcontext context;
    int ordinal, major, minor, sm_count, l2_bytes, shared_optin, clock_khz;
    int memory_khz, bus_bits; /* two transfers a cycle */
    size_t memory_bytes;
    char name[128];
} Device;

bool device_open(const Driver *driver, int ordinal, Device *device, char why[DRIVER_WHY_ROOM]);
void device_close(const Driver *driver, Device *device);
/* Makes the device's context current for the calling thread; *pushed tells device_leave() whether to take it
 * back. */
CUresult device_enter(const Driver *driver, const Device *device, bool *pushed);
void device_leave(const Driver *driver, bool pushed);

#endif
