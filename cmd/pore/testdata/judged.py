"""Counts the errors of a BAM file's reads by their MD tags: another way to what pore eval basecall prints.

Nothing but gapped strings: the reference's bases above, the read's below.
"""

import json
import math
import statistics
import sys
from collections import Counter

import pysam

COMPLEMENT = str.maketrans("ACGTN-", "TGCAN-")


def gapped(record):
    """Returns reference, read and qualities of an alignment's columns in the direction of the read."""
    top, bottom, qualities = [], [], []
    for q, _, base in record.get_aligned_pairs(with_seq=True):
        if base is None and not record.query_alignment_start <= q < record.query_alignment_end:
            continue  # clipped
        top.append(base.upper() if base else "-")
        bottom.append(record.query_sequence[q] if q is not None else "-")
        qualities.append(record.query_qualities[q] if q is not None else None)
    if record.is_reverse:
        top = list("".join(top).translate(COMPLEMENT))[::-1]
        bottom = list("".join(bottom).translate(COMPLEMENT))[::-1]
        qualities.reverse()
    return top, bottom, qualities


def shift_left(top, bottom, qualities):
    """Moves gaps over matches, a column at a time, until none moves."""
    moved = True
    while moved:
        moved = False
        for i in range(1, len(top)):
            for gaps, full in ((top, bottom), (bottom, top)):
                if gaps[i] != "-" or gaps[i - 1] == "-" or top[i - 1] != bottom[i - 1]:
                    continue
                end = i
                while end < len(gaps) and gaps[end] == "-":
                    end += 1
                if full[i - 1] != full[end - 1]:
                    continue
                gaps[end - 1], gaps[i - 1] = gaps[i - 1], "-"
                if gaps is bottom:
                    qualities[end - 1], qualities[i - 1] = qualities[i - 1], None
                moved = True


def runs_of(top, bottom):
    """Yields base, true length and called length of the runs with a base of the reference on either side."""
    at = [i for i, base in enumerate(top) if base != "-"]
    start = 0
    while start < len(at):
        base, end = top[at[start]], start
        while end < len(at) and top[at[end]] == base:
            end += 1
        if start > 0 and end < len(at):
            low, high = at[start], at[end - 1]
            while top[low - 1] == "-" and bottom[low - 1] == base:
                low -= 1
            while top[high + 1] == "-" and bottom[high + 1] == base:
                high += 1
            yield base, end - start, bottom[low : high + 1].count(base)
        start = end


def main(path):
    columns, pairs, bases, wrong, runs, motif = Counter(), Counter(), Counter(), Counter(), Counter(), Counter()
    contexts = {}
    identities, lengths, clipped = [], [], 0
    for record in pysam.AlignmentFile(path, check_sq=False):
        if record.is_secondary or record.is_supplementary:
            continue
        lengths.append(len(record.query_sequence))
        if record.is_unmapped:
            continue
        clipped += len(record.query_sequence) - record.query_alignment_length
        top, bottom, qualities = gapped(record)
        shift_left(top, bottom, qualities)
        kinds = []
        for x, y, q in zip(top, bottom, qualities):
            kind = "insertions" if x == "-" else "deletions" if y == "-" else "matches" if x == y else "substitutions"
            kinds.append(kind)
            if "-" not in (x, y):
                pairs[x + y] += 1
            if y != "-":
                bases[q] += 1
                wrong[q] += kind in ("insertions", "substitutions")
        columns.update(kinds)
        identities.append(kinds.count("matches") / len(kinds))
        for base, length, called in runs_of(top, bottom):
            runs[f"{base} {min(10, length)} {min(15, called)}"] += 1
        at = [i for i, base in enumerate(top) if base != "-"]
        for k in range(1, len(at) - 1):
            name = top[at[k - 1]] + top[at[k]] + top[at[k + 1]]
            count = contexts.setdefault(name, [0, 0, 0, 0])
            count[0] += 1
            count[1] += kinds[at[k]] == "substitutions"
            count[2] += at[k + 1] > at[k] + 1
            count[3] += kinds[at[k]] == "deletions"
        for k in range(len(at) - 3):
            if "".join(top[i] for i in at[k : k + 4]) == "GATC":
                motif["found"] += 1
                motif["right"] += "".join(bottom[at[k] : at[k + 3] + 1]) == "GATC"
    half, n50 = sum(lengths) / 2, 0
    for n in sorted(lengths, reverse=True):
        half -= n
        if half <= 0:
            n50 = n
            break
    json.dump(
        {
            "reads": len(lengths), "aligned": len(identities), "n50": n50, "clipped": clipped,
            "mean": statistics.fmean(identities), "median": statistics.median(identities),
            "columns": columns, "pairs": pairs, "runs": runs, "contexts": contexts, "gatc": motif,
            "qualities": {
                str(q): [bases[q], wrong[q], -10 * math.log10(max(wrong[q], 0.5) / bases[q])] for q in bases
            },
        },
        sys.stdout,
    )  # fmt: skip


main(sys.argv[1])
