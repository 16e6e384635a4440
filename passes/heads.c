/* A product whose columns are cut into heads, along which it is reduced, becomes a product a head: a block of
 * the kernel then has whole rows of D elements, and applies their statistics before it stores anything.
 *
 *     h = reshape(x @ w, dims=[M, H, D])                       x: [M, K], w: [K, H * D]
 *     y = h * rsqrt(mean(h * h, over=-1))                      (QK-norm of attention)
 * ->  p = reshape(x, dims=[1, M, K]) @ transpose(reshape(w, dims=[K, H, D]), perm=[1, 0, 2])
 *     h = transpose(p, perm=[1, 0, 2])
 *
 * Where the heads are some columns of a product (q and k of q, k and v), each part becomes a product first.
 *
 * So does one whose heads are cut once more, into columns that leave apart (a latent's keys and values):
 *
 *     k, v = h[..., :128], h[..., 128:]                        parts of each head
 *
 * A block is then D columns wide. So it is done where tiles of that width are as quick as any, and where the
 * product has enough of them. */
#include "ir/value_map.h"
#include "passes/fuse.h"
#include "passes/product.h"
#include "passes/rewrite.h"

enum {
    HEADS_LEAST = 96,        /* narrower tiles read their operands too often */
    HEADS_JOINED_LEAST = 32, /* except of a whole product's heads, of which a tile has several side by side */
    HEADS_TILE_ROWS = 128,
    HEADS_TILES = 2,     /* as many tiles of half the rows */
    HEADS_BATCH_MAX = 1, /* axes before M: with the heads two, as many as TMA takes */
};

typedef struct Heads {
    Pass *pass;
    const Graph *graph;
    const Value *
        *core;         /* by id: the product that a Value follows element by element, cut into heads or not */
    const Value **cut; /* by id: the reshape into heads that it follows */
    const Value **of;  /* by id: the reshape into heads along which it is computed from a reduction */
    bool *is_of_rows;  /* by id: computed of a reduction of a product's whole rows, which no head has */
    const Value **mate; /* by id of a core: another that it meets, of the same first operand (a gate) */
    ValueMap found;     /* of products: the number of a reshape that cuts it into heads, plus 1 */
    VEC(const Value *) cuts;
    const int *uses;       /* by id */
    int *n_parts;          /* by id of a product: how many of them take some of its columns */
    const Dim **narrowest; /* by id: columns of the narrowest of those, as far as it is known */
    ValueMap apart;        /* products whose parts become products */
    bool any_apart;
} Heads;

static const Dim *heads_last(const Value *value) {
    return value->dims[value->rank - 1];
}

/* What `of` says of the operands of `value`'s dims that have a say; NULL where they differ. */
static const Value *heads_common(const Value *value, const Value *const *of) {
    const Value *common = NULL;
    for (int i = 0; value_is_pointwise(value) && i < value->n_in; i++) {
        const Value *one = of[value->in[i]->id];
        if (!one || !value_same_dims(value->in[i], value))
            continue;
        if (common && common != one)
            return NULL;
        common = one;
    }
    return common;
}

static const Value *heads_product(const Value *core) {
    return core->op == OP_slice ? core->in[0] : core;
}

/* The core of the operands of `value`'s dims: where there are two of one first operand, the one met first. */
static const Value *heads_core(const Heads *heads, const Value *value) {
    const Value *core = NULL;
    for (int i = 0; value_is_pointwise(value) && i < value->n_in; i++) {
        const Value *one = heads->core[value->in[i]->id];
        if (!one || one == core || !value_same_dims(value->in[i], value))
            continue;
        if (!core) {
            core = one;
            continue;
        }
        if (heads_product(core)->in[0] != heads_product(one)->in[0] || !value_same_dims(core, one) ||
            (heads->mate[core->id] && heads->mate[core->id] != one))
            return NULL;
        heads->mate[core->id] = one;
    }
    return core;
}

/* Into how many axes, the last of them the heads' own, a reshape cuts the columns of its operand; 0: it does
 * something else. */
static int heads_axes(const Graph *graph, const Value *reshape) {
    const Value *operand = reshape->in[0];
    const Dim *columns = dim_const(graph->dims, 1);
    if (operand->rank < 2 || reshape->rank < 2 || !dim_is_const(heads_last(reshape)))
        return 0;
    for (int n = 1; n < reshape->rank && columns; n++) {
        columns = dim_mul(graph->dims, columns, reshape->dims[reshape->rank - n]);
        if (columns == heads_last(operand))
            return n > 1 ? n : 0;
    }
    return 0;
}

/* The elements of an operand where they lie: an input, or one that has a factor for each block of its
 * elements (block quantization); NULL where the operand is computed otherwise. */
static const Value *heads_elements(const Value *operand) {
    const Value *value = value_below_views(operand);
    if (value->op == OP_mul && value->dtype == DTYPE_F32) {
        const Value *factor = value_below_views(value->in[1]);
        value = value_below_views(value->in[0]);
        if (factor->op != OP_input || factor->dtype != DTYPE_F32)
            return NULL;
    }
    return value->op == OP_input ? value : NULL;
}

/* Whether tiles of D columns do the product as well as others would. */
static bool heads_pay(const Heads *heads, const Value *core, const Value *cut) {
    const FuseLimits *limits = heads->pass->options->limits;
    int64_t width = heads_last(cut)->value, tiles = 1, products = heads->mate[core->id] ? 2 : 1;
    bool is_joined = core->op != OP_slice && width >= HEADS_JOINED_LEAST;
    bool is_wide = width >= HEADS_LEAST || is_joined;
    if (!is_wide || width * products > limits->matmul_row_max || width % 16 != 0)
        return false;
    for (int i = 0; i + 1 < core->rank; i++) {
        int64_t extent = product_extent(heads->graph, core->dims[i]);
        if (i == core->rank - 2)
            extent = extent / HEADS_TILE_ROWS;
        if (__builtin_mul_overflow(tiles, extent, &tiles))
            return true;
    }
    /* of a product that comes apart, each part is a kernel that fills the machine by itself, or does not */
    const Dim *columns = core->op == OP_slice ? heads->narrowest[core->in[0]->id] : heads_last(core);
    return !__builtin_mul_overflow(tiles, product_extent(heads->graph, columns) / width, &tiles) &&
           tiles * HEADS_TILES >= limits->sm_count;
}

/* Whether it takes neighbouring columns of a product. */
static bool heads_are_columns(const Value *slice) {
    return value_takes_columns(slice) && slice->in[0]->op == OP_matmul &&
           slice->attrs[2].ints[slice->rank - 1] == 1;
}

/* The type in which an operand is multiplied. */
static DType heads_type(const Value *operand) {
    const Value *elements = heads_elements(operand);
    return elements ? elements->dtype : operand->dtype;
}

static bool heads_fit(const Heads *heads, const Value *core, const Value *cut) {
    const Value *product = heads_product(core);
    const Value *a = product->in[0], *b = product->in[1];
    if (core != product && heads->uses[product->id] != heads->n_parts[product->id])
        return false;
    return product_types_use_tensor_cores(heads->pass->options->limits, heads_type(a), heads_type(b)) &&
           b->rank == 2 && core->rank <= 2 + HEADS_BATCH_MAX && a->rank == core->rank && heads_elements(b) &&
           heads_pay(heads, core, cut);
}

static void heads_take(Heads *heads, const Value *core) {
    if (core->op == OP_slice) {
        value_map_set(&heads->apart, core->in[0], true);
        heads->any_apart = true;
        return;
    }
    value_map_set(&heads->found, core, (int)heads->cuts.n);
}

/* A statistic of heads meets what it is a statistic of. */
static void heads_apply(Heads *heads, const Value *cut) {
    const Value *core = heads->core[cut->in[0]->id], *mate = heads->mate[core->id];
    if (value_map_get(&heads->found, core) || !heads_fit(heads, core, cut) ||
        (mate && (value_map_get(&heads->found, mate) || !heads_fit(heads, mate, cut))))
        return;
    vec_push(heads->pass->arena, &heads->cuts, cut);
    heads_take(heads, core);
    if (mate)
        heads_take(heads, mate);
}

static void heads_look_pointwise(Heads *heads, const Value *value) {
    size_t id = value->id;
    heads->core[id] = heads->is_of_rows[id] ? NULL : heads_core(heads, value);
    heads->cut[id] = heads_common(value, heads->cut);
    for (int i = 0; i < value->n_in; i++) {
        const Value *statistic = heads->of[value->in[i]->id];
        heads->of[id] = statistic ? statistic : heads->of[id];
    }
    if (heads->cut[id] && heads->of[id] && value_same_dims(heads->cut[id], heads->of[id]) &&
        heads->core[heads->cut[id]->in[0]->id] == heads->core[heads->of[id]->in[0]->id])
        heads_apply(heads, heads->cut[id]);
}

static void heads_look(Heads *heads, const Value *value) {
    size_t id = value->id, in = value->n_in ? value->in[0]->id : 0;
    for (int i = 0; i < value->n_in && (value_is_pointwise(value) || op_is_view(value->op)); i++)
        heads->is_of_rows[id] = heads->is_of_rows[id] || heads->is_of_rows[value->in[i]->id];
    if (value->op == OP_matmul || heads_are_columns(value)) {
        heads->core[id] = value;
    } else if (value_is_pointwise(value)) {
        heads_look_pointwise(heads, value);
    } else if (value_takes_columns(value)) {
        heads->core[id] = heads->core[in];
        heads->cut[id] = heads->cut[in];
    } else if (value->op == OP_broadcast) {
        heads->of[id] = heads->of[in];
    } else if (value->op == OP_reshape && heads->core[in] && heads_axes(heads->graph, value)) {
        heads->core[id] = heads->core[in];
        heads->cut[id] = value;
    } else if (value_class(value) == OPCLASS_REDUCTION && value->attrs[0].axes.n == 1 &&
               value->attrs[0].axes.at[0] == value->in[0]->rank - 1) {
        heads->of[id] = heads->cut[in];
        heads->is_of_rows[id] = heads->core[in] && !heads->cut[in];
    }
}

/* The only reader of a value; NULL: there are several, or it is an output. */
static const Value *heads_reader(const Heads *heads, const Value *value) {
    const Graph *graph = heads->graph;
    for (size_t i = value->id + 1; i < graph->values.n && heads->uses[value->id] == 1; i++)
        for (int k = 0; k < graph->values.at[i]->n_in; k++)
            if (graph->values.at[i]->in[k] == value)
                return graph->values.at[i];
    return NULL;
}

/* Whether columns of heads go to outputs, element by element and without those beside them. */
static bool heads_leave(const Heads *heads, const Value *columns) {
    const Graph *graph = heads->graph;
    bool *follows = ARENA_ARRAY(heads->pass->arena, bool, graph->values.n + 1);
    follows[columns->id] = true;
    for (size_t i = columns->id + 1; i < graph->values.n; i++) {
        const Value *value = graph->values.at[i];
        bool is_apart = value_is_pointwise(value) || op_is_view(value->op);
        for (int k = 0; k < value->n_in; k++) {
            follows[i] = follows[i] || follows[value->in[k]->id];
            is_apart = is_apart && (follows[value->in[k]->id] || !heads->core[value->in[k]->id]);
        }
        if (follows[i] && !is_apart)
            return false;
    }
    return true;
}

/* Whether all that is read of a product is read by way of its cut. */
static bool heads_only(const Heads *heads, const Value *core, const Value *cut) {
    enum { STEPS = 8 };
    for (int step = 0; core && core != cut && step < STEPS; step++)
        core = heads_reader(heads, core);
    return core == cut;
}

/* Of a reshape into heads that nothing but slices of each reads, those leave apart. */
static void heads_cut_apart(Heads *heads, const Value *cut) {
    enum { PIECE = 16 }; /* elements of columns, which boxes of the output begin and end with */
    const Graph *graph = heads->graph;
    const Value *core = heads->core[cut->in[0]->id];
    int n = 0, last = cut->rank - 1;
    if (!core || core->op != OP_matmul || !heads_only(heads, core, cut))
        return;
    for (size_t i = cut->id + 1; i < graph->values.n; i++) {
        const Value *part = graph->values.at[i];
        if (part->op != OP_slice || part->in[0] != cut)
            continue;
        const Dim *start = part->attrs[0].dims[last], *limit = part->attrs[1].dims[last];
        if (!value_takes_columns(part) || part->attrs[2].ints[last] != 1 || !dim_is_const(start) ||
            !dim_is_const(limit) || start->value % PIECE != 0 || limit->value % PIECE != 0 ||
            !heads_leave(heads, part))
            return;
        n++;
    }
    if (n < 2 || n != heads->uses[cut->id] || value_map_get(&heads->found, core) ||
        !heads_fit(heads, core, cut))
        return;
    vec_push(heads->pass->arena, &heads->cuts, cut);
    heads_take(heads, core);
}

/* x: [.., M, K] with an axis of one head. */
static Value *heads_first(Rewrite *rewrite, Value *x) {
    const Dim *dims[RANK_MAX];
    for (int i = 0; i < x->rank; i++)
        dims[i < x->rank - 2 ? i : i + 1] = x->dims[i];
    dims[x->rank - 2] = dim_const(rewrite->graph->dims, 1);
    return build_reshape(rewrite, x, x->rank + 1, dims, x);
}

/* w: [K, H * D] as [H, K, D]. */
static Value *heads_second(Rewrite *rewrite, Value *w, const Dim *heads, const Dim *width) {
    const Dim *dims[] = {w->dims[0], heads, width};
    static const int perm[] = {1, 0, 2};
    Value *cut = build_reshape(rewrite, w, 3, dims, w);
    return cut ? build_transpose(rewrite, cut, perm, w) : NULL;
}

/* Some columns of a product, as a product. */
static Value *heads_part(Rewrite *rewrite, Value *slice) {
    Value *matmul = slice->in[0], *w = matmul->in[1];
    int last = slice->rank - 1;
    Value *in[] = {matmul->in[0], build_part(rewrite, w, 1, slice->attrs[0].dims[last],
                                             slice->attrs[1].dims[last], 1, slice)};
    Value *part = in[1] ? build_like(rewrite, matmul, in) : NULL;
    if (!part)
        return slice;
    pass_decide(rewrite->pass, "heads", true, part, NULL, NULL,
                "the columns are products of their own, since statistics of heads are applied to some");
    return part;
}

static Value *heads_rule(Rewrite *rewrite, Value *value) {
    const Heads *heads = rewrite->pass->state;
    if (heads_are_columns(value) && value_map_get(&heads->apart, value->in[0]))
        return heads_part(rewrite, value);
    int number = value->op == OP_matmul ? value_map_get(&heads->found, value) : 0;
    if (!number)
        return value;
    const Value *cut = heads->cuts.at[number - 1];
    const Dim *count = dim_const(rewrite->graph->dims, 1), *width = heads_last(cut);
    for (int i = cut->rank - heads_axes(heads->graph, cut); i + 1 < cut->rank && count; i++)
        count = dim_mul(rewrite->graph->dims, count, cut->dims[i]);
    Value *in[] = {heads_first(rewrite, value->in[0]),
                   count ? heads_second(rewrite, value->in[1], count, width) : NULL};
    Value *products = in[0] && in[1] ? build_like(rewrite, value, in) : NULL;
    int perm[RANK_MAX], rank = value->rank + 1;
    for (int i = 0; i < rank; i++)
        perm[i] = i == rank - 3 ? rank - 2 : i == rank - 2 ? rank - 3 : i;
    Value *rows = products ? build_transpose(rewrite, products, perm, value) : NULL;
    Value *whole = rows ? build_reshape(rewrite, rows, value->rank, value->dims, value) : NULL;
    if (!whole)
        return value;
    pass_decide(
        rewrite->pass, "heads", true, products, NULL, NULL,
        "a product for each %lld columns, since statistics of so many are applied to them, or some of "
        "them leave apart",
        (long long)width->value);
    return whole;
}

static void heads_count_part(Heads *heads, const Value *part) {
    size_t product = part->in[0]->id;
    const Dim *columns = heads_last(part), *least = heads->narrowest[product];
    heads->n_parts[product]++;
    if (!least || product_extent(heads->graph, columns) < product_extent(heads->graph, least))
        heads->narrowest[product] = columns;
}

bool pass_heads(Pass *pass, Graph *graph) {
    Heads heads = {.pass = pass, .graph = graph, .found.arena = pass->arena, .apart.arena = pass->arena};
    const FuseLimits *limits = pass->options->limits;
    if (pass->options->no_fusion || !limits || !limits->has_tensor_cores)
        return false;
    graph_renumber(graph);
    heads.core = ARENA_ARRAY(pass->arena, const Value *, graph->values.n + 1);
    heads.cut = ARENA_ARRAY(pass->arena, const Value *, graph->values.n + 1);
    heads.of = ARENA_ARRAY(pass->arena, const Value *, graph->values.n + 1);
    heads.mate = ARENA_ARRAY(pass->arena, const Value *, graph->values.n + 1);
    heads.is_of_rows = ARENA_ARRAY(pass->arena, bool, graph->values.n + 1);
    heads.uses = graph_use_counts(pass->arena, graph);
    heads.n_parts = ARENA_ARRAY(pass->arena, int, graph->values.n + 1);
    heads.narrowest = ARENA_ARRAY(pass->arena, const Dim *, graph->values.n + 1);
    for (size_t i = 0; i < graph->values.n; i++)
        if (heads_are_columns(graph->values.at[i]))
            heads_count_part(&heads, graph->values.at[i]);
    for (size_t i = 0; i < graph->values.n; i++)
        heads_look(&heads, graph->values.at[i]);
    for (size_t i = 0; i < graph->values.n; i++) {
        const Value *cut = graph->values.at[i];
        if (cut->op == OP_reshape && heads_axes(graph, cut))
            heads_cut_apart(&heads, cut);
    }
    pass->state = &heads;
    return (heads.cuts.n || heads.any_apart) && rewrite_graph(pass, graph, heads_rule);
}
