package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/porestream/porestream/chaos/check"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/pipeline"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/variant"
)

// referencePrefix is that of the topics of the run without faults.
const referencePrefix = "undisturbed."

// dataTopics are the topics that a run's outcome is on.
func dataTopics(t stream.Topics) []string {
	return []string{t.Signal, t.Reads, t.Calls, t.Variants, t.DeadLetters}
}

// undisturbed runs the same programs over the same recordings without any fault, and returns what they leave.
func undisturbed(ctx context.Context, cfg *config, dir string, recordings []recording) (check.Contents, error) {
	broker, err := startEmbedded(ctx, filepath.Join(dir, "undisturbed"))
	if err != nil {
		return check.Contents{}, err
	}
	defer broker.kill()
	out := filepath.Join(dir, "undisturbed", "results")
	args := []string{"run", "--ref", cfg.reference, "--gff", cfg.genes, "--ort-lib", cfg.ort, "--out", out,
		"--brokers", broker.addr, "--topic-prefix", referencePrefix, "--partitions", "1"}
	for _, r := range recordings {
		args = append(args, r.path)
	}
	if _, err := output(ctx, filepath.Join(cfg.bin, "pore"), args...); err != nil {
		return check.Contents{}, fmt.Errorf("running without faults: %w", err)
	}
	names := stream.NewTopics(referencePrefix)
	contents, err := broker.observers().Contents(ctx, names, dataTopics(names))
	if err != nil {
		return contents, err
	}
	contents.VCF, err = writtenVCFs(out, samplesOf(recordings))
	return contents, err
}

// samplesOf lists the samples of recordings.
func samplesOf(recordings []recording) []string {
	var samples []string
	seen := make(map[string]bool)
	for _, r := range recordings {
		if !seen[r.sample] {
			seen[r.sample] = true
			samples = append(samples, r.sample)
		}
	}
	return samples
}

// writtenVCFs reads what pore run has written. With one sample its name is not in the file's.
func writtenVCFs(dir string, samples []string) (map[string][]byte, error) {
	vcfs := make(map[string][]byte)
	for _, sample := range samples {
		name := sample + ".variants.vcf"
		if len(samples) == 1 {
			name = "variants.vcf"
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("reading the result without faults: %w", err)
		}
		vcfs[sample] = b
	}
	return vcfs, nil
}

// foldedVCFs folds the variants topic as a consumer does and writes the VCF of every sample.
func foldedVCFs(contents *check.Contents, g *genome.Genome, partitions int32, samples []string) (map[string][]byte, error) {
	fold := pipeline.NewFold(partitions)
	for _, rec := range contents.Records[contents.Topics.Variants] {
		if _, err := fold.Add(rec); err != nil {
			return nil, fmt.Errorf("folding the variants: %w", err)
		}
	}
	vcfs := make(map[string][]byte)
	for _, sample := range samples {
		var b bytes.Buffer
		if err := pipeline.WriteVCF(&b, g, sample, variant.Config{}, "", fold.Variants(sample, g.Rank)); err != nil {
			return nil, fmt.Errorf("writing the VCF of %s: %w", sample, err)
		}
		vcfs[sample] = b.Bytes()
	}
	return vcfs, nil
}

// output runs a program and returns what it prints.
func output(ctx context.Context, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", filepath.Base(program), args[0], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}
