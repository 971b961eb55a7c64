package infer

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/porestream/porestream/basecall/scores"
)

// simulation describes a device that computes nothing: it takes a fixed time for
// a batch and gives back scores that were recorded. It is for load tests, where
// everything but the device is to be measured.
type simulation struct {
	latency time.Duration
	batch   int
	scores  string // file
}

// simulatedPrefix begins the names of simulated devices.
const simulatedPrefix = "sim:"

// Simulated reports whether a choice of devices, see [Options], is a simulated one.
func Simulated(device string) bool { return strings.HasPrefix(device, simulatedPrefix) }

// parseSimulation parses "sim:LATENCY:BATCH:FILE".
func parseSimulation(text string) (simulation, error) {
	wrong := func(what string) (simulation, error) {
		return simulation{}, fmt.Errorf("device %q: %s; a simulated device is sim:LATENCY:BATCH:FILE, such as sim:100ms:32:scores.pssc with a file of pore basecall --record-scores", text, what)
	}
	fields := strings.SplitN(strings.TrimPrefix(text, simulatedPrefix), ":", 3)
	if len(fields) < 3 || fields[2] == "" {
		return wrong("latency, batch or file is missing")
	}
	latency, err := time.ParseDuration(fields[0])
	if err != nil || latency <= 0 {
		return wrong(fmt.Sprintf("%q is not a latency", fields[0]))
	}
	batch, err := strconv.Atoi(fields[1])
	if err != nil || batch < 1 || batch > 4096 {
		return wrong(fmt.Sprintf("%q is not a number of windows from 1 to 4096", fields[1]))
	}
	return simulation{latency: latency, batch: batch, scores: fields[2]}, nil
}

// openSimulated opens a simulated device, which computes one batch at a time.
func openSimulated(net Network, opts Options, logger *slog.Logger) (*Runners, error) {
	if opts.Record != "" {
		return nil, errors.New("what a simulated device gives back can't be recorded: it was already")
	}
	sim, err := parseSimulation(opts.Device)
	if err != nil {
		return nil, err
	}
	recorded, err := openScores(sim.scores, net)
	if err != nil {
		return nil, err
	}
	logger.Warn("the device is simulated: for load tests only", slog.String("network", net.Name), slog.Duration("latency", sim.latency),
		slog.Int("batch", sim.batch), slog.Int("windows", len(recorded.offsets)))
	r := &Runners{Places: max(1, opts.PlacesCUDA), Batch: sim.batch, Unit: recorded.unit, name: fmt.Sprintf("%s%v:%d", simulatedPrefix, sim.latency, sim.batch)}
	open := new(atomic.Int32)
	open.Store(int32(r.Places))
	for range r.Places {
		r.Runners = append(r.Runners, &simulatedRunner{
			net: net, latency: sim.latency, scores: recorded, open: open,
			in: make([]float32, sim.batch*net.Samples), out: make([]float32, sim.batch*net.Frames*net.Classes),
		})
	}
	return r, nil
}

// simulatedRunner is a Runner that computes nothing: one of the places for batches of a device.
type simulatedRunner struct {
	open    *atomic.Int32 // places
	net     Network
	latency time.Duration
	scores  *scoresReader
	in, out []float32
	buf     []byte
	length  int // samples of the last Run's windows
}

// Input implements Runner.
func (s *simulatedRunner) Input(row int) []float32 {
	return s.in[row*s.net.Samples : (row+1)*s.net.Samples]
}

// Count implements Runner.
func (s *simulatedRunner) Count(int, int) {}

// Run implements Runner. It takes the latency, of shorter windows the share that they are of whole ones,
// whatever else there is to do, as long as that is less.
func (s *simulatedRunner) Run(rows, samples int) (int, error) {
	s.length = samples
	timer := time.NewTimer(s.latency * time.Duration(samples) / time.Duration(s.net.Samples))
	defer timer.Stop()
	for row := range rows {
		var err error
		if s.buf, err = s.scores.find(s.Input(row)[:samples], s.row(row), s.buf); err != nil {
			return 0, err
		}
	}
	<-timer.C
	return rows, nil
}

func (s *simulatedRunner) row(row int) []float32 {
	n := s.net.Frames * s.net.Classes
	return s.out[row*n:][:s.net.framesOf(s.length)*s.net.Classes]
}

// Scores implements Runner.
func (s *simulatedRunner) Scores(row int) scores.Window {
	return scores.OfFloats(s.row(row), s.net.Classes)
}

// Close implements Runner.
func (s *simulatedRunner) Close() error {
	if s.open.Add(-1) > 0 {
		return nil
	}
	return s.scores.file.Close()
}
