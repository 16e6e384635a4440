/* Two operands of a product whose rows do not start at 16 bytes are copied by one kernel, one behind
 * the other:
 *
 *     y = x @ w                                    x: bf16[333, 777]   w: bf16[777, 555]
 * ->  p = concat(pad(x), pad(w), axis=0)           bf16[1110, 832]
 *     y = p[0:333, 0:777] @ p[333:1110, 0:555]
 *
 * A launch is saved, where each element is asked for twice, of which one load is none. Large ones have each
 * their own: on an H100 333 x 777 x 555 took 11.3 us with two copies and 9.4 with one, 999 x 1001 x 1003 18.7
 * and 16.2, 4097 x 1023 x 1025 35.9 and 33.3, but 8191 cubed 1705 and 1756. Nor are those joined that
 * something else reads: it may share the copy. */
#include "passes/realign.h"

/* Elements of a row of the copy: whole pieces of either operand's. */
static int64_t joined_row(Value *const in[2]) {
    int64_t row = 0;
    for (int i = 0; i < 2; i++) {
        const Value *base = realign_base(in[i]);
        int64_t own = base->dims[base->rank - 1]->value + realign_missing(base);
        row = own > row ? own : row;
    }
    return row;
}

bool realign_joins(const Rewrite *rewrite, Value *const in[2]) {
    enum { MOST = 1 << 24 }; /* elements */
    const Value *base[2];
    double rows = 0;
    for (int i = 0; i < 2; i++) {
        base[i] = realign_base(in[i]);
        if (realign_is_turned(in[i], i) || realign_is_scattered(rewrite->graph, in[i], i) ||
            rewrite_uses(rewrite, base[i]) > 1)
            return false;
    }
    int last = base[0]->rank - 1;
    if (base[0] == base[1] || base[0]->dtype != base[1]->dtype || base[0]->rank != base[1]->rank)
        return false;
    for (int i = 0; i < last - 1; i++)
        if (base[0]->dims[i] != base[1]->dims[i])
            return false;
    for (int i = 0; i < 2; i++)
        rows += realign_count(base[i]) / (double)base[i]->dims[last]->value;
    return rows * (double)joined_row(in) <= MOST;
}

/* What lies in `joined` from row `first` of a base; its transpose, where the operand is that. */
static Value *joined_part(Rewrite *rewrite, Value *joined, const Dim *first, Value *operand) {
    Value *base = realign_base(operand), *part = realign_part(rewrite, joined, base, first);
    return part && operand != base ? build_like(rewrite, operand, &part) : part;
}

bool realign_both(Rewrite *rewrite, Value *in[2]) {
    Value *base[2] = {realign_base(in[0]), realign_base(in[1])}, *padded[2], *part[2];
    int rows = base[0]->rank - 2, last = rows + 1;
    int64_t row = joined_row(in);
    for (int i = 0; i < 2; i++)
        padded[i] = realign_padded(rewrite, base[i], row - base[i]->dims[last]->value);
    Attr attrs[OP_MAX_ATTRS] = {{.i = rows}};
    Value *joined = padded[0] && padded[1] ? graph_append(rewrite->graph, OP_concat, padded, 2, attrs,
                                                          base[0]->span, rewrite->pass->diags)
                                           : NULL;
    const Dim *first[2] = {dim_const(rewrite->graph->dims, 0), base[0]->dims[rows]};
    for (int i = 0; i < 2; i++) {
        part[i] = joined ? joined_part(rewrite, joined, first[i], in[i]) : NULL;
        if (!part[i])
            return false;
    }
    for (int i = 0; i < 2; i++) {
        pass_decide(rewrite->pass, "realign", false, part[i], base[i], "rows that start at 16 bytes",
                    "rows of %lld bytes cannot be read 16 bytes at a time, so one kernel copies them, and "
                    "those of the other operand, to longer ones first",
                    (long long)(base[i]->dims[last]->value * dtype_bits(base[i]->dtype) / 8));
        in[i] = part[i];
    }
    return true;
}

bool realign_is_joined(const Value *copy) {
    return copy->op == OP_concat && copy->n_in == 2 && copy->in[0]->op == OP_pad && copy->in[1]->op == OP_pad;
}
