#!/usr/bin/env bash
# One would guess: "samtools fixmate -M" brings the modified bases of a hard-clipped alignment to the bases that are left, with the
# primary alignment's sequence as its guide (manual of fixmate, -M), whichever strand the read lies on.
# What happens: to know how many calls to leave out it counts the bases of the primary's SEQ from the left. Where the primary lies
# on the reverse strand, SEQ is the complement of the read from its other end, and MM counts along the read (SAM's optional fields,
# section 1.7, of MM: in the orientation of the read as it came from the instrument, independent of the alignment's). So too many
# or too few calls are left out: other bases are modified than before, and probabilities move from base to base. Where the calls
# no longer fit, MM and ML are gone. Each record whose tags stay gets MN, which says that they were checked: all readers take them.
# With the primary on the forward strand all is right. pysam 0.24.1 (samtools 1.24).
# Who is hurt: who maps nanopore reads by minimap2, which cuts the sequence of supplementary alignments and copies their tags: of
# about every second read methylation at breakpoints, in repeats and of chimeric reads lies elsewhere afterwards, in silence.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pysam==0.24.1
cat >try.py <<'PYTHON'
import array
import collections
import random

import pysam
import pysam.samtools

random.seed(1)
header = pysam.AlignmentHeader.from_dict({"HD": {"VN": "1.6", "SO": "queryname"}, "SQ": [{"SN": "c", "LN": 20000}]})
opposite = str.maketrans("ACGT", "TGCA")
bases = 80


def tags(read, calls):
    """MM and ML of the calls, by position in the read as it came from the instrument."""
    skipped, steps, probabilities = 0, "", []
    for i, base in enumerate(read):
        if i in calls:
            steps, skipped = f"{steps},{skipped}", 0
            probabilities.append(calls[i])
        elif base == "C":
            skipped += 1
    return f"C+m?{steps};", array.array("B", probabilities)


def calls_of(record):
    """The calls by htslib's own reading of the tags."""
    return {i: p for kind, found in record.modified_bases_forward.items() for i, p in found}


def alignment(name, read, calls, reverse, clipped=None):
    record = pysam.AlignedSegment(header)
    record.query_name, record.reference_id, record.mapping_quality = name, 0, 60
    record.reference_start = 9000 if clipped else 1000
    record.flag = 16 * reverse + 2048 * (clipped is not None)
    first, last = clipped or (0, 0)
    kept = read[first : len(read) - last]
    record.query_sequence = kept[::-1].translate(opposite) if reverse else kept
    ends = (last, first) if reverse else (first, last)
    record.cigarstring = f"{ends[0]}H{len(kept)}M{ends[1]}H" if clipped else f"{len(read)}M"
    for tag, value in zip(("MM", "ML"), tags(read, calls)):
        record.set_tag(tag, value)
    return record


expected = {}
with pysam.AlignmentFile("mapped.bam", "wb", header=header) as out:
    # The first pair can be followed by eye: the three bases that are cut at the read's beginning hold its first C.
    eye = "AACAAAAAAACGGGACAAACAAAAAAAAAA"
    reads = [("eye", eye, {2: 10, 10: 20}, 1, 1, (3, 3))]
    for primary in (0, 1):
        for supplementary in (0, 1):
            for i in range(200):
                read = "".join(random.choice("ACGT") for _ in range(bases))
                calls = {j: random.randrange(256) for j in range(bases) if read[j] == "C" and random.random() < 0.8}
                cut = (random.randint(5, 25), random.randint(5, 25))
                reads.append((f"{primary}-{supplementary}-{i}", read, calls, primary, supplementary, cut))
    for name, read, calls, primary, supplementary, cut in reads:
        out.write(alignment(name, read, calls, primary))
        out.write(alignment(name, read, calls, supplementary, cut))
        expected[name] = {j - cut[0]: p for j, p in calls.items() if cut[0] <= j < len(read) - cut[1]}
pysam.samtools.fixmate("-M", "mapped.bam", "fixed.bam")
counted = {f"{p}-{s}": collections.Counter() for p in (0, 1) for s in (0, 1)}
with pysam.AlignmentFile("fixed.bam") as fixed:
    for record in fixed:
        name, told = record.query_name, record.has_tag("MM")
        if name == "eye":
            kind = "supplementary" if record.is_supplementary else "primary"
            print(f"{kind} {record.cigarstring}: {record.get_forward_sequence()} {record.get_tag('MM')} {list(record.get_tag('ML'))} MN {record.get_tag('MN')}")
            if record.is_supplementary:
                print(f"by hand {tags(record.get_forward_sequence(), expected[name])[0]} {list(expected[name].values())}")
        elif record.is_supplementary:
            if told:
                assert record.get_tag("MN") == record.query_length
            verdict = "right" if told and calls_of(record) == expected[name] else "other bases" if told else "no tags"
            counted[name[:3]][verdict] += 1
        else:
            assert told
for strands, counts in counted.items():
    primary, supplementary = ("reverse" if s == "1" else "forward" for s in strands.split("-"))
    shown = ", ".join(f"{verdict} {n}" for verdict, n in sorted(counts.items()))
    print(f"primary {primary}, supplementary {supplementary}: {shown}")
PYTHON
echo "pysam $(venv/bin/python -c 'import pysam; print(pysam.__version__)'), samtools $(venv/bin/python -c 'from pysam import version; print(version.__samtools_version__)')"
venv/bin/python try.py | tee seen
cat >expected <<'EXPECTED'
primary 30M: AACAAAAAAACGGGACAAACAAAAAAAAAA C+m?,0,0; [10, 20] MN 30
supplementary 3H24M3H: AAAAAAACGGGACAAACAAAAAAA C+m?,0,0; [10, 20] MN 24
by hand C+m?,0; [20]
primary forward, supplementary forward: right 200
primary forward, supplementary reverse: right 200
primary reverse, supplementary forward: no tags 66, other bases 125, right 9
primary reverse, supplementary reverse: no tags 72, other bases 119, right 9
EXPECTED
if ! diff expected seen; then
	echo "samtools fixmate behaves otherwise by now" >&2
	exit 1
fi
