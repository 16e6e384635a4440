/* Between the files of the CUDA printer. The printer itself: emit_cuda() of codegen.h. */
#ifndef SINTER_CODEGEN_EMIT_CUDA_H
#define SINTER_CODEGEN_EMIT_CUDA_H

#include "codegen/atom.h"
#include "codegen/emit_facts.h"
#include "codegen/emit_sections.h"
#include "codegen/kernel.h"

/* How tightly an operator of C++ binds; an operand that binds less than its place asks for stands in
 * parentheses. */
typedef enum CudaPrec {
    PREC_ANY,
    PREC_SELECT,
    PREC_OR,
    PREC_AND,
    PREC_BIT_OR,
    PREC_BIT_XOR,
    PREC_BIT_AND,
    PREC_EQUAL,
    PREC_COMPARE,
    PREC_SHIFT,
    PREC_ADD,
    PREC_MUL,
    PREC_UNARY,
    PREC_POSTFIX,
} CudaPrec;

/* A function that wraps an atom; one for each atom, static parameters and operand types in use. */
typedef struct CudaAtom {
    AtomId atom;
    int shape[4];
    KType types[ATOM_MAX_OPERANDS];
    const char *name;
} CudaAtom;

typedef struct EmitCuda {
    Arena *arena;
    const Kernel *kernel;
    Text body;
    int indent;
    EmitFacts facts;
    bool is_data_tree; /* of the expression that is printed: emit_is_data() */
    bool is_form;      /* without comments, the graph's names replaced by numbers: emit_form() */
    Sections prelude;
    const char **var_names;    /* by KVar.id */
    const char **buffer_names; /* by KBuffer.id */
    const char **param_names;  /* by parameter number */
    VEC(CudaAtom) atoms;
} EmitCuda;

const char *cuda_type_name(KType type);
/* Type that a pointer to elements points to; two elements of 4 bits share one. */
const char *cuda_element_name(DType type);
/* Appends a part of an expression to e->body. */
void cuda_expr(EmitCuda *e, const KExpr *expr, CudaPrec place);
/* A whole expression as text. */
const char *cuda_expr_text(EmitCuda *e, const KExpr *expr, CudaPrec place);
/* `buffer + index` as text, counting pairs of sub-byte elements. */
const char *cuda_address_text(EmitCuda *e, const KBuffer *buffer, const KExpr *index);
/* Whether this atom's function returns what `var` gets. */
bool cuda_atom_sets(const KStmt *stmt, const KVar *var);
/* A statement that calls an atom's function. */
void cuda_atom_call(EmitCuda *e, const KStmt *stmt);
/* The functions of all atoms that were called. */
void cuda_atom_functions(EmitCuda *e, Text *out);

/* Appends lines of code, the long ones in pieces. */
void cuda_lines(Text *out, const char *text);

#endif
