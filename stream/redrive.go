package stream

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
)

// HeaderRedriven is the one header of a record on the dead-letter topic that
// says of another one that it went back to where it came from. It holds that
// record's offset in the same partition.
const HeaderRedriven = "porestream-redriven"

// BadLetter is a dead letter as [DeadLetter] has made it.
type BadLetter struct {
	// Stage, Code and Reason say who could not process the record and why.
	Stage, Code, Reason string
	// Record is the record as it was, in the topic, the partition and at the
	// offset where it was read. Its time is when it was given up.
	Record Record
	// Cut lists what of the record is missing: "value", "key", "headers".
	Cut []string
}

// letterHeaders are the headers that [DeadLetter] adds, in order.
var letterHeaders = []string{HeaderStage, HeaderCode, HeaderReason, HeaderTopic, HeaderPartition, HeaderOffset}

// ParseDeadLetter takes a record of the dead-letter topic apart. Its keys,
// values and headers are rec's.
func ParseDeadLetter(rec Record) (*BadLetter, error) {
	all := rec.Headers
	l := new(BadLetter)
	if n := len(all); n > 0 && all[n-1].Key == HeaderCut {
		l.Cut = strings.Split(string(all[n-1].Value), ",")
		all = all[:n-1]
	}
	own := len(all) - len(letterHeaders)
	if own < 0 {
		return nil, fmt.Errorf("record has %d headers, a dead letter has at least %d", len(rec.Headers), len(letterHeaders))
	}
	for i, name := range letterHeaders {
		if all[own+i].Key != name {
			return nil, fmt.Errorf("record has the header %q where %s belongs", all[own+i].Key, name)
		}
	}
	said := func(i int) string { return string(all[own+i].Value) }
	partition, err := strconv.ParseInt(said(4), 10, 32)
	if err != nil || partition < 0 {
		return nil, fmt.Errorf("header %s: %q is no partition", HeaderPartition, said(4))
	}
	offset, err := strconv.ParseInt(said(5), 10, 64)
	if err != nil || offset < 0 {
		return nil, fmt.Errorf("header %s: %q is no offset", HeaderOffset, said(5))
	}
	l.Stage, l.Code, l.Reason = said(0), said(1), said(2)
	l.Record = Record{
		Topic: said(3), Partition: int32(partition), Offset: offset, Time: rec.Time,
		Key: rec.Key, Value: rec.Value, Headers: all[:own:own],
	}
	return l, nil
}

// Redrive returns the record that goes back to where a dead letter came from,
// and the one that marks the letter, itself at rec, as redriven. They belong in
// one transaction. A letter that is not whole can't be redriven.
func Redrive(rec Record, l *BadLetter) (again, mark Out, err error) {
	if len(l.Cut) > 0 {
		return Out{}, Out{}, fmt.Errorf("its %s was too large to be kept", strings.Join(l.Cut, " and "))
	}
	r := l.Record
	again = Out{Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: slices.Clone(r.Headers)}
	mark = Out{Topic: rec.Topic, Partition: rec.Partition, Key: r.Key,
		Headers: []Header{{HeaderRedriven, strconv.AppendInt(nil, rec.Offset, 10)}}}
	return again, mark, nil
}

// RedrivenOffset is the offset of the dead letter that a record marks as
// redriven; false if it is no such mark.
func RedrivenOffset(rec Record) (int64, bool) {
	if len(rec.Headers) != 1 || rec.Headers[0].Key != HeaderRedriven {
		return 0, false
	}
	offset, err := strconv.ParseInt(string(rec.Headers[0].Value), 10, 64)
	return offset, err == nil && offset >= 0
}

// Decode reads and validates a value of any topic whose records are enveloped,
// by the kind that it says it is. Its errors are [DecodeError]s.
func Decode(b []byte) (proto.Message, error) {
	kind := Kind(0)
	if len(b) > 2 {
		kind = Kind(b[2])
	}
	switch kind {
	case KindCalled:
		return decoded(DecodeCalled(b))
	case KindReads:
		return decoded(DecodeReads(b))
	case KindCalls:
		return decoded(DecodeCalls(b))
	case KindRuns:
		return decoded(DecodeRun(b))
	case KindWatch:
		return decoded(DecodeWatch(b))
	case KindCursor:
		return decoded(DecodeCursor(b))
	case KindStatus:
		return decoded(DecodeStatus(b))
	case KindDecision:
		return decoded(DecodeDecision(b))
	case KindPush:
		return decoded(DecodePushState(b))
	default:
		return decoded(DecodeSignal(b))
	}
}

// decoded keeps a nil message from becoming one that is not.
func decoded[M proto.Message](m M, err error) (proto.Message, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}
