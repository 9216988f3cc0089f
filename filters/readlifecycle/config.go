package readlifecycle

import "github.com/tidemark-dev/tidemark/filters"

// Config are the filter's keys.
type Config struct {
	filters.Common `config:",squash"`
	Stale          bool `config:"stale" doc:"replace reads of files that were modified later"`
	Superseded     bool `config:"superseded" doc:"replace reads that were made again later"`
	BashEdits      bool `config:"bash_edits" doc:"count >, >>, tee, sed -i, patch and truncate in shell commands as edits"`
	BashReads      bool `config:"bash_reads" doc:"count cat, sed -n, head, tail and nl of one file in shell commands as reads"`
	StaleAtDepth   bool `config:"stale_at_depth" doc:"let stale reads take part in warm moves, where the loss of cache is priced"`
	ColdCache      bool `config:"cold_cache" doc:"take part in cold moves, where nothing cached is lost"`
}

// Default is the config of a route that sets no key.
func Default() Config {
	return Config{
		Common:     filters.Common{Enabled: true, MinTokens: 100, MarkerMode: filters.Full},
		Stale:      true,
		Superseded: true,
		BashReads:  true,
		ColdCache:  true,
	}
}

// Validate checks the values. The error names the key.
func (c *Config) Validate() error { return c.Common.Validate() }
