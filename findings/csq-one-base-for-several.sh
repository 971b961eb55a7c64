#!/usr/bin/env bash
# One would guess: bcftools csq translates what a record says, and two spellings of one change give one protein.
# What happens: where several bases become one other base (REF TTAAGAGAAG, ALT C), the deletion keeps REF's first base in
# place of ALT's. With the base before it in both alleles the same change is translated rightly. A stop codon that such a
# change makes is told as an in-frame deletion. bcftools 1.24, as it comes with pysam 0.24.1; Debian's 1.16 does the same.
# Who is hurt: who reads BCSQ of callers that write parsimonious delins (EGFR exon 19, L747_A750delinsP, is one): the
# residue belongs to no cell, and a premature stop is missed.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pysam==0.24.1
cat >try.py <<'PYTHON'
import itertools
import sys

import pysam
import pysam.bcftools

# A gene of one exon: M K E L R E A T S P K A stop.
coding = "ATG" "AAGGAATTAAGAGAAGCAACATCTCCGAAAGCC" "TGA"
flank = "CGTACGTTGCAGGCTTACCG" * 3
reference = flank + coding + flank
first, last = len(flank) + 1, len(flank) + len(coding)
table = dict(zip(map("".join, itertools.product("TCAG", repeat=3)), "FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG"))


def protein(bases):
    return "".join(table[bases[i:i + 3]] for i in range(0, len(bases) - 2, 3)).split("*")[0] + "*"


name, offset, ref, alt = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
pos = reference.index("TTAAGAGAAG") + 1 + offset
assert reference[pos - 1:pos - 1 + len(ref)] == ref
sample = reference[:pos - 1] + alt + reference[pos - 1 + len(ref):]
with open("ref.fa", "w") as f:
    f.write(f">c\n{reference}\n")
pysam.faidx("ref.fa")
with open("genes.gff3", "w") as f:
    f.write("##gff-version 3\n")
    for kind, phase, attributes in (
        ("gene", ".", "ID=gene:G;biotype=protein_coding;Name=G"),
        ("mRNA", ".", "ID=transcript:T;Parent=gene:G;biotype=protein_coding"),
        ("exon", ".", "Parent=transcript:T"),
        ("CDS", "0", "Parent=transcript:T"),
    ):
        f.write(f"c\tmade\t{kind}\t{first}\t{last}\t.\t+\t{phase}\t{attributes}\n")
with open("calls.vcf", "w") as f:
    f.write(f'##fileformat=VCFv4.2\n##contig=<ID=c,length={len(reference)}>\n##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">\n')
    f.write(f"#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts\nc\t{pos}\t.\t{ref}\t{alt}\t.\t.\t.\tGT\t1|1\n")
out = pysam.bcftools.csq("-p", "a", "-f", "ref.fa", "-g", "genes.gff3", "calls.vcf", catch_stdout=True)
bcsq = next(line.split("\t")[7] for line in out.splitlines() if line and not line.startswith("#"))
print(f"{name}: {ref}>{alt}: protein {protein(sample[len(flank):])}, was {protein(coding)}; csq: {bcsq.split('|')[0][5:]} {bcsq.split('|')[5]}")
PYTHON
echo "pysam 0.24.1, bcftools $(venv/bin/python -c 'import pysam.version as v; print(v.__bcftools_version__)')"
{
	venv/bin/python try.py 'bare' 0 TTAAGAGAAG C
	venv/bin/python try.py 'the same, with the base before it' -1 ATTAAGAGAAG AC
	venv/bin/python try.py 'a new stop' 3 AGAG T
	venv/bin/python try.py 'the same, with the base before it' 2 AAGAG AT
} 2>/dev/null | tee seen
cat >expected <<'EXPECTED'
bare: TTAAGAGAAG>C: protein MKEPTSPKA*, was MKELREATSPKA*; csq: inframe_deletion 3ELRE>3D
the same, with the base before it: ATTAAGAGAAG>AC: protein MKEPTSPKA*, was MKELREATSPKA*; csq: inframe_deletion 3ELREA>3EP
a new stop: AGAG>T: protein MKEL*, was MKELREATSPKA*; csq: inframe_deletion 4LR>4F
the same, with the base before it: AAGAG>AT: protein MKEL*, was MKELREATSPKA*; csq: stop_gained&inframe_deletion 4LRE>4L*
EXPECTED
if ! diff expected seen; then
	echo "bcftools csq behaves otherwise by now" >&2
	exit 1
fi
