"""Writing a model as the folder that package watchlist/biomarker reads; its FORMAT.md describes it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from .completion import STEPS
from .encoding import Features
from .linear import KNEES, Linear
from .network import PART, Together
from .recipe import Recipe
from .tables import Table
from .training import Model

OPSET = 17
TOLERANCE = 1e-4
NETWORK, FEATURES, SCORES, MANIFEST = "network.onnx", "features.tsv", "scores.tsv", "manifest.toml"
PRESENT_FROM = 0.2
"""Sanger sequencing, the source of the tables, shows mixtures from about a fifth."""


def to_onnx(network: Together) -> onnx.ModelProto:
    """Builds the graph: ``features`` float32 [N,1,2 size] to ``logits`` float32 [N,1,tasks].

    Every layer is a convolution over an image of one pixel, so that a row's logits are the same bits whatever the batch.
    """
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []

    def constant(name: str, value: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(kind: str, inputs: list[str], output: str, **attributes) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def dense(name: str, source: str, weight: np.ndarray, bias: np.ndarray | None = None) -> str:
        inputs = [source, constant(f"{name}.weight", weight.astype(np.float32)[:, :, None, None])]
        if bias is not None:
            inputs.append(constant(f"{name}.bias", bias.astype(np.float32)))
        return node("Conv", inputs, name, kernel_shape=[1, 1])

    first = network.members[0]
    r, t = first.residues, first.tasks
    width = 2 * (r + 2 * t)
    x = node("Reshape", ["features", constant("shape", np.array([0, width, 1, 1], np.int64))], "pixels")

    def part(name: str, start: int, stop: int) -> str:
        ends = [constant(f"{name}.{end}", np.array([v], np.int64)) for end, v in (("start", start), ("stop", stop), ("axis", 1))]
        return node("Slice", [x, *ends], name)

    values, points, unseen = part("values", 0, r), part("points", r, r + t), part("unseen", r + t, r + 2 * t)
    known = part("known", r + 2 * t, 2 * r + 2 * t)
    missing = node("Sub", [constant("one", np.ones((1, 1, 1, 1), np.float32)), known], "missing")
    seen = node("Concat", [values, missing], "seen", axis=1)
    sixtieth = constant("sixtieth", np.full((1, 1, 1, 1), 1 / 60, np.float32))
    scores = node("Mul", [points, sixtieth], "scores")
    unseen = node("Mul", [unseen, sixtieth], "unseen.scaled")
    logits = []
    for m, member in enumerate(network.members):
        w = {name: tensor.detach().double().numpy() for name, tensor in member.state_dict().items()}
        h = node("Relu", [dense(f"{m}.embed", seen, w["embed.weight"], w["embed.bias"])], f"{m}.embedded")
        h = node("Relu", [dense(f"{m}.hidden", h, w["hidden.weight"], w["hidden.bias"])], f"{m}.h")
        terms = [
            dense(f"{m}.heads", h, w["heads.weight"], w["heads.bias"] + w["offset"]),
            dense(f"{m}.own", values, w["own.weight"] * w["mask"]),
            dense(f"{m}.classmates", scores, w["classmates.weight"] * w["mates"]),
            dense(f"{m}.missed", unseen, np.diag(w["unseen"])),
        ]
        for k, knee in enumerate(KNEES):
            over = node("Sub", [scores, constant(f"{m}.knee{k}", np.full((1, 1, 1, 1), knee / 60, np.float32))], f"{m}.over{k}")
            terms.append(dense(f"{m}.bend{k}", node("Relu", [over], f"{m}.bent{k}"), np.diag(w["bends"][k])))
        latent = node("Sum", terms, f"{m}.latent")
        slope = np.log1p(np.exp(w["slope"])) * PART / len(network.members)
        logits.append(node("Mul", [latent, constant(f"{m}.slope", slope.astype(np.float32)[None, :, None, None])], f"{m}.logits"))
    logits.append(_regressions(network.linear, node, constant, dense, values, missing, known, scores))
    total = node("Sum", logits, "total")
    node("Reshape", [total, constant("out", np.array([0, 1, t], np.int64))], "logits")
    graph = helper.make_graph(
        nodes, "biomarker",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["N", 1, width])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 1, t])],
        constants,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8, producer_name="porestream")
    onnx.checker.check_model(model, full_check=True)
    return model


def _regressions(linear: Linear, node, constant, dense, values: str, missing: str, known: str, scores: str) -> str:
    """The linear part of the graph, whose residues and scores are completed first."""
    w = {name: tensor.double().numpy() for name, tensor in linear.state_dict().items()}

    def image(name: str, value: np.ndarray) -> str:
        return constant(name, value.astype(np.float32).reshape(1, -1, 1, 1))

    mean, step = image("mean", w["completion.mean"]), image("step", w["completion.step"])
    loadings = constant("loadings", w["completion.loadings"].astype(np.float32)[:, :, None, None])
    back = constant("back", w["completion.back"].astype(np.float32)[:, :, None, None])
    away = node("Mul", [known, node("Sub", [values, mean], "away.all")], "away")
    z = node("Conv", [away, back], "z0", kernel_shape=[1, 1])
    for i in range(1, STEPS):
        seen = node("Mul", [known, node("Conv", [z, loadings], f"z{i}.out", kernel_shape=[1, 1])], f"z{i}.seen")
        more = node("Conv", [node("Sub", [away, seen], f"z{i}.left"), back], f"z{i}.more", kernel_shape=[1, 1])
        less = node("Sub", [z, node("Mul", [z, step], f"z{i}.step")], f"z{i}.kept")
        z = node("Add", [less, more], f"z{i}")
    expected = node("Add", [node("Conv", [z, loadings], "expected.away", kernel_shape=[1, 1]), mean], "expected.any")
    bounds = [constant(name, np.array(v, np.float32)) for name, v in (("nothing", 0), ("all", 1))]
    filled = node("Mul", [missing, node("Clip", [expected, *bounds], "expected")], "filled")
    full = node("Add", [values, filled], "full")
    completed = node("Sum", [scores, dense("points.expected", filled, w["points"] / 60)], "scores.full")
    terms = [dense("regressions.own", full, w["own"] * (1 - PART), w["offset"] * (1 - PART))]
    for k, knee in enumerate(KNEES):
        over = node("Sub", [completed, constant(f"knee{k}", np.full((1, 1, 1, 1), knee / 60, np.float32))], f"over{k}")
        terms.append(dense(f"bend{k}", node("Relu", [over], f"bent{k}"), np.diag(w["bends"][k] * (1 - PART))))
    return node("Sum", terms, "regressions")


def write(recipe: Recipe, table: Table, features: Features, model: Model, folder: Path, examples: torch.Tensor) -> None:
    """Writes the folder, after the graph has given what PyTorch gives on the examples [N, 2 size]."""
    import onnxruntime

    folder.mkdir(parents=True, exist_ok=True)
    graph = to_onnx(model.network).SerializeToString()
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    with torch.no_grad():
        expected = model.network(examples).numpy()
    got = session.run(["logits"], {"features": examples.numpy()[:, None]})[0][:, 0]
    if not (difference := float(np.abs(got - expected).max())) <= TOLERANCE:
        raise RuntimeError(f"the exported graph differs from the network by {difference:.2e}")
    (folder / NETWORK).write_bytes(graph)
    lines = [f"residue\t{gene}\t{codon}\t{residue}" for gene, codon, residue in features.residues]
    lines += [f"{kind}\t{task}" for kind in ("score", "unseen") for task in features.tasks]
    (folder / FEATURES).write_text("\n".join(lines) + "\n")
    terms = [f"{term.task}\t{term.text()}\t{term.points:g}" for term in features.terms]
    # A task without rules has a score all the same: of a condition that adds nothing.
    gene, codon, residue = features.residues[0]
    terms += [f"{task}\t{gene}:{codon}{residue}\t0" for task in features.tasks if all(t.task != task for t in features.terms)]
    (folder / SCORES).write_text("\n".join(terms) + "\n")
    (folder / MANIFEST).write_text(_manifest(recipe, table, features, model, folder))


def _manifest(recipe: Recipe, table: Table, features: Features, model: Model, folder: Path) -> str:
    def file(name: str) -> str:
        return f'file = "{name}"\nsha256 = "{hashlib.sha256((folder / name).read_bytes()).hexdigest()}"\n'

    quoted = json.dumps
    parts = [
        f'format = 1\nkind = "biomarker"\nname = {quoted(recipe.name)}\nversion = {quoted(recipe.version)}\n'
        f"description = {quoted(recipe.description)}\ndata = {quoted(recipe.data)}\nlicence = {quoted(recipe.licence)}\n",
        f'[network]\n{file(NETWORK)}input = "features"\noutput = "logits"\n',
        f"[features]\n{file(FEATURES)}",
        f"[scores]\n{file(SCORES)}",
        f"[encoding]\npresent_from = {PRESENT_FROM}\n",
    ]
    for gene, length in recipe.lengths.items():
        sequence = "".join(table.wild.get((gene, codon), "X") for codon in range(1, length + 1))
        parts.append(f"[[gene]]\nname = {quoted(gene)}\nsequence = {quoted(sequence)}\n")
    genes, decisive = dict(features.genes), dict(features.decisive)
    for t, task in enumerate(features.tasks):
        slope, offset = model.lines[t]
        threshold = model.thresholds[t]
        codons = ", ".join(quoted(f"{gene}:{codon}") for gene, codon in decisive[task])
        parts.append(
            f"[[output]]\nname = {quoted(task)}\ncalibration = [{slope!r}, {offset!r}]\n"
            f"resistant = {threshold}\nsusceptible = {threshold}\n"
            f"genes = [{', '.join(quoted(g) for g in genes[task])}]\ndecisive = [{codons}]\n"
        )
    return "\n".join(parts)
