/* Gradients of random graphs: every one is derived, valid, and agrees with differences wherever those agree
 * among themselves. What has no gradient is a gather from a table of more rows than are known to be few. */
#include "support.h"

#include "gradient_check.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "tests/fuzz/graphgen.h"

enum { SEEDS = 3000 };

typedef struct Random {
    Arena *arena;
    uint64_t seed;
    int compared, refused;
} Random;

/* Rounding to narrow types has the slope 1 and no differences; of 8 bits, little is left. */
static bool is_smooth(const Graph *graph) {
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i];
        bool is_rounded = value->op == OP_cast && dtype_is_float(value->in[0]->dtype);
        if (value->dtype == DTYPE_TF32 || dtype_is_fp8(value->dtype) ||
            (is_rounded && dtype_is_float(value->dtype)))
            return false;
    }
    return true;
}

/* What the generator draws, for which no operation leaves its range, moved a little so that no two elements
 * are equal; gradients of outputs, and a direction. */
static void draw_inputs(Random *random, const GradientCheck *check, const GraphGen *generated,
                        const Graph *derived, Tensor *in, Tensor *v) {
    const Tensor *drawn = graphgen_inputs(random->arena, generated, random->seed);
    uint64_t state = random->seed;
    for (size_t k = 0; k < derived->inputs.n; k++) {
        in[k] = gradient_tensor(check, &generated->bindings, derived->inputs.at[k]);
        if (k >= check->forward->inputs.n) {
            gradient_fill(check, &in[k], -1, 1, &state);
            continue;
        }
        v[k] = gradient_tensor(check, &generated->bindings, derived->inputs.at[k]);
        gradient_fill(check, &v[k], -1, 1, &state);
        for (int64_t e = 0; e < in[k].count; e++) {
            in[k].at[e] = drawn[k].at[e];
            if (dtype_is_float(in[k].dtype))
                in[k].at[e].f += gradient_uniform(&state, 0, 1e-4);
        }
    }
}

static void compare_slopes(Random *random, const GradientCheck *check, const GraphGen *generated,
                           const Graph *derived) {
    const Graph *graph = check->forward;
    Tensor *in = ARENA_ARRAY(random->arena, Tensor, derived->inputs.n + 1);
    Tensor *out = ARENA_ARRAY(random->arena, Tensor, derived->outputs.n + 1);
    Tensor *v = ARENA_ARRAY(random->arena, Tensor, graph->inputs.n + 1);
    draw_inputs(random, check, generated, derived, in, v);
    assert_true(reference_run(random->arena, derived, &generated->bindings, in, out, check->diags));
    double slope = 0, scale = 1, near = 1e-6, far = 4e-6;
    bool is_narrow = false;
    const Tensor *dx = out, *dy = in + graph->inputs.n;
    for (size_t k = 0; k < graph->inputs.n; k++) {
        if (!dtype_is_float(in[k].dtype))
            continue;
        is_narrow |= in[k].dtype != DTYPE_F64 && in[k].dtype != DTYPE_F32;
        for (int64_t e = 0; e < in[k].count; e++) {
            if (isinf(dx->at[e].f))
                return; /* a slope that f16 does not hold */
            slope += v[k].at[e].f * dx->at[e].f;
            scale += fabs(v[k].at[e].f * dx->at[e].f);
        }
        dx++;
    }
    double first = (gradient_loss(check, &generated->bindings, in, v, near, dy) -
                    gradient_loss(check, &generated->bindings, in, v, -near, dy)) /
                   (2 * near);
    double second = (gradient_loss(check, &generated->bindings, in, v, far, dy) -
                     gradient_loss(check, &generated->bindings, in, v, -far, dy)) /
                    (2 * far);
    if (!(fabs(first - second) <= 1e-5 * scale))
        return; /* a step or a kink lies there */
    random->compared++;
    if (!(fabs(slope - first) <= (is_narrow ? 2e-2 : 1e-5) * scale)) {
        Text text = text_new(random->arena);
        graph_print(&text, graph);
        fail_msg("seed %llu: the gradient gives %.9g, differences %.9g\n%s", (unsigned long long)random->seed,
                 slope, first, text.at);
    }
}

static void random_body(void *context) {
    Random *random = context;
    GraphGen generated = graphgen(random->arena, random->seed, NULL);
    Diags diags = {.arena = random->arena};
    GradientCheck check = {.arena = random->arena, .diags = &diags, .forward = generated.graph};
    const Graph *derived = gradient_derive(random->arena, generated.graph, &diags);
    if (!derived) {
        random->refused++;
        if (diags.list.at[0].id != DIAG_UNSUPPORTED || !strstr(diags.list.at[0].message, "'gather'"))
            fail_msg("seed %llu: %s", (unsigned long long)random->seed, diags.list.at[0].message);
        return;
    }
    if (!graph_verify(derived, "gradients", &diags))
        fail_msg("seed %llu: %s", (unsigned long long)random->seed, diags.list.at[0].message);
    if (is_smooth(generated.graph))
        compare_slopes(random, &check, &generated, derived);
}

static void test_random(void **state) {
    (void)state;
    Random random = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        random.arena = arena_new(0);
        random.seed = seed;
        assert_true(arena_run(random.arena, random_body, &random));
        arena_free(random.arena);
    }
    assert_true(random.compared > SEEDS / 2);
    assert_true(random.refused < SEEDS / 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
