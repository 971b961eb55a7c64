"""From a recipe to worlds, with programs that stand in for the Go ones: what they are asked for, and whose reads a world has."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from variant_train import layout
from variant_train.reads import read_fasta, write_fasta
from variant_train.recipe import Recipe
from variant_train.store import LABEL, Programs, prepare, world_folder
from variant_train.worlds import piece

PORE = f"""#!{sys.executable}
import pathlib, sys
arguments = sys.argv[1:]
given = dict(zip(arguments, arguments[1:]))
if arguments[0] == "simulate":
    out = pathlib.Path(given["--out"])
    out.mkdir()
    sequence = "".join(pathlib.Path(given["--ref"]).read_text().split("\\n")[1:])
    (out / "reads.pod5").write_text(sequence)
    with open(pathlib.Path(given["--ref"]).with_name("flags"), "a") as log:
        log.write(" ".join(arguments) + "\\n")
else:
    sequence = pathlib.Path(arguments[-1]).read_text()
    for n, at in enumerate(range(0, len(sequence) - 2000, 250)):
        print(f"@{{given['--model']}}-{{n}}", sequence[at : at + 2000], "+", "5" * 2000, sep="\\n")
"""

EXTRACT = f"""#!{sys.executable}
import json, pathlib, sys
import numpy as np
given = dict(zip(sys.argv, sys.argv[1:]))
out = pathlib.Path(given["--out"])
out.mkdir()
names = [line.split("\\t")[0] for line in open(sys.argv[-1]) if not line.startswith("@")]
np.save(out / "examples.npy", np.zeros((1, {layout.SIZE}), np.float16))
np.save(out / "labels.npy", np.zeros(1, {LABEL.descr!r}))
callers = sorted({{name.rsplit("-", 1)[0] for name in names}})
(out / "counts.json").write_text(json.dumps({{"reads": len(names), "callers": callers}}))
"""


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    for name, text in {"pore": PORE, "extract": EXTRACT}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return Programs(tmp_path / "pore", tmp_path / "extract", tmp_path / "none")


def test_signal_is_simulated_of_pieces_and_called(recipe_file: Path, programs: Programs, tmp_path: Path):
    data, work = tmp_path / "data", tmp_path / "work"
    data.mkdir()
    rng = np.random.default_rng(3)
    genome = "".join(rng.choice(list("ACGT"), 60_000))
    write_fasta({"plasmid": "ACGT" * 100, "chromosome": genome}, data / "genome.fa")
    recipe = Recipe.load(recipe_file)
    recipe = replace(recipe, real=(), simulated=())
    (source,) = recipe.sources
    prepare(recipe, data, work, programs, keep=True, workers=1)

    pieces = sorted((work / "signal").glob("*/*"))
    assert [folder.name for folder in pieces] == ["00", "01", "02"]
    begins, noises = [], set()
    for folder in pieces:
        (sequence,) = read_fasta(folder / "genome.fa").values()
        assert len(sequence) > source.piece, "repeats are put in"
        begins.append(next(genome.index(sequence[i : i + 25]) for i in range(400) if sequence[i : i + 25] in genome))
        flags = (folder / "flags").read_text().splitlines()
        assert len(flags) == 1, "a piece is simulated once"
        assert "--depth 6 --length 2000" in flags[0] and "--variants none" in flags[0]
        noises.add(flags[0].split("--noise ")[1].split()[0])
        assert sorted(path.name for path in folder.iterdir()) == ["flags", "genome.fa", "reads.pod5"]
    assert all(n * 20_000 <= begin <= n * 20_000 + 11_400 for n, begin in enumerate(begins))
    assert len(noises) == 3 and all(source.noise[0] <= float(noise) <= source.noise[1] for noise in noises)

    for n in range(source.worlds):
        folder = world_folder(work, source, source.seed + n)
        counts = json.loads((folder / "counts.json").read_text())
        assert counts["reads"] > 5 and counts["callers"] == [source.basecaller_of(n)]
        (reference,) = read_fasta(folder / "reference.fa").values()
        (whole,) = read_fasta(pieces[source.piece_of(n)] / "genome.fa").values()
        assert _shared(reference, whole) > 0.6
        for other in set(pieces) - {pieces[source.piece_of(n)]}:
            assert _shared(reference, "".join(read_fasta(other / "genome.fa").values())) < 0.1
    both = {(p, c) for p in range(3) for c in ("one", "other")}
    assert {(source.piece_of(n), source.basecaller_of(n)) for n in range(source.worlds)} == both

    # Again: nothing is made anew.
    made = {path: path.stat().st_mtime_ns for path in work.rglob("*") if path.is_file()}
    prepare(recipe, data, work, programs, workers=1)
    assert made == {path: path.stat().st_mtime_ns for path in work.rglob("*") if path.is_file()}


def test_pieces_that_would_overlap_are_refused(recipe_file: Path, programs: Programs, tmp_path: Path):
    (source,) = Recipe.load(recipe_file).signal
    write_fasta({"chromosome": "ACGT" * 6_000}, tmp_path / "genome.fa")
    with pytest.raises(ValueError, match="genome.fa: too short for 3 pieces of 9000 bases"):
        piece(source, tmp_path / "genome.fa", programs.pore, 0, tmp_path / "piece")


def _shared(sequence: str, other: str, k: int = 25) -> float:
    """Returns the part of a sequence's words that another one has."""
    words = {other[i : i + k] for i in range(len(other) - k + 1)}
    return float(np.mean([sequence[i : i + k] in words for i in range(0, len(sequence) - k + 1, 7)]))
