package watchlist_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/porestream/porestream/watchlist"
)

// head is what a panel begins with.
const head = "panel: p\nversion: 1\n"

// fault is a panel and the lines that refuse it.
type fault struct {
	name, text string
	want       []string // "LINE: what the line says", in order
	schema     bool     // the JSON Schema finds it too
}

// rule is a panel with one rule, on line 4.
func rule(match string) string { return head + "rules:\n- id: r\n  match: " + match + "\n" }

// faults are what Load finds without a reference.
var faults = []fault{
	{"no rules", head, []string{"1: the panel has no rules"}, true},
	{"empty rules", head + "rules: []\n", []string{"1: the panel has no rules"}, true},
	{"no id", "version: 1\nrules:\n- id: r\n  match: {gene: cI}\n", []string{"1: panel: an id is missing"}, true},
	{"no version", "panel: p\nrules:\n- id: r\n  match: {gene: cI}\n", []string{"1: the panel has no version"}, true},
	{"odd id", "panel: p/q\nversion: 1\nrules:\n- id: r\n  match: {gene: cI}\n", []string{`1: panel "p/q": an id is made of letters`}, true},
	{"a list", "- panel\n", []string{"1: a watch-list: want keys with values, have a list"}, true},
	{"unknown key", head + "rule:\n- id: r\n", []string{`3: a watch-list has no key "rule" (is "rules" meant?)`, "1: the panel has no rules"}, true},
	{"unknown key of a rule", head + "rules:\n- id: r\n  matches: {gene: cI}\n", []string{`5: a rule has no key "matches" (is "match" meant?)`, `4: rule "r" has no match`}, true},
	{"unknown key of a match", rule("{genes: cI}"), []string{`5: match has no key "genes" (is "gene" meant?)`}, true},
	{"unknown threshold", rule("{gene: cI}") + "  thresholds: {mindepth: 3}\n", []string{`6: thresholds has no key "mindepth" (is "min_depth" meant?)`}, true},
	{"key twice", head + "version: 2\nrules:\n- id: r\n  match: {gene: cI}\n", []string{`3: a watch-list has the key "version" twice`}, false},
	{"rule twice", rule("{gene: cI}") + "- id: r\n  match: {gene: cro}\n", []string{`6: rule "r" is there already, on line 4`}, false},
	{"empty match", rule("{}"), []string{`5: rule "r" is empty`}, true},
	{"no match", head + "rules:\n- id: r\n", []string{`4: rule "r" has no match`}, true},
	{"match of a text", rule("cI"), []string{`5: match: want keys with values, have "cI"`}, true},
	{"methylation of nothing", head + "rules:\n- {id: r, methylation: {is: half}}\n", []string{`4: rule "r": methylation needs a region and what it is`}, true},
	{"methylation and match", rule("{gene: cI}") + "  methylation: {region: \"J02459.1:1-9\", is: half}\n", []string{`4: rule "r" asks for methylation and also has a match or a model`}, true},
	{"methylation by reads", head + "rules:\n- id: r\n  methylation: {region: \"J02459.1:1-9\", is: half}\n  thresholds: {min_alt: 3}\n", []string{`6: rule "r": min_alt is for variants: rules on methylation have alpha, beta and min_depth`}, false},
	{"methylation by unknown", head + "rules:\n- id: r\n  methylation: {region: \"J02459.1:1-9\", is: half}\n  thresholds: {mindepth: 3, min_alt: 3}\n", []string{`6: thresholds has no key "mindepth" (is "min_depth" meant?)`, `6: rule "r": min_alt is for variants`}, true},
	{"methylation at no position", head + "rules:\n- id: r\n  methylation: {region: \"J02459.1:1-9\", is: half, positions: 0}\n", []string{"5: positions: 0 is outside 1 to 1073741824"}, true},
	{"empty text", rule(`{gene: ""}`), []string{"5: gene: want 1 to 1000 bytes of text, have 0"}, true},
	{"null", rule("{gene: }"), []string{"5: gene: want a text, have nothing"}, true},
	{"empty list", rule("{gene: []}"), []string{"5: gene: want 1 to 1000000 entries, have 0"}, true},
	{"line break", rule(`{gene: "a\nb"}`), []string{"5: gene: the text has line breaks"}, true},
	{"alias", head + "title: &t x\nassembly: *t\nrules:\n- id: r\n  match: {gene: cI}\n", []string{"3: title: anchors and aliases are not supported", "4: assembly: anchors and aliases are not supported"}, false},
	{"merge", rule("{<<: {gene: cI}}"), []string{"5: match: merged and composed keys are not supported"}, false},
	{"codon alone", rule("{codon: 3}"), []string{`5: rule "r" is empty`}, false},
	{"codon of a region", rule(`{region: "J02459.1:1-9", codon: 3}`), []string{`5: rule "r" has codons but no gene or transcript`}, false},
	{"allele and gene", rule(`{vcf: "J02459.1:1:A:T", gene: cI}`), []string{`5: rule "r" names alleles and also places`}, false},
	{"allele and class", rule(`{vcf: "J02459.1:1:A:T", impact: HIGH}`), []string{`5: rule "r" names alleles and also consequence`}, false},
	{"span of a region", rule(`{region: "J02459.1:1-9", span: gene}`), []string{`5: rule "r" has a span but no gene`}, false},
	{"odd span", rule(`{gene: cI, span: introns}`), []string{`5: span: want exons, coding or gene, have "introns"`}, true},
	{"up and away", rule("{bed: ../targets.bed}"), []string{`5: bed: "../targets.bed" is not a file beside the panel`}, false},
	{"no such file", rule("{bed: none.bed}"), []string{"5: bed: open "}, false},
	{"bad BED", rule("{bed: bad.bed}"), []string{"5: bed: bad.bed:2: the interval 9 to 3 is empty or negative"}, false},
	{"empty BED", rule("{bed: empty.bed}"), []string{"5: bed: empty.bed holds no interval"}, false},
	{"bad VCF", rule("{positions: bad.vcf}"), []string{"5: positions: bad.vcf: line 3: "}, false},
	{"symbolic VCF", rule("{positions: symbolic.vcf}"), []string{"5: positions: symbolic.vcf:3: A><DEL> is not a change of bases"}, false},
	{"number as text", rule("{gene: cI}") + "  thresholds: {alpha: \"0.1\"}\n", []string{`6: alpha: want a number, have "0.1"`}, true},
	{"out of range", rule("{gene: cI}") + "  thresholds: {alpha: 2, min_depth: 0, allele_fraction: .nan}\n", []string{"6: alpha: 2 is outside 1e-12 to 0.5", "6: min_depth: 0 is outside 1 to 120", `6: allele_fraction: want a number`}, true},
	{"not whole", rule("{gene: cI}") + "  thresholds: {min_alt: 2.5}\n", []string{"6: min_alt: want a whole number, have 2.5"}, true},
	{"quality twice", rule("{gene: cI}") + "  thresholds: {min_qual: 20, confirm_posterior: 0.9}\n", []string{"6: thresholds: a posterior and a quality say the same"}, true},
	{"retract above confirm", rule("{gene: cI}") + "  thresholds: {min_qual: 20, retract_qual: 21}\n", []string{"6: thresholds: an allele would be taken back at quality 21, before it is confirmed at 20"}, false},
	{"fraction out of reach", rule("{gene: cI}") + "  thresholds: {min_fraction: 0.9}\n", []string{"6: thresholds: min_fraction 0.9 can't be reached"}, false},
	{"two documents", rule("{gene: cI}") + "---\npanel: q\n", []string{" want one YAML document, have more"}, false},
}

// misfits are what New finds in lambda and its genes.
var misfits = []fault{
	{"gene", rule("{gene: ci}"), []string{`5: rule "r": gene "ci" is not among the genes (is "cI" meant?)`}, false},
	{"transcript", rule("{transcript: lambdap8888}"), []string{`rule "r": transcript "lambdap8888" is not among the genes (is "lambdap88" meant?)`}, false},
	{"contig", rule(`{region: "J02459:1-100"}`), []string{`rule "r": contig "J02459" is not in the reference (is "J02459.1" meant?)`}, false},
	{"outside", rule(`{region: "J02459.1:48000-48503"}`), []string{`rule "r": J02459.1:48000-48503 reaches outside of the contig, which has 48502 bases`}, false},
	{"region backwards", rule(`{region: "J02459.1:9-3"}`), []string{`rule "r": region "J02459.1:9-3": want contig:start-end`}, false},
	{"reference base", rule(`{vcf: "J02459.1:37589:T:C"}`), []string{`rule "r": vcf J02459.1:37589:T:C: the reference has C at J02459.1:37589, not T`}, false},
	{"position outside", rule(`{vcf: "J02459.1:48503:T:C"}`), []string{`rule "r": vcf J02459.1:48503:T:C: position 48503 is outside of J02459.1, which has 48502 bases`}, false},
	{"the reference itself", rule(`{vcf: "J02459.1:37589:C:C"}`), []string{`the allele is the reference itself`}, false},
	{"not VCF", rule(`{vcf: "J02459.1:37589:C"}`), []string{`rule "r": vcf "J02459.1:37589:C": want contig:position:ref:alt`}, false},
	{"allele twice", rule(`{vcf: "J02459.1:37589:C:T", hgvs: "J02459.1:g.37589C>T"}`), []string{`rule "r": J02459.1:g.37589C>T is the same as J02459.1:37589:C:T: name it once`}, false},
	{"residue", rule(`{hgvs: "cI:p.Glu119Lys"}`), []string{`residue 119 of the protein of lambdap88 is Leu, not Glu`}, false},
	{"residue outside", rule(`{hgvs: "cI:p.Glu238Lys"}`), []string{`residue 238 of the protein of lambdap88 is Ter, not Glu`}, false},
	{"residue far outside", rule(`{hgvs: "cI:p.Glu999Lys"}`), []string{`residue 999 is outside of the protein of lambdap88, which has 237`}, false},
	{"no protein change", rule(`{hgvs: "cI:p.nonsense"}`), []string{`p.nonsense is not a change of a protein that can be watched for`}, false},
	{"unknown protein", rule(`{hgvs: "NP_1.1:p.Glu1Lys"}`), []string{`transcript "NP_1.1" is not among the genes`}, false},
	{"hgvs base", rule(`{hgvs: "lambdap88:c.352A>T"}`), []string{`rule "r": hgvs lambdap88:c.352A>T: `}, false},
	{"no hgvs", rule(`{hgvs: "E118K"}`), []string{`rule "r": hgvs "E118K": want a sequence, a colon and a change`}, false},
	{"vrs", rule(`{vrs: "ga4gh:VA.short"}`), []string{`rule "r": vrs "ga4gh:VA.short": want the id of a GA4GH VRS 2 allele`}, false},
	{"term", rule(`{gene: cI, consequence: missense}`), []string{`rule "r": consequence "missense" is not a Sequence Ontology term that variants are annotated with (is "missense_variant" meant?)`}, false},
	{"impact", rule(`{gene: cI, impact: severe}`), []string{`rule "r": impact "severe": want HIGH, MODERATE, LOW or MODIFIER`}, false},
	{"flag", rule(`{gene: cI, flag: best}`), []string{`rule "r": flag "best": want canonical`}, false},
	{"score", rule(`{gene: cI, score: "> 0.5"}`), []string{`rule "r": score "> 0.5": want the least that a sequence network has to say, such as ">= 0.5"`}, false},
	{"nmd", rule(`{gene: cI, nmd: maybe}`), []string{`rule "r": nmd "maybe": want predicted or escaping`}, false},
	{"codon outside", rule(`{gene: cI, codon: 300}`), []string{`rule "r": codon 300 is outside of the coding sequence, which has 238`}, false},
	{"codon", rule(`{gene: cI, codon: 10-3}`), []string{`rule "r": codon "10-3": the end of the range is not a number from 10`}, false},
	{"nothing in common", rule(`{gene: cI, region: "J02459.1:1-100"}`), []string{`rule "r" means no position`}, false},
	{"no such flag", rule(`{gene: cI, flag: mane_select}`), []string{`rule "r" means no position`}, false},
	{"impossible", rule("{gene: cI}") + "  thresholds: {allele_fraction: 0.25}\n", []string{`rule "r": no depth up to the 120 reads that the caller takes`}, false},
	{"another length", "panel: p\nversion: 1\nreference: {J02459.1: {length: 48503}}\nrules:\n- id: r\n  match: {gene: cI}\n", []string{`3: contig "J02459.1" has 48502 bases in the reference, the panel says 48503`}, false},
	{"another digest", "panel: p\nversion: 1\nreference: {J02459.1: {digest: SQ.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}}\nrules:\n- id: r\n  match: {gene: cI}\n", []string{`3: contig "J02459.1" has the digest SQ.`}, false},
	{"another contig", "panel: p\nversion: 1\nreference: {chr1: {}}\nrules:\n- id: r\n  match: {gene: cI}\n", []string{`3: contig "chr1" is not in the reference: it was written for another reference: take that, or a panel for this one`}, false},
	{"many at once", head + "rules:\n- id: a\n  match: {gene: x}\n- id: b\n  match: {gene: y}\n", []string{`5: rule "a": gene "x"`, `7: rule "b": gene "y"`}, false},
}

// folder has the files that faults name, and the panel.
func folder(t testing.TB, text string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"panel.yaml": text, "bad.bed": "J02459.1\t1\t2\nJ02459.1\t9\t3\n", "empty.bed": "# nothing\n",
		"bad.vcf":      "##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\nJ02459.1\tx\t.\tA\tT\t.\t.\t.\n",
		"symbolic.vcf": "##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\nJ02459.1\t5\t.\tA\t<DEL>\t.\t.\t.\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return filepath.Join(dir, "panel.yaml")
}

// requireLines compares an error line by line: each begins with the path and the
// line, and says what is expected.
func requireLines(t *testing.T, path string, want []string, err error) {
	t.Helper()
	require.Error(t, err)
	lines := strings.Split(err.Error(), "\n")
	require.Len(t, lines, len(want), "%v", err)
	for i, w := range want {
		line, ok := strings.CutPrefix(lines[i], path+":")
		require.True(t, ok, lines[i])
		require.Contains(t, line, w)
	}
}

func TestPanelFaults(t *testing.T) {
	s := panelSchema(t)
	for _, tt := range faults {
		t.Run(tt.name, func(t *testing.T) {
			path := folder(t, tt.text)
			_, err := watchlist.Load(path)
			requireLines(t, path, tt.want, err)
			if tt.schema {
				require.Error(t, s.Validate(document(t, tt.text)))
			}
		})
	}
	_, err := watchlist.Load(folder(t, ""))
	require.ErrorContains(t, err, "the file is empty")
	_, err = watchlist.Load(folder(t, "panel: ["))
	require.ErrorContains(t, err, "not YAML")
	_, err = watchlist.Load("none.yaml")
	require.ErrorContains(t, err, "reading watch-list: open none.yaml")
}

// TestQualityOfMixtures: a rule that expects an allele below two fifths of the molecules asks for the quality of a caller of mixtures, unless the panel or the rule
// says which. A fault that names it shows it.
func TestQualityOfMixtures(t *testing.T) {
	const mixture = "allele_fraction: 0.2, min_fraction: 0.1, error_rate: 0.02"
	for _, tt := range []struct{ panel, rule, want string }{
		{"", "", "12"},
		{"", mixture, "5"},
		{mixture, "", "5"},
		{mixture, "allele_fraction: 1", "12"},
		{"min_qual: 30", mixture, "30"},
		{"min_qual: 30, " + mixture, "", "30"},
		{"retract_qual: 4", mixture, "5"},
		{"", mixture + ", min_qual: 8", "8"},
		{mixture, "min_qual: 8", "8"},
	} {
		rule := strings.TrimPrefix(tt.rule+", retract_qual: 1000", ", ")
		_, err := watchlist.Load(folder(t, head+"thresholds: {"+tt.panel+"}\nrules:\n- {id: r, match: {gene: cI}, thresholds: {"+rule+"}}\n"))
		require.ErrorContains(t, err, "before it is confirmed at "+tt.want+": lower retract_qual", "%+v", tt)
	}
	_, err := watchlist.Load(folder(t, head+"thresholds: {retract_qual: 6}\nrules:\n- {id: r, match: {gene: cI}, thresholds: {"+mixture+"}}\n"))
	require.NoError(t, err, "what the panel takes back at is at most what is asked for")
}

func TestMisfits(t *testing.T) {
	g, a := lambda(t)
	s := panelSchema(t)
	for _, tt := range misfits {
		t.Run(tt.name, func(t *testing.T) {
			path := folder(t, tt.text)
			p, err := watchlist.Load(path)
			require.NoError(t, err)
			_, err = watchlist.New(g, a, p)
			requireLines(t, path, tt.want, err)
			if tt.name != "impact" && tt.name != "flag" && tt.name != "nmd" && tt.name != "score" {
				require.NoError(t, s.Validate(document(t, tt.text)), "the schema knows no reference")
			}
		})
	}
	one, err := watchlist.Load(folder(t, rule("{gene: cI}")))
	require.NoError(t, err)
	other, err := watchlist.Load(folder(t, rule("{gene: cro}")))
	require.NoError(t, err)
	_, err = watchlist.New(g, a, one, other)
	require.ErrorContains(t, err, `the panel "p" is also in `)
	require.NotEqual(t, one.Hash, other.Hash)
}

// TestFilesBesideThePanel reads regions and alleles from files, and takes them into the hash.
func TestFilesBesideThePanel(t *testing.T) {
	g, a := lambda(t)
	path := filepath.Join("testdata", "lambda", "files.yaml")
	p, err := watchlist.Load(path)
	require.NoError(t, err)
	w, err := watchlist.New(g, a, p)
	require.NoError(t, err)
	rules := w.Resolve()
	require.Len(t, rules, 5)
	require.Equal(t, "J02459.1:37589:C:T", rules[0].Allele)
	require.Equal(t, 300, rules[4].Positions)

	dir := t.TempDir()
	for _, name := range []string{"files.yaml", "positions.vcf", "targets.bed"} {
		text, err := os.ReadFile(filepath.Join("testdata", "lambda", name))
		require.NoError(t, err)
		if name == "targets.bed" {
			text = append(text, "J02459.1\t9\t10\n"...)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	changed, err := watchlist.Load(filepath.Join(dir, "files.yaml"))
	require.NoError(t, err)
	require.NotEqual(t, p.Hash, changed.Hash)
}

// TestTheSameFaultIsReportedOnce: a panel for another reference has one fault in most of its rules.
func TestTheSameFaultIsReportedOnce(t *testing.T) {
	var rules strings.Builder
	for i := range 3 * 60 { // more than are reported at most
		fmt.Fprintf(&rules, "- {id: r%d, match: {gene: %s}}\n", i, []string{"other", "cI", "another"}[i%3])
	}
	path := folder(t, head+"rules:\n"+rules.String())
	p, err := watchlist.Load(path)
	require.NoError(t, err)
	g, a := lambda(t)
	_, err = watchlist.New(g, a, p)
	requireLines(t, path, []string{
		`4: rule "r0": gene "other" is not among the genes (59 more like it, the last in line 181)`,
		`6: rule "r2": gene "another" is not among the genes (59 more like it, the last in line 183)`,
	}, err)
}

// TestDifferentFaultsOfRulesAreAllReported: those that say what a rule lacks, and not of what, are not one another's repetitions.
func TestDifferentFaultsOfRulesAreAllReported(t *testing.T) {
	path := folder(t, head+`rules:
- {id: a, match: {}}
- {id: b}
- {id: c, match: {vrs: "ga4gh:VA.SFsq6OGFrOAymMifAYl2Tp4K1n8rU4cH", impact: HIGH}}
- {id: d, match: {}}
`)
	_, err := watchlist.Load(path)
	require.Error(t, err)
	for _, want := range []string{`rule "a" is empty`, `rule "b" has no match`, `rule "c" names alleles and also consequence`} {
		require.ErrorContains(t, err, want)
	}
	require.NotContains(t, err.Error(), `rule "d"`, "which has the fault of a")
}

// TestUnknownPlace warns of an allele whose absence can't be determined.
func TestUnknownPlace(t *testing.T) {
	b := written(t, "- id: r\n  match: {vrs: \"ga4gh:VA.SFsq6OGFrOAymMifAYl2Tp4K1n8rU4cH\"}\n")
	require.Len(t, b.w.Warnings(), 1)
	require.Contains(t, b.w.Warnings()[0], "can't be NEGATIVE")
	alerts := b.w.NewTracker("s").RunEnd("run")
	require.Equal(t, []string{"r allele PENDING>NOT_CALLABLE final"}, briefs(alerts))
	require.Equal(t, "where it lies is not known", alerts[0].Reason)
}

// panelSchema is the published JSON Schema.
func panelSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "docs", "consume", "watchlist.schema.json"))
	require.NoError(t, err)
	return s
}

// document is YAML as a JSON value.
func document(t *testing.T, text string) any {
	t.Helper()
	var v any
	require.NoError(t, yaml.Unmarshal([]byte(text), &v))
	doc, err := json.Marshal(v)
	if err != nil {
		return v // .nan
	}
	var out any
	require.NoError(t, json.Unmarshal(doc, &out))
	return out
}

// TestShippedPanelsFitTheSchema holds the shipped panels to the JSON Schema, and the schema's keys to those that are read.
func TestShippedPanelsFitTheSchema(t *testing.T) {
	s := panelSchema(t)
	panels, err := filepath.Glob(filepath.Join("testdata", "*", "*.yaml"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(panels), 2)
	for _, path := range panels {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, s.Validate(document(t, string(text))), path)
		_, err = watchlist.Load(path)
		require.NoError(t, err)
	}

	text, err := os.ReadFile(filepath.Join("..", "docs", "consume", "watchlist.schema.json"))
	require.NoError(t, err)
	var raw struct {
		Properties map[string]any
		Defs       map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	require.NoError(t, json.Unmarshal(text, &raw))
	for panel, described := range map[string]map[string]any{
		"?: 1\n" + rule("{gene: cI}"):                     raw.Properties,
		rule("{gene: cI}") + "  ?: 1\n":                   raw.Defs["rule"].Properties,
		rule("{gene: cI, ?: 1}"):                          raw.Defs["match"].Properties,
		head + "rules:\n- {id: r, model: {?: 1}}\n":       raw.Defs["rule"].Properties["model"].(map[string]any)["properties"].(map[string]any),
		head + "rules:\n- {id: r, methylation: {?: 1}}\n": raw.Defs["rule"].Properties["methylation"].(map[string]any)["properties"].(map[string]any),
		rule("{gene: cI}") + "  thresholds: {?: 1}":       raw.Defs["thresholds"].Properties,
	} {
		_, err := watchlist.Load(folder(t, strings.Replace(panel, "?", "unheard", 1)))
		require.Error(t, err)
		taken := regexp.MustCompile(`it takes (.*)`).FindStringSubmatch(err.Error())
		require.NotNil(t, taken, err)
		keys := make([]string, 0, len(described))
		for k := range described {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		require.Equal(t, taken[1], strings.Join(keys, ", "))
	}
}

func FuzzPanel(f *testing.F) {
	for _, tt := range slices.Concat(faults, misfits) {
		f.Add(tt.text)
	}
	for _, name := range []string{"panel.yaml", "files.yaml"} {
		text, err := os.ReadFile(filepath.Join("testdata", "lambda", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	g, a := lambda(f)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(dir, "panel.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := watchlist.Load(path)
		if err != nil {
			if p != nil || strings.Contains(err.Error(), "\n\n") {
				t.Fatalf("%v with %q", p, err)
			}
			return
		}
		w, err := watchlist.New(g, a, p)
		if err != nil {
			return
		}
		tr := w.NewTracker("s")
		for _, target := range w.Targets() {
			if target.Start < 0 || target.Start >= target.End || target.End > len(g.Contigs[0].Seq) {
				t.Fatalf("target %v", target)
			}
			tr.Coverage(watchlist.Coverage{Contig: target.Contig, Start: target.Start, End: target.End, Revision: 1})
		}
		for _, alert := range tr.RunEnd("run") {
			if alert.State == watchlist.Negative || alert.State == watchlist.Detected {
				t.Fatalf("%s without a read", alert.State)
			}
		}
	})
}
