"""Inputs and peers of each graph of backward.sg, in the form that cases.py describes."""
import torch
import torch.nn.functional as F
from cases import F32, gelu, rand, spent
from torch.nn.attention import SDPBackend, sdpa_kernel


def by_head(one, *tensors):
    """`one` of each head, a head at a time: in float64, scores of all would fill memory. Tensors [B, H, ...]; as many results as it has."""
    heads = [[one(*(t[i, j] for t in tensors)) for j in range(tensors[0].shape[1])] for i in range(tensors[0].shape[0])]
    return tuple(torch.stack([torch.stack([h[k] for h in row]) for row in heads]) for k in range(len(heads[0][0])))


def seen(s):
    return torch.ones_like(s, dtype=torch.bool).tril()


def exact_gradients(causal):
    def one(dy, q, k, v, y, l):
        s = q @ k.T * q.shape[-1] ** -0.5
        p = torch.exp((s.masked_fill(~seen(s), -torch.inf) if causal else s) - l)
        e = p * (dy @ v.T - (dy * y).sum(-1, keepdim=True)) * q.shape[-1] ** -0.5
        return e @ k, e.T @ q, p.T @ dy
    return one


def attention_backward(batch, heads, length, depth, causal, key_heads=None):
    key_heads = key_heads or heads
    forward = {}  # of the library's kernels: what their backward passes want besides

    def inputs():
        q, dy = (rand(batch, heads, length, depth) for _ in range(2))
        k, v = (rand(batch, key_heads, length, depth) for _ in range(2))
        leaves = [t.detach().requires_grad_() for t in (q, k, v)]
        for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
            try:
                with torch.enable_grad(), sdpa_kernel([backend]):
                    forward[name] = F.scaled_dot_product_attention(*leaves, is_causal=causal, enable_gqa=key_heads != heads), leaves
            except RuntimeError:
                pass
        y = next(iter(forward.values()))[0].detach().contiguous()
        shared = heads // key_heads
        sums = by_head(lambda q, k: ((lambda s: s.masked_fill(~seen(s), -torch.inf) if causal else s)(q.float() @ k.float().T * depth ** -0.5)
                                     .logsumexp(-1, keepdim=True),), q, k.repeat_interleave(shared, 1))[0]
        forward["quickest"] = min((n for n in forward), key=lambda n: spent(lambda: gradients(n, dy)))
        print(f"    the peer is {forward['quickest']}'s backward pass")
        return [dy, q, k, v, y, sums]

    def gradients(name, dy):
        out, leaves = forward[name]
        with torch.enable_grad():
            return torch.autograd.grad(out, leaves, dy, retain_graph=True)

    def peer(dy, q, k, v, y, l):
        if q.dtype != torch.float64:
            return gradients(forward["quickest"], dy)
        shared = heads // key_heads
        dq, dk, dv = by_head(exact_gradients(causal), dy, q, k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1), y, l)
        return dq, dk.unflatten(1, (key_heads, shared)).sum(2), dv.unflatten(1, (key_heads, shared)).sum(2)

    share = 0.5 if causal else 1
    return (inputs, peer, 10.0 * batch * heads * length * length * depth * share, 2 * (5 * heads + 4 * key_heads) * batch * length * depth)


def attention_gradient(batch, heads, length, depth):
    """Of causal attention, with the forward pass."""
    def one(q, k, v, dy):
        s = q @ k.T * depth ** -0.5
        p = s.masked_fill(~seen(s), -torch.inf).softmax(-1)
        d = dy @ v.T
        e = p * (d - (p * d).sum(-1, keepdim=True)) * depth ** -0.5
        return e @ k, e.T @ q, p.T @ dy

    def peer(q, k, v, dy):
        if q.dtype == torch.float64:
            return by_head(one, q, k, v, dy)
        leaves = [t.detach().requires_grad_() for t in (q, k, v)]
        with torch.enable_grad(), sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION], set_priority=True):
            return torch.autograd.grad(F.scaled_dot_product_attention(*leaves, is_causal=True), leaves, dy)

    return (lambda: [rand(batch, heads, length, depth) for _ in range(4)], peer, 7.0 * batch * heads * length * length * depth,
            2 * 7 * batch * heads * length * depth)


def weighted(batch, heads, length, depth, weights, *extra, share=1):
    """Attention whose weights are computed of each score alone, head by head in float64."""
    def peer(q, k, v, *rest):
        if q.dtype != torch.float64:
            return weights(q @ k.transpose(-1, -2), *rest).to(q.dtype) @ v
        rest = [r.expand(batch, heads, 1, 1) for r in rest]
        return by_head(lambda q, k, v, *rest: (weights(q @ k.T, *rest) @ v,), q, k, v, *rest)[0]
    return (lambda: [rand(batch, heads, length, depth) for _ in range(3)] + [make() for make in extra], peer,
            4.0 * batch * heads * length * length * depth * share, 2 * 4 * batch * heads * length * depth)


def sigmoid(s):
    return torch.sigmoid(s * 0.125 - 8.317766166719343)


def decayed(s, g):
    at = torch.arange(s.shape[-1], device=s.device)
    far = at[:, None] - at
    return torch.where(far >= 0, s * torch.exp(far * g), 0)


CASES = {
    "sdpa_bwd_d128_full_4k": attention_backward(4, 32, 4096, 128, False),
    "sdpa_bwd_d128_causal_8k": attention_backward(2, 32, 8192, 128, True),
    "sdpa_bwd_d64_causal_4k": attention_backward(4, 32, 4096, 64, True),
    "sdpa_bwd_d64_full_1k": attention_backward(16, 16, 1024, 64, False),
    "sdpa_bwd_gqa_d128_causal_4k": attention_backward(4, 32, 4096, 128, True, key_heads=8),
    "sdpa_grad_d128_causal_4k": attention_gradient(4, 32, 4096, 128),
    "sigmoid_attention_d64_4k": weighted(4, 16, 4096, 64, sigmoid),
    "retention_d128_4k": weighted(4, 16, 4096, 128, decayed, lambda: -torch.rand(16, 1, 1, device="cuda", dtype=F32) * 0.05, share=0.5),
    "mlp_128_4k": (lambda: [rand(65536, 128), rand(4096, 128), rand(128, 4096)], lambda x, w, u: gelu(x @ w.T) @ u.T, 4.0 * 65536 * 128 * 4096,
                   2 * (2 * 65536 * 128 + 2 * 4096 * 128)),
}
TOLERANCES = {}
