/* The table of operations: every row complete, and agreeing with the files that it is made of. */
#include "support.h"

#include "ir/infer.h"

static void test_rows_are_complete(void **state) {
    (void)state;
    for (int kind = 0; kind < OP_COUNT; kind++) {
        const OpInfo *info = op_info((OpKind)kind);
        assert_true(strlen(info->name) > 0 && strlen(info->doc) >= 2);
        assert_non_null(info->infer);
        assert_int_equal(op_find(info->name), kind); /* so names are unique, too */
        assert_true(info->n_in >= -1 && info->n_attrs <= OP_MAX_ATTRS);
        assert_int_equal(op_is_scalar((OpKind)kind), kind < OP_SCALAR_COUNT);
        for (int i = 0; i < info->n_attrs; i++) {
            Attr attr;
            assert_true(strlen(info->attrs[i].name) > 0);
            assert_int_equal(op_attr_index((OpKind)kind, info->attrs[i].name), i);
            assert_int_equal(attr_fallback((OpKind)kind, i, &attr), info->attrs[i].fallback != NULL);
        }
        assert_int_equal(op_attr_index((OpKind)kind, "no such"), -1);
    }
    assert_int_equal(op_find("no such"), OP_COUNT);
    Attr attr;
    assert_true(attr_fallback(OP_sum, 1, &attr) && attr.i == 1);
    assert_true(attr_fallback(OP_matmul, 0, &attr) && attr.dtype == DTYPE_COUNT);
}

static void test_scalar_rows(void **state) {
    (void)state;
    static const struct {
        OpKind op;
        int arity;
        ScalarRule rule;
        const char *integer;
    } rows[] = {
#define SCALAR(NAME, ARITY, RULE, FEXPR, IEXPR, GRADIENT, DOC) {OP_##NAME, ARITY, RULE_##RULE, #IEXPR},
#include "ir/scalar.def"
#undef SCALAR
    };
    assert_int_equal(sizeof rows / sizeof *rows, OP_SCALAR_COUNT);
    for (int i = 0; i < OP_SCALAR_COUNT; i++) {
        const OpInfo *info = op_info(rows[i].op);
        assert_int_equal(rows[i].op, i);
        assert_int_equal(info->n_in, rows[i].arity);
        assert_true(info->n_in >= 1 && info->n_in <= OP_MAX_ARITY);
        assert_int_equal(info->rule, rows[i].rule);
        assert_int_equal(info->class_, OPCLASS_POINTWISE);
        assert_ptr_equal(info->infer, infer_scalar);
        assert_int_equal(info->n_attrs, 0);
        assert_non_null(info->float_ref);
        assert_int_equal(info->int_ref == NULL, strcmp(rows[i].integer, "NO_INT") == 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_complete),
        cmocka_unit_test(test_scalar_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
