/* The graph: the header to read first.
 *
 * A Graph is a list of Values in an order where operands stand before their users. A Value is one operation
 * and its one result: a tensor of an element type and of up to eight dims. Operations with several results do
 * not exist; what has several (batch norm in training) is a function of the language that expands into
 * several Values.
 *
 * Semantics. Every Value is a pure function of the graph's inputs, in exact real arithmetic except where an
 * operation says that it rounds (cast, and every integer type, which wraps). Arithmetic gives a compute type
 * (dtype_compute), so a bf16 tensor plus a bf16 tensor is f32 until something casts it. Operands of scalars
 * broadcast as in NumPy: aligned at the right, a dim of 1 repeats. The reference (reference.h) evaluates this
 * in float64; a kernel may round to f32 after any operation and may re-associate sums.
 *
 * Layout. Only inputs and outputs have one: `strides`, in elements, NULL for packed row-major. Everything
 * between has none until a region is chosen (region.h); it is packed then, but for what lies within another
 * Value's memory (passes/in_place.c).
 *
 * Lifetime: all of it lies in the graph's arena. Threads: a Graph belongs to one thread until nobody changes
 * it any more. */
#ifndef SINTER_IR_GRAPH_H
#define SINTER_IR_GRAPH_H

#include "ir/base/diag.h"
#include "ir/dim.h"
#include "ir/op.h"
#include "ir/type.h"

typedef struct Value Value;
typedef struct Graph Graph;

/* One attribute; which member counts says its AttrKind. */
typedef union Attr {
    int64_t i;
    Number number;
    DType dtype;
    const Dim *dim;
    struct {
        const Dim **dims; /* ATTR_DIMS */
        int n_dims; /* must be set with dims: the rank of what index, uniform, broadcast and reshape make */
    };
    struct {
        int *ints; /* ATTR_INTS */
        int n_ints;
    };
    struct {
        int n;
        int at[RANK_MAX];
    } axes;
} Attr;

struct Value {
    OpKind op;
    DType dtype;
    int rank;
    const Dim *dims[RANK_MAX];
    int n_in;
    Value **in;
    Attr attrs[OP_MAX_ATTRS];
    uint32_t id;         /* position in graph->values after graph_renumber() */
    const char *name;    /* from the source; NULL for a nameless intermediate */
    Span span;           /* where the source says it */
    const Dim **strides; /* of an input, or of what lies in another's memory; NULL: packed row-major */
    void *scratch;       /* a pass's own; no meaning between passes */
};

typedef struct Output {
    const char *name;
    Value *value;
    const Dim **strides; /* in elements; NULL: packed row-major */
    Span span;
} Output;

/* `@schedule(tile=128x256x64, stages=4)` on a statement: applies to the region that computes `value`. */
typedef struct HintArg {
    const char *name;
    int64_t values[4]; /* 128x256x64 gives three */
    int n;
    const char *word; /* for arguments such as raster=along_m; NULL for numbers */
} HintArg;
typedef struct Hint {
    const char *name; /* "schedule", "expect", "allow", "fuse" */
    Value *value;
    VEC(HintArg) args;
    Span span;
} Hint;

/* One `check` of the source: for every combination of the listed dims, device against reference. */
typedef struct CheckDim {
    int symbol;
    const int64_t *values;
    int n;
} CheckDim;
typedef struct Check {
    VEC(CheckDim) dims;
    double rtol, atol; /* negative: by the output's type */
    int64_t seed;
    Span span;
} Check;

struct Graph {
    Arena *arena;
    const char *name;
    DimTable *dims;
    VEC(Value *) values; /* topological */
    VEC(Value *) inputs; /* OP_input, by position */
    VEC(Output) outputs;
    VEC(Hint) hints;
    VEC(Check) checks;
    Span span;
    const char *const
        *names; /* what graph_name_values() found, by id; NULL: nothing, or the graph has changed since */
};

Graph *graph_new(Arena *arena, const char *name);
/* Appends a Value whose op, in and attrs are set; infers and sets dtype, rank and dims. NULL, with a
 * diagnostic at `span`, where the operation's rules are broken. Operands must belong to the graph and stand
 * before; a NULL among them is a failure already reported and yields NULL. `in` and `attrs`, with the arrays
 * they point to, are copied. `attrs` NULL: every attribute's default. */
Value *graph_append(Graph *graph, OpKind op, Value **in, int n_in, const Attr *attrs, Span span,
                    Diags *diags);
/* The border. Strides in elements; NULL, or strides that are packed row-major, become NULL. */
Value *graph_add_input(Graph *graph, const char *name, DType dtype, int rank, const Dim *const *dims,
                       const Dim *const *strides, Span span);
void graph_add_output(Graph *graph, const char *name, Value *value, const Dim *const *strides, Span span);

/* Every use of `old` (operands, outputs, hints) becomes `fresh`. Order is restored by graph_sort(). */
void graph_replace_uses(Graph *graph, Value *old, Value *fresh);
/* Restores topological order, stably, drops what no output and no input needs, and renumbers. True where
 * something was dropped. */
bool graph_sort(Graph *graph);
void graph_renumber(Graph *graph);
/* Keeps the names that the canonical text gives to values (print.h), for a graph that will not change any
 * more and of which many single lines are printed: without it each of those lines costs a walk over the whole
 * graph. */
void graph_name_values(Graph *graph);
/* How many operands in the graph refer to each value, plus one an output, indexed by id (after
 * graph_renumber). */
int *graph_use_counts(Arena *arena, const Graph *graph);
/* A deep copy into another arena; where `bindings` knows a symbol, its value takes the symbol's place. NULL,
 * with a diagnostic, where a bound value breaks a rule. */
Graph *graph_clone(Arena *arena, const Graph *graph, const DimBindings *bindings, Diags *diags);
/* The same for those sizes alone of which the guards (NULL: none) hold: they are constraints of the copy. */
Graph *graph_narrow(Arena *arena, const Graph *graph, const DimBindings *bindings, const DimGuards *guards,
                    Diags *diags);

/* The default of attribute `index` of `op`; false where it has none. "auto" for a dtype is DTYPE_COUNT. */
bool attr_fallback(OpKind op, int index, Attr *out);

/* A scalar constant of a compute type; i32 or f32 unless the number lies outside its range. The value is
 * rounded to that type. */
Value *graph_constant_float(Graph *graph, double value, Span span);
Value *graph_constant_int(Graph *graph, int64_t value, Span span);

bool value_is_constant(const Value *value, double *out); /* scalar constant of any type, as a double */
/* The axis along which a value counts from 0, as OP_index does and what reshapes it among axes of one
 * element; -1: along none. */
int value_coordinate(const Value *value);
/* Product of the dims; NULL on overflow. */
const Dim *value_count(const Graph *graph, const Value *value);
bool value_same_dims(const Value *a, const Value *b);
/* Whether two values of one operation have the same attributes. */
bool value_same_attrs(const Value *a, const Value *b);
/* Whether an operand that broadcasts to `whole` has several elements along an axis of that. */
bool value_varies(const Value *operand, const Value *whole, int axis);
/* What a transpose exchanges the last two axes of, and no others; NULL: `value` is no such. */
Value *value_turned(const Value *value);
/* What a value was before casts made it wider, exactly: itself where none did. */
const Value *value_before_widening(const Value *value);
bool value_same_rows(const Value *a, const Value *b); /* all dims but the last */
/* Whether a value has one element for each row of another: with an axis of one where that has its columns,
 * which are not one by themselves, or without. */
bool value_is_of_rows(const Value *value, const Value *like);
bool value_is_output(const Graph *graph, const Value *value);
/* The product of `n` dims; NULL on overflow. */
const Dim *dims_product(DimTable *table, const Dim *const *dims, int n);
/* Row-major strides of these dims into strides[0..rank). */
void dims_packed_strides(DimTable *table, int rank, const Dim *const *dims, const Dim **strides);

#endif
