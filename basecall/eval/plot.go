package eval

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// Layout of the picture, in pixels: three square panels side by side.
const (
	panelSide               = 260
	panelLeft, panelRight   = 52, 18
	panelTop, panelBottom   = 58, 48
	panelWidth, panelHeight = panelLeft + panelSide + panelRight, panelTop + panelSide + panelBottom
)

// plotStyle follows the reader's choice of a light or a dark page.
const plotStyle = `<style>
.page{fill:#fff}text{fill:#333}.grid{stroke:#ddd;fill:none}.frame{stroke:#777;fill:none}.bar,.point,.cell{fill:#1b6ca8}
.line{stroke:#1b6ca8;stroke-width:2;fill:none}.between{stroke:#1b6ca8;opacity:.5;fill:none}.ideal{stroke:#b45309;stroke-dasharray:5 4;fill:none}
@media(prefers-color-scheme:dark){.page{fill:#14171a}text{fill:#d5d8db}.grid{stroke:#33383d}.frame{stroke:#8a9097}.bar,.point,.cell{fill:#6cb4ee}
.line,.between{stroke:#6cb4ee}.ideal{stroke:#f0a048}}
</style>
`

// panel is one chart with linear axes.
type panel struct {
	b              *strings.Builder
	x0             float64 // of its left border
	low, high      float64 // of the horizontal axis
	bottom, top    float64 // of the vertical one
	across, upward string
}

func (p *panel) x(v float64) float64 { return p.x0 + float64((v-p.low)/(p.high-p.low)*panelSide) }
func (p *panel) y(v float64) float64 {
	return panelTop + panelSide - float64((v-p.bottom)/(p.top-p.bottom)*panelSide)
}

// axes draws frame, grid and numbers.
func (p *panel) axes(title string, xTicks, yTicks []float64) {
	for _, v := range xTicks {
		fmt.Fprintf(p.b, `<path class="grid" d="M%.1f %dV%d"/><text x="%.1f" y="%d" text-anchor="middle">%g</text>`+"\n", p.x(v), panelTop, panelTop+panelSide, p.x(v), panelTop+panelSide+16, v)
	}
	for _, v := range yTicks {
		fmt.Fprintf(p.b, `<path class="grid" d="M%.1f %.1fh%d"/><text x="%.1f" y="%.1f" text-anchor="end">%g</text>`+"\n", p.x0, p.y(v), panelSide, p.x0-6, p.y(v)+4, v)
	}
	fmt.Fprintf(p.b, `<text x="%.1f" y="%d" font-size="13">%s</text>`+"\n", p.x0, panelTop-10, escapeXML(title))
	fmt.Fprintf(p.b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", p.x0+panelSide/2, panelTop+panelSide+36, escapeXML(p.across))
	fmt.Fprintf(p.b, `<text transform="translate(%.1f %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n", p.x0-38, panelTop+panelSide/2, escapeXML(p.upward))
}

func (p *panel) frame() {
	fmt.Fprintf(p.b, `<rect class="frame" x="%.1f" y="%d" width="%d" height="%d"/>`+"\n", p.x0, panelTop, panelSide, panelSide)
}

// WriteSVG draws identities, the calibration of base qualities and called lengths of
// homopolymers as a picture that needs nothing else.
func (r *Report) WriteSVG(w io.Writer, title string) error {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11" role="img">`+"\n", 3*panelWidth, panelHeight)
	fmt.Fprintf(&b, "<title>%s</title>\n%s<rect class=\"page\" width=\"%d\" height=\"%d\"/>\n", escapeXML(title), plotStyle, 3*panelWidth, panelHeight)
	fmt.Fprintf(&b, `<text x="%d" y="22" font-size="15">%s</text>`+"\n", panelLeft, escapeXML(title))
	r.drawIdentities(&b, panelLeft)
	r.drawCalibration(&b, panelLeft+panelWidth)
	r.drawHomopolymers(&b, panelLeft+2*panelWidth)
	b.WriteString("</svg>\n")
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing picture: %w", err)
	}
	return nil
}

func (r *Report) drawIdentities(b *strings.Builder, x0 float64) {
	low, most := 90, int64(1)
	for i, n := range r.Identity.Histogram {
		if n > 0 {
			low, most = min(low, i/10*10), max(most, n)
		}
	}
	p := &panel{b: b, x0: x0, low: float64(low), high: 100, top: float64(most) * 1.05, across: "identity, %", upward: "reads"}
	var xs []float64
	step := 10
	if low >= 80 {
		step = 5
	}
	for v := low; v <= 100; v += step {
		xs = append(xs, float64(v))
	}
	p.axes(fmt.Sprintf("Identity: mean %s, median %s", percent(r.Identity.Mean), percent(r.Identity.Median)), xs, ticks(float64(most)))
	for i, n := range r.Identity.Histogram {
		if n > 0 {
			fmt.Fprintf(b, `<rect class="bar" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%d to %d %%: %d reads</title></rect>`+"\n",
				p.x(float64(i))+0.5, p.y(float64(n)), p.x(float64(i+1))-p.x(float64(i))-1, p.y(0)-p.y(float64(n)), i, i+1, n)
		}
	}
	p.frame()
}

func (r *Report) drawCalibration(b *strings.Builder, x0 float64) {
	high := 30.0
	var bins []QualityBin
	if r.Qualities != nil {
		for _, bin := range r.Qualities.Bins {
			if bin.shown() {
				bins = append(bins, bin)
				high = max(high, math.Ceil(float64(bin.Quality)/10)*10, math.Ceil(bin.Observed/10)*10)
			}
		}
	}
	title := "Base qualities: none"
	if len(bins) > 0 {
		title = "Base qualities: off by " + decimal(r.Qualities.MeanDeviation, 2) + " in the mean"
	}
	p := &panel{b: b, x0: x0, high: high, top: high, across: "predicted Q", upward: "observed Q"}
	p.axes(title, ticks(high), ticks(high))
	fmt.Fprintf(b, `<path class="ideal" d="M%.1f %.1fL%.1f %.1f"/>`+"\n", p.x(0), p.y(0), p.x(high), p.y(high))
	var line []string
	for _, bin := range bins {
		line = append(line, fmt.Sprintf("%.1f %.1f", p.x(float64(bin.Quality)), p.y(bin.Observed)))
	}
	if len(line) > 0 {
		fmt.Fprintf(b, `<path class="line" d="M%s"/>`+"\n", strings.Join(line, "L"))
	}
	for _, bin := range bins {
		x := p.x(float64(bin.Quality))
		fmt.Fprintf(b, `<path class="between" d="M%.1f %.1fV%.1f"/>`+"\n", x, p.y(bin.Between[0]), p.y(min(bin.Between[1], high)))
	}
	for _, bin := range bins {
		fmt.Fprintf(b, `<circle class="point" cx="%.1f" cy="%.1f" r="%.1f"><title>Q%d: observed %.2f, %d bases</title></circle>`+"\n",
			p.x(float64(bin.Quality)), p.y(bin.Observed), 1+float64(math.Log10(float64(bin.Bases))/2), bin.Quality, bin.Observed, bin.Bases)
	}
	p.frame()
}

func (r *Report) drawHomopolymers(b *strings.Builder, x0 float64) {
	const rows, columns = maxRun, maxRun + 3 // called lengths from 0
	p := &panel{b: b, x0: x0, low: -0.5, high: columns - 0.5, bottom: 0.5, top: rows + 0.5, across: "called length", upward: "true length"}
	p.axes("Homopolymers: share of runs by called length", []float64{0, 2, 4, 6, 8, 10, 12}, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	for _, h := range r.Homopolymers {
		if h.Base != "all" || h.Runs == 0 {
			continue
		}
		for called, n := range h.Called[:columns] {
			if n == 0 {
				continue
			}
			share := float64(n) / float64(h.Runs)
			fmt.Fprintf(b, `<rect class="cell" x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill-opacity="%.3f"><title>%d called %d: %.1f %% of %d</title></rect>`+"\n",
				p.x(float64(called)-0.5), p.y(float64(h.Length)+0.5), panelSide/float64(columns), panelSide/float64(rows), share, h.Length, called, 100*share, h.Runs)
		}
	}
	fmt.Fprintf(b, `<path class="ideal" d="M%.1f %.1fL%.1f %.1f"/>`+"\n", p.x(0.5), p.y(0.5), p.x(rows+0.5), p.y(rows+0.5))
	p.frame()
}

// ticks are round numbers from 0 to high, about five.
func ticks(high float64) []float64 {
	step := math.Pow(10, math.Floor(math.Log10(high/4)))
	for _, m := range []float64{1, 2, 5, 10} {
		if high/(m*step) <= 6 {
			step *= m
			break
		}
	}
	step = max(1, step)
	var out []float64
	for v := 0.0; v <= high; v += step {
		out = append(out, v)
	}
	return out
}

func escapeXML(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
