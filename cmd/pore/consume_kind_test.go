package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/snapshot"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/watchlist/alert"
)

// golden is a record between stages.
func golden(t *testing.T, name string) []byte {
	text, err := os.ReadFile(filepath.Join("..", "..", "stream", "testdata", "golden", name+".v1.hex"))
	require.NoError(t, err)
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	require.NoError(t, err)
	return b
}

func typed(types string) []stream.Header {
	return []stream.Header{{Key: "ce_type", Value: []byte(types)}}
}

const oneRead = "@r1\tqs:f:9\nAC\n+\n!!\n"

// A topic of other records than those that were asked for is said to be one, whether it is followed or read to its end.
func TestConsumeOfAnotherKind(t *testing.T) {
	addr, p := publish(t)
	dead := stream.DeadLetter("", stream.Record{Topic: "variants", Value: []byte("{}"), Headers: typed(event.TypeVariant)}, "watch", &stream.DecodeError{Code: stream.CodePayload})
	manifest := snapshot.Source{Group: "g", Topic: "reads"}
	topics := map[string]stream.Out{
		"signal":      {Value: golden(t, "signal-run-start")},
		"reads":       {Value: golden(t, "reads-run-start")},
		"calls":       {Value: golden(t, "calls-call")},
		"state":       {Key: []byte(manifest.Group + "\x00" + manifest.Topic + "\x000\x00m\x001\x000"), Value: []byte("PS")},
		"dlq":         {Value: dead.Value, Headers: dead.Headers},
		"basecalls":   {Value: []byte(oneRead)},
		"alerts":      {Value: []byte("{}"), Headers: typed(alert.Type)},
		"methylation": {Value: []byte("{}"), Headers: typed(methylation.Type)},
		"variants":    {Value: []byte("{}"), Headers: typed(event.TypeVariant)},
	}
	for topic, o := range topics {
		require.NoError(t, p.client.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: topic, Partitions: 3}}, 1))
		o.Topic, o.Partition = topic, 2
		p.out(o)
	}
	for _, tt := range []struct{ args, is, do string }{
		{"--topic signal", "one of those that stages exchange, as on signal", "follow topic variants, as without --topic, for variants"},
		{"--topic reads", "one of those that stages exchange, as on reads", "follow topic variants, as without --topic, for variants"},
		{"--topic calls --format json", "one of those that stages exchange, as on calls", "follow topic variants, as without --topic, for variants"},
		{"--topic reads --basecalls", "one of those that stages exchange, as on reads", "follow topic basecalls, as without --topic, for called reads"},
		{"--topic state", "part of a stage's state, as on state", "follow topic variants, as without --topic, for variants"},
		{"--topic dlq", "a dead letter, which pore dlq shows", "follow topic variants, as without --topic, for variants"},
		{"--topic basecalls", "a called read as FASTQ", "give --basecalls for these, or follow topic variants, as without --topic, for variants"},
		{"--topic variants --basecalls", "an event of variants", "leave --basecalls out for these, or follow topic basecalls, as without --topic, for called reads"},
		{"--topic variants --alerts --filter final", "an event of variants", "leave --alerts out for these, or follow topic alerts, as without --topic, for alerts"},
		{"--topic alerts --methylation", "an alert", "give --alerts in place of --methylation for these, or follow topic methylation, as without --topic, for modified bases"},
		{"--topic methylation --format vcf --ref ref.fa", "an event of modified bases", "give --methylation for these, or follow topic variants, as without --topic, for variants"},
	} {
		args := append([]string{"consume", "--brokers", addr}, strings.Fields(tt.args)...)
		for _, more := range [][]string{nil, {"--until-end"}} {
			r := pore(t, append(args, more...)...)
			require.EqualError(t, r.err, "record 0 of "+args[4]+"/2 is "+tt.is+": "+tt.do)
			assert.Empty(t, r.out)
		}
	}
	for _, args := range []string{"--topic basecalls --basecalls", "--topic alerts", "--topic alerts --alerts", "--topic methylation", "--topic methylation --methylation", "--topic variants"} {
		r := pore(t, append([]string{"consume", "--brokers", addr, "--until-end"}, strings.Fields(args)...)...)
		require.NoError(t, r.err, args)
		assert.Equal(t, strings.Contains(args, "basecalls"), r.out == oneRead, args)
	}
}

// A record that can't be read stops no topic, wherever it is, nor does one of another kind behind those that were asked for.
func TestConsumeBesideOthers(t *testing.T) {
	addr, p := publish(t)
	require.NoError(t, p.client.EnsureTopics(t.Context(), stream.NewTopics("").BasecallSettings(1), 1))
	variant, err := event.FromCall(&streampb.Call{Run: "run", Sample: "s", VrsId: "ga4gh:VA.a", Contig: "c", Pos: 1, Ref: "A", Alt: "G", Revision: 1, Genotype: []uint32{1}}, annotate.Annotation{}).Record("variants")
	require.NoError(t, err)
	ends, err := event.RunEndRecords("variants", 3, &streampb.Marker{Run: &streampb.Run{Id: "run", Sample: "s"}, Sources: 1})
	require.NoError(t, err)
	damaged := golden(t, "reads-run-start")
	damaged[9]++
	for _, o := range []stream.Out{
		{Value: []byte("junk")}, {Value: damaged}, {Value: []byte("{}"), Headers: typed("porestream.other.v1")}, {Key: []byte("gone")}, ends[1], variant,
		{Value: golden(t, "reads-run-start")}, {Value: []byte(oneRead)},
	} {
		o.Topic, o.Partition = "variants", 1
		p.out(o)
	}
	for _, value := range []string{"junk\n", "@cut\nAC\n", oneRead, string(golden(t, "signal-run-start")), "{}", oneRead} {
		p.out(stream.Out{Topic: "basecalls", Value: []byte(value)})
	}
	for args, want := range map[string]struct{ out, errs []string }{
		"--until-end": {[]string{"c:1 A>G"}, []string{
			"record 0 of variants/1 is nothing that pore consume knows", "record 1 of variants/1 is nothing that pore consume knows",
			"record 6 of variants/1 is one of those that stages exchange, as on reads", "record 7 of variants/1 is a called read as FASTQ",
		}},
		"--until-end --basecalls": {strings.Split(strings.TrimSpace(oneRead+oneRead), "\n"), []string{
			"record 0 of basecalls/0 is no read as FASTQ", "record 1 of basecalls/0 is no read as FASTQ", "record 3 of basecalls/0 is one of those that stages exchange, as on signal",
			"record 4 of basecalls/0 is no read as FASTQ",
		}},
	} {
		f := follow(t, append([]string{"--brokers", addr}, strings.Fields(args)...)...)
		var out, errs []string
		for f.out.Scan() {
			out = append(out, f.out.Text())
		}
		for f.errs.Scan() {
			errs = append(errs, f.errs.Text())
		}
		require.NoError(t, f.Wait(), args)
		require.Len(t, out, len(want.out), "%q", out)
		for i := range out {
			assert.Contains(t, out[i], want.out[i])
		}
		require.Len(t, errs, len(want.errs), "%q", errs)
		for i := range errs {
			assert.Contains(t, errs[i], want.errs[i])
		}
	}
}

// The fetches of partitions come in any order: what stands on the topic decides all the same, here as the files of variants say.
func TestConsumeOfMixedPartitions(t *testing.T) {
	addr, p := publish(t)
	variant, err := event.FromCall(&streampb.Call{Run: "run", Sample: "s", VrsId: "ga4gh:VA.a", Contig: "c", Pos: 1, Ref: "A", Alt: "G", Revision: 1, Genotype: []uint32{1}}, annotate.Annotation{}).Record("variants")
	require.NoError(t, err)
	stray := stream.Out{Topic: "variants", Value: golden(t, "reads-run-start")}
	for range 3 {
		p.out(stray)
	}
	stray.Partition, variant.Partition = 1, 1
	p.out(stray)
	p.out(variant)
	for range 20 {
		f := follow(t, "--brokers", addr, "--until-end")
		var out, errs []string
		for f.out.Scan() {
			out = append(out, f.out.Text())
		}
		for f.errs.Scan() {
			errs = append(errs, f.errs.Text())
		}
		require.NoError(t, f.Wait(), "%q", errs)
		require.Len(t, out, 1)
		require.Len(t, errs, 4)
	}
	// Those that come later are held against what was there before them.
	f := follow(t, "--brokers", addr, "--from", "end")
	lines := make(chan string)
	go func() {
		defer close(lines)
		for f.errs.Scan() {
			lines <- f.errs.Text()
		}
	}()
	var first string
	for first == "" {
		p.out(stray) // until one is behind where the command has begun
		select {
		case first = <-lines:
		default:
		}
	}
	assert.Contains(t, first, "ignoring a record")
	require.NoError(t, f.Process.Signal(os.Interrupt))
	for line := range lines {
		assert.Contains(t, line, "ignoring a record")
	}
	require.NoError(t, f.Wait())
}

// heldLog is a topic in memory.
type heldLog [][]stream.Record

func (l heldLog) Offsets(context.Context) ([]kafka.PartitionOffsets, error) {
	bounds := make([]kafka.PartitionOffsets, len(l))
	for p, recs := range l {
		bounds[p] = kafka.PartitionOffsets{Partition: int32(p), End: int64(len(recs)), Stable: int64(len(recs))}
	}
	return bounds, nil
}

func (l heldLog) Read(_ context.Context, partition int32, from, to int64, take func(stream.Record) bool) error {
	for _, rec := range l[partition][from:to] {
		if !take(rec) {
			return nil
		}
	}
	return nil
}

// answer is what a gate says of a topic.
type answer struct {
	err          string
	passed, left []string // sorted; none with an error
}

// TestGateIsOfTheTopicAlone has partitions of all kinds of records come in any order: the same records pass, the same are reported, or the same line ends the command.
func TestGateIsOfTheTopicAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 7))
	kinds := []stream.Record{
		{Value: []byte("{}"), Headers: typed(event.TypeVariant)}, {Value: golden(t, "reads-run-start")}, {Value: []byte(oneRead)}, {Value: []byte("{}"), Headers: typed(alert.Type)},
		{Value: []byte("junk")}, {Key: []byte("gone")}, {Value: []byte("{}"), Headers: typed("porestream.other.v1")},
	}
	verdicts := make(map[bool]int)
	for range 2000 {
		log, began := make(heldLog, 1+r.IntN(4)), []kafka.PartitionOffsets(nil)
		fromEnd, odds := r.IntN(3) == 0, r.IntN(9)
		for p := range log {
			for offset := range r.IntN(8) {
				rec := kinds[0]
				if r.IntN(9) > odds {
					rec = kinds[1+r.IntN(len(kinds)-1)]
				}
				rec.Topic, rec.Partition, rec.Offset = "variants", int32(p), int64(offset)
				log[p] = append(log[p], rec)
			}
			if fromEnd {
				began = append(began, kafka.PartitionOffsets{Partition: int32(p), End: int64(r.IntN(len(log[p]) + 1))})
			}
		}
		want := follows(t, r, log, began)
		for range 10 {
			require.Equal(t, want, follows(t, r, log, began))
		}
		verdicts[want.err == ""]++
		require.Equal(t, isOther(log, began), want.err != "", "%v %v: %+v", log, began, want)
	}
	assert.Greater(t, verdicts[true], 100)
	assert.Greater(t, verdicts[false], 100)
}

// enough stands in for enoughOthers, so that short partitions have that many.
const enough = 3

// isOther is the rule once more: there is a record of another kind behind where the command began, and none of the partitions has one that was asked for before three of
// another kind, counted from the log's start or from there.
func isOther(log heldLog, began []kafka.PartitionOffsets) bool {
	others := 0
	for p, recs := range log {
		from := 0
		if began != nil {
			from = int(began[p].End)
		}
		for _, part := range [][]stream.Record{recs, recs[from:]} {
			wrong := 0
			for _, rec := range part {
				kind := kindOf(rec, stream.NewTopics(""))
				if kind == nil {
					continue
				}
				if kind.flag == "" && !kind.none {
					if wrong < enough {
						return false
					}
					continue
				}
				wrong++
			}
		}
		for _, rec := range recs[from:] {
			if kind := kindOf(rec, stream.NewTopics("")); kind != nil && (kind.none || kind.flag != "") {
				others++
			}
		}
	}
	return others > 0
}

// follows has a gate take what is on a topic, in an order by chance within which that of each partition holds.
func follows(t *testing.T, r *rand.Rand, log heldLog, began []kafka.PartitionOffsets) (a answer) {
	topics, said := stream.NewTopics(""), new(strings.Builder)
	cfg := &consumeConfig{format: "vcf"}
	g := newGate(cfg, cfg.followed(topics), topics, log, slog.New(slog.NewTextHandler(said, nil)))
	g.began, g.others = began, enough
	var order []int
	next := make([]int, len(log))
	for p, recs := range log {
		if began != nil {
			next[p] = int(began[p].End)
		}
		for range recs[next[p]:] {
			order = append(order, p)
		}
	}
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, p := range order {
		rec := log[p][next[p]]
		next[p]++
		ok, err := g.pass(t.Context(), rec)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return answer{err: err.Error()}
		}
		if ok {
			a.passed = append(a.passed, fmt.Sprint(p, "/", rec.Offset))
		}
	}
	for line := range strings.Lines(said.String()) {
		_, line, _ = strings.Cut(line, " ")
		a.left = append(a.left, line)
	}
	slices.Sort(a.passed)
	slices.Sort(a.left)
	return a
}
