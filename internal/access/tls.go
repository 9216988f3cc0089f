package access

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
)

// TLS are the keys of a listener's TLS.
type TLS struct {
	CertFile     string `config:"cert_file" doc:"certificate chain, PEM; empty: no TLS. It is read again when the file changes"`
	KeyFile      string `config:"key_file" doc:"its private key, PEM"`
	ClientCAFile string `config:"client_ca_file" doc:"authorities of clients, PEM; with them a client must show a certificate of one of them (mutual TLS). Any certificate of theirs will do, so let them be authorities of their own"`
}

// On reports whether the listener speaks TLS.
func (t *TLS) On() bool { return t.CertFile != "" }

// Mutual reports whether clients must show a certificate.
func (t *TLS) Mutual() bool { return t.On() && t.ClientCAFile != "" }

// Certificates are what a listener shows to clients, and what it asks of them.
type Certificates struct {
	files  *files[*tls.Config]
	mutual bool
}

// NewCertificates reads the files of t, which must be On. An error names the file and quotes nothing of it.
func NewCertificates(t TLS, log *slog.Logger) (*Certificates, error) {
	paths := []string{t.CertFile, t.KeyFile}
	if t.Mutual() {
		paths = append(paths, t.ClientCAFile)
	}
	f, err := open(log, parseTLS, paths...)
	if err != nil {
		return nil, fmt.Errorf("read certificates: %w", err)
	}
	return &Certificates{f, t.Mutual()}, nil
}

// GRPC is the config of a gRPC server. Each handshake sees the files as they are then.
func (c *Certificates) GRPC() *tls.Config { return c.config(tls.RequireAndVerifyClientCert, "h2") }

// http is the config of an HTTP server, of which some paths may be open to clients without a certificate.
func (c *Certificates) http(open bool) *tls.Config {
	ask := tls.RequireAndVerifyClientCert
	if open {
		ask = tls.VerifyClientCertIfGiven
	}
	return c.config(ask, "h2", "http/1.1")
}

// config has what is asked of clients, where their certificates are asked for at all, and the application protocols (ALPN).
func (c *Certificates) config(ask tls.ClientAuthType, protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			now := c.files.get().Clone()
			now.NextProtos = protocols
			if c.mutual {
				now.ClientAuth = ask
			}
			return now, nil
		},
	}
}

// Self is the config of a client on the same machine that asks whether the server lives: it trusts the very certificate in the file,
// for whatever name that was issued.
func (t *TLS) Self() (*tls.Config, error) {
	contents, err := readFile(t.CertFile)
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	block, _ := pem.Decode(contents)
	if block == nil {
		return nil, fmt.Errorf("read certificate: %s holds none", t.CertFile)
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection is stricter
		VerifyConnection: func(c tls.ConnectionState) error {
			if !bytes.Equal(c.PeerCertificates[0].Raw, block.Bytes) {
				return errors.New("the certificate is not the one in the file")
			}
			return nil
		},
	}, nil
}

// parseTLS reads certificate, key and, if there is a third file, authorities of clients.
func parseTLS(contents [][]byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return nil, err
	}
	c := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair},
		SessionTicketsDisabled: true, // a session that is resumed would outlive the authority that vouched for it
	}
	if len(contents) > 2 {
		c.ClientCAs = x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(contents[2]) {
			return nil, errors.New("the file of clients' authorities holds no certificate")
		}
	}
	return c, nil
}

// certified reports whether the client of a request has shown a certificate that was verified.
func certified(r *http.Request) bool { return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 }
