/* Building kernel IR so that a template reads like the kernel that it makes.
 *
 * A Builder appends to its current block; k_for_begin/k_end and k_if_begin/k_else/k_end nest blocks. Integer
 * expressions fold and simplify as they are built (x + 0, x * 1, constants), so that templates need no
 * special cases. Binary functions take operands of one register type; k_convert changes it. */
#ifndef SINTER_CODEGEN_KERNEL_BUILD_H
#define SINTER_CODEGEN_KERNEL_BUILD_H

#include "codegen/atom.h"
#include "codegen/kernel.h"

typedef struct Builder {
    Arena *arena;
    Kernel *kernel;
    VEC(KBlock *) open; /* innermost last */
    Diags *diags;
    struct BuildNames *names; /* that are taken */
    Span span;                /* the line of the graph that statements from now on come from */
    const KVar *warp;         /* build_warp(); NULL: not asked for yet */
    bool rounds_products;  /* from now on products of floats are rounded: for what stands in a kernel twice,
                              and whoever of two comes first computes, which would else be fused in the one
                              place and not in the other */
    bool rounds_powers;    /* what is lowered now is rounded to 16 bits: exponentials may be 2^-17 off, and 0
                              where they are subnormal */
    bool guards_divisions; /* from now on quotients of integers are a graph's (KExpr.is_guarded) */
} Builder;

Builder builder_new(Arena *arena, const Region *region, const Graph *graph, const Target *target,
                    Diags *diags);
Kernel *builder_finish(Builder *b); /* verifies; NULL, with diagnostics, where the kernel breaks a rule */

/* parameters and memory */
KBuffer *k_global(Builder *b, const Value *value,
                  bool written); /* one parameter a Value, however often it is asked for */
/* Workspace of one launch, in which anything may be when it begins. */
KBuffer *k_scratch(Builder *b, const char *name, DType elem, const Dim *count, bool is_signal);
KBuffer *k_shared(Builder *b, const char *name, DType elem, int64_t count,
                  int align);                      /* appended to shared memory */
void k_partial(Builder *b, const KBuffer *buffer); /* shared: what nobody wrote of it may be read (KBuffer) */
KBuffer *k_shared_at(Builder *b, const char *name, DType elem, int64_t count,
                     int64_t offset);                           /* over what is there */
int k_tensor_map(Builder *b, const char *name, KTensorMap map); /* the parameter's number */
/* The number of the parameter that passes this dim, one for each dim; `name` serves where it is new. */
int k_dim_param(Builder *b, const Dim *dim, const char *name);
/* A dim in kernel arithmetic, as a parameter for each symbol, or a constant. */
const KExpr *k_dim(Builder *b, const Dim *dim, KType type);

/* expressions */
const KExpr *k_int(Builder *b, KType type, int64_t value);
const KExpr *k_i32(Builder *b, int64_t value);
const KExpr *k_float(Builder *b, KType type, double value);
const KExpr *k_var(Builder *b, const KVar *var);
const KExpr *k_elem(Builder *b, const KVar *array, const KExpr *index);
const KExpr *k_elem_at(Builder *b, const KVar *array, int index);
const KExpr *k_special(Builder *b, KSpecial special);
/* The variable that holds SPECIAL_WARP, declared before the kernel's first statement: its value passes
 * through a shuffle of the whole warp, which may not stand where lanes have parted. k_special() gives it. */
const KVar *build_warp(Builder *b);
const KExpr *k_scalar(Builder *b, OpKind op, const KExpr *x, const KExpr *y,
                      const KExpr *z); /* unused operands NULL */
const KExpr *k_add(Builder *b, const KExpr *x, const KExpr *y);
const KExpr *k_sub(Builder *b, const KExpr *x, const KExpr *y);
const KExpr *k_mul(Builder *b, const KExpr *x, const KExpr *y);
const KExpr *k_div(Builder *b, const KExpr *x, const KExpr *y); /* of nonnegative integers, or of floats */
const KExpr *k_mod(Builder *b, const KExpr *x, const KExpr *y); /* of nonnegative integers */
const KExpr *k_min(Builder *b, const KExpr *x, const KExpr *y);
const KExpr *k_max(Builder *b, const KExpr *x, const KExpr *y);
const KExpr *k_lt(Builder *b, const KExpr *x, const KExpr *y);
const KExpr *k_ge(Builder *b, const KExpr *x, const KExpr *y);
const KExpr *k_eq(Builder *b, const KExpr *x, const KExpr *y);
const KExpr *k_and(Builder *b, const KExpr *x, const KExpr *y); /* of K_BOOL; NULL counts as true */
const KExpr *k_not(Builder *b, const KExpr *x);
const KExpr *k_xor(Builder *b, const KExpr *x, const KExpr *y); /* bitwise */
const KExpr *k_bit_and(Builder *b, const KExpr *x, const KExpr *y);
const KExpr *k_bit_or(Builder *b, const KExpr *x, const KExpr *y);
const KExpr *k_shl(Builder *b, const KExpr *x, int bits);
const KExpr *k_shr(Builder *b, const KExpr *x, int bits);
const KExpr *k_mul_hi(Builder *b, const KExpr *x, const KExpr *y);
const KExpr *k_select(Builder *b, const KExpr *condition, const KExpr *x, const KExpr *y);
const KExpr *k_convert(Builder *b, const KExpr *x, KType type);
const KExpr *k_round(Builder *b, const KExpr *x, DType type);
const KExpr *k_bitcast(Builder *b, const KExpr *x, KType type);
const KExpr *k_pack(Builder *b, DType type, const KExpr *const *values);
const KExpr *k_unpack(Builder *b, DType type, const KExpr *word, int lane);
const KExpr *k_smem_addr(Builder *b, const KBuffer *buffer, const KExpr *index);
const KExpr *k_global_addr(Builder *b, const KBuffer *buffer, const KExpr *index);
const KExpr *k_tensor_map_addr(Builder *b, int param);

/* variables; `name` is made unique by a number where it is taken */
const KVar *k_let(Builder *b, const char *name, const KExpr *value); /* declared and set here, never again */
const KExpr *k_let_expr(Builder *b, const char *name, const KExpr *value); /* the same, as an expression */
const KVar *k_variable(Builder *b, const char *name, KType type,
                       const KExpr *value); /* value NULL: not set yet */
const KVar *k_array(Builder *b, const char *name, KType type, int count,
                    const KExpr *fill); /* fill NULL: not set yet */
void k_set(Builder *b, const KVar *var, const KExpr *value);
void k_set_elem(Builder *b, const KVar *array, const KExpr *index, const KExpr *value);

/* memory; `at` NULL: element 0, `guard` NULL: always */
void k_load(Builder *b, const KVar *dst, const KExpr *at, const KBuffer *buffer, const KExpr *index,
            int width, const KExpr *guard, KCache cache);
const KExpr *k_load_scalar(Builder *b, const char *name, const KBuffer *buffer, const KExpr *index,
                           const KExpr *guard);
void k_store(Builder *b, const KBuffer *buffer, const KExpr *index, const KVar *src, const KExpr *at,
             int width, const KExpr *guard, KCache cache);
void k_store_scalar(Builder *b, const KBuffer *buffer, const KExpr *index, const KExpr *value,
                    const KExpr *guard);
void k_load_raw(Builder *b, const KVar *dst, const KExpr *at, const KBuffer *buffer, const KExpr *index,
                int width, const KExpr *guard, KCache cache);
void k_store_raw(Builder *b, const KBuffer *buffer, const KExpr *index, const KVar *src, const KExpr *at,
                 int width, const KExpr *guard, KCache cache);

/* control */
const KExpr *k_for_begin(Builder *b, const char *name, const KExpr *begin, const KExpr *end, int64_t step,
                         KUnroll unroll);
const KExpr *k_for_step_begin(Builder *b, const char *name, const KExpr *begin, const KExpr *end,
                              const KExpr *step);
void k_if_begin(Builder *b, const KExpr *condition);
void k_role_begin(Builder *b, const char *role,
                  const KExpr *condition); /* an if whose branch is a warp role */
void k_else(Builder *b);
void k_end(Builder *b);
void k_comment(Builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* atoms: shape holds the row's static parameters, operands in the row's order */
void k_atom(Builder *b, AtomId atom, const int *shape, const KOperand *operands, int n_operands);
KOperand k_reg(const KVar *var);                       /* a whole scalar or array */
KOperand k_regs(const KVar *array, int at, int count); /* a slice */
KOperand k_operand(const KExpr *expr);
void k_barrier(Builder *b); /* bar.sync 0: all threads of the block; kernel->threads must be set before */
void k_cluster_barrier(Builder *b); /* all threads of the cluster's blocks, which see what the others wrote */
void k_named_barrier(Builder *b, int id, int threads); /* id 1..15, threads a multiple of 32 */
/* Value of lane ^ mask, within the warp; all 32 lanes take part. */
const KExpr *k_shuffle_xor(Builder *b, const KExpr *value, int mask);
/* The largest (redux_max) or smallest of the warp's lanes, all of which take part; u32. */
const KExpr *k_redux(Builder *b, AtomId atom, const char *name, const KExpr *value);
/* `value`, of 32 bits, as `lane` has it; a variable of this name holds its bits. All 32 lanes take part. */
const KExpr *k_shuffle_index(Builder *b, const char *name, const KExpr *value, const KExpr *lane);

#endif
