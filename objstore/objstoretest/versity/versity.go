// Package versity runs versitygw, an S3 server that is not ours, for tests:
// as a process of its own, over a directory, on a loopback port.
package versity

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is a running versitygw.
type Server struct {
	Endpoint  string // http://127.0.0.1:port
	AccessKey string
	SecretKey string
	Region    string
	Dir       string // holds a directory for each bucket
}

const starting = time.Minute

// tool is the path of the program, built once a process.
var tool = sync.OnceValues(func() (string, error) {
	const module = "github.com/versity/versitygw/cmd/versitygw"
	var stderr bytes.Buffer
	cmd := exec.Command("go", "tool", "-n", module)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	path := strings.TrimSpace(string(out))
	if err != nil {
		return "", fmt.Errorf("go tool -n %s: %v\n%s", module, err, stderr.Bytes())
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("go tool -n %s: %v", module, err)
	}
	return path, nil
})

// Start starts a server and kills it at the end of the test. A server that
// cannot be had fails the test.
func Start(t testing.TB) *Server {
	t.Helper()
	path, err := tool()
	if err != nil {
		t.Fatal(err)
	}
	var last error
	for range 3 { // another process may take the port between our looking and its listening
		s, err := start(t, path)
		if err == nil {
			return s
		}
		last = err
	}
	t.Fatal(last)
	return nil
}

func start(t testing.TB, path string) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	l.Close()

	base := t.TempDir()
	s := &Server{
		Endpoint:  "http://" + address,
		AccessKey: "freshet-test",
		SecretKey: "freshet-test-secret",
		Region:    "us-east-1",
		Dir:       filepath.Join(base, "buckets"),
	}
	sidecar := filepath.Join(base, "sidecar") // not every file system of a test machine has extended attributes
	versions := filepath.Join(base, "versions")
	for _, dir := range []string{s.Dir, sidecar, versions} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
	}
	var output lockedBuffer
	cmd := exec.Command(path, "--port", address, "--access", s.AccessKey, "--secret", s.SecretKey, "--region", s.Region,
		"--health", "/health", "--quiet", "posix", "--sidecar", sidecar, "--versioning-dir", versions, s.Dir)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + base, "TMPDIR=" + base}
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	exited := make(chan struct{})
	var exit error
	go func() { exit = cmd.Wait(); close(exited) }()
	stop := func() { cmd.Process.Kill(); <-exited }

	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for deadline := time.Now().Add(starting); ; {
		if r, err := client.Get(s.Endpoint + "/health"); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				t.Cleanup(stop)
				return s, nil
			}
		}
		select {
		case <-exited:
			return nil, fmt.Errorf("versitygw ended at once: %v\n%s", exit, output.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			stop()
			return nil, fmt.Errorf("versitygw did not answer within %v\n%s", starting, output.String())
		}
	}
}

// MakeBucket makes an empty bucket.
func (s *Server) MakeBucket(t testing.TB, name string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(s.Dir, name), 0o755); err != nil {
		t.Fatal(err)
	}
}

// Env is the server's credentials and region as the AWS SDK and tools read
// them from the environment, with everything shut out that they would look
// for elsewhere.
func (s *Server) Env() []string {
	return []string{
		"AWS_ACCESS_KEY_ID=" + s.AccessKey,
		"AWS_SECRET_ACCESS_KEY=" + s.SecretKey,
		"AWS_REGION=" + s.Region,
		"AWS_EC2_METADATA_DISABLED=true",
		"AWS_CONFIG_FILE=" + os.DevNull,
		"AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull,
	}
}

// Setenv sets Env for the test.
func (s *Server) Setenv(t *testing.T) {
	t.Helper()
	for _, e := range s.Env() {
		name, value, _ := strings.Cut(e, "=")
		t.Setenv(name, value)
	}
}

type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
