package watchlist

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/modbase/panel"
	"github.com/porestream/porestream/modelfile/folder"
	"github.com/porestream/porestream/watchlist/biomarker"
)

// modelText is what a rule's model says.
type modelText struct {
	folder, output string
	line           int
}

// loadModel reads a folder beside a panel.
func loadModel(dir string) (*biomarker.Model, error) {
	fsys, err := folder.Open(dir)
	if err != nil {
		return nil, err
	}
	m, err := biomarker.Load(fsys)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return m, nil
}

// model reads which model a rule asks, and for what.
func (p *reader) model(n *yaml.Node, r *ruleText) {
	m := &modelText{line: n.Line}
	p.mapping(n, "model", map[string]field{
		"folder": p.text("folder", &m.folder),
		"output": p.text("output", &m.output),
	})
	r.model = m
	switch {
	case n.Kind != yaml.MappingNode || m.folder == "" && p.found > 0:
		return
	case m.folder == "" || m.output == "":
		p.addRule(n.Line, r.id, ": model needs the folder of a model and one of its outputs: {folder: NAME, output: NAME}")
		return
	case !filepath.IsLocal(m.folder):
		p.addRule(n.Line, r.id, ": model folder %q is not beside the panel: put it in the panel's folder and name it without a way up", clip(m.folder))
		return
	}
	if _, ok := p.panel.models[m.folder]; ok {
		return
	}
	model, err := p.openModel(m.folder)
	if err != nil {
		p.addRule(n.Line, r.id, ": model %w", err)
	} else {
		p.hash([]byte(model.Digest))
	}
	if p.panel.models == nil {
		p.panel.models = map[string]*biomarker.Model{}
	}
	p.panel.models[m.folder] = model // nil: its fault has been reported
}

// modelUse is a model with the thresholds of its evidence. What its codons and alleles show is kept once for all rules that ask
// for the same.
type modelUse struct {
	number  int
	model   *biomarker.Model
	network biomarker.Network // nil: none was attached
	codons  []codonOf         // by Model.Codons
	regions []*panel.Region   // by Model.Regions
	limits  *test             // of all parts
	answers []*subject
}

// codonOf is a codon of the reference.
type codonOf struct {
	view  *annotate.View
	bases []int // positions in transcript direction
	ref   [3]byte
}

// useKey distinguishes uses of one panel's models.
type useKey struct {
	folder     string
	thresholds string
}

// Models are the models that the panels ask, each once.
func (w *Watch) Models() []*biomarker.Model {
	var list []*biomarker.Model
	seen := map[*biomarker.Model]bool{}
	for _, u := range w.uses {
		if !seen[u.model] {
			seen[u.model] = true
			list = append(list, u.model)
		}
	}
	return list
}

// Attach gives the models their networks, which a [Tracker] needs to answer their rules. It belongs before the first tracker. A
// network is asked by several trackers at once. An error has a line for each model whose network can't be had.
func (w *Watch) Attach(network func(*biomarker.Model) (biomarker.Network, error)) error {
	opened := map[*biomarker.Model]biomarker.Network{}
	var faults []error
	for _, u := range w.uses {
		n, tried := opened[u.model]
		if !tried {
			var err error
			if n, err = network(u.model); err != nil {
				asks := u.answers[0]
				faults = append(faults, fmt.Errorf("%s:%d: rule %q: model %w", asks.panel.path, asks.rule.model.line, asks.rule.id, err))
			}
			opened[u.model] = n
		}
		u.network = n
	}
	return errors.Join(faults...)
}

var errNoNetwork = errors.New("the panel asks a model, and its network was not opened")

// modelRule makes the subject of a rule that asks a model, and those of the model's features.
func (c *compiler) modelRule(r *ruleText) {
	model := c.panel.models[r.model.folder]
	if model == nil {
		return
	}
	output, ok := model.Output(r.model.output)
	if !ok {
		var names []string
		for i := range model.Manifest.Outputs {
			names = append(names, model.Manifest.Outputs[i].Name)
		}
		c.addRule(r.model.line, r.id, ": model %s has no output %q%s: it has %s", model.Manifest.Name, clip(r.model.output), suggest(r.model.output, names), clip(strings.Join(names, ", ")))
		return
	}
	key := useKey{r.model.folder, fmt.Sprint(r.thresholds)}
	use, ok := c.uses[key]
	if !ok {
		use = c.use(r, model)
		c.uses[key] = use
	}
	if use == nil {
		return // its faults have been reported
	}
	s := &subject{scope: ScopeModel, use: use, output: output, rule: r, panel: c.panel, test: use.limits}
	var spans []span
	for i, at := range model.Codons {
		for _, gene := range model.Manifest.Outputs[output].Genes {
			if gene == at.Gene {
				spans = append(spans, c.genes.codons(use.codons[i].view, at.Number, at.Number)...)
			}
		}
	}
	s.area = newArea(spans)
	use.answers = append(use.answers, s)
	c.enter(s)
}

// use makes the subjects of a model's features; nil, with faults, if the reference doesn't have them.
func (c *compiler) use(r *ruleText, model *biomarker.Model) *modelUse {
	before := c.found
	use := &modelUse{number: len(c.watch.uses), model: model}
	views := c.modelGenes(r, model)
	if c.found > before {
		return nil
	}
	// Rules have ids without a colon.
	part := &ruleText{id: "model:" + r.model.folder + ":" + strconv.Itoa(len(c.uses)), line: r.line, thresholds: r.thresholds}
	made := c.codonSubjects(r, use, views)
	if c.found > before {
		return nil
	}
	made = append(made, c.alleleSubjects(r, use)...)
	for _, at := range model.Regions {
		if region, ok := c.modelRegion(r, model, at); ok {
			use.regions = append(use.regions, region)
		}
	}
	if c.found > before {
		return nil
	}
	if len(made)+len(use.regions) == 0 {
		c.addRule(r.model.line, r.id, ": model %s asks for no codon, no allele and no methylation: name decisive codons, or nothing says what reads cover", model.Manifest.Name)
		return nil
	}
	changes := 0
	for _, s := range made {
		changes += s.changes()
	}
	t := c.sufficient(r, max(1, changes))
	if t == nil {
		return nil
	}
	use.limits = t
	for _, s := range made {
		s.panel, s.rule, s.test = c.panel, part, t
	}
	c.refuseTwice(r, model, made[len(model.Codons):])
	if c.found > before {
		return nil
	}
	for _, s := range made {
		c.enter(s)
	}
	c.watch.uses = append(c.watch.uses, use)
	return use
}

// modelGenes are the genes that a model numbers codons of, by its names for them.
func (c *compiler) modelGenes(r *ruleText, model *biomarker.Model) map[string]*annotate.View {
	views := make(map[string]*annotate.View)
	for i := range model.Manifest.Genes {
		g := &model.Manifest.Genes[i]
		view, err := c.genes.numbered(g)
		if err != nil {
			c.addRule(r.model.line, r.id, ": model %s: %w: take the reference and genes that the model is for, or leave the rules out that ask it", model.Manifest.Name, err)
			continue
		}
		views[g.Name] = view
	}
	return views
}

// codonSubjects are the subjects of the codons that a model asks for, up to the first that the reference doesn't have.
func (c *compiler) codonSubjects(r *ruleText, use *modelUse, views map[string]*annotate.View) []*subject {
	var made []*subject
	for i, at := range use.model.Codons {
		view := views[at.Gene]
		k := codonOf{view: view, bases: c.genes.codonBases(view, at.Number)}
		if len(k.bases) != 3 {
			c.addRule(r.model.line, r.id, ": model %s: codon %s is not whole in the reference", use.model.Manifest.Name, at)
			return nil
		}
		for b := range k.bases {
			k.bases[b] %= len(c.watch.genome.Contig(view.Contig.Name).Seq)
		}
		copy(k.ref[:], view.CodingSequence()[3*(at.Number-1):])
		use.codons = append(use.codons, k)
		made = append(made, &subject{
			scope: ScopeRule, name: at.String(), filter: &filter{}, area: newArea(c.genes.codons(view, at.Number, at.Number)), use: use, part: i, hidden: true,
		})
	}
	return made
}

// alleleSubjects are the subjects of the alleles that a model asks for.
func (c *compiler) alleleSubjects(r *ruleText, use *modelUse) []*subject {
	var made []*subject
	model := use.model
	for i, text := range model.Alleles {
		d, err := c.genes.describe(text)
		if err != nil {
			c.addRule(r.model.line, r.id, ": model %s: %s: allele %s: %w", model.Manifest.Name, model.Manifest.Features.File, clip(text), err)
			continue
		}
		s := d.subject
		s.use, s.part, s.hidden = use, len(model.Codons)+i, true
		for _, key := range d.proteins {
			c.watch.byProtein[key] = append(c.watch.byProtein[key], s)
		}
		made = append(made, s)
	}
	return made
}

// refuseTwice adds a fault for each allele of a model that is another one of its alleles, too, in other letters.
func (c *compiler) refuseTwice(r *ruleText, model *biomarker.Model, alleles []*subject) {
	names := make(map[subjectKey]int)
	for i, s := range alleles {
		first, twice := names[s.key()]
		if names[s.key()] = i; twice {
			c.addRule(r.model.line, r.id, ": model %s: alleles %q and %q are one allele: leave one of them out", model.Manifest.Name,
				clip(model.Alleles[first]), clip(model.Alleles[i]))
		}
	}
}

// modelRegion is a region whose methylation a model asks for; false, with a fault, if the reference doesn't have it.
func (c *compiler) modelRegion(r *ruleText, model *biomarker.Model, at biomarker.Region) (*panel.Region, bool) {
	p, err := c.place(at.Text)
	var code modbase.Code
	if err == nil {
		code, err = modbase.ParseCode(at.Code)
	}
	if err != nil {
		c.addRule(r.model.line, r.id, ": model %s: %s: methylation %s: %w", model.Manifest.Name, model.Manifest.Features.File, clip(at.Text), err)
		return nil, false
	}
	p.origin = fmt.Sprintf("model %s: %s: methylation %s", model.Manifest.Name, model.Manifest.Features.File, clip(at.Text))
	where, ok := c.located(r, r.model.line, p)
	return &panel.Region{Contig: where.contig, Start: where.start, End: where.end, Code: code}, ok
}

// Least share of the residues of a gene that have to be those of a model's numbering.
const leastAlike = 0.9

// numbered finds the transcript whose codons a model's gene numbers.
func (c *catalogue) numbered(g *biomarker.Gene) (*annotate.View, error) {
	views, err := c.gene(g.Name)
	if err != nil {
		return nil, err
	}
	var fault error
	for _, v := range views {
		if n := residues(v); n != len(g.Sequence) {
			fault = fmt.Errorf("gene %s has %d codons in the reference, the model's numbering has %d: it was made for another reference", g.Name, n, len(g.Sequence))
			continue
		}
		alike, known := 0, 0
		for i := range len(g.Sequence) {
			if g.Sequence[i] != 'X' {
				known++
				if v.Residue(i+1) == g.Sequence[i] {
					alike++
				}
			}
		}
		if float64(alike) >= leastAlike*float64(known) {
			return v, nil
		}
		fault = fmt.Errorf("gene %s has %d of %d residues of the model's numbering in the reference: it was made for another reference", g.Name, alike, known)
	}
	return nil, fault
}
