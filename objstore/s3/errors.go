package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/internal/httpwire"
)

// failed turns what an SDK call under ctx and watched returned into what
// callers branch on (Amazon S3 API reference, "Error responses").
func failed(ctx, watched context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := context.Cause(watched); errors.Is(err, httpwire.ErrStalled) {
		return err
	}
	if errors.Is(err, errLong) {
		return objstore.Permanent(errLong)
	}
	var there *elsewhereError
	if errors.As(err, &there) {
		return fmt.Errorf("the bucket is not in region %s but in %s, and there: %w", there.asked, there.found, failed(ctx, watched, there.err))
	}
	code, text := said(err)
	switch code {
	case "NoSuchBucket":
		return fmt.Errorf("%w (no such bucket)", objstore.ErrNotExist)
	case "NoSuchKey", "NoSuchVersion", "NotFound", "NoSuchUpload":
		return objstore.ErrNotExist
	case "PreconditionFailed", "InvalidRange":
		// Our ranges lie within the object that Stat saw.
		return objstore.ErrChanged
	case "InvalidObjectState":
		return objstore.Permanent(errors.New("the object is archived; restore it first (InvalidObjectState)"))
	case "RequestTimeout", "OperationAborted", "IncompleteBody", "InternalError":
		return errors.New(text)
	case "SlowDown", "SlowDownRead", "SlowDownWrite", "Throttling", "ThrottlingException", "TooManyRequests",
		"RequestLimitExceeded", "BandwidthLimitExceeded", "ServiceUnavailable":
		status, header := http.StatusServiceUnavailable, http.Header{}
		if r := response(err); r != nil {
			header = r.Header
			if r.StatusCode == http.StatusTooManyRequests {
				status = r.StatusCode
			}
		}
		return httpwire.Status(status, header, text)
	case "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken",
		"TokenRefreshRequired", "RequestTimeTooSkewed", "AllAccessDisabled", "AccountProblem",
		"XAdminUserNotFound": // versitygw's InvalidAccessKeyId
		return fmt.Errorf("%w (%s)", objstore.ErrDenied, text)
	}
	if r := response(err); r != nil && r.StatusCode >= 300 {
		if r.StatusCode == http.StatusRequestedRangeNotSatisfiable {
			return objstore.ErrChanged
		}
		return httpwire.Status(r.StatusCode, r.Header, text)
	}
	var signing interface{ CanceledError() bool }
	if errors.As(err, &signing) && signing.CanceledError() {
		return context.Canceled
	}
	// No reply: what the network said, without the SDK's layers around it.
	var operation *smithy.OperationError
	if errors.As(err, &operation) {
		err = operation.Err
	}
	var send *smithyhttp.RequestSendError
	if errors.As(err, &send) {
		return httpwire.Failed(ctx, watched, send.Err)
	}
	return fmt.Errorf("%s", oneLine(err.Error()))
}

// said is the error code of a reply and, as text, code and message; the
// code is empty where the reply had no body to hold one.
func said(err error) (code, text string) {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return "", ""
	}
	code, text = api.ErrorCode(), api.ErrorCode()
	if m := oneLine(api.ErrorMessage()); m != "" && m != code {
		text += ": " + m
	}
	if len(text) > 300 {
		text = text[:300] + "..."
	}
	return code, text
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// response is the HTTP reply that err came with; nil if there was none.
func response(err error) *http.Response {
	var r *smithyhttp.ResponseError
	if errors.As(err, &r) && r.Response != nil {
		return r.Response.Response
	}
	return nil
}

// do calls op with the client of the bucket's region, of which it learns from
// the first refusal: a server that has the bucket elsewhere says so, and is
// asked there once.
func (s *Store) do(ctx context.Context, op func(*s3.Client) error) error {
	c := s.current.Load()
	err := op(c.Client)
	region := s.elsewhere(ctx, c, err)
	if region == "" {
		return err
	}
	there := &regional{s.connect(region), region}
	if err := op(there.Client); err != nil {
		return &elsewhereError{c.region, region, err}
	}
	s.current.CompareAndSwap(c, there)
	return nil
}

// elsewhereError is the failure of a call that was sent on to another region.
type elsewhereError struct {
	asked, found string
	err          error
}

func (e *elsewhereError) Error() string {
	return fmt.Sprintf("sent on from region %s to %s: %v", e.asked, e.found, e.err)
}

func (e *elsewhereError) Unwrap() error { return e.err }

// misplaced says whether a refusal is one for the wrong region.
func misplaced(r *http.Response, code string) bool {
	if r == nil {
		return false
	}
	switch code {
	case "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "TemporaryRedirect":
		return true
	}
	return r.StatusCode == http.StatusMovedPermanently || r.StatusCode == http.StatusTemporaryRedirect
}

const regionHeader = "X-Amz-Bucket-Region"

var expecting = regexp.MustCompile(`expecting ['"]([a-z0-9-]{1,40})['"]`) // Amazon's quotes, and others'

// elsewhere is the region that err, the answer to a call through c, points to;
// empty if it does not.
func (s *Store) elsewhere(ctx context.Context, c *regional, err error) string {
	r := response(err)
	if r == nil {
		return ""
	}
	code, text := said(err)
	header := r.Header.Get(regionHeader)
	if !misplaced(r, code) && (header == "" || r.StatusCode != http.StatusBadRequest) {
		return ""
	}
	if header == "" {
		if m := expecting.FindStringSubmatch(text); m != nil {
			header = m[1]
		}
	}
	if header == "" {
		// HEAD of the bucket is answered with the header even if it is refused.
		out, err := c.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &s.bucket})
		if err == nil && out.BucketRegion != nil {
			header = *out.BucketRegion
		} else if r := response(err); r != nil {
			header = r.Header.Get(regionHeader)
		}
	}
	if header == c.region {
		return ""
	}
	return header
}
