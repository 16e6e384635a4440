/* One schedule of a region on the GPU: from poisoned outputs to what the model's choice came to, then
 * medians, the L2 cache flushed. */
#include "runtime/cli/tune.h"

#include <math.h>

enum {
    TUNE_FINALISTS = 8, /* measured again */
    TUNE_FINALS = 5,    /* so often */
    TUNE_REPETITIONS = 21,
    TUNE_FIRST = 5,        /* repetitions after which a slow one is let go */
    TUNE_PIECES = 32,      /* of an output that are compared */
    TUNE_PIECE = 32 << 10, /* bytes of one */
};

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
        if (param->place.offset && !dim_eval(param->place.offset, &bound.bindings, &offset))
            continue;
        output.at = (CUdeviceptr)offset + (param->place.kind == PLACE_OUTPUT
                                               ? tune->run.outputs[param->place.index].at
                                               : tune->run.workspace.at);
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

bool tune_want(Tune *tune) {
    if (!tune_find_outputs(tune) || !tune_execute(tune, tune->base))
        return false;
    for (size_t i = 0; i < tune->outputs.n; i++)
        if (!(tune->outputs.at[i].want = tune_fetch(tune, &tune->outputs.at[i])))
            return false;
    return true;
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

void tune_measure(Tune *tune, TuneTry *try) {
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

const TuneTry *tune_final(Tune *tune, TuneTry *model) {
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
