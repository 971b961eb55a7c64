package main

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/porestream/porestream/ingest/sources"
)

var update = flag.Bool("update", false, "rewrite docs/attach/ingest-sources.schema.json")

const goodFile = `kafka: {brokers: [kafka:9092], topic_prefix: lab-}
listen: 127.0.0.1:9101
sources:
- kind: minknow
  name: gridion
  host: gridion.lab
  minknow_ca: ca.crt
  token_file: gridion.token
  spool: /var/spool/porestream/gridion
- kind: folder
  name: nas
  folders: [/nas/runs, incoming]
  poll: 5s
  max_buffered: 128MiB
- kind: serve
  name: bench
  push_listen: :9102
  push_cert: server.pem
  push_key: server.key
  devices: devices.yaml
  max_runs: 3
- kind: play
  name: control
  signal: control.pod5
  follow_clock: true
`

func parsed(t *testing.T, content string) *listing {
	t.Helper()
	l, err := parseFile("/etc/porestream/sources.yaml", []byte(content))
	require.NoError(t, err)
	return l
}

func clearEnvironment(t *testing.T) {
	for _, name := range []string{caVariable, certVariable, keyVariable, tokenVariable, "PORESTREAM_SASL_PASSWORD"} {
		t.Setenv(name, "")
	}
	t.Setenv("STATE_DIRECTORY", "/var/lib/porestream")
}

func TestFileOfSourcesIsParsed(t *testing.T) {
	clearEnvironment(t)
	t.Setenv(tokenVariable, "secret")
	l := parsed(t, goodFile)
	require.Equal(t, []string{"kafka:9092"}, l.process.kafka.Brokers)
	require.Equal(t, "lab-", l.process.kafka.Prefix)
	require.Len(t, l.sources, 4)

	grid := l.sources[0].source.(*sequencing)
	require.Equal(t, []string{"gridion.lab", "/etc/porestream/ca.crt", "/etc/porestream/gridion.token", ""}, []string{grid.Host, grid.CA, grid.TokenFile, grid.Token})
	require.Equal(t, []sources.Claim{{What: sources.Position, Value: "gridion.lab:9501"}, {What: sources.Folder, Value: "/var/spool/porestream/gridion"}}, l.sources[0].claims)

	nas := l.sources[1].source.(*folders)
	require.Equal(t, []string{"/nas/runs", "/etc/porestream/incoming"}, nas.Dirs)
	require.Equal(t, "/var/lib/porestream/watch-sources/nas", nas.Journal)
	require.EqualValues(t, 128<<20, l.sources[1].intake.maxBuffered)

	bench := l.sources[2].source.(*serving)
	require.Equal(t, []any{":9102", "/etc/porestream/devices.yaml", 3}, []any{bench.address, bench.devices, bench.runs})

	control := l.sources[3].source.(*playing)
	require.Equal(t, 1.0, control.pace)
	require.Equal(t, []string{"/etc/porestream/control.pod5"}, control.paths)
}

// TestFileAndFlagsAreTheSame: flags and the file give a source the same settings.
func TestFileAndFlagsAreTheSame(t *testing.T) {
	clearEnvironment(t)
	l := parsed(t, goodFile)
	for _, tt := range []struct {
		source int
		args   []string
	}{
		{0, []string{"--host", "gridion.lab", "--minknow-ca", "/etc/porestream/ca.crt", "--token-file", "/etc/porestream/gridion.token", "--spool", "/var/spool/porestream/gridion"}},
		{2, []string{"--push-listen", ":9102", "--push-cert", "/etc/porestream/server.pem", "--push-key", "/etc/porestream/server.key", "--devices", "/etc/porestream/devices.yaml", "--max-runs", "3"}},
		{3, []string{"--follow-clock", "/etc/porestream/control.pod5"}},
	} {
		want := l.sources[tt.source]
		flags := newFlags()
		src, in := want.kind.options(flags)
		require.NoError(t, flags.Parse(tt.args))
		require.NoError(t, src.complete(&given{operands: flags.Args(), flags: flags, intake: in}))
		require.Equal(t, want.source, src)
		require.Equal(t, want.intake, in)
	}
}

func TestSettingsReportChanges(t *testing.T) {
	clearEnvironment(t)
	a := parsed(t, goodFile)
	same := parsed(t, "# a remark\n"+strings.ReplaceAll(goodFile, "max_runs: 3", `"max_runs": 3`))
	other := parsed(t, strings.ReplaceAll(goodFile, "poll: 5s", "poll: 6s"))
	for i, s := range a.sources {
		require.Equal(t, s.settings, same.sources[i].settings)
		require.Equal(t, i != 1, s.settings == other.sources[i].settings)
	}
	require.Equal(t, a.self, other.self)
	require.NotEqual(t, a.self, parsed(t, strings.ReplaceAll(goodFile, "lab-", "labor-")).self)
}

func TestFileErrors(t *testing.T) {
	clearEnvironment(t)
	with := func(old, now string) string {
		require.Contains(t, goodFile, old)
		return strings.Replace(goodFile, old, now, 1)
	}
	for _, tt := range []struct{ name, content, want string }{
		{"nothing", "", "sources.yaml: it is empty: name Kafka and the sources"},
		{"not YAML", "kafka: [", "sources.yaml:1:1: line 1: did not find expected node content"},
		{"a text", "kafka", "sources.yaml:1:1: the file is not a mapping of options (and 1 more: ingest check lists them)"},
		{"two documents", goodFile + "---\nkafka: {}\n", "sources.yaml:26:1: there is a second document in the file: a file has one"},
		{"no sources", "kafka: {brokers: [k:1]}\n", "sources.yaml:1:1: it lists no sources: sources is a list with one at least"},
		{"an empty list", "kafka: {brokers: [k:1]}\nsources: []\n", "sources.yaml:2:10: it lists no sources: sources is a list with one at least"},
		{"no brokers", with("brokers: [kafka:9092], ", ""), "sources.yaml:1:1: kafka: "},
		{"an option that is nearly one", with("poll:", "polll:"), `sources.yaml:13:3: source "nas" has no option "polll": did you mean "poll"?`},
		{"an option of another kind", with("poll: 5s", "pace: 1"), `sources.yaml:13:3: source "nas" has no option "pace"`},
		{"a flag's name", with("max_buffered", "max-buffered"), `sources.yaml:14:3: source "nas" has no option "max-buffered": did you mean "max_buffered"?`},
		{"an option of the top", with("listen: ", "lissten: "), `sources.yaml:2:1: the file has no option "lissten": did you mean "listen"?`},
		{"an option of Kafka", with("topic_prefix", "topicprefix"), `sources.yaml:1:32: kafka has no option "topicprefix": did you mean "topic_prefix"?`},
		{"a kind that is nearly one", with("kind: folder", "kind: foldr"), `sources.yaml:10:9: no kind of source is called "foldr": did you mean "folder"?: one of play, folder, reads, minknow, serve`},
		{"no kind", with("- kind: folder\n  name", "- name"), "sources.yaml:10:3: a source without a kind: one of play, folder, reads, minknow, serve"},
		{"no name", with("  name: nas\n", ""), "sources.yaml:10:3: a source without a name"},
		{"a name with a path in it", with("name: nas", "name: ../nas"), `sources.yaml:11:9: a source is called "../nas": a name has`},
		{"a name twice", with("name: control", "name: bench"), `sources.yaml:22:3: source "bench" is listed twice`},
		{"an option twice", with("poll: 5s", "poll: 5s\n  poll: 6s"), `sources.yaml:14:3: source "nas": poll is given twice, first in line 13`},
		{"no operands", with("  folders: [/nas/runs, incoming]\n", ""), `sources.yaml:10:3: source "nas" has no folders: folders that are watched, with what is below them`},
		{"operands that are none", with("[/nas/runs, incoming]", "{a: b}"), "folders should be a list of texts"},
		{"a time without a unit", with("poll: 5s", "poll: 5"), `sources.yaml:13:9: source "nas": poll should be a time with its unit, such as 500ms, 10s or 5m`},
		{"no time", with("poll: 5s", "poll: soon"), `sources.yaml:13:9: source "nas": poll is "soon", and should be a time with its unit`},
		{"no number", with("max_runs: 3", "max_runs: three"), `max_runs should be a whole number`},
		{"too large a number", with("max_runs: 3", "max_runs: 99999999999999999999"), `max_runs should be a whole number`},
		{"no truth", with("follow_clock: true", `follow_clock: "true"`), `follow_clock should be true or false`},
		{"a value that is missing", with("poll: 5s", "poll:"), `poll should be a time`},
		{"settings that don't fit", with("  push_key: server.key\n", ""), `sources.yaml:15:3: source "bench": push_cert and push_key go together`},
		{"a pace beside the clock", with("follow_clock: true", "follow_clock: true\n  pace: 2"), `source "control": follow_clock is pace 1, and pace 2 is given`},
		{"one address twice", with("push_listen: :9102", "push_listen: :9101"), `sources.yaml:15:3: source "bench" listens on 127.0.0.1:9101, and so does the process itself (listen)`},
		{"one folder twice", with("signal: control.pod5", "signal: /nas/runs/control.pod5"), `sources.yaml:22:3: source "control" claims folder /nas/runs/control.pod5, which meets folder /nas/runs of source "nas"`},
		{"a password without a file", with("topic_prefix: lab-", "sasl_mechanism: PLAIN, sasl_user: u"), "kafka: sasl_mechanism needs sasl_password_file: secrets are named as files"},
		{"a password", with("topic_prefix: lab-", "sasl_password: secret"), `kafka has no option "sasl_password": did you mean "sasl_password_file"?`},
		{"a token", with("token_file: gridion.token", "token: secret"), `source "gridion" has no option "token"`},
		{"chunks that MinKNOW cuts", with("  host: gridion.lab", "  host: gridion.lab\n  chunk: 2s"), "chunk: MinKNOW cuts the signal"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseFile("sources.yaml", []byte(tt.content))
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "\n")
			require.NotContains(t, err.Error(), "--")
		})
	}
}

func TestAliases(t *testing.T) {
	clearEnvironment(t)
	l := parsed(t, `kafka: {brokers: [k:1]}
sources:
- {kind: folder, name: a, folders: [/a], poll: &poll 7s, sample: &sample S}
- {kind: folder, name: b, folders: [/b], poll: *poll, sample: *sample}
`)
	require.Equal(t, l.sources[0].source.(*folders).Poll, l.sources[1].source.(*folders).Poll)
	require.Equal(t, "S", l.sources[1].intake.sample)
}

func TestCheckReportsAll(t *testing.T) {
	clearEnvironment(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "sources.yaml")
	write := func(content string) { require.NoError(t, os.WriteFile(path, []byte(content), 0o600)) }
	var out, complaints strings.Builder
	write(strings.NewReplacer("poll:", "polll:", "max_runs: 3", "max_runs: x").Replace(goodFile))
	require.EqualError(t, checkFile(&out, &complaints, path), path+": 2 errors")
	require.Equal(t, 2, strings.Count(complaints.String(), "\n"), complaints.String())
	require.Empty(t, out.String())

	complaints.Reset()
	write(goodFile)
	require.EqualError(t, checkFile(&out, &complaints, path), path+": 8 errors")
	require.Contains(t, complaints.String(), path+`:7:15: source "gridion": `+dir+"/ca.crt: no such file or directory")

	complaints.Reset()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "in"), 0o700))
	write("kafka: {brokers: [k:1]}\nsources:\n- {kind: folder, name: nas, folders: in, journal: not/there}\n")
	require.NoError(t, checkFile(&out, &complaints, path))
	require.Equal(t, "nas\tfolder\n", out.String())

	// Files by which Kafka is reached are read, too.
	write("kafka: {brokers: [k:1], tls_ca: ca.pem}\nsources:\n- {kind: folder, name: nas, folders: in}\n")
	require.ErrorContains(t, checkFile(&out, &complaints, path), path+":1:1: kafka: preparing TLS: reading CA file: open ")
	write("kafka: {brokers: [k:1], sasl_mechanism: PLAIN, sasl_user: u, sasl_password_file: secret}\nsources:\n- {kind: folder, name: nas, folders: in}\n")
	require.ErrorContains(t, checkFile(&out, &complaints, path), "kafka: preparing SASL: reading password file: open ")
}

// TestSchemaTakesWhatTheCodeTakes: the schema is what the code says, and takes what the code takes.
func TestSchemaTakesWhatTheCodeTakes(t *testing.T) {
	clearEnvironment(t)
	const path = "../../docs/attach/ingest-sources.schema.json"
	want, err := fileSchema()
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(path, want, 0o644))
	}
	is, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(is), "run go test ./cmd/ingest -run TestSchemaTakesWhatTheCodeTakes -update")

	compiler := jsonschema.NewCompiler()
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(is)))
	require.NoError(t, err)
	require.NoError(t, compiler.AddResource(schemaID, document))
	schema, err := compiler.Compile(schemaID)
	require.NoError(t, err)
	valid := func(content string) error {
		var v any
		require.NoError(t, yaml.Unmarshal([]byte(content), &v))
		b, err := json.Marshal(v)
		require.NoError(t, err)
		instance, err := jsonschema.UnmarshalJSON(strings.NewReader(string(b)))
		require.NoError(t, err)
		return schema.Validate(instance)
	}
	require.NoError(t, valid(goodFile))
	for _, bad := range []string{
		strings.Replace(goodFile, "poll:", "polll:", 1), strings.Replace(goodFile, "poll: 5s", "poll: 5", 1), strings.Replace(goodFile, "kind: folder", "kind: other", 1),
		strings.Replace(goodFile, "  name: nas\n", "", 1), strings.Replace(goodFile, "max_runs: 3", "max_runs: three", 1), "kafka: {brokers: [k:1]}\nsources: []\n",
	} {
		require.Error(t, valid(bad), bad)
		_, err := parseFile("sources.yaml", []byte(bad))
		require.Error(t, err, bad)
	}
}

// TestEveryPathIsKnownAsOne: an option that names a file or folder is relative to
// the file of sources.
func TestEveryPathIsKnownAsOne(t *testing.T) {
	for _, k := range kinds() {
		flags := newFlags()
		k.options(flags)
		flags.VisitAll(func(f *pflag.Flag) {
			for _, word := range []string{"file", "PEM", "folder"} {
				if f.Value.Type() == "string" && strings.Contains(f.Usage, word) && !strings.Contains(f.Usage, "system") {
					require.True(t, isPath(f), "%s of %s: %s", f.Name, k.name, f.Usage)
				}
			}
		})
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add([]byte(goodFile))
	f.Add([]byte("kafka: &a {brokers: *a}\nsources: [*a]"))
	f.Add([]byte("sources:\n- kind: play\n  name: x\n  signal: [[a], {b: c}, null, 1, ~]\n  channels: 1-2\n"))
	f.Add([]byte("? [a]\n: b\nsources: {<<: {kind: play}}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := parseFile("sources.yaml", b)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			require.True(t, errors.As(err, new(fileErrors)))
			return
		}
		require.NotEmpty(t, l.sources)
	})
}
