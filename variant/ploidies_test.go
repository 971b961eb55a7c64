package variant_test

import (
	"strings"
	"testing"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/variant"
)

func humanLike(t testing.TB) *genome.Genome {
	t.Helper()
	g, err := genome.Read(strings.NewReader(">chr1\n" + strings.Repeat("ACGT", 25) + "\n>chrX\n" + strings.Repeat("ACGT", 25) + "\n>track\nACGT\n>chrM\nACGTACGT\n"))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestReadPloidies(t *testing.T) {
	p, err := variant.ReadPloidies(strings.NewReader(
		"# a man\ntrack name=x\nbrowser position chrX\n\nchrX\t50\t90\t1\r\nchrX 10 20\t1\tpar boundary\nchrX\t20\t30\t2\nchrM\t0\t8\tmixture\n"), "x.bed", humanLike(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg := variant.Config{Ploidy: variant.Diploid, Ploidies: p}
	for _, tt := range []struct {
		contig string
		pos    int
		want   variant.Ploidy
	}{
		{"chr1", 0, variant.Diploid}, {"chrX", 0, variant.Diploid}, {"chrX", 9, variant.Diploid}, {"chrX", 10, variant.Haploid},
		{"chrX", 19, variant.Haploid}, {"chrX", 20, variant.Diploid}, {"chrX", 49, variant.Diploid}, {"chrX", 50, variant.Haploid},
		{"chrX", 89, variant.Haploid}, {"chrX", 90, variant.Diploid}, {"chrM", 0, variant.Mixture}, {"chrM", 7, variant.Mixture}, {"none", 3, variant.Diploid},
	} {
		if got := cfg.PloidyAt(tt.contig, tt.pos); got != tt.want {
			t.Errorf("%s:%d has ploidy %v, want %v", tt.contig, tt.pos, got, tt.want)
		}
	}
	if got := (variant.Config{Ploidies: p}).PloidyAt("chr1", 0); got != variant.Haploid {
		t.Errorf("without a ploidy a contig has %v", got)
	}
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "without a network only haploid") {
		t.Errorf("a mixture without a network: %v", err)
	}
	other := cfg
	other.Ploidies = variant.Ploidies{"chrX": {{Span: variant.Span{Start: 10, End: 21}, Ploidy: variant.Haploid}}}
	same := cfg
	if cfg.Fingerprint() == other.Fingerprint() || cfg.Fingerprint() != same.Fingerprint() {
		t.Error("ploidies aren't in the fingerprint")
	}
}

func TestReadPloidiesRefuses(t *testing.T) {
	for _, tt := range []struct{ name, bed, want string }{
		{"nothing", "# none\n", "p.bed: no stretches"},
		{"three columns", "chr1\t0\t5\n", "p.bed:1: 3 columns; want contig, start, end and ploidy"},
		{"contig", "\nchr7\t0\t5\t1\n", `p.bed:2: contig "chr7" is not in the reference (it has chr1, chrX and 2 more)`},
		{"start", "chr1\t-1\t5\t1\n", "p.bed:1: -1 to 5 is no stretch"},
		{"number", "chr1\t0\tx\t1\n", "p.bed:1: 0 to x is no stretch"},
		{"empty", "chr1\t5\t5\t1\n", "p.bed:1: 5 to 5 is no stretch"},
		{"end", "chrM\t0\t9\t1\n", "p.bed:1: the stretch ends at 9, but chrM has 8 bases"},
		{"ploidy", "chr1\t0\t5\t3\n", `p.bed:1: ploidy "3": want 1, 2 or mixture`},
		{"overlap", "chr1\t10\t20\t1\nchr1\t0\t11\t2\n", "p.bed:2: the stretch overlaps that of line 1"},
		{"twice", "chr1\t10\t20\t1\nchrX\t1\t2\t1\nchr1\t10\t20\t1\n", "p.bed:3: the stretch overlaps that of line 1"},
		{"long line", "chr1\t0\t1\t1\n" + strings.Repeat("x", 1<<17), "p.bed:2: the line is longer than"},
	} {
		_, err := variant.ReadPloidies(strings.NewReader(tt.bed), "p.bed", humanLike(t))
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
	for name, p := range map[string]variant.Ploidies{
		"overlap": {"c": {{Span: variant.Span{Start: 0, End: 5}, Ploidy: 1}, {Span: variant.Span{Start: 4, End: 9}, Ploidy: 1}}},
		"empty":   {"c": {{Span: variant.Span{Start: 5, End: 5}, Ploidy: 1}}},
		"ploidy":  {"c": {{Span: variant.Span{Start: 5, End: 6}, Ploidy: 4}}},
	} {
		if err := (variant.Config{Ploidies: p}).Validate(); err == nil || !strings.Contains(err.Error(), "ploidies of c") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzReadPloidies: what is accepted is in order, apart and within its contig, and
// every position has the ploidy of the line that names it.
func FuzzReadPloidies(f *testing.F) {
	f.Add("chrX\t50\t90\t1\nchrX\t10\t20\tmixture\n")
	f.Add("# x\ntrack a\nchrM 0 8 2\nchr1 0 1 1 more\n")
	f.Add("chr1\t10\t20\t1\nchr1\t0\t11\t2\n")
	g := humanLike(f)
	f.Fuzz(func(t *testing.T, bed string) {
		p, err := variant.ReadPloidies(strings.NewReader(bed), "x", g)
		if err != nil {
			return
		}
		cfg := variant.Config{Ploidies: p}
		if err := cfg.Validate(); err != nil && !strings.Contains(err.Error(), "without a network") {
			t.Fatal(err)
		}
		for contig, spans := range p {
			for _, s := range spans {
				if s.End > len(g.Contig(contig).Seq) {
					t.Fatalf("%s ends at %d", contig, s.End)
				}
				for pos := s.Start; pos < s.End; pos++ {
					if got := cfg.PloidyAt(contig, pos); got != s.Ploidy {
						t.Fatalf("%s:%d has %v, want %v", contig, pos, got, s.Ploidy)
					}
				}
			}
		}
	})
}
