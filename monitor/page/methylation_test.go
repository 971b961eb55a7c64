package page_test

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/monitor"
	"github.com/porestream/porestream/monitor/page/pagetest"
)

const (
	readout = `document.getElementById("methylation-readout").textContent`
	state   = `document.getElementById("methylation-state").textContent`
	drawn   = `document.getElementById("methylation-canvas").ariaLabel.includes("forward strand")`
)

// TestModifiedBasesAreShown goes from site to site with keys alone, takes another modification, and sees a revision
// come, an earlier one come late, and FINAL.
func TestModifiedBasesAreShown(t *testing.T) {
	s := serve(t, pagetest.Methylated())
	tab := visit(t, s, desk)
	wait(t, tab, drawn)
	assert.Equal(t, "PROVISIONAL", ask[string](t, tab, state))
	press(t, tab, "b")
	wait(t, tab, `document.activeElement.id === "methylation-frame"`)
	for range 9 {
		press(t, tab, "+")
	}
	wait(t, tab, `document.getElementById("methylation-note").textContent.startsWith("A bar is a site.")`)
	// The depth beside shows the same stretch.
	assert.Equal(t, ask[string](t, tab, `document.getElementById("methylation-range").textContent`), ask[string](t, tab, `document.getElementById("depth-range").textContent`))
	step := `document.getElementById("methylation-frame").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", shiftKey: true, bubbles: true, cancelable: true }))`
	// Who steps before the counts of another stretch have come stays at his site when they come.
	ask[bool](t, tab, `document.getElementById("methylation-frame").dispatchEvent(new KeyboardEvent("keydown", { key: "-", bubbles: true, cancelable: true })), `+step)
	first := ask[string](t, tab, readout)
	assert.Regexp(t, `^J02459\.1:[\d,]+, forward strand: \d+ of \d+ calls 5mC \(\d+.*%\), PROVISIONAL$`, first)
	ask[bool](t, tab, step)
	second := ask[string](t, tab, readout)
	assert.Contains(t, second, "reverse strand")
	assert.NotEqual(t, first, second)
	// A revision comes: the bar says its counts, and the next step goes on from there.
	placeOf := func(text string) string { place, _, _ := strings.Cut(text, " strand: "); return place }
	s.feed.Methylation(pagetest.Stretches(6, false)...)
	wait(t, tab, fmt.Sprintf(`%s !== %q && %s.startsWith(%q)`, readout, second, readout, placeOf(second)))
	ask[bool](t, tab, step)
	third := ask[string](t, tab, readout)
	assert.Contains(t, third, "forward strand")
	assert.NotEqual(t, placeOf(first), placeOf(third))

	ask[bool](t, tab, `(() => { const c = document.getElementById("methylation-code"); c.value = "a"; c.dispatchEvent(new Event("change")); return true; })()`)
	wait(t, tab, `document.getElementById("methylation-canvas").ariaLabel.startsWith("6mA along J02459.1 of sample lambda") && `+drawn)
	ask[bool](t, tab, `(() => { const c = document.getElementById("methylation-code"); c.value = "m"; c.dispatchEvent(new Event("change")); return true; })()`)
	press(t, tab, kb.Home)
	wait(t, tab, drawn)

	calls := `document.getElementById("methylation-sum").textContent`
	before := ask[string](t, tab, calls)
	s.feed.Methylation(pagetest.Stretches(9, true)...)
	wait(t, tab, state+` === "FINAL"`)
	after := ask[string](t, tab, calls)
	assert.NotEqual(t, before, after)
	s.feed.Methylation(pagetest.Stretches(8, false)...)
	s.feed.Summary(func(sum *monitor.Summary) { sum.Now = sum.Now.Add(time.Second) })
	wait(t, tab, `document.getElementById("runs").textContent.includes("42 min 01 s")`)
	assert.Equal(t, "FINAL", ask[string](t, tab, state), "an earlier revision changes nothing")
	assert.Equal(t, after, ask[string](t, tab, calls))

	// A server that is started anew and has less: what the old one had is gone.
	s.stop()
	wait(t, tab, `document.body.dataset.old === "true"`)
	scene := pagetest.Methylated()
	scene.Methylation = pagetest.Stretches(3, false)[:4]
	s.start(scene)
	wait(t, tab, state+` === "PROVISIONAL"`)
	wait(t, tab, calls+` !== `+strconv.Quote(after))
	wait(t, tab, drawn)
	// And one that counts none: the panel goes.
	s.stop()
	wait(t, tab, `document.body.dataset.old === "true"`)
	s.start(pagetest.Lambda())
	wait(t, tab, `document.getElementById("methylation").hidden`)
}

// haplotype has the page show a haplotype's counts of modified bases; 0: those of all reads.
func haplotype(number int) string {
	return fmt.Sprintf(`(() => { const c = document.getElementById("methylation-haplotype"); c.value = "%d"; c.dispatchEvent(new Event("change")); return true; })()`, number)
}

// TestModifiedBasesByHaplotype: where there are counts by haplotype, the page shows those of one beside the depth, says in words whose they are, and keeps what was
// chosen when somebody zooms; of a modification without such counts it offers none.
func TestModifiedBasesByHaplotype(t *testing.T) {
	tab := visit(t, serve(t, pagetest.Imprinted()), desk)
	wait(t, tab, drawn)
	const (
		label   = `document.getElementById("methylation-canvas").ariaLabel`
		offered = `[...document.querySelectorAll("#methylation-haplotype option")].map((o) => o.textContent).join()`
		chosen  = `document.getElementById("methylation-haplotype").value`
		hidden  = `document.getElementById("methylation-by").hidden`
		sum     = `document.getElementById("methylation-sum").textContent`
	)
	assert.Equal(t, "All reads,Haplotype 1,Haplotype 2", ask[string](t, tab, offered))
	assert.Equal(t, "0", ask[string](t, tab, chosen))
	assert.Regexp(t, `^5mC along J02459.1 of sample lambda, `, ask[string](t, tab, label))
	for _, tt := range []struct {
		number int
		share  string
	}{{1, "90"}, {2, "62"}} { // of ten stretches four have 2 of 10
		ask[bool](t, tab, haplotype(tt.number))
		wait(t, tab, fmt.Sprintf(`%s.startsWith("5mC of haplotype %d along J02459.1 of sample lambda, ") && %s.includes("forward strand %s") && %s`, label, tt.number, label, tt.share, drawn))
		assert.Regexp(t, fmt.Sprintf(`^5mC of haplotype %d: %s.* of 51.2 ?k calls, 5,120 sites$`, tt.number, tt.share), ask[string](t, tab, sum))
		assert.Contains(t, ask[string](t, tab, `document.getElementById("methylation-note").textContent`), "Which copy is haplotype 1 holds within a phase set.")
	}
	// Another stretch, the same haplotype.
	press(t, tab, "b")
	wait(t, tab, `document.activeElement.id === "methylation-frame"`)
	press(t, tab, "+")
	wait(t, tab, drawn)
	assert.Equal(t, "2", ask[string](t, tab, chosen))
	// Of 6mA there are counts of all reads alone.
	ask[bool](t, tab, `(() => { const c = document.getElementById("methylation-code"); c.value = "a"; c.dispatchEvent(new Event("change")); return true; })()`)
	wait(t, tab, label+`.startsWith("6mA along") && `+drawn)
	assert.True(t, ask[bool](t, tab, hidden))
}

// TestModifiedBasesAreModkits shows modkit's counts of its own reads of a methylated oligonucleotide, and what the page
// says of each site in words is what modkit says. The reads are under the ONT Public Licence and not shipped: the test
// runs where they lie beside the repository.
func TestModifiedBasesAreModkits(t *testing.T) {
	in, err := os.Open("../../../shared/data/modbase/modkit/modbam.modpileup_nofilt.methyl.bed")
	if err != nil {
		t.Skip("../shared/data/modbase/modkit is not there")
	}
	defer in.Close()
	sites := map[string][]pagetest.Site{}
	var want []string
	contig := ""
	for lines := bufio.NewScanner(in); lines.Scan(); {
		f := strings.Fields(lines.Text())
		require.Len(t, f, 18)
		contig = f[0]
		number := func(i int) int {
			n, err := strconv.Atoi(f[i])
			require.NoError(t, err)
			return n
		}
		sites[f[3]] = append(sites[f[3]], pagetest.Site{Pos: number(1), Strand: f[5], Modified: number(11), Canonical: number(12), Other: number(13)})
		if f[3] == "m" && number(9) > 0 {
			strand := map[string]string{"+": "forward", "-": "reverse"}[f[5]]
			noun := map[bool]string{true: "call", false: "calls"}[number(9) == 1]
			want = append(want, fmt.Sprintf("%s:%d, %s strand: %d of %d %s 5mC", contig, number(1)+1, strand, number(11), number(9), noun))
		}
	}
	scene := pagetest.Lambda()
	for code, of := range sites {
		scene.Methylation = append(scene.Methylation, pagetest.Stretch("modkit", contig, code, 0, 1, true, of))
	}
	tab := visit(t, serve(t, scene), desk)
	wait(t, tab, drawn)
	ask[bool](t, tab, `(() => { const c = document.getElementById("methylation-code"); c.value = "m"; c.dispatchEvent(new Event("change")); return true; })()`)
	wait(t, tab, `document.getElementById("methylation-canvas").ariaLabel.startsWith("5mC") && `+drawn)
	for range 30 { // zooms to the beginning, where the oligonucleotide is
		ask[bool](t, tab, `document.getElementById("methylation-frame").dispatchEvent(new KeyboardEvent("keydown", { key: "+", bubbles: true, cancelable: true })) || true`)
		ask[bool](t, tab, `document.getElementById("methylation-frame").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true, cancelable: true })) || true`)
		if ask[bool](t, tab, `document.getElementById("methylation-range").textContent.match(/\((\d+)b/)?.[1] <= 400`) {
			break
		}
	}
	for range 30 {
		ask[bool](t, tab, `document.getElementById("methylation-frame").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true, cancelable: true })) || true`)
	}
	wait(t, tab, `document.getElementById("methylation-range").textContent.startsWith("1–") && document.getElementById("methylation-note").textContent.startsWith("A bar is a site.") && !document.getElementById("methylation-canvas").ariaLabel.includes("without calls: reverse strand without")`)
	var got []string
	for range len(want) {
		ask[bool](t, tab, `document.getElementById("methylation-frame").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", shiftKey: true, bubbles: true, cancelable: true })) || true`)
		text, _, _ := strings.Cut(ask[string](t, tab, readout), " (")
		got = append(got, text)
	}
	assert.Equal(t, want, got)
}

// TestManySitesAreShownWithoutStutter has a contig of 10,000 sites with new revisions again and again while somebody
// moves, and bounds elements, questions to the server, and the CPU time of the page's thread.
func TestManySitesAreShownWithoutStutter(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	const steps = 30
	scene := pagetest.Lambda()
	scene.Methylation = pagetest.ManySites(10_000, 1)
	s := serve(t, scene)
	tab := visit(t, s, desk)
	wait(t, tab, drawn)
	wait(t, tab, `document.getElementById("methylation-sum").textContent.includes("10,000 sites")`)
	elements := ask[int](t, tab, `document.querySelectorAll("*").length`)
	require.NoError(t, tab.MeasureCPU())
	began, err := tab.CPU()
	require.NoError(t, err)
	asked := len(tab.Requests())
	for step := range steps {
		s.feed.Methylation(pagetest.ManySites(10_000, step+2)...)
		s.feed.Summary(func(sum *monitor.Summary) { sum.Now = sum.Now.Add(time.Second) })
		ask[bool](t, tab, fmt.Sprintf(`document.getElementById("methylation-frame").dispatchEvent(new KeyboardEvent("keydown", { key: %q, bubbles: true, cancelable: true })) || true`, []string{"+", "ArrowRight", "-", "ArrowLeft"}[step%4]))
		wait(t, tab, fmt.Sprintf(`document.getElementById("runs").textContent.includes("42 min %02d s")`, step+1))
	}
	wait(t, tab, drawn)
	ended, err := tab.CPU()
	require.NoError(t, err)
	t.Logf("%d revisions of 10,000 sites: %v of the page's thread, %d questions", steps, ended-began, len(tab.Requests())-asked)
	assert.Less(t, (ended-began)/steps, 500*time.Millisecond, "of the page's thread for a revision and a move")
	assert.LessOrEqual(t, len(tab.Requests())-asked, 3*steps, "questions, of which depth asks some")
	assert.InDelta(t, elements, ask[int](t, tab, `document.querySelectorAll("*").length`), 10, "nothing is left over in the document")
}

// TestHaplotypesOfAVariant opens a phased variant and one that isn't: reads are by haplotype and by allele, and what isn't known is said.
func TestHaplotypesOfAVariant(t *testing.T) {
	scene := pagetest.Phased()
	tab := visit(t, serve(t, scene), desk)
	table := `[...document.querySelectorAll("#haplotype-table tbody tr")].map((tr) => [...tr.children].map((td) => td.textContent).join(" | ")).join("\n")`
	text := `document.getElementById("haplotype-text").textContent`
	show := func(v monitor.Variant) {
		ask[bool](t, tab, fmt.Sprintf(`(() => { location.hash = "#" + new URLSearchParams({ variant: %q }); return true; })()`, v.ID))
		wait(t, tab, fmt.Sprintf(`document.getElementById("detail-title").textContent.includes(%q) && document.querySelectorAll("#haplotype-table tbody tr").length > 0`, v.Ref+">"+v.Alt))
	}
	second := scene.Variants[3] // 1|0
	show(second)
	forward, refs := second.AltDepth/2, second.Depth-second.AltDepth
	assert.Equal(t, fmt.Sprintf("Haplotype 1 | %s, this allele | %d | %d | %d\nHaplotype 2 | %s, reference | %d | %d | %d",
		second.Alt, forward, second.AltDepth-forward, second.AltDepth, second.Ref, refs/2, refs-refs/2, refs), ask[string](t, tab, table))
	assert.Contains(t, ask[string](t, tab, text), "Phased (1|0) in the set that begins at 10,205")
	assert.Equal(t, "In the same phase set: 10,205 G>A (0|1), 20,661 G>A (0|1).", ask[string](t, tab, `document.getElementById("haplotype-set").textContent`))
	assert.Equal(t, 20, ask[int](t, tab, `document.querySelectorAll("#haplotype-sites tbody tr").length`))
	assert.Contains(t, ask[string](t, tab, `document.getElementById("haplotype-methylation").textContent`), "By haplotype they aren't known during a run")

	show(scene.Variants[0])
	assert.Contains(t, ask[string](t, tab, text), "not phased: phase sets are named when the run ends, and a mixture has none")
	assert.Regexp(t, `^not phased \| A, reference \| \d+ \| \d+ \| \d+\nnot phased \| G, this allele \| \d+ \| \d+ \| \d+$`, ask[string](t, tab, table))
}
