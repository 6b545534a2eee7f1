// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// Names of the authority's files in a store.
const (
	authorityCertFile = "ca.crt"
	authorityKeyFile  = "ca.key"
)

// temporaryPrefix begins the names of files that are being written.
const temporaryPrefix = ".tmp-"

// nodePrefix begins the names of a node's files.
const nodePrefix = "node-"

// Files are where a certificate and its key were written.
type Files struct {
	CertFile string
	KeyFile  string
}

// Store keeps an authority and what it issued as files of one directory: ca.crt, ca.key and, for each host and node,
// host-NAME.crt, host-NAME.key, node-NAME.crt, node-NAME.key. The directory is made with mode 0700 and every file has
// mode 0600.
type Store struct {
	dir       string
	overwrite bool
}

// NewStore returns the store in dir, which need not exist yet. With overwrite, files that exist are replaced; else that is
// refused as AlreadyExists.
func NewStore(dir string, overwrite bool) *Store {
	return &Store{dir: dir, overwrite: overwrite}
}

// Init makes a new authority in the store.
func (s *Store) Init(name string, life Lifetime) (*Files, error) {
	authority, err := NewAuthority(name, life)
	if err != nil {
		return nil, err
	}
	return s.write(&Files{CertFile: s.AuthorityFile(), KeyFile: filepath.Join(s.dir, authorityKeyFile)}, authority.Pair())
}

// IssueHost makes the certificate of a host in the store.
func (s *Store) IssueHost(name string, addresses []string, life Lifetime) (*Files, error) {
	return s.issue("host-", name, func(a *Authority) (*Pair, error) { return a.IssueHost(name, addresses, life) })
}

// IssueNode makes the certificate of a node in the store.
func (s *Store) IssueNode(name string, life Lifetime) (*Files, error) {
	return s.issue(nodePrefix, name, func(a *Authority) (*Pair, error) { return a.IssueNode(name, life) })
}

// NodeFiles are the files of a node in the store, whether or not they were made.
func (s *Store) NodeFiles(name string) *Files { return s.files(nodePrefix + name) }

func (s *Store) files(base string) *Files {
	return &Files{CertFile: filepath.Join(s.dir, base+".crt"), KeyFile: filepath.Join(s.dir, base+".key")}
}

// AuthorityFile is the path of the authority's certificate, which every host and node needs a copy of.
func (s *Store) AuthorityFile() string { return filepath.Join(s.dir, authorityCertFile) }

func (s *Store) issue(prefix, name string, sign func(*Authority) (*Pair, error)) (*Files, error) {
	authority, err := s.Authority()
	if err != nil {
		return nil, err
	}
	pair, err := sign(authority)
	if err != nil {
		return nil, err
	}
	return s.write(s.files(prefix+name), *pair)
}

// Authority reads the authority of the store. NotFound if there is none yet.
func (s *Store) Authority() (*Authority, error) {
	certPEM, err := os.ReadFile(s.AuthorityFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no authority in %s yet: %w", s.dir, errdefs.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the authority's certificate: %w", err)
	}
	keyPEM, err := os.ReadFile(filepath.Join(s.dir, authorityKeyFile))
	if err != nil {
		return nil, fmt.Errorf("reading the authority's key: %w", err)
	}
	authority, err := ParseAuthority(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("reading the authority in %s: %w", s.dir, err)
	}
	return authority, nil
}

// write puts a pair into the store. Nothing is replaced before both files are written.
func (s *Store) write(files *Files, pair Pair) (*Files, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("making directory %s: %w", s.dir, err)
	}
	unlock, err := lockDirectory(s.dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if !s.overwrite {
		for _, path := range []string{files.CertFile, files.KeyFile} {
			if _, err := os.Lstat(path); err == nil {
				return nil, fmt.Errorf("%s is there already: %w", path, errdefs.ErrAlreadyExists)
			}
		}
	}
	key, err := prepareFile(files.KeyFile, pair.KeyPEM)
	if err != nil {
		return nil, err
	}
	cert, err := prepareFile(files.CertFile, pair.CertificatePEM)
	if err != nil {
		return nil, errors.Join(err, os.Remove(key))
	}
	// The key comes last: a former one cannot be had again.
	if err := os.Rename(cert, files.CertFile); err != nil {
		return nil, errors.Join(fmt.Errorf("writing %s: %w", files.CertFile, err), os.Remove(cert), os.Remove(key))
	}
	if err := os.Rename(key, files.KeyFile); err != nil {
		return nil, errors.Join(fmt.Errorf("writing %s: %w", files.KeyFile, err), os.Remove(key))
	}
	return files, syncDirectory(s.dir)
}

// WriteFile replaces a file in one step, which has happened for good when it returns. Its mode is 0600. Its owner is the former one's:
// what root replaces stays with the process that it belongs to.
func WriteFile(path string, data []byte) error {
	unlock, err := lockDirectory(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unlock()
	tmp, err := prepareFile(path, data)
	if err != nil {
		return err
	}
	if err = keepOwner(tmp, path); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, err), os.Remove(tmp))
	}
	return syncDirectory(filepath.Dir(path))
}

// keepOwner gives a file the owner of the one that it is to replace, if there is one.
func keepOwner(name, former string) error {
	info, err := os.Stat(former)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) == os.Geteuid() {
		return nil
	}
	return os.Chown(name, int(owner.Uid), int(owner.Gid))
}

// syncDirectory makes what was renamed in a directory last.
func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("making directory %s last: %w", path, err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("making directory %s last: %w", path, err)
	}
	return nil
}

// lockDirectory waits until nobody else writes to a directory, and removes what a process that was killed left half done there: it may be
// a key.
func lockDirectory(path string) (unlock func(), err error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("locking directory %s: %w", path, err)
	}
	unlock = func() { _ = dir.Close() }
	if !flock(dir) {
		return unlock, nil // some network file systems lock no directories: there it has to stay, for it may be that of somebody at work
	}
	if err := removeTemporary(dir); err != nil {
		unlock()
		return nil, fmt.Errorf("removing what was left half done: %w", err)
	}
	return unlock, nil
}

// flock says whether a file could be locked, once nobody else has the lock. It ends with the file.
func flock(file *os.File) bool {
	for {
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}

func removeTemporary(dir *os.File) error {
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, temporaryPrefix) {
			err = errors.Join(err, os.Remove(filepath.Join(dir.Name(), name)))
		}
	}
	return err
}

// prepareFile writes what is to become a file in one step, and returns its name until then. CreateTemp makes it with mode 0600.
func prepareFile(path string, data []byte) (name string, err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), temporaryPrefix+"*")
	if err != nil {
		return "", fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("writing %s: %w", path, err), os.Remove(tmp.Name()))
	}
	return tmp.Name(), nil
}
