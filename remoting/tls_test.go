package remoting

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/remoting/code"
)

// pki is a directory with an authority and certificates signed by it.
type pki struct {
	t    testing.TB
	dir  string
	ca   *x509.Certificate
	key  *ecdsa.PrivateKey
	last int64
}

func newPKI(t testing.TB) *pki {
	p := &pki{t: t, dir: t.TempDir()}
	p.key = p.newKey()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, p.key.Public(), p.key)
	if err != nil {
		t.Fatal(err)
	}
	if p.ca, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	p.write("ca.pem", "CERTIFICATE", der)
	return p
}

func (p *pki) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	return key
}

func (p *pki) path(name string) string { return filepath.Join(p.dir, name) }

func (p *pki) write(name, kind string, der []byte) {
	p.put(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func (p *pki) put(name string, text []byte) {
	p.t.Helper()
	if err := os.WriteFile(p.path(name), text, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// issue signs a certificate and returns the PEM texts of it and of its key.
func (p *pki) issue(name string, key *ecdsa.PrivateKey) (cert, pair []byte) {
	p.t.Helper()
	p.last++
	template := &x509.Certificate{SerialNumber: big.NewInt(100 + p.last), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, p.ca, key.Public(), p.key)
	if err != nil {
		p.t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		p.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

func (p *pki) install(name string) {
	cert, key := p.issue(name, p.newKey())
	p.put(name+".pem", cert)
	p.put(name+".key", key)
}

// serverKeys configure a server that shows "server".
func (p *pki) serverKeys() conf.TLS {
	return conf.TLS{TLSServerMode: "permissive", TLSServerNeedClientAuth: "none", TLSServerCertPath: p.path("server.pem"), TLSServerKeyPath: p.path("server.key")}
}

func (p *pki) load(keys conf.TLS) *TLS {
	p.t.Helper()
	s, err := NewTLS(keys, vfs.OS{}, clock.Real{}, zap.NewNop())
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

type testPair struct{ t *TLS }

// testTLS is a process in test mode, server and client.
func testTLS(t testing.TB) testPair {
	t.Helper()
	s, err := NewTLS(conf.TLS{TLSServerMode: "permissive", TLSTestModeEnable: true, TLSEnable: true}, vfs.OS{}, clock.Real{}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return testPair{s}
}

func (p testPair) server() *tls.Config { return p.t.Server() }
func (p testPair) client() *tls.Config { return p.t.Client() }

func callOnce(t *testing.T, addr string, cfg *tls.Config) error {
	t.Helper()
	cl := NewClient(nil, cfg)
	defer cl.Close()
	body := bytes.Repeat([]byte("x"), 100_000)
	r, err := cl.Call(t.Context(), addr, code.HeartBeat, nil, body)
	if err == nil && !bytes.Equal(r.Body, body) {
		t.Errorf("%d bytes came back", len(r.Body))
	}
	return err
}

func TestModesDecideWhoIsServed(t *testing.T) {
	pair := testTLS(t)
	for _, m := range []struct {
		mode          TLSMode
		plain, secure bool
	}{{TLSDisabled, true, false}, {TLSPermissive, true, true}, {TLSEnforcing, false, true}} {
		onBothLoops(t, func(t *testing.T, loop string) {
			srv, _ := startServer(t, ServerConfig{Loop: loop, Mode: m.mode, TLS: pair.server}, table(Route{Code: code.HeartBeat, Serve: func(r *Request) error {
				if r.Conn.Secure && !m.secure {
					t.Error("a secure connection")
				}
				return echo(r)
			}}))
			if err := callOnce(t, srv.at(), nil); (err == nil) != m.plain {
				t.Errorf("%s, plain: %v", m.mode, err)
			}
			if err := callOnce(t, srv.at(), pair.client()); (err == nil) != m.secure {
				t.Errorf("%s, TLS: %v", m.mode, err)
			}
		})
	}
	srv, _ := startServer(t, ServerConfig{Mode: TLSPermissive, TLS: func() *tls.Config { return nil }}, table(echoTable...))
	if err := callOnce(t, srv.at(), pair.client()); err == nil {
		t.Error("served without a certificate")
	}
}

func TestPipelinedRequestsOverTLS(t *testing.T) {
	pair := testTLS(t)
	srv, _ := startServer(t, ServerConfig{TLS: pair.server}, table(echoTable...))
	nc := tls.Client(dialRaw(t, srv.at()), pair.client())
	const total = 500
	go func() {
		for i := range int32(total) {
			_, _ = nc.Write(request(i, int(i*7))) // what is not written is missed below
		}
	}()
	for i := range int32(total) {
		var c Command
		if err := c.Parse(readFrame(t, nc)); err != nil || c.Opaque != i || len(c.Body) != int(i*7) {
			t.Fatalf("%d: %v, opaque %d, %d bytes", i, err, c.Opaque, len(c.Body))
		}
	}
}

func TestStalledHandshakeDoesNotDelayStop(t *testing.T) {
	srv, stop := startServer(t, ServerConfig{TLS: testTLS(t).server}, table(echoTable...))
	if _, err := dialRaw(t, srv.at()).Write([]byte{0x16, 3, 1}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "accept", func() bool {
		srv.mu.Lock()
		defer srv.mu.Unlock()
		return len(srv.opening) == 1
	})
	start := time.Now()
	if stop(); time.Since(start) > handshakeTimeout/2 {
		t.Fatalf("took %v", time.Since(start))
	}
}

func TestClientCertificates(t *testing.T) {
	p, stranger := newPKI(t), newPKI(t)
	p.install("server")
	p.install("client")
	stranger.install("client")
	withCert := func(q *pki) conf.TLS {
		return conf.TLS{TLSEnable: true, TLSClientCertPath: q.path("client.pem"), TLSClientKeyPath: q.path("client.key")}
	}
	for _, f := range []struct {
		need                  string
		check                 bool
		none, ours, strangers bool // who is served
	}{
		{"none", false, true, true, true},
		{"none", true, true, true, true},
		{"optional", false, true, true, true},
		{"optional", true, true, true, false},
		{"require", false, false, true, true},
		{"require", true, false, true, false},
	} {
		keys := p.serverKeys()
		keys.TLSServerNeedClientAuth, keys.TLSServerAuthClient, keys.TLSServerTrustCertPath = f.need, f.check, p.path("ca.pem")
		srv, stop := startServer(t, ServerConfig{TLS: p.load(keys).Server}, table(echoTable...))
		for who, c := range map[string]struct {
			keys conf.TLS
			ok   bool
		}{"nobody": {conf.TLS{TLSEnable: true}, f.none}, "ours": {withCert(p), f.ours}, "a stranger": {withCert(stranger), f.strangers}} {
			if err := callOnce(t, srv.at(), p.load(c.keys).Client()); (err == nil) != c.ok {
				t.Errorf("need %s, check %v: %s: %v", f.need, f.check, who, err)
			}
		}
		stop()
	}
}

func TestClientChecksTheServer(t *testing.T) {
	p, stranger := newPKI(t), newPKI(t)
	p.install("server")
	srv, _ := startServer(t, ServerConfig{TLS: p.load(p.serverKeys()).Server}, table(echoTable...))
	for _, f := range []struct {
		check bool
		trust string
		ok    bool
	}{{false, "", true}, {false, stranger.path("ca.pem"), true}, {true, p.path("ca.pem"), true}, {true, stranger.path("ca.pem"), false}, {true, "", false}} {
		keys := conf.TLS{TLSEnable: true, TLSClientAuthServer: f.check, TLSClientTrustCertPath: f.trust}
		if err := callOnce(t, srv.at(), p.load(keys).Client()); (err == nil) != f.ok {
			t.Errorf("check %v against %q: %v", f.check, f.trust, err)
		}
	}
	if p.load(conf.TLS{}).Client() != nil {
		t.Error("TLS without tls.enable")
	}
}

// shown returns the number of the certificate that a handshake with cfg shows.
func shown(t *testing.T, cfg *tls.Config) int64 {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close() //nolint:errcheck // a pipe
	defer b.Close() //nolint:errcheck // a pipe
	server := tls.Server(a, cfg)
	go func() { _ = server.Handshake() }()
	client := tls.Client(b, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the certificate is looked at
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	return client.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func TestReloadWhenThePairMatches(t *testing.T) {
	p := newPKI(t)
	key := p.newKey()
	stamp := time.Now().Add(-time.Hour)
	put := func(name string, text []byte) { // whose time differs from the last
		p.put(name, text)
		stamp = stamp.Add(time.Second)
		if err := os.Chtimes(p.path(name), stamp, stamp); err != nil {
			t.Fatal(err)
		}
	}
	cert, pair := p.issue("server", key)
	put("server.pem", cert)
	put("server.key", pair)
	s := p.load(p.serverKeys())
	step := func(what string, want int64) {
		t.Helper()
		s.follow()
		if got := shown(t, s.Server()); got != want {
			t.Fatalf("%s: certificate %d is shown, want %d", what, got, want)
		}
	}
	first := s.Server()
	step("nothing happened", 101)
	put("server.pem", cert)
	if step("touched", 101); s.Server() != first {
		t.Fatal("the same content was loaded again")
	}
	renewed, _ := p.issue("server", key)
	put("server.pem", renewed)
	step("certificate renewed, key kept", 102)
	other, otherKey := p.issue("server", p.newKey())
	put("server.pem", other[:len(other)/2])
	step("half a certificate", 102)
	put("server.pem", other)
	step("certificate of another key", 102)
	if err := os.Remove(p.path("server.key")); err != nil {
		t.Fatal(err)
	}
	step("key removed", 102)
	put("server.key", otherKey)
	step("and its key", 103)
	put("server.key", pair)
	step("key of another certificate", 103)
	put("server.pem", renewed)
	step("back to the first key", 102)
}

func TestRunFollowsTheFiles(t *testing.T) {
	p := newPKI(t)
	p.install("server")
	p.install("client")
	keys := p.serverKeys()
	keys.TLSEnable, keys.TLSClientCertPath, keys.TLSClientKeyPath = true, p.path("client.pem"), p.path("client.key")
	clk := clock.NewManual(time.Now())
	s, err := NewTLS(keys, vfs.OS{}, clk, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	g := lifecycle.New(context.Background())
	g.Go("tls", s.Run)
	client := s.Client()
	before := shown(t, s.Server())
	p.install("server")
	p.install("client")
	eventually(t, "reload", func() bool {
		clk.Advance(tlsPoll)
		c, err := client.GetClientCertificate(nil)
		return err == nil && shown(t, s.Server()) == before+2 && c.Leaf.SerialNumber.Int64() == before+3
	})
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
}

func TestCertificatesThatCannotBeUsed(t *testing.T) {
	p := newPKI(t)
	p.install("server")
	p.install("other")
	p.put("empty", nil)
	p.put("text", []byte("not PEM"))
	for want, change := range map[string]func(k *conf.TLS){
		"go together":         func(k *conf.TLS) { k.TLSServerKeyPath = "" },
		"no such file":        func(k *conf.TLS) { k.TLSServerCertPath = p.path("missing") },
		"does not match":      func(k *conf.TLS) { k.TLSServerKeyPath = p.path("other.key") },
		"no PEM key":          func(k *conf.TLS) { k.TLSServerKeyPath = p.path("text") },
		"failed to find":      func(k *conf.TLS) { k.TLSServerCertPath = p.path("empty") },
		"no PEM certificate":  func(k *conf.TLS) { k.TLSServerTrustCertPath = p.path("text") },
		"tls.client":          func(k *conf.TLS) { k.TLSClientTrustCertPath = p.path("empty") },
		"needs tls.server":    func(k *conf.TLS) { *k = conf.TLS{TLSServerMode: "enforcing"} },
		"wrong keyPassword":   func(k *conf.TLS) { k.TLSServerKeyPath = "testdata/keys/aes-256-cbc.key" },
		"openssl pkcs8 -topk": func(k *conf.TLS) { k.TLSServerKeyPath = "testdata/keys/old-pem.key" },
	} {
		keys := p.serverKeys()
		change(&keys)
		if _, err := NewTLS(keys, vfs.OS{}, clock.Real{}, zap.NewNop()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	if s := p.load(conf.TLS{TLSServerMode: "permissive"}); s.Server() != nil || s.Mode() != TLSPermissive {
		t.Error("a certificate out of nowhere")
	}
}

func TestEncryptedKeys(t *testing.T) {
	public, err := os.ReadFile("testdata/keys/public.pem")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(public)
	files, err := filepath.Glob("testdata/keys/*.key")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := decryptKey(text, "castor")
		if strings.Contains(file, "old-") {
			if !errors.Is(err, errOldCipher) {
				t.Errorf("%s: %v", file, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		b, _ := pem.Decode(plain)
		key, err := x509.ParsePKCS8PrivateKey(b.Bytes)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if der, err := x509.MarshalPKIXPublicKey(key.(*ecdsa.PrivateKey).Public()); err != nil || !bytes.Equal(der, block.Bytes) {
			t.Errorf("%s: another key, %v", file, err)
		}
		if _, err := decryptKey(text, "castle"); !errors.Is(err, errPassword) {
			t.Errorf("%s with a wrong password: %v", file, err)
		}
	}
}

func FuzzDecryptPKCS8(f *testing.F) {
	files, _ := filepath.Glob("testdata/keys/*.key")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if b, _ := pem.Decode(text); b != nil {
			f.Add(b.Bytes)
		}
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		if bytes.Contains(der, []byte{2, 3}) || bytes.Contains(der, []byte{2, 4}) {
			return // may ask for millions of iterations, which are allowed
		}
		_, _ = decryptPKCS8(der, "castor")
	})
}

func TestTLSOverrides(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tls.properties")
	if got, err := TLSOverrides(vfs.OS{}, path); got != nil || err != nil {
		t.Fatal(got, err)
	}
	if err := os.WriteFile(path, []byte("# comment\ntls.server.mode=enforcing\ntls.test.mode.enable = true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	over, err := TLSOverrides(vfs.OS{}, path)
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := conf.Load[conf.Namesrv]("", over, nil)
	if err != nil || c.TLSServerMode != "enforcing" || !c.TLSTestModeEnable {
		t.Fatal(c, err)
	}
	if err := os.WriteFile(path, []byte(`a=\u12`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := TLSOverrides(vfs.OS{}, path); err == nil {
		t.Fatal("no error")
	}
	if _, err := TLSOverrides(vfs.OS{}, dir); err == nil || errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}
