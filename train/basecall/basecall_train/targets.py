"""What a network should say in every frame of a read.

The teacher, any basecaller with the same stride, gives a distribution over the classes for every frame. Where the true sequence
under a read is known, those distributions are conditioned on it: between two frames in which the teacher's calls agree with the
truth, the CTC forward-backward algorithm (Graves et al. 2006, eq. 16) gives the probability of each class in each frame given
that the frames together spell the true bases. The teacher then only decides *when* a base passes, the truth decides *which*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from .alignment import Hit, Reference
from .calling import Call, greedy
from .ctc import ctc_losses
from .manifest import ALPHABET

MIN_ALIGNED = 0.90
"""Reads with a smaller aligned part get no truth unless asked for: chimeras, adapters, wrong references."""
MIN_IDENTITY = 0.80
"""Reads whose teacher calls agree less get no truth unless asked for: their anchors may be wrong."""
SEGMENT_FRAMES = 200
"""Length at which a segment ends at the next anchor. Short segments keep mistakes local and the lattice small."""
MAX_SEGMENT_FRAMES = 600
ANCHOR_RUN = 5
"""Equal columns in a row whose middle counts as an anchor."""
FLOOR = 1e-4
"""Probability added to every class, so that the truth is possible where the teacher excludes it."""
SURE = 0.9
"""Probability of a base in the frame in which it is known to be emitted from which on a stretch may be cut there."""
MAX_EXCESS = 0.6
"""Loss per frame above the teacher's best path beyond which a segment's truth is not believed."""
UNKNOWN = 255
"""Mark of a frame without a truth."""


@dataclass(frozen=True)
class Segment:
    """A stretch of frames [begin, end) and the classes that it spells."""

    begin: int
    end: int
    classes: np.ndarray


def anchors(call: Call, hit: Hit) -> Iterator[tuple[int, int]]:
    """Yields (frame, target index) for called bases amid ANCHOR_RUN equal columns."""
    run = 0
    for q, t in hit.walk():
        run = run + 1 if q >= 0 and t >= 0 and call.bases[q] == hit.target[t] else 0
        if run >= ANCHOR_RUN:
            back = ANCHOR_RUN // 2
            yield int(call.frames[q - back]), t - back


def segments(call: Call, hit: Hit) -> list[Segment]:
    """Cuts an aligned call into segments between anchors."""
    codes = np.array([ALPHABET.index(base) if base in "ACGT" else 0 for base in hit.target])
    found: list[Segment] = []
    begin: tuple[int, int] | None = None
    for frame, position in anchors(call, hit):
        if begin is None:
            begin = frame, position
        elif frame - begin[0] >= SEGMENT_FRAMES:
            classes = codes[begin[1] : position]
            # One frame in ten is left for the blanks that CTC needs between equal bases.
            if frame - begin[0] <= MAX_SEGMENT_FRAMES and 0 < len(classes) * 1.1 <= frame - begin[0] and classes.all():
                found.append(Segment(begin[0], frame, classes))
            begin = frame, position
    return found


def side_by_side(posteriors: Sequence[np.ndarray]) -> torch.Tensor:
    """Returns the logarithms [T, N, classes] of distributions, each [its T, classes], every class being possible."""
    scores = torch.full((max(map(len, posteriors)), len(posteriors), len(ALPHABET)), -20.0)
    for i, p in enumerate(posteriors):
        p = p.astype(np.float32) + FLOOR
        scores[: len(p), i] = torch.from_numpy(np.log(p / p.sum(-1, keepdims=True)))
    return scores


def best_losses(scores: torch.Tensor, lengths: Sequence[int]) -> np.ndarray:
    """Returns the losses [N] of the best paths, whatever they spell."""
    return np.array([-scores[:length, i].max(-1).values.sum().item() for i, length in enumerate(lengths)])


def occupancy(posteriors: list[np.ndarray], spelled: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
    """Conditions posteriors [T, classes] on spelling the given classes.

    Returns the conditioned distributions and, per item, the loss per frame in excess of the best unconditioned path.
    """
    lengths = [len(p) for p in posteriors]
    scores = side_by_side(posteriors).requires_grad_(True)
    loss = ctc_losses(scores, lengths, spelled)
    (gradient,) = torch.autograd.grad(loss.sum(), scores)
    given = scores.detach()
    conditioned = gradient.neg().numpy()
    excess = (loss.detach().numpy() - best_losses(given, lengths)) / np.array(lengths)
    return [conditioned[:length, i] for i, length in enumerate(lengths)], excess


def known_stretches(bases: np.ndarray) -> list[Segment]:
    """Returns the stretches of frames [T] whose truth is known, and the classes that they spell; bases as in Conditioned."""
    known = np.concatenate([[False], bases != UNKNOWN, [False]])
    edges = np.flatnonzero(known[1:] != known[:-1])
    found = []
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        spelled = bases[begin:end]
        classes = spelled[spelled > 0].astype(np.int64)
        if len(classes) and room(classes) <= end - begin:
            found.append(Segment(int(begin), int(end), classes))
    return found


def cut_where_sure(stretch: Segment, posteriors: np.ndarray, bases: np.ndarray) -> list[Segment]:
    """Cuts a stretch into parts of SEGMENT_FRAMES frames and a little more; a lattice of all of it would be as many times larger.

    A part begins with a base that the posteriors [T, classes] say in the very frame in which bases [T] have it, and that is another
    one than its neighbours.
    """
    frames = stretch.begin + np.flatnonzero(bases[stretch.begin : stretch.end])
    classes = stretch.classes
    other = np.zeros(len(classes), bool)
    other[1:-1] = (classes[1:-1] != classes[:-2]) & (classes[1:-1] != classes[2:])
    sure = other & (posteriors[frames, classes] >= SURE) & (posteriors[frames - 1, classes] < 1 - SURE)
    found, first, begin = [], 0, stretch.begin
    for n in np.flatnonzero(sure):
        length, rest = frames[n] - begin, stretch.end - frames[n]
        if min(length, rest) >= SEGMENT_FRAMES and room(classes[first:n]) <= length and room(classes[n:]) <= rest:
            found.append(Segment(begin, int(frames[n]), classes[first:n]))
            first, begin = n, int(frames[n])
    return [*found, Segment(begin, stretch.end, classes[first:])]


def room(classes: np.ndarray) -> int:
    """Returns the least number of frames in which CTC can spell classes: one each, and a blank between equal ones."""
    return len(classes) + int((np.diff(classes) == 0).sum())


def conditioned_again(posteriors: np.ndarray, bases: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Returns targets [N, T, classes] for chunks that a teacher has called anew, at another speed say.

    posteriors [N, T, classes] are its output, bases [N, T] the true bases about where they are emitted now, and weights [N]
    those of the truth against the teacher. The teacher determines when a base passes; its output where the truth is not known
    stays as it is.
    """
    targets = posteriors.copy()
    parts = [
        (n, part)
        for n in range(len(bases))
        if weights[n]
        for stretch in known_stretches(bases[n])
        for part in cut_where_sure(stretch, posteriors[n], bases[n])
    ]
    if not parts:
        return targets
    distributions, excess = occupancy([posteriors[n, s.begin : s.end] for n, s in parts], [s.classes for _, s in parts])
    for (n, s), distribution, loss in zip(parts, distributions, excess, strict=True):
        if loss < MAX_EXCESS:
            targets[n, s.begin : s.end] += weights[n] * (distribution - targets[n, s.begin : s.end])
    return targets


def emission_frames(conditioned: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Returns the most likely frame of each class when all are emitted in order, one frame each (Viterbi)."""
    gain = np.log(conditioned[:, classes] + FLOOR)
    frames, bases = gain.shape
    best = np.full(bases + 1, -np.inf)
    best[0] = 0.0
    emits = np.empty((frames, bases), bool)
    for t in range(frames):
        moved = best[:-1] + gain[t]
        emits[t] = moved > best[1:]
        best[1:] = np.maximum(best[1:], moved)
    found = np.empty(bases, np.int64)
    k = bases
    for t in range(frames - 1, -1, -1):
        if k and emits[t, k - 1]:
            k -= 1
            found[k] = t
    return found


@dataclass(frozen=True)
class Conditioned:
    """A read's frames given the truth: the distributions, and the true base that each frame emits."""

    targets: np.ndarray
    """[T, classes]; the teacher's where there is no truth."""
    bases: np.ndarray
    """[T] uint8: a class, 0 where no base is emitted, UNKNOWN where there is no truth."""

    @property
    def known(self) -> int:
        """Number of frames with a truth."""
        return int((self.bases != UNKNOWN).sum())


def condition(
    posteriors: np.ndarray, truth: Reference | None, least_identity: float = MIN_IDENTITY, least_aligned: float = MIN_ALIGNED
) -> Conditioned:
    """Conditions the teacher's posteriors [T, classes] of a read on the truth wherever that is believed.

    It isn't anywhere if less of the teacher's call is aligned or equal.
    """
    call = greedy(posteriors, ALPHABET)
    hit = truth.best(call.bases) if truth and call.bases else None
    if hit is None or hit.aligned < least_aligned or hit.identity < least_identity:
        return condition_on(posteriors, [])
    return condition_on(posteriors, segments(call, hit))


def condition_on(posteriors: np.ndarray, parts: Sequence[Segment]) -> Conditioned:
    """Conditions the teacher's posteriors [T, classes] of a read on what segments of it spell, wherever that is believed."""
    targets, bases = posteriors.copy(), np.full(len(posteriors), UNKNOWN, np.uint8)
    result = Conditioned(targets, bases)
    if not parts:
        return result
    distributions, excess = occupancy([posteriors[s.begin : s.end] for s in parts], [s.classes for s in parts])
    for segment, distribution, loss in zip(parts, distributions, excess, strict=True):
        if loss < MAX_EXCESS:
            targets[segment.begin : segment.end] = distribution
            emitted = np.zeros(segment.end - segment.begin, np.uint8)
            emitted[emission_frames(distribution, segment.classes)] = segment.classes
            bases[segment.begin : segment.end] = emitted
    return result
