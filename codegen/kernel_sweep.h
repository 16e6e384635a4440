/* Leaves out of a finished kernel what nothing reads. */
#ifndef SINTER_CODEGEN_KERNEL_SWEEP_H
#define SINTER_CODEGEN_KERNEL_SWEEP_H

#include "codegen/kernel.h"

/* Drops lets that no statement reads, and unrolled loops that are empty then: templates name what a run may
 * need before they know what it will, and indices pass lets by (kernel_index.h). Compilers drop them too;
 * readers of the source would have to. */
void kernel_sweep(Kernel *kernel);

#endif
