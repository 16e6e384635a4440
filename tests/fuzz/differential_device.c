/* Random graphs through the runtime: from the text to plans, as a caller has them, executed on a GPU from
 * poisoned outputs between guards (runtime/cli/device_run.h), or by the plan's own simulation. Dims are
 * compiled in for even seeds, given at launch for odd ones; each eighth graph is compiled without fusion. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/cli/device_run.h"
#include "tests/fuzz/differential.h"

enum { DEVICE_SECONDS = 10 }; /* that a graph's kernels may take */

/* Shared with the children. */
typedef struct DeviceTally {
    uint64_t begun; /* trials, by any child */
    uint64_t failed;
    bool absent; /* no GPU, or no backend */
} DeviceTally;

typedef struct DeviceTrial {
    Trial trial;
    Cli *cli;
    sinter_backend backend;
    bool on_gpu;
    bool lost; /* the device, for this process */
} DeviceTrial;

static void device_compare(Trial *trial, const Problem *problem, const Array *outputs) {
    for (size_t i = 0; i < problem->g->outputs.n && !trial->failed; i++)
        for (int64_t e = 0; e < outputs[i].count; e++)
            if (!trial_element(trial, "on the device", i, e, array_get(&outputs[i], e)))
                break;
}

static void device_execute(DeviceTrial *device, Problem *problem, const sinter_plan *plan) {
    Trial *trial = &device->trial;
    DeviceRun run;
    Array *outputs;
    const char *why;
    if (!problem_outputs(problem, &outputs)) {
        trial_fail(trial, "device", "the outputs have no sizes");
        return;
    }
    if (!device->on_gpu) {
        if (problem_simulate(problem, plan, outputs, &why))
            device_compare(trial, problem, outputs);
        else
            trial_fail(trial, "simulating the plan", why);
        return;
    }
    if (device_run_begin(&run, problem, trial->arena) && device_run_prepare(&run, problem, plan) &&
        device_run_launch(&run, problem, plan) && device_run_wait(&run) &&
        device_run_fetch(&run, problem, outputs))
        device_compare(trial, problem, outputs);
    else
        trial_fail(trial, "device", run.why);
    device->lost = run.lost;
    device_run_end(&run);
}

static void device_graph(DeviceTrial *device, sinter_graph *graph) {
    Trial *trial = &device->trial;
    DimTable *table = trial->generated.graph->dims;
    int n_dims = dim_symbol_count(table);
    sinter_dim *dims = ARENA_ARRAY(trial->arena, sinter_dim, (size_t)n_dims + 1);
    for (int i = 0; i < n_dims; i++)
        dims[i] = (sinter_dim){dim_symbol_name(table, i), trial->generated.bindings.value[i]};
    Problem problem;
    const char *why;
    if (!problem_begin(&problem, device->cli, trial->arena, graph, dims, n_dims, NULL, 0, CHECK_NONE) ||
        !problem_inputs(&problem, NULL, 0, 1)) {
        trial_fail(trial, "problem", "it cannot be set up");
        return;
    }
    for (size_t i = 0; i < graph->graph->inputs.n; i++)
        array_from_tensor(&trial->inputs[i], &problem.inputs[i]);
    sinter_plan *plan =
        problem_plan(&problem, device->backend, device->on_gpu ? SINTER_STAGE_LOAD : SINTER_STAGE_KERNELS,
                     trial->seed % 8 == 0, &why);
    if (!plan) {
        trial_fail(trial, "plan", why);
        return;
    }
    device_execute(device, &problem, plan);
    if (!device->lost)
        sinter_plan_destroy(plan);
}

static void device_body(void *context) {
    DeviceTrial *device = context;
    Trial *trial = &device->trial;
    if (!trial_begin(trial))
        return;
    sinter_source source = {
        .size = sizeof source, .text = trial->text, .length = strlen(trial->text), .name = "fuzz"};
    sinter_graph *graph;
    sinter_status status = sinter_graph_parse(device->cli->context, &source, &graph);
    if (status) {
        const sinter_diagnostic *d = graph ? sinter_graph_diagnostic(graph, 0) : NULL;
        trial_fail(trial, "parse", d ? d->message : sinter_status_text(status));
    } else {
        device_graph(device, graph);
    }
    sinter_graph_destroy(graph);
}

/* What a child process is to do. */
typedef struct DeviceChild {
    Cli *cli;
    uint64_t first, count;
    DeviceTally *tally;
} DeviceChild;

/* The device and the backend are here; else says so. */
static bool device_begin(Cli *cli, bool on_gpu, sinter_backend *backend) {
    sinter_backend chosen[2];
    if (!cli_context(cli, on_gpu ? DEVICE_REQUIRED : DEVICE_NONE) || !cli_backends(cli, false, chosen))
        return false;
    *backend = chosen[0];
    const char *why = NULL;
    if (on_gpu && *backend == SINTER_BACKEND_LLVM && !context_llvm(cli->context)->library)
        why = cli->context->llvm.why;
    if (on_gpu && *backend == SINTER_BACKEND_NVRTC && !context_nvrtc(cli->context)->library)
        why = cli->context->nvrtc.why;
    if (why)
        cli_error(cli, EXIT_ENVIRONMENT, "%s", why);
    return !why;
}

/* The trials from number tally->begun on, until the last, or until the device is lost. */
static void device_child_body(void *context) {
    DeviceChild *child = context;
    DeviceTally *tally = child->tally;
    Cli *cli = child->cli;
    bool on_gpu = strcmp(cli->o.device, "cuda") == 0, lost = false;
    sinter_backend backend;
    tally->absent = !device_begin(cli, on_gpu, &backend);
    while (!tally->absent && !lost && tally->begun < child->count) {
        uint64_t seed = child->first + tally->begun++;
        cli->o.symbolic = seed % 2;
        DeviceTrial device = {.trial = {.arena = arena_new((size_t)4 << 30), .seed = seed},
                              .cli = cli,
                              .backend = backend,
                              .on_gpu = on_gpu};
        if (!device.trial.arena || !arena_run(device.trial.arena, device_body, &device)) {
            printf("seed %llu: memory ran out\n", (unsigned long long)seed);
            device.trial.failed = true;
        }
        tally->failed += device.trial.failed;
        lost = device.lost;
        arena_free(device.trial.arena);
        fflush(stdout);
    }
}

static void device_died_body(void *context) {
    Trial *trial = context;
    if (trial_begin(trial))
        trial_fail(trial, "the process", "it was killed, or ended itself");
}

bool device_trials(uint64_t first, uint64_t count, const char *device, const char *backend, int *failures) {
    DeviceTally *tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tally == MAP_FAILED) {
        fprintf(stderr, "differential: memory ran out\n");
        return false;
    }
    while (tally->begun < count && !tally->absent) {
        uint64_t begun = tally->begun;
        fflush(stdout);
        pid_t process = fork();
        if (process == 0) {
            Cli cli = {.arena = arena_new(0), .program = "differential"};
            cli.o.device = device;
            cli.o.backend = backend;
            cli.o.quiet = cli.o.no_cache = cli.o.verify_passes = true;
            cli.o.timeout = (OptionINT){true, DEVICE_SECONDS};
            DeviceChild child = {&cli, first, count, tally};
            bool ok = cli.arena && arena_run(cli.arena, device_child_body, &child);
            fflush(stdout);
            _exit(!ok); /* without freeing: a lost device would not answer */
        }
        int status = 0;
        bool died = process < 0 || waitpid(process, &status, 0) < 0 || status != 0;
        if (!died)
            continue;
        if (tally->begun == begun) {
            fprintf(stderr, "differential: a child process could not begin (status %d)\n", status);
            tally->absent = true;
            break;
        }
        Trial trial = {.arena = arena_new(0), .seed = first + tally->begun - 1};
        if (!trial.arena || !arena_run(trial.arena, device_died_body, &trial))
            printf("seed %llu: the process was killed\n", (unsigned long long)trial.seed);
        arena_free(trial.arena);
        tally->failed++;
    }
    *failures += (int)tally->failed;
    bool there = !tally->absent;
    munmap(tally, sizeof *tally);
    return there;
}
