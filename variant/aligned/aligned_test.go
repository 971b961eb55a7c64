package aligned_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/biogo/hts/bam"
	"github.com/biogo/hts/sam"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/aligned"
)

// alignment is a line of SAM.
type alignment struct {
	name               string
	flag               int
	contig             string
	pos                int // 0-based
	mapq               int
	cigar, seq, qual   string
	contigNumber, size int
	tags               string // with a tab before each
}

func (a *alignment) line() string {
	return fmt.Sprintf("%s\t%d\t%s\t%d\t%d\t%s\t*\t0\t0\t%s\t%s%s\n", a.name, a.flag, a.contig, a.pos+1, a.mapq, a.cigar, a.seq, a.qual, a.tags)
}

// laboratory makes alignments of a sample that differs from its reference by the
// substitutions and deletions of single bases in edits.
type laboratory struct {
	rnd    *rand.Rand
	genome *genome.Genome
	edits  map[string]map[int]byte // by contig and position: the base, 0 where it is deleted
}

func newLaboratory(t testing.TB, seed uint64, lengths ...int) *laboratory {
	t.Helper()
	l := &laboratory{rnd: rand.New(rand.NewPCG(seed, 7)), edits: make(map[string]map[int]byte)}
	var text strings.Builder
	for i, n := range lengths {
		seq := make([]byte, n)
		for j := range seq {
			seq[j] = "ACGT"[l.rnd.IntN(4)]
		}
		fmt.Fprintf(&text, ">c%d\n%s\n", i+1, seq)
	}
	var err error
	l.genome, err = genome.Read(strings.NewReader(text.String()))
	require.NoError(t, err)
	return l
}

// plant changes a base into its complement, or deletes one that no neighbour
// equals, at about a position, and returns the call to expect.
func (l *laboratory) plant(contig string, about int, deletion bool) string {
	seq := l.genome.Contig(contig).Seq
	for seq[about] == seq[about+1] || seq[about] == seq[about-1] {
		about++
	}
	if l.edits[contig] == nil {
		l.edits[contig] = make(map[int]byte)
	}
	if deletion {
		l.edits[contig][about] = 0
		return fmt.Sprintf("%s:%d %s>%s", contig, about, seq[about-1:about+1], seq[about-1:about])
	}
	alt := "TGCA"[strings.IndexByte("ACGT", seq[about])]
	l.edits[contig][about] = alt
	return fmt.Sprintf("%s:%d %c>%c", contig, about+1, seq[about], alt)
}

// reads sequences a stretch n times, with 2 % wrong bases, in both directions.
func (l *laboratory) reads(contig string, start, end, n int) []alignment {
	ref := l.genome.Contig(contig).Seq
	var list []alignment
	for i := range n {
		a := alignment{name: fmt.Sprintf("%s-%d-%d", contig, start, i), contig: contig, pos: start, mapq: 60, flag: 16 * (i % 2), contigNumber: slices.Index(l.genome.Names(), contig), size: end - start}
		var seq, qual, cigar strings.Builder
		run := 0
		for pos := start; pos < end; pos++ {
			b := ref[pos]
			if alt, ok := l.edits[contig][pos]; ok && alt == 0 {
				fmt.Fprintf(&cigar, "%dM1D", run)
				run = 0
				continue
			} else if ok {
				b = alt
			}
			q := byte('5')
			if l.rnd.IntN(50) == 0 {
				b, q = "ACGT"[l.rnd.IntN(4)], '('
			}
			seq.WriteByte(b)
			qual.WriteByte(q)
			run++
		}
		fmt.Fprintf(&cigar, "%dM", run)
		a.seq, a.qual, a.cigar = seq.String(), qual.String(), cigar.String()
		list = append(list, a)
	}
	return list
}

// file writes alignments as SAM, sorted or in any other order.
func (l *laboratory) file(list []alignment, sorted bool) string {
	list = slices.Clone(list)
	order := "coordinate"
	if sorted {
		slices.SortStableFunc(list, func(a, b alignment) int {
			if a.contigNumber != b.contigNumber {
				return a.contigNumber - b.contigNumber
			}
			return a.pos - b.pos
		})
	} else {
		order = "unsorted"
		l.rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	var b strings.Builder
	fmt.Fprintf(&b, "@HD\tVN:1.6\tSO:%s\n", order)
	for _, c := range l.genome.Contigs {
		fmt.Fprintf(&b, "@SQ\tSN:%s\tLN:%d\n", c.Name, len(c.Seq))
	}
	b.WriteString("@RG\tID:a\tSM:patient\n")
	for i := range list {
		b.WriteString(list[i].line())
	}
	return b.String()
}

// toBAM converts SAM text.
func toBAM(t testing.TB, text string) []byte {
	t.Helper()
	sr, err := hts.NewSAMReader(strings.NewReader(text))
	require.NoError(t, err)
	var b bytes.Buffer
	bw, err := bam.NewWriter(&b, sr.Header(), 1)
	require.NoError(t, err)
	for {
		rec, err := sr.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.NoError(t, bw.Write(rec))
	}
	require.NoError(t, bw.Close())
	return b.Bytes()
}

// save writes a BAM file, and with flags of samtools index its index.
func save(t testing.TB, text string, index ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.bam")
	require.NoError(t, os.WriteFile(path, toBAM(t, text), 0o600))
	if len(index) > 0 {
		samtools, err := exec.LookPath("samtools")
		if err != nil {
			t.Skip("samtools is not installed")
		}
		out, err := exec.CommandContext(t.Context(), samtools, append(append([]string{"index"}, index...), path)...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	return path
}

// callText is everything that a call reports, as text.
func callText(t testing.TB, a *aligned.Alignments, opts aligned.Options) ([]string, aligned.Counts, error) {
	t.Helper()
	var out []string
	n, err := a.Call(t.Context(), opts, func(r *aligned.Region) error {
		for _, c := range r.Calls {
			out = append(out, fmt.Sprintf("call %s:%d %s>%s %g %v", c.GetContig(), c.GetPos(), c.GetRef(), c.GetAlt(), c.GetQual(), c.GetFilters()))
		}
		for _, b := range r.Blocks {
			out = append(out, fmt.Sprintf("block %s %+v", r.Contig.Name, b))
		}
		for _, s := range r.Callable {
			out = append(out, fmt.Sprintf("%s %s %d-%d", s.Callability, r.Contig.Name, s.Start, s.End))
		}
		return nil
	})
	return out, n, err
}

func passing(list []*streampb.Call) (out []string) {
	for _, c := range list {
		if len(c.GetFilters()) == 0 {
			out = append(out, fmt.Sprintf("%s:%d %s>%s", c.GetContig(), c.GetPos(), c.GetRef(), c.GetAlt()))
		}
	}
	return out
}

// border is a sample with variants around the border of two regions, in the last
// bases of a contig, and in another contig, and reads that are of no use.
func border(t testing.TB) (l *laboratory, reads []alignment, want []string) {
	l = newLaboratory(t, 3, 1_030_000, 5_000, 3_000)
	want = []string{
		l.plant("c1", 700, false), l.plant("c1", 2_000, true), l.plant("c1", 999_900, false), l.plant("c1", 1_000_050, true),
		l.plant("c1", 1_029_950, false), l.plant("c3", 1_500, false),
	}
	reads = append(reads, l.reads("c1", 500, 3_000, 20)...)
	reads = append(reads, l.reads("c1", 998_500, 1_002_000, 24)...)
	reads = append(reads, l.reads("c1", 1_028_000, 1_030_000, 20)...)
	reads = append(reads, l.reads("c3", 0, 3_000, 16)...)
	low := l.reads("c1", 5_000, 7_000, 12)
	for i := range low {
		low[i].mapq = 1
	}
	again := l.reads("c1", 500, 3_000, 3)
	again[0].flag, again[1].flag = 1024, 256
	again[0].name, again[1].name = "duplicate", "secondary"
	again[2].name, again[2].tags = "parent", "\tdx:i:-1"
	return l, append(append(reads, low...), again...), want
}

// What is called, and what is reported of places without a call, depends on neither
// the format, the order, the number of threads nor an index.
func TestSameFromEverywhere(t *testing.T) {
	l, reads, want := border(t)
	survey := variant.SurveyConfig{Blocks: true, Callable: true}
	sorted := l.file(reads, true)
	open := func(path string) *aligned.Alignments {
		a, err := aligned.Open(path, l.genome)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, a.Close()) })
		return a
	}
	stream := func(content []byte) *aligned.Alignments {
		a, err := aligned.Read(struct{ io.Reader }{bytes.NewReader(content)}, l.genome)
		require.NoError(t, err)
		require.Equal(t, []string{"patient"}, a.Samples())
		return a
	}
	first, n, err := callText(t, stream([]byte(sorted)), aligned.Options{Survey: survey})
	require.NoError(t, err)
	var calls []string
	for _, s := range first {
		if s, ok := strings.CutPrefix(s, "call "); ok && strings.HasSuffix(s, "[]") {
			f := strings.Fields(s)
			calls = append(calls, f[0]+" "+f[1])
		}
	}
	require.Equal(t, want, calls)
	require.Equal(t, aligned.Counts{Records: len(reads), Secondary: 1, Duplicates: 2, LowMapping: 12, Segments: 20 + 2*24 + 20 + 16, Regions: 4}, n)
	require.Contains(t, first, "LOW_MAPPING_QUALITY c1 5000-7000")
	require.Contains(t, first, "NO_COVERAGE c2 0-5000")

	for name, a := range map[string]*aligned.Alignments{
		"BAM":          stream(toBAM(t, sorted)),
		"unsorted SAM": stream([]byte(l.file(reads, false))),
		"unsorted BAM": open(save(t, l.file(reads, false))),
	} {
		got, _, err := callText(t, a, aligned.Options{Survey: survey, Threads: 1 + len(name)%4})
		require.NoError(t, err, name)
		require.Equal(t, first, got, name)
	}

	// Targets give the same as far as they go, whatever the order.
	targets := aligned.Targets{"c1": {{Start: 600, End: 1_200}, {Start: 999_990, End: 1_000_200}}, "c3": {{Start: 1_400, End: 3_000}}}
	var chosen []string
	for _, s := range first {
		for _, w := range []string{want[0], want[3], want[5]} {
			if strings.HasPrefix(s, "call "+w+" ") {
				chosen = append(chosen, s)
			}
		}
	}
	var targeted []string
	for name, a := range map[string]*aligned.Alignments{"sorted": open(save(t, sorted)), "unsorted": stream([]byte(l.file(reads, false)))} {
		got, n, err := callText(t, a, aligned.Options{Survey: survey, Targets: targets, Threads: 2})
		require.NoError(t, err, name)
		require.Equal(t, 3, n.Regions)
		var calls []string
		for _, s := range got {
			if strings.HasPrefix(s, "call ") {
				calls = append(calls, s)
			}
		}
		require.Equal(t, chosen, calls, name)
		if targeted == nil {
			targeted = got
		}
		require.Equal(t, targeted, got, name)
	}
	require.NotContains(t, strings.Join(targeted, "\n"), "c2")
}

// With an index only what may matter is read, and the same is called.
func TestIndexReadsOnlyWhatMatters(t *testing.T) {
	l, reads, _ := border(t)
	targets := aligned.Targets{"c1": {{Start: 999_000, End: 1_001_000}}, "c2": {{Start: 0, End: 5_000}}}
	var first []string
	for _, flags := range [][]string{nil, {"-b"}, {"-c"}, {"-c", "-m", "9"}} {
		a, err := aligned.Open(save(t, l.file(reads, true), flags...), l.genome)
		require.NoError(t, err)
		index, older := a.Index()
		require.Equal(t, flags != nil, index != "")
		require.False(t, older)
		got, n, err := callText(t, a, aligned.Options{Targets: targets, Survey: variant.SurveyConfig{Callable: true, Blocks: true}})
		require.NoError(t, err)
		require.NoError(t, a.Close())
		require.Equal(t, 3, n.Regions)
		if flags == nil {
			first = got
			continue
		}
		require.Equal(t, first, got, "%q", flags)
		require.Less(t, n.Records, len(reads), "everything was read")
	}
}

// What no read has is called like what all have.
func TestWithoutQualities(t *testing.T) {
	l, reads, want := border(t)
	for i := range reads {
		reads[i].qual = "*"
		reads[i].cigar = "5H" + reads[i].cigar + "7H"
	}
	reads = append(reads, alignment{name: "bare", contig: "c1", pos: 600, mapq: 60, cigar: "10M", seq: "*", qual: "*"})
	a, err := aligned.Read(strings.NewReader(l.file(reads, false)), l.genome)
	require.NoError(t, err)
	var calls []*streampb.Call
	n, err := a.Call(t.Context(), aligned.Options{}, func(r *aligned.Region) error {
		calls = append(calls, r.Calls...)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, want, passing(calls))
	require.Equal(t, 1, n.WithoutBases)
}

// A CIGAR of more operations than BAM's counter can hold is in a tag.
func TestLongCigar(t *testing.T) {
	l := newLaboratory(t, 9, 3_000)
	want := l.plant("c1", 1_500, false)
	sr, err := sam.NewReader(strings.NewReader(l.file(l.reads("c1", 500, 2_500, 20), true)))
	require.NoError(t, err)
	var b bytes.Buffer
	bw, err := bam.NewWriter(&b, sr.Header(), 1)
	require.NoError(t, err)
	for {
		rec, err := sr.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		operations := make([]uint32, 0, len(rec.Cigar))
		for _, op := range rec.Cigar {
			operations = append(operations, uint32(op))
		}
		reference, _ := rec.Cigar.Lengths()
		aux, err := sam.NewAux(sam.NewTag("CG"), operations)
		require.NoError(t, err)
		rec.AuxFields = append(rec.AuxFields, aux)
		rec.Cigar = sam.Cigar{sam.NewCigarOp(sam.CigarSoftClipped, rec.Seq.Length), sam.NewCigarOp(sam.CigarSkipped, reference)}
		require.NoError(t, bw.Write(rec))
	}
	require.NoError(t, bw.Close())
	a, err := aligned.Read(&b, l.genome)
	require.NoError(t, err)
	var calls []*streampb.Call
	_, err = a.Call(t.Context(), aligned.Options{}, func(r *aligned.Region) error {
		calls = append(calls, r.Calls...)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{want}, passing(calls))
}

// What is wrong with a record is counted, by reason, and the others are called; = is a base of the
// reference.
func TestFaultyRecords(t *testing.T) {
	l := newLaboratory(t, 22, 3_000)
	want := l.plant("c1", 1_000, false)
	reads := l.reads("c1", 300, 2_500, 20)
	ref := l.genome.Contigs[0].Seq
	for i := range reads {
		seq := []byte(reads[i].seq)
		for k := range seq {
			if seq[k] == ref[300+k] {
				seq[k] = '='
			}
		}
		reads[i].seq = string(seq)
	}
	seq, qual := string(ref[400:500]), strings.Repeat("5", 100)
	for i, cigar := range []string{"100S", "97I3S", "50M10N50M", "99M", "*", "2600D100M", "100M"} {
		a := alignment{name: fmt.Sprint("fault-", i), contig: "c1", pos: 400, mapq: 60, cigar: cigar, seq: seq, qual: qual}
		if cigar == "100M" {
			a.pos = 2_950
		}
		reads = append(reads, a)
	}
	for name, content := range map[string][]byte{"SAM": []byte(l.file(reads, true)), "BAM": toBAM(t, l.file(reads, true))} {
		a, err := aligned.Read(bytes.NewReader(content), l.genome)
		require.NoError(t, err, name)
		var calls []*streampb.Call
		n, err := a.Call(t.Context(), aligned.Options{}, func(r *aligned.Region) error {
			calls = append(calls, r.Calls...)
			return nil
		})
		require.NoError(t, err, name)
		require.Equal(t, []string{want}, passing(calls), name)
		require.Contains(t, n.FirstFault, `read "fault-`, name)
		require.Equal(t, 5, n.Faulty(), name)
		n.FirstFault = ""
		require.Equal(t, aligned.Counts{
			Records: 27, WithoutBases: 2, Spliced: 1, Beyond: 2, Contradicted: 2, Segments: 20, Regions: 1,
		}, n, name)
	}
}

// A substitution beside a deletion, in all reads but one, is called with the same depths and qualities whether the bases that
// equal the reference are spelt out or written as =. A caller that takes = for an unknown base hears one of two alleles alone.
func TestEqualSignsBesideADeletion(t *testing.T) {
	l := newLaboratory(t, 24, 3_000)
	ref := l.genome.Contigs[0].Seq
	want := []string{l.plant("c1", 1_000, false), l.plant("c1", 1_020, true)}
	spelt := l.reads("c1", 300, 2_500, 20)
	l.edits = make(map[string]map[int]byte)
	spelt = append(spelt, l.reads("c1", 300, 2_500, 1)...)
	for i := range spelt {
		spelt[i].name = fmt.Sprint("read-", i)
	}

	equal := slices.Clone(spelt)
	signs := 0
	for i := range equal {
		// The reads have one deleted base at most, behind this many.
		before := len(ref)
		if strings.Contains(equal[i].cigar, "D") {
			_, err := fmt.Sscanf(equal[i].cigar, "%dM1D", &before)
			require.NoError(t, err)
		}
		seq := []byte(equal[i].seq)
		for k := range seq {
			at := equal[i].pos + k
			if k >= before {
				at++
			}
			if seq[k] == ref[at] {
				seq[k] = '='
				signs++
			}
		}
		equal[i].seq = string(seq)
	}
	require.Greater(t, signs, 21*2_000)

	called := func(reads []alignment) (calls []*streampb.Call) {
		a, err := aligned.Read(bytes.NewReader(toBAM(t, l.file(reads, true))), l.genome)
		require.NoError(t, err)
		n, err := a.Call(t.Context(), aligned.Options{}, func(r *aligned.Region) error {
			calls = append(calls, r.Calls...)
			return nil
		})
		require.NoError(t, err)
		require.Zero(t, n.Faulty())
		return calls
	}
	letters, signed := called(spelt), called(equal)
	require.Equal(t, want, passing(letters))
	require.Len(t, signed, len(letters))
	for i, c := range letters {
		require.True(t, proto.Equal(c, signed[i]), "%v and %v", c, signed[i])
	}
	require.EqualValues(t, 21, letters[0].GetDepth())
}

// Of the samples in a file one is called, or all as one.
func TestSamples(t *testing.T) {
	l := newLaboratory(t, 31, 6_000)
	plant := func(about int) (string, []alignment) {
		want := l.plant("c1", about, false)
		reads := l.reads("c1", about-500, about+500, 16)
		l.edits = make(map[string]map[int]byte)
		return want, append(reads, l.reads("c1", about-500+2*1_000, about+500+2*1_000, 16)...)
	}
	first, ofFirst := plant(1_000)
	second, ofSecond := plant(2_000)
	lines := strings.Split(l.file(append(slices.Clone(ofFirst), ofSecond...), true), "\n")
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "@RG"):
			lines[i] = "@RG\tID:a\tSM:one\n@RG\tID:b\tSM:two\n@RG\tID:c\tSM:one\n@RG\tID:d"
		case strings.HasPrefix(line, "c1-500-") || strings.HasPrefix(line, "c1-2500-"):
			lines[i] += "\tRG:Z:" + []string{"a", "c"}[i%2]
		case line != "" && line[0] != '@':
			lines[i] += "\tRG:Z:b"
		}
	}
	lines[len(lines)-1] = "stray\t0\tc1\t1001\t60\t4M\t*\t0\t0\tACGT\t!!!!\nof-none\t0\tc1\t1001\t60\t4M\t*\t0\t0\tACGT\t!!!!\tRG:Z:d\n"
	text := strings.Replace(strings.Join(lines, "\n"), "SO:coordinate", "SO:unsorted", 1)
	for sample, want := range map[string][]string{"one": {first}, "two": {second}, "": {first, second}} {
		a, err := aligned.Read(strings.NewReader(text), l.genome)
		require.NoError(t, err)
		require.Equal(t, []string{"one", "two"}, a.Samples())
		var calls []*streampb.Call
		n, err := a.Call(t.Context(), aligned.Options{Sample: sample}, func(r *aligned.Region) error {
			calls = append(calls, r.Calls...)
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, want, passing(calls), sample)
		if sample != "" {
			require.Equal(t, 34, n.OtherSamples)
		}
	}
}

func TestRefuses(t *testing.T) {
	l := newLaboratory(t, 22, 3_000)
	const header = "@HD\tVN:1.6\tSO:coordinate\n@SQ\tSN:c1\tLN:3000\n"
	seq := string(l.genome.Contigs[0].Seq[100:110])
	record := func(name string, pos int, cigar string) string {
		return fmt.Sprintf("%s\t0\tc1\t%d\t60\t%s\t*\t0\t0\t%s\t*\n", name, pos, cigar, seq)
	}
	strange := newLaboratory(t, 23, 3_000).reads("c1", 100, 2_000, 1)[0]
	whole := toBAM(t, header+record("r", 101, "10M"))
	for _, tc := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"good", []byte(header + record("r", 101, "10M")), ""},
		{"good BAM", whole, ""},
		{"empty", nil, "the file is empty"},
		{"text", []byte("hello\n"), "neither BAM, CRAM nor SAM with a header"},
		{"CRAM without its end", []byte("CRAM\x03\x00"), "the container that ends a CRAM file is missing"},
		{"gzip", []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x00nothing"), "not a BAM file, or damaged"},
		{"without its end", whole[:len(whole)-28], "the file is cut off"},
		{"cut off", whole[:len(whole)*2/3], "damaged or cut off"},
		{"no contigs", []byte("@HD\tVN:1.6\n"), "names no reference"},
		{"another contig", []byte("@SQ\tSN:chrX\tLN:3000\n"), "they are to chrX, which isn't in the reference FASTA (it has c1): choose what is there with --region or --bed"},
		{"another length", []byte("@SQ\tSN:c1\tLN:2999\n"), "c1 has 2999 bases in their header and 3000 in the reference FASTA: they are to another reference"},
		{"another reference", []byte(header + strange.line()), "the reads over c1 disagree with the reference FASTA at 7"},
		{"unsorted", []byte(header + record("a", 201, "10M") + record("b", 101, "10M")), `reading alignment 2, read "b" at c1:101: the header says that the file is sorted by coordinate, but this alignment comes too late: sort it (samtools sort)`},
		{"beyond the contig, most of them", []byte(header + record("a", 101, "10M") + strings.Repeat(record("r", 2995, "10M"), 10)), "10 of 11 over c1 go beyond its end: they were aligned to another sequence of that name"},
		{"no number", []byte(header + record("r", 101, "10M") + "r\t0\tc1\tx\t60\t10M\t*\t0\t0\t*\t*\n"), "reading alignment 2: line 4: column 4"},
	} {
		a, err := aligned.Read(bytes.NewReader(tc.content), l.genome)
		if err == nil {
			_, err = a.Call(t.Context(), aligned.Options{}, func(*aligned.Region) error { return nil })
		}
		if tc.name == "CIGAR too long" {
			require.Error(t, err, tc.name)
		} else if tc.want == "" {
			require.NoError(t, err, tc.name)
		} else {
			require.ErrorContains(t, err, tc.want, tc.name)
		}
	}
}

// What is called from CRAM is what is called from BAM, of every version, in any order, whether the
// reference is needed for it or not; and it is called from no other reference.
func TestCRAMIsCalledAsBAM(t *testing.T) {
	samtools, err := exec.LookPath("samtools")
	if err != nil {
		require.NotEqual(t, "true", os.Getenv("CI"), "CI needs samtools")
		t.Skip("samtools is not installed")
	}
	l, reads, _ := border(t)
	dir := t.TempDir()
	var fasta, other strings.Builder
	for _, c := range l.genome.Contigs {
		fmt.Fprintf(&fasta, ">%s\n%s\n", c.Name, c.Seq)
		fmt.Fprintf(&other, ">%s\n%s%s\n", c.Name, c.Seq[len(c.Seq)/2:], c.Seq[:len(c.Seq)/2])
	}
	reference := filepath.Join(dir, "ref.fa")
	require.NoError(t, os.WriteFile(reference, []byte(fasta.String()), 0o600))
	opts := aligned.Options{Threads: 2}
	for _, sorted := range []bool{true, false} {
		text := l.file(reads, sorted)
		a, err := aligned.Read(strings.NewReader(text), l.genome)
		require.NoError(t, err)
		want, wantCounts, err := callText(t, a, opts)
		require.NoError(t, err)
		require.NotEmpty(t, want)
		for _, format := range []string{"cram,version=2.1", "cram,version=3.0", "cram,version=3.1,small", "cram,no_ref=1"} {
			path := filepath.Join(dir, "x.cram")
			cmd := exec.CommandContext(t.Context(), samtools, "view", "-O", format, "-T", reference, "-o", path, "-")
			cmd.Stdin = strings.NewReader(text)
			said, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", said)
			a, err := aligned.Open(path, l.genome)
			require.NoError(t, err)
			require.Equal(t, sorted, a.Sorted())
			got, gotCounts, err := callText(t, a, opts)
			require.NoError(t, err)
			require.NoError(t, a.Close())
			require.Equal(t, want, got, format)
			require.Equal(t, wantCounts, gotCounts, format)
		}
	}
	path := filepath.Join(dir, "y.cram")
	out, err := exec.CommandContext(t.Context(), samtools, "view", "-O", "cram", "-T", reference, "-o", path, save(t, l.file(reads, true))).CombinedOutput()
	require.NoError(t, err, "%s", out)
	strange, err := genome.Read(strings.NewReader(other.String()))
	require.NoError(t, err)
	a, err := aligned.Open(path, strange)
	require.NoError(t, err)
	_, _, err = callText(t, a, opts)
	require.ErrorContains(t, err, "of c1 are others in the reference FASTA than those that the file was written with (MD5): name that FASTA")
	require.NotContains(t, err.Error(), "damaged")
	require.NoError(t, a.Close())
}

func TestCancelledCallingStops(t *testing.T) {
	l, reads, _ := border(t)
	file := l.file(reads, true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a, err := aligned.Read(strings.NewReader(file), l.genome)
	require.NoError(t, err)
	_, err = a.Call(ctx, aligned.Options{Threads: 3}, func(*aligned.Region) error { return nil })
	require.ErrorIs(t, err, context.Canceled)

	full := errors.New("disk full")
	a, err = aligned.Read(strings.NewReader(file), l.genome)
	require.NoError(t, err)
	_, err = a.Call(t.Context(), aligned.Options{Threads: 3}, func(*aligned.Region) error { return full })
	require.ErrorIs(t, err, full)
}

// A file may hold anything: an error, or an answer, but nothing else.
func FuzzCall(f *testing.F) {
	l := newLaboratory(f, 5, 2_000)
	l.plant("c1", 1_000, false)
	text := l.file(l.reads("c1", 900, 1_100, 3), true)
	f.Add([]byte(text))
	f.Add(toBAM(f, text))
	f.Add([]byte("@SQ\tSN:c1\tLN:2000\nr\t16\tc1\t5\t9\t2H3S1M2D1I4M\t*\t0\t0\tACGTACGTA\t*\n"))
	// BAM without compression, so that what is changed is the content.
	var plain bytes.Buffer
	sr, err := sam.NewReader(strings.NewReader(text))
	require.NoError(f, err)
	bw, err := bam.NewWriterLevel(&plain, sr.Header(), 0, 1)
	require.NoError(f, err)
	for {
		rec, err := sr.Read()
		if err != nil {
			break
		}
		require.NoError(f, bw.Write(rec))
	}
	require.NoError(f, bw.Close())
	f.Add(plain.Bytes())
	f.Fuzz(func(_ *testing.T, content []byte) {
		a, err := aligned.Read(bytes.NewReader(content), l.genome)
		if err != nil {
			return
		}
		defer a.Close()
		_, _ = a.Call(context.Background(), aligned.Options{Survey: variant.SurveyConfig{Callable: true}}, func(*aligned.Region) error { return nil })
	})
}

// TestNoRecordStopsACall: whatever a record says of itself, in a file that is otherwise fine, the others
// are called as they are without it.
func TestNoRecordStopsACall(t *testing.T) {
	l := newLaboratory(t, 41, 3_000)
	want := l.plant("c1", 1_500, false)
	good := l.file(l.reads("c1", 500, 2_500, 20), false)
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		text := good
		for i := range 100 {
			n := 1 + rnd.IntN(200)
			seq, qual := make([]byte, n), make([]byte, n)
			for k := range seq {
				seq[k], qual[k] = "ACGTN=RU"[rnd.IntN(8)], "!5~I"[rnd.IntN(4)]
			}
			var cigar strings.Builder
			for range rnd.IntN(6) {
				fmt.Fprintf(&cigar, "%d%c", rnd.IntN(120), "MIDNSHP=XB"[rnd.IntN(10)])
			}
			if rnd.IntN(2) == 0 { // one that fits
				cigar.Reset()
				left := rnd.IntN(n + 1)
				fmt.Fprintf(&cigar, "%dS%d%c", left, n-left, "MI=XS"[rnd.IntN(5)])
			}
			if cigar.Len() == 0 {
				cigar.WriteByte('*')
			}
			text += fmt.Sprintf("odd%d\t%d\tc1\t%d\t%d\t%s\t*\t0\t0\t%s\t%s\n", i, []int{0, 16, 4, 256, 2048, 2064, 1024, 129}[rnd.IntN(8)],
				rnd.IntN(3_400), rnd.IntN(5), cigar.String(), seq, qual)
		}
		for name, content := range map[string][]byte{"SAM": []byte(text), "BAM": toBAM(t, text)} {
			a, err := aligned.Read(bytes.NewReader(content), l.genome)
			require.NoError(t, err)
			var calls []*streampb.Call
			n, err := a.Call(t.Context(), aligned.Options{Survey: variant.SurveyConfig{Callable: true}}, func(r *aligned.Region) error {
				calls = append(calls, r.Calls...)
				return nil
			})
			if err != nil && strings.Contains(err.Error(), "go beyond its end") {
				t.Fatal("the odd records are taken for those of another reference")
			}
			require.NoError(t, err, "%s, seed %d", name, seed)
			require.Equal(t, []string{want}, passing(calls))
			require.Equal(t, 120, n.Records)
		}
	}
}
