/* Names come first: an input and an output keep theirs, an intermediate keeps its own where it is still free,
 * and the rest are numbered, so that the text parses back to a graph that prints the same. */
#include "ir/print.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ------------------------------------------------------------------------------------------- */

typedef struct PrintTaken {
    const char *name; /* NULL: free */
    int next; /* from which number on a further `name` may find a free `name_2`; 0: none was asked for */
} PrintTaken;

typedef struct Print {
    Text *out;
    const Graph *graph;
    bool for_hash;
    bool for_people;          /* scalar constants in place of their names */
    const char *const *names; /* by id */
    /* Names taken, hashed with open addressing. */
    PrintTaken *taken;
    size_t n_taken, room;
} Print;

static PrintTaken *print_slot(const Print *print, const char *name) {
    uint64_t hash = 5381;
    for (const char *c = name; *c; c++)
        hash = hash * 33 ^ (uint8_t)*c;
    size_t slot = (hash * 0x9e3779b97f4a7c15u >> 32) & (print->room - 1);
    while (print->taken[slot].name && strcmp(print->taken[slot].name, name) != 0)
        slot = (slot + 1) & (print->room - 1);
    return &print->taken[slot];
}

/* False where the name is taken already. */
static bool print_take(Print *print, const char *name) {
    PrintTaken *slot = print_slot(print, name);
    if (slot->name)
        return false;
    slot->name = name;
    return true;
}

/* Whether the language reads it as a name of a value: a C API may have given anything. */
static bool print_is_name(const char *name) {
    static const char *const reserved[] = {"in", "return", "if", "else", "inf", "nan", "true", "false"};
    if (!isalpha((unsigned char)*name) && *name != '_')
        return false;
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_')
            return false;
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (strcmp(name, reserved[i]) == 0)
            return false;
    return true;
}

static bool print_belongs(const Print *print, const Value *value) {
    return value->id < print->graph->values.n && print->graph->values.at[value->id] == value;
}

static const char *print_fresh_name(Print *print, const char *stem, int *next) {
    const char *name;
    do
        name = text_format(print->out->arena, "%s%d", stem, (*next)++);
    while (!print_take(print, name));
    return name;
}

/* `mu_2` for the second `mu`, `mu_3` for the third. */
static const char *print_further_name(Print *print, const char *name) {
    PrintTaken *taken = print_slot(print, name);
    if (!taken->next)
        taken->next = 2;
    return print_fresh_name(print, text_format(print->out->arena, "%s_", name), &taken->next);
}

static void print_choose_names(Print *print) {
    const Graph *graph = print->graph;
    Arena *arena = print->out->arena;
    size_t names = graph->values.n + graph->outputs.n + (size_t)dim_symbol_count(graph->dims);
    const char **chosen = ARENA_ARRAY(arena, const char *, graph->values.n);
    print->names = chosen;
    for (print->room = 16; print->room < 2 * names + 2;)
        print->room *= 2;
    print->taken = ARENA_ARRAY(arena, PrintTaken, print->room);
    for (int i = 0; i < dim_symbol_count(graph->dims); i++)
        print_take(print, dim_symbol_name(graph->dims, i));
    for (size_t i = 0; i < graph->inputs.n; i++) {
        const Value *value = graph->inputs.at[i];
        print_take(print, value->name);
        if (print_belongs(print, value))
            chosen[value->id] = value->name;
    }
    for (size_t i = 0; i < graph->outputs.n; i++) {
        const Output *output = &graph->outputs.at[i];
        print_take(print, output->name);
        if (print_belongs(print, output->value) && !chosen[output->value->id])
            chosen[output->value->id] = output->name;
    }
    /* Names of the source before numbers, so that a `v0` of the source stays. */
    for (size_t i = 0; i < graph->values.n && !print->for_hash; i++) {
        const Value *value = graph->values.at[i];
        if (chosen[i] || !value->name || !print_is_name(value->name))
            continue;
        chosen[i] = print_take(print, value->name) ? value->name : print_further_name(print, value->name);
    }
    int next = 0;
    for (size_t i = 0; i < graph->values.n; i++)
        if (!chosen[i])
            chosen[i] = print_fresh_name(print, "v", &next);
}

static const char *print_name(const Print *print, const Value *value) {
    if (print_belongs(print, value))
        return print->names[value->id];
    return value->name ? value->name : "?"; /* a graph in the midst of a pass */
}

/* ---- types and attributes ---------------------------------------------------------------------------- */

static void print_dims(Text *out, const Graph *graph, int n, const Dim *const *dims) {
    for (int i = 0; i < n; i++) {
        text_add(out, "%s", i ? ", " : "");
        dim_print(out, graph->dims, dims[i]);
    }
}

static void print_type(Text *out, const Graph *graph, const Value *value, const Dim *const *strides) {
    text_add(out, "%s", dtype_name(value->dtype));
    if (value->rank == 0)
        return;
    text_add(out, "[");
    print_dims(out, graph, value->rank, value->dims);
    if (strides) {
        text_add(out, " : strides=[");
        print_dims(out, graph, value->rank, strides);
        text_add(out, "]");
    }
    text_add(out, "]");
}

void value_print_type(Text *out, const Graph *graph, const Value *value) {
    print_type(out, graph, value, NULL);
}

/* The shortest decimal that rounds to the value in its type. */
static void print_number(Text *out, Number number, DType dtype) {
    if (!dtype_is_float(dtype)) {
        text_add(out, "%lld", (long long)number.i);
        return;
    }
    double value = number.f;
    if (value == 0 && signbit(value)) {
        text_add(out, "-0.0"); /* the negative of the integer 0 would lose the sign */
        return;
    }
    for (int precision = 1; isfinite(value) && precision < 17; precision++) {
        char digits[40];
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        double shorter = strtod(digits, NULL);
        if (dtype_round(shorter, dtype) == value) {
            value = shorter;
            break;
        }
    }
    text_add_double(out, value);
}

static void print_attr(const Print *print, const Value *value, AttrKind kind, const Attr *attr) {
    Text *out = print->out;
    switch (kind) {
    case ATTR_INT: text_add(out, "%lld", (long long)attr->i); break;
    case ATTR_NUMBER: print_number(out, attr->number, value->dtype); break;
    case ATTR_DTYPE: text_add(out, "%s", dtype_name(attr->dtype)); break;
    case ATTR_DIM: dim_print(out, print->graph->dims, attr->dim); break;
    case ATTR_DIMS:
        text_add(out, "[");
        print_dims(out, print->graph, attr->n_dims, attr->dims);
        text_add(out, "]");
        break;
    case ATTR_INTS:
        text_add(out, "[");
        for (int i = 0; i < attr->n_ints; i++)
            text_add(out, "%s%d", i ? ", " : "", attr->ints[i]);
        text_add(out, "]");
        break;
    case ATTR_AXES:
        text_add(out, "[");
        for (int i = 0; i < attr->axes.n; i++)
            text_add(out, "%s%d", i ? ", " : "", attr->axes.at[i]);
        text_add(out, "]");
        break;
    }
}

/* ---- statements -------------------------------------------------------------------------------------- */

/* For people, scalars known beforehand stand where they are used. */
static void print_operand(const Print *print, const Value *operand, bool for_people) {
    if (for_people && operand->op == OP_constant)
        print_number(print->out, operand->attrs[0].number, operand->dtype);
    else if (for_people && operand->op == OP_dim)
        dim_print(print->out, print->graph->dims, operand->attrs[0].dim);
    else
        text_add(print->out, "%s", print_name(print, operand));
}

/* Whether `matmul(a, b)` would cast an operand where it is read again, as `a @ b` does: a type keeps it. */
static bool print_keeps_operands(const Value *value) {
    return value->op == OP_matmul && value->attrs[0].dtype == DTYPE_COUNT &&
           (value->in[0]->dtype == DTYPE_F32 || value->in[1]->dtype == DTYPE_F32);
}

static void print_statement(const Print *print, const Value *value) {
    Text *out = print->out;
    const OpInfo *info = op_info(value->op);
    text_add(out, "%s = %s(", print_name(print, value), info->name);
    const char *comma = "";
    for (int i = 0; i < value->n_in; i++, comma = ", ") {
        text_add(out, "%s", comma);
        print_operand(print, value->in[i], print->for_people);
    }
    for (int i = 0; i < info->n_attrs; i++) {
        Attr attr = value->attrs[i];
        if (print_keeps_operands(value))
            attr.dtype = value->dtype;
        if (info->attrs[i].kind == ATTR_DTYPE && attr.dtype == DTYPE_COUNT)
            continue; /* "auto" */
        text_add(out, "%s%s=", comma, info->attrs[i].name);
        print_attr(print, value, info->attrs[i].kind, &attr);
        comma = ", ";
    }
    text_add(out, ")");
}

static void print_hint(Text *out, const Hint *hint) {
    text_add(out, " @%s(", hint->name);
    for (size_t i = 0; i < hint->args.n; i++) {
        const HintArg *arg = &hint->args.at[i];
        text_add(out, "%s%s", i ? ", " : "", arg->name);
        if (arg->word)
            text_add(out, "=%s", arg->word);
        for (int j = 0; j < arg->n; j++)
            text_add(out, "%s%lld", j ? "x" : "=", (long long)arg->values[j]);
    }
    text_add(out, ")");
}

static void print_hints(const Print *print, const Value *value) {
    for (size_t i = 0; i < print->graph->hints.n; i++) {
        const Hint *hint = &print->graph->hints.at[i];
        bool asserts = strcmp(hint->name, "expect") == 0; /* changes no kernel */
        if (hint->value == value && !(print->for_hash && asserts))
            print_hint(print->out, hint);
    }
}

/* `z = y` for each output that its value's own statement does not name. */
static void print_aliases(const Print *print, const Value *value) {
    bool hints = value->op == OP_input; /* an input has no statement to carry them */
    for (size_t i = 0; i < print->graph->outputs.n; i++) {
        const Output *output = &print->graph->outputs.at[i];
        if (output->value != value || strcmp(output->name, print_name(print, value)) == 0)
            continue;
        text_add(print->out, "    %s = %s", output->name, print_name(print, value));
        if (hints)
            print_hints(print, value);
        hints = false;
        text_add(print->out, "\n");
    }
}

/* ---- graphs ------------------------------------------------------------------------------------------ */

static void print_signature(const Print *print) {
    const Graph *graph = print->graph;
    Text *out = print->out;
    text_add(out, "graph %s (", graph->name);
    for (size_t i = 0; i < graph->inputs.n; i++) {
        const Value *value = graph->inputs.at[i];
        text_add(out, "%s%s: ", i ? ", " : "", value->name);
        print_type(out, graph, value, value->strides);
    }
    text_add(out, ") -> (");
    for (size_t i = 0; i < graph->outputs.n; i++) {
        const Output *output = &graph->outputs.at[i];
        text_add(out, "%s%s: ", i ? ", " : "", output->name);
        print_type(out, graph, output->value, output->strides);
    }
    text_add(out, ")\n");
}

static void print_set(Text *out, const int64_t *values, int n) {
    text_add(out, "{");
    for (int i = 0; i < n; i++)
        text_add(out, "%s%lld", i ? ", " : "", (long long)values[i]);
    text_add(out, "}");
}

static void print_constraints(const Print *print) {
    static const char *const relations[] = {
        [DIM_EQ] = "==", [DIM_NE] = "!=", [DIM_LT] = "<", [DIM_LE] = "<=", [DIM_GT] = ">", [DIM_GE] = ">="};
    const DimTable *dims = print->graph->dims;
    for (int i = 0; i < dim_constraint_count(dims); i++) {
        const DimConstraint *c = dim_constraint_at(dims, i);
        text_add(print->out, "%s", i ? ", " : "where ");
        dim_print(print->out, dims, c->a);
        if (c->set) {
            text_add(print->out, " in ");
            print_set(print->out, c->set, c->n_set);
        } else {
            text_add(print->out, " %s ", relations[c->relation]);
            dim_print(print->out, dims, c->b);
        }
    }
    if (dim_constraint_count(dims))
        text_add(print->out, "\n");
}

/* With a point or an exponent, since a whole number is an integer to the parser. */
static void print_tolerance(Text *out, const char **separator, const char *name, double value) {
    if (!(value >= 0))
        return;
    text_add(out, "%s%s = ", *separator, name);
    size_t from = out->n;
    text_add_double(out, value);
    if (!strpbrk(out->at + from, ".einf"))
        text_add(out, ".0");
    *separator = "; ";
}

static void print_check(const Print *print, const Check *check) {
    Text *out = print->out;
    const char *separator = " ";
    text_add(out, "\ncheck %s {", print->graph->name);
    for (size_t i = 0; i < check->dims.n; i++, separator = "; ") {
        const CheckDim *dim = &check->dims.at[i];
        text_add(out, "%s%s in ", separator, dim_symbol_name(print->graph->dims, dim->symbol));
        print_set(out, dim->values, dim->n);
    }
    print_tolerance(out, &separator, "rtol", check->rtol);
    print_tolerance(out, &separator, "atol", check->atol);
    if (check->seed)
        text_add(out, "%sseed = %lld", separator, (long long)check->seed);
    text_add(out, " }\n");
}

static void print_graph(Print *print) {
    const Graph *graph = print->graph;
    print_choose_names(print);
    text_add(print->out, "sinter 1\n\n");
    print_signature(print);
    print_constraints(print);
    text_add(print->out, "{\n");
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i];
        if (value->op != OP_input) {
            text_add(print->out, "    ");
            print_statement(print, value);
            print_hints(print, value);
            text_add(print->out, "\n");
        }
        print_aliases(print, value);
    }
    text_add(print->out, "}\n");
    for (size_t i = 0; i < graph->checks.n && !print->for_hash; i++)
        print_check(print, &graph->checks.at[i]);
}

void graph_print(Text *out, const Graph *graph) {
    Print print = {.out = out, .graph = graph};
    print_graph(&print);
}

void graph_print_for_hash(Text *out, const Graph *graph) {
    Print print = {.out = out, .graph = graph, .for_hash = true};
    print_graph(&print);
}

const char *const *graph_value_names(Arena *arena, const Graph *graph) {
    Text out = text_new(arena);
    Print print = {.out = &out, .graph = graph};
    print_choose_names(&print);
    return print.names;
}

void graph_name_values(Graph *graph) {
    graph->names = graph_value_names(graph->arena, graph);
}

/* The operator that people write for an operation; NULL where they write its name. */
static const char *print_infix(const Value *value) {
    switch (value->op) {
    case OP_add: return "+";
    case OP_sub: return "-";
    case OP_mul: return "*";
    case OP_div: return "/";
    case OP_matmul: return value->attrs[0].dtype == DTYPE_COUNT ? "@" : NULL;
    case OP_eq: return "==";
    case OP_ne: return "!=";
    case OP_lt: return "<";
    case OP_le: return "<=";
    case OP_gt: return ">";
    case OP_ge: return ">=";
    default: return NULL;
    }
}

/* One line of a graph that may have its names already. */
static Print print_line(Text *out, const Graph *graph) {
    Print print = {.out = out, .graph = graph, .names = graph->names};
    if (!print.names)
        print_choose_names(&print);
    return print;
}

void value_print_name(Text *out, const Graph *graph, const Value *value) {
    Print print = print_line(out, graph);
    text_add(out, "%s", print_name(&print, value));
}

void value_print(Text *out, const Graph *graph, const Value *value) {
    if (value->op == OP_input) {
        text_add(out, "%s: ", value->name);
        value_print_type(out, graph, value);
        return;
    }
    Print print = print_line(out, graph);
    const char *infix = print_infix(value);
    if (!infix) {
        print.for_people = true;
        print_statement(&print, value);
        return;
    }
    text_add(out, "%s = ", print_name(&print, value));
    print_operand(&print, value->in[0], true);
    text_add(out, " %s ", infix);
    print_operand(&print, value->in[1], true);
}
