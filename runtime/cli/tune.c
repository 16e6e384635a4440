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
#include "runtime/cli/tune.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "runtime/tuned.h"

enum {
    TUNE_LIST = 256,   /* schedules of a region, at most */
    TUNE_USUAL = 16,   /* of the template's list, without --exhaustive */
    TUNE_ROUNDS = 3,   /* steps away from the best */
    TUNE_THREADS = 16, /* that compile */
    TUNE_SCRATCH =
        512 << 20, /* bytes that candidates may need where the model's choice needs none: partial sums */
};
static const double tune_hopeless = 1.8; /* times the best prediction: not tried */

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

/* ---- candidates */

static int tune_order(const void *a, const void *b) {
    const TuneTry *x = a, *y = b;
    double p = x->us > 0 ? x->us : HUGE_VAL, q = y->us > 0 ? y->us : HUGE_VAL;
    return (p > q) - (p < q);
}

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
