import shutil
from dataclasses import replace

import numpy as np
import pytest
from conftest import current_of, write_blow5

from basecall_train.alignment import reverse_complement
from basecall_train.calling import greedy
from basecall_train.manifest import ALPHABET
from basecall_train.overlaps import Ear, overlapping_truths
from basecall_train.recipe import Recipe
from basecall_train.store import prepare
from basecall_train.targets import UNKNOWN, condition_on


def random_bases(n, rng):
    return "".join(rng.choice(list("ACGT"), n))


def heard(bases, rng, wrong=0.08):
    """Returns the output for a read that has three frames for each base, and takes some for another base, though not by far."""
    posteriors = np.full((3 * len(bases), 5), 0.01, np.float32)
    posteriors[:, 0] = 0.96
    for i, base in enumerate(bases):
        true = ALPHABET.index(base)
        posteriors[3 * i] = 0.01
        posteriors[3 * i, true] = 0.96
        if rng.random() < wrong:
            posteriors[3 * i, [true, 1 + (true + rng.integers(3)) % 4]] = 0.37, 0.60
    return Ear(greedy(posteriors, ALPHABET), posteriors)


@pytest.mark.parametrize("turned", [False, True])
def test_reads_that_overlap_correct_each_other(turned):
    rng = np.random.default_rng(1)
    genome = random_bases(6000, rng)
    reads = [genome[:4000], reverse_complement(genome[1500:]) if turned else genome[1500:]]
    ears = [heard(read, rng) for read in reads]
    shared = [(1500, 4000), (2000, 4500) if turned else (0, 2500)]
    for read, ear, parts, inside in zip(reads, ears, overlapping_truths(ears), shared, strict=True):
        conditioned = condition_on(ear.posteriors, parts)
        known = conditioned.bases != UNKNOWN
        truth = np.zeros(3 * len(read), np.uint8)
        truth[::3] = [ALPHABET.index(base) for base in read]
        outside = np.ones(len(known), bool)
        outside[3 * inside[0] : 3 * inside[1]] = False
        assert not known[outside].any(), "only one read was there"
        assert known[~outside].mean() > 0.8
        called = np.zeros(3 * len(read), np.uint8)
        called[ear.call.frames] = [ALPHABET.index(base) for base in ear.call.bases]
        wrong = (conditioned.bases != truth)[known].sum(), (called != truth)[known].sum()
        assert wrong[1] > 100 and wrong[0] < 0.15 * wrong[1], wrong


def test_what_is_alike_within_reads_is_no_overlap():
    rng = np.random.default_rng(2)
    repeat = random_bases(2000, rng)
    ears = [heard(random_bases(1500, rng) + repeat + random_bases(1500, rng), rng) for _ in range(2)]
    assert overlapping_truths(ears) == [[], []]


def test_short_reads_and_none_are_left_alone():
    rng = np.random.default_rng(3)
    short = random_bases(900, rng)
    assert overlapping_truths([heard(short, rng), heard(short, rng)]) == [[], []]
    assert overlapping_truths([]) == []


def prepared_with(world, folder, truths):
    """Returns the bases of two reads that overlap as they are prepared with each of the truths, lines of a recipe by name.

    folder already has what the truths name but the genome itself.
    """
    rng = np.random.default_rng(4)
    reads = {"one": world.genome[:2500], "other": reverse_complement(world.genome[1000:4000])}
    write_blow5(folder / "reads.blow5", {name: current_of(bases, rng) for name, bases in reads.items()})
    for file in ("genome.fa", "teacher.onnx"):
        shutil.copy(world.folder / file, folder)
    text = world.recipe.read_text()
    bases = {}
    for name, truth in truths.items():
        (folder / "toy.toml").write_text(text.replace('reference = "genome.fa"', truth, 1))
        recipe = Recipe.load(folder / "toy.toml")
        prepare(replace(recipe, sources=recipe.sources[:1]), folder, folder / name)
        bases[name] = np.load(folder / name / "labelled" / "bases.npy")
    return bases


def test_a_source_can_be_its_own_truth(world, tmp_path):
    bases = prepared_with(world, tmp_path, {"own": "overlaps = true", "genome": 'reference = "genome.fa"'})
    both = (bases["own"] != UNKNOWN) & (bases["genome"] != UNKNOWN)
    assert both.mean() > 0.4, "3,000 of 5,500 bases are in both"
    assert (bases["own"] == bases["genome"])[both].mean() > 0.97
