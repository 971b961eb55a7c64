"""A small world to train in: a random genome, reads whose current is a simple function of it, and a teacher that calls it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pyslow5
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported: its kernels are then run by Python

from basecall_train.alignment import reverse_complement
from basecall_train.recipe import Recipe
from basecall_train.store import prepare

DWELL = 9
GAP_LEVEL = 100
BASE_LEVELS = {"A": 60, "C": 80, "G": 120, "T": 140}
# A third of the samples lie on the gap, a third 20 and a third 40 away from it: that fixes median and MAD.
SPREAD = 1.4826 * 20


@dataclass(frozen=True)
class World:
    folder: Path
    genome: str
    reads: dict[str, str]
    """True sequence of every read."""
    recipe: Path


def current_of(sequence: str, rng: np.random.Generator) -> np.ndarray:
    """Returns nine samples per base: six at its level, three at the gap's."""
    level = np.repeat([BASE_LEVELS[base] for base in sequence], DWELL)
    level.reshape(-1, DWELL)[:, 6:] = GAP_LEVEL
    return (level + rng.normal(0, 3, len(level))).round().astype(np.int16)


def write_blow5(path: Path, reads: dict[str, np.ndarray]) -> None:
    recording = pyslow5.Open(str(path), "w", rec_press="zlib", sig_press="svb_zd")
    recording.write_header(dict.fromkeys(recording.get_empty_header(), "unknown"))
    for name, signal in reads.items():
        record = recording.get_empty_record()
        record.update(
            read_id=name, read_group=0, digitisation=8192.0, offset=0.0, range=1400.0, sampling_rate=4000.0,
            len_raw_signal=len(signal), signal=signal,
        )  # fmt: skip
        recording.write_record(record)
    recording.close()


def write_teacher(path: Path, sharpness: float = 20.0) -> None:
    """Writes a network whose logits are minus the squared distances to the five levels: one convolution."""
    levels = (np.array([GAP_LEVEL, *BASE_LEVELS.values()]) - GAP_LEVEL) / SPREAD
    kernel = np.repeat(2 * sharpness * levels[:, None, None] / 3, 3, axis=2).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["signal", "kernel", "bias"], ["distance"], strides=[3]),
            helper.make_node("Transpose", ["distance"], ["logits"], perm=[0, 2, 1]),
        ],
        "teacher",
        [helper.make_tensor_value_info("signal", TensorProto.FLOAT, ["N", 1, "T"])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", "frames", 5])],
        [
            numpy_helper.from_array(kernel, "kernel"),
            numpy_helper.from_array((-sharpness * levels**2).astype(np.float32), "bias"),
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))


RECIPE = """
[model]
name = "toy"
version = "0"
description = "toy"
chemistry = "toy"
sample_rates = [4000]
window = 900
overlap = 120
[network]
width = 16
layers = 2
stem = 4
[training]
steps = {steps}
batch = 8
parts = 2
chunk = 360
learning_rate = 1e-2
ctc = 0.5
ctc_start = 0.3
warmup = 20
average = 0.95
[teacher]
file = "teacher.onnx"
name = "toy teacher"
input = "signal"
output = "logits"
output_layout = "NTC"
scores = "logits"
clip = 0.0
window = 900
overlap = 120
[[source]]
name = "labelled"
recordings = "reads.blow5"
reference = "genome.fa"
share = 1
[[source]]
name = "called"
recordings = "reads.blow5"
calls = "calls.fastq"
share = 1
[[evaluation]]
name = "held out"
recordings = "held-out.blow5"
reference = "genome.fa"
calibrate = true
"""


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    rng = np.random.default_rng(7)
    genome = "".join(rng.choice(list("ACGT"), 5000))
    (folder / "genome.fa").write_text(f">genome\n{genome}\n")
    reads = {}
    for i in range(8):
        begin = int(rng.integers(0, len(genome) - 800))
        piece = genome[begin : begin + 800]
        reads[f"read-{i}"] = piece if i % 2 else reverse_complement(piece)
    currents = {name: current_of(bases, rng) for name, bases in reads.items()}
    write_blow5(folder / "reads.blow5", {name: currents[name] for name in list(reads)[:6]})
    write_blow5(folder / "held-out.blow5", {name: currents[name] for name in list(reads)[6:]})
    (folder / "calls.fastq").write_text("".join(f"@{n}\n{s}\n+\n{'I' * len(s)}\n" for n, s in list(reads.items())[:5]))
    write_teacher(folder / "teacher.onnx")
    (folder / "toy.toml").write_text(RECIPE.format(steps=150))
    return World(folder, genome, reads, folder / "toy.toml")


@pytest.fixture(scope="session")
def prepared(world: World, tmp_path_factory: pytest.TempPathFactory) -> tuple[Recipe, Path]:
    """The toy recipe and the folder with its training data."""
    recipe, store = Recipe.load(world.recipe), tmp_path_factory.mktemp("store")
    prepare(recipe, world.folder, store)
    return recipe, store
