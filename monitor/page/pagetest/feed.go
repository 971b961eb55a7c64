// Package pagetest plays scenes to the live page, for tests and for viewing it: a run
// like the demo's, a flow cell of 3,000 channels with 5,000 variants, and one in which
// things go wrong. Scenes are the same every time.
package pagetest

import (
	"cmp"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"html"
	"io/fs"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/porestream/porestream/monitor"
	"github.com/porestream/porestream/stream"
)

// Scene is all that a page shows.
type Scene struct {
	Hello    monitor.Hello
	Summary  monitor.Summary // with the whole history
	Channels monitor.Channels
	Depth    monitor.Depth
	Variants []monitor.Variant
	Alerts   []monitor.Alert
	// Diplotypes are named alleles; nil: the server has no definitions.
	Diplotypes []monitor.Diplotype
	Problems   []monitor.Problem
	// Methylation are records of that topic, of [stream.NewTopics] without prefix.
	Methylation []stream.Record
	// Detail answers for a variant; nil: no pileup, in words.
	Detail func(monitor.Variant) monitor.Detail
}

// Feed serves a scene by the contract of ../../API.md, and its changes as the test
// makes them. It has no clock: an event is sent when a method says so.
type Feed struct {
	assets fs.FS
	token  string

	mu    sync.Mutex
	scene Scene
	// counted has the modified bases, and is at a time that is later with every change.
	counted   *monitor.View
	countedAt time.Time
	pages     map[chan message]struct{}
}

type message struct {
	event string
	data  []byte
}

// NewFeed serves assets (page.Assets()) and a scene to every client with the token.
func NewFeed(assets fs.FS, token string, scene Scene) *Feed {
	f := &Feed{
		assets: assets, token: token, scene: scene, pages: make(map[chan message]struct{}),
		counted: monitor.NewView(stream.NewTopics(""), monitor.Limits{}), countedAt: Now(),
	}
	f.Methylation(scene.Methylation...)
	return f
}

// Summary changes the summary and sends it, with the last point of the history.
func (f *Feed) Summary(change func(*monitor.Summary)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.scene.Summary
	change(s)
	h := &s.History
	h.Samples = append(h.Samples, s.Rates.SamplesPerSecond)
	h.Sequencer = append(h.Sequencer, s.Rates.SequencerSamplesPerSecond)
	h.Bases = append(h.Bases, s.Rates.BasesPerSecond)
	h.Reads = append(h.Reads, s.Rates.ReadsPerSecond)
	last := *s
	for _, points := range []*[]float64{&h.Samples, &h.Sequencer, &h.Bases, &h.Reads} {
		*points = slices.Clone((*points)[max(0, len(*points)-180):])
	}
	last.History = monitor.History{
		SecondsPerPoint: h.SecondsPerPoint, Samples: h.Samples[len(h.Samples)-1:], Sequencer: h.Sequencer[len(h.Sequencer)-1:],
		Bases: h.Bases[len(h.Bases)-1:], Reads: h.Reads[len(h.Reads)-1:],
	}
	f.send(monitor.EventSummary, last)
}

// Channels replaces the flow cells.
func (f *Feed) Channels(c monitor.Channels) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.scene.Channels = c
	f.send(monitor.EventChannels, c)
}

// Depth replaces the depth of contigs.
func (f *Feed) Depth(d monitor.Depth) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.scene.Depth = d
	f.send(monitor.EventDepth, d)
}

// Methylation adds records of that topic, and sends what changes.
func (f *Feed) Methylation(records ...stream.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, rec := range records {
		if err := f.counted.Add(rec); err != nil {
			panic(err) // the test's own
		}
	}
	f.countedAt = f.countedAt.Add(time.Minute)
	f.sendTracks(f.counted.Changes(f.countedAt), func(m message) {
		for page := range f.pages {
			f.put(page, m)
		}
	})
}

// sendTracks gives on those events that are about modified bases.
func (f *Feed) sendTracks(events []monitor.Event, to func(message)) {
	for _, e := range events {
		if e.Name == monitor.EventMethylation {
			to(message{e.Name, e.Data})
		}
	}
}

// Variants adds rows or puts them in place of those with their ids.
func (f *Feed) Variants(rows ...monitor.Variant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := make(map[string]int, len(f.scene.Variants))
	for i, v := range f.scene.Variants {
		at[v.ID] = i
	}
	for _, row := range rows {
		if i, known := at[row.ID]; known {
			f.scene.Variants[i] = row
		} else {
			f.scene.Variants = append(f.scene.Variants, row)
		}
	}
	for chunk := range slices.Chunk(rows, 500) {
		f.send(monitor.EventVariants, monitor.Variants{Upsert: chunk, Remove: []string{}})
	}
}

// Alerts adds alerts or puts them in place of those with their ids.
func (f *Feed) Alerts(alerts ...monitor.Alert) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range alerts {
		f.scene.Alerts = append(slices.DeleteFunc(f.scene.Alerts, func(b monitor.Alert) bool { return a.ID == b.ID }), a)
	}
	f.send(monitor.EventAlerts, monitor.Alerts{Upsert: alerts})
}

// Diplotypes adds rows or puts them in place of those with their ids.
func (f *Feed) Diplotypes(rows ...monitor.Diplotype) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, row := range rows {
		f.scene.Diplotypes = append(slices.DeleteFunc(f.scene.Diplotypes, func(d monitor.Diplotype) bool { return row.ID == d.ID }), row)
	}
	f.send(monitor.EventDiplotypes, monitor.Diplotypes{Upsert: rows})
}

// Problems adds problems, and takes away those that are named.
func (f *Feed) Problems(upsert []monitor.Problem, remove ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	gone := func(p monitor.Problem) bool {
		return slices.Contains(remove, p.ID) || slices.ContainsFunc(upsert, func(q monitor.Problem) bool { return p.ID == q.ID })
	}
	f.scene.Problems = append(slices.DeleteFunc(f.scene.Problems, gone), upsert...)
	f.send(monitor.EventProblems, monitor.Problems{Upsert: upsert, Remove: remove})
}

// Step is a second of a run: a summary, other states of all channels, and new revisions
// of a part of the variants.
func (f *Feed) Step(step int) {
	var now time.Time
	f.Summary(func(s *monitor.Summary) {
		s.Now = s.Now.Add(time.Second)
		now = s.Now
		x := 1 + 0.05*math.Sin(float64(step))
		s.Rates.SamplesPerSecond *= x
		s.Rates.SamplesPerSecond = min(s.Rates.SamplesPerSecond, 1.2*s.Rates.SequencerSamplesPerSecond)
	})
	f.mu.Lock()
	cells := slices.Clone(f.scene.Channels.FlowCells)
	f.mu.Unlock()
	for i, c := range cells {
		next := Channels(c.Layout, step+i)
		cells[i].States, cells[i].Updated = next.States, now
	}
	if len(cells) > 0 {
		f.Channels(monitor.Channels{FlowCells: cells})
	}
	if rows := f.Rows(); len(rows) > 0 {
		f.Variants(Revise(rows, max(1, len(rows)/25), step, now)...)
	}
}

// Rows is a copy of the scene's variants.
func (f *Feed) Rows() []monitor.Variant {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.scene.Variants)
}

// send must be called with the lock held.
func (f *Feed) send(event string, data any) {
	m := encode(event, data)
	for page := range f.pages {
		f.put(page, m)
	}
}

// put must be called with the lock held.
func (f *Feed) put(page chan message, m message) {
	select {
	case page <- m:
	default: // a page that reads nothing; the tests' pages have space for all
		close(page)
		delete(f.pages, page)
	}
}

func encode(event string, data any) message {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // the types are ours
	}
	return message{event, text}
}

// ServeHTTP serves the page, its assets and its interface.
func (f *Feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	switch {
	case r.Method != http.MethodGet:
		http.Error(w, `{"error": "the page only shows"}`, http.StatusMethodNotAllowed)
	case strings.HasPrefix(r.URL.Path, "/assets/"):
		http.StripPrefix("/assets/", http.FileServerFS(f.assets)).ServeHTTP(w, r)
	case r.URL.Path == "/" && r.URL.Query().Has("token"):
		f.login(w, r, r.URL.Query().Get("token"))
	case !f.allowed(r):
		f.refuse(w, r)
	case r.URL.Path == "/":
		http.ServeFileFS(w, r, f.assets, "index.html")
	case r.URL.Path == "/api/events":
		f.events(w, r)
	case r.URL.Path == "/api/depth":
		f.depth(w, r)
	case r.URL.Path == "/api/methylation":
		f.methylation(w, r)
	case r.URL.Path == "/api/variant":
		f.variant(w, r)
	default:
		http.NotFound(w, r)
	}
}

const cookie = "porestream_page"

func (f *Feed) right(token string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return subtle.ConstantTimeCompare([]byte(token), []byte(f.token)) == 1
}

func (f *Feed) allowed(r *http.Request) bool {
	c, err := r.Cookie(cookie)
	return err == nil && f.right(c.Value)
}

func (f *Feed) login(w http.ResponseWriter, r *http.Request, token string) {
	if !f.right(token) {
		f.refuse(w, r)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookie, Value: token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (f *Feed) refuse(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		refuse(w, http.StatusUnauthorized, "the page's token is missing or wrong")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusUnauthorized)
	fmt.Fprintf(w, "<!doctype html><html lang=en><title>%s</title><main><h1>Token</h1><form method=get action=/><label>Token <input name=token></label><button>Open</button></form></main>", html.EscapeString("Porestream"))
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": why}) // no client is left to report it to
}

func (f *Feed) events(w http.ResponseWriter, r *http.Request) {
	page := make(chan message, 4096)
	f.enter(page)
	defer f.leave(page)
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	for {
		select {
		case <-r.Context().Done():
			return
		case m, open := <-page:
			if !open {
				return
			}
			if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", m.event, m.data); err != nil {
				return
			}
			if len(page) == 0 {
				if err := flush.Flush(); err != nil {
					return
				}
			}
		}
	}
}

// enter sends a page all that there is and registers it for what follows, in one step.
func (f *Feed) enter(page chan message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.scene
	first := []message{
		encode(monitor.EventHello, s.Hello), encode(monitor.EventSummary, s.Summary),
		encode(monitor.EventChannels, s.Channels), encode(monitor.EventDepth, s.Depth),
		encode(monitor.EventVariants, monitor.Variants{Reset: true, Upsert: []monitor.Variant{}, Remove: []string{}}),
	}
	f.sendTracks(f.counted.Whole(f.countedAt), func(m message) { first = append(first, m) })
	for chunk := range slices.Chunk(s.Variants, 500) {
		first = append(first, encode(monitor.EventVariants, monitor.Variants{Upsert: chunk, Remove: []string{}}))
	}
	first = append(first, encode(monitor.EventAlerts, monitor.Alerts{Upsert: s.Alerts}), encode(monitor.EventDiplotypes, monitor.Diplotypes{Upsert: s.Diplotypes}),
		encode(monitor.EventProblems, monitor.Problems{Upsert: s.Problems, Remove: []string{}}))
	for _, m := range first {
		page <- m
	}
	f.pages[page] = struct{}{}
}

func (f *Feed) leave(page chan message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pages, page)
}

func (f *Feed) depth(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.scene.Depth.Contigs, func(c monitor.ContigDepth) bool {
		return c.Sample == q.Get("sample") && c.Name == q.Get("contig")
	})
	from, errFrom := strconv.Atoi(q.Get("from"))
	to, errTo := strconv.Atoi(q.Get("to"))
	if i < 0 || errFrom != nil || errTo != nil || from < 0 || to <= from {
		refuse(w, http.StatusBadRequest, "no such stretch")
		return
	}
	c := f.scene.Depth.Contigs[i]
	bin := 10
	zoom := monitor.DepthZoom{Sample: c.Sample, Contig: c.Name, To: min(to, c.Length), DepthBins: monitor.DepthBins{From: from / bin * bin, Bin: bin}}
	for at := zoom.From; at < zoom.To; at += bin {
		zoom.Depths = append(zoom.Depths, c.Depths[min(at/c.Bin, len(c.Depths)-1)]+float64(at/bin%3))
	}
	answer(w, zoom)
}

func (f *Feed) methylation(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var numbers [3]int
	for i, name := range [...]string{"from", "to", "bins"} {
		n, err := strconv.Atoi(q.Get(name))
		if err != nil || n < 0 {
			refuse(w, http.StatusBadRequest, "no such stretch")
			return
		}
		numbers[i] = n
	}
	haplotype, err := strconv.Atoi(cmp.Or(q.Get("haplotype"), "0"))
	if err != nil {
		refuse(w, http.StatusBadRequest, "no such haplotype")
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	zoom, err := f.counted.MethylationZoom(monitor.MethylationStretch{
		Sample: q.Get("sample"), Contig: q.Get("contig"), Code: q.Get("code"), Haplotype: haplotype, From: numbers[0], To: numbers[1], Bins: numbers[2],
	})
	if err != nil {
		refuse(w, http.StatusNotFound, err.Error())
		return
	}
	answer(w, zoom)
}

func (f *Feed) variant(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("id")
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.scene.Variants, func(v monitor.Variant) bool { return v.ID == id })
	if i < 0 {
		refuse(w, http.StatusNotFound, "no variant has this id")
		return
	}
	row := f.scene.Variants[i]
	if f.scene.Detail == nil {
		answer(w, monitor.Detail{Row: row, Variant: json.RawMessage(`{}`), Revisions: []monitor.Revision{}, PileupError: "The process that holds this region does not answer."})
		return
	}
	detail := f.scene.Detail(row)
	detail.Near = f.counted.SitesNear(row.Sample, row.Contig, row.Pos)
	answer(w, detail)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // no client is left to report it to
}
