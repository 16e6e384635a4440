/* sinter_plan_execute() against a driver made of functions of this file: what would be launched, with which
 * parameters, tensor maps and attributes; what is refused; and that nothing is allocated. */
#include "tests/unit/runtime/support.h"

#include <malloc.h>

#include "runtime/plan.h"

enum { LAUNCHES_MOST = 8, MAPS_MOST = 8 };

typedef struct Launched {
    CUlaunchConfig config;
    CUlaunchAttribute attribute;
    CUfunction function;
    int64_t words[16]; /* parameters as 8 bytes each; of tensor maps the first word */
} Launched;

typedef struct Mapped {
    CUtensorMapDataType type;
    cuuint32_t rank, box[5];
    uint64_t address, dims[5], strides[5];
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion promotion;
} Mapped;

static struct {
    Launched launches[LAUNCHES_MOST];
    int n_launches;
    Mapped maps[MAPS_MOST];
    int n_maps, n_copies;
    size_t copied, filled_bytes;
    CUresult launch_error, map_error;
    const PlanKernel *kernels; /* of the plan under test, to know the parameters' number */
    int pushes, n_currents;
} fake;

static CUresult fake_current(CUcontext *context) {
    *context = NULL;
    fake.n_currents++;
    return 0;
}
static CUresult fake_push(CUcontext context) {
    (void)context;
    fake.pushes++;
    return 0;
}
static CUresult fake_pop(CUcontext *context) {
    *context = NULL;
    fake.pushes--;
    return 0;
}
static CUresult fake_load(CUmodule *module, const void *image, unsigned int n, CUjit_option *options,
                          void **values) {
    (void)image, (void)n, (void)options, (void)values;
    *module = (CUmodule)(uintptr_t)64;
    return 0;
}
static CUresult fake_unload(CUmodule module) {
    (void)module;
    return 0;
}
static CUresult fake_function(CUfunction *function, CUmodule module, const char *name) {
    (void)module, (void)name;
    *function = (CUfunction)(uintptr_t)128;
    return 0;
}
static CUresult fake_set(CUfunction function, CUfunction_attribute attribute, int value) {
    (void)function, (void)attribute, (void)value;
    return 0;
}
static CUresult fake_get(int *value, CUfunction_attribute attribute, CUfunction function) {
    (void)function, (void)attribute;
    *value = 32;
    return 0;
}
static CUresult fake_launch(const CUlaunchConfig *config, CUfunction function, void **params, void **extra) {
    (void)extra;
    Launched *l = &fake.launches[fake.n_launches];
    l->config = *config;
    l->function = function;
    if (config->numAttrs)
        l->attribute = config->attrs[0];
    for (int i = 0; i < fake.kernels[fake.n_launches].n_params && i < 16; i++)
        memcpy(&l->words[i], params[i], 8);
    fake.n_launches++;
    return fake.launch_error;
}
static CUresult fake_map(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                         const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
                         const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                         CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                         CUtensorMapFloatOOBfill fill) {
    assert_int_equal((uintptr_t)map % 64, 0);
    assert_int_equal(interleave, 0);
    assert_int_equal(fill, 0);
    Mapped *m = &fake.maps[fake.n_maps++];
    *m = (Mapped){.type = type,
                  .rank = rank,
                  .address = (uint64_t)(uintptr_t)address,
                  .swizzle = swizzle,
                  .promotion = promotion};
    for (cuuint32_t i = 0; i < rank; i++) {
        assert_int_equal(element_strides[i], 1);
        m->dims[i] = dims[i];
        m->box[i] = box[i];
        if (i + 1 < rank)
            m->strides[i] = strides[i];
    }
    return fake.map_error;
}
static CUresult fake_fill(CUdeviceptr at, unsigned char value, size_t bytes, CUstream stream) {
    (void)at, (void)stream;
    assert_int_equal(value, 0);
    fake.filled_bytes = bytes;
    return 0;
}
static CUresult fake_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    (void)to, (void)from, (void)stream;
    fake.n_copies++;
    fake.copied = bytes;
    return 0;
}

/* A context with an sm_90a device behind that driver. */
static sinter_context *make_context(void) {
    sinter_context *context;
    assert_int_equal(sinter_context_create(NULL, &context), SINTER_OK);
    context->has_device = true;
    context->driver = (Driver){.context_current = fake_current,
                               .context_push = fake_push,
                               .context_pop = fake_pop,
                               .module_load = fake_load,
                               .module_unload = fake_unload,
                               .module_function = fake_function,
                               .function_set = fake_set,
                               .function_get = fake_get,
                               .launch = fake_launch,
                               .tensor_map_tiled = fake_map,
                               .copy_async = fake_copy,
                               .fill_async = fake_fill};
    context->device = (Device){
        .context = (CUcontext)(uintptr_t)32, .major = 9, .minor = 0, .sm_count = 132, .name = "fake"};
    context->device_target = *target_find("sm_90a");
    memset(&fake, 0, sizeof fake);
    return context;
}

static void free_context(sinter_context *context) {
    context->has_device = false; /* there is no primary context to give back */
    sinter_context_destroy(context);
}

/* As loaded, the kernels by numbers from `first` on. */
static void load(sinter_plan *plan, int first) {
    plan->stage = SINTER_STAGE_LOAD;
    for (int i = 0; i < plan->n_kernels; i++)
        plan->kernels[i].function = (CUfunction)(uintptr_t)(first + i);
}

/* A loaded plan whose kernels have PTX that nobody reads, so that no backend is needed. */
static sinter_plan *make_family(sinter_context *context, const char *text, const sinter_dim *dims, int n_dims,
                                int no_variants) {
    sinter_graph *graph;
    sinter_source source = {.size = sizeof source, .text = text};
    sinter_status status = sinter_graph_parse(context, &source, &graph);
    if (status)
        fail_msg("%s", sinter_graph_diagnostic(graph, 0)->text);
    sinter_plan *plan;
    sinter_plan_options options = {.size = sizeof options,
                                   .stage = SINTER_STAGE_KERNELS,
                                   .dims = dims,
                                   .n_dims = n_dims,
                                   .no_variants = no_variants};
    status = sinter_plan_create(context, graph, &options, &plan);
    if (status)
        fail_msg("%s", sinter_plan_diagnostic(plan, 0)->text);
    sinter_graph_destroy(graph);
    load(plan, 1000);
    fake.kernels = plan->kernels;
    return plan;
}

static sinter_plan *make_plan(sinter_context *context, const char *text, const sinter_dim *dims, int n_dims) {
    return make_family(context, text, dims, n_dims, 1);
}

static sinter_status execute(const sinter_plan *plan, uintptr_t *in, int n_in, uintptr_t *out, int n_out,
                             const int64_t *dims, int n_dims, uintptr_t workspace, size_t bytes,
                             char *message) {
    fake.n_launches = fake.n_maps = fake.n_copies = fake.n_currents = 0;
    message[0] = 0;
    sinter_execution e = {.size = sizeof e,
                          .inputs = (void *const *)in,
                          .n_inputs = n_in,
                          .outputs = (void *const *)out,
                          .n_outputs = n_out,
                          .dims = dims,
                          .n_dims = n_dims,
                          .workspace = (void *)workspace,
                          .workspace_bytes = bytes,
                          .stream = (void *)(uintptr_t)77,
                          .message = message,
                          .message_room = 256};
    struct mallinfo2 before = mallinfo2();
    sinter_status status = sinter_plan_execute(plan, &e);
    struct mallinfo2 after = mallinfo2();
    assert_int_equal(before.uordblks, after.uordblks);
    assert_int_equal(fake.pushes, 0);
    return status;
}

static void test_pointwise(void **state) {
    (void)state;
    sinter_context *context = make_context();
    sinter_plan *plan = make_plan(
        context,
        "sinter 1\ngraph g (x: f32[M, 8], s: f32[8]) -> (y: f32[M, 8]) where M <= 1000 { y = x * s }\n", NULL,
        0);
    uintptr_t in[] = {0x10000, 0x20000}, out[] = {0x30000};
    int64_t m = 100;
    char message[256];
    assert_int_equal(plan->n_kernels, 1);
    assert_int_equal(execute(plan, in, 2, out, 1, &m, 1, 0, 0, message), SINTER_OK);
    assert_int_equal(fake.n_launches, 1);
    const Launched *l = &fake.launches[0];
    const Kernel *kernel = plan->kernels[0].kernel;
    assert_ptr_equal(l->config.hStream, (void *)(uintptr_t)77);
    assert_ptr_equal(l->function, (CUfunction)(uintptr_t)1000);
    assert_int_equal(l->config.blockDimX, kernel->threads);
    assert_int_equal(l->config.blockDimY * l->config.blockDimZ, 1);
    assert_true((uint64_t)l->config.gridDimX * l->config.blockDimX * 800 >= 800);
    for (size_t i = 0; i < kernel->params.n; i++) {
        const KParam *param = &kernel->params.at[i];
        if (param->kind == PARAM_DIM && param->dim->kind == DIM_SYMBOL)
            assert_int_equal(l->words[i], 100);
        if (param->kind == PARAM_BUFFER) {
            const Value *value = param->buffer->value;
            assert_int_equal(l->words[i], value->op == OP_input ? in[value->attrs[0].i] : out[0]);
        }
    }
    m = 0;
    assert_int_equal(execute(plan, in, 2, out, 1, &m, 1, 0, 0, message), SINTER_OK);
    assert_int_equal(fake.n_launches, 0);
    uintptr_t nothing[] = {0, 0x20000}, none[] = {0};
    assert_int_equal(execute(plan, nothing, 2, none, 1, &m, 1, 0, 0, message), SINTER_OK);
    m = 100;
    assert_int_equal(execute(plan, nothing, 2, out, 1, &m, 1, 0, 0, message), SINTER_USAGE);
    assert_non_null(strstr(message, "input 0 is NULL"));
    uintptr_t odd[] = {0x10000, 0x20002};
    assert_int_equal(execute(plan, odd, 2, out, 1, &m, 1, 0, 0, message), SINTER_USAGE);
    assert_non_null(strstr(message, "input 1 is not aligned"));
    assert_int_equal(execute(plan, in, 1, out, 1, &m, 1, 0, 0, message), SINTER_USAGE);
    assert_int_equal(execute(plan, in, 2, out, 1, NULL, 0, 0, 0, message), SINTER_USAGE);
    m = 1001;
    assert_int_equal(execute(plan, in, 2, out, 1, &m, 1, 0, 0, message), SINTER_BAD_DIMS);
    assert_non_null(strstr(message, "'where'"));
    assert_int_equal(fake.n_launches, 0);
    m = 100;
    fake.launch_error = 701;
    assert_int_equal(execute(plan, in, 2, out, 1, &m, 1, 0, 0, message), SINTER_DEVICE);
    assert_non_null(strstr(message, "701"));
    sinter_plan_destroy(plan);
    free_context(context);
}

/* A wgmma product: its operands' tensor maps. */
static void test_tensor_maps(void **state) {
    (void)state;
    sinter_context *context = make_context();
    sinter_plan *plan = make_plan(
        context,
        "sinter 1\ngraph g (x: bf16[M, 512], w: bf16[1024, 512]) -> (y: bf16[M, 1024]) { y = x @ w.T }\n",
        NULL, 0);
    uintptr_t in[] = {0x10000, 0x20000}, out[] = {0x30000};
    int64_t m = 300;
    char message[256];
    assert_int_equal(plan->n_kernels, 1);
    assert_int_equal(plan->kernels[0].region->schedule.path, MATMUL_WGMMA);
    assert_int_equal(execute(plan, in, 2, out, 1, &m, 1, 0, 0, message), SINTER_OK);
    assert_int_equal(fake.n_launches, 1);
    bool found_x = false, found_w = false;
    for (int i = 0; i < fake.n_maps; i++) {
        const Mapped *map = &fake.maps[i];
        assert_int_equal(map->type, DRIVER_TMA_BF16);
        assert_true(map->rank >= 2);
        assert_int_equal(map->strides[0] % 16, 0);
        assert_true(map->box[0] <= 256 && map->box[1] <= 256);
        if (map->address == in[0]) {
            found_x = true;
            assert_int_equal(map->dims[0], 512);
            assert_int_equal(map->dims[1], 300);
            assert_int_equal(map->strides[0], 1024);
        }
        if (map->address == in[1]) {
            found_w = true;
            assert_int_equal(map->dims[0], 512);
            assert_int_equal(map->dims[1], 1024);
        }
    }
    assert_true(found_x && found_w);
    const Launched *l = &fake.launches[0];
    const int *c = plan->kernels[0].kernel->cluster;
    assert_int_equal(l->config.numAttrs, c[0] * c[1] * c[2] > 1);
    if (l->config.numAttrs) {
        assert_int_equal(l->attribute.id, DRIVER_LAUNCH_CLUSTER);
        assert_int_equal(l->attribute.value.clusterDim.x, c[0]);
        assert_int_equal(l->config.gridDimX % (unsigned)c[0], 0);
    }
    assert_int_equal(l->config.sharedMemBytes, plan->kernels[0].kernel->smem_bytes);
    fake.map_error = 1;
    assert_int_equal(execute(plan, in, 2, out, 1, &m, 1, 0, 0, message), SINTER_DEVICE);
    assert_non_null(strstr(message, "tensor map"));
    sinter_plan_destroy(plan);
    free_context(context);
}

/* L2 brings pairs of lines where all rows begin at lines, one line otherwise: because of the pitch, or of
 * where the tensor begins. */
static void test_lines(void **state) {
    (void)state;
    sinter_context *context = make_context();
    sinter_plan *plan = make_plan(
        context,
        "sinter 1\ngraph g (x: bf16[300, 520], w: bf16[1024, 520]) -> (y: bf16[300, 1024]) { y = x @ w.T }\n",
        NULL, 0);
    uintptr_t in[] = {0x10000, 0x20000}, out[] = {0x30000}, moved[] = {0x30010};
    char message[256];
    assert_int_equal(execute(plan, in, 2, out, 1, NULL, 0, 0, 0, message), SINTER_OK);
    int n_maps = fake.n_maps;
    assert_true(n_maps >= 3); /* one more where the last tile has its own */
    for (int i = 0; i < fake.n_maps; i++)
        assert_int_equal(fake.maps[i].promotion,
                         fake.maps[i].address == out[0] ? DRIVER_TMA_PROMOTE_256 : DRIVER_TMA_PROMOTE_128);
    assert_int_equal(execute(plan, in, 2, moved, 1, NULL, 0, 0, 0, message), SINTER_OK);
    assert_int_equal(fake.n_maps, n_maps);
    for (int i = 0; i < fake.n_maps; i++)
        assert_int_equal(fake.maps[i].promotion, DRIVER_TMA_PROMOTE_128);
    sinter_plan_destroy(plan);
    free_context(context);
}

/* What is compiled in is neither asked for nor worked out again: a launch, its maps, and one question about
 * the context. */
static void test_bound_dims(void **state) {
    (void)state;
    sinter_context *context = make_context();
    static const char text[] = "sinter 1\ngraph g (x: bf16[M, K], w: bf16[N, K]) -> (y: bf16[M, N])\n"
                               "where K % 8 == 0, N % 8 == 0, M <= 1000\n{ y = x @ w.T }\n";
    sinter_dim all[] = {{"N", 1024}, {"M", 300}, {"K", 512}};
    sinter_plan *plan = make_plan(context, text, all, 3);
    uintptr_t in[] = {0x10000, 0x20000}, out[] = {0x30000};
    char message[256];
    assert_int_equal(sinter_plan_dim_count(plan), 0);
    assert_null(sinter_plan_dim_name(plan, 0));
    assert_int_equal(dim_constraint_count(plan->graph->dims), 0); /* they hold, once and for all */
    assert_int_equal(execute(plan, in, 2, out, 1, NULL, 0, 0, 0, message), SINTER_OK);
    assert_int_equal(fake.n_launches, 1);
    assert_int_equal(fake.n_currents, 1);
    int maps = 0;
    for (int i = 0; i < plan->kernels[0].n_params; i++)
        maps += plan->kernels[0].params[i].kind == PARAM_TENSOR_MAP;
    assert_true(maps >= 2);
    assert_int_equal(fake.n_maps, maps);
    for (int i = 0; i < plan->kernels[0].n_params; i++)
        assert_true(plan->kernels[0].params[i].kind != PARAM_DIM);
    sinter_plan_destroy(plan);
    plan = make_plan(context, text, all, 1); /* M and K stay, in the graph's order */
    int64_t dims[] = {300, 512};
    assert_int_equal(sinter_plan_dim_count(plan), 2);
    assert_string_equal(sinter_plan_dim_name(plan, 0), "M");
    assert_string_equal(sinter_plan_dim_name(plan, 1), "K");
    assert_int_equal(execute(plan, in, 2, out, 1, dims, 2, 0, 0, message), SINTER_OK);
    for (int i = 0; i < fake.n_maps; i++)
        if (fake.maps[i].address == in[0])
            assert_true(fake.maps[i].dims[0] == 512 && fake.maps[i].dims[1] == 300);
    assert_int_equal(execute(plan, in, 2, out, 1, dims, 1, 0, 0, message), SINTER_USAGE);
    dims[1] = 513;
    assert_int_equal(execute(plan, in, 2, out, 1, dims, 2, 0, 0, message), SINTER_BAD_DIMS);
    sinter_plan_destroy(plan);
    free_context(context);
}

static void test_workspace_and_copies(void **state) {
    (void)state;
    sinter_context *context = make_context();
    sinter_plan *plan = make_plan(context,
                                  "sinter 1\ngraph g (x: bf16[M, 64], w: bf16[64, 64], v: bf16[64, 64]) -> "
                                  "(y: bf16[M, 64], z: bf16[M, 64])\n"
                                  "{ h = relu(x @ w) @fuse(never)\n y = h @ v\n z = y }\n",
                                  NULL, 0);
    uintptr_t in[] = {0x10000, 0x20000, 0x28000}, out[] = {0x30000, 0x40000};
    int64_t m = 33;
    size_t bytes = 0;
    char message[256];
    assert_true(plan->n_kernels >= 2);
    assert_int_equal(sinter_plan_workspace(plan, &m, 1, &bytes), SINTER_OK);
    assert_true(bytes >= 33 * 64 * 2);
    assert_int_equal(execute(plan, in, 3, out, 2, &m, 1, 0x50000, bytes, message), SINTER_OK);
    assert_int_equal(fake.n_launches, plan->n_kernels);
    assert_int_equal(fake.n_copies, plan->n_copies);
    if (plan->n_copies)
        assert_int_equal(fake.copied, 33 * 64 * 2);
    assert_int_equal(execute(plan, in, 3, out, 2, &m, 1, 0x50000, bytes - 1, message), SINTER_USAGE);
    assert_non_null(strstr(message, "the workspace needs"));
    assert_int_equal(execute(plan, in, 3, out, 2, &m, 1, 0, bytes, message), SINTER_USAGE);
    sinter_metrics metrics = {.size = sizeof metrics};
    sinter_context_metrics(context, &metrics);
    assert_int_equal(metrics.launches, plan->n_kernels);
    sinter_plan_destroy(plan);
    free_context(context);
}

/* Blocks that wait for each other: a cooperative launch and nothing besides, whose packets lie behind what
 * kernels share. */
static void test_gang(void **state) {
    (void)state;
    sinter_context *context = make_context();
    sinter_plan *plan =
        make_plan(context,
                  "sinter 1\ngraph g (x: bf16[8192, 64], w: bf16[512, 64]) -> (y: bf16[8192, 512])\n"
                  "{ y = softmax(x @ w.T, over=-1) }\n",
                  NULL, 0);
    uintptr_t in[] = {0x10000, 0x20000}, out[] = {0x30000};
    size_t bytes = 0;
    char message[256];
    assert_int_equal(plan->n_kernels, 1);
    const Kernel *kernel = plan->kernels[0].kernel;
    assert_true(kernel->gang > 1);
    assert_int_equal(sinter_plan_workspace(plan, NULL, 0, &bytes), SINTER_OK);
    assert_int_equal(execute(plan, in, 2, out, 1, NULL, 0, 0x50000, bytes, message), SINTER_OK);
    assert_int_equal(fake.n_launches, 1);
    assert_int_equal(fake.launches[0].config.numAttrs, 1);
    assert_int_equal(fake.launches[0].attribute.id, DRIVER_LAUNCH_COOPERATIVE);
    assert_int_equal(fake.launches[0].attribute.value.cooperative, 1);
    assert_int_equal(fake.launches[0].config.gridDimX % (unsigned)kernel->gang, 0);
    assert_int_equal(fake.filled_bytes, 0);
    assert_int_equal(execute(plan, in, 2, out, 1, NULL, 0, 0x50000, bytes - 1, message), SINTER_USAGE);
    sinter_plan_destroy(plan);
    free_context(context);
}

/* What is launched is the variant's that the dims belong to, in its workspace. */
static void test_variants(void **state) {
    (void)state;
    sinter_context *context = make_context();
    sinter_plan *plan = make_family(
        context,
        "sinter 1\ngraph g (x: bf16[M, 512], w: bf16[1024, 512]) -> (y: bf16[M, 1024]) { y = x @ w.T }\n",
        NULL, 0, 0);
    static const int64_t rows[] = {0, 1, 2, 40, 300, 100000};
    uintptr_t in[] = {0x10000, 0x20000}, out[] = {0x30000};
    char message[256];
    assert_true(plan->n_variants >= 3);
    for (int i = 0; i < plan->n_variants; i++)
        load(plan->variants[i], 2000 + 100 * i);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const sinter_plan *chosen = sinter_plan_select(plan, &rows[i], 1);
        size_t bytes;
        fake.kernels = chosen->kernels;
        assert_int_equal(sinter_plan_workspace(plan, &rows[i], 1, &bytes), SINTER_OK);
        assert_int_equal(execute(plan, in, 2, out, 1, &rows[i], 1, 0x50000, bytes, message), SINTER_OK);
        assert_int_equal(fake.n_launches, rows[i] > 0); /* nothing to compute for 0 rows */
        assert_true(chosen == plan || rows[i] > 0);
        if (fake.n_launches)
            assert_int_equal(fake.launches[0].config.blockDimX, chosen->kernels[0].kernel->threads);
    }
    int64_t negative = -1;
    assert_int_equal(execute(plan, in, 2, out, 1, &negative, 1, 0, 0, message), SINTER_BAD_DIMS);
    sinter_plan_destroy(plan);
    free_context(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pointwise),
                                       cmocka_unit_test(test_tensor_maps),
                                       cmocka_unit_test(test_lines),
                                       cmocka_unit_test(test_bound_dims),
                                       cmocka_unit_test(test_workspace_and_copies),
                                       cmocka_unit_test(test_gang),
                                       cmocka_unit_test(test_variants)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
