package main

import (
	"os"
	"testing"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/internal/cli/clitest"
)

// runProgram makes the test binary run the program instead of the tests.
const runProgram = "PORESTREAM_PROCESSOR_TEST"

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
		{``, 2, `--ref is required`},
		{`--ref ../../testdata/lambda/reference.fa`, 2, `--brokers is required`},
		{`--ref ../../testdata/lambda/reference.fa --brokers nowhere`, 2, `broker address "nowhere": want host:port`},
		{`--brokers 127.0.0.1:1 --ref ../../testdata/lambda/reference.fa`, 1, `nobody listens there`},
		{`--brokers 127.0.0.1:1 --ref ../../testdata/lambda/reference.fa --stages nope`, 2, `unknown stage "nope"`},
		{`--brokers 127.0.0.1:1 --ref ../../testdata/lambda/reference.fa --delivery twice`, 2, `want exactly-once or at-least-once`},
		{`--brokers 127.0.0.1:1 --ref ../../testdata/lambda/reference.fa --max-unresolved -5`, 2, `"-5" is no size`},
		{`--brokers 127.0.0.1:1 --ref ../../testdata/lambda/reference.fa extra`, 2, `unknown command "extra" for "processor"; see processor --help`},
		{`--brokers 127.0.0.1:1 --ref ../../testdata/lambda/reference.fa --log-format xml`, 2, `want text or json`},
	})
}
