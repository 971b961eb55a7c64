package version

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestRead(t *testing.T) {
	const commit = "f79f9af3c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6"
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "-trimpath", Value: "true"}, {Key: "vcs.revision", Value: commit}, {Key: "vcs.time", Value: "2026-11-22T10:00:00Z"}, {Key: "vcs.modified", Value: modified}}
	}
	for name, c := range map[string]struct {
		settings     []debug.BuildSetting
		commit, time string // by the linker
		want         Build
		text         string
	}{
		"nothing known":  {text: Number},
		"a checkout":     {settings: vcs("false"), want: Build{Commit: commit, Time: "2026-11-22T10:00:00Z"}, text: Number + " (f79f9af3c1d2)"},
		"changed since":  {settings: vcs("true"), want: Build{Commit: commit, Time: "2026-11-22T10:00:00Z", Modified: true}, text: Number + " (f79f9af3c1d2, modified)"},
		"by the linker":  {commit: "abc", time: "2026-01-01T00:00:00Z", want: Build{Commit: "abc", Time: "2026-01-01T00:00:00Z"}, text: Number + " (abc)"},
		"linker and vcs": {settings: vcs("true"), commit: "abc", want: Build{Commit: "abc"}, text: Number + " (abc)"},
	} {
		c.want.Version, c.want.Go, c.want.Platform = Number, runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH
		got := read(&debug.BuildInfo{Settings: c.settings}, c.commit, c.time)
		if got != c.want || got.String() != c.text {
			t.Errorf("%s: %+v, %q; want %+v, %q", name, got, got, c.want, c.text)
		}
	}
}
