package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/porestream/porestream/chaos/load/sequencer"
	"github.com/porestream/porestream/chaos/load/tally"
	"github.com/porestream/porestream/chaos/soak"
)

// report is what became of a load.
type report struct {
	cfg       *config
	processes []*process
	ingest    *process
	given     sequencer.Report
	decoded   decoded
	lasted    time.Duration // by the clock, while signal flowed
	after     time.Duration // from the last signal to the end of the run at the stage
}

// flat is what counts as memory that doesn't grow. Samples fall anywhere between
// two collections of garbage, and a load is shorter than a soak.
var flat = soak.Limits{Growth: 0.1, Slack: 16 << 20}

// faults says what was not held, nothing if all was.
func (r *report) faults() []string {
	var faults []string
	if r.given.Skipped > 0 {
		faults = append(faults, fmt.Sprintf("%d samples were left out, as ingest was too slow for them", r.given.Skipped))
	}
	faults = append(faults, tally.Differences(r.given.Given, r.decoded.Cell)...)
	series := soak.Series{Processes: []string{r.ingest.name}}
	for _, held := range r.ingest.resident {
		series.Samples = append(series.Samples, soak.Sample{Processes: []soak.Process{{Resident: held}}})
	}
	// A series that is too short to be assessed has no slope either.
	if grew, err := series.Check(flat); err == nil {
		faults = append(faults, grew...)
	}
	return faults
}

// print writes the report for people.
func (r *report) print(w io.Writer) {
	const mib = 1 << 20
	millions := func(n uint64) float64 { return float64(n) / 1e6 }
	given, came := r.given.Given.Samples(), r.decoded.Cell.Samples()
	fmt.Fprintf(w, "%d channels at %d samples/s and pace %g: %.1f M samples/s for %.0f s\n", r.cfg.channels, r.cfg.rate, r.cfg.pace,
		millions(given)/r.lasted.Seconds(), r.lasted.Seconds())
	fmt.Fprintf(w, "given    %9.1f M samples, %.1f M left out, at most %.2f s late\n", millions(given), millions(r.given.Skipped), r.given.Late.Seconds())
	same := 0
	for i, ch := range r.given.Given {
		if ch == r.decoded.Cell[i] {
			same++
		}
	}
	fmt.Fprintf(w, "decoded  %9.1f M samples, the same as given on %d of %d channels\n", millions(came), same, r.cfg.channels)
	fmt.Fprintf(w, "from ingest to stage: median %.2f s, 99 %% within %.2f s, all within %.2f s; all decoded %.1f s after the last signal\n",
		r.decoded.percentile(0.5).Seconds(), r.decoded.percentile(0.99).Seconds(), r.decoded.percentile(1).Seconds(), r.after.Seconds())
	fmt.Fprintf(w, "%-10s %6s %9s %9s %8s\n", "process", "cores", "peak MiB", "heap MiB", "MiB/min")
	total := 0.0
	for _, p := range r.processes {
		total += p.cores()
		heap := fmt.Sprintf("%d-%d", slices.Min(p.resident)/mib, slices.Max(p.resident)/mib)
		fmt.Fprintf(w, "%-10s %6.2f %9.1f %9s %+8.2f\n", p.name, p.cores(), float64(p.peak)/mib, heap, p.slope(sampleEvery)/mib)
	}
	fmt.Fprintf(w, "%-10s %6.2f\n", "all", total)
}
