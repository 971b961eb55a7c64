"""A pore by a profile of ``models/pores``: quantiles of what real visits are like, over levels that are sums of parts of k-mers.

``simulate/squiggle`` has the formats, and makes such signal for ``pore simulate``. What is drawn here is the same, for chunks of
training data: whole reads, normalised as the engine normalises them, of which a chunk is cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .signal import MAD_TO_SIGMA

QUANTILES = 129
"""Of each distribution, at (1 - cos(pi i / 128)) / 2."""
SHARES = (1 - np.cos(np.pi * np.arange(QUANTILES) / (QUANTILES - 1))) / 2
LIMIT = 3.0
"""Standard deviations within which reads differ."""
LONGEST = 6
"""Chunks in the longest read."""
WHITE = 0.01
"""Correlation of two samples in a row below which noise counts as not correlated at all."""
KERNEL = 24
"""Samples over which noise is correlated at most."""


@dataclass(frozen=True)
class Profile:
    """Draws current of bases."""

    centre: int
    k: int
    levels: np.ndarray
    """Of the k-mers by code, with mean 0 and standard deviation 1."""
    dwell: np.ndarray
    residual: np.ndarray
    noise: np.ndarray
    speed_log_sd: float
    noise_log_sd: float
    drift: float
    drift_samples: float
    kernel: np.ndarray
    """What turns white noise of variance 1 into the slow part of the noise."""
    white: float
    """Standard deviation of the part of the noise that is not correlated."""
    change: np.ndarray | None = None
    """Quantiles of by how much the level of a visit changes within it; None: it doesn't."""
    slow: np.ndarray | None = None
    loud: np.ndarray | None = None
    """Factors of the k-mers by code on times, and on noise and change; None: 1."""
    lasts: np.ndarray | None = None
    """Quantiles of for which part of a visit its level is changed; None: to its end."""
    when: np.ndarray | None = None
    """Quantiles of which part of the rest of the visit passes before; None: any."""
    rise: np.ndarray | None = None
    """Chance of the k-mers by code that a level that changes rises; None: an even one."""
    eased: float = 0.0
    """Part by which a read's noise and the logarithms of its times spread less than measured, at most: each read draws its own.
    What can be told of clear signal is learned sooner, and then found in the other."""

    @classmethod
    def read(cls, path: Path, eased: float = 0.0) -> Profile:
        """Reads a profile and, beside it, the levels of its chemistry."""
        head = _lines(path, "porestream-pore-profile", ("1", "2", "3"))
        try:
            k = int(head["k"][0])
            version = int(head["porestream-pore-profile"][0])
            words, turns = version > 1, version > 2
            names = ("dwell", "residual", "noise", *(["change"] if words else []), *(["lasts", "when"] if turns else []))
            tables = {name: np.array(head[name], float) for name in names}
            for name, table in tables.items():
                if len(table) != QUANTILES or (np.diff(table) < 0).any():
                    raise ValueError(f"{name}: expected {QUANTILES} quantiles that don't fall")
            kernel, white = coloured([float(one) for one in head["noise_autocorrelation"]], KERNEL)
            return cls(
                centre=int(head["centre"][0]),
                k=k,
                levels=_levels(path.with_name(f"{head['chemistry'][0]}-{k}mer.levels"), k),
                speed_log_sd=float(head["speed_log_sd"][0]),
                noise_log_sd=float(head["read_noise_log_sd"][0]),
                drift=float(head["drift_sd"][0]),
                drift_samples=float(head["drift_seconds"][0]) * float(head["sample_rate"][0]),
                kernel=kernel,
                white=white,
                slow=np.exp(_parts(path, "dwell_word", k)) if words else None,
                loud=np.exp(_parts(path, "noise_word", k)) if words else None,
                rise=1 / (1 + np.exp(-_parts(path, "rise_word", k))) if turns else None,
                eased=eased,
                **tables,
            )
        except KeyError as missing:
            raise ValueError(f"{path}: {missing} is missing") from missing
        except (IndexError, ValueError) as fault:
            raise ValueError(f"{path}: {fault}") from fault

    def bases(self, samples: int) -> int:
        """Returns how many bases a source must give for a chunk of so many samples, whatever its speed."""
        return self.k + int(LONGEST * samples / self._mean_dwell())

    def _mean_dwell(self) -> float:
        mean = float(np.trapezoid(self.dwell, SHARES))
        return mean if self.slow is None else mean * float(self.slow.mean())

    def current(
        self, bases: np.ndarray, samples: int, rng: np.random.Generator, quicker: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns so many samples of normalised current [samples] of bases (0 to 3) and the place in bases of each sample's base.

        They are cut of a read of some of the bases, which is normalised as a whole. quicker: factor on the speed.
        """
        hardness = 1 - self.eased * rng.random()
        speed = quicker * np.exp(self.speed_log_sd * np.clip(rng.standard_normal(), -LIMIT, LIMIT))
        kmers = np.lib.stride_tricks.sliding_window_view(bases, self.k) @ 4 ** np.arange(self.k - 1, -1, -1)
        dwell = np.interp(rng.random(len(kmers)), SHARES, self.dwell)
        if self.slow is not None:
            dwell *= self.slow[kmers]
        mean = dwell.mean()
        if self.eased:  # times nearer their mean, which stays
            dwell = dwell**hardness
            dwell *= mean / dwell.mean()
        ends = np.cumsum(dwell / speed)
        if ends[-1] < samples + 1:
            raise ValueError(f"{len(bases)} bases are too few for {samples} samples")
        whole = int(ends[-1])
        length = int(rng.integers(samples, whole)) if whole > samples else samples
        first = int(rng.integers(length - samples + 1))
        visits = np.searchsorted(ends, length) + 1
        ends, kmers = ends[:visits], kmers[:visits]
        level = self.levels[kmers] + np.interp(rng.random(visits), SHARES, self.residual) + self._drift(ends, rng)
        begins = np.concatenate([[0.0], ends[:-1]])
        edges, held = self._changed(begins, ends, kmers, level, hardness, rng)
        # A sample that a border falls into has of both sides by their parts of it.
        charge = np.concatenate([[0.0], np.cumsum(held * np.diff(edges))])
        signal = np.diff(np.interp(np.arange(length + 1), edges, charge))
        median = np.median(signal)
        spread = MAD_TO_SIGMA * np.median(np.abs(signal - median))
        visit = np.searchsorted(ends, np.arange(first, first + samples) + 0.5)
        loud = np.interp(rng.random(visits), SHARES, self.noise) * np.exp(self.noise_log_sd * rng.standard_normal()) * hardness
        if self.loud is not None:
            loud *= self.loud[kmers]
        noise = np.convolve(rng.standard_normal(samples + len(self.kernel) - 1), self.kernel, "valid")
        noise += self.white * rng.standard_normal(samples)
        made = (signal[first : first + samples] + loud[visit] * noise - median) / spread
        return made.astype(np.float32), visit + self.centre

    def _changed(
        self, begins: np.ndarray, ends: np.ndarray, kmers: np.ndarray, level: np.ndarray, hardness: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the moments [N + 1] at which the level changes, and its levels [N]: two or three of each visit, whose mean is its
        own."""
        if self.change is None:
            return np.concatenate([[0.0], ends]), level
        visits = len(ends)
        by = np.interp(rng.random(visits), SHARES, self.change) * self.loud[kmers] * hardness
        by *= np.where(rng.random(visits) < (0.5 if self.rise is None else self.rise[kmers]), 1, -1)
        when = rng.random(visits)
        stays = ends - begins
        if self.lasts is not None:
            share = np.interp(rng.random(visits), SHARES, self.lasts)
            long = share * stays
            start = begins + np.interp(when, SHARES, self.when) * (stays - long)
            usual = level - by * share  # of visits that take no time, too
            edges = np.stack([begins, start, start + long], 1).reshape(-1)
            return np.append(edges, ends[-1]), np.stack([usual, usual + by, usual], 1).reshape(-1)
        edges = np.stack([begins, begins + when * (ends - begins)], 1).reshape(-1)
        first = level - by * (1 - when)
        return np.append(edges, ends[-1]), np.stack([first, first + by], 1).reshape(-1)

    def _drift(self, ends: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Returns the drift of each visit: an even walk between a few points, each drawn by how far the one before is."""
        points = np.arange(0, ends[-1] + self.drift_samples, self.drift_samples / 4)
        stays = np.exp(-1 / 4)
        walk = np.empty(len(points))
        at = rng.standard_normal()
        for i, step in enumerate(rng.standard_normal(len(points))):
            walk[i] = at
            at = stays * at + np.sqrt(1 - stays**2) * step
        return self.drift * np.interp(ends, points, walk)


def _lines(path: Path, magic: str, formats: tuple[str, ...] = ("1",)) -> dict[str, list[str]]:
    """Reads lines of a key and its values; of keys that come again, the last."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    rows = [line.split("\t") for line in path.read_text().splitlines() if line and not line.startswith("#")]
    if not rows or rows[0] not in [[magic, one] for one in formats]:
        raise ValueError(f"{path}: its first line is not {magic} {' or '.join(formats)}")
    return {row[0]: row[1:] for row in rows}


def _levels(path: Path, k: int) -> np.ndarray:
    """Reads levels that are sums of parts, and returns them with mean 0 and standard deviation 1."""
    if _lines(path, "porestream-pore-levels").get("k") != [str(k)]:
        raise ValueError(f"{path}: levels are not of {k}-mers")
    levels = _parts(path, "part", k)
    levels -= levels.mean()
    if not levels.std() > 0:
        raise ValueError(f"{path}: all levels are the same")
    return levels / levels.std()


def _parts(path: Path, wanted: str, k: int) -> np.ndarray:
    """Returns what lines of parts with a key add for each k-mer."""
    sums = np.zeros((4,) * k)
    for line in path.read_text().splitlines():
        key, *values = line.split("\t")
        if key != wanted:
            continue
        offset, width = int(values[0]), int(values[1])
        if offset < 0 or width < 1 or offset + width > k or len(values) != 2 + 4**width:
            raise ValueError(f"{path}: a part of {width} bases from {offset} on has {len(values) - 2} values")
        part = np.array(values[2:], float).reshape((1,) * offset + (4,) * width + (1,) * (k - offset - width))
        sums += part / 1000
    return sums.reshape(-1)


def coloured(correlation: list[float], memory: int) -> tuple[np.ndarray, float]:
    """Returns kernel, of so many samples, and white part of noise of variance 1 whose correlation falls by one factor per sample
    after the first."""
    if correlation[0] < WHITE:
        return np.zeros(memory), 1.0
    if correlation[1] <= 0:  # neighbours alone have something in common
        kernel = np.zeros(memory)
        both = min(correlation[0], 0.5)
        kernel[:2] = 1, (1 - np.sqrt(1 - 4 * both**2)) / (2 * both)
        return kernel / np.linalg.norm(kernel), 0.0
    lags = len(correlation) - (correlation[-1] <= 0)  # a last one of nothing says nothing of how fast it falls
    factor = (correlation[lags - 1] / correlation[0]) ** (1 / (lags - 1))
    if not 0 < factor < 1:
        raise ValueError(f"noise_autocorrelation does not fall: {correlation}")
    slow = min(1.0, correlation[0] / factor)
    kernel = factor ** np.arange(memory)
    return kernel * np.sqrt(slow) / np.linalg.norm(kernel), float(np.sqrt(1 - slow))
