"""A truth for reads of a strain that nobody knows, from the genomes of its relatives.

Strains of a bacterial species share most of their genes, with one base in a hundred or two hundred changed: a tenth of what a
basecaller gets wrong. The calls of a read are aligned to all relatives. Between places where the calls agree with some of them,
what each relative has there is tried, and the one is taken that is most probable under the frame distributions of the read (CTC).
So the truth of a read is a mosaic, as strains are of each other. What no relative has is not known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .alignment import Hit, Reference
from .calling import Call
from .ctc import ctc_losses
from .manifest import ALPHABET
from .targets import (
    MAX_SEGMENT_FRAMES,
    MIN_IDENTITY,
    SEGMENT_FRAMES,
    Segment,
    anchors,
    best_losses,
    room,
    side_by_side,
)

SHORTEST = 500
"""Columns of an alignment: a shorter similarity may be a repeat."""
MAX_EXCESS = 0.1
"""Loss per frame above the best path beyond which a relative is another one there. Of a known genome's segments, ninety-nine
in a hundred lose less."""
JOBS = 200
"""Segments that are scored at a time."""


def related_truth(
    call: Call, posteriors: np.ndarray, genomes: Sequence[Reference], least_identity: float = MIN_IDENTITY
) -> list[Segment]:
    """Returns the stretches of a read that relatives have, as the likeliest of them has them.

    posteriors [T, classes] are the read's frame distributions, genomes its relatives'. Alignments of less identity don't count.
    """
    hits = [hit for genome in genomes for hit in genome.all(call.bases)]
    hits = [hit for hit in hits if hit.columns >= SHORTEST and hit.identity >= least_identity]
    places = _places(call, hits)
    likeliest: list[Segment] = []
    for at in range(0, len(places), JOBS):
        likeliest += _likeliest(places[at : at + JOBS], posteriors)
    return likeliest


def _places(call: Call, hits: Sequence[Hit]) -> list[list[Segment]]:
    """Cuts a read between anchors; returns of every part what relatives have there, all that differ."""
    where: dict[int, dict[int, int]] = {}
    for n, hit in enumerate(hits):
        for frame, position in anchors(call, hit):
            where.setdefault(frame, {})[n] = position
    codes = [np.array([ALPHABET.index(base) if base in "ACGT" else 0 for base in hit.target]) for hit in hits]
    found: list[list[Segment]] = []
    begin = -1
    for frame in sorted(where):
        if begin < 0 or frame - begin > MAX_SEGMENT_FRAMES:
            begin = frame
        if frame - begin < SEGMENT_FRAMES:
            continue
        spelled = {codes[n][where[begin][n] : where[frame][n]].tobytes() for n in where[begin].keys() & where[frame].keys()}
        classes = [np.frombuffer(one, np.int64) for one in sorted(spelled)]
        some = [Segment(begin, frame, one) for one in classes if len(one) and one.all() and room(one) * 1.1 <= frame - begin]
        if some:
            found.append(some)
            begin = frame
    return found


def _likeliest(places: Sequence[Sequence[Segment]], posteriors: np.ndarray) -> list[Segment]:
    """Returns of each place the segment of the least loss, if that is little enough."""
    flat = [segment for some in places for segment in some]
    heard = [posteriors[one.begin : one.end] for one in flat]
    scores, lengths = side_by_side(heard), [len(p) for p in heard]
    loss = ctc_losses(scores, lengths, [one.classes for one in flat]).numpy()
    excess = (loss - best_losses(scores, lengths)) / np.array(lengths)
    chosen, at = [], 0
    for some in places:
        of = excess[at : at + len(some)]
        at += len(some)
        if of.min() < MAX_EXCESS:
            chosen.append(some[int(of.argmin())])
    return chosen
