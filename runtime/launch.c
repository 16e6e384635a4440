/* Executing a plan on the device: evaluate sizes, encode tensor maps, launch. Everything lies on the stack.
 */
#include <string.h>

#include "runtime/plan.h"

typedef struct Launch {
    const sinter_plan *plan;
    sinter_execution e;
    PlanBindings bound;
} Launch;

static sinter_status launch_fail(Launch *launch, CUresult error, const char *what) {
    if (launch->e.message && launch->e.message_room)
        driver_explain(&launch->plan->context->driver, error, what, launch->e.message,
                       launch->e.message_room);
    return SINTER_DEVICE;
}

static bool launch_eval(const Launch *launch, const Dim *dim, int64_t *out) {
    return dim_eval(dim, &launch->bound.bindings, out);
}

static sinter_status launch_address(Launch *launch, const PlanParam *param, CUdeviceptr *out) {
    const Place *place = &param->place;
    int64_t offset = 0, count = 0;
    void *at = NULL;
    static const char *const words[] = {"input", "output", "workspace"}; /* ORDER PlaceKind */
    switch (place->kind) {
    case PLACE_INPUT: at = launch->e.inputs[place->index]; break;
    case PLACE_OUTPUT: at = launch->e.outputs[place->index]; break;
    case PLACE_WORKSPACE: at = launch->e.workspace; break;
    }
    if (place->offset && !launch_eval(launch, place->offset, &offset)) {
        plan_say(launch->e.message, launch->e.message_room, "the workspace overflows for these dims");
        return SINTER_BAD_DIMS;
    }
    *out = (CUdeviceptr)(uintptr_t)at + (CUdeviceptr)offset;
    if (!at && (!param->count || !launch_eval(launch, param->count, &count) || count != 0)) {
        plan_say(launch->e.message, launch->e.message_room, "%s %d is NULL", words[place->kind],
                 place->index);
        return SINTER_USAGE;
    }
    if (param->align > 1 && *out % (unsigned)param->align) {
        plan_say(launch->e.message, launch->e.message_room, "%s %d is not aligned to %d bytes",
                 words[place->kind], place->index, param->align);
        return SINTER_USAGE;
    }
    return SINTER_OK;
}

static bool launch_map_type(DType type, CUtensorMapDataType *out) {
    switch (type) {
    case DTYPE_F64: *out = DRIVER_TMA_F64; return true;
    case DTYPE_F32: *out = DRIVER_TMA_F32; return true;
    case DTYPE_TF32: *out = DRIVER_TMA_TF32; return true;
    case DTYPE_F16: *out = DRIVER_TMA_F16; return true;
    case DTYPE_BF16: *out = DRIVER_TMA_BF16; return true;
    case DTYPE_I64: *out = DRIVER_TMA_I64; return true;
    case DTYPE_I32: *out = DRIVER_TMA_I32; return true;
    case DTYPE_I16: *out = DRIVER_TMA_U16; return true;
    case DTYPE_E4M3:
    case DTYPE_E5M2:
    case DTYPE_I8:
    case DTYPE_U8:
    case DTYPE_BOOL: *out = DRIVER_TMA_U8; return true;
    case DTYPE_I4:
    case DTYPE_U4:
    case DTYPE_COUNT: break;
    }
    return false;
}

/* PTX ISA, tensors: sizes are 1 to 2^32 elements, strides multiples of 16 bytes below 2^40, the base aligned
 * to 16. A dim of 0 is given as 1: the kernel then never reads through the map. */
static sinter_status launch_map(Launch *launch, const PlanParam *param, CUdeviceptr base, CUtensorMap *out) {
    static const CUtensorMapSwizzle swizzles[] = {DRIVER_TMA_SWIZZLE_NONE, DRIVER_TMA_SWIZZLE_32,
                                                  DRIVER_TMA_SWIZZLE_64,
                                                  DRIVER_TMA_SWIZZLE_128}; /* ORDER KSwizzle */
    const KTensorMap *map = param->map;
    enum { LINE = 128 };
    int64_t bytes = dtype_bits(map->elem) / 8, offset = 0;
    cuuint64_t dims[5], strides[5];
    cuuint32_t box[5], element_strides[5];
    CUtensorMapDataType type = DRIVER_TMA_U8;
    bool ok = launch_map_type(map->elem, &type) && map->rank >= 1 && map->rank <= 5 &&
              (!map->offset || launch_eval(launch, map->offset, &offset));
    CUdeviceptr first = base + (CUdeviceptr)(offset * bytes);
    /* whole pairs of lines where rows begin at lines; a box of rows that begin between them has parts of
     * many, and would bring twice what it needs: 5000 x 3000 x 1000 took 60 us so, 53 this way */
    bool on_lines = first % LINE == 0;
    for (int i = 0; i < map->rank && ok; i++) {
        int64_t dim, stride = 1;
        ok = launch_eval(launch, map->dims[i], &dim) &&
             (i == 0 || launch_eval(launch, map->strides[i], &stride));
        if (!ok)
            break;
        dims[i] = dim > 0 ? (cuuint64_t)dim : 1;
        box[i] = (cuuint32_t)map->box[i];
        element_strides[i] = 1;
        if (i) {
            strides[i - 1] = stride > 0 ? (cuuint64_t)(stride * bytes) : 16;
            on_lines = on_lines && strides[i - 1] % LINE == 0;
        }
        ok = dims[i] <= (cuuint64_t)1 << 32 && stride >= 0 && stride < (int64_t)1 << 40;
    }
    if (!ok) {
        plan_say(launch->e.message, launch->e.message_room,
                 "a tensor map's sizes are out of range for these dims");
        return SINTER_BAD_DIMS;
    }
    const Driver *driver = &launch->plan->context->driver;
    void *address = (void *)(uintptr_t)first;
    CUtensorMapL2promotion promotion = on_lines ? DRIVER_TMA_PROMOTE_256 : DRIVER_TMA_PROMOTE_128;
    CUtensorMapSwizzle swizzle = swizzles[map->swizzle];
    cuuint32_t rank = (cuuint32_t)map->rank;
    for (int i = 0; map->places && i < map->rank - 2; i++)
        element_strides[i + 1] = (cuuint32_t)map->places->step[i];
    CUresult error = map->places /* no interleave; zeros outside */
                         ? driver->tensor_map_windows(out, type, rank, address, dims, strides,
                                                      map->places->low, map->places->high, box[0], box[1],
                                                      element_strides, 0, swizzle, promotion, 0)
                         : driver->tensor_map_tiled(out, type, rank, address, dims, strides, box,
                                                    element_strides, 0, swizzle, promotion, 0);
    return error ? launch_fail(launch, error, "a tensor map was refused") : SINTER_OK;
}

enum { LAUNCH_ATTRIBUTES = 2 };

/* What the launch of a kernel needs besides its grid; how many. */
static int launch_attributes(const Kernel *kernel, CUlaunchAttribute out[LAUNCH_ATTRIBUTES]) {
    const int *c = kernel->cluster;
    int n = 0;
    if (c[0] > 1 || c[1] > 1 || c[2] > 1) {
        out[n] = (CUlaunchAttribute){.id = DRIVER_LAUNCH_CLUSTER};
        out[n].value.clusterDim.x = (unsigned)c[0];
        out[n].value.clusterDim.y = (unsigned)c[1];
        out[n++].value.clusterDim.z = (unsigned)c[2];
    }
    if (kernel->gang > 1) { /* starts once all of its blocks can run, which have a barrier */
        out[n] = (CUlaunchAttribute){.id = DRIVER_LAUNCH_COOPERATIVE};
        out[n++].value.cooperative = 1;
    } else if (kernel->waits) { /* it may start while the kernel before still runs */
        out[n] = (CUlaunchAttribute){.id = DRIVER_LAUNCH_PROGRAMMATIC};
        out[n++].value.programmaticStreamSerializationAllowed = 1;
    }
    return n;
}

static sinter_status launch_kernel(Launch *launch, const PlanKernel *entry) {
    const Kernel *kernel = entry->kernel;
    const Driver *driver = &launch->plan->context->driver;
    int64_t grid[3];
    static const int64_t most[3] = {INT32_MAX, 65535, 65535};
    for (int i = 0; i < 3; i++) {
        grid[i] = 1;
        if (kernel->grid[i] && !launch_eval(launch, kernel->grid[i], &grid[i]))
            grid[i] = -1;
        if (grid[i] < 0 || grid[i] > most[i]) {
            plan_say(launch->e.message, launch->e.message_room,
                     "kernel '%s' would need %lld blocks along axis %d for these dims", kernel->name,
                     (long long)grid[i], i);
            return SINTER_BAD_DIMS;
        }
    }
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0)
        return SINTER_OK; /* nothing to compute */
    CUtensorMap maps[PLAN_MAPS_MOST];
    union {
        CUdeviceptr address;
        int64_t number;
    } scalars[PLAN_PARAMS_MOST];
    void *params[PLAN_PARAMS_MOST];
    int n_maps = 0;
    for (int i = 0; i < entry->n_params; i++) {
        const PlanParam *param = &entry->params[i];
        params[i] = &scalars[i];
        sinter_status status = SINTER_OK;
        switch (param->kind) {
        case PARAM_BUFFER: status = launch_address(launch, param, &scalars[i].address); break;
        case PARAM_DIM:
            if (!launch_eval(launch, param->dim, &scalars[i].number)) {
                plan_say(launch->e.message, launch->e.message_room, "a size overflows for these dims");
                status = SINTER_BAD_DIMS;
            }
            break;
        case PARAM_TENSOR_MAP:
            params[i] = &maps[n_maps];
            status = launch_address(launch, param, &scalars[i].address);
            if (!status)
                status = launch_map(launch, param, scalars[i].address, &maps[n_maps++]);
            break;
        }
        if (status)
            return status;
    }
    CUlaunchAttribute attributes[LAUNCH_ATTRIBUTES];
    int n_attributes = launch_attributes(kernel, attributes);
    CUlaunchConfig config = {
        .gridDimX = (unsigned)grid[0],
        .gridDimY = (unsigned)grid[1],
        .gridDimZ = (unsigned)grid[2],
        .blockDimX = (unsigned)kernel->threads,
        .blockDimY = 1,
        .blockDimZ = 1,
        .sharedMemBytes = (unsigned)kernel->smem_bytes,
        .hStream = launch->e.stream,
        .attrs = attributes,
        .numAttrs = (unsigned)n_attributes,
    };
    CUresult error = driver->launch(&config, entry->function, params, NULL);
    return error ? launch_fail(launch, error, kernel->name) : SINTER_OK;
}

static sinter_status launch_copy(Launch *launch, const PlanCopy *copy) {
    int64_t bytes;
    if (!launch_eval(launch, copy->bytes, &bytes))
        return SINTER_BAD_DIMS;
    if (bytes == 0)
        return SINTER_OK;
    void *from = copy->from.kind == PLACE_INPUT ? launch->e.inputs[copy->from.index]
                                                : launch->e.outputs[copy->from.index];
    CUresult error = launch->plan->context->driver.copy_async(
        (CUdeviceptr)(uintptr_t)launch->e.outputs[copy->output], (CUdeviceptr)(uintptr_t)from, (size_t)bytes,
        launch->e.stream);
    return error ? launch_fail(launch, error, "an output could not be copied") : SINTER_OK;
}

static sinter_status launch_check(Launch *launch) {
    const sinter_plan *plan = launch->plan;
    sinter_execution *e = &launch->e;
    int n_inputs = (int)plan->graph->inputs.n, n_outputs = (int)plan->graph->outputs.n;
    if (e->n_inputs != n_inputs || e->n_outputs != n_outputs || (n_inputs && !e->inputs) || !e->outputs) {
        plan_say(e->message, e->message_room,
                 "the graph has %d inputs and %d outputs, and %d and %d pointers were given", n_inputs,
                 n_outputs, e->n_inputs, e->n_outputs);
        return SINTER_USAGE;
    }
    sinter_status status = plan_bind(plan, e->dims, e->n_dims, &launch->bound, e->message, e->message_room);
    if (status)
        return status;
    int64_t need = 0;
    if (plan->workspace && !launch_eval(launch, plan->workspace, &need))
        return SINTER_BAD_DIMS;
    if (need > 0 && ((size_t)need > e->workspace_bytes || !e->workspace)) {
        plan_say(e->message, e->message_room, "the workspace needs %lld bytes and has %zu", (long long)need,
                 e->workspace_bytes);
        return SINTER_USAGE;
    }
    return SINTER_OK;
}

/* The kernel of this number; -1: all of them, and the outputs that no kernel writes. */
static sinter_status launch_plan(const sinter_plan *whole, int kernel, const sinter_execution *execution) {
    Launch launch;
    context_copy_options(&launch.e, sizeof launch.e, execution);
    const sinter_plan *plan = sinter_plan_select(whole, launch.e.dims, launch.e.n_dims);
    int first = kernel < 0 ? 0 : kernel, last = kernel < 0 ? plan->n_kernels : kernel + 1;
    launch.plan = plan;
    if (plan->stage != SINTER_STAGE_LOAD || plan->diags.errors || !plan->context->has_device) {
        plan_say(launch.e.message, launch.e.message_room, "the plan is not loaded on a device");
        return plan->context->has_device ? SINTER_USAGE : SINTER_NO_DEVICE;
    }
    sinter_status status = launch_check(&launch);
    if (status)
        return status;
    const Driver *driver = &plan->context->driver;
    bool pushed;
    CUresult error = device_enter(driver, &plan->context->device, &pushed);
    if (error)
        return launch_fail(&launch, error, "the device's context");
    for (int i = first; i < last && !status; i++)
        status = launch_kernel(&launch, &plan->kernels[i]);
    for (int i = 0; kernel < 0 && i < plan->n_copies && !status; i++)
        status = launch_copy(&launch, &plan->copies[i]);
    device_leave(driver, pushed);
    if (!status)
        atomic_fetch_add_explicit(&plan->context->launches, (uint64_t)(last - first), memory_order_relaxed);
    return status;
}

sinter_status sinter_plan_execute(const sinter_plan *plan, const sinter_execution *execution) {
    return launch_plan(plan, -1, execution);
}

sinter_status plan_execute_kernel(const sinter_plan *plan, int kernel, const sinter_execution *execution) {
    return launch_plan(plan, kernel, execution);
}
