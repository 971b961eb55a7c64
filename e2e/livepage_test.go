package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/monitor"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/testenv"
)

const pageToken = "marked-page-token-51c0"

// picture is what a page has been sent.
type picture struct {
	summary  monitor.Summary
	cells    []monitor.FlowCell
	depth    map[string]monitor.ContigDepth
	variants map[string]monitor.Variant
	problems map[string]monitor.Problem
}

// strands reports whether the channels of a flow cell have shown a strand.
func (p *picture) strands() bool {
	return slices.ContainsFunc(p.cells, func(c monitor.FlowCell) bool { return strings.ContainsRune(c.States, monitor.ChannelStrand) })
}

func (p *picture) passed() (n int) {
	for _, v := range p.variants {
		if v.Filter == "PASS" && v.Status != "RETRACTED" {
			n++
		}
	}
	return n
}

func (p *picture) covered() bool {
	for _, c := range p.depth {
		if c.Covered > 0.5 {
			return true
		}
	}
	return false
}

func (p *picture) take(t *testing.T, name, data string) {
	t.Helper()
	read := func(to any) { require.NoError(t, json.Unmarshal([]byte(data), to), name) }
	switch name {
	case monitor.EventHello:
		*p = picture{depth: make(map[string]monitor.ContigDepth), variants: make(map[string]monitor.Variant), problems: make(map[string]monitor.Problem)}
	case monitor.EventSummary:
		p.summary = monitor.Summary{}
		read(&p.summary)
	case monitor.EventChannels:
		var c monitor.Channels
		read(&c)
		p.cells = c.FlowCells
	case monitor.EventDepth:
		var d monitor.Depth
		read(&d)
		for _, c := range d.Contigs {
			p.depth[c.Sample+"/"+c.Name] = c
		}
	case monitor.EventVariants:
		var v monitor.Variants
		read(&v)
		for _, id := range v.Remove {
			delete(p.variants, id)
		}
		for _, row := range v.Upsert {
			p.variants[row.ID] = row
		}
	case monitor.EventProblems:
		var all monitor.Problems
		read(&all)
		for _, id := range all.Remove {
			delete(p.problems, id)
		}
		for _, problem := range all.Upsert {
			p.problems[problem.ID] = problem
		}
	}
}

func askPage(ctx context.Context, t *testing.T, addr, path string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+pageToken)
	for {
		resp, err := http.DefaultClient.Do(req)
		if err == nil && (resp.StatusCode != http.StatusNotFound || path != "/api/events") {
			return resp
		}
		if err == nil {
			resp.Body.Close() // pore run listens before it has loaded what the page needs
		}
		select {
		case <-ctx.Done():
			require.NoError(t, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// watchPage opens a page and reads it until fn is content.
func watchPage(ctx context.Context, t *testing.T, addr, what string, fn func(p *picture) bool) *picture {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 8*time.Minute)
	defer cancel()
	resp := askPage(ctx, t, addr, "/api/events")
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 64<<20)
	p, name := new(picture), ""
	for lines.Scan() {
		if event, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			name = event
		} else if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if p.take(t, name, data); fn(p) {
				return p
			}
		}
	}
	require.Fail(t, "the page has ended", "waiting for %s: %v; it had %d variants, %v", what, context.Cause(ctx), len(p.variants), p.problems)
	return nil
}

func pageTokenFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.token")
	require.NoError(t, os.WriteFile(path, []byte(pageToken+"\n"), 0o600))
	return path
}

// TestPageOfARun reads the page of pore run while it runs: the page shows the flow cell,
// depth and variants, and the results are those of a run whose page nobody opened.
func TestPageOfARun(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the pipeline")
	}
	t.Parallel()
	want := undisturbed(t)
	addr, out := freeAddress(t), t.TempDir()
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "pore"), "run", "--ref", lambda("reference.fa"), "--gff", lambda("genes.gff3"), "--out", out,
		"--device", recordedNetwork(t, "200ms:4"), "--listen", addr, "--page-token-file", pageTokenFile(t), lambdaReads(t))
	log := new(testenv.Log)
	cmd.Stderr = log
	require.NoError(t, cmd.Start())
	p := watchPage(t.Context(), t, addr, "a picture of the run", func(p *picture) bool {
		return len(p.cells) > 0 && p.covered() && p.passed() > 0 && p.summary.Totals.Reads > 0 && p.summary.Rates.SamplesPerSecond > 0
	})
	require.Equal(t, "minion", p.cells[0].Layout)
	require.Len(t, p.cells[0].States, 512)
	require.Equal(t, lambdaRun, p.summary.Runs[0].ID)
	require.NoError(t, cmd.Wait(), log)
	require.Equal(t, string(want), string(readFile(t, out, "variants.vcf")))
	require.Contains(t, log.String(), "live page: http://"+addr+"/ ")
	require.NotContains(t, log.String(), pageToken)
}

// TestPageOfServices has two processors and kills one: the page of the other keeps the
// whole picture, reports the loss, and shows the end of the run and the reads at a
// variant, whichever processor holds them.
func TestPageOfServices(t *testing.T) {
	t.Parallel()
	device := recordedNetwork(t, "1ms:32")
	onBroker(t, func(t *testing.T, addr string) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		client := connect(ctx, t, addr)
		require.NoError(t, client.EnsureTopics(t.Context(), stream.NewTopics("").Settings(3), 1))
		token, shown := pageTokenFile(t), freeAddress(t)
		processor := func(listen, stages string) *service {
			return start(t, cancel, "processor", "--brokers", addr, "--ref", lambda("reference.fa"), "--gff", lambda("genes.gff3"),
				"--stages", stages, "--device", device, "--listen", listen, "--page-token-file", token)
		}
		ingest := start(t, cancel, "ingest", "--brokers", addr, "--listen", "127.0.0.1:0", "--pace", "40", lambdaReads(t))
		first := processor("127.0.0.1:0", "basecall,variant")
		page := processor(shown, "annotate")
		watchPage(ctx, t, shown, "strands, depth and a variant", func(p *picture) bool { return p.strands() && p.covered() && len(p.variants) > 0 })
		require.NoError(t, first.cmd.Process.Kill())
		<-first.exited
		watchPage(ctx, t, shown, "the loss", func(p *picture) bool {
			return slices.ContainsFunc(p.summary.Processes, func(up monitor.ProcessUp) bool { return up.State == "silent" }) && p.summary.Health.State == monitor.HealthError
		})
		second := processor("127.0.0.1:0", "basecall,variant")
		ingest.ended(t)
		p := watchPage(ctx, t, shown, "the end of the run", func(p *picture) bool {
			return len(p.summary.Runs) == 1 && p.summary.Runs[0].State == "ended" && p.passed() >= len(lambdaSNPs) && p.covered()
		})
		kinds := make(map[string]int)
		for _, up := range p.summary.Processes {
			require.NotEmpty(t, up.Stages)
			kinds[up.Kind+" "+up.State]++
		}
		require.Equal(t, 2, kinds["processor up"], "%v", kinds)
		require.Len(t, p.cells, 1)
		for id, v := range p.variants {
			if v.Filter != "PASS" {
				continue
			}
			resp := askPage(ctx, t, shown, "/api/variant?id="+url.QueryEscape(id))
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			require.NoError(t, err)
			var d monitor.Detail
			require.NoError(t, json.Unmarshal(body, &d))
			require.NotNil(t, d.Pileup, d.PileupError)
			alt := 0
			for _, row := range d.Pileup.Rows {
				if at := int(v.Pos-d.Pileup.From) - row.Start; at >= 0 && at < len(row.Bases) && string(row.Bases[at]) == v.Alt {
					alt++
				}
			}
			require.Positive(t, alt, "%s: the reads show the allele", id)
			require.NotEmpty(t, d.Revisions)
		}
		second.stop(t)
		page.stop(t)
		for _, s := range []*service{ingest, first, second, page} {
			require.NotContains(t, fmt.Sprint(s.stderr), pageToken, s.name)
		}
	})
}
