/* Rows and columns that a product's kernel hosts: which schedules take them, and what compilers make of the
 * chosen one. What they compute is told by tests/semantics/guest.sg and guest_columns.sg. */
#include "emit_support.h"
#include "matmul_support.h"

enum { ROWS = 8192, COLS = 4096, K = 4096 };

/* Moves the values behind `stored`, and their outputs, from the case's region into a guest of it. */
static void guest_region(Case *c, const Value *stored) {
    case_region(c);
    Region *host = &c->region, *guest = ARENA_NEW(c->arena, Region);
    Region all = *host;
    *guest = (Region){.kind = TEMPLATE_ROWS, .name = "kernel_guest", .rank = host->rank, .n_reduced = 1};
    memcpy(guest->dims, host->dims, sizeof guest->dims);
    host->n_reduced = 0;
    host->guest = guest;
    host->values.n = host->outputs.n = 0;
    for (size_t i = 0; i < all.values.n; i++) {
        Region *part = all.values.at[i]->id <= stored->id ? host : guest;
        vec_push(c->arena, &part->values, all.values.at[i]);
    }
    for (size_t i = 0; i < all.outputs.n; i++) {
        Region *part = all.outputs.at[i] == stored ? host : guest;
        vec_push(c->arena, &part->outputs, all.outputs.at[i]);
    }
    for (size_t i = 0; i < all.inputs.n; i++)
        vec_push(c->arena, &guest->inputs, all.inputs.at[i]);
    vec_push(c->arena, &guest->inputs, host->outputs.at[0]);
}

/* s = x w + r, then a norm of its rows: of what is left without the mean where `centered`. */
static void open_norm(Case *c, bool centered) {
    case_open(c, "sm_90a");
    Value *x = INPUT(c, "x", DTYPE_BF16, ROWS, K), *w = INPUT(c, "w", DTYPE_BF16, COLS, K);
    Value *g = INPUT(c, "g", DTYPE_BF16, COLS), *r = INPUT(c, "r", DTYPE_BF16, ROWS, COLS);
    Value *sum = case_op(c, OP_add, case_matmul(c, x, case_t(c, w)), r, NULL, NULL);
    Value *s = case_cast(c, sum, DTYPE_BF16), *d = case_cast(c, s, DTYPE_F32),
          *per = case_number(c, 1.0 / COLS);
    if (centered)
        d = case_op(c, OP_sub, d, case_op(c, OP_mul, case_row(c, OP_sum, d), per, NULL, NULL), NULL, NULL);
    Value *square = case_row(c, OP_sum, case_op(c, OP_mul, d, d, NULL, NULL));
    Value *scale = case_op(c, OP_rsqrt, case_op(c, OP_mul, square, per, NULL, NULL), NULL, NULL, NULL);
    Value *y = case_op(c, OP_mul, case_op(c, OP_mul, d, scale, NULL, NULL), g, NULL, NULL);
    case_output(c, "s", s);
    case_output(c, "y", case_cast(c, y, DTYPE_BF16));
    guest_region(c, s);
}

/* Neither copy of the rows spills, with few registers or with many. */
static void test_compiles(void **state) {
    (void)state;
    for (int centered = 0; centered < 2; centered++) {
        Case c;
        open_norm(&c, centered);
        if (!codegen_schedule(c.graph, &c.region, c.target, NULL, &c.diags))
            fail_msg("%s", case_message(&c));
        Kernel *kernel = codegen_kernel(c.arena, c.graph, &c.region, c.target, &c.diags);
        if (!kernel)
            fail_msg("%s", case_message(&c));
        assert_non_null(strstr(kernel->summary, "rows of 'y' by idle warps"));
        assert_true(kernel->gang == kernel->grid[0]->value);
        for (size_t i = 0; i < kernel->buffers.n; i++) /* read while other tiles are stored */
            assert_true(strcmp(kernel->buffers.at[i]->name, "s") != 0 || kernel->buffers.at[i]->written);
        Bench bench = {.arena = c.arena, .diags = &c.diags, .graph = c.graph, .region = &c.region};
        bench_compile(&bench, kernel);
        case_close(&c);
    }
}

static const Schedule taken = {.path = MATMUL_WGMMA,
                               .tile_m = 128,
                               .tile_n = 128,
                               .tile_k = 64,
                               .warps_m = 2,
                               .warps_n = 1,
                               .stages = 4,
                               .persistent = true,
                               .tma_store = true,
                               .producer_registers = 56,
                               .consumer_registers = 224};

static void expect_refused(Schedule schedule, const char *words) {
    Case c;
    open_norm(&c, false);
    const char *why = NULL;
    if (template_matmul.accepts(c.graph, &c.region, &schedule, c.target, &why))
        fail_msg("taken, where it should not be: %s", words);
    if (!strstr(why, words))
        fail_msg("'%s' does not say '%s'", why, words);
    case_close(&c);
}

static void test_refusals(void **state) {
    (void)state;
    Case c;
    open_norm(&c, false);
    const char *why = NULL;
    assert_true(template_matmul.accepts(c.graph, &c.region, &taken, c.target, &why));
    case_close(&c);
    Schedule s = taken;
    s.cluster_m = 2;
    expect_refused(s, "cluster");
    s = taken;
    s.split_k = 2;
    expect_refused(s, "split_k");
    s = taken;
    s.producer_registers = 40;
    s.consumer_registers = 232;
    expect_refused(s, "56 registers");
    s = taken;
    s.tile_m = 192;
    s.warps_m = 3;
    s.producer_registers = s.consumer_registers = 0;
    expect_refused(s, "one or two warpgroups");
    expect_refused((Schedule){.path = MATMUL_LOOP}, "wgmma");
    expect_refused((Schedule){.path = MATMUL_MMA_SYNC}, "wgmma");
}

/* dw = dy.T x, and beside it the sums of the columns of dy. */
static void open_columns(Case *c) {
    case_open(c, "sm_90a");
    Value *x = INPUT(c, "x", DTYPE_BF16, ROWS, COLS), *dy = INPUT(c, "dy", DTYPE_BF16, ROWS, K);
    case_output(c, "dw", case_cast(c, case_matmul(c, case_t(c, dy), x), DTYPE_BF16));
    case_region(c);
    Region *guest = ARENA_NEW(c->arena, Region);
    Attr along_rows[OP_MAX_ATTRS] = {{.axes = {.n = 1, .at = {0}}}, {.i = 1}};
    Value *sums = case_op(c, OP_sum, dy, NULL, NULL, along_rows);
    *guest = (Region){.kind = TEMPLATE_COLUMNS, .name = "kernel_guest", .rank = 2, .n_reduced = 1};
    memcpy(guest->dims, dy->dims, sizeof guest->dims);
    case_output(c, "db", sums);
    vec_push(c->arena, &guest->inputs, dy);
    vec_push(c->arena, &guest->values, sums);
    vec_push(c->arena, &guest->outputs, sums);
    c->region.guest = guest;
}

static void expect_columns(Schedule schedule, const char *words) {
    Case c;
    open_columns(&c);
    const char *why = NULL;
    bool is_taken = template_matmul.accepts(c.graph, &c.region, &schedule, c.target, &why);
    if (is_taken != !words)
        fail_msg("%s: %s", is_taken ? "taken" : "refused", words ? words : why);
    if (words && !strstr(why, words))
        fail_msg("'%s' does not say '%s'", why, words);
    case_close(&c);
}

/* Any order of tiles will do, as nobody waits: but not warps without registers, or with other work. */
static void test_columns(void **state) {
    (void)state;
    Schedule s = taken;
    expect_columns(s, NULL);
    s.cluster_m = 2;
    expect_columns(s, NULL);
    s.cluster_m = 0;
    s.producer_registers = 40;
    s.consumer_registers = 232;
    expect_columns(s, "56 registers");
    expect_columns((Schedule){.path = MATMUL_LOOP}, "wgmma");
    Case c;
    open_columns(&c);
    if (!codegen_schedule(c.graph, &c.region, c.target, NULL, &c.diags))
        fail_msg("%s", case_message(&c));
    Kernel *kernel = codegen_kernel(c.arena, c.graph, &c.region, c.target, &c.diags);
    if (!kernel)
        fail_msg("%s", case_message(&c));
    assert_non_null(strstr(kernel->summary, "columns of 'db' by idle warps"));
    Bench bench = {.arena = c.arena, .diags = &c.diags, .graph = c.graph, .region = &c.region};
    bench_compile(&bench, kernel);
    case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compiles),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
