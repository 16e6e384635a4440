/* What things cost: bytes moved and scalar operations, with unknown dims taken as 4096. Only comparisons use
 * these figures; nothing is wrong where they are. */
#include "passes/fuse.h"
#include "ir/base/checked.h"

bool fuse_is_idle(const Region *region) {
    const Value *a = region->cores.at[0]->in[0];
    bool is_idle = dim_is(a->dims[a->rank - 1], 0);
    for (int i = 0; i < region->rank; i++)
        is_idle |= dim_is(region->dims[i], 0);
    return is_idle;
}

int64_t fuse_extent(const Fuse *fuse, const Dim *dim) {
    return product_extent(fuse->graph, dim);
}

int64_t fuse_count(const Fuse *fuse, int rank, const Dim *const *dims) {
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        if (!checked_mul(count, fuse_extent(fuse, dims[i]), &count))
            return INT64_MAX / 64;
    return count < INT64_MAX / 64 ? count : INT64_MAX / 64;
}

int64_t fuse_bytes(const Fuse *fuse, const Value *value) {
    int64_t count = fuse_count(fuse, value->rank, value->dims);
    int bits = dtype_bits(value->dtype);
    return bits >= 8 ? count * (bits / 8) : ceil_div(count * bits, 8);
}

int64_t fuse_op_cost(const Value *value) {
    switch (value->op) {
    case OP_uniform: return 40;
    case OP_normal: return 60;
    case OP_exp:
    case OP_exp2:
    case OP_log:
    case OP_log2:
    case OP_rsqrt:
    case OP_sqrt:
    case OP_reciprocal:
    case OP_sigmoid:
    case OP_div:
    case OP_tanh: return 4;
    case OP_expm1:
    case OP_log1p:
    case OP_log1pexp:
    case OP_erf:
    case OP_sin:
    case OP_cos:
    case OP_tan:
    case OP_atan2:
    case OP_pow:
    case OP_mod: return 16;
    case OP_concat:
    case OP_pad:
    case OP_gather: return 2;
    default: break;
    }
    return value_is_pointwise(value) ? 1 : value_is_heavy(value) ? FUSE_INLINE_REDUCTION : 0;
}

static int64_t cost_walk(Fuse *fuse, const Value *value, int64_t limit, bool by_size, int64_t sum) {
    const FuseNode *node = fuse_node(fuse, value);
    if (node->free || value->op == OP_input || fuse->stamps[value->id] == fuse->stamp || sum > limit)
        return sum;
    fuse->stamps[value->id] = fuse->stamp;
    sum += by_size ? 1 : fuse_op_cost(value);
    for (int i = 0; i < value->n_in; i++)
        if (!fuse_home(fuse, value->in[i]))
            sum = cost_walk(fuse, value->in[i], limit, by_size, sum);
    return sum;
}

int64_t fuse_cone_cost(Fuse *fuse, const Value *value, int64_t limit) {
    fuse->stamp++;
    return cost_walk(fuse, value, limit, false, 0);
}

int64_t fuse_cone_size(Fuse *fuse, const Value *value, int64_t limit) {
    fuse->stamp++;
    return cost_walk(fuse, value, limit, true, 0);
}

bool fuse_is_slight(const Fuse *fuse, const Value *in, const Value *value) {
    enum { SMALL = 16 };
    const FuseNode *node = fuse_node(fuse, in);
    int64_t most = fuse_bytes(fuse, value) / SMALL, bytes = fuse_bytes(fuse, in);
    bool is_stored = in->op == OP_input || (node->home && node->home != fuse_home(fuse, value));
    if (is_stored || bytes > most)
        return bytes <= most;
    if (node->home || node->n_leaves > fuse->limits->max_inputs)
        return false;
    for (int i = 0; i < node->n_leaves; i++)
        bytes += fuse_bytes(fuse, node->leaves[i]);
    return bytes <= most;
}
