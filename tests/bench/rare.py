"""Inputs and peers of each graph of rare.sg, in the form that cases.py describes. Inputs are made and bytes counted from what a graph's text
declares; a case adds its peer, the sizes of its products, and those inputs that are not plain random numbers."""
import functools
import math
import pathlib
import re

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from cases import BF, E4, F32, at_least_f32, from_i4, i4, i8, positive, rand, scalar, swiglu
from wide import F16, chosen, dequantized

TYPES = {"bf16": BF, "f16": F16, "f32": F32, "e4m3": E4, "e5m2": torch.float8_e5m2, "i32": torch.int32, "i8": torch.int8}
BITS = {"i4": 4, "i8": 8, "u8": 8, "bool": 8, "e4m3": 8, "e5m2": 8, "bf16": 16, "f16": 16, "i32": 32, "f32": 32, "i64": 64}
WEIGHTS = ("w", "wg", "wu", "wd", "wo", "u", "v")
F32_RATE, NARROW_RATE = 12, 0.5  # what a FLOP takes outside the tensor cores, and in 8 bits, where one in bf16 takes 1


def tensors(text):
    return [(name, dtype, tuple(map(int, dims.split(",") if dims else []))) for name, dtype, dims in re.findall(r"(\w+): (\w+)\[([\d, ]*)\]", text)]


def declared(file):
    """Inputs and outputs of each graph of the .sg file beside a suite's program."""
    text = pathlib.Path(file).with_suffix(".sg").read_text()
    return {name: (tensors(inputs), tensors(outputs))
            for name, inputs, outputs in re.findall(r"^graph (\w+) \((.*?)\)\s*-> \((.*?)\)\n\{", text, re.M | re.S)}


DECLARED = declared(__file__)


def size(tensors):
    """Bytes of all."""
    return sum(math.prod(shape) * BITS[dtype] / 8 for _, dtype, shape in tensors)


def made(name, dtype, shape, value=None):
    """A random tensor. `value` is a number's value, an index's end, a float tensor's scale, or what makes the tensor of a shape."""
    if callable(value):
        return value(*shape).to(TYPES[dtype])
    if dtype == "i32":
        return chosen(value, *shape)
    if dtype in ("i4", "i8", "u8", "bool"):
        return {"i4": i4, "i8": i8, "u8": bytes_of, "bool": half}[dtype](*shape)
    if not shape:
        return torch.tensor(value, device="cuda") if dtype == "i64" else scalar(value)
    if dtype in ("e4m3", "e5m2"):
        return rand(*shape, dtype=TYPES[dtype], scale=1.0)
    if value is None and name in WEIGHTS and len(shape) > 1:
        value = 2 / math.sqrt(shape[-1] if shape[-1] > 1 else shape[-2])  # so that a product with 0.5 has a deviation of 1
    return rand(*shape, dtype=TYPES[dtype], scale=value or 0.5)


def case(name, peer, *products, rate=1, moved=None, together=None, **values):
    """(name, its case). Each product is its M, N and K, with a batch before them where there is one."""
    inputs, outputs = DECLARED[name]
    return name, (together or (lambda: [made(*tensor, values.get(tensor[0])) for tensor in inputs]), peer,
                  2.0 * rate * sum(map(math.prod, products)), moved or size(inputs + outputs))


# ---- what inputs are made with

def half(*shape):
    return torch.rand(shape, device="cuda") < 0.5


def bytes_of(*shape):
    return torch.randint(0, 256, shape, device="cuda", dtype=torch.uint8)


def scales(size):
    return lambda *shape: positive(*shape) * size


def unit(*shape):
    return torch.rand(shape, device="cuda")


def whole(low, high):
    return lambda *shape: torch.randint(low, high, shape, device="cuda", dtype=torch.int32)


def shares(*shape):
    return rand(*shape, dtype=F32, scale=1.0).softmax(-1)


def decay(rows, columns):
    """What a step of retention keeps of each earlier one."""
    return (0.97 ** (torch.arange(rows, device="cuda")[:, None] - torch.arange(columns, device="cuda"))).tril()


def falling(*shape):
    """Sums of a chunk's logarithms of decays."""
    return -(unit(*shape) * 0.05).cumsum(-1)


def scored(rows=4096, vocabulary=32000, width=2048):
    """Scores, the logarithms of their rows' sums, which belong to them, what is right, and a weight."""
    scores = rand(rows, vocabulary, scale=2.0)
    return [scores, scores.float().logsumexp(-1, keepdim=True), chosen(vocabulary, rows), rand(vocabulary, width, scale=0.05)]


# ---- peers: each takes float64, too, for the reference

def from_table(x, w, t, s):
    numbers = t[torch.stack([w & 15, w >> 4], -1).flatten(1).int()]
    return F.linear(x, numbers * s.repeat_interleave(64, 1))


def from_quarters(x, w, s):
    quarters = torch.stack([w >> 2 * i & 3 for i in range(4)], -1).flatten(1)
    return F.linear(x, quarters.to(x.dtype) - 2) * s


def shifted(x, m, w):
    return F.linear(x * m + F.pad(x, (0, 0, 1, -1)) * (1 - m), w)


def field_pairs(x):
    return at_least_f32(x @ x.transpose(1, 2)).triu(1).sum((1, 2))


def nearest_rows(x, y):
    return (x.square().sum(1, keepdim=True) + y.square().sum(1) - 2 * (x @ y.T)).min(1)


def summed(x, dim=1):
    return x.sum(dim, keepdim=True, dtype=torch.promote_types(x.dtype, F32))


def squares(x):
    return at_least_f32(x).square().sum(1, keepdim=True)


def wide_product(a, b):
    return at_least_f32(a @ b)


def logits(x, w):
    return at_least_f32(F.linear(x, w))


def covariance(x):
    d = (x - x.mean(0)).to(BF).to(x.dtype)  # the graph rounds it
    return wide_product(d.t(), d) * 0.00006103888


def complex_product(a, b, c, d):
    return torch.addmm(b @ d, a, c, beta=-1), torch.addmm(a @ d, b, c)


def two_halves(x, w, v):
    a, b = x.chunk(2, 1)
    return torch.addmm(F.linear(a, w), b, v.t())


def distances(x, y):
    norms = summed(x * x).to(x.dtype) + summed(y * y).to(x.dtype).t()
    return torch.addmm(norms, x, y.t(), alpha=-2).clamp_min(0).sqrt()


def rbf(x, y, g):
    return torch.exp(-g * torch.add(squares(x) + squares(y).t(), F.linear(x, y), alpha=-2))


def nearest_center(x, c):
    return torch.add(squares(c).t(), F.linear(x, c), alpha=-2).argmin(1)


def clip_loss(x, y, t):
    return F.cross_entropy(logits(x * t, y), torch.arange(len(x), device=x.device), reduction="none").unsqueeze(1)


def clip_both(x, y, t):
    s = logits(x * t, y)
    return s.logsumexp(1, keepdim=True), s.logsumexp(0, keepdim=True)


def cross_entropy_backward(l, z, t, w):
    """z are the logarithms of l's rows' sums: softmax takes its own in one pass, where l - z would fill f32 tensors."""
    p = F.softmax(l, -1)
    p[torch.arange(len(t), device=t.device), t.long()] -= 1
    return p @ w


def softcap_logsumexp(x, w):
    return at_least_f32(30 * torch.tanh(F.linear(x, w) / 30)).logsumexp(1, keepdim=True)


def entropy(x, w):
    l = F.log_softmax(logits(x, w), -1)
    return -(l.exp() * l).sum(1, keepdim=True)


def distilled(x, w, y, v):
    s, t = F.log_softmax(logits(x, w), -1), F.log_softmax(logits(y, v), -1)
    return F.kl_div(s, t, reduction="none", log_target=True).sum(1, keepdim=True)


def most_likely(x, w):
    return F.linear(x, w).argmax(1)


def squared_error(x, w, t):
    e = F.linear(x, w) - t
    return e.square().mean(dtype=torch.promote_types(e.dtype, F32)), e * 0.000001


def requantized(x, w, b, s):
    return ((torch._int_mm(x, w.t()) + b) * s).round().clamp(-128, 127).to(torch.int8)


def int8_rows(x, w, t):
    s = at_least_f32(x.abs().amax(1, keepdim=True)) / 127
    q = (x / s).round().clamp(-127, 127).to(torch.int8)
    return (torch._int_mm(q, w.t()) * s * t).to(x.dtype)


def fp8_rows(x, w, t):
    s = at_least_f32(x.abs().amax(1, keepdim=True)) / 448
    q = (x / s).to(E4)
    if x.dtype == torch.float64:  # of what is rounded, too
        return (q.double() * s) @ (w * t).t()
    return torch._scaled_mm(q, w.t(), scale_a=s, scale_b=t.expand(1, len(w)).contiguous(), out_dtype=BF)


def fp8_gradient(d, w, s, t):
    """cuBLAS takes fp8 along K alone, so the weight is transposed first."""
    if d.dtype == torch.float64:
        return (d @ w) * (s * t)
    return torch._scaled_mm(d, w.t().contiguous().t(), scale_a=s, scale_b=t, out_dtype=BF)


def uint8_out(x, w, s, z):
    return (F.linear(x, w) * s + z).round().clamp(0, 255).to(torch.uint8)


def norm_quantized(x, w, r, g):
    s = F.linear(x, w) + r
    n = at_least_f32(F.rms_norm(s, g.shape, g, 1e-5))
    f = n.abs().amax(1, keepdim=True) / 448
    q = n / f
    return s, q if x.dtype == torch.float64 else q.to(E4), f


def in_groups(w, s, z=None):
    """Each row's groups times their scales, behind their zeros."""
    q = w.to(s.dtype).unflatten(1, (s.shape[1], -1))
    return ((q if z is None else q - z[:, :, None]) * s[:, :, None]).flatten(1)


def mx_blocks(x, w, s, t):
    x, w = (dequantized(q.unflatten(1, (f.shape[1], -1)), f[:, :, None]).flatten(1) for q, f in ((x, s), (w, t)))
    return F.linear(x, w)


def mx_exponents(x, w, s, t):
    return mx_blocks(x, w, *(torch.exp2(e.to(torch.float64 if x.dtype == torch.float64 else F32)) for e in (s, t)))


def awq(x, w, s, z):
    return F.linear(x, in_groups(from_i4(w), s, z))


def pruned(x, w, m):
    return F.linear(x, torch.where(m, w, 0))


def kept(count, seed, p):
    """Which of `count` elements uniform(seed) of Sinter's, Philox-4x32-10 of an element's number, keeps: what the reference drops too."""
    def times(c, factor):
        product = c * factor  # of 64 bits, which wrap
        return product >> 32 & 0xFFFFFFFF, product & 0xFFFFFFFF

    seed, low = int(seed), torch.arange(count // 4, device="cuda")
    k0, k1, c = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF, [low, *(torch.zeros_like(low) for _ in range(3))]
    for _ in range(10):
        (h0, l0), (h1, l1) = times(c[0], 0xD2511F53), times(c[2], 0xCD9E8D57)
        c = [h1 ^ c[1] ^ k0, l1, h0 ^ c[3] ^ k1, l0]
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return (torch.stack(c, 1).flatten() >> 8) * 2.0 ** -24 >= p


def dropout(x, w, b, k):
    y = F.gelu(F.linear(x, w, b))
    if x.dtype != torch.float64:  # draws numbers of its own: as long, but not the reference's
        return torch.native_dropout(y, 0.1, True)
    mask = kept(y.numel(), k, 0.1).view(y.shape)
    return torch.where(mask, y / 0.9, 0), mask


def weight_norm(x, v, g):
    return F.linear(x, torch._weight_norm(v, g.unsqueeze(1), 0))


def halves(x, w):
    a, b = F.linear(x, w).chunk(2, 1)
    return F.silu(a) * b


def critic(x, w, b, u, c, v):
    return logits(F.relu(F.linear(F.relu(F.linear(x, w, b)), u, c)), v)


def conv_block(x, w, m, v, g, b, r):
    return F.relu(F.batch_norm(w @ x, m, v, g, b, eps=1e-5) + r)


def keys_values(x, w, b):
    h = F.linear(x, w, b).unflatten(-1, (2, 8, -1))
    return h[:, :, 0].transpose(1, 2).contiguous(), h[:, :, 1].transpose(1, 2).contiguous()


def triangle_in(z, g, h, w, v):
    n = F.layer_norm(z, g.shape, g, h, 1e-5)
    return torch.sigmoid(F.linear(n, w)) * F.linear(n, v)


def mlp_block(x, g, wg, wu, wd):
    return x + F.linear(swiglu(F.rms_norm(x, g.shape, g, 1e-5), wg, wu), wd)


def soft_experts(x, p, w, v):
    """All experts' products as one, and their weighted sum as another along all hidden columns."""
    h = F.silu(F.linear(x, w.flatten(0, 1))).unflatten(1, (len(w), -1)) * p.to(x.dtype)[:, :, None]
    return h.flatten(1) @ v.transpose(1, 2).flatten(0, 1)


def modulated(x, s, t, w, b):
    return F.linear(torch.addcmul(t, F.layer_norm(x, x.shape[-1:], eps=1e-5), 1 + s), w, b)


def mixed_tokens(x, g, h, w, b, u, c):
    return x + (u @ F.gelu(w @ F.layer_norm(x, g.shape, g, h, 1e-5) + b) + c)


def excited(x, w, v):
    return x * torch.sigmoid(F.linear(F.relu(F.linear(x.mean(1, keepdim=True), w)), v))


def lstm_gates(x, w, h, u, c):
    i, f, n, o = torch.addmm(F.linear(x, w), h, u.t()).chunk(4, 1)
    d = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(n)
    return (torch.sigmoid(o) * torch.tanh(d)).to(x.dtype), d


def linear_attention(q, k, v):
    f, g = F.elu(k) + 1, F.elu(q) + 1
    return g @ (f.transpose(1, 2) @ v) / (g @ f.sum(1).unsqueeze(2))


def retention(q, k, v, d):
    return (q @ k.transpose(1, 2) * d.to(q.dtype)) @ v


@functools.cache
def flex_causal(n):
    """PyTorch's attention whose scores a program of its own masks, compiled, and what that leaves of n queries and keys."""
    seen = create_block_mask(lambda b, h, i, j: i >= j, None, None, n, n)
    fast = torch.compile(flex_attention, dynamic=False)
    return lambda q, k, v: fast(q, k, v, block_mask=seen, enable_gqa=True, return_lse=True)


def with_sinks(q, k, v, s):
    if q.dtype != BF:  # the reference, a sequence at a time
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
        rows = []
        for i in range(q.shape[0]):
            x = (q[i] @ k[i].transpose(1, 2)) * q.shape[-1] ** -0.5
            x = x.masked_fill(torch.ones(x.shape[1:], device="cuda", dtype=torch.bool).triu(1), -math.inf)
            x = torch.cat([x, s.expand(-1, x.shape[1], 1).to(x.dtype)], 2).softmax(-1)[..., :-1]
            rows.append(x @ v[i])
        return torch.stack(rows)
    o, log = flex_causal(q.shape[2])(q, k, v)
    return (o * torch.sigmoid(log[..., None] - s)).to(q.dtype)


def dropped(q, k, v, m):
    p = (q @ k.transpose(2, 3) * 0.125).softmax(-1)
    return torch.where(m, p * 2, 0) @ v


def from_fp8(q, k, v, a, b, c):
    wide = q.dtype if q.dtype == torch.float64 else BF
    return F.scaled_dot_product_attention(*((t.to(wide) * s).to(wide) for t, s in ((q, a), (k, b), (v, c))))


def latent_keys(c, w):
    h = F.linear(c, w).unflatten(1, (128, 256))
    return tuple(t.transpose(0, 1).contiguous() for t in h.split(128, 2))


def sobel(x, w, u):
    x, w, u = (t.permute(0, 3, 1, 2) for t in (x, w, u))
    return (F.conv2d(x, w, padding=1).square() + F.conv2d(x, u, padding=1).square()).sqrt().permute(0, 2, 3, 1)


def state_chunk(c, b, x, a):
    return (c @ b.transpose(1, 2) * torch.exp(a[:, :, None] - a[:, None]).tril().to(c.dtype)) @ x


def newton_step(x):
    a = x @ x.transpose(1, 2)
    return torch.baddbmm(x, torch.baddbmm(a, a, a, beta=-4.775, alpha=2.0315), x, beta=3.4445)


def groups_along_n(x, w, s):
    return x @ (from_i4(w).to(s.dtype).unflatten(0, (len(s), -1)) * s[:, None]).flatten(0, 1)


def category_sums(x, a):
    wide = at_least_f32(x)
    return torch.zeros(256, wide.shape[1], device="cuda", dtype=wide.dtype).index_add_(0, a, wide)


def stats_beside(x, w):
    h = F.linear(x, w)
    wide = at_least_f32(h)
    return h, wide.sum(0), wide.square().sum(0)


def patches_last(x, w, b):
    return F.linear(x.unflatten(1, (14, 16)).unflatten(3, (14, 16)).transpose(2, 3).flatten(3).flatten(1, 2), w, b)


def lora_each(x, w, a, b, i):
    return torch.baddbmm(F.linear(x, w), x @ a[i].transpose(1, 2), b[i].transpose(1, 2))


def conv_pooled(x, w, b):
    y = F.conv2d(x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), b, padding=1)
    return F.max_pool2d(F.relu(y), 2).permute(0, 2, 3, 1)


def documents(q, k, v, d):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=d[:, None, :, None] == d[:, None, None])


def covariance_of_rows(x):
    d = x - x.mean(0)
    return d.T @ d


def norm_of_i8(x, w, s, b, r, g, h):
    y = x.double() @ w.double().T if r.dtype == torch.float64 else torch._int_mm(x, w.T).to(F32)
    y = y * s + b + r
    return F.layer_norm(y, (y.shape[1],), g.to(y.dtype), h.to(y.dtype)).to(r.dtype)


# Groups as in rare.sg.
CASES = dict([
    case("dlrm", lambda z: z @ z.transpose(1, 2), (8192, 27, 27, 128)),
    case("tiny_batch", lambda a, b: a @ b, (10000, 16, 16, 16)),
    case("f32_batch", lambda a, b: a @ b, (2000, 32, 32, 32), rate=F32_RATE),
    case("f32_4096", lambda a, b: a @ b, (4096, 4096, 4096), rate=F32_RATE),
    case("outer_16", lambda x, w, b: F.relu(F.linear(x, w, b)), (8192, 8192, 16)),
    case("tall_gram", lambda x, y: wide_product(x.t(), y), (64, 64, 1048576)),
    case("covariance", covariance, (1024, 1024, 16384)),
    case("complex_mm", complex_product, (4, 2048, 2048, 2048)),
    case("three_ways", lambda x, w, u, v: F.silu(F.linear(x, w)) * F.linear(x, u) + F.linear(x, v), (3, 4096, 2048, 2048)),
    case("sliced_sum", two_halves, (2, 4096, 1024, 1024)),

    case("cdist", distances, (4096, 4096, 256)),
    case("rbf", rbf, (4096, 4096, 128), g=0.02),
    case("kmeans", nearest_center, (65536, 512, 256)),
    case("clip_loss", clip_loss, (4096, 4096, 512), x=0.05, y=0.05, t=14.3),
    case("clip_both", clip_both, (4096, 4096, 512), x=0.05, y=0.05, t=14.3),
    case("bilinear", lambda x, w, y: summed((x @ w) * y), (8192, 1024, 1024)),
    # of two tables of 100000 rows 48000 are chosen each
    case("embed_dot", lambda u, v, e, f: summed(F.embedding(u, e) * F.embedding(v, f)), u=100000, v=100000, moved=2 * 48000 * 256 + 12 * 65536),

    case("ce_backward", cross_entropy_backward, (4096, 2048, 32000), together=scored),
    case("softcap_lse", softcap_logsumexp, (2048, 32000, 2304)),
    case("entropy", entropy, (2048, 32000, 2048)),
    case("distill", distilled, (2048, 32000, 1024 + 2048)),
    case("greedy", most_likely, (16, 128256, 4096)),
    case("greedy_1024", most_likely, (1024, 32000, 2048)),
    case("bce", lambda x, w, t: F.binary_cross_entropy_with_logits(logits(x, w), at_least_f32(t)), (8192, 1000, 1024), t=unit),
    case("mse", squared_error, (8192, 2048, 2048)),

    case("requant_i8", requantized, (4096, 4096, 4096), rate=NARROW_RATE, b=whole(-100000, 100000), s=scales(2e-4)),
    case("w8a8_dynamic", int8_rows, (4096, 4096, 4096), rate=NARROW_RATE, t=scales(1e-3)),
    case("fp8_dynamic", fp8_rows, (4096, 4096, 4096), t=0.05),  # its floor is at the rate of fp8 for its name
    case("grad_e5m2", fp8_gradient, (4096, 4096, 4096), rate=NARROW_RATE, s=0.5, t=0.05),
    case("u8_out", uint8_out, (4096, 1024, 1024), s=scales(30), z=128.0),
    case("out_norm_quant", norm_quantized, (4096, 1024, 4096)),
    case("mx_blocks", mx_blocks, (4096, 4096, 4096), s=positive, t=scales(0.05)),
    case("mx_exponents", mx_exponents, (4096, 4096, 4096), s=whole(-8, 8), t=whole(-8, 8)),
    case("awq_decode", awq, (16, 11008, 4096), s=scales(0.007), z=whole(-8, 8)),
    case("awq_prefill", awq, (2048, 11008, 4096), s=scales(0.007), z=whole(-8, 8)),
    case("int4_one_row", lambda x, w, s: F.linear(x, in_groups(from_i4(w), s)), (1, 11008, 4096), s=scales(0.007)),
    case("int4_gate", lambda x, w, s, v, t: F.silu(F.linear(x, in_groups(from_i4(w), s))) * F.linear(x, in_groups(from_i4(v), t)),
         (8, 22016, 4096), s=scales(0.007), t=scales(0.007)),
    case("int8_rows", lambda x, w, s: F.linear(x, w.to(x.dtype)) * s, (8, 11008, 4096), s=scales(5e-4)),
    case("i8_groups", lambda x, w, s: F.linear(x, in_groups(w, s)), (16, 4096, 4096), s=scales(5e-4)),

    case("pruned", pruned, (2048, 4096, 4096)),
    case("pruned_decode", pruned, (16, 4096, 4096)),
    case("weight_norm", weight_norm, (4096, 2048, 2048)),
    case("lora_merged", lambda x, w, a, b: F.linear(x, torch.addmm(w, b, a)), (4096, 4096, 4096), (4096, 4096, 16), a=0.1, b=0.1),

    case("head_gate", lambda o, x, wg, wo, r: F.linear(o * torch.sigmoid(F.linear(x, wg)), wo) + r, (2, 4096, 4096, 2048)),
    case("fm_cross", lambda x, w, b: torch.addcmul(x, x, F.linear(x, w, b)), (8192, 1024, 1024)),
    case("ngram_mix", lambda p, w, q, r: torch.lerp(F.linear(p, w), r, torch.sigmoid(q).to(p.dtype)), (8192, 512, 512)),
    case("join", lambda x, w, v: torch.cat([F.linear(x, w), F.relu(F.linear(x, v))], 1), (4096, 2048, 2048)),
    case("glu_halves", halves, (4096, 11264, 2048)),
    case("glu_halves_decode", halves, (32, 28672, 4096)),
    case("unet_skip", lambda x, y, w, b: F.silu(F.linear(torch.cat([x, y], 1), w, b)), (16384, 640, 960)),
    case("value_head", lambda x, w, b: torch.tanh(at_least_f32(x @ w) + b), (8192, 1, 4096), b=0.1),
    case("critic", critic, (32768, 512, 256), (32768, 512, 512), (32768, 1, 512)),
    case("linear_groupnorm", lambda x, w, b, g, h: F.silu(F.group_norm(F.linear(x, w, b), 32, g, h)), (8192, 1024, 1024)),
    case("rms_two", lambda x, g, w, r, h: r + F.rms_norm(F.linear(F.rms_norm(x, g.shape, g, 1e-5), w), h.shape, h, 1e-5), (4096, 4096, 4096)),
    case("dropout_mlp", dropout, (8192, 4096, 1024), k=7),
    case("conv_block_1x1", conv_block, (32, 1024, 784, 256), m=0.1, v=positive),
    case("kv_proj", keys_values, (4096, 2048, 4096)),
    case("triangle_in", triangle_in, (2, 65536, 128, 128)),

    case("mlp_block", mlp_block, (3, 4096, 5632, 2048)),
    case("soft_moe", soft_experts, (2, 8, 4096, 2048, 1024), p=shares),
    case("dit_modulate", modulated, (8192, 3456, 1152)),
    case("dit_gate", lambda h, w, b, a, r: torch.addcmul(r, a, F.linear(h, w, b)), (8192, 1152, 4608)),
    case("mixer_tokens", mixed_tokens, (2, 128, 256, 512, 196)),
    case("excite", excited, (2, 64, 256, 64)),
    case("gru_cell", lambda x, h, w, u, b, d: torch.gru_cell(x, h, w, u, b, d), (2, 256, 1536, 512)),
    case("lstm_gates_i", lstm_gates, (2, 32, 4096, 1024)),

    case("column_softmax", lambda x, w: F.softmax(F.linear(x, w), 0), (8192, 64, 1024)),
    case("attention_pool", lambda x, v: F.softmax(x @ v, 1).transpose(1, 2) @ x, (2, 64, 1024, 768)),
    case("pool_project", lambda x, w, b: F.linear(x.mean(1), w, b), (64, 1000, 768)),
    case("pointnet", lambda x, w, b: F.relu(F.linear(x, w, b)).amax(1), (65536, 1024, 128)),

    case("t5_scores", lambda q, k, b: F.softmax(torch.baddbmm(b, q, k.transpose(1, 2)), -1), (64, 512, 512, 64)),
    case("linear_attention", linear_attention, (2, 64, 2048, 64, 64)),
    case("retention", retention, (2, 64, 256, 256, 128), d=decay),
    case("ssd_chunk", state_chunk, (256, 256, 256, 64), a=falling),  # both products, half of each masked
    case("newton_batch", newton_step, (3, 24, 768, 768, 768), x=0.018),

    case("sink_attention", with_sinks, (2 * 64, 2048, 2048, 64), q=1, k=1, v=1),  # both products, half of each masked
    case("dropped_attention", dropped, (2, 64, 1024, 1024, 64), q=1, k=1, v=1),
    case("fp8_attention", from_fp8, (2, 64, 2048, 2048, 128), a=0.5, b=0.5, c=0.5),
    case("latent_keys", latent_keys, (4096, 32768, 512)),
    case("sobel", sobel, x=1.0, w=1.0, u=1.0),

    case("int4_along_n", groups_along_n, (8, 11008, 4096), s=scales(0.007)),
    case("int8_along_n", lambda x, w, s: x @ w.to(x.dtype) * s, (8, 11008, 4096), s=scales(5e-4)),
    case("heads_summed", lambda x, w: torch.einsum("hmk,hkn->mn", x, w), (2048, 1024, 1024), w=0.06),
    case("category_sums", category_sums, a=256),
    case("stats_beside", stats_beside, (16384, 1024, 1024)),
    case("patches_last", patches_last, (12544, 768, 768)),
    case("lora_each", lora_each, (16, 4096, 4096), (16, 4096, 32), a=0.03, b=0.1, i=64),
    case("conv_pooled", conv_pooled, (16, 4096, 128, 1152), w=0.06),
    case("documents", documents, (64, 2048, 2048, 128), d=8),
    case("padded_keys", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m), (64, 2048, 2048, 128)),
    case("int4_64", lambda x, w, s: F.linear(x, in_groups(from_i4(w), s)), (64, 11008, 4096), s=scales(0.007)),
    case("int4_64_along_n", groups_along_n, (64, 11008, 4096), s=scales(0.007)),
    case("tall_covariance", covariance_of_rows, (64, 64, 262144), rate=F32_RATE),
    case("norm_of_i8", norm_of_i8, (8192, 1024, 1024), rate=NARROW_RATE, s=scales(1e-3)),
    case("table_of_16", from_table, (16, 4096, 4096), t=1.0, s=scales(0.03)),
    case("two_bits", from_quarters, (16, 4096, 4096), s=scales(0.03)),
    case("token_shift", shifted, (4096, 2048, 2048)),
    case("maxout", lambda x, w, b: F.linear(x, w, b).unflatten(1, (-1, 2)).amax(2), (4096, 4096, 1024)),
    case("field_pairs", field_pairs, (16384, 39, 39, 16)),
    case("retrieve", lambda x, c: (x @ c.T).max(1, keepdim=True), (64, 300000, 768)),
    case("nearest_f32", nearest_rows, (8192, 4096, 64), rate=F32_RATE),
    case("rows_times_vectors", lambda a, x: a @ x, (512, 512, 512)),
])
# Sums of many or of small terms in another order; what is made of something rounded to 16 bits on the way.
TOLERANCES = {
    "tall_gram": {"f32": 1e-3},
    "covariance": {"f32": 1e-3},
    "rbf": {"f32": 1e-4},
    "bilinear": {"f32": 1e-4},
    "entropy": {"f32": 1e-4},
    "distill": {"f32": 1e-4},
    "value_head": {"f32": 1e-4},
    "critic": {"f32": 1e-2},
    "out_norm_quant": {"f32": 5e-3},
    "lstm_gates_i": {"f32": 5e-3},
    "category_sums": {"f32": 1e-4},
    "tall_covariance": {"f32": 1e-3},
    "stats_beside": {"f32": 1e-3},
}
