package page_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/monitor"
	"github.com/porestream/porestream/monitor/page/pagetest"
)

// TestLargeRunIsShownWithoutStutter shows 5,000 variants and 3,000 channels, changes
// 200 variants and all channels again and again while the table is scrolled, and bounds
// what that costs: the elements in the document, those that are touched, and the CPU
// time of the page's thread. CPU time, as on a loaded machine the wall clock measures
// the others; how many frames were long is only logged.
func TestLargeRunIsShownWithoutStutter(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	const variants, steps = 5000, 40
	s := serve(t, pagetest.Large(variants))
	screen := night
	screen.Still = false
	tab := visit(t, s, screen)
	wait(t, tab, fmt.Sprintf(`document.getElementById("variants-grid").getAttribute("aria-rowcount") === "%d"`, variants+1))
	wait(t, tab, `document.getElementById("flowcell-canvas").ariaLabel.includes("3,000 channels")`)

	inDocument := `document.querySelectorAll("*").length`
	before := ask[int](t, tab, inDocument)
	assert.Less(t, before, 2500, "elements in the document")
	ask[bool](t, tab, `(() => {
		window.touched = 0;
		new MutationObserver((all) => { touched += all.length; }).observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
		window.frames_ = [];
		let last = performance.now();
		const grid = document.getElementById("variants-grid");
		document.getElementById("variants").scrollIntoView();
		(function frame() {
			const now = performance.now();
			frames_.push(now - last);
			last = now;
			grid.scrollTop += 40;
			requestAnimationFrame(frame);
		})();
		return true;
	})()`)
	require.NoError(t, tab.MeasureCPU())
	began, err := tab.CPU()
	require.NoError(t, err)
	for step := 2; step < 2+steps; step++ {
		s.feed.Step(step)
		want := step - 1
		wait(t, tab, fmt.Sprintf(`document.getElementById("runs").textContent.includes("42 min %02d s")`, want))
	}
	// The last of the variants is reached, and what it shows is its newest revision.
	rows := s.feed.Rows()
	revised := 0
	for _, v := range rows {
		if v.Revision > 1 {
			revised++
		}
	}
	assert.Greater(t, revised, 3000, "of the variants have changed")
	ask[bool](t, tab, `(document.querySelector('.c-revision .sort').click(), true)`)
	wait(t, tab, fmt.Sprintf(`document.querySelector('.grid-row[aria-rowindex="2"] .c-revision').textContent === "%d"`, most(rows)))

	ended, err := tab.CPU()
	require.NoError(t, err)
	perStep := (ended - began) / steps
	frames := ask[[]float64](t, tab, `frames_`)
	long := 0
	for _, f := range frames {
		if f > 50 {
			long++
		}
	}
	t.Logf("%v CPU time a step; %d frames, %.1f %% longer than 50 ms", perStep.Round(time.Millisecond/10), len(frames), 100*float64(long)/float64(len(frames)))
	touched := ask[int](t, tab, `touched`)
	t.Logf("%d elements touched a step, %d a frame", touched/steps, touched/len(frames))
	assert.Less(t, perStep, 500*time.Millisecond, "CPU time for a second's changes and the scrolling meanwhile")
	assert.Less(t, ask[int](t, tab, inDocument), before+500, "elements grow")
	assert.Less(t, ask[int](t, tab, `document.querySelectorAll(".grid-body .grid-row").length`), 60, "rows in the document")
}

func most(rows []monitor.Variant) uint64 {
	var m uint64
	for _, v := range rows {
		m = max(m, v.Revision)
	}
	return m
}

// TestManyVariantsCanBeReached goes to the end of a table of 50,000 rows.
func TestManyVariantsCanBeReached(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	const variants = 50_000
	tab := visit(t, serve(t, pagetest.Large(variants)), desk)
	wait(t, tab, fmt.Sprintf(`document.getElementById("variants-grid").getAttribute("aria-rowcount") === "%d"`, variants+1))
	ask[bool](t, tab, `(document.getElementById("variants-grid").scrollTop = 1e9, true)`)
	wait(t, tab, fmt.Sprintf(`document.querySelector('.grid-row:not([hidden])[aria-rowindex="%d"]') !== null`, variants+1))
	assert.Equal(t, "chr24", ask[string](t, tab, fmt.Sprintf(`document.querySelector('[aria-rowindex="%d"] .c-place').textContent.split(":")[0]`, variants+1)))
}

// TestPlateIsShownWithoutStutter shows 96 samples by 60 markers, lets every sample's answers to a marker change again and again, and bounds the elements that are
// touched and the CPU time of the page's thread; the answers are those of the server, and are read with keys alone.
func TestPlateIsShownWithoutStutter(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	const samples, markers, steps = 96, 60, 30
	scene := pagetest.Plate(samples, markers)
	s := serve(t, scene)
	tab := visit(t, s, night)
	wait(t, tab, fmt.Sprintf(`document.querySelectorAll("#plate-table tbody td").length === %d`, samples*markers))
	cell := func(row, column int) string {
		return ask[string](t, tab, fmt.Sprintf(`document.querySelector('#plate-table tbody tr:nth-child(%d)').cells[%d].textContent`, row, column))
	}
	codes := map[string]string{"NEGATIVE": "–", "DETECTED": "D", "NOT_CALLABLE": "n/c", "SUSPECTED": "S?", "PENDING": "…", "RESISTANT": "R", "SUSCEPTIBLE": "S", "INTERMEDIATE": "I", "CLASSIFIED": "C"}
	byPlace := make(map[string]monitor.Alert)
	for _, a := range scene.Alerts {
		byPlace[a.Sample+a.Panel+a.Rule] = a
	}
	at := func(row, column int) monitor.Alert { // lineages, of the second half, stand before resistance
		marker := (column - 1 + markers/2) % markers
		return byPlace[fmt.Sprintf("barcode%02d", row)+[]string{"resistance", "lineages"}[2*marker/markers]+fmt.Sprintf("gene%02d-K%dN", marker, marker)]
	}
	for _, place := range [][2]int{{1, 1}, {2, 1}, {50, 31}, {96, 60}, {17, 44}} {
		assert.Equal(t, codes[at(place[0], place[1]).State], cell(place[0], place[1]), "%v", place)
	}
	ask[bool](t, tab, `(() => {
		window.touched = 0;
		new MutationObserver((all) => { touched += all.length; }).observe(document.getElementById("plate-table"), { subtree: true, childList: true, attributes: true, characterData: true });
		document.getElementById("plate").scrollIntoView();
		return true;
	})()`)
	inDocument := `document.querySelectorAll("*").length`
	before := ask[int](t, tab, inDocument)
	require.NoError(t, tab.MeasureCPU())
	began, err := tab.CPU()
	require.NoError(t, err)
	states := []string{"DETECTED", "NEGATIVE"}
	for step := range steps {
		var changed []monitor.Alert
		for row := 1; row <= samples; row++ {
			a := at(row, 1+step)
			a.State, a.Evidence = states[(row+step)%2], fmt.Sprintf("step %d", step)
			changed = append(changed, a)
		}
		s.feed.Alerts(changed...)
		wait(t, tab, fmt.Sprintf(`document.querySelector('#plate-table tbody tr:last-child').cells[%d].textContent === "%s"`, 1+step, codes[states[(samples+step)%2]]))
	}
	ended, err := tab.CPU()
	require.NoError(t, err)
	perStep := (ended - began) / steps
	touched := ask[int](t, tab, `touched`)
	t.Logf("%v CPU time and %d changes of the table a step of %d answers", perStep.Round(time.Millisecond/10), touched/steps, samples)
	assert.Less(t, perStep, 500*time.Millisecond, "CPU time for a quarter of a second's changes")
	assert.LessOrEqual(t, touched/steps, 3*samples, "only answers that have changed are touched")
	assert.LessOrEqual(t, ask[int](t, tab, inDocument), before+20, "elements grow")

	// Read with keys alone.
	ask[bool](t, tab, `(document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "m", bubbles: true })), true)`)
	wait(t, tab, `document.activeElement.id === "plate-frame"`)
	press := func(key string) {
		ask[bool](t, tab, fmt.Sprintf(`(document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "%s", bubbles: true, cancelable: true })), true)`, key))
	}
	press("ArrowDown")
	press("ArrowRight")
	wait(t, tab, `document.getElementById("plate-readout").textContent.startsWith("barcode02, lineages, gene31-K31N: ") && document.getElementById("plate-readout").textContent.includes("step 1")`)
	press("End")
	wait(t, tab, `document.getElementById("plate-readout").textContent.startsWith("barcode02, resistance, gene29-K29N: ")`)
}

// TestPlateOfOneSampleIsNone: a run of one sample has its list of watch-lists alone.
func TestPlateOfOneSampleIsNone(t *testing.T) {
	tab := visit(t, serve(t, pagetest.Lambda()), desk)
	wait(t, tab, `document.querySelectorAll("#alerts li").length === 4`)
	assert.True(t, ask[bool](t, tab, `document.getElementById("plate").hidden`))
}

// TestSamplesByGenes shows the named alleles of 96 samples: what isn't covered and what else is possible stands in the cell, a pair beside others is never shown as settled, and
// only cells that have changed are touched.
func TestSamplesByGenes(t *testing.T) {
	const samples, genes = 96, 13
	scene := pagetest.Genes(samples, genes)
	s := serve(t, scene)
	tab := visit(t, s, night)
	wait(t, tab, fmt.Sprintf(`document.querySelectorAll("#genes-table tbody td").length === %d`, samples*genes))
	type cell struct{ Text, Kind string }
	at := func(row, column int) cell {
		return ask[cell](t, tab, fmt.Sprintf(`(({ innerText, dataset }) => ({ Text: innerText.replace("\n", " | "), Kind: dataset.kind }))(document.querySelector('#genes-table tbody tr:nth-child(%d)').cells[%d])`, row, column))
	}
	for place, want := range map[[2]int]cell{
		{1, 1}: {"*1/*2", "clear"}, {2, 1}: {"*1/*3 | or 1 more", "doubt"}, {3, 1}: {"*1/*4 | or 3 more, 2 of 8 not covered", "doubt"}, {4, 1}: {"n/c", "blind"},
		{5, 1}: {"*1/*6 | 1 of 8 not covered", "other"}, {6, 1}: {"*1/*7 … | 3 of 8 not covered", "doubt"},
	} {
		assert.Equal(t, want, at(place[0], place[1]), "%v", place)
	}
	ask[bool](t, tab, `(() => {
		window.touched = 0;
		new MutationObserver((all) => { touched += all.length; }).observe(document.getElementById("genes-table"), { subtree: true, childList: true, attributes: true, characterData: true });
		return true;
	})()`)
	next := scene.Diplotypes[5*genes]
	next.Status, next.Missing, next.Unexamined, next.Diplotypes = "FINAL", nil, nil, []string{"*1/*9"}
	s.feed.Diplotypes(append([]monitor.Diplotype{next}, scene.Diplotypes[:5*genes]...)...)
	wait(t, tab, `document.querySelector('#genes-table tbody tr:nth-child(6)').cells[1].textContent === "*1/*9"`)
	assert.Equal(t, cell{"*1/*9", "clear"}, at(6, 1))
	assert.LessOrEqual(t, ask[int](t, tab, `touched`), 4)

	ask[bool](t, tab, `(document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "g", bubbles: true })), true)`)
	wait(t, tab, `document.activeElement.id === "genes-frame"`)
	for _, key := range []string{"ArrowDown", "ArrowDown"} {
		ask[bool](t, tab, fmt.Sprintf(`(document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "%s", bubbles: true, cancelable: true })), true)`, key))
	}
	wait(t, tab, `document.getElementById("genes-readout").textContent === "barcode03, CYP2B6: final, *1/*4; also possible: *1/*10, *2/*11, *3/*12; not covered: rs803, rs1021"`)
	assert.True(t, ask[bool](t, visit(t, serve(t, pagetest.Lambda()), desk), `document.getElementById("alleles").hidden`), "without definitions there is no table")
}
