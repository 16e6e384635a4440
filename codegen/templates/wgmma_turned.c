/* An operand of 32 bits that is contiguous along M or N, where it gives the tile's rows. From shared memory
 * the matrix unit takes such elements along K alone, but its first operand from registers as well. TMA brings
 * the tile as it lies, and each thread takes the elements of its own fragments to registers (PTX ISA
 * 9.7.15.5.1, A of m64k8), one load each:
 *
 *     fragment                                   stage
 *     lanes 0 1 2 3: rows 0, 8; k 0..3, 4..7     a line of 128 bytes for each k,
 *     lanes 4 5 6 7: rows 1, 9; the same k       32 rows side by side, swizzled by k
 *
 * Of a fragment's four words a lane takes another one first than its neighbours along K do, and then the
 * others, so that the 32 words of a load lie in 32 banks: the lane of k has word t ^ k at turn t. Were it
 * word t for all, the 16-byte chunks of k and k + 1 would be the same two, and two lanes share each bank.
 * Selects put the words in order.
 *
 * Half of a stage's fragments are loaded while the products of the other half run, into registers of their
 * own:
 *
 *     matrix unit   | stage 0, second half | stage 1, first half  | stage 1, second half | ...
 *     loads           stage 1, first half    stage 1, second half   stage 2, first half
 *
 * The products take the bits that memory has, as they do from shared memory. */
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/wgmma.h"

enum { TURNED_K = 8, TURNED_WORDS = 4 /* of a block of 64 rows: k, then rows, 4 and 8 further */ };

struct WgmmaTurned {
    const KExpr *is_even, *is_lower; /* the lane's k: neither 1 nor 3; neither 2 nor 3 */
    const KVar *at;       /* by turn, of the words of the first block and 8 of K: elements within a stage */
    const KVar *raw;      /* words of a half as they come: by turn */
    const KVar *words[2]; /* by step of a half and block of 64 rows; of halves in turn */
};

bool matmul_is_turned(const MatmulPlan *plan, const MatmulOperand *operand) {
    return plan->kind == MATMUL_TF32 && operand->major == MAJOR_MN;
}

/* Steps of 8 of K that are loaded, then multiplied, together. */
static int turned_half(int steps) {
    return (steps + 1) / 2;
}

static int turned_words(const Schedule *schedule) {
    return turned_half(schedule->tile_k / TURNED_K) * wgmma_blocks(schedule) * TURNED_WORDS;
}

int matmul_turned_registers(const MatmulPlan *plan, const Schedule *schedule) {
    enum { ADDRESSES = 8, SETS = 3 /* as they come, and in order for either half */ };
    int n = 0;
    for (const MatmulPlan *term = plan; term && !n; term = term->before)
        if (matmul_is_turned(term, matmul_side(term, schedule, true)))
            n = schedule->swap_ab ? term->n_cores : 1;
    return n ? n * SETS * turned_words(schedule) + ADDRESSES : 0;
}

static void turned_new(Wgmma *w, WgmmaOperand *o, const KExpr *warp_row) {
    Builder *b = w->b;
    WgmmaTurned *turned = o->turned = ARENA_NEW(b->arena, WgmmaTurned);
    const KExpr *lane = k_special(b, SPECIAL_LANE);
    const KExpr *zero = k_i32(b, 0);
    turned->is_even = k_let_expr(b, "is_even", k_eq(b, k_bit_and(b, lane, k_i32(b, 1)), zero));
    turned->is_lower = k_let_expr(b, "is_lower", k_eq(b, k_bit_and(b, lane, k_i32(b, 2)), zero));
    turned->at = k_array(b, "turned_at", K_I32, TURNED_WORDS, NULL);
    const KExpr *turn = k_for_begin(b, "turn", k_i32(b, 0), k_i32(b, TURNED_WORDS), 1, UNROLL_FULL);
    const KExpr *lane_k = k_mod(b, lane, k_i32(b, 4)), *word = k_xor(b, turn, lane_k);
    const KExpr *half_k = k_div(b, word, k_i32(b, 2)), *half_row = k_mod(b, word, k_i32(b, 2));
    const KExpr *row =
        k_add(b, k_add(b, warp_row, k_div(b, lane, k_i32(b, 4))), k_mul(b, half_row, k_i32(b, 8)));
    const KExpr *k = k_add(b, lane_k, k_mul(b, half_k, k_i32(b, 4)));
    k_set_elem(b, turned->at, turn, tile_index(b, &o->tile, NULL, k, row));
    k_end(b);
    turned->raw = k_array(b, "raw", K_U32, turned_words(w->schedule), NULL);
    for (int set = 0; set < 2; set++)
        turned->words[set] = k_array(b, "fragments", K_U32, turned_words(w->schedule), NULL);
}

void wgmma_turned_begin(Wgmma *w, const KExpr *warp_row) {
    for (int i = 0; i < w->n_operands; i++)
        if (matmul_is_turned(w->plan, w->operands[i].operand))
            turned_new(w, &w->operands[i], warp_row);
    for (int i = 0; i < w->n_terms; i++)
        for (int k = 0; k < 2; k++) {
            WgmmaOperand *o = &w->terms[i].operands[k];
            if (!matmul_is_turned(w->plan, o->operand))
                continue;
            o->turned = w->operands[k].turned; /* in the same place of a stage, and in the same registers */
            if (!o->turned)
                turned_new(w, o, warp_row);
        }
}

/* The words of `n` steps, from step `first` on of the stage, on their way. */
static void turned_load(Wgmma *w, const WgmmaOperand *o, const KExpr *stage, int first, int n) {
    Builder *b = w->b;
    const Tile *tile = &o->tile;
    int64_t per_step = (int64_t)TURNED_K * tile->span, per_block = (int64_t)WGMMA_M * tile->rows;
    const KExpr *from = k_add(b, k_mul(b, stage, k_i32(b, tile->pitch)), k_i32(b, first * per_step));
    const KExpr *step = epilogue_loop(b, "k_group", n);
    const KExpr *block = epilogue_loop(b, "block", w->blocks);
    const KExpr *turn = k_for_begin(b, "turn", k_i32(b, 0), k_i32(b, TURNED_WORDS), 1, UNROLL_FULL);
    const KExpr *slot = k_add(b, k_mul(b, step, k_i32(b, w->blocks)), block);
    const KExpr *part = k_add(b, k_mul(b, step, k_i32(b, per_step)), k_mul(b, block, k_i32(b, per_block)));
    const KExpr *at = k_add(b, k_add(b, from, k_elem(b, o->turned->at, turn)), part);
    k_load_raw(b, o->turned->raw, k_add(b, k_mul(b, slot, k_i32(b, TURNED_WORDS)), turn), tile->buffer, at, 1,
               NULL, CACHE_DEFAULT);
    k_end(b);
    epilogue_loop_end(b, w->blocks);
    epilogue_loop_end(b, n);
}

/* Their fragments: word x came at turn x ^ k. */
static void turned_order(Wgmma *w, const WgmmaOperand *o, int set, int n) {
    Builder *b = w->b;
    const WgmmaTurned *turned = o->turned;
    const KExpr *slot = k_for_begin(b, "slot", k_i32(b, 0), k_i32(b, n * w->blocks), 1, UNROLL_FULL);
    const KExpr *came[TURNED_WORDS], *near[TURNED_WORDS];
    for (int word = 0; word < TURNED_WORDS; word++)
        came[word] = k_elem(b, turned->raw, k_add(b, k_mul(b, slot, k_i32(b, TURNED_WORDS)), k_i32(b, word)));
    for (int word = 0; word < TURNED_WORDS; word++)
        near[word] = k_let_expr(b, "near", k_select(b, turned->is_even, came[word], came[word ^ 1]));
    for (int word = 0; word < TURNED_WORDS; word++)
        k_set_elem(b, turned->words[set], k_add(b, k_mul(b, slot, k_i32(b, TURNED_WORDS)), k_i32(b, word)),
                   k_select(b, turned->is_lower, near[word], near[word ^ 2]));
    k_end(b);
    matmul_settle(b, turned->words[set]);
}

/* The products of those steps. */
static void turned_multiply(Wgmma *w, const KExpr *const *at, int set, int first, int n, const KExpr *keep) {
    Builder *b = w->b;
    const Schedule *schedule = w->schedule;
    int count = schedule->tile_n / 2;
    for (int i = 0; i < n; i++)
        for (int core = 0; core < w->plan->n_cores; core++)
            for (int block = 0; block < w->blocks; block++) {
                int rows = schedule->swap_ab ? 1 + core : 0, cols = schedule->swap_ab ? 0 : 1 + core;
                const KVar *words = w->operands[rows].turned->words[set];
                int64_t part = wgmma_part(&w->operands[cols], 0, first + i);
                wgmma_issue(w, core, k_regs(w->accumulator[core], block * count, count),
                            k_regs(words, (i * w->blocks + block) * TURNED_WORDS, TURNED_WORDS),
                            k_add(b, at[cols], k_int(b, K_U64, part)), first + i ? k_int(b, K_U32, 1) : keep);
            }
}

void wgmma_turned_stage(Wgmma *w, const KExpr *stage, const KExpr *keep) {
    Builder *b = w->b;
    const KExpr *at[1 + MATMUL_CORES] = {NULL};
    int all = wgmma_instructions(w), half = turned_half(all);
    wgmma_stage_at(w, stage, at);
    for (int first = 0; first < all; first += half) {
        bool is_last = first + half >= all;
        int set = is_last ? 1 : 0, n = is_last ? all - first : half;
        for (int i = 0; i < w->n_operands; i++)
            if (w->operands[i].turned)
                turned_load(w, &w->operands[i], stage, first, n);
        /* the products that take the registers which are written next have ended: all but the latest, or all
         * where a stage is not in halves */
        k_atom(b, ATOM_wgmma_wait, (int[]){all > half ? 1 : 0}, NULL, 0);
        for (int i = 0; i < w->n_operands; i++)
            if (w->operands[i].turned)
                turned_order(w, &w->operands[i], set, n);
        k_atom(b, ATOM_wgmma_fence, NULL, NULL, 0);
        turned_multiply(w, at, set, first, n, keep);
        k_atom(b, ATOM_wgmma_commit, NULL, NULL, 0);
    }
}
