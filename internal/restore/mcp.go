package restore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tidemark-dev/tidemark/internal/restore/part"
)

// Limits of MCP.
const (
	// DefaultBytes is how much of a text is given back if nobody says how much: what Codex (10,000 tokens), opencode (50 kB, 2,000
	// lines) and Claude Code (25,000 tokens, 50,000 characters) hand to the model whole.
	DefaultBytes = 32_000
	maxBytes     = 1 << 20   // the most that may be asked for
	maxBody      = 256 << 10 // of a request, in bytes
	maxSpans     = 200       // that one answer lists
)

const instructions = "Parts of this transcript may have been left out to save tokens; a note [tidemark … · id <24 hex>] stands in " +
	"their place. context_restore gives back exactly what a note stands for."

const spansName = "context_spans"

const spansDescription = "Lists what else was left out of this transcript, the latest first: ids, tools, what it was about and how " +
	"large it is, without content. Use it when you look for earlier content and do not know which note stands for it. Give any id " +
	"that you have seen in a note [tidemark … · id <24 hex>]; get content with context_restore."

const spansSchema = `{"type":"object","properties":{"id":{"type":"string","description":"The 24 hex digits behind the word id in any note"}},"required":["id"]}`

type requestKey struct{}

// newMCP makes the handler of /mcp. It keeps nothing between requests.
func (s *Server) newMCP() http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "tidemark", Title: "tidemark", Version: "1"}, &mcp.ServerOptions{
		Instructions: instructions,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	no := false
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &no, DestructiveHint: &no}
	server.AddTool(&mcp.Tool{
		Name: part.Name, Title: "Restore what was left out", Description: part.Description, InputSchema: json.RawMessage(part.Schema), Annotations: reads,
	}, s.tool(s.restoreTool))
	server.AddTool(&mcp.Tool{
		Name: spansName, Title: "List what was left out", Description: spansDescription, InputSchema: json.RawMessage(spansSchema), Annotations: reads,
	}, s.tool(s.spansTool))
	server.AddReceivingMiddleware(onlyTools)
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // guarded has looked
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !allow(w, r, http.MethodPost) {
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			say(w, http.StatusRequestEntityTooLarge, "the request is over the limit of 256 KiB")
			return
		}
		if err != nil || bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) {
			say(w, http.StatusBadRequest, "the request could not be read, or is a batch")
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), requestKey{}, r))
		r.Body = io.NopCloser(bytes.NewReader(body))
		h.ServeHTTP(w, r)
	})
}

// onlyTools refuses what would keep a connection open: there is nothing to listen to.
func onlyTools(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if strings.HasPrefix(method, "subscriptions/") || strings.HasPrefix(method, "resources/") || strings.HasPrefix(method, "logging/") {
			return nil, fmt.Errorf("there is no %s here", method)
		}
		return next(ctx, method, req)
	}
}

// tool makes a tool of a function that answers with text blocks, or fails with words for the model.
func (s *Server) tool(answer func(r *http.Request, input []byte) (texts []string, failure string)) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (result *mcp.CallToolResult, err error) {
		defer func() {
			if v := recover(); v != nil {
				s.logPanic(ctx, v)
				result, err = said(true, "Something went wrong."), nil
			}
		}()
		r, ok := ctx.Value(requestKey{}).(*http.Request)
		if !ok {
			return nil, errors.New("the request is not known")
		}
		texts, failure := answer(r.WithContext(ctx), req.Params.Arguments)
		if failure != "" {
			return said(true, failure), nil
		}
		return said(false, texts...), nil
	}
}

func said(isError bool, texts ...string) *mcp.CallToolResult {
	result := &mcp.CallToolResult{IsError: isError}
	for _, t := range texts {
		result.Content = append(result.Content, &mcp.TextContent{Text: t})
	}
	return result
}

// restoreTool is context_restore: the part, exactly, and a note where there is more.
func (s *Server) restoreTool(r *http.Request, input []byte) (texts []string, failure string) {
	e := Event{Path: MCP, Result: Refused}
	defer func() { s.o.Observer.Restored(e) }()
	ask, err := part.ParseJSON(input)
	if err != nil {
		return nil, sentence(err)
	}
	ask.MaxBytes = min(ask.MaxBytes, maxBytes)
	if ask.MaxBytes == 0 {
		ask.MaxBytes = DefaultBytes
	}
	release, ok := s.look(r.Context())
	if !ok {
		return nil, part.Unavailable
	}
	defer release()
	o, err := s.take(r, ask.ID)
	if err != nil {
		e.Result, _, failure = s.why(r.Context(), ask.ID, err)
		return nil, failure
	}
	piece, err := part.Cut(part.Unwrap(o.Content), ask)
	if err != nil {
		return nil, sentence(err)
	}
	e = Event{Path: MCP, Result: OK, Filter: o.Filter, Bytes: len(piece.Text), Tokens: est(piece.Text, len(piece.Text))}
	texts = []string{strings.Clone(piece.Text)} // the whole need not be kept for it
	if piece.Note != "" {
		texts = append(texts, piece.Note)
	}
	return texts, ""
}

// sentence makes a sentence of an error, for a model.
func sentence(err error) string { return "This could not be done: " + err.Error() + "." }

// oneLine is foreign text that cannot pass for another line of a list: clients name tools as they like.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, s)
}

// spansTool is context_spans: a line for each original.
func (s *Server) spansTool(r *http.Request, input []byte) (texts []string, failure string) {
	ask, err := part.ParseJSON(input)
	if err != nil {
		return nil, sentence(err)
	}
	list, err := s.family(r, ask.ID)
	if err != nil {
		_, _, failure = s.why(r.Context(), ask.ID, err)
		return nil, failure
	}
	var b strings.Builder
	for _, o := range list[:min(len(list), maxSpans)] {
		about := oneLine(cmp.Or(o.About, o.Tool, "earlier messages"))
		fmt.Fprintf(&b, "id %s · %s · %d bytes · %s · %s\n", o.ID, about, o.Size, o.At.UTC().Format(time.RFC3339), o.Fate)
	}
	if more := len(list) - maxSpans; more > 0 {
		fmt.Fprintf(&b, "(%d older ones are not listed.)\n", more)
	}
	return []string{b.String()}, ""
}
