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
