package s3serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"
)

// bucket is the posix backend with bodies that are certainly of the version
// that the reply names, and that a conn can send without copying.
type bucket struct {
	*posix.Posix
	root  *os.Root // the directory that is served
	attrs pins
	bytes *atomic.Int64 // of bodies, sent
	log   *slog.Logger
}

// told is err as clients are told of it. What is none of S3's own errors, such as
// a file that cannot be read, is logged here: the library would print it on
// standard error, past the log.
func (b *bucket) told(op string, bucket, key *string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := err.(s3err.S3Error); ok { // as the library looks at it: not what is wrapped
		return err
	}
	b.log.Warn("S3 server", "op", op, "bucket", aws.ToString(bucket), "key", aws.ToString(key), "err", err)
	if why, ok := err.(refusal); ok { // nobody has to look at our log for it
		return s3err.APIError{Code: "InvalidRequest", Description: why.Error(), HTTPStatusCode: http.StatusBadRequest}
	}
	return s3err.GetAPIError(s3err.ErrInternalError)
}

func (b *bucket) HeadObject(ctx context.Context, in *s3.HeadObjectInput) (out *s3.HeadObjectOutput, err error) {
	if err = b.file(in.Bucket, in.Key); err == nil {
		out, err = b.Posix.HeadObject(ctx, in)
	}
	return out, b.told("head", in.Bucket, in.Key, err)
}

func (b *bucket) PutObject(ctx context.Context, in s3response.PutObjectInput) (out s3response.PutObjectOutput, err error) {
	if err = b.place(in.Bucket, in.Key); err == nil {
		out, err = b.Posix.PutObject(ctx, in)
	}
	return out, b.told("put", in.Bucket, in.Key, err)
}

func (b *bucket) UploadPart(ctx context.Context, in *s3.UploadPartInput) (out *s3.UploadPartOutput, err error) {
	if err = cmp.Or(upload(in.UploadId), b.place(in.Bucket, in.Key)); err == nil {
		out, err = b.Posix.UploadPart(ctx, in)
	}
	return out, b.told("upload part", in.Bucket, in.Key, err)
}

func (b *bucket) CompleteMultipartUpload(ctx context.Context, in *s3.CompleteMultipartUploadInput) (out s3response.CompleteMultipartUploadResult, version string, err error) {
	if err = cmp.Or(upload(in.UploadId), b.place(in.Bucket, in.Key)); err == nil {
		out, version, err = b.Posix.CompleteMultipartUpload(ctx, in)
	}
	return out, version, b.told("complete upload", in.Bucket, in.Key, err)
}

// GetObject lets posix decide about permission, conditions and range, and then
// opens the file itself: posix looks at the ETag and opens the file one after
// the other, and between the two the object may be replaced.
func (b *bucket) GetObject(ctx context.Context, in *s3.GetObjectInput) (*s3.GetObjectOutput, error) {
	out, err := b.get(ctx, in)
	return out, b.told("get", in.Bucket, in.Key, err)
}

func (b *bucket) get(ctx context.Context, in *s3.GetObjectInput) (*s3.GetObjectOutput, error) {
	if err := b.file(in.Bucket, in.Key); err != nil {
		return nil, err
	}
	for range 3 {
		out, err := b.Posix.GetObject(ctx, in)
		if err != nil || out.Body == nil {
			return out, err
		}
		out.Body.Close()
		body, err := b.open(*in.Bucket, *in.Key, out)
		if err != nil {
			return nil, err
		}
		if body != nil {
			out.Body = body
			return out, nil
		}
	}
	return nil, s3err.GetAPIError(s3err.ErrSlowDown)
}

// open returns what out announces, or nil if the file is another by now.
func (b *bucket) open(bucket, key string, out *s3.GetObjectOutput) (*body, error) {
	path := filepath.Join(bucket, key)
	f, err := b.root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe that has come meanwhile would block
	if errors.Is(err, fs.ErrNotExist) {
		return nil, s3err.GetAPIError(s3err.ErrNoSuchKey)
	}
	if err != nil {
		return nil, cmp.Or(astray(path, err), fmt.Errorf("open object %s: %w", path, err))
	}
	fi, err := f.Stat()
	if err == nil {
		err = special(path, fi)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	etag, err := b.attrs.RetrieveAttribute(f, bucket, key, attrETag)
	if err != nil || string(etag) != *out.ETag {
		f.Close()
		return nil, nil
	}
	var off int64
	if out.ContentRange != nil {
		if _, err := fmt.Sscanf(*out.ContentRange, "bytes %d-", &off); err != nil {
			f.Close()
			return nil, fmt.Errorf("range %q of %s/%s: %w", *out.ContentRange, bucket, key, err)
		}
	}
	if _, err := f.Seek(off, io.SeekStart); err != nil {
		f.Close()
		return nil, fmt.Errorf("seek in object %s/%s: %w", bucket, key, err)
	}
	return &body{f: f, left: *out.ContentLength, sent: b.bytes}, nil
}

// body is a stretch of a file, from the file's own position on.
type body struct {
	f    *os.File
	left int64
	sent *atomic.Int64
}

func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.f.Read(p[:min(int64(len(p)), b.left)])
	b.took(int64(n))
	return n, err
}

func (b *body) took(n int64) {
	b.left -= n
	b.sent.Add(n)
}

func (b *body) Close() error { return b.f.Close() }
