/* The library's composites, evaluated by the reference, against vectors from NumPy and SciPy
 * (tests/vectors/make_composites.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "frontend/frontend.h"
#include "ir/reference.h"
#include "runtime/safetensors.h"

static char *read_whole(const char *path, size_t *n) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *n = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*n + 1);
    assert_int_equal(fread(bytes, 1, *n, file), *n);
    bytes[*n] = 0;
    fclose(file);
    return bytes;
}

typedef struct Vectors {
    Arena *arena;
    Diags diags;
    char *text, *tensors;
    size_t n_text, n_tensors;
} Vectors;

static Tensor load(Vectors *v, const Graph *graph, const char *name, DType dtype) {
    RawArray raw;
    Array array;
    Tensor tensor;
    const char *key = text_format(v->arena, "%s.%s", graph->name, name);
    assert_true(safetensors_find(v->tensors, v->n_tensors, "composites", key, &v->diags, &raw));
    assert_true(array_new(v->arena, dtype, raw.rank, raw.dims, NULL, &array));
    assert_true(raw_array_copy(&raw, key, &array, &v->diags));
    assert_true(array_to_tensor(v->arena, &array, &tensor));
    return tensor;
}

static void check_graph(Vectors *v, const Graph *graph) {
    Tensor *inputs = ARENA_ARRAY(v->arena, Tensor, graph->inputs.n + 1);
    Tensor *outputs = ARENA_ARRAY(v->arena, Tensor, graph->outputs.n);
    for (size_t i = 0; i < graph->inputs.n; i++)
        inputs[i] = load(v, graph, graph->inputs.at[i]->name, graph->inputs.at[i]->dtype);
    DimBindings none = dim_bindings_new(v->arena, graph->dims);
    assert_true(reference_run(v->arena, graph, &none, inputs, outputs, &v->diags));
    for (size_t i = 0; i < graph->outputs.n; i++) {
        Tensor want = load(v, graph, graph->outputs.at[i].name, DTYPE_F64);
        assert_int_equal(want.count, outputs[i].count);
        for (int64_t k = 0; k < want.count; k++) {
            double got = outputs[i].at[k].f, expected = want.at[k].f;
            /* 2e-6: inputs such as inverse deviations are f32 in the file, and derivatives are differences */
            if (!(fabs(got - expected) <= 2e-6 * (1 + fabs(expected))))
                fail_msg("%s.%s[%lld]: reference %.9g, NumPy %.9g", graph->name, graph->outputs.at[i].name,
                         (long long)k, got, expected);
        }
    }
}

static void body(void *context) {
    Vectors *v = context;
    SourceSet *sources = source_set_new(v->arena);
    uint32_t file = source_add(sources, "composites.sg", v->text, v->n_text);
    Module module = {0};
    if (!frontend_parse(v->arena, sources, file, &(FrontendLimits){0}, &v->diags, &module)) {
        Text text = text_new(v->arena);
        for (size_t i = 0; i < v->diags.list.n; i++)
            diagnostic_print(&text, sources, &v->diags.list.at[i], false);
        fail_msg("%s", text.at);
    }
    assert_true(module.graphs.n >= 36);
    for (size_t i = 0; i < module.graphs.n; i++)
        check_graph(v, module.graphs.at[i]);
}

static void test_composites(void **state) {
    (void)state;
    Vectors v = {.arena = arena_new(0)};
    v.diags.arena = v.arena;
    v.text = read_whole("tests/vectors/composites.sg", &v.n_text);
    v.tensors = read_whole("tests/vectors/composites.safetensors", &v.n_tensors);
    assert_true(arena_run(v.arena, body, &v));
    arena_free(v.arena);
    free(v.text);
    free(v.tensors);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_composites)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
