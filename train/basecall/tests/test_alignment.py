from itertools import pairwise

import numpy as np
import pytest

from basecall_train.alignment import Hit, Reference, reverse_complement
from basecall_train.calling import Call
from basecall_train.evaluation import Errors, Result, between, fit_qualities, quality_bins
from basecall_train.manifest import Manifest


@pytest.mark.parametrize("strand", [1, -1])
def test_columns_spell_query_and_target(world, strand):
    piece = world.genome[1000:1600]
    query = piece[:200] + "ACGTTGCA" + piece[200:400] + piece[403:]
    query = query if strand > 0 else reverse_complement(query)
    hit = Reference({"genome": world.genome}).best(query)
    columns = list(hit.walk())
    assert "".join(query[q] for q, _ in columns if q >= 0) == query[hit.query_start : hit.query_end]
    assert "".join(hit.target[t] for _, t in columns if t >= 0) == hit.target
    assert sum(q >= 0 and t >= 0 and query[q] == hit.target[t] for q, t in columns) == hit.matches
    assert len(columns) == hit.columns
    assert hit.target in (world.genome if strand > 0 else reverse_complement(world.genome))


def test_no_hit_for_a_strange_sequence(world):
    assert Reference({"genome": world.genome}).best("AC" * 300) is None


def hit_of(query: str, target: str, cigar: list[tuple[int, int]]) -> Hit:
    return Hit("c", 0, len(query), target, tuple(cigar), len(query), 0, 1)


@pytest.mark.parametrize(
    "query, target, cigar, expected",
    [
        ("ACGT", "ACGT", [(4, 0)], Errors(4)),
        ("ACGT", "ATGT", [(4, 0)], Errors(3, substitutions=1)),
        ("AGT", "ACGT", [(1, 0), (1, 2), (2, 0)], Errors(3, deletions=1)),
        ("CAAT", "CAAAT", [(2, 0), (1, 2), (2, 0)], Errors(4, deletions=1, homopolymer_deletions=1)),
        ("CAAAAT", "CAAAT", [(1, 0), (1, 1), (4, 0)], Errors(5, insertions=1, homopolymer_insertions=1)),
        ("CAAAGT", "CAAAT", [(4, 0), (1, 1), (1, 0)], Errors(5, insertions=1)),
        ("CAAAAT", "CAAAT", [(4, 0), (1, 1), (1, 0)], Errors(5, insertions=1, homopolymer_insertions=1)),
    ],
)
def test_errors_are_told_apart(query, target, cigar, expected):
    errors = Errors()
    errors.add(query, hit_of(query, target, cigar))
    assert errors == expected


def test_right_and_wrong_bases():
    query, target = "GACTTG", "ACTG"
    hit = Hit("c", 1, 6, target, ((3, 0), (1, 1), (1, 0)), 6, 4, 5)
    assert list(Errors().add(query, hit)) == [-1, 1, 1, 1, 0, 1]


def test_quality_calibration_recovers_the_truth():
    rng = np.random.default_rng(0)
    result = Result("simulated")
    claimed = rng.uniform(2, 30, 200_000)
    truth = 0.7 * claimed + 3
    result.probabilities.append(1 - 10 ** (-claimed / 10))
    result.right.append((rng.random(len(claimed)) > 10 ** (-truth / 10)).astype(np.int8))
    manifest = Manifest("m", "1", "", "r9.4", (4000,), 3, 3600, 600, quality_curve=fit_qualities(result))
    line = np.array([5.0, 12.0, 20.0, 28.0])
    assert np.abs(manifest.qualities(line) - (0.7 * line + 3)).max() < 0.7
    bins = quality_bins(result, manifest.qualities)
    assert sum(b.bases for b in bins) > 190_000 and all(abs(b.predicted - b.observed) < 1 for b in bins if b.bases > 5000)


@pytest.mark.parametrize("bases, within", [(400_000, 0.35), (40_000, 1.0)])
def test_a_calibration_does_not_follow_chance(bases, within):
    rng = np.random.default_rng(2)
    result = Result("bent")
    claimed = rng.integers(3, 31, bases).astype(float)
    truth = 2 + 0.9 * claimed - 0.007 * claimed**2
    result.probabilities.append(1 - 10 ** (-claimed / 10))
    result.right.append((rng.random(bases) > 10 ** (-truth / 10)).astype(np.int8))
    x, y = np.array(fit_qualities(result)).T
    assert x[0] == 3 and x[-1] > 20
    assert np.abs(y - (2 + 0.9 * x - 0.007 * x**2)).max() < within


def test_of_few_errors_a_calibration_is_their_share():
    result = Result("few")
    result.probabilities.append(np.full(5000, 0.99))
    result.right.append(np.r_[np.zeros(50), np.ones(4950)].astype(np.int8))
    assert fit_qualities(result) == ((20.0, 20.0),)


def test_a_calibration_never_falls():
    result = Result("noisy")
    rng = np.random.default_rng(1)
    for claimed in range(4, 40):
        result.probabilities.append(np.full(300, 1 - 10 ** (-claimed / 10)))
        result.right.append((rng.random(300) < 0.9).astype(np.int8))
    curve = fit_qualities(result)
    assert 1 <= len(curve) < 20 and all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(curve))
    with pytest.raises(ValueError, match="noisy: no aligned bases"):
        fit_qualities(Result("noisy"))


def test_a_curve_is_straight_between_its_points():
    manifest = Manifest("m", "1", "", "r9.4", (4000,), 3, 3600, 600, quality_curve=((10.0, 8.0), (30.0, 20.0)))
    got = manifest.qualities(np.array([-5.0, 0.0, 5.0, 10.0, 20.0, 30.0, 45.0]))
    assert got == pytest.approx([-4, 0, 4, 8, 14, 20, 20])  # as package calibration of the engine


def test_a_read_that_does_not_align_counts_as_a_read(world):
    result = Result("r")
    result.add(Call("AC" * 300, np.arange(600), np.full(600, 0.9)), Reference({"genome": world.genome}))
    assert result.reads == 1 and result.bases == 600 and not result.identities


def test_between_curves_nothing_is_further_off_than_it_must_be():
    low, high = ((5.0, 4.0), (10.0, 8.0), (20.0, 16.0)), ((4.0, 5.0), (10.0, 10.0), (15.0, 13.0))
    assert between([low]) == low
    assert between([low, high, low]) == ((5.0, 4.92), (10.0, 9.0), (20.0, 14.5))
    level = ((5.0, 4.0), (6.0, 4.5))
    assert between([high, level, level]) == ((4.0, 4.1), (10.0, 7.25), (15.0, 8.75))
    assert between([low, ((5.0, 20.0), (10.0, 20.1)), ((5.0, 1.0), (10.0, 1.5))]) == ((5.0, 10.5), (10.0, 10.8))
