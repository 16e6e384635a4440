/* The verifier of partitions finds what is broken on purpose, and says where. */
#include "passes/fuse.h"
#include "support.h"

static Support two_kernels(void) {
    Support support = {.text = "graph g (x: f32[M, K], w: f32[K, N], g: f32[N]) -> (y: f32[M, N]) { y = "
                               "rmsnorm(x @ w, g, over=N) }"};
    support_run(&support);
    assert_string_equal(support.kernels, "matmul rows");
    return support;
}

static void expect_broken(Support *support, const char *message) {
    assert_false(partition_verify(support->partition, &support->diags));
    support_messages(support);
    if (!strstr(support->messages, message))
        fail_msg("'%s' is not in\n%s", message, support->messages);
    assert_int_equal(diags_fault(&support->diags), FAULT_INTERNAL);
    support_end(support);
}

static void test_sound(void **state) {
    (void)state;
    Support support = two_kernels();
    assert_true(partition_verify(support.partition, &support.diags));
    support_end(&support);
}

static void test_order(void **state) {
    (void)state;
    Support support = two_kernels();
    Region *first = support.partition->regions.at[0];
    support.partition->regions.at[0] = support.partition->regions.at[1];
    support.partition->regions.at[1] = first;
    expect_broken(&support, "is read before any region has written it");
}

static void test_missing_output(void **state) {
    (void)state;
    Support support = two_kernels();
    support.partition->regions.n = 1;
    expect_broken(&support, "is an output of the graph that no region writes");
}

static void test_missing_input(void **state) {
    (void)state;
    Support support = two_kernels();
    support.partition->regions.at[1]->inputs.n--;
    expect_broken(&support, "is used, but neither computed before nor read");
}

static void test_wrong_space(void **state) {
    (void)state;
    Support support = two_kernels();
    support.partition->regions.at[1]->dims[1] = dim_const(support.graph->dims, 7);
    expect_broken(&support, "is an output whose dims are not of the region's space");
}

static void test_core_in_the_wrong_kind(void **state) {
    (void)state;
    Support support = two_kernels();
    support.partition->regions.at[0]->kind = TEMPLATE_ROWS;
    expect_broken(&support, "begins a region with the wrong number of matmuls");
}

static void test_written_twice(void **state) {
    (void)state;
    Support support = two_kernels();
    Partition *partition = support.partition;
    vec_push(support.arena, &partition->regions, partition->regions.at[1]);
    expect_broken(&support, "is written twice");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound),          cmocka_unit_test(test_order),
        cmocka_unit_test(test_missing_output), cmocka_unit_test(test_missing_input),
        cmocka_unit_test(test_wrong_space),    cmocka_unit_test(test_core_in_the_wrong_kind),
        cmocka_unit_test(test_written_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
