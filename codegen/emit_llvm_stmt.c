/* Statements of kernel IR as LLVM IR. Loops marked UNROLL_FULL are unrolled here, so that indices of register
 * arrays are constants. */
#include "codegen/emit_llvm.h"

#include <llvm-c/DebugInfo.h>

/* What unrolling may make of a kernel; more is no sensible kernel, and would take minutes. */
enum { LLVM_STATEMENT_LIMIT = 1 << 20 };

static void stmt_declare(EmitLlvm *e, const KStmt *stmt) {
    const KVar *var = stmt->var;
    if (!stmt->expr)
        return;
    LLVMValueRef value = llvm_whole_expr(e, stmt->expr);
    if (var->is_let) {
        if (LLVMIsAInstruction(value) && !var->count)
            LLVMSetValueName2(value, var->name, strlen(var->name));
        e->lets[var->id] = value;
        return;
    }
    for (int i = 0; i < (var->count ? var->count : 1); i++)
        LLVMBuildStore(e->builder, value, e->slots[var->id][i]);
}

static void stmt_set(EmitLlvm *e, const KStmt *stmt) {
    LLVMValueRef index = stmt->index ? llvm_whole_expr(e, stmt->index) : NULL;
    LLVMValueRef value = llvm_whole_expr(e, stmt->expr);
    LLVMBuildStore(e->builder, value, llvm_slot(e, stmt->var, index, 0));
}

static void stmt_unrolled(EmitLlvm *e, const KStmt *stmt) {
    LLVMValueRef begin = llvm_whole_expr(e, stmt->begin), end = llvm_whole_expr(e, stmt->end);
    LLVMValueRef step = stmt->step_expr ? llvm_whole_expr(e, stmt->step_expr) : NULL;
    if (!LLVMIsAConstantInt(begin) || !LLVMIsAConstantInt(end) || (step && !LLVMIsAConstantInt(step))) {
        llvm_fail(e, stmt, "the loop over '%s' is to be unrolled, but its bounds are not constant",
                  stmt->var->name);
        return;
    }
    int64_t by = step ? LLVMConstIntGetSExtValue(step) : stmt->step;
    if (by <= 0) {
        llvm_fail(e, stmt, "the loop over '%s' does not advance", stmt->var->name);
        return;
    }
    int64_t stop = LLVMConstIntGetSExtValue(end);
    for (int64_t i = LLVMConstIntGetSExtValue(begin); i < stop && !e->failed; i += by) {
        e->lets[stmt->var->id] = llvm_int(e, stmt->var->type, i);
        llvm_block(e, &stmt->body);
        if (i > stop - by)
            break; /* the sum may not fit */
    }
}

/* Tells ptxas too that the loop ending in this branch stays one: LLVM makes `.pragma "nounroll"` of it (LLVM
 * language reference, "llvm.loop"). A loop's node names itself first, so that no two loops share one. */
static void stmt_loop_stays(EmitLlvm *e, LLVMValueRef branch) {
    static const char DISABLE[] = "llvm.loop.unroll.disable";
    LLVMMetadataRef itself = LLVMTemporaryMDNode(e->context, NULL, 0);
    LLVMMetadataRef name = LLVMMDStringInContext2(e->context, DISABLE, sizeof DISABLE - 1);
    LLVMMetadataRef parts[] = {itself, LLVMMDNodeInContext2(e->context, &name, 1)};
    LLVMMetadataRef loop = LLVMMDNodeInContext2(e->context, parts, 2);
    LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(e->context, "llvm.loop", 9),
                    LLVMMetadataAsValue(e->context, loop));
    LLVMMetadataReplaceAllUsesWith(itself, loop);
}

static void stmt_loop(EmitLlvm *e, const KStmt *stmt) {
    LLVMBuilderRef b = e->builder;
    LLVMTypeRef type = llvm_type(e, stmt->var->type);
    LLVMValueRef begin = llvm_whole_expr(e, stmt->begin);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    LLVMBasicBlockRef head = LLVMAppendBasicBlockInContext(e->context, e->function, "head");
    LLVMBasicBlockRef body = LLVMAppendBasicBlockInContext(e->context, e->function, "body");
    LLVMBasicBlockRef after = LLVMAppendBasicBlockInContext(e->context, e->function, "after");
    LLVMBuildBr(b, head);
    LLVMPositionBuilderAtEnd(b, head);
    LLVMValueRef i = LLVMBuildPhi(b, type, stmt->var->name);
    e->lets[stmt->var->id] = i;
    LLVMValueRef end = llvm_whole_expr(e, stmt->end);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, i, end, ""), body, after);
    LLVMPositionBuilderAtEnd(b, body);
    llvm_block(e, &stmt->body);
    LLVMValueRef step = stmt->step_expr ? llvm_whole_expr(e, stmt->step_expr)
                                        : LLVMConstInt(type, (unsigned long long)stmt->step, 1);
    LLVMValueRef next = LLVMBuildNSWAdd(b, i, step, "");
    LLVMValueRef values[] = {begin, next};
    LLVMBasicBlockRef blocks[] = {before, LLVMGetInsertBlock(b)};
    LLVMAddIncoming(i, values, blocks, 2);
    LLVMValueRef back = LLVMBuildBr(b, head);
    if (stmt->unroll == UNROLL_NONE)
        stmt_loop_stays(e, back);
    LLVMPositionBuilderAtEnd(b, after);
}

static void stmt_if(EmitLlvm *e, const KStmt *stmt) {
    LLVMBuilderRef b = e->builder;
    LLVMValueRef condition = llvm_whole_expr(e, stmt->expr);
    LLVMBasicBlockRef then =
        LLVMAppendBasicBlockInContext(e->context, e->function, stmt->name ? stmt->name : "then");
    LLVMBasicBlockRef other =
        stmt->other.n ? LLVMAppendBasicBlockInContext(e->context, e->function, "else") : NULL;
    LLVMBasicBlockRef join = LLVMAppendBasicBlockInContext(e->context, e->function, "join");
    LLVMBuildCondBr(b, condition, then, other ? other : join);
    LLVMPositionBuilderAtEnd(b, then);
    llvm_block(e, &stmt->body);
    LLVMBuildBr(b, join);
    if (other) {
        LLVMPositionBuilderAtEnd(b, other);
        llvm_block(e, &stmt->other);
        LLVMBuildBr(b, join);
    }
    LLVMPositionBuilderAtEnd(b, join);
}

void llvm_block(EmitLlvm *e, const KBlock *block) {
    for (size_t i = 0; i < block->n && !e->failed; i++) {
        const KStmt *stmt = block->at[i];
        if (++e->statements > LLVM_STATEMENT_LIMIT) {
            llvm_fail(e, stmt, "unrolling gives more than %d statements", LLVM_STATEMENT_LIMIT);
            return;
        }
        switch (stmt->kind) {
        case KS_DECLARE: stmt_declare(e, stmt); break;
        case KS_SET: stmt_set(e, stmt); break;
        case KS_LOAD: llvm_load(e, stmt); break;
        case KS_STORE: llvm_store(e, stmt); break;
        case KS_FOR:
            if (stmt->unroll == UNROLL_FULL)
                stmt_unrolled(e, stmt);
            else
                stmt_loop(e, stmt);
            break;
        case KS_IF: stmt_if(e, stmt); break;
        case KS_ATOM: llvm_atom(e, stmt); break;
        case KS_COMMENT: break;
        }
    }
}
