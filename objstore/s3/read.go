package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/internal/httpwire"
	"github.com/freshet/freshet/objstore/internal/ranged"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// A version token is the ETag with its quotes or, in a versioned bucket, the
// version id, a space and the ETag.
func version(etag, id *string) string {
	tag := aws.ToString(etag)
	if tag != "" && !strings.HasSuffix(tag, `"`) {
		tag = `"` + tag + `"` // some servers leave the quotes out
	}
	// "null" is the id of what was there before the bucket was versioned, and
	// of what is put while that is suspended: it can be replaced.
	if v := aws.ToString(id); v != "" && v != "null" {
		return v + " " + tag
	}
	return tag
}

// token takes a version apart into what requests carry; nil where there is nothing.
func token(version string) (etag, id *string) {
	if v, tag, ok := strings.Cut(version, " "); ok && !strings.HasPrefix(version, `"`) && !strings.HasPrefix(version, "W/") {
		id, version = &v, tag
	}
	if version != "" {
		etag = &version
	}
	return etag, id
}

// Stat says what key is now.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Object, error) {
	o, err := s.stat(ctx, key)
	if err != nil {
		return objstore.Object{}, fmt.Errorf("stat %s: %w", s.name(key), err)
	}
	return o, nil
}

func (s *Store) stat(ctx context.Context, key string) (objstore.Object, error) {
	if err := validKey(key); err != nil {
		return objstore.Object{}, err
	}
	out, err := s.head(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: &key, ChecksumMode: types.ChecksumModeEnabled})
	if err != nil {
		return objstore.Object{}, err
	}
	if out.ContentLength == nil || *out.ContentLength < 0 {
		return objstore.Object{}, objstore.Permanent(errors.New("the server does not say how long the object is"))
	}
	o := objstore.Object{
		Key:      key,
		Size:     unit.Bytes(*out.ContentLength),
		Version:  version(out.ETag, out.VersionId),
		Ranges:   aws.ToString(out.AcceptRanges) != "none",
		Modified: aws.ToTime(out.LastModified),
	}
	if err := httpwire.CheckVersion(o.Version); err != nil {
		return objstore.Object{}, err
	}
	o.Checksum, err = s.checksum(ctx, o, out)
	return o, err
}

// head is HeadObject with our errors.
func (s *Store) head(ctx context.Context, in *s3.HeadObjectInput) (out *s3.HeadObjectOutput, err error) {
	err = s.do(ctx, func(c *s3.Client) (err error) {
		if out, err = c.HeadObject(ctx, in); err == nil {
			return nil
		}
		return cmp.Or(s.reason(ctx, c, in, err), err)
	})
	return out, failed(ctx, ctx, err)
}

// reason is why a HEAD was refused, where the status alone leaves several
// causes: a reply to HEAD has no body to name one (RFC 9110, section 9.3.2), so
// the same object is asked for with GET. Nil: that did not fail.
func (s *Store) reason(ctx context.Context, c *s3.Client, in *s3.HeadObjectInput, refusal error) error {
	r := response(refusal)
	if r == nil {
		return nil
	}
	switch r.StatusCode {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound:
	default:
		return nil
	}
	out, err := c.GetObject(ctx, &s3.GetObjectInput{
		Bucket: in.Bucket, Key: in.Key, IfMatch: in.IfMatch, VersionId: in.VersionId, Range: aws.String(httpwire.RangeHeader(0, 1)),
	})
	if err == nil {
		out.Body.Close()
		return nil
	}
	if r := response(err); r == nil || r.StatusCode == http.StatusRequestedRangeNotSatisfiable { // no word on the matter
		return nil
	}
	return err
}

// checksum is what the reply says of o's checksum, as far as digests of pieces
// can prove it.
func (s *Store) checksum(ctx context.Context, o objstore.Object, out *s3.HeadObjectOutput) (piece.Checksum, error) {
	for _, c := range []piece.Checksum{
		{Algorithm: piece.CRC64NVME, Value: aws.ToString(out.ChecksumCRC64NVME)},
		{Algorithm: piece.CRC32C, Value: aws.ToString(out.ChecksumCRC32C)},
		{Algorithm: piece.CRC32, Value: aws.ToString(out.ChecksumCRC32)},
	} {
		if c.Value == "" {
			continue
		}
		parts, composite := c.Composite()
		if !composite {
			if _, err := c.Algorithm.Decode(c.Value); err != nil || out.ChecksumType == types.ChecksumTypeComposite {
				continue // nothing that we could compare with
			}
			return c, nil
		}
		if parts > mostParts {
			continue
		}
		part, err := s.partSize(ctx, o, parts)
		if err != nil || part == 0 {
			return piece.Checksum{}, err
		}
		c.Part = part
		return c, nil
	}
	return piece.Checksum{}, nil
}

// partSize is the size of all parts but the last of an object that was put in
// several; 0 if they are not alike or the store does not tell. The first and
// the last part are asked for: the sizes of those between follow unless they
// differ among themselves, which no tool does.
func (s *Store) partSize(ctx context.Context, o objstore.Object, parts int) (unit.Bytes, error) {
	size := func(number int) (unit.Bytes, error) {
		etag, id := token(o.Version)
		out, err := s.head(ctx, &s3.HeadObjectInput{
			Bucket: &s.bucket, Key: &o.Key, PartNumber: aws.Int32(int32(number)), IfMatch: etag, VersionId: id,
		})
		if err != nil {
			return 0, err
		}
		if version(out.ETag, out.VersionId) != o.Version {
			return 0, objstore.ErrChanged
		}
		if int(aws.ToInt32(out.PartsCount)) != parts && parts > 1 {
			return 0, nil // the server took no notice of the part number
		}
		return unit.Bytes(aws.ToInt64(out.ContentLength)), nil
	}
	first, err := size(1)
	if err != nil || first <= 0 {
		return 0, err
	}
	last := first
	if parts > 1 {
		if last, err = size(parts); err != nil {
			return 0, err
		}
	}
	if last <= 0 || last > first || unit.Bytes(parts-1) != (o.Size-last)/first || (o.Size-last)%first != 0 {
		return 0, nil
	}
	return first, nil
}

// ReadRange reads n bytes of o from off.
func (s *Store) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	what := "read " + s.name(o.Key)
	r, err := s.readRange(ctx, o, off, n, what)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return r, nil
}

func (s *Store) readRange(ctx context.Context, o objstore.Object, off, n unit.Bytes, what string) (_ io.ReadCloser, err error) {
	if err := validKey(o.Key); err != nil {
		return nil, err
	}
	if err := ranged.Check(o, off, n); err != nil {
		return nil, err
	}
	if n == 0 {
		return io.NopCloser(strings.NewReader("")), nil
	}
	watched, watch := httpwire.NewWatch(ctx, s.limits.Stall)
	defer func() {
		if err != nil {
			watch.Stop()
		}
	}()
	in := &s3.GetObjectInput{Bucket: &s.bucket, Key: &o.Key}
	in.IfMatch, in.VersionId = token(o.Version)
	if o.Ranges {
		in.Range = aws.String(httpwire.RangeHeader(off, n))
	}
	var out *s3.GetObjectOutput
	err = s.do(watched, func(c *s3.Client) (err error) {
		out, err = c.GetObject(watched, in)
		return err
	})
	if err != nil {
		return nil, failed(ctx, watched, err)
	}
	if o.Pinned() && version(out.ETag, out.VersionId) != o.Version {
		err = objstore.ErrChanged
	} else {
		length := int64(-1)
		if out.ContentLength != nil {
			length = *out.ContentLength
		}
		err = httpwire.CheckRange(aws.ToString(out.ContentRange), length, o, off, n)
	}
	if err != nil {
		out.Body.Close()
		return nil, err
	}
	return httpwire.Body(ctx, watched, watch, out.Body, n, what), nil
}

// List yields the objects whose keys begin with prefix, page by page.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		in := &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: &prefix}
		for {
			var out *s3.ListObjectsV2Output
			err := s.do(ctx, func(c *s3.Client) (err error) {
				out, err = c.ListObjectsV2(ctx, in)
				return err
			})
			if err == nil && aws.ToBool(out.IsTruncated) && (aws.ToString(out.NextContinuationToken) == "" ||
				aws.ToString(out.NextContinuationToken) == aws.ToString(in.ContinuationToken)) {
				err = objstore.Permanent(errors.New("the server's listing does not go on where it says it does"))
			}
			if err != nil {
				yield(objstore.Entry{}, fmt.Errorf("list %s: %w", s.name(prefix), failed(ctx, ctx, err)))
				return
			}
			for _, e := range out.Contents {
				entry := objstore.Entry{Key: aws.ToString(e.Key), Size: unit.Bytes(aws.ToInt64(e.Size)), Modified: aws.ToTime(e.LastModified)}
				if !yield(entry, nil) {
					return
				}
			}
			if !aws.ToBool(out.IsTruncated) {
				return
			}
			in.ContinuationToken = out.NextContinuationToken
		}
	}
}
