package pipeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/watchlist"
	"github.com/porestream/porestream/watchlist/alert"
)

// AlertFold is the state of an alerts topic as a consumer sees it: what every
// panel's rules say of every sample now, and which runs have ended. However often a
// record is delivered, and in whatever order the partitions come, it is the same.
type AlertFold struct {
	runEnds
	latest map[string]*watchlist.Alert
	last   map[int32]int64 // offset of the last record by partition
}

// NewAlertFold returns the state of an empty topic with a number of partitions.
func NewAlertFold(partitions int32) *AlertFold {
	return &AlertFold{runEnds: newRunEnds(partitions), latest: make(map[string]*watchlist.Alert), last: make(map[int32]int64)}
}

// Add takes one record and returns the alert that it brings, or nil when it brings
// none: it is known, a marker, or an event of a kind this program doesn't know.
func (f *AlertFold) Add(rec stream.Record) (*watchlist.Alert, error) {
	f.last[rec.Partition] = max(f.last[rec.Partition], rec.Offset)
	a, end, err := alert.Decode(rec)
	switch {
	case err != nil:
		return nil, err
	case end != nil:
		f.add(rec.Partition, end)
	case a != nil && alert.Supersedes(a, f.latest[string(rec.Key)]):
		f.latest[string(rec.Key)] = a
		return a, nil
	}
	return nil, nil
}

// Last are the offsets of the last record of each partition that has one.
func (f *AlertFold) Last() map[int32]int64 { return maps.Clone(f.last) }

// Samples lists the samples that a panel has said something of, sorted.
func (f *AlertFold) Samples() []string {
	var samples []string
	for _, a := range f.latest {
		samples = append(samples, a.Sample)
	}
	slices.Sort(samples)
	return slices.Compact(samples)
}

// Alerts lists the newest alerts of a sample by panel, rule and subject, the rule
// itself before its alleles.
func (f *AlertFold) Alerts(sample string) []*watchlist.Alert {
	list := []*watchlist.Alert{}
	for _, a := range f.latest {
		if a.Sample == sample {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b *watchlist.Alert) int {
		return cmp.Or(
			cmp.Compare(a.Panel.ID, b.Panel.ID), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Subject, b.Subject),
			cmp.Compare(a.Panel.Hash, b.Panel.Hash),
		)
	})
	return list
}

// states counts the newest alerts of the runs' samples by state. The topic may hold
// other samples.
func (f *AlertFold) states(runs []*streampb.Run) map[watchlist.State]int64 {
	counts := make(map[watchlist.State]int64)
	for _, a := range f.latest {
		if slices.ContainsFunc(runs, func(r *streampb.Run) bool { return slices.Contains(stream.SamplesOf(r), a.Sample) }) {
			counts[a.State]++
		}
	}
	return counts
}

// writeAlerts writes alerts as one JSON array.
func writeAlerts(w io.Writer, alerts []*watchlist.Alert) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false) // HGVS is full of ">"
	enc.SetIndent("", "  ")
	return enc.Encode(alerts)
}

// alertColumns are the columns of alerts.tsv.
var alertColumns = []string{
	"sample", "panel", "version", "rule", "subject", "state", "contig", "pos", "ref", "alt", "gene", "term", "hgvsc", "hgvsp",
	"alt_reads", "depth", "qual", "false_alarm", "miss", "label", "severity", "reason",
}

// writeAlertTable writes alerts as tab-separated lines, with "." for what an alert
// doesn't have.
func writeAlertTable(w io.Writer, alerts []*watchlist.Alert) error {
	if _, err := fmt.Fprintln(w, strings.Join(alertColumns, "\t")); err != nil {
		return err
	}
	for _, a := range alerts {
		row := alertRow(a)
		for i, cell := range row {
			row[i] = cmp.Or(cells.Replace(cell), ".")
		}
		if _, err := fmt.Fprintln(w, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return nil
}

// cells keeps a panel's words from breaking a table.
var cells = strings.NewReplacer("\t", " ", "\n", " ", "\r", " ")

func alertRow(a *watchlist.Alert) []string {
	row := []string{a.Sample, a.Panel.ID, a.Panel.Version, a.Rule, a.Subject, string(a.Answer())}
	if v := a.Allele; v != nil {
		row = append(row, v.Contig, strconv.FormatInt(v.Pos, 10), v.Ref, v.Alt)
	} else {
		row = append(row, "", "", "", "")
	}
	if c := a.Consequence; c != nil {
		gene, terms := "", make([]string, len(c.Terms))
		if c.Gene != nil {
			gene = cmp.Or(c.Gene.Symbol, c.Gene.ID)
		}
		for i, t := range c.Terms {
			terms[i] = t.Name
		}
		row = append(row, gene, strings.Join(terms, "&"), c.HGVSc, c.HGVSp)
	} else {
		row = append(row, "", "", "", "")
	}
	switch e, c := a.Evidence, a.Carried; {
	case e != nil:
		row = append(row, strconv.Itoa(int(e.AltForward+e.AltReverse)), strconv.Itoa(int(e.Depth)), strconv.FormatFloat(e.Qual, 'f', 1, 64))
	case c != nil: // by the reads alone
		row = append(row, strconv.Itoa(int(c.AltForward+c.AltReverse)), strconv.Itoa(int(c.Depth)), "")
	default:
		row = append(row, "", "", "")
	}
	return append(row, probability(a.Probability.FalseAlarm), probability(a.Probability.Miss), a.Label, a.Severity, a.Reason)
}

func probability(p *float64) string {
	if p == nil {
		return ""
	}
	return strconv.FormatFloat(*p, 'g', 3, 64)
}
