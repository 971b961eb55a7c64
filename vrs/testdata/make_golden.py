#!/usr/bin/env python3
"""Makes alleles.tsv with the GA4GH reference implementation (PyPI: ga4gh.vrs 2.3.3).

Columns: sequence, refget accession, start, end, alternate allele, ga4gh:VA identifier, normalised start, end.
"""
import random
import sys

from ga4gh.core import ga4gh_identify, sha512t24u
from ga4gh.vrs import models, normalize
from ga4gh.vrs.dataproxy import _DataProxy


class Proxy(_DataProxy):
    """Serves one sequence."""

    def __init__(self, seq):
        self.seq = seq

    def get_sequence(self, identifier, start=None, end=None):
        return self.seq[start:end]

    def get_metadata(self, identifier):
        return {"aliases": [], "length": len(self.seq), "alphabet": "ACGT", "added": None}


Proxy._get_sequence = Proxy.get_sequence
Proxy._get_metadata = Proxy.get_metadata
Proxy.__abstractmethods__ = frozenset()


def row(seq, start, end, alt):
    acc = "SQ." + sha512t24u(seq.encode())
    allele = models.Allele(
        location=models.SequenceLocation(
            sequenceReference=models.SequenceReference(refgetAccession=acc), start=start, end=end
        ),
        state=models.LiteralSequenceExpression(sequence=alt),
    )
    n = normalize(allele, Proxy(seq))
    return [seq, acc, start, end, alt, ga4gh_identify(n), n.location.start, n.location.end]


def main():
    rng = random.Random(20240917)
    seqs = ["ACGTCAGCAGCAGTTTTTGA", "AAAAAAAA", "CATCATCATCATGCATGCA", "GATTACAGATTACAGATT"]
    for _ in range(40):
        unit = "".join(rng.choice("ACGT") for _ in range(rng.randint(1, 4)))
        flank = lambda: "".join(rng.choice("ACGT") for _ in range(rng.randint(0, 8)))
        seqs.append(flank() + unit * rng.randint(2, 6) + unit[: rng.randint(0, len(unit))] + flank())
    for seq in seqs:
        for _ in range(25):
            start = rng.randint(0, len(seq))
            end = min(len(seq), start + rng.choice([0, 0, 1, 1, 2, 3, 6]))
            if rng.random() < 0.5:  # sequence from the neighbourhood, so that repeats grow
                i = max(0, start - rng.randint(0, 6))
                alt = seq[i : i + rng.randint(0, 7)]
            else:
                alt = "".join(rng.choice("ACGT") for _ in range(rng.randint(0, 4)))
            if start == end and not alt:
                continue
            print(*row(seq, start, end, alt), sep="\t")


sys.exit(main())
