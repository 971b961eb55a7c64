package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/diplotype"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/internal/pipeline"
	"github.com/porestream/porestream/internal/report"
	"github.com/porestream/porestream/monitor/page/pagetest/browser"
	"github.com/porestream/porestream/watchlist"
)

// plate writes the folder of a run with so many samples and markers, whose states follow one another.
func plate(t testing.TB, samples, markers int, change func(s *pipeline.Summary, name *string, a *watchlist.Alert)) string {
	t.Helper()
	dir := t.TempDir()
	states := []watchlist.State{watchlist.Negative, watchlist.Negative, watchlist.Detected, watchlist.NotCallable, watchlist.Negative, watchlist.Suspected, watchlist.Pending, "RESISTANT", "SUSCEPTIBLE", "lineage B.1.1.7"}
	sum := pipeline.Summary{Reads: 12_345, Bases: 45_678_901, Mapped: 11_000, Variants: int64(samples), LeftOut: map[string]int64{"short": 1000, "unmapped": 345},
		Barcodes: map[string]int64{}, WithoutBarcode: map[string]int64{"no_barcode": 17}, Files: map[string]string{}, Model: "r9.4-fast", Device: "cpu", VariantModel: "r9-r10-pileup", MixedModels: []string{"barcode02"}}
	for i := range samples {
		name := fmt.Sprintf("barcode%02d", i+1)
		var alerts []*watchlist.Alert
		for j := range markers {
			miss := 0.01
			a := &watchlist.Alert{SchemaVersion: 1, ID: "x", Sample: name, Panel: watchlist.Source{ID: []string{"first", "second"}[2*j/markers], Version: "3", Hash: "sha256:00"}, Rule: fmt.Sprintf("gene%02d-K%dN", j, j),
				Scope: watchlist.ScopeRule, State: states[(i*7+j*j)%len(states)], Previous: watchlist.Pending, Revision: 1, Final: true, Reason: "because", Probability: watchlist.Probability{Miss: &miss},
				Coverage: &watchlist.Covered{Positions: 3, NotCallable: 1, DepthNeeded: 15, Worst: &watchlist.Place{Contig: "chr 1", Pos: 500 + j, Depth: 3}}}
			if i == 0 {
				a.State = watchlist.Negative
			}
			if change != nil {
				change(&sum, &name, a)
			}
			alerts = append(alerts, a)
		}
		prefix := fmt.Sprintf("s%d.", i)
		sum.Files[name], sum.Barcodes[name] = prefix+"variants.vcf", int64(100+i)
		put(t, filepath.Join(dir, prefix+"alerts.json"), alerts)
		v := event.Variant{SchemaVersion: 1, Sample: name, Revision: 1, Status: "FINAL", Allele: event.Allele{VRSID: "v", Contig: "chr 1", Pos: 77, Ref: "A", Alt: strings.Repeat("ACGT", 20)},
			Call: event.Call{Qual: 50, Depth: 20, AltForward: 9, AltReverse: 8}, Annotation: annotate.Annotation{MostSevere: annotate.MostSevere{Term: "missense_variant", Impact: annotate.Moderate, Gene: "g"}}}
		put(t, filepath.Join(dir, prefix+"variants.jsonl"), v)
		if i < 2 {
			put(t, filepath.Join(dir, prefix+"diplotypes.tsv"), diplotype.TableHeader+"\n"+[]string{
				name + "\tCYP2C19\t*1/*17\t.\t.\t.\t.\t2025-11\t.\n", name + "\tUGT1A1\t*1/*6; *1/*27\t*1/*1\t*80\trs1,rs2\t.\t.\t.\n",
			}[i])
		}
		if i != 1 {
			put(t, filepath.Join(dir, prefix+"variants.g.vcf"), "##fileformat=VCFv4.2\n##contig=<ID=chr 1,length=1000>\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts\n"+
				"chr 1\t1\t.\tA\t<*>\t.\t.\tEND=500\tGT:DP:MIN_DP\t0:30:20\nchr 1\t501\t.\tA\tC\t50\tPASS\t.\tGT:DP\t1:5\n")
		}
	}
	put(t, filepath.Join(dir, "summary.json"), sum)
	return dir
}

func put(t testing.TB, path string, what any) {
	t.Helper()
	text, isText := what.(string)
	if !isText {
		b, err := json.Marshal(what)
		require.NoError(t, err)
		text = string(b) + "\n"
	}
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func write(t testing.TB, dir string) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, report.Write(&b, dir, report.Options{}))
	return b.String()
}

func TestReport(t *testing.T) {
	text := write(t, plate(t, 3, 10, nil))
	for _, want := range []string{
		"None of 10 markers was found", "Nothing, as far as these markers go.", // barcode01
		"findings: gene", "not callable, which is not negative", "lineage b.1.1.7", "Reads of several basecalling models are mixed",
		`<span class="unseen">NOT_CALLABLE</span></a>`, "depth 3, 15 needed; 1 of 3 positions not callable",
		"1000 bases; depth: median 20, least tenth up to 20; 50.0 % below 10, 49.9 % without reads", "Not recorded: pore run --gvcf records it.",
		"http://localhost:60151/goto?locus=chr&#43;1%3A17-138", "ACGTACGTACGT… (80 bases)", "<b>*1/*17</b></td><td>none</td>", "<td>*1/*6 or *1/*27</td><td>*1/*1</td><td>rs1; rs2</td><td>*80</td><td>the calls don&#39;t show which", "<dd>CYP2C19 2025-11</dd>",
		"r9-r10-pileup", "first 3, sha256:00", "none: no barcode",
	} {
		assert.Contains(t, text, want)
	}
	assert.Equal(t, text, write(t, plate(t, 3, 10, nil)), "the same results make the same report")
}

// Whatever names and sentences hold, they stay text.
func TestReportEscapes(t *testing.T) {
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(2)>'</style>{{.}}`
	plain := elements(t, write(t, plate(t, 2, 3, nil)))
	text := write(t, plate(t, 2, 3, func(s *pipeline.Summary, name *string, a *watchlist.Alert) {
		s.Model, s.SilentSamples = evil, []string{evil}
		if !strings.Contains(*name, evil) {
			*name += evil
		}
		a.Panel.ID, a.Rule, a.Label, a.Reason, a.Panel.Version = evil+a.Panel.ID, evil+a.Rule, evil, evil, evil
		a.Coverage.Worst.Contig = evil
		if a.State != watchlist.Negative {
			a.State = watchlist.State(evil)
		}
	}))
	got := elements(t, text)
	assert.Zero(t, got["script"]+got["img"])
	assert.Equal(t, plain["style"], got["style"])
	assert.Equal(t, plain["article"], got["article"])
	assert.NotContains(t, text, "javascript:")
}

// elements counts the elements of a page, and refuses attributes that run something.
func elements(t *testing.T, text string) map[string]int {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	require.NoError(t, err)
	counts := make(map[string]int)
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			counts[n.Data]++
			for _, a := range n.Attr {
				require.False(t, strings.HasPrefix(a.Key, "on"), "%s %s", n.Data, a.Key)
			}
		}
	}
	return counts
}

func FuzzReportEscapes(f *testing.F) {
	f.Add("a<b", "p", "DETECTED", "why")
	f.Add("\"><script>", "'", "</td>", "javascript:x")
	f.Fuzz(func(t *testing.T, name, rule, state, reason string) {
		dir := plate(t, 1, 1, func(_ *pipeline.Summary, n *string, a *watchlist.Alert) {
			*n, a.Rule, a.State, a.Reason, a.Coverage.Worst.Contig, a.Panel.ID = name, rule, watchlist.State(state), reason, name, rule
		})
		root, err := html.Parse(strings.NewReader(write(t, dir)))
		require.NoError(t, err)
		for n := range root.Descendants() {
			if n.Type != html.ElementNode {
				continue
			}
			require.NotContains(t, []string{"script", "img", "iframe", "object", "form"}, n.Data)
			for _, a := range n.Attr {
				require.False(t, strings.HasPrefix(a.Key, "on"))
				if a.Key == "href" {
					require.True(t, strings.HasPrefix(a.Val, "#") || strings.HasPrefix(a.Val, "http://localhost:60151/goto?locus=") || a.Val == "https://igv.org/doc/desktop/", a.Val)
				}
			}
		}
	})
}

// TestReportOfNoCalls: a run whose barcodes have no calls has a report, too.
func TestReportOfNoCalls(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "summary.json"), pipeline.Summary{Reads: 9, SilentBarcodes: 24})
	require.Contains(t, write(t, dir), "<dt>samples</dt><dd>0</dd>")
}

// TestReportNamesClasses: the report names the classes of models that have classes of their own,
// ahead of the markers that could not be called.
func TestReportNamesClasses(t *testing.T) {
	text := write(t, plate(t, 2, 2, func(_ *pipeline.Summary, _ *string, a *watchlist.Alert) {
		if a.State = watchlist.NotCallable; a.Rule == "gene00-K0N" {
			a.State, a.Model = watchlist.Classified, &watchlist.ModelAnswer{Class: "B.1.1.7"}
		}
	}))
	require.Contains(t, text, "1 answer: gene00-K0N B.1.1.7")
	require.Contains(t, text, ">B.1.1.7<")
	require.NotContains(t, text, "CLASSIFIED")
}

func TestReportRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(dir string)
		want  string
	}{
		"no folder of a run": {func(dir string) { require.NoError(t, os.Remove(filepath.Join(dir, "summary.json"))) }, "want the folder that pore run --out has written"},
		"another file":       {func(dir string) { put(t, filepath.Join(dir, "summary.json"), "[1]") }, "summary.json: is no summary"},
		"no samples":         {func(dir string) { put(t, filepath.Join(dir, "summary.json"), "{}") }, "names no files"},
		"a file elsewhere": {func(dir string) {
			put(t, filepath.Join(dir, "summary.json"), `{"files":{"a":"../../etc/variants.vcf"}}`)
		}, "is none of pore run's"},
		"half a line": {func(dir string) { put(t, filepath.Join(dir, "s0.variants.jsonl"), "{}\n{") }, "s0.variants.jsonl:2: is no variant"},
		"no alerts":   {func(dir string) { put(t, filepath.Join(dir, "s0.alerts.json"), `{"a":1}`) }, "s0.alerts.json: is no list of alerts"},
		"no gVCF":     {func(dir string) { put(t, filepath.Join(dir, "s0.variants.g.vcf"), "hello") }, "s0.variants.g.vcf: "},
		"a position": {func(dir string) {
			put(t, filepath.Join(dir, "s0.variants.g.vcf"), "##fileformat=VCFv4.2\n##contig=<ID=c,length=9>\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ts\nc\t1\t.\tA\t<*>\t.\t.\tEND=x\tDP\t3\n")
		}, "END=\"x\" is no position"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := plate(t, 1, 2, nil)
			tt.spoil(dir)
			require.ErrorContains(t, report.Write(new(bytes.Buffer), dir, report.Options{}), tt.want)
		})
	}
}

// open opens a report in Chromium.
func open(t *testing.T, dir string, screen browser.Screen) *browser.Tab {
	t.Helper()
	path, err := browser.Find()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	require.NoError(t, report.WriteFile(dir, "", report.Options{}))
	b, err := browser.Start(t.Context(), path)
	require.NoError(t, err)
	t.Cleanup(b.Close)
	tab, err := b.Open(screen)
	require.NoError(t, err)
	t.Cleanup(tab.Close)
	require.NoError(t, tab.Go("file://"+filepath.Join(dir, report.FileName)))
	return tab
}

// A plate of 96 samples and 60 markers shows every cell, asks for nothing, and axe-core has nothing to object to.
func TestReportInBrowser(t *testing.T) {
	path := os.Getenv("PORESTREAM_AXE")
	if path == "" {
		t.Skip("PORESTREAM_AXE does not name axe.min.js of axe-core (npm install axe-core; .ci/run does it)")
	}
	axe, err := os.ReadFile(path)
	require.NoError(t, err)
	for name, screen := range map[string]browser.Screen{
		"light": {Width: 1500, Height: 1000}, "dark": {Width: 1500, Height: 1000, Dark: true}, "phone": {Width: 400, Height: 800, Phone: true},
	} {
		t.Run(name, func(t *testing.T) {
			samples, markers := 96, 60 // whose 5,760 cells are of the same few colours as those of the small ones
			if name != "light" {
				samples, markers = 3, 12
			}
			small := strconv.FormatBool(name != "light")
			tab := open(t, plate(t, samples, markers, nil), screen)
			cells, err := browser.Ask[int](tab, `document.querySelectorAll(".markers tbody td").length`)
			require.NoError(t, err)
			require.Equal(t, samples*markers, cells)
			_, err = browser.Ask[bool](tab, string(axe)+"\n; true")
			require.NoError(t, err)
			violations, err := browser.Ask[[]string](tab, `axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], resultTypes: ["violations"], rules: { "color-contrast": { enabled: `+small+` }, "target-size": { enabled: `+small+` } } }).then((r) =>
				r.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map((n) => n.target.join(" ") + " " + n.failureSummary.replaceAll("\n", " ")).join("; ")))`)
			require.NoError(t, err)
			require.Empty(t, violations)
			wide, err := browser.Ask[bool](tab, `document.documentElement.scrollWidth > document.documentElement.clientWidth`)
			require.NoError(t, err)
			require.False(t, wide, "only tables scroll sideways")
			require.Empty(t, tab.Messages())
		})
	}
}

// TestSession: IGV's session has the reference, the calls of each sample and alignments, as paths that hold when the folder is moved, at the first finding; the report links to it.
func TestSession(t *testing.T) {
	dir := plate(t, 3, 10, nil)
	elsewhere := t.TempDir()
	reference, genes, reads := filepath.Join(elsewhere, "a & b.fa"), filepath.Join(elsewhere, "g.gff3"), filepath.Join(dir, "reads.bam")
	for _, path := range []string{reference, genes, reads} {
		put(t, path, "x")
	}
	require.NotContains(t, write(t, dir), report.SessionName)
	require.NoError(t, report.WriteSession(dir, report.Session{Reference: reference, Genes: []string{genes}, Alignments: []string{reads}}))
	text, err := os.ReadFile(filepath.Join(dir, report.SessionName))
	require.NoError(t, err)
	var got struct {
		Genome    string `xml:"genome,attr"`
		Locus     string `xml:"locus,attr"`
		Version   string `xml:"version,attr"`
		Resources []struct {
			Path string `xml:"path,attr"`
			Name string `xml:"name,attr"`
		} `xml:"Resources>Resource"`
	}
	require.NoError(t, xml.Unmarshal(text, &got))
	require.Equal(t, reference, got.Genome)
	require.Equal(t, "8", got.Version)
	require.Regexp(t, `^chr 1:\d+$`, got.Locus)
	var paths []string
	for _, r := range got.Resources {
		paths = append(paths, r.Name+"="+r.Path)
	}
	require.Equal(t, []string{"genes=" + genes, "barcode01=s0.variants.vcf", "barcode02=s1.variants.vcf", "barcode03=s2.variants.vcf", "reads.bam=reads.bam"}, paths)
	require.Contains(t, write(t, dir), `<a href="igv_session.xml">`)
	require.ErrorContains(t, report.WriteSession(dir, report.Session{Reference: filepath.Join(elsewhere, "none.fa")}), "a file for IGV: ")
	require.ErrorContains(t, report.WriteSession(dir, report.Session{}), "--igv-ref")
}
