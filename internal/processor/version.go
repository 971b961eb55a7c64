package processor

import (
	"github.com/porestream/porestream/align/minimap"
	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/internal/cli"
)

// Parts are the libraries that the engines work with.
func Parts() []cli.Part {
	return []cli.Part{
		{Name: "ONNX Runtime", Version: func() (string, error) { return infer.LibraryVersion("") }},
		{Name: "minimap2", Version: func() (string, error) { return minimap.Version(), nil }},
	}
}
