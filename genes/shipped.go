package genes

import (
	"bytes"
	_ "embed"
)

//go:embed prior.json
var shippedPrior []byte

// shipped is the prior that is built in.
func shipped() (*Prior, error) { return ReadPrior(bytes.NewReader(shippedPrior)) }
