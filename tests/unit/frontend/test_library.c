/* The library's functions mean what their names say: each is evaluated by the reference and compared with a
 * formula written in C, and each *_backward with differences of its forward function. */
#include <math.h>
#include <string.h>

#include "support.h"

#include "ir/reference.h"

enum { ROWS = 3, COLUMNS = 8 };

/* A graph with one output, run on inputs that depend on their number alone. */
typedef struct Run {
    Parsed parsed;
    const Graph *graph;
    Tensor *inputs, *outputs;
    bool good;
} Run;

static double input_value(size_t input, int64_t i) {
    return 1.7 * sin(0.7 * (double)i + 1.3 * (double)input) + 0.25 * cos(2.1 * (double)i);
}

static void run_body(void *context) {
    Run *run = context;
    Arena *arena = run->parsed.arena;
    const Graph *graph = run->graph;
    DimBindings bindings = dim_bindings_new(arena, graph->dims);
    for (int s = 0; s < bindings.n; s++) {
        bindings.known[s] = true;
        bindings.value[s] = strcmp(dim_symbol_name(graph->dims, s), "M") == 0 ? ROWS : COLUMNS;
    }
    run->inputs = ARENA_ARRAY(arena, Tensor, graph->inputs.n + 1);
    run->outputs = ARENA_ARRAY(arena, Tensor, graph->outputs.n + 1);
    for (size_t k = 0; k < graph->inputs.n; k++) {
        const Value *input = graph->inputs.at[k];
        int64_t dims[RANK_MAX];
        for (int i = 0; i < input->rank; i++)
            dim_eval(input->dims[i], &bindings, &dims[i]);
        tensor_new(arena, input->dtype, input->rank, dims, &run->inputs[k]);
        for (int64_t i = 0; i < run->inputs[k].count; i++)
            if (dtype_is_float(input->dtype))
                run->inputs[k].at[i].f = input_value(k, i);
            else
                run->inputs[k].at[i].i = (i * 5 + 2) % COLUMNS;
    }
    run->good = reference_run(arena, graph, &bindings, run->inputs, run->outputs, run->parsed.diags);
}

/* Functions with several results, each reduced to the one that a test wants. */
static const char helpers[] =
    "fn layernorm_dx (dy, x, g) { y, mu, r = layernorm_train(x, g)\n dx, dg, db = layernorm_backward(dy, x, "
    "g, mu, r)\n"
    " return dx }\n"
    "fn layernorm_dg (dy, x) { y, mu, r = layernorm_train(x)\n dx, dg, db = layernorm_backward(dy, x, none, "
    "mu, r)\n"
    " return dg + 2 * db }\n"
    "fn rmsnorm_dx (dy, x, g) { y, r = rmsnorm_train(x, g)\n dx, dg = rmsnorm_backward(dy, x, g, r)\n return "
    "dx }\n"
    "fn batchnorm_y (x, g) { y, m, i, nm, nv = batchnorm_train(x, g, none, g, g)\n return y }\n"
    "fn batchnorm_running (x, g) { y, m, i, nm, nv = batchnorm_train(x, g, none, g, g)\n return nm + 10 * nv "
    "}\n"
    "fn batchnorm_dx (dy, x, g) { y, m, i, nm, nv = batchnorm_train(x, g, none, g, g)\n"
    " dx, dg, db = batchnorm_backward(dy, x, g, m, i)\n return dx }\n"
    "fn dropped (x, p) { y, mask = dropout(x, p, 42)\n return y }\n"
    "fn kept (x, p) { y, mask = dropout(x, p, 42)\n return mask }\n"
    "fn there_and_back (x, n, to) { q, s = quantize_block(x, n, to)\n return dequantize(q, s, block=[1, n]) "
    "}\n";

static Run run_text(const char *signature, const char *body) {
    char text[4000];
    snprintf(text, sizeof text, "sinter 1\ngraph f %s { %s }\n%s", signature, body, helpers);
    Run run = {.parsed = parse_text(text)};
    assert_parsed(&run.parsed);
    run.graph = run.parsed.module.graphs.at[0];
    assert_true(arena_run(run.parsed.arena, run_body, &run));
    if (!run.good)
        fail_msg("%s: %s", body, parsed_diagnostics(&run.parsed));
    return run;
}

static void assert_close(double got, double wanted, const char *what) {
    if (!(fabs(got - wanted) <= 1e-5 * (1 + fabs(wanted))))
        fail_msg("%s: %.9g, wanted %.9g", what, got, wanted);
}

/* ---- pointwise forward, against formulas in C ---- */

static double logistic(double x) {
    return 1 / (1 + exp(-x));
}
static double c_relu(double x) {
    return x > 0 ? x : 0;
}
static double c_relu_full(double x) {
    return fmin(x < 0.5 ? 0.5 + 0.1 * (x - 0.5) : x, 1.5);
}
static double c_relu6(double x) {
    return fmin(fmax(x, 0), 6);
}
static double c_leaky(double x) {
    return x > 0 ? x : 0.01 * x;
}
static double c_squared_relu(double x) {
    return x > 0 ? x * x : 0;
}
static double c_elu(double x) {
    return x > 0 ? x : 0.5 * (exp(x) - 1);
}
static double c_selu(double x) {
    return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * (exp(x) - 1));
}
static double c_gelu(double x) {
    return x * 0.5 * erfc(-x / sqrt(2));
}
static double c_gelu_tanh(double x) {
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * pow(x, 3))));
}
static double c_softplus(double x) {
    return log(1 + exp(2 * x)) / 2;
}
static double c_silu(double x) {
    return x * logistic(x);
}
static double c_swish(double x) {
    return x * logistic(1.5 * x);
}
static double c_mish(double x) {
    return x * tanh(log(1 + exp(x)));
}
static double c_hardsigmoid(double x) {
    return x <= -3 ? 0 : x >= 3 ? 1 : x / 6 + 0.5;
}
static double c_hardswish(double x) {
    return x * c_hardsigmoid(x);
}
static double c_softsign(double x) {
    return x / (1 + fabs(x));
}
static double c_log_sigmoid(double x) {
    return log(logistic(x));
}
static double c_clamp(double x) {
    return x < -1 ? -1 : x > 0.5 ? 0.5 : x;
}
static double c_square(double x) {
    return x * x;
}

static void test_activations(void **state) {
    (void)state;
    static const struct {
        const char *call;
        double (*formula)(double);
    } tests[] = {{"relu(x)", c_relu},
                 {"relu(x, lower=0.5, upper=1.5, slope=0.1)", c_relu_full},
                 {"relu6(x)", c_relu6},
                 {"leaky_relu(x)", c_leaky},
                 {"squared_relu(x)", c_squared_relu},
                 {"elu(x, alpha=0.5)", c_elu},
                 {"selu(x)", c_selu},
                 {"gelu(x)", c_gelu},
                 {"gelu(x, approx=none)", c_gelu},
                 {"gelu(x, approx=tanh)", c_gelu_tanh},
                 {"gelu_approx_tanh(x)", c_gelu_tanh},
                 {"softplus(x, beta=2)", c_softplus},
                 {"silu(x)", c_silu},
                 {"swish(x, beta=1.5)", c_swish},
                 {"mish(x)", c_mish},
                 {"hardsigmoid(x)", c_hardsigmoid},
                 {"hardswish(x)", c_hardswish},
                 {"hardtanh(x, low=-1, high=0.5)", c_clamp},
                 {"clamp(x, -1, 0.5)", c_clamp},
                 {"softsign(x)", c_softsign},
                 {"log_sigmoid(x)", c_log_sigmoid},
                 {"sinh(x)", sinh},
                 {"cosh(x)", cosh},
                 {"square(x)", c_square},
                 {"add_square(0, x)", c_square}};
    for (size_t t = 0; t < sizeof tests / sizeof *tests; t++) {
        char body[200];
        snprintf(body, sizeof body, "y = %s", tests[t].call);
        Run run = run_text("(x: f64[M, N]) -> (y: f64[M, N])", body);
        for (int64_t i = 0; i < ROWS * COLUMNS; i++)
            assert_close(run.outputs[0].at[i].f, tests[t].formula(run.inputs[0].at[i].f), tests[t].call);
        parsed_free(&run.parsed);
    }
}

/* Far from zero nothing overflows where the true value is finite. */
static void test_extreme_values(void **state) {
    (void)state;
    static const struct {
        const char *call;
        double wanted;
    } tests[] = {{"softplus(1000)", 1000},
                 {"softplus(-1000)", 0},
                 {"log_sigmoid(-1000)", -1000},
                 {"silu(-1000)", 0},
                 {"mish(1000)", 1000},
                 {"gelu(-1000)", 0},
                 {"elu(1000)", 1000},
                 {"sum(softmax(1000 * x), [0, 1], 0)", ROWS},
                 {"gelu_approx_tanh(1000)", 1000},
                 {"logsumexp(0 * x + 5000, [0, 1])[0, 0]", 5000 + 3.1780538303479458}};
    for (size_t t = 0; t < sizeof tests / sizeof *tests; t++) {
        char body[200];
        snprintf(body, sizeof body, "y = %s", tests[t].call);
        Run run = run_text("(x: f64[M, N]) -> (y: f64)", body);
        assert_close(run.outputs[0].at[0].f, tests[t].wanted, tests[t].call);
        parsed_free(&run.parsed);
    }
}

/* ---- backward, against central differences of forward ---- */

typedef struct Backward {
    const char *forward, *backward; /* of x; backward of dy and x */
} Backward;

/* The text of a graph of sum(dy * forward(x)), with x moved along one element. */
static double moved_loss(const char *forward, int element, double step) {
    char body[1000];
    snprintf(body, sizeof body,
             "at = index(x, 0) * %d + index(x, 1) == %d\n z = x + select(at, %.17g, 0)\n f = %s\n y = sum(f "
             "* dy, [0, 1], 0)",
             COLUMNS, element, step, forward);
    Run run = run_text("(x: f64[M, N], dy: f64[M, N], g: f64[N]) -> (y: f64)", body);
    double loss = run.outputs[0].at[0].f;
    parsed_free(&run.parsed);
    return loss;
}

static void test_backward(void **state) {
    (void)state;
    static const Backward tests[] = {
        {"relu(z)", "relu_backward(dy, x)"},
        {"relu(z, lower=-0.3, upper=1.2, slope=0.1)",
         "relu_backward(dy, x, lower=-0.3, upper=1.2, slope=0.1)"},
        {"leaky_relu(z, slope=0.2)", "leaky_relu_backward(dy, x, slope=0.2)"},
        {"squared_relu(z)", "squared_relu_backward(dy, x)"},
        {"tanh(z)", "tanh_backward(dy, x)"},
        {"sigmoid(z)", "sigmoid_backward(dy, x)"},
        {"elu(z, alpha=0.7)", "elu_backward(dy, x, alpha=0.7)"},
        {"gelu(z)", "gelu_backward(dy, x)"},
        {"gelu(z, approx=tanh)", "gelu_backward(dy, x, approx=tanh)"},
        {"gelu_approx_tanh(z)", "gelu_approx_tanh_backward(dy, x)"},
        {"softplus(z, beta=2)", "softplus_backward(dy, x, beta=2)"},
        {"silu(z)", "silu_backward(dy, x)"},
        {"swish(z, beta=1.5)", "swish_backward(dy, x, beta=1.5)"},
        {"softmax(z)", "softmax_backward(dy, softmax(x))"},
        {"softmax(z, over=0)", "softmax_backward(dy, softmax(x, over=0), over=0)"},
        {"log_softmax(z)", "log_softmax_backward(dy, log_softmax(x))"},
        {"layernorm(z, g, none)", "layernorm_dx(dy, x, g)"},
        {"rmsnorm(z, g)", "rmsnorm_dx(dy, x, g)"},
        {"batchnorm_y(z, g)", "batchnorm_dx(dy, x, g)"},
    };
    for (size_t t = 0; t < sizeof tests / sizeof *tests; t++) {
        char body[300];
        snprintf(body, sizeof body, "y = %s", tests[t].backward);
        Run run = run_text("(x: f64[M, N], dy: f64[M, N], g: f64[N]) -> (y: f64[M, N])", body);
        for (int element = 0; element < ROWS * COLUMNS; element += 5) {
            double step = 1e-5;
            double slope =
                (moved_loss(tests[t].forward, element, step) - moved_loss(tests[t].forward, element, -step)) /
                (2 * step);
            double got = run.outputs[0].at[element].f;
            if (fabs(got - slope) > 1e-4 * (1 + fabs(slope)))
                fail_msg("%s: element %d: %.9g, differences give %.9g", tests[t].backward, element, got,
                         slope);
        }
        parsed_free(&run.parsed);
    }
}

/* ---- rows, against plain loops ---- */

static const char matrix[] = "(x: f64[M, N], dy: f64[M, N], g: f64[N], i: i32[M]) -> (y: f64[M, N])";
static const char vector[] = "(x: f64[M, N], dy: f64[M, N], g: f64[N], i: i32[M]) -> (y: f64[M])";
static const char columns[] = "(x: f64[M, N], dy: f64[M, N], g: f64[N], i: i32[M]) -> (y: f64[N])";

/* Sum of f(x, mean) over a row, or over a column. */
typedef struct Line {
    double at[COLUMNS];
    int n;
} Line;

static Line line_row(const Run *run, int row) {
    Line line = {.n = COLUMNS};
    for (int j = 0; j < COLUMNS; j++)
        line.at[j] = run->inputs[0].at[row * COLUMNS + j].f;
    return line;
}

static Line line_column(const Run *run, int column) {
    Line line = {.n = ROWS};
    for (int i = 0; i < ROWS; i++)
        line.at[i] = run->inputs[0].at[i * COLUMNS + column].f;
    return line;
}

static double line_mean(Line line) {
    double sum = 0;
    for (int i = 0; i < line.n; i++)
        sum += line.at[i];
    return sum / line.n;
}

/* The mean of the squares around `centre`. */
static double line_spread(Line line, double centre) {
    double sum = 0;
    for (int i = 0; i < line.n; i++)
        sum += (line.at[i] - centre) * (line.at[i] - centre);
    return sum / line.n;
}

static double line_exp(Line line) {
    double sum = 0;
    for (int i = 0; i < line.n; i++)
        sum += exp(line.at[i]);
    return sum;
}

typedef double (*Formula)(const Run *run, int row, int column);

static double at(const Run *run, int input, int row, int column) {
    return run->inputs[input].at[row * COLUMNS + column].f;
}
static double scale_of(const Run *run, int column) {
    return run->inputs[2].at[column].f;
}
static double c_layernorm(const Run *run, int row, int column) {
    Line line = line_row(run, row);
    double mu = line_mean(line);
    return (at(run, 0, row, column) - mu) / sqrt(line_spread(line, mu) + 1e-5) * scale_of(run, column) +
           scale_of(run, column);
}
static double c_rmsnorm(const Run *run, int row, int column) {
    return at(run, 0, row, column) / sqrt(line_spread(line_row(run, row), 0) + 1e-3) * scale_of(run, column);
}
static double c_softmax(const Run *run, int row, int column) {
    return exp(at(run, 0, row, column)) / line_exp(line_row(run, row));
}
static double c_softmax_columns(const Run *run, int row, int column) {
    return exp(at(run, 0, row, column)) / line_exp(line_column(run, column));
}
static double c_log_softmax(const Run *run, int row, int column) {
    return log(c_softmax(run, row, column));
}
static double c_batchnorm_train(const Run *run, int row, int column) {
    Line line = line_column(run, column);
    double mu = line_mean(line);
    return (at(run, 0, row, column) - mu) / sqrt(line_spread(line, mu) + 1e-5) * scale_of(run, column);
}
static double c_batchnorm(const Run *run, int row, int column) {
    double g = scale_of(run, column);
    return (at(run, 0, row, column) - g) / sqrt(g * g + 1e-5) * g + 2 * g;
}
static double c_groups(const Run *run, int row, int column) {
    Line line = line_row(run, row);
    Line half = {.n = COLUMNS / 2};
    memcpy(half.at, line.at + (column < half.n ? 0 : half.n), sizeof(double) * (size_t)half.n);
    double mu = line_mean(half);
    return (at(run, 0, row, column) - mu) / sqrt(line_spread(half, mu) + 1e-5) * scale_of(run, column) +
           scale_of(run, column);
}
static double c_rope(const Run *run, int row, int column) {
    int half = COLUMNS / 2, k = column % half;
    double a = at(run, 0, row, k), b = at(run, 0, row, k + half), c = cos(k), s = sin(k);
    return column < half ? a * c - b * s : b * c + a * s;
}
static double c_rope_neighbours(const Run *run, int row, int column) {
    int k = column / 2;
    double a = at(run, 0, row, 2 * k), b = at(run, 0, row, 2 * k + 1), c = cos(k), s = sin(k);
    return column % 2 == 0 ? a * c - b * s : b * c + a * s;
}
static double c_swiglu(const Run *run, int row, int column) {
    return c_silu(at(run, 0, row, column)) * at(run, 1, row, column);
}
static double c_dequantize(const Run *run, int row, int column) {
    return (at(run, 0, row, column) - 3) * scale_of(run, column / 2);
}
static double c_identity(const Run *run, int row, int column) {
    return at(run, 0, row, column);
}
static double c_amax(const Run *run, int row, int column) {
    (void)column;
    double largest = 0;
    for (int j = 0; j < COLUMNS; j++)
        largest = fmax(largest, fabs(at(run, 0, row, j)));
    return largest;
}
static double c_norm1(const Run *run, int row, int column) {
    (void)column;
    double sum = 0;
    for (int j = 0; j < COLUMNS; j++)
        sum += fabs(at(run, 0, row, j));
    return sum;
}
static double c_norm2(const Run *run, int row, int column) {
    (void)column;
    return sqrt(COLUMNS * line_spread(line_row(run, row), 0));
}
static double c_product(const Run *run, int row, int column) {
    (void)column;
    double product = 1;
    for (int j = 0; j < COLUMNS; j++)
        product *= at(run, 0, row, j) > 0 ? at(run, 0, row, j) : 1;
    return product;
}
static double c_variance(const Run *run, int row, int column) {
    (void)column;
    Line line = line_row(run, row);
    return line_spread(line, line_mean(line));
}
static double c_logsumexp(const Run *run, int row, int column) {
    (void)column;
    return log(line_exp(line_row(run, row)));
}
static double c_cross_entropy(const Run *run, int row, int column) {
    (void)column;
    return -log(c_softmax(run, row, (int)run->inputs[3].at[row].i));
}
static double c_mean_of_whole(const Run *run, int row, int column) {
    (void)row;
    (void)column;
    return (double)(run->inputs[3].at[0].i + run->inputs[3].at[1].i + run->inputs[3].at[2].i) / ROWS;
}
static double c_running(const Run *run, int row, int column) {
    (void)row;
    Line line = line_column(run, column);
    double mu = line_mean(line), unbiased = line_spread(line, mu) * ROWS / (ROWS - 1),
           g = scale_of(run, column);
    return 0.9 * g + 0.1 * mu + 10 * (0.9 * g + 0.1 * unbiased);
}
static double c_layernorm_dg(const Run *run, int row, int column) {
    (void)row;
    double dg = 0, db = 0;
    for (int i = 0; i < ROWS; i++) {
        Line line = line_row(run, i);
        double mu = line_mean(line);
        dg += at(run, 1, i, column) * (at(run, 0, i, column) - mu) / sqrt(line_spread(line, mu) + 1e-5);
        db += at(run, 1, i, column);
    }
    return dg + 2 * db;
}
static double c_cross_entropy_backward(const Run *run, int row, int column) {
    return 3 * (c_softmax(run, row, column) - (run->inputs[3].at[row].i == column));
}
static double c_attention(const Run *run, int row, int column) {
    double weights = 0, sum = 0;
    for (int t = 0; t <= row; t++) {
        double score = 0;
        for (int d = 0; d < COLUMNS; d++)
            score += at(run, 0, row, d) * at(run, 1, t, d);
        double weight = exp(score / sqrt(COLUMNS));
        weights += weight;
        sum += weight * at(run, 1, t, column);
    }
    return sum / weights;
}

static void test_rows(void **state) {
    (void)state;
    static const struct {
        const char *signature, *call;
        Formula formula;
    } tests[] = {
        {matrix, "layernorm(x, g, g)", c_layernorm},
        {matrix, "layernorm(x, g, g, over=N)", c_layernorm},
        {matrix, "rmsnorm(x, g, over=1, eps=1e-3)", c_rmsnorm},
        {matrix, "softmax(x)", c_softmax},
        {matrix, "softmax(x, over=M)", c_softmax_columns},
        {matrix, "log_softmax(x)", c_log_softmax},
        {matrix, "batchnorm_y(x, g)", c_batchnorm_train},
        {matrix, "batchnorm(x, g, g * g, g, 2 * g)", c_batchnorm},
        {matrix, "batchnorm(x.T, g, g * g, g, 2 * g, axis=0).T", c_batchnorm},
        {matrix, "groupnorm(reshape(x, [M, N]), 2, g, g)", c_groups},
        {matrix, "groupnorm(x[:, :, none], 2, g, g, axis=1)[:, :, 0]", c_groups},
        {matrix, "reshape(instancenorm(reshape(x, [M, N, 1]), axis=0 - 1), x) * 0 + x", c_identity},
        {matrix, "layernorm(x, g, g) * 0 + instancenorm(x[:, :, none] * 1, axis=-1)[:, :, 0] * g + g",
         c_layernorm},
        {matrix, "rope(x, cos(index([1, N / 2], 1)), sin(index([1, N / 2], 1)))", c_rope},
        {matrix, "rope(x, cos(index([1, N / 2], 1)), sin(index([1, N / 2], 1)), interleaved=true)",
         c_rope_neighbours},
        {matrix, "rope_backward(rope(x, cos(g[:N / 2]), sin(g[:N / 2])), cos(g[:N / 2]), sin(g[:N / 2]))",
         c_identity},
        {matrix, "swiglu(x, dy)", c_swiglu},
        {matrix, "dequantize(x, broadcast(g[:N / 2], [M, N / 2]), block=[1, 2], zero=3)", c_dequantize},
        {matrix, "cross_entropy_backward(3 + 0 * i, x, i)", c_cross_entropy_backward},
        {matrix, "dropout_backward(dropped(x, 0.5), kept(x, 0.5), 0.5) * 0.25 + select(kept(x, 0.5), 0, x)",
         c_identity},
        {matrix, "attention(x, dy, dy, causal=true)", c_attention},
        {matrix, "attention(x, dy, dy, bias=causal(0 * (x @ x.T)))", c_attention},
        {matrix, "x * 1 + 0 * linear(x, dy)[:, :1]", c_identity},
        {vector, "amax(x, N, keep=0)", c_amax},
        {vector, "norm1(x, [1], keep=0)", c_norm1},
        {vector, "norm2(x, -1, keep=0)", c_norm2},
        {vector, "mul_no_zeros(max(x, 0), 1, keep=0)", c_product},
        {vector, "variance(x, N, keep=0)", c_variance},
        {vector, "logsumexp(x, N)[:, 0]", c_logsumexp},
        {vector, "cross_entropy(x, i)", c_cross_entropy},
        {vector, "mean(i, M) + 0 * x[:, 0]", c_mean_of_whole},
        {columns, "batchnorm_running(x, g)", c_running},
        {columns, "layernorm_dg(dy, x)", c_layernorm_dg}};
    for (size_t t = 0; t < sizeof tests / sizeof *tests; t++) {
        char body[300];
        snprintf(body, sizeof body, "y = %s", tests[t].call);
        char signature[200];
        snprintf(signature, sizeof signature, "%s where N %% 2 == 0, N >= 2, M >= 1", tests[t].signature);
        Run run = run_text(signature, body);
        const Tensor *y = &run.outputs[0];
        for (int64_t i = 0; i < y->count; i++) {
            bool rows_alone = tests[t].signature == vector;
            int row = (int)(rows_alone ? i : i / COLUMNS), column = (int)(rows_alone ? 0 : i % COLUMNS);
            assert_close(y->at[i].f, tests[t].formula(&run, row, column), tests[t].call);
        }
        parsed_free(&run.parsed);
    }
}

/* ---- convolutions and pools, against loops over places and taps ---- */

enum { AXES = 3 };

/* A tensor [images, axes, channels], or weights [filters, taps, channels], with axes of 1 in front of fewer
 * than 3. */
typedef struct Grid {
    const Tensor *of;
    int64_t n, axis[AXES], channels;
} Grid;

static Grid grid_of(const Tensor *tensor) {
    Grid grid = {tensor, tensor->dims[0], {1, 1, 1}, tensor->dims[tensor->rank - 1]};
    for (int i = 1; i < tensor->rank - 1; i++)
        grid.axis[AXES - (tensor->rank - 1) + i] = tensor->dims[i];
    return grid;
}

static int64_t grid_places(const Grid *grid) {
    return grid->axis[0] * grid->axis[1] * grid->axis[2];
}

static void grid_place(const Grid *grid, int64_t number, int64_t *place) {
    for (int i = AXES - 1; i >= 0; i--) {
        place[i] = number % grid->axis[i];
        number /= grid->axis[i];
    }
}

/* The element there; NULL where it is outside. */
static Number *grid_at(const Grid *grid, int64_t n, const int64_t *place, int64_t channel) {
    int64_t at = n;
    for (int i = 0; i < AXES; i++) {
        if (place[i] < 0 || place[i] >= grid->axis[i])
            return NULL;
        at = at * grid->axis[i] + place[i];
    }
    return &grid->of->at[at * grid->channels + channel];
}

/* What a call asks for, the last axis last; strides, dilations and groups of 0 stand for 1. Taps: of pools; a
 * convolution's weights have them. */
typedef struct WindowCase {
    const char *function, *arguments, *x, *w, *y; /* the last three are dims */
    int64_t stride[AXES], low[AXES], dilation[AXES], taps[AXES];
    int groups;
} WindowCase;

/* Where tap `tap` of the window at `place` is. */
static void window_tap(const WindowCase *c, const int64_t *place, const int64_t *tap, int64_t *at) {
    for (int i = 0; i < AXES; i++)
        at[i] = place[i] * (c->stride[i] ? c->stride[i] : 1) - c->low[i] +
                tap[i] * (c->dilation[i] ? c->dilation[i] : 1);
}

/* The first channel that a filter reads. */
static int64_t window_channel(const WindowCase *c, const Grid *w, int64_t filter) {
    return filter / (w->n / (c->groups ? c->groups : 1)) * w->channels;
}

static double c_conv(const WindowCase *c, const Run *run, int64_t n, const int64_t *place, int64_t filter) {
    Grid x = grid_of(&run->inputs[0]), w = grid_of(&run->inputs[1]);
    int64_t first = window_channel(c, &w, filter), tap[AXES], at[AXES];
    double sum = 0;
    for (int64_t t = 0; t < grid_places(&w); t++)
        for (int64_t channel = 0; channel < w.channels; channel++) {
            grid_place(&w, t, tap);
            window_tap(c, place, tap, at);
            const Number *a = grid_at(&x, n, at, first + channel), *b = grid_at(&w, filter, tap, channel);
            sum += a ? a->f * b->f : 0;
        }
    return sum;
}

/* Of a window's elements within x: the largest, their sum and their number. */
static double c_pool(const WindowCase *c, const Run *run, int64_t n, const int64_t *place, int64_t channel) {
    Grid x = grid_of(&run->inputs[0]), window = {NULL, 1, {c->taps[0], c->taps[1], c->taps[2]}, 1};
    int64_t all = grid_places(&window), within = 0, tap[AXES], at[AXES];
    double largest = -INFINITY, sum = 0;
    for (int64_t t = 0; t < all; t++) {
        grid_place(&window, t, tap);
        window_tap(c, place, tap, at);
        const Number *a = grid_at(&x, n, at, channel);
        if (!a)
            continue;
        largest = fmax(largest, a->f);
        sum += a->f;
        within++;
    }
    return strcmp(c->function, "max_pool") == 0        ? largest
           : strstr(c->arguments, "include_pad=false") ? sum / (double)within
                                                       : sum / (double)all;
}

/* Where y is a sum of products, each product sends its share of dy back. */
static void c_conv_backward(const WindowCase *c, const Run *run, Grid *dx, Grid *dw) {
    Grid x = grid_of(&run->inputs[0]), w = grid_of(&run->inputs[1]), dy = grid_of(&run->inputs[2]);
    int64_t place[AXES], tap[AXES], at[AXES];
    for (int64_t i = 0; i < dy.of->count; i++) {
        int64_t n = i / dy.channels / grid_places(&dy), filter = i % dy.channels;
        grid_place(&dy, i / dy.channels % grid_places(&dy), place);
        for (int64_t t = 0; t < grid_places(&w) * w.channels; t++) {
            int64_t channel = t % w.channels, from = window_channel(c, &w, filter) + channel;
            grid_place(&w, t / w.channels, tap);
            window_tap(c, place, tap, at);
            const Number *a = grid_at(&x, n, at, from), *b = grid_at(&w, filter, tap, channel);
            if (!a)
                continue;
            grid_at(dx, n, at, from)->f += dy.of->at[i].f * b->f;
            grid_at(dw, filter, tap, channel)->f += dy.of->at[i].f * a->f;
        }
    }
}

#define LINE "2, 11, 4", "6, 3, 4"
#define PLANE "2, 6, 7, 4", "6, 3, 2, 4"
#define ROOM "2, 4, 5, 6, 2", "3, 2, 3, 3, 2"
#define HALVES "1, 5, 6, 4", "8, 3, 3, 2"
#define EACH "1, 5, 6, 4", "4, 3, 3, 1"
#define TWO_EACH "1, 5, 6, 4", "8, 3, 3, 1"
#define ROOM_EACH "2, 4, 5, 6, 2", "2, 2, 3, 3, 1"
#define ROOM_THREE_EACH "2, 4, 5, 6, 2", "6, 2, 3, 3, 1"
static const WindowCase convolutions[] = {
    {"conv", "", LINE, "2, 9, 6", .groups = 1},
    {"conv", "stride=2, pad=1", LINE, "2, 6, 6", .stride = {1, 1, 2}, .low = {0, 0, 1}},
    {"conv", "stride=3", LINE, "2, 3, 6", .stride = {1, 1, 3}},
    {"conv", "pad=[[4, 0]], dilation=2", LINE, "2, 11, 6", .low = {0, 0, 4}, .dilation = {1, 1, 2}},
    {"conv", "pad=1", PLANE, "2, 6, 8, 6", .low = {0, 1, 1}},
    {"conv", "stride=[2, 3], pad=[[0, 1], [2, 0]]", PLANE, "2, 3, 3, 6", .stride = {1, 2, 3},
     .low = {0, 0, 2}},
    {"conv", "pad=[1, [0, 2]], dilation=[2, 3]", PLANE, "2, 4, 6, 6", .low = {0, 1, 0},
     .dilation = {1, 2, 3}},
    {"conv", "pad=4", PLANE, "2, 12, 14, 6", .low = {0, 4, 4}},
    {"conv", "[1, 2], 1, 1, 2", HALVES, "1, 5, 3, 8", .stride = {1, 1, 2}, .low = {0, 1, 1}, .groups = 2},
    {"conv", "pad=1, groups=4", EACH, "1, 5, 6, 4", .low = {0, 1, 1}, .groups = 4},
    {"conv", "2, pad=1, groups=4", TWO_EACH, "1, 3, 3, 8", .stride = {1, 2, 2}, .low = {0, 1, 1},
     .groups = 4},
    {"conv", "stride=[1, 1, 2], pad=[[1, 0], 1, 1]", ROOM, "2, 4, 5, 3, 3", .stride = {1, 1, 2},
     .low = {1, 1, 1}},
    {"conv", "pad=[0, 1, 0], groups=2", ROOM_EACH, "2, 3, 5, 4, 2", .low = {0, 1, 0}, .groups = 2},
    {"conv", "pad=[0, 1, 0], groups=2", ROOM_THREE_EACH, "2, 3, 5, 4, 6", .low = {0, 1, 0}, .groups = 2},
};
static const WindowCase pools[] = {
    {"max_pool", "3", LINE, "2, 3, 4", .stride = {1, 1, 3}, .taps = {1, 1, 3}},
    {"max_pool", "3, stride=2, pad=1", PLANE, "2, 3, 4, 4", .stride = {1, 2, 2}, .low = {0, 1, 1},
     .taps = {1, 3, 3}},
    {"max_pool", "[2, 3], stride=[1, 2], pad=[0, [1, 1]], dilation=[2, 1]", PLANE, "2, 4, 4, 4",
     .stride = {1, 1, 2}, .low = {0, 0, 1}, .dilation = {1, 2, 1}, .taps = {1, 2, 3}},
    {"max_pool", "2", ROOM, "2, 2, 2, 3, 2", .stride = {2, 2, 2}, .taps = {2, 2, 2}},
    {"avg_pool", "2", PLANE, "2, 3, 3, 4", .stride = {1, 2, 2}, .taps = {1, 2, 2}},
    {"avg_pool", "3, stride=2, pad=1", PLANE, "2, 3, 4, 4", .stride = {1, 2, 2}, .low = {0, 1, 1},
     .taps = {1, 3, 3}},
    {"avg_pool", "3, stride=2, pad=1, include_pad=false", PLANE, "2, 3, 4, 4", .stride = {1, 2, 2},
     .low = {0, 1, 1}, .taps = {1, 3, 3}},
    {"avg_pool", "[4], stride=1, pad=[[1, 2]], include_pad=false", LINE, "2, 11, 4", .low = {0, 0, 1},
     .taps = {1, 1, 4}},
};

static void check_windows(const WindowCase *c, const char *operands,
                          double (*formula)(const WindowCase *, const Run *, int64_t, const int64_t *,
                                            int64_t)) {
    char signature[200], body[200];
    snprintf(signature, sizeof signature, "(x: f64[%s], w: f64[%s]) -> (y: f64[%s])", c->x, c->w, c->y);
    snprintf(body, sizeof body, "y = %s(%s%s%s)", c->function, operands, *c->arguments ? ", " : "",
             c->arguments);
    Run run = run_text(signature, body);
    Grid y = grid_of(&run.outputs[0]);
    for (int64_t i = 0; i < y.of->count; i++) {
        int64_t place[AXES];
        grid_place(&y, i / y.channels % grid_places(&y), place);
        assert_close(y.of->at[i].f, formula(c, &run, i / y.channels / grid_places(&y), place, i % y.channels),
                     body);
    }
    parsed_free(&run.parsed);
}

static void test_windows(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof convolutions / sizeof *convolutions; k++)
        check_windows(&convolutions[k], "x, w", c_conv);
    for (size_t k = 0; k < sizeof pools / sizeof *pools; k++)
        check_windows(&pools[k], "x", c_pool);
}

/* An empty tensor like one that was computed. */
static Grid grid_zero(const Run *run, const Tensor *like, Tensor *zero) {
    assert_true(tensor_new(run->parsed.arena, like->dtype, like->rank, like->dims, zero));
    for (int64_t i = 0; i < zero->count; i++)
        zero->at[i].f = 0;
    return grid_of(zero);
}

static void test_convolutions_backward(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof convolutions / sizeof *convolutions; k++) {
        const WindowCase *c = &convolutions[k];
        const char *comma = *c->arguments ? ", " : "";
        char signature[300], body[300];
        snprintf(signature, sizeof signature,
                 "(x: f64[%s], w: f64[%s], dy: f64[%s]) -> (dx: f64[%s], dw: f64[%s])", c->x, c->w, c->y,
                 c->x, c->w);
        snprintf(body, sizeof body,
                 "dx = conv_backward_data(dy, w, dims(x)[1:-1]%s%s)\n"
                 "dw = conv_backward_weights(dy, x, dims(w)[1:-1]%s%s)",
                 comma, c->arguments, comma, c->arguments);
        Run run = run_text(signature, body);
        Tensor wanted[2];
        Grid dx = grid_zero(&run, &run.outputs[0], &wanted[0]),
             dw = grid_zero(&run, &run.outputs[1], &wanted[1]);
        c_conv_backward(c, &run, &dx, &dw);
        for (int t = 0; t < 2; t++)
            for (int64_t i = 0; i < wanted[t].count; i++)
                assert_close(run.outputs[t].at[i].f, wanted[t].at[i].f, body);
        parsed_free(&run.parsed);
    }
}

/* Whether a stands before b among the largest: a NaN before all others, then the larger, of equals the first.
 */
static bool topk_before(const double *x, int a, int b) {
    if (isnan(x[a]) || isnan(x[b]))
        return isnan(x[a]) && (!isnan(x[b]) || a < b);
    return x[a] > x[b] || (x[a] == x[b] && a < b);
}

/* topk against a plain selection, on rows with equals, NaN and -inf. */
static void test_topk(void **state) {
    (void)state;
    enum { K = 6 };
    const char *signature = "(x: f64[M, N]) -> (v: f64[M, 6], i: i64[M, 6], u: f64[M, 6], z: f64[M, N])";
    const char *body = "z = select(x > 1, log(-abs(x) - 1), select(x < -0.5, -inf, round(x)))\n"
                       "v, i = topk(z, 6)\n u, j = topk(z, 6, over=-1, of=x)";
    Run run = run_text(signature, body);
    for (int row = 0; row < ROWS; row++) {
        double z[COLUMNS];
        int order[COLUMNS];
        for (int c = 0; c < COLUMNS; c++) {
            z[c] = run.outputs[3].at[row * COLUMNS + c].f;
            order[c] = c;
        }
        for (int a = 0; a < COLUMNS; a++)
            for (int c = a + 1; c < COLUMNS; c++)
                if (topk_before(z, order[c], order[a])) {
                    int other = order[a];
                    order[a] = order[c];
                    order[c] = other;
                }
        for (int j = 0; j < K; j++) {
            double v = run.outputs[0].at[row * K + j].f, want = z[order[j]];
            assert_int_equal(run.outputs[1].at[row * K + j].i, order[j]);
            assert_true(isnan(want) ? isnan(v) : v == want);
            assert_true(run.outputs[2].at[row * K + j].f == run.inputs[0].at[row * COLUMNS + order[j]].f);
        }
    }
    parsed_free(&run.parsed);
}

/* Places of the `k` largest, by the rule that topk has. */
static void topk_select(const double *x, int n, int k, int *places) {
    for (int j = 0; j < k; j++) {
        places[j] = -1;
        for (int c = 0; c < n; c++) {
            bool is_taken = false;
            for (int earlier = 0; earlier < j; earlier++)
                is_taken = is_taken || places[earlier] == c;
            if (!is_taken && (places[j] < 0 || topk_before(x, c, places[j])))
                places[j] = c;
        }
    }
}

/* An axis that is cut into parts, the last of them short: equals in one part and in several, NaN, -inf alone.
 */
static void test_topk_long(void **state) {
    (void)state;
    enum { K = 7, LONG = 40001 };
    static const char *const rows[] = {"floor(sin(n * 12.9898) * 50)",
                                       "select(n == 39990, log(-1 - n), floor(n / 9000))",
                                       "select(n < 39998, -inf, n)", "n * -inf"};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char body[400];
        snprintf(body, sizeof body,
                 "n = cast(index([1, %d], 1), f64) + 1\n z = %s\n v, i = topk(z, 7)\n"
                 "u, j = topk(z, 7, over=-1, of=n)",
                 LONG, rows[r]);
        Run run =
            run_text("(x: f64[M, N]) -> (v: f64[1, 7], i: i64[1, 7], u: f64[1, 7], z: f64[1, 40001])", body);
        double *z = malloc(LONG * sizeof *z);
        int places[K];
        assert_non_null(z);
        for (int c = 0; c < LONG; c++)
            z[c] = run.outputs[3].at[c].f;
        topk_select(z, LONG, K, places);
        for (int j = 0; j < K; j++) {
            double v = run.outputs[0].at[j].f, want = z[places[j]];
            assert_int_equal(run.outputs[1].at[j].i, places[j]);
            assert_true(isnan(want) ? isnan(v) : v == want);
            assert_true(run.outputs[2].at[j].f == places[j] + 1);
        }
        free(z);
        parsed_free(&run.parsed);
    }
}

/* Quantized to e4m3 or i8 by blocks and back: near, by the step of the type; and dropout keeps about its
 * share. */
static void test_quantize_and_dropout(void **state) {
    (void)state;
    static const struct {
        const char *call;
        double step;
    } tests[] = {{"there_and_back(x, 4, e4m3)", 1.0 / 16},
                 {"there_and_back(x, 4, i8)", 0.5 / 127},
                 {"dequantize(quantize(x, 0.01, to=i8), 0.01)", 0.005}};
    for (size_t t = 0; t < sizeof tests / sizeof *tests; t++) {
        char body[200];
        snprintf(body, sizeof body, "y = clamp(x, -1.2, 1.2) * 0 + %s", tests[t].call);
        Run run = run_text("(x: f64[M, N]) -> (y: f64[M, N]) where N % 4 == 0", body);
        double moved = 0;
        for (int64_t i = 0; i < ROWS * COLUMNS; i++) {
            double x = run.inputs[0].at[i].f;
            if (t == 2)
                x = x > 1.27 ? 1.27 : x < -1.28 ? -1.28 : x;
            moved = fmax(moved, fabs(run.outputs[0].at[i].f - x));
        }
        assert_true(moved > 0 && moved <= tests[t].step * 2);
        parsed_free(&run.parsed);
    }
    Run run = run_text("(x: f64[M, N]) -> (y: f64) where M >= 1, N >= 1",
                       "y = mean(select(kept(broadcast(x[0, 0], [1000]), 0.25), 1.0, 0.0), 0, keep=0)");
    assert_true(fabs(run.outputs[0].at[0].f - 0.75) < 0.05);
    parsed_free(&run.parsed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activations),
        cmocka_unit_test(test_extreme_values),
        cmocka_unit_test(test_backward),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_convolutions_backward),
        cmocka_unit_test(test_topk),
        cmocka_unit_test(test_topk_long),
        cmocka_unit_test(test_quantize_and_dropout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
