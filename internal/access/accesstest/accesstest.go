// Package accesstest makes certificates and keeps files of credentials for tests of listeners.
//
// An [Authority] issues certificates for localhost and for clients. Files that are written with [Write] are replaced as a whole,
// as those who mount secrets do.
package accesstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority issues certificates.
type Authority struct {
	PEM  []byte // its own certificate
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority.
func NewAuthority(tb testing.TB, name string) *Authority {
	tb.Helper()
	a := &Authority{cert: &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	der, key := a.sign(tb, a.cert)
	a.PEM, a.key = encode("CERTIFICATE", der), key
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	a.cert = cert
	return a
}

// sign makes a key and a certificate for it; the authority's own one is signed by itself.
func (a *Authority) sign(tb testing.TB, c *x509.Certificate) (der []byte, key *ecdsa.PrivateKey) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		tb.Fatal(err)
	}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	by := a.key
	if by == nil {
		by = key
	}
	der, err = x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, by)
	if err != nil {
		tb.Fatal(err)
	}
	return der, key
}

// Issue issues a certificate that is good for a server on this machine and for a client. It returns chain and key as PEM.
func (a *Authority) Issue(tb testing.TB, name string) (cert, key []byte) {
	tb.Helper()
	der, k := a.sign(tb, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	b, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		tb.Fatal(err)
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", b)
}

// Client is the config of a client that trusts this authority and shows a certificate of by, if by is not nil.
func (a *Authority) Client(tb testing.TB, by *Authority) *tls.Config {
	tb.Helper()
	c := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "localhost", MinVersion: tls.VersionTLS12}
	c.RootCAs.AddCert(a.cert)
	if by != nil {
		pair, err := tls.X509KeyPair(by.Issue(tb, "client"))
		if err != nil {
			tb.Fatal(err)
		}
		// A client that is asked for a certificate of another authority would show none: this one does.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return c
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Write puts a file in its place at once and returns its path.
func Write(tb testing.TB, path string, content []byte) string {
	tb.Helper()
	next, err := os.CreateTemp(filepath.Dir(path), "next")
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := next.Write(content); err != nil {
		tb.Fatal(err)
	}
	if err := next.Close(); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(next.Name(), path); err != nil {
		tb.Fatal(err)
	}
	return path
}
