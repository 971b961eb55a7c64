package page_test

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/monitor"
	"github.com/porestream/porestream/monitor/page"
	"github.com/porestream/porestream/monitor/page/pagetest"
	"github.com/porestream/porestream/monitor/page/pagetest/browser"
)

// Tests of the page in a real browser. They share one Chromium, and every test has a
// tab with cookies of its own.

const token = "a-token-of-the-tests"

// patience is for a condition that must come true; a loaded machine takes its time.
const patience = 30 * time.Second

var (
	desk  = browser.Screen{Width: 1500, Height: 1000, Still: true}
	night = browser.Screen{Width: 1500, Height: 1000, Dark: true}
	phone = browser.Screen{Width: 390, Height: 844, Scale: 2, Phone: true}
)

// chromium is started by the first test that needs it.
var chromium struct {
	sync.Once
	*browser.Browser
	missing, err error
}

func startChromium() {
	path, err := browser.Find()
	if err != nil {
		chromium.missing = err
		return
	}
	chromium.Browser, chromium.err = browser.Start(context.Background(), path)
}

func TestMain(m *testing.M) {
	code := m.Run()
	if chromium.Browser != nil {
		chromium.Close()
	}
	os.Exit(code)
}

// site is a feed that is served on a port which stays the same.
type site struct {
	t       *testing.T
	address string
	token   string
	feed    *pagetest.Feed
	server  *http.Server
}

func serve(t *testing.T, scene pagetest.Scene) *site {
	t.Helper()
	s := &site{t: t, address: "127.0.0.1:0", token: token}
	s.start(scene)
	t.Cleanup(s.stop)
	return s
}

func (s *site) start(scene pagetest.Scene) {
	s.t.Helper()
	listener, err := net.Listen("tcp", s.address)
	require.NoError(s.t, err)
	s.address = listener.Addr().String()
	s.feed = pagetest.NewFeed(page.Assets(), s.token, scene)
	s.server = &http.Server{Handler: s.feed, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.server.Serve(listener) }() // ends with stop
}

func (s *site) stop() { _ = s.server.Close() }

func (s *site) url() string { return fmt.Sprintf("http://%s/?token=%s", s.address, s.token) }

// open opens an empty tab.
func open(t *testing.T, screen browser.Screen) *browser.Tab {
	t.Helper()
	chromium.Do(startChromium)
	if chromium.missing != nil {
		t.Skip(chromium.missing)
	}
	require.NoError(t, chromium.err)
	tab, err := chromium.Open(screen)
	require.NoError(t, err)
	t.Cleanup(tab.Close)
	return tab
}

// visit opens the page of a site and waits until it is live. In the end, whatever the
// test did, nothing may have gone wrong in it.
func visit(t *testing.T, s *site, screen browser.Screen) *browser.Tab {
	t.Helper()
	tab := open(t, screen)
	require.NoError(t, tab.Go(s.url()))
	wait(t, tab, `document.body.dataset.feed === "live"`)
	t.Cleanup(func() { sound(t, tab, s) })
	return tab
}

// sound checks that nothing was thrown, forbidden by the policy, or asked of others.
func sound(t *testing.T, tab *browser.Tab, s *site) {
	t.Helper()
	assert.Empty(t, tab.Messages())
	violations, err := browser.Ask[[]string](tab, `window.violations`)
	if assert.NoError(t, err) {
		assert.Empty(t, violations, "of the Content-Security-Policy")
	}
	for _, address := range tab.Requests() {
		assert.True(t, strings.HasPrefix(address, "http://"+s.address+"/"), "asked for %s", address)
	}
}

func wait(t *testing.T, tab *browser.Tab, expression string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := tab.Wait(ctx, expression); err != nil {
		text, _ := browser.Ask[string](tab, `document.body.innerText.slice(0, 1500)`)
		require.NoError(t, err, "the page shows:\n%s\nmessages: %q", text, tab.Messages())
	}
}

func ask[T any](t *testing.T, tab *browser.Tab, expression string) T {
	t.Helper()
	v, err := browser.Ask[T](tab, expression)
	require.NoError(t, err)
	return v
}

func text(t *testing.T, tab *browser.Tab, id string) string {
	t.Helper()
	return ask[string](t, tab, fmt.Sprintf(`document.getElementById(%q).textContent`, id))
}

func press(t *testing.T, tab *browser.Tab, keys ...string) {
	t.Helper()
	for _, k := range keys {
		require.NoError(t, tab.Press(k))
	}
}

// rows are the positions of the variants in sight.
const rows = `[...document.querySelectorAll(".grid-body .grid-row:not([hidden])")].sort((a, b) => a.getAttribute("aria-rowindex") - b.getAttribute("aria-rowindex")).map((r) => r.querySelector(".c-place").textContent)`

// inked counts the colours on a canvas: a picture has several, an empty one none.
func inked(id string) string {
	return fmt.Sprintf(`(() => {
		const c = document.getElementById(%q);
		const seen = new Set();
		const d = new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer);
		for (let i = 0; i < d.length; i += 7) seen.add(d[i]);
		return seen.size;
	})()`, id)
}

func TestPageShowsARun(t *testing.T) {
	scene := pagetest.Lambda()
	tab := visit(t, serve(t, scene), desk)
	wait(t, tab, rows+`.length === 11`)

	assert.Equal(t, scene.Summary.Health.Word, text(t, tab, "health-word"))
	assert.Equal(t, scene.Summary.Health.Sentence, text(t, tab, "health-sentence"))
	assert.Equal(t, "1.00×", text(t, tab, "keepup"))
	assert.Equal(t, "1.7 s", text(t, tab, "latency"))
	assert.Equal(t, "2.10 M", text(t, tab, "rate-samples"))
	assert.Equal(t, "11", text(t, tab, "found"))
	assert.NotEmpty(t, ask[string](t, tab, `document.querySelector("#spark-bases .line").getAttribute("d")`))
	assert.Contains(t, text(t, tab, "runs"), "lambda")

	want := make(map[string]int)
	for _, letter := range scene.Channels.FlowCells[0].States {
		want[scene.Channels.FlowCells[0].Legend[string(letter)]]++
	}
	legend := ask[map[string]int](t, tab, `Object.fromEntries([...document.querySelectorAll(".legend-entry")].map((e) => [e.querySelector(".legend-name").textContent, Number(e.querySelector(".legend-count").textContent.replaceAll(",", ""))]))`)
	assert.Equal(t, want, legend)
	assert.Greater(t, ask[int](t, tab, inked("flowcell-canvas")), 8)
	assert.Contains(t, ask[string](t, tab, `document.getElementById("flowcell-canvas").ariaLabel`), "512 channels")

	assert.Greater(t, ask[int](t, tab, inked("depth-canvas")), 4)
	assert.Contains(t, ask[string](t, tab, `document.getElementById("depth-canvas").ariaLabel`), "1 to 48,502 of 48,502: mean 25.8 reads, 100 % covered, 11 variants")

	assert.Equal(t, []string{"J02459.1:138", "J02459.1:4,714", "J02459.1:10,205"}, ask[[]string](t, tab, rows)[:3])
	assert.Contains(t, text(t, tab, "alerts"), "Clear plaque: cI p.Glu118Lys")
	assert.Contains(t, text(t, tab, "latency-table"), "signal to variants")
	assert.Contains(t, text(t, tab, "lag-table"), "basecall")
	assert.Contains(t, text(t, tab, "device-table"), "cuda:0")
	assert.Equal(t, 3, ask[int](t, tab, `document.querySelectorAll("#process-table tbody tr").length`))
	assert.Equal(t, "Nothing is wrong that the page knows of.", text(t, tab, "problems-empty"))
	assert.NotContains(t, ask[string](t, tab, `location.href`), "token")
}

func TestPageSaysWhereThereIsNothing(t *testing.T) {
	tab := visit(t, serve(t, pagetest.Empty()), desk)
	wait(t, tab, `document.getElementById("health-word").textContent === "Waiting"`)
	for _, id := range []string{"flowcell-empty", "depth-empty", "variants-empty", "watch-empty", "problems-empty"} {
		assert.False(t, ask[bool](t, tab, fmt.Sprintf(`document.getElementById(%q).hidden`, id)), id)
	}
	assert.Equal(t, "–", text(t, tab, "keepup"))
}

func TestPageFollowsChanges(t *testing.T) {
	scene := pagetest.Lambda()
	s := serve(t, scene)
	tab := visit(t, s, desk)
	wait(t, tab, rows+`.length === 11`)

	row := scene.Variants[2]
	row.Revision, row.Status, row.Depth, row.AltDepth, row.Updated = 9, "FINAL", 60, 55, pagetest.Now().Add(time.Second)
	s.feed.Variants(row, monitor.Variant{
		ID: "lambda/new", Sample: "lambda", Contig: "J02459.1", Pos: 1, Ref: "G", Alt: "C", Status: "PROVISIONAL", Revision: 1, Filter: "PASS", Qual: 12, Depth: 3, AltDepth: 3,
		Fraction: 1, Gene: "<img src=x onerror=alert(1)>", Consequence: "intergenic_variant", Updated: pagetest.Now().Add(time.Second),
	})
	wait(t, tab, rows+`[0] === "J02459.1:1"`)
	changed := `[...document.querySelectorAll(".grid-row.fresh")].map((r) => r.dataset.id).sort()`
	wait(t, tab, changed+`.length === 2`)
	assert.Equal(t, []string{"lambda/ga4gh:VA.02", "lambda/new"}, ask[[]string](t, tab, changed))
	assert.Equal(t, "55/60", ask[string](t, tab, `document.querySelector('[data-id="lambda/ga4gh:VA.02"] .c-depth').textContent`))
	assert.Equal(t, "Final", ask[string](t, tab, `document.querySelector('[data-id="lambda/ga4gh:VA.02"] .c-status').textContent`))
	// What comes from outside is shown as text, whatever it contains.
	assert.Equal(t, "<img src=x onerror=alert(1)>", ask[string](t, tab, `document.querySelector('[data-id="lambda/new"] .c-gene').textContent`))

	s.feed.Summary(func(m *monitor.Summary) {
		m.Health = monitor.Health{State: monitor.HealthWarning, Word: "Look", Sentence: "Something waits."}
		*m.Rates.KeepUp = 0.5
	})
	wait(t, tab, `document.getElementById("health").dataset.state === "warning" && document.getElementById("keepup").textContent === "0.50×"`)
	assert.Equal(t, "Look – Porestream", ask[string](t, tab, `document.title`))

	cell := pagetest.Channels("flongle", 4)
	s.feed.Channels(monitor.Channels{FlowCells: []monitor.FlowCell{cell}})
	wait(t, tab, `document.getElementById("flowcell-canvas").ariaLabel.includes("126 channels")`)

	a := scene.Alerts[3]
	a.State, a.Previous = "DETECTED", "PENDING"
	s.feed.Alerts(a)
	wait(t, tab, `document.querySelectorAll('#alerts [data-state="DETECTED"]').length === 2`)

	s.feed.Problems([]monitor.Problem{{ID: "lag", Severity: "warning", Title: "Reads wait", Detail: "1,204 in reads", Do: "Add a processor.", Count: 1, First: pagetest.Now(), Last: pagetest.Now()}})
	wait(t, tab, `document.getElementById("problems").textContent.includes("What to do: Add a processor.")`)
	s.feed.Problems(nil, "lag")
	wait(t, tab, `!document.getElementById("problems-empty").hidden && document.getElementById("problems").children.length === 0`)
}

func TestPageSurvivesARestart(t *testing.T) {
	before := pagetest.Lambda()
	before.Diplotypes = genesOf().Diplotypes
	s := serve(t, before)
	tab := visit(t, s, night)
	wait(t, tab, rows+`.length === 11 && !document.getElementById("alleles").hidden`)
	ask[bool](t, tab, `window.notReloaded = true`)

	s.stop()
	// The word comes with the next frame that is drawn, after the state of the feed.
	wait(t, tab, `document.body.dataset.feed === "lost" && !document.getElementById("banner").hidden && document.getElementById("health-word").textContent === "No connection"`)
	assert.Contains(t, text(t, tab, "banner"), "What you see is as of")
	assert.Equal(t, "true", ask[string](t, tab, `document.body.dataset.old`))
	assert.Len(t, ask[[]string](t, tab, rows), 11, "what was known stays")

	after := pagetest.Troubled()
	after.Hello.Instance = "processor-9"
	after.Variants = after.Variants[:4]
	s.start(after)
	wait(t, tab, `document.body.dataset.feed === "live" && document.getElementById("banner").hidden && `+rows+`.length === 4 && document.getElementById("health-word").textContent === "Trouble"`)
	assert.True(t, ask[bool](t, tab, `window.notReloaded`))
	assert.Contains(t, text(t, tab, "foot"), "processor-9")
	assert.True(t, ask[bool](t, tab, `document.getElementById("alleles").hidden`), "a server without definitions names no alleles")
	assert.Equal(t, 3, ask[int](t, tab, `document.getElementById("problems").children.length`))
	assert.Zero(t, ask[int](t, tab, `document.querySelectorAll(".grid-row.fresh").length`), "what was there before is no news")
}

// Each state is distinguishable without its colour, and its colour is seen against the panel
// in both themes.
func TestChannelStatesAreSeen(t *testing.T) {
	assets := page.Assets()
	css, err := fs.ReadFile(assets, "page.css")
	require.NoError(t, err)
	script, err := fs.ReadFile(assets, "flowcell.js")
	require.NoError(t, err)
	colours := func(name string) [2]string {
		m := regexp.MustCompile(`\s` + name + `: light-dark\((#\w{6}), (#\w{6})\);`).FindSubmatch(css)
		require.NotNil(t, m, name)
		return [2]string{string(m[1]), string(m[2])}
	}
	panel := colours("--panel")
	kinds := regexp.MustCompile(`\{ name: "([^"]+)", variable: "([^"]+)", mark: "([^"]+)"`).FindAllSubmatch(script, -1)
	marks := make(map[string]string)
	names := make(map[string]bool)
	for _, k := range kinds {
		name, mark := string(k[1]), string(k[3])
		names[name] = true
		assert.Empty(t, marks[mark], "%s has the mark of another", name)
		marks[mark] = name
		for theme, of := range colours(string(k[2])) {
			if name != "inactive" { // faded, as nothing is expected of it
				assert.GreaterOrEqual(t, contrast(t, of, panel[theme]), 3.0, "%s %s on %s", name, of, panel[theme])
			}
		}
	}
	for _, name := range monitor.ChannelLegend() {
		assert.True(t, names[name], "the page doesn't draw %s", name)
	}
}

// contrast is the ratio of WCAG 2 between two colours, #rrggbb.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	luminance := func(colour string) float64 {
		n, err := strconv.ParseUint(colour[1:], 16, 32)
		require.NoError(t, err)
		sum := 0.0
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			c := float64(n>>(16-8*i)&0xff) / 255
			if c <= 0.04045 {
				c /= 12.92
			} else {
				c = math.Pow((c+0.055)/1.055, 2.4)
			}
			sum += weight * c
		}
		return sum
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// It is said whose word the states of channels are.
func TestPageShowsTheOriginOfStates(t *testing.T) {
	scene := pagetest.Lambda()
	tab := visit(t, serve(t, scene), desk)
	wait(t, tab, `document.getElementById("flowcell-origin").textContent.includes("as the sequencer reports them")`)
	assert.Contains(t, text(t, tab, "flowcell-legend"), "saturated")

	scene = pagetest.Lambda()
	for i := range scene.Channels.FlowCells {
		scene.Channels.FlowCells[i].Origin = monitor.OriginSignal
	}
	tab = visit(t, serve(t, scene), desk)
	wait(t, tab, `document.getElementById("flowcell-origin").textContent.includes("follow from the signal")`)
}

// The word, its colour, the tile and the problem say the same of the pace.
func TestPageShowsFallingBehind(t *testing.T) {
	s := serve(t, pagetest.Lambda())
	tab := visit(t, s, desk)
	state := func() []string {
		return ask[[]string](t, tab, `[document.getElementById("health").dataset.state, document.getElementById("keepup-meter").dataset.level]`)
	}
	wait(t, tab, `document.getElementById("health").dataset.state === "good"`)
	assert.Equal(t, []string{"good", "good"}, state())
	s.stop()
	s.start(pagetest.Behind())
	wait(t, tab, `document.body.dataset.feed === "live" && document.getElementById("health-word").textContent === "Falling behind"`)
	assert.Equal(t, []string{"warning", "warning"}, state())
	assert.Contains(t, text(t, tab, "health-sentence"), "Start another processor")
	assert.Equal(t, "0.62×", text(t, tab, "keepup"))
	assert.Contains(t, text(t, tab, "problems"), "only 62 % of the signal")
}

func TestPageReportsARefusedToken(t *testing.T) {
	s := serve(t, pagetest.Lambda())
	tab := open(t, desk)
	require.NoError(t, tab.Go("http://"+s.address+"/"))
	wait(t, tab, `document.querySelector("form input[name=token]") !== null`)
	assert.NotContains(t, ask[string](t, tab, `document.documentElement.outerHTML`), "app.js", "nothing of the page without the token")
	require.NoError(t, tab.Go(fmt.Sprintf("http://%s/?token=wrong", s.address)))
	wait(t, tab, `document.querySelector("form input[name=token]") !== null`)

	require.NoError(t, tab.Go(s.url()))
	wait(t, tab, `document.body.dataset.feed === "live"`)
	s.stop()
	wait(t, tab, `document.body.dataset.feed === "lost"`)
	s.token = "another-token"
	s.start(pagetest.Lambda())
	wait(t, tab, `document.getElementById("token-dialog").open`)
	assert.Equal(t, "No access", text(t, tab, "health-word"))
	ask[bool](t, tab, `document.querySelector("#token-dialog input").focus(), true`)
	press(t, tab, "another-token", kb.Enter)
	wait(t, tab, `document.body.dataset.feed === "live"`)
	wait(t, tab, rows+`.length === 11`)
}

func TestVariantHasADialogWithItsReads(t *testing.T) {
	s := serve(t, pagetest.Lambda())
	tab := visit(t, s, desk)
	wait(t, tab, rows+`.length === 11`)
	require.NoError(t, tab.Click(`[data-id="lambda/ga4gh:VA.08"]`))
	wait(t, tab, `document.getElementById("detail").open && !document.getElementById("pileup-body").hidden`)
	assert.Equal(t, "J02459.1:37,589 C>T", text(t, tab, "detail-title"))
	assert.Contains(t, text(t, tab, "detail-consequence"), "cI:p.Glu118Lys")
	assert.Contains(t, text(t, tab, "detail-consequence"), "0.27 in cI: acceptor loss 0.27 at −23, acceptor gain 0.15 at +89, donor loss 0.05 at +193")
	assert.Contains(t, text(t, tab, "detail-evidence"), "25 of 26 show it (96 %)")
	assert.Contains(t, text(t, tab, "detail-sources"), "clear plaque")
	assert.Greater(t, ask[int](t, tab, inked("pileup-canvas")), 8)
	counts := ask[[][]string](t, tab, `[...document.querySelectorAll("#pileup-counts tbody tr")].map((r) => [...r.children].map((c) => c.textContent))`)
	assert.Equal(t, [][]string{{"T (the variant)", "13", "12", "25"}, {"C (the reference)", "0", "1", "1"}}, counts)
	assert.Equal(t, 2, ask[int](t, tab, `document.querySelectorAll("#revision-table tbody tr").length`))
	assert.Contains(t, ask[string](t, tab, `decodeURIComponent(location.hash)`), "variant=lambda/ga4gh:VA.08")

	// A new revision is shown as it comes.
	row := s.feed.Rows()[8]
	row.Revision, row.Status = 3, "FINAL"
	s.feed.Variants(row)
	wait(t, tab, `document.querySelectorAll("#revision-table tbody tr").length === 3`)

	// The address leads back here, and the browser's way back away from it.
	ask[bool](t, tab, `history.back(), true`)
	wait(t, tab, `!document.getElementById("detail").open`)
	ask[bool](t, tab, `history.forward(), true`)
	wait(t, tab, `document.getElementById("detail").open && !document.getElementById("pileup-body").hidden`)
	require.NoError(t, tab.Click("#detail-depth"))
	wait(t, tab, `!document.getElementById("detail").open && document.getElementById("depth-range").textContent.startsWith("37,339–37,838")`)
}

// A browser reports that a dialog has closed a while after it did, longer on a busy machine.
func TestVariantThatIsOpenedAgainAtOnce(t *testing.T) {
	tab := visit(t, serve(t, pagetest.Lambda()), desk)
	wait(t, tab, rows+`.length === 11`)
	filled := `document.getElementById("detail").open && !document.getElementById("pileup-body").hidden`
	for _, place := range []string{"J02459.1:37,589", "J02459.1:10,205"} {
		require.NoError(t, tab.Click(`[data-id="lambda/ga4gh:VA.08"]`))
		wait(t, tab, filled)
		ask[bool](t, tab, `document.getElementById("detail").close(),
			[...document.querySelectorAll(".grid-body .grid-row")].find((r) => r.textContent.includes("`+strings.TrimPrefix(place, "J02459.1:")+`")).click(), true`)
		wait(t, tab, filled)
		assert.Contains(t, text(t, tab, "detail-title"), place)
		assert.Contains(t, ask[string](t, tab, `decodeURIComponent(location.hash)`), "variant=lambda/ga4gh:VA.")
		require.NoError(t, tab.Click("#detail-close"))
		wait(t, tab, `!document.getElementById("detail").open && !location.hash.includes("variant=")`)
	}
}

func TestVariantWithoutReadsSaysWhy(t *testing.T) {
	scene := pagetest.Lambda()
	scene.Detail = nil
	tab := visit(t, serve(t, scene), desk)
	wait(t, tab, rows+`.length === 11`)
	require.NoError(t, tab.Click(`[data-id="lambda/ga4gh:VA.08"]`))
	wait(t, tab, `document.getElementById("pileup-message").textContent === "The process that holds this region does not answer."`)
	assert.True(t, ask[bool](t, tab, `document.getElementById("pileup-body").hidden`))
}

func TestVariantsAreFilteredAndSorted(t *testing.T) {
	tab := visit(t, serve(t, pagetest.Lambda()), desk)
	wait(t, tab, rows+`.length === 11`)
	for _, tt := range []struct {
		do   string
		want []string
	}{
		{`document.querySelector('#filter-impact [value="HIGH"]').click()`, []string{"14,266", "20,661", "27,133"}},
		{`document.querySelector('#filter-status [value="PROVISIONAL"]').click()`, []string{"20,661"}},
		{`document.getElementById("filter-failed").click()`, []string{"8,100", "20,661"}},
		{`document.getElementById("filter-clear").click()`, nil},
		{`document.querySelector('#filter-status [value="RETRACTED"]').click()`, []string{"45,618"}},
		{`document.getElementById("filter-clear").click()`, nil},
		{`type("filter-text", "missense ci")`, []string{"37,589"}},
		{`type("filter-text", "no such thing")`, []string{}},
		{`type("filter-text", "")`, nil},
		{`type("filter-gene", "c")`, []string{"37,589", "37,742"}},
		{`type("filter-gene", "")`, nil},
		{`document.querySelector(".c-impact .sort").click(); type("filter-text", "J02459.1:3")`, []string{"31,016", "37,589", "37,742"}},
		{`document.querySelector(".c-impact .sort").click()`, []string{"37,742", "31,016", "37,589"}},
	} {
		ask[bool](t, tab, `(() => { const type = (id, text) => { const e = document.getElementById(id); e.value = text; e.dispatchEvent(new Event("input")); }; `+tt.do+`; return true; })()`)
		want := rows + `.length === 11`
		if tt.want != nil {
			places := make([]string, 0, len(tt.want))
			for _, p := range tt.want {
				places = append(places, "J02459.1:"+p)
			}
			want = fmt.Sprintf(`%s.join(" ") === %q`, rows, strings.Join(places, " "))
		}
		wait(t, tab, want)
	}
	assert.Equal(t, "ascending", ask[string](t, tab, `document.querySelector('[data-column="impact"]').ariaSort`))
}

func TestPageIsUsedWithTheKeyboardAlone(t *testing.T) {
	tab := visit(t, serve(t, pagetest.Lambda()), desk)
	wait(t, tab, rows+`.length === 11`)
	focus := `document.activeElement.id`

	press(t, tab, "?")
	wait(t, tab, `document.getElementById("help-dialog").open`)
	press(t, tab, "v") // keys of one letter rest while a dialog is open
	assert.True(t, ask[bool](t, tab, `document.getElementById("help-dialog").open`))
	press(t, tab, kb.Escape)
	wait(t, tab, `!document.getElementById("help-dialog").open`)

	press(t, tab, "v")
	wait(t, tab, focus+` === "variants-grid"`)
	press(t, tab, kb.ArrowDown, kb.ArrowDown, kb.ArrowUp, kb.ArrowDown)
	wait(t, tab, `document.querySelector('[aria-selected="true"]').dataset.id === "lambda/ga4gh:VA.02"`)
	assert.Equal(t, ask[string](t, tab, `document.querySelector('[aria-selected="true"]').id`), ask[string](t, tab, `document.getElementById("variants-grid").getAttribute("aria-activedescendant")`))
	press(t, tab, kb.Enter)
	wait(t, tab, `document.getElementById("detail").open && document.getElementById("detail-title").textContent.startsWith("J02459.1:10,205")`)
	press(t, tab, kb.Escape)
	wait(t, tab, `!document.getElementById("detail").open && `+focus+` === "variants-grid"`)
	press(t, tab, kb.End)
	wait(t, tab, `document.querySelector('[aria-selected="true"]').dataset.id === "lambda/ga4gh:VA.10"`)

	press(t, tab, "d")
	wait(t, tab, focus+` === "depth-frame"`)
	press(t, tab, "+", "+")
	wait(t, tab, `document.getElementById("depth-range").textContent.startsWith("18,189–30,314")`)
	press(t, tab, kb.ArrowRight)
	wait(t, tab, `!document.getElementById("depth-range").textContent.startsWith("18,189–")`)
	press(t, tab, kb.Home)
	wait(t, tab, `document.getElementById("depth-range").textContent === "all 48,502 bases"`)

	press(t, tab, "f")
	wait(t, tab, focus+` === "flowcell-frame"`)
	press(t, tab, kb.ArrowRight, kb.ArrowRight)
	wait(t, tab, `/^Channel \d+: /.test(document.getElementById("flowcell-readout").textContent)`)

	press(t, tab, "/")
	wait(t, tab, focus+` === "filter-text"`)
	press(t, tab, "stop")
	wait(t, tab, rows+`.join(" ") === "J02459.1:20,661"`)

	// Everything that can be pressed is reached with the tab key, and shows that it has the focus.
	ask[bool](t, tab, `document.activeElement.blur(), document.body.focus(), window.scrollTo(0, 0), true`)
	reached := map[string]bool{}
	for range 80 {
		press(t, tab, kb.Tab)
		reached[ask[string](t, tab, `(document.activeElement.id || document.activeElement.value || document.activeElement.textContent).trim()`)] = true
	}
	for _, id := range []string{"theme", "help", "flowcell-frame", "depth-picker", "depth-in", "depth-frame", "filter-text", "filter-gene", "HIGH", "RETRACTED", "filter-failed", "variants-grid"} {
		assert.True(t, reached[id], "%s is not reached with the tab key: %v", id, reached)
	}

	ask[bool](t, tab, `document.activeElement.blur(), true`)
	press(t, tab, "t")
	wait(t, tab, `document.documentElement.dataset.theme === "light"`)
	press(t, tab, "t")
	wait(t, tab, `document.documentElement.dataset.theme === "dark"`)
	ask[bool](t, tab, `document.getElementById("keys-on").click(), true`)
	press(t, tab, "t")
	assert.Equal(t, "dark", ask[string](t, tab, `document.documentElement.dataset.theme`), "keys of one letter can be turned off")
}

// Two fingers that part zoom to what is between them, and out again when they close; the page
// itself is neither zoomed nor scrolled.
func TestDepthIsZoomedWithTwoFingers(t *testing.T) {
	tab := visit(t, serve(t, pagetest.Lambda()), phone)
	wait(t, tab, `document.getElementById("depth-range").textContent === "all 48,502 bases"`)
	box := ask[map[string]float64](t, tab, `(document.getElementById("depth-frame").scrollIntoView({block: "center"}), document.getElementById("depth-canvas").getBoundingClientRect().toJSON())`)
	require.LessOrEqual(t, box["x"]+box["width"], float64(phone.Width))
	at := func(share float64) browser.Point {
		return browser.Point{X: box["x"] + share*box["width"], Y: box["y"] + box["height"]/2}
	}
	shown := func() (from, to int) {
		m := regexp.MustCompile(`^([\d,]+)–([\d,]+)`).FindStringSubmatch(text(t, tab, "depth-range"))
		require.NotNil(t, m, text(t, tab, "depth-range"))
		number := func(s string) int {
			n, err := strconv.Atoi(strings.ReplaceAll(s, ",", ""))
			require.NoError(t, err)
			return n
		}
		return number(m[1]), number(m[2])
	}
	still := `[scrollX, scrollY, visualViewport.scale].join()`
	before := ask[string](t, tab, still)

	narrow, wide := [2]browser.Point{at(0.4), at(0.6)}, [2]browser.Point{at(0.15), at(0.85)}
	require.NoError(t, tab.Pinch(narrow, wide, 8))
	wait(t, tab, `/^[\d,]+–/.test(document.getElementById("depth-range").textContent)`)
	from, to := shown()
	assert.Less(t, to-from, 48_502/2, "%d–%d", from, to)
	assert.Less(t, from, 24_251)
	assert.Greater(t, to, 24_251, "what was between the fingers stays there")
	assert.Equal(t, before, ask[string](t, tab, still))

	require.NoError(t, tab.Pinch(wide, narrow, 8))
	wait(t, tab, `document.getElementById("depth-range").textContent === "all 48,502 bases"`)
	assert.Equal(t, before, ask[string](t, tab, still))
}

func TestDepthIsZoomedWithTheMouse(t *testing.T) {
	tab := visit(t, serve(t, pagetest.Lambda()), desk)
	wait(t, tab, `document.getElementById("depth-range").textContent === "all 48,502 bases"`)
	box := ask[map[string]float64](t, tab, `(document.getElementById("depth-frame").scrollIntoView({block: "center"}), document.getElementById("depth-canvas").getBoundingClientRect().toJSON())`)
	x, y := box["x"]+box["width"]/2, box["y"]+box["height"]/2
	require.NoError(t, tab.Click("#depth-canvas"))
	require.NoError(t, tab.Wheel(x, y, -300))
	wait(t, tab, `document.getElementById("depth-range").textContent !== "all 48,502 bases"`)
	before := text(t, tab, "depth-range")
	require.NoError(t, tab.Drag(x, y, x+120, y))
	wait(t, tab, fmt.Sprintf(`document.getElementById("depth-range").textContent !== %q`, before))
	for range 4 {
		require.NoError(t, tab.Click("#depth-in"))
	}
	// The finer bins are asked for once the view stands still, and what is under the pointer is shown.
	wait(t, tab, `performance.getEntriesByType("resource").some((r) => r.name.includes("/api/depth?sample=lambda"))`)
	require.NoError(t, tab.Click("#depth-whole"))
	wait(t, tab, `document.getElementById("depth-range").textContent === "all 48,502 bases"`)
}
