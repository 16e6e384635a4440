/* From a region to a kernel: schedule, kernel IR, source. What runtime/ calls. */
#ifndef SINTER_CODEGEN_CODEGEN_H
#define SINTER_CODEGEN_CODEGEN_H

#include "codegen/kernel.h"
#include "codegen/schedule.h"
#include "codegen/template.h"

enum { CODEGEN_SCHEDULES = 16 }; /* as many as one asks for who takes the first that does */
/* Sets region->schedule: `choice`, or where there is @schedule the template's quickest that has its fields;
 * if none has, the quickest that may have them. False as codegen_schedule(). */
bool codegen_settle(const Graph *graph, Region *region, const Target *target, const DimBindings *hint,
                    const Schedule *choice, Diags *diags);
/* The same with the template's first choice. False, with DIAG_SCHEDULE, where the hint asks for what the
 * template refuses. */
bool codegen_schedule(const Graph *graph, Region *region, const Target *target, const DimBindings *hint,
                      Diags *diags);
/* Whether the region's template has a schedule of its own for it, without @schedule's fields; where it has
 * not, *why tells, and the region compiles into a loop an element. What fusion asks before it settles on a
 * region that is not sure to be taken. */
bool codegen_takes(const Graph *graph, const Region *region, const Target *target, const DimBindings *hint,
                   const char **why);
/* Seconds that the cost model expects of the template's first choice, or of a kernel without a product behind
 * others; 0 where it has no estimate. */
double codegen_seconds(const Graph *graph, const Region *region, const Target *target,
                       const DimBindings *hint);
/* The same of a schedule that the template accepts. */
double codegen_schedule_seconds(const Graph *graph, const Region *region, const Target *target,
                                const DimBindings *hint, const Schedule *schedule);
/* The template's schedules for a region, best first by the cost model: how many, at least 1 and at most
 * `room`. */
int codegen_schedules(const Graph *graph, const Region *region, const Target *target, const DimBindings *hint,
                      Schedule *out, int room);
/* Whether the region's template can carry out a schedule; *why a person's words where not. */
bool codegen_accepts(const Graph *graph, const Region *region, const Target *target, const Schedule *schedule,
                     const char **why);
/* NULL, with diagnostics, on a defect. The kernel lies in `arena`. */
Kernel *codegen_kernel(Arena *arena, const Graph *graph, const Region *region, const Target *target,
                       Diags *diags);

/* CUDA C++ that needs no header. */
void emit_cuda(Text *out, const Kernel *kernel);
/* What a kernel is apart from names: the same without comments, names replaced by numbers, headed by what the
 * other backend relies on besides. Kernels of one form are the same machine code but for their functions'
 * names: the same layer of a model, each time it comes. */
void emit_form(Text *out, const Kernel *kernel);

/* The LLVM backend, in a plugin of its own (emit_llvm.c) so that Sinter runs without it: `libsinter_llvm.so`
 * exports sinter_llvm_emit with this type and sinter_llvm_abi, which must equal SINTER_LLVM_ABI: a number
 * that the Makefile makes of all headers and tables that both are compiled with (llvm_abi.h), since a plugin
 * that counts operations or instructions otherwise would emit others. */
typedef enum LlvmOutput { LLVM_OUTPUT_PTX, LLVM_OUTPUT_IR } LlvmOutput;
typedef bool LlvmEmit(Text *out, const Kernel *kernel, LlvmOutput what, Diags *diags);

#endif
