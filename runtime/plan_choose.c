/* Which of a template's schedules a region gets, once the assembler has seen them.
 *
 * The cost model estimates registers; what a thread really needs, and whether some of it went to memory, only
 * the assembler knows. A kernel that spills is passed over for the next of the template's list, a few times:
 *
 *     choices   tile 128x256, 4 stages    92 bytes spilled      passed over
 *               the same, eased           12 bytes              passed over
 *               the same, eased again      0                    taken; a remark for `sinter explain`
 *
 * Before that, where the caller leaves the backend open, the other one is asked for the first choice: each
 * sometimes has registers where the other has not.
 *
 * What @schedule asks for stays as asked. */
#include <stdio.h>
#include <string.h>

#include "ir/vendor/blake3/blake3.h"
#include "runtime/tuned.h"

enum { CHOOSE_TRIES = 8, CHOOSE_FEW = 256 /* bytes */ };

/* How many times the first choice's time another may be expected to take: where little is spilled, and where
 * much is. */
#define CHOOSE_NEAR 1.5
#define CHOOSE_FAR 2.0

/* What the kernel is apart from names, as a hash in hexadecimal: plans have hundreds of kernels. */
static const char *choose_form(Arena *arena, const Kernel *kernel) {
    uint8_t hash[BLAKE3_OUT_LEN];
    char digits[2 * BLAKE3_OUT_LEN + 1];
    ArenaMark mark = arena_mark(arena);
    Text text = text_new(arena);
    emit_form(&text, kernel);
    blake3_hasher hasher;
    blake3_hasher_init(&hasher);
    blake3_hasher_update(&hasher, text.at, text.n);
    blake3_hasher_finalize(&hasher, hash, sizeof hash);
    arena_release(arena, mark);
    for (int i = 0; i < BLAKE3_OUT_LEN; i++)
        snprintf(digits + 2 * i, 3, "%02x", hash[i]);
    return arena_strdup(arena, digits);
}

bool plan_generate(sinter_plan *plan, PlanKernel *entry) {
    entry->region->schedule = entry->schedule;
    entry->kernel = codegen_kernel(plan->arena, plan->graph, entry->region, plan->target, &plan->diags);
    if (!entry->kernel || !plan_params(plan, entry))
        return false;
    Text cuda = text_new(plan->arena), ir = text_new(plan->arena);
    emit_cuda(&cuda, entry->kernel);
    kernel_print(&ir, entry->kernel);
    entry->cuda = cuda.at;
    entry->form = choose_form(plan->arena, entry->kernel);
    entry->ir = ir.at;
    return true;
}

void plan_take_tuned(sinter_plan *plan, PlanKernel *entry) {
    uint8_t key[CACHE_KEY_BYTES];
    Tuned tuned;
    const char *why;
    if (!plan->context->tuned.directory || plan->target != &plan->context->device_target ||
        entry->region->schedule_hint)
        return;
    tuned_key(plan, entry->region, key);
    bool found = tuned_get(plan->context, plan->arena, key, &tuned, &why);
    if (found && codegen_accepts(plan->graph, entry->region, plan->target, &tuned.schedule, &why)) {
        entry->schedule = tuned.schedule;
        entry->remark =
            text_format(plan->arena, "tuned: %.2f us measured on %s, where the cost model's choice took %.2f",
                        tuned.us, plan->context->device.name, tuned.model_us);
    } else if (why) {
        diag_warning(&plan->diags, DIAG_SCHEDULE, (Span){0},
                     "what was tuned for kernel '%s' is of no use, and the cost model decides: %s",
                     entry->region->name, why);
    }
}

/* Bytes of a thread that are not in registers, and worse; 0 is good. */
static int choose_spill(const PlanKernel *entry) {
    const ImageFigures *f = &entry->machine.image.figures;
    return f->spill_store_bytes + f->spill_load_bytes + f->stack_bytes + (f->serialized ? 1 << 20 : 0);
}

/* The same in words. */
static const char *choose_fault(sinter_plan *plan, const PlanKernel *entry) {
    if (entry->machine.image.figures.serialized)
        return "has its wgmma serialized";
    int spill = choose_spill(entry);
    return spill ? text_format(plan->arena, "spills %d bytes a thread", spill) : "spills nothing";
}

/* One more of the choices. Its failure is nobody's: the kernel at hand works. */
static bool choose_try(sinter_plan *plan, const PlanKernel *first, const Schedule *schedule,
                       const MachineOptions *options, PlanKernel *out) {
    size_t said = plan->diags.list.n;
    int errors = plan->diags.errors;
    *out = *first;
    out->schedule = *schedule;
    out->passed_over = NULL;
    if (plan_generate(plan, out) && plan_build_machine(plan, out, options))
        return true;
    plan->diags.list.n = said;
    plan->diags.errors = errors;
    return false;
}

/* The same kernel by the other backend, where that is left open and spills nothing. Its failure, or its
 * absence, is nobody's either. */
static void choose_backend(sinter_plan *plan, PlanKernel *entry, const MachineOptions *options) {
    bool is_packed = plan->context->pack && entry->machine.from_cache; /* the better one is what was packed */
    if (options->backend != SINTER_BACKEND_AUTO || is_packed)
        return;
    size_t said = plan->diags.list.n;
    int errors = plan->diags.errors;
    ImageBackend backend = entry->machine.image.backend;
    PlanKernel other = *entry;
    MachineOptions asked = *options;
    asked.backend = backend == IMAGE_NVRTC ? SINTER_BACKEND_LLVM : SINTER_BACKEND_NVRTC;
    bool is_built = plan_build_machine(plan, &other, &asked) && other.machine.image.cubin;
    plan->diags.list.n = said;
    plan->diags.errors = errors;
    if (!is_built || choose_spill(&other))
        return;
    const char *fault = choose_fault(plan, entry);
    *entry = other;
    entry->remark =
        text_format(plan->arena, "compiled by %s, which spills nothing, where by %s it %s",
                    image_backend_name(entry->machine.image.backend), image_backend_name(backend), fault);
}

/* Whether the model expects a choice to take at most so many times the first one's time. One thread an
 * element, which it gives no time, is no answer to a few words in memory. */
static bool choose_is_near(const Schedule *first, const Schedule *choice, double times) {
    return first->seconds > 0 ? choice->seconds > 0 && choice->seconds <= times * first->seconds : true;
}

/* Whether a thread has the same accumulators in both, so that one spills about what the other does: of a
 * product its tile, of products that take columns in parts those of a part too. */
static bool choose_is_alike(TemplateKind kind, const Schedule *a, const Schedule *b) {
    bool has_parts = kind == TEMPLATE_CHAIN || kind == TEMPLATE_RELAY;
    return (!has_parts || a->tile_k == b->tile_k) && a->path != MATMUL_NONE && a->path == b->path &&
           a->tile_m == b->tile_m && a->tile_n == b->tile_n && a->warps_m == b->warps_m &&
           a->warps_n == b->warps_n && a->ease == b->ease;
}

/* Whether a choice is like one that was tried and spilled much. */
static bool choose_is_hopeless(const PlanKernel *tried, const Schedule *choice) {
    for (; tried; tried = tried->passed_over)
        if (choose_spill(tried) > CHOOSE_FEW &&
            choose_is_alike(tried->region->kind, &tried->schedule, choice))
            return true;
    return false;
}

static const char *choose_remark(sinter_plan *plan, const PlanKernel *taken, const PlanKernel *first,
                                 int tried) {
    Text text = text_new(plan->arena);
    text_add(&text, "the first choice (");
    schedule_print(&text, &first->schedule);
    text_add(&text, ") %s; of %d schedules tried after it this one %s%s", choose_fault(plan, first), tried,
             choose_fault(plan, taken), choose_spill(taken) ? ", the least" : "");
    return text.at;
}

bool plan_choose(sinter_plan *plan, PlanKernel *entry, const MachineOptions *options) {
    if (!plan_build_machine(plan, entry, options))
        return false;
    if (!choose_spill(entry) || entry->region->schedule_hint)
        return true;
    choose_backend(plan, entry, options);
    if (!choose_spill(entry))
        return true;
    PlanKernel *first = ARENA_NEW(plan->arena, PlanKernel), *best = first;
    *first = *entry;
    PlanKernel *latest = first;
    int tried = 0;
    double near = choose_spill(first) > CHOOSE_FEW ? CHOOSE_FAR : CHOOSE_NEAR;
    for (int i = 0; i < entry->n_choices && tried < CHOOSE_TRIES && choose_spill(best); i++) {
        const Schedule *choice = &entry->choices[i];
        if (schedule_equals(choice, &first->schedule) || !choose_is_near(&first->schedule, choice, near) ||
            choose_is_hopeless(first, choice))
            continue;
        PlanKernel *next = ARENA_NEW(plan->arena, PlanKernel);
        tried++;
        if (!choose_try(plan, first, choice, options, next))
            continue;
        latest->passed_over = next; /* for packs: who opens one goes the same way */
        latest = next;
        /* a few words less in memory are worth nothing slower; many, or all of them, are */
        if (choose_spill(next) < choose_spill(best) &&
            (!choose_spill(next) ||
             choose_is_near(&first->schedule, choice, choose_spill(first) > CHOOSE_FEW ? near : 1.02)))
            best = next;
    }
    *entry = *best;
    entry->passed_over = first;
    entry->region->schedule = entry->schedule;
    entry->remark = best != first
                        ? choose_remark(plan, best, first, tried)
                        : text_format(plan->arena, "it %s; none of %d schedules tried after it is better",
                                      choose_fault(plan, first), tried);
    return true;
}
