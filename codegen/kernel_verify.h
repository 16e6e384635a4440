/* Between the files of the kernel verifier. The verifier itself: kernel_verify() of kernel.h. */
#ifndef SINTER_CODEGEN_KERNEL_VERIFY_H
#define SINTER_CODEGEN_KERNEL_VERIFY_H

#include "codegen/kernel.h"

/* What is known of a value once loops are unrolled. */
typedef struct StaticRange {
    bool is_static;
    bool is_bounded;
    int64_t low, high;
} StaticRange;

typedef struct VerifyVar {
    bool is_declared, in_scope;
    StaticRange value; /* lets and loop variables */
} VerifyVar;

typedef struct Verify {
    const Kernel *kernel;
    Diags *diags;
    Arena *arena;
    VerifyVar *vars;
    const KStmt *stmt; /* that is checked at the moment; NULL: the head */
    int nodes, depth;  /* of the statement's expressions, and of the one that is looked at */
    bool valid;
} Verify;

void verify_fail(Verify *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Whether a buffer is the kernel's; a report where not. */
bool verify_buffer(Verify *v, const KBuffer *buffer);
void verify_head(Verify *v);
/* What is wrong with an atom's row, static parameters and operands, as text on `arena`; NULL: nothing.
 * Whether its variables are in scope is not asked here. */
const char *verify_atom_fault(Arena *arena, const Kernel *kernel, const KStmt *stmt);

#endif
