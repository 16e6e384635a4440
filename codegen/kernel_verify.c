/* Whether a kernel keeps the invariants that printers and simulator rely on:
 *
 *  1. An expression's operands and result have the types that its kind and operation say; its tree has at
 *     most 2^20 nodes and 4096 levels (what is shared more is bound with a let).
 *  2. A variable is declared once, before its use, and used only inside the block that declares it.
 *  3. A let has a value where it is declared and is set nowhere else; a loop's variable is a let that only
 *     its loop sets.
 *  4. Every index of a register array is constant once loops marked UNROLL_FULL are unrolled, and not
 *     outside for sure.
 *  5. A loop marked UNROLL_FULL has constant bounds and step in that sense; a constant step is positive.
 *  6. Memory accesses are 1, 2, 4, 8 or 16 elements of together at most 128 bits, and at most what the
 *     buffer is aligned to.
 *  7. Registers of an access have the element's register type; u32 for raw accesses: whole words, or a part
 * of one.
 *  8. Elements of less than a byte move at even widths, but for a load of one element.
 *  9. Nothing is stored to a buffer that promises not to be written.
 * 10. Conditions and guards are bool.
 * 11. An atom exists on the target, and its static parameters are in range.
 * 12. Its operands have the count and types of its row; constants where the row says "n".
 * 13. What an atom writes is a variable, not a let.
 * 14. Named barriers have numbers 0 to 15 and whole warps.
 * 15. Threads are a multiple of 32 up to 1024; a cluster has at most 8 blocks; every grid dim is there.
 * 16. Shared buffers lie inside shared memory, aligned as they say; shared memory fits the target.
 * 17. Names of parameters, shared buffers and variables are unique. Every global buffer is a parameter, of a
 *     value or of scratch.
 * 18. Tensor maps: rank 1 to 5, boxes of 1 to 256, rows of 16-byte multiples that fit the swizzle, strides
 *     of 16 bytes.
 * 19. A gang has at most as many blocks as the target has SMs, and stands in for clusters.
 *
 * Alignment of indices, races and the ways of barriers are the simulator's to check. */
#include "codegen/kernel_print.h"
#include "codegen/kernel_value.h"
#include "codegen/kernel_verify.h"
#include "ir/base/checked.h"

#include <stdarg.h>

enum { VERIFY_EXPR_NODES = 1 << 20, VERIFY_EXPR_DEPTH = 4096 };

void verify_fail(Verify *v, const char *format, ...) {
    Text text = text_new(v->arena);
    va_list args;
    va_start(args, format);
    text_addv(&text, format, args);
    va_end(args);
    v->valid = false;
    if (!v->stmt) {
        diag_error(v->diags, DIAG_INTERNAL, (Span){0}, "kernel '%s': %s", v->kernel->name, text.at);
        return;
    }
    Text line = text_new(v->arena);
    if (v->nodes <= VERIFY_EXPR_NODES)
        kernel_print_stmt(&line, v->kernel, v->stmt);
    diag_error(v->diags, DIAG_INTERNAL, v->stmt->span, "kernel '%s': %s, in '%.*s'", v->kernel->name, text.at,
               line.n > 200 ? 200 : (int)line.n, line.at);
}

/* ---- expressions --------------------------------------------------------------------------------------- */

static StaticRange verify_expr(Verify *v, const KExpr *x);

static bool verify_var_use(Verify *v, const KVar *var) {
    if (var->id < 0 || (size_t)var->id >= v->kernel->vars.n || v->kernel->vars.at[var->id] != var) {
        verify_fail(v, "variable '%s' is not the kernel's", var->name);
        return false;
    }
    if (!v->vars[var->id].in_scope) {
        verify_fail(v, "variable '%s' is used where it is not declared", var->name);
        return false;
    }
    return true;
}

bool verify_buffer(Verify *v, const KBuffer *buffer) {
    if (buffer && buffer->id >= 0 && (size_t)buffer->id < v->kernel->buffers.n &&
        v->kernel->buffers.at[buffer->id] == buffer)
        return true;
    verify_fail(v, "a buffer is not the kernel's");
    return false;
}

static void verify_type(Verify *v, const KExpr *x, KType type, const char *what) {
    if (x->type != type)
        verify_fail(v, "%s has type %s where %s is due", what, ktype_name(x->type), ktype_name(type));
}

static void verify_index_type(Verify *v, const KExpr *x, const char *what) {
    if (!ktype_is_int(x->type))
        verify_fail(v, "%s has type %s, not an integer", what, ktype_name(x->type));
}

/* Rule 4: an index into a register array of which `count` elements from there on are touched. */
static void verify_register_index(Verify *v, const KVar *var, const KExpr *index, int count) {
    StaticRange range = index ? verify_expr(v, index) : (StaticRange){true, true, 0, 0};
    if (index)
        verify_index_type(v, index, "an array's index");
    if (!range.is_static)
        verify_fail(v, "an index of array '%s' is not constant after unrolling", var->name);
    int room = var->count ? var->count : 1;
    if (range.is_bounded && (range.high < 0 || range.low > room - count))
        verify_fail(v, "elements from %lld of '%s' are used, which has %d", (long long)range.low, var->name,
                    room);
}

/* The static range of an integer operation on static operands. */
static StaticRange verify_static_scalar(OpKind op, StaticRange a, StaticRange b) {
    StaticRange r = {.is_static = true};
    if (!a.is_bounded || !b.is_bounded)
        return r;
    bool exact = a.low == a.high && b.low == b.high;
    switch (op) {
    case OP_add:
        r.is_bounded = checked_add(a.low, b.low, &r.low) && checked_add(a.high, b.high, &r.high);
        break;
    case OP_sub:
        r.is_bounded = checked_sub(a.low, b.high, &r.low) && checked_sub(a.high, b.low, &r.high);
        break;
    case OP_mul:
        r.is_bounded = a.low >= 0 && b.low >= 0 && checked_mul(a.low, b.low, &r.low) &&
                       checked_mul(a.high, b.high, &r.high);
        break;
    case OP_div:
        r.is_bounded = a.low >= 0 && b.low > 0;
        if (r.is_bounded) {
            r.low = a.low / b.high;
            r.high = a.high / b.low;
        }
        break;
    case OP_mod:
        r.is_bounded = a.low >= 0 && b.low > 0;
        if (r.is_bounded) {
            r.low = exact ? a.low % b.low : 0;
            r.high = exact ? r.low : b.high - 1;
        }
        break;
    default:
        if (exact && op_info(op)->int_ref && op_info(op)->n_in <= 2) {
            r.is_bounded = true;
            r.low = r.high = op_info(op)->int_ref(a.low, b.low, 0);
        }
        break;
    }
    return r;
}

static StaticRange verify_scalar(Verify *v, const KExpr *x) {
    const OpInfo *info = op_info(x->op);
    StaticRange args[3] = {{0}};
    if (!op_is_scalar(x->op) || x->n_args != info->n_in) {
        verify_fail(v, "'%s' has %d operands", info->name, x->n_args);
        return (StaticRange){0};
    }
    bool is_static = true;
    for (int i = 0; i < x->n_args; i++) {
        args[i] = verify_expr(v, x->args[i]);
        is_static = is_static && args[i].is_static;
    }
    bool is_select = info->rule == RULE_SELECT;
    KType type = x->args[is_select]->type;
    if (is_select)
        verify_type(v, x->args[0], K_BOOL, "a select's condition");
    for (int i = is_select; i < x->n_args; i++)
        if (x->args[i]->type != type)
            verify_fail(v, "'%s' has operands of types %s and %s", info->name, ktype_name(type),
                        ktype_name(x->args[i]->type));
    if (!kvalue_scalar_takes(x->op, type))
        verify_fail(v, "'%s' is not defined on %s", info->name, ktype_name(type));
    if (x->type != kvalue_scalar_type(x->op, type))
        verify_fail(v, "'%s' gives %s, not %s", info->name, ktype_name(kvalue_scalar_type(x->op, type)),
                    ktype_name(x->type));
    if (!is_static || !ktype_is_int(type))
        return (StaticRange){.is_static = is_static};
    if (x->n_args == 1)
        args[1] = (StaticRange){true, true, 0, 0};
    return x->n_args <= 2 ? verify_static_scalar(x->op, args[0], args[1]) : (StaticRange){.is_static = true};
}

/* KX_CONVERT, KX_ROUND, KX_BITCAST, KX_PACK, KX_UNPACK. */
static StaticRange verify_change(Verify *v, const KExpr *x) {
    StaticRange first = {0};
    for (int i = 0; i < x->n_args; i++) {
        StaticRange range = verify_expr(v, x->args[i]);
        if (i == 0)
            first = range;
    }
    KType from = x->n_args ? x->args[0]->type : x->type;
    switch (x->kind) {
    case KX_CONVERT:
        if (x->n_args != 1)
            verify_fail(v, "a conversion has %d operands", x->n_args);
        return ktype_is_int(from) && ktype_is_int(x->type) ? first
                                                           : (StaticRange){.is_static = first.is_static};
    case KX_ROUND:
        if (x->n_args != 1 || !ktype_is_float(from) || x->type != from || !dtype_is_float(x->dtype))
            verify_fail(v, "a float is rounded to a float type, in its register's type");
        break;
    case KX_BITCAST:
        if (x->n_args != 1 || ktype_bits(from) != ktype_bits(x->type) || from == K_BOOL)
            verify_fail(v, "bits of %s do not become %s", ktype_name(from), ktype_name(x->type));
        break;
    case KX_PACK: {
        int bits = dtype_bits(x->dtype);
        if (bits > 32 || x->n_args != 32 / bits || x->type != K_U32)
            verify_fail(v, "a pack of %s has %d operands", dtype_name(x->dtype), x->n_args);
        for (int i = 0; i < x->n_args; i++)
            verify_type(v, x->args[i], ktype_of(x->dtype), "an operand of a pack");
        break;
    }
    case KX_UNPACK: {
        int bits = dtype_bits(x->dtype);
        if (x->n_args != 1 || bits > 32 || x->i < 0 || x->i >= 32 / bits)
            verify_fail(v, "there is no element %lld of %s in a word", (long long)x->i, dtype_name(x->dtype));
        verify_type(v, x->args[0], K_U32, "what is unpacked");
        if (x->type != ktype_of(x->dtype))
            verify_fail(v, "unpacked %s is %s, not %s", dtype_name(x->dtype), ktype_name(ktype_of(x->dtype)),
                        ktype_name(x->type));
        break;
    }
    default: break;
    }
    return (StaticRange){.is_static = first.is_static};
}

static void verify_param(Verify *v, const KExpr *x, KParamKind kind, KType type) {
    if (x->i < 0 || (size_t)x->i >= v->kernel->params.n || v->kernel->params.at[x->i].kind != kind)
        verify_fail(v, "there is no such parameter of number %lld", (long long)x->i);
    if (x->type != type)
        verify_fail(v, "a parameter has type %s, not %s", ktype_name(type), ktype_name(x->type));
}

static void verify_address(Verify *v, const KExpr *x, KSpace space, KType type) {
    if (!verify_buffer(v, x->buffer) || x->buffer->space != space || x->type != type || x->n_args != 1) {
        verify_fail(v, "an address is of a buffer in the other space, or of the wrong type");
        return;
    }
    verify_expr(v, x->args[0]);
    verify_index_type(v, x->args[0], "an address' index");
}

static StaticRange verify_node(Verify *v, const KExpr *x) {
    switch (x->kind) {
    case KX_INT:
        if (ktype_is_float(x->type) || kvalue_wrap(x->type, x->i) != x->i)
            verify_fail(v, "%lld is no %s", (long long)x->i, ktype_name(x->type));
        return (StaticRange){true, x->type != K_U64, x->i, x->i};
    case KX_FLOAT:
        if (!ktype_is_float(x->type))
            verify_fail(v, "a float constant has type %s", ktype_name(x->type));
        return (StaticRange){.is_static = true};
    case KX_VAR:
        if (!verify_var_use(v, x->var))
            return (StaticRange){.is_static = true};
        if (x->var->count)
            verify_fail(v, "array '%s' is used as a scalar", x->var->name);
        if (x->type != x->var->type)
            verify_fail(v, "'%s' has type %s, not %s", x->var->name, ktype_name(x->var->type),
                        ktype_name(x->type));
        return v->vars[x->var->id].value;
    case KX_ELEM:
        if (!verify_var_use(v, x->var))
            return (StaticRange){0};
        if (!x->var->count || x->n_args != 1 || x->type != x->var->type)
            verify_fail(v, "'%s' is no array of %s", x->var->name, ktype_name(x->type));
        else
            verify_register_index(v, x->var, x->args[0], 1);
        return (StaticRange){0};
    case KX_PARAM: verify_param(v, x, PARAM_DIM, K_I64); return (StaticRange){0};
    case KX_TENSOR_MAP: verify_param(v, x, PARAM_TENSOR_MAP, K_U64); return (StaticRange){0};
    case KX_SPECIAL:
        if (x->type != K_I32 || x->i < SPECIAL_TID || x->i > SPECIAL_CTA_RANK)
            verify_fail(v, "a special register is unknown or not i32");
        return (StaticRange){0};
    case KX_SCALAR: return verify_scalar(v, x);
    case KX_MUL_HI:
        for (int i = 0; i < x->n_args; i++) {
            verify_expr(v, x->args[i]);
            verify_type(v, x->args[i], K_U32, "an operand of mul_hi");
        }
        if (x->n_args != 2 || x->type != K_U32)
            verify_fail(v, "mul_hi takes two u32 and gives u32");
        return (StaticRange){0};
    case KX_CONVERT:
    case KX_ROUND:
    case KX_BITCAST:
    case KX_PACK:
    case KX_UNPACK: return verify_change(v, x);
    case KX_SMEM_ADDR: verify_address(v, x, SPACE_SHARED, K_U32); return (StaticRange){0};
    case KX_GLOBAL_ADDR: verify_address(v, x, SPACE_GLOBAL, K_U64); return (StaticRange){0};
    }
    verify_fail(v, "there is no expression of kind %d", (int)x->kind);
    return (StaticRange){0};
}

static StaticRange verify_expr(Verify *v, const KExpr *x) {
    if (v->nodes > VERIFY_EXPR_NODES)
        return (StaticRange){0}; /* reported already */
    if (++v->nodes > VERIFY_EXPR_NODES || v->depth == VERIFY_EXPR_DEPTH) {
        v->nodes = VERIFY_EXPR_NODES + 1;
        verify_fail(v, "an expression has more than %d nodes or %d levels", VERIFY_EXPR_NODES,
                    VERIFY_EXPR_DEPTH);
        return (StaticRange){0};
    }
    v->depth++;
    StaticRange range = verify_node(v, x);
    v->depth--;
    return range;
}

/* ---- statements ---------------------------------------------------------------------------------------- */

static void verify_block(Verify *v, const KBlock *block);

static bool verify_declare_var(Verify *v, const KVar *var, StaticRange value) {
    if (var->id < 0 || (size_t)var->id >= v->kernel->vars.n || v->kernel->vars.at[var->id] != var) {
        verify_fail(v, "variable '%s' is not the kernel's", var->name);
        return false;
    }
    if (v->vars[var->id].is_declared)
        verify_fail(v, "variable '%s' is declared twice", var->name);
    v->vars[var->id] = (VerifyVar){.is_declared = true, .in_scope = true, .value = value};
    return true;
}

static void verify_declare(Verify *v, const KStmt *stmt) {
    const KVar *var = stmt->var;
    StaticRange value = {0};
    if (stmt->expr) {
        value = verify_expr(v, stmt->expr);
        verify_type(v, stmt->expr, var->type, "a variable's first value");
    }
    if (var->count < 0)
        verify_fail(v, "array '%s' has %d elements", var->name, var->count);
    if (var->is_let && (!stmt->expr || var->count))
        verify_fail(v, "let '%s' has no value, or is an array", var->name);
    verify_declare_var(v, var, var->is_let ? value : (StaticRange){0});
}

static void verify_set(Verify *v, const KStmt *stmt) {
    verify_expr(v, stmt->expr);
    if (!verify_var_use(v, stmt->var))
        return;
    if (stmt->var->is_let)
        verify_fail(v, "'%s' is set once, where it is declared", stmt->var->name);
    if ((stmt->index != NULL) != (stmt->var->count != 0))
        verify_fail(v, "'%s' is set with%s an index", stmt->var->name, stmt->index ? "" : "out");
    else if (stmt->index)
        verify_register_index(v, stmt->var, stmt->index, 1);
    verify_type(v, stmt->expr, stmt->var->type, "what is set");
}

static void verify_access(Verify *v, const KStmt *stmt) {
    const KBuffer *buffer = stmt->buffer;
    if (!verify_buffer(v, buffer) || !verify_var_use(v, stmt->var))
        return;
    int bits = dtype_bits(buffer->elem), width = stmt->width;
    if (width < 1 || width > 32 || (width & (width - 1)) || width * bits > 128)
        verify_fail(v, "an access is %d elements of %d bits", width, bits);
    if (bits < 8 && width % 2 != 0 && !(width == 1 && stmt->kind == KS_LOAD && !stmt->raw))
        verify_fail(v, "an access of %d %s splits a byte", width, dtype_name(buffer->elem));
    if (width * bits / 8 > buffer->align && width > 1)
        verify_fail(v, "an access of %d bytes to '%s', which is aligned to %d", width * bits / 8,
                    buffer->name, buffer->align);
    KType wanted = stmt->raw ? K_U32 : ktype_of(buffer->elem);
    if (stmt->var->type != wanted)
        verify_fail(v, "'%s' has type %s where %s is due", stmt->var->name, ktype_name(stmt->var->type),
                    ktype_name(wanted));
    int registers = stmt->raw ? (width * bits + 31) / 32 : width;
    if (!stmt->var->count && stmt->at && !(stmt->at->kind == KX_INT && stmt->at->i == 0))
        verify_fail(v, "scalar '%s' is accessed with an index", stmt->var->name);
    verify_register_index(v, stmt->var, stmt->at, registers);
    StaticRange index = verify_expr(v, stmt->index);
    verify_index_type(v, stmt->index, "a buffer's index");
    if (index.is_static && index.is_bounded && index.low == index.high && width > 0 && index.low % width != 0)
        verify_fail(v, "index %lld is no multiple of the width %d", (long long)index.low, width);
    if (stmt->guard) {
        verify_expr(v, stmt->guard);
        verify_type(v, stmt->guard, K_BOOL, "a guard");
    }
    if (stmt->kind == KS_LOAD && stmt->var->is_let)
        verify_fail(v, "'%s' is set once, where it is declared", stmt->var->name);
    if (stmt->kind == KS_STORE && !buffer->written)
        verify_fail(v, "'%s' promises that nothing is written to it", buffer->name);
}

static void verify_for(Verify *v, const KStmt *stmt) {
    const KVar *var = stmt->var;
    StaticRange begin = verify_expr(v, stmt->begin), end = verify_expr(v, stmt->end), value = {0};
    if (var->count || !var->is_let || (var->type != K_I32 && var->type != K_I64))
        verify_fail(v, "a loop's variable is an i32 or i64 let");
    verify_type(v, stmt->begin, var->type, "a loop's first value");
    verify_type(v, stmt->end, var->type, "a loop's end");
    if (stmt->step_expr) {
        verify_expr(v, stmt->step_expr);
        verify_type(v, stmt->step_expr, var->type, "a loop's step");
    } else if (stmt->step <= 0) {
        verify_fail(v, "a loop's step is %lld", (long long)stmt->step);
    }
    if (stmt->unroll == UNROLL_FULL) {
        if (!begin.is_static || !end.is_static || stmt->step_expr)
            verify_fail(v, "a loop to be unrolled has bounds that are not constant");
        value = (StaticRange){.is_static = true,
                              .is_bounded = begin.is_bounded && end.is_bounded && end.high > begin.low,
                              .low = begin.low,
                              .high = end.high - 1};
    }
    if (!verify_declare_var(v, var, value))
        return;
    verify_block(v, &stmt->body);
    v->vars[var->id].in_scope = false;
}

static void verify_if(Verify *v, const KStmt *stmt) {
    verify_expr(v, stmt->expr);
    verify_type(v, stmt->expr, K_BOOL, "a condition");
    verify_block(v, &stmt->body);
    verify_block(v, &stmt->other);
}

static void verify_atom(Verify *v, const KStmt *stmt) {
    for (int i = 0; i < stmt->n_operands; i++) {
        const KOperand *operand = &stmt->operands[i];
        if (operand->var)
            verify_var_use(v, operand->var);
        else if (operand->expr)
            verify_expr(v, operand->expr);
    }
    const char *fault = verify_atom_fault(v->arena, v->kernel, stmt);
    if (fault)
        verify_fail(v, "%s", fault);
}

static void verify_stmt(Verify *v, const KStmt *stmt) {
    v->stmt = stmt;
    v->nodes = 0;
    switch (stmt->kind) {
    case KS_DECLARE: verify_declare(v, stmt); return;
    case KS_SET: verify_set(v, stmt); return;
    case KS_LOAD:
    case KS_STORE: verify_access(v, stmt); return;
    case KS_FOR: verify_for(v, stmt); return;
    case KS_IF: verify_if(v, stmt); return;
    case KS_ATOM: verify_atom(v, stmt); return;
    case KS_COMMENT:
        if (!stmt->name)
            verify_fail(v, "a comment has no text");
        return;
    }
    verify_fail(v, "there is no statement of kind %d", (int)stmt->kind);
}

static void verify_block(Verify *v, const KBlock *block) {
    const KStmt *outer = v->stmt;
    for (size_t i = 0; i < block->n; i++)
        verify_stmt(v, block->at[i]);
    for (size_t i = 0; i < block->n; i++) {
        const KStmt *stmt = block->at[i];
        if (stmt->kind == KS_DECLARE && stmt->var->id >= 0 && (size_t)stmt->var->id < v->kernel->vars.n)
            v->vars[stmt->var->id].in_scope = false;
    }
    v->stmt = outer;
}

bool kernel_verify(const Kernel *kernel, Diags *diags) {
    Verify v = {.kernel = kernel, .diags = diags, .arena = diags->arena, .valid = true};
    v.vars = ARENA_ARRAY(v.arena, VerifyVar, kernel->vars.n + 1);
    verify_head(&v);
    verify_block(&v, &kernel->body);
    return v.valid;
}
