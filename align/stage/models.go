package stage

import (
	"sync"

	"github.com/porestream/porestream/stream"
)

// ModelNames are the basecalling models whose names a worker has told downstream, run by run, as
// what was told with an earlier run may be gone from the topic. It is no
// state: a worker that begins tells them again, which changes nothing. The zero value has told
// none. Safe for concurrent use.
//
// Reads are placed side by side, so the records with a name may follow segments of another
// read with its number. Whoever counts segments by number knows all names when the run ends.
type ModelNames struct {
	mu   sync.Mutex
	told map[runModel]bool
}

type runModel struct{ run, model string }

// maxToldModels bounds what is remembered, whatever reads call their models.
const maxToldModels = 1024

// Ahead puts the records that tell every partition of the topic of reads the name of a read's
// model ahead of the read's own, unless this was done before.
func (n *ModelNames) Ahead(outs []stream.Out, of *Read, topic string, partitions int32) ([]stream.Out, error) {
	if !stream.ModelNameable(of.Model) || !n.first(runModel{of.Run.GetId(), of.Model}) {
		return outs, nil
	}
	told, err := stream.ModelRecords(topic, partitions, of.Model)
	return append(told, outs...), err
}

func (n *ModelNames) first(model runModel) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.told[model] {
		return false
	}
	if n.told == nil || len(n.told) >= maxToldModels {
		n.told = make(map[runModel]bool)
	}
	n.told[model] = true
	return true
}
