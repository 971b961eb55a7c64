package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/porestream/porestream/watchlist"
)

// kind is what an answer means to a reader.
type kind string

const (
	found kind = "found"
	doubt kind = "doubt"
	blind kind = "blind"
	wait  kind = "wait"
	other kind = "other" // an answer in words of its own, as of a model
	clear kind = "clear"
)

// rank orders kinds by what a reader wants to see first.
var rank = map[kind]int{found: 0, other: 1, doubt: 2, blind: 3, wait: 4, clear: 5}

// kindOf sorts a state. Words that this program doesn't know are shown as they are.
func kindOf(s watchlist.State) kind {
	switch s {
	case watchlist.Detected, "RESISTANT":
		return found
	case watchlist.Suspected, "INTERMEDIATE":
		return doubt
	case watchlist.NotCallable:
		return blind
	case watchlist.Pending, "":
		return wait
	case watchlist.Negative, "SUSCEPTIBLE":
		return clear
	}
	return other
}

// code is a state's abbreviation, short enough for a cell.
func code(s watchlist.State) string {
	switch s {
	case watchlist.Detected:
		return "D"
	case watchlist.Suspected:
		return "S?"
	case watchlist.NotCallable:
		return "n/c"
	case watchlist.Pending, "":
		return "…"
	case watchlist.Negative:
		return "–"
	case "RESISTANT":
		return "R"
	case "SUSCEPTIBLE":
		return "S"
	case "INTERMEDIATE":
		return "I"
	}
	word := []rune(strings.ToLower(string(s)))
	if len(word) > 6 {
		return string(word[:5]) + "…"
	}
	return string(word)
}

// marker is a rule of a panel: a column of the table.
type marker struct{ panel, rule, label, severity string }

// key identifies a marker.
func (m *marker) key() string { return m.panel + "\x00" + m.rule }

// answer is what a rule as a whole says of a sample: the alert about it, or else, of a rule that only alerts of
// alleles are of, the one that says most.
func answer(a, b *watchlist.Alert) *watchlist.Alert {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	whole := func(a *watchlist.Alert) bool { return a.Subject == "" }
	switch {
	case whole(a) != whole(b):
		if whole(a) {
			return a
		}
		return b
	case rank[kindOf(b.State)] < rank[kindOf(a.State)]:
		return b
	}
	return a
}

// verdict is what a sample's answers come to, and what to do.
type verdict struct {
	Kind  kind
	Title string
	Do    []string
}

// verdictOf returns what a sample's answers come to. answers are those of its markers.
func verdictOf(s *sample, answers []*watchlist.Alert, mixed bool) verdict {
	by := make(map[kind][]*watchlist.Alert)
	open := false
	for _, a := range answers {
		k := kindOf(a.State)
		by[k] = append(by[k], a)
		open = open || !a.Final
	}
	v := verdict{Kind: clear}
	add := func(format string, args ...any) { v.Do = append(v.Do, fmt.Sprintf(format, args...)) }
	switch {
	case s.control != "" && len(by[found]) > 0:
		v = verdict{Kind: doubt, Title: "Control (" + s.control + ") with " + count(len(by[found]), "finding", "findings") + ": " + names(by[found])}
		add("Find out where it comes from. What it explains of other samples is marked CarryOver there; repeat those that a decision hangs on.")
		return v
	case s.control != "":
		v = verdict{Kind: clear, Title: "Control (" + s.control + ") without a finding"}
		add("Nothing: what it shows bounds the other samples.")
		return v
	case len(answers) == 0 && s.panels:
		v = verdict{Kind: wait, Title: "No answer of a panel"}
		add("See whether the sample has reads, and whether processors had the panel.")
	case len(answers) == 0:
		v = verdict{Kind: other, Title: "No panel was asked"}
		add("Read the variants below; a panel (--panel) would say what is absent, too.")
	case len(by[found]) > 0:
		v = verdict{Kind: found, Title: count(len(by[found]), "finding", "findings") + ": " + names(by[found])}
		add("Act on the findings as the panel's owner has laid down; confirm by a second method what a decision hangs on.")
	case len(by[other]) > 0:
		v = verdict{Kind: other, Title: count(len(by[other]), "answer", "answers") + ": " + names(by[other])}
	case len(by[doubt]) > 0:
		v = verdict{Kind: doubt, Title: "Not settled: " + names(by[doubt])}
	case len(by[blind]) == len(answers):
		v = verdict{Kind: blind, Title: "No marker could be assessed"}
	case len(by[blind]) > 0:
		v = verdict{Kind: blind, Title: fmt.Sprintf("Nothing found where reads allow an answer; %d of %d markers not callable", len(by[blind]), len(answers))}
	case len(by[wait]) > 0:
		v = verdict{Kind: wait, Title: "Not answered yet: " + names(by[wait])}
	default:
		v = verdict{Kind: clear, Title: "None of " + count(len(answers), "marker was", "markers was") + " found"}
	}
	if len(by[doubt]) > 0 {
		add("%s in doubt: sequence deeper, or inspect the reads.", count(len(by[doubt]), "marker is", "markers are"))
	}
	if len(by[blind]) > 0 {
		add("%s not callable, which is not negative: repeat the amplification or sequence deeper (%s).", count(len(by[blind]), "marker is", "markers are"), names(by[blind]))
	}
	var carried []*watchlist.Alert
	for _, a := range answers {
		if a.CarryOver != nil {
			carried = append(carried, a)
		}
	}
	if len(carried) > 0 {
		add("Carry-over from other samples explains %s: repeat from the sample before acting on it (%s).", count(len(carried), "answer", "answers"), names(carried))
	}
	if open && len(answers) > 0 {
		add("The run had not ended for all answers: they may change.")
	}
	if mixed {
		add("Reads of several basecalling models are mixed: see the models.")
	}
	if len(v.Do) == 0 {
		add("Nothing, as far as these markers go.")
	}
	return v
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// mostNames bounds a list within a sentence.
const mostNames = 6

// names are the rules of alerts, the first of them.
func names(alerts []*watchlist.Alert) string {
	var list []string
	for _, a := range alerts {
		name := cmp.Or(a.Label, a.Rule)
		if kindOf(a.State) == other {
			name += " " + string(a.Answer())
		}
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	if n := len(list) - mostNames; n > 0 {
		list = append(list[:mostNames], fmt.Sprintf("and %d more", n))
	}
	return strings.Join(list, ", ")
}
