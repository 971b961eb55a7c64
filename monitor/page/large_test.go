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
