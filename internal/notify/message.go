package notify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/watchlist"
	"github.com/porestream/porestream/watchlist/alert"
)

// message is one alert on its way to a destination. Sent again, it has the same bytes.
type message struct {
	View
	document []byte
	at       time.Time // when the alert was written
	source   string    // CloudEvents' ce_source
	subject  string
	key      string
}

// View is what templates see: the alert's members under their Go names, and Text.
type View struct{ *watchlist.Alert }

// Text is the alert on one line.
func (v View) Text() string { return alert.Text(v.Alert) }

// maxID bounds an id, which goes into headers.
const maxID = 128

// newMessage reads a record of the alerts topic; nil if it is something else, such as the end of a run.
func newMessage(rec stream.Record) (*message, error) {
	a, _, err := alert.Decode(rec)
	if err != nil || a == nil {
		return nil, err
	}
	if bad := func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`<>"`, r) }; a.ID == "" || len(a.ID) > maxID || strings.ContainsFunc(a.ID, bad) {
		return nil, errors.New("the alert's id is none that a message can have")
	}
	m := &message{View: View{a}, document: rec.Value, at: rec.Time, subject: a.Panel.ID + "/" + a.Rule, key: a.Key()}
	for _, h := range rec.Headers {
		if h.Key == "ce_source" {
			m.source = string(h.Value)
		}
	}
	return m, nil
}

// wants reports whether a destination is to be notified of an alert: when a state that it asks for is reached or left,
// and when such a state has become final. A final alert is the newest of its key, which compaction leaves; so a receiver
// that was away for long gets it even where the change itself is gone.
func wants(states []watchlist.State, a *watchlist.Alert) bool {
	has := func(s watchlist.State) bool { return slices.Contains(states, s) || slices.Contains(states, AnyState) }
	if a.State != a.Previous {
		return has(a.State) || has(a.Previous)
	}
	return a.Final && has(a.State)
}

// condition is a destination's expression.
type condition func(document []byte) (bool, error)

func compileWhen(text string) (condition, error) {
	if text == "" {
		return func([]byte) (bool, error) { return true, nil }, nil
	}
	program, err := expr.Compile(text, expr.AsBool(), expr.AllowUndefinedVariables())
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return nil, fmt.Errorf("when: %s", first)
	}
	return func(document []byte) (bool, error) {
		var doc map[string]any
		if err := json.Unmarshal(document, &doc); err != nil {
			return false, fmt.Errorf("reading the alert's document: %w", err)
		}
		result, err := vm.Run(program, doc)
		if err != nil {
			first, _, _ := strings.Cut(err.Error(), "\n")
			return false, fmt.Errorf("when: %s", first)
		}
		keep, ok := result.(bool)
		if !ok {
			return false, errors.New("when: the result is neither true nor false")
		}
		return keep, nil
	}, nil
}

// What mail says where the file has nothing else.
const (
	defaultSubject = `{{.State}}: {{with .Label}}{{.}}{{else}}{{.Panel.ID}}/{{.Rule}}{{end}} in {{.Sample}}`
	defaultBody    = `{{.State}}{{if ne .State .Previous}} (before: {{.Previous}}){{end}}{{if .Final}}, final{{else}}, may still change{{end}}

sample    {{.Sample}}
rule      {{.Panel.ID}}/{{.Rule}}{{with .Label}} ({{.}}){{end}}{{with .Severity}}
severity  {{.}}{{end}}{{with .Subject}}
about     {{.}}{{end}}{{with .Allele}}
allele    {{.Contig}}:{{.Pos}} {{.Ref}}>{{.Alt}}{{end}}{{with .Consequence}}{{with .HGVSp}}
protein   {{.}}{{end}}{{end}}{{with .Evidence}}
depth     {{.Depth}}, {{.AltForward}} + {{.AltReverse}} reads show it{{end}}{{with .Probability.FalseAlarm}}
error     false alarm <= {{.}}{{end}}{{with .Probability.Miss}}
error     miss <= {{.}}{{end}}
why       {{.Reason}}
run       {{.Run}}

{{.Text}}
panel {{.Panel.ID}} {{.Panel.Version}} {{.Panel.Hash}}, alert {{.ID}}
`
)

// maxRendered bounds what a template makes of an alert.
const maxRendered = 1 << 20

// rendering is a template that has been tried.
type rendering struct{ t *template.Template }

// compileTemplate reads a template and tries it on alerts with everything and with as little as there can be. nil without text.
func compileTemplate(name, text string, isJSON bool) (*rendering, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // see above
	}
	t, err := template.New(name).Funcs(template.FuncMap{"json": asJSON, "join": strings.Join}).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	r := &rendering{t}
	for _, a := range []*watchlist.Alert{Example(), bare()} {
		out, err := r.render(View{a})
		if err != nil {
			return nil, fmt.Errorf("%w; members that are optional need {{with}}", err)
		}
		if isJSON && !json.Valid(out) {
			return nil, fmt.Errorf("template %s: what it makes is no JSON, which content_type says it is: write texts as {{json .Reason}}, without quotes around", name)
		}
	}
	return r, nil
}

func asJSON(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

func (r *rendering) render(v View) ([]byte, error) {
	var b bytes.Buffer
	if err := r.t.Execute(&limited{&b, maxRendered}, v); err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	return b.Bytes(), nil
}

// limited is a writer that takes so many bytes.
type limited struct {
	w    io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, fmt.Errorf("makes more than %d bytes", maxRendered)
	}
	return l.w.Write(p)
}

// Example is an alert without a real event, to try destinations with.
func Example() *watchlist.Alert {
	p, miss := 1e-4, 0.01
	return &watchlist.Alert{
		SchemaVersion: watchlist.AlertVersion, ID: "test-of-pore-notify", Sample: "TEST", Run: "test",
		Panel: watchlist.Source{ID: "test", Version: "1", Hash: "sha256:" + strings.Repeat("0", 64)}, Rule: "test", Label: "Test of pore notify: nothing was found",
		Severity: "none", Scope: watchlist.ScopeAllele, Subject: "ga4gh:VA.test", State: watchlist.Detected, Previous: watchlist.Pending, Revision: 1, Final: true,
		Reason: "somebody tries whether alerts arrive", Allele: &event.Allele{VRSID: "ga4gh:VA.test", Contig: "test", Pos: 1, Ref: "A", Alt: "C"},
		Consequence: &annotate.Consequence{Allele: "C", Gene: &annotate.Gene{Symbol: "test", ID: "test"}, Terms: []annotate.Term{{SO: "SO:0001583", Name: "missense_variant"}}, HGVSp: "test:p.Met1Leu"},
		Evidence:    &watchlist.Evidence{Status: "FINAL", Depth: 2, AltForward: 1, AltReverse: 1, AlleleFraction: 1, Qual: 1, LogLikelihoodRatio: 1, Threshold: 1},
		Carried:     &watchlist.Carried{Depth: 2, AltForward: 1, AltReverse: 1, AlleleFraction: 1},
		Coverage:    &watchlist.Covered{Positions: 1, DepthNeeded: 1, Worst: &watchlist.Place{Contig: "test", Pos: 1, Depth: 2}},
		Probability: watchlist.Probability{FalseAlarm: &p, Miss: &miss}, Alleles: []watchlist.AlleleState{{VRSID: "ga4gh:VA.test", State: watchlist.Detected}}, AlleleCount: 1,
	}
}

// bare is an alert of which all that is optional is missing.
func bare() *watchlist.Alert {
	return &watchlist.Alert{SchemaVersion: watchlist.AlertVersion, ID: "x", Sample: "s", Panel: watchlist.Source{ID: "p", Version: "1"}, Rule: "r",
		Scope: watchlist.ScopeRule, State: watchlist.NotCallable, Previous: watchlist.Pending, Revision: 1}
}
