/* The paths that multiply: what each accepts and takes of an SM, its schedules, its kernel. wgmma's is in
 * matmul_wgmma.c and wgmma_*.c, mma.sync's in matmul_mma.c, that of multiply-adds in matmul_simt.c, that of
 * few rows in matmul_gemv.c, of a few dozen in matmul_skinny.c. */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_PATHS_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_PATHS_H

#include "codegen/templates/matmul.h"

/* Whether a path can carry out a schedule; a person's words in *why where not. */
bool matmul_accepts_wgmma(const MatmulPlan *plan, const Schedule *schedule, const char **why);
bool matmul_accepts_mma(const MatmulPlan *plan, const Schedule *schedule, const char **why);
bool matmul_accepts_simt(const MatmulPlan *plan, const Schedule *schedule, const char **why);
bool matmul_accepts_gemv(const MatmulPlan *plan, const Schedule *schedule, const char **why);
bool matmul_accepts_skinny(const MatmulPlan *plan, const Schedule *schedule, const char **why);
/* Whether blocks of few rows share the K that a schedule says, and finish what the region asks of their sums.
 */
bool matmul_accepts_split(const MatmulPlan *plan, const Schedule *schedule, const char **why);
/* Whether a warp whose fragment spans so many columns has every column that its epilogue reads. */
bool matmul_holds_blocks(const MatmulPlan *plan, int columns, const char **why);
/* matmul_blocks.c: whether a schedule's tiles are the blocks that the region's statistics are of. */
bool matmul_accepts_blocks(const MatmulPlan *plan, const Schedule *schedule, const char **why);
/* Whether a tile has all columns of a row that its statistics are of. */
bool matmul_has_rows(const MatmulPlan *plan, const Schedule *schedule);

void matmul_build_wgmma(Builder *b, const MatmulPlan *plan);
void matmul_build_mma(Builder *b, const MatmulPlan *plan);
void matmul_build_simt(Builder *b, const MatmulPlan *plan);
void matmul_build_gemv(Builder *b, const MatmulPlan *plan);
void matmul_build_skinny(Builder *b, const MatmulPlan *plan);

/* matmul_schedules.c: schedules worth trying, best first, of those that accepts() takes; how many. `loop` is
 * the one that always works, and always among them. */
int matmul_schedules(const MatmulPlan *plan, const DimBindings *hint, const Schedule *loop, Schedule *out,
                     int room,
                     bool (*accepts)(const MatmulPlan *plan, const Schedule *schedule, const char **why));

/* ---- what a block takes */

/* Blocks of a cluster that share the K of a tile. */
int matmul_split(const Schedule *schedule);
/* Registers of a thread, estimated; more than 255 spill. */
int matmul_registers(const MatmulPlan *plan, const Schedule *schedule);
/* Blocks for which an SM has shared memory, registers and threads, by estimate. */
int matmul_blocks_that_fit(const MatmulPlan *plan, const Schedule *schedule);
/* Blocks that run on one SM at a time, as far as the kernel asks for it (`.minnctapersm`). */
int matmul_blocks_per_sm(const MatmulPlan *plan, const Schedule *schedule);
/* Bytes of shared memory of a block. */
int64_t matmul_smem_wgmma(const MatmulPlan *plan, const Schedule *schedule);
int64_t matmul_smem_tiles(const MatmulPlan *plan, const Schedule *schedule); /* mma.sync, multiply-adds */
int64_t matmul_smem_gemv(const MatmulPlan *plan, const Schedule *schedule);  /* few rows: parts of sums */
/* Registers in which a thread holds a stage's part of a computed operand; 0 where it is copied. */
int matmul_loader_registers(const MatmulPlan *plan, const MatmulOperand *operand, const Schedule *schedule,
                            int tile_mn, int threads);
/* Bytes of one stage, as the path reads it. */
int64_t matmul_loader_bytes(const MatmulPlan *plan, const MatmulOperand *operand, MatmulPath path,
                            int tile_mn, int tile_k);

/* ---- wgmma */

/* wgmma_fragments.c: whether those who multiply take an operand to registers: it is computed, or rows of it
 * are reduced on the way. */
bool matmul_has_fragments(const MatmulPlan *plan, const Schedule *schedule, const MatmulOperand *operand);
/* Registers of a thread for it. */
int matmul_fragment_registers(const MatmulPlan *plan, const Schedule *schedule);
/* Whether its words go from memory to the products without being taken apart. */
bool matmul_fragments_are_packed(const MatmulPlan *plan, const Schedule *schedule);
/* Whether they are integers of 4 bits, which become pairs by a few instructions. */
bool matmul_fragments_are_nibbles(const MatmulPlan *plan, const Schedule *schedule);
/* wgmma_turned.c: whether wgmma takes an operand from registers alone, as rows, since it is contiguous along
 * M or N; registers of a thread for it. */
bool matmul_is_turned(const MatmulPlan *plan, const MatmulOperand *operand);
int matmul_turned_registers(const MatmulPlan *plan, const Schedule *schedule);
/* wgmma_accepts.c: the operand that gives the tile's rows, or its columns; of several, the first. */
const MatmulOperand *matmul_side(const MatmulPlan *plan, const Schedule *schedule, bool is_rows);
/* Bits that an element of the operand which gives the tile's rows, or its columns, takes in a stage. */
int matmul_stage_bits(const MatmulPlan *plan, const Schedule *schedule, bool is_rows);
/* Lines of 128 bytes that a row of `bytes` asks L2 for, on average over a matrix's tiles: twice for those
 * that a tile begins within. */
double matmul_lines(int bytes);
/* Elements along M or N of an operand that a stage of the wgmma path has, of the tile's rows or columns.
 * Where the operand is contiguous along them these are whole lines, if TMA asks for fewer so than for the
 * runs that divide the tile, which the matrix unit reads slower, too; the last line may reach into the next
 * tile, or beyond the operand's end. */
int matmul_held(const MatmulPlan *plan, const Schedule *schedule, bool is_rows);

/* wgmma in two levels: each step's products into registers of their own, whose sum goes into the f32
 * accumulators, with the factors of its block. Columns of the result that one such sum spans; 0: the products
 * go into the accumulators straight. */
int matmul_partial_cols(const MatmulPlan *plan, const Schedule *schedule);

/* With stream_k: rounds of whole tiles, then tiles that groups of blocks share, so many each; of the steps of
 * such a tile, what a block has; parts that the owner of one adds. */
typedef struct MatmulShares {
    int rounds, tiles, parts;
    double share;
} MatmulShares;
/* False: none are shared. */
bool matmul_stream(const MatmulPlan *plan, const Schedule *schedule, MatmulShares *shares);

/* ---- few rows */

/* The least tile_k of the gemv path for these warps and columns, one run of each lane; 0: they do not divide.
 */
int matmul_gemv_step(const MatmulPlan *plan, const Schedule *schedule);
/* What the gemv path's threads load, as estimates of its time see it. */
typedef struct MatmulStream {
    bool along_k;  /* the weights lie along K, not along N */
    bool is_apart; /* the few rows do not: their neighbours along K lie apart */
    int line;      /* bytes in a row that a warp's load has from memory */
    int columns;   /* of the product that a thread adds to, for which it reads the few rows once */
    double asked;  /* lines of 128 bytes of the few rows that a warp asks L1 for, for each weight of a lane */
} MatmulStream;
/* `few`: how many rows, or columns, the product has that are few. */
MatmulStream matmul_gemv_stream(const MatmulPlan *plan, const Schedule *schedule, int64_t few);
/* Registers of a thread of the gemv path, estimated. */
int matmul_gemv_registers(const MatmulPlan *plan, const Schedule *schedule);
/* The same of the skinny path: its least tile_k, 0 where lanes find no runs of the weights, and registers. */
int matmul_skinny_step(const MatmulPlan *plan, const Schedule *schedule);
/* Whether lanes take neighbouring columns of the weights from memory, instead of neighbours along K. */
bool matmul_skinny_is_across(const MatmulPlan *plan, const Schedule *schedule);
/* Bits of an element of the larger operand in memory, where lanes take it from there; else of what is
 * computed. */
int matmul_skinny_bits(const MatmulPlan *plan, const MatmulOperand *operand);
int matmul_skinny_registers(const MatmulPlan *plan, const Schedule *schedule);

#endif
