import numpy as np
import pytest

from variant_train.planting import Change, Spectrum, normalised, occupied, plant, reference_of, spelled
from variant_train.worlds import chooser, with_repeats

GENOME = "".join(np.random.default_rng(1).choice(list("ACGT"), 20_000))


@pytest.mark.parametrize(
    "sequence, change, wanted",
    [
        ("ACGTACGT", (3, "T", "G"), (3, "T", "G")),
        ("ACCCCT", (4, "C", ""), (0, "AC", "A")),
        ("ACCCCT", (5, "", "CC"), (0, "A", "ACC")),
        ("GATATATC", (5, "AT", ""), (0, "GAT", "G")),
        ("GATATATC", (7, "", "ATAT"), (0, "G", "GATAT")),
        ("GTCTATC", (3, "TAT", ""), (2, "CTAT", "C")),
        ("ACGTA", (1, "CGT", "CTT"), (2, "G", "T")),
        ("ACGTA", (1, "CGT", "AGA"), (1, "CGT", "AGA")),
    ],
)
def test_alleles_are_left_aligned_and_parsimonious(sequence, change, wanted):
    assert normalised(sequence, *change) == wanted


def test_a_change_of_something_else_is_refused():
    with pytest.raises(ValueError, match="holds"):
        normalised("ACGT", 1, "G", "T")


@pytest.mark.parametrize(
    "change, wanted",
    [((3, "T", "G"), (3, 4)), ((6, "", "A"), (3, 8)), ((5, "A", ""), (3, 8)), ((9, "", "G"), (8, 10))],
)
def test_an_indel_occupies_its_repeat(change, wanted):
    assert occupied("CCCTAAATCCTC"[:8] + "CCTC", *change) == wanted


@pytest.mark.parametrize("parts", [{}, {"mnps": 0.15, "delins": 0.15, "neighbours": 0.2}])
@pytest.mark.parametrize("mode", ["haploid", "diploid", "mixture"])
def test_the_truth_turns_the_reference_into_the_haplotypes(mode, parts):
    rng = np.random.default_rng(5)
    changes = plant(GENOME, Spectrum(spacing=80, **parts), rng, chooser(mode))
    assert len(changes) > 80
    reference, variants = reference_of(GENOME, changes)
    for haplotype in range(1 if mode == "haploid" else 2):
        sequence, at = [], 0
        for v in (v for v in variants if v.genotype[haplotype]):
            # An anchor may be shared with the variant before, changed bases may not.
            start = v.position + (v.ref[0] == v.alt[0])
            assert start >= at and reference[v.position : v.position + len(v.ref)] == v.ref
            sequence += [reference[at:start], v.alt[start - v.position :]]
            at = v.position + len(v.ref)
        assert "".join([*sequence, reference[at:]]) == spelled(GENOME, changes, haplotype)


def test_all_kinds_are_planted_in_known_proportions():
    rng = np.random.default_rng(2)
    changes = plant(GENOME * 5, Spectrum(spacing=60), rng, chooser("haploid"))
    growth = np.array([len(c.haplotypes[0]) - len(c.reference) for c in changes])
    assert 0.35 < (growth == 0).mean() < 0.65
    assert (abs(growth) <= 20).all() and (abs(growth) > 8).any() and (abs(growth) == 1).mean() > 0.1
    assert 0.5 < (growth > 0).sum() / (growth < 0).sum() < 2


def test_events_of_several_bases_are_no_simpler_ones():
    rng = np.random.default_rng(4)
    changes = plant(GENOME * 10, Spectrum(spacing=60, mnps=0.2, delins=0.2), rng, chooser("haploid"))
    kinds = {"mnp": 0, "delins": 0, "other": 0}
    growth, rows = set(), set()
    for c in changes:
        new = (set(c.haplotypes) | {c.reference}) - {c.old}
        (new,) = new
        if not c.old or not new or len(c.old) == len(new) == 1:
            kinds["other"] += 1
            continue
        assert c.old[0] != new[0] and c.old[-1] != new[-1]
        if len(c.old) == len(new):
            kinds["mnp"] += 1
            rows.add(len(new))
            assert all(a != b for a, b in zip(c.old, new, strict=True))
        else:
            kinds["delins"] += 1
            growth.add(len(new) - len(c.old))
            assert min(len(new), len(c.old)) <= 5
    for kind, share in {"mnp": 0.2, "delins": 0.2, "other": 0.6}.items():
        assert abs(kinds[kind] / len(changes) - share) < 0.05, kinds
    assert rows == {2, 3, 4, 5} and growth == set(range(-15, 16)) - {0}


def test_neighbours_have_unchanged_bases_between():
    rng = np.random.default_rng(6)
    changes = plant(with_repeats(GENOME * 5, 500, rng), Spectrum(spacing=200, clustered=0, neighbours=0.4), rng, chooser("haploid"))
    between = [b.start - a.start - len(a.old) for a, b in zip(changes, changes[1:], strict=False)]
    assert min(between) == 1
    near = [n for n in between if n <= 10]
    assert set(near) == set(range(1, 11)) and 0.15 < len(near) / len(changes) < 0.35
    events = [c for c in changes if c.old and set(c.haplotypes) | {c.reference} != {c.old, ""} and len(c.old) > 1]
    assert len(events) > 10, "two indels in a repeat are one event"


def test_other_parts_leave_what_is_drawn_as_it_was():
    plain = plant(GENOME, Spectrum(), np.random.default_rng(1), chooser("diploid"))
    none = plant(GENOME, Spectrum(mnps=0, delins=0, neighbours=0), np.random.default_rng(1), chooser("diploid"))
    assert plain == none


def test_seeds_decide():
    drawn = [plant(GENOME, Spectrum(), np.random.default_rng(seed), chooser("diploid")) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_two_alleles_at_a_place_are_two_variants():
    reference, variants = reference_of("ACGTACGTAC", [Change(4, "A", "T", ("A", "G"))])
    assert reference == "ACGTTCGTAC"
    assert [(v.position, v.ref, v.alt, v.genotype) for v in variants] == [(4, "T", "A", (1, 0)), (4, "T", "G", (0, 1))]


def test_repeats_are_put_in_and_nothing_is_lost():
    with_some = with_repeats(GENOME, 50, np.random.default_rng(3))
    assert len(with_some) > len(GENOME) + 50 * 6
    letters = iter(with_some)
    assert all(base in letters for base in GENOME)
    assert "A" * 8 in with_some or "T" * 8 in with_some


def test_nothing_is_planted_into_unknown_bases():
    genome = "N" * 3000 + "".join(np.random.default_rng(1).choice(list("ACGT"), 3000))
    changes = plant(genome, Spectrum(spacing=40), np.random.default_rng(2), lambda old, new, _: (old, (new,)))
    assert changes and min(change.start for change in changes) > 3000
