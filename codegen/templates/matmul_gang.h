/* Blocks that together hold the rows of a product, and exchange what they know of them (matmul_gang.c). */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_GANG_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_GANG_H

#include "codegen/templates/matmul.h"

/* matmul_gang.c: a block's part in its gang. Packets, of two rows that are half_rows apart, lie as [gang]
 * [parity of the round][statistic][such a pair of rows][block of the gang]; the pairs are those of the tile,
 * for each consumer warpgroup that has tiles of its own. */
typedef struct MatmulGang {
    int blocks;
    const KBuffer *packets;
    const KExpr *gang, *own; /* number of the gang, and of this block in it */
    const KExpr *lane_pair;  /* of the thread's first rows among `pairs` */
    int pairs;
    const KVar *round; /* i32: exchanges so far */
} MatmulGang;
/* Elements of the packets of each block of the grid; `rows`: those of all tiles that it works on at a time.
 */
int64_t matmul_gang_words(int rows);
MatmulGang matmul_gang_new(Builder *b, const MatmulPlan *plan, const Schedule *schedule, int rows,
                           const KBuffer *packets);

#endif
