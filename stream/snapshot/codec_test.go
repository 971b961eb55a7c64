package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
)

func TestSourceOf(t *testing.T) {
	for _, s := range []Source{toySource, {Group: "lab/a-variant", Topic: "lab.reads", Partition: 0}, {Group: "g", Topic: "t", Partition: 1<<31 - 1}} {
		got, err := SourceOf([]byte(s.prefix() + "anything\x00else"))
		require.NoError(t, err)
		require.Equal(t, s, got)
	}
	for _, key := range []string{"", "g", "g\x00t\x000", "\x00t\x000\x00", "g\x00\x000\x00", "g\x00t\x00x\x00", "g\x00t\x00-1\x00", "g\x00t\x002147483648\x00", strings.Repeat("g", 513) + "\x00t\x000\x00"} {
		_, err := SourceOf([]byte(key))
		require.Error(t, err, "%q", key)
	}
}

// TestPartitionsOfATopicSpreadEvenly: partitions of one topic spread evenly, and the place is what
// readers of the format would compute.
func TestPartitionsOfATopicSpreadEvenly(t *testing.T) {
	for _, n := range []int32{1, 3, 12} {
		count := make(map[int32]int)
		for p := range 2 * n {
			count[Source{Group: "g", Topic: "t", Partition: p}.Place(n)]++
		}
		require.Len(t, count, int(n))
		for _, c := range count {
			require.Equal(t, 2, c)
		}
	}
	require.Equal(t, int32(7), Source{Group: "porestream-variant", Topic: "reads", Partition: 0}.Place(12))
	require.Equal(t, int32(0), Source{Group: "porestream-variant", Topic: "reads", Partition: 5}.Place(12))
	require.Less(t, Source{Group: "g", Topic: "t", Partition: 1<<31 - 1}.Place(1<<31-1), int32(1<<31-1))
}

func TestWriterRefuses(t *testing.T) {
	take := func(w *Writer, s stream.State, offset int64) error {
		for _, err := range w.Take(s, offset) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	begin := func() (*Writer, *toy) {
		s := newToy()
		s.sections["a"], s.versions["a"] = "content", 1
		w := NewWriter(WriterConfig{Epoch: 1}, NewIndex(toySource), nil, s)
		w.split = 4
		return w, s
	}
	t.Run("two at once", func(t *testing.T) {
		w, s := begin()
		require.NoError(t, take(w, s, 5))
		require.ErrorIs(t, take(w, s, 6), ErrNotReady)
		w.Durable()
		w.Committed(4)
		require.False(t, w.Ready())
		w.Committed(5)
		require.True(t, w.Ready())
		require.NoError(t, take(w, s, 6))
		w.Abandon()
		require.NoError(t, take(w, s, 7))
	})
	t.Run("going back", func(t *testing.T) {
		w, s := begin()
		require.NoError(t, take(w, s, 5))
		w.Durable()
		w.Committed(5)
		require.ErrorContains(t, take(w, s, 4), "the snapshot before is at offset 5")
	})
	t.Run("before its origin", func(t *testing.T) {
		w, s := begin()
		w.cfg.Origin = 6
		require.ErrorContains(t, take(w, s, 5), "the state began with offset 6")
	})
	t.Run("names", func(t *testing.T) {
		for _, name := range []string{"", strings.Repeat("n", maxName+1)} {
			w, s := begin()
			s.sections[name] = "x"
			require.ErrorContains(t, take(w, s, 5), "section names have 1 to 512 bytes")
		}
	})
	t.Run("size", func(t *testing.T) {
		w, s := begin()
		s.sections["a"] = strings.Repeat("x", 4*maxParts+1)
		require.ErrorContains(t, take(w, s, 5), `section "a" has 4097 bytes, at most 4096 can be kept`)
	})
	t.Run("a section that can't be encoded", func(t *testing.T) {
		w, s := begin()
		require.ErrorContains(t, take(w, failing{s}, 5), `taking a snapshot of group porestream-toy topic in partition 2 at offset 5: encoding section "a": no`)
	})
}

type failing struct{ *toy }

func (failing) AppendSection([]byte, string) ([]byte, error) { return nil, errors.New("no") }

func (failing) RestoreSection(string, []byte) error { return errors.New("no") }

func TestRestorerFails(t *testing.T) {
	log := goldenTopic(t)
	chosen, _ := log.index().Choose(toyFormat, stream.PositionAt(20, 1<<40), 0)
	t.Run("the handler refuses", func(t *testing.T) {
		r := chosen.Restorer(failing{newToy()})
		at, ok := r.Next()
		require.True(t, ok)
		require.ErrorIs(t, r.Add(log.records[at]), ErrUnusable)
	})
	t.Run("a record is gone", func(t *testing.T) {
		r := chosen.Restorer(newToy())
		require.ErrorIs(t, r.Add(log.records[len(log.records)-1]), ErrChanged)
	})
	t.Run("another record is there", func(t *testing.T) {
		r := chosen.Restorer(newToy())
		at, _ := r.Next()
		require.ErrorIs(t, r.Add(stream.Record{Offset: at, Value: encodePart(1, []byte("other"))}), ErrChanged)
	})
}

// TestPartsFitRecords: the largest part, with the longest key, stays below what
// a producer takes by default.
func TestPartsFitRecords(t *testing.T) {
	source := Source{Group: strings.Repeat("g", maxName), Topic: strings.Repeat("t", 249), Partition: 1<<31 - 1}
	s := newToy()
	s.sections[strings.Repeat("n", maxName)] = strings.Repeat("x", maxPart)
	w := NewWriter(WriterConfig{Epoch: 1<<31 - 1}, NewIndex(source), nil, s)
	parts := 0
	for out, err := range w.Take(s, maxOffset) {
		require.NoError(t, err)
		require.Less(t, len(out.Key)+len(out.Value), 1_000_000)
		parts++
	}
	require.Equal(t, 3, parts)
}

func FuzzKey(f *testing.F) {
	for _, k := range []key{{kind: kindManifest}, {kind: kindTable, slot: slot{7, 1}, part: 3}, {kind: kindSection, slot: slot{1 << 30, 0}, part: 1023, name: "a\x00b"}} {
		f.Add(k.append(nil))
	}
	f.Add([]byte("s\x00+1\x000\x000\x00name"))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := parseKey(b)
		if err == nil && !bytes.Equal(k.append(nil), b) {
			t.Errorf("%q reads as %+v, which is written %q", b, k, k.append(nil))
		}
		if s, err := SourceOf(b); err == nil && (s.Validate() != nil || s.Place(12) < 0) {
			t.Errorf("%q reads as %+v", b, s)
		}
	})
}

func FuzzRecords(f *testing.F) {
	log := readGolden(f, "testdata/golden/snapshot.v1.txt")
	for _, r := range log.records {
		if len(r.Value) > 0 {
			f.Add(r.Value)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		// The checksum would keep the fuzzer out.
		if len(b) >= envelopeLen {
			b = bytes.Clone(b)
			sealEnvelope(b)
		}
		if tr, err := decodeTrailer(b); err == nil && !bytes.Equal(encodeTrailer(tr), b) {
			t.Errorf("a trailer is written otherwise: %x", encodeTrailer(tr))
		}
		if taken, content, err := decodePart(b); err == nil && !bytes.Equal(encodePart(taken, content), b) {
			t.Errorf("a part is written otherwise: %x", encodePart(taken, content))
		}
		for n := range 4 {
			entries, err := decodeTable(b, n)
			if err != nil {
				continue
			}
			var again []byte
			for i := range entries {
				again = appendEntry(again, &entries[i])
			}
			if !bytes.Equal(again, b) {
				t.Errorf("a table is written otherwise: %x", again)
			}
		}
	})
}

// FuzzIndex puts any record under any key of a source beside sound ones.
func FuzzIndex(f *testing.F) {
	log := readGolden(f, "testdata/golden/snapshot.v1.txt")
	for _, r := range log.records {
		f.Add(r.Key[len(toySource.prefix()):], r.Value)
	}
	f.Fuzz(func(t *testing.T, k, value []byte) {
		x := log.index()
		if len(value) >= envelopeLen {
			value = bytes.Clone(value)
			sealEnvelope(value)
		}
		rec := stream.Record{Offset: 1000, Key: append([]byte(toySource.prefix()), k...), Value: value, Time: time.Unix(0, 0)}
		x.Add(rec)
		x.List()
		chosen, refused := x.Choose(toyFormat, stream.PositionAt(20, 1<<40), 0)
		_ = fmt.Sprint(refused)
		if chosen == nil {
			return
		}
		with := topic{records: append(log.records[:len(log.records):len(log.records)], rec)}
		if _, err := with.restore(chosen); err != nil {
			t.Errorf("what was chosen can't be restored: %v", err)
		}
	})
}
