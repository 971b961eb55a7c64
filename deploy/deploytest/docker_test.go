package deploytest

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/testenv"
)

func TestDockerfile(t *testing.T) {
	dir := testenv.Root(t)
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

// What an image is built from leaves out what .dockerignore says, and programs are made of none of that.
func TestImagesAreBuiltFromAllThatProgramsAreMadeOf(t *testing.T) {
	dir := testenv.Root(t)
	ignored := readIgnored(t, filepath.Join(dir, ".dockerignore"))
	require.True(t, ignored("docs/docs.go"))
	require.True(t, ignored("README.md"))
	require.True(t, ignored("variant/testdata/reads.bam"))
	require.False(t, ignored("testdata/lambda/reads.pod5"))
	require.False(t, ignored("models/r9.4-fast/MODEL_CARD.md"))
	require.False(t, ignored("stream/FORMAT.md"))

	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Dir,Module,GoFiles,CgoFiles,CFiles,CXXFiles,HFiles,SFiles,EmbedFiles", "./cmd/...", "./deploy/docker/healthcheck")
	list.Dir = dir
	out, err := list.Output()
	require.NoError(t, err)
	files := 0
	for packages := json.NewDecoder(bytes.NewReader(out)); packages.More(); {
		var p struct {
			Dir                                                             string
			Module                                                          *struct{ Main bool }
			GoFiles, CgoFiles, CFiles, CXXFiles, HFiles, SFiles, EmbedFiles []string
		}
		require.NoError(t, packages.Decode(&p))
		if p.Module == nil || !p.Module.Main {
			continue
		}
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles, p.CFiles, p.CXXFiles, p.HFiles, p.SFiles, p.EmbedFiles) {
			path, err := filepath.Rel(dir, filepath.Join(p.Dir, name))
			require.NoError(t, err)
			assert.False(t, ignored(path), "%s is not in what images are built from: .dockerignore", path)
			files++
		}
	}
	require.Greater(t, files, 500)
}

// readIgnored reads a .dockerignore, and returns which files it leaves out: the last line that is of a file, or of a folder above it, decides.
func readIgnored(t *testing.T, path string) func(string) bool {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	type rule struct {
		of   *regexp.Regexp
		kept bool
	}
	var rules []rule
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pattern, kept := strings.CutPrefix(line, "!")
		pattern = strings.NewReplacer(`\*\*/`, `(.*/)?`, `\*`, `[^/]*`).Replace(regexp.QuoteMeta(pattern))
		rules = append(rules, rule{regexp.MustCompile(`^` + pattern + `(/.*)?$`), kept})
	}
	return func(path string) bool {
		out := false
		for _, r := range rules {
			if r.of.MatchString(path) {
				out = !r.kept
			}
		}
		return out
	}
}

// An image says of which version and commit it is, in its labels and through its programs.
func TestImagesNameTheirCommit(t *testing.T) {
	dir := testenv.Root(t)
	data, err := os.ReadFile(filepath.Join(dir, "deploy/docker/Dockerfile"))
	require.NoError(t, err)
	stages := make(map[string]string) // what stands below each FROM
	name := ""
	for line := range strings.Lines(strings.ReplaceAll(string(data), "\\\n", " ")) {
		if m := regexp.MustCompile(`^FROM \S+ AS (\S+)$`).FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			name = m[1]
		}
		stages[name] += line
	}
	assert.Contains(t, stages[""], "ARG PORESTREAM_VERSION="+cli.Version+"\n")
	for _, stage := range []string{"build", "build-cuda"} {
		commit, run := strings.Index(stages[stage], "ARG PORESTREAM_COMMIT\n"), strings.Index(stages[stage], "RUN deploy/docker/stage.sh")
		assert.True(t, commit >= 0 && commit < run, "%s doesn't know the commit when it builds", stage)
		assert.Contains(t, stages[stage], "ARG PORESTREAM_COMMIT_TIME\n")
	}
	for _, stage := range []string{"cpu", "cuda"} {
		for _, want := range []string{"ARG PORESTREAM_VERSION\n", "ARG PORESTREAM_COMMIT\n", `org.opencontainers.image.version="$PORESTREAM_VERSION"`, `org.opencontainers.image.revision="$PORESTREAM_COMMIT"`} {
			assert.Contains(t, stages[stage], want, stage)
		}
	}
	for name, s := range readCompose(t).Services {
		if s.Build != nil {
			assert.Equal(t, map[string]string{"PORESTREAM_COMMIT": "${PORESTREAM_COMMIT:-}", "PORESTREAM_COMMIT_TIME": "${PORESTREAM_COMMIT_TIME:-}"}, s.Build.Args, name)
		}
	}

	// The script's flags for the linker do what they say.
	stage, err := os.ReadFile(filepath.Join(dir, "deploy/docker/stage.sh"))
	require.NoError(t, err)
	const commit = "0123456789abcdef0123456789abcdef01234567"
	flags := ""
	for _, m := range regexp.MustCompile(`(?m)^\s*ldflags\+="( -X [^"]+)"$`).FindAllStringSubmatch(string(stage), -1) {
		flags += m[1]
	}
	flags = strings.NewReplacer("$PORESTREAM_COMMIT", commit, "${PORESTREAM_COMMIT_TIME:-}", "2026-11-22T10:00:00Z").Replace(flags)
	assert.NotContains(t, flags, "$")
	if testing.Short() {
		t.Skip("builds a program")
	}
	bin := filepath.Join(t.TempDir(), "ingest")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags", flags, "-o", bin, "./cmd/ingest")
	build.Dir = dir
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.CommandContext(t.Context(), bin, "--version").CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), cli.Version+" ("+commit[:12]+")")
}
