package snapshot

import (
	"fmt"
	"testing"

	"github.com/porestream/porestream/stream"
)

// block is a state of equal sections without a life of its own.
type block struct {
	sections []stream.Section
	content  []byte
	restored int
}

func newBlock(sections, bytes int) *block {
	s := &block{content: make([]byte, bytes/sections)}
	for i := range s.content {
		s.content[i] = byte(i * i >> 3)
	}
	for i := range sections {
		s.sections = append(s.sections, stream.Section{Name: fmt.Sprintf("sample/contig/%06d", i), Version: 1})
	}
	return s
}

func (s *block) Format() stream.StateFormat { return toyFormat }

func (s *block) Sections() []stream.Section { return s.sections }

func (s *block) AppendSection(b []byte, _ string) ([]byte, error) {
	return append(b, s.content...), nil
}

func (s *block) RestoreSection(_ string, b []byte) error {
	s.restored += len(b)
	return nil
}

// BenchmarkSnapshot writes and reads states of 64 MB in few and in many
// sections; without the broker.
func BenchmarkSnapshot(b *testing.B) {
	for _, n := range []int{16, 1000, 10_000} {
		state := newBlock(n, 64<<20)
		begin := func() *Writer { return NewWriter(WriterConfig{Epoch: 1}, NewIndex(toySource), nil, state) }
		var log topic
		for out, err := range begin().Take(state, 100) {
			if err != nil {
				b.Fatal(err)
			}
			log.append(out)
		}
		b.Run(fmt.Sprintf("write/sections=%d", n), func(b *testing.B) {
			b.SetBytes(64 << 20)
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range begin().Take(state, 100) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		b.Run(fmt.Sprintf("index/sections=%d", n), func(b *testing.B) {
			b.SetBytes(64 << 20)
			b.ReportAllocs()
			for b.Loop() {
				if chosen, _ := log.index().Choose(toyFormat, stream.PositionAt(0, 100), 0); chosen == nil {
					b.Fatal("nothing is chosen")
				}
			}
		})
		b.Run(fmt.Sprintf("restore/sections=%d", n), func(b *testing.B) {
			chosen, _ := log.index().Choose(toyFormat, stream.PositionAt(0, 100), 0)
			b.SetBytes(64 << 20)
			b.ReportAllocs()
			for b.Loop() {
				r := chosen.Restorer(newBlock(1, 1))
				for _, rec := range log.records {
					if err := r.Add(rec); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
