package main

import (
	"fmt"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/observe"
	"github.com/tidemark-dev/tidemark/internal/serverconfig"
	"github.com/tidemark-dev/tidemark/state"
	"github.com/tidemark-dev/tidemark/state/badgerdb"
	"github.com/tidemark-dev/tidemark/state/memory"
)

// openStore opens the store that the state key names. A store in memory has a secret of its own and nothing to encrypt.
func openStore(c *serverconfig.Config, m *observe.Metrics) (state.Store, error) {
	limit := int64(c.MaxOriginals)
	if c.State == serverconfig.Memory {
		s := memory.Capped(limit)
		m.Stored(s.Sizes, s.Evicted)
		return m.Store("memory", s), nil
	}
	o := badgerdb.Options{MaxOriginals: limit}
	var err error
	if c.SecretFile != "" {
		if o.Secret, err = access.ReadSecret(c.SecretFile); err != nil {
			return nil, fmt.Errorf("open state: %w", err)
		}
	}
	if encrypted(c) {
		if o.Keys, err = access.ReadKeys(c.KeyFile); err != nil {
			return nil, fmt.Errorf("open state: %w", err)
		}
	}
	s, err := badgerdb.Open(c.State, o)
	if err != nil {
		return nil, fmt.Errorf("open state: %w", err)
	}
	m.Stored(s.Sizes, s.Evicted)
	return m.Store("badger", s), nil
}

// encrypted reports whether tidemark encrypts what it keeps on disk.
func encrypted(c *serverconfig.Config) bool { return c.KeyFile != "" && c.State != serverconfig.Memory }
