package genes

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/porestream/porestream/genes/homology"
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
	at, broken, noncoding := 0, 0, 0
	for i, c := range contigs {
		if c.Circular {
			fmt.Fprintf(out, "%s\t%s\tregion\t1\t%d\t.\t+\t.\tID=region:%s;Is_circular=true\n", escape(c.Name), source, len(c.Seq), value(c.Name))
		}
		// The three lists are joined by their starts; what is not of this contig comes after all.
		const none = math.MaxInt
		for {
			gene, pseudo, rna := none, none, none
			if at < len(r.Genes) && r.Genes[at].Contig == i {
				gene = r.Genes[at].Start
			}
			if broken < len(r.Pseudogenes) && r.Pseudogenes[broken].Contig == i {
				pseudo = r.Pseudogenes[broken].Start
			}
			if noncoding < len(r.RNA) && r.RNA[noncoding].Contig == i {
				rna = r.RNA[noncoding].Start
			}
			first := min(gene, pseudo, rna)
			if first == none {
				break
			}
			switch first {
			case gene:
				r.Genes[at].write(out, &c, at+1, r.Code)
				at++
			case pseudo:
				r.Pseudogenes[broken].write(out, &c, broken+1)
				broken++
			default:
				r.RNA[noncoding].write(out, &c, noncoding+1)
				noncoding++
			}
		}
	}
	return out.Flush()
}

func (g *Gene) write(w io.Writer, c *Contig, number, code int) {
	strand := "+"
	if g.Reverse {
		strand = "-"
	}
	id := identifier(number)
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
	name, product, similar := id, "", ""
	if s := g.Similar; s != nil {
		if s.Symbol != "" {
			name = value(s.Symbol)
		}
		if s.Protein.Product != "" {
			product = ";product=" + value(s.Protein.Product)
		}
		similar = s.attributes()
	}
	row("gene", ".", ".", fmt.Sprintf("ID=gene:%s;Name=%s;biotype=protein_coding;gene_id=%s;locus_tag=%s", id, name, id, id))
	row("mRNA", ".", ".", fmt.Sprintf("ID=transcript:%s;Parent=gene:%s;biotype=protein_coding;transcript_id=%s%s", id, id, id, product))
	site := "none"
	if g.Site.Motif != "" {
		site = fmt.Sprintf("%s:%d", g.Site.Motif, g.Site.Spacer)
	}
	score := fmt.Sprintf("%.2f", g.Score)
	coding := fmt.Sprintf(
		"ID=CDS:%s;Parent=transcript:%s;protein_id=%s;transl_table=%d;start_type=%s;rbs=%s;coding_score=%.2f;posterior=%.4f;start_posterior=%.4f",
		id, id, id, code, g.StartCodon, site, g.Coding, g.Posterior, g.StartPosterior) + product + similar
	if !g.Slips {
		row("CDS", score, "0", coding)
		return
	}
	coding += ";exception=ribosomal slippage"
	part(g.Start, g.Joint+1, "CDS", score, "0", coding)
	part(g.Joint, g.End, "CDS", score, "0", coding)
}

func (p *Pseudogene) write(w io.Writer, c *Contig, number int) {
	strand := "+"
	if p.Reverse {
		strand = "-"
	}
	id := fmt.Sprintf("PORE_P%04d", number)
	name, more, inference := id, "", "ab initio prediction:"+source
	if k := p.Known; k != nil {
		if k.Gene != "" {
			name = value(k.Gene)
		}
		if k.Product != "" {
			more = ";product=" + value(k.Product)
		}
		if !p.Own {
			inference = fmt.Sprintf("similar to AA sequence:%s:%s", value(k.Source), value(k.ID))
		}
	}
	more += ";inference=" + inference
	if k := p.Known; k != nil && k.ID != "" {
		more += ";similar_to=" + value(k.ID)
	}
	if p.Known != nil {
		more += fmt.Sprintf(";identity=%.1f;subject_coverage=%.1f", 100*p.Identity, 100*p.Coverage)
	}
	notes := make([]string, len(p.Faults))
	for i, f := range p.Faults {
		notes[i] = string(f)
	}
	fmt.Fprintf(w, "%s\t%s\tpseudogene\t%d\t%d\t.\t%s\t.\tID=gene:%s;Name=%s;biotype=pseudogene;gene_id=%s;locus_tag=%s;pseudo=true;Note=%s;fragments=%d%s\n",
		escape(c.Name), source, p.Start+1, p.End, strand, id, name, id, id, strings.Join(notes, ","), p.Fragments, more)
}

// attributes state what a gene is similar to, for column 9. The inference is written as INSDC has
// it.
func (s *Similar) attributes() string {
	out := fmt.Sprintf(";inference=ab initio prediction:%s,similar to AA sequence:%s:%s;similar_to=%s;identity=%.1f;query_coverage=%.1f;subject_coverage=%.1f;expect=%.1e",
		source, value(s.Protein.Source), value(s.Protein.ID), value(s.Protein.ID), 100*s.Identity, 100*s.QueryCoverage, 100*s.Coverage, s.Expect)
	if len(s.Terms) > 0 {
		out += ";Ontology_term=" + strings.Join(s.Terms, ",")
	}
	return out
}

// value replaces what has a meaning in column 9.
func value(s string) string {
	return strings.NewReplacer("%", "%25", ";", "%3B", "=", "%3D", "&", "%26", ",", "%2C", "\t", "%09", "\n", "%0A", "\r", "%0D").Replace(s)
}

// WriteProteins writes what the genes are translated to as FASTA, under the IDs that the GFF3 has.
func WriteProteins(w io.Writer, contigs []Contig, r *Result) error {
	code, err := homology.NewCode(r.Code)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 1<<16)
	for i := range r.Genes {
		g := &r.Genes[i]
		strand := "+"
		if g.Reverse {
			strand = "-"
		}
		fmt.Fprintf(out, ">%s", identifier(i+1))
		if s := g.Similar; s != nil && s.Protein.Product != "" {
			fmt.Fprintf(out, " %s", s.Protein.Product)
		}
		fmt.Fprintf(out, " [%s:%d-%d(%s)]\n", contigs[g.Contig].Name, g.Start+1, g.End, strand)
		for line := range slices.Chunk(g.protein(contigs, code), 60) {
			fmt.Fprintf(out, "%s\n", line)
		}
	}
	return out.Flush()
}

// identifier is that of a gene, numbered from 1.
func identifier(number int) string { return fmt.Sprintf("PORE_%05d", number) }

// Identifier is what the GFF3 calls a gene of the result, by its index.
func (r *Result) Identifier(gene int) string { return identifier(gene + 1) }

// escape replaces what has a meaning in GFF3's columns.
func escape(s string) string {
	return strings.NewReplacer("%", "%25", "\t", "%09", "\n", "%0A", "\r", "%0D", ">", "%3E", " ", "%20").Replace(s)
}
