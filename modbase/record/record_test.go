package record_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/biogo/hts/sam"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/modbasetest"
	"github.com/porestream/porestream/modbase/record"
)

const head = "@HD\tVN:1.6\n@SQ\tSN:r\tLN:100000\n"

// line is a record of a read: soft-clipped, with an insertion and a deletion, and hard clips where given.
func line(name string, r *modbasetest.Read, reverse bool, hard [2]int, tags string) string {
	bases, flag := slices.Clone(r.Bases), 0
	if reverse {
		genome.ReverseComplement(bases)
		flag, hard = 16, [2]int{hard[1], hard[0]}
	}
	cigar := ""
	for i, end := range [2]string{"%dH", "2S"} {
		switch {
		case i == 0 && hard[0] > 0:
			cigar += fmt.Sprintf(end, hard[0])
		case i == 1:
			cigar += end
		}
	}
	cigar += fmt.Sprintf("4M1I2D%dM3S", len(bases)-10)
	if hard[1] > 0 {
		cigar += fmt.Sprintf("%dH", hard[1])
	}
	return fmt.Sprintf("%s\t%d\tr\t101\t60\t%s\t*\t0\t0\t%s\t*\t%s\n", name, flag, cigar, bases, tags)
}

func write(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "reads.sam")
	require.NoError(t, os.WriteFile(path, []byte(head+text), 0o600))
	return path
}

func readAll(t *testing.T, text string) []*sam.Record {
	r, err := hts.NewSAMReader(strings.NewReader(head + text))
	require.NoError(t, err)
	var all []*sam.Record
	for {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, rec)
	}
}

// TestAgreesWithPysam: of 10,000 random reads, aligned to either strand, the calls are those that were
// planted and those that pysam reads, by place in the read and in the reference. Trimmed, split in two
// and hard-clipped, pysam reads of the parts what it reads of the whole there.
func TestAgreesWithPysam(t *testing.T) {
	const reads = 10_000
	rng := rand.New(rand.NewPCG(44, 1))
	var whole, parts strings.Builder
	planted := make([]modbasetest.Read, reads)
	bounds := make([][4]int, reads)
	for i := range planted {
		r := modbasetest.Random(rng, 35+rng.IntN(120))
		planted[i] = r
		n, mn := len(r.Bases), 0
		if rng.IntN(2) == 0 {
			mn = n
		}
		whole.WriteString(line(fmt.Sprint(i), &r, i%2 == 1, [2]int{}, r.Tags(mn)))
		tags, err := modbase.Parse(r.MM, r.ML, mn)
		require.NoError(t, err)
		require.Equal(t, r.MM, tags.MM())
		require.Equal(t, string(r.ML), string(tags.ML()))
		// Trimmed, and what is left in two; the first hard-clipped on either strand.
		start, end := rng.IntN(5), n-rng.IntN(5)
		middle := start + 11 + rng.IntN(end-start-22)
		bounds[i] = [4]int{start, middle, end}
		s := modbase.Sequence{Bases: r.Bases}
		for k, part := range [][2]int{{start, end}, {start, middle}, {middle, end}} {
			cut, err := tags.Slice(s, part[0], part[1])
			require.NoError(t, err)
			require.Equal(t, part[1]-part[0], cut.Length)
			p := modbasetest.Read{Bases: r.Bases[part[0]:part[1]], MM: cut.MM(), ML: cut.ML()}
			hard := [2]int{}
			if k == 1 {
				hard = [2]int{part[0], n - part[1]}
			}
			parts.WriteString(line(fmt.Sprintf("%d/%d", i, k), &p, (i+k)%2 == 1, hard, p.Tags(cut.Length)))
		}
		// A part of a part is that part of the whole.
		left, err := tags.Slice(s, start, end)
		require.NoError(t, err)
		again, err := left.Slice(modbase.Sequence{Bases: r.Bases[start:end]}, 0, middle-start)
		require.NoError(t, err)
		once, err := tags.Slice(s, start, middle)
		require.NoError(t, err)
		require.Equal(t, once.MM(), again.MM())
	}
	theirs := modbasetest.Pysam(t, write(t, whole.String()))
	require.Len(t, theirs, reads)
	for i, rec := range readAll(t, whole.String()) {
		r := &planted[i]
		tags, err := record.Tags(rec.AuxFields)
		require.NoError(t, err)
		s := record.Sequence(rec)
		require.NoError(t, tags.Check(s))
		calls := slices.Collect(tags.Calls(s))
		n := len(r.Bases)
		require.Equal(t, modbasetest.Texts(r.Calls, 0, n), modbasetest.Texts(calls, 0, n), "read %d", i)
		require.Equal(t, theirs[rec.Name].Forward, modbasetest.Texts(calls, 0, n), "read %d", i)
		var placed []modbase.Call
		for call, at := range record.Placed(rec, tags) {
			call.At = at
			placed = append(placed, call)
		}
		require.Equal(t, theirs[rec.Name].Reference, modbasetest.Texts(placed, 0, 1<<30), "read %d", i)
	}
	cut := modbasetest.Pysam(t, write(t, parts.String()))
	require.Len(t, cut, 3*reads)
	for i := range planted {
		b := bounds[i]
		for k, part := range [][2]int{{b[0], b[2]}, {b[0], b[1]}, {b[1], b[2]}} {
			require.Equal(t, modbasetest.Texts(planted[i].Calls, part[0], part[1]), cut[fmt.Sprintf("%d/%d", i, k)].Forward, "read %d, part %d", i, k)
		}
	}
}

// TestFaults: tags that are of no read, or of another one, are reported by reason; pysam refuses the same
// ones.
func TestFaults(t *testing.T) {
	const bases = "ACGTCCGGACGT"
	cases := []struct {
		tags string
		want error
		says string
	}{
		{"MM:Z:C+m,0,1;\tML:B:C,1,2", nil, ""},
		{"MM:Z:\tML:B:C", nil, ""},
		{"MM:Z:C+m,0,1;", nil, ""},
		{"Mm:Z:C+m,0,1;\tMl:B:C,1,2", nil, ""},
		{"MM:Z:C+m,0,9;\tML:B:C,1,2", modbase.ErrBehind, "MM points behind the read: C+m lists more bases than there are C in its 12"},
		{"MM:Z:N+n,12;\tML:B:C,1", modbase.ErrBehind, "N+n"},
		{"MM:Z:C+mh,0,1;\tML:B:C,1,2,3", modbase.ErrProbabilities, "it has 3 values, and C+mh needs more"},
		{"MM:Z:C+m,0;\tML:B:C,1,2,3", modbase.ErrProbabilities, "it has 3 values, of which 2 are of no base"},
		{"MM:Z:C+m,0;\tML:B:C,1\tMN:i:14", modbase.ErrLength, "it is 14, and there are 12 bases"},
		{"MM:Z:C+m,0\tML:B:C,1", modbase.ErrSyntax, `"C+m,0" has no ; at its end`},
	}
	var text strings.Builder
	for i, c := range cases {
		fmt.Fprintf(&text, "%d\t16\tr\t1\t60\t12M\t*\t0\t0\t%s\t*\t%s\n", i, bases, c.tags)
	}
	theirs := modbasetest.Pysam(t, write(t, text.String()))
	var faults record.Faults
	for i, rec := range readAll(t, text.String()) {
		kept, err := record.Kept(slices.Clone(rec.AuxFields), record.Sequence(rec))
		require.Equal(t, cases[i].want != nil, slices.Equal(theirs[rec.Name].Forward, []string{"refused"}), cases[i].tags)
		if cases[i].want == nil {
			require.NoError(t, err, cases[i].tags)
			require.Equal(t, rec.AuxFields, kept)
			continue
		}
		require.ErrorIs(t, err, cases[i].want)
		require.ErrorContains(t, err, cases[i].says)
		require.Empty(t, kept)
		faults.Add(rec.Name, err)
	}
	list := faults.List()
	require.Len(t, list, 4)
	require.Equal(t, record.Fault{Reason: modbase.ErrProbabilities, Reads: 2, First: "6", Detail: list[1].Detail}, list[1])
	require.EqualValues(t, 2, list[2].Reads)

	// What pysam takes for granted: types of the tags.
	for tags, want := range map[string]error{
		"MM:i:5": modbase.ErrSyntax, "MM:Z:C+m,0;\tML:Z:x": modbase.ErrProbabilities,
		"MM:Z:C+m,0;\tML:B:c,1": modbase.ErrProbabilities, "MM:Z:C+m,0;\tMN:Z:12": modbase.ErrLength, "MM:Z:C+m,0;\tMN:i:-1": modbase.ErrLength,
	} {
		_, err := record.Tags(readAll(t, "x\t4\t*\t0\t0\t*\t*\t0\t0\t"+bases+"\t*\t"+tags+"\n")[0].AuxFields)
		require.ErrorIs(t, err, want, tags)
	}
}

// TestSet: tags are written where they were, under the names that they had, and MN behind them.
func TestSet(t *testing.T) {
	rec := readAll(t, "x\t4\t*\t0\t0\t*\t*\t0\t0\tACGTCCGG\t*\tMm:Z:C+m,0,1;\tqs:f:9\tMl:B:C,7,8\tRG:Z:a\n")[0]
	tags, err := record.Tags(rec.AuxFields)
	require.NoError(t, err)
	cut, err := tags.Slice(record.Sequence(rec), 3, 8)
	require.NoError(t, err)
	rec.AuxFields, err = record.Set(rec.AuxFields, cut)
	require.NoError(t, err)
	var out strings.Builder
	w, err := hts.NewWriter(&out, hts.SAM, nil, nil, 1)
	require.NoError(t, err)
	require.NoError(t, w.Write(rec))
	require.NoError(t, w.Close())
	require.Equal(t, "Mm:Z:C+m,1;\tqs:f:9\tMl:B:C,8\tRG:Z:a\tMN:i:5\n", strings.SplitN(out.String(), "\t", 12)[11])
	require.Len(t, record.Drop(rec.AuxFields), 2)

	_, err = tags.Slice(record.Sequence(rec), 3, 9)
	require.ErrorContains(t, err, "cutting the tags of 8 bases to [3, 9)")
}
