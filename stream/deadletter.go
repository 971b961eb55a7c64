package stream

import (
	"strconv"
	"strings"
)

// Headers of a dead letter. The key, the value and the headers of the record
// itself are kept as they were, in front of these.
const (
	HeaderStage     = "porestream-stage"     // stage that could not process it
	HeaderCode      = "porestream-code"      // reason code, e.g. "checksum"
	HeaderReason    = "porestream-reason"    // one sentence
	HeaderTopic     = "porestream-topic"     // where it came from
	HeaderPartition = "porestream-partition" //
	HeaderOffset    = "porestream-offset"    //
	// HeaderCut lists what of the record was too large to keep: "value" and
	// "key" are cut off, "headers" are left out. The record itself stays at its
	// offset for as long as its topic keeps it.
	HeaderCut = "porestream-cut"
)

// Bounds of what a dead letter keeps of a record. Together they stay within
// what a broker takes, so that a record that was only just accepted upstream
// can't block its partition here.
const (
	maxDeadValue   = envelopeLen + MaxRecord
	maxDeadKey     = 4 << 10
	maxDeadHeaders = 16 << 10
	maxReason      = 4 << 10
)

// DeadLetter is the record that keeps rec, which stage could not process
// because of err, on topic.
func DeadLetter(topic string, rec Record, stage string, err error) Out {
	var cut []string
	value, key, headers := rec.Value, rec.Key, rec.Headers
	if len(value) > maxDeadValue {
		value, cut = value[:maxDeadValue], append(cut, "value")
	}
	if len(key) > maxDeadKey {
		key, cut = key[:maxDeadKey], append(cut, "key")
	}
	size := 0
	for _, h := range headers {
		size += len(h.Key) + len(h.Value) + 10 // two varint lengths
	}
	if size > maxDeadHeaders {
		headers, cut = nil, append(cut, "headers")
	}
	reason := err.Error()
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "")
	}

	all := make([]Header, 0, len(headers)+7)
	all = append(all, headers...)
	add := func(key, value string) { all = append(all, Header{Key: key, Value: []byte(value)}) }
	add(HeaderStage, stage)
	add(HeaderCode, ErrorCode(err))
	add(HeaderReason, reason)
	add(HeaderTopic, rec.Topic)
	add(HeaderPartition, strconv.Itoa(int(rec.Partition)))
	add(HeaderOffset, strconv.FormatInt(rec.Offset, 10))
	if len(cut) > 0 {
		add(HeaderCut, strings.Join(cut, ","))
	}
	return Out{Topic: topic, Partition: AnyPartition, Key: key, Value: value, Headers: all}
}
