/* Executing a plan on the CPU, through the simulator. */
#include <stdlib.h>
#include <string.h>

#include "codegen/simulate.h"
#include "runtime/plan.h"

typedef struct HostRun {
    const sinter_plan *plan;
    const sinter_execution *e;
    const PlanBindings *bound;
    Arena *arena;
    Diags diags;
    sinter_status status;
} HostRun;

static uint8_t *host_address(HostRun *run, const Place *place) {
    int64_t offset = 0;
    uint8_t *at = NULL;
    switch (place->kind) {
    case PLACE_INPUT: at = run->e->inputs[place->index]; break;
    case PLACE_OUTPUT: at = run->e->outputs[place->index]; break;
    case PLACE_WORKSPACE: at = run->e->workspace; break;
    }
    if (place->offset && !dim_eval(place->offset, &run->bound->bindings, &offset))
        return NULL;
    return at ? at + offset : NULL;
}

/* Bytes of the memory behind a parameter, from its strides. */
static bool host_bytes(const HostRun *run, const PlanParam *param, int64_t *bytes) {
    const Graph *graph = run->plan->graph;
    const Dim **strides = param->value->strides;
    if (param->place.kind == PLACE_OUTPUT && graph->outputs.at[param->place.index].value == param->value)
        strides = graph->outputs.at[param->place.index].strides;
    int64_t elements;
    return plan_extent(param->value, strides, &run->bound->bindings, &elements) &&
           dtype_bytes(param->value->dtype, elements, bytes);
}

static bool host_kernel(HostRun *run, const PlanKernel *entry) {
    SimBuffer *buffers = ARENA_ARRAY(run->arena, SimBuffer, (size_t)entry->n_params + 1);
    int n = 0;
    for (int i = 0; i < entry->n_params; i++) {
        const PlanParam *param = &entry->params[i];
        bool seen = param->kind == PARAM_DIM || !param->value; /* the simulator has its own scratch */
        for (int j = 0; j < n && !seen; j++)
            seen = buffers[j].value == param->value;
        if (seen)
            continue;
        SimBuffer *buffer = &buffers[n++];
        buffer->value = param->value;
        buffer->at = host_address(run, &param->place);
        if (!host_bytes(run, param, &buffer->bytes)) {
            diag_error(&run->diags, DIAG_DIM, (Span){0}, "a size overflows for these dims");
            return false;
        }
        if (!buffer->at && buffer->bytes) {
            diag_error(&run->diags, DIAG_USAGE, (Span){0}, "a pointer is NULL");
            return false;
        }
    }
    return simulate(entry->kernel, &run->bound->bindings, buffers, n, &(SimOptions){.check_races = true},
                    &run->diags);
}

static void host_body(void *context) {
    HostRun *run = context;
    const sinter_plan *plan = run->plan;
    bool ok = true;
    for (int i = 0; i < plan->n_kernels && ok; i++)
        ok = host_kernel(run, &plan->kernels[i]);
    for (int i = 0; i < plan->n_copies && ok; i++) {
        const PlanCopy *copy = &plan->copies[i];
        int64_t bytes;
        ok = dim_eval(copy->bytes, &run->bound->bindings, &bytes);
        if (ok && bytes)
            memcpy(run->e->outputs[copy->output], host_address(run, &copy->from), (size_t)bytes);
    }
    run->status = ok ? SINTER_OK : report_status(&run->diags);
    if (ok || !run->e->message)
        return;
    Text all = text_new(run->arena);
    for (size_t i = 0; i < run->diags.list.n && i < 4; i++)
        text_add(&all, "%s%s", i ? "; " : "", run->diags.list.at[i].message);
    plan_say(run->e->message, run->e->message_room, "%s", all.n ? all.at : "the simulator stopped");
}

sinter_status sinter_plan_simulate(const sinter_plan *plan, const sinter_execution *execution) {
    sinter_execution e;
    context_copy_options(&e, sizeof e, execution);
    plan = sinter_plan_select(plan, e.dims, e.n_dims);
    if (plan->stage > SINTER_STAGE_KERNELS || plan->diags.errors) {
        plan_say(e.message, e.message_room, "the plan has no kernels");
        return SINTER_USAGE;
    }
    PlanBindings bound;
    sinter_status status = plan_bind(plan, e.dims, e.n_dims, &bound, e.message, e.message_room);
    size_t need;
    if (!status)
        status = sinter_plan_workspace(plan, e.dims, e.n_dims, &need);
    if (status)
        return status;
    if (e.n_inputs != (int)plan->graph->inputs.n || e.n_outputs != (int)plan->graph->outputs.n ||
        need > e.workspace_bytes) {
        plan_say(e.message, e.message_room, "inputs, outputs or workspace do not fit the plan");
        return SINTER_USAGE;
    }
    Arena *arena = arena_new(plan->context->memory_limit);
    HostRun run = {plan, &e, &bound, arena, {.arena = arena}, SINTER_INTERNAL};
    if (!arena || !arena_run(arena, host_body, &run))
        run.status = SINTER_OUT_OF_MEMORY;
    arena_free(arena);
    return run.status;
}
