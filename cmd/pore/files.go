package main

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"github.com/porestream/porestream/textfile"
	"github.com/porestream/porestream/wholefile"
)

// openInput opens a file, or standard input for "-", and names it for errors. A BGZF file must be whole.
func openInput(path string, stdin io.Reader) (io.ReadCloser, string, error) {
	if path == "-" {
		return io.NopCloser(stdin), "standard input", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, "", err
	}
	if err := textfile.CheckEnd(f); err != nil {
		f.Close()
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	return f, path, nil
}

// writeOutput has a function write a file, which appears when it is whole, or standard output for "-".
func writeOutput(path string, stdout io.Writer, write func(*bufio.Writer) error) error {
	if path != "-" {
		return wholefile.Write(path, write)
	}
	out := bufio.NewWriterSize(stdout, 1<<18)
	if err := write(out); err != nil {
		return err
	}
	return out.Flush()
}
