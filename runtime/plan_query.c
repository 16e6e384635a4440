/* Asking a plan: dims, sizes, kernels, times. */
#include <stdio.h>
#include <string.h>

#include "ir/base/checked.h"
#include "runtime/plan.h"

const sinter_diagnostic *sinter_plan_diagnostic(const sinter_plan *plan, int i) {
    return plan && i >= 0 && i < plan->report.n ? &plan->report.at[i] : NULL;
}

int sinter_plan_dim_count(const sinter_plan *plan) {
    return plan->n_free_dims;
}

const char *sinter_plan_dim_name(const sinter_plan *plan, int i) {
    return i >= 0 && i < plan->n_free_dims ? dim_symbol_name(plan->graph->dims, plan->free_dims[i]) : NULL;
}

sinter_status plan_bind(const sinter_plan *plan, const int64_t *dims, int n_dims, PlanBindings *out,
                        char *message, size_t room) {
    const DimTable *table = plan->graph->dims;
    int n = plan->n_free_dims;
    if (n_dims != n || (n && !dims)) {
        plan_say(message, room, "the plan has %d symbolic dims, and %d values were given", n, n_dims);
        return SINTER_USAGE;
    }
    out->bindings = (DimBindings){dim_symbol_count(table), out->value, out->known};
    memset(out->known, 0, sizeof out->known);
    for (int i = 0; i < n; i++) {
        if (dims[i] < 0) {
            plan_say(message, room, "dim '%s' is %lld; a dim is at least 0", sinter_plan_dim_name(plan, i),
                     (long long)dims[i]);
            return SINTER_BAD_DIMS;
        }
        out->value[plan->free_dims[i]] = dims[i];
        out->known[plan->free_dims[i]] = true;
    }
    for (int i = 0; i < dim_constraint_count(table); i++) {
        if (!dim_constraint_holds(dim_constraint_at(table, i), &out->bindings)) {
            plan_say(message, room, "constraint %d of the graph's 'where' does not hold for these dims",
                     i + 1);
            return SINTER_BAD_DIMS;
        }
    }
    return SINTER_OK;
}

int sinter_plan_variant_count(const sinter_plan *plan) {
    return plan->n_variants;
}

const sinter_plan *sinter_plan_variant(const sinter_plan *plan, int i) {
    return i >= 0 && i < plan->n_variants ? plan->variants[i] : NULL;
}

/* The variant that a plan's sizes name; -1: none. */
static int plan_sized(const sinter_plan *plan, const DimBindings *bindings) {
    int64_t size;
    if (!plan->sized || !dim_eval(plan->sized, bindings, &size))
        return -1;
    for (int i = 0; i < plan->n_sizes; i++)
        if (size <= plan->sizes[i].upper)
            return plan->sizes[i].variant;
    return -1;
}

const sinter_plan *sinter_plan_select(const sinter_plan *plan, const int64_t *dims, int n_dims) {
    PlanBindings bound, own;
    if (!plan->n_variants || plan_bind(plan, dims, n_dims, &bound, NULL, 0))
        return plan;
    int sized = plan_sized(plan, &bound.bindings);
    if (sized >= 0 && !plan_bind(plan->variants[sized], dims, n_dims, &own, NULL, 0))
        return plan->variants[sized];
    if (plan->plain >= 0 && !plan_bind(plan->variants[plan->plain], dims, n_dims, &own, NULL, 0))
        return plan->variants[plan->plain];
    return plan;
}

const char *sinter_plan_guard(const sinter_plan *plan) {
    return plan->scope ? plan->scope->text : "";
}

bool plan_extent(const Value *value, const Dim *const *strides, const DimBindings *bindings,
                 int64_t *elements) {
    int64_t extent = 1, packed = 1;
    bool empty = false;
    for (int i = value->rank; i-- > 0;) {
        int64_t dim, stride = packed, reach;
        if (!dim_eval(value->dims[i], bindings, &dim) || dim < 0 ||
            (strides && !dim_eval(strides[i], bindings, &stride)))
            return false;
        if (dim == 0) {
            empty = true;
            continue;
        }
        if (!checked_mul(dim - 1, stride, &reach) || !checked_add(extent, reach, &extent) ||
            !checked_mul(packed, dim, &packed))
            return false;
    }
    *elements = empty ? 0 : extent;
    return true;
}

sinter_status sinter_plan_workspace(const sinter_plan *plan, const int64_t *dims, int n_dims, size_t *bytes) {
    *bytes = 0;
    plan = sinter_plan_select(plan, dims, n_dims);
    if (!plan->partition)
        return SINTER_USAGE;
    PlanBindings bound;
    sinter_status status = plan_bind(plan, dims, n_dims, &bound, NULL, 0);
    int64_t need = 0;
    if (status)
        return status;
    if (plan->workspace && (!dim_eval(plan->workspace, &bound.bindings, &need) || need < 0))
        return SINTER_BAD_DIMS;
    *bytes = (size_t)need;
    return SINTER_OK;
}

const char *plan_template_name(TemplateKind kind) {
    switch (kind) {
    case TEMPLATE_POINTWISE: return "pointwise";
    case TEMPLATE_ROWS: return "rows";
    case TEMPLATE_COLUMNS: return "columns";
    case TEMPLATE_TRANSPOSE: return "transpose";
    case TEMPLATE_MATMUL: return "matmul";
    case TEMPLATE_CHAIN: return "chain";
    case TEMPLATE_RELAY: return "relay";
    case TEMPLATE_COUNT: break;
    }
    return "?";
}

int sinter_plan_kernel_count(const sinter_plan *plan) {
    return plan->n_kernels;
}

sinter_status sinter_plan_kernel(const sinter_plan *plan, int i, sinter_kernel *out) {
    if (i < 0 || i >= plan->n_kernels)
        return SINTER_USAGE;
    const PlanKernel *entry = &plan->kernels[i];
    const Image *image = entry->has_image ? &entry->machine.image : NULL;
    sinter_kernel kernel = {
        .size = out->size,
        .name = entry->kernel->name,
        .kind = plan_template_name(entry->region->kind),
        .backend = image ? image_backend_name(image->backend) : NULL,
        .cuda = entry->cuda,
        .ir = entry->ir,
        .ptx = image ? image->ptx : NULL,
        .cubin = image ? image->cubin : NULL,
        .cubin_bytes = image ? image->cubin_bytes : 0,
        .assembler = image ? image_assembler_name(image->assembler) : NULL,
        .threads = entry->kernel->threads,
        .registers = image ? image->figures.registers : 0,
        .stack_bytes = image ? image->figures.stack_bytes : 0,
        .spill_store_bytes = image ? image->figures.spill_store_bytes : 0,
        .spill_load_bytes = image ? image->figures.spill_load_bytes : 0,
        .shared_bytes = entry->kernel->smem_bytes + (image ? image->figures.static_shared_bytes : 0),
        .from_cache = entry->machine.from_cache,
        .entry = image ? image->entry : NULL,
    };
    memcpy(out, &kernel, out->size < sizeof kernel ? out->size : sizeof kernel);
    return SINTER_OK;
}

const char *sinter_plan_explain(const sinter_plan *plan) {
    return plan->explain;
}

void sinter_plan_times(const sinter_plan *plan, sinter_times *out) {
    sinter_times times = plan->times;
    times.size = out->size;
    memcpy(out, &times, out->size < sizeof times ? out->size : sizeof times);
}
