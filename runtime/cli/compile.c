/* sinter compile: graphs to kernels, stopping at any stage. */
#include <stdio.h>
#include <string.h>

#include "ir/print.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/dot.h"
#include "runtime/pack.h"

typedef enum EmitKind {
    EMIT_GRAPH,
    EMIT_AFTER,
    EMIT_REGIONS,
    EMIT_DOT,
    EMIT_KERNEL,
    EMIT_CUDA,
    EMIT_LLVM,
    EMIT_PTX,
    EMIT_CUBIN,
    EMIT_COUNT
} EmitKind;

/* ORDER EmitKind */
static const struct {
    const char *name;
    sinter_stage stage;
} emit_table[EMIT_COUNT] = {
    {"graph", SINTER_STAGE_REGIONS}, {"after:", SINTER_STAGE_REGIONS}, {"regions", SINTER_STAGE_REGIONS},
    {"dot", SINTER_STAGE_REGIONS},   {"kernel", SINTER_STAGE_KERNELS}, {"cuda", SINTER_STAGE_KERNELS},
    {"llvm", SINTER_STAGE_KERNELS},  {"ptx", SINTER_STAGE_PTX},        {"cubin", SINTER_STAGE_BINARY},
};

typedef struct Emit {
    EmitKind kind;
    const char *pass; /* EMIT_AFTER */
    const char *text; /* EMIT_AFTER: the graph when the pass ran last; NULL: it did not run */
} Emit;

typedef struct Compile {
    Cli *cli;
    VEC(Emit) emits;
    sinter_stage stage;
    Text out;  /* what --emit asks for */
    Pack pack; /* what -o gets where nothing is emitted */
} Compile;

static bool compile_emits(Compile *c) {
    Cli *cli = c->cli;
    c->stage = SINTER_STAGE_REGIONS;
    for (const char *word = cli->o.emit; word && *word;) {
        size_t n = strcspn(word, ",");
        const char *name = arena_strndup(cli->arena, word, n);
        const char *names[EMIT_COUNT];
        Emit emit = {EMIT_COUNT, NULL, NULL};
        for (int i = 0; i < EMIT_COUNT; i++) {
            names[i] = emit_table[i].name;
            if (i == EMIT_AFTER ? strncmp(name, names[i], 6) == 0 : strcmp(name, names[i]) == 0)
                emit.kind = (EmitKind)i;
        }
        if (emit.kind == EMIT_COUNT) {
            const char *nearest = cli_nearest(name, names, EMIT_COUNT);
            cli_error(cli, EXIT_USAGE,
                      "--emit knows graph, after:PASS, regions, dot, kernel, cuda, llvm, ptx and cubin, not "
                      "'%s'%s%s%s",
                      name, nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
            return false;
        }
        emit.pass = emit.kind == EMIT_AFTER ? name + 6 : NULL;
        if (emit_table[emit.kind].stage < c->stage)
            c->stage = emit_table[emit.kind].stage;
        vec_push(cli->arena, &c->emits, emit);
        word += n + (word[n] == ',');
    }
    if (!c->emits.n)
        c->stage = SINTER_STAGE_LOAD;
    return true;
}

/* Called after each pass. */
static void compile_dump(void *context, int number, const char *pass, const char *text, int changed) {
    Compile *c = context;
    const char *dump = c->cli->o.dump;
    for (size_t i = 0; i < c->emits.n; i++) {
        Emit *emit = &c->emits.at[i];
        if (emit->kind == EMIT_AFTER && strcmp(emit->pass, pass) == 0)
            emit->text = arena_strdup(c->cli->arena, text);
    }
    if (dump && strcmp(dump, "all") == 0) {
        text_add(&c->out, "# %02d after %s%s\n%s\n", number, pass, changed ? "" : " (unchanged)", text);
    } else if (dump) {
        const char *path = text_format(c->cli->arena, "%s/%02d-after-%s.sg", dump, number, pass);
        cli_write(c->cli, path, text, strlen(text));
    }
}

static void compile_emit_llvm(Compile *c, const sinter_plan *plan) {
    const LlvmBackend *llvm = context_llvm(c->cli->context);
    if (!llvm->library) {
        cli_error(c->cli, EXIT_ENVIRONMENT, "%s", llvm->why);
        return;
    }
    for (int i = 0; i < plan->n_kernels; i++) {
        Diags diags = {.arena = c->cli->arena};
        if (llvm->emit(&c->out, plan->kernels[i].kernel, LLVM_OUTPUT_IR, &diags))
            continue;
        for (size_t k = 0; k < diags.list.n; k++)
            cli_error(c->cli, (int)diag_fault(diags.list.at[k].id), "%s", diags.list.at[k].message);
    }
}

static void compile_emit(Compile *c, const Emit *emit, const sinter_graph *graph, const sinter_plan *plan) {
    Cli *cli = c->cli;
    switch (emit->kind) {
    case EMIT_GRAPH: graph_print(&c->out, graph->graph); break;
    case EMIT_AFTER:
        if (emit->text)
            text_add(&c->out, "%s", emit->text);
        else
            cli_error(cli, EXIT_USAGE, "no pass '%s' ran", emit->pass);
        break;
    case EMIT_REGIONS: partition_print(&c->out, plan->partition); break;
    case EMIT_DOT: dot_print(&c->out, plan); break;
    case EMIT_LLVM: compile_emit_llvm(c, plan); break;
    case EMIT_KERNEL:
    case EMIT_CUDA:
    case EMIT_PTX:
    case EMIT_CUBIN:
        for (int i = 0; i < plan->n_kernels; i++) {
            sinter_kernel kernel = {.size = sizeof kernel};
            sinter_plan_kernel(plan, i, &kernel);
            if ((emit->kind == EMIT_PTX || emit->kind == EMIT_CUBIN) &&
                plan_same_code(plan, &plan->kernels[i]))
                continue;
            if (emit->kind == EMIT_CUBIN)
                text_add_bytes(&c->out, kernel.cubin, kernel.cubin_bytes);
            else
                text_add(&c->out, "%s",
                         emit->kind == EMIT_KERNEL ? kernel.ir
                         : emit->kind == EMIT_CUDA ? kernel.cuda
                                                   : kernel.ptx);
        }
        break;
    case EMIT_COUNT: break;
    }
}

static void compile_times(Cli *cli, const sinter_graph *graph, const sinter_plan *plan) {
    const sinter_times *t = &plan->times;
    if (cli->o.json) {
        json_begin(&cli->json, "times_ms", '{');
        json_real(&cli->json, "parse", graph->parse_ms);
        json_real(&cli->json, "passes", t->passes_ms);
        json_real(&cli->json, "codegen", t->codegen_ms);
        json_real(&cli->json, "backend", t->backend_ms);
        json_real(&cli->json, "ptxas", t->ptxas_ms);
        json_real(&cli->json, "load", t->load_ms);
        json_end(&cli->json, '}');
    } else if (cli->o.times) {
        fprintf(stderr, "%s: parse %.2f ms, passes %.2f, codegen %.2f, backend %.2f, ptxas %.2f, load %.2f\n",
                graph->graph->name, graph->parse_ms, t->passes_ms, t->codegen_ms, t->backend_ms, t->ptxas_ms,
                t->load_ms);
    }
}

static void compile_print_kernels(const sinter_plan *plan) {
    for (int i = 0; i < plan->n_kernels; i++) {
        sinter_kernel k = {.size = sizeof k};
        sinter_plan_kernel(plan, i, &k);
        printf("  %-24s %-9s %4d threads, %3d registers, %6lld bytes shared, %d spilled, %s%s%s\n", k.name,
               k.kind, k.threads, k.registers, (long long)k.shared_bytes,
               k.spill_store_bytes + k.spill_load_bytes, k.backend ? k.backend : "-", k.assembler ? "/" : "",
               k.assembler ? k.assembler : "");
    }
}

static void compile_print(const sinter_plan *plan) {
    printf("%s: %d kernel%s for %s\n", plan->graph->name, plan->n_kernels, plan->n_kernels == 1 ? "" : "s",
           plan->target->name);
    compile_print_kernels(plan);
    for (int i = 0; i < plan->n_variants; i++) {
        printf(" for %s\n", sinter_plan_guard(plan->variants[i]));
        compile_print_kernels(plan->variants[i]);
    }
}

static void compile_json_kernels(Cli *cli, const sinter_plan *plan) {
    json_begin(&cli->json, "kernels", '[');
    for (int i = 0; i < plan->n_kernels; i++) {
        sinter_kernel k = {.size = sizeof k};
        sinter_plan_kernel(plan, i, &k);
        json_begin(&cli->json, NULL, '{');
        json_text(&cli->json, "name", k.name);
        json_text(&cli->json, "kind", k.kind);
        json_text(&cli->json, "entry", k.entry);
        json_text(&cli->json, "backend", k.backend);
        json_text(&cli->json, "assembler", k.assembler);
        json_int(&cli->json, "threads", k.threads);
        json_int(&cli->json, "registers", k.registers);
        json_int(&cli->json, "shared_bytes", k.shared_bytes);
        json_int(&cli->json, "stack_bytes", k.stack_bytes);
        json_int(&cli->json, "spill_bytes", k.spill_store_bytes + k.spill_load_bytes);
        json_int(&cli->json, "serialized",
                 plan->kernels[i].has_image ? plan->kernels[i].machine.image.figures.serialized : 0);
        json_bool(&cli->json, "cached", k.from_cache);
        json_end(&cli->json, '}');
    }
    json_end(&cli->json, ']');
}

static void compile_json(Cli *cli, const char *file, const sinter_graph *graph, const sinter_plan *plan,
                         sinter_status status) {
    json_begin(&cli->json, NULL, '{');
    json_text(&cli->json, "file", file);
    json_text(&cli->json, "graph", graph->graph->name);
    json_text(&cli->json, "status", sinter_status_name(status));
    json_text(&cli->json, "target", plan->target ? plan->target->name : NULL);
    json_begin(&cli->json, "dims", '{');
    for (int i = 0; i < plan->n_bound; i++)
        json_int(&cli->json, plan->bound[i].name, plan->bound[i].value);
    json_end(&cli->json, '}');
    compile_times(cli, graph, plan);
    compile_json_kernels(cli, plan);
    json_begin(&cli->json, "variants", '[');
    for (int i = 0; i < plan->n_variants; i++) {
        json_begin(&cli->json, NULL, '{');
        json_text(&cli->json, "guard", sinter_plan_guard(plan->variants[i]));
        compile_json_kernels(cli, plan->variants[i]);
        json_end(&cli->json, '}');
    }
    json_end(&cli->json, ']');
    json_begin(&cli->json, "diagnostics", '[');
    const sinter_diagnostic *d;
    for (int i = 0; (d = sinter_plan_diagnostic(plan, i)); i++)
        json_text(&cli->json, NULL, d->text);
    json_end(&cli->json, ']');
    json_end(&cli->json, '}');
}

static void compile_report(Compile *c, const char *file, const sinter_graph *graph, const sinter_plan *plan,
                           sinter_status status) {
    Cli *cli = c->cli;
    if (cli->o.json) {
        compile_json(cli, file, graph, plan, status);
        return;
    }
    compile_times(cli, graph, plan);
    if (!c->emits.n && !cli->o.output && !cli->o.dump && !cli->o.quiet && !status)
        compile_print(plan);
}

static void compile_release(void *graph) {
    sinter_graph_destroy(graph);
}

/* The graph as its own canonical text gives it, which is what a pack holds: names of intermediates, and so
 * the text of kernels, are those that opening the pack will give again. NULL after diagnostics. */
static sinter_graph *compile_canonical(Compile *c, sinter_graph *graph) {
    sinter_graph *canonical;
    sinter_source source = {.size = sizeof source, .text = sinter_graph_text(graph), .name = "<canonical>"};
    sinter_status status = sinter_graph_parse(c->cli->context, &source, &canonical);
    if (canonical) {
        arena_defer(c->cli->arena, compile_release, canonical);
        cli_graph_diagnostics(c->cli, canonical);
    }
    cli_fail(c->cli, cli_exit_of(status));
    return status ? NULL : canonical;
}

static void compile_graph(Compile *c, const char *file, sinter_graph *graph, const sinter_dim *dims,
                          int n_dims) {
    Cli *cli = c->cli;
    bool packs = cli->o.output && !c->emits.n;
    if (packs && !(graph = compile_canonical(c, graph)))
        return;
    sinter_plan_options options;
    sinter_backend backend[2];
    if (!cli_plan_options(cli, &options) || !cli_backends(cli, false, backend))
        return;
    options.backend = backend[0];
    options.stage = c->stage;
    cli_plan_dims(cli, dims, n_dims, &options);
    bool dumps = cli->o.dump != NULL;
    for (size_t i = 0; i < c->emits.n; i++)
        dumps |= c->emits.at[i].kind == EMIT_AFTER;
    options.dump = dumps ? compile_dump : NULL; /* each pass would print the graph for nothing */
    options.dump_context = c;
    cli_progress(cli, "compiling %s", graph->graph->name);
    sinter_plan *plan;
    sinter_status status = sinter_plan_create(cli->context, graph, &options, &plan);
    if (!plan) {
        cli_error(cli, EXIT_ENVIRONMENT, "memory ran out");
        return;
    }
    cli_plan_diagnostics(cli, plan);
    cli_fail(cli, cli_exit_of(status));
    for (size_t i = 0; i < c->emits.n; i++)
        if (!status || c->emits.at[i].kind == EMIT_GRAPH)
            compile_emit(c, &c->emits.at[i], graph, cli_shown_plan(cli, plan));
    compile_report(c, file, graph, plan, status);
    if (!status && packs)
        pack_add(&c->pack, plan, graph->graph->name, sinter_graph_text(graph));
    sinter_plan_destroy(plan);
}

static void compile_chosen(Compile *c, const char *file, sinter_graph *graph) {
    Cli *cli = c->cli;
    sinter_dim *dims;
    int n_dims;
    if (!cli_dims(cli, &dims, &n_dims))
        return;
    if (!cli_tune(cli, file, graph, dims, n_dims))
        return;
    compile_graph(c, file, graph, dims, n_dims);
    const Graph *g = graph->graph;
    for (size_t i = 0; cli->o.checks && i < g->checks.n; i++)
        for (int64_t k = 0;
             g->checks.at[i].dims.n && cli_check_dims(cli, graph, &g->checks.at[i], k, &dims, &n_dims); k++)
            compile_graph(c, file, graph, dims, n_dims);
}

static void compile_visit(Cli *cli, const char *file, sinter_graph *graph, void *context) {
    (void)cli;
    compile_chosen(context, file, graph);
}

int verb_compile(Cli *cli) {
    Compile c = {.cli = cli, .out = text_new(cli->arena)};
    if (!cli_context(cli, cli->o.tune ? DEVICE_REQUIRED : DEVICE_NONE) || !compile_emits(&c))
        return cli->worst;
    if (cli->o.dump && strcmp(cli->o.dump, "all") != 0 && !file_make_directory(cli->o.dump)) {
        cli_error(cli, EXIT_ENVIRONMENT, "%s could not be made", cli->o.dump);
        return cli->worst;
    }
    c.pack = pack_new(cli->arena);
    cli_each_graph(cli, compile_visit, &c);
    if (c.out.n && !(cli->o.output && cli->worst))
        cli_write(cli, cli->o.output, c.out.at, c.out.n);
    if (cli->o.output && !c.emits.n && !cli->worst) {
        Text bytes = text_new(cli->arena);
        pack_encode(&bytes, &c.pack);
        cli_write(cli, cli->o.output, bytes.at, bytes.n);
    }
    return cli->worst;
}
