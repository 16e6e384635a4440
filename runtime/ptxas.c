/* PTX to machine code by a subprocess: one private directory with the input and the output, removed
 * afterwards. */
#include "runtime/ptxas.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/file.h"
#include "runtime/spawn.h"

enum { PTXAS_CUBIN_MOST = 256 << 20 };

bool ptxas_find(Ptxas *ptxas, Arena *arena, const char *cuda_home, const char *search_path) {
    memset(ptxas, 0, sizeof *ptxas);
    if (cuda_home)
        ptxas->path = file_find_program(arena, text_format(arena, "%s/bin", cuda_home), "ptxas");
    if (!ptxas->path)
        ptxas->path = file_find_program(arena, search_path, "ptxas");
    struct stat status;
    if (ptxas->path && stat(ptxas->path, &status) == 0)
        ptxas->stamp =
            (uint64_t)status.st_size ^ (uint64_t)status.st_mtime << 32 ^ (uint64_t)status.st_ino << 16;
    return ptxas->path != NULL;
}

bool ptxas_ask_version(Ptxas *ptxas, Arena *arena) {
    Text said = text_new(arena);
    if (!ptxas->path || spawn_run((const char *const[]){ptxas->path, "--version", NULL}, &said) != 0)
        return false;
    const char *at = said.n ? strstr(said.at, ", V") : NULL;
    if (at)
        snprintf(ptxas->version, sizeof ptxas->version, "%.*s", (int)strcspn(at + 3, " \n"), at + 3);
    return at != NULL;
}

typedef struct PtxasJob {
    const Ptxas *ptxas;
    Arena *arena;
    const char *name, *target, *directory;
    Image *image;
    Diags *diags;
    bool ok;
} PtxasJob;

static void ptxas_body(void *context) {
    PtxasJob *job = context;
    Image *image = job->image;
    const char *in = text_format(job->arena, "%s/kernel.ptx", job->directory);
    const char *out = text_format(job->arena, "%s/kernel.cubin", job->directory);
    if (!file_write(in, image->ptx, image->ptx_bytes)) {
        diag_error(job->diags, DIAG_ENVIRONMENT, (Span){0}, "%s could not be written: %s", in,
                   strerror(errno));
        return;
    }
    Text said = text_new(job->arena);
    const char *const argv[] = {job->ptxas->path, "-v", "-arch", job->target, in, "-o", out, NULL};
    int status = spawn_run(argv, &said);
    if (status < 0) {
        diag_error(job->diags, DIAG_ENVIRONMENT, (Span){0}, "%s could not be started: %s", job->ptxas->path,
                   strerror(errno));
        return;
    }
    if (status != 0) {
        diag_error(job->diags, DIAG_BACKEND, (Span){0}, "ptxas refused kernel '%s': %s", job->name,
                   said.n ? said.at : "");
        return;
    }
    Bytes cubin;
    if (!file_read(job->arena, out, PTXAS_CUBIN_MOST, &cubin)) {
        diag_error(job->diags, DIAG_ENVIRONMENT, (Span){0}, "%s could not be read: %s", out, strerror(errno));
        return;
    }
    image->cubin = cubin.at;
    image->cubin_bytes = cubin.n;
    image->log = said.n ? said.at : "";
    image->figures = image_read_log(image->log);
    image->assembler = IMAGE_PTXAS;
    job->ok = true;
}

bool ptxas_assemble(const Ptxas *ptxas, Arena *arena, const char *name, const char *target,
                    const char *temporary, Image *image, Diags *diags) {
    char directory[1024];
    if (!spawn_directory(temporary ? temporary : "/tmp", directory, sizeof directory)) {
        diag_error(diags, DIAG_ENVIRONMENT, (Span){0}, "no temporary directory below %s: %s",
                   temporary ? temporary : "/tmp", strerror(errno));
        return false;
    }
    PtxasJob job = {ptxas, arena, name, target, directory, image, diags, false};
    bool fits = arena_run(arena, ptxas_body, &job);
    spawn_directory_remove(directory);
    if (!fits)
        arena_give_up(arena);
    return job.ok;
}
