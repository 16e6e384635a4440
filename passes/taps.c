/* Reductions of windows, as pools and depthwise convolutions are: kernels go through the taps of runs of
 * channels (movement_reduce.c brings the taps in front). What has an element a channel and tap and lies
 * otherwise, as the weights do, is copied with the channels innermost, so that it too is read in vectors:
 *
 *     w: bf16[96, 3, 3]     ->     p = pad(transpose(w, [1, 2, 0]), 0), a kernel of its own, and p as a view
 */
#include "ir/view.h"
#include "passes/fuse.h"
#include "passes/realign.h"

enum { TAPS_COPIED_MOST = 1 << 20 /* elements of weights */ };

static bool taps_is_input(void *context, const Value *value) {
    (void)context;
    return value->op == OP_input;
}

/* Whether an operand has an element a tap, and neighbours that are none in memory. */
static bool taps_lies_otherwise(Rewrite *rewrite, const Value *reduction, Value *value) {
    int shift = reduction->in[0]->rank - value->rank, last = value->rank - 1;
    bool varies = false;
    for (int i = 0; i < reduction->attrs[0].axes.n; i++) {
        int axis = reduction->attrs[0].axes.at[i] - shift;
        varies |= axis >= 0 && !dim_is(value->dims[axis], 1);
    }
    double count = realign_count(value);
    if (!varies || dim_is(value->dims[last], 1) || count == 0 || count > TAPS_COPIED_MOST)
        return false;
    View view = view_of(rewrite->graph, value, taps_is_input, NULL);
    return view.base->op == OP_input && !dim_is(view.strides[last], 1);
}

/* What is reduced, with such copies. */
static Value *taps_operand(Rewrite *rewrite, const Value *reduction, Value *value) {
    Value *in[OP_MAX_ARITY];
    bool is_changed = false;
    if (!value_is_pointwise(value)) {
        bool is_copied = value->rank > 0 && taps_lies_otherwise(rewrite, reduction, value);
        Value *copy = is_copied ? realign_copied(rewrite, value, 0) : NULL;
        if (copy)
            pass_decide(rewrite->pass, "realign", false, copy, value, "channels that lie side by side",
                        "its channels are read in vectors for each tap, so it is copied to that order first");
        return copy ? copy : value;
    }
    for (int i = 0; i < value->n_in; i++) {
        in[i] = taps_operand(rewrite, reduction, value->in[i]);
        is_changed |= in[i] != value->in[i];
    }
    return is_changed ? build_like(rewrite, value, in) : value;
}

static Value *taps_rule(Rewrite *rewrite, Value *value) {
    int n_reduced;
    if (!reduction_is_of_windows(value) || reduction_layout(value, &n_reduced) != REDUCTION_COLUMNS)
        return value;
    Value *in[] = {taps_operand(rewrite, value, value->in[0])};
    return in[0] == value->in[0] ? value : build_like(rewrite, value, in);
}

bool pass_taps(Pass *pass, Graph *graph) {
    return !pass->options->no_fusion && rewrite_graph(pass, graph, taps_rule);
}
