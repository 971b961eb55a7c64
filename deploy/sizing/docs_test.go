package sizing

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the tables in docs/operate/sizing.md")

// What one processor does, for the tables. The first is measured, the second assumed.
const (
	coreRate = 230e3
	gpuRate  = 50e6
)

// example is a row of the table of sites.
type example struct {
	name, processor string
	site            Site
}

func examples() []example {
	laptop := site(16*coreRate, map[string]int{"minion": 1})
	laptop.Replication, laptop.Spare, laptop.Genome, laptop.Retention = 1, 0, 5e6, 2*24*time.Hour
	bench := site(gpuRate, map[string]int{"gridion": 1})
	bench.Replication, bench.Spare = 1, 0
	return []example{
		{"MinION, laptop, bacteria", "16 cores", laptop},
		{"GridION, workstation", "one GPU", bench},
		{"P2", "one GPU", site(gpuRate, map[string]int{"p2": 1})},
		{"P24", "one GPU", site(gpuRate, map[string]int{"p24": 1})},
		{"P48, GPU cluster", "one GPU", site(gpuRate, map[string]int{"p48": 1})},
		{"2 P48, 5 GridION", "one GPU", site(gpuRate, map[string]int{"p48": 2, "gridion": 5})},
	}
}

// A P48 whose flow cells begin twenty minutes apart, each with all channels at first and
// two fifths at the end of its 16 hours.
func day(s *Scaler) Flow {
	p48 := Instruments()[5]
	f := Flow{
		Cells: Runs(p48, 16*time.Hour, 20*time.Minute, 0.4), Partitions: 96, Processors: 22, Rate: gpuRate,
		Pause: 5 * time.Second, Unnoticed: 30 * time.Second, Scaler: s, Length: 34 * time.Hour,
	}
	if s != nil {
		f.Processors = s.Min
	}
	return f
}

var (
	deployedScaler = Manifest(2, 24, 0.7*gpuRate)
	// What KEDA's defaults come to with lag as the only metric.
	lagScaler = Scaler{Min: 2, Max: 24, Lag: 60, Down: 5 * time.Minute}
)

func arithmetic(t *testing.T) string {
	s := site(gpuRate, map[string]int{"p48": 1})
	p, err := Size(s, Figures())
	require.NoError(t, err)
	return "```text\n" + Explain(s, Figures(), p) + "```\n"
}

func sitesTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| site | samples/s, peak | signal | brokers' writes | disk of all brokers | brokers | partitions | processors | memory of each | ingest | spool |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, e := range examples() {
		p, err := Size(e.site, Figures())
		require.NoError(t, err)
		fmt.Fprintf(&b, "| %s | %s | %s/s | %s/s | %s | %d (%s) | %d | %d × %s | %s | %.1f cores, %s | %s |\n",
			e.name, Million(p.Peak), Bytes(p.Signal), Bytes(p.Write), Bytes(p.Disk), p.Brokers, p.BrokersBy, p.Partitions, p.Processors, e.processor,
			Bytes(p.ProcessorMemory), p.IngestCores, Bytes(p.IngestMemory), Bytes(p.Spool))
	}
	return b.String()
}

func simulationTable(t *testing.T) string {
	p48 := Instruments()[5]
	p, err := Size(site(gpuRate, map[string]int{"p48": 1}), Figures())
	require.NoError(t, err)
	full := Flow{
		Cells: Runs(p48, 2*time.Hour, 0, 1), Partitions: p.Partitions, Processors: p.Processors, Rate: gpuRate,
		Pause: 5 * time.Second, Unnoticed: 30 * time.Second, Length: 2 * time.Hour,
	}
	without := func(change func(*Flow)) Flow { f := full; change(&f); return f }
	rows := []struct {
		name string
		flow Flow
	}{
		{fmt.Sprintf("P48, all channels, %d processors as planned", p.Processors), full},
		{"… a processor killed, replaced after 5 minutes", without(func(f *Flow) {
			f.Faults = []Fault{{At: time.Hour, For: 5 * time.Minute, Killed: 1}}
		})},
		{"… a node with four processors lost for 30 minutes", without(func(f *Flow) {
			f.Faults = []Fault{{At: 30 * time.Minute, For: 30 * time.Minute, Killed: 4}}
		})},
		{"… Kafka away for 10 minutes", without(func(f *Flow) {
			f.Faults = []Fault{{At: time.Hour, For: 10 * time.Minute, Kafka: true}}
		})},
		{"… as many partitions as processors, none to spare", without(func(f *Flow) { f.Processors--; f.Partitions = f.Processors })},
		{"… a third of the processors missing", without(func(f *Flow) { f.Processors = f.Processors * 2 / 3 })},
		{"34 hours, flow cells 20 minutes apart, 22 processors", day(nil)},
		{"… scaled as deployed, 2 to 24", day(&deployedScaler)},
		{"… scaled by lag alone, short windows", day(&lagScaler)},
	}
	var b strings.Builder
	b.WriteString("| flow | within 10 s | oldest, at the worst | at the end | fullest partition over mean | spool | scaled | processor hours |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		o := Simulate(r.flow)
		fmt.Fprintf(&b, "| %s | %.1f %% | %v | %v | %.3f | %s | %d | %.0f |\n", r.name, 100*o.Within, o.WorstLag, o.LastLag, o.Uneven,
			Bytes(o.Spool*Figures().SignalBytes), o.Scaled, o.ProcessorHours)
	}
	return b.String()
}

// The tables of docs/operate/sizing.md are what this package says.
func TestSizingIsDocumented(t *testing.T) {
	const path = "../../docs/operate/sizing.md"
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	text := string(data)
	for name, table := range map[string]string{"arithmetic": arithmetic(t), "sites": sitesTable(t), "simulation": simulationTable(t)} {
		begins := "<!-- " + name + ": go test ./deploy/sizing -run Documented -update -->\n"
		before, rest, ok := strings.Cut(text, begins)
		require.True(t, ok, "%s has no table of %s", path, name)
		have, after, ok := strings.Cut(rest, "<!-- end of "+name+" -->\n")
		require.True(t, ok, "%s: the table of %s has no end", path, name)
		if !*update {
			assert.Equal(t, "\n"+table+"\n", have, "run go test ./deploy/sizing -run Documented -update")
		}
		text = before + begins + "\n" + table + "\n<!-- end of " + name + " -->\n" + after
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
}
