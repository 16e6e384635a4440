"""Norms as training has them, forward and both ways, over rows, groups of channels, images and batches, with what stands before and behind
them; in the form of blocks.py. The peer is the quicker of what PyTorch calls and what it compiles."""
import torch
import torch.nn.functional as F

import blocks
from blocks import Compiled
from cases import spent

IMAGES = [(64, 56), (32, 28), (128, 14), (256, 7), (16, 64), (8, 64), (4, 128), (1, 256), (2, 96), (1, 512), (8, 32)]
CHANNELS = [64, 96, 128, 160, 192, 256, 320, 384, 512, 640, 960, 1280]
LEAST, MOST = 1e6, 1.2e8


class Quickest(Compiled):
    """The block as it is or compiled, whichever is quicker."""

    def __call__(self, *inputs):
        if inputs[0].dtype != torch.float64 and self.fast is None:
            super().__call__(*inputs)
            compiled = self.fast
            self.fast = min((self.block, compiled), key=lambda block: spent(lambda: self.by(block, inputs), 5))
        return super().__call__(*inputs)


def behind(b, r):
    """What follows the norm, in the graph and in PyTorch: an activation, a residual, or nothing."""
    kind = r.choice(["none", "silu", "silu", "residual", "gelu"])
    if kind == "residual":
        b.input("r", *b.result)
        b.back = False  # PyTorch hands dy on as it is, where a graph has an output of its own
        return "n + r", lambda n, r: n + r
    return {"none": "cast(n, bf16)", "silu": "silu(n)", "gelu": "gelu(n)"}[kind], {"none": lambda n: n, "silu": F.silu, "gelu": F.gelu}[kind]


def rows(kind):
    def family(b, r):
        while True:
            n, k = r.choice([512, 2048, 4096, 8192, 16384, 12608, 50176]), r.choice([96, 256, 384, 768, 1000, 1024, 2048, 4096, 5120, 8192])
            if LEAST < n * k < MOST:
                break
        b.input("x", n, k)
        b.vectors("g h" if kind == "layer" else "g", k)
        b.result = (n, k)
        text, then = behind(b, r)
        b.body = f"    n = {'layernorm(x, g, h)' if kind == 'layer' else 'rmsnorm(x, g)'}\n    y = {text}\n"
        if kind == "layer":
            b.of = lambda x, g, h, *rest: then(F.layer_norm(x, (k,), g, h, 1e-5), *rest)
        else:
            b.of = lambda x, g, *rest: then(F.rms_norm(x, (k,), g, 1e-5), *rest)
    return family


def image(b, r):
    while True:
        batch, size = r.choice(IMAGES)
        channels = r.choice(CHANNELS)
        if LEAST < batch * size * size * channels < MOST:
            break
    b.input("x", batch, size, size, channels)
    b.result = (batch, size, size, channels)
    return channels


def group(b, r):
    channels = image(b, r)
    groups = r.choice([g for g in (32, 32, 32, 16, 8, 1) if channels % g == 0])
    b.vectors("g h", channels)
    text, then = behind(b, r)
    b.body = f"    n = groupnorm(x, {groups}, g, h)\n    y = {text}\n"
    b.of = lambda x, g, h, *rest: then(F.group_norm(x.permute(0, 3, 1, 2), groups, g, h).permute(0, 2, 3, 1), *rest)


def over(axes, function):
    def family(b, r):
        channels = image(b, r)
        for name in "gh":
            b.input(name, channels, type="f32")
        text, then = behind(b, r)
        b.body = (f"    d = x - mean(x, over={axes}, keep=1)\n    n = d * rsqrt(mean(d * d, over={axes}, keep=1) + 1e-5) * g + h\n"
                  f"    y = {text}\n")
        b.of = lambda x, g, h, *rest: then(function(x.permute(0, 3, 1, 2), g, h).permute(0, 2, 3, 1), *rest)
    return family


def batch_norm(x, g, h):
    return F.batch_norm(x, None, None, g, h, training=True, eps=1e-5)


def instance_norm(x, g, h):
    return F.instance_norm(x, None, None, g.to(x.dtype), h.to(x.dtype), use_input_stats=True, eps=1e-5)


FAMILIES = {"layer": rows("layer"), "group": group, "batch": over([0, 1, 2], batch_norm), "rms": rows("rms"), "groups": group,
            "instance": over([1, 2], instance_norm)}


def draw(seed, count):
    text, cases, tolerances = blocks.draw(seed, count, FAMILIES)
    return text, {name: (make, Quickest(peer.block, peer.back), *rest) for name, (make, peer, *rest) in cases.items()}, tolerances
