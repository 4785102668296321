package conf

// Server are the keys of a remoting server, the same in every process. Java: NettyServerConfig.
type Server struct {
	// Address the server listens on.
	BindAddress string `conf:"bindAddress" default:"0.0.0.0" apply:"restart"`
	// Close connections that have been silent for this long.
	ServerChannelMaxIdleTimeSeconds int32 `conf:"serverChannelMaxIdleTimeSeconds" default:"120" min:"1" unit:"s" apply:"restart"`
	// Send buffer of a connection; 0 leaves it to the kernel.
	ServerSocketSndBufSize int32 `conf:"serverSocketSndBufSize" default:"0" min:"0" unit:"B" apply:"restart"`
	// Receive buffer of a connection; 0 leaves it to the kernel.
	ServerSocketRcvBufSize int32 `conf:"serverSocketRcvBufSize" default:"0" min:"0" unit:"B" apply:"restart"`
}

// Client are the keys of outgoing connections. Java: NettyClientConfig.
type Client struct {
}

// TLS are the keys of encrypted connections. Java: TlsSystemConfig; there they are system properties, here they stand in
// the component's file.
type TLS struct {
	// Whether the server takes encrypted connections (permissive: both kinds on one port; enforcing: no others).
	TLSServerMode string `conf:"tls.server.mode" default:"permissive" enum:"disabled,permissive,enforcing" apply:"restart"`
	// Use a certificate made at start, which proves nothing, while no certificate is given, and do not check the peer's.
	TLSTestModeEnable bool `conf:"tls.test.mode.enable" default:"false" apply:"restart"`
	// File of the server's private key, PEM.
	TLSServerKeyPath string `conf:"tls.server.keyPath" apply:"deny"`
	// Password of that file.
	TLSServerKeyPassword string `conf:"tls.server.keyPassword" apply:"restart"`
	// File of the server's certificate chain, PEM.
	TLSServerCertPath string `conf:"tls.server.certPath" apply:"deny"`
	// Whether clients must show a certificate.
	TLSServerNeedClientAuth string `conf:"tls.server.need.client.auth" default:"none" enum:"none,optional,require" apply:"restart"`
	// Check clients' certificates against tls.server.trustCertPath.
	TLSServerAuthClient bool `conf:"tls.server.authClient" default:"false" apply:"restart"`
	// File of the authorities that sign clients' certificates, PEM.
	TLSServerTrustCertPath string `conf:"tls.server.trustCertPath" apply:"deny"`
	// Encrypt outgoing connections.
	TLSEnable bool `conf:"tls.enable" default:"false" apply:"restart"`
	// File of the private key for outgoing connections, PEM.
	TLSClientKeyPath string `conf:"tls.client.keyPath" apply:"deny"`
	// Password of that file.
	TLSClientKeyPassword string `conf:"tls.client.keyPassword" apply:"restart"`
	// File of the certificate chain for outgoing connections, PEM.
	TLSClientCertPath string `conf:"tls.client.certPath" apply:"deny"`
	// Check servers' certificates against tls.client.trustCertPath.
	TLSClientAuthServer bool `conf:"tls.client.authServer" default:"false" apply:"restart"`
	// File of the authorities that sign servers' certificates, PEM.
	TLSClientTrustCertPath string `conf:"tls.client.trustCertPath" apply:"deny"`
}

// Metrics are the keys of the metrics exporter, the same in every process.
type Metrics struct {
	// Where metrics go: PROM serves them over HTTP. OTLP_GRPC and LOG are accepted, but nothing is pushed or logged.
	MetricsExporterType string `conf:"metricsExporterType" default:"DISABLE" enum:"DISABLE|0,OTLP_GRPC|1,PROM|2,LOG|3" apply:"restart"`
	// Port of the exporter; 0 takes a free one.
	MetricsPromExporterPort int32 `conf:"metricsPromExporterPort" default:"5557" min:"0" max:"65535" apply:"restart"`
	// Address of the exporter. Empty: bindAddress.
	MetricsPromExporterHost string `conf:"metricsPromExporterHost" apply:"restart"`
	// Labels added to every series, name:value separated by commas.
	MetricsLabel string `conf:"metricsLabel" form:"labels" apply:"restart"`
}
