package score

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
)

// Gene is the transcript that stands for a gene.
type Gene struct {
	Name       string
	Forward    bool
	Start, End int // inter-residue
	// Bounds are the first and last bases of exons, 1-based, in order, none twice.
	Bounds []int
}

// Genes are those of a genome. Of a contig they keep their order.
type Genes struct {
	contigs map[*genome.Contig]*along
}

// along are the genes of a contig.
type along struct {
	genes []numbered // by Start
	reach []int      // the furthest End of genes up to this one
}

type numbered struct {
	Gene
	number int // in the order that they were given
}

// At appends the genes that a 1-based position lies in.
func (g *Genes) at(dst []*numbered, c *genome.Contig, pos int) []*numbered {
	on := g.contigs[c]
	if on == nil {
		return dst
	}
	n, _ := slices.BinarySearchFunc(on.genes, pos, func(x numbered, pos int) int { return cmp.Compare(x.Start, pos) })
	from := len(dst)
	for i := n - 1; i >= 0 && on.reach[i] >= pos; i-- {
		if on.genes[i].End >= pos {
			dst = append(dst, &on.genes[i])
		}
	}
	slices.SortFunc(dst[from:], func(x, y *numbered) int { return cmp.Compare(x.number, y.number) })
	return dst
}

func newGenes(of map[*genome.Contig][]Gene) *Genes {
	g := &Genes{contigs: make(map[*genome.Contig]*along, len(of))}
	for c, list := range of {
		on := &along{}
		for i, gene := range list {
			on.genes = append(on.genes, numbered{gene, i})
		}
		slices.SortStableFunc(on.genes, func(x, y numbered) int { return cmp.Compare(x.Start, y.Start) })
		furthest := 0
		for i := range on.genes {
			furthest = max(furthest, on.genes[i].End)
			on.reach = append(on.reach, furthest)
		}
		g.contigs[c] = on
	}
	return g
}

// GenesOf takes one transcript for each gene of a model: the MANE Select one, else the canonical, else the one with the
// longest coding sequence, else the longest.
func GenesOf(g *genome.Genome, model *annotate.Model) *Genes {
	of := make(map[*genome.Contig][]Gene)
	for _, c := range g.Contigs {
		of[c] = genesOn(model.TranscriptsOn(c.Name))
	}
	return newGenes(of)
}

func genesOn(views []annotate.View) []Gene {
	best := make(map[annotate.Gene]*annotate.View)
	var order []annotate.Gene
	for i := range views {
		v := &views[i]
		if v.Gene == nil || len(v.Exons) == 0 {
			continue
		}
		have, ok := best[*v.Gene]
		if !ok {
			order = append(order, *v.Gene)
		}
		if !ok || preferred(v, have) {
			best[*v.Gene] = v
		}
	}
	genes := make([]Gene, 0, len(order))
	for _, name := range order {
		v := best[name]
		gene := Gene{Name: cmp.Or(name.Symbol, name.ID, v.ID), Forward: v.Forward, Start: v.Start, End: v.End}
		for _, x := range v.Exons {
			gene.Bounds = append(gene.Bounds, x.Start+1, x.End)
		}
		slices.Sort(gene.Bounds)
		gene.Bounds = slices.Compact(gene.Bounds)
		genes = append(genes, gene)
	}
	return genes
}

// preferred reports whether x stands for its gene rather than y.
func preferred(x, y *annotate.View) bool {
	grade := func(v *annotate.View) int {
		switch flags := v.Flags(); {
		case slices.Contains(flags, "mane_select"):
			return 2
		case slices.Contains(flags, "canonical"):
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(grade(x), grade(y)),
		cmp.Compare(x.CodingLength(), y.CodingLength()),
		cmp.Compare(x.End-x.Start, y.End-y.Start),
		cmp.Compare(y.ID, x.ID),
	) > 0
}

// maxTableLine bounds a line of a table of genes: the longest human transcript has 363 exons.
const maxTableLine = 1 << 20

// ReadTable reads genes as SpliceAI keeps them: a line each with name, contig, strand, start and end of the transcript, and
// the starts and ends of its exons, separated by commas; all starts are 0-based. Lines of contigs that the genome doesn't
// have are left out, and their number returned. A contig's name may have "chr" before it here and not there.
func ReadTable(r io.Reader, g *genome.Genome) (genes *Genes, leftOut int, err error) {
	of := make(map[*genome.Contig][]Gene)
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxTableLine)
	n := 0
	for lines.Scan() {
		n++
		line := strings.TrimRight(lines.Text(), "\r\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		contig, gene, err := parseGene(line)
		if err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", n, err)
		}
		c := contigOf(g, contig)
		if c == nil {
			leftOut++
			continue
		}
		if gene.End > c.Len() {
			return nil, 0, fmt.Errorf("line %d: %s ends at %d, behind the %d bases of contig %s: is the table of another reference?", n, gene.Name, gene.End, c.Len(), c.Name)
		}
		of[c] = append(of[c], gene)
	}
	if err := lines.Err(); err != nil {
		return nil, 0, fmt.Errorf("line %d: %w", n+1, err)
	}
	if len(of) == 0 {
		return nil, 0, fmt.Errorf("%d lines, and none of a contig of the reference", n)
	}
	return newGenes(of), leftOut, nil
}

func contigOf(g *genome.Genome, name string) *genome.Contig {
	if c := g.Contig(name); c != nil {
		return c
	}
	if plain, ok := strings.CutPrefix(name, "chr"); ok {
		return g.Contig(plain)
	}
	return g.Contig("chr" + name)
}

func parseGene(line string) (contig string, gene Gene, err error) {
	f := strings.Split(line, "\t")
	if len(f) != 7 {
		return "", gene, fmt.Errorf("%d columns: want name, contig, strand, start, end, exons' starts and exons' ends, with tabs between", len(f))
	}
	gene.Name, gene.Forward = f[0], f[2] == "+"
	if f[2] != "+" && f[2] != "-" {
		return "", gene, fmt.Errorf("strand %q is neither + nor -", f[2])
	}
	var faults [2]error
	gene.Start, faults[0] = strconv.Atoi(f[3])
	gene.End, faults[1] = strconv.Atoi(f[4])
	if faults[0] != nil || faults[1] != nil || gene.Start < 0 || gene.End <= gene.Start {
		return "", gene, fmt.Errorf("%q to %q is no stretch", f[3], f[4])
	}
	starts, err := positions(f[5])
	if err != nil {
		return "", gene, err
	}
	ends, err := positions(f[6])
	if err != nil {
		return "", gene, err
	}
	if len(starts) == 0 || len(starts) != len(ends) {
		return "", gene, fmt.Errorf("%d starts of exons and %d ends", len(starts), len(ends))
	}
	for i := range starts {
		if starts[i] < gene.Start || ends[i] > gene.End || starts[i] >= ends[i] {
			return "", gene, fmt.Errorf("exon %d to %d is no stretch of the transcript, %d to %d", starts[i], ends[i], gene.Start, gene.End)
		}
		gene.Bounds = append(gene.Bounds, starts[i]+1, ends[i])
	}
	slices.Sort(gene.Bounds)
	gene.Bounds = slices.Compact(gene.Bounds)
	return f[1], gene, nil
}

// positions reads numbers separated, and perhaps ended, by commas.
func positions(list string) ([]int, error) {
	var all []int
	for text := range strings.SplitSeq(strings.TrimSuffix(list, ","), ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("position %q is no number", text)
		}
		all = append(all, n)
	}
	return all, nil
}

// nearest is the exon boundary nearest to a 1-based position, the left one of two.
func (g *Gene) nearest(pos int) int {
	i, _ := slices.BinarySearch(g.Bounds, pos)
	switch {
	case i == 0:
		return g.Bounds[0]
	case i == len(g.Bounds):
		return g.Bounds[i-1]
	case g.Bounds[i]-pos < pos-g.Bounds[i-1]:
		return g.Bounds[i]
	}
	return g.Bounds[i-1]
}
