package check

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// chunkKey identifies a chunk.
type chunkKey struct {
	run, read string
	number    uint32
}

func (k chunkKey) String() string {
	return fmt.Sprintf("chunk %d of read %s of run %s", k.number, k.read, k.run)
}

// digest stands for a record's content.
type digest [sha256.Size]byte

// checkSignal checks the chunks of every read in the order of the topic.
func checkSignal(r *report, run, reference *Contents) {
	type readKey struct{ run, read string }
	type place struct {
		partition int32
		number    uint32
		sample    uint64
	}
	next := make(map[readKey]place)
	seen := make(map[chunkKey]stream.Record)
	digests := make(map[chunkKey]digest)
	for _, rec := range run.Records[run.Topics.Signal] {
		m, err := stream.DecodeSignal(rec.Value)
		if err != nil {
			r.add(Signal, at(rec), "a record that can't be read", "%v", err)
			continue
		}
		c := m.GetChunk()
		if c == nil {
			continue
		}
		key := chunkKey{c.GetRun(), c.GetReadId(), c.GetNumber()}
		if first, twice := seen[key]; twice {
			r.add(Signal, at(rec), key.String()+" is there twice", "first at offset %d", first.Offset)
			continue
		}
		seen[key], digests[key] = rec, sha256.Sum256(rec.Value)
		read := readKey{key.run, key.read}
		want, known := next[read]
		switch {
		case !known:
			want.partition = rec.Partition
		case want.partition != rec.Partition:
			r.add(Signal, at(rec), key.String()+" is in another partition than those before", "they are in %d", want.partition)
		}
		if c.GetNumber() != want.number || c.GetFirstSample() != want.sample {
			r.add(Signal, at(rec), key.String()+" is out of order", "begins at sample %d; chunk %d at sample %d is next", c.GetFirstSample(), want.number, want.sample)
		}
		next[read] = place{want.partition, c.GetNumber() + 1, c.GetFirstSample() + uint64(c.GetSampleCount())}
	}
	compare(r, Signal, digests, chunkDigests(reference))
}

func chunkDigests(c *Contents) map[chunkKey]digest {
	digests := make(map[chunkKey]digest)
	for _, rec := range c.Records[c.Topics.Signal] {
		m, err := stream.DecodeSignal(rec.Value)
		if err != nil || m.GetChunk() == nil {
			continue
		}
		digests[chunkKey{m.GetChunk().GetRun(), m.GetChunk().GetReadId(), m.GetChunk().GetNumber()}] = sha256.Sum256(rec.Value)
	}
	return digests
}

// segmentKey identifies an aligned read within a region.
type segmentKey struct {
	run, read, contig       string
	part, alignment, region uint32
}

func (k segmentKey) String() string {
	return fmt.Sprintf("alignment %d of part %d of read %s of run %s in region %d of %s", k.alignment, k.part, k.read, k.run, k.region, k.contig)
}

// checkReads holds the segments against those of the reference, which is how a read that was never called is noticed.
func checkReads(r *report, run, reference *Contents) {
	first := make(map[segmentKey]stream.Record)
	digests := make(map[segmentKey]digest)
	for _, rec := range run.Records[run.Topics.Reads] {
		s, err := segmentOf(rec)
		switch {
		case err != nil:
			r.add(Reads, at(rec), "a record that can't be read", "%v", err)
			continue
		case s == nil:
			continue
		}
		key := keyOf(s)
		if earlier, twice := first[key]; twice {
			r.add(Reads, at(rec), key.String()+" is there twice", "first at %s", at(earlier))
			continue
		}
		first[key], digests[key] = rec, segmentDigest(s)
	}
	want := make(map[segmentKey]digest)
	for _, rec := range reference.Records[reference.Topics.Reads] {
		if s, err := segmentOf(rec); err == nil && s != nil {
			want[keyOf(s)] = segmentDigest(s)
		}
	}
	compare(r, Reads, digests, want)
}

// segmentOf returns the segment in a record, or nil. What is published of reads before
// their end depends on when chunks came.
func segmentOf(rec stream.Record) (*streampb.Segment, error) {
	m, err := stream.DecodeReads(rec.Value)
	if err != nil {
		return nil, err
	}
	return m.GetSegment(), nil
}

func keyOf(s *streampb.Segment) segmentKey {
	return segmentKey{s.GetRun(), s.GetReadId(), s.GetContig(), s.GetPart(), s.GetAlignment(), s.GetRegion()}
}

// segmentDigest leaves out when the signal came.
func segmentDigest(s *streampb.Segment) digest {
	s = proto.CloneOf(s)
	s.LastChunkMs = 0
	// A message that was just unmarshalled can be marshalled.
	b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(s)
	return sha256.Sum256(b)
}

// compare reports what got lacks of want, has besides, or has otherwise.
func compare[K interface {
	comparable
	fmt.Stringer
}](r *report, check string, got, want map[K]digest) {
	missing, extra, other := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for k, d := range want {
		switch g, exists := got[k]; {
		case !exists:
			missing[k.String()] = true
		case g != d:
			other[k.String()] = true
		}
	}
	for k := range got {
		if _, exists := want[k]; !exists {
			extra[k.String()] = true
		}
	}
	for _, difference := range []struct {
		keys map[string]bool
		what string
	}{{missing, "is missing"}, {extra, "should not be there"}, {other, "differs"}} {
		for _, k := range slices.Sorted(maps.Keys(difference.keys)) {
			r.add(check, k, difference.what, "against the run without faults: %d missing, %d too many, %d different", len(missing), len(extra), len(other))
		}
	}
}
