package annotate

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vrs"
)

// toy is a made-up gene: exons and a coding region on the forward strand of a random sequence.
type toy struct {
	seq      string
	exons    [][2]int // 1-based, closed
	cdsStart int      // of the start codon's first base
	cdsEnd   int      // of the stop codon's last base
}

// newToy makes a gene whose coding sequence begins with ATG and ends with its only stop.
func newToy(rng *rand.Rand) toy {
	letters := "ACGT"
	if rng.IntN(2) == 0 {
		letters = "ACAGAT" // low complexity, for ambiguous places of indels
	}
	seq := make([]byte, 400)
	for i := range seq {
		seq[i] = letters[rng.IntN(len(letters))]
	}
	t := toy{exons: [][2]int{{51, 90 + rng.IntN(10)}, {130, 160 + rng.IntN(10)}, {200, 280}}, cdsStart: 70 + rng.IntN(5)}
	var cds []int // 0-based positions
	for _, x := range t.exons {
		for p := max(x[0], t.cdsStart); p <= x[1]; p++ {
			cds = append(cds, p-1)
		}
	}
	n := min(len(cds), 60+rng.IntN(20)) / 3 * 3
	put := func(at int, codon string) {
		for i := range 3 {
			seq[cds[at+i]] = codon[i]
		}
	}
	put(0, "ATG")
	for i := 3; i < n-3; i += 3 {
		for standardAmino(seq[cds[i]], seq[cds[i+1]], seq[cds[i+2]]) == '*' {
			seq[cds[i]] = letters[rng.IntN(len(letters))]
			seq[cds[i+1]] = letters[rng.IntN(len(letters))]
		}
	}
	put(n-3, []string{"TAA", "TAG", "TGA"}[rng.IntN(3)])
	t.cdsEnd = cds[n-1] + 1
	t.seq = string(seq)
	return t
}

func standardAmino(a, b, c byte) byte { return codeOf(standardCode).amino(a, b, c) }

// mirrored is the gene on the other strand.
func (t toy) mirrored() toy {
	n := len(t.seq) + 1
	m := toy{seq: reverseComplement(t.seq), cdsStart: n - t.cdsEnd, cdsEnd: n - t.cdsStart}
	for _, x := range slices.Backward(t.exons) {
		m.exons = append(m.exons, [2]int{n - x[1], n - x[0]})
	}
	return m
}

// annotator reads the gene from text as files have it.
func (t toy) annotator(tb testing.TB, strand string) *Annotator {
	tb.Helper()
	g, err := genome.Read(strings.NewReader(">c\n" + t.seq + "\n"))
	if err != nil {
		tb.Fatal(err)
	}
	g = g.Packed()
	var b strings.Builder
	row := func(kind string, start, end int, phase, attributes string) {
		fmt.Fprintf(&b, "c\tx\t%s\t%d\t%d\t.\t%s\t%s\t%s\n", kind, start, end, strand, phase, attributes)
	}
	last := t.exons[len(t.exons)-1][1]
	row("gene", t.exons[0][0], last, ".", "ID=gene:G;Name=TOY;biotype=protein_coding")
	row("mRNA", t.exons[0][0], last, ".", "ID=transcript:T;Parent=gene:G;biotype=protein_coding")
	for _, x := range t.exons {
		row("exon", x[0], x[1], ".", "Parent=transcript:T")
		if s, e := max(x[0], t.cdsStart), min(x[1], t.cdsEnd); s <= e {
			row("CDS", s, e, ".", "ID=CDS:P;Parent=transcript:T;protein_id=P")
		}
	}
	m, err := ReadModel(strings.NewReader(b.String()), g)
	if err != nil {
		tb.Fatal(err)
	}
	return New(g, m)
}

// randomEdit is a small change of the toy's gene.
func (t toy) randomEdit(rng *rand.Rand) vrs.Edit {
	for {
		start := 40 + rng.IntN(250)
		n := rng.IntN(4) * rng.IntN(4)
		ins := make([]byte, rng.IntN(5)*rng.IntN(2))
		for i := range ins {
			ins[i] = "ACGT"[rng.IntN(4)]
		}
		e := vrs.Edit{Start: start, Ref: t.seq[start : start+n], Alt: string(ins)}
		switch rng.IntN(4) {
		case 0: // a substitution
			e = vrs.Edit{Start: start, Ref: t.seq[start : start+1], Alt: "ACGT"[rng.IntN(4):][:1]}
		case 1: // a tandem copy
			n = 1 + rng.IntN(4)
			e = vrs.Edit{Start: start, Alt: t.seq[start-n : start]}
		}
		if e.Ref != e.Alt {
			return e
		}
	}
}

// annotateEdit annotates an edit, spelled with the given number of shared bases before and after it.
func annotateEdit(t testing.TB, a *Annotator, seq string, e vrs.Edit, before, after int) Annotation {
	t.Helper()
	flank, tail := seq[e.Start-before:e.Start], seq[e.End():e.End()+after]
	ann, err := a.Annotate("c", e.Start-before+1, flank+e.Ref+tail, flank+e.Alt+tail)
	if err != nil {
		t.Fatal(err)
	}
	return ann
}

// withoutAllele is the annotation without the one thing that depends on the spelling.
func withoutAllele(ann Annotation) Annotation {
	ann.Consequences = slices.Clone(ann.Consequences)
	for i := range ann.Consequences {
		ann.Consequences[i].Allele = ""
	}
	return ann
}

func TestSpellingDoesNotMatter(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for range 100 {
		g := newToy(rng)
		a := g.annotator(t, "+")
		for range 20 {
			e := g.randomEdit(rng)
			want := withoutAllele(annotateEdit(t, a, g.seq, e, 0, 0))
			for _, other := range []vrs.Edit{e.Left([]byte(g.seq)), e.Right([]byte(g.seq)), e.Normal([]byte(g.seq))} {
				if got := withoutAllele(annotateEdit(t, a, g.seq, other, rng.IntN(5), rng.IntN(5))); !reflect.DeepEqual(got, want) {
					t.Fatalf("%+v: %+v\n%+v: %+v", e, want, other, got)
				}
			}
		}
	}
}

// TestStrandMirror annotates the same change of the same gene on either strand.
func TestStrandMirror(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	for range 100 {
		g := newToy(rng)
		m := g.mirrored()
		fwd, rev := g.annotator(t, "+"), m.annotator(t, "-")
		for range 20 {
			e := g.randomEdit(rng)
			me := vrs.Edit{Start: len(g.seq) - e.End(), Ref: reverseComplement(e.Ref), Alt: reverseComplement(e.Alt)}
			x, y := annotateEdit(t, fwd, g.seq, e, 0, 0), annotateEdit(t, rev, m.seq, me, 0, 0)
			c, d := x.Consequences[0], y.Consequences[0]
			if outside(x) || outside(y) {
				continue // left-aligned, one of them may lie beside the gene
			}
			if c.HGVSc != d.HGVSc {
				t.Fatalf("%+v: %s on +, %s on -", e, c.HGVSc, d.HGVSc)
			}
			if e.Left([]byte(g.seq)) != e.Right([]byte(g.seq)) {
				continue // left-aligned, they lie at different places
			}
			if c.HGVSp != d.HGVSp || !reflect.DeepEqual(c.Terms, d.Terms) || c.Codons != d.Codons || c.CDS != d.CDS {
				t.Fatalf("%+v: %+v\n%+v: %+v", e, c, me, d)
			}
		}
	}
}

func outside(ann Annotation) bool { return ann.Consequences[0].HGVSc == "" }

// TestNeighboursDoNotMatter annotates the same variants in two orders and from many goroutines at once.
func TestNeighboursDoNotMatter(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	g := newToy(rng)
	edits := make([]vrs.Edit, 200)
	for i := range edits {
		edits[i] = g.randomEdit(rng)
	}
	want := make([]Annotation, len(edits))
	a := g.annotator(t, "+")
	for i, e := range edits {
		want[i] = annotateEdit(t, a, g.seq, e, 0, 0)
	}
	b := g.annotator(t, "+") // nothing cached yet
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range edits {
				j := (len(edits) - 1 - i + 37*w) % len(edits)
				e := edits[j]
				got, err := b.Annotate("c", e.Start+1, e.Ref, e.Alt)
				if err != nil || !reflect.DeepEqual(got, want[j]) {
					t.Errorf("%+v: %+v %v, want %+v", e, got, err, want[j])
				}
			}
		})
	}
	wg.Wait()
}

// labels names each base of the toy's transcript as HGVS does, by plain counting.
func (t toy) labels() map[string]int {
	at := map[string]int{}
	var exonic []int
	first, last := -1, -1
	for _, x := range t.exons {
		for p := x[0]; p <= x[1]; p++ {
			if p == t.cdsStart {
				first = len(exonic)
			}
			if p == t.cdsEnd {
				last = len(exonic)
			}
			exonic = append(exonic, p)
		}
	}
	name := func(i int) string {
		switch {
		case i < first:
			return strconv.Itoa(i - first)
		case i > last:
			return "*" + strconv.Itoa(i-last)
		}
		return strconv.Itoa(i - first + 1)
	}
	for i, p := range exonic {
		at[name(i)] = p
		if i+1 < len(exonic) && exonic[i+1] != p+1 {
			next := exonic[i+1]
			for d := 1; p+d < next; d++ {
				if d <= next-(p+d) {
					at[name(i)+"+"+strconv.Itoa(d)] = p + d
				} else {
					at[name(i+1)+"-"+strconv.Itoa(next-p-d)] = p + d
				}
			}
		}
	}
	return at
}

// applyHGVS changes a sequence as a description says; at gives the 1-based position of a label.
func applyHGVS(t *testing.T, seq, description string, at func(string) int) string {
	t.Helper()
	i := strings.IndexFunc(description, func(r rune) bool { return strings.ContainsRune("ACGTdi", r) })
	place, change := description[:i], description[i:]
	from, to, isRange := strings.Cut(place, "_")
	if !isRange {
		to = from
	}
	s, e := at(from), at(to)
	if s == 0 || e == 0 {
		t.Fatalf("%s: no such place", description)
	}
	before, old, after := seq[:s-1], seq[s-1:e], seq[e:]
	if unit, copies, repeat := strings.Cut(strings.TrimSuffix(change, "]"), "["); repeat {
		n, err := strconv.Atoi(copies)
		if err != nil || old != strings.Repeat(unit, len(old)/len(unit)) {
			t.Fatalf("%s: the sequence has %s", description, old)
		}
		return before + strings.Repeat(unit, n) + after
	}
	switch {
	case strings.HasPrefix(change, "delins"):
		return before + change[6:] + after
	case change == "del":
		return before + after
	case change == "dup":
		return before + old + old + after
	case change == "inv":
		return before + reverseComplement(old) + after
	case strings.HasPrefix(change, "ins"):
		return seq[:s] + change[3:] + seq[s:]
	}
	ref, alt, _ := strings.Cut(change, ">")
	if ref != old {
		t.Fatalf("%s: the sequence has %s", description, old)
	}
	return before + alt + after
}

// TestHGVSRoundTrip applies the descriptions to the sequence, by a reading of HGVS that shares no code with the
// writing of it, and requires the sequence that the variant gives.
func TestHGVSRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	described := map[string]int{}
	for range 150 {
		g := newToy(rng)
		a := g.annotator(t, "+")
		labels := g.labels()
		for range 25 {
			e := g.randomEdit(rng)
			want := g.seq[:e.Start] + e.Alt + g.seq[e.End():]
			ann := annotateEdit(t, a, g.seq, e, 0, 0)
			_, d, _ := strings.Cut(ann.HGVSg, ":g.")
			got := applyHGVS(t, g.seq, d, func(s string) int {
				n, err := strconv.Atoi(s)
				if err != nil {
					t.Fatal(err)
				}
				return n
			})
			if got != want {
				t.Fatalf("%+v: %s gives another sequence", e, ann.HGVSg)
			}
			c := ann.Consequences[0]
			if c.HGVSc == "" {
				continue
			}
			_, d, _ = strings.Cut(c.HGVSc, ":c.")
			if got := applyHGVS(t, g.seq, d, func(s string) int { return labels[s] }); got != want {
				t.Fatalf("%+v: %s gives another sequence", e, c.HGVSc)
			}
			for _, kind := range []string{">", "delins", "del", "dup", "ins", "inv"} {
				if strings.Contains(d, kind) {
					described[kind]++
					break
				}
			}
		}
	}
	for _, kind := range []string{">", "delins", "del", "dup", "ins"} {
		if described[kind] < 100 {
			t.Errorf("only %d descriptions of kind %q", described[kind], kind)
		}
	}
}

// splicedCDS is the coding sequence of a changed genome and what follows it in the transcript: the slow, simple way
// for changes that lie in one coding stretch.
func (t toy) splicedCDS(e vrs.Edit) (old, changed string, ok bool) {
	var o, c strings.Builder
	for _, x := range t.exons {
		s, end := max(x[0], t.cdsStart)-1, x[1]
		if s >= end {
			continue
		}
		o.WriteString(t.seq[s:end])
		inCDS := min(end, t.cdsEnd)
		switch {
		case e.Start > s && e.End() < inCDS || e.Ref != "" && e.Start >= s && e.End() <= inCDS:
			ok = true
			c.WriteString(t.seq[s:e.Start] + e.Alt + t.seq[e.End():end])
		default:
			c.WriteString(t.seq[s:end])
		}
	}
	return o.String(), c.String(), ok
}

func translate(cds string) string {
	var b strings.Builder
	for i := 0; i+3 <= len(cds); i += 3 {
		a := standardAmino(cds[i], cds[i+1], cds[i+2])
		b.WriteByte(a)
		if a == '*' {
			break
		}
	}
	return b.String()
}

// TestProteinRoundTrip translates the changed transcript and compares it with what HGVSp says of the unchanged
// protein; and the terms with the two proteins.
func TestProteinRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 1))
	kinds := map[string]int{}
	for range 200 {
		g := newToy(rng)
		a := g.annotator(t, "+")
		for range 25 {
			e := g.randomEdit(rng).Left([]byte(g.seq))
			old, changed, ok := g.splicedCDS(e)
			if !ok {
				continue
			}
			c := annotateEdit(t, a, g.seq, e, 0, 0).Consequences[0]
			_, p, described := strings.Cut(c.HGVSp, ":p.")
			before, after := translate(old), translate(changed)
			kind := checkProtein(t, fmt.Sprintf("%+v %s %s", e, c.HGVSc, c.Codons), before, after, p, described)
			kinds[kind]++
			checkTerms(t, fmt.Sprintf("%+v %s %s", e, c.HGVSc, c.HGVSp), before, after, (len(e.Alt)-len(e.Ref))%3 != 0, c.Terms)
		}
	}
	t.Log(kinds)
	for _, kind := range []string{"=", "start", "substitution", "Ter", "fs", "ext", "del", "dup", "ins", "delins"} {
		if kinds[kind] < 10 {
			t.Errorf("only %d descriptions of kind %q", kinds[kind], kind)
		}
	}
}

// checkTerms compares terms with proteins where these decide.
func checkTerms(t *testing.T, name, before, after string, shifts bool, terms []Term) {
	t.Helper()
	has := func(n string) bool { return slices.ContainsFunc(terms, func(t Term) bool { return t.Name == n }) }
	if has("start_lost") || has("start_retained_variant") {
		return
	}
	same := before == after
	if (has("synonymous_variant") || has("stop_retained_variant")) && !same {
		t.Fatalf("%s: %v, but the protein changes: %s %s", name, terms, before, after)
	}
	if has("missense_variant") && (len(before) != len(after) || same) {
		t.Fatalf("%s: %v, but %s becomes %s", name, terms, before, after)
	}
	if has("stop_gained") && !(strings.HasSuffix(after, "*") && len(after) < len(before)+8) {
		t.Fatalf("%s: %v, but %s becomes %s", name, terms, before, after)
	}
	if has("stop_lost") && strings.HasPrefix(before, after) {
		t.Fatalf("%s: %v, but %s becomes %s", name, terms, before, after)
	}
	if shifts != has("frameshift_variant") && !has("stop_retained_variant") {
		t.Fatalf("%s: %v, shift of the frame: %v", name, terms, shifts)
	}
}

// checkProtein applies a description to a protein and compares; it returns its kind.
func checkProtein(t *testing.T, name, before, after, p string, described bool) string {
	t.Helper()
	fail := func(why string) {
		t.Helper()
		t.Fatalf("%s: p.%s: %s\n%s\n%s", name, p, why, before, after)
	}
	switch {
	case p == "Met1?" || p == "Met1=":
		return "start"
	case !described:
		if before != after && strings.HasSuffix(after, "*") {
			fail("not described")
		}
		return ""
	case strings.HasSuffix(p, "="):
		if before != after {
			fail("changed")
		}
		return "="
	}
	at := func(s string) (byte, int) { // "Ala12" to its symbol and number
		n, err := strconv.Atoi(s[3:])
		if err != nil {
			fail(err.Error())
		}
		a := oneLetter(s[:3])
		if s[:3] == "Ter" {
			a = '*'
		}
		if n < 1 || n > len(before) || before[n-1] != a {
			fail(s + " is not in the protein")
		}
		return a, n
	}
	peptide := func(s string) string {
		var b strings.Builder
		for i := 0; i+3 <= len(s); i += 3 {
			if s[i:i+3] == "Ter" {
				b.WriteByte('*')
			} else {
				b.WriteByte(oneLetter(s[i : i+3]))
			}
		}
		return b.String()
	}
	prefix := func(s string) string { // the leading "Ala12"
		i := 3
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
		return s[:i]
	}
	first := prefix(p)
	_, from := at(first)
	rest, to := p[len(first):], from
	if strings.HasPrefix(rest, "_") {
		second := prefix(rest[1:])
		_, to = at(second)
		rest = rest[1+len(second):]
	}
	truncated := func(s string) string {
		if i := strings.IndexByte(s, '*'); i >= 0 {
			return s[:i+1]
		}
		return s
	}
	var want, kind string
	switch {
	case strings.Contains(rest, "fsTer"), strings.Contains(rest, "extTer"):
		kind = "fs"
		new, length, _ := strings.Cut(rest, "fsTer")
		offset := 0
		if strings.Contains(rest, "extTer") {
			kind, offset = "ext", 1
			new, length, _ = strings.Cut(rest, "extTer")
		}
		if after[:from-1] != before[:from-1] || after[from-1] != peptide(new)[0] || after[from-1] == before[from-1] {
			fail("not the first residue that differs")
		}
		if length == "?" {
			if strings.HasSuffix(after, "*") {
				fail("there is a stop")
			}
			return kind
		}
		if n, err := strconv.Atoi(length); err != nil || !strings.HasSuffix(after, "*") || len(after) != from-1+n+offset {
			fail("the stop is elsewhere")
		}
		return kind
	case strings.HasPrefix(rest, "delins"):
		kind, want = "delins", before[:from-1]+peptide(rest[6:])+before[to:]
	case rest == "del":
		kind, want = "del", before[:from-1]+before[to:]
		if to < len(before) && before[from-1] == before[to] {
			fail("not at the end of its repeat")
		}
	case rest == "dup":
		kind, want = "dup", before[:to]+before[from-1:]
		if to < len(before) && before[from-1] == before[to] {
			fail("not at the end of its repeat")
		}
	case strings.HasPrefix(rest, "ins"):
		kind, want = "ins", before[:from]+peptide(rest[3:])+before[from:]
	case rest == "Ter":
		kind, want = "Ter", before[:from-1]+"*"
	default:
		kind, want = "substitution", before[:from-1]+peptide(rest)+before[from:]
	}
	if truncated(want) != after {
		fail("gives " + truncated(want))
	}
	return kind
}
