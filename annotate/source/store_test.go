package source

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vrs"
)

// readGenome makes a reference of FASTA text.
func readGenome(t testing.TB, fasta string) *genome.Genome {
	t.Helper()
	g, err := genome.Read(strings.NewReader(fasta))
	require.NoError(t, err)
	return g
}

// compileText compiles text and returns the file's path.
func compileText(t testing.TB, cfg Config, text string) (string, *Meta) {
	t.Helper()
	dir := t.TempDir()
	in := filepath.Join(dir, "in.txt")
	require.NoError(t, os.WriteFile(in, []byte(text), 0o600))
	out := filepath.Join(dir, "out.pss")
	meta, err := Compile(t.Context(), cfg, in, out)
	require.NoError(t, err)
	left, err := filepath.Glob(filepath.Join(dir, ".pss*"))
	require.NoError(t, err)
	require.Empty(t, left, "temporary files stay behind")
	return out, meta
}

// openText compiles and opens text.
func openText(t testing.TB, cfg Config, text string) *Store {
	t.Helper()
	path, _ := compileText(t, cfg, text)
	s, err := Open(path, cfg.Genome)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// vcfText is a VCF with these INFO declarations (ID, Number and Type, with spaces between) and lines.
func vcfText(infos []string, lines ...string) string {
	var b strings.Builder
	b.WriteString("##fileformat=VCFv4.2\n##fileDate=20261101\n")
	for _, i := range infos {
		f := strings.Fields(i)
		fmt.Fprintf(&b, "##INFO=<ID=%s,Number=%s,Type=%s,Description=\"About %s\">\n", f[0], f[1], f[2], f[0])
	}
	b.WriteString("#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n")
	for _, l := range lines {
		b.WriteString(strings.Join(strings.Fields(l), "\t") + "\n")
	}
	return b.String()
}

// find renders what a store knows of a change, an entry per string: match, id and fields.
func find(t testing.TB, s *Store, contig *genome.Contig, pos1 int, ref, alt string) []string {
	t.Helper()
	c := annotate.Change{Contig: contig, Start: pos1 - 1, End: pos1 - 1 + len(ref), Ref: ref, Alt: alt}
	return findChange(t, s, c)
}

func findChange(t testing.TB, s *Store, c annotate.Change) []string {
	t.Helper()
	entries, err := s.Find(nil, c)
	require.NoError(t, err)
	var list []string
	for i := range entries {
		k, err := entries[i].Known()
		require.NoError(t, err)
		fields, err := k.Fields.MarshalJSON()
		require.NoError(t, err)
		list = append(list, fmt.Sprintf("%s %s %s", k.Match, k.ID, fields))
	}
	return list
}

// randomContig is a sequence in which repeats are common, so that most indels have many spellings.
func randomContig(r *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		unit := make([]byte, 1+r.IntN(4))
		for i := range unit {
			unit[i] = "ACGT"[r.IntN(4)]
		}
		b.WriteString(strings.Repeat(string(unit), 1+r.IntN(6)))
	}
	return b.String()[:n]
}

// randomEdit is a change of seq, not spelled in any normal form.
func randomEdit(r *rand.Rand, seq string) vrs.Edit {
	for {
		start := r.IntN(len(seq))
		ref := seq[start:min(len(seq), start+r.IntN(5))]
		if r.IntN(30) == 0 {
			ref = seq[start:min(len(seq), start+r.IntN(60))]
		}
		n := r.IntN(5)
		if r.IntN(30) == 0 {
			n = r.IntN(60)
		}
		alt := make([]byte, n)
		for i := range alt {
			alt[i] = "ACGT"[r.IntN(4)]
		}
		if r.IntN(50) == 0 && n > 0 {
			alt[0] = 'N'
		}
		if ref != string(alt) {
			return vrs.Edit{Start: start, Ref: ref, Alt: string(alt)}
		}
	}
}

// respell is another spelling of e: moved within its repeat, and with flanks.
func respell(r *rand.Rand, seq string, e vrs.Edit) vrs.Edit {
	left, right := e.Left([]byte(seq)), e.Right([]byte(seq))
	out := left
	if shift := right.Start - left.Start; shift > 0 {
		k := r.IntN(shift + 1)
		n := max(len(left.Ref), len(left.Alt))
		moved := left.Ref + left.Alt // one of them is empty
		moved = moved[k%n:] + moved[:k%n]
		out.Start += k
		if left.Ref == "" {
			out.Alt = moved
		} else {
			out.Ref = moved
		}
	}
	before := r.IntN(min(4, out.Start+1))
	after := r.IntN(min(4, len(seq)-out.End()+1))
	head, tail := seq[out.Start-before:out.Start], seq[out.End():out.End()+after]
	return vrs.Edit{Start: out.Start - before, Ref: head + out.Ref + tail, Alt: head + out.Alt + tail}
}

// applied is seq with e applied: two changes are the same if this is.
func applied(seq string, e vrs.Edit) string { return seq[:e.Start] + e.Alt + seq[e.End():] }

// TestEverySpelling compares a store with a map keyed by the resulting sequence, which knows nothing of normal forms.
func TestEverySpelling(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	seqs := []string{randomContig(r, 400), randomContig(r, 70), randomContig(r, 1)}
	g := readGenome(t, fmt.Sprintf(">a\n%s\n>b\n%s\n>c\n%s\n", seqs[0], seqs[1], seqs[2]))
	truth := map[string][]string{}
	type change struct {
		contig int
		e      vrs.Edit
	}
	var changes []change
	lines := []string{"chrom\tpos\tref\talt\tid"}
	for i := range 3000 {
		k := r.IntN(3)
		e := randomEdit(r, seqs[k])
		changes = append(changes, change{k, e})
		spelled := respell(r, seqs[k], e)
		dash := func(s string) string {
			if s == "" {
				return "-"
			}
			return s
		}
		lines = append(lines, fmt.Sprintf("%s\t%d\t%s\t%s\te%d", "abc"[k:k+1], spelled.Start+1, dash(spelled.Ref), dash(spelled.Alt), i))
		key := fmt.Sprint(k, applied(seqs[k], e))
		truth[key] = append(truth[key], fmt.Sprintf("exact e%d {}", i))
	}
	cfg := Config{
		Genome: g, Name: "s", Version: "1", Kind: "tsv",
		Columns: map[string]string{"chrom": "chrom", "pos": "pos", "ref": "ref", "alt": "alt", "id": "id"},
		Memory:  20_000, // some dozens of runs
	}
	path, meta := compileText(t, cfg, strings.Join(lines, "\n")+"\n")
	require.Equal(t, 3000, meta.Counts.Alleles)
	require.False(t, meta.Unique)
	s, err := Open(path, g)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Verify())
	// known is what the store must find: the changes that make the same sequence, and those that the atoms make.
	atoms := 0
	known := func(contig int, e vrs.Edit) []string {
		want := slices.Clone(truth[fmt.Sprint(contig, applied(seqs[contig], e))])
		if parts := e.Atoms(); len(parts) > 1 {
			for i := range parts {
				parts[i] = parts[i].Left([]byte(seqs[contig]))
			}
			slices.SortStableFunc(parts, func(a, b vrs.Edit) int { return a.Start - b.Start })
			for _, a := range parts {
				for _, entry := range truth[fmt.Sprint(contig, applied(seqs[contig], a))] {
					want = append(want, "atom"+strings.TrimPrefix(entry, "exact"))
					atoms++
				}
			}
		}
		return want
	}
	for _, c := range changes {
		e := respell(r, seqs[c.contig], c.e)
		require.Equal(t, known(c.contig, e), find(t, s, g.Contigs[c.contig], e.Start+1, e.Ref, e.Alt), "%v", e)
	}
	misses := 0
	for range 3000 {
		k := r.IntN(3)
		e := randomEdit(r, seqs[k])
		want := known(k, e)
		if want == nil {
			misses++
		}
		require.Equal(t, want, find(t, s, g.Contigs[k], e.Start+1, e.Ref, e.Alt))
	}
	require.Greater(t, misses, 100)
	require.Greater(t, atoms, 100)

	cfg.Memory = 0
	again, _ := compileText(t, cfg, strings.Join(lines, "\n")+"\n")
	a, err := os.ReadFile(path)
	require.NoError(t, err)
	b, err := os.ReadFile(again)
	require.NoError(t, err)
	require.True(t, bytes.Equal(a, b), "the file depends on how it was sorted")
}

// TestMatches compares position and overlap matches with a comparison of all pairs.
func TestMatches(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	seq := randomContig(r, 3000)
	g := readGenome(t, ">a\n"+seq+"\n")
	type entry struct {
		start, end int
		alt        string
	}
	var entries []entry
	lines := []string{"chrom\tpos\tref\talt\tid"}
	for i := range 1500 {
		e := randomEdit(r, seq).Left([]byte(seq))
		entries = append(entries, entry{e.Start, e.End(), e.Alt})
		ref, alt := e.Ref, e.Alt
		if ref == "" {
			ref = "-"
		}
		if alt == "" {
			alt = "-"
		}
		lines = append(lines, fmt.Sprintf("a\t%d\t%s\t%s\te%d", e.Start+1, ref, alt, i))
	}
	for _, matches := range [][]annotate.Match{
		{annotate.MatchOverlap}, {annotate.MatchPosition}, {annotate.MatchExact, annotate.MatchPosition},
		{annotate.MatchExact, annotate.MatchOverlap}, {annotate.MatchExact, annotate.MatchPosition, annotate.MatchOverlap},
	} {
		t.Run(fmt.Sprint(matches), func(t *testing.T) {
			s := openText(t, Config{
				Genome: g, Name: "s", Version: "1", Kind: "tsv", Matches: matches,
				Columns: map[string]string{"chrom": "chrom", "pos": "pos", "ref": "ref", "alt": "alt", "id": "id"},
			}, strings.Join(lines, "\n"))
			for range 1000 {
				e := randomEdit(r, seq).Left([]byte(seq))
				var want []string
				var atoms []vrs.Edit
				if parts := e.Atoms(); len(parts) > 1 && slices.Contains(matches, annotate.MatchExact) {
					for _, a := range parts {
						atoms = append(atoms, a.Left([]byte(seq)))
					}
				}
				for i, x := range entries {
					var match annotate.Match
					isAtom := slices.ContainsFunc(atoms, func(a vrs.Edit) bool { return a.Start == x.start && a.End() == x.end && a.Alt == x.alt })
					same := x.start == e.Start && x.end == e.End()
					switch {
					case same && x.alt == e.Alt:
						match = annotate.MatchExact
					case isAtom:
						match = annotate.MatchAtom
					case same && slices.Contains(matches, annotate.MatchPosition):
						match = annotate.MatchPosition
					case slices.Contains(matches, annotate.MatchOverlap) && meets(x.start, x.end, e.Start, e.End()):
						match = annotate.MatchOverlap
					default:
						continue
					}
					want = append(want, fmt.Sprintf("%s e%d {}", match, i))
				}
				got := find(t, s, g.Contigs[0], e.Start+1, e.Ref, e.Alt)
				require.True(t, slices.IsSortedFunc(got, func(a, b string) int { return rank(a) - rank(b) }), "%v", got)
				slices.Sort(got)
				slices.Sort(want)
				require.Equal(t, want, got, "%v", e)
			}
		})
	}
}

func rank(s string) int { return slices.Index([]byte("eapo"), s[0]) }

// meets says in a slow way whether two places overlap: they share a base; a place between bases is shared if the bases
// on both sides are the other's, or if the other is the same place.
func meets(a, b, c, d int) bool {
	if a == b && c == d {
		return a == c
	}
	if a == b {
		return c < a && a < d
	}
	if c == d {
		return a < c && c < b
	}
	for i := a; i < b; i++ {
		if c <= i && i < d {
			return true
		}
	}
	return false
}

// TestIntervalLevels has more intervals than two levels of the index hold, of very different lengths.
func TestIntervalLevels(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	g := readGenome(t, ">a\n"+strings.Repeat("ACGTTGCA", 5000)+"\n")
	var b strings.Builder
	type interval struct{ start, end int }
	var all []interval
	for i := range 9000 {
		start := r.IntN(40000)
		end := min(40000, start+1+r.IntN(20))
		if i%500 == 0 {
			end = min(40000, start+r.IntN(20000))
		}
		all = append(all, interval{start, end})
		fmt.Fprintf(&b, "a\t%d\t%d\te%d\n", start, end, i)
	}
	s := openText(t, Config{Genome: g, Name: "s", Version: "1", Kind: "bed"}, b.String())
	for range 300 {
		at := r.IntN(39990)
		n := r.IntN(5)
		e := vrs.Edit{Start: at, Ref: string(g.Contigs[0].Seq[at : at+n]), Alt: strings.Repeat("N", 2)}.Left(g.Contigs[0].Seq)
		var want []string
		for i, x := range all {
			if meets(x.start, x.end, e.Start, e.End()) {
				want = append(want, fmt.Sprintf("overlap e%d {}", i))
			}
		}
		got := find(t, s, g.Contigs[0], e.Start+1, e.Ref, e.Alt)
		slices.Sort(got)
		slices.Sort(want)
		require.Equal(t, want, got)
	}
}

// TestDamage flips and cuts a file everywhere.
func TestDamage(t *testing.T) {
	g := readGenome(t, ">a\nACGTACGTAC\n")
	path, _ := compileText(t, Config{Genome: g, Name: "s", Version: "1"},
		vcfText([]string{"AF A Float", "X . String"}, "a 1 rs1 A C,G . . AF=0.1,2e-05;X=one", "a 5 rs2 A AT . . X=two"))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	use := func(data []byte) error {
		s, err := newStore(data, g)
		if err != nil {
			return err
		}
		_, err = s.Find(nil, annotate.Change{Contig: g.Contigs[0], Start: 0, End: 1, Ref: "A", Alt: "C"})
		return errors.Join(err, s.Verify())
	}
	require.NoError(t, use(whole))
	for i := range whole {
		bad := bytes.Clone(whole)
		bad[i] ^= 0x20
		require.Error(t, use(bad), "byte %d", i)
		require.Error(t, use(whole[:i]), "cut at %d", i)
	}
	require.ErrorContains(t, use(append(bytes.Clone(whole), 0)), "damaged")
	require.ErrorContains(t, use(whole[:len(whole)-1]), "it may be cut off")
	require.ErrorContains(t, use([]byte("##fileformat=VCFv4.2\n")), "not a compiled source: make one with pore sources build")
	newer := bytes.Clone(whole)
	newer[8] = 2
	require.ErrorContains(t, use(newer), "format version 2, but this program reads version 1")
}

func TestOtherReference(t *testing.T) {
	g := readGenome(t, ">a\nACGTACGTAC\n>b\nAAAA\n")
	path, _ := compileText(t, Config{Genome: g, Name: "s", Version: "1"}, vcfText(nil, "a 1 rs1 A C . . ."))
	_, err := Open(path, readGenome(t, ">a\nACGTACGTAG\n"))
	require.ErrorContains(t, err, "compiled for another reference: contig a of 10 bases")
	require.ErrorContains(t, err, path)
	renamed := readGenome(t, ">b\nAAAA\n>chrA\nACGTACGTAC\n")
	s, err := Open(path, renamed)
	require.NoError(t, err, "names and order are no matter")
	defer s.Close()
	require.Equal(t, []string{"exact rs1 {}"}, find(t, s, renamed.Contig("chrA"), 1, "A", "C"))
	require.Empty(t, find(t, s, renamed.Contig("b"), 1, "A", "C"))
}

func TestNumbersKeepTheirText(t *testing.T) {
	for _, s := range []string{
		"0", "-1", "12", "007", "+5", "-0", "9223372036854775807", "99999999999999999999", "0.0", "0.001", "-0.25", ".5", "5.", "1.25313e-03",
		"6.57895e-06", "1e5", "1E5", "1e+05", "1e-400", "nan", "inf", "-inf", "0.10000000000000000555", "1e", "e5", "-", "1.2.3", "1,2",
	} {
		d := newDictionary(1)
		v, rest, err := nextValue(d.appendField(nil, ownFields, annotate.Float, s))
		require.NoError(t, err)
		require.Empty(t, rest)
		got := string(v.num.append(nil))
		if v.form == formDict {
			got = d.texts[v.dict]
		}
		require.Equal(t, s, got)
	}
}

func BenchmarkFind(b *testing.B) {
	const records = 1_500_000
	r := rand.New(rand.NewPCG(7, 8))
	seq := make([]byte, 60_000_000)
	for i := range seq {
		seq[i] = "ACGT"[r.IntN(4)]
	}
	g := readGenome(b, ">a\n"+string(seq)+"\n")
	var text strings.Builder
	text.WriteString("chrom\tpos\tref\talt\taf\n")
	type change struct {
		pos int
		alt byte
	}
	changes := make([]change, 0, 2*records)
	for i := range 2 * records {
		pos := i * (len(seq) / (2 * records))
		c := change{pos, "ACGT"[(strings.IndexByte("ACGT", seq[pos])+1)%4]}
		changes = append(changes, c)
		if i%2 == 0 {
			fmt.Fprintf(&text, "a\t%d\t%c\t%c\t%g\n", pos+1, seq[pos], c.alt, float64(i)/records)
		}
	}
	s := openText(b, Config{
		Genome: g, Name: "s", Version: "1", Kind: "tsv", Fields: []string{"af:Float"},
		Columns: map[string]string{"chrom": "chrom", "pos": "pos", "ref": "ref", "alt": "alt"},
	}, text.String())
	r.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
	text.Reset()
	bases := map[byte]string{'A': "A", 'C': "C", 'G': "G", 'T': "T"}
	run := func(b *testing.B, each func(Entry)) {
		b.ReportAllocs()
		var buf [4]Entry
		hits, i := 0, 0
		for b.Loop() {
			c := &changes[i]
			if i++; i == len(changes) {
				i = 0
			}
			q := annotate.Change{Contig: g.Contigs[0], Start: c.pos, End: c.pos + 1, Ref: bases[seq[c.pos]], Alt: bases[c.alt]}
			found, err := s.Find(buf[:0], q)
			if err != nil {
				b.Fatal(err)
			}
			for _, e := range found {
				hits++
				each(e)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lookups/s")
		b.ReportMetric(float64(hits)/float64(b.N), "hits")
	}
	b.Run("find", func(b *testing.B) { run(b, func(Entry) {}) })
	b.Run("known", func(b *testing.B) {
		run(b, func(e Entry) {
			if _, err := e.Known(); err != nil {
				b.Fatal(err)
			}
		})
	})
}
