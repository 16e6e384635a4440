"""Random gradients of attention, drawn from a seed, from the output and the logarithms of its rows' sums as training has them; each with its
inputs and its peer in the form that cases.py describes."""
import random

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import attention
from attention import BATCHES, CAP, DEPTHS, TYPES
from cases import F32, rand, spent

LENGTHS, HEADS = [n for n in attention.LENGTHS if n <= 4096], [n for n in attention.HEADS if n <= 32]
LEAST_FLOPS, MOST_FLOPS, MOST_ELEMENTS = 2e9, 8e11, 1e8
TOLERANCE = {"bf16": 2e-2, "f16": 6e-3}
BACKENDS = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]


class Case(attention.Case):
    def __init__(self, r, number):
        self.number = number
        self.kind = r.choice(["full", "full", "causal", "causal", "causal", "cross", "bias", "padded", "window", "cap"])
        while True:
            self.dtype = r.choice(["bf16", "bf16", "bf16", "f16"])
            self.depth, self.batch, self.heads = r.choice(DEPTHS), r.choice(BATCHES), r.choice(HEADS)
            self.keys = self.queries = r.choice(LENGTHS)
            if self.kind == "cross":
                self.queries = r.choice(LENGTHS)
            self.groups = r.choice([g for g in (1, 1, 1, 2, 4, 8) if self.heads % g == 0])
            self.window = max(64, self.keys // r.choice([4, 8])) if self.kind == "window" else 0
            share = 0.5 if self.kind == "causal" else self.window / self.keys if self.window else 1
            self.flops = 10.0 * self.batch * self.heads * self.queries * self.keys * self.depth * share
            held = self.heads // self.groups
            self.elements = self.batch * self.depth * (4 * self.heads * self.queries + 4 * held * self.keys)
            if LEAST_FLOPS < self.flops < MOST_FLOPS and self.elements < MOST_ELEMENTS:
                break
        self.out = None  # the forward pass's, by the quickest library

    def text(self):
        of_queries = f"{self.dtype}[{self.batch}, {self.heads}, {self.queries}, {self.depth}]"
        of_keys = f"{self.dtype}[{self.batch}, {self.heads // self.groups}, {self.keys}, {self.depth}]"
        inputs = [f"dy: {of_queries}", f"q: {of_queries}", f"k: {of_keys}", f"v: {of_keys}", f"y: {of_queries}",
                  f"l: f32[{self.batch}, {self.heads}, {self.queries}, 1]"]
        if self.kind == "bias":
            inputs.append(f"b: {self.dtype}[1, {self.heads}, {self.queries}, {self.keys}]")
        if self.kind == "padded":
            inputs.append(f"n: i32[{self.batch}, 1, 1, 1]")
        return (f"graph {self.name()} ({', '.join(inputs)}) -> (dq: {of_queries}, dk: {of_keys}, dv: {of_keys})\n"
                f"{{   dq, dk, dv = attention_backward(dy, q, k, v, y, l{self.options()})   }}\n")

    # ---- what the scores become, of one head or of all

    def seen(self, n=None):
        at = torch.arange(self.queries, device="cuda")[:, None] + (self.keys - self.queries)
        of = torch.arange(self.keys, device="cuda")
        if self.kind == "causal":
            return at >= of
        if self.kind == "window":
            return (at >= of) & (at - of < self.window)
        return (of < n).expand(self.queries, self.keys) if self.kind == "padded" else None

    def changed(self, s, extra):
        if self.kind == "cap":
            s = CAP * torch.tanh(s / CAP)
        if self.kind == "bias":
            s = s + extra
        mask = self.seen(extra)
        return s if mask is None else s.masked_fill(~mask, float("-inf"))

    def weights(self, q, k, extra):
        return self.changed(q @ k.T * self.depth ** -0.5, extra)

    def extra(self, rest, b, h):
        if self.kind == "bias":
            return rest[0][0, h]
        return rest[0][b, 0, 0, 0] if self.kind == "padded" else None

    # ---- the forward pass by libraries, and backward from it

    def forward(self, leaves, rest):
        if self.kind in ("window", "cap"):
            return [self.flex()(*leaves)]
        mask = rest[0] if self.kind == "bias" else None
        if self.kind == "padded":
            mask = torch.arange(self.keys, device="cuda") < rest[0]
        found = []
        for backend in BACKENDS:
            try:
                with sdpa_kernel([backend]):
                    found.append(F.scaled_dot_product_attention(*leaves, attn_mask=mask, is_causal=self.kind == "causal",
                                                                enable_gqa=self.groups > 1))
            except RuntimeError:
                continue
        return found

    def make(self):
        held = self.heads // self.groups
        q, dy = (rand(self.batch, self.heads, self.queries, self.depth, dtype=TYPES[self.dtype], scale=1.0) for _ in range(2))
        k, v = (rand(self.batch, held, self.keys, self.depth, dtype=TYPES[self.dtype], scale=1.0) for _ in range(2))
        rest = []
        if self.kind == "bias":
            rest = [rand(1, self.heads, self.queries, self.keys, dtype=TYPES[self.dtype])]
        if self.kind == "padded":
            rest = [torch.randint(self.keys // 4, self.keys + 1, (self.batch, 1, 1, 1), device="cuda", dtype=torch.int32)]
        self.leaves = [t.detach().requires_grad_() for t in (q, k, v)]
        y, l = torch.empty_like(q), torch.empty(self.batch, self.heads, self.queries, 1, device="cuda", dtype=F32)
        for b in range(self.batch):
            for h in range(self.heads):
                s = self.weights(q[b, h].float(), k[b, h // self.groups].float(), self.extra(rest, b, h))
                l[b, h] = s.logsumexp(-1, keepdim=True)
                y[b, h] = (s.softmax(-1) @ v[b, h // self.groups].float()).to(y.dtype)
        with torch.enable_grad():
            found = self.forward(self.leaves, rest)
        self.out = min(found, key=lambda out: self.spent(out, dy)) if found else None
        return [dy, q, k, v, y, l, *rest]

    def gradients(self, out, dy):
        with torch.enable_grad():
            return torch.autograd.grad(out, self.leaves, dy, retain_graph=True)

    def spent(self, out, dy):
        try:
            return spent(lambda: self.gradients(out, dy))
        except RuntimeError:
            return float("inf")

    def peer(self, dy, q, k, v, y, l, *rest):
        if q.dtype != torch.float64:
            return self.gradients(self.out, dy)
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for b in range(self.batch):
            for h in range(self.heads):
                j = h // self.groups
                s = q[b, h] @ k[b, j].T * self.depth ** -0.5
                p = torch.exp(self.changed(s, self.extra(rest, b, h)) - l[b, h])
                e = p * (dy[b, h] @ v[b, j].T - (dy[b, h] * y[b, h]).sum(-1, keepdim=True)) * self.depth ** -0.5
                e = e * (1 - torch.tanh(s / CAP) ** 2) if self.kind == "cap" else e
                dq[b, h] = e @ k[b, j]
                dk[b, j] += e.T @ q[b, h]
                dv[b, j] += p.T @ dy[b, h]
        return dq, dk, dv


def draw(seed, count):
    """(the graphs' text, CASES, TOLERANCES) of `count` cases."""
    r = random.Random(seed)
    cases = [Case(r, i) for i in range(count)]
    return ("sinter 1\n\n" + "\n".join(c.text() for c in cases), {c.name(): (c.make, c.peer, c.flops, 2 * c.elements) for c in cases},
            {c.name(): TOLERANCE for c in cases})
