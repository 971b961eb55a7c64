"""The manifest beside a model: all that a caller needs to know about its network."""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

ALPHABET = ("", "A", "C", "G", "T")
"""Classes of a frame, the CTC blank first."""
STAY_SCORE = 2.0
"""Score of staying in a state of the CRF, as in Bonito."""


@dataclass(frozen=True)
class Manifest:
    """How to feed a network and read its scores. Lengths are in samples unless said otherwise."""

    name: str
    version: str
    description: str
    chemistry: str
    sample_rates: tuple[int, ...]
    stride: int
    """Samples per output frame."""
    window: int
    """Samples given to the network at once; a multiple of stride."""
    overlap: int
    """Samples that neighbouring windows share; a multiple of 2 stride."""
    file: str = "model.onnx"
    sha256: str = ""
    half_file: str = ""
    """The same network in half precision, for GPUs; empty: none."""
    half_sha256: str = ""
    input: str = "signal"
    output: str = "scores"
    output_layout: str = "NTC"
    scores: str = "log_probabilities"
    clip: float = 5.0
    """Limit of the normalised signal, 0 for none."""
    warmup: int = 4096
    """Samples of a moving strand that the first window waits for; later ones are normalised over all before their end.
    0: over the read, whose windows are then called at its end. Training and evaluation here are over the read."""
    block: int = 256
    """Samples that are evaluated together."""
    still: float = 4.0
    """Spread in picoamperes below which nothing moves in a block, which then doesn't count; 0: all count."""
    state_length: int = 0
    """Bases in a state of a CRF, whose stays score STAY_SCORE; 0: CTC."""
    beam_width: int = 5
    beam_cut: float = 0.1
    """CTC: classes of lower probability are not followed. CRF: nor sequences so many times less probable than the best."""
    base_bonus: float = 0.0
    """CTC: nats by which a sequence counts for more with each of its bases."""
    quality_scale: float = 1.0
    quality_bias: float = 0.0
    quality_curve: tuple[tuple[float, float], ...] = ()
    """Points [x, y], both rising, that correct what no line can: straight from [0, 0] on, level after the last."""
    quality_neighbours: int = 0
    """Bases on either side that count as well, 0 for none. The engine reads them."""
    quality_neighbour_share: float = 0.0
    """What their mean counts, the base itself having the rest."""
    labels: tuple[str, ...] = field(default=ALPHABET)

    def __post_init__(self) -> None:
        if self.window % self.stride:
            raise ValueError(f"{self.name}: window of {self.window} samples is not a multiple of stride {self.stride}")
        if self.overlap % (2 * self.stride) or not 0 <= self.overlap < self.window:
            raise ValueError(
                f"{self.name}: overlap of {self.overlap} samples is not a multiple of {2 * self.stride} below the window"
            )
        if self.output_layout not in ("NTC", "TNC"):
            raise ValueError(f"{self.name}: output layout {self.output_layout!r} is neither NTC nor TNC")
        if self.base_bonus and self.state_length:
            raise ValueError(f"{self.name}: base_bonus is for a CTC head")
        if not 0 <= self.quality_neighbour_share < 1 or (self.quality_neighbours > 0) != (self.quality_neighbour_share > 0):
            raise ValueError(f"{self.name}: quality_neighbours and their share, below 1, go together")
        known = ("transitions",) if self.state_length else ("log_probabilities", "logits")
        if self.scores not in known:
            raise ValueError(f"{self.name}: scores {self.scores!r} are not {' or '.join(known)}")

    def to_toml(self) -> str:
        """Renders the manifest; :meth:`load` reads it back unchanged."""

        def quoted(text: str) -> str:
            return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

        return f"""format = 1
name = {quoted(self.name)}
version = {quoted(self.version)}
description = {quoted(self.description)}
chemistry = {quoted(self.chemistry)}
sample_rates = [{", ".join(map(str, self.sample_rates))}]

[network]
file = {quoted(self.file)}
sha256 = {quoted(self.sha256)}
{self._half()}input = {quoted(self.input)}            # float32 [N,1,T]
output = {quoted(self.output)}           # float32 [N,T/stride,C] (NTC) or [T/stride,N,C] (TNC)
output_layout = {quoted(self.output_layout)}
scores = {quoted(self.scores)}
stride = {self.stride}                  # samples per output frame

[normalisation]
method = "med_mad"          # (raw - median) / (1.4826 MAD)
clip = {self.clip}                  # limit of the normalised signal, 0 for none
{self._scope()}

[window]
samples = {self.window}
overlap = {self.overlap}               # samples shared by neighbours, which are joined where both agree

[decoder]
{self._decoder(", ".join(map(quoted, self.labels)))}

[qualities]
# Q = curve(scale * q + bias), q = -10 log10(1 - p), p the highest probability of the emitted base in its frames
{self._neighbours()}scale = {self.quality_scale:.4f}
bias = {self.quality_bias:.4f}
{self._curve()}"""

    def _neighbours(self) -> str:
        """Renders how much the bases around count, if they do."""
        if not self.quality_neighbours:
            return ""
        return f"""neighbours = {self.quality_neighbours}              # bases on either side whose q counts as well
neighbour_share = {self.quality_neighbour_share}       # what their mean counts; the base itself has the rest
"""

    def _curve(self) -> str:
        """Renders the points of the curve, if there are any."""
        points = ", ".join(f"[{x:g}, {y:g}]" for x, y in self.quality_curve)
        return f"curve = [{points}]\n" if points else ""

    def qualities(self, raw: np.ndarray) -> np.ndarray:
        """Returns the calibrated Phred qualities of bases whose -10 log10(1 - p), their neighbours counted in, is raw."""
        line = self.quality_scale * raw + self.quality_bias
        if not self.quality_curve:
            return line
        x, y = np.array(((0.0, 0.0), *self.quality_curve)).T
        return np.where(line < 0, line * y[1] / x[1], np.interp(line, x, y))

    def _half(self) -> str:
        """Renders where the network in half precision is."""
        return f'half_file = "{self.half_file}"\nhalf_sha256 = "{self.half_sha256}"\n' if self.half_file else ""

    def _decoder(self, labels: str) -> str:
        """Renders how scores become bases."""
        if not self.state_length:
            return f"""type = "ctc"
labels = [{labels}]   # the first is the blank
beam_width = {self.beam_width}
beam_cut = {self.beam_cut}              # classes of lower probability are not followed{self._bonus()}"""
        return f"""type = "crf"
labels = [{labels}]   # the first is staying
state_length = {self.state_length}            # bases in a state
stay_score = {STAY_SCORE}            # of all states
beam_width = {self.beam_width}
beam_cut = {self.beam_cut}            # sequences so many times less probable than the best are not followed"""

    def _bonus(self) -> str:
        """Renders what each base is worth, if anything."""
        if not self.base_bonus:
            return ""
        return f"\nbase_bonus = {self.base_bonus}            # nats by which a sequence counts for more with each base"

    def _scope(self) -> str:
        """Renders over what the signal is normalised."""
        if not self.warmup:
            return 'scope = "read"              # over all of a read'
        return f"""scope = "running"           # of a window: over all samples before its end, of the first over the warm-up
warmup = {self.warmup}               # samples of a moving strand that the first window waits for
block = {self.block}                 # samples that are judged together
still = {self.still}                 # pA; blocks of less spread are an open pore or a strand that sticks, and don't count"""

    @classmethod
    def load(cls, path: Path) -> Manifest:
        """Reads a manifest file."""
        with path.open("rb") as stream:
            table = tomllib.load(stream)
        try:
            return cls.from_table(table)
        except KeyError as missing:
            raise ValueError(f"{path}: key {missing} is missing") from missing

    @classmethod
    def from_table(cls, table: dict) -> Manifest:
        """Builds a manifest from its parsed TOML."""
        network, window, decoder = table["network"], table["window"], table["decoder"]
        if table["format"] != 1 or table["normalisation"]["method"] != "med_mad":
            raise ValueError("only format 1 with med_mad normalisation is known here")
        if decoder["type"] == "crf" and decoder.get("stay_score") != STAY_SCORE:
            raise ValueError(f"only a crf decoder with a stay score of {STAY_SCORE} is known here")
        normalisation = table["normalisation"]
        running = normalisation.get("scope", "read") == "running"
        return cls(
            name=table["name"],
            version=table["version"],
            description=table["description"],
            chemistry=table["chemistry"],
            sample_rates=tuple(table["sample_rates"]),
            stride=network["stride"],
            window=window["samples"],
            overlap=window["overlap"],
            file=network["file"],
            sha256=network["sha256"],
            half_file=network.get("half_file", ""),
            half_sha256=network.get("half_sha256", ""),
            input=network["input"],
            output=network["output"],
            output_layout=network["output_layout"],
            scores=network["scores"],
            clip=normalisation["clip"],
            warmup=normalisation["warmup"] if running else 0,
            block=normalisation["block"] if running else cls.block,
            still=normalisation["still"] if running else cls.still,
            state_length=decoder["state_length"] if decoder["type"] == "crf" else 0,
            beam_width=decoder["beam_width"],
            beam_cut=decoder["beam_cut"],
            base_bonus=decoder.get("base_bonus", 0.0),
            quality_scale=table["qualities"]["scale"],
            quality_bias=table["qualities"]["bias"],
            quality_curve=tuple((float(x), float(y)) for x, y in table["qualities"].get("curve", ())),
            quality_neighbours=table["qualities"].get("neighbours", 0),
            quality_neighbour_share=table["qualities"].get("neighbour_share", 0.0),
            labels=tuple(decoder["labels"]),
        )

    def sealed(self, folder: Path) -> Manifest:
        """Returns the manifest with the digests of the network files in folder."""

        def digest(file: str) -> str:
            return hashlib.sha256((folder / file).read_bytes()).hexdigest() if file else ""

        return replace(self, sha256=digest(self.file), half_sha256=digest(self.half_file))

    def write(self, folder: Path) -> None:
        """Writes ``manifest.toml`` into the model's folder."""
        (folder / "manifest.toml").write_text(self.to_toml())
