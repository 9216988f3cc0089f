//go:build unix

package clients_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
	"github.com/tidemark-dev/tidemark/internal/simprovider"
	"github.com/tidemark-dev/tidemark/internal/simprovider/openai"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		envoytest.RemoveProgram()
		os.Exit(code)
	}))
}

// start is when the task begins, pace how long a request takes on the clock of tidemark and the provider, and pause how long the user
// takes before the second turn: longer than the provider keeps a prefix. Clients have the machine's clock.
const (
	pace  = 7 * time.Second
	pause = 72 * time.Hour
)

var start = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)

// Routes of the tests: the default preset with what requests are billed, the same for short sessions without and with a tool that gives
// originals back, and past tidemark.
const (
	tidePath   = "/clients"
	recallPath = "/recall"
	inlinePath = "/inline"
	plainPath  = "/off"
)

// configs are the route configs of the tests.
var configs = map[string]string{
	tidePath:   "{pipeline: default, components: {tiered: {window: 6}}}",
	recallPath: "{pipeline: default, components: {tiered: {window: 3}}}",
	inlinePath: "{pipeline: default, components: {tiered: {window: 3}}, inline_restore: true}",
}

// route takes the presets from tidemark's route config, and what requests are billed from Envoy.
const route = `
              - name: %[4]s-%[2]s
                match: {prefix: /%[4]s%[1]s}
                route: {cluster: upstream, timeout: 0s}
                request_headers_to_remove: [accept-encoding] # ai_protocol_manager reads no compressed response
                typed_per_filter_config:
                  envoy.filters.http.set_metadata:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config
                    metadata: [{metadata_namespace: tidemark, value: %[3]s}]
                  envoy.filters.http.ai_protocol_manager:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ai_protocol_manager.v3.AiProtocolManagerPerRoute
                    response: {llm_protocol: %[2]s}
`

func withRoutes(config string) string {
	const first = "              - name: messages\n"
	var all strings.Builder
	for _, r := range []struct{ path, protocol string }{
		{anthropic.path, "ANTHROPIC_MESSAGES"}, {chat.path, "OPENAI_CHAT_COMPLETIONS"}, {responses.path, "OPENAI_RESPONSES"},
	} {
		for path, config := range configs {
			fmt.Fprintf(&all, strings.TrimPrefix(route, "\n"), r.path, r.protocol, config, path[1:])
		}
	}
	return strings.Replace(config, first, all.String()+first, 1)
}

// world is Envoy, tidemark and the provider, and a client before them.
type world struct {
	*envoytest.Env

	client   *client
	program  string
	tidemark *envoytest.Tidemark
	provider *provider
	dir      string // the client's files
	home     string
}

// newWorld starts everything for a script, with a config of the server.
func newWorld(t *testing.T, c *client, s *script, config string) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("it installs a client and runs it for half a minute")
	}
	envoytest.Binary(t)
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{client: c, program: install(t, c.pkg, c.program), dir: filepath.Join(root, "work"), home: filepath.Join(root, "home")}
	w.tidemark = envoytest.NewTidemark(t, config)
	w.provider = &provider{t: t, world: w, messages: simprovider.New(simprovider.Options{}), others: openai.New(openai.Options{}), script: s}
	w.provider.pass(0)
	w.tidemark.Start(t)
	w.Env = envoytest.Start(t, envoytest.Options{Upstream: w.provider, Processor: w.tidemark.Addr, Edit: withRoutes})
	return w
}

// outcome is what became of the task.
type outcome struct {
	words    []string // the client's last words in each turn
	files    map[string]string
	requests []request
}

// play lets the client do the task on a route, in new folders of the same names. More is what else the client's home or folder
// needs, and returns what else its environment does.
func (w *world) play(t *testing.T, path string, more func() []string) *outcome {
	t.Helper()
	err := errors.Join(os.RemoveAll(w.dir), os.RemoveAll(w.home), os.Mkdir(w.dir, 0o700), os.MkdirAll(filepath.Join(w.home, "tmp"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	plant(t, w.dir)
	w.provider.reset()
	env := w.client.configure(t, w.home, w.URL(path))
	if more != nil {
		env = append(env, more()...)
	}
	o := &outcome{}
	for turn, prompt := range w.provider.script.prompts {
		if turn > 0 {
			w.provider.pass(pause)
		}
		o.words = append(o.words, run(t, w.program, w.dir, w.home, env, w.client.arguments(turn, prompt)...))
	}
	o.files, o.requests = harvest(t, w.dir), w.provider.requests()
	return o
}

// provider is the simulators, told by the script what the model says.
type provider struct {
	t        *testing.T
	world    *world
	messages *simprovider.Sim
	others   *openai.Sim
	script   *script

	mu  sync.Mutex
	now time.Time
}

func (p *provider) reset() {
	p.messages.Reset()
	p.others.Reset()
	p.mu.Lock()
	p.now = time.Time{}
	p.mu.Unlock()
	p.pass(0)
}

// request is what the provider saw of one, and what it billed.
type request struct {
	id      string // x-request-id
	path    string
	status  int
	refusal string
	side    bool // no turn of the task
	body    []byte
	bytes   int
	prompt  int // tokens, of which the next two are part
	read    int
	write   int
	cost    float64 // USD
}

// held is how many tokens the provider holds after the request: what was read and written, or, where it does not charge for writes,
// whole steps of the prompt.
func (r request) held(step int) int {
	if r.write > 0 || step == 1 {
		return r.read + r.write
	}
	return r.prompt / step * step
}

// and adds what another request weighs.
func (r request) and(o request) request {
	return request{bytes: r.bytes + o.bytes, prompt: r.prompt + o.prompt, cost: r.cost + o.cost}
}

// requests are all since the last reset, oldest first.
func (p *provider) requests() (all []request) {
	read := p.world.client.wire.read
	for _, r := range p.messages.Requests() {
		all = append(all, request{
			id: r.Header.Get("x-request-id"), path: r.Path, status: r.Status, refusal: r.Error, side: read(r.Body).side, body: r.Body, bytes: len(r.Body),
			prompt: r.Prompt, read: r.Usage.Read, write: r.Usage.Write5m + r.Usage.Write1h, cost: simprovider.Bill(r.Model, r.Usage),
		})
	}
	for _, r := range p.others.Requests() {
		all = append(all, request{
			id: r.Header.Get("x-request-id"), path: r.Path, status: r.Status, refusal: r.Error, side: read(r.Body).side, body: r.Body, bytes: len(r.Body),
			prompt: r.Prompt, read: r.Usage.Read, write: r.Usage.Write, cost: openai.Bill(r.Model, r.Usage),
		})
	}
	return all
}

// pass lets time pass, for tidemark too.
func (p *provider) pass(d time.Duration) (now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now.IsZero() {
		p.now = start
	}
	p.now = p.now.Add(d)
	p.world.tidemark.SetClock(p.t, p.now)
	return p.now
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	wire := p.world.client.wire
	if strings.HasSuffix(r.URL.Path, wire.path) {
		reply := words("The limiter")
		if c := wire.read(body); !c.side {
			c.body = strings.ReplaceAll(string(body), `\n`, "\n")
			reply = p.script.at(&c)
			if slices.Contains(p.script.idle, c.answers) {
				defer p.pass(pause)
			}
		}
		r.Header.Set("x-sim-reply", marshal(wire.write(p.world.client.tools.answer(reply, p.world.dir))))
	}
	r.Header.Set("x-sim-now", p.pass(pace).Format(time.RFC3339Nano))
	if i := strings.Index(r.URL.Path, "/v1/"); i > 0 {
		r.URL.Path = r.URL.Path[i:]
	}
	if wire.path == anthropic.path {
		p.messages.ServeHTTP(w, r)
		return
	}
	p.others.ServeHTTP(w, r)
}
