package main

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/ingest/folder"
	"github.com/porestream/porestream/ingest/minknow"
	"github.com/porestream/porestream/ingest/push"
)

// sourceLabel distinguishes the metrics of sources. Its values are the names in
// the file of sources, or the one kind of a command.
const sourceLabel = "source"

// meters are the metrics of all sources. They go on counting when a source is
// started again, and are gone when the file has it no more.
type meters struct {
	registry prometheus.Registerer

	mu sync.Mutex
	by map[string]*meter // by the source's name
}

// meter is the metrics of one source; of push, minknow and folder, those of kinds
// that it has been of are there.
type meter struct {
	ingest  *ingest.Metrics
	push    *push.Metrics
	minknow *minknow.Metrics
	folder  *folder.Metrics

	registered *remembering
}

func newMeters(registry prometheus.Registerer) *meters {
	return &meters{registry: registry, by: make(map[string]*meter)}
}

// of returns the metrics of a source, making them if need be.
func (all *meters) of(name, kind string) *meter {
	all.mu.Lock()
	defer all.mu.Unlock()
	m := all.by[name]
	if m == nil {
		reg := &remembering{Registerer: prometheus.WrapRegistererWith(prometheus.Labels{sourceLabel: name}, all.registry)}
		m = &meter{ingest: ingest.NewMetrics(reg), registered: reg}
		all.by[name] = m
	}
	switch {
	case kind == serveName && m.push == nil:
		m.push = push.NewMetrics(m.registered)
	case kind == minknowName && m.minknow == nil:
		m.minknow = minknow.NewMetrics(m.registered)
	case (kind == folderName || kind == readsName) && m.folder == nil:
		m.folder = folder.NewMetrics(m.registered)
	}
	return m
}

// channels are what the channels of all sources do, by source.
func (all *meters) channels() map[string][]ingest.Channels {
	all.mu.Lock()
	defer all.mu.Unlock()
	out := make(map[string][]ingest.Channels, len(all.by))
	for name, m := range all.by {
		out[name] = m.ingest.Channels()
	}
	return out
}

// drop forgets the metrics of a source.
func (all *meters) drop(name string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if m := all.by[name]; m != nil {
		m.registered.forget()
		delete(all.by, name)
	}
}

// remembering is a registerer that can take back what was registered with it.
type remembering struct {
	prometheus.Registerer
	collectors []prometheus.Collector
}

func (r *remembering) Register(c prometheus.Collector) error {
	err := r.Registerer.Register(c)
	if err == nil {
		r.collectors = append(r.collectors, c)
	}
	return err
}

func (r *remembering) MustRegister(all ...prometheus.Collector) {
	r.Registerer.MustRegister(all...)
	r.collectors = append(r.collectors, all...)
}

func (r *remembering) forget() {
	for _, c := range r.collectors {
		r.Unregister(c)
	}
	r.collectors = nil
}
