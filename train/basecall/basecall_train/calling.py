"""Running a model over whole reads: windows, stitching, greedy decoding."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .manifest import Manifest
from .runtime import opened
from .signal import normalise


class Model:
    """An ONNX model with its manifest, on the CPU."""

    def __init__(self, network: Path, manifest: Manifest, threads: int = 1) -> None:
        if manifest.state_length:
            raise ValueError(f"{network}: a CRF's frames can't be read greedily; let the engine call (evaluate --pore bin/pore)")
        if not network.is_file():
            raise FileNotFoundError(f"{network}: no such network")
        self.manifest = manifest
        self._session = opened(network, threads)

    @classmethod
    def open(cls, folder: Path) -> Model:
        """Opens the model in a folder with ``manifest.toml``."""
        manifest = Manifest.load(folder / "manifest.toml")
        if manifest.quality_neighbours:
            raise ValueError(f"{folder}: neighbours count in its qualities, which the engine alone knows (--pore)")
        return cls(folder / manifest.file, manifest)

    def scores(self, windows: np.ndarray) -> np.ndarray:
        """Runs windows [N, T] and returns class probabilities [N, T/stride, 5]."""
        out = self._session.run([self.manifest.output], {self.manifest.input: windows[:, None].astype(np.float32)})[0]
        if self.manifest.output_layout == "TNC":
            out = out.transpose(1, 0, 2)
        return _softmax(out)

    def posteriors(self, raw: np.ndarray, batch: int = 16) -> np.ndarray:
        """Returns class probabilities [samples // stride, 5] of a read given as raw samples.

        Windows start every (window - overlap) samples; the last one is moved back to end with the read. Neighbours are
        cut in the middle of what they share. A read shorter than a window is padded with zeros, the padding's frames
        are dropped.
        """
        m = self.manifest
        length = len(raw) // m.stride * m.stride
        signal = normalise(raw, m.clip)[:length]
        if length < m.window:
            padded = np.zeros((1, m.window), np.float32)
            padded[0, :length] = signal
            return self.scores(padded)[0, : length // m.stride]
        starts = window_starts(length, m.window, m.overlap)
        frames = np.empty((length // m.stride, len(m.labels)), np.float32)
        for first in range(0, len(starts), batch):
            some = starts[first : first + batch]
            for start, scores in zip(some, self.scores(np.stack([signal[s : s + m.window] for s in some])), strict=True):
                skip = 0 if start == 0 else m.overlap // 2 // m.stride
                at = start // m.stride
                frames[at + skip : at + len(scores)] = scores[skip:]
        return frames


def window_starts(length: int, window: int, overlap: int) -> list[int]:
    """Returns the first sample of every window over a signal of at least one window."""
    last = length - window
    return [*range(0, last, window - overlap), last]


def _softmax(scores: np.ndarray) -> np.ndarray:
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@dataclass(frozen=True)
class Call:
    """A called sequence: its bases, the frame in which each begins and its highest probability in its frames."""

    bases: str
    frames: np.ndarray
    probabilities: np.ndarray


def raw_qualities(probabilities: np.ndarray) -> np.ndarray:
    """Returns -10 log10(1 - p), p limited so that the result stays below 50."""
    return -10 * np.log10(np.maximum(1 - probabilities, 1e-5))


def greedy(posteriors: np.ndarray, labels: tuple[str, ...]) -> Call:
    """Decodes posteriors [T, classes] by the best class of every frame, repeats merged and blanks (class 0) dropped."""
    best = posteriors.argmax(-1)
    if len(best) == 0:
        return Call("", np.empty(0, np.int64), np.empty(0, np.float32))
    begins = np.flatnonzero(np.concatenate([[True], best[1:] != best[:-1]]))
    top = posteriors[np.arange(len(best)), best]
    # As the engine does it: the highest distinguishes wrong bases from right ones better than the mean.
    highest = np.maximum.reduceat(top, begins)
    emitted = best[begins] != 0
    return Call("".join(labels[k] for k in best[begins[emitted]]), begins[emitted], highest[emitted])
