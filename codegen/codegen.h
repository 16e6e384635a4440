/* From a region to a kernel: schedule, kernel IR, source. What runtime/ calls. */
#ifndef SINTER_CODEGEN_CODEGEN_H
#define SINTER_CODEGEN_CODEGEN_H

#include "codegen/kernel.h"
#include "codegen/template.h"

/* Sets region->schedule: the template's first choice, with @schedule's fields over it. False, with DIAG_SCHEDULE, where the hint
 * asks for what the template refuses. */
bool codegen_schedule(const Graph *graph, Region *region, const Target *target, const DimBindings *hint, Diags *diags);
/* Whether the region's template has a schedule of its own for it, without @schedule's fields; where it has not, *why tells, and the
 * region compiles into a loop an element. What fusion asks before it settles on a region that is not sure to be taken. */
bool codegen_takes(const Graph *graph, const Region *region, const Target *target, const char **why);
/* NULL, with diagnostics, on a defect. The kernel lies in `arena`. */
Kernel *codegen_kernel(Arena *arena, const Graph *graph, const Region *region, const Target *target, Diags *diags);

/* CUDA C++ that needs no header. */
void emit_cuda(Text *out, const Kernel *kernel);

/* The LLVM backend, in a plugin of its own (emit_llvm.c) so that Sinter runs without it: `libsinter_llvm.so` exports
 * sinter_llvm_emit with this type and sinter_llvm_abi, which must equal SINTER_LLVM_ABI. */
enum { SINTER_LLVM_ABI = 2 };
typedef enum LlvmOutput { LLVM_OUTPUT_PTX, LLVM_OUTPUT_IR } LlvmOutput;
typedef bool LlvmEmit(Text *out, const Kernel *kernel, LlvmOutput what, Diags *diags);

#endif
