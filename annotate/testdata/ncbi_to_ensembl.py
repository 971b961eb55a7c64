#!/usr/bin/env python3
"""Rewrites NCBI's GFF3 of a bacterium or virus, with CDS rows right under genes, as Ensembl's, which bcftools csq reads.

Usage: ncbi_to_ensembl.py genes.gff3[.gz] > ensembl.gff3
Pseudogenes and genes that are not coding are left out. The new transcript has the ID of the CDS.
"""
import gzip
import sys


def main():
    path = sys.argv[1]
    genes, cds = {}, {}
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as f:
        for line in f:
            col = line.rstrip("\n").split("\t")
            if len(col) < 9:
                continue
            a = dict(x.split("=", 1) for x in col[8].split(";") if "=" in x)
            if col[2] == "gene":
                genes[a["ID"]] = (col, a)
            elif col[2] == "CDS" and a.get("pseudo") != "true":
                cds.setdefault((a["Parent"], a["ID"]), []).append((col, a))
    print("##gff-version 3")
    seen = set()
    for (parent, ident), rows in cds.items():
        if parent not in genes:
            continue
        gcol, ga = genes[parent]
        gid, tid = parent.removeprefix("gene-"), ident.removeprefix("cds-")
        row = lambda kind, start, end, phase, attrs: print(
            gcol[0], "x", kind, start, end, ".", gcol[6], phase, attrs, sep="\t")
        if gid not in seen:
            seen.add(gid)
            row("gene", gcol[3], gcol[4], ".", f"ID=gene:{gid};Name={ga['Name']};biotype=protein_coding")
        low, high = min(int(c[3]) for c, _ in rows), max(int(c[4]) for c, _ in rows)
        row("mRNA", low, high, ".", f"ID=transcript:{tid};Parent=gene:{gid};biotype=protein_coding")
        row("exon", low, high, ".", f"Parent=transcript:{tid}")
        for c, _ in rows:
            row("CDS", c[3], c[4], c[7], f"ID=CDS:{tid};Parent=transcript:{tid}")


if __name__ == "__main__":
    sys.exit(main())
