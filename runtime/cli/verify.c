/* sinter verify: every `check` of the files, on the GPU or the simulator, against the float64 reference.
 *
 * Each check runs twice from poisoned outputs, between guard words, and must give the same bits.
 *
 * A kernel that faults or never ends takes the process's CUDA context with it, for good. So checks on a GPU
 * run in a child process; where that is lost, the next child goes on behind the check that failed. What must
 * outlive a child stands in memory that both share. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/cli/compare.h"
#include "runtime/cli/device_run.h"
#include "runtime/cli/tolerance.h"

/* Shared with the children. */
typedef struct VerifyTally {
    int64_t begun; /* checks that were begun, by any child */
    int64_t passed, failed;
    int worst;         /* exit status */
    bool comma;        /* the JSON list has an item */
    bool finished;     /* a child reached the end */
    bool reported;     /* the check begun last has its report */
    char current[256]; /* file and graph of it */
} VerifyTally;

typedef struct Verify {
    Cli *cli;
    VerifyTally *tally;
    bool on_device;
    sinter_backend backends[2];
    int n_backends;
    int64_t number; /* of the next check */
    int64_t skip;   /* checks below this number were done before */
    bool lost;      /* the device; nothing more runs in this process */
} Verify;

/* One combination of a check's dims. */
typedef struct VerifyCase {
    Verify *verify;
    Arena *arena;
    const char *file;
    sinter_graph *graph;
    const Check *check; /* NULL: the graph has none, and needs none */
    sinter_dim *dims;
    int n_dims;
} VerifyCase;

typedef struct VerifyResult {
    bool ok;
    const char *backend;
    const char *why; /* what failed, before there was anything to compare; NULL */
    int kernels;
    double compile_ms;
    const char *output; /* the worst one */
    const char *element;
    Comparison comparison;
    Text names; /* of the kernels' templates */
} VerifyResult;

/* Reports go out one by one, so that nothing is lost with a child. */
static void verify_flush(Verify *v) {
    Cli *cli = v->cli;
    if (cli->o.json) {
        if (v->tally->comma)
            cli_print(cli, ",\n", 2);
        cli_print(cli, cli->json.text.at, cli->json.text.n);
        v->tally->comma = true;
        cli->json = json_new(cli->arena);
    }
    fflush(stdout);
    if (cli->worst > v->tally->worst)
        v->tally->worst = cli->worst;
}

static void verify_report(VerifyCase *c, Problem *problem, const VerifyResult *r) {
    Verify *v = c->verify;
    Cli *cli = v->cli;
    if (r->ok)
        v->tally->passed++;
    else
        v->tally->failed++;
    const Comparison *m = &r->comparison;
    const char *dims = problem_dims_text(problem);
    if (cli->o.json) {
        json_begin(&cli->json, NULL, '{');
        json_text(&cli->json, "file", c->file);
        json_text(&cli->json, "graph", problem->g->name);
        problem_dims_json(problem, &cli->json);
        json_text(&cli->json, "backend", r->backend);
        json_bool(&cli->json, "ok", r->ok);
        if (r->why)
            json_text(&cli->json, "why", r->why);
        json_int(&cli->json, "kernels", r->kernels);
        json_text(&cli->json, "templates", r->names.n ? r->names.at : "");
        json_real(&cli->json, "compile_ms", r->compile_ms);
        if (r->output) {
            json_text(&cli->json, "output", r->output);
            json_real(&cli->json, "error", m->error);
            json_real(&cli->json, "tolerance", m->tolerance);
            json_int(&cli->json, "wrong", m->wrong);
            json_text(&cli->json, "worst", r->element);
            json_text(&cli->json, "got", text_format(c->arena, "%.9g", m->got));
            json_text(&cli->json, "want", text_format(c->arena, "%.9g", m->want));
        }
        json_end(&cli->json, '}');
        verify_flush(v);
        return;
    }
    if (r->ok && cli->o.quiet)
        return;
    cli_progress_end(cli);
    printf("%s %s%s%s%s %s, %d kernel%s", r->ok ? "ok  " : "FAIL", problem->g->name, *dims ? " (" : "", dims,
           *dims ? ")" : "", r->backend, r->kernels, r->kernels == 1 ? "" : "s");
    if (r->output)
        printf(", error %.2e of %.0e", m->error, m->tolerance);
    if (r->why)
        printf(": %s", r->why);
    printf("\n");
    if (!r->ok && r->output && r->element)
        printf("     worst: %s%s is %.9g, and should be %.9g; %lld element%s beyond the bound\n", r->output,
               r->element, m->got, m->want, (long long)m->wrong, m->wrong == 1 ? "" : "s");
    verify_flush(v);
}

/* Executes once into fresh arrays. */
static bool verify_execute(VerifyCase *c, Problem *problem, DeviceRun *run, const sinter_plan *plan,
                           Array **outputs, const char **why) {
    if (!problem_outputs(problem, outputs)) {
        *why = "output sizes";
        return false;
    }
    if (!c->verify->on_device)
        return problem_simulate(problem, plan, *outputs, why);
    if (device_run_prepare(run, problem, plan) && device_run_launch(run, problem, plan) &&
        device_run_wait(run) && device_run_fetch(run, problem, *outputs))
        return true;
    *why = arena_strdup(c->arena, run->why);
    c->verify->lost |= run->lost;
    return false;
}

static void verify_compare(VerifyCase *c, Problem *problem, const Array *outputs, const Tensor *want,
                           VerifyResult *r) {
    Cli *cli = c->verify->cli;
    double rtol = c->check ? c->check->rtol : -1, atol = c->check ? c->check->atol : -1;
    if (cli->o.rtol.given)
        rtol = cli->o.rtol.value;
    if (cli->o.atol.given)
        atol = cli->o.atol.value;
    r->ok = true;
    double farthest = -1;
    for (size_t i = 0; i < problem->g->outputs.n; i++) {
        double own = rtol < 0 && c->verify->on_device ? tolerance_of_output(c->arena, problem->g, i) : rtol;
        Comparison m = compare_array(&outputs[i], &want[i], own, atol);
        double share = m.ok ? m.error / (m.tolerance > 0 ? m.tolerance : 1) : INFINITY;
        r->ok = r->ok && m.ok;
        if (share <= farthest)
            continue;
        farthest = share;
        r->comparison = m;
        r->output = problem->g->outputs.at[i].name;
        r->element = m.worst >= 0 ? array_coordinates(c->arena, &outputs[i], m.worst) : NULL;
    }
}

static void verify_backend(VerifyCase *c, Problem *problem, DeviceRun *run, const Tensor *want,
                           sinter_backend backend) {
    Verify *v = c->verify;
    VerifyResult r = {.backend = v->on_device ? cli_backend_name(backend) : "sim",
                      .names = text_new(c->arena)};
    double begin = context_now_ms();
    sinter_plan *plan = problem_plan(problem, backend,
                                     v->on_device ? SINTER_STAGE_LOAD : SINTER_STAGE_KERNELS, false, &r.why);
    r.compile_ms = context_now_ms() - begin;
    if (plan) {
        Array *first, *second;
        const sinter_plan *variant = problem_variant(problem, plan);
        r.kernels = variant->n_kernels;
        for (int i = 0; i < r.kernels; i++)
            text_add(&r.names, "%s%s", i ? "," : "", plan_template_name(variant->kernels[i].region->kind));
        if (verify_execute(c, problem, run, plan, &first, &r.why)) {
            verify_compare(c, problem, first, want, &r);
            if (v->on_device && verify_execute(c, problem, run, plan, &second, &r.why)) {
                for (size_t i = 0; i < problem->g->outputs.n; i++) {
                    if (memcmp(first[i].at, second[i].at, (size_t)first[i].bytes) != 0) {
                        r.ok = false;
                        r.why = "two runs gave different bits";
                    }
                }
            } else if (v->on_device) {
                r.ok = false;
            }
        }
        if (!v->lost)
            sinter_plan_destroy(plan);
    }
    if (!r.ok)
        cli_fail(v->cli, EXIT_INPUT);
    verify_report(c, problem, &r);
}

static void verify_case_body(void *context) {
    VerifyCase *c = context;
    Verify *v = c->verify;
    Problem problem;
    DeviceRun run = {0};
    Tensor *want;
    uint64_t seed = v->cli->o.seed.given         ? (uint64_t)v->cli->o.seed.value
                    : c->check && c->check->seed ? (uint64_t)c->check->seed
                                                 : 1;
    if (!problem_begin(&problem, v->cli, c->arena, c->graph, c->dims, c->n_dims, NULL, 0, CHECK_NONE) ||
        !problem_inputs(&problem, NULL, 0, seed) || !problem_reference(&problem, &want)) {
        const char *why =
            problem.diags.list.n ? problem.diags.list.at[0].message : "the check could not be set up";
        verify_report(c, &problem,
                      &(VerifyResult){.backend = "ref", .why = why, .names = text_new(c->arena)});
        return;
    }
    if (v->on_device && !device_run_begin(&run, &problem, c->arena)) {
        VerifyResult r = {.backend = "cuda", .why = run.why, .names = text_new(c->arena)};
        v->lost |= run.lost;
        cli_fail(v->cli, EXIT_ENVIRONMENT);
        verify_report(c, &problem, &r);
        device_run_end(&run);
        return;
    }
    for (int i = 0; i < v->n_backends && !v->lost; i++)
        verify_backend(c, &problem, &run, want, v->backends[i]);
    if (v->on_device)
        device_run_end(&run);
}

static void verify_case(VerifyCase *c) {
    Verify *v = c->verify;
    VerifyTally *tally = v->tally;
    if (v->number++ < v->skip || v->lost)
        return;
    tally->begun = v->number;
    snprintf(tally->current, sizeof tally->current, "%s: %s", c->file, c->graph->graph->name);
    cli_progress(v->cli, "verifying %s, %lld passed, %lld failed", c->graph->graph->name,
                 (long long)tally->passed, (long long)tally->failed);
    c->arena = arena_new(0);
    if (!c->arena || !arena_run(c->arena, verify_case_body, c)) {
        cli_error(v->cli, EXIT_ENVIRONMENT, "memory ran out in a check of %s [memory]",
                  c->graph->graph->name);
        v->tally->failed++;
    }
    arena_free(c->arena);
}

static void verify_check(Verify *v, const char *file, sinter_graph *graph, const Check *check) {
    VerifyCase c = {.verify = v, .file = file, .graph = graph, .check = check};
    for (int64_t k = 0; !v->lost && cli_check_dims(v->cli, graph, check, k, &c.dims, &c.n_dims); k++)
        verify_case(&c);
}

/* A file that gives no graph counts as one check that failed. */
static void verify_unread(Verify *v, const char *file) {
    Cli *cli = v->cli;
    if (v->number++ < v->skip)
        return;
    v->tally->begun = v->number;
    v->tally->failed++;
    if (cli->o.json) {
        json_begin(&cli->json, NULL, '{');
        json_text(&cli->json, "file", file);
        json_bool(&cli->json, "ok", false);
        json_text(&cli->json, "why", "it does not parse");
        json_end(&cli->json, '}');
    } else {
        printf("FAIL %s: it does not parse\n", file);
    }
    verify_flush(v);
}

static void verify_file(Verify *v, const char *file) {
    Cli *cli = v->cli;
    sinter_graph *graph = cli_load(cli, file);
    if (!graph) {
        verify_unread(v, file);
        return;
    }
    size_t *chosen = ARENA_ARRAY(cli->arena, size_t, graph->module.graphs.n);
    size_t n = cli_choose(cli, graph, false, chosen);
    for (size_t i = 0; i < n && !v->lost; i++) {
        graph_select(graph, chosen[i]);
        const Graph *g = graph->graph;
        for (size_t k = 0; k < g->checks.n; k++)
            verify_check(v, file, graph, &g->checks.at[k]);
        if (g->checks.n)
            continue;
        if (dim_symbol_count(g->dims) <= (int)cli->o.dims.n)
            verify_check(v, file, graph, NULL);
        else
            cli_note(cli, "%s: graph '%s' has no check, and dims without a value", file, g->name);
    }
}

/* Everything, from check number v->skip on. */
static void verify_all(Verify *v) {
    Cli *cli = v->cli;
    const char *wanted = cli->o.device ? cli->o.device : "auto";
    bool sim = strcmp(wanted, "sim") == 0, cuda = strcmp(wanted, "cuda") == 0;
    if (!cli_context(cli, sim ? DEVICE_NONE : cuda ? DEVICE_REQUIRED : DEVICE_IF_THERE))
        return;
    v->on_device = !sim && cli->context->has_device;
    if (!sim && !v->on_device && v->skip == 0)
        cli_note(cli, "%s: the kernels are executed on the CPU, by the simulator (--device=sim)",
                 cli->context->device_why);
    v->n_backends = v->on_device ? cli_backends(cli, true, v->backends) : 1;
    for (size_t f = 0; f < cli->o.operands.n && !v->lost && v->n_backends; f++)
        verify_file(v, cli->o.operands.at[f]);
}

/* A check in whose course the child died. */
static void verify_died(Verify *v, int status) {
    Cli *cli = v->cli;
    const char *why = WIFSIGNALED(status)
                          ? text_format(cli->arena, "the process was killed by signal %d", WTERMSIG(status))
                          : text_format(cli->arena, "the process ended with status %d", WEXITSTATUS(status));
    v->tally->failed++;
    if (cli->o.json) {
        json_begin(&cli->json, NULL, '{');
        json_text(&cli->json, "file", v->tally->current);
        json_bool(&cli->json, "ok", false);
        json_text(&cli->json, "why", why);
        json_end(&cli->json, '}');
    } else {
        printf("FAIL %s: %s\n", v->tally->current, why);
    }
    verify_flush(v);
    cli_fail(cli, EXIT_DEFECT);
}

static void verify_isolated(Verify *v) {
    VerifyTally *tally = v->tally;
    while (!tally->finished) {
        int64_t begun = tally->begun;
        fflush(stdout);
        pid_t child = fork();
        if (child < 0) {
            cli_error(v->cli, EXIT_ENVIRONMENT, "no child process could be started");
            return;
        }
        if (child == 0) {
            v->skip = tally->begun;
            verify_all(v);
            tally->finished = !v->lost;
            tally->worst = v->cli->worst > tally->worst ? v->cli->worst : tally->worst;
            fflush(stdout);
            _exit(0); /* without freeing: a lost device would not answer */
        }
        int status = 0;
        waitpid(child, &status, 0);
        bool died = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
        if (died && tally->begun == begun) {
            cli_error(v->cli, EXIT_DEFECT, "verifying ended before its first check (status %d)", status);
            return;
        }
        if (died)
            verify_died(v, status);
    }
}

int verb_verify(Cli *cli) {
    VerifyTally *tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tally == MAP_FAILED) {
        cli_error(cli, EXIT_ENVIRONMENT, "memory ran out [memory]");
        return cli->worst;
    }
    static const char *const names[] = {"auto", "cuda", "sim"};
    const char *wanted = cli->o.device ? cli->o.device : "auto";
    Verify v = {.cli = cli, .tally = tally, .skip = cli->o.skip_checks.value};
    tally->begun = v.skip;
    bool known = strcmp(wanted, "auto") == 0 || strcmp(wanted, "cuda") == 0 || strcmp(wanted, "sim") == 0;
    if (!known) {
        const char *nearest = cli_nearest(wanted, names, 3);
        cli_error(cli, EXIT_USAGE, "--device is one of auto, cuda, sim for verify, not '%s'%s%s%s", wanted,
                  nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
    }
    if (known && cli->o.json)
        cli_print(cli, "{\"checks\": [\n", 13);
    if (known && (cli->o.no_isolation || strcmp(wanted, "sim") == 0))
        verify_all(&v);
    else if (known)
        verify_isolated(&v);
    if (known && cli->o.json) {
        const char *end = text_format(cli->arena, "],\n\"passed\": %lld, \"failed\": %lld}\n",
                                      (long long)tally->passed, (long long)tally->failed);
        cli_print(cli, end, strlen(end));
    } else if (known && !cli->o.quiet) {
        printf("%lld passed, %lld failed\n", (long long)tally->passed, (long long)tally->failed);
    }
    cli_fail(cli, tally->worst);
    munmap(tally, sizeof *tally);
    return cli->worst;
}
