/* The scalar references against vectors from NumPy and SciPy (tests/vectors/make_scalars.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "ir/op.h"

static bool same(double got, double want) {
    if (isnan(want))
        return isnan(got);
    if (isinf(want))
        return got == want;
    return fabs(got - want) <= 4e-15 * fabs(want) + 1e-320;
}

static void float_line(char *line, bool *seen) {
    char name[32], text[4][40];
    int n = sscanf(line, "%31s %39s %39s %39s %39s", name, text[0], text[1], text[2], text[3]);
    OpKind op = op_find(name);
    assert_true(op < OP_SCALAR_COUNT);
    assert_int_equal(n - 2, op_info(op)->n_in);
    double x[4] = {0};
    for (int i = 0; i < n - 1; i++)
        x[i] = strtod(text[i], NULL);
    double got = op_info(op)->float_ref(x[1], x[2], x[3]);
    if (!same(got, x[0]))
        fail_msg("%s: got %a", line, got);
    seen[op] = true;
}

static void integer_line(char *line, bool *seen) {
    char name[32];
    long long want, a, b;
    assert_int_equal(sscanf(line, "i %31s %lld %lld %lld", name, &want, &a, &b), 4);
    OpKind op = op_find(name);
    assert_true(op < OP_SCALAR_COUNT);
    assert_non_null(op_info(op)->int_ref);
    int64_t got = op_info(op)->int_ref(a, b, 0);
    if (got != want)
        fail_msg("%s: got %lld", line, (long long)got);
    seen[op] = true;
}

static void test_vectors(void **state) {
    (void)state;
    bool seen[OP_SCALAR_COUNT] = {false};
    FILE *file = fopen("tests/vectors/scalars.txt", "r");
    assert_non_null(file);
    char line[256];
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] == 'i' && line[1] == ' ')
            integer_line(line, seen);
        else
            float_line(line, seen);
    }
    fclose(file);
    for (int op = 0; op < OP_SCALAR_COUNT; op++)
        if (!seen[op])
            fail_msg("no vector for '%s'", op_info((OpKind)op)->name);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
