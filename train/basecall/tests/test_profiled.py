from pathlib import Path

import numpy as np
import pytest

from basecall_train.profiled import QUANTILES, SHARES, Profile, coloured
from basecall_train.simulated import SimulatedChunks, open_pore_model, read_genomes

PORES = Path(__file__).resolve().parents[3] / "models/pores"
DWELL = 10.0


def table(*values):
    return "\t".join(f"{value:g}" for value in values)


def write(folder, version=1, **changed):
    """Writes a profile of 3-mers whose level is that of their last base, and whose visits all take ten samples."""
    lines = {
        "name": "toy-4khz", "chemistry": "toy", "k": "3", "centre": "1", "sample_rate": "4000",
        "noise_autocorrelation": table(0.6, 0.48, 0.384), "speed_log_sd": "0", "read_noise_log_sd": "0", "drift_sd": "0",
        "drift_seconds": "1", "dwell": table(*[DWELL] * QUANTILES), "residual": table(*[0.0] * QUANTILES),
        "noise": table(*[0.1] * QUANTILES),
    }  # fmt: skip
    text = "\n".join(f"{key}\t{value}" for key, value in (lines | changed).items() if value)
    path = folder / "toy-4khz.profile"
    path.write_text(f"porestream-pore-profile\t{version}\n{text}\n")
    (folder / "toy-3mer.levels").write_text(
        "porestream-pore-levels\t1\nk\t3\npart\t2\t1\t-3000\t-1000\t1000\t3000\npart\t0\t1\t0\t0\t0\t0\n"
    )
    return path


def test_signal_is_that_of_the_words_normalised(tmp_path):
    profile = Profile.read(write(tmp_path))
    rng = np.random.default_rng(0)
    bases = rng.integers(0, 4, 900)
    signal, places = profile.current(bases, 6000, rng)
    assert signal.shape == places.shape == (6000,) and (np.diff(places) >= 0).all() and np.diff(places).max() == 1
    assert len(places) / (places[-1] - places[0]) == pytest.approx(DWELL, rel=0.01)
    levels = np.array([-3.0, -1, 1, 3]) / np.sqrt(5)
    # The third base of a word is one behind its centre. Median 0, and half of the levels on either side of 2 / sqrt(5).
    expected = levels[bases[places + 1]]
    slope, shift = np.polyfit(expected, signal, 1)
    noise = signal - slope * expected - shift
    assert 1 / slope == pytest.approx(1.4826 * levels[3] * 2 / 3, rel=0.35) and abs(shift) < 1
    assert noise.std() / slope == pytest.approx(0.1, rel=0.05)
    for lag, correlation in ((1, 0.6), (2, 0.48), (3, 0.384)):
        assert np.corrcoef(noise[:-lag], noise[lag:])[0, 1] == pytest.approx(correlation, abs=0.05)


def test_a_sample_over_a_border_has_of_both_sides(tmp_path):
    dwell = table(*[10.5] * QUANTILES)
    profile = Profile.read(write(tmp_path, dwell=dwell, noise=table(*[0.0] * QUANTILES)))
    bases = np.tile([0, 3], 300)
    signal, places = profile.current(bases, 2000, np.random.default_rng(1))
    values, counts = np.unique(signal.round(3), return_counts=True)
    assert len(values) == 3 and counts[1] < 120  # each second border falls amid a sample
    assert values[1] == pytest.approx((values[0] + values[2]) / 2, abs=1e-3)


def test_times_noise_and_levels_follow_the_quantiles(tmp_path):
    even = 2 + 18 * SHARES
    path = write(tmp_path, dwell=table(*even), residual=table(*(0.6 * SHARES - 0.3)), noise=table(*[0.0] * QUANTILES))
    rng = np.random.default_rng(2)

    def times(eased, speed=1.0):
        profile = Profile.read(path, eased)
        found = []
        for _ in range(20):
            bases = rng.integers(0, 4, 900)
            _, places = profile.current(bases, 4000, rng, speed)
            found.append(np.unique(places, return_counts=True)[1][1:-1])
        return np.concatenate(found)

    drawn = times(0.0)
    assert drawn.mean() == pytest.approx(11, rel=0.03)
    for share in (0.1, 0.5, 0.9):
        assert np.quantile(drawn, share) == pytest.approx(2 + 18 * share, abs=1)
    assert times(0.0, 2.0).mean() == pytest.approx(5.5, rel=0.05)
    eased = times(0.95)
    assert eased.mean() == pytest.approx(11, rel=0.03) and eased.std() < 0.7 * drawn.std()
    signal, _ = Profile.read(path).current(np.zeros(900, int) + 1, 4000, rng)
    assert len(np.unique(signal)) > 300  # one word, and each visit has a level of its own


def test_words_decide_on_times_and_scatter_and_levels_change_within_a_visit(tmp_path):
    """A middle base T takes half as long again, and G scatters half as much."""
    path = write(
        tmp_path,
        version=2,
        dwell=table(*[20.0] * QUANTILES),
        noise=table(*[0.02] * QUANTILES),
        noise_autocorrelation=table(0, 0, 0),
        change=table(*[0.4] * QUANTILES),
        dwell_word=table(1, 1, 0, 0, 0, 405),
        noise_word=table(1, 1, 0, 0, -693, 0),
    )
    profile = Profile.read(path)
    assert not profile.kernel.any() and profile.white == 1
    rng = np.random.default_rng(4)
    bases = rng.integers(0, 4, 1500)
    signal, places = profile.current(bases, 12000, rng)
    visits = np.split(np.arange(12000), np.flatnonzero(np.diff(places)) + 1)[1:-1]
    middle = np.array([bases[places[one[0]]] for one in visits])
    lengths = np.array([len(one) for one in visits])
    assert lengths[middle == 3].mean() == pytest.approx(30, rel=0.03) and lengths[middle != 3].mean() == pytest.approx(20, rel=0.03)
    means = np.array([signal[one[1:-1]].mean() for one in visits])
    followers = bases[np.array([places[one[0]] for one in visits]) + 1]  # whose level it is
    unit, zero = np.polyfit((np.array([-3.0, -1, 1, 3]) / np.sqrt(5))[followers], means, 1)
    off = means - zero - unit * (np.array([-3.0, -1, 1, 3]) / np.sqrt(5))[followers]
    assert np.abs(off).mean() / unit < 0.03  # a change keeps its visit's mean
    # Of a visit's two levels one is 0.4 above the other; of G's 0.2. They show where both last.
    steps = [np.abs(np.diff(signal[one[2:-2]])) / unit for one in visits]
    clear = np.array([0.2 < step.argmax() / len(step) < 0.8 for step in steps])
    reach = np.array([abs(signal[one[1:4]].mean() - signal[one[-4:-1]].mean()) for one in visits]) / unit
    assert np.median(reach[clear & (middle != 2)]) == pytest.approx(0.4, abs=0.04)
    assert np.median(reach[clear & (middle == 2)]) == pytest.approx(0.2, abs=0.02)


def test_noise_of_which_neighbours_alone_have_something_in_common():
    kernel, white = coloured([0.3, 0.0, 0.0], 24)
    assert white == 0 and (kernel**2).sum() == pytest.approx(1)
    assert [(kernel[lag:] * kernel[: 24 - lag]).sum() for lag in (1, 2, 3)] == pytest.approx([0.3, 0, 0])


def test_a_profile_of_format_2_needs_all_of_it(tmp_path):
    with pytest.raises(ValueError, match="change"):
        Profile.read(write(tmp_path, version=2))
    with pytest.raises(ValueError, match="1 or 2 or 3"):
        Profile.read(write(tmp_path, version=4))


def test_levels_change_for_a_part_of_a_visit_when_and_the_way_the_profile_says(tmp_path):
    """For a fifth of a visit, in the second half of the rest: up where the middle base is C, mostly down elsewhere."""
    changed = {
        "dwell": table(*[40.0] * QUANTILES),
        "noise": table(*[0.0] * QUANTILES),
        "noise_autocorrelation": table(0, 0, 0),
        "change": table(*[0.4] * QUANTILES),
        "lasts": table(*[0.2] * QUANTILES),
        "when": table(*(0.5 + 0.5 * SHARES)),
        "dwell_word": table(1, 1, 0, 0, 0, 0),
        "noise_word": table(1, 1, 0, 0, 0, 0),
        "rise_word": table(1, 1, -1099, 9000, -1099, -1099),
    }
    profile = Profile.read(write(tmp_path, version=3, **changed))
    rng = np.random.default_rng(5)
    bases = rng.integers(0, 4, 1500)
    signal, places = profile.current(bases, 36000, rng)
    visits = np.split(np.arange(36000), np.flatnonzero(np.diff(places)) + 1)[1:-1]
    levels = (np.array([-3.0, -1, 1, 3]) / np.sqrt(5))[bases[places + 1]]
    unit, zero = np.polyfit(levels, signal, 1)
    off = (signal - zero) / unit - levels
    rose, fell = [], []
    for visit in visits:
        assert off[visit[1:-1]].mean() == pytest.approx(0, abs=0.06)  # the visit keeps its mean
        inner = off[visit[1:-1]]
        away = np.abs(inner - np.median(inner)) > 0.2
        assert away.sum() == pytest.approx(8, abs=2)
        assert np.flatnonzero(away).mean() > 0.5 * 32 + 1
        (rose if (inner - np.median(inner))[away].mean() > 0 else fell).append(bases[places[visit[0]]])
    rose, fell = np.array(rose), np.array(fell)
    assert (rose == 1).sum() > 150 and not (fell == 1).any()
    assert (rose != 1).sum() / ((rose != 1).sum() + len(fell)) == pytest.approx(0.25, abs=0.06)
    with pytest.raises(ValueError, match="when"):
        Profile.read(write(tmp_path, version=3, **(changed | {"when": ""})))


def test_visits_that_take_no_time_leave_no_sample_without_a_level(tmp_path):
    lines = {"change": table(*[0.4] * QUANTILES), "lasts": table(*[0.2] * QUANTILES), "when": table(*SHARES)}
    words = {name: table(1, 1, 0, 0, 0, 0) for name in ("dwell_word", "noise_word", "rise_word")}
    dwell = table(*np.where(SHARES < 0.3, 0, DWELL))
    signal, _ = Profile.read(write(tmp_path, version=3, dwell=dwell, **lines, **words)).current(
        np.random.default_rng(6).integers(0, 4, 900), 3000, np.random.default_rng(7)
    )
    assert np.isfinite(signal).all()


def test_reads_differ_in_speed_and_drift(tmp_path):
    rng = np.random.default_rng(3)
    profile = Profile.read(write(tmp_path, speed_log_sd="0.2", drift_sd="0.5", noise=table(*[0.0] * QUANTILES)))
    speeds = []
    for _ in range(200):
        _, places = profile.current(rng.integers(0, 4, profile.bases(1200)), 1200, rng)
        speeds.append(np.log(places[-1] - places[0]))
    assert np.std(speeds) == pytest.approx(0.2, rel=0.25)
    signal, places = profile.current(np.tile([0, 3], 1200), 12000, rng)
    high = signal[signal > 0]
    assert high.std() > 0.1  # the same word, over three seconds


def test_chunks_are_of_the_genomes(tmp_path):
    (tmp_path / "g.fa").write_text(">a\n" + "ACGTT" * 400 + "NN" + "AAC" * 3 + "\n>b\nacg\n")
    genomes = read_genomes([tmp_path / "g.fa"])
    assert [len(one) for one in genomes] == [2000, 9, 3]
    chunks = SimulatedChunks(Profile.read(write(tmp_path)), 1200, genomes)
    words = set()
    for seed in range(20):
        signal, _, emitted = chunks.draw(np.random.default_rng(seed))
        spelled = "".join("ACGT"[base - 1] for base in emitted[emitted > 0])
        assert len(spelled) == pytest.approx(120, abs=2) and np.isfinite(signal).all()
        words |= {spelled[n : n + 5] for n in range(len(spelled) - 4)}
    cycle = "ACGTTACGT"
    reverse = cycle[::-1].translate(str.maketrans("ACGT", "TGCA"))
    assert words == {text[n : n + 5] for text in (cycle, reverse) for n in range(5)}
    with pytest.raises(ValueError, match="no sequence of the genomes has"):
        SimulatedChunks(Profile.read(write(tmp_path)), 1200, genomes[1:])
    with pytest.raises(FileNotFoundError, match="none.fa"):
        read_genomes([tmp_path / "none.fa"])


def test_the_shipped_profiles_are_read():
    for name, rate in (("r10.4.1-4khz", 4000), ("r10.4.1-5khz", 5000)):
        profile = open_pore_model(PORES / f"{name}.profile")
        assert len(profile.levels) == 4**9 and profile.levels.std() == pytest.approx(1)
        signal, _, emitted = SimulatedChunks(profile, 3600).draw(np.random.default_rng(0))
        assert 150 < (emitted > 0).sum() < 900 and abs(np.median(signal)) < 0.6
        assert rate * 3600 / (emitted > 0).sum() / 3600 > 0


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"centre": ""}, "'centre' is missing"),
        ({"k": "x"}, "invalid literal"),
        ({"dwell": table(1, 2, 3)}, "dwell: expected 129 quantiles"),
        ({"noise": table(*range(QUANTILES, 0, -1))}, "noise: expected 129 quantiles that don't fall"),
        ({"noise_autocorrelation": table(0.6, 0.7, 0.8)}, "does not fall"),
        ({"k": "4"}, "no such file"),
    ],
)
def test_a_broken_profile_is_named(tmp_path, changed, message):
    with pytest.raises((ValueError, FileNotFoundError), match=f"toy.*{message}"):
        Profile.read(write(tmp_path, **changed))


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("levels\t1", "levels\t2", "its first line is not"),
        ("k\t3", "k\t4", "not of 3-mers"),
        ("part\t2\t1\t-3000\t-1000", "part\t2\t1\t-3000", "has 3 values"),
        ("part\t2\t1", "part\t3\t1", "a part of 1 bases from 3"),
        ("-3000\t-1000\t1000\t3000", "1\t1\t1\t1", "all levels are the same"),
    ],
)
def test_broken_levels_are_named(tmp_path, old, new, message):
    path = write(tmp_path)
    levels = tmp_path / "toy-3mer.levels"
    levels.write_text(levels.read_text().replace(old, new))
    with pytest.raises(ValueError, match=f"toy-3mer.*{message}"):
        Profile.read(path)


def test_a_table_is_not_eased(tmp_path):
    with pytest.raises(ValueError, match="only a profile"):
        open_pore_model(PORES / "r9.4-6mer.tsv", 0.5)
    assert open_pore_model(PORES / "r9.4-6mer.tsv").levels.mean.std() > 0.5
