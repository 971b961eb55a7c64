package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streampb"
)

// following is a pore consume in a process of its own.
type following struct {
	*exec.Cmd
	out, errs *bufio.Scanner
}

func follow(t *testing.T, args ...string) *following {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	f := &following{Cmd: exec.CommandContext(t.Context(), self, append([]string{"consume"}, args...)...)}
	f.Env = append(os.Environ(), runProgram+"=1")
	stdout, err := f.StdoutPipe()
	require.NoError(t, err)
	stderr, err := f.StderrPipe()
	require.NoError(t, err)
	f.out, f.errs = bufio.NewScanner(stdout), bufio.NewScanner(stderr)
	require.NoError(t, f.Start())
	return f
}

// A consumer that is started before any processor waits for its topic, and gets what comes from its start on; what is on the topic now can't be
// waited for.
func TestConsumeBeforeItsTopic(t *testing.T) {
	addr, client := testBroker(t)
	require.NoError(t, client.EnsureTopics(t.Context(), stream.NewTopics("").Settings(1), 1))

	for _, more := range [][]string{{"--until-end"}, {"--format", "vcf", "--ref", "../../testdata/lambda/reference.fa"}} {
		r := pore(t, append([]string{"consume", "--brokers", addr, "--topic-prefix", "lab."}, more...)...)
		require.EqualError(t, r.err, "topic lab.variants does not exist: [3] Unknown Topic Or Partition: the request is for a topic or partition that does not exist on this broker, and there is variants")
		assert.Empty(t, r.out)
	}

	f := follow(t, "--brokers", addr, "--topic-prefix", "lab.")
	require.True(t, f.errs.Scan())
	assert.Contains(t, f.errs.Text(), `msg="waiting for a topic that does not exist; is its name right?" topic=lab.variants "made by"="processors, pore topics create" "like it"=variants`)
	require.NoError(t, f.Process.Signal(os.Interrupt))
	assert.False(t, f.out.Scan(), f.out.Text())
	assert.False(t, f.errs.Scan(), f.errs.Text())
	require.NoError(t, f.Wait())

	f = follow(t, "--brokers", addr, "--topic-prefix", "lab.", "--basecalls", "--from", "end")
	require.True(t, f.errs.Scan())
	assert.Contains(t, f.errs.Text(), `topic=lab.basecalls "made by"="processors with --basecalls, pore topics create --basecalls"`)
	require.NoError(t, client.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: "lab.basecalls", Partitions: 1}}, 1))
	p, err := kafka.NewProducer(t.Context(), client, kafka.ProducerConfig{})
	require.NoError(t, err)
	require.NoError(t, p.Send(t.Context(), []stream.Out{{Topic: "lab.basecalls", Key: []byte("k"), Value: []byte("@r1\nA\n+\n!\n")}}, nil))
	require.NoError(t, p.Close(t.Context()))
	require.True(t, f.out.Scan())
	assert.Equal(t, "@r1", f.out.Text())
	require.NoError(t, f.Process.Signal(os.Interrupt))
	for f.out.Scan() {
	}
	for f.errs.Scan() {
	}
	require.NoError(t, f.Wait())
}

// published are variants on a topic of three partitions, of which one is empty.
type published struct {
	t      *testing.T
	client *kafka.Client
	topic  string
}

func (p published) send(value string, types string) {
	p.out(stream.Out{Topic: p.topic, Key: []byte("k" + value), Partition: 1, Value: []byte(value), Headers: []stream.Header{{Key: "ce_type", Value: []byte(types)}}})
}

func (p published) variant(pos int64, revision uint64, status streampb.CallStatus, qual float64) {
	p.call(&streampb.Call{Sample: "s", Pos: pos, Revision: revision, Status: status, Qual: qual, Genotype: []uint32{1}})
}

// call publishes a call of A>G on contig c.
func (p published) call(c *streampb.Call) {
	c.Run, c.VrsId, c.Contig, c.Ref, c.Alt = "run", "ga4gh:VA."+string(rune('a'+c.GetPos())), "c", "A", "G"
	o, err := event.FromCall(c, annotate.Annotation{MostSevere: annotate.MostSevere{Term: "stop_lost"}}).Record(p.topic)
	require.NoError(p.t, err)
	p.out(o)
}

func (p published) out(o stream.Out) {
	producer, err := kafka.NewProducer(p.t.Context(), p.client, kafka.ProducerConfig{})
	require.NoError(p.t, err)
	require.NoError(p.t, producer.Send(p.t.Context(), []stream.Out{o}, nil))
	require.NoError(p.t, producer.Close(p.t.Context()))
}

func publish(t *testing.T) (addr string, p published) {
	addr, client := testBroker(t)
	p = published{t, client, "variants"}
	require.NoError(t, client.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: "variants", Partitions: 3}}, 1))
	return addr, p
}

func fasta(t *testing.T, content string) string {
	path := filepath.Join(t.TempDir(), "ref.fa")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

// A file has the newest revisions that --filter keeps: where the newest is filtered out, no older one stands in its place.
func TestConsumeFiltersNewestRevisions(t *testing.T) {
	addr, p := publish(t)
	p.variant(1, 1, streampb.CallStatus_PROVISIONAL, 40)
	p.variant(1, 2, streampb.CallStatus_FINAL, 20)
	p.variant(2, 1, streampb.CallStatus_PROVISIONAL, 20)
	p.variant(2, 2, streampb.CallStatus_FINAL, 40)
	p.variant(3, 1, streampb.CallStatus_PROVISIONAL, 40)
	p.variant(3, 2, streampb.CallStatus_RETRACTED, 0)
	r := pore(t, "consume", "--brokers", addr, "--format", "vcf", "--ref", fasta(t, ">c\nAAAAAA\n"), "--filter", "call.qual > 30")
	require.NoError(t, r.err)
	var places []string
	for line := range strings.Lines(r.out) {
		if f := strings.Split(line, "\t"); len(f) > 5 && f[0] == "c" {
			places = append(places, f[1]+" "+f[5])
		}
	}
	assert.Equal(t, []string{"2 40"}, places)
	reference, err := (&event.Reference{Run: "run", Sample: "s", Revision: 1, Stretch: event.Stretch{Contig: "c", Pos: 1, End: 6}}).Record("variants")
	require.NoError(t, err)
	p.out(reference)
	r = pore(t, "consume", "--brokers", addr, "--format", "callable", "--ref", fasta(t, ">c\nAAAAAA\n"), "--filter", `status == "FINAL"`)
	require.ErrorContains(t, r.err, "; or --filter leaves it out")
	r = pore(t, "consume", "--brokers", addr, "--format", "vcf", "--ref", fasta(t, ">c\nAAAAAA\n"), "--filter", `sample == "s" && revision > 9`)
	require.EqualError(t, r.err, "nothing on the topic is for a file: no sample has a call yet that --filter keeps")
}

// Diplotypes, followed or as a table, are of the newest revisions that --filter keeps, too.
func TestConsumeFiltersNewestRevisionsOfDiplotypes(t *testing.T) {
	addr, p := publish(t)
	gene := filepath.Join(t.TempDir(), "gene.json")
	require.NoError(t, os.WriteFile(gene, []byte(`{"formatVersion": "2", "version": "1", "gene": "GENE", "chromosome": "c", "genomeBuild": "made-up", "variants": [
		{"position": 2, "rsid": "rs2", "ref": "A", "alts": ["G"], "cpicToVcfAlleleMap": {"A": "A", "G": "G"}}],
		"namedAlleles": [{"name": "*1", "reference": true, "cpicAlleles": ["A"]}, {"name": "*2", "cpicAlleles": ["G"], "corePositions": [2]}]}`), 0o644))
	for sample, second := range map[string]*streampb.Call{
		"replaced":  {Status: streampb.CallStatus_FINAL, Qual: 20, Genotype: []uint32{1, 1}},
		"retracted": {Status: streampb.CallStatus_RETRACTED, Genotype: []uint32{0, 0}},
		"stays":     {Status: streampb.CallStatus_FINAL, Qual: 50, Genotype: []uint32{1, 1}},
	} {
		p.call(&streampb.Call{Sample: sample, Pos: 2, Revision: 1, Status: streampb.CallStatus_PROVISIONAL, Qual: 40, Genotype: []uint32{1, 1}, Depth: 20, GenotypeQuality: 50})
		p.call(&streampb.Call{Sample: sample, Pos: 2, Revision: 2, Status: second.GetStatus(), Qual: second.GetQual(), Genotype: second.GetGenotype(), Depth: 20, GenotypeQuality: 50})
	}
	consumed := func(filter string, more ...string) []string {
		r := pore(t, append([]string{"consume", "--brokers", addr, "--diplotypes", "--definitions", gene, "--ref", fasta(t, ">c\nAAAAAA\n"), "--filter", filter}, more...)...)
		require.NoError(t, r.err)
		return strings.Split(strings.TrimSpace(r.out), "\n")
	}
	table := consumed("call.qual > 30", "--format", "table")
	require.Len(t, table, 2, "%q", table)
	assert.Contains(t, table[1], "stays\tGENE\t*2/*2\t")

	last := make(map[string]string)
	for _, line := range consumed("call.qual > 30", "--until-end") {
		last[strings.Fields(line)[1]] = line
	}
	require.Len(t, last, 3)
	assert.Contains(t, last["replaced"], "GENE no diplotype; missing: rs2; ")
	assert.Contains(t, last["retracted"], "GENE no diplotype; missing: rs2; ")
	assert.Equal(t, "FINAL stays GENE *2/*2", last["stays"])
	assert.Equal(t, []string{"PROVISIONAL stays GENE *2/*2", "FINAL stays GENE *2/*2"}, consumed(`sample == "stays"`, "--until-end"))
}

// Counts of modified bases are the newest revisions that --filter keeps, too.
func TestConsumeFiltersNewestRevisionsOfMethylation(t *testing.T) {
	addr, p := publish(t)
	p.topic = "methylation"
	require.NoError(t, p.client.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: p.topic, Partitions: 2}}, 1))
	for pos, statuses := range map[int64][]string{1: {methylation.Provisional, methylation.Final}, 4097: {methylation.Provisional}} {
		for i, status := range statuses {
			s := methylation.Stretch{
				SchemaVersion: methylation.SchemaVersion, Run: "run", Sample: "s", Revision: uint64(i) + 1, Status: status,
				Stretch: event.Stretch{Contig: "c", Pos: pos, End: pos + 4095}, Code: "m", Sites: methylation.NewSites(),
			}
			s.Sites.Add(&pileup.Row{Pos: int(pos), Strand: pileup.Plus, Modified: 3 + i})
			o, err := s.Record(p.topic)
			require.NoError(t, err)
			p.out(o)
		}
	}
	ref := fasta(t, ">c\n"+strings.Repeat("AC", 5000)+"\n")
	for filter, want := range map[string][]string{`status == "PROVISIONAL"`: {"4097"}, `status == "FINAL"`: {"1"}, `sample == "s"`: {"1", "4097"}} {
		r := pore(t, "consume", "--brokers", addr, "--methylation", "--format", "bedmethyl", "--ref", ref, "--filter", filter)
		require.NoError(t, r.err)
		var starts []string
		for line := range strings.Lines(r.out) {
			starts = append(starts, strings.Split(line, "\t")[1])
		}
		assert.Equal(t, want, starts, filter)
	}
	r := pore(t, "consume", "--brokers", addr, "--methylation", "--format", "bedmethyl", "--ref", ref, "--filter", `status == "STABLE"`)
	require.EqualError(t, r.err, "nothing on the topic is for a file: no sample has a count yet that --filter keeps")
}

// A file of another reference than that of the calls is refused.
func TestConsumeWithAnotherReference(t *testing.T) {
	addr, p := publish(t)
	p.variant(2, 1, streampb.CallStatus_FINAL, 40)
	for content, want := range map[string]string{
		">d\nAAAAAA\n": `has no contig "c", where A>G was called at 2: give the reference that the processors have`,
		">c\nACAAAA\n": "has no A at c:2, where A>G was called: give the reference that the processors have",
		">c\nA\n":      "has no A at c:2",
	} {
		r := pore(t, "consume", "--brokers", addr, "--format", "vcf", "--ref", fasta(t, content))
		require.ErrorContains(t, r.err, want)
		assert.Empty(t, r.out)
	}
	require.NoError(t, pore(t, "consume", "--brokers", addr, "--format", "vcf", "--ref", fasta(t, ">c\naaaaaa\n")).err)
}

// Nor are places left out unsaid that the topic has records of, and the reference lacks.
func TestConsumeWithPartOfTheReference(t *testing.T) {
	addr, p := publish(t)
	reference, err := (&event.Reference{Run: "run", Sample: "s", Revision: 1, Stretch: event.Stretch{Contig: "d", Pos: 1, End: 6}}).Record("variants")
	require.NoError(t, err)
	p.out(reference)
	counts := &methylation.Stretch{SchemaVersion: methylation.SchemaVersion, Run: "run", Sample: "s", Revision: 1, Status: methylation.Final, Stretch: event.Stretch{Contig: "d", Pos: 1, End: 6}, Code: "m", Sites: methylation.NewSites()}
	counts.Sites.Add(&pileup.Row{Pos: 3, Strand: pileup.Plus, Canonical: 10})
	counted, err := counts.Record("methylation")
	require.NoError(t, err)
	require.NoError(t, p.client.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: "methylation", Partitions: 1}}, 1))
	p.out(counted)
	for _, format := range [][]string{{"--format", "gvcf"}, {"--format", "callable"}, {"--format", "vcf"}, {"--methylation", "--format", "bedmethyl"}} {
		for content, want := range map[string]string{">c\nAAAAAA\n": `ref.fa has no contig "d", and the topic has records of it`, ">d\nAAAAA\n": "ref.fa has no d:6, and the topic has records of it"} {
			r := pore(t, append([]string{"consume", "--brokers", addr, "--ref", fasta(t, content)}, format...)...)
			require.ErrorContains(t, r.err, want, format)
			assert.Empty(t, r.out)
		}
	}
	r := pore(t, "consume", "--brokers", addr, "--methylation", "--format", "bedmethyl", "--ref", fasta(t, ">d\nAAAAAA\n"))
	require.NoError(t, r.err)
	assert.Equal(t, 1, strings.Count(r.out, "\n"), r.out)
}

// A filter ends nothing over events that aren't variants, and over records that can't be read.
func TestConsumeFiltersWhatItCan(t *testing.T) {
	addr, p := publish(t)
	reference, err := (&event.Reference{Run: "run", Sample: "s", Revision: 1, Stretch: event.Stretch{Contig: "c", Pos: 1, End: 6}}).Record("variants")
	require.NoError(t, err)
	p.out(reference)
	p.send("not JSON", event.TypeVariant)
	p.send("null", event.TypeVariant)
	p.send("[1]", event.TypeVariant)
	p.send("{}", "porestream.variant.v2")
	p.variant(1, 1, streampb.CallStatus_PROVISIONAL, 20)
	p.variant(2, 1, streampb.CallStatus_PROVISIONAL, 40)
	r := pore(t, "consume", "--brokers", addr, "--until-end", "--filter", "call.qual > 30")
	require.NoError(t, r.err)
	assert.Equal(t, 1, strings.Count(r.out, "\n"), r.out)
	r = pore(t, "consume", "--brokers", addr, "--until-end", "--filter", "call.motif.sites > 3")
	require.ErrorContains(t, r.err, "cannot fetch sites from <nil>")
	require.ErrorContains(t, r.err, "takes ?. behind it, and ?? with what to take instead, as in (call.motif?.sites ?? 0) > 3")
	for filter, kept := range map[string]int{"(call.motif?.sites ?? 0) > 3": 0, "(call.motif?.sites ?? 0) < 3": 2} { // as it says
		r = pore(t, "consume", "--brokers", addr, "--until-end", "--filter", filter)
		require.NoError(t, r.err)
		assert.Equal(t, kept, strings.Count(r.out, "\n"), r.out)
	}
}

// A record that can't be read is named, also where the filter would leave it out.
func TestConsumeNamesBrokenRecords(t *testing.T) {
	addr, p := publish(t)
	p.variant(1, 1, streampb.CallStatus_PROVISIONAL, 20)
	p.send(`{"sample": "s", "revision": "one"}`, event.TypeVariant)
	p.send("null", event.TypeVariant)
	p.send("{}", event.TypeReference)
	p.send("{}", "porestream.variant.v2")
	for _, args := range [][]string{
		{"--filter", `sample == "t"`, "--until-end"}, {"--until-end"},
		{"--filter", `sample == "t"`, "--format", "vcf", "--ref", fasta(t, ">c\nAAAAAA\n")},
	} {
		f := follow(t, append([]string{"--brokers", addr}, args...)...)
		go func() {
			for f.out.Scan() {
			}
		}()
		said := 0
		for f.errs.Scan() {
			if strings.Contains(f.errs.Text(), "ignoring a record") {
				require.Regexp(t, `decoding record \d+ of variants/\d`, f.errs.Text())
				said++
			}
		}
		_ = f.Wait()
		assert.Equal(t, 3, said, args)
	}
}

// A filter that asks for what no event has is refused; everything else is left to each event.
func TestFilterMembers(t *testing.T) {
	for filter, missing := range map[string]string{
		`sampel == "x"`:  "sampel",
		`call.qaul > 30`: "call.qaul",
		`status == "FINAL" && call?.motif?.sits > 3`: "call.motif.sits",
		`call.qual.deep == 1`:                        "call.qual.deep",
		`any(call.filters, # == "x") && samples`:     "samples",
		`$env["sampel"] == "x"`:                      "sampel",
	} {
		_, err := compileFilter(filter)
		require.ErrorContains(t, err, "--filter: no event has a member "+missing+";", filter)
	}
	for _, filter := range []string{
		`status == "FINAL" && call.qual > 30 && annotation.most_severe.impact == "HIGH"`, `state == "DETECTED" && severity == "high"`, `state == "NEGATIVE" && final`,
		`sample == "NAME"`, `variant.contig in ["a", "b"]`, `let q = call.qual; q > 3 and q < 9`, `"LowQual" in (call.filters ?? [])`, `call.filters[0] == "x"`, `any(haplotype ?? [], .gene == "x")`,
		`any(haplotype ?? [], len(.terms) > 1)`, `thresholds.C > 0.5`, `stretch.pos < 100`, `provisional`, `call.motif?.sites > 3`, `evidence?.depth > 3 && consequence != nil`, `len(annotation.consequences ?? []) > 1`,
		`annotation.known != nil`, `call["qual"] > 3`, `$env["sample"] == "x"`, `"call" in $env`,
	} {
		_, err := compileFilter(filter)
		require.NoError(t, err, filter)
	}
}
