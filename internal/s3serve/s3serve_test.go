package s3serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/freshet/freshet/objstore/limit"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// start serves a new directory with one bucket, b, and returns it.
func start(t *testing.T, change func(*Config)) (*Server, string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Dir: dir, Listen: "127.0.0.1:0"}
	if change != nil {
		change(&cfg)
	}
	s, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s, dir
}

// dial returns a client with connections of its own.
func dial(t *testing.T, s *Server) *s3.Client {
	t.Helper()
	access, secret := s.Keys()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(s.Endpoint()), UsePathStyle: true, Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider(access, secret, ""),
		HTTPClient:  &http.Client{Transport: tr}, RetryMaxAttempts: 1,
	})
}

func noise(n int) []byte {
	b := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{1})
	rng.Read(b)
	return b
}

func TestObjects(t *testing.T) { objects(t, nil) }

// On a file system without extended attributes everything must be the same,
// and no attribute is in the directory itself.
func TestObjectsWithAttributesBeside(t *testing.T) { objects(t, func(c *Config) { c.beside = true }) }

func objects(t *testing.T, change func(*Config)) {
	s, dir := start(t, change)
	c, ctx := dial(t, s), t.Context()
	data := noise(3<<20 + 17)
	sum := piece.CRC64NVME.Encode(piece.CRC64NVME.Update(0, data))

	put, err := c.PutObject(ctx, &s3.PutObjectInput{
		Bucket: aws.String("b"), Key: aws.String("dir/obj"), Body: bytes.NewReader(data),
		ChecksumAlgorithm: types.ChecksumAlgorithmCrc64nvme,
	})
	if err != nil {
		t.Fatal(err)
	}
	head, err := c.HeadObject(ctx, &s3.HeadObjectInput{
		Bucket: aws.String("b"), Key: aws.String("dir/obj"), ChecksumMode: types.ChecksumModeEnabled,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := aws.ToString(head.ChecksumCRC64NVME); got != sum || head.ChecksumType != types.ChecksumTypeFullObject {
		t.Errorf("HEAD: checksum %q of type %q, want %q FULL_OBJECT", got, head.ChecksumType, sum)
	}
	if aws.ToString(head.ETag) != aws.ToString(put.ETag) || aws.ToInt64(head.ContentLength) != int64(len(data)) {
		t.Errorf("HEAD: %q, %d bytes; PUT said %q of %d", *head.ETag, *head.ContentLength, *put.ETag, len(data))
	}

	// Ranges, pinned.
	for _, r := range [][2]int{{0, 1}, {0, len(data)}, {1 << 20, 1 << 20}, {len(data) - 3, 3}} {
		got, err := get(ctx, c, "dir/obj", head.ETag, r[0], r[1])
		if err != nil || !bytes.Equal(got, data[r[0]:r[0]+r[1]]) {
			t.Errorf("GET [%d, +%d): %d bytes, %v", r[0], r[1], len(got), err)
		}
	}
	if _, err := get(ctx, c, "dir/obj", aws.String(`"other"`), 0, 1); code(err) != "PreconditionFailed" {
		t.Errorf("GET with an ETag that is not the object's: got %v, want PreconditionFailed", err)
	}
	if got, want := s.Bytes(), unit.Bytes(1+len(data)+1<<20+3); got != want {
		t.Errorf("Bytes() = %d, want %d", got, want)
	}

	// Overwritten behind the server's back, in place: another ETag, no checksum.
	path := filepath.Join(dir, "b", "dir", "obj")
	if err := os.WriteFile(path, data[:1000], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := get(ctx, c, "dir/obj", head.ETag, 0, 1); code(err) != "PreconditionFailed" {
		t.Errorf("GET with the former ETag: got %v, want PreconditionFailed", err)
	}
	dropped(t, c, "dir/obj", data[:1000])

	// Dropped in by hand, empty ones too.
	for key, n := range map[string]int{"hand": 4097, "empty": 0} {
		if err := os.WriteFile(filepath.Join(dir, "b", key), data[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		dropped(t, c, key, data[:n])
	}

	// Multipart, with the checksum of the whole.
	multipart(t, c, "parts", data, 5<<20)
	multipart(t, c, "parts", noise(11<<20), 5<<20)

	list, err := c.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String("b")})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, o := range list.Contents {
		keys = append(keys, fmt.Sprintf("%s %d", *o.Key, *o.Size))
		if aws.ToString(o.ETag) == "" {
			t.Errorf("LIST: no ETag for %s", *o.Key)
		}
	}
	if got, want := strings.Join(keys, ", "), fmt.Sprintf("dir/obj 1000, empty 0, hand 4097, parts %d", 11<<20); got != want {
		t.Errorf("LIST: %s; want %s", got, want)
	}
	if _, err := c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String("b"), Key: aws.String("parts")}); err != nil {
		t.Error(err)
	}
	if _, err := get(ctx, c, "parts", nil, 0, 1); code(err) != "NoSuchKey" {
		t.Errorf("GET of a deleted object: got %v, want NoSuchKey", err)
	}
}

// dropped checks an object that did not come by PUT.
func dropped(t *testing.T, c *s3.Client, key string, want []byte) {
	t.Helper()
	head, err := c.HeadObject(t.Context(), &s3.HeadObjectInput{
		Bucket: aws.String("b"), Key: aws.String(key), ChecksumMode: types.ChecksumModeEnabled,
	})
	if err != nil {
		t.Fatalf("HEAD %s: %v", key, err)
	}
	if aws.ToString(head.ETag) == "" || head.ChecksumCRC64NVME != nil || head.LastModified == nil {
		t.Errorf("HEAD %s: ETag %q, checksum %q", key, aws.ToString(head.ETag), aws.ToString(head.ChecksumCRC64NVME))
	}
	if len(want) > 0 {
		got, err := get(t.Context(), c, key, head.ETag, 0, len(want))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("GET %s: %d bytes, %v", key, len(got), err)
		}
	}
}

func multipart(t *testing.T, c *s3.Client, key string, data []byte, part int) {
	t.Helper()
	ctx, b, k := t.Context(), aws.String("b"), aws.String(key)
	up, err := c.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
		Bucket: b, Key: k, ChecksumAlgorithm: types.ChecksumAlgorithmCrc64nvme, ChecksumType: types.ChecksumTypeFullObject,
	})
	if err != nil {
		t.Fatal(err)
	}
	var parts []types.CompletedPart
	for i := 0; i*part < len(data); i++ {
		p, err := c.UploadPart(ctx, &s3.UploadPartInput{
			Bucket: b, Key: k, UploadId: up.UploadId, PartNumber: aws.Int32(int32(i + 1)),
			Body: bytes.NewReader(data[i*part : min(len(data), (i+1)*part)]), ChecksumAlgorithm: types.ChecksumAlgorithmCrc64nvme,
		})
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, types.CompletedPart{ETag: p.ETag, PartNumber: aws.Int32(int32(i + 1)), ChecksumCRC64NVME: p.ChecksumCRC64NVME})
	}
	if _, err := c.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: b, Key: k, UploadId: up.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	}); err != nil {
		t.Fatal(err)
	}
	head, err := c.HeadObject(ctx, &s3.HeadObjectInput{Bucket: b, Key: k, ChecksumMode: types.ChecksumModeEnabled})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := aws.ToString(head.ChecksumCRC64NVME), piece.CRC64NVME.Encode(piece.CRC64NVME.Update(0, data)); got != want {
		t.Errorf("%d parts: checksum %q, want %q", len(parts), got, want)
	}
	if got, err := get(ctx, c, key, head.ETag, 0, len(data)); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d parts: got %d bytes, %v", len(parts), len(got), err)
	}
}

func get(ctx context.Context, c *s3.Client, key string, etag *string, off, n int) ([]byte, error) {
	out, err := c.GetObject(ctx, &s3.GetObjectInput{
		Bucket: aws.String("b"), Key: aws.String(key), IfMatch: etag, Range: aws.String(fmt.Sprintf("bytes=%d-%d", off, off+n-1)),
	})
	if err != nil {
		return nil, err
	}
	defer out.Body.Close()
	if etag != nil && aws.ToString(out.ETag) != *etag {
		return nil, fmt.Errorf("reply's ETag is %q, asked for %q", aws.ToString(out.ETag), *etag)
	}
	return io.ReadAll(out.Body)
}

func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return fmt.Sprint(err)
}

// Two connections finish in the ratio of the rates drawn for them, and a
// server reseeded gives the same rates again.
func TestRates(t *testing.T) {
	rates, err := limit.ParseDistribution("50%:2MB/s-4MB/s,50%:10MB/s-14MB/s")
	if err != nil {
		t.Fatal(err)
	}
	// A seed whose first two draws lie far apart.
	seed := uint64(0)
	for ; ; seed++ {
		rng := limit.Rand(seed)
		if a, b := rates.Draw(rng), rates.Draw(rng); a > 3*b {
			break
		}
	}
	s, dir := start(t, func(c *Config) { c.PerConnection, c.Seed = rates, seed })
	data := noise(4 << 20)
	if err := os.WriteFile(filepath.Join(dir, "b", "obj"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	var drawn [2][]unit.Bandwidth
	var least [2]time.Duration // of both runs: the machine may be late with one
	for run := range drawn {
		s.Reseed(seed)
		before := len(s.Connections())
		var took [2]time.Duration
		done := make(chan int)
		for i := range took {
			c := dial(t, s)
			if _, err := get(t.Context(), c, "obj", nil, 0, 1); err != nil { // the connection is open, and the order is known
				t.Fatal(err)
			}
			go func() {
				defer func() { done <- i }()
				began := time.Now()
				got, err := get(t.Context(), c, "obj", nil, 0, len(data))
				if took[i] = time.Since(began); err != nil || sha256.Sum256(got) != sha256.Sum256(data) {
					t.Errorf("got %d bytes, %v", len(got), err)
				}
			}()
		}
		<-done
		<-done
		conns := s.Connections()[before:]
		if len(conns) != 2 {
			t.Fatalf("%d connections, want 2", len(conns))
		}
		for _, c := range conns {
			drawn[run] = append(drawn[run], c.Rate)
			if c.Bytes < unit.Bytes(len(data)) || c.Bytes > unit.Bytes(len(data)+8192) {
				t.Errorf("%d bytes left on %s, want a little over %d", c.Bytes, c.Remote, len(data))
			}
		}
		for i, d := range took {
			if run == 0 || d < least[i] {
				least[i] = d
			}
		}
	}
	if drawn[0][0] != drawn[1][0] || drawn[0][1] != drawn[1][1] {
		t.Errorf("rates %v, after Reseed %v", drawn[0], drawn[1])
	}
	if got, want := float64(least[1])/float64(least[0]), float64(drawn[0][0]/drawn[0][1]); got < want/1.5 || got > want*1.5 {
		t.Errorf("at %v took %v: a ratio of %.2f, want %.2f", drawn[0], least, got, want)
	}
}

func TestRefusals(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		cfg  Config
		want string
	}{
		{Config{Dir: filepath.Join(dir, "none"), Listen: "127.0.0.1:0"}, "no such file"},
		{Config{Dir: file, Listen: "127.0.0.1:0"}, "not a directory"},
		{Config{Dir: dir, Listen: busy.Addr().String()}, "address already in use"},
		{Config{Dir: dir, Listen: "127.0.0.1:0", AccessKey: "a"}, "together"},
	} {
		s, err := Start(t.Context(), tt.cfg)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Start(%+v): got %v, want one line with %q", tt.cfg, err, tt.want)
		}
	}
	s, _ := start(t, nil)
	if _, err := Start(t.Context(), Config{Dir: dir, Listen: "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), "already serves") {
		t.Errorf("second server: got %v", err)
	}
	resp, err := http.Get(s.Endpoint() + "/b/x")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("unsigned request: got %s, want 403", resp.Status)
	}
}

// After Close, in the middle of a transfer, nothing is left: no goroutine, no
// socket, no temporary directory, and the current directory is the old one.
// Nothing was printed.
func TestNothingLeft(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	before, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	goroutines := len(living())
	stdout, stderr := os.Stdout, os.Stderr
	said, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout, os.Stderr = said, said
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "b", "obj"), noise(8<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s, err := Start(ctx, Config{Dir: dir, Listen: "127.0.0.1:0", Total: unit.MBps})
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, s)
	failed := make(chan error)
	go func() {
		_, err := get(t.Context(), c, "obj", nil, 0, 8<<20)
		failed <- err
	}()
	for s.Bytes() < 100_000 {
		time.Sleep(time.Millisecond)
	}
	cancel() // as good as Close
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := <-failed; err == nil {
		t.Error("the transfer was not cut off")
	}
	if b, err := os.ReadFile(said.Name()); err != nil || len(b) > 0 {
		t.Errorf("printed %q, %v", b, err)
	}
	said.Close()
	if _, err := net.Dial("tcp", s.Addr().String()); err == nil {
		t.Error("the address still answers")
	}
	if got, _ := os.Getwd(); got != before {
		t.Errorf("current directory is %s, was %s", got, before)
	}
	if left, _ := os.ReadDir(tmp); len(left) != 0 {
		t.Errorf("left in the temporary directory: %v", left)
	}
	c.Options().HTTPClient.(*http.Client).CloseIdleConnections()
	deadline := time.Now().Add(10 * time.Second)
	for len(living()) > goroutines && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if now := living(); len(now) > goroutines {
		t.Errorf("%d goroutines, were %d:\n%s", len(now), goroutines, strings.Join(now, "\n\n"))
	}
}

// living is the stacks of all goroutines, without those that fasthttp lets
// sleep until they find that their pool is gone.
func living() (stacks []string) {
	buf := make([]byte, 1<<20)
	for _, s := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if !strings.Contains(s, "fasthttp.(*workerPool).Start") {
			stacks = append(stacks, s)
		}
	}
	return stacks
}
