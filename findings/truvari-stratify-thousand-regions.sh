#!/usr/bin/env bash
# One would guess: "truvari stratify" counts the variants that start and end within each region of a BED file, and what it counts in one
# region has nothing to do with which others are in the file: "essentially the same as running bedtools intersect -c" (its manual).
# What happens: with up to 1,000 regions, and a file of variants of up to 25 mebibytes, it asks the index for each region, and all is
# right. With more it goes through both files once, and takes each variant for the first region that hasn't ended before it, and for
# no other: where regions overlap or lie within each other, the others count less or nothing. Where they lie side by side, as bins do,
# a variant at the first two bases of a bin is in none. Of 900 genes that overlap the counts sum to 19,509, and to 482 once 200 regions
# far away are added to the file; 615 genes then have none. Regions apart are right. No warning. truvari 5.5.0, pysam 0.24.1.
# Who is hurt: who has precision and recall by genes, repeats or segmental duplications, which overlap and are thousands: most
# regions show no calls at all, and a try with some of the regions is right.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 12))' && command -v pyenv >/dev/null; then
	PYENV_VERSION=$(pyenv versions --bare | sort -V | tail -n 1)
	export PYENV_VERSION
fi
python3 -c 'import sys; sys.exit(sys.version_info < (3, 12))' || { echo "truvari 5.5.0 wants Python 3.12 or a newer one as python3" >&2; exit 2; }
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check truvari==5.5.0 pysam==0.24.1
cat >try.py <<'PYTHON'
import random
import subprocess

import pysam

chance = random.Random(1)
length = 60
variants = sorted(chance.randrange(1000, 980000) for _ in range(500)) + [990000 + 1000 * i + j for i in range(5) for j in range(5)]
with open("calls.vcf", "w") as f:
    f.write("##fileformat=VCFv4.2\n##contig=<ID=chr1,length=1200000>\n##FILTER=<ID=PASS,Description=\"All filters passed\">\n")
    for key, kind in (("END", "Integer"), ("SVTYPE", "String"), ("SVLEN", "Integer")):
        f.write(f'##INFO=<ID={key},Number=1,Type={kind},Description="{key}">\n')
    f.write('##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\tsample\n')
    for start in variants:
        f.write(f"chr1\t{start + 1}\t.\tN\t<DEL>\t30\tPASS\tSVTYPE=DEL;SVLEN=-{length};END={start + 1 + length}\tGT\t0/1\n")
pysam.tabix_index("calls.vcf", preset="vcf", force=True)


def stratify(regions):
    with open("regions.bed", "w") as f:
        f.writelines(f"chr1\t{a}\t{b}\n" for a, b in regions)
    subprocess.run(["venv/bin/truvari", "stratify", "regions.bed", "calls.vcf.gz", "-o", "counts"], check=True, stderr=subprocess.DEVNULL)
    return [int(line.split("\t")[-1]) for line in open("counts")]


def see(title, regions, others):
    """Counts in the regions alone, and with others in the file that have no variant."""
    by_hand = [sum(a <= s and s + 1 + length <= b for s in variants) for a, b in regions]
    alone, beside = stratify(regions), stratify(regions + others)[: len(regions)]
    print(f"{title}: {len(regions)} regions, {sum(by_hand)} by hand")
    for name, counts in (("alone", alone), (f"with {len(others)} more", beside)):
        print(f"  {name}: {sum(counts)}, {sum(a != b for a, b in zip(counts, by_hand))} of {len(regions)} counts otherwise, {sum(a == 0 < b for a, b in zip(counts, by_hand))} none instead of some")


empty = [(1100000 + 10 * i, 1100005 + 10 * i) for i in range(200)]
genes = sorted((a, a + chance.choice([2000, 20000, 100000])) for a in chance.sample(range(880000), 900))
see("genes that overlap", genes, empty)
apart = [(1000 * i, 1000 * i + 900) for i in range(900)]
see("regions apart", apart, empty)
bins = [(1000 * i, 1000 * i + 1000) for i in range(120, 1000)]
see("bins side by side", bins, empty)
within = [(1000, 980000), *((10000 * i, 10000 * i + 5000) for i in range(1, 90))]
see("regions within a long one", within, [(1100000 + 10 * i, 1100005 + 10 * i) for i in range(1000)])
PYTHON
venv/bin/python -c 'from importlib.metadata import version; print("truvari", version("truvari"), "pysam", version("pysam"))'
venv/bin/python try.py 2>&1 | tee seen
cat >expected <<'EXPECTED'
genes that overlap: 900 regions, 19509 by hand
  alone: 19509, 0 of 900 counts otherwise, 0 none instead of some
  with 200 more: 482, 801 of 900 counts otherwise, 615 none instead of some
regions apart: 900 regions, 379 by hand
  alone: 379, 0 of 900 counts otherwise, 0 none instead of some
  with 200 more: 379, 0 of 900 counts otherwise, 0 none instead of some
bins side by side: 880 regions, 438 by hand
  alone: 438, 0 of 880 counts otherwise, 0 none instead of some
  with 200 more: 427, 6 of 880 counts otherwise, 1 none instead of some
regions within a long one: 90 regions, 726 by hand
  alone: 726, 0 of 90 counts otherwise, 0 none instead of some
  with 1000 more: 500, 85 of 90 counts otherwise, 85 none instead of some
EXPECTED
if ! diff expected seen; then
	echo "truvari behaves otherwise by now" >&2
	exit 1
fi
