package main

import (
	"os"
	"testing"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/cli/clitest"
)

// runProgram makes the test binary run the program instead of the tests.
const runProgram = "PORESTREAM_INGEST_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(runProgram) != "" {
		os.Exit(cli.Main(program()))
	}
	os.Exit(m.Run())
}

func TestProgram(t *testing.T) { clitest.Program(t, "../..", program) }

// TestMistakes makes the mistakes that people make with each command.
func TestMistakes(t *testing.T) {
	clitest.Refuses(t, runProgram, []clitest.Mistake{
		{``, 2, `requires at least 1 arg(s), only received 0; usage: ingest --brokers HOST:PORT SIGNAL...`},
		{`../../testdata/lambda/reads.pod5`, 2, `--brokers is required`},
		{`--brokers 127.0.0.1:1 --pace x ../../testdata/lambda/reads.pod5`, 2, `"x" is neither a positive number nor max`},
		{`--brokers 127.0.0.1:1 ../../testdata/lambda/reads.pod5`, 1, `nobody listens there`},
		{`--brokers 127.0.0.1:1 --spool-max 1.5GiB ../../testdata/lambda/reads.pod5`, 2, `"1.5GiB" is no size`},
		{`--brokers 127.0.0.1:1 --spol x ../../testdata/lambda/reads.pod5`, 2, `did you mean --spool?`},
		{`minknow --brokers 127.0.0.1:1`, 2, `--host is needed`},
		{`watch --brokers 127.0.0.1:1`, 2, `usage: ingest watch --brokers HOST:PORT DIR...`},
		{`run nope.yaml`, 1, `nope.yaml: no such file or directory`},
		{`check nope.yaml`, 1, `nope.yaml: no such file or directory`},
		{`status --listen 127.0.0.1:1`, 2, `unknown flag: --listen`},
		{`token`, 2, `accepts 1 arg(s), received 0; usage: ingest token DEVICE`},
	})
}
