"""Inputs and peers of each graph of conv.sg, in the form that cases.py describes. A peer sees the same memory with channels behind the
batch, as PyTorch counts axes: its channels_last. The least that a convolution must do is counted from what its graph declares."""
import functools
import math

import torch
import torch.nn.functional as F

from cases import BF, F32, positive, rand
from rare import NARROW_RATE, declared, made, scales, size

torch.backends.cudnn.benchmark = True
DECLARED = declared(__file__)


def case(name, peer, rate=1, channels=-1, together=None, **values):
    """(name, its case). Each weight w... is multiplied with the window of every place of the first output; `channels` is the output's axis
    that is no place. `values` are those that made() takes."""
    inputs, outputs = DECLARED[name]
    _, _, shape = outputs[0]
    weights = {tensor: math.prod(dims) for tensor, _, dims in inputs if tensor.startswith("w")}
    spread = {tensor: 2 / math.sqrt(math.prod(dims[1:])) for tensor, _, dims in inputs if tensor in weights}  # results deviate by 1
    values = spread | values
    return name, (together or (lambda: [made(*tensor, values.get(tensor[0])) for tensor in inputs]), peer,
                  2.0 * rate * math.prod(shape) / shape[channels] * sum(weights.values()), size(inputs + outputs))


def channels_first(t):
    return t.movedim(-1, 1) if t.dim() > 2 else t


def channels_last(t):
    return t.movedim(1, -1)


def convolved(x, w, b=None, stride=1, pad=0, dilation=1, groups=1):
    layer = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[x.dim()]
    if x.dtype == torch.float64:  # not worth a search
        with torch.backends.cudnn.flags(enabled=True, benchmark=False):
            return layer(x, w, b, stride, pad, dilation, groups)
    return layer(x, w, b, stride, pad, dilation, groups)


def layer(after=lambda y: y, biased=False, **how):
    """A convolution, its bias the layer's own where it has one, and what comes after it."""

    def peer(x, w, *rest):
        x, w, *rest = map(channels_first, (x, w, *rest))
        b, rest = (rest[0], rest[1:]) if biased else (None, rest)
        return channels_last(after(convolved(x, w, b, **how), *rest))

    return peer


@functools.cache
def standard(channels):
    """Mean and variance of a batch norm that only scales and shifts."""
    return torch.zeros(channels, device="cuda"), torch.full((channels,), 1 - 1e-5, device="cuda")


def scaled(y, s, b):
    """As a net that is not trained has it: a batch norm."""
    if y.dtype == torch.float64:
        shape = (-1,) + (1,) * (y.dim() - 2)
        return y * s.view(shape) + b.view(shape)
    return F.batch_norm(y, *standard(y.shape[1]), s, b, False, 0.0, 1e-5)


def scaled_relu(y, s, b):
    return F.relu(scaled(y, s, b))


def scaled_residual_relu(y, s, b, r):
    return F.relu(scaled(y, s, b) + r)


def normalized_relu6(y, m, v, g, b):
    return F.relu6(F.batch_norm(y, m, v, g, b, False, 0.0, 1e-5))


def with_statistics(x, w):
    y = convolved(channels_first(x), channels_first(w), pad=1)
    wide = torch.promote_types(y.dtype, F32)
    return channels_last(y), y.sum((0, 2, 3), dtype=wide), torch.linalg.vector_norm(y, dim=(0, 2, 3), dtype=wide).square()


def scaled_int8(x, w, s):
    """In bf16, which has all of these numbers: PyTorch has no such convolution on GPUs."""
    wide = s.dtype if s.dtype == torch.float64 else BF
    y = convolved(channels_first(x.to(wide)), channels_first(w.to(wide)), pad=1)
    return channels_last(scaled(y, s, standard(len(s))[0]))


def norm_in(x, g, h, w, t, r):
    x, w, t, r = map(channels_first, (x, w, t, r))
    return channels_last(convolved(F.silu(F.group_norm(x, 32, g, h, 1e-5)), w, pad=1) + t + r)


def gated(x, w, wg):
    x, w, wg = map(channels_first, (x, w, wg))
    return channels_last(torch.tanh(convolved(x, w, pad=4, dilation=4)) * torch.sigmoid(convolved(x, wg, pad=4, dilation=4)))


def gated_halves(y):
    a, g = y.chunk(2, 1)
    return torch.tanh(a) * torch.sigmoid(g)


def whisper():
    """(inputs, peer): with time behind the channels, so weights in PyTorch's own order, made once."""
    kept = {}

    def together():
        x, w, b = rand(16, 384, 3000), rand(384, 3, 384, scale=2 / math.sqrt(3 * 384)), rand(384)
        kept["w"] = channels_first(w).contiguous()
        return [x, w, b]

    def peer(x, w, b):
        return F.gelu(convolved(x, channels_first(w) if w.dtype == torch.float64 else kept["w"], b, pad=1))

    return together, peer


spectrogram, on_spectrogram = whisper()

def backward(of_weights, dy, x, w, stride=1, pad=0, dilation=1, groups=1):
    """A convolution's gradient of its weights or of its data, of which `w` or `x` has the shape alone; not worth a search in float64."""
    n = dy.dim() - 2
    with torch.backends.cudnn.flags(enabled=True, benchmark=dy.dtype != torch.float64):
        data, weights, _ = torch.ops.aten.convolution_backward(dy, x, w, None, n * [stride], n * [pad], n * [dilation], False, n * [0], groups,
                                                               [not of_weights, of_weights, False])
    return channels_last(weights if of_weights else data)


def gradient(of_weights, taps, size, channels, stride=1, groups=1, masked=False):
    """Of a 3 x 3 convolution of `channels` channels, pad 1, whose input is `size` wide; 64 images."""
    how = {"stride": stride, "pad": 1, "groups": groups}
    shape = {"w": (channels, taps, taps, channels // groups), "x": (64, size, size, channels)}

    def empty(like, name):
        return channels_first(torch.empty(shape[name], device="cuda", dtype=like.dtype))

    def peer(dy, other, *rest):
        dy, other = channels_first(dy), channels_first(other)
        if of_weights:
            return backward(True, dy, other, empty(dy, "w"), **how)
        dx = backward(False, dy, empty(dy, "x"), other, **how)
        return torch.where(rest[0] > 0, dx, 0) if masked else dx

    return peer


def gradient_case(name, channels, size_, stride=1, groups=1, **how):
    inputs, outputs = DECLARED[name]
    places = 64 * (size_ // stride) ** 2
    peer = gradient(name.startswith("wgrad"), 3, size_, channels, stride, groups, **how)
    spread = {"w": 2 / math.sqrt(9 * channels // groups)}
    return name, (lambda: [made(*tensor, spread.get(tensor[0])) for tensor in inputs], peer,
                  2.0 * places * channels * (channels // groups) * 9, size(inputs + outputs))


def first_layer_case(name, stride=1, pad=0):
    """The gradient of a first layer's weights."""
    inputs, outputs = DECLARED[name]
    _, _, shape = outputs[0]
    places = math.prod(inputs[0][2][:3])

    def peer(dy, x):
        dy, x = channels_first(dy), channels_first(x)
        w = channels_first(torch.empty(shape, device="cuda", dtype=dy.dtype))
        return backward(True, dy, x, w, stride, pad)

    return name, (lambda: [made(*tensor, None) for tensor in inputs], peer, 2.0 * places * math.prod(shape), size(inputs + outputs))


CASES = dict([
    case("conv3x3_64_56_sbr", layer(scaled_relu, pad=1), s=positive),
    case("conv1x1_256_1024_14_sbar", layer(scaled_residual_relu), s=positive),
    case("conv3x3s2_128_56_sbr", layer(scaled_relu, stride=2, pad=1), s=positive),
    case("conv7x7s2_stem_sbr", layer(scaled_relu, stride=2, pad=3), s=positive),
    case("conv7x7s2_stem4_sbr", layer(scaled_relu, stride=2, pad=3), s=positive),
    case("conv1x1_64_256_56_sbar", layer(scaled_residual_relu), s=positive),
    case("conv3x3_256_14_sbr", layer(scaled_relu, pad=1), s=positive),
    case("conv3x3_512_7_sbr", layer(scaled_relu, pad=1), s=positive),
    case("conv1x1s2_256_512_56_sb", layer(scaled, stride=2), s=positive),
    case("maxpool3s2_64_112", lambda x: channels_last(F.max_pool2d(channels_first(x), 3, 2, 1))),
    case("conv_bnstats", with_statistics),

    case("conv3x3_512_28_plain", layer(pad=1)),
    case("conv3x3_128_112_vgg", layer(F.relu, biased=True, pad=1)),
    case("conv3x3d2_256_28_sbr", layer(scaled_relu, pad=2, dilation=2), s=positive),
    case("conv3x3_256_28_f16", layer(scaled_relu, pad=1), s=positive),
    case("conv3x3_256_28_i8", scaled_int8, rate=NARROW_RATE, s=scales(5e-6)),
    case("conv3x3g32_256_28_sbr", layer(scaled_relu, pad=1, groups=32), s=positive),
    case("conv3x3g32_512_14_sbr", layer(scaled_relu, pad=1, groups=32), s=positive),
    case("conv3x3g32_128_56_sbr", layer(scaled_relu, pad=1, groups=32), s=positive),
    case("conv3x3g32_1024_7_sbr", layer(scaled_relu, pad=1, groups=32), s=positive),
    case("conv3x3g6_144_28", layer(pad=1, groups=6)),
    case("conv3x3g4_192_28", layer(pad=1, groups=4)),
    case("conv7x7g8_128_64_f16", layer(pad=3, groups=8)),
    case("conv7x7g2_80_64", layer(pad=3, groups=2)),
    case("dwconv3x3_96_112", layer(pad=1, groups=96)),
    case("dwconv_bn_relu6", layer(normalized_relu6, pad=1, groups=96), v=positive, g=positive),
    case("dwconv7x7_96_56_convnext", layer(biased=True, pad=3, groups=96)),
    case("avgpool2_256_56", lambda x: channels_last(F.avg_pool2d(channels_first(x), 2))),
    case("patches16_vit", layer(biased=True, stride=16)),

    case("conv3x3_320_64_bs_sdxl", layer(F.silu, biased=True, pad=1)),
    case("gn_silu_conv_sdxl", norm_in),
    case("conv3x3_1280_16_unet", layer(biased=True, pad=1)),
    case("conv3d_64_32", layer(pad=1)),
    case("conv3d_in_leaky", layer(lambda y: F.leaky_relu(F.instance_norm(y), 0.01), pad=1)),

    case("conv1d_whisper_gelu", on_spectrogram, channels=1, together=spectrogram),
    case("conv1d_wavenet", gated),
    case("conv1d_waveglow", layer(gated_halves, biased=True, pad=4, dilation=4)),

    gradient_case("dgrad3x3_64_56", 64, 56, masked=True),
    gradient_case("dgrad3x3_512_28", 512, 28),
    gradient_case("dgrad_s2_relu", 128, 56, 2, masked=True),
    gradient_case("wgrad3x3_64_56", 64, 56),
    gradient_case("wgrad3x3_512_28", 512, 28),
    gradient_case("wgrad_s2_128", 128, 56, 2),
    gradient_case("dwgrad3x3_96_112", 96, 112, groups=96),
    gradient_case("dgrad3x3g16_256_28", 256, 28, groups=16),
    gradient_case("wgrad3x3g16_256_28", 256, 28, groups=16),
    first_layer_case("wgrad7x7s2_stem", stride=2, pad=3),
    first_layer_case("wgrad3x3_stem", pad=1),
    first_layer_case("wgrad4x4s4_stem", stride=4),
    first_layer_case("wgrad16x16s16_vit", stride=16),
])
# Sums over all places of what is rounded to 16 bits.
TOLERANCES = {
    "conv_bnstats": {"f32": 5e-3},
}
