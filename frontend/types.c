/* Written types: element type, dims, and layout as strides.
 *
 * A layout names the dims from the outermost in memory to the innermost, by letters: [B,C,H,W : NHWC] is
 * memory in the order B, H, W, C. A letter stands for the dim whose name starts with it; N, for the batch,
 * also for the one dim that no other letter names. Where names do not decide, as in [8, 32, H, W : NHWC], the
 * letters are those of the customary order N, C, (D,) H, W. */
#include "frontend/expand.h"

static void types_declare(Expand *expand, const Expr *expr) {
    switch (expr->kind) {
    case EXPR_NAME: dim_symbol(expand->graph->dims, expr->name); break;
    case EXPR_UNARY: types_declare(expand, expr->a); break;
    case EXPR_BINARY:
        types_declare(expand, expr->a);
        types_declare(expand, expr->b);
        break;
    case EXPR_CALL:
        for (size_t i = 0; i < expr->arguments.n; i++)
            types_declare(expand, expr->arguments.at[i].value);
        break;
    default: break;
    }
}

void type_declare(Expand *expand, const TypeSyntax *syntax) {
    for (size_t i = 0; i < syntax->dims.n; i++)
        types_declare(expand, syntax->dims.at[i]);
    for (size_t i = 0; i < syntax->strides.n; i++)
        types_declare(expand, syntax->strides.at[i]);
}

/* As many dims as `exprs` has, into out[0..RANK_MAX). */
static bool types_dims(Expand *expand, const ExprList *exprs, const Dim **out, const char *what) {
    bool good = true;
    for (size_t i = 0; i < exprs->n; i++) {
        const Expr *expr = exprs->at[i];
        out[i] = meaning_dim(expand, expand_expr(expand, expr), expr->span, what);
        good &= out[i] != NULL;
    }
    return good;
}

/* ---- layouts ---- */

static char types_upper(char c) {
    return (char)(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
}

/* order[k] = the axis that the k-th letter names, by the first letters of the dims' names. */
static bool types_order_by_name(Expand *expand, const char *letters, const TypeMeaning *type, int *order) {
    bool used[RANK_MAX] = {false};
    int open = -1, n_open = 0;
    for (int k = 0; k < type->rank; k++) {
        order[k] = -1;
        for (int i = 0; i < type->rank; i++) {
            const Dim *dim = type->dims[i];
            if (used[i] || dim->kind != DIM_SYMBOL ||
                types_upper(dim_symbol_name(expand->graph->dims, dim->symbol)[0]) != letters[k])
                continue;
            if (order[k] >= 0)
                return false;
            order[k] = i;
        }
        if (order[k] >= 0) {
            used[order[k]] = true;
        } else {
            open = k;
            n_open++;
        }
    }
    if (n_open == 1 && letters[open] == 'N')
        for (int i = 0; i < type->rank; i++)
            if (!used[i]) {
                order[open] = i;
                return true;
            }
    return n_open == 0;
}

static bool types_order_by_custom(const char *letters, const TypeMeaning *type, int *order) {
    static const char *const custom[] = {[2] = "NC", [3] = "NCW", [4] = "NCHW", [5] = "NCDHW"};
    if (type->rank < 2 || type->rank > 5)
        return false;
    for (int k = 0; k < type->rank; k++) {
        const char *found = strchr(custom[type->rank], letters[k]);
        if (!found)
            return false;
        order[k] = (int)(found - custom[type->rank]);
        for (int j = 0; j < k; j++)
            if (order[j] == order[k])
                return false;
    }
    return true;
}

static bool types_layout(Expand *expand, const TypeSyntax *syntax, TypeMeaning *type) {
    const char *word = syntax->layout.text;
    char letters[RANK_MAX + 1] = {0};
    int order[RANK_MAX];
    if (strlen(word) != (size_t)type->rank) {
        expand_fail(expand, DIAG_RANK, syntax->layout.span, "the layout '%s' has %zu letters for %d dims",
                    word, strlen(word), type->rank);
        return false;
    }
    for (int k = 0; k < type->rank; k++)
        letters[k] = types_upper(word[k]);
    if (!types_order_by_name(expand, letters, type, order) && !types_order_by_custom(letters, type, order)) {
        expand_fail(expand, DIAG_AXIS, syntax->layout.span,
                    "the letters of '%s' do not name each dim once: they are the first letters of the dims' "
                    "names, or those "
                    "of N, C, D, H, W",
                    word);
        return false;
    }
    const Dim *stride = dim_const(expand->graph->dims, 1);
    type->strides = ARENA_ARRAY(expand->graph->arena, const Dim *, (size_t)type->rank + 1);
    bool packed = true;
    for (int k = type->rank - 1; k >= 0; k--) {
        packed &= order[k] == k;
        type->strides[order[k]] = stride;
        stride = dim_mul(expand->graph->dims, stride, type->dims[order[k]]);
        if (!stride) {
            expand_fail(expand, DIAG_DIM, syntax->span, "the size of this tensor overflows 64 bits");
            return false;
        }
    }
    if (packed)
        type->strides = NULL;
    return true;
}

static bool types_strides(Expand *expand, const TypeSyntax *syntax, TypeMeaning *type) {
    if (syntax->strides.n != (size_t)type->rank) {
        expand_fail(expand, DIAG_RANK, syntax->span, "%zu strides for %d dims", syntax->strides.n,
                    type->rank);
        return false;
    }
    type->strides = ARENA_ARRAY(expand->graph->arena, const Dim *, (size_t)type->rank + 1);
    if (!types_dims(expand, &syntax->strides, type->strides, "a stride"))
        return false;
    const Dim *packed[RANK_MAX];
    dims_packed_strides(expand->graph->dims, type->rank, type->dims, packed);
    bool same = true;
    for (int i = 0; i < type->rank; i++) {
        same &= type->strides[i] == packed[i];
        if (dim_upper(expand->graph->dims, type->strides[i]) < 0) {
            expand_fail(expand, DIAG_DIM, syntax->strides.at[i]->span, "a stride may not be negative");
            return false;
        }
    }
    if (same)
        type->strides = NULL;
    return true;
}

bool type_meaning(Expand *expand, const TypeSyntax *syntax, TypeMeaning *out) {
    *out = (TypeMeaning){.dtype = dtype_find(syntax->dtype.text), .has_dims = syntax->has_dims};
    if (out->dtype == DTYPE_COUNT) {
        Suggestion near = suggestion_new(syntax->dtype.text);
        for (int i = 0; i < DTYPE_COUNT; i++)
            suggestion_offer(&near, dtype_name((DType)i));
        expand_fail(expand, DIAG_UNKNOWN_NAME, syntax->dtype.span, "unknown element type '%s'%s",
                    syntax->dtype.text, suggestion_text(expand->arena, &near));
    }
    if (syntax->dims.n > RANK_MAX) {
        expand_fail(expand, DIAG_RANK, syntax->span, "%zu dims; %d are the most", syntax->dims.n, RANK_MAX);
        return false;
    }
    out->rank = (int)syntax->dims.n;
    if (!types_dims(expand, &syntax->dims, out->dims, "a dim"))
        return false;
    const Dim *count = dim_const(expand->graph->dims, 1);
    for (int i = 0; i < out->rank; i++) {
        if (dim_upper(expand->graph->dims, out->dims[i]) < 0) {
            expand_fail(expand, DIAG_DIM, syntax->dims.at[i]->span, "a dim may not be negative");
            return false;
        }
        count = count ? dim_mul(expand->graph->dims, count, out->dims[i]) : NULL;
    }
    int64_t bytes;
    if (!count || (dim_is_const(count) && out->dtype != DTYPE_COUNT &&
                   !dtype_bytes(out->dtype, count->value, &bytes))) {
        expand_fail(expand, DIAG_DIM, syntax->span, "the size of this tensor overflows 64 bits");
        return false;
    }
    if (syntax->layout.text && !types_layout(expand, syntax, out))
        return false;
    if (syntax->has_strides && !types_strides(expand, syntax, out))
        return false;
    return out->dtype != DTYPE_COUNT;
}

/* ---- printing, and what a declaration demands of a value ---- */

static void types_print(Text *out, const Graph *graph, DType dtype, int rank, const Dim *const *dims) {
    text_add(out, "%s", dtype_name(dtype));
    for (int i = 0; i < rank; i++) {
        text_add(out, i ? ", " : "[");
        dim_print(out, graph->dims, dims[i]);
    }
    if (rank > 0)
        text_add(out, "]");
}

Meaning type_apply(Expand *expand, Meaning meaning, const TypeMeaning *type, Word name, Span span) {
    if (meaning.kind == MEANING_FAILED)
        return meaning;
    Value *value = operator_tensor(expand, meaning, dtype_compute(type->dtype), span);
    if (!value)
        return (Meaning){.kind = MEANING_FAILED};
    bool same = !type->has_dims || value->rank == type->rank;
    for (int i = 0; same && type->has_dims && i < type->rank; i++)
        same = value->dims[i] == type->dims[i];
    if (!same) {
        Text has = text_new(expand->arena), wants = text_new(expand->arena);
        types_print(&has, expand->graph, type->dtype, value->rank, value->dims);
        types_print(&wants, expand->graph, type->dtype, type->rank, type->dims);
        return expand_fail(expand, DIAG_OUTPUT, span, "'%s' is declared %s and set to %s", name.text,
                           wants.at, has.at);
    }
    return product_declare(
        expand, operator_cast(expand, (Meaning){.kind = MEANING_TENSOR, .value = value}, type->dtype, span));
}
