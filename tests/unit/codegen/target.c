/* Targets by name and by device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/target.h"

static void targets_by_name(void **state) {
    (void)state;
    int n = 0;
    for (const Target *target; (target = target_at(n)) != NULL; n++) {
        assert_ptr_equal(target_find(target->name), target);
        assert_true(n == 0 || target_at(n - 1)->sm < target->sm); /* ORDER TARGET */
        assert_true(target->smem_per_block <= target->smem_per_sm);
    }
    assert_true(n >= 4);
    assert_null(target_at(-1));
    assert_null(target_find("sm_90"));
    assert_null(target_find(NULL));
}

static const char *name_for(int major, int minor) {
    const Target *target = target_for_device(major, minor);
    return target ? target->name : "none";
}

static void targets_by_device(void **state) {
    (void)state;
    assert_string_equal(name_for(7, 5), "none");
    assert_string_equal(name_for(8, 0), "sm_80");
    assert_string_equal(name_for(8, 6), "sm_86");
    assert_string_equal(name_for(8, 7), "sm_86");
    assert_string_equal(name_for(8, 9), "sm_89");
    assert_string_equal(name_for(9, 0), "sm_90a");
    assert_string_equal(name_for(10, 0), "sm_100"); /* sm_90a runs on 9.0 alone */
    assert_string_equal(name_for(10, 3), "sm_100");
    assert_string_equal(name_for(12, 0), "sm_120");
    assert_string_equal(name_for(99, 0), "sm_120");
}

static void limits_follow_the_target(void **state) {
    (void)state;
    FuseLimits hopper = target_fuse_limits(target_find("sm_90a")),
               ampere = target_fuse_limits(target_find("sm_80"));
    assert_true(hopper.has_tensor_cores && ampere.has_tensor_cores);
    assert_true(hopper.matmul_row_max >= ampere.matmul_row_max);
    assert_true(ampere.row_resident_max > 0 && ampere.max_inputs > 0 && ampere.max_outputs > 0);
}

/* What three warpgroups have at launch is 168 a thread, which 32 and twice 240 are more than. */
static void registers_are_dealt_out(void **state) {
    (void)state;
    const Target *hopper = target_find("sm_90a");
    assert_int_equal(target_launch_registers(hopper, 3), 168);
    assert_true(target_deals_registers(hopper, 3, 2, 24, 240) &&
                target_deals_registers(hopper, 3, 2, 40, 232));
    assert_true(target_deals_registers(hopper, 4, 3, 32, 160) && target_deals_registers(hopper, 3, 2, 0, 0));
    assert_false(target_deals_registers(hopper, 3, 2, 32, 240));
    assert_false(target_deals_registers(hopper, 3, 2, 20, 240) ||
                 target_deals_registers(hopper, 3, 2, 24, 236));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_by_name),
        cmocka_unit_test(targets_by_device),
        cmocka_unit_test(limits_follow_the_target),
        cmocka_unit_test(registers_are_dealt_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
