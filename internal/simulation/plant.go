package simulation

import (
	"bufio"
	"fmt"
	"os"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/simulate"
	"github.com/porestream/porestream/vcf"
	"github.com/porestream/porestream/wholefile"
)

// Plant says which variants are planted in which reference.
type Plant struct {
	Reference string // FASTA
	Variants  string // a simulate.Spec
	VCF       string // of the variants, in place of Variants; its flag is VCFFlag
	VCFFlag   string
	Ploidy    int
	Seed      uint64
}

// Check says what is wrong, as errors of usage.
func (p *Plant) Check() error {
	switch {
	case p.Reference == "":
		return cli.Usagef("--ref is required: the reference genome to plant variants in")
	case p.Ploidy < 1 || p.Ploidy > 2:
		return cli.Usagef("--ploidy %d: want 1 or 2", p.Ploidy)
	case p.VCF != "" && p.Variants != "none":
		return cli.Usagef("--%s and --variants exclude each other", p.VCFFlag)
	}
	if _, err := simulate.ParseSpec(p.Variants); err != nil {
		return cli.Usagef("--variants: %w", err)
	}
	return nil
}

// Load returns the reference and the variants.
func (p *Plant) Load() (*genome.Genome, []simulate.Site, error) {
	if err := p.Check(); err != nil {
		return nil, nil, err
	}
	g, err := genome.Load(p.Reference)
	if err != nil {
		return nil, nil, err
	}
	sites, err := p.Sites(g)
	return g, sites, err
}

// Sites returns the variants that are planted in a reference.
func (p *Plant) Sites(g *genome.Genome) ([]simulate.Site, error) {
	if p.VCF != "" {
		return SitesOf(p.VCF, func(r *vcf.Reader) ([]simulate.Site, error) { return simulate.FromVCF(r, g, p.Ploidy, p.Seed) })
	}
	spec, err := simulate.ParseSpec(p.Variants)
	if err != nil {
		return nil, err
	}
	return simulate.Plant(g, spec, p.Ploidy, p.Seed)
}

// SitesOf reads the variants of a VCF file.
func SitesOf(path string, read func(*vcf.Reader) ([]simulate.Site, error)) ([]simulate.Site, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	r, err := vcf.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	sites, err := read(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return sites, nil
}

// WriteSites writes a VCF file.
func WriteSites(path string, header *vcf.Header, sites []simulate.Site) error {
	return writeSites(path, header, sites, (*simulate.Site).Record)
}

func writeSites(path string, header *vcf.Header, sites []simulate.Site, record func(*simulate.Site) *vcf.Record) error {
	return wholefile.Write(path, func(out *bufio.Writer) error {
		w, err := vcf.NewWriter(out, header)
		if err != nil {
			return err
		}
		for i := range sites {
			if err := w.Write(record(&sites[i])); err != nil {
				return err
			}
		}
		return w.Flush()
	})
}

// Haplotypes returns the copies of all contigs.
func Haplotypes(g *genome.Genome, sites []simulate.Site, ploidy int) ([]*simulate.Haplotype, error) {
	var all []*simulate.Haplotype
	for _, c := range g.Contigs {
		n := 0
		for n < len(sites) && sites[n].Contig == c.Name {
			n++
		}
		copies, err := simulate.Haplotypes(c, sites[:n], ploidy)
		if err != nil {
			return nil, err
		}
		sites = sites[n:]
		all = append(all, copies...)
	}
	return all, nil
}
