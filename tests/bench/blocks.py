"""Whole blocks of models, many operations each, and what training has of them: the gradients that `grad` derives. Sizes are drawn from a seed;
inputs and peers are in the form that cases.py describes. The peer is what PyTorch compiles of the same block, forward or both ways."""
import random

import torch
import torch.nn.functional as F

from cases import BF, F32, gelu, rand, rotate_halves

TOLERANCE = {"bf16": 3e-2, "f32": 3e-2}


class Compiled:
    """A block by PyTorch: in float64 as it is, otherwise compiled; with gradients of all its inputs where `back`."""

    __name__ = "compiled"

    def __init__(self, block, back):
        self.block, self.back, self.fast = block, back, None

    def __call__(self, *inputs):
        if inputs[0].dtype == torch.float64:
            return self.by(self.block, inputs)
        if self.fast is None:
            torch._dynamo.reset()
            self.fast = torch.compile(self.block, dynamic=False)
        return self.by(self.fast, inputs)

    def by(self, block, inputs):
        if not self.back:
            with torch.no_grad():
                return block(*inputs)
        *inputs, dy = inputs
        with torch.enable_grad():
            leaves = [t.detach().requires_grad_() for t in inputs]
            return torch.autograd.grad(block(*leaves), leaves, dy)


class Block:
    """What a family fills in: inputs (name, dims), the body of the graph, which sets y, its dims, and the same for tensors; multiply-adds."""

    def __init__(self, r, number, family, families):
        self.number, self.family, self.inputs, self.flops = number, family, [], 0.0
        self.back = True
        families[family](self, r)
        self.back = self.back and r.random() < 0.5

    def input(self, name, *dims, scale=0.5, type="bf16", positive=False):
        self.inputs.append((name, type, dims, scale, positive))

    def weight(self, name, *dims):
        """Of as many summands as its last axes have, so that what it makes keeps its size."""
        self.input(name, *dims, scale=1.5 * torch.Size(dims[1:]).numel() ** -0.5)

    def vectors(self, names, n, type="bf16"):
        for name in names.split():
            self.input(name, n, type=type)

    def name(self):
        size = "x".join(map(str, self.inputs[0][2]))
        return f"{self.family}_{self.number}_{size}" + ("_back" if self.back else "")

    def text(self):
        parameters = ", ".join(f"{name}: {type}[{', '.join(map(str, dims))}]" for name, type, dims, *_ in self.inputs)
        name = self.name().removesuffix("_back")
        graph = f"graph {name} ({parameters}) -> (y: bf16[{', '.join(map(str, self.result))}])\n{{\n{self.body}}}\n"
        return graph + (f"grad {name}_back = gradient({name})\n" if self.back else "")

    def make(self):
        def one(type, dims, scale, positive):
            t = rand(*dims, dtype=F32 if type == "f32" else BF, scale=scale)
            return t.abs() + 0.5 if positive else t
        made = [one(*rest) for _, *rest in self.inputs]
        return made + ([rand(*self.result)] if self.back else [])

    def case(self):
        elements = sum(torch.Size(dims).numel() for _, _, dims, *_ in self.inputs) + torch.Size(self.result).numel()
        times = 3 if self.back else 1
        return self.make, Compiled(self.of, self.back), times * self.flops, 2.0 * elements * (2 if self.back else 1)


def heads_apart(t, heads):
    b, s, e = t.shape
    return t.view(b, s, heads, e // heads).transpose(1, 2)


def encoder(b, r):
    """A transformer's encoder layer, norms behind (BERT) or in front (ViT). Keys have no bias, whose gradient is 0."""
    batch, s = r.choice([(8, 512), (32, 128), (16, 197), (4, 1024), (64, 50), (2, 2048)])
    e, heads = r.choice([(768, 12), (1024, 16), (512, 8), (384, 6), (1280, 20)])
    first = r.random() < 0.5
    d, h = e // heads, 4 * e
    b.input("x", batch, s, e)
    for name, *dims in (("wq", e, e), ("wk", e, e), ("wv", e, e), ("wo", e, e), ("w1", h, e), ("w2", e, h)):
        b.weight(name, *dims)
    b.vectors("bq bv bo b2 g1 h1 g2 h2", e)
    b.vectors("b1", h)
    b.result = (batch, s, e)
    b.flops = 2.0 * batch * s * (4 * e * e + 2 * e * h) + 4.0 * batch * s * s * e
    split = f"dims=[{batch}, {s}, {heads}, {d}]"
    b.body = f"""    n = {"layernorm(x, g1, h1)" if first else "x"}
    q = transpose(reshape(n @ wq.T + bq, {split}), [0, 2, 1, 3])
    k = transpose(reshape(n @ wk.T, {split}), [0, 2, 1, 3])
    v = transpose(reshape(n @ wv.T + bv, {split}), [0, 2, 1, 3])
    a = reshape(transpose(attention(q, k, v), [0, 2, 1, 3]), dims=[{batch}, {s}, {e}])
    o = a @ wo.T + bo + x
    t = {"o" if first else "layernorm(o, g1, h1)"}
    f = gelu({"layernorm(o, g2, h2)" if first else "t"} @ w1.T + b1) @ w2.T + b2 + t
    y = {"f" if first else "layernorm(f, g2, h2)"}
"""

    def of(x, wq, wk, wv, wo, w1, w2, bq, bv, bo, b2, g1, h1, g2, h2, b1):
        n = F.layer_norm(x, (e,), g1, h1) if first else x
        q, k, v = (heads_apart(F.linear(n, w, c), heads) for w, c in ((wq, bq), (wk, None), (wv, bv)))
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, s, e)
        o = F.linear(a, wo, bo) + x
        t = o if first else F.layer_norm(o, (e,), g1, h1)
        f = F.linear(F.gelu(F.linear(F.layer_norm(o, (e,), g2, h2) if first else t, w1, b1)), w2, b2) + t
        return f if first else F.layer_norm(f, (e,), g2, h2)
    b.of = of


def rotated(t, c, s):
    return rotate_halves(t, c, s).to(t.dtype)


def decoder(b, r):
    """A layer of a language model: RMS norms, rotary embedding, grouped heads, SwiGLU."""
    batch, s = r.choice([(1, 2048), (2, 1024), (4, 512), (1, 4096), (8, 256)])
    e, heads, groups, d, h = r.choice([(2048, 32, 8, 64, 8192), (4096, 32, 8, 128, 14336), (2048, 16, 2, 128, 11008), (896, 14, 2, 64, 4864),
                                       (1024, 16, 8, 128, 3072), (1536, 12, 2, 128, 8960)])
    b.input("x", batch, s, e)
    for name, *dims in (("wq", heads * d, e), ("wk", groups * d, e), ("wv", groups * d, e), ("wo", e, heads * d), ("wg", h, e), ("wu", h, e),
                        ("wd", e, h)):
        b.weight(name, *dims)
    b.vectors("g1 g2", e)
    b.input("c", s, d // 2, type="f32")
    b.input("z", s, d // 2, type="f32")
    b.result = (batch, s, e)
    b.flops = 2.0 * batch * s * e * ((2 * heads + 2 * groups) * d + 3 * h) + 2.0 * batch * s * s * heads * d
    b.body = f"""    n = rmsnorm(x, g1)
    q = rope(transpose(reshape(n @ wq.T, dims=[{batch}, {s}, {heads}, {d}]), [0, 2, 1, 3]), c, z)
    k = rope(transpose(reshape(n @ wk.T, dims=[{batch}, {s}, {groups}, {d}]), [0, 2, 1, 3]), c, z)
    v = transpose(reshape(n @ wv.T, dims=[{batch}, {s}, {groups}, {d}]), [0, 2, 1, 3])
    a = reshape(transpose(attention(q, k, v, causal=true), [0, 2, 1, 3]), dims=[{batch}, {s}, {heads * d}])
    o = a @ wo.T + x
    m = rmsnorm(o, g2)
    y = o + (silu(m @ wg.T) * (m @ wu.T)) @ wd.T
"""

    def of(x, wq, wk, wv, wo, wg, wu, wd, g1, g2, c, z):
        n = F.rms_norm(x, (e,), g1, 1e-5)
        q, k, v = heads_apart(F.linear(n, wq), heads), heads_apart(F.linear(n, wk), groups), heads_apart(F.linear(n, wv), groups)
        a = F.scaled_dot_product_attention(rotated(q, c, z), rotated(k, c, z), v, is_causal=True, enable_gqa=True)
        o = F.linear(a.transpose(1, 2).reshape(batch, s, heads * d), wo) + x
        m = F.rms_norm(o, (e,), g2, 1e-5)
        return o + F.linear(F.silu(F.linear(m, wg)) * F.linear(m, wu), wd)
    b.of = of


def conv(x, w, **rest):
    """Channels last, as the graph has them."""
    return F.conv2d(x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), **rest).permute(0, 2, 3, 1)


def batchnorm(x, m, v, g, c):
    return ((x - m) * torch.rsqrt(v + 1e-5) * g + c).to(x.dtype)


def normed(b, prefix, n):
    for name in "mvgc":
        b.input(prefix + name, n, type="f32", positive=name == "v")


def bottleneck(b, r):
    """ResNet's, perhaps the first of a stage, whose shortcut is a convolution."""
    batch, size = r.choice([(64, 56), (32, 28), (128, 14), (256, 7), (16, 64)])
    channels, narrow = r.choice([(256, 64), (512, 128), (1024, 256), (2048, 512), (256, 128)])
    channels = min(channels, 14336 // size)
    b.input("x", batch, size, size, channels)
    b.weight("w1", narrow, 1, 1, channels)
    b.weight("w2", narrow, 3, 3, narrow)
    b.weight("w3", channels, 1, 1, narrow)
    for prefix, n in (("i", narrow), ("j", narrow), ("k", channels)):
        normed(b, prefix, n)
    b.result = (batch, size, size, channels)
    b.flops = 2.0 * batch * size * size * (2 * channels * narrow + 9 * narrow * narrow)
    b.back = False  # where a sum near 0 is rounded to another sign, so is its gradient
    b.body = """    a = relu(batchnorm(conv(x, w1), im, iv, ig, ic))
    e = relu(batchnorm(conv(a, w2, pad=1), jm, jv, jg, jc))
    y = relu(batchnorm(conv(e, w3), km, kv, kg, kc) + x)
"""

    def of(x, w1, w2, w3, *norms):
        a = F.relu(batchnorm(conv(x, w1), *norms[:4]))
        e = F.relu(batchnorm(conv(a, w2, padding=1), *norms[4:8]))
        return F.relu(batchnorm(conv(e, w3), *norms[8:]) + x)
    b.of = of


def convnext(b, r):
    batch, size, channels = r.choice([(64, 56, 96), (64, 28, 192), (64, 14, 384), (64, 7, 768), (16, 56, 128), (32, 14, 512)])
    b.input("x", batch, size, size, channels)
    b.weight("w", channels, 7, 7, 1)
    b.weight("w1", 4 * channels, channels)
    b.weight("w2", channels, 4 * channels)
    b.vectors("bw g h b2 s", channels)
    b.vectors("b1", 4 * channels)
    b.result = (batch, size, size, channels)
    b.flops = 2.0 * batch * size * size * channels * (8 * channels + 49)
    b.body = f"""    d = conv(x, w, pad=3, groups={channels}) + bw
    y = x + s * (gelu(layernorm(d, g, h) @ w1.T + b1) @ w2.T + b2)
"""

    def of(x, w, w1, w2, bw, g, h, b2, s, b1):
        d = conv(x, w, bias=bw, padding=3, groups=channels)
        return x + s * F.linear(F.gelu(F.linear(F.layer_norm(d, (channels,), g, h), w1, b1)), w2, b2)
    b.of = of


def inverted(b, r):
    """EfficientNet's: wider, a depthwise convolution, channels weighted by what they have everywhere, narrow again."""
    batch, size, channels, wide, taps = r.choice([(64, 56, 24, 144, 3), (64, 28, 40, 240, 5), (128, 14, 112, 672, 5), (128, 7, 192, 1152, 5),
                                                  (32, 28, 80, 480, 3), (64, 16, 128, 512, 3)])
    b.input("x", batch, size, size, channels)
    b.weight("w1", wide, channels)
    b.weight("w", wide, taps, taps, 1)
    b.weight("r", channels // 4 // 8 * 8 or 8, wide)
    b.weight("e", wide, channels // 4 // 8 * 8 or 8)
    b.weight("w2", channels, wide)
    for prefix, n in (("i", wide), ("j", wide), ("k", channels)):
        normed(b, prefix, n)
    b.result = (batch, size, size, channels)
    b.flops = 2.0 * batch * size * size * wide * (2 * channels + taps * taps)
    b.body = f"""    a = silu(batchnorm(x @ w1.T, im, iv, ig, ic))
    d = silu(batchnorm(conv(a, w, pad={taps // 2}, groups={wide}), jm, jv, jg, jc))
    t = sigmoid(silu(mean(d, over=[1, 2]) @ r.T) @ e.T)
    y = batchnorm((d * t) @ w2.T, km, kv, kg, kc) + x
"""

    def of(x, w1, w, r, e, w2, *norms):
        a = F.silu(batchnorm(F.linear(x, w1), *norms[:4]))
        d = F.silu(batchnorm(conv(a, w, padding=taps // 2, groups=wide), *norms[4:8]))
        t = torch.sigmoid(F.linear(F.silu(F.linear(d.mean((1, 2), keepdim=True), r)), e))
        return batchnorm(F.linear(d * t, w2), *norms[8:]) + x
    b.of = of


def residual_unet(b, r):
    """A diffusion U-Net's residual block with the embedding of its step."""
    batch, size, channels = r.choice([(8, 64, 320), (8, 32, 640), (8, 16, 1280), (4, 128, 128), (16, 32, 256)])
    b.input("x", batch, size, size, channels)
    b.input("t", batch, 1280)
    b.weight("w1", channels, 3, 3, channels)
    b.weight("w2", channels, 3, 3, channels)
    b.weight("e", channels, 1280)
    b.vectors("g1 h1 g2 h2 b1 b2 be", channels)
    b.result = (batch, size, size, channels)
    b.flops = 2.0 * batch * size * size * 18 * channels * channels
    b.body = f"""    u = conv(silu(groupnorm(x, 32, g1, h1)), w1, pad=1) + b1
    p = u + reshape(silu(t) @ e.T + be, dims=[{batch}, 1, 1, {channels}])
    y = x + conv(silu(groupnorm(p, 32, g2, h2)), w2, pad=1) + b2
"""

    def norm(x, g, h):
        return F.group_norm(x.permute(0, 3, 1, 2), 32, g, h).permute(0, 2, 3, 1)

    def of(x, t, w1, w2, e, g1, h1, g2, h2, b1, b2, be):
        u = conv(F.silu(norm(x, g1, h1)), w1, bias=b1, padding=1)
        p = u + F.linear(F.silu(t), e, be).view(batch, 1, 1, channels)
        return x + conv(F.silu(norm(p, g2, h2)), w2, bias=b2, padding=1)
    b.of = of


def mixer(b, r):
    batch, tokens, e = r.choice([(128, 196, 512), (64, 196, 768), (32, 196, 1024), (256, 64, 256)])
    few, many = e // 2, 4 * e
    b.input("x", batch, tokens, e)
    for name, *dims in (("w1", few, tokens), ("w2", tokens, few), ("w3", many, e), ("w4", e, many)):
        b.weight(name, *dims)
    b.vectors("g1 h1 g2 h2 b4", e)
    b.vectors("b3", many)
    b.result = (batch, tokens, e)
    b.flops = 4.0 * batch * tokens * e * (few + many)
    b.body = """    u = x + w2 @ gelu(w1 @ layernorm(x, g1, h1))
    y = u + gelu(layernorm(u, g2, h2) @ w3.T + b3) @ w4.T + b4
"""

    def of(x, w1, w2, w3, w4, g1, h1, g2, h2, b4, b3):
        u = x + w2 @ F.gelu(w1 @ F.layer_norm(x, (e,), g1, h1))
        return u + F.linear(F.gelu(F.linear(F.layer_norm(u, (e,), g2, h2), w3, b3)), w4, b4)
    b.of = of


def diffusion(b, r):
    """A diffusion transformer's block, whose norms are changed by an embedding."""
    batch, s, e, heads = r.choice([(8, 1024, 1152, 16), (4, 4096, 1152, 16), (32, 256, 768, 12), (16, 256, 384, 6), (2, 4096, 1536, 24)])
    d, h = e // heads, 4 * e
    b.input("x", batch, s, e)
    b.input("t", batch, e)
    for name, *dims in (("wt", 6 * e, e), ("w", 3 * e, e), ("wo", e, e), ("w1", h, e), ("w2", e, h)):
        b.weight(name, *dims)
    b.vectors("bt", 6 * e)
    b.vectors("bw", 3 * e)
    b.vectors("bo b2", e)
    b.vectors("b1", h)
    b.result = (batch, s, e)
    b.flops = 2.0 * batch * s * (4 * e * e + 2 * e * h) + 4.0 * batch * s * s * e
    b.body = f"""    z = reshape(silu(t) @ wt.T + bt, dims=[{batch}, 1, 6, {e}])
    n = layernorm(x) * (1 + z[:, :, 1, :]) + z[:, :, 0, :]
    p = transpose(reshape(n @ w.T + bw, dims=[{batch}, {s}, 3, {heads}, {d}]), [2, 0, 3, 1, 4])
    a = reshape(transpose(attention(p[0], p[1], p[2]), [0, 2, 1, 3]), dims=[{batch}, {s}, {e}])
    o = x + z[:, :, 2, :] * (a @ wo.T + bo)
    m = layernorm(o) * (1 + z[:, :, 4, :]) + z[:, :, 3, :]
    y = o + z[:, :, 5, :] * (gelu(m @ w1.T + b1, approx=tanh) @ w2.T + b2)
"""

    def of(x, t, wt, w, wo, w1, w2, bt, bw, bo, b2, b1):
        z = F.linear(F.silu(t), wt, bt).view(batch, 1, 6, e)
        n = F.layer_norm(x, (e,)) * (1 + z[:, :, 1]) + z[:, :, 0]
        p = F.linear(n, w, bw).view(batch, s, 3, heads, d).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(p[0], p[1], p[2]).transpose(1, 2).reshape(batch, s, e)
        o = x + z[:, :, 2] * F.linear(a, wo, bo)
        m = F.layer_norm(o, (e,)) * (1 + z[:, :, 4]) + z[:, :, 3]
        return o + z[:, :, 5] * F.linear(gelu(F.linear(m, w1, b1)), w2, b2)
    b.of = of


def dense(b, r):
    """Three layers with what is between them, as small networks have."""
    rows, k, h, n = r.choice([(16384, 256, 512, 128), (65536, 128, 256, 64), (4096, 1024, 2048, 512), (8192, 512, 1024, 1024), (32768, 64, 256, 64)])
    act, torch_act = r.choice([("mish({})", F.mish), ("silu({})", F.silu), ("gelu({})", F.gelu), ("tanh({})", torch.tanh)])  # no kinks
    b.input("x", rows, k)
    b.weight("w1", h, k)
    b.weight("w2", h, h)
    b.weight("w3", n, h)
    b.vectors("b1 b2", h)
    b.vectors("b3", n)
    b.result = (rows, n)
    b.flops = 2.0 * rows * h * (k + h + n)
    b.body = f"""    a = {act.format("x @ w1.T + b1")}
    e = {act.format("a @ w2.T + b2")}
    y = e @ w3.T + b3
"""
    b.of = lambda x, w1, w2, w3, b1, b2, b3: F.linear(torch_act(F.linear(torch_act(F.linear(x, w1, b1)), w2, b2)), w3, b3)


FAMILIES = {"encoder": encoder, "decoder": decoder, "bottleneck": bottleneck, "convnext": convnext, "inverted": inverted,
            "unet": residual_unet, "mixer": mixer, "diffusion": diffusion, "dense": dense}


def draw(seed, count, families=FAMILIES):
    """(the graphs' text, CASES, TOLERANCES) of `count` blocks."""
    r = random.Random(seed)
    blocks = [Block(r, i, list(families)[i % len(families)], families) for i in range(count)]
    return ("sinter 1\n\n" + "\n".join(b.text() for b in blocks), {b.name(): b.case() for b in blocks}, {b.name(): TOLERANCE for b in blocks})
