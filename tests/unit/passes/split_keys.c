/* Attention of few queries: where its keys are taken in parts, what it means then, and what keeps it whole.
 */
#include "support.h"

static const SupportDim *sizes = (const SupportDim[]){{"T", 256}, {NULL, 0}};

static void expect(const char *text, const char *kernels) {
    expect_within(text, kernels, sizes, 1e-2);
}

#define ATTENTION(batch, heads, groups, rows, keys, mask)                                                    \
    "graph g (q: bf16[" #batch "," #heads "," #rows ",32], k: bf16[" #batch "," #groups "," #keys            \
    ",32], v: bf16[" #batch "," #groups "," #keys ",16], n: i32[" #batch ",1,1,1], b: bool[" #keys           \
    "]) -> (o: bf16[" #batch "," #heads "," #rows ",16]) {\n"                                                \
    "  s = q @ k.T * 0.2\n  o = softmax(" mask ") @ v }"

static void test_parts(void **state) {
    (void)state;
    expect(ATTENTION(1, 4, 4, 1, 4096, "s"), "chain2>2 rows");
    expect(ATTENTION(2, 8, 2, 1, 4096, "s"), "chain2>2 rows"); /* heads that share keys are rows */
    expect(ATTENTION(1, 4, 2, 3, 4096, "s"), "chain2>2 rows");
    /* masks of coordinates, of a length, of memory; a row that sees nothing of some parts */
    expect(ATTENTION(2, 2, 2, 2, 4096, "select(index(s, 3) < max(n, 1), s, -inf)"), "chain2>2 rows");
    expect(ATTENTION(2, 2, 2, 2, 4096, "select(index(s, 3) <= index(s, 2) + 100, s, -inf)"), "chain2>2 rows");
    expect(ATTENTION(2, 2, 2, 2, 4096, "select(b && index(s, 3) > 50, s, -inf)"), "chain2>2 rows");
    /* lengths that differ are worth parts where matrices alone would be enough */
    expect(ATTENTION(4, 33, 33, 1, 8192, "select(index(s, 3) < max(n, 1), s, -inf)"), "chain2>2 rows");
}

/* Numbers of keys that no number of parts divides: each key weighs once all the same. */
static void test_overlapping(void **state) {
    (void)state;
    expect(ATTENTION(1, 4, 4, 1, 4093, "s"), "chain2>2 rows");
    expect(ATTENTION(2, 8, 2, 1, 2049, "s"), "chain2>2 rows");
    expect(ATTENTION(2, 2, 2, 2, 4099, "select(index(s, 3) <= index(s, 2) + 100, s, -inf)"), "chain2>2 rows");
    expect(ATTENTION(2, 2, 2, 2, 4097, "select(b && index(s, 3) < max(n, 1), s, -inf)"), "chain2>2 rows");
}

/* Behind kept keys, which are many: new ones, of which one needs no softmax of its own. */
#define KEPT(heads, groups, rows, keys, made, outputs, softmax)                                              \
    "graph g (q: bf16[1," #heads "," #rows ",64], k: bf16[1," #groups "," #keys ",64], v: bf16[1," #groups   \
    "," #keys ",16], j: bf16[1," #groups "," #made ",64], w: bf16[1," #groups "," #made                      \
    ",16]) -> (o: bf16[1," #heads "," #rows ",16]" outputs ") {\n"                                           \
    "  t = concat(k, j, axis=2)\n  s = q @ t.T * 0.2\n  o = softmax(" softmax ") @ concat(v, w, axis=2) }"

static void test_kept(void **state) {
    (void)state;
    expect(KEPT(4, 4, 1, 4096, 1, "", "s"), "chain2>2 matmul rows");
    expect(KEPT(8, 8, 3, 8192, 3, "", "select(index(s, 3) <= index(s, 2) + 8192, s, -inf)"),
           "chain2>2 matmul/rows>2 rows>3 matmul");
    /* which someone else wants joined */
    expect(KEPT(4, 4, 1, 4096, 1, ", t: bf16[1,4,4097,64]", "s"), "pointwise pointwise chain2>2 rows");
}

static void test_whole(void **state) {
    (void)state;
    expect(ATTENTION(4, 33, 33, 1, 1024, "s"), "chain2");
    expect(ATTENTION(1, 2, 2, 64, 512, "s"), "chain2"); /* rows of a whole tile */
    /* scores that are an output too */
    expect("graph g (q: bf16[4,2,32], k: bf16[4,4096,32], v: bf16[4,4096,16]) -> (p: bf16[4,2,4096], o: "
           "bf16[4,2,16]) {\n"
           "  p = softmax(q @ k.T)\n  o = p @ v }",
           "matmul/rows matmul");
}

#define LATENT(batch, heads, rows, keys, values, where)                                                      \
    "graph g (q: bf16[" #batch "," #heads "," #rows ",576], k: bf16[" #batch ",1," #keys                     \
    ",576], v: bf16[" #batch ",1," #keys ",512]) -> (o: bf16[" #batch "," #heads "," #rows ",512])" where    \
    "{\n  o = softmax(q @ k.T * 0.1) @ " values " }"

/* Heads wider than a warpgroup's registers, in one kernel where they wait for memory, or where values are
 * part of the keys: few tiles in parts of keys, heads that share keys in one tile. */
static void test_wide(void **state) {
    (void)state;
    expect(LATENT(1, 16, 1, 4096, "k[:, :, :, :512]", ""), "chain2>2 rows");
    expect(LATENT(1, 16, 1, 4096, "v", ""), "chain2>2 rows");
    expect(LATENT(33, 2, 1, T, "k[:, :, :, :512]", "where T >= 1"), "chain2");
    expect(LATENT(11, 1, 130, T, "k[:, :, :, :512]", "where T >= 1"), "chain2");
    expect(LATENT(11, 1, 130, T, "v", "where T >= 1"), "matmul rows matmul");
}

/* Queries joined of parts are stored, and their heads rows of a tile. */
static void test_joined(void **state) {
    (void)state;
    expect("graph g (a: bf16[1,16,1,128], b: bf16[1,16,1,64], k: bf16[1,1,4096,192]) -> (o: "
           "bf16[1,16,1,128]) {\n"
           "  o = softmax(concat(a, b, axis=3) @ k.T * 0.1) @ k[:, :, :, :128] }",
           "pointwise chain2>2 rows");
    expect("graph g (x: bf16[16,2,64], w: bf16[16,64,128], b: bf16[2,16,1,64], k: bf16[2,1,4096,192]) -> (o: "
           "bf16[2,16,1,128]) {\n"
           "  a = cast(reshape(transpose(x @ w, [1, 0, 2]), [2, 16, 1, 128]), bf16)\n"
           "  o = softmax(concat(a, b, axis=3) @ k.T * 0.1) @ k[:, :, :, :128] }",
           "matmul pointwise chain2>2 rows");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts), cmocka_unit_test(test_overlapping),
                                       cmocka_unit_test(test_kept),  cmocka_unit_test(test_whole),
                                       cmocka_unit_test(test_wide),  cmocka_unit_test(test_joined)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
