// Command screenshots takes the pictures of the live page that the documentation shows:
// of the demo, or of a scene of package pagetest, with headless Chromium.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/porestream/porestream/monitor/page"
	"github.com/porestream/porestream/monitor/page/pagetest"
	"github.com/porestream/porestream/monitor/page/pagetest/browser"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	out := flag.String("out", filepath.Join("docs", "operate", "screenshots"), "folder of the pictures")
	scene := flag.String("scene", "", "take a scene instead of the demo: lambda, large, plate, troubled, behind or empty")
	serve := flag.Bool("serve", false, "serve the scene until interrupted, and take no pictures")
	program := flag.String("pore", filepath.Join("bin", "pore"), "the program whose demo is played")
	pace := flag.String("pace", "1", "speed of the demo; at 1 the flow cell is still sequencing when variants are there")
	ready := flag.Duration("timeout", 15*time.Minute, "how long the demo may take until variants are there")
	flag.Parse()
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	var address string
	if *scene != "" {
		scenes := map[string]func() pagetest.Scene{
			"lambda": pagetest.Lambda, "troubled": pagetest.Troubled, "behind": pagetest.Behind, "empty": pagetest.Empty,
			"large": func() pagetest.Scene { return pagetest.Large(5000) },
			"plate": func() pagetest.Scene { return pagetest.Plate(96, 60) }, "genes": func() pagetest.Scene { return pagetest.Genes(96, 13) },
		}
		chosen, known := scenes[*scene]
		if !known {
			return fmt.Errorf("there is no scene %q", *scene)
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		feed := pagetest.NewFeed(page.Assets(), "scene", chosen())
		go tick(ctx, feed)
		server := &http.Server{Handler: feed, ReadHeaderTimeout: time.Second}
		go func() { _ = server.Serve(listener) }()
		defer server.Close()
		address = fmt.Sprintf("http://%s/?token=scene", listener.Addr())
		if *serve {
			fmt.Println(address)
			<-ctx.Done()
			return nil
		}
	} else {
		demo, err := play(ctx, *program, *pace)
		if err != nil {
			return err
		}
		defer demo.stop()
		address = demo.address
	}
	return shoot(ctx, address, *out, *ready)
}

// tick keeps a scene alive: a summary and other channels every second, and revised variants.
func tick(ctx context.Context, feed *pagetest.Feed) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for step := 2; ; step++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		feed.Step(step)
	}
}

// demo is a `pore demo` that goes on after its end.
type demo struct {
	address string
	stop    func()
}

var printed = regexp.MustCompile(`http://\S+/\?token=\S+`)

func play(ctx context.Context, program, pace string) (*demo, error) {
	cmd := exec.CommandContext(ctx, program, "demo", "--stay", "--pace", pace)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the demo: %w (make build first)", err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if address := printed.FindString(lines.Text()); address != "" {
			go func() { _, _ = io.Copy(io.Discard, stdout) }()
			return &demo{address: address, stop: func() {
				_ = cmd.Process.Signal(os.Interrupt)
				_ = cmd.Wait() // an interrupted demo has no result
			}}, nil
		}
	}
	return nil, fmt.Errorf("the demo ended without printing the page's address: %w", errors.Join(lines.Err(), cmd.Wait()))
}

// picture is one file.
type picture struct {
	name   string
	screen browser.Screen
	detail bool // with the dialog of a variant
}

func pictures() []picture {
	return []picture{
		{name: "dark", screen: browser.Screen{Width: 1600, Height: 1330, Dark: true}},
		{name: "light", screen: browser.Screen{Width: 1600, Height: 1330}},
		{name: "detail", screen: browser.Screen{Width: 1280, Height: 1000}, detail: true},
		{name: "detail-dark", screen: browser.Screen{Width: 1280, Height: 1000, Dark: true}, detail: true},
		{name: "phone", screen: browser.Screen{Width: 390, Height: 1500, Scale: 1.5, Dark: true, Phone: true}},
	}
}

func shoot(ctx context.Context, address, out string, ready time.Duration) error {
	path, err := browser.Find()
	if err != nil {
		return err
	}
	chromium, err := browser.Start(ctx, path)
	if err != nil {
		return err
	}
	defer chromium.Close()
	tab, err := chromium.Open(pictures()[0].screen)
	if err != nil {
		return err
	}
	if err := tab.Go(address); err != nil {
		return fmt.Errorf("opening the page: %w", err)
	}
	first, cancel := context.WithTimeout(ctx, ready)
	defer cancel()
	if err := tab.Wait(first, `document.querySelectorAll(".grid-body .grid-row:not([hidden])").length >= `+strconv.Itoa(enough)); err != nil {
		return err
	}
	ctx, cancel = context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for _, p := range pictures() {
		if err := tab.Show(p.screen); err != nil {
			return err
		}
		if p.detail {
			if _, err := browser.Ask[bool](tab, openVariant); err != nil {
				return err
			}
			if err := tab.Wait(ctx, `document.getElementById("detail").open && !document.getElementById("pileup-message").textContent.startsWith("Asking") || !document.getElementById("pileup-body").hidden`); err != nil {
				return err
			}
		}
		time.Sleep(settle)
		shot, err := tab.Picture()
		if err != nil {
			return fmt.Errorf("taking %s: %w", p.name, err)
		}
		if err := write(filepath.Join(out, p.name+".png"), shot); err != nil {
			return err
		}
		if _, err := browser.Ask[bool](tab, `document.querySelector("dialog[open]")?.close(), true`); err != nil {
			return err
		}
	}
	for _, m := range tab.Messages() {
		fmt.Fprintln(os.Stderr, "screenshots: the page says:", m)
	}
	return nil
}

// enough variants for a picture; the demo's recording has four.
const enough = 3

// settle is long enough for what moves to come to rest.
const settle = 1500 * time.Millisecond

// openVariant opens the first variant with much impact.
const openVariant = `(() => {
	const rows = [...document.querySelectorAll(".grid-body .grid-row:not([hidden])")];
	const severe = rows.find((r) => r.querySelector('[data-impact="MODERATE"]')) ?? rows[0];
	severe.click();
	return true;
})()`

// write keeps a picture in 256 colours, which is what its size allows and the eye
// does not see.
func write(path string, shot []byte) error {
	taken, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var small bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&small, fewer(taken)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.WriteFile(path, small.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Printf("%s\t%d kB\n", path, small.Len()/1000)
	return nil
}

// fewer is a picture in the 256 colours that most of its pixels have; the others, edges
// of letters, get the nearest of these. A colour is taken only once it differs enough
// from those before, so that rare ones get their turn.
func fewer(taken image.Image) *image.Paletted {
	bounds := taken.Bounds()
	count := make(map[color.RGBA]int)
	at := func(x, y int) color.RGBA {
		r, g, b, _ := taken.At(x, y).RGBA()
		return color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 255}
	}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var palette color.Palette
	for _, apart := range []int{300, 100, 0} {
		for _, c := range colours {
			if len(palette) == 256 {
				break
			}
			if !slices.ContainsFunc(palette, func(p color.Color) bool { return distance(c, p.(color.RGBA)) <= apart }) {
				palette = append(palette, c)
			}
		}
	}
	nearest := make(map[color.RGBA]uint8, len(colours))
	for _, c := range colours {
		best := 0
		for i, p := range palette {
			if distance(c, p.(color.RGBA)) < distance(c, palette[best].(color.RGBA)) {
				best = i
			}
		}
		nearest[c] = uint8(best)
	}
	out := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			out.SetColorIndex(x, y, nearest[at(x, y)])
		}
	}
	return out
}

func distance(a, b color.RGBA) int {
	r, g, c := int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B)
	return r*r + g*g + c*c
}
