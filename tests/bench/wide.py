"""Inputs and peers of each graph of wide.sg, in the form that cases.py describes."""
import torch
import torch.nn.functional as F

from cases import (attention, attention_train, BF, F32, at_least_f32, fp8, gelu, i4, i8, layernorm_with_residual, linear, norm_with_residual, positive, quantized_blocks, rand,
                   rotate_halves, scalar, scaled_i4, scaled_rows, spread, swiglu, tables)

F16 = torch.float16


def tf32(x, w):
    if x.dtype == torch.float64:
        return x @ w.t()
    torch.backends.cuda.matmul.allow_tf32 = True
    y = x @ w.t()
    torch.backends.cuda.matmul.allow_tf32 = False
    return y


def scaled_int8(x, w, s, t):
    y = x.double() @ w.double().t() if t.dtype == torch.float64 else torch._int_mm(x, w.t()).float()
    return (y * t * s).to(torch.float64 if t.dtype == torch.float64 else BF)


def scaled_pairs(x, w, sx, sw):
    if x.dtype == torch.float64:
        return (x * spread(sx.t(), x)) @ (w * spread(sw.t(), w)).t()
    return torch._scaled_mm(x, w.t(), scale_a=sx.t(), scale_b=sw, out_dtype=BF)


def chosen(count, *shape):
    return torch.randint(0, count, shape, device="cuda", dtype=torch.int32)


def experts(blocks, count):
    """The expert of each block of tokens, which lie by experts."""
    return torch.sort(chosen(count, blocks)).values


def expert_pairs(x, t, e, w, u):
    g = x[t]
    return F.silu(g @ w[e].transpose(1, 2)) * (g @ u[e].transpose(1, 2))


def dequantized(x, s):
    """In 16 bits, as a product of PyTorch's takes it; unrounded for the reference."""
    return x * s if x.dtype == torch.float64 else (x.float() * s).to(BF)


def weight_only(x, w, s):
    return (F.linear(x, w.to(x.dtype)) * s).to(x.dtype)


def weight_gradient(x, dy):
    return (dy.t() @ x).float(), dy.sum(0).float()


def quantize_rows(x, w):
    y = F.silu(F.linear(x, w)).float()
    s = y.abs().amax(-1, keepdim=True) / 448
    return (y / s).to(torch.float8_e4m3fn), s


def cosine(x, y):
    return F.linear(x, y) / (x.norm(dim=-1, keepdim=True) * y.norm(dim=-1, keepdim=True).t())


def mlp(x, w1, b1, w2, b2):
    return F.linear(gelu(F.linear(x, w1, b1)), w2, b2)


def towers(x, w1, b1, w2, b2, w3, b3):
    return F.relu(F.linear(F.relu(F.linear(F.relu(F.linear(x, w1, b1)), w2, b2)), w3, b3))


def bits(m, n):
    return torch.rand(m, n, device="cuda") < 0.9


def router(x, w):
    return F.softmax(F.linear(x, w).float(), -1).topk(8, -1)


def heads_in_one(x, w, b):
    h = F.linear(x, w, b).reshape(4, 2048, 3, 16, 64).permute(2, 0, 3, 1, 4)
    return h[0].contiguous(), h[1].contiguous(), h[2].contiguous()


def pairs(x, w):
    h = F.linear(x, w).unflatten(-1, (-1, 2))
    return F.silu(h[..., 0]) * h[..., 1]


def head_norm(x, w, g):
    return F.rms_norm(F.linear(x, w).unflatten(-1, (-1, g.shape[0])), g.shape, g, 1e-5)


def qkv_norm(x, wq, wk, wv, gq, gk):
    return head_norm(x, wq, gq), head_norm(x, wk, gk), F.linear(x, wv)


def qkv_norm_rope(x, wq, wk, wv, gq, gk, c, s):
    q, k = (rotate_halves(head_norm(x, w, g), c[:, None], s[:, None]).to(x.dtype) for w, g in ((wq, gq), (wk, gk)))
    return q, k, F.linear(x, wv)


def quantized_int8(x, w):
    y = at_least_f32(F.linear(x, w))
    s = y.abs().amax(-1, keepdim=True) / 127
    q = torch.round(y / s)
    return q if x.dtype == torch.float64 else q.to(torch.int8), s


def column_statistics(x, w):
    y = x @ w
    z = at_least_f32(y)
    return y, z.mean(0), z.var(0, unbiased=False)


def softmax_backward(d, v, p):
    dp = d @ v.transpose(1, 2)
    return p * (dp - (dp * p).sum(-1, keepdim=True)) * 0.125


def lengths(count, most):
    """Of sequences, from a quarter of the most to all."""
    return torch.linspace(most // 4, most, count, device="cuda").to(torch.int32).reshape(count, 1, 1, 1)


def seen(q, k, v, n):
    """Attention to the first n keys, of as many heads as divide the queries'; a sequence at a time in float64."""
    mask = torch.arange(k.shape[2], device=q.device) < n
    if q.dtype == torch.float64:
        k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
        return torch.cat([F.scaled_dot_product_attention(*(t[i:i + 1] for t in (q, k, v, mask))) for i in range(q.shape[0])])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=q.shape[1] != k.shape[1])


def paged(by_position):
    """The same from pages, of [heads, keys] or of [keys, heads]."""

    def peer(q, k, v, t, n):
        order = (0, 3, 1, 2, 4) if by_position else (0, 2, 1, 3, 4)
        return seen(q, *(c[t.long()].permute(order).flatten(2, 3) for c in (k, v)), n)

    return peer


def lstm_cell(x, h, c, w, u, b):
    i, f, o, n = (F.linear(x, w, b) + F.linear(h, u)).chunk(4, -1)
    cn = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(n)
    return (torch.sigmoid(o) * torch.tanh(cn)).to(x.dtype), cn


CASES = {
    "f16_2048": (lambda: [rand(2048, 2048, dtype=F16), rand(2048, 2048, dtype=F16, scale=0.1), rand(2048, dtype=F16)],
                      lambda x, w, b: F.relu(F.linear(x, w, b)), 2.0 * 2048 ** 3, 25.2e6),
    "tiny_256": (lambda: [rand(256, 256, dtype=F16), rand(256, 256, dtype=F16)], lambda x, w: x @ w, 2.0 * 256 ** 3, 0.4e6),
    "tf32_2048": (lambda: [rand(2048, 2048, dtype=F32), rand(2048, 2048, dtype=F32)], tf32, 2 * 2.0 * 2048 ** 3, 50.3e6),
    "int8_4096": (lambda: [i8(4096, 4096), i8(4096, 4096), positive(4096), positive(4096, 1)], scaled_int8, 1.0 * 4096 ** 3, 67e6),
    "down_7b": linear(4096, 4096, 11008, lambda x, w, r: F.linear(x, w) + r, (4096, 4096)),
    "wgrad": (lambda: [rand(16384, 1024), rand(16384, 4096)], weight_gradient, 2.0 * 16384 * 1024 * 4096, 184e6),
    "deep_k": linear(256, 256, 65536, F.linear),
    "moe_8x512": (lambda: [rand(8, 512, 4096), rand(8, 14336, 4096)], lambda x, w: F.silu(x @ w.transpose(1, 2)),
                  2.0 * 8 * 512 * 14336 * 4096, 2 * 8 * (512 * 4096 + 14336 * 4096 + 512 * 14336)),
    "moe_blocks": (lambda: [rand(64, 128, 2048), experts(64, 8), rand(8, 2816, 2048)], lambda x, e, w: x @ w[e].transpose(1, 2),
                   2.0 * 64 * 128 * 2816 * 2048, 2 * (8192 * 2048 + 8 * 2816 * 2048 + 8192 * 2816)),
    "moe_tokens": (lambda: [rand(4096, 2048), chosen(4096, 64, 128), experts(64, 8), rand(8, 1408, 2048), rand(8, 1408, 2048)], expert_pairs,
                   4.0 * 64 * 128 * 1408 * 2048, 2 * (4096 * 2048 + 2 * 8 * 1408 * 2048 + 8192 * 1408)),
    "moe_fp8": (lambda: [fp8(64, 128, 2048), rand(64, 128, 1, dtype=F32), experts(64, 8), fp8(8, 2816, 2048), rand(8, 2816, 1, dtype=F32)],
                lambda x, s, e, w, v: dequantized(x, s) @ dequantized(w[e], v[e]).transpose(1, 2), 2.0 * 64 * 128 * 2816 * 2048,
                8192 * 2048 + 8 * 2816 * 2048 + 2 * 8192 * 2816),
    "moe_decode": (lambda: [rand(16, 1, 2048), chosen(64, 16, 8), rand(64, 1408, 2048)],
                   lambda x, e, w: F.silu(x[:, None] @ w[e].transpose(2, 3)), 2.0 * 128 * 1408 * 2048, 2 * 56 * 1408 * 2048),
    "lora_pick": (lambda: [rand(64, 1, 4096), chosen(32, 64), rand(32, 16, 4096), rand(32, 4096, 16)],
                  lambda x, e, a, b: (x @ a[e].transpose(1, 2)) @ b[e].transpose(1, 2), 4.0 * 64 * 4096 * 16, 4 * (28 * 16 + 64) * 4096),
    "token_rows": (lambda: [rand(32768, 1792), chosen(32768, 16384), rand(3584, 1792)], lambda x, t, w: x[t] @ w.T,
                   2.0 * 16384 * 3584 * 1792, 2 * (13000 * 1792 + 3584 * 1792 + 16384 * 3584)),
    "odd_777": linear(333, 555, 777, lambda x, w, b: F.gelu(F.linear(x, w, b)), (555,)),
    "odd_4097": linear(4097, 1023, 1025, F.linear),
    "vocabulary": (lambda: [rand(2048, 2048), rand(50257, 2048)], lambda x, w: F.linear(x, w).float(), 2.0 * 2048 * 2048 * 50257,
                   2 * 2048 * (2048 + 50257) + 4 * 2048 * 50257),
    "mlp_narrow": linear(131072, 256, 64, lambda x, w, b: F.relu(F.linear(x, w, b)), (256,)),
    "decode1_4096": (lambda: [rand(1, 4096, dtype=F16), rand(4096, 4096, dtype=F16, scale=0.1), rand(1, 4096, dtype=F16)],
                     lambda x, w, r: F.linear(x, w) + r, 2.0 * 4096 * 4096, 2 * 4096 * 4096),
    "decode8_qkv": linear(8, 6144, 4096, F.linear),
    "decode32_swiglu": (lambda: [rand(32, 4096), rand(14336, 4096), rand(14336, 4096)], swiglu, 4.0 * 32 * 14336 * 4096,
                        2 * (2 * 14336 * 4096 + 32 * (4096 + 14336))),
    "decode128_up": linear(128, 11008, 4096, lambda x, w: gelu(F.linear(x, w))),
    "rows256_down": linear(256, 4096, 11008, lambda x, w, r: F.linear(x, w) + r, (256, 4096)),
    "fp8_decode64": (lambda: [fp8(64, 8192), fp8(8192, 8192), positive(64, 1), positive(8192, 1)], scaled_rows, 2.0 * 64 * 8192 * 8192,
                     8192 * 8192 + 64 * 8192 * 3),
    "int8_weights16": (lambda: [rand(16, 4096), i8(11008, 4096), positive(11008)], weight_only, 2.0 * 16 * 11008 * 4096, 11008 * 4096),
    "int8_weights1024": (lambda: [rand(1024, 4096), i8(11008, 4096), positive(11008)], weight_only, 2.0 * 1024 * 11008 * 4096,
                         11008 * 4096 + 2 * 1024 * (4096 + 11008)),
    "norm_decode16": (lambda: [rand(16, 4096), rand(4096), rand(6144, 4096)],
                      lambda x, g, w: F.linear(F.rms_norm(x, (4096,), g, 1e-5), w), 2.0 * 16 * 6144 * 4096, 2 * 6144 * 4096),
    "glu_biased": (lambda: [rand(4096, 2048), rand(4096, 2048, scale=0.1), rand(4096), rand(4096, 2048, scale=0.1), rand(4096)],
                   lambda x, w1, b1, w2, b2: F.linear(x, w1, b1) * torch.sigmoid(F.linear(x, w2, b2)), 4.0 * 4096 * 4096 * 2048,
                   2 * (4096 * 2048 * 3 + 4096 * 4096)),
    "geglu_2048": (lambda: [rand(2048, 2048), rand(8192, 2048), rand(8192, 2048)], lambda x, g, u: gelu(F.linear(x, g)) * F.linear(x, u),
                   4.0 * 2048 * 8192 * 2048, 2 * (2048 * 2048 + 3 * 8192 * 2048)),
    "bert_output": linear(4096, 768, 768, lambda x, w, b, r, g, h: F.layer_norm(F.linear(x, w, b) + r, (768,), g, h, 1e-5),
                          (768,), (4096, 768), (768,), (768,)),
    "res_layernorm_2048": linear(4096, 2048, 2048, layernorm_with_residual, (2048,), (4096, 2048), (2048,), (2048,)),
    "res_rmsnorm_8192": linear(4096, 8192, 8192, norm_with_residual, (4096, 8192), (8192,)),
    "softmax_512": linear(16384, 512, 512, lambda x, w: F.softmax(F.linear(x, w), -1)),
    "softmax_4096": linear(4096, 4096, 1024, lambda x, w: F.softmax(F.linear(x, w), -1)),
    "log_softmax_1000": (lambda: [rand(4096, 2048), rand(1000, 2048, scale=0.1), rand(1000)],
                         lambda x, w, b: F.log_softmax(F.linear(x, w, b).to(torch.promote_types(x.dtype, F32)), -1),
                         2.0 * 4096 * 1000 * 2048, 2 * 4096 * 2048 + 4 * 4096 * 1000),
    "cross_entropy_32000": (lambda: [rand(4096, 2048), rand(32000, 2048, scale=0.1),
                                     torch.randint(0, 32000, (4096,), device="cuda", dtype=torch.int32)],
                            lambda x, w, t: F.cross_entropy(F.linear(x, w).to(torch.promote_types(x.dtype, F32)), t.long(), reduction="none"),
                            2.0 * 4096 * 32000 * 2048, 2 * 2048 * (4096 + 32000)),
    "quantize_rows": linear(4096, 4096, 4096, quantize_rows),
    "dropout_residual": (lambda: [rand(8192, 4096), rand(1024, 4096, scale=0.1), rand(1024), rand(8192, 1024), bits(8192, 1024)],
                         lambda x, w, b, r, m: torch.where(m, F.linear(x, w, b) / 0.9, 0) + r, 2.0 * 8192 * 1024 * 4096, 118e6),
    "cosine": linear(4096, 4096, 512, cosine),
    "nearest": (lambda: [rand(65536, 128), rand(1024, 128), positive(1024)], lambda x, c, n: (n - 2 * F.linear(x, c)).argmin(-1),
                2.0 * 65536 * 1024 * 128, 2 * 65536 * 128),
    "router_128": (lambda: [rand(4096, 4096), rand(128, 4096, scale=0.02)], router, 2.0 * 4096 * 128 * 4096, 2 * 4096 * 4096),
    "vit_norm_up": (lambda: [rand(12608, 1024), rand(1024), rand(1024), rand(4096, 1024), rand(4096)],
                    lambda x, g, h, w, b: gelu(F.linear(F.layer_norm(x, (1024,), g, h, 1e-5), w, b)), 2.0 * 12608 * 4096 * 1024,
                    2 * (12608 * 1024 + 4096 * 1024 + 12608 * 4096)),
    "norm_in": (lambda: [rand(16384, 1152), rand(1152), rand(1152, 1024), rand(1024)],
                lambda x, g, w, b: F.rms_norm(x, (1152,), g, 1e-5) @ w + b, 2.0 * 16384 * 1152 * 1024,
                2 * (16384 * 1152 + 1152 * 1024 + 16384 * 1024)),
    "silu_in": linear(8192, 2048, 2048, lambda x, w: F.linear(F.silu(x), w)),
    "gated_in": (lambda: [rand(8192, 4096), rand(8192, 4096), rand(2048, 4096)], lambda x, u, w: F.linear(F.silu(x) * u, w),
                 2.0 * 8192 * 2048 * 4096, 2 * (2 * 8192 * 4096 + 2048 * 4096 + 8192 * 2048)),
    "lora": (lambda: [rand(4096, 4096), rand(4096, 4096), rand(16, 4096), rand(4096, 16)],
             lambda x, w, a, b: F.linear(x, w) + 2 * F.linear(F.linear(x, a), b), 2.0 * 4096 ** 3, 101e6),
    "lora_bias16": (lambda: [rand(16, 4096), rand(4096, 4096), rand(4096), rand(16, 4096), rand(4096, 16)],
                    lambda x, w, c, a, b: F.linear(x, w, c) + 2 * F.linear(F.linear(x, a), b), 2.0 * 16 * 4096 ** 2, 34e6),
    "two_sums": (lambda: [rand(4096, 4096), rand(4096, 4096, scale=0.02), rand(4096, 4096), rand(4096, 4096, scale=0.02), rand(4096)],
                 lambda x, w, h, u, c: torch.sigmoid(F.linear(x, w, c) + F.linear(h, u)), 4.0 * 4096 ** 3, 168e6),
    "mlp_768": (lambda: [rand(4096, 768), rand(3072, 768, scale=0.1), rand(3072), rand(768, 3072, scale=0.1), rand(768)], mlp,
                4.0 * 4096 * 768 * 3072, 22e6),
    "towers": (lambda: [rand(65536, 64), rand(128, 64), rand(128), rand(128, 128), rand(128), rand(64, 128), rand(64)], towers,
               2.0 * 65536 * (64 * 128 + 128 * 128 + 128 * 64), 4 * 65536 * 64),
    "scores_softmax": (lambda: [rand(96, 512, 64), rand(96, 512, 64), rand(512, 512)],
                       lambda q, k, m: F.softmax(q @ k.transpose(1, 2) * 0.125 + m, -1), 2.0 * 96 * 512 * 512 * 64, 63e6),
    "apply_scores": (lambda: [rand(96, 512, 512), rand(96, 512, 64)], lambda p, v: p @ v, 2.0 * 96 * 512 * 512 * 64, 63e6),
    "windows_197": (lambda: [rand(768, 197, 64), rand(768, 197, 64)], lambda q, k: q @ k.transpose(1, 2) * 0.125,
                    2.0 * 768 * 197 * 197 * 64, 2 * 768 * (197 * 197 + 2 * 197 * 64)),
    "row_factor": (lambda: [rand(2048, 1024), rand(1024, 4096), rand(2048, 1)], lambda x, w, m: (x * m) @ w, 2.0 * 2048 * 1024 * 4096, 29e6),
    "f32_1024": (lambda: [rand(1024, 1024, dtype=F32), rand(1024, 1024, dtype=F32)], lambda x, w: x @ w, 12 * 2.0 * 1024 ** 3, 12.6e6),
    "tf32_stored": (lambda: [rand(2048, 2048, dtype=F32), rand(2048, 2048, dtype=F32)], lambda x, w: tf32(x, w.t()), 2 * 2.0 * 2048 ** 3, 50.3e6),
    "conv1x1": (lambda: [rand(256, 128), rand(32, 128, 3136), rand(256, 1)], lambda w, x, b: F.relu(w @ x + b), 2.0 * 32 * 256 * 128 * 3136, 77e6),
    "transposed_out": linear(4096, 2048, 1024, lambda x, w: F.linear(x, w).t().contiguous()),
    "qkv_in_one": (lambda: [rand(4, 2048, 1024), rand(3072, 1024), rand(3072)], heads_in_one, 2.0 * 8192 * 3072 * 1024, 73e6),
    "qkv_256": (lambda: [rand(256, 4096), rand(4096, 4096), rand(1024, 4096), rand(1024, 4096)],
                lambda x, *w: tuple(F.linear(x, own) for own in w), 2.0 * 256 * 6144 * 4096, 55e6),
    "bert_qkv": (lambda: [rand(512, 768), *(rand(*d) for _ in range(3) for d in ((768, 768), (768,)))],
                 lambda x, *w: tuple(F.linear(x, *own) for own in zip(w[::2], w[1::2])), 2.0 * 512 * 2304 * 768, 6.7e6),
    "vit_qkv_norm": (lambda: [rand(4096, 1024), *(rand(1024, 1024) for _ in range(3)), rand(64), rand(64)], qkv_norm,
                     2.0 * 4096 * 3072 * 1024, 40e6),
    "qwen3_qkv": (lambda: [rand(2048, 4096), rand(4096, 4096), rand(1024, 4096), rand(1024, 4096), rand(128), rand(128), *tables(2048, 64)],
                  qkv_norm_rope, 2.0 * 2048 * 6144 * 4096, 93e6),
    "heads_out": (lambda: [rand(2, 32, 1024, 128), rand(4096, 4096), rand(2, 1024, 4096)],
                  lambda o, w, r: F.linear(o.transpose(1, 2).reshape(2, 1024, 4096), w) + r, 2.0 * 2048 * 4096 ** 2, 84e6),
    "swiglu_pairs": (lambda: [rand(2048, 2048), rand(11008, 2048)], pairs, 2.0 * 2048 * 2048 * 11008, 76e6),
    "triangle": (lambda: [rand(1, 256, 256, 128), rand(1, 256, 256, 128)], lambda x, y: torch.einsum("bikc,bjkc->bijc", x, y),
                 2.0 * 128 * 256 ** 3, 50e6),
    "int4_weights1024": (lambda: [rand(1024, 4096), i4(11008, 4096), rand(11008, 32)], lambda x, w, s: F.linear(x, scaled_i4(w, s)),
                         2.0 * 1024 * 11008 * 4096, 53e6),
    "quantized_gate": (lambda: [rand(4096, 2048), rand(2048, 2048), rand(2048, 2048)],
                       lambda x, wg, wu: quantized_blocks(swiglu(x, wg, wu)), 4.0 * 4096 * 2048 * 2048, 42e6),
    "quantized_int8": linear(4096, 4096, 4096, quantized_int8),
    "batchnorm_columns": (lambda: [rand(4096, 2048), rand(2048, 2048)], column_statistics, 2.0 * 4096 * 2048 * 2048, 42e6),
    "pooled_mean": (lambda: [rand(64, 1024, 512), rand(512, 512)], lambda x, w: F.relu(x @ w).mean(1), 2.0 * 65536 * 512 * 512, 68e6),
    "linear_backward": (lambda: [rand(8192, 1024), rand(8192, 4096), rand(4096, 1024)],
                        lambda x, dy, w: (dy @ w, dy.t() @ x, dy.sum(0)), 4.0 * 8192 * 1024 * 4096, 118e6),
    "softmax_backward": (lambda: [rand(96, 512, 64), rand(96, 512, 64), rand(96, 512, 512)], softmax_backward, 2.0 * 96 * 512 * 512 * 64, 113e6),
    "lstm_cell": (lambda: [rand(256, 512), rand(256, 512), rand(256, 512, dtype=F32), rand(2048, 512), rand(2048, 512), rand(2048)], lstm_cell,
                  4.0 * 256 * 2048 * 512, 6.3e6),
    "contrastive": (lambda: [rand(4096, 768), rand(4096, 768), scalar(0.07)],
                    lambda x, y, t: F.log_softmax(at_least_f32(F.linear(x, y) * t), -1), 2.0 * 4096 * 4096 * 768, 80e6),
    "phi_q_rope": (lambda: [rand(4096, 3072), rand(3072, 3072), *(t[:, :48].contiguous() for t in tables(4096, 64))],
                   lambda x, w, c, s: rotate_halves(F.linear(x, w).unflatten(-1, (32, 96)), c[:, None], s[:, None]).to(x.dtype),
                   2.0 * 4096 * 3072 ** 2, 71e6),
    "sdpa_train_d128_4k": attention_train(2, 32, 4096, 128),
    "sdpa_train_d64_1k": attention_train(16, 16, 1024, 64),
    "paged_prefill": (lambda: [rand(4, 32, 2048, 128), *(rand(300, 8, 64, 128) for _ in range(2)), chosen(300, 4, 64), lengths(4, 4096)],
                      paged(False), 4.0 * 32 * 2048 * 128 * 4096 * 2.5, 2 * (2 * 4 * 32 * 2048 * 128 + 2 * 160 * 8 * 64 * 128)),
    "paged_decode": (lambda: [rand(16, 32, 1, 128), *(rand(5000, 16, 8, 128) for _ in range(2)), chosen(5000, 16, 256), lengths(16, 4096)],
                     paged(True), 4.0 * 32 * 128 * 4096 * 10, 2 * 2 * 10 * 4096 * 8 * 128),
    "gqa_decode": attention(16, 32, 1, 4096, 128, key_heads=8),
    "gqa_decode_32k": attention(1, 32, 1, 32768, 128, key_heads=8),
    "gqa_decode_4": attention(4, 32, 1, 4096, 128, key_heads=8),
    "chunk_16k": attention(1, 32, 128, 16384, 128, key_heads=8),
    "latents_48k": attention(2, 8, 256, 49152, 64),
    "small_batch": attention(1, 16, 512, 2048, 64),
    "guessed_tokens": attention(4, 32, 4, 8192, 128, key_heads=8),
    "mha_decode": attention(8, 32, 1, 2048, 128),
    "padded_batch": (lambda: [rand(16, 16, 1024, 64) for _ in range(3)] + [lengths(16, 1024)], seen, 4.0 * 16 * 1024 * 64 * 1024 * 10,
                     2 * 16 * 16 * 1024 * 64 * 3.25),
    "fp8_wgrad_block": (lambda: [fp8(4096, 4096), fp8(4096, 4096), positive(32, 4096), positive(32, 4096)], scaled_pairs, 2.0 * 4096 ** 3, 68e6),
}
# A sum of small terms in another order; ties of what is nearest; scores that f32 cannot tell apart.
TOLERANCES = {
    "tf32_2048": {"f32": 2e-3},
    "wgrad": {"f32": 5e-3},
    "router_128": {"f32": 5e-3},
    "quantize_rows": {"f32": 1e-4},
    "nearest": {"i64": 2e-2},
    "tf32_stored": {"f32": 2e-3},
    "batchnorm_columns": {"f32": 2e-2},
    "quantized_gate": {"f32": 1e-2},
    "quantized_int8": {"f32": 1e-2},
    "lstm_cell": {"f32": 5e-3},
    "sdpa_train_d128_4k": {"f32": 1e-4},
    "sdpa_train_d64_1k": {"f32": 1e-4},
}
