package board_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/board"
	"github.com/tidemark-dev/tidemark/internal/event"
)

// The tests of the page run a real browser (scripts/find-chromium.sh), and axe-core from npm, in the user's cache. Without them
// they are skipped, unless this variable is 1.
const requireChromium = "TIDEMARK_REQUIRE_CHROMIUM"

// axePackage is in the version that the tests were written for.
const axePackage = "axe-core@4.14.1"

func skip(t *testing.T, what string, err error) {
	t.Helper()
	if os.Getenv(requireChromium) == "1" {
		t.Fatalf("no %s, and %s=1: %v", what, requireChromium, err)
	}
	t.Skipf("no %s to test with: %v", what, err)
}

// chromium is the path of the browser. It is not installed here: that is the script's work.
func chromium(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("CHROMIUM_BIN"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome-headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	skip(t, "Chromium", exec.ErrNotFound)
	return ""
}

// axe is the source of axe-core.
func axe(t *testing.T) string {
	t.Helper()
	source, err := fetchAxe()
	if err != nil {
		skip(t, axePackage, err)
	}
	return source
}

var fetchAxe = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "tidemark-clients", strings.ReplaceAll(axePackage, "@", "-"))
	file := filepath.Join(dir, "package", "axe.min.js")
	if source, err := os.ReadFile(file); err == nil {
		return string(source), nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pack := exec.CommandContext(ctx, "npm", "pack", "--silent", "--fetch-retries", "1", axePackage)
	pack.Dir = dir
	name, err := pack.Output()
	if err != nil {
		return "", err
	}
	if out, err := exec.CommandContext(ctx, "tar", "-C", dir, "-xzf", filepath.Join(dir, strings.TrimSpace(string(name)))).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	source, err := os.ReadFile(file)
	return string(source), err
})

// site is a board that is served as the admin listener serves it.
type site struct {
	*board.Board

	url string
}

const token = "a-token-for-tests"

// serve serves a board with some events; with content, requests must bear the token.
func serve(t *testing.T, events []event.Event, o board.Options, asks bool) *site {
	t.Helper()
	b := board.New(o)
	for _, e := range events {
		b.Take(e)
	}
	files, err := board.Page()
	if err != nil {
		t.Fatal(err)
	}
	api := b.Handler()
	options := access.Options{
		Name: "admin", Open: board.IsPage, Loopback: true, Log: slog.New(slog.DiscardHandler), MaxBody: 1 << 20,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if board.IsPage(r.URL.Path) {
				files.ServeHTTP(w, r)
				return
			}
			api.ServeHTTP(w, r)
		}),
	}
	if asks {
		path := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if options.Tokens, err = access.NewTokens(path, options.Log); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- access.NewServer(options).Serve(ctx, l, time.Second) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &site{b, "http://" + l.Addr().String()}
}

// tab is one tab of a browser. What its page logs as an error, or throws, fails the test: violations of its own policy among them.
type tab struct {
	t   *testing.T
	ctx context.Context
}

// shared is one browser for all tests; each has a tab with a profile of its own.
var shared struct {
	once sync.Once
	browser
	err error
}

// browser is one that runs.
type browser struct {
	ctx   context.Context
	close []func() // what ends it, the last one first
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, f := range slices.Backward(shared.close) {
		f()
	}
	os.Exit(code)
}

// start starts a browser.
func start(path string) (browser, error) {
	dir, err := os.MkdirTemp("", "tidemark-chromium")
	if err != nil {
		return browser{}, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.NoSandbox, chromedp.DisableGPU)
	for _, flag := range []string{"disable-quic", "no-first-run", "disable-background-networking", "disable-component-update", "disable-sync", "disable-lcd-text"} {
		options = append(options, chromedp.Flag(flag, true))
	}
	alloc, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(alloc)
	return browser{ctx, []func(){func() { _ = os.RemoveAll(dir) }, stop, end, func() { _ = chromedp.Cancel(ctx) }}}, chromedp.Do(ctx, chromedp.Navigate("about:blank"))
}

// browse opens a tab.
func browse(t *testing.T) *tab {
	t.Helper()
	path := chromium(t)
	shared.once.Do(func() { shared.browser, shared.err = start(path) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	ctx, cancel := chromedp.NewContext(shared.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 90*time.Second)
	t.Cleanup(cancel)
	b := &tab{t, ctx}
	b.run(chromedp.Navigate("about:blank"))
	said, done := chromedp.Console(ctx), make(chan struct{})
	go func() {
		defer close(done)
		for m, err := range said {
			if err != nil {
				return
			}
			if (m.Type == "error" || m.Type == chromedp.ConsoleException) && !strings.Contains(m.Text, "status of 40") { // which tests ask for
				t.Errorf("the page says: %s", m.Text)
			}
		}
	}()
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // the tab is empty by now, or the test has failed
		<-done
	})
	return b
}

func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatalf("%v; the page says: %.600s", err, b.text())
	}
}

// text is what the page shows.
func (b *tab) text() string {
	text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.body.innerText`)) // it says what it can of a page that fails
	return text
}

// look makes the window so wide, and its colours light or dark.
func (b *tab) look(width int, colours string) {
	b.t.Helper()
	b.run(chromedp.EmulateViewport(int64(width), 900), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "UTC"}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: colours}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}})
		return err
	}))
}

// settle waits until the page has drawn itself for a new size.
func (b *tab) settle() {
	b.t.Helper()
	eval[bool](b, `new Promise((done) => setTimeout(() => requestAnimationFrame(() => done(true)), 220))`)
}

// open shows a view, and waits for its heading.
func (b *tab) open(url, heading string) {
	b.t.Helper()
	b.run(chromedp.Navigate("about:blank"), chromedp.Navigate(url))
	b.await(heading)
}

// await waits until the heading starts with a text.
func (b *tab) await(heading string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`document.querySelector('main h1')?.textContent.startsWith(%q)`, heading))
}

// until waits until a script says true.
func (b *tab) until(script string) {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Poll[bool](script, chromedp.WithPollingTimeout(15*time.Second))); err != nil {
		b.t.Fatalf("%s: %v; the page says: %.600s", script, err, b.text())
	}
}

// eval returns what a script says, as JSON knows it.
func eval[T any](b *tab, script string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.300s: %v", script, err)
	}
	return v
}

// audit has axe-core look at the page: no fault may be serious or worse.
func (b *tab) audit(what, options string) {
	b.t.Helper()
	type violation struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML, FailureSummary string }
	}
	found := eval[struct{ Violations []violation }](b, `axe.run(document, `+options+`)`)
	for _, v := range found.Violations {
		if v.Impact != "serious" && v.Impact != "critical" {
			continue
		}
		n := v.Nodes[0]
		b.t.Errorf("%s: %s, %s (%s), %d times: %.200s: %s", what, v.Impact, v.ID, v.Help, len(v.Nodes), n.HTML, n.FailureSummary)
	}
}

// picture returns a screenshot of the window.
func (b *tab) picture() []byte {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Fatal(err)
	}
	return png
}

// ask sends one request to the API.
func (s *site) ask(t *testing.T, path, bearer, tag string) (status int, body []byte, h http.Header) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, b.Bytes(), res.Header
}

func decode[T any](t rapid.TB, body []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v: %.200s", err, cmp.Or(string(body), "nothing"))
	}
	return v
}
