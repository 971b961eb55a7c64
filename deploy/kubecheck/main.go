// Command kubecheck renders the Kustomize folders of Porestream as kubectl would and
// checks the rendered objects, without a cluster and without the network:
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
//
// It is a module of its own, so that Kubernetes' libraries are no dependency of
// Porestream.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	bin := flag.String("bin", "", "folder with ingest, processor and pore; command lines are not checked without")
	flag.Parse()
	if err := run(context.Background(), *bin, flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "kubecheck: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bin string, dirs []string) error {
	if len(dirs) == 0 {
		return errors.New("name the folders with a kustomization.yaml")
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
