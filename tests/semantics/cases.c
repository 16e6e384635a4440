/* Writes the semantic cases of one group as graph text: every row of the tables of operations, on every
 * element type, on shapes that are aligned, ragged, strided, broadcast, empty and of size 1. `sinter verify`
 * runs them on whatever device is asked for.
 *
 *     cases scalar|cast|reduction|movement|random|matmul > cases.sg
 *
 * A row without a case cannot exist: the loops are over the tables, and an operation that no group knows ends
 * the program with 1. */
#include <stdio.h>
#include <string.h>

#include "ir/op.h"
#include "ir/type.h"

/* How the operands of a scalar are brought into its domain; %s is the operand. NULL: as they are. */
typedef struct Domain {
    const char *op, *a, *b;
} Domain;

static const Domain domains[] = {
    {"pow", "(abs(%s) + 0.25)", NULL},
    {"log", "(abs(%s) + 0.25)", NULL},
    {"log2", "(abs(%s) + 0.25)", NULL},
    {"log1p", "abs(%s)", NULL},
    {"one_plus_erf", "abs(%s)", NULL}, /* below 0 it is as precise as a number near 1, not as itself */
    {"sqrt", "abs(%s)", NULL},
    {"rsqrt", "(abs(%s) + 0.25)", NULL},
    {"tan", "(%s * 0.125)", NULL},
    {"exp", "(%s * 0.5)", NULL},
    {"exp2", "(%s * 0.5)", NULL},
    {"expm1", "(%s * 0.5)", NULL},
    {"reciprocal", "(abs(%s) + 0.25)", NULL},
};

/* fmod jumps where a is a multiple of b: whole numbers keep both sides on the same step. */
static const char *domain_of(OpKind op, int operand, bool is_float) {
    const char *name = op_info(op)->name;
    if (is_float && !strcmp(name, "mod"))
        return operand == 0 ? "round(%s * 8.0)" : "(round(abs(%s)) + 1.0)";
    if (is_float && !strcmp(name, "div") && operand == 1)
        return "(abs(%s) + 0.25)";
    if ((!strcmp(name, "shl") || !strcmp(name, "shr")) && operand == 1)
        return "bit_and(%s, 15)";
    for (size_t i = 0; i < sizeof domains / sizeof *domains; i++)
        if (!strcmp(domains[i].op, name))
            return operand == 0 ? domains[i].a : domains[i].b;
    return NULL;
}

typedef struct Shape {
    const char *name;
    const char *operand[3]; /* dims and layout of each operand */
    const char *result;
} Shape;

static const Shape shapes[] = {
    {"aligned", {"64, 128", "64, 128", "64, 128"}, "64, 128"},
    {"ragged", {"5, 37", "5, 37", "5, 37"}, "5, 37"},
    {"strided", {"6, 10 : strides=[1, 6]", "6, 10 : strides=[20, 2]", "6, 10"}, "6, 10"},
    {"broadcast", {"7, 1", "1, 24", "24"}, "7, 24"},
    {"empty", {"0, 16", "0, 16", "0, 16"}, "0, 16"},
    {"one", {"1", "1", "1"}, "1"},
};

static void print_operand(const char *domain, const char *name) {
    char text[128];
    if (domain) {
        /* a domain holds exactly one %s */
        const char *mark = strstr(domain, "%s");
        snprintf(text, sizeof text, "%.*s%s%s", (int)(mark - domain), domain, name, mark + 2);
        printf("%s", text);
    } else {
        printf("%s", name);
    }
}

static DType scalar_result(const OpInfo *info, DType type) {
    DType compute = dtype_compute(type);
    switch (info->rule) {
    case RULE_COMPARE:
    case RULE_LOGIC: return DTYPE_BOOL;
    case RULE_FLOAT: return compute == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
    case RULE_ARITH:
    case RULE_SELECT: return !info->int_ref && !dtype_is_float(compute) ? DTYPE_F32 : compute;
    case RULE_BITS: return compute;
    }
    return compute;
}

static void scalar_case(OpKind op, const Shape *shape) {
    const OpInfo *info = op_info(op);
    const char *names = "abc";
    printf("graph %s_%s (", info->name, shape->name);
    const char *comma = "";
    for (int t = 0; t < DTYPE_COUNT; t++) {
        if (info->rule == RULE_BITS && (dtype_is_float((DType)t) || t == DTYPE_BOOL))
            continue;
        for (int i = 0; i < info->n_in; i++, comma = ", ")
            printf("%s%c_%s: %s[%s]", comma, names[i], dtype_name((DType)t),
                   info->rule == RULE_SELECT && i == 0 ? "bool" : dtype_name((DType)t), shape->operand[i]);
    }
    printf(") -> (");
    comma = "";
    for (int t = 0; t < DTYPE_COUNT; t++) {
        if (info->rule == RULE_BITS && (dtype_is_float((DType)t) || t == DTYPE_BOOL))
            continue;
        printf("%sy_%s: %s[%s]", comma, dtype_name((DType)t), dtype_name(scalar_result(info, (DType)t)),
               info->n_in == 1 ? strcmp(shape->name, "broadcast") ? shape->result : "7, 1" : shape->result);
        comma = ", ";
    }
    printf(")\n{\n");
    for (int t = 0; t < DTYPE_COUNT; t++) {
        if (info->rule == RULE_BITS && (dtype_is_float((DType)t) || t == DTYPE_BOOL))
            continue;
        bool is_float = dtype_is_float((DType)t) || !info->int_ref;
        printf("    y_%s = %s(", dtype_name((DType)t), info->name);
        for (int i = 0; i < info->n_in; i++) {
            char name[16];
            snprintf(name, sizeof name, "%c_%s", names[i], dtype_name((DType)t));
            printf("%s", i ? ", " : "");
            print_operand(domain_of(op, i, is_float), name);
        }
        printf(")\n");
    }
    printf("}\ncheck %s_%s { }\n\n", info->name, shape->name);
}

static void cast_cases(void) {
    for (int from = 0; from < DTYPE_COUNT; from++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            if (!strcmp(shapes[s].name, "broadcast"))
                continue;
            const char *name = dtype_name((DType)from), *comma = "";
            printf("graph cast_%s_%s (x: %s[%s]) -> (", name, shapes[s].name, name, shapes[s].operand[0]);
            for (int to = 0; to < DTYPE_COUNT; to++, comma = ", ")
                printf("%sy_%s: %s[%s], z_%s: %s[%s]", comma, dtype_name((DType)to), dtype_name((DType)to),
                       shapes[s].result, dtype_name((DType)to), dtype_name((DType)to), shapes[s].result);
            printf(")\n{\n");
            for (int to = 0; to < DTYPE_COUNT; to++)
                printf("    y_%s = cast(x, dtype=%s)\n    z_%s = cast(x * 256, dtype=%s)\n",
                       dtype_name((DType)to), dtype_name((DType)to), dtype_name((DType)to),
                       dtype_name((DType)to));
            printf("}\ncheck cast_%s_%s { }\n\n", name, shapes[s].name);
        }
}

/* Dims of x, reduced axes, dims kept: inner, outer, middle, all, none left, long. */
typedef struct Reduce {
    const char *name, *dims, *over, *kept;
} Reduce;

static const Reduce reduces[] = {
    {"rows", "33, 64", "[1]", "33, 1"},      {"rows_ragged", "5, 37", "[1]", "5, 1"},
    {"rows_long", "3, 5000", "[1]", "3, 1"}, {"columns", "70, 48", "[0]", "1, 48"},
    {"middle", "4, 9, 6", "[1]", "4, 1, 6"}, {"outer_inner", "4, 9, 6", "[0, 2]", "1, 9, 1"},
    {"all", "6, 50", "[0, 1]", "1, 1"},      {"strided", "6, 10 : strides=[1, 6]", "[1]", "6, 1"},
    {"empty", "4, 0", "[1]", "4, 1"},        {"one", "1", "[0]", "1"},
};

static void reduction_case(OpKind op, const Reduce *r) {
    const OpInfo *info = op_info(op);
    bool arg = op == OP_argmax || op == OP_argmin, logical = op == OP_any || op == OP_all;
    const char *comma = "";
    printf("graph %s_%s (", info->name, r->name);
    for (int t = 0; t < DTYPE_COUNT; t++, comma = ", ")
        printf("%sx_%s: %s[%s]", comma, dtype_name((DType)t), dtype_name((DType)t), r->dims);
    printf(") -> (");
    comma = "";
    for (int t = 0; t < DTYPE_COUNT; t++, comma = ", ")
        printf("%sy_%s: %s[%s]", comma, dtype_name((DType)t),
               dtype_name(arg       ? DTYPE_I64
                          : logical ? DTYPE_BOOL
                                    : dtype_compute((DType)t)),
               r->kept);
    printf(")\n{\n");
    for (int t = 0; t < DTYPE_COUNT; t++) {
        const char *type = dtype_name((DType)t);
        if (op == OP_prod && dtype_is_float((DType)t) &&
            !strcmp(r->name, "rows_long")) /* thousands of roundings: exact factors */
            printf("    y_%s = prod(select(x_%s > 0.0, 1.0, -1.0), over=%s)\n", type, type, r->over);
        else if (op == OP_prod && dtype_is_float((DType)t)) /* keeps the product finite */
            printf("    y_%s = prod(sin(x_%s) * 0.1 + 1.0, over=%s)\n", type, type, r->over);
        else if (op == OP_sum &&
                 dtype_is_float(
                     (DType)t)) /* a sum that does not cancel, so that relative error means something */
            printf("    y_%s = sum(x_%s * 0.25 + 1.0, over=%s)\n", type, type, r->over);
        else
            printf("    y_%s = %s(x_%s, over=%s)\n", type, info->name, type, r->over);
    }
    printf("}\ncheck %s_%s { }\n\n", info->name, r->name);
}

/* In a call, %s is the operand and %t its element type. */
typedef struct Movement {
    const char *op, *name, *dims, *call, *result;
} Movement;

static const Movement movements[] = {
    {"broadcast", "rows", "5, 1", "broadcast(%s, dims=[5, 24])", "5, 24"},
    {"broadcast", "leading", "24", "broadcast(%s, dims=[3, 24])", "3, 24"},
    {"reshape", "join", "4, 6, 8", "reshape(%s, dims=[24, 8])", "24, 8"},
    {"reshape", "odd", "3, 10", "reshape(%s, dims=[5, 6])", "5, 6"},
    {"transpose", "plain", "33, 64", "transpose(%s, perm=[1, 0])", "64, 33"},
    {"transpose", "tiles", "128, 96", "transpose(%s, perm=[1, 0])", "96, 128"},
    {"transpose", "batched", "3, 8, 10", "transpose(%s, perm=[2, 0, 1])", "10, 3, 8"},
    {"transpose", "one", "1, 1", "transpose(%s, perm=[1, 0])", "1, 1"},
    {"slice", "inner", "6, 40", "%s[1:5, 8:24]", "4, 16"},
    {"slice", "steps", "9, 20", "slice(%s, start=[0, 1], limit=[9, 19], step=[2, 3])", "5, 6"},
    {"slice", "empty", "6, 8", "%s[2:2, :]", "0, 8"},
    {"window", "along", "4, 12, 8", "window(%s, axis=1, size=3)", "4, 10, 8, 3"},
    {"window", "apart", "3, 20", "window(%s, axis=1, size=3, step=2, dilation=4)", "3, 6, 3"},
    {"window", "one", "5, 6", "window(%s, axis=0, size=1, step=2)", "3, 6, 1"},
    {"pad", "both", "3, 6", "pad(%s, cast(1, dtype=%t), low=[1, 2], high=[2, 0])", "6, 8"},
    {"concat", "inner", "4, 6", "concat(%s, %s, axis=1)", "4, 12"},
    {"concat", "outer", "2, 8", "concat(%s, %s, axis=0)", "4, 8"},
    {"gather", "rows", "9, 16", "gather(%s, pick, axis=0)", "5, 16"},
    {"gather", "columns", "4, 9", "gather(%s, pick, axis=1)", "4, 5"},
};

static bool movement_cases(OpKind op) {
    bool found = false;
    for (size_t i = 0; i < sizeof movements / sizeof *movements; i++) {
        const Movement *m = &movements[i];
        if (strcmp(m->op, op_info(op)->name))
            continue;
        found = true;
        printf("graph %s_%s (pick: i32[5]", m->op, m->name);
        for (int t = 0; t < DTYPE_COUNT; t++)
            printf(", x_%s: %s[%s]", dtype_name((DType)t), dtype_name((DType)t), m->dims);
        printf(") -> (");
        for (int t = 0; t < DTYPE_COUNT; t++)
            printf("%sy_%s: %s[%s]", t ? ", " : "", dtype_name((DType)t), dtype_name((DType)t), m->result);
        printf(")\n{\n");
        for (int t = 0; t < DTYPE_COUNT; t++) {
            printf("    y_%s = ", dtype_name((DType)t));
            for (const char *p = m->call; *p; p++)
                if (p[0] == '%' && p[1] == 's') {
                    printf("x_%s", dtype_name((DType)t));
                    p++;
                } else if (p[0] == '%' && p[1] == 't') {
                    printf("%s", dtype_name((DType)t));
                    p++;
                } else {
                    putchar(*p);
                }
            printf("\n");
        }
        printf("}\ncheck %s_%s { }\n\n", m->op, m->name);
    }
    return found;
}

static void random_cases(OpKind op) {
    static const char *const dims[] = {"64, 128", "5, 37", "0, 4", "1"};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        printf("graph %s_%zu (seed: i64[]) -> (y: f32[%s], z: f32[%s])\n{\n    y = %s(seed, dims=[%s])\n"
               "    z = %s(seed, dims=[%s], offset=1000)\n}\ncheck %s_%zu { }\n\n",
               op_info(op)->name, i, dims[i], dims[i], op_info(op)->name, dims[i], op_info(op)->name, dims[i],
               op_info(op)->name, i);
}

static void matmul_cases(void) {
    static const struct {
        const char *name, *a, *b, *call, *result;
    } forms[] = {
        {"nt", "M, K", "N, K", "a @ b.T", "M, N"},
        {"nn", "M, K", "K, N", "a @ b", "M, N"},
        {"tn", "K, M", "K, N", "a.T @ b", "M, N"},
        {"tt", "K, M", "N, K", "a.T @ b.T", "M, N"},
        {"batched", "3, M, K", "3, K, N", "a @ b", "3, M, N"},
        {"shared", "3, M, K", "K, N", "a @ b", "3, M, N"},
    };
    static const struct {
        const char *name;
        int m, n, k;
    } sizes[] = {{"aligned", 128, 128, 64}, {"tile", 130, 264, 128}, {"ragged", 33, 41, 29},
                 {"row", 1, 64, 96},        {"column", 48, 1, 64},   {"one", 1, 1, 1},
                 {"empty", 16, 0, 32},      {"no_k", 16, 16, 0}};
    for (int t = 0; t < DTYPE_COUNT; t++) {
        DType type = (DType)t;
        if (type == DTYPE_BOOL)
            continue;
        const char *out = dtype_name(dtype_compute(type));
        /* Tensor cores add fp8 products with about 14 bits of mantissa (Hopper; measured 1.4e-4 at K = 128).
         */
        const char *tolerance = type == DTYPE_E4M3 || type == DTYPE_E5M2 ? "; rtol = 1e-3" : "";
        for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
            printf("graph matmul_%s_%s (a: %s[%s], b: %s[%s]) -> (y: %s[%s])\n{   y = %s   }\n",
                   dtype_name(type), forms[f].name, dtype_name(type), forms[f].a, dtype_name(type),
                   forms[f].b, out, forms[f].result, forms[f].call);
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                printf("check matmul_%s_%s { M = %d; N = %d; K = %d%s }   # %s\n", dtype_name(type),
                       forms[f].name, sizes[s].m, sizes[s].n, sizes[s].k, tolerance, sizes[s].name);
            printf("\n");
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: cases scalar|cast|reduction|movement|random|matmul\n");
        return 2;
    }
    const char *group = argv[1];
    printf("sinter 1\n\n");
    for (int k = 0; k < OP_COUNT; k++) {
        OpKind op = (OpKind)k;
        const OpInfo *info = op_info(op);
        if (op_is_scalar(op)) {
            for (size_t s = 0; !strcmp(group, "scalar") && s < sizeof shapes / sizeof *shapes; s++)
                scalar_case(op, &shapes[s]);
            continue;
        }
        switch (info->class_) {
        case OPCLASS_BORDER:
            break; /* every case has inputs; dims and constants stand in samples and in cudnn_*.sg */
        case OPCLASS_POINTWISE:
            if (op == OP_cast && !strcmp(group, "cast"))
                cast_cases();
            else if (op == OP_index && !strcmp(group, "movement"))
                printf("graph index_axes () -> (y: i32[5, 37], z: i32[5, 37])\n{\n    y = "
                       "broadcast(index(dims=[5, 37], axis=0), "
                       "dims=[5, 37])\n    z = broadcast(index(dims=[5, 37], axis=1), dims=[5, "
                       "37])\n}\ncheck index_axes { }\n\n");
            break;
        case OPCLASS_RANDOM:
            if (!strcmp(group, "random"))
                random_cases(op);
            break;
        case OPCLASS_MOVEMENT:
            if (!strcmp(group, "movement") && !movement_cases(op)) {
                fprintf(stderr, "cases: no case moves by '%s'\n", info->name);
                return 1;
            }
            break;
        case OPCLASS_REDUCTION:
            for (size_t r = 0; !strcmp(group, "reduction") && r < sizeof reduces / sizeof *reduces; r++)
                reduction_case(op, &reduces[r]);
            break;
        case OPCLASS_CONTRACTION:
            if (!strcmp(group, "matmul"))
                matmul_cases();
            break;
        case OPCLASS_COMPOSITE:
        case OPCLASS_RECURRENT:
        case OPCLASS_COLLECTIVE: fprintf(stderr, "cases: no case for '%s'\n", info->name); return 1;
        }
    }
    return 0;
}
