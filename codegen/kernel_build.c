/* Building kernel IR: parameters, memory, variables, statements. Expressions are built in kernel_expr.c; see
 * kernel_build.h. */
#include "codegen/kernel_build.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "codegen/kernel_index.h"
#include "codegen/kernel_sweep.h"
#include "ir/base/checked.h"

/* ---- names --------------------------------------------------------------------------------------------- */

/* A taken name, in a chained hash table. `next_number` is tried first when it is asked for again. */
typedef struct BuildName {
    const char *name;
    int next_number;
    struct BuildName *next;
} BuildName;

enum { BUILD_NAME_BUCKETS = 512 };

struct BuildNames {
    BuildName *buckets[BUILD_NAME_BUCKETS];
};

/* What a printed kernel's text may not use for its own things: words of C++ and of CUDA. Names of operations
 * and element types, which printers use as functions and types, are added from their tables. */
static const char *const build_reserved[] = {
    "alignas",   "alignof",   "and",      "asm",      "auto",    "bitand",   "bitor",     "bool",
    "break",     "case",      "catch",    "char",     "class",   "compl",    "concept",   "const",
    "constexpr", "continue",  "decltype", "default",  "delete",  "do",       "double",    "else",
    "enum",      "explicit",  "export",   "extern",   "false",   "float",    "for",       "friend",
    "goto",      "if",        "inline",   "int",      "long",    "mutable",  "namespace", "new",
    "noexcept",  "not",       "nullptr",  "operator", "or",      "private",  "protected", "public",
    "register",  "requires",  "return",   "short",    "signed",  "sizeof",   "static",    "struct",
    "switch",    "template",  "this",     "throw",    "true",    "try",      "typedef",   "typeid",
    "typename",  "union",     "unsigned", "using",    "virtual", "void",     "volatile",  "while",
    "xor",       "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "half",      "main",
    "smem",      "NAN",       "INFINITY", "fabs",     "fmax",    "fmin",     "fmod",      "rint",
    "printf",    "memcpy",    "assert",
};

static unsigned build_hash(const char *name) {
    unsigned hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash % BUILD_NAME_BUCKETS;
}

static BuildName *build_find_name(const Builder *b, const char *name) {
    BuildName *entry = b->names->buckets[build_hash(name)];
    while (entry && strcmp(entry->name, name) != 0)
        entry = entry->next;
    return entry;
}

static void build_take_name(Builder *b, const char *name) {
    BuildName *entry = ARENA_NEW(b->arena, BuildName);
    BuildName **bucket = &b->names->buckets[build_hash(name)];
    *entry = (BuildName){.name = name, .next_number = 2, .next = *bucket};
    *bucket = entry;
}

/* `name` as a C identifier that nothing else in the kernel has. */
static const char *build_unique_name(Builder *b, const char *name) {
    Text clean = text_new(b->arena);
    if (!name || !*name)
        name = "v";
    if (isdigit((unsigned char)*name))
        text_add_bytes(&clean, "v", 1);
    for (const char *at = name; *at; at++) {
        char c = isalnum((unsigned char)*at) ? *at : '_';
        text_add_bytes(&clean, &c, 1);
    }
    BuildName *taken = build_find_name(b, clean.at);
    if (!taken) {
        build_take_name(b, clean.at);
        return clean.at;
    }
    for (;;) {
        const char *numbered = text_format(b->arena, "%s_%d", clean.at, taken->next_number++);
        if (!build_find_name(b, numbered)) {
            build_take_name(b, numbered);
            return numbered;
        }
    }
}

/* ---- the kernel ---------------------------------------------------------------------------------------- */

Builder builder_new(Arena *arena, const Region *region, const Graph *graph, const Target *target,
                    Diags *diags) {
    Builder b = {.arena = arena, .diags = diags};
    b.names = ARENA_NEW(arena, struct BuildNames);
    for (size_t i = 0; i < sizeof build_reserved / sizeof *build_reserved; i++)
        build_take_name(&b, build_reserved[i]);
    for (int i = 0; i < OP_SCALAR_COUNT; i++) {
        const char *name = op_info((OpKind)i)->name;
        build_take_name(&b, name);
        build_take_name(&b, text_format(arena, "%sf", name)); /* expf and its like */
    }
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (!build_find_name(&b, dtype_name((DType)i)))
            build_take_name(&b, dtype_name((DType)i));

    Kernel *kernel = ARENA_NEW(arena, Kernel);
    kernel->arena = arena;
    kernel->graph = graph;
    kernel->region = region;
    kernel->target = target;
    kernel->name = region && region->name ? region->name : "kernel";
    for (int i = 0; i < 3; i++)
        kernel->cluster[i] = 1;
    kernel->gang = 1;
    kernel->smem_align = 16;
    kernel->summary = "";
    build_take_name(&b, kernel->name);
    b.kernel = kernel;
    vec_push(arena, &b.open, &kernel->body);
    return b;
}

Kernel *builder_finish(Builder *b) {
    Kernel *kernel = b->kernel;
    if (b->open.n != 1)
        diag_error(b->diags, DIAG_INTERNAL, (Span){0}, "kernel '%s': %d blocks are still open", kernel->name,
                   (int)b->open.n - 1);
    for (int i = 0; i < 3; i++)
        if (!kernel->grid[i] && kernel->graph)
            kernel->grid[i] = dim_const(kernel->graph->dims, 1);
    if (!kernel_verify(kernel, b->diags) || b->open.n != 1)
        return NULL;
    kernel_sweep(kernel);
    return kernel;
}

/* ---- parameters and memory ----------------------------------------------------------------------------- */

static KBuffer *build_buffer(Builder *b, const char *name, DType elem, KSpace space) {
    KBuffer *buffer = ARENA_NEW(b->arena, KBuffer);
    buffer->name = build_unique_name(b, name);
    buffer->elem = elem;
    buffer->space = space;
    buffer->id = (int)b->kernel->buffers.n;
    vec_push(b->arena, &b->kernel->buffers, buffer);
    return buffer;
}

KBuffer *k_global(Builder *b, const Value *value, bool written) {
    Kernel *kernel = b->kernel;
    for (size_t i = 0; i < kernel->params.n; i++) {
        KBuffer *known = kernel->params.at[i].buffer;
        if (kernel->params.at[i].kind == PARAM_BUFFER && known->value && known->value == value) {
            known->written |= written;
            return known;
        }
    }
    const char *name = kernel->graph && kernel->graph->names ? kernel->graph->names[value->id]
                       : value->name                         ? value->name
                                                             : text_format(b->arena, "v%u", value->id);
    KBuffer *buffer = build_buffer(b, name, value->dtype, SPACE_GLOBAL);
    buffer->written = written;
    buffer->late = kernel->waits && !written && value->op != OP_input;
    buffer->align = 16;
    buffer->value = value;
    KParam param = {.kind = PARAM_BUFFER, .name = buffer->name, .buffer = buffer};
    vec_push(b->arena, &kernel->params, param);
    return buffer;
}

KBuffer *k_scratch(Builder *b, const char *name, DType elem, const Dim *count, bool is_signal) {
    KBuffer *buffer = build_buffer(b, name, elem, SPACE_GLOBAL);
    buffer->written = true;
    buffer->align = 16;
    buffer->scratch = count;
    buffer->is_signal = is_signal;
    KParam param = {.kind = PARAM_BUFFER, .name = buffer->name, .buffer = buffer};
    vec_push(b->arena, &b->kernel->params, param);
    return buffer;
}

/* Shared memory's base is aligned to 16, 128 (TMA) or 1024 (the period of the 128-byte swizzle). */
static void build_smem_align(Kernel *kernel, int align) {
    int needed = align <= 16 ? 16 : align <= 128 ? 128 : 1024;
    if (needed > kernel->smem_align)
        kernel->smem_align = needed;
}

static KBuffer *build_shared(Builder *b, const char *name, DType elem, int64_t count, int64_t offset,
                             int align) {
    KBuffer *buffer = build_buffer(b, name, elem, SPACE_SHARED);
    int64_t bytes = 0, end = 0;
    if (count < 0 || offset < 0 || !dtype_bytes(elem, count, &bytes) || !checked_add(offset, bytes, &end)) {
        diag_error(b->diags, DIAG_INTERNAL, (Span){0},
                   "kernel '%s': shared buffer '%s' of %lld elements is too large", b->kernel->name, name,
                   (long long)count);
        count = 0;
    }
    buffer->written = true;
    buffer->offset = offset;
    buffer->count = count;
    buffer->align = align;
    if (end > b->kernel->smem_bytes)
        b->kernel->smem_bytes = end;
    return buffer;
}

KBuffer *k_shared(Builder *b, const char *name, DType elem, int64_t count, int align) {
    build_smem_align(b->kernel, align);
    return build_shared(b, name, elem, count, round_up(b->kernel->smem_bytes, align), align);
}

void k_partial(Builder *b, const KBuffer *buffer) {
    b->kernel->buffers.at[buffer->id]->is_partial = true;
}

KBuffer *k_shared_at(Builder *b, const char *name, DType elem, int64_t count, int64_t offset) {
    int align = b->kernel->smem_align;
    while (align > 1 && offset % align != 0)
        align /= 2;
    return build_shared(b, name, elem, count, offset, align);
}

int k_tensor_map(Builder *b, const char *name, KTensorMap map) {
    KParam param = {.kind = PARAM_TENSOR_MAP, .name = build_unique_name(b, name), .map = map};
    vec_push(b->arena, &b->kernel->params, param);
    return (int)b->kernel->params.n - 1;
}

int k_dim_param(Builder *b, const Dim *dim, const char *name) {
    Kernel *kernel = b->kernel;
    for (size_t i = 0; i < kernel->params.n; i++)
        if (kernel->params.at[i].kind == PARAM_DIM && kernel->params.at[i].dim == dim)
            return (int)i;
    KParam param = {.kind = PARAM_DIM, .name = build_unique_name(b, name), .dim = dim};
    vec_push(b->arena, &kernel->params, param);
    return (int)kernel->params.n - 1;
}

/* ---- statements ---------------------------------------------------------------------------------------- */

static KStmt *build_stmt(Builder *b, KStmtKind kind) {
    KStmt *stmt = ARENA_NEW(b->arena, KStmt);
    stmt->kind = kind;
    stmt->span = b->span;
    vec_push(b->arena, b->open.at[b->open.n - 1], stmt);
    return stmt;
}

static KVar *build_var(Builder *b, const char *name, KType type, int count, bool is_let) {
    KVar *var = ARENA_NEW(b->arena, KVar);
    *var = (KVar){.name = build_unique_name(b, name), .type = type, .count = count, .is_let = is_let};
    var->id = (int)b->kernel->vars.n;
    vec_push(b->arena, &b->kernel->vars, var);
    return var;
}

static const KVar *build_declare(Builder *b, const char *name, KType type, int count, bool is_let,
                                 const KExpr *value) {
    KVar *var = build_var(b, name, type, count, is_let);
    var->value = is_let ? value : NULL;
    KStmt *stmt = build_stmt(b, KS_DECLARE);
    stmt->var = var;
    stmt->expr = value;
    return var;
}

const KVar *build_warp(Builder *b) {
    if (b->warp)
        return b->warp;
    KExpr *special = ARENA_NEW(b->arena, KExpr);
    *special = (KExpr){.kind = KX_SPECIAL, .type = K_I32, .i = SPECIAL_WARP};
    KStmt *stmt = ARENA_NEW(b->arena, KStmt);
    stmt->kind = KS_DECLARE;
    stmt->var = b->warp = build_var(b, "warp", K_I32, 0, true);
    stmt->expr = special;
    KBlock *body = &b->kernel->body;
    vec_push(b->arena, body, stmt);
    memmove(body->at + 1, body->at, (body->n - 1) * sizeof *body->at);
    body->at[0] = stmt;
    return b->warp;
}

const KVar *k_let(Builder *b, const char *name, const KExpr *value) {
    return build_declare(b, name, value->type, 0, true, value);
}

const KExpr *k_let_expr(Builder *b, const char *name, const KExpr *value) {
    bool is_atomic = value->kind == KX_INT || value->kind == KX_FLOAT || value->kind == KX_PARAM ||
                     (value->kind == KX_VAR && value->var->is_let);
    return is_atomic ? value : k_var(b, k_let(b, name, value));
}

const KVar *k_variable(Builder *b, const char *name, KType type, const KExpr *value) {
    return build_declare(b, name, type, 0, false, value);
}

const KVar *k_array(Builder *b, const char *name, KType type, int count, const KExpr *fill) {
    return build_declare(b, name, type, count, false, fill);
}

void k_set(Builder *b, const KVar *var, const KExpr *value) {
    k_set_elem(b, var, NULL, value);
}

void k_set_elem(Builder *b, const KVar *array, const KExpr *index, const KExpr *value) {
    KStmt *stmt = build_stmt(b, KS_SET);
    stmt->var = array;
    stmt->index = index;
    stmt->expr = value;
}

static void build_access(Builder *b, KStmtKind kind, const KVar *var, const KExpr *at, const KBuffer *buffer,
                         const KExpr *index, int width, const KExpr *guard, KCache cache, bool raw) {
    KStmt *stmt = build_stmt(b, kind);
    stmt->var = var;
    stmt->at = at;
    stmt->buffer = buffer;
    stmt->index = dtype_bits(buffer->elem) < 8 ? index : k_index_unrolled_last(b, index);
    stmt->width = width;
    stmt->guard = guard && guard->kind == KX_INT && guard->i ? NULL : guard;
    stmt->cache = cache;
    stmt->raw = raw;
}

void k_load(Builder *b, const KVar *dst, const KExpr *at, const KBuffer *buffer, const KExpr *index,
            int width, const KExpr *guard, KCache cache) {
    build_access(b, KS_LOAD, dst, at, buffer, index, width, guard, cache, false);
}

const KExpr *k_load_scalar(Builder *b, const char *name, const KBuffer *buffer, const KExpr *index,
                           const KExpr *guard) {
    const KVar *var = k_variable(b, name, ktype_of(buffer->elem), NULL);
    k_load(b, var, NULL, buffer, index, 1, guard, CACHE_DEFAULT);
    return k_var(b, var);
}

void k_store(Builder *b, const KBuffer *buffer, const KExpr *index, const KVar *src, const KExpr *at,
             int width, const KExpr *guard, KCache cache) {
    build_access(b, KS_STORE, src, at, buffer, index, width, guard, cache, false);
}

void k_store_scalar(Builder *b, const KBuffer *buffer, const KExpr *index, const KExpr *value,
                    const KExpr *guard) {
    value = k_convert(b, value, ktype_of(buffer->elem));
    const KVar *src = value->kind == KX_VAR ? value->var : k_let(b, "stored", value);
    k_store(b, buffer, index, src, NULL, 1, guard, CACHE_DEFAULT);
}

void k_load_raw(Builder *b, const KVar *dst, const KExpr *at, const KBuffer *buffer, const KExpr *index,
                int width, const KExpr *guard, KCache cache) {
    build_access(b, KS_LOAD, dst, at, buffer, index, width, guard, cache, true);
}

void k_store_raw(Builder *b, const KBuffer *buffer, const KExpr *index, const KVar *src, const KExpr *at,
                 int width, const KExpr *guard, KCache cache) {
    build_access(b, KS_STORE, src, at, buffer, index, width, guard, cache, true);
}

/* ---- control ------------------------------------------------------------------------------------------- */

static KStmt *build_for(Builder *b, const char *name, const KExpr *begin, const KExpr *end, KUnroll unroll) {
    KVar *var = build_var(b, name, begin->type, 0, true);
    var->low = begin->kind == KX_INT ? begin->i : 0;
    var->high = end->kind == KX_INT ? end->i - 1 : INT64_MAX;
    var->is_unrolled = unroll == UNROLL_FULL;
    var->is_loop = begin->kind == KX_INT && begin->i >= 0;
    KStmt *stmt = build_stmt(b, KS_FOR);
    stmt->var = var;
    stmt->begin = begin;
    stmt->end = end;
    stmt->unroll = unroll;
    vec_push(b->arena, &b->open, &stmt->body);
    return stmt;
}

const KExpr *k_for_begin(Builder *b, const char *name, const KExpr *begin, const KExpr *end, int64_t step,
                         KUnroll unroll) {
    KStmt *stmt = build_for(b, name, begin, end, unroll);
    stmt->step = step;
    return k_var(b, stmt->var);
}

const KExpr *k_for_step_begin(Builder *b, const char *name, const KExpr *begin, const KExpr *end,
                              const KExpr *step) {
    KStmt *stmt = build_for(b, name, begin, end, UNROLL_NONE);
    stmt->step_expr = step;
    return k_var(b, stmt->var);
}

void k_if_begin(Builder *b, const KExpr *condition) {
    k_role_begin(b, NULL, condition);
}

void k_role_begin(Builder *b, const char *role, const KExpr *condition) {
    KStmt *stmt = build_stmt(b, KS_IF);
    stmt->name = role;
    stmt->expr = condition;
    vec_push(b->arena, &b->open, &stmt->body);
}

/* The statement whose body is the innermost open block; NULL where only the kernel's body is open. */
static KStmt *build_enclosing(Builder *b) {
    if (b->open.n < 2)
        return NULL;
    const KBlock *parent = b->open.at[b->open.n - 2];
    return parent->at[parent->n - 1];
}

void k_else(Builder *b) {
    KStmt *stmt = build_enclosing(b);
    if (!stmt || stmt->kind != KS_IF || b->open.at[b->open.n - 1] != &stmt->body) {
        diag_error(b->diags, DIAG_INTERNAL, (Span){0}, "kernel '%s': else without if", b->kernel->name);
        return;
    }
    b->open.at[b->open.n - 1] = &stmt->other;
}

/* An unrolled loop just closed that nothing was put into says nothing: templates need not know beforehand. */
static void build_drop_empty(KBlock *block) {
    const KStmt *last = block->n ? block->at[block->n - 1] : NULL;
    if (last && last->kind == KS_FOR && last->unroll == UNROLL_FULL && last->body.n == 0)
        block->n--;
}

void k_end(Builder *b) {
    if (b->open.n < 2) {
        diag_error(b->diags, DIAG_INTERNAL, (Span){0}, "kernel '%s': end of a block that is not open",
                   b->kernel->name);
        return;
    }
    b->open.n--;
    build_drop_empty(b->open.at[b->open.n - 1]);
}

void k_comment(Builder *b, const char *format, ...) {
    Text text = text_new(b->arena);
    va_list args;
    va_start(args, format);
    text_addv(&text, format, args);
    va_end(args);
    build_stmt(b, KS_COMMENT)->name = text.at;
}

/* ---- atoms --------------------------------------------------------------------------------------------- */

void k_atom(Builder *b, AtomId atom, const int *shape, const KOperand *operands, int n_operands) {
    KStmt *stmt = build_stmt(b, KS_ATOM);
    stmt->atom = (int)atom;
    size_t n_shape = strlen(atom_info(atom)->shape);
    if (n_shape)
        memcpy(stmt->shape, shape, n_shape * sizeof *shape);
    stmt->operands = ARENA_ARRAY(b->arena, KOperand, (size_t)n_operands);
    if (n_operands)
        memcpy(stmt->operands, operands, (size_t)n_operands * sizeof *operands);
    stmt->n_operands = n_operands;
}

KOperand k_reg(const KVar *var) {
    return (KOperand){.var = var, .at = 0, .count = var->count ? var->count : 1};
}

KOperand k_regs(const KVar *array, int at, int count) {
    return (KOperand){.var = array, .at = at, .count = count};
}

KOperand k_operand(const KExpr *expr) {
    return (KOperand){.expr = expr, .count = 1};
}

void k_barrier(Builder *b) {
    if (!b->kernel->threads)
        diag_error(b->diags, DIAG_INTERNAL, (Span){0},
                   "kernel '%s': a barrier before the number of threads is set", b->kernel->name);
    k_named_barrier(b, 0, b->kernel->threads);
}

void k_cluster_barrier(Builder *b) {
    k_atom(b, ATOM_cluster_arrive, NULL, NULL, 0);
    k_atom(b, ATOM_cluster_wait, NULL, NULL, 0);
}

void k_named_barrier(Builder *b, int id, int threads) {
    KOperand operands[] = {k_operand(k_i32(b, id)), k_operand(k_i32(b, threads))};
    k_atom(b, ATOM_bar_sync, NULL, operands, 2);
}

/* One 32-bit register through the warp. */
static const KExpr *build_shuffle_word(Builder *b, const KExpr *word, int mask) {
    const KVar *result = k_variable(b, "shuffled", K_U32, NULL);
    KOperand operands[] = {k_reg(result), k_operand(word), k_operand(k_i32(b, mask))};
    k_atom(b, ATOM_shuffle_xor, NULL, operands, 3);
    return k_var(b, result);
}

const KExpr *k_shuffle_xor(Builder *b, const KExpr *value, int mask) {
    switch (value->type) {
    case K_BOOL: {
        const KExpr *word = build_shuffle_word(b, k_convert(b, value, K_U32), mask);
        return k_convert(b, word, K_BOOL);
    }
    case K_I32:
    case K_U32: return k_convert(b, build_shuffle_word(b, k_convert(b, value, K_U32), mask), value->type);
    case K_F32: return k_bitcast(b, build_shuffle_word(b, k_bitcast(b, value, K_U32), mask), K_F32);
    case K_I64:
    case K_U64:
    case K_F64: break;
    }
    const KExpr *bits = value->type == K_F64 ? k_bitcast(b, value, K_U64) : k_convert(b, value, K_U64);
    bits = k_let_expr(b, "bits", bits);
    const KExpr *low = build_shuffle_word(b, k_convert(b, bits, K_U32), mask);
    const KExpr *high = build_shuffle_word(b, k_convert(b, k_shr(b, bits, 32), K_U32), mask);
    bits = k_bit_or(b, k_shl(b, k_convert(b, high, K_U64), 32), k_convert(b, low, K_U64));
    return value->type == K_F64 ? k_bitcast(b, bits, K_F64) : k_convert(b, bits, value->type);
}

const KExpr *k_shuffle_index(Builder *b, const char *name, const KExpr *value, const KExpr *lane) {
    const KVar *word = k_variable(b, name, K_U32, NULL);
    KOperand operands[] = {k_reg(word), k_operand(k_bitcast(b, value, K_U32)),
                           k_operand(k_convert(b, lane, K_U32))};
    k_atom(b, ATOM_shuffle_index, NULL, operands, 3);
    return k_bitcast(b, k_var(b, word), value->type);
}

const KExpr *k_redux(Builder *b, AtomId atom, const char *name, const KExpr *value) {
    const KVar *word = k_variable(b, name, K_U32, NULL);
    KOperand operands[] = {k_reg(word), k_operand(value)};
    k_atom(b, atom, NULL, operands, 2);
    return k_var(b, word);
}
