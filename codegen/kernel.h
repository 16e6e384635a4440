/* Kernel IR: one CUDA kernel as a structured, typed, thread-level program.
 *
 * Templates build it (kernel_build.h, tile.h), kernel_verify.c checks it, kernel_print.c shows it,
 * emit_cuda.c and emit_llvm.c print it for the two backends, simulate.c runs it on the CPU. It holds no graph
 * semantics besides names, and no decision is left to a printer: what stands here is what is printed.
 *
 * Shape of a program. Expressions are pure trees without effects (a shared node is evaluated where it stands;
 * bind it with a `let` to compute it once). Everything with an effect is a statement: variables, loads,
 * stores, loops, conditions, atoms. Variables are registers: scalars, or arrays whose every index is a
 * compile-time constant once loops marked UNROLL_FULL are unrolled; printers keep those loops (#pragma
 * unroll), the LLVM backend unrolls them itself.
 *
 * Types. A register is a KType. Memory has an element type (DType) and converts on the way: a load widens to
 * the register type (bf16 -> f32, i8 -> i32, bool -> K_BOOL), a store rounds by dtype_convert()'s rule. `raw`
 * accesses move bits instead, as u32 words; packing and unpacking of fragments is explicit (KX_PACK,
 * KX_UNPACK).
 *
 * Threads and time. All threads of a block start at the first statement. Barriers, mbarriers, asynchronous
 * copies and matrix instructions are atoms (atoms.def). Sub-byte global elements are accessed at even indices
 * and even widths only, but for a scalar load, which reads one nibble. */
#ifndef SINTER_CODEGEN_KERNEL_H
#define SINTER_CODEGEN_KERNEL_H

#include "codegen/target.h"
#include "ir/base/vec.h"
#include "ir/graph.h"

typedef enum KType { K_BOOL, K_I32, K_U32, K_I64, K_U64, K_F32, K_F64 } KType;

typedef enum KSpace { SPACE_GLOBAL, SPACE_SHARED } KSpace;

/* A tensor or a piece of shared memory. All shared buffers lie in one dynamic allocation; two may overlap on
 * purpose. */
typedef struct KBuffer {
    const char *name;
    DType elem;
    KSpace space;
    bool written;   /* global: false promises that no thread writes it, so that read-only loads may be used */
    bool late;      /* global: the kernel before may still write it when this one starts; loads keep behind
                       grid_wait */
    int align;      /* bytes that the base address is a multiple of */
    int64_t offset; /* shared: byte offset of the allocation */
    int64_t count;  /* shared: elements */
    const Value
        *value; /* global: what it holds, for names, launch and the simulator's bounds; NULL for shared */
    const Dim *scratch; /* global without a value: elements of workspace that is this launch's alone; NULL: a
                           value's memory */
    bool is_partial; /* shared: TMA, wgmma and raw loads may read what nobody wrote, of which nothing comes;
                        simulated as NaN */
    bool is_signal;  /* scratch for packets, flags and counters (atoms.def), by which blocks wait for each
                        other: races with nobody */
    int id;
} KBuffer;

typedef struct KVar {
    const char *name; /* unique within the kernel */
    KType type;
    int count;                 /* 0: a scalar; else an array of so many */
    bool is_let;               /* set once, where it is declared */
    const struct KExpr *value; /* what a let is; NULL: a loop's variable, or none of both */
    bool is_loop;              /* a loop's variable, from a constant that is not negative on */
    int64_t low, high;         /* which lies between these */
    bool is_unrolled;          /* of an UNROLL_FULL loop: a constant in each turn */
    int id;
} KVar;

typedef enum KSpecial {
    SPECIAL_TID,  /* threadIdx.x, i32 like all of these; blocks are one-dimensional */
    SPECIAL_LANE, /* threadIdx.x % 32 */
    SPECIAL_WARP, /* threadIdx.x / 32, uniform in the warp by __shfl_sync */
    SPECIAL_CTA_X,
    SPECIAL_CTA_Y,
    SPECIAL_CTA_Z,
    SPECIAL_GRID_X,   /* gridDim.x */
    SPECIAL_CTA_RANK, /* rank in the cluster */
} KSpecial;

typedef enum KExprKind {
    KX_INT,   /* integer constant of `type` (K_BOOL too) */
    KX_FLOAT, /* float constant of `type`, infinities and NaN included */
    KX_VAR,   /* scalar variable */
    KX_ELEM,  /* var[a] */
    KX_PARAM, /* value of a dim parameter */
    KX_SPECIAL,
    KX_SCALAR,    /* scalar primitive `op` on a, b, c, all of the operation's register type; result `type` */
    KX_MUL_HI,    /* upper 32 bits of the product of two u32 */
    KX_CONVERT,   /* a converted to `type` by dtype_convert()'s rule; among integers, the low bits */
    KX_ROUND,     /* float a rounded to the values of `dtype`, in the same register type */
    KX_BITCAST,   /* the same bits: f32 <-> u32/i32, f64 <-> u64/i64 */
    KX_PACK,      /* 32/bits values of `dtype`, args[0] in the low bits, rounded, as one u32 */
    KX_UNPACK,    /* element `lane` (a constant) of the u32 a that holds packed `dtype`, widened to `type` */
    KX_SMEM_ADDR, /* u32 shared-window address of buffer[a] */
    KX_GLOBAL_ADDR, /* u64 address of buffer[a] */
    KX_TENSOR_MAP,  /* u64 address of a tensor-map parameter */
} KExprKind;

typedef struct KExpr KExpr;
struct KExpr {
    KExprKind kind;
    KType type;
    OpKind op;       /* KX_SCALAR */
    bool is_rounded; /* a product of floats: no compiler makes it a part of a fused multiply-add */
    bool is_guarded; /* a graph's quotient or remainder of integers: 0 where divided by zero */
    DType dtype;     /* KX_ROUND, KX_PACK, KX_UNPACK */
    int64_t
        i; /* KX_INT value; KX_UNPACK lane; KX_SPECIAL which; KX_PARAM and KX_TENSOR_MAP parameter number */
    double f;        /* KX_FLOAT */
    const KVar *var; /* KX_VAR, KX_ELEM */
    const KBuffer *buffer;
    const KExpr *args[8];
    int n_args;
};

typedef enum KUnroll { UNROLL_NONE /* #pragma unroll 1 */, UNROLL_FULL, UNROLL_AUTO } KUnroll;
typedef enum KCache { CACHE_DEFAULT, CACHE_STREAM /* used once */, CACHE_KEEP /* used again soon */ } KCache;

typedef enum KStmtKind {
    KS_DECLARE, /* `var`, without a value if `expr` is NULL (arrays: all elements get it) */
    KS_SET,     /* var = expr, or var[index] = expr */
    KS_LOAD,    /* var[at .. at+width) = buffer[index .. index+width); scalars: width 1. Where guard is false:
                   zero, no access */
    KS_STORE,   /* buffer[index .. index+width) = var[at .. at+width), where guard holds */
    KS_FOR,     /* for (var = begin; var < end; var += step) body; var is a K_I32 (or K_I64) let inside */
    KS_IF,   /* if (expr) body else other; `name` is the role, where the branch is one warp role of several */
    KS_ATOM, /* one machine instruction of atoms.def */
    KS_COMMENT, /* text over the block that follows */
} KStmtKind;

/* One operand of an atom: a register array's slice (inputs, outputs or both) or an expression. Which, says
 * the atom's row. */
typedef struct KOperand {
    const KVar *var; /* NULL: an expression */
    int at, count;   /* constant slice of var; a scalar var has count 1 */
    const KExpr *expr;
} KOperand;

typedef struct KStmt KStmt;
typedef VEC(KStmt *) KBlock;
struct KStmt {
    KStmtKind kind;
    const KVar *var;
    const KExpr *expr;  /* value, condition */
    const KExpr *index; /* of var (KS_SET), of buffer (KS_LOAD, KS_STORE), in elements */
    const KExpr *at;    /* first element of var, KS_LOAD and KS_STORE; NULL: 0 */
    const KBuffer *buffer;
    int width;          /* elements: 1, 2, 4, 8, 16; width * bits <= 128; index is a multiple of it */
    bool raw;           /* bits as u32 words (u32 variables); width still counts elements */
    const KExpr *guard; /* NULL: always */
    KCache cache;
    const KExpr *begin, *end;
    int64_t step;
    const KExpr *step_expr; /* not NULL: takes step's place (persistent loops) */
    KUnroll unroll;
    KBlock body, other;
    int atom;     /* AtomId, atom.h */
    int shape[4]; /* the atom's static parameters: wgmma's n, element type, wait counts, ... */
    KOperand *operands;
    int n_operands;
    const char *name; /* role or comment */
    Span span;        /* line of the graph that it comes from */
};

typedef enum KParamKind { PARAM_BUFFER, PARAM_DIM, PARAM_TENSOR_MAP } KParamKind;
typedef enum KSwizzle { SWIZZLE_NONE, SWIZZLE_32, SWIZZLE_64, SWIZZLE_128 } KSwizzle;

/* Places of windows (PTX ISA, tensors, im2col mode): dims are channels, one to three axes of places, and
 * images. A box has box[0] channels of box[1] places, one behind the other through the box of all of them,
 * which has these corners, from the first and from the last element of each axis. */
typedef struct KPlaces {
    int low[3], high[3], step[3];
} KPlaces;

/* A TMA descriptor that the launch encodes (cuTensorMapEncodeTiled, or Im2col where it has places). dims[0]
 * is the innermost; out of bounds reads give zero. */
typedef struct KTensorMap {
    const KBuffer *buffer;
    DType elem;
    int rank;
    const Dim *dims[5];    /* elements */
    const Dim *strides[5]; /* elements of the buffer; strides[0] is 1 */
    const Dim *offset;     /* elements from the buffer's base to the map's; NULL: 0 */
    int box[5];
    KSwizzle swizzle;
    const KPlaces *places; /* NULL: none */
} KTensorMap;

typedef struct KParam {
    KParamKind kind;
    const char *name;
    KBuffer *buffer; /* PARAM_BUFFER */
    const Dim *dim;  /* PARAM_DIM: a symbol, or any expression the host computes; passed as i64 */
    KTensorMap map;  /* PARAM_TENSOR_MAP */
} KParam;

typedef struct Kernel {
    Arena *arena;
    const char *name;
    const Graph *graph; /* dims table, names */
    const Region *region;
    const Target *target;
    VEC(KParam) params;     /* in the order of the kernel's arguments */
    VEC(KBuffer *) buffers; /* by id: global ones, then shared as declared */
    VEC(KVar *) vars;       /* by id */
    KBlock body;
    int threads;    /* a block, a multiple of 32 */
    int min_blocks; /* __launch_bounds__'s second argument; 0: none */
    int cluster[3]; /* 1, 1, 1: none */
    bool waits;     /* starts before the kernel before it has ended, and begins with grid_wait */
    bool rewrites;  /* several threads may write an element, the same bits */
    int gang; /* so many blocks, consecutive along x, wait for each other through memory: all blocks of the
                 grid run at the same time (a cooperative launch), which is what makes waiting safe; 1: none
                 does */
    const Dim *grid[3];
    int64_t smem_bytes;  /* dynamic shared memory */
    int smem_align;      /* of its base: 16, 128 or 1024 */
    const char *summary; /* one or more lines for the head comment: template, schedule, decisions */
} Kernel;

/* Every broken rule is one DIAG_INTERNAL; called before each emitter. */
bool kernel_verify(const Kernel *kernel, Diags *diags);
void kernel_print(Text *out, const Kernel *kernel);
const char *ktype_name(KType type);
int ktype_bits(KType type);
/* Register type that a load of this element type gives. */
KType ktype_of(DType type);

#endif
