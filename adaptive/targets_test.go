package adaptive

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestReadTargets(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		margin     int
		want       string // intervals as contig:start-end, or what the error says
	}{
		{"one", "a\t10\t20\n", 0, "a:10-20"},
		{"more columns and a strand", "a\t10\t20\tname\t0\t-\n", 0, "a:10-20"},
		{"blanks, comments, headers", "track name=x\nbrowser position a\n# c\n\na 10 20\r\n", 0, "a:10-20"},
		{"no newline at the end", "a\t10\t20", 0, "a:10-20"},
		{"joined and sorted", "a\t30\t40\na\t10\t20\na\t15\t30\nb\t1\t2\n", 0, "a:10-40 b:1-2"},
		{"a whole contig", "b\t0\t5000\n", 10, "b:0-5000"},
		{"margin", "a\t100\t200\na\t300\t400\n", 50, "a:50-450"},
		{"margin beyond the ends", "a\t100\t200\nb\t4990\t4999\n", 1 << 62, "a:0-10000 b:0-5000"},
		{"too few columns", "a\t1\t2\na\t5\n", 0, "t.bed:2: 2 columns"},
		{"unknown contig", "c\t1\t2\n", 0, `t.bed:1: contig "c" is not in the reference`},
		{"empty interval", "a\t2\t2\n", 0, `t.bed:1: "2" to "2" is no interval of a, which has 10000 bases`},
		{"behind the end", "a\t2\t10001\n", 0, "no interval of a, which has 10000 bases"},
		{"negative", "a\t-1\t5\n", 0, "no interval"},
		{"no number", "a\tx\t5\n", 0, "no interval"},
		{"nothing", "# nothing\n", 0, "t.bed: no intervals"},
		{"negative margin", "a\t1\t2\n", -1, "a margin of -1 bases is negative"},
		{"no text", strings.Repeat("x", maxLine+1), 0, "t.bed:1: a line has more than 1048576 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			targets, err := ReadTargets(strings.NewReader(tt.text), "t.bed", tt.margin, lengths)
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("%v, want ...%s...", err, tt.want)
				}
				return
			}
			if got := targets.text(); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func (t *Targets) text() string {
	var all []string
	for _, contig := range []string{"a", "b"} {
		for _, i := range t.contigs[contig] {
			all = append(all, fmt.Sprintf("%s:%d-%d", contig, i.start, i.end))
		}
	}
	return strings.Join(all, " ")
}

// TestOverlaps compares the search with a check of every base.
func TestOverlaps(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var text strings.Builder
		margin := rng.IntN(20)
		const size = 500
		var covered [size]bool
		for range 1 + rng.IntN(8) {
			start := rng.IntN(size - 1)
			end := start + 1 + rng.IntN(min(60, size-start-1)+1)
			end = min(end, size)
			fmt.Fprintf(&text, "a\t%d\t%d\n", start, end)
			for i := max(0, start-margin); i < min(size, end+margin); i++ {
				covered[i] = true
			}
		}
		targets, err := ReadTargets(strings.NewReader(text.String()), "t.bed", margin, func(string) (int, bool) { return size, true })
		if err != nil {
			t.Fatal(err)
		}
		bases := int64(0)
		for _, c := range covered {
			if c {
				bases++
			}
		}
		if targets.Bases() != bases {
			t.Fatalf("%d bases, want %d", targets.Bases(), bases)
		}
		for range 200 {
			start := rng.IntN(size)
			end := start + rng.IntN(size-start+1)
			want := false
			for i := start; i < end; i++ {
				want = want || covered[i]
			}
			if got := targets.Overlaps("a", start, end); got != want {
				t.Fatalf("%s\nmargin %d: %d-%d overlaps: %v", text.String(), margin, start, end, got)
			}
		}
		if targets.Overlaps("b", 0, size) {
			t.Fatal("another contig overlaps")
		}
	}
}

func FuzzReadTargets(f *testing.F) {
	for _, seed := range []string{"a\t10\t20\n", "track\n#\na 1 2\nb\t0\t5000\tx\t0\t+\n", "a\t9999\t10000\n\r\n", "a\t5\n", "a\t9223372036854775807\t9223372036854775808\n"} {
		f.Add(seed, 10)
	}
	f.Fuzz(func(t *testing.T, text string, margin int) {
		targets, err := ReadTargets(strings.NewReader(text), "t.bed", margin, lengths)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "t.bed:") || strings.Contains(err.Error(), "\n") {
				t.Fatalf("not one line with the file's name: %v", err)
			}
			return
		}
		bases := int64(0)
		for contig, all := range targets.contigs {
			size, _ := lengths(contig)
			for k, i := range all {
				if i.start < 0 || i.end <= i.start || i.end > size || k > 0 && i.start <= all[k-1].end {
					t.Fatalf("intervals %v of a contig of %d", all, size)
				}
				if !targets.Overlaps(contig, i.start, i.start+1) || !targets.Overlaps(contig, i.end-1, i.end) {
					t.Fatalf("an end of %v is not on target", i)
				}
				bases += int64(i.end - i.start)
			}
		}
		if bases == 0 || bases != targets.Bases() {
			t.Fatalf("%d bases, counted %d", targets.Bases(), bases)
		}
	})
}
