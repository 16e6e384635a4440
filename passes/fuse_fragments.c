/* Whether the first operand of a product is computed where it is multiplied
 * (codegen/templates/wgmma_fragments.c) or by a kernel of its own.
 *
 *     stored     bytes written, and read where nothing else would read them / rate + launch
 *     fragments  shares of the product's time, of a round that is not full the whole
 *
 * The multiplying warps compute the operand's elements for each 256 columns of the result again, beside the
 * matrix instructions. What is added and multiplied they mostly hide (relu(x)^2 before 8192x2048x8192: 362 us
 * where the product takes 345); two functions of each element keep their unit as busy as those columns keep
 * the matrix unit (silu before 16384x896x4096: 273 us where the product takes 160, before 8192x2048x2048 126
 * where it takes 95). */
#include "passes/fuse.h"
#include "passes/product.h"

#include <math.h>

enum {
    FRAGMENTS_BITS = 16, /* the widest that the operand is computed from */
    FRAGMENTS_FREE = 2,  /* scalar operations an element that matrix instructions hide */
    FRAGMENTS_PLAIN = 3, /* those of an element that is computed without functions */
    FRAGMENTS_LINE = 16, /* bytes that rows are a multiple of */
    FRAGMENTS_TILE = 128 /* rows and columns of a tile, where they are few */
};

static const double fragments_share = 0.08, fragments_function_share = 0.15, fragments_launch = 3e-6;

typedef struct Cone {
    const Value *operand;
    const Value *stream; /* what has the operand's elements in memory; NULL: not met yet */
    bool is_bad;
} Cone;

/* A value in memory: the stream, or what repeats over the operand. */
static void cone_leaf(Cone *cone, const Value *value) {
    if (!value_same_dims(value, cone->operand))
        return;
    if (cone->stream && cone->stream != value)
        cone->is_bad = true;
    cone->stream = value;
}

/* Whether a walk meets a value for the first time: what is used often is looked at once. */
static bool cone_is_new(Fuse *fuse, const Value *value) {
    bool is_new = fuse->stamps[value->id] != fuse->stamp;
    fuse->stamps[value->id] = fuse->stamp;
    return is_new;
}

/* Memory whose rows are joined, as a product of [B, S, K] has them. */
static bool cone_is_joined(const Fuse *fuse, const Value *value) {
    if (value->op != OP_reshape || value->rank < 2)
        return false;
    const Value *base = value->in[0];
    return fuse_is_base(fuse, base) && base->rank >= 2 &&
           base->dims[base->rank - 1] == value->dims[value->rank - 1];
}

static void cone_walk(Fuse *fuse, Cone *cone, const Value *value) {
    if (fuse_node(fuse, value)->free || !cone_is_new(fuse, value))
        return;
    if (fuse_is_base(fuse, value) || cone_is_joined(fuse, value)) {
        cone_leaf(cone, value);
        return;
    }
    bool is_repeated = op_is_view(value->op) && !value_same_dims(value->in[0], cone->operand);
    if (!value_is_pointwise(value) && !is_repeated) {
        cone->is_bad = true;
        return;
    }
    for (int i = 0; i < value->n_in && !cone->is_bad; i++)
        cone_walk(fuse, cone, value->in[i]);
}

/* Whether a statistic of the stream is among what the operand is computed from. */
static bool cone_has_statistic(Fuse *fuse, const Value *value) {
    if (value->op == OP_input || !cone_is_new(fuse, value))
        return false;
    if (value_class(value) == OPCLASS_REDUCTION)
        return true;
    for (int i = 0; i < value->n_in; i++)
        if (cone_has_statistic(fuse, value->in[i]))
            return true;
    return false;
}

const Value *fuse_stream(Fuse *fuse, const Value *operand) {
    Cone cone = {.operand = operand};
    fuse->stamp++;
    cone_walk(fuse, &cone, operand);
    return cone.is_bad ? NULL : cone.stream;
}

/* How much longer than its share a product takes whose tiles do not fill the last round. */
static double fragments_waste(const Fuse *fuse, const Value *matmul) {
    double rows = (double)fuse_count(fuse, matmul->rank - 1, matmul->dims);
    double columns = (double)fuse_extent(fuse, matmul->dims[matmul->rank - 1]);
    double tiles = ceil(rows / FRAGMENTS_TILE) * ceil(columns / FRAGMENTS_TILE), sms = fuse->limits->sm_count;
    return ceil(tiles / sms) * sms / tiles;
}

bool fuse_fragments(Fuse *fuse, const Value *matmul, FragmentsEstimate *estimate) {
    const FuseLimits *limits = fuse->limits;
    const Value *operand = matmul->in[0];
    *estimate = (FragmentsEstimate){0};
    if (!product_computes_operand(limits, matmul))
        return false;
    const Value *stream = fuse_stream(fuse, operand);
    if (!stream || dtype_bits(stream->dtype) > FRAGMENTS_BITS)
        return false;
    const Dim *row = operand->dims[operand->rank - 1];
    if (dim_divisor(fuse->graph->dims, row) * dtype_bits(stream->dtype) % (8 * FRAGMENTS_LINE) != 0)
        return false;
    double elements = (double)fuse_count(fuse, operand->rank, operand->dims);
    double columns = (double)fuse_extent(fuse, matmul->dims[matmul->rank - 1]);
    fuse->stamp++;
    bool is_read = cone_has_statistic(fuse, operand);
    double bytes = FRAGMENTS_BITS / 8.0 + (is_read ? 0 : dtype_bits(stream->dtype) / 8.0);
    estimate->stored = elements * bytes / limits->memory_bytes_per_second + (is_read ? 0 : fragments_launch);
    double operations = (double)fuse_cone_cost(fuse, operand, 1 << 20) - FRAGMENTS_FREE;
    double share = fragments_share * (operations > 1 ? operations : 1);
    if (operations > FRAGMENTS_PLAIN)
        share = fragments_function_share * operations;
    estimate->fragments =
        share * fragments_waste(fuse, matmul) * 2 * elements * columns / limits->tensor_flops;
    return estimate->fragments < estimate->stored || fuse_node(fuse, matmul)->takes_rows;
}
