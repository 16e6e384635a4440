/* Making plans: bind dims, run the passes, generate a kernel a region, compile, load. Read plan_body() first.
 */
#include "runtime/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/memory_order.h"
#include "ir/print.h"
#include "passes/pass.h"
#include "runtime/plan_known.h"

typedef struct PlanMake {
    sinter_plan *plan;
    const sinter_graph *from;
    sinter_plan_options options;
    const PlanTrial *trial; /* NULL: a plan to execute */
    const PlanScope *scope; /* NULL: for all sizes */
} PlanMake;

void plan_say(char *message, size_t room, const char *format, ...) {
    if (!message || !room)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(message, room, format, args);
    va_end(args);
}

static const Target *plan_target(PlanMake *make) {
    sinter_plan *plan = make->plan;
    sinter_context *context = plan->context;
    const char *name = make->options.target;
    if (!name || strcmp(name, "auto") == 0) {
        if (context->has_device)
            return &context->device_target;
        name = "sm_90a";
    }
    if (context->has_device && strcmp(name, context->device_target.name) == 0)
        return &context->device_target;
    const Target *target = target_find(name);
    if (!target)
        diag_error(&plan->diags, DIAG_USAGE, (Span){0},
                   "there is no target '%s'; `sinter targets` lists them", name);
    return target;
}

/* The values of `dims` for the symbols of a table. Names that it lacks are an error, or pass where `lenient`.
 */
static bool plan_values(PlanMake *make, DimTable *table, const sinter_dim *dims, int n, bool lenient,
                        DimBindings *out) {
    sinter_plan *plan = make->plan;
    *out = dim_bindings_new(plan->arena, table);
    for (int i = 0; i < n; i++) {
        const Dim *symbol = dims[i].name ? dim_find_symbol(table, dims[i].name) : NULL;
        if (!symbol && lenient)
            continue;
        if (!symbol) {
            diag_error(&plan->diags, DIAG_USAGE, (Span){0}, "the graph '%s' has no dim '%s'",
                       make->from->graph->name, dims[i].name ? dims[i].name : "");
            return false;
        }
        if (dims[i].value < 0 && !lenient) {
            diag_error(&plan->diags, DIAG_DIM, (Span){0}, "dim '%s' is %lld; a dim is at least 0",
                       dims[i].name, (long long)dims[i].value);
            return false;
        }
        out->value[symbol->symbol] = dims[i].value;
        out->known[symbol->symbol] = true;
    }
    return true;
}

/* Values to expect: the caller's, and over them the scope's. */
static bool plan_hints(PlanMake *make) {
    DimTable *dims = make->plan->graph->dims;
    const PlanScope *scope = make->scope;
    if (!plan_values(make, dims, make->options.hints, make->options.n_hints, true, &make->plan->hint))
        return false;
    for (int i = 0; scope && i < scope->n_hints; i++) {
        const Dim *symbol = dim_find_symbol(dims, scope->hints[i].name);
        make->plan->hint.value[symbol->symbol] = scope->hints[i].value;
        make->plan->hint.known[symbol->symbol] = true;
    }
    return true;
}

static bool plan_all_known(const DimBindings *bindings) {
    for (int i = 0; i < bindings->n; i++)
        if (!bindings->known[i])
            return false;
    return true;
}

typedef struct PlanDump {
    const PlanMake *make;
} PlanDump;

static void plan_dump(void *context, int number, const char *pass, const Graph *graph, bool changed) {
    const PlanDump *dump = context;
    ArenaMark mark = arena_mark(dump->make->plan->arena);
    Text text = text_new(dump->make->plan->arena);
    graph_print(&text, graph);
    dump->make->options.dump(dump->make->options.dump_context, number, pass, text.at, changed);
    arena_release(dump->make->plan->arena, mark);
}

static bool plan_passes(PlanMake *make) {
    sinter_plan *plan = make->plan;
    FuseLimits limits = target_fuse_limits(plan->target);
    PlanDump dump = {make};
    PlanKnown known = {.arena = plan->arena, .target = plan->target, .hint = &plan->hint};
    PassOptions options = {
        .limits = &limits,
        .verify = make->options.verify,
        .no_fusion = make->options.no_fusion,
        .pass_limit = make->options.pass_limit > 0 ? make->options.pass_limit : -1,
        .skip = make->options.skip,
        .dump = make->options.dump ? plan_dump : NULL,
        .dump_context = &dump,
        .takes = plan_known_takes,
        .seconds = plan_known_seconds,
        .takes_context = &known,
    };
    graph_take_memory_order(plan->graph, &plan->diags);
    plan->partition = passes_run(plan->graph, &options, &plan->diags);
    return plan->partition != NULL && !plan->diags.errors;
}

/* Where the memory of a value that crosses a kernel's border is. */
static bool plan_place(sinter_plan *plan, const Value *value, Place *out) {
    DimTable *dims = plan->graph->dims;
    const Dim *first, *bits = dim_const(dims, dtype_bits(value->dtype));
    const Value *stored = partition_stored(plan->partition, value, &first);
    const Dim *offset = first ? dim_div(dims, dim_mul(dims, first, bits), dim_const(dims, 8)) : NULL;
    if (stored->op == OP_input) {
        *out = (Place){PLACE_INPUT, (int)stored->attrs[0].i, NULL};
        return true;
    }
    for (size_t i = 0; i < plan->graph->outputs.n; i++)
        if (plan->graph->outputs.at[i].value == stored) {
            *out = (Place){PLACE_OUTPUT, (int)i, stored == value ? NULL : offset};
            return true;
        }
    for (size_t i = 0; i < plan->partition->buffers.n && offset; i++)
        if (plan->partition->buffers.at[i].value == stored) {
            *out = (Place){PLACE_WORKSPACE, 0, dim_add(dims, plan->partition->buffers.at[i].offset, offset)};
            return true;
        }
    diag_error(&plan->diags, DIAG_INTERNAL, value->span, "a value that kernels share has no place in memory");
    return false;
}

/* Workspace of the kernel's own, behind what kernels share. */
static bool plan_scratch(sinter_plan *plan, PlanKernel *entry, const KBuffer *buffer, PlanParam *param) {
    enum { ALIGN = 256 };
    DimTable *dims = plan->graph->dims;
    const Dim *bytes = dim_mul(dims, buffer->scratch, dim_const(dims, dtype_bits(buffer->elem) / 8));
    const Dim *align = dim_const(dims, ALIGN);
    const Dim *begin = plan->workspace ? plan->workspace : dim_const(dims, 0);
    begin = dim_mul(dims, dim_ceil_div(dims, begin, align), align);
    const Dim *end = dim_add(dims, begin, bytes);
    if (!bytes || !end) {
        diag_error(&plan->diags, DIAG_INTERNAL, (Span){0}, "kernel '%s': its scratch has no place",
                   entry->kernel->name);
        return false;
    }
    plan->workspace = end;
    param->align = buffer->align;
    param->count = buffer->scratch;
    param->place = (Place){PLACE_WORKSPACE, 0, begin};
    return true;
}

bool plan_params(sinter_plan *plan, PlanKernel *entry) {
    const Kernel *kernel = entry->kernel;
    entry->n_params = (int)kernel->params.n;
    entry->params = ARENA_ARRAY(plan->arena, PlanParam, kernel->params.n);
    int maps = 0;
    for (int i = 0; i < entry->n_params; i++) {
        const KParam *from = &kernel->params.at[i];
        PlanParam *to = &entry->params[i];
        to->kind = from->kind;
        const KBuffer *buffer = NULL;
        switch (from->kind) {
        case PARAM_BUFFER: buffer = from->buffer; break;
        case PARAM_DIM: to->dim = from->dim; break;
        case PARAM_TENSOR_MAP:
            to->map = &from->map;
            buffer = from->map.buffer;
            maps++;
            break;
        }
        if (!buffer)
            continue;
        if (buffer->scratch) {
            if (!plan_scratch(plan, entry, buffer, to))
                return false;
            continue;
        }
        to->value = buffer->value;
        to->align = from->kind == PARAM_TENSOR_MAP && buffer->align < 16 ? 16 : buffer->align;
        to->count = value_count(plan->graph, buffer->value);
        if (!plan_place(plan, buffer->value, &to->place))
            return false;
    }
    if (entry->n_params > PLAN_PARAMS_MOST || maps > PLAN_MAPS_MOST) {
        diag_error(&plan->diags, DIAG_UNSUPPORTED, plan->graph->span,
                   "kernel '%s' has %d parameters, %d of them tensor maps; %d and %d are the most",
                   kernel->name, entry->n_params, maps, PLAN_PARAMS_MOST, PLAN_MAPS_MOST);
        return false;
    }
    return true;
}

static bool plan_same_strides(const Value *value, const Dim **a, const Dim **b) {
    if (!a || !b)
        return a == b;
    for (int i = 0; i < value->rank; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

static bool plan_copies(sinter_plan *plan) {
    const Graph *graph = plan->graph;
    plan->copies = ARENA_ARRAY(plan->arena, PlanCopy, graph->outputs.n + 1);
    for (size_t i = 0; i < graph->outputs.n; i++) {
        const Output *output = &graph->outputs.at[i];
        Place place;
        if (!plan_place(plan, output->value, &place))
            return false;
        if (place.kind == PLACE_OUTPUT && place.index == (int)i)
            continue;
        const Dim **strides =
            place.kind == PLACE_INPUT ? output->value->strides : graph->outputs.at[place.index].strides;
        const Dim *count = value_count(graph, output->value);
        int bits = dtype_bits(output->value->dtype);
        const Dim *bytes = bits >= 8 ? dim_mul(graph->dims, count, dim_const(graph->dims, bits / 8))
                                     : dim_ceil_div(graph->dims, count, dim_const(graph->dims, 8 / bits));
        if (!plan_same_strides(output->value, strides, output->strides) || strides || !bytes) {
            diag_error(&plan->diags, DIAG_UNSUPPORTED, output->span,
                       "output '%s' is the same tensor as %s, under other strides", output->name,
                       place.kind == PLACE_INPUT ? "an input" : "another output");
            return false;
        }
        plan->copies[plan->n_copies++] = (PlanCopy){place, (int)i, bytes};
    }
    return true;
}

/* The template's schedules: those of a kernel not long before that is like it, where there is one. */
static void plan_schedules(sinter_plan *plan, PlanKernel *entry) {
    enum { BEFORE = 256 };
    const PlanKernel *first = entry - plan->kernels > BEFORE ? entry - BEFORE : plan->kernels;
    for (const PlanKernel *other = first; other < entry; other++)
        if (region_is_alike(plan->arena, plan->graph, other->region, entry->region)) {
            entry->n_choices = other->n_choices;
            memcpy(entry->choices, other->choices, sizeof entry->choices);
            return;
        }
    entry->n_choices = codegen_schedules(plan->graph, entry->region, plan->target, &plan->hint,
                                         entry->choices, CODEGEN_SCHEDULES);
}

static bool plan_kernels(PlanMake *make) {
    sinter_plan *plan = make->plan;
    const Partition *partition = plan->partition;
    plan->workspace = partition->workspace;
    plan->kernels = ARENA_ARRAY(plan->arena, PlanKernel, partition->regions.n + 1);
    for (size_t i = 0; i < partition->regions.n; i++) {
        PlanKernel *entry = &plan->kernels[i];
        entry->region = partition->regions.at[i];
        plan_schedules(plan, entry);
        int choice = make->options.choice < entry->n_choices ? make->options.choice : entry->n_choices - 1;
        if (!codegen_settle(plan->graph, entry->region, plan->target, &plan->hint,
                            &entry->choices[choice > 0 ? choice : 0], &plan->diags))
            return false;
        entry->schedule = entry->region->schedule;
        if (make->trial && make->trial->region == (int)i)
            entry->schedule = *make->trial->schedule;
        else if (!make->options.ignore_tuned && !make->options.choice)
            plan_take_tuned(plan, entry);
        if (!plan_generate(plan, entry))
            return false;
        plan->n_kernels = (int)i + 1;
    }
    return plan_copies(plan);
}

static bool plan_machine(PlanMake *make) {
    sinter_plan *plan = make->plan;
    MachineOptions options = {.backend = make->options.backend,
                              .binary = make->options.stage <= SINTER_STAGE_BINARY,
                              .need_binary = make->options.stage == SINTER_STAGE_BINARY,
                              .no_cache = make->options.no_cache};
    if (!make->trial && !make->scope) /* variants are made by threads already */
        plan_code_ahead(plan, &options);
    for (int i = 0; i < plan->n_kernels; i++) {
        PlanKernel *entry = &plan->kernels[i];
        if (make->trial && make->trial->region != i)
            continue;
        if (make->trial ? !plan_build_machine(plan, entry, &options) : !plan_choose(plan, entry, &options))
            return false;
    }
    return true;
}

static bool plan_load_kernel(sinter_plan *plan, PlanKernel *entry) {
    const Driver *driver = &plan->context->driver;
    const Image *image = &entry->machine.image;
    const PlanKernel *loaded = plan_same_code(plan, entry);
    if (loaded) {
        entry->function = loaded->function;
        entry->machine.image.figures = loaded->machine.image.figures;
        return true;
    }
    char log[8192] = "";
    CUjit_option names[] = {DRIVER_JIT_ERROR_LOG, DRIVER_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    CUresult error = driver->module_load(
        &entry->module, image->cubin ? image->cubin : (const void *)image->ptx, 2, names, values);
    if (!error)
        error = driver->module_function(&entry->function, entry->module, image->entry);
    if (!error && entry->kernel->smem_bytes > 48 * 1024) /* beyond this a kernel has to ask */
        error =
            driver->function_set(entry->function, DRIVER_FUNCTION_SHARED_MAX, (int)entry->kernel->smem_bytes);
    ImageFigures *figures = &entry->machine.image.figures;
    if (!error && !figures->registers) {
        driver->function_get(&figures->registers, DRIVER_FUNCTION_REGISTERS, entry->function);
        driver->function_get(&figures->stack_bytes, DRIVER_FUNCTION_LOCAL_BYTES, entry->function);
    }
    if (!error)
        return true;
    char why[DRIVER_WHY_ROOM];
    driver_explain(driver, error, "the driver did not load it", why, sizeof why);
    diag_error(&plan->diags, DIAG_DEVICE, (Span){0}, "kernel '%s': %s%s%s", entry->kernel->name, why,
               *log ? ": " : "", log);
    return false;
}

static bool plan_load(PlanMake *make) {
    sinter_plan *plan = make->plan;
    const Driver *driver = &plan->context->driver;
    const Device *device = &plan->context->device;
    const Target *own = &plan->context->device_target;
    if (plan->target->sm > own->sm || (plan->target != own && plan->target->has_wgmma)) {
        diag_error(&plan->diags, DIAG_UNSUPPORTED, (Span){0},
                   "code for %s does not run on the device, which is %s (sm_%d%d)", plan->target->name,
                   device->name, device->major, device->minor);
        return false;
    }
    bool pushed;
    CUresult error = device_enter(driver, device, &pushed);
    if (error) {
        char why[DRIVER_WHY_ROOM];
        driver_explain(driver, error, "the device's context", why, sizeof why);
        diag_error(&plan->diags, DIAG_DEVICE, (Span){0}, "%s", why);
        return false;
    }
    bool ok = true;
    for (int i = 0; i < plan->n_kernels && ok; i++)
        ok = !plan->kernels[i].has_image || plan_load_kernel(plan, &plan->kernels[i]);
    device_leave(driver, pushed);
    return ok;
}

/* Decisions with the line that they speak of, while the sources are at hand. */
static void plan_keep_decisions(PlanMake *make) {
    sinter_plan *plan = make->plan;
    const Partition *partition = plan->partition;
    plan->n_decisions = (int)partition->decisions.n;
    plan->decisions = ARENA_ARRAY(plan->arena, PlanDecision, partition->decisions.n + 1);
    for (int i = 0; i < plan->n_decisions; i++) {
        const Decision *decision = &partition->decisions.at[i];
        int line = 0, column = 0;
        if (decision->at && decision->at->span.file)
            source_locate(make->from->sources, decision->at->span.file, decision->at->span.caret, &line,
                          &column);
        plan->decisions[i] = (PlanDecision){decision, line};
    }
}

static void plan_timed(PlanMake *make, bool (*step)(PlanMake *), double *ms, bool *ok) {
    double begin = context_now_ms();
    *ok = *ok && step(make);
    if (ms)
        *ms += context_now_ms() - begin;
}

static bool plan_bind_graph(PlanMake *make) {
    sinter_plan *plan = make->plan;
    plan->target = plan_target(make);
    DimBindings bindings;
    if (!plan->target || !plan_values(make, make->from->graph->dims, make->options.dims, make->options.n_dims,
                                      false, &bindings))
        return false;
    if (plan_all_known(&bindings) && !dim_check(make->from->graph->dims, &bindings, &plan->diags))
        return false;
    plan->no_fusion = make->options.no_fusion;
    plan->no_variants = make->options.no_variants;
    plan->bound = ARENA_ARRAY(plan->arena, sinter_dim, (size_t)make->options.n_dims + 1);
    for (; plan->n_bound < make->options.n_dims; plan->n_bound++) {
        const sinter_dim *dim = &make->options.dims[plan->n_bound];
        plan->bound[plan->n_bound] = (sinter_dim){arena_strdup(plan->arena, dim->name), dim->value};
    }
    if (bindings.n > PLAN_DIMS_MOST) {
        diag_error(&plan->diags, DIAG_UNSUPPORTED, make->from->graph->span,
                   "the graph has %d symbolic dims; %d are the most", bindings.n, PLAN_DIMS_MOST);
        return false;
    }
    for (int i = 0; i < bindings.n; i++)
        if (!bindings.known[i])
            plan->free_dims[plan->n_free_dims++] = i; /* the copy numbers symbols as the graph does */
    plan->graph = graph_narrow(plan->arena, make->from->graph, &bindings,
                               make->scope ? &make->scope->guards : NULL, &plan->diags);
    return plan->graph && plan_hints(make);
}

static void plan_body(void *context) {
    PlanMake *make = context;
    sinter_plan *plan = make->plan;
    sinter_stage stage = make->options.stage;
    bool ok = true;
    plan_timed(make, plan_bind_graph, &plan->times.passes_ms, &ok);
    plan_timed(make, plan_passes, &plan->times.passes_ms, &ok);
    if (plan->partition)
        plan_keep_decisions(make);
    if (stage < SINTER_STAGE_REGIONS)
        plan_timed(make, plan_kernels, &plan->times.codegen_ms, &ok);
    if (stage < SINTER_STAGE_KERNELS)
        plan_timed(make, plan_machine, NULL, &ok);
    if (stage == SINTER_STAGE_LOAD && plan->context->has_device)
        plan_timed(make, plan_load, &plan->times.load_ms, &ok);
    bool is_whole = ok && stage <= SINTER_STAGE_KERNELS && !make->trial && !make->scope;
    if (is_whole && plan->n_free_dims && !make->options.no_fusion && !make->options.no_variants)
        plan_make_family(plan, make->from, &make->options);
    if (!ok && !plan->diags.errors)
        diag_error(&plan->diags, DIAG_INTERNAL, (Span){0}, "compiling failed without a reason");
    if (plan->partition) {
        Text explain = text_new(plan->arena);
        plan_explain(&explain, plan, 0);
        plan->explain = explain.at;
    }
    plan->report = report_make(plan->arena, make->from->sources, &plan->diags);
}

static void plan_count(const sinter_plan *plan) {
    sinter_context *context = plan->context;
    const sinter_times *t = &plan->times;
    int kernels = plan->n_kernels;
    for (int i = 0; i < plan->n_variants; i++)
        kernels += plan->variants[i]->n_kernels;
    atomic_fetch_add(&context->plans, 1);
    atomic_fetch_add(&context->kernels, (uint64_t)kernels);
    atomic_fetch_add(&context->passes_ns, (uint64_t)(t->passes_ms * 1e6));
    atomic_fetch_add(&context->codegen_ns, (uint64_t)(t->codegen_ms * 1e6));
    atomic_fetch_add(&context->backend_ns, (uint64_t)(t->backend_ms * 1e6));
    atomic_fetch_add(&context->ptxas_ns, (uint64_t)(t->ptxas_ms * 1e6));
    atomic_fetch_add(&context->load_ns, (uint64_t)(t->load_ms * 1e6));
}

sinter_status sinter_plan_create(sinter_context *context, const sinter_graph *graph,
                                 const sinter_plan_options *options, sinter_plan **out) {
    return plan_create(context, graph, options, NULL, NULL, out);
}

sinter_status plan_create(sinter_context *context, const sinter_graph *graph,
                          const sinter_plan_options *options, const PlanTrial *trial, const PlanScope *scope,
                          sinter_plan **out) {
    if (!out)
        return SINTER_USAGE;
    *out = NULL;
    sinter_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return SINTER_OUT_OF_MEMORY;
    *out = plan;
    plan->context = context;
    plan->explain = "";
    plan->scope = scope;
    PlanMake make = {.plan = plan, .from = graph, .trial = trial, .scope = scope};
    context_copy_options(&make.options, sizeof make.options, options);
    plan->stage = make.options.stage;
    if (!graph || !graph->graph) {
        plan->report = report_single(&plan->storage, DIAG_USAGE, "the graph did not parse");
        return SINTER_USAGE;
    }
    plan->arena = arena_new(context->memory_limit);
    plan->diags.arena = plan->arena;
    if (!plan->arena || !arena_run(plan->arena, plan_body, &make)) {
        plan->report = report_single(&plan->storage, DIAG_MEMORY,
                                     "memory ran out, or the limit on it was reached, while compiling");
        return SINTER_OUT_OF_MEMORY;
    }
    if (!scope)
        plan_count(plan);
    return report_status(&plan->diags);
}

void sinter_plan_destroy(sinter_plan *plan) {
    if (!plan)
        return;
    for (int i = 0; i < plan->n_variants; i++)
        sinter_plan_destroy(plan->variants[i]);
    const Driver *driver = &plan->context->driver;
    bool pushed;
    if (plan->context->has_device && plan->kernels &&
        !device_enter(driver, &plan->context->device, &pushed)) {
        for (int i = 0; i < plan->n_kernels; i++)
            if (plan->kernels[i].module)
                driver->module_unload(plan->kernels[i].module);
        device_leave(driver, pushed);
    }
    arena_free(plan->arena);
    free(plan);
}
