package ready_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vrs"
	"github.com/porestream/porestream/watchlist"
	"github.com/porestream/porestream/watchlist/ready"
)

// codons are the codons of each residue, by the standard code as it is commonly written down: bases in the order T, C, A, G.
func codons() map[byte][]string {
	const residues = "FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG"
	table := map[byte][]string{}
	for i := range len(residues) {
		table[residues[i]] = append(table[residues[i]], string([]byte{"TCAG"[i/16], "TCAG"[i/4%4], "TCAG"[i%4]}))
	}
	return table
}

var symbols = map[string]byte{
	"Ala": 'A', "Arg": 'R', "Asn": 'N', "Asp": 'D', "Cys": 'C', "Gln": 'Q', "Glu": 'E', "Gly": 'G', "His": 'H', "Ile": 'I',
	"Leu": 'L', "Lys": 'K', "Met": 'M', "Phe": 'F', "Pro": 'P', "Ser": 'S', "Thr": 'T', "Trp": 'W', "Tyr": 'Y', "Val": 'V',
}

func TestEveryPanelSaysWhereItIsFrom(t *testing.T) {
	require.Equal(t, []string{"malaria", "sarscov2-spike"}, ready.Names())
	for _, name := range ready.Names() {
		p, err := ready.Open(name)
		require.NoError(t, err)
		require.NotEmpty(t, p.Source)
		require.NotEmpty(t, p.Date)
		require.NotEmpty(t, p.Licence)
		require.NotEmpty(t, p.Title)
		require.Positive(t, p.Rules())
	}
}

func TestOpenReportsKnownNames(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"malarya", "ready panels are malaria, sarscov2-spike"},
		{"malaria.yaml", "the ready panel is called malaria, without an ending"},
		{"panels/sarscov2-spike.yml", "the ready panel is called sarscov2-spike"},
		{"mine.yaml", "mine.yaml: no such file"},
	} {
		_, err := ready.Open(tt.name)
		require.ErrorContains(t, err, tt.want)
		require.NotContains(t, err.Error(), "\n")
	}
	require.Nil(t, ready.Text("../panels/malaria"))
	mine := filepath.Join(t.TempDir(), "malaria.yaml")
	require.NoError(t, os.WriteFile(mine, ready.Text("malaria"), 0o600))
	_, err := ready.Open(mine)
	require.NoError(t, err)
}

// TestFaultsNameThePanel: nobody has the file of a ready panel, so errors name the panel, and say how to have it.
func TestFaultsNameThePanel(t *testing.T) {
	g, err := genome.Read(strings.NewReader(">c\nACGT\n"))
	require.NoError(t, err)
	m, err := annotate.ReadModel(strings.NewReader("##gff-version 3\nc\t.\tgene\t1\t4\t.\t+\t.\tID=other\n"), g)
	require.NoError(t, err)
	p, err := ready.Open("malaria")
	require.NoError(t, err)
	_, err = watchlist.New(g, annotate.New(g, m), p)
	require.Error(t, err)
	first := ""
	for line := range strings.Lines(err.Error()) {
		if first == "" {
			first = line
		}
		require.Regexp(t, `^ready panel malaria:( |\d+: )`, line)
	}
	require.Contains(t, first, "pore panel show malaria > mine.yaml and change that")
}

func TestSpikePanelFitsItsReference(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "sarscov2")
	g, err := genome.Load(filepath.Join(dir, "reference.fa.gz"))
	require.NoError(t, err)
	m, err := annotate.LoadModel(filepath.Join(dir, "genes.gff3"), g)
	require.NoError(t, err)
	p, err := ready.Open("sarscov2-spike")
	require.NoError(t, err)
	_, err = watchlist.New(g, annotate.New(g, m), p)
	require.NoError(t, err)
}

// marker is a change that the panel of malaria names.
type marker struct {
	rule, gene string
	from, to   byte
	at         int
}

func markers(t *testing.T) []marker {
	t.Helper()
	form := regexp.MustCompile(`(?m)^- id: (\S+)\n(?:  .*\n)*?  match: \{hgvs: "(PF3D7_\d+):p\.([A-Z][a-z]{2})(\d+)([A-Z][a-z]{2})"\}$`)
	var list []marker
	for _, m := range form.FindAllStringSubmatch(string(ready.Text("malaria")), -1) {
		at, err := strconv.Atoi(m[4])
		require.NoError(t, err)
		list = append(list, marker{m[1], m[2], symbols[m[3]], symbols[m[5]], at})
	}
	return list
}

// made is a genome with a gene of two exons for each gene of the panel, on either strand, whose residues are those of the panel where it names some and random elsewhere,
// and where each base of a gene's sequence lies.
func made(t *testing.T, list []marker) (*genome.Genome, *annotate.Annotator, map[string][]int, map[string]bool) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 8))
	table := codons()
	residues := map[string]map[int]byte{}
	for _, m := range list {
		if residues[m.gene] == nil {
			residues[m.gene] = map[int]byte{}
		}
		if old, there := residues[m.gene][m.at]; there {
			require.Equal(t, old, m.from, "%s", m.rule)
		}
		residues[m.gene][m.at] = m.from
	}
	const length = 1300 // codons
	var seq []byte
	gff := "##gff-version 3\n"
	places, forward := map[string][]int{}, map[string]bool{}
	for i, name := range slices.Sorted(maps.Keys(residues)) {
		var cds strings.Builder
		for n := 1; n <= length; n++ {
			r, named := residues[name][n]
			switch {
			case n == 1:
				r = 'M'
			case n == length:
				r = '*'
			case !named:
				r = "ACDEFGHIKLMNPQRSTVWY"[rng.IntN(20)]
			}
			cds.WriteString(table[r][rng.IntN(len(table[r]))])
		}
		const cut, intron = 100, 80 // within a codon
		gene := cds.String()[:cut] + "GT" + strings.Repeat("A", intron-4) + "AG" + cds.String()[cut:]
		start := len(seq) + 50
		var at []int
		for p := range gene {
			if p < cut || p >= cut+intron {
				at = append(at, start+p)
			}
		}
		exons := [2][2]int{{start + 1, start + cut}, {start + cut + intron + 1, start + len(gene)}}
		strand := "+"
		if forward[name] = i%2 == 0; !forward[name] {
			strand = "-"
			reversed := []byte(gene)
			slices.Reverse(reversed)
			for p, b := range reversed {
				reversed[p] = other(b)
			}
			gene = string(reversed)
			mirror := func(p int) int { return 2*start + len(gene) - 1 - p } // 0-based
			for p := range at {
				at[p] = mirror(at[p])
			}
			exons = [2][2]int{{mirror(exons[1][1]-1) + 1, mirror(exons[1][0]-1) + 1}, {mirror(exons[0][1]-1) + 1, mirror(exons[0][0]-1) + 1}}
		}
		seq = append(append(append(seq, strings.Repeat("T", 50)...), gene...), strings.Repeat("T", 50)...)
		places[name] = at
		row := func(kind string, from, to int, phase, attributes string) {
			gff += fmt.Sprintf("chr\t.\t%s\t%d\t%d\t.\t%s\t%s\t%s\n", kind, from, to, strand, phase, attributes)
		}
		row("gene", start+1, start+len(gene), ".", "ID="+name)
		row("mRNA", start+1, start+len(gene), ".", "ID="+name+".1;Parent="+name)
		for e, x := range exons {
			row("exon", x[0], x[1], ".", "Parent="+name+".1")
			phase := "0"
			if (e == 1) == forward[name] {
				phase = "2" // 100 bases before
			}
			row("CDS", x[0], x[1], phase, "ID="+name+".cds;Parent="+name+".1;protein_id="+name+".p")
		}
	}
	g, err := genome.Read(strings.NewReader(">chr\n" + string(seq) + "\n"))
	require.NoError(t, err)
	m, err := annotate.ReadModel(strings.NewReader(gff), g)
	require.NoError(t, err)
	return g, annotate.New(g, m), places, forward
}

func other(b byte) byte { return "TGCA"[strings.IndexByte("ACGT", b)] }

// TestEachMarkerOfMalariaIsDetected plants each change, as every codon that makes it, in one event of one to three bases, into a genome made for it.
func TestEachMarkerOfMalariaIsDetected(t *testing.T) {
	list := markers(t)
	require.Len(t, list, 59)
	g, a, places, forward := made(t, list)
	p, err := ready.Open("malaria")
	require.NoError(t, err)
	w, err := watchlist.New(g, a, p)
	require.NoError(t, err)
	contig := g.Contigs[0]
	longest, planted := 0, 0
	for _, m := range list {
		for _, codon := range codons()[m.to] {
			// The bases that differ, from the first to the last, where they are one stretch of the genome.
			at := places[m.gene][3*(m.at-1) : 3*m.at]
			alt := []byte(codon)
			low, high := -1, -1
			for i := range 3 {
				if !forward[m.gene] {
					alt[i] = other(alt[i])
				}
				if contig.Seq[at[i]] != alt[i] {
					if low < 0 {
						low = i
					}
					high = i
				}
			}
			if !forward[m.gene] {
				at, alt = slices.Clone(at), slices.Clone(alt)
				slices.Reverse(at)
				slices.Reverse(alt)
				low, high = 2-high, 2-low
			}
			start, end := at[low], at[high]+1
			require.Equal(t, high-low+1, end-start, m.rule)
			v := variant(t, g, a, start, string(contig.Seq[start:end]), string(alt[low:high+1]))
			var detected []string
			for _, alert := range w.NewTracker("s").Variant(v) {
				if alert.State == watchlist.Detected {
					detected = append(detected, alert.Rule)
				}
			}
			require.Contains(t, detected, m.rule, "%s %s", m.rule, codon)
			for _, rule := range detected {
				require.True(t, rule == m.rule || rule == "kelch13_propeller", "%s is no change of %s", m.rule, rule)
			}
			longest = max(longest, end-start)
			planted++
		}
	}
	require.Equal(t, 3, longest)
	require.Greater(t, planted, 2*len(list))
}

// variant is a call that 30 of 30 reads show.
func variant(t *testing.T, g *genome.Genome, a *annotate.Annotator, start int, ref, alt string) *event.Variant {
	t.Helper()
	contig := g.Contigs[0]
	id, err := vrs.AlleleID(contig.Digest(), contig.Seq, start, ref, alt)
	require.NoError(t, err)
	annotation, err := a.Annotate(contig.Name, start+1, ref, alt)
	require.NoError(t, err)
	return &event.Variant{
		SchemaVersion: event.SchemaVersion, Run: "run", Sample: "s", Revision: 1, Status: "PROVISIONAL",
		Allele:     event.Allele{VRSID: id, Contig: contig.Name, Pos: int64(start) + 1, Ref: ref, Alt: alt},
		Call:       event.Call{Qual: 40, Depth: 30, AltForward: 15, AltReverse: 15, Genotype: []uint32{1}},
		Annotation: annotation,
	}
}
