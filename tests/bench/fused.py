"""Random fused products: what models put around a product of matrices, drawn from a seed, each with its inputs and its peer in the form
that cases.py describes. What is drawn depends on the seed alone, so that two builds are compared on the same graphs."""
import random

import torch
import torch.nn.functional as F

from cases import (E4, at_least_f32, fp8, gelu, i4, i8, positive, quantized_blocks, rand, rotate_halves, scalar, scaled_i4, scaled_mm,
                   scaled_rows)
from grown import ACTIVATIONS, TYPES, Grown, Term

COLUMNS = [256, 384, 512, 640, 768, 896, 1024, 1152, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 8192]
ROWS = [16, 48, 64, 128, 200, 256, 512, 577, 1000, 1024, 2048, 3136, 4096, 8192, 12608, 16384]
FEW_ROWS = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128]
MANY_COLUMNS = [1024, 2048, 3584, 4096, 5120, 8192, 11008, 14336]
LEAST_FLOPS, MOST_FLOPS, MOST_ELEMENTS = 1e8, 6e11, 6e7
TOLERANCE = {"f32": 2e-2, "f16": 6e-3, "e4m3": 8e-2}


class Case(Grown):
    """A graph as it grows: a product of m x k by k x n, and what is around it."""

    def __init__(self, r, number, family):
        super().__init__(r, number, family)
        self.suffix = ""
        while True:
            self.m, self.n, self.k = r.choice(ROWS), r.choice(COLUMNS), r.choice(COLUMNS)
            self.flops = 2.0 * self.m * self.n * self.k
            if LEAST_FLOPS < self.flops < MOST_FLOPS and self.m * self.n < MOST_ELEMENTS:
                break
        self.type = r.choice(["bf16", "bf16", "bf16", "f16"])
        self.layout = r.choice(["nt", "nt", "nn", "tn"])
        self.bytes = 2.0 * (self.m * self.k + self.n * self.k + self.m * self.n)

    # ---- what families are written with

    def input(self, name, *shape, type=None, scale=0.5, make=None):
        type = type or self.type
        self.inputs.append((name, type, shape, make or (lambda: rand(*shape, dtype=TYPES[type], scale=scale))))
        return Term(name, lambda v: v[name])

    def output(self, name, type, *shape):
        self.outputs.append((name, type, shape))

    def result(self, term, *shape, type=None):
        self.output("y", type or self.type, *(shape or (self.m, self.n)))
        return self.let("y", term)

    def left(self):
        if self.layout == "tn":
            return self.input("x", self.k, self.m).turned()
        return self.input("x", self.m, self.k)

    def right(self, name="w"):
        if self.layout == "nt":
            return self.input(name, self.n, self.k, scale=0.1).turned()
        return self.input(name, self.k, self.n, scale=0.1)

    def biased(self, term, p):
        return term + self.input("b", self.n) if self.chance(p) else term

    def beside(self, name):
        """A second tensor of the result's size."""
        self.bytes += 2 * self.m * self.n
        return self.input(name, self.m, self.n)

    # ---- what becomes of it

    def name(self):
        return f"{self.family}_{self.number}_{self.m}x{self.n}x{self.k}{self.suffix}"


# ---- families: each draws the rest of its case

def epilogue(c):
    y = c.activated(c.biased(c.left() @ c.right(), 0.7))
    if c.chance(0.4):
        y = y + c.beside("r")
    if c.chance(0.25):
        y = y * c.beside("q")
    c.result(y)


def norm_behind(c):
    s = c.biased(c.left() @ c.right(), 0.6)
    if c.chance(0.8):
        s = s + c.beside("r")
    c.input("g", c.n)
    has_mean = c.chance(0.5)
    if has_mean:
        c.input("h", c.n)
    if c.chance(0.6):  # the stream goes on
        c.output("s", c.type, c.m, c.n)
        c.bytes += 2 * c.m * c.n
    else:
        s = s.through(f"cast({{}}, {c.type})", lambda x: x)
    c.let("s", s)
    c.result(Term("layernorm(s, g, h)", lambda v: F.layer_norm(v["s"], (c.n,), v["g"], v["h"], 1e-5)) if has_mean else
             Term("rmsnorm(s, g)", lambda v: F.rms_norm(v["s"], (c.n,), v["g"], 1e-5)))


def softmax_behind(c):
    product = c.left() @ c.right()
    function, peer = ("log_softmax", F.log_softmax) if c.chance(0.4) else ("softmax", F.softmax)
    type = c.random.choice([c.type, "f32"])
    c.result(product.through(function + "({})", lambda x: peer(at_least_f32(x) if type == "f32" else x, -1)), type=type)


def prologue(c):
    x = c.input("x", c.m, c.k)
    kind = c.random.choice(["rms", "rms", "ln", "silu", "relu2", "gate", "row"])
    c.suffix = "_" + kind
    if kind == "rms":
        c.input("g", c.k)
        x = Term("rmsnorm(x, g)", lambda v: F.rms_norm(v["x"], (c.k,), v["g"], 1e-5))
    elif kind == "ln":
        c.input("g", c.k)
        c.input("h", c.k)
        x = Term("layernorm(x, g, h)", lambda v: F.layer_norm(v["x"], (c.k,), v["g"], v["h"], 1e-5))
    elif kind == "silu":
        x = x.through("silu({})", F.silu)
    elif kind == "relu2":
        x = x.through("squared_relu({})", lambda x: F.relu(x).square())
    elif kind == "gate":
        c.bytes += 2 * c.m * c.k
        x = x.through("silu({})", F.silu) * c.input("u", c.m, c.k)
    else:
        x = x * c.input("v", c.m, 1)
    y = c.biased(x @ c.right(), 0.5)
    c.result(c.activated(y) if c.chance(0.4) else y)


def gated(c):
    x, w, u = c.left(), c.right("w"), c.right("u")
    c.flops *= 2
    c.bytes += 2 * c.n * c.k
    c.result(c.activated(x @ w) * (x @ u))


def reduced(c):
    product = c.left() @ c.right()
    kind = c.random.choice(["colsum", "rowsum", "amaxq", "lse", "meansq"])
    c.suffix = "_" + kind
    if kind == "colsum":
        y = c.result(product.through("relu({})", F.relu))
        c.output("s", "f32", c.n)
        c.let("s", y.through("sum({}, over=0, keep=0)", lambda y: at_least_f32(y).sum(0)))
        return
    if kind == "rowsum":
        y = c.result(product.through("gelu({}, approx=tanh)", gelu))
        s = y.through("sum({}, over=-1)", lambda y: at_least_f32(y).sum(-1, keepdim=True))
    elif kind == "amaxq":
        c.output("q", "e4m3", c.m, c.n)
        y = c.let("y", product.through("{}", at_least_f32))
        s = y.through("amax({}, over=-1) / 448", lambda y: y.abs().amax(-1, keepdim=True) / 448)
    elif kind == "lse":
        s = product.through("logsumexp({}, over=-1)", lambda y: at_least_f32(y).logsumexp(-1, keepdim=True))
    else:
        c.let("h", product)
        s = Term("mean(h * h, over=-1)", lambda v: at_least_f32(v["h"]).square().mean(-1, keepdim=True))
    c.output("s", "f32", c.m, 1)
    c.let("s", s)
    if kind == "amaxq":
        c.let("q", Term("quantize(y, s)", lambda v: (v["y"] / v["s"]).to(torch.float64 if v["y"].dtype == torch.float64 else E4)))


def batched(c):
    batch = c.random.choice([8, 16, 32, 64, 96])
    c.m, c.n, c.k = (c.random.choice([64, 128, 197, 256, 512, 1024]) for _ in range(3))
    c.suffix = f"_of_{batch}"
    is_turned = c.chance(0.5)
    y = c.input("x", batch, c.m, c.k) @ (c.input("w", batch, c.n, c.k, scale=0.1).turned() if is_turned else
                                         c.input("w", batch, c.k, c.n, scale=0.1))
    if c.chance(0.6):
        y = y.through("({} * 0.125)", lambda y: y * 0.125)
    if c.chance(0.3) and c.n <= 512:
        y = y.through("softmax({})", lambda y: F.softmax(y, -1))
    c.flops = 2.0 * batch * c.m * c.n * c.k
    c.bytes = 2.0 * batch * (c.m * c.k + c.n * c.k + c.m * c.n)
    c.result(y, batch, c.m, c.n)


def scaled_fp8(c):
    c.k = max(c.k, 512)
    is_row = c.chance(0.6)
    c.suffix = "_row" if is_row else "_tensor"
    c.input("x", c.m, c.k, type="e4m3", make=lambda: fp8(c.m, c.k))
    c.input("w", c.n, c.k, type="e4m3", make=lambda: fp8(c.n, c.k))
    c.input("sx", *((c.m, 1) if is_row else ()), type="f32", make=lambda: positive(c.m, 1) if is_row else scalar(0.5))
    c.input("sw", *((c.n, 1) if is_row else ()), type="f32", make=lambda: positive(c.n, 1) if is_row else scalar(0.25))

    def product(v):
        operands = [v[name] for name in ("x", "w", "sx", "sw")]
        return (scaled_rows if is_row or v["x"].dtype == torch.float64 else scaled_mm)(*operands)

    activation = ACTIVATIONS[c.random.choice(["none", "none", "relu", "silu"])]
    y = Term("dequantize(x, sx) @ dequantize(w, sw).T", product).through(*activation)
    if not is_row:
        y = y.through("{} @allow(fast_accumulation)", lambda y: y)
    c.flops = 2.0 * c.m * c.n * c.k
    c.bytes = c.m * c.k + c.n * c.k + 2.0 * c.m * c.n
    c.result(y, type="bf16")


def gradient(c):
    x, d = c.input("x", c.m, c.k), c.input("d", c.m, c.n)
    c.output("g", c.type, c.n, c.k)
    c.let("g", d.turned() @ x)
    if c.chance(0.5):
        c.suffix = "_db"
        c.output("b", c.type, c.n)
        c.let("b", d.through("sum({}, over=0, keep=0)", lambda d: d.sum(0)))


def two_layers(c):
    hidden, c.n = c.random.choice([64, 128, 256]), c.random.choice([64, 128, 256, 512])
    c.k, c.m = c.random.choice([64, 128, 256, 512, 768]), c.random.choice([4096, 16384, 65536])
    c.suffix = f"_over_{hidden}"
    x, w, b = c.input("x", c.m, c.k), c.input("w", hidden, c.k, scale=0.1), c.input("b", hidden)
    v = c.input("v", c.n, hidden, scale=0.1)
    c.flops, c.bytes = 2.0 * c.m * hidden * (c.k + c.n), 2.0 * c.m * (c.k + c.n)
    c.result(c.activated(x @ w.turned() + b) @ v.turned())


def decode(c):
    """Few rows, many weights."""
    c.m, c.n, c.k = c.random.choice(FEW_ROWS), c.random.choice(MANY_COLUMNS), c.random.choice(MANY_COLUMNS)
    c.flops, c.bytes = 2.0 * c.m * c.n * c.k, 2.0 * c.n * c.k
    x, w = c.input("x", c.m, c.k), c.input("w", c.n, c.k, scale=0.1).turned()
    if c.chance(0.3):
        c.suffix = "_gated"
        c.flops, c.bytes = 2 * c.flops, 2 * c.bytes
        c.result(c.activated(x @ w) * (x @ c.input("u", c.n, c.k, scale=0.1).turned()))
        return
    y = c.activated(c.biased(x @ w, 0.5))
    c.result(y + c.beside("r") if c.chance(0.4) else y)


def narrow_weights(c):
    """Weights of 4 or 8 bits behind activations of 16."""
    c.m, c.n, c.k = c.random.choice(FEW_ROWS + [256, 512, 1024, 2048]), c.random.choice(MANY_COLUMNS), c.random.choice(MANY_COLUMNS)
    c.flops = 2.0 * c.m * c.n * c.k
    kind = c.random.choice(["i8", "e4m3", "i4"])
    c.suffix = "_" + kind
    x = c.input("x", c.m, c.k)
    if kind == "i4":
        group = c.random.choice([32, 64, 128])
        c.suffix += f"_{group}"
        c.input("w", c.n, c.k, type="i4", make=lambda: i4(c.n, c.k))
        c.input("s", c.n, c.k // group, scale=0.02)
        c.bytes = c.n * c.k * (0.5 + 2 / group)
        y = x @ Term(f"dequantize(w, s, block=[1, {group}]).T", lambda v: scaled_i4(v["w"], v["s"]).t())
    else:
        c.input("w", c.n, c.k, type=kind, make=lambda: (fp8 if kind == "e4m3" else i8)(c.n, c.k))
        c.input("s", c.n, scale=0.02)
        c.bytes = c.n * c.k
        y = (x @ Term(f"cast(w, {c.type}).T", lambda v: v["w"].to(v["x"].dtype).t())) * Term("s", lambda v: v["s"])
    c.result(c.activated(c.biased(y, 0.3)))


def several(c):
    """Products of one input with one weight each."""
    x = c.input("x", c.m, c.k)
    columns = [c.n, *c.random.choice([(c.n, c.n), (c.n // 2,), (c.n // 4, c.n // 4)])]
    has_bias = c.chance(0.4)
    c.suffix = f"_of_{len(columns)}"
    c.flops = 2.0 * c.m * sum(columns) * c.k
    c.bytes = 2.0 * (c.m * c.k + sum(columns) * (c.k + c.m))
    for i, n in enumerate(columns):
        y = x @ c.input(f"w{i}", n, c.k, scale=0.1).turned()
        c.output(f"y{i}", c.type, c.m, n)
        c.let(f"y{i}", y + c.input(f"b{i}", n) if has_bias else y)


def backward(c):
    """Gradients of a layer: of its input behind the activation before it, of its weight, of its bias."""
    d, w, h = c.input("d", c.m, c.k), c.input("w", c.k, c.n, scale=0.1), c.beside("h")
    kind = c.random.choice(["none", "gelu", "silu", "relu"])
    c.suffix = "_" + kind
    dx = d @ w
    gradients = {"gelu": ("gelu_backward({}, h, approx=tanh)", lambda g, h: torch.ops.aten.gelu_backward(g, h, approximate="tanh")),
                 "silu": ("silu_backward({}, h)", torch.ops.aten.silu_backward),
                 "relu": ("relu_backward({}, h)", lambda g, h: torch.where(h > 0, g, torch.zeros_like(g)))}
    if kind in gradients:
        text, function = gradients[kind]
        dx = Term(text.format(dx.text), lambda v, dx=dx: function(dx.value(v), v["h"]))
    c.result(dx)
    if c.chance(0.5):
        c.flops *= 2
        c.output("dw", c.type, c.k, c.n)
        c.let("dw", d.turned() @ h)
    if c.chance(0.5):
        c.output("db", c.type, c.k)
        c.let("db", d.through("sum({}, over=0, keep=0)", lambda d: d.sum(0)))


def rotated(c):
    """Heads of a projection, rotated, some with a norm of their own."""
    depth = c.random.choice([64, 128])
    c.n = max(c.n // depth, 1) * depth
    heads = c.n // depth
    c.suffix = f"_{heads}x{depth}"
    h = c.left() @ c.right()
    h = h.through(f"reshape({{}}, [{c.m}, {heads}, {depth}])", lambda h: h.unflatten(-1, (heads, depth)))
    if c.chance(0.4):
        c.suffix += "_norm"
        c.input("g", depth)
        h = Term(f"rmsnorm({h.text}, g)", lambda v, h=h: F.rms_norm(h.value(v), (depth,), v["g"], 1e-5))
    for name in ("c", "s"):
        c.input(name, c.m, 1, depth // 2, type="f32")
    c.result(Term(f"rope({h.text}, c, s)", lambda v, h=h: rotate_halves(h.value(v), v["c"], v["s"]).to(v["x"].dtype)), c.m, heads, depth)


def loss(c):
    c.m, c.n, c.k = c.random.choice([512, 1024, 2048, 4096]), c.random.choice([1000, 10003, 32000, 50257]), c.random.choice([512, 768, 1024, 2048])
    c.flops, c.bytes = 2.0 * c.m * c.n * c.k, 2.0 * (c.m + c.n) * c.k
    logits = c.input("x", c.m, c.k) @ c.input("w", c.n, c.k, scale=0.1).turned()
    c.input("t", c.m, type="i32", make=lambda: torch.randint(0, c.n, (c.m,), device="cuda", dtype=torch.int32))
    y = Term(f"cross_entropy({logits.text}, t)", lambda v: F.cross_entropy(at_least_f32(logits.value(v)), v["t"].long(), reduction="none"))
    c.result(y, c.m, type="f32")


def gathered(c):
    """Rows chosen by number, as tokens are for an expert."""
    rows = c.m * 2
    c.input("e", rows, c.k)
    c.input("i", c.m, type="i32", make=lambda: torch.randint(0, rows, (c.m,), device="cuda", dtype=torch.int32))
    x = Term("gather(e, i)", lambda v: v["e"][v["i"].long()])
    c.result(c.activated(c.biased(x @ c.right(), 0.5)))


def experts(c):
    """Blocks of tokens, each with the weights of an expert: one or two products, perhaps of chosen tokens."""
    blocks, count = c.random.choice([4, 16, 64, 128]), c.random.choice([4, 8, 32, 64])
    c.m, c.n, c.k = c.random.choice([1, 4, 16, 64, 128, 256]), min(c.n, 4096), min(c.k, 4096)
    while max(blocks, count) * c.n * c.k > 5e8:  # the reference has each block's weights in f64
        blocks, count = max(blocks // 2, 1), max(count // 2, 1)
    c.flops, used = 2.0 * blocks * c.m * c.n * c.k, min(blocks, count)
    c.bytes = 2.0 * (blocks * c.m * (c.k + c.n) + used * c.n * c.k)
    sorted_ids = c.chance(0.7)

    def ids():
        e = torch.randint(0, count, (blocks,), device="cuda", dtype=torch.int32)
        return torch.sort(e).values if sorted_ids else e

    def weights(name):
        shape = (count, c.n, c.k) if c.layout != "nn" else (count, c.k, c.n)
        c.input(name, *shape, scale=0.1)
        w = Term(f"gather({name}, e)", lambda v: v[name][v["e"].long()])
        return w.turned() if c.layout != "nn" else w

    if c.chance(0.4):
        tokens = blocks * c.m // 2 + 1
        c.input("x", tokens, c.k)
        c.input("t", blocks, c.m, type="i32", make=lambda: torch.randint(0, tokens, (blocks, c.m), device="cuda", dtype=torch.int32))
        x = Term("gather(x, t)", lambda v: v["x"][v["t"].long()])
    else:
        x = c.input("x", blocks, c.m, c.k)
    c.input("e", blocks, type="i32", make=ids)
    y = x @ weights("w")
    if c.chance(0.4):
        c.suffix, c.flops = "_gate", 2 * c.flops
        y = y.through(*ACTIVATIONS["silu"]) * (x @ weights("u"))
    else:
        y = c.activated(y)
    if c.chance(0.3):
        y = y * c.input("p", blocks, c.m, 1)
    c.result(y, blocks, c.m, c.n)


def quantized(c):
    """A result in e4m3 with a scale for each 128 of a row."""
    c.n = max(c.n // 128, 1) * 128
    y = c.activated(c.left() @ c.right())
    if c.chance(0.4):
        y = y * c.beside("q0")
    c.output("q", "e4m3", c.m, c.n)
    c.output("s", "f32", c.m, c.n // 128)
    c.let("h", y)
    c.statements.append(("q, s", Term("quantize_block(h, 128)", lambda v: quantized_blocks(v["h"]))))


FAMILIES = {"ep": epilogue, "norm": norm_behind, "soft": softmax_behind, "pre": prologue, "glu": gated, "red": reduced,
            "bmm": batched, "fp8": scaled_fp8, "grad": gradient, "two": two_layers, "few": decode, "low": narrow_weights,
            "and": several, "back": backward, "rope": rotated, "loss": loss, "rows": gathered, "block": quantized, "experts": experts}
DRAWN = [*FAMILIES, "ep", "ep", "norm", "pre", "few", "low"]


def draw(seed, count):
    """(the graphs' text, CASES, TOLERANCES) of `count` cases."""
    r = random.Random(seed)
    cases = []
    while len(cases) < count:
        family = r.choice(DRAWN)
        case = Case(r, len(cases), family)
        FAMILIES[family](case)
        if case.flops <= MOST_FLOPS:
            cases.append(case)
    return ("sinter 1\n\n" + "\n".join(c.text() for c in cases),
            {c.name(): (c.make, c.peer, c.flops, c.bytes) for c in cases}, {c.name(): TOLERANCE for c in cases})
