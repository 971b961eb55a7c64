"""Says what DeepMod2's networks make of reads, with PyTorch's own layers and pruning: deepmod2.py FILE... <reads.jsonl

A file that isn't there is written first, with random weights: a transformer, or LSTMs if its name says so. Prints a line for
each file and read: places and probabilities.
"""
import json, os, sys

import numpy as np
import torch
from torch import nn
from torch.nn.utils import prune

torch.manual_seed(5)
torch.set_num_threads(1)
reads = [json.loads(line) for line in sys.stdin]
WINDOW, NUMBERS = 21, 19  # 9 of the current, quality, base, base of the reference


class Classifier(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.fc, self.out = nn.Linear(inputs, 128), nn.Linear(128, 1)

    def forward(self, x):
        return torch.sigmoid(self.out(torch.relu(self.fc(x.flatten(1)))))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        position, step = np.arange(WINDOW)[:, None], np.exp(np.arange(0, 64, 2) * (-np.log(64) / 64))
        pe = np.zeros((1, WINDOW, 64), dtype=np.float32)
        pe[0, :, 0::2], pe[0, :, 1::2] = np.sin(position * step), np.cos(position * step)
        self.register_buffer("pe", torch.tensor(pe))


class Transformer(nn.Module):
    def __init__(self, layers=4):
        super().__init__()
        self.register_buffer("pad", torch.zeros(1, WINDOW, 5))
        self.pe_block = Block()
        layer = nn.TransformerEncoderLayer(d_model=88, nhead=8, dim_feedforward=256, dropout=0, batch_first=True)
        self.transformer_encoder = nn.TransformerEncoder(layer, num_layers=layers)
        self.classifier = Classifier(WINDOW * 88)

    def forward(self, x):
        n = len(x)
        return self.classifier(self.transformer_encoder(torch.cat((x, self.pe_block.pe.repeat(n, 1, 1), self.pad.repeat(n, 1, 1)), 2)))

    def prune(self):
        yield self.classifier.fc, 0.5
        for layer in self.transformer_encoder.layers:
            for part in (layer.linear1, layer.linear2, layer.self_attn.out_proj):
                yield part, 0.25


class LSTMs(nn.Module):
    def __init__(self):
        super().__init__()
        self.bilstm = nn.LSTM(NUMBERS, 24, num_layers=2, bidirectional=True, batch_first=True)
        self.classifier = Classifier(WINDOW * 48)

    def forward(self, x):
        return self.classifier(self.bilstm(x)[0])

    def prune(self):
        yield self.classifier.fc, 0.95


def features(read):
    """What is seen of each base, [bases, 19]."""
    x = np.array(read["all"], dtype=np.float64)
    x -= np.median(x)
    x /= np.median(np.abs(x))
    x = x[len(x) - len(read["samples"]):]
    rows = np.zeros((len(read["bases"]), NUMBERS))
    for i, b in enumerate(read["bases"][:-1]):
        s = x[read["starts"][i]:read["starts"][i + 1]]
        n = len(s)
        rows[i, :4] = [s[q * n // 4:(q + 1) * n // 4].mean() for q in range(4)]
        rows[i, 4:9] = np.median(s), np.median(np.abs(s - np.median(s))), s.mean(), s.std(), np.log10(n)
    for i, b in enumerate(read["bases"]):
        rows[i, 9], rows[i, 10 + b], rows[i, 18] = 1 - 10 ** (-read["qualities"][i] / 10), 1, 1
    return torch.tensor(rows, dtype=torch.float32)


for file in sys.argv[1:]:
    model = LSTMs() if "bilstm" in os.path.basename(file) else Transformer(4)
    if not os.path.exists(file):
        with torch.no_grad():
            model.classifier.out.weight *= 20
        torch.save({"model_state_dict": model.state_dict()}, file)
    model.load_state_dict(torch.load(file, map_location="cpu")["model_state_dict"])
    model.eval()
    for part, share in model.prune():
        prune.l1_unstructured(part, name="weight", amount=share)
        prune.remove(part, "weight")
    for read in reads:
        bases = read["bases"]
        at = [i for i in range(len(bases) - 1) if bases[i] == 1 and bases[i + 1] == 2 and 10 < i < len(bases) - 11]
        p = []
        if at:
            rows = features(read)
            with torch.no_grad():
                p = model(torch.stack([rows[i - 10:i + 11] for i in at])).ravel().tolist()
        print(json.dumps({"model": file, "places": at, "probabilities": [[1 - v, v] for v in p]}))
