package stream

import (
	"math"
	"strconv"
	"strings"

	"github.com/porestream/porestream/stream/streampb"
)

// Bounds of what one report may hold.
const (
	maxStages        = 32
	maxMeasures      = 2048
	maxDistributions = 128
	maxBounds        = 64
	maxComplaints    = 64
	// maxReportedChannels is above what any flow cell has.
	maxReportedChannels = 16_384
	// MaxDepthBins bounds the bins of a region in one report.
	MaxDepthBins = 4096
	// MaxRegionModels bounds the basecalling models of a region in one report.
	MaxRegionModels = 64
)

// ChannelLetters are those that a [streampb.ChannelReport] has its states in: strand,
// adapter, pore, unblocking, multiple, saturated, zero, no pore, unavailable,
// inactive, unknown.
const ChannelLetters = "sapumtznxi?"

// EncodeStatus returns the value of a record on the status topic.
func EncodeStatus(m *streampb.Status) ([]byte, error) { return encode(KindStatus, m, validStatus(m)) }

// DecodeStatus reads and validates a value of the status topic. Its errors are
// [DecodeError]s.
func DecodeStatus(b []byte) (*streampb.Status, error) {
	m := new(streampb.Status)
	if err := firstError(decode(KindStatus, b, m), validStatus(m)); err != nil {
		return nil, err
	}
	return m, nil
}

// keyPart keeps the parts of a key apart.
func keyPart(s string) string { return keyEscapes.Replace(s) }

var keyEscapes = strings.NewReplacer("%", "%25", "/", "%2F")

// StatusKey keys a report, so that compaction keeps the newest of each process about
// each thing: itself, the channels of a run, or a region.
func StatusKey(m *streampb.Status) []byte {
	key := keyPart(m.GetInstance())
	switch body := m.GetBody().(type) {
	case *streampb.Status_Channels:
		key += "/channels/" + keyPart(body.Channels.GetRun())
	case *streampb.Status_Depth:
		key += "/depth/" + keyPart(body.Depth.GetSample()) + "/" + keyPart(body.Depth.GetContig()) + "/" +
			strconv.FormatUint(uint64(body.Depth.GetRegion()), 10)
	default:
		key += "/process"
	}
	return []byte(key)
}

func validStatus(m *streampb.Status) error {
	if err := validName("instance", m.GetInstance()); err != nil {
		return err
	}
	if m.GetSequence() == 0 || m.GetTimeMs() <= 0 {
		return decodeErrorf(CodeInvalid, "report of %s has number %d and time %d", m.GetInstance(), m.GetSequence(), m.GetTimeMs())
	}
	switch body := m.GetBody().(type) {
	case *streampb.Status_Process:
		return validProcessReport(body.Process)
	case *streampb.Status_Channels:
		return validChannels(body.Channels)
	case *streampb.Status_Depth:
		return validDepth(body.Depth)
	}
	return decodeErrorf(CodeInvalid, "report of %s says nothing that is known", m.GetInstance())
}

func validProcessReport(p *streampb.ProcessReport) error {
	if err := firstError(validName("kind", p.GetKind()), validText("version", p.GetVersion()), validText("host", p.GetHost()), validText("address", p.GetAddress())); err != nil {
		return err
	}
	if len(p.GetStages()) > maxStages || len(p.GetMeasures()) > maxMeasures || len(p.GetDistributions()) > maxDistributions || len(p.GetComplaints()) > maxComplaints {
		return decodeErrorf(CodeInvalid, "report with %d stages, %d measures, %d distributions and %d complaints", len(p.GetStages()), len(p.GetMeasures()), len(p.GetDistributions()), len(p.GetComplaints()))
	}
	for _, s := range p.GetStages() {
		if err := validName("stage", s); err != nil {
			return err
		}
	}
	for _, v := range p.GetMeasures() {
		if err := validMeasure(v.GetName(), v.GetLabels(), v.GetValue()); err != nil {
			return err
		}
	}
	for _, d := range p.GetDistributions() {
		if err := validDistribution(d); err != nil {
			return err
		}
	}
	for _, c := range p.GetComplaints() {
		if err := firstError(validText("level", c.GetLevel()), validText("message", c.GetMessage()), validText("detail", c.GetDetail())); err != nil {
			return err
		}
	}
	return nil
}

func validMeasure(name string, labels []string, value float64) error {
	if err := validName("measure", name); err != nil {
		return err
	}
	if len(labels)%2 != 0 || len(labels) > 16 {
		return decodeErrorf(CodeInvalid, "measure %s has %d names and values of labels", name, len(labels))
	}
	for _, l := range labels {
		if err := validText("label", l); err != nil {
			return err
		}
	}
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return decodeErrorf(CodeInvalid, "measure %s is %g", name, value)
	}
	return nil
}

func validDistribution(d *streampb.Distribution) error {
	if err := validMeasure(d.GetName(), d.GetLabels(), d.GetSum()); err != nil {
		return err
	}
	bounds, counts := d.GetBounds(), d.GetCounts()
	if len(bounds) > maxBounds || len(counts) != len(bounds)+1 {
		return decodeErrorf(CodeInvalid, "distribution %s has %d bounds and %d counts", d.GetName(), len(bounds), len(counts))
	}
	for i := range bounds {
		if math.IsNaN(bounds[i]) || math.IsInf(bounds[i], 0) || i > 0 && bounds[i] <= bounds[i-1] || counts[i+1] < counts[i] {
			return decodeErrorf(CodeInvalid, "distribution %s does not ascend", d.GetName())
		}
	}
	return nil
}

func validChannels(c *streampb.ChannelReport) error {
	if err := firstError(validText("source", c.GetSource()), validName("run", c.GetRun())); err != nil {
		return err
	}
	if len(c.GetStates()) > maxReportedChannels {
		return decodeErrorf(CodeInvalid, "report of %d channels", len(c.GetStates()))
	}
	for _, b := range c.GetStates() {
		if b < '?' || b > 'z' {
			return decodeErrorf(CodeInvalid, "channel in state %q", b)
		}
	}
	return nil
}

func validDepth(d *streampb.DepthReport) error {
	if err := firstError(validName("sample", d.GetSample()), validName("contig", d.GetContig())); err != nil {
		return err
	}
	start, end, bin := d.GetStart(), d.GetEnd(), int64(d.GetBin())
	switch {
	case start < 0 || start >= end || end > d.GetContigLength() || d.GetContigLength() > math.MaxInt32:
		return decodeErrorf(CodeInvalid, "depth from %d to %d of %s, which has %d bases", start, end, d.GetContig(), d.GetContigLength())
	case bin < 1 || bin > d.GetContigLength() || len(d.GetDepths()) > MaxDepthBins || int64(len(d.GetDepths())) != (end-start+bin-1)/bin:
		return decodeErrorf(CodeInvalid, "depth of %d bases of %s in %d bins of %d", end-start, d.GetContig(), len(d.GetDepths()), bin)
	case len(d.GetModels()) > MaxRegionModels:
		return decodeErrorf(CodeInvalid, "depth of %s with %d basecalling models, the limit is %d", d.GetContig(), len(d.GetModels()), MaxRegionModels)
	}
	for _, m := range d.GetModels() {
		if err := validText("basecalling model", m.GetName()); err != nil {
			return err
		}
	}
	return nil
}
