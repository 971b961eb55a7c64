// Package version says what a program was built from.
package version

import (
	"runtime"
	"runtime/debug"
	"strconv"
)

// Number is the version of all programs, formats and containers of this source.
const Number = "0.1.0"

// The commit and its time, given by the linker where the source is built without
// its history, as in a release or an image:
//
//	go build -ldflags "-X .../version.commit=HASH -X .../version.time=RFC3339"
var commit, time string

// Build is what a program was built from.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`   // empty: not known
	Time     string `json:"time,omitempty"`     // of the commit, RFC 3339; empty: not known
	Modified bool   `json:"modified,omitempty"` // the source differed from the commit
	Go       string `json:"go"`                 // the compiler's version, for example "go1.26.8"
	Platform string `json:"platform"`           // for example "linux/amd64"
}

// Read returns what the running program was built from: what the linker was given,
// otherwise what the go command knew.
func Read() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	return read(info, commit, time)
}

func read(info *debug.BuildInfo, commit, time string) Build {
	b := Build{Version: Number, Commit: commit, Time: time, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if commit != "" {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified, _ = strconv.ParseBool(s.Value)
		}
	}
	return b
}

// shortCommit is how much of a commit identifies it.
const shortCommit = 12

// String is the version and, where it is known, the commit: "0.1.0 (f79f9af3c1d2, modified)".
func (b Build) String() string {
	if b.Commit == "" {
		return b.Version
	}
	s := b.Version + " (" + b.Short()
	if b.Modified {
		s += ", modified"
	}
	return s + ")"
}

// Short is the beginning of the commit, empty where it is not known.
func (b Build) Short() string { return b.Commit[:min(shortCommit, len(b.Commit))] }
