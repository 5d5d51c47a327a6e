package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/internal/httpwire"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// The SDK's transfer manager is not used: it takes a digest of the whole only
// before it starts, when a stream's is not known yet, and its parts do not
// grow, so that an object of unknown size ends at 10,000 of them.

// Put stores what r delivers under key: as one request if it fits one part,
// else in parts, one after the other, with the CRC64NVME of the whole for the
// server to compare. It holds one part in memory.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, size unit.Bytes) (objstore.Object, error) {
	o, err := s.put(ctx, key, r, size)
	if err != nil {
		return objstore.Object{}, fmt.Errorf("put %s: %w", s.name(key), err)
	}
	return o, nil
}

func (s *Store) put(ctx context.Context, key string, r io.Reader, size unit.Bytes) (objstore.Object, error) {
	if err := validKey(key); err != nil {
		return objstore.Object{}, err
	}
	u := &upload{Store: s, key: key, r: r, size: size}
	err := u.fill(ctx, s.partOf(0, size))
	if err != nil {
		return objstore.Object{}, err
	}
	if u.ended {
		if err := u.sizeIsRight(); err != nil {
			return objstore.Object{}, err
		}
		err = u.single(ctx)
	} else {
		err = u.multipart(ctx)
	}
	if err != nil {
		return objstore.Object{}, err
	}
	o, err := s.stat(ctx, key)
	if err == nil && u.etag != "" && version(&u.etag, u.id) != o.Version {
		err = objstore.ErrChanged // by someone else, since
	}
	return o, err
}

// partOf is the size of the part with the given index. For a size that is
// known all are alike and at most 10,000; where it is not, they double every
// 1,000, which reaches the 5 TiB that an object may have.
func (s *Store) partOf(index int, size unit.Bytes) unit.Bytes {
	if size >= 0 {
		part := max(s.part, (size+mostParts-1)/mostParts)
		return (part + unit.MiB - 1) / unit.MiB * unit.MiB
	}
	return min(s.part<<(index/1000), largestPart)
}

// upload is one Put.
type upload struct {
	*Store
	key  string
	r    io.Reader
	size unit.Bytes // announced; -1: unknown

	buf   []byte // the part at hand
	ended bool   // r is at its end
	total unit.Bytes
	sum   uint64 // CRC64NVME of total bytes
	etag  string // of the object, when it is stored
	id    *string
}

// fill reads the next part of at most n bytes into buf.
func (u *upload) fill(ctx context.Context, n unit.Bytes) error {
	u.buf = u.buf[:0]
	for unit.Bytes(len(u.buf)) < n && !u.ended {
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(u.buf) == cap(u.buf) { // grows with what comes, not with what was announced
			grown := make([]byte, len(u.buf), min(n, max(2*unit.Bytes(cap(u.buf)), 256*unit.KiB)))
			copy(grown, u.buf)
			u.buf = grown
		}
		m, err := u.r.Read(u.buf[len(u.buf):min(unit.Bytes(cap(u.buf)), n)])
		u.buf = u.buf[:len(u.buf)+m]
		switch err {
		case nil:
		case io.EOF:
			u.ended = true
		default:
			return err
		}
	}
	u.total += unit.Bytes(len(u.buf))
	u.sum = piece.CRC64NVME.Update(u.sum, u.buf)
	if u.size >= 0 && u.total > u.size {
		return objstore.Permanent(fmt.Errorf("%d bytes were announced, more came", u.size))
	}
	return nil
}

func (u *upload) sizeIsRight() error {
	if u.size >= 0 && u.total != u.size {
		return objstore.Permanent(fmt.Errorf("%d bytes were announced, %d came", u.size, u.total))
	}
	return nil
}

// single stores buf, which is everything.
func (u *upload) single(ctx context.Context) error {
	return u.send(ctx, u.buf, func(ctx context.Context, c *s3.Client, body io.Reader) error {
		out, err := c.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &u.bucket, Key: &u.key, Body: body, ContentLength: aws.Int64(int64(len(u.buf))),
			ChecksumCRC64NVME: aws.String(piece.CRC64NVME.Encode(u.sum)),
		}, again)
		if err == nil {
			u.etag, u.id = aws.ToString(out.ETag), out.VersionId
		}
		return err
	})
}

// again lets the SDK try a call more than once.
func again(o *s3.Options) { o.Retryer = retry.NewStandard() }

// send calls op with b as the body, which the SDK may read more than once,
// and ends it when no byte has moved for too long.
func (u *upload) send(ctx context.Context, b []byte, op func(context.Context, *s3.Client, io.Reader) error) error {
	watched, watch := httpwire.NewWatch(ctx, u.limits.Stall)
	defer watch.Stop()
	err := u.do(watched, func(c *s3.Client) error {
		defer watch.Pause()
		return op(watched, c, &watchedBody{bytes.NewReader(b), watch})
	})
	return failed(ctx, watched, err)
}

// watchedBody starts its watch when it is read from, and lets go of it at the
// end, from where on the transport's own limit holds.
type watchedBody struct {
	*bytes.Reader
	watch *httpwire.Watch
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.Len() > 0 {
		b.watch.Start()
	} else {
		b.watch.Pause()
	}
	return n, err
}

// WriteTo hides bytes.Reader's, which writes all at once.
func (b *watchedBody) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{b})
}

// multipart stores buf, the first part, and what r still holds.
func (u *upload) multipart(ctx context.Context) (err error) {
	var started *s3.CreateMultipartUploadOutput
	err = u.do(ctx, func(c *s3.Client) (err error) {
		started, err = c.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
			Bucket: &u.bucket, Key: &u.key,
			ChecksumAlgorithm: types.ChecksumAlgorithmCrc64nvme, ChecksumType: types.ChecksumTypeFullObject,
		}, again)
		return err
	})
	if err != nil {
		return failed(ctx, ctx, err)
	}
	if aws.ToString(started.UploadId) == "" {
		return objstore.Permanent(errors.New("the server started an upload without a name"))
	}
	defer func() {
		if err != nil {
			u.abort(ctx, started.UploadId)
		}
	}()

	var parts []types.CompletedPart
	for len(u.buf) > 0 {
		number := int32(len(parts) + 1)
		if number > mostParts {
			return objstore.Permanent(fmt.Errorf("more than %d parts", mostParts))
		}
		part := types.CompletedPart{
			PartNumber:        &number,
			ChecksumCRC64NVME: aws.String(piece.CRC64NVME.Encode(piece.CRC64NVME.Update(0, u.buf))),
		}
		err := u.send(ctx, u.buf, func(ctx context.Context, c *s3.Client, body io.Reader) error {
			out, err := c.UploadPart(ctx, &s3.UploadPartInput{
				Bucket: &u.bucket, Key: &u.key, UploadId: started.UploadId, PartNumber: &number,
				Body: body, ContentLength: aws.Int64(int64(len(u.buf))), ChecksumCRC64NVME: part.ChecksumCRC64NVME,
			}, again)
			if err != nil {
				return err
			}
			part.ETag = out.ETag
			return httpwire.CheckVersion(aws.ToString(out.ETag)) // all are kept until the last part is stored
		})
		if err != nil {
			return fmt.Errorf("part %d: %w", number, err)
		}
		parts = append(parts, part)
		if err := u.fill(ctx, u.partOf(len(parts), u.size)); err != nil {
			return err
		}
	}
	if err := u.sizeIsRight(); err != nil {
		return err
	}
	return u.complete(ctx, started.UploadId, parts)
}

func (u *upload) complete(ctx context.Context, id *string, parts []types.CompletedPart) error {
	err := u.do(ctx, func(c *s3.Client) error {
		out, err := c.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
			Bucket: &u.bucket, Key: &u.key, UploadId: id,
			MultipartUpload:   &types.CompletedMultipartUpload{Parts: parts},
			ChecksumCRC64NVME: aws.String(piece.CRC64NVME.Encode(u.sum)),
			ChecksumType:      types.ChecksumTypeFullObject,
			MpuObjectSize:     aws.Int64(int64(u.total)),
		}, again)
		if err == nil {
			u.etag, u.id = aws.ToString(out.ETag), out.VersionId
		}
		return err
	})
	return failed(ctx, ctx, err)
}

// abort throws away what was uploaded, also when ctx has ended.
func (u *upload) abort(ctx context.Context, id *string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	u.current.Load().AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &u.bucket, Key: &u.key, UploadId: id}, again)
}
