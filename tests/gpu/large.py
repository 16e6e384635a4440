"""Tensors of more than 2^31 elements (large.sg), whose coordinates, strides and counts 32 bits do not hold: results where they begin, where
they end and around the element 2^31, against PyTorch in f32. Each takes up to 20 GB of the device's memory."""
import pathlib

ROWS = 48  # of each of three places that are compared


def references():
    """For each graph: rows `at` of the result (or its columns, where it is a transpose), of the inputs."""
    import torch
    return {
        "pointwise": lambda at, x, b: torch.relu(x[at].float() * 0.5) + b.float(),
        "rows": lambda at, x: torch.softmax(x[at].float(), -1),
        "short_rows": lambda at, x, g: torch.nn.functional.rms_norm(x[at].float(), (128,), g.float(), 1e-5),
        "transposed": lambda at, x: x[:, at].float().T * 2,
        "bytes": lambda at, x: (x[at].float() * 0.25).to(torch.float8_e4m3fn).float(),
        "result": lambda at, x, w, b, r: torch.relu(x[at].float() @ w.float().T + b.float()) + r[at].float(),
        "result_odd": lambda at, x, w: x[at].float() @ w.float().T,
        "operand": lambda at, x, w: torch.relu(x[at].float() @ w.float()),
        "few_columns": lambda at, x, w: x[at].float() @ w.float(),
        "weights": lambda at, x, w: torch.cat([x.float() @ w[first:first + 65536].float().T for first in range(0, w.shape[0], 65536)], -1)[at],
        "matrices": lambda at, x, w: x[at].float() @ w[at].float().mT,
        "chosen": lambda at, t, i: t[i[at].long()].float(),
        "joined": lambda at, x, z: torch.stack([(x if r < len(x) else z)[r % len(x)] for r in at]).float(),
        "counted": lambda at, x: torch.argmax(x[at], -1),
    }


def drawn(shapes):
    import torch
    made = []
    for dtype, shape in shapes:
        if dtype == "i32":  # numbers of rows of the tensor before it, its last among them
            made.append(torch.randint(made[0].shape[0] - 5000, made[0].shape[0], shape, device="cuda", dtype=torch.int32))
            continue
        t = torch.empty(shape, device="cuda", dtype=torch.bfloat16)
        for part in t.view(-1).split(1 << 30):
            part.normal_()
        made.append(t)
    return made


def places(shape):
    """Numbers of rows at the beginning, around the element 2^31 and at the end."""
    row = 1
    for n in shape[1:]:
        row *= n
    middle = min((1 << 31) // row, shape[0] - 1)
    found = set()
    for first in (0, middle - ROWS // 2, shape[0] - ROWS):
        found |= {r for r in range(first, first + ROWS) if 0 <= r < shape[0]}
    return sorted(found)


def close(got, want):
    """Whether bf16, or what is rounded further, has come to what f32 has."""
    import torch
    if not got.dtype.is_floating_point:
        return bool(torch.equal(got, want))
    got, bound = got.float(), 1.6e-2 if got.dtype == torch.bfloat16 else 7e-2
    return bool(torch.isfinite(got).all()) and bool(((got - want).norm() <= bound * want.norm()).item()) and \
        bool(((got - want).abs().amax(-1) <= 4 * bound * want.abs().amax(-1) + 1e-6).all())


def check(library, backends):
    """A row for each graph and backend."""
    import torch
    from timing import TYPES, poisoned, size
    text = (pathlib.Path(__file__).parent / "large.sg").read_text()
    rows = []
    for name, reference in references().items():
        inputs = None
        for backend in backends:
            row = {"graph": name, "backend": backend, "ok": False}
            rows.append(row)
            try:
                plan = library.plan(text, name, backend)
                inputs = inputs or drawn(plan.inputs)
                dtype, shape = plan.outputs[0]
                y, workspace = poisoned(size(dtype, shape)).view(TYPES[dtype]).view(shape), poisoned(plan.workspace_bytes)
                plan.bind([t.data_ptr() for t in inputs], [y.data_ptr()], workspace.data_ptr(), torch.cuda.current_stream().cuda_stream)()
                torch.cuda.synchronize()
                at = places(shape)
                row["ok"] = close(y[at], reference(at, *inputs))
                plan.close()
                del y, workspace
            except Exception as e:  # a case that fails must not hide the others
                row["failure"] = str(e)[:1500]
        del inputs
        torch.cuda.empty_cache()
    return rows
