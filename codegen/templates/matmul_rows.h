/* Shared by the files of row statistics of a product; nobody else includes it.
 *
 *     matmul_rows.c        all statistics of an epilogue, one after the other; of gangs, one exchange each
 *     matmul_rows_gang.c   two that a gang exchanges at once
 *     matmul_rows_pass.c   passes over the registers, and what these hold */
#ifndef SINTER_CODEGEN_MATMUL_ROWS_H
#define SINTER_CODEGEN_MATMUL_ROWS_H

#include "codegen/templates/matmul_epilogue.h"

/* The accumulators hold what statistic i and all later ones are best computed from; `only`: that or nothing.
 */
void rows_hold_next(Epilogue *e, size_t i, MatmulInputs *inputs, const Value *only);
/* Statistic i over the thread's columns and the lanes that share its rows, of what is held by then: the best
 * there is for it and all later ones; `only`: that or nothing else than what is. */
PartialVars rows_statistic(Epilogue *e, size_t i, MatmulInputs *inputs, const Value *only);
/* The same reduction of another value than the statistic's, of what is held. */
PartialVars rows_statistic_of(Epilogue *e, size_t i, const Value *of);
/* Later passes find the statistic in an array with an element for each row. */
void rows_bind(Epilogue *e, const Value *statistic, const KVar *array);
/* What the accumulators hold is about to be something else. */
void rows_unbind(Epilogue *e);
/* Takes statistics i and i + 1 where they are those of a softmax or of a layer norm; false: they are not, and
 * nothing has been done. */
bool rows_take_pair(Epilogue *e, size_t i, MatmulInputs *inputs);

#endif
