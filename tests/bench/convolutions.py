"""Random convolutions: layers of nets for images, volumes and sound, forward and both gradients, drawn from a seed, each with its inputs and
its peer in the form that cases.py describes: cuDNN's, searched, of the same memory. What is drawn depends on the seed alone, so that two builds
are compared on the same graphs."""
import math
import random

import torch
import torch.nn.functional as F

from cases import BF, positive, rand
from conv import backward, channels_first, channels_last, convolved, scaled

torch.backends.cudnn.benchmark = True
CHANNELS = [3, 16, 24, 32, 40, 48, 64, 64, 80, 96, 128, 128, 160, 192, 256, 256, 320, 384, 480, 512, 640, 768, 960, 1024, 1280, 2048]
PLACES = {1: [64, 200, 500, 1024, 1500, 4000, 16000], 2: [7, 8, 14, 16, 20, 28, 32, 38, 40, 56, 64, 75, 80, 112, 128, 160, 224],
          3: [4, 8, 14, 16, 28, 32, 48]}
BATCHES = [1, 2, 4, 8, 16, 32, 64, 128, 256]
TAPS = {1: [1, 3, 5, 7, 9], 2: [1, 1, 3, 3, 3, 3, 5, 7], 3: [1, 3, 3]}
KINDS = ["plain", "plain", "plain", "scaled", "added", "silu", "data", "data", "weights", "weights", "grouped", "depthwise"]
LEAST_FLOPS, MOST_FLOPS, MOST_ELEMENTS = 4e8, 4e11, 1e8
TYPES = {"bf16": BF, "f16": torch.float16}
TOLERANCE = {"f16": 3e-3}


class Case:
    def __init__(self, r, number):
        self.number, self.kind = number, r.choice(KINDS)
        while True:
            self.axes = r.choice([1, 2, 2, 2, 2, 2, 2, 3])
            self.dtype = r.choice(["bf16", "bf16", "f16"])
            self.batch, self.size, self.taps = r.choice(BATCHES), r.choice(PLACES[self.axes]), r.choice(TAPS[self.axes])
            self.stride = r.choice([1, 1, 1, 2]) if self.taps <= 3 or self.kind == "plain" else 1
            self.dilation = r.choice([1, 1, 1, 1, 2]) if self.taps == 3 and self.stride == 1 else 1
            self.channels, self.features, self.groups = r.choice(CHANNELS), r.choice(CHANNELS[1:]), 1
            if self.kind == "depthwise":
                self.features = self.groups = self.channels
            elif self.kind == "grouped":
                self.groups = r.choice([2, 4, 8, 16, 32])
                self.features = self.channels
            self.pad = self.dilation * (self.taps - 1) // 2
            self.result = (self.size + 2 * self.pad - self.dilation * (self.taps - 1) - 1) // self.stride + 1
            self.x = [self.batch] + self.axes * [self.size] + [self.channels]
            self.y = [self.batch] + self.axes * [self.result] + [self.features]
            self.w = [self.features] + self.axes * [self.taps] + [self.channels // self.groups]
            self.flops = 2.0 * math.prod(self.y) * math.prod(self.w[1:])
            self.elements = math.prod(self.x) + math.prod(self.y) * (2 if self.kind == "added" else 1) + math.prod(self.w)
            is_least = self.flops > LEAST_FLOPS or self.kind == "depthwise" and self.elements > 4e6
            if (self.channels % self.groups == 0 and is_least and self.flops < MOST_FLOPS and self.elements < MOST_ELEMENTS
                    and (self.kind != "depthwise" or self.channels >= 24 and self.taps > 1) and (self.taps > 1 or self.kind != "grouped")):
                break

    def name(self):
        parts = [self.kind, self.number, f"{self.axes}d", f"{self.batch}x{self.size}x{self.channels}", f"{self.features}k{self.taps}"]
        parts += [f"s{self.stride}"] * (self.stride > 1) + [f"d{self.dilation}"] * (self.dilation > 1) + [f"g{self.groups}"] * (self.groups > 1)
        return "_".join(map(str, parts + ["f16"] * (self.dtype == "f16")))

    def text(self):
        t, how = self.dtype, f"stride={self.stride}, pad={self.pad}, dilation={self.dilation}, groups={self.groups}"
        x, y, w = f"{t}{self.x}", f"{t}{self.y}", f"{t}{self.w}"
        if self.kind == "data":
            return (f"graph {self.name()} (dy: {y}, w: {w}) -> (dx: {x})\n"
                    f"{{   dx = conv_backward_data(dy, w, {self.axes * [self.size]}, {how})   }}\n")
        if self.kind == "weights":
            return (f"graph {self.name()} (dy: {y}, x: {x}) -> (dw: {w})\n"
                    f"{{   dw = conv_backward_weights(dy, x, {self.axes * [self.taps]}, {how})   }}\n")
        inputs, made = f"x: {x}, w: {w}", f"conv(x, w, {how})"
        factors = f", s: f32[{self.features}], b: f32[{self.features}]"
        if self.kind == "scaled":
            inputs, made = inputs + factors, f"relu({made} * s + b)"
        elif self.kind == "added":
            inputs, made = inputs + factors + f", r: {y}", f"relu({made} * s + b + r)"
        elif self.kind == "silu":
            inputs, made = inputs + f", b: {t}[{self.features}]", f"silu({made} + b)"
        return f"graph {self.name()} ({inputs}) -> (y: {y})\n{{   y = {made}   }}\n"

    def make(self):
        t = TYPES[self.dtype]
        w = rand(*self.w, dtype=t, scale=2 / math.sqrt(math.prod(self.w[1:])))
        if self.kind == "data":
            return [rand(*self.y, dtype=t), w]
        if self.kind == "weights":
            return [rand(*self.y, dtype=t), rand(*self.x, dtype=t)]
        tensors = [rand(*self.x, dtype=t), w]
        if self.kind in ("scaled", "added"):
            tensors += [positive(self.features), positive(self.features)]
        if self.kind == "added":
            tensors.append(rand(*self.y, dtype=t))
        if self.kind == "silu":
            tensors.append(rand(self.features, dtype=t))
        return tensors

    def back(self, a, b):
        dy, other = channels_first(a), channels_first(b)
        is_data = self.kind == "data"
        shape = [self.batch, self.channels] + self.axes * [self.size] if is_data else [self.features, self.channels // self.groups] + self.axes * [self.taps]
        missing = torch.empty(shape, device=a.device, dtype=a.dtype, memory_format=torch.channels_last if self.axes == 2 else torch.contiguous_format)
        x, w = (missing, other) if is_data else (other, missing)
        return backward(not is_data, dy, x, w, self.stride, self.pad, self.dilation, self.groups)

    def forward(self, x, w, *rest):
        x, w = channels_first(x), channels_first(w)
        bias = rest[0] if self.kind == "silu" else None
        y = convolved(x, w, bias, self.stride, self.pad, self.dilation, self.groups)
        if self.kind == "scaled":
            y = F.relu(scaled(y, *rest))
        elif self.kind == "added":
            y = F.relu(scaled(y, *rest[:2]) + channels_first(rest[2]))
        elif self.kind == "silu":
            y = F.silu(y)
        return channels_last(y)

    def peer(self):
        return self.back if self.kind in ("data", "weights") else self.forward


def draw(seed, count):
    """(the graphs' text, CASES, TOLERANCES) of `count` cases."""
    r = random.Random(seed)
    cases = [Case(r, i) for i in range(count)]
    return ("sinter 1\n\n" + "\n".join(c.text() for c in cases), {c.name(): (c.make, c.peer(), c.flops, 2 * c.elements) for c in cases},
            {c.name(): TOLERANCE for c in cases})
