package ingest

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"
	"time"

	"github.com/porestream/porestream/stream"
)

func sampleEvent() event {
	at := time.UnixMicro(1_510_000_000_123_456)
	e := event{after: progress{next: 8, ended: true}, at: at, samples: 4000, outs: []stream.Out{
		{Topic: "signal", Partition: stream.AnyPartition, Key: []byte("run-1/417"), Value: []byte{1, 2, 3}, Time: at},
		{Topic: "runs", Partition: 2, Key: []byte("k"), Value: []byte{}, Time: at},
	}}
	e.after.digest[0], e.after.digest[31] = 0xd1, 0xd2
	return e
}

// goldenEvent is an event as version 1 of the spool keeps it; it may never
// change.
const goldenEvent = "01d1000000000000000000000000000000000000000000000000000000000000d28089f2d9c8d5ae05a01f02067369676e616c000972756e2d312f343137030102030472756e7303016b00"

func TestGoldenEvent(t *testing.T) {
	e := sampleEvent()
	got := appendEvent(nil, &e)
	want, err := hex.DecodeString(goldenEvent)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("an event is written as\n%x\nwant\n%s", got, goldenEvent)
	}
	back, err := parseEvent(want, 7)
	if err != nil || !reflect.DeepEqual(back, e) {
		t.Errorf("it is read as\n%+v, %v\nwant\n%+v", back, err, e)
	}
	for n := range want {
		if _, err := parseEvent(want[:n], 7); err == nil {
			t.Errorf("%d of %d bytes are read without an error", n, len(want))
		}
	}
	if _, err := parseEvent(append(want, 0), 7); err == nil {
		t.Error("a byte too many is read without an error")
	}
}

func FuzzParseEvent(f *testing.F) {
	e := sampleEvent()
	f.Add(appendEvent(nil, &e))
	e.outs, e.traced = e.outs[:1], newTracedChunk("run-1", "read-9", 3, true)
	f.Add(appendEvent(nil, &e))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseEvent(b, 7)
		if err != nil {
			return
		}
		again, err := parseEvent(appendEvent(nil, &e), 7)
		if err != nil || !reflect.DeepEqual(again, e) {
			t.Errorf("%+v is read again as %+v, %v", e, again, err)
		}
	})
}
