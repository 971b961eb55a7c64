package page_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/monitor"
	"github.com/porestream/porestream/monitor/ops"
	"github.com/porestream/porestream/monitor/page"
	"github.com/porestream/porestream/monitor/page/pagetest"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// A process is the page's real server with a view of records that the test writes.
type process struct {
	t      *testing.T
	site   *site // only its address
	token  ops.Token
	server *page.Server
	topics stream.Topics
	stop   func()
	second int
}

// reads are those of every place.
type reads struct{}

func (reads) Pileup(_ context.Context, at page.Place) (*monitor.Pileup, error) {
	return &monitor.Pileup{Contig: at.Contig, From: at.Pos - 5, Reference: "ACGTAACGTAC", Rows: []monitor.PileupRow{
		{Read: "r1", Strand: "+", Bases: ".....T.....", MapQ: 60}, {Read: "r2", Strand: "-", Start: 2, Bases: "...T...", MapQ: 60}, {Read: "r3", Strand: "-", Bases: ".-.........", MapQ: 3},
	}}, nil
}

func run(t *testing.T) *process {
	t.Helper()
	p := &process{t: t, site: &site{t: t, address: "127.0.0.1:0"}, token: ops.NewToken(), topics: stream.NewTopics("")}
	p.start()
	t.Cleanup(func() { p.stop() })
	return p
}

func (p *process) start() {
	p.t.Helper()
	listener, err := net.Listen("tcp", p.site.address)
	require.NoError(p.t, err)
	p.site.address = listener.Addr().String()
	p.server = page.New(page.Config{
		Version: "test", Instance: "processor-1", Started: time.Now(), Token: p.token, Eager: true, Local: reads{},
		NewView: func() *monitor.View { return monitor.NewView(p.topics, monitor.Limits{}) },
	})
	web := &http.Server{Handler: p.server.Handler(), ReadHeaderTimeout: 10 * time.Second}
	ctx, cancel := context.WithCancel(p.t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = web.Serve(listener) })
	running.Go(func() { _ = p.server.Run(ctx) })
	p.stop = sync.OnceFunc(func() {
		cancel()
		_ = web.Close()
		running.Wait()
	})
}

func (p *process) add(records ...stream.Record) {
	p.t.Helper()
	p.server.Update(func(v *monitor.View) {
		for _, r := range records {
			require.NoError(p.t, v.Add(r))
		}
	})
}

func (p *process) status(m *streampb.Status) stream.Record {
	p.t.Helper()
	p.second++
	m.Instance, m.Sequence, m.TimeMs = "ingest-1", uint64(p.second), time.Now().UnixMilli()
	value, err := stream.EncodeStatus(m)
	require.NoError(p.t, err)
	return stream.Record{Topic: p.topics.Status, Key: stream.StatusKey(m), Value: value, Time: time.Now()}
}

func (p *process) variant(n int, revision uint64) stream.Record {
	p.t.Helper()
	e := event.Variant{
		SchemaVersion: 1, Run: "run", Sample: "lambda", Revision: revision, Status: "STABLE",
		Allele:     event.Allele{VRSID: fmt.Sprint("ga4gh:VA.", n), Contig: "J02459.1", Pos: int64(n + 10), Ref: "A", Alt: "T"},
		Call:       event.Call{Qual: 30, Genotype: []uint32{1}, Depth: 10, AltForward: 4, AltReverse: 5},
		Annotation: annotate.Annotation{MostSevere: annotate.MostSevere{Term: "missense_variant", Impact: "MODERATE", Gene: "cI"}},
	}
	out, err := e.Record(p.topics.Variants)
	require.NoError(p.t, err)
	return stream.Record{Topic: out.Topic, Key: out.Key, Value: out.Value, Headers: out.Headers, Time: time.Now(), Offset: int64(n)}
}

func (p *process) channels(step int) stream.Record {
	p.t.Helper()
	return p.status(&streampb.Status{Body: &streampb.Status_Channels{Channels: &streampb.ChannelReport{Source: "X1", Run: "run", States: []byte(pagetest.Channels("promethion", step).States), Reads: 7}}})
}

func (p *process) depth() stream.Record {
	p.t.Helper()
	depths := make([]uint32, 485)
	for i := range depths {
		depths[i] = uint32(2000 + i)
	}
	return p.status(&streampb.Status{Body: &streampb.Status_Depth{Depth: &streampb.DepthReport{Sample: "lambda", Contig: "J02459.1", ContigLength: 48500, End: 48500, Bin: 100, Depths: depths}}})
}

// TestServerAndPageUnderstandEachOther shows the page by its real server: 3,000
// channels, depth, 5,000 variants, their reads, and what changes; then the server is
// started anew with another token.
func TestServerAndPageUnderstandEachOther(t *testing.T) {
	const variants = 5000
	p := run(t)
	tab := open(t, desk)

	require.NoError(t, tab.Go("http://"+p.site.address+"/"))
	wait(t, tab, `document.activeElement.id === "token"`)
	press(t, tab, p.token.Secret(), kb.Enter)
	wait(t, tab, `document.body.dataset.feed === "live"`)
	assert.NotContains(t, ask[string](t, tab, `location.href`), "token")
	ask[bool](t, tab, `window.notReloaded = true`)

	fill := func() {
		p.add(p.channels(1), p.depth())
		records := make([]stream.Record, 0, variants)
		for n := range variants {
			records = append(records, p.variant(n, 1))
		}
		p.add(records...)
	}
	fill()
	full := fmt.Sprintf(`document.getElementById("variants-grid").getAttribute("aria-rowcount") === "%d"`, variants+1)
	wait(t, tab, full)
	wait(t, tab, `document.getElementById("flowcell-canvas").ariaLabel.includes("3,000 channels")`)
	wait(t, tab, `document.getElementById("depth-canvas").ariaLabel.includes("mean 224.2 reads")`)
	wait(t, tab, `document.getElementById("keepup").textContent === "–" && !["", "Connecting"].includes(document.getElementById("health-word").textContent)`)

	label := ask[string](t, tab, `document.getElementById("flowcell-canvas").ariaLabel`)
	p.add(p.variant(3, 2), p.channels(2))
	wait(t, tab, `document.querySelector('[data-id="lambda/ga4gh:VA.3"] .c-revision').textContent === "2"`)
	wait(t, tab, fmt.Sprintf(`document.getElementById("flowcell-canvas").ariaLabel !== %q`, label))

	require.NoError(t, tab.Click(`[data-id="lambda/ga4gh:VA.3"]`))
	wait(t, tab, `document.getElementById("detail").open && !document.getElementById("pileup-body").hidden`)
	assert.Contains(t, text(t, tab, "pileup-counts"), "T (the variant)112")
	assert.Contains(t, text(t, tab, "detail-evidence"), "9 of 10 show it (90 %)")
	wait(t, tab, `document.querySelectorAll("#revision-table tbody tr").length === 2`)
	require.NoError(t, tab.Click("#detail-close"))
	ask[bool](t, tab, `(document.getElementById("depth-in").click(), document.getElementById("depth-in").click(), document.getElementById("depth-in").click(), document.getElementById("depth-in").click(), true)`)
	wait(t, tab, `performance.getEntriesByType("resource").some((r) => r.name.includes("/api/depth?") && r.responseStatus === 200)`)

	// Back with the same token, it goes on by itself; with another one it says so.
	p.stop()
	wait(t, tab, `document.body.dataset.feed === "lost"`)
	p.start()
	fill()
	wait(t, tab, `document.body.dataset.feed === "live" && `+full)
	assert.True(t, ask[bool](t, tab, `window.notReloaded`))
	p.stop()
	p.token = ops.NewToken()
	p.start()
	wait(t, tab, `document.getElementById("token-dialog").open`)
	press(t, tab, p.token.Secret(), kb.Enter)
	wait(t, tab, `document.body.dataset.feed === "live" && window.notReloaded === undefined`)

	assert.Empty(t, tab.Messages())
	assert.Empty(t, ask[[]string](t, tab, `window.violations`), "of the Content-Security-Policy")
	for _, address := range tab.Requests() {
		assert.True(t, strings.HasPrefix(address, "http://"+p.site.address+"/"), "asked for %s", address)
	}
}
