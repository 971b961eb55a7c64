package main

import (
	"encoding/json"
	"io"
)

// printJSON writes a value for programs and for people: indented, with <, > and &
// as they are.
func printJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(value)
}
