// Package ask asks admin listeners, tidemark's and Envoy's. A token goes to the host that it is for and nowhere else, and an answer
// is read no further than it may be.
package ask

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ErrTooBig says that an answer is larger than what is read of it.
var ErrTooBig = errors.New("the answer is too big")

// Endpoint is an admin listener.
type Endpoint struct {
	base, token string
	client      http.Client
}

// New returns the listener at an address: http://HOST:PORT, https://HOST:PORT or unix:PATH. An empty token is not sent. A timeout
// of 0 is none.
func New(addr, token string, timeout time.Duration) (*Endpoint, error) {
	tr := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	e := &Endpoint{base: strings.TrimSuffix(addr, "/"), token: token, client: http.Client{
		Transport: tr, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		e.base, tr.Proxy = "http://localhost", nil
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}
	} else if u, err := url.Parse(addr); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not an address: http://HOST:PORT, https://HOST:PORT or unix:PATH", addr)
	}
	return e, nil
}

// Get returns the answer to a path, of at most limit bytes: else the error is [ErrTooBig].
func (e *Endpoint) Get(ctx context.Context, path string, limit int64) (body []byte, status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base+path, http.NoBody)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", path, err)
	}
	if e.token != "" {
		r.Header.Set("Authorization", "Bearer "+e.token)
	}
	res, err := e.client.Do(r)
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err // the address is known
		}
		return nil, 0, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(io.LimitReader(res.Body, limit+1))
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", path, err)
	}
	if int64(len(body)) > limit {
		return nil, 0, fmt.Errorf("read %s: %w: more than %d bytes", path, ErrTooBig, limit)
	}
	return body, res.StatusCode, nil
}
