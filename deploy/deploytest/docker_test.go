package deploytest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDockerfile(t *testing.T) {
	dir := root(t)
	data, err := os.ReadFile(filepath.Join(dir, "deploy/docker/Dockerfile"))
	require.NoError(t, err)
	file := strings.ReplaceAll(string(data), "\\\n", " ")

	stages := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^FROM (\S+) AS (\S+)$`).FindAllStringSubmatch(file, -1) {
		if !stages[m[1]] {
			assert.Regexp(t, `:[\w.-]+$`, m[1], "the base image has no tag")
		}
		stages[m[2]] = true
	}
	for _, m := range regexp.MustCompile(`(?m)^COPY (.+)$`).FindAllStringSubmatch(file, -1) {
		fields := strings.Fields(m[1])
		if from, ok := strings.CutPrefix(fields[0], "--from="); ok {
			assert.True(t, stages[from], "COPY from the unknown stage %s", from)
			continue
		}
		for _, source := range fields[:len(fields)-1] {
			_, err := os.Stat(filepath.Join(dir, source))
			assert.NoError(t, err)
		}
	}
	// What is built and laid out is the stage script's.
	data, err = os.ReadFile(filepath.Join(dir, "deploy/docker/stage.sh"))
	require.NoError(t, err)
	stage := string(data)
	assert.Contains(t, file, "RUN deploy/docker/stage.sh /out\n")
	assert.Contains(t, file, "RUN deploy/docker/stage.sh /out cuda\n")
	packages := regexp.MustCompile(`\s\./(?:cmd|deploy)/[\w/]+`).FindAllString(stage, -1)
	assert.Len(t, packages, 4)
	for _, p := range packages {
		assert.FileExists(t, filepath.Join(dir, strings.TrimSpace(p), "main.go"))
	}
	// What scripts/deps.sh leaves; any other place would fail in the image only.
	if _, err := os.Stat(filepath.Join(dir, ".deps")); err == nil {
		for _, path := range regexp.MustCompile(`\.deps/\S+`).FindAllString(stage, -1) {
			assert.FileExists(t, filepath.Join(dir, path))
		}
	}

	// Both builds of ONNX Runtime are of one release.
	deps, err := os.ReadFile(filepath.Join(dir, "scripts/deps.sh"))
	require.NoError(t, err)
	cpu := regexp.MustCompile(`(?m)^ort_version=(\S+)$`).FindSubmatch(deps)
	require.NotNil(t, cpu)
	assert.Contains(t, stage, "\nort_gpu_version="+string(cpu[1])+"\n")
	module, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	language := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	require.NotNil(t, language)
	assert.Contains(t, file, "FROM golang:"+string(language[1])+"-")

	var cuda composeFile
	readYAML(t, filepath.Join(dir, "deploy/compose/compose.cuda.yaml"), &cuda)
	targets := map[string]composeFile{"cpu": readCompose(t), "cuda": cuda}
	for target, compose := range targets {
		assert.True(t, stages[target])
		for name, s := range compose.Services {
			if s.Build != nil {
				assert.Equal(t, target, s.Build.Target, name)
			}
		}
	}
}
