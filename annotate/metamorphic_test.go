package annotate

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/porestream/porestream/testenv"
)

// shifted is the set with so many bases put before each contig.
func (s geneSet) shifted(by int) geneSet {
	rng := rand.New(rand.NewPCG(41, 1))
	var fasta, gff strings.Builder
	for line := range strings.Lines(s.fasta) {
		fasta.WriteString(line)
		if line[0] == '>' {
			for range by {
				fasta.WriteByte("ACGT"[rng.IntN(4)])
			}
			fasta.WriteByte('\n')
		}
	}
	for line := range strings.Lines(s.gff) {
		f := strings.Split(line, "\t")
		if len(f) > 4 {
			for _, i := range []int{3, 4} {
				n, _ := strconv.Atoi(f[i])
				f[i] = strconv.Itoa(n + by)
			}
			f[8] = movedException(f[8], func(n int) int { return n + by })
		}
		gff.WriteString(strings.Join(f, "\t"))
	}
	return geneSet{fasta.String(), gff.String()}
}

// mirrored is the set on the other strand of its contigs.
func (s geneSet) mirrored(contigs []*laidOut) geneSet {
	length := map[string]int{}
	var fasta, gff strings.Builder
	for _, x := range contigs {
		length[x.name] = len(x.seq)
		fasta.WriteString(">" + x.name + "\n" + reversedStrand(x.seq) + "\n")
	}
	for line := range strings.Lines(s.gff) {
		if f := strings.Split(line, "\t"); len(f) > 6 {
			start, _ := strconv.Atoi(f[3])
			end, _ := strconv.Atoi(f[4])
			f[3], f[4] = strconv.Itoa(length[f[0]]+1-end), strconv.Itoa(length[f[0]]+1-start)
			f[6] = map[string]string{"+": "-", "-": "+"}[f[6]]
			f[8] = movedException(f[8], func(n int) int { return length[f[0]] + 1 - n })
			line = strings.Join(f, "\t")
		}
		gff.WriteString(line)
	}
	return geneSet{fasta.String(), gff.String()}
}

var exceptionPlace = regexp.MustCompile(`pos:(?:complement\()?(\d+)\.\.(\d+)\)?%2C`)

// movedException moves the place of a codon that does not read as the genetic code says. Where the order of its ends turns
// around it is on the other strand.
func movedException(attributes string, move func(int) int) string {
	return exceptionPlace.ReplaceAllStringFunc(attributes, func(old string) string {
		m := exceptionPlace.FindStringSubmatch(old)
		from, _ := strconv.Atoi(m[1])
		to, _ := strconv.Atoi(m[2])
		from, to = move(from), move(to)
		complement := strings.Contains(old, "complement")
		if from > to {
			from, to, complement = to, from, !complement
		}
		if complement {
			return fmt.Sprintf("pos:complement(%d..%d)%%2C", from, to)
		}
		return fmt.Sprintf("pos:%d..%d%%2C", from, to)
	})
}

// byFeature are the consequences without what depends on the strand of the contig.
func byFeature(ann Annotation) map[string]Consequence {
	by := map[string]Consequence{}
	for _, c := range ann.Consequences {
		id := ""
		if c.Feature != nil {
			id = c.Feature.ID
		}
		c.Strand, c.HGVSOffset, c.Allele = 0, 0, ""
		by[id] = c
	}
	return by
}

// TestPlaceDoesNotMatter annotates the same changes of the same genes further along their contigs, and on the other
// strand.
func TestPlaceDoesNotMatter(t *testing.T) {
	set := newGeneSet(7, 2, 40, true)
	a := set.annotator(t)
	contigs := layOut(a)
	const by = 997
	further, mirror := set.shifted(by).annotator(t), set.mirrored(contigs).annotator(t)
	rng := rand.New(rand.NewPCG(43, 1))
	mirrored := 0
	for range cases(t, 10_000) {
		x := contigs[rng.IntN(len(contigs))]
		c := randomChange(rng, []byte(x.seq), x.places)
		ref := x.seq[c.start:c.end]
		if ref == c.alt || c.start < 100 {
			continue
		}
		want, err := a.Annotate(x.name, c.start+1, ref, c.alt)
		if err != nil {
			t.Fatal(err)
		}
		got, err := further.Annotate(x.name, c.start+by+1, ref, c.alt)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(want.Consequences, got.Consequences) {
			t.Fatalf("%s:%d %s>%s, and %d further on:\n%+v\n%+v", x.name, c.start+1, ref, c.alt, by, want, got)
		}
		if len(placements(x.seq, c)) > 1 {
			continue // left-aligned, it stands elsewhere on the other strand
		}
		mirrored++
		back, err := mirror.Annotate(x.name, len(x.seq)-c.end+1, reversedStrand(ref), reversedStrand(c.alt))
		if err != nil {
			t.Fatal(err)
		}
		if p, q := byFeature(want), byFeature(back); !reflect.DeepEqual(p, q) {
			t.Fatalf("%s:%d %s>%s, and on the other strand:\n%+v\n%+v", x.name, c.start+1, ref, c.alt, p, q)
		}
	}
	if mirrored < cases(t, 10_000)/3 {
		t.Errorf("only %d changes have one place", mirrored)
	}
}

// TestSpellingsOfManyGenes spells changes with other flanks, at other places that mean the same, and in lower case.
func TestSpellingsOfManyGenes(t *testing.T) {
	testenv.CalculatesLong(t)
	a := newGeneSet(11, 2, 40, true).annotator(t)
	contigs := layOut(a)
	rng := rand.New(rand.NewPCG(47, 1))
	for range cases(t, 10_000) {
		x := contigs[rng.IntN(len(contigs))]
		c := randomChange(rng, []byte(x.seq), x.places)
		if x.seq[c.start:c.end] == c.alt || c.start < 100 || c.end > len(x.seq)-100 {
			continue
		}
		want, err := a.Annotate(x.name, c.start+1, x.seq[c.start:c.end], c.alt)
		if err != nil {
			t.Fatal(err)
		}
		all := placements(x.seq, c)
		for _, p := range []change{all[0], all[len(all)-1], all[rng.IntN(len(all))]} {
			from, to := max(0, p.start-rng.IntN(5)), min(len(x.seq), p.end+rng.IntN(5))
			ref, alt := x.seq[from:to], x.seq[from:p.start]+p.alt+x.seq[p.end:to]
			if rng.IntN(2) == 0 {
				ref, alt = strings.ToLower(ref), strings.ToLower(alt)
			}
			got, err := a.Annotate(x.name, from+1, ref, alt)
			if err != nil {
				t.Fatal(err)
			}
			if p, q := withoutAllele(want), withoutAllele(got); !reflect.DeepEqual(p, q) {
				t.Fatalf("%s:%d %s>%s, spelled %d %s>%s:\n%+v\n%+v", x.name, c.start+1, x.seq[c.start:c.end], c.alt, from+1, ref, alt, p, q)
			}
		}
	}
}

// TestAllelesDoNotMatter annotates alleles alone and with others beside them, in either order.
func TestAllelesDoNotMatter(t *testing.T) {
	a := newGeneSet(13, 1, 40, true).annotator(t)
	x := layOut(a)[0]
	rng := rand.New(rand.NewPCG(53, 1))
	for range cases(t, 10_000) / 5 {
		c := randomChange(rng, []byte(x.seq), x.places)
		if c.start == c.end {
			continue
		}
		ref := x.seq[c.start:c.end]
		alts := []string{ref + "AC", ref[:len(ref)-1] + complementOf(ref[len(ref)-1:]), "<DEL>", "*", ref + ref}
		site := Site{Contig: x.name, Pos: c.start + 1, Ref: ref, Alts: alts, Lengths: []int{0, 0, -40}}
		together := annotateSite(t, a, site)
		slices.Reverse(alts)
		slices.Reverse(site.Lengths)
		site.Lengths = append([]int{0, 0}, site.Lengths...)
		backwards := annotateSite(t, a, site)
		for i := range together {
			if p, q := together[i].Annotation, backwards[len(alts)-1-i].Annotation; !reflect.DeepEqual(p, q) {
				t.Fatalf("%s of %d %s in %v: %+v\n%+v", together[i].Alt, c.start+1, ref, alts, p, q)
			}
		}
	}
}

// TestSymbolicDeletions spells deletions out and writes them as <DEL>: what they touch is the same, and whether they shift
// the reading frame.
func TestSymbolicDeletions(t *testing.T) {
	a := newGeneSet(17, 2, 40, true).annotator(t)
	contigs := layOut(a)
	rng := rand.New(rand.NewPCG(59, 1))
	positional := func(c *Consequence) string {
		var names []string
		for _, term := range c.Terms {
			switch n := term.Name; {
			case strings.HasPrefix(n, "splice_"), strings.HasSuffix(n, "_UTR_variant"), strings.HasSuffix(n, "stream_gene_variant"),
				strings.HasPrefix(n, "non_coding"), n == "intron_variant", n == "transcript_ablation", n == "NMD_transcript_variant":
				names = append(names, n)
			}
		}
		return strings.Join(names, "&")
	}
	compared, ablated := 0, 0
	for range cases(t, 10_000) {
		x := contigs[rng.IntN(len(contigs))]
		c := randomChange(rng, []byte(x.seq), x.places)
		if c.start < 100 || c.end <= c.start || c.end > len(x.seq)-100 {
			continue
		}
		if rng.IntN(20) == 0 {
			c.end = min(len(x.seq)-100, c.end+rng.IntN(5000))
		}
		c.alt = ""
		if len(placements(x.seq, c)) > 1 {
			continue // it counts where it spares an exon's edge, which <DEL> does not
		}
		compared++
		ref := x.seq[c.start-1 : c.end]
		alleles := annotateSite(t, a, Site{Contig: x.name, Pos: c.start, Ref: ref, Alts: []string{ref[:1], "<DEL>"}, Lengths: []int{0, c.start - c.end}})
		spelled, symbolic := byFeature(alleles[0].Annotation), byFeature(alleles[1].Annotation)
		if alleles[0].Annotation.HGVSg != alleles[1].Annotation.HGVSg || len(spelled) != len(symbolic) {
			t.Fatalf("%s:%d %s: %+v\n%+v", x.name, c.start, ref, alleles[0].Annotation, alleles[1].Annotation)
		}
		for id, p := range spelled {
			q := symbolic[id]
			if positional(&p) != positional(&q) || p.Exon != q.Exon || p.Intron != q.Intron || p.CDNA != q.CDNA || p.CDS != q.CDS || p.Distance != q.Distance {
				t.Fatalf("%s:%d %s %s: %+v\n%+v", x.name, c.start, ref, id, p, q)
			}
			if positional(&p) == "transcript_ablation" {
				ablated++
			}
		}
	}
	if compared < cases(t, 10_000)/5 || ablated == 0 {
		t.Errorf("only %d deletions, of %d whole transcripts", compared, ablated)
	}
}
