/* sinter ops: the reference manual, from the tables that the compiler works by. */
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
    case OPCLASS_WINDOW: return "window";
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

static bool ops_wanted(const Cli *cli, OpKind kind) {
    if (!op_info(kind)->name)
        return false;
    for (size_t i = 0; i < cli->o.operands.n; i++)
        if (strcmp(cli->o.operands.at[i], op_info(kind)->name) == 0)
            return true;
    return cli->o.operands.n == 0;
}

int verb_ops(Cli *cli) {
    const char *names[OP_COUNT];
    size_t n = 0;
    for (int i = 0; i < OP_COUNT; i++)
        if (op_info((OpKind)i) && op_info((OpKind)i)->name)
            names[n++] = op_info((OpKind)i)->name;
    for (size_t i = 0; i < cli->o.operands.n; i++) {
        const char *word = cli->o.operands.at[i];
        if (op_find(word) != OP_COUNT)
            continue;
        const char *nearest = cli_nearest(word, names, n);
        cli_error(cli, EXIT_USAGE, "there is no operation '%s'%s%s%s", word,
                  nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
    }
    if (cli->worst)
        return cli->worst;
    if (cli->o.json)
        json_begin(&cli->json, NULL, '[');
    else if (cli->o.markdown)
        printf("| operation | class | meaning |\n|---|---|---|\n");
    for (int i = 0; i < OP_COUNT; i++)
        if (ops_wanted(cli, (OpKind)i))
            ops_print(cli, (OpKind)i);
    if (cli->o.json)
        json_end(&cli->json, ']');
    return cli->worst;
}
