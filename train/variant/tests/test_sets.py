"""Sets of reads have curves of their own where these are better, and nowhere else."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from variant_train.calibration import GRID, Curve, Judged, fit
from variant_train.recipe import RealSource, SimulatedSource
from variant_train.sets import (
    HEADING,
    Plan,
    Rates,
    calibration_error,
    compare,
    log_loss,
    mean_rates,
    measured,
    outcome,
    rates_table,
    rewritten,
    section,
    shared_curves,
    with_section,
)
from variant_train.store import LABEL
from variant_train.worlds import _known, _placed

IDENTITY = tuple((float(x), float(x)) for x in GRID)

MANIFEST = """format = 1
name = "toy"

[[calibration]]             # fitted on 7 examples
type = "snp"
ploidy = "1"
qual = [[1.0, 1.0], [90.0, 90.0]]

[[reads]]
name = "one"
chemistry = "r9.4"
tier = "hac"
models = ["one"]
data = "as before"
shared = true

[[reads]]
name = "other"
chemistry = "r9.4"
tier = "sup"
models = ["r9.4/sup/*"]
data = "nothing"
simulated = true
shared = true
"""

PLAN = """
[[real]]
name = "a"
reads = "a.fastq"
genome = "a.fa"
worlds = 2
[[real]]
name = "b"
reads = "b.fastq"
genome = "b.fa"
worlds = 3
[[set]]
name = "one"
fit = ["a"]
judge = ["b"]
data = "a: \\"real\\""
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return Plan.load(path)


def judged(seed: int, slope: float, size: int = 400) -> Judged:
    """Examples of haploid SNPs of a network whose log odds are to be multiplied by slope."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(0, 4, size)
    labels = np.zeros(size, LABEL)
    labels["copies"] = 2 * (rng.random(size) < 1 / (1 + np.exp(-slope * odds)))
    copies = np.stack([-np.logaddexp(0, odds), np.full(size, -1e4), -np.logaddexp(0, -odds)], 1)
    return Judged(copies, labels, np.ones(size), np.full(size, "a"), np.zeros(size, int))


@pytest.mark.parametrize(("slope", "own"), [(0.4, True), (1.0, False)])
def test_a_set_has_its_own_curve_where_that_is_better(slope, own):
    shared = {("haploid", "snp"): Curve("snp", "haploid", IDENTITY, (), 0)}
    fitted = [judged(seed, slope) for seed in range(20)]
    curves = fit(
        Judged(*(np.concatenate([getattr(w, n) for w in fitted]) for n in ("copies", "labels", "weight", "source", "type")))
    )
    (figures,) = compare(curves, shared, [judged(100 + seed, slope) for seed in range(20)])
    assert figures.own == own
    assert (figures.mode, figures.type) == ("haploid", "snp")
    assert figures.present + figures.absent == 20 * 400
    if own:
        assert figures.log_loss[1] < figures.log_loss[0]
        assert figures.calibration[1] < figures.calibration[0] / 2
        assert figures.sure == 1
        assert not replace(figures, false=(1, 2)).own, "false calls count"
        assert not replace(figures, sure=0.98).own, "chance does not"


def test_too_few_alleles_judge_nothing():
    shared = {("haploid", "snp"): Curve("snp", "haploid", IDENTITY, (), 0)}
    own = [
        Curve("snp", "haploid", IDENTITY, (), 0),
        Curve("indel", "haploid", IDENTITY, (), 0),
        Curve("snp", "mixture", IDENTITY, (), 0),
    ]
    assert compare(own, shared, [judged(1, 1, 60)]) == []


def test_losses_and_errors():
    qual, present = np.array([10.0, 10.0, 3.0]), np.array([True, False, True])
    assert log_loss(qual, present) == pytest.approx([-np.log(0.9), -np.log(0.1), -np.log(1 - 10**-0.3)])
    # A bin of two alleles, one absent where a tenth is predicted, and one of one, not absent where a half is predicted.
    assert calibration_error(qual, present, np.ones(3)) == pytest.approx((0.8 + 10**-0.3) / 3)
    assert calibration_error(qual, present, np.array([9.0, 1.0, 0.0])) == pytest.approx(0)


def test_a_manifest_gets_curves_and_keeps_the_rest(plan):
    manifest = tomllib.loads(MANIFEST)
    curve = Curve("snp", "haploid", ((1.0, 0.5), (90.0, 60.0)), (), 11)
    text = rewritten(MANIFEST, manifest, plan, {"one": [curve]})
    assert text.startswith(MANIFEST[: MANIFEST.index("\n[[reads]]")])
    one, other = tomllib.loads(text)["reads"]
    assert one["calibration"] == [{"type": "snp", "ploidy": "1", "qual": [[1.0, 0.5], [90.0, 60.0]]}]
    assert "shared" not in one and one["data"] == 'a: "real"'
    assert other == manifest["reads"][1]
    again = rewritten(text, tomllib.loads(text), plan, {"one": []})
    assert tomllib.loads(again)["reads"][0] == manifest["reads"][0] | {"data": 'a: "real"'}, "and loses them again"
    assert shared_curves(manifest)["haploid", "snp"].qual == ((1.0, 1.0), (90.0, 90.0))


RATES = {"mismatch": 0.01, "gaps": 0.02, "other": 0.003, "extension": 0.2, "deletion": [0.1] * 8, "insertion": [0.05] * 8}


def test_a_manifest_gets_rates_and_loses_them_again(plan):
    manifest = tomllib.loads(MANIFEST)
    text = rewritten(MANIFEST, manifest, plan, {"one": []}, {"one": RATES})
    one, other = tomllib.loads(text)["reads"]
    assert one["errors"] == RATES and one["shared"]
    assert other == manifest["reads"][1]
    assert "errors" not in tomllib.loads(rewritten(text, tomllib.loads(text), plan, {"one": []}))["reads"][0]


def test_rates_of_profiles_are_averaged():
    other = {key: (np.array(value) * 3).tolist() for key, value in RATES.items()}
    mean = mean_rates([RATES, other])
    assert mean["mismatch"] == pytest.approx(0.02) and mean["deletion"] == pytest.approx([0.2] * 8)
    assert tomllib.loads(rates_table(mean)) == mean


def test_rates_are_counted_anew_for_another_source(plan, tmp_path, monkeypatch):
    source = SimulatedSource(name="s", genome="g.fa", worlds=1, profiles=("x", "dir/y.toml"))

    def counted(source, profile, genome, programs, length, depth, folder):
        folder.mkdir(parents=True, exist_ok=True)
        return rates_table(RATES | {"mismatch": 0.01 * source.errors[0]})

    def mismatch(errors):
        own = replace(plan, simulated=(replace(source, errors=errors),))
        one = replace(plan.sets[0], fit=("s",))
        return tomllib.loads(measured(one, own, tmp_path, tmp_path, None))["mismatch"]

    monkeypatch.setattr("variant_train.sets.without_variants", counted)
    assert mismatch((1, 1)) == pytest.approx(0.01)
    assert mismatch((3, 3)) == pytest.approx(0.03), "not those of the source as it was"
    monkeypatch.setattr("variant_train.sets.without_variants", None)
    assert mismatch((1, 1)) == pytest.approx(0.01), "what is there stays"


def test_rates_are_taken_where_more_is_found_for_fewer_nats():
    shared = {("haploid", "snp"): Curve("snp", "haploid", IDENTITY, (), 0)}
    timid = [Curve("snp", "haploid", tuple((x, x / 4) for x, _ in IDENTITY), (), 0)]
    worlds = [judged(seed, 1.0) for seed in range(10)]
    own, less = outcome(shared, [], worlds), outcome(shared, timid, worlds)
    assert less.found < own.found and less.nats > own.nats
    assert Rates(less, own).own and not Rates(own, less).own
    assert not Rates(own, own).own, "what is worth nothing isn't in the manifest"


def test_a_card_gets_a_section(plan):
    text = section(tomllib.loads(MANIFEST), plan, {})
    card = f"# toy\n\n{HEADING}\nold\n\n## Limits\n\nmany\n"
    new = with_section(card, text)
    assert "old" not in new and new.startswith("# toy\n\n" + HEADING) and new.endswith("\n\n## Limits\n\nmany\n")
    assert with_section(new, text) == new
    assert "| one | a (2 samples) | b (3 samples) |" in new
    with pytest.raises(ValueError, match="no section"):
        with_section("# toy\n", text)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('judge = ["b"]', 'judge = ["c"]', "set one: no source c"),
        ('judge = ["b"]', 'judge = ["a"]', "none twice"),
        ('data = "a', 'dat = "a', "dat"),
        ('name = "b"', 'name = "a"', "no source b"),
        ('data = "a', 'errors = true\ndata = "a', "set one: errors are counted on simulated reads"),
    ],
)
def test_a_wrong_plan_is_named(tmp_path, old, new, message):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.replace(old, new))
    with pytest.raises(ValueError, match=message):
        Plan.load(path)


def test_a_region_is_a_genome_of_its_own(tmp_path):
    rng = np.random.default_rng(1)
    genome = "".join(rng.choice(list("ACGT"), 6000))
    (tmp_path / "a.fa").write_text(f">a\n{genome}\n")
    with (tmp_path / "a.fastq").open("w") as out:
        for at in range(0, 5000, 100):
            read = genome[at : at + 1000]
            out.write(f"@r{at}\n{read}\n+\n{'5' * len(read)}\n")
    sequence, placed, _ = _placed(tmp_path / "a.fastq", tmp_path / "a.fa", "map-ont", (2000, 4000))
    assert sequence == genome[2000:4000]
    assert 20 <= len(placed) < 50
    with pytest.raises(ValueError, match="region must be an interval"):
        RealSource(name="x", genome="a.fa", worlds=1, reads="a.fastq", region=(5, 5))


def test_pieces_have_known_bases():
    rng = np.random.default_rng(1)
    sequence = "N" * 5000 + "ACGT" * 1000
    assert "N" not in _known(sequence, 500, rng)
    with pytest.raises(ValueError, match="stretch of 500 bases"):
        _known("N" * 5000, 500, rng)
