#!/usr/bin/env python3
"""Counts the errors of aligned basecalls: errors.py READS.bam... (pore basecall --ref).

Needs pysam. Says of a hundred errors how many are substitutions, insertions and
deletions, by aligned base, and what share of columns is wrong.
"""
import sys

import pysam

counts = dict.fromkeys("=XID", 0)
for path in sys.argv[1:]:
    with pysam.AlignmentFile(path, check_sq=False) as reads:
        for r in reads:
            if not (r.is_unmapped or r.is_supplementary or r.is_secondary):
                for op, n in r.cigartuples:
                    if (name := "MIDNSHP=XB"[op]) in counts:
                        counts[name] += n
errors = counts["X"] + counts["I"] + counts["D"]
print(counts, f"errors {errors / sum(counts.values()):.4f} of columns:",
      ", ".join(f"{name} {100 * counts[op] / errors:.0f} %" for op, name in zip("XID", ("substitutions", "insertions", "deletions"))))
