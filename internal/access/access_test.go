package access

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/access/accesstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Tokens and other secrets of tests. Whatever is logged or said must hold none of them.
const (
	first  = "0123456789abcdef0123456789abcdef"
	second = "fedcba9876543210fedcba9876543210"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestParseTokens(t *testing.T) {
	for content, want := range map[string]string{
		first:                                 "",
		first + "\n" + second + "\n":          "",
		"# old\r\n" + first + "\r\n\r\n":      "",
		"":                                    "the file holds no token",
		"\n# nothing\n":                       "the file holds no token",
		first + "\nshort-secret":              "line 2: a token has at least 16 characters",
		"\n\nsecret with spaces in the midst": "line 3: a token is printable ASCII without spaces",
		"sécret-with-an-accent":               "line 1: a token is printable ASCII without spaces",
	} {
		_, err := parseTokens([]byte(content))
		if text := message(err); text != want {
			t.Errorf("%q: %q, want %q", content, text, want)
		}
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func tokens(t *testing.T, content string) (*Tokens, string) {
	t.Helper()
	path := accesstest.Write(t, filepath.Join(t.TempDir(), "token"), []byte(content))
	k, err := NewTokens(path, discard())
	if err != nil {
		t.Fatal(err)
	}
	return k, path
}

func TestBear(t *testing.T) {
	k, _ := tokens(t, first+"\n"+second)
	for _, c := range []struct {
		authorization, token string
		ok                   bool
		left                 string // of Authorization
	}{
		{"Bearer " + first, "", true, ""},
		{"bearer  " + second + " ", "", true, ""},
		{"", first, true, ""},
		{"Bearer sk-of-somebody", first, true, "Bearer sk-of-somebody"},
		{"Bearer " + first, "wrong", false, "Bearer " + first},
		{"", "", false, ""},
		{"Bearer", "", false, ""},
		{"Bearer ", "", false, ""},
		{"Basic " + first, "", false, ""},
		{first, "", false, ""},
		{"Bearer " + first[1:], "", false, ""},
		{"Bearer " + first + "0", "", false, ""},
		{"Bearer " + strings.ToUpper(first), "", false, ""},
		{"Bearer " + first + "," + second, "", false, ""},
	} {
		h := http.Header{}
		if c.authorization != "" {
			h.Set("Authorization", c.authorization)
		}
		if c.token != "" {
			h.Set(TokenHeader, c.token)
		}
		if ok := k.bear(h); ok != c.ok || h.Get("Authorization") != c.left || h.Get(TokenHeader) != "" {
			t.Errorf("%+v: %v, left %v", c, ok, h)
		}
	}
}

// A second token counts from the moment at which the file has it, and the first until it has not. A file that cannot be used
// changes nothing, is logged once, and quoted nowhere.
func TestTokensRotate(t *testing.T) {
	var log bytes.Buffer
	path := accesstest.Write(t, filepath.Join(t.TempDir(), "token"), []byte(first))
	k, err := NewTokens(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	expect := func(step string, one, two bool) {
		t.Helper()
		if k.has(first) != one || k.has(second) != two {
			t.Errorf("%s: %v, %v", step, k.has(first), k.has(second))
		}
	}
	expect("at first", true, false)
	accesstest.Write(t, path, []byte(first+"\n"+second))
	expect("both", true, true)
	accesstest.Write(t, path, []byte(second))
	expect("the second alone", false, true)
	accesstest.Write(t, path, []byte("short-secret"))
	expect("unusable", false, true)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect("gone", false, true)
	accesstest.Write(t, path, []byte(first))
	expect("back", true, false)
	if n := strings.Count(log.String(), "level=ERROR"); n != 2 {
		t.Errorf("%d errors: %s", n, &log)
	}
	for _, secret := range []string{first, second, "short-secret"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log holds %s: %s", secret, &log)
		}
	}
}

func TestReadSecret(t *testing.T) {
	dir := t.TempDir()
	read := func(content string) ([]byte, error) {
		return ReadSecret(accesstest.Write(t, filepath.Join(dir, "secret"), []byte(content)))
	}
	a, err := read(first)
	if err != nil || len(a) != keySize || bytes.Contains(a, []byte(first)) {
		t.Fatalf("%x, %v", a, err)
	}
	if b, err := read(first + "\r\n"); err != nil || !bytes.Equal(a, b) {
		t.Errorf("a newline makes another secret: %x, %v", b, err)
	}
	if b, err := read(second); err != nil || bytes.Equal(a, b) {
		t.Errorf("another text is the same secret: %v", err)
	}
	for _, content := range []string{"", first[1:], first[1:] + "\n\n\n", strings.Repeat("x", maxFile+1)} {
		if _, err := read(content); err == nil || strings.Contains(err.Error(), first[1:]) {
			t.Errorf("%.40q: %v", content, err)
		}
	}
	if _, err := ReadSecret(filepath.Join(dir, "absent")); err == nil {
		t.Error("a file that is not there is a secret")
	}
}

func TestParseKeys(t *testing.T) {
	key := bytes.Repeat([]byte{0xfb}, keySize)
	in := func(e *base64.Encoding) string { return e.EncodeToString(key) }
	for _, text := range []string{hex.EncodeToString(key), strings.ToUpper(hex.EncodeToString(key)), in(base64.StdEncoding), in(base64.RawStdEncoding), in(base64.URLEncoding), in(base64.RawURLEncoding)} {
		keys, err := parseKeys([]byte("# one\n" + text + "\n" + first + first + "\n"))
		if err != nil || len(keys) != 2 || !bytes.Equal(keys[0], key) {
			t.Errorf("%s: %x, %v", text, keys, err)
		}
	}
	for content, want := range map[string]string{
		"":                           "the file holds no key",
		first:                        "line 1 is not 32 bytes in hex or base64",
		first + first + "\n" + first: "line 2 is not 32 bytes in hex or base64",
		first + first + "0":          "line 1 is not 32 bytes in hex or base64",
		first + first + "\n" + first + strings.ToUpper(first): "line 2 is the key of line 1",
		strings.Repeat("!", 43):                               "line 1 is not 32 bytes in hex or base64",
	} {
		if _, err := parseKeys([]byte(content)); message(err) != want {
			t.Errorf("%q: %q, want %q", content, message(err), want)
		}
	}
}

func TestLocal(t *testing.T) {
	for listen, want := range map[string]bool{
		"127.0.0.1:1": true, "127.8.0.1:1": true, "[::1]:1": true, "localhost:1": true, "unix:/x": true, "[::ffff:127.0.0.1]:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "tidemark:1": false, "localhost.example.com:1": false, "": false,
	} {
		if Local(listen) != want {
			t.Errorf("%s: %v", listen, !want)
		}
	}
}

// wait is how long a request that is admitted has to wait.
func wait(l *limits, r *http.Request, now time.Time) time.Duration {
	if d := l.own(r, now); d > 0 {
		return d
	}
	return l.shared(now)
}

// In any time a client gets no more than its burst and its rate, all clients no more than theirs, and what is remembered of
// clients is bounded.
func TestRates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		each := rapid.Float64Range(0.1, 50).Draw(t, "rate")
		l := newLimits(each)
		now := time.Unix(1e9, 0)
		start, passed, all := now, map[string]float64{}, 0.0
		clients := rapid.SampledFrom([]string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.2:2", "[2001:db8::1]:1", "[2001:db8::2]:1", "@"})
		for range rapid.IntRange(1, 300).Draw(t, "requests") {
			now = now.Add(time.Duration(rapid.IntRange(0, int(time.Second)).Draw(t, "pause")))
			r := &http.Request{RemoteAddr: clients.Draw(t, "client")}
			d := wait(l, r, now)
			if d < 0 {
				t.Fatalf("wait %v", d)
			}
			if d == 0 {
				passed[client(r).String()]++
				all++
			} else if wait(l, r, now.Add(d-time.Microsecond)) == 0 || wait(l, r, now.Add(d+time.Microsecond)) != 0 {
				t.Fatalf("%v was not the time to wait", d)
			} else {
				now = now.Add(d + time.Microsecond)
				passed[client(r).String()]++
				all++
			}
		}
		bound := func(rate float64) float64 {
			return max(1, rate*burst+1) + rate*now.Sub(start).Seconds() + 1e-6
		}
		for who, n := range passed {
			if n > bound(each) {
				t.Errorf("%s: %v requests at %v in %v", who, n, each, now.Sub(start))
			}
		}
		if all > bound(each*allClients) {
			t.Errorf("%v requests of all at %v in %v", all, each, now.Sub(start))
		}
		if len(passed) > 4 {
			t.Errorf("clients %v", passed)
		}
	})
	l := newLimits(1)
	for i := range 3 * maxClients {
		wait(l, &http.Request{RemoteAddr: fmt.Sprintf("10.0.%d.%d:1", i>>8, i&255)}, time.Unix(1e9, 0))
	}
	if n := l.clients.Len(); n != maxClients {
		t.Errorf("%d clients are remembered", n)
	}
}

// FuzzTokens: what a file of tokens lets in is what stands on its lines, and an error quotes nothing.
func FuzzTokens(f *testing.F) {
	f.Add([]byte(first+"\n"+second), first)
	f.Add([]byte("# x\r\n "+first+" \r\n"), " "+first)
	f.Add([]byte("short\n"), "short")
	f.Fuzz(func(t *testing.T, content []byte, token string) {
		known, err := parseTokens(content)
		if err != nil {
			if len(err.Error()) > 80 {
				t.Errorf("a long error: %v", err)
			}
			return
		}
		k := &Tokens{&files[[]digest]{value: known}} // no file: the value stays
		stands := false
		for line := range strings.SplitSeq(string(content), "\n") {
			stands = stands || strings.TrimSpace(line) == token && !strings.HasPrefix(token, "#") && token != ""
		}
		if got := k.has(token); got != stands {
			t.Errorf("%q: %v in %q", token, got, content)
		}
	})
}

// FuzzAuthorization: a request gets in by the very token after the word bearer, or in the header of its own, and by nothing else.
func FuzzAuthorization(f *testing.F) {
	for _, s := range []string{"Bearer " + first, "bearer\t" + first, "Basic " + first, first, "Bearer " + first + " x", "BEARER   " + first} {
		f.Add(s, "", false)
		f.Add("", s, true)
	}
	known, err := parseTokens([]byte(first))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, authorization, token string, has bool) {
		k := &Tokens{&files[[]digest]{value: known}}
		h := http.Header{"Authorization": {authorization}}
		want := len(authorization) > 7 && strings.EqualFold(authorization[:7], "bearer ") && strings.TrimSpace(authorization[7:]) == first
		if has {
			h[TokenHeader], want = []string{token}, token == first
		}
		if got := k.bear(h); got != want {
			t.Errorf("%q, %q: %v", authorization, token, got)
		}
	})
}

// FuzzKeys: keys are 32 bytes, distinct, and written again they are read as the same.
func FuzzKeys(f *testing.F) {
	f.Add([]byte(first + first))
	f.Add([]byte("# c\n" + base64.StdEncoding.EncodeToString([]byte(first)) + "\n" + second + second))
	f.Fuzz(func(t *testing.T, content []byte) {
		keys, err := parseKeys(content)
		if err != nil {
			if len(err.Error()) > 80 {
				t.Errorf("a long error: %v", err)
			}
			return
		}
		var hexed, based []string
		for _, k := range keys {
			if len(k) != keySize {
				t.Fatalf("a key of %d bytes", len(k))
			}
			hexed, based = append(hexed, hex.EncodeToString(k)), append(based, base64.StdEncoding.EncodeToString(k))
		}
		for _, lines := range [][]string{hexed, based} {
			again, err := parseKeys([]byte(strings.Join(lines, "\n")))
			if err != nil || len(again) != len(keys) {
				t.Fatalf("%d keys, then %d: %v", len(keys), len(again), err)
			}
			for i := range keys {
				if !bytes.Equal(keys[i], again[i]) {
					t.Errorf("key %d is another one", i)
				}
			}
		}
	})
}

// FuzzHost: a host that is taken for this machine's is a loopback address or localhost.
func FuzzHost(f *testing.F) {
	for _, h := range []string{"localhost", "localhost:1", "127.0.0.1:9004", "[::1]:9004", "::1", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "LOCALHOST", "::01", "[::ffff:127.1.2.3]"} {
		f.Add(h)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if foreign(host) {
			return
		}
		low := strings.ToLower(host)
		bare, _, err := net.SplitHostPort(low)
		if err != nil {
			bare = low
		}
		bare, _, _ = strings.Cut(strings.Trim(bare, "[]"), "%")
		if ip := net.ParseIP(bare); !ip.IsLoopback() && bare != "localhost" && !strings.HasSuffix(bare, ".localhost") {
			t.Errorf("%q is this machine", host)
		}
		if strings.HasSuffix(low, ".example") {
			t.Errorf("%q is this machine", host)
		}
	})
}

// ask sends a request past the network.
func ask(s http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}
