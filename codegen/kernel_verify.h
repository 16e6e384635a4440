/* Between the files of the kernel verifier. The verifier itself: kernel_verify() of kernel.h. */
#ifndef SINTER_CODEGEN_KERNEL_VERIFY_H
#define SINTER_CODEGEN_KERNEL_VERIFY_H

#include "codegen/kernel.h"

/* What is wrong with an atom's row, static parameters and operands, as text on `arena`; NULL: nothing.
 * Whether its variables are in scope is not asked here. */
const char *verify_atom_fault(Arena *arena, const Kernel *kernel, const KStmt *stmt);

#endif
