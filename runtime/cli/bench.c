/* sinter bench: time on the GPU. Between timed runs the L2 cache is overwritten, so that each starts from
 * memory, as in a program that does something else in between; CUDA events around the launches measure the
 * device alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cli/device_run.h"
#include "runtime/cli/roofline.h"

enum { BENCH_WARM_UP = 5, BENCH_LEAST = 30, BENCH_USUAL = 50, BENCH_MOST = 10000 };

typedef struct BenchTime {
    double median_us, p10_us, p90_us, least_us;
    int kernels;
    double compile_ms;
} BenchTime;

typedef struct Bench {
    Cli *cli;
    Arena *arena;
    const char *file;
    sinter_graph *graph;
    const char *why;
} Bench;

static bool bench_error(DeviceRun *run, CUresult error, const char *what) {
    if (error)
        driver_explain(run->driver, error, what, run->why, sizeof run->why);
    return !error;
}

static bool bench_plan(Bench *bench, Problem *problem, DeviceRun *run, CUdeviceptr flush,
                       sinter_backend backend, bool no_fusion, BenchTime *out) {
    Cli *cli = bench->cli;
    int n = cli->o.repetitions.given ? (int)cli->o.repetitions.value : BENCH_USUAL;
    n = n < BENCH_LEAST ? BENCH_LEAST : n > BENCH_MOST ? BENCH_MOST : n;
    cli_progress(cli, "timing %s%s with %s", problem->g->name, no_fusion ? ", unfused," : "",
                 cli_backend_name(backend));
    double begin = context_now_ms();
    sinter_plan *plan = problem_plan(problem, backend, SINTER_STAGE_LOAD, no_fusion, &bench->why);
    if (!plan)
        return false;
    out->compile_ms = context_now_ms() - begin;
    out->kernels = problem_variant(problem, plan)->n_kernels;
    float *us = ARENA_ARRAY(bench->arena, float, (size_t)n);
    bool ok = device_run_prepare(run, problem, plan) &&
              device_time(run, problem, plan, -1, 0, BENCH_WARM_UP, us) &&
              device_time(run, problem, plan, -1, flush, n, us);
    if (ok) {
        out->median_us = device_median(us, n);
        out->p10_us = us[n / 10];
        out->p90_us = us[n * 9 / 10];
        out->least_us = us[0];
    } else {
        bench->why = arena_strdup(bench->arena, run->why);
        cli_fail(cli, EXIT_ENVIRONMENT);
    }
    if (!run->lost)
        sinter_plan_destroy(plan);
    return ok;
}

static void bench_report(const Bench *bench, const Problem *problem, const char *backend, const BenchTime *t,
                         const BenchTime *unfused, const Roofline *roof) {
    Cli *cli = bench->cli;
    double gbs = roof->bytes / t->median_us * 1e-3, tflops = roof->flops / t->median_us * 1e-6;
    double share = roof->floor_us / t->median_us;
    if (cli->o.json) {
        json_begin(&cli->json, NULL, '{');
        json_text(&cli->json, "file", bench->file);
        json_text(&cli->json, "graph", problem->g->name);
        problem_dims_json(problem, &cli->json);
        json_text(&cli->json, "device", cli->context->device.name);
        json_text(&cli->json, "backend", backend);
        json_int(&cli->json, "kernels", t->kernels);
        json_real(&cli->json, "median_us", t->median_us);
        json_real(&cli->json, "p10_us", t->p10_us);
        json_real(&cli->json, "p90_us", t->p90_us);
        json_real(&cli->json, "min_us", t->least_us);
        json_real(&cli->json, "gb_per_s", gbs);
        json_real(&cli->json, "tflop_per_s", tflops);
        json_real(&cli->json, "floor_us", roof->floor_us);
        json_real(&cli->json, "roofline_share", share);
        json_real(&cli->json, "compile_ms", t->compile_ms);
        if (unfused) {
            json_int(&cli->json, "unfused_kernels", unfused->kernels);
            json_real(&cli->json, "unfused_us", unfused->median_us);
            json_real(&cli->json, "speedup", unfused->median_us / t->median_us);
        }
        json_end(&cli->json, '}');
        return;
    }
    const char *dims = problem_dims_text(problem);
    printf("%-24s %-6s %9.2f us  (p10 %.2f, p90 %.2f)  %8.1f GB/s", problem->g->name, backend, t->median_us,
           t->p10_us, t->p90_us, gbs);
    if (roof->flops > 0)
        printf("  %7.1f TFLOP/s", tflops);
    printf("  %5.1f %% of the roofline, %d kernel%s", share * 100, t->kernels, t->kernels == 1 ? "" : "s");
    if (unfused)
        printf("; unfused %.2f us in %d: %.2fx", unfused->median_us, unfused->kernels,
               unfused->median_us / t->median_us);
    printf("%s%s\n", *dims ? "  " : "", dims);
}

static void bench_failed(const Bench *bench, const char *backend, const char *why) {
    Cli *cli = bench->cli;
    if (!cli->o.json) {
        cli_error(cli, EXIT_INPUT, "%s with %s: %s", bench->graph->graph->name, backend, why);
        return;
    }
    json_begin(&cli->json, NULL, '{');
    json_text(&cli->json, "file", bench->file);
    json_text(&cli->json, "graph", bench->graph->graph->name);
    json_text(&cli->json, "backend", backend);
    json_text(&cli->json, "failure", why);
    json_end(&cli->json, '}');
}

static void bench_body(void *context) {
    Bench *bench = context;
    Cli *cli = bench->cli;
    Problem problem;
    DeviceRun run = {0};
    sinter_dim *dims;
    int n_dims;
    sinter_backend backends[2];
    uint64_t seed = cli->o.seed.given ? (uint64_t)cli->o.seed.value : 1;
    int n_backends = cli_backends(cli, true, backends);
    if (!n_backends || !cli_dims(cli, &dims, &n_dims))
        return;
    if (!problem_begin(&problem, cli, bench->arena, bench->graph, dims, n_dims, NULL, 0, CHECK_LAST) ||
        !problem_inputs(&problem, NULL, 0, seed)) {
        bench_failed(bench, "-", "its dims or inputs could not be set up");
        return;
    }
    if (!cli_tune(cli, bench->file, bench->graph, problem.dims, problem.n_dims))
        return;
    Roofline roof = roofline_of(&problem, &cli->context->device_target);
    CUdeviceptr flush = 0;
    bool ready = device_run_begin(&run, &problem, bench->arena);
    if (ready && !cli->o.warm)
        ready = bench_error(&run, run.driver->memory_alloc(&flush, DEVICE_FLUSH_BYTES),
                            "the buffer that flushes L2");
    if (!ready) {
        cli_fail(cli, EXIT_ENVIRONMENT);
        bench_failed(bench, "-", run.why);
    }
    for (int i = 0; i < n_backends && ready && !run.lost; i++) {
        const char *name = cli_backend_name(backends[i]);
        BenchTime fused = {0}, unfused = {0};
        if (!bench_plan(bench, &problem, &run, flush, backends[i], false, &fused)) {
            bench_failed(bench, name, bench->why);
            continue;
        }
        bool compare = !cli->o.no_unfused && !cli->o.no_fusion && !run.lost &&
                       bench_plan(bench, &problem, &run, flush, backends[i], true, &unfused);
        bench_report(bench, &problem, name, &fused, compare ? &unfused : NULL, &roof);
    }
    if (flush && !run.lost)
        run.driver->memory_free(flush);
    device_run_end(&run);
}

static void bench_visit(Cli *cli, const char *file, sinter_graph *graph, void *context) {
    (void)context;
    Bench bench = {.cli = cli, .arena = arena_new(0), .file = file, .graph = graph};
    if (!bench.arena || !arena_run(bench.arena, bench_body, &bench))
        cli_error(cli, EXIT_ENVIRONMENT, "memory ran out [memory]");
    arena_free(bench.arena);
}

int verb_bench(Cli *cli) {
    if (cli->o.device && strcmp(cli->o.device, "cuda") != 0 && strcmp(cli->o.device, "auto") != 0) {
        cli_error(cli, EXIT_USAGE, "bench times a GPU: --device is cuda or auto, not '%s'", cli->o.device);
        return cli->worst;
    }
    if (!cli_context(cli, DEVICE_REQUIRED))
        return cli->worst;
    cli_each_graph(cli, bench_visit, NULL);
    return cli->worst;
}
