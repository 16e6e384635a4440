/* A softmax in parts whose weights are multiplied with something before they are rounded: dropout, masks.
 *
 * Random numbers come in fours, neighbours along a row, of which two lanes have a pair each, in both of their
 * rows. So a lane works out the four of one of its rows, and two lanes tell each other: each number is worked
 * out once. (4 x 16 heads of 1024 x 64, H200: 198 us where each lane works out both of its rows'.) */
#include "codegen/templates/chain_stream.h"

enum { WEIGH_FOUR = LOWER_WORDS, WEIGH_GROUPS = 4 /* at a time */ };

const Value *chain_random(const ChainPlan *plan) {
    const Region *part = plan->weighed.region;
    const Value *found = NULL;
    for (size_t i = 0; part && i < part->values.n; i++) {
        const Value *value = part->values.at[i];
        if (op_info(value->op)->class_ != OPCLASS_RANDOM)
            continue;
        if (found || value->op != OP_uniform || !value_same_dims(value, plan->softmax.share))
            return NULL;
        found = value;
    }
    bool in_fours = found && dim_divisor(plan->graph->dims, found->dims[found->rank - 1]) % WEIGH_FOUR == 0;
    return in_fours ? found : NULL;
}

/* The numbers of a group of columns, for both rows of the lane. `fragment` begins with the group. */
static void weigh_numbers(Stream *s, const MatmulFragment *fragment, const MatmulTile *tile,
                          const KExpr *group) {
    Builder *b = s->b;
    const Value *random = s->plan->weighed.core[1];
    const KExpr *is_odd =
        k_let_expr(b, "is_odd", k_eq(b, k_mod(b, k_special(b, SPECIAL_LANE), k_i32(b, 2)), k_i32(b, 1)));
    const KExpr *row =
        k_add(b, fragment->row, k_select(b, is_odd, k_i32(b, fragment->half_rows), k_i32(b, 0)));
    const KExpr *col = k_sub(b, fragment->col, k_select(b, is_odd, k_i32(b, 2), k_i32(b, 0)));
    const KExpr *coords[RANK_MAX];
    const KVar *word[WEIGH_FOUR];
    int rank = random->rank;
    for (int i = 0; i < rank; i++)
        coords[i] = i == rank - 2 ? row : i == rank - 1 ? col : tile->batch[i];
    lower_random_four(s->weighed, random, coords, word);
    for (int j = 0; j < 2; j++) {
        const KExpr *low = k_var(b, word[j]), *high = k_var(b, word[j + 2]);
        const KExpr *told = k_let_expr(b, "told", k_shuffle_xor(b, k_select(b, is_odd, low, high), 1));
        const KExpr *first = k_select(b, is_odd, told, low), *second = k_select(b, is_odd, high, told);
        const KExpr *at = k_add(b, k_mul(b, group, k_i32(b, 2 * STREAM_HALVES)), k_i32(b, j));
        k_set_elem(b, s->random, at, lower_random_number(b, first));
        k_set_elem(b, s->random, k_add(b, at, k_i32(b, 2)), lower_random_number(b, second));
    }
}

void stream_weigh(Stream *s, const MatmulFragment *fragment, const MatmulTile *tile) {
    Builder *b = s->b;
    const MatmulPlan *plan = &s->plan->weighed;
    const Value *weighed = s->plan->softmax.weighed;
    if (!s->weighed)
        return;
    if (!s->random) {
        matmul_epilogue_hold(b, plan, s->weighed, fragment, tile->batch, NULL, weighed);
        return;
    }
    int groups = fragment->groups % WEIGH_GROUPS ? 1 : WEIGH_GROUPS;
    MatmulFragment some = *fragment;
    some.accumulator[1] = s->random;
    some.block_groups = fragment->groups;
    some.groups = groups;
    Epilogue *e = matmul_pack_begin(b, plan, s->weighed, &some, tile->batch, NULL);
    const KExpr *piece =
        k_for_begin(b, "piece", k_i32(b, 0), k_i32(b, fragment->groups / groups), 1, UNROLL_FULL);
    some.first_group = k_mul(b, piece, k_i32(b, groups));
    const KExpr *group = k_for_begin(b, "group", k_i32(b, 0), k_i32(b, groups), 1, UNROLL_FULL);
    MatmulFragment one = some;
    group = k_add(b, some.first_group, group);
    one.col = k_add(b, fragment->col, k_mul(b, group, k_i32(b, fragment->group_cols)));
    weigh_numbers(s, &one, tile, group);
    k_end(b);
    some.col = k_add(b, fragment->col, k_mul(b, some.first_group, k_i32(b, fragment->group_cols)));
    matmul_pack_hold(e, &some, weighed);
    k_end(b);
    matmul_pack_end(e);
}
