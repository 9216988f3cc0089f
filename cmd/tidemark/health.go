package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/serverconfig"
)

type healthCommand struct {
	configFlags

	Timeout time.Duration `help:"How long to wait for the answer." default:"1s"`
}

// maxAnswer is how much of an answer is read.
const maxAnswer = 4096

// Run exits with 0 if the server is ready. Else the error says which part is not.
func (c *healthCommand) Run() error {
	l, err := serverconfig.Load(c.sources())
	if err != nil {
		return &exitError{exitUsage, err}
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	return ready(ctx, &l.Admin)
}

// ready asks a server's admin endpoint. An address without a host is one of this machine, and its certificate is the one in the
// file.
func ready(ctx context.Context, admin *serverconfig.Admin) error {
	tr := &http.Transport{DisableKeepAlives: true}
	url, addr := "http://", admin.Listen
	if admin.TLS.On() {
		url = "https://"
		c, err := admin.TLS.Self()
		if err != nil {
			return fmt.Errorf("ask %s: %w", addr, err)
		}
		tr.TLSClientConfig = c
	}
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		url += "localhost"
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}
	} else {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return fmt.Errorf("ask %s: %w", addr, err)
		}
		if host == "" || net.ParseIP(host).IsUnspecified() {
			host = "localhost"
		}
		url += net.JoinHostPort(host, port)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", addr, err)
	}
	answer, err := (&http.Client{Transport: tr}).Do(r)
	if err != nil {
		return fmt.Errorf("ask %s: %w", addr, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("ask %s: %w", addr, err)
	}
	if answer.StatusCode != http.StatusOK {
		return errors.New("not ready: " + strings.TrimSpace(string(text)))
	}
	return nil
}
