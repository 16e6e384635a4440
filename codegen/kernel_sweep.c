#include "codegen/kernel_sweep.h"

typedef struct Sweep {
    int *reads; /* by KVar.id */
    int sign;   /* 1: counts what is read; -1: takes back what a dropped statement reads */
} Sweep;

static void sweep_var(Sweep *sweep, const KVar *var) {
    if (var)
        sweep->reads[var->id] += sweep->sign;
}

static void sweep_expr(Sweep *sweep, const KExpr *x) {
    if (!x)
        return;
    sweep_var(sweep, x->var);
    for (int i = 0; i < x->n_args; i++)
        sweep_expr(sweep, x->args[i]);
}

/* What the statement reads itself; not what the blocks in it read. */
static void sweep_stmt(Sweep *sweep, const KStmt *stmt) {
    const KExpr *exprs[] = {stmt->expr,  stmt->index, stmt->at,       stmt->guard,
                            stmt->begin, stmt->end,   stmt->step_expr};
    for (size_t i = 0; i < sizeof exprs / sizeof *exprs; i++)
        sweep_expr(sweep, exprs[i]);
    if (stmt->kind != KS_DECLARE && stmt->kind != KS_FOR)
        sweep_var(sweep, stmt->var);
    for (int i = 0; i < stmt->n_operands; i++) {
        sweep_var(sweep, stmt->operands[i].var);
        sweep_expr(sweep, stmt->operands[i].expr);
    }
}

static void sweep_count(Sweep *sweep, const KBlock *block) {
    for (size_t i = 0; i < block->n; i++) {
        sweep_stmt(sweep, block->at[i]);
        sweep_count(sweep, &block->at[i]->body);
        sweep_count(sweep, &block->at[i]->other);
    }
}

static bool sweep_is_idle(const Sweep *sweep, const KStmt *stmt) {
    if (stmt->kind == KS_DECLARE)
        return stmt->var->is_let && !sweep->reads[stmt->var->id];
    return stmt->kind == KS_FOR && stmt->unroll == UNROLL_FULL && stmt->body.n == 0;
}

/* From the end on: what a dropped let reads was declared before it. */
static void sweep_block(Sweep *sweep, KBlock *block) {
    size_t kept = block->n;
    for (size_t i = block->n; i-- > 0;) {
        KStmt *stmt = block->at[i];
        sweep_block(sweep, &stmt->other);
        sweep_block(sweep, &stmt->body);
        if (sweep_is_idle(sweep, stmt))
            sweep_stmt(sweep, stmt);
        else
            block->at[--kept] = stmt;
    }
    block->n -= kept;
    for (size_t i = 0; i < block->n; i++)
        block->at[i] = block->at[kept + i];
}

void kernel_sweep(Kernel *kernel) {
    Sweep sweep = {ARENA_ARRAY(kernel->arena, int, kernel->vars.n + 1), 1};
    sweep_count(&sweep, &kernel->body);
    sweep.sign = -1;
    sweep_block(&sweep, &kernel->body);
}
