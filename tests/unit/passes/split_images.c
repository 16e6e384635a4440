/* Norms over an image's places behind a product: which the product's kernel has the sums of, and what they
 * mean then. */
#include "support.h"

static const SupportDim *none = (const SupportDim[]){{NULL, 0}};

#define NORMED(images, side, columns, norm)                                                                  \
    "graph g (x: bf16[" #images "," #side "," #side ",16], w: bf16[" #columns ",1,1,16]) -> (y: bf16[" #images \
    "," #side "," #side "," #columns "]) {\n  c = cast(conv(x, w), bf16)\n  y = " norm " }"

/* The sums are two more outputs of the product's kernel. */
static void test_sums(void **state) {
    (void)state;
    expect_within(NORMED(2, 32, 512, "instancenorm(c)"), "matmul>3 columns>2 pointwise", none, 2e-2);
    expect_within(NORMED(2, 32, 512, "groupnorm(c, 32)"), "matmul>3 rows>2 pointwise", none, 2e-2);
    expect_within(NORMED(2, 32, 512, "relu(groupnorm(c, 512))"), "matmul>3 rows>2 pointwise", none, 2e-2);
    expect_within(NORMED(3, 24, 640, "groupnorm(c, 20) + c"), "matmul>3 rows>2 pointwise", none, 2e-2);
}

static void test_left_alone(void **state) {
    (void)state;
    /* places that 16 does not divide, few of them, and few elements */
    expect_within(NORMED(2, 33, 512, "groupnorm(c, 32)"), "matmul columns>2 rows>2 pointwise", none, 2e-2);
    expect_within(NORMED(8, 16, 512, "groupnorm(c, 32)"), "matmul rows", none, 2e-2);
    expect_within(NORMED(2, 32, 64, "groupnorm(c, 8)"), "matmul rows", none, 2e-2);
    /* windows for few channels, whose tiles are patches */
    expect_within("graph g (x: bf16[2,64,64,16], w: bf16[128,3,3,16]) -> (y: bf16[2,64,64,128]) {\n"
                  "  y = groupnorm(cast(conv(x, w, pad=1), bf16), 16) }",
                  "matmul columns>2 rows>2 pointwise", none, 2e-2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums), cmocka_unit_test(test_left_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
