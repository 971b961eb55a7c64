#!/usr/bin/env bash
# One would guess: the Go library biogo/hts reads and writes alignments of any length, or returns an error where it can't. BAM counts
# an alignment's operations in 16 bits; one with more has the tag CG for them and, in their place, a clip of all bases and a skip of
# all that is spanned, and a library is expected to put the operations back and take the tag away (SAM's specification, section 4.2.2).
# What happens: the reader hands out the clip and the skip: a read that is aligned over its whole length has no aligned base, and
# Start, End and the check of the CIGAR against the sequence are content. Written as SAM it stays so. The writer, given a CIGAR of
# 70,001 operations, keeps the number's lowest 16 bits, 4,465, and writes all of them without CG: Write and Close return no error,
# and in that file the record, and all behind it, can be read by nobody. With 65,535 operations all is right.
# github.com/biogo/hts 1.4.5, pysam 0.24.1.
# Who is hurt: who counts depth, mismatches or modified bases of ultra-long reads and assembled contigs by programs in Go: the
# longest alignments count as a gap, where a skip is passed over, or as a deletion.
set -euo pipefail
command -v go >/dev/null || { echo "$0: go is missing (https://go.dev/dl)" >&2; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pysam==0.24.1
cat >make.py <<'PYTHON'
import pysam

# Matches of 3 bases with a deleted one between them, and one match at the end.
header = pysam.AlignmentHeader.from_dict({"HD": {"VN": "1.6"}, "SQ": [{"SN": "c", "LN": 1000000}]})
for name, mode in (("long.bam", "wb"), ("long.sam", "w")):
    with pysam.AlignmentFile(name, mode, header=header) as out:
        for operations in (65535, 70001, 5):
            r = pysam.AlignedSegment(header)
            r.query_name = f"read{operations}"
            r.query_sequence = "ACG" * (operations // 2) + "ACGTA"
            r.flag, r.reference_id, r.reference_start, r.mapping_quality = 0, 0, 100, 60
            r.cigartuples = [(pysam.CMATCH, 3), (pysam.CDEL, 1)] * (operations // 2) + [(pysam.CMATCH, 5)]
            out.write(r)
PYTHON
cat >show.py <<'PYTHON'
import sys

import pysam

try:
    with pysam.AlignmentFile(sys.argv[1]) as reads:
        for r in reads:
            print(f"pysam of {sys.argv[1]}: {r.query_name} has {len(r.cigartuples)} operations, {r.get_cigar_stats()[0][0]} aligned bases")
except OSError:
    print(f"pysam of {sys.argv[1]}: what follows can't be read")
PYTHON
cat >try.go <<'GO'
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/biogo/hts/bam"
	"github.com/biogo/hts/sam"
)

func try(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	in, err := os.Open("long.bam")
	try(err)
	read, err := bam.NewReader(in, 1)
	try(err)
	text, err := os.Create("copy.sam")
	try(err)
	copied, err := sam.NewWriter(text, read.Header(), sam.FlagDecimal)
	try(err)
	for {
		r, err := read.Read()
		if err == io.EOF {
			break
		}
		try(err)
		aligned := 0
		for _, c := range r.Cigar {
			if c.Type() == sam.CigarMatch {
				aligned += c.Len()
			}
		}
		_, tagged := r.Tag([]byte("CG"))
		fmt.Printf("biogo/hts of long.bam: %s has %d operations, %d aligned bases, spans %d, valid %v, CG left %v\n",
			r.Name, len(r.Cigar), aligned, r.End()-r.Start(), r.Cigar.IsValid(r.Seq.Length), tagged)
		try(copied.Write(r))
	}
	try(text.Close())

	in, err = os.Open("long.sam")
	try(err)
	lines, err := sam.NewReader(in)
	try(err)
	out, err := os.Create("written.bam")
	try(err)
	write, err := bam.NewWriter(out, lines.Header(), 1)
	try(err)
	for {
		r, err := lines.Read()
		if err == io.EOF {
			break
		}
		try(err)
		fmt.Printf("biogo/hts of long.sam: %s has %d operations, Write returns %v\n", r.Name, len(r.Cigar), write.Write(r))
	}
	fmt.Printf("Close returns %v\n", write.Close())
	try(out.Close())
}
GO
cat >go.mod <<'MOD'
module finding

go 1.21

require github.com/biogo/hts v1.4.5
MOD
go build -mod=mod -o try . 2>build || { cat build >&2; exit 1; }
venv/bin/python make.py
{
	venv/bin/python show.py long.bam
	./try
	cut -f 1,6 copy.sam | grep read70001
	venv/bin/python show.py written.bam 2>/dev/null
} | tee seen
cat >expected <<'EXPECTED'
pysam of long.bam: read65535 has 65535 operations, 98306 aligned bases
pysam of long.bam: read70001 has 70001 operations, 105005 aligned bases
pysam of long.bam: read5 has 5 operations, 11 aligned bases
biogo/hts of long.bam: read65535 has 65535 operations, 98306 aligned bases, spans 131073, valid true, CG left false
biogo/hts of long.bam: read70001 has 2 operations, 0 aligned bases, spans 140005, valid true, CG left true
biogo/hts of long.bam: read5 has 5 operations, 11 aligned bases, spans 13, valid true, CG left false
biogo/hts of long.sam: read65535 has 65535 operations, Write returns <nil>
biogo/hts of long.sam: read70001 has 70001 operations, Write returns <nil>
biogo/hts of long.sam: read5 has 5 operations, Write returns <nil>
Close returns <nil>
read70001	105005S140005N
pysam of written.bam: read65535 has 65535 operations, 98306 aligned bases
pysam of written.bam: what follows can't be read
EXPECTED
if ! diff expected seen; then
	echo "biogo/hts behaves otherwise by now" >&2
	exit 1
fi
