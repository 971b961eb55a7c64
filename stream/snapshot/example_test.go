package snapshot_test

import (
	"fmt"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/snapshot"
)

// counts is a state of one section.
type counts struct{ text string }

func (c *counts) Format() stream.StateFormat {
	return stream.StateFormat{Stage: "count", Version: 1, Fingerprint: "reference-1"}
}

func (c *counts) Sections() []stream.Section {
	return []stream.Section{{Name: "counts", Version: uint64(len(c.text))}}
}

func (c *counts) AppendSection(b []byte, _ string) ([]byte, error) { return append(b, c.text...), nil }

func (c *counts) RestoreSection(_ string, b []byte) error {
	c.text = string(b)
	return nil
}

// The life of a partition's state: a first owner, which begins empty, and its
// successor.
func Example() {
	source := snapshot.Source{Group: "porestream-count", Topic: "reads", Partition: 3}
	var topic []stream.Record // the source's place on the state topic

	first := &counts{}
	w := snapshot.NewWriter(snapshot.WriterConfig{Topic: "state", Epoch: 1}, snapshot.NewIndex(source), nil, first)
	first.text = "after 100 records"
	for out, err := range w.Take(first, 100) {
		if err != nil {
			panic(err)
		}
		topic = append(topic, stream.Record{Offset: int64(len(topic)), Key: out.Key, Value: out.Value})
	}
	w.Durable()
	w.Committed(110)

	index := snapshot.NewIndex(source)
	for _, rec := range topic {
		index.Add(rec)
	}
	second := &counts{}
	chosen, refused := index.Choose(second.Format(), stream.PositionAt(0, 110), 0)
	restorer := chosen.Restorer(second)
	for _, rec := range topic {
		if err := restorer.Add(rec); err != nil {
			panic(err)
		}
	}
	fmt.Println(second.text, "then replay from", chosen.Offset(), "to 110;", len(refused), "refused")
	// Output: after 100 records then replay from 100 to 110; 0 refused
}
