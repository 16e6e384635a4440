/* How many kernels graphs become, and which. */
#include "support.h"

static void test_matmul_epilogues(void **state) {
    (void)state;
    expect_graph("graph g (x: bf16[M, K], w: bf16[N, K], b: bf16[N]) -> (y: bf16[M, N]) { y = gelu(x @ w.T + "
                 "b, approx=tanh) }",
                 "matmul", DIMS({"M", 5}, {"K", 16}, {"N", 8}));
    expect_graph("graph g (x: bf16[M, K], wg: bf16[N, K], wu: bf16[N, K]) -> (y: bf16[M, N]) { y = silu(x @ "
                 "wg.T) * (x @ wu.T) }",
                 "matmul2", DIMS({"M", 5}, {"K", 16}, {"N", 8}));
    expect_graph(
        "graph g (q: bf16[B, S, D], k: bf16[B, T, D]) -> (p: bf16[B, S, T]) { p = q @ k.T * rsqrt(D) }",
        "matmul", DIMS({"B", 2}, {"S", 3}, {"T", 5}, {"D", 8}));
}

static void test_products_take_what_reads_the_same(void **state) {
    (void)state;
    const SupportDim dims[] = {{"M", 5}, {"K", 16}, {"N", 8}, {NULL, 0}};
    expect_graph("graph g (x: bf16[M, K], w: bf16[K, N], g: bf16[M, N], u: bf16[M, N]) -> (a: bf16[M, N], b: "
                 "bf16[M, N], h: bf16[M, N]) {\n"
                 "  d = x @ w\n  h = silu(g) * u\n  a = d * silu(g)\n  b = silu_backward(d * u, g) }",
                 "matmul>3", dims);
    /* rows that the product joins */
    expect_graph("graph g (x: bf16[2, 5, 16], w: bf16[16, 8], g: bf16[2, 5, 8], u: bf16[2, 5, 8]) -> (a: "
                 "bf16[2, 5, 8], b: bf16[2, 5, 8], h: bf16[2, 5, 8], k: bf16[2, 5, 8]) {\n"
                 "  d = x @ w\n  h = silu(g) * u\n  k = 2 * h\n  a = d * silu(g)\n"
                 "  b = silu_backward(d * u, g) }",
                 "matmul>4", NULL);
    expect_graph("graph g (x: bf16[2, M, K], w: bf16[K, N], g: bf16[2, M, N], u: bf16[2, M, N]) -> (a: "
                 "bf16[2, M, N], h: bf16[2, M, N]) {\n  h = silu(g) * u\n  a = x @ w * silu(g) - u }",
                 "matmul>2", DIMS({"M", 5}, {"K", 16}, {"N", 8}));
    expect_graph(
        "graph g (x: bf16[2, M, 64], w: bf16[64, 8], r: bf16[2, M, 8]) -> (y: bf16[2, M, 8], s: f32[2, "
        "8]) {\n  y = x @ w + r\n  s = sum(relu(r), over=1, keep=0) }",
        "columns matmul", DIMS({"M", 5}));
    /* v would be read besides */
    expect_graph("graph g (x: bf16[M, K], w: bf16[K, N], r: bf16[M, N], v: bf16[M, N]) -> (y: bf16[M, N], z: "
                 "bf16[M, N]) {\n  y = x @ w + r\n  z = r * v }",
                 "matmul pointwise", dims);
    /* x comes to the product by another way than to what follows it */
    expect_graph("graph g (x: bf16[M, 16], w: bf16[16, 16]) -> (y: bf16[M, 16], z: bf16[M, 16]) {\n"
                 "  y = x @ w + x\n  z = relu(x) }",
                 "matmul pointwise", DIMS({"M", 5}));
    /* another product waits for both */
    expect_graph("graph g (x: bf16[M, K], w: bf16[K, N], r: bf16[M, N], v: bf16[N, N]) -> (y: bf16[M, N], t: "
                 "bf16[M, N]) {\n  y = x @ w + r\n  z = cast(relu(r), bf16)\n  t = z @ v + y }",
                 "matmul>2 matmul", dims);
}

static void test_packed_swiglu_is_dual(void **state) {
    (void)state;
    expect_graph("graph g (x: bf16[M, K], w: bf16[1024, K]) -> (y: bf16[M, 512]) {\n"
                 "  h = x @ w.T\n  y = silu(h[:, 0:512]) * h[:, 512:1024] }",
                 "matmul2", DIMS({"M", 3}, {"K", 4}));
}

static void test_matmul_rows(void **state) {
    (void)state;
    const char *short_rows =
        "graph g (x: bf16[M, K], w: bf16[256, K], r: bf16[M, 256], g: f32[256]) -> (y: bf16[M, 256]) {\n"
        "  y = rmsnorm(x @ w.T + r, g, over=-1) }";
    expect_graph(short_rows, "matmul/rows", DIMS({"M", 3}, {"K", 8}));
    expect_graph("graph g (x: bf16[M, K], w: bf16[256, K], r: bf16[M, 256], g: f32[256]) -> (s: bf16[M, "
                 "256], y: bf16[M, 256]) {\n"
                 "  t = x @ w.T + r\n  s = t\n  y = rmsnorm(t, g, over=-1) }",
                 "matmul/rows>2", DIMS({"M", 3}, {"K", 8}));
    expect_graph("graph g (x: bf16[M, K], w: bf16[N, K], r: bf16[M, N], g: f32[N]) -> (s: bf16[M, N], y: "
                 "bf16[M, N]) {\n"
                 "  t = x @ w.T + r\n  s = t\n  y = rmsnorm(t, g, over=-1) }",
                 "matmul>2 rows", DIMS({"M", 3}, {"K", 8}, {"N", 12}));
    expect_graph("graph g (x: f32[N, 64], w: f32[64, 10], b: f32[10]) -> (d: i64[N]) { d = argmax(x @ w + b, "
                 "over=-1, keep=0) }",
                 "matmul/rows", DIMS({"N", 5}));
}

/* A product of `m` rows and 4096 columns, and what is done with its rows, which blocks do not share. */
static void expect_guest(const char *m, const char *k, const char *rows, const char *kernels) {
    Arena *arena = arena_new(0);
    Support support = {.limits = support_limits()};
    support.limits.matmul_gang_row_max = 0;
    support.text = text_format(arena,
                               "graph g (x: bf16[%s, %s], w: bf16[4096, %s], r: bf16[%s, 4096], g: "
                               "bf16[4096]) -> (s: bf16[%s, 4096], y: bf16[%s, 4096]) {\n"
                               "  s = x @ w.T + r\n  y = %s }",
                               m, k, k, m, m, m, rows);
    support_run(&support);
    assert_string_equal(support.messages, "");
    assert_string_equal(support.kernels, kernels);
    support_end(&support);
    arena_free(arena);
}

static void test_guests(void **state) {
    (void)state;
    const char *norm = "rmsnorm(s, g, over=-1)", *asked = "rmsnorm(s, g, over=-1)   @fuse(guest)";
    expect_guest("8192", "4096", norm, "matmul+rows");
    expect_guest("8192", "4096", "layernorm(s, g, g, over=-1)", "matmul+rows");
    expect_guest("8192", "128", norm, "matmul rows"); /* rows would not keep up */
    expect_guest("512", "4096", norm, "matmul rows"); /* all rows are left when the only round ends */
    expect_guest("M", "4096", norm, "matmul rows");
    /* what the graph says goes before the estimate, but not before what can be */
    expect_guest("8192", "4096", "rmsnorm(s, g, over=-1)   @fuse(guest=false)", "matmul rows");
    expect_guest("512", "128", asked, "matmul+rows");
    expect_guest("M", "128", asked, "matmul rows");
    expect_guest("8192", "4096", "softmax(concat(s[1:], s[:1], axis=0), over=-1)   @fuse(guest)",
                 "matmul rows");
}

/* The gradients of a linear layer of `n` outputs from `k` rows: `text` in what order, and what else there is.
 */
static void expect_columns(const char *k, const char *n, const char *text, const char *kernels) {
    Arena *arena = arena_new(0);
    Support support = {.limits = support_limits()};
    support.text = text_format(arena,
                               "graph g (x: bf16[%s, 1024], dy: bf16[%s, %s], w: bf16[%s, 1024], u: bf16[%s, "
                               "%s]) -> (dw: bf16[%s, 1024], db: bf16[%s], dx: bf16[%s, 1024]) { %s }",
                               k, k, n, n, k, n, n, n, k, text);
    support_run(&support);
    assert_string_equal(support.messages, "");
    assert_string_equal(support.kernels, kernels);
    support_end(&support);
    arena_free(arena);
}

static void test_guests_of_columns(void **state) {
    (void)state;
    const char *gradients = "dw = dy.T @ x\n  db = sum(dy, over=0, keep=0)\n  dx = dy @ w";
    expect_columns("8192", "4096", gradients, "matmul+columns matmul columns");
    /* the sums go up to the product before them, or the product goes up to them */
    expect_columns("8192", "4096", "dx = dy @ w\n  dw = dy.T @ x\n  db = sum(dy, over=0, keep=0)",
                   "matmul+columns matmul columns");
    expect_columns("8192", "4096", "db = sum(dy, over=0, keep=0)\n  dw = dy.T @ x\n  dx = dy @ w",
                   "matmul+columns matmul columns");
    expect_columns("8192", "256", gradients, "matmul matmul columns columns"); /* they would not keep up */
    expect_columns("8192", "4096", "dw = dy.T @ x\n  db = sum(u, over=0, keep=0)\n  dx = dy @ w",
                   "matmul matmul columns columns"); /* no product reads it */
    /* what is told, and what cannot be: sums that the product waits for */
    expect_columns("1024", "256",
                   "dw = dy.T @ x\n  db = sum(dy, over=0, keep=0)   @fuse(guest)\n  dx = dy @ w",
                   "matmul+columns matmul");
    expect_columns("1024", "4096",
                   "dw = dy.T @ x\n  db = sum(dy, over=0, keep=0)   @fuse(guest=false)\n  dx = dy @ w",
                   "matmul matmul columns");
    expect_columns("1024", "256",
                   "db = sum(dy, over=0, keep=0)   @fuse(guest)\n  dx = (dy * db) @ w\n  dw = u.T @ x",
                   "columns matmul matmul");
}

/* A guest's place is its host's: the kernels behind it close up. */
static void test_guest_is_numbered(void **state) {
    (void)state;
    Support support = {.text = "graph g (x: bf16[8192, 4096], w: bf16[4096, 4096], u: bf16[64, 4096]) -> (y: "
                               "bf16[8192, 64]) {\n"
                               "  s = x @ w.T\n  n = softmax(s, over=-1)   @fuse(guest)\n  y = n @ u.T }",
                       .limits = support_limits()};
    support.limits.matmul_gang_row_max = 0;
    support_run(&support);
    assert_string_equal(support.messages, "");
    assert_string_equal(support.kernels, "matmul+rows matmul");
    const Region *host = support.partition->regions.at[0], *last = support.partition->regions.at[1];
    assert_true(!host->follows && host->leads && last->follows && !last->leads);
    assert_int_equal(last->id, 1);
    assert_string_equal(last->name, "g_1_y");
    assert_int_equal(support.partition->buffers.n, 2); /* s and n: both live while the host runs */
    assert_ptr_not_equal(support.partition->buffers.at[0].offset, support.partition->buffers.at[1].offset);
    support_end(&support);
}

static void test_chains(void **state) {
    (void)state;
    const SupportDim *dims = DIMS({"M", 3});
    const char *mlp =
        "graph g (x: bf16[M, 64], w: bf16[256, 64], b: bf16[256], u: bf16[128, 256]) -> (y: bf16[M, 128]) {\n"
        "  h = relu(x @ w.T + b)\n  y = relu(h @ u.T) }";
    expect_graph(mlp, "chain2", dims);
    expect_graph(
        "graph g (x: bf16[M, 64], w: bf16[64, 64], u: bf16[64, 64], t: bf16[64, 64]) -> (y: bf16[M, 64]) {\n"
        "  y = relu(relu(relu(x @ w.T) @ u.T) @ t.T) }",
        "chain3", dims);
    expect_graph(
        "graph g (q: bf16[8, M, 64], k: bf16[8, 77, 64], v: bf16[8, 77, 64]) -> (y: bf16[8, M, 64]) {\n"
        "  y = softmax(q @ k.T) @ v }",
        "chain2", dims);
    expect_graph(
        "graph g (q: bf16[8, M, 64], k: bf16[8, 257, 64], v: bf16[8, 257, 64]) -> (y: bf16[8, M, 64]) {\n"
        "  y = softmax(q @ k.T) @ v }",
        "chain2", dims);
    /* longer rows of a softmax come in parts; others, and rows that no chain ends, are in blocks that run
     * together */
    expect_graph(
        "graph g (q: bf16[8, 64, 64], k: bf16[8, 336, 64], v: bf16[8, 336, 64]) -> (y: bf16[8, 64, 64]) {\n"
        "  y = attention(q, k, v, causal=true) }",
        "chain2", dims);
    expect_graph(
        "graph g (q: bf16[8, 64, 64], k: bf16[8, 336, 64], v: bf16[8, 336, 64]) -> (y: bf16[8, 64, 64],\n"
        "  p: bf16[8, 64, 336]) { p = softmax(q @ k.T)\n  y = p @ v }",
        "matmul/rows matmul", dims);
    expect_graph(
        "graph g (q: bf16[8, 64, 64], k: bf16[8, 336, 64], v: bf16[8, 336, 64]) -> (y: bf16[8, 64, 64]) {\n"
        "  y = rmsnorm(q @ k.T) @ v }",
        "matmul/rows matmul", dims);
    expect_graph(/* few rows */
                 "graph g (q: bf16[8, M, 64], k: bf16[8, 336, 64], v: bf16[8, 336, 64]) -> (y: bf16[8, M, "
                 "64]) where M <= 8 {\n"
                 "  y = softmax(q @ k.T) @ v }",
                 "matmul/rows matmul", dims);
    expect_graph(
        "graph g (q: bf16[8, M, 64], k: bf16[8, 257, 64]) -> (y: bf16[8, M, 257]) { y = softmax(q @ k.T) }",
        "matmul/rows", dims);
    /* what lies between is needed elsewhere */
    expect_graph(
        "graph g (x: bf16[M, 64], w: bf16[64, 64], u: bf16[64, 64]) -> (h: bf16[M, 64], y: bf16[M, 64]) {\n"
        "  h = relu(x @ w.T)\n  y = relu(h @ u.T) }",
        "matmul matmul", dims);
    expect_graph("graph g (x: bf16[M, 64], w: bf16[64, 64], u: bf16[64, 64]) -> (y: bf16[M, 64]) {\n"
                 "  h = relu(x @ w.T)\n  y = h @ u.T + h }",
                 "matmul matmul", dims);
    /* the second operand of the second product is computed from the first product */
    expect_graph("graph g (x: bf16[64, 64], w: bf16[64, 64]) -> (y: bf16[64, 64]) {\n"
                 "  h = relu(x @ w.T)\n  y = h @ h.T }",
                 "matmul matmul", dims);
    /* operands that TMA cannot read; types that tensor cores do not take */
    expect_graph("graph g (x: bf16[M, 33], w: bf16[64, 33], u: bf16[64, 64]) -> (y: bf16[M, 64]) {\n"
                 "  y = relu(relu(x @ w.T) @ u.T) }",
                 "matmul matmul", dims);
    expect_graph("graph g (x: f32[M, 64], w: f32[64, 64], u: f32[64, 64]) -> (y: f32[M, 64]) {\n"
                 "  y = relu(relu(x @ w.T) @ u.T) }",
                 "matmul matmul", dims);
    expect_graph("graph g (x: bf16[M, 64], w: bf16[64, 64], u: bf16[64, 64]) -> (y: bf16[M, 64]) {\n"
                 "  h = relu(x @ w.T) @fuse(never)\n  y = relu(h @ u.T) }",
                 "matmul matmul", dims);
    /* 256 columns in the middle leave no registers for what they are computed from */
    expect_graph("graph g (x: bf16[M, 64], w: bf16[256, 64], u: bf16[256, 256], t: bf16[64, 256]) -> (y: "
                 "bf16[M, 64]) {\n"
                 "  y = relu(relu(relu(x @ w.T) @ u.T) @ t.T) }",
                 "chain2 matmul", dims);
    /* rows of the last product that are longer than a block holds are no chain's, where blocks might share
     * them */
    Support gang = {
        .text = "graph g (x: bf16[20000, 64], w: bf16[64, 64], u: bf16[304, 64]) -> (y: bf16[20000, 304]) {\n"
                "  y = softmax(relu(x @ w.T) @ u.T) }",
        .limits = support_limits()};
    gang.limits.matmul_gang_row_max = 4096;
    gang.limits.sm_count = 132;
    gang.limits.memory_bytes_per_second = 4e12;
    gang.limits.tensor_flops = 800e12;
    support_run(&gang);
    assert_string_equal(gang.kernels, "chain2 rows");
    support_end(&gang);
    Support none = {.text = mlp, .limits = support_limits()};
    none.limits.chain_columns_max = 0;
    support_run(&none);
    assert_string_equal(none.kernels, "matmul matmul");
    support_end(&none);
}

/* Products that are added up, in one kernel's accumulators. */
static void test_sums_of_products(void **state) {
    (void)state;
    const SupportDim *dims = DIMS({"M", 3});
    const char *two =
        "graph g (x: bf16[M, 64], w: bf16[96, 64], h: bf16[M, 40], u: bf16[96, 40]) -> (y: bf16[M, 96]) {\n"
        "  y = sigmoid(x @ w.T + h @ u.T) }";
    expect_graph(two, "matmul2", dims);
    expect_graph(
        "graph g (x: bf16[M, 4096], w: bf16[4096, 4096], a: bf16[16, 4096], b: bf16[4096, 16], s: f32)\n"
        "    -> (y: bf16[M, 4096]) { y = x @ w.T + s * (cast(x @ a.T, bf16) @ b.T) }",
        "matmul matmul2", NULL);
    expect_graph("graph g (x: bf16[64, 64], w: bf16[96, 64], a: bf16[16, 64], b: bf16[96, 16]) -> (y: "
                 "bf16[64, 96]) {\n"
                 "  y = x @ w.T + 2 * (x @ a.T) @ b.T }",
                 "matmul matmul2", NULL); /* no chain of the last two */
    /* columns in more than two parts stay with their sum */
    expect_graph("graph g (x: bf16[M, 64], w: bf16[96, 64], h: bf16[M, 40], u: bf16[96, 40]) -> (p: bf16[M, "
                 "32], q: bf16[M, 32], r: bf16[M, 32]) {\n"
                 "  y = x @ w.T + h @ u.T\n  p = y[:, 0:32]\n  q = y[:, 32:64]\n  r = y[:, 64:96] }",
                 "matmul2>3", dims);
    /* what lies between is element by element, and the last product is added as it is */
    expect_graph("graph g (x: bf16[M, 64], w: bf16[96, 64], h: bf16[M, 40], u: bf16[96, 40], b: f32[96])\n"
                 "    -> (y: bf16[M, 96]) { y = gelu(x @ w.T + b) + h @ u.T }",
                 "matmul2", dims);
    expect_graph("graph g (x: bf16[M, 64], w: bf16[96, 64], h: bf16[M, 40], u: bf16[96, 40]) -> (y: bf16[M, "
                 "96]) { y = relu(x @ w.T) + relu(h @ u.T) }",
                 "matmul matmul", dims);
    /* three; rows of the sum; its columns that trade places */
    expect_graph("graph g (x: bf16[M, 64], w: bf16[96, 64], h: bf16[M, 40], u: bf16[96, 40], k: bf16[M, 8], "
                 "v: bf16[96, 8]) -> (y: bf16[M, 96]) { y = (x @ w.T + h @ u.T) * 2 + k @ v.T }",
                 "matmul3", dims);
    expect_graph("graph g (x: bf16[M, 64], w: bf16[96, 64], h: bf16[M, 40], u: bf16[96, 40]) -> (y: bf16[M, "
                 "96]) { y = softmax(x @ w.T + h @ u.T) }",
                 "matmul2/rows", dims);
    expect_graph("graph g (x: bf16[M, 64], w: bf16[96, 64], h: bf16[M, 40], u: bf16[96, 40], c: f32[M, 1, 8])"
                 " -> (y: bf16[M, 96]) {\n"
                 "  y = reshape(rope(reshape(x @ w.T + h @ u.T, dims=[M, 6, 16]), c, c), dims=[M, 96]) }",
                 "matmul2", dims);
    /* one of them is needed elsewhere, or for the other */
    expect_graph("graph g (x: bf16[M, 64], w: bf16[96, 64], h: bf16[M, 40], u: bf16[96, 40]) -> (p: bf16[M, "
                 "96], y: bf16[M, 96]) {\n"
                 "  p = relu(x @ w.T)\n  y = p + h @ u.T }",
                 "matmul matmul", dims);
    expect_graph("graph g (x: bf16[M, 96], w: bf16[96, 96], u: bf16[96, 96]) -> (y: bf16[M, 96]) {\n"
                 "  p = x @ w.T   @fuse(never)\n  y = p + cast(p, bf16) @ u.T }",
                 "matmul matmul", dims);
    /* types that differ, or that no matrix instruction takes */
    expect_graph("graph g (x: bf16[M, 64], w: bf16[96, 64], h: f16[M, 40], u: f16[96, 40]) -> (y: bf16[M, "
                 "96]) { y = x @ w.T + h @ u.T }",
                 "matmul matmul", dims);
    expect_graph("graph g (x: f32[M, 64], w: f32[96, 64], h: f32[M, 40], u: f32[96, 40]) -> (y: f32[M, "
                 "96]) { y = x @ w.T + h @ u.T }",
                 "matmul matmul", dims);
    /* few tiles and a long K, which blocks share where factors alone lie between; a row */
    expect_graph("graph g (x: bf16[256, 8192], w: bf16[256, 8192], h: bf16[256, 40], u: bf16[256, 40]) -> "
                 "(y: bf16[256, 256]) { y = x @ w.T - 3 * (h @ u.T) / 7 }",
                 "matmul2", NULL);
    expect_graph("graph g (x: bf16[256, 8192], w: bf16[256, 8192], h: bf16[256, 40], u: bf16[256, 40]) -> "
                 "(y: bf16[256, 256]) { y = x @ w.T + relu(h @ u.T) }",
                 "matmul matmul", NULL);
    expect_graph("graph g (x: bf16[1, 2048], w: bf16[2048, 2048], h: bf16[1, 40], u: bf16[2048, 40]) -> "
                 "(y: bf16[1, 2048]) { y = x @ w.T + h @ u.T }",
                 "matmul matmul", NULL);
    /* one first operand: side by side */
    expect_graph("graph g (x: bf16[M, 64], w: bf16[96, 64], u: bf16[96, 64]) -> (y: bf16[M, 96]) {\n"
                 "  y = x @ w.T + x @ u.T }",
                 "matmul2", dims);
    Support none = {.text = two, .limits = support_limits()};
    none.limits.adds_products = false;
    support_run(&none);
    assert_string_equal(none.kernels, "matmul matmul");
    support_end(&none);
}

/* Columns of a product that trade places, or are cut apart, within what one thread holds. */
static void test_columns_of_a_product(void **state) {
    (void)state;
    const char *half =
        "graph g (x: bf16[M, 16], w: bf16[64, 16], c: f32[M, 8], s: f32[M, 8]) -> (y: bf16[M, 64]) {\n"
        "  h = reshape(x @ w.T, dims=[M, 4, 16])\n"
        "  r = rope(h, reshape(c, dims=[M, 1, 8]), reshape(s, dims=[M, 1, 8]))\n"
        "  y = reshape(r, dims=[M, 64]) }";
    expect_graph(half, "matmul", DIMS({"M", 3}));
    expect_graph("graph g (x: bf16[M, 16], w: bf16[48, 16], c: f32[M, 4]) -> (q: bf16[M, 2, 8], k: bf16[M, "
                 "16], v: f32[M, 16]) {\n"
                 "  h = x @ w.T\n  q0 = reshape(h[:, 0:16], dims=[M, 2, 8])\n"
                 "  q = rope(q0, reshape(c, dims=[M, 1, 4]), 0.5, interleaved=true)\n"
                 "  k = relu(h[:, 16:32])\n  v = h[:, 32:48] }",
                 "matmul>3", DIMS({"M", 3}));
    /* halves of 512 columns lie in two tiles, a shift by one in two threads, and exact products in other
     * fragments */
    expect_graph("graph g (x: bf16[M, 16], w: bf16[1024, 16]) -> (y: bf16[M, 1024]) {\n"
                 "  h = x @ w.T\n  y = h + concat(h[:, 512:1024], h[:, 0:512], axis=-1) }",
                 "matmul pointwise", NULL);
    expect_graph("graph g (x: bf16[M, 16], w: bf16[64, 16]) -> (y: bf16[M, 64]) {\n"
                 "  h = x @ w.T\n  y = h + concat(h[:, 1:64], h[:, 0:1], axis=-1) }",
                 "matmul pointwise", DIMS({"M", 3}));
    expect_graph("graph g (x: f32[M, 16], w: f32[64, 16]) -> (y: f32[M, 64]) {\n"
                 "  h = x @ w.T\n  y = h + concat(h[:, 32:64], h[:, 0:32], axis=-1) }",
                 "matmul pointwise", DIMS({"M", 3}));
}

/* A few statistics of each row, side by side, and what is made of them. */
static void test_few_of_a_row(void **state) {
    (void)state;
    expect_graph("graph g (x: bf16[M, 8], w: bf16[16, 8]) -> (v: f32[M, 3], i: i64[M, 3]) {\n"
                 "  t, i = topk(softmax(x @ w.T), 3)\n  v = t / sum(t, over=-1) }",
                 "matmul/rows>2", DIMS({"M", 3}));
    expect_graph("graph g (x: f32[M, D]) -> (v: bf16[M, 2], s: f32[M, D]) {\n"
                 "  s = exp(x)\n  t, i = topk(s, 2)\n  v = softmax(t) }",
                 "rows>2", DIMS({"M", 3}, {"D", 12}));
    /* an element of the row itself is no statistic */
    expect_graph("graph g (x: f32[M, 16]) -> (v: f32[M, 2], s: f32[M, 16]) {\n"
                 "  s = softmax(x)\n  v = concat(s[:, 0:1], amax(s, -1), axis=-1) }",
                 "rows>2 pointwise", DIMS({"M", 3}));
}

static void test_rows(void **state) {
    (void)state;
    const SupportDim *dims = DIMS({"M", 3}, {"D", 16});
    expect_graph("graph g (x: bf16[M, D]) -> (y: bf16[M, D]) { y = softmax(x) }", "rows", dims);
    expect_graph("graph g (x: bf16[M, D]) -> (y: f32[M, D]) { y = log_softmax(x) }", "rows", dims);
    expect_graph(
        "graph g (x: bf16[M, D], g: f32[D], b: f32[D]) -> (y: bf16[M, D]) { y = layernorm(x, g, b, over=D) }",
        "rows", dims);
    expect_graph("graph g (x: bf16[M, D], g: f32[D]) -> (y: bf16[M, D]) { y = rmsnorm(x, g, over=D) }",
                 "rows", dims);
    expect_graph("graph g (x: bf16[M, D], g: f32[D], b: f32[D]) -> (y: bf16[M, D]) {\n"
                 "  mu = mean(x, D)\n  d = x - mu\n  y = d * rsqrt(mean(d * d, D) + 1e-5) * g + b }",
                 "rows", dims);
    expect_graph("graph g (x: bf16[M, D], l: i32[M]) -> (y: f32[M]) { y = cross_entropy(x, l) }", "rows",
                 dims);
    expect_graph("graph g (x: f32[M, D], y: f32[M, D]) -> (c: f32[M]) {\n"
                 "  c = sum(x * y, D, keep=0) * rsqrt(sum(x * x, D, keep=0) * sum(y * y, D, keep=0)) }",
                 "rows", dims);
    expect_graph("graph g (x: f32[M, D]) -> (q: i8[M, D], s: f32[M, 1]) {\n"
                 "  s = amax(x, D) / 127\n  q = cast(round(x / s), dtype=i8) }",
                 "rows>2", dims);
}

static void test_group_and_instance_norm(void **state) {
    (void)state;
    expect_graph("graph g (x: bf16[N, S, 8, G], g: f32[8, G], b: f32[8, G]) -> (y: bf16[N, S, 8, G]) {\n"
                 "  mu = mean(x, over=[1, 3])\n  d = x - mu\n"
                 "  y = silu(d * rsqrt(mean(d * d, over=[1, 3]) + 1e-5) * g + b) }",
                 "rows", DIMS({"N", 2}, {"S", 6}, {"G", 4}));
    expect_graph("graph g (x: f16[N, C, S], g: f32[C, 1], b: f32[C, 1]) -> (y: f16[N, C, S]) {\n"
                 "  d = x - mean(x, over=S)\n  y = d * rsqrt(mean(d * d, over=S) + 1e-5) * g + b }",
                 "rows", DIMS({"N", 2}, {"S", 6}, {"C", 4}));
    expect_graph("graph g (x: bf16[N, 32, H, W], g: f32[32], b: f32[32]) -> (y: bf16[N, 32, H, W]) {\n"
                 "  t = reshape(x, dims=[N, 8, 4, H, W])\n  d = t - mean(t, over=[2, 3, 4])\n"
                 "  n = reshape(d * rsqrt(mean(d * d, over=[2, 3, 4]) + 1e-5), dims=[N, 32, H, W])\n"
                 "  y = silu(n * reshape(g, dims=[32, 1, 1]) + reshape(b, dims=[32, 1, 1])) }",
                 "rows", DIMS({"N", 2}, {"H", 3}, {"W", 2}));
}

static void test_columns(void **state) {
    (void)state;
    expect_graph("graph g (x: f32[M, N]) -> (s: f32[N]) { s = sum(x, over=0, keep=0) }", "columns",
                 DIMS({"M", 5}, {"N", 4}));
    expect_graph(
        "graph g (x: f16[N, S, C], m: f32[C], v: f32[C], g: f32[C], b: f32[C]) -> (y: f16[N, S, C]) {\n"
        "  y = relu((x - m) * rsqrt(v + 1e-5) * g + b) }",
        "pointwise", DIMS({"N", 2}, {"S", 3}, {"C", 4}));
    expect_graph("graph g (x: f16[N, S, C], g: f32[C], b: f32[C]) -> (y: f16[N, S, C], mu: f32[1, 1, C]) {\n"
                 "  mu = mean(x, over=[0, 1])\n  d = x - mu\n"
                 "  y = d * rsqrt(mean(d * d, over=[0, 1]) + 1e-5) * g + b }",
                 "columns>2 pointwise", DIMS({"N", 2}, {"S", 3}, {"C", 4}));
    expect_graph("graph g (x: f16[N, S, C], g: f32[C], b: f32[C]) -> (y: f16[N, S, C]) {\n"
                 "  d = x - mean(x, over=1)\n  y = d * rsqrt(mean(d * d, over=1) + 1e-5) * g + b }",
                 "columns>2 pointwise", DIMS({"N", 2}, {"S", 3}, {"C", 4}));
}

static void test_pointwise(void **state) {
    (void)state;
    expect_graph(
        "graph g (x: bf16[M, D], r: bf16[M, D], seed: i64[]) -> (y: bf16[M, D], keep: bool[M, D]) {\n"
        "  kept = uniform(seed, dims=[M, D]) >= 0.1\n  keep = kept\n  y = select(kept, x * (1 / 0.9), 0.0) + "
        "r }",
        "pointwise>2", DIMS({"M", 3}, {"D", 4}));
    expect_graph("graph g (x: bf16[B, S, H, 64], c: f32[S, 32], s: f32[S, 32]) -> (y: bf16[B, S, H, 64]) {\n"
                 "  lo = x[:, :, :, 0:32]\n  hi = x[:, :, :, 32:64]\n"
                 "  cc = reshape(c, dims=[1, S, 1, 32])\n  ss = reshape(s, dims=[1, S, 1, 32])\n"
                 "  y = concat(lo * cc - hi * ss, hi * cc + lo * ss, axis=-1) }",
                 "pointwise", DIMS({"B", 1}, {"S", 2}, {"H", 2}));
    expect_graph("graph g (x: f32[N]) -> (a: f32[N], b: f32[N]) { a = relu(x); b = x * 2 }", "pointwise>2",
                 DIMS({"N", 7}));
}

static void test_borders(void **state) {
    (void)state;
    expect_graph("graph g (x: f32[N]) -> (y: f32[N]) { y = x }", "pointwise", DIMS({"N", 3}));
    expect_graph("graph g (x: f32[N]) -> (y: f32[N], z: f32[N]) { y = x + 1; z = y }", "pointwise>2",
                 DIMS({"N", 3}));
    expect_graph("graph g (x: f32[M, N]) -> (y: f32[N, M]) { y = x.T }", "transpose",
                 DIMS({"M", 3}, {"N", 2}));
    expect_graph("graph g (x: f32[512, 512]) -> (y: f32[512, 512]) { y = relu(x.T) }", "transpose", NULL);
    expect_graph("graph g (x: f32[8, 1024, 512]) -> (y: f32[8, 512, 1024]) { y = exp(x).T }", "transpose",
                 NULL);
}

static void test_quantized_matmul(void **state) {
    (void)state;
    expect_graph(
        "graph g (x: e4m3[M, K], w: e4m3[N, K], sx: f32[], sw: f32[], b: bf16[N]) -> (y: bf16[M, N]) {\n"
        "  y = dequantize(x, sx) @ dequantize(w, sw).T + b }",
        "matmul", DIMS({"M", 3}, {"K", 16}, {"N", 8}));
    expect_graph("graph g (x: i8[M, 64], w: i8[N, 64], sx: f32[M, 1], sw: f32[N, 1]) -> (y: f32[M, N]) {\n"
                 "  y = (x * sx) @ (w * sw).T }",
                 "matmul", DIMS({"M", 3}, {"N", 8}));
}

static int decisions_with(const Support *support, const char *words) {
    int n = 0;
    for (size_t i = 0; i < support->partition->decisions.n; i++)
        n += strstr(support->partition->decisions.at[i].why, words) != NULL;
    return n;
}

/* However many tiles read them, operands with a factor a block stay as they are in memory. */
static void test_block_scaled_matmul(void **state) {
    (void)state;
    const char *text =
        "graph g (x: e4m3[M, K], w: e4m3[N, K], sx: f32[M, K / 128], sw: f32[N / 128, K / 128]) -> "
        "(y: bf16[M, N]) where M >= 8192, N >= 65536, N % 128 == 0, K % 128 == 0 {\n"
        "  y = dequantize(x, sx, block=[1, 128]) @ dequantize(w, sw, block=[128, 128]).T }";
    expect_graph(text, "matmul", NULL);
    expect_graph("graph g (x: e4m3[M, K], w: e4m3[N, K], sx: f32[K / 128, M]) -> (y: bf16[M, N]) "
                 "where M >= 8192, N >= 65536, K % 128 == 0 {\n"
                 "  y = dequantize(x, sx.T, block=[1, 128]) @ w.T }",
                 "matmul", NULL);
}

/* Powers of two, one for each 32 elements: in bf16 where the product is large. */
static void test_short_blocks(void **state) {
    (void)state;
    static const struct {
        int rows;
        const char *exponent;
        int in_bf16;
        const char *kernels; /* as many factors are computed together */
    } tests[] = {{4096, "cast(s, f32) - 127", 1, "pointwise pointwise matmul"},
                 {64, "cast(s, f32) - 127", 0, "pointwise pointwise matmul"},
                 {4096, "cast(s, f32) / 3", 0, "pointwise>2 matmul"}};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "graph g (x: e4m3[%d, 4096], w: e4m3[4096, 4096], s: u8[%d, 128], t: i8[4096, 128]) -> (y: "
                 "bf16[%d, 4096]) {\n  y = dequantize(x, exp2(%s), block=[1, 32]) @ dequantize(w, "
                 "exp2(cast(t, f32)), block=[1, 32]).T }",
                 tests[i].rows, tests[i].rows, tests[i].rows, tests[i].exponent);
        Support support = {.text = text};
        support_run(&support);
        assert_string_equal(support.messages, "");
        assert_string_equal(support.kernels, tests[i].kernels);
        assert_int_equal(decisions_with(&support, "powers of two"), tests[i].in_bf16);
        support_end(&support);
    }
}

static bool allows_fast_sums(const char *hint) {
    char text[512];
    snprintf(text, sizeof text,
             "graph g (x: e4m3[M, 64], w: e4m3[N, 64]) -> (y: bf16[M, N]) { y = relu(x @ w.T)   %s }", hint);
    Support support = {.text = text};
    support_run(&support);
    assert_string_equal(support.messages, "");
    assert_int_equal(support.partition->regions.n, 1);
    bool allows = support.partition->regions.at[0]->fast_sums;
    support_end(&support);
    return allows;
}

static void test_sums_are_fast_where_allowed(void **state) {
    (void)state;
    assert_true(allows_fast_sums("@allow(fast_accumulation)"));
    assert_false(allows_fast_sums("@allow(nondeterministic)"));
    assert_false(allows_fast_sums(""));
}

static void test_mlp_is_two(void **state) {
    (void)state;
    expect_graph("graph g (x: bf16[M, D], w1: bf16[H, D], b1: bf16[H], w2: bf16[C, H], b2: bf16[C]) -> (y: "
                 "bf16[M, C]) {\n"
                 "  h = relu(x @ w1.T + b1)\n  y = h @ w2.T + b2 }",
                 "matmul matmul", DIMS({"M", 3}, {"D", 8}, {"H", 4}, {"C", 5}));
}

static void test_heads_are_stored_in_order(void **state) {
    (void)state;
    expect_graph("graph g (x: bf16[B, S, D], w: bf16[256, D]) -> (q: bf16[B, 4, S, 64]) {\n"
                 "  h = cast(x @ w.T, dtype=bf16)\n  q = transpose(reshape(h, dims=[B, S, 4, 64]), perm=[0, "
                 "2, 1, 3]) }",
                 "matmul", DIMS({"B", 2}, {"S", 3}, {"D", 4}));
}

/* Attention's result in the order in which the next product has it for its first operand: one view, stored
 * once for the two reshapes that read it. */
static void test_heads_are_joined(void **state) {
    (void)state;
    Support support = {
        .text = "graph g (q: bf16[2,4,S,16], k: bf16[2,4,S,16], v: bf16[2,4,S,16], w: bf16[64,64], r: "
                "bf16[2,S,64]) -> "
                "(y: bf16[2,S,64], z: bf16[64,64]) {\n"
                "  a = reshape(transpose(attention(q, k, v), [0, 2, 1, 3]), dims=[2, S, 64])\n"
                "  y = a @ w.T + r\n  z = reshape(a, dims=[2 * S, 64]).T @ reshape(r, dims=[2 * S, 64]) }",
        .dims = DIMS({"S", 5})};
    support_run(&support);
    assert_string_equal(support.kernels, "chain2 matmul matmul");
    const Region *first = support.partition->regions.at[0];
    assert_int_equal(first->outputs.n, 1);
    assert_int_equal(first->outputs.at[0]->op, OP_reshape);
    assert_true(support.evaluated && support.worst < 2e-2);
    support_end(&support);
}

/* Rows in windows of 2 x 2, in which order the kernel that computes them stores them. */
static void test_windows_are_joined(void **state) {
    (void)state;
    Support support = {
        .text = "graph g (x: bf16[B,4,6,16], g: bf16[16], w: bf16[24,16]) -> (y: bf16[B,6,4,24]) {\n"
                "  n = reshape(rmsnorm(x, g), dims=[B, 2, 2, 3, 2, 16])\n"
                "  y = reshape(transpose(n, [0, 1, 3, 2, 4, 5]), dims=[B, 6, 4, 16]) @ w.T }",
        .dims = DIMS({"B", 3})};
    support_run(&support);
    assert_string_equal(support.kernels, "rows matmul");
    assert_int_equal(support.partition->regions.at[0]->outputs.at[0]->op, OP_reshape);
    assert_true(support.evaluated && support.worst < 2e-2);
    support_end(&support);
}

/* A GELU's slope in three forms, which the second product's kernel computes again of what all come of: beside
 * its own output, the first one's kernel stores one tensor. */
static void test_roots(void **state) {
    (void)state;
    expect_graph("graph g (x: bf16[M, 64], w: bf16[64, 64], dy: bf16[M, 64], u: bf16[64, 64]) -> (y: "
                 "bf16[M, 64], z: bf16[M, 64]) {\n"
                 "  h = x @ w.T\n  g = h * 0.5\n  e = exp(-(h * h * 0.5))\n  f = one_plus_erf(h * 0.7)\n"
                 "  z = g * f\n  p = dy @ u\n  y = p * g * e + p * f }",
                 "matmul>2 matmul", DIMS({"M", 5}));
    /* beside a number a channel, which another kernel computes again; a slope that is of one tensor both
     * ways; and what is read in another shape */
    expect_graph("graph g (x: bf16[M, 64], w: bf16[128, 64], m: f32[128], v: f32[128], dy: bf16[M, 64], u: "
                 "bf16[64, 128]) -> (z: bf16[M, 128], y: bf16[M, 128], t: f32[1, 128]) {\n"
                 "  h = (x @ w.T - m) * rsqrt(v + 0.1)\n  s = sigmoid(h)\n  z = h * s\n"
                 "  d = (dy @ u) * (s + h * (s * (1 - s)))\n  y = d\n"
                 "  t = sum(reshape(d, dims=[M, 128]) * reshape(h, dims=[M, 128]), 0) }",
                 "matmul>2 matmul>2 columns", DIMS({"M", 32}));
}

/* What windows repeat is stored first; what they do not, or what costs less than a reading, is not. */
static void test_repeated_by_windows(void **state) {
    (void)state;
    const SupportDim *dims = DIMS({"B", 1});
    expect_graph("graph g (x: bf16[B, 64, 64, 64], w: bf16[64, 5, 5, 1]) -> (y: bf16[B, 64, 64, 64]) {\n"
                 "  y = conv(silu(x * 0.5), w, pad=2, groups=64) }",
                 "pointwise pointwise columns", dims);
    expect_graph("graph g (x: bf16[B, 64, 64, 64], w: bf16[64, 5, 5, 1]) -> (y: bf16[B, 64, 64, 64]) {\n"
                 "  y = conv(x, w, pad=2, groups=64) }",
                 "pointwise columns", dims);
    expect_graph("graph g (x: bf16[B, 64, 64, 64]) -> (y: bf16[B, 32, 32, 64]) {\n"
                 "  y = max_pool(silu(x), 2) }",
                 "columns", dims);
    /* of a product's result too, in vectors of its channels */
    expect_graph("graph g (x: bf16[B, 64, 64, 64], w: bf16[64, 3, 3, 64]) -> (y: bf16[B, 32, 32, 64]) {\n"
                 "  y = max_pool(relu(conv(x, w, pad=1)), 2) }",
                 "matmul columns", dims);
    /* the kernel of the windows has another element at hand than the one that is to be stored */
    expect_graph("graph g (x: bf16[B, 64, 64, 64], w: bf16[64, 5, 5, 1]) -> (a: bf16[B, 64, 64, 64], y: "
                 "bf16[B, 64, 64, 64]) {\n"
                 "  a = silu(x * 0.5)\n  y = conv(a, w, pad=2, groups=64) }",
                 "pointwise pointwise columns", dims);
}

static void test_no_fusion(void **state) {
    (void)state;
    Support support = {
        .text =
            "graph g (x: bf16[M, K], w: bf16[N, K], b: bf16[N]) -> (y: bf16[M, N]) { y = relu(x @ w.T + b) }",
        .no_fusion = true,
        .dims = DIMS({"M", 2}, {"N", 3}, {"K", 4})};
    support_run(&support);
    assert_string_equal(support.messages, "");
    assert_string_equal(support.kernels, "matmul pointwise pointwise pointwise");
    support_end(&support);
}

static void test_never_fuse(void **state) {
    (void)state;
    expect_graph("graph g (x: f32[N]) -> (y: f32[N]) { a = exp(x)   @fuse(never)\n  y = a + 1 }",
                 "pointwise pointwise", DIMS({"N", 3}));
}

/* Microseconds: rows in a product's kernel take as many as there are rows, a kernel of their own takes 100, a
 * product 10. */
static double seconds_by_rows(void *context, const Graph *graph, const Region *region) {
    (void)context, (void)graph;
    if (region->kind != TEMPLATE_MATMUL)
        return 100e-6;
    return region->n_reduced ? (double)region->dims[0]->value * 1e-6 : 10e-6;
}

static double seconds_of_products(void *context, const Graph *graph, const Region *region) {
    return region->kind == TEMPLATE_MATMUL ? seconds_by_rows(context, graph, region) : 0;
}

static void expect_weighed(double (*seconds)(void *context, const Graph *graph, const Region *region),
                           const char *text, const char *kernels, int joined, int apart) {
    Support support = {.text = text, .seconds = seconds};
    support_run(&support);
    assert_string_equal(support.messages, "");
    assert_string_equal(support.kernels, kernels);
    assert_int_equal(decisions_with(&support, "by the estimate that takes"), joined);
    assert_int_equal(decisions_with(&support, "quicker in a kernel of its own"), apart);
    support_end(&support);
}

static void test_rows_are_weighed(void **state) {
    (void)state;
    const char *few = "graph g (x: bf16[16, 64], w: bf16[1024, 64]) -> (y: bf16[16, 1024]) {\n"
                      "  y = softmax(x @ w.T) }",
               *many = "graph g (x: bf16[1600, 64], w: bf16[1024, 64]) -> (y: bf16[1600, 1024]) {\n"
                       "  y = softmax(x @ w.T) }";
    expect_weighed(seconds_by_rows, few, "matmul/rows", 2, 0);
    expect_weighed(seconds_by_rows, many, "matmul rows", 0, 1); /* the sum goes with the maximum */
    /* what is expected of one kernel is one */
    expect_weighed(seconds_by_rows,
                   "graph g (x: bf16[1600, 64], w: bf16[1024, 64]) -> (y: bf16[1600, 1024]) {\n"
                   "  y = softmax(x @ w.T)   @expect(kernels=1) }",
                   "matmul/rows", 0, 0);
    expect_weighed(seconds_by_rows,
                   "graph g (x: bf16[1600, 64], w: bf16[1024, 64], v: bf16[1024, 64]) -> (y: bf16[1600, 64]) "
                   "{\n  y = cast(rmsnorm(x @ w.T), bf16) @ v   @expect(kernels=2) }",
                   "matmul/rows matmul", 0, 0);
    /* so is what has a product's schedule, and what has one of rows is not */
    expect_weighed(seconds_by_rows,
                   "graph g (x: bf16[1600, 64], w: bf16[1024, 64]) -> (y: bf16[1600, 1024]) {\n"
                   "  y = softmax(x @ w.T)   @schedule(path=wgmma, stages=3) }",
                   "matmul/rows", 0, 0);
    expect_weighed(seconds_by_rows,
                   "graph g (x: bf16[1600, 64], w: bf16[1024, 64]) -> (y: bf16[1600, 1024]) {\n"
                   "  y = softmax(x @ w.T)   @schedule(threads=256) }",
                   "matmul rows", 0, 1);
    /* each part of a graph for itself */
    expect_weighed(seconds_by_rows,
                   "graph g (x: bf16[16, 64], w: bf16[256, 64], u: bf16[1600, 64]) -> (y: bf16[16, 256], z: "
                   "bf16[1600, 256]) {\n"
                   "  y = softmax(x @ w.T)\n  z = rmsnorm(u @ w.T) }",
                   "matmul/rows matmul rows", 2, 1);
    /* rounds of a top-k together */
    expect_weighed(seconds_by_rows,
                   "graph g (x: bf16[1600, 64], w: bf16[64, 64]) -> (v: f32[1600, 4], i: i64[1600, 4]) {\n"
                   "  v, i = topk(softmax(x @ w.T), 4) }",
                   "matmul rows>2", 0, 1);
    expect_weighed(seconds_by_rows,
                   "graph g (x: bf16[16, 64], w: bf16[64, 64]) -> (v: f32[16, 4], i: i64[16, 4]) {\n"
                   "  v, i = topk(softmax(x @ w.T), 4) }",
                   "matmul/rows>2", 10, 0);
    /* where the cost model knows nothing of some kernel */
    expect_weighed(seconds_of_products, many, "matmul/rows", 0, 0);
    /* heads are products of their own so that their rows are whole */
    expect_weighed(seconds_by_rows,
                   "graph g (x: bf16[1600, 64], w: bf16[512, 64]) -> (y: bf16[1600, 8, 64]) {\n"
                   "  y = rmsnorm(reshape(x @ w.T, [1600, 8, 64])) }",
                   "matmul/rows", 0, 0);
}

/* No schedule for a product's kernel that has more than the product and plain elements. */
static bool takes_plain_products(void *context, const Graph *graph, const Region *region, const char **why) {
    (void)context, (void)graph;
    *why = "it is a test";
    bool is_narrow = false;
    for (size_t i = 0; i < region->values.n; i++)
        is_narrow |= dtype_bits(region->values.at[i]->dtype) < 8;
    return region->cores.n < 2 && !region->n_reduced && !region->column_block && !region->windows.n &&
           !is_narrow;
}

static void expect_given_up(const char *text, const char *kernels) {
    Support support = {.text = text, .takes = takes_plain_products};
    support_run(&support);
    assert_string_equal(support.messages, "");
    assert_string_equal(support.kernels, kernels);
    support_end(&support);
}

static void test_gives_up_what_no_schedule_fits(void **state) {
    (void)state;
    expect_given_up("graph g (x: bf16[M, K], w: bf16[64, K]) -> (y: bf16[M, 64]) { y = softmax(x @ w.T) }",
                    "matmul rows");
    expect_given_up("graph g (x: bf16[M, K], w: bf16[64, K], v: bf16[64, K]) -> (y: bf16[M, 64]) {\n"
                    "  y = silu(x @ w.T) * (x @ v.T) }",
                    "matmul matmul");
    expect_given_up("graph g (x: bf16[M, K], w: bf16[64, K], h: bf16[M, K], v: bf16[64, K]) -> (y: bf16[M, "
                    "64]) { y = softmax(x @ w.T + h @ v.T) }",
                    "matmul matmul rows");
    expect_given_up("graph g (x: bf16[M, K], w: bf16[64, K]) -> (y: bf16[M, 40], z: bf16[M, 24]) {\n"
                    "  h = relu(x @ w.T)\n  y = h[:, 0:40]\n  z = exp(h[:, 40:64]) }",
                    "matmul pointwise pointwise");
    expect_given_up("graph g (x: bf16[M, K], w: bf16[64, K]) -> (y: i4[M, 64]) { y = cast(x @ w.T, i4) }",
                    "matmul pointwise");
    expect_given_up("graph g (x: bf16[4096, 64], w: bf16[64, 64], v: bf16[64, 64]) -> (y: bf16[4096, 64]) {\n"
                    "  y = relu(x @ w.T) @ v.T }",
                    "matmul matmul");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gives_up_what_no_schedule_fits),
        cmocka_unit_test(test_matmul_epilogues),
        cmocka_unit_test(test_products_take_what_reads_the_same),
        cmocka_unit_test(test_packed_swiglu_is_dual),
        cmocka_unit_test(test_matmul_rows),
        cmocka_unit_test(test_guests),
        cmocka_unit_test(test_guests_of_columns),
        cmocka_unit_test(test_guest_is_numbered),
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_sums_of_products),
        cmocka_unit_test(test_columns_of_a_product),
        cmocka_unit_test(test_few_of_a_row),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_group_and_instance_norm),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_pointwise),
        cmocka_unit_test(test_borders),
        cmocka_unit_test(test_quantized_matmul),
        cmocka_unit_test(test_block_scaled_matmul),
        cmocka_unit_test(test_short_blocks),
        cmocka_unit_test(test_sums_are_fast_where_allowed),
        cmocka_unit_test(test_mlp_is_two),
        cmocka_unit_test(test_heads_are_stored_in_order),
        cmocka_unit_test(test_heads_are_joined),
        cmocka_unit_test(test_windows_are_joined),
        cmocka_unit_test(test_roots),
        cmocka_unit_test(test_repeated_by_windows),
        cmocka_unit_test(test_no_fusion),
        cmocka_unit_test(test_never_fuse),
        cmocka_unit_test(test_rows_are_weighed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
