/* Regions: the graph cut into kernels.
 *
 * A region is a connected part of the graph that one kernel computes: prologue, at most one kind of core,
 * epilogue. Values inside a region live in registers and shared memory; a Value that another region or the
 * caller needs is an output and goes to memory, with its own dtype, packed row-major (or with the strides of
 * the graph's output). A cheap Value may be computed in several regions.
 *
 * Fusion (passes/fuse.c) builds regions; codegen/ turns each into one kernel; runtime/ launches them in
 * order. */
#ifndef SINTER_IR_REGION_H
#define SINTER_IR_REGION_H

#include "ir/graph.h"
#include "ir/schedule.h"

typedef enum TemplateKind {
    TEMPLATE_POINTWISE, /* outputs share one iteration space; movement folded into coordinates; any Value can
                           be computed so */
    TEMPLATE_ROWS,    /* reductions over the innermost axes of a space, results applied along the row again */
    TEMPLATE_COLUMNS, /* reductions over leading axes, the innermost axis kept */
    TEMPLATE_TRANSPOSE, /* pointwise whose reads and writes are contiguous along different axes, through a
                           shared tile */
    TEMPLATE_MATMUL, /* one matmul, two that share their first operand (SwiGLU), or several that are added up;
                        prologue and epilogue around it */
    TEMPLATE_CHAIN,  /* matmuls, each the first operand of the next, epilogues between and behind them */
    TEMPLATE_RELAY,  /* one or two matmuls, what is computed of them element by element, and the one or two
                        matmuls whose first operands that is; epilogues behind these */
    TEMPLATE_COUNT
} TemplateKind;

/* An output that holds some columns of a product's space; or, as a bundle, a few elements for each row of the
 * space that are made of the row's statistics alone: element j of a row is stored as the space's column j
 * would be. */
typedef struct RegionWindow {
    const Value *value;
    const Value
        *root; /* `value`, or what it is by reshapes and transposes: has the columns in row-major order */
    int64_t first, width;
    bool is_bundle;
} RegionWindow;

enum {
    REGION_SUM_MAX = 4,     /* products that one kernel adds up */
    REGION_CORES_MAX = 4,   /* products that share their first operand, side by side in one kernel */
    REGION_COLUMNS_MAX = 4, /* statistics of columns, of blocks of rows, that a kernel of rows takes */
};

typedef struct Region {
    int id;       /* position in the plan */
    bool follows; /* another kernel of the plan runs before */
    bool leads;   /* another kernel of the plan runs after */
    TemplateKind kind;
    const char *name;    /* the kernel's: a C identifier */
    VEC(Value *) values; /* computed here, topological */
    VEC(Value *)
    inputs; /* read from memory: graph inputs and other regions' outputs; scalars constants excluded */
    VEC(Value *) outputs; /* written to memory */
    VEC(Value *)
    cores; /* OP_matmul Values of MATMUL, CHAIN and RELAY, topological but where there are sums */
    /* Products of MATMUL that are added up, all but the first: sums.at[i] is cores.at[i + 1] plus what is
     * computed element by element from sums.at[i - 1], or cores.at[0], which nothing else needs. The kernel
     * takes their steps of K one after another. */
    VEC(Value *) sums;

    /* The iteration space. POINTWISE, TRANSPOSE: dims of the outputs. ROWS, COLUMNS: dims of what is reduced,
     * before the reduction. MATMUL: batch dims, then M, then N of the cores; CHAIN, RELAY: of the last. Every
     * output has these dims, these dims with reduced axes 1 or dropped, or is a chain of reshapes and
     * transposes over a Value that has: the chain is the order in which it is stored. COLUMNS write only
     * Values whose reduced axes are 1 or dropped. Reductions of ROWS and of COLUMNS may depend on one
     * another. */
    int rank;
    const Dim *dims[RANK_MAX];
    /* Reduced axes of that space: the last n_reduced for ROWS (and for MATMUL with row statistics: 1, along
     * N); the first n_reduced for COLUMNS. Statistics of a product's tiles (block.h) reduce no axis of it:
     * MATMUL writes them beside the rest. */
    int n_reduced;

    /* Outputs that are bundles; and of MATMUL, those that are columns [first, first + width) of the space,
     * row-major under dims of their own or stored in another order, and the aligned block of columns within
     * which the epilogue reads the product at other columns of the same row (columns.h); 0: it reads every
     * column where it stands. */
    VEC(RegionWindow) windows;
    int column_block;

    /* Of MATMUL: another region that its kernel computes too; NULL: none. One of kind ROWS is computed row by
     * row, as soon as the product's rows are in memory; one of kind COLUMNS waits for nothing, and is
     * computed meanwhile; one of kind MATMUL, which may have such a guest itself, waits for nothing either:
     * its tiles come behind the host's. Each keeps its own values, inputs and outputs: whoever asks what a
     * kernel computes, reads or writes goes on from a region to its guest. */
    struct Region *guest;

    const Hint *schedule_hint; /* NULL: none */
    bool fast_sums; /* @allow(fast_accumulation): products add up in what the tensor cores keep, where that is
                       less than f32 */
    Schedule schedule;
} Region;

/* The part of a region that computes `outputs` from its inputs and from `held`, if any: of the kind MATMUL,
 * over the space of its core, which the caller adds. */
Region *region_part(Arena *arena, const Region *whole, Value *const *outputs, size_t n_outputs,
                    const Value *held, const Value *core);

/* Rows of two axes may be reduced along the last one alone, in pieces: whether `value` is such a reduction,
 * and whether it has an element for each piece. */
bool region_is_piece(const Region *region, const Value *value);
bool region_has_piece_dims(const Region *region, const Value *value);

/* Elements of the space's axes from `begin` to `end`; NULL on overflow. */
const Dim *region_extent(const Graph *graph, const Region *region, int begin, int end);
/* Whether `value` is among the region's inputs, or among its outputs. */
bool region_reads(const Region *region, const Value *value);
bool region_writes(const Region *region, const Value *value);
/* The former, as functions of view.h ask which values are memory. */
bool region_is_memory(void *region, const Value *value);
/* Whether the region's kernel computes `value`, or writes it: the region does, or its guest. */
bool region_kernel_computes(const Region *region, const Value *value);
bool region_kernel_writes(const Region *region, const Value *value);

/* A copy whose lists are its own. */
Region *region_copy(Arena *arena, const Region *region);

/* Whether two regions of one graph compute the same of other tensors, in the same way: what is known of the
 * schedules of one holds for the other. Neither has @schedule. `arena` is left as it was. */
bool region_is_alike(Arena *arena, const Graph *graph, const Region *a, const Region *b);

/* The window of an output; NULL: it has none. */
const RegionWindow *region_window(const Region *region, const Value *value);

/* Where a Value that crosses a region's border lies in the workspace. */
typedef struct Buffer {
    Value *value;
    const Dim *offset; /* bytes, a multiple of 256 */
    const Dim *bytes;
} Buffer;

/* A Value that has no memory of its own, but lies within another's: under Value.strides, from an element of
 * that on. */
typedef struct Stored {
    const Value *value, *in;
    const Dim *first;
} Stored;

/* One decision of the compiler, for `sinter explain` and for the notes of a failed @expect. */
typedef struct Decision {
    const char *rule;   /* row of passes/fuse_rules.def, or the pass's name */
    bool fused;         /* fused, or refused */
    Value *at;          /* where */
    Value *other;       /* the neighbour that it was, or was not, joined with; may be NULL */
    const char *why;    /* a person's words */
    const char *change; /* what would have to change; NULL where fused */
} Decision;

typedef struct Partition {
    Graph *graph;
    VEC(Region *) regions; /* in launch order */
    VEC(Buffer) buffers;
    VEC(Stored) stored;   /* what has others within it before these */
    const Dim *workspace; /* bytes */
    VEC(Decision) decisions;
} Partition;

/* In which Value's memory one that crosses a region's border lies: its own, or another's, from element *first
 * of that on. `first` may be NULL. */
Value *partition_stored(const Partition *partition, const Value *value, const Dim **first);

/* What fusion has to know of the target: plain figures, filled by codegen/target.c. */
typedef struct FuseLimits {
    bool has_tensor_cores;
    bool adds_products;      /* products that are added up take one another's accumulators, in one kernel */
    bool computes_fragments; /* products take a first operand of 16 bits from registers, where they compute it
                              */
    bool shares_k;           /* the blocks of a cluster share the K of a tile of multiply-adds */
    bool turns_words;    /* products take one operand of 32 bits from registers, where it lies along M or N */
    bool reads_chosen;   /* products read matrices and rows that indices choose where these lie */
    bool brings_rows;    /* products bring operands of 16 bits whose rows begin anywhere in memory */
    bool hosts_rows;     /* idle warps of a product's kernel take the rows that are reduced next */
    bool hosts_products; /* one kernel computes several products, one behind the other */
    bool scales_blocks;  /* fp8 products take factors, one a block of an operand, on the way into their
                            accumulators */
    int64_t matmul_row_max;    /* longest N whose row statistics a matmul epilogue can take in one kernel */
    int64_t chain_columns_max; /* longest rows that a chain of products hands on in registers; 0: no chains */
    int64_t matmul_gang_row_max; /* the same where blocks that run together share the rows; N must be known */
    int sm_count;
    double memory_bytes_per_second, tensor_flops; /* of 16-bit products */
    int64_t
        row_resident_max; /* bytes of a row that stay on chip in a rows kernel; longer rows are read twice */
    int64_t inline_cost_max;     /* scalar operations that may be computed again rather than stored */
    int max_inputs, max_outputs; /* of one kernel */
} FuseLimits;

/* One region as partition_print() prints it. */
void region_print(Text *out, const Graph *graph, const Region *region);
/* `matmul "y" -> y: reads x, w, b; writes y` a line a region, then its Values indented: what --emit=regions
 * shows. */
void partition_print(Text *out, const Partition *partition);

#endif
