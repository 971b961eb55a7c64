package eval

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// Layout of the plot, in pixels.
const (
	plotWidth, plotHeight           = 640, 480
	plotLeft, plotTop, plotSide     = 72, 32, 24
	plotBottom                      = 56
	plotInnerWidth, plotInnerHeight = plotWidth - plotLeft - plotSide, plotHeight - plotTop - plotBottom
)

// plotColours are those of the kinds, in the order of the curves; they differ in lightness too.
var plotColours = []string{"#1b6ca8", "#d9730d"}

// WriteSVG draws precision against recall for SNPs and indels as a picture that needs nothing else. The axes begin a little
// below the figures of all calls.
func (r *Result) WriteSVG(w io.Writer, title string) error {
	low := 1.0
	for _, c := range r.ROC {
		for _, p := range c.Points {
			if p.QueryTP > 0 {
				low = min(low, p.Precision)
			}
		}
		if n := len(c.Points); n > 0 {
			low = min(low, c.Points[n-1].Recall)
		}
	}
	low = max(0, math.Floor((low-0.01)*10)/10)
	x := func(v float64) float64 { return plotLeft + (v-low)/(1-low)*plotInnerWidth }
	y := func(v float64) float64 { return plotTop + plotInnerHeight - (v-low)/(1-low)*plotInnerHeight }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" role="img">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, "<title>%s</title>\n<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", escapeXML(title), plotWidth, plotHeight)
	const ticks = 5
	for i := range ticks + 1 {
		v := low + (1-low)*float64(i)/ticks
		fmt.Fprintf(&b, `<path d="M%.1f %d V%d M%d %.1f H%d" stroke="#ddd" fill="none"/>`+"\n", x(v), plotTop, plotTop+plotInnerHeight, plotLeft, y(v), plotLeft+plotInnerWidth)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%.2f</text><text x="%d" y="%.1f" text-anchor="end">%.2f</text>`+"\n", x(v), plotTop+plotInnerHeight+18, v, plotLeft-8, y(v)+4, v)
	}
	fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#333"/>`+"\n", plotLeft, plotTop, plotInnerWidth, plotInnerHeight)
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">recall</text><text transform="translate(20 %d) rotate(-90)" text-anchor="middle">precision</text>`+"\n", plotLeft+plotInnerWidth/2, plotHeight-14, plotTop+plotInnerHeight/2)
	fmt.Fprintf(&b, `<text x="%d" y="20" font-size="14">%s</text>`+"\n", plotLeft, escapeXML(title))
	fmt.Fprintf(&b, `<clipPath id="inside"><rect x="%d" y="%d" width="%d" height="%d"/></clipPath>`+"\n", plotLeft, plotTop, plotInnerWidth, plotInnerHeight)
	n := 0
	for i := range r.ROC {
		c := &r.ROC[i]
		if c.Kind == "ALL" || len(c.Points) == 0 {
			continue
		}
		colour := plotColours[n%len(plotColours)]
		var line strings.Builder
		for _, p := range c.Points {
			if p.QueryTP == 0 {
				continue // nothing right yet: no precision to speak of
			}
			fmt.Fprintf(&line, "%.2f,%.2f ", x(p.Recall), y(p.Precision))
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2" clip-path="url(#inside)"/>`+"\n", strings.TrimSpace(line.String()), colour)
		last := c.Points[len(c.Points)-1]
		fmt.Fprintf(&b, `<circle cx="%.2f" cy="%.2f" r="4" fill="%s"/>`+"\n", x(last.Recall), y(last.Precision), colour)
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s">%s: F1 %.4f of all calls</text>`+"\n", plotLeft+12, plotTop+plotInnerHeight-30+18*n, colour, c.Kind, last.F1)
		n++
	}
	b.WriteString("</svg>\n")
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing plot: %w", err)
	}
	return nil
}

func escapeXML(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
