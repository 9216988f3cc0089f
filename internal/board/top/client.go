package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/tidemark-dev/tidemark/internal/ask"
	"github.com/tidemark-dev/tidemark/internal/board"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 8 << 20

// maxError bounds what is shown of an error that a server answers with, in bytes.
const maxError = 300

// Client asks one server.
type Client struct{ server *ask.Endpoint }

// NewClient returns a client of an admin listener: http://HOST:PORT, https://HOST:PORT or unix:PATH. An empty token is not sent.
func NewClient(admin, token string) (*Client, error) {
	e, err := ask.New(admin, token, 0)
	return &Client{e}, err
}

// Sessions asks for the first sessions in an order: worst, recent, cost or losses.
func (c *Client) Sessions(ctx context.Context, order string, limit int) (*board.Sessions, error) {
	body, status, err := c.server.Get(ctx, fmt.Sprintf("%ssessions?sort=%s&limit=%d", board.Prefix, url.QueryEscape(order), limit), maxAnswer)
	if err != nil {
		return nil, fmt.Errorf("ask the server: %w", err)
	}
	switch status {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return nil, errors.New("the server asks for a token: --token-file")
	case http.StatusNotFound:
		return nil, errors.New("the server shows no sessions here: its admin listener must be local, or have token_file or mutual TLS")
	default:
		return nil, fmt.Errorf("the server answered %d: %s", status, printable(string(body[:min(len(body), maxError)])))
	}
	page := &board.Sessions{}
	if err := json.Unmarshal(body, page); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return page, nil
}
