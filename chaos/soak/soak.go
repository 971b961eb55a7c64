// Package soak assesses and draws what was seen of the services over a long time: whether they need more and more of anything, and
// whether they keep up. It is pure: the harness takes the samples.
package soak

import (
	"fmt"
	"slices"
	"time"
)

// Series is what was seen, in the order of time.
type Series struct {
	// Processes names the processes whose shares are in every sample, in that order.
	Processes []string
	Samples   []Sample
}

// Sample is one measurement of the services.
type Sample struct {
	At        time.Duration // since signal flows
	Processes []Process
	// Lag is how many records of the input of all groups are not committed yet.
	Lag int64
	// Called is how many samples of signal were basecalled until now.
	Called float64
}

// Process is what a process holds.
type Process struct {
	Resident    int64 // bytes, without mapped files
	Descriptors int
}

// Limits is what counts as flat. Each of them compares the last third of a series with the middle one; the first third is for warming up.
type Limits struct {
	// Growth is the share by which the median of what a process holds may grow, Slack the bytes that are nothing in any case.
	Growth float64
	Slack  int64
	// Descriptors is by how many the most may exceed the most before: connections come and go.
	Descriptors int
	// Lag is by how many records the median may grow.
	Lag int64
}

// DefaultLimits are those of the command line.
func DefaultLimits() Limits {
	return Limits{Growth: 0.05, Slack: 8 << 20, Descriptors: 8, Lag: 20}
}

// minSamples is how many samples a third must have for an assessment.
const minSamples = 5

// Check says what grew, one line each; nothing if all is flat. A series that is too short to assess is an error.
func (s Series) Check(l Limits) ([]string, error) {
	n := len(s.Samples)
	if n < 3*minSamples {
		return nil, fmt.Errorf("assessing a soak: %d measurements are too few, want %d", n, 3*minSamples)
	}
	before, after := s.Samples[n/3:2*n/3], s.Samples[2*n/3:]
	var grew []string
	for i, name := range s.Processes {
		resident := func(x Sample) int64 { return x.Processes[i].Resident }
		was, is := median(before, resident), median(after, resident)
		if grown := is - was; grown > l.Slack && float64(grown) > l.Growth*float64(was) {
			grew = append(grew, fmt.Sprintf("%s: resident memory from %d to %d MiB", name, was>>20, is>>20))
		}
		descriptors := func(x Sample) int64 { return int64(x.Processes[i].Descriptors) }
		if was, is := most(before, descriptors), most(after, descriptors); is-was > int64(l.Descriptors) {
			grew = append(grew, fmt.Sprintf("%s: open descriptors from %d to %d", name, was, is))
		}
	}
	lag := func(x Sample) int64 { return x.Lag }
	if was, is := median(before, lag), median(after, lag); is-was > l.Lag {
		grew = append(grew, fmt.Sprintf("lag from %d to %d records", was, is))
	}
	return grew, nil
}

func median(samples []Sample, of func(Sample) int64) int64 {
	values := make([]int64, len(samples))
	for i, x := range samples {
		values[i] = of(x)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func most(samples []Sample, of func(Sample) int64) int64 {
	m := of(samples[0])
	for _, x := range samples {
		m = max(m, of(x))
	}
	return m
}
