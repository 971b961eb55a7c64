package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	return []string{t.Signal, t.Reads, t.Calls, t.Variants, t.Methylation, t.DeadLetters}
}

// undisturbed runs the same programs over the same recordings without any fault, and returns what they leave.
func undisturbed(ctx context.Context, cfg *config, dir string, recordings []recording) (check.Contents, error) {
	broker, err := startEmbedded(ctx, filepath.Join(dir, "undisturbed"))
	if err != nil {
		return check.Contents{}, err
	}
	defer broker.kill()
	out := filepath.Join(dir, "undisturbed", "results")
	args := append([]string{"run", "--ref", cfg.reference, "--gff", cfg.genes, "--ort-lib", cfg.ort, "--out", out,
		"--brokers", broker.addr, "--topic-prefix", referencePrefix, "--partitions", "1", "--basecalls"}, cfg.counting()...)
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
	if contents.VCF, err = writtenVCFs(out, samplesOf(recordings)); err != nil {
		return contents, err
	}
	called, err := broker.observers().Contents(ctx, names, []string{names.Basecalls})
	if err != nil {
		return contents, err
	}
	contents.Methylation, err = counted(ctx, cfg, out, samplesOf(recordings), called.Records[names.Basecalls])
	return contents, err
}

// counting are the flags by which modified bases are called and counted.
func (c *config) counting() []string {
	flags := []string{"--methylation", "--modified-bases", c.modified}
	if c.diploid {
		flags = append(flags, "--ploidy", "2", "--methylation-haplotypes")
	}
	return flags
}

// counted counts the modified bases of called reads in files, without the stage that counts them on their way.
func counted(ctx context.Context, cfg *config, dir string, samples []string, reads []stream.Record) (map[string][]byte, error) {
	pore := filepath.Join(cfg.bin, "pore")
	beds := make(map[string][]byte)
	for _, sample := range samples {
		file := func(name string) string { return filepath.Join(dir, sample+"."+name) }
		var fastq []byte
		for _, rec := range reads {
			if slices.ContainsFunc(rec.Headers, func(h stream.Header) bool { return h.Key == "sample" && string(h.Value) == sample }) {
				fastq = append(fastq, rec.Value...)
			}
		}
		if err := os.WriteFile(file("fastq"), fastq, 0o600); err != nil {
			return nil, fmt.Errorf("writing the called reads of %s: %w", sample, err)
		}
		steps := [][]string{
			{"align", "-y", "--ref", cfg.reference, "-o", file("bam"), file("fastq")},
			{"pileup", "--ref", cfg.reference, "-o", file("bed"), file("bam")},
		}
		if cfg.diploid {
			steps = append(steps,
				[]string{"call", "--ref", cfg.reference, "--ort-lib", cfg.ort, "--ploidy", "2", "--haplotag", file("tagged.bam"), "-o", file("vcf"), file("bam")},
				[]string{"pileup", "--ref", cfg.reference, "--haplotypes", "-o", file("{haplotype}.bed"), file("tagged.bam")},
			)
		}
		for _, args := range steps {
			if _, err := output(ctx, pore, args...); err != nil {
				return nil, fmt.Errorf("counting the modified bases of %s in a file: %w", sample, err)
			}
		}
		bed, err := os.ReadFile(file("bed"))
		if err != nil {
			return nil, fmt.Errorf("reading what was counted without faults: %w", err)
		}
		beds[sample] = bed
		for haplotype := range haplotypes {
			bed, err := os.ReadFile(file(fmt.Sprint(haplotype+1) + ".bed"))
			if errors.Is(err, fs.ErrNotExist) {
				continue // no read of the sample is of a known haplotype
			}
			if err != nil {
				return nil, fmt.Errorf("reading what was counted without faults: %w", err)
			}
			beds[ofHaplotype(sample, haplotype+1)] = bed
		}
	}
	return beds, nil
}

// haplotypes is how many are distinguished.
const haplotypes = 2

func ofHaplotype(sample string, haplotype int) string {
	return fmt.Sprintf("%s, haplotype %d", sample, haplotype)
}

// foldedCounts folds the methylation topic as a consumer does and writes the bedMethyl of every sample, and of its haplotypes.
func foldedCounts(contents *check.Contents, g *genome.Genome, partitions int32) (map[string][]byte, error) {
	fold := pipeline.NewMethylationFold(partitions)
	for _, rec := range contents.Records[contents.Topics.Methylation] {
		if _, err := fold.Add(rec); err != nil {
			return nil, fmt.Errorf("folding the counts of modified bases: %w", err)
		}
	}
	beds := make(map[string][]byte)
	for _, sample := range fold.Samples() {
		for _, haplotype := range append(fold.Haplotypes(sample), 0) {
			var b bytes.Buffer
			if err := fold.WriteBedMethyl(&b, sample, haplotype, g.Rank); err != nil {
				return nil, fmt.Errorf("writing the counts of %s: %w", sample, err)
			}
			name := sample
			if haplotype > 0 {
				name = ofHaplotype(sample, haplotype)
			}
			beds[name] = b.Bytes()
		}
	}
	return beds, nil
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
