#!/usr/bin/env bash
# One would guess: "truvari anno gcpct" gives each variant "the GC percent of the call's sequence" (its manual), with any reference: lower
# case in a FASTA file marks repeats (soft masking), and doesn't change which base it is.
# What happens: it counts capital G and C and divides by all bases, so masked bases count as A and T: of deletions over repeats GCPCT is
# 0, of those half over them about a half of what it is, and of the same deletions and the same genome in capitals it is right. An
# inserted sequence in lower case, as an assembly's caller may write it, has 0 as well. No warning. truvari 5.5.0, pysam 0.24.1.
# Who is hurt: who looks for what GC does to calls with a genome as UCSC or Ensembl hands it out, half of which is masked: GCPCT
# tells how much of a call is a repeat, and filters and models of GC learn that in its place.
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
import collections
import random
import subprocess

import pysam

chance = random.Random(1)

# A chromosome of which each second stretch of 2,000 bases is a repeat, once in capitals and once with the repeats in lower case.
plain = "".join(chance.choices("ACGT", weights=[3, 2, 2, 3], k=400000))
masked = "".join(plain[i : i + 2000].lower() if i % 4000 else plain[i : i + 2000] for i in range(0, 400000, 2000))
for name, bases in (("plain.fa", plain), ("masked.fa", masked)):
    with open(name, "w") as f:
        f.write(">chr1\n" + "".join(bases[i : i + 60] + "\n" for i in range(0, len(bases), 60)))
    pysam.faidx(name)

calls = []
for i in range(0, 400000, 4000):
    calls.append((i + 500, 600, "", "deletion beside a repeat"))
    calls.append((i + 1700, 600, "", "deletion half over a repeat"))
    calls.append((i + 2600, 600, "", "deletion over a repeat"))
    novel = "".join(chance.choices("ACGT", weights=[3, 2, 2, 3], k=300))
    calls.append((i + 3300, 0, novel, "insertion in capitals"))
    calls.append((i + 3600, 0, novel.lower(), "insertion in lower case"))
with open("calls.vcf", "w") as f:
    f.write('##fileformat=VCFv4.2\n##contig=<ID=chr1,length=400000>\n##FILTER=<ID=PASS,Description="All filters passed">\n')
    f.write('##INFO=<ID=KIND,Number=1,Type=String,Description="Kind">\n##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">\n')
    f.write("#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\tsample\n")
    for start, length, novel, kind in calls:
        f.write(f"chr1\t{start + 1}\t.\t{plain[start:start + 1 + length]}\t{plain[start]}{novel}\t30\tPASS\tKIND={kind.replace(' ', '_')}\tGT\t0/1\n")


def share(bases):
    return 100 * (bases.upper().count("G") + bases.upper().count("C")) / len(bases)


for name in ("plain.fa", "masked.fa"):
    out = subprocess.run(["venv/bin/truvari", "anno", "gcpct", "-r", name, "calls.vcf"], check=True, capture_output=True, text=True).stdout
    lines = [line.split("\t") for line in out.splitlines() if not line.startswith("#")]
    assert len(lines) == len(calls)
    off, all_, sums = collections.Counter(), collections.Counter(), collections.Counter()
    for line, (start, length, novel, kind) in zip(lines, calls):
        gc = int(dict(item.split("=") for item in line[7].split(";"))["GCPCT"])
        bases = novel or plain[start + 1 : start + 1 + length]
        all_[kind] += 1
        sums[kind, "seen"] += gc
        sums[kind, "by hand"] += share(bases)
        # Whole percent, with the base before the event or without it: two percent are all that may come of that.
        off[kind] += abs(gc - share(bases)) > 2
    for kind, n in all_.items():
        print(f"{name}, {kind}: {n - off[kind]} of {n} right, mean {sums[kind, 'seen'] / n:.1f}, by hand {sums[kind, 'by hand'] / n:.1f}")
PYTHON
venv/bin/python -c 'from importlib.metadata import version; print("truvari", version("truvari"), "pysam", version("pysam"))'
venv/bin/python try.py 2>&1 | tee seen
cat >expected <<'EXPECTED'
plain.fa, deletion beside a repeat: 100 of 100 right, mean 39.2, by hand 39.8
plain.fa, deletion half over a repeat: 100 of 100 right, mean 39.4, by hand 39.8
plain.fa, deletion over a repeat: 100 of 100 right, mean 39.5, by hand 40.0
plain.fa, insertion in capitals: 100 of 100 right, mean 39.8, by hand 40.4
plain.fa, insertion in lower case: 0 of 100 right, mean 0.0, by hand 40.4
masked.fa, deletion beside a repeat: 100 of 100 right, mean 39.2, by hand 39.8
masked.fa, deletion half over a repeat: 0 of 100 right, mean 19.4, by hand 39.8
masked.fa, deletion over a repeat: 0 of 100 right, mean 0.0, by hand 40.0
masked.fa, insertion in capitals: 100 of 100 right, mean 39.8, by hand 40.4
masked.fa, insertion in lower case: 0 of 100 right, mean 0.0, by hand 40.4
EXPECTED
if ! diff expected seen; then
	echo "truvari behaves otherwise by now" >&2
	exit 1
fi
