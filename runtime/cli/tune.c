/* sinter tune: the schedules of every region of a plan, measured on the GPU; the best is kept for later
 * compiles (runtime/tuned.h).
 *
 * A region's kernel runs alone, in its place in the plan: what runs before it has run, so that it reads what
 * it would. Every candidate starts from poisoned outputs and must come to what the cost model's choice comes
 * to, within the type's rounding; those that do not, that fail or spill are dropped. Then medians, the L2
 * cache flushed; the few best and the model's choice once more, in turns; and the best of these beside the
 * model's choice for the last time, which counts.
 * Tuners that keep what they find in one directory compile side by side and take turns at the device.
 *
 *     candidates   the template's list, best prediction first
 *                  --exhaustive: far down that list, then what lies near the best found, again and again */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "runtime/cli/device_run.h"
#include "runtime/tuned.h"

enum {
    TUNE_LIST = 256,    /* schedules of a region, at most */
    TUNE_USUAL = 16,    /* of the template's list, without --exhaustive */
    TUNE_ROUNDS = 3,    /* steps away from the best */
    TUNE_FINALISTS = 8, /* measured again */
    TUNE_FINALS = 5,    /* so often */
    TUNE_REPETITIONS = 21,
    TUNE_FIRST = 5,        /* repetitions after which a slow one is let go */
    TUNE_THREADS = 16,     /* that compile */
    TUNE_PIECES = 32,      /* of an output that are compared */
    TUNE_PIECE = 32 << 10, /* bytes of one */
    TUNE_SCRATCH =
        512 << 20, /* bytes that candidates may need where the model's choice needs none: partial sums */
};
static const double tune_hopeless = 1.8; /* times the best prediction: not tried */

typedef struct TuneTry {
    Schedule schedule;
    sinter_plan *plan; /* NULL: does not compile, or was let go */
    double us;         /* 0: not measured */
    const char *why;   /* it was dropped; NULL */
} TuneTry;

/* An output of the region, as far as it is compared. */
typedef struct TuneOutput {
    DType dtype;
    CUdeviceptr at;
    size_t bytes;
    uint8_t *want; /* the pieces that the model's choice wrote */
} TuneOutput;

typedef struct Tune {
    Cli *cli;
    Arena *arena;
    const char *file;
    sinter_graph *graph;
    const sinter_dim *dims;
    int n_dims;
    bool reports; /* the verb's own output; else a remark */
    bool ok;
    Problem problem;
    DeviceRun run;
    CUdeviceptr flush;
    sinter_plan_options options;
    sinter_plan *whole;      /* the cost model's */
    const sinter_plan *base; /* of it and its variants, what these dims take: what is tuned */
    int region;
    TuneTry *tries;
    int n_tries;
    VEC(TuneOutput) outputs;
    int turn; /* an open file whose lock is this tuner's turn at the device; -1: it shares with nobody */
} Tune;

/* ---- turns at the device */

static void tune_open_turn(Tune *tune) {
    const char *directory = tune->cli->context->tuned.directory;
    if (directory && file_make_directory(directory))
        tune->turn = open(text_format(tune->arena, "%s/turn", directory), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

/* Until tune_leave(): a lock that cannot be had is done without, and the system frees it with the process. */
static void tune_enter(Tune *tune) {
    if (tune->turn >= 0)
        while (flock(tune->turn, LOCK_EX) && errno == EINTR)
            continue;
}

static void tune_leave(Tune *tune) {
    if (tune->turn >= 0)
        flock(tune->turn, LOCK_UN);
}

/* ---- compiling, by several threads */

typedef struct TuneWork {
    Tune *tune;
    int next, end;
    pthread_mutex_t lock;
} TuneWork;

static int tune_next(TuneWork *work) {
    pthread_mutex_lock(&work->lock);
    int i = work->next < work->end ? work->next++ : -1;
    pthread_mutex_unlock(&work->lock);
    return i;
}

static void tune_compile_one(Tune *tune, TuneTry *try) {
    PlanTrial trial = {tune->region, &try->schedule};
    sinter_status status =
        plan_create(tune->cli->context, tune->graph, &tune->options, &trial, tune->base->scope, &try->plan);
    try->why = status ? sinter_status_text(status) : NULL;
    if (!status) {
        const ImageFigures *f = &try->plan->kernels[tune->region].machine.image.figures;
        if (f->spill_store_bytes + f->spill_load_bytes + f->serialized > 0)
            try->why = "it spills, or wgmma was serialized";
    }
    if (try->why) {
        sinter_plan_destroy(try->plan);
        try->plan = NULL;
    }
}

static void *tune_thread(void *context) {
    TuneWork *work = context;
    for (int i; (i = tune_next(work)) >= 0;)
        tune_compile_one(work->tune, &work->tune->tries[i]);
    return NULL;
}

static void tune_compile(Tune *tune, int first) {
    TuneWork work = {.tune = tune, .next = first, .end = tune->n_tries};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int n = 0, most = cores > TUNE_THREADS ? TUNE_THREADS : (int)cores;
    pthread_t threads[TUNE_THREADS];
    pthread_mutex_init(&work.lock, NULL);
    while (n < most && n < work.end - first && pthread_create(&threads[n], NULL, tune_thread, &work) == 0)
        n++;
    tune_thread(&work); /* also where no thread could be started */
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&work.lock);
}

/* ---- results compared */

static double tune_tolerance(DType dtype) {
    switch (dtype) {
    case DTYPE_F64: return 1e-10;
    case DTYPE_F32: return 1e-4; /* another order of a sum; tf32 products are as exact as f32's sum */
    case DTYPE_TF32:
    case DTYPE_F16: return 2e-3;
    case DTYPE_BF16: return 1e-2;
    case DTYPE_E4M3: return 6e-2;
    case DTYPE_E5M2: return 1.2e-1;
    default: return 5e-3; /* integers of rounded numbers: this share may differ */
    }
}

static size_t tune_piece(const TuneOutput *output, int i, size_t *bytes) {
    size_t piece = TUNE_PIECE, pieces = output->bytes / piece;
    if (pieces <= TUNE_PIECES) { /* all of it */
        *bytes = i ? 0 : output->bytes;
        return 0;
    }
    *bytes = piece;
    return (pieces - 1) * (size_t)i / (TUNE_PIECES - 1) * piece;
}

/* The compared pieces, one after another, from the device. */
static uint8_t *tune_fetch(Tune *tune, const TuneOutput *output) {
    uint8_t *bytes = ARENA_ARRAY(tune->arena, uint8_t, (size_t)(TUNE_PIECES + 1) * TUNE_PIECE);
    size_t at = 0, n;
    for (int i = 0; i < TUNE_PIECES; i++) {
        size_t from = tune_piece(output, i, &n);
        if (n && tune->run.driver->copy_to_host(bytes + at, output->at + from, n))
            return NULL;
        at += n;
    }
    return bytes;
}

static bool tune_agrees(const TuneOutput *output, const uint8_t *got) {
    size_t bytes = 0, n;
    for (int i = 0; i < TUNE_PIECES; i++) {
        tune_piece(output, i, &n);
        bytes += n;
    }
    int64_t count = (int64_t)(bytes * 8 / (size_t)dtype_bits(output->dtype)), differ = 0;
    double far = 0, length = 0;
    bool is_float = dtype_is_float(output->dtype);
    for (int64_t i = 0; i < count; i++) {
        Number a = dtype_load(output->dtype, output->want, i), b = dtype_load(output->dtype, got, i);
        if (!is_float) {
            differ += a.i != b.i;
        } else if (isfinite(a.f) && isfinite(b.f)) {
            far += (a.f - b.f) * (a.f - b.f);
            length += a.f * a.f;
        } else if (isnan(a.f) != isnan(b.f) || (!isnan(a.f) && a.f != b.f)) {
            differ++;
        }
    }
    double tolerance = tune_tolerance(output->dtype);
    return is_float ? !differ && far <= tolerance * tolerance * length
                    : (double)differ <= tolerance * (double)count;
}

/* Where the region's outputs lie on the device. */
static bool tune_find_outputs(Tune *tune) {
    const sinter_plan *base = tune->base;
    const PlanKernel *entry = &base->kernels[tune->region];
    int64_t dims[PLAN_DIMS_MOST];
    PlanBindings bound;
    tune->outputs.n = 0;
    problem_plan_dims(&tune->problem, base, dims);
    if (plan_bind(base, dims, sinter_plan_dim_count(base), &bound, tune->run.why, sizeof tune->run.why))
        return false;
    for (int i = 0; i < entry->n_params; i++) {
        const PlanParam *param = &entry->params[i];
        int64_t offset = 0, count = 0;
        if (param->kind == PARAM_DIM || !region_kernel_writes(entry->region, param->value) ||
            !dim_eval(param->count, &bound.bindings, &count))
            continue;
        TuneOutput output = {.dtype = param->value->dtype};
        output.bytes = (size_t)((count * dtype_bits(output.dtype) + 7) / 8);
        bool known = false;
        if (param->place.kind == PLACE_OUTPUT)
            output.at = tune->run.outputs[param->place.index].at;
        else if (dim_eval(param->place.offset, &bound.bindings, &offset))
            output.at = tune->run.workspace.at + (CUdeviceptr)offset;
        for (size_t k = 0; k < tune->outputs.n; k++)
            known |= tune->outputs.at[k].at == output.at;
        if (!known && count > 0)
            vec_push(tune->arena, &tune->outputs, output);
    }
    return true;
}

/* From poisoned outputs, once. */
static bool tune_execute(Tune *tune, const sinter_plan *plan) {
    DeviceRun *run = &tune->run;
    for (size_t i = 0; i < tune->outputs.n; i++)
        if (run->driver->fill_async(tune->outputs.at[i].at, 0xFF, tune->outputs.at[i].bytes, run->stream))
            return false;
    return device_run_launch_kernel(run, &tune->problem, plan, tune->region) && device_run_wait(run);
}

/* ---- measuring */

/* The median of n repetitions, in microseconds; 0: it could not be timed. */
static double tune_time(Tune *tune, const TuneTry *try, int n) {
    float us[TUNE_REPETITIONS];
    return device_time(&tune->run, &tune->problem, try->plan, tune->region, tune->flush, n, us)
               ? device_median(us, n)
               : 0;
}

static void tune_drop(Tune *tune, TuneTry *try, const char *why) {
    try->why = why;
    try->us = 0;
    if (try->plan && !tune->run.lost)
        sinter_plan_destroy(try->plan);
    try->plan = NULL;
}

static const TuneTry *tune_best(const Tune *tune) {
    const TuneTry *best = NULL;
    for (int i = 0; i < tune->n_tries; i++)
        if (tune->tries[i].us > 0 && (!best || tune->tries[i].us < best->us))
            best = &tune->tries[i];
    return best;
}

static void tune_measure(Tune *tune, TuneTry *try) {
    if (!try->plan)
        return;
    ArenaMark mark = arena_mark(tune->arena);
    const char *why = tune_execute(tune, try->plan) ? NULL : "it does not run";
    for (size_t i = 0; i < tune->outputs.n && !why; i++) {
        const uint8_t *got = tune_fetch(tune, &tune->outputs.at[i]);
        if (!got || !tune_agrees(&tune->outputs.at[i], got))
            why = "its results are wrong";
    }
    arena_release(tune->arena, mark);
    const TuneTry *best = tune_best(tune);
    double us = why ? 0 : tune_time(tune, try, TUNE_FIRST);
    if (us > 0 && us < 2000 && (!best || us < 1.3 * best->us))
        us = tune_time(tune, try, TUNE_REPETITIONS);
    if (us > 0)
        try->us = us;
    else
        tune_drop(tune, try, why ? why : "it could not be timed");
}

static int tune_order(const void *a, const void *b) {
    const TuneTry *x = a, *y = b;
    double p = x->us > 0 ? x->us : HUGE_VAL, q = y->us > 0 ? y->us : HUGE_VAL;
    return (p > q) - (p < q);
}

/* Several times more, in turns: the median of the new times takes the place of the first. */
static void tune_again(Tune *tune, TuneTry *const *tries, int n) {
    float us[TUNE_FINALISTS + 1][TUNE_FINALS];
    for (int round = 0; round < TUNE_FINALS; round++)
        for (int i = 0; i < n; i++)
            us[i][round] = (float)tune_time(tune, tries[i], TUNE_REPETITIONS);
    for (int i = 0; i < n; i++) {
        double median = device_median(us[i], TUNE_FINALS);
        tries[i]->us = median > 0 ? median : tries[i]->us;
    }
}

/* The quickest of the first few and `model`, which are measured again: among a hundred schedules, the least
 * first time is one that luck made small. So, a little, is the least of these; it and `model` are measured
 * once more, by which they are judged. */
static const TuneTry *tune_final(Tune *tune, TuneTry *model) {
    TuneTry *finalists[TUNE_FINALISTS + 1] = {model}, *best = model;
    int n = 1;
    for (int i = 0; i < TUNE_FINALISTS && i < tune->n_tries; i++)
        if (tune->tries[i].us > 0 && &tune->tries[i] != model)
            finalists[n++] = &tune->tries[i];
    tune_again(tune, finalists, n);
    for (int i = 0; i < n; i++)
        if (finalists[i]->us < best->us)
            best = finalists[i];
    if (best == model)
        return model;
    tune_again(tune, (TuneTry *[]){model, best}, 2);
    return best->us < model->us ? best : model;
}

/* ---- candidates */

static void tune_add(Tune *tune, const Schedule *schedule) {
    const sinter_plan *base = tune->base;
    const char *why;
    for (int i = 0; i < tune->n_tries; i++)
        if (schedule_equals(&tune->tries[i].schedule, schedule))
            return;
    if (tune->n_tries < TUNE_LIST &&
        codegen_accepts(base->graph, base->kernels[tune->region].region, base->target, schedule, &why))
        tune->tries[tune->n_tries++] = (TuneTry){.schedule = *schedule};
}

static void tune_list(Tune *tune) {
    Schedule *list = ARENA_ARRAY(tune->arena, Schedule, TUNE_LIST);
    const PlanKernel *entry = &tune->base->kernels[tune->region];
    int room = tune->cli->o.exhaustive ? TUNE_LIST : TUNE_USUAL;
    int n = codegen_schedules(tune->base->graph, entry->region, tune->base->target, &tune->base->hint, list,
                              room);
    tune_add(tune, &entry->schedule); /* first: what the others are compared with */
    for (int i = 0; i < n; i++)
        if (list[i].seconds <= tune_hopeless * list[0].seconds)
            tune_add(tune, &list[i]);
}

static void tune_near(Tune *tune) {
    Schedule near[64];
    int n = 0;
    for (int i = 0; i < 2 && i < tune->n_tries; i++) /* sorted by now */
        if (tune->tries[i].us > 0)
            n += schedule_near(&tune->tries[i].schedule, near + n, (int)(sizeof near / sizeof *near) - n);
    for (int i = 0; i < n; i++)
        tune_add(tune, &near[i]);
}

/* ---- reports */

static void tune_schedule_json(Json *json, const TuneTry *try) {
    Text text = text_new(json->text.arena);
    schedule_print(&text, &try->schedule);
    json_text(json, "schedule", text.at);
    json_real(json, "us", try->us);
    json_real(json, "predicted_us", try->schedule.seconds * 1e6);
    if (try->why)
        json_text(json, "dropped", try->why);
}

static void tune_report(Tune *tune, const TuneTry *model, const TuneTry *best, int dropped) {
    Cli *cli = tune->cli;
    const Region *region = tune->base->kernels[tune->region].region;
    Text text = text_new(tune->arena);
    schedule_print(&text, &best->schedule);
    if (!tune->reports) {
        cli_note(cli, "%s: %.2f us, where the cost model's choice takes %.2f: %s", region->name, best->us,
                 model->us, text.at);
        return;
    }
    if (!cli->o.json) {
        const char *dims = problem_dims_text(&tune->problem);
        printf("%-28s %9.2f us, the cost model's choice %.2f (%.3fx); %d schedules tried, %d dropped%s%s\n"
               "    %s\n",
               region->name, best->us, model->us, model->us / best->us, tune->n_tries, dropped,
               *dims ? "  " : "", dims, text.at);
        return;
    }
    json_begin(&cli->json, NULL, '{');
    json_text(&cli->json, "file", tune->file);
    json_text(&cli->json, "graph", tune->problem.g->name);
    problem_dims_json(&tune->problem, &cli->json);
    json_text(&cli->json, "device", cli->context->device.name);
    json_text(&cli->json, "backend", cli_backend_name(tune->options.backend));
    json_text(&cli->json, "kernel", region->name);
    json_text(&cli->json, "kind", plan_template_name(region->kind));
    json_real(&cli->json, "model_us", model->us);
    json_real(&cli->json, "best_us", best->us);
    json_int(&cli->json, "tried", tune->n_tries);
    json_int(&cli->json, "dropped", dropped);
    json_begin(&cli->json, "model", '{');
    tune_schedule_json(&cli->json, model);
    json_end(&cli->json, '}');
    json_begin(&cli->json, "best", '{');
    tune_schedule_json(&cli->json, best);
    json_end(&cli->json, '}');
    json_begin(&cli->json, "candidates", '[');
    for (int i = 0; i < tune->n_tries; i++) {
        json_begin(&cli->json, NULL, '{');
        tune_schedule_json(&cli->json, &tune->tries[i]);
        json_end(&cli->json, '}');
    }
    json_end(&cli->json, ']');
    json_end(&cli->json, '}');
}

/* ---- one region, one graph */

static TuneTry *tune_find(Tune *tune, const Schedule *schedule) {
    for (int i = 0; i < tune->n_tries; i++)
        if (schedule_equals(&tune->tries[i].schedule, schedule))
            return &tune->tries[i];
    return NULL;
}

/* What is to be compared with; false where even that does not run. */
static bool tune_want(Tune *tune) {
    if (!tune_find_outputs(tune) || !tune_execute(tune, tune->base))
        return false;
    for (size_t i = 0; i < tune->outputs.n; i++)
        if (!(tune->outputs.at[i].want = tune_fetch(tune, &tune->outputs.at[i])))
            return false;
    return true;
}

static void tune_keep(Tune *tune, const TuneTry *model, const TuneTry *best) {
    uint8_t key[CACHE_KEY_BYTES];
    Tuned tuned = {best->schedule, best->us, model->us};
    tuned_key(tune->base, tune->base->kernels[tune->region].region, key);
    tuned_put(tune->cli->context, tune->arena, key, &tuned);
}

static bool tune_region(Tune *tune) {
    const PlanKernel *entry = &tune->base->kernels[tune->region];
    Cli *cli = tune->cli;
    if (entry->region->schedule_hint)
        return true; /* @schedule decides */
    tune->n_tries = 0;
    tune->tries = ARENA_ARRAY(tune->arena, TuneTry, TUNE_LIST);
    tune_enter(tune);
    bool wanted = tune_want(tune);
    tune_leave(tune);
    if (!wanted)
        return false;
    cli_progress(cli, "tuning %s", entry->region->name);
    tune_list(tune);
    for (int round = 0, done = 0; done < tune->n_tries && !tune->run.lost; round++) {
        tune_compile(tune, done);
        tune_enter(tune);
        for (; done < tune->n_tries && !tune->run.lost; done++)
            tune_measure(tune, &tune->tries[done]);
        tune_leave(tune);
        qsort(tune->tries, (size_t)tune->n_tries, sizeof *tune->tries, tune_order);
        if (cli->o.exhaustive && round < TUNE_ROUNDS)
            tune_near(tune);
    }
    TuneTry *model = tune_find(tune, &entry->schedule);
    bool ok = !tune->run.lost && model && model->us > 0;
    if (ok) {
        tune_enter(tune);
        const TuneTry *best = tune_final(tune, model);
        tune_leave(tune);
        /* the model's own, where the difference is noise */
        best = best->us > 0.99 * model->us ? model : best;
        int dropped = 0;
        for (int i = 0; i < tune->n_tries; i++)
            dropped += tune->tries[i].why != NULL;
        tune_keep(tune, model, best);
        tune_report(tune, model, best, dropped);
    } else if (!*tune->run.why) {
        snprintf(tune->run.why, sizeof tune->run.why, "the cost model's choice for %s could not be measured",
                 entry->region->name);
    }
    for (int i = 0; i < tune->n_tries && !tune->run.lost; i++)
        sinter_plan_destroy(tune->tries[i].plan);
    return ok;
}

static bool tune_plan(Tune *tune) {
    sinter_backend backends[2] = {SINTER_BACKEND_AUTO};
    const char *wanted = tune->cli->o.backend;
    bool all = wanted && strcmp(wanted, "all") == 0; /* bench's word for each in turn */
    if ((!all && !cli_backends(tune->cli, false, backends)) ||
        !problem_plan_options(&tune->problem, backends[0], SINTER_STAGE_LOAD, &tune->options))
        return false;
    tune->options.ignore_tuned = 1;
    sinter_status status = sinter_plan_create(tune->cli->context, tune->graph, &tune->options, &tune->whole);
    if (tune->whole)
        cli_plan_diagnostics(tune->cli, tune->whole);
    cli_fail(tune->cli, cli_exit_of(status));
    if (!status)
        tune->base = problem_variant(&tune->problem, tune->whole);
    return !status;
}

static void tune_body(void *context) {
    Tune *tune = context;
    Cli *cli = tune->cli;
    DeviceRun *run = &tune->run;
    if (!problem_begin(&tune->problem, cli, tune->arena, tune->graph, tune->dims, tune->n_dims, NULL, 0,
                       CHECK_LAST) ||
        !problem_inputs(&tune->problem, NULL, 0, 1)) {
        cli_error(cli, EXIT_INPUT, "%s cannot be tuned: %s", tune->graph->graph->name,
                  tune->problem.diags.list.n ? tune->problem.diags.list.at[0].message : "no inputs");
        return;
    }
    if (!tune_plan(tune))
        return;
    tune_open_turn(tune);
    tune_enter(tune);
    tune->ok = device_run_begin(run, &tune->problem, tune->arena);
    run->spare = TUNE_SCRATCH;
    tune->ok = tune->ok && device_run_prepare(run, &tune->problem, tune->base) &&
               !run->driver->memory_alloc(&tune->flush, DEVICE_FLUSH_BYTES);
    tune_leave(tune);
    for (int i = 0; i < tune->base->n_kernels && tune->ok; i++) {
        tune->region = i;
        tune->ok = tune_region(tune) && device_run_launch_kernel(run, &tune->problem, tune->base, i) &&
                   device_run_wait(run);
    }
    if (!tune->ok)
        cli_error(cli, EXIT_ENVIRONMENT, "%s could not be tuned: %s", tune->graph->graph->name,
                  *run->why ? run->why : "the device has no room");
    if (tune->flush && !run->lost)
        run->driver->memory_free(tune->flush);
    if (!run->lost)
        sinter_plan_destroy(tune->whole);
    device_run_end(run);
}

static bool tune_graph(Cli *cli, const char *file, sinter_graph *graph, const sinter_dim *dims, int n_dims,
                       bool reports) {
    Tune tune = {.cli = cli,
                 .arena = arena_new(0),
                 .file = file,
                 .graph = graph,
                 .dims = dims,
                 .n_dims = n_dims,
                 .reports = reports,
                 .turn = -1};
    if (!tune.arena || !arena_run(tune.arena, tune_body, &tune)) {
        cli_error(cli, EXIT_ENVIRONMENT, "memory ran out [memory]");
        tune.ok = false;
    }
    if (tune.turn >= 0)
        close(tune.turn);
    arena_free(tune.arena);
    return tune.ok;
}

bool cli_tune(Cli *cli, const char *file, sinter_graph *graph, const sinter_dim *dims, int n_dims) {
    return !cli->o.tune ||
           (cli_context(cli, DEVICE_REQUIRED) && tune_graph(cli, file, graph, dims, n_dims, false));
}

/* What the command line binds. */
typedef struct TuneDims {
    const sinter_dim *dims;
    int n_dims;
} TuneDims;

static void tune_visit(Cli *cli, const char *file, sinter_graph *graph, void *context) {
    const TuneDims *bound = context;
    tune_graph(cli, file, graph, bound->dims, bound->n_dims, true);
}

int verb_tune(Cli *cli) {
    sinter_dim *dims;
    int n_dims;
    if (cli->o.device && strcmp(cli->o.device, "cuda") != 0 && strcmp(cli->o.device, "auto") != 0) {
        cli_error(cli, EXIT_USAGE, "tune measures on a GPU: --device is cuda or auto, not '%s'",
                  cli->o.device);
        return cli->worst;
    }
    if (!cli_dims(cli, &dims, &n_dims) || !cli_context(cli, DEVICE_REQUIRED))
        return cli->worst;
    if (!cli->context->tuned.directory)
        cli_note(cli, "there is no cache directory: what is found is shown and not kept");
    cli_each_graph(cli, tune_visit, &(TuneDims){dims, n_dims});
    return cli->worst;
}
