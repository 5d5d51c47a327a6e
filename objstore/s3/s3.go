// Package s3 reads and writes the objects of one bucket of Amazon S3, or of a
// server that speaks its protocol.
//
// Credentials, region and endpoint come from where every AWS tool looks for
// them (environment, shared files, profiles, roles) unless the Config names
// them. The transport is ours: HTTP/1.1, one connection a range, with buffers
// for bulk and limits on every wait. The SDK makes one attempt at each read;
// package retry, above, decides about the next. Its writing calls do try
// again by themselves, since the caller's reader cannot be read twice.
//
// A version is the ETag and, where the bucket is versioned, the version id.
// Every reply is held against it: some servers ignore If-Match.
package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/internal/httpwire"
	"github.com/freshet/freshet/unit"
)

// Config names a bucket and says how it is reached. Only Bucket is needed.
type Config struct {
	Bucket   string
	Region   string // empty: the SDK's (AWS_REGION, profile), else us-east-1; a bucket elsewhere is found
	Endpoint string // empty: the SDK's (AWS_ENDPOINT_URL, profile), else Amazon's
	Profile  string // of the shared files; empty: AWS_PROFILE, else "default"

	PathStyle   bool // http://endpoint/bucket/key even at Amazon; elsewhere that is the default
	VirtualHost bool // http://bucket.endpoint/key at other endpoints too
	Anonymous   bool // sign nothing: for public buckets

	Credentials aws.CredentialsProvider // nil: the SDK's chain

	Dial          httpwire.DialFunc // nil: a plain TCP dialer
	HeaderTimeout time.Duration     // longest wait for a reply's header; 0: 30 s
	StallTimeout  time.Duration     // longest wait for the next byte of a body; 0: 30 s
	PartSize      unit.Bytes        // of multipart uploads, at least 5 MiB; 0: 8 MiB. Larger objects get larger parts
	AppID         string            // added to the user agent; empty: "freshet"
}

const (
	defaultRegion = "us-east-1"
	credentials   = 20 * time.Second // longest wait for credentials
	defaultPart   = 8 * unit.MiB
	smallestPart  = 5 * unit.MiB // Amazon S3, "Multipart upload limits"
	largestPart   = 5 * unit.GiB
	mostParts     = 10000
)

// Store is one bucket.
type Store struct {
	bucket  string
	part    unit.Bytes
	limits  httpwire.Limits
	client  *http.Client
	connect func(region string) *s3.Client
	current atomic.Pointer[regional]
}

// regional is a client for one region.
type regional struct {
	*s3.Client
	region string
}

// Open finds credentials and returns the bucket as a store. Whether it exists
// is seen at the first call.
func Open(ctx context.Context, c Config) (*Store, error) {
	s, err := open(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("open s3://%s: %w", c.Bucket, err)
	}
	return s, nil
}

func open(ctx context.Context, c Config) (*Store, error) {
	if c.Bucket == "" {
		return nil, objstore.Permanent(errors.New("the bucket's name is missing"))
	}
	if c.Endpoint != "" {
		u, err := url.Parse(c.Endpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
			return nil, objstore.Permanent(fmt.Errorf("endpoint %s: want http://host:port or https://host:port", httpwire.Redact(c.Endpoint)))
		}
	}
	if c.PartSize != 0 && (c.PartSize < smallestPart || c.PartSize > largestPart) {
		return nil, objstore.Permanent(fmt.Errorf("part size %v: want %v to %v", c.PartSize, smallestPart, largestPart))
	}
	load := []func(*config.LoadOptions) error{config.WithLogger(logging.LoggerFunc(sdkLog))}
	if c.Region != "" {
		load = append(load, config.WithRegion(c.Region))
	}
	if c.Profile != "" {
		load = append(load, config.WithSharedConfigProfile(c.Profile))
	}
	if c.Credentials != nil {
		load = append(load, config.WithCredentialsProvider(c.Credentials))
	}
	if c.Anonymous {
		load = append(load, config.WithCredentialsProvider(aws.AnonymousCredentials{}))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, objstore.Permanent(fmt.Errorf("configuration of the AWS SDK: %w", err))
	}
	if err := haveCredentials(ctx, cfg, c.Anonymous); err != nil {
		return nil, err
	}
	limits := httpwire.Limits{Header: c.HeaderTimeout, Stall: c.StallTimeout}.WithDefaults()
	client := &http.Client{Transport: terse{transport(cfg, c.Dial, limits), limits.Stall}, CheckRedirect: checkRedirect}
	s := &Store{bucket: c.Bucket, part: c.PartSize, limits: limits, client: client}
	if s.part == 0 {
		s.part = defaultPart
	}
	s.connect = func(region string) *s3.Client {
		return s3.NewFromConfig(cfg, func(o *s3.Options) {
			o.Region = region
			if c.Endpoint != "" {
				o.BaseEndpoint = aws.String(c.Endpoint)
			}
			o.UsePathStyle = c.PathStyle || !c.VirtualHost && o.BaseEndpoint != nil && !amazon(*o.BaseEndpoint)
			o.HTTPClient = client
			o.Retryer = aws.NopRetryer{}
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
			o.APIOptions = append(o.APIOptions, leaveEncoding)
			o.AppID = c.AppID
			if o.AppID == "" {
				o.AppID = "freshet"
			}
		})
	}
	region := cfg.Region
	if region == "" {
		region = defaultRegion
	}
	s.current.Store(&regional{s.connect(region), region})
	return s, nil
}

// sdkLog is where the SDK's complaints go: to where all others do. By itself it
// would write them to standard error, in a form of its own.
func sdkLog(class logging.Classification, format string, v ...any) {
	level := slog.LevelDebug
	if class == logging.Warn {
		level = slog.LevelWarn
	}
	slog.Default().Log(context.Background(), level, "AWS SDK", "says", oneLine(fmt.Sprintf(format, v...)))
}

// haveCredentials fails if the chain yields none: better now, in one line that
// says what to do, than with each request. The SDK keeps what it found.
func haveCredentials(ctx context.Context, cfg aws.Config, anonymous bool) error {
	if anonymous {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, credentials)
	defer cancel()
	var err error
	if cfg.Credentials == nil {
		err = errors.New("the chain is empty")
	} else if _, err = cfg.Credentials.Retrieve(limited); err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give the machine a role (%s)",
		objstore.ErrDenied, oneLine(err.Error()))
}

// transport takes over the TLS settings of the SDK's own, which knows
// AWS_CA_BUNDLE, but for the protocols that one offers: a server that has
// HTTP/2 would choose it.
func transport(cfg aws.Config, dial httpwire.DialFunc, l httpwire.Limits) *http.Transport {
	t := new(http.Transport)
	if b, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok {
		if c := b.GetTransport().TLSClientConfig; c != nil {
			t.TLSClientConfig = c.Clone()
			t.TLSClientConfig.NextProtos = nil
		}
	}
	httpwire.Configure(t, dial, l)
	return t
}

// leaveEncoding takes from an operation the step that sets Accept-Encoding before the
// request is signed, and so has it signed: Google's front end changes that header on its way to Google Cloud
// Storage, which then refuses the signature. The transport sets it, after the signing.
func leaveEncoding(stack *middleware.Stack) error {
	stack.Finalize.Remove("DisableAcceptEncodingGzip") // fails only where there is no such step
	return nil
}

// terse cuts short what a server says about a refusal, all of which the SDK would
// keep, however long it is and takes to come. Of other replies, but for those that bring an object, it
// refuses what is longer than any page of a listing. It asks for what is not compressed.
type terse struct {
	*http.Transport
	stall time.Duration
}

const (
	longestRefusal = 64 << 10 // far more than the XML of any error
	longestAnswer  = 16 << 20 // more than that of a page of 1000 names of 1024 bytes each, as escaped as can be
)

var errLong = fmt.Errorf("the server's answer has more than %d MiB", longestAnswer>>20)

func (t terse) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, watch := httpwire.NewWatch(r.Context(), t.stall)
	r = r.Clone(ctx) // a transport may not change its caller's request
	r.Header.Set("Accept-Encoding", "identity")
	reply, err := t.Transport.RoundTrip(r)
	if err != nil {
		watch.Stop()
		return nil, err
	}
	b := &watched{reply.Body, reply.Body, watch}
	switch {
	case reply.StatusCode >= 300:
		watch.Start()
		b.Reader = &refusal{reply.Body, longestRefusal}
	case r.Method != http.MethodGet || r.URL.Query().Has("list-type"):
		b.Reader = &answer{reply.Body, longestAnswer, watch}
	}
	reply.Body = b
	return reply, nil
}

// watched is a body whose end is that of its watch, too.
type watched struct {
	io.Reader
	body  io.Closer
	watch *httpwire.Watch
}

func (w *watched) Close() error {
	defer w.watch.Stop()
	return w.body.Close()
}

// refusal ends where its body does, or breaks off, or has been read far enough:
// the status says the most.
type refusal struct {
	body io.Reader
	left int
}

func (r *refusal) Read(p []byte) (int, error) {
	n, err := r.body.Read(p[:min(len(p), r.left)])
	if r.left -= n; r.left == 0 || err != nil {
		err = io.EOF
	}
	return n, err
}

// answer is a body of which all is kept: it fails where it is too long, or stands still.
type answer struct {
	body  io.Reader
	left  int
	watch *httpwire.Watch
}

func (a *answer) Read(p []byte) (int, error) {
	if a.left == 0 {
		return 0, errLong
	}
	a.watch.Start()
	n, err := a.body.Read(p[:min(len(p), a.left)])
	a.watch.Pause()
	a.left -= n
	return n, err
}

// checkRedirect follows what keeps method and body; a 301 tells of another
// region and is for us.
func checkRedirect(r *http.Request, via []*http.Request) error {
	if len(via) >= 5 {
		return errors.New("stopped after 5 redirects")
	}
	if r.Response != nil {
		switch r.Response.StatusCode {
		case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
			return nil
		}
	}
	return http.ErrUseLastResponse
}

// amazon says whether endpoint is Amazon's own.
func amazon(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	host := u.Hostname()
	return strings.HasSuffix(host, ".amazonaws.com") || strings.HasSuffix(host, ".amazonaws.com.cn")
}

// Close closes idle connections.
func (s *Store) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// name is what errors call key.
func (s *Store) name(key string) string { return "s3://" + s.bucket + "/" + key }

func validKey(key string) error {
	if key == "" {
		return objstore.Permanent(errors.New("the key is empty"))
	}
	return nil
}
