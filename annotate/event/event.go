// Package event is the public contract of the variants topic: one JSON document
// per revision of an allele in a sample, as a CloudEvent in Kafka's binary mode.
//
// Consumers fold by record key and keep the highest revision; the topic is
// compacted by that key. Unknown members are to be ignored: version 1 only ever
// gains members. docs/consume/variants.md describes the contract, and
// docs/consume/variants.schema.json is its JSON Schema.
package event

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// The CloudEvents types on the topic.
const (
	TypeVariant = "porestream.variant.v1"
	// TypeRunEnd says that one partition of the stage upstream has nothing more
	// of a run. A run is complete once all of its sources have said so.
	TypeRunEnd = "porestream.run.ended.v1"
)

// SchemaVersion is the version of [Variant] that this package writes.
const SchemaVersion = 1

// Variant is one revision of one allele in one sample.
type Variant struct {
	SchemaVersion int    `json:"schema_version"`
	Run           string `json:"run"` // run of the newest read behind the revision
	Sample        string `json:"sample"`
	Revision      uint64 `json:"revision"`
	Status        string `json:"status"`           // PROVISIONAL STABLE FINAL AMENDED RETRACTED
	Reason        string `json:"reason,omitempty"` // why it was retracted or amended

	Allele     Allele              `json:"variant"`
	Call       Call                `json:"call"`
	Annotation annotate.Annotation `json:"annotation"`

	// Haplotype says what the allele does together with others that the sample
	// carries; absent where it acts alone. It is true besides the annotation's
	// consequences, which are the allele's own.
	Haplotype []Compound `json:"haplotype,omitempty"`

	// AnnotationError says why the annotation is empty.
	AnnotationError string `json:"annotation_error,omitempty"`
	// LastChunk is when the last signal chunk of the newest read behind the
	// revision was recorded on the signal topic.
	LastChunk *time.Time `json:"last_chunk_time,omitempty"`
}

// Allele is what differs from the reference, spelled as VCF does.
type Allele struct {
	VRSID  string `json:"vrs_id"`
	Contig string `json:"contig"`
	Pos    int64  `json:"pos"` // 1-based
	Ref    string `json:"ref"`
	Alt    string `json:"alt"`
}

// AlleleOf is the allele that a call is about.
func AlleleOf(c *streampb.Call) Allele {
	return Allele{VRSID: c.GetVrsId(), Contig: c.GetContig(), Pos: c.GetPos(), Ref: c.GetRef(), Alt: c.GetAlt()}
}

// Call is the evidence.
type Call struct {
	Qual            float64 `json:"qual"` // Phred-scaled probability that the call is wrong
	GenotypeQuality uint32  `json:"gq"`   // Phred-scaled probability that Genotype is wrong
	// Genotype has a number for each haplotype: 0 the reference, 1 this allele, from 2 on Others.
	Genotype []uint32 `json:"genotype"`
	// Copies is how many haplotypes carry the allele, and Zygosity what that makes of
	// the genotype: one of the constants, or empty without a genotype. Both follow
	// from Genotype.
	Copies   int    `json:"copies,omitempty"`
	Zygosity string `json:"zygosity,omitempty"`
	// Others are the alleles that the genotype numbers from 2 on.
	Others []OtherAllele `json:"others,omitempty"`
	// PhaseSet is the position of the first heterozygous site of the phase set; 0: not phased.
	// Phased genotypes are in the order of the haplotypes.
	PhaseSet int64 `json:"phase_set,omitempty"`
	// PhredLikelihoods are of the genotypes of the reference and this allele: 0 and 1,
	// or 0/0, 0/1 and 1/1. The least is 0.
	PhredLikelihoods []uint32 `json:"pl,omitempty"`
	Filters          []string `json:"filters,omitempty"` // none: PASS
	// Motif is what the filter MotifArtifact goes by.
	Motif *Motif `json:"motif,omitempty"`
	// CarryOver is what the filter CarryOver goes by; absent: the run has no control, or nothing was assessed yet.
	CarryOver  *CarryOver `json:"carry_over,omitempty"`
	Depth      uint32     `json:"depth"`
	RefForward uint32     `json:"ref_forward"`
	RefReverse uint32     `json:"ref_reverse"`
	AltForward uint32     `json:"alt_forward"`
	AltReverse uint32     `json:"alt_reverse"`
	// ModelMismatch are basecalling models of the reads around that the variant model was not
	// made for, the most frequent first; none: there are none, or nobody knows.
	ModelMismatch []string `json:"model_mismatch,omitempty"`
	// Reads that show neither this allele nor the reference.
	OtherForward uint32 `json:"other_forward,omitempty"`
	OtherReverse uint32 `json:"other_reverse,omitempty"`
}

// CarryOverFilter is the filter of a call that carry-over explains; variant/carryover gives VCF records the same.
const CarryOverFilter = "CarryOver"

// CarryOver is how much of an allele's reads got in from other samples of the run, or from what its controls show.
type CarryOver struct {
	Explained bool     `json:"explained"`       // the allele can't be distinguished from carry-over
	Share     *float64 `json:"share,omitempty"` // of its reads that are carried over at most; absent: no control bounds it
	Basis     string   `json:"basis"`           // what Share goes by, or why there is none
	// Control is the control that shows the allele most, with its reads that show it and those that could show it.
	Control      string `json:"control"`
	ControlAlt   uint32 `json:"control_alt"`
	ControlDepth uint32 `json:"control_depth"`
}

// String is what carry-over explains, for people.
func (c *CarryOver) String() string {
	control := fmt.Sprintf("control %s: %d of %d reads", c.Control, c.ControlAlt, c.ControlDepth)
	if c.Share == nil && c.Basis == "silent_control" {
		return fmt.Sprintf("control %s has no read at any allele, so carry-over is not bounded; few reads are marked beside an empty control", c.Control)
	}
	if c.Share == nil {
		return "carry-over is not bounded (" + control + ")"
	}
	source := "reads of other samples"
	switch c.Basis {
	case "no_source":
		return "no other sample and no control shows it (" + control + ")"
	case "contamination":
		source = "what the controls show"
	}
	return fmt.Sprintf("at most %.0f %% of its reads are carry-over, by %s (%s)", 100**c.Share, source, control)
}

// Motif is a motif that reads of one strand get wrong, as the region of a million positions shows it
// that the allele is in.
type Motif struct {
	Motif    string `json:"motif"`    // IUPAC letters, in the reads' direction
	Base     uint32 `json:"base"`     // which of its bases is read wrong, from 1
	Shows    string `json:"shows"`    // the base that reads show instead
	Sites    uint32 `json:"sites"`    // of the motif, on either strand, where reads of both strands lie
	Affected uint32 `json:"affected"` // of these, where one strand's reads show it
	Reads    uint64 `json:"reads"`    // of that strand at the affected sites
	Wrong    uint64 `json:"wrong"`    // of these, that show it
}

// OtherAllele is an alternate allele of a genotype besides the call's own. It has
// events of its own.
type OtherAllele struct {
	Pos int64  `json:"pos"` // 1-based
	Ref string `json:"ref"`
	Alt string `json:"alt"`
}

// What the genotype of a sample is.
const (
	ZygosityHemizygous   = "hemizygous"   // one haplotype, which carries the allele
	ZygosityHomozygous   = "homozygous"   // all haplotypes carry the allele
	ZygosityHeterozygous = "heterozygous" // some do
	ZygosityReference    = "reference"    // none does
)

// zygosity counts the haplotypes that carry the call's allele and names what that
// makes of the genotype.
func zygosity(genotype []uint32) (copies int, name string) {
	for _, n := range genotype {
		if n == 1 {
			copies++
		}
	}
	switch {
	case len(genotype) == 0:
		return 0, ""
	case copies == 0:
		return 0, ZygosityReference
	case copies < len(genotype):
		return copies, ZygosityHeterozygous
	case copies == 1:
		return 1, ZygosityHemizygous
	}
	return copies, ZygosityHomozygous
}

// FromCall returns the event of a call and its annotation.
func FromCall(c *streampb.Call, a annotate.Annotation) Variant {
	v := Variant{
		SchemaVersion: SchemaVersion,
		Run:           c.GetRun(), Sample: c.GetSample(),
		Revision: c.GetRevision(), Status: c.GetStatus().String(), Reason: c.GetReason(),
		Allele: AlleleOf(c),
		Call: Call{
			Qual: c.GetQual(), GenotypeQuality: c.GetGenotypeQuality(),
			Genotype: append([]uint32{}, c.GetGenotype()...), // a list even when it is empty
			Filters:  c.GetFilters(),
			Depth:    c.GetDepth(), RefForward: c.GetRefForward(), RefReverse: c.GetRefReverse(),
			AltForward: c.GetAltForward(), AltReverse: c.GetAltReverse(),
			OtherForward: c.GetOtherForward(), OtherReverse: c.GetOtherReverse(),
			PhaseSet: c.GetPhaseSet(), PhredLikelihoods: c.GetPhredLikelihoods(), ModelMismatch: c.GetModelMismatch(),
		},
		Annotation: a,
	}
	v.Call.Copies, v.Call.Zygosity = zygosity(c.GetGenotype())
	for _, o := range c.GetOthers() {
		v.Call.Others = append(v.Call.Others, OtherAllele{Pos: o.GetPos(), Ref: o.GetRef(), Alt: o.GetAlt()})
	}
	v.Call.Motif = MotifOf(c)
	v.LastChunk = LastChunkOf(c)
	return v
}

// LastChunkOf is when the last signal chunk of the newest read behind a call came; nil: that isn't known.
func LastChunkOf(c *streampb.Call) *time.Time {
	ms := c.GetLastChunkMs()
	if ms <= 0 {
		return nil
	}
	t := time.UnixMilli(ms).UTC()
	return &t
}

// Passed reports whether the revision stands and passed all filters.
func (v Variant) Passed() bool {
	return v.Status != streampb.CallStatus_RETRACTED.String() && len(v.Call.Filters) == 0
}

// ToCall is the call within an event.
func (v Variant) ToCall() *streampb.Call {
	c := &streampb.Call{
		Run: v.Run, Sample: v.Sample, Revision: v.Revision, Reason: v.Reason,
		Status: streampb.CallStatus(streampb.CallStatus_value[v.Status]),
		VrsId:  v.Allele.VRSID, Contig: v.Allele.Contig, Pos: v.Allele.Pos, Ref: v.Allele.Ref, Alt: v.Allele.Alt,
		Qual: v.Call.Qual, GenotypeQuality: v.Call.GenotypeQuality, Genotype: v.Call.Genotype, Filters: v.Call.Filters,
		Depth: v.Call.Depth, RefForward: v.Call.RefForward, RefReverse: v.Call.RefReverse,
		AltForward: v.Call.AltForward, AltReverse: v.Call.AltReverse,
		OtherForward: v.Call.OtherForward, OtherReverse: v.Call.OtherReverse,
		PhaseSet: v.Call.PhaseSet, PhredLikelihoods: v.Call.PhredLikelihoods, ModelMismatch: v.Call.ModelMismatch,
	}
	for _, o := range v.Call.Others {
		c.Others = append(c.Others, &streampb.OtherAllele{Pos: o.Pos, Ref: o.Ref, Alt: o.Alt})
	}
	if m := v.Call.Motif; m != nil {
		c.Motif = &streampb.MotifError{Motif: m.Motif, Base: m.Base, Shows: m.Shows, Sites: m.Sites, Affected: m.Affected, Reads: m.Reads, Wrong: m.Wrong}
	}
	if v.LastChunk != nil {
		c.LastChunkMs = v.LastChunk.UnixMilli()
	}
	return c
}

// JSON is the event's document, without a line end.
func (v Variant) JSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // HGVS is full of ">"
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding variant %s: %w", v.Allele.VRSID, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Record returns the record that carries v on topic.
func (v Variant) Record(topic string) (stream.Out, error) {
	value, err := v.JSON()
	if err != nil {
		return stream.Out{}, err
	}
	key := stream.AlleleKey(v.Sample, v.Allele.VRSID)
	headers := CloudEvent(TypeVariant, v.Run, ID(TypeVariant, v.Run, string(key)+"/"+strconv.FormatUint(v.Revision, 10)))
	headers = append(headers,
		stream.Header{Key: "ce_subject", Value: fmt.Appendf(nil, "%s:%d:%s:%s", v.Allele.Contig, v.Allele.Pos, v.Allele.Ref, v.Allele.Alt)},
		stream.Header{Key: "ce_partitionkey", Value: key},
	)
	if v.LastChunk != nil {
		headers = append(headers, stream.Header{Key: "ce_time", Value: []byte(v.LastChunk.Format(time.RFC3339Nano))})
	}
	return stream.Out{Topic: topic, Partition: stream.AnyPartition, Key: key, Value: value, Headers: headers}, nil
}

// RunEnd says that source of sources has nothing more of a run.
type RunEnd struct {
	Run    string `json:"run"`
	Sample string `json:"sample"`
	// Samples are those that the run was taken apart into by barcodes; none if it
	// was not.
	Samples []string `json:"samples,omitempty"`
	Source  uint32   `json:"source"`
	Sources uint32   `json:"sources"`
	// Status is how it ended: one of the End constants; empty from earlier versions,
	// which knew of normal ends alone.
	Status string `json:"status,omitempty"`
}

// How a run ended.
const (
	EndNormal  = "normal"  // everything that was recorded has been processed
	EndTimeout = "timeout" // nothing came for too long; it may come back
	EndAborted = "aborted" // its sender gave up
)

// endStatus is how a marker says that its run ended.
func endStatus(mk *streampb.Marker) string {
	switch mk.GetEndStatus() {
	case streampb.EndStatus_END_STATUS_TIMEOUT:
		return EndTimeout
	case streampb.EndStatus_END_STATUS_ABORTED:
		return EndAborted
	default:
		return EndNormal
	}
}

// RunEndRecords are the records that announce it to every partition of topic.
func RunEndRecords(topic string, partitions int32, mk *streampb.Marker) ([]stream.Out, error) {
	status := endStatus(mk)
	value, err := json.Marshal(RunEnd{
		Run: mk.GetRun().GetId(), Sample: mk.GetRun().GetSample(), Samples: mk.GetRun().GetSamples(), Source: mk.GetSource(), Sources: mk.GetSources(), Status: status,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the end of run %s: %w", mk.GetRun().GetId(), err)
	}
	outs := stream.Broadcast(topic, partitions, mk, true, value)
	for i := range outs {
		run, identity := mk.GetRun().GetId(), string(outs[i].Key)
		if status != EndNormal { // keeps the ids that normal ends have had from the first version on
			identity += "\x00" + status
		}
		outs[i].Headers = CloudEvent(TypeRunEnd, run, ID(TypeRunEnd, run, identity))
	}
	return outs, nil
}

// CloudEvent returns the attributes that every event about a run has, as headers.
func CloudEvent(typ, run, id string) []stream.Header {
	return []stream.Header{
		{Key: "ce_specversion", Value: []byte("1.0")},
		{Key: "ce_id", Value: []byte(id)},
		{Key: "ce_source", Value: []byte("urn:porestream:run:" + url.PathEscape(run))},
		{Key: "ce_type", Value: []byte(typ)},
		{Key: "content-type", Value: []byte("application/json")},
	}
}

// ID follows from what the event says, so an event that is sent again keeps
// its id.
func ID(typ, run, identity string) string {
	sum := sha256.Sum256([]byte(typ + "\x00" + run + "\x00" + identity))
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// Decode reads a record of the variants topic: one of the results is set.
// Records of types that this package doesn't know give none.
func Decode(rec stream.Record) (*Variant, *RunEnd, error) {
	switch TypeOf(rec) {
	case TypeVariant:
		v := new(Variant)
		if err := json.Unmarshal(rec.Value, v); err != nil {
			return nil, nil, place(rec, err)
		}
		if v.Sample == "" || v.Allele.VRSID == "" || v.Revision == 0 {
			return nil, nil, place(rec, errors.New("a variant needs sample, variant.vrs_id and revision"))
		}
		return v, nil, nil
	case TypeRunEnd:
		e := new(RunEnd)
		if err := json.Unmarshal(rec.Value, e); err != nil {
			return nil, nil, place(rec, err)
		}
		if e.Run == "" || e.Source >= e.Sources {
			return nil, nil, place(rec, fmt.Errorf("end of run %q by source %d of %d", e.Run, e.Source, e.Sources))
		}
		return nil, e, nil
	}
	return nil, nil, nil
}
