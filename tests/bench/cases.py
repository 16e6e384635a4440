"""Inputs and peers of each graph of suite.sg. A case is (inputs, peer, flops, bytes): `inputs` makes the tensors in the order of the
graph's parameters, `peer` is what a PyTorch user writes for it, `flops` and `bytes` are the least that any kernel must do and move."""
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BF, F32, E4 = torch.bfloat16, torch.float32, torch.float8_e4m3fn


def spent(call, repetitions=4):
    """The least milliseconds of some calls: which of several peers is the quickest."""
    times = []
    for _ in range(repetitions):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return min(times)


def rand(*shape, dtype=BF, scale=0.5):
    return (torch.randn(*shape, device="cuda", dtype=F32) * scale).to(dtype)


def fp8(*shape):
    return rand(*shape, scale=1.0).to(E4)


def i8(*shape):
    return torch.randint(-100, 101, shape, device="cuda", dtype=torch.int8)


def i4(rows, columns):
    """Two elements a byte, the first in its lower half."""
    return torch.randint(0, 256, (rows, columns // 2), device="cuda", dtype=torch.uint8)


def from_i4(w):
    q = torch.stack([w & 15, w >> 4], -1).flatten(1).to(torch.int8)
    return torch.where(q > 7, q - 16, q)


def scaled_i4(w, s):
    """4-bit weights times a factor for each group of a row."""
    groups = from_i4(w).to(s.dtype).unflatten(1, (s.shape[1], -1))
    return (groups * s[:, :, None]).flatten(1)


def at_least_f32(x):
    """What sums and scales are kept in: f32, or f64 for the reference."""
    return x.to(torch.promote_types(x.dtype, F32))


def quantized_blocks(h):
    """In e4m3, unrounded for the reference, with a scale for each 128 of a row."""
    h = at_least_f32(h).unflatten(-1, (-1, 128))
    s = h.abs().amax(-1, keepdim=True) / 448
    q = (h / s).flatten(-2)
    return q if h.dtype == torch.float64 else q.to(E4), s.squeeze(-1)


def scalar(value):
    return torch.tensor(value, device="cuda", dtype=F32)


def linear(m, n, k, peer, *extra):
    shapes = [(m, k), (n, k), *extra]
    return (lambda: [rand(*s) for s in shapes], peer, 2.0 * m * n * k,
            2 * (m * k + n * k + m * n) + sum(2 * torch.Size(s).numel() for s in extra))


def gelu(x):
    return F.gelu(x, approximate="tanh")


def norm_with_residual(x, w, r, g):
    s = F.linear(x, w) + r
    return s, F.rms_norm(s, (s.shape[-1],), g, 1e-5)


def layernorm_with_residual(x, w, b, r, g, h):
    s = F.linear(x, w, b) + r
    return s, F.layer_norm(s, (s.shape[-1],), g, h, 1e-5)


def group_norm_silu(x, g, b):
    y = x.float()
    mu = y.mean((1, 3), keepdim=True)
    d = y - mu
    return F.silu(d * torch.rsqrt((d * d).mean((1, 3), keepdim=True) + 1e-5) * g + b).to(BF)


def add_norm_quant(x, r, g, q):
    s = x + r
    return s, (F.rms_norm(s, (s.shape[-1],), g, 1e-5).float() * q).clamp(-448, 448).to(E4)


def swiglu(x, wg, wu):
    return F.silu(F.linear(x, wg)) * F.linear(x, wu)


def two_layers(x, w1, b1, w2, b2):
    return F.relu(F.linear(F.relu(F.linear(x, w1, b1)), w2, b2))


def attention(batch, heads, queries, keys, depth, bias=False, key_heads=None, causal=False):
    key_heads = key_heads or heads
    shapes = [(batch, heads, queries, depth)] + 2 * [(batch, key_heads, keys, depth)] + bias * [(heads, queries, keys)]

    def peer(q, k, v, b=None):
        """cuDNN's where it takes the case, else flash attention; head by head in float64, whose scores would fill memory."""
        options = {"is_causal": causal, "enable_gqa": key_heads != heads}
        if q.dtype == torch.float64:
            k, v = (t.repeat_interleave(heads // key_heads, 1) for t in (k, v))
            return torch.stack([torch.stack([F.scaled_dot_product_attention(q[i, j], k[i, j], v[i, j], None if b is None else b[j], is_causal=causal)
                                             for j in range(heads)]) for i in range(batch)])
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH],
                         set_priority=True):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=b, **options)

    return (lambda: [rand(*s) for s in shapes], peer, 4.0 * batch * heads * queries * keys * depth * (0.5 if causal else 1),
            2 * (2 * batch * (heads * queries + key_heads * keys) * depth + bias * heads * queries * keys))


def attention_train(batch, heads, length, depth):
    """Causal attention that keeps the logarithms of its rows' sums, as training does: cuDNN's, which gives them too."""

    def peer(q, k, v):
        if q.dtype == torch.float64:  # the reference, a head at a time
            seen = torch.ones(length, length, dtype=torch.bool, device=q.device).tril()
            scores = [[(q[i, j] @ k[i, j].T * depth ** -0.5).masked_fill(~seen, -torch.inf) for j in range(heads)] for i in range(batch)]
            return (torch.stack([torch.stack([scores[i][j].softmax(-1) @ v[i, j] for j in range(heads)]) for i in range(batch)]),
                    torch.stack([torch.stack([scores[i][j].logsumexp(-1, keepdim=True) for j in range(heads)]) for i in range(batch)]))
        out, sums, *_ = torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, True, False)
        return out, sums.reshape(batch, heads, length, 1)

    return (lambda: [rand(batch, heads, length, depth) for _ in range(3)], peer, 2.0 * batch * heads * length * length * depth,
            2 * 4 * batch * heads * length * depth)


def batch_norm_relu(x, g, b):
    return F.relu(F.batch_norm(x, None, None, g, b, True, 0.1, 1e-5))


def cross_entropy(x, t):
    return F.cross_entropy(x.float(), t.long(), reduction="none").unsqueeze(1)


def linear_cross_entropy(x, w, t):
    return F.cross_entropy(F.linear(x, w).float(), t.long(), reduction="none")


def dgelu_dbias(dy, w, h):
    dx = torch.ops.aten.gelu_backward(F.linear(dy, w), h, approximate="tanh")
    return dx, dx.sum(0)


def scaled_mm(x, w, sx, sw):
    return torch._scaled_mm(x, w.t(), scale_a=sx, scale_b=sw, out_dtype=BF, use_fast_accum=True)


def tables(rows, width):
    """cos and sin of a rotary embedding, repeated to the width of a head where it is asked for whole."""
    angle = torch.arange(rows, device="cuda", dtype=F32)[:, None] * 10000.0 ** (-torch.arange(64, device="cuda", dtype=F32) / 64)
    angle = torch.cat([angle] * (width // 64), 1)
    return [torch.cos(angle).contiguous(), torch.sin(angle).contiguous()]


def rotate_halves(x, c, s):
    a, b = x.chunk(2, -1)
    return torch.cat([a * c - b * s, b * c + a * s], -1)


def qkv_rope(x, w, c, s):
    h = F.linear(x, w)
    r = rotate_halves(h[:, :5120].view(-1, 40, 128), c[:, None], s[:, None])
    return torch.cat([r.reshape(-1, 5120).to(h.dtype), h[:, 5120:]], 1)


def qkv_rope_split(x, w, c, s):
    h = F.linear(x, w)
    q, k = h[:, :4096].view(-1, 32, 128), h[:, 4096:5120].view(-1, 8, 128)
    turned = [torch.cat([-t[..., 64:], t[..., :64]], -1) for t in (q, k)]
    q, k = ((t * c[:, None] + u * s[:, None]).to(h.dtype) for t, u in zip((q, k), turned))
    return q, k, h[:, 5120:].reshape(-1, 8, 128)


def q_norm_rope(x, w, g, c, s):
    q = F.rms_norm(F.linear(x, w).view(-1, 32, 128), (128,), g, 1e-5)
    return rotate_halves(q, c[:, None], s[:, None]).to(x.dtype)


def spread(scale, like):
    """A scale a block, for each element."""
    return scale.repeat_interleave(like.shape[0] // scale.shape[0], 0).repeat_interleave(like.shape[1] // scale.shape[1], 1)


def scaled_rows(x, w, sx, sw):
    if x.dtype == torch.float64:
        return (x * sx) @ (w * sw).t()
    return torch._scaled_mm(x, w.t(), scale_a=sx, scale_b=sw.t(), out_dtype=BF)


def scaled_blocks(x, w, sx, sw):
    if x.dtype == torch.float64:
        sx = sx if sx.shape[0] == x.shape[0] else sx.t()
        return (x * spread(sx, x)) @ (w * spread(sw, w)).t()
    return torch._scaled_mm(x, w.t(), scale_a=sx if sx.shape[0] == x.shape[0] else sx.t(), scale_b=sw.t(), out_dtype=BF)


def scaled_block_rows(x, w, sx, sw):
    return scaled_blocks(x, w, sx.t().contiguous(), sw)


def gelu_quant(x, w, sx, sw, so):
    if x.dtype == torch.float64:
        y = gelu((x @ w.t()) * (sx * sw))
        return (y / so).clamp(-448, 448), y.abs().amax().reshape(1, 1)
    y = gelu(scaled_mm(x, w, sx, sw).float())
    return (y / so).clamp(-448, 448).to(E4), y.abs().amax().reshape(1, 1)


def positive(*shape):
    return torch.rand(shape, device="cuda", dtype=F32) + 0.5


def router(x, w):
    return F.softmax(F.linear(x, w), -1).float().topk(8, -1)


def router_biased(x, w, b):
    p = F.linear(x, w).sigmoid().float()
    i = (p + b).topk(8, -1).indices
    t = p.gather(1, i)
    return t / (t.sum(-1, keepdim=True) + 1e-20) * 2.5, i


def rows(*shape, extra=(), out=2):
    n = torch.Size(shape).numel()
    return n * 2 + n * out + sum(extra)


CASES = {
    "mm_8192": linear(8192, 8192, 8192, F.linear),
    "mm_4096": linear(4096, 4096, 4096, F.linear),
    "mm_nn_4096": linear(4096, 4096, 4096, lambda x, w: x @ w),
    "mm_tn_4096": linear(4096, 4096, 4096, lambda x, w: x.t() @ w),
    "mm_bias_gelu_gpt_up": linear(8192, 16384, 4096, lambda x, w, b: gelu(F.linear(x, w, b)), (16384,)),
    "mm_bias_res_gpt_down": linear(8192, 4096, 16384, lambda x, w, b, r: F.linear(x, w, b) + r, (4096,), (8192, 4096)),
    "mm_bias_gelu_bert": linear(512, 3072, 768, lambda x, w, b: gelu(F.linear(x, w, b)), (3072,)),
    "mm_silu_mul_llama": linear(4096, 14336, 4096, lambda x, w, g: F.silu(F.linear(x, w)) * g, (4096, 14336)),
    "swiglu_dual_llama": (lambda: [rand(4096, 4096), rand(14336, 4096), rand(14336, 4096)], swiglu,
                          4.0 * 4096 * 4096 * 14336, 2 * (4096 * 4096 + 3 * 14336 * 4096)),
    "swiglu_70b_tp8": (lambda: [rand(8192, 8192), rand(3584, 8192), rand(3584, 8192)], swiglu,
                       4.0 * 8192 * 8192 * 3584, 2 * (8192 * 8192 + 3 * 3584 * 8192)),
    "mm_decode16_bias_gelu": linear(16, 14336, 4096, lambda x, w, b: gelu(F.linear(x, w, b)), (14336,)),
    "mm_decode64_down": linear(64, 4096, 14336, lambda x, w, r: F.linear(x, w) + r, (64, 4096)),
    "gemv_70b": linear(1, 28672, 8192, lambda x, w, u: F.silu(F.linear(x, w)) * u, (1, 28672)),
    "mm_odd": (lambda: [rand(1000, 1001), rand(1001, 1000), rand(1000)], lambda a, b, c: F.relu(a @ b + c),
               2.0 * 1000 * 1000 * 1001, 6.01e6),
    "bmm_64x1024": (lambda: [rand(64, 1024, 128), rand(64, 1024, 128)], lambda a, b: a @ b.transpose(1, 2),
                    2.0 * 64 * 1024 * 1024 * 128, 2 * 64 * (2 * 1024 * 128 + 1024 * 1024)),
    "fp8_tensor_scale": (lambda: [fp8(4096, 16384), fp8(7168, 16384), scalar(0.5), scalar(0.25)], scaled_mm,
                         2.0 * 4096 * 7168 * 16384, 4096 * 16384 + 7168 * 16384 + 2 * 4096 * 7168),
    "b2b_mlp": (lambda: [rand(65536, 512), rand(256, 512), rand(256), rand(128, 256), rand(128)], two_layers,
                2.0 * 65536 * (512 * 256 + 256 * 128), 2 * (65536 * (512 + 128) + 512 * 256 + 256 * 128)),
    "ffn_decode128": (lambda: [rand(128, 4096), rand(14336, 4096), rand(14336, 4096), rand(4096, 14336)],
                      lambda x, wg, wu, wd: F.linear(swiglu(x, wg, wu), wd), 6.0 * 128 * 4096 * 14336,
                      2 * (2 * 128 * 4096 + 3 * 14336 * 4096)),
    "vit_l_attn": attention(32, 16, 257, 257, 64),
    "sdxl_cross": attention(8, 10, 4096, 77, 64),
    "sdpa_fwd_d128_full_4k": attention(4, 32, 4096, 4096, 128),
    "sdpa_fwd_d128_causal_8k": attention(2, 32, 8192, 8192, 128, causal=True),
    "sdpa_fwd_d64_causal_4k": attention(4, 32, 4096, 4096, 64, causal=True),
    "sdpa_fwd_gqa_d128_causal_4k": attention(4, 32, 4096, 4096, 128, key_heads=8, causal=True),
    "swin_windows": attention(4096, 3, 49, 49, 32, bias=True),
    "qkv_rope_8b": (lambda: [rand(4096, 4096), rand(6144, 4096), *tables(4096, 64)], qkv_rope, 2.0 * 4096 * 6144 * 4096,
                    2 * (4096 * 4096 + 6144 * 4096 + 4096 * 6144) + 8 * 4096 * 64),
    "qkv_rope_split_8b": (lambda: [rand(4096, 4096), rand(6144, 4096), *tables(4096, 128)], qkv_rope_split,
                          2.0 * 4096 * 6144 * 4096, 2 * (4096 * 4096 + 6144 * 4096 + 4096 * 6144) + 8 * 4096 * 128),
    "q_norm_rope_8b": (lambda: [rand(4096, 4096), rand(4096, 4096), rand(128), *tables(4096, 64)], q_norm_rope,
                       2.0 * 4096 * 4096 * 4096, 2 * 3 * 4096 * 4096 + 8 * 4096 * 64),
    "mm_decode64_batch": (lambda: [rand(64, 1, 4096), rand(4096, 4096)], F.linear, 2.0 * 64 * 4096 * 4096,
                          2 * (2 * 64 * 4096 + 4096 * 4096)),
    "vit_mlp_up": (lambda: [rand(64, 197, 1024), rand(4096, 1024), rand(4096)], lambda x, w, b: gelu(F.linear(x, w, b)),
                   2.0 * 12608 * 4096 * 1024, 2 * (12608 * 1024 + 4096 * 1024 + 12608 * 4096)),
    "fp8_row_scale": (lambda: [fp8(4096, 16384), fp8(7168, 16384), positive(4096, 1), positive(7168, 1)], scaled_rows,
                      2.0 * 4096 * 7168 * 16384, 4096 * 16384 + 7168 * 16384 + 2 * 4096 * 7168),
    "fp8_block": (lambda: [fp8(4096, 16384), fp8(7168, 16384), positive(128, 4096), positive(56, 128)], scaled_blocks,
                  2.0 * 4096 * 7168 * 16384, 4096 * 16384 + 7168 * 16384 + 2 * 4096 * 7168),
    "fp8_block_rows": (lambda: [fp8(4096, 16384), fp8(7168, 16384), positive(4096, 128), positive(56, 128)], scaled_block_rows,
                       2.0 * 4096 * 7168 * 16384, 4096 * 16384 + 7168 * 16384 + 2 * 4096 * 7168),
    "fp8_gelu_quant": (lambda: [fp8(8192, 4096), fp8(16384, 4096), scalar(0.02), scalar(0.02), scalar(0.01)], gelu_quant,
                       2.0 * 8192 * 16384 * 4096, 8192 * 4096 + 16384 * 4096 + 8192 * 16384),
    "router_topk": (lambda: [rand(8192, 7168), rand(256, 7168, scale=0.02)], router, 2.0 * 8192 * 256 * 7168,
                    2 * (8192 * 7168 + 256 * 7168) + 12 * 8192 * 8),
    "router_topk_biased": (lambda: [rand(8192, 7168), rand(256, 7168, scale=0.02), rand(256, dtype=F32, scale=0.1)],
                           router_biased, 2.0 * 8192 * 256 * 7168, 2 * (8192 * 7168 + 256 * 7168) + 12 * 8192 * 8),
    "mm_res_rmsnorm_4096": linear(8192, 4096, 4096, norm_with_residual, (8192, 4096), (4096,)),
    "mm_res_layernorm_1024": linear(8192, 1024, 4096, layernorm_with_residual, (1024,), (8192, 1024), (1024,), (1024,)),
    "mm_softmax_n1024": linear(8192, 1024, 1024, lambda x, w: F.softmax(F.linear(x, w), -1)),
    "rmsnorm_mm_prologue": (lambda: [rand(8192, 4096), rand(4096), rand(4096, 4096)],
                            lambda x, g, w: F.linear(F.rms_norm(x, (4096,), g, 1e-5), w), 2.0 * 8192 * 4096 * 4096, 168e6),
    "dgelu_dbias": linear(8192, 16384, 4096, dgelu_dbias, (8192, 16384)),
    "lmhead_ce": (lambda: [rand(4096, 4096), rand(128256, 4096, scale=0.05),
                           torch.randint(0, 128256, (4096,), device="cuda", dtype=torch.int32)],
                  linear_cross_entropy, 2.0 * 4096 * 4096 * 128256, 2 * (4096 * 4096 + 128256 * 4096)),
    "pointwise_chain_64m": (lambda: [rand(16384, 4096), rand(4096), rand(16384, 4096)], lambda x, b, r: gelu(x + b) + r, 0,
                            rows(16384, 4096, extra=[2 * 16384 * 4096])),
    "layernorm_16384x4096": (lambda: [rand(16384, 4096), rand(4096), rand(4096)],
                             lambda x, g, b: F.layer_norm(x, (4096,), g, b, 1e-5), 0, rows(16384, 4096)),
    "rmsnorm_16384x8192": (lambda: [rand(16384, 8192), rand(8192)], lambda x, g: F.rms_norm(x, (8192,), g, 1e-5), 0,
                           rows(16384, 8192)),
    "softmax_8192x8192": (lambda: [rand(8192, 8192)], lambda x: F.softmax(x, -1), 0, rows(8192, 8192)),
    "softmax_4096x131072": (lambda: [rand(4096, 131072)], lambda x: F.softmax(x, -1), 0, rows(4096, 131072)),
    "add_rmsnorm_quant": (lambda: [rand(8192, 8192), rand(8192, 8192), rand(8192), scalar(2.0)], add_norm_quant, 0,
                          rows(8192, 8192, extra=[2 * 8192 * 8192], out=3)),
    "colsum_16384x4096": (lambda: [rand(16384, 4096)], lambda x: x.sum(0), 0, 2 * 16384 * 4096),
    "transpose_nchw_nhwc": (lambda: [rand(64, 256, 3136)], lambda x: x.transpose(1, 2).contiguous(), 0, rows(64, 256, 3136)),
    "groupnorm_silu_sdxl": (lambda: [rand(8, 4096, 32, 10), rand(32, 10), rand(32, 10)], group_norm_silu, 0, rows(8, 4096, 320)),
    "bn_train_relu_64x256x56": (lambda: [rand(200704, 256), rand(256, dtype=F32), rand(256, dtype=F32)], batch_norm_relu, 0,
                                rows(200704, 256, extra=[2 * 200704 * 256])),
    "ce_rows_131072": (lambda: [rand(4096, 131072), torch.randint(0, 131072, (4096,), device="cuda", dtype=torch.int32)],
                       cross_entropy, 0, 2 * 4096 * 131072),
}

# Relative error that outputs of a case may have against float64, where a type's own is not what the arithmetic gives: tensor cores add fp8
# products in 14 bits; two scores that f32 cannot tell apart change places, and with them the weights that are not what they are sorted by.
TOLERANCES = {
    "fp8_gelu_quant": {"f32": 4e-3},  # 128 sums of 32, each cut to 2^-13 of it; the peer's is 1.6e-3
    "router_topk": {"f32": 1e-4},
    "router_topk_biased": {"f32": 5e-3},
}
