package hts_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biogo/hts/bam"
	"github.com/biogo/hts/sam"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/genome"
)

func setup(t testing.TB) (*genome.Genome, *sam.Header, *hts.Records) {
	t.Helper()
	g, err := genome.Read(strings.NewReader(">one\n" + strings.Repeat("ACGTTGCA", 100) + "\n>two\nGGGACATTTACC\n"))
	require.NoError(t, err)
	group, err := sam.NewReadGroup("g", "", "", "", "", "ONT", "", "s", "", "", time.Time{}, 0)
	require.NoError(t, err)
	h, err := hts.Header(g, group, sam.NewProgram("pore", "pore", "pore align", "", "1"))
	require.NoError(t, err)
	return g, h, hts.NewRecords(g, h)
}

func tag(t testing.TB, r *sam.Record, name string) any {
	t.Helper()
	aux, ok := r.Tag([]byte(name))
	require.True(t, ok, "tag %s is missing", name)
	return aux.Value()
}

func TestRecords(t *testing.T) {
	_, _, records := setup(t)
	op := func(k align.OpKind, n int) align.Op { return align.Op{Kind: k, Len: n} }
	// two: GGGACATTTACC; the read is 2 clipped bases, GGG, A>T, C, (AT gone), TT, +CC, ACC and 1 clipped.
	forward := "NNGGGTCTTCCACCN"
	ops := []align.Op{op(align.Match, 3), op(align.Mismatch, 1), op(align.Match, 1), op(align.Deletion, 2), op(align.Match, 2), op(align.Insertion, 2), op(align.Match, 3)}
	for _, reverse := range []bool{false, true} {
		read := &hts.Read{Name: "r", Seq: []byte(strings.ToLower(forward)), Qualities: []byte("abcdefghijklmno")}
		a := align.Alignment{Contig: "two", Start: 0, End: 12, QueryStart: 2, QueryEnd: 14, Ops: ops, NM: 5, Score: 9, MappingQuality: 60, Reverse: reverse}
		if reverse {
			genome.ReverseComplement(read.Seq)
			a.QueryStart, a.QueryEnd = 1, 13
		}
		other := a
		other.Supplementary, other.Reverse = true, false
		other.QueryStart, other.QueryEnd = 2, 14
		read.Alignments = []align.Alignment{a, other}
		got, err := records.Of(read)
		require.NoError(t, err)
		require.Len(t, got, 2)
		r := got[0]
		require.Equal(t, forward, string(r.Seq.Expand()))
		require.Equal(t, "2S3=1X1=2D2=2I3=1S", r.Cigar.String())
		require.Equal(t, "3A1^AT5", tag(t, r, "MD"))
		require.Equal(t, "g", tag(t, r, "RG"))
		require.Equal(t, "two,1,+,2S3=1X1=2D2=2I3=1S,60,5;", tag(t, r, "SA"))
		require.Equal(t, reverse, r.Flags&sam.Reverse != 0)
		require.NotZero(t, got[1].Flags&sam.Supplementary)
		quals := "abcdefghijklmno"
		if reverse {
			quals = "onmlkjihgfedcba"
		}
		require.Equal(t, quals, string(r.Qual))
	}
	unmapped, err := records.Of(&hts.Read{Name: "u", Seq: []byte("ACGu"), Qualities: []byte("!!!!")})
	require.NoError(t, err)
	require.Len(t, unmapped, 1)
	require.Equal(t, "ACGT", string(unmapped[0].Seq.Expand()))
	require.Equal(t, sam.Unmapped, unmapped[0].Flags)
	require.Equal(t, "g", tag(t, unmapped[0], "RG"))
}

func TestRecordsRefuse(t *testing.T) {
	_, _, records := setup(t)
	a := func(contig string, end int) []align.Alignment {
		return []align.Alignment{{Contig: contig, End: end, QueryEnd: end, Ops: []align.Op{{Kind: align.Match, Len: end}}}}
	}
	for _, tc := range []struct {
		read hts.Read
		want string
	}{
		{hts.Read{Name: ""}, "name of 0 bytes"},
		{hts.Read{Name: strings.Repeat("x", 255)}, "name of 255 bytes"},
		{hts.Read{Name: "a@b"}, "'@'"},
		{hts.Read{Name: "a", Seq: []byte("ACG"), Alignments: a("three", 3)}, "three is not in the header"},
		{hts.Read{Name: "a", Seq: []byte("AC"), Alignments: a("two", 3)}, "covers 3 bases of 2"},
		{hts.Read{Name: "a", Seq: bytes.Repeat([]byte("A"), 13), Alignments: a("two", 13)}, "outside the contig"},
	} {
		_, err := records.Of(&tc.read)
		require.ErrorContains(t, err, tc.want)
	}
}

// random returns records at random places, many at the same.
func random(t testing.TB, records *hts.Records, n int) []*sam.Record {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	var out []*sam.Record
	for i := range n {
		read := &hts.Read{Name: fmt.Sprintf("r%d", i), Seq: []byte("ACGTTGCA"), Qualities: []byte("????????")}
		if rnd.IntN(10) > 0 {
			at := 8 * rnd.IntN(100)
			read.Alignments = []align.Alignment{{Contig: "one", Start: at, End: at + 8, QueryEnd: 8, Ops: []align.Op{{Kind: align.Match, Len: 8}}, Reverse: rnd.IntN(2) == 0}}
		}
		made, err := records.Of(read)
		require.NoError(t, err)
		out = append(out, made...)
	}
	return out
}

// However little memory there is, the output is the same, sorted, and no file is left.
func TestSorterGivesTheSameInLittleMemory(t *testing.T) {
	_, header, records := setup(t)
	all := random(t, records, 2000)
	write := func(memory int64, format hts.Format) string {
		folder := t.TempDir()
		var out bytes.Buffer
		s := hts.NewSorter(&out, header, hts.SorterConfig{Memory: memory, Folder: folder, Format: format, Threads: 2})
		most := 0
		for _, rec := range all {
			require.NoError(t, s.Write(rec))
			entries, err := os.ReadDir(folder)
			require.NoError(t, err)
			most = max(most, len(entries))
		}
		require.NoError(t, s.Finish())
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
		entries, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Empty(t, entries)
		require.Equal(t, memory > 0, most > 3)
		return out.String()
	}
	for _, format := range []hts.Format{hts.BAM, hts.SAM} {
		require.Equal(t, write(0, format), write(100_000, format))
	}
	r, err := bam.NewReader(strings.NewReader(write(100_000, hts.BAM)), 1)
	require.NoError(t, err)
	require.Equal(t, sam.Coordinate, r.Header().SortOrder)
	seen := map[string]bool{}
	last, unmapped := -1, false
	for {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.False(t, seen[rec.Name])
		seen[rec.Name] = true
		if rec.Ref == nil {
			unmapped = true
			continue
		}
		require.False(t, unmapped, "a placed record after unmapped ones")
		require.GreaterOrEqual(t, rec.Pos, last)
		last = rec.Pos
	}
	require.Len(t, seen, len(all))
}

// A full disk is reported as an error.
func TestSorterReportsErrors(t *testing.T) {
	_, header, records := setup(t)
	s := hts.NewSorter(io.Discard, header, hts.SorterConfig{Memory: 1, Folder: filepath.Join(t.TempDir(), "missing")})
	require.ErrorContains(t, s.Write(random(t, records, 1)[0]), "sorting alignments")
	require.NoError(t, s.Close())
	s = hts.NewSorter(broken{}, header, hts.SorterConfig{})
	require.NoError(t, s.Write(random(t, records, 1)[0]))
	require.ErrorContains(t, s.Finish(), "writing alignments: no room")
	require.NoError(t, s.Close())
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no room") }

// samtools accepts the file.
func TestSamtools(t *testing.T) {
	samtools, err := exec.LookPath("samtools")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("samtools is not installed")
	}
	_, header, records := setup(t)
	path := filepath.Join(t.TempDir(), "x.bam")
	f, err := os.Create(path)
	require.NoError(t, err)
	s := hts.NewSorter(f, header, hts.SorterConfig{})
	for _, rec := range random(t, records, 500) {
		require.NoError(t, s.Write(rec))
	}
	require.NoError(t, s.Finish())
	require.NoError(t, f.Close())
	for _, args := range [][]string{{"quickcheck", "-v", path}, {"index", path}} {
		out, err := exec.CommandContext(t.Context(), samtools, args...).CombinedOutput()
		require.NoError(t, err, "samtools %v: %s", args, out)
		require.Empty(t, string(out))
	}
}

// TestTitleTags: tags in titles go to all records of a read, in their order; words that are no tags, and
// tags of alignments, don't.
func TestTitleTags(t *testing.T) {
	tags := hts.TitleTags("runid=5 ch=3\tMM:Z:C+m?,1;\tML:B:C,200\tNM:i:7\tRG:Z:x\ter:Z:\tqs:f:17.5\tMM:Z:again")
	_, header, records := setup(t)
	got, err := records.Of(&hts.Read{Name: "a", Seq: []byte("ACGT"), Tags: tags})
	require.NoError(t, err)
	two, err := records.Of(&hts.Read{Name: "b", Seq: []byte("ACGTTGCA"), Tags: tags, Alignments: []align.Alignment{
		{Contig: "one", End: 4, QueryEnd: 4, Ops: []align.Op{{Kind: align.Match, Len: 4}}},
		{Contig: "one", Start: 8, End: 12, QueryStart: 4, QueryEnd: 8, Reverse: true, Supplementary: true, Ops: []align.Op{{Kind: align.Match, Len: 4}}},
	}})
	require.NoError(t, err)
	var out bytes.Buffer
	w, err := hts.NewWriter(&out, hts.SAM, nil, header.Refs(), 1)
	require.NoError(t, err)
	for _, rec := range append(got, two...) {
		require.NoError(t, w.Write(rec))
	}
	require.NoError(t, w.Close())
	for line := range strings.Lines(out.String()) {
		require.True(t, strings.HasSuffix(line, "\tMM:Z:C+m?,1;\tML:B:C,200\ter:Z:\tqs:f:17.5\n"), line)
	}
	require.Equal(t, 3, strings.Count(out.String(), "\n"))
	require.Empty(t, hts.TitleTags("runid=5 ch=3"))
}

// Bases that are written as = are those of the reference opposite them, behind clips, insertions, deletions and skips too; where
// no base is opposite, as in an insertion or beyond the contig, they are N.
func TestBasesOfEqualSigns(t *testing.T) {
	ref := []byte("ACGTTGCAAGTC")
	for _, tt := range []struct{ cigar, seq, want string }{
		{"6M", "======", "ACGTTG"},
		{"2S4M", "TG=A==", "TGAAGT"},
		{"3H2M2I2M", "====G=", "ACNNGT"},
		{"2M3D4M", "===T==", "ACGTAA"},
		{"2M4N2M1S", "====T", "ACCAT"},
		{"6=", "ACGTTG", "ACGTTG"},
	} {
		rec := &sam.Record{Seq: sam.NewSeq([]byte(tt.seq))}
		var err error
		rec.Cigar, err = sam.ParseCigar([]byte(tt.cigar))
		require.NoError(t, err)
		require.Equal(t, tt.want, string(hts.Bases(rec, ref)), tt.cigar)
	}
	rec := &sam.Record{Pos: 10, Seq: sam.NewSeq([]byte("===")), Cigar: sam.Cigar{sam.NewCigarOp(sam.CigarMatch, 3)}}
	require.Equal(t, "TCN", string(hts.Bases(rec, ref)))
}
