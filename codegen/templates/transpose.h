/* What the files of the transpose template share: transpose.c says what a tile is, transpose_skewed.c has
 * rows that begin anywhere in memory, transpose_schedules.c chooses. */
#ifndef SINTER_CODEGEN_TEMPLATES_TRANSPOSE_H
#define SINTER_CODEGEN_TEMPLATES_TRANSPOSE_H

#include "codegen/lower.h"
#include "codegen/template.h"

enum {
    TRANSPOSE_ALIGNMENT = 128, /* bytes, of a tile */
    TRANSPOSE_EDGES = 2,       /* of a row that begins anywhere, of less than a vector each */
};

typedef struct TransposeTile {
    const Value *value; /* read, or written */
    KBuffer *buffer;
} TransposeTile;

typedef struct Transpose {
    Builder *b;
    const Region *region;
    Lower *lower;
    KType index;
    int axis, last;                /* of the space: of turned accesses; the innermost */
    int rows, columns;             /* a tile's extents along them */
    int turned, width;             /* elements of a run along them */
    bool is_skewed;                /* width does not divide the innermost axis: transpose_skewed.c */
    const KExpr *coords[RANK_MAX]; /* of the tile's first element */
    VEC(TransposeTile) reads, writes;
} Transpose;

/* transpose.c */
Transpose transpose_plan(const Graph *graph, const Region *region, const Schedule *schedule);
/* The axis of the space, besides the innermost, along which the most inputs and outputs are contiguous; -1
 * where none is. */
int transpose_axis(const Graph *graph, const Region *region);
bool transpose_is_written_turned(const Transpose *t, const Value *output);
/* Elements of shared memory that a tile takes. */
int64_t transpose_tile_count(const Transpose *t, DType type);
KBuffer *transpose_tile(Transpose *t, const Value *value);
/* The run of the space that starts at element (row, column) of the tile and goes along `axis`. */
Run transpose_run(Transpose *t, int axis, const KExpr *row, const KExpr *column);

/* A thread's piece of the block's work in a loop over them, at (major, minor). */
typedef struct TransposePiece {
    const KExpr *slot; /* which of the thread's pieces */
    const KExpr *major, *minor;
    const KExpr *first; /* of `major`, which grows by `step` with each slot; NULL: it does not */
    int step;
    bool is_guarded; /* the last of the loop's turns is not every thread's: a condition is open in it */
} TransposePiece;

/* Opens the loop over a thread's pieces of `count`, which lie `across` beside each other. */
TransposePiece transpose_pieces_begin(Transpose *t, int count, int across, const char *major,
                                      const char *minor);
/* Where row i begins of those that a run along the axis has, the `group`-th run; and the row that is a
 * piece's `major`. */
const KExpr *transpose_group_row(const Transpose *t, const KBuffer *tile, const KExpr *group, const KExpr *i);
const KExpr *transpose_piece_row(const Transpose *t, const KBuffer *tile, const TransposePiece *piece);

/* Writes what lies in the tiles of t->writes along the axis, once all threads have come here. */
void transpose_write(Transpose *t);

/* Why the tiles of t->writes are none, for a kernel that takes so many bytes of shared memory besides; NULL:
 * they are. */
const char *transpose_writes_refuse(const Transpose *t, const Target *target, int64_t bytes);

/* Elements along the axis that are written at once: at most 8, of so many bits. */
int transpose_writes_run(const Transpose *t, int bits);

/* transpose_skewed.c: why it does not take a schedule, or NULL; runs that it could write, 1: none; the
 * kernel. */
const char *transpose_skewed_refuses(const Graph *graph, const Transpose *t);
int transpose_skewed_width(const Graph *graph, const Region *region, const Transpose *t);
void transpose_skewed_build(Transpose *t);

/* transpose_schedules.c */
bool transpose_accepts(const Graph *graph, const Region *region, const Schedule *s, const Target *target,
                       const char **why);
int transpose_schedules(const Graph *graph, const Region *region, const Target *target,
                        const DimBindings *hint, Schedule *out, int room);

#endif
