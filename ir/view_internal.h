/* What view.c and view_factors.c share. */
#ifndef SINTER_IR_VIEW_INTERNAL_H
#define SINTER_IR_VIEW_INTERNAL_H

#include "ir/view.h"

/* The view of `chosen`, a gather, itself. */
ViewGather view_chosen(const Graph *graph, const Value *chosen,
                       bool (*is_base)(void *context, const Value *v), void *context);

#endif
