package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	_ "github.com/kedacore/keda/v2/version" // its module holds the schema of ScaledObject
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/santhosh-tekuri/jsonschema/v6"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// Object is one rendered object: its identity and its typed value, which is a pointer
// to an API's struct, or map[string]any for what only a schema describes.
type Object struct {
	Kind, Name string
	Value      any
}

// typed makes the value that objects of an API are decoded into.
var typed = map[string]func() any{
	"v1/ConfigMap":                            func() any { return new(core.ConfigMap) },
	"v1/Namespace":                            func() any { return new(core.Namespace) },
	"v1/PersistentVolumeClaim":                func() any { return new(core.PersistentVolumeClaim) },
	"v1/Service":                              func() any { return new(core.Service) },
	"v1/ServiceAccount":                       func() any { return new(core.ServiceAccount) },
	"apps/v1/Deployment":                      func() any { return new(apps.Deployment) },
	"apps/v1/StatefulSet":                     func() any { return new(apps.StatefulSet) },
	"batch/v1/Job":                            func() any { return new(batch.Job) },
	"cert-manager.io/v1/Certificate":          func() any { return new(certmanager.Certificate) },
	"monitoring.coreos.com/v1/PodMonitor":     func() any { return new(monitoring.PodMonitor) },
	"monitoring.coreos.com/v1/PrometheusRule": func() any { return new(monitoring.PrometheusRule) },
	"networking.k8s.io/v1/Ingress":            func() any { return new(networking.Ingress) },
	"networking.k8s.io/v1/NetworkPolicy":      func() any { return new(networking.NetworkPolicy) },
	"policy/v1/PodDisruptionBudget":           func() any { return new(policy.PodDisruptionBudget) },
}

// schemas describes custom resources whose Go types would bring half of Kubernetes
// along: by what their owner installs in a cluster.
type schemas struct {
	scaledObject *jsonschema.Schema
	// prometheusKeys are the settings that KEDA's scaler on Prometheus reads. The schema
	// takes any; a wrong one is refused when the object is used.
	prometheusKeys []string
}

// loadSchemas reads them from the module that go.mod pins.
func loadSchemas(ctx context.Context) (schemas, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/kedacore/keda/v2")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return schemas{}, fmt.Errorf("finding KEDA's module: %w", err)
	}
	dir := strings.TrimSpace(string(out))
	var s schemas
	if s.scaledObject, err = resourceSchema(filepath.Join(dir, "config/crd/bases/keda.sh_scaledobjects.yaml")); err != nil {
		return schemas{}, err
	}
	source, err := os.ReadFile(filepath.Join(dir, "pkg/scalers/prometheus_scaler.go"))
	if err != nil {
		return schemas{}, err
	}
	for _, m := range regexp.MustCompile("`keda:\"name=([a-zA-Z;]+)").FindAllSubmatch(source, -1) {
		s.prometheusKeys = append(s.prometheusKeys, strings.Split(string(m[1]), ";")...)
	}
	if len(s.prometheusKeys) == 0 {
		return schemas{}, fmt.Errorf("%s names no settings", dir)
	}
	return s, nil
}

// resourceSchema compiles the schema of a custom resource's definition, in which
// what is not named is forbidden.
func resourceSchema(path string) (*jsonschema.Schema, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(crd.Spec.Versions) != 1 {
		return nil, fmt.Errorf("%s has %d versions, want one", path, len(crd.Spec.Versions))
	}
	doc := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	closeObjects(doc)
	c := jsonschema.NewCompiler()
	if err := c.AddResource(filepath.Base(path), doc); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c.Compile(filepath.Base(path))
}

// closeObjects forbids properties that a schema doesn't name, as a cluster drops them
// silently, and makes values that may be numbers or strings either.
func closeObjects(node any) {
	switch n := node.(type) {
	case map[string]any:
		if _, named := n["properties"].(map[string]any); named && n["additionalProperties"] == nil && n["x-kubernetes-preserve-unknown-fields"] == nil {
			n["additionalProperties"] = false
		}
		for _, v := range n {
			closeObjects(v)
		}
	case []any:
		for _, v := range n {
			closeObjects(v)
		}
	}
}

// Render builds the Kustomize folder and decodes what it makes, strictly.
func Render(dir string, s schemas) ([]Object, error) {
	m, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	var out []Object
	for _, r := range m.Resources() {
		data, err := r.AsYAML()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		o, err := Decode(data, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		out = append(out, o)
	}
	return out, nil
}

// Decode reads one object in YAML. Fields that its API doesn't have are errors.
func Decode(data []byte, s schemas) (Object, error) {
	var id struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := yaml.Unmarshal(data, &id); err != nil {
		return Object{}, err
	}
	o := Object{Kind: id.Kind, Name: id.Metadata.Name}
	if id.Kind == "ScaledObject" && id.APIVersion == "keda.sh/v1alpha1" {
		return o, s.decodeScaledObject(data, &o)
	}
	value, known := typed[id.APIVersion+"/"+id.Kind]
	if !known {
		return o, fmt.Errorf("%s %s: %s is of no API that is known here", id.Kind, id.Metadata.Name, id.APIVersion)
	}
	o.Value = value()
	if err := decodeStrict(data, o.Value); err != nil {
		return o, fmt.Errorf("%s %s: %w", id.Kind, id.Metadata.Name, err)
	}
	return o, nil
}

// decodeStrict decodes as API servers do with strict validation of fields: names count
// with their case, none may be unknown and none given twice.
func decodeStrict(data []byte, into any) error {
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return err
	}
	faults, err := kjson.UnmarshalStrict(asJSON, into)
	return errors.Join(append(faults, err)...)
}

func (s schemas) decodeScaledObject(data []byte, o *Object) error {
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return fmt.Errorf("ScaledObject %s: %w", o.Name, err)
	}
	var value map[string]any
	if err := json.Unmarshal(asJSON, &value); err != nil {
		return fmt.Errorf("ScaledObject %s: %w", o.Name, err)
	}
	if err := s.scaledObject.Validate(value); err != nil {
		return fmt.Errorf("ScaledObject %s: %w", o.Name, err)
	}
	scaled := new(ScaledObject)
	if err := json.Unmarshal(asJSON, scaled); err != nil {
		return fmt.Errorf("ScaledObject %s: %w", o.Name, err)
	}
	for _, t := range scaled.Spec.Triggers {
		for key := range t.Metadata {
			if t.Type == "prometheus" && !slices.Contains(s.prometheusKeys, key) {
				return fmt.Errorf("ScaledObject %s: trigger %s has the setting %s, which KEDA's scaler on Prometheus doesn't read", o.Name, t.Name, key)
			}
		}
	}
	o.Value = scaled
	return nil
}

// ScaledObject holds the fields of KEDA's object that are checked.
type ScaledObject struct {
	Spec struct {
		ScaleTargetRef struct {
			Name string `json:"name"`
			Kind string `json:"kind"`
		} `json:"scaleTargetRef"`
		MinReplicaCount int `json:"minReplicaCount"`
		MaxReplicaCount int `json:"maxReplicaCount"`
		Advanced        struct {
			HorizontalPodAutoscalerConfig struct {
				Behavior struct {
					ScaleDown struct {
						StabilizationWindowSeconds int `json:"stabilizationWindowSeconds"`
					} `json:"scaleDown"`
				} `json:"behavior"`
			} `json:"horizontalPodAutoscalerConfig"`
		} `json:"advanced"`
		Triggers []struct {
			Type     string            `json:"type"`
			Name     string            `json:"name"`
			Metadata map[string]string `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}
