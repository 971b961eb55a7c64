package report

import (
	"bufio"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/annotate/diplotype"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/internal/pipeline"
	"github.com/porestream/porestream/watchlist"
	"github.com/porestream/porestream/wholefile"
)

// FileName is the report's name in the folder of a run.
const FileName = "report.html"

//go:embed report.html.tmpl
var page string

//go:embed report.css
var style string

// mostVariants bounds the variants that are listed of a sample, those of the gravest consequences first.
const mostVariants = 200

// Options are what is known of a run besides its folder.
type Options struct {
	Title string // empty: "Report of a sequencing run"
	// Program is the version of the program that made the run; empty: not known.
	Program string
}

// WriteFile writes the report of a run's folder beside its files, or where path says.
func WriteFile(dir, path string, options Options) error {
	view, err := read(dir, options)
	if err != nil {
		return err
	}
	return wholefile.Write(cmp.Or(path, filepath.Join(dir, FileName)), func(w *bufio.Writer) error { return view.write(w) })
}

// Write writes the report of a run's folder.
func Write(w io.Writer, dir string, options Options) error {
	view, err := read(dir, options)
	if err != nil {
		return err
	}
	return view.write(w)
}

func read(dir string, options Options) (*view, error) {
	r, err := readFolder(dir)
	if err != nil {
		return nil, err
	}
	v := r.view(options)
	if hasSession(dir) {
		v.Session = SessionName
	}
	return v, nil
}

var parsed = template.Must(template.New("report").Parse(page))

func (v *view) write(w io.Writer) error {
	if err := parsed.Execute(w, v); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// view is what the page shows, in words.
type view struct {
	Title, Program string
	Session        string // of IGV, beside the report; empty: none
	Style          template.CSS
	Figures        []figure
	Groups         []panelGroup // of the table's columns
	Markers        []column
	Legend         []legend
	Samples        []sampleView
	Quality        []bar
	Barcodes       []bar
	Warnings       []string
	Unseen         []string
	Versions       []figure
	Counts         []figure // samples by verdict
}

type figure struct{ Name, Value string }

type panelGroup struct {
	Name string
	Span int
}

type column struct{ Rule, Label, Severity string }

type legend struct {
	Kind       kind
	Code, Word string
}

type bar struct {
	Name    string
	Value   int64
	Percent string // of the width
}

type cell struct {
	Kind       kind
	Code, Word string
	Link       string // anchor of the finding; empty: none
}

type sampleView struct {
	Name, ID string
	Verdict  verdict
	Cells    []cell
	Findings []finding
	Blind    []finding
	Variants []variantRow
	More     int // variants that aren't listed
	Passed   int
	Depth    []picture
	Contigs  int // that have no picture
	Models   []string
	File     string
	Control  string // what kind of a control it is; empty: none
	Carried  []variantRow
	Measured bool
	Named    []namedRow
}

// namedRow is what a sample has of a gene with named alleles.
type namedRow struct {
	Gene, Diplotype, Also, Unexamined, Missing, Reason string
	Sure                                               bool // one diplotype, no other possible, nothing missing
}

type finding struct {
	ID, Rule, Label, State string
	Kind                   kind
	Place, Change, Reads   string
	Error, Reason, Final   string
	IGV                    template.URL
}

type variantRow struct {
	Place, Change, Gene, Effect, Protein, Impact string
	Reads, Fraction, Qual, Filters, Genotype     string
	Why                                          string
	IGV                                          template.URL
}

type picture struct {
	Name, Says, Path, Top string
	Line                  string // height of the depth that is asked for
	Marks                 []string
}

func (r *results) view(options Options) *view {
	v := &view{Title: cmp.Or(options.Title, "Report of a sequencing run"), Program: options.Program, Style: template.CSS(style)}
	markers := r.markers()
	v.columns(markers)
	kinds := make(map[kind]int)
	words := make(map[watchlist.State]bool)
	for i, s := range r.samples {
		sv := s.view(i, markers, slices.Contains(r.summary.MixedModels, s.name), words)
		for _, m := range r.summary.Models[s.name] {
			text := fmt.Sprintf("%s: %d reads (%.1f %%)", cmp.Or(m.Name, "model not named"), m.Reads, 100*m.Share)
			if m.Mismatch {
				text += ", for which the variant model was not made"
			}
			sv.Models = append(sv.Models, text)
		}
		kinds[sv.Verdict.Kind]++
		v.Samples = append(v.Samples, sv)
	}
	v.legend(words)
	for _, k := range []struct {
		kind kind
		name string
	}{{found, "with a finding"}, {other, "with other answers"}, {doubt, "not settled"}, {blind, "not callable, in part or wholly"}, {wait, "without an answer yet"}, {clear, "without a finding"}} {
		if n := kinds[k.kind]; n > 0 && len(markers) > 0 {
			v.Counts = append(v.Counts, figure{k.name, strconv.Itoa(n)})
		}
	}
	v.figures(&r.summary)
	v.unseen(r)
	v.versions(r)
	return v
}

// markers lists the rules that anything is said of, by panel, in the order of their names.
func (r *results) markers() []*marker {
	known := make(map[string]*marker)
	for _, s := range r.samples {
		for _, a := range s.alerts {
			m := &marker{a.Panel.ID, a.Rule, a.Label, a.Severity}
			if known[m.key()] == nil {
				known[m.key()] = m
			}
		}
	}
	return slices.SortedFunc(maps.Values(known), func(a, b *marker) int { return cmp.Or(cmp.Compare(a.panel, b.panel), cmp.Compare(a.rule, b.rule)) })
}

func (v *view) columns(markers []*marker) {
	for _, m := range markers {
		if n := len(v.Groups); n == 0 || v.Groups[n-1].Name != m.panel {
			v.Groups = append(v.Groups, panelGroup{Name: m.panel})
		}
		v.Groups[len(v.Groups)-1].Span++
		v.Markers = append(v.Markers, column{m.rule, m.label, m.severity})
	}
}

func (v *view) legend(words map[watchlist.State]bool) {
	states := slices.SortedFunc(maps.Keys(words), func(a, b watchlist.State) int {
		return cmp.Or(cmp.Compare(rank[kindOf(a)], rank[kindOf(b)]), cmp.Compare(a, b))
	})
	for _, s := range states {
		v.Legend = append(v.Legend, legend{kindOf(s), code(s), meaning(s)})
	}
}

// meaning is a state for people.
func meaning(s watchlist.State) string {
	known := map[watchlist.State]string{
		watchlist.Detected: "detected", watchlist.Suspected: "suspected, not settled", watchlist.Negative: "negative: deep enough, and not there",
		watchlist.NotCallable: "not callable: too few reads to say either", watchlist.Pending: "no answer yet",
		"RESISTANT": "resistant", "SUSCEPTIBLE": "susceptible", "INTERMEDIATE": "intermediate",
	}
	return cmp.Or(known[s], strings.ToLower(string(s)))
}

func (s *sample) view(n int, markers []*marker, mixed bool, words map[watchlist.State]bool) sampleView {
	v := sampleView{Name: s.name, ID: "s" + strconv.Itoa(n+1), File: s.vcf, Control: s.control}
	answers := make(map[string]*watchlist.Alert)
	for _, a := range s.alerts {
		key := (&marker{panel: a.Panel.ID, rule: a.Rule}).key()
		answers[key] = answer(answers[key], a)
	}
	var given []*watchlist.Alert
	for i, m := range markers {
		a := answers[m.key()]
		if a == nil {
			v.Cells = append(v.Cells, cell{Kind: "none", Code: "", Word: "not asked"})
			continue
		}
		given = append(given, a)
		said := a.Answer()
		words[said] = true
		c := cell{Kind: kindOf(a.State), Code: code(said), Word: cmp.Or(string(said), "PENDING")}
		if c.Kind != clear {
			f := findingOf(a, v.ID+"-"+strconv.Itoa(i+1))
			c.Link = f.ID
			if c.Kind == blind || c.Kind == wait {
				v.Blind = append(v.Blind, f)
			} else {
				v.Findings = append(v.Findings, f)
			}
		}
		v.Cells = append(v.Cells, c)
	}
	slices.SortStableFunc(v.Findings, func(a, b finding) int { return rank[a.Kind] - rank[b.Kind] })
	v.Verdict = verdictOf(s, given, mixed)
	s.listVariants(&v)
	for i := range s.named {
		v.Named = append(v.Named, namedOf(&s.named[i]))
	}
	if s.depth != nil {
		v.Measured = true
		for _, d := range s.depth.contigs[:min(maxContigs, len(s.depth.contigs))] {
			v.Depth = append(v.Depth, d.picture(given))
		}
		v.Contigs = max(0, len(s.depth.contigs)-maxContigs)
	}
	return v
}

func findingOf(a *watchlist.Alert, id string) finding {
	f := finding{ID: id, Rule: a.Panel.ID + "/" + a.Rule, Label: a.Label, State: string(a.Answer()), Kind: kindOf(a.State), Reason: a.Reason, Final: "may change"}
	if a.Final {
		f.Final = "final"
	}
	if al := a.Allele; al != nil {
		f.Place, f.IGV = fmt.Sprintf("%s:%d", al.Contig, al.Pos), igv(al.Contig, al.Pos, len(al.Ref))
		f.Change = clip(al.Ref) + ">" + clip(al.Alt)
	} else if c := a.Coverage; c != nil && c.Worst != nil {
		f.Place, f.IGV = fmt.Sprintf("%s:%d", c.Worst.Contig, c.Worst.Pos), igv(c.Worst.Contig, int64(c.Worst.Pos), 1)
	}
	if c := a.Consequence; c != nil {
		if _, p, ok := strings.Cut(c.HGVSp, ":"); ok {
			f.Change = strings.TrimSpace(f.Change + " " + p)
		}
		if c.Gene != nil {
			f.Change = strings.TrimSpace(cmp.Or(c.Gene.Symbol, c.Gene.ID) + " " + f.Change)
		}
	}
	switch c, k := a.Coverage, a.Carried; {
	case a.Evidence != nil:
		f.Reads = fmt.Sprintf("%d of %d", a.Evidence.AltForward+a.Evidence.AltReverse, a.Evidence.Depth)
	case kindOf(a.State) == blind && c != nil && c.Worst != nil:
		f.Reads = fmt.Sprintf("depth %d, %d needed; %d of %d positions not callable", c.Worst.Depth, c.DepthNeeded, c.NotCallable, c.Positions)
	case k != nil:
		f.Reads = fmt.Sprintf("%d of %d", k.AltForward+k.AltReverse, k.Depth)
	}
	if p := a.Probability.FalseAlarm; p != nil {
		f.Error = fmt.Sprintf("false alarm ≤ %.2g", *p)
	}
	if p := a.Probability.Miss; p != nil {
		f.Error = strings.TrimPrefix(f.Error+fmt.Sprintf(", miss ≤ %.2g", *p), ", ")
	}
	return f
}

var impacts = map[string]int{"HIGH": 0, "MODERATE": 1, "LOW": 2, "MODIFIER": 3}

func (s *sample) listVariants(v *sampleView) {
	list := slices.DeleteFunc(slices.Clone(s.variants), func(e *event.Variant) bool { return !e.Passed() })
	v.Passed = len(list)
	if len(list) > mostVariants {
		grave := func(e *event.Variant) int {
			if n, known := impacts[string(e.Annotation.MostSevere.Impact)]; known {
				return n
			}
			return len(impacts)
		}
		kept := slices.Clone(list)
		slices.SortStableFunc(kept, func(a, b *event.Variant) int { return grave(a) - grave(b) })
		last := make(map[*event.Variant]bool)
		for _, e := range kept[:mostVariants] {
			last[e] = true
		}
		list = slices.DeleteFunc(list, func(e *event.Variant) bool { return !last[e] })
	}
	v.More = v.Passed - len(list)
	for _, e := range list {
		v.Variants = append(v.Variants, rowOf(e))
	}
	for _, e := range s.variants {
		if c := e.Call.CarryOver; c != nil && c.Explained && len(v.Carried) < mostVariants {
			row := rowOf(e)
			share := "not bounded"
			if c.Share != nil {
				share = fmt.Sprintf("%.0f %%", 100*(*c.Share))
			}
			row.Fraction = share
			row.Why = fmt.Sprintf("%s; control %s shows it in %d of %d reads", strings.ReplaceAll(c.Basis, "_", " "), c.Control, c.ControlAlt, c.ControlDepth)
			v.Carried = append(v.Carried, row)
		}
	}
}

func namedOf(r *diplotype.Row) namedRow {
	list := func(words []string) string { return cmp.Or(strings.Join(words, "; "), "none") }
	row := namedRow{
		Gene: r.Gene, Diplotype: cmp.Or(strings.Join(r.Diplotypes, " or "), "not called"), Also: list(r.AlsoPossible), Unexamined: list(r.Unexamined),
		Missing: list(r.Missing), Reason: r.Reason,
		Sure: len(r.Diplotypes) == 1 && len(r.AlsoPossible)+len(r.Unexamined)+len(r.Missing)+len(r.UnknownBases) == 0,
	}
	if len(r.UnknownBases) > 0 {
		row.Reason = strings.TrimPrefix(row.Reason+": "+strings.Join(r.UnknownBases, ", "), ": ")
	}
	switch {
	case row.Sure:
		row.Reason = cmp.Or(row.Reason, "all positions are covered, and no other pair explains them")
	case row.Reason == "" && len(r.Diplotypes) > 1:
		row.Reason = "the calls don't show which: phase isn't known, or positions are missing"
	case row.Reason == "" && len(r.Missing) > 0:
		row.Reason = "what is not covered is not assumed to be the reference"
	case row.Reason == "":
		row.Reason = "other pairs explain the calls, too"
	}
	return row
}

func rowOf(e *event.Variant) variantRow {
	worst := e.Annotation.MostSevere
	row := variantRow{
		Place: fmt.Sprintf("%s:%d", e.Allele.Contig, e.Allele.Pos), Change: clip(e.Allele.Ref) + ">" + clip(e.Allele.Alt),
		Gene: worst.Gene, Effect: strings.ReplaceAll(worst.Term, "_", " "), Impact: string(worst.Impact),
		Reads: fmt.Sprintf("%d of %d", e.Call.AltForward+e.Call.AltReverse, e.Call.Depth), Qual: strconv.FormatFloat(e.Call.Qual, 'f', 0, 64),
		Genotype: e.Call.Zygosity, Filters: strings.Join(e.Call.Filters, ", "), IGV: igv(e.Allele.Contig, e.Allele.Pos, len(e.Allele.Ref)),
	}
	if e.Call.Depth > 0 {
		row.Fraction = fmt.Sprintf("%.0f %%", 100*float64(e.Call.AltForward+e.Call.AltReverse)/float64(e.Call.Depth))
	}
	if c := e.Annotation.Consequences; len(c) > 0 {
		_, row.Protein, _ = strings.Cut(c[0].HGVSp, ":")
	}
	return row
}

// clip shortens an allele that is longer than a cell.
func clip(allele string) string {
	if len(allele) <= 20 {
		return allele
	}
	return fmt.Sprintf("%s… (%d bases)", allele[:12], len(allele))
}

// igvAround is how many bases are shown on either side of a place.
const igvAround = 60

// igv is a link that has a running IGV desktop go to a place. The address is made of escaped parts alone.
func igv(contig string, pos int64, length int) template.URL {
	locus := fmt.Sprintf("%s:%d-%d", contig, max(1, pos-igvAround), pos+int64(length)+igvAround)
	return template.URL("http://localhost:60151/goto?locus=" + url.QueryEscape(locus)) //nolint:gosec // see above
}

func (d *contigDepth) picture(answers []*watchlist.Alert) picture {
	top := d.top()
	p := picture{Name: d.name, Path: d.path(top), Top: strconv.Itoa(int(top + 0.5)), Line: strconv.FormatFloat(pictureHeight*(1-min(1, shallow/top)), 'f', 1, 64)}
	p.Says = fmt.Sprintf("%d bases; depth: median %d, least tenth up to %d; %.1f %% below %d, %.1f %% without reads", d.length, d.quantile(0.5), d.quantile(0.1),
		100*float64(d.below(shallow))/float64(d.length), shallow, 100*float64(d.below(1))/float64(d.length))
	for _, a := range answers {
		if c := a.Coverage; kindOf(a.State) == blind && c != nil && c.Worst != nil && c.Worst.Contig == d.name && c.Worst.Pos <= d.length {
			p.Marks = append(p.Marks, strconv.FormatFloat(float64(c.Worst.Pos)*pictureWidth/float64(d.length), 'f', 1, 64))
		}
	}
	slices.Sort(p.Marks)
	p.Marks = slices.Compact(p.Marks)
	return p
}

func bars(of map[string]int64, names map[string]string) []bar {
	most := int64(1)
	for _, n := range of {
		most = max(most, n)
	}
	var list []bar
	for name, n := range of {
		list = append(list, bar{cmp.Or(names[name], name), n, strconv.FormatFloat(100*float64(n)/float64(most), 'f', 1, 64)})
	}
	slices.SortFunc(list, func(a, b bar) int { return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Name, b.Name)) })
	return list
}

func (v *view) figures(s *pipeline.Summary) {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	name := func(n int, one, more string) figure {
		if n == 1 {
			return figure{one, "1"}
		}
		return figure{more, strconv.Itoa(n)}
	}
	v.Figures = []figure{
		name(len(v.Samples), "sample", "samples"), name(len(v.Markers), "marker", "markers"), {"reads", number(s.Reads)}, {"bases", number(s.Bases)},
		{"reads mapped", number(s.Mapped)}, {"variants that passed", number(s.Variants)},
	}
	left := map[string]int64{"mapped": s.Mapped}
	for why, n := range s.LeftOut {
		if n > 0 {
			left[why] = n
		}
	}
	v.Quality = bars(left, map[string]string{
		"mapped": "used: map on the reference", "short": "too short", "unsupported": "sample rate without a model", "low_quality": "below the least quality",
		"no_model": "run without a model", "unclassified": "no barcode of the run's samples", "unmapped": "map nowhere on the reference",
	})
	barcodes := maps.Clone(s.Barcodes)
	for why, n := range s.WithoutBarcode {
		if barcodes == nil {
			barcodes = make(map[string]int64)
		}
		barcodes["none: "+strings.ReplaceAll(why, "_", " ")] += n
	}
	v.Barcodes = bars(barcodes, nil)
	if text := s.Warning(); text != "" {
		v.Warnings = append(v.Warnings, text)
	}
	v.Warnings = append(v.Warnings, s.ModelWarnings()...)
	v.Warnings = append(v.Warnings, s.CarryOver.Warnings()...)
	for _, m := range s.Motifs {
		v.Warnings = append(v.Warnings, fmt.Sprintf("reads of one strand get the motif %s wrong; calls that show it are marked MotifArtifact", m.Motif))
	}
	if s.DeadLetters > 0 {
		v.Warnings = append(v.Warnings, count(int(s.DeadLetters), "record could not be processed", "records could not be processed")+": see pore dlq")
	}
	if s.Skipped > 0 {
		v.Warnings = append(v.Warnings, count(int(s.Skipped), "read could not be used", "reads could not be used"))
	}
}

// unseen lists what was not examined.
func (v *view) unseen(r *results) {
	s := &r.summary
	add := func(format string, args ...any) { v.Unseen = append(v.Unseen, fmt.Sprintf(format, args...)) }
	if s.FilteredOut > 0 {
		add("%s not chosen (--reads, --channels, --from, --to).", count(int(s.FilteredOut), "read was", "reads were"))
	}
	if len(s.SilentSamples) > 0 {
		add("Samples of the sample sheet without reads: %s.", strings.Join(s.SilentSamples, ", "))
	}
	if s.SilentBarcodes > 0 {
		add("%s of the kit without reads and without a line in a sample sheet.", count(s.SilentBarcodes, "barcode", "barcodes"))
	}
	blindMarkers, filtered, measured, panels := 0, 0, true, true
	for i := range v.Samples {
		blindMarkers += len(v.Samples[i].Blind)
		measured = measured && v.Samples[i].Measured
		filtered += len(r.samples[i].variants) - v.Samples[i].Passed
		panels = panels && r.samples[i].panels
	}
	if blindMarkers > 0 {
		add("%s without an answer, n/c or … in the table: nothing is said of them, and not that they are absent.", count(blindMarkers, "cell", "cells"))
	}
	if filtered > 0 {
		add("%s that did not pass the filters or was taken back; they are in the VCF files.", count(filtered, "call", "calls"))
	}
	if !panels {
		add("No panel was given (--panel): variants are listed, and nothing is said to be absent.")
	}
	if r.summary.CarryOver == nil && len(r.samples) > 1 {
		add("No sample is named as a negative control (column type of the sample sheet, --control): what of an allele is carry-over from other samples is not said.")
	}
	if !measured {
		add("Depth over the reference was not recorded: pore run --gvcf writes it, and pictures of it appear here.")
	}
	add("Structural variants, copy numbers, and whatever lies outside of the reference and of the panels.")
	add("This is no clinical classification: labels and severities are the panels' own words.")
}

func (v *view) versions(r *results) {
	s := &r.summary
	add := func(name, value string) {
		if value != "" {
			v.Versions = append(v.Versions, figure{name, value})
		}
	}
	add("program", v.Program)
	add("basecalling model", s.Model)
	add("device", strings.TrimSpace(s.Device+" "+s.Precision))
	add("variant model", s.VariantModel)
	panels, genes, sources, alleles := make(map[string]bool), make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for _, sample := range r.samples {
		for _, a := range sample.alerts {
			panels[strings.TrimSpace(a.Panel.ID+" "+a.Panel.Version)+", "+a.Panel.Hash] = true
		}
		for _, n := range sample.named {
			alleles[strings.TrimSpace(n.Gene+" "+n.Definitions)] = true
		}
		for _, e := range sample.variants {
			if e.Annotation.GeneModels != "" {
				genes[e.Annotation.GeneModels] = true
			}
			for _, k := range e.Annotation.Known {
				sources[strings.TrimSpace(k.Source+" "+k.Version)] = true
			}
		}
	}
	for _, p := range slices.Sorted(maps.Keys(panels)) {
		add("panel", p)
	}
	for _, g := range slices.Sorted(maps.Keys(genes)) {
		add("gene models", g)
	}
	for _, a := range slices.Sorted(maps.Keys(alleles)) {
		add("named alleles", a)
	}
	for _, k := range slices.Sorted(maps.Keys(sources)) {
		add("source", k)
	}
}
