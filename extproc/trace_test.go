package extproc

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/metadata"
)

const (
	traceOfEnvoy  = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	traceOfClient = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
)

func TestTraceOf(t *testing.T) {
	for name, q := range map[string]struct {
		metadata []string
		header   []string
		want     string
	}{
		"none":                    {},
		"Envoy's":                 {[]string{traceOfEnvoy}, []string{traceOfClient}, traceOfEnvoy},
		"the client's":            {nil, []string{traceOfClient}, traceOfClient},
		"Envoy's is none":         {[]string{"00-0-0-00"}, []string{traceOfClient}, traceOfClient},
		"none is valid":           {nil, []string{"00-00000000000000000000000000000000-00f067aa0ba902b7-00"}, ""},
		"two of the client's":     {nil, []string{traceOfClient, traceOfEnvoy}, ""},
		"a later version":         {nil, []string{"cc" + traceOfClient[2:] + "-what-comes-then"}, traceOfClient},
		"a later version's flags": {nil, []string{"cc" + traceOfClient[2:53] + "ff"}, traceOfClient[:53] + "03"},
	} {
		h := &corev3.HeaderMap{}
		for _, v := range q.header {
			h.Headers = append(h.Headers, &corev3.HeaderValue{Key: traceHeader, RawValue: []byte(v)})
		}
		ctx := metadata.NewIncomingContext(t.Context(), metadata.MD{traceHeader: q.metadata})
		if got := traceOf(ctx, &Head{Headers: Headers{h}}); got != q.want {
			t.Errorf("%s: %q, want %q", name, got, q.want)
		}
	}
}

// FuzzTraceOf: whatever a header holds, what goes on is a traceparent of version 00 or nothing.
func FuzzTraceOf(f *testing.F) {
	for _, seed := range []string{"", traceOfEnvoy, traceOfClient, "ff" + traceOfClient[2:], "cc" + traceOfClient[2:] + "-x", "\x00", traceOfClient + "," + traceOfEnvoy} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		h := &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: traceHeader, RawValue: []byte(value)}}}
		got := traceOf(t.Context(), &Head{Headers: Headers{h}})
		if got == "" {
			return
		}
		if len(got) != len(traceOfEnvoy) || got[:3] != "00-" || got[35] != '-' || got[52] != '-' {
			t.Errorf("%q became %q", value, got)
		}
		if again := traceOf(metadata.NewIncomingContext(t.Context(), metadata.Pairs(traceHeader, got)), &Head{}); again != got {
			t.Errorf("%q became %q, which became %q", value, got, again)
		}
	})
}
