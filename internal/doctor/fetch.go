package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// Bounds of answers, in bytes. A config dump of a big mesh has tens of MB.
const (
	maxDump   = 64 << 20
	maxAnswer = 16 << 20
)

// errTooBig says that an answer is larger than what is read of it.
var errTooBig = errors.New("the answer is too big")

// endpoint is an admin interface.
type endpoint struct {
	base   string
	client *http.Client
	token  string
}

// reach prepares to ask an admin interface at an address as [Options] has it.
func (d *doctor) reach(addr, token string) (*endpoint, error) {
	tr := &http.Transport{DisableKeepAlives: true}
	e := &endpoint{base: strings.TrimSuffix(addr, "/"), token: token, client: &http.Client{
		Transport: tr, Timeout: d.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a token goes nowhere else
	}}
	path, socket := strings.CutPrefix(addr, "unix:")
	switch {
	case socket:
		e.base = "http://localhost"
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "unix", path)
		}
	case !strings.HasPrefix(addr, "http://") && !strings.HasPrefix(addr, "https://"):
		return nil, fmt.Errorf("address %q starts with none of http://, https:// and unix", addr)
	}
	return e, nil
}

// get returns the answer to a path. An answer that is not 200 is an error unless more of them are accepted.
func (e *endpoint) get(ctx context.Context, path string, limit int64, accepted ...int) (body []byte, status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base+path, http.NoBody)
	if err != nil {
		return nil, 0, err
	}
	if e.token != "" {
		r.Header.Set("Authorization", "Bearer "+e.token)
	}
	res, err := e.client.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(io.LimitReader(res.Body, limit+1))
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("read %s: %w", path, err)
	case int64(len(body)) > limit:
		return nil, 0, fmt.Errorf("read %s: %w: more than %d bytes", path, errTooBig, limit)
	case res.StatusCode == http.StatusOK:
		return body, res.StatusCode, nil
	}
	for _, s := range accepted {
		if res.StatusCode == s {
			return body, s, nil
		}
	}
	return nil, 0, fmt.Errorf("read %s: status %d", path, res.StatusCode)
}
