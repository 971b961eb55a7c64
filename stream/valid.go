package stream

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/porestream/porestream/stream/streampb"
)

// What a well-formed message has to say to make sense. Readers refuse what
// breaks these rules as [CodeInvalid], and writers don't write it.

func validSignal(m *streampb.SignalRecord) error {
	switch body := m.GetBody().(type) {
	case *streampb.SignalRecord_RunStart:
		return validMarker(body.RunStart)
	case *streampb.SignalRecord_RunEnd:
		return validMarker(body.RunEnd)
	case *streampb.SignalRecord_Chunk:
		return validChunk(body.Chunk)
	}
	return decodeErrorf(CodeInvalid, "record holds neither a chunk nor a marker")
}

func validReads(m *streampb.ReadRecord) error {
	switch body := m.GetBody().(type) {
	case *streampb.ReadRecord_RunStart:
		return validMarker(body.RunStart)
	case *streampb.ReadRecord_RunEnd:
		return validMarker(body.RunEnd)
	case *streampb.ReadRecord_Segment:
		return validSegment(body.Segment, 0, 0)
	case *streampb.ReadRecord_Partial:
		return validSegment(body.Partial, 1, maxPartial)
	case *streampb.ReadRecord_Withdrawal:
		w := body.Withdrawal
		return firstError(
			validName("run", w.GetRun()), validName("sample", w.GetSample()),
			validName("read id", w.GetReadId()), validName("contig", w.GetContig()))
	case *streampb.ReadRecord_Model:
		return validModelName(body.Model)
	case *streampb.ReadRecord_ModifiedCalls:
		return validModifiedCalls(body.ModifiedCalls)
	case *streampb.ReadRecord_ModifiedPlaces:
		return validModifiedPlaces(body.ModifiedPlaces)
	case *streampb.ReadRecord_ModifiedMotifs:
		return validModifiedMotifs(body.ModifiedMotifs)
	case *streampb.ReadRecord_ReadHaplotypes:
		return validReadHaplotypes(body.ReadHaplotypes)
	case *streampb.ReadRecord_HaplotypesKnown:
		return validHaplotypesKnown(body.HaplotypesKnown)
	case *streampb.ReadRecord_CarryOverQuery:
		return validCarryOverQuery(body.CarryOverQuery)
	case *streampb.ReadRecord_CarryOverReport:
		return validCarryOverReport(body.CarryOverReport)
	}
	return decodeErrorf(CodeInvalid, "record holds neither a segment nor a withdrawal nor a model's name nor calls, places or motifs of modified bases nor haplotypes nor of carry-over nor a marker")
}

// maxParts bounds the records that one query or report is spread over.
const maxParts = 10_000

func validPart(part, parts uint32) error {
	if parts == 0 || parts > maxParts || part >= parts {
		return decodeErrorf(CodeInvalid, "part %d of %d of what is asked or reported", part, parts)
	}
	return nil
}

// validSource reports whether a record comes from one of the sources that it counts.
func validSource(what string, m interface {
	GetSource() uint32
	GetSources() uint32
}) error {
	if source, sources := m.GetSource(), m.GetSources(); sources == 0 || sources > maxSources || source >= sources {
		return decodeErrorf(CodeInvalid, "%s %d of %d", what, source, sources)
	}
	return nil
}

// validNames reports whether names are ascending, each once.
func validNames(field string, names []string) error {
	for i, name := range names {
		if err := validName(field, name); err != nil {
			return err
		}
		if i > 0 && name <= names[i-1] {
			return decodeErrorf(CodeInvalid, "%s %q doesn't come behind %q", field, name, names[i-1])
		}
	}
	return nil
}

func validCarryOverQuery(q *streampb.CarryOverQuery) error {
	if err := firstError(validPart(q.GetPart(), q.GetParts()), validNames("sample", q.GetSamples())); err != nil {
		return err
	}
	if q.GetId() == 0 {
		return decodeErrorf(CodeInvalid, "query about carry-over without an id")
	}
	for _, a := range q.GetAlleles() {
		if err := validAlleles(a, false); err != nil {
			return err
		}
	}
	return nil
}

// validAlleles checks alleles of a contig; called: of a sample.
func validAlleles(a *streampb.Alleles, called bool) error {
	if err := validName("contig", a.GetContig()); err != nil {
		return err
	}
	ids := 0
	if called {
		if err := validName("sample", a.GetSample()); err != nil {
			return err
		}
		ids = len(a.GetPositions())
	}
	if n := len(a.GetPositions()); n != len(a.GetRefs()) || n != len(a.GetAlts()) || ids != len(a.GetVrsIds()) {
		return decodeErrorf(CodeInvalid, "%d positions of alleles on %s have %d references, %d alternatives and %d ids", n, a.GetContig(), len(a.GetRefs()), len(a.GetAlts()), len(a.GetVrsIds()))
	}
	for i, pos := range a.GetPositions() {
		ref, alt := a.GetRefs()[i], a.GetAlts()[i]
		isOne := isAllele(pos, ref, alt)
		if !called { // what changes alone, of which one may be nothing
			isOne = pos >= 0 && ref != alt && len(ref) <= maxAllele && len(alt) <= maxAllele
		}
		if !isOne || i > 0 && pos < a.GetPositions()[i-1] {
			return decodeErrorf(CodeInvalid, "allele at %d of %s replaces %d bases by %d, or isn't in order", pos, a.GetContig(), len(ref), len(alt))
		}
		if called {
			if err := validName("VRS id", a.GetVrsIds()[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func validCarryOverReport(m *streampb.CarryOverReport) error {
	if err := firstError(validSource("report of carry-over by partition", m), validPart(m.GetPart(), m.GetParts()), validNames("run", m.GetEnded())); err != nil {
		return err
	}
	if m.GetQuery() == 0 && len(m.GetCalled())+len(m.GetReads()) > 0 {
		return decodeErrorf(CodeInvalid, "report of carry-over that no query asked for, with %d lists of alleles and %d of reads", len(m.GetCalled()), len(m.GetReads()))
	}
	for _, a := range m.GetCalled() {
		if err := validAlleles(a, true); err != nil {
			return err
		}
	}
	for _, r := range m.GetReads() {
		if err := firstError(validName("sample", r.GetSample()), validName("contig", r.GetContig())); err != nil {
			return err
		}
		if r.GetRun() != "" { // earlier versions name none
			if err := validName("run", r.GetRun()); err != nil {
				return err
			}
		}
		if n := len(r.GetDepth()); n == 0 || n != len(r.GetAlt()) || n != len(r.GetLeft()) {
			return decodeErrorf(CodeInvalid, "reads of %s at %d alleles, of which %d show them and %d are left", r.GetSample(), len(r.GetDepth()), len(r.GetAlt()), len(r.GetLeft()))
		}
		for i, alt := range r.GetAlt() {
			if alt > r.GetDepth()[i] {
				return decodeErrorf(CodeInvalid, "%d of %d reads of %s show an allele", alt, r.GetDepth()[i], r.GetSample())
			}
		}
	}
	return nil
}

// maxBaseCalls bounds the probabilities that calls of one base may have: there are 512ths, and sums of rounded ones.
const maxBaseCalls = 1024

func validModifiedCalls(m *streampb.ModifiedCalls) error {
	if err := validSource("calls of modified bases of partition", m); err != nil {
		return err
	}
	for _, s := range m.GetSamples() {
		if err := validName("sample", s.GetSample()); err != nil {
			return err
		}
		if len(s.GetRuns()) == 0 || !slices.IsSorted(s.GetRuns()) {
			return decodeErrorf(CodeInvalid, "calls of modified bases of sample %s: its %d runs are none, or not ascending", s.GetSample(), len(s.GetRuns()))
		}
		for _, run := range s.GetRuns() {
			if err := validName("run", run); err != nil {
				return err
			}
		}
		for i, b := range s.GetBases() {
			p := b.GetProbabilities()
			switch {
			case b.GetBase() > 3 || i > 0 && b.GetBase() <= s.GetBases()[i-1].GetBase():
				return decodeErrorf(CodeInvalid, "calls of modified bases of sample %s: base %d", s.GetSample(), b.GetBase())
			case len(p) == 0 || len(p) != len(b.GetCalls()) || !slices.IsSorted(p) || p[len(p)-1] >= maxBaseCalls:
				return decodeErrorf(CodeInvalid, "calls of modified bases of sample %s: %d probabilities with %d counts, or not ascending", s.GetSample(), len(p), len(b.GetCalls()))
			}
		}
	}
	return nil
}

// maxContext bounds the bases around a place: 29 of two bits.
const maxContext = 1 << 58

func validModifiedPlaces(m *streampb.ModifiedPlaces) error {
	if err := firstError(validSource("places of modified bases of partition", m), validName("sample", m.GetSample()), validNames("run", m.GetRuns()), validPart(m.GetPart(), m.GetParts())); err != nil {
		return err
	}
	for _, p := range m.GetPlaces() {
		if c := p.GetCode(); c == 0 || c > 'z' {
			return decodeErrorf(CodeInvalid, "places of modified bases of sample %s: code %d", m.GetSample(), c)
		}
		for _, list := range [][]uint64{p.GetModified(), p.GetOthers()} {
			if !slices.IsSorted(list) || len(list) > 0 && list[len(list)-1] >= maxContext {
				return decodeErrorf(CodeInvalid, "places of modified bases of sample %s: they have more than 29 bases, or aren't ascending", m.GetSample())
			}
		}
	}
	return nil
}

// maxMotifs and maxMotifLetters bound the motifs of a sample.
const maxMotifs, maxMotifLetters = 4096, 64

func validModifiedMotifs(m *streampb.ModifiedMotifs) error {
	if err := firstError(validName("sample", m.GetSample()), validNames("run", m.GetRuns())); err != nil {
		return err
	}
	if n := len(m.GetMotifs()); n > maxMotifs {
		return decodeErrorf(CodeInvalid, "%d motifs of sample %s", n, m.GetSample())
	}
	for _, letters := range m.GetMotifs() {
		if !isMotif(letters, maxMotifLetters) {
			return decodeErrorf(CodeInvalid, "motif of sample %s: it has %d letters, and 1 to %d of IUPAC's for bases are possible", m.GetSample(), len(letters), maxMotifLetters)
		}
	}
	return nil
}

func validReadHaplotypes(m *streampb.ReadHaplotypes) error {
	if err := firstError(validName("sample", m.GetSample()), validName("contig", m.GetContig()), validPart(m.GetPart(), m.GetParts())); err != nil {
		return err
	}
	where := fmt.Sprintf("haplotypes of reads of region %d of %s", m.GetRegion(), m.GetContig())
	if by := int64(m.GetOf()) - int64(m.GetRegion()); by < -1 || by > 1 {
		return decodeErrorf(CodeInvalid, "%s: region %d isn't beside it", where, m.GetOf())
	}
	n, sets := len(m.GetHaplotypes()), m.GetPhaseSets()
	if len(m.GetReads()) != n*readKeyBytes || len(m.GetWeights()) != n {
		return decodeErrorf(CodeInvalid, "%s: %d haplotypes, %d bytes of reads and %d weights", where, n, len(m.GetReads()), len(m.GetWeights()))
	}
	for i, set := range sets {
		if set < 1 || i > 0 && set <= sets[i-1] {
			return decodeErrorf(CodeInvalid, "%s: phase set %d is none, or not ascending", where, set)
		}
	}
	reads := m.GetReads()
	for i, haplotype := range m.GetHaplotypes() {
		if int(haplotype/2) >= len(sets) {
			return decodeErrorf(CodeInvalid, "%s: phase set %d of %d", where, haplotype/2, len(sets))
		}
		if at := i * readKeyBytes; i > 0 && bytes.Compare(reads[at-readKeyBytes:at], reads[at:at+readKeyBytes]) >= 0 {
			return decodeErrorf(CodeInvalid, "%s: reads aren't ascending", where)
		}
	}
	return nil
}

// readKeyBytes is how many bytes stand for a read in what is said of haplotypes.
const readKeyBytes = 16

func validHaplotypesKnown(m *streampb.HaplotypesKnown) error {
	if err := validSource("haplotypes known to partition", m); err != nil {
		return err
	}
	var names []string
	for _, s := range m.GetSamples() {
		if len(s.GetRuns()) == 0 {
			return decodeErrorf(CodeInvalid, "haplotypes of sample %s: it has no runs", s.GetSample())
		}
		if err := validNames("run", s.GetRuns()); err != nil {
			return err
		}
		names = append(names, s.GetSample())
	}
	return validNames("sample", names)
}

func validModelName(m *streampb.ModelName) error {
	if err := validName("basecalling model", m.GetName()); err != nil {
		return err
	}
	if want := ModelNumber(m.GetName()); m.GetNumber() != want {
		return decodeErrorf(CodeInvalid, "basecalling model %q has number %d, not %d", m.GetName(), m.GetNumber(), want)
	}
	return nil
}

// maxPartial bounds how often a read is published: each time it is twice as long.
const maxPartial = 64

// validSegment leaves what is inside the segment to those who have the reference at hand.
func validSegment(s *streampb.Segment, least, most uint32) error {
	if n := s.GetPartial(); n < least || n > most {
		return decodeErrorf(CodeInvalid, "segment of read %s was published %d times before its end, and %d to %d are possible", s.GetReadId(), n, least, most)
	}
	return firstError(
		validName("run", s.GetRun()), validName("sample", s.GetSample()),
		validName("read id", s.GetReadId()), validName("contig", s.GetContig()))
}

func validCalls(m *streampb.CallRecord) error {
	switch body := m.GetBody().(type) {
	case *streampb.CallRecord_RunStart:
		return validMarker(body.RunStart)
	case *streampb.CallRecord_RunEnd:
		return validMarker(body.RunEnd)
	case *streampb.CallRecord_Call:
		return validCall(body.Call)
	case *streampb.CallRecord_Coverage:
		return validCoverage(body.Coverage)
	case *streampb.CallRecord_Reference:
		return validReference(body.Reference)
	case *streampb.CallRecord_CarryOver:
		return validCarryOver(body.CarryOver)
	case *streampb.CallRecord_CarryOverEnd:
		return validName("run", body.CarryOverEnd.GetRun())
	}
	return decodeErrorf(CodeInvalid, "record holds neither a call nor coverage nor blocks nor a marker")
}

// isAllele reports whether ref and alt are bases at a place, of a bounded number.
func isAllele(pos int64, ref, alt string) bool {
	return pos >= 1 && ref != "" && alt != "" && len(ref) <= maxAllele && len(alt) <= maxAllele
}

func validCarryOver(c *streampb.CarryOver) error {
	if err := firstError(
		validName("run", c.GetRun()), validName("sample", c.GetSample()), validName("contig", c.GetContig()),
		validName("basis", c.GetBasis()), validText("control", c.GetControl())); err != nil {
		return err
	}
	switch {
	case !isAllele(c.GetPos(), c.GetRef(), c.GetAlt()):
		return decodeErrorf(CodeInvalid, "carry-over of an allele at %d that replaces %d bases by %d", c.GetPos(), len(c.GetRef()), len(c.GetAlt()))
	case !(c.GetShare() >= 0 && c.GetShare() <= 1):
		return decodeErrorf(CodeInvalid, "carry-over at %d has a share of %v", c.GetPos(), c.GetShare())
	case c.GetControlAlt() > c.GetControlDepth():
		return decodeErrorf(CodeInvalid, "carry-over at %d: %d of %d reads of the control show it", c.GetPos(), c.GetControlAlt(), c.GetControlDepth())
	}
	return nil
}

func validWatch(m *streampb.WatchRecord) error {
	if err := validText("panels", m.GetPanels()); err != nil {
		return err
	}
	switch body := m.GetBody().(type) {
	case *streampb.WatchRecord_RunStart:
		return validMarker(body.RunStart)
	case *streampb.WatchRecord_RunEnd:
		return validMarker(body.RunEnd)
	case *streampb.WatchRecord_Variant:
		// The package that knows the document's members validates it.
		if len(body.Variant) == 0 {
			return decodeErrorf(CodeInvalid, "variant is empty")
		}
		return nil
	case *streampb.WatchRecord_Coverage:
		return validCoverage(body.Coverage)
	case *streampb.WatchRecord_Methylation:
		return validMethylation(body.Methylation)
	case *streampb.WatchRecord_MethylationEnd:
		return validMarker(body.MethylationEnd)
	}
	return decodeErrorf(CodeInvalid, "record holds neither a variant nor coverage nor methylation nor a marker")
}

// maxCode bounds the code of a modification.
const maxCode = 16

func validMethylation(m *streampb.Methylation) error {
	if err := firstError(validName("sample", m.GetSample()), validName("contig", m.GetContig()), validName("code", m.GetCode()), validText("run", m.GetRun())); err != nil {
		return err
	}
	where := fmt.Sprintf("methylation of %s from %d to %d", m.GetContig(), m.GetStart(), m.GetEnd())
	size := m.GetEnd() - m.GetStart()
	switch {
	case m.GetStart() < 0 || m.GetStart() > math.MaxInt64-maxCoverage || size <= 0 || size > maxCoverage:
		return decodeErrorf(CodeInvalid, "%s", where)
	case m.GetRevision() == 0 || len(m.GetCode()) > maxCode:
		return decodeErrorf(CodeInvalid, "%s has revision %d and a code of %d bytes", where, m.GetRevision(), len(m.GetCode()))
	case len(m.GetModified()) != len(m.GetPlaces()) || len(m.GetCalls()) != len(m.GetPlaces()):
		return decodeErrorf(CodeInvalid, "%s has %d positions, %d counts of modified calls and %d of calls", where, len(m.GetPlaces()), len(m.GetModified()), len(m.GetCalls()))
	}
	for i, place := range m.GetPlaces() {
		modified, calls := m.GetModified()[i], m.GetCalls()[i]
		if int64(place/2) >= size || i > 0 && place <= m.GetPlaces()[i-1] || modified > calls || calls > math.MaxInt32 {
			return decodeErrorf(CodeInvalid, "%s has %d of %d calls at place %d", where, modified, calls, place)
		}
	}
	return nil
}

func validDecision(d *streampb.Decision) error {
	if err := firstError(validName("run", d.GetRun()), validName("read id", d.GetReadId()),
		validText("policy", d.GetPolicy()), validText("reason", d.GetReason())); err != nil {
		return err
	}
	_, known := streampb.DecisionAction_name[int32(d.GetAction())]
	switch {
	case !known || d.GetAction() == streampb.DecisionAction_DECISION_ACTION_UNSPECIFIED:
		return decodeErrorf(CodeInvalid, "decision about read %s has action %v", d.GetReadId(), d.GetAction())
	case d.GetChannel() == 0:
		return decodeErrorf(CodeInvalid, "decision about read %s names no channel", d.GetReadId())
	case d.GetSamples() > maxReadSamples:
		return decodeErrorf(CodeInvalid, "decision about read %s after %d samples, the limit is %d", d.GetReadId(), d.GetSamples(), uint64(maxReadSamples))
	case d.GetLastChunkMs() < 0:
		return decodeErrorf(CodeInvalid, "decision about read %s after a chunk of time %d", d.GetReadId(), d.GetLastChunkMs())
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// validName refuses control characters too: names become parts of record keys,
// headers, log lines and VCF columns.
func validName(field, s string) error {
	switch {
	case s == "":
		return decodeErrorf(CodeInvalid, "%s is empty", field)
	case len(s) > maxName:
		return decodeErrorf(CodeInvalid, "%s has %d bytes, the limit is %d", field, len(s), maxName)
	case strings.ContainsFunc(s, unicode.IsControl):
		return decodeErrorf(CodeInvalid, "%s %q holds a control character", field, s)
	}
	return nil
}

// validText bounds what is only passed on and shown.
func validText(field, s string) error {
	if len(s) > maxText {
		return decodeErrorf(CodeInvalid, "%s has %d bytes, the limit is %d", field, len(s), maxText)
	}
	return nil
}

func validRun(r *streampb.Run) error {
	if err := firstError(validName("run", r.GetId()), validName("sample", r.GetSample()),
		validText("experiment", r.GetExperiment()), validText("flow cell", r.GetFlowCell()),
		validText("flow cell product", r.GetFlowCellProduct()), validText("kit", r.GetKit()),
		validText("position", r.GetPosition()), validText("device", r.GetDevice()), validText("pore type", r.GetPoreType())); err != nil {
		return err
	}
	if len(r.GetSamples()) > MaxSamples {
		return decodeErrorf(CodeInvalid, "run %s has %d samples, the limit is %d", r.GetId(), len(r.GetSamples()), MaxSamples)
	}
	for i, sample := range r.GetSamples() {
		if err := validName("sample", sample); err != nil {
			return err
		}
		if i > 0 && sample <= r.GetSamples()[i-1] {
			return decodeErrorf(CodeInvalid, "run %s: sample %q doesn't come behind %q", r.GetId(), sample, r.GetSamples()[i-1])
		}
	}
	if len(r.GetControls()) > MaxSamples {
		return decodeErrorf(CodeInvalid, "run %s has %d controls, the limit is %d", r.GetId(), len(r.GetControls()), MaxSamples)
	}
	for i, c := range r.GetControls() {
		if err := firstError(validName("control", c.GetSample()), validName("kind of control", c.GetKind())); err != nil {
			return err
		}
		if i > 0 && c.GetSample() <= r.GetControls()[i-1].GetSample() {
			return decodeErrorf(CodeInvalid, "run %s: control %q doesn't come behind %q", r.GetId(), c.GetSample(), r.GetControls()[i-1].GetSample())
		}
	}
	if r.GetSampleRate() == 0 && !r.GetCalled() || r.GetSampleRate() > 1_000_000 {
		return decodeErrorf(CodeInvalid, "run %s has a sample rate of %d Hz", r.GetId(), r.GetSampleRate())
	}
	return nil
}

func validReference(r *streampb.Reference) error {
	if err := firstError(validName("run", r.GetRun()), validName("sample", r.GetSample()), validName("contig", r.GetContig())); err != nil {
		return err
	}
	where := func() string { return fmt.Sprintf("reference of %s:%d-%d", r.GetContig(), r.GetStart(), r.GetEnd()) }
	if r.GetRevision() == 0 || r.GetStart() < 0 || r.GetEnd() <= r.GetStart() || r.GetEnd()-r.GetStart() > maxCoverage {
		return decodeErrorf(CodeInvalid, "%s has revision %d", where(), r.GetRevision())
	}
	at := r.GetStart()
	// Spans begin in the stretch, are ascending, and apart.
	follows := func(start, end int64) bool {
		ok := start >= at && start < r.GetEnd() && end > start
		at = end
		return ok
	}
	for _, b := range r.GetBlocks() {
		if n := len(b.GetPhredLikelihoods()); !follows(b.GetStart(), b.GetEnd()) || n < 2 || n > 3 {
			return decodeErrorf(CodeInvalid, "%s has a block %d-%d with %d likelihoods", where(), b.GetStart(), b.GetEnd(), n)
		}
	}
	at = r.GetStart()
	for _, s := range r.GetCallable() {
		_, known := streampb.Callability_name[int32(s.GetCallability())]
		if !follows(s.GetStart(), s.GetEnd()) || !known || s.GetCallability() == streampb.Callability_CALLABILITY_UNSPECIFIED {
			return decodeErrorf(CodeInvalid, "%s has a span %d-%d of callability %v", where(), s.GetStart(), s.GetEnd(), s.GetCallability())
		}
	}
	return nil
}

func validMarker(m *streampb.Marker) error {
	if err := firstError(validRun(m.GetRun()), validSource("marker of source", m)); err != nil {
		return err
	}
	if m.GetLastOffset() < 0 {
		return decodeErrorf(CodeInvalid, "marker of run %s behind offset %d", m.GetRun().GetId(), m.GetLastOffset())
	}
	return nil
}

func validChunk(c *streampb.SignalChunk) error {
	if err := firstError(validName("run", c.GetRun()), validName("read id", c.GetReadId()), validText("end reason", c.GetEndReason())); err != nil {
		return err
	}
	switch {
	case c.GetSampleCount() > MaxChunkSamples:
		return decodeErrorf(CodeInvalid, "chunk of %d samples, the limit is %d", c.GetSampleCount(), MaxChunkSamples)
	case c.GetSampleCount() == 0 && !c.GetEndOfRead():
		return decodeErrorf(CodeInvalid, "chunk without samples in the middle of read %s", c.GetReadId())
	case c.GetFirstSample() > maxReadSamples:
		return decodeErrorf(CodeInvalid, "chunk of read %s begins at its sample %d, the limit is %d", c.GetReadId(), c.GetFirstSample(), uint64(maxReadSamples))
	}
	return nil
}

// maxMotif bounds a motif, in letters: one that is known to be modified may be long, or have a gap.
const maxMotif = 32

// isMotif reports whether a motif has one to most letters, of IUPAC's for bases.
func isMotif(letters string, most int) bool {
	return letters != "" && len(letters) <= most && strings.Trim(letters, "ACGTRYSWKMBDHVN") == ""
}

func validMotif(m *streampb.MotifError) error {
	motif, shows := m.GetMotif(), m.GetShows()
	switch {
	case !isMotif(motif, maxMotif):
		return decodeErrorf(CodeInvalid, "motif %q is not 1 to %d IUPAC letters", motif, maxMotif)
	case m.GetBase() < 1 || int(m.GetBase()) > len(motif) || len(shows) != 1 || strings.Trim(shows, "ACGT") != "":
		return decodeErrorf(CodeInvalid, "base %d of motif %s is read as %q", m.GetBase(), motif, shows)
	case m.GetAffected() < 1 || m.GetAffected() > m.GetSites() || m.GetWrong() < 1 || m.GetWrong() > m.GetReads():
		return decodeErrorf(CodeInvalid, "motif %s is wrong in %d of %d reads at %d of %d sites", motif, m.GetWrong(), m.GetReads(), m.GetAffected(), m.GetSites())
	}
	return nil
}

func validCall(c *streampb.Call) error {
	if err := firstError(
		validName("sample", c.GetSample()), validName("allele id", c.GetVrsId()), validName("contig", c.GetContig()),
		validText("run", c.GetRun()), validText("reason", c.GetReason())); err != nil {
		return err
	}
	for _, f := range c.GetFilters() {
		if err := validName("filter", f); err != nil {
			return err
		}
	}
	for _, m := range c.GetModelMismatch() {
		if err := validName("basecalling model", m); err != nil {
			return err
		}
	}
	if m := c.GetMotif(); m != nil {
		if err := validMotif(m); err != nil {
			return err
		}
	}
	for _, o := range c.GetOthers() {
		if !isAllele(o.GetPos(), o.GetRef(), o.GetAlt()) {
			return decodeErrorf(CodeInvalid, "call of allele %s has another allele at %d that replaces %d bases by %d", c.GetVrsId(), o.GetPos(), len(o.GetRef()), len(o.GetAlt()))
		}
	}
	_, known := streampb.CallStatus_name[int32(c.GetStatus())]
	switch {
	case len(c.GetOthers()) > maxListed || len(c.GetPhredLikelihoods()) > maxListed:
		return decodeErrorf(CodeInvalid, "call of allele %s has %d other alleles and %d likelihoods, the limit is %d", c.GetVrsId(), len(c.GetOthers()), len(c.GetPhredLikelihoods()), maxListed)
	case slices.ContainsFunc(c.GetGenotype(), func(n uint32) bool { return int64(n) > int64(len(c.GetOthers())+1) }):
		return decodeErrorf(CodeInvalid, "call of allele %s has genotype %v and %d other alleles", c.GetVrsId(), c.GetGenotype(), len(c.GetOthers()))
	case c.GetPhaseSet() < 0:
		return decodeErrorf(CodeInvalid, "call of allele %s has phase set %d", c.GetVrsId(), c.GetPhaseSet())
	case c.GetPos() < 1 || c.GetRef() == "" || c.GetAlt() == "":
		return decodeErrorf(CodeInvalid, "call of allele %s at %s:%d replaces %q by %q", c.GetVrsId(), c.GetContig(), c.GetPos(), c.GetRef(), c.GetAlt())
	case len(c.GetRef()) > maxAllele || len(c.GetAlt()) > maxAllele:
		return decodeErrorf(CodeInvalid, "call of allele %s replaces %d bases by %d, the limit is %d", c.GetVrsId(), len(c.GetRef()), len(c.GetAlt()), maxAllele)
	case len(c.GetFilters()) > maxListed || len(c.GetGenotype()) > maxListed:
		return decodeErrorf(CodeInvalid, "call of allele %s has %d filters and a genotype of %d, the limit is %d", c.GetVrsId(), len(c.GetFilters()), len(c.GetGenotype()), maxListed)
	case len(c.GetModelMismatch()) > maxListed:
		return decodeErrorf(CodeInvalid, "call of allele %s names %d basecalling models, the limit is %d", c.GetVrsId(), len(c.GetModelMismatch()), maxListed)
	case c.GetRevision() == 0:
		return decodeErrorf(CodeInvalid, "call of allele %s has no revision number", c.GetVrsId())
	case !known || c.GetStatus() == streampb.CallStatus_CALL_STATUS_UNSPECIFIED:
		return decodeErrorf(CodeInvalid, "call of allele %s has status %v", c.GetVrsId(), c.GetStatus())
	case math.IsNaN(c.GetQual()) || math.IsInf(c.GetQual(), 0):
		return decodeErrorf(CodeInvalid, "call of allele %s has QUAL %g", c.GetVrsId(), c.GetQual())
	}
	return nil
}

func validCoverage(c *streampb.Coverage) error {
	if err := firstError(validName("sample", c.GetSample()), validName("contig", c.GetContig()),
		validText("run", c.GetRun()), validText("panels", c.GetPanels())); err != nil {
		return err
	}
	size := c.GetEnd() - c.GetStart()
	switch {
	case c.GetStart() < 0 || c.GetStart() > math.MaxInt64-maxCoverage || size <= 0 || size > maxCoverage:
		return decodeErrorf(CodeInvalid, "coverage of %s from %d to %d", c.GetContig(), c.GetStart(), c.GetEnd())
	case c.GetRevision() == 0:
		return decodeErrorf(CodeInvalid, "coverage of %s:%d has no revision number", c.GetContig(), c.GetStart())
	case len(c.GetLengths()) != len(c.GetDepths()):
		return decodeErrorf(CodeInvalid, "coverage of %s:%d has %d lengths and %d depths", c.GetContig(), c.GetStart(), len(c.GetLengths()), len(c.GetDepths()))
	}
	sum := int64(0)
	for _, n := range c.GetLengths() {
		if n == 0 {
			return decodeErrorf(CodeInvalid, "coverage of %s:%d has an empty block", c.GetContig(), c.GetStart())
		}
		sum += int64(n)
	}
	if sum != size {
		return decodeErrorf(CodeInvalid, "coverage of %s from %d to %d has blocks of %d positions", c.GetContig(), c.GetStart(), c.GetEnd(), sum)
	}
	for _, s := range c.GetShown() {
		if err := validShown(s); err != nil {
			return err
		}
	}
	return nil
}

func validShown(s *streampb.Shown) error {
	named := s.GetNamed() != ""
	if err := validText("named", s.GetNamed()); err != nil {
		return err
	}
	switch {
	case s.GetPos() < 1 || len(s.GetRef()) > maxAllele || len(s.GetAlt()) > maxAllele || named == (s.GetRef() != "") || named == (s.GetAlt() != ""):
		return decodeErrorf(CodeInvalid, "coverage has reads that show %q at %d, or %q in place of %q", s.GetNamed(), s.GetPos(), s.GetAlt(), s.GetRef())
	case uint64(s.GetForward())+uint64(s.GetReverse()) > uint64(s.GetDepth()):
		return decodeErrorf(CodeInvalid, "coverage has %d and %d reads of %d at %d", s.GetForward(), s.GetReverse(), s.GetDepth(), s.GetPos())
	}
	return nil
}
