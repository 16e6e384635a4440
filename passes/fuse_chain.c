/* Chains: a product whose first operand another product's kernel computes, for it alone, joins that kernel,
 * where a block can keep whole rows of the operand in registers.
 *
 *     h = relu(x @ w1.T + b1)        chain "y": h is never in memory
 *     y = relu(h @ w2.T + b2)
 *
 * Attention over few keys is such a chain: softmax(q @ k.T) @ v. The kernel takes operands from memory only
 * by TMA, and no slower kernel could take its place, so all that it needs is asked for here
 * (codegen/templates/chain.c asks again). */
#include "ir/softmax.h"
#include "ir/view.h"
#include "passes/fuse.h"
#include "passes/product.h"
#include "passes/streams.h"

enum {
    CHAIN_LINKS = 3,
    CHAIN_ROWS = 128,           /* of a tile */
    CHAIN_COLUMNS_LAST = 65536, /* done in passes */
    CHAIN_BLOCKS = 64,          /* tiles of rows that keep enough of a GPU busy */
    CHAIN_SMALL = 512,       /* a first product of this depth takes less than the launch of another kernel */
    CHAIN_DEEP = 2048,       /* from here on, twice as many tiles are better than tiles of half the rows */
    CHAIN_TMA_ELEMENTS = 8,  /* 16 bytes */
    CHAIN_INSTRUCTION = 256, /* columns of one matrix instruction */
    CHAIN_REGISTERS = 164, /* of a thread, for accumulators and what a link is handed, with row statistics */
};

/* Whether indices choose an operand's matrices, or its pages, of memory, as a cache's of a sequence. */
static bool chain_is_chosen(Fuse *fuse, Value *operand, ViewGather *gather) {
    int row = operand->rank - 2, col = operand->rank - 1;
    if (!fuse->limits->reads_chosen)
        return false;
    bool has_matrices = fuse_view_gather(fuse, operand, gather) && dim_is(gather->index.strides[row], 0) &&
                        dim_is(gather->index.strides[col], 0);
    return (has_matrices || fuse_view_pages(fuse, operand, gather)) &&
           fuse_is_base(fuse, gather->data.base) && fuse_is_base(fuse, gather->index.base) &&
           dim_divisor(fuse->graph->dims, gather->step) % CHAIN_TMA_ELEMENTS == 0;
}

/* Whether TMA can read an operand: memory under strides, 16-bit elements, rows at 16 bytes. Where indices
 * choose its matrices, or pages, read->index has a base. */
static bool chain_reads_by_tma(Fuse *fuse, Value *matmul, int operand, ViewGather *read) {
    Value *value = matmul->in[operand];
    int row = value->rank - 2, col = value->rank - 1, n_batch = 0;
    if (chain_is_chosen(fuse, value, read))
        n_batch = 1;
    else
        *read = (ViewGather){.data = fuse_view(fuse, value)};
    const View *view = &read->data;
    if (view->base->dtype != value->dtype || fuse_node(fuse, view->base)->free)
        return false;
    for (int i = 0; i < row; i++)
        n_batch += !dim_is(value->dims[i], 1) && !dim_is(view->strides[i], 0);
    bool by_rows = dim_is(view->strides[col], 1);
    int inner = by_rows ? col : row, outer = by_rows ? row : col;
    bool is_apart = !dim_is(view->strides[outer], 0) || dim_is(value->dims[outer], 1);
    return n_batch <= FUSE_TMA_BEYOND && is_apart &&
           view_vector_width(fuse->graph, view, value, inner, CHAIN_TMA_ELEMENTS) == CHAIN_TMA_ELEMENTS;
}

bool chain_reads(Fuse *fuse, Value *matmul, int operand) {
    ViewGather read;
    return chain_reads_by_tma(fuse, matmul, operand, &read);
}

bool chain_chooses(Fuse *fuse, Value *matmul, int operand) {
    ViewGather read;
    return chain_reads_by_tma(fuse, matmul, operand, &read) && read.index.base;
}

/* Whether the second operand of the group's last product is contiguous along K. */
static bool chain_is_along_k(Fuse *fuse, const Group *group) {
    Value *core = group->cores.at[group->cores.n - 1];
    ViewGather read;
    return chain_reads_by_tma(fuse, core, 1, &read) && dim_is(read.data.strides[core->in[1]->rank - 2], 1);
}

bool chain_has_other_path(const Graph *graph) {
    for (size_t i = 0; i < graph->hints.n; i++) {
        const char *path = fuse_hint_path(&graph->hints.at[i]);
        if (path && strcmp(path, "wgmma") != 0)
            return true;
    }
    return false;
}

/* Tiles of rows that can be worked on side by side. */
static int64_t chain_blocks(const Fuse *fuse, const Value *matmul) {
    int64_t rows = fuse_extent(fuse, matmul->dims[matmul->rank - 2]);
    return fuse_count(fuse, matmul->rank - 2, matmul->dims) * ((rows + CHAIN_ROWS - 1) / CHAIN_ROWS);
}

/* Columns of a product, rounded up to what instructions take. */
static int64_t chain_columns(const Fuse *fuse, const Value *product) {
    return (dim_upper(fuse->graph->dims, product->dims[product->rank - 1]) + 15) / 16 * 16;
}

/* Registers of a thread for what a link takes from the one before it: two elements each, of a share of the 64
 * rows. */
static int64_t chain_handed(const Fuse *fuse, const Value *matmul) {
    return chain_columns(fuse, matmul->in[0]) / 4;
}

/* Whether accumulators, and what they are computed from, fit the registers for all columns at once. */
static bool chain_fits_registers(const Fuse *fuse, const Group *group) {
    const Value *link = group->cores.at[group->cores.n - 1];
    int64_t handed = group->cores.n > 1 ? chain_handed(fuse, link) : 0;
    return handed + chain_columns(fuse, link) / 2 <= CHAIN_REGISTERS;
}

/* Whether writing and reading what lies between would cost little: less than a part of the other traffic,
 * along rows long enough for that to be more than a launch. A kernel of its own writes wide rows better. */
static bool chain_saves_little(const Fuse *fuse, const Value *first, const Value *matmul) {
    enum { PART = 16 };
    int64_t in = fuse_extent(fuse, first->in[0]->dims[first->rank - 1]);
    int64_t out = fuse_extent(fuse, matmul->dims[matmul->rank - 1]);
    int64_t between = fuse_extent(fuse, matmul->in[0]->dims[matmul->rank - 1]);
    return out > CHAIN_SMALL && PART * 2 * between < in + out;
}

/* Whether the two do more work than what lies between them costs in memory: blocks have few rows, for which
 * they read both second operands anew. Both grow with the columns between, so that the others decide: 16384 x
 * 512 by 256 columns by 512 took 26.3 us as a chain, 22.3 apart, 16384 x 1024 by 256 by 256 27.5 and 25.7;
 * 65536 x 512 by 256 by 128 40.4 and 46.9, 16384 x 256 by 128 by 512 15.5 and 16.5. */
static bool chain_is_work(const Fuse *fuse, const Value *first, const Value *matmul) {
    enum { MOST = 896 /* elements of a row on both sides */ };
    return fuse_extent(fuse, first->in[0]->dims[first->rank - 1]) +
               fuse_extent(fuse, matmul->dims[matmul->rank - 1]) >
           MOST;
}

/* Whether what lies between is a softmax of rows longer than the registers hold, or of which something else
 * is wanted (has_rows). It may come in parts: the sum and the second product so far are scaled where a part
 * has a larger element than all before. */
static bool chain_streams(const Fuse *fuse, const Group *group, const Value *matmul, bool has_rows) {
    const DimTable *dims = fuse->graph->dims;
    const Value *held = matmul->in[0], *first = group->cores.at[0];
    Softmax softmax;
    return group->cores.n == 1 && softmax_of(held, &softmax) &&
           (has_rows || dim_upper(dims, held->dims[held->rank - 1]) > fuse->limits->chain_columns_max) &&
           streams_pays(fuse->graph, first, matmul, 1);
}

static bool chain_is_moved(const Value *value) {
    return value->op == OP_reshape || value->op == OP_transpose;
}

/* Whether a value is one element for each row of the product, however it is stored: a kernel whose softmax
 * comes in parts stores what is computed of the rows' maxima and sums, the logarithms of sums that gradients
 * want. */
static bool chain_is_row(const Value *value, const Value *core) {
    while (chain_is_moved(value))
        value = value->in[0];
    return value_is_of_rows(value, core);
}

/* The same, or repeated along the row. */
static bool chain_repeats_row(const Value *value, const Value *core) {
    while (value->op == OP_broadcast)
        value = value->in[0];
    return chain_is_row(value, core);
}

static bool chain_is_no_row(const Group *group, const Value *value) {
    return !chain_is_row(value, group->cores.at[0]);
}

/* Why the two do not become one kernel, and what would have to change; NULL: they do. `is_ahead`: what lies
 * between them is not in the group yet, and has been looked at. */
static const char *chain_fault(Fuse *fuse, Group *group, Value *matmul, bool is_ahead, bool streams,
                               const char **change) {
    DimTable *dims = fuse->graph->dims;
    Value *held = matmul->in[0], *first = group->cores.at[0];
    ViewGather read;
    *change = "an operand whose columns stay where they are";
    if (group->is_moved)
        return "columns of its first operand trade places, or leave apart";
    *change = "a first product without statistics of its columns";
    if (group->has_blocks)
        return "the kernel before it takes statistics of its tiles";
    *change = text_format(fuse->graph->arena, "at most %lld columns, known from the dims or a 'where'",
                          (long long)fuse->limits->chain_columns_max);
    if (!streams && dim_upper(dims, held->dims[held->rank - 1]) > fuse->limits->chain_columns_max)
        return "a block cannot keep the rows of its first operand";
    *change = "fewer columns, or a first product whose second operand is contiguous along the sum";
    if (!streams && (!chain_fits_registers(fuse, group) ||
                     (chain_columns(fuse, held) > CHAIN_INSTRUCTION && !chain_is_along_k(fuse, group))))
        return "its first operand does not fit the registers";
    *change = "an operand that only this product reads";
    if (!is_ahead && (group_is_needed_elsewhere(fuse, group, matmul, streams ? chain_is_no_row : NULL) ||
                      matmul->in[0] == matmul->in[1]))
        return "its first operand, or what that is computed from, is needed elsewhere too";
    *change = "f16 or bf16 operands of one type";
    if (!product_is_16bit(matmul) || !product_is_16bit(first) || first->in[0]->dtype != held->dtype)
        return "its operands are not of one 16-bit type";
    *change = "equal batches and rows";
    if (!value_same_dims(held, group->cores.at[group->cores.n - 1]) || !value_same_rows(matmul, first))
        return "its rows are not those of the product before it";
    *change = "operands in memory whose rows start at 16 bytes";
    if ((group->cores.n == 1 &&
         (!chain_reads_by_tma(fuse, first, 0, &read) || !chain_reads_by_tma(fuse, first, 1, &read))) ||
        !chain_reads_by_tma(fuse, matmul, 1, &read))
        return "TMA cannot read an operand";
    *change = "sums of at least one term, known from the dims or a 'where' such as T >= 1";
    const Dim *rows = held->dims[held->rank - 2];
    if (!dim_known_some(dims, first->in[0]->dims[first->rank - 1], rows) ||
        !dim_known_some(dims, held->dims[held->rank - 1], rows))
        return "a product may have nothing to sum";
    *change =
        text_format(fuse->graph->arena, "at most %d columns of the second, known from the dims or a 'where'",
                    CHAIN_COLUMNS_LAST);
    if (dim_upper(dims, matmul->dims[matmul->rank - 1]) > CHAIN_COLUMNS_LAST)
        return "the number of columns is not bounded";
    *change = "more rows, or a shorter first and a narrower second product";
    int64_t depth = fuse_extent(fuse, first->in[0]->dims[first->rank - 1]);
    bool is_wide = streams && streams_is_wide(fuse->graph, first, matmul); /* whose tiles were counted */
    if ((!is_wide && chain_blocks(fuse, first) < CHAIN_BLOCKS &&
         (depth > CHAIN_SMALL || fuse_extent(fuse, matmul->dims[matmul->rank - 1]) > CHAIN_SMALL)) ||
        (chain_blocks(fuse, first) < 2 * CHAIN_BLOCKS && depth > CHAIN_DEEP))
        return "too few blocks would do both products, which kernels of their own spread wider";
    *change = "more columns between the two, or fewer around them";
    if (chain_saves_little(fuse, first, matmul))
        return "what lies between is little beside what both read and write";
    *change = "a shorter first sum, or fewer columns of the second product";
    if (!streams && group->cores.n == 1 && chain_is_work(fuse, first, matmul))
        return "both products take less time in kernels of their own, with what lies between them in memory";
    *change = "a product that is not added to another one";
    if (fuse_sum_follows(fuse, matmul))
        return "its steps of K join those of the product that it is added to";
    *change = "a second operand that does not depend on the first product";
    if (!is_ahead && group_feeds(fuse, group, matmul->in[1]))
        return "its second operand waits for the product before it";
    *change = "fewer operands";
    if (!group_has_room(fuse, group, matmul))
        return "the kernel is as large as kernels get";
    *change = "no @schedule for another path";
    return chain_has_other_path(fuse->graph) ? "the graph asks for other ways to multiply" : NULL;
}

/* An operand of so many rows' attention. Written wide and read so, an element costs 5 bytes in place of 1;
 * kept narrow, the weights of a row are stored and read in two types, 12 bytes for each key. */
static void chain_widen(Fuse *fuse, Value *matmul, Value *operand) {
    Value *wide = value_below_views(operand);
    if (wide->op != OP_cast || !dtype_widens(wide->in[0]->dtype, wide->dtype) ||
        fuse_node(fuse, wide)->barrier)
        return;
    fuse_node(fuse, wide)->barrier = true;
    pass_decide(fuse->pass, "chain", false, wide, matmul, "fewer rows of queries",
                "attention reads 16 bits, and of so many queries it costs less to store it so");
}

/* An operand that is joined of parts, as of elements that turn with their position and others, is stored in
 * one piece, which TMA reads. */
static void chain_join(Fuse *fuse, Value *scores, Value *operand) {
    Value *joined = value_below_views(operand);
    if (joined->op != OP_concat || fuse_node(fuse, joined)->barrier)
        return;
    fuse_node(fuse, joined)->barrier = true;
    pass_decide(fuse->pass, "chain", false, joined, scores, "an operand in one piece of memory",
                "attention reads its operands by TMA, and joined this one is little beside the scores");
}

void chain_mark_stored(Fuse *fuse) {
    enum { CONE = 32, MANY = 64 /* queries, for which keys are worth it */ };
    for (size_t i = 0; i < fuse->graph->values.n && fuse->limits->chain_columns_max; i++) {
        Value *value = fuse->graph->values.at[i];
        Softmax softmax;
        if (value->op != OP_matmul || !softmax_of(value->in[0], &softmax))
            continue;
        Value *scores = product_below(softmax.x, softmax.x, CONE);
        if (!scores || !product_is_16bit(scores) || !product_is_16bit(value))
            continue;
        int64_t rows = fuse_extent(fuse, scores->dims[scores->rank - 2]);
        if (rows >= fuse_extent(fuse, scores->in[0]->dims[scores->rank - 1])) {
            chain_widen(fuse, scores, scores->in[0]);
            chain_widen(fuse, scores, scores->in[1]);
            chain_widen(fuse, value, value->in[1]);
        }
        if (!streams_take(fuse->graph, fuse->limits, scores, value))
            continue;
        chain_join(fuse, scores, scores->in[0]);
        if (rows >= MANY)
            chain_join(fuse, scores, scores->in[1]);
    }
}

/* What the kernel reads has to lie in memory. */
void chain_read(Fuse *fuse, Value *matmul, int operand) {
    ViewGather read;
    chain_reads_by_tma(fuse, matmul, operand, &read);
    fuse_node(fuse, read.data.base)->is_read_whole = true;
    if (read.index.base)
        fuse_node(fuse, read.index.base)->is_read_whole = true;
}

bool fuse_chain(Fuse *fuse, Value *matmul) {
    Value *held = matmul->in[0];
    Group *group = fuse_home(fuse, held);
    const char *change;
    if (!fuse->limits->chain_columns_max || !group || group->kind != TEMPLATE_MATMUL ||
        fuse_node(fuse, held)->barrier || group->cores.n >= CHAIN_LINKS || group->block_cols ||
        (group->cores.n > 1 && !group->is_chain) || group->is_relay)
        return false;
    bool has_rows = group_is_needed_elsewhere(fuse, group, matmul, NULL) &&
                    !group_is_needed_elsewhere(fuse, group, matmul, chain_is_no_row);
    bool streams = chain_streams(fuse, group, matmul, has_rows);
    const char *fault = chain_fault(fuse, group, matmul, false, streams, &change);
    if (fuse->known->refused[matmul->id] & REFUSED_PRODUCT) {
        fault = "no schedule does both products";
        change = "fewer columns between the two, or fewer operands";
    }
    Value *before = group->cores.at[group->cores.n - 1];
    if (fault) {
        pass_decide(fuse->pass, "chain", false, matmul, before, change, "%s", fault);
        return false;
    }
    if (group->cores.n == 1) {
        chain_read(fuse, before, 0);
        chain_read(fuse, before, 1);
    }
    chain_read(fuse, matmul, 1);
    group_add_core(fuse, group, matmul);
    group->is_chain = true;
    group->is_in_parts = streams;
    group->n_reduced = has_rows;
    for (int i = 0; i < matmul->rank; i++)
        group->dims[i] = matmul->dims[i];
    pass_decide(fuse->pass, "chain", true, matmul, before, NULL,
                streams ? "its first operand comes in parts, in the registers of the kernel that computes it"
                        : "its first operand stays in the registers of the kernel that computes it");
    return true;
}

/* Whether a value may be computed of `core` by its kernel: element by element, or along its rows. */
static bool chain_may_stay(const Value *value, const Value *core) {
    bool is_row = chain_is_row(value, core);
    if (chain_is_moved(value))
        return is_row;
    return (is_row || value_same_dims(value, core)) &&
           (value_is_pointwise(value) || value->op == OP_broadcast ||
            value_class(value) == OPCLASS_REDUCTION);
}

/* Whether the kernel of `core` computes a value of which operands with this stamp are its own: it is of rows,
 * or computed of more than rows. What is computed of its rows and of another product is that one's. */
static bool chain_is_own(const Fuse *fuse, const Value *value, const Value *core, int within) {
    bool is_own = chain_repeats_row(value, core);
    for (int k = 0; k < value->n_in && !is_own; k++)
        is_own = fuse->stamps[value->in[k]->id] == within && !chain_repeats_row(value->in[k], core);
    return is_own && chain_may_stay(value, core);
}

/* The product that alone needs what is computed from `core` element by element and row by row, as its first
 * operand; NULL where there is none. *has_rows: something of rows is an output besides, or what others read.
 */
static Value *chain_only_user(Fuse *fuse, const Value *core, bool *has_rows) {
    const Graph *graph = fuse->graph;
    Value *user = NULL;
    /* values that the kernel computes, and those behind that follow any, are stamped so; others less */
    int *stamps = fuse->stamps, within = ++fuse->stamp, behind = ++fuse->stamp;
    stamps[core->id] = within;
    for (size_t i = core->id + 1; i < graph->values.n; i++) { /* topological */
        Value *value = graph->values.at[i];
        int follows = 0;
        for (int k = 0; k < value->n_in; k++)
            follows = stamps[value->in[k]->id] > follows ? stamps[value->in[k]->id] : follows;
        if (follows < within)
            continue;
        bool is_first = value->op == OP_matmul && stamps[value->in[1]->id] < within;
        stamps[i] = follows == within && chain_is_own(fuse, value, core, within) ? within : behind;
        if (is_first && !user && follows == within) {
            user = value;
            continue;
        }
        if (stamps[i] == within && value_is_output(graph, value)) {
            if (!chain_is_row(value, core))
                return NULL;
            *has_rows = true;
        }
        for (int k = 0; k < value->n_in && stamps[i] == behind; k++) {
            if (stamps[value->in[k]->id] != within)
                continue;
            if (!chain_repeats_row(value->in[k], core))
                return NULL;
            *has_rows = true;
        }
    }
    return value_is_output(graph, core) ? NULL : user;
}

int64_t chain_row_max(Fuse *fuse, Group *group) {
    int64_t most = fuse->limits->matmul_row_max;
    const char *change;
    if (group->is_relay)
        return 0;
    if (!group->is_chain) {
        bool may_chain = group->cores.n == 1 && fuse->limits->chain_columns_max > most;
        bool has_rows = false;
        Value *user = may_chain ? chain_only_user(fuse, group->cores.at[0], &has_rows) : NULL;
        bool streams = user && chain_streams(fuse, group, user, has_rows);
        if (has_rows && !streams)
            return most;
        const char *fault = user ? chain_fault(fuse, group, user, true, streams, &change) : NULL;
        if (fault && streams)
            pass_decide(fuse->pass, "chain", false, user, group->cores.at[0], change, "%s", fault);
        if (!user || fault)
            return most;
        return streams ? INT64_MAX : fuse->limits->chain_columns_max;
    }
    const Value *last = group->cores.at[group->cores.n - 1];
    int64_t left = 2 * (CHAIN_REGISTERS - chain_handed(fuse, last)) / 16 * 16;
    return left < most ? left : most;
}
