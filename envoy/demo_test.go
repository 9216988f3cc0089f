package envoy_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/envoy/envoytest"
)

// TestDemo runs what make demo runs. The demo fails if anything that it shows does not hold.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("the demo plays a session four ways, which takes seconds")
	}
	cmd := exec.CommandContext(t.Context(), envoytest.Program(t), "demo")
	cmd.Env = append(os.Environ(), "ENVOY_BIN="+envoytest.Binary(t), "TIDEMARK_DEADLINE=4s") // a busy machine must not decide
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if text := string(out); strings.Count(text, "✓ ") < 8 || !strings.Contains(text, "tidemark broke the cached prefix 0 times") {
		t.Errorf("the demo claims little:\n%s", text)
	}
}
