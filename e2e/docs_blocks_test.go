package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/annotate/score"
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/ingest/push"
	"github.com/porestream/porestream/internal/notify"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/models/rules"
	"github.com/porestream/porestream/variant/network"
	"github.com/porestream/porestream/watchlist"
	"github.com/porestream/porestream/watchlist/biomarker"
)

// strictly decodes a document of JSON that has no field that is not known.
func strictly[T any](text string) error {
	var into T
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&into); err != nil {
		return err
	}
	var again map[string]any
	return json.Unmarshal([]byte(text), &again)
}

// panelOf reads a panel, or rules as those of one.
func panelOf(t *testing.T, text string) error {
	t.Helper()
	if strings.HasPrefix(text, "rules:") {
		text = "panel: example\nversion: 1\n" + text
	}
	dir := resistancePanel(t)
	model := filepath.Join(dir, "hiv1-pol") // what a rule asks
	require.NoError(t, os.Rename(filepath.Join(dir, "model"), model))
	manifest := bytes.ReplaceAll(readFile(t, model, "manifest.toml"), []byte(`"nucleoside"`), []byte(`"3TC"`))
	require.NoError(t, os.WriteFile(filepath.Join(model, "manifest.toml"), manifest, 0o600))
	file := filepath.Join(dir, "panel.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	_, err := watchlist.Load(file)
	return err
}

// notifyOf reads destinations, whose secrets lie in a folder of the test's.
func notifyOf(t *testing.T, text string) error {
	t.Helper()
	dir := t.TempDir()
	for name, secret := range map[string]string{
		"lims-token": "token", "lims-signing-key": strings.Repeat("k", 32), "chat-url": "https://chat.example.org/hook", "smtp-password": "word",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(secret+"\n"), 0o600))
	}
	_, err := notify.Parse("notify.yaml", []byte(strings.ReplaceAll(text, "/run/secrets", dir)))
	return err
}

// goOf compiles statements or declarations of a document, which stand in for a part of a program.
func goOf(t *testing.T, text string) error {
	t.Helper()
	head, body, tail := "package example\n\nimport (\n\t\"context\"\n\t\"crypto/tls\"\n\n\t\"github.com/porestream/porestream/annotate/event\"\n"+
		"\t\"github.com/porestream/porestream/push\"\n\t\"github.com/porestream/porestream/stream\"\n)\n\n"+
		"var (\n\t_ event.Variant\n\t_ stream.Record\n\t_ push.Config\n\t_ tls.Config\n\t_ context.Context\n)\n\n", text, ""
	if !strings.Contains(text, "\nfunc ") { // statements
		head += "func example(ctx context.Context, token, id, read string, start uint64, samples []int16) error {\n"
		tail = "return err\n}\n"
	} else {
		body = regexp.MustCompile(`(?m)^(\w+) := `).ReplaceAllString(text, "var $1 = ")
	}
	file := filepath.Join(t.TempDir(), "example.go")
	require.NoError(t, os.WriteFile(file, []byte(head+body+tail), 0o600))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, file)
	cmd.Dir = root()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, head+body+tail)
	return nil
}

// sourcesOf has ingest check a file of sources, beside which lies what it names.
func sourcesOf(t *testing.T, text string) error {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"kafka.password", "gridion.token", "gridion-ca.crt", "server.pem", "server.key"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("a word\n"), 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "devices.yaml"), []byte("devices:\n- name: p2-solo\n"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "runs"), 0o700))
	require.NoError(t, os.CopyFS(filepath.Join(dir, "data"), fstest.MapFS{"control.pod5": {Data: readFile(t, root(), "testdata", "lambda", "reads.pod5")}}))
	for from, to := range map[string]string{"/nas/runs": "runs", "/data/": "data/", "/var/spool/porestream/": "spool/"} {
		require.Contains(t, text, from)
		text = strings.ReplaceAll(text, from, filepath.Join(dir, to)+strings.Repeat("/", strings.Count(to, "/")))
	}
	file := filepath.Join(dir, "sources.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	res := command(t, "ingest", "check", file)
	require.Zero(t, res.code, "%s%s", res.stdout, res.stderr)
	return nil
}

// normalisationOf reads a section of a manifest in place of a shipped model's.
func normalisationOf(t *testing.T, text string) error {
	t.Helper()
	shipped := string(readFile(t, root(), "models", "r9.4-fast", "manifest.toml"))
	section := regexp.MustCompile(`(?ms)^\[normalisation\]\n.*?(^\[|\z)`)
	require.Regexp(t, section, shipped)
	_, err := basecall.ParseManifest([]byte(section.ReplaceAllString(shipped, strings.ReplaceAll(text, "$", "$$")+"\n$1")))
	return err
}

// checksum stands where a document has dots.
var checksum = strings.NewReplacer(`"..."`, `"`+strings.Repeat("0", 64)+`"`, `"…"`, `"`+strings.Repeat("0", 64)+`"`)

// TestBlocksOfTheDocsAreRead extracts each block of YAML, TOML, JSON, CSV and Go from the documents and has read it what reads such in
// earnest. One that nobody reads here is refused, too. Whole panels are
// resolved by the tests of package watchlist, too.
func TestBlocksOfTheDocsAreRead(t *testing.T) {
	t.Parallel()
	panel := func(text string) error { return panelOf(t, text) }
	// In the order in which they stand in a document.
	readers := map[string][]func(string) error{
		"docs/attach/ingest-sources.md": {func(text string) error { return sourcesOf(t, text) }},
		"docs/attach/models.md": {func(text string) error {
			_, err := network.ParseManifest([]byte(checksum.Replace(text)))
			return err
		}},
		"docs/attach/push.md": {
			func(text string) error { return goOf(t, text) },
			func(text string) error {
				_, err := push.ParseDevices([]byte(text), push.Limits{})
				return err
			},
		},
		"docs/attach/run-models.md": {func(text string) error {
			_, err := rules.Parse("rules.yaml", []byte(text))
			return err
		}},
		"docs/consume/alerts.md":      {strictly[watchlist.Alert]},
		"docs/consume/methylation.md": {strictly[methylation.Stretch]},
		"docs/consume/notify.md":      {func(text string) error { return notifyOf(t, text) }},
		"docs/consume/variants.md":    {strictly[event.Reference], strictly[event.Variant], func(text string) error { return goOf(t, text) }},
		"docs/consume/watchlists.md": {
			panel,
			panel,
			func(text string) error {
				return toml.NewDecoder(strings.NewReader(text)).DisallowUnknownFields().Decode(new(biomarker.Manifest))
			},
			panel,
			panel,
		},
		"docs/files/basecalling.md": {func(text string) error { return normalisationOf(t, text) }},
		"docs/files/carryover.md": {func(text string) error {
			_, err := demux.ParseSheet(strings.NewReader(text))
			return err
		}},
		"docs/files/demux.md": {
			func(text string) error {
				_, err := demux.ParseSheet(strings.NewReader(text))
				return err
			},
			func(text string) error {
				_, err := demux.ParseKit([]byte(text))
				return err
			},
		},
		"docs/files/networks.md": {func(text string) error {
			_, err := score.LoadManifest(fstest.MapFS{"manifest.toml": {Data: []byte(checksum.Replace(text))}})
			return err
		}},
	}
	out, err := exec.CommandContext(t.Context(), "git", "-C", root(), "ls-files", "*.md").Output()
	require.NoError(t, err)
	shown := map[string]bool{"": true, "text": true, "sh": true, "console": true, "layers": true} // text, commands, and the layers that TestLayers reads
	read := 0
	for file := range strings.Lines(string(out)) {
		file = strings.TrimSpace(file)
		text, err := os.ReadFile(filepath.Join(root(), file))
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
		of := readers[file]
		for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
			if shown[m[1]] {
				continue
			}
			if assert.NotEmpty(t, of, "%s has a block of %s that this test doesn't know:\n%s", file, m[1], m[2]) {
				require.NoError(t, of[0](m[2]), "%s: %s", file, m[2])
				of = of[1:]
				read++
			}
		}
		assert.Empty(t, of, "%s lacks blocks", file)
		delete(readers, file)
	}
	assert.Empty(t, readers)
	assert.Greater(t, read, 15)
}
