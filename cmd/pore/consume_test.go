package main

import (
	"bufio"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
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
