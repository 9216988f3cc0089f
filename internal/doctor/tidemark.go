package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/check"
)

// askTidemark reads tidemark's admin listener.
func (d *doctor) askTidemark(ctx context.Context) error {
	e, err := d.reach(d.Admin, d.Token)
	if err != nil {
		return err
	}
	text, status, err := e.get(ctx, "/readyz", maxAnswer, http.StatusServiceUnavailable)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		d.found(check.Error, "not-ready", "/readyz", "look at tidemark's log: the part that is named says why", "tidemark is not ready: %s", oneLine(text))
	}
	if text, _, err = e.get(ctx, "/config", maxAnswer); err != nil {
		return err
	}
	if d.server, err = settings(text); err != nil {
		return err
	}
	if text, _, err = e.get(ctx, "/metrics", maxAnswer); err != nil {
		return err
	}
	if d.metrics, err = parseSamples(text); err != nil {
		return err
	}
	if len(d.metrics["build_info"]) == 0 {
		return fmt.Errorf("%s is no admin listener of tidemark: its metrics have no tidemark_build_info", d.Admin)
	}
	d.report.Tidemark = d.metrics["build_info"][0].labels["version"]
	return nil
}

// settings reads what /config says: the values in use, by key.
func settings(text []byte) (map[string]any, error) {
	var config struct {
		Settings []struct {
			Key   string `json:"key"`
			Value any    `json:"value"`
		} `json:"settings"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	out := make(map[string]any, len(config.Settings))
	for _, s := range config.Settings {
		out[s.Key] = s.Value
	}
	return out, nil
}

// judged are the keys of the server's config that Envoy's is judged by.
var judged = []string{"deadline", "max_body_bytes", "mode", "off_routes", "default", "pipelines"}

// serverConfig is the part of tidemark's config that Envoy's is judged by, as a config file.
func (d *doctor) serverConfig() (check.Source, error) {
	config := map[string]any{}
	for _, key := range judged {
		if v, ok := d.server[key]; ok {
			config[key] = v
		}
	}
	b, err := json.Marshal(config)
	return check.Source{Name: "/config", Data: b}, err
}

// maxQuoted is how much of a text of others a message holds.
const maxQuoted = 300

// oneLine is a text of others for a message.
func oneLine(text []byte) string {
	s := strings.Join(strings.Fields(strings.ToValidUTF8(string(text), "?")), " ")
	if len(s) > maxQuoted {
		s = strings.ToValidUTF8(s[:maxQuoted], "") + "…"
	}
	return s
}
