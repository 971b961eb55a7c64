package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streamtest"
	"github.com/porestream/porestream/testenv"
)

// shownCommand is a command of a document: what a reader would type, and, where the document has it, what is printed.
type shownCommand struct {
	line    int    // of the document
	section int    // how many headings are above it
	text    string // without its comment
	prints  string
	console bool // prints is what it prints
}

var (
	headingOf    = regexp.MustCompile(`^#+ `)
	opensBlock   = regexp.MustCompile("^ *```(\\w*)$")
	goesOn       = regexp.MustCompile(`(\\|\||&&)$`)
	shellComment = regexp.MustCompile(`(^|\s+)#( .*|)$`)
)

// uncommented is a line of shell commands without a comment behind it, which begins with a blank after the #.
func uncommented(line string) string {
	for _, at := range shellComment.FindAllStringIndex(line, -1) {
		if before := line[:at[0]]; strings.Count(before, "'")%2 == 0 && strings.Count(before, `"`)%2 == 0 {
			return strings.TrimSpace(before)
		}
	}
	return strings.TrimSpace(line)
}

// shownCommands are the commands of a document's blocks of shell commands, and of its blocks of what one sees on a console, in their order. A block
// that says no language is an error: nobody would know whether it is one of commands.
func shownCommands(document string) (list []shownCommand, err error) {
	var language string
	inBlock, section := false, 0
	var command string
	begun := 0
	add := func(line int, text string) {
		if command == "" {
			begun = line
		} else {
			command += "\n"
		}
		command += text
		if command != "" && !goesOn.MatchString(text) {
			list = append(list, shownCommand{line: begun, section: section, text: command})
			command = ""
		}
	}
	for i, line := range strings.Split(strings.ReplaceAll(document, "\r\n", "\n"), "\n") {
		m := opensBlock.FindStringSubmatch(line)
		switch {
		case m != nil && !inBlock:
			inBlock, language = true, m[1]
			if language == "" {
				return nil, fmt.Errorf("line %d: a block that doesn't say of what: sh, console, or text for what is neither run nor read", i+1)
			}
		case m != nil:
			inBlock = false
			if command != "" {
				return nil, fmt.Errorf("line %d: the command goes on behind its block", begun)
			}
		case !inBlock && headingOf.MatchString(line):
			section++
		case inBlock && language == "sh":
			if text := uncommented(line); text != "" {
				add(i+1, text)
			}
		case inBlock && language == "console":
			if text, typed := strings.CutPrefix(line, "$ "); typed {
				add(i+1, text)
				list[len(list)-1].console = true
			} else if len(list) > 0 {
				list[len(list)-1].prints += line + "\n"
			}
		}
	}
	return list, nil
}

// pageWorld is the machine on which the commands of one page are run: a folder in which what documents name is there, and one broker.
type pageWorld struct {
	t         *testing.T
	page      string
	dir       string
	ports     [3]string // of ingest, of processors, and of what else listens
	broker    string    // its address once it runs
	filled    bool      // whether a run is in it when it starts
	services  []*pageService
	lazy      *pageService  // the broker, unless the page starts one
	received  *atomic.Int64 // by who is notified
	variables []string      // of the shell
	used      *atomic.Int64 // nanoseconds of processors
}

// pageService is a program that runs until it is asked to stop.
type pageService struct {
	text           string
	cmd            *exec.Cmd
	stdout, stderr *testenv.Log
	exited         chan struct{}
	err            error
}

var (
	brokerAddress = regexp.MustCompile(`\b(kafka|localhost|127\.0\.0\.1):9092\b|HOST:PORT`)
	absolutePath  = regexp.MustCompile(`(^|[\s'"=:])/(data|var|etc|srv)/`)
	// What runs on: services, consumers that follow a topic, and programs that watch it.
	aService   = regexp.MustCompile(`^(bin/)?(processor --|ingest (folder|reads|serve|run|minknow)\b|pore broker\b|pore notify .*--brokers\b)`)
	follows    = regexp.MustCompile(`^(bin/)?pore consume\b|^kcat -b \S+ -C -t basecalls -q|^python3? consumer\.py .*--follow`)
	redirected = regexp.MustCompile(`[^>](>{1,2}) ?(\S+)$`)
	ends       = regexp.MustCompile(`--until-end|--format (vcf|gvcf|callable|bedmethyl|motifs|regions|vector|table)`)
	sends      = regexp.MustCompile(`^(bin/)?ingest (--|play|folder|reads|simulate|run)`)
	generated  = regexp.MustCompile(`^docs/reference/(pore|ingest|processor)/`)
	ways       = regexp.MustCompile(`ingest \S+`)
	makes      = regexp.MustCompile(`^(?:\S+=\S+ )?make ([a-z-]+)`)
	assigns    = regexp.MustCompile(`^[A-Z]+=\S+$`)
	program    = regexp.MustCompile(`^(?:bin/)?(\w+)`)
)

// settled waits, while the test may still run, for what a page's programs do.
func (w *pageWorld) settled(what string, ok func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeoutCause(w.t.Context(), 2*time.Minute, errors.New("not within two minutes"))
	defer cancel()
	streamtest.Eventually(ctx, w.t, w.page+": "+what, ok)
}

// here is a command as it is run: addresses and absolute paths are those of this world.
func (w *pageWorld) here(text string) string {
	if brokerAddress.MatchString(text) {
		w.needBroker()
		text = brokerAddress.ReplaceAllString(text, w.broker)
	}
	text = absolutePath.ReplaceAllString(text, "${1}"+w.dir+"/$2/")
	for i, port := range []string{":9101", ":9102", ":9103"} {
		text = regexp.MustCompile(port+`\b`).ReplaceAllString(text, ":"+w.ports[i])
	}
	return text
}

// shell prepares a command in the page's folder, whose programs come before all others.
func (w *pageWorld) shell(ctx context.Context, text string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-e", "-o", "pipefail", "-c", text)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(w.dir, "bin")+":"+os.Getenv("PATH"), "HOME="+w.dir, "XDG_STATE_HOME="+filepath.Join(w.dir, "state"))
	cmd.Env = append(cmd.Env, w.variables...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// count adds what a command that has ended used of processors.
func (w *pageWorld) count(cmd *exec.Cmd) {
	if s := cmd.ProcessState; s != nil {
		w.used.Add(int64(s.UserTime() + s.SystemTime()))
	}
}

// start runs what runs on.
func (w *pageWorld) start(text string) *pageService {
	s := &pageService{text: text, cmd: w.shell(w.t.Context(), "exec "+text), stdout: new(testenv.Log), stderr: new(testenv.Log), exited: make(chan struct{})}
	s.cmd.Stdout, s.cmd.Stderr = s.stdout, s.stderr
	require.NoError(w.t, s.cmd.Start())
	go func() {
		defer close(s.exited)
		s.err = s.cmd.Wait()
		w.count(s.cmd)
	}()
	w.t.Cleanup(func() { syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL); <-s.exited })
	return s
}

// ended says whether a service has ended.
func (s *pageService) ended() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

// stop asks a service to stop, which it does in order.
func (w *pageWorld) stop(s *pageService) {
	if !s.ended() {
		assert.NoError(w.t, s.cmd.Process.Signal(syscall.SIGTERM))
	}
	<-s.exited
	assert.NoError(w.t, s.err, "%s: %s\n%s%s", w.page, s.text, s.stdout, s.stderr)
}

// needBroker starts the page's broker, if there is none yet.
func (w *pageWorld) needBroker() {
	if w.broker != "" {
		return
	}
	if w.filled {
		require.NoError(w.t, os.CopyFS(filepath.Join(w.dir, "state", "porestream", "broker"), os.DirFS(filepath.Join(baseWorld(w.t), "broker"))))
		w.filled = false
	}
	w.lazy = w.start("pore broker")
	w.brokerOn(w.lazy)
}

// brokerOn waits for a broker, whose address is that of the page from now on.
func (w *pageWorld) brokerOn(s *pageService) {
	said := regexp.MustCompile(`broker on (\S+), `)
	w.settled("the broker", func() bool {
		require.False(w.t, s.ended(), "%s: %s: %s", w.page, s.text, s.stderr)
		return said.MatchString(s.stdout.String())
	})
	w.broker = said.FindStringSubmatch(s.stdout.String())[1]
}

// sizeOf is how large a file is, 0 if it isn't there.
func sizeOf(file string) int64 {
	if f, err := os.Stat(file); err == nil {
		return f.Size()
	}
	return 0
}

// cells are the words of what is printed, line by line: documents align what is printed with tabs.
func cells(text string) (lines [][]string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Fields(line))
	}
	return lines
}

// instead stops a program of that name that a command before has started, as this is another way to do the same, and returns the command as it
// is run now. Another way in to Kafka for the same run needs a broker that the run isn't in.
func (w *pageWorld) instead(text, name string) string {
	for i, s := range w.services {
		if of := program.FindStringSubmatch(s.text); name == "pore" || of[1] != name {
			continue
		}
		if name == "ingest" && ways.FindString(s.text) != ways.FindString(text) && w.lazy != nil {
			w.endSection()
			w.stop(w.lazy)
			require.NoError(w.t, os.RemoveAll(filepath.Join(w.dir, "state")))
			w.lazy, w.broker = nil, ""
			break
		}
		w.stop(s)
		w.services = slices.Delete(w.services, i, i+1)
		break
	}
	return w.here(text)
}

// run runs a command of the page as its reader would.
func (w *pageWorld) run(c shownCommand) {
	w.t.Helper()
	name := fmt.Sprintf("%s:%d: %s", w.page, c.line, c.text)
	if assigns.MatchString(c.text) {
		w.variables = append(w.variables, c.text)
		return
	}
	text := w.here(c.text)
	switch of := program.FindStringSubmatch(text); {
	case aService.MatchString(text):
		text = w.instead(c.text, of[1])
		s := w.start(text)
		w.services = append(w.services, s)
		w.await(name, s, of[1])
	case follows.MatchString(text) && !ends.MatchString(text):
		var file string
		if to := redirected.FindStringSubmatch(text); to != nil {
			file = filepath.Join(w.dir, to[2])
			if to[1] == ">" {
				require.NoError(w.t, os.RemoveAll(file))
			}
		}
		before := sizeOf(file)
		s := w.start(text)
		printed := func() bool { return s.stdout.String() != "" }
		if file != "" {
			printed = func() bool { return sizeOf(file) > before }
		}
		w.settled(c.text, func() bool { return printed() || s.ended() })
		if assert.True(w.t, printed(), "%s\n%s", name, s.stderr) && of[1] != "kcat" { // which has no other end than Ctrl-C
			w.stop(s)
		}
	default:
		if sends.MatchString(text) {
			text = w.instead(c.text, of[1])
		}
		ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
		defer cancel()
		cmd := w.shell(ctx, text)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		w.count(cmd)
		assert.NoError(w.t, err, "%s\n%s", name, &stderr)
		if c.console {
			assert.Equal(w.t, cells(c.prints), cells(stdout.String()), name)
		}
	}
	if sends.MatchString(text) {
		topic := stream.NewTopics("").Signal
		if strings.Contains(text, "ingest reads") {
			topic = stream.NewTopics("").Called
		}
		client := connect(w.t.Context(), w.t, w.broker)
		w.settled("records of "+c.text, func() bool {
			offsets, err := client.Offsets(w.t.Context(), topic)
			for _, o := range offsets {
				if err == nil && o.Stable > 0 {
					return true
				}
			}
			return false
		})
	}
}

// await waits for what shows that a service works: that it says so.
func (w *pageWorld) await(name string, s *pageService, of string) {
	port := w.ports[2]
	switch {
	case strings.Contains(s.text, "pore broker"):
		w.brokerOn(s)
		return
	case strings.Contains(s.text, "pore notify"):
		before := w.received.Load()
		w.settled(name, func() bool {
			require.False(w.t, s.ended(), "%s\n%s", name, s.stderr)
			return w.received.Load() > before
		})
		return
	case of == "ingest":
		port = w.ports[0]
	case of == "processor":
		port = w.ports[1]
	}
	w.settled(s.text, func() bool {
		require.False(w.t, s.ended(), "%s\n%s", name, s.stderr)
		res, err := http.Get("http://127.0.0.1:" + port + "/readyz")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		io.Copy(io.Discard, res.Body)
		return res.StatusCode == http.StatusOK
	})
}

// endSection stops what the commands of a section have started.
func (w *pageWorld) endSection() {
	for _, s := range slices.Backward(w.services) {
		w.stop(s)
	}
	if len(w.services) > 0 && slices.ContainsFunc(w.services, func(s *pageService) bool { return strings.Contains(s.text, "pore broker") }) {
		w.broker = "" // it was one of them
	}
	w.services = nil
}

// freePort is one that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

// newPageWorld is a world of its own for a page.
func newPageWorld(t *testing.T, page string, used *atomic.Int64) *pageWorld {
	t.Helper()
	w := &pageWorld{t: t, page: page, dir: t.TempDir(), used: used, received: new(atomic.Int64)}
	for i := range w.ports {
		w.ports[i] = freePort(t)
	}
	base := os.DirFS(baseWorld(t))
	require.NoError(t, fs.WalkDir(base, ".", func(path string, d fs.DirEntry, err error) error {
		switch to := filepath.Join(w.dir, path); {
		case err != nil:
			return err
		case path == "broker":
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(to, 0o755)
		default:
			return copyFile(to, filepath.Join(baseWorld(t), path))
		}
	}))
	writePrograms(t, w.dir, w.ports[0], w.ports[1])
	for i, block := range blocksOf(string(readFile(t, root(), page))) {
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, fmt.Sprintf("block-%d.%s", i+1, block.language)), []byte(block.text), 0o600))
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(res http.ResponseWriter, req *http.Request) { io.Copy(io.Discard, req.Body); w.received.Add(1) }))
	t.Cleanup(receiver.Close)
	w.variables = []string{"M=5mCG.onnx", "RECEIVER=" + receiver.URL, "TESTDATA=" + filepath.Join(root(), "testdata")}
	if script := pageFiles[page]; script != "" {
		cmd := w.shell(t.Context(), w.here(script))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", page, out)
		w.count(cmd)
	}
	return w
}

// lacking says which program that commands call isn't here, if there is one; in continuous integration all are.
func lacking(t *testing.T, commands string) string {
	t.Helper()
	for _, tool := range []string{"samtools", "bcftools", "kcat", "jq"} {
		if _, err := exec.LookPath(tool); err == nil || !slices.Contains(words(commands), tool) {
			continue
		}
		if os.Getenv("CI") == "true" {
			t.Errorf("%s isn't installed", tool)
		}
		return tool + " isn't installed"
	}
	if slices.Contains(words(commands), "python3") && os.Getenv("PORESTREAM_PYTHON") == "" {
		if os.Getenv("CI") == "true" {
			t.Error("PORESTREAM_PYTHON names no interpreter with confluent-kafka")
		}
		return "PORESTREAM_PYTHON names no interpreter with confluent-kafka"
	}
	return ""
}

// outputsOf are the files that a command writes, so far as its text says.
func outputsOf(command string) (files []string) {
	list := words(command)
	for i, word := range list[:max(0, len(list)-1)] {
		if word == "-o" || word == ">" {
			files = append(files, list[i+1])
		}
	}
	return files
}

func copyFile(to, from string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o644)
}

// TestEveryShownCommandIsRun runs every command that a document shows, in the order in which a reader comes upon them, in a folder that has the
// files which documents speak of. Those that need what a test doesn't have are in a table, each with what it needs.
func TestEveryShownCommandIsRun(t *testing.T) {
	if testing.Short() {
		t.Skip("runs some hundred commands")
	}
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "git", "-C", root(), "ls-files", "README.md", "CONTRIBUTING.md", "docs/*.md").Output()
	require.NoError(t, err)
	var used, ran, listed atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d commands were run, in %v of processor time; %d are listed", ran.Load(), time.Duration(used.Load()).Round(time.Second), listed.Load())
	})
	makefile := string(readFile(t, root(), "Makefile"))
	seen := make(map[string]bool)
	for page := range strings.Lines(string(out)) {
		page = strings.TrimSpace(page)
		text, err := os.ReadFile(filepath.Join(root(), page))
		if errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(page, "docs/develop/decisions/") || generated.MatchString(page) || page == "docs/measured/history.md" {
			continue // what has been
		}
		require.NoError(t, err)
		commands, err := shownCommands(string(text))
		require.NoError(t, err, page)
		needed := make(map[string]string)
		for _, l := range notRun[page] {
			require.NotEmpty(t, l.reason, "%s: %s", page, l.line)
			require.NotContains(t, needed, l.line, "%s: twice", page)
			needed[l.line] = l.reason
		}
		seen[page] = true
		var run []shownCommand
		for _, c := range commands {
			if _, left := needed[c.text]; left {
				if target := makes.FindStringSubmatch(c.text); target != nil {
					assert.Regexp(t, `(?m)^`+target[1]+`:( |$)`, makefile, "%s: there is no such target", page)
				}
				delete(needed, c.text)
				listed.Add(1)
			} else {
				run = append(run, c)
			}
		}
		for line := range needed {
			assert.Fail(t, "no such line", "%s has no command %q, which the table lists", page, line)
		}
		if len(run) == 0 {
			continue
		}
		t.Run(strings.TrimSuffix(page, ".md"), func(t *testing.T) {
			t.Parallel()
			if tool := lacking(t, pageFiles[page]); tool != "" {
				missing(t, tool)
			}
			w := newPageWorld(t, page, &used)
			w.filled = !slices.ContainsFunc(run, func(c shownCommand) bool { return sends.MatchString(c.text) })
			section := -1
			absent := make(map[string]bool) // files that commands which were left out would have written
			for _, c := range run {
				if c.section != section && page != "README.md" { // where one section goes on with what another has started
					w.endSection()
					section = c.section
				}
				why := lacking(t, c.text)
				for _, word := range words(c.text) {
					if why == "" && absent[word] {
						why = word + " isn't there"
					}
				}
				for _, file := range outputsOf(c.text) {
					absent[file] = why != ""
				}
				if why != "" {
					t.Logf("left out, as %s: %s", why, c.text)
					continue
				}
				w.run(c)
				ran.Add(1)
			}
			w.endSection()
		})
	}
	for page := range notRun {
		assert.True(t, seen[page], "there is no page %s", page)
	}
}

// TestCommandsOfADocument: where one ends and what is no command.
func TestCommandsOfADocument(t *testing.T) {
	list, err := shownCommands("# A\n```sh\n# only this\na b   # why\nc 'x # y' |\n  d \\\n  e\n```\ntext\n## B\n   ```sh\nf '# g' && # no\nh\n```\n```console\n$ i\nj\n\n$ k\n```\n```yaml\nl: m\n```\n")
	require.NoError(t, err)
	assert.Equal(t, []shownCommand{
		{line: 4, section: 1, text: "a b"}, {line: 5, section: 1, text: "c 'x # y' |\nd \\\ne"}, {line: 12, section: 2, text: "f '# g' &&\nh"},
		{line: 16, section: 2, text: "i", prints: "j\n\n", console: true}, {line: 19, section: 2, text: "k", console: true},
	}, list)
	for _, bad := range []string{"```\na\n```\n", "```sh\na |\n```\n"} {
		_, err := shownCommands(bad)
		assert.Error(t, err, bad)
	}
}
