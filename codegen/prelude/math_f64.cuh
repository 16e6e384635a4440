/* Mathematical functions in f64, right to about 1e-15; how the file is used: math_f32.cuh. Series are Taylor's unless they say
 * otherwise, with as many terms as f64 can see on the reduced interval. */

//! f64_nan
DEVICE double f64_nan(void) {
    return f64_from_bits(0x7fffffffffffffffull);
}

//! f64_infinity
DEVICE double f64_infinity(void) {
    return f64_from_bits(0x7ff0000000000000ull);
}

//! scale_f64
/* x * 2^n for |n| <= 2100, rounded once where the result is subnormal (n's halves are exact powers). */
DEVICE double scale_f64(double x, int n) {
    int half = n / 2;
    return x * f64_from_bits((u64)(half + 1023) << 52) * f64_from_bits((u64)(n - half + 1023) << 52);
}

//! expm1_reduced_f64
/* e^r - 1 for |r| <= 0.35. */
DEVICE double expm1_reduced_f64(double r) {
    double p = 1.6059043836821613e-10; /* 1/13!, 1/12!, ... */
    p = fma(p, r, 2.08767569878681e-09);
    p = fma(p, r, 2.505210838544172e-08);
    p = fma(p, r, 2.755731922398589e-07);
    p = fma(p, r, 2.7557319223985893e-06);
    p = fma(p, r, 2.48015873015873e-05);
    p = fma(p, r, 0.0001984126984126984);
    p = fma(p, r, 0.001388888888888889);
    p = fma(p, r, 0.008333333333333333);
    p = fma(p, r, 0.041666666666666664);
    p = fma(p, r, 0.16666666666666666);
    p = fma(p, r, 0.5);
    return fma(p, r * r, r);
}

//! exp_f64
DEVICE double exp_f64(double x) {
    double clamped = x < -746.0 ? -746.0 : x > 710.0 ? 710.0 : x;
    double n = rint(clamped * 1.4426950408889634);
    double r = fma(n, -0.6931471805599453, clamped);
    r = fma(n, -2.3190468138462996e-17, r);
    return scale_f64(1.0 + expm1_reduced_f64(r), f64_to_i32(n));
}

//! exp2_f64
DEVICE double exp2_f64(double x) {
    double clamped = x < -1080.0 ? -1080.0 : x > 1025.0 ? 1025.0 : x;
    double n = rint(clamped);
    double r = (clamped - n) * 0.6931471805599453;
    return scale_f64(1.0 + expm1_reduced_f64(r), f64_to_i32(n));
}

//! expm1_f64
DEVICE double expm1_f64(double x) {
    double clamped = x < -50.0 ? -50.0 : x > 710.0 ? 710.0 : x;
    double n = rint(clamped * 1.4426950408889634);
    double r = fma(n, -0.6931471805599453, clamped);
    r = fma(n, -2.3190468138462996e-17, r);
    double half = f64_from_bits((u64)(f64_to_i32(n) + 1022) << 52);
    return 2.0 * fma(half, expm1_reduced_f64(r), half - 0.5);
}

//! sigmoid_f64
DEVICE double sigmoid_f64(double x) {
    double e = exp_f64(-fabs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

//! tanh_f64
DEVICE double tanh_f64(double x) {
    double a = fabs(x);
    double e = expm1_f64(2.0 * (a > 20.0 ? 20.0 : a));
    return copysign(e / (e + 2.0), x);
}

//! log1p_series_f64
/* log((1 + s) / (1 - s)) - 2 s, over s, for |s| <= 0.2 and z = s^2: z * (2/3 + 2/5 z + ...). */
DEVICE double log1p_series_f64(double z) {
    double p = 0.08; /* 2/25, 2/23, ... */
    p = fma(p, z, 0.08695652173913043);
    p = fma(p, z, 0.09523809523809523);
    p = fma(p, z, 0.10526315789473684);
    p = fma(p, z, 0.11764705882352941);
    p = fma(p, z, 0.13333333333333333);
    p = fma(p, z, 0.15384615384615385);
    p = fma(p, z, 0.18181818181818182);
    p = fma(p, z, 0.2222222222222222);
    p = fma(p, z, 0.2857142857142857);
    p = fma(p, z, 0.4);
    p = fma(p, z, 0.6666666666666666);
    return p * z;
}

//! log1p_reduced_f64
/* log(1 + f) for f in [-1/3, 1/3]: s = f / (2 + f); f - s f = 2 s, written so that f is not rounded. */
DEVICE double log1p_reduced_f64(double f) {
    double s = f / (2.0 + f);
    return fma(s, log1p_series_f64(s * s) - f, f);
}

//! log_special_f64
DEVICE double log_special_f64(double x, double value) {
    double special = x == 0.0 ? -f64_infinity() : x < 0.0 ? f64_nan() : x;
    return x > 0.0 && x < f64_infinity() ? value : special;
}

//! log_split_f64
/* x = 2^exponent * (1 + f), 1 + f in [2/3, 4/3); answers the exponent. */
DEVICE double log_split_f64(double x, double *f) {
    int subnormal = x < 2.2250738585072014e-308;
    double y = subnormal ? x * 18014398509481984.0 : x; /* 2^54 */
    u64 e = (f64_bits(y) - 0x3fe5555555555555ull) & 0xfff0000000000000ull;
    *f = f64_from_bits(f64_bits(y) - e) - 1.0;
    return (double)((int)(e >> 32) >> 20) - (subnormal ? 54.0 : 0.0);
}

//! log_f64
DEVICE double log_f64(double x) {
    double f;
    double exponent = log_split_f64(x, &f);
    double low = fma(exponent, 2.3190468138462996e-17, log1p_reduced_f64(f));
    return log_special_f64(x, fma(exponent, 0.6931471805599453, low));
}

//! log2_f64
DEVICE double log2_f64(double x) {
    double f;
    double exponent = log_split_f64(x, &f);
    double l = log1p_reduced_f64(f);
    return log_special_f64(x, fma(l, 1.4426950408889634, fma(l, 2.0355273740931033e-17, exponent)));
}

//! log1p_f64
DEVICE double log1p_f64(double x) {
    double u = 1.0 + x;
    double lost = fabs(x) < 1.0 ? x - (u - 1.0) : 1.0 - (u - x);
    double f;
    double exponent = log_split_f64(u, &f);
    if (fabs(exponent) < 64.0)
        f = fma(lost, f64_from_bits((u64)(1023 - f64_to_i32(exponent)) << 52), f);
    double low = fma(exponent, 2.3190468138462996e-17, log1p_reduced_f64(f));
    double value = log_special_f64(u, fma(exponent, 0.6931471805599453, low));
    return x == 0.0 ? x : value;
}

//! log1pexp_f64
DEVICE double log1pexp_f64(double x) {
    return (x > 0.0 ? x : 0.0) + log1p_f64(exp_f64(-fabs(x)));
}

//! pow_f64
/* As in f32. */
DEVICE double pow_f64(double a, double b) {
    double x = fabs(a);
    double f;
    double exponent = log_split_f64(x, &f);
    double s = f / (2.0 + f);
    double s_low = fma(-s, f, fma(-2.0, s, f)) / (2.0 + f);
    double z = s * s;
    double big = exponent * 0.6931471805599453;
    double hi = fma(2.0, s, big);
    double lo = fma(2.0, s, big - hi) + fma(exponent, 0.6931471805599453, -big);
    lo += fma(exponent, 2.3190468138462996e-17, fma(2.0 * s_low, z, 2.0 * s_low));
    double tail = s * log1p_series_f64(z);
    double sum = hi + tail;
    lo += hi - sum + tail;
    double product = sum * b;
    double product_low = fabs(product) < 8192.0 ? fma(lo, b, fma(sum, b, -product)) : 0.0;
    double total = product + product_low;
    double rest = fabs(product) < 8192.0 ? product_low - (total - product) : 0.0;
    double value = exp_f64(total);
    value = value < f64_infinity() ? fma(value, rest, value) : value;
    if (x == 0.0 || x == f64_infinity())
        value = (x == 0.0) == (b < 0.0) ? f64_infinity() : 0.0;
    if (fabs(b) == f64_infinity())
        value = x == 1.0 ? 1.0 : (x > 1.0) == (b > 0.0) ? f64_infinity() : 0.0;
    int is_integer = trunc(b) == b;
    int is_odd = is_integer && fabs(b) < 9007199254740992.0 && trunc(b * 0.5) != b * 0.5;
    if (f64_bits(a) >> 63 && is_odd)
        value = -value;
    if (a < 0.0 && !is_integer && x < f64_infinity())
        value = f64_nan();
    if (a != a || b != b)
        value = a + b;
    return b == 0.0 || a == 1.0 ? 1.0 : value;
}

//! two_over_pi
/* Words of 64 bits of 2/pi, the highest first, behind 64 zero bits: enough for every f64. */
TABLE u64 two_over_pi_words[20] = {
    0,
    0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull, 0xfe5163abdebbc561ull,
    0xb7246e3a424dd2e0ull, 0x06492eea09d1921cull, 0xfe1deb1cb129a73eull, 0xe88235f52ebb4484ull,
    0xe99c7026b45f7e41ull, 0x3991d639835339f4ull, 0x9c845f8bbdf9283bull, 0x1ff897ffde05980full,
    0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull, 0x4f463f669e5fea2dull, 0x7527bac7ebe5f17bull,
    0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull, 0x56033046fc7b6babull,
};
DEVICE u64 two_over_pi(u32 word) {
    return word < 20 ? two_over_pi_words[word] : 0;
}

//! reduce_pi_f64
/* As in f32, with 192 bits of 2/pi. */
DEVICE int reduce_pi_f64(double x, double *r) {
    double n = rint(x * 0.6366197723675814);
    double rest = fma(n, -1.5707963267948966, x);
    rest = fma(n, -6.123233995736766e-17, rest);
    rest = fma(n, 1.4973849048591698e-33, rest);
    int quadrant = f64_to_i32(n);
    if (fabs(x) > 100000.0) {
        u64 bits = f64_bits(x);
        u32 at = (u32)(bits >> 52 & 0x7ff) - 1075 + 62;
        u32 word = at / 64, shift = at % 64;
        u64 w0 = two_over_pi(word), w1 = two_over_pi(word + 1), w2 = two_over_pi(word + 2), w3 = two_over_pi(word + 3);
        if (shift) {
            w0 = w0 << shift | w1 >> (64 - shift);
            w1 = w1 << shift | w2 >> (64 - shift);
            w2 = w2 << shift | w3 >> (64 - shift);
        }
        u64 mantissa = (bits & 0xfffffffffffffull) | 0x10000000000000ull;
        u64 carry = mul_hi_u64(mantissa, w2);
        u64 low = mantissa * w1 + carry;
        u64 high = mantissa * w0 + mul_hi_u64(mantissa, w1) + (low < carry);
        quadrant = (int)(high >> 62);
        i64 fraction = (i64)(high << 2 | low >> 62);
        quadrant += fraction < 0;
        /* pi/2 * 2^-64 and 2^-128 */
        rest = (double)fraction * 8.515303950216386e-20;
        rest = fma((double)(low << 2), 4.616155521099502e-39, rest);
        rest = bits >> 63 ? -rest : rest;
        quadrant = bits >> 63 ? -quadrant : quadrant;
        if (!(fabs(x) < f64_infinity()))
            rest = x - x;
    }
    *r = rest;
    return quadrant & 3;
}

//! sin_reduced_f64
DEVICE double sin_reduced_f64(double r) {
    double z = r * r;
    double p = 2.8114572543455206e-15; /* 1/17!, -1/15!, ... */
    p = fma(p, z, -7.647163731819816e-13);
    p = fma(p, z, 1.6059043836821613e-10);
    p = fma(p, z, -2.505210838544172e-08);
    p = fma(p, z, 2.7557319223985893e-06);
    p = fma(p, z, -0.0001984126984126984);
    p = fma(p, z, 0.008333333333333333);
    p = fma(p, z, -0.16666666666666666);
    return fma(p * z, r, r);
}

//! cos_reduced_f64
DEVICE double cos_reduced_f64(double r) {
    double z = r * r;
    double p = 4.779477332387385e-14; /* 1/16!, -1/14!, ... */
    p = fma(p, z, -1.1470745597729725e-11);
    p = fma(p, z, 2.08767569878681e-09);
    p = fma(p, z, -2.755731922398589e-07);
    p = fma(p, z, 2.48015873015873e-05);
    p = fma(p, z, -0.001388888888888889);
    p = fma(p, z, 0.041666666666666664);
    p = fma(p, z, -0.5);
    return fma(p, z, 1.0);
}

//! sin_f64
DEVICE double sin_f64(double x) {
    double r;
    int quadrant = reduce_pi_f64(x, &r);
    double value = quadrant & 1 ? cos_reduced_f64(r) : sin_reduced_f64(r);
    value = quadrant & 2 ? -value : value;
    return x == 0.0 ? x : value;
}

//! cos_f64
DEVICE double cos_f64(double x) {
    double r;
    int quadrant = reduce_pi_f64(x, &r);
    double value = quadrant & 1 ? sin_reduced_f64(r) : cos_reduced_f64(r);
    return (quadrant + 1) & 2 ? -value : value;
}

//! tan_f64
DEVICE double tan_f64(double x) {
    double r;
    int quadrant = reduce_pi_f64(x, &r);
    double s = sin_reduced_f64(r), c = cos_reduced_f64(r);
    double value = quadrant & 1 ? -c / s : s / c;
    return x == 0.0 ? x : value;
}

//! erf_f64
/* |x| <= 1: Taylor. Above: 1 - e^(-x^2) g(t) with t = (|x| - 3) / (|x| + 3) and g the Chebyshev interpolation of erfc(x) e^(x^2) on
 * [1, 6.5]; from 6 on that is 1. */
DEVICE double erf_f64(double x) {
    double a = fabs(x);
    if (!(a > 1.0)) {
        double z = x * x;
        double p = 4.763348040515068e-18; /* 2 / sqrt(pi) * (-1)^n / (n! (2 n + 1)) */
        p = fma(p, z, -9.063970842808673e-17);
        p = fma(p, z, 1.6342614095367152e-15);
        p = fma(p, z, -2.7835162072109215e-14);
        p = fma(p, z, 4.4632242632864775e-13);
        p = fma(p, z, -6.7113668551641105e-12);
        p = fma(p, z, 9.422759064650411e-11);
        p = fma(p, z, -1.2290555301717928e-09);
        p = fma(p, z, 1.4807192815879218e-08);
        p = fma(p, z, -1.6365844691234924e-07);
        p = fma(p, z, 1.6462114365889248e-06);
        p = fma(p, z, -1.492565035840625e-05);
        p = fma(p, z, 0.00012055332981789664);
        p = fma(p, z, -0.0008548327023450853);
        p = fma(p, z, 0.005223977625442188);
        p = fma(p, z, -0.026866170645131252);
        p = fma(p, z, 0.11283791670955126);
        p = fma(p, z, -0.37612638903183754);
        p = fma(p, z, 1.1283791670955126);
        return x * p;
    } else {
        a = a > 6.5 ? 6.5 : a;
        double t = (a - 3.0) / (a + 3.0);
        double p = -2.0752745009693699e-07;
        p = fma(p, t, -2.743514121239364e-07);
        p = fma(p, t, 1.245550232756318e-06);
        p = fma(p, t, 2.1144071769556554e-06);
        p = fma(p, t, -7.977118850018997e-06);
        p = fma(p, t, -1.2859633021206063e-05);
        p = fma(p, t, 6.40564611988713e-05);
        p = fma(p, t, 4.525522134014889e-05);
        p = fma(p, t, -0.0005970619426705065);
        p = fma(p, t, 0.0007077464428863576);
        p = fma(p, t, 0.004269136332603966);
        p = fma(p, t, -0.02439249931878096);
        p = fma(p, t, 0.07166583719798346);
        p = fma(p, t, -0.15011593650077584);
        p = fma(p, t, 0.24560380171233084);
        p = fma(p, t, -0.3262335600430372);
        p = fma(p, t, 0.17900115118138996);
        return copysign(1.0 - exp_f64(-a * a) * p, x);
    }
}

//! one_plus_erf_f64
DEVICE double one_plus_erf_f64(double x) {
    return 1.0 + erf_f64(x);
}

//! atan2_f64
/* atan(t) for t in [0, 1] as atan(c) + atan((t - c) / (1 + c t)), c the nearest of 0, 1/2, 1, so that the series' argument is below
 * 1/4. */
DEVICE double atan2_f64(double y, double x) {
    double ax = fabs(x), ay = fabs(y);
    double big = fmax(ax, ay), small = fmin(ax, ay);
    double t = big == 0.0 ? 0.0 : small == f64_infinity() ? 1.0 : small / big;
    double c = t < 0.25 ? 0.0 : t < 0.75 ? 0.5 : 1.0;
    double base = t < 0.25 ? 0.0 : t < 0.75 ? 0.4636476090008061 : 0.7853981633974483;
    t = (t - c) / fma(c, t, 1.0);
    double z = t * t;
    double p = -0.037037037037037035; /* (-1)^n / (2 n + 1) */
    p = fma(p, z, 0.04);
    p = fma(p, z, -0.043478260869565216);
    p = fma(p, z, 0.047619047619047616);
    p = fma(p, z, -0.05263157894736842);
    p = fma(p, z, 0.058823529411764705);
    p = fma(p, z, -0.06666666666666667);
    p = fma(p, z, 0.07692307692307693);
    p = fma(p, z, -0.09090909090909091);
    p = fma(p, z, 0.1111111111111111);
    p = fma(p, z, -0.14285714285714285);
    p = fma(p, z, 0.2);
    p = fma(p, z, -0.3333333333333333);
    double angle = base + fma(p * z, t, t);
    angle = ay > ax ? 1.5707963267948966 - angle : angle;
    angle = f64_bits(x) >> 63 ? 3.141592653589793 - angle : angle;
    return x != x || y != y ? x + y : copysign(angle, y);
}

//! mod_f64
/* As in f32. */
DEVICE double mod_f64(double a, double b) {
    double x = fabs(a), y = fabs(b);
    if (!(x < f64_infinity()) || !(y > 0.0))
        return f64_nan();
    if (x >= y && y < f64_infinity()) {
        u64 bits_x = f64_bits(x), bits_y = f64_bits(y);
        int exponent_x = (int)(bits_x >> 52), exponent_y = (int)(bits_y >> 52);
        u64 rest = exponent_x ? (bits_x & 0xfffffffffffffull) | 0x10000000000000ull : bits_x;
        u64 divisor = exponent_y ? (bits_y & 0xfffffffffffffull) | 0x10000000000000ull : bits_y;
        exponent_x += exponent_x == 0;
        exponent_y += exponent_y == 0;
        for (; divisor < 0x10000000000000ull; divisor <<= 1)
            exponent_y--;
        for (int step = exponent_x - exponent_y; step >= 0; step--) {
            rest -= rest >= divisor ? divisor : 0;
            rest <<= step > 0;
        }
        x = scale_f64((double)rest, exponent_y - 1075);
    }
    return copysign(x, a);
}
