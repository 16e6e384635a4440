/* Schedules one step away from another: what a tuner tries around the best that it has. Templates refuse
 * those that make no sense. */
#include "codegen/schedule.h"

typedef struct Near {
    const Schedule *from;
    Schedule *out;
    int n, room;
} Near;

static void near_add(Near *near, Schedule s) {
    s.seconds = 0; /* nobody predicted it */
    if (near->n < near->room && !schedule_equals(&s, near->from))
        near->out[near->n++] = s;
}

/* Every positive value of a list for one field, where the schedule uses it. */
#define NEAR(FIELD, ...)                                                                                     \
    do {                                                                                                     \
        const int values[] = {__VA_ARGS__};                                                                  \
        for (size_t i = 0; near->from->FIELD > 0 && i < sizeof values / sizeof *values; i++) {               \
            Schedule s = *near->from;                                                                        \
            s.FIELD = values[i];                                                                             \
            if (s.FIELD > 0)                                                                                 \
                near_add(near, s);                                                                           \
        }                                                                                                    \
    } while (0)

static void near_wgmma(Near *near) {
    static const int clusters[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}, {2, 4}, {4, 2}};
    const Schedule *from = near->from;
    for (size_t i = 0; i < sizeof clusters / sizeof *clusters; i++) {
        Schedule s = *from;
        s.cluster_m = clusters[i][0];
        s.cluster_n = clusters[i][1];
        if ((from->cluster_m > 1 ? from->cluster_m : 1) != s.cluster_m ||
            (from->cluster_n > 1 ? from->cluster_n : 1) != s.cluster_n)
            near_add(near, s);
    }
    if (from->warps_m == 2) {
        Schedule s = *from;
        s.ping_pong = !s.ping_pong;
        schedule_deal_registers(&s, false);
        near_add(near, s);
    }
}

/* Other tiles want other warps: these, where the template takes them. */
static void near_simt(Near *near) {
    const Schedule *from = near->from;
    NEAR(split_k, from->split_k / 2, 2 * from->split_k);
    NEAR(tile_m, from->tile_m - 32, from->tile_m - 16, from->tile_m + 16, from->tile_m + 32);
    static const int shares[][2] = {{2, 1}, {1, 2}}; /* twice as many along one side, half along the other */
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        Schedule s = *from;
        s.warps_m = from->warps_m * shares[i][0] / shares[i][1];
        s.warps_n = from->warps_n * shares[i][1] / shares[i][0];
        near_add(near, s);
    }
}

static void near_matmul(Near *near) {
    const Schedule *from = near->from;
    NEAR(stages, from->stages - 1, from->stages + 1, from->stages + 2);
    if (from->path != MATMUL_GEMV && from->path != MATMUL_SKINNY) { /* whose blocks share nothing */
        NEAR(group_m, 1, from->group_m / 2, 2 * from->group_m, 4 * from->group_m);
        NEAR(group_n, from->group_n / 2, 2 * from->group_n);
    }
    NEAR(tile_n, from->tile_n - 32, from->tile_n - 16, from->tile_n + 16, from->tile_n + 32);
    NEAR(tile_k, from->tile_k / 2, 2 * from->tile_k);
    for (int ease = 0; ease <= 2; ease++) { /* 0 is a value of it too */
        Schedule s = *from;
        s.ease = ease;
        near_add(near, s);
    }
    if (from->path == MATMUL_WGMMA)
        near_wgmma(near);
    if (from->path == MATMUL_SIMT)
        near_simt(near);
}

/* Threads of a block, with what they are made of. */
static void near_threads(Near *near, int numerator, int denominator) {
    Schedule s = *near->from;
    s.threads = s.threads * numerator / denominator;
    if (s.threads_per_row && s.rows_per_block > 1)
        s.rows_per_block = s.rows_per_block * numerator / denominator;
    else
        s.threads_per_row = s.threads_per_row * numerator / denominator;
    if (s.threads > 0 && (s.threads_per_row > 0 || !near->from->threads_per_row))
        near_add(near, s);
}

/* Wider and narrower along the turned axis alone, also where one width serves both. */
static void near_turned(Near *near) {
    Schedule s = *near->from;
    int turned = s.turned_vector ? s.turned_vector : s.vector;
    for (int i = 0; i < 2; i++) {
        s.turned_vector = i ? 2 * turned : turned / 2;
        if (s.turned_vector > 0)
            near_add(near, s);
    }
}

static void near_others(Near *near) {
    const Schedule *from = near->from;
    NEAR(unroll, from->unroll / 2, 2 * from->unroll, 4 * from->unroll);
    NEAR(vector, from->vector / 2, 2 * from->vector);
    near_threads(near, 1, 2);
    near_threads(near, 2, 1);
    near_threads(near, 4, 1);
    if (from->threads_per_row > 1) {
        Schedule s = *from;
        s.threads_per_row /= 2;
        s.rows_per_block *= 2;
        near_add(near, s);
    }
    if (from->rows_per_block > 1 && from->rows_per_block % 2 == 0) {
        Schedule s = *from;
        s.threads_per_row *= 2;
        s.rows_per_block /= 2;
        near_add(near, s);
    }
    if (from->tile_rows) {
        NEAR(tile_rows, from->tile_rows / 2, 2 * from->tile_rows);
        NEAR(tile_cols, from->tile_cols / 2, from->tile_cols / 3 * 2, from->tile_cols / 2 * 3,
             2 * from->tile_cols);
        near_turned(near);
    }
}

int schedule_near(const Schedule *from, Schedule *out, int room) {
    Near near = {from, out, 0, room};
    if (from->path == MATMUL_NONE)
        near_others(&near);
    else if (from->path != MATMUL_LOOP)
        near_matmul(&near);
    return near.n;
}
