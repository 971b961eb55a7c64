"""Worlds: alignments of one sample to one reference with a known truth, drawn by seed.

A world's mode says how many haplotypes its reads come from: a haploid one from one, a diploid one from two, a mixture from
two in unequal parts. Depth, density of variants and everything else is drawn from the seed as well.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .planting import Chooser, Spectrum, Variant, plant, reference_of, write_vcf
from .reads import (
    Aligner,
    Errors,
    Placed,
    Read,
    errors_of,
    read_fasta,
    read_fastq,
    thinned,
    write_fasta,
    write_sam,
    written,
)
from .recipe import RealSource, SignalSource, SimulatedSource

if TYPE_CHECKING:
    from .store import Programs

CONTIG = "world"


@dataclass(frozen=True)
class World:
    """Where a world lies and what it is."""

    folder: Path
    mode: str
    """haploid, diploid or mixture."""
    depth: float
    """Mean depth that was asked for."""

    @property
    def reference(self) -> Path:
        """The FASTA that reads are aligned to."""
        return self.folder / "reference.fa"

    @property
    def alignments(self) -> Path:
        """The reads, SAM sorted by position."""
        return self.folder / "reads.sam"

    @property
    def truth(self) -> Path:
        """The variants with genotypes, VCF."""
        return self.folder / "truth.vcf"

    def write(self, reference: str, variants: list[Variant], placed: list[Placed]) -> None:
        """Writes all three."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_fasta({CONTIG: reference}, self.reference)
        write_vcf(variants, CONTIG, len(reference), self.truth)
        write_sam(placed, CONTIG, len(reference), "world", self.alignments)


def generator(source: str, seed: int) -> np.random.Generator:
    """Returns the generator of a source's world."""
    return np.random.default_rng([zlib.crc32(source.encode()), seed])


def log_uniform(low: float, high: float, rng: np.random.Generator) -> float:
    """Draws between low and high, every doubling as likely."""
    return float(low * (high / low) ** rng.random())


@lru_cache(maxsize=2)
def _placed(calls: Path, genome: Path, preset: str, region: tuple[int, int] = (0, 0)) -> tuple[str, list[Placed], Errors]:
    """Returns the only sequence of genome, or a region of it, the reads on it and their errors."""
    sequences = read_fasta(genome)
    if len(sequences) != 1:
        raise ValueError(f"{genome}: called reads need a genome of one sequence, it has {len(sequences)}")
    sequence = next(iter(sequences.values()))
    if region[1]:
        sequence = sequence[region[0] : region[1]]
    aligner = Aligner(sequence, preset)
    placed = [p for p in map(aligner.place, read_fastq(calls)) if p]
    return sequence, placed, errors_of(placed, sequence)


def called(source: RealSource | SignalSource, calls: Path, genome: Path, seed: int, folder: Path) -> World:
    """Makes a world of a basecaller's reads of a genome without variants.

    It gets variants by changing the reference, the reads, or both.
    """
    rng = generator(source.name, seed)
    region = source.region if isinstance(source, RealSource) else (0, 0)
    sequence, reads, errors = _placed(calls, genome, source.preset, region)
    mode = str(rng.choice(list(source.modes), p=np.array(list(source.modes.values())) / sum(source.modes.values())))
    depth = log_uniform(*source.depth, rng)
    fraction = {"haploid": 0.0, "diploid": 0.5}.get(mode) or log_uniform(0.05, 0.5, rng)
    changes = plant(sequence, spectrum(source, rng), rng, chooser(mode))
    reference, variants = reference_of(sequence, changes)
    aligner = Aligner(reference, source.preset)
    plain = rng.random() < source.without_qualities
    placed = []
    for read in thinned(reads, len(sequence), depth, rng):
        second = mode != "haploid" and rng.random() < fraction
        changed = written(read, changes, int(second), errors, rng)
        if plain:
            changed = Read(changed.name, changed.sequence, "")
        if found := aligner.place(changed):
            placed.append(found)
    world = World(folder, mode, depth)
    world.write(reference, variants, placed)
    return world


def spectrum(source: RealSource | SignalSource | SimulatedSource, rng: np.random.Generator) -> Spectrum:
    """Returns the variants planted in a source's world."""
    return Spectrum(spacing=log_uniform(*source.spacing, rng), mnps=source.mnps, delins=source.delins, neighbours=source.neighbours)


def chooser(mode: str) -> Chooser:
    """Returns how the changes of a world of called reads are spread over reference and haplotypes."""

    def haploid(old: str, new: str, rng: np.random.Generator) -> tuple[str, tuple[str, ...]]:
        # Real reads against a changed reference; now and then the other way round.
        return (new, (old,)) if rng.random() < 0.9 else (old, (new,))

    def diploid(old: str, new: str, rng: np.random.Generator) -> tuple[str, tuple[str, ...]]:
        kind = rng.random()
        if kind < 0.3:
            return new, (old, old)
        second = rng.random() < 0.5
        if kind < 0.9:
            reference = new if rng.random() < 0.5 else old
            return reference, (old, new) if second else (new, old)
        # Two different alleles: the reference has neither the genome's nor the new one.
        third = _third(old, new, rng)
        return third, (old, new) if second else (new, old)

    def mixture(old: str, new: str, rng: np.random.Generator) -> tuple[str, tuple[str, ...]]:
        if rng.random() < 0.35:
            return new, (old, old)
        return old, (old, new)  # the second haplotype is the rarer one

    return {"haploid": haploid, "diploid": diploid, "mixture": mixture}[mode]


def _third(old: str, new: str, rng: np.random.Generator) -> str:
    """Returns a third allele beside old and new: other bases, or one base more or fewer than the longer one."""
    if len(old) == len(new):
        return "".join(str(rng.choice([b for b in "ACGT" if b not in (x, y)])) for x, y in zip(old, new, strict=True))
    longer = max(old, new, key=len)
    return longer + longer[0] if rng.random() < 0.5 or len(longer) < 2 else longer[:-1]


def simulated(source: SimulatedSource, genome: Path, pore: Path, scale: Path, seed: int, folder: Path) -> World:
    """Makes a world of simulated reads: `pore simulate reads` writes them, over a piece of the genome."""
    rng = generator(source.name, seed)
    sequences = sorted(read_fasta(genome).values())
    mode = str(rng.choice(list(source.modes), p=np.array(list(source.modes.values())) / sum(source.modes.values())))
    depth = log_uniform(*source.depth, rng)
    sequence = sequences[int(rng.integers(len(sequences)))]
    piece = with_repeats(_known(sequence, source.piece, rng), source.repeats, rng)

    def choose(old: str, new: str, rng: np.random.Generator) -> tuple[str, tuple[str, ...]]:
        if mode == "haploid":
            return old, (new,)
        kind = rng.random()
        if kind < 0.35:
            return old, (new, new)
        second = rng.random() < 0.5
        if kind < 0.93:
            return old, (old, new) if second else (new, old)
        third = _third(old, new, rng)
        return old, (third, new) if second else (new, third)

    changes = plant(piece, spectrum(source, rng), rng, choose)
    reference, variants = reference_of(piece, changes)
    world = World(folder, mode, depth)
    folder.mkdir(parents=True, exist_ok=True)
    write_fasta({CONTIG: reference}, world.reference)
    write_vcf(variants, CONTIG, len(reference), world.truth)
    factor = log_uniform(*source.errors, rng)
    name, sites = str(rng.choice(list(source.profiles))), int(rng.integers(1, 2**31))
    ploidy = "1" if mode == "haploid" else "2"
    reads = _simulated_reads(
        source, world, pore, scale, (name, factor, sites), int(rng.integers(1, 2**31)),
        "--vcf-in", str(world.truth), "--ploidy", ploidy,
    )  # fmt: skip
    aligner = Aligner(reference, source.preset)
    plain = rng.random() < source.without_qualities
    placed = []
    for read in reads:
        if found := aligner.place(Read(read.name, read.sequence, "") if plain else read):
            placed.append(found)
    world.write(reference, variants, placed)
    return world


def _simulated_reads(
    source: SimulatedSource, world: World, pore: Path, scale: Path, profile: tuple[str, float, int], seed: int, *sample: str
) -> list[Read]:
    """Simulates reads of a world's reference: by a profile, whose rates a factor scales and whose sites of systematic errors a seed
    draws. sample is what `pore simulate reads` is given of the sample's variants."""
    name, factor, sites = profile
    scaled, calls = world.folder / "profile.toml", world.folder / "reads.fastq"
    with scaled.open("wb") as out:
        run([str(scale), "--factor", f"{factor:.4g}", "--seed", str(sites), name], stdout=out)
    command = [
        str(pore), "simulate", "reads", "--ref", str(world.reference), *sample, "--profile", str(scaled),
        "--depth", f"{world.depth:.2f}", "--length", str(source.length), "--seed", str(seed),
    ]  # fmt: skip
    with calls.open("wb") as out:
        run(command, stdout=out)
    reads = list(read_fastq(calls))
    for path in (scaled, calls):
        path.unlink()
    return reads


def without_variants(
    source: SimulatedSource, profile: str, genome: Path, programs: Programs, length: int, depth: float, folder: Path
) -> str:
    """Simulates reads of a piece of a source's genome without variants, and returns how often they err, as TOML."""
    rng = generator(f"{source.name}, errors", 0)
    sequence = max(read_fasta(genome).values(), key=len)
    piece = with_repeats(_known(sequence, min(length, len(sequence)), rng), source.repeats * length // source.piece, rng)
    folder.mkdir(parents=True, exist_ok=True)
    world = World(folder, "haploid", depth)
    write_fasta({CONTIG: piece}, world.reference)
    factor = float(np.sqrt(source.errors[0] * source.errors[1]))
    reads = _simulated_reads(source, world, programs.pore, programs.scale, (profile, factor, 1), 1)
    aligner = Aligner(piece, source.preset)
    placed = [found for read in reads if (found := aligner.place(read))]
    world.write(piece, [], placed)
    counted = folder / "counted.toml"
    with counted.open("wb") as out:
        run([str(programs.extract), "errors", "--ref", str(world.reference), str(world.alignments)], stdout=out)
    for path in (world.alignments, world.reference, world.truth):
        path.unlink()
    return counted.read_text()


def _known(sequence: str, length: int, rng: np.random.Generator) -> str:
    """Draws a piece of a sequence in which every base is known."""
    for _ in range(100):
        begin = int(rng.integers(max(1, len(sequence) - length)))
        piece = sequence[begin : begin + length]
        if not set(piece) - set("ACGT"):
            return piece
    raise ValueError(f"the genome has hardly a stretch of {length} bases A, C, G and T")


@dataclass(frozen=True)
class Piece:
    """A piece of a genome, and the signal that a pore would give of it."""

    genome: Path
    """FASTA of one sequence."""
    recording: Path


def piece(source: SignalSource, genome: Path, pore: Path, index: int, folder: Path) -> Piece:
    """Makes a piece of a source's genome, with repeats put in, and has `pore simulate` record it. Existing files stay."""
    made = Piece(folder / "genome.fa", folder / "reads.pod5")
    if made.recording.is_file():
        return made
    rng = generator(f"{source.name}, piece", index)
    sequence = max(read_fasta(genome).values(), key=len)
    room = len(sequence) // source.pieces  # no two pieces share a base: some are held out
    if room < source.piece:
        raise ValueError(f"{genome}: too short for {source.pieces} pieces of {source.piece} bases (source {source.name})")
    begin = index * room + int(rng.integers(room - source.piece + 1))
    folder.mkdir(parents=True, exist_ok=True)
    write_fasta({CONTIG: with_repeats(sequence[begin : begin + source.piece], source.repeats, rng)}, made.genome)
    partial = folder / "partial"
    run(
        [
            str(pore), "simulate", "--ref", str(made.genome), "--variants", "none", "--circular",
            "--depth", f"{source.coverage:g}", "--length", str(source.length), "--seed", str(int(rng.integers(1, 2**31))),
            "--noise", f"{rng.uniform(*source.noise):.4f}", "--speed", f"{rng.uniform(*source.speed):.4f}", "--out", str(partial),
        ]
    )  # fmt: skip
    os.replace(partial / made.recording.name, made.recording)
    shutil.rmtree(partial)
    return made


def with_repeats(sequence: str, number: int, rng: np.random.Generator) -> str:
    """Returns the sequence with repeats like those of the human genome put in, about evenly.

    Homopolymers of 6 to 15 bases, and units of two to four bases repeated over 8 to 40.
    """
    out, at = [], 0
    for place in np.sort(rng.integers(0, len(sequence), number)):
        if rng.random() < 0.5:
            repeat = "ACGT"[int(rng.choice(4, p=[0.4, 0.1, 0.1, 0.4]))] * int(rng.integers(6, 16))
        else:
            unit = "".join(rng.choice(list("ACGT"), int(rng.integers(2, 5))))
            repeat = (unit * 20)[: int(rng.integers(8, 41))]
        out += [sequence[at:place], repeat]
        at = int(place)
    return "".join([*out, sequence[at:]])


def run(command: list[str], stdout=subprocess.DEVNULL) -> None:
    """Runs a program; its failure is an error with what it said."""
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=stdout is subprocess.DEVNULL, check=False)
    if done.returncode:
        said = done.stderr if isinstance(done.stderr, str) else done.stderr.decode(errors="replace")
        raise RuntimeError(f"{' '.join(command[:3])}: {said.strip()[-500:] or f'status {done.returncode}'}")
