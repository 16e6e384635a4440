/* Machine code of a plan's kernels.
 *
 * A model is its layers again and again: of a dozen layers ten have the same kernels, under other names. What
 * differs in names alone (emit_form()) is compiled once and loaded once. What is left, a kernel a form, is
 * compiled by as many threads as there are processors: each of them in memory of its own, which the plan
 * keeps, and what comes of it is taken in the kernels' order, so that a plan does not depend on who was
 * first.
 */
#include <stdatomic.h>
#include <string.h>

#include "runtime/family.h"

/* A form that is compiled ahead. */
typedef struct CodeJob {
    const sinter_plan *plan;
    const MachineOptions *options;
    const PlanKernel *kernel; /* the first that has it */
    Arena *arena;             /* NULL: the system had no memory */
    Diags diags;
    MachineResult result;
    bool is_made;
} CodeJob;

typedef struct CodeWork {
    CodeJob *jobs;
    int n;
    atomic_int next;
} CodeWork;

static void code_compile(void *context) {
    CodeJob *job = context;
    const PlanKernel *kernel = job->kernel;
    job->is_made = machine_build(job->plan->context, job->arena, kernel->kernel, kernel->cuda, kernel->form,
                                 job->options, &job->result, &job->diags);
}

static void *code_thread(void *context) {
    CodeWork *work = context;
    for (int i; (i = atomic_fetch_add(&work->next, 1)) < work->n;) {
        CodeJob *job = &work->jobs[i];
        job->arena = arena_new(job->plan->context->memory_limit);
        job->diags.arena = job->arena;
        bool has_ended = job->arena && arena_run(job->arena, code_compile, job);
        job->is_made = job->is_made && has_ended && job->diags.list.n == 0; /* else again, for what is said */
    }
    return NULL;
}

static void code_release(void *context) {
    CodeWork *work = context;
    for (int i = 0; i < work->n; i++)
        arena_free(work->jobs[i].arena);
}

static bool code_has_form(const CodeWork *work, const char *form) {
    for (int i = 0; i < work->n; i++)
        if (strcmp(work->jobs[i].kernel->form, form) == 0)
            return true;
    return false;
}

void plan_code_ahead(sinter_plan *plan, const MachineOptions *options) {
    CodeWork *work = ARENA_NEW(plan->arena, CodeWork);
    work->jobs = ARENA_ARRAY(plan->arena, CodeJob, (size_t)plan->n_kernels + 1);
    for (int i = 0; i < plan->n_kernels; i++)
        if (!code_has_form(work, plan->kernels[i].form))
            work->jobs[work->n++] = (CodeJob){.plan = plan, .options = options, .kernel = &plan->kernels[i]};
    if (work->n < 2)
        return;
    arena_defer(plan->arena, code_release, work);
    family_run(code_thread, work, work->n);
    for (int i = 0; i < work->n; i++)
        if (work->jobs[i].is_made)
            vec_push(plan->arena, &plan->code,
                     ((PlanCode){work->jobs[i].kernel->form, options->backend, work->jobs[i].result}));
}

static PlanCode *code_find(const sinter_plan *plan, const char *form, sinter_backend backend) {
    for (size_t i = 0; i < plan->code.n; i++)
        if (plan->code.at[i].backend == backend && strcmp(plan->code.at[i].form, form) == 0)
            return &plan->code.at[i];
    return NULL;
}

const PlanKernel *plan_same_code(const sinter_plan *plan, const PlanKernel *entry) {
    for (const PlanKernel *other = plan->kernels; other < entry; other++)
        if (other->has_image && other->machine.image.ptx == entry->machine.image.ptx &&
            other->machine.image.cubin == entry->machine.image.cubin)
            return other;
    return NULL;
}

bool plan_build_machine(sinter_plan *plan, PlanKernel *entry, const MachineOptions *options) {
    PlanCode *code = code_find(plan, entry->form, options->backend);
    if (!code) {
        PlanCode made = {.form = entry->form, .backend = options->backend};
        entry->has_image = machine_build(plan->context, plan->arena, entry->kernel, entry->cuda, entry->form,
                                         options, &made.result, &plan->diags);
        if (!entry->has_image)
            return false;
        vec_push(plan->arena, &plan->code, made);
        code = &plan->code.at[plan->code.n - 1];
    }
    entry->machine = code->result;
    entry->has_image = true;
    plan->times.backend_ms += code->result.backend_ms;
    plan->times.ptxas_ms += code->result.ptxas_ms;
    code->result.backend_ms = code->result.ptxas_ms = 0; /* counted once */
    return true;
}
