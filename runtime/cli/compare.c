/* Comparison of whole arrays, and the tolerances that types have. */
#include "runtime/cli/compare.h"

#include <math.h>

/* Default tolerances come from the types' precision: an output rounded once differs by at most half a unit in
 * its last place (2^-9 relative for bf16), intermediate f32 sums by less; fp8 outputs may fall on the other
 * side of a tie. */
double compare_default_rtol(DType dtype) {
    switch (dtype) {
    case DTYPE_F64: return 1e-12;
    case DTYPE_F32: return 1e-5;
    case DTYPE_TF32: return 2e-3;
    case DTYPE_F16: return 2e-3;
    case DTYPE_BF16: return 1e-2;
    case DTYPE_E4M3: return 6e-2;
    case DTYPE_E5M2: return 1.2e-1;
    default: return 0;
    }
}

static double compare_number(const Array *array, Number number) {
    return dtype_is_float(array->dtype) ? number.f : (double)number.i;
}

static double compare_rms(const Array *got, const Tensor *want) {
    double sum = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < want->count; i++) {
        double w = compare_number(got, want->at[i]);
        if (isfinite(w)) {
            sum += w * w;
            n++;
        }
    }
    return n ? sqrt(sum / (double)n) : 0;
}

Comparison compare_array(const Array *got, const Tensor *want, double rtol, double atol) {
    bool is_float = dtype_is_float(got->dtype);
    Comparison c = {.ok = true, .worst = -1};
    if (rtol < 0)
        rtol = compare_default_rtol(got->dtype);
    if (atol < 0)
        atol = is_float ? 1e-30 : 0;
    double rms = is_float ? compare_rms(got, want) : 0, squares = 0, farthest = -1;
    for (int64_t i = 0; i < want->count; i++) {
        double w = compare_number(got, want->at[i]), g = compare_number(got, array_get(got, i));
        if ((isnan(w) && isnan(g)) || w == g)
            continue;
        double difference = fabs(g - w);
        double bound = is_float ? 8 * rtol * (fabs(w) + rms) + 8 * atol : atol;
        bool wrong = !(difference <= bound); /* NaN is not <= */
        if (!isfinite(w) || !isfinite(g))
            difference = INFINITY;
        else
            squares += difference * difference;
        c.wrong += wrong;
        if (difference > farthest) {
            farthest = difference;
            c.worst = i;
            c.got = g;
            c.want = w;
        }
    }
    double root = want->count ? sqrt(squares / (double)want->count) : 0;
    c.error = rms > 0 ? root / rms : root;
    c.tolerance = rtol;
    c.ok = c.wrong == 0 && (!is_float || root <= rtol * rms + atol);
    return c;
}
