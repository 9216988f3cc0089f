// Package eventtest helps tests that make or read events: [Check] holds events against the published JSON Schema, [Scene] is a
// morning's work as events, and [Drawn] draws events with anything in them.
package eventtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tidemark-dev/tidemark/internal/event"
)

// SchemaFile is where the schema lies, from the root of the module.
const SchemaFile = "docs/events.schema.json"

// Root is the root of the module that the test belongs to.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find module: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("find module: no go.mod above the working directory")
		}
		dir = up
	}
}

var schema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(root, SchemaFile))
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(SchemaFile, doc); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	return c.Compile(SchemaFile)
})

// Validate holds one line against the published schema.
func Validate(line []byte) error {
	s, err := schema()
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
	if err != nil {
		return fmt.Errorf("read line: %w", err)
	}
	return s.Validate(v)
}

// Check reports events that the published schema does not describe.
func Check(tb testing.TB, events ...event.Event) {
	tb.Helper()
	for i, line := range bytes.SplitAfter(Lines(tb, events...), []byte{'\n'}) {
		if len(line) == 0 {
			continue
		}
		if err := Validate(line); err != nil {
			tb.Errorf("event %d is not as %s says: %v\n%s", i, SchemaFile, err, strings.TrimSpace(string(line)))
		}
	}
}

// Lines are events as a file holds them.
func Lines(tb testing.TB, events ...event.Event) []byte {
	tb.Helper()
	var b bytes.Buffer
	for _, e := range events {
		if err := json.NewEncoder(&b).Encode(e); err != nil {
			tb.Fatal(err)
		}
	}
	return b.Bytes()
}
