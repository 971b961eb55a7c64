#!/usr/bin/env python3
"""Cuts long peptides out of BCSQ: only their first five residues are kept, and the change of DNA is left out."""
import re
import sys

for line in sys.stdin:
    f = line.rstrip("\n").split("\t")
    entries = []
    for e in f[5].split(","):
        e = e.split("|")[:6]
        if len(e) == 6:
            e[5] = re.sub(r"([A-Z*?]{5})[A-Z*?]+", r"\1~", e[5])
        entries.append("|".join(e))
    print(*f[:5], ",".join(entries), sep="\t")
