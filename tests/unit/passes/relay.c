/* Products that hand on parts: which become one kernel, what is computed again for it, what keeps kernels
 * apart, and that all of it means what it did. */
#include "support.h"

static const SupportDim *sizes = (const SupportDim[]){{"T", 400}, {NULL, 0}};

static void expect(const char *text, const char *kernels) {
    expect_graph(text, kernels, sizes);
}

/* Of 96 matrices: as many tiles as there have to be. */
#define OPERANDS                                                                                             \
    "q: bf16[96,24,16], k: bf16[96,400,16], v: bf16[96,400,16], g: bf16[96,24,16], l: f32[96,24,1]"
#define GRADIENTS(outputs) "graph g (" OPERANDS ") -> (" outputs ") {\n"
#define WEIGHTS "  p = exp(q @ k.T * 0.2 - l - 3)\n  e = cast(p * (g @ v.T - l), bf16)\n"
#define DQ "dq: bf16[96,24,16]"
#define DK "dk: bf16[96,400,16]"
#define DV "dv: bf16[96,400,16]"

static void test_gradients(void **state) {
    (void)state;
    expect(GRADIENTS(DQ) WEIGHTS "  dq = e @ k }", "relay3");
    /* read transposed: the same the other way around, by itself and beside it */
    expect(GRADIENTS(DK ", " DV) WEIGHTS "  dk = e.T @ q\n  dv = cast(p, bf16).T @ g }", "relay4>2");
    /* so deep that registers have the sums of one product: each has its weights for itself */
    expect("graph g (q: bf16[24,24,144], k: bf16[24,136,144], v: bf16[24,136,144], g: bf16[24,24,144], l: "
           "f32[24,24,1]) -> (dk: bf16[24,136,144], dv: bf16[24,136,144]) {\n" WEIGHTS
           "  dk = e.T @ q\n  dv = cast(p, bf16).T @ g }",
           "relay3 chain2");
    /* unless those are no more than what they are multiplied from: halves of a gate share a projection */
    expect("graph g (x: bf16[6400,256], w: bf16[256,256], u: bf16[512,256], r: bf16[6400,256]) -> (y: "
           "bf16[6400,256]) {\n"
           "  t = cast(x @ w.T + r, bf16)\n  h = layernorm(t) @ u.T\n"
           "  y = cast(h[:, :256] * sigmoid(h[:, 256:]), bf16) + t }",
           "matmul/rows>2 matmul2");
}

/* What is read both ways around is computed one way, and what reads it the other way goes across where
 * every row of it is seen. */
static void test_across(void **state) {
    (void)state;
#define DEEP "q: bf16[48,24,64], k: bf16[48,400,64], v: bf16[48,400,64], g: bf16[48,24,64], l: f32[48,24,1]"
#define MASKED "  dq = cast(f @ k, bf16)\n  dk = f.T @ q }"
#define BOTH "  dq = cast(e @ k, bf16)\n  dk = e.T @ q }"
#define OUTPUTS ") -> (dq: bf16[48,24,64], dk: bf16[48,400,64]) {\n"
    expect("graph g (" DEEP OUTPUTS WEIGHTS BOTH, "relay4>2 pointwise");
    expect(GRADIENTS(DQ ", " DK) WEIGHTS BOTH, "relay4>2 pointwise");
    expect("graph g (" DEEP ", n: i32[48,1,1]" OUTPUTS WEIGHTS "  f = select(index(e, 2) < n, e, 0)\n" MASKED,
           "relay4>2 pointwise");
    /* rows that a matrix' number, or the first column, leaves out */
    expect("graph g (" DEEP ", n: i32[48,1,1]" OUTPUTS WEIGHTS "  f = select(index(e, 1) < n, e, 0)\n" MASKED,
           "relay3 relay3");
    expect("graph g (" DEEP OUTPUTS WEIGHTS "  f = select(index(e, 1) >= index(e, 2) + 1, e, 0)\n" MASKED,
           "relay3 relay3");
    expect("graph g (" DEEP OUTPUTS WEIGHTS "  f = select(index(e, 1) >= index(e, 2), e, 0)\n" MASKED,
           "relay4>2 pointwise");
    /* heads beside each other in memory */
    expect("graph g (q: bf16[24,48,64], k: bf16[400,48,64], v: bf16[400,48,64], g: bf16[24,48,64], l: "
           "f32[48,24,1]" OUTPUTS
           "  a = transpose(q, [1, 0, 2])\n  b = transpose(k, [1, 0, 2])\n  c = transpose(v, [1, 0, 2])\n"
           "  d = transpose(g, [1, 0, 2])\n  p = exp(a @ b.T * 0.2 - l - 3)\n"
           "  e = cast(p * (d @ c.T - l), bf16)\n  dq = cast(e @ b, bf16)\n  dk = e.T @ a }",
           "relay4>2 pointwise");
}

/* What is cut in halves, as a rotation does, stays one product of all its columns. */
static void test_cut(void **state) {
    (void)state;
    expect("graph g (" OPERANDS ") -> (lo: bf16[96,400,8], hi: bf16[96,400,8]) {\n" WEIGHTS
           "  d = e.T @ q\n  lo = d[:, :, 0:8] * 2\n  hi = d[:, :, 8:16] }",
           "relay3 pointwise>2");
}

/* A layer that is run again for its gradient: the rows' sums are of its attention's output as a product read
 * it, heads beside each other, and no kernel computes that twice. */
static void test_layer(void **state) {
    (void)state;
    expect(
        "graph g (q: bf16[24,4,24,16], k: bf16[24,4,400,16], v: bf16[24,4,400,16], w: bf16[64,64]) -> (dk: "
        "bf16[24,4,400,16]) {\n"
        "  p = softmax(q @ k.T * 0.2)\n  o = reshape(transpose(p @ v, [0, 2, 1, 3]), [24, 24, 64])\n"
        "  g = transpose(reshape(tanh(o @ w.T), [24, 24, 4, 16]), [0, 2, 1, 3])\n"
        "  d = cast(g, bf16) @ v.T\n  e = cast(p * (d - sum(p * d, -1)), bf16)\n  dk = e.T @ q }",
        "chain2>3 matmul rows relay3");
}

/* Gradients of a softmax: rows' sums from the output, weights again from the rows' largest and sum. */
static void test_weights(void **state) {
    (void)state;
    expect(GRADIENTS(DQ) "  p = softmax(q @ k.T * 0.2)\n  d = g @ v.T\n"
                         "  dq = cast(p * (d - sum(p * d, -1)), bf16) @ k }",
           "chain2>2 rows relay3");
    /* values of another depth than keys: kernels for either */
    expect("graph g (q: bf16[96,24,16], k: bf16[96,40,16], v: bf16[96,40,32], g: bf16[96,24,32]) -> "
           "(dk: bf16[96,40,16], dv: bf16[96,40,32]) {\n"
           "  p = sigmoid(q @ k.T)\n  dk = cast(p * (g @ v.T), bf16).T @ q\n  dv = cast(p, bf16).T @ g }",
           "relay3 chain2");
    /* heads that share keys, joined with rows */
    expect("graph g (q: bf16[24,4,24,16], k: bf16[24,2,40,16], g: bf16[24,4,24,16]) -> "
           "(dv: f32[24,2,40,16]) {\n"
           "  p = cast(sigmoid(q @ k.T), bf16)\n"
           "  dv = reshape(p, [24,2,48,40]).T @ reshape(g, [24,2,48,16]) }",
           "chain2 columns");
}

static void test_apart(void **state) {
    (void)state;
    /* an output of what lies between; too few rows */
    expect("graph g (" OPERANDS ") -> (p: bf16[96,24,400], o: bf16[96,24,16]) {\n"
           "  p = sigmoid(q @ k.T) * sigmoid(g @ v.T)\n  o = p @ k }",
           "matmul matmul matmul");
    expect("graph g (q: bf16[24,16], k: bf16[400,16], v: bf16[400,16]) -> (o: bf16[24,16]) {\n"
           "  o = sigmoid(q @ k.T) @ v }",
           "matmul matmul");
    /* tiles for some of the SMs, and for too few */
    expect("graph g (q: bf16[50,24,16], k: bf16[50,400,16], v: bf16[50,400,16]) -> (o: bf16[50,24,16]) {\n"
           "  o = sigmoid(q @ k.T) @ v }",
           "relay2");
    expect("graph g (q: bf16[40,24,16], k: bf16[40,400,16], v: bf16[40,400,16]) -> (o: bf16[40,24,16]) {\n"
           "  o = sigmoid(q @ k.T) @ v }",
           "matmul matmul");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradients), cmocka_unit_test(test_across),
                                       cmocka_unit_test(test_cut),       cmocka_unit_test(test_layer),
                                       cmocka_unit_test(test_weights),   cmocka_unit_test(test_apart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
