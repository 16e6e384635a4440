/* The pipeline: passes.def in order, and around each pass the duties of a runner: skip, limit, dump, verify,
 * and whether a pass that says "unchanged" told the truth. */
#include "passes/fuse.h"
#include "passes/pass.h"
#include "ir/print.h"
#include "ir/verify.h"

typedef struct PassRow {
    const char *name;
    PassFunction run;
} PassRow;

static const PassRow pass_rows[] = {
#define PASS(NAME, FUNCTION, DOC) {#NAME, FUNCTION},
#include "passes/passes.def"
#undef PASS
};

enum {
    PASS_COUNT = sizeof pass_rows / sizeof *pass_rows,
    PASS_REPEATED = 15, /* ORDER PASS: groups .. split_keys */
    PASS_ROUNDS = 32, /* rules are made to settle in two or three, or one for each of a short sum's terms; the
                       * bound is for rules that chase one another */
};

static bool pass_is_listed(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; at && *at;) {
        const char *end = strchr(at, ',');
        size_t n = end ? (size_t)(end - at) : strlen(at);
        if (n == length && !memcmp(at, name, n))
            return true;
        at = end ? end + 1 : NULL;
    }
    return false;
}

/* Nothing can be launched without these, so neither skip nor limit reaches them; skipping `fuse` gives a
 * kernel an operation. */
static bool pass_is_required(const PassRow *row) {
    return row->run == pass_fuse || row->run == pass_workspace;
}

static bool pass_check(Pass *pass, Graph *graph, const uint8_t *before, bool changed) {
    uint8_t after[GRAPH_HASH_BYTES];
    graph_hash(graph, after);
    bool differs = memcmp(before, after, GRAPH_HASH_BYTES) != 0;
    if (differs != changed)
        diag_error(pass->diags, DIAG_INTERNAL, graph->span,
                   "pass '%s' says that it %s the graph, which is not so", pass->name,
                   changed ? "changed" : "did not change");
    return graph_verify(graph, pass->name, pass->diags) && differs == changed;
}

/* Runs one pass; *changed as it says. False where it failed. */
static bool pass_run_one(Pass *pass, Graph *graph, const PassRow *row, int *number, bool *changed) {
    const PassOptions *options = pass->options;
    *changed = false;
    bool skipped = pass_is_listed(options->skip, row->name) ||
                   (options->pass_limit >= 0 && *number >= options->pass_limit);
    if (skipped && !pass_is_required(row))
        return true;
    PassOptions unfused = *options;
    unfused.no_fusion = options->no_fusion || (skipped && row->run == pass_fuse);
    pass->options = &unfused;
    pass->name = row->name;
    uint8_t before[GRAPH_HASH_BYTES];
    if (options->verify)
        graph_hash(graph, before);
    int errors = pass->diags->errors;
    *changed = row->run(pass, graph);
    pass->options = options;
    ++*number;
    if (pass->diags->errors != errors)
        return false;
    if (options->dump)
        options->dump(options->dump_context, *number, row->name, graph, *changed);
    return !options->verify || pass_check(pass, graph, before, *changed);
}

Partition *passes_run(Graph *graph, const PassOptions *options, Diags *diags) {
    Partition *partition = ARENA_NEW(graph->arena, Partition);
    partition->graph = graph;
    partition->workspace = dim_const(graph->dims, 0);
    Pass pass = {.arena = graph->arena, .options = options, .diags = diags, .partition = partition};
    graph_renumber(graph);
    int number = 0;
    bool changed = true;
    for (int round = 0; round < PASS_ROUNDS && changed; round++) {
        bool any = false;
        for (int i = 0; i < PASS_REPEATED; i++) {
            if (!pass_run_one(&pass, graph, &pass_rows[i], &number, &changed))
                return NULL;
            any |= changed;
        }
        changed = any;
    }
    if (changed && options->verify && options->pass_limit < 0)
        diag_error(diags, DIAG_INTERNAL, graph->span, "the passes do not settle in %d rounds", PASS_ROUNDS);
    for (int i = PASS_REPEATED; i < PASS_COUNT; i++)
        if (!pass_run_one(&pass, graph, &pass_rows[i], &number, &changed))
            return NULL;
    graph_name_values(graph);
    return partition;
}
