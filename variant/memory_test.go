//go:build unix

package variant_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/testenv"
	"github.com/porestream/porestream/variant"
)

// errorRates are those of simulated reads that err as R10.4.1 reads do: more often in
// some motifs, differently on both strands, and mostly by losing bases of
// homopolymers. scale 1 is about one changed base in a hundred.
type errorRates struct {
	scale float64
	motif [2][1 << 10]float64 // by strand and the five bases around
	snps  map[int]byte        // of the sample
}

func newErrorRates(scale float64) *errorRates {
	rnd := rand.New(rand.NewPCG(10, 4))
	e := &errorRates{scale: scale}
	for strand := range e.motif {
		for k := range e.motif[strand] {
			e.motif[strand][k] = min(20, math.Exp(1.1*rnd.NormFloat64())) / 1.8
		}
	}
	return e
}

// read is a read of reference positions [start, end) with its alignment. Its
// quality, and so its rate of errors, is that of few reads: some are five times
// worse than others.
func (e *errorRates) read(rnd *rand.Rand, c *genome.Contig, id string, start, end int, reverse bool) (*align.Read, *align.Alignment) {
	ref := c.Seq
	seq, qual := make([]byte, 0, end-start+100), make([]byte, 0, end-start+100)
	var ops []align.Op
	add := func(k align.OpKind) {
		if l := len(ops); l > 0 && ops[l-1].Kind == k {
			ops[l-1].Len++
		} else {
			ops = append(ops, align.Op{Kind: k, Len: 1})
		}
	}
	worse := e.scale * min(5, math.Exp(0.5*rnd.NormFloat64())) / 1.13
	typical := 30 - 10*math.Log10(max(0.2, worse))
	emit := func(b byte, wrong bool) {
		q := typical + 6*rnd.NormFloat64()
		if wrong {
			q -= 14
		}
		seq, qual = append(seq, b), append(qual, byte(min(50, max(2, q))))
	}
	strand := 0
	if reverse {
		strand = 1
	}
	code := func(b byte) int { return int(b>>1) & 3 }
	k, run := 0, 0
	for p := start; p < end; p++ {
		if k = (k<<2 | code(ref[min(len(ref)-1, p+2)])) & (1<<10 - 1); p > start && ref[p] == ref[p-1] {
			run++
		} else {
			run = 1
		}
		rate := worse * e.motif[strand][k]
		inner := p > start+10 && p < end-10
		last := p+1 < len(ref) && ref[p+1] != ref[p]
		length := [...]float64{0.5, 0.6, 1, 2, 4, 8, 14, 20}[min(run, 8)-1]
		switch x := rnd.Float64(); {
		case inner && x < 0.0022*rate*length: // a base is lost
			add(align.Deletion)
			continue
		case inner && x < 0.0022*rate*length+0.0017*rate:
			b := "ACGT"[rnd.IntN(4)]
			if last && rnd.IntN(2) == 0 {
				b = ref[p]
			}
			emit(b, true)
			add(align.Insertion)
		}
		snp, carried := e.snps[p]
		switch {
		case carried && inner:
			emit(snp, false)
			add(align.Mismatch)
		case inner && rnd.Float64() < 0.0042*rate:
			b := other(ref[p])
			if rnd.IntN(2) == 0 {
				b = "GTAC"[code(ref[p])^code(ref[p])>>1]
			}
			if b == ref[p] {
				b = other(b)
			}
			emit(b, true)
			add(align.Mismatch)
		default:
			emit(ref[p], false)
			add(align.Match)
		}
	}
	a := &align.Alignment{Contig: c.Name, Start: start, End: end, QueryEnd: len(seq), Ops: ops, Reverse: reverse, MappingQuality: 60}
	if reverse {
		genome.ReverseComplement(seq)
		slices.Reverse(qual)
	}
	return &align.Read{Run: "5b1f8a52-run", Sample: "s", ID: id, Seq: seq, Qualities: qual}, a
}

// human is two million bases of chr11, less the unknown ones.
func human(b testing.TB) *genome.Contig {
	g, err := genome.Load(testenv.Recordings(b, "human-chr11-2mb/chr11_2M.fa.gz"))
	if err != nil {
		b.Fatal(err)
	}
	return contig(b, strings.ReplaceAll(string(g.Contigs[0].Seq), "N", ""))
}

// snpDistance is how many bases a human has per variant.
const snpDistance = 700

// simulate calls f with the segments of reads of about 12 kb that cover c so many
// times, of a sample with an SNP in snpDistance bases.
func simulate(b testing.TB, c *genome.Contig, depth int, scale float64, f func(*streampb.Segment)) {
	rnd := rand.New(rand.NewPCG(12, 30))
	e := newErrorRates(scale)
	e.snps = make(map[int]byte)
	for p := 500; p < len(c.Seq); p += 1 + rnd.IntN(2*snpDistance) {
		e.snps[p] = other(c.Seq[p])
	}
	for left := depth * len(c.Seq); left > 0; {
		length := int(12000 * math.Exp(0.5*rnd.NormFloat64()-0.125))
		start := rnd.IntN(len(c.Seq)-1000) - length/2
		start, end := max(0, start), min(len(c.Seq), start+length)
		if end-start < 200 {
			continue
		}
		left -= end - start
		id := fmt.Sprintf("%08x-%04x-4000-8000-%012x", rnd.Uint32(), rnd.IntN(1<<16), rnd.Uint64N(1<<48))
		r, a := e.read(rnd, c, id, start, end, rnd.IntN(2) == 1)
		r.LastChunkMs = 1_700_000_000_000 + rnd.Int64N(200_000_000)
		segments, err := align.Segments(r, a, c.Seq)
		if err != nil {
			b.Fatal(err)
		}
		for _, s := range segments {
			f(s)
		}
	}
}

// BenchmarkMemory is what the regions of two million human bases take at 30x, by
// how often reads err, and what that is for 3.05 billion; and the processor's time
// for applying the reads and for loading every tile once.
func BenchmarkMemory(b *testing.B) {
	for _, scale := range []float64{1, 2} {
		b.Run(fmt.Sprintf("errors=%g%%", scale), func(b *testing.B) {
			for b.Loop() {
				c := human(b)
				var work variant.Workspace
				regions := make([]*variant.Region, 2)
				before := heap()
				for i := range regions {
					regions[i] = region(b, c, i, variant.Config{Sample: "s"})
					regions[i].Use(&work)
				}
				var applying time.Duration
				columns, changed, changes, bits := 0, 0, 0, 0
				simulate(b, c, 30, scale, func(s *streampb.Segment) {
					for op, rest, ok := align.Ops(s.GetOps()).Next(); ok; op, rest, ok = rest.Next() {
						switch {
						case op.Kind == align.Mismatch:
							changes += op.Len
						case op.Kind != align.Match:
							changes++
						}
						if op.Kind != align.Insertion {
							columns += op.Len
						}
						if op.Kind != align.Match {
							changed += op.Len
						}
					}
					start := cpu()
					apply(b, regions[s.GetRegion()], s)
					applying += cpu() - start
				})
				applied := heap()
				start := cpu()
				for _, r := range regions {
					r.LoadAll()
				}
				loading := cpu() - start
				start = cpu()
				calls := 0
				for _, r := range regions {
					calls += len(finalize(b, r))
				}
				finalizing := cpu() - start
				snapshot := 0
				for _, r := range regions {
					state, err := r.AppendState(nil)
					if err != nil {
						b.Fatal(err)
					}
					snapshot += len(state)
					for i := range r.Batches() {
						snapshot += len(r.AppendReads(nil, i))
					}
					bits += r.PackedBits()
				}
				work = variant.Workspace{}
				after := heap()
				runtime.KeepAlive(regions)
				positions := float64(len(c.Seq))
				b.ReportMetric(float64(columns)/positions, "depth")
				b.ReportMetric(100*float64(changed)/float64(columns), "%changed")
				b.ReportMetric(float64(bits)/float64(changes), "bits/change")
				b.ReportMetric(1000*float64(calls)/positions, "calls/kb")
				b.ReportMetric(float64(applied-before)/positions, "B/position-applied")
				b.ReportMetric(float64(after-before)/positions, "B/position")
				b.ReportMetric(float64(snapshot)/positions, "B/position-snapshot")
				b.ReportMetric(float64(after-before)/positions*3.05, "GB/human")
				b.ReportMetric(applying.Seconds(), "s-apply")
				b.ReportMetric(loading.Seconds(), "s-load")
				b.ReportMetric(finalizing.Seconds(), "s-finalize")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// cpu is the processor's time that this process has spent in its own code.
func cpu() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano())
}

// heap is the bytes of the heap that are in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
