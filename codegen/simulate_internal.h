/* Inside the simulator: the program as it runs, the machine's state, and what its files give one another.
 *
 * Evaluation is by warps: every expression gives 32 values, one a lane, and statements run under a mask of
 * lanes. A warp keeps its place in a stack of frames, not on the C stack, so that it can stop at any barrier
 * and another warp goes on (simulate.c).
 *
 * What happens before what is kept in vector clocks (Flanagan and Freund, "FastTrack", PLDI 2009): one
 * component an agent. Agents are the warps of a cluster, the cp.async engine of each warp, and each mbarrier,
 * for the copies that complete on it. A warp's own component counts what it has released; barriers and
 * mbarriers merge clocks. A byte remembers who wrote it and when, and when each warp last read it; an access
 * is a race unless the other one's time is in the clock of whoever accesses now (simulate_shadow.c). */
#ifndef SINTER_CODEGEN_SIMULATE_INTERNAL_H
#define SINTER_CODEGEN_SIMULATE_INTERNAL_H

#include "codegen/atom.h"
#include "codegen/kernel.h"
#include "codegen/simulate.h"

enum {
    SIM_LANES = 32,
    SIM_MBARRIERS = 64,      /* a block */
    SIM_NAMED_BARRIERS = 16, /* a block */
    SIM_LANES_SEVERAL = 255, /* in place of a lane's number: more than one */
    SIM_LANES_ASYNC = 254,   /* the same: TMA or wgmma, on the warp's behalf */
};
typedef uint32_t LaneMask;
#define SIM_ALL_LANES 0xffffffffu
/* The lanes of a mask, in order. */
#define FOR_LANES(lane, mask)                                                                                \
    for (LaneMask lane##_left = (mask), lane = 0;                                                            \
         lane##_left && (lane = (LaneMask)__builtin_ctz(lane##_left), true); lane##_left &= lane##_left - 1)

typedef struct Lanes {
    Number at[SIM_LANES];
} Lanes;

/* ---- the program (simulate_compile.c) ------------------------------------------------------------------ */

/* Where a value lies: at a fixed place, or in a register of the warp that runs. */
typedef struct SimRef {
    const Lanes *fixed; /* NULL: a register */
    int reg;
} SimRef;

typedef enum SimCode {
    SIM_CHECK, /* registers [reg, reg + count) must have been set */
    SIM_ELEM,
    SIM_SCALAR,
    SIM_I32_ADD,
    SIM_I32_SUB,
    SIM_I32_MUL,
    SIM_I32_DIV,
    SIM_I32_MOD,
    SIM_I32_LT,
    SIM_I32_GE,
    SIM_BOOL_AND,
    SIM_F32_ADD,
    SIM_F32_SUB,
    SIM_F32_MUL,
    SIM_F32_FMA,
    SIM_SELECT,
    SIM_MUL_HI,
    SIM_CONVERT,
    SIM_ROUND,
    SIM_BITCAST,
    SIM_PACK,
    SIM_UNPACK,
    SIM_ADDRESS,
} SimCode;

typedef struct SimOp {
    SimCode code;
    const KExpr *expr;
    KType type; /* of the operands */
    Lanes *dst;
    SimRef args[8];
    int reg, count; /* SIM_CHECK, SIM_ELEM */
} SimOp;

/* Operations in order; the last one's, or a fixed or register value, is the result. */
typedef struct SimExpr {
    const SimOp *ops;
    int n;
    SimRef result;
} SimExpr;

typedef struct SimOperand {
    bool is_registers;
    int reg, count;
    SimExpr expr;
} SimOperand;

typedef struct SimStmt SimStmt;
typedef VEC(SimStmt *) SimBlock;
struct SimStmt {
    const KStmt *source;
    int reg;
    SimExpr value, index, at, begin, end, step;
    SimExpr guard;
    SimBlock body, other;
    SimOperand *operands;
};

/* ---- the machine --------------------------------------------------------------------------------------- */

typedef struct SimCta SimCta;
typedef struct SimWarp SimWarp;

/* Shared memory remembers, for each byte, the last write; when each warp last read it stands in SimCta.reads.
 */
typedef struct SimByte {
    uint32_t write_clock;
    uint16_t write_agent;
    uint8_t write_lane;
    uint8_t flags;
} SimByte;
enum {
    BYTE_WRITTEN = 1,  /* by somebody */
    BYTE_GENERIC = 2,  /* by ordinary stores or cp.async: TMA and wgmma see it only behind a proxy fence */
    BYTE_MBARRIER = 4, /* part of an mbarrier */
    BYTE_PARTIAL = 8,  /* of a buffer whose bits may be read where nobody wrote */
};

/* Global buffers that the kernel writes remember, for each element, the last write and the last read. */
typedef struct SimElement {
    uint32_t write_unit, read_unit;   /* cluster number + 1; 0: none */
    uint32_t write_clock, read_clock; /* clock << 8 | lane */
    uint16_t write_agent, read_agent;
} SimElement;

typedef struct SimGlobal {
    const KBuffer *buffer;
    uint8_t *at;
    int64_t bytes, count;
    SimElement *shadow; /* NULL: not written, or races are not looked for */
} SimGlobal;

typedef struct SimMap {
    const KTensorMap *map;
    int64_t dims[5], strides[5], offset;
} SimMap;

typedef struct SimNamedBarrier {
    int arrived; /* threads */
    int expected;
    uint32_t *clock;
} SimNamedBarrier;

typedef struct SimMbarrier {
    int64_t offset;
    int agent;
    int count, pending;
    int64_t bytes; /* that are expected and have not come */
    uint32_t phase;
    uint32_t *arriving, *done; /* clocks of the arrivals of this phase, and of all phases that have ended */
    int init_agent, init_lane;
    uint32_t init_clock;
} SimMbarrier;

typedef enum SimWaitKind { WAIT_NONE, WAIT_BARRIER, WAIT_MBARRIER, WAIT_CLUSTER, WAIT_PACKET } SimWaitKind;
typedef struct SimWait {
    SimWaitKind kind;
    int barrier;
    uint64_t packets; /* that had been sent when it began to wait */
    uint32_t round;
    SimMbarrier *mbarrier;
    uint32_t parity;
} SimWait;

/* A flag that has been raised, and what who waits for it then knows. */
typedef struct SimFlag {
    const uint32_t *at;
    uint32_t *clock;
} SimFlag;

/* A matrix product that has been issued: its operands may not be written, nor its accumulators touched,
 * before it is waited for. */
typedef struct SimProduct {
    const SimStmt *stmt;
    uint64_t desc_a, desc_b;
    uint32_t group;
    uint32_t clock; /* the warp's, when it was issued */
} SimProduct;

/* A TMA store that has been issued: `bytes` of shared memory may not be written before its reads have been
 * waited for, and nobody knows of the elements that it writes before the whole of it has. */
typedef struct SimBulk {
    int64_t offset, bytes;
    uint32_t group;
    bool is_read;
    VEC(SimElement *) written; /* where races are looked for */
} SimBulk;

typedef struct SimFrame {
    const SimBlock *block;
    size_t next;
    LaneMask mask;
    const SimStmt *loop; /* NULL: the block runs once */
} SimFrame;

struct SimWarp {
    SimCta *cta;
    int number; /* in the block */
    int agent;
    Lanes *registers;
    LaneMask *set;        /* a register: lanes that have been given a value */
    uint8_t *in_flight;   /* a register: matrix products under way that own it */
    uint32_t *touched_at; /* a register: matrix_fences when it was last used by ordinary code */
    VEC(SimFrame) frames;
    bool finished;
    SimWait wait;
    uint32_t *clock;
    /* Of each lane: the warp's clock at its latest fences, and the cp.async groups that had come by then. */
    uint32_t async_fence[SIM_LANES], async_fence_copies[SIM_LANES], mbarrier_fence[SIM_LANES];
    uint32_t copy_groups; /* cp.async groups closed */
    uint32_t matrix_fences, matrix_groups;
    uint32_t
        reads_over; /* its ordinary reads up to here have come, into registers of products that have ended */
    uint64_t
        matrix_history; /* a hash of the wgmma instructions so far, which the warpgroup's warps must share */
    VEC(SimProduct) products;
    uint32_t bulk_groups;
    VEC(SimBulk) bulks;
    bool cluster_arrived;
    bool is_meeting; /* at the grid's barrier */
    uint32_t cluster_phase;
};

typedef struct SimRemoteRead {
    uint32_t clock; /* 0: none */
    uint16_t agent;
    uint8_t lane;
} SimRemoteRead;

struct SimCta {
    int rank; /* in the cluster */
    int64_t x, y, z;
    uint8_t *shared;
    SimByte *shadow;
    uint32_t *reads;             /* byte * warps + warp: clock << 8 | lane; NULL: races are not looked for */
    SimRemoteRead *remote_reads; /* a byte: the latest by a warp of another block; NULL: not looked for */
    SimWarp *warps;
    int running;
    SimNamedBarrier barriers[SIM_NAMED_BARRIERS];
    SimMbarrier mbarriers[SIM_MBARRIERS];
    int n_mbarriers;
};

/* Bytes that an mbarrier waits for and that nobody has told it of. */
typedef struct SimArrival {
    SimMbarrier *mbarrier;
    int64_t bytes;
} SimArrival;

typedef struct Sim {
    const Kernel *kernel;
    Arena *arena;
    SimOptions options;
    SimBlock program;
    int n_registers;
    int *register_of; /* variable's id to its first register */
    VEC(Lanes *) slots;
    SimGlobal *globals; /* by buffer id */
    SimMap *maps;       /* by parameter number */
    int64_t grid[3];
    int64_t *params; /* values of dim parameters, by number */

    int n_warps;      /* a block */
    int n_ctas;       /* that run together: a cluster, or a gang */
    uint64_t packets; /* sent so far, flags raised, and blocks that have come to a meeting */
    int meeting;      /* blocks that are at the grid's barrier, of those that run together */
    uint32_t *meeting_clock;
    VEC(SimFlag) flags;
    int n_agents;
    SimCta *ctas;
    uint32_t unit; /* of the cluster that runs, from 1 */
    int running;   /* warps of the cluster */
    int cluster_arrived;
    uint32_t cluster_phase;
    uint32_t *cluster_arriving, *cluster_done;
    VEC(SimArrival) on_the_way; /* of bytes at mbarriers */
    uint32_t chance;            /* which of them is next */

    uint64_t steps;
    const SimStmt *stmt; /* that runs */
    bool failed;
    Text message;
    Span span;
} Sim;

/* Registers 0 .. SIM_FIRST_REGISTER - 1 are the specials, by KSpecial. */
enum { SIM_FIRST_REGISTER = SPECIAL_CTA_RANK + 1 };

/* The first failure counts; the others are dropped. lane -1: the whole warp; warp NULL: the whole launch. */
void sim_fail(Sim *sim, const SimWarp *warp, int lane, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* simulate_compile.c */
void sim_compile(Sim *sim);

/* simulate_expr.c */
const Lanes *sim_eval(Sim *sim, SimWarp *warp, const SimExpr *expr, LaneMask mask);
static inline bool sim_has(const SimExpr *expr) {
    return expr->n || expr->result.fixed || expr->result.reg >= 0;
}
/* The value in the first lane of the mask, of an expression that is the same in all of them. */
int64_t sim_eval_uniform(Sim *sim, SimWarp *warp, const SimExpr *expr, LaneMask mask);
/* Reports registers that are read before they are set or while a matrix product owns them. */
void sim_check_registers(Sim *sim, SimWarp *warp, int reg, int count, LaneMask mask);
/* Notes that ordinary code sets a register in these lanes. */
void sim_set_register(Sim *sim, SimWarp *warp, int reg, LaneMask mask);

/* simulate_memory.c */
void sim_load(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask);
void sim_store(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask);
/* Where block's shared memory begins in the shared window. */
int64_t sim_shared_base(const Sim *sim, const SimCta *cta);
/* The byte offset into shared memory of an address, `bytes` long and aligned to `align`; -1 after a report.
 */
int64_t sim_shared_offset(Sim *sim, const SimWarp *warp, int lane, int64_t address, int64_t bytes, int align);
/* Global addresses are a buffer's number and an offset; the same for them. NULL after a report. */
int64_t sim_global_address(const KBuffer *buffer, int64_t index);
uint8_t *sim_global_bytes(Sim *sim, SimWarp *warp, int lane, int64_t address, int64_t bytes, int align,
                          bool is_write);

/* simulate_shadow.c */
typedef struct SimWriter {
    int agent;
    uint32_t clock;
    bool is_generic;
} SimWriter;
/* One access of a lane; each answers false after a report. `issuer` is the warp whose clock counts. */
bool shadow_read(Sim *sim, SimWarp *issuer, int lane, int64_t offset, int64_t bytes);
/* Of another block of the cluster. */
bool shadow_read_remote(Sim *sim, SimWarp *issuer, int lane, SimCta *cta, int64_t offset, int64_t bytes);
bool shadow_read_async(Sim *sim, SimWarp *issuer, int64_t offset, int64_t bytes);
/* The reads of shadow_read_async() are over now; the caller lets the warp's time pass behind it. */
void shadow_read_done(Sim *sim, SimWarp *issuer, int64_t offset, int64_t bytes);
bool shadow_write(Sim *sim, SimWarp *issuer, int lane, SimCta *cta, int64_t offset, int64_t bytes,
                  SimWriter writer);
/* A write of a TMA store that has been noted as its warp's: still under way; over. */
void shadow_store_begins(SimElement *element);
void shadow_store_ends(const SimWarp *issuer, SimElement *element);
/* `again` not NULL: that another thread has written an element is no race; it is said there, and the bits
 * have to be the same. */
bool shadow_global(Sim *sim, SimWarp *issuer, int lane, SimGlobal *global, int64_t first, int64_t count,
                   bool is_write, bool *again);
/* Vector clocks. */
void clock_merge(const Sim *sim, uint32_t *into, const uint32_t *from);
void clock_release(const Sim *sim, SimWarp *warp,
                   uint32_t *into); /* into NULL: time passes, nobody is told */
SimWriter shadow_writer(const SimWarp *warp);

/* simulate_sync.c */
SimMbarrier *sim_mbarrier(Sim *sim, SimWarp *warp, int lane, SimCta *cta, int64_t address, bool is_remote);
/* The bytes of a copy are on their way: sim_arrive_late() lets them arrive. */
void sim_mbarrier_expect_bytes(Sim *sim, SimMbarrier *mbarrier, int64_t bytes);
/* Lets the bytes of one copy that is on its way arrive; false where there is none. Copies may arrive in any
 * order, so each time all warps wait it is another one's turn, of no pattern but the same in every run. */
bool sim_arrive_late(Sim *sim);
bool sim_wait_is_over(Sim *sim, SimWarp *warp);
void sim_warp_exits(Sim *sim, SimWarp *warp);
void sim_report_deadlock(Sim *sim);
void sim_reset_sync(Sim *sim);

/* simulate_wgmma.c: called when a warp ends. */
void sim_check_warpgroup(Sim *sim, const SimWarp *warp);

/* Atoms: one function a group of rows. */
typedef void SimAtom(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask);
SimAtom sim_barrier, sim_fence, sim_cluster, sim_mbarrier_atom;             /* simulate_sync.c */
SimAtom sim_cluster_load;                                                   /* simulate_cluster.c */
SimAtom sim_packet, sim_flag, sim_ticket, sim_grid_meet;                    /* simulate_packet.c */
SimAtom sim_cp_async, sim_tma_load, sim_tma_store, sim_tma_add, sim_bulk;   /* simulate_copy.c */
SimAtom sim_ldmatrix, sim_stmatrix, sim_mma, sim_mma_f64;                   /* simulate_matrix.c */
SimAtom sim_wgmma, sim_wgmma_order;                                         /* simulate_wgmma.c */
void sim_atom(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask); /* simulate_atoms.c */
/* The address that the swizzle of TMA and wgmma moves a shared address to. */
int64_t sim_swizzle(KSwizzle swizzle, int64_t address);
/* One operand of an atom: evaluated, or its registers, checked. */
const Lanes *sim_operand(Sim *sim, SimWarp *warp, const SimOperand *operand, LaneMask mask);
int64_t sim_operand_uniform(Sim *sim, SimWarp *warp, const SimOperand *operand, LaneMask mask);

/* simulate_element.c: dtype_load(), and a register's value rounded and stored. */
Number sim_element_load(DType type, const void *base, int64_t index);
void sim_element_store(DType type, void *base, int64_t index, Number value, KType from);
/* Elements of a matrix product as doubles; tf32 loses its low mantissa bits, as the hardware reads it. */
double sim_matrix_element(DType type, const void *base, int64_t index);

#endif
