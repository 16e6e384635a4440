/* ldmatrix, stmatrix and mma.sync: which element of a matrix lies in which register of which lane (PTX
 * ISA 9.7.14.5).
 *
 * A register holds a chunk of 4 bytes, e = 4 / size elements. With g = lane / 4 and t = lane % 4:
 *     A (16 rows): register r has row g + 8 * (r % 2), columns (t + 4 * (r / 2)) * e + 0 .. e-1
 *     B (8 columns): register r has column g, rows (t + 4 * r) * e + 0 .. e-1
 *     C (16 x 8): register r has row g + 8 * (r / 2), column 2 * t + r % 2
 * f64's hold an element each: the same with e = 1. */
#include "codegen/simulate_internal.h"

#include <math.h>

static bool matrix_is_converged(Sim *sim, const SimWarp *warp, LaneMask mask) {
    if (mask != SIM_ALL_LANES)
        sim_fail(sim, warp, -1, "all lanes of a warp execute this together; lanes %#x do", mask);
    return mask == SIM_ALL_LANES;
}

/* ---- 8x8 matrices of 16-bit elements between shared memory and registers ------------------------------- */

/* Row r of matrix i lies at the address of lane 8 * i + r. Lane l has elements 2 * (l % 4) and the next of
 * row l / 4; transposed, of column l / 4. */
static void matrix_place(int lane, int half, bool is_transposed, int *row, int *column) {
    int minor = 2 * (lane % 4) + half, major = lane / 4;
    *row = is_transposed ? minor : major;
    *column = is_transposed ? major : minor;
}

static bool matrix_rows(Sim *sim, SimWarp *warp, const Lanes *address, int matrices,
                        int64_t offsets[SIM_LANES]) {
    for (int lane = 0; lane < 8 * matrices; lane++) {
        offsets[lane] = sim_shared_offset(sim, warp, lane, address->at[lane].i, 16, 16);
        if (offsets[lane] < 0)
            return false;
    }
    return true;
}

void sim_ldmatrix(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    int atom = stmt->source->atom;
    int matrices = atom == ATOM_ldmatrix_x4 || atom == ATOM_ldmatrix_x4_trans ? 4 : 2;
    bool is_transposed = atom == ATOM_ldmatrix_x4_trans || atom == ATOM_ldmatrix_x2_trans;
    if (!matrix_is_converged(sim, warp, mask))
        return;
    int64_t rows[SIM_LANES];
    const Lanes *address = sim_operand(sim, warp, &stmt->operands[1], mask);
    if (sim->failed || !matrix_rows(sim, warp, address, matrices, rows))
        return;
    for (int lane = 0; lane < 8 * matrices; lane++)
        if (!shadow_read(sim, warp, lane, rows[lane], 16))
            return;
    int reg = stmt->operands[0].reg;
    for (int i = 0; i < matrices; i++) {
        for (int lane = 0; lane < SIM_LANES; lane++) {
            uint32_t word = 0;
            for (int half = 0; half < 2; half++) {
                int row, column;
                uint16_t element;
                matrix_place(lane, half, is_transposed, &row, &column);
                memcpy(&element, warp->cta->shared + rows[8 * i + row] + 2 * column, sizeof element);
                word |= (uint32_t)element << (16 * half);
            }
            warp->registers[reg + i].at[lane].i = word;
        }
        sim_set_register(sim, warp, reg + i, mask);
    }
}

void sim_stmatrix(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    bool is_transposed = stmt->source->atom == ATOM_stmatrix_x4_trans;
    if (!matrix_is_converged(sim, warp, mask))
        return;
    int64_t rows[SIM_LANES];
    const Lanes *address = sim_operand(sim, warp, &stmt->operands[0], mask);
    const Lanes *words = sim_operand(sim, warp, &stmt->operands[1], mask);
    if (sim->failed || !matrix_rows(sim, warp, address, 4, rows))
        return;
    for (int lane = 0; lane < SIM_LANES; lane++)
        if (!shadow_write(sim, warp, lane, warp->cta, rows[lane], 16, shadow_writer(warp)))
            return;
    for (int i = 0; i < 4; i++)
        for (int lane = 0; lane < SIM_LANES; lane++)
            for (int half = 0; half < 2; half++) {
                int row, column;
                uint16_t element = (uint16_t)((uint64_t)words[i].at[lane].i >> (16 * half));
                matrix_place(lane, half, is_transposed, &row, &column);
                memcpy(warp->cta->shared + rows[8 * i + row] + 2 * column, &element, sizeof element);
            }
}

/* ---- mma.sync ------------------------------------------------------------------------------------------ */

enum { MATRIX_M = 16, MATRIX_N = 8, MATRIX_K_MAX = 32 };

typedef struct MatrixShape {
    int k;
    DType a, b;
    bool is_integer;
} MatrixShape;

static MatrixShape matrix_shape(const KStmt *stmt) {
    const int *shape = stmt->shape;
    switch (stmt->atom) {
    case ATOM_mma_16bit: return (MatrixShape){16, (DType)shape[0], (DType)shape[0], false};
    case ATOM_mma_tf32: return (MatrixShape){8, DTYPE_TF32, DTYPE_TF32, false};
    case ATOM_mma_int8: return (MatrixShape){32, (DType)shape[0], (DType)shape[1], true};
    default: return (MatrixShape){32, (DType)shape[0], (DType)shape[1], false};
    }
}

/* The registers of A and B. False: the instruction is not executed. */
static bool matrix_operands(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask, const Lanes **a,
                            const Lanes **b) {
    if (!matrix_is_converged(sim, warp, mask))
        return false;
    *a = sim_operand(sim, warp, &stmt->operands[1], mask);
    *b = sim_operand(sim, warp, &stmt->operands[2], mask);
    sim_check_registers(sim, warp, stmt->operands[0].reg, 4, mask);
    return !sim->failed;
}

void sim_mma(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    const Lanes *a_words, *b_words;
    if (!matrix_operands(sim, warp, stmt, mask, &a_words, &b_words))
        return;
    MatrixShape shape = matrix_shape(stmt->source);
    int e = 32 / dtype_bits(shape.a);
    double a[MATRIX_M][MATRIX_K_MAX], b[MATRIX_K_MAX][MATRIX_N];
    for (int lane = 0; lane < SIM_LANES; lane++) {
        int g = lane / 4, t = lane % 4;
        for (int r = 0; r < 4; r++) {
            uint32_t word = (uint32_t)a_words[r].at[lane].i;
            for (int j = 0; j < e; j++)
                a[g + 8 * (r % 2)][(t + 4 * (r / 2)) * e + j] = sim_matrix_element(shape.a, &word, j);
        }
        for (int r = 0; r < 2; r++) {
            uint32_t word = (uint32_t)b_words[r].at[lane].i;
            for (int j = 0; j < e; j++)
                b[(t + 4 * r) * e + j][g] = sim_matrix_element(shape.b, &word, j);
        }
    }
    Lanes *c = &warp->registers[stmt->operands[0].reg];
    for (int lane = 0; lane < SIM_LANES; lane++)
        for (int r = 0; r < 4; r++) {
            int row = lane / 4 + 8 * (r / 2), column = 2 * (lane % 4) + r % 2;
            double sum = 0; /* exact for 8-bit integers */
            for (int k = 0; k < shape.k; k++)
                sum += a[row][k] * b[k][column];
            Number *value = &c[r].at[lane];
            if (shape.is_integer)
                value->i = (int32_t)((uint32_t)value->i + (uint32_t)(int64_t)sum);
            else
                value->f = (float)(value->f + sum);
        }
    for (int r = 0; r < 4; r++)
        sim_set_register(sim, warp, stmt->operands[0].reg + r, mask);
}

/* Each product is added by a fused multiply-add, in the order of K. */
void sim_mma_f64(Sim *sim, SimWarp *warp, const SimStmt *stmt, LaneMask mask) {
    enum { K = 8 };
    const Lanes *a_elements, *b_elements;
    if (!matrix_operands(sim, warp, stmt, mask, &a_elements, &b_elements))
        return;
    double a[MATRIX_M][K], b[K][MATRIX_N];
    for (int lane = 0; lane < SIM_LANES; lane++) {
        int g = lane / 4, t = lane % 4;
        for (int r = 0; r < 4; r++)
            a[g + 8 * (r % 2)][t + 4 * (r / 2)] = a_elements[r].at[lane].f;
        for (int r = 0; r < 2; r++)
            b[t + 4 * r][g] = b_elements[r].at[lane].f;
    }
    Lanes *c = &warp->registers[stmt->operands[0].reg];
    for (int r = 0; r < 4; r++) {
        for (int lane = 0; lane < SIM_LANES; lane++) {
            int row = lane / 4 + 8 * (r / 2), column = 2 * (lane % 4) + r % 2;
            for (int k = 0; k < K; k++)
                c[r].at[lane].f = fma(a[row][k], b[k][column], c[r].at[lane].f);
        }
        sim_set_register(sim, warp, stmt->operands[0].reg + r, mask);
    }
}
