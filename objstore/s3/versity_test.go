package s3_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/objstoretest"
	"github.com/freshet/freshet/objstore/objstoretest/versity"
	"github.com/freshet/freshet/objstore/s3"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// open opens a bucket, all other things being as the environment says.
func open(t *testing.T, c s3.Config) *s3.Store {
	t.Helper()
	s, err := s3.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// client is the SDK's own client for the server.
func client(v *versity.Server) *sdk.Client {
	return sdk.New(sdk.Options{
		Region: v.Region, BaseEndpoint: &v.Endpoint, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(v.AccessKey, v.SecretKey, ""),
	})
}

func TestConformance(t *testing.T) {
	v := versity.Start(t)
	v.Setenv(t)
	n := 0
	bucket := ""
	objstoretest.Run(t, objstoretest.Harness{
		Open: func(t *testing.T) objstore.Store {
			n++
			bucket = fmt.Sprintf("bucket-%d", n)
			v.MakeBucket(t, bucket)
			return open(t, s3.Config{Bucket: bucket, Endpoint: v.Endpoint, PartSize: 5 * unit.MiB})
		},
		Checksum: piece.CRC64NVME,
		Big:      11 * unit.MiB, // three parts
		Keys:     1200,
		Debris: func(t *testing.T) (left []string) {
			out, err := client(v).ListMultipartUploads(t.Context(), &sdk.ListMultipartUploadsInput{Bucket: &bucket})
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range out.Uploads {
				left = append(left, *u.Key)
			}
			filepath.WalkDir(filepath.Join(v.Dir, bucket), func(path string, e fs.DirEntry, err error) error {
				if err == nil && e.Type().IsRegular() && strings.Contains(path, ".sgwtmp") {
					left = append(left, path)
				}
				return nil
			})
			return left
		},
	})
}

func TestRefused(t *testing.T) {
	v := versity.Start(t)
	v.Setenv(t)
	v.MakeBucket(t, "bucket")
	for _, tt := range []struct {
		name string
		c    s3.Config
		want error
		text string
	}{
		{"no such bucket", s3.Config{Bucket: "nowhere"}, objstore.ErrNotExist, "s3://nowhere/"},
		{"wrong secret", s3.Config{Bucket: "bucket", Credentials: credentials.NewStaticCredentialsProvider(v.AccessKey, "wrong", "")}, objstore.ErrDenied, "s3://bucket/"},
		{"anonymous", s3.Config{Bucket: "bucket", Anonymous: true}, objstore.ErrDenied, "s3://bucket/"},
	} {
		tt.c.Endpoint = v.Endpoint
		s := open(t, tt.c)
		_, statErr := s.Stat(t.Context(), "object")
		_, readErr := s.ReadRange(t.Context(), objstore.Object{Key: "object", Size: 10, Version: `"x"`, Ranges: true}, 0, 10)
		_, putErr := s.Put(t.Context(), "object", strings.NewReader("x"), 1)
		_, bigErr := s.Put(t.Context(), "object", bytes.NewReader(make([]byte, 9<<20)), 9<<20)
		var listErr error
		for _, err := range s.List(t.Context(), "") {
			listErr = err
		}
		for _, err := range []error{statErr, readErr, putErr, bigErr, listErr} {
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), v.SecretKey) {
				t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
			}
		}
	}
}

// What other tools put: other digests, parts of any size, digests of parts.
func TestForeignChecksums(t *testing.T) {
	v := versity.Start(t)
	v.Setenv(t)
	v.MakeBucket(t, "bucket")
	c, s := client(v), open(t, s3.Config{Bucket: "bucket", Endpoint: v.Endpoint})
	bucket := aws.String("bucket")

	data := objstoretest.Bytes(1, 12*unit.MiB+17)
	for _, a := range []types.ChecksumAlgorithm{
		types.ChecksumAlgorithmCrc64nvme, types.ChecksumAlgorithmCrc32c, types.ChecksumAlgorithmCrc32, types.ChecksumAlgorithmSha256,
	} {
		key := "plain-" + string(a)
		if _, err := c.PutObject(t.Context(), &sdk.PutObjectInput{Bucket: bucket, Key: &key, Body: bytes.NewReader(data), ChecksumAlgorithm: a}); err != nil {
			t.Fatal(err)
		}
		o, err := s.Stat(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		var want piece.Checksum
		if alg := piece.Algorithm(a); alg.Valid() {
			want = piece.Checksum{Algorithm: alg, Value: alg.Encode(alg.Update(0, data))}
		}
		if o.Checksum != want {
			t.Errorf("%s: got %+v, want %+v", key, o.Checksum, want)
		}
	}

	for _, tt := range []struct {
		name  string
		sizes []int
		part  unit.Bytes // what Stat should find; 0: no checksum
	}{
		{"one part", []int{5 << 20}, 5 * unit.MiB},
		{"even", []int{6 << 20, 6 << 20}, 6 * unit.MiB},
		{"short last", []int{5 << 20, 5 << 20, 100}, 5 * unit.MiB},
		{"uneven", []int{5 << 20, 6 << 20, 100}, 0},
		{"long last", []int{5 << 20, 7 << 20}, 0},
	} {
		key := "parts-" + tt.name
		total := putParts(t, c, key, data, tt.sizes)
		o, err := s.Stat(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if tt.part == 0 {
			if o.Checksum != (piece.Checksum{}) {
				t.Errorf("%s: got %+v, want none", key, o.Checksum)
			}
			continue
		}
		if o.Checksum.Algorithm != piece.CRC32C || o.Checksum.Part != tt.part {
			t.Errorf("%s: got %+v, want parts of %v", key, o.Checksum, tt.part)
			continue
		}
		l := piece.Layout{Size: total, Piece: unit.MiB}
		var sums []uint64
		for i := range l.Count() {
			off, n := l.Span(i)
			sums = append(sums, piece.CRC32C.Update(0, data[off:off+n]))
		}
		if !o.Checksum.Usable(l) {
			t.Errorf("%s: %+v is of no use", key, o.Checksum)
		} else if err := o.Checksum.Verify(l, sums); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		r, err := s.ReadRange(t.Context(), o, 0, o.Size)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data[:total]) {
			t.Errorf("%s: read %d bytes, %v", key, len(got), err)
		}
		r.Close()
	}
}

// putParts uploads a prefix of data in parts of the given sizes, with a
// composite CRC32C.
func putParts(t *testing.T, c *sdk.Client, key string, data []byte, sizes []int) (total unit.Bytes) {
	t.Helper()
	bucket := aws.String("bucket")
	up, err := c.CreateMultipartUpload(t.Context(), &sdk.CreateMultipartUploadInput{
		Bucket: bucket, Key: &key, ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c, ChecksumType: types.ChecksumTypeComposite,
	})
	if err != nil {
		t.Fatal(err)
	}
	var parts []types.CompletedPart
	for i, n := range sizes {
		number := aws.Int32(int32(i + 1))
		out, err := c.UploadPart(t.Context(), &sdk.UploadPartInput{
			Bucket: bucket, Key: &key, UploadId: up.UploadId, PartNumber: number,
			Body: bytes.NewReader(data[total : int(total)+n]), ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c,
		})
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, types.CompletedPart{PartNumber: number, ETag: out.ETag, ChecksumCRC32C: out.ChecksumCRC32C})
		total += unit.Bytes(n)
	}
	if _, err := c.CompleteMultipartUpload(t.Context(), &sdk.CompleteMultipartUploadInput{
		Bucket: bucket, Key: &key, UploadId: up.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	}); err != nil {
		t.Fatal(err)
	}
	return total
}

// In a versioned bucket the pinned version stays readable after the object
// was replaced and even removed.
func TestVersioned(t *testing.T) {
	v := versity.Start(t)
	v.Setenv(t)
	c, s := client(v), open(t, s3.Config{Bucket: "bucket", Endpoint: v.Endpoint})
	bucket, key := aws.String("bucket"), "a/object"
	if _, err := c.CreateBucket(t.Context(), &sdk.CreateBucketInput{Bucket: bucket}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PutBucketVersioning(t.Context(), &sdk.PutBucketVersioningInput{
		Bucket: bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
	}); err != nil {
		t.Fatal(err)
	}
	old := objstoretest.Bytes(1, 10*unit.MiB)
	first, err := s.Put(t.Context(), key, bytes.NewReader(old), unit.Bytes(len(old)))
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.Put(t.Context(), key, strings.NewReader("new"), 3)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(first.Version, " ") || first.Version == second.Version {
		t.Errorf("versions %q and %q", first.Version, second.Version)
	}
	for _, removed := range []bool{false, true} {
		if removed {
			if _, err := c.DeleteObject(t.Context(), &sdk.DeleteObjectInput{Bucket: bucket, Key: &key}); err != nil {
				t.Fatal(err)
			}
		}
		r, err := s.ReadRange(t.Context(), first, 5000, 6*unit.MiB)
		if err != nil {
			t.Fatalf("removed %v: %v", removed, err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, old[5000:5000+6*unit.MiB]) {
			t.Errorf("removed %v: read %d bytes, %v", removed, len(got), err)
		}
		r.Close()
	}
	if _, err := s.Stat(t.Context(), key); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("got %v, want %v", err, objstore.ErrNotExist)
	}
	versionID, _, _ := strings.Cut(first.Version, " ")
	if _, err := c.DeleteObject(t.Context(), &sdk.DeleteObjectInput{Bucket: bucket, Key: &key, VersionId: &versionID}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ReadRange(t.Context(), first, 0, 10); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("a version that was removed: got %v, want %v", err, objstore.ErrNotExist)
	}
}
