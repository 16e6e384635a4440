"""Random products of other types than bf16, and of batches of matrices, each with what PyTorch calls for it as its peer, in the form that
cases.py describes. What is drawn depends on the seed alone."""
import random

import torch

from cases import BF, E4, F32, fp8, i8, rand, scalar, scaled_mm
from layers import LAYERS, graph, stored

ROWS = (16, 64, 200, 256, 512, 1000, 1024, 2048, 4096, 6304, 8192, 16384)
HEADS = (16, 32, 40, 64, 80, 96, 100, 128, 160, 192, 197, 256, 257, 320, 384, 512, 577, 768, 1024, 1500, 2048)
BATCHES = (2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)
LEAST_FLOPS, MOST_FLOPS, MOST_ELEMENTS = 1e8, 4e11, 1e8
PEERS = {"nt": lambda x, w: x @ w.transpose(-1, -2), "nn": lambda x, w: x @ w, "tn": lambda x, w: x.transpose(-1, -2) @ w}
# of the dense rate of bf16
RATE = {"bf16": 1, "f16": 1, "tf32": 0.5, "i8": 2, "e4m3": 2, "f32": 1 / 16}
TYPES = {"bf16": BF, "f16": torch.float16, "tf32": F32, "f32": F32}
TOLERANCE = {"f16": 3e-3, "i32": 0}


def rounded(x, w, layout):
    """Products of f32 whose operands are rounded to tf32; exact ones of f64."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    y = PEERS[layout](x, w)
    torch.backends.cuda.matmul.allow_tf32 = before
    return y


def integers(x, w):
    return torch._int_mm(x, w.t())


def scaled(x, w, s, t):
    return ((x * s) @ (w * t).t()) if x.dtype == torch.float64 else scaled_mm(x, w, s, t)


class Case:
    def __init__(self, r, number):
        self.number, self.batch = number, []
        self.dtype = r.choice(["f16", "f16", "tf32", "tf32", "f32", "e4m3", "e4m3", "i8", "i8", "batch", "batch", "batch", "batch"])
        is_batch = self.dtype == "batch"
        if is_batch:
            self.dtype = r.choice(["bf16", "bf16", "bf16", "f16", "tf32"])
        while True:
            self.layout = "nt" if self.dtype in ("e4m3", "i8") else r.choice(["nt", "nn", "tn"])
            if is_batch:
                self.batch = [r.choice(BATCHES)]
                self.m, self.n, self.k = (r.choice(HEADS) for _ in range(3))
            else:
                self.m, (self.n, self.k) = r.choice(ROWS), r.choice(LAYERS)
                if self.layout == "tn":
                    self.m, self.n, self.k = self.n, self.k, self.m
            count = self.batch[0] if is_batch else 1
            self.flops = 2.0 * count * self.m * self.n * self.k / RATE[self.dtype]
            self.elements = count * (self.m * self.k + self.n * self.k), count * self.m * self.n
            is_dense = self.dtype not in ("e4m3", "i8") or self.m > 16
            if LEAST_FLOPS < self.flops < MOST_FLOPS and sum(self.elements) < MOST_ELEMENTS and is_dense:
                break
        self.result = {"tf32": "f32", "i8": "i32", "e4m3": "bf16"}.get(self.dtype, self.dtype)
        width = {"i8": 1, "e4m3": 1, "bf16": 2, "f16": 2}.get(self.dtype, 4)
        self.bytes = width * self.elements[0] + (2 if self.result in ("bf16", "f16") else 4) * self.elements[1]

    def name(self):
        return "_".join([self.dtype, str(self.number), self.layout, *(f"{b}of" for b in self.batch), f"{self.m}x{self.n}x{self.k}"])

    def shapes(self):
        return [self.batch + list(s) for s in stored(self.layout, self.m, self.n, self.k)]

    def text(self):
        if self.dtype == "e4m3":
            x, w = (f"e4m3{s}" for s in self.shapes())
            return (f"graph {self.name()} (x: {x}, w: {w}, s: f32[], t: f32[]) -> (y: bf16[{self.m}, {self.n}])\n"
                    "{   y = dequantize(x, s) @ dequantize(w, t).T @allow(fast_accumulation)   }\n")
        text = graph(self.name(), self.dtype, self.result, self.layout, self.m, self.n, self.k)
        return text.replace("[", f"[{self.batch[0]}, ") if self.batch else text

    def make(self):
        shapes = self.shapes()
        if self.dtype == "e4m3":
            return [fp8(*s) for s in shapes] + [scalar(0.5), scalar(0.25)]
        if self.dtype == "i8":
            return [i8(*s) for s in shapes]
        return [rand(*s, dtype=TYPES[self.dtype]) for s in shapes]

    def peer(self):
        if self.dtype == "tf32":
            return lambda x, w: rounded(x, w, self.layout)
        return {"e4m3": scaled, "i8": integers}.get(self.dtype) or PEERS[self.layout]


def draw(seed, count):
    """(the graphs' text, CASES, TOLERANCES) of `count` products."""
    r = random.Random(seed)
    cases = [Case(r, i) for i in range(count)]
    return ("sinter 1\n\n" + "\n".join(c.text() for c in cases), {c.name(): (c.make, c.peer(), c.flops, c.bytes) for c in cases},
            {c.name(): dict(TOLERANCE, f32=2e-3 if c.dtype == "tf32" else 1e-5) for c in cases})
