"""Writes scalars.txt: what NumPy and SciPy make of every scalar primitive, as a witness that shares no formula with Sinter.

A line is `op result a [b [c]]` in C's hexadecimal floats (i: integers, decimal). Needs numpy and scipy; run it only to add lines."""
import math
import numpy as np
from scipy import special

points = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1e-8, -1e-3, 20.0, -30.0, 700.0, -745.0, 1e30, float("inf"), float("-inf"), float("nan")]
second = [1.0, -2.0, 0.5, 3.0, 0.0, float("nan"), float("inf")]
ints = [0, 1, -1, 7, -7, 100, 2147483647, -2147483648]



def math_pow(a, b):
    """C's pow, as Python's: NumPy takes a square root for an exponent of 0.5 and so gives NaN for -inf."""
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf
    except ValueError:  # a pole, or a negative base under a fraction
        return math.nan if a != 0 else -math.inf if math.copysign(1, a) < 0 and b % 2 == 1 else math.inf


unary = dict(neg=np.negative, abs=np.abs, sign=np.sign, ceil=np.ceil, floor=np.floor, round=np.rint, trunc=np.trunc, sqrt=np.sqrt,
             rsqrt=lambda a: 1 / np.sqrt(a), reciprocal=lambda a: 1 / a, exp=np.exp, exp2=np.exp2, expm1=np.expm1, log=np.log,
             log2=np.log2, log1p=np.log1p, log1pexp=lambda a: np.logaddexp(0, a), sin=np.sin, cos=np.cos, tan=np.tan, tanh=np.tanh,
             erf=special.erf, one_plus_erf=lambda a: special.erfc(-a), sigmoid=special.expit, isnan=lambda a: float(np.isnan(a)), isfinite=lambda a: float(np.isfinite(a)))
unary["not"] = lambda a: float(np.logical_not(a))
binary = dict(add=np.add, sub=np.subtract, mul=np.multiply, div=np.divide, mod=np.fmod, min=np.minimum, max=np.maximum, pow=lambda a, b: np.float64(math_pow(a, b)),
              atan2=np.arctan2, eq=np.equal, ne=np.not_equal, lt=np.less, le=np.less_equal, gt=np.greater, ge=np.greater_equal)
binary["and"], binary["or"], binary["xor"] = np.logical_and, np.logical_or, np.logical_xor
integer = dict(add=np.add, sub=np.subtract, mul=np.multiply, min=np.minimum, max=np.maximum, bit_and=np.bitwise_and,
               bit_or=np.bitwise_or, bit_xor=np.bitwise_xor, eq=np.equal, lt=np.less,
               div=lambda a, b: 0 if b == 0 else int(math.trunc(a / b)), mod=lambda a, b: 0 if b == 0 else int(math.fmod(a, b)))


def text(x):
    x = float(x)
    return "nan" if math.isnan(x) else "inf" if x == math.inf else "-inf" if x == -math.inf else x.hex()


with np.errstate(all="ignore"), open("scalars.txt", "w") as out:
    for op, f in unary.items():
        for a in map(np.float64, points):
            print(op, text(f(a)), text(a), file=out)
    for op, f in binary.items():
        for a in map(np.float64, points):
            for b in map(np.float64, second):
                print(op, text(f(a, b)), text(a), text(b), file=out)
    for a in (0.0, 1.0, float("nan")):
        print("select", text(np.where(bool(a), 2.5, -3.0)), text(a), text(2.5), text(-3.0), file=out)
    for a, b, c in ((2.0, 3.0, 4.0), (1e200, 1e-200, -1.0), (0.1, 10.0, -1.0)):
        print("fma", text(np.float64(a) * b + c), text(a), text(b), text(c), file=out)
    for op, f in integer.items():
        for a in ints:
            for b in ints:
                print("i", op, int(f(np.int64(a), np.int64(b))), a, b, file=out)
    for a in ints:
        for b in (0, 1, 5):
            print("i", "shl", int(np.left_shift(np.int64(a), np.int64(b))), a, b, file=out)
            print("i", "shr", int(np.right_shift(np.int64(a), np.int64(b))), a, b, file=out)
