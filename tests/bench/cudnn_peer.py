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


# case: the graph, its operands as views of rank 3
CASES = {"mm_8192": (product, linear), "mm_4096": (product, linear),
         "mm_nn_4096": (product, lambda x, w: [x[None], w[None]]), "mm_tn_4096": (product, lambda x, w: [x.t()[None], w[None]]),
         "mm_bias_gelu_gpt_up": (bias_gelu, linear), "mm_bias_gelu_bert": (bias_gelu, linear),
         "mm_decode16_bias_gelu": (bias_gelu, linear), "mm_bias_res_gpt_down": (bias_residual, linear),
         "mm_decode64_down": (residual, linear), "mm_silu_mul_llama": (silu_gate, linear), "gemv_70b": (silu_gate, linear),
         "mm_odd": (bias_relu, lambda a, b, c: [a[None], b[None], c.view(1, 1, -1)]),
         "bmm_64x1024": (product, lambda a, b: [a, b.transpose(1, 2)])}


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
        self.y = torch.full(output.get_dim(), float("nan"), device="cuda", dtype=torch.bfloat16)
        self.arguments = dict(zip(tensors, views(*inputs))) | {output: self.y}
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
