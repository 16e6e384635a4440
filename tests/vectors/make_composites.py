"""Writes composites.sg and composites.safetensors: functions of the library on small inputs, and what NumPy and SciPy make of them.

A tensor is named `graph.name`, after the graph's inputs and outputs. Needs numpy and scipy; run it only to add cases."""
import json
import numpy as np
from scipy import special

rng = np.random.default_rng(3)
x = rng.normal(0, 1.5, (5, 24)).astype(np.float32)
dy = rng.normal(0, 1, (5, 24)).astype(np.float32)
g, b = rng.normal(1, 0.2, 24).astype(np.float32), rng.normal(0, 0.2, 24).astype(np.float32)
img = rng.normal(0, 1, (2, 6, 8)).astype(np.float32)
c8, d8 = rng.normal(1, 0.2, 8).astype(np.float32), rng.normal(0, 0.2, 8).astype(np.float32)
labels = rng.integers(0, 24, 5).astype(np.int32)
X, DY, G, B, IMG, C8, D8 = (v.astype(np.float64) for v in (x, dy, g, b, img, c8, d8))
sig = special.expit


def gelu(v):
    return 0.5 * v * (1 + special.erf(v / np.sqrt(2)))


def gelu_tanh(v):
    return 0.5 * v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v ** 3)))


def slope(f, v, h=1e-6):
    """The derivative by central differences: shares no formula with the backward functions."""
    return (f(v + h) - f(v - h)) / (2 * h)


def normed(v, axes, eps=1e-5):
    return (v - v.mean(axes, keepdims=True)) / np.sqrt(v.var(axes, keepdims=True) + eps)


def grad(f, v, up, h=1e-6):
    out = np.zeros_like(v)
    for i in np.ndindex(v.shape):
        a, c = v.copy(), v.copy()
        a[i] += h
        c[i] -= h
        out[i] = ((f(a) - f(c)) * up).sum() / (2 * h)
    return out


pointwise = {
    "relu": ("relu(x)", lambda v: np.maximum(v, 0)),
    "relu_clipped": ("relu(x, lower=-0.5, upper=1.5, slope=0.1)", lambda v: np.where(v < -0.5, -0.5 + 0.1 * (v + 0.5), np.minimum(v, 1.5))),
    "elu": ("elu(x, alpha=0.7)", lambda v: np.where(v > 0, v, 0.7 * (np.exp(v) - 1))),
    "gelu": ("gelu(x)", gelu), "gelu_tanh": ("gelu(x, approx=tanh)", gelu_tanh),
    "softplus": ("softplus(x, beta=2)", lambda v: np.log(1 + np.exp(2 * v)) / 2),
    "silu": ("silu(x)", lambda v: v * sig(v)), "swish": ("swish(x, beta=1.5)", lambda v: v * sig(1.5 * v)),
    "mish": ("mish(x)", lambda v: v * np.tanh(np.log(1 + np.exp(v)))),
    "hardswish": ("hardswish(x)", lambda v: v * np.clip(v + 3, 0, 6) / 6),
    "sinh": ("sinh(x)", np.sinh), "cosh": ("cosh(x)", np.cosh),
}
backward = {
    "relu_backward": ("relu_backward(dy, x)", lambda v: np.maximum(v, 0)), "tanh_backward": ("tanh_backward(dy, x)", np.tanh),
    "sigmoid_backward": ("sigmoid_backward(dy, x)", sig),
    "elu_backward": ("elu_backward(dy, x, alpha=0.7)", lambda v: np.where(v > 0, v, 0.7 * (np.exp(v) - 1))),
    "gelu_backward": ("gelu_backward(dy, x)", gelu), "gelu_tanh_backward": ("gelu_backward(dy, x, approx=tanh)", gelu_tanh),
    "softplus_backward": ("softplus_backward(dy, x, beta=2)", lambda v: np.log(1 + np.exp(2 * v)) / 2),
    "swish_backward": ("swish_backward(dy, x, beta=1.5)", lambda v: v * sig(1.5 * v)),
}

cases = []  # graph text, then tensors by name


def case(name, inputs, outputs, statements):
    kinds = {"float32": "f32", "int32": "i32", "float64": "f64", "bool": "bool"}
    types = lambda d: ", ".join(f"{n}: {'f32' if v.dtype == np.float64 else kinds[str(v.dtype)]}{list(v.shape)}" for n, v in d.items())
    body = "\n".join("    " + s for s in statements)
    cases.append((f"graph {name} ({types(inputs)}) -> ({types(outputs)})\n{{\n{body}\n}}\n",
                  {f"{name}.{n}": v for n, v in {**inputs, **outputs}.items()}))


for name, (call, f) in pointwise.items():
    case(name, {"x": x}, {"y": f(X)}, [f"y = {call}"])
for name, (call, f) in backward.items():
    case(name, {"dy": dy, "x": x}, {"y": DY * slope(f, X)}, [f"y = {call}"])
case("softmax", {"x": x}, {"y": special.softmax(X, -1)}, ["y = softmax(x)"])
case("log_softmax", {"x": x}, {"y": special.log_softmax(X, -1)}, ["y = log_softmax(x)"])
case("logsumexp", {"x": x}, {"y": special.logsumexp(X, -1, keepdims=True)}, ["y = logsumexp(x, over=-1)"])
case("layernorm", {"x": x, "g": g, "b": b}, {"y": normed(X, -1) * G + B}, ["y = layernorm(x, g, b, over=-1)"])
case("rmsnorm", {"x": x, "g": g}, {"y": X / np.sqrt((X * X).mean(-1, keepdims=True) + 1e-5) * G}, ["y = rmsnorm(x, g, over=-1)"])
mu, r = X.mean(-1, keepdims=True), 1 / np.sqrt(X.var(-1, keepdims=True) + 1e-5)
case("layernorm_backward", {"dy": dy, "x": x, "g": g, "m": mu.astype(np.float32), "r": r.astype(np.float32)},
     {"dx": grad(lambda v: normed(v, -1) * G + B, X, DY), "dg": (DY * normed(X, -1)).sum(0), "db": DY.sum(0)},
     ["a, p, q = layernorm_backward(dy, x, g, m, r)", "dx = a", "dg = p", "db = q"])
case("instancenorm", {"x": img, "g": c8, "b": d8}, {"y": normed(IMG, 1) * C8 + D8}, ["y = instancenorm(x, g, b)"])
parts = IMG.reshape(2, 6, 4, 2)
case("groupnorm", {"x": img, "g": c8, "b": d8}, {"y": normed(parts, (1, 3)).reshape(2, 6, 8) * C8 + D8}, ["y = groupnorm(x, 4, g, b)"])
case("batchnorm", {"x": img, "m": d8, "v": np.abs(c8), "g": c8, "b": d8},
     {"y": (IMG - D8) / np.sqrt(np.abs(C8) + 1e-5) * C8 + D8}, ["y = batchnorm(x, m, v, g, b)"])
mean, var = IMG.mean((0, 1)), IMG.var((0, 1))
case("batchnorm_train", {"x": img, "g": c8, "b": d8, "m": d8, "v": np.abs(c8)},
     {"y": normed(IMG, (0, 1)) * C8 + D8, "mean_out": mean, "m2": 0.9 * D8 + 0.1 * mean, "v2": 0.9 * np.abs(C8) + 0.1 * var * 12 / 11},
     ["a, p, q, s, t = batchnorm_train(x, g, b, m, v)", "y = a", "mean_out = p", "m2 = s", "v2 = t"])
case("cross_entropy", {"x": x, "t": labels}, {"y": -special.log_softmax(X, -1)[np.arange(5), labels]}, ["y = cross_entropy(x, t)"])
case("amax", {"x": x}, {"y": np.abs(X).max(-1, keepdims=True)}, ["y = amax(x, over=-1)"])
case("norm1", {"x": x}, {"y": np.abs(X).sum(-1, keepdims=True)}, ["y = norm1(x, over=-1)"])
case("norm2", {"x": x}, {"y": np.sqrt((X * X).sum(-1, keepdims=True))}, ["y = norm2(x, over=-1)"])
angle = rng.normal(0, 1, (1, 12)).astype(np.float32)
co, si = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
lo, hi = X[:, :12], X[:, 12:]
case("rope", {"x": x, "c": co, "s": si}, {"y": np.concatenate([lo * co - hi * si, hi * co + lo * si], -1)}, ["y = rope(x, c, s)"])
case("linear", {"x": x, "w": img.reshape(4, 24), "b": c8[:4]}, {"y": X @ IMG.reshape(4, 24).T + C8[:4]}, ["y = linear(x, w, b)"])

with open("composites.sg", "w") as out:
    out.write("# Written by make_composites.py.\nsinter 1\n\n" + "\n".join(text for text, _ in cases))
header, blob = {}, b""
for _, tensors in cases:
    for name, v in tensors.items():
        raw = np.ascontiguousarray(v).tobytes()
        kind = {"float32": "F32", "float64": "F64", "int32": "I32"}[str(v.dtype)]
        header[name] = {"dtype": kind, "shape": list(v.shape), "data_offsets": [len(blob), len(blob) + len(raw)]}
        blob += raw
head = json.dumps(header).encode()
head += b" " * (-len(head) % 8)
with open("composites.safetensors", "wb") as out:
    out.write(len(head).to_bytes(8, "little") + head + blob)
print(len(cases), "cases,", len(blob), "bytes")
