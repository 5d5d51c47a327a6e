package s3serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/uuid"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"
)

// The library goes by names: it follows every symbolic link, and opens what it
// finds, a named pipe until somebody writes to it. So each operation that reads,
// lists, writes or removes objects, or parts of one, is looked at first; see "What is an object" on top of
// the package.

// refusal is why what lies at a key is not served, or nothing can be put there.
type refusal string

func (r refusal) Error() string { return string(r) }

// file is a refusal if there is something at a key that is no object. Nothing and a directory
// are for the library to tell of.
func (b *bucket) file(bucket, key *string) error {
	path := filepath.Join(aws.ToString(bucket), aws.ToString(key))
	fi, err := b.root.Stat(path)
	if err != nil {
		return astray(path, err)
	}
	return special(path, fi)
}

// place is a refusal if something that is put at a key, or removed there, is outside.
func (b *bucket) place(bucket, key *string) error {
	dir := filepath.Dir(filepath.Join(aws.ToString(bucket), aws.ToString(key)))
	if _, err := b.root.Stat(dir); err != nil {
		return astray(dir, err)
	}
	return nil
}

// under is a refusal if the keys with a prefix are outside.
func (b *bucket) under(bucket, prefix *string) error {
	some := aws.ToString(prefix) + "x" // the prefix may end within a name
	return b.place(bucket, &some)
}

// source is a refusal if what is to be copied is no object.
func (b *bucket) source(header *string) error {
	bucket, key, _, err := backend.ParseCopySource(aws.ToString(header))
	if err != nil {
		return nil // the library says so
	}
	return b.file(&bucket, &key)
}

// upload is a refusal if id is none that CreateMultipartUpload has given: the library makes a path of it unseen.
func upload(id *string) error {
	if s := aws.ToString(id); len(s) != len(uuid.UUID{}.String()) || uuid.Validate(s) != nil {
		return s3err.GetNoSuchUploadErr(s)
	}
	return nil
}

// astray is a refusal if err is that of a path that leads nowhere inside.
func astray(path string, err error) error {
	switch {
	case strings.Contains(err.Error(), "path escapes from parent"): // os.Root's, not exported
		return refusal(path + ": a symbolic link leads out of the directory that is served, or is not relative; put the file there itself, or a hard link")
	case errors.Is(err, syscall.ELOOP):
		return refusal(path + ": symbolic links lead in a circle")
	}
	return nil // it is not there, or may not be read: the library finds that, too
}

// special is a refusal if a file is one that has no bytes of its own.
func special(path string, fi fs.FileInfo) error {
	kind := "a special file"
	switch mode := fi.Mode(); {
	case mode.IsRegular() || mode.IsDir():
		return nil
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	}
	return refusal(fmt.Sprintf("%s is %s, and only regular files are objects", path, kind))
}

// objects is how a list makes an object of a file, or leaves it out.
func (b *bucket) objects(bucket string, owner bool) backend.GetObjFunc {
	object := b.FileToObj(bucket, owner)
	return func(path string, d fs.DirEntry) (s3response.Object, error) {
		if d.IsDir() || d.Type().IsRegular() {
			return object(path, d)
		}
		fi, err := b.root.Stat(filepath.Join(bucket, path))
		if err != nil || !fi.Mode().IsRegular() {
			return s3response.Object{}, backend.ErrSkipObj
		}
		return object(path, fs.FileInfoToDirEntry(fi)) // with the size of what the link leads to
	}
}

func (b *bucket) ListObjects(ctx context.Context, in *s3.ListObjectsInput) (out s3response.ListObjectsResult, err error) {
	if err = b.under(in.Bucket, in.Prefix); err == nil {
		out, err = b.ListObjectsParametrized(ctx, in, b.objects)
	}
	return out, b.told("list", in.Bucket, in.Prefix, err)
}

func (b *bucket) ListObjectsV2(ctx context.Context, in *s3.ListObjectsV2Input) (out s3response.ListObjectsV2Result, err error) {
	if err = b.under(in.Bucket, in.Prefix); err == nil {
		out, err = b.ListObjectsV2Parametrized(ctx, in, b.objects)
	}
	return out, b.told("list", in.Bucket, in.Prefix, err)
}

func (b *bucket) ListObjectVersions(ctx context.Context, in *s3.ListObjectVersionsInput) (out s3response.ListVersionsResult, err error) {
	if err = b.under(in.Bucket, in.Prefix); err == nil {
		out, err = b.Posix.ListObjectVersions(ctx, in)
	}
	return out, b.told("list", in.Bucket, in.Prefix, err)
}

func (b *bucket) GetObjectAttributes(ctx context.Context, in *s3.GetObjectAttributesInput) (out s3response.GetObjectAttributesResponse, err error) {
	if err = b.file(in.Bucket, in.Key); err == nil {
		out, err = b.Posix.GetObjectAttributes(ctx, in)
	}
	return out, b.told("get attributes", in.Bucket, in.Key, err)
}

func (b *bucket) CopyObject(ctx context.Context, in s3response.CopyObjectInput) (out s3response.CopyObjectOutput, err error) {
	if err = cmp.Or(b.source(in.CopySource), b.place(in.Bucket, in.Key)); err == nil {
		out, err = b.Posix.CopyObject(ctx, in)
	}
	return out, b.told("copy", in.Bucket, in.Key, err)
}

func (b *bucket) UploadPartCopy(ctx context.Context, in *s3.UploadPartCopyInput) (out s3response.CopyPartResult, err error) {
	if err = cmp.Or(upload(in.UploadId), b.source(in.CopySource), b.place(in.Bucket, in.Key)); err == nil {
		out, err = b.Posix.UploadPartCopy(ctx, in)
	}
	return out, b.told("copy part", in.Bucket, in.Key, err)
}

func (b *bucket) CreateMultipartUpload(ctx context.Context, in s3response.CreateMultipartUploadInput) (out s3response.InitiateMultipartUploadResult, err error) {
	if err = b.place(in.Bucket, in.Key); err == nil {
		out, err = b.Posix.CreateMultipartUpload(ctx, in)
	}
	return out, b.told("create upload", in.Bucket, in.Key, err)
}

func (b *bucket) ListParts(ctx context.Context, in *s3.ListPartsInput) (out s3response.ListPartsResult, err error) {
	if err = cmp.Or(upload(in.UploadId), b.place(in.Bucket, in.Key)); err == nil {
		out, err = b.Posix.ListParts(ctx, in)
	}
	return out, b.told("list parts", in.Bucket, in.Key, err)
}

func (b *bucket) AbortMultipartUpload(ctx context.Context, in *s3.AbortMultipartUploadInput) (err error) {
	if err = cmp.Or(upload(in.UploadId), b.place(in.Bucket, in.Key)); err == nil {
		err = b.Posix.AbortMultipartUpload(ctx, in)
	}
	return b.told("abort upload", in.Bucket, in.Key, err)
}

func (b *bucket) DeleteObject(ctx context.Context, in *s3.DeleteObjectInput) (out *s3.DeleteObjectOutput, err error) {
	if err = b.place(in.Bucket, in.Key); err == nil {
		out, err = b.Posix.DeleteObject(ctx, in)
	}
	return out, b.told("delete", in.Bucket, in.Key, err)
}

// DeleteObjects removes nothing if one of the objects is outside.
func (b *bucket) DeleteObjects(ctx context.Context, in *s3.DeleteObjectsInput) (s3response.DeleteResult, error) {
	for _, o := range in.Delete.Objects {
		if err := b.place(in.Bucket, o.Key); err != nil {
			return s3response.DeleteResult{}, b.told("delete", in.Bucket, o.Key, err)
		}
	}
	out, err := b.Posix.DeleteObjects(ctx, in)
	return out, b.told("delete", in.Bucket, nil, err)
}

func (b *bucket) GetObjectTagging(ctx context.Context, bucket, object, version string) (tags map[string]string, err error) {
	if err = b.file(&bucket, &object); err == nil {
		tags, err = b.Posix.GetObjectTagging(ctx, bucket, object, version)
	}
	return tags, b.told("get tags", &bucket, &object, err)
}

func (b *bucket) PutObjectTagging(ctx context.Context, bucket, object, version string, tags map[string]string) (err error) {
	if err = b.file(&bucket, &object); err == nil {
		err = b.Posix.PutObjectTagging(ctx, bucket, object, version, tags)
	}
	return b.told("put tags", &bucket, &object, err)
}

func (b *bucket) DeleteObjectTagging(ctx context.Context, bucket, object, version string) (err error) {
	if err = b.file(&bucket, &object); err == nil {
		err = b.Posix.DeleteObjectTagging(ctx, bucket, object, version)
	}
	return b.told("delete tags", &bucket, &object, err)
}

func (b *bucket) GetObjectLegalHold(ctx context.Context, bucket, object, version string) (held *bool, err error) {
	if err = b.file(&bucket, &object); err == nil {
		held, err = b.Posix.GetObjectLegalHold(ctx, bucket, object, version)
	}
	return held, b.told("get hold", &bucket, &object, err)
}

func (b *bucket) PutObjectLegalHold(ctx context.Context, bucket, object, version string, held bool) (err error) {
	if err = b.file(&bucket, &object); err == nil {
		err = b.Posix.PutObjectLegalHold(ctx, bucket, object, version, held)
	}
	return b.told("put hold", &bucket, &object, err)
}

func (b *bucket) GetObjectRetention(ctx context.Context, bucket, object, version string) (retention []byte, err error) {
	if err = b.file(&bucket, &object); err == nil {
		retention, err = b.Posix.GetObjectRetention(ctx, bucket, object, version)
	}
	return retention, b.told("get retention", &bucket, &object, err)
}

func (b *bucket) PutObjectRetention(ctx context.Context, bucket, object, version string, retention []byte) (err error) {
	if err = b.file(&bucket, &object); err == nil {
		err = b.Posix.PutObjectRetention(ctx, bucket, object, version, retention)
	}
	return b.told("put retention", &bucket, &object, err)
}
