/* What windows.c and windows_back.c share: windows over the axes between the first and the last. */
#ifndef SINTER_FRONTEND_WINDOWS_H
#define SINTER_FRONTEND_WINDOWS_H

#include "frontend/expand.h"

enum { WINDOWS_AXES = 3 };

/* What is asked for along one axis. */
typedef struct WindowsAxis {
    const Dim *size, *low, *high;
    int64_t stride, dilation;
} WindowsAxis;

/* How many axes windows of arguments[0] run over, and what arguments 1 to 4 (size, stride, pad, dilation) ask
 * for along them; 0 after an error. */
int windows_axes(Expand *expand, const Expr *syntax, const Meaning *arguments, WindowsAxis *axes);
/* Of a list with one item an axis, that of axis i; anything else is meant for all. */
Meaning windows_item(Expand *expand, const Expr *syntax, const Meaning *arguments, int argument, int i,
                     int n);
/* x with this number, in its type, around it as a pad's attributes say. */
Meaning windows_padded(Expand *expand, Value *x, Meaning border, const Attr *attrs, Span span);
/* Such windows of x, with this number around it. */
Meaning windows_taken(Expand *expand, Value *x, Meaning border, const WindowsAxis *axes, int n, Span span);

#endif
