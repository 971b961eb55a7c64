package variant_test

import (
	"bufio"
	"compress/gzip"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/minimap"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/testenv"
	"github.com/porestream/porestream/variant"
)

// sarscov2 aligns the SARS-CoV-2 sample: 4,000 amplicon reads of R9.4, called by
// Guppy.
func sarscov2(t testing.TB) (*genome.Contig, []*streampb.Segment) {
	t.Helper()
	return sarscov2To(t, unchanged)
}

// sarscov2To aligns it to a reference that is changed first.
func sarscov2To(t testing.TB, change func(string) string) (*genome.Contig, []*streampb.Segment) {
	t.Helper()
	reference, path := testenv.Recordings(t, "sarscov2-r9/NC_045512.2.fa"), testenv.Recordings(t, "sarscov2-r9/SP1.fastq.gz")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	gz, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	return aligned(t, changed(t, reference, change), fastqReads(t, gz))
}

// unchanged is for what changes a reference, and isn't to.
func unchanged(seq string) string { return seq }

// changed is a genome of one contig, changed.
func changed(t testing.TB, path string, change func(string) string) *genome.Genome {
	t.Helper()
	g, err := genome.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if g, err = genome.Read(strings.NewReader(">" + g.Contigs[0].Name + "\n" + change(string(g.Contigs[0].Seq)) + "\n")); err != nil {
		t.Fatal(err)
	}
	return g
}

// fastqReads yields the reads of a FASTQ file.
func fastqReads(t testing.TB, in io.Reader) iter.Seq[*align.Read] {
	return func(yield func(*align.Read) bool) {
		sc := bufio.NewScanner(in)
		sc.Buffer(nil, 1<<24)
		r := &align.Read{}
		for line := 0; sc.Scan(); line++ {
			switch line % 4 {
			case 0:
				r = &align.Read{ID: strings.Fields(sc.Text()[1:])[0]}
			case 1:
				r.Seq = []byte(sc.Text())
			case 3:
				r.Qualities = []byte(sc.Text())
				for i := range r.Qualities {
					r.Qualities[i] -= 33
				}
				if !yield(r) {
					return
				}
			}
		}
		if err := sc.Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// aligned aligns reads to a genome of one contig.
func aligned(t testing.TB, g *genome.Genome, reads iter.Seq[*align.Read]) (*genome.Contig, []*streampb.Segment) {
	t.Helper()
	x, err := minimap.NewIndex(g, minimap.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	a := x.NewAligner()
	defer a.Close()
	var out []*streampb.Segment
	for r := range reads {
		alns, err := a.Map(r.ID, r.Seq)
		if err != nil {
			t.Fatal(err)
		}
		for i := range alns {
			segs, err := align.Segments(r, &alns[i], g.Contigs[0].Seq)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, segs...)
		}
	}
	return g.Contigs[0], out
}

// The consensus has four substitutions; the reads cover 241 once, so three can be
// called. There is nothing else.
func TestSARSCoV2(t *testing.T) {
	contig, segments := sarscov2(t)
	r := region(t, contig, 0, variant.Config{})
	w := &watcher{t: t}
	for _, s := range segments[:len(segments)/2] { // enough, and half the time
		apply(t, r, s)
		w.see(evaluate(t, r))
	}
	final := finalize(t, r)
	w.see(final)
	want := []string{"3037 C>T", "14408 C>T", "23403 A>G"}
	if got := passing(final); !slices.Equal(got, want) {
		t.Errorf("called %q, want %q", got, want)
	}
	if got := w.alive(); len(got) != len(want) {
		t.Errorf("a consumer ends with %v", got)
	}
	if w.revisions > 10*len(want) {
		t.Errorf("%d revisions of %d calls", w.revisions, len(want))
	}
}

func BenchmarkApply(b *testing.B) {
	contig, segments := sarscov2(b)
	bases := 0
	for _, s := range segments {
		bases += len(s.GetQualities())
	}
	for _, live := range []bool{false, true} {
		b.Run(map[bool]string{false: "final", true: "live"}[live], func(b *testing.B) {
			b.SetBytes(int64(bases))
			b.ReportAllocs()
			for b.Loop() {
				r := region(b, contig, 0, variant.Config{})
				for _, s := range segments {
					apply(b, r, s)
					if live {
						evaluate(b, r)
					}
				}
				finalize(b, r)
			}
		})
	}
}
