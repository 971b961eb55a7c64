package main

import (
	"testing"

	"github.com/porestream/porestream/internal/cli/clitest"
)

// runProgram makes the test binary run the program instead of the tests.
const runProgram = "PORESTREAM_INGEST_TEST"

func TestMain(m *testing.M) { clitest.Main(m, runProgram, program) }

func TestProgram(t *testing.T) { clitest.Program(t, "../..", program) }

// TestMistakes makes the mistakes that people make with each command.
func TestMistakes(t *testing.T) {
	clitest.Refuses(t, runProgram, []clitest.Mistake{
		{Args: ``, Code: 2, Want: `requires at least 1 arg(s), only received 0; usage: ingest --brokers HOST:PORT SIGNAL...`},
		{Args: `../../testdata/lambda/reads.pod5`, Code: 2, Want: `--brokers is required`},
		{Args: `--brokers 127.0.0.1:1 --pace x ../../testdata/lambda/reads.pod5`, Code: 2, Want: `"x" is neither a positive number nor max`},
		{Args: `--brokers 127.0.0.1:1 ../../testdata/lambda/reads.pod5`, Code: 1, Want: `nobody listens there`},
		{Args: `--brokers 127.0.0.1:1 --spool-max 1.5GiB ../../testdata/lambda/reads.pod5`, Code: 2, Want: `"1.5GiB" is no size`},
		{Args: `--brokers 127.0.0.1:1 --spol x ../../testdata/lambda/reads.pod5`, Code: 2, Want: `did you mean --spool?`},
		{Args: `minknow --brokers 127.0.0.1:1`, Code: 2, Want: `--host is needed`},
		{Args: `folder --brokers 127.0.0.1:1`, Code: 2, Want: `usage: ingest folder --brokers HOST:PORT DIR...`},
		{Args: `run nope.yaml`, Code: 1, Want: `nope.yaml: no such file or directory`},
		{Args: `check nope.yaml`, Code: 1, Want: `nope.yaml: no such file or directory`},
		{Args: `status --listen 127.0.0.1:1`, Code: 2, Want: `unknown flag: --listen`},
		{Args: `token`, Code: 2, Want: `accepts 1 arg(s), received 0; usage: ingest token DEVICE`},
	})
}
