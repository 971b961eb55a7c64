package signal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// Info says what is in a recording file.
type Info struct {
	Path        string    `json:"path"`
	Format      string    `json:"format"`
	Bytes       int64     `json:"bytes"`
	Version     string    `json:"version"`
	Software    string    `json:"software,omitempty"` // that wrote the file; BLOW5 doesn't name it
	Compression string    `json:"compression"`
	Reads       int       `json:"reads"`
	Samples     int64     `json:"samples"`
	Runs        []RunStat `json:"runs"`
}

// RunStat says what a file has of a run.
type RunStat struct {
	ID                string     `json:"id"`
	SampleID          string     `json:"sample_id,omitempty"`
	StartTime         *time.Time `json:"start_time,omitempty"`
	SampleRate        int        `json:"sample_rate_hz"`
	FlowCellID        string     `json:"flow_cell_id,omitempty"`
	FlowCellProduct   string     `json:"flow_cell_product,omitempty"`
	Kit               string     `json:"kit,omitempty"`
	Chemistry         string     `json:"chemistry,omitempty"`
	SequencerPosition string     `json:"sequencer_position,omitempty"`
	Software          string     `json:"software,omitempty"` // that acquired the signal
	PoreTypes         []string   `json:"pore_types,omitempty"`

	Reads    int   `json:"reads"`
	Samples  int64 `json:"samples"`
	Channels int   `json:"channels"`
	// First and Last are when the first read begins and the last one ends, in
	// seconds of the run's clock.
	First float64 `json:"first_seconds"`
	Last  float64 `json:"last_seconds"`
	// N50 is the length in samples such that reads of it and longer hold half of
	// the samples.
	N50 int `json:"read_n50_samples"`
	// EndReasons counts reads by why they ended.
	EndReasons map[string]int `json:"end_reasons"`
}

// Inspect reads the metadata of a file. It holds four bytes for each read.
func Inspect(ctx context.Context, path string) (*Info, error) {
	src, err := openSource(path)
	if err != nil {
		return nil, err
	}
	defer src.close()
	info := &Info{Path: path, Format: src.format()}
	if stat, err := os.Stat(path); err == nil {
		info.Bytes = stat.Size()
	}
	info.Version, info.Software, info.Compression = src.about()
	runs := make(map[*Run]*runCount)
	var order []*runCount
	for n := 0; ; n++ {
		if n%256 == 0 && ctx.Err() != nil {
			return nil, fmt.Errorf("reading %s: %w", path, context.Cause(ctx))
		}
		rd, _, err := src.next(false)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		c, ok := runs[rd.Run]
		if !ok {
			c = newRunCount(rd.Run)
			runs[rd.Run] = c
			order = append(order, c)
		}
		c.add(rd)
		info.Reads++
		info.Samples += int64(rd.NumSamples)
	}
	for _, c := range order {
		info.Runs = append(info.Runs, c.stat())
	}
	return info, nil
}

// runCount collects what a RunStat says.
type runCount struct {
	run      *Run
	out      RunStat
	channels map[uint32]struct{}
	pores    map[string]struct{}
	lengths  []uint32
	end      uint64 // samples
	start    uint64
}

func newRunCount(run *Run) *runCount {
	return &runCount{
		run: run, out: RunStat{EndReasons: make(map[string]int)}, channels: make(map[uint32]struct{}), pores: make(map[string]struct{}),
		start: 1<<64 - 1,
	}
}

func (c *runCount) add(rd *Read) {
	c.out.Reads++
	c.out.Samples += int64(rd.NumSamples)
	c.out.EndReasons[rd.EndReason.String()]++
	c.channels[rd.Channel] = struct{}{}
	if rd.PoreType != "" {
		c.pores[rd.PoreType] = struct{}{}
	}
	c.lengths = append(c.lengths, uint32(min(rd.NumSamples, 1<<32-1)))
	c.start = min(c.start, rd.StartSample)
	c.end = max(c.end, rd.StartSample+uint64(rd.NumSamples))
}

func (c *runCount) stat() RunStat {
	s, r := c.out, c.run
	s.ID, s.SampleID, s.SampleRate, s.FlowCellID, s.FlowCellProduct, s.Kit = r.ID, r.SampleID, r.SampleRate, r.FlowCellID, r.FlowCellProduct, r.Kit
	s.Chemistry, s.SequencerPosition, s.Software = r.Chemistry(), r.SequencerPosition, r.Software
	if !r.StartTime.IsZero() {
		s.StartTime = &r.StartTime
	}
	for p := range c.pores {
		s.PoreTypes = append(s.PoreTypes, p)
	}
	slices.Sort(s.PoreTypes)
	s.Channels = len(c.channels)
	s.First, s.Last = float64(c.start)/float64(r.SampleRate), float64(c.end)/float64(r.SampleRate)
	s.N50 = n50(c.lengths)
	return s
}

// n50 sorts lengths and returns the one at which half of their sum is reached,
// beginning with the longest.
func n50(lengths []uint32) int {
	slices.Sort(lengths)
	var total, sum int64
	for _, l := range lengths {
		total += int64(l)
	}
	for _, l := range slices.Backward(lengths) {
		if sum += int64(l); 2*sum >= total {
			return int(l)
		}
	}
	return 0
}
