package s3serve

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/versity/versitygw/backend/meta"
)

// Attributes as versitygw's posix backend names them, and ours.
const (
	attrETag      = "etag"
	attrChecksums = "checksums"
	attrPin       = "freshet-pin" // size and time of the file that etag and checksums were made for
)

// pins is versitygw's store of attributes with ETags that fit their files.
type pins struct{ meta.MetadataStorer }

// attributes opens the store of attributes for dir, an absolute path: extended
// attributes, or files beside dir where its file system has none, or beside is true.
func attributes(dir string, beside bool) (pins, error) {
	if !beside && (meta.XattrMeta{}).Test(dir) == nil {
		return pins{meta.XattrMeta{}}, nil
	}
	side := filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".s3meta")
	if err := os.Mkdir(side, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return pins{}, fmt.Errorf("%s has no extended attributes, and a directory beside it for them cannot be made: %w", dir, err)
	}
	sc, err := meta.NewSideCar(side)
	if err != nil {
		return pins{}, fmt.Errorf("attributes of %s in %s: %w", dir, side, err)
	}
	return pins{sc}, nil
}

// StoreAttribute keeps with an ETag what the file is at this moment. The
// backend stores it when the data is written, before the file gets its name,
// and renaming changes neither size nor modification time.
func (p pins) StoreAttribute(f *os.File, bucket, object, attribute string, value []byte) error {
	if err := p.MetadataStorer.StoreAttribute(f, bucket, object, attribute, value); err != nil {
		return err
	}
	if attribute != attrETag {
		return nil
	}
	if fi, ok := regular(f, bucket, object); ok {
		return p.MetadataStorer.StoreAttribute(f, bucket, object, attrPin, stamp(fi))
	}
	return nil
}

// RetrieveAttribute finds an ETag for every regular file, and neither ETag nor
// checksum that were made for other content.
func (p pins) RetrieveAttribute(f *os.File, bucket, object, attribute string) ([]byte, error) {
	value, err := p.MetadataStorer.RetrieveAttribute(f, bucket, object, attribute)
	if attribute != attrETag && attribute != attrChecksums || err != nil && !errors.Is(err, meta.ErrNoSuchKey) {
		return value, err
	}
	fi, ok := regular(f, bucket, object)
	if !ok {
		return value, err
	}
	if err == nil {
		pin, perr := p.MetadataStorer.RetrieveAttribute(f, bucket, object, attrPin)
		if perr != nil || string(pin) == string(stamp(fi)) {
			return value, nil // a file that a versitygw of another make wrote has no pin
		}
	}
	if attribute == attrChecksums {
		return nil, meta.ErrNoSuchKey
	}
	return fmt.Appendf(nil, `"%x-%s"`, inode(fi), stamp(fi)), nil
}

// regular describes the object's file if it is one.
func regular(f *os.File, bucket, object string) (fi os.FileInfo, ok bool) {
	var err error
	if f != nil {
		fi, err = f.Stat()
	} else {
		fi, err = os.Stat(filepath.Join(bucket, object))
	}
	return fi, err == nil && fi.Mode().IsRegular()
}

func stamp(fi os.FileInfo) []byte {
	return fmt.Appendf(nil, "%x-%x", fi.Size(), fi.ModTime().UnixNano())
}

// inode is 0 where the system has none.
func inode(fi os.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}
