"""Evaluating a model with the programs that use it: ``pore call`` and ``pore eval variants``."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import dataclass
from pathlib import Path

from .planting import Spectrum, plant, reference_of, write_vcf
from .reads import Aligner, Placed, read_fasta, read_fastq, thinned, write_fasta, write_sam
from .recipe import Evaluation, Recipe
from .worlds import generator, run

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tally:
    """What was found of one kind of variant, over all seeds of a set at a depth."""

    name: str
    depth: float
    """0: all reads."""
    kind: str
    samples: int
    truth: int
    found: int
    called: int
    right: int

    @property
    def recall(self) -> float:
        """Share of the truth that was found."""
        return self.found / self.truth if self.truth else math.nan

    @property
    def precision(self) -> float:
        """Share of the calls that are right."""
        return self.right / self.called if self.called else math.nan

    @property
    def f1(self) -> float:
        """Harmonic mean of both."""
        total = self.recall + self.precision
        return 2 * self.recall * self.precision / total if total else math.nan

    def interval(self) -> tuple[float, float]:
        """Returns the Wilson 95 % interval of F1, as of a share of all that was true or called."""
        return wilson(self.found + self.right, self.truth + self.called)


def wilson(good: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Returns Wilson's interval of a share."""
    if not n:
        return math.nan, math.nan
    share, scale = good / n, 1 + z * z / n
    middle = (share + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def evaluate(recipe: Recipe, data: Path, work: Path, model: Path, pore: Path) -> list[Tally]:
    """Evaluates a model on every set of the recipe."""
    out = []
    for one in recipe.evaluations:
        folder = work / "evaluation" / one.name.replace(" ", "-").replace("/", "-")
        folder.mkdir(parents=True, exist_ok=True)
        for depth in one.depths or (0.0,):
            results = [
                _judged(one, data, folder, model, pore, depth, seed) for seed in range(1, (one.seeds if one.depths else 1) + 1)
            ]
            for kind in one.kinds:
                rows = [_figures(result, kind) for result in results]
                totals = [sum(values) for values in zip(*rows, strict=True)]
                tally = Tally(one.name, depth, kind, len(results), *totals)
                log.info(
                    "%s, %s, %s: %d of %d found, %d of %d calls wrong",
                    one.name, f"{depth:g}x" if depth else "all reads", kind,
                    tally.found, tally.truth, tally.called - tally.right, tally.called,
                )  # fmt: skip
                out.append(tally)
    return out


def _figures(result: dict, kind: str) -> tuple[int, int, int, int]:
    """Returns (truth, found, called, right) of one comparison, with genotypes where both sides have them."""
    for row in result["rows"]:
        if row["kind"] == kind and row["stratum"] == "all":
            f = row.get("genotypes") or row["alleles"]
            return f["truth_tp"] + f["truth_fn"], f["truth_tp"], f["query_tp"] + f["query_fp"], f["query_tp"]
    raise RuntimeError(f"pore eval variants says nothing of {kind}")


def _judged(one: Evaluation, data: Path, folder: Path, model: Path, pore: Path, depth: float, seed: int) -> dict:
    alignments, reference, truth = _sample(one, data, folder, pore, depth, seed)
    calls = folder / f"calls-{depth:g}-{seed}.vcf"
    with calls.open("wb") as out:
        run(
            [str(pore), "call", "--ref", str(reference), "--ploidy", one.ploidy, "--variant-model", str(model), str(alignments)],
            stdout=out,
        )
    result = folder / f"result-{depth:g}-{seed}.json"
    with result.open("wb") as out:
        command = [str(pore), "eval", "variants", "--ref", str(reference), "--truth", str(truth), "--json", "--bootstrap", "0"]
        if one.bed:
            command += ["--bed", str(data / one.bed)]
        run([*command, "--ploidy", one.ploidy, str(calls)], stdout=out)
    return json.loads(result.read_text())


def _sample(one: Evaluation, data: Path, folder: Path, pore: Path, depth: float, seed: int) -> tuple[Path, Path, Path]:
    """Returns (alignments, reference, truth) of a set at a depth."""
    reference = data / one.reference
    if one.profile:
        return _simulated(one, reference, folder, pore, depth, seed)
    if one.alignments and not one.depths and not one.plant:
        return data / one.alignments, reference, data / one.truth
    sequences = read_fasta(reference)
    if len(sequences) != 1:
        raise ValueError(f"{reference}: sets that are thinned or planted need a reference of one sequence")
    contig, sequence = next(iter(sequences.items()))
    truth = data / one.truth if one.truth else folder / "none.vcf"
    if not one.truth:
        write_vcf([], contig, len(sequence), truth)
    rng = generator(one.name, seed)
    if one.plant:
        changes = plant(sequence, Spectrum(spacing=one.plant), rng, lambda old, new, _: (new, (old,)))
        sequence, variants = reference_of(sequence, changes)
        truth, reference = folder / f"truth-{seed}.vcf", folder / f"reference-{seed}.fa"
        write_vcf(variants, contig, len(sequence), truth)
        write_fasta({contig: sequence}, reference)
    placed = _placed(one, sequence, data, folder, pore)
    if depth:
        placed = list(thinned(placed, len(sequence), depth, rng))
    alignments = folder / f"reads-{depth:g}-{seed}.sam"
    write_sam(placed, contig, len(sequence), "sample", alignments)
    return alignments, reference, truth


def _placed(one: Evaluation, sequence: str, data: Path, folder: Path, pore: Path) -> list[Placed]:
    reads = data / one.reads
    if one.recordings:
        reads = folder / "reads.fastq"
        if not reads.is_file():
            partial = folder / "reads.partial"
            with partial.open("wb") as out:
                run(
                    [str(pore), "basecall", *(["--model", one.basecaller] if one.basecaller else []), str(data / one.recordings)],
                    stdout=out,
                )
            partial.rename(reads)
    aligner = Aligner(sequence, one.preset)
    return [p for p in map(aligner.place, read_fastq(reads)) if p]


def _simulated(one: Evaluation, reference: Path, folder: Path, pore: Path, depth: float, seed: int) -> tuple[Path, Path, Path]:
    contig, sequence = next(iter(read_fasta(reference).items()))
    if one.stretch:
        sequence, reference = sequence[: one.stretch], folder / "reference.fa"
        write_fasta({contig: sequence}, reference)
    truth, reads, alignments = folder / f"truth-{seed}.vcf", folder / "reads.fastq", folder / f"reads-{depth:g}-{seed}.sam"
    with reads.open("wb") as out:
        run(
            [
                str(pore), "simulate", "reads", "--ref", str(reference), "--variants", one.variants, "--ploidy", one.ploidy,
                "--profile", one.profile, "--depth", f"{depth:g}", "--length", str(one.length), "--seed", str(seed),
                "--truth", str(truth),
            ],
            stdout=out,
        )  # fmt: skip
    aligner = Aligner(sequence, one.preset)
    write_sam([p for p in map(aligner.place, read_fastq(reads)) if p], contig, len(sequence), "sample", alignments)
    reads.unlink()
    return alignments, reference, truth
