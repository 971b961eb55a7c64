"""Builds networks for modified bases in Dorado's form from PyTorch's layers, with random weights, and says what they make of reads.

dorado.py FOLDER <reads.jsonl writes to FOLDER a model each, and to standard output a line for each model and read: places and
probabilities. Reads are whole in memory here: all bases around each sample first, and then parts of that, as Dorado does it.
"""
import json, os, sys

import numpy as np
import torch
from torch import nn

torch.manual_seed(11)
torch.set_num_threads(1)
reads = [json.loads(line) for line in sys.stdin]


class Swish(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(x)


def conv(i, o, width, stride=1, pad=0, act="swish"):
    layer = nn.Conv1d(i, o, width, stride, pad)
    return nn.Sequential(layer, nn.Tanh() if act == "tanh" else Swish())


def conv_only(size, kmer, out):
    m = nn.ModuleDict(dict(
        sig_conv1=conv(1, 4, 11), sig_conv2=conv(4, 16, 11), sig_conv3=conv(16, size, 9, 3),
        seq_conv1=conv(4 * kmer, 16, 11), seq_conv2=conv(16, 32, 11), seq_conv3=conv(32, size, 9, 3),
        merge_conv1=conv(2 * size, size, 5), merge_conv2=conv(size, size, 5), merge_conv3=conv(size, size, 3, 2), merge_conv4=conv(size, size, 3, 2),
        fc=nn.Linear(3 * size, out)))

    def run(sig, seq):
        for i in "123":
            sig, seq = m["sig_conv" + i](sig), m["seq_conv" + i](seq)
        x = torch.cat((sig, seq), 1)
        for i in "1234":
            x = m["merge_conv" + i](x)
        return m["fc"](x.flatten(1))
    return m, run


def conv_lstm(size, kmer, out, stride, chunks):
    p = (lambda w: w // 2) if chunks else (lambda w: 0)
    m = nn.ModuleDict(dict(
        sig_conv1=conv(1, 4, 5, 1, p(5)), sig_conv2=conv(4, 16, 5, 1, p(5)), sig_conv3=conv(16, size, 9, stride, p(9)),
        seq_conv1=conv(4 * kmer, 16, 5, 1, p(5)), seq_conv2=conv(16, size, 13, stride, p(13)), merge_conv1=conv(2 * size, size, 5, 1, p(5)),
        lstm1=nn.LSTM(size, size), lstm2=nn.LSTM(size, size), fc=nn.Linear(size, out)))

    def run(sig, seq):
        for i in "123":
            sig = m["sig_conv" + i](sig)
        for i in "12":
            seq = m["seq_conv" + i](seq)
        x = m["merge_conv1"](torch.cat((sig, seq), 1)).permute(2, 0, 1)
        for i in "12":
            x = Swish()(m["lstm" + i](x)[0]).flip(0)
        return m["fc"](x.permute(1, 0, 2)) if chunks else m["fc"](x[-1])
    return m, run


def conv_lstm_v3(kmer, out, sig, seq, merge, size):
    m = nn.ModuleDict(dict(merge_conv1=conv(*merge, pad=merge[2] // 2, act="tanh"),
        lstm1=nn.LSTM(size, size), lstm2=nn.LSTM(size, size), fc=nn.Linear(size, out)))
    for name, layers in (("sig_conv", sig), ("seq_conv", seq)):
        for i, layer in enumerate(layers):
            m[f"{name}{i + 1}"] = conv(*layer, pad=layer[2] // 2, act="tanh")

    def run(signal, sequence):
        for i in range(len(sig)):
            signal = m[f"sig_conv{i + 1}"](signal)
        for i in range(len(seq)):
            sequence = m[f"seq_conv{i + 1}"](sequence)
        x = m["merge_conv1"](torch.cat((signal, sequence), 1)).permute(2, 0, 1)
        x = m["lstm1"](x)[0].flip(0)
        return m["fc"](m["lstm2"](x)[0]).flip(0).permute(1, 0, 2)
    return m, run


def save(folder, name, tensor):
    module = nn.Module()
    module.register_parameter("0", nn.Parameter(tensor.detach().clone(), requires_grad=False))
    torch.jit.script(module).save(os.path.join(folder, name + ".tensor"))


def layer_text(kind, **keys):
    text = f'[[{kind}.sublayers]]\n'
    return text + "".join(f"{k} = {json.dumps(v)}\n" for k, v in keys.items())


def conv_text(kind, layers):
    return "".join(layer_text(kind, type="convolution", insize=i, size=o, winlen=w, stride=s, padding=w // 2, activation="tanh") for i, o, w, s in layers)


def model(name, kind, net, size, kmer, codes, motif, place, before, after, levels=0, extra="", modbases=""):
    """Writes a model; codes are pairs of code and name."""
    m, run = net
    folder = os.path.join(sys.argv[1], name)
    os.makedirs(folder)
    with torch.no_grad():
        for key, p in m.named_parameters():  # so that probabilities are not all alike
            p *= 60 if key == "fc.weight" else 3 if "conv" in key else 2
    for key, tensor in m.state_dict().items():
        part, _, rest = key.partition(".")
        save(folder, part + "." + rest.removeprefix("0."), tensor)
    table = None
    if levels:
        table = torch.randn(4 ** kmer)
        save(folder, "refine_kmer_levels", table)
    text = f'[general]\ncreation_date = "01/01/2026, 00:00:00"\nmodel = "{kind}"\n[model_params]\nsize = {size}\nkmer_len = {kmer}\nnum_out = {len(codes) + 1}\n{extra}'
    text += f'[modbases]\nmod_bases = {json.dumps([c for c, _ in codes])}\noffset = 0\nmotif = "{motif}"\nmotif_offset = {place}\nchunk_context_0 = {before}\nchunk_context_1 = {after}\n'
    text += f"kmer_context_bases_0 = {kmer // 2}\nkmer_context_bases_1 = {kmer // 2}\n{modbases}"
    text += "".join(f'mod_long_names_{i} = "{n}"\n' for i, (_, n) in enumerate(codes))
    text += f"[refinement]\nrefine_do_rough_rescale = {int(bool(levels))}\nrefine_kmer_center_idx = {levels}\n"
    return folder, text, run, table


def finish(folder, text):
    with open(os.path.join(folder, "config.toml"), "w") as f:
        f.write(text)


def scaled(read, table, kmer, centre):
    """The current, scaled by the first thousand bases' levels or as it was."""
    x = np.array(read["samples"], dtype=np.float64)
    if table is None:
        return (x - read["shift"]) / read["scale"]
    bases, starts = read["bases"], read["starts"]
    levels = [0.0] * len(bases)
    for i in range(len(bases) - kmer):
        levels[i + centre] = float(table[int("".join(map(str, bases[i:i + kmer])), 4)])
    n = min(len(bases), 1000)
    middles = [x[min((starts[i] + starts[i + 1]) // 2, len(x) - 1)] for i in range(n)]
    levels = levels[:n]
    if len(bases) > 20:
        middles, levels = middles[10:-10], levels[10:-10]
    q = np.arange(1, 20) * 0.05
    slope, offset = np.polyfit(np.quantile(middles, q), np.quantile(levels, q), 1)
    return x * slope + offset


def encoded(read, kmer, ratio=1):
    """For each sample, or so many, the bases around the one that it is of: [samples, 4 x kmer]."""
    bases = [-1] * (kmer // 2) + read["bases"] + [-1] * (kmer // 2)
    rows = []
    for i in range(len(read["bases"])):
        row = np.zeros((kmer, 4), dtype=np.float32)
        for k in range(kmer):
            if bases[i + k] >= 0:
                row[k, bases[i + k]] = 1
        rows += [row.ravel()] * (read["starts"][i + 1] // ratio - read["starts"][i] // ratio)
    return np.array(rows)


def places(read, motif, place):
    text = "".join("ACGT"[b] for b in read["bases"])
    return [i + place for i in range(len(text) - len(motif) + 1) if text[i:i + len(motif)] == motif]


def around_one(run, read, x, kmer, at, before, after, from_start):
    seq, starts = encoded(read, kmer), read["starts"]
    out = []
    for p in at:
        centre = starts[p] if from_start else (starts[p] + starts[p + 1]) // 2
        i = np.arange(centre - before, centre + after)
        inside = (i >= 0) & (i < len(x))
        sig = np.where(inside, x[np.clip(i, 0, len(x) - 1)], 0)
        out.append(run(torch.tensor(sig, dtype=torch.float32)[None, None], torch.tensor(seq[np.clip(i, 0, len(x) - 1)].T)[None])[0].softmax(0).tolist())
    return out


def over_stretches(run, read, x, kmer, at, before, after, length, stride, ratio):
    seq, starts = encoded(read, kmer, ratio), read["starts"]
    out, begin = {}, 0
    while len(out) < len(at):
        first = next(i for i, p in enumerate(at) if p not in out)
        begin = max(0, starts[at[first]] - before)
        sig, part = x[begin:begin + length], seq[begin // ratio:(begin + length) // ratio]
        sig = np.resize(sig, length)  # which repeats it
        if len(part) < length // ratio:
            part = np.resize(part, (length // ratio, part.shape[1]))
        p = run(torch.tensor(sig, dtype=torch.float32)[None, None], torch.tensor(part.T.copy())[None])[0].softmax(1)
        for place in at[first:]:
            into = starts[place] - begin
            if into > length - after and place != at[first]:
                break
            out[place] = p[into // stride].tolist()
    return [out[p] for p in at]


def report(name, each):
    with torch.no_grad():
        for read in reads:
            at, probabilities = each(read)
            print(json.dumps({"model": name, "places": at, "probabilities": probabilities}))


size, kmer = 12, 5
m5, mh, c4 = ("m", "5mC"), ("h", "5hmC"), ("21839", "4mC")

name = "dna_r9.4.1_e8_sup@v3.3_5mCG@v0.1"
folder, text, run, table = model(name, "conv_only", conv_only(size, kmer, 2), size, kmer, [m5], "CG", 0, 50, 50)
finish(folder, text)
report(name, lambda r: (places(r, "CG", 0), around_one(run, r, scaled(r, None, kmer, 0), kmer, places(r, "CG", 0), 50, 50, False)))

name = "dna_r10.4.1_e8.2_400bps_sup@v4.1.0_5mCG_5hmCG@v2"
folder, text, run2, table2 = model(name, "conv_lstm", conv_lstm(size, kmer, 3, 3, False), size, kmer, [mh, m5], "CG", 0, 50, 50, 3)
finish(folder, text)
report(name, lambda r: (places(r, "CG", 0), around_one(run2, r, scaled(r, table2, kmer, 3), kmer, places(r, "CG", 0), 50, 50, False)))

name = "dna_r10.4.1_e8.2_400bps_hac@v4.1.0_6mA@v2"
folder, text, run3, table3 = model(name, "conv_lstm", conv_lstm(size, kmer, 2, 2, False), size, kmer, [("a", "6mA")], "A", 0, 60, 60, 2, "stride = 2\n",
                                  "base_start_justify = true\nreverse_signal = false\n")
finish(folder, text)
report(name, lambda r: (places(r, "A", 0), around_one(run3, r, scaled(r, table3, kmer, 2), kmer, places(r, "A", 0), 60, 60, True)))

name = "dna_r10.4.1_e8.2_400bps_hac@v5.0.0_4mC_5mC@v3"
folder, text, run4, table4 = model(name, "conv_lstm_v2", conv_lstm(size, kmer, 3, 3, True), size, kmer, [c4, m5], "C", 0, 58, 60, 1, "stride = 3\n",
                                  "base_start_justify = true\nreverse_signal = false\nchunk_size = 298\n")
finish(folder, text)
report(name, lambda r: (places(r, "C", 0), over_stretches(run4, r, scaled(r, table4, kmer, 1), kmer, places(r, "C", 0), 60, 60, 300, 3, 1)))

name = "dna_r10.4.1_e8.2_400bps_sup@v5.0.0_6mA@v4"
sig, seq, merge = [(1, 4, 5, 1), (4, 8, 5, 1), (8, 12, 16, 6)], [(20, 8, 5, 1), (8, 12, 16, 1)], (24, size, 5, 1)
folder, text, run5, table5 = model(name, "conv_lstm_v3", conv_lstm_v3(kmer, 2, sig, seq, merge, size), size, kmer, [("a", "6mA")], "A", 0, 60, 60, 3,
                                  "stride = 6\nsequence_stride = 1\n", "base_start_justify = true\nreverse_signal = false\nchunk_size = 300\n")
text += "[sequence_encoder]\n" + conv_text("sequence_encoder", seq) + "[signal_encoder]\n" + conv_text("signal_encoder", sig)
text += "[encoder]\n" + conv_text("encoder", [merge]) + layer_text("encoder", type="lstm", size=size, reverse=0) + layer_text("encoder", type="lstm", size=size, reverse=1)
text += layer_text("encoder", type="linear", in_features=size, out_features=2)
finish(folder, text)
report(name, lambda r: (places(r, "A", 0), over_stretches(run5, r, scaled(r, table5, kmer, 3), kmer, places(r, "A", 0), 60, 60, 300, 6, 6)))
