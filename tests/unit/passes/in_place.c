/* What lies within another Value's memory: which kernels are left, and where it lies. */
#include "support.h"

#include "ir/view.h"

#define PARTS                                                                                                \
    "graph g (x: bf16[2, 8, 8, 64], w: bf16[64, 1, 1, 64], v: bf16[32, 3, 3, 64], u: bf16[64, 3, 3, 96])\n"  \
    "    -> (z: bf16[2, 8, 8, 64]) {\n"                                                                      \
    "  a = bf16(relu(conv(x, w)))\n  b = bf16(relu(conv(a, v, pad=1)))\n"                                    \
    "  z = relu(conv(concat(a, b, axis=-1), u, pad=1)) }"

static void test_parts(void **state) {
    (void)state;
    Support support = {.text = PARTS};
    support_run(&support);
    assert_string_equal(support.kernels, "matmul matmul matmul");
    const Partition *partition = support.partition;
    assert_int_equal(partition->stored.n, 2);
    assert_int_equal(partition->buffers.n, 1); /* of what is joined, from its first part's kernel on */
    for (size_t i = 0; i < 2; i++) {
        const Stored *stored = &partition->stored.at[i];
        const Dim *first, *strides[RANK_MAX];
        assert_ptr_equal(partition_stored(partition, stored->value, &first), partition->buffers.at[0].value);
        assert_true(dim_is(first, i ? 64 : 0));
        view_base_strides(support.graph, stored->value, strides);
        assert_true(dim_is(strides[0], 96) && dim_is(strides[1], 1));
    }
    support_end(&support);
}

/* A part within a part: places add up. */
static void test_nested(void **state) {
    (void)state;
    Support support = {.text =
                           "graph g (x: bf16[64, 64], w: bf16[32, 64], v: bf16[32, 64], u: bf16[64, 64])\n"
                           "    -> (y: bf16[64, 64], z: bf16[64, 128]) {\n"
                           "  a = bf16(relu(x @ w.T))\n  b = bf16(relu(x @ v.T))\n"
                           "  c = concat(a, b, axis=1)\n  y = bf16(c * 2)\n"
                           "  z = concat(bf16(x @ u.T), c, axis=1) }"};
    support_run(&support);
    const Partition *partition = support.partition;
    int64_t most = 0;
    for (size_t i = 0; i < partition->stored.n; i++) {
        const Dim *first;
        const Value *in = partition_stored(partition, partition->stored.at[i].value, &first);
        assert_true(value_is_output(support.graph, in) && dim_is_const(first));
        most = first->value > most ? first->value : most;
    }
    assert_true(partition->stored.n >= 3 && most == 96);
    assert_int_equal(partition->buffers.n, 0);
    support_end(&support);
}

/* What stays joined by a kernel: an input among the parts, one part twice, parts that begin within a sector.
 */
static void test_left_alone(void **state) {
    (void)state;
    static const char *const texts[] = {
        "graph g (x: bf16[64, 64], w: bf16[32, 64]) -> (y: bf16[64, 96]) {\n"
        "  y = concat(bf16(relu(x @ w.T)), x, axis=1) }",
        "graph g (x: bf16[64, 64], w: bf16[32, 64]) -> (y: bf16[64, 64]) {\n"
        "  a = bf16(relu(x @ w.T))\n  y = concat(a, a, axis=1) }",
        "graph g (x: bf16[64, 64], w: bf16[36, 64], v: bf16[28, 64]) -> (y: bf16[64, 64]) {\n"
        "  y = concat(bf16(relu(x @ w.T)), bf16(relu(x @ v.T)), axis=1) }",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Support support = {.text = texts[i]};
        support_run(&support);
        assert_int_equal(support.partition->stored.n, 0);
        support_end(&support);
    }
}

/* Images for the caller, and their rows for the sums behind: one output, in which the matrix lies. */
static void test_twins(void **state) {
    (void)state;
    Support support = {.text = "graph g (x: bf16[2, 64, 64, 8], w: bf16[64, 3, 3, 8])\n"
                               "    -> (y: f32[2, 64, 64, 64], s: f32[64]) {\n"
                               "  y = conv(x, w, pad=1)\n  s = sum(y, [0, 1, 2], keep=0) }"};
    support_run(&support);
    assert_string_equal(support.kernels, "matmul columns");
    assert_int_equal(support.partition->stored.n, 1);
    assert_ptr_equal(support.partition->stored.at[0].in, support.graph->outputs.at[0].value);
    support_end(&support);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts), cmocka_unit_test(test_nested),
                                       cmocka_unit_test(test_left_alone), cmocka_unit_test(test_twins)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
