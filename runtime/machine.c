/* The way from a kernel to an image.
 *
 * Which backend, where the caller leaves it open: both give tensor-core loops of the same shape, but NVRTC's
 * were 4 % faster on an H200 and it writes machine code itself; LLVM is many times quicker to compile and
 * needs no NVIDIA compiler. So matrix products whose schedule uses tensor cores go to NVRTC, the rest to
 * LLVM, and each stands in for the other. */
#include "runtime/machine.h"

#include <string.h>

#include "ir/vendor/blake3/blake3.h"
#include "runtime/pack.h"

/* Counts up when an image means something else for the same inputs. */
static const char MACHINE_VERSION[] = "sinter " SINTER_VERSION " image 3";

typedef struct MachineJob {
    sinter_context *context;
    Arena *arena;
    const Kernel *kernel;
    const char *cuda, *form;
    const MachineOptions *options;
    MachineResult *out;
    Diags *diags;
} MachineJob;

static bool machine_has(const MachineJob *job, ImageBackend backend, const char **why) {
    if (backend == IMAGE_NVRTC) {
        const Nvrtc *nvrtc = context_nvrtc(job->context);
        *why = nvrtc->why;
        return nvrtc->library != NULL;
    }
    if (!job->kernel->target->llvm_cpu) {
        *why = text_format(job->arena, "LLVM 19 does not know target %s", job->kernel->target->name);
        return false;
    }
    const LlvmBackend *llvm = context_llvm(job->context);
    *why = llvm->why;
    return llvm->library != NULL;
}

/* The backends to try, best first; how many. */
static int machine_order(const MachineJob *job, ImageBackend order[IMAGE_BACKENDS]) {
    switch (job->options->backend) {
    case SINTER_BACKEND_LLVM: order[0] = IMAGE_LLVM; return 1;
    case SINTER_BACKEND_NVRTC: order[0] = IMAGE_NVRTC; return 1;
    case SINTER_BACKEND_AUTO: break;
    }
    MatmulPath path = job->kernel->region->schedule.path;
    bool tensor = path == MATMUL_MMA_SYNC || path == MATMUL_WGMMA;
    order[0] = tensor ? IMAGE_NVRTC : IMAGE_LLVM;
    order[1] = tensor ? IMAGE_LLVM : IMAGE_NVRTC;
    return 2;
}

static void machine_hash_text(blake3_hasher *hasher, const char *text) {
    uint64_t n = text ? strlen(text) : 0;
    blake3_hasher_update(hasher, &n, sizeof n);
    blake3_hasher_update(hasher, text ? text : "", (size_t)n);
}

/* Everything that the image depends on: what the kernel is, the target, and who compiles and assembles. */
static void machine_key(const MachineJob *job, ImageBackend backend, uint8_t key[CACHE_KEY_BYTES]) {
    blake3_hasher hasher;
    blake3_hasher_init(&hasher);
    machine_hash_text(&hasher, MACHINE_VERSION);
    machine_hash_text(&hasher, job->kernel->target->name);
    machine_hash_text(&hasher, image_backend_name(backend));
    machine_hash_text(&hasher, job->form);
    uint64_t numbers[4] = {job->options->binary};
    if (backend == IMAGE_NVRTC) {
        const Nvrtc *nvrtc = context_nvrtc(job->context);
        numbers[1] = (uint64_t)nvrtc->major;
        numbers[2] = (uint64_t)nvrtc->minor;
    } else {
        numbers[1] = context_llvm(job->context)->stamp;
        numbers[2] = job->options->binary ? context_ptxas(job->context)->stamp : 0;
    }
    blake3_hasher_update(&hasher, numbers, sizeof numbers);
    blake3_hasher_finalize(&hasher, key, CACHE_KEY_BYTES);
}

static bool machine_from_cache(const MachineJob *job, const uint8_t key[CACHE_KEY_BYTES]) {
    Bytes bytes;
    if (!cache_get(&job->context->cache, job->arena, key, &bytes) ||
        !image_decode(job->arena, bytes.at, bytes.n, &job->out->image))
        return false;
    job->out->from_cache = true;
    return true;
}

/* An image that was packed for exactly this kernel, by a backend that the caller allows, in the form that it
 * wants. */
static bool machine_from_pack(const MachineJob *job) {
    uint8_t key[CACHE_KEY_BYTES];
    Image *image = &job->out->image;
    if (!job->context->pack)
        return false;
    pack_key(job->kernel->target->name, job->form, key);
    const PackImage *found = pack_find(job->context->pack, key);
    if (!found || !image_decode(job->arena, found->image.at, found->image.n, image))
        return false;
    sinter_backend made_by = image->backend == IMAGE_LLVM ? SINTER_BACKEND_LLVM : SINTER_BACKEND_NVRTC;
    bool wanted = job->options->backend == SINTER_BACKEND_AUTO || job->options->backend == made_by;
    bool formed = job->options->binary ? image->cubin || !job->options->need_binary : image->ptx != NULL;
    job->out->from_cache = wanted && formed;
    return job->out->from_cache;
}

static bool machine_compile(const MachineJob *job, ImageBackend backend) {
    Image *image = &job->out->image;
    const Kernel *kernel = job->kernel;
    double begin = context_now_ms();
    bool ok = backend == IMAGE_NVRTC
                  ? nvrtc_compile(context_nvrtc(job->context), job->arena, kernel->name, job->cuda,
                                  kernel->target->name, job->options->binary, image, job->diags)
                  : llvm_backend_compile(context_llvm(job->context), job->arena, kernel, image, job->diags);
    job->out->backend_ms += context_now_ms() - begin;
    image->entry = kernel->name;
    if (!ok || !job->options->binary || image->cubin)
        return ok;
    const Ptxas *ptxas = context_ptxas(job->context);
    if (!ptxas->path && !job->options->need_binary) {
        image->assembler = job->context->has_device ? IMAGE_BY_DRIVER : IMAGE_NOT_ASSEMBLED;
        return true;
    }
    if (!ptxas->path) {
        diag_error(job->diags, DIAG_ENVIRONMENT, (Span){0},
                   "ptxas is missing, so kernel '%s' stays PTX: put the CUDA toolkit's bin directory on "
                   "PATH, or set CUDA_HOME",
                   kernel->name);
        return false;
    }
    begin = context_now_ms();
    ok = ptxas_assemble(ptxas, job->arena, kernel->name, kernel->target->name, job->context->temporary, image,
                        job->diags);
    job->out->ptxas_ms += context_now_ms() - begin;
    return ok;
}

static bool machine_try(const MachineJob *job, ImageBackend backend) {
    uint8_t key[CACHE_KEY_BYTES];
    bool cached = job->context->cache.directory && !job->options->no_cache;
    if (cached) {
        machine_key(job, backend, key);
        if (machine_from_cache(job, key)) {
            atomic_fetch_add(&job->context->cache_hits, 1);
            return true;
        }
        atomic_fetch_add(&job->context->cache_misses, 1);
    }
    if (!machine_compile(job, backend))
        return false;
    if (cached) {
        Text bytes = text_new(job->arena);
        image_encode(&bytes, &job->out->image);
        cache_put(&job->context->cache, job->arena, key, bytes.at, bytes.n);
    }
    return true;
}

/* Errors from `errors` and `n` on become one warning: another backend is asked now. */
static void machine_forgive(Diags *diags, size_t n, int errors, const char *backend, const char *kernel) {
    const char *first = "no reason given";
    for (size_t i = diags->list.n; i-- > n;)
        if (diags->list.at[i].severity == SEVERITY_ERROR)
            first = diags->list.at[i].message;
    diags->list.n = n;
    diags->errors = errors;
    diag_warning(diags, DIAG_BACKEND, (Span){0},
                 "the %s backend failed on kernel '%s', the other one is used: %s", backend, kernel, first);
}

bool machine_build(sinter_context *context, Arena *arena, const Kernel *kernel, const char *cuda,
                   const char *form, const MachineOptions *options, MachineResult *out, Diags *diags) {
    memset(out, 0, sizeof *out);
    MachineJob job = {context, arena, kernel, cuda, form, options, out, diags};
    if (machine_from_pack(&job))
        return true;
    ImageBackend order[IMAGE_BACKENDS];
    int n = machine_order(&job, order);
    const char *why[IMAGE_BACKENDS] = {0};
    for (int i = 0; i < n; i++) {
        if (!machine_has(&job, order[i], &why[i]))
            continue;
        size_t before = diags->list.n;
        int errors = diags->errors;
        if (machine_try(&job, order[i]))
            return true;
        const char *other;
        if (i + 1 == n || !machine_has(&job, order[i + 1], &other))
            return false;
        machine_forgive(diags, before, errors, image_backend_name(order[i]), kernel->name);
        memset(&out->image, 0, sizeof out->image);
    }
    if (n == 1)
        diag_error(diags, DIAG_ENVIRONMENT, (Span){0}, "%s", why[0]);
    else
        diag_error(diags, DIAG_ENVIRONMENT, (Span){0}, "no backend is here: %s; %s", why[0], why[1]);
    return false;
}
