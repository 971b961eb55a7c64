package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/internal/pipeline"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/vcf"
)

// follow reads, as they come, the topics of aligned reads and of calls, until the
// topic of variants says that the run has ended. It returns how many revisions of
// variants there were.
func (o *observation) follow(ctx context.Context, client *kafka.Client, topics stream.Topics) (revisions int64, err error) {
	ended := errors.New("the run has ended")
	group, ctx := errgroup.WithContext(ctx)
	consume := func(topic string, take func(stream.Record) error) {
		group.Go(func() error {
			if err := client.Consume(ctx, topic, kafka.ConsumeOptions{From: kafka.FromStart}, take); err != nil {
				return err
			}
			return context.Cause(ctx)
		})
	}
	consume(topics.Reads, func(rec stream.Record) error {
		m, err := stream.DecodeReads(rec.Value)
		if err != nil || m.GetSegment() == nil {
			return err
		}
		s := m.GetSegment()
		extent, err := align.Check(s, math.MaxInt32)
		if err != nil {
			return err
		}
		o.aligned = append(o.aligned, segment{
			read: strandOf(s.GetReadId()), contig: s.GetContig(), start: s.GetStart(), end: s.GetStart() + int64(extent.Reference), lastChunk: s.GetLastChunkMs(), at: time.Now(),
		})
		return nil
	})
	consume(topics.Calls, func(rec stream.Record) error {
		m, err := stream.DecodeCalls(rec.Value)
		if err != nil || m.GetCall() == nil {
			return err
		}
		c := m.GetCall()
		o.revised = append(o.revised, revised{string(rec.Key), c.GetStatus().String(), c.GetLastChunkMs(), time.Now()})
		if len(c.GetFilters()) == 0 {
			o.calls = append(o.calls, call{
				allele: allele{c.GetContig(), c.GetPos(), c.GetRef(), c.GetAlt()}, status: c.GetStatus().String(), lastChunk: c.GetLastChunkMs(), at: time.Now(),
			})
		}
		return nil
	})
	fold := pipeline.NewFold(partitions)
	consume(topics.Variants, func(rec stream.Record) error {
		v, err := fold.Add(rec)
		if err != nil {
			return err
		}
		if v != nil {
			revisions++
			p := published{revised: revised{key: string(rec.Key), status: v.Status, at: time.Now()}, revision: v.Revision, scored: len(v.Annotation.Scores) > 0}
			if v.LastChunk != nil {
				p.lastChunk = v.LastChunk.UnixMilli()
			}
			o.published = append(o.published, p)
		}
		if fold.Ended(o.layout.Run) {
			return ended
		}
		return nil
	})
	if err := group.Wait(); !errors.Is(err, ended) {
		return 0, err
	}
	return revisions, nil
}

// strandOf is the sequencer's name of a read: a read that goes on after its end was
// reported is continued under the same name with a number.
func strandOf(read string) string {
	id, _, _ := strings.Cut(read, "_")
	return id
}

// readConsumer takes what `pore consume` prints, and counts it.
func (o *observation) readConsumer(lines io.Reader, printed *atomic.Int64) error {
	in := bufio.NewScanner(lines)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		at := time.Now()
		var doc struct {
			Variant struct {
				Contig   string
				Pos      int64
				Ref, Alt string
			}
			Call       struct{ Filters []string }
			Annotation struct {
				MostSevere   struct{ Term, Gene string } `json:"most_severe"`
				Consequences []struct{ HGVSp string }
			}
		}
		if err := json.Unmarshal(in.Bytes(), &doc); err != nil {
			return fmt.Errorf("reading an event: %w", err)
		}
		if len(doc.Call.Filters) == 0 {
			v, said := doc.Variant, []string{doc.Annotation.MostSevere.Term}
			if c := doc.Annotation.Consequences; len(c) > 0 && c[0].HGVSp != "" {
				said = append(said, c[0].HGVSp[strings.LastIndex(c[0].HGVSp, ":")+1:])
			}
			said = append(said, doc.Annotation.MostSevere.Gene)
			o.events = append(o.events, annotated{allele{v.Contig, v.Pos, v.Ref, v.Alt}, strings.TrimSpace(strings.Join(said, " ")), at})
		}
		printed.Add(1)
	}
	return in.Err()
}

// readSignal counts what is on the topic of signal of each read.
func (o *observation) readSignal(ctx context.Context, client *kafka.Client, topic string) error {
	type stretch struct{ from, to uint64 } // of the run, which a read's pieces share
	reads := make(map[string][]stretch)
	err := client.Consume(ctx, topic, kafka.ConsumeOptions{From: kafka.FromStart, UntilEnd: true}, func(rec stream.Record) error {
		m, err := stream.DecodeSignal(rec.Value)
		if err != nil || m.GetChunk() == nil {
			return err
		}
		c := m.GetChunk()
		id, from := strandOf(c.GetReadId()), c.GetReadStart()+c.GetFirstSample()
		reads[id] = append(reads[id], stretch{from, from + uint64(c.GetSampleCount())})
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading the signal: %w", err)
	}
	o.samples = make(map[string]uint64)
	for id, list := range reads {
		slices.SortFunc(list, func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
		for i, s := range list {
			o.samples[id] += s.to - s.from
			if i > 0 && list[i-1].to > s.from {
				o.doubled = append(o.doubled, id)
			}
		}
	}
	slices.Sort(o.doubled)
	o.doubled = slices.Compact(o.doubled)
	return nil
}

// readVCF lists the alleles of a file.
func readVCF(path string) ([]allele, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the truth: %w", err)
	}
	defer f.Close()
	list, err := alleles(f, func(*vcf.Record) bool { return true })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// passed lists the alleles of a VCF's PASS records.
func passed(r io.Reader) ([]allele, error) {
	return alleles(r, func(rec *vcf.Record) bool { return slices.Equal(rec.Filter, []string{"PASS"}) })
}

func alleles(in io.Reader, keep func(*vcf.Record) bool) ([]allele, error) {
	r, err := vcf.NewReader(in)
	if err != nil {
		return nil, err
	}
	var list []allele
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		if keep(rec) {
			list = append(list, allele{rec.Chrom, int64(rec.Pos), rec.Ref, rec.Alt[0]})
		}
	}
}
