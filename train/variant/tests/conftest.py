"""A recipe with examples that a network can learn: no Go program is needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from variant_train import layout
from variant_train.recipe import Recipe
from variant_train.store import LABEL, world_folder

RECIPE = """
[model]
name = "toy"
version = "0"
description = "toy"
[network]
width = 8
deep = 12
scalars = 8
joined = 16
[training]
steps = {steps}
batch = 32
warmup = 5
average = 0.9
learning_rate = 3e-3
[[real]]
name = "reads"
reads = "reads.fastq"
genome = "genome.fa"
worlds = 2
held_out = [40000, 50000]
[[basecaller]]
name = "one"
[[basecaller]]
name = "other"
[[signal]]
name = "signal"
genome = "genome.fa"
basecallers = ["one", "other"]
pieces = 3
piece = 9000
coverage = 6
repeats = 5
length = 2000
worlds = 6
held_out_pieces = 1
depth = [3, 6]
[[simulated]]
name = "simulated"
genome = "genome.fa"
profiles = ["any"]
worlds = 3
held_out_worlds = 1
[[evaluation]]
name = "a set"
reference = "genome.fa"
reads = "reads.fastq"
plant = 200
"""


def examples(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Returns examples whose copies can be inferred from a scalar and from the columns."""
    labels = np.zeros(n, LABEL)
    labels["position"] = rng.integers(300, 49_700, n)
    labels["mode"] = rng.integers(0, 2, n)
    labels["type"] = rng.integers(0, 3, n)
    labels["copies"] = np.where(labels["mode"] == 0, 2 * rng.integers(0, 2, n), rng.integers(0, 3, n))
    labels["zygosity"] = labels["copies"]
    labels["length"] = np.where(labels["type"] == 0, 0, rng.integers(1, 4, n)) * np.where(labels["type"] == 2, -1, 1)
    labels["length"][labels["copies"] == 0] = 0
    labels["depth"] = 30
    x = rng.normal(0, 0.02, (n, layout.SIZE))
    planes = x[:, : layout.PLANES * layout.COLUMNS].reshape(n, layout.PLANES, layout.COLUMNS)
    planes[:, 0, 16] += labels["copies"] / 4
    scalars = x[:, layout.PLANES * layout.COLUMNS :]
    scalars[np.arange(n), labels["mode"]] = 1
    scalars[np.arange(n), 3 + labels["type"]] = 1
    scalars[:, 33] = labels["copies"] - 1 + rng.normal(0, 0.3, n)
    scalars[:, 61] = labels["length"] / 16
    return x.astype(np.float16), labels


def write_examples(recipe: Recipe, work: Path) -> None:
    """Fills the worlds of a recipe."""
    rng = np.random.default_rng(11)
    for source in recipe.sources:
        for seed in range(source.worlds):
            folder = world_folder(work, source, source.seed + seed)
            folder.mkdir(parents=True)
            x, labels = examples(1200, rng)
            labels["copies"][:5] = 255
            np.save(folder / "examples.npy", x)
            np.save(folder / "labels.npy", labels)
            rows = "".join(
                f"c\t{p + 1}\t.\tA\tC\t.\t.\t.\tGT\t1\nc\t{p + 1}\t.\tAC\tA\t.\t.\t.\tGT\t1\n" for p in range(500, 49_000, 200)
            )
            (folder / "truth.vcf").write_text(f"##fileformat=VCFv4.2\n##contig=<ID=c,length=50000>\n#CHROM\n{rows}")


@pytest.fixture(scope="session")
def recipe_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "toy.toml"
    path.write_text(RECIPE.format(steps=60))
    return path


@pytest.fixture(scope="session")
def prepared(recipe_file: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Recipe, Path]:
    """The toy recipe and the folder with its examples."""
    recipe, work = Recipe.load(recipe_file), tmp_path_factory.mktemp("work")
    write_examples(recipe, work)
    return recipe, work
