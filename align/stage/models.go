package stage

import (
	"sync"

	"github.com/porestream/porestream/stream"
)

// ModelNames are the basecalling models whose names a worker has published downstream. A worker
// publishes them anew for each run, as the names published with an earlier run may be gone from
// the topic. They are no state: a worker that starts publishes them again, which changes nothing.
// The zero value has published none. Safe for concurrent use.
//
// Reads are placed concurrently, so the records with a name may follow segments of another read
// that carry its number. A consumer that counts segments by number knows all names when the run ends.
type ModelNames struct {
	mu        sync.Mutex
	published map[runModel]bool
}

type runModel struct{ run, model string }

// maxPublishedModels bounds what is remembered, whatever reads call their models.
const maxPublishedModels = 1024

// Ahead puts records with the name of a read's model ahead of the read's own, one for each
// partition of the topic of reads, unless this was done before.
func (n *ModelNames) Ahead(outs []stream.Out, of *Read, topic string, partitions int32) ([]stream.Out, error) {
	if !stream.ModelNameable(of.Model) || !n.first(runModel{of.Run.GetId(), of.Model}) {
		return outs, nil
	}
	names, err := stream.ModelRecords(topic, partitions, of.Model)
	return append(names, outs...), err
}

func (n *ModelNames) first(model runModel) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.published[model] {
		return false
	}
	if n.published == nil || len(n.published) >= maxPublishedModels {
		n.published = make(map[runModel]bool)
	}
	n.published[model] = true
	return true
}
