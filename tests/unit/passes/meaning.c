/* Every graph of the samples and of the semantic cases keeps its meaning through the passes, alone and each
 * pass left out in turn, and every partition keeps its invariants. Sizes come from the file's own `check`
 * blocks. */
#include "support.h"

#include <glob.h>
#include <stdlib.h>

/* Of the files, with each pass left out: sanitizers take three times as long, and look at the rest with
 * others left out. */
#if defined(__SANITIZE_ADDRESS__)
enum { MEANING_EVERY = 4 };
#else
enum { MEANING_EVERY = 1 };
#endif
enum { MEANING_COST = 1 << 19 /* elements or multiplications above which a check is left to others */ };

typedef struct Meaning {
    const char *path, *text;
    const char *skip;
    bool no_fusion, evaluate;
    bool list; /* says what each graph becomes: MEANING_LIST=1 */
    Arena *arena;
    int graphs, evaluated, failures;
} Meaning;

static int64_t meaning_cost(const Graph *graph, const DimBindings *bindings) {
    int64_t total = 0;
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i];
        int64_t count = 1, extent;
        for (int k = 0; k < value->rank; k++)
            if (!dim_eval(value->dims[k], bindings, &extent) || __builtin_mul_overflow(count, extent, &count))
                return INT64_MAX;
        if (value->op == OP_matmul &&
            (!dim_eval(value->in[0]->dims[value->in[0]->rank - 1], bindings, &extent) ||
             __builtin_mul_overflow(count, extent, &count)))
            return INT64_MAX;
        total += count;
    }
    return total;
}

/* The smallest combination that the first check of the graph names. */
static DimBindings meaning_bind(Arena *arena, const Graph *graph) {
    DimBindings bindings = dim_bindings_new(arena, graph->dims);
    for (size_t c = 0; c < graph->checks.n && c < 1; c++)
        for (size_t i = 0; i < graph->checks.at[c].dims.n; i++) {
            const CheckDim *dim = &graph->checks.at[c].dims.at[i];
            bindings.value[dim->symbol] = dim->values[dim->n > 1 && dim->values[0] == 1 ? 1 : 0];
            bindings.known[dim->symbol] = true;
        }
    return bindings;
}

static Tensor *meaning_run(Meaning *meaning, const Graph *graph, Diags *diags) {
    DimBindings bindings = meaning_bind(meaning->arena, graph);
    return support_reference(meaning->arena, graph, &bindings, diags);
}

static double meaning_difference(const Graph *graph, const Tensor *expected, const Tensor *got) {
    double worst = 0;
    for (size_t i = 0; i < graph->outputs.n; i++)
        for (int64_t k = 0; k < expected[i].count; k++) {
            bool real = dtype_is_float(expected[i].dtype);
            double a = real ? expected[i].at[k].f : (double)expected[i].at[k].i;
            double b = real ? got[i].at[k].f : (double)got[i].at[k].i;
            double difference = a == b || (isnan(a) && isnan(b)) ? 0 : fabs(a - b) / (1 + fabs(a));
            worst = difference <= worst ? worst : difference;
        }
    return worst;
}

static void meaning_graph(Meaning *meaning, Graph *graph) {
    Diags diags = {.arena = meaning->arena};
    FuseLimits limits = support_limits();
    PassOptions options = {.limits = &limits,
                           .verify = true,
                           .skip = meaning->skip,
                           .no_fusion = meaning->no_fusion,
                           .pass_limit = -1};
    Graph *before = graph_clone(meaning->arena, graph, NULL, &diags);
    DimBindings bindings = meaning_bind(meaning->arena, graph);
    bool evaluate = meaning->evaluate && meaning_cost(graph, &bindings) < MEANING_COST;
    if (meaning->skip || meaning->no_fusion)
        graph->hints.n = 0; /* expectations are of the whole pipeline */
    Support support = {.arena = meaning->arena};
    support.partition = passes_run(graph, &options, &diags);
    support_kernels(&support);
    meaning->graphs++;
    if (meaning->list)
        print_message("%-60s %s\n", graph->name, support.kernels);
    double worst = 0;
    if (support.partition && evaluate) {
        const Tensor *expected = meaning_run(meaning, before, &diags),
                     *got = meaning_run(meaning, graph, &diags);
        meaning->evaluated += expected && got;
        worst = expected && got ? meaning_difference(before, expected, got) : 0;
    }
    if (!diags.errors && worst <= 2e-2)
        return;
    meaning->failures++;
    Text text = text_new(meaning->arena);
    graph_print(&text, graph);
    print_message("%s: %s, without %s: off by %g\n%s\n", meaning->path, graph->name,
                  meaning->skip ? meaning->skip : "nothing", worst, text.at);
    for (size_t i = 0; i < diags.list.n; i++)
        print_message("  %s\n", diags.list.at[i].message);
}

static void meaning_file(void *context) {
    Meaning *meaning = context;
    Diags diags = {.arena = meaning->arena};
    SourceSet *sources = source_set_new(meaning->arena);
    uint32_t file = source_add(sources, meaning->path, meaning->text, strlen(meaning->text));
    FrontendLimits limits = {0};
    Module module = {0};
    if (!frontend_parse(meaning->arena, sources, file, &limits, &diags, &module)) {
        for (size_t i = 0; i < diags.list.n && meaning->list; i++)
            print_message("%s: %s\n", meaning->path, diags.list.at[i].message);
        return;
    }
    for (size_t i = 0; i < module.graphs.n; i++)
        meaning_graph(meaning, module.graphs.at[i]);
}

static char *meaning_read(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    size_t n = fread(text, 1, (1 << 20) - 1, file);
    text[n] = 0;
    fclose(file);
    return text;
}

/* Of every `every` files the one with the number `first`. */
static void meaning_all(const char *skip, bool no_fusion, bool evaluate, size_t first, size_t every) {
    glob_t found = {0};
    Meaning meaning = {.skip = skip,
                       .no_fusion = no_fusion,
                       .evaluate = evaluate,
                       .list = getenv("MEANING_LIST") && !skip && !no_fusion};
    glob("samples/*.sg", 0, NULL, &found);
    glob("tests/semantics/*.sg", GLOB_APPEND, NULL, &found);
    for (size_t i = first % every; i < found.gl_pathc; i += every) {
        char *text = meaning_read(found.gl_pathv[i]);
        meaning.path = found.gl_pathv[i];
        meaning.text = text;
        meaning.arena = arena_new(0);
        assert_non_null(meaning.arena);
        assert_true(arena_run(meaning.arena, meaning_file, &meaning));
        arena_free(meaning.arena);
        free(text);
    }
    globfree(&found);
    assert_int_equal(meaning.failures, 0);
    assert_true(meaning.graphs > 10);
    assert_true(!evaluate || meaning.evaluated > 10);
}

static void test_whole_pipeline(void **state) {
    (void)state;
    meaning_all(NULL, false, true, 0, 1);
}

static void test_without_fusion(void **state) {
    (void)state;
    meaning_all(NULL, true, false, 0, 1);
}

static void test_each_pass_left_out(void **state) {
    (void)state;
    static const char *const names[] = {"fold",  "simplify", "movement",         "scale",
                                        "cse",   "dce",      "flatten",          "heads",
                                        "split", "fuse",     "movement,simplify"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        meaning_all(names[i], false, i == 2, i, MEANING_EVERY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_pipeline),
        cmocka_unit_test(test_without_fusion),
        cmocka_unit_test(test_each_pass_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
