package notify

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/mail"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"
	"go.yaml.in/yaml/v3"

	"github.com/porestream/porestream/watchlist"
)

// Config says which destination gets which alerts.
type Config struct {
	Destinations []Destination `yaml:"destinations"`
}

// Destination is one receiver: a webhook or a mail address.
type Destination struct {
	// Name identifies it in metrics, in logs and in the name of its consumer group.
	Name    string   `yaml:"name"`
	Webhook *Webhook `yaml:"webhook"`
	Mail    *Mail    `yaml:"mail"`
	// States are those that an alert has to reach, or to leave, to be sent; [AnyState] is all of them.
	States []watchlist.State `yaml:"states"`
	// When is an expression over the alert's document, as that of pore consume --filter; empty: all.
	When string `yaml:"when"`
	// Timeout is how long one try may take, and GiveUp how old an alert may become before it is tried no more.
	Timeout time.Duration `yaml:"timeout"`
	GiveUp  time.Duration `yaml:"give_up"`
}

// Webhook is a destination that takes HTTP requests.
type Webhook struct {
	URL string `yaml:"url"`
	// URLFile holds the address where it is a secret itself.
	URLFile string            `yaml:"url_file"`
	Headers map[string]string `yaml:"headers"`
	// HeaderFiles are headers whose values are in files, BearerTokenFile that of Authorization.
	HeaderFiles     map[string]string `yaml:"header_files"`
	BearerTokenFile string            `yaml:"bearer_token_file"`
	// SigningKeyFile holds the key that requests are signed with (Standard Webhooks).
	SigningKeyFile string `yaml:"signing_key_file"`
	// Body is a template of the request's body; empty: the alert's document.
	Body           string `yaml:"body"`
	ContentType    string `yaml:"content_type"`
	AllowPlainHTTP bool   `yaml:"allow_plain_http"`
	TLS            TLS    `yaml:"tls"`
}

// Mail is a destination that an SMTP server knows.
type Mail struct {
	Server string `yaml:"server"` // host:port
	// Security is starttls (the default, and then required), tls from the first byte, or none.
	Security     string   `yaml:"security"`
	User         string   `yaml:"user"`
	PasswordFile string   `yaml:"password_file"`
	From         string   `yaml:"from"`
	To           []string `yaml:"to"`
	// Subject and Body are templates.
	Subject string `yaml:"subject"`
	Body    string `yaml:"body"`
	TLS     TLS    `yaml:"tls"`
}

// TLS says whom to trust, and as whom to come.
type TLS struct {
	CAFile     string `yaml:"ca_file"`
	CertFile   string `yaml:"cert_file"`
	KeyFile    string `yaml:"key_file"`
	ServerName string `yaml:"server_name"`
}

// AnyState stands for every state, and so for every change.
const AnyState watchlist.State = "ANY"

// Bounds and defaults.
const (
	maxConfigBytes  = 1 << 20
	maxSecretBytes  = 64 << 10
	maxDestinations = 100

	defaultTimeout = 10 * time.Second
	maxTimeout     = time.Minute
	defaultGiveUp  = 24 * time.Hour
	minGiveUp      = time.Second
)

// Ways to secure mail.
const (
	securityStartTLS = "starttls"
	securityTLS      = "tls"
	securityNone     = "none"
)

// Load reads a file of destinations. Everything that is wrong with it is reported at once, a line each.
func Load(path string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the destinations: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the destinations of %s: %w", path, err)
	}
	if len(text) > maxConfigBytes {
		return nil, fmt.Errorf("%s: is larger than %d bytes: is it a file of destinations?", path, maxConfigBytes)
	}
	return Parse(path, text)
}

// Parse is Load of a text. Files that it names lie beside the file at path, unless their paths are absolute.
func Parse(path string, text []byte) (*Config, error) {
	cfg := new(Config)
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(cfg); err != nil && !errors.Is(err, io.EOF) {
		return nil, explain(path, err)
	}
	lines := linesOf(text)
	var errs []error
	fault := func(i int, format string, args ...any) {
		at := path
		if i < len(lines) {
			at += ":" + strconv.Itoa(lines[i])
		}
		errs = append(errs, fmt.Errorf("%s: "+format, append([]any{at}, args...)...))
	}
	switch n := len(cfg.Destinations); {
	case n == 0:
		return nil, fmt.Errorf("%s: names no destinations: write destinations: with a list of them (docs/consume/notify.md)", path)
	case n > maxDestinations:
		return nil, fmt.Errorf("%s: has %d destinations: %d are the most", path, n, maxDestinations)
	}
	seen := make(map[string]bool)
	for i := range cfg.Destinations {
		d := &cfg.Destinations[i]
		d.withDefaults(filepath.Dir(path))
		if seen[d.Name] {
			fault(i, "destination %q is there twice: each needs a name of its own, which its place on the topic is kept by", d.Name)
		}
		seen[d.Name] = true
		for _, err := range d.check() {
			fault(i, "destination %q: %w", d.Name, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return cfg, nil
}

// linesOf are the lines on which the destinations begin.
func linesOf(text []byte) []int {
	var root struct {
		Destinations []yaml.Node `yaml:"destinations"`
	}
	if yaml.Unmarshal(text, &root) != nil {
		return nil
	}
	lines := make([]int, len(root.Destinations))
	for i := range root.Destinations {
		lines[i] = root.Destinations[i].Line
	}
	return lines
}

var (
	unknownKey = regexp.MustCompile(`^line (\d+): field (\S+) not found in type notify\.(\S+)$`)
	faultLine  = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)
)

// keys are those that each part of the file has.
var keys = map[string][]string{
	"Config":      {"destinations"},
	"Destination": {"name", "webhook", "mail", "states", "when", "timeout", "give_up"},
	"Webhook":     {"url", "url_file", "headers", "header_files", "bearer_token_file", "signing_key_file", "body", "content_type", "allow_plain_http", "tls"},
	"Mail":        {"server", "security", "user", "password_file", "from", "to", "subject", "body", "tls"},
	"TLS":         {"ca_file", "cert_file", "key_file", "server_name"},
}

// explain words what the YAML library says for the author of the file.
func explain(path string, err error) error {
	said := []string{err.Error()}
	if typed, is := errors.AsType[*yaml.TypeError](err); is {
		said = typed.Errors
	}
	var errs []error
	for _, line := range said {
		switch {
		case unknownKey.MatchString(line):
			m := unknownKey.FindStringSubmatch(line)
			known := keys[m[3]]
			hint := "it takes " + strings.Join(known, ", ")
			if best := slices.MinFunc(known, func(a, b string) int {
				return cmp.Compare(levenshtein.ComputeDistance(a, m[2]), levenshtein.ComputeDistance(b, m[2]))
			}); levenshtein.ComputeDistance(best, m[2]) <= 2 {
				hint = fmt.Sprintf("did you mean %q?", best)
			}
			errs = append(errs, fmt.Errorf("%s:%s: there is no key %q here; %s", path, m[1], m[2], hint))
		case faultLine.MatchString(line):
			m := faultLine.FindStringSubmatch(line)
			errs = append(errs, fmt.Errorf("%s:%s: %s", path, m[1], m[2]))
		default:
			errs = append(errs, fmt.Errorf("%s: %s", path, line))
		}
	}
	return errors.Join(errs...)
}

func (d *Destination) withDefaults(dir string) {
	d.Timeout, d.GiveUp = cmp.Or(d.Timeout, defaultTimeout), cmp.Or(d.GiveUp, defaultGiveUp)
	if d.States == nil {
		d.States = []watchlist.State{watchlist.Detected}
	}
	beside := func(path *string) {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	if w := d.Webhook; w != nil {
		if w.ContentType == "" {
			w.ContentType = "application/json"
		}
		for name, path := range w.HeaderFiles {
			beside(&path)
			w.HeaderFiles[name] = path
		}
		for _, path := range []*string{&w.URLFile, &w.BearerTokenFile, &w.SigningKeyFile, &w.TLS.CAFile, &w.TLS.CertFile, &w.TLS.KeyFile} {
			beside(path)
		}
	}
	if m := d.Mail; m != nil {
		m.Security = cmp.Or(m.Security, securityStartTLS)
		m.Subject, m.Body = cmp.Or(m.Subject, defaultSubject), cmp.Or(m.Body, defaultBody)
		for _, path := range []*string{&m.PasswordFile, &m.TLS.CAFile, &m.TLS.CertFile, &m.TLS.KeyFile} {
			beside(path)
		}
	}
}

var (
	goodName  = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)
	stateWord = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
)

// check lists what is wrong with a destination.
func (d *Destination) check() []error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !goodName.MatchString(d.Name) {
		add("name: want lower-case letters, digits and -, 63 at most")
	}
	if (d.Webhook == nil) == (d.Mail == nil) {
		add("want either webhook: or mail:")
	}
	if d.Timeout <= 0 || d.Timeout > maxTimeout {
		add("timeout %v: want more than 0s and %v at most", d.Timeout, maxTimeout)
	}
	if d.GiveUp < minGiveUp {
		add("give_up %v: want %v at least", d.GiveUp, minGiveUp)
	}
	if len(d.States) == 0 {
		add("states: the list is empty, so that nothing would ever be sent: leave it out for DETECTED, or write [ANY]")
	}
	for _, s := range d.States {
		if !stateWord.MatchString(string(s)) {
			add("states: %q is no state: want a word such as DETECTED, or ANY", s)
			continue
		}
		for _, known := range []watchlist.State{watchlist.Pending, watchlist.Suspected, watchlist.Detected, watchlist.Negative, watchlist.NotCallable, AnyState} {
			if n := levenshtein.ComputeDistance(string(s), string(known)); n > 0 && n <= 2 {
				add("states: %q is no state: did you mean %s?", s, known)
			}
		}
	}
	if _, err := compileWhen(d.When); err != nil {
		errs = append(errs, err)
	}
	if d.Webhook != nil {
		errs = append(errs, d.Webhook.check()...)
	}
	if d.Mail != nil {
		errs = append(errs, d.Mail.check()...)
	}
	return errs
}

func (w *Webhook) check() []error {
	var errs []error
	add := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	if (w.URL == "") == (w.URLFile == "") {
		add(errors.New("webhook: want url: or url_file:, and not both"))
	} else {
		_, err := w.address()
		add(err)
	}
	for name := range w.Headers {
		if _, also := w.HeaderFiles[name]; also {
			add(fmt.Errorf("headers: %q is in header_files too: keep one", name))
		}
	}
	for _, name := range slices.Concat(sortedKeys(w.Headers), sortedKeys(w.HeaderFiles)) {
		if !validHeader(name) {
			add(fmt.Errorf("headers: %q is no name of an HTTP header, or one that is set already", name))
		}
	}
	for _, name := range sortedKeys(w.Headers) {
		if strings.ContainsFunc(w.Headers[name], isControl) {
			add(fmt.Errorf("headers: the value of %q has a character that headers can't have", name))
		}
	}
	for _, name := range sortedKeys(w.HeaderFiles) {
		_, err := secret(w.HeaderFiles[name])
		add(err)
	}
	for _, path := range []string{w.BearerTokenFile, w.SigningKeyFile} {
		if path != "" {
			_, err := secret(path)
			add(err)
		}
	}
	if w.SigningKeyFile != "" {
		_, err := signingKey(w.SigningKeyFile)
		add(err)
	}
	_, err := compileTemplate("body", w.Body, strings.HasSuffix(w.ContentType, "json"))
	add(err)
	if strings.ContainsFunc(w.ContentType, isControl) {
		add(errors.New("content_type: has a character that headers can't have"))
	}
	_, err = w.TLS.config("")
	add(err)
	return errs
}

// address is where requests go. An error about an address that a file holds does not show the address.
func (w *Webhook) address() (*url.URL, error) {
	text, from := w.URL, "url"
	if w.URLFile != "" {
		var err error
		if text, err = secret(w.URLFile); err != nil {
			return nil, err
		}
		from = "url_file " + w.URLFile
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%s: want an address that begins with https://", from)
	case u.User != nil && w.URLFile == "":
		return nil, errors.New("url: holds a user or password: put the address into a file, whose path url_file: has")
	case u.Scheme == "http" && w.secrets() && !w.AllowPlainHTTP && !isLoopback(u.Hostname()):
		return nil, fmt.Errorf("%s: secrets would go over http, readable on their way: use https, or say allow_plain_http: true", from)
	}
	return u, nil
}

// secrets reports whether requests carry something confidential. Headers that stand in the file itself are classified by their names.
func (w *Webhook) secrets() bool {
	for name := range w.Headers {
		name = strings.ToLower(name)
		for _, word := range []string{"auth", "cookie", "token", "key", "secret"} {
			if strings.Contains(name, word) {
				return true
			}
		}
	}
	return w.URLFile != "" || w.BearerTokenFile != "" || len(w.HeaderFiles) > 0
}

func (m *Mail) check() []error {
	var errs []error
	add := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	host, port, err := net.SplitHostPort(m.Server)
	if err != nil || host == "" || port == "" {
		add(fmt.Errorf("mail: server %q: want host:port, with 587 for STARTTLS or 465 for TLS", m.Server))
	}
	if !slices.Contains([]string{securityStartTLS, securityTLS, securityNone}, m.Security) {
		add(fmt.Errorf("mail: security %q: want %s, %s or %s", m.Security, securityStartTLS, securityTLS, securityNone))
	}
	switch {
	case (m.User == "") != (m.PasswordFile == ""):
		add(errors.New("mail: user and password_file go together"))
	case m.PasswordFile != "":
		_, err := secret(m.PasswordFile)
		add(err)
		if m.Security == securityNone && !isLoopback(host) {
			add(errors.New("mail: a password is not sent without TLS: use security: starttls or tls"))
		}
	}
	if _, err := mail.ParseAddress(m.From); err != nil {
		add(fmt.Errorf("mail: from %q: want an address, such as Porestream <alerts@example.org>", m.From))
	}
	if len(m.To) == 0 {
		add(errors.New("mail: to: names nobody"))
	}
	for _, to := range m.To {
		if _, err := mail.ParseAddress(to); err != nil {
			add(fmt.Errorf("mail: to %q: want an address", to))
		}
	}
	_, err = compileTemplate("subject", m.Subject, false)
	add(err)
	_, err = compileTemplate("body", m.Body, false)
	add(err)
	_, err = m.TLS.config(host)
	add(err)
	return errs
}

// secret is what a file holds, without the line end.
func secret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading a secret: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	if err != nil {
		return "", fmt.Errorf("reading the secret in %s: %w", path, err)
	}
	s := strings.TrimRight(string(text), "\r\n")
	switch {
	case len(text) > maxSecretBytes:
		return "", fmt.Errorf("the secret in %s is longer than %d bytes", path, maxSecretBytes)
	case s == "":
		return "", fmt.Errorf("the file %s of a secret is empty", path)
	case strings.ContainsFunc(s, isControl):
		return "", fmt.Errorf("the secret in %s is more than one line, or has characters that can't be sent", path)
	}
	return s, nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// validHeader reports whether a user may set a header.
func validHeader(name string) bool {
	bad := func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("()<>@,;:\\\"/[]?={}", r)
	}
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	own := []string{"Content-Type", "Content-Length", "Host", "Idempotency-Key", "Transfer-Encoding", "Connection"}
	return name != "" && !strings.ContainsFunc(name, bad) && !slices.Contains(own, canonical) && !strings.HasPrefix(canonical, "Ce-") && !strings.HasPrefix(canonical, "Webhook-")
}

func sortedKeys(m map[string]string) []string {
	list := make([]string, 0, len(m))
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}
