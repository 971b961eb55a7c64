package processor

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"

	"github.com/spf13/pflag"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/function"
	"github.com/porestream/porestream/genes"
	"github.com/porestream/porestream/genes/homology"
)

// Naming says by which known proteins genes that are found get names.
type Naming struct {
	Proteins []string // files, as homology.Load takes them; none gives no names
	// Identity and Coverage are least shares in percent; 0 for the defaults.
	Identity, Coverage float64
	// Functions are files of terms of the Gene Ontology that the known proteins have.
	Functions []string
}

// The least identity and coverage in percent that a name is carried over at: those that UniRef50 has clusters by.
const (
	leastIdentity = 50
	leastCoverage = 80
)

// ProteinsFlag is the flag of files of known proteins.
const ProteinsFlag = "proteins"

// Register adds the flags.
func (n *Naming) Register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&n.Proteins, ProteinsFlag, nil, "proteins of related organisms, which genes that are found get names by: FASTA, GenBank, or GFF3,FASTA; may be given several times")
	flags.Float64Var(&n.Identity, "protein-identity", leastIdentity, "percent of residues that must be the same for a name to be carried over")
	flags.Float64Var(&n.Coverage, "protein-coverage", leastCoverage, "percent of either protein that must be aligned for a name to be carried over")
}

// name names the genes.
func (n *Naming) name(ctx context.Context, found *Found) error {
	if len(n.Proteins) == 0 {
		return nil
	}
	naming := genes.Naming{Identity: n.Identity / 100, Coverage: n.Coverage / 100}
	for flag, share := range map[string]*float64{"protein-identity": &naming.Identity, "protein-coverage": &naming.Coverage} {
		if !(*share > 0 && *share <= 1) {
			return fmt.Errorf("--%s %g is no percentage: want more than 0, and at most 100", flag, 100**share)
		}
	}
	proteins, err := homology.Load(n.Proteins...)
	if err != nil {
		return err
	}
	if naming.Known, err = homology.NewIndex(proteins); err != nil {
		return err
	}
	if len(n.Functions) > 0 {
		set, err := function.LoadSet(n.Functions...)
		if err != nil {
			return err
		}
		for i := range proteins {
			if slices.ContainsFunc(set.Functions(knownProduct(&proteins[i])), isTerm) {
				found.described++
			}
		}
		naming.Terms = func(p *homology.Protein) []string {
			var terms []string
			for _, f := range set.Functions(knownProduct(p)) {
				if isTerm(f) {
					terms = append(terms, f.ID)
				}
			}
			return terms
		}
	}
	found.known = naming.Known.Len()
	return found.Name(ctx, found.contigs, &naming)
}

// knownProduct is what functions of a known protein are asked by.
func knownProduct(p *homology.Protein) annotate.Product {
	return annotate.Product{Gene: &annotate.Gene{ID: p.ID, Symbol: p.Gene}, Protein: p.ID}
}

func isTerm(f annotate.Function) bool { return f.Kind == annotate.GeneTerm }

// evidenceBySimilarity is the Gene Ontology's code of what no curator has reviewed.
const evidenceBySimilarity = "IEA"

// carried are functions of genes that were found, by the known proteins that theirs are like.
type carried struct {
	set     annotate.Functions
	similar map[string]*genes.Similar // by the ID of the gene
}

// Functions are those of p itself, and the terms and sets of the known protein that it is like. Domains lie elsewhere in that, and aren't carried over.
func (c *carried) Functions(p annotate.Product) []annotate.Function {
	own := c.set.Functions(p)
	if p.Gene == nil || c.similar[p.Gene.ID] == nil {
		return own
	}
	var out []annotate.Function
	for _, f := range c.set.Functions(knownProduct(c.similar[p.Gene.ID].Protein)) {
		if f.Kind != annotate.Domain {
			f.Evidence = []string{evidenceBySimilarity}
			out = append(out, f)
		}
	}
	for _, f := range own {
		// By its symbol alone a gene that was found is not known: what is above has the better reason.
		if f.Kind == annotate.Domain {
			out = append(out, f)
		}
	}
	return out
}

// WithFunctions gives an annotator of these genes files of functions, which may be none. It warns of those that know none of the genes.
func (f *Genes) WithFunctions(a *annotate.Annotator, paths []string, logger *slog.Logger) (*annotate.Annotator, error) {
	if len(paths) == 0 {
		return a, nil
	}
	set, err := function.LoadSet(paths...)
	if err != nil {
		return nil, err
	}
	for _, name := range set.Unused(f.products(a.Model())) {
		logger.Warn("no gene has functions of this file: its identifiers and symbols are none of the genes'", "file", name)
	}
	if f.similar == nil {
		return a.WithFunctions(set), nil
	}
	return a.WithFunctions(&carried{set: set, similar: f.similar}), nil
}

// products are what files of functions are asked for: the model's genes and the known proteins that they are like.
func (f *Genes) products(m *annotate.Model) iter.Seq[annotate.Product] {
	return func(yield func(annotate.Product) bool) {
		for p := range m.Products {
			if !yield(p) {
				return
			}
			if s := f.similar[p.Gene.ID]; s != nil && !yield(knownProduct(s.Protein)) {
				return
			}
		}
	}
}

// namingSummary states in a few words how many genes got names; empty if none were asked for.
func (f *Found) namingSummary(naming *Naming) string {
	if len(naming.Proteins) == 0 {
		return ""
	}
	summary := fmt.Sprintf("; %d of them named after %d known proteins", f.Named, f.known)
	if len(naming.Functions) > 0 {
		summary += fmt.Sprintf(", %d of which have terms of --functions", f.described)
	}
	return summary
}
