/* Kernels that are alike: layers that come again are, and what differs in anything that a schedule could
 * depend on is not. */
#include "tests/unit/runtime/plan_bench.h"

#include "runtime/plan_known.h"

static const sinter_plan_options asked = {.target = "sm_90a", .ignore_tuned = 1};

/* Whether kernels i and k of the plan are alike; the same both ways. */
static bool alike(const Bench *bench, int i, int k) {
    const sinter_plan *plan = bench->plan;
    Region *a = plan->kernels[i].region, *b = plan->kernels[k].region;
    bool found = region_is_alike(plan->arena, plan->graph, a, b);
    assert_int_equal(found, region_is_alike(plan->arena, plan->graph, b, a));
    return found;
}

#define LAYERS(third)                                                                                        \
    "sinter 1\n"                                                                                             \
    "graph g (x: bf16[256, 1024], a: bf16[1024, 1024], b: bf16[1024, 1024], c: bf16[1024, 1024],\n"          \
    "         d: bf16[1024, 1024], e: bf16[1024, 1024 : strides=[2048, 1]], v: bf16[1024])\n"                \
    "    -> (y: bf16[256, 1024])\n"                                                                          \
    "{ h = cast(relu(x @ a.T), bf16); i = cast(relu(h @ b.T), bf16); j = cast(" third ", bf16)\n"            \
    "  y = cast(relu(j @ d.T), bf16) }\n"

static bool third_is_alike(const char *text) {
    Bench bench = open_bench(text, NULL, &asked);
    assert_int_equal(bench.plan->n_kernels, 4);
    assert_false(alike(&bench, 0, 1)); /* it waits for nothing */
    assert_false(alike(&bench, 3, 1)); /* nothing waits for it */
    bool found = alike(&bench, 1, 2);
    close_bench(&bench);
    return found;
}

static void test_layers(void **state) {
    (void)state;
    assert_true(third_is_alike(LAYERS("relu(i @ c.T)")));
    assert_true(third_is_alike(LAYERS("relu(i @ a.T)")));
    assert_false(third_is_alike(LAYERS("relu(i @ c)")));   /* an order */
    assert_false(third_is_alike(LAYERS("gelu(i @ c.T)"))); /* an operation */
    assert_false(third_is_alike(LAYERS("relu(i @ c.T, upper=6)")));
    assert_false(third_is_alike(LAYERS("relu(i @ c.T + v)"))); /* a tensor more */
    assert_false(third_is_alike(LAYERS("relu(i @ e.T)")));     /* strides */
    assert_false(third_is_alike(LAYERS("relu(i @ c.T, slope=0.5)")));
}

/* Of which tensor an operand is matters where it is one's own twice. */
static void test_same_operand(void **state) {
    (void)state;
    Bench bench =
        open_bench("sinter 1\n"
                   "graph g (x: f32[512, 512], z: f32[512, 512]) -> (y: f32[512, 512], w: f32[512, 512])\n"
                   "{ y = transpose(x, [1, 0]) * x;  w = transpose(x, [1, 0]) * z  @fuse(never) }\n",
                   NULL, &asked);
    bool any = false;
    for (int i = 0; i < bench.plan->n_kernels; i++)
        for (int k = 0; k < i; k++)
            any |= alike(&bench, i, k);
    assert_false(any);
    assert_true(alike(&bench, 0, 0));
    close_bench(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layers), cmocka_unit_test(test_same_operand)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
