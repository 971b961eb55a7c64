package processor

import (
	"time"

	"github.com/porestream/porestream/annotate/source"
)

// sourcesInterval is how often the files of sources are checked. A release comes once a week; seconds make a swap by hand pleasant.
const sourcesInterval = 2 * time.Second

// loadSources opens sources of known variants and gives them to the annotator.
func (e *Engines) loadSources(paths []string) error {
	set, err := source.OpenSet(e.Genome, paths...)
	if err != nil {
		return err
	}
	e.Sources, e.Annotator = set, e.Annotator.WithSources(set)
	return nil
}
