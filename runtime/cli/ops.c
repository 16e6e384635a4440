/* sinter ops: the reference manual, from the tables that the compiler works by and the library's own text. */
#include <stdio.h>
#include <string.h>

#include "runtime/cli/cli.h"

static const char *ops_class(OpClass class_) {
    switch (class_) {
    case OPCLASS_BORDER: return "border";
    case OPCLASS_POINTWISE: return "pointwise";
    case OPCLASS_RANDOM: return "random";
    case OPCLASS_MOVEMENT: return "movement";
    case OPCLASS_REDUCTION: return "reduction";
    case OPCLASS_CONTRACTION: return "contraction";
    case OPCLASS_COMPOSITE: return "composite";
    case OPCLASS_RECURRENT: return "recurrent";
    case OPCLASS_COLLECTIVE: return "collective";
    }
    return "";
}

static const char *ops_rule(ScalarRule rule) {
    switch (rule) {
    case RULE_ARITH: return "the operands' compute type";
    case RULE_FLOAT: return "f32, or f64 if an operand is f64";
    case RULE_COMPARE:
    case RULE_LOGIC: return "bool";
    case RULE_SELECT: return "the compute type of the last two";
    case RULE_BITS: return "integers alone, their compute type";
    }
    return "";
}

/* "name(a, b, axis, keep=1)" */
static void ops_call(Text *out, const OpInfo *op) {
    text_add(out, "%s(", op->name);
    const char *comma = "";
    for (int i = 0; i < op->n_in; i++, comma = ", ")
        text_add(out, "%s%c", comma, op->n_in == 1 ? 'x' : 'a' + i);
    if (op->n_in < 0) {
        text_add(out, "a, b, ...");
        comma = ", ";
    }
    for (int i = 0; i < op->n_attrs; i++, comma = ", ")
        text_add(out, "%s%s%s%s", comma, op->attrs[i].name, op->attrs[i].fallback ? "=" : "",
                 op->attrs[i].fallback ? op->attrs[i].fallback : "");
    text_add(out, ")");
}

static void ops_print(Cli *cli, OpKind kind) {
    const OpInfo *op = op_info(kind);
    Text call = text_new(cli->arena);
    ops_call(&call, op);
    if (cli->o.json) {
        json_begin(&cli->json, NULL, '{');
        json_text(&cli->json, "name", op->name);
        json_text(&cli->json, "call", call.at);
        json_text(&cli->json, "class", ops_class(op->class_));
        json_text(&cli->json, "doc", op->doc);
        if (op_is_scalar(kind))
            json_text(&cli->json, "gives", ops_rule(op->rule));
        json_end(&cli->json, '}');
    } else if (cli->o.markdown) {
        printf("| `%s` | %s | %s%s%s |\n", call.at, ops_class(op->class_), op->doc,
               op_is_scalar(kind) ? "; gives " : "", op_is_scalar(kind) ? ops_rule(op->rule) : "");
    } else {
        printf("%-44s %-12s %s\n", call.at, ops_class(op->class_), op->doc);
    }
}

extern const char frontend_library_text[]; /* frontend/library.sg, embedded by the Makefile */

/* One function of the library: where its words stand in the text. */
typedef struct LibraryFunction {
    const char *name, *call, *section, *doc; /* doc NULL: none */
} LibraryFunction;

typedef struct OpsManual {
    Cli *cli;
    VEC(LibraryFunction) library;
} OpsManual;

/* Reads `fn name (parameters)` lines, the comment above each, and the headings `# ---- section ----`. */
static void ops_read_library(OpsManual *manual) {
    Arena *arena = manual->cli->arena;
    const char *section = "library";
    Text doc = text_new(arena);
    for (const char *line = frontend_library_text; *line;) {
        size_t n = strcspn(line, "\n");
        if (strncmp(line, "# ---- ", 7) == 0) {
            section = arena_strndup(arena, line + 7, strcspn(line + 7, "-\n") - 1);
            doc = text_new(arena);
        } else if (line[0] == '#' && line[1] == ' ') {
            text_add(&doc, "%s%.*s", doc.n ? " " : "", (int)(n - 2), line + 2);
        } else if (strncmp(line, "fn ", 3) == 0) {
            size_t name = strcspn(line + 3, " ("), parameters = strcspn(line, "(");
            size_t end = strcspn(line, ")");
            LibraryFunction f = {arena_strndup(arena, line + 3, name),
                                 text_format(arena, "%.*s%.*s", (int)name, line + 3,
                                             (int)(end + 1 - parameters), line + parameters),
                                 section, doc.n ? doc.at : NULL};
            vec_push(arena, &manual->library, f);
            doc = text_new(arena);
        } else if (n == 0) {
            doc = text_new(arena);
        }
        line += n + (line[n] == '\n');
    }
}

static void ops_print_function(Cli *cli, const LibraryFunction *f) {
    const char *doc = f->doc ? f->doc : "a function of the library";
    if (cli->o.json) {
        json_begin(&cli->json, NULL, '{');
        json_text(&cli->json, "name", f->name);
        json_text(&cli->json, "call", f->call);
        json_text(&cli->json, "class", f->section);
        json_text(&cli->json, "doc", f->doc);
        json_end(&cli->json, '}');
    } else if (cli->o.markdown) {
        printf("| `%s` | %s | %s |\n", f->call, f->section, doc);
    } else {
        printf("%-44s %-12s %s\n", f->call, f->section, doc);
    }
}

static bool ops_wanted(const Cli *cli, const char *name) {
    for (size_t i = 0; i < cli->o.operands.n; i++)
        if (strcmp(cli->o.operands.at[i], name) == 0)
            return true;
    return cli->o.operands.n == 0;
}

/* Every operand must name an operation or a function. */
static void ops_check_names(OpsManual *manual) {
    Cli *cli = manual->cli;
    const char **names = ARENA_ARRAY(cli->arena, const char *, OP_COUNT + manual->library.n);
    size_t n = 0;
    for (int i = 0; i < OP_COUNT; i++)
        names[n++] = op_info((OpKind)i)->name;
    for (size_t i = 0; i < manual->library.n; i++)
        names[n++] = manual->library.at[i].name;
    for (size_t i = 0; i < cli->o.operands.n; i++) {
        const char *word = cli->o.operands.at[i];
        bool known = false;
        for (size_t k = 0; k < n; k++)
            known |= strcmp(names[k], word) == 0;
        const char *nearest = known ? NULL : cli_nearest(word, names, n);
        if (!known)
            cli_error(cli, EXIT_USAGE, "there is no operation '%s'%s%s%s", word,
                      nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
    }
}

int verb_ops(Cli *cli) {
    OpsManual manual = {.cli = cli};
    ops_read_library(&manual);
    ops_check_names(&manual);
    if (cli->worst)
        return cli->worst;
    if (cli->o.json)
        json_begin(&cli->json, NULL, '[');
    else if (cli->o.markdown)
        printf("| operation | class | meaning |\n|---|---|---|\n");
    for (int i = 0; i < OP_COUNT; i++)
        if (ops_wanted(cli, op_info((OpKind)i)->name))
            ops_print(cli, (OpKind)i);
    for (size_t i = 0; i < manual.library.n; i++)
        if (ops_wanted(cli, manual.library.at[i].name))
            ops_print_function(cli, &manual.library.at[i]);
    if (cli->o.json)
        json_end(&cli->json, ']');
    return cli->worst;
}
