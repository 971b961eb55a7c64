from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from basecall_train.calling import Model, greedy, raw_qualities, window_starts
from basecall_train.manifest import ALPHABET, Manifest
from basecall_train.recipe import Recipe
from basecall_train.signal import read_recording


def posteriors_of(path: str, top: float = 0.8) -> np.ndarray:
    """Returns frames whose best class is spelled by path, '-' being the blank."""
    frames = np.full((len(path), 5), (1 - top) / 4)
    frames[np.arange(len(path)), ["-ACGT".index(c) for c in path]] = top
    return frames


@pytest.mark.parametrize(
    "path, bases, frames",
    [
        ("", "", []),
        ("---", "", []),
        ("AACC", "AC", [0, 2]),
        ("A-A", "AA", [0, 2]),
        ("-GG--T", "GT", [1, 5]),
    ],
)
def test_greedy_merges_repeats_and_drops_blanks(path, bases, frames):
    call = greedy(posteriors_of(path), ALPHABET)
    assert call.bases == bases and list(call.frames) == frames


def test_a_base_has_the_highest_probability_of_its_frames():
    frames = posteriors_of("-AA-")
    frames[2] = (0.1, 0.6, 0.1, 0.1, 0.1)
    assert greedy(frames, ALPHABET).probabilities == pytest.approx([0.8])


def test_qualities_are_phred():
    assert raw_qualities(np.array([0.9, 0.99, 1.0])) == pytest.approx([10, 20, 50])


@pytest.mark.parametrize("length", [900, 903, 1680, 1683, 7200])
def test_windows_cover_the_read(length):
    starts = window_starts(length, 900, 120)
    assert starts[0] == 0 and starts[-1] + 900 == length
    assert all(0 < b - a <= 780 for a, b in pairwise(starts))


@pytest.mark.parametrize("samples", [300, 899, 900, 2000, 7200])
def test_a_stitched_read_is_called_like_a_whole_one(world, samples):
    recipe = Recipe.load(world.recipe)
    model = Model(world.folder / "teacher.onnx", recipe.teacher)
    raw = next(read_recording(world.folder / "reads.blow5")).raw[:samples]
    stitched = model.posteriors(raw, batch=3)
    assert stitched.shape == (samples // 3, 5)
    whole = Model(world.folder / "teacher.onnx", _window(recipe.teacher, samples // 3 * 3)).posteriors(raw)
    assert np.abs(stitched - whole).max() < 1e-5


def _window(manifest: Manifest, samples: int) -> Manifest:
    return replace(manifest, window=samples, overlap=0)


def test_manifest_survives_a_round_trip(tmp_path):
    manifest = Manifest(
        'a "name"', "1.2.3", "back\\slash", "r9.4", (4000, 5000), 3, 3600, 600,
        sha256="ab", quality_scale=0.8123, quality_bias=-1.5, quality_curve=((10.0, 8.25), (30.0, 20.0)), clip=0.0, base_bonus=0.25,
        output_layout="TNC",
    )  # fmt: skip
    manifest.write(tmp_path)
    assert Manifest.load(tmp_path / "manifest.toml") == manifest


@pytest.mark.parametrize("window, overlap", [(3601, 600), (3600, 603), (3600, 3600)])
def test_impossible_windows_are_refused(window, overlap):
    with pytest.raises(ValueError, match="not a multiple"):
        Manifest("m", "1", "", "r9.4", (4000,), 3, window, overlap)
