package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/board"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 8 << 20

// maxError bounds what is shown of an error that a server answers with, in bytes.
const maxError = 300

// Client asks one server.
type Client struct {
	base, token string
	http        http.Client
}

// NewClient returns a client of an admin listener: http://HOST:PORT, https://HOST:PORT or unix:PATH. An empty token is not sent.
func NewClient(admin, token string) (*Client, error) {
	c := &Client{base: strings.TrimSuffix(admin, "/"), token: token}
	tr := &http.Transport{Proxy: http.ProxyFromEnvironment}
	c.http = http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the token is for this host alone
	}}
	if path, ok := strings.CutPrefix(admin, "unix:"); ok {
		c.base = "http://localhost"
		tr.Proxy = nil
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}
	} else if u, err := url.Parse(admin); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not an address: http://HOST:PORT, https://HOST:PORT or unix:PATH", admin)
	}
	return c, nil
}

// Sessions asks for the first sessions in an order: worst, recent, cost or losses.
func (c *Client) Sessions(ctx context.Context, order string, limit int) (*board.Sessions, error) {
	address := fmt.Sprintf("%s%ssessions?sort=%s&limit=%d", c.base, board.Prefix, url.QueryEscape(order), limit)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask the server: %w", err)
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(r)
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err // the address is known
		}
		return nil, fmt.Errorf("ask the server: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return nil, errors.New("the server asks for a token: --token-file")
	case http.StatusNotFound:
		return nil, errors.New("the server shows no sessions here: its admin listener must be local, or have token_file or mutual TLS")
	default:
		return nil, fmt.Errorf("the server answered %d: %s", res.StatusCode, printable(string(body[:min(len(body), maxError)])))
	}
	page := &board.Sessions{}
	if err := json.Unmarshal(body, page); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return page, nil
}
