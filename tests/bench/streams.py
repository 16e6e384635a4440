"""Random graphs without a product: what models and losses do between their products, of one to four axes of any size, drawn from a seed, each
with its inputs and what PyTorch says for it in the form that cases.py describes. What is drawn depends on the seed alone."""
import math
import random

import torch
import torch.nn.functional as F

from cases import E4, F32, at_least_f32, positive, rand
from grown import TYPES, Grown, Term

WIDTH = {"bf16": 2, "f16": 2, "f32": 4, "e4m3": 1, "i8": 1, "i64": 8, "bool": 1}
SIZES = [2, 3, 4, 6, 7, 8, 12, 14, 16, 24, 28, 32, 49, 50, 56, 64, 77, 96, 100, 112, 128, 160, 192, 196, 197, 224, 255, 256, 257, 320, 384, 480,
         500, 512, 577, 640, 768, 1000, 1024, 1152, 1280, 1536, 2048, 3000, 3584, 4096, 5120, 8192, 11008, 16384, 20000, 32000, 50257, 65536,
         128256, 200000, 1000000]
LEAST, MOST = 1e6, 6e7  # elements of the largest tensor
TOLERANCE = {"f32": 1e-3, "f16": 6e-3, "e4m3": 8e-2}


class Case(Grown):
    """A graph as it grows, from a first tensor of `shape`."""

    def __init__(self, r, number, family):
        super().__init__(r, number, family)
        while True:
            self.shape = [r.choice(SIZES) for _ in range(r.choice([1, 2, 2, 2, 3, 3, 4]))]
            if LEAST < math.prod(self.shape) < MOST:
                break
        self.type = r.choice(["bf16", "bf16", "bf16", "f16", "f32"])

    def input(self, name, shape, type=None, make=None):
        type = type or self.type
        self.inputs.append((name, type, shape, make or (lambda: rand(*shape, dtype=TYPES[type], scale=1.0))))
        return Term(name, lambda v: v[name])

    def x(self):
        return self.input("x", self.shape)

    def output(self, term, shape, type=None, name="y"):
        self.outputs.append((name, type or self.type, shape))
        return self.let(name, term)

    def some(self, last=False):
        """Some of the axes, the last among them or as it comes, but not all where there are several."""
        n = len(self.shape)
        most = max(1, n - 1)
        axes = set(self.random.sample(range(n), self.random.randint(1, most)))
        if last:
            axes = {n - 1} | set(list(axes)[:most - 1])
        return sorted(axes)

    def part(self):
        """The shape with some axes of length 1."""
        return [1 if self.chance(0.5) else d for d in self.shape]

    def name(self):
        return f"{self.family}_{self.number}_{'x'.join(map(str, self.shape))}_{self.type}"

    def bytes(self):
        return float(sum(WIDTH[type] * math.prod(shape) for _, type, shape, *_ in self.inputs + self.outputs))


# ---- families: each draws the rest of its case

def pointwise(c):
    y = c.x()
    for i in range(c.random.randint(1, 3)):
        other = c.input(f"b{i}", c.random.choice([c.shape, c.shape[-1:], c.part()]))
        y = c.activated(y + other if c.chance(0.6) else y * other)
    c.output(y, c.shape)


def over_rows(c):
    """Softmax and norms over the last axis."""
    x, n = c.x(), c.shape[-1]
    if c.chance(0.5):
        x = c.let("r", x + c.input("a", c.shape))
    kind = c.random.choice(["softmax", "log_softmax", "layernorm", "rmsnorm", "layernorm"])
    if kind == "softmax":
        c.output(x.through("softmax({})", lambda x: F.softmax(x, -1)), c.shape)
    elif kind == "log_softmax":
        c.output(x.through("log_softmax({})", lambda x: F.log_softmax(x, -1)), c.shape)
    elif kind == "layernorm":
        g, b = c.input("g", [n]), c.input("b", [n])
        y = Term(f"layernorm({x.text}, g, b)", lambda v: F.layer_norm(x.value(v), (n,), g.value(v), b.value(v), 1e-5))
        c.output(c.activated(y), c.shape)
    else:
        g = c.input("g", [n])
        c.output(Term(f"rmsnorm({x.text}, g)", lambda v: F.rms_norm(x.value(v), (n,), g.value(v), 1e-5)), c.shape)


def over_axes(c):
    """Softmax and normalization over axes that need not be the last."""
    axes = c.some()
    x = c.x()
    if c.chance(0.5):
        y = x.through(f"({{}} - reduce_max({{}}, {axes}))".replace("{}", x.text), lambda x: x - x.amax(axes, keepdim=True))
        e = c.let("e", y.through("exp(cast({}, f32))", lambda y: at_least_f32(y).exp()))
        y = e.through(f"(e / sum(e, over={axes}))", lambda e: e / e.sum(axes, keepdim=True))
        c.output(y.through("{}", lambda y: y if y.dtype == torch.float64 else y.to(TYPES[c.type])), c.shape)
        return
    def normalized(x):
        y = at_least_f32(x)
        d = y - y.mean(axes, keepdim=True)
        return (d * torch.rsqrt(d.square().mean(axes, keepdim=True) + 1e-5)).to(x.dtype)
    c.let("d", x.through(f"(x - mean(x, over={axes}))", lambda x: at_least_f32(x) - at_least_f32(x).mean(axes, keepdim=True)))
    y = Term(f"d * rsqrt(mean(d * d, over={axes}) + 1e-5)", lambda v: normalized(v["x"]))
    c.output(c.activated(y), c.shape)


REDUCTIONS = {
    "sum": ("sum({}, over={}, keep=0)", lambda x, axes: x.sum(axes)),
    "mean": ("mean({}, over={}, keep=0)", lambda x, axes: x.mean(axes)),
    "amax": ("amax({}, over={}, keep=0)", lambda x, axes: x.abs().amax(axes)),
    "square": ("norm2({}, over={}, keep=0)", lambda x, axes: x.square().sum(axes).sqrt()),
}


def reduced(c):
    text, function = REDUCTIONS[c.random.choice(list(REDUCTIONS))]
    axes = c.some()
    x = c.activated(c.x())
    if c.chance(0.4):
        x = x * c.input("a", c.shape)
    y = c.let("h", x.through("cast({}, f32)", at_least_f32)).through(text.replace("{}", "h", 1).format(axes), lambda h: function(h, axes))
    c.output(y, [d for i, d in enumerate(c.shape) if i not in axes], "f32")


def turned(c):
    """Axes in another order, and perhaps something with it."""
    while len(c.shape) < 2:
        c.shape = [c.random.choice([64, 100, 256])] + [c.shape[0] // 64]
    order = list(range(len(c.shape)))
    while order == sorted(order):
        c.random.shuffle(order)
    y = c.x().through(f"transpose({{}}, perm={order})", lambda x: x.permute(order).contiguous())
    shape = [c.shape[i] for i in order]
    if c.chance(0.5):
        y = c.activated(y + c.input("b", shape[-1:]))
    c.output(y, shape)


def joined(c):
    """Two tensors one behind the other along an axis, or a part of one."""
    axis = c.random.randrange(len(c.shape))
    x = c.x()
    if c.chance(0.5):
        other = list(c.shape)
        other[axis] = max(1, other[axis] // c.random.choice([1, 2, 3]))
        w = c.input("w", other)
        shape = list(c.shape)
        shape[axis] += other[axis]
        y = Term(f"concat(x, w, axis={axis})", lambda v: torch.cat([x.value(v), w.value(v)], axis))
        c.output(c.activated(y), shape)
        return
    begin = c.shape[axis] // c.random.choice([3, 4, 7])
    end = max(begin + 1, c.shape[axis] - c.shape[axis] // 5)
    cut = ", ".join([":"] * axis + [f"{begin}:{end}"] + [":"] * (len(c.shape) - axis - 1))
    where = tuple(slice(begin, end) if i == axis else slice(None) for i in range(len(c.shape)))
    shape = [end - begin if i == axis else d for i, d in enumerate(c.shape)]
    y = x.through(f"{{}}[{cut}]", lambda x: x[where])
    c.output(c.activated(y) * c.input("b", shape[-1:]), shape)


def quantized(c):
    """To e4m3 or i8 with a factor for each row, column, or for all."""
    axes = c.random.choice([[len(c.shape) - 1], [0], list(range(len(c.shape)))])
    x = c.activated(c.x())
    shape = [1 if i in axes else d for i, d in enumerate(c.shape)]
    is_fp8 = c.chance(0.6)
    limit = 448 if is_fp8 else 127
    h = c.let("h", x.through("cast({}, f32)", at_least_f32))
    s = c.output(h.through(f"max(amax(h, over={axes}) / {limit}.0, 1e-9)", lambda h: (h.abs().amax(axes, keepdim=True) / limit).clamp_min(1e-9)),
                 shape, "f32", "s")
    if is_fp8:
        c.output(Term("quantize(h, s)", lambda v: (v["h"] / v["s"]) if v["h"].dtype == torch.float64 else (v["h"] / v["s"]).to(E4)), c.shape, "e4m3", "q")
    else:
        c.output(Term("cast(round(h / s), i8)", lambda v: (v["h"] / s.value(v)).round().to(torch.int8)), c.shape, "i8", "q")


def normalized_back(c):
    """Gradients of a layer norm, the parameters' among them."""
    if len(c.shape) < 2 or c.shape[-1] > 20000:
        c.shape = [c.random.choice([4096, 10000, 16384]), c.random.choice([320, 768, 1000, 1024, 2048])]
    n, rest = c.shape[-1], list(range(len(c.shape) - 1))
    rows = c.shape[:-1] + [1]
    c.input("d", c.shape), c.x(), c.input("g", [n])
    c.input("m", rows, "f32", lambda: rand(*rows, dtype=F32, scale=0.1))
    c.input("r", rows, "f32", lambda: positive(*rows) + 0.5)
    c.outputs += [("dx", c.type, c.shape), ("dg", "f32", [n]), ("db", "f32", [n])]

    def back(v):
        x, d, g, m, r = (at_least_f32(v[k]) for k in ("x", "d", "g", "m", "r"))
        h, e = (x - m) * r, d * g
        dx = r * (e - e.mean(-1, keepdim=True) - h * (e * h).mean(-1, keepdim=True))
        return dx.to(v["x"].dtype), (d * h).sum(rest), d.sum(rest)
    c.statements.append(("dx, dg, db", Term("layernorm_backward(cast(d, f32), x, g, m, r)", back)))


FAMILIES = {"point": pointwise, "rows": over_rows, "axes": over_axes, "red": reduced, "turn": turned, "join": joined, "quant": quantized,
            "back": normalized_back}
DRAWN = [*FAMILIES, "point", "rows", "axes", "red", "red", "turn"]


def draw(seed, count):
    """(the graphs' text, CASES, TOLERANCES) of `count` cases."""
    r = random.Random(seed)
    cases = []
    while len(cases) < count:
        family = r.choice(DRAWN)
        case = Case(r, len(cases), family)
        FAMILIES[family](case)
        cases.append(case)
    return ("sinter 1\n\n" + "\n".join(c.text() for c in cases), {c.name(): (c.make, c.peer, 0.0, c.bytes()) for c in cases},
            {c.name(): TOLERANCE for c in cases})
