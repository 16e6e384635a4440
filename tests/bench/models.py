"""Whole models, layer upon layer, as one graph each, forward as inference has them; in the form of blocks.py. The peer is what PyTorch
compiles of the same model, replayed as one CUDA graph. What a seed draws is which models, and how large their batches are."""
import random

import torch
import torch.nn.functional as F

import blocks
from blocks import batchnorm, conv, heads_apart, normed, rotated
from cases import gelu

TOLERANCE = {"bf16": 6e-2}  # a dozen layers of bf16 from each other


class Compiled(blocks.Compiled):
    """What PyTorch compiles, captured once as a graph and replayed."""

    def __init__(self, block):
        super().__init__(block, False)
        self.graph = None

    def __call__(self, *inputs):
        if inputs[-1].dtype == torch.float64:
            return self.by(self.block, inputs)
        if self.graph is None:
            super().__call__(*inputs)  # compiles
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                super().__call__(*inputs)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.output = super().__call__(*inputs)
        self.graph.replay()
        return self.output


class Model(blocks.Block):
    """Beside what a block has: functions of the graph's text, and inputs that are numbers of rows."""

    def __init__(self, r, number, family, families):
        self.functions, self.n_rows = "", {}
        super().__init__(r, number, family, families)
        self.back = False

    def rows(self, name, *dims, most):
        self.inputs.append((name, "i64", dims, 1.0, False))
        self.n_rows[name] = most

    def text(self):
        return self.functions + super().text()

    def make(self):
        made = super().make()
        for i, (name, _, dims, *_) in enumerate(self.inputs):
            if name in self.n_rows:
                made[i] = torch.randint(self.n_rows[name], dims, device="cuda")
        return made

    def case(self):
        make, _, flops, bytes_ = super().case()
        return make, Compiled(self.of), flops, bytes_


def layers_of(m, layers, weights, vectors):
    """Inputs of so many layers, as lists of names a layer. weights: (name, dims); vectors: (name, n)."""
    names = []
    for i in range(layers):
        for name, dims in weights:
            m.weight(f"{name}_{i}", *dims)
        for name, n in vectors:
            m.vectors(f"{name}_{i}", n)
        names.append([f"{name}_{i}" for name, _ in weights + vectors])
    return names


def transformer(m, name, batch, s, e, heads, layers, causal):
    """Layers with norms in front, biases everywhere and GELU: GPT-2's and the vision transformer's. Gives the body and what computes it."""
    d, h = e // heads, 4 * e
    weights = [("wqkv", (3 * e, e)), ("wo", (e, e)), ("w1", (h, e)), ("w2", (e, h))]
    vectors = [("bqkv", 3 * e), ("bo", e), ("b1", h), ("b2", e), ("g1", e), ("h1", e), ("g2", e), ("h2", e)]
    names = layers_of(m, layers, weights, vectors)
    m.functions += f"""fn {name}_layer (x, wqkv, wo, w1, w2, bqkv, bo, b1, b2, g1, h1, g2, h2) {{
    p = transpose(reshape(layernorm(x, g1, h1) @ wqkv.T + bqkv, dims=[{batch}, {s}, 3, {heads}, {d}]), [2, 0, 3, 1, 4])
    a = attention(p[0], p[1], p[2], causal={"true" if causal else "false"})
    o = cast(reshape(transpose(a, [0, 2, 1, 3]), dims=[{batch}, {s}, {e}]) @ wo.T + bo + x, bf16)
    return cast(gelu(layernorm(o, g2, h2) @ w1.T + b1{", approx=tanh" if causal else ""}) @ w2.T + b2 + o, bf16)
}}
"""
    m.flops += layers * (24.0 * batch * s * e * e + 4.0 * batch * s * s * e * (0.5 if causal else 1))

    def layer(x, wqkv, wo, w1, w2, bqkv, bo, b1, b2, g1, h1, g2, h2):
        p = F.linear(F.layer_norm(x, (e,), g1, h1), wqkv, bqkv).view(batch, s, 3, heads, d).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(p[0], p[1], p[2], is_causal=causal)
        o = F.linear(a.transpose(1, 2).reshape(batch, s, e), wo, bo) + x
        f = F.linear(F.layer_norm(o, (e,), g2, h2), w1, b1)
        return F.linear(gelu(f) if causal else F.gelu(f), w2, b2) + o

    body = "".join(f"    x{i + 1} = {name}_layer(x{i}, {', '.join(n)})\n" for i, n in enumerate(names))

    def of(x, *rest):
        each = len(weights) + len(vectors)
        for i in range(layers):
            x = layer(x, *rest[i * each:(i + 1) * each])
        return x
    return body, of


def gpt(m, r):
    """GPT-2, from numbers of words to the logits behind the last one."""
    batch, s = r.choice([(1, 1024), (4, 512), (8, 1024), (32, 128)])
    e, heads, layers, words = r.choice([(768, 12, 12, 50257), (1024, 16, 8, 50257), (768, 12, 6, 32000)])
    m.rows("ids", batch, s, most=words)
    m.input("table", words, e)
    m.input("places", s, e)
    m.vectors("g h", e)
    body, of = transformer(m, f"gpt{m.number}", batch, s, e, heads, layers, True)
    m.result = (batch, words)
    m.flops += 2.0 * batch * e * words
    m.body = f"""    x0 = cast(embedding(ids, table) + places, bf16)
{body}    y = layernorm(x{layers}[:, {s - 1}, :], g, h) @ table.T
"""
    m.of = lambda ids, table, places, g, h, *rest: F.layer_norm(of(F.embedding(ids, table) + places, *rest)[:, -1], (e,), g, h) @ table.T


def vit(m, r):
    """A vision transformer, from images to logits."""
    batch = r.choice([1, 8, 32, 128])
    e, heads, layers, size = r.choice([(768, 12, 12, 16), (384, 6, 12, 16), (1024, 16, 8, 14), (192, 3, 12, 16)])
    side = 224 // size
    s = side * side + 1
    m.input("x", batch, 224, 224, 3)
    m.weight("wp", e, size, size, 3)
    m.vectors("bp g h", e)
    m.input("first", 1, 1, e)
    m.input("places", s, e)
    m.weight("wh", 1000, e)
    m.vectors("bh", 1000)
    body, of = transformer(m, f"vit{m.number}", batch, s, e, heads, layers, False)
    m.result = (batch, 1000)
    m.flops += 2.0 * batch * s * e * 3 * size * size
    m.body = f"""    p = reshape(conv(x, wp, stride={size}) + bp, dims=[{batch}, {s - 1}, {e}])
    x0 = cast(concat(broadcast(cast(first, f32), dims=[{batch}, 1, {e}]), p, axis=1) + places, bf16)
{body}    y = layernorm(x{layers}[:, 0, :], g, h) @ wh.T + bh
"""

    def whole(x, wp, bp, g, h, first, places, wh, bh, *rest):
        p = conv(x, wp, bias=bp, stride=size).reshape(batch, s - 1, e)
        t = torch.cat([first.expand(batch, 1, e), p], 1) + places
        return F.linear(F.layer_norm(of(t, *rest)[:, 0], (e,), g, h), wh, bh)
    m.of = whole


def llama(m, r):
    """A language model's layers for new tokens behind kept keys and values, or for a prompt (no kept ones)."""
    batch, s, kept = r.choice([(1, 1, 2048), (8, 1, 1024), (64, 1, 512), (1, 2048, 0), (4, 512, 0)])
    e, heads, groups, d, h, layers = r.choice([(2048, 32, 8, 64, 8192, 6), (1024, 16, 8, 128, 3072, 8), (4096, 32, 8, 128, 14336, 3)])
    m.input("x", batch, s, e)
    m.input("c", s, d // 2, type="f32")
    m.input("z", s, d // 2, type="f32")
    m.vectors("g", e)
    weights = [("wq", (heads * d, e)), ("wk", (groups * d, e)), ("wv", (groups * d, e)), ("wo", (e, heads * d)), ("wg", (h, e)), ("wu", (h, e)),
               ("wd", (e, h))]
    names = layers_of(m, layers, weights, [("g1", e), ("g2", e)])
    each = 9
    if kept:
        for i in range(layers):
            m.input(f"keys_{i}", batch, groups, kept, d)
            m.input(f"values_{i}", batch, groups, kept, d)
    m.result = (batch, s, e)
    m.flops = layers * (2.0 * batch * s * e * ((2 * heads + 2 * groups) * d + 3 * h) + (2.0 if s > 1 else 4.0) * batch * s * (s + kept) * heads * d)
    m.functions = f"""fn llama{m.number}_layer (x, c, z, {"keys, values, " if kept else ""}wq, wk, wv, wo, wg, wu, wd, g1, g2) {{
    n = rmsnorm(x, g1)
    q = cast(rope(transpose(reshape(n @ wq.T, dims=[{batch}, {s}, {heads}, {d}]), [0, 2, 1, 3]), c, z), bf16)
    k0 = cast(rope(transpose(reshape(n @ wk.T, dims=[{batch}, {s}, {groups}, {d}]), [0, 2, 1, 3]), c, z), bf16)
    v0 = cast(transpose(reshape(n @ wv.T, dims=[{batch}, {s}, {groups}, {d}]), [0, 2, 1, 3]), bf16)
    k = {"concat(keys, k0, axis=2)" if kept else "k0"}
    v = {"concat(values, v0, axis=2)" if kept else "v0"}
    a = attention(q, k, v{"" if kept else ", causal=true"})
    o = cast(reshape(transpose(a, [0, 2, 1, 3]), dims=[{batch}, {s}, {heads * d}]) @ wo.T + x, bf16)
    f = rmsnorm(o, g2)
    return cast(o + (silu(f @ wg.T) * (f @ wu.T)) @ wd.T, bf16)
}}
"""
    own = lambda i: f"keys_{i}, values_{i}, " if kept else ""
    body = "".join(f"    x{i + 1} = llama{m.number}_layer({'x' if i == 0 else f'x{i}'}, c, z, {own(i)}{', '.join(n)})\n" for i, n in enumerate(names))
    m.body = f"{body}    y = rmsnorm(x{layers}, g)\n"

    def layer(x, c, z, keys, values, wq, wk, wv, wo, wg, wu, wd, g1, g2):
        n = F.rms_norm(x, (e,), g1, 1e-5)
        q, k, v = heads_apart(F.linear(n, wq), heads), heads_apart(F.linear(n, wk), groups), heads_apart(F.linear(n, wv), groups)
        q, k = rotated(q, c, z), rotated(k, c, z)
        if kept:
            k, v = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=not kept, enable_gqa=True)
        o = F.linear(a.transpose(1, 2).reshape(batch, s, heads * d), wo) + x
        f = F.rms_norm(o, (e,), g2, 1e-5)
        return o + F.linear(F.silu(F.linear(f, wg)) * F.linear(f, wu), wd)

    def of(x, c, z, g, *rest):
        for i in range(layers):
            cache = rest[layers * each + 2 * i:layers * each + 2 * i + 2] if kept else (None, None)
            x = layer(x, c, z, *cache, *rest[i * each:(i + 1) * each])
        return F.rms_norm(x, (e,), g, 1e-5)
    m.of = of


def resnet(m, r):
    """ResNet-50 or its first stages, norms with given statistics."""
    batch = r.choice([1, 16, 64, 128])
    stages = r.choice([(3, 4, 6, 3), (3, 4, 6, 3), (2, 2, 2, 2)])
    m.input("x", batch, 224, 224, 3)
    m.weight("w0", 64, 7, 7, 3)
    normed(m, "n0", 64)
    body = "    t0 = cast(max_pool(relu(batchnorm(conv(x, w0, pad=3, stride=2), n0m, n0v, n0g, n0c)), 3, stride=2, pad=1), bf16)\n"
    plan, at, channels, size, t = [], 1, 64, 56, 0
    m.flops = 2.0 * batch * 112 * 112 * 64 * 147

    def add(n, taps, k):
        nonlocal at
        m.weight(f"w{at}", n, taps, taps, k)
        normed(m, f"n{at}", n)
        at += 1
        return at - 1, f"w{at - 1}", ", ".join(f"n{at - 1}{q}" for q in "mvgc")
    for stage, blocks_ in enumerate(stages):
        narrow, wide = 64 << stage, 256 << stage
        for i in range(blocks_):
            step = 2 if stage and i == 0 else 1
            inner = size // step
            _, wa, na = add(narrow, 1, channels)
            _, wb, nb = add(narrow, 3, narrow)
            _, wc, nc = add(wide, 1, narrow)
            m.flops += 2.0 * batch * (size * size * channels * narrow + inner * inner * narrow * (9 * narrow + wide))
            short = f"t{t}"
            if i == 0:
                _, wd, nd = add(wide, 1, channels)
                short = f"batchnorm(conv(t{t}, {wd}, stride={step}), {nd})"
                m.flops += 2.0 * batch * inner * inner * channels * wide
            plan.append((step, i == 0))
            body += f"""    a{t} = cast(relu(batchnorm(conv(t{t}, {wa}), {na})), bf16)
    b{t} = cast(relu(batchnorm(conv(a{t}, {wb}, pad=1, stride={step}), {nb})), bf16)
    t{t + 1} = cast(relu(batchnorm(conv(b{t}, {wc}), {nc}) + {short}), bf16)
"""
            t, channels, size = t + 1, wide, inner
    m.weight("wh", 1000, channels)
    m.vectors("bh", 1000)
    m.result = (batch, 1000)
    m.body = body + f"    y = reshape(mean(t{t}, over=[1, 2]), dims=[{batch}, {channels}]) @ wh.T + bh\n"

    def of(x, *rest):
        *rest, wh, bh = rest
        layers = [rest[i:i + 5] for i in range(0, len(rest), 5)]
        take = iter(layers).__next__
        w, *n = take()
        x = F.relu(batchnorm(conv(x, w, padding=3, stride=2), *n))
        x = F.max_pool2d(x.permute(0, 3, 1, 2), 3, 2, 1).permute(0, 2, 3, 1)
        for step, is_first in plan:
            (wa, *na), (wb, *nb), (wc, *nc) = take(), take(), take()
            short = x
            if is_first:
                wd, *nd = take()
                short = batchnorm(conv(x, wd, stride=step), *nd)
            a = F.relu(batchnorm(conv(x, wa), *na))
            b = F.relu(batchnorm(conv(a, wb, padding=1, stride=step), *nb))
            x = F.relu(batchnorm(conv(b, wc), *nc) + short)
        return F.linear(x.mean((1, 2)), wh, bh)
    m.of = of


def mobilenet(m, r):
    """Inverted residuals of MobileNetV2, from images to logits."""
    batch = r.choice([1, 16, 64, 128])
    m.input("x", batch, 224, 224, 3)
    m.weight("w0", 32, 3, 3, 3)
    normed(m, "n0", 32)
    body = "    t0 = cast(relu6(batchnorm(conv(x, w0, pad=1, stride=2), n0m, n0v, n0g, n0c)), bf16)\n"
    plan, at, channels, size, t = [], 1, 32, 112, 0
    m.flops = 2.0 * batch * 112 * 112 * 32 * 27
    for widen, out, times, first in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(times):
            step, wide = first if i == 0 else 1, widen * channels
            inner = size // step
            here = f"t{t}"
            for n, taps, k in ((wide, 1, channels), (wide, 3, 1), (out, 1, wide)):
                if widen == 1 and (n, taps, k) == (wide, 1, channels):
                    continue
                m.weight(f"w{at}", n, taps, taps, k)
                normed(m, f"n{at}", n)
                norm = ", ".join(f"n{at}{q}" for q in "mvgc")
                is_last = k == wide and taps == 1 and n == out
                rest = f", pad=1, stride={step}, groups={wide}" if taps == 3 else ""
                value = f"batchnorm(conv({here}, w{at}{rest}), {norm})"
                if is_last:
                    value += f" + t{t}" if step == 1 and channels == out else ""
                    here = f"t{t + 1}"
                else:
                    value, here = f"relu6({value})", f"u{at}"
                body += f"    {here} = cast({value}, bf16)\n"
                at += 1
            m.flops += 2.0 * batch * (size * size * channels * wide * (widen > 1) + inner * inner * wide * (9 + out))
            plan.append((widen > 1, step, wide, step == 1 and channels == out))
            t, channels, size = t + 1, out, inner
    m.weight("wl", 1280, 1, 1, channels)
    normed(m, "nl", 1280)
    m.weight("wh", 1000, 1280)
    m.vectors("bh", 1000)
    m.result = (batch, 1000)
    m.body = body + f"""    l = relu6(batchnorm(conv(t{t}, wl), nlm, nlv, nlg, nlc))
    y = reshape(mean(l, over=[1, 2]), dims=[{batch}, 1280]) @ wh.T + bh
"""

    def of(x, *rest):
        *rest, wh, bh = rest
        take = iter([rest[i:i + 5] for i in range(0, len(rest), 5)]).__next__
        w, *n = take()
        x = F.relu6(batchnorm(conv(x, w, padding=1, stride=2), *n))
        for widens, step, wide, adds in plan:
            u = x
            if widens:
                w, *n = take()
                u = F.relu6(batchnorm(conv(u, w), *n))
            w, *n = take()
            u = F.relu6(batchnorm(conv(u, w, padding=1, stride=step, groups=wide), *n))
            w, *n = take()
            u = batchnorm(conv(u, w), *n)
            x = u + x if adds else u
        w, *n = take()
        return F.linear(F.relu6(batchnorm(conv(x, w), *n)).mean((1, 2)), wh, bh)
    m.of = of


def recommender(m, r):
    """Embeddings of categories and features from two towers, multiplied by each other, and a tower over them (DLRM)."""
    batch = r.choice([512, 2048, 16384])
    tables, rows, e = r.choice([(8, 100000, 64), (26, 20000, 128), (16, 50000, 32)])
    m.input("x", batch, 16)
    m.rows("ids", batch, tables, most=rows)
    m.input("table", tables * rows, e)
    for name, n, k in (("w1", 512, 16), ("w2", 256, 512), ("w3", e, 256), ("w4", 512, e + (tables + 1) * (tables + 1)), ("w5", 256, 512),
                       ("w6", 1, 256)):
        m.weight(name, n, k)
        m.vectors(name.replace("w", "b"), n)
    m.result = (batch, 1)
    m.flops = 2.0 * batch * (16 * 512 + 2 * 512 * 256 + 256 * e + 512 * (e + (tables + 1) ** 2) + (tables + 1) ** 2 * e)
    m.body = f"""    d = cast(relu(relu(relu(x @ w1.T + b1) @ w2.T + b2) @ w3.T + b3), bf16)
    t = concat(reshape(d, dims=[{batch}, 1, {e}]), embedding(ids + {rows} * index([1, {tables}], 1), table), axis=1)
    p = concat(d, cast(reshape(t @ t.T, dims=[{batch}, {(tables + 1) ** 2}]), bf16), axis=1)
    y = sigmoid(relu(relu(p @ w4.T + b4) @ w5.T + b5) @ w6.T + b6)
"""

    def of(x, ids, table, w1, b1, w2, b2, w3, b3, w4, b4, w5, b5, w6, b6):
        d = F.relu(F.linear(F.relu(F.linear(F.relu(F.linear(x, w1, b1)), w2, b2)), w3, b3))
        t = torch.cat([d[:, None], F.embedding(ids + rows * torch.arange(tables, device=ids.device), table)], 1)
        p = torch.cat([d, (t @ t.mT).reshape(batch, -1)], 1)
        return torch.sigmoid(F.linear(F.relu(F.linear(F.relu(F.linear(p, w4, b4)), w5, b5)), w6, b6))
    m.of = of


FAMILIES = {"gpt": gpt, "vit": vit, "llama": llama, "resnet": resnet, "mobilenet": mobilenet, "recommender": recommender}


def draw(seed, count, families=FAMILIES):
    """(the graphs' text, CASES, TOLERANCES) of `count` models."""
    r = random.Random(seed)
    drawn = [Model(r, i, list(families)[i % len(families)], families) for i in range(count)]
    return ("sinter 1\n\n" + "\n".join(m.text() for m in drawn), {m.name(): m.case() for m in drawn}, {m.name(): TOLERANCE for m in drawn})
