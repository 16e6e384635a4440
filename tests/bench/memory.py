"""Inputs and peers of each graph of memory.sg, in the form that cases.py describes. Nothing of them is worth a FLOP: their floor is what they
move."""
import torch
import torch.nn.functional as F

from cases import BF, E4, at_least_f32, positive, quantized_blocks, rand
from rare import declared, made, scales, size

DECLARED = declared(__file__)


def case(name, peer, together=None, moved=None, **values):
    """(name, its case). `values` are those that made() takes; `moved` what is moved where that is not all of the tensors."""
    inputs, outputs = DECLARED[name]
    return name, (together or (lambda: [made(*tensor, values.get(tensor[0])) for tensor in inputs]), peer, 0.0, moved or size(inputs + outputs))


# ---- what inputs are made with

def deviations(*shape):
    return positive(*shape) + 0.5


def with_statistics(rows, columns):
    """What comes back, what went in, factors, and the mean and the inverse deviation of each row."""
    x = rand(rows, columns)
    return [rand(rows, columns), x, rand(columns), x.float().mean(1, keepdim=True), torch.rsqrt(x.float().var(1, keepdim=True, correction=0) + 1e-5)]


# ---- peers: each takes float64, too, for the reference

def norm(x, g, b=None):
    return F.layer_norm(x, g.shape, g, b, 1e-5)


def norm_train(x, g, b):
    return torch.ops.aten.native_layer_norm(x, g.shape, g, b, 1e-5)


def norm_back(dy, x, g, m, r):
    dx, dg, db = torch.ops.aten.native_layer_norm_backward(dy, x, g.shape, m.to(at_least_f32(x).dtype), r.to(at_least_f32(x).dtype), g, g,
                                                           [True, True, True])
    return dx, dg, db


def rmsnorm_back(dy, x, g):
    x_, d = at_least_f32(x), at_least_f32(dy)
    r = torch.rsqrt(x_.square().mean(1, keepdim=True) + 1e-5)
    n, e = x_ * r, d * g
    return ((e - n * (e * n).mean(1, keepdim=True)) * r).to(x.dtype), (d * n).sum(0)


def added_norm(x, r, g):
    s = x + r
    return s, F.rms_norm(s, g.shape, g, 1e-5)


def modulated(x, s, t):
    return torch.addcmul(t, F.layer_norm(x, x.shape[-1:], eps=1e-5), 1 + s)


def masked_softmax(x, m):
    return F.softmax(torch.where(m, x * 0.125, -torch.inf), -1)


def causal_softmax(x):
    seen = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).tril()
    return F.softmax(torch.where(seen, x, -torch.inf), -1)


def unit_rows(x):
    y = at_least_f32(x)
    return (y * torch.rsqrt(y.square().sum(1, keepdim=True).clamp_min(1e-12))).to(x.dtype)


def int8_of(x, over):
    y = at_least_f32(x)
    s = (y.abs().amax(over, keepdim=True) / 127).clamp_min(1e-12)
    return (y / s).round().to(torch.int8), s


def swiglu_blocks(x):
    return quantized_blocks(gated(at_least_f32(x)))


def rms(x, g):
    y = at_least_f32(x)
    return y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5) * g


def added_norm_blocks(x, r, g):
    h = x + r
    return h, *quantized_blocks(rms(h, g))


def with_largest(y, s, like):
    q = y / s
    return q if like.dtype == torch.float64 else q.to(E4), y.abs().amax()


def both_ways(x, s):
    q = at_least_f32(x) / s
    q = q if x.dtype == torch.float64 else q.to(E4)
    return q, q.t().contiguous()


def both_ways_largest(x, s):
    return *both_ways(x, s), at_least_f32(x).abs().amax()


def gelu_back_both_ways(dy, x, s):
    d = torch.ops.aten.gelu_backward(at_least_f32(dy), at_least_f32(x), approximate="tanh")
    return *both_ways(d, s), d.abs().amax(), d.sum(0)


def turned_short_blocks(x):
    h = at_least_f32(x).t().unflatten(-1, (-1, 32))
    s = h.abs().amax(-1, keepdim=True) / 448
    q = (h / s).flatten(-2)
    return (q if h.dtype == torch.float64 else q.to(E4)).contiguous(), s.squeeze(-1)


def dequantized_turned(q, s):
    is_exact = s.dtype == torch.float64
    w = (q.to(s.dtype).unflatten(1, (-1, 128)) * s.unsqueeze(2)).flatten(1)
    return w.t().to(s.dtype if is_exact else BF).contiguous()


def added_over_channels(x, r, g, b):
    s = x + r
    return s, over_channels(s, g, b)


def rows_and_columns(x):
    return *quantized_blocks(x), *turned_blocks(x)


def turned_blocks(x):
    q, s = quantized_blocks(x.t())
    return q.contiguous(), s


def gated(x):
    a, u = x.chunk(2, 1)
    return F.silu(a) * u


def largest(x):
    return F.softmax(x, -1).topk(8, -1)


def cross_entropy(x, t):
    return F.cross_entropy(at_least_f32(x), t.long())


def cross_entropy_gradient(x, t):
    y = at_least_f32(x)
    l = F.cross_entropy(y, t.long(), reduction="none")
    return l, ((F.softmax(y, -1) - F.one_hot(t.long(), x.shape[1])) * 0.000122).to(x.dtype)


def divergence(x, y):
    s, t = F.log_softmax(at_least_f32(x), -1), F.log_softmax(at_least_f32(y), -1)
    return F.kl_div(s, t, reduction="none", log_target=True).sum(1, keepdim=True)


def dropped_norm(x, r, m, g, b):
    s = torch.where(m, x * 1.25, 0.0) + r
    return s, norm(s, g, b)


def embedded(t, p, w, v, g, b):
    return norm(F.embedding(t, w) + F.embedding(p, v), g, b)


def softmax_back(dy, y):
    d, z = at_least_f32(dy), at_least_f32(y)
    return (z * (d - (d * z).sum(1, keepdim=True))).to(y.dtype)


def gelu_back(dy, x):
    dx = torch.ops.aten.gelu_backward(at_least_f32(dy), at_least_f32(x), approximate="tanh")
    return dx.to(x.dtype), dx.sum(0)


def swiglu_back(dy, a, u):
    dy_, a_ = at_least_f32(dy), at_least_f32(a)
    return torch.ops.aten.silu_backward(dy_ * u, a_).to(a.dtype), (dy_ * F.silu(a_)).to(a.dtype)


def normalized_back(dy, x, g, m, r, inner, outer):
    """What comes back through a norm whose statistics, m and r, are those over the axes `inner`; g's gradients are summed over `outer`."""
    d, n = at_least_f32(dy), (x - m) * r
    e = d * g
    dx = (e - e.mean(inner, keepdim=True) - n * (e * n).mean(inner, keepdim=True)) * r
    return dx.to(x.dtype), (d * n).sum(outer), d.sum(outer)


def clipped(x, c):
    return x * (c * torch.rsqrt(x.square().sum())).clamp_max(1.0)


def quantized(x):
    y = at_least_f32(x)
    s = y.abs().amax(keepdim=True) / 448
    q = y / s.reshape(1, 1)
    return q if x.dtype == torch.float64 else q.to(E4), s.reshape(1, 1)


def normalized(x, over, eps=1e-5):
    y = at_least_f32(x)
    d = y - y.mean(over, keepdim=True)
    v = d.square().mean(over, keepdim=True)
    return d * torch.rsqrt(v + eps), y - d, v


def batch_norm(x, g, b):
    m, v = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), keepdim=True, correction=0)
    return F.relu(F.batch_norm(x, None, None, g.to(x.dtype), b.to(x.dtype), training=True)), m, v


def batch_norm_train(x, g, b, m, v):
    t, (m, v) = x.transpose(1, 2), (t.to(at_least_f32(x).dtype, copy=True) for t in (m, v))
    y, mu, r = torch.native_batch_norm(t, g, b, m, v, True, 0.1, 1e-5)
    return y.transpose(1, 2), mu, r, m, v


def group_norm_last(x, g, b):
    return F.silu(F.group_norm(x.permute(0, 3, 1, 2), 32, g, b)).permute(0, 2, 3, 1)


def group_norm(x, g, b):
    return F.silu(F.group_norm(x.view(8, 320, 64, 64), 32, g.flatten(), b.flatten())).view(x.shape)


def group_norm_relu(x, g, b):
    n, c = x.shape[0], x.shape[1] * x.shape[2]
    return F.relu(F.group_norm(x.view(n, c, 7, 7), x.shape[1], g.flatten().to(x.dtype), b.flatten().to(x.dtype))).view(x.shape)


def over_channels(x, g, b):
    return torch.addcmul(b, normalized(x, 1, 1e-6)[0].to(x.dtype), g)


def batch_norm_add(x, m, v, g, b, r):
    y = (at_least_f32(x) - m) * (torch.rsqrt(v + 1e-5) * g) + b
    return F.relu(y + r).to(x.dtype)


def windows(x):
    return x.view(32, 8, 8, 8, 8, 192).transpose(2, 3).reshape(2048, 64, 192)


def upsampled(x, s):
    return torch.cat([x.repeat_interleave(2, 1).repeat_interleave(2, 2), s], 3)


def turned_halves(x, c, s):
    y = at_least_f32(x)
    a, b = y.chunk(2, -1)
    return torch.cat([a * c - b * s, b * c + a * s], -1).to(x.dtype)


def turned_neighbours(x, c, s):
    y = at_least_f32(x).unflatten(-1, (-1, 2))
    a, b = y.unbind(-1)
    return torch.stack([a * c - b * s, b * c + a * s], -1).flatten(-2).to(x.dtype).transpose(1, 2).contiguous()


def adamw(p, m, v, g, l):
    m2 = m * 0.9 + g * 0.1
    v2 = v * 0.95 + at_least_f32(g).square() * 0.05
    p2 = p * (1 - l * 0.1) - l * (m2 / (v2.sqrt() + 1e-8))
    return p2, m2, v2, p2.to(g.dtype)


def largest_of_all(x):
    return at_least_f32(x.abs().amax())


# Groups as in memory.sg.
CASES = dict([
    case("layernorm_768", norm),
    case("layernorm_few", norm),
    case("layernorm_odd", norm),
    case("layernorm_f32", norm),
    case("layernorm_train", norm_train),
    case("rmsnorm_heads", lambda x, g: F.rms_norm(x, g.shape, g, 1e-5)),
    case("rmsnorm_f16_5120", added_norm),
    case("rmsnorm_decode", added_norm),
    case("adaptive_norm", modulated),
    case("softmax_128", lambda x: F.softmax(x, -1)),
    case("softmax_f32_1000", lambda x: F.softmax(x, -1)),
    case("softmax_masked", masked_softmax),
    case("softmax_causal", causal_softmax),
    case("log_softmax_50257", lambda x: F.log_softmax(x, -1)),
    case("unit_rows", unit_rows),
    case("quantize_int8", lambda x: int8_of(x, 1)),
    case("quantize_blocks", quantized_blocks),
    case("swiglu_quantize", swiglu_blocks),
    case("norm_quantize_blocks", lambda x, g: quantized_blocks(rms(x, g))),
    case("sum_norm_quantize_blocks", added_norm_blocks),
    case("quantize_amax", lambda x, s: with_largest(at_least_f32(x), s, x), s=0.01),
    case("norm_quantize_amax", lambda x, g, s: with_largest(rms(x, g), s, x), s=0.01),
    case("cast_both_ways", both_ways, s=0.01),
    case("cast_both_ways_amax", both_ways_largest, s=0.01),
    case("gelu_back_both_ways", gelu_back_both_ways, s=0.01),
    case("topk_8", largest),
    case("argmax_32000", lambda x: x.argmax(1), x=scales(4)),
    case("ce_loss", cross_entropy, t=32000),
    case("ce_gradient", cross_entropy_gradient, t=32000),
    case("kl_rows", divergence),
    case("dropout_add_norm", dropped_norm),
    case("embed_norm", embedded, t=30522, p=512, moved=2 * 32768 * 768 + 2 * 30522 * 768 + 8 * 32768),

    case("layernorm_back", norm_back, together=lambda: with_statistics(16384, 4096)),
    case("layernorm_back_768", norm_back, together=lambda: with_statistics(65536, 768)),
    case("rmsnorm_back", rmsnorm_back),
    case("softmax_back", softmax_back),
    case("gelu_back_bias", gelu_back),
    case("swiglu_back", swiglu_back),
    case("batchnorm_back", lambda dy, x, g, m, r: normalized_back(dy, x, g, m, r, (0, 1), (0, 1)), m=0.1, r=deviations),
    case("groupnorm_back", lambda dy, x, g, m, r: normalized_back(dy, x, g, m, r, (1, 3), (0, 1)), m=0.1, r=deviations),

    case("sum_all", lambda x: at_least_f32(x).sum()),
    case("amax_all", largest_of_all),
    case("clip_norm", clipped, c=100.0, moved=2 * 4 * 8192 * 4096),
    case("quantize_tensor", quantized),
    case("mse_all", lambda x, y: (at_least_f32(x) - y).square().mean()),
    case("colsum_odd", lambda x: at_least_f32(x).sum(0)),
    case("column_scale", lambda x: int8_of(x, 0)),
    case("mean_tokens", lambda x: x.mean(1)),
    case("max_middle", lambda x: x.amax(1)),
    case("global_pool", lambda x: x.mean((2, 3))),
    case("batchnorm_nchw", batch_norm),
    case("instancenorm_nchw", lambda x: F.instance_norm(x)),
    case("groupnorm_nchw", group_norm),
    case("layernorm_channels", over_channels),
    case("layernorm_channels_added", added_over_channels),
    case("batchnorm_relu_add", batch_norm_add, v=positive),

    case("batchnorm_train", batch_norm_train, v=positive),
    case("instancenorm_nhwc", lambda x: F.relu(normalized(x, 1)[0]).to(x.dtype)),
    case("softmax_middle", lambda x: F.softmax(x, 1)),
    case("groupnorm_last", group_norm_last),

    case("transpose_bf16", lambda x: x.t().contiguous()),
    case("transpose_f32_odd", lambda x: x.t().contiguous()),
    case("heads_apart", lambda x: x.transpose(1, 2).contiguous()),
    case("keys_turned", lambda x: x.permute(0, 2, 3, 1).contiguous()),
    case("nhwc_nchw_bias", lambda x, b: at_least_f32(F.relu(x.permute(0, 3, 1, 2) + b)).contiguous()),
    case("quantize_turned", both_ways, s=0.01),
    case("quantize_columns", turned_blocks),
    case("quantize_columns_32", turned_short_blocks),
    case("quantize_rows_and_columns", rows_and_columns),
    case("softmax_turned", lambda x: F.softmax(x.t() * 0.5, -1).contiguous()),
    case("softmax_both_ways", lambda x: (y := F.softmax(x, -1), y.transpose(1, 2).contiguous())),
    case("layernorm_turned", lambda x, g, b: F.layer_norm(x, (1024,), g, b, 1e-5).t().contiguous()),
    case("layernorm_channels_last", lambda x, g, b: F.layer_norm(x.permute(0, 2, 3, 1), (384,), g, b, 1e-5).contiguous()),
    case("rmsnorm_keys", lambda x, g: rms(x, g).to(x.dtype).permute(0, 2, 3, 1).contiguous()),
    case("dequantize_turned", dequantized_turned),
    case("concat_three", lambda x, y, z: torch.cat([x, y, z], 1)),
    case("pixel_shuffle", lambda x: x.permute(0, 1, 4, 2, 5, 3).reshape(16, 64, 256, 256)),
    case("windows_8", windows),
    case("padded", lambda x: F.pad(x, (0, 0, 1, 1, 1, 1))),
    case("upsample_concat", upsampled),
    case("embedding_4096", lambda t, w: F.embedding(t, w), t=32000, moved=4 * 16384 * 4096),
    case("rope_heads", turned_halves),
    case("rope_turned", turned_neighbours),
    case("max_pool_nchw", lambda x: F.max_pool2d(x, 2)),

    case("swiglu_halves", gated),
    case("adamw", adamw, v=positive, l=0.01),
    case("bias_gelu_dropout", lambda x, b, m: torch.where(m, F.gelu(x + b) * 1.1111, 0.0)),
    case("broadcast_sum", lambda x, y: torch.tanh(x + y)),
    case("small_add", lambda x, y: x + y),
    case("cast_f32", lambda x: x if x.dtype == torch.float64 else x.to(BF)),

    case("softmax_197", lambda x, t: F.softmax(x * 0.125 + t, -1)),
    case("softmax_49", lambda x, t: F.softmax(x + t, -1)),
    case("ce_loss_50257", cross_entropy, t=50257),
    case("ce_gradient_50257", cross_entropy_gradient, t=50257),
    case("softmax_f32_32001", lambda x: F.softmax(x, -1)),
    case("argmax_51865", lambda x: x.argmax(1), x=scales(4)),
    case("rmsnorm_1001", added_norm),
    case("bias_50257", lambda x, b: x + b),
    case("masked_501", lambda x, m: torch.where(m, x * 0.125, -30000.0)),
    case("channels_49", lambda x, s, t, r: F.relu(x * s + t + r).to(x.dtype)),
    case("groupnorm_49", group_norm_relu),
    case("sliced_50257", lambda x: at_least_f32(x[:, :50257])),
    case("padded_50257", lambda x: F.pad(x, (0, 47))),
])
# Sums in another order; quotients that round to the neighbour; PyTorch's sums are rounded to 16 bits.
TOLERANCES = {
    "sum_norm_quantize_blocks": {"f32": 5e-3},  # scales of sums that are rounded, where the peer's are not
    "kl_rows": {"f32": 1e-4},
    "gelu_back_bias": {"f32": 5e-3},  # of what is rounded, where the peer's is not
    "gelu_back_both_ways": {"f32": 1e-4},
    "layernorm_back": {"f32": 1e-4},
    "layernorm_back_768": {"f32": 1e-4},
    "rmsnorm_back": {"f32": 1e-4},
    "batchnorm_back": {"f32": 1e-4},
    "groupnorm_back": {"f32": 1e-4},
    "batchnorm_nchw": {"f32": 1e-4},
}
