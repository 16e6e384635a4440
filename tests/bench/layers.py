"""The linear layers of language, vision and diffusion models, whose products of matrices are measured alone; and such a product's graph."""

# which operands are stored transposed, as BLAS calls it
LAYOUTS = {"nt": ("x", "w.T"), "nn": ("x", "w"), "tn": ("x.T", "w"), "tt": ("x.T", "w.T")}


def stored(layout, m, n, k):
    """The shapes in memory of an M x K and a K x N operand."""
    return (k, m) if layout[0] == "t" else (m, k), (n, k) if layout[1] == "t" else (k, n)


def graph(name, dtype, result, layout, m, n, k):
    """The text of a graph that is one product."""
    (left, right), (x, w) = LAYOUTS[layout], (f"{dtype}[{rows}, {columns}]" for rows, columns in stored(layout, m, n, k))
    return f"graph {name} (x: {x}, w: {w}) -> (y: {result}[{m}, {n}])\n{{   y = {left} @ {right}   }}\n"



# N and K of linear layers
LAYERS = ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (10240, 8192), (8192, 8192), (8192, 28672), (4608, 3584), (3584, 3584),
          (3584, 18944), (2304, 768), (768, 768), (3072, 768), (768, 3072), (1024, 1024), (4096, 1024), (1024, 4096), (3072, 1024),
          (1280, 1280), (5120, 1280), (1280, 5120), (640, 640), (2560, 640), (320, 320), (1280, 320), (320, 1280), (5120, 5120),
          (13824, 5120), (5120, 13824), (2048, 2048), (8192, 2048), (2048, 8192), (11008, 2048), (2048, 11008), (1536, 1536), (8960, 1536),
          (1536, 8960), (32000, 4096), (1152, 1152), (4304, 1152), (1152, 4304), (576, 7168), (2112, 7168), (24576, 1536), (4096, 7168),
          (7168, 2048), (256, 7168), (128, 2880), (5760, 2880), (2880, 2880), (512, 512), (2048, 512), (512, 2048), (256, 1024))
