/* Passes: graph -> graph, then graph -> regions. passes.def lists them in order; passes_run() is the whole
 * pipeline. */
#ifndef SINTER_PASSES_PASS_H
#define SINTER_PASSES_PASS_H

#include "ir/graph.h"
#include "ir/region.h"

typedef struct PassOptions {
    const FuseLimits *limits;
    bool verify;      /* the verifier after each pass, and the changed flag compared with the graph's hash */
    bool no_fusion;   /* every operation its own region: what `bench` compares with */
    int pass_limit;   /* only the first n passes; negative: all */
    const char *skip; /* comma-separated pass names; NULL: none */
    /* Whether codegen has more than a loop an element for a region, with a person's words in *why where it
     * has not; NULL: it always has. Asked of regions that fusion is not sure of. */
    bool (*takes)(void *context, const Graph *graph, const Region *region, const char **why);
    /* Seconds that codegen expects a region's kernel to take, 0 where it does not know; NULL: it never does.
     */
    double (*seconds)(void *context, const Graph *graph, const Region *region);
    void *takes_context;
    /* Called after each pass that ran, for --dump and --emit=after:NAME; NULL: not. */
    void (*dump)(void *context, int number, const char *pass, const Graph *graph, bool changed);
    void *dump_context;
} PassOptions;

/* What a pass gets besides the graph. */
typedef struct Pass {
    Arena *arena;
    const PassOptions *options;
    Diags *diags;
    Partition *partition; /* where decisions are recorded; regions from `fuse` on */
    const char *name;
    void *state; /* of the pass that runs: what its rules share */
} Pass;

/* True where the pass changed the graph. Errors go to pass->diags. */
typedef bool (*PassFunction)(Pass *pass, Graph *graph);

#define PASS(NAME, FUNCTION, DOC) bool FUNCTION(Pass *pass, Graph *graph);
#include "passes/passes.def"
#undef PASS

/* Simplifies `graph` in place and cuts it into regions. NULL, with diagnostics, where a rule or an @expect
 * fails. The Partition lies in the graph's arena. Schedules are not chosen here. */
Partition *passes_run(Graph *graph, const PassOptions *options, Diags *diags);

void pass_decide(Pass *pass, const char *rule, bool fused, Value *at, Value *other, const char *change,
                 const char *why, ...) __attribute__((format(printf, 7, 8)));

/* What a fusion rule says at large: a row of fuse_rules.def, by name; NULL where there is none. */
const char *fuse_rule_doc(const char *name);

#endif
