/* Sums that are matrix products: of a batch of products, along axes of the batch, and of elements that are
 * multiplied one by one though each is wanted for many others.
 *
 *     y = sum(x @ w, over=0)                           x: [H, M, K], w: [H, K, N]
 * ->  y = reshape(transpose(x, [1, 0, 2]), [M, H * K]) @ reshape(w, [H * K, N])
 *
 *     y = sum(a * b, over=2)                           a: [M, 1, K], b: [1, N, K]
 * ->  y = reshape(a, [M, K]) @ transpose(reshape(b, [N, K]), [1, 0])
 *
 * The first has the sum in the accumulators of one product instead of in memory, H products large: 16 x 2048
 * x 64 x 1024 in bf16 are expected to take 12 us instead of 33, and the sum's kernel. Its operands are views
 * mostly, as an axis of a product may lie in two parts (realign.c); else they are copied, where that is less
 * than what the products would take. A product of few columns, of what other products or reductions give, as
 * of a softmax, is left alone: one kernel may do both.
 *
 * The second reads each element once for a tile instead of once for each that it meets. Elements of 16 bits
 * are multiplied exactly either way, and added up in f32. Few rows, columns or k are left as they are, since
 * other passes bring products of those into that form (outer.c, groups.c), and so is what windows repeat. */
#include <math.h>

#include "passes/realign.h"

enum {
    CONTRACT_LEAST = 16,  /* rows, columns and k of a product that elements become */
    CONTRACT_ACROSS = 32, /* where neighbours in memory are of different matrices, and are copied apart */
    CONTRACT_SEARCH = 64, /* Values looked at for windows */
};

/* What an axis of an operand is to the product. */
typedef enum ContractRole {
    ROLE_BATCH,
    ROLE_OWN, /* M, or N: the other operand has not got it */
    ROLE_SUMMED,
    ROLE_NONE, /* of one element, in what is summed */
    ROLE_COUNT
} ContractRole;

/* An operand: its axes by role, and which axis of what is summed each of them is. */
typedef struct ContractSide {
    Value *value;
    int n[ROLE_COUNT], axis[ROLE_COUNT][RANK_MAX], place[ROLE_COUNT][RANK_MAX];
} ContractSide;

static void contract_add(ContractSide *side, ContractRole role, int axis, int place) {
    side->axis[role][side->n[role]] = axis;
    side->place[role][side->n[role]++] = place;
}

/* The extents of a role's axes as one; NULL where that is too large. */
static const Dim *contract_joined(const Rewrite *rewrite, const ContractSide *side, ContractRole role) {
    const Dim *dims[RANK_MAX];
    for (int i = 0; i < side->n[role]; i++)
        dims[i] = side->value->dims[side->axis[role][i]];
    return dims_product(rewrite->graph->dims, dims, side->n[role]);
}

/* The operand below transposes, as it lies in memory mostly. */
static void contract_unturn(ContractSide *side) {
    for (; side->value->op == OP_transpose; side->value = side->value->in[0])
        for (int role = 0; role < ROLE_COUNT; role++)
            for (int i = 0; i < side->n[role]; i++)
                side->axis[role][i] = side->value->attrs[0].ints[side->axis[role][i]];
}

/* Brings summed axes, which both operands have in one order, to that in which an operand has them. */
static void contract_arrange(ContractSide sides[2], int by) {
    for (int i = 1; i < sides[by].n[ROLE_SUMMED]; i++)
        for (int k = i; k > 0 && sides[by].axis[ROLE_SUMMED][k - 1] > sides[by].axis[ROLE_SUMMED][k]; k--)
            for (int side = 0; side < 2; side++) {
                int *axis = sides[side].axis[ROLE_SUMMED], later = axis[k];
                axis[k] = axis[k - 1];
                axis[k - 1] = later;
            }
}

static int contract_last(int n, const int *axes) {
    int last = -1;
    for (int i = 0; i < n; i++)
        last = axes[i] > last ? axes[i] : last;
    return last;
}

/* The operand as matrices: [.., own, summed], or the second one as [.., summed, own]. They are joined in the
 * order in which they lie, and exchanged behind that, which is the form of operands that copies know. */
static Value *contract_matrices(Rewrite *rewrite, const ContractSide *side, bool is_second) {
    bool own_last = contract_last(side->n[ROLE_OWN], side->axis[ROLE_OWN]) >
                    contract_last(side->n[ROLE_SUMMED], side->axis[ROLE_SUMMED]);
    ContractRole order[ROLE_COUNT] = {ROLE_BATCH, own_last ? ROLE_SUMMED : ROLE_OWN,
                                      own_last ? ROLE_OWN : ROLE_SUMMED, ROLE_NONE};
    const Dim *dims[RANK_MAX];
    int perm[RANK_MAX], n = 0, rank = 0;
    for (int k = 0; k < ROLE_COUNT; k++)
        for (int i = 0; i < side->n[order[k]]; i++)
            perm[n++] = side->axis[order[k]][i];
    for (; rank < side->n[ROLE_BATCH]; rank++)
        dims[rank] = side->value->dims[side->axis[ROLE_BATCH][rank]];
    for (int k = 1; k <= 2; k++)
        dims[rank++] = contract_joined(rewrite, side, order[k]);
    if (!dims[rank - 2] || !dims[rank - 1])
        return NULL;
    Value *arranged = build_transpose(rewrite, side->value, perm, side->value);
    Value *joined = build_reshape(rewrite, arranged, rank, dims, side->value);
    return own_last == is_second ? joined : build_turned(rewrite, joined, side->value);
}

/* The product's result with the axes that the sum leaves apart and in their order, under the sum's dims. The
 * batch is that of `leader`, the operand that has all of it. */
static Value *contract_result(Rewrite *rewrite, const ContractSide sides[2], int leader, Value *product,
                              const Value *sum) {
    const Dim *dims[RANK_MAX];
    int at[RANK_MAX], perm[RANK_MAX], rank = 0, n = 0;
    const ContractSide *parts[] = {&sides[leader], &sides[0], &sides[1]};
    for (int k = 0; k < 3; k++) {
        ContractRole role = k ? ROLE_OWN : ROLE_BATCH;
        for (int i = 0; i < parts[k]->n[role]; i++) {
            at[rank] = parts[k]->place[role][i];
            dims[rank] = sum->in[0]->dims[at[rank]];
            rank++;
        }
    }
    for (int place = 0; place < sum->in[0]->rank; place++)
        for (int i = 0; i < rank; i++)
            if (at[i] == place)
                perm[n++] = i;
    Value *apart = build_reshape(rewrite, product, rank, dims, sum);
    Value *turned = build_transpose(rewrite, apart, perm, sum);
    return build_reshape(rewrite, turned, sum->rank, (const Dim *const *)sum->dims, sum);
}

/* ---- a batch of products ------------------------------------------------------------------------------ */

/* The product that is summed, perhaps in another order of axes: of each of its axes the place there. */
static Value *contract_product(const Rewrite *rewrite, const Value *sum, int *place) {
    Value *value = sum->in[0];
    int axes[RANK_MAX]; /* of `value`, by place */
    for (int i = 0; i < value->rank; i++)
        axes[i] = i;
    while (value->op == OP_transpose && rewrite_is_free(rewrite, value)) {
        for (int i = 0; i < value->rank; i++)
            axes[i] = value->attrs[0].ints[axes[i]];
        value = value->in[0];
    }
    for (int i = 0; i < value->rank; i++)
        place[axes[i]] = i;
    bool is_taken = value->op == OP_matmul && value->dtype == sum->dtype && rewrite_is_free(rewrite, value);
    return is_taken ? value : NULL;
}

/* Sorts an operand's axes; false where one that is summed is not whole in it. */
static bool contract_sort(const Value *sum, const Value *product, const int *place, bool is_second,
                          ContractSide *side) {
    int rank = product->rank, back = rank - side->value->rank;
    for (int i = 0; i < rank - 2; i++) {
        bool is_summed = value_reduces(sum, place[i]);
        if (is_summed && (i < back || side->value->dims[i - back] != product->dims[i]))
            return false;
        if (i >= back)
            contract_add(side, is_summed ? ROLE_SUMMED : ROLE_BATCH, i - back, place[i]);
    }
    int rows = side->value->rank - 2;
    contract_add(side, ROLE_OWN, is_second ? rows + 1 : rows, place[is_second ? rank - 1 : rank - 2]);
    contract_add(side, ROLE_SUMMED, is_second ? rows : rows + 1, -1);
    return !value_reduces(sum, side->place[ROLE_OWN][0]);
}

/* Whether a product and what its operand comes of may be one kernel's: then it stays with that. What has more
 * columns than this is not. */
static bool contract_has_company(Rewrite *rewrite, const Value *product) {
    const FuseLimits *limits = rewrite->pass->options->limits;
    const Dim *columns = product->dims[product->rank - 1];
    bool is_wide = limits && dim_is_const(columns) && columns->value > limits->chain_columns_max;
    return !is_wide &&
           (rewrite_is_heavy(rewrite, product->in[0]) || rewrite_is_heavy(rewrite, product->in[1]));
}

/* Seconds of copies that operands need as matrices, and did not in the product of a batch. */
static double contract_copies(const Graph *graph, const Value *product, Value *const in[2]) {
    double copies = 0;
    for (int i = 0; i < 2; i++)
        if (realign_is_scattered(graph, in[i], i) && !realign_is_scattered(graph, product->in[i], i))
            copies += realign_copy_seconds(in[i]);
    return copies;
}

/* The one product, with K in the order of the operand that makes for fewer copies; NULL where these take
 * longer than products in memory. */
static Value *contract_whole(Rewrite *rewrite, const Value *product, ContractSide sides[2]) {
    double least = realign_copy_seconds(product);
    Value *best[2] = {NULL, NULL};
    for (int by = 0; by < 2; by++) {
        contract_arrange(sides, by);
        Value *in[] = {contract_matrices(rewrite, &sides[0], false),
                       contract_matrices(rewrite, &sides[1], true)};
        double copies = in[0] && in[1] ? contract_copies(rewrite->graph, product, in) : INFINITY;
        if (best[0] ? copies >= least : copies > least)
            continue;
        best[0] = in[0];
        best[1] = in[1];
        least = copies;
    }
    return best[0] ? build_like(rewrite, product, best) : NULL;
}

static Value *contract_batch(Rewrite *rewrite, const Value *sum) {
    int place[RANK_MAX];
    const Value *product = contract_product(rewrite, sum, place);
    if (!product || rewrite_has_schedule(rewrite->graph, product) || contract_has_company(rewrite, product))
        return NULL;
    ContractSide sides[2] = {{.value = product->in[0]}, {.value = product->in[1]}};
    for (int i = 0; i < 2; i++) {
        if (!contract_sort(sum, product, place, i, &sides[i]))
            return NULL;
        contract_unturn(&sides[i]);
    }
    int leader = sides[1].n[ROLE_BATCH] > sides[0].n[ROLE_BATCH];
    Value *whole = contract_whole(rewrite, product, sides);
    if (!whole)
        return NULL;
    pass_decide(rewrite->pass, "contract", true, whole, NULL, NULL,
                "the sum over axes of a batch of products is one product, whose K has them too");
    return contract_result(rewrite, sides, leader, whole, sum);
}

/* ---- elements one by one ------------------------------------------------------------------------------ */

static bool contract_is_windowed(const Value *value, int *budget) {
    if (value->op == OP_window || --*budget < 0)
        return true;
    for (int i = 0; i < value->n_in && !value_is_heavy(value); i++)
        if (contract_is_windowed(value->in[i], budget))
            return true;
    return false;
}

/* Sorts the axes of what is multiplied; false where the sum is no product. */
static bool contract_sort_elements(const Value *sum, ContractSide sides[2]) {
    const Value *whole = sum->in[0];
    for (int i = 0; i < whole->rank; i++) {
        bool has[] = {value_varies(sides[0].value, whole, i), value_varies(sides[1].value, whole, i)};
        if (value_reduces(sum, i) && has[0] != has[1])
            return false;
        for (int k = 0; k < 2; k++) {
            int axis = i - (whole->rank - sides[k].value->rank);
            ContractRole role = !has[k]                 ? ROLE_NONE
                                : value_reduces(sum, i) ? ROLE_SUMMED
                                : has[1 - k]            ? ROLE_BATCH
                                                        : ROLE_OWN;
            if (axis >= 0)
                contract_add(&sides[k], role, axis, i);
        }
    }
    return true;
}

/* The axis of what is summed that is the last of a role's. */
static int contract_place(const ContractSide *side, ContractRole role) {
    return contract_last(side->n[role], side->place[role]);
}

/* Whether an operand's joined axes are enough for a product, as far as their extents are known. */
static bool contract_is_long(const Rewrite *rewrite, const ContractSide *side) {
    bool is_across = contract_place(side, ROLE_BATCH) > contract_place(side, ROLE_OWN) &&
                     contract_place(side, ROLE_BATCH) > contract_place(side, ROLE_SUMMED);
    for (ContractRole role = ROLE_OWN; role <= ROLE_SUMMED; role++) {
        const Dim *dim = contract_joined(rewrite, side, role);
        int64_t least = is_across ? CONTRACT_ACROSS : CONTRACT_LEAST;
        if (!dim || !side->n[role] || (dim_is_const(dim) && dim->value < least))
            return false;
    }
    return true;
}

static bool contract_is_16bit(const Value *value) {
    return value->dtype == DTYPE_BF16 || value->dtype == DTYPE_F16;
}

/* The factors of the elements, both of 16 bits of one type, or both f32; false where that is not so. */
static bool contract_factors(Rewrite *rewrite, const Value *mul, ContractSide sides[2]) {
    for (int i = 0; i < 2; i++) {
        Value *value = mul->in[i];
        bool is_widened = value->op == OP_cast && contract_is_16bit(value->in[0]);
        sides[i].value = is_widened && value->dtype == DTYPE_F32 ? value->in[0] : value;
        if (sides[i].value->dtype != DTYPE_F32 && !contract_is_16bit(sides[i].value))
            return false;
    }
    bool are_alike = sides[0].value->dtype == sides[1].value->dtype;
    for (int i = 0; i < 2 && !are_alike; i++)
        sides[i].value = build_cast(rewrite, sides[i].value, DTYPE_F32, mul);
    return true;
}

static Value *contract_elements(Rewrite *rewrite, const Value *sum) {
    const Value *mul = sum->in[0];
    ContractSide sides[2] = {{.value = NULL}, {.value = NULL}};
    if (mul->op != OP_mul || mul->dtype != DTYPE_F32 || !rewrite_is_free(rewrite, mul) ||
        !contract_factors(rewrite, mul, sides) || !contract_sort_elements(sum, sides))
        return NULL;
    for (int i = 0; i < 2; i++) {
        int budget = CONTRACT_SEARCH;
        if (!contract_is_long(rewrite, &sides[i]) || contract_is_windowed(mul->in[i], &budget))
            return NULL;
        contract_unturn(&sides[i]);
    }
    if (rewrite_has_schedule(rewrite->graph, mul))
        return NULL;
    if (contract_place(&sides[0], ROLE_OWN) > contract_place(&sides[1], ROLE_OWN)) { /* columns come last */
        ContractSide second = sides[0];
        sides[0] = sides[1];
        sides[1] = second;
    }
    contract_arrange(sides, 0);
    Value *rows = contract_matrices(rewrite, &sides[0], false);
    Value *product = build_matmul(rewrite, rows, contract_matrices(rewrite, &sides[1], true), sum);
    if (!product)
        return NULL;
    pass_decide(rewrite->pass, "contract", true, product, NULL, NULL,
                "the sum of elements that are each multiplied by many others is a matrix product");
    return contract_result(rewrite, sides, 0, product, sum);
}

static Value *contract_rule(Rewrite *rewrite, Value *value) {
    if (value->op != OP_sum)
        return value;
    Value *made = contract_batch(rewrite, value);
    made = made ? made : contract_elements(rewrite, value);
    return made ? made : value;
}

bool pass_contract(Pass *pass, Graph *graph) {
    return !pass->options->no_fusion && rewrite_graph(pass, graph, contract_rule);
}
