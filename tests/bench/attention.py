"""Random attention: what models have of it, drawn from a seed, each with its inputs and its peer in the form that cases.py describes. What
is drawn depends on the seed alone, so that two builds are compared on the same graphs."""
import random
import time
import warnings

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from cases import BF, rand

DEPTHS = [32, 40, 48, 64, 64, 64, 72, 80, 96, 112, 128, 128, 128, 160, 192, 256]
LENGTHS = [49, 77, 128, 197, 256, 257, 384, 512, 577, 729, 1024, 1370, 1500, 2048, 3072, 4096, 8192]
BATCHES = [1, 2, 3, 4, 8, 16, 32, 64, 128]
HEADS = [4, 6, 8, 12, 16, 20, 24, 32, 40]
TYPES = {"bf16": BF, "f16": torch.float16}
LEAST_FLOPS, MOST_FLOPS, MOST_ELEMENTS = 2e8, 1.2e12, 1.5e8
TOLERANCE = {"f16": 6e-3}
CAP = 30.0
BACKENDS = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


class Quickest:
    """PyTorch's attention by whichever of its backends takes these inputs in the least time."""

    __name__ = "quickest"

    def __init__(self, call):
        self.call, self.backend = call, None

    def by(self, backend, inputs):
        with sdpa_kernel([backend]):
            return self.call(*inputs)

    def seconds(self, backend, inputs):
        warnings.simplefilter("ignore")  # why a backend does not take them
        try:
            for _ in range(3):
                self.by(backend, inputs)
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(5):
                self.by(backend, inputs)
            torch.cuda.synchronize()
            return time.perf_counter() - start
        except RuntimeError:  # it does not take them
            return float("inf")

    def __call__(self, *inputs):
        if inputs[0].dtype == torch.float64:  # a batch at a time
            return torch.cat([self.by(SDPBackend.MATH, [t if t.shape[0] == 1 else t[i:i + 1] for t in inputs]) for i in range(len(inputs[0]))])
        if self.backend is None:
            self.backend = min(BACKENDS, key=lambda backend: self.seconds(backend, inputs))
        return self.by(self.backend, inputs)


class Flex:
    """Attention whose scores a program of its own changes, or that sees a band of keys: compiled by PyTorch."""

    __name__ = "flex"

    def __init__(self, queries, keys, window, cap):
        self.window, self.cap, self.shape = window, cap, (queries, keys)
        self.compiled = None

    def seen(self, b, h, q, k):
        return (q >= k) & (q - k < self.window)

    def score(self, s, b, h, q, k):
        return self.cap * torch.tanh(s / self.cap)

    def dense(self, q, k, v):
        s = q @ k.transpose(-1, -2) * q.shape[-1]**-0.5
        s = self.score(s, 0, 0, 0, 0) if self.cap else s
        if self.window:
            at, of = torch.arange(self.shape[0], device=q.device)[:, None], torch.arange(self.shape[1], device=q.device)
            s = s.masked_fill(~self.seen(0, 0, at, of), float("-inf"))
        return torch.softmax(s, -1) @ v

    def __call__(self, q, k, v):
        if q.dtype == torch.float64:  # a head at a time
            group = q.shape[1] // k.shape[1]
            return torch.stack([torch.stack([self.dense(q[b, h], k[b, h // group], v[b, h // group]) for h in range(q.shape[1])])
                                for b in range(q.shape[0])])
        if self.compiled is None:
            mask = create_block_mask(lambda b, h, q, k: self.seen(b, h, q, k), None, None, *self.shape) if self.window else None
            score = (lambda s, b, h, q, k: self.score(s, b, h, q, k)) if self.cap else None
            fast = torch.compile(flex_attention, dynamic=False)
            self.compiled = lambda q, k, v: fast(q, k, v, score_mod=score, block_mask=mask, enable_gqa=q.shape[1] != k.shape[1])
        return self.compiled(q, k, v)


class Case:
    def __init__(self, r, number):
        self.number = number
        self.kind = r.choice(["full", "full", "causal", "causal", "cross", "bias", "padded", "window", "cap", "decode", "chunk", "apart"])
        while True:
            self.dtype = r.choice(["bf16", "bf16", "bf16", "f16"])
            self.depth, self.batch, self.heads = r.choice(DEPTHS), r.choice(BATCHES), r.choice(HEADS)
            self.keys = self.queries = r.choice(LENGTHS)
            if self.kind == "cross":
                self.queries = r.choice(LENGTHS)
            elif self.kind == "decode":
                self.queries = 1
            elif self.kind == "chunk":
                self.queries = r.choice([4, 16, 64, 128, 256])
            self.groups = r.choice([g for g in (1, 1, 2, 4, 8) if self.heads % g == 0])
            self.values = 128 if self.kind == "apart" else self.depth
            self.depth = 192 if self.kind == "apart" else self.depth
            self.bias_heads = r.choice([1, self.heads])
            self.window = max(64, self.keys // r.choice([4, 8])) if self.kind == "window" else 0
            seen = 0.5 if self.kind == "causal" else self.window / self.keys if self.window else 1
            self.flops = 2.0 * self.batch * self.heads * self.queries * self.keys * (self.depth + self.values) * seen
            q, k = self.batch * self.heads * self.queries, self.batch * self.heads // self.groups * self.keys
            bias = self.bias_heads * self.queries * self.keys if self.kind == "bias" else 0
            self.elements = (q + k) * (self.depth + self.values) + bias
            few = self.queries <= 256 and self.kind in ("decode", "chunk")
            if self.elements < MOST_ELEMENTS and self.flops < MOST_FLOPS and (few and self.elements > 4e6 or self.flops > LEAST_FLOPS):
                break

    def name(self):
        return (f"{self.kind}_{self.number}_{self.batch}x{self.heads}g{self.groups}_{self.queries}x{self.keys}x{self.depth}"
                + ("_f16" if self.dtype == "f16" else ""))

    def shapes(self):
        held = self.heads // self.groups
        shapes = {"q": [self.batch, self.heads, self.queries, self.depth], "k": [self.batch, held, self.keys, self.depth],
                  "v": [self.batch, held, self.keys, self.values]}
        if self.kind == "bias":
            shapes["b"] = [1, self.bias_heads, self.queries, self.keys]
        return shapes

    def options(self):
        """What the call in the graph has behind its tensors."""
        return {"causal": ", causal=true", "bias": ", bias=b", "window": f", causal=true, window={self.window}", "cap": f", softcap={CAP}",
                "padded": f", mask=index([1, 1, 1, {self.keys}], 3) < n"}.get(self.kind, "")

    def flex(self):
        return Flex(self.queries, self.keys, self.window, CAP if self.kind == "cap" else 0)

    def text(self):
        inputs = [f"{name}: {self.dtype}{shape}" for name, shape in self.shapes().items()]
        if self.kind == "padded":
            inputs.append(f"n: i32[{self.batch}, 1, 1, 1]")
        return (f"graph {self.name()} ({', '.join(inputs)}) -> (y: {self.dtype}[{self.batch}, {self.heads}, {self.queries}, {self.values}])\n"
                f"{{   y = attention(q, k, v{self.options()})   }}\n")

    def make(self):
        tensors = [rand(*shape, dtype=TYPES[self.dtype], scale=1.0) for shape in self.shapes().values()]
        if self.kind == "padded":
            tensors.append(torch.randint(self.keys // 4, self.keys + 1, (self.batch, 1, 1, 1), device="cuda", dtype=torch.int32))
        return tensors

    def peer(self):
        if self.kind in ("window", "cap"):
            return self.flex()
        if self.kind == "padded":
            at = torch.arange(self.keys, device="cuda")
            return Quickest(lambda q, k, v, n: F.scaled_dot_product_attention(q, k, v, attn_mask=at < n, enable_gqa=self.groups > 1))
        return Quickest(lambda q, k, v, b=None: F.scaled_dot_product_attention(q, k, v, attn_mask=b, is_causal=self.kind == "causal",
                                                                              enable_gqa=self.groups > 1))


def draw(seed, count):
    """(the graphs' text, CASES, TOLERANCES) of `count` cases."""
    r = random.Random(seed)
    cases = [Case(r, i) for i in range(count)]
    return ("sinter 1\n\n" + "\n".join(c.text() for c in cases), {c.name(): (c.make, c.peer(), c.flops, 2 * c.elements) for c in cases},
            {c.name(): TOLERANCE for c in cases})
