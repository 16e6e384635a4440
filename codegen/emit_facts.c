#include "codegen/emit_facts.h"

#include "codegen/atom.h"
#include "codegen/kernel_value.h"

bool emit_is_data(const EmitFacts *facts, const KExpr *expr) {
    switch (expr->kind) {
    case KX_VAR:
    case KX_ELEM: return facts->is_data[expr->var->id];
    case KX_UNPACK: return ktype_is_int(expr->type);
    case KX_SCALAR: /* a place among numbers is chosen by comparing them */
        if (expr->is_guarded || (expr->type == K_BOOL && ktype_is_float(expr->args[0]->type)))
            return true;
        break;
    case KX_BITCAST:
        if (ktype_is_int(expr->type) && ktype_is_float(expr->args[0]->type))
            return true;
        break;
    case KX_CONVERT:
        if (ktype_is_int(expr->type) &&
            (ktype_is_float(expr->args[0]->type) || expr->args[0]->type == K_BOOL))
            return true; /* no index is made from a condition */
        break;
    default: break;
    }
    for (int i = 0; i < expr->n_args; i++)
        if (emit_is_data(facts, expr->args[i]))
            return true;
    return false;
}

/* Marks what becomes data by these statements, given what is data already; whether there was anything new. */
static bool facts_mark(EmitFacts *facts, const KVar *var, bool is_data) {
    if (!is_data || ktype_is_float(var->type) || facts->is_data[var->id])
        return false;
    facts->is_data[var->id] = true;
    return true;
}

/* Whether what an atom writes is data. A shuffle of coordinates gives a coordinate; settling changes nothing.
 */
static bool facts_atom_is_data(const EmitFacts *facts, const KStmt *stmt) {
    switch (stmt->atom) {
    case ATOM_settle_i32:
    case ATOM_settle_i64: return false;
    case ATOM_shuffle_index:
    case ATOM_shuffle_xor: {
        const KOperand *from = &stmt->operands[1];
        return from->var ? facts->is_data[from->var->id] : emit_is_data(facts, from->expr);
    }
    default: return true;
    }
}

static bool facts_visit(EmitFacts *facts, const KBlock *block) {
    bool changed = false;
    for (size_t i = 0; i < block->n; i++) {
        const KStmt *stmt = block->at[i];
        switch (stmt->kind) {
        case KS_DECLARE:
        case KS_SET:
            changed |= facts_mark(facts, stmt->var, stmt->expr && emit_is_data(facts, stmt->expr));
            break;
        case KS_LOAD: changed |= facts_mark(facts, stmt->var, true); break;
        case KS_ATOM:
            for (int j = 0, is_data = facts_atom_is_data(facts, stmt); j < stmt->n_operands && is_data; j++)
                if (stmt->operands[j].var && !stmt->operands[j].var->is_let)
                    changed |= facts_mark(facts, stmt->operands[j].var, true);
            break;
        case KS_FOR:
            changed |= facts_mark(facts, stmt->var, emit_is_data(facts, stmt->begin));
            changed |= facts_visit(facts, &stmt->body);
            break;
        case KS_IF:
            changed |= facts_visit(facts, &stmt->body);
            changed |= facts_visit(facts, &stmt->other);
            break;
        case KS_STORE:
        case KS_COMMENT: break;
        }
    }
    return changed;
}

EmitFacts emit_facts(Arena *arena, const Kernel *kernel) {
    EmitFacts facts = {.is_data = ARENA_ARRAY(arena, bool, kernel->vars.n)};
    while (facts_visit(&facts, &kernel->body)) {
        /* a variable that is set later in a loop may reach what stands earlier */
    }
    return facts;
}
