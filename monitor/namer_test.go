package monitor_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/monitor"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// counting names one gene by how many records there were.
type counting struct{ records, named, left int }

func (c *counting) Add(rec stream.Record) error {
	if c.records++; rec.Offset == 3 {
		return errors.New("damaged")
	}
	return nil
}

func (c *counting) Changed(int) []monitor.Diplotype {
	if c.named == c.records {
		return nil
	}
	c.named = c.records
	return []monitor.Diplotype{{ID: "s/G", Sample: "s", Gene: "G", Positions: c.records}}
}

func (c *counting) LeftOut() int { return c.left }

// TestNamedAllelesOfAView: what a namer says of the records of variants goes to the pages when it changes, once a second at most, and whole to a new page.
func TestNamedAllelesOfAView(t *testing.T) {
	topics := stream.NewTopics("")
	v := monitor.NewView(topics, monitor.Limits{})
	named := func(events []monitor.Event) (positions []int) {
		for _, e := range events {
			if e.Name == monitor.EventDiplotypes {
				var d monitor.Diplotypes
				require.NoError(t, json.Unmarshal(e.Data, &d))
				for _, row := range d.Upsert {
					positions = append(positions, row.Positions)
				}
			}
		}
		return positions
	}
	add := func(offset int64) error {
		out, err := event.FromCall(&streampb.Call{Run: "r", Sample: "s", VrsId: "ga4gh:VA.x", Contig: "c", Pos: 5, Ref: "A", Alt: "G", Revision: uint64(offset) + 1}, annotate.Annotation{}).Record(topics.Variants)
		require.NoError(t, err)
		return v.Add(stream.Record{Topic: topics.Variants, Offset: offset, Key: out.Key, Value: out.Value, Headers: out.Headers})
	}
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	require.NoError(t, add(0))
	require.Empty(t, named(v.Changes(now)), "without a namer nothing is named")
	require.Empty(t, named(v.Whole(now)))
	require.Contains(t, v.Whole(now), monitor.Event{Name: monitor.EventDiplotypes, Data: []byte(`{"upsert":[]}`)}, "a page that saw another server forgets what that one named")

	namer := &counting{left: 2}
	v.Name(namer)
	require.NoError(t, add(1))
	require.Equal(t, []int{1}, named(v.Changes(now)))
	require.NoError(t, add(2))
	require.Empty(t, named(v.Changes(now.Add(500*time.Millisecond))))
	require.Equal(t, []int{2}, named(v.Changes(now.Add(time.Second))))
	require.Empty(t, named(v.Changes(now.Add(2*time.Second))))
	require.Equal(t, []int{2}, named(v.Whole(now)))
	require.ErrorContains(t, add(3), "damaged")
	require.Equal(t, 2, v.Summary(now).LeftOut["samples of named alleles"])
}
