#!/usr/bin/env bash
# One would guess: CrossMap carries a variant from one assembly to another so that it is the same change there, or writes it to
# the file of those that it could not map; where the two assemblies have the same sequence, REF and ALT stay as they are.
# What happens: it takes one base of the new assembly for REF, however long REF was, and keeps ALT's further bases behind it.
# Where several bases become as many or more others, the record is an insertion afterwards; so is a repeat with a shorter and a
# longer allele, whose genotypes now name an allele that is gone. Deletions of all but their first base are told as unmappable
# since "REF==ALT", though the notes on release 0.7.2 show some that are carried over. INFO/END becomes POS: a large deletion or
# a block of a gVCF has one base. REF agrees with the assembly, so "bcftools norm --check-ref e" lets all of it pass. VCF 4.3,
# section 1.6.1: the value of POS is the position of the first base of REF, and REF is all bases that an ALT replaces.
# CrossMap 0.7.4 (0.7.3 has the deletions right, and only them), pysam 0.24.1 (bcftools 1.24).
# Who is hurt: who brings calls from GRCh37 to GRCh38 or T2T: codon changes and delins of tumours become frameshifts, nearly
# all deletions are lost, and what is lost looks like a difference between the assemblies.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check CrossMap==0.7.4 pysam==0.24.1
cat >try.py <<'PYTHON'
import random
import subprocess

import pysam
import pysam.bcftools

random.seed(3)
old = "".join(random.choice("ACGT") for _ in range(600))
# The new assembly has 25 bases before the old one, and no other difference.
before = "".join(random.choice("ACGT") for _ in range(25))
new = before + old
for name, bases in (("old", old), ("new", new)):
    with open(f"{name}.fa", "w") as f:
        f.write(f">c\n{bases}\n")
    pysam.faidx(f"{name}.fa")
with open("old-to-new.chain", "w") as f:
    f.write("chain 1 c 600 + 0 600 c 625 + 25 625 1\n600\n\n")

other = str.maketrans("ACGT", "CGTA")


def bases(position, n):
    return old[position - 1 : position - 1 + n]


variants = [
    ("substitution", 50, bases(50, 1), bases(50, 1).translate(other), "."),
    ("insertion", 80, bases(80, 1), bases(80, 1) + "GG", "."),
    ("two bases", 110, bases(110, 2), bases(110, 2).translate(other), "."),
    ("three bases to five", 140, bases(140, 3), bases(140, 1).translate(other) + "GATC", "."),
    ("deletion", 170, bases(170, 4), bases(170, 1), "."),
    ("repeat, shorter and longer", 200, bases(200, 3), bases(200, 1) + "," + bases(200, 3) + bases(201, 2), "."),
    ("large deletion", 230, bases(230, 1), "<DEL>", "SVTYPE=DEL;END=330"),
    ("block", 400, bases(400, 1), "<*>", "END=450"),
]
header = """##fileformat=VCFv4.3
##contig=<ID=c,length=600>
##ALT=<ID=DEL,Description="deletion">
##INFO=<ID=END,Number=1,Type=Integer,Description="end">
##INFO=<ID=SVTYPE,Number=1,Type=String,Description="kind">
##FORMAT=<ID=GT,Number=1,Type=String,Description="genotype">
"""
columns = "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts\n"
with open("old.vcf", "w") as f:
    f.write(header + columns)
    for i, (_, position, ref, alt, info) in enumerate(variants):
        f.write(f"c\t{position}\t{i}\t{ref}\t{alt}\t50\tPASS\t{info}\tGT\t{'1/2' if ',' in alt else '0/1'}\n")
subprocess.run(["venv/bin/CrossMap", "vcf", "old-to-new.chain", "old.vcf", "new.fa", "new.vcf"], check=True, capture_output=True)


def rows(path):
    with open(path) as f:
        return {cells[2]: cells for cells in (line.rstrip("\n").split("\t") for line in f if line[0] != "#")}


def changed(sequence, cells):
    """The sequences with each ALT in place of REF."""
    at, ref = int(cells[1]) - 1, cells[3]
    assert sequence[at : at + len(ref)] == ref
    return [sequence[:at] + alt + sequence[at + len(ref) :] for alt in cells[4].split(",")]


given, mapped, failed = rows("old.vcf"), rows("new.vcf"), rows("new.vcf.unmap")
for i, (name, *_) in enumerate(variants):
    a = given[str(i)]
    text = f"{name}: {a[1]} {a[3]} {a[4]}{' ' + a[7] if a[7] != '.' else ''}"
    if b := mapped.get(str(i)):
        if a[4][0] == "<":
            right = [int(c[7].split("END=")[1]) for c in (a, b)]
            right = right[1] == right[0] + len(before)
        else:
            right = changed(new, b) == [before + s for s in changed(old, a)]
        print(f"{text} -> {b[1]} {b[3]} {b[4]}{' ' + b[7] if b[7] != '.' else ''} {b[9]}: {'the same change' if right else 'ANOTHER CHANGE'}")
    else:
        print(f"{text} -> unmapped, {failed[str(i)][-1]}")
checked = pysam.bcftools.norm("-f", "new.fa", "--check-ref", "e", "new.vcf")
print(f"bcftools norm --check-ref e: {sum(line[0] != '#' for line in checked.splitlines())} of {len(mapped)} records pass")
PYTHON
echo "CrossMap $(venv/bin/python -c 'from importlib.metadata import version; print(version("CrossMap"))')"
venv/bin/python try.py | tee seen
cat >expected <<'EXPECTED'
substitution: 50 A C -> 75 A C 0/1: the same change
insertion: 80 C CGG -> 105 C CGG 0/1: the same change
two bases: 110 GT TA -> 135 G GA 0/1: ANOTHER CHANGE
three bases to five: 140 CTA GGATC -> 165 C CGATC 0/1: ANOTHER CHANGE
deletion: 170 TGTT T -> unmapped, Fail(REF==ALT)
repeat, shorter and longer: 200 GCA G,GCACA -> 225 G GCACA 1/2: ANOTHER CHANGE
large deletion: 230 G <DEL> SVTYPE=DEL;END=330 -> 255 G <DEL> SVTYPE=DEL;END=255 0/1: ANOTHER CHANGE
block: 400 G <*> END=450 -> 425 G <*> END=425 0/1: ANOTHER CHANGE
bcftools norm --check-ref e: 7 of 7 records pass
EXPECTED
if ! diff expected seen; then
	echo "CrossMap behaves otherwise by now" >&2
	exit 1
fi
