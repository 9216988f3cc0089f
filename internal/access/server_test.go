package access

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-dev/tidemark/internal/access/accesstest"
)

// lockedLog keeps what is logged from many goroutines.
type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// refusals counts what a server refuses.
type refusals struct {
	mu   sync.Mutex
	list []string
}

func (r *refusals) add(name, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, name+" "+why)
}

func (r *refusals) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.list, ",")
}

// echo says what it sees of a request.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		Refuse(w, http.StatusRequestEntityTooLarge, "too_large", "too large")
		return
	}
	fmt.Fprintf(w, "%s %s %q %q", r.Method, b, r.Header.Get("Authorization"), r.Header.Get(TokenHeader))
})

func TestServerAsksForTheToken(t *testing.T) {
	k, path := tokens(t, first)
	var refused refusals
	s := NewServer(Options{Name: "restore", Handler: echo, Tokens: k, Refused: refused.add, Log: discard(), MaxBody: 5, Open: func(p string) bool { return p == "/livez" }})
	request := func(path, token, body string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		return r
	}
	for _, c := range []struct {
		path, token, body string
		status            int
		want              string
	}{
		{"/x", first, "body", 200, `POST body "" ""`},
		{"/x", second, "body", 401, `{"error":{"type":"unauthorized","message":"the bearer token or the client certificate is missing or wrong"}}`},
		{"/x", "", "body", 401, `{"error":{"type":"unauthorized","message":"the bearer token or the client certificate is missing or wrong"}}`},
		{"/livez", "", "body", 200, `POST body "" ""`},
		{"/livez/../x", "", "body", 401, ""},
		{"/x", first, "bodies", 413, ""},
	} {
		r := request(c.path, c.token, c.body)
		w := ask(s, r)
		if w.Code != c.status || c.want != "" && w.Body.String() != c.want {
			t.Errorf("%+v: %d %s", c, w.Code, w.Body)
		}
		if w.Code == 401 && w.Header().Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%+v: %v", c, w.Header())
		}
	}
	accesstest.Write(t, path, []byte(second))
	if w := ask(s, request("/x", first, "")); w.Code != 401 {
		t.Errorf("a token that is no longer in the file: %d", w.Code)
	}
	if got := refused.String(); got != "restore unauthorized,restore unauthorized,restore unauthorized,restore unauthorized" {
		t.Error(got)
	}
}

func TestServerLimitsRates(t *testing.T) {
	k, _ := tokens(t, first)
	var refused refusals
	s := NewServer(Options{Name: "restore", Handler: echo, Tokens: k, Rate: 0.001, Refused: refused.add, Log: discard()})
	from := func(addr, token string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = addr
		r.Header.Set("Authorization", "Bearer "+token)
		return ask(s, r)
	}
	if w := from("10.0.0.1:1", second); w.Code != 401 {
		t.Errorf("%d", w.Code)
	}
	w := from("10.0.0.1:2", first) // guesses count
	if n, err := strconv.Atoi(w.Header().Get("Retry-After")); w.Code != 429 || err != nil || n < 900 || n > 1000 {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if !strings.Contains(w.Body.String(), `"type":"rate_limited"`) {
		t.Error(w.Body)
	}
	if got := refused.String(); got != "restore unauthorized,restore rate_limited" {
		t.Error(got)
	}
}

// Whoever has no token takes nothing of the rate of all, however many addresses it has.
func TestServerKeepsRoomForWhoeverIsAdmitted(t *testing.T) {
	k, _ := tokens(t, first)
	s := NewServer(Options{Name: "restore", Handler: echo, Tokens: k, Rate: 1, Log: discard()})
	from := func(addr, token string) int {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = addr
		r.Header.Set("Authorization", "Bearer "+token)
		return ask(s, r).Code
	}
	for i := range 20 * allClients {
		if got := from(fmt.Sprintf("[2001:db8:0:%x::1]:1", i), second); got != http.StatusUnauthorized {
			t.Fatalf("guess %d: %d", i, got)
		}
	}
	if got := from("10.0.0.1:1", first); got != http.StatusOK {
		t.Errorf("with the token: %d", got)
	}
	limited := false
	for i := range 20 * allClients {
		limited = limited || from(fmt.Sprintf("[2001:db8:0:%x::1]:1", i), first) == http.StatusTooManyRequests
	}
	if !limited {
		t.Error("the rate of all bounds nothing")
	}
}

// Pages of other names are refused: by a name of theirs for this machine, and by where they say that they come from.
func TestServerRefusesPages(t *testing.T) {
	k, _ := tokens(t, first)
	for _, c := range []struct {
		name             string
		o                Options
		host, site, orig string
		status           int
	}{
		{"loopback", Options{Loopback: true}, "localhost:9004", "", "", 200},
		{"address", Options{Loopback: true}, "127.0.0.1:9004", "", "", 200},
		{"IPv6", Options{Loopback: true}, "[::1]:9004", "", "", 200},
		{"rebound", Options{Loopback: true}, "evil.example:9004", "", "", 403},
		{"named in a network", Options{}, "tidemark:9004", "", "", 200},
		{"with a token", Options{Loopback: true, Tokens: k}, "tidemark:9004", "", "", 200},
		{"another page", Options{}, "tidemark:9004", "cross-site", "", 403},
		{"another origin", Options{}, "tidemark:9004", "", "https://evil.example", 403},
		{"the same origin", Options{}, "tidemark:9004", "", "http://tidemark:9004", 200},
	} {
		c.o.Name, c.o.Handler, c.o.Log = "restore", echo, discard()
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Host = c.host
		r.Header.Set("Authorization", "Bearer "+first)
		if c.site != "" {
			r.Header.Set("Sec-Fetch-Site", c.site)
		}
		if c.orig != "" {
			r.Header.Set("Origin", c.orig)
		}
		if w := ask(NewServer(c.o), r); w.Code != c.status {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
	}
}

// serve runs a server until the test ends and returns its address.
func serve(t *testing.T, o Options) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if o.Log == nil {
		o.Log = discard()
	}
	o.Name = "test"
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- NewServer(o).Serve(ctx, l, time.Minute) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// get asks once, over a connection of its own.
func get(url string, c *tls.Config) (status int, body string, err error) {
	tr := &http.Transport{TLSClientConfig: c, DisableKeepAlives: true, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	res, err := (&http.Client{Transport: tr}).Get(url)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), err
}

// files of a listener's TLS in a folder.
func pems(t *testing.T, server, clients *accesstest.Authority) TLS {
	t.Helper()
	dir := t.TempDir()
	cert, key := server.Issue(t, "one")
	c := TLS{
		CertFile: accesstest.Write(t, filepath.Join(dir, "tls.crt"), cert), KeyFile: accesstest.Write(t, filepath.Join(dir, "tls.key"), key),
	}
	if clients != nil {
		c.ClientCAFile = accesstest.Write(t, filepath.Join(dir, "ca.crt"), clients.PEM)
	}
	return c
}

func certificates(t *testing.T, c TLS, log *slog.Logger) *Certificates {
	t.Helper()
	k, err := NewCertificates(c, log)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestServerTLS(t *testing.T) {
	server, clients, others := accesstest.NewAuthority(t, "server"), accesstest.NewAuthority(t, "clients"), accesstest.NewAuthority(t, "others")
	plain := serve(t, Options{Handler: echo, Certificates: certificates(t, pems(t, server, nil), discard())})
	mutual := serve(t, Options{Handler: echo, Certificates: certificates(t, pems(t, server, clients), discard())})
	open := serve(t, Options{Handler: echo, Certificates: certificates(t, pems(t, server, clients), discard()), Open: func(p string) bool { return p == "/livez" }})
	for _, c := range []struct {
		name, addr, path string
		by               *accesstest.Authority
		status           int // 0: no connection
	}{
		{"TLS", plain, "/", nil, 200},
		{"a certificate that nobody asks for", plain, "/", others, 200},
		{"mutual without", mutual, "/", nil, 0},
		{"mutual of others", mutual, "/", others, 0},
		{"mutual", mutual, "/", clients, 200},
		{"a probe", open, "/livez", nil, 200},
		{"no probe", open, "/metrics", nil, 401},
		{"no probe, of others", open, "/metrics", others, 0},
		{"no probe, mutual", open, "/metrics", clients, 200},
	} {
		status, body, err := get("https://"+c.addr+c.path, server.Client(t, c.by))
		if status != c.status || (err == nil) != (c.status > 0) {
			t.Errorf("%s: %d %s %v", c.name, status, body, err)
		}
	}
	old := server.Client(t, nil)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 //nolint:gosec // it must be refused
	if _, _, err := get("https://"+plain+"/", old); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	if status, _, _ := get("http://"+plain+"/", nil); status == 200 {
		t.Error("plain text is answered")
	}
}

// A certificate, a key and an authority that were exchanged count from the next handshake on. What does not fit together is not
// used, and the log quotes nothing of it.
func TestServerRotates(t *testing.T) {
	server, next, clients, others := accesstest.NewAuthority(t, "server"), accesstest.NewAuthority(t, "next"), accesstest.NewAuthority(t, "clients"), accesstest.NewAuthority(t, "others")
	files := pems(t, server, clients)
	var log lockedLog
	addr := serve(t, Options{Handler: echo, Certificates: certificates(t, files, slog.New(slog.NewTextHandler(&log, nil)))})
	expect := func(step string, by, as *accesstest.Authority, ok bool) {
		t.Helper()
		if status, _, err := get("https://"+addr+"/", by.Client(t, as)); (status == 200) != ok {
			t.Errorf("%s: %d %v", step, status, err)
		}
	}
	expect("at first", server, clients, true)
	cert, key := next.Issue(t, "two")
	accesstest.Write(t, files.CertFile, cert)
	expect("a certificate without its key", server, clients, true)
	accesstest.Write(t, files.KeyFile, key)
	expect("certificate and key", next, clients, true)
	expect("the old one", server, clients, false)
	accesstest.Write(t, files.ClientCAFile, others.PEM)
	expect("old clients", next, clients, false)
	expect("new clients", next, others, true)
	accesstest.Write(t, files.ClientCAFile, []byte("no certificate"))
	expect("no authority", next, others, true)
	expect("no authority, old clients", next, clients, false)
	if n := strings.Count(log.String(), "level=ERROR"); n != 2 || strings.Contains(log.String(), "no certificate\n") {
		t.Errorf("%d errors: %s", n, log.String())
	}
	for line := range strings.SplitSeq(string(key), "\n") {
		if len(line) > 20 && !strings.HasPrefix(line, "-----") && strings.Contains(log.String(), line) {
			t.Error("the log holds the key")
		}
	}
}

func TestCertificatesThatCannotBeUsed(t *testing.T) {
	a := accesstest.NewAuthority(t, "server")
	good := pems(t, a, a)
	other := pems(t, a, nil)
	for name, c := range map[string]TLS{
		"no file":      {CertFile: filepath.Join(t.TempDir(), "absent"), KeyFile: good.KeyFile},
		"another key":  {CertFile: good.CertFile, KeyFile: other.KeyFile},
		"no authority": {CertFile: good.CertFile, KeyFile: good.KeyFile, ClientCAFile: good.KeyFile},
		"swapped":      {CertFile: good.KeyFile, KeyFile: good.CertFile},
	} {
		if _, err := NewCertificates(c, discard()); err == nil || strings.Contains(err.Error(), "-----") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A panic is answered, and logged without its text. An answer that had begun is cut, so that half of it is not taken for all.
func TestServerContainsPanics(t *testing.T) {
	var log lockedLog
	addr := serve(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/late" {
			_, _ = io.WriteString(w, "half")
			w.(http.Flusher).Flush()
		}
		panic(errors.New(first))
	})})
	if status, body, err := get("http://"+addr+"/", nil); status != 500 || err != nil || !strings.Contains(body, `"type":"internal"`) || strings.Contains(body, first) {
		t.Errorf("%d %s %v", status, body, err)
	}
	if status, body, err := get("http://"+addr+"/late", nil); status != 200 || err == nil {
		t.Errorf("half an answer looks whole: %d %s %v", status, body, err)
	}
	if !strings.Contains(log.String(), "panic=*errors.errorString") || strings.Contains(log.String(), first) {
		t.Error(log.String())
	}
}

// pipes is a listener without a network, so that time can be a test's own.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	c, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.conns) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "@", Net: "unix"} }

// Clients that send or read too slowly are cut, however long they are willing to stay.
func TestServerCutsSlowClients(t *testing.T) {
	for name, c := range map[string]struct {
		send string
		cut  time.Duration // by then it is
	}{
		"headers": {"GET / HTTP/1.1\r\nHost: x\r\n", headTimeout},
		"body":    {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nslow", bodyTimeout},
		"idle":    {"", headTimeout},
		"reading": {"GET /large HTTP/1.1\r\nHost: x\r\n\r\n", 2 * bodyTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, handler := &pipes{conns: make(chan net.Conn)}, http.NewServeMux()
				handler.Handle("/", echo)
				handler.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
					for range 100 {
						if _, err := w.Write(make([]byte, 1<<20)); err != nil {
							return
						}
					}
				})
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() {
					done <- NewServer(Options{Name: "test", Handler: handler, Log: discard()}).Serve(ctx, l, time.Minute)
				}()
				here, there := net.Pipe()
				l.conns <- there
				began := time.Now()
				if _, err := io.WriteString(here, c.send); err != nil {
					t.Fatal(err)
				}
				time.Sleep(c.cut + 2*time.Second)
				// By now the server has closed its end: what there is to read ends.
				_ = here.SetReadDeadline(time.Now().Add(time.Second))
				if _, err := io.Copy(io.Discard, bufio.NewReader(here)); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				_ = here.Close()
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Serve waits for requests under way, and not for ever.
func TestServerDrains(t *testing.T) {
	for name, patient := range map[string]bool{"in time": true, "too late": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, entered := &pipes{conns: make(chan net.Conn)}, make(chan struct{})
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() {
					done <- NewServer(Options{Name: "test", Log: discard(), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						close(entered)
						select {
						case <-time.After(10 * time.Second):
						case <-r.Context().Done():
						}
						_, _ = io.WriteString(w, "done")
					})}).Serve(ctx, l, map[bool]time.Duration{true: time.Minute, false: time.Second}[patient])
				}()
				here, there := net.Pipe()
				l.conns <- there
				if _, err := io.WriteString(here, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				<-entered
				stop()
				b, _ := io.ReadAll(here)
				if got := strings.HasSuffix(string(b), "done"); got != patient {
					t.Errorf("answer %q", b)
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
				_ = here.Close()
			})
		})
	}
}

func TestServerSaysWhyItEnds(t *testing.T) {
	l := &pipes{conns: make(chan net.Conn)}
	_ = l.Close()
	err := NewServer(Options{Name: "restore", Handler: echo, Log: discard()}).Serve(t.Context(), l, time.Second)
	if !errors.Is(err, net.ErrClosed) || !strings.HasPrefix(err.Error(), "serve restore: ") {
		t.Error(err)
	}
}
