#!/usr/bin/env bash
# One would guess: "whatshap haplotagphase" leaves variants within homopolymers longer than --cut-poly without a phase, 10 bases
# if nothing is said, as the option's help has it.
# What happens: it leaves none. It stops counting a run's bases at the very length above which it would leave the variant, so no
# run is ever longer: every value gives the records that --cut-poly 0 gives, which asks for no such filter. Without a word.
# WhatsHap 2.8, pysam 0.24.1.
# Who is hurt: who phases calls of nanopore reads, whose lengths of long runs are noise, and for whose insertions and deletions
# the command was made: chance agreement gets a phase and a phase set like any other, and counts as a switch error or as a
# second hit on a haplotype afterwards. A stricter value looks tried, and changes nothing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check whatshap==2.8 pysam==0.24.1
cat >try.py <<'PYTHON'
import random
import subprocess

import pysam

random.seed(1)


def letters(n, without=""):
    return "".join(random.choice([c for c in "ACGT" if c not in without]) for _ in range(n))


# Runs of A behind a C and before a G. Of the first ones haplotype 2 lacks one A. Of the other 100, each of 15 bases, no haplotype
# lacks any, and each read does by the toss of a coin, as where a basecaller can't tell how long a run is.
runs = [(n, True) for n in (2, 4, 8, 10, 11, 12, 15, 20, 30)] + [(15, False)] * 100
reference, places = letters(100), []
for n, real in runs:
    places.append((len(reference), n, real))
    reference += "C" + "A" * n + "G" + letters(100, "A") + letters(100)
with open("ref.fa", "w") as f:
    f.write(f">c\n{reference}\n")
pysam.faidx("ref.fa")

with open("calls.vcf", "w") as f:
    f.write(f"##fileformat=VCFv4.2\n##contig=<ID=c,length={len(reference)}>\n")
    f.write('##FORMAT=<ID=GT,Number=1,Type=String,Description="genotype">\n')
    f.write("#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts\n")
    for at, _, _ in places:
        f.write(f"c\t{at + 1}\t.\tCA\tC\t50\tPASS\t.\tGT\t0/1\n")
pysam.tabix_index("calls.vcf", preset="vcf", force=True)

header = {"HD": {"VN": "1.6", "SO": "coordinate"}, "SQ": [{"SN": "c", "LN": len(reference)}], "RG": [{"ID": "r", "SM": "s"}]}
with pysam.AlignmentFile("reads.bam", "wb", header=header) as out:
    for haplotype in (1, 2):
        for i in range(6):
            read, cigar, start = "", [], 0
            for at, _, real in places:
                if haplotype == 2 if real else random.random() < 0.5:
                    read += reference[start : at + 1]
                    cigar += [(pysam.CMATCH, at + 1 - start), (pysam.CDEL, 1)]
                    start = at + 2
            read += reference[start:]
            cigar.append((pysam.CMATCH, len(reference) - start))
            r = pysam.AlignedSegment(out.header)
            r.query_name, r.query_sequence, r.cigartuples = f"{haplotype}.{i}", read, cigar
            r.reference_id, r.reference_start, r.mapping_quality, r.flag = 0, 0, 60, 0
            r.query_qualities = pysam.qualitystring_to_array("I" * len(read))
            r.set_tag("RG", "r")
            r.set_tag("HP", haplotype)
            r.set_tag("PS", 1)
            out.write(r)
pysam.index("reads.bam")


def phased(*options):
    """For each place whether the command gives a phase."""
    command = ["venv/bin/whatshap", "haplotagphase", "--reference", "ref.fa", "-o", "phased.vcf", *options, "calls.vcf.gz", "reads.bam"]
    subprocess.run(command, check=True, capture_output=True)
    with pysam.VariantFile("phased.vcf") as vcf:
        return [r.samples[0].phased for r in vcf]


def told(given):
    lengths = [n for (_, n, real), yes in zip(places, given) if real and yes]
    noise = sum(yes for (_, _, real), yes in zip(places, given) if yes and not real)
    return f"runs of {' '.join(map(str, lengths))}, and {noise} of 100 that are noise"


unfiltered = phased("--cut-poly", "0")
print(f"no filter: {told(unfiltered)}")
for cut in (None, 3, 10, 20):
    options, cut = (["--cut-poly", str(cut)], cut) if cut else ([], 10)
    expected = [yes and n <= cut for (_, n, _), yes in zip(places, unfiltered)]
    print(f"{' '.join(options) or 'by default'}: by the help {told(expected)}; whatshap {told(phased(*options))}")
PYTHON
echo "WhatsHap $(venv/bin/python -c 'from importlib.metadata import version; print(version("whatshap"))')"
venv/bin/python try.py | tee seen
cat >expected <<'EXPECTED'
no filter: runs of 2 4 8 10 11 12 15 20 30, and 15 of 100 that are noise
by default: by the help runs of 2 4 8 10, and 0 of 100 that are noise; whatshap runs of 2 4 8 10 11 12 15 20 30, and 15 of 100 that are noise
--cut-poly 3: by the help runs of 2, and 0 of 100 that are noise; whatshap runs of 2 4 8 10 11 12 15 20 30, and 15 of 100 that are noise
--cut-poly 10: by the help runs of 2 4 8 10, and 0 of 100 that are noise; whatshap runs of 2 4 8 10 11 12 15 20 30, and 15 of 100 that are noise
--cut-poly 20: by the help runs of 2 4 8 10 11 12 15 20, and 15 of 100 that are noise; whatshap runs of 2 4 8 10 11 12 15 20 30, and 15 of 100 that are noise
EXPECTED
if ! diff expected seen; then
	echo "WhatsHap behaves otherwise by now" >&2
	exit 1
fi
