package pileup

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/biogo/hts/sam"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/testenv"
)

// BenchmarkPile has reads of 10 kb at 30x become lines of bedMethyl, without reading a file. A call is what a read says of
// one modification of one base: reads with 5mC and 5hmC at every CpG have two for each.
func BenchmarkPile(b *testing.B) {
	for _, tt := range []struct {
		name  string
		every int // bases from one CpG to the next
		heads []string
		motif string // at which reads are called; empty: at every C
	}{
		{"CpG-of-human", 100, []string{"C+h?", "C+m?"}, "CG"},
		{"CpG-of-bacteria", 14, []string{"C+h?", "C+m?"}, "CG"},
		{"every-C-and-A", 14, []string{"C+m.", "A+a."}, ""},
	} {
		b.Run(tt.name, func(b *testing.B) {
			records, calls := benchReads(b, tt.every, tt.heads, tt.motif)
			b.ReportAllocs()
			before := testenv.ProcessorTime(b)
			for b.Loop() {
				c := Calls{Thresholds: Thresholds{300, 300, 300, 300}}
				var line []byte
				rows := 0
				pile := NewPile(Config{Groups: 1, Spans: [][2]int{{0, benchGenome}}}, func(r *Row) error {
					line = AppendBED(line[:0], "chr1", r, nil)
					rows++
					return nil
				})
				for _, rec := range records {
					read, _, err := c.Read(rec, 0)
					require.NoError(b, err)
					require.NoError(b, pile.Add(read))
				}
				require.NoError(b, pile.Finish())
				require.NotZero(b, rows)
			}
			// Of the processors' time, which others on the machine don't change.
			b.ReportMetric(float64(calls)*float64(b.N)/(testenv.ProcessorTime(b)-before).Seconds()/1e6, "Mcalls/cpu-s")
		})
	}
}

const benchGenome = 300_000

// benchReads are aligned reads with an insertion and a deletion every 50 bases, and how many calls they have.
func benchReads(b *testing.B, every int, heads []string, motif string) ([]*sam.Record, int) {
	rng := rand.New(rand.NewPCG(1, 2))
	genome := make([]byte, benchGenome)
	for i := range genome {
		genome[i] = "AACTTG"[rng.IntN(6)]
		if i > 0 && genome[i] == 'G' && genome[i-1] == 'C' {
			genome[i] = 'T'
		}
		if i%every == 1 {
			copy(genome[i-1:], "CG")
		}
	}
	const length, depth = 10_000, 30
	ref, err := sam.NewReference("chr1", "", "", benchGenome, nil, nil)
	require.NoError(b, err)
	var records []*sam.Record
	calls := 0
	for n := range benchGenome * depth / length {
		at := n * length / depth
		if at+length+200 > benchGenome {
			break
		}
		var bases []byte
		var cigar sam.Cigar
		for pos := at; pos < at+length; {
			bases = append(bases, genome[pos:pos+25]...)
			cigar = append(cigar, sam.NewCigarOp(sam.CigarMatch, 25))
			if pos += 25; pos%2 == 0 {
				bases = append(bases, 'A')
				cigar = append(cigar, sam.NewCigarOp(sam.CigarInsertion, 1))
			} else {
				pos++
				cigar = append(cigar, sam.NewCigarOp(sam.CigarDeletion, 1))
			}
		}
		rec := &sam.Record{Name: fmt.Sprint(n), Ref: ref, Pos: at, Cigar: cigar, Seq: sam.NewSeq(bases), MatePos: -1}
		forward := bases
		if n%2 == 1 {
			rec.Flags = sam.Reverse
			forward = make([]byte, len(bases))
			for i, base := range bases {
				forward[len(bases)-1-i] = "ACGT"[3-strings.IndexByte("ACGT", base)]
			}
		}
		mm, ml := []byte{}, []byte{}
		for _, head := range heads {
			mm = append(mm, head...)
			skipped := 0
			for i, base := range forward {
				if base != head[0] {
					continue
				}
				if motif != "" && !bytes.HasPrefix(forward[i:], []byte(motif)) {
					skipped++
					continue
				}
				mm = strconv.AppendInt(append(mm, ','), int64(skipped), 10)
				skipped = 0
				ml = append(ml, byte(rng.IntN(128)))
				calls++
			}
			mm = append(mm, ';')
		}
		rec.AuxFields = sam.AuxFields{append(sam.Aux("MMZ"), mm...), append(sam.Aux{'M', 'L', 'B', 'C', byte(len(ml)), byte(len(ml) >> 8), byte(len(ml) >> 16), 0}, ml...)}
		records = append(records, rec)
	}
	return records, calls
}
