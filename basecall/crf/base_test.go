package crf

import "github.com/porestream/porestream/basecall/scores"

// Base is what a decoder gives. Tests have scores of their own by that name.
type Base = scores.Base
