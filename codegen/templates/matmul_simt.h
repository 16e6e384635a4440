/* How a schedule of the path of multiply-adds divides a tile, to the kernel that does it (matmul_simt.c), and
 * to what it takes of an SM and of time (matmul_tiles.c, cost_simt.c). */
#ifndef SINTER_CODEGEN_TEMPLATES_MATMUL_SIMT_H
#define SINTER_CODEGEN_TEMPLATES_MATMUL_SIMT_H

#include "codegen/templates/matmul.h"

typedef struct SimtShape {
    int width;            /* elements of a vector */
    int lanes_m, lanes_n; /* of a warp */
    int rows, cols;       /* vectors of a thread along M and N */
    bool is_paired;       /* lanes stand in squares, else in rows */
} SimtShape;
/* False where the schedule does not divide it. */
bool simt_shape(const MatmulPlan *plan, const Schedule *schedule, SimtShape *shape);
/* Clocks in which shared memory gives a warp its vectors for one of K. */
int simt_loads(const SimtShape *shape, int cores);

#endif
