package replay

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tidemark-dev/tidemark/pipeline"
	"github.com/tidemark-dev/tidemark/pipeline/transcript"
)

// turn is what one request did, as an independent judge reads it.
type turn struct {
	N       int     `json:"n"`
	At      string  `json:"at"`
	Format  string  `json:"format"`
	Lineage string  `json:"lineage"`
	In      string  `json:"in"`
	Out     *string `json:"out"`
	Move    *move   `json:"move"`
	Events  []event `json:"events"`
}

type move struct {
	FromMessage int32  `json:"from_message"`
	Reason      string `json:"reason"`
}

type event struct {
	Event   string `json:"event"`
	Filter  string `json:"filter"`
	Verdict string `json:"verdict,omitempty"`
	Tool    string `json:"tool,omitempty"`
	ID      string `json:"id,omitempty"`
	Message int32  `json:"message"`
	Tokens  int    `json:"tokens"`
}

// bundle writes every body before and after, and turns.jsonl, into a folder of its own. A nil bundle writes nothing.
type bundle struct {
	dir   string
	turns *os.File
}

func newBundle(root, name string) (*bundle, error) {
	if root == "" {
		return nil, nil
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, fmt.Errorf("make bundle: %w", err)
	}
	dir := filepath.Join(root, folder(name))
	err := os.Mkdir(dir, 0o755)
	for n := 2; errors.Is(err, fs.ErrExist); n++ { // of another session of that name, or of an earlier run
		dir = filepath.Join(root, fmt.Sprintf("%s-%d", folder(name), n))
		err = os.Mkdir(dir, 0o755)
	}
	if err != nil {
		return nil, fmt.Errorf("make bundle: %w", err)
	}
	f, err := os.Create(filepath.Join(dir, "turns.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("make bundle: %w", err)
	}
	return &bundle{dir: dir, turns: f}, nil
}

// longestName leaves room for a number below what file systems take.
const longestName = 200

// folder is a name that a recording or a policy gives itself, or a name made of it if that one would lead elsewhere.
func folder(name string) string {
	if filepath.IsLocal(name) && name == filepath.Base(name) && name != "." && !strings.ContainsRune(name, 0) && len(name) <= longestName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "session-" + hex.EncodeToString(sum[:6])
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
func (b *bundle) write(n int, r *Request, body []byte, o *pipeline.Outcome) error {
	if b == nil {
		return nil
	}
	t := record(n, r, o)
	t.onTheWire(body, o.Format)
	t.In = fmt.Sprintf("%04d.in.json.gz", n)
	if err := b.file(t.In, body); err != nil {
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

// onTheWire makes numbers of messages what a judge counts that knows no more than the list in the body: in OpenAI's formats a
// message may be several of its elements, and those that are the system prompt are none.
func (t *turn) onTheWire(body []byte, format transcript.Format) {
	if !openAI(format) || t.Move == nil && len(t.Events) == 0 {
		return
	}
	ix, err := transcript.Parse(body, format)
	if err != nil {
		return
	}
	defer ix.Release()
	elements := gjson.GetBytes(body, listOf(format)).Array()
	place := func(message int32) int32 {
		if message < 0 || int(message) >= len(ix.Messages) {
			return message
		}
		at := int(ix.Messages[message].Raw.Lo)
		n, _ := slices.BinarySearchFunc(elements, at, func(e gjson.Result, at int) int { return e.Index - at })
		return int32(n)
	}
	if t.Move != nil {
		t.Move.FromMessage = place(t.Move.FromMessage)
	}
	for i := range t.Events {
		t.Events[i].Message = place(t.Events[i].Message)
	}
}

// record is the judge's line of one request.
func record(n int, r *Request, o *pipeline.Outcome) *turn {
	t := &turn{N: n, At: r.At.UTC().Format(time.RFC3339Nano), Format: o.Format.String(), Lineage: r.Lineage, Events: []event{}}
	if o.Move != nil {
		t.Move = &move{FromMessage: o.Move.From, Reason: o.Move.Kind}
	}
	for _, d := range o.New {
		e := event{Event: "decision", Filter: d.Filter, Verdict: d.Verdict, Tool: d.Tool, ID: d.ID, Message: d.Msg, Tokens: d.Tokens - d.MarkerTokens}
		if d.Hold {
			e.Event, e.Tokens = "hold", 0
		}
		t.Events = append(t.Events, e)
	}
	return t
}
