"""What the programs of this folder share that run graphs on a GPU through PyTorch: types by Sinter's names, memory that nobody wrote, and
times with nothing left in L2."""
import torch

FLUSH = 256 << 20

TYPES = {"f64": torch.float64, "f32": torch.float32, "tf32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
         "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "i64": torch.int64, "i32": torch.int32, "i8": torch.int8,
         "u8": torch.uint8, "bool": torch.bool}


def size(dtype, shape):
    """Bytes of a tensor."""
    return torch.Size(shape).numel() * TYPES[dtype].itemsize


def poisoned(n):
    """Memory of n bytes, all ones: NaN in every floating-point type."""
    return torch.full([max(256, n)], 0xFF, dtype=torch.uint8, device="cuda")


class Cold:
    """Times of calls each of which finds L2 full of something else."""

    def __init__(self):
        self.flush = torch.empty(FLUSH, dtype=torch.uint8, device="cuda")

    def times(self, call, n):
        """Microseconds of n calls, behind one another."""
        pairs = []
        for _ in range(n):
            self.flush.zero_()
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            a.record()
            call()
            b.record()
            pairs.append((a, b))
        torch.cuda.synchronize()
        return [a.elapsed_time(b) * 1e3 for a, b in pairs]
