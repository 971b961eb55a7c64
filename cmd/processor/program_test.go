package main

import (
	"testing"

	"github.com/porestream/porestream/internal/cli/clitest"
)

// runProgram makes the test binary run the program instead of the tests.
const runProgram = "PORESTREAM_PROCESSOR_TEST"

func TestMain(m *testing.M) { clitest.Main(m, runProgram, program) }

func TestProgram(t *testing.T) { clitest.Program(t, "../..", program) }

// TestMistakes makes the mistakes that people make with each command.
func TestMistakes(t *testing.T) {
	clitest.Refuses(t, runProgram, []clitest.Mistake{
		{Args: ``, Code: 2, Want: `--ref is required`},
		{Args: `--ref ../../testdata/lambda/reference.fa`, Code: 2, Want: `--brokers is required`},
		{Args: `--ref ../../testdata/lambda/reference.fa --brokers nowhere`, Code: 2, Want: `broker address "nowhere": want host:port`},
		{Args: `--brokers 127.0.0.1:1 --ref ../../testdata/lambda/reference.fa`, Code: 1, Want: `nobody listens there`},
		{Args: `--brokers 127.0.0.1:1 --ref ../../testdata/lambda/reference.fa --stages nope`, Code: 2, Want: `unknown stage "nope"`},
		{Args: `--brokers 127.0.0.1:1 --ref ../../testdata/lambda/reference.fa --delivery twice`, Code: 2, Want: `want exactly-once or at-least-once`},
		{Args: `--brokers 127.0.0.1:1 --ref ../../testdata/lambda/reference.fa --max-unresolved -5`, Code: 2, Want: `"-5" is no size`},
		{Args: `--brokers 127.0.0.1:1 --ref ../../testdata/lambda/reference.fa extra`, Code: 2, Want: `unknown command "extra" for "processor"; see processor --help`},
		{Args: `--brokers 127.0.0.1:1 --ref ../../testdata/lambda/reference.fa --log-format xml`, Code: 2, Want: `want text or json`},
	})
}
