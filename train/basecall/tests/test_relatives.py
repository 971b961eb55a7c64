import numpy as np
import pytest
from test_overlaps import heard, prepared_with, random_bases

from basecall_train.alignment import Reference, reverse_complement
from basecall_train.manifest import ALPHABET
from basecall_train.recipe import Source
from basecall_train.relatives import related_truth
from basecall_train.targets import UNKNOWN, condition_on

BASES = "ACGT"


def strain(genome, rng, apart):
    """Returns a genome with a part of its bases changed, inserted or left out."""
    made = []
    for base in genome:
        other = BASES[rng.integers(4)]
        made.append(rng.choice([other, base + other, ""]) if rng.random() < apart else base)
    return "".join(made)


def true_frames(read):
    frames = np.zeros(3 * len(read), np.uint8)
    frames[::3] = [ALPHABET.index(base) for base in read]
    return frames


@pytest.mark.parametrize("turned", [False, True])
def test_the_likeliest_of_the_relatives_is_taken_in_every_place(turned):
    rng = np.random.default_rng(1)
    ancestor = random_bases(12000, rng)
    # One is close to the read over its first half, the other over its second.
    read = ancestor[3000:9000]
    genomes = [
        ancestor[:6000] + strain(ancestor[6000:], rng, 0.04),
        strain(ancestor[:6000], rng, 0.04) + ancestor[6000:],
    ]
    if turned:
        read = reverse_complement(read)
    ear = heard(read, rng)
    conditioned = condition_on(ear.posteriors, related_truth(ear.call, ear.posteriors, [Reference({"c": g}) for g in genomes]))
    known = conditioned.bases != UNKNOWN
    truth, called = true_frames(read), np.zeros(3 * len(read), np.uint8)
    called[ear.call.frames] = [ALPHABET.index(base) for base in ear.call.bases]
    assert known.mean() > 0.9
    wrong = (conditioned.bases != truth)[known].sum(), (called != truth)[known].sum()
    assert wrong[1] > 300 and wrong[0] < 0.05 * wrong[1], wrong


def test_what_no_relative_has_is_not_known():
    rng = np.random.default_rng(2)
    shared, own = random_bases(3000, rng), random_bases(3000, rng)
    ear = heard(shared + own, rng)
    conditioned = condition_on(ear.posteriors, related_truth(ear.call, ear.posteriors, [Reference({"c": shared})]))
    known = conditioned.bases != UNKNOWN
    assert known[: 3 * 2900].mean() > 0.9
    assert not known[3 * 3000 :].any()


def test_a_relative_too_far_away_is_none():
    rng = np.random.default_rng(3)
    read = random_bases(6000, rng)
    ear = heard(read, rng, wrong=0.02)
    far = [Reference({"c": strain(read, rng, 0.18)})]
    conditioned = condition_on(ear.posteriors, related_truth(ear.call, ear.posteriors, far))
    assert (conditioned.bases != UNKNOWN).mean() < 0.1, "but where it happens to be near"
    assert related_truth(ear.call, ear.posteriors, []) == []


def test_a_source_can_have_relatives(world, tmp_path):
    (tmp_path / "near.fa").write_text(f">near\n{strain(world.genome, np.random.default_rng(4), 0.01)}\n")
    truths = {"relatives": 'relatives = ["near.fa", "genome.fa"]', "genome": 'reference = "genome.fa"'}
    bases = prepared_with(world, tmp_path, truths)
    both = (bases["relatives"] != UNKNOWN) & (bases["genome"] != UNKNOWN)
    assert both.mean() > 0.8
    assert (bases["relatives"] == bases["genome"])[both].mean() > 0.99


def test_there_is_one_kind_of_truth():
    with pytest.raises(ValueError, match="one of reference, relatives"):
        Source("s", 1.0, recordings="r.blow5", reference="g.fa", relatives=("h.fa",))
    with pytest.raises(ValueError, match="only recordings need a truth"):
        Source("s", 1.0, pieces_of=("other",), relatives=("h.fa",))
