package deploytest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/testenv"
)

// What KEDA scales by is exported by the programs, or recorded by the rules.
func TestScalingQueriesNameWhatIsExported(t *testing.T) {
	var object struct {
		Spec struct {
			Triggers []struct {
				Name     string
				Metadata map[string]string
			}
		}
	}
	readYAML(t, filepath.Join(testenv.Root(t), "deploy/kubernetes/components/autoscaling/scaledobject.yaml"), &object)
	require.Len(t, object.Spec.Triggers, 2)
	exported := series(catalogue(t))
	for _, r := range rules(t) {
		if r.Record != "" {
			exported[r.Record] = []string{"topic"}
		}
	}
	for _, trigger := range object.Spec.Triggers {
		assert.Empty(t, checkExpr(trigger.Metadata["query"], exported), trigger.Name)
	}
}

// One release is one number: in the programs, and in the images of the manifests.
func TestManifestsAreOfThisVersion(t *testing.T) {
	dir := testenv.Root(t)
	files, err := filepath.Glob(filepath.Join(dir, "deploy/kubernetes/*/*/kustomization.yaml"))
	require.NoError(t, err)
	tags := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`newName: registry\.\S+, newTag: ([^}\s]+)`).FindAllSubmatch(data, -1) {
			assert.Equal(t, cli.Version, strings.TrimSuffix(string(m[1]), "-cuda"), file)
			tags++
		}
	}
	assert.Positive(t, tags)
}

// The rules for the Prometheus operator are those of Prometheus; -update writes them.
func TestOperatorRulesAreThoseOfPrometheus(t *testing.T) {
	dir := testenv.Root(t)
	data, err := os.ReadFile(filepath.Join(dir, "deploy/prometheus/rules.yml"))
	require.NoError(t, err)
	_, body, found := strings.Cut(string(data), "\ngroups:\n")
	require.True(t, found, "rules.yml has no groups")
	var want strings.Builder
	want.WriteString(`# deploy/prometheus/rules.yml for the Prometheus operator. Made by
# go test ./deploy/deploytest -run OperatorRules -update; change the rules there.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: porestream
spec:
  groups:
`)
	for line := range strings.Lines(body) {
		if strings.TrimSpace(line) != "" {
			want.WriteString("  ")
		}
		want.WriteString(line)
	}
	path := filepath.Join(dir, "deploy/kubernetes/components/monitoring/rules.yaml")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want.String()), 0o644))
		return
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, want.String(), string(have), "run go test ./deploy/deploytest -run OperatorRules -update")
}
