/* Whether the kernel of a product hosts the rows kernel that follows it (codegen/templates/wgmma_guest.c):
 * its idle warps take the rows as soon as they are stored; or one that reduces columns of what it reads too
 * (wgmma_guest_columns.c).
 *
 *     s = x @ w.T + r           region 0: matmul, writes s
 *     y = rmsnorm(s, over=-1)   region 1: rows, reads s   ->   the guest of region 0
 *
 * Two kernels cost what the second one moves and a launch. As a guest, rows are hidden behind the products
 * but for those of the last round of tiles, and slow these down a little:
 *
 *     two      bytes of all rows / rate + launch
 *     guest    clear + order, behind another kernel + bytes of the rows left over / rate + end
 *              + share of the bytes of all rows / rate + what the product's schedule loses that has a guest
 *
 * That is where rows keep up with the products: the idle warps of all SMs move a share of what memory could.
 * Fitted to an H200, M x N x K with an RMSNorm, two kernels -> guest, in turn and so equally warm: 8192 x
 * 4096 x 4096 384 -> 377 us, 16384 x 4096 x 4096 854 -> 794, 4096 x 5120 x 5120 298 -> 302, 2048 x 4096 x
 * 4096 99 -> 104. At its power limit the machine gains less than the time that rows are hidden for.
 *
 *     dw = dy.T @ x             region 0: matmul, reads dy
 *     db = sum(dy, over=0)      region 1: columns, reads dy   ->   the guest of region 0
 *
 * Columns wait for nothing that the host writes, so that no order has to be kept and none are left over. */
#include "passes/fuse.h"
#include "passes/product.h"

#include <math.h>

#include "ir/value_map.h"

static const double guest_launch = 2e-6, guest_clear = 2e-6, guest_end = 3e-6;
static const double guest_order = 4e-6; /* a cooperative launch begins when the kernel before has ended */
static const double guest_left = 1.3;   /* rounds whose rows are left when the products end */
static const double guest_share = 0.35; /* of memory's rate that idle warps move */
static const double guest_fitted_passes = 2; /* over a row, of what that was fitted to */
static const double guest_beside = 0.3;      /* of the guest's time that products lose beside it */
/* Of what two kernels cost: what is gained must be more than the estimate's error. */
static const double guest_gain = 0.65;

/* What depends on a product, or on what its kernel wrote. */
typedef enum GuestMark {
    GUEST_APART, /* nothing */
    GUEST_ROW,   /* its row r on row r alone */
    GUEST_WIDE   /* on other rows, or in another order */
} GuestMark;

/* Whether a value has the product's dims, or one element for each of its rows. */
static bool guest_is_along(const Value *core, const Value *value) {
    return value->rank == core->rank && value_same_rows(value, core) &&
           (value->dims[value->rank - 1] == core->dims[core->rank - 1] ||
            dim_is(value->dims[value->rank - 1], 1));
}

static bool guest_is_row_op(const Value *value) {
    if (value_class(value) == OPCLASS_REDUCTION)
        return value->attrs[0].axes.n == 1 && value->attrs[0].axes.at[0] == value->in[0]->rank - 1;
    return value_is_pointwise(value) || value->op == OP_broadcast;
}

/* Marks what a region computes, given the marks of what it starts from. */
static void guest_mark(const Region *region, const Value *core, ValueMap *marks) {
    for (size_t i = 0; i < region->values.n; i++) { /* topological */
        const Value *value = region->values.at[i];
        GuestMark mark = GUEST_APART;
        for (int k = 0; k < value->n_in; k++) {
            GuestMark in = (GuestMark)value_map_get(marks, value->in[k]);
            mark = in > mark ? in : mark;
        }
        bool stays = guest_is_row_op(value) && guest_is_along(core, value);
        if (value->op == OP_matmul)
            mark = value_same_dims(value, core) ? GUEST_ROW : GUEST_WIDE;
        else if (mark != GUEST_APART && !stays)
            mark = GUEST_WIDE;
        value_map_set(marks, value, (int)mark);
    }
}

/* Whether each row that `rows` computes needs what `host` wrote of that row alone, and needs some. */
static bool guest_is_by_row(const Fuse *fuse, const Region *host, const Region *rows) {
    const Value *core = host->cores.at[0];
    ValueMap of_host = {.arena = fuse->arena}, of_rows = {.arena = fuse->arena};
    bool reads = false;
    guest_mark(host, core, &of_host);
    for (size_t i = 0; i < rows->inputs.n; i++) {
        const Value *input = rows->inputs.at[i];
        if (!region_writes(host, input))
            continue;
        bool is_along = value_same_dims(input, core) && value_map_get(&of_host, input) == GUEST_ROW;
        value_map_set(&of_rows, input, is_along ? GUEST_ROW : GUEST_WIDE);
        reads |= is_along;
    }
    guest_mark(rows, core, &of_rows);
    for (size_t i = 0; i < rows->outputs.n; i++)
        if (value_map_get(&of_rows, rows->outputs.at[i]) == GUEST_WIDE)
            return false;
    return reads;
}

/* Whether one kernel may be both, as far as the regions tell. */
static bool guest_fits(const Fuse *fuse, const Region *host, const Region *rows) {
    if (host->kind != TEMPLATE_MATMUL || rows->kind != TEMPLATE_ROWS || host->n_reduced ||
        rows->n_reduced != 1 || rows->rank != host->rank || rows->windows.n)
        return false;
    for (int i = 0; i < host->rank; i++)
        if (rows->dims[i] != host->dims[i])
            return false;
    for (size_t i = 0; i < rows->outputs.n; i++) /* warps by themselves go through no block of rows */
        if (block_stored(rows->outputs.at[i]))
            return false;
    return host->inputs.n + rows->inputs.n <= (size_t)fuse->limits->max_inputs &&
           host->outputs.n + rows->outputs.n <= (size_t)fuse->limits->max_outputs && !fuse_is_idle(host) &&
           guest_is_by_row(fuse, host, rows);
}

bool fuse_guest_hint(const Graph *graph, const Region *guest, bool *is_asked) {
    for (size_t i = 0; i < graph->hints.n; i++) {
        const Hint *hint = &graph->hints.at[i];
        bool asks;
        if (!fuse_hint_tells_guest(hint, &asks) || !region_kernel_computes(guest, hint->value))
            continue;
        *is_asked = asks;
        return true;
    }
    return false;
}

typedef struct GuestEstimate {
    double guest, two;
    bool keeps_up;
} GuestEstimate;

/* Seconds that the host multiplies, which tensor cores do the faster the fewer bits operands have. */
static double guest_products(const Fuse *fuse, const Region *host) {
    enum { RATED_BITS = 16 };
    double elements = (double)fuse_count(fuse, host->rank, host->dims), operations = 0;
    for (size_t i = 0; i < host->cores.n; i++) {
        const Value *a = host->cores.at[i]->in[0];
        double depth = (double)fuse_extent(fuse, a->dims[a->rank - 1]);
        operations += 2 * elements * depth * dtype_bits(a->dtype) / RATED_BITS;
    }
    return operations / fuse->limits->tensor_flops;
}

static double guest_outputs(const Fuse *fuse, const Region *guest) {
    double bytes = 0;
    for (size_t i = 0; i < guest->outputs.n; i++)
        bytes += (double)fuse_bytes(fuse, guest->outputs.at[i]);
    return bytes;
}

/* `slower`: seconds that the host takes longer because it has a guest. */
static GuestEstimate guest_estimate_columns(const Fuse *fuse, const Region *host, const Region *columns,
                                            double slower) {
    enum { WARPS = 3, RUN_BITS = 128 };
    int bits = 8, split = columns->n_reduced;
    double bytes = guest_outputs(fuse, columns);
    for (size_t i = 0; i < columns->outputs.n; i++)
        bits = dtype_bits(columns->outputs.at[i]->dtype) > bits ? dtype_bits(columns->outputs.at[i]->dtype)
                                                                : bits;
    for (size_t i = 0; i < columns->inputs.n; i++) {
        const Value *input = columns->inputs.at[i];
        bytes += (double)fuse_bytes(fuse, input);
        bits = dtype_bits(input->dtype) > bits ? dtype_bits(input->dtype) : bits;
    }
    double moved = bytes / fuse->limits->memory_bytes_per_second,
           warps = (double)WARPS * fuse->limits->sm_count;
    double strips =
        (double)fuse_count(fuse, columns->rank - split, columns->dims + split) * bits / (32 * RUN_BITS);
    double busy = strips / (ceil(strips / warps) * warps); /* of the warps: strips are dealt out whole */
    return (GuestEstimate){.guest = guest_beside * moved + slower,
                           .two = moved + guest_launch,
                           .keeps_up = moved <= guest_share * busy * guest_products(fuse, host)};
}

/* How often idle warps read a row, which they do not keep: once for each reduction that waits for another,
 * and for what is stored of it. */
static double guest_passes(const Fuse *fuse, const Region *rows) {
    ValueMap depth = {.arena = fuse->arena};
    int most = 0, stored = 0;
    for (size_t i = 0; i < rows->values.n; i++) { /* topological */
        const Value *value = rows->values.at[i];
        int own = 0;
        for (int k = 0; k < value->n_in; k++) {
            int below = value_map_get(&depth, value->in[k]);
            own = below > own ? below : own;
        }
        own += value_class(value) == OPCLASS_REDUCTION;
        value_map_set(&depth, value, own);
        most = own > most ? own : most;
    }
    for (size_t i = 0; i < rows->outputs.n; i++)
        stored |= !dim_is(rows->outputs.at[i]->dims[rows->rank - 1], 1);
    return (double)(most + stored);
}

static GuestEstimate guest_estimate_rows(const Fuse *fuse, const Region *host, const Region *rows,
                                         double slower) {
    enum {
        TILE_ROWS = 128,
        TILE_COLS = 256,
        GROUP = 4,        /* rows of tiles that end together */
        FAR_ROW = 1 << 16 /* bytes of a row that lies in L2 when it is read again */
    };
    const FuseLimits *limits = fuse->limits;
    const Value *core = host->cores.at[0];
    double bytes = guest_outputs(fuse, rows), all = (double)fuse_count(fuse, host->rank - 1, host->dims);
    double cols = (double)fuse_extent(fuse, host->dims[host->rank - 1]);
    for (size_t i = 0; i < rows->inputs.n; i++)
        if (value_same_dims(rows->inputs.at[i], core))
            bytes += (double)fuse_bytes(fuse, rows->inputs.at[i]);
    double round = fmax(limits->sm_count / ceil(cols / TILE_COLS), GROUP) * TILE_ROWS;
    double left = fmin(1, guest_left * round / all), moved = bytes / limits->memory_bytes_per_second;
    double again = bytes / all > FAR_ROW ? guest_passes(fuse, rows) / guest_fitted_passes : 1;
    double idle = moved * fmax(1, again);
    return (GuestEstimate){.guest = guest_clear + (host->follows ? guest_order : 0) +
                                    (left + guest_beside) * idle + guest_end + slower,
                           .two = moved + guest_launch,
                           .keeps_up = idle / guest_share <= guest_products(fuse, host)};
}

static GuestEstimate guest_estimate(const Fuse *fuse, const Region *host, const Region *guest,
                                    double slower) {
    return guest->kind == TEMPLATE_ROWS ? guest_estimate_rows(fuse, host, guest, slower)
                                        : guest_estimate_columns(fuse, host, guest, slower);
}

static bool guest_gains(const GuestEstimate *estimate) {
    return estimate->keeps_up && estimate->guest < guest_gain * estimate->two;
}

/* Whether codegen has a kernel for the host with its guest: known where the time of it is; says why not. */
static bool guest_is_taken(Fuse *fuse, const Region *host, double seconds) {
    const PassOptions *options = fuse->pass->options;
    const char *why = NULL;
    if (seconds > 0 || !options->takes || options->takes(options->takes_context, fuse->graph, host, &why))
        return true;
    pass_decide(fuse->pass, "guest", false, host->guest->outputs.at[0], host->cores.at[0],
                "a product that takes a guest", "the product's kernel has no warps for it: %s",
                why ? why : "its template refuses");
    return false;
}

static void guest_explain(Fuse *fuse, const Region *host, const Region *guest,
                          const GuestEstimate *estimate) {
    bool is_rows = guest->kind == TEMPLATE_ROWS;
    Value *at = guest->outputs.at[0], *core = host->cores.at[0];
    const char *what = is_rows ? "rows" : "columns";
    if (!estimate->keeps_up)
        pass_decide(fuse->pass, "guest", false, at, core,
                    is_rows ? "a longer sum of products, or narrower rows" : "a larger product",
                    "idle warps of the product's kernel would not keep up with it");
    else if (!guest_gains(estimate))
        pass_decide(
            fuse->pass, "guest", false, at, core, is_rows ? "more rows, or fewer columns" : "larger columns",
            "idle warps of the product's kernel would hide too few %s: it would take %.0f us more, and a "
            "second kernel costs %.0f us",
            what, estimate->guest * 1e6, estimate->two * 1e6);
    else
        pass_decide(fuse->pass, "guest", true, at, core, NULL,
                    "idle warps of the product's kernel take %s while others multiply, which costs %.0f us "
                    "by the estimate, and a second kernel %.0f us",
                    what, estimate->guest * 1e6, estimate->two * 1e6);
}

/* Whether the host's guest, which nobody asked for, pays. To choose a schedule takes long: that is done only
 * where it would pay if the product lost nothing. */
static bool guest_pays(Fuse *fuse, Region *host) {
    Region *guest = host->guest;
    GuestEstimate estimate = guest_estimate(fuse, host, guest, 0);
    if (guest_gains(&estimate)) {
        double beside = fuse_seconds(fuse, host);
        if (!guest_is_taken(fuse, host, beside))
            return false;
        host->guest = NULL;
        double alone = fuse_seconds(fuse, host);
        host->guest = guest;
        estimate = guest_estimate(fuse, host, guest, fmax(0, beside - alone));
    }
    guest_explain(fuse, host, guest, &estimate);
    return guest_gains(&estimate);
}

/* Whether the host's guest, which the graph asks for, can be had. */
static bool guest_is_granted(Fuse *fuse, const Region *host) {
    if (!guest_is_taken(fuse, host, 0))
        return false;
    pass_decide(fuse->pass, "guest", true, host->guest->outputs.at[0], host->cores.at[0], NULL,
                "the graph asks for it");
    return true;
}

/* Whether the host has blocks, for columns that may have results when it has none. */
static bool guest_has_blocks(const Fuse *fuse, const Region *host) {
    for (int i = 0; i < host->rank; i++)
        if (dim_lower(fuse->graph->dims, host->dims[i]) < 1)
            return false;
    return !fuse_is_idle(host);
}

static bool guest_is_known(const Region *host) {
    for (int i = 0; i < host->rank; i++)
        if (!dim_is_const(host->dims[i]))
            return false;
    return true;
}

/* Takes the rows or columns in, if they may be. */
static bool guest_join(Fuse *fuse, Region *host, Region *guest) {
    bool is_asked = false, is_told = fuse_guest_hint(fuse->graph, guest, &is_asked);
    if (is_told ? !is_asked : host->schedule_hint || guest->schedule_hint)
        return false;
    if (!product_uses_tensor_cores(fuse->limits, host->cores.at[0])) {
        pass_decide(fuse->pass, "guest", false, guest->outputs.at[0], host->cores.at[0],
                    "operands that matrix instructions take",
                    "the product's kernel, of multiply-adds, has no idle warps");
        return false;
    }
    if (guest->kind == TEMPLATE_ROWS && !guest_is_known(host)) {
        pass_decide(
            fuse->pass, "guest", false, guest->outputs.at[0], host->cores.at[0],
            "dims that are known when it is compiled",
            "the blocks of a kernel that wait for each other run together: their number must be known");
        return false;
    }
    if (guest->kind == TEMPLATE_COLUMNS && !guest_has_blocks(fuse, host)) {
        pass_decide(fuse->pass, "guest", false, guest->outputs.at[0], host->cores.at[0],
                    "a product of at least one element, known from the dims or a 'where'",
                    "the product may have no elements, and then no block to take columns");
        return false;
    }
    host->guest = guest;
    if (!(is_asked ? guest_is_granted(fuse, host) : guest_pays(fuse, host)))
        host->guest = NULL;
    return host->guest != NULL;
}

/* What a person asked for and did not get. */
static void guest_decline(Fuse *fuse, const Region *guest) {
    bool is_asked = false;
    if (guest->kind == TEMPLATE_MATMUL || !fuse_guest_hint(fuse->graph, guest, &is_asked) || !is_asked)
        return;
    if (guest->kind == TEMPLATE_COLUMNS)
        pass_decide(fuse->pass, "guest", false, guest->outputs.at[0], NULL,
                    "columns of what a product near it reads",
                    "no product that reads it is free to take it, or has no guest yet");
    else
        pass_decide(fuse->pass, "guest", false, guest->outputs.at[0], NULL,
                    "rows of what one product's kernel computes, just before them",
                    "the kernel before does not compute what it reads, row by row, or has a guest already");
}

/* Whether a product reads what columns are reduced of, and has room for them. */
static bool guest_reads_same(const Fuse *fuse, const Region *host, const Region *columns) {
    int64_t space = fuse_count(fuse, columns->rank, columns->dims);
    if (host->kind != TEMPLATE_MATMUL || host->guest || host->n_reduced ||
        host->inputs.n + columns->inputs.n > (size_t)fuse->limits->max_inputs ||
        host->outputs.n + columns->outputs.n > (size_t)fuse->limits->max_outputs)
        return false;
    for (size_t i = 0; i < columns->inputs.n; i++) {
        const Value *input = columns->inputs.at[i];
        if (fuse_count(fuse, input->rank, input->dims) >= space && region_reads(host, input))
            return true;
    }
    return false;
}

/* Whether the region with the number `from` reads nothing that it, or those from `to` on, write before it. */
static bool guest_may_rise(const Partition *partition, size_t from, size_t to) {
    const Region *region = partition->regions.at[from];
    for (size_t i = to; i < from; i++)
        for (size_t k = 0; k < region->inputs.n; k++)
            if (region_kernel_writes(partition->regions.at[i], region->inputs.at[k]))
                return false;
    return true;
}

/* Finds columns a host near them. The later one of the two goes up to the earlier one's place. */
static bool guest_join_columns(Fuse *fuse, size_t at) {
    enum { NEAR = 8 };
    Partition *partition = fuse->pass->partition;
    Region *columns = partition->regions.at[at];
    size_t first = at > NEAR ? at - NEAR : 0, n = partition->regions.n;
    bool is_met = false;
    for (size_t i = first; i < n && i <= at + NEAR; i++) {
        Region *host = partition->regions.at[i];
        size_t early = i < at ? i : at, late = i < at ? at : i;
        bool fits = guest_reads_same(fuse, host, columns) && guest_may_rise(partition, late, early);
        is_met |= fits;
        if (!fits || !guest_join(fuse, host, columns))
            continue;
        partition->regions.at[early] = host;
        memmove(&partition->regions.at[late], &partition->regions.at[late + 1],
                (n - late - 1) * sizeof(Region *));
        partition->regions.n--;
        return true;
    }
    if (!is_met)
        guest_decline(fuse, columns);
    return false;
}

static void guests_of_rows(Fuse *fuse) {
    Partition *partition = fuse->pass->partition;
    size_t n = 0;
    for (size_t i = 0; i < partition->regions.n; i++) {
        Region *region = partition->regions.at[i], *before = n ? partition->regions.at[n - 1] : NULL;
        bool fits = before && !before->guest && guest_fits(fuse, before, region);
        if (fits && guest_join(fuse, before, region))
            continue;
        if (!fits && region->kind != TEMPLATE_COLUMNS)
            guest_decline(fuse, region);
        partition->regions.at[n++] = region;
    }
    partition->regions.n = n;
}

static void guests_of_columns(Fuse *fuse) {
    const Partition *partition = fuse->pass->partition;
    for (size_t i = 0; i < partition->regions.n;)
        if (partition->regions.at[i]->kind != TEMPLATE_COLUMNS || !guest_join_columns(fuse, i))
            i++;
}

void fuse_guests(Fuse *fuse) {
    size_t n = fuse->pass->partition->regions.n;
    if (!fuse->limits->hosts_rows)
        return;
    guests_of_rows(fuse);
    guests_of_columns(fuse);
    if (fuse->pass->partition->regions.n < n)
        fuse_number(fuse->graph, fuse->pass->partition);
}
