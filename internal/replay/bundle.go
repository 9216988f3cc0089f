package replay

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidwall/gjson"
	"github.com/tiktoken-go/tokenizer"

	"github.com/tidemark-dev/tidemark/pipeline"
)

// bundle writes every body before and after, and turns.jsonl. A nil bundle writes nothing.
type bundle struct {
	dir   string
	turns *os.File
}

func newBundle(root, name string) (*bundle, error) {
	if root == "" {
		return nil, nil
	}
	dir := filepath.Join(root, filepath.Base(name))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make bundle: %w", err)
	}
	f, err := os.Create(filepath.Join(dir, "turns.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("make bundle: %w", err)
	}
	return &bundle{dir: dir, turns: f}, nil
}

func (b *bundle) close() error {
	if b == nil || b.turns == nil {
		return nil
	}
	err := b.turns.Close()
	b.turns = nil
	return err
}

// write keeps one request. A body that was forwarded as it came is written once.
func (b *bundle) write(n int, r *Request, o *pipeline.Outcome) error {
	if b == nil {
		return nil
	}
	t := record(n, r, o)
	t.In = fmt.Sprintf("%04d.in.json.gz", n)
	if err := b.file(t.In, r.Body); err != nil {
		return err
	}
	if o.Body != nil {
		out := fmt.Sprintf("%04d.out.json.gz", n)
		t.Out = &out
		if err := b.file(out, o.Body); err != nil {
			return err
		}
	}
	line, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode turn: %w", err)
	}
	if _, err := b.turns.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write turn: %w", err)
	}
	return nil
}

func (b *bundle) file(name string, body []byte) (err error) {
	f, err := os.Create(filepath.Join(b.dir, name))
	if err != nil {
		return fmt.Errorf("write body: %w", err)
	}
	defer func() {
		if e := f.Close(); err == nil && e != nil {
			err = fmt.Errorf("write body: %w", e)
		}
	}()
	z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err != nil {
		return fmt.Errorf("write body: %w", err)
	}
	if _, err := z.Write(body); err != nil {
		return fmt.Errorf("write body: %w", err)
	}
	return z.Close()
}

// counter counts o200k tokens. A message that was counted before is not counted again: a transcript is sent many times.
type counter struct {
	enc  tokenizer.Codec
	seen map[[32]byte]int
}

func newCounter() *counter {
	enc, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		enc = nil // the vocabulary is embedded: this cannot happen, and then nothing is counted
	}
	return &counter{enc: enc, seen: map[[32]byte]int{}}
}

// body is the number of tokens of a body's JSON, counted member by member and message by message.
func (c *counter) body(body []byte) (n int) {
	gjson.ParseBytes(body).ForEach(func(key, value gjson.Result) bool {
		if key.Str == "messages" && value.IsArray() {
			value.ForEach(func(_, m gjson.Result) bool { n += c.text(m.Raw); return true })
			return true
		}
		n += c.text(value.Raw)
		return true
	})
	return n
}

func (c *counter) text(s string) int {
	key := sha256.Sum256([]byte(s))
	if n, ok := c.seen[key]; ok {
		return n
	}
	n := 0
	if c.enc != nil {
		if k, err := c.enc.Count(s); err == nil {
			n = k
		}
	}
	c.seen[key] = n
	return n
}
