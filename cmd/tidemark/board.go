package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/board"
	"github.com/tidemark-dev/tidemark/internal/restore/part"
	"github.com/tidemark-dev/tidemark/state"
)

// newBoard makes what the page shows. finished is told of conversations that are over; nil: nobody is.
func (s *server) newBoard(finished func(route string, netOfBaseline float64)) *board.Board {
	o := board.Options{Finished: finished}
	if s.config.Admin.Content {
		o.Content = s.shown
	}
	return board.New(o)
}

// shown gives an original to an operator who looks at the page. The log says that somebody did: it is content.
func (s *server) shown(ctx context.Context, id string) (string, error) {
	if !part.ValidID(id) {
		return "", board.ErrMissing
	}
	o, err := s.store.Original(ctx, id)
	switch {
	case errors.Is(err, state.ErrNotFound):
		return "", board.ErrMissing
	case err != nil:
		return "", fmt.Errorf("read an original: %w", err)
	case o.Fate == state.Sealed:
		return "", board.ErrSealed
	case o.Fate == state.Withdrawn:
		return "", board.ErrWithdrawn
	}
	s.log.InfoContext(ctx, "original shown on the page", "id", id[:8])
	return part.Text(o.Content), nil
}

// withPage adds the page and its API to what operators may ask.
func (s *server) withPage(rest http.Handler) (http.Handler, error) {
	page, err := board.Page()
	if err != nil {
		return nil, err
	}
	api := s.board.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case board.IsPage(r.URL.Path):
			page.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, board.Prefix):
			api.ServeHTTP(w, r)
		default:
			rest.ServeHTTP(w, r)
		}
	}), nil
}
