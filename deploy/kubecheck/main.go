// Command kubecheck renders the Kustomize folders of Porestream as kubectl would and
// judges what comes out, without a cluster and without the network:
//
//   - every object is decoded strictly into the Go type that its API has, or by the
//     schema of its custom resource: unknown fields and wrong types are faults;
//   - pods keep the rules of [Check]: locked down, probed, bounded, stopped
//     with enough time, reachable where they must be and nowhere else;
//   - the programs understand their command lines, and ingest its file of sources.
//
// Use:
//
//	kubecheck -bin ../../bin DIR...     bin holds ingest, processor and pore
//	kubecheck -update                   writes the PrometheusRule from deploy/prometheus/rules.yml
//
// It is a module of its own, so that Kubernetes' libraries are no dependency of
// Porestream.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	bin := flag.String("bin", "", "folder with ingest, processor and pore; command lines are not judged without")
	update := flag.Bool("update", false, "write the PrometheusRule from deploy/prometheus/rules.yml")
	flag.Parse()
	if err := run(context.Background(), *bin, *update, flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "kubecheck: %v\n", err)
		os.Exit(1)
	}
}

// Where the alerts are written down, and their copy for the Prometheus operator, seen
// from this folder.
const (
	rulesFile    = "../prometheus/rules.yml"
	operatorFile = "../kubernetes/components/monitoring/rules.yaml"
)

func run(ctx context.Context, bin string, update bool, dirs []string) error {
	if !update && len(dirs) == 0 {
		return errors.New("name the folders with a kustomization.yaml")
	}
	want, err := operatorRules(rulesFile)
	if err != nil {
		return err
	}
	if update {
		return os.WriteFile(operatorFile, want, 0o644)
	}
	if have, err := os.ReadFile(operatorFile); err != nil {
		return err
	} else if !bytes.Equal(have, want) {
		return fmt.Errorf("%s is not %s: go run . -update in deploy/kubecheck", operatorFile, rulesFile)
	}
	schemas, err := loadSchemas(ctx)
	if err != nil {
		return err
	}
	failed := 0
	for _, dir := range dirs {
		objects, err := Render(dir, schemas)
		if err != nil {
			return err
		}
		faults := Check(objects)
		if bin != "" {
			more, err := commandLines(ctx, bin, objects)
			if err != nil {
				return err
			}
			faults = append(faults, more...)
		}
		for _, f := range faults {
			fmt.Fprintf(os.Stderr, "%s: %s\n", dir, f)
		}
		failed += len(faults)
		fmt.Printf("%s: %d objects, %d faults\n", dir, len(objects), len(faults))
	}
	if failed > 0 {
		return fmt.Errorf("%d faults", failed)
	}
	return nil
}

// operatorRules is the file of rules as an object of the Prometheus operator.
func operatorRules(path string) ([]byte, error) {
	data, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		return nil, err
	}
	_, body, ok := strings.Cut("\n"+string(data), "\ngroups:\n")
	if !ok {
		return nil, fmt.Errorf("%s has no groups", path)
	}
	var out strings.Builder
	out.WriteString(`# deploy/prometheus/rules.yml for the Prometheus operator. Made by
# go run . -update in deploy/kubecheck; change the rules there.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: porestream
spec:
  groups:
`)
	for line := range strings.Lines(body) {
		if strings.TrimSpace(line) != "" {
			out.WriteString("  ")
		}
		out.WriteString(line)
	}
	return []byte(out.String()), nil
}
