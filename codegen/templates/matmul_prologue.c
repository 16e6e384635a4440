/* Operands into shared tiles, for the paths without TMA.
 *
 * An operand that is memory, contiguous and aligned, is copied by cp.async, 4 to 16 bytes a thread, and the
 * edges are filled with zeros. Memory that is not so (odd pitches) is moved by way of registers, as bits. Any
 * other operand (conversions, a prologue such as a normalization) is computed in registers by the graph's own
 * operations and then stored. Loads to registers are issued before the products of the present stage and what
 * came of them is stored after these. */
#include "codegen/templates/matmul_convert.h"
#include "codegen/templates/matmul_operand.h"
#include "codegen/templates/matmul_paths.h"
#include "codegen/templates/matmul_ring.h"

enum { LOADER_WORD = 32 /* bits */ };

Region *matmul_operand_space(Arena *arena, const Region *region, const Value *value) {
    Region *space = ARENA_NEW(arena, Region);
    *space = *region;
    space->kind = TEMPLATE_POINTWISE;
    space->rank = value->rank;
    memcpy(space->dims, value->dims, sizeof space->dims);
    space->n_reduced = 0;
    memset(&space->cores, 0, sizeof space->cores);
    memset(&space->outputs, 0, sizeof space->outputs);
    vec_push(arena, &space->outputs, (Value *)(uintptr_t)value);
    return space;
}

/* The axis that tiles keep contiguous: what the path needs, else the one along which the operand comes. */
static OperandMajor loader_major(const MatmulPlan *plan, const MatmulOperand *operand, MatmulPath path) {
    int axis = operand->copy_width ? (operand->major == MAJOR_K ? operand->k_axis : operand->mn_axis)
                                   : operand->run_axis;
    /* ldmatrix transposes 16-bit elements alone, and wgmma reads no others across; mma.sync's fragments of 32
     * and 64 bits are loaded by elements (matmul_mma_elements.c) */
    bool reads_both = plan->kind == MATMUL_16BIT || plan->kind == MATMUL_F64 ||
                      (plan->kind == MATMUL_TF32 && path == MATMUL_MMA_SYNC);
    return path == MATMUL_SIMT || (reads_both && axis == operand->mn_axis) ? MAJOR_MN : MAJOR_K;
}

/* Bytes behind each row of a tile that threads read by elements; 0: it is swizzled. */
static int loader_padding(const MatmulPlan *plan, const MatmulOperand *operand, MatmulPath path) {
    enum {
        VECTORS = 16,
        WORDS = 32 /* lanes of a load are 8 columns of 4 rows, which lie 8 banks apart so */
    };
    bool has_words = plan->kind == MATMUL_TF32 && loader_major(plan, operand, path) == MAJOR_MN;
    return path == MATMUL_SIMT ? VECTORS : has_words ? WORDS : 0;
}

int64_t matmul_loader_bytes(const MatmulPlan *plan, const MatmulOperand *operand, MatmulPath path,
                            int tile_mn, int tile_k) {
    int row = tile_mn * dtype_bits(operand->elem) / 8 + loader_padding(plan, operand, path);
    return (int64_t)tile_k * row;
}

static bool loader_is_copy(const MatmulPlan *plan, const MatmulOperand *operand, MatmulPath path) {
    return operand->copy_width && operand->major == loader_major(plan, operand, path);
}

int matmul_loader_registers(const MatmulPlan *plan, const MatmulOperand *operand, const Schedule *schedule,
                            int tile_mn, int threads) {
    if (loader_is_copy(plan, operand, schedule->path))
        return 0;
    int width = operand->copy_width ? operand->copy_width : operand->run_width;
    int accesses = (tile_mn * schedule->tile_k / width + threads - 1) / threads;
    int words = dtype_bits(operand->elem) == 64 ? 2 : 1;
    if (schedule->path == MATMUL_SIMT) /* few: what they are computed from is computed again */
        return accesses * width * words;
    /* elements; for each access an address, 64 bits and a guard where sizes come at launch; coordinates */
    int address = dim_is_const(plan->k) && dim_is_const(operand->mn) ? 1 : 3;
    return accesses * (width * words + address) + 16;
}

/* Whether an operand that is not copied is memory whose pieces go to the tile as they are. */
static bool loader_is_moved(const MatmulLoader *loader) {
    const MatmulOperand *operand = loader->operand;
    const Graph *graph = loader->plan->graph;
    bool has_rows = (loader->tile_major == MAJOR_K) == (loader->run_axis == operand->k_axis);
    if (loader->is_copy || !operand->is_memory || operand->narrow != operand->elem ||
        dtype_bits(operand->elem) < 8)
        return false;
    return loader->vector == 1 ||
           (has_rows && view_vector_width(graph, &operand->view, operand->value, loader->run_axis,
                                          loader->vector) >= loader->vector);
}

static int loader_power_of_two(int width, int limit) {
    while (width > limit || (width & (width - 1)))
        width = width > limit ? width / 2 : width & (width - 1);
    return width < 1 ? 1 : width;
}

MatmulLoader matmul_loader(Builder *b, const MatmulPlan *plan, const MatmulOperand *operand, const char *name,
                           int tile_mn, int tile_k, int stages, int threads, MatmulPath path) {
    MatmulLoader loader = {
        .plan = plan, .operand = operand, .tile_mn = tile_mn, .tile_k = tile_k, .threads = threads};
    int padding = loader_padding(plan, operand, path);
    loader.tile_major = loader_major(plan, operand, path);
    loader.is_copy = loader_is_copy(plan, operand, path);
    loader.run_axis = operand->run_axis;
    loader.vector = operand->run_width;
    if (operand->copy_width) {
        loader.run_axis = operand->major == MAJOR_K ? operand->k_axis : operand->mn_axis;
        loader.vector = operand->copy_width;
    }
    loader.vector = loader_power_of_two(loader.vector, loader.run_axis == operand->k_axis ? tile_k : tile_mn);
    loader.tile = padding ? tile_padded(b, name, operand->elem, tile_k, tile_mn, padding, stages)
                  : loader.tile_major == MAJOR_K
                      ? tile_shared(b, name, operand->elem, tile_mn, tile_k, stages)
                      : tile_shared(b, name, operand->elem, tile_k, tile_mn, stages);
    loader.is_moved = loader_is_moved(&loader);
    loader.is_turned = path == MATMUL_SIMT && !loader.is_copy && loader.run_axis == operand->k_axis &&
                       loader.vector == 4 && dtype_bits(operand->elem) == 32;
    if (!loader.is_copy)
        loader.lower = lower_new(b, matmul_operand_space(b->arena, plan->region, operand->value));
    loader.index = loader.is_copy ? K_I64 : lower_index_type(loader.lower);
    return loader;
}

/* ---- one piece: the vector that a thread moves in turn `i` */

typedef struct LoaderPiece {
    const KExpr *mn, *k; /* within the tile */
    const KExpr *inside; /* of the tile; NULL: always */
} LoaderPiece;

static int loader_turns(const MatmulLoader *loader) {
    int pieces = loader->tile_mn * loader->tile_k / loader->vector;
    return (pieces + loader->threads - 1) / loader->threads;
}

static LoaderPiece loader_piece(Builder *b, const MatmulLoader *loader, const KExpr *i) {
    bool along_k = loader->run_axis == loader->operand->k_axis;
    int pieces = loader->tile_mn * loader->tile_k / loader->vector;
    int line = (along_k ? loader->tile_k : loader->tile_mn) / loader->vector;
    const KExpr *thread = k_special(b, SPECIAL_TID);
    if (loader->source) /* not all of the block's threads, but a warpgroup */
        thread = k_mod(b, thread, k_i32(b, loader->threads));
    const KExpr *number = k_add(b, k_mul(b, i, k_i32(b, loader->threads)), thread);
    const KExpr *along = k_mul(b, k_mod(b, number, k_i32(b, line)), k_i32(b, loader->vector));
    const KExpr *across = k_div(b, number, k_i32(b, line));
    LoaderPiece piece = {.mn = along_k ? across : along, .k = along_k ? along : across};
    if (pieces % loader->threads != 0)
        piece.inside = k_lt(b, number, k_i32(b, pieces));
    return piece;
}

/* Coordinates of the piece in the operand, and whether it lies inside. */
static const KExpr *loader_coords(Builder *b, const MatmulLoader *loader, const LoaderPiece *piece,
                                  const KExpr **coords) {
    const MatmulOperand *operand = loader->operand;
    const Value *value = operand->value;
    DimTable *dims = loader->plan->graph->dims;
    const KExpr *mn = k_add(b, loader->mn0, piece->mn), *k = k_add(b, loader->k0, piece->k);
    for (int i = 0; i < value->rank - 2; i++)
        coords[i] = matmul_batch_coord(b, loader->plan, operand, i, loader->batch);
    coords[operand->mn_axis] = mn;
    coords[operand->k_axis] = k;
    const KExpr *guard = k_and(b, loader->valid, piece->inside);
    if (dim_divisor(dims, operand->mn) % loader->tile_mn != 0)
        guard = k_and(b, guard, k_lt(b, mn, k_dim(b, operand->mn, K_I32)));
    if (dim_divisor(dims, loader->plan->k) % loader->tile_k != 0)
        guard = k_and(b, guard, k_lt(b, k, k_dim(b, loader->plan->k, K_I32)));
    return guard;
}

static const KExpr *loader_tile_row(const MatmulLoader *loader, const LoaderPiece *piece) {
    return loader->tile_major == MAJOR_K ? piece->mn : piece->k;
}

static const KExpr *loader_tile_col(const MatmulLoader *loader, const LoaderPiece *piece) {
    return loader->tile_major == MAJOR_K ? piece->k : piece->mn;
}

/* ---- copies */

/* The element of memory at coordinates of the operand. */
static const KExpr *loader_index(Builder *b, const MatmulLoader *loader, const KExpr *const *coords) {
    const MatmulOperand *operand = loader->operand;
    KType type = loader->index;
    const KExpr *index = k_dim(b, operand->view.offset, type);
    for (int axis = 0; axis < operand->value->rank; axis++)
        if (!dim_is(operand->view.strides[axis], 0))
            index = k_add(
                b, index,
                k_mul(b, k_convert(b, coords[axis], type), k_dim(b, operand->view.strides[axis], type)));
    return index;
}

static void loader_copy(Builder *b, const MatmulLoader *loader, const KExpr *i) {
    const MatmulOperand *operand = loader->operand;
    const Value *value = operand->value;
    DimTable *dims = loader->plan->graph->dims;
    const KExpr *coords[RANK_MAX];
    LoaderPiece piece = loader_piece(b, loader, i);
    const KExpr *guard = loader_coords(b, loader, &piece, coords), *index = loader_index(b, loader, coords);
    int elem_bytes = dtype_bits(operand->elem) / 8, bytes = loader->vector * elem_bytes;
    const KExpr *read = k_i32(b, bytes);
    const Dim *along = value->dims[loader->run_axis];
    if (dim_divisor(dims, along) % loader->vector != 0) { /* the last vector of a line may stick out */
        const KExpr *left = k_sub(b, k_dim(b, along, K_I32), coords[loader->run_axis]);
        read = k_max(b, k_i32(b, 0), k_min(b, read, k_mul(b, left, k_i32(b, elem_bytes))));
    }
    if (guard)
        read = k_select(b, guard, read, k_i32(b, 0));
    const KExpr *to = tile_address(b, &loader->tile, loader->stage, loader_tile_row(loader, &piece),
                                   loader_tile_col(loader, &piece));
    KOperand operands[] = {k_operand(to),
                           k_operand(k_global_addr(b, k_global(b, operand->view.base, false), index)),
                           k_operand(k_convert(b, read, K_U32))};
    if (piece.inside)
        k_if_begin(b, piece.inside);
    if (bytes == 16)
        k_atom(b, ATOM_cp_async_16, NULL, operands, 3);
    else
        k_atom(b, ATOM_cp_async, &bytes, operands, 3);
    if (piece.inside)
        k_end(b);
}

/* ---- moved operands */

/* Words of a piece, and of all pieces of a thread. */
static int loader_words(const MatmulLoader *loader) {
    return (loader->vector * dtype_bits(loader->operand->elem) + 31) / 32;
}

/* What lies outside comes as zeros. */
static void loader_move_start(Builder *b, MatmulLoader *loader, int turns) {
    const MatmulOperand *operand = loader->operand;
    int words = loader_words(loader);
    const char *name = operand->view.base->name ? operand->view.base->name : "operand";
    loader->words = k_array(b, text_format(b->arena, "%s_bits", name), K_U32, turns * words, NULL);
    const KExpr *zero = k_i32(b, 0), *coords[RANK_MAX];
    const KExpr *i = turns == 1 ? zero : k_for_begin(b, "i", zero, k_i32(b, turns), 1, UNROLL_FULL);
    LoaderPiece piece = loader_piece(b, loader, i);
    const KExpr *guard = loader_coords(b, loader, &piece, coords);
    k_load_raw(b, loader->words, k_mul(b, i, k_i32(b, words)), k_global(b, operand->view.base, false),
               loader_index(b, loader, coords), loader->vector, guard, CACHE_DEFAULT);
    if (turns > 1)
        k_end(b);
}

static void loader_move_finish(Builder *b, const MatmulLoader *loader, int turns) {
    const KExpr *zero = k_i32(b, 0);
    const KExpr *i = turns == 1 ? zero : k_for_begin(b, "i", zero, k_i32(b, turns), 1, UNROLL_FULL);
    LoaderPiece piece = loader_piece(b, loader, i);
    const KExpr *to = tile_index(b, &loader->tile, loader->stage, loader_tile_row(loader, &piece),
                                 loader_tile_col(loader, &piece));
    k_store_raw(b, loader->tile.buffer, to, loader->words, k_mul(b, i, k_i32(b, loader_words(loader))),
                loader->vector, piece.inside, CACHE_DEFAULT);
    if (turns > 1)
        k_end(b);
}

/* ---- computed operands */

static void loader_run(Builder *b, const MatmulLoader *loader, const KExpr *i, Run *run, LoaderPiece *piece) {
    const Value *value = loader->operand->value;
    *run = (Run){.rank = value->rank, .axis = loader->run_axis, .width = loader->vector};
    *piece = loader_piece(b, loader, i);
    run->guard = loader_coords(b, loader, piece, run->coords);
}

/* How many turns are loaded before the first of them is computed: all, where the registers hold what they
 * read; else as many as they do, and so on. */
static int loader_together(Builder *b, const MatmulLoader *loader) {
    enum { MOST = 128 /* of 255: the other operand may be computed too */, SHARE = 40 /* % */ };
    const Schedule *schedule = &loader->plan->region->schedule;
    int most = MOST;
    if (loader->source) { /* of what each thread of the block has, as many as they are */
        int groups = matmul_warpgroups(loader->plan, schedule);
        most = target_launch_registers(loader->plan->target, groups) * SHARE / 100;
    }
    Run run;
    LoaderPiece piece;
    int turns = loader_turns(loader), together = turns;
    loader_run(b, loader, k_i32(b, 0), &run, &piece);
    int registers = lower_load_registers(loader->lower, &run, &loader->target, 1);
    while (together > 1 && (together * registers > most || turns % together != 0))
        together--;
    return together;
}

/* Loads what the turns from `first` on are computed from. */
static void loader_load_turns(Builder *b, MatmulLoader *loader, const KExpr *first) {
    const KExpr *zero = k_i32(b, 0);
    Run run;
    LoaderPiece piece;
    loader_run(b, loader, first, &run, &piece);
    lower_batch_begin(loader->lower, &run, &loader->target, 1, loader->together);
    const KExpr *i =
        loader->together == 1 ? zero : k_for_begin(b, "i", zero, k_i32(b, loader->together), 1, UNROLL_FULL);
    loader_run(b, loader, k_add(b, first, i), &run, &piece);
    lower_batch_load(loader->lower, &run, i);
    if (loader->together > 1)
        k_end(b);
}

void matmul_load_start(Builder *b, MatmulLoader *loader, const KExpr *stage, const KExpr *mn0,
                       const KExpr *k0, const KExpr *const *batch, const KExpr *valid) {
    loader->stage = stage;
    loader->mn0 = mn0;
    loader->k0 = k0;
    loader->batch = batch;
    loader->valid = valid;
    int turns = loader_turns(loader);
    const KExpr *zero = k_i32(b, 0);
    if (loader->is_copy) {
        const KExpr *i = turns == 1 ? zero : k_for_begin(b, "i", zero, k_i32(b, turns), 1, UNROLL_FULL);
        loader_copy(b, loader, i);
        if (turns > 1)
            k_end(b);
        return;
    }
    if (loader->is_moved) {
        loader_move_start(b, loader, turns);
        return;
    }
    loader->target = (LowerTarget){.value = loader->operand->value};
    if (loader->source) { /* so that no load of it is planned */
        KType type = matmul_source_type(loader->plan, loader->source);
        loader->from = k_array(b, "from", type, loader->vector, NULL);
        lower_bind_array(loader->lower, loader->source->value, loader->from, NULL);
    }
    loader->together = loader_together(b, loader);
    loader_load_turns(b, loader, k_i32(b, 0));
}

/* Of a tile of 32-bit elements with 16 bytes of padding a row, and runs of four along K: lanes of
 * neighbouring runs write rows 4 apart, half of which begin at the same bank.
 *
 *     k of a run       0    4    8   12   16   20   24   28
 *     its first bank   0   16    0   16    0   16    0   16
 *     turned           0   16    8   24    4   20   12   28     and four neighbours along M or N: all banks
 * once
 */
const KExpr *matmul_loader_turned(Builder *b, const MatmulLoader *loader, const KExpr *k, const KExpr *mn) {
    if (!loader->is_turned)
        return mn;
    const KExpr *two = k_i32(b, 2);
    const KExpr *eight = k_mul(b, k_mod(b, k_div(b, k, k_i32(b, 8)), two), k_i32(b, 8));
    const KExpr *four = k_mul(b, k_mod(b, k_div(b, k, k_i32(b, 16)), two), k_i32(b, 4));
    return k_xor(b, mn, k_add(b, eight, four));
}

/* Registers to the tile: a vector where the tile keeps the run's axis contiguous, else one element after
 * another. */
static void loader_put(Builder *b, const MatmulLoader *loader, const LoaderPiece *piece, const KVar *values) {
    const KExpr *row = loader_tile_row(loader, piece), *col = loader_tile_col(loader, piece);
    bool runs_along_cols = (loader->tile_major == MAJOR_K) == (loader->run_axis == loader->operand->k_axis);
    if (runs_along_cols) {
        k_store(b, loader->tile.buffer, tile_index(b, &loader->tile, loader->stage, row, col), values, NULL,
                loader->vector, piece->inside, CACHE_DEFAULT);
        return;
    }
    if (loader->tile_major == MAJOR_MN) /* all of the run alike */
        col = matmul_loader_turned(b, loader, row, col);
    const KExpr *e = k_for_begin(b, "e", k_i32(b, 0), k_i32(b, loader->vector), 1, UNROLL_FULL);
    k_store(b, loader->tile.buffer, tile_index(b, &loader->tile, loader->stage, k_add(b, row, e), col),
            values, e, 1, piece->inside, CACHE_DEFAULT);
    k_end(b);
}

/* The elements of a word as integers. */
static void loader_take_integers(Builder *b, const MatmulLoader *loader, const KExpr *word, int first) {
    DType elem = loader->source->elem;
    int bits = dtype_bits(elem), half = LOADER_WORD / bits / 2;
    int64_t least = dtype_class(elem) == DTYPE_SIGNED ? (int64_t)1 << (bits - 1) : 0;
    word = k_let_expr(b, "word", lower_word_counted(b, elem, word));
    const KExpr *upper = k_let_expr(b, "upper", k_shr(b, word, LOADER_WORD / 2));
    for (int e = 0; e < 2 * half; e++) {
        const KExpr *element = k_shr(b, e < half ? word : upper, e % half * bits);
        element = k_convert(b, k_bit_and(b, element, k_int(b, K_U32, (1 << bits) - 1)), K_I32);
        element = k_convert(b, k_sub(b, element, k_i32(b, least)), loader->from->type);
        k_set_elem(b, loader->from, k_i32(b, first + e), element);
    }
}

/* Words of integers of 4 or 8 bits to what the operand is computed from. */
static void loader_widen(Builder *b, const MatmulLoader *loader, const KExpr *at, const KExpr *inside) {
    DType elem = loader->source->elem;
    int bits = dtype_bits(elem), per_word = LOADER_WORD / bits, n_words = loader->vector / per_word;
    const KVar *words = k_array(b, "words", K_U32, n_words, NULL);
    k_load_raw(b, words, NULL, loader->source_tile.buffer, at,
               loader->vector * bits / dtype_bits(loader->source_tile.elem), inside, CACHE_DEFAULT);
    for (int i = 0; i < n_words; i++) {
        if (loader->from->type == K_F32)
            lower_word_widen(b, elem, k_elem_at(b, words, i), loader->from, i * per_word);
        else
            loader_take_integers(b, loader, k_elem_at(b, words, i), i * per_word);
    }
}

/* The piece's elements of the source, from its tile. */
static void loader_from_source(Builder *b, const MatmulLoader *loader, const LoaderPiece *piece) {
    const MatmulOperand *source = loader->source;
    bool is_k = source->major == MAJOR_K;
    int bits = dtype_bits(source->elem), packed = dtype_bits(loader->source_tile.elem) / bits;
    const KExpr *k = k_add(b, loader->source_k, piece->k);
    const KExpr *row = is_k ? piece->mn : k, *col = is_k ? k : piece->mn;
    const KExpr *at = tile_index(b, &loader->source_tile, loader->source_stage, row,
                                 packed > 1 ? k_div(b, col, k_i32(b, packed)) : col);
    if (!dtype_is_float(source->elem) && bits <= 8 && loader->vector * bits % LOADER_WORD == 0) {
        loader_widen(b, loader, at, piece->inside);
        return;
    }
    KType raw = ktype_of(source->elem), type = loader->from->type;
    const KVar *elements = raw == type ? loader->from : k_array(b, "raw", raw, loader->vector, NULL);
    k_load(b, elements, NULL, loader->source_tile.buffer, at, loader->vector, piece->inside, CACHE_DEFAULT);
    if (raw == type)
        return;
    const KExpr *e = k_for_begin(b, "e", k_i32(b, 0), k_i32(b, loader->vector), 1, UNROLL_FULL);
    k_set_elem(b, loader->from, e, k_convert(b, k_elem(b, elements, e), type));
    k_end(b);
}

/* Computes the turns from `first` on, which have been loaded, and stores them. */
static void loader_compute_turns(Builder *b, MatmulLoader *loader, const KExpr *first) {
    const KExpr *zero = k_i32(b, 0);
    const KExpr *i =
        loader->together == 1 ? zero : k_for_begin(b, "i", zero, k_i32(b, loader->together), 1, UNROLL_FULL);
    Run run;
    LoaderPiece piece;
    loader_run(b, loader, k_add(b, first, i), &run, &piece);
    const Value *value = loader->operand->value;
    KType type = ktype_of(loader->tile.elem);
    const char *name = value->name ? value->name : "operand";
    const KVar *raw = k_array(b, name, ktype_of(value->dtype), loader->vector, NULL);
    if (loader->source)
        loader_from_source(b, loader, &piece);
    loader->target.dst = raw;
    lower_batch_run(loader->lower, &run, i, &loader->target, 1);
    const KVar *values = raw;
    if (type != raw->type ||
        run.guard) { /* what lies outside counts as zero, whatever the prologue makes of it */
        values = k_array(b, text_format(b->arena, "%s_in", name), type, loader->vector, NULL);
        const KExpr *e = k_for_begin(b, "e", zero, k_i32(b, loader->vector), 1, UNROLL_FULL);
        const KExpr *x = k_convert(b, k_elem(b, raw, e), type);
        k_set_elem(b, values, e, run.guard ? k_select(b, run.guard, x, k_convert(b, zero, type)) : x);
        k_end(b);
    }
    loader_put(b, loader, &piece, values);
    if (loader->together > 1)
        k_end(b);
    lower_batch_end(loader->lower);
}

void matmul_load_finish(Builder *b, MatmulLoader *loader) {
    if (loader->is_copy)
        return;
    int turns = loader_turns(loader);
    if (loader->is_moved) {
        loader_move_finish(b, loader, turns);
        return;
    }
    loader_compute_turns(b, loader, k_i32(b, 0));
    if (loader->together < turns) {
        const KExpr *first = k_for_begin(b, "from_turn", k_i32(b, loader->together), k_i32(b, turns),
                                         loader->together, UNROLL_NONE);
        loader_load_turns(b, loader, first);
        loader_compute_turns(b, loader, first);
        k_end(b);
    }
    if (loader->source)
        lower_unbind(loader->lower, loader->source->value);
}
