/* What verbs share: messages, files, contexts, the choice of graphs, dims and backends. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cli/cli.h"
#include "runtime/pack.h"

enum { SOURCE_MOST = 64 << 20 };

void cli_fail(Cli *cli, int status) {
    if (status > cli->worst)
        cli->worst = status;
}

int cli_exit_of(sinter_status status) {
    return (int)status / 100;
}

void cli_error(Cli *cli, int status, const char *format, ...) {
    cli_progress_end(cli);
    va_list args;
    va_start(args, format);
    fprintf(stderr, "sinter: error: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    cli_fail(cli, status);
}

void cli_note(Cli *cli, const char *format, ...) {
    if (cli->o.quiet)
        return;
    cli_progress_end(cli);
    va_list args;
    va_start(args, format);
    fprintf(stderr, "sinter: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
}

void cli_print(Cli *cli, const char *text, size_t n) {
    if (n && fwrite(text, 1, n, stdout) != n)
        cli_error(cli, EXIT_ENVIRONMENT, "standard output could not be written: %s", strerror(errno));
}

bool cli_write(Cli *cli, const char *path, const void *bytes, size_t n) {
    if (!path || strcmp(path, "-") == 0) {
        cli_print(cli, bytes, n);
        return cli->worst < EXIT_ENVIRONMENT;
    }
    if (file_write(path, bytes, n))
        return true;
    cli_error(cli, EXIT_ENVIRONMENT, "%s could not be written: %s", path, strerror(errno));
    return false;
}

static void cli_diagnostic(const Cli *cli, Text *out, const sinter_diagnostic *d) {
    if (!cli->o.quiet || d->severity == SINTER_ERROR)
        text_add(out, "%s", d->text);
}

static void cli_say(Cli *cli, const Text *text) {
    if (!text->n)
        return;
    cli_progress_end(cli);
    fputs(text->at, stderr);
}

void cli_graph_diagnostics(Cli *cli, const sinter_graph *graph) {
    Text text = text_new(cli->arena);
    const sinter_diagnostic *d;
    for (int i = 0; (d = sinter_graph_diagnostic(graph, i)); i++)
        cli_diagnostic(cli, &text, d);
    cli_say(cli, &text);
}

void cli_plan_diagnostics(Cli *cli, const sinter_plan *plan) {
    Text text = text_new(cli->arena);
    const sinter_diagnostic *d;
    for (int i = 0; (d = sinter_plan_diagnostic(plan, i)); i++)
        cli_diagnostic(cli, &text, d);
    if (cli->said && strcmp(cli->said, text.at) == 0)
        return;
    cli->said = text.at;
    cli_say(cli, &text);
}

/* Whether anything was tuned: it holds for the device that it was measured on, which then has to be asked. */
static bool cli_has_tuned(const Cli *cli) {
    const char *directory = cli->context->tuned.directory;
    return directory && !cli->o.no_tuned && access(directory, F_OK) == 0;
}

bool cli_context(Cli *cli, DeviceNeed need) {
    if (cli->context)
        return need != DEVICE_REQUIRED || cli->context->has_device;
    sinter_context_options options = {
        .size = sizeof options,
        .use_device = need != DEVICE_NONE,
        .device = (int)cli->o.device_number.value,
        .read_environment = 1,
        .cache_directory = cli->o.cache_dir,
        .llvm_plugin = cli->o.llvm_plugin,
        .nvrtc_library = cli->o.nvrtc,
    };
    sinter_status status = sinter_context_create(&options, &cli->context);
    bool is_own = !cli->o.target || strcmp(cli->o.target, "auto") == 0;
    if (!status && need == DEVICE_NONE && is_own && cli_has_tuned(cli)) {
        sinter_context_destroy(cli->context);
        options.use_device = 1;
        status = sinter_context_create(&options, &cli->context);
        need = DEVICE_IF_THERE;
    }
    if (!status || (status == SINTER_NO_DEVICE && need == DEVICE_IF_THERE))
        return true;
    const sinter_diagnostic *d = sinter_context_diagnostic(cli->context, 0);
    cli_error(cli, cli_exit_of(status), "%s", d ? d->message : sinter_status_text(status));
    return false;
}

static void cli_release_graph(void *graph) {
    sinter_graph_destroy(graph);
}

/* The graphs of a pack as one source. Its target and dims hold where the command line says nothing else. */
static bool cli_open_pack(Cli *cli, const char *path, Bytes *bytes) {
    Diags diags = {.arena = cli->arena};
    Pack pack;
    if (!pack_decode(cli->arena, bytes->at, bytes->n, path, &diags, &pack)) {
        cli_error(cli, EXIT_INPUT, "%s [data]", diags.list.at[0].message);
        return false;
    }
    sinter_context_use_pack(cli->context, bytes->at, bytes->n);
    static const char version[] = "sinter 1\n";
    Text text = text_new(cli->arena);
    text_add(&text, version);
    for (size_t i = 0; i < pack.graphs.n; i++) {
        const PackGraph *graph = &pack.graphs.at[i];
        const char *body = graph->text;
        if (strncmp(body, version, sizeof version - 1) == 0)
            body += sizeof version - 1;
        text_add(&text, "%s\n", body);
        cli->o.no_fusion |= graph->no_fusion;
        cli->o.no_variants |= graph->no_variants;
        if (!cli->o.target)
            cli->o.target = graph->target;
        for (size_t k = 0; k < graph->dims.n; k++)
            vec_push(cli->arena, &cli->o.dims,
                     text_format(cli->arena, "%s=%lld", graph->dims.at[k].name,
                                 (long long)graph->dims.at[k].value));
    }
    *bytes = (Bytes){(const uint8_t *)text.at, text.n};
    return true;
}

sinter_graph *cli_load(Cli *cli, const char *path) {
    Bytes text;
    if (!file_read(cli->arena, path, SOURCE_MOST, &text)) {
        int error = errno;
        bool input = error == ENOENT || error == EISDIR || error == EFBIG || error == EACCES;
        cli_error(cli, input ? EXIT_INPUT : EXIT_ENVIRONMENT, "%s could not be read: %s", path,
                  strerror(error));
        return NULL;
    }
    if (pack_is(text.at, text.n) && !cli_open_pack(cli, path, &text))
        return NULL;
    sinter_source source = {.size = sizeof source,
                            .text = (const char *)text.at,
                            .length = text.n,
                            .name = strcmp(path, "-") == 0 ? "<stdin>" : path};
    sinter_graph *graph;
    sinter_status status = graph_parse_module(cli->context, &source, &graph);
    if (graph) {
        arena_defer(cli->arena, cli_release_graph, graph);
        cli_graph_diagnostics(cli, graph);
    }
    if (!status)
        return graph;
    cli_fail(cli, cli_exit_of(status));
    return NULL;
}

/* Whether a list of names, separated by commas, has this one. */
static bool cli_names(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at += n)
        if ((at == list || at[-1] == ',') && (!at[n] || at[n] == ','))
            return true;
    return false;
}

size_t cli_choose(Cli *cli, const sinter_graph *graph, bool single, size_t *chosen) {
    size_t all = graph->module.graphs.n, n = 0;
    const char *wanted = cli->o.graph;
    const char **names = ARENA_ARRAY(cli->arena, const char *, all + 1);
    for (size_t i = 0; i < all; i++) {
        names[i] = graph->module.graphs.at[i]->name;
        if (!wanted || cli_names(wanted, names[i]))
            chosen[n++] = i;
    }
    if (n == 0) {
        const char *nearest = cli_nearest(wanted, names, all);
        cli_error(cli, EXIT_USAGE, "there is no graph '%s'%s%s%s", wanted, nearest ? "; did you mean '" : "",
                  nearest ? nearest : "", nearest ? "'?" : "");
    } else if (single && n > 1) {
        cli_error(cli, EXIT_USAGE, "the file has %zu graphs: choose one with --graph=%s", n, names[0]);
        n = 0;
    }
    return n;
}

sinter_graph *cli_load_one(Cli *cli) {
    sinter_graph *graph = cli_load(cli, cli->o.operands.at[0]);
    if (!graph)
        return NULL;
    size_t *chosen = ARENA_ARRAY(cli->arena, size_t, graph->module.graphs.n);
    if (cli_choose(cli, graph, true, chosen) != 1)
        return NULL;
    graph_select(graph, chosen[0]);
    return graph;
}

void cli_each_graph(Cli *cli, CliVisit *visit, void *context) {
    if (cli->o.json)
        json_begin(&cli->json, NULL, '[');
    for (size_t f = 0; f < cli->o.operands.n; f++) {
        sinter_graph *graph = cli_load(cli, cli->o.operands.at[f]);
        if (!graph)
            continue;
        size_t *chosen = ARENA_ARRAY(cli->arena, size_t, graph->module.graphs.n);
        size_t n = cli_choose(cli, graph, false, chosen);
        for (size_t i = 0; i < n; i++) {
            graph_select(graph, chosen[i]);
            visit(cli, cli->o.operands.at[f], graph, context);
        }
    }
    if (cli->o.json)
        json_end(&cli->json, ']');
}

bool cli_dims(Cli *cli, sinter_dim **dims, int *n) {
    const OptionList *list = &cli->o.dims;
    *dims = ARENA_ARRAY(cli->arena, sinter_dim, list->n + 1);
    *n = (int)list->n;
    for (size_t i = 0; i < list->n; i++) {
        const char *equals = strchr(list->at[i], '=');
        char *end = NULL;
        errno = 0;
        long long value = equals ? strtoll(equals + 1, &end, 10) : 0;
        if (!equals || equals == list->at[i] || !equals[1] || *end || errno || value < 0) {
            cli_error(cli, EXIT_USAGE, "--dim wants NAME=VALUE, such as M=128, not '%s'", list->at[i]);
            return false;
        }
        (*dims)[i] =
            (sinter_dim){arena_strndup(cli->arena, list->at[i], (size_t)(equals - list->at[i])), value};
    }
    return true;
}

bool cli_check_dims(Cli *cli, const sinter_graph *graph, const Check *check, int64_t number,
                    sinter_dim **dims, int *n) {
    sinter_dim *given;
    int n_given;
    if (!cli_dims(cli, &given, &n_given))
        return false;
    size_t n_own = check ? check->dims.n : 0;
    *dims = ARENA_ARRAY(cli->arena, sinter_dim, n_own + (size_t)n_given + 1);
    for (size_t i = n_own; i-- > 0;) {
        const CheckDim *dim = &check->dims.at[i];
        (*dims)[i] =
            (sinter_dim){dim_symbol_name(graph->graph->dims, dim->symbol), dim->values[number % dim->n]};
        number /= dim->n;
    }
    *n = (int)n_own;
    for (int i = 0; i < n_given; i++)
        if (dim_find_symbol(graph->graph->dims, given[i].name))
            (*dims)[(*n)++] = given[i];
    return number == 0;
}

const char *cli_backend_name(sinter_backend backend) {
    return backend == SINTER_BACKEND_LLVM ? "llvm" : backend == SINTER_BACKEND_NVRTC ? "nvrtc" : "auto";
}

int cli_backends(Cli *cli, bool all, sinter_backend out[2]) {
    static const char *const names[] = {"auto", "llvm", "nvrtc", "all"};
    const char *wanted = cli->o.backend ? cli->o.backend : "auto";
    for (int i = 0; i < 3; i++) {
        if (strcmp(wanted, names[i]) == 0) {
            out[0] = (sinter_backend)i; /* ORDER sinter_backend */
            return 1;
        }
    }
    if (all && strcmp(wanted, "all") == 0) {
        int n = 0;
        if (context_llvm(cli->context)->library)
            out[n++] = SINTER_BACKEND_LLVM;
        if (context_nvrtc(cli->context)->library)
            out[n++] = SINTER_BACKEND_NVRTC;
        if (!n)
            cli_error(cli, EXIT_ENVIRONMENT, "no backend is here: %s; %s", cli->context->llvm.why,
                      cli->context->nvrtc.why);
        return n;
    }
    const char *nearest = cli_nearest(wanted, names, 3 + (size_t)all);
    cli_error(cli, EXIT_USAGE, "--backend is one of auto, llvm, nvrtc%s, not '%s'%s%s%s", all ? ", all" : "",
              wanted, nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
    return 0;
}

bool cli_plan_options(Cli *cli, sinter_plan_options *out) {
    *out = (sinter_plan_options){
        .size = sizeof *out,
        .target = cli->o.target,
        .no_fusion = cli->o.no_fusion,
        .no_variants = cli->o.no_variants,
        .verify = cli->o.verify_passes,
        .pass_limit = (int)cli->o.pass_limit.value,
        .choice = (int)cli->o.choice.value,
        .skip = cli->o.skip_pass,
        .no_cache = cli->o.no_cache,
        .ignore_tuned = cli->o.no_tuned,
    };
    if (cli->o.target && strcmp(cli->o.target, "auto") != 0 && !target_find(cli->o.target)) {
        const char *names[64];
        size_t n = 0;
        for (const Target *target; n < 64 && (target = target_at((int)n)); n++)
            names[n] = target->name;
        const char *nearest = cli_nearest(cli->o.target, names, n);
        cli_error(cli, EXIT_USAGE, "unknown target '%s'%s%s%s", cli->o.target,
                  nearest ? "; did you mean '" : "; see `sinter targets`", nearest ? nearest : "",
                  nearest ? "'?" : "");
        return false;
    }
    return true;
}

void cli_plan_dims(const Cli *cli, const sinter_dim *dims, int n_dims, sinter_plan_options *out) {
    out->dims = cli->o.symbolic ? NULL : dims;
    out->n_dims = cli->o.symbolic ? 0 : n_dims;
}

bool cli_plan_values(const sinter_plan *plan, const sinter_dim *dims, int n_dims,
                     int64_t values[PLAN_DIMS_MOST]) {
    bool all = true;
    for (int i = 0; i < sinter_plan_dim_count(plan); i++) {
        int k = 0;
        while (k < n_dims && strcmp(dims[k].name, sinter_plan_dim_name(plan, i)) != 0)
            k++;
        values[i] = k < n_dims ? dims[k].value : 0;
        all = all && k < n_dims;
    }
    return all;
}

const sinter_plan *cli_shown_plan(Cli *cli, const sinter_plan *plan) {
    int64_t values[PLAN_DIMS_MOST];
    sinter_dim *dims;
    int n_dims;
    if (!plan->n_variants || !cli_dims(cli, &dims, &n_dims) || !cli_plan_values(plan, dims, n_dims, values))
        return plan;
    return sinter_plan_select(plan, values, sinter_plan_dim_count(plan));
}

bool cli_plan_request(Cli *cli, sinter_plan_options *out) {
    sinter_dim *dims;
    int n_dims;
    sinter_backend backend[2];
    if (!cli_plan_options(cli, out) || !cli_dims(cli, &dims, &n_dims) || !cli_backends(cli, false, backend))
        return false;
    out->backend = backend[0];
    cli_plan_dims(cli, dims, n_dims, out);
    return true;
}

void cli_progress(Cli *cli, const char *format, ...) {
    if (cli->o.quiet || !isatty(STDERR_FILENO))
        return;
    double now = context_now_ms();
    if (cli->progress_ms == 0)
        cli->progress_ms = now;
    if (now - cli->progress_ms < 1000)
        return;
    va_list args;
    va_start(args, format);
    fprintf(stderr, "\r\033[K");
    vfprintf(stderr, format, args);
    fflush(stderr);
    va_end(args);
    cli->progress_shown = true;
}

void cli_progress_end(Cli *cli) {
    if (cli->progress_shown)
        fprintf(stderr, "\r\033[K");
    cli->progress_shown = false;
}
