#!/usr/bin/env python3
"""Says how far GQ and QUAL of a caller can be believed: how many calls are wrong, and how many should be by their qualities.

usage: eval-gq.py FOLDER-WITH-GENOTYPES FOLDER-OF-ALLELES

Both folders are what `pore eval variants --out` wrote of the same calls, the second with --squash, so that a call with the
right allele and the wrong genotype is in tp.vcf of the second and in fp.vcf of the first.
"""

import sys
from collections import defaultdict
from pathlib import Path


def records(path):
    """Returns the records of a VCF file by place and alleles."""
    lines = (line.rstrip("\n").split("\t") for line in path.read_text().splitlines() if not line.startswith("#"))
    return {(f[0], f[1], f[3], f[4]): f for f in lines}


def main(genotypes, alleles):
    right, wrong = records(genotypes / "tp.vcf"), records(genotypes / "fp.vcf")
    found = records(alleles / "tp.vcf")
    bins = defaultdict(lambda: [0, 0, 0.0])  # calls, wrong ones, those expected to be, by what is judged, kind and quality

    def count(what, kind, quality, is_wrong):
        counts = bins[what, kind, 10 * min(4, int(quality) // 10)]
        counts[0] += 1
        counts[1] += is_wrong
        counts[2] += 10 ** (-quality / 10)

    for key, fields in (right | wrong).items():
        kind = "SNP" if len(key[2]) == 1 and len(key[3]) == 1 else "INDEL"
        count("QUAL", kind, float(fields[5]), key not in found)
        sample = dict(zip(fields[8].split(":"), fields[9].split(":")))
        if key in found and "GQ" in sample:
            count("GQ", kind, float(sample["GQ"]), key in wrong)

    print(f"{'quality':8}{'kind':7}{'from':>5}{'calls':>7}{'wrong':>7}{'expected':>10}")
    for (what, kind, low), (calls, errors, expected) in sorted(bins.items()):
        print(f"{what:8}{kind:7}{low:5}{calls:7}{errors:7}{expected:10.1f}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
