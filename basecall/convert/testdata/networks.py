#!/usr/bin/env python3
"""Build networks of Bonito's architectures from a seed, save them as Bonito and as Dorado do,
and write what PyTorch computes with them.

    networks.py SIGNAL OUT small|full [CASE]
    networks.py SIGNAL OUT trained FOLDER WINDOW

The latter computes, in double precision, what a network of blocks says whose weights lie in a
folder, of windows of so many samples. SIGNAL holds normalised samples, float32. For each case OUT/NAME is a model's folder and
OUT/NAME.f32 the scores of SIGNAL, float32, frames by scores. The small ones are committed as
golden files; the full ones have the widths of ONT's models, with fewer layers where they would take long.
Needs torch and ont-bonito 1.1.0 (pip install --no-deps: only its networks and its export are used).
"""
import importlib.util
import pathlib
import sys
import tomllib
import types
from unittest import mock

import torch

# Bonito's packages import everything there is, CUDA's kernels included.
if importlib.util.find_spec("bonito") is None:
    sys.exit("ont-bonito is not installed")
BONITO = pathlib.Path(importlib.util.find_spec("bonito").submodule_search_locations[0])
for name, folder in (("bonito", BONITO), ("bonito.cli", BONITO / "cli"), ("bonito.ctc", BONITO / "ctc")):
    package = types.ModuleType(name)
    package.__path__ = [str(folder)]
    sys.modules[name] = package
for name in ("koi", "koi.lstm", "koi.ctc", "koi.decode", "parasail", "toml", "mappy", "pod5", "tqdm", "fast_ctc_decode"):
    if name.startswith("koi") or importlib.util.find_spec(name) is None:
        sys.modules[name] = mock.MagicMock()
sys.modules["koi.ctc"].SequenceDist = object

from bonito.cli import export  # noqa: E402
from bonito.crf.model import rnn_encoder  # noqa: E402
from bonito.ctc.model import Model as Blocks  # noqa: E402
from bonito.nn import from_dict, fuse_bn_, register  # noqa: E402


class Factorised(torch.nn.Module):
    """An LSTM whose matrices are products of two thin ones, and whose gates are clamped lines, as Dorado computes it.

    Bonito 1.1.0 doesn't have it. Names and shapes of the parameters, the order of gates (input, forget, cell, output)
    and what is computed are those that Dorado's loader and its reference on a processor want.
    """

    def __init__(self, insize, size, inner_dim):
        super().__init__()
        self.dn_weight_ih = torch.nn.Parameter(torch.randn(inner_dim, insize) / insize**0.5)
        self.dn_weight_hh = torch.nn.Parameter(torch.randn(inner_dim, size) / size**0.5)
        self.up_weight_ih = torch.nn.Parameter(torch.randn(4 * size, inner_dim) / inner_dim**0.5)
        self.up_weight_hh = torch.nn.Parameter(torch.randn(4 * size, inner_dim) / inner_dim**0.5)
        self.up_bias_ih = torch.nn.Parameter(torch.randn(4 * size) / 2)
        self.up_bias_hh = torch.nn.Parameter(torch.randn(4 * size) / 10)

    def forward(self, x):
        h = x.new_zeros(x.shape[1], self.dn_weight_hh.shape[1])
        c = torch.zeros_like(h)
        out = []
        for now in x:
            gates = self.up_weight_ih @ (self.dn_weight_ih @ now.T) + self.up_weight_hh @ (self.dn_weight_hh @ h.T)
            i, f, g, o = (gates.T + self.up_bias_ih + self.up_bias_hh).chunk(4, 1)
            i, f, o = ((gate / 5 + 0.5).clamp(0, 1) for gate in (i, f, o))
            c = f * c + i * g.clamp(-1, 1)
            h = o * c.tanh()
            out.append(h)
        return torch.stack(out)


@register
class FLSTM(torch.nn.Module):
    def __init__(self, insize, size, inner_dim, bias=True, reverse=False):
        super().__init__()
        self.reverse, self.rnn = reverse, Factorised(insize, size, inner_dim)

    def forward(self, x):
        return self.rnn(x.flip(0)).flip(0) if self.reverse else self.rnn(x)


@register
class FLSTM_Softout(FLSTM):
    """The name that a program which runs hac v6.0 knows it by."""


def toml_of(table, path=""):
    """Write TOML, enough of it for Bonito's configurations."""
    plain, tables = [], []
    for key, value in table.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, dict):
            tables.append(f"[{name}]\n{toml_of(value, name)}")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            tables += [f"[[{name}]]\n{toml_of(item, name)}" for item in value]
        else:
            text = str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')
            plain.append(f"{key} = {text}\n")
    return "".join(plain) + "\n" + "".join(tables)


def conv(insize, size, winlen, stride, activation, norm="batchnorm"):
    layer = dict(type="convolution", insize=insize, size=size, bias=True, winlen=winlen, stride=stride, padding=winlen // 2)
    layer["activation"] = activation
    if norm:
        layer["norm"] = norm
    return layer


def lstms(size, n):
    return [dict(type="lstm", size=size, insize=size, bias=True, reverse=(n - i) % 2) for i in range(n)]


def crf(insize, k, **extra):
    return dict(type="linearcrfencoder", insize=insize, n_base=4, state_len=k, bias=False, **extra)


LABELS = ["N", "A", "C", "G", "T"]
PERMUTE = dict(type="permute", dims=[2, 0, 1])
CLAMP = dict(type="clamp", min=-0.5, max=3.5)


def base(k, window, overlap, rate, **extra):
    return dict(
        model=dict(package="bonito.crf"), labels=dict(labels=LABELS), input=dict(features=1), global_norm=dict(state_len=k),
        run_info=dict(sample_rate=rate), qscore=dict(scale=0.95, bias=-0.2),
        basecaller=dict(batchsize=64, chunksize=window, overlap=overlap), **extra,
    )


def table(features, k, window, overlap, layers=None, **extra):
    encoder = dict(stride=5, winlen=19, scale=5.0, features=features, rnn_type="lstm", activation="swish", **extra)
    if layers:
        encoder["num_layers"] = layers
    config = base(k, window, overlap, 4000, encoder=encoder)
    del config["run_info"]
    return config


def v40(width, linear, k, window, overlap, layers=5, first=16):
    """As dna_r10.4.1@v4.0 and hac v4.2: clamps after convolutions, and a linear layer."""
    sublayers = [
        conv(1, first, 5, 1, "swish"), CLAMP, conv(first, first, 5, 1, "swish"), CLAMP, conv(first, width, 19, 5, "swish"), CLAMP, PERMUTE,
        *lstms(width, layers), dict(type="linear", in_features=width, out_features=linear), crf(linear, k, blank_score=2.0),
        dict(type="clamp", min=-5.0, max=5.0),
    ]
    return base(k, window, overlap, 4000, encoder=dict(type="serial", sublayers=sublayers))


def v43(width, k, window, overlap, layers=5, first=16):
    """As dna_r10.4.1@v4.3 and fast and hac v5: the third activation is tanh, and picoamperes."""
    sublayers = [
        conv(1, first, 5, 1, "swish"), conv(first, first, 5, 1, "swish"), conv(first, width, 19, 6, "tanh"), PERMUTE,
        *lstms(width, layers), crf(width, k, blank_score=2.0), dict(type="clamp", min=-5.0, max=5.0),
    ]
    return base(
        k, window, overlap, 5000, encoder=dict(type="serial", sublayers=sublayers), scaling=dict(strategy="pa"),
        standardisation=dict(standardise=1, mean=93.6376, stdev=22.6004),
    )


def v60(width, inner, k, window, overlap, layers=7, first=16, linear=None):
    """As dna_r10.4.1@v6.0 hac: factorised LSTMs. With linear as that program has them: a linear layer, and tanh in the place of a clamp."""
    config = v43(width, k, window, overlap, layers=0, first=first)
    kind = "flstm_softout" if linear else "flstm"
    sublayers = config["encoder"]["sublayers"]
    if linear:
        sublayers[4:] = [
            dict(type="linear", in_features=width, out_features=linear, bias=False), crf(linear, k, blank_score=2.0, activation="tanh", scale=5.0),
        ]
    sublayers[4:4] = [
        dict(type=kind, size=width, insize=width, inner_dim=inner, bias=True, reverse=(layers - i) % 2 == 1) for i in range(layers)
    ]
    config["run_info"] = dict(sample_type="dna", sample_rate=5000)
    config["poly_a"] = dict(calibration_coefficient=0.9)
    return config


def tx(c1, c2, width, heads, hidden, depth, reach, k, window, overlap):
    """As dna_r10.4.1@v5.0 sup: a transformer."""
    convs = [
        conv(1, c1, 5, 1, "swish"), conv(c1, c1, 5, 1, "swish"), conv(c1, c2, 9, 3, "swish"), conv(c2, c2, 9, 2, "swish"),
        conv(c2, width, 5, 2, "swish"), dict(type="permute", dims=[0, 2, 1]),
    ]
    layer = dict(
        type="transformerencoderlayer", d_model=width, nhead=heads, dim_feedforward=hidden, deepnorm_alpha=2.4494897,
        deepnorm_beta=0.2886751, attn_window=list(reach),
    )
    return dict(
        model=dict(
            type="seqdistmodel", package="bonito.transformer", seqdist=dict(state_len=k, alphabet=LABELS),
            encoder=dict(
                type="namedserial",
                conv=dict(type="serial", sublayers=convs),
                transformer_encoder=dict(type="stack", depth=depth, layer=layer),
                upsample=dict(type="linearupsample", d_model=width, scale_factor=2),
                crf=crf(width, k, scale=5.0, blank_score=2.0, expand_blanks=True, permute=[1, 0, 2]),
            ),
        ),
        scaling=dict(strategy="pa"), standardisation=dict(standardise=1, mean=93.6376, stdev=22.6004),
        run_info=dict(sample_type="dna", sample_rate=5000), qscore=dict(scale=1.05, bias=1.3),
        basecaller=dict(batchsize=128, chunksize=window, overlap=overlap),
    )


def block(filters, repeat, kernel, stride=1, dilation=1, residual=False, separable=False):
    return dict(
        filters=filters, repeat=repeat, kernel=[kernel], stride=[stride], dilation=[dilation], dropout=0.05, residual=residual, separable=separable
    )


def blocks(activation, *layers):
    """As dna_r9.4.1 of Bonito 0.2: QuartzNet."""
    return dict(
        model="small", labels=dict(labels=LABELS), input=dict(features=1), qscore=dict(scale=1.3, bias=-0.4),
        encoder=dict(activation=activation), block=list(layers), basecaller=dict(chunksize=120, overlap=24),
    )


CASES = {
    # The folders' names are of the form of ONT's.
    "small": {
        "dna_r9.4.1_small@v3.0": table(4, 2, 120, 20, layers=2),
        "dna_r9.4.1_small@v3.3": table(4, 2, 120, 20, layers=3, blank_score=2.0, first_conv_size=8),
        "dna_r10.4.1_small@v4.0.0": v40(6, 5, 2, 120, 20, layers=2, first=4),
        "dna_r10.4.1_small@v4.3.0": v43(6, 2, 120, 24, layers=3, first=4),
        "dna_r10.4.1_small@v5.0.0": tx(4, 4, 8, 2, 12, 2, (3, 4), 2, 120, 24),
        "dna_r9.4.1_small@v2": blocks(
            "swish", block(8, 1, 9, stride=3), block(12, 3, 7, residual=True, separable=True), block(16, 2, 5, residual=True),
            block(6, 1, 5, dilation=2, separable=True), block(8, 1, 3),
        ),
        "dna_r9.4.1_small@v1": blocks("relu", block(4, 1, 5, stride=2), block(4, 2, 3, residual=True, separable=True), block(6, 1, 1)),
        "dna_r10.4.1_small@v6.0.0": v60(6, 3, 2, 120, 24, layers=3, first=4),
        "dna_r10.4.1_small@v6.1.0": v60(6, 3, 2, 120, 24, layers=3, first=4, linear=5),
    },
    "full": {
        "dna_r9.4.1_e8_hac@v3.3": table(384, 4, 3000, 500, blank_score=2.0),
        "dna_r9.4.1_e8_sup@v3.0": table(768, 5, 3000, 500, layers=1),
        "dna_r10.4.1_e8.2_400bps_fast@v4.3.0": v43(96, 3, 3000, 504),
        "dna_r10.4.1_e8.2_400bps_hac@v4.2.0": v40(384, 128, 4, 3000, 500),
        "dna_r10.4.1_e8.2_400bps_sup@v4.0.0": v40(1024, 256, 5, 3000, 500, layers=1),
        "dna_r10.4.1_e8.2_400bps_hac@v5.0.0": v43(384, 4, 3000, 504),
        "dna_r10.4.1_e8.2_400bps_hac@v6.0.0": v60(1024, 128, 4, 3000, 504, layers=2, linear=128),
        "dna_r10.4.1_e8.2_400bps_sup@v5.0.0": tx(64, 128, 512, 8, 2048, 2, (127, 128), 5, 3000, 504),
    },
}


def network(config):
    """Build the encoder as bonito.crf.model and bonito.transformer.model do, or all of a network of blocks."""
    if "block" in config:
        encoder = Blocks(config)
    elif "encoder" not in config:
        encoder = from_dict(config["model"]["encoder"])
    elif "type" in config["encoder"]:
        encoder = from_dict(config["encoder"])
    else:
        encoder = rnn_encoder(4, config["global_norm"]["state_len"], insize=1, **config["encoder"])
    for module in encoder.modules():
        if hasattr(module, "expand_blanks"):
            module.expand_blanks = False  # fixed stays are the decoder's
            if module.scale is None:
                torch.nn.init.normal_(module.linear.weight, 0, 6 / module.linear.in_features**0.5)
        if isinstance(module, torch.nn.BatchNorm1d):
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.3, 2)
            torch.nn.init.uniform_(module.weight, 0.7, 1.5)
            torch.nn.init.normal_(module.bias, 0, 0.3)
        if isinstance(module, torch.nn.RMSNorm):
            torch.nn.init.uniform_(module.weight, 0.7, 1.3)
        if isinstance(module, torch.nn.LSTM):
            # Bonito freezes them at zero, but exports them.
            torch.nn.init.normal_(module.bias_hh_l0, 0, 0.1)
    return encoder.eval()


def main(signal, out, kind, which=None, window=0):
    samples = torch.frombuffer(bytearray(pathlib.Path(signal).read_bytes()), dtype=torch.float32)
    out = pathlib.Path(out)
    if kind == "trained":
        torch.set_num_threads(1)  # threads that wait for each other take longer on a busy machine
        folder = pathlib.Path(which)
        trained = Blocks(tomllib.loads((folder / "config.toml").read_text()))
        trained.load_state_dict(torch.load(folder / "weights_1.tar", weights_only=True))
        with torch.inference_mode():
            scores = trained.double().eval()(samples.double().reshape(-1, 1, int(window)))
        out.write_bytes(scores.transpose(0, 1).float().contiguous().numpy().tobytes())
        return
    for number, (name, config) in enumerate(CASES[kind].items()):
        if which not in (None, name):
            continue
        torch.manual_seed(20261122 + number)
        encoder = network(config)
        # A file in half precision is read as exactly as one in single.
        half = number % 2 == 1
        if half:
            encoder = encoder.half().float()
        with torch.inference_mode():
            scores = encoder(samples[None, None, :])[:, 0]
        out.mkdir(parents=True, exist_ok=True)
        (out / f"{name}.f32").write_bytes(scores.contiguous().numpy().tobytes())

        text = toml_of(config)
        bonito = out / f"{name}"
        bonito.mkdir()
        (bonito / "config.toml").write_text(text)
        if "block" in config:
            # As PyTorch did before 1.6.
            torch.save(encoder.state_dict(), bonito / "weights_1.tar", _use_new_zipfile_serialization=False)
            continue
        state = {"encoder." + key: value.half() if half and value.is_floating_point() else value for key, value in encoder.state_dict().items()}
        torch.save(state, bonito / "weights_2.tar")

        dorado = out / f"{name}.dorado"
        dorado.mkdir()
        (dorado / "config.toml").write_text(text)
        fused = encoder.apply(fuse_bn_)
        for key, value in fused.state_dict().items():
            export.save_tensor(dorado, key, value)
        layers = list(fused)
        if "encoder" in config and any(isinstance(layer, export.Clamp) for layer in layers[:-1]):
            export.reorder_layers_without_clamp(fused, dorado)


if __name__ == "__main__":
    main(*sys.argv[1:])
