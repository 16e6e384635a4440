/* sinter explain: fusion decisions of a graph, or the meaning of a diagnostic. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cli/cli.h"

/* `sinter explain shape-mismatch`: true where the operand is a diagnostic's name, and no file. */
static bool explain_diagnostic(Cli *cli) {
    const char *word = cli->o.operands.at[0];
    if (cli->o.operands.n != 1 || strcmp(word, "-") == 0 || access(word, F_OK) == 0)
        return false;
    DiagId id = diag_find(word);
    if (id == DIAG_COUNT) {
        const char *names[DIAG_COUNT];
        for (int i = 0; i < DIAG_COUNT; i++)
            names[i] = diag_name((DiagId)i);
        const char *nearest =
            strchr(word, '.') || strchr(word, '/') ? NULL : cli_nearest(word, names, DIAG_COUNT);
        if (!nearest)
            return false;
        cli_error(cli, EXIT_USAGE, "'%s' is neither a file nor a diagnostic; did you mean '%s'?", word,
                  nearest);
        return true;
    }
    static const char *const faults[] = {"",
                                         "the graph or the input is at fault",
                                         "the call is at fault",
                                         "not supported",
                                         "a defect of Sinter",
                                         "the environment is at fault"}; /* ORDER FaultKind */
    if (cli->o.json) {
        json_begin(&cli->json, NULL, '{');
        json_text(&cli->json, "id", diag_name(id));
        json_text(&cli->json, "text", diag_doc(id));
        json_int(&cli->json, "exit_status", diag_fault(id));
        json_end(&cli->json, '}');
    } else {
        printf("%s: %s\n(%s: exit status %d)\n", diag_name(id), diag_doc(id), faults[diag_fault(id)],
               (int)diag_fault(id));
    }
    return true;
}

static void explain_kernels_json(Cli *cli, const sinter_plan *plan) {
    json_begin(&cli->json, "kernels", '[');
    for (size_t i = 0; i < plan->partition->regions.n; i++) {
        const Region *region = plan->partition->regions.at[i];
        json_begin(&cli->json, NULL, '{');
        json_text(&cli->json, "name", region->name);
        json_text(&cli->json, "kind", plan_template_name(region->kind));
        json_text(&cli->json, "guest", region->guest ? plan_template_name(region->guest->kind) : NULL);
        json_end(&cli->json, '}');
    }
    json_end(&cli->json, ']');
}

static void explain_json(Cli *cli, const sinter_plan *plan, int line) {
    json_begin(&cli->json, NULL, '{');
    json_text(&cli->json, "graph", plan->graph->name);
    json_text(&cli->json, "guard", plan->scope ? plan->scope->text : NULL);
    explain_kernels_json(cli, plan);
    json_begin(&cli->json, "variants", '[');
    for (int i = 0; i < plan->n_variants; i++) {
        json_begin(&cli->json, NULL, '{');
        json_text(&cli->json, "guard", plan->variants[i]->scope->text);
        explain_kernels_json(cli, plan->variants[i]);
        json_end(&cli->json, '}');
    }
    json_end(&cli->json, ']');
    json_begin(&cli->json, "decisions", '[');
    for (int i = 0; i < plan->n_decisions; i++) {
        const PlanDecision *d = &plan->decisions[i];
        if (line && d->line != line)
            continue;
        json_begin(&cli->json, NULL, '{');
        json_int(&cli->json, "line", d->line);
        json_text(&cli->json, "at", d->decision->at ? d->decision->at->name : NULL);
        json_text(&cli->json, "with", d->decision->other ? d->decision->other->name : NULL);
        json_bool(&cli->json, "fused", d->decision->fused);
        json_text(&cli->json, "rule", d->decision->rule);
        json_text(&cli->json, "why", d->decision->why);
        json_text(&cli->json, "change", d->decision->change);
        json_end(&cli->json, '}');
    }
    json_end(&cli->json, ']');
    json_end(&cli->json, '}');
}

/* Which schedule is taken may hang on what the assembler says of spills: down to machine code, where this
 * machine can. */
static sinter_stage explain_stage(Cli *cli, sinter_backend backend, int line) {
    bool nvrtc = backend != SINTER_BACKEND_LLVM && context_nvrtc(cli->context)->library;
    bool llvm = backend != SINTER_BACKEND_NVRTC && context_llvm(cli->context)->library &&
                context_ptxas(cli->context)->path;
    return !line && (nvrtc || llvm) ? SINTER_STAGE_BINARY : SINTER_STAGE_KERNELS;
}

static void explain_graph(Cli *cli, const sinter_graph *graph, int line) {
    sinter_plan_options options;
    if (!cli_plan_request(cli, &options))
        return;
    options.stage = explain_stage(cli, options.backend, line);
    sinter_plan *plan;
    sinter_status status = sinter_plan_create(cli->context, graph, &options, &plan);
    if (plan && status && options.stage == SINTER_STAGE_BINARY) { /* decisions do not need what failed */
        sinter_plan_destroy(plan);
        options.stage = SINTER_STAGE_KERNELS;
        status = sinter_plan_create(cli->context, graph, &options, &plan);
    }
    if (!plan) {
        cli_fail(cli, EXIT_ENVIRONMENT);
        return;
    }
    cli_plan_diagnostics(cli, plan);
    cli_fail(cli, cli_exit_of(status));
    const sinter_plan *shown = cli_shown_plan(cli, plan);
    if (shown->partition && cli->o.json) {
        explain_json(cli, shown, line);
    } else if (shown->partition) {
        Text text = text_new(cli->arena);
        plan_explain(&text, shown, line);
        if (!text.n)
            text_add(&text, "nothing was decided at line %d of graph '%s'\n", line, graph->graph->name);
        cli_print(cli, text.at, text.n);
    }
    sinter_plan_destroy(plan);
}

int verb_explain(Cli *cli) {
    if (explain_diagnostic(cli))
        return cli->worst;
    int line = 0;
    if (cli->o.operands.n == 2) {
        char *end;
        long value = strtol(cli->o.operands.at[1], &end, 10);
        if (*end || value < 1 || value > INT32_MAX) {
            cli_error(cli, EXIT_USAGE, "LINE is a number of the file's lines, not '%s'",
                      cli->o.operands.at[1]);
            return cli->worst;
        }
        line = (int)value;
    }
    if (!cli_context(cli, DEVICE_NONE))
        return cli->worst;
    sinter_graph *graph = cli_load(cli, cli->o.operands.at[0]);
    if (!graph)
        return cli->worst;
    size_t *chosen = ARENA_ARRAY(cli->arena, size_t, graph->module.graphs.n);
    size_t n = cli_choose(cli, graph, false, chosen);
    if (cli->o.json)
        json_begin(&cli->json, NULL, '[');
    for (size_t i = 0; i < n; i++) {
        graph_select(graph, chosen[i]);
        explain_graph(cli, graph, line);
    }
    if (cli->o.json)
        json_end(&cli->json, ']');
    return cli->worst;
}
