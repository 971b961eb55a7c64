"""A toy pore with levels of its own: what it was made with must be measured again."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import write_blow5

from basecall_train import pores
from basecall_train.__main__ import main
from basecall_train.network import STRIDE
from basecall_train.pore_card import correlation
from basecall_train.pore_statistics import drift, dwells, speeds
from basecall_train.pore_table import Published, Table
from basecall_train.pores import KMERS, Fit, Frame, K, Levels, Visits, additive, kmer_codes, kmer_name, medians
from basecall_train.signal import normalise
from basecall_train.targets import UNKNOWN

CENTRE = 2
"""Base of the toy's 6-mers that is emitted while they are in its pore."""
DWELL, DWELL_SHAPE = 9.0, 3.0
SPREAD, NOISE = 0.10, 0.08


def toy_levels() -> np.ndarray:
    """Returns levels of mean 0 and deviation 1 that depend most on the third base."""
    digits = np.array([[code >> 2 * (K - 1 - i) & 3 for i in range(K)] for code in range(KMERS)])
    rng = np.random.default_rng(11)
    effect = rng.permuted(np.tile([-1.0, -0.4, 0.3, 1.1], (K, 1)), axis=1) * np.array([0.2, 0.6, 1.5, 0.9, 0.4, 0.1])[:, None]
    levels = sum(effect[i][digits[:, i]] for i in range(K)) + rng.normal(0, 0.05, KMERS)
    return (levels - levels.mean()) / levels.std()


LEVELS = toy_levels()


def toy_read(bases: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Returns the current of a read and the frame in which each base is emitted; all but its ends is in a known 6-mer."""
    kmers = kmer_codes(bases)
    dwell = np.maximum(STRIDE + 1, rng.gamma(DWELL_SHAPE, DWELL / DWELL_SHAPE, len(kmers)).round().astype(int))
    level = LEVELS[kmers] + rng.normal(0, SPREAD, len(kmers))
    current = np.repeat(level, dwell) + rng.normal(0, NOISE, dwell.sum())
    current = current[: len(current) // STRIDE * STRIDE]
    begins = np.cumsum(dwell) - dwell
    # Bases before the first 6-mer's centre and after the last one's get frames next to theirs.
    frames = begins // STRIDE
    spare = 4 * K
    lead, tail = np.arange(spare - CENTRE, spare), np.arange(K - 1 - CENTRE)
    frames = np.concatenate([lead, frames + spare, frames[-1] + spare + 1 + tail])
    pad = np.full(spare * STRIDE, current[0])
    return np.concatenate([pad, current, np.full(spare * STRIDE, current[-1])]), frames


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """Recordings of the toy pore, as prepared data and as a recording, with a recipe that names them."""
    folder = tmp_path_factory.mktemp("pore")
    rng = np.random.default_rng(5)
    signals, emitted, raws = [], [], {}
    for n in range(10):
        bases = rng.integers(0, 4, 2400)
        current, frames = toy_read(bases, rng)
        known = np.zeros(len(current) // STRIDE, np.uint8)
        known[frames] = bases + 1
        known[:5] = UNKNOWN
        raw = (500 + 100 * rng.uniform(0.85, 1.15) * (current + rng.normal(0, 0.15))).round().astype(np.int16)
        raws[f"read-{n}"] = raw
        signals.append(normalise(raw, 5.0).astype(np.float16))
        emitted.append(known)
    source = folder / "work" / "toy"
    source.mkdir(parents=True)
    np.save(source / "signal.npy", np.concatenate(signals))
    np.save(source / "bases.npy", np.concatenate(emitted))
    np.save(source / "lengths.npy", np.array([len(one) for one in signals]))
    write_blow5(folder / "toy.blow5", raws)
    (folder / "toy.toml").write_text(RECIPE)
    lines = ["#made up", "kmer\tlevel_mean\tlevel_stdv\tsd_mean"]
    lines += [f"{kmer_name(code)}\t{90 + 12 * LEVELS[code]:.4f}\t1.2\t0.9" for code in range(KMERS)]
    (folder / "published.model").write_text("\n".join(lines) + "\n")
    return folder


RECIPE = """
[model]
name = "toy"
version = "0"
description = "toy"
chemistry = "toy"
sample_rates = [4000]
window = 900
overlap = 120
[training]
steps = 1
[teacher]
file = "none"
name = "none"
input = "signal"
output = "logits"
output_layout = "NTC"
scores = "logits"
clip = 0.0
window = 900
overlap = 120
[[source]]
name = "toy"
recordings = "toy.blow5"
reference = "none"
share = 1
"""


@pytest.fixture(scope="module")
def measured(toy):
    """The table that the command makes of the toy."""
    out = toy / "out" / "toy.tsv"
    status = main(
        ["pore-model", str(toy / "toy.toml"), "--work", str(toy / "work"), "--data", str(toy), "--out", str(out),
         "--published", str(toy / "published.model"), "--rounds", "4"]
    )  # fmt: skip
    assert status == 0
    return Table.read(out), out.parent


def test_the_toys_levels_are_measured(measured):
    table, _ = measured
    levels = table.levels
    assert correlation(levels.mean, LEVELS) > 0.99
    often = levels.visits >= 5
    slope, offset = np.polyfit(LEVELS[often], levels.mean[often], 1)
    rest = levels.mean[often] - slope * LEVELS[often] - offset
    assert rest.std() < 0.08 * slope
    # Five visits pull their 6-mer's level towards themselves: the spread comes out low.
    assert np.average(levels.spread, weights=levels.visits) == pytest.approx(SPREAD * slope, rel=0.3)
    assert np.average(levels.noise, weights=levels.visits) == pytest.approx(NOISE * slope, rel=0.15)
    assert np.average(levels.dwell_mean, weights=levels.visits) == pytest.approx(DWELL, rel=0.1)


def test_the_header_tells_what_the_toy_is_like(measured):
    header = measured[0].header
    assert header["centre"] == str(CENTRE) and header["sample_rate"] == "4000" and header["k"] == "6"
    correlations = [float(one) for one in header["noise_autocorrelation"].split()]
    assert all(abs(one) < 0.25 for one in correlations)  # the toy's noise is white, but for visits taken for one with the next
    assert float(header["speed_mean"]) == pytest.approx(4000 / DWELL, rel=0.1)
    # Raw units of the toy's recording are 1400/8192 pA; 100 of them, more or less, are one unit of its levels.
    unit = 1400 / 8192
    assert float(header["norm_center_pa"]) == pytest.approx(500 * unit, rel=0.05)
    assert float(header["norm_scale_pa"]) == pytest.approx(100 * unit * LEVELS.std(), rel=0.25)
    assert int(header["rare"]) == (measured[0].levels.visits < pores.MIN_VISITS).sum()


def test_the_card_compares_with_the_published_table(measured):
    table, folder = measured
    card = (folder / "README.md").read_text()
    known = Published.read(folder.parent / "published.model")
    assert f"{correlation(table.levels.mean, known.mean):.4f}" in card
    assert (folder / "toy.svg").read_text().startswith("<svg") and "toy.svg" in card


def test_shared_levels_depend_on_the_middle_bases_alone():
    rng = np.random.default_rng(2)
    visits = rng.integers(0, 50, KMERS)
    own = Levels(rng.normal(size=KMERS), *(rng.uniform(0.1, 0.3, KMERS) for _ in range(4)), visits)
    common = pores.shared(own, 1, 4)
    names = [kmer_name(code)[1:4] for code in range(KMERS)]
    for middle in ("ACC", "TTG"):
        group = np.array([name == middle for name in names])
        weight = np.maximum(visits[group], 1e-3)
        mean = np.average(own.mean[group], weights=weight)
        assert np.allclose(common.mean[group], mean)
        # What a draw from any of the group's 6-mers is like.
        second = np.average(own.mean[group] ** 2 + own.spread[group] ** 2, weights=weight)
        assert np.allclose(common.spread[group] ** 2, second - mean**2)
        assert np.allclose(common.noise[group] ** 2, np.average(own.noise[group] ** 2, weights=weight))
    assert len(np.unique(common.mean)) == 64 and (common.visits == visits).all()


def test_measuring_is_repeatable(toy):
    some = list(pores.stretches(toy / "work" / "toy", 30_000))
    first, again = (pores.fit(some, rounds=1, seed=3) for _ in range(2))
    assert (first.levels.mean == again.levels.mean).all()


def test_the_start_finds_the_emitted_base(toy):
    found = pores.start(list(pores.stretches(toy / "work" / "toy", 60_000)))
    # Bases are emitted when their visit begins; its middle, less that of a frame, comes later by this.
    later = DWELL / 2 - STRIDE / 2
    assert abs(found.base * DWELL + found.lag - (CENTRE * DWELL + later)) <= 4
    assert correlation(found.levels, LEVELS) > 0.85


@pytest.mark.parametrize(
    "arguments, fault",
    [(["--rounds", "0"], "rounds"), (["--samples", "-1"], "samples"), (["--published", "toy.toml"], "level_mean")],
)
def test_bad_options_are_named(toy, capsys, monkeypatch, arguments, fault):
    monkeypatch.chdir(toy)
    command = ["pore-model", "toy.toml", "--work", "work", "--out", "bad/x.tsv", "--samples", "1e5", *arguments]
    assert main(command) == 1 and fault in capsys.readouterr().err


def test_unprepared_data_is_named(toy, tmp_path, capsys):
    assert main(["pore-model", str(toy / "toy.toml"), "--work", str(tmp_path), "--out", str(tmp_path / "x.tsv")]) == 1
    assert "not prepared" in capsys.readouterr().err


def test_stretches_end_where_the_truth_does(tmp_path):
    bases = np.zeros(12_000, np.uint8)
    bases[::3] = np.tile([1, 2, 3, 4], 1000)
    bases[6000:6010] = UNKNOWN
    np.save(tmp_path / "bases.npy", bases)
    np.save(tmp_path / "signal.npy", np.arange(36_000).astype(np.float32))
    np.save(tmp_path / "lengths.npy", np.array([24_000, 12_000]))
    found = list(pores.stretches(tmp_path, first_read=4))
    assert [one.read for one in found] == [4]  # its rest after the gap, and the second read, are too short
    (one,) = found
    assert len(one.current) == 18_000 and one.current[0] == 0 and (one.places == np.arange(2000) * 9).all()
    assert kmer_name(one.kmers[0]) == "ACGTAC" and kmer_name(one.kmers[1]) == "CGTACG"
    assert len(one.kmers) == 2000 - K + 1


def test_contexts_hold_two_bases_on_either_side():
    bases = np.array([0, 1, 2, 3, 3, 2, 1, 0, 0, 1, 2, 3])
    codes = pores.contexts(kmer_codes(bases))
    whole = int("".join(map(str, bases[:10])), 4)
    assert codes[2] == whole  # the 6-mer at 2 lies in the middle of bases 0..9
    assert len(codes) == len(bases) - K + 1


def test_weighted_medians():
    rng = np.random.default_rng(1)
    kmer, values = rng.integers(0, 3, 301), rng.normal(size=301)
    found = medians(kmer, values, np.ones(301))
    for code in range(3):
        mine = np.sort(values[kmer == code])
        assert found[code] == mine[(len(mine) - 1) // 2]
    assert found[3] == 0
    assert medians(np.zeros(3, int), np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 5.0]))[0] == 3


def test_the_additive_model_fills_what_was_not_seen():
    digits = np.array([[code >> 2 * (K - 1 - i) & 3 for i in range(K)] for code in range(KMERS)])
    values = 0.3 + digits[:, 1] * 0.2 - (digits[:, 2] == digits[:, 3]) * 0.7
    visits = np.full(KMERS, 100)
    unseen = np.random.default_rng(2).choice(KMERS, 900, replace=False)
    visits[unseen] = 0
    broken = values.copy()
    broken[unseen] = np.nan
    assert np.abs(pores.filled(broken, visits) - values).max() < 1e-3
    assert np.abs(additive(values, np.ones(KMERS)) - values).max() < 1e-3


def table_of(rng: np.random.Generator, number: int, reads: int = 4) -> Visits:
    """Returns visits whose means scatter about LEVELS."""
    kmer = rng.integers(0, KMERS, number)
    return Visits(
        kmer=kmer, read=rng.integers(0, reads, number), window=np.arange(number) // 200, context=np.arange(number),
        dwell=np.full(number, 9), contrast=np.ones(number), inner=np.full(number, 7),
        mean=LEVELS[kmer] + rng.normal(0, 0.1, number),
        variance=np.full(number, 0.01), products=np.full((number, len(pores.AUTOCORRELATION_LAGS)), np.nan),
    )  # fmt: skip


def test_scales_and_shifts_are_found_among_outliers():
    rng = np.random.default_rng(8)
    seen = table_of(rng, 8000)
    scale, shift = np.array([0.9, 1.0, 1.05, 1.2]), np.array([0.2, -0.1, 0.0, 0.1])
    mean = seen.mean * scale[seen.read] + shift[seen.read]
    mean[::20] = 4.0
    start = Frame(np.ones(4), np.zeros(4))
    found = pores.fit_frames(replace(seen, mean=mean), LEVELS, np.full(KMERS, 0.15), start)
    # Only what the reads differ by can be known.
    assert found.scale / found.scale[0] == pytest.approx(scale / scale[0], rel=0.03)
    apart = (found.shift - shift) / scale
    assert apart == pytest.approx(np.full(4, apart.mean()), abs=0.03)


@pytest.mark.parametrize("correlation_of_next", [0.0, 0.6])
def test_noise_and_its_autocorrelation_within_visits(correlation_of_next):
    rng = np.random.default_rng(9)
    rows, length = 300, 400
    noise = rng.normal(size=(rows, length))
    for t in range(1, length):
        noise[:, t] = correlation_of_next * noise[:, t - 1] + np.sqrt(1 - correlation_of_next**2) * noise[:, t]
    current = (2.0 + 0.1 * noise).astype(np.float32)
    begin = np.tile(np.arange(0, length, 80), rows)
    row = np.repeat(np.arange(rows), 5)
    other = np.zeros(len(row), int)
    seen = pores.measured(current, row, begin, begin + 80, other, row, row, other, np.ones(len(row)))
    expected = correlation_of_next ** np.array(pores.AUTOCORRELATION_LAGS)
    assert pores.autocorrelation(seen) == pytest.approx(expected, abs=0.03)
    assert seen.mean.mean() == pytest.approx(2, abs=0.01) and (seen.inner == 78).all()
    of_mean = pores.variance_of_mean(np.array([40]), np.append(expected, correlation_of_next ** np.arange(6, 15)))
    means = noise[:, 100:140].mean(1)
    assert of_mean[0] == pytest.approx(means.var(), rel=0.35)


@pytest.mark.parametrize("family", ["gamma", "log-normal", "inverse Gaussian"])
def test_the_family_of_dwells_is_recognised(family):
    rng = np.random.default_rng(10)
    number = 20_000
    relative = {
        "gamma": lambda: rng.gamma(2.5, 1 / 2.5, number),
        "log-normal": lambda: rng.lognormal(-0.18, 0.6, number),
        "inverse Gaussian": lambda: rng.wald(1.0, 2.0, number),
    }[family]()
    seen = replace(table_of(rng, number), dwell=relative * 20)
    found = dwells(seen, np.full(KMERS, 20.0))
    assert found.family == family
    fitted = {"gamma": found.gamma_shape, "log-normal": found.log_sd, "inverse Gaussian": found.inverse_gaussian_shape}[family]
    assert fitted == pytest.approx({"gamma": 2.5, "log-normal": 0.6, "inverse Gaussian": 2.0}[family], rel=0.05)
    assert speeds(seen, 4000).mean() == pytest.approx(200, rel=0.03)


def test_drift_is_told_from_chance():
    rng = np.random.default_rng(12)
    seen = table_of(rng, 80_000, reads=1)
    flat = np.full(KMERS, 0.1)
    levels = Levels(LEVELS, flat, flat, flat, flat, np.full(KMERS, 100))
    fit = Fit(levels, Frame(np.ones(1), np.zeros(1)), None, seen, 0.9)
    assert drift(fit, 2100).sd < 0.01
    slow = rng.normal(0, 0.05, 201).repeat(2)[:400]
    moved = drift(replace(fit, seen=replace(seen, mean=seen.mean + slow[seen.window])), 2100)
    assert moved.sd == pytest.approx(0.05, rel=0.25) and moved.correlation == pytest.approx(0.5, abs=0.2)


def small_table() -> Table:
    digits = np.arange(KMERS) / 1000
    return Table(Levels(digits - 2, digits / 10, digits / 20, digits + 8, digits + 5, np.arange(KMERS)), {"chemistry": "toy"})


def test_a_table_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "x.tsv"
    small_table().write(path)
    golden = (
        "# porestream-pore-model: 1\n# chemistry: toy\nkmer\tmean\tspread\tnoise\tdwell_mean\tdwell_sd\tvisits\n"
        "AAAAAA\t-2.0000\t0.0000\t0.0000\t8.00\t5.00\t0\nAAAAAC\t-1.9990\t0.0001\t0.0001\t8.00\t5.00\t1\n"
    )
    assert path.read_text().startswith(golden) and path.read_text().endswith("TTTTTT\t2.0950\t0.4095\t0.2047\t12.09\t9.09\t4095\n")
    again = Table.read(path)
    assert again.header == {"chemistry": "toy"} and np.abs(again.levels.mean - small_table().levels.mean).max() < 1e-4
    again.write(tmp_path / "y.tsv")
    assert (tmp_path / "y.tsv").read_text() == path.read_text()


@pytest.mark.parametrize(
    "old, new, fault",
    [
        ("model: 1", "model: 2", "version 1"),
        ("\tspread", "\tstdv", "columns"),
        ("AAAAAC", "AAAAAA", "one row"),
        ("-1.9990", "low", "low"),
    ],
)
def test_broken_tables_are_named(tmp_path, old, new, fault):
    path = tmp_path / "x.tsv"
    small_table().write(path)
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=fault) as raised:
        Table.read(path)
    assert str(path) in str(raised.value)
