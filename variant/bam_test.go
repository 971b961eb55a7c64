package variant_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/biogo/hts/bam"
	"github.com/biogo/hts/sam"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// samLine spells a read and its alignment as SAM does; plain uses M for = and X.
func samLine(r *align.Read, a *align.Alignment, plain, qualities bool) string {
	seq, qual := slices.Clone(r.Seq), slices.Clone(r.Qualities)
	flag := 0
	if a.Reverse {
		align.ReverseComplement(seq)
		slices.Reverse(qual)
		flag = 16
	}
	cigar := a.Cigar()
	if plain {
		var b strings.Builder
		m := 0
		for _, op := range append(slices.Clone(a.Ops), align.Op{Kind: align.Deletion}) {
			if op.Kind <= align.Mismatch {
				m += op.Len
				continue
			}
			if m > 0 {
				fmt.Fprintf(&b, "%dM", m)
				m = 0
			}
			if op.Len > 0 {
				fmt.Fprintf(&b, "%d%s", op.Len, op.Kind)
			}
		}
		cigar = b.String()
	}
	for i := range qual {
		qual[i] += 33
	}
	if !qualities {
		qual = []byte("*")
	}
	return fmt.Sprintf("%s\t%d\t%s\t%d\t%d\t%s\t*\t0\t0\t%s\t%s\n", r.ID, flag, a.Contig, a.Start+1, a.MappingQuality, cigar, seq, qual)
}

type placed struct {
	read *align.Read
	aln  *align.Alignment
}

func (s *sample) placed(n, length int) []placed {
	var out []placed
	for i := range n {
		at := s.rnd.IntN(len(s.contig.Seq) - length)
		r, a := s.read(fmt.Sprint("r", i), at, at+length, i%2 == 1)
		out = append(out, placed{r, a})
	}
	slices.SortStableFunc(out, func(a, b placed) int { return a.aln.Start - b.aln.Start })
	return out
}

func fasta(t *testing.T, s *sample) *genome.Genome {
	t.Helper()
	g, err := genome.Read(strings.NewReader(">chr\n" + string(s.contig.Seq) + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func callFile(t *testing.T, file []byte, g *genome.Genome) (*variant.Alignments, []string, variant.Counts, error) {
	t.Helper()
	a, err := variant.ReadAlignments(bytes.NewReader(file), g)
	if err != nil {
		return nil, nil, variant.Counts{}, err
	}
	defer a.Close()
	var calls []*streampb.Call
	n, err := a.Call(t.Context(), variant.Config{}, func(c *streampb.Call) error {
		calls = append(calls, c)
		return nil
	})
	return a, passing(calls), n, err
}

// toBAM converts SAM text.
func toBAM(t *testing.T, text string) []byte {
	t.Helper()
	sr, err := sam.NewReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	bw, err := bam.NewWriter(&b, sr.Header(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for {
		rec, err := sr.Read()
		if err != nil {
			break
		}
		if err := bw.Write(rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := bw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// BAM and SAM, sorted or not, with M or with = and X, with or without
// qualities, say what the sample carries.
func TestCallFiles(t *testing.T) {
	s, want := planted(t, 21)
	reads := s.placed(60, 2500)
	g := fasta(t, s)
	for _, tc := range []struct {
		name             string
		order            string
		plain, qualities bool
		bam              bool
	}{
		{"sorted SAM", "coordinate", false, true, false},
		{"sorted BAM", "coordinate", true, true, true},
		{"unsorted BAM without qualities", "unsorted", true, false, true},
	} {
		text := fmt.Sprintf("@HD\tVN:1.6\tSO:%s\n@SQ\tSN:chr\tLN:%d\n@RG\tID:a\tSM:patient\n", tc.order, len(s.contig.Seq))
		order := slices.Clone(reads)
		if tc.order == "unsorted" {
			slices.Reverse(order)
		}
		for _, p := range order {
			text += samLine(p.read, p.aln, tc.plain, tc.qualities)
		}
		// The same read again as a duplicate and as a secondary alignment.
		last := order[len(order)-1]
		for _, flag := range []string{"1024", "256"} {
			f := strings.SplitN(samLine(last.read, last.aln, tc.plain, tc.qualities), "\t", 3)
			text += "again\t" + flag + "\t" + f[2]
		}
		text += "unmapped\t4\t*\t0\t0\t*\t*\t0\t0\tACGT\t*\n"
		file := []byte(text)
		if tc.bam {
			file = toBAM(t, text)
		}
		a, got, n, err := callFile(t, file, g)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: called %q, want %q", tc.name, got, want)
		}
		if n.Unmapped != 1 || n.Duplicates != 1 || n.Secondary != 1 || n.RegionsCalled != 1 || n.Segments != 60 {
			t.Errorf("%s: %+v", tc.name, n)
		}
		if a.Sample() != "patient" {
			t.Errorf("%s: sample %q", tc.name, a.Sample())
		}
	}
}

func TestCallFilesRefuses(t *testing.T) {
	s := newSample(t, 22, 3000)
	g := fasta(t, s)
	const header = "@HD\tVN:1.6\tSO:coordinate\n@SQ\tSN:chr\tLN:3000\n"
	seq := string(s.contig.Seq[100:110])
	record := func(name string, pos int, cigar string) string {
		return fmt.Sprintf("%s\t0\tchr\t%d\t60\t%s\t*\t0\t0\t%s\t*\n", name, pos, cigar, seq)
	}
	for _, tc := range []struct{ name, text, want string }{
		{"good", header + record("r", 101, "10M"), ""},
		{"empty", "", "the file is empty"},
		{"no contigs", "@HD\tVN:1.6\n", "names no reference"},
		{"another contig", "@SQ\tSN:chrX\tLN:3000\n", "they are to chrX, which isn't in the reference FASTA (it has chr)"},
		{"another length", "@SQ\tSN:chr\tLN:2999\n", "chr has 2999 bases in their header and 3000"},
		{"spliced", header + record("r", 101, "5M10N5M"), "spliced"},
		{"unsorted", header + record("a", 201, "10M") + record("b", 101, "10M"), "chr:101 comes too late"},
		{"beyond the contig", header + record("r", 2995, "10M"), "longer than the read or the reference"},
	} {
		_, _, _, err := callFile(t, []byte(tc.text), g)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestCallFilesStopsOnCancel(t *testing.T) {
	s := newSample(t, 23, 3000)
	a, err := variant.ReadAlignments(strings.NewReader("@SQ\tSN:chr\tLN:3000\n"), fasta(t, s))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Call(ctx, variant.Config{}, nil); err == nil {
		t.Error("a cancelled call succeeded")
	}
}
