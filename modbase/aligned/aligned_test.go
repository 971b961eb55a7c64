package aligned_test

import (
	"bytes"
	"cmp"
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

	"github.com/biogo/hts/sam"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align/hts"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/aligned"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/testenv"
)

// scene is a small genome with reads aligned to it in every way.
type scene struct {
	fasta, sam string // files
	genome     *genome.Genome
}

// lists are the modifications that the reads' tags list, the common ones more often.
var lists = []string{"C+m?", "C+m?", "C+h?;C+m?", "C+hm?", "C+m.", "A+a.;C+mh.", "A+a?;C+m?", "C+m;G-m", "G-m?", "C+76792?;C+m?", "N+n?;C+m.", "T+g.;U+e?", "C+x?", "", "C+m?;G-h."}

// newScene makes a scene. reads that can't be used are among them if faults says so.
func newScene(t *testing.T, seed uint64, faults bool) *scene {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 44))
	dir := t.TempDir()
	s := &scene{fasta: filepath.Join(dir, "ref.fa"), sam: filepath.Join(dir, "reads.sam")}
	var fasta strings.Builder
	contigs := map[string][]byte{}
	names := []string{"two", "one"}
	for _, name := range names {
		seq := make([]byte, 300+rng.IntN(300))
		for i := range seq {
			if seq[i] = "ACGT"[rng.IntN(4)]; i > 0 && rng.IntN(5) == 0 {
				copy(seq[i-1:], "CG")
			}
		}
		contigs[name] = seq
		fmt.Fprintf(&fasta, ">%s\n%s\n", name, seq)
	}
	require.NoError(t, os.WriteFile(s.fasta, []byte(fasta.String()), 0o600))
	var err error
	s.genome, err = genome.Read(strings.NewReader(fasta.String()))
	require.NoError(t, err)
	type placed struct {
		contig, at int
		line       string
	}
	var all []placed
	for n := range 150 {
		contig := rng.IntN(2)
		seq := contigs[names[contig]]
		at := rng.IntN(len(seq) - 20)
		cigar, bases := "", []byte{}
		op := func(kind byte, n int, b []byte) {
			cigar += fmt.Sprintf("%d%c", n, kind)
			bases = append(bases, b...)
		}
		random := func(n int) []byte {
			b := make([]byte, n)
			for i := range b {
				b[i] = "ACGT"[rng.IntN(4)]
			}
			return b
		}
		if rng.IntN(3) == 0 {
			op('H', 3, nil)
		}
		if rng.IntN(2) == 0 {
			op('S', 4, random(4))
		}
		for pos := at; ; {
			k := min(1+rng.IntN(40), len(seq)-pos)
			stretch := bytes.Clone(seq[pos : pos+k])
			for i := range stretch {
				if rng.IntN(12) == 0 {
					stretch[i] = "ACGTN"[rng.IntN(5)]
				}
			}
			op("M=X"[rng.IntN(3)], k, stretch)
			if pos += k; len(seq)-pos < 20 || rng.IntN(6) == 0 {
				break
			}
			switch rng.IntN(10) {
			case 7: // padding, as of an alignment of many reads
				op('P', 2, nil)
			case 8:
				op('P', 1, nil)
				op('I', 2, random(2))
				op('P', 1, nil)
				op('D', 2, nil)
				pos += 2
			case 9:
				op('D', 1, nil)
				op('N', 5, nil)
				op('I', 1, random(1))
				pos += 6
			case 0:
				op('N', 7, nil)
				pos += 7
			case 1, 2, 3:
				k := 1 + rng.IntN(3)
				op('D', k, nil)
				pos += k
			case 4:
				op('I', 2, random(2))
				op('D', 1, nil)
				pos++
			default:
				op('I', 2, random(2))
			}
		}
		if rng.IntN(2) == 0 {
			op('S', 5, random(5))
		}
		flag := []int{0, 0, 0, 0, 0, 256, 2048, 1024, 512}[rng.IntN(9)]
		forward := bytes.Clone(bases)
		if rng.IntN(2) == 0 {
			flag |= 16
			genome.ReverseComplement(forward)
		}
		tags := tagsOf(rng, forward)
		if faults && rng.IntN(10) == 0 {
			tags = []string{"MM:Z:C+m?,900;\tML:B:C,1", "MM:Z:C+m?,0;\tML:B:C", "MM:Z:C+m.,0;", "MM:Z:C+m?;\tML:B:C\tMN:i:1", "MM:Z:C+mh?,0;\tML:B:C,200,200"}[n%5]
		}
		if hp := rng.IntN(3); hp > 0 {
			tags += fmt.Sprintf("\tHP:i:%d", hp)
		}
		all = append(all, placed{contig, at, fmt.Sprintf("r%d\t%d\t%s\t%d\t60\t%s\t*\t0\t0\t%s\t*\t%s\n", n, flag, names[contig], at+1, cigar, bases, strings.Trim(tags, "\t"))})
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Or(cmp.Compare(a.contig, b.contig), cmp.Compare(a.at, b.at)) })
	text := "@HD\tVN:1.6\tSO:coordinate\n"
	for _, name := range names {
		text += fmt.Sprintf("@SQ\tSN:%s\tLN:%d\n", name, len(contigs[name]))
	}
	for _, p := range all {
		text += p.line
	}
	text += "u\t4\t*\t0\t0\t*\t*\t0\t0\tACGT\t*\tMM:Z:C+m?,0;\tML:B:C,9\n"
	require.NoError(t, os.WriteFile(s.sam, []byte(text), 0o600))
	return s
}

// tagsOf are tags of a read, of which the probabilities of a base add up to at most 1.
func tagsOf(rng *rand.Rand, bases []byte) string {
	heads := lists[rng.IntN(len(lists))]
	if heads == "" {
		return ""
	}
	mm, ml := "MM:Z:", "ML:B:C"
	share := 1 + rng.IntN(4)
	// The lists of one text cover the same bases, as models of several modifications do, or others.
	same, seed := rng.IntN(2) == 0, rng.Uint64()
	for head := range strings.SplitSeq(heads, ";") {
		mm += head
		codes := len(strings.Trim(head[2:], ".?"))
		if head[2] <= '9' {
			codes = 1
		}
		choose := rng
		if same {
			choose = rand.New(rand.NewPCG(seed, 1))
		}
		skipped := 0
		for _, b := range bases {
			if letter := strings.Replace(head[:1], "U", "T", 1); letter != "N" && letter[0] != b {
				continue
			}
			if choose.IntN(4) >= share {
				skipped++
				continue
			}
			mm += fmt.Sprintf(",%d", skipped)
			skipped = 0
			for range codes {
				ml += fmt.Sprintf(",%d", rng.IntN(84))
				if rng.IntN(3) == 0 && codes == 1 && !strings.Contains(heads, "+h?;C") && !strings.Contains(heads, "76792") && !strings.Contains(heads, "N+n") {
					ml = ml[:strings.LastIndexByte(ml, ',')] + fmt.Sprintf(",%d", rng.IntN(256))
				}
			}
		}
		mm += ";"
	}
	return mm + "\t" + ml
}

// bed is the pile-up of a scene.
func (s *scene) bed(t *testing.T, opts aligned.Options, haplotype int) (string, *aligned.Counts) {
	t.Helper()
	opts.Genome, opts.Threads = s.genome, 3
	var out []byte
	counts, err := aligned.Pileup(t.Context(), s.open(t), opts, func(contig string, r *pileup.Row) error {
		if r.Group == haplotype {
			out = pileup.AppendBED(out, contig, r, opts.Motifs)
		}
		return nil
	})
	require.NoError(t, err)
	return string(out), counts
}

func (s *scene) open(t *testing.T) *hts.Reader {
	f, err := os.Open(s.sam)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	r, err := hts.NewSAMReader(f)
	require.NoError(t, err)
	return r
}

// oracle is the slow and simple pile-up of each setting.
func (s *scene) oracle(t *testing.T, settings ...string) []string {
	t.Helper()
	python := testenv.Python(t, "PORESTREAM_SIGNAL_PYTHON", "pysam", "pysam")
	cmd := exec.CommandContext(t.Context(), python, append([]string{"testdata/oracle.py", s.sam, s.fasta}, settings...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(t, err, "%s", said.Bytes())
	return strings.Split(string(out), "#\n")
}

func motifs(t *testing.T, texts ...string) []pileup.Motif {
	var list []pileup.Motif
	for _, text := range texts {
		m, err := pileup.ParseMotif(text)
		require.NoError(t, err)
		list = append(list, m)
	}
	return list
}

// TestAgreesWithOracle: of reads aligned in every way, with lists of every kind, the bytes are those of a slow
// and simple pile-up over pysam.
func TestAgreesWithOracle(t *testing.T) {
	var unlisted int64
	for seed := range uint64(4) {
		s := newScene(t, seed, seed%2 == 1)
		survey, err := aligned.NewSurvey(t.Context(), s.open(t), aligned.Options{Threads: 2}, 0)
		require.NoError(t, err)
		require.False(t, survey.Whole())
		percentile := &survey.Calls
		some := pileup.Threshold(0.7)
		cases := []struct {
			setting   string
			haplotype int
			opts      aligned.Options
		}{
			{"0////", 0, aligned.Options{}},
			{"0.7////", 0, aligned.Options{Thresholds: pileup.Thresholds{some, some, some, some}}},
			{"p0.1////", 0, aligned.Options{Thresholds: percentile.Percentile(0.1)}},
			{"p0.35////", 0, aligned.Options{Thresholds: percentile.Percentile(0.35)}},
			{"0///combine/", 0, aligned.Options{CombineKinds: true}},
			{"0/CG,0///", 0, aligned.Options{Motifs: motifs(t, "CG,0")}},
			{"0/CG,0/combine//", 0, aligned.Options{Motifs: motifs(t, "cg,0"), CombineStrands: true}},
			{"0/CG,0;CHH,0;CGCG,2;DRACH,2///", 0, aligned.Options{Motifs: motifs(t, "CG,0", "CHH,0", "CGCG,2", "DRACH,2")}},
			{"0/CG,0;CGCG,2;CWG,0;GATC,1/combine//", 0, aligned.Options{Motifs: motifs(t, "CG,0", "CGCG,2", "CWG,0", "GATC,1"), CombineStrands: true}},
			{"0////unphased", 0, aligned.Options{Haplotypes: true}},
			{"0/CG,0/combine//2", 2, aligned.Options{Haplotypes: true, Motifs: motifs(t, "CG,0"), CombineStrands: true}},
		}
		var settings []string
		for _, tt := range cases {
			settings = append(settings, tt.setting)
		}
		want := s.oracle(t, settings...)
		for i, tt := range cases {
			t.Run(fmt.Sprint(seed, " ", tt.setting), func(t *testing.T) {
				got, counts := s.bed(t, tt.opts, tt.haplotype)
				require.NotEmpty(t, got)
				same(t, want[i], got)
				require.NotZero(t, counts.Tagged)
				require.EqualValues(t, 1, counts.Unmapped)
				unlisted += counts.Unlisted['x']
				if seed%2 == 1 {
					require.GreaterOrEqual(t, len(counts.Faults.List()), 4)
				}
			})
		}
	}
	require.NotZero(t, unlisted)
}

// TestSurvey: reads that were kept while a threshold was found are counted as the file is that is read again, with everything that is
// reported of it.
func TestSurvey(t *testing.T) {
	for seed := range uint64(4) {
		s := newScene(t, seed, seed%2 == 1)
		for threads := 1; threads < 4; threads++ {
			opts := aligned.Options{Threads: threads, Haplotypes: true}
			survey, err := aligned.NewSurvey(t.Context(), s.open(t), opts, 1<<30)
			require.NoError(t, err)
			require.True(t, survey.Whole())
			opts.Thresholds = survey.Calls.Percentile(0.2)
			rows := func(count func(emit func(string, *pileup.Row) error) (*aligned.Counts, error)) (string, *aligned.Counts) {
				var out []byte
				counts, err := count(func(contig string, r *pileup.Row) error {
					out = fmt.Appendf(pileup.AppendBED(out, contig, r, nil), "%d\n", r.Group)
					return nil
				})
				require.NoError(t, err)
				return string(out), counts
			}
			want, wanted := rows(func(emit func(string, *pileup.Row) error) (*aligned.Counts, error) {
				return aligned.Pileup(t.Context(), s.open(t), opts, emit)
			})
			got, counts := rows(func(emit func(string, *pileup.Row) error) (*aligned.Counts, error) {
				return survey.Pileup(t.Context(), opts.Thresholds, emit)
			})
			same(t, want, got)
			require.Equal(t, wanted, counts)
			require.NotZero(t, counts.Rows)
		}
	}
}

// same reports the first line that two texts don't share.
func same(t *testing.T, want, got string) {
	t.Helper()
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range w {
		require.Equal(t, w[i], g[min(i, len(g)-1)], "line %d", i+1)
	}
	require.Len(t, g, len(w))
}

// TestRegion: the rows of a region are those of the whole at its positions, wherever it is cut.
func TestRegion(t *testing.T) {
	s := newScene(t, 9, false)
	whole, _ := s.bed(t, aligned.Options{}, 0)
	require.NotEmpty(t, whole)
	const all = 1 << 30
	for _, regions := range [][]aligned.Region{
		{{"two", 0, all}}, {{"one", 0, all}}, {{"one", 63, 64}}, {{"one", 64, 65}}, {{"two", 100, 250}}, {{"two", 17, 18}}, {{"one", 0, 1}},
		{{"one", 200, 210}, {"two", 60, 70}, {"one", 20, 90}, {"one", 80, 100}, {"two", 5, 6}}, {},
	} {
		got, _ := s.bed(t, aligned.Options{Regions: regions}, 0)
		var want strings.Builder
		for line := range strings.Lines(whole) {
			var at int
			contig, rest, _ := strings.Cut(line, "\t")
			_, err := fmt.Sscan(rest, &at)
			require.NoError(t, err)
			if slices.ContainsFunc(regions, func(r aligned.Region) bool { return contig == r.Contig && at >= r.Start && at < r.End }) {
				want.WriteString(line)
			}
		}
		same(t, want.String(), got)
	}
}

// shuffled gives a file's records with those of one position in another order.
type shuffled struct {
	*hts.Reader
	records []*sam.Record
}

func (s *shuffled) Read() (*sam.Record, error) {
	if len(s.records) == 0 {
		return nil, io.EOF
	}
	rec := s.records[0]
	s.records = s.records[1:]
	return rec, nil
}

// TestAnyOrder: reads of one position may come in any order, and any number of workers process them.
func TestAnyOrder(t *testing.T) {
	s := newScene(t, 3, true)
	in := s.open(t)
	var all []*sam.Record
	for {
		rec, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if rec.Pos > 0 {
			rec.Pos &^= 63 // so that many begin at one position
		}
		all = append(all, rec)
	}
	want := ""
	for round := range 6 {
		rng := rand.New(rand.NewPCG(uint64(round), 1))
		list := slices.Clone(all)
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		slices.SortStableFunc(list, func(a, b *sam.Record) int {
			return cmp.Or(cmp.Compare(uint(a.Ref.ID()), uint(b.Ref.ID())), cmp.Compare(a.Pos, b.Pos))
		})
		var out []byte
		_, err := aligned.Pileup(t.Context(), &shuffled{in, list}, aligned.Options{Threads: 1 + round}, func(contig string, r *pileup.Row) error {
			out = pileup.AppendBED(out, contig, r, nil)
			return nil
		})
		require.NoError(t, err)
		if round == 0 {
			want = string(out)
		}
		require.NotEmpty(t, out)
		require.Equal(t, want, string(out))
	}
}

// TestFaults: what can't be used is counted by reason, and doesn't stop the rest; only an order that isn't one does.
func TestFaults(t *testing.T) {
	const head = "@SQ\tSN:r\tLN:40\n"
	line := func(name, rest string, tags ...string) string {
		return name + "\t" + rest + "\t*\t0\t0\tACGTCCGGAC\t*\t" + strings.Join(tags, "\t") + "\n"
	}
	pile := func(text string, opts aligned.Options) (string, *aligned.Counts, error) {
		r, err := hts.NewSAMReader(strings.NewReader(head + text))
		require.NoError(t, err)
		opts.Threads = 1
		out := ""
		counts, err := aligned.Pileup(t.Context(), r, opts, func(_ string, r *pileup.Row) error {
			out += fmt.Sprintf("%d%c%s%d/%d ", r.Pos, r.Strand, r.Code, r.Modified, r.Valid())
			return nil
		})
		return out, counts, err
	}
	good := line("good", "0\tr\t1\t60\t10M", "MM:Z:C+m?,0;", "ML:B:C,200")
	var kinds strings.Builder
	for i := range 70 {
		fmt.Fprintf(&kinds, "C+%d?,0;", 1000+i)
	}
	got, counts, err := pile(good+
		line("cigar", "0\tr\t1\t60\t9M", "MM:Z:C+m?,0;", "ML:B:C,200")+
		line("end", "0\tr\t32\t60\t10M", "MM:Z:C+m?,0;", "ML:B:C,200"), aligned.Options{})
	require.NoError(t, err)
	require.Equal(t, "1+m1/1 ", got)
	require.Equal(t, aligned.Odd{Records: 2, First: "cigar", Why: "its CIGAR is of 9 bases, and it has 10"}, counts.Broken)

	got, counts, err = pile(good+line("kinds", "0\tr\t1\t60\t10M", "MM:Z:"+kinds.String(), "ML:B:C"+strings.Repeat(",0", 70))+
		line("sum", "0\tr\t1\t60\t10M", "MM:Z:C+mh?,0;", "ML:B:C,150,150")+
		line("none", "0\tr\t1\t60\t10M", "MM:Z:C+m?,0;"), aligned.Options{})
	require.NoError(t, err)
	require.Equal(t, "1+m1/1 ", got)
	reasons := map[error]int64{}
	for _, f := range counts.Faults.List() {
		reasons[f.Reason] = f.Reads
	}
	require.Equal(t, map[error]int64{modbase.ErrKinds: 1, modbase.ErrSum: 1, modbase.ErrNoProbabilities: 1}, reasons)
	require.EqualValues(t, 1, counts.Tagged)

	_, counts, err = pile(good+strings.Replace(good, "MM:", "HP:i:17\tMM:", 1), aligned.Options{Haplotypes: true})
	require.NoError(t, err)
	require.Equal(t, aligned.Odd{Records: 1, First: "good", Why: "HP is 17"}, counts.OddHaplotypes)

	_, _, err = pile(strings.Replace(good, "\t1\t60", "\t9\t60", 1)+good, aligned.Options{})
	require.ErrorContains(t, err, "read good: it comes behind reads of later positions: sort the file")
	_, _, err = pile(good, aligned.Options{Genome: newScene(t, 1, false).genome})
	require.ErrorContains(t, err, "aligned to r, which isn't in the reference FASTA")
	short, err := genome.Read(strings.NewReader(">r\nACGT\n"))
	require.NoError(t, err)
	_, _, err = pile(good, aligned.Options{Genome: short})
	require.ErrorContains(t, err, "r has 40 bases in the header of the reads and 4 in the reference FASTA")

	again, err := hts.NewSAMReader(strings.NewReader(head + good))
	require.NoError(t, err)
	survey, err := aligned.NewSurvey(t.Context(), again, aligned.Options{Threads: 1}, 1<<20)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = survey.Pileup(ctx, pileup.Thresholds{}, func(string, *pileup.Row) error { return nil })
	require.ErrorIs(t, err, context.Canceled)
	r, err := hts.NewSAMReader(strings.NewReader(head + good))
	require.NoError(t, err)
	_, err = aligned.Pileup(ctx, r, aligned.Options{Threads: 1}, func(string, *pileup.Row) error { return nil })
	require.ErrorIs(t, err, context.Canceled)
}
