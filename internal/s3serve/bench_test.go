package s3serve

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/freshet/freshet/objstore/limit"
	"github.com/freshet/freshet/unit"
)

// BenchmarkGet reads ranges of 8 MiB over loopback on one connection and
// reports what client and server together spend:
//
//	go test ./internal/s3serve -run '^$' -bench Get -benchtime 300x
func BenchmarkGet(b *testing.B) {
	b.Run("no rates", func(b *testing.B) { benchmarkGet(b, Config{}) })
	b.Run("5 GB/s", func(b *testing.B) { benchmarkGet(b, Config{PerConnection: limit.Constant(5000 * unit.MBps)}) })
	b.Run("500 MB/s", func(b *testing.B) { benchmarkGet(b, Config{PerConnection: limit.Constant(500 * unit.MBps)}) })
}

func benchmarkGet(b *testing.B, cfg Config) {
	const size = 8 << 20
	cfg.Dir, cfg.Listen = b.TempDir(), "127.0.0.1:0"
	if err := os.Mkdir(filepath.Join(cfg.Dir, "b"), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.Dir, "b", "obj"), noise(8*size), 0o644); err != nil {
		b.Fatal(err)
	}
	s, err := Start(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	access, secret := s.Keys()
	tr := &http.Transport{ReadBufferSize: 256 << 10}
	defer tr.CloseIdleConnections()
	sign := s3.NewPresignClient(s3.New(s3.Options{
		BaseEndpoint: aws.String(s.Endpoint()), UsePathStyle: true, Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider(access, secret, ""),
	}))
	req, err := sign.PresignGetObject(b.Context(), &s3.GetObjectInput{
		Bucket: aws.String("b"), Key: aws.String("obj"), Range: aws.String("bytes=8388608-16777215"),
	})
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 256<<10)
	b.SetBytes(size)
	b.ResetTimer()
	before := spent(b)
	for range b.N {
		hr, err := http.NewRequestWithContext(b.Context(), req.Method, req.URL, nil)
		if err != nil {
			b.Fatal(err)
		}
		hr.Header = req.SignedHeader.Clone()
		hr.Header.Set("Range", "bytes=8388608-16777215")
		resp, err := tr.RoundTrip(hr)
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{resp.Body}, buf)
		resp.Body.Close()
		if err != nil || n != size {
			b.Fatalf("%s: %d bytes, %v", resp.Status, n, err)
		}
	}
	b.ReportMetric((spent(b)-before).Seconds()/(float64(b.N)*size/1e9), "CPU-s/GB")
}

// spent is the time that this process has had from the processors.
func spent(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
