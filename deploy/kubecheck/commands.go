package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// commandLines has the programs check how they are started: they read a flag before they
// answer --help, and ingest checks its file of sources. Files that the file of sources
// names must be in the image or on a volume.
func commandLines(ctx context.Context, bin string, objects []Object) ([]string, error) {
	m := sortOut(objects)
	var faults []string
	for _, w := range m.workloads {
		for i := range w.pod.Containers {
			c := &w.pod.Containers[i]
			line := m.expand(c)
			if len(line) == 0 || !slices.Contains([]string{"ingest", "processor", "pore"}, line[0]) {
				continue
			}
			program := filepath.Join(bin, line[0])
			if _, err := os.Stat(program); err != nil {
				return nil, fmt.Errorf("%w: run make build", err)
			}
			out, err := exec.CommandContext(ctx, program, append(slices.Clone(line[1:]), "--help")...).CombinedOutput()
			if err != nil {
				faults = append(faults, fmt.Sprintf("%s, container %s: %s: %s", w, c.Name, strings.Join(line, " "), firstLine(out)))
			}
			if line[0] != "ingest" || len(line) < 2 || line[1] != "run" {
				continue
			}
			for _, v := range w.pod.Volumes {
				if v.ConfigMap == nil {
					continue
				}
				sources, ok := m.configs[v.ConfigMap.Name]["sources.yaml"]
				if !ok {
					continue
				}
				out, err := checkSources(ctx, program, sources)
				if err != nil {
					return nil, err
				}
				for _, l := range out {
					if missing := notThere.FindStringSubmatch(l); missing != nil && (mounted(c, missing[1]) || strings.HasPrefix(missing[1], imageShare)) {
						continue
					}
					faults = append(faults, fmt.Sprintf("%s: %s", w, l))
				}
			}
		}
	}
	return faults, nil
}

// Of a file by which Kafka is reached the message is that of opening it.
var notThere = regexp.MustCompile(`: (?:open )?(/[^:]+): no such file or directory$`)

// checkSources returns what ingest check says of a file, but for its last line.
func checkSources(ctx context.Context, program, sources string) ([]string, error) {
	dir, err := os.MkdirTemp("", "kubecheck-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "sources.yaml")
	if err := os.WriteFile(file, []byte(sources), 0o600); err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, program, "check", file).CombinedOutput()
	if err == nil {
		return nil, nil
	}
	var faults []string
	for l := range strings.Lines(string(out)) {
		l = strings.TrimPrefix(strings.TrimSpace(l), "ingest check: ")
		l = strings.ReplaceAll(l, dir+"/", "")
		if l != "" && !countOfErrors.MatchString(l) {
			faults = append(faults, l)
		}
	}
	return faults, nil
}

var countOfErrors = regexp.MustCompile(`: \d+ errors?$`)

func firstLine(out []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}
