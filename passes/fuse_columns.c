/* Movement among a product's columns: rotary embeddings, heads cut apart, q, k and v as three outputs.
 *
 *     h = x @ w.T                                       matmul "q": computes h; each thread finds the column
 * that the rotation lo, hi = split(reshape(h, [S, H, D]), 2, -1)      asks for among its own registers q =
 * concat(lo * c - hi * s, hi * c + lo * s)
 *
 * A Value joins the kernel of the product whose elements it moves if its rows are the product's and its
 * elements a run of its columns, every read staying in the same thread (ir/columns.h). What lies between
 * floats and is computed on the way. */
#include "ir/value_map.h"
#include "passes/fuse.h"

enum { COLUMNS_GROUPS = 4 /* products whose elements one Value moves: looked at one after the other */ };

typedef struct ColumnsContext {
    const Fuse *fuse;
    const Group *group;
} ColumnsContext;

static bool columns_is_here(void *context, const Value *value) {
    const ColumnsContext *columns = context;
    const FuseNode *node = fuse_node(columns->fuse, value);
    return node->home ? node->home == columns->group : !node->free;
}

bool fuse_columns_place(Fuse *fuse, const Group *group, const Value *value, ColumnPlace *place,
                        const char **why) {
    ColumnsContext context = {fuse, group};
    bool is_sum = group->sums.n > 0; /* then the accumulators have the last one */
    Value *const *products = is_sum ? &group->sums.at[group->sums.n - 1] : group->cores.at;
    return columns_place(fuse->graph, (const Value *const *)products, is_sum ? 1 : (int)group->cores.n, value,
                         columns_is_here, &context, place, why);
}

static bool columns_add_group(Group *group, Group **found, int n) {
    if (group->dead || group->kind != TEMPLATE_MATMUL || group->is_chain || n == COLUMNS_GROUPS)
        return false;
    for (int i = 0; i < n; i++)
        if (found[i] == group)
            return false;
    found[n] = group;
    return true;
}

/* Products that `value` reads otherwise than element by element in their space. */
static int columns_groups(const Fuse *fuse, const Value *value, Group **found) {
    bool moves = value_class(value) == OPCLASS_MOVEMENT;
    int n = 0;
    for (int i = 0; i < value->n_in; i++) {
        const FuseNode *node = fuse_node(fuse, value->in[i]);
        if (node->home && !node->barrier && (moves || !space_fits(node->home, value->in[i])))
            n += columns_add_group(node->home, found, n);
        for (int id = 0; !node->home && id < (int)node->reads.n * 64; id++)
            if (group_set_has(&node->reads, id))
                n += columns_add_group(fuse->groups.at[id], found, n);
    }
    return n;
}

static bool columns_try(Fuse *fuse, Group *group, Value *value, bool decides) {
    Value *core = group->cores.at[0];
    ColumnPlace place;
    const char *why = "another operand waits for the same kernel's stored result";
    bool can = true;
    for (int i = 0; i < value->n_in; i++)
        can = can && group_can_compute(fuse, group, value->in[i]);
    bool is_fp8 = dtype_is_float(core->in[0]->dtype) && dtype_bits(core->in[0]->dtype) == 8;
    if (can && (is_fp8 || !product_uses_tensor_cores(fuse->limits, core))) {
        why = "its threads hold columns so only where tensor cores multiply elements of 16 bits, tf32 or "
              "integers";
        can = false;
    }
    if (can && group->has_blocks) {
        why = "the kernel takes statistics of its tiles, whose columns stay where they are";
        can = false;
    }
    if (can && fuse->known->refused[value->id] & REFUSED_COLUMNS) {
        why = "no schedule of the product's kernel has registers for it";
        can = false;
    }
    can = can && fuse_columns_place(fuse, group, value, &place, &why);
    if (can && column_blocks_join(group->moved_block, place.block) > COLUMN_BLOCK_MAX) {
        why = "columns trade places in blocks of two lengths, and none of 256 columns has whole ones of both";
        can = false;
    }
    if (can && !group_has_room(fuse, group, value)) {
        why = "the kernel is as large as kernels get";
        can = false;
    }
    if (!can) {
        if (decides)
            pass_decide(fuse->pass, "matmul_columns_moved", false, value, core,
                        "columns that move within aligned blocks of up to 256", "%s", why);
        return false;
    }
    group_join(fuse, group, value);
    group->is_moved = true;
    group->moved_block = column_blocks_join(group->moved_block, place.block);
    if (place.block)
        pass_decide(fuse->pass, "matmul_columns_moved", true, value, core, NULL,
                    "columns trade places within blocks of %d, in each thread's registers", place.block);
    else
        pass_decide(fuse->pass, "matmul_columns_moved", true, value, core, NULL,
                    "it is columns %lld to %lld of the product", (long long)place.first,
                    (long long)(place.first + place.width));
    return true;
}

bool fuse_columns(Fuse *fuse, Value *value, bool decides) {
    Group *groups[COLUMNS_GROUPS];
    int n = columns_groups(fuse, value, groups);
    for (int i = 0; i < n; i++)
        if (columns_try(fuse, groups[i], value, decides))
            return true;
    return false;
}

/* What a region's Values have of its products. */
enum { COLUMNS_NONE, COLUMNS_COMPUTED, COLUMNS_MOVED };

static void columns_mark(const Region *region, ValueMap *marks) {
    for (size_t i = 0; i < region->values.n; i++) {
        const Value *value = region->values.at[i];
        int mark = value->op == OP_matmul ? COLUMNS_COMPUTED : COLUMNS_NONE;
        for (int k = 0; k < value->n_in && value->op != OP_matmul; k++) {
            int in = value_map_get(marks, value->in[k]);
            mark = in > mark ? in : mark;
        }
        if (value_class(value) == OPCLASS_REDUCTION) /* one element a row has no column */
            mark = COLUMNS_NONE;
        bool moves = value->op == OP_reshape || value->op == OP_transpose || value->op == OP_slice ||
                     value->op == OP_concat || value->op == OP_pad;
        value_map_set(marks, value, mark && moves ? COLUMNS_MOVED : mark);
    }
}

/* Below reshapes and transposes, which are an order of storing, the Value that has the product's dims;
 * `value` where there is none. */
static const Value *columns_root(const Region *region, const ValueMap *marks, const Value *value) {
    const Value *core = region->cores.at[0], *root = value;
    for (const Value *at = value; value_map_get(marks, at); at = at->in[0]) {
        if (value_same_dims(at, core))
            root = at;
        if (at->op != OP_reshape && at->op != OP_transpose)
            break;
    }
    return root;
}

/* Below reshapes and transposes, an order of storing, the Value whose rows are the product's. */
static const Value *columns_base(const ValueMap *marks, const Value *value) {
    while ((value->op == OP_reshape || value->op == OP_transpose) && value_map_get(marks, value->in[0]))
        value = value->in[0];
    return value;
}

void fuse_columns_windows(Fuse *fuse, const Group *group, Region *region) {
    const Value *core = region->cores.at[0];
    ValueMap marks = {.arena = fuse->arena};
    columns_mark(region, &marks);
    for (size_t i = 0; i < region->values.n + region->outputs.n; i++) {
        bool is_output = i >= region->values.n;
        const Value *value = is_output ? region->outputs.at[i - region->values.n] : region->values.at[i];
        if (!is_output && value_class(value) != OPCLASS_REDUCTION)
            continue;
        const Value *output = value;
        value = is_output ? columns_root(region, &marks, value) : value->in[0];
        if (value_map_get(&marks, value) != COLUMNS_MOVED)
            continue;
        ColumnPlace place;
        const char *why;
        bool is_placed = fuse_columns_place(fuse, group, value, &place, &why);
        if (!is_placed && is_output) {
            value = columns_base(&marks, value);
            is_placed = fuse_columns_place(fuse, group, value, &place, &why);
        }
        if (!is_placed) {
            diag_error(fuse->pass->diags, DIAG_INTERNAL, value->span, "after fuse: region '%s': %s",
                       core->name ? core->name : "matmul", why);
            return;
        }
        region->column_block = column_blocks_join(region->column_block, place.block);
        RegionWindow window = {.value = output, .root = value, .first = place.first, .width = place.width};
        if (is_output && !value_same_dims(value, core))
            vec_push(fuse->graph->arena, &region->windows, window);
    }
}
