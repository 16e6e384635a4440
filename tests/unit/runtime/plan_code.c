/* What kernels are apart from names: of layers that come again the same, of others not. */
#include "tests/unit/runtime/plan_bench.h"

/* Layers of one form, but that the first does not wait for a kernel before it and the last lets none start,
 * and one whose factor is another. */
static const char text[] =
    "sinter 1\n"
    "graph layers (x: bf16[256, 1024], a: bf16[1024, 1024], b: bf16[1024, 1024], other: bf16[1024, 1024],\n"
    "              c: bf16[1024, 1024], last: bf16[1024, 1024]) -> (y: bf16[256, 1024])\n"
    "{ h = cast(relu(x @ a.T), bf16); i = cast(relu(h @ b.T), bf16); peculiar = cast(relu(i @ c.T), bf16)\n"
    "  k = cast(relu(peculiar @ other.T) * 3.0, bf16); l = cast(relu(k @ a.T), bf16)\n"
    "  y = cast(relu(l @ last.T), bf16) }\n";

enum { FIRST, SECOND, THIRD, SCALED, AGAIN, LAST, KERNELS };

static void test_forms(void **state) {
    (void)state;
    Bench bench = open_bench(text, NULL, &(sinter_plan_options){.target = "sm_90a"});
    const sinter_plan *plan = bench.plan;
    assert_int_equal(plan->n_kernels, KERNELS);
    const PlanKernel *k = plan->kernels;
    assert_string_equal(k[SECOND].form, k[THIRD].form);
    assert_string_equal(k[SECOND].form, k[AGAIN].form);
    assert_string_not_equal(k[SECOND].cuda, k[THIRD].cuda);
    assert_string_not_equal(k[FIRST].form, k[SECOND].form);
    assert_string_not_equal(k[SCALED].form, k[SECOND].form);
    assert_string_not_equal(k[LAST].form, k[SECOND].form);
    for (int i = 0; i < KERNELS; i++) { /* neither what the graph calls things nor what it says of them */
        Text text = text_new(plan->arena);
        emit_form(&text, k[i].kernel);
        assert_non_null(strstr(text.at, "kernel("));
        assert_null(strstr(text.at, i == THIRD ? "peculiar" : k[i].kernel->name));
    }
    close_bench(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
