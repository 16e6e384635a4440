/* What the products of a relay are: takes a region apart into first ones, last ones, one across, and what
 * lies between (relay.h). */
#include "codegen/templates/relay.h"

#include <string.h>

#include "codegen/templates/matmul_operand.h"

/* ---- products */

static int relay_products(const Region *part) {
    int n = 0;
    for (size_t i = 0; i < part->values.n; i++)
        n += part->values.at[i]->op == OP_matmul;
    return n;
}

/* The region's outputs that are computed of a last product, and with the first of these those that are of
 * none.
 */
static size_t relay_outputs(const RelayPlan *plan, const Value *core, Value **out) {
    const Region *whole = plan->region;
    size_t n = 0;
    for (size_t i = 0; i < whole->outputs.n; i++) {
        Value *output = whole->outputs.at[i];
        const Region *part = region_part(plan->graph->arena, whole, &output, 1, core->in[0], core);
        if (region_kernel_computes(part, core) || (!relay_products(part) && !plan->n_last))
            out[n++] = output;
    }
    return n;
}

static bool relay_product(const RelayPlan *plan, Value *core, Value *const *outputs, size_t n_outputs,
                          const Value *held, MatmulPlan *product, const char **why) {
    Region *part = region_part(plan->graph->arena, plan->region, outputs, n_outputs, held, core);
    vec_push(plan->graph->arena, &part->cores, core);
    *why = "an output is computed of two last products, or a first one is needed elsewhere";
    if (relay_products(part) != 1 || !region_kernel_computes(part, core) ||
        !matmul_plan(plan->graph, part, plan->target, product, why))
        return false;
    *why = "products that hand on parts have operands of one 16-bit type";
    if (product->kind != MATMUL_16BIT || product->a.narrow != product->a.elem ||
        (plan->n_first && product->a.elem != plan->first[0].a.elem))
        return false;
    *why = "none of them multiplies weights of several groups";
    if (matmul_has_gaps(product))
        return false;
    *why = "of products that hand on parts, none is reduced";
    if (product->statistics.n || product->columns.n || product->operand_rows.n)
        return false;
    return matmul_is_tma(plan->graph, &product->b[0], why) &&
           (held || matmul_is_tma(plan->graph, &product->a, why));
}

static bool relay_first(RelayPlan *plan, Value *core, const char **why) {
    enum { DEPTH = 256 };
    const DimTable *dims = plan->graph->dims;
    MatmulPlan *product = &plan->first[plan->n_first];
    if (!relay_product(plan, core, &core, 1, NULL, product, why))
        return false;
    *why = "first products have at most 256 elements to sum, and one at least";
    if (dim_upper(dims, product->k) > DEPTH || !dim_known_some(plan->graph->dims, product->k, product->m))
        return false;
    *why = "first products have equal dims";
    plan->n_first++;
    return value_same_dims(core, plan->first[0].core[0]);
}

/* Its number among what is held, or that of the next. */
static int relay_find_held(const RelayPlan *plan, const Value *held) {
    int at = 0;
    while (at < plan->n_held && plan->held[at] != held)
        at++;
    return at;
}

static bool relay_last(RelayPlan *plan, Value *core, const char **why) {
    Arena *arena = plan->graph->arena;
    Value **outputs = ARENA_ARRAY(arena, Value *, plan->region->outputs.n + 1);
    size_t n = relay_outputs(plan, core, outputs);
    plan->n_outputs += n;
    MatmulPlan *product = &plan->last[plan->n_last];
    const Value *held = core->in[0];
    if (!relay_product(plan, core, outputs, n, held, product, why))
        return false;
    *why = "what is handed on has the dims of the first products, and one column at least";
    if (!value_same_dims(held, plan->first[0].core[0]) ||
        !dim_known_some(plan->graph->dims, product->k, product->m))
        return false;
    *why = "last products have equal dims, of at most 256 columns together";
    int64_t most = (dim_upper(plan->graph->dims, product->n) + 15) / 16 * 16;
    if (most < 16 || most > WGMMA_N_MAX || (plan->n_last && !value_same_dims(core, plan->last[0].core[0])))
        return false;
    plan->columns = (int)most;
    int at = relay_find_held(plan, held);
    plan->held[at] = held;
    plan->n_held = at == plan->n_held ? at + 1 : plan->n_held;
    plan->held_of[plan->n_last++] = at;
    return plan->n_last * plan->columns <= WGMMA_N_MAX;
}

static const Dim *relay_extent(const MatmulOperand *operand, int axis) {
    return operand->value->dims[axis];
}

/* Whether a last product's second operand is a first one's, which has its sum along that one's columns. */
static bool relay_lie_alike(const MatmulOperand *first, const MatmulOperand *last) {
    int rank = first->value->rank;
    bool alike = first->view.base == last->view.base && first->view.offset == last->view.offset &&
                 rank == last->value->rank;
    if (!alike)
        return false;
    const Dim *const *a = first->view.strides, *const *b = last->view.strides;
    alike = a[first->mn_axis] == b[last->k_axis] && a[first->k_axis] == b[last->mn_axis] &&
            relay_extent(first, first->mn_axis) == relay_extent(last, last->k_axis) &&
            relay_extent(first, first->k_axis) == relay_extent(last, last->mn_axis);
    for (int i = 0; i < rank - 2 && alike; i++)
        alike = a[i] == b[i] && relay_extent(first, i) == relay_extent(last, i);
    return alike;
}

/* The product of what is held the other way around, with a first product's rows: its sums are its output. */
static bool relay_across(RelayPlan *plan, Value *core, const char **why) {
    const Value *held = core->in[0];
    MatmulStored stored;
    *why = "one product goes across, in f32, of several rows and columns, and nothing is computed of it";
    if (plan->has_across || dim_is(plan->first[0].m, 1) || dim_is(plan->first[0].n, 1) ||
        core->dtype != DTYPE_F32 || !region_writes(plan->region, core))
        return false;
    if (!relay_product(plan, core, &core, 1, held, &plan->across, why))
        return false;
    *why = "TMA does not add to the rows of a product across";
    if (!matmul_stored(&plan->across, core, &stored))
        return false;
    *why = "a product across takes what is handed on to a last product";
    int at = relay_find_held(plan, value_turned(held));
    if (at == plan->n_held || plan->n_first != RELAY_PRODUCTS)
        return false;
    *why = "a product across reads the rows of a first product, and has their columns";
    int rows = 0;
    while (rows < plan->n_first && !relay_lie_alike(&plan->first[rows].a, &plan->across.b[0]))
        rows++;
    if (rows == plan->n_first || relay_depth(plan, rows) != plan->columns)
        return false;
    plan->across_held = at;
    plan->across_rows = rows;
    plan->has_across = true;
    plan->n_outputs++;
    return true;
}

/* ---- what lies between */

/* The band beyond which all that is handed on is zero, if any. */
static void relay_find_band(RelayPlan *plan) {
    DimTable *dims = plan->graph->dims;
    for (int i = 0; i < plan->n_held; i++) {
        Band band;
        if (!band_of_zeros(dims, (Value *)plan->held[i], &band) || (i && !band_same(&plan->band, &band))) {
            plan->band = (Band){0};
            return;
        }
        plan->band = band;
    }
}

/* What a select by the band is within it; NULL: `value` is no such select. */
static Value *relay_within(const RelayPlan *plan, Value *value) {
    double beyond;
    Value *inner;
    Band band;
    bool is_within = value->op == OP_select && value_is_constant(value->in[2], &beyond) &&
                     band_of(plan->graph->dims, value, beyond, &band, &inner) &&
                     band_same(&band, &plan->band) && inner != value;
    return is_within ? inner : NULL;
}

/* What stands for values of a region that is bare of selects. */
typedef struct RelayBare {
    ValueMap numbers; /* of values, plus 1 */
    VEC(Value *) made;
} RelayBare;

static Value *relay_bare(const RelayBare *bare, Value *value) {
    int number = value_map_get(&bare->numbers, value);
    return number ? bare->made.at[number - 1] : value;
}

/* A value of what stands for its operands: itself, if they do. */
static Value *relay_bare_copy(Arena *arena, const RelayBare *bare, Value *value) {
    Value *copy = value;
    for (int k = 0; k < value->n_in; k++) {
        Value *in = relay_bare(bare, value->in[k]);
        if (in == value->in[k])
            continue;
        if (copy == value) {
            copy = ARENA_NEW(arena, Value);
            *copy = *value;
            copy->in = ARENA_ARRAY(arena, Value *, (size_t)value->n_in);
            memcpy(copy->in, value->in, sizeof *copy->in * (size_t)value->n_in);
        }
        copy->in[k] = in;
    }
    return copy;
}

/* The region as it computes what lies within the band: bare of the selects that say where that is. */
static Region *relay_bared(const RelayPlan *plan, const Region *part) {
    Arena *arena = plan->graph->arena;
    Region *bared = ARENA_NEW(arena, Region);
    RelayBare bare = {.numbers = {.arena = arena}};
    *bared = *part;
    bared->values.at = ARENA_ARRAY(arena, Value *, part->values.n + 1);
    bared->outputs.at = ARENA_ARRAY(arena, Value *, part->outputs.n + 1);
    bared->values.n = bared->values.room = bared->outputs.n = bared->outputs.room = 0;
    for (size_t i = 0; i < part->values.n; i++) { /* topological */
        Value *value = part->values.at[i], *within = relay_within(plan, value);
        Value *stands = within ? relay_bare(&bare, within) : relay_bare_copy(arena, &bare, value);
        if (stands != value) {
            vec_push(arena, &bare.made, stands);
            value_map_set(&bare.numbers, value, (int)bare.made.n);
        }
        if (!within)
            vec_push(arena, &bared->values, stands);
    }
    for (size_t i = 0; i < part->outputs.n; i++)
        vec_push(arena, &bared->outputs, relay_bare(&bare, part->outputs.at[i]));
    return bared;
}

/* What is held, as the epilogue of a product of which there are n_first. */
static void relay_between(RelayPlan *plan) {
    Arena *arena = plan->graph->arena;
    Region *part = region_part(arena, plan->region, (Value *const *)plan->held, (size_t)plan->n_held, NULL,
                               plan->first[0].core[0]);
    relay_find_band(plan);
    if (plan->band.n)
        part = relay_bared(plan, part);
    part->schedule = plan->region->schedule;
    plan->between = plan->first[0];
    plan->between.region = part;
    plan->between.n_cores = plan->n_first;
    for (int i = 0; i < plan->n_first; i++)
        plan->between.core[i] = plan->first[i].core[0];
    for (int i = 0; i < plan->n_held; i++) {
        plan->made[i] = part->outputs.at[i];
        for (int k = 0; k < plan->n_first; k++) {
            ValueMap marks = {.arena = arena};
            matmul_mark_dependents(&plan->between, &plan->between.core[k], 1, NULL, 0, &marks);
            if (value_map_get(&marks, plan->made[i]))
                plan->n_needed[i] = k + 1;
        }
    }
}

/* Whether something held is computed of first product 0 other than by `cut`. */
static bool relay_is_around(const RelayPlan *plan, const Value *cut) {
    ValueMap marks = {.arena = plan->graph->arena};
    matmul_mark_dependents(&plan->between, &plan->between.core[0], 1, &cut, 1, &marks);
    for (int i = 0; i < plan->n_held; i++)
        if (value_map_get(&marks, plan->made[i]))
            return true;
    return false;
}

/* The last value that is computed of first product 0 alone, and by which alone what is held is computed of
 * that. */
static void relay_find_kept(RelayPlan *plan) {
    const Region *part = plan->between.region;
    ValueMap of[RELAY_PRODUCTS] = {{.arena = plan->graph->arena}, {.arena = plan->graph->arena}};
    for (int i = 0; i < plan->n_first; i++)
        matmul_mark_dependents(&plan->between, &plan->between.core[i], 1, NULL, 0, &of[i]);
    for (size_t i = 0; i < part->values.n; i++) {
        const Value *value = part->values.at[i];
        if (value->dtype == DTYPE_F32 && value_map_get(&of[0], value) && !value_map_get(&of[1], value) &&
            value_same_dims(value, plan->between.core[0]) && value != plan->between.core[0] &&
            !relay_is_around(plan, value))
            plan->kept = value;
    }
    plan->rest = plan->between;
    if (plan->kept)
        plan->rest.core[0] = (Value *)plan->kept;
}

/* ---- second operands */

static int relay_bring(RelayPlan *plan, const MatmulPlan *product, bool is_last) {
    const MatmulOperand *operand = &product->b[0];
    for (int i = 0; i < plan->n_brought && is_last; i++)
        if (!plan->brought[i].is_last && relay_lie_alike(plan->brought[i].operand, operand))
            return i;
    plan->brought[plan->n_brought] = (RelayBrought){product, operand, is_last};
    return plan->n_brought++;
}

/* ---- what comes with a part, beside a product across */

static bool relay_is_vector(const RelayPlan *plan, const Value *value) {
    const Value *product = plan->between.core[0];
    int last = value->rank - 1;
    return last >= 1 && value->dtype == DTYPE_F32 && dim_is(value->dims[last - 1], 1) &&
           value->dims[last] == product->dims[product->rank - 1] && !dim_is(value->dims[last], 1);
}

/* Those that something with an element for each of the products' is computed of. */
static void relay_find_vectors(RelayPlan *plan) {
    const Region *part = plan->between.region;
    for (size_t i = 0; i < part->values.n; i++) {
        const Value *user = part->values.at[i];
        for (int k = 0; k < user->n_in && user->op != OP_matmul; k++) {
            const Value *value = user->in[k];
            bool is_known = relay_is_vector(plan, user) || !relay_is_vector(plan, value);
            for (int v = 0; v < plan->n_vectors; v++)
                is_known = is_known || plan->vectors[v] == value;
            if (!is_known && plan->n_vectors < VECTORS_MAX)
                plan->vectors[plan->n_vectors++] = value;
        }
    }
}

/* ---- the region */

enum { RELAY_CORES = 2 * RELAY_PRODUCTS + 1 };
typedef enum RelayRole { RELAY_IS_FIRST, RELAY_IS_LAST, RELAY_IS_ACROSS, RELAY_ROLES } RelayRole;
typedef bool RelayAdd(RelayPlan *plan, Value *core, const char **why);

static bool relay_computes(const Region *region, const Value *held) {
    for (size_t i = 0; i < region->values.n; i++)
        if (region->values.at[i] == held && op_info(held->op)->class_ == OPCLASS_POINTWISE)
            return true;
    return false;
}

static RelayRole relay_role(const Region *region, const Value *core) {
    const Value *held = core->in[0];
    if (relay_computes(region, held))
        return RELAY_IS_LAST;
    const Value *turned = value_turned(held);
    return turned && relay_computes(region, turned) ? RELAY_IS_ACROSS : RELAY_IS_FIRST;
}

bool relay_goes_across(const Region *region) {
    for (size_t i = 0; i < region->cores.n; i++)
        if (relay_role(region, region->cores.at[i]) == RELAY_IS_ACROSS)
            return true;
    return false;
}

bool relay_plan(const Graph *graph, const Region *region, const Target *target, RelayPlan *plan,
                const char **why) {
    *plan = (RelayPlan){.graph = graph, .region = region, .target = target};
    *why = "a relay has one or two first, one or two last products, and perhaps one across";
    int n[RELAY_ROLES] = {0};
    RelayRole role[RELAY_CORES];
    if (region->kind != TEMPLATE_RELAY || region->cores.n > RELAY_CORES)
        return false;
    for (size_t i = 0; i < region->cores.n; i++) {
        role[i] = relay_role(region, region->cores.at[i]);
        n[role[i]]++;
    }
    if (n[RELAY_IS_FIRST] < 1 || n[RELAY_IS_FIRST] > RELAY_PRODUCTS || n[RELAY_IS_LAST] < 1 ||
        n[RELAY_IS_LAST] > RELAY_PRODUCTS)
        return false;
    static RelayAdd *const add[RELAY_ROLES] = {relay_first, relay_last, relay_across};
    for (int of = 0; of < RELAY_ROLES; of++)
        for (size_t i = 0; i < region->cores.n; i++)
            if (role[i] == (RelayRole)of && !add[of](plan, region->cores.at[i], why))
                return false;
    *why = "an output is computed of no last product";
    if (plan->n_outputs != region->outputs.n)
        return false;
    relay_between(plan);
    *why = "what lies between is computed of the first products element by element";
    for (size_t i = 0; i < plan->between.region->values.n; i++)
        if (op_info(plan->between.region->values.at[i]->op)->class_ == OPCLASS_REDUCTION)
            return false;
    if (plan->has_across) {
        relay_find_kept(plan);
        relay_find_vectors(plan);
        *why = "a product across needs all of its rows seen by some tile, as dims alone say";
        if (!band_sees_columns(graph->dims, &plan->band, plan->first[0].m, plan->first[0].n))
            return false;
    }
    for (int i = 0; i < plan->n_first; i++)
        plan->first_from[i] = relay_bring(plan, &plan->first[i], false);
    for (int i = 0; i < plan->n_last; i++)
        plan->last_from[i] = relay_bring(plan, &plan->last[i], true);
    *why = NULL;
    return true;
}
