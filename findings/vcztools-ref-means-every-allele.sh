#!/usr/bin/env bash
# One would guess: vcztools, which says of itself that it stands in for bcftools view and query on VCF Zarr, selects with REF
# and ALT what bcftools selects, or refuses an expression that it doesn't know, as it does for GT="het" or INFO/AF[0].
# What happens: in an expression REF and ALT both stand for all alleles of the site, the reference's among them. REF="C" also
# selects sites where C is an alternate allele, ALT="C" those where it is the reference, and REF!="C" and ALT!="C" select
# every site that has another allele too. REF="C" & ALT="T" asks for one allele that is both, and selects nothing. What query
# prints for %REF and %ALT is right, and the exit status is 0. VCF 4.3, section 1.6.1: REF is field 4 and ALT is field 5;
# bcftools' manual has both as columns in its section on expressions. vcztools 0.2.0, bio2zarr 0.2.1, pysam 0.24.1
# (bcftools 1.24).
# Who is hurt: who selects or removes changes by their kind: C to T of deamination and APOBEC, A to G of editing, sites of
# methylated cytosines. The changes of the other direction come with them, or nothing is found, which looks like a clean sample.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check vcztools==0.2.0 bio2zarr==0.2.1 cyvcf2==0.34.0 pysam==0.24.1
cat >try.py <<'PYTHON'
import subprocess

import pysam
import pysam.bcftools

sites = [("A", "G"), ("C", "T"), ("C", "A"), ("G", "A"), ("T", "C"), ("T", "A"), ("C", "G,T"), ("T", "G,C")]
with open("sites.vcf", "w") as f:
    f.write('##fileformat=VCFv4.3\n##contig=<ID=c,length=1000>\n##FORMAT=<ID=GT,Number=1,Type=String,Description="genotype">\n')
    f.write("#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts\n")
    for i, (ref, alt) in enumerate(sites):
        f.write(f"c\t{10 * i + 10}\t.\t{ref}\t{alt}\t50\tPASS\t.\tGT\t0/1\n")
pysam.tabix_index("sites.vcf", preset="vcf", force=True, keep_original=True)
subprocess.run(["venv/bin/vcf2zarr", "convert", "--no-progress", "sites.vcf.gz", "sites.vcz"], check=True, capture_output=True)


def changes(lines):
    return " ".join(line.strip() for line in lines.splitlines() if line.strip()) or "none"


for expression, holds in (
    ('REF="C"', lambda ref, alts: ref == "C"),
    ('REF!="C"', lambda ref, alts: ref != "C"),
    ('ALT="C"', lambda ref, alts: "C" in alts),
    ('REF="C" & ALT="T"', lambda ref, alts: ref == "C" and "T" in alts),
    ('QUAL>20 & REF="C"', lambda ref, alts: ref == "C"),
):
    by_hand = " ".join(f"{ref}>{alt}" for ref, alt in sites if holds(ref, alt.split(",")))
    arguments = ["-f", "%REF>%ALT\\n", "-i", expression]
    bcftools = changes(pysam.bcftools.query(*arguments, "sites.vcf.gz"))
    vcztools = changes(subprocess.run(["venv/bin/vcztools", "query", *arguments, "sites.vcz"], check=True, capture_output=True, text=True).stdout)
    print(f"{expression}: by hand {by_hand}; bcftools {bcftools}; vcztools {vcztools}")
PYTHON
echo "vcztools $(venv/bin/python -c 'from importlib.metadata import version; print(version("vcztools"))')"
venv/bin/python try.py 2>/dev/null | tee seen
cat >expected <<'EXPECTED'
REF="C": by hand C>T C>A C>G,T; bcftools C>T C>A C>G,T; vcztools C>T C>A T>C C>G,T T>G,C
REF!="C": by hand A>G G>A T>C T>A T>G,C; bcftools A>G G>A T>C T>A T>G,C; vcztools A>G C>T C>A G>A T>C T>A C>G,T T>G,C
ALT="C": by hand T>C T>G,C; bcftools T>C T>G,C; vcztools C>T C>A T>C C>G,T T>G,C
REF="C" & ALT="T": by hand C>T C>G,T; bcftools C>T C>G,T; vcztools none
QUAL>20 & REF="C": by hand C>T C>A C>G,T; bcftools C>T C>A C>G,T; vcztools C>T C>A T>C C>G,T T>G,C
EXPECTED
if ! diff expected seen; then
	echo "vcztools behaves otherwise by now" >&2
	exit 1
fi
