package processor

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/porestream/porestream/genes"
	"github.com/porestream/porestream/genome"
)

// Finding says how the genes of a reference without annotation are found.
type Finding struct {
	Code     int      // NCBI's genetic code; 0 finds it
	Circular []string // contigs; "all" for every one
	Prior    string   // file; empty for the one that is built in
	AnySize  bool     // don't refuse what is longer than a bacterium's genome
	Naming   Naming
}

// Found are genes that were found, with the genome that they are of.
type Found struct {
	*genes.Result
	contigs []genes.Contig
	known   int // proteins that genes could be named after
	// described of them have terms of files of functions, which pore genes is given.
	described int
	naming    string
}

// Find finds the genes of a genome.
func (f *Finding) Find(ctx context.Context, g *genome.Genome) (*Found, error) {
	opts := genes.Options{Code: f.Code, AnySize: f.AnySize}
	if f.Prior != "" {
		file, err := os.Open(f.Prior)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		if opts.Prior, err = genes.ReadPrior(file); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Prior, err)
		}
	}
	all := slices.Contains(f.Circular, "all")
	for _, name := range f.Circular {
		if name != "all" && g.Contig(name) == nil {
			return nil, fmt.Errorf("circular contig %q is not in the genome", name)
		}
	}
	out := new(Found)
	for _, c := range g.Contigs {
		bases := c.Flat()
		if bytes.IndexByte(bases, 'U') >= 0 { // an RNA, whose genes are read from T
			bases = bytes.ReplaceAll(bases, []byte("U"), []byte("T"))
		}
		out.contigs = append(out.contigs, genes.Contig{Name: c.Name, Seq: bases, Circular: all || f.circular(g, c)})
	}
	var err error
	if out.Result, err = genes.Find(ctx, out.contigs, opts); err != nil {
		return nil, err
	}
	if err := f.Naming.name(ctx, out); err != nil {
		return nil, err
	}
	out.naming = out.namingSummary(&f.Naming)
	return out, nil
}

func (f *Finding) circular(g *genome.Genome, c *genome.Contig) bool {
	return slices.ContainsFunc(f.Circular, func(name string) bool { return g.Contig(name) == c })
}

// Write writes them as GFF3.
func (f *Found) Write(w io.Writer) error { return genes.WriteGFF3(w, f.contigs, f.Result) }

// WriteProteins writes what they are translated to as FASTA.
func (f *Found) WriteProteins(w io.Writer) error { return genes.WriteProteins(w, f.contigs, f.Result) }

// Summary is a line that says what was found.
func (f *Found) Summary() string {
	how := "as given"
	if f.CodeFound {
		how = "found"
	}
	ribosomal, transfer := 0, 0
	for i := range f.RNA {
		if f.RNA[i].Transfer {
			transfer++
		} else {
			ribosomal++
		}
	}
	return fmt.Sprintf("%d genes of proteins, %d of rRNA, %d of tRNA, %d pseudogenes in %d contigs with %d bases, %.1f %% of them coding, GC %.1f %%; genetic code %d (%s)%s",
		len(f.Genes), ribosomal, transfer, len(f.Pseudogenes), len(f.contigs), f.Bases, 100*f.Coding, 100*f.GC, f.Code, how, f.naming)
}

// gff3 is what is written, in memory.
func (f *Found) gff3() (*bytes.Buffer, error) {
	var out bytes.Buffer
	err := f.Write(&out)
	return &out, err
}
