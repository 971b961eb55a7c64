package clitest

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCalls(t *testing.T) {
	for line, want := range map[string][][]string{
		"  bin/pore run --ref ref.fa x.pod5 > out   # everything": {{"run", "--ref", "ref.fa", "x.pod5"}},
		"samtools view x | pore call --ref 'a b.fa' -":            {{"call", "--ref", "a b.fa", "-"}},
		"$ pore a && /opt/bin/pore b \"c d\"":                     {{"a"}, {"b", "c d"}},
		"bin/ingest --brokers k:1 pore":                           nil,
		"porestream pore":                                         nil,
	} {
		assert.Equal(t, want, calls(line, "pore"), line)
	}
}

func TestCode(t *testing.T) {
	assert.Equal(t, []string{"pore a  b", "pore c"}, code("text pore x\n```\npore a \\\nb\n\n```\npore y\n```sh\npore c\n```\n"))
}
