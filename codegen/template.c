#include "codegen/template.h"

const Template *template_of(TemplateKind kind) {
    static const Template *const templates[TEMPLATE_COUNT] = {
        [TEMPLATE_POINTWISE] = &template_pointwise, [TEMPLATE_ROWS] = &template_rows,
        [TEMPLATE_COLUMNS] = &template_columns,     [TEMPLATE_TRANSPOSE] = &template_transpose,
        [TEMPLATE_MATMUL] = &template_matmul,       [TEMPLATE_CHAIN] = &template_chain,
    };
    return templates[kind];
}

void template_order(Builder *b, const Region *region) {
    if (b->kernel->target->sm < atom_info(ATOM_grid_wait)->sm)
        return;
    if (b->kernel->waits)
        k_atom(b, ATOM_grid_wait, NULL, NULL, 0);
    if (region->leads)
        k_atom(b, ATOM_grid_launch, NULL, NULL, 0);
}
