"""Makes splicing networks from seeds with PyTorch, padded and cropped as OpenSpliceAI computes them, and what they say of random bases.

For each of 4, 8, 12 and 16 residual units it writes UNITS.pt (state dict, which the test converts), UNITS.txt (windows) and
UNITS.f32 (probabilities [window, 3, position], little-endian): python splicing.py FOLDER
"""

import pathlib
import sys

import torch
from torch import nn

CHANNELS = 8
WIDTHS = [11] * 8 + [21] * 4 + [41] * 4
DILATIONS = [1] * 4 + [4] * 4 + [10] * 4 + [25] * 4


class ResidualUnit(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.batchnorm1, self.batchnorm2 = nn.BatchNorm1d(CHANNELS), nn.BatchNorm1d(CHANNELS)
        same = dict(dilation=dilation, padding=dilation * (width - 1) // 2)
        self.conv1, self.conv2 = nn.Conv1d(CHANNELS, CHANNELS, width, **same), nn.Conv1d(CHANNELS, CHANNELS, width, **same)

    def forward(self, x):
        y = self.conv1(nn.functional.leaky_relu(self.batchnorm1(x), 0.1))
        return x + self.conv2(nn.functional.leaky_relu(self.batchnorm2(y), 0.1))


class Skip(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(CHANNELS, CHANNELS, 1)


class Network(nn.Module):
    def __init__(self, units):
        super().__init__()
        self.context = 2 * sum((w - 1) * d for w, d in zip(WIDTHS[:units], DILATIONS[:units]))
        self.initial_conv, self.initial_skip = nn.Conv1d(4, CHANNELS, 1), Skip()
        self.residual_units = nn.ModuleList()
        for i in range(units):
            self.residual_units.append(ResidualUnit(WIDTHS[i], DILATIONS[i]))
            if i % 4 == 3:
                self.residual_units.append(Skip())
        self.final_conv = nn.Conv1d(CHANNELS, 3, 1)

    def forward(self, x):
        x = self.initial_conv(x)
        skips = self.initial_skip.conv(x)
        for m in self.residual_units:
            if isinstance(m, Skip):
                skips = skips + m.conv(x)
            else:
                x = m(x)
        half = self.context // 2
        return self.final_conv(skips[..., half : skips.shape[-1] - half]).softmax(1)


def main(folder):
    for units in (4, 8, 12, 16):
        torch.manual_seed(units)
        network = Network(units).eval()
        for m in network.modules():
            if isinstance(m, nn.BatchNorm1d):
                for values in (m.weight.data, m.running_var):
                    values.uniform_(0.5, 1.5)
                for values in (m.bias.data, m.running_mean):
                    values.normal_(0, 0.2)
        torch.save(network.state_dict(), folder / f"{units}.pt")
        letters = torch.randint(0, 5, (3, network.context + 101))  # 4 is N
        (folder / f"{units}.txt").write_text("\n".join("".join("ACGTN"[i] for i in row) for row in letters) + "\n")
        bases = nn.functional.one_hot(letters, 5)[..., :4].transpose(1, 2).double()
        with torch.no_grad():
            out = network.double()(bases)
        (folder / f"{units}.f32").write_bytes(out.float().numpy().astype("<f4").tobytes())
    # What a conversion refuses.
    for name, tensor, value in (
        ("nan", "conv2.weight", float("nan")), ("variance", "batchnorm1.running_var", -1.0), ("scale", "batchnorm1.weight", float("inf")),
    ):
        state = torch.load(folder / "4.pt")
        state["residual_units.1." + tensor].view(-1)[0] = value
        torch.save(state, folder / f"{name}.pt")
    state = torch.load(folder / "4.pt")
    state["residual_units.0.conv1.weight"] = state["residual_units.0.conv1.weight"][:, :, :9].clone()
    torch.save(state, folder / "width.pt")


main(pathlib.Path(sys.argv[1]))
