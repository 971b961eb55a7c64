package genes

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// source is the second column of what is written.
const source = "Porestream"

// WriteGFF3 writes what was found as GFF3, with gene, mRNA and CDS rows as Ensembl has them, so that every reader of either dialect takes it.
// comments are lines for the head of the file, without their #.
func WriteGFF3(w io.Writer, contigs []Contig, r *Result, comments ...string) error {
	out := bufio.NewWriterSize(w, 1<<16)
	fmt.Fprintln(out, "##gff-version 3")
	for _, c := range contigs {
		fmt.Fprintf(out, "##sequence-region %s 1 %d\n", escape(c.Name), len(c.Seq))
	}
	for _, c := range comments {
		fmt.Fprintf(out, "# %s\n", strings.ReplaceAll(c, "\n", " "))
	}
	at := 0
	for i, c := range contigs {
		if c.Circular {
			fmt.Fprintf(out, "%s\t%s\tregion\t1\t%d\t.\t+\t.\tID=region:%s;Is_circular=true\n", escape(c.Name), source, len(c.Seq), escape(c.Name))
		}
		for ; at < len(r.Genes) && r.Genes[at].Contig == i; at++ {
			r.Genes[at].write(out, &c, at+1, r.Code)
		}
	}
	return out.Flush()
}

func (g *Gene) write(w io.Writer, c *Contig, number, code int) {
	strand := "+"
	if g.Reverse {
		strand = "-"
	}
	id := fmt.Sprintf("PORE_%05d", number)
	partial := ""
	if g.OpenLow || g.OpenHigh {
		partial = ";partial=true"
		if g.OpenLow {
			partial += fmt.Sprintf(";start_range=.,%d", g.Start+1)
		}
		if g.OpenHigh {
			partial += fmt.Sprintf(";end_range=%d,.", g.End)
		}
	}
	part := func(start, end int, kind, score, phase, attributes string) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s%s\n", escape(c.Name), source, kind, start+1, end, score, strand, phase, attributes, partial)
	}
	row := func(kind, score, phase, attributes string) { part(g.Start, g.End, kind, score, phase, attributes) }
	row("gene", ".", ".", fmt.Sprintf("ID=gene:%s;Name=%s;biotype=protein_coding;gene_id=%s;locus_tag=%s", id, id, id, id))
	row("mRNA", ".", ".", fmt.Sprintf("ID=transcript:%s;Parent=gene:%s;biotype=protein_coding;transcript_id=%s", id, id, id))
	site := "none"
	if g.Site.Motif != "" {
		site = fmt.Sprintf("%s:%d", g.Site.Motif, g.Site.Spacer)
	}
	score := fmt.Sprintf("%.2f", g.Score)
	coding := fmt.Sprintf(
		"ID=CDS:%s;Parent=transcript:%s;protein_id=%s;transl_table=%d;start_type=%s;rbs=%s;coding_score=%.2f;posterior=%.4f;start_posterior=%.4f",
		id, id, id, code, g.StartCodon, site, g.Coding, g.Posterior, g.StartPosterior)
	if !g.Slips {
		row("CDS", score, "0", coding)
		return
	}
	coding += ";exception=ribosomal slippage"
	part(g.Start, g.Joint+1, "CDS", score, "0", coding)
	part(g.Joint, g.End, "CDS", score, "0", coding)
}

// escape replaces what has a meaning in GFF3's columns.
func escape(s string) string {
	return strings.NewReplacer("%", "%25", "\t", "%09", "\n", "%0A", "\r", "%0D", ">", "%3E", " ", "%20").Replace(s)
}
