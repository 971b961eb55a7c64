package genes

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/porestream/porestream/genes/rna"
)

// RNAGene is a gene of ribosomal or transfer RNA.
type RNAGene struct {
	Contig int // index
	rna.Gene
}

// mostInRNA is how many bases a gene of a protein may share with one of RNA: a little, as the ends of both are not sure.
const mostInRNA = 40

// ribosomalAndTransfer finds the genes of RNA of each contig. Where the ribosome scans for the start, the genome is that of a eukaryote's virus, and none
// is searched for.
func (f *finder) ribosomalAndTransfer(ctx context.Context, contigs []Contig) ([][]rna.Gene, error) {
	if f.starts.scanned {
		return nil, nil
	}
	index, err := rna.NewIndex(f.prior.Ribosomal)
	if err != nil {
		return nil, fmt.Errorf("the prior of gene models: %w", err)
	}
	amino := func(codon string) byte { return f.code.amino[codonOf(codon)] }
	out := make([][]rna.Gene, len(contigs))
	for i, c := range contigs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out[i] = index.Find(c.Seq, c.Circular, amino)
	}
	return out, nil
}

// withoutRNA leaves out the candidates that lie on genes of RNA.
func (f *finder) withoutRNA(p *piece, list []candidate) []candidate {
	if len(f.rna) == 0 || len(f.rna[p.contig]) == 0 {
		return list
	}
	genes := f.rna[p.contig] // by their starts, and hardly one overlaps another
	return slices.DeleteFunc(list, func(c candidate) bool {
		start, end, _ := p.place(int(c.left), int(c.right), c.reverse)
		return inRNA(genes, start, end) || p.circular && (inRNA(genes, start-p.length, end-p.length) || inRNA(genes, start+p.length, end+p.length))
	})
}

func inRNA(genes []rna.Gene, start, end int) bool {
	from, _ := slices.BinarySearchFunc(genes, start-longestRNA, func(g rna.Gene, at int) int { return g.Start - at })
	for _, g := range genes[from:] {
		if g.Start >= end {
			return false
		}
		if min(end, g.End)-max(start, g.Start) > mostInRNA {
			return true
		}
	}
	return false
}

// longestRNA is longer than any gene of RNA.
const longestRNA = 8000

func (g *RNAGene) write(w io.Writer, c *Contig, number int) {
	strand, kind := "+", "rRNA"
	if g.Reverse {
		strand = "-"
	}
	id := fmt.Sprintf("PORE_R%04d", number)
	extra := fmt.Sprintf(";identity=%.1f", 100*g.Identity)
	if g.Transfer {
		kind, extra = "tRNA", ";anticodon="+strings.ToLower(g.Anticodon)
	}
	if g.OpenLow || g.OpenHigh {
		extra += ";partial=true"
		if g.OpenLow {
			extra += fmt.Sprintf(";start_range=.,%d", g.Start+1)
		}
		if g.OpenHigh {
			extra += fmt.Sprintf(";end_range=%d,.", g.End)
		}
	}
	row := func(what, score, attributes string) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t.\t%s\n", escape(c.Name), source, what, g.Start+1, g.End, score, strand, attributes)
	}
	row("gene", ".", fmt.Sprintf("ID=gene:%s;Name=%s;biotype=%s;gene_id=%s;locus_tag=%s", id, id, kind, id, id))
	row(kind, fmt.Sprintf("%.1f", g.Score), fmt.Sprintf("ID=transcript:%s;Parent=gene:%s;biotype=%s;transcript_id=%s;product=%s%s", id, id, kind, id, value(g.Product), extra))
	row("exon", ".", fmt.Sprintf("Parent=transcript:%s", id))
}
