package deploytest

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/testenv"
)

// composeFile is what is checked of a Compose file.
type composeFile struct {
	Services map[string]composeService
	Secrets  map[string]struct{ File string }
}

type composeService struct {
	Image string
	Build *struct {
		Context, Dockerfile, Target string
		Args                        map[string]string
	}
	Command     []string
	Environment map[string]string
	Volumes     []string
	Ports       []string
	Expose      []string
	Secrets     []string
	Healthcheck struct{ Test []string }
	Deploy      struct {
		Resources struct{ Limits map[string]string }
	}
}

func readCompose(t *testing.T) composeFile {
	t.Helper()
	var file composeFile
	readYAML(t, filepath.Join(testenv.Root(t), "deploy/compose/compose.yaml"), &file)
	require.NotEmpty(t, file.Services)
	return file
}

// variable is ${NAME:-default}, ${NAME-default}, or ${NAME:+what stands where it is set}.
var variable = regexp.MustCompile(`\$\{[A-Z_]+(:?-|:\+)([^}]*)\}`)

// interpolate puts in the defaults, as Compose does where nothing is set.
func interpolate(s string) string { return substitute(s, false) }

// interpolateSet is interpolate where all that has no default is set.
func interpolateSet(s string) string { return substitute(s, true) }

func substitute(s string, set bool) string {
	return variable.ReplaceAllStringFunc(s, func(v string) string {
		m := variable.FindStringSubmatch(v)
		if m[1] == ":+" && !set {
			return ""
		}
		return m[2]
	})
}

func TestComposeServicesAreComplete(t *testing.T) {
	for name, s := range readCompose(t).Services {
		assert.NotEmpty(t, s.Healthcheck.Test, "%s has no health check", name)
		assert.NotEmpty(t, s.Deploy.Resources.Limits["memory"], "%s has no memory limit", name)
		if s.Build == nil {
			assert.Regexp(t, `:v?\d+\.\d+\.\d+$`, s.Image, "%s: the image is not pinned to a version", name)
		}
		for _, p := range s.Ports {
			assert.True(t, strings.HasPrefix(p, "127.0.0.1:"), "%s: port %s is open to the network", name, p)
		}
		for key := range s.Environment {
			assert.NotRegexp(t, `(?i)password|secret$|token`, key, "%s holds a secret", name)
		}
	}
}

func TestComposeNamesExistingFiles(t *testing.T) {
	dir := filepath.Join(testenv.Root(t), "deploy/compose")
	for name, s := range readCompose(t).Services {
		targets := make(map[string]string) // in the container: on the host
		for _, v := range s.Volumes {
			source, target, _ := strings.Cut(strings.TrimSuffix(interpolate(v), ":ro"), ":")
			if !strings.HasPrefix(source, ".") {
				continue // a named volume
			}
			targets[target] = filepath.Join(dir, source)
			assert.FileExists(t, existing(targets[target]), "%s mounts %s", name, source)
		}
		if s.Build == nil {
			continue
		}
		assert.FileExists(t, filepath.Join(dir, s.Build.Context, s.Build.Dockerfile))
		for _, arg := range s.Command {
			_, path, isFlag := strings.Cut(interpolate(arg), "=")
			if !isFlag {
				path = arg
			}
			if !strings.HasPrefix(path, "/") {
				continue
			}
			mounted := slices.ContainsFunc(slices.Collect(maps.Keys(targets)), func(target string) bool {
				rest, inside := strings.CutPrefix(path, target)
				return inside && existing(filepath.Join(targets[target], rest)) != ""
			})
			assert.True(t, mounted, "%s: %s is not among what is mounted", name, arg)
		}
	}
}

// existing returns the path of a file, of a file in a folder for a folder, and
// "" for neither.
func existing(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	if !info.IsDir() {
		return path
	}
	entries, err := os.ReadDir(path)
	if err != nil || len(entries) == 0 {
		return ""
	}
	return existing(filepath.Join(path, entries[0].Name()))
}

// build compiles a program of the module.
func build(t *testing.T, dir, name string) string {
	t.Helper()
	bin := filepath.Join(dir, name)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", bin, "./cmd/"+name)
	cmd.Dir = testenv.Root(t)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return bin
}

// The programs themselves check their command lines: they read a flag before
// they answer --help.
func TestComposeCommandsAreUnderstood(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the programs")
	}
	dir := t.TempDir()
	checked := 0
	for name, s := range readCompose(t).Services {
		if s.Build == nil {
			continue
		}
		require.NotEmpty(t, s.Command, name)
		bin := build(t, dir, s.Command[0])
		args := []string{"--help"}
		for _, arg := range s.Command[1:] {
			args = append(args, interpolate(arg))
		}
		out, err := exec.CommandContext(t.Context(), bin, args...).CombinedOutput()
		assert.NoError(t, err, "%s: %s", name, out)
		// The check can fail:
		out, err = exec.CommandContext(t.Context(), bin, append(args, "--no-such-flag")...).CombinedOutput()
		assert.Error(t, err)
		assert.Contains(t, string(out), "unknown flag: --no-such-flag")
		checked++
	}
	assert.Equal(t, 2, checked)
}

// The page is open on this machine, for each of several processors on a port of its own, and
// its token is a file or made at the start.
func TestComposeServesThePage(t *testing.T) {
	file := readCompose(t)
	s := file.Services["processor"]
	assert.NotContains(t, s.Command, "--no-page")
	require.Len(t, s.Ports, 1)
	m := regexp.MustCompile(`^127\.0\.0\.1:(\d+)-(\d+):9102$`).FindStringSubmatch(interpolate(s.Ports[0]))
	require.NotNil(t, m, s.Ports[0])
	assert.Equal(t, "9102", m[1])
	for _, a := range s.Command {
		file, found := strings.CutPrefix(a, "--page-token-file=")
		if found {
			assert.Empty(t, interpolate(file))
			assert.Equal(t, "/run/secrets/page-token", interpolateSet(file))
		}
	}
	assert.Equal(t, []string{"page-token"}, s.Secrets)
	assert.Equal(t, "/dev/null", interpolate(file.Secrets["page-token"].File))
}

// Prometheus asks every service where it listens, and so does its health check.
func TestPortsAgree(t *testing.T) {
	var config struct {
		ScrapeConfigs []struct {
			JobName string `yaml:"job_name"`
			DNS     []struct {
				Names []string
				Port  int
			} `yaml:"dns_sd_configs"`
		} `yaml:"scrape_configs"`
		RuleFiles []string `yaml:"rule_files"`
	}
	dir := filepath.Join(testenv.Root(t), "deploy/prometheus")
	readYAML(t, filepath.Join(dir, "prometheus.yml"), &config)
	for _, f := range config.RuleFiles {
		assert.FileExists(t, filepath.Join(dir, f))
	}
	services := readCompose(t).Services
	scraped := make(map[string]int)
	for _, c := range config.ScrapeConfigs {
		for _, d := range c.DNS {
			for _, name := range d.Names {
				assert.Equal(t, c.JobName, name, "alerts tell jobs by the service's name")
				scraped[name] = d.Port
			}
		}
	}
	for name, s := range services {
		if s.Build == nil {
			continue
		}
		port := scraped[name]
		require.NotZero(t, port, "Prometheus does not ask %s", name)
		assert.Contains(t, s.Command, fmt.Sprintf("--listen=:%d", port))
		assert.Equal(t, []string{fmt.Sprint(port)}, s.Expose)
		assert.Contains(t, strings.Join(s.Healthcheck.Test, " "), fmt.Sprintf(":%d/readyz", port))
	}
}

func TestGrafanaIsProvisioned(t *testing.T) {
	dir := filepath.Join(testenv.Root(t), "deploy/grafana/provisioning")
	var dashboards struct {
		Providers []struct {
			Type    string
			Options struct{ Path string }
		}
	}
	readYAML(t, filepath.Join(dir, "dashboards/porestream.yml"), &dashboards)
	require.Len(t, dashboards.Providers, 1)
	var sources struct {
		Datasources []struct {
			Type, URL string
			JSONData  struct {
				TimeInterval string `yaml:"timeInterval"`
			} `yaml:"jsonData"`
		}
	}
	readYAML(t, filepath.Join(dir, "datasources/prometheus.yml"), &sources)
	require.Len(t, sources.Datasources, 1)
	var config struct {
		Global struct {
			ScrapeInterval string `yaml:"scrape_interval"`
		}
	}
	readYAML(t, filepath.Join(testenv.Root(t), "deploy/prometheus/prometheus.yml"), &config)
	assert.Equal(t, config.Global.ScrapeInterval, sources.Datasources[0].JSONData.TimeInterval,
		"Grafana derives $__rate_interval from the scrape interval")
	grafana := readCompose(t).Services["grafana"]
	assert.Contains(t, grafana.Volumes, "../grafana/dashboards:"+dashboards.Providers[0].Options.Path+":ro")
	home := grafana.Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
	assert.Equal(t, dashboards.Providers[0].Options.Path, filepath.Dir(home))
	assert.FileExists(t, filepath.Join(dir, "../dashboards", filepath.Base(home)))
}
