/* sinter run: one graph on given or random inputs. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cli/device_run.h"
#include "runtime/safetensors.h"

enum { DATA_MOST_SHIFT = 40 }; /* files of at most 2^40 bytes */

typedef enum RunDevice { RUN_CUDA, RUN_SIM, RUN_REF } RunDevice;

static bool run_files(Cli *cli, InputFile **files, size_t *n) {
    const OptionList *list = &cli->o.in;
    Diags diags = {.arena = cli->arena};
    *files = ARENA_ARRAY(cli->arena, InputFile, list->n + 1);
    *n = list->n;
    for (size_t i = 0; i < list->n; i++) {
        const char *equals = strchr(list->at[i], '=');
        if (!equals || equals == list->at[i] || !equals[1]) {
            cli_error(cli, EXIT_USAGE, "--in wants NAME=FILE, not '%s'", list->at[i]);
            return false;
        }
        InputFile *file = &(*files)[i];
        file->name = arena_strndup(cli->arena, list->at[i], (size_t)(equals - list->at[i]));
        file->file = equals + 1;
        const char *path = file->file, *tensor = NULL, *mark = strstr(path, ".safetensors");
        bool safe = mark && (mark[12] == 0 || mark[12] == ':');
        if (safe && mark[12] == ':') {
            tensor = mark + 13;
            path = arena_strndup(cli->arena, path, (size_t)(mark + 12 - path));
        }
        Bytes bytes;
        if (!file_read(cli->arena, path, (size_t)1 << DATA_MOST_SHIFT, &bytes)) {
            cli_error(cli, errno == ENOMEM ? EXIT_ENVIRONMENT : EXIT_INPUT, "%s could not be read: %s", path,
                      strerror(errno));
            return false;
        }
        bool ok = safe ? safetensors_find(bytes.at, bytes.n, path, tensor, &diags, &file->raw)
                       : npy_parse(bytes.at, bytes.n, path, &diags, &file->raw);
        if (!ok) {
            cli_error(cli, EXIT_INPUT, "%s [data]", diags.list.at[diags.list.n - 1].message);
            return false;
        }
    }
    return true;
}

/* What --device asks for, with the device opened where that is needed; -1 after an error. */
static int run_device(Cli *cli) {
    const char *wanted = cli->o.device ? cli->o.device : "auto";
    if (strcmp(wanted, "cuda") == 0)
        return cli_context(cli, DEVICE_REQUIRED) ? RUN_CUDA : -1;
    if (strcmp(wanted, "sim") == 0)
        return cli_context(cli, DEVICE_NONE) ? RUN_SIM : -1;
    if (strcmp(wanted, "ref") == 0)
        return cli_context(cli, DEVICE_NONE) ? RUN_REF : -1;
    if (strcmp(wanted, "auto") != 0) {
        static const char *const names[] = {"auto", "cuda", "sim", "ref"};
        const char *nearest = cli_nearest(wanted, names, 4);
        cli_error(cli, EXIT_USAGE, "--device is one of auto, cuda, sim, ref, not '%s'%s%s%s", wanted,
                  nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
        return -1;
    }
    if (!cli_context(cli, DEVICE_IF_THERE))
        return -1;
    if (cli->context->has_device)
        return RUN_CUDA;
    cli_note(cli, "%s: the kernels are executed on the CPU, by the simulator (--device=sim)",
             cli->context->device_why);
    return RUN_SIM;
}

static const char *run_number(Arena *arena, const Array *array, Number number) {
    if (!dtype_is_float(array->dtype))
        return text_format(arena, "%lld", (long long)number.i);
    return text_format(arena, "%.6g", number.f);
}

/* The shape, extremes, mean and first elements of an output. */
static void run_summary(Problem *problem, const Output *output, const Array *array) {
    Cli *cli = problem->cli;
    Arena *arena = problem->arena;
    bool is_float = dtype_is_float(array->dtype);
    double least = INFINITY, most = -INFINITY, sum = 0;
    int64_t nans = 0, infinities = 0, finite = 0;
    for (int64_t i = 0; i < array->count; i++) {
        Number number = array_get(array, i);
        double x = is_float ? number.f : (double)number.i;
        nans += isnan(x);
        infinities += isinf(x) != 0;
        if (!isfinite(x))
            continue;
        finite++;
        sum += x;
        least = x < least ? x : least;
        most = x > most ? x : most;
    }
    double mean = finite ? sum / (double)finite : NAN;
    if (cli->o.json) {
        json_begin(&cli->json, NULL, '{');
        json_text(&cli->json, "name", output->name);
        json_text(&cli->json, "dtype", dtype_name(array->dtype));
        json_begin(&cli->json, "shape", '[');
        for (int i = 0; i < array->rank; i++)
            json_int(&cli->json, NULL, array->dims[i]);
        json_end(&cli->json, ']');
        json_real(&cli->json, "min", least);
        json_real(&cli->json, "max", most);
        json_real(&cli->json, "mean", mean);
        json_int(&cli->json, "nan", nans);
        json_int(&cli->json, "inf", infinities);
        json_end(&cli->json, '}');
        return;
    }
    if (cli->o.quiet)
        return;
    Text shape = text_new(arena);
    for (int i = 0; i < array->rank; i++)
        text_add(&shape, "%s%lld", i ? ", " : "", (long long)array->dims[i]);
    printf("%s: %s[%s]", output->name, dtype_name(array->dtype), shape.n ? shape.at : "");
    if (finite)
        printf("  min %.6g  max %.6g  mean %.6g", least, most, mean);
    if (nans || infinities)
        printf("  NaN %lld  inf %lld", (long long)nans, (long long)infinities);
    printf("\n   ");
    for (int64_t i = 0; i < array->count && i < 8; i++)
        printf(" %s", run_number(arena, array, array_get(array, i)));
    printf("%s\n", array->count > 8 ? " ..." : "");
}

static bool run_write(Problem *problem, const Array *outputs) {
    Cli *cli = problem->cli;
    for (size_t i = 0; i < cli->o.out.n; i++) {
        const char *word = cli->o.out.at[i], *equals = strchr(word, '=');
        const Array *array = NULL;
        for (size_t k = 0; k < problem->g->outputs.n && equals; k++) {
            const char *name = problem->g->outputs.at[k].name;
            if (strlen(name) == (size_t)(equals - word) && strncmp(name, word, strlen(name)) == 0)
                array = &outputs[k];
        }
        if (!array || !equals[1]) {
            cli_error(cli, EXIT_USAGE, "--out wants NAME=FILE with the name of an output, not '%s'", word);
            return false;
        }
        Text bytes = text_new(problem->arena);
        npy_format(&bytes, array);
        if (!cli_write(cli, equals + 1, bytes.at, bytes.n))
            return false;
    }
    return true;
}

static bool run_on_device(Problem *problem, const sinter_plan *plan, Array *outputs) {
    DeviceRun run;
    bool ok = device_run_begin(&run, problem, problem->arena) && device_run_prepare(&run, problem, plan) &&
              device_run_launch(&run, problem, plan) && device_run_wait(&run) &&
              device_run_fetch(&run, problem, outputs);
    if (!ok)
        cli_error(problem->cli, EXIT_ENVIRONMENT, "%s [device]", run.why);
    device_run_end(&run);
    return ok;
}

static bool run_execute(Problem *problem, RunDevice device, Array *outputs) {
    Cli *cli = problem->cli;
    if (device == RUN_REF) {
        Tensor *tensors;
        if (!problem_reference(problem, &tensors))
            return false;
        for (size_t i = 0; i < problem->g->outputs.n; i++)
            array_from_tensor(&tensors[i], &outputs[i]);
        return true;
    }
    sinter_backend backend[2];
    const char *why = NULL;
    if (!cli_backends(cli, false, backend))
        return false;
    sinter_plan *plan = problem_plan(
        problem, backend[0], device == RUN_CUDA ? SINTER_STAGE_LOAD : SINTER_STAGE_KERNELS, false, &why);
    if (!plan)
        return false;
    bool ok;
    if (device == RUN_CUDA) {
        ok = run_on_device(problem, plan, outputs);
    } else {
        ok = problem_simulate(problem, plan, outputs, &why);
        if (!ok)
            cli_error(cli, EXIT_DEFECT, "%s", why);
    }
    sinter_plan_destroy(plan);
    return ok;
}

typedef struct Run {
    Cli *cli;
    Arena *arena;
    sinter_graph *graph;
    RunDevice device;
} Run;

static void run_body(void *context) {
    Run *run = context;
    Cli *cli = run->cli;
    Problem problem;
    InputFile *files;
    size_t n_files;
    sinter_dim *dims;
    int n_dims;
    Array *outputs;
    uint64_t seed = cli->o.seed.given ? (uint64_t)cli->o.seed.value : 1;
    if (!run_files(cli, &files, &n_files) || !cli_dims(cli, &dims, &n_dims) ||
        !problem_begin(&problem, cli, run->arena, run->graph, dims, n_dims, files, n_files, CHECK_FIRST) ||
        !problem_inputs(&problem, files, n_files, seed) || !problem_outputs(&problem, &outputs) ||
        !cli_tune(cli, cli->o.operands.at[0], run->graph, problem.dims, problem.n_dims) ||
        !run_execute(&problem, run->device, outputs))
        return;
    static const char *const names[] = {"cuda", "sim", "ref"}; /* ORDER RunDevice */
    if (cli->o.json) {
        json_begin(&cli->json, NULL, '{');
        json_text(&cli->json, "graph", problem.g->name);
        json_text(&cli->json, "device", names[run->device]);
        problem_dims_json(&problem, &cli->json);
        json_begin(&cli->json, "outputs", '[');
    } else if (!cli->o.quiet) {
        const char *where = run->device == RUN_CUDA  ? cli->context->device.name
                            : run->device == RUN_SIM ? "the simulator"
                                                     : "the float64 reference";
        printf("%s on %s%s%s\n", problem.g->name, where, problem.n_dims ? ", " : "",
               problem_dims_text(&problem));
    }
    for (size_t i = 0; i < problem.g->outputs.n; i++)
        run_summary(&problem, &problem.g->outputs.at[i], &outputs[i]);
    if (cli->o.json) {
        json_end(&cli->json, ']');
        json_end(&cli->json, '}');
    }
    run_write(&problem, outputs);
}

int verb_run(Cli *cli) {
    int device = run_device(cli);
    if (device < 0)
        return cli->worst;
    sinter_graph *graph = cli_load_one(cli);
    if (!graph)
        return cli->worst;
    Run run = {cli, arena_new(0), graph, (RunDevice)device};
    if (!run.arena || !arena_run(run.arena, run_body, &run))
        cli_error(cli, EXIT_ENVIRONMENT, "memory ran out [memory]");
    arena_free(run.arena);
    return cli->worst;
}
