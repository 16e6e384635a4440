/* Row statistics of rows that lie in several blocks, one beside the other along N.
 *
 * The blocks of a gang run at the same time (a cooperative launch) and work on the same rows of the result,
 * each on its own columns. Once a block has reduced its part of a row, it sends a packet with the partial
 * result, and every block of the gang, the sender too, reads the packets of all in the same order, so that
 * all come to the same bits:
 *
 *     block 0   products | partial max --> [packet 0] --+
 *     block 1   products | partial max --> [packet 1] --+--> all read all | exp, partial sum --> ...
 *     block 2   products | partial max --> [packet 2] --+
 *
 * A packet carries the number of its round beside its values, in the same words, so no fence is needed, and a
 * warp exchanges with the warps of the same rows alone: no barrier of the block. Packets of neighbouring
 * rounds lie in two halves; a block writes a half again only after it has seen everybody's packets of the
 * round between, which they sent after they had read the half. Between sending and receiving a block stores
 * what does not wait for statistics; the producer meanwhile loads the next tile. */
#include "codegen/templates/matmul_epilogue.h"

enum { PACKET_WORDS = 2 /* of 64 bits: a value and the round each */ };

int64_t matmul_gang_words(int rows) {
    enum { HALVES = 2 };
    /* a gang has blocks * pairs packets a half and statistic: so many pairs for each block of the grid */
    return (int64_t)HALVES * GANG_STATISTICS * (rows / 2) * PACKET_WORDS;
}

MatmulGang matmul_gang_new(Builder *b, const MatmulPlan *plan, const Schedule *schedule, int rows,
                           const KBuffer *packets) {
    MatmulGang gang = {.blocks = matmul_gang(plan, schedule), .packets = packets, .pairs = rows / 2};
    const KExpr *blocks = k_i32(b, gang.blocks), *cta = k_special(b, SPECIAL_CTA_X);
    gang.gang = k_let_expr(b, "gang", k_div(b, cta, blocks));
    gang.own = k_let_expr(b, "gang_block", k_mod(b, cta, blocks));
    return gang;
}

/* Address of a block's packet in the present round; `pair` is of the thread's: its number among them. */
static const KExpr *gang_packet(Builder *b, const MatmulFragment *f, const KExpr *statistic,
                                const KExpr *pair, const KExpr *block) {
    const MatmulGang *gang = f->gang;
    const KExpr *at =
        k_add(b, k_mul(b, gang->gang, k_i32(b, 2)), k_mod(b, k_var(b, gang->round), k_i32(b, 2)));
    at = k_add(b, k_mul(b, at, k_i32(b, GANG_STATISTICS)), statistic);
    const KExpr *own = k_add(b, gang->lane_pair, k_mul(b, pair, k_i32(b, f->block_rows / 2)));
    at = k_add(b, k_mul(b, at, k_i32(b, gang->pairs)), own);
    at = k_add(b, k_mul(b, at, k_i32(b, gang->blocks)), block);
    return k_global_addr(b, gang->packets, k_mul(b, at, k_i32(b, PACKET_WORDS)));
}

static const KExpr *gang_lane(Builder *b, const MatmulFragment *f) {
    return k_mod(b, k_special(b, SPECIAL_LANE), k_i32(b, f->row_lanes));
}

/* Of the lanes that share rows, lane i sends packet i: of statistic i / blocks, rows of 64-row block i %
 * blocks. */
void matmul_gang_send(Epilogue *e, const KVar *const *partial, int n) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    int packets = n * f->blocks;
    const KExpr *lane = k_let_expr(b, "row_lane", gang_lane(b, f)), *value[2];
    for (int half = 0; half < 2; half++) {
        value[half] = k_bitcast(b, k_elem_at(b, partial[0], half), K_U32);
        for (int i = 1; i < packets; i++)
            value[half] =
                k_select(b, k_eq(b, lane, k_i32(b, i)),
                         k_bitcast(b, k_elem_at(b, partial[i / f->blocks], i % f->blocks * 2 + half), K_U32),
                         value[half]);
    }
    k_set(b, f->gang->round, k_add(b, k_var(b, f->gang->round), k_i32(b, 1)));
    if (packets < f->row_lanes)
        k_if_begin(b, k_lt(b, lane, k_i32(b, packets)));
    const KExpr *blocks = k_i32(b, f->blocks);
    KOperand operands[] = {
        k_operand(gang_packet(b, f, k_div(b, lane, blocks), k_mod(b, lane, blocks), f->gang->own)),
        k_operand(value[0]), k_operand(value[1]), k_operand(k_convert(b, k_var(b, f->gang->round), K_U32))};
    k_atom(b, ATOM_packet_send, NULL, operands, 4);
    if (packets < f->row_lanes)
        k_end(b);
}

/* A packet that the lane reads: of each statistic and pair of its rows that of every row_lanes-th block. */
typedef struct GangRead {
    const KExpr *statistic, *pair, *turn, *guard;
    const KExpr *address;
    const KExpr *number; /* of the read */
    const KExpr *at;     /* element of the statistic's array for the first row of the pair */
    const KVar *word[2], *round[2];
} GangRead;

static const KExpr *gang_guard(Builder *b, const MatmulFragment *f, const KExpr *turn, const KExpr **block) {
    *block = k_add(b, gang_lane(b, f), k_mul(b, turn, k_i32(b, f->row_lanes)));
    return f->gang->blocks % f->row_lanes != 0 ? k_lt(b, *block, k_i32(b, f->gang->blocks)) : NULL;
}

static GangRead gang_reads_begin(Builder *b, const MatmulFragment *f, int n, int turns) {
    GangRead read = {0};
    read.statistic = epilogue_loop(b, "statistic", n);
    read.pair = epilogue_loop(b, "pair", f->blocks);
    read.turn = epilogue_loop(b, "turn", turns);
    const KExpr *block;
    read.guard = gang_guard(b, f, read.turn, &block);
    read.address = gang_packet(b, f, read.statistic, read.pair, block);
    read.number = k_add(b, k_mul(b, read.statistic, k_i32(b, f->blocks)), read.pair);
    read.number = k_add(b, k_mul(b, read.number, k_i32(b, turns)), read.turn);
    if (read.guard)
        k_if_begin(b, read.guard);
    return read;
}

static void gang_reads_end(Builder *b, const MatmulFragment *f, int n, int turns, const GangRead *read) {
    if (read->guard)
        k_end(b);
    epilogue_loop_end(b, turns);
    epilogue_loop_end(b, f->blocks);
    epilogue_loop_end(b, n);
}

typedef struct GangSeen {
    const KVar *word[2], *round[2]; /* arrays: of each read, its two rows */
} GangSeen;

static void gang_look(Builder *b, const GangSeen *seen, const GangRead *read, AtomId atom,
                      const KExpr *round) {
    const KVar *now[4];
    static const char *const names[] = {"first", "second", "first_round", "second_round"};
    for (int i = 0; i < 4; i++) {
        const KVar *from = i < 2 ? seen->word[i] : seen->round[i - 2];
        now[i] = k_variable(b, names[i], K_U32, round ? k_elem(b, from, read->number) : NULL);
    }
    KOperand operands[6] = {k_reg(now[0]), k_reg(now[1]), k_reg(now[2]), k_reg(now[3]),
                            k_operand(read->address)};
    if (round)
        operands[5] = k_operand(round);
    k_atom(b, atom, NULL, operands, round ? 6 : 5);
    for (int i = 0; i < 2; i++) {
        k_set_elem(b, seen->word[i], read->number, k_var(b, now[i]));
        k_set_elem(b, seen->round[i], read->number, k_var(b, now[2 + i]));
    }
}

/* Every packet is asked for before the first is waited for. By the time that one is here most others are, but
 * what was seen of them is old: they are asked for again together, rather than one after the other. */
MatmulExchange matmul_gang_receive(Epilogue *e, const KVar *const *partial, int n) {
    Builder *b = e->b;
    const MatmulFragment *f = e->fragment;
    MatmulExchange exchange = {.n = n, .turns = (f->gang->blocks + f->row_lanes - 1) / f->row_lanes};
    int turns = exchange.turns, reads = n * f->blocks * turns;
    const KExpr *round = k_let_expr(b, "this_round", k_convert(b, k_var(b, f->gang->round), K_U32));
    const KExpr *zero = k_int(b, K_U32, 0);
    GangSeen seen;
    for (int i = 0; i < 2; i++) {
        seen.word[i] = k_array(b, i ? "packet_second" : "packet_first", K_U32, reads, zero);
        seen.round[i] = k_array(b, i ? "round_second" : "round_first", K_U32, reads, zero);
    }
    GangRead read = gang_reads_begin(b, f, n, turns);
    gang_look(b, &seen, &read, ATOM_packet_peek, NULL);
    gang_reads_end(b, f, n, turns, &read);
    if (reads > 1) {
        const KExpr *none = k_i32(b, 0), *block;
        read = (GangRead){.number = none};
        read.guard = gang_guard(b, f, none, &block);
        read.address = gang_packet(b, f, none, none, block);
        if (read.guard)
            k_if_begin(b, read.guard);
        gang_look(b, &seen, &read, ATOM_packet_wait, round);
        if (read.guard)
            k_end(b);
        read = gang_reads_begin(b, f, n, turns);
        const KExpr *is_old = k_scalar(b, OP_ne, k_elem(b, seen.round[1], read.number), round, NULL);
        k_if_begin(b, is_old);
        gang_look(b, &seen, &read, ATOM_packet_peek, NULL);
        k_end(b);
        gang_reads_end(b, f, n, turns, &read);
    }
    read = gang_reads_begin(b, f, n, turns);
    gang_look(b, &seen, &read, ATOM_packet_wait, round);
    gang_reads_end(b, f, n, turns, &read);

    for (int s = 0; s < n; s++) {
        const char *name = text_format(b->arena, "%s_parts", partial[s]->name);
        exchange.part[s] = k_array(b, name, partial[s]->type, 2 * f->blocks * turns, NULL);
        const KExpr *pair = epilogue_loop(b, "pair", f->blocks), *turn = epilogue_loop(b, "turn", turns);
        const KExpr *number =
            k_add(b, k_mul(b, k_add(b, k_i32(b, s * f->blocks), pair), k_i32(b, turns)), turn);
        for (int half = 0; half < 2; half++) {
            const KExpr *row = k_add(b, k_mul(b, pair, k_i32(b, 2)), k_i32(b, half));
            k_set_elem(b, exchange.part[s], k_add(b, k_mul(b, row, k_i32(b, turns)), turn),
                       k_bitcast(b, k_elem(b, seen.word[half], number), partial[s]->type));
        }
        epilogue_loop_end(b, turns);
        epilogue_loop_end(b, f->blocks);
    }
    return exchange;
}

const KExpr *matmul_gang_at(Epilogue *e, const MatmulExchange *exchange, const KExpr *row, const KExpr *turn,
                            const KExpr **guard) {
    const KExpr *block;
    *guard = gang_guard(e->b, e->fragment, turn, &block);
    return k_add(e->b, k_mul(e->b, row, k_i32(e->b, exchange->turns)), turn);
}

PartialVars matmul_gang_whole(Epilogue *e, const Value *statistic, const MatmulExchange *exchange,
                              int which) {
    Builder *b = e->b;
    int n_rows = e->fragment->blocks * e->fragment->halves;
    const char *name = statistic->name ? statistic->name : op_info(statistic->op)->name;
    PartialVars whole = reduce_declare(b, statistic, text_format(b->arena, "whole_%s", name), n_rows, K_I32);
    const KExpr *row = epilogue_loop(b, "row", n_rows), *turn = epilogue_loop(b, "turn", exchange->turns),
                *guard;
    const KExpr *at = matmul_gang_at(e, exchange, row, turn, &guard);
    if (guard)
        k_if_begin(b, guard);
    reduce_into(b, statistic, whole, row, (Partial){k_elem(b, exchange->part[which], at), NULL});
    if (guard)
        k_end(b);
    epilogue_loop_end(b, exchange->turns);
    reduce_lanes(b, statistic, whole, row, e->fragment->row_lanes);
    epilogue_loop_end(b, n_rows);
    return whole;
}
