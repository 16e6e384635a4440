/* What an output may differ by on a GPU: more than its type says where it depends on a product of fp8
 * elements. */
#include "tests/unit/runtime/support.h"

#include "frontend/frontend.h"
#include "runtime/cli/compare.h"
#include "runtime/cli/tolerance.h"

typedef struct Tolerances {
    Arena *arena;
    const char *text;
    double own[4]; /* of each output */
} Tolerances;

static void tolerances_body(void *at) {
    Tolerances *t = at;
    Diags diags = {.arena = t->arena};
    SourceSet *sources = source_set_new(t->arena);
    uint32_t file = source_add(sources, "tolerance.sg", t->text, strlen(t->text));
    Module module = {0};
    assert_true(frontend_parse(t->arena, sources, file, &(FrontendLimits){0}, &diags, &module));
    const Graph *graph = module.graphs.at[0];
    for (size_t i = 0; i < graph->outputs.n; i++)
        t->own[i] = tolerance_of_output(t->arena, graph, i);
}

static Tolerances tolerances(const char *text) {
    Tolerances t = {.arena = arena_new(0), .text = text};
    assert_true(arena_run(t.arena, tolerances_body, &t));
    arena_free(t.arena);
    return t;
}

static const double fp8 = 1e-3;

static void test_products_of_fp8(void **state) {
    (void)state;
    Tolerances t = tolerances("sinter 1\n"
                              "graph g (x: e4m3[M, 64], w: e4m3[N, 64], s: f32[M, 1]) -> (y: f32[M, N], z: "
                              "bf16[M, N], r: f32[M, 1])\n"
                              "{\n"
                              "    y = (x @ w.T) * s\n"
                              "    z = cast(y, bf16)\n"
                              "    r = sum(y, over=1)\n"
                              "}\n");
    assert_true(t.own[0] == fp8);
    assert_true(t.own[1] == compare_default_rtol(DTYPE_BF16)); /* which is more already */
    assert_true(t.own[2] == fp8);
}

static void test_scaled_elements_are_of_fp8(void **state) {
    (void)state;
    Tolerances t = tolerances("sinter 1\n"
                              "graph g (x: e4m3[M, 64], s: f32[M, 1], w: e4m3[N, 64]) -> (y: f32[M, N])\n"
                              "{   y = (cast(x, f32) * s) @ cast(w, f32).T   }\n");
    assert_true(t.own[0] == fp8);
}

static void test_others_go_by_their_type(void **state) {
    (void)state;
    Tolerances t =
        tolerances("sinter 1\n"
                   "graph g (x: e4m3[M, 64], v: f32[M, 64], w: f32[N, 64]) -> (y: f32[M, 64], z: f32[M, N])\n"
                   "{\n"
                   "    y = cast(x, f32) + v\n"
                   "    z = v @ w.T\n"
                   "}\n");
    assert_true(t.own[0] == compare_default_rtol(DTYPE_F32));
    assert_true(t.own[1] == compare_default_rtol(DTYPE_F32));
    assert_true(compare_default_rtol(DTYPE_F32) < fp8);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products_of_fp8),
                                       cmocka_unit_test(test_scaled_elements_are_of_fp8),
                                       cmocka_unit_test(test_others_go_by_their_type)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
