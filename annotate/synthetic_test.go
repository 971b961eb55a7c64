package annotate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/porestream/porestream/genome"
)

// geneSet is a made-up set of genes as human ones are: exons and introns of various sizes on both strands, alternative
// transcripts that overlap, codons and start codons split by introns, introns in the untranslated regions, gaps too
// short to be introns, selenocysteines, coding sequences that are incomplete at one end or both, and transcripts that are
// not coding.
type geneSet struct {
	fasta, gff string
}

// newGeneSet makes a set on contigs of the given number of genes each. Gaps are stretches too short to be an intron.
func newGeneSet(seed uint64, contigs, genes int, gaps bool) geneSet {
	rng := rand.New(rand.NewPCG(seed, 23))
	var fasta, gff strings.Builder
	gff.WriteString("##gff-version 3\n")
	for c := range contigs {
		g := geneWriter{rng: rng, contig: fmt.Sprintf("chr%d", c+1), gaps: gaps}
		g.grow(300 + rng.IntN(6000))
		for i := range genes {
			g.gene(fmt.Sprintf("G%d_%d", c+1, i+1))
			g.grow(50 + rng.IntN(50)*rng.IntN(200))
		}
		fmt.Fprintf(&fasta, ">%s\n", g.contig)
		for s := string(g.seq); s != ""; {
			n := min(len(s), 80)
			fasta.WriteString(s[:n] + "\n")
			s = s[n:]
		}
		gff.WriteString(g.rows.String())
	}
	return geneSet{fasta.String(), gff.String()}
}

// geneWriter writes the genes of one contig.
type geneWriter struct {
	rng    *rand.Rand
	contig string
	gaps   bool
	seq    []byte
	rows   strings.Builder
}

// grow appends random bases, of low complexity here and there so that indels have several places.
func (g *geneWriter) grow(n int) {
	letters := "ACGT"
	for i := range n {
		if i%50 == 0 {
			letters = []string{"ACGT", "ACGT", "AAACAG", "TTCTCT", "GC"}[g.rng.IntN(5)]
		}
		g.seq = append(g.seq, letters[g.rng.IntN(len(letters))])
	}
}

// gene appends a gene with one to three transcripts.
func (g *geneWriter) gene(name string) {
	rng := g.rng
	base := len(g.seq)
	var exons []Span
	for range 1 + rng.IntN(7) {
		start := len(g.seq)
		g.grow([]int{1 + rng.IntN(6), 20 + rng.IntN(60), 60 + rng.IntN(200), 60 + rng.IntN(200)}[rng.IntN(4)])
		exons = append(exons, Span{start, len(g.seq)})
		shortest := 30 + rng.IntN(10)
		if g.gaps {
			shortest = 1 + rng.IntN(13)
		}
		g.grow([]int{shortest, 14 + rng.IntN(12), 30 + rng.IntN(60), 60 + rng.IntN(400), 60 + rng.IntN(400)}[rng.IntN(5)])
	}
	end := exons[len(exons)-1].End
	g.seq = g.seq[:end]
	strand := "+"
	if rng.IntN(2) == 0 {
		strand = "-"
	}
	biotype := "protein_coding"
	if rng.IntN(8) == 0 {
		biotype = "lncRNA"
	}
	row := func(kind string, s Span, phase, attributes string) {
		fmt.Fprintf(&g.rows, "%s\tsynthetic\t%s\t%d\t%d\t.\t%s\t%s\t%s\n", g.contig, kind, s.Start+1, s.End, strand, phase, attributes)
	}
	row("gene", Span{base, end}, ".", "ID=gene:"+name+";Name="+name+";biotype="+biotype)
	for i := range 1 + rng.IntN(3) {
		mine := exons
		if i > 0 && len(exons) > 2 { // an exon skipped
			skip := 1 + rng.IntN(len(exons)-2)
			mine = slices.Concat(exons[:skip], exons[skip+1:])
		}
		id := fmt.Sprintf("%s.%d", name, i+1)
		kind, class := "mRNA", biotype
		if biotype == "lncRNA" {
			kind = "lnc_RNA"
		} else if i > 0 && rng.IntN(5) == 0 {
			class = "nonsense_mediated_decay"
		}
		var cds []Span
		var phases []int
		var tag, except string
		if biotype == "protein_coding" {
			cds, phases, tag, except = g.codingPart(mine, strand == "+", i == 0)
		}
		row(kind, Span{mine[0].Start, mine[len(mine)-1].End}, ".", "ID=transcript:"+id+";Parent=gene:"+name+";biotype="+class+tag)
		for _, x := range mine {
			row("exon", x, ".", "Parent=transcript:"+id)
		}
		for _, x := range mine {
			if len(cds) == 0 {
				break
			}
			left, right := "five_prime_UTR", "three_prime_UTR"
			if strand == "-" {
				left, right = right, left
			}
			if e := min(x.End, cds[0].Start); x.Start < e {
				row(left, Span{x.Start, e}, ".", "Parent=transcript:"+id)
			}
			if s := max(x.Start, cds[len(cds)-1].End); s < x.End {
				row(right, Span{s, x.End}, ".", "Parent=transcript:"+id)
			}
		}
		for k, x := range cds {
			row("CDS", x, fmt.Sprint(phases[k]), "ID=CDS:P"+id+";Parent=transcript:"+id+";protein_id=P"+id+except)
		}
	}
}

// codingPart chooses what of the exons is coding. write puts a start and a stop codon at its ends and takes stops away
// between them, which later transcripts of the gene, in another frame perhaps, leave as it is.
func (g *geneWriter) codingPart(exons []Span, forward, write bool) (cds []Span, phases []int, tag, except string) {
	rng := g.rng
	var bases []int // positions of the exons' bases in transcript direction
	for _, x := range exons {
		for p := x.Start; p < x.End; p++ {
			bases = append(bases, p)
		}
	}
	if !forward {
		slices.Reverse(bases)
	}
	from, to := rng.IntN(len(bases)/3+1), len(bases)-rng.IntN(len(bases)/3+1)
	edge := exons[0].End - exons[0].Start // of the first exon in transcript direction
	if !forward {
		edge = exons[len(exons)-1].End - exons[len(exons)-1].Start
	}
	if rng.IntN(5) == 0 && edge < to/2 { // a start codon that an intron splits or follows
		from = max(0, edge-rng.IntN(4))
	}
	pad, startUnknown, endUnknown := 0, rng.IntN(10) == 0, rng.IntN(10) == 0
	if startUnknown {
		from, pad = 0, rng.IntN(3)
		tag += ",cds_start_NF"
	}
	if endUnknown {
		to = len(bases)
		tag += ",cds_end_NF"
	} else {
		to -= (to - from + pad) % 3
	}
	if to-from < 12 {
		return nil, nil, "", ""
	}
	coding := bases[from:to]
	if write {
		g.writeCodons(coding, forward, pad, startUnknown, endUnknown)
		if g.gaps && rng.IntN(6) == 0 {
			except = g.writeSelenocysteine(coding, forward, pad)
		}
	}
	// Cut it into the pieces of the exons, with the bases of each to the next codon.
	left := map[int]int{}
	for i, p := range coding {
		left[p] = (3 - (i+pad)%3) % 3
	}
	lo, hi := min(coding[0], coding[len(coding)-1]), max(coding[0], coding[len(coding)-1])+1
	for _, x := range exons {
		if s, e := max(x.Start, lo), min(x.End, hi); s < e {
			cds = append(cds, Span{s, e})
			first := s
			if !forward {
				first = e - 1
			}
			phases = append(phases, left[first])
		}
	}
	if tag != "" {
		tag = ";tag=" + tag[1:]
	}
	return cds, phases, tag, except
}

// writeCodons makes a reading frame of the coding bases.
func (g *geneWriter) writeCodons(coding []int, forward bool, pad int, startUnknown, endUnknown bool) {
	rng := g.rng
	letter := func(i int) byte {
		b := g.seq[coding[i]]
		if !forward {
			b = "TGCA"[strings.IndexByte("ACGT", b)]
		}
		return b
	}
	set := func(i int, codon string) {
		for k := range 3 {
			b := codon[k]
			if !forward {
				b = "TGCA"[strings.IndexByte("ACGT", b)]
			}
			g.seq[coding[i+k]] = b
		}
	}
	stops := []string{"TAA", "TAG", "TGA"}
	frame := (3 - pad) % 3
	for i := frame; i+3 <= len(coding); i += 3 {
		for slices.Contains(stops, string([]byte{letter(i), letter(i + 1), letter(i + 2)})) {
			set(i, string([]byte{"ACGT"[rng.IntN(4)], "ACGT"[rng.IntN(4)], "ACGT"[rng.IntN(4)]}))
		}
	}
	if !startUnknown {
		set(0, []string{"ATG", "ATG", "ATG", "CTG", "GTG"}[rng.IntN(5)])
	}
	if !endUnknown {
		set(len(coding)-3, stops[rng.IntN(3)])
	}
}

// writeSelenocysteine makes a codon in the middle TGA and returns the attribute that says how it reads; "" if an intron
// splits the codon.
func (g *geneWriter) writeSelenocysteine(coding []int, forward bool, pad int) string {
	i := (len(coding)/2+pad)/3*3 - pad
	first, last := min(coding[i], coding[i+2]), max(coding[i], coding[i+2])
	if last-first != 2 {
		return ""
	}
	codon, place := "TGA", fmt.Sprintf("%d..%d", first+1, last+1)
	if !forward {
		codon, place = "TCA", "complement("+place+")"
	}
	copy(g.seq[first:], codon)
	return ";transl_except=(pos:" + place + "%2Caa:Sec)"
}

// annotator reads the set.
func (s geneSet) annotator(t testing.TB) *Annotator {
	t.Helper()
	g, err := genome.Read(strings.NewReader(s.fasta))
	if err != nil {
		t.Fatal(err)
	}
	g = g.Packed()
	m, err := ReadModel(strings.NewReader(s.gff), g)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range m.Warnings() {
		// Transcripts that share exons in another frame have stops inside.
		if !strings.Contains(w, "stop codon") {
			t.Fatalf("the made-up genes have warnings: %s", w)
		}
	}
	return New(g, m)
}

func synthetic(t testing.TB, seed uint64) *Annotator {
	return newGeneSet(seed, 3, 60, true).annotator(t)
}
