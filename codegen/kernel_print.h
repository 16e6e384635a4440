/* Pieces of kernel IR as text, for messages that point at them. The whole kernel: kernel_print() of kernel.h.
 */
#ifndef SINTER_CODEGEN_KERNEL_PRINT_H
#define SINTER_CODEGEN_KERNEL_PRINT_H

#include "codegen/kernel.h"

void kernel_print_expr(Text *out, const Kernel *kernel, const KExpr *expr);
/* One line without its newline; of loops and conditions the head alone. */
void kernel_print_stmt(Text *out, const Kernel *kernel, const KStmt *stmt);

#endif
