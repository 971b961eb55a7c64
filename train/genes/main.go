// Command genes makes the prior of gene finding from annotated genomes, and evaluates genes that were found.
//
//	go run ./train/genes prior --without NC_002695 GENOME.gbk.gz... > prior.json
//	go run ./train/genes convert GENOME.gbk.gz OUT            # OUT.fa and OUT.gff3
//	go run ./train/genes record GENES.gff3 GENOME.fa ACCESSION CODE | gzip > GENOME.gbk.gz
//	go run ./train/genes compare TRUTH.gff3 FOUND.gff3
//	go run ./train/genes rna TRUTH.gff3 FOUND.gff3            # genes of ribosomal and transfer RNA
//	go run ./train/genes calibration TRUTH.gff3 FOUND.gff3    # probabilities against what is true
//	go run ./train/genes consequences GENOME.fa TRUTH.gff3 FOUND.gff3
//	go run ./train/genes names TRUTH.gff3 FOUND.gff3          # after pore genes --proteins
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/genes"
	"github.com/porestream/porestream/genes/genbank"
	"github.com/porestream/porestream/genes/rna"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/textfile"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "genes:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("want prior, convert, record, compare, calibration, consequences, rna or names")
	}
	switch args[0] {
	case "prior":
		return prior(ctx, args[1:], out)
	case "convert":
		if len(args) != 3 {
			return errors.New("want convert GENBANK OUT")
		}
		return convert(args[1], args[2])
	case "record":
		if len(args) != 5 {
			return errors.New("want record GENES.gff3 GENOME.fa ACCESSION CODE")
		}
		code, err := strconv.Atoi(args[4])
		if err != nil {
			return fmt.Errorf("%q is not the number of a genetic code: %w", args[4], err)
		}
		return writeRecord(args[1], args[2], args[3], code, out)
	case "compare":
		if len(args) != 3 {
			return errors.New("want compare TRUTH.gff3 FOUND.gff3")
		}
		return compare(args[1], args[2], out)
	case "calibration":
		if len(args) != 3 {
			return errors.New("want calibration TRUTH.gff3 FOUND.gff3")
		}
		return calibration(args[1], args[2], out)
	case "consequences":
		if len(args) != 4 {
			return errors.New("want consequences GENOME.fa TRUTH.gff3 FOUND.gff3")
		}
		return compareConsequences(args[1], args[2], args[3], out)
	case "rna":
		if len(args) != 3 {
			return errors.New("want rna TRUTH.gff3 FOUND.gff3")
		}
		return compareRNA(args[1], args[2], out)
	case "names":
		if len(args) != 3 {
			return errors.New("want names TRUTH.gff3 FOUND.gff3")
		}
		return names(args[1], args[2], out)
	}
	return fmt.Errorf("%q: want prior, convert, record, compare, calibration, consequences, rna or names", args[0])
}

func read(path string) (records []*genbank.Record, err error) {
	err = reading(path, func(r io.Reader) (err error) {
		records, err = genbank.Read(r)
		return err
	})
	return records, err
}

// reading has a text file, which may be compressed, read. Its name is in the error.
func reading(path string, do func(io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := textfile.NewReader(f, 1<<20)
	if err == nil {
		err = do(r)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// prior learns from all records but those left out.
func prior(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("prior", flag.ContinueOnError)
	without := flags.String("without", "", "accessions, or their beginnings, to leave out; several with commas")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var genomes []genes.Annotated
	for _, path := range flags.Args() {
		records, err := read(path)
		if err != nil {
			return err
		}
		for _, r := range records {
			left := func(prefix string) bool { return prefix != "" && strings.HasPrefix(r.Name, prefix) }
			if !slices.ContainsFunc(strings.Split(*without, ","), left) {
				genomes = append(genomes, annotated(r))
			}
		}
	}
	p, err := genes.LearnPrior(ctx, genomes)
	if err != nil {
		return err
	}
	e := json.NewEncoder(out)
	return e.Encode(p)
}

func annotated(r *genbank.Record) genes.Annotated {
	a := genes.Annotated{Contig: genes.Contig{Name: r.Name, Seq: r.Seq, Circular: r.Circular}}
	for _, c := range r.Coding {
		a.Code = c.Code
		if c.Pseudo || len(c.Parts) != 1 || c.CutLow || c.CutHigh || c.Parts[0].End > len(r.Seq) {
			for _, p := range c.Parts {
				a.Others = append(a.Others, genes.Known{Start: p.Start - 1, End: p.End, Reverse: c.Reverse})
			}
			continue
		}
		a.Genes = append(a.Genes, genes.Known{Start: c.Parts[0].Start - 1, End: c.Parts[0].End, Reverse: c.Reverse})
	}
	for _, f := range r.RNA {
		kind, _, _ := strings.Cut(f.Product, " ")
		if f.Kind != "rRNA" || f.End > len(r.Seq) || !slices.Contains([]string{rna.Small, rna.Large, rna.Little}, kind) {
			continue
		}
		seq := bytes.Clone(r.Seq[f.Start-1 : f.End])
		if f.Reverse {
			genome.ReverseComplement(seq)
		}
		a.Ribosomal = append(a.Ribosomal, rna.Known{Kind: kind, Seq: string(seq)})
	}
	return a
}

// convert writes FASTA and the coding sequences in GFF3.
func convert(path, out string) error {
	records, err := read(path)
	if err != nil {
		return err
	}
	fasta, err := os.Create(out + ".fa")
	if err != nil {
		return err
	}
	defer fasta.Close()
	gff, err := os.Create(out + ".gff3")
	if err != nil {
		return err
	}
	defer gff.Close()
	f, g := bufio.NewWriter(fasta), bufio.NewWriter(gff)
	fmt.Fprintln(g, "##gff-version 3")
	n := 0
	for _, r := range records {
		fmt.Fprintf(f, ">%s\n", r.Name)
		for line := range slices.Chunk(r.Seq, 80) {
			fmt.Fprintf(f, "%s\n", line)
		}
		for _, c := range r.Coding {
			n++
			strand, extra := "+", ""
			if c.Reverse {
				strand = "-"
			}
			if c.Pseudo {
				extra = ";pseudo=true"
			}
			for _, p := range c.Parts {
				fmt.Fprintf(g, "%s\tGenBank\tCDS\t%d\t%d\t.\t%s\t0\tID=cds-%d;transl_table=%d%s\n", r.Name, p.Start, p.End, strand, n, c.Code, extra)
			}
		}
		for i, f := range r.RNA {
			strand := "+"
			if f.Reverse {
				strand = "-"
			}
			fmt.Fprintf(g, "%s\tGenBank\t%s\t%d\t%d\t.\t%s\t.\tID=rna-%d;product=%s\n", r.Name, f.Kind, f.Start, f.End, strand, i+1, f.Product)
		}
	}
	return errors.Join(f.Flush(), g.Flush())
}

// writeRecord writes the longest contig of a genome, which is circular, and its coding sequences as a GenBank record: Ensembl Bacteria has GFF3 and FASTA.
func writeRecord(genesPath, genomePath, accession string, code int, out io.Writer) error {
	list, err := load(genesPath)
	if err != nil {
		return err
	}
	g, err := genome.Load(genomePath)
	if err != nil {
		return err
	}
	genesOfRNA, err := loadRNA(genesPath)
	if err != nil {
		return err
	}
	longest := slices.MaxFunc(g.Contigs, func(a, b *genome.Contig) int { return len(a.Seq) - len(b.Seq) })
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "LOCUS       %s %d bp    DNA     circular BCT 01-JAN-2000\nVERSION     %s\nFEATURES             Location/Qualifiers\n", accession, len(longest.Seq), accession)
	for _, c := range list {
		if c.contig != longest.Name {
			continue
		}
		slices.SortFunc(c.parts, func(a, b genbank.Span) int { return a.Start - b.Start })
		var parts []string
		for _, p := range c.parts {
			parts = append(parts, fmt.Sprintf("%d..%d", p.Start, p.End))
		}
		place := strings.Join(parts, ",")
		if len(parts) > 1 {
			place = "join(" + place + ")"
		}
		if c.reverse {
			place = "complement(" + place + ")"
		}
		fmt.Fprintf(w, "     CDS             %s\n                     /transl_table=%d\n", place, code)
		if c.pseudo {
			fmt.Fprint(w, "                     /pseudo\n")
		}
	}
	for _, f := range genesOfRNA {
		if f.contig != longest.Name {
			continue
		}
		place := fmt.Sprintf("%d..%d", f.low, f.high)
		if f.reverse {
			place = "complement(" + place + ")"
		}
		fmt.Fprintf(w, "     %-16s%s\n                     /product=\"%s\"\n", f.kind, place, f.product)
	}
	fmt.Fprint(w, "ORIGIN\n")
	at := 1
	for line := range slices.Chunk(longest.Seq, 60) {
		fmt.Fprintf(w, "%9d %s\n", at, line)
		at += len(line)
	}
	fmt.Fprint(w, "//\n")
	return w.Flush()
}
