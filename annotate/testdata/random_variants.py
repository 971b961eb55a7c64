#!/usr/bin/env python3
"""Writes random small variants of a reference as VCF, left-aligned and in normal form.

Usage: random_variants.py REF.fa COUNT SEED [GFF3] > variants.vcf
With a gene model the variants lie within 24 bases of the ends of its exons.
Half of the variants are substitutions, the rest insertions, deletions and replacements of up to 12 bases.
"""
import gzip
import random
import sys


def read(path):
    seqs, name = {}, None
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as f:
        for line in f:
            if line.startswith(">"):
                name = line[1:].split()[0]
                seqs[name] = []
            else:
                seqs[name].append(line.strip().upper())
    return {n: "".join(s) for n, s in seqs.items()}


def normal(seq, start, ref, alt):
    """VCF's normal form: trimmed, left-aligned, anchored."""
    while ref and alt and ref[-1] == alt[-1]:
        ref, alt = ref[:-1], alt[:-1]
    while ref and alt and ref[0] == alt[0]:
        start, ref, alt = start + 1, ref[1:], alt[1:]
    while (not ref or not alt) and start > 0 and (ref or alt)[-1] == seq[start - 1]:
        ref, alt = (seq[start - 1] + ref)[: len(ref)], (seq[start - 1] + alt)[: len(alt)]
        start -= 1
    if not ref or not alt:
        start -= 1
        ref, alt = seq[start] + ref, seq[start] + alt
    return start, ref, alt


def main():
    seqs, count, rng = read(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
    names = sorted(seqs)
    bases = lambda n: "".join(rng.choice("ACGT") for _ in range(n))
    edges = []
    if len(sys.argv) > 4:
        with open(sys.argv[4]) as f:
            rows = [line.split("\t") for line in f]
        edges = [(r[0], int(p)) for r in rows if len(r) > 8 and r[2] == "exon" and r[0] in seqs for p in r[3:5]]
        edges = [(n, p) for n, p in edges if 60 < p < len(seqs[n]) - 60]
        if not edges:
            count = 0
    out = set()
    while len(out) < count:
        if edges:
            name, edge = rng.choice(edges)
            start = edge - 1 + rng.randint(-24, 24)
        else:
            name = rng.choice(names)
            start = rng.randrange(100, len(seqs[name]) - 100)
        seq = seqs[name]
        kind = rng.random()
        if kind < 0.5:
            ref, alt = seq[start], bases(1)
        elif kind < 0.7:
            n = rng.choice([1, 1, 1, 2, 3, 3, 6, 9, 12])
            ref, alt = "", seq[start - n : start] if rng.random() < 0.3 else bases(n)
        elif kind < 0.9:
            ref, alt = seq[start : start + rng.choice([1, 1, 1, 2, 3, 3, 6, 9, 12])], ""
        elif kind < 0.95:
            n = rng.choice([2, 3])
            ref, alt = seq[start : start + n], bases(n)
        else:
            ref, alt = seq[start : start + rng.randint(1, 6)], bases(rng.randint(1, 6))
        if ref == alt:
            continue
        start, ref, alt = normal(seq, start, ref, alt)
        if start >= 1 and set(ref) <= set("ACGT"):
            out.add((name, start + 1, ref, alt))
    print("##fileformat=VCFv4.2")
    for name in sorted(seqs):
        print(f"##contig=<ID={name},length={len(seqs[name])}>")
    print("#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO")
    for name, pos, ref, alt in sorted(out):
        print(name, pos, ".", ref, alt, ".", ".", ".", sep="\t")


if __name__ == "__main__":
    sys.exit(main())
