#include "codegen/template.h"

const Template *template_of(TemplateKind kind) {
    static const Template *const templates[TEMPLATE_COUNT] = {
        [TEMPLATE_POINTWISE] = &template_pointwise, [TEMPLATE_ROWS] = &template_rows,
        [TEMPLATE_COLUMNS] = &template_columns,     [TEMPLATE_TRANSPOSE] = &template_transpose,
        [TEMPLATE_MATMUL] = &template_matmul,       [TEMPLATE_CHAIN] = &template_chain,
    };
    return templates[kind];
}
