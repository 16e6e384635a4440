/* sinter inspect: what a kernel is made of. */
#include <stdio.h>
#include <string.h>

#include "ir/base/checked.h"
#include "runtime/cli/cli.h"
#include "runtime/spawn.h"

enum { SHOW_FIGURES = 1, SHOW_SOURCE = 2, SHOW_IR = 4, SHOW_PTX = 8, SHOW_SASS = 16, SHOW_LOG = 32 };

static bool inspect_parts(Cli *cli, unsigned *parts) {
    static const char *const names[] = {"figures", "source", "ir",
                                        "ptx",     "sass",   "log"}; /* the bits above, in order */
    *parts = 0;
    for (const char *word = cli->o.show ? cli->o.show : "figures,source"; *word;) {
        size_t n = strcspn(word, ",");
        const char *name = arena_strndup(cli->arena, word, n);
        unsigned bit = 0;
        for (int i = 0; i < 6; i++)
            if (strcmp(name, names[i]) == 0)
                bit = 1u << i;
        if (!bit) {
            const char *nearest = cli_nearest(name, names, 6);
            cli_error(cli, EXIT_USAGE, "--show knows figures, source, ir, ptx, sass and log, not '%s'%s%s%s",
                      name, nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
            return false;
        }
        *parts |= bit;
        word += n + (word[n] == ',');
    }
    return true;
}

/* Blocks that fit on one SM: by threads, registers (allocated a warp, in units of 256) and shared memory
 * (with 1 KiB a block that the system keeps), at most 32. */
static int inspect_occupancy(const Target *target, const sinter_kernel *kernel) {
    int warps = (kernel->threads + 31) / 32;
    int64_t blocks = target->max_threads_per_sm / (warps * 32);
    if (kernel->registers > 0) {
        int64_t registers = round_up(kernel->registers * 32, 256) * warps;
        int64_t by_registers = target->registers_per_sm / registers;
        blocks = by_registers < blocks ? by_registers : blocks;
    }
    int64_t by_shared = target->smem_per_sm / (kernel->shared_bytes + 1024);
    blocks = by_shared < blocks ? by_shared : blocks;
    return (int)(blocks < 32 ? blocks : 32);
}

/* SASS from nvdisasm, where the toolkit has it; NULL after a note. */
static const char *inspect_sass(Cli *cli, const sinter_kernel *kernel) {
    sinter_context *context = cli->context;
    const char *tool = NULL;
    if (context->cuda_home)
        tool =
            file_find_program(cli->arena, text_format(cli->arena, "%s/bin", context->cuda_home), "nvdisasm");
    if (!tool)
        tool = file_find_program(cli->arena, context->search_path, "nvdisasm");
    if (!tool || !kernel->cubin) {
        cli_note(cli, "no SASS of '%s': %s", kernel->name,
                 tool ? "it has no machine code" : "nvdisasm is not on PATH nor below CUDA_HOME");
        return NULL;
    }
    char directory[1024];
    Text said = text_new(cli->arena);
    if (!spawn_directory(context->temporary ? context->temporary : "/tmp", directory, sizeof directory)) {
        cli_error(cli, EXIT_ENVIRONMENT, "no temporary directory");
        return NULL;
    }
    const char *path = text_format(cli->arena, "%s/kernel.cubin", directory);
    int status = file_write(path, kernel->cubin, kernel->cubin_bytes)
                     ? spawn_run((const char *const[]){tool, "-c", path, NULL}, &said)
                     : -1;
    spawn_directory_remove(directory);
    if (status == 0 && said.n)
        return said.at;
    cli_note(cli, "no SASS of '%s': %s", kernel->name, said.n ? said.at : "nvdisasm failed");
    return NULL;
}

static void inspect_json(Cli *cli, unsigned parts, const sinter_plan *plan, int i, const sinter_kernel *k) {
    const Image *image = &plan->kernels[i].machine.image;
    json_begin(&cli->json, NULL, '{');
    json_text(&cli->json, "name", k->name);
    json_text(&cli->json, "kind", k->kind);
    json_text(&cli->json, "entry", k->entry);
    json_text(&cli->json, "backend", k->backend);
    json_text(&cli->json, "assembler", k->assembler);
    json_int(&cli->json, "threads", k->threads);
    json_int(&cli->json, "registers", k->registers);
    json_int(&cli->json, "stack_bytes", k->stack_bytes);
    json_int(&cli->json, "spill_store_bytes", k->spill_store_bytes);
    json_int(&cli->json, "spill_load_bytes", k->spill_load_bytes);
    json_int(&cli->json, "shared_bytes", k->shared_bytes);
    json_int(&cli->json, "blocks_per_sm", inspect_occupancy(plan->target, k));
    json_int(&cli->json, "serialized", image->figures.serialized);
    if (parts & SHOW_SOURCE)
        json_text(&cli->json, "source", k->cuda);
    if (parts & SHOW_IR)
        json_text(&cli->json, "ir", k->ir);
    if (parts & SHOW_PTX)
        json_text(&cli->json, "ptx", k->ptx);
    if (parts & SHOW_SASS)
        json_text(&cli->json, "sass", inspect_sass(cli, k));
    if (parts & SHOW_LOG)
        json_text(&cli->json, "log", image->log);
    json_end(&cli->json, '}');
}

static void inspect_section(const char *what, const char *name, const char *text) {
    printf("---- %s of %s\n%s%s", what, name, text, *text && text[strlen(text) - 1] == '\n' ? "" : "\n");
}

static void inspect_text(Cli *cli, unsigned parts, const sinter_plan *plan, int i, const sinter_kernel *k) {
    const Image *image = &plan->kernels[i].machine.image;
    if (parts & SHOW_FIGURES) {
        int blocks = inspect_occupancy(plan->target, k);
        printf("kernel %d %s (%s), %s%s%s for %s\n", i, k->name, k->kind, k->backend,
               k->assembler ? " and " : "", k->assembler ? k->assembler : "", plan->target->name);
        if (k->registers)
            printf("    %d threads, %d registers, %d bytes of stack, %d stored and %d loaded by spills\n",
                   k->threads, k->registers, k->stack_bytes, k->spill_store_bytes, k->spill_load_bytes);
        else
            printf("    %d threads; registers are not known, because no assembler ran\n", k->threads);
        printf("    %lld bytes of shared memory; %d blocks an SM, %d of %d threads\n",
               (long long)k->shared_bytes, blocks, blocks * k->threads, plan->target->max_threads_per_sm);
        if (k->entry && strcmp(k->entry, k->name) != 0)
            printf("    its machine code was made for '%s', which is the same but for names\n", k->entry);
        if (image->figures.serialized)
            printf("    the assembler serialized its wgmma instructions: see --show=log\n");
    }
    if (parts & SHOW_SOURCE)
        inspect_section("source", k->name, k->cuda);
    if (parts & SHOW_IR)
        inspect_section("kernel IR", k->name, k->ir);
    if (parts & SHOW_PTX)
        inspect_section("PTX", k->name, k->ptx ? k->ptx : "(none)");
    if (parts & SHOW_SASS) {
        const char *sass = inspect_sass(cli, k);
        if (sass)
            inspect_section("SASS", k->name, sass);
    }
    if (parts & SHOW_LOG)
        inspect_section("log", k->name, image->log ? image->log : "");
}

static bool inspect_has_line(const sinter_graph *graph, const sinter_plan *plan, int i, int64_t line) {
    const Region *region = plan->kernels[i].region;
    for (size_t k = 0; k < region->values.n; k++) {
        Span span = region->values.at[k]->span;
        int at = 0, column;
        if (span.file)
            source_locate(graph->sources, span.file, span.caret, &at, &column);
        if (at == line)
            return true;
    }
    return false;
}

static void inspect_release_plan(void *plan) {
    sinter_plan_destroy(plan);
}

int verb_inspect(Cli *cli) {
    unsigned parts;
    sinter_plan_options options;
    if (!cli_context(cli, DEVICE_NONE) || !inspect_parts(cli, &parts) || !cli_plan_request(cli, &options))
        return cli->worst;
    sinter_graph *graph = cli_load_one(cli);
    if (!graph)
        return cli->worst;
    sinter_plan *plan;
    sinter_status status = sinter_plan_create(cli->context, graph, &options, &plan);
    if (!plan)
        return EXIT_ENVIRONMENT;
    arena_defer(cli->arena, inspect_release_plan, plan);
    cli_plan_diagnostics(cli, plan);
    cli_fail(cli, cli_exit_of(status));
    if (status)
        return cli->worst;
    const sinter_plan *shown = cli_shown_plan(cli, plan);
    if (shown == plan && plan->n_variants)
        cli_note(cli,
                 "for %s and %d more ranges there are kernels of their own, which --symbolic shows with "
                 "values of all dims",
                 sinter_plan_guard(plan->variants[0]), plan->n_variants - 1);
    if (cli->o.kernel.given && cli->o.kernel.value >= shown->n_kernels) {
        cli_error(cli, EXIT_USAGE, "there is no kernel %lld: the graph has %d, counted from 0",
                  (long long)cli->o.kernel.value, shown->n_kernels);
        return cli->worst;
    }
    if (cli->o.json)
        json_begin(&cli->json, NULL, '[');
    for (int i = 0; i < shown->n_kernels; i++) {
        if ((cli->o.kernel.given && cli->o.kernel.value != i) ||
            (cli->o.line.given && !inspect_has_line(graph, shown, i, cli->o.line.value)))
            continue;
        sinter_kernel kernel = {.size = sizeof kernel};
        sinter_plan_kernel(shown, i, &kernel);
        if (cli->o.json)
            inspect_json(cli, parts, shown, i, &kernel);
        else
            inspect_text(cli, parts, shown, i, &kernel);
    }
    if (cli->o.json)
        json_end(&cli->json, ']');
    return cli->worst;
}
