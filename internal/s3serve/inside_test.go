package s3serve

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// TestOnlyRegularFilesInside: what is no regular file below the directory is neither sent nor
// waited for nor listed, nothing is written or removed through a link that leads out, and who asks is told why in a line.
func TestOnlyRegularFilesInside(t *testing.T) {
	var log bytes.Buffer
	s, dir := start(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	c := dial(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // a pipe nobody writes to would keep us for ever
	defer cancel()

	outside, data := t.TempDir(), noise(5000)
	secret := filepath.Join(outside, "secret")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(secret, []byte("not yours"), 0o644))
	in := func(name string) string { return filepath.Join(dir, "b", name) }
	must(os.Mkdir(in("real"), 0o755))
	must(os.WriteFile(in("real/obj"), data, 0o644))
	must(syscall.Mkfifo(in("pipe"), 0o644))
	up, err := filepath.Rel(in(""), secret)
	must(err)
	for name, to := range map[string]string{
		"inside": "real/obj", "through": "real", "absolute": secret, "relative": up, "away": outside, "round": "round", "dangling": "nothing",
		"mine": filepath.Join(dir, "b", "real", "obj"), "../out": outside,
	} {
		must(os.Symlink(to, in(name)))
	}

	for _, key := range []string{"real/obj", "inside", "through/obj"} {
		dropped(t, c, key, data)
	}
	const out = "leads out of the directory that is served"
	for _, tt := range []struct{ bucket, key, why string }{
		{"b", "pipe", "b/pipe is a named pipe, and only regular files are objects"},
		{"b", "absolute", "b/absolute: a symbolic link " + out},
		{"b", "relative", out}, {"b", "away/secret", out}, {"b", "mine", out}, {"out", "secret", out},
		{"b", "round", "in a circle"},
	} {
		bucket, key := aws.String(tt.bucket), aws.String(tt.key)
		_, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: key})
		refused(t, "get "+tt.key, err, tt.why)
		if _, err := c.HeadObject(ctx, &s3.HeadObjectInput{Bucket: bucket, Key: key}); err == nil {
			t.Errorf("head %s: there is one", tt.key)
		}
		_, err = c.CopyObject(ctx, &s3.CopyObjectInput{Bucket: aws.String("b"), Key: aws.String("copy"), CopySource: aws.String(tt.bucket + "/" + tt.key)})
		refused(t, "copy "+tt.key, err, tt.why)
		_, err = c.GetObjectTagging(ctx, &s3.GetObjectTaggingInput{Bucket: bucket, Key: key})
		refused(t, "tags of "+tt.key, err, tt.why)
	}
	if _, err := get(ctx, c, "dangling", nil, 0, 1); code(err) != "NoSuchKey" {
		t.Errorf("a link that leads nowhere: got %v, want NoSuchKey", err)
	}
	if strings.Contains(log.String(), "level=ERROR") || strings.Count(log.String(), "pipe is a named pipe") < 3 {
		t.Errorf("the log:\n%s", &log)
	}

	list, err := c.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String("b")})
	must(err)
	var keys []string
	for _, o := range list.Contents {
		keys = append(keys, *o.Key)
		if *o.Size != int64(len(data)) {
			t.Errorf("%s is listed with %d bytes, want %d", *o.Key, *o.Size, len(data))
		}
	}
	if got := strings.Join(keys, " "); got != "inside real/obj" {
		t.Errorf("listed: %s; want inside real/obj", got)
	}
	for _, in := range []s3.ListObjectsV2Input{{Bucket: aws.String("b"), Prefix: aws.String("away/")}, {Bucket: aws.String("out")}} {
		_, err := c.ListObjectsV2(ctx, &in)
		refused(t, "list", err, out)
	}

	_, err = c.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("b"), Key: aws.String("away/new"), Body: bytes.NewReader(data)})
	refused(t, "put", err, out)
	_, err = c.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: aws.String("b"), Key: aws.String("away/new")})
	refused(t, "create upload", err, out)
	_, err = c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String("b"), Key: aws.String("away/secret")})
	refused(t, "delete", err, out)
	_, err = c.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: aws.String("b"), Delete: &types.Delete{Objects: []types.ObjectIdentifier{{Key: aws.String("real/obj")}, {Key: aws.String("away/secret")}}}})
	refused(t, "delete several", err, out)
	dropped(t, c, "real/obj", data)
	// A link and a pipe themselves can go, and be replaced.
	_, err = c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String("b"), Key: aws.String("absolute")})
	must(err)
	for _, key := range []string{"pipe", "relative"} {
		_, err = c.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("b"), Key: aws.String(key), Body: bytes.NewReader(data)})
		must(err)
		if got, err := get(ctx, c, key, nil, 0, len(data)); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s, which was replaced: %d bytes, %v", key, len(got), err)
		}
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != "not yours" {
		t.Errorf("the file outside holds %q, %v", b, err)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
		t.Errorf("outside: %v, %v", left, err)
	}
}

// refused checks that err is the server's refusal, with a line that says why.
func refused(t *testing.T, what string, err error, why string) {
	t.Helper()
	if code(err) != "InvalidRequest" || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: got %v, want InvalidRequest, since %q", what, err, why)
	}
}
