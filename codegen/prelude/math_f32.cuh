/* Mathematical functions in f32, right to a few units in the last place over the whole range, NaN and infinities as in IEEE 754-2019
 * section 9.2. The file is C as much as it is CUDA: math_llvm.c compiles it for the LLVM backend, and a unit test compiles it for the
 * CPU and measures it against float64.
 *
 * Coefficients that are no Taylor coefficients are minimax fits over the interval named beside them. Multiplications and additions
 * that must be one operation say fmaf; the others may be contracted. Where a choice is between two things that are cheap, both are
 * computed and named before it, so that no compiler makes a branch of it: the lanes of a warp would take both ways anyway, and a
 * hundred elements of an epilogue would be a hundred branches. */

//! f32_nan
DEVICE float f32_nan(void) {
    return f32_from_bits(0x7fffffffu);
}

//! f32_infinity
DEVICE float f32_infinity(void) {
    return f32_from_bits(0x7f800000u);
}

//! exp_f32
/* 2^n * 2^r, n the nearest integer to x * log2(e) and r the rest, |r| <= 1/2 inside the clamp. Outside it n stays and r grows, so
 * that overflow and gradual underflow come from the last multiplication. */
DEVICE float exp_f32(float x) {
    float clamped = fminf(fmaxf(x, -87.0f), 88.0f);
    float shifted = fmaf(clamped, 1.44269502f, 12583039.0f); /* 1.5 * 2^23 + 127: the exponent's field in the low bits */
    float n = shifted - 12583039.0f;
    float r = fmaf(x, 1.44269502f, -n);
    r = fmaf(x, 1.92596303e-8f, r);
    return ex2_approx_ftz(r) * f32_from_bits(f32_bits(shifted) << 23);
}

//! expm1_f32
/* 2^n * (1 + p) - 1 with p = e^r - 1, the rest as in exp_f32. Halved until the end, so that n may be 128. */
DEVICE float expm1_f32(float x) {
    float y = x < -20.0f ? -20.0f : x;
    float shifted = fmaf(fminf(y, 89.0f), 1.44269502f, 12583038.0f); /* 1.5 * 2^23 + 126 */
    float n = shifted - 12583038.0f;
    float r = fmaf(n, -0.693147182f, y);
    r = fmaf(n, 1.90465421e-9f, r);
    float p = fmaf(1.394643681e-3f, r, 8.366577327e-3f); /* (e^r - 1 - r) / r^2 on [-0.35, 0.35] */
    p = fmaf(p, r, 4.166628048e-2f);
    p = fmaf(p, r, 1.666654348e-1f);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p, r * r, r);
    float half = f32_from_bits(f32_bits(shifted) << 23);
    return 2.0f * fmaf(half, p, half - 0.5f);
}

//! sigmoid_f32
/* Rounding x * log2(e) costs a relative error of |x| * 4e-8 where x is far below 0, and none above. */
DEVICE float sigmoid_f32(float x) {
    return rcp_approx_ftz(1.0f + ex2_approx_ftz(x * -1.44269502f));
}

//! tanh_f32
/* 1 - 2 / (e^2|x| + 1); near 0, where that cancels, an odd polynomial. */
DEVICE float tanh_f32(float x) {
    float large = fmaf(-2.0f, rcp_approx_ftz(ex2_approx_ftz(fabsf(x) * 2.88539008f) + 1.0f), 1.0f);
    float z = x * x;
    float p = fmaf(z, -5.905860569e-3f, 2.080537751e-2f); /* (tanh(x) / x - 1) / x^2 on [0, 0.6] */
    p = fmaf(p, z, -5.378668010e-2f);
    p = fmaf(p, z, 1.333195865e-1f);
    p = fmaf(p, z, -3.333329856e-1f);
    float small = fmaf(x * z, p, x);
    large = copysignf(large, x);
    return fabsf(x) < 0.6f ? small : large; /* both are at hand: no branch */
}

//! log1p_reduced_f32
/* log(1 + f) for f in [-1/3, 1/3]. */
DEVICE float log1p_reduced_f32(float f) {
    float p = fmaf(-1.319164634e-1f, f, 1.396245062e-1f);
    p = fmaf(p, f, -1.211512610e-1f);
    p = fmaf(p, f, 1.401091963e-1f);
    p = fmaf(p, f, -1.668546647e-1f);
    p = fmaf(p, f, 2.001004368e-1f);
    p = fmaf(p, f, -2.499968857e-1f);
    p = fmaf(p, f, 3.333322406e-1f);
    p = fmaf(p, f, -0.5f);
    return fmaf(p, f * f, f);
}

//! log_special_f32
/* `value` where x is positive and finite; else what a logarithm gives. */
DEVICE float log_special_f32(float x, float value) {
    float infinity = f32_infinity(), nan = f32_nan();
    float special = x < 0.0f ? nan : x;
    special = x == 0.0f ? -infinity : special;
    value = x < infinity ? value : x;
    return x > 0.0f ? value : special;
}

//! exponent_f32
/* The exponent that stands in the upper nine bits, as a float: added to 1.5 * 2^23 it becomes the low bits of a mantissa. */
DEVICE float exponent_f32(u32 e) {
    return f32_from_bits(0x4b400000u + (u32)((int)e >> 23)) - 12582912.0f;
}

//! log_f32
/* x = 2^e * (1 + f), 1 + f in [2/3, 4/3). */
DEVICE float log_f32(float x) {
    int subnormal = x < 1.17549435e-38f;
    float y = subnormal ? x * 8388608.0f : x;
    u32 e = (f32_bits(y) - 0x3f2aaaabu) & 0xff800000u;
    float f = f32_from_bits(f32_bits(y) - e) - 1.0f;
    float exponent = exponent_f32(e) - (subnormal ? 23.0f : 0.0f);
    float low = fmaf(exponent, -1.90465421e-9f, log1p_reduced_f32(f));
    return log_special_f32(x, fmaf(exponent, 0.693147182f, low));
}

//! log2_f32
DEVICE float log2_f32(float x) {
    int subnormal = x < 1.17549435e-38f;
    float y = subnormal ? x * 8388608.0f : x;
    u32 e = (f32_bits(y) - 0x3f2aaaabu) & 0xff800000u;
    float l = log1p_reduced_f32(f32_from_bits(f32_bits(y) - e) - 1.0f);
    float exponent = exponent_f32(e) - (subnormal ? 23.0f : 0.0f);
    return log_special_f32(x, fmaf(l, 1.44269502f, fmaf(l, 1.92596303e-8f, exponent)));
}

//! log1p_f32
/* As log_f32 of u = 1 + x, with what that sum rounded away added to f again. */
DEVICE float log1p_f32(float x) {
    float u = 1.0f + x;
    float lost = fabsf(x) < 1.0f ? x - (u - 1.0f) : 1.0f - (u - x);
    u32 e = (f32_bits(u) - 0x3f2aaaabu) & 0xff800000u;
    float scale = x < 16777216.0f ? f32_from_bits(0x3f800000u - e) : 0.0f;
    float f = fmaf(lost, scale, f32_from_bits(f32_bits(u) - e) - 1.0f);
    float exponent = exponent_f32(e);
    float low = fmaf(exponent, -1.90465421e-9f, log1p_reduced_f32(f));
    float value = log_special_f32(u, fmaf(exponent, 0.693147182f, low));
    return x == 0.0f ? x : value;
}

//! log1pexp_f32
/* log(1 + u) besides the part of x above 0, for u = e^-|x| in [0, 1]: of 1 + u where u is small, else of half of that. Far below 0
 * the relative error is |x| * 4e-8, as of sigmoid_f32, and a subnormal result is 0. */
DEVICE float log1pexp_f32(float x) {
    float u = ex2_approx_ftz(fabsf(x) * -1.44269502f);
    int is_small = u < 0.333333343f;
    float halved = fmaf(u, 0.5f, -0.5f), f = is_small ? u : halved;
    float above = (x > 0.0f ? x : 0.0f) + (is_small ? 0.0f : 0.693147182f);
    return above + log1p_reduced_f32(f);
}

//! pow_f32
/* exp(b * log(a)), the logarithm as a sum of two f32: log(m) = 2 atanh(s), s = f / (2 + f), m = 1 + f in [2/3, 4/3). */
DEVICE float pow_f32(float a, float b) {
    float x = fabsf(a), infinity = f32_infinity(), nan = f32_nan();
    int subnormal = x < 1.17549435e-38f;
    float y = subnormal ? x * 8388608.0f : x;
    u32 e = (f32_bits(y) - 0x3f2aaaabu) & 0xff800000u;
    float f = f32_from_bits(f32_bits(y) - e) - 1.0f;
    float exponent = exponent_f32(e) - (subnormal ? 23.0f : 0.0f);
    float r = rcp_approx_ftz(2.0f + f);
    float s = f * r;
    float s_low = r * fmaf(-s, f, fmaf(-2.0f, s, f));
    float z = s * s;
    float p = fmaf(z, 0.153846154f, 0.181818182f); /* 2/13, 2/11, ... 2/3 */
    p = fmaf(p, z, 0.222222222f);
    p = fmaf(p, z, 0.285714286f);
    p = fmaf(p, z, 0.4f);
    p = fmaf(p, z, 0.666666667f);
    /* log = exponent * ln2 + 2 s + s^3 p, the largest first, each sum's error kept */
    float big = exponent * 0.693147182f;
    float hi = fmaf(2.0f, s, big);
    float lo = fmaf(2.0f, s, big - hi) + fmaf(exponent, 0.693147182f, -big);
    lo += fmaf(exponent, -1.90465421e-9f, fmaf(2.0f * s_low, z, 2.0f * s_low));
    float tail = s * z * p;
    float sum = hi + tail;
    lo += hi - sum + tail;
    /* times b, then the exponential of a sum */
    float product = sum * b;
    float product_low = fabsf(product) < 1024.0f ? fmaf(lo, b, fmaf(sum, b, -product)) : 0.0f;
    float total = product + product_low;
    float rest = fabsf(product) < 1024.0f ? product_low - (total - product) : 0.0f;
    float value = exp_f32(total);
    value = value < infinity ? fmaf(value, rest, value) : value;
    if (x == 0.0f || x == infinity)
        value = (x == 0.0f) == (b < 0.0f) ? infinity : 0.0f;
    if (fabsf(b) == infinity)
        value = x == 1.0f ? 1.0f : (x > 1.0f) == (b > 0.0f) ? infinity : 0.0f;
    int is_integer = truncf(b) == b;
    int is_odd = is_integer && fabsf(b) < 16777216.0f && truncf(b * 0.5f) != b * 0.5f;
    if (f32_bits(a) >> 31 && is_odd)
        value = -value;
    if (a < 0.0f && !is_integer && x < infinity)
        value = nan;
    if (a != a || b != b)
        value = a + b;
    return b == 0.0f || a == 1.0f ? 1.0f : value;
}

//! reduce_pi_f32
/* r = x - n * pi/2 with n the nearest integer; answers n mod 4. Small arguments by Cody and Waite, large ones by Payne and Hanek:
 * only 96 bits of 2/pi, those that x's exponent selects, decide the product's fraction. */
DEVICE int reduce_pi_f32(float x, float *r) {
    float shifted = fmaf(x, 0.636619747f, 12582912.0f); /* 1.5 * 2^23: n in the low bits */
    float n = shifted - 12582912.0f;
    float rest = fmaf(n, -1.57079637f, x);
    rest = fmaf(n, 4.37113883e-8f, rest);
    rest = fmaf(n, 1.71512451e-15f, rest);
    int quadrant = (int)f32_bits(shifted);
    if (fabsf(x) > 48000.0f) {
        u32 bits = f32_bits(x);
        u32 at = ((bits >> 23) & 0xff) - 150 + 62; /* of the first bit of 2/pi that counts, in two_over_pi() */
        u64 first = two_over_pi(at / 64), second = two_over_pi(at / 64 + 1), third = two_over_pi(at / 64 + 2);
        u32 shift = at % 64;
        u64 high = shift ? first << shift | second >> (64 - shift) : first;
        u64 low = shift ? second << shift | third >> (64 - shift) : second;
        u64 mantissa = (bits & 0x7fffff) | 0x800000;
        u64 carry = mantissa * (low >> 32);
        u64 product = mantissa * high + (carry >> 32); /* modulo 2^64: two integer bits, 62 of the fraction */
        quadrant = (int)(product >> 62);
        i64 fraction = (i64)(product << 2);
        quadrant += fraction < 0;
        rest = (float)((double)fraction * 8.5153039502163873e-20); /* pi/2 * 2^-64 */
        rest = bits >> 31 ? -rest : rest;
        quadrant = bits >> 31 ? -quadrant : quadrant;
        if (!(fabsf(x) < f32_infinity()))
            rest = x - x;
    }
    *r = rest;
    return quadrant & 3;
}

//! sin_reduced_f32
DEVICE float sin_reduced_f32(float r) {
    float z = r * r;
    float p = fmaf(z, -1.951729791e-4f, 8.332177997e-3f); /* on [-pi/4, pi/4] */
    p = fmaf(p, z, -1.666665524e-1f);
    return fmaf(p * z, r, r);
}

//! cos_reduced_f32
DEVICE float cos_reduced_f32(float r) {
    float z = r * r;
    float p = fmaf(z, 2.443845005e-5f, -1.388736768e-3f); /* on [-pi/4, pi/4] */
    p = fmaf(p, z, 4.166664556e-2f);
    p = fmaf(p, z, -0.5f);
    return fmaf(p, z, 1.0f);
}

//! sin_f32
DEVICE float sin_f32(float x) {
    float r;
    int quadrant = reduce_pi_f32(x, &r);
    float s = sin_reduced_f32(r), c = cos_reduced_f32(r);
    float value = quadrant & 1 ? c : s;
    value = quadrant & 2 ? -value : value;
    return x == 0.0f ? x : value;
}

//! cos_f32
DEVICE float cos_f32(float x) {
    float r;
    int quadrant = reduce_pi_f32(x, &r);
    float s = sin_reduced_f32(r), c = cos_reduced_f32(r);
    float value = quadrant & 1 ? s : c;
    return (quadrant + 1) & 2 ? -value : value;
}

//! tan_f32
DEVICE float tan_f32(float x) {
    float r;
    int quadrant = reduce_pi_f32(x, &r);
    float s = sin_reduced_f32(r), c = cos_reduced_f32(r);
    float above = quadrant & 1 ? -c : s, below = quadrant & 1 ? s : c;
    float value = div_full(above, below);
    return x == 0.0f ? x : value;
}

//! erf_f32
/* |x| < 1: x P(x^2). Above: 1 - 2^Q(|x|); from 4 on that is 1. */
DEVICE float erf_f32(float x) {
    float a = fabsf(x);
    float z = x * x;
    float p = fmaf(z, 7.889119297e-5f, -8.020841051e-4f);
    p = fmaf(p, z, 5.189535208e-3f);
    p = fmaf(p, z, -2.685444430e-2f);
    p = fmaf(p, z, 1.128360033e-1f);
    p = fmaf(p, z, -3.761262596e-1f);
    p = fmaf(p, z, 1.128379107f);
    float t = fminf(a, 4.0f);
    float q = fmaf(t, -3.093944906e-5f, 6.326653529e-4f); /* log2(erfc(t)) on [0.95, 4] */
    q = fmaf(q, t, -6.046128459e-3f);
    q = fmaf(q, t, 3.631524742e-2f);
    q = fmaf(q, t, -1.563326865e-1f);
    q = fmaf(q, t, -9.136189818e-1f);
    q = fmaf(q, t, -1.629599094f);
    q = fmaf(q, t, 2.632348333e-4f);
    float large = copysignf(1.0f - ex2_approx_ftz(q), x);
    return a > 1.0f ? large : x * p; /* NaN takes the second */
}

//! one_plus_erf_f32
/* 2^Q(|x|) = erfc(|x|) within 1.2e-7 of 1, and within 0.003 of itself up to 4; beyond it goes to 0. */
DEVICE float one_plus_erf_f32(float x) {
    float t = fabsf(x);
    float q = fmaf(t, -1.969614823e-5f, 2.353202726e-4f);
    q = fmaf(q, t, -8.202995523e-4f);
    q = fmaf(q, t, -1.835988252e-3f);
    q = fmaf(q, t, 2.914575860e-2f);
    q = fmaf(q, t, -1.488710642e-1f);
    q = fmaf(q, t, -9.183363914e-1f);
    q = fmaf(q, t, -1.627914667f);
    q = fmaf(q, t, 8.191754830e-8f);
    float tail = ex2_approx_ftz(q);
    return x < 0.0f ? tail : 2.0f - tail; /* NaN is in both */
}

//! atan2_f32
DEVICE float atan2_f32(float y, float x) {
    float ax = fabsf(x), ay = fabsf(y);
    float big = fmaxf(ax, ay), small = fminf(ax, ay);
    float infinity = f32_infinity(), ratio = div_full(small, big);
    float t = small == infinity ? 1.0f : ratio;
    t = big == 0.0f ? 0.0f : t;
    float z = t * t;
    float p = fmaf(z, -1.827184693e-3f, 1.106431521e-2f); /* (atan(t) / t - 1) / t^2 on [0, 1] */
    p = fmaf(p, z, -3.145546839e-2f);
    p = fmaf(p, z, 5.823431909e-2f);
    p = fmaf(p, z, -8.419445902e-2f);
    p = fmaf(p, z, 1.095757186e-1f);
    p = fmaf(p, z, -1.426524520e-1f);
    p = fmaf(p, z, 1.999863833e-1f);
    p = fmaf(p, z, -3.333330154e-1f);
    float angle = fmaf(p * z, t, t);
    angle = ay > ax ? 1.57079637f - angle : angle;
    angle = f32_bits(x) >> 31 ? 3.14159274f - angle : angle;
    float sum = x + y;
    angle = copysignf(angle, y);
    return x != x || y != y ? sum : angle;
}

//! mod_f32
/* a - b * trunc(a / b), exactly: long division of the mantissas, one bit a step. */
DEVICE float mod_f32(float a, float b) {
    float x = fabsf(a), y = fabsf(b);
    if (!(x < f32_infinity()) || !(y > 0.0f))
        return f32_nan();
    if (x >= y && y < f32_infinity()) {
        u32 bits_x = f32_bits(x), bits_y = f32_bits(y);
        int exponent_x = (int)(bits_x >> 23), exponent_y = (int)(bits_y >> 23);
        u32 rest = exponent_x ? (bits_x & 0x7fffff) | 0x800000 : bits_x;
        u32 divisor = exponent_y ? (bits_y & 0x7fffff) | 0x800000 : bits_y;
        exponent_x += exponent_x == 0;
        exponent_y += exponent_y == 0;
        for (; divisor < 0x800000; divisor <<= 1)
            exponent_y--;
        for (int step = exponent_x - exponent_y; step >= 0; step--) {
            rest -= rest >= divisor ? divisor : 0;
            rest <<= step > 0;
        }
        /* rest * 2^(exponent_y - 150): each factor and the product are exact */
        int half = (exponent_y - 150) / 2;
        x = (float)rest * f32_from_bits((u32)(half + 127) << 23) * f32_from_bits((u32)(exponent_y - 150 - half + 127) << 23);
    }
    return copysignf(x, a);
}
