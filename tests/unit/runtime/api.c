/* The library as a host program sees it: only <sinter.h>, no device. */
#include "tests/unit/runtime/support.h"

#include <math.h>
#include <pthread.h>

#include "runtime/sinter.h"

static const char text[] = "sinter 1\n"
                           "graph scale (x: f32[M, 8], s: f32) -> (y: f32[M, 8], z: f32[M])\n"
                           "where M <= 64\n"
                           "{ y = x * s\n"
                           "  z = sum(y, over=-1, keep=0) }\n"
                           "graph other (x: f32[4]) -> (y: f32[4]) { y = x + x }\n";

static sinter_context *make_context(void) {
    sinter_context *context;
    assert_int_equal(sinter_context_create(NULL, &context), SINTER_OK);
    return context;
}

static sinter_graph *make_graph(sinter_context *context, const char *source, const char *name) {
    sinter_graph *graph;
    sinter_source s = {.size = sizeof s, .text = source, .name = "t.sg", .graph = name};
    sinter_status status = sinter_graph_parse(context, &s, &graph);
    if (status)
        fail_msg("%s", sinter_graph_diagnostic(graph, 0) ? sinter_graph_diagnostic(graph, 0)->text
                                                         : "no diagnostic");
    return graph;
}

static sinter_plan *make_plan(sinter_context *context, const sinter_graph *graph, const sinter_dim *dims,
                              int n) {
    sinter_plan *plan;
    sinter_plan_options options = {
        .size = sizeof options, .stage = SINTER_STAGE_KERNELS, .dims = dims, .n_dims = n, .verify = 1};
    sinter_status status = sinter_plan_create(context, graph, &options, &plan);
    if (status)
        fail_msg("%s",
                 sinter_plan_diagnostic(plan, 0) ? sinter_plan_diagnostic(plan, 0)->text : "no diagnostic");
    return plan;
}

/* Runs `scale` for m rows on the simulator. */
static void run_scale(const sinter_plan *plan, int64_t m) {
    float x[64 * 8], s = 3, y[64 * 8], z[64];
    for (int i = 0; i < 64 * 8; i++)
        x[i] = (float)(i % 13) - 6;
    memset(y, 0xFF, sizeof y);
    memset(z, 0xFF, sizeof z);
    void *inputs[] = {x, &s}, *outputs[] = {y, z};
    size_t bytes = 0;
    int n = sinter_plan_dim_count(plan);
    assert_int_equal(sinter_plan_workspace(plan, &m, n, &bytes), SINTER_OK);
    void *workspace = aligned_alloc(256, (bytes + 511) / 256 * 256);
    char message[256] = "";
    sinter_execution e = {.size = sizeof e,
                          .inputs = inputs,
                          .n_inputs = 2,
                          .outputs = outputs,
                          .n_outputs = 2,
                          .dims = &m,
                          .n_dims = n,
                          .workspace = workspace,
                          .workspace_bytes = bytes,
                          .message = message,
                          .message_room = sizeof message};
    if (sinter_plan_simulate(plan, &e))
        fail_msg("%s", message);
    for (int64_t i = 0; i < m; i++) {
        float sum = 0;
        for (int64_t k = 0; k < 8; k++) {
            assert_true(y[i * 8 + k] == x[i * 8 + k] * 3);
            sum += y[i * 8 + k];
        }
        assert_true(fabsf(z[i] - sum) < 1e-4f);
    }
    for (int64_t i = m; i < 64; i++)
        assert_true(isnan(z[i]));
    free(workspace);
}

static void test_symbolic_and_bound(void **state) {
    (void)state;
    sinter_context *context = make_context();
    sinter_graph *graph = make_graph(context, text, "scale");
    assert_int_equal(sinter_graph_input_count(graph), 2);
    sinter_tensor tensor = {.size = sizeof tensor};
    assert_int_equal(sinter_graph_input(graph, 0, &tensor), SINTER_OK);
    assert_string_equal(tensor.name, "x");
    assert_string_equal(tensor.dtype, "f32");
    assert_string_equal(tensor.dims[0], "M");
    assert_null(tensor.strides[0]);
    assert_int_equal(sinter_graph_output(graph, 2, &tensor), SINTER_USAGE);
    sinter_plan *symbolic = make_plan(context, graph, NULL, 0);
    assert_int_equal(sinter_plan_dim_count(symbolic), 1);
    assert_string_equal(sinter_plan_dim_name(symbolic, 0), "M");
    sinter_plan *bound = make_plan(context, graph, &(sinter_dim){"M", 5}, 1);
    sinter_graph_destroy(graph); /* plans do not need it */
    for (int64_t m = 0; m <= 64; m += 16)
        run_scale(symbolic, m);
    run_scale(symbolic, 17);
    assert_int_equal(sinter_plan_dim_count(bound), 0); /* what is compiled in is not asked for again */
    run_scale(bound, 5);
    assert_non_null(strstr(sinter_plan_explain(bound), "kernel"));
    size_t bytes;
    int64_t bad[] = {65, -1};
    assert_int_equal(sinter_plan_workspace(symbolic, &bad[0], 1, &bytes), SINTER_BAD_DIMS);
    assert_int_equal(sinter_plan_workspace(symbolic, &bad[1], 1, &bytes), SINTER_BAD_DIMS);
    assert_int_equal(sinter_plan_workspace(symbolic, NULL, 0, &bytes), SINTER_USAGE);
    sinter_kernel kernel = {.size = sizeof kernel};
    assert_int_equal(sinter_plan_kernel(symbolic, 0, &kernel), SINTER_OK);
    assert_non_null(strstr(kernel.cuda, "__global__"));
    assert_null(kernel.ptx);
    assert_int_equal(sinter_plan_kernel(symbolic, 99, &kernel), SINTER_USAGE);
    sinter_metrics metrics = {.size = sizeof metrics};
    sinter_context_metrics(context, &metrics);
    assert_int_equal(metrics.plans, 2);
    sinter_plan_destroy(symbolic);
    sinter_plan_destroy(bound);
    sinter_context_destroy(context);
}

static void test_diagnostics(void **state) {
    (void)state;
    sinter_context *context = make_context();
    sinter_graph *graph;
    sinter_source bad = {.size = sizeof bad,
                         .text = "sinter 1\ngraph g (x: f32[4]) -> (y: f32[4]) { y = nope(x) }\n",
                         .name = "bad.sg"};
    assert_int_equal(sinter_graph_parse(context, &bad, &graph), SINTER_BAD_GRAPH);
    const sinter_diagnostic *d = sinter_graph_diagnostic(graph, 0);
    assert_non_null(d);
    assert_int_equal(d->severity, SINTER_ERROR);
    assert_string_equal(d->id, "unknown-op");
    assert_string_equal(d->file, "bad.sg");
    assert_int_equal(d->line, 2);
    assert_non_null(strstr(d->text, "bad.sg:2:"));
    sinter_plan *plan;
    assert_int_equal(sinter_plan_create(context, graph, NULL, &plan), SINTER_USAGE);
    assert_non_null(sinter_plan_diagnostic(plan, 0));
    sinter_plan_destroy(plan);
    sinter_graph_destroy(graph);

    sinter_source several = {.size = sizeof several, .text = text};
    assert_int_equal(sinter_graph_parse(context, &several, &graph), SINTER_USAGE);
    assert_non_null(strstr(sinter_graph_diagnostic(graph, 0)->message, "2 graphs"));
    sinter_graph_destroy(graph);

    graph = make_graph(context, text, "scale");
    const struct {
        sinter_plan_options options;
        sinter_status status;
    } wrong[] = {
        {{.target = "sm_1"}, SINTER_USAGE},
        {{.dims = &(sinter_dim){"Q", 1}, .n_dims = 1}, SINTER_USAGE},
        {{.dims = &(sinter_dim){"M", -1}, .n_dims = 1}, SINTER_BAD_DIMS},
        {{.dims = &(sinter_dim){"M", 65}, .n_dims = 1}, SINTER_BAD_DIMS},
        {{.backend = SINTER_BACKEND_LLVM, .stage = SINTER_STAGE_PTX, .target = "sm_100"}, SINTER_ENVIRONMENT},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sinter_plan_options options = wrong[i].options;
        options.size = sizeof options;
        assert_int_equal(sinter_plan_create(context, graph, &options, &plan), wrong[i].status);
        assert_non_null(sinter_plan_diagnostic(plan, 0));
        assert_true(strlen(sinter_plan_diagnostic(plan, 0)->message) > 10);
        sinter_plan_destroy(plan);
    }
    sinter_graph_destroy(graph);
    sinter_context_destroy(context);
    for (int code = -1; code < 700; code++)
        assert_non_null(sinter_status_text((sinter_status)code));
    assert_string_equal(sinter_status_name(SINTER_BAD_DIMS), "BAD_DIMS");
}

static void test_builder(void **state) {
    (void)state;
    sinter_context *context = make_context();
    sinter_builder *builder;
    assert_int_equal(sinter_builder_create(context, "built", &builder), SINTER_OK);
    sinter_builder_input(builder, "x", "f32[M, 16]");
    sinter_builder_where(builder, "M <= 100");
    sinter_builder_op(builder, "a", "gelu", (const char *const[]){"x"}, 1, "approx=tanh");
    sinter_builder_op(builder, "y", "add", (const char *const[]){"a", "1.0"}, 2, NULL);
    sinter_builder_output(builder, "y", "f32[M, 16]");
    sinter_graph *graph;
    sinter_status status = sinter_builder_finish(builder, &graph);
    if (status)
        fail_msg("%s", sinter_graph_diagnostic(graph, 0)->text);
    sinter_graph *again = make_graph(context, sinter_graph_text(graph), NULL);
    assert_string_equal(sinter_graph_text(graph), sinter_graph_text(again));
    sinter_graph_destroy(graph);
    sinter_graph_destroy(again);
    assert_int_equal(sinter_builder_create(context, "broken", &builder), SINTER_OK);
    sinter_builder_input(builder, "x", "f32[M");
    assert_int_equal(sinter_builder_finish(builder, &graph), SINTER_BAD_GRAPH);
    assert_string_equal(sinter_graph_diagnostic(graph, 0)->file, "<builder>");
    sinter_graph_destroy(graph);
    sinter_context_destroy(context);
}

/* Options of an older, shorter header read as zeros behind their end. */
static void test_shorter_options(void **state) {
    (void)state;
    sinter_context *context = make_context();
    sinter_graph *graph;
    struct {
        size_t size;
        const char *text;
    } source = {16, "sinter 1\ngraph g (x: f32[4]) -> (y: f32[4]) { y = x + x }\n"};
    assert_int_equal(sinter_graph_parse(context, (const sinter_source *)(const void *)&source, &graph),
                     SINTER_OK);
    struct {
        size_t size;
        const char *target;
        uint8_t behind[8]; /* not to be read */
    } options = {16, "sm_80", {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}};
    sinter_plan *plan;
    sinter_status status =
        sinter_plan_create(context, graph, (const sinter_plan_options *)(const void *)&options, &plan);
    /* its stage is the default, which wants a backend; none is given to this context where none is installed
     */
    assert_true(status == SINTER_OK || status == SINTER_ENVIRONMENT);
    sinter_plan_destroy(plan);
    sinter_graph_destroy(graph);
    sinter_context_destroy(context);
}

/* Whatever the limit, creation ends with a status and a diagnostic, and destruction gives everything back. */
static void test_memory_limits(void **state) {
    (void)state;
    bool parsed = false, planned = false;
    for (size_t limit = 1024; limit < (size_t)1 << 26 && !planned; limit += limit / 5) {
        sinter_context *context;
        sinter_context_options options = {.size = sizeof options, .memory_limit = limit};
        assert_int_equal(sinter_context_create(&options, &context), SINTER_OK);
        sinter_graph *graph;
        sinter_source source = {.size = sizeof source, .text = text, .graph = "scale"};
        sinter_status status = sinter_graph_parse(context, &source, &graph);
        assert_true(status == SINTER_OK || status == SINTER_OUT_OF_MEMORY);
        if (status == SINTER_OK) {
            parsed = true;
            sinter_plan *plan;
            sinter_plan_options plan_options = {.size = sizeof plan_options, .stage = SINTER_STAGE_KERNELS};
            status = sinter_plan_create(context, graph, &plan_options, &plan);
            assert_true(status == SINTER_OK || status == SINTER_OUT_OF_MEMORY);
            planned = status == SINTER_OK;
            assert_true(planned || sinter_plan_diagnostic(plan, 0) != NULL);
            sinter_plan_destroy(plan);
        }
        sinter_graph_destroy(graph);
        sinter_context_destroy(context);
    }
    assert_true(parsed);
    assert_true(planned);
}

typedef struct Worker {
    sinter_context *context;
    const sinter_graph *graph;
    const sinter_plan *shared;
} Worker;

static void *work(void *argument) {
    Worker *worker = argument;
    for (int i = 0; i < 5; i++) {
        sinter_plan *own;
        sinter_plan_options options = {.size = sizeof options, .stage = SINTER_STAGE_KERNELS};
        if (sinter_plan_create(worker->context, worker->graph, &options, &own))
            return "a plan failed";
        run_scale(own, 7);
        run_scale(worker->shared, 9);
        sinter_plan_destroy(own);
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    sinter_context *context = make_context();
    sinter_graph *graph = make_graph(context, text, "scale");
    sinter_plan *plan = make_plan(context, graph, NULL, 0);
    Worker worker = {context, graph, plan};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &worker), 0);
    for (int i = 0; i < 4; i++) {
        void *problem;
        assert_int_equal(pthread_join(threads[i], &problem), 0);
        assert_null(problem);
    }
    sinter_plan_destroy(plan);
    sinter_graph_destroy(graph);
    sinter_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_symbolic_and_bound),
        cmocka_unit_test(test_diagnostics),
        cmocka_unit_test(test_builder),
        cmocka_unit_test(test_shorter_options),
        cmocka_unit_test(test_memory_limits),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
