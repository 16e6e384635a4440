/* Kernel IR to what the simulator runs: variables become numbered registers, expression trees become lists of
 * operations with a fixed place for each intermediate value, so that evaluation neither recurses nor
 * allocates. */
#include "codegen/simulate_internal.h"

typedef struct Compile {
    Sim *sim;
    VEC(SimOp) ops;
    int depth; /* slots taken by the statement */
} Compile;

static Lanes *compile_slot(Compile *c) {
    Sim *sim = c->sim;
    while ((size_t)c->depth >= sim->slots.n)
        vec_push(sim->arena, &sim->slots, ARENA_NEW(sim->arena, Lanes));
    return sim->slots.at[c->depth++];
}

static SimRef compile_constant(Compile *c, Number value) {
    Lanes *lanes = ARENA_NEW(c->sim->arena, Lanes);
    for (int lane = 0; lane < SIM_LANES; lane++)
        lanes->at[lane] = value;
    return (SimRef){.fixed = lanes};
}

static SimCode compile_scalar_code(OpKind op, KType type) {
    if (op == OP_select)
        return SIM_SELECT;
    if (type == K_I32)
        switch (op) {
        case OP_add: return SIM_I32_ADD;
        case OP_sub: return SIM_I32_SUB;
        case OP_mul: return SIM_I32_MUL;
        case OP_div: return SIM_I32_DIV;
        case OP_mod: return SIM_I32_MOD;
        case OP_lt: return SIM_I32_LT;
        case OP_ge: return SIM_I32_GE;
        default: return SIM_SCALAR;
        }
    if (type == K_F32)
        switch (op) {
        case OP_add: return SIM_F32_ADD;
        case OP_sub: return SIM_F32_SUB;
        case OP_mul: return SIM_F32_MUL;
        case OP_fma: return SIM_F32_FMA;
        default: return SIM_SCALAR;
        }
    return type == K_BOOL && op == OP_and ? SIM_BOOL_AND : SIM_SCALAR;
}

static SimCode compile_code(const KExpr *x, KType type) {
    switch (x->kind) {
    case KX_SCALAR: return compile_scalar_code(x->op, type);
    case KX_MUL_HI: return SIM_MUL_HI;
    case KX_CONVERT: return SIM_CONVERT;
    case KX_ROUND: return SIM_ROUND;
    case KX_BITCAST: return SIM_BITCAST;
    case KX_PACK: return SIM_PACK;
    case KX_UNPACK: return SIM_UNPACK;
    default: return SIM_ADDRESS;
    }
}

static SimRef compile_register(Compile *c, const KExpr *x, int reg) {
    SimOp check = {.code = SIM_CHECK, .expr = x, .reg = reg, .count = 1};
    vec_push(c->sim->arena, &c->ops, check);
    return (SimRef){.reg = reg};
}

static SimRef compile_tree(Compile *c, const KExpr *x) {
    Sim *sim = c->sim;
    switch (x->kind) {
    case KX_INT: return compile_constant(c, (Number){.i = x->i});
    case KX_FLOAT: return compile_constant(c, (Number){.f = x->f});
    case KX_PARAM: return compile_constant(c, (Number){.i = sim->params[x->i]});
    case KX_TENSOR_MAP: return compile_constant(c, (Number){.i = x->i});
    case KX_SPECIAL: return (SimRef){.reg = (int)x->i};
    case KX_VAR: return compile_register(c, x, sim->register_of[x->var->id]);
    case KX_ELEM:
        if (x->args[0]->kind == KX_INT)
            return compile_register(c, x, sim->register_of[x->var->id] + (int)x->args[0]->i);
        break;
    default: break;
    }
    SimOp op = {.expr = x};
    int depth = c->depth;
    for (int i = 0; i < x->n_args; i++)
        op.args[i] = compile_tree(c, x->args[i]);
    c->depth = depth;
    op.dst = compile_slot(c); /* may be an operand's place: operations go lane by lane */
    bool is_select = x->kind == KX_SCALAR && x->op == OP_select;
    op.type = x->args[is_select]->type;
    if (x->kind == KX_ELEM) {
        op.code = SIM_ELEM;
        op.reg = sim->register_of[x->var->id];
        op.count = x->var->count;
    } else {
        op.code = compile_code(x, op.type);
    }
    vec_push(sim->arena, &c->ops, op);
    return (SimRef){.fixed = op.dst};
}

/* Slots stay taken until the statement ends, so that all its expressions can be evaluated before any is used.
 */
static SimExpr compile_expr(Compile *c, const KExpr *x) {
    if (!x)
        return (SimExpr){.result = {.reg = -1}};
    memset(&c->ops, 0, sizeof c->ops);
    int depth = c->depth;
    SimRef result = compile_tree(c, x);
    c->depth = depth + 1;
    return (SimExpr){.ops = c->ops.at, .n = (int)c->ops.n, .result = result};
}

static void compile_block(Sim *sim, const KBlock *block, SimBlock *out);

static void compile_operands(Compile *c, const KStmt *stmt, SimStmt *out) {
    out->operands = ARENA_ARRAY(c->sim->arena, SimOperand, (size_t)stmt->n_operands);
    for (int i = 0; i < stmt->n_operands; i++) {
        const KOperand *operand = &stmt->operands[i];
        SimOperand *compiled = &out->operands[i];
        compiled->is_registers = operand->var != NULL;
        if (operand->var) {
            compiled->reg = c->sim->register_of[operand->var->id] + operand->at;
            compiled->count = operand->count;
        } else {
            compiled->expr = compile_expr(c, operand->expr);
        }
    }
}

static SimStmt *compile_stmt(Sim *sim, const KStmt *stmt) {
    Compile c = {.sim = sim};
    SimStmt *out = ARENA_NEW(sim->arena, SimStmt);
    out->source = stmt;
    out->reg = stmt->var ? sim->register_of[stmt->var->id] : -1;
    out->value = compile_expr(&c, stmt->expr);
    out->index = compile_expr(&c, stmt->index);
    out->at = compile_expr(&c, stmt->at);
    out->guard = compile_expr(&c, stmt->guard);
    out->begin = compile_expr(&c, stmt->begin);
    out->end = compile_expr(&c, stmt->end);
    out->step = compile_expr(&c, stmt->step_expr);
    compile_operands(&c, stmt, out);
    compile_block(sim, &stmt->body, &out->body);
    compile_block(sim, &stmt->other, &out->other);
    return out;
}

static void compile_block(Sim *sim, const KBlock *block, SimBlock *out) {
    for (size_t i = 0; i < block->n; i++)
        if (block->at[i]->kind != KS_COMMENT)
            vec_push(sim->arena, out, compile_stmt(sim, block->at[i]));
}

void sim_compile(Sim *sim) {
    const Kernel *kernel = sim->kernel;
    sim->register_of = ARENA_ARRAY(sim->arena, int, kernel->vars.n + 1);
    sim->n_registers = SIM_FIRST_REGISTER;
    for (size_t i = 0; i < kernel->vars.n; i++) {
        sim->register_of[i] = sim->n_registers;
        sim->n_registers += kernel->vars.at[i]->count ? kernel->vars.at[i]->count : 1;
    }
    compile_block(sim, &kernel->body, &sim->program);
}
