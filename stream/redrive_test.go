package stream

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
)

func asRead(o Out, partition int32, offset int64) Record {
	return Record{Topic: o.Topic, Partition: partition, Offset: offset, Time: time.UnixMilli(1), Key: o.Key, Value: o.Value, Headers: o.Headers}
}

func TestDeadLetterGoesBackAsItWas(t *testing.T) {
	for name, rec := range map[string]Record{
		"plain":        {Topic: "signal", Partition: 3, Offset: 1 << 40, Key: []byte("k"), Value: []byte("v")},
		"nil and none": {Topic: "signal"},
		"headers":      {Topic: "reads", Key: []byte{}, Value: []byte{}, Headers: []Header{{"a", []byte("1")}, {"", nil}}},
		"of a letter":  {Topic: "calls", Headers: []Header{{HeaderStage, []byte("x")}, {HeaderCut, []byte("value")}}},
	} {
		t.Run(name, func(t *testing.T) {
			letter := asRead(DeadLetter("dlq", rec, "basecall", decodeErrorf(CodeChecksum, "it differs")), 7, 11)
			l, err := ParseDeadLetter(letter)
			if err != nil {
				t.Fatal(err)
			}
			if l.Stage != "basecall" || l.Code != CodeChecksum || l.Reason != "checksum: it differs" || l.Record.Offset != rec.Offset {
				t.Errorf("%+v", l)
			}
			again, mark, err := Redrive(letter, l)
			if err != nil {
				t.Fatal(err)
			}
			if again.Topic != rec.Topic || again.Partition != rec.Partition || !reflect.DeepEqual(again.Key, rec.Key) ||
				!reflect.DeepEqual(again.Value, rec.Value) || len(again.Headers) != len(rec.Headers) {
				t.Errorf("%+v, want %+v", again, rec)
			}
			for i := range rec.Headers {
				if !reflect.DeepEqual(again.Headers[i], rec.Headers[i]) {
					t.Errorf("header %d: %+v, want %+v", i, again.Headers[i], rec.Headers[i])
				}
			}
			if mark.Topic != "dlq" || mark.Partition != 7 {
				t.Errorf("the mark goes to %s/%d", mark.Topic, mark.Partition)
			}
			if offset, ok := RedrivenOffset(asRead(mark, 7, 12)); !ok || offset != 11 {
				t.Errorf("the mark says %d, %v", offset, ok)
			}
			if _, ok := RedrivenOffset(letter); ok {
				t.Error("the letter looks like a mark")
			}
			if _, err := ParseDeadLetter(asRead(mark, 7, 12)); err == nil {
				t.Error("the mark looks like a letter")
			}
		})
	}
}

func TestCutLettersStay(t *testing.T) {
	rec := Record{Topic: "signal", Value: make([]byte, maxDeadValue+1), Key: make([]byte, maxDeadKey+1)}
	letter := asRead(DeadLetter("dlq", rec, "basecall", errors.New("x")), 0, 0)
	l, err := ParseDeadLetter(letter)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Redrive(letter, l); err == nil || !strings.Contains(err.Error(), "value and key was too large") {
		t.Error(err)
	}
}

func TestDecodeAnyKind(t *testing.T) {
	for _, r := range sampleRecords() {
		m, err := Decode(mustEncode(t, r))
		if err != nil || !proto.Equal(m, r.msg) {
			t.Errorf("%s: %v, %v", r.name, m, err)
		}
	}
	if m, err := Decode([]byte("PSx")); err == nil || m != nil {
		t.Errorf("%v, %v", m, err)
	}
}

// Whatever headers a record has, taking it for a dead letter does no harm, and
// what is one goes back as it was.
func FuzzDeadLetter(f *testing.F) {
	f.Add("basecall", "checksum", "reason", "signal", "0", "17", "", "h", []byte("v"))
	f.Add("", "", "", "", "-1", "x", "value", HeaderStage, []byte(nil))
	f.Add("s", "c", "r", "t", "2147483648", "9223372036854775807", "value,key", HeaderRedriven, []byte("5"))
	f.Fuzz(func(t *testing.T, stage, code, reason, topic, partition, offset, cut, key string, value []byte) {
		headers := []Header{{key, value}}
		for i, v := range []string{stage, code, reason, topic, partition, offset} {
			headers = append(headers, Header{letterHeaders[i], []byte(v)})
		}
		if cut != "" {
			headers = append(headers, Header{HeaderCut, []byte(cut)})
		}
		rec := Record{Topic: "dlq", Partition: 1, Offset: 2, Key: value, Value: value, Headers: headers}
		RedrivenOffset(rec)
		l, err := ParseDeadLetter(rec)
		if err != nil {
			return
		}
		again, _, err := Redrive(rec, l)
		if err != nil {
			return
		}
		twice, err := ParseDeadLetter(asRead(DeadLetter("dlq", asRead(again, again.Partition, l.Record.Offset), stage, errors.New("x")), 1, 3))
		if err != nil {
			t.Fatal(err)
		}
		if len(twice.Cut) == 0 && (!bytes.Equal(twice.Record.Value, value) || len(twice.Record.Headers) != 1) {
			t.Errorf("%+v, want %+v", twice.Record, l.Record)
		}
	})
}
