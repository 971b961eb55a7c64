package grafana

import (
	"encoding/json"
	"fmt"
)

// Dashboard is one page.
type Dashboard struct {
	UID         string // stable: addresses of the page contain it
	Title       string
	Description string
	Variables   []Variable // besides the data source
	Rows        []Row
}

// Variable is chosen at the top of a page, of the values that a query of labels
// gives: several, or all. Queries match it as a regular expression, "$name".
type Variable struct {
	Name, Label, Query string
}

// Row is a headed group of panels of equal height, laid out from the left.
type Row struct {
	Title  string
	Height int // in Grafana's grid units, 30 pixels each
	Panels []Panel
}

// Kind is how a panel draws.
type Kind string

// The kinds in use.
const (
	Stat  Kind = "stat"       // the newest value, big
	Lines Kind = "timeseries" // over time
	Bars  Kind = "bars"       // over time, stacked, for counts per interval
	Heat  Kind = "heatmap"    // a histogram's classic buckets over time
)

// Panel is one drawing.
type Panel struct {
	Kind        Kind
	Title       string
	Description string // what it shows and how to read it
	Width       int    // of 24
	Unit        string // Grafana's unit id
	Min         *float64
	Max         *float64
	Steps       []Step // colours by value, rising; none: Grafana's palette
	Queries     []Query
	// Needs is what there must be for the queries to have data, besides a run that
	// the programs work on; empty: nothing.
	Needs string
}

// Step colours the values from From up.
type Step struct {
	From  float64
	Color string
}

// Query is one PromQL expression. It may use $__rate_interval and, where it is
// Instant, $__range.
type Query struct {
	Expr    string
	Legend  string // {{label}} stands for a label's value
	Instant bool   // one value for the time shown instead of one per step
}

// File is the name of the dashboard's file.
func (d Dashboard) File() string { return d.UID[len(uidPrefix):] + ".json" }

// uidPrefix keeps the pages apart from others on the same Grafana.
const uidPrefix = "porestream-"

// tag is on all pages: they link to each other by it.
const tag = "porestream"

const (
	gridWidth = 24
	// schemaVersion is that of the oldest Grafana that can read what is written
	// here; newer ones migrate it.
	schemaVersion = 39
)

// JSON renders the dashboard as Grafana reads it.
func (d Dashboard) JSON() ([]byte, error) {
	type object = map[string]any
	datasource := object{"type": "prometheus", "uid": "${datasource}"}
	variables := []object{{
		"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
		"current": object{}, "hide": 0, "refresh": 1,
	}}
	for _, v := range d.Variables {
		variables = append(variables, object{
			"name": v.Name, "label": v.Label, "type": "query", "datasource": datasource,
			"query": object{"query": v.Query, "refId": v.Name}, "definition": v.Query,
			// Whatever has no such label is part of all.
			"multi": true, "includeAll": true, "allValue": ".*", "current": object{"text": "All", "value": "$__all"},
			"hide": 0, "refresh": 2, "sort": 1,
		})
	}
	var panels []object
	y := 0
	for _, row := range d.Rows {
		panels = append(panels, object{
			"id": len(panels) + 1, "type": "row", "title": row.Title, "collapsed": false, "panels": []object{},
			"gridPos": object{"x": 0, "y": y, "w": gridWidth, "h": 1},
		})
		y++
		x := 0
		for _, p := range row.Panels {
			if x+p.Width > gridWidth {
				x, y = 0, y+row.Height
			}
			panel := p.json(datasource)
			panel["id"] = len(panels) + 1
			panel["gridPos"] = object{"x": x, "y": y, "w": p.Width, "h": row.Height}
			panels = append(panels, panel)
			x += p.Width
		}
		y += row.Height
	}
	out, err := json.MarshalIndent(object{
		"uid": d.UID, "title": d.Title, "description": d.Description, "tags": []string{tag},
		"schemaVersion": schemaVersion, "version": 1, "editable": false, "graphTooltip": 1,
		"timezone": "browser", "refresh": "5s", "time": object{"from": "now-15m", "to": "now"},
		"annotations": object{"list": []object{}},
		"templating":  object{"list": variables},
		"links": []object{{
			"title": "Porestream", "type": "dashboards", "tags": []string{tag}, "asDropdown": false,
			"includeVars": false, "keepTime": true, "targetBlank": false, "icon": "external link", "tooltip": "", "url": "",
		}},
		"panels": panels,
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("rendering dashboard %s: %w", d.UID, err)
	}
	return append(out, '\n'), nil
}

func (p Panel) json(datasource map[string]any) map[string]any {
	type object = map[string]any
	defaults := object{"unit": p.Unit}
	if p.Min != nil {
		defaults["min"] = *p.Min
	}
	if p.Max != nil {
		defaults["max"] = *p.Max
	}
	if len(p.Steps) > 0 {
		var steps []object
		for i, s := range p.Steps {
			step := object{"color": s.Color, "value": s.From}
			if i == 0 {
				step["value"] = nil // Grafana's minus infinity
			}
			steps = append(steps, step)
		}
		defaults["color"] = object{"mode": "thresholds"}
		defaults["thresholds"] = object{"mode": "absolute", "steps": steps}
	} else {
		defaults["color"] = object{"mode": "palette-classic"}
	}
	var targets []object
	for i, q := range p.Queries {
		target := object{"refId": string(rune('A' + i)), "datasource": datasource, "expr": q.Expr, "legendFormat": q.Legend, "editorMode": "code"}
		if q.Instant {
			target["instant"], target["range"] = true, false
		} else {
			target["instant"], target["range"] = false, true
		}
		targets = append(targets, target)
	}
	description := p.Description
	if p.Needs != "" {
		description += " Needs " + p.Needs + "."
	}
	panel := object{"title": p.Title, "description": description, "datasource": datasource, "targets": targets}
	switch p.Kind {
	case Stat:
		panel["type"] = "stat"
		panel["options"] = object{
			"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
			"colorMode":     "value", "graphMode": "area", "textMode": "auto", "justifyMode": "auto",
		}
	case Heat:
		for _, target := range targets {
			target["format"] = "heatmap"
		}
		panel["type"] = "heatmap"
		panel["options"] = object{
			"calculate": false, "cellGap": 1, "color": object{"mode": "scheme", "scheme": "Blues", "steps": 64},
			"rowsFrame": object{"layout": "auto"}, "tooltip": object{"mode": "single", "yHistogram": false},
			"legend": object{"show": true}, "yAxis": object{"axisPlacement": "left", "unit": p.Unit},
		}
	default:
		custom := object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": false}
		if p.Kind == Bars {
			custom = object{"drawStyle": "bars", "lineWidth": 0, "fillOpacity": 80, "stacking": object{"mode": "normal", "group": "A"}}
		}
		defaults["custom"] = custom
		panel["type"] = "timeseries"
		panel["options"] = object{
			"legend":  object{"displayMode": "table", "placement": "bottom", "showLegend": true, "calcs": []string{"lastNotNull", "max"}},
			"tooltip": object{"mode": "multi", "sort": "desc"},
		}
	}
	panel["fieldConfig"] = object{"defaults": defaults, "overrides": []object{}}
	return panel
}
