#!/usr/bin/env python3
"""check.py IN.bam OUT.bam...: reads that were cut and sorted are still consistent (pysam).

What is left of a read is a stretch of what it was; its qualities are those of its
bases, its move table has a move for each base, and begins, ts samples into the signal,
where that base began before. What its tags say of modified bases is what they said of those
bases, and MN is its length where it was cut.
"""
import sys

import pysam


def starts(r):
    """Samples at which bases start."""
    stride, *moves = r.get_tag("mv")
    return [r.get_tag("ts") + i * stride for i, m in enumerate(moves) if m]


def modified(r):
    """What is said of modified bases, by place in the read."""
    return sorted((at, str(what), p) for what, calls in r.modified_bases_forward.items() for at, p in calls)


before = {r.query_name: r for r in pysam.AlignmentFile(sys.argv[1], check_sq=False).fetch(until_eof=True) if not r.is_secondary and not r.is_supplementary}
seen = set()
for path in sys.argv[2:]:
    with pysam.AlignmentFile(path, check_sq=False) as f:
        groups = {g["ID"]: g for g in f.header["RG"]}
        for r in f.fetch(until_eof=True):
            old = before[r.query_name]
            assert r.query_name not in seen and r.is_unmapped and not r.is_reverse
            seen.add(r.query_name)
            sequence, qualities = old.get_forward_sequence(), list(old.get_forward_qualities())
            # Stretches repeat: the samples say which it is.
            first = starts(old).index(starts(r)[0])
            n = r.query_length
            assert r.query_sequence == sequence[first:first + n], r.query_name
            assert list(r.query_qualities) == qualities[first:first + n], r.query_name
            assert starts(r) == starts(old)[first:first + n], r.query_name
            assert modified(r) == [(at - first, what, p) for at, what, p in modified(old) if first <= at < first + n], r.query_name
            assert n == len(sequence) or not r.has_tag("MM") or r.get_tag("MN") == n
            assert r.get_tag("ns") == old.get_tag("ns")
            assert starts(r)[-1] < r.get_tag("ns")
            assert r.get_tag("RG") in groups
            barcode = r.get_tag("BC")
            if barcode != "unclassified":
                assert r.get_tag("RG").endswith("_" + barcode) and groups[r.get_tag("RG")]["SM"] in barcode
                assert len(r.get_tag("bi")) == 7 and n < len(sequence)
            for tag in ("NM", "SA"):
                assert not r.has_tag(tag)
assert seen == set(before), "reads are missing"
print(len(seen))
