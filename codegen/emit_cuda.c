/* Kernel IR as CUDA C++ for NVRTC and nvcc, without any header.
 *
 * The file that comes out: what the kernel is and the part of the graph that it computes, as a comment; the
 * sections of prelude/ that are used; a function for each atom; the kernel. Nothing is decided here: loops,
 * conditions, vector accesses and names are those of the kernel IR. */
#include "codegen/codegen.h"

#include <math.h>

#include "codegen/emit_cuda.h"
#include "codegen/kernel_value.h"
#include "ir/print.h"

extern const char codegen_prelude_text[]; /* prelude/ *.cuh, embedded by the Makefile */

static void cuda_block(EmitCuda *e, const KBlock *block);

static void cuda_indent(EmitCuda *e) {
    text_add(&e->body, "%*s", 4 * e->indent, "");
}

/* ---- names
 * ------------------------------------------------------------------------------------------------- */

/* The kernel's names are unique and no words of C++ (kernel_build.c); one that the prelude or an atom's
 * function has too gets an underscore. A kernel's own name never ends in one. */
static const char *cuda_name(EmitCuda *e, const Sections *taken, const char *name, char kind, size_t id) {
    if (e->is_form)
        name = text_format(e->arena, "%c%zu", kind, id);
    return sections_define(&e->prelude, name, strlen(name)) || sections_define(taken, name, strlen(name))
               ? text_format(e->arena, "%s_", name)
               : name;
}

static void cuda_collect_atoms(EmitCuda *e, const KBlock *block, Text *names) {
    for (size_t i = 0; i < block->n; i++) {
        const KStmt *stmt = block->at[i];
        cuda_collect_atoms(e, &stmt->body, names);
        cuda_collect_atoms(e, &stmt->other, names);
        if (stmt->kind == KS_ATOM) {
            text_add(names, "//! ");
            atom_name(names, (AtomId)stmt->atom, stmt->shape);
            text_add(names, "\n");
        }
    }
}

static void cuda_names(EmitCuda *e) {
    const Kernel *kernel = e->kernel;
    Text atoms = text_new(e->arena);
    cuda_collect_atoms(e, &kernel->body, &atoms);
    Sections taken = sections_parse(e->arena, atoms.n ? atoms.at : "", "//! ", kernel->target->sm);
    e->var_names = ARENA_ARRAY(e->arena, const char *, kernel->vars.n);
    e->buffer_names = ARENA_ARRAY(e->arena, const char *, kernel->buffers.n);
    e->param_names = ARENA_ARRAY(e->arena, const char *, kernel->params.n);
    for (size_t i = 0; i < kernel->vars.n; i++)
        e->var_names[i] = cuda_name(e, &taken, kernel->vars.at[i]->name, 'v', i);
    for (size_t i = 0; i < kernel->buffers.n; i++)
        e->buffer_names[i] = cuda_name(e, &taken, kernel->buffers.at[i]->name, 'b', i);
    for (size_t i = 0; i < kernel->params.n; i++)
        e->param_names[i] = cuda_name(e, &taken, kernel->params.at[i].name, 'p', i);
}

/* ---- comments
 * ---------------------------------------------------------------------------------------------- */

/* Text as line comments. A backslash at a line's end would join the next line to the comment. */
static void cuda_comment(Text *out, int indent, const char *text) {
    for (const char *line = text; *line;) {
        size_t bytes = strcspn(line, "\r\n");
        size_t shown = bytes;
        while (shown && (line[shown - 1] == '\\' || line[shown - 1] == ' '))
            shown--;
        text_add(out, "%*s//%s", indent, "", shown ? " " : "");
        text_add_bytes(out, line, shown);
        text_add(out, "\n");
        line += bytes + (line[bytes] != 0);
    }
}

/* ---- statements
 * -------------------------------------------------------------------------------------------- */

static void cuda_declare(EmitCuda *e, const KStmt *stmt) {
    const KVar *var = stmt->var;
    const char *name = e->var_names[var->id], *type = cuda_type_name(var->type);
    if (!var->count) {
        text_add(&e->body, "%s%s %s", var->is_let ? "const " : "", type, name);
        if (stmt->expr)
            text_add(&e->body, " = %s", cuda_expr_text(e, stmt->expr, PREC_ANY));
        text_add(&e->body, ";\n");
        return;
    }
    bool is_zero =
        stmt->expr && ((stmt->expr->kind == KX_INT && stmt->expr->i == 0) ||
                       (stmt->expr->kind == KX_FLOAT && stmt->expr->f == 0 && !signbit(stmt->expr->f)));
    text_add(&e->body, "%s %s[%d]%s;\n", type, name, var->count, is_zero ? " = {}" : "");
    if (stmt->expr && !is_zero) {
        cuda_indent(e);
        text_add(&e->body, "fill<%d, %s>(%s, %s);\n", var->count, type, name,
                 cuda_expr_text(e, stmt->expr, PREC_ANY));
    }
}

/* The operator of `x = x + y` that can be written `x += y`; 0: none. Integers that wrap are not sums in C++.
 */
static char cuda_update_operator(EmitCuda *e, const KStmt *stmt, const char *target) {
    const KExpr *x = stmt->expr;
    if (x->kind != KX_SCALAR || (x->op != OP_add && x->op != OP_sub && x->op != OP_mul))
        return 0;
    if (ktype_is_int(x->type) && emit_is_data(&e->facts, x))
        return 0;
    if (strcmp(cuda_expr_text(e, x->args[0], PREC_ANY), target) != 0)
        return 0;
    return x->op == OP_add ? '+' : x->op == OP_sub ? '-' : '*';
}

static void cuda_set(EmitCuda *e, const KStmt *stmt) {
    const char *target = e->var_names[stmt->var->id];
    if (stmt->index)
        target = text_format(e->arena, "%s[%s]", target, cuda_expr_text(e, stmt->index, PREC_ANY));
    char update = cuda_update_operator(e, stmt, target);
    if (update)
        text_add(&e->body, "%s %c= %s;\n", target, update, cuda_expr_text(e, stmt->expr->args[1], PREC_ANY));
    else
        text_add(&e->body, "%s = %s;\n", target, cuda_expr_text(e, stmt->expr, PREC_ANY));
}

/* How an access treats the caches, as a template argument; NULL: plainly. */
static const char *cuda_access(const KStmt *stmt) {
    const KBuffer *buffer = stmt->buffer;
    if (buffer->space != SPACE_GLOBAL)
        return NULL;
    if (stmt->kind == KS_STORE)
        return stmt->cache == CACHE_STREAM ? "WRITE_ONCE" : NULL;
    if (buffer->written)
        return NULL;
    if (buffer->late)
        return "READ_LATE";
    return stmt->cache == CACHE_STREAM ? "READ_ONCE" : stmt->cache == CACHE_KEEP ? "READ_KEEP" : "READ_ONLY";
}

/* Template arguments: a width (0: none) and an access. */
static const char *cuda_access_arguments(EmitCuda *e, const KStmt *stmt, int width) {
    const char *access = cuda_access(stmt);
    if (width)
        return access ? text_format(e->arena, "<%d, %s>", width, access)
                      : text_format(e->arena, "<%d>", width);
    return access ? text_format(e->arena, "<%s>", access) : "";
}

/* Registers of an access as a pointer: `x`, `x + 4`, `&x`. */
static const char *cuda_registers(EmitCuda *e, const KStmt *stmt) {
    const char *name = e->var_names[stmt->var->id];
    if (!stmt->var->count)
        return text_format(e->arena, "&%s", name);
    if (!stmt->at || (stmt->at->kind == KX_INT && stmt->at->i == 0))
        return name;
    return text_format(e->arena, "%s + %s", name, cuda_expr_text(e, stmt->at, PREC_ADD));
}

/* One register of an access as a value: `x`, `x[4]`. */
static const char *cuda_register(EmitCuda *e, const KStmt *stmt) {
    const char *name = e->var_names[stmt->var->id];
    if (!stmt->var->count)
        return name;
    return text_format(e->arena, "%s[%s]", name, stmt->at ? cuda_expr_text(e, stmt->at, PREC_ANY) : "0");
}

static const char *cuda_access_stem(EmitCuda *e, const KStmt *stmt) {
    const char *verb = stmt->kind == KS_LOAD ? "load" : "store";
    return text_format(e->arena, "%s_%s", verb, stmt->raw ? "raw" : dtype_name(stmt->buffer->elem));
}

/* The last argument of a load that is not always made. */
static const char *cuda_condition(EmitCuda *e, const KStmt *stmt) {
    return stmt->guard ? text_format(e->arena, ", %s", cuda_expr_text(e, stmt->guard, PREC_ANY)) : "";
}

/* The call that loads one element. */
static const char *cuda_load_scalar(EmitCuda *e, const KStmt *stmt) {
    const KBuffer *buffer = stmt->buffer;
    const char *function =
        text_format(e->arena, "%s%s", cuda_access_stem(e, stmt), cuda_access_arguments(e, stmt, 0));
    if (dtype_bits(buffer->elem) < 8)
        return text_format(e->arena, "%s(%s, %s%s)", function, e->buffer_names[buffer->id],
                           cuda_expr_text(e, stmt->index, PREC_ANY), cuda_condition(e, stmt));
    return text_format(e->arena, "%s(%s%s)", function, cuda_address_text(e, buffer, stmt->index),
                       cuda_condition(e, stmt));
}

static int cuda_raw_bytes(const KStmt *stmt) {
    return stmt->width * dtype_bits(stmt->buffer->elem) / 8;
}

static void cuda_load(EmitCuda *e, const KStmt *stmt) {
    if (stmt->width == 1 && !stmt->raw) {
        text_add(&e->body, "%s = %s;\n", cuda_register(e, stmt), cuda_load_scalar(e, stmt));
        return;
    }
    text_add(&e->body, "%s%s(%s, %s%s);\n", cuda_access_stem(e, stmt),
             cuda_access_arguments(e, stmt, stmt->raw ? cuda_raw_bytes(stmt) : stmt->width),
             cuda_registers(e, stmt), cuda_address_text(e, stmt->buffer, stmt->index),
             cuda_condition(e, stmt));
}

static void cuda_store(EmitCuda *e, const KStmt *stmt) {
    if (stmt->guard) {
        text_add(&e->body, "if (%s)\n", cuda_expr_text(e, stmt->guard, PREC_ANY));
        e->indent++;
        cuda_indent(e);
        e->indent--;
    }
    const char *address = cuda_address_text(e, stmt->buffer, stmt->index);
    text_add(&e->body, "%s", cuda_access_stem(e, stmt));
    if (stmt->width == 1 && !stmt->raw)
        text_add(&e->body, "%s(%s, %s);\n", cuda_access_arguments(e, stmt, 0), address,
                 cuda_register(e, stmt));
    else
        text_add(&e->body, "%s(%s, %s);\n",
                 cuda_access_arguments(e, stmt, stmt->raw ? cuda_raw_bytes(stmt) : stmt->width), address,
                 cuda_registers(e, stmt));
}

static void cuda_for(EmitCuda *e, const KStmt *stmt) {
    if (stmt->unroll != UNROLL_AUTO) {
        text_add(&e->body, stmt->unroll == UNROLL_FULL ? "#pragma unroll\n" : "#pragma unroll 1\n");
        cuda_indent(e);
    }
    const char *name = e->var_names[stmt->var->id];
    text_add(&e->body, "for (%s %s = %s; ", cuda_type_name(stmt->var->type), name,
             cuda_expr_text(e, stmt->begin, PREC_ANY));
    text_add(&e->body, "%s < %s; ", name, cuda_expr_text(e, stmt->end, PREC_SHIFT));
    if (stmt->step_expr)
        text_add(&e->body, "%s += %s) {\n", name, cuda_expr_text(e, stmt->step_expr, PREC_ANY));
    else if (stmt->step == 1)
        text_add(&e->body, "%s++) {\n", name);
    else
        text_add(&e->body, "%s += %lld) {\n", name, (long long)stmt->step);
    cuda_block(e, &stmt->body);
    cuda_indent(e);
    text_add(&e->body, "}\n");
}

static void cuda_if_head(EmitCuda *e, const KStmt *stmt, const char *before) {
    text_add(&e->body, "%sif (%s) {", before, cuda_expr_text(e, stmt->expr, PREC_ANY));
    if (stmt->name && !e->is_form)
        cuda_comment(&e->body, 1, stmt->name);
    else
        text_add(&e->body, "\n");
}

static void cuda_if(EmitCuda *e, const KStmt *stmt) {
    cuda_if_head(e, stmt, "");
    cuda_block(e, &stmt->body);
    while (stmt->other.n == 1 && stmt->other.at[0]->kind == KS_IF) {
        stmt = stmt->other.at[0];
        cuda_indent(e);
        cuda_if_head(e, stmt, "} else ");
        cuda_block(e, &stmt->body);
    }
    if (stmt->other.n) {
        cuda_indent(e);
        text_add(&e->body, "} else {\n");
        cuda_block(e, &stmt->other);
    }
    cuda_indent(e);
    text_add(&e->body, "}\n");
}

/* A scalar that is declared and then loaded, or an atom's result, becomes one declaration with a value. */
static bool cuda_is_set_next(const KBlock *block, size_t i) {
    const KStmt *stmt = block->at[i];
    if (stmt->kind != KS_DECLARE || stmt->expr || stmt->var->count || i + 1 >= block->n)
        return false;
    const KStmt *next = block->at[i + 1];
    if (next->kind == KS_ATOM)
        return cuda_atom_sets(next, stmt->var);
    return next->kind == KS_LOAD && next->var == stmt->var && next->width == 1 && !next->raw;
}

static void cuda_stmt(EmitCuda *e, const KStmt *stmt) {
    switch (stmt->kind) {
    case KS_DECLARE: cuda_declare(e, stmt); break;
    case KS_SET: cuda_set(e, stmt); break;
    case KS_LOAD: cuda_load(e, stmt); break;
    case KS_STORE: cuda_store(e, stmt); break;
    case KS_FOR: cuda_for(e, stmt); break;
    case KS_IF: cuda_if(e, stmt); break;
    case KS_ATOM: cuda_atom_call(e, stmt); break;
    case KS_COMMENT: break; /* printed by cuda_block(), before the indentation */
    }
}

static void cuda_block(EmitCuda *e, const KBlock *block) {
    e->indent++;
    for (size_t i = 0; i < block->n; i++) {
        const KStmt *stmt = block->at[i];
        if (stmt->kind == KS_COMMENT) {
            if (e->is_form)
                continue;
            if (i > 0 && block->at[i - 1]->kind != KS_COMMENT)
                text_add(&e->body, "\n");
            cuda_comment(&e->body, 4 * e->indent, stmt->name);
            continue;
        }
        cuda_indent(e);
        if (cuda_is_set_next(block, i))
            text_add(&e->body, "%s ", cuda_type_name(block->at[i++]->var->type));
        cuda_stmt(e, block->at[i]);
    }
    e->indent--;
}

/* ---- the whole
 * --------------------------------------------------------------------------------------------- */

static void cuda_head(EmitCuda *e, Text *out) {
    const Kernel *kernel = e->kernel;
    text_add(out, "// %s, for %s: %d threads a block, %lld bytes of shared memory\n", kernel->name,
             kernel->target->name, kernel->threads, (long long)kernel->smem_bytes);
    if (kernel->cluster[0] * kernel->cluster[1] * kernel->cluster[2] > 1)
        text_add(out, "// clusters of %d x %d x %d blocks, set by the launch\n", kernel->cluster[0],
                 kernel->cluster[1], kernel->cluster[2]);
    if (kernel->gang > 1)
        text_add(out, "// gangs of %d blocks that wait for each other: a cooperative launch\n", kernel->gang);
    if (kernel->summary)
        cuda_comment(out, 0, kernel->summary);
    if (kernel->region && kernel->graph && kernel->region->values.n) {
        text_add(out, "//\n");
        for (const Region *part = kernel->region; part; part = part->guest)
            for (size_t i = 0; i < part->values.n; i++) {
                Text line = text_new(e->arena);
                value_print(&line, kernel->graph, part->values.at[i]);
                cuda_comment(out, 0, text_format(e->arena, "    %s", line.at));
            }
    }
    text_add(out, "\n");
}

static void cuda_signature(EmitCuda *e, Text *out) {
    const Kernel *kernel = e->kernel;
    text_add(out, "extern \"C\" __global__ void __launch_bounds__(%d", kernel->threads);
    if (kernel->min_blocks)
        text_add(out, ", %d", kernel->min_blocks);
    text_add(out, ")\n%s(", e->is_form ? "kernel" : kernel->name);
    for (size_t i = 0; i < kernel->params.n; i++) {
        const KParam *param = &kernel->params.at[i];
        const char *name = e->param_names[i];
        text_add(out, i ? ",\n    " : "\n    ");
        switch (param->kind) {
        case PARAM_BUFFER:
            text_add(out, "%s%s *__restrict__ %s", param->buffer->written ? "" : "const ",
                     cuda_element_name(param->buffer->elem), e->buffer_names[param->buffer->id]);
            break;
        case PARAM_DIM: text_add(out, "const i64 %s", name); break;
        case PARAM_TENSOR_MAP: text_add(out, "const __grid_constant__ TensorMap %s", name); break;
        }
    }
    text_add(out, ") {\n");
}

static void cuda_shared(EmitCuda *e, Text *out) {
    const Kernel *kernel = e->kernel;
    if (!kernel->smem_bytes)
        return;
    text_add(out, "    extern __shared__ __align__(%d) unsigned char smem[];\n", kernel->smem_align);
    for (size_t i = 0; i < kernel->buffers.n; i++) {
        const KBuffer *buffer = kernel->buffers.at[i];
        if (buffer->space == SPACE_SHARED)
            text_add(out, "    %s *const %s = (%s *)(smem + %lld);\n", cuda_element_name(buffer->elem),
                     e->buffer_names[i], cuda_element_name(buffer->elem), (long long)buffer->offset);
    }
    text_add(out, "\n");
}

static void cuda_emit(Text *out, const Kernel *kernel, bool is_form) {
    Arena *arena = out->arena;
    EmitCuda *e = ARENA_NEW(arena, EmitCuda);
    e->arena = arena;
    e->kernel = kernel;
    e->is_form = is_form;
    e->body = text_new(arena);
    e->facts = emit_facts(arena, kernel);
    e->prelude = sections_parse(arena, codegen_prelude_text, "//! ", kernel->target->sm);
    cuda_names(e);
    cuda_block(e, &kernel->body);

    Text frame = text_new(arena), atoms = text_new(arena);
    cuda_signature(e, &frame);
    cuda_shared(e, &frame);
    cuda_atom_functions(e, &atoms);
    sections_use(&e->prelude, frame.at, frame.n);
    sections_use(&e->prelude, e->body.n ? e->body.at : "", e->body.n);
    sections_use(&e->prelude, atoms.n ? atoms.at : "", atoms.n);

    if (!is_form)
        cuda_head(e, out);
    sections_print(&e->prelude, out);
    text_add_bytes(out, atoms.n ? atoms.at : "", atoms.n);
    text_add_bytes(out, frame.at, frame.n);
    cuda_lines(out, e->body.n ? e->body.at : "");
    text_add(out, "}\n");
}

void emit_cuda(Text *out, const Kernel *kernel) {
    cuda_emit(out, kernel, false);
}

void emit_form(Text *out, const Kernel *kernel) {
    text_add(out, "// parameters aligned to");
    for (size_t i = 0; i < kernel->params.n; i++) {
        const KParam *param = &kernel->params.at[i];
        text_add(out, " %d", param->kind == PARAM_BUFFER ? param->buffer->align : 0);
    }
    text_add(out, "\n");
    cuda_emit(out, kernel, true);
}
