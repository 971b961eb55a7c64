package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// TypeReference says what a sample has, at the end, in a stretch where nothing was
// called. TypeProvisionalReference says it before: who doesn't know it ignores it.
const (
	TypeReference            = "porestream.reference.v1"
	TypeProvisionalReference = "porestream.reference.provisional.v1"
)

// Reference is one revision of it: the blocks and the spans that begin in the stretch.
// They may end behind it. docs/consume/variants.md describes the JSON.
type Reference struct {
	SchemaVersion int    `json:"schema_version"`
	Run           string `json:"run"` // run whose end made it final, or, of a provisional one, whose read was the newest
	Sample        string `json:"sample"`
	Revision      uint64 `json:"revision"`
	// Provisional says that the sample goes on. Such an event never replaces one that isn't.
	Provisional bool `json:"provisional,omitempty"`

	Stretch  Stretch          `json:"stretch"`
	Blocks   []ReferenceBlock `json:"blocks,omitempty"`
	Callable []CallableSpan   `json:"callable,omitempty"`
}

// Stretch is positions of a contig, 1-based, the last included.
type Stretch struct {
	Contig string `json:"contig"`
	Pos    int64  `json:"pos"`
	End    int64  `json:"end"`
}

// ReferenceBlock is positions that say equally surely that there is no variant.
type ReferenceBlock struct {
	Pos      int64  `json:"pos"` // 1-based
	End      int64  `json:"end"` // the last position
	Depth    uint32 `json:"depth"`
	MinDepth uint32 `json:"min_depth"`
	Quality  uint32 `json:"gq"`
	// PhredLikelihoods are of the genotypes of the reference and any other allele: 0
	// and 1, or 0/0, 0/1 and 1/1.
	PhredLikelihoods []uint32 `json:"pl"`
}

// CallableSpan is positions of one callability.
type CallableSpan struct {
	Pos         int64  `json:"pos"` // 1-based
	End         int64  `json:"end"` // the last position
	Callability string `json:"callability"`
}

// callabilities are the names of callabilities, as in a callable BED.
var callabilities = map[streampb.Callability]string{
	streampb.Callability_CALLABILITY_AMBIGUOUS:           "N",
	streampb.Callability_CALLABILITY_NO_COVERAGE:         "NO_COVERAGE",
	streampb.Callability_CALLABILITY_CALLABLE:            "CALLABLE",
	streampb.Callability_CALLABILITY_LOW_MAPPING_QUALITY: "LOW_MAPPING_QUALITY",
	streampb.Callability_CALLABILITY_LOW_DEPTH:           "LOW_DEPTH",
}

// FromReference is the event of a record of the calls topic.
func FromReference(r *streampb.Reference) Reference {
	out := Reference{
		SchemaVersion: SchemaVersion, Run: r.GetRun(), Sample: r.GetSample(), Revision: r.GetRevision(), Provisional: r.GetProvisional(),
		Stretch: Stretch{Contig: r.GetContig(), Pos: r.GetStart() + 1, End: r.GetEnd()},
	}
	for _, b := range r.GetBlocks() {
		out.Blocks = append(out.Blocks, ReferenceBlock{
			Pos: b.GetStart() + 1, End: b.GetEnd(), Depth: b.GetDepth(), MinDepth: b.GetMinDepth(), Quality: b.GetQuality(),
			PhredLikelihoods: b.GetPhredLikelihoods(),
		})
	}
	for _, s := range r.GetCallable() {
		out.Callable = append(out.Callable, CallableSpan{Pos: s.GetStart() + 1, End: s.GetEnd(), Callability: callabilities[s.GetCallability()]})
	}
	return out
}

// Record is the event as a record of a topic. Sent again it is the same.
func (r Reference) Record(topic string) (stream.Out, error) {
	value, err := json.Marshal(r)
	if err != nil {
		return stream.Out{}, fmt.Errorf("encoding what is reported of %s:%d-%d: %w", r.Stretch.Contig, r.Stretch.Pos, r.Stretch.End, err)
	}
	typ, key := TypeReference, stream.ReferenceKey(r.Sample, r.Stretch.Contig, r.Stretch.Pos-1)
	if r.Provisional { // a key of its own, so that compaction never takes one of the end for it
		typ, key = TypeProvisionalReference, append(key, "\x00provisional"...)
	}
	headers := append(CloudEvent(typ, r.Run, ID(typ, r.Run, string(key)+"/"+strconv.FormatUint(r.Revision, 10))),
		stream.Header{Key: "ce_subject", Value: fmt.Appendf(nil, "%s:%d-%d", r.Stretch.Contig, r.Stretch.Pos, r.Stretch.End)},
		stream.Header{Key: "ce_partitionkey", Value: key})
	return stream.Out{Topic: topic, Partition: stream.AnyPartition, Key: key, Value: value, Headers: headers}, nil
}

// DecodeReference reads a record of the variants topic; nil is an event of another
// type.
func DecodeReference(rec stream.Record) (*Reference, error) {
	typ := TypeOf(rec)
	if typ != TypeReference && typ != TypeProvisionalReference {
		return nil, nil
	}
	r := new(Reference)
	err := json.Unmarshal(rec.Value, r)
	if err == nil && (r.Sample == "" || r.Stretch.Contig == "" || r.Revision == 0 || r.Stretch.Pos < 1 || r.Stretch.End < r.Stretch.Pos) {
		err = errors.New("a reference needs sample, revision and stretch")
	}
	if err != nil {
		return nil, place(rec, err)
	}
	r.Provisional = typ == TypeProvisionalReference
	return r, nil
}

// TypeOf is the CloudEvents type of a record.
func TypeOf(rec stream.Record) string {
	typ := ""
	for _, h := range rec.Headers {
		if h.Key == "ce_type" {
			typ = string(h.Value)
		}
	}
	return typ
}

// place says where a record was that can't be read.
func place(rec stream.Record, err error) error {
	return fmt.Errorf("decoding record %d of %s/%d: %w", rec.Offset, rec.Topic, rec.Partition, err)
}
