/* Machine instructions as data: one row of atoms.def each.
 *
 * A row gives an atom's operands, the text of its inline assembly, the least target and PTX version, and its
 * meaning for the simulator. Both emitters print the same assembly text through atom_text(); only the mark
 * before an operand's number differs.
 *
 * Operand signature: one letter pair an operand, in order, separated by spaces:
 *     "=r" output u32/i32   "+f" read and written f32   "r" u32/i32   "l" u64/i64   "f" f32   "d" f64   "n"
 * constant a count behind it makes a register array: "+f*N/2" (N is shape[0]), "=r*4". In the text, $0, $1,
 * ... is an operand; an array prints as {%0, %1, ...}; @0..@3 is shape[0..3] as a number or the name that the
 * row's shape kinds give it; ${...} stays literal braces. */
#ifndef SINTER_CODEGEN_ATOM_H
#define SINTER_CODEGEN_ATOM_H

#include "ir/base/text.h"

typedef enum AtomId {
#define ATOM(NAME, SIGNATURE, SHAPE, TEXT, SM, PTX, EFFECT, DOC) ATOM_##NAME,
#include "codegen/atoms.def"
#undef ATOM
    ATOM_COUNT
} AtomId;

/* What an atom does besides its outputs: decides volatility and the memory clobber. */
typedef enum AtomEffect {
    EFFECT_PURE,   /* outputs from inputs alone */
    EFFECT_WARP,   /* exchanges registers within the warp: convergent */
    EFFECT_MEMORY, /* reads or writes memory, or orders it */
} AtomEffect;

typedef struct AtomInfo {
    const char *name;
    const char *signature;
    const char *shape; /* kinds of shape[0..]: "n" number, "t" element type of a matrix operand; "" none */
    const char *text;
    int sm;
    const char *ptx;
    AtomEffect effect;
    const char *doc;
} AtomInfo;

typedef struct AtomOperand {
    char constraint; /* 'r', 'l', 'f', 'd', 'n' */
    bool is_out, is_in;
    int count; /* registers */
} AtomOperand;

enum { ATOM_MAX_OPERANDS = 12 };

const AtomInfo *atom_info(AtomId atom);
/* The operands of an atom under these static parameters; how many. */
int atom_operands(AtomId atom, const int shape[4], AtomOperand out[ATOM_MAX_OPERANDS]);
/* The assembly text; `mark` is '%' (CUDA) or '$' (LLVM). Registers are numbered outputs first ("=" and "+"),
 * then inputs, as both inline-assembly dialects do; in LLVM's dialect a "+" operand's tied input follows and
 * is not printed. */
void atom_text(Text *out, AtomId atom, const int shape[4], char mark);
/* A name for the atom under these parameters, a C identifier: wgmma_m64n256k16_bf16. */
void atom_name(Text *out, AtomId atom, const int shape[4]);

#endif
