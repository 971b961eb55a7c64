package crf

import (
	"testing"

	"github.com/porestream/porestream/testenv"
)

// TestNothingIsFused: else other bases would be decoded on arm64.
func TestNothingIsFused(t *testing.T) {
	testenv.NothingFused(t, ".", "../ctc", "../scores", "../half")
}
