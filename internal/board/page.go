package board

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"
)

// PagePrefix is where the page is. Its files hold no data and may be had without a credential.
const PagePrefix = "/ui/"

//go:embed web
var web embed.FS

// policy lets the page load its own files and ask its own host, and nothing else: no inline script or style, no frames, and no
// string becomes markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// types of the page's files. The system's table of types may say anything.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// asset is one file of the page.
type asset struct {
	body      []byte
	kind, tag string
}

// Page returns what serves the page under [PagePrefix], and sends / there.
func Page() (http.Handler, error) {
	entries, err := web.ReadDir("web")
	if err != nil {
		return nil, fmt.Errorf("read the page: %w", err)
	}
	assets := map[string]asset{}
	for _, e := range entries {
		body, err := web.ReadFile("web/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("read the page: %w", err)
		}
		sum := sha256.Sum256(body)
		assets[e.Name()] = asset{body, types[path.Ext(e.Name())], `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		name, below := strings.CutPrefix(r.URL.Path, PagePrefix)
		if !below {
			http.Redirect(w, r, PagePrefix, http.StatusFound)
			return
		}
		if name == "" {
			name = "index.html"
		}
		a, ok := assets[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h.Set("Content-Type", a.kind)
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", a.tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.body))
	}), nil
}

// IsPage reports whether a path is one that [Page] answers.
func IsPage(path string) bool {
	return path == "/" || path == "/ui" || strings.HasPrefix(path, PagePrefix)
}
