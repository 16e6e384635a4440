"""What launches of kernels whose blocks wait for each other must bear, with the workspace as a launch before may have left it: to be
captured in a CUDA graph and replayed, and to run in two streams at the same time. Results must have the bits of a plain launch."""
import pathlib

REPLAYS = 20
TOGETHER = 50  # launches in each of two streams
GRAPHS = {"gang": ((8192, 1024), (1024, 1024)), "shared": ((256, 14336), (4096, 14336)),
          "guest": ((4096, 1024), (4096, 1024), (4096, 4096), (4096,)), "across": 5 * ((8, 16, 1000, 64),) + ((8, 16, 1000, 1),)}


class Case:
    def __init__(self, library, graph, backend):
        import torch
        text = (pathlib.Path(__file__).parent / "launches.sg").read_text()
        self.inputs = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in GRAPHS[graph]]
        self.plan = library.plan(text, graph, backend)
        self.kept = []  # the arguments of all launches: the plan itself keeps those of the last

    def bind(self):
        """A launch in the current stream, with outputs and a workspace of its own; and its outputs."""
        import torch
        outputs = [torch.full(shape, 7, device="cuda", dtype=torch.bfloat16) for _, shape in self.plan.outputs]
        words = torch.full([self.plan.workspace_bytes // 4 + 1], 1, device="cuda", dtype=torch.int32)  # a raised flag, a first round
        launch = self.plan.bind([t.data_ptr() for t in self.inputs], [t.data_ptr() for t in outputs], words.data_ptr(),
                                torch.cuda.current_stream().cuda_stream)
        self.kept.append((self.plan.kept, words))
        return launch, outputs


def equal(got, want):
    import torch
    return all(torch.equal(a, b) for a, b in zip(got, want))


def replayed(case, want):
    import torch
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # poisons what it works on each time
        launch, outputs = case.bind()
        launch()
        launch()
    for _ in range(REPLAYS):
        graph.replay()
        torch.cuda.synchronize()
        if not equal(outputs, want):
            return False
    return True


def together(case, want):
    import torch
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    bound = []
    for stream in streams:
        with torch.cuda.stream(stream):
            bound.append(case.bind())
    torch.cuda.synchronize()
    for _ in range(TOGETHER):
        for launch, _ in bound:
            launch()
    torch.cuda.synchronize()
    return all(equal(outputs, want) for _, outputs in bound)


def check(library, backends):
    """A row for each graph and backend."""
    import torch
    rows = []
    for backend in backends:
        for name in GRAPHS:
            row = {"graph": name, "backend": backend}
            rows.append(row)
            try:
                case = Case(library, name, backend)
                launch, want = case.bind()
                launch()
                torch.cuda.synchronize()
                row.update(replayed=replayed(case, want), together=together(case, want))
                case.plan.close()
            except Exception as e:  # a case that fails must not hide the others
                row.update(replayed=False, together=False, failure=str(e)[:1500])
    return rows
