/* What both printers ask of a kernel before they print it. */
#ifndef SINTER_CODEGEN_EMIT_FACTS_H
#define SINTER_CODEGEN_EMIT_FACTS_H

#include "codegen/kernel.h"

/* Integers are of two kinds. Coordinates and indices never overflow and are never divided by zero: their
 * arithmetic is printed plainly, and backends may use that to simplify addresses. Data (what comes from
 * memory, from other lanes, from floats or from truths, and each quotient that the graph asks for) wraps and
 * gives 0 where divided by zero, as the graph's semantics say. */
typedef struct EmitFacts {
    bool *is_data; /* by KVar.id; false for floats */
} EmitFacts;

EmitFacts emit_facts(Arena *arena, const Kernel *kernel);
/* Whether the integer arithmetic of a whole tree must be that of data. */
bool emit_is_data(const EmitFacts *facts, const KExpr *expr);

/* One nonnegative integer, as a printer needs to know it: a division by a constant other than 0 and -1 has no
 * special case. */
static inline bool emit_is_safe_divisor(const KExpr *expr) {
    return expr->kind == KX_INT && expr->i != 0 && expr->i != -1;
}

#endif
