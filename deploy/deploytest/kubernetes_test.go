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
	readYAML(t, filepath.Join(root(t), "deploy/kubernetes/components/autoscaling/scaledobject.yaml"), &object)
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
	dir := root(t)
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
