package processor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	annotatestage "github.com/porestream/porestream/annotate/stage"
	"github.com/porestream/porestream/internal/cli"
	methylatestage "github.com/porestream/porestream/modbase/stage"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/watchlist"
	watchnetwork "github.com/porestream/porestream/watchlist/network"
	"github.com/porestream/porestream/watchlist/ready"
)

// loadPanels reads watch-lists and checks them against the reference and its
// genes. What can't be answered in full is logged.
func (e *Engines) loadPanels(paths []string, calling *Calling, scored, methylation bool, logger *slog.Logger) error {
	panels := make([]*watchlist.Panel, len(paths))
	for i, path := range paths {
		p, err := ready.Open(path)
		if err != nil {
			return firstFault(err)
		}
		panels[i] = p
	}
	w, err := watchlist.New(e.Genome, e.Annotator, panels...)
	if err != nil {
		return firstFault(err)
	}
	if rule := w.Scored(); rule != "" && !scored {
		return cli.Usagef("rule %q asks for scores of a sequence network, and there is none: give --network, or leave the panel out", rule)
	}
	if rule := w.AsksMethylation(); rule != "" && !methylation {
		return cli.Usagef("rule %q asks for methylation, and modified bases are not counted: give --methylation, or leave the panel out", rule)
	}
	if err := calling.suits(w, e.Genome); err != nil {
		return err
	}
	for _, warning := range w.Warnings() {
		logger.Warn("a panel asks for what can't be answered in full", "reason", warning)
	}
	e.Watch, e.panels = w, fingerprint(panels)
	return nil
}

// openModels opens the networks of the models that panels ask. Only the watch stage needs them.
func (e *Engines) openModels(library string, logger *slog.Logger) error {
	opened, err := watchnetwork.Attach(e.Watch, library, logger)
	if err != nil {
		return firstFault(err)
	}
	e.biomarkers = opened
	return nil
}

// firstFault is the first line of an error that has one for each fault of a panel:
// a service says in one line why it doesn't start.
func firstFault(err error) error {
	first, rest, more := strings.Cut(err.Error(), "\n")
	if !more {
		return err
	}
	return fmt.Errorf("%s (and %d more lines: pore panel check shows all)", first, 1+strings.Count(rest, "\n"))
}

// fingerprint distinguishes sets of panels, whatever the order they were named in.
func fingerprint(panels []*watchlist.Panel) string {
	hashes := make([]string, len(panels))
	for i, p := range panels {
		hashes[i] = p.Hash
	}
	if len(hashes) == 1 {
		return hashes[0]
	}
	slices.Sort(hashes)
	sum := sha256.Sum256([]byte(strings.Join(hashes, "\n")))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// targets are the stretches whose coverage the panels ask for, by contig, and what they name
// there.
func (e *Engines) targets() map[string]variant.Targets {
	if e.Watch == nil {
		return nil
	}
	targets := make(map[string]variant.Targets)
	for _, t := range e.Watch.Targets() {
		on := targets[t.Contig]
		on.Spans = append(on.Spans, variant.Span{Start: t.Start, End: t.End})
		targets[t.Contig] = on
	}
	for _, n := range e.Watch.Named() {
		on := targets[n.Contig]
		on.Named = append(on.Named, variant.Named{Name: n.Name, Pos: n.Pos, Alleles: n.Alleles})
		targets[n.Contig] = on
	}
	return targets
}

// watched is what the annotate stage passes on; nil without panels.
func (e *Engines) watched(partitions int32) *annotatestage.Watch {
	if e.Watch == nil {
		return nil
	}
	return &annotatestage.Watch{Partitions: partitions, Panels: e.panels, Concerns: e.Watch.Concerns}
}

// watchedMethylation is what the methylate stage passes on; nil unless panels ask for it.
func (e *Engines) watchedMethylation(partitions int32) *methylatestage.Watch {
	if e.Watch == nil || e.Watch.AsksMethylation() == "" {
		return nil
	}
	return &methylatestage.Watch{Partitions: partitions, Panels: e.panels, Asked: e.Watch.Asked}
}

// TopicSettings lists the topics that the engines' stages need; see
// [stream.Topics.Settings].
func (e *Engines) TopicSettings(t stream.Topics, partitions int) []stream.TopicSettings {
	settings := t.Settings(partitions)
	if e.Watch != nil {
		settings = append(settings, t.WatchSettings(partitions)...)
	}
	if e.deciders != nil {
		settings = append(settings, t.DecisionSettings(partitions)...)
	}
	if e.methylation {
		settings = append(settings, t.MethylationSettings(partitions)...)
	}
	if e.signal.Basecalls {
		settings = append(settings, t.BasecallSettings(partitions)...)
	}
	return settings
}
