/* Inputs and outputs whose axes memory has in another order than the graph's text. */
#ifndef SINTER_IR_MEMORY_ORDER_H
#define SINTER_IR_MEMORY_ORDER_H

#include "ir/graph.h"

/* Gives each such input and output the order of its memory, packed where it is, and a transpose to what it
 * was:
 *
 *     x: bf16[B, C, H, W : strides=[C*H*W, 1, W*C, C]]   ->   x: bf16[B, H, W, C];  transpose(x, [0, 3, 1,
 * 2])
 *
 * so that passes see who reads neighbours. Strides that are no constants, and are not those of packed axes in
 * any order, stay. The memory that kernels are given is the same; a graph that the outside asks for dims is
 * another one, not yet changed. True where anything was changed; false, too, with a diagnostic, where a
 * transpose could not be made. */
bool graph_take_memory_order(Graph *graph, Diags *diags);

#endif
