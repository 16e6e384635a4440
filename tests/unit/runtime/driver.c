/* A machine without a driver, with the toolkit's stub of one, or with something else under its name:
 * sentences, no crash. And, where the toolkit's headers are, the prototypes, layouts and constants that stand
 * in for them. */
#include "tests/unit/runtime/support.h"

#define CUresult own_CUresult
#define CUdevice own_CUdevice
#define CUdeviceptr own_CUdeviceptr
#define CUcontext own_CUcontext
#define CUmodule own_CUmodule
#define CUfunction own_CUfunction
#define CUstream own_CUstream
#define CUevent own_CUevent
#define cuuint32_t own_cuuint32_t
#define cuuint64_t own_cuuint64_t
#define CUdevice_attribute own_CUdevice_attribute
#define CUjit_option own_CUjit_option
#define CUfunction_attribute own_CUfunction_attribute
#define CUtensorMapDataType own_CUtensorMapDataType
#define CUtensorMapInterleave own_CUtensorMapInterleave
#define CUtensorMapSwizzle own_CUtensorMapSwizzle
#define CUtensorMapL2promotion own_CUtensorMapL2promotion
#define CUtensorMapFloatOOBfill own_CUtensorMapFloatOOBfill
#define CUlaunchAttributeID own_CUlaunchAttributeID
#define CUtensorMap_st own_CUtensorMap_st
#define CUtensorMap own_CUtensorMap
#define CUlaunchAttributeValue_union own_CUlaunchAttributeValue_union
#define CUlaunchAttributeValue own_CUlaunchAttributeValue
#define CUlaunchAttribute_st own_CUlaunchAttribute_st
#define CUlaunchAttribute own_CUlaunchAttribute
#define CUlaunchConfig_st own_CUlaunchConfig_st
#define CUlaunchConfig own_CUlaunchConfig
#define nvrtcResult own_nvrtcResult
#define nvrtcProgram own_nvrtcProgram
#include "runtime/driver.h"
#include "runtime/nvrtc.h"
#include "runtime/sinter.h"
#undef CUresult
#undef CUdevice
#undef CUdeviceptr
#undef CUcontext
#undef CUmodule
#undef CUfunction
#undef CUstream
#undef CUevent
#undef cuuint32_t
#undef cuuint64_t
#undef CUdevice_attribute
#undef CUjit_option
#undef CUfunction_attribute
#undef CUtensorMapDataType
#undef CUtensorMapInterleave
#undef CUtensorMapSwizzle
#undef CUtensorMapL2promotion
#undef CUtensorMapFloatOOBfill
#undef CUlaunchAttributeID
#undef CUtensorMap_st
#undef CUtensorMap
#undef CUlaunchAttributeValue_union
#undef CUlaunchAttributeValue
#undef CUlaunchAttribute_st
#undef CUlaunchAttribute
#undef CUlaunchConfig_st
#undef CUlaunchConfig
#undef nvrtcResult
#undef nvrtcProgram

#if __has_include("/usr/local/cuda/include/cuda.h")
#include "/usr/local/cuda/include/cuda.h"
#include "/usr/local/cuda/include/nvrtc.h"

#define DRIVER(FIELD, SYMBOL, PARAMS)                                                                        \
    _Static_assert(__builtin_types_compatible_p(__typeof__(SYMBOL), CUresult PARAMS),                        \
                   #SYMBOL " has another prototype");
#include "runtime/driver.def"
#undef DRIVER
#define NVRTC(FIELD, SYMBOL, PARAMS)                                                                         \
    _Static_assert(__builtin_types_compatible_p(__typeof__(SYMBOL), nvrtcResult PARAMS),                     \
                   #SYMBOL " has another prototype");
#define NVRTC_TEXT(FIELD, SYMBOL, PARAMS)                                                                    \
    _Static_assert(__builtin_types_compatible_p(__typeof__(SYMBOL), const char *PARAMS),                     \
                   #SYMBOL " has another prototype");
#include "runtime/nvrtc.def"
#undef NVRTC
#undef NVRTC_TEXT
#define SAME_CONSTANT(OURS, THEIRS, VALUE)                                                                   \
    _Static_assert((int)OURS == (int)THEIRS, #THEIRS " has another value");
DRIVER_CONSTANTS(SAME_CONSTANT)

static void test_layouts(void **state) {
    (void)state;
#define SAME_SIZE(TYPE)                                                                                      \
    assert_int_equal(sizeof(own_##TYPE), sizeof(TYPE));                                                      \
    assert_int_equal(_Alignof(own_##TYPE), _Alignof(TYPE))
#define SAME_FIELD(TYPE, FIELD) assert_int_equal(offsetof(own_##TYPE, FIELD), offsetof(TYPE, FIELD))
    SAME_SIZE(CUtensorMap);
    SAME_SIZE(CUlaunchAttributeValue);
    SAME_SIZE(CUlaunchAttribute);
    SAME_SIZE(CUlaunchConfig);
    SAME_SIZE(CUdeviceptr);
    SAME_SIZE(CUdevice);
    SAME_SIZE(CUtensorMapDataType);
    SAME_FIELD(CUlaunchAttribute, value);
    SAME_FIELD(CUlaunchAttributeValue, clusterDim.z);
    SAME_FIELD(CUlaunchAttributeValue, programmaticStreamSerializationAllowed);
    SAME_FIELD(CUlaunchConfig, gridDimZ);
    SAME_FIELD(CUlaunchConfig, blockDimX);
    SAME_FIELD(CUlaunchConfig, sharedMemBytes);
    SAME_FIELD(CUlaunchConfig, hStream);
    SAME_FIELD(CUlaunchConfig, attrs);
    SAME_FIELD(CUlaunchConfig, numAttrs);
}
#else
static void test_layouts(void **state) {
    (void)state;
    print_message("no cuda.h here: prototypes are not compared\n");
    skip();
}
#endif

static void test_absent(void **state) {
    (void)state;
    static const struct {
        const char *library, *says;
    } cases[] = {{"/nonexistent/libcuda.so.1", "missing"}, {"libc.so.6", "has no cuInit"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Driver driver;
        char why[DRIVER_WHY_ROOM] = "";
        assert_false(driver_open(&driver, cases[i].library, why));
        assert_non_null(strstr(why, cases[i].says));
        assert_null(driver.library);
    }
}

static void test_stub(void **state) {
    (void)state;
    const char *stub = "/usr/local/cuda/lib64/stubs/libcuda.so";
    FILE *file = fopen(stub, "rb");
    if (!file) {
        print_message("no stub library here\n");
        skip();
    }
    fclose(file);
    Driver driver;
    char why[DRIVER_WHY_ROOM] = "";
    assert_false(driver_open(&driver, stub, why));
    assert_true(strlen(why) > 10);
}

static void test_no_nvrtc(void **state) {
    (void)state;
    Nvrtc nvrtc;
    assert_false(nvrtc_open(&nvrtc, "/nonexistent/libnvrtc.so", NULL));
    assert_non_null(strstr(nvrtc.why, "missing"));
    assert_false(nvrtc_open(&nvrtc, "libc.so.6", NULL));
    assert_non_null(strstr(nvrtc.why, "not NVRTC"));
    nvrtc_close(&nvrtc);
}

/* A context that asks for a device either has one or says why not, and serves for compiling all the same. */
static void test_context(void **state) {
    (void)state;
    sinter_context *context;
    sinter_context_options options = {.size = sizeof options, .use_device = 1};
    sinter_status status = sinter_context_create(&options, &context);
    assert_non_null(context);
    if (status) {
        assert_int_equal(status, SINTER_NO_DEVICE);
        assert_non_null(sinter_context_diagnostic(context, 0));
        assert_null(sinter_context_diagnostic(context, 1));
    }
    sinter_graph *graph;
    sinter_source source = {.size = sizeof source,
                            .text = "sinter 1\ngraph g (x: f32[4]) -> (y: f32[4]) { y = x + 1.0 }\n"};
    assert_int_equal(sinter_graph_parse(context, &source, &graph), SINTER_OK);
    sinter_plan *plan;
    sinter_plan_options plan_options = {.size = sizeof plan_options, .stage = SINTER_STAGE_KERNELS};
    assert_int_equal(sinter_plan_create(context, graph, &plan_options, &plan), SINTER_OK);
    char message[200] = "";
    float in[4] = {0}, out[4];
    void *inputs[] = {in}, *outputs[] = {out};
    sinter_execution execution = {.size = sizeof execution,
                                  .inputs = inputs,
                                  .n_inputs = 1,
                                  .outputs = outputs,
                                  .n_outputs = 1,
                                  .message = message,
                                  .message_room = sizeof message};
    assert_int_not_equal(sinter_plan_execute(plan, &execution), SINTER_OK);
    assert_non_null(strstr(message, "not loaded"));
    sinter_plan_destroy(plan);
    sinter_graph_destroy(graph);
    sinter_context_destroy(context);
    options.device = 1000;
    assert_int_equal(sinter_context_create(&options, &context), SINTER_NO_DEVICE);
    sinter_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),  cmocka_unit_test(test_absent),  cmocka_unit_test(test_stub),
        cmocka_unit_test(test_no_nvrtc), cmocka_unit_test(test_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
