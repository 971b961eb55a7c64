"""Makes splicing networks from seeds as Keras saves them, with h5py, and what they say of random bases, with PyTorch in double precision.

keras.py FOLDER [tiny]: for each of 4 and 16 residual units (tiny: one small network) it writes NAME.h5, NAME.txt (windows) and NAME.f32 (probabilities
[window, 3, position], little-endian). 4.h5 has the form of Keras 2.0.5, in which SpliceAI's files are, 16.h5 that of tf.keras 2.15.
"""

import json
import pathlib
import sys

import h5py
import numpy as np
import torch
from torch.nn import functional

WIDTHS = [11] * 8 + [21] * 4 + [41] * 4
DILATIONS = [1] * 4 + [4] * 4 + [10] * 4 + [25] * 4


class Network:
    """Layers in Keras' functional form, with what each gives for an input, padded as Keras pads."""

    def __init__(self, seed, x, new):
        self.rng, self.x, self.new = np.random.default_rng(seed), x, new
        self.layers, self.weights, self.values, self.counts = [], {}, {}, {}

    def add(self, kind, inputs, value, weights=None, **config):
        self.counts[kind] = self.counts.get(kind, 0) + 1
        name = f"{kind.lower()}_{self.counts[kind]}"
        config |= {"name": name, "trainable": True}
        inbound = [[[i, 0, 0, {}] for i in inputs]] if inputs else []
        self.layers.append({"class_name": kind, "config": config, "inbound_nodes": inbound, "name": name})
        self.weights[name], self.values[name] = weights or {}, value
        return name

    def input(self):
        return self.add("InputLayer", [], self.x, batch_input_shape=[None, None, 4], dtype="float32", sparse=False)

    def conv(self, inputs, filters, width=1, dilation=1, padding="same", activation="linear"):
        x = self.values[inputs]
        kernel = self.rng.normal(0, 1 / np.sqrt(width * x.shape[1]), (width, x.shape[1], filters)).astype("<f4")
        bias = self.rng.normal(0, 0.1, filters).astype("<f4")
        pad = dilation * (width - 1) // 2 if padding == "same" else 0
        weight = torch.tensor(kernel.transpose(2, 1, 0).copy()).double()
        y = functional.conv1d(x, weight, torch.tensor(bias).double(), dilation=dilation, padding=pad)
        if activation == "softmax":
            y = y.softmax(1)
        config = dict(filters=filters, kernel_size=[width], strides=[1], padding=padding, dilation_rate=[dilation], activation=activation, use_bias=True)
        if self.new:
            config |= {"data_format": "channels_last", "groups": 1}
        return self.add("Conv1D", [inputs], y, {"kernel": kernel, "bias": bias}, **config)

    def norm(self, inputs, epsilon=1e-3):
        x, n = self.values[inputs], self.values[inputs].shape[1]
        w = {"gamma": self.rng.uniform(0.5, 1.5, n), "beta": self.rng.normal(0, 0.2, n),
             "moving_mean": self.rng.normal(0, 0.2, n), "moving_variance": self.rng.uniform(0.5, 1.5, n)}
        w = {k: v.astype("<f4") for k, v in w.items()}
        g, b, m, v = (torch.tensor(w[k]).double()[:, None] for k in ("gamma", "beta", "moving_mean", "moving_variance"))
        y = (x - m) / (v + epsilon).sqrt() * g + b
        return self.add("BatchNormalization", [inputs], y, w, axis=[2] if self.new else -1, epsilon=epsilon, momentum=0.99, center=True, scale=True)

    def relu(self, inputs):
        return self.add("Activation", [inputs], self.values[inputs].relu(), activation="relu")

    def sum(self, *inputs):
        return self.add("Add", list(inputs), sum(self.values[i] for i in inputs))

    def crop(self, inputs, bases):
        x = self.values[inputs]
        return self.add("Cropping1D", [inputs], x[..., bases : x.shape[-1] - bases], cropping=[bases, bases])

    def save(self, path, output):
        config = {"name": "model_1", "layers": self.layers, "input_layers": [["inputlayer_1", 0, 0]], "output_layers": [[output, 0, 0]]}
        text = json.dumps({"class_name": "Functional" if self.new else "Model", "config": config})
        with h5py.File(path, "w") as f:
            bytes_ = (lambda s: s) if self.new else np.bytes_
            f.attrs["keras_version"], f.attrs["backend"] = bytes_("2.15.0" if self.new else "2.0.5"), bytes_("tensorflow")
            f.attrs["model_config"] = bytes_(text)
            root = f.create_group("model_weights")
            root.attrs["layer_names"] = [np.bytes_(layer["name"]) for layer in self.layers]
            for layer, weights in self.weights.items():
                group = root.create_group(layer)
                names = [f"{layer}/{name}:0" for name in weights]
                group.attrs["weight_names"] = [np.bytes_(n) for n in names]
                for n, value in zip(names, weights.values()):
                    group.create_dataset(n, data=value)


def make(folder, name, widths, dilations, channels, positions, new, every=4):
    context = 2 * sum((w - 1) * d for w, d in zip(widths, dilations))
    rng = np.random.default_rng(len(widths))
    letters = rng.integers(0, 5, (2, context + positions))
    bases = functional.one_hot(torch.tensor(letters), 5)[..., :4].transpose(1, 2).double()
    n = Network(len(widths), bases, new)
    x = n.conv(n.input(), channels, padding="valid")
    skip = n.conv(x, channels, padding="valid")
    for i, (width, dilation) in enumerate(zip(widths, dilations)):
        y = n.conv(n.relu(n.norm(x)), channels, width, dilation)
        y = n.conv(n.relu(n.norm(y)), channels, width, dilation)
        x = n.sum(y, x)
        if i % every == every - 1:
            skip = n.sum(skip, n.conv(x, channels, padding="valid"))
    out = n.conv(n.crop(skip, context // 2), 3, padding="valid", activation="softmax")
    n.save(folder / f"{name}.h5", out)
    (folder / f"{name}.txt").write_text("\n".join("".join("ACGTN"[i] for i in row) for row in letters) + "\n")
    (folder / f"{name}.f32").write_bytes(n.values[out].float().numpy().astype("<f4").tobytes())


def main(folder, tiny):
    if tiny:
        make(folder, "tiny", [3], [2], 2, 101, False, every=1)
        return
    for units in (4, 16):
        make(folder, str(units), WIDTHS[:units], DILATIONS[:units], 8, 101, units == 16)


main(pathlib.Path(sys.argv[1]), len(sys.argv) > 2)
