/* Kernel IR as pseudo-code for people and golden tests:
 *
 *     kernel add_0: 256 threads, grid (N/1024, 1, 1)
 *     param x: f32, align 16
 *     param N: dim
 *
 *     let i: i32 = cta_x*1024 + tid*4
 *     var v: f32[4]
 *     v[0..4) = x[i..i+4) if i < N
 *     for j: i32 = 0 to 4 unrolled {
 *         v[j] = exp(v[j])
 *     }
 *
 * A load and a store name memory and registers alike; what is memory, the head says. */
#include "codegen/kernel_print.h"

#include "codegen/atom.h"

/* ---- expressions --------------------------------------------------------------------------------------- */

enum {
    PRECEDENCE_OR = 1,
    PRECEDENCE_AND,
    PRECEDENCE_COMPARE,
    PRECEDENCE_BITS,
    PRECEDENCE_SUM,
    PRECEDENCE_PRODUCT,
    PRECEDENCE_UNARY
};

typedef struct PrintInfix {
    OpKind op;
    const char *sign;
    int precedence;
} PrintInfix;

static const PrintInfix print_infix[] = {
    {OP_or, " or ", PRECEDENCE_OR},       {OP_and, " and ", PRECEDENCE_AND},
    {OP_eq, " == ", PRECEDENCE_COMPARE},  {OP_ne, " != ", PRECEDENCE_COMPARE},
    {OP_lt, " < ", PRECEDENCE_COMPARE},   {OP_le, " <= ", PRECEDENCE_COMPARE},
    {OP_gt, " > ", PRECEDENCE_COMPARE},   {OP_ge, " >= ", PRECEDENCE_COMPARE},
    {OP_bit_and, " & ", PRECEDENCE_BITS}, {OP_bit_or, " | ", PRECEDENCE_BITS},
    {OP_bit_xor, " ^ ", PRECEDENCE_BITS}, {OP_shl, " << ", PRECEDENCE_BITS},
    {OP_shr, " >> ", PRECEDENCE_BITS},    {OP_add, " + ", PRECEDENCE_SUM},
    {OP_sub, " - ", PRECEDENCE_SUM},      {OP_mul, "*", PRECEDENCE_PRODUCT},
    {OP_div, "/", PRECEDENCE_PRODUCT},    {OP_mod, "%", PRECEDENCE_PRODUCT},
};

static const PrintInfix *print_find_infix(OpKind op) {
    for (size_t i = 0; i < sizeof print_infix / sizeof *print_infix; i++)
        if (print_infix[i].op == op)
            return &print_infix[i];
    return NULL;
}

static const char *print_special(KSpecial special) {
    static const char *const names[] = {"tid",   "lane",  "warp_index", "cta_x",
                                        "cta_y", "cta_z", "grid_x",     "cta_rank"};
    return names[special];
}

static void print_expr(Text *out, const Kernel *kernel, const KExpr *x, int outer);

static void print_args(Text *out, const Kernel *kernel, const KExpr *x) {
    text_add(out, "(");
    for (int i = 0; i < x->n_args; i++) {
        text_add(out, "%s", i ? ", " : "");
        print_expr(out, kernel, x->args[i], 0);
    }
    text_add(out, ")");
}

static void print_scalar(Text *out, const Kernel *kernel, const KExpr *x, int outer) {
    const PrintInfix *infix = print_find_infix(x->op);
    if (!infix) {
        text_add(out, "%s", op_info(x->op)->name);
        print_args(out, kernel, x);
        return;
    }
    /* Bits and comparisons do not chain: their operands get parentheses of their own. */
    int precedence = infix->precedence;
    bool chains = precedence >= PRECEDENCE_SUM || precedence <= PRECEDENCE_AND;
    bool parens = precedence < outer;
    text_add(out, "%s", parens ? "(" : "");
    print_expr(out, kernel, x->args[0], chains ? precedence : precedence + 1);
    text_add(out, "%s", infix->sign);
    print_expr(out, kernel, x->args[1], precedence + 1);
    text_add(out, "%s", parens ? ")" : "");
}

static void print_expr(Text *out, const Kernel *kernel, const KExpr *x, int outer) {
    switch (x->kind) {
    case KX_INT:
        if (x->type == K_BOOL)
            text_add(out, "%s", x->i ? "true" : "false");
        else
            text_add(out, "%lld", (long long)x->i);
        return;
    case KX_FLOAT: text_add_double(out, x->f); return;
    case KX_VAR: text_add(out, "%s", x->var->name); return;
    case KX_ELEM:
        text_add(out, "%s[", x->var->name);
        print_expr(out, kernel, x->args[0], 0);
        text_add(out, "]");
        return;
    case KX_PARAM:
    case KX_TENSOR_MAP:
        if (x->i >= 0 && (size_t)x->i < kernel->params.n)
            text_add(out, "%s%s", x->kind == KX_PARAM ? "" : "&", kernel->params.at[x->i].name);
        else
            text_add(out, "parameter %lld", (long long)x->i);
        return;
    case KX_SPECIAL: text_add(out, "%s", print_special((KSpecial)x->i)); return;
    case KX_SCALAR: print_scalar(out, kernel, x, outer); return;
    case KX_MUL_HI:
        text_add(out, "mul_hi");
        print_args(out, kernel, x);
        return;
    case KX_CONVERT:
        text_add(out, "%s", ktype_name(x->type));
        print_args(out, kernel, x);
        return;
    case KX_ROUND:
        text_add(out, "round_%s", dtype_name(x->dtype));
        print_args(out, kernel, x);
        return;
    case KX_BITCAST:
        text_add(out, "bits_%s", ktype_name(x->type));
        print_args(out, kernel, x);
        return;
    case KX_PACK:
        text_add(out, "pack_%s", dtype_name(x->dtype));
        print_args(out, kernel, x);
        return;
    case KX_UNPACK:
        text_add(out, "unpack_%s(", dtype_name(x->dtype));
        print_expr(out, kernel, x->args[0], 0);
        text_add(out, ", %lld)", (long long)x->i);
        return;
    case KX_SMEM_ADDR:
    case KX_GLOBAL_ADDR:
        text_add(out, "&%s[", x->buffer->name);
        print_expr(out, kernel, x->args[0], 0);
        text_add(out, "]");
        return;
    }
}

void kernel_print_expr(Text *out, const Kernel *kernel, const KExpr *expr) {
    print_expr(out, kernel, expr, 0);
}

/* ---- statements ---------------------------------------------------------------------------------------- */

/* "[at]" or "[at..at+width)". */
static void print_slice(Text *out, const Kernel *kernel, const KExpr *at, int width) {
    text_add(out, "[");
    if (at)
        print_expr(out, kernel, at, 0);
    else
        text_add(out, "0");
    if (width == 1) {
        text_add(out, "]");
    } else if (!at || at->kind == KX_INT) {
        text_add(out, "..%lld)", (long long)(at ? at->i : 0) + width);
    } else {
        text_add(out, "..+%d)", width);
    }
}

static void print_registers(Text *out, const Kernel *kernel, const KStmt *stmt) {
    text_add(out, "%s", stmt->var->name);
    int words = stmt->width;
    if (stmt->raw)
        words = stmt->width * dtype_bits(stmt->buffer->elem) / 32;
    if (stmt->var->count)
        print_slice(out, kernel, stmt->at, words);
}

static void print_memory(Text *out, const Kernel *kernel, const KStmt *stmt) {
    text_add(out, "%s", stmt->buffer->name);
    print_slice(out, kernel, stmt->index, stmt->width);
}

static void print_access_end(Text *out, const Kernel *kernel, const KStmt *stmt) {
    static const char *const caches[] = {"", " stream", " keep"};
    text_add(out, "%s%s", stmt->raw ? " raw" : "", caches[stmt->cache]);
    if (stmt->guard) {
        text_add(out, " if ");
        print_expr(out, kernel, stmt->guard, 0);
    }
}

static void print_atom(Text *out, const Kernel *kernel, const KStmt *stmt) {
    atom_name(out, (AtomId)stmt->atom, stmt->shape);
    text_add(out, "(");
    for (int i = 0; i < stmt->n_operands; i++) {
        const KOperand *operand = &stmt->operands[i];
        text_add(out, "%s", i ? ", " : "");
        if (!operand->var && !operand->expr) { /* in the words of a fault alone */
            text_add(out, "nothing");
            continue;
        }
        if (!operand->var) {
            print_expr(out, kernel, operand->expr, 0);
            continue;
        }
        text_add(out, "%s", operand->var->name);
        if (operand->var->count && operand->count == 1)
            text_add(out, "[%d]", operand->at);
        else if (operand->var->count)
            text_add(out, "[%d..%d)", operand->at, operand->at + operand->count);
    }
    text_add(out, ")");
}

static void print_for(Text *out, const Kernel *kernel, const KStmt *stmt) {
    static const char *const unrolls[] = {"", " unrolled", " unroll"};
    text_add(out, "for %s: %s = ", stmt->var->name, ktype_name(stmt->var->type));
    print_expr(out, kernel, stmt->begin, 0);
    text_add(out, " to ");
    print_expr(out, kernel, stmt->end, 0);
    if (stmt->step_expr) {
        text_add(out, " step ");
        print_expr(out, kernel, stmt->step_expr, 0);
    } else if (stmt->step != 1) {
        text_add(out, " step %lld", (long long)stmt->step);
    }
    text_add(out, "%s", unrolls[stmt->unroll]);
}

void kernel_print_stmt(Text *out, const Kernel *kernel, const KStmt *stmt) {
    switch (stmt->kind) {
    case KS_DECLARE:
        text_add(out, "%s %s: %s", stmt->var->is_let ? "let" : "var", stmt->var->name,
                 ktype_name(stmt->var->type));
        if (stmt->var->count)
            text_add(out, "[%d]", stmt->var->count);
        if (stmt->expr) {
            text_add(out, " = ");
            print_expr(out, kernel, stmt->expr, 0);
        }
        return;
    case KS_SET:
        text_add(out, "%s", stmt->var->name);
        if (stmt->index)
            print_slice(out, kernel, stmt->index, 1);
        text_add(out, " = ");
        print_expr(out, kernel, stmt->expr, 0);
        return;
    case KS_LOAD:
        print_registers(out, kernel, stmt);
        text_add(out, " = ");
        print_memory(out, kernel, stmt);
        print_access_end(out, kernel, stmt);
        return;
    case KS_STORE:
        print_memory(out, kernel, stmt);
        text_add(out, " = ");
        print_registers(out, kernel, stmt);
        print_access_end(out, kernel, stmt);
        return;
    case KS_FOR: print_for(out, kernel, stmt); return;
    case KS_IF:
        if (stmt->name)
            text_add(out, "role %s: ", stmt->name);
        text_add(out, "if ");
        print_expr(out, kernel, stmt->expr, 0);
        return;
    case KS_ATOM: print_atom(out, kernel, stmt); return;
    case KS_COMMENT: text_add(out, "-- %s", stmt->name); return;
    }
}

static void print_block(Text *out, const Kernel *kernel, const KBlock *block, int depth) {
    for (size_t i = 0; i < block->n; i++) {
        const KStmt *stmt = block->at[i];
        text_add(out, "%*s", 4 * depth, "");
        kernel_print_stmt(out, kernel, stmt);
        if (stmt->kind == KS_FOR || stmt->kind == KS_IF) {
            text_add(out, " {\n");
            print_block(out, kernel, &stmt->body, depth + 1);
            if (stmt->other.n) {
                text_add(out, "%*s} else {\n", 4 * depth, "");
                print_block(out, kernel, &stmt->other, depth + 1);
            }
            text_add(out, "%*s}", 4 * depth, "");
        }
        text_add(out, "\n");
    }
}

/* ---- the head ------------------------------------------------------------------------------------------ */

static void print_dims(Text *out, const Kernel *kernel, const Dim *const *dims, int n) {
    for (int i = 0; i < n; i++) {
        text_add(out, "%s", i ? ", " : "");
        if (dims[i])
            dim_print(out, kernel->graph->dims, dims[i]);
        else
            text_add(out, "?");
    }
}

static void print_tensor_map(Text *out, const Kernel *kernel, const KTensorMap *map) {
    static const char *const swizzles[] = {"none", "32", "64", "128"};
    text_add(out, "tensor map of %s: %s, dims (", map->buffer->name, dtype_name(map->elem));
    print_dims(out, kernel, map->dims, map->rank);
    text_add(out, "), strides (");
    print_dims(out, kernel, map->strides, map->rank);
    text_add(out, ")");
    if (map->offset) {
        text_add(out, ", offset ");
        dim_print(out, kernel->graph->dims, map->offset);
    }
    text_add(out, ", box (");
    for (int i = 0; i < map->rank; i++)
        text_add(out, "%s%d", i ? ", " : "", map->box[i]);
    text_add(out, "), swizzle %s", swizzles[map->swizzle]);
    for (int i = 0; map->places && i < map->rank - 2; i++)
        text_add(out, "%s%d to %d by %d", i ? ", " : ", places ", map->places->low[i], map->places->high[i],
                 map->places->step[i]);
}

static void print_param(Text *out, const Kernel *kernel, const KParam *param) {
    text_add(out, "param %s: ", param->name);
    switch (param->kind) {
    case PARAM_BUFFER:
        text_add(out, "%s, align %d%s%s", dtype_name(param->buffer->elem), param->buffer->align,
                 param->buffer->written ? ", written" : "", param->buffer->late ? ", late" : "");
        if (param->buffer->scratch) {
            text_add(out, ", scratch of ");
            print_dims(out, kernel, &param->buffer->scratch, 1);
        }
        break;
    case PARAM_DIM:
        text_add(out, "dim ");
        print_dims(out, kernel, &param->dim, 1);
        break;
    case PARAM_TENSOR_MAP: print_tensor_map(out, kernel, &param->map); break;
    }
    text_add(out, "\n");
}

void kernel_print(Text *out, const Kernel *kernel) {
    text_add(out, "kernel %s: %d threads, grid (", kernel->name, kernel->threads);
    print_dims(out, kernel, kernel->grid, 3);
    text_add(out, ")");
    if (kernel->cluster[0] * kernel->cluster[1] * kernel->cluster[2] != 1)
        text_add(out, ", cluster (%d, %d, %d)", kernel->cluster[0], kernel->cluster[1], kernel->cluster[2]);
    if (kernel->rewrites)
        text_add(out, ", elements written more than once");
    if (kernel->gang > 1)
        text_add(out, ", gangs of %d", kernel->gang);
    if (kernel->smem_bytes)
        text_add(out, ", %lld bytes shared aligned to %d", (long long)kernel->smem_bytes, kernel->smem_align);
    if (kernel->min_blocks)
        text_add(out, ", at least %d blocks an SM", kernel->min_blocks);
    text_add(out, "\n");
    for (const char *line = kernel->summary; line && *line;) {
        size_t n = strcspn(line, "\n");
        text_add(out, "-- %.*s\n", (int)n, line);
        line += n + (line[n] == '\n');
    }
    for (size_t i = 0; i < kernel->params.n; i++)
        print_param(out, kernel, &kernel->params.at[i]);
    for (size_t i = 0; i < kernel->buffers.n; i++) {
        const KBuffer *buffer = kernel->buffers.at[i];
        if (buffer->space == SPACE_SHARED)
            text_add(out, "shared %s: %s[%lld] at %lld, align %d\n", buffer->name, dtype_name(buffer->elem),
                     (long long)buffer->count, (long long)buffer->offset, buffer->align);
    }
    text_add(out, "\n");
    print_block(out, kernel, &kernel->body, 0);
}
