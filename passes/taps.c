/* Reductions of windows, as pools and depthwise convolutions are: kernels go through the taps of runs of
 * channels (movement_reduce.c brings the taps in front). What has an element a channel and tap and lies
 * otherwise, as the weights do, is copied with the channels innermost, so that it too is read in vectors:
 *
 *     w: bf16[96, 3, 3]     ->     p = pad(transpose(w, [1, 2, 0]), 0), a kernel of its own, and p as a view
 *
 * where results are so many that it pays: MobileNetV2 of one image took 229 us with 17 such copies and 167
 * without, of 128 images 1514 and 2007 (H200); of 16 x 400 x 256 with 31 taps along time 100 of 371 us of a
 * model were such a convolution's without. */
#include "ir/view.h"
#include "passes/fuse.h"
#include "passes/realign.h"

enum { TAPS_COPIED_MOST = 1 << 20 /* elements of weights */ };

/* Seconds that vectors save for each tap of a result; a copy's, with what the others wait for it. */
static const double taps_product = 0.2e-12, taps_copy = 3.6e-6;

/* An operand of what is reduced, whose axes may be in another order there: axis i of the reduction's operand
 * is its axis perm[i]. NULL: the same. */
static int taps_axis(const Value *reduction, const Value *value, const int *perm, int axis) {
    return (perm ? perm[axis] : axis) - (reduction->in[0]->rank - value->rank);
}

/* Whether an operand has an element a tap, and neighbours that are none in memory. */
static bool taps_lies_otherwise(Rewrite *rewrite, const Value *reduction, Value *value, const int *perm) {
    int last = taps_axis(reduction, value, perm, reduction->in[0]->rank - 1);
    bool varies = false;
    for (int i = 0; i < reduction->attrs[0].axes.n; i++) {
        int axis = taps_axis(reduction, value, perm, reduction->attrs[0].axes.at[i]);
        varies |= axis >= 0 && !dim_is(value->dims[axis], 1);
    }
    double count = realign_count(value);
    if (!varies || last < 0 || dim_is(value->dims[last], 1) || count == 0 || count > TAPS_COPIED_MOST)
        return false;
    View view = view_of(rewrite->graph, value, view_is_input, NULL);
    return view.base->op == OP_input && !dim_is(view.strides[last], 1);
}

/* A copy of the operand in the reduction's order; as a view, in its own. */
static Value *taps_copied(Rewrite *rewrite, const Value *reduction, Value *value, const int *perm) {
    if (!perm)
        return realign_copied(rewrite, value, 0);
    int rank = reduction->in[0]->rank, back[RANK_MAX];
    const Dim *dims[RANK_MAX];
    for (int i = 0; i < rank; i++) {
        int axis = i - (rank - value->rank);
        dims[i] = axis < 0 ? dim_const(rewrite->graph->dims, 1) : value->dims[axis];
        back[perm[i]] = i;
    }
    Value *turned = build_transpose(rewrite, build_reshape(rewrite, value, rank, dims, value), perm, value);
    Value *copy = realign_copied(rewrite, turned, 0);
    return copy ? build_transpose(rewrite, copy, back, value) : NULL;
}

/* What is reduced, with such copies. */
static Value *taps_operand(Rewrite *rewrite, const Value *reduction, Value *value, const int *perm) {
    Value *in[OP_MAX_ARITY];
    bool is_changed = false;
    if (value->op == OP_transpose && !perm && value_is_pointwise(value->in[0])) {
        in[0] = taps_operand(rewrite, reduction, value->in[0], value->attrs[0].ints);
        return in[0] == value->in[0] ? value : build_like(rewrite, value, in);
    }
    if (!value_is_pointwise(value)) {
        bool is_copied = value->rank > 0 && taps_lies_otherwise(rewrite, reduction, value, perm);
        Value *copy = is_copied ? taps_copied(rewrite, reduction, value, perm) : NULL;
        if (copy)
            pass_decide(rewrite->pass, "realign", false, copy, value, "channels that lie side by side",
                        "its channels are read in vectors for each tap, so it is copied to that order first");
        return copy ? copy : value;
    }
    for (int i = 0; i < value->n_in; i++) {
        in[i] = taps_operand(rewrite, reduction, value->in[i], perm);
        is_changed |= in[i] != value->in[i];
    }
    return is_changed ? build_like(rewrite, value, in) : value;
}

static Value *taps_rule(Rewrite *rewrite, Value *value) {
    int n_reduced;
    if (!reduction_is_of_windows(value) || reduction_layout(value, &n_reduced) != REDUCTION_COLUMNS)
        return value;
    double products = realign_count(value->in[0]); /* 0: not known, as many as pay */
    if (products > 0 && products * taps_product < taps_copy)
        return value;
    Value *in[] = {taps_operand(rewrite, value, value->in[0], NULL)};
    return in[0] == value->in[0] ? value : build_like(rewrite, value, in);
}

bool pass_taps(Pass *pass, Graph *graph) {
    return !pass->options->no_fusion && rewrite_graph(pass, graph, taps_rule);
}
