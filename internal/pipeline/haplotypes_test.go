package pipeline

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// noVariants is a network that calls nothing: reads have haplotypes without one.
type noVariants struct{}

func (noVariants) Score(dst, examples []float32) ([]float32, error) {
	return append(dst, make([]float32, len(examples)/variant.ExampleSize*variant.Scores)...), nil
}

func (noVariants) Fingerprint() string { return "none" }

// twoCopies is two runs of a diploid sample, and one of another one.
func twoCopies(t testing.TB, l *lab) recording {
	t.Helper()
	r := recording{segments: make(map[string][]*streampb.Segment)}
	contig := l.genome.Contigs[0]
	rng := rand.New(rand.NewPCG(44, 47))
	copies := [2][]byte{contig.Seq, bytes.Clone(contig.Seq)}
	for at := 300; at < 12_000; at += 300 + rng.IntN(500) {
		copies[1][at] = "CATG"[strings.IndexByte("ACGT", contig.Seq[at])]
	}
	for i, sample := range []string{"s", "s", "other"} {
		run := &streampb.Run{Id: fmt.Sprint("run-", i), Sample: sample, SampleRate: 4000}
		r.runs = append(r.runs, run)
		for n := range 60 {
			at, length := rng.IntN(9_000), 1500+rng.IntN(1500)
			seq := bytes.Clone(copies[n%2][at : at+length])
			a := align.Alignment{Contig: contig.Name, Start: at, End: at + length, QueryEnd: length, MappingQuality: 60}
			for k := range seq {
				if rng.IntN(60) == 0 {
					seq[k] = "ACGT"[rng.IntN(4)]
				}
				kind := align.Mismatch
				if seq[k] == contig.Seq[at+k] {
					kind = align.Match
				}
				if m := len(a.Ops); m > 0 && a.Ops[m-1].Kind == kind {
					a.Ops[m-1].Len++
				} else {
					a.Ops = append(a.Ops, align.Op{Kind: kind, Len: 1})
				}
			}
			segments, err := align.Segments(&align.Read{Run: run.GetId(), Sample: sample, ID: fmt.Sprint("read-", n), Seq: seq}, &a, contig.Seq)
			require.NoError(t, err)
			for _, s := range segments {
				s.Reverse = n%4 > 1 // on the reference's strand all the same
				modify(t, s, contig.Seq)
				r.segments[run.GetId()] = append(r.segments[run.GetId()], s)
			}
		}
	}
	return r
}

// TestSameHaplotypesWhateverCrashes: stages that are killed at any moment count the same modified bases by haplotype as ones that never stop, over
// any number of partitions, in any order.
func TestSameHaplotypesWhateverCrashes(t *testing.T) {
	l := newLab(t)
	l.calling = variant.Config{Ploidy: variant.Diploid, Network: noVariants{}}
	r := twoCopies(t, l)
	names := stream.NewTopics("")
	counted := func(w *world) map[string]string {
		fold := NewMethylationFold(int32(len(w.topics[names.Methylation])))
		for _, log := range w.topics[names.Methylation] {
			for _, rec := range log {
				_, err := fold.Add(rec)
				require.NoError(t, err)
			}
		}
		files := make(map[string]string)
		for _, run := range r.runs {
			require.True(t, fold.Ended(run.GetId()), "run %s has not ended", run.GetId())
			sample := run.GetSample()
			require.True(t, fold.Final(sample))
			require.Equal(t, []int{1, 2}, fold.Haplotypes(sample))
			for haplotype := range 3 {
				var text bytes.Buffer
				require.NoError(t, fold.WriteBedMethyl(&text, sample, haplotype, l.genome.Rank))
				files[fmt.Sprintf("%s, haplotype %d", sample, haplotype)] = text.String()
			}
		}
		return files
	}
	reference := newWorld(t, l, rand.New(rand.NewPCG(0, 0)), true, map[string]int32{names.Reads: 1, names.Calls: 1, names.Variants: 1, names.Watch: 1, names.Alerts: 1, names.Methylation: 1})
	reference.feed(r, 1)
	reference.run(false)
	want := counted(reference)
	for file, text := range want {
		require.Greater(t, strings.Count(text, "\n"), 1000, file)
	}
	crashes := 0
	for seed := range uint64(worlds(t, 2)) {
		rng := rand.New(rand.NewPCG(seed, 4343))
		partitions := map[string]int32{names.Calls: 1, names.Variants: 2, names.Watch: 1, names.Alerts: 1, names.Methylation: 1 + rng.Int32N(4), names.Reads: []int32{4, 7, 1}[seed%3]}
		w := newWorld(t, l, rng, seed%2 == 0, partitions)
		w.feed(r, 1+rng.IntN(3))
		w.run(true)
		require.Equal(t, want, counted(w), "seed %d", seed)
		if n := w.twice(); seed%2 == 0 {
			require.Zero(t, n, "seed %d: events are there twice", seed)
		}
		crashes += w.faults["crashes"]
	}
	require.Greater(t, crashes, 10)
}
