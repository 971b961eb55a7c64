from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from basecall_train.network import Shape
from basecall_train.pores import KMERS, kmer_name
from basecall_train.recipe import Recipe, Source
from basecall_train.simulated import PoreModel, SimulatedChunks, random_bases
from basecall_train.store import Sampler

HEAD = """# porestream-pore-model: 1
# k: 6
# centre: 5
# noise_autocorrelation: 0.6 0.48 0.384
# dwell_log_sd: 0.3
# speed_mean: 400
# speed_sd: 20
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    # The level is that of the two newest bases.
    rows = [f"{kmer_name(code)}\t{code % 16}\t0\t0.1\t9\t3\t40" for code in range(KMERS)]
    path = tmp_path / "pore.tsv"
    path.write_text(HEAD + "kmer\tmean\tspread\tnoise\tdwell_mean\tdwell_sd\tvisits\n" + "\n".join(rows) + "\n")
    return path


def test_current_is_that_of_the_words(table):
    rng = np.random.default_rng(0)
    bases = rng.integers(0, 4, 2000)
    signal, places = PoreModel.read(table).current(bases, 9000, rng)
    expected = 4 * bases[places - 1] + bases[places]
    noise = signal - expected
    assert abs(noise.mean()) < 0.01 and noise.std() == pytest.approx(0.1, rel=0.05)
    for lag, correlation in ((1, 0.6), (2, 0.48), (3, 0.384)):
        assert np.corrcoef(noise[:-lag], noise[lag:])[0, 1] == pytest.approx(correlation, abs=0.05)
    assert (np.diff(places) >= 0).all() and len(places) / len(np.unique(places)) == pytest.approx(9, rel=0.1)


def test_a_chunk_spells_its_bases_in_order(table):
    chunks = SimulatedChunks(PoreModel.read(table), 1800)
    signal, targets, emitted = chunks.draw(np.random.default_rng(3))
    assert signal.shape == (1800,) and targets.shape == (600, 5) and emitted.shape == (600,)
    assert (targets.argmax(1) == emitted).all() and (targets.sum(1) == 1).all()
    # Levels above 0.5 between two samples show a new word.
    words = np.round(signal).astype(int)
    runs = words[np.flatnonzero(np.diff(words, prepend=words[0] - 1))]
    newest = [word % 4 + 1 for word in runs[1:]]
    spelled = [int(b) for b in emitted if b]
    # Words of equal bases follow each other without a step, so the current shows less than the truth does.
    it = iter(spelled)
    assert all(any(b == base for b in it) for base in newest[:100])


def test_genomes_differ_in_content_and_runs():
    rng = np.random.default_rng(0)
    genomes = [random_bases(2000, rng) for _ in range(200)]
    gc = [np.isin(g, (1, 2)).mean() for g in genomes]
    runs = [(g[1:] == g[:-1]).mean() for g in genomes]
    assert np.std(gc) > 0.05 and 0.4 < np.mean(gc) < 0.6
    assert min(runs) < 0.3 < max(runs)


def test_a_crf_learns_from_it_and_a_ctc_is_refused(prepared, world, table):
    recipe, store = prepared
    source = Source("simulated", 1.0, pore_model=str(table))
    crf = replace(recipe, shape=Shape(width=16, layers=2, stem=4, stride=6, state_length=2), sources=(*recipe.sources, source))
    batch = Sampler(crf, store).batch(0)
    assert batch.signal.shape == (8, 1, 360) and (batch.bases <= 4).all()
    again = Sampler(crf, store).batch(0)
    assert (batch.bases == again.bases).all() and (batch.signal == again.signal).all()
    text = world.recipe.read_text() + '\n[[source]]\nname = "s"\nshare = 1\npore_model = "pore.tsv"\n'
    (world.folder / "simulated.toml").write_text(text)
    with pytest.raises(ValueError, match="only a CRF"):
        Recipe.load(world.folder / "simulated.toml")


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("porestream-pore-model: 1", "another: 1", "version 1"),
        ("# centre: 5\n", "", "'centre'"),
        ("AAAAAC\t", "AAAAAG\t", "in order"),
        ("0.6 0.48 0.384", "0.6 0.7 0.8", "does not fall"),
    ],
)
def test_a_broken_table_is_named(table, old, new, message):
    table.write_text(table.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=f"pore.tsv.*{message}"):
        PoreModel.read(table)
