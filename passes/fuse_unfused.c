/* Without fusion: every operation that computes something is a kernel of its own; views stay views. What
 * `bench` compares with. */
#include "passes/fuse.h"

static Group *unfused_group(Fuse *fuse, Value *value) {
    int n_reduced = 0;
    Value *operand = value->n_in ? value->in[0] : NULL;
    if (value_class(value) == OPCLASS_REDUCTION) {
        switch (reduction_layout(value, &n_reduced)) {
        case REDUCTION_ROWS: return group_new(fuse, TEMPLATE_ROWS, operand->rank, operand->dims, n_reduced);
        case REDUCTION_COLUMNS:
            return group_new(fuse, TEMPLATE_COLUMNS, operand->rank, operand->dims, n_reduced);
        case REDUCTION_MIXED: break;
        }
    }
    return group_new(fuse, value->op == OP_matmul ? TEMPLATE_MATMUL : TEMPLATE_POINTWISE, value->rank,
                     value->dims, 0);
}

void fuse_unfused(Fuse *fuse) {
    for (size_t i = 0; i < fuse->graph->values.n; i++) {
        Value *value = fuse->graph->values.at[i];
        FuseNode *node = &fuse->nodes[i];
        if (node->free || value->op == OP_input)
            continue;
        if (op_is_view(value->op) || value->op == OP_index) {
            group_float(fuse, value);
            continue;
        }
        node->barrier = true;
        Group *group = unfused_group(fuse, value);
        if (group->kind == TEMPLATE_MATMUL)
            group_add_core(fuse, group, value);
        else
            group_join(fuse, group, value);
    }
    if (fuse->graph->outputs.n)
        pass_decide(fuse->pass, "no_fusion", false, fuse->graph->outputs.at[0].value, NULL, "fusion",
                    "every operation is a kernel of its own");
}
