/* The canonical text of a graph, which the front end parses back to an equal graph, and its BLAKE3 hash.
 *
 * Canonical: one statement a Value in topological order; primitives by the names of ops.def; dims as
 * dim_print() writes them; names kept where the source gave one, else v0, v1, ... The hash leaves out names
 * of intermediates, spans, hints that do not change kernels, and checks. */
#ifndef SINTER_IR_PRINT_H
#define SINTER_IR_PRINT_H

#include "ir/graph.h"

enum { GRAPH_HASH_BYTES = 32 };

void graph_print(Text *out, const Graph *graph);
/* One line, as graph_print() writes it, without indentation, hints and newline (an input: `x: bf16[M, K]`):
 * for comments in generated code and for explain. */
void value_print(Text *out, const Graph *graph, const Value *value);
/* The name alone, as it stands in that line. */
void value_print_name(Text *out, const Graph *graph, const Value *value);
/* The names that these functions give to values, by Value.id (after graph_renumber). */
const char *const *graph_value_names(Arena *arena, const Graph *graph);
/* The type as the language writes it: `bf16[M, 4096]`, `f32` for a scalar. */
void value_print_type(Text *out, const Graph *graph, const Value *value);
/* What the hash is taken of: the canonical text with every intermediate numbered, and without what the hash
 * leaves out. */
void graph_print_for_hash(Text *out, const Graph *graph);
void graph_hash(const Graph *graph, uint8_t hash[GRAPH_HASH_BYTES]);

#endif
