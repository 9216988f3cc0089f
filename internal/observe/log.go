package observe

import (
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"
)

// maxLogged is the longest string that a log line holds; config errors, the longest lines, fit.
const maxLogged = 1024

// Formats of log lines.
const (
	LogText = "text"
	LogJSON = "json"
)

// NewLogger returns a logger that cannot log content: bytes are written as their number, strings are cut at 1 kB.
// Any format but LogJSON is text.
func NewLogger(w io.Writer, level slog.Leveler, format string) *slog.Logger {
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: redact}
	if format == LogJSON {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

func redact(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindString {
		a.Value = slog.StringValue(short(a.Value.String()))
	}
	if a.Value.Kind() != slog.KindAny {
		return a
	}
	v := a.Value.Any()
	if err, ok := v.(error); ok {
		a.Value = slog.StringValue(short(err.Error()))
	} else if t := reflect.TypeOf(v); t != nil && t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
		a.Value = slog.StringValue(fmt.Sprintf("[%d bytes]", reflect.ValueOf(v).Len()))
	}
	return a
}

func short(s string) string {
	if len(s) <= maxLogged {
		return s
	}
	return strings.ToValidUTF8(s[:maxLogged], "") + "…"
}
