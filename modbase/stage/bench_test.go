package stage

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/biogo/hts/sam"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/testenv"
)

// BenchmarkRegions has reads of 10 kb at 30x, with 5 % errors and calls of 5mC and 5hmC at every CpG, become
// final counts of 2 Mb: processor time for each call, over all interim evaluations, and what the regions keep
// of a base.
func BenchmarkRegions(b *testing.B) {
	b.Run("CpG-of-human", func(b *testing.B) { benchRegions(b, 100) })
	b.Run("CpG-of-bacteria", func(b *testing.B) { benchRegions(b, 14) })
}

// benchRegions is of genomes with so many bases from one CpG to the next.
func benchRegions(b *testing.B, every int) {
	rng := rand.New(rand.NewPCG(1, 1))
	seq := make([]byte, 2*align.RegionWidth)
	for i := range seq {
		if seq[i] = "AACTTG"[rng.IntN(6)]; i > 0 && seq[i] == 'G' && seq[i-1] == 'C' {
			seq[i] = 'T'
		}
		if i%every == 1 {
			copy(seq[i-1:], "CG")
		}
	}
	g, err := genome.Read(strings.NewReader(">chr\n" + string(seq) + "\n"))
	require.NoError(b, err)
	seq = g.Contigs[0].Seq
	const length, depth = 10_000, 30
	var segments []*streampb.Segment
	calls, bases := 0, 0
	for n := range len(seq) * depth / length {
		segments = append(segments, benchSegments(b, rng, n, seq, rng.IntN(len(seq)-length), length, &calls)...)
		bases += length
	}
	var kept uint64
	b.ReportAllocs()
	var took time.Duration // of processors, which others on the machine don't change
	for b.Loop() {
		b.StopTimer()
		var start, end runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&start)
		before := testenv.ProcessorTime(b)
		b.StartTimer()
		regions := make(map[uint32]*region)
		for _, s := range segments {
			r := regions[s.GetRegion()]
			if r == nil {
				r = newRegion(regionKey{"s", "chr", s.GetRegion()}, seq, DefaultMaxRegion)
				regions[s.GetRegion()] = r
			}
			_, err := r.apply(s)
			require.NoError(b, err)
			if r.due() {
				evaluate(b, r, methylation.Provisional)
			}
		}
		rows := 0
		for _, r := range regions {
			rows += evaluate(b, r, methylation.Final)
		}
		require.Greater(b, rows, len(seq)/every)
		b.StopTimer()
		took += testenv.ProcessorTime(b) - before
		runtime.GC()
		runtime.ReadMemStats(&end)
		kept = end.HeapAlloc - start.HeapAlloc
		runtime.KeepAlive(regions)
		b.StartTimer()
	}
	b.ReportMetric(float64(kept)/1e6, "MB-kept")
	b.ReportMetric(float64(calls)/1e6, "Mcalls")
	b.ReportMetric(float64(kept)/float64(bases), "bytes/base")
	b.ReportMetric(float64(calls)*float64(b.N)/took.Seconds()/1e6, "Mcalls/cpu-s")
}

func evaluate(b *testing.B, r *region, status string) (rows int) {
	filter := Filter{Percentile: 0.1}
	thresholds := filter.thresholds(&r.calls.Histogram)
	require.NoError(b, r.evaluate("run", status, &thresholds, "methylation", func(s *methylation.Stretch, _ stream.Out) error {
		rows += len(s.Sites.Pos)
		return nil
	}))
	return rows
}

var operations = [...]sam.CigarOpType{align.Match: sam.CigarMatch, align.Mismatch: sam.CigarMatch, align.Insertion: sam.CigarInsertion, align.Deletion: sam.CigarDeletion}

// benchSegments are a read's, with two calls at each CpG.
func benchSegments(b *testing.B, rng *rand.Rand, n int, seq []byte, at, length int, calls *int) []*streampb.Segment {
	a := align.Alignment{Contig: "chr", Start: at, End: at + length, Reverse: n%2 == 1}
	put := func(kind align.OpKind) {
		if k := len(a.Ops); k > 0 && a.Ops[k-1].Kind == kind {
			a.Ops[k-1].Len++
			return
		}
		a.Ops = append(a.Ops, align.Op{Kind: kind, Len: 1})
	}
	var bases []byte
	for i := at; i < at+length; i++ {
		switch k := rng.IntN(60); {
		case k == 0 && i > at && i < at+length-1:
			put(align.Deletion)
			continue
		case k == 1 && i > at:
			put(align.Insertion)
			bases = append(bases, "ACGT"[rng.IntN(4)])
			put(align.Match)
			bases = append(bases, seq[i])
		case k == 2:
			put(align.Mismatch)
			bases = append(bases, "CGTA"[strings.IndexByte("ACGT", seq[i])])
		default:
			put(align.Match)
			bases = append(bases, seq[i])
		}
	}
	a.QueryEnd = len(bases)
	a.Ops = align.LeftAlign(a.Ops, bases, seq[a.Start:a.End])
	if a.Ops[0].Kind >= align.Insertion || a.Ops[len(a.Ops)-1].Kind >= align.Insertion {
		return nil
	}
	own := append([]byte{}, bases...)
	if a.Reverse {
		genome.ReverseComplement(own)
	}
	list := modbase.List{Base: 'C', Codes: []modbase.Code{'h', 'm'}, Skipped: modbase.Unknown, Probabilities: []byte{}}
	skipped := int32(0)
	for i, base := range own {
		switch {
		case base != 'C':
		case i+1 == len(own) || own[i+1] != 'G':
			skipped++
		default:
			p := byte(rng.IntN(120))
			list.Skips, list.Probabilities = append(list.Skips, skipped), append(list.Probabilities, p/16, 2*p)
			skipped = 0
			*calls += 2
		}
	}
	segments, err := align.Segments(&align.Read{Run: "run", Sample: "s", ID: fmt.Sprint(n), Seq: own}, &a, seq)
	require.NoError(b, err)
	var cigar sam.Cigar
	for _, op := range a.Ops {
		cigar = append(cigar, sam.NewCigarOp(operations[op.Kind], op.Len))
	}
	var spans []pileup.Span
	for _, s := range segments {
		lo, hi := align.RegionBounds(int(s.GetRegion()), len(seq))
		spans = append(spans, pileup.Span{Origin: int(s.GetStart()), Start: max(lo, int(s.GetStart())), End: hi})
	}
	packed, _, err := new(pileup.Calls).Pack(pileup.Aligned{Start: at, Reverse: a.Reverse, Cigar: cigar, Bases: bases}, &modbase.Tags{Lists: []modbase.List{list}}, spans)
	require.NoError(b, err)
	for i := range segments {
		segments[i].Modified = packed[i]
	}
	return segments
}
