#!/usr/bin/env bash
# One would guess: Cutadapt trims the same with the index that it makes by itself of two or more anchored adapters as without
# (--no-index); the guide has the index as a matter of speed. Of a read that is an adapter and nothing else nothing is left,
# and a read whose adapter is masked stays as long as it was.
# What happens: it looks up the read's last (or first) bases in the index, its longest entries first, and takes the length it asked
# for as that of what it found. A shorter read gives all it has; if that is an adapter, more bases count as matched than the read
# has. At the 3' end the start is then negative, and counts from the read's end: of a primer of 20 bases 18 stay, by the usual
# error rate, as 2 errors make entries of 22. -m 1 keeps such reads, and --info-file has the negative start.
# --action=mask, at either end, writes more bases than qualities: FASTQ that readers refuse. Exit status 0, no warning; adapters
# of one length with no errors allowed are right. cutadapt 5.2, pysam 0.24.1.
# Who is hurt: who trims a set of primers or barcodes from amplicons, small RNA or cDNA: dimers, which the command is to clear away,
# come out as short reads of pure primer, hardly trimmed, under that primer's name, and are counted, clustered and mapped.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check cutadapt==5.2 pysam==0.24.1
cat >try.py <<'PYTHON'
import collections
import json
import random
import subprocess

import pysam

chance = random.Random(1)
sequence = lambda length: "".join(chance.choices("ACGT", k=length))


def run(reads, *options):
    """Bases and qualities of each read that was written, how many were too short, and where adapters begin."""
    with open("in.fastq", "w") as f:
        f.writelines(f"@{i}\n{read}\n+\n{'I' * len(read)}\n" for i, read in enumerate(reads))
    command = ["venv/bin/cutadapt", "--quiet", "--json", "report.json", "--info-file", "info.tsv", "-o", "out.fastq"]
    done = subprocess.run([*command, *options, "in.fastq"], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    with open("out.fastq") as f:
        lines = f.read().split("\n")
    with open("report.json") as f:
        report = json.load(f)
    with open("info.tsv") as f:
        starts = [int(line.split("\t")[2]) for line in f if line.split("\t")[1] != "-1"]
    return dict(zip(map(int, (l[1:] for l in lines[0:-1:4])), zip(lines[1::4], lines[3::4]))), report["read_counts"]["filtered"]["too_short"], starts


def readable():
    try:
        with pysam.FastxFile("out.fastq") as f:
            return f"pysam reads {sum(1 for _ in f)}"
    except ValueError as error:
        return f"pysam: {error}"


# Adapters as primers are: two lengths; and two of one length. A third of the reads are an adapter alone.
unlike = [sequence(20), sequence(24)]
alike = [sequence(20), sequence(20)]
for title, adapters, errors in (
    ("20 and 24 bases, no errors", unlike, "0"),
    ("20 and 20 bases, no errors", alike, "0"),
    ("20 and 20 bases, usual errors", alike, "0.1"),
):
    inserts = [sequence(chance.randrange(30, 60)) if i % 3 else "" for i in range(300)]
    for end, anchored in (("3'", [x for a in adapters for x in ("-a", a + "$")]), ("5'", [x for a in adapters for x in ("-g", "^" + a)])):
        reads = [insert + adapters[i % 2] if end == "3'" else adapters[i % 2] + insert for i, insert in enumerate(inserts)]
        print(f"{title}, at the {end} end: {len(reads)} reads, {inserts.count('')} of them an adapter alone")
        for index in ([], ["--no-index"]):
            options = ["-e", errors, *index, *anchored]
            name = "without index" if index else "with index"
            out, _, starts = run(reads, *options)
            rest = collections.Counter(len(out[i][0]) - len(inserts[i]) for i in out if out[i][0] != inserts[i])
            by_length = ", ".join(f"{n} with {length} bases of the adapter" for length, n in sorted(rest.items())) or "all right"
            print(f"  {name}, trimmed: {by_length}; least start of an adapter {min(starts)}")
            out, short, _ = run(reads, "-m", "1", *options)
            print(f"    -m 1: {len(out)} reads stay, {short} too short")
            out, _, _ = run(reads, "--action", "mask", *options)
            unequal = sum(len(bases) != len(qualities) for bases, qualities in out.values())
            print(f"    --action=mask: {unequal} records with more bases than qualities; {readable()}")
PYTHON
echo "cutadapt $(venv/bin/cutadapt --version)"
venv/bin/python try.py | tee seen
cat >expected <<'EXPECTED'
20 and 24 bases, no errors, at the 3' end: 300 reads, 100 of them an adapter alone
  with index, trimmed: 50 with 16 bases of the adapter; least start of an adapter -4
    -m 1: 250 reads stay, 50 too short
    --action=mask: 50 records with more bases than qualities; pysam: truncated quality string in out.fastq
  without index, trimmed: all right; least start of an adapter 0
    -m 1: 200 reads stay, 100 too short
    --action=mask: 0 records with more bases than qualities; pysam reads 300
20 and 24 bases, no errors, at the 5' end: 300 reads, 100 of them an adapter alone
  with index, trimmed: all right; least start of an adapter 0
    -m 1: 200 reads stay, 100 too short
    --action=mask: 50 records with more bases than qualities; pysam: truncated quality string in out.fastq
  without index, trimmed: all right; least start of an adapter 0
    -m 1: 200 reads stay, 100 too short
    --action=mask: 0 records with more bases than qualities; pysam reads 300
20 and 20 bases, no errors, at the 3' end: 300 reads, 100 of them an adapter alone
  with index, trimmed: all right; least start of an adapter 0
    -m 1: 200 reads stay, 100 too short
    --action=mask: 0 records with more bases than qualities; pysam reads 300
  without index, trimmed: all right; least start of an adapter 0
    -m 1: 200 reads stay, 100 too short
    --action=mask: 0 records with more bases than qualities; pysam reads 300
20 and 20 bases, no errors, at the 5' end: 300 reads, 100 of them an adapter alone
  with index, trimmed: all right; least start of an adapter 0
    -m 1: 200 reads stay, 100 too short
    --action=mask: 0 records with more bases than qualities; pysam reads 300
  without index, trimmed: all right; least start of an adapter 0
    -m 1: 200 reads stay, 100 too short
    --action=mask: 0 records with more bases than qualities; pysam reads 300
20 and 20 bases, usual errors, at the 3' end: 300 reads, 100 of them an adapter alone
  with index, trimmed: 100 with 18 bases of the adapter; least start of an adapter -2
    -m 1: 300 reads stay, 0 too short
    --action=mask: 100 records with more bases than qualities; pysam: truncated quality string in out.fastq
  without index, trimmed: all right; least start of an adapter 0
    -m 1: 200 reads stay, 100 too short
    --action=mask: 0 records with more bases than qualities; pysam reads 300
20 and 20 bases, usual errors, at the 5' end: 300 reads, 100 of them an adapter alone
  with index, trimmed: all right; least start of an adapter 0
    -m 1: 200 reads stay, 100 too short
    --action=mask: 100 records with more bases than qualities; pysam: truncated quality string in out.fastq
  without index, trimmed: all right; least start of an adapter 0
    -m 1: 200 reads stay, 100 too short
    --action=mask: 0 records with more bases than qualities; pysam reads 300
EXPECTED
if ! diff expected seen; then
	echo "cutadapt behaves otherwise by now" >&2
	exit 1
fi
