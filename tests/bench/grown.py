"""What suites of random graphs are written with: expressions that are a graph's text and PyTorch's values at once, and a graph of them as
it grows."""
import torch
import torch.nn.functional as F

from cases import BF, F32, gelu

TYPES = {"bf16": BF, "f16": torch.float16, "f32": F32}

ACTIVATIONS = {
    "none": ("({})", lambda x: x),
    "relu": ("relu({})", F.relu),
    "gelu_t": ("gelu({}, approx=tanh)", gelu),
    "gelu": ("gelu({})", F.gelu),
    "silu": ("silu({})", F.silu),
    "sigmoid": ("sigmoid({})", torch.sigmoid),
    "tanh": ("tanh({})", torch.tanh),
    "mish": ("mish({})", F.mish),
}


class Term:
    """An expression twice: as a graph's text, and as what PyTorch computes from the tensors of these names."""

    def __init__(self, text, value):
        self.text, self.value = text, value

    def __add__(self, other):
        return Term(f"({self.text} + {other.text})", lambda v: self.value(v) + other.value(v))

    def __mul__(self, other):
        return Term(f"({self.text} * {other.text})", lambda v: self.value(v) * other.value(v))

    def __matmul__(self, other):
        return Term(f"({self.text} @ {other.text})", lambda v: self.value(v) @ other.value(v))

    def through(self, text, function):
        return Term(text.format(self.text), lambda v: function(self.value(v)))

    def turned(self):
        return Term(f"{self.text}.T", lambda v: self.value(v).transpose(-1, -2))


class Grown:
    """A graph as it grows, from a source of random choices: inputs (name, type, shape, what makes one), statements (names, term), and outputs
    (name, type, shape). What is derived of it has a name()."""

    def __init__(self, r, number, family):
        self.random, self.number, self.family = r, number, family
        self.inputs, self.statements, self.outputs = [], [], []

    # ---- what families are written with

    def chance(self, p):
        return self.random.random() < p

    def activated(self, term):
        return term.through(*ACTIVATIONS[self.random.choice(list(ACTIVATIONS))])

    def let(self, name, term):
        self.statements.append((name, term))
        return Term(name, lambda v: v[name])

    # ---- what becomes of it

    def text(self):
        def declared(name, type, shape, *_):
            return f"{name}: {type}[{', '.join(map(str, shape))}]"
        return (f"graph {self.name()} ({', '.join(declared(*i) for i in self.inputs)}) -> "
                f"({', '.join(declared(*o) for o in self.outputs)})\n{{\n"
                + "".join(f"    {name} = {term.text}\n" for name, term in self.statements) + "}\n")

    def make(self):
        return [make() for *_, make in self.inputs]

    def peer(self, *tensors):
        v = dict(zip((name for name, *_ in self.inputs), tensors))
        for name, term in self.statements:
            names = name.split(", ")
            v.update(zip(names, term.value(v) if len(names) > 1 else [term.value(v)]))
        return tuple(v[name] for name, *_ in self.outputs)
