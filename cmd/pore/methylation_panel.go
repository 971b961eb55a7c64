package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/modbase/panel"
	"github.com/porestream/porestream/modbase/pileup"
)

// methylationPanel is what is asked of counts of CpGs: rules on regions, and the states of sites.
type methylationPanel struct {
	rules, sites string // files
	alpha        float64
	regions      []panel.Region
	list         []panel.Site
}

func (p *methylationPanel) register(flags *pflag.FlagSet) {
	flags.StringVar(&p.rules, "rules", "", "rules on regions, such as promoters: lines of contig, start, end, name and methylated, unmethylated or half (docs/files/modified-bases.md#regions-and-sites)")
	flags.StringVar(&p.sites, "sites", "", "sites whose states are wanted, such as the probes of a methylation array: BED with names")
	flags.Float64Var(&p.alpha, "alpha", 0.01, "most probability that any answer to --rules is wrong, of either kind")
}

// load reads the files that are given.
func (p *methylationPanel) load() (err error) {
	if !(p.alpha > 0 && p.alpha < 1) {
		return cli.Usagef("--alpha %v: want a probability between 0 and 1", p.alpha)
	}
	if p.rules != "" {
		if p.regions, err = readTable(p.rules, panel.ReadRegions); err != nil {
			return fmt.Errorf("--rules: %w", err)
		}
	}
	if p.sites != "" {
		if p.list, err = readTable(p.sites, panel.ReadSites); err != nil {
			return fmt.Errorf("--sites: %w", err)
		}
	}
	return nil
}

func readTable[T any](path string, read func(r io.Reader, name string) ([]T, error)) ([]T, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(f, path)
}

// panelCounts are what was counted for a panel.
type panelCounts struct {
	alpha   float64
	regions *panel.Regions
	vector  *panel.Vector
}

func (p *methylationPanel) counts() *panelCounts {
	return &panelCounts{p.alpha, panel.NewRegions(p.regions), panel.NewVector(p.list)}
}

func (c *panelCounts) add(contig string, row *pileup.Row) {
	c.regions.Add(contig, row)
	c.vector.Add(contig, row)
}

// answers is the table of what is said of regions.
func (c *panelCounts) answers() []byte {
	b := []byte(panel.RegionHeader)
	for _, a := range c.regions.Answers(c.alpha) {
		b = a.Append(b)
	}
	return b
}

// states is the table of sites.
func (c *panelCounts) states() []byte { return c.vector.Append([]byte(panel.VectorHeader)) }
