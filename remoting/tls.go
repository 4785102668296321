package remoting

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/clock"
)

// TLSConfigFile is where Java looks for a file of tls.* keys (tls.config.file).
const TLSConfigFile = "/etc/rocketmq/tls.properties"

// tlsPoll is the time between two looks at the files (FileWatchService).
const tlsPoll = 500 * time.Millisecond

// Files are what TLS needs of a file system; vfs.FS has it.
type Files interface {
	ReadFile(path string) ([]byte, error)
	Stat(path string) (fs.FileInfo, error)
}

// TLSOverrides reads a file of tls.* keys. They are stronger than the component's own file, so pass them to conf.Load as
// overrides. A file that does not exist has no keys.
func TLSOverrides(files Files, path string) (map[string]string, error) {
	text, err := files.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("tls.config.file: %w", err)
	}
	all, err := conf.ParseProperties(text)
	if err != nil {
		return nil, fmt.Errorf("tls.config.file %s: %w", path, err)
	}
	out := make(map[string]string, len(all))
	for _, p := range all {
		out[p.Key] = p.Value
	}
	return out, nil
}

// TLS holds the certificates of one process and follows their files: when a key and a certificate on disk match, new
// connections use them; open ones keep theirs. It is safe for concurrent use.
type TLS struct {
	keys   conf.TLS
	files  Files
	clk    clock.Clock
	log    *zap.Logger
	server atomic.Pointer[tls.Config] // nil: no TLS connection is taken
	client atomic.Pointer[identity]   // what outgoing connections show and believe

	seen map[string]stamp // NewTLS and Run only: the files as they were looked at last
}

// identity is what one end shows, and whom it believes.
type identity struct {
	certs []tls.Certificate // none or one
	roots *x509.CertPool    // nil: the system's
}

// stamp tells whether a file may have changed, and whether it has.
type stamp struct {
	size     int64
	modified time.Time
	sum      [sha256.Size]byte
}

// NewTLS loads what keys name. With no server certificate, tls.test.mode.enable makes one up, which proves nothing to anybody;
// without that, TLS connections are refused, and tls.server.mode=enforcing is an error.
func NewTLS(keys conf.TLS, files Files, clk clock.Clock, log *zap.Logger) (*TLS, error) {
	t := &TLS{keys: keys, files: files, clk: clk, log: log, seen: map[string]stamp{}}
	t.changed()
	if err := t.load(); err != nil {
		return nil, err
	}
	if t.Server() == nil && TLSMode(keys.TLSServerMode) == TLSEnforcing {
		return nil, errors.New("tls.server.mode=enforcing needs tls.server.certPath and tls.server.keyPath")
	}
	if t.testServer() && TLSMode(keys.TLSServerMode) != TLSDisabled {
		log.Warn("TLS connections are served with a certificate made up at start, which protects from nobody: set tls.server.certPath and tls.server.keyPath")
	}
	return t, nil
}

// Mode is which connections servers take.
func (t *TLS) Mode() TLSMode { return TLSMode(t.keys.TLSServerMode) }

// Server returns the configuration of the next handshake of a server, nil if there is no certificate: ServerConfig.TLS.
func (t *TLS) Server() *tls.Config { return t.server.Load() }

// Client returns the configuration for NewClient, nil if outgoing connections are plain (tls.enable). It follows the files by
// itself. As in Java, the server's certificate is checked only with tls.client.authServer, and then its authority, not the name
// in it: brokers are dialed by addresses that certificates seldom list.
func (t *TLS) Client() *tls.Config {
	if !t.keys.TLSEnable {
		return nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true} //nolint:gosec // see VerifyConnection
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if certs := t.client.Load().certs; len(certs) > 0 {
			return &certs[0], nil
		}
		return new(tls.Certificate), nil
	}
	if t.keys.TLSClientAuthServer {
		cfg.VerifyConnection = func(s tls.ConnectionState) error { return verifyChain(s.PeerCertificates, t.client.Load().roots) }
	}
	return cfg
}

// verifyChain checks that the first certificate leads to one of the roots through the others.
func verifyChain(certs []*x509.Certificate, roots *x509.CertPool) error {
	between := x509.NewCertPool()
	for _, c := range certs[1:] {
		between.AddCert(c)
	}
	_, err := certs[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
	return err
}

// Run follows the files until ctx ends.
func (t *TLS) Run(ctx context.Context) error {
	if len(t.paths()) == 0 {
		<-ctx.Done()
		return nil
	}
	tick := t.clk.NewTicker(tlsPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			t.follow()
		}
	}
}

// follow loads the files again if one has changed. As long as they do not fit together, which is normal while they are being
// replaced, the old ones count.
func (t *TLS) follow() {
	if !t.changed() {
		return
	}
	if err := t.load(); err != nil {
		t.log.Warn("the TLS files have changed and cannot be used yet; the former ones stay in use", zap.Error(err))
		return
	}
	t.log.Info("the TLS files have changed; new connections use them")
}

// changed looks at the files and reports whether the content of one differs from the last look. A file that is gone has not
// changed.
func (t *TLS) changed() bool {
	dirty := false
	for _, path := range t.paths() {
		info, err := t.files.Stat(path)
		old := t.seen[path]
		if err != nil || info.Size() == old.size && info.ModTime().Equal(old.modified) {
			continue
		}
		text, err := t.files.ReadFile(path)
		if err != nil {
			continue
		}
		sum := sha256.Sum256(text)
		dirty = dirty || sum != old.sum
		t.seen[path] = stamp{info.Size(), info.ModTime(), sum}
	}
	return dirty
}

// paths are the files that are named.
func (t *TLS) paths() []string {
	return slices.DeleteFunc([]string{
		t.keys.TLSServerCertPath, t.keys.TLSServerKeyPath, t.keys.TLSServerTrustCertPath,
		t.keys.TLSClientCertPath, t.keys.TLSClientKeyPath, t.keys.TLSClientTrustCertPath,
	}, func(path string) bool { return path == "" })
}

func (t *TLS) testServer() bool { return t.keys.TLSServerCertPath == "" && t.keys.TLSTestModeEnable }

// load replaces both identities, or neither.
func (t *TLS) load() error {
	server, err := t.serverConfig()
	if err != nil {
		return fmt.Errorf("tls.server: %w", err)
	}
	client, err := t.identity(t.keys.TLSClientCertPath, t.keys.TLSClientKeyPath, t.keys.TLSClientKeyPassword, t.keys.TLSClientTrustCertPath)
	if err != nil {
		return fmt.Errorf("tls.client: %w", err)
	}
	t.server.Store(server)
	t.client.Store(client)
	return nil
}

func (t *TLS) serverConfig() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: clientAuth(t.keys.TLSServerNeedClientAuth, t.keys.TLSServerAuthClient)}
	if t.testServer() {
		if old := t.Server(); old != nil {
			return old, nil
		}
		cert, err := selfSigned(t.clk.Now())
		cfg.Certificates, cfg.ClientAuth = []tls.Certificate{cert}, tls.RequestClientCert
		return cfg, err
	}
	id, err := t.identity(t.keys.TLSServerCertPath, t.keys.TLSServerKeyPath, t.keys.TLSServerKeyPassword, t.keys.TLSServerTrustCertPath)
	if err != nil || len(id.certs) == 0 {
		return nil, err
	}
	cfg.Certificates, cfg.ClientCAs = id.certs, id.roots
	return cfg, nil
}

// clientAuth combines tls.server.need.client.auth and tls.server.authClient: whether a client must show a certificate, and
// whether what it shows is checked.
func clientAuth(need string, check bool) tls.ClientAuthType {
	switch {
	case need == "require" && check:
		return tls.RequireAndVerifyClientCert
	case need == "require":
		return tls.RequireAnyClientCert
	case need == "optional" && check:
		return tls.VerifyClientCertIfGiven
	case need == "optional":
		return tls.RequestClientCert
	}
	return tls.NoClientCert
}

// identity reads a pair and the authorities of the other side; each may be missing.
func (t *TLS) identity(certPath, keyPath, password, trustPath string) (*identity, error) {
	id := &identity{}
	if (certPath == "") != (keyPath == "") {
		return nil, errors.New("certPath and keyPath go together")
	}
	if certPath != "" {
		cert, err := t.pair(certPath, keyPath, password)
		if err != nil {
			return nil, err
		}
		id.certs = []tls.Certificate{cert}
	}
	if trustPath != "" {
		text, err := t.files.ReadFile(trustPath)
		if err != nil {
			return nil, err
		}
		if id.roots = x509.NewCertPool(); !id.roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: no PEM certificate in it", trustPath)
		}
	}
	return id, nil
}

func (t *TLS) pair(certPath, keyPath, password string) (tls.Certificate, error) {
	cert, err := t.files.ReadFile(certPath)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := t.files.ReadFile(keyPath)
	if err != nil {
		return tls.Certificate{}, err
	}
	if key, err = decryptKey(key, password); err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: %w", keyPath, err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s and %s: %w", certPath, keyPath, err)
	}
	return pair, nil
}

// selfSigned makes up a certificate for a year from now.
func selfSigned(now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "castor test mode"},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.AddDate(1, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// decryptKey returns the PEM text of a key that tls.X509KeyPair reads.
func decryptKey(text []byte, password string) ([]byte, error) {
	block, _ := pem.Decode(text)
	switch {
	case block == nil:
		return nil, errors.New("no PEM key in it")
	case block.Type == "ENCRYPTED PRIVATE KEY":
		der, err := decryptPKCS8(block.Bytes, password)
		if err != nil {
			return nil, err
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
	case block.Headers["DEK-Info"] != "":
		return nil, errOldCipher
	}
	return text, nil
}
