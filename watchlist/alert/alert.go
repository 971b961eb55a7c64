// Package alert is the public contract of the alerts topic: one JSON document per
// revision of what a panel's rule says of a sample, as a CloudEvent in Kafka's
// binary mode. docs/consume/alerts.md describes it, and docs/consume/alerts.schema.json is its
// JSON Schema.
//
// All alerts of a key are in one partition, in order, and the topic is compacted by
// the key. Unknown members are to be ignored: version 1 only ever gains members.
package alert

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/watchlist"
)

// Type is the CloudEvents type of an alert. The topic also carries
// [event.TypeRunEnd].
const Type = "porestream.alert.v1"

// Record returns the record that carries a on topic.
func Record(topic string, a *watchlist.Alert) (stream.Out, error) {
	value, err := a.JSON()
	if err != nil {
		return stream.Out{}, err
	}
	key := []byte(a.Key())
	headers := append(event.CloudEvent(Type, a.Run, a.ID),
		stream.Header{Key: "ce_subject", Value: []byte(a.Panel.ID + "/" + a.Rule)},
		stream.Header{Key: "ce_partitionkey", Value: key},
	)
	return stream.Out{Topic: topic, Partition: stream.AnyPartition, Key: key, Value: value, Headers: headers}, nil
}

// Decode reads a record of the alerts topic: one of the results is set. Records of
// types that this package doesn't know give none.
func Decode(rec stream.Record) (*watchlist.Alert, *event.RunEnd, error) {
	if typeOf(rec) != Type {
		_, end, err := event.Decode(rec)
		return nil, end, err
	}
	place := func(err error) error {
		return fmt.Errorf("decoding record %d of %s/%d: %w", rec.Offset, rec.Topic, rec.Partition, err)
	}
	a := new(watchlist.Alert)
	if err := json.Unmarshal(rec.Value, a); err != nil {
		return nil, nil, place(err)
	}
	if a.Sample == "" || a.Panel.ID == "" || a.Rule == "" || a.Revision == 0 {
		return nil, nil, place(errors.New("an alert needs sample, panel.id, rule and revision"))
	}
	return a, nil, nil
}

func typeOf(rec stream.Record) string {
	for _, h := range rec.Headers {
		if h.Key == "ce_type" {
			return string(h.Value)
		}
	}
	return ""
}

// Supersedes reports whether a replaces known, an alert of the same key
// that came before it, or of nothing if known is nil. A changed panel starts its
// revisions anew; of one panel the highest revision counts.
func Supersedes(a, known *watchlist.Alert) bool {
	return known == nil || a.Panel.Hash != known.Panel.Hash || a.Revision > known.Revision
}
