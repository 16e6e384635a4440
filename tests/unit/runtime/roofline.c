/* What `sinter bench` measures a graph against: products run at the speed of what their operands are in
 * memory, whatever is computed of it on the way. */
#include "tests/unit/runtime/support.h"

#include "runtime/cli/roofline.h"

static const char *const source =
    "sinter 1\n"
    "graph plain (x: bf16[512, 256], w: bf16[256, 128]) -> (y: bf16[512, 128])\n{ y = x @ w }\n"
    "graph normed (x: bf16[512, 256], g: f32[256], w: bf16[256, 128]) -> (y: bf16[512, 128])\n"
    "{ y = rmsnorm(x, g) @ w }\n"
    "graph scaled (x: e4m3[512, 256], s: f32[512, 2], w: e4m3[256, 128], t: f32[]) -> (y: bf16[512, 128])\n"
    "{ y = dequantize(x, s, block=[1, 128]) @ dequantize(w, t) }\n"
    "graph weights (x: bf16[512, 256], w: i4[256, 128], s: f32[128]) -> (y: bf16[512, 128])\n"
    "{ y = x @ (w * s) }\n"
    "graph single (x: f32[512, 256], w: bf16[256, 128]) -> (y: bf16[512, 128])\n{ y = x @ w }\n"
    "graph rounded (x: f32[512, 256], w: bf16[256, 128]) -> (y: bf16[512, 128])\n{ y = cast(x, bf16) @ w }\n"
    "graph chain (q: e4m3[512, 64], k: e4m3[512, 64], v: bf16[512, 64]) -> (y: bf16[512, 64])\n"
    "{ y = softmax(q @ k.T) @ v }\n";

typedef struct Expected {
    const char *graph;
    double flops, by_16, by_8, by_32; /* multiply-adds of operands of so many bits, 2 each */
} Expected;

static const double product = 2.0 * 512 * 256 * 128, score = 2.0 * 512 * 512 * 64;

static void roofline_body(void *at) {
    sinter_context *context;
    assert_int_equal(sinter_context_create(NULL, &context), SINTER_OK);
    const Expected expected[] = {{"plain", product, product, 0, 0},    {"normed", product, product, 0, 0},
                                 {"scaled", product, 0, product, 0},   {"weights", product, product, 0, 0},
                                 {"single", product, 0, 0, product},   {"rounded", product, product, 0, 0},
                                 {"chain", 2 * score, score, score, 0}};
    const Target *target = target_find("sm_90a");
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const Expected *e = &expected[i];
        sinter_source s = {.size = sizeof s, .text = source, .name = "roofline.sg", .graph = e->graph};
        sinter_graph *graph;
        assert_int_equal(sinter_graph_parse(context, &s, &graph), SINTER_OK);
        Problem problem = {.arena = at, .graph = graph, .g = graph->graph};
        problem.bindings = dim_bindings_new(at, graph->graph->dims);
        Roofline roof = roofline_of(&problem, target);
        double seconds = (e->by_16 + e->by_8 / 2) / target->tensor_flops + e->by_32 / target->fma_flops;
        assert_float_equal(roof.flops, e->flops, 0.5);
        assert_float_equal(roof.compute_us, seconds * 1e6, seconds);
        sinter_graph_destroy(graph);
    }
    sinter_context_destroy(context);
}

static void test_products_run_as_memory_has_them(void **state) {
    (void)state;
    Arena *arena = arena_new(0);
    assert_true(arena_run(arena, roofline_body, arena));
    arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products_run_as_memory_has_them)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
