"""Inputs and peers of each graph of wide.sg, in the form that cases.py describes."""
import torch
import torch.nn.functional as F

from cases import BF, F32, fp8, gelu, layernorm_with_residual, linear, norm_with_residual, positive, rand, scaled_rows, swiglu

F16 = torch.float16


def i8(*shape):
    return torch.randint(-100, 101, shape, device="cuda", dtype=torch.int8)


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
    "silu_in": linear(8192, 2048, 2048, lambda x, w: F.linear(F.silu(x), w)),
    "gated_in": (lambda: [rand(8192, 4096), rand(8192, 4096), rand(2048, 4096)], lambda x, u, w: F.linear(F.silu(x) * u, w),
                 2.0 * 8192 * 2048 * 4096, 2 * (2 * 8192 * 4096 + 2048 * 4096 + 8192 * 2048)),
    "lora": (lambda: [rand(4096, 4096), rand(4096, 4096), rand(16, 4096), rand(4096, 16)],
             lambda x, w, a, b: F.linear(x, w) + 2 * F.linear(F.linear(x, a), b), 2.0 * 4096 ** 3, 101e6),
    "mlp_768": (lambda: [rand(4096, 768), rand(3072, 768, scale=0.1), rand(3072), rand(768, 3072, scale=0.1), rand(768)], mlp,
                4.0 * 4096 * 768 * 3072, 22e6),
    "towers": (lambda: [rand(65536, 64), rand(128, 64), rand(128), rand(128, 128), rand(128), rand(64, 128), rand(64)], towers,
               2.0 * 65536 * (64 * 128 + 128 * 128 + 128 * 64), 4 * 65536 * 64),
    "scores_softmax": (lambda: [rand(96, 512, 64), rand(96, 512, 64), rand(512, 512)],
                       lambda q, k, m: F.softmax(q @ k.transpose(1, 2) * 0.125 + m, -1), 2.0 * 96 * 512 * 512 * 64, 63e6),
    "apply_scores": (lambda: [rand(96, 512, 512), rand(96, 512, 64)], lambda p, v: p @ v, 2.0 * 96 * 512 * 512 * 64, 63e6),
    "windows_197": (lambda: [rand(768, 197, 64), rand(768, 197, 64)], lambda q, k: q @ k.transpose(1, 2) * 0.125,
                    2.0 * 768 * 197 * 197 * 64, 2 * 768 * (197 * 197 + 2 * 197 * 64)),
}
# A sum of small terms in another order; ties of what is nearest; scores that f32 cannot tell apart.
TOLERANCES = {
    "tf32_2048": {"f32": 2e-3},
    "wgrad": {"f32": 5e-3},
    "router_128": {"f32": 5e-3},
    "quantize_rows": {"f32": 1e-4},
    "nearest": {"i64": 2e-2},
}
