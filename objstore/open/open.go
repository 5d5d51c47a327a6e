// Package open turns the URL of an object into the store that holds it and
// the object's key there:
//
//	s3://bucket/key           Amazon S3 and what speaks its protocol; parameters:
//	  ?endpoint=URL           http://host:port of another server
//	  &region=NAME
//	  &profile=NAME           of the AWS shared files
//	  &path_style=true|false  http://endpoint/bucket/key or http://bucket.endpoint/key
//	  &anonymous=true         sign nothing, for public buckets
//	http://… https://…        a web server; the query belongs to the object
//	file:///path              a file of this machine, by its absolute path
//
// s3://bucket/prefix/ and file:///path/, with a slash at the end, are all that lies below: the key is then what the keys of these
// objects in the store begin with.
//
// In an s3 key a percent sign quotes, as in every URL: a key with "?", "#" or
// "%" in it writes them %3F, %23 and %25.
package open

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/file"
	"github.com/freshet/freshet/objstore/http"
	"github.com/freshet/freshet/objstore/internal/httpwire"
	"github.com/freshet/freshet/objstore/s3"
)

// Options apply to whatever store is opened. The zero Options are right for
// most.
type Options struct {
	Dial httpwire.DialFunc // for stores on a network; nil: a plain TCP dialer
}

// URL opens the store that address names. The caller closes it.
func URL(ctx context.Context, address string, o Options) (objstore.Store, string, error) {
	t, err := parse(address)
	if err != nil {
		return nil, "", err
	}
	switch t.scheme {
	case "s3":
		c := t.s3
		c.Dial = o.Dial
		s, err := s3.Open(ctx, c)
		if err != nil {
			return nil, "", err
		}
		return s, t.key, nil
	case "file":
		dir, key := filepath.Split(t.key)
		// A link is followed here, where the user named it; below its directory
		// the store follows none that leads out.
		if real, err := filepath.EvalSymlinks(t.key); err == nil && key != "" {
			dir, key = filepath.Split(real)
		} else if err == nil {
			dir = real
		}
		s, err := file.Open(dir)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", t.key, err)
		}
		return s, key, nil
	default:
		s := http.Open(http.Config{Dial: o.Dial, User: t.user, Host: t.host})
		return s, t.key, nil
	}
}

// Check says whether address could be opened, without looking at anything but
// its text.
func Check(address string) error {
	_, err := parse(address)
	return err
}

// target is a URL taken apart.
type target struct {
	scheme string
	key    string
	s3     s3.Config     // of s3
	user   *url.Userinfo // of http and https; not part of the key
	host   string
}

func parse(address string) (target, error) {
	fail := func(format string, args ...any) (target, error) {
		return target{}, objstore.Permanent(fmt.Errorf("source %s: "+format, append([]any{Redact(address)}, args...)...))
	}
	scheme, _, ok := strings.Cut(address, "://")
	if !ok {
		return fail("want s3://bucket/key, https://host/path or file:///path")
	}
	t := target{scheme: strings.ToLower(scheme)}
	if t.scheme == "file" {
		// Taken as it stands: people write paths, not escapes.
		rest := address[len("file://"):]
		if !strings.HasPrefix(rest, "/") {
			return fail("want three slashes and an absolute path: file:///path")
		}
		t.key = filepath.Clean(filepath.FromSlash(rest))
		if filepath.Base(t.key) == string(os.PathSeparator) {
			return fail("names the topmost directory; want a file, or a directory and a slash behind it")
		}
		if strings.HasSuffix(rest, "/") {
			t.key += string(os.PathSeparator)
		}
		return t, nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return fail("cannot be read as a URL")
	}
	switch t.scheme {
	case "s3":
		if t.s3, err = s3Config(u); err != nil {
			return fail("%w", err)
		}
		t.key = strings.TrimPrefix(u.Path, "/")
		if t.key == "" {
			return fail("the key is missing; want s3://bucket/key, or s3://bucket/prefix/ for all that lies below it")
		}
	case "http", "https":
		if u.Host == "" {
			return fail("the host is missing")
		}
		t.user, t.host = u.User, u.Host
		u.User = nil
		u.Fragment, u.RawFragment = "", ""
		t.key = u.String()
	default:
		return fail("scheme %q is not known; want s3, http, https or file", t.scheme)
	}
	return t, nil
}

// parameters are those of s3 URLs.
var parameters = []string{"endpoint", "region", "profile", "path_style", "anonymous"}

func s3Config(u *url.URL) (c s3.Config, err error) {
	if u.User != nil {
		return c, errors.New("credentials do not belong in the URL; use the environment or a profile")
	}
	if u.Host == "" || strings.Contains(u.Host, ":") {
		return c, errors.New("the bucket is missing; want s3://bucket/key")
	}
	if u.Fragment != "" {
		return c, errors.New("a # in a key is written %23")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return c, errors.New("the parameters cannot be read; a ? in a key is written %3F")
	}
	c.Bucket = u.Host
	for name, values := range query {
		if !slices.Contains(parameters, name) {
			return c, fmt.Errorf("parameter %q is not known; want %s (a ? in a key is written %%3F)", name, strings.Join(parameters, ", "))
		}
		if len(values) != 1 || values[0] == "" {
			return c, fmt.Errorf("parameter %s: want one value", name)
		}
	}
	c.Endpoint, c.Region, c.Profile = query.Get("endpoint"), query.Get("region"), query.Get("profile")
	if c.Endpoint != "" {
		e, err := url.Parse(c.Endpoint)
		if err != nil || e.Scheme != "http" && e.Scheme != "https" || e.Host == "" || e.User != nil || e.RawQuery != "" {
			return c, fmt.Errorf("endpoint %s: want http://host:port or https://host:port", httpwire.Redact(c.Endpoint))
		}
	}
	if v := query.Get("path_style"); v != "" {
		style, err := strconv.ParseBool(v)
		if err != nil {
			return c, fmt.Errorf("path_style %q: want true or false", v)
		}
		c.PathStyle, c.VirtualHost = style, !style
	}
	if v := query.Get("anonymous"); v != "" {
		if c.Anonymous, err = strconv.ParseBool(v); err != nil {
			return c, fmt.Errorf("anonymous %q: want true or false", v)
		}
	}
	return c, nil
}

// Redact is address for people to read, in messages, logs and reports: without
// user information and, but for the parameters of s3 URLs that are known, the
// values of its query, where signed URLs hold their signatures.
func Redact(address string) string {
	if len(address) >= 7 && strings.EqualFold(address[:7], "file://") {
		return address
	}
	u, err := url.Parse(address)
	if err != nil || !strings.EqualFold(u.Scheme, "s3") || u.RawQuery == "" {
		return httpwire.Redact(address)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return httpwire.Redact(address)
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	var kept []string
	for _, name := range parameters {
		for _, v := range query[name] {
			if name == "endpoint" {
				v = httpwire.Redact(v)
			}
			kept = append(kept, name+"="+v)
		}
		delete(query, name)
	}
	if len(query) > 0 {
		kept = append(kept, "...")
	}
	u.RawQuery = strings.Join(kept, "&")
	return u.String()
}
