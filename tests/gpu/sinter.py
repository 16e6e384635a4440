"""libsinter through ctypes: as much of <sinter.h> as the GPU tests need. Struct fields stand in the header's order."""
import ctypes as c


class _Sized(c.Structure):
    def __init__(self, **fields):
        super().__init__(**fields)
        self.size = c.sizeof(self)


class ContextOptions(_Sized):
    _fields_ = [("size", c.c_size_t), ("use_device", c.c_int), ("device", c.c_int), ("read_environment", c.c_int),
                ("cache_directory", c.c_char_p), ("cache_bytes", c.c_int64), ("search_path", c.c_char_p), ("cuda_home", c.c_char_p),
                ("temporary_directory", c.c_char_p), ("llvm_plugin", c.c_char_p), ("nvrtc_library", c.c_char_p),
                ("memory_limit", c.c_size_t)]


class Source(_Sized):
    _fields_ = [("size", c.c_size_t), ("text", c.c_char_p), ("length", c.c_size_t), ("name", c.c_char_p), ("graph", c.c_char_p)]


class Tensor(_Sized):
    _fields_ = [("size", c.c_size_t), ("name", c.c_char_p), ("dtype", c.c_char_p), ("rank", c.c_int), ("dims", c.c_char_p * 8),
                ("strides", c.c_char_p * 8)]


class PlanOptions(_Sized):
    _fields_ = [("size", c.c_size_t), ("target", c.c_char_p), ("backend", c.c_int), ("stage", c.c_int), ("dims", c.c_void_p),
                ("n_dims", c.c_int), ("hints", c.c_void_p), ("n_hints", c.c_int), ("no_fusion", c.c_int), ("verify", c.c_int),
                ("pass_limit", c.c_int), ("skip", c.c_char_p), ("no_cache", c.c_int), ("dump", c.c_void_p),
                ("dump_context", c.c_void_p)]


class Execution(_Sized):
    _fields_ = [("size", c.c_size_t), ("inputs", c.POINTER(c.c_void_p)), ("n_inputs", c.c_int), ("outputs", c.POINTER(c.c_void_p)),
                ("n_outputs", c.c_int), ("dims", c.POINTER(c.c_int64)), ("n_dims", c.c_int), ("workspace", c.c_void_p),
                ("workspace_bytes", c.c_size_t), ("stream", c.c_void_p), ("message", c.c_char_p), ("message_room", c.c_size_t)]


class Times(_Sized):
    _fields_ = [("size", c.c_size_t)] + [(n, c.c_double) for n in ("passes_ms", "codegen_ms", "backend_ms", "ptxas_ms", "load_ms")]


class Kernel(_Sized):
    _fields_ = [("size", c.c_size_t), ("name", c.c_char_p), ("kind", c.c_char_p), ("backend", c.c_char_p), ("cuda", c.c_char_p),
                ("ir", c.c_char_p), ("ptx", c.c_char_p), ("cubin", c.c_void_p), ("cubin_bytes", c.c_size_t),
                ("assembler", c.c_char_p), ("threads", c.c_int), ("registers", c.c_int), ("stack_bytes", c.c_int),
                ("spill_store_bytes", c.c_int), ("spill_load_bytes", c.c_int), ("shared_bytes", c.c_int64), ("from_cache", c.c_int)]


class Diagnostic(c.Structure):
    _fields_ = [("severity", c.c_int), ("id", c.c_char_p), ("message", c.c_char_p), ("file", c.c_char_p), ("line", c.c_int),
                ("column", c.c_int), ("text", c.c_char_p)]


class Failure(Exception):
    pass


BACKENDS = {"auto": 0, "llvm": 1, "nvrtc": 2}


class Library:
    def __init__(self, path, **options):
        self.lib = c.CDLL(path)
        for name in ("context", "graph", "plan"):
            getattr(self.lib, f"sinter_{name}_diagnostic").restype = c.POINTER(Diagnostic)
        self.lib.sinter_graph_name.restype = c.c_char_p
        self.context = c.c_void_p()
        status = self.lib.sinter_context_create(c.byref(ContextOptions(use_device=1, read_environment=1, **options)),
                                                c.byref(self.context))
        self.check(status, "context", self.context)

    def check(self, status, kind, handle):
        if status:
            text, i = "", 0
            while handle:
                d = getattr(self.lib, f"sinter_{kind}_diagnostic")(handle, i)
                if not d:
                    break
                text += d.contents.text.decode()
                i += 1
            raise Failure(f"{kind}: status {status}\n{text}")

    def plan(self, text, graph, backend="auto", no_fusion=False, no_cache=True):
        return Plan(self, text, graph, backend, no_fusion, no_cache)


class Plan:
    """One graph without symbolic dims, compiled and loaded."""

    def __init__(self, library, text, graph, backend, no_fusion, no_cache):
        lib = self.lib = library.lib
        handle = c.c_void_p()
        source = Source(text=text.encode(), graph=graph.encode())
        library.check(lib.sinter_graph_parse(library.context, c.byref(source), c.byref(handle)), "graph", handle)
        self.inputs, self.outputs = self._tensors(handle, "input"), self._tensors(handle, "output")
        self.handle = c.c_void_p()
        options = PlanOptions(backend=BACKENDS[backend], no_fusion=int(no_fusion), no_cache=int(no_cache))
        status = lib.sinter_plan_create(library.context, handle, c.byref(options), c.byref(self.handle))
        lib.sinter_graph_destroy(handle)
        library.check(status, "plan", self.handle)
        need = c.c_size_t()
        library.check(lib.sinter_plan_workspace(self.handle, None, 0, c.byref(need)), "plan", self.handle)
        self.workspace_bytes = need.value

    def _tensors(self, graph, side):
        """Types and shapes of the graph's inputs, or of its outputs."""
        found, t = [], Tensor()
        for i in range(getattr(self.lib, f"sinter_graph_{side}_count")(graph)):
            getattr(self.lib, f"sinter_graph_{side}")(graph, i, c.byref(t))
            found.append((t.dtype.decode(), tuple(int(t.dims[k]) for k in range(t.rank))))
        return found

    def bind(self, inputs, outputs, workspace, stream):
        """A call without arguments that launches on these device pointers."""
        ins = (c.c_void_p * max(1, len(inputs)))(*inputs)
        outs = (c.c_void_p * max(1, len(outputs)))(*outputs)
        message = c.create_string_buffer(512)
        e = Execution(inputs=ins, n_inputs=len(inputs), outputs=outs, n_outputs=len(outputs), workspace=workspace,
                      workspace_bytes=self.workspace_bytes, stream=stream, message=c.cast(message, c.c_char_p), message_room=512)
        self.kept = (ins, outs, message, e)
        execute, plan, reference = self.lib.sinter_plan_execute, self.handle, c.byref(e)

        def launch():
            if execute(plan, reference):
                raise Failure(message.value.decode())
        return launch

    def times(self):
        t = Times()
        self.lib.sinter_plan_times(self.handle, c.byref(t))
        return {n: round(getattr(t, n), 3) for n, _ in Times._fields_[1:]}

    def kernels(self):
        found = []
        for i in range(self.lib.sinter_plan_kernel_count(self.handle)):
            k = Kernel()
            self.lib.sinter_plan_kernel(self.handle, i, c.byref(k))
            found.append({"name": k.name.decode(), "kind": k.kind.decode(), "backend": (k.backend or b"").decode(),
                          "assembler": (k.assembler or b"").decode(), "registers": k.registers, "threads": k.threads,
                          "shared_bytes": k.shared_bytes, "spill_bytes": k.spill_store_bytes + k.spill_load_bytes,
                          "stack_bytes": k.stack_bytes})
        return found

    def close(self):
        self.lib.sinter_plan_destroy(self.handle)
