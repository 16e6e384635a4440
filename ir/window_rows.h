/* The rows of a convolution, as the library and the gradients write them: windows reordered to a matrix, or
 * to a batch of matrices for groups of channels. */
#ifndef SINTER_IR_WINDOW_ROWS_H
#define SINTER_IR_WINDOW_ROWS_H

#include "ir/graph.h"

enum { WINDOW_ROWS_AXES = 3 };

typedef struct WindowRows {
    Value *windows;      /* [N, P, Q, G C, R, S] */
    int n;               /* axes of places, and of taps */
    int grouped;         /* 1: the rows are a batch, of groups of channels */
    const Dim *images;   /* N */
    const Dim *groups;   /* G; 1 where they are no batch */
    const Dim *channels; /* C, of a group */
    const Dim *places;   /* N P Q */
    const Dim *taps;     /* R S */
} WindowRows;

/* Whether `rows` are the rows [N P Q, R S C] of windows, or [G, N P Q, R S C] of groups: reshaped, transposed
 * and reshaped again. */
bool window_rows(DimTable *table, const Value *rows, WindowRows *out);
/* The order of their parts, [N P Q, C, R S] or [N P Q, G, C, R S], as the rows have them. */
const int *window_rows_order(int grouped);

#endif
