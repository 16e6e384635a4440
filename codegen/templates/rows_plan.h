/* Shared by the files of the rows template; nobody else includes it.
 *
 *     rows.c            the kernel: its passes, what is kept between them, how results meet
 *     rows_skewed.c     rows that begin anywhere in memory
 *     rows_down.c       statistics of columns, of a block of rows
 *     rows_pieces.c     statistics of pieces of a row
 *     rows_ahead.c      the block's next rows, on their way while one is handled
 *     rows_schedules.c  sizes of a row and its parts; which schedules there are
 *     rows_down_schedules.c  the same of rows with statistics of columns */
#ifndef SINTER_CODEGEN_TEMPLATES_ROWS_PLAN_H
#define SINTER_CODEGEN_TEMPLATES_ROWS_PLAN_H

#include "codegen/lower.h"
#include "codegen/template.h"
#include "ir/block.h"

enum {
    ROWS_REGISTERS = 96,                /* of all values that a thread keeps of a row */
    ROWS_KEPT_MAX = 16,                 /* inputs whose rows stay in shared memory */
    ROWS_DOWN_MAX = REGION_COLUMNS_MAX, /* statistics of columns */
    ROWS_AHEAD_MAX = 8,                 /* inputs whose rows are brought ahead of their turn */
    ROUNDS_FEWEST = 4, /* rounds (rows_rounds.c) that are a loop: fewer are as quick written out */
};

/* The length of a row. */
const Dim *rows_extent(const Graph *graph, const Region *region);
/* Elements of a run: as many as inputs and outputs can move at once. */
int rows_vector(const Graph *graph, const Region *region);
/* So many elements, or as many fewer as a load of an input in 32 bits moves at once. */
int rows_loaded_width(const Graph *graph, const Region *region, int width);
/* Elements of a run where runs do not begin in rows of the last axis; 1: rows are too short for that, or of a
 * kind for which it is not done. */
int rows_unaligned_vector(const Graph *graph, const Region *region);
/* Where runs of so many elements begin; and whether the template can have them there. */
RunStart rows_start(const Graph *graph, const Region *region, int vector);
bool rows_accepts_unaligned(const Graph *graph, const Region *region, const Schedule *schedule,
                            const char **why);
/* Whether places of extrema are asked for so often that they may be rounds. */
bool rows_may_have_rounds(const Region *region);
/* Bytes of shared memory for rows of inputs and for what warps exchange; more than there is where a row has
 * no known bound. */
int64_t rows_smem(const Graph *graph, const Region *region, const Schedule *schedule);
/* Blocks of a cluster that share a row; 1: it is one block's. */
int rows_blocks(const Schedule *schedule);
/* Elements of a row in a block's shared memory, in whole rounds of its threads; INT32_MAX where a row has no
 * known bound. */
int64_t rows_kept_length(const Graph *graph, const Region *region, const Schedule *schedule);
/* Whether an input has elements of its own along the row. */
bool rows_varies(const Value *input);

/* Whether statistics of pieces of a row are asked for; and whether a schedule suits them, of any region. */
bool rows_have_pieces(const Region *region);
bool rows_accepts_pieces(const Graph *graph, const Region *region, const Schedule *schedule,
                         const char **why);

/* A statistic of columns, of blocks of rows each. */
typedef struct RowsDown {
    const Value *output, *reduction;
    BlockStatistic block;
} RowsDown;
/* Those of a region; at most ROWS_DOWN_MAX are written, more are counted. */
int rows_find_down(const Region *region, RowsDown *out);
/* Elements of a row in whole runs of its threads; INT32_MAX where it has no known bound. */
int64_t rows_padded(const Graph *graph, const Region *region, const Schedule *schedule);
/* Inputs whose rows can be brought ahead of their turn by runs of `width` elements: at most ROWS_AHEAD_MAX.
 */
int rows_find_ahead(const Graph *graph, const Region *region, int width, const Value **out);
/* Bytes of shared memory for them; 0 where schedule->stages asks for none. */
int64_t rows_ahead_smem(const Graph *graph, const Region *region, const Schedule *schedule);
/* Bytes of shared memory in which the rows that a block has at a time bring one of them together. */
int64_t rows_down_smem(const Graph *graph, const Region *region, const Schedule *schedule);

/* The template's `accepts` and `schedules`; and their part where columns have statistics: whether a schedule
 * suits these, of any region, and the schedules of a region that has them. */
bool rows_accepts(const Graph *graph, const Region *region, const Schedule *schedule, const Target *target,
                  const char **why);
int rows_schedules(const Graph *graph, const Region *region, const Target *target, const DimBindings *hint,
                   Schedule *out, int room);
bool rows_accepts_down(const Graph *graph, const Region *region, const Schedule *schedule, const char **why);
int rows_down_schedules(const Graph *graph, const Region *region, const Target *target,
                        const DimBindings *hint, Schedule *out, int room);

#endif
