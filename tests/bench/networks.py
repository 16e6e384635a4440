"""Networks of other kinds than models.py's, as one graph each, forward as inference has them; in its form and with its peer: vision with windows
that are shifted, a diffusion U-Net and the decoder of its images, segmentation, detection, enlarging, speech, language models with soft
caps, biases of distances or compressed keys, fields of rays, neighbours of a graph, and gated recurrent units."""
import torch
import torch.nn.functional as F

import models
from blocks import batchnorm, conv, heads_apart, normed, rotated
from cases import gelu
from models import layers_of


def swin(m, r):
    """Two stages of shifted windows, each of two layers, and the patches that are merged between them."""
    batch, size, e, heads = r.choice([(8, 56, 96, 3), (32, 28, 192, 6), (16, 56, 128, 4)])
    side, d = 7, e // heads
    m.input("x", batch, size, size, e)
    m.input("mask", (size // side) ** 2, 1, side * side, side * side)
    m.input("mask2", (size // 2 // side) ** 2, 1, side * side, side * side)
    m.vectors("gm hm", 4 * e)
    m.weight("wm", 2 * e, 4 * e)
    stages = [(size, e, heads, 0), (size // 2, 2 * e, 2 * heads, 2)]
    for size_, e_, heads_, first in stages:
        for i in range(first, first + 2):
            for name, dims in ((f"wqkv_{i}", (3 * e_, e_)), (f"wo_{i}", (e_, e_)), (f"w1_{i}", (4 * e_, e_)), (f"w2_{i}", (e_, 4 * e_))):
                m.weight(name, *dims)
            m.input(f"near_{i}", heads_, side * side, side * side)
            m.vectors(f"bqkv_{i}", 3 * e_)
            m.vectors(f"b1_{i}", 4 * e_)
            m.vectors(f"bo_{i} b2_{i} g1_{i} h1_{i} g2_{i} h2_{i}", e_)
        n = size_ // side
        m.functions += f"""fn swin{m.number}_{first} (x, wqkv, wo, w1, w2, near, bqkv, b1, bo, b2, g1, h1, g2, h2) {{
    n = cast(layernorm(x, g1, h1), bf16)
    t = reshape(transpose(reshape(n, dims=[{batch}, {n}, {side}, {n}, {side}, {e_}]), [0, 1, 3, 2, 4, 5]), dims=[{batch}, {n * n}, {side * side}, {e_}])
    p = transpose(reshape(t @ wqkv.T + bqkv, dims=[{batch}, {n * n}, {side * side}, 3, {heads_}, {d}]), [3, 0, 1, 4, 2, 5])
    a = transpose(attention(p[0], p[1], p[2], bias=near), [0, 1, 3, 2, 4])
    o = reshape(a, dims=[{batch}, {n * n}, {side * side}, {e_}]) @ wo.T + bo
    u = reshape(transpose(reshape(o, dims=[{batch}, {n}, {n}, {side}, {side}, {e_}]), [0, 1, 3, 2, 4, 5]), dims=[{batch}, {size_}, {size_}, {e_}])
    v = cast(x + u, bf16)
    return cast(gelu(layernorm(v, g2, h2) @ w1.T + b1) @ w2.T + b2 + v, bf16)
}}
fn swin{m.number}_{first}_shifted (x, mask, wqkv, wo, w1, w2, near, bqkv, b1, bo, b2, g1, h1, g2, h2) {{
    n = cast(layernorm(x, g1, h1), bf16)
    s = concat(n[:, 3:], n[:, :3], axis=1)
    z = concat(s[:, :, 3:], s[:, :, :3], axis=2)
    t = reshape(transpose(reshape(z, dims=[{batch}, {n}, {side}, {n}, {side}, {e_}]), [0, 1, 3, 2, 4, 5]), dims=[{batch}, {n * n}, {side * side}, {e_}])
    p = transpose(reshape(t @ wqkv.T + bqkv, dims=[{batch}, {n * n}, {side * side}, 3, {heads_}, {d}]), [3, 0, 1, 4, 2, 5])
    a = transpose(attention(p[0], p[1], p[2], bias=near + mask), [0, 1, 3, 2, 4])
    o = cast(reshape(a, dims=[{batch}, {n * n}, {side * side}, {e_}]) @ wo.T + bo, bf16)
    u = reshape(transpose(reshape(o, dims=[{batch}, {n}, {n}, {side}, {side}, {e_}]), [0, 1, 3, 2, 4, 5]), dims=[{batch}, {size_}, {size_}, {e_}])
    k = concat(u[:, {size_ - 3}:], u[:, :{size_ - 3}], axis=1)
    v = cast(x + concat(k[:, :, {size_ - 3}:], k[:, :, :{size_ - 3}], axis=2), bf16)
    return cast(gelu(layernorm(v, g2, h2) @ w1.T + b1) @ w2.T + b2 + v, bf16)
}}
"""
        m.flops += 2 * (24.0 * batch * size_ * size_ * e_ * e_ + 4.0 * batch * size_ * size_ * 49 * e_)
    m.flops += 2.0 * batch * size * size // 4 * 8 * e * e
    names = "wqkv wo w1 w2 near bqkv b1 bo b2 g1 h1 g2 h2".split()
    own = lambda i: ", ".join(f"{name}_{i}" for name in names)
    half = size // 2
    m.result = (batch, half, half, 2 * e)
    m.body = f"""    x1 = swin{m.number}_0(x, {own(0)})
    x2 = swin{m.number}_0_shifted(x1, mask, {own(1)})
    q = concat(x2[:, ::2, ::2], x2[:, 1::2, ::2], x2[:, ::2, 1::2], x2[:, 1::2, 1::2], axis=3)
    x3 = cast(layernorm(q, gm, hm) @ wm.T, bf16)
    x4 = swin{m.number}_2(x3, {own(2)})
    y = swin{m.number}_2_shifted(x4, mask2, {own(3)})
"""

    def layer(x, size, e, heads, mask, wqkv, wo, w1, w2, near, bqkv, b1, bo, b2, g1, h1, g2, h2):
        n, k = size // side, F.layer_norm(x, (e,), g1, h1)
        if mask is not None:
            k = torch.roll(k, (-3, -3), (1, 2))
        t = k.view(batch, n, side, n, side, e).transpose(2, 3).reshape(batch * n * n, side * side, e)
        p = F.linear(t, wqkv, bqkv).view(batch * n * n, side * side, 3, heads, d).permute(2, 0, 3, 1, 4)
        bias = near[None] if mask is None else (near + mask).repeat(batch, 1, 1, 1)
        a = F.scaled_dot_product_attention(p[0], p[1], p[2], attn_mask=bias.to(t.dtype).expand(batch * n * n, -1, -1, -1))
        o = F.linear(a.transpose(1, 2).reshape(-1, side * side, e), wo, bo)
        u = o.view(batch, n, n, side, side, e).transpose(2, 3).reshape(batch, size, size, e)
        if mask is not None:
            u = torch.roll(u, (3, 3), (1, 2))
        v = x + u
        return F.linear(F.gelu(F.linear(F.layer_norm(v, (e,), g2, h2), w1, b1)), w2, b2) + v

    def of(x, mask, mask2, gm, hm, wm, *rest):
        layers = [rest[i:i + len(names)] for i in range(0, len(rest), len(names))]
        x = layer(x, size, e, heads, None, *layers[0])
        x = layer(x, size, e, heads, mask, *layers[1])
        x = torch.cat([x[:, ::2, ::2], x[:, 1::2, ::2], x[:, ::2, 1::2], x[:, 1::2, 1::2]], -1)
        x = F.linear(F.layer_norm(x, (4 * e,), gm, hm), wm)
        x = layer(x, half, 2 * e, 2 * heads, None, *layers[2])
        return layer(x, half, 2 * e, 2 * heads, mask2, *layers[3])
    m.of = of


def group_norm(x, g, h, eps=1e-5):
    return F.group_norm(x.permute(0, 3, 1, 2), 32, g, h, eps).permute(0, 2, 3, 1)


def enlarged(x):
    return x.repeat_interleave(2, 1).repeat_interleave(2, 2)


def enlarged_text(x, batch, size, channels):
    return (f"reshape(broadcast({x}[:, :, none, :, none, :], dims=[{batch}, {size}, 2, {size}, 2, {channels}]), "
            f"dims=[{batch}, {2 * size}, {2 * size}, {channels}])")


class Unet:
    """Blocks of a diffusion U-Net, as text and as what computes it: inputs are declared as they come, and taken in this order."""

    def __init__(self, m, batch):
        self.m, self.batch, self.n, self.steps, self.body = m, batch, 0, [], ""

    def names(self, *kinds):
        self.n += 1
        return [f"{kind}_{self.n}" for kind in kinds]

    def residual(self, x, size, inner, outer, embedded=True):
        m, batch = self.m, self.batch
        w1, w2, e, ws, g1, h1, g2, h2, b1, b2 = self.names(*"w1 w2 e ws g1 h1 g2 h2 b1 b2".split())
        m.vectors(f"{g1} {h1}", inner)
        m.vectors(f"{g2} {h2} {b1} {b2}", outer)
        m.weight(w1, outer, 3, 3, inner)
        m.weight(w2, outer, 3, 3, outer)
        if embedded:
            m.weight(e, outer, 1280)
        if inner != outer:
            m.weight(ws, outer, inner)
        m.flops += 2.0 * batch * size * size * outer * (9 * inner + 9 * outer + (inner if inner != outer else 0))
        y = f"r{self.n}"
        plus = f" + reshape(silu(t) @ {e}.T, dims=[{batch}, 1, 1, {outer}])" if embedded else ""
        short = f"{x} @ {ws}.T" if inner != outer else x
        self.body += f"""    u{self.n} = cast(conv(cast(silu(groupnorm({x}, 32, {g1}, {h1})), bf16), {w1}, pad=1) + {b1}{plus}, bf16)
    {y} = cast(conv(cast(silu(groupnorm(u{self.n}, 32, {g2}, {h2})), bf16), {w2}, pad=1) + {b2} + {short}, bf16)
"""

        def step(x, take, t):
            g1, h1, g2, h2, b1, b2, w1, w2 = (take() for _ in range(8))
            u = conv(F.silu(group_norm(x, g1, h1)), w1, bias=b1, padding=1)
            if embedded:
                u = u + F.linear(F.silu(t), take()).view(batch, 1, 1, -1)
            short = F.linear(x, take()) if inner != outer else x
            return conv(F.silu(group_norm(u, g2, h2)), w2, bias=b2, padding=1) + short
        return y, step

    def attention(self, x, size, channels, heads, context=None):
        """Self-attention, then to what the context says, then a gated layer; without a context one head of all channels, alone."""
        m, batch, s, d = self.m, self.batch, size * size, channels // heads
        kinds = "wi wq wk wv wo xq xk xv xo w1 w2 wp".split()
        names = dict(zip(kinds + "g h g1 h1 g2 h2 g3 h3".split(), self.names(*kinds, *"g h g1 h1 g2 h2 g3 h3".split())))
        n = self.n
        m.vectors(" ".join(names[k] for k in "g h g1 h1 g2 h2 g3 h3".split()), channels)
        for k in "wi wq wk wv wo xq xo wp".split():
            m.weight(names[k], channels, channels)
        for k in "xk xv".split():
            m.weight(names[k], channels, context)
        m.weight(names["w1"], 8 * channels, channels)
        m.weight(names["w2"], channels, 4 * channels)
        m.flops += 2.0 * batch * s * channels * channels * (6 + 12 + 2) + 4.0 * batch * s * (s + 77) * channels
        apart = lambda v, length: f"cast(transpose(reshape({v}, dims=[{batch}, {length}, {heads}, {d}]), [0, 2, 1, 3]), bf16)"
        together = lambda v: f"reshape(transpose({v}, [0, 2, 1, 3]), dims=[{batch}, {s}, {channels}])"
        w = names
        self.body += f"""    i{n} = cast(reshape(groupnorm({x}, 32, {w["g"]}, {w["h"]}), dims=[{batch}, {s}, {channels}]) @ {w["wi"]}.T, bf16)
    n{n} = cast(layernorm(i{n}, {w["g1"]}, {w["h1"]}), bf16)
    a{n} = attention({apart(f"n{n} @ {w['wq']}.T", s)}, {apart(f"n{n} @ {w['wk']}.T", s)}, {apart(f"n{n} @ {w['wv']}.T", s)})
    o{n} = cast(i{n} + {together(f"a{n}")} @ {w["wo"]}.T, bf16)
    c{n} = attention({apart(f"cast(layernorm(o{n}, {w['g2']}, {w['h2']}), bf16) @ {w['xq']}.T", s)}, {apart(f"c @ {w['xk']}.T", 77)}, {apart(f"c @ {w['xv']}.T", 77)})
    p{n} = cast(o{n} + {together(f"c{n}")} @ {w["xo"]}.T, bf16)
    f{n} = cast(layernorm(p{n}, {w["g3"]}, {w["h3"]}), bf16) @ {w["w1"]}.T
    q{n} = cast(p{n} + cast(f{n}[:, :, :{4 * channels}] * gelu(f{n}[:, :, {4 * channels}:]), bf16) @ {w["w2"]}.T, bf16)
    r{n} = cast({x} + reshape(q{n} @ {w["wp"]}.T, dims=[{batch}, {size}, {size}, {channels}]), bf16)
"""

        def step(x, take, c):
            g, h, g1, h1, g2, h2, g3, h3 = (take() for _ in range(8))
            wi, wq, wk, wv, wo, xq, xo, wp, xk, xv, w1, w2 = (take() for _ in range(12))
            i = F.linear(group_norm(x, g, h).reshape(batch, s, channels), wi)

            def attend(q, k, v, wo):
                a = F.scaled_dot_product_attention(heads_apart(q, heads), heads_apart(k, heads), heads_apart(v, heads))
                return F.linear(a.transpose(1, 2).reshape(batch, s, channels), wo)
            n = F.layer_norm(i, (channels,), g1, h1)
            o = i + attend(F.linear(n, wq), F.linear(n, wk), F.linear(n, wv), wo)
            p = o + attend(F.linear(F.layer_norm(o, (channels,), g2, h2), xq), F.linear(c, xk), F.linear(c, xv), xo)
            a, b = F.linear(F.layer_norm(p, (channels,), g3, h3), w1).chunk(2, -1)
            q = p + F.linear(a * F.gelu(b), w2)
            return x + F.linear(q, wp).view(x.shape)
        return f"r{n}", step


def diffusion_unet(m, r):
    """The outer levels of a U-Net: residual blocks with the step's embedding, attention to the image and to a text, down, up, and joined."""
    batch, size, channels, heads, context = r.choice([(2, 64, 320, 5, 768), (8, 64, 320, 5, 768), (2, 32, 640, 10, 2048)])
    half, wide = size // 2, 2 * channels
    m.input("x", batch, size, size, channels)
    m.input("t", batch, 1280)
    m.input("c", batch, 77, context)
    u = Unet(m, batch)
    a, s1 = u.residual("x", size, channels, channels)
    b, s2 = u.attention(a, size, channels, heads, context)
    m.weight("wd", channels, 3, 3, channels)
    m.vectors("bd", channels)
    u.body += f"    d = cast(conv({b}, wd, stride=2, pad=1) + bd, bf16)\n"
    c, s3 = u.residual("d", half, channels, wide)
    e, s4 = u.attention(c, half, wide, 2 * heads, context)
    m.weight("wu", wide, 3, 3, wide)
    m.vectors("bu", wide)
    u.body += f"    v = cast(conv({enlarged_text(e, batch, half, wide)}, wu, pad=1) + bu, bf16)\n    j = concat(v, {b}, axis=3)\n"
    f, s5 = u.residual("j", size, wide + channels, channels)
    m.vectors("gz hz", channels)
    m.weight("wz", 4, 3, 3, channels)
    m.vectors("bz", 4)
    m.flops += 2.0 * batch * (half * half * 9 * channels * channels + size * size * 9 * wide * wide + size * size * 36 * channels)
    m.result = (batch, size, size, 4)
    m.body = u.body + f"    y = conv(cast(silu(groupnorm({f}, 32, gz, hz)), bf16), wz, pad=1) + bz\n"

    def of(x, t, c, *rest):
        take = iter(rest).__next__
        b = s2(s1(x, take, t), take, c)
        d = conv(b, take(), bias=take(), stride=2, padding=1)
        e = s4(s3(d, take, t), take, c)
        v = conv(enlarged(e), take(), bias=take(), padding=1)
        f = s5(torch.cat([v, b], -1), take, t)
        g, h = take(), take()
        return conv(F.silu(group_norm(f, g, h)), take(), bias=take(), padding=1)
    m.of = of


def image_decoder(m, r):
    """Of a latent image, what its autoencoder makes: residual blocks, and twice the size before each further level."""
    batch, size, channels = r.choice([(1, 64, 512), (4, 32, 512), (1, 128, 256)])
    m.input("x", batch, size, size, 4)
    m.weight("wi", channels, 3, 3, 4)
    m.vectors("bi", channels)
    u = Unet(m, batch)
    u.body = "    i = cast(conv(x, wi, pad=1) + bi, bf16)\n"
    a, s1 = u.residual("i", size, channels, channels, False)
    steps, at, now, wide = [], size, a, channels
    for level in (1, 2):
        m.weight(f"wu{level}", wide, 3, 3, wide)
        m.vectors(f"bu{level}", wide)
        u.body += f"    v{level} = cast(conv({enlarged_text(now, batch, at, wide)}, wu{level}, pad=1) + bu{level}, bf16)\n"
        at *= 2
        m.flops += 18.0 * batch * at * at * wide * wide
        now, step = u.residual(f"v{level}", at, wide, wide // 2, False)
        wide //= 2
        steps.append(step)
    m.vectors("gz hz", wide)
    m.weight("wz", 3, 3, 3, wide)
    m.vectors("bz", 3)
    m.result = (batch, at, at, 3)
    m.body = u.body + f"    y = conv(cast(silu(groupnorm({now}, 32, gz, hz)), bf16), wz, pad=1) + bz\n"

    def of(x, *rest):
        take = iter(rest).__next__
        x = s1(conv(x, take(), bias=take(), padding=1), take, None)
        for step in steps:
            x = step(conv(enlarged(x), take(), bias=take(), padding=1), take, None)
        g, h = take(), take()
        return conv(F.silu(group_norm(x, g, h)), take(), bias=take(), padding=1)
    m.of = of


def segmentation(m, r):
    """A U-Net for images: pairs of convolutions, pools down, transposed convolutions up, joined with what was there."""
    batch, size, channels, made = r.choice([(4, 256, 64, 2), (1, 512, 64, 21), (16, 128, 32, 1)])
    m.input("x", batch, size, size, 3)
    body, n = "", 0

    def pair(x, k, wide, at):
        nonlocal n, body
        for i, inner in enumerate((k, wide)):
            n += 1
            m.weight(f"w{n}", wide, 3, 3, inner)
            normed(m, f"n{n}", wide)
            body += f"    c{n} = cast(relu(batchnorm(conv({x if i == 0 else f'c{n - 1}'}, w{n}, pad=1), n{n}m, n{n}v, n{n}g, n{n}c)), bf16)\n"
            m.flops += 18.0 * batch * at * at * wide * inner
        return f"c{n}"
    x, k, at, kept = "x", 3, size, []
    for level in range(3):
        x = pair(x, k, channels << level, at)
        k = channels << level
        kept.append((x, k))
        body += f"    p{level} = cast(max_pool({x}, 2), bf16)\n"
        x, at = f"p{level}", at // 2
    x = pair(x, k, k * 2, at)
    k *= 2
    for level in reversed(range(3)):
        other, wide = kept[level]
        m.weight(f"u{level}", k, 2, 2, wide)
        m.vectors(f"ub{level}", wide)
        at *= 2
        body += f"""    v{level} = cast(conv_backward_data({x}, u{level}, size=[{at}, {at}], stride=2) + ub{level}, bf16)
    j{level} = concat({other}, v{level}, axis=3)
"""
        m.flops += 2.0 * batch * at * at * k * wide
        x, k = pair(f"j{level}", 2 * wide, wide, at), wide
    m.weight("wz", made, k)
    m.vectors("bz", made)
    m.result = (batch, at, at, made)
    m.body = body + f"    y = {x} @ wz.T + bz\n"

    def of(x, *rest):
        take = iter(rest).__next__

        def double(x):
            for _ in range(2):
                w, *norm = (take() for _ in range(5))
                x = F.relu(batchnorm(conv(x, w, padding=1), *norm))
            return x
        kept = []
        for _ in range(3):
            x = double(x)
            kept.append(x)
            x = F.max_pool2d(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)
        x = double(x)
        for other in reversed(kept):
            w, b = take(), take()
            v = F.conv_transpose2d(x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), b, stride=2).permute(0, 2, 3, 1)
            x = double(torch.cat([other, v], -1))
        return F.linear(x, take(), take())
    m.of = of


def detection(m, r):
    """Part of a detector's neck: split channels, bottlenecks, all joined again; pools of pools; a level enlarged and joined with the one above."""
    batch, size, channels = r.choice([(8, 40, 256), (1, 80, 128), (32, 20, 512)])
    half = channels // 2
    m.input("x", batch, size, size, channels)
    m.input("z", batch, 2 * size, 2 * size, half)

    def layer(name, n, taps, k, x, at):
        m.weight(f"w{name}", n, taps, taps, k)
        normed(m, f"n{name}", n)
        m.flops += 2.0 * batch * at * at * n * taps * taps * k
        return f"cast(silu(batchnorm(conv({x}, w{name}, pad={taps // 2}), n{name}m, n{name}v, n{name}g, n{name}c)), bf16)"
    body = f"    a = {layer('a', channels, 1, channels, 'x', size)}\n"
    body += f"    b = a[:, :, :, {half}:]\n"
    for i in range(2):
        x = "b" if i == 0 else "d0"
        body += f"    c{i} = {layer(f'b{i}', half, 3, half, x, size)}\n    d{i} = cast({layer(f'c{i}', half, 3, half, f'c{i}', size)} + {x}, bf16)\n"
    body += "    j = concat(a, d0, d1, axis=3)\n"
    body += f"    e = {layer('e', channels, 1, 2 * channels, 'j', size)}\n    f = {layer('f', half, 1, channels, 'e', size)}\n"
    for i, x in enumerate(("f", "p0", "p1")):
        body += f"    p{i} = cast(max_pool({x}, 5, stride=1, pad=2), bf16)\n"
    body += "    q = concat(f, p0, p1, p2, axis=3)\n"
    body += f"    g = {layer('g', half, 1, 2 * channels, 'q', size)}\n"
    body += f"    u = concat({enlarged_text('g', batch, size, half)}, z, axis=3)\n"
    body += f"    y = {layer('h', half, 3, channels, 'u', 2 * size)}\n"
    m.result = (batch, 2 * size, 2 * size, half)
    m.body = body

    def of(x, z, *rest):
        take = iter(rest).__next__

        def one(x):
            w, *norm = (take() for _ in range(5))
            return F.silu(batchnorm(conv(x, w, padding=w.shape[1] // 2), *norm))
        a = one(x)
        b = a[..., half:]
        d0 = one(one(b)) + b
        d1 = one(one(d0)) + d0
        f = one(one(torch.cat([a, d0, d1], -1)))
        pools = [f]
        for _ in range(3):
            pools.append(F.max_pool2d(pools[-1].permute(0, 3, 1, 2), 5, 1, 2).permute(0, 2, 3, 1))
        return one(torch.cat([enlarged(one(torch.cat(pools, -1))), z], -1))
    m.of = of


def enlarging(m, r):
    """An image from a smaller one: residual blocks of 64 channels, and pixels out of channels."""
    batch, size, layers, times = r.choice([(1, 256, 4, 2), (8, 96, 8, 2), (1, 480, 2, 3)])
    m.input("x", batch, size, size, 3)
    m.weight("wi", 64, 3, 3, 3)
    m.vectors("bi", 64)
    for i in range(layers):
        m.weight(f"wa_{i}", 64, 3, 3, 64)
        m.weight(f"wb_{i}", 64, 3, 3, 64)
        m.vectors(f"ba_{i} bb_{i}", 64)
    m.weight("wu", 64 * times * times, 3, 3, 64)
    m.vectors("bu", 64 * times * times)
    m.weight("wz", 3, 3, 3, 64)
    m.vectors("bz", 3)
    m.flops = 18.0 * batch * size * size * 64 * (3 + 128 * layers + 64 * times * times + 3 * times * times)
    out = size * times
    m.result = (batch, out, out, 3)
    m.body = "    x0 = cast(conv(x, wi, pad=1) + bi, bf16)\n"
    for i in range(layers):
        m.body += f"    x{i + 1} = cast(x{i} + 0.1 * (conv(cast(relu(conv(x{i}, wa_{i}, pad=1) + ba_{i}), bf16), wb_{i}, pad=1) + bb_{i}), bf16)\n"
    m.body += f"""    u = cast(conv(x{layers}, wu, pad=1) + bu, bf16)
    p = reshape(transpose(reshape(u, dims=[{batch}, {size}, {size}, 64, {times}, {times}]), [0, 1, 4, 2, 5, 3]), dims=[{batch}, {out}, {out}, 64])
    y = conv(p, wz, pad=1) + bz
"""

    def of(x, wi, bi, *rest):
        x = conv(x, wi, bias=bi, padding=1)
        for i in range(layers):
            wa, wb, ba, bb = rest[4 * i:4 * i + 4]
            x = x + 0.1 * conv(F.relu(conv(x, wa, bias=ba, padding=1)), wb, bias=bb, padding=1)
        wu, bu, wz, bz = rest[4 * layers:]
        u = F.pixel_shuffle(conv(x, wu, bias=bu, padding=1).permute(0, 3, 1, 2), times).permute(0, 2, 3, 1)
        return conv(u, wz, bias=bz, padding=1)
    m.of = of


def speech(m, r):
    """Whisper's encoder or a conformer: convolutions along time in front, or between the parts of each layer."""
    batch, s, e, heads, layers = r.choice([(1, 3000, 512, 8, 4), (8, 3000, 384, 6, 2), (16, 800, 256, 4, 2)])
    is_conformer, d, half = s < 1000, e // heads, s // 2
    m.input("x", batch, s, 80)
    m.weight("wa", e, 3, 80)
    m.weight("wb", e, 3, e)
    m.vectors("ba bb", e)
    m.input("places", half, e)
    weights = [("wqkv", (3 * e, e)), ("wo", (e, e)), ("w1", (4 * e, e)), ("w2", (e, 4 * e))]
    vectors = [("b1", 4 * e), ("bo", e), ("b2", e), ("g1", e), ("h1", e), ("g2", e), ("h2", e)]
    if is_conformer:
        weights += [("wp", (2 * e, e)), ("wd", (e, 31, 1)), ("wt", (e, e))]
        vectors += [("g3", e), ("h3", e), ("bd", e)]
    names = layers_of(m, layers, weights, vectors)
    own = [name for name, _ in weights + vectors]
    middle = f"""    g = layernorm(o, g3, h3) @ wp.T
    v = cast(g[:, :, :{e}] * sigmoid(g[:, :, {e}:]), bf16)
    c = cast(silu(conv(v, wd, pad=15, groups={e}) + bd), bf16)
    t = cast(o + c @ wt.T, bf16)
""" if is_conformer else "    t = o\n"
    m.functions = f"""fn speech{m.number}_layer (x, {", ".join(own)}) {{
    p = transpose(reshape(layernorm(x, g1, h1) @ wqkv.T, dims=[{batch}, {half}, 3, {heads}, {d}]), [2, 0, 3, 1, 4])
    a = attention(p[0], p[1], p[2])
    o = cast(reshape(transpose(a, [0, 2, 1, 3]), dims=[{batch}, {half}, {e}]) @ wo.T + bo + x, bf16)
{middle}    return cast(gelu(layernorm(t, g2, h2) @ w1.T + b1) @ w2.T + b2 + t, bf16)
}}
"""
    m.flops = 6.0 * batch * s * e * (80 + e / 2) + layers * batch * half * (e * e * (30.0 if is_conformer else 24.0) + 4.0 * half * e)
    m.result = (batch, half, e)
    m.body = f"""    c0 = cast(gelu(conv(x, wa, pad=1) + ba), bf16)
    x0 = cast(gelu(conv(c0, wb, stride=2, pad=1) + bb) + places, bf16)
"""
    m.body += "".join(f"    {'y' if i + 1 == layers else f'x{i + 1}'} = speech{m.number}_layer(x{i}, {', '.join(n)})\n" for i, n in enumerate(names))

    def conv1(x, w, b, **rest):
        return F.conv1d(x.transpose(1, 2), w.transpose(1, 2), b, **rest).transpose(1, 2)

    def of(x, wa, wb, ba, bb, places, *rest):
        x = F.gelu(conv1(F.gelu(conv1(x, wa, ba, padding=1)), wb, bb, stride=2, padding=1)) + places
        for i in range(layers):
            w = dict(zip(own, rest[i * len(own):(i + 1) * len(own)]))
            p = F.linear(F.layer_norm(x, (e,), w["g1"], w["h1"]), w["wqkv"]).view(batch, half, 3, heads, d).permute(2, 0, 3, 1, 4)
            a = F.scaled_dot_product_attention(p[0], p[1], p[2])
            t = F.linear(a.transpose(1, 2).reshape(batch, half, e), w["wo"], w["bo"]) + x
            if is_conformer:
                v = F.glu(F.linear(F.layer_norm(t, (e,), w["g3"], w["h3"]), w["wp"]))
                t = t + F.linear(F.silu(conv1(v, w["wd"], w["bd"], padding=15, groups=e)), w["wt"])
            x = F.linear(F.gelu(F.linear(F.layer_norm(t, (e,), w["g2"], w["h2"]), w["w1"], w["b1"])), w["w2"], w["b2"]) + t
        return x
    m.of = of


def capped(m, r):
    """Gemma's layers: norms in front and behind, soft caps, every other layer sees a band of keys, GEGLU; a prompt."""
    batch, s, e, heads, groups, d, h, band = r.choice([(1, 2048, 2304, 8, 4, 256, 9216, 1024), (4, 512, 1152, 4, 1, 256, 6912, 128)])
    m.input("x", batch, s, e)
    m.input("c", s, d // 2, type="f32")
    m.input("z", s, d // 2, type="f32")
    weights = [("wq", (heads * d, e)), ("wk", (groups * d, e)), ("wv", (groups * d, e)), ("wo", (e, heads * d)), ("wg", (h, e)), ("wu", (h, e)),
               ("wd", (e, h))]
    own = [name for name, _ in weights] + ["g1", "g2", "g3", "g4"]
    names = layers_of(m, 2, weights, [(g, e) for g in own[7:]])
    for i in range(2):
        m.functions += f"""fn capped{m.number}_{i} (x, c, z, {", ".join(own)}) {{
    n = rmsnorm(x, 1 + g1)
    q = cast(rope(transpose(reshape(n @ wq.T, dims=[{batch}, {s}, {heads}, {d}]), [0, 2, 1, 3]), c, z), bf16)
    k = cast(rope(transpose(reshape(n @ wk.T, dims=[{batch}, {s}, {groups}, {d}]), [0, 2, 1, 3]), c, z), bf16)
    v = cast(transpose(reshape(n @ wv.T, dims=[{batch}, {s}, {groups}, {d}]), [0, 2, 1, 3]), bf16)
    a = attention(q, k, v, causal=true, softcap=50{f", window={band}" if i == 0 else ""})
    o = cast(rmsnorm(cast(reshape(transpose(a, [0, 2, 1, 3]), dims=[{batch}, {s}, {heads * d}]) @ wo.T, bf16), 1 + g2) + x, bf16)
    f = rmsnorm(o, 1 + g3)
    w = cast((gelu(f @ wg.T, approx=tanh) * (f @ wu.T)) @ wd.T, bf16)
    return cast(o + rmsnorm(w, 1 + g4), bf16)
}}
"""
    m.result = (batch, s, e)
    m.flops = 2 * (2.0 * batch * s * e * ((2 * heads + 2 * groups) * d + 3 * h) + 1.5 * batch * s * s * heads * d)
    m.body = f"    x1 = capped{m.number}_0(x, c, z, {', '.join(names[0])})\n    y = capped{m.number}_1(x1, c, z, {', '.join(names[1])})\n"

    def norm(x, g):
        return F.rms_norm(x, (e,), 1 + g, 1e-5)

    def of(x, c, z, *rest):
        ahead = torch.arange(s, device=x.device)[None] - torch.arange(s, device=x.device)[:, None]
        for i in range(2):
            wq, wk, wv, wo, wg, wu, wd, g1, g2, g3, g4 = rest[11 * i:11 * i + 11]
            n = norm(x, g1)
            q, k, v = rotated(heads_apart(F.linear(n, wq), heads), c, z), rotated(heads_apart(F.linear(n, wk), groups), c, z), heads_apart(F.linear(n, wv), groups)
            k, v = (t.repeat_interleave(heads // groups, 1) for t in (k, v))
            scores = 50 * torch.tanh(q @ k.mT * d ** -0.5 / 50)
            seen = (ahead <= 0) & (ahead > -band) if i == 0 else ahead <= 0
            a = torch.softmax(scores.masked_fill(~seen, -torch.inf), -1) @ v
            o = norm(F.linear(a.transpose(1, 2).reshape(batch, s, heads * d), wo), g2) + x
            f = norm(o, g3)
            x = o + norm(F.linear(gelu(F.linear(f, wg)) * F.linear(f, wu), wd), g4)
        return x
    m.of = of


def translation(m, r):
    """T5: an encoder's layers whose scores have a bias by distance, and a decoder's with attention to what the encoder found."""
    batch, s, t, e, heads, h = r.choice([(8, 512, 128, 768, 12, 2048), (32, 128, 32, 512, 8, 1024), (2, 1024, 256, 1024, 16, 2816)])
    d = e // heads
    m.input("x", batch, s, e)
    m.input("w", batch, t, e)
    m.rows("near", s, s, most=32)
    m.rows("behind", t, t, most=32)
    m.input("tn", 32, heads)
    m.input("tb", 32, heads)
    layer = [("wq", (e, e)), ("wk", (e, e)), ("wv", (e, e)), ("wo", (e, e)), ("wg", (h, e)), ("wu", (h, e)), ("wd", (e, h))]
    cross = [("xq", (e, e)), ("xk", (e, e)), ("xv", (e, e)), ("xo", (e, e))]
    for name, dims in layer + [(f"d{n}", dims) for n, dims in layer] + cross:
        m.weight(name, *dims)
    m.vectors("g1 g2 ge h1 h2 h3", e)
    apart = lambda v, n: f"cast(transpose(reshape({v}, dims=[{batch}, {n}, {heads}, {d}]), [0, 2, 1, 3]), bf16)"
    together = lambda v, n: f"reshape(transpose({v}, [0, 2, 1, 3]), dims=[{batch}, {n}, {e}])"
    m.result = (batch, t, e)
    m.flops = 2.0 * batch * s * e * (4 * e + 3 * h) + 4.0 * batch * s * s * e + 2.0 * batch * t * e * (6 * e + 3 * h) + 4.0 * batch * s * e * e + 4.0 * batch * t * (t / 2 + s) * e
    m.body = f"""    n = rmsnorm(x, g1)
    a = attention({apart("n @ wq.T", s)}, {apart("n @ wk.T", s)}, {apart("n @ wv.T", s)}, scale=1, bias=transpose(embedding(near, tn), [2, 0, 1]))
    o = cast({together("a", s)} @ wo.T + x, bf16)
    f = rmsnorm(o, g2)
    q = cast(o + (gelu(f @ wg.T, approx=tanh) * (f @ wu.T)) @ wd.T, bf16)
    k = rmsnorm(q, ge)
    j = rmsnorm(w, h1)
    b = attention({apart("j @ dwq.T", t)}, {apart("j @ dwk.T", t)}, {apart("j @ dwv.T", t)}, scale=1, causal=true, bias=transpose(embedding(behind, tb), [2, 0, 1]))
    p = cast({together("b", t)} @ dwo.T + w, bf16)
    c = attention({apart("rmsnorm(p, h2) @ xq.T", t)}, {apart("k @ xk.T", s)}, {apart("k @ xv.T", s)}, scale=1)
    v = cast({together("c", t)} @ xo.T + p, bf16)
    z = rmsnorm(v, h3)
    y = v + (gelu(z @ dwg.T, approx=tanh) * (z @ dwu.T)) @ dwd.T
"""

    def norm(x, g):
        return F.rms_norm(x, (e,), g, 1e-5)

    def attend(n, k, wq, wk, wv, wo, bias):
        q, k, v = (heads_apart(F.linear(x, w), heads) for x, w in ((n, wq), (k, wk), (k, wv)))
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=1.0)
        return F.linear(a.transpose(1, 2).reshape(n.shape), wo)

    def gated(x, wg, wu, wd):
        return F.linear(gelu(F.linear(x, wg)) * F.linear(x, wu), wd)

    def of(x, w, near, behind, tn, tb, wq, wk, wv, wo, wg, wu, wd, dwq, dwk, dwv, dwo, dwg, dwu, dwd, xq, xk, xv, xo, g1, g2, ge, h1, h2, h3):
        n, places = norm(x, g1), torch.arange(t, device=x.device)
        o = attend(n, n, wq, wk, wv, wo, F.embedding(near, tn).permute(2, 0, 1)) + x
        k = norm(o + gated(norm(o, g2), wg, wu, wd), ge)
        bias = F.embedding(behind, tb).permute(2, 0, 1).masked_fill(places[None] > places[:, None], -torch.inf)
        j = norm(w, h1)
        p = attend(j, j, dwq, dwk, dwv, dwo, bias) + w
        v = attend(norm(p, h2), k, xq, xk, xv, xo, None) + p
        return v + gated(norm(v, h3), dwg, dwu, dwd)
    m.of = of


def latent(m, r):
    """A layer with compressed keys (DeepSeek's MLA) for one new token: queries meet the compressed keys themselves."""
    batch, kept, e, heads, rank, h = r.choice([(32, 1024, 2048, 16, 512, 10944), (4, 4096, 2048, 16, 512, 10944), (64, 512, 1024, 32, 256, 4096)])
    d, turned = 128, 64
    m.input("x", batch, 1, e)
    m.input("keys", batch, 1, kept, rank + turned)
    m.input("c", 1, turned // 2, type="f32")
    m.input("z", 1, turned // 2, type="f32")
    for name, *dims in (("wq", heads * (d + turned), e), ("wn", rank + turned, e), ("wo", e, heads * d), ("wg", h, e), ("wu", h, e), ("wd", e, h)):
        m.weight(name, *dims)
    m.input("up", heads, d, rank, scale=1.5 * rank ** -0.5)
    m.input("out", heads, rank, d, scale=1.5 * rank ** -0.5)
    m.vectors("g1 g2", e)
    m.vectors("gn", rank)
    m.result = (batch, 1, e)
    m.flops = 2.0 * batch * (e * (heads * (2 * d + turned) + rank + turned + 3 * h) + 2 * heads * d * rank + heads * kept * (2 * rank + turned))
    m.body = f"""    n = rmsnorm(x, g1)
    p = cast(reshape(n @ wq.T, dims=[{batch}, {heads}, 1, {d + turned}]), bf16)
    l = reshape(n @ wn.T, dims=[{batch}, 1, 1, {rank + turned}])
    own = cast(concat(rmsnorm(l[:, :, :, :{rank}], gn), rope(l[:, :, :, {rank}:], c, z), axis=3), bf16)
    k = concat(keys, own, axis=2)
    u = transpose(transpose(reshape(p[:, :, :, :{d}], dims=[{batch}, {heads}, {d}]), [1, 0, 2]) @ up, [1, 0, 2])
    q = cast(concat(reshape(u, dims=[{batch}, {heads}, 1, {rank}]), rope(p[:, :, :, {d}:], c, z), axis=3), bf16)
    a = attention(q, k, k[:, :, :, :{rank}], scale={(d + turned) ** -0.5:.9g})
    v = transpose(transpose(reshape(cast(a, bf16), dims=[{batch}, {heads}, {rank}]), [1, 0, 2]) @ out, [1, 0, 2])
    o = cast(x + reshape(v, dims=[{batch}, 1, {heads * d}]) @ wo.T, bf16)
    f = rmsnorm(o, g2)
    y = o + (silu(f @ wg.T) * (f @ wu.T)) @ wd.T
"""

    def of(x, keys, c, z, wq, wn, wo, wg, wu, wd, up, out, g1, g2, gn):
        n = F.rms_norm(x, (e,), g1, 1e-5)
        p, l = F.linear(n, wq).view(batch, heads, 1, d + turned), F.linear(n, wn).view(batch, 1, 1, rank + turned)
        own = torch.cat([F.rms_norm(l[..., :rank], (rank,), gn, 1e-5), rotated(l[..., rank:], c, z)], -1)
        k = torch.cat([keys, own], 2)
        u = torch.einsum("bhd,hdr->bhr", p[:, :, 0, :d], up)
        q = torch.cat([u[:, :, None], rotated(p[..., d:], c, z)], -1)
        a = F.scaled_dot_product_attention(q.transpose(1, 2), k, k[..., :rank], scale=(d + turned) ** -0.5)  # heads are rows that share keys
        v = torch.einsum("bhr,hrd->bhd", a[:, 0], out)
        o = x + F.linear(v.reshape(batch, 1, heads * d), wo)
        f = F.rms_norm(o, (e,), g2, 1e-5)
        return o + F.linear(F.silu(F.linear(f, wg)) * F.linear(f, wu), wd)
    m.of = of


def field(m, r):
    """What is seen along rays: places as waves, eight layers of 256 with the places again at the fifth, and colours (NeRF)."""
    rows, e = r.choice([(65536, 256), (262144, 128), (16384, 256)])
    m.input("x", rows, 3, type="f32")
    m.weight("w0", e, 63)
    for i in range(1, 8):
        m.weight(f"w{i}", e, e + 63 if i == 4 else e)
    m.weight("wz", 4, e)
    m.vectors(" ".join(f"b{i}" for i in range(8)), e)
    m.vectors("bz", 4)
    m.flops = 2.0 * rows * e * (63 + 7 * e + 63 + 4)
    m.result = (rows, 4)
    m.body = f"""    f = reshape(x[:, none, :] * exp2(cast(index([1, 10, 1], 1), f32)), dims=[{rows}, 30])
    p = cast(concat(x, sin(f), cos(f), axis=1), bf16)
    x0 = cast(relu(p @ w0.T + b0), bf16)
"""
    for i in range(1, 8):
        m.body += f"    x{i} = cast(relu({'concat(x3, p, axis=1)' if i == 4 else f'x{i - 1}'} @ w{i}.T + b{i}), bf16)\n"
    m.body += "    y = x7 @ wz.T + bz\n"

    def of(x, *rest):
        w, wz, b, bz = rest[:8], rest[8], rest[9:17], rest[17]
        f = (x[:, None] * 2.0 ** torch.arange(10, device=x.device)[:, None]).reshape(rows, 30)
        p = torch.cat([x, torch.sin(f), torch.cos(f)], 1).to(wz.dtype)
        y = F.relu(F.linear(p, w[0], b[0]))
        for i in range(1, 8):
            y = F.relu(F.linear(torch.cat([y, p], 1) if i == 4 else y, w[i], b[i]))
        return F.linear(y, wz, bz)
    m.of = of


def neighbours(m, r):
    """Two layers over the neighbours of nodes: what they have in the mean, beside a node's own (GraphSAGE), norms behind."""
    nodes, near, e, made = r.choice([(100000, 10, 128, 47), (20000, 16, 256, 40), (200000, 8, 64, 16)])
    m.input("x", nodes, e)
    m.rows("who", nodes, near, most=nodes)
    for i, n in enumerate((e, made)):
        m.weight(f"wo{i}", n, e)
        m.weight(f"wn{i}", n, e)
        m.vectors(f"b{i}", n)
    m.vectors("g h", e)
    m.flops = 4.0 * nodes * e * (e + made)
    m.result = (nodes, made)
    m.body = f"""    a = cast(relu(layernorm(x @ wo0.T + cast(mean(embedding(who, x), over=1, keep=0), bf16) @ wn0.T + b0, g, h)), bf16)
    y = log_softmax(a @ wo1.T + cast(mean(embedding(who, a), over=1, keep=0), bf16) @ wn1.T + b1)
"""

    def of(x, who, wo0, wn0, b0, wo1, wn1, b1, g, h):
        def mean(t):
            return t[who].mean(1)
        a = F.relu(F.layer_norm(F.linear(x, wo0) + F.linear(mean(x), wn0) + b0, (e,), g, h))
        return F.log_softmax(F.linear(a, wo1) + F.linear(mean(a), wn1) + b1, -1)
    m.of = of


def recurrent(m, r):
    """Two layers of gated recurrent units over a few steps, and what is said of the last."""
    batch, steps, k, h = r.choice([(64, 16, 256, 512), (256, 12, 128, 256), (16, 24, 512, 1024)])
    m.input("x", batch, steps, k)
    for i, inner in enumerate((k, h)):
        m.weight(f"w{i}", 3 * h, inner)
        m.weight(f"u{i}", 3 * h, h)
        m.vectors(f"b{i} c{i}", 3 * h)
    m.weight("wz", 32, h)
    m.vectors("bz", 32)
    m.functions = f"""fn gru{m.number} (g, v, s) {{
    r = sigmoid(g[:, :{h}] + v[:, :{h}])
    z = sigmoid(g[:, {h}:{2 * h}] + v[:, {h}:{2 * h}])
    n = tanh(g[:, {2 * h}:] + r * v[:, {2 * h}:])
    return cast(n + z * (s - n), bf16)
}}
"""
    m.flops = 2.0 * batch * steps * 3 * h * (k + 3 * h)
    m.result = (batch, 32)
    body = "    p0 = cast(x @ w0.T + b0, bf16)\n"
    for layer in range(2):
        for i in range(steps):
            name, before = f"s{layer}_{i}", f"s{layer}_{i - 1}"
            if i == 0:
                body += f"    {name} = gru{m.number}(p{layer}[:, 0, :], broadcast(c{layer}, dims=[{batch}, {3 * h}]), f32(0))\n"
            else:
                body += f"    {name} = gru{m.number}(p{layer}[:, {i}, :], {before} @ u{layer}.T + c{layer}, {before})\n"
        if layer == 0:
            body += "    q = concat(" + ", ".join(f"reshape(s0_{i}, dims=[{batch}, 1, {h}])" for i in range(steps)) + ", axis=1)\n"
            body += "    p1 = cast(q @ w1.T + b1, bf16)\n"
    m.body = body + f"    y = s1_{steps - 1} @ wz.T + bz\n"

    def of(x, w0, u0, b0, c0, w1, u1, b1, c1, wz, bz):
        for w, u, b, c in ((w0, u0, b0, c0), (w1, u1, b1, c1)):
            p, s, all_ = F.linear(x, w, b), torch.zeros(batch, h, dtype=x.dtype, device=x.device), []
            for i in range(steps):
                g, v = p[:, i].chunk(3, -1), F.linear(s, u, c).chunk(3, -1)
                n = torch.tanh(g[2] + torch.sigmoid(g[0] + v[0]) * v[2])
                s = n + torch.sigmoid(g[1] + v[1]) * (s - n)
                all_.append(s)
            x = torch.stack(all_, 1)
        return F.linear(x[:, -1], wz, bz)
    m.of = of


FAMILIES = {"swin": swin, "unet": diffusion_unet, "decoder": image_decoder, "segment": segmentation, "detect": detection, "enlarge": enlarging,
            "speech": speech, "capped": capped, "translate": translation, "latent": latent, "field": field, "near": neighbours, "gru": recurrent}


def draw(seed, count):
    """(the graphs' text, CASES, TOLERANCES) of `count` networks."""
    return models.draw(seed, count, FAMILIES)
