"""A truth for reads of a genome that nobody knows: where two of them overlap, they correct each other.

What one read leaves open, another often does not, the more so from the other strand: of lambda's reads, which rnn96 calls at 92 %
identity, what two of them agree on has 96 (same strand) to 97 % (the other one).

Both calls are aligned. Between places where they agree over several bases all sequences are tried that differ by what the calls
differ by, and the one is taken that is most probable under the frame distributions of both reads together (CTC). Where none is
by far, nothing is known.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import mappy
import numpy as np

from .alignment import reverse_complement, walk
from .calling import Call
from .ctc import ctc_losses
from .manifest import ALPHABET
from .targets import ANCHOR_RUN, SEGMENT_FRAMES, Segment, room, side_by_side

SHORTEST = 1000
"""Columns of an overlap."""
LEAST = 0.76
"""Part of them that are equal: two calls that are each 88 % right agree in about 79 %."""
OVERHANG = 500
"""Bases by which both reads may go on beyond the end of an overlap: repeats are alike within reads."""
MOST_PARTNERS = 50
"""Other reads that a read is aligned to."""
MOST_APART = 60
"""Columns between two anchors beyond which nothing is believed."""
MOST_EDITS = 6
"""Differences between two anchors whose combinations are all tried; of more only those of either call."""
CERTAIN = 0.8
"""Probability of a sequence among those tried from which on it is taken for true."""
JOBS = 200
"""Places that are scored at a time."""


@dataclass(frozen=True)
class Ear:
    """The basecaller's output for a read: its call, with frames, and its frame distributions [T, classes]."""

    call: Call
    posteriors: np.ndarray

    def frame(self, base: int) -> int:
        """Returns the frame in which a base begins, of the one behind the last the end."""
        return int(self.call.frames[base]) if base < len(self.call.frames) else len(self.posteriors)


@dataclass(frozen=True)
class _Overlap:
    """Where another read lies over a read."""

    other: int
    """Number of the other read."""
    turned: bool
    """It is of the other strand."""
    columns: list[tuple[int, int]]
    """Of the alignment, bases of both, -1 for a gap; those of the other read in the first one's direction."""
    begin: int
    end: int
    """Bases of the first read that are covered."""


@dataclass(frozen=True)
class _Place:
    """Where two calls differ, from one place amid agreement to the next."""

    begin: int
    """First base of the read there."""
    tried: list[str]
    """What may be there, in the read's direction."""
    mine: np.ndarray
    """Frame distributions of one read."""
    other: np.ndarray
    """And of the other, whose bases are the reverse complement if it is of the other strand."""


def overlapping_truths(ears: Sequence[Ear]) -> list[list[Segment]]:
    """Returns of every read the stretches of frames whose bases other reads confirm or correct."""
    found = _overlaps([ear.call.bases for ear in ears])
    return [[segment for one in found[k] for segment in _agreed(mine, ears[one.other], one)] for k, mine in enumerate(ears)]


def _overlaps(calls: Sequence[str]) -> list[list[_Overlap]]:
    """Returns for every call where others lie over it, longest first, without two that share bases of it."""
    found: list[list[_Overlap]] = [[] for _ in calls]
    long = [k for k, call in enumerate(calls) if len(call) >= SHORTEST]
    if len(long) < 2:
        return found
    with tempfile.NamedTemporaryFile("w", suffix=".fa") as file:
        file.writelines(f">{k}\n{calls[k]}\n" for k in long)
        file.flush()
        aligner = mappy.Aligner(file.name, preset="ava-ont", best_n=MOST_PARTNERS)  # yields each pair once
    for n in long:
        for hit in aligner.map(calls[n], name=str(n)):
            k = int(hit.ctg)
            if _is_overlap(hit, len(calls[k]), len(calls[n])):
                columns, turned = _columns(hit, len(calls[n])), hit.strand < 0
                found[k].append(_Overlap(n, turned, columns, hit.r_st, hit.r_en))
                other = _seen_from_the_other(columns, turned, len(calls[k]), len(calls[n]))
                found[n].append(_Overlap(k, turned, other, hit.q_st, hit.q_en))
    return [_apart(sorted(some, key=lambda one: (-len(one.columns), one.other))) for some in found]


def _seen_from_the_other(columns: list[tuple[int, int]], turned: bool, target: int, query: int) -> list[tuple[int, int]]:
    """Returns the columns of an alignment of reads of these lengths as the query has them in its direction."""
    if not turned:
        return [(q, t) for t, q in columns]
    return [(query - 1 - q if q >= 0 else -1, target - 1 - t if t >= 0 else -1) for t, q in reversed(columns)]


def _apart(found: list[_Overlap]) -> list[_Overlap]:
    """Returns the first overlap, and of the others those that share no bases of the read with any before."""
    taken: list[_Overlap] = []
    for one in found:
        if all(one.end <= before.begin or before.end <= one.begin for before in taken):
            taken.append(one)
    return taken


def _is_overlap(hit: mappy.Alignment, target: int, query: int) -> bool:
    """Says whether an alignment goes on to the end of one of both reads on either side, and is good enough."""
    before, behind = (hit.q_st, query - hit.q_en) if hit.strand > 0 else (query - hit.q_en, hit.q_st)
    ends = min(hit.r_st, before) <= OVERHANG and min(target - hit.r_en, behind) <= OVERHANG
    return ends and hit.blen >= SHORTEST and hit.mlen >= LEAST * hit.blen


def _columns(hit: mappy.Alignment, query: int) -> list[tuple[int, int]]:
    """Returns target and query index of every column, -1 for a gap; the query in the target's direction."""
    first = hit.q_st if hit.strand > 0 else query - hit.q_en
    return [(t, q) for q, t in walk(hit.cigar, first, hit.r_st)]


def _agreed(mine: Ear, other: Ear, overlap: _Overlap) -> Iterator[Segment]:
    """Yields the stretches of a read that another confirms or corrects."""
    theirs = reverse_complement(other.call.bases) if overlap.turned else other.call.bases
    columns = overlap.columns
    equal = [t >= 0 and q >= 0 and mine.call.bases[t] == theirs[q] for t, q in columns]
    run, anchors = 0, []
    for i, same in enumerate(equal):
        run = run + 1 if same else 0
        if run >= ANCHOR_RUN:
            anchors.append(i - ANCHOR_RUN // 2)
    best = _decided(list(_places(mine, other, overlap, theirs, equal, anchors)), overlap.turned)
    begin, spelled = None, ""
    for i, j in itertools.pairwise(anchors):
        first, last = columns[i][0], columns[j][0]
        if begin is None:
            begin, spelled = mine.frame(first), ""
        if j == i + 1 or mine.call.bases[first:last] == theirs[columns[i][1] : columns[j][1]]:
            spelled += mine.call.bases[first:last]
        elif first in best:
            spelled += best[first]
        else:  # not known: what came before ends here
            if spelled:
                yield from _segment(begin, mine.frame(first), spelled)
            begin = None
            continue
        if mine.frame(last) - begin >= SEGMENT_FRAMES:
            yield from _segment(begin, mine.frame(last), spelled)
            begin = None
    if begin is not None and spelled:
        yield from _segment(begin, mine.frame(columns[anchors[-1]][0]), spelled)


def _segment(begin: int, end: int, spelled: str) -> Iterator[Segment]:
    """Yields a segment if its frames suffice for its bases."""
    classes = np.array([ALPHABET.index(base) for base in spelled])
    if room(classes) <= end - begin:
        yield Segment(begin, end, classes)


def _places(mine: Ear, other: Ear, overlap: _Overlap, theirs: str, equal: list[bool], anchors: list[int]) -> Iterator[_Place]:
    """Yields the places between anchors where the calls differ."""
    columns = overlap.columns
    for i, j in itertools.pairwise(anchors):
        (first, q0), (last, q1) = columns[i], columns[j]
        if not 1 < j - i <= MOST_APART or mine.call.bases[first:last] == theirs[q0:q1]:
            continue
        choices: list[tuple[str, ...]] = []
        for same, group in itertools.groupby(range(i, j), equal.__getitem__):
            some = [columns[c] for c in group]
            a = "".join(mine.call.bases[t] for t, _ in some if t >= 0)
            choices.append((a,) if same else (a, "".join(theirs[q] for _, q in some if q >= 0)))
        if sum(len(one) > 1 for one in choices) <= MOST_EDITS:
            tried = ["".join(some) for some in itertools.product(*choices)]
        else:
            tried = [mine.call.bases[first:last], theirs[q0:q1]]
        n = len(theirs)
        frames = (n - q1, n - q0) if overlap.turned else (q0, q1)
        yield _Place(
            first,
            list(dict.fromkeys(tried)),
            mine.posteriors[mine.frame(first) : mine.frame(last)],
            other.posteriors[other.frame(frames[0]) : other.frame(frames[1])],
        )


def _decided(places: list[_Place], opposite: bool) -> dict[int, str]:
    """Returns by their first base the places where one of the sequences tried is by far the likeliest for both reads together."""
    best = {}
    for at in range(0, len(places), JOBS):
        some = places[at : at + JOBS]
        heard, spelled = [], []
        for place in some:
            for one in place.tried:
                heard += [place.mine, place.other]
                spelled += [one, reverse_complement(one) if opposite else one]
        scores = _likelihoods(heard, spelled).reshape(-1, 2).sum(1)
        for place, score in zip(some, np.split(scores, np.cumsum([len(p.tried) for p in some])[:-1]), strict=True):
            if np.isfinite(score.max()) and 1 / np.exp(score - score.max()).sum() >= CERTAIN:
                best[place.begin] = place.tried[int(score.argmax())]
    return best


def _likelihoods(posteriors: list[np.ndarray], spelled: list[str]) -> np.ndarray:
    """Returns the logarithm [N] of the probability that distributions [T, classes] spell bases; -inf where there are too few
    frames."""
    classes = [np.array([ALPHABET.index(base) for base in one], np.int64) for one in spelled]
    return -ctc_losses(side_by_side(posteriors), [len(p) for p in posteriors], classes).numpy()
