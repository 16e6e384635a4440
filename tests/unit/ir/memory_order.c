/* Inputs and outputs under layouts: which get memory's order, and what the graph then reads and writes. */
#include "support.h"

#include "ir/memory_order.h"
#include "ir/verify.h"

#define CONST(value) dim_const(bench->dims, value)
#define SYMBOL(name) dim_symbol(bench->dims, name)

static void check_dims(const Value *value, int rank, const Dim *const *dims) {
    assert_int_equal(value->rank, rank);
    for (int i = 0; i < rank; i++)
        assert_ptr_equal(value->dims[i], dims[i]);
}

/* Channels last, of sizes that come at launch. */
BENCH_TEST(test_packed) {
    const Dim *b = SYMBOL("B"), *c = SYMBOL("C"), *n = SYMBOL("N");
    const Dim *dims[] = {b, c, n}, *moved[] = {b, n, c},
              *strides[] = {dim_mul(bench->dims, c, n), CONST(1), c};
    Value *x = graph_add_input(bench->graph, "x", DTYPE_BF16, 3, dims, strides, (Span){0});
    Value *y = graph_append(bench->graph, OP_neg, &x, 1, NULL, (Span){0}, &bench->diags);
    graph_add_output(bench->graph, "y", y, strides, (Span){0});
    assert_true(graph_take_memory_order(bench->graph, &bench->diags));
    assert_true(graph_verify(bench->graph, "memory order", &bench->diags));
    check_dims(x, 3, moved);
    assert_null(x->strides);
    check_dims(y, 3, dims);
    assert_int_equal(y->in[0]->op, OP_transpose);
    assert_ptr_equal(y->in[0]->in[0], x);
    const Output *output = &bench->graph->outputs.at[0];
    check_dims(output->value, 3, moved);
    assert_null(output->strides);
    assert_ptr_equal(output->value->in[0], y);
    assert_false(graph_take_memory_order(bench->graph, &bench->diags)); /* nothing is left to do */
}

/* Gaps between rows stay where they are; axes of one element take no part. */
BENCH_TEST(test_spaced) {
    const Dim *dims[] = {CONST(4), CONST(1), CONST(6)}, *strides[] = {CONST(1), CONST(77), CONST(8)};
    Value *x = graph_add_input(bench->graph, "x", DTYPE_F32, 3, dims, strides, (Span){0});
    graph_add_output(bench->graph, "y", x, NULL, (Span){0});
    assert_true(graph_take_memory_order(bench->graph, &bench->diags));
    check_dims(x, 3, (const Dim *const[]){CONST(1), CONST(6), CONST(4)});
    assert_ptr_equal(x->strides[1], CONST(8));
    assert_ptr_equal(x->strides[2], CONST(1));
    check_dims(bench->graph->outputs.at[0].value, 3, dims);
}

/* In order already; repeated; of strides that nobody knows. */
BENCH_TEST(test_what_stays) {
    const Dim *dims[] = {CONST(4), CONST(6)}, *n = SYMBOL("S");
    const Dim *pitch[] = {CONST(8), CONST(1)}, *repeated[] = {CONST(0), CONST(1)}, *unknown[] = {CONST(1), n};
    const Dim *const *all[] = {pitch, repeated, unknown};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        Value *x = graph_add_input(bench->graph, "x", DTYPE_F32, 2, dims, all[i], (Span){0});
        graph_add_output(bench->graph, "y", x, NULL, (Span){0});
        assert_false(graph_take_memory_order(bench->graph, &bench->diags));
        check_dims(x, 2, dims);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {BENCH_ENTRY(test_packed), BENCH_ENTRY(test_spaced),
                                       BENCH_ENTRY(test_what_stays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
