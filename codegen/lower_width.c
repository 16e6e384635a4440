/* What shape of runs suits a region, found by planning without building: how wide they may be, and along
 * which axis memory is contiguous. */
#include "codegen/lower_internal.h"

enum {
    WIDTH_PAIR = 2,  /* neighbours, for a look at where they lie */
    WIDTH_APART = 4, /* of runs that read something by the element, which a warp has the nearer together the
                      * shorter they are: layer norm of 30000 x 1001 by 8 46.1 us, 36.8; a bias on 4096 x
                      * 50257 203.8, 197.8 */
};

/* A question to a lowering that only plans, and that is gone, with its memory, once it has answered. */
typedef struct WidthQuestion {
    const Graph *graph;
    const Region *region;
    Arena *scratch;
    bool (*ask)(Lower *lower, void *context);
    void *context;
    bool answer;
} WidthQuestion;

static void width_answer(void *context) {
    WidthQuestion *question = context;
    Diags *diags = ARENA_NEW(question->scratch, Diags);
    Builder *b = ARENA_NEW(question->scratch, Builder);
    diags->arena = question->scratch;
    *b = builder_new(question->scratch, question->region, question->graph, NULL, diags);
    Lower *lower = lower_new(b, question->region);
    lower->is_dry = true;
    question->answer = question->ask(lower, question->context);
}

static void width_free(void *object) {
    Arena **scratch = object;
    arena_free(*scratch);
    *scratch = NULL;
}

static bool width_ask(const Graph *graph, const Region *region, bool (*ask)(Lower *, void *), void *context) {
    Arena **scratch = ARENA_NEW(graph->arena, Arena *);
    arena_defer(graph->arena, width_free, scratch); /* should the graph's arena give up in the midst of it */
    *scratch = arena_new(0);
    if (!*scratch)
        arena_give_up(graph->arena);
    WidthQuestion question = {
        .graph = graph, .region = region, .scratch = *scratch, .ask = ask, .context = context};
    bool is_answered = arena_run(*scratch, width_answer, &question);
    width_free(scratch);
    if (!is_answered)
        arena_give_up(graph->arena);
    return question.answer;
}

/* Where a run's elements of an output go in memory; false where the output does not fit the space. */
static bool width_output_offset(Lower *lower, const Value *output, const Run *run, LaneCoord *offset) {
    LaneCoord coords[RANK_MAX];
    lower->shape = run;
    if (!lower_output_coords(lower, output, run, coords))
        return false;
    *offset = lane_memory(lower, output, coords);
    return true;
}

/* What is asked about. */
typedef struct WidthCase {
    const Value *value;
    int axis, width;
    RunStart start;
} WidthCase;

static bool width_can_store(Lower *lower, void *context) {
    const WidthCase *asked = context;
    Run run = {.rank = lower->region->rank, .axis = asked->axis, .width = asked->width};
    LaneCoord offset;
    if (!width_output_offset(lower, asked->value, &run, &offset))
        return false;
    int bits = dtype_bits(asked->value->dtype);
    return bits >= 8 || (asked->width * bits >= 8 && lane_is_run(offset) && offset.align * bits >= 8 &&
                         !lower_expr_varies(lower, offset.at));
}

bool lower_can_store(const Graph *graph, const Region *region, const Value *output, int axis, int width) {
    WidthCase asked = {.value = output, .axis = axis, .width = width};
    if (region_window(region, output) && region_window(region, output)->is_bundle)
        return dtype_bits(output->dtype) >= 8;
    return (lower_output_is_whole(graph, region, output) || lower_output_is_kept(graph, region, output) ||
            lower_output_is_piece(region, output)) &&
           width_ask(graph, region, width_can_store, &asked);
}

static bool width_can_store_skewed(Lower *lower, void *context) {
    const WidthCase *asked = context;
    Run run = {.rank = lower->region->rank, .axis = asked->axis, .width = asked->width, .start = RUN_SKEWED};
    run.split = asked->axis;
    run.outer = run.inner = lower->zero;
    LaneCoord offset;
    if (!width_output_offset(lower, asked->value, &run, &offset))
        return false;
    int bits = dtype_bits(asked->value->dtype), whole = 128 / bits;
    return bits >= 8 && lane_is_run(offset) &&
           offset.align >= (asked->width < whole ? asked->width : whole) &&
           !lower_expr_varies(lower, offset.at);
}

bool lower_can_store_skewed(const Graph *graph, const Region *region, const Value *output, int width) {
    WidthCase asked = {.value = output, .axis = region->rank - 1, .width = width};
    return lower_output_is_whole(graph, region, output) && !region_window(region, output) &&
           width_ask(graph, region, width_can_store_skewed, &asked);
}

static bool width_writes_along(Lower *lower, void *context) {
    const WidthCase *asked = context;
    Run run = {.rank = lower->region->rank, .axis = asked->axis, .width = WIDTH_PAIR};
    LaneCoord offset;
    return width_output_offset(lower, asked->value, &run, &offset) && lane_is_run(offset) &&
           !lower_expr_varies(lower, offset.at);
}

static bool width_reads_along(Lower *lower, void *context) {
    const WidthCase *asked = context;
    Run run = {.rank = lower->region->rank, .axis = asked->axis, .width = WIDTH_PAIR};
    LowerTarget target = {.value = asked->value};
    lower_plan(lower, &run, &target, 1);
    const LowerKey *key = NULL;
    for (size_t i = 0; i < lower->loads.n; i++) {
        const LowerKey *load = &lower->loads.at[i]->key;
        if (lower->loads.n > 1 && !lower_is_stream(lower, load->value))
            continue;
        if (key)
            return false;
        key = load;
    }
    if (!key)
        return false;
    LaneCoord offset = lane_memory(lower, key->value, key->coords);
    return lane_is_run(offset) && !lower_expr_varies(lower, offset.at) &&
           !lower_expr_varies(lower, key->guard);
}

/* The innermost axis for which the answer is yes; -1 where there is none. */
static int width_axis(const Graph *graph, const Region *region, const Value *value,
                      bool (*ask)(Lower *, void *)) {
    for (int axis = region->rank - 1; axis >= 0; axis--) {
        WidthCase asked = {.value = value, .axis = axis, .width = WIDTH_PAIR};
        if (!dim_is(region->dims[axis], 1) && width_ask(graph, region, ask, &asked))
            return axis;
    }
    return -1;
}

int lower_write_axis(const Graph *graph, const Region *region, const Value *output) {
    return width_axis(graph, region, output, width_writes_along);
}

int lower_read_axis(const Graph *graph, const Region *region, const Value *value) {
    return width_axis(graph, region, value, width_reads_along);
}

/* Whether any load of a planned run takes elements one by one that lie near one another, though not side by
 * side; or a loop in place loads, which no plan foresees. */
static bool width_is_apart(Lower *lower, void *context) {
    enum { NEAR_BITS = 256 };
    const Region *region = lower->region;
    const WidthCase *asked = context;
    Run run = {.rank = region->rank, .axis = asked->axis, .width = WIDTH_PAIR};
    LowerTarget *targets = ARENA_ARRAY(lower->arena, LowerTarget, region->outputs.n + 1);
    for (size_t i = 0; i < region->outputs.n; i++)
        targets[i] = (LowerTarget){.value = region->outputs.at[i]};
    lower_plan(lower, &run, targets, (int)region->outputs.n);
    for (size_t i = 0; i < lower->loads.n; i++) {
        const LowerEntry *entry = lower->loads.at[i];
        LaneCoord offset = lane_memory(lower, entry->key.value, entry->key.coords);
        int64_t bits = offset.step * dtype_bits(entry->key.value->dtype);
        bool is_near = !lane_is_run(offset) && bits > -NEAR_BITS && bits < NEAR_BITS;
        if (entry->kind == ENTRY_LANES && lower_is_stream(lower, entry->key.value) && is_near)
            return true;
    }
    for (size_t i = 0; i < region->values.n; i++)
        if (op_info(region->values.at[i]->op)->class_ == OPCLASS_REDUCTION)
            return true;
    return false;
}

bool lower_reads_apart(const Graph *graph, const Region *region) {
    WidthCase asked = {.axis = region->rank - 1, .width = WIDTH_PAIR};
    return region->rank > 0 && width_ask(graph, region, width_is_apart, &asked);
}

/* Whether a run of this width reads and writes in whole vectors wherever elements lie side by side in
 * memory, or, where it does not start in its row, whatever has as many as the space; *useful where some
 * do. */
static bool width_fits(Lower *lower, const WidthCase *asked, bool *useful) {
    const Region *region = lower->region;
    int width = asked->width;
    Run run = {.rank = region->rank, .axis = asked->axis, .width = width};
    bool is_in_row = asked->start == RUN_IN_ROW;
    if (!is_in_row) {
        run.start = asked->start;
        run.split = region->n_reduced > 0 ? region->rank - region->n_reduced : 0;
        run.outer = run.inner = lower->zero;
    }
    int n = (int)region->outputs.n;
    size_t room = region->outputs.n + region->values.n + 1;
    LowerTarget *targets = ARENA_ARRAY(lower->arena, LowerTarget, room);
    BlockStatistic block;
    int n_targets = 0;
    for (int i = 0; i < n; i++) {
        bool is_block = lower_output_is_block(region, region->outputs.at[i], &block);
        targets[n_targets++].value = is_block ? block.of : region->outputs.at[i];
    }
    for (size_t i = 0; i < region->values.n; i++)
        if (lower_is_space_reduction(region, region->values.at[i]) ||
            region_is_piece(region, region->values.at[i])) {
            lower_bind_expr(lower, region->values.at[i], lower->zero);
            targets[n_targets++].value = region->values.at[i]->in[0];
        }
    for (size_t i = 0; i < region->cores.n; i++)
        lower_bind_expr(lower, region->cores.at[i], lower->zero);
    size_t mark = lower_open_scope(lower);
    lower_plan(lower, &run, targets, n_targets);
    lower_close_scope(lower, mark);
    for (size_t i = 0; i < lower->loads.n; i++) {
        const LowerEntry *entry = lower->loads.at[i];
        LaneCoord offset = lane_memory(lower, entry->key.value, entry->key.coords);
        if (entry->kind == ENTRY_LANES &&
            (is_in_row ? lane_is_run(offset)
                       : width > WIDTH_APART || lower_is_stream(lower, entry->key.value)))
            return false;
        int bits = dtype_bits(entry->key.value->dtype), own = width / entry->share;
        int whole = own * bits > 128 ? 128 / bits : own;
        if (entry->kind == ENTRY_VECTOR && entry->chunk < whole)
            return false;
        *useful = *useful || entry->kind == ENTRY_VECTOR;
    }
    for (int i = 0; i < n; i++) {
        LaneCoord coords[RANK_MAX];
        const Value *output = region->outputs.at[i];
        if (lower_output_is_block(region, output, &block))
            continue;
        if (!lower_output_coords(lower, output, &run, coords))
            return false;
        LaneCoord offset = lane_memory(lower, output, coords);
        int bits = dtype_bits(output->dtype), whole = width * bits > 128 ? 128 / bits : width;
        if (lane_is_run(offset) && (offset.align < whole || lower_expr_varies(lower, offset.at)))
            return false;
        if (!is_in_row && !lane_is_run(offset) && lower_output_is_whole(lower->graph, region, output))
            return false;
        *useful = *useful || lane_is_run(offset);
    }
    return true;
}

/* Bits of the narrowest and the widest element that the region reads or writes. */
static void width_bits(const Region *region, int *narrow, int *wide) {
    *narrow = 128;
    *wide = 1;
    for (size_t i = 0; i < region->inputs.n + region->outputs.n; i++) {
        const Value *value =
            i < region->inputs.n ? region->inputs.at[i] : region->outputs.at[i - region->inputs.n];
        int bits = dtype_bits(value->dtype);
        if (value->rank == 0)
            continue;
        *narrow = bits < *narrow ? bits : *narrow;
        *wide = bits > *wide ? bits : *wide;
    }
}

/* Lowers the width that is asked about to the widest that fits; false where none does, or none is of use.
 */
static bool width_widest(Lower *lower, void *context) {
    WidthCase *asked = context;
    for (; asked->width > 1; asked->width /= 2) {
        bool useful = false;
        if (width_fits(lower, asked, &useful))
            return useful;
    }
    return false;
}

static bool width_has_parts_of_bytes(const Region *region) {
    int narrow, wide;
    width_bits(region, &narrow, &wide);
    return narrow < 8;
}

/* The widest run to ask about. */
static int width_most(const Region *region) {
    int narrow, wide;
    width_bits(region, &narrow, &wide);
    int width = narrow >= 128 ? 4 : 128 / narrow;
    width = width > 16 ? 16 : width;
    while (width > 2 && width * wide > 256) /* two vectors of the widest at most */
        width /= 2;
    return width;
}

int lower_vector_width(const Graph *graph, const Region *region, int axis) {
    if (axis < 0 || axis >= region->rank)
        return 1;
    int width = width_most(region);
    int64_t divisor = dim_divisor(graph->dims, region->dims[axis]);
    while (width > 1 && divisor % width != 0)
        width /= 2;
    WidthCase asked = {.axis = axis, .width = width};
    return width_ask(graph, region, width_widest, &asked) ? asked.width : 1;
}

/* Runs of no more than 16 bytes of any output. */
static int width_stored(const Graph *graph, const Region *region, int width) {
    enum { STORE_BITS = 128 };
    for (size_t i = 0; i < region->outputs.n; i++) {
        const Value *output = region->outputs.at[i];
        BlockStatistic block;
        bool is_reduced =
            lower_output_is_block(region, output, &block) || lower_output_is_piece(region, output) ||
            (lower_output_is_kept(graph, region, output) && !lower_output_is_whole(graph, region, output));
        while (width > 1 && !is_reduced && width * dtype_bits(output->dtype) > STORE_BITS)
            width /= 2;
    }
    return width;
}

int lower_stored_width(const Graph *graph, const Region *region, int axis) {
    return width_stored(graph, region, lower_vector_width(graph, region, axis));
}

int lower_unaligned_width(const Graph *graph, const Region *region, RunStart start) {
    if (region->rank < 2 || width_has_parts_of_bytes(region))
        return 1;
    WidthCase asked = {.axis = region->rank - 1, .width = width_most(region), .start = start};
    return width_ask(graph, region, width_widest, &asked) ? width_stored(graph, region, asked.width) : 1;
}
