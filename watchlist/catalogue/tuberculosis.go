package catalogue

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/vrs"
)

// The gradings of the WHO's catalogue that become rules.
const (
	associated        = 1 // associated with resistance
	associatedInterim = 2 // so far
	lastGrading       = 5 // not associated with resistance
)

// WHO2021 is what a panel of the catalogue's first edition says of itself.
func WHO2021() Head {
	return Head{
		ID: "tb-who-2021", Version: "2021.1", Title: "Resistance of M. tuberculosis by the WHO's catalogue of mutations, groups 1 and 2", Assembly: "NC_000962.3",
		Source: "WHO, Catalogue of mutations in Mycobacterium tuberculosis complex and their association with drug resistance, 2021", Date: "2021-06-25",
		Licence: "CC BY-NC-SA 3.0 IGO",
	}
}

// tuberculosis makes rules of graded mutations.
type tuberculosis struct {
	contig *genome.Contig
	genes  map[string]*gene
	drugs  map[string][]graded // by rule
	rules  []rule
	byID   map[string]int // rule
	byWhat map[string]int // rule, by what it matches
}

// graded is what a mutation is to a drug.
type graded struct {
	drug  string
	group int
}

// gene is where a gene's numbering begins, and in which direction it goes.
type gene struct {
	view  *annotate.View
	first int // 0-based, of its first base in its own direction
}

// Tuberculosis writes a panel of the WHO's catalogue of mutations of 2021, on the reference H37Rv. The table has five columns: gene, mutation, alphabet (DNA or
// PROT), drug and grading; a first row with these names may be there. A mutation is S450L, or C-15T or CAG117C in the gene's direction, counted
// from its first base. Gradings 1 and 2 become rules, where a mutation is graded twice for a drug by the lower one, and what the catalogue grades as a whole: changes of rpoB's codons 426 to 452, and losses of
// function of katG, pncA, gid and ethA. It gives the number of rules.
func Tuberculosis(w io.Writer, table io.Reader, h Head, g *genome.Genome, a *annotate.Annotator) (int, error) {
	contig, err := only(g)
	if err == nil {
		err = h.Check()
	}
	if err != nil {
		return 0, err
	}
	t := &tuberculosis{contig: contig, genes: genesOn(a, contig), drugs: map[string][]graded{}, byID: map[string]int{}, byWhat: map[string]int{}}
	if err := rows(table, t.row); err != nil {
		return 0, err
	}
	if len(t.rules) == 0 {
		return 0, errors.New("no row has the grading 1 or 2: want the columns gene, mutation, alphabet, drug and grading")
	}
	if err := t.asWhole(); err != nil {
		return 0, err
	}
	for i := range t.rules {
		t.rules[i].label, t.rules[i].severity = say(t.drugs[t.rules[i].id])
	}
	return len(t.rules), writePanel(w, h, contig, t.rules)
}

// only is the contig of a genome that has one.
func only(g *genome.Genome) (*genome.Contig, error) {
	if len(g.Contigs) != 1 {
		return nil, fmt.Errorf("the reference has %d contigs, and the table is about one: give a FASTA of that alone", len(g.Contigs))
	}
	return g.Contigs[0], nil
}

// genesOn lists the genes of a contig by symbol and by locus tag.
func genesOn(a *annotate.Annotator, contig *genome.Contig) map[string]*gene {
	genes := map[string]*gene{}
	views := a.Model().TranscriptsOn(contig.Name)
	for i := range views {
		v := &views[i]
		start, end := v.Start, v.End
		if len(v.CDS) > 0 {
			start, end = v.CDS[0].Start, v.CDS[len(v.CDS)-1].End
		}
		made := &gene{view: v, first: start}
		if !v.Forward {
			made.first = end - 1
		}
		for _, name := range []string{v.Gene.Symbol, v.Gene.ID, strings.TrimPrefix(v.Gene.ID, "gene-")} {
			if name != "" && genes[name] == nil {
				genes[name] = made
			}
		}
	}
	return genes
}

// row takes a row of the table.
func (t *tuberculosis) row(first bool, cells []string) error {
	if first && strings.EqualFold(cells[0], "gene") {
		return nil
	}
	if len(cells) != 5 {
		return fmt.Errorf("want 5 cells, gene, mutation, alphabet, drug and grading, with tabs between them, have %d", len(cells))
	}
	name, mutation, alphabet, drug := cells[0], cells[1], cells[2], cells[3]
	group, err := strconv.Atoi(cells[4])
	if err != nil || group < associated || group > lastGrading {
		return fmt.Errorf("the grading %q is not 1 to %d", clip(cells[4]), lastGrading)
	}
	if group > associatedInterim {
		return nil
	}
	if !drugForm.MatchString(drug) {
		return fmt.Errorf("the drug %q is not 1 to 40 letters, digits, hyphens and blanks", clip(drug))
	}
	if !isID(name) {
		return fmt.Errorf("the gene %q is not made of letters, digits, dots, hyphens and underscores", clip(name))
	}
	on := t.genes[name]
	if on == nil {
		return fmt.Errorf("gene %q is not among the genes: give the annotation of H37Rv, NC_000962.3", clip(name))
	}
	var r rule
	switch alphabet {
	case "PROT":
		r, err = t.residue(name, on, mutation)
	case "DNA":
		r, err = t.bases(name, on, mutation)
	default:
		err = fmt.Errorf("the alphabet %q is neither DNA nor PROT", clip(alphabet))
	}
	if err != nil {
		return err
	}
	return t.enter(r, graded{drug, group})
}

// maxDrugs bounds the drugs that a mutation is graded for, so that a label is no longer than a panel takes.
const maxDrugs = 15

// enter takes a rule in, or the drug into the rule that is there for the same change.
func (t *tuberculosis) enter(r rule, g graded) error {
	what := r.key + r.match + strings.Join(r.values, " ")
	i, there := t.byWhat[what]
	if !there {
		for n, id := 2, r.id; ; n++ { // ids that are cut to their first letters
			if _, taken := t.byID[r.id]; !taken {
				break
			}
			r.id = fmt.Sprintf("%s.%d", id, n)
		}
		i = len(t.rules)
		t.byWhat[what], t.byID[r.id] = i, i
		t.rules = append(t.rules, r)
	}
	id := t.rules[i].id
	if k := slices.IndexFunc(t.drugs[id], func(have graded) bool { return have.drug == g.drug }); k >= 0 {
		t.drugs[id][k].group = min(t.drugs[id][k].group, g.group)
	} else {
		t.drugs[id] = append(t.drugs[id], g)
	}
	if len(t.drugs[id]) > maxDrugs {
		return fmt.Errorf("%s is graded for more than %d drugs", id, maxDrugs)
	}
	return nil
}

// idOf names a rule: letters, digits, dot, hyphen and underscore.
func idOf(name, mutation string) string {
	const longest = 60
	id := name + "_" + strings.ReplaceAll(mutation, "*", "Ter")
	return id[:min(len(id), longest)]
}

// The forms of mutations.
var (
	residueForm = regexp.MustCompile(`^([ACDEFGHIKLMNPQRSTVWY])([1-9][0-9]{0,4})([ACDEFGHIKLMNPQRSTVWY*])$`)
	drugForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 -]{0,39}$`)
	basesForm   = regexp.MustCompile(`^([ACGT]+)(-?[1-9][0-9]{0,4})([ACGT]+)$`)
)

// residue is the rule for a residue that is replaced by another.
func (t *tuberculosis) residue(name string, on *gene, mutation string) (rule, error) {
	m := residueForm.FindStringSubmatch(mutation)
	if m == nil {
		return rule{}, fmt.Errorf("mutation %q is not one of a residue, such as S450L", clip(mutation))
	}
	n, _ := strconv.Atoi(m[2]) // digits, by the pattern
	if have := on.view.Residue(n); have != m[1][0] {
		return rule{}, fmt.Errorf("%s %s: residue %d of %s is %s in the reference: check the annotation", name, mutation, n, name, residueName(have))
	}
	if m[1] == m[3] {
		return rule{}, fmt.Errorf("%s %s is the reference itself", name, mutation)
	}
	if n > 1 {
		return rule{id: idOf(name, mutation), key: "hgvs", values: []string{name + ":p." + mutation}}, nil
	}
	// A change of the first residue has no name of its own in HGVS, where all of them are p.Met1?: the bases are named. Two at once aren't listed.
	var alleles []string
	for i := range 3 {
		for _, b := range []byte("ACGT") {
			codon := on.text(t.contig, i, 1)
			if codon == string(b) {
				continue
			}
			bases := []byte(on.text(t.contig, 0, 3))
			bases[i] = b
			if on.view.Amino(bases[0], bases[1], bases[2]) == m[3][0] {
				alleles = append(alleles, t.vcf(on.edit(i, codon, string(b))))
			}
		}
	}
	if len(alleles) == 0 {
		return rule{}, fmt.Errorf("%s %s: no change of one base of the first codon makes it", name, mutation)
	}
	return rule{id: idOf(name, mutation), key: "vcf", values: alleles}, nil
}

// residueName names a residue of the reference for an error.
func residueName(b byte) string {
	if b == 0 {
		return "outside of the protein"
	}
	return string(b)
}

// bases is the rule for bases that are replaced by others.
func (t *tuberculosis) bases(name string, on *gene, mutation string) (rule, error) {
	m := basesForm.FindStringSubmatch(mutation)
	if m == nil {
		return rule{}, fmt.Errorf("mutation %q is not one of bases, such as C-15T or CAG117C", clip(mutation))
	}
	at, _ := strconv.Atoi(m[2]) // digits, by the pattern
	if at > 0 {
		at-- // there is no base 0: the one before the first is -1
	}
	if m[1] == m[3] {
		return rule{}, fmt.Errorf("%s %s is the reference itself", name, clip(mutation))
	}
	// The catalogue spells insertions and deletions as VCF does, on the genome's strand from the base that the number means on, whatever the gene's
	// direction; and, in a single row, in the gene's.
	have := on.text(t.contig, at, len(m[1]))
	e := on.edit(at, m[1], m[3])
	if indel := len(m[1]) != len(m[3]); indel && !on.view.Forward {
		start := on.start(at, 1)
		if bases := onStrand(t.contig, start, len(m[1])); bases == m[1] || have != m[1] {
			have, e = bases, vrs.Edit{Start: start, Ref: m[1], Alt: m[3]}
		}
	}
	if have != m[1] {
		return rule{}, fmt.Errorf("%s %s: the reference has %s there, not %s: check the annotation", name, clip(mutation), clip(have), clip(m[1]))
	}
	return rule{id: idOf(name, mutation), key: "vcf", values: []string{t.vcf(e)}}, nil
}

// text is n bases from base i of the gene, 0-based, in its own direction; "" outside of the contig.
func (g *gene) text(contig *genome.Contig, i, n int) string {
	bases := []byte(onStrand(contig, g.start(i, n), n))
	if !g.view.Forward {
		genome.ReverseComplement(bases)
	}
	return string(bases)
}

// onStrand is n bases of the contig; "" outside of it.
func onStrand(contig *genome.Contig, start, n int) string {
	if start < 0 || start+n > len(contig.Seq) {
		return ""
	}
	return string(contig.Seq[start : start+n])
}

// start is where n bases from base i of the gene lie on the contig.
func (g *gene) start(i, n int) int {
	if g.view.Forward {
		return g.first + i
	}
	return g.first - i - n + 1
}

// edit is the change of bases from base i of the gene, which are given in its direction.
func (g *gene) edit(i int, ref, alt string) vrs.Edit {
	r, a := []byte(ref), []byte(alt)
	if !g.view.Forward {
		genome.ReverseComplement(r)
		genome.ReverseComplement(a)
	}
	return vrs.Edit{Start: g.start(i, len(ref)), Ref: string(r), Alt: string(a)}
}

// vcf spells a change on the contig, as VCF does.
func (t *tuberculosis) vcf(e vrs.Edit) string {
	e = e.Normal(t.contig.Seq)
	return fmt.Sprintf("%s:%d:%s:%s", t.contig.Name, e.Start+1, e.Ref, e.Alt)
}

// asWhole adds what the catalogue grades without naming each mutation (chapter "additional grading criteria").
func (t *tuberculosis) asWhole() error {
	for _, w := range []struct{ id, gene, tag, drug, classes string }{
		{"rpoB_RRDR", "rpoB", "Rv0667", "rifampicin", "codon: 426-452, consequence: [missense_variant, stop_gained, frameshift_variant, inframe_insertion, inframe_deletion, protein_altering_variant]"},
		{"katG_loss", "katG", "Rv1908c", "isoniazid", "consequence: [stop_gained, frameshift_variant, start_lost]"},
		{"pncA_loss", "pncA", "Rv2043c", "pyrazinamide", "consequence: [stop_gained, frameshift_variant, start_lost]"},
		{"gid_loss", "gid", "Rv3919c", "streptomycin", "consequence: [stop_gained, frameshift_variant, start_lost]"},
		{"ethA_loss", "ethA", "Rv3854c", "ethionamide", "consequence: [stop_gained, frameshift_variant, start_lost]"},
	} {
		name := w.gene
		if t.genes[name] == nil {
			on := t.genes[w.tag]
			if on == nil {
				return fmt.Errorf("rule %s, of %s as a whole: neither %s nor %s is among the genes: give the annotation of H37Rv, NC_000962.3", w.id, w.gene, w.gene, w.tag)
			}
			name = on.view.Gene.ID
		}
		if err := t.enter(rule{id: w.id, match: fmt.Sprintf("{gene: %q, %s}", name, w.classes)}, graded{w.drug, associatedInterim}); err != nil {
			return err
		}
	}
	return nil
}

// say is the label and the severity of a rule: the drugs in the table's words, and the best of the groups.
func say(list []graded) (label, severity string) {
	var words []string
	best := associatedInterim
	for _, g := range list {
		words = append(words, fmt.Sprintf("%s (group %d)", g.drug, g.group))
		best = min(best, g.group)
	}
	return "resistance to " + strings.Join(words, ", "), "group-" + strconv.Itoa(best)
}
