"""Triton as a peer of plain products x[M, K] @ w[N, K].T with bias and activation: a persistent kernel fed by TMA, autotuned, after
Triton's own tutorial on persistent matrix products."""
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


def _block_shapes(args):
    m, n, k = args["BLOCK_M"], args["BLOCK_N"], args["BLOCK_K"]
    args["x"].block_shape = [m, k]
    args["w"].block_shape = [n, k]
    args["y"].block_shape = [m, n]


CONFIGS = [triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": 64, "GROUP_M": 8}, num_stages=s, num_warps=w, pre_hook=_block_shapes)
           for m, n, w in ((128, 256, 8), (128, 128, 8), (128, 128, 4), (64, 128, 4), (64, 64, 4)) for s in (3, 4)]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def _product(x, w, y, bias, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
             BLOCKS: tl.constexpr, HAS_BIAS: tl.constexpr, GELU: tl.constexpr):
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, BLOCKS, flatten=True):
        group = tile // (GROUP_M * tiles_n)
        rows = min(tiles_m - group * GROUP_M, GROUP_M)
        row = (group * GROUP_M + tile % rows) * BLOCK_M
        col = tile % (GROUP_M * tiles_n) // rows * BLOCK_N
        sum = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            sum = tl.dot(x.load([row, k * BLOCK_K]), w.load([col, k * BLOCK_K]).T, sum)
        if HAS_BIAS:
            at = col + tl.arange(0, BLOCK_N)
            sum += tl.load(bias + at, mask=at < N, other=0.0).to(tl.float32)[None, :]
        if GELU:  # by tanh, as a sigmoid
            sum = sum * tl.sigmoid(1.5957691216057308 * (sum + 0.044715 * sum * sum * sum))
        y.store([row, col], sum.to(y.dtype))


def linear(x, w, bias=None, gelu=False):
    m, k = x.shape
    n = w.shape[0]
    y = torch.empty(m, n, device=x.device, dtype=x.dtype)
    blocks = torch.cuda.get_device_properties(x.device).multi_processor_count
    tensors = [TensorDescriptor.from_tensor(t, [1, 1]) for t in (x, w, y)]
    grid = lambda meta: (min(blocks, triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"])),)
    _product[grid](*tensors, bias if bias is not None else x, m, n, k, BLOCKS=blocks, HAS_BIAS=bias is not None, GELU=gelu)
    return y


# the cases of cases.py that this kernel does
CASES = {"mm_8192": linear, "mm_4096": linear,
         "mm_bias_gelu_gpt_up": lambda x, w, b: linear(x, w, b, gelu=True), "mm_bias_gelu_bert": lambda x, w, b: linear(x, w, b, gelu=True)}
