/* ptxas, NVIDIA's assembler, as a program of an installed toolkit. Without it the driver assembles when the
 * kernel is loaded. */
#ifndef SINTER_RUNTIME_PTXAS_H
#define SINTER_RUNTIME_PTXAS_H

#include "runtime/image.h"

typedef struct Ptxas {
    const char *path; /* NULL: not there */
    char version[64]; /* "13.0.88" */
    uint64_t stamp;   /* of the file: size and time of change, for cache keys */
} Ptxas;

/* Looks below cuda_home/bin, then in the colon-separated search path; either may be NULL. The path lies in
 * `arena`. */
bool ptxas_find(Ptxas *ptxas, Arena *arena, const char *cuda_home, const char *search_path);
/* Asks the program for its version; false where it does not run. */
bool ptxas_ask_version(Ptxas *ptxas, Arena *arena);
/* Assembles image->ptx into image->cubin, with figures and log. False with a diagnostic. */
bool ptxas_assemble(const Ptxas *ptxas, Arena *arena, const char *name, const char *target,
                    const char *temporary, Image *image, Diags *diags);

#endif
