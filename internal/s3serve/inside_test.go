package s3serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// TestUploadsStayInside: who has the keys neither removes, renames, reads nor writes into another directory by the id of an upload that
// leads there, and an upload's own id does what it is for.
func TestUploadsStayInside(t *testing.T) {
	s, dir := start(t, nil)
	c := dial(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	bucket, key := aws.String("b"), aws.String("obj")
	made, err := c.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: bucket, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	for _, victim := range []string{filepath.Join(dir, "..", "victim"), filepath.Join(dir, "b", "kept")} {
		if err := os.Mkdir(victim, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(victim, "1"), []byte("not yours"), 0o644); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(*key)) // where the library has an object's uploads
		way, err := filepath.Rel(filepath.Join(dir, "b", ".sgwtmp", "multipart", hex.EncodeToString(sum[:])), victim)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{way, *made.UploadId + "/../" + way, ".", "..", "{" + *made.UploadId + "}"} {
			id := aws.String(id)
			_, part := c.UploadPart(ctx, &s3.UploadPartInput{Bucket: bucket, Key: key, UploadId: id, PartNumber: aws.Int32(1), Body: strings.NewReader("mine")})
			_, from := c.UploadPartCopy(ctx, &s3.UploadPartCopyInput{Bucket: bucket, Key: key, UploadId: id, PartNumber: aws.Int32(1), CopySource: aws.String("b/kept/1")})
			_, list := c.ListParts(ctx, &s3.ListPartsInput{Bucket: bucket, Key: key, UploadId: id})
			_, whole := c.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
				Bucket: bucket, Key: key, UploadId: id, MultipartUpload: &types.CompletedMultipartUpload{Parts: []types.CompletedPart{{PartNumber: aws.Int32(1), ETag: aws.String("x")}}},
			})
			_, gone := c.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: bucket, Key: key, UploadId: id})
			for what, err := range map[string]error{"upload a part": part, "copy a part": from, "list parts": list, "complete": whole, "abort": gone} {
				if code(err) != "NoSuchUpload" {
					t.Errorf("%s with the id %s: got %v, want NoSuchUpload", what, *id, err)
				}
			}
		}
		if b, err := os.ReadFile(filepath.Join(victim, "1")); err != nil || string(b) != "not yours" {
			t.Errorf("%s/1 holds %q, %v", victim, b, err)
		}
	}
	if _, err := c.UploadPart(ctx, &s3.UploadPartInput{Bucket: bucket, Key: key, UploadId: made.UploadId, PartNumber: aws.Int32(1), Body: strings.NewReader("mine")}); err != nil {
		t.Error(err)
	}
	if parts, err := c.ListParts(ctx, &s3.ListPartsInput{Bucket: bucket, Key: key, UploadId: made.UploadId}); err != nil || len(parts.Parts) != 1 {
		t.Errorf("parts: %v, %v", parts, err)
	}
	if _, err := c.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: bucket, Key: key, UploadId: made.UploadId}); err != nil {
		t.Error(err)
	}
}

// refused checks that err is the server's refusal, with a line that says why.
func refused(t *testing.T, what string, err error, why string) {
	t.Helper()
	if code(err) != "InvalidRequest" || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: got %v, want InvalidRequest, since %q", what, err, why)
	}
}
