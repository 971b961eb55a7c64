package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/internal/cli"
)

// pickFlags choose which consequences are reported, as VEP's options of the same names do.
type pickFlags struct {
	chosen []bool // by pickModes
	order  string
}

// pickModes are the flags; at most one of them is given.
var pickModes = []struct {
	name, usage string
	mode        annotate.PickMode
}{
	{"pick", "only the best consequence of each record", annotate.PickRecord},
	{"pick-allele", "only the best consequence of each alternate allele", annotate.PickAllele},
	{"per-gene", "only the best consequence of each record for each gene", annotate.PickGene},
	{"pick-allele-gene", "only the best consequence of each alternate allele for each gene", annotate.PickAlleleGene},
	{"flag-pick", "all consequences, the best of each record marked with PICK", annotate.FlagPick},
	{"flag-pick-allele", "all consequences, the best of each alternate allele marked with PICK (default)", annotate.FlagPickAllele},
	{"flag-pick-allele-gene", "all consequences, the best of each alternate allele for each gene marked with PICK", annotate.FlagPickAlleleGene},
	{"most-severe", "only the most severe term of each record, without the transcript", annotate.MostSevereOnly},
}

// register adds the flags.
func (p *pickFlags) register(flags *pflag.FlagSet) {
	p.chosen = make([]bool, len(pickModes))
	for i, m := range pickModes {
		flags.BoolVar(&p.chosen[i], m.name, false, m.usage)
	}
	var names []string
	for _, c := range annotate.DefaultPickOrder() {
		names = append(names, string(c))
	}
	flags.StringVar(&p.order, "pick-order", strings.Join(names, ","), "criteria for the best consequence, the most important first")
}

// pick is what the flags ask for.
func (p *pickFlags) pick() (annotate.Pick, error) {
	var pick annotate.Pick
	given := ""
	for i, m := range pickModes {
		if !p.chosen[i] {
			continue
		}
		if given != "" {
			return pick, cli.Usagef("--%s and --%s exclude each other", given, m.name)
		}
		given, pick.Mode = m.name, m.mode
	}
	var err error
	if pick.Order, err = annotate.ParsePickOrder(p.order); err != nil {
		return pick, cli.Usagef("--pick-order: %w", err)
	}
	return pick, nil
}
