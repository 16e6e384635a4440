/* An estimate of the time that a matrix product takes by wgmma: for each tile of an SM the longest of what
 * goes on side by side, a little more where two are nearly as long.
 *
 *     matrix     steps of K * (product / tensor rate + barriers)
 *     load       steps of K * max(tile bytes / L2 rate, latency / stages), while warpgroups are in the
 * epilogue as well, as far as the ring reaches epilogue   instructions an element, and a part that is the
 * same for each tile store      bytes of the result, by boxes: narrow ones, and rows that begin within a
 * sector, take longer
 *
 *     tile   =  matrix + epilogue | load | store                     warpgroups that share a tile
 *            =  matrix | load | store | (matrix + epilogue) * share  warpgroups in turn
 *     time   =  launch + (tiles one after another | bytes / memory rate) */
#include <math.h>

#include "codegen/templates/cost_share.h"
#include "codegen/templates/matmul_convert.h"
#include "codegen/templates/matmul_dealt.h"
#include "codegen/templates/matmul_inputs.h"
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_scale.h"

/* How much longer than the longest: the power whose mean joins times that go on side by side, for the parts
 * of a tile, and for work and memory; the share of the smaller of these that adds to the larger. */
static const double cost_tile_power = 4, cost_memory_power = 4.68, cost_overlap = 0.3;

/* Seconds of a kernel, of one in clusters. */
static const double cost_launch = 5.17e-6, cost_cluster_launch = 0.827e-6;

static const double cost_rate_reached = 1.31; /* of the target's figure, which is one under a power limit */
static const double cost_reads = 22.4;        /* clocks for 64 rows of A */
/* Seconds of a step's barriers, and where one warpgroup alone multiplies. */
static const double cost_step = 13.9e-9, cost_step_alone = 20e-9;
static const double cost_cluster = 1.06, cost_turns = 0.975; /* a step's factors */
/* Seconds of a step for arrivals from the other blocks of a cluster: of two, of more. */
static const double cost_cluster_step = 35.2e-9, cost_large_cluster_step = 49e-9;
static const double cost_turns_share = 0.556; /* of a tile's time that goes by before the next may end */

/* L2's bytes a clock for an SM and for all, and as factors its time for a row of 128 bytes
 * that lies in two lines, in whole sectors or not, and for runs of 64 and of 32 bytes. */
static const double cost_l2_per_clock = 170, cost_l2_all = 10400;
/* L2's bytes a clock once blocks are apart, those that a column of the tile adds, and the seconds that go by
 * less because blocks begin together: what SMs of a GPC ask for at the same time is read once, and blocks
 * drift. Tiles of 64 x 64 took 15 TB/s of it in kernels of 40 us, 12.5 in those of 150, 10.5 in longer ones.
 * Of what SMs asked for in 8192 x 2560 x 2560, L2 had to read 0.7 by 128 x 128, 0.58 by 128 x 192, 0.55 by
 * 64 x 256; the first took 141 or 169 us, as it had 1.0 or 1.2 GB to read. */
static const double cost_l2_apart = 4600, cost_l2_column = 14, cost_l2_together = 15e-6,
                    cost_apart_power = 25;
/* The share of that rate where indices choose second operands: with two warpgroups in turn or in clusters,
 * with a tile of one block's, and where one tile of a transposed product has a matrix's few rows. Neighbours
 * do not ask for the same, but in the last case. 64 blocks of 128 rows with one of 8 matrices of 2816 x 2048
 * each took 254 us by 128 x 128 in turn, 157 by 128 x 240 in clusters; 128 blocks of 256 with one of 64 of
 * 4096 x 768 468 by 128 x 192 in turn and 404 by 128 x 128 side by side; pairs for 64 blocks of 4 rows, 1536
 * x 3072, 71 transposed and 104 not. */
enum { COST_FEW_ROWS = 32 };
static const double cost_chosen_apart = 0.65, cost_chosen_beside = 0.9, cost_chosen_few = 1.2;
static const double cost_two_lines = 1.28, cost_five_sectors = 2.44;
static const double cost_half_lines = 1.63, cost_quarter_lines = 4;
/* L2's time for a row of a tile that lies beyond the operand's end, of one along K and of others: 132 blocks
 * whose tiles had 1 row of 128 took 72 us where they took 45 with all 128. */
static const double cost_outside = 2, cost_outside_across = 1;
/* L2's time, in whole runs, for one that ends within a box. */
static const double cost_run_cut = 5;
/* What is left of that where the last tile's rows are all there, and two tiles' are read twice
 * (matmul_overlaps): 200 x 14336 x 4096 took 57 us by 128 x 112, with rows beyond the end 70; 256 rows 50. */
static const double cost_overlapped = 0.5;
/* The same, in lines, for a row of a tile that K ends within, in the middle of a sector: 8904 x 1648 x 40
 * took 17.4 us by 128 x 256, 15.2 where blocks read the columns' rows for each other, 9384 x 6216 x 216 91.9
 * and 69.4 by 128 x 192. */
static const double cost_end_sector = 8.4;
/* Bytes: what memory could bring while it turns from the rows of an operand to others and back, as a ring
 * holds few steps. 10472 x 16 x 6320 took 40.2 us with 1536 bytes of each row on their way, 44.7 with
 * 1024, 48.3 with 768 and 50.9 with 512. */
static const double cost_ahead = 200;
/* The same where blocks share K and rows of the larger operand lie along N: the share of its bytes, for
 * pieces of a line, by which memory takes longer as it is asked for rows in two places. 2 x 4096 x 14336
 * took 52.9 us by pieces of 128 bytes in two parts, 46.4 whole, 4 x 13824 x 5120 67.0 and 55.7, by 512 bytes
 * in two 57.0. */
static const double cost_rows_apart = 0.15;

/* An epilogue: instructions an element, and more for each store of an element where rows of the output start
 * anywhere; seconds of each tile; factors where one warpgroup alone does not fill the schedulers, and where
 * it has statistics of blocks of columns besides: a head's norm took 273 us where two warpgroups took 203. */
static const double cost_epilogue_slots = 5.93, cost_ragged_slots = 10, cost_epilogue = 0.179e-6;
static const double cost_alone = 1.31, cost_alone_blocks = 2.5;
/* A factor of the region's own instructions by three warpgroups, which have fewer registers: gelu behind 8192
 * x 16384 x 4096 took 1467 us by 192 x 192, in turn by 128 x 192 1399. */
static const double cost_three = 2.5;
/* The share of the time in which memory brings all blocks' elements of an epilogue's inputs that it waits
 * for, where these do not come through the ring: 8192 x 5120 x 1280 and a sum took 163 us, in clusters 185,
 * by 160 columns 212; 16384 x 5120 x 640 186 and in clusters 238. */
static const double cost_inputs_wait = 0.8;
/* Seconds in which a warpgroup meets over a box of a transposed product's result: of 18 products with either
 * tile, the transposed took 0.3 us longer in the middle. */
static const double cost_box_meeting = 0.05e-6;
/* How much longer tiles in turn take where K is two steps at most, so that neither warpgroup's products hide
 * what the other does: of 12 batches (H200, 48 of 257 x 320 x 96 to 1024 of 64 cubed) they were 8 % later
 * than others against the estimate, and what was chosen was 7 % above the best, 4 % so. */
static const double cost_short_turns = 1.1;
enum { COST_SHORT_STEPS = 2 };
/* The share of an epilogue and a store that what lies beyond the result's end does not cost. */
static const double cost_empty = 0.5;

/* A store: bytes a clock of an SM and of all, factors for boxes of 64 and of 32 bytes a row, bytes that a row
 * of a box costs besides where it begins within a line, or a sector, and those that memory then writes twice,
 * or reads, for a row of a tile; the share of the result that memory has taken when the kernel ends, of as
 * much as L2 holds. */
static const double cost_store = 486, cost_store_all = 5630, cost_half_boxes = 1.2, cost_quarter_boxes = 1.64;
static const double cost_row_line = 15, cost_row_sector = 200, cost_edge_line = 142, cost_edge_sector = 75.7;
static const double cost_written = 0.116;
/* The share of L2 that a result fills before its lines leave half written, and the bytes that a seam costs of
 * what is beyond: 7896 x 3832 x 24 took 36.8 us, in clusters of two along N 32.1, 5262 x 14800 x 19 56.2
 * and 53.2. */
static const double cost_held = 0.5, cost_edge_lost = 300;

static const double cost_again = 0.221; /* share of a second reading by other SMs that L2 does not serve */

/* Seconds that the matrix unit waits while something is computed of a product before another is added: its
 * last step ends, and accumulators are read and written. Not fitted. */
static const double cost_change = 0.3e-6;

/* Seconds of a gang's tile, beside the product: waiting for the others, more for each statistic, for inputs
 * of the epilogue and for each block of the gang, and the share of the tile's steps by which the slowest
 * block is late, in the only round and in one of several, whose loads go on; fitted to 70 products of 16 to
 * 16384 rows. Their epilogues wait rather than compute: the share of its instructions that counts. A launch
 * of its own cleared their packets then: it took so much, and 17 products with a softmax or a norm alone have
 * taken 1 us a tile less besides. */
static const double cost_gang = 0.889e-6, cost_gang_statistic = 1.1e-6, cost_gang_inputs = 1e-6;
static const double cost_gang_block = 0.14e-6, cost_gang_late = 0.0923, cost_gang_late_again = 0.0343;
static const double cost_rows_slots = 0.114, cost_gang_cleared = 1.8e-6;
/* Of the time in which memory takes all blocks' tiles, the share that a gang waits for where they are of 32
 * bits: the blocks store together. Log-softmax of 8192 x 1000 x 1024 took 43 and 45 us where 35 and 39 were
 * expected, of 4096 x 4096 x 768 83 where 69 were. */
static const double cost_gang_wide = 0.5;
static const double cost_gang_turns = 0.75; /* where the other warpgroup multiplies meanwhile; not fitted */

/* Seconds of parts of sums that meet in a cluster, and of each element. */
static const double cost_meeting = 0.706e-6, cost_meeting_element = 0.000261e-6;

/* Tiles that blocks share: how much longer whole rounds before them take; how much longer the last for each
 * tile of a group that has several, whose helper has the tails one after the other; seconds of blocks that
 * start together (fitted as 1.8 when a launch of its own cleared their flags; nine products have taken 1.3
 * less since, of which 1 counts, so that tiles of one block win a tie), and of an element of a part that is
 * handed on; of these, what each other part of the tile costs. */
static const double cost_stream_rounds = 1.04, cost_stream_tails = 0.035, cost_stream = 0.8e-6,
                    cost_stream_element = 0.145e-9, cost_stream_more = 0.451;
/* Seconds that it begins later behind another kernel, which it does not overlap: all of its blocks start
 * together. */
static const double cost_stream_behind = 4e-6;

/* Clocks for the additions of a step's sums to those of the tile, an element of 128 a clock: by one warpgroup
 * alone, or beside the products of others. */
static const double cost_promote_alone = 2.92, cost_promote = 0.163;
/* How many times as many they are where each column has a factor of its own, read and multiplied with that of
 * the row: 4096 x 4096 x 4096 took 163 us for 106. */
static const double cost_promote_columns = 20;

/* Slots for two elements of fragments that are computed, and more for each operation; the share of what is
 * shorter, computing or multiplying, that the other does not hide. */
static const double cost_fragment_slots = 12, cost_fragment_op_slots = 4, cost_fragment_overlap = 0.3;
/* The same of fragments that stay packed, and more for each reduction of their rows. */
static const double cost_packed_slots = 1, cost_packed_row_slots = 0.7;
/* The same of integers of 4 bits and their scales. */
static const double cost_nibble_slots = 10;

/* Clocks for a load of 32 elements of an operand that goes to registers as it lies; the share of them that
 * the products do not hide. Not fitted. */
static const double cost_turned_clocks = 1, cost_turned_overlap = 0.3;

/* What goes on side by side for a tile, in seconds. */
typedef struct CostTile {
    double matrix, load, epilogue, store;
    double feed; /* of one step, of which `load` has all */
    double taps; /* steps of a stage */
} CostTile;

/* Times that go on side by side. */
static double cost_beside(double a, double b, double power) {
    double longest = fmax(a, b);
    return longest > 0 ? longest * pow(pow(a / longest, power) + pow(b / longest, power), 1 / power) : 0;
}

/* wgmma reads 64 rows of A anew for every instruction: below n = 64 shared memory, not the matrix unit, sets
 * the pace. */
static double cost_efficiency(const MatmulPlan *plan, const Schedule *s) {
    double cols =
        matmul_partial_cols(plan, s) ? matmul_partial_cols(plan, s) : matmul_columns_at_once(plan, s);
    double product = cols / 2.0, reads = cost_reads + cols / 4.0;
    return product / fmax(product, reads);
}

/* Whether one warpgroup has an SM's schedulers to itself. */
static bool cost_is_alone(const Schedule *s, const CostShare *w) {
    return s->warps_m == 1 && w->crowd <= 1;
}

/* Time in which the consumers of a block compute a stage's fragments. */
static double cost_fragments(const MatmulPlan *plan, const Schedule *s) {
    if (!s->fragments)
        return 0;
    const MatmulOperand *operand = matmul_side(plan, s, true);
    bool is_packed = matmul_fragments_are_packed(plan, s);
    double slots = is_packed ? cost_packed_slots + cost_packed_row_slots * (double)plan->operand_rows.n
                             : cost_fragment_slots;
    if (matmul_fragments_are_nibbles(plan, s))
        slots = cost_nibble_slots;
    else if (!is_packed)
        slots += cost_operations(plan, operand) * cost_fragment_op_slots / plan->n_cores;
    double words = (double)s->tile_m * s->tile_k / 2 * (s->swap_ab ? plan->n_cores : 1);
    return words / 128 * slots / cost_clock;
}

/* Time in which they load a stage's fragments of an operand that lies along M or N. */
static double cost_turned(const MatmulPlan *plan, const Schedule *s) {
    if (!matmul_is_turned(plan, matmul_side(plan, s, true)))
        return 0;
    double elements = (double)s->tile_m * s->tile_k * (s->swap_ab ? plan->n_cores : 1);
    return elements / 32 * cost_turned_clocks / cost_clock;
}

/* Seconds of a line of 64 elements that warpgroups bring from anywhere in memory, along K and along M or N.
 * It is L2's time, of which a line takes more than one of TMA's does, and what is behind a line of columns
 * its own: 999 x 1001 x 1003 took 20.9 us by 64 x 128, 13.7 where nothing was copied, 11.2 where nothing was
 * shifted either; 6304 x 3082 x 770 164 with a piece behind each line of K, 131 without. */
static const double cost_brought_line = 3.3e-9, cost_brought_columns = 4.2e-9;

static double cost_brought(const MatmulPlan *plan, const Schedule *s) {
    double seconds = 0;
    for (int i = 0; i < 1 + plan->n_cores; i++) {
        const MatmulOperand *operand = i ? &plan->b[i - 1] : &plan->a;
        if (matmul_is_brought(plan, operand))
            seconds += ((i != 0) == s->swap_ab ? s->tile_m : s->tile_n) *
                       (operand->major == MAJOR_K ? cost_brought_line : cost_brought_columns);
    }
    return seconds;
}

/* Seconds for each tile and row of K of an operand whose rows are shorter than such a line and lie along N
 * (or M): of as many as a line spans, all blocks ask for the same few lines of L2. 2 x 15160 x 184, whose
 * first operand has rows of 2 elements, took 89 us with 474 tiles, 18 with 60, 12504 x 2 x 40 10 with 196. */
static const double cost_brought_again = 0.028e-9;

static double cost_brought_short(const Cost *c, const MatmulPlan *plan, const CostShare *w) {
    enum { LINE = 64 };
    double seconds = 0;
    for (int i = 0; i < 1 + plan->n_cores; i++) {
        const MatmulOperand *operand = i ? &plan->b[i - 1] : &plan->a;
        double row = fmax(1, (double)(i ? c->n : c->m));
        if (matmul_is_brought(plan, operand) && operand->major == MAJOR_MN && row < LINE)
            seconds += w->tiles_m * w->tiles_n * (double)c->k * LINE / row * cost_brought_again;
    }
    return seconds;
}

/* Time of a stage of an operand that warpgroups convert: 64 x 64 elements of 8 bits took 417, 331 and 300 ns
 * with one, two and three of them. */
static double cost_converted(const MatmulPlan *plan, const Schedule *s) {
    int converters = matmul_converters(plan, s);
    if (!converters)
        return 0;
    if (matmul_brings(plan))
        return cost_brought(plan, s);
    bool is_rows = matmul_is_converted(plan, &plan->a) != s->swap_ab;
    double elements = (double)(is_rows ? s->tile_m : s->tile_n) * s->tile_k;
    return elements / 4096 * (240e-9 + 180e-9 / converters);
}

/* L2's time for a tile's columns where the operand that gives them is contiguous along them, and they are no
 * whole lines: a batch of 592 x 1256 x 8192 took 279 us with 224 columns a tile in runs of 32 of them, 173
 * with 256. */
static double cost_runs(const MatmulPlan *plan, const MatmulOperand *operand, const Schedule *s) {
    int bytes = s->tile_n * dtype_bits(operand->elem) / 8;
    if (operand->major != MAJOR_MN || bytes % 128 == 0)
        return 1;
    if (matmul_held(plan, s, false) > s->tile_n)
        return matmul_lines(bytes) * 128 / bytes;
    return bytes % 64 == 0 ? cost_half_lines : cost_quarter_lines;
}

/* The same for windows of which a step has half or a quarter of a line of channels. H200, us, by steps of 16,
 * 32 and 64 channels, some of which are filled up with zeros: 80 channels back to 384 of 64 x 38 x 38 110 by
 * 16, 92 by 32; 96 to 64, in 3 axes with stride 2, 84 by 32, 100 by 64; 480 to 512 114 by 32, 105 by 64. */
static const double cost_window_half = 1.2, cost_window_quarter = 2.6;

double cost_short_rows(int bytes) {
    enum { LINE = 128 };
    return bytes >= LINE ? 1 : bytes >= LINE / 2 ? cost_window_half : cost_window_quarter;
}

static double cost_window_rows(const MatmulPlan *plan, const MatmulOperand *operand, const Schedule *s) {
    bool has_short_rows = operand->windows || s->patches; /* a tap's weights are in such rows, too */
    if (!has_short_rows || operand->major != MAJOR_K)
        return 1;
    return cost_short_rows(matmul_row_elements(plan, s, operand) * dtype_bits(operand->elem) / 8);
}

/* L2's time for a row of 128 bytes of an operand. */
static double cost_row(CostRows rows) {
    return cost_of_rows(rows, 1, cost_two_lines, cost_five_sectors);
}

/* The same on average over the steps of K, of which the last may end within a row of the tile. */
static double cost_row_of_steps(const Cost *c, const Schedule *s, const CostShare *w, bool is_b) {
    const MatmulOperand *operand = is_b ? &c->plan->b[0] : &c->plan->a;
    CostRows rows = is_b ? c->rows_b : c->rows_a;
    bool ends_within =
        operand->major == MAJOR_K && c->k % s->tile_k != 0 && !matmul_is_dealt(c->plan, operand);
    double last = ends_within ? cost_of_rows(rows, 0, 0, cost_end_sector) : 0;
    return cost_row(rows) + last / (w->steps * w->split);
}

/* Clocks of shared memory for 128 bytes of a row that warps copy, beyond what TMA takes: 4096 x 5120 x 4096
 * with chosen rows took 284 us by 256 x 160, 16384 x 3584 x 1792 took 297 by 128 x 256 and 271 without. */
static const double cost_chosen_row = 0.9;

static double cost_chosen_rows(const MatmulPlan *plan, const Schedule *s) {
    double rows = 0;
    for (int i = 0; i < 1 + plan->n_cores; i++)
        if (matmul_has_chosen_rows(i ? &plan->b[i - 1] : &plan->a))
            rows += (i != 0) == s->swap_ab ? s->tile_m : s->tile_n;
    return cost_chosen_row * rows / cost_clock;
}

/* A step of K: multiplying. */
static double cost_matrix(const MatmulPlan *plan, const Schedule *s, const CostShare *w) {
    double flops = 2.0 * s->tile_m * s->tile_n * s->tile_k * plan->n_cores;
    double rate = cost_rate_reached * cost_rate(plan) / plan->target->sm_count * cost_efficiency(plan, s);
    double product = fmax(flops / rate, cost_converted(plan, s)) * w->crowd;
    double fragments = cost_fragments(plan, s) * w->crowd;
    product = fmax(product, fragments) + cost_fragment_overlap * fmin(product, fragments);
    product += cost_turned_overlap * cost_turned(plan, s) * w->crowd;
    product += cost_chosen_rows(plan, s) * w->crowd;
    double promote = cost_is_alone(s, w) ? cost_promote_alone : cost_promote;
    if (matmul_scale_is_by_column(s->swap_ab ? &plan->a : &plan->b[0], false))
        promote *= cost_promote_columns;
    double sums =
        matmul_partial_cols(plan, s) ? promote * s->tile_m * s->tile_n / 128 * w->crowd / cost_clock : 0;
    double barriers = (s->warps_m == 1 ? cost_step_alone : cost_step) / cost_taps(plan, s);
    double step = (product + barriers) * (s->ping_pong ? cost_turns : 1);
    int blocks = w->cluster_m * w->cluster_n;
    if (blocks > 1)
        step = step * cost_cluster + (blocks == 2 ? cost_cluster_step : cost_large_cluster_step);
    return step + sums;
}

/* A tile's rows or its columns, and the operand that gives them. */
typedef struct CostSide {
    const MatmulOperand *operand;
    double tile, tiles, extent; /* how many of a tile, how many tiles, how many of the result */
    double bits;                /* of an element along K in a row of the tile, from L2 */
    bool is_b, overlaps, is_patch;
} CostSide;

static CostSide cost_side(const MatmulPlan *plan, const Schedule *s, const CostShare *w, bool is_rows) {
    CostSide side = {.operand = matmul_side(plan, s, is_rows),
                     .tile = is_rows ? s->tile_m : s->tile_n,
                     .tiles = is_rows ? w->tiles_m : w->tiles_n,
                     .extent = is_rows ? w->rows : w->cols,
                     .is_b = is_rows == s->swap_ab,
                     .is_patch = s->patches,
                     .overlaps = matmul_overlaps(plan, s, is_rows)};
    if (matmul_is_brought(plan, side.operand)) /* it has come by then */
        return side;
    int tiles = side.is_b ? plan->n_cores : 1; /* each product has a tile of its second operand */
    side.bits = matmul_stage_bits(plan, s, is_rows) * tiles / (double)(is_rows ? w->cluster_n : w->cluster_m);
    side.bits *= matmul_row_elements(plan, s, side.operand) / (double)s->tile_k;
    side.bits *= cost_window_rows(plan, side.operand, s) * cost_box(plan, s, is_rows);
    side.bits *= is_rows ? 1 : cost_runs(plan, side.operand, s);
    return side;
}

/* Whether one tile has all of an operand's rows or columns: its boxes end with them. */
static bool cost_is_clipped(const CostSide *side) {
    return side->tiles <= 1 && dim_is_const(side->operand->mn);
}

/* L2's time, in rows, for what an average tile has beyond an operand's end. */
static double cost_beyond(const CostSide *side) {
    if (cost_is_clipped(side) || side->is_patch)
        return 0;
    return (side->tiles * side->tile - side->extent) / side->tiles *
           (side->operand->major == MAJOR_K ? cost_outside : cost_outside_across) *
           (side->overlaps ? cost_overlapped : 1);
}

/* The same, for the runs of an operand along M or N that end within a box's: TMA fills the rest of each with
 * zeros, at a fraction of its rate. Where blocks have one tile each, they wait for the one that ends there.
 */
static double cost_cut(const CostSide *side, const Schedule *s, const CostShare *w) {
    double span = fmin(side->tile, 1024.0 / dtype_bits(side->operand->elem));
    if (side->operand->major == MAJOR_K || fmod(side->extent, span) == 0 || side->overlaps || side->is_patch)
        return 0;
    return cost_run_cut * span / (w->rounds > 1 || s->stream_k ? side->tiles : 1);
}

/* L2's time for what a box brings of an operand. */
static double cost_within(const Cost *c, const Schedule *s, const CostShare *w, const CostSide *side) {
    double rows = cost_is_clipped(side) ? fmin(side->tile, side->extent) : side->tile;
    return rows * side->bits * cost_row_of_steps(c, s, w, side->is_b);
}

/* A row of a step's tiles, of bits, from L2: what of it lies within the operands, and beyond. */
typedef struct CostLines {
    double within, beyond;
} CostLines;

static CostLines cost_lines(const Cost *c, const MatmulPlan *plan, const Schedule *s, const CostShare *w) {
    CostSide rows = cost_side(plan, s, w, true), cols = cost_side(plan, s, w, false);
    double cut = cost_cut(&rows, s, w) * rows.bits + cost_cut(&cols, s, w) * cols.bits;
    return (CostLines){.within = cost_within(c, s, w, &rows) + cost_within(c, s, w, &cols) + cut,
                       .beyond = cost_beyond(&rows) * rows.bits + cost_beyond(&cols) * cols.bits};
}

/* A step of K: its operands on their way. */
static double cost_feed(const MatmulPlan *plan, const CostLines *lines, const Schedule *s,
                        const CostShare *w) {
    double clocks = fmax(lines->within * w->crowd / cost_l2_per_clock,
                         (lines->within + lines->beyond) * w->abreast / cost_l2_all);
    double latency = cost_load / (s->stages > 1 ? s->stages - 1 : 1) / cost_taps(plan, s);
    return fmax(clocks * s->tile_k / 8 / cost_clock, latency);
}

/* All steps of all rounds, as blocks drift apart. Not so in the order along n of what only reads its rows:
 * the losses of 4096 x 32000 logits along 2048 took 662 us by 128 x 128, at 12.7 TB/s, in clusters 839; nor
 * where each block has one tile, all begin together and no epilogue comes between: 512 x 3584 along 18944
 * took 94 us by 64 x 224, at 14.8 TB/s, and 104 by 128 x 224 in parts. */
static double cost_drifting(const MatmulPlan *plan, const CostLines *lines, const Schedule *s,
                            const CostShare *w, const MatmulShares *shares) {
    if (s->group_n || (!shares && w->rounds <= 1))
        return 0;
    bool is_chosen = matmul_above(plan) < plan->batch_rank;
    bool are_few = s->swap_ab && w->tiles_n <= 1 && w->cols <= COST_FEW_ROWS;
    bool is_apart = s->ping_pong || w->cluster_m * w->cluster_n > 1;
    double share = are_few ? cost_chosen_few : is_apart ? cost_chosen_apart : cost_chosen_beside;
    double rounds = shares ? shares->rounds + shares->share : w->rounds;
    double bytes = (lines->within + lines->beyond) * s->tile_k / 8 * w->abreast * w->steps * rounds;
    double cols = fmin(s->tile_n, w->cols) * plan->n_cores; /* none beyond the end */
    double rate = (cost_l2_apart + cost_l2_column * cols) * (is_chosen ? share : 1);
    return fmax(0, bytes / rate / cost_clock - (is_chosen ? 0 : cost_l2_together));
}

/* How much longer boxes of the result take that have fewer columns than a swizzle spans; those of a
 * transposed product have 64. */
static double cost_boxes(const Cost *c, const Schedule *s) {
    int bytes = s->swap_ab || s->tile_n % 64 == 0 ? 128 : s->tile_n % 32 == 0 ? 64 : 32;
    bytes *= c->has_wide_outputs && bytes < 128 ? 2 : 1;
    return bytes == 128 ? 1 : bytes == 64 ? cost_half_boxes : cost_quarter_boxes;
}

/* Whether the epilogue reduces whole rows, rather than blocks of their columns or heads. */
static bool cost_has_rows(const Cost *c, const MatmulPlan *plan) {
    return plan->statistics.n > 0 && !plan->block_cols && c->beside <= 1;
}

/* How often an epilogue goes over its elements. What a norm or a softmax needs of rows is taken on the way.
 */
static double cost_passes(const Cost *c, const MatmulPlan *plan) {
    enum { ON_THE_WAY = 2 };
    size_t of_rows = plan->statistics.n;
    if (cost_has_rows(c, plan))
        of_rows = of_rows > ON_THE_WAY ? of_rows - ON_THE_WAY : 0;
    return cost_statistics((double)(of_rows + plan->columns.n));
}

/* The share of a tile's work on its result that is done for an average tile, which lies within it in part. */
static double cost_filled(const Schedule *s, const CostShare *w) {
    double inside = w->rows * w->cols / (w->tiles_m * s->tile_m * w->tiles_n * s->tile_n);
    return 1 - cost_empty * (1 - fmin(1, inside));
}

static double cost_epilogue_seconds(const Cost *c, const MatmulPlan *plan, const Schedule *s,
                                    const CostShare *w) {
    double share = (cost_has_rows(c, plan) ? cost_rows_slots : 1) * (s->warps_m == 3 ? cost_three : 1);
    double slots = cost_epilogue_slots * cost_boxes(c, s) + share * c->slots + cost_ragged_slots * c->ragged;
    double elements = cost_filled(s, w) * s->tile_m * s->tile_n * w->crowd;
    double seconds = cost_passes(c, plan) * elements * slots / 128 / cost_clock;
    if (cost_is_alone(s, w))
        seconds *= plan->block_cols ? cost_alone_blocks : cost_alone;
    if (s->swap_ab) {
        double box_cols = c->has_wide_outputs ? 32 : 64;
        seconds += cost_box_meeting * ceil(s->tile_n / box_cols) * s->tile_m / (64.0 * s->warps_m);
    }
    if (w->gang <= 1 && !matmul_inputs_have_way(plan, s))
        seconds += cost_inputs_wait * cost_filled(s, w) * s->tile_m * s->tile_n * c->bytes_in * w->all /
                   plan->target->memory_bytes_per_second;
    return seconds + cost_epilogue;
}

/* What the blocks of a gang wait for each other. */
static double cost_gang_seconds(const Cost *c, const MatmulPlan *plan, const Schedule *s, const CostShare *w,
                                const CostTile *t) {
    if (w->gang <= 1)
        return 0;
    double stored = s->tile_m * s->tile_n * c->bytes_out * w->all / plan->target->memory_bytes_per_second;
    return cost_gang + (c->has_wide_outputs ? cost_gang_wide * stored : 0) +
           cost_gang_statistic * (double)plan->statistics.n + (c->bytes_in > 0 ? cost_gang_inputs : 0) +
           cost_gang_block * w->gang +
           (w->rounds > 1 ? cost_gang_late_again : cost_gang_late) * fmax(t->matrix, t->load);
}

static double cost_store_seconds(const Cost *c, const Schedule *s, const CostShare *w) {
    enum { BOX_COLS = 64 };
    double edges =
        ceil(s->tile_n / (double)BOX_COLS) * cost_of_rows(c->rows_out, 0, cost_row_line, cost_row_sector);
    double bytes = cost_filled(s, w) * (s->tile_n * c->bytes_out * cost_boxes(c, s) + edges) * s->tile_m;
    return bytes * fmax(w->crowd / cost_store, w->abreast / cost_store_all) / cost_clock;
}

/* Bytes of memory for a row of a tile that begins within a line: by the seam to its neighbour, which is none
 * where both are of a cluster and are written together. */
static double cost_seam(const Cost *c, double result) {
    double held = fmin(result, cost_held * (double)c->plan->target->l2_bytes);
    double lost = result > held ? cost_edge_lost * (1 - held / result) : 0;
    return cost_of_rows(c->rows_out, 0, cost_edge_line + lost, cost_edge_sector + lost);
}

/* Whether a window's channels take less than a line, the rest of which is the next window's: a step of all
 * windows of a tile has whole lines, and more steps ahead have no others. H200, us, by tiles of 128 and of
 * 256 windows: 7 x 7 taps of 8 groups of 16 channels 504 and 455, which would be alike. */
static bool cost_windows_touch(const MatmulOperand *operand) {
    enum { LINE = 128 };
    return operand->windows && dim_is_const(operand->windows->channels) &&
           operand->windows->channels->value * dtype_bits(operand->elem) < 8 * LINE;
}

/* Bytes that memory could bring in the time that it takes longer, where it has to open its rows again and
 * again: those of the larger operand, of which a ring asks for a few steps. */
static double cost_reopened(const Cost *c, const Schedule *s) {
    const MatmulOperand *larger = c->m > c->n ? &c->plan->a : &c->plan->b[0];
    if (s->patches || cost_windows_touch(larger))
        return 0;
    double run = fmax(1, (double)c->k), ahead = fmin(run, (double)s->stages * s->tile_k);
    double bits = dtype_bits(larger->elem);
    if (larger->major != MAJOR_K) {
        double piece = (c->m > c->n) == s->swap_ab ? s->tile_n : s->tile_m;
        double bytes = run * fmax((double)c->m, (double)c->n) * (double)c->batch * bits / 8;
        return s->split_k > 1 ? cost_rows_apart * fmin(1, 1024 / bits / piece) * bytes : 0;
    }
    return cost_ahead * (run / ahead - 1) * fmax((double)c->m, (double)c->n) * (double)c->batch;
}

static double cost_memory(const Cost *c, const Schedule *s, const CostShare *w) {
    double result = c->bytes_out * (double)c->m * (double)c->n * (double)c->batch;
    double bytes = (double)c->bytes - (1 - cost_written) * fmin(result, (double)c->plan->target->l2_bytes) +
                   cost_seam(c, result) * cost_seams(s, w) / w->cluster_n * (double)c->batch +
                   cost_reopened(c, s);
    if (c->from_memory)
        bytes += cost_again * cost_bytes_again(c, w);
    return bytes / c->plan->target->memory_bytes_per_second;
}

/* A tile while others of the same block come before and behind it: what an SM does for it, and what is left
 * of the last one when all else is done. */
static double cost_tile_among_others(const Schedule *s, const CostTile *t, double *last) {
    if (s->ping_pong) {
        double ways = cost_beside(t->load, t->store, cost_tile_power);
        double turn = (t->matrix + t->epilogue + t->store) * cost_turns_share;
        *last = t->epilogue;
        return cost_beside(ways, cost_beside(t->matrix, turn, cost_tile_power), cost_tile_power);
    }
    double ahead = fmin(t->epilogue, s->stages * t->feed * t->taps);
    double ways = cost_beside(t->load + t->epilogue - ahead, t->store, cost_tile_power);
    *last = t->store;
    return cost_beside(ways, t->matrix + t->epilogue, cost_tile_power);
}

/* A tile alone, of whose steps the block has a share. */
static double cost_tile_alone(const CostTile *t, double share) {
    return share * cost_beside(t->matrix, t->load, cost_tile_power) + t->epilogue + t->store;
}

/* Tiles of which several blocks share some. */
static double cost_shared_work(const MatmulPlan *plan, const Schedule *s, const CostTile *t,
                               const MatmulShares *shares) {
    double last, tails = shares->tiles > 1 ? cost_stream_tails * shares->tiles : 0;
    double part = cost_stream_element * s->tile_m * s->tile_n;
    return cost_stream_rounds * shares->rounds * cost_tile_among_others(s, t, &last) +
           (1 + tails) * cost_tile_alone(t, shares->share) + cost_stream +
           part * (1 + cost_stream_more * (shares->parts - 1)) +
           (plan->region->follows ? cost_stream_behind : 0);
}

/* All tiles of a block; `shares`: of those that blocks share, NULL where there are none. */
static double cost_work(const MatmulPlan *plan, const Schedule *s, const CostShare *w, const CostTile *t,
                        const MatmulShares *shares) {
    double last;
    if (shares)
        return cost_shared_work(plan, s, t, shares);
    if (s->ping_pong || (w->rounds > 1 && w->split == 1)) {
        double tile = cost_tile_among_others(s, t, &last);
        return w->rounds * tile + last;
    }
    double meeting = w->split > 1 ? cost_meeting + cost_meeting_element * s->tile_m * s->tile_n : 0;
    return w->rounds * (cost_tile_alone(t, 1) + meeting);
}

double cost_wgmma_seconds(const Cost *c, const Schedule *s) {
    const MatmulPlan *plan = matmul_wgmma_plan(c->plan);
    CostShare w = cost_share(c, plan, s);
    CostLines lines = cost_lines(c, plan, s, &w);
    CostTile tile = {.matrix = cost_matrix(plan, s, &w) * w.steps + c->n_changed * cost_change,
                     .feed = cost_feed(plan, &lines, s, &w),
                     .epilogue = cost_epilogue_seconds(c, plan, s, &w),
                     .store = cost_store_seconds(c, s, &w),
                     .taps = cost_taps(plan, s)};
    tile.load = tile.feed * w.steps;
    tile.epilogue += cost_gang_seconds(c, plan, s, &w, &tile) * (s->ping_pong ? cost_gang_turns : 1);
    MatmulShares found;
    const MatmulShares *shares = matmul_stream(plan, s, &found) ? &found : NULL;
    bool has_short_turns = s->ping_pong && w.steps <= COST_SHORT_STEPS && !plan->statistics.n;
    double factor = cost_in_patches(plan, s, &w) * (has_short_turns ? cost_short_turns : 1);
    double work = factor * cost_work(plan, s, &w, &tile, shares) + cost_brought_short(c, plan, &w) +
                  cost_resident(plan, s, &w),
           memory = cost_memory(c, s, &w);
    work = cost_beside(work, cost_drifting(plan, &lines, s, &w, shares), cost_apart_power);
    return cost_launch + (w.cluster_m * w.cluster_n > 1 ? cost_cluster_launch : 0) -
           (w.gang > 1 ? cost_gang_cleared : 0) + cost_beside(work, memory, cost_memory_power) +
           cost_overlap * fmin(work, memory);
}
