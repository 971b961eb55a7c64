package soak

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// panel is a diagram of one quantity over time, with a line for each of its names.
type panel struct {
	title string
	names []string
	// at is the values at a sample.
	at func(i int) []float64
}

// window is over how long rates are taken.
const window = time.Minute

// panels are the diagrams of a series, from top to bottom.
func (s Series) panels() []panel {
	each := func(of func(Process) float64) func(int) []float64 {
		return func(i int) []float64 {
			var values []float64
			for _, p := range s.Samples[i].Processes {
				values = append(values, of(p))
			}
			return values
		}
	}
	return []panel{
		{"resident memory without mapped files, MiB", s.Processes, each(func(p Process) float64 { return float64(p.Resident) / (1 << 20) })},
		{"open descriptors", s.Processes, each(func(p Process) float64 { return float64(p.Descriptors) })},
		{"records not yet committed, all groups", []string{"lag"}, func(i int) []float64 { return []float64{float64(s.Samples[i].Lag)} }},
		{"basecalled, thousand samples/s", []string{"samples"}, func(i int) []float64 {
			now, before := s.Samples[i], s.Samples[s.ago(i)]
			return []float64{(now.Called - before.Called) / (now.At - before.At).Seconds() / 1e3}
		}},
	}
}

// ago is the sample a window before i, the first one if there is none.
func (s Series) ago(i int) int {
	j := i
	for j > 0 && s.Samples[i].At-s.Samples[j].At < window {
		j--
	}
	return j
}

// The picture's measures, in pixels.
const (
	width, height = 900, 130 // of a diagram
	left, right   = 60, 20
	gap           = 50 // above each diagram
	foot          = 40
)

// colours distinguish the lines, also for the colour-blind (Okabe and Ito, 2008).
var colours = [...]string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"}

// Draw writes the series as a picture in SVG 1.1.
func (s Series) Draw(w io.Writer, title string) error {
	if len(s.Samples) < 2 {
		return fmt.Errorf("drawing a soak: %d measurements are too few", len(s.Samples))
	}
	panels := s.panels()
	var b strings.Builder
	total := gap + len(panels)*(height+gap) + foot
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", left+width+right, total)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	fmt.Fprintf(&b, `<text x="%d" y="24" font-size="15">%s</text>`+"\n", left, escaped(title))
	for k, p := range panels {
		s.diagram(&b, p, gap+k*(height+gap)+gap/2)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#555">minutes since signal flows; rates over the last minute</text>`+"\n</svg>\n", left, total-12)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("drawing a soak: %w", err)
	}
	return nil
}

// diagram draws a panel with its upper edge at top.
func (s Series) diagram(b *strings.Builder, p panel, top int) {
	end := s.Samples[len(s.Samples)-1].At
	values := make([][]float64, len(s.Samples))
	highest := 0.0
	for i := range s.Samples {
		values[i] = p.at(max(1, i)) // a rate needs a time to be taken over
		for _, v := range values[i] {
			highest = max(highest, v)
		}
	}
	highest = ceiling(highest)
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", left, top-6, escaped(p.title))
	for _, share := range []float64{0, 0.5, 1} {
		y := top + height - int(share*height)
		fmt.Fprintf(b, `<path d="M%d %dH%d" stroke="#ccc"/><text x="%d" y="%d" text-anchor="end" fill="#555">%s</text>`+"\n",
			left, y, left+width, left-6, y+4, short(share*highest))
	}
	for i := range 7 {
		at := end / 6 * time.Duration(i)
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle" fill="#555">%s</text>`+"\n", left+width*i/6, top+height+15, short(at.Minutes()))
	}
	for line, name := range p.names {
		colour := colours[line%len(colours)]
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end" fill="%s">%s</text>`+"\n", left+width-110*(len(p.names)-1-line), top-6, colour, escaped(name))
		var path strings.Builder
		pen := "M"
		for i, x := range s.Samples {
			fmt.Fprintf(&path, "%s%.1f %.1f", pen, left+width*float64(x.At)/float64(end), float64(top)+height*(1-values[i][line]/highest))
			pen = "L"
		}
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.3"/>`+"\n", path.String(), colour)
	}
}

// ceiling is the next of 1, 2, 5, 10, … at or above v.
func ceiling(v float64) float64 {
	if v <= 0 {
		return 1
	}
	base := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*base {
			return m * base
		}
	}
	return 10 * base
}

// short is a number with at most one decimal.
func short(v float64) string { return strconv.FormatFloat(math.Round(10*v)/10, 'f', -1, 64) }

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder takes everything
	return b.String()
}
