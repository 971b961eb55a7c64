"""Makes splice/: a small network from a seed, a genome with genes, variants, and the scores that SpliceAI's rule gives them.

The scores are made here with numpy alone, from a description of the rule, and share nothing with Porestream: the network is
computed over the whole sequence by convolutions written out, not by ONNX Runtime. Needs numpy and onnx:
    python make_golden.py splice
"""

import hashlib
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CONTEXT, WIDTH, CHANNELS = 24, 5, 6
LAYERS = [1, 2, 3]  # dilations; 4 + 8 + 12 bases in all


def weights(seed):
    rng = np.random.default_rng(seed)
    layers, inputs = [], 4
    for _ in LAYERS:
        layers.append((rng.normal(0, 0.7, (CHANNELS, inputs, WIDTH)).astype(np.float32), rng.normal(0, 0.3, CHANNELS).astype(np.float32)))
        inputs = CHANNELS
    return layers, rng.normal(0, 1.5, (3, CHANNELS, 1)).astype(np.float32), rng.normal(0, 0.5, 3).astype(np.float32)


def save(path, seed):
    """Writes the network: input x [n, l, 4], output y [n, l - CONTEXT, 3]."""
    layers, last, bias = weights(seed)
    nodes, tensors, x = [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1])], [], "t"
    for i, ((w, b), d) in enumerate(zip(layers, LAYERS)):
        tensors += [numpy_helper.from_array(w, f"w{i}"), numpy_helper.from_array(b, f"b{i}")]
        nodes += [helper.make_node("Conv", [x, f"w{i}", f"b{i}"], [f"c{i}"], dilations=[d]), helper.make_node("Tanh", [f"c{i}"], [f"a{i}"])]
        x = f"a{i}"
    tensors += [numpy_helper.from_array(last, "w"), numpy_helper.from_array(bias, "b")]
    nodes += [helper.make_node("Conv", [x, "w", "b"], ["z"]), helper.make_node("Softmax", ["z"], ["p"], axis=1), helper.make_node("Transpose", ["p"], ["y"], perm=[0, 2, 1])]
    graph = helper.make_graph(
        nodes, "small", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "l", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "m", 3])], tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)


def predict(seeds, bases):
    """Mean probabilities [l - CONTEXT, 3] in double precision."""
    onehot = np.zeros((4, len(bases)))
    for i, b in enumerate(bases):
        if b in "ACGT":
            onehot["ACGT".index(b), i] = 1
    total = 0
    for seed in seeds:
        layers, last, bias = weights(seed)
        x = onehot
        for (w, b), d in zip(layers, LAYERS):
            n = x.shape[1] - (WIDTH - 1) * d
            x = np.tanh(sum(w[:, :, k].astype(float) @ x[:, k * d : k * d + n] for k in range(WIDTH)) + b[:, None])
        z = last[:, :, 0].astype(float) @ x + bias[:, None]
        e = np.exp(z - z.max(0))
        total = total + (e / e.sum(0)).T
    return total / len(seeds)


COMPLEMENT = {"A": "T", "C": "G", "G": "C", "T": "A"}


def turned(bases):
    return "".join(COMPLEMENT.get(b, "N") for b in reversed(bases))


def score(seeds, seq, gene, pos, ref, alt, distance, masked):
    name, _, strand, start, end, starts, ends = gene
    if len(ref) > 1 and len(alt) > 1:
        return f"{alt}|{name}|.|.|.|.|.|.|.|."
    cover = 2 * distance + 1
    wide = CONTEXT + cover
    window = seq[pos - wide // 2 - 1 : pos + wide // 2]
    before, behind = max(wide // 2 + start + 1 - pos, 0), max(wide // 2 - (end - pos), 0)
    x = "N" * before + window[before : wide - behind] + "N" * behind
    y = x[: wide // 2] + alt + x[wide // 2 + len(ref) :]
    p, q = (predict(seeds, turned(s))[::-1] if strand == "-" else predict(seeds, s) for s in (x, y))
    if len(ref) > 1:
        q = np.concatenate([q[: cover // 2 + 1], np.zeros((len(ref) - 1, 3)), q[cover // 2 + 1 :]])
    elif len(alt) > 1:
        q = np.concatenate([q[: cover // 2], q[cover // 2 : cover // 2 + len(alt)].max(0)[None], q[cover // 2 + len(alt) :]])
    bounds = sorted({s + 1 for s in starts} | set(ends))
    nearest = min(bounds, key=lambda b: (abs(b - pos), b)) - pos
    scores, places = [], []
    for channel in (1, 2):
        for sign in (1, -1):
            change = sign * (q[:, channel] - p[:, channel])
            at = int(change.argmax())
            value = change[at]
            if masked and ((at - distance == nearest) == (sign == 1)):
                value = 0
            scores.append(f"{value:.6f}")
            places.append(str(at - distance))
    return "|".join([alt, name, *scores, *places])


def main(folder):
    folder = pathlib.Path(folder)
    rng = np.random.default_rng(45)
    seq = list("".join(rng.choice(list("ACGT"), 2400)))
    for i in range(700, 712):
        seq[i] = "N"
    for i, b in zip(range(940, 980, 4), "RYSWKMBDHV"):
        seq[i] = b
    seq = "".join(seq)
    (folder / "reference.fa").write_text(">one\n" + "\n".join(seq[i : i + 80] for i in range(0, len(seq), 80)) + "\n")
    genes = [
        ("PLUS", "one", "+", 60, 1100, [60, 300, 640, 1000], [180, 420, 800, 1100]),
        ("MINUS", "one", "-", 900, 2000, [900, 1300, 1310, 1800], [1200, 1305, 1500, 2000]),
        ("INNER", "one", "-", 1350, 1450, [1350], [1450]),
        ("LAST", "one", "+", 2100, 2399, [2100, 2300], [2200, 2399]),
    ]
    with open(folder / "genes.tsv", "w") as f:
        f.write("#NAME\tCHROM\tSTRAND\tTX_START\tTX_END\tEXON_START\tEXON_END\n")
        for g in genes:
            f.write("\t".join([*map(str, g[:5]), "".join(f"{n}," for n in g[5]), "".join(f"{n}," for n in g[6])]) + "\n")
    seeds = [1, 2]
    for seed in seeds:
        save(folder / f"small{seed}.onnx", seed)
    sites = sorted({b + d for g in genes for b in (g[3], g[4], *g[5], *g[6]) for d in (-9, -2, -1, 0, 1, 2, 9)} | set(map(int, rng.integers(30, 2370, 60))))
    rows = []
    for pos in sites:
        if not 1 <= pos <= len(seq) - 40:
            continue
        r = seq[pos - 1]
        others = [b for b in "ACGT" if b != r]
        kind = rng.integers(0, 10)
        n = int(rng.integers(1, 34))
        if kind < 4:
            rows.append((pos, r, str(rng.choice(others))))
        elif kind < 6:
            rows.append((pos, seq[pos - 1 : pos + n], r))
        elif kind < 8:
            rows.append((pos, r, r + "".join(rng.choice(list("ACGT"), n))))
        elif kind < 9:
            rows.append((pos, seq[pos - 1 : pos + 1], "".join(rng.choice(list("ACGT"), 3))))
        else:
            rows.append((pos, r, "N" if r != "N" else "A"))
    with open(folder / "expected.tsv", "w") as f:
        f.write("#distance\tmask\tpos\tref\talt\tscores\n")
        for distance, masked in ((10, 0), (10, 1), (25, 0)):
            for pos, ref, alt in rows:
                wide = CONTEXT + 2 * distance + 1
                told = []
                if pos - wide // 2 >= 1 and pos + wide // 2 <= len(seq) and len(ref) <= 2 * distance:
                    told = [score(seeds, seq, g, pos, ref, alt, distance, masked) for g in genes if g[3] + 1 <= pos <= g[4]]
                f.write("\t".join([str(distance), str(masked), str(pos), ref, alt, ",".join(told) or "."]) + "\n")
    networks = "".join(f'\n[[networks]]\nfile = "small{s}.onnx"\nsha256 = "{hashlib.sha256((folder / f"small{s}.onnx").read_bytes()).hexdigest()}"\n' for s in seeds)
    (folder / "manifest.toml").write_text(
        f"""format = 1
kind = "sequence"
name = "small"
version = "1"
description = "Two small networks from seeds, for tests: they know nothing of splicing"
rule = "splice"
info = "Small"
licence = "Apache-2.0"
licence_text = "Made from seeds by make_golden.py."

[input]
name = "x"
layout = "NLC"
channels = "ACGT"
unknown = "zero"
strand = "gene"
context = {CONTEXT}

[output]
name = "y"
layout = "NLC"
channels = ["neither", "acceptor", "donor"]

[splice]
distance = 10
{networks}"""
    )


main(sys.argv[1])
