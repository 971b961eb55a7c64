package stage

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/packed"
)

const (
	// stateVersion is the newest encoding of the sections; stream/STATE.md
	// describes it.
	stateVersion = 1

	sectionBucket  = "channels/%02d"
	maxName        = 512     // of a run or a read, as in records
	maxVBZ         = 1 << 20 // no record holds more
	maxFirstPart   = 1 << 32
	maxReadSamples = 1<<40 + stream.MaxChunkSamples
	leastChunk     = 4 // bytes of a chunk and of a channel: at least
	leastChannel   = 4
)

var _ stream.State = (*state)(nil)

// state is a fold in the form of snapshots.
type state struct {
	*fold
	model string
}

// Format identifies the state. The model is a part of it so that a run is called by one
// model, or the process reports the mismatch; with models by run, each run's is in the
// state itself.
func (s *state) Format() stream.StateFormat {
	return stream.StateFormat{Stage: Name, Version: stateVersion, Fingerprint: s.fingerprint(s.model)}
}

// Sections lists the markers, the runs, what they are called with if that is by run, and the
// channels by bucket.
func (s *state) Sections() []stream.Section {
	var list []stream.Section
	for i := range s.assembler.buckets {
		if b := &s.assembler.buckets[i]; len(b.channels) > 0 {
			list = append(list, stream.Section{Name: fmt.Sprintf(sectionBucket, i), Version: b.version})
		}
	}
	list = append(list, stream.Section{Name: stream.MarkersSection, Version: s.runs.Version()})
	if s.choices != nil {
		list = append(list, stream.Section{Name: sectionModels, Version: s.choices.version})
	}
	return append(list, stream.Section{Name: stream.RunsSection, Version: s.runs.ActivityVersion()})
}

// AppendSection appends the content of a section to b.
func (s *state) AppendSection(b []byte, name string) ([]byte, error) {
	switch name {
	case stream.MarkersSection:
		return s.runs.AppendState(b)
	case stream.RunsSection:
		return s.runs.AppendActivity(b), nil
	case sectionModels:
		if s.choices != nil {
			return s.choices.appendState(b), nil
		}
	}
	i, err := bucketOf(name)
	if err != nil {
		return nil, err
	}
	return s.assembler.appendBucket(b, i), nil
}

// RestoreSection gives a section back to a new handler.
func (s *state) RestoreSection(name string, b []byte) error {
	switch name {
	case stream.MarkersSection:
		return s.runs.RestoreState(b)
	case stream.RunsSection:
		return s.runs.RestoreActivity(b)
	case sectionModels:
		if s.choices != nil {
			return s.choices.restoreState(b)
		}
	}
	i, err := bucketOf(name)
	if err != nil {
		return err
	}
	if err := s.assembler.restoreBucket(i, b); err != nil {
		return fmt.Errorf("restoring section %s: %w", name, err)
	}
	return nil
}

func bucketOf(name string) (int, error) {
	var i int
	if n, err := fmt.Sscanf(name, sectionBucket, &i); n != 1 || err != nil || i < 0 || i >= buckets || fmt.Sprintf(sectionBucket, i) != name {
		return 0, fmt.Errorf("the stage %s has no section %q", Name, name)
	}
	return i, nil
}

func (a *assembler) appendBucket(b []byte, i int) []byte {
	channels := a.buckets[i].channels
	keys := slices.SortedFunc(maps.Keys(channels), channelKey.compare)
	b = packed.AppendLen(append(b, stateVersion), len(keys))
	for _, key := range keys {
		ch := channels[key]
		b = packed.AppendUint(packed.AppendBytes(b, key.run), key.channel)
		b = packed.AppendLen(b, len(ch.open))
		for _, r := range ch.open {
			b = appendOpen(b, r)
		}
		b = packed.AppendLen(b, len(ch.finished))
		for i := range ch.finished {
			f := &ch.finished[i]
			b = packed.AppendUint(appendIdentity(b, f.identity), f.total)
			b = appendPast(packed.AppendBool(b, f.ended), f.past)
		}
	}
	return b
}

func appendIdentity(b []byte, id identity) []byte {
	b = packed.AppendUint(packed.AppendBytes(b, id.id), id.start)
	b = packed.AppendUint(b, id.number)
	return packed.AppendUint(packed.AppendUint(b, math.Float32bits(id.offset)), math.Float32bits(id.scale))
}

func appendOpen(b []byte, r *openRead) []byte {
	b = packed.AppendUint(appendIdentity(b, r.identity), r.floor)
	b = packed.AppendLen(b, r.firstPart)
	b = packed.AppendInt(b, r.lastChunkMS)
	b = packed.AppendLen(appendPast(b, r.past), len(r.chunks))
	last := uint64(0)
	for _, c := range r.chunks {
		b = packed.AppendBytes(appendSpan(b, c.span, last), c.vbz)
		last = c.first
	}
	return b
}

func appendPast(b []byte, p past) []byte {
	b = packed.AppendLen(packed.AppendBool(b, p.dropped), len(p.spans))
	last := uint64(0)
	for _, s := range p.spans {
		b = appendSpan(b, s, last)
		last = s.first
	}
	return b
}

// appendSpan appends a span behind one that begins at last.
func appendSpan(b []byte, s span, last uint64) []byte {
	return packed.AppendUint(packed.AppendUint(packed.AppendUint(b, s.first-last), s.count), s.sum)
}

// restoreBucket puts the channels of a bucket back. After an error the assembler
// is of no use.
func (a *assembler) restoreBucket(i int, b []byte) error {
	in := packed.NewReader(b)
	in.Version(stateVersion)
	n := in.Count(leastChannel)
	if a.buckets[i].channels != nil {
		in.Fail("a second time")
	}
	a.buckets[i].channels = make(map[channelKey]*channel)
	a.buckets[i].version++
	var last channelKey
	for k := 0; k < n && in.Err() == nil; k++ {
		key := channelKey{run: in.String(maxName), channel: uint32(in.Uint(math.MaxUint32))}
		if key.bucket() != i || k > 0 && key.compare(last) <= 0 {
			in.Fail("channel %d of run %q is out of place", key.channel, key.run)
		}
		a.buckets[i].channels[key] = a.restoreChannel(in, key)
		a.channels++
		last = key
	}
	return in.Done()
}

func (a *assembler) restoreChannel(in *packed.Reader, key channelKey) *channel {
	ch := new(channel)
	own := func(id identity) {
		read := readKey{key.run, strings.Clone(id.id)}
		if _, exists := a.owners[read]; exists {
			in.Fail("read %q twice", id.id)
		}
		a.owners[read] = key.channel
	}
	for n := in.Len(maxOpen); len(ch.open) < n && in.Err() == nil; {
		r := restoreOpen(in)
		if k := len(ch.open); k > 0 && r.begunBy(ch.open[k-1].identity) {
			in.Fail("read %q before read %q, which began earlier", ch.open[k-1].id, r.id)
		}
		own(r.identity)
		a.held += r.bytes
		ch.open = append(ch.open, r)
	}
	for n := in.Len(maxFinished); len(ch.finished) < n && in.Err() == nil; {
		f := finishedRead{identity: restoreIdentity(in), total: in.Uint(maxReadSamples), ended: in.Bool(), past: restorePast(in)}
		own(f.identity)
		ch.finished = append(ch.finished, f)
	}
	return ch
}

func restoreIdentity(in *packed.Reader) identity {
	return identity{
		id: in.String(maxName), start: in.Uint(math.MaxUint64), number: uint32(in.Uint(math.MaxUint32)),
		offset: math.Float32frombits(uint32(in.Uint(math.MaxUint32))), scale: math.Float32frombits(uint32(in.Uint(math.MaxUint32))),
	}
}

func restoreOpen(in *packed.Reader) *openRead {
	r := &openRead{
		identity: restoreIdentity(in), floor: in.Uint(maxReadSamples), firstPart: in.Len(maxFirstPart),
		lastChunkMS: in.Int(), past: restorePast(in), bytes: readBytes,
	}
	n := in.Count(leastChunk)
	var last span
	for i := 0; i < n && in.Err() == nil; i++ {
		c := chunk{span: restoreSpan(in, last.first)}
		c.vbz = slices.Clone(in.Bytes(maxVBZ))
		if i > 0 && (c.first <= last.first || c.end() <= last.end()) {
			in.Fail("samples %d to %d of read %q behind %d to %d", c.first, c.end(), r.id, last.first, last.end())
		}
		r.chunks = append(r.chunks, c)
		r.samples += int(c.count)
		r.bytes += c.bytes()
		last = c.span
	}
	return r
}

func restorePast(in *packed.Reader) past {
	p := past{dropped: in.Bool()}
	n := in.Len(maxPast)
	last := uint64(0)
	for i := 0; i < n && in.Err() == nil; i++ {
		p.spans = append(p.spans, restoreSpan(in, last))
		last = p.spans[i].first
	}
	if p.dropped && len(p.spans) < maxPast {
		in.Fail("%d spans of more", len(p.spans))
	}
	return p
}

func restoreSpan(in *packed.Reader, last uint64) span {
	s := span{first: last + in.Uint(maxReadSamples), count: uint32(in.Uint(stream.MaxChunkSamples)), sum: uint32(in.Uint(math.MaxUint32))}
	if s.first > maxReadSamples {
		in.Fail("sample %d", s.first)
	}
	return s
}
