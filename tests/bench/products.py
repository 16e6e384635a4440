"""Products of matrices alone, as the linear layers of models and their gradients have them, each with cuBLAS as its peer, in the form that
cases.py describes. What is drawn depends on the seed alone."""
import random

from cases import rand
from layers import LAYERS, graph, stored

ROWS = (256, 384, 512, 640, 768, 1000, 1024, 2048, 3000, 4096, 4800, 6304, 8192, 12608, 16384, 32768)
LEAST_FLOPS, MOST_FLOPS, MOST_ELEMENTS = 1e8, 6e11, 1.5e8

# M, N and K of a layer of n columns from k, and how its operands lie: the layer, the gradient of its input, that of its weight
USES = {"nt": lambda rows, n, k: (rows, n, k), "nn": lambda rows, n, k: (rows, k, n), "tn": lambda rows, n, k: (n, k, rows)}
PEERS = {"nt": lambda x, w: x @ w.T, "nn": lambda x, w: x @ w, "tn": lambda x, w: x.T @ w}


def case(layout, m, n, k):
    """(the graph's text, its case) of one product."""
    shapes = stored(layout, m, n, k)
    return (graph(name(layout, m, n, k), "bf16", "bf16", layout, m, n, k),
            (lambda: [rand(*s) for s in shapes], PEERS[layout], 2.0 * m * n * k, 2.0 * (m * k + n * k + m * n)))


def name(layout, m, n, k):
    return f"{layout}_{m}x{n}x{k}"


def draw(seed, count):
    """(the graphs' text, CASES, TOLERANCES) of `count` products."""
    found = sorted({(layout, *of(rows, n, k)) for n, k in LAYERS for rows in ROWS for layout, of in USES.items()})
    found = [p for p in found if LEAST_FLOPS <= 2.0 * p[1] * p[2] * p[3] <= MOST_FLOPS and p[1] * p[2] <= MOST_ELEMENTS]
    chosen = random.Random(seed).sample(found, min(count, len(found)))
    cases = {name(*p): case(*p) for p in chosen}
    return "sinter 1\n\n" + "\n".join(text for text, _ in cases.values()), {n: c for n, (_, c) in cases.items()}, {}
