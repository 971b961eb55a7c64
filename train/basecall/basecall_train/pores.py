"""What each 6-mer does to the current: levels, spreads, noise and dwell times, measured from prepared training data.

The frames that emit the true bases give the sequence under a stretch of current and roughly where each base passes. From the
current at those frames come first levels; then, in rounds, the current is aligned to the sequence (path.py), every read's scale
and shift are fitted to the levels, and the levels are measured again. No published table is used.

A *visit* is one stay of one 6-mer in the pore. Currents are in normalised units: (raw - median) / (1.4826 MAD) of a read, after
what a read's own scale and shift differ from the average read's is taken out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from .network import STRIDE
from .path import NOWHERE, Chain, draw_paths
from .signal import MAD_TO_SIGMA
from .targets import UNKNOWN

log = logging.getLogger(__name__)

K = 6
KMERS = 4**K
MIN_VISITS = 30
"""A 6-mer with fewer visits is drawn towards what the additive model says."""
PRIOR_VISITS = 6
"""Visits that the additive model counts for there."""
WINDOW = 2400
"""Samples aligned at a time, a multiple of STRIDE."""
MARGIN = 150
"""Samples at either end of a window whose visits do not count: their neighbours are out of sight."""
PHASES = 2
"""States in a row per 6-mer: dwell times of a chain of one are geometric, shorter and more varied than a motor's."""
REACH = 10
"""Bases that a path may be away from the rough place."""
ROWS = 192
"""Windows aligned together; sets the memory, about WINDOW * ROWS * band * 4 bytes."""
MIN_READ = 400
"""Visits below which a read's scale is not trusted."""
MIN_BASES = 1500
"""Shortest stretch of known bases that is used."""
EDGE = 1
"""Samples at either end of a visit left out of its mean and noise: there the filter mixes two levels."""
AUTOCORRELATION_LAGS = (1, 2, 3, 4, 5)
LONG_VISIT = 24
"""Samples of a visit from which the noise's autocorrelation can be measured."""


@dataclass(frozen=True)
class Stretch:
    """A part of a read whose bases are known."""

    read: int
    current: np.ndarray
    """[T] float32, normalised."""
    kmers: np.ndarray
    """[N] code of the 6-mer that begins at each base (base-4 digits, A 0 to T 3, first base first)."""
    places: np.ndarray
    """[N + K - 1] sample at which each base is emitted."""


@dataclass(frozen=True)
class Visits:
    """Visits of 6-mers, in columns."""

    kmer: np.ndarray
    read: np.ndarray
    window: np.ndarray
    """Number of the alignment window: visits of the same one are neighbours in time."""
    context: np.ndarray
    """Code of the 10-mer about the 6-mer."""
    dwell: np.ndarray
    """Samples."""
    contrast: np.ndarray
    """Smaller difference of level to the 6-mers before and after: the larger it is, the surer the dwell."""
    inner: np.ndarray
    """Samples that the mean is over."""
    mean: np.ndarray
    variance: np.ndarray
    """Unbiased variance of the inner samples, NaN for fewer than two."""
    products: np.ndarray
    """[visits, lags] mean product of residuals at each lag of AUTOCORRELATION_LAGS, NaN for short visits."""

    def __len__(self) -> int:
        return len(self.kmer)

    def where(self, chosen: np.ndarray) -> Visits:
        """Returns some of the visits."""
        return Visits(**{name: column[chosen] for name, column in vars(self).items()})

    @classmethod
    def joined(cls, parts: list[Visits]) -> Visits:
        """Returns all visits of several tables."""
        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class Frame:
    """How a read's normalised current maps to the table's: (current - shift) / scale. One value per read."""

    scale: np.ndarray
    shift: np.ndarray


def kmer_codes(bases: np.ndarray) -> np.ndarray:
    """Returns the code of the 6-mer beginning at each base (0..3) but the last K - 1."""
    codes = np.zeros(len(bases) - K + 1, np.int64)
    for i in range(K):
        codes = codes * 4 + bases[i : len(bases) - K + 1 + i]
    return codes


def contexts(kmers: np.ndarray) -> np.ndarray:
    """Returns the code of the 10-mer about each 6-mer of a sequence; at its ends that of the nearest whole one."""
    at = np.arange(len(kmers))
    before, after = kmers[np.maximum(at - 2, 0)], kmers[np.minimum(at + 2, len(kmers) - 1)]
    return before * 4**4 + after % 4**4


def weights_of(context: np.ndarray) -> np.ndarray:
    """Returns what each visit counts: 1, less where a context has more than CONTEXT_VISITS of them."""
    number = np.bincount(context)
    return np.minimum(1.0, CONTEXT_VISITS / np.maximum(number, 1))[context]


def kmer_name(code: int) -> str:
    """Returns the letters of a 6-mer."""
    return "".join("ACGT"[code >> 2 * (K - 1 - i) & 3] for i in range(K))


def stretches(folder: Path, samples: int = 0, first_read: int = 0) -> Iterator[Stretch]:
    """Yields the stretches with known bases of a prepared source, until they hold that many samples (0: all).

    Reads are numbered from first_read in file order.
    """
    current = np.load(folder / "signal.npy", mmap_mode="r")
    bases = np.load(folder / "bases.npy", mmap_mode="r")
    lengths = np.load(folder / "lengths.npy")
    taken = 0
    for read, (begin, length) in enumerate(zip(np.cumsum(lengths) - lengths, lengths, strict=True)):
        emitted = np.asarray(bases[begin // STRIDE : (begin + length) // STRIDE])
        known = np.concatenate(([False], emitted != UNKNOWN, [False]))
        edges = np.flatnonzero(known[1:] != known[:-1])
        for start, end in zip(edges[::2], edges[1::2], strict=True):
            frames = np.flatnonzero(emitted[start:end] > 0)
            if len(frames) < MIN_BASES:
                continue
            first = begin + start * STRIDE
            yield Stretch(
                first_read + read,
                np.asarray(current[first : begin + end * STRIDE], np.float32),
                kmer_codes(emitted[start:end][frames].astype(np.int64) - 1),
                frames * STRIDE,
            )
            taken += (end - start) * STRIDE
            if samples and taken >= samples:
                return


@dataclass(frozen=True)
class Start:
    """First levels, and where a 6-mer's current lies relative to the emission of its bases."""

    levels: np.ndarray
    spreads: np.ndarray
    base: int
    """The 6-mer's current is nearest to the emission of this base of it."""
    lag: int
    """Samples from that emission to the current's middle."""
    explained: np.ndarray
    """[bases, lags] part of the current's variance that the 6-mer explains."""


LAGS = tuple(range(-6, 7, 3))


def start(some: list[Stretch]) -> Start:
    """Returns levels measured at the emission frames, at the offset at which 6-mers explain most of the current."""
    explained = np.zeros((K, len(LAGS)))
    found = {}
    for b in range(K):
        for i, lag in enumerate(LAGS):
            kmers, around, current = [], [], []
            for one in some:
                at = one.places[b : b + len(one.kmers)] + lag
                fits = (at >= 0) & (at + STRIDE <= len(one.current))
                kmers.append(one.kmers[fits])
                around.append(contexts(one.kmers)[fits])
                current.append(one.current[at[fits][:, None] + np.arange(STRIDE)].mean(1))
            kmer, level = np.concatenate(kmers), np.concatenate(current)
            weight = weights_of(np.concatenate(around))
            number = np.bincount(kmer, weight, KMERS)
            mean = np.bincount(kmer, weight * level, KMERS) / np.maximum(number, 1e-9)
            rest = np.average((level - mean[kmer]) ** 2, weights=weight)
            # Each mean took a degree of freedom.
            rest *= number.sum() / max(1, number.sum() - np.count_nonzero(number))
            explained[b, i] = 1 - rest / np.average((level - np.average(level, weights=weight)) ** 2, weights=weight)
            found[b, i] = number, mean, rest
    b, i = np.unravel_index(explained.argmax(), explained.shape)
    number, mean, rest = found[b, i]
    levels = filled(mean, number)
    log.info("6-mers explain %.1f %% of the current %+d samples from the emission of base %d", 100 * explained.max(), LAGS[i], b)
    return Start(levels, np.full(KMERS, np.sqrt(rest)), int(b), LAGS[i], explained)


def design() -> np.ndarray:
    """Returns the additive model's matrix [KMERS, terms]: a constant, every base and every pair of neighbours."""
    digits = np.array([[code >> 2 * (K - 1 - i) & 3 for i in range(K)] for code in range(KMERS)])
    hot = np.eye(4)[digits][:, :, 1:]
    pairs = [(hot[:, i, :, None] * hot[:, i + 1, None, :]).reshape(KMERS, -1) for i in range(K - 1)]
    return np.concatenate([np.ones((KMERS, 1)), hot.reshape(KMERS, -1), *pairs], 1)


def additive(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Returns the values that the additive model, fitted with those weights, gives every 6-mer."""
    matrix = design()
    root = np.sqrt(weights)[:, None]
    # The tiny ridge decides where few 6-mers have weight; elsewhere it does nothing.
    normal = (matrix * root).T @ (matrix * root) + 1e-6 * max(1.0, weights.max()) * np.eye(matrix.shape[1])
    return matrix @ np.linalg.solve(normal, (matrix * root).T @ (values * root[:, 0]))


def filled(values: np.ndarray, visits: np.ndarray) -> np.ndarray:
    """Returns the values with those of rarely visited 6-mers drawn towards the additive model's."""
    known = np.isfinite(values) & (visits > 0)
    rare = (visits < MIN_VISITS) | ~known
    if not rare.any():
        return values
    smooth = additive(np.where(known, values, 0), np.where(known, np.minimum(visits, 4 * MIN_VISITS), 0).astype(float))
    trust = np.where(known, visits / (visits + PRIOR_VISITS), 0)
    return np.where(rare, trust * np.where(known, values, 0) + (1 - trust) * smooth, values)


def windows(some: list[Stretch]) -> list[tuple[int, int]]:
    """Returns the (stretch, first sample) of windows that tile the stretches, but for their ends."""
    step = WINDOW - 2 * MARGIN
    return [(i, begin) for i, one in enumerate(some) for begin in range(0, len(one.current) - WINDOW + 1, step)]


def visits(
    some: list[Stretch],
    chosen: list[tuple[int, int]],
    model: tuple[np.ndarray, np.ndarray],
    where: Start,
    frame: Frame,
    rng: np.random.Generator,
) -> Visits:
    """Aligns windows and returns their visits; the model is (levels, standard deviations) by 6-mer."""
    return Visits.joined([_visits_of(some, chosen[n : n + ROWS], n, model, where, frame, rng) for n in range(0, len(chosen), ROWS)])


def _visits_of(
    some: list[Stretch],
    chosen: list[tuple[int, int]],
    number: int,
    model: tuple[np.ndarray, np.ndarray],
    where: Start,
    frame: Frame,
    rng: np.random.Generator,
) -> Visits:
    """Aligns one batch of windows, numbered from number on."""
    levels, spreads = model
    band = 2 * REACH * PHASES
    rows, reads = len(chosen), np.array([some[i].read for i, _ in chosen])
    current = np.empty((rows, WINDOW), np.float32)
    low = np.empty((rows, WINDOW), np.int64)
    leave = np.empty(rows)
    sequences = []
    time = np.arange(WINDOW)
    for n, (i, begin) in enumerate(chosen):
        one = some[i]
        current[n] = (one.current[begin : begin + WINDOW] - frame.shift[one.read]) / frame.scale[one.read]
        expected = one.places[where.base : where.base + len(one.kmers)] + where.lag + STRIDE / 2 - begin
        first = max(0, np.searchsorted(expected, 0) - REACH - 2)
        last = min(len(expected), np.searchsorted(expected, WINDOW) + REACH + 2)
        sequences.append(one.kmers[first:last])
        expected = expected[first:last]
        leave[n] = min(0.9, PHASES * (len(expected) - 1) / (expected[-1] - expected[0]))
        guess = np.interp(time, expected, np.arange(len(expected)) + 0.5) * PHASES
        # Emissions are STRIDE samples apart at least, so that this rises by 0 or 1.
        low[n] = np.floor(guess).astype(np.int64) - band // 2
    longest = max(map(len, sequences))
    kmers = np.full((rows, longest), -1)
    for n, sequence in enumerate(sequences):
        kmers[n, : len(sequence)] = sequence
    means = np.where(kmers < 0, NOWHERE, levels[kmers]).astype(np.float32).repeat(PHASES, 1)
    sigmas = np.where(kmers < 0, 1, spreads[kmers]).astype(np.float32).repeat(PHASES, 1)
    states = draw_paths(Chain(current, means, sigmas, low, leave), band, rng) // PHASES
    row, begin, end = _runs(states)
    middle = (begin + end) / 2
    counts = (begin > 0) & (end < WINDOW) & (middle >= MARGIN) & (middle < WINDOW - MARGIN)
    row, begin, end = row[counts], begin[counts], end[counts]
    at = states[row, begin]
    here, before, after = (levels[kmers[row, np.clip(at + step, 0, longest - 1)]] for step in (0, -1, 1))
    contrast = np.minimum(np.abs(here - before), np.abs(here - after))
    around = np.zeros_like(kmers)
    for n, sequence in enumerate(sequences):
        around[n, : len(sequence)] = contexts(sequence)
    return measured(current, row, begin, end, kmers[row, at], reads[row], number + row, around[row, at], contrast)


def _runs(states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns row, begin and end of the runs of equal states."""
    rows, samples = states.shape
    edge = np.ones((rows, samples), bool)
    edge[:, 1:] = states[:, 1:] != states[:, :-1]
    flat = np.flatnonzero(edge)
    ends = np.append(flat[1:], rows * samples)
    row = flat // samples
    return row, flat - row * samples, ends - row * samples


def measured(
    current: np.ndarray,
    row: np.ndarray,
    begin: np.ndarray,
    end: np.ndarray,
    kmer: np.ndarray,
    read: np.ndarray,
    window: np.ndarray,
    context: np.ndarray,
    contrast: np.ndarray,
) -> Visits:
    """Measures visits: the samples [begin, end) of a row of current [B, T] each."""
    dwell = end - begin
    trim = np.where(dwell >= 2 * EDGE + 2, EDGE, 0)
    begin, end = begin + trim, end - trim
    inner = end - begin

    def total(values: np.ndarray, less: int = 0) -> np.ndarray:
        sums = np.zeros((len(values), values.shape[1] + 1))
        np.cumsum(values, 1, np.float64, out=sums[:, 1:])
        return sums[row, np.maximum(end - less, begin)] - sums[row, begin]

    mean = total(current) / inner
    squares = total(current**2) - inner * mean**2
    variance = np.where(inner > 1, squares / np.maximum(inner - 1, 1), np.nan)
    products = np.full((len(row), len(AUTOCORRELATION_LAGS)), np.nan)
    long = inner >= LONG_VISIT
    for i, lag in enumerate(AUTOCORRELATION_LAGS):
        later = np.concatenate([current[:, lag:], np.zeros((len(current), lag), np.float32)], 1)
        # Sum of (x - m)(y - m) over the pairs lag apart.
        pairs = inner - lag
        product = total(current * later, lag) - mean * (total(current, lag) + total(later, lag)) + pairs * mean**2
        products[long, i] = (product / np.maximum(pairs, 1))[long]
    return Visits(kmer, read, window, context, dwell, contrast, inner, mean, variance, products)


def fit_frames(seen: Visits, levels: np.ndarray, spreads: np.ndarray, frame: Frame) -> Frame:
    """Returns every read's scale and shift, by regression of its visits' means on the levels.

    Visits far from their level count less (Huber). The average read keeps scale 1 and shift 0; reads with few visits keep
    what they had.
    """
    reads = len(frame.scale)
    # Back to the current before the frame was applied.
    current = seen.mean * frame.scale[seen.read] + frame.shift[seen.read]
    level = levels[seen.kmer]
    certain = 1 / spreads[seen.kmer] ** 2
    scale, shift = frame.scale.copy(), frame.shift.copy()
    enough = np.bincount(seen.read, minlength=reads) >= MIN_READ

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(seen.read, values, reads)

    for _ in range(5):
        away = np.abs(current - scale[seen.read] * level - shift[seen.read]) * np.sqrt(certain)
        weight = certain * np.minimum(1, 1.5 / np.maximum(away, 1e-9))
        w, x, y = total(weight), total(weight * level), total(weight * current)
        xx, xy = total(weight * level**2), total(weight * level * current)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = (w * xy - x * y) / (w * xx - x * x)
            offset = (y - slope * x) / w
        good = enough & (slope > 0.3)
        scale[good], shift[good] = slope[good], offset[good]
    size = np.bincount(seen.read, weights_of(seen.context), reads) * enough
    if not size.any():
        raise ValueError(f"no read has {MIN_READ} visits")
    common = np.exp(np.average(np.log(scale), weights=size))
    centre = np.average(shift, weights=size)
    # In the average read's frame a current c is (c - centre) / common; the levels follow at the next measurement.
    return Frame(scale / common, shift - scale / common * centre)


@dataclass(frozen=True)
class Levels:
    """The measurements of every 6-mer, by code; see Table for the units."""

    mean: np.ndarray
    spread: np.ndarray
    noise: np.ndarray
    dwell_mean: np.ndarray
    dwell_sd: np.ndarray
    visits: np.ndarray
    """Trusted visits, at most CONTEXT_VISITS of each context."""

    @property
    def total(self) -> np.ndarray:
        """Standard deviation of single samples."""
        return np.sqrt(self.spread**2 + self.noise**2)


STEADY = 4
"""Inner samples from which a visit's mean and variance count: shorter visits are mostly passage between two levels."""
OUTLYING = 4.0
"""Robust standard deviations from a 6-mer's median beyond which a visit is taken for a misalignment."""
CONTEXT_VISITS = 5
"""Visits that count at most of one context, the 6-mer with two bases on either side: a repeat, or depth, adds no information."""
RESTLESS = 10.0
"""Of n samples, 1 + RESTLESS / sqrt(n) times the median variance of the 6-mer's visits is taken for a visit over two levels."""


def trusted(seen: Visits) -> Visits:
    """Returns the visits that are steady and like the others of their 6-mer."""
    steady = seen.where(seen.inner >= STEADY)
    weight = weights_of(steady.context)
    number = np.bincount(steady.kmer, weight, KMERS)
    away = np.abs(steady.mean - medians(steady.kmer, steady.mean, weight)[steady.kmer])
    width = np.maximum(_towards_typical(MAD_TO_SIGMA * medians(steady.kmer, away, weight), number), 1e-6)
    quiet = np.maximum(_towards_typical(medians(steady.kmer, steady.variance, weight), number), 1e-12)
    calm = quiet[steady.kmer] * (1 + RESTLESS / np.sqrt(steady.inner))
    return steady.where((away <= OUTLYING * width[steady.kmer]) & (steady.variance <= calm))


def _towards_typical(values: np.ndarray, visits: np.ndarray) -> np.ndarray:
    """Returns the values, those of rarely visited 6-mers drawn towards the mean of all."""
    if not visits.any():
        return values
    return (visits * values + PRIOR_VISITS * np.average(values, weights=visits)) / (visits + PRIOR_VISITS)


def measure(seen: Visits) -> Levels:
    """Returns levels, spreads, noise and dwell times of the visits; rarely visited 6-mers are filled.

    The spread is that of the 6-mer's true mean: what the noise within a visit adds to the scatter of measured means is taken
    out. Dwell times are of all visits, the rest of those that are trusted.
    """
    kept = trusted(seen)
    weight = weights_of(kept.context)
    mean, scatter, number = _moments(kept.kmer, kept.mean, weight)
    # Weighted by degrees of freedom: long visits have most information on the noise.
    noise, _, _ = _moments(kept.kmer, kept.variance, weight * (kept.inner - 1))
    of_mean, _, _ = _moments(kept.kmer, variance_of_mean(kept.inner, autocorrelation(kept)), weight)
    dwell, dwell_variance, every = _moments(seen.kmer, seen.dwell, weights_of(seen.context))
    return Levels(
        filled(mean, number),
        np.sqrt(_filled_positive(scatter - noise * of_mean, np.maximum(number - 1, 0))),
        np.sqrt(_filled_positive(noise, number)),
        _filled_positive(dwell, every),
        np.sqrt(_filled_positive(dwell_variance, np.maximum(every - 1, 0))),
        np.floor(number).astype(int),
    )


def _filled_positive(values: np.ndarray, visits: np.ndarray) -> np.ndarray:
    """Fills as filled does; nothing falls below a small part of the typical value."""
    typical = np.average(values, weights=visits) if visits.any() else 0.0
    return np.maximum(filled(values, visits), max(0.05 * typical, 1e-12))


def _moments(kmer: np.ndarray, values: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns mean, variance and sum of weights of the values of every 6-mer."""
    number = np.bincount(kmer, weight, KMERS)
    mean = np.bincount(kmer, weight * values, KMERS) / np.maximum(number, 1e-9)
    variance = np.bincount(kmer, weight * (values - mean[kmer]) ** 2, KMERS) / np.maximum(number - 1, 0.5)
    return mean, variance, number


def medians(kmer: np.ndarray, values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Returns the weighted lower median of the values of every 6-mer, 0 where there is none."""
    if not len(values):
        return np.zeros(KMERS)
    order = np.lexsort((values, kmer))
    cumulated = np.cumsum(weight[order])
    total = np.bincount(kmer, weight, KMERS)
    half = np.cumsum(total) - total / 2
    at = np.minimum(np.searchsorted(cumulated, half * (1 - 1e-12)), len(values) - 1)
    return np.where(total > 0, values[order][at], 0)


def autocorrelation(seen: Visits) -> np.ndarray:
    """Returns the noise's autocorrelation at AUTOCORRELATION_LAGS, from long visits; zeros if there are none."""
    long = ~np.isnan(seen.products[:, 0])
    if not long.any():
        return np.zeros(len(AUTOCORRELATION_LAGS))
    inner = seen.inner[long]
    power = seen.variance[long] * (inner - 1) / inner
    found = np.average(seen.products[long], axis=0, weights=inner) / np.average(power, weights=inner)
    # Residuals from a visit's own mean are correlated by about -(1 + 2 sum) / n where the noise is not.
    correlation = found
    for _ in range(20):
        bias = (1 + 2 * correlation.clip(0).sum()) / np.average(inner)
        correlation = found * (1 - bias) + bias
    return correlation


def variance_of_mean(samples: np.ndarray, correlation: np.ndarray) -> np.ndarray:
    """Returns the variance of the mean of so many samples of autocorrelated noise of variance 1."""
    lags = np.arange(1, len(correlation) + 1)
    inside = np.maximum(samples[:, None] - lags, 0) / samples[:, None]
    return (1 + 2 * (inside * np.maximum(correlation, 0)).sum(1)) / samples


@dataclass(frozen=True)
class Fit:
    """A pore model and what it was measured from."""

    levels: Levels
    frame: Frame
    start: Start
    seen: Visits
    """Visits of the last round."""
    explained: float
    """Part of the variance of trusted visits' means that the levels explain."""


COARSE = ((1, 4), (1, 4), (1, 5), (1, 5))
"""Bases of a 6-mer, the first and the one after the last, that alone determine its level: one coarse round for each."""


def shared(levels: Levels, first: int, last: int) -> Levels:
    """Returns levels that 6-mers with the same bases from first to last have in common.

    Levels of all 6-mers at once follow how the current happened to be aligned at first: where two neighbours have their levels
    one base late, every round finds them there again. Contexts of a few bases are seen too often and in too many surroundings
    for that.
    """
    group = np.arange(KMERS) // 4 ** (K - last) % 4 ** (last - first)
    weight = np.maximum(levels.visits, 1e-3)
    number = np.bincount(group, weight)

    def common(values: np.ndarray) -> np.ndarray:
        return (np.bincount(group, weight * values) / number)[group]

    mean = common(levels.mean)
    spread = np.sqrt(common(levels.spread**2 + (levels.mean - mean) ** 2))
    return replace(levels, mean=mean, spread=spread, noise=np.sqrt(common(levels.noise**2)))


def fit(some: list[Stretch], rounds: int = 12, seed: int = 1, sketch: int = 1500) -> Fit:
    """Measures 6-mers in so many rounds, after the coarse ones. All but the last use no more than sketch windows."""
    if not some:
        raise ValueError(f"no stretch of {MIN_BASES} known bases")
    rng = np.random.default_rng(seed)
    where = start(some)
    reads = 1 + max(one.read for one in some)
    frame = Frame(np.ones(reads), np.zeros(reads))
    model = where.levels, where.spreads
    tiles = windows(some)
    if not tiles:
        raise ValueError(f"no stretch of {WINDOW} samples")
    total = len(COARSE) + rounds
    for number in range(total):
        last = number == total - 1
        chosen = tiles if last or len(tiles) <= sketch else [tiles[i] for i in rng.choice(len(tiles), sketch, replace=False)]
        seen = visits(some, chosen, model, where, frame, rng)
        levels = measure(seen)
        if number < len(COARSE):
            levels = shared(levels, *COARSE[number])
        kept = trusted(seen)
        explained = 1 - np.var(kept.mean - levels.mean[kept.kmer]) / np.var(kept.mean)
        log.info(
            "round %d: %d windows, %d visits, %d rare 6-mers; levels explain %.2f %%, typical spread %.3f, noise %.3f",
            number + 1, len(chosen), len(seen), (levels.visits < MIN_VISITS).sum(),
            100 * explained, np.median(levels.spread), np.median(levels.noise),
        )  # fmt: skip
        if not last:
            frame = fit_frames(kept, levels.mean, levels.total, frame)
        model = levels.mean, levels.total
    return Fit(levels, frame, where, seen, explained)
