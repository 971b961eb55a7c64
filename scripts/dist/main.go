// Command dist makes the files of a release from a commit: for each platform a
// tarball that runs where it is unpacked, with the licences of everything in it and a
// bill of materials, and their checksums. The same commit gives the same bytes.
//
//	go run ./scripts/dist --out dist --target linux/amd64,linux/arm64
//
// docs/develop/release.md says what is in the tarballs and how they are checked.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// target is a platform that programs are built for.
type target struct {
	goarch  string
	machine string // as compilers and uname call it
	gpu     bool   // there are operators for GPUs
	trial   bool   // programs and libraries are those that this machine has built for itself
}

var targets = []target{{goarch: "amd64", machine: "x86_64", gpu: true}, {goarch: "arm64", machine: "aarch64"}}

// minimumGlibc is the oldest glibc that the tarballs run on: that of ONNX Runtime's
// wheel. The programs are linked against its symbols and must need no later one.
const minimumGlibc = "2.28"

// source is what a release is made of.
type source struct {
	dir     string    // the repository
	commit  string    // all 40 digits
	time    time.Time // of the commit
	version string
}

func main() {
	out := flag.String("out", "dist", "folder for the tarballs")
	names := flag.String("target", "linux/"+runtime.GOARCH, "platforms, several with commas: linux/amd64, linux/arm64")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := errors.New("it takes no arguments")
	if flag.NArg() == 0 {
		err = dist(ctx, ".", *out, strings.Split(*names, ","), false)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "dist: %v\n", err)
		os.Exit(1)
	}
}

// dist makes the release of the repository's current commit. A trial is for a check of everything else than how things are compiled: its
// programs and libraries are this machine's own, from the repository's folder, whose compiler has been at work already.
func dist(ctx context.Context, repository, out string, names []string, trial bool) error {
	var wanted []target
	for _, name := range names {
		i := slices.IndexFunc(targets, func(t target) bool { return "linux/"+t.goarch == name })
		if i < 0 {
			return fmt.Errorf("no target %q: there are linux/amd64 and linux/arm64", name)
		}
		t := targets[i]
		t.gpu, t.trial = t.gpu && !trial, trial
		if trial && t.goarch != runtime.GOARCH {
			return fmt.Errorf("a trial is of this machine's own programs, not of %s", name)
		}
		wanted = append(wanted, t)
	}
	// Man pages and completions come from a program that runs here.
	slices.SortStableFunc(wanted, func(a, b target) int { return order(a) - order(b) })
	if wanted[0].goarch != runtime.GOARCH {
		return fmt.Errorf("name linux/%s too: man pages come from programs that run on this machine", runtime.GOARCH)
	}
	src, err := openSource(ctx, repository, trial)
	if err != nil {
		return err
	}
	tools, err := toolchain(ctx, filepath.Join(src.dir, ".cache", "dist"))
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "porestream-dist-")
	if err != nil {
		return fmt.Errorf("making a folder to build in: %w", err)
	}
	defer os.RemoveAll(work)
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("making the folder of the tarballs: %w", err)
	}
	var made []string
	var share string // man pages and completions
	for _, t := range wanted {
		say("%s: building", t.goarch)
		tree := filepath.Join(work, t.goarch)
		if err := build(ctx, src, t, tools, tree); err != nil {
			return fmt.Errorf("linux/%s: %w", t.goarch, err)
		}
		if share == "" {
			share = filepath.Join(work, "share")
			if err := writeShare(ctx, filepath.Join(tree, "out"), share); err != nil {
				return err
			}
		}
		name := fmt.Sprintf("porestream-%s-linux-%s", src.version, t.goarch)
		stage := filepath.Join(work, "stage-"+t.goarch, name)
		if err := assemble(ctx, src, t, tools, tree, share, stage); err != nil {
			return fmt.Errorf("linux/%s: %w", t.goarch, err)
		}
		say("%s: packing", t.goarch)
		if err := writeTarball(filepath.Join(out, name+".tar.gz"), stage, src.time); err != nil {
			return err
		}
		if err := copyFile(filepath.Join(out, name+".cdx.json"), filepath.Join(stage, sbomName), 0o644); err != nil {
			return err
		}
		made = append(made, name+".tar.gz", name+".cdx.json")
	}
	slices.Sort(made)
	sums, err := checksums(out, made)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "SHA256SUMS"), sums, 0o644); err != nil {
		return fmt.Errorf("writing checksums: %w", err)
	}
	os.Stdout.Write(sums)
	return nil
}

// order puts this machine's own platform first.
func order(t target) int {
	if t.goarch == runtime.GOARCH {
		return 0
	}
	return 1
}

func openSource(ctx context.Context, dir string, trial bool) (source, error) {
	root, err := output(ctx, dir, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return source{}, err
	}
	head, err := output(ctx, root, "git", "log", "-1", "--format=%H %cI")
	if err != nil {
		return source{}, err
	}
	commit, date, _ := strings.Cut(head, " ")
	at, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return source{}, fmt.Errorf("the time of the commit: %w", err)
	}
	if changed, err := output(ctx, root, "git", "status", "--porcelain", "--untracked-files=no"); err != nil {
		return source{}, err
	} else if changed != "" && trial {
		say("uncommitted changes are in the programs of this trial, and else it is of the commit %s", commit)
	} else if changed != "" {
		say("uncommitted changes are left out: a release is made of the commit %s", commit)
	}
	number, err := versionOf(ctx, root, commit)
	return source{dir: root, commit: commit, time: at.UTC(), version: number}, err
}

// versionOf reads the version from the commit itself, as that is what is built.
func versionOf(ctx context.Context, root, commit string) (string, error) {
	const file = "version/version.go"
	text, err := output(ctx, root, "git", "show", commit+":"+file)
	if err != nil {
		return "", err
	}
	_, after, found := strings.Cut(text, `const Number = "`)
	number, _, closed := strings.Cut(after, `"`)
	if !found || !closed {
		return "", fmt.Errorf("%s has no const Number", file)
	}
	return number, nil
}

// build builds the programs of the commit in a fresh tree, into tree/out.
func build(ctx context.Context, src source, t target, tools tools, tree string) error {
	if err := os.MkdirAll(tree, 0o755); err != nil {
		return fmt.Errorf("making the tree: %w", err)
	}
	archive := tree + ".tar"
	if err := run(ctx, src.dir, nil, "git", "archive", "--format=tar", "--output="+archive, src.commit); err != nil {
		return err
	}
	if err := run(ctx, tree, nil, "tar", "-xf", archive); err != nil {
		return err
	}
	const pkg = "github.com/porestream/porestream/version"
	ldflags := fmt.Sprintf("-s -w -X %s.commit=%s -X %s.time=%s", pkg, src.commit, pkg, src.time.Format(time.RFC3339))
	if t.trial {
		return buildTrial(ctx, src, ldflags, tree)
	}
	env := []string{
		"CC=" + tools.cc(t), "AR=" + tools.ar(), "DEPS_MACHINE=" + t.machine, "ZIG_GLOBAL_CACHE_DIR=" + filepath.Join(tools.dir, "zig-cache"),
		"CGO_ENABLED=1", "GOOS=linux", "GOARCH=" + t.goarch, "GOFLAGS=", "CGO_CFLAGS=", "CGO_LDFLAGS=",
		// The least that the platform has, whatever the environment prefers.
		"GOAMD64=v1", "GOARM64=v8.0",
	}
	if err := run(ctx, tree, env, "scripts/deps.sh"); err != nil {
		return err
	}
	forGPU := map[bool]string{true: "1", false: "0"}[t.gpu]
	if err := run(ctx, tree, append(env, "TARGET_CXX="+tools.cxx(t), "KERNELS_CUDA="+tools.cuda(), "KERNELS_GPU="+forGPU, "CXX=g++"), "scripts/kernels.sh", "release"); err != nil {
		return err
	}
	// C's debugging information goes too, with what it says of folders.
	ldflags += " -buildid= -extldflags=-s"
	return run(ctx, tree, env, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", "out/", "./cmd/...")
}

// buildTrial takes the libraries of the repository's folder, and links programs from what is compiled there.
func buildTrial(ctx context.Context, src source, ldflags, tree string) error {
	deps := filepath.Join(src.dir, ".deps")
	for to, from := range map[string]string{"onnxruntime": "onnxruntime", "minimap2": "minimap2", "kernels/release": "kernels/cpu"} {
		if err := os.CopyFS(filepath.Join(tree, ".deps", filepath.FromSlash(to)), os.DirFS(filepath.Join(deps, filepath.FromSlash(from)))); err != nil {
			return fmt.Errorf("taking libraries of the repository (make deps kernels-cpu): %w", err)
		}
	}
	return run(ctx, src.dir, nil, "go", "build", "-buildvcs=false", "-ldflags", ldflags, "-o", filepath.Join(tree, "out")+"/", "./cmd/...")
}

// writeShare has the programs write their man pages and completions.
func writeShare(ctx context.Context, bin, share string) error {
	man := filepath.Join(share, "man", "man1")
	if err := os.MkdirAll(man, 0o755); err != nil {
		return fmt.Errorf("making the folder of man pages: %w", err)
	}
	for _, program := range programs {
		path := filepath.Join(bin, program)
		if err := run(ctx, share, nil, path, "manual", man); err != nil {
			return err
		}
		for shell, file := range map[string]string{
			"bash": "bash-completion/completions/" + program,
			"zsh":  "zsh/site-functions/_" + program,
			"fish": "fish/vendor_completions.d/" + program + ".fish",
		} {
			script, err := output(ctx, share, path, "completion", shell)
			if err != nil {
				return err
			}
			if err := writeFile(filepath.Join(share, filepath.FromSlash(file)), []byte(script+"\n")); err != nil {
				return err
			}
		}
	}
	return nil
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "dist: "+format+"\n", args...) }

// run runs a command with what env adds to the environment; what it prints goes to
// standard error.
func run(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "), err)
	}
	return nil
}

// output runs a command and returns what it writes to standard output, without the last
// end of line.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "), err)
	}
	return strings.TrimRight(string(out), "\n"), nil
}
