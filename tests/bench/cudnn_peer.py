"""cuDNN's graph API as a peer: a case as cuDNN's own front end (nvidia-cudnn-frontend from PyPI) takes it, with every plan that cuDNN
offers. Cases that it refuses on Hopper (row statistics, two products, column sums) are not here."""
import cudnn
import torch

BF16, F32 = cudnn.data_type.BFLOAT16, cudnn.data_type.FLOAT
TYPES = {torch.bfloat16: BF16, torch.float32: F32}


def product(graph, x, w):
    return graph.matmul(A=x, B=w, compute_data_type=F32)


def bias_gelu(graph, x, w, b):
    return graph.gelu_approx_tanh(input=graph.bias(input=product(graph, x, w), bias=b))


def bias_residual(graph, x, w, b, r):
    return graph.add(a=graph.bias(input=product(graph, x, w), bias=b), b=r)


def residual(graph, x, w, r):
    return graph.add(a=product(graph, x, w), b=r)


def silu_gate(graph, x, w, g):
    return graph.mul(a=graph.swish(input=product(graph, x, w)), b=g)


def bias_relu(graph, a, b, c):
    return graph.relu(input=graph.bias(input=product(graph, a, b), bias=c))


def linear(x, w, *extra):
    """x [M, K], w [N, K] and what the epilogue reads, with a batch of 1 in front; the second operand as [K, N]."""
    return [x[None], w.t()[None], *(e.view(1, -1, e.shape[-1]) for e in extra)]


def convolution(after=lambda graph, y: y, **how):
    """x [N, C, P, Q] and w [F, C, R, S] in channels_last memory, and what the epilogue reads."""
    how = {name: [how.get(name, otherwise)] * 2 for name, otherwise in (("padding", 0), ("stride", 1), ("dilation", 1))}
    return lambda graph, x, w, *rest: after(graph, graph.conv_fprop(image=x, weight=w, compute_data_type=F32, **how), *rest)


def scaled(graph, y, s, b):
    return graph.add(a=graph.mul(a=y, b=s), b=b)


def scaled_relu(graph, y, s, b):
    return graph.relu(input=scaled(graph, y, s, b))


def scaled_residual_relu(graph, y, s, b, r):
    return graph.relu(input=graph.add(a=scaled(graph, y, s, b), b=r))


def biased(graph, y, b):
    return graph.add(a=y, b=b)


def biased_relu(graph, y, b):
    return graph.relu(input=biased(graph, y, b))


def biased_silu(graph, y, b):
    return graph.swish(input=biased(graph, y, b))


def channels_first(*operands):
    """The axes as cuDNN counts them; vectors along the channels."""
    return [(o if o.dim() > 1 else o.view(1, 1, 1, -1)).movedim(-1, 1) for o in operands]


# case: the graph, its operands as views of rank 3, or 4
CASES = {"mm_8192": (product, linear), "mm_4096": (product, linear),
         "mm_nn_4096": (product, lambda x, w: [x[None], w[None]]), "mm_tn_4096": (product, lambda x, w: [x.t()[None], w[None]]),
         "mm_bias_gelu_gpt_up": (bias_gelu, linear), "mm_bias_gelu_bert": (bias_gelu, linear),
         "mm_decode16_bias_gelu": (bias_gelu, linear), "mm_bias_res_gpt_down": (bias_residual, linear),
         "mm_decode64_down": (residual, linear), "mm_silu_mul_llama": (silu_gate, linear), "gemv_70b": (silu_gate, linear),
         "mm_odd": (bias_relu, lambda a, b, c: [a[None], b[None], c.view(1, 1, -1)]),
         "bmm_64x1024": (product, lambda a, b: [a, b.transpose(1, 2)]),
         "conv3x3_64_56_sbr": (convolution(scaled_relu, padding=1), channels_first),
         "conv1x1_256_1024_14_sbar": (convolution(scaled_residual_relu), channels_first),
         "conv3x3s2_128_56_sbr": (convolution(scaled_relu, stride=2, padding=1), channels_first),
         "conv7x7s2_stem4_sbr": (convolution(scaled_relu, stride=2, padding=3), channels_first),
         "conv1x1_64_256_56_sbar": (convolution(scaled_residual_relu), channels_first),
         "conv3x3_256_14_sbr": (convolution(scaled_relu, padding=1), channels_first),
         "conv3x3_512_7_sbr": (convolution(scaled_relu, padding=1), channels_first),
         "conv1x1s2_256_512_56_sb": (convolution(scaled, stride=2), channels_first),
         "conv3x3_512_28_plain": (convolution(padding=1), channels_first),
         "conv3x3_128_112_vgg": (convolution(biased_relu, padding=1), channels_first),
         "conv3x3d2_256_28_sbr": (convolution(scaled_relu, padding=2, dilation=2), channels_first),
         "conv3x3_320_64_bs_sdxl": (convolution(biased_silu, padding=1), channels_first),
         "conv3x3_1280_16_unet": (convolution(biased, padding=1), channels_first)}


class Peer:
    """A case's graph over its inputs, and `plans` ways to run it, the first of which cuDNN prefers. Raises what cudnn raises where cuDNN
    refuses it."""

    def __init__(self, name, inputs):
        make, views = CASES[name]
        self.handle = cudnn.create_handle()
        cudnn.set_stream(handle=self.handle, stream=torch.cuda.current_stream().cuda_stream)
        self.graph, tensors, output = declare(make, views(*inputs), self.handle)
        self.graph.build_operation_graph()
        self.graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        self.graph.check_support()
        self.graph.build_plans(cudnn.build_plan_policy.ALL)
        self.plans = self.graph.get_execution_plan_count()
        y = torch.empty_strided(output.get_dim(), output.get_stride(), device="cuda", dtype=torch.bfloat16).fill_(float("nan"))
        self.arguments = dict(zip(tensors, views(*inputs))) | {output: y}
        self.y = y.movedim(1, -1) if y.dim() == 4 else y
        most = max(self.graph.get_workspace_size_plan_at_index(i) for i in range(self.plans))
        self.workspace = torch.empty(max(most, 256), device="cuda", dtype=torch.uint8)

    def __call__(self, plan=0):
        self.graph.execute_plan_at_index(self.arguments, self.workspace, plan, handle=self.handle)
        return self.y


def declare(make, operands, handle=None):
    """(graph, its input tensors, its output), validated: the part that needs no GPU."""
    graph = cudnn.pygraph(io_data_type=BF16, intermediate_data_type=F32, compute_data_type=F32, handle=handle)
    tensors = [graph.tensor(name=f"operand_{i}", dim=list(o.shape), stride=list(o.stride()), data_type=TYPES[o.dtype])
               for i, o in enumerate(operands)]
    output = make(graph, *tensors)
    output.set_output(True).set_data_type(BF16)
    graph.validate()
    return graph, tensors, output
