// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package sshlink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"golang.org/x/crypto/ssh"
)

// maxUploads is how often the program is put on the host for one connection after the first time, in case somebody else's
// upload came in between.
const maxUploads = 1

// lookScript tells what the host is. $1 is the cache directory.
const lookScript = `LC_ALL=C; export LC_ALL; d=$1;
case $d in "~/"*) d=$HOME/${d#"~/"};; esac;
echo; echo "tombolo: machine $(uname -sm)"; echo "tombolo: cache $d"`

// safeScript ends a script unless the cache directory $c and the directory $d in it belong to the user and only the user can
// write there: nobody else may change a program between its check and its start.
const safeScript = `for p in "$c" "$d"; do
if test -O "$p"; then case $(ls -ld "$p") in d????-??-*) continue;; esac; fi;
echo; echo "tombolo: unsafe $p"; exit 0;
done;`

// startScript runs a program from the cache if it is the right one. $1 is the cache directory, $2 the checksum of the
// program, the rest is the command.
const startScript = `LC_ALL=C; export LC_ALL; c=$1; s=$2; d=$c/$s; shift 2;
if test -f "$d/tombolo"; then :; else echo; echo "tombolo: absent"; exit 0; fi;
` + safeScript + `
is=$(sha256sum < "$d/tombolo") || exit;
if test "${is%% *}" = "$s"; then touch "$d"; exec "$@"; fi;
echo; echo "tombolo: differs"`

// uploadScript puts a program from standard input into the cache and removes all but the two that were used last. $1 is the cache directory, $2 the checksum,
// $3 the size in KiB. Parts of uploads that were interrupted go; those of others that are under way stay. Where df does not tell how much
// is free, that is not looked at.
const uploadScript = `LC_ALL=C; export LC_ALL; umask 077; c=$1; s=$2; k=$3; d=$c/$s;
mkdir -p "$d" || exit;
` + safeScript + `
for p in "$d"/part.*; do kill -0 "${p##*.}" 2>/dev/null || rm -f "$p"; done;
f=$(df -Pk "$d" 2>/dev/null | sed -n "2s,.*[ ]\([0-9][0-9]*\)[ ][ ]*[0-9][0-9]*%[ ][ ]*/.*,\1,p");
if test "${f:-$k}" -lt "$k"; then echo; echo "tombolo: full $f"; exit 0; fi;
t=$d/part.$$;
cat > "$t" || { rm -f "$t"; exit 1; };
is=$(sha256sum < "$t") || { rm -f "$t"; exit 127; };
if test "${is%% *}" = "$s"; then :; else rm -f "$t"; echo; echo "tombolo: damaged"; exit 0; fi;
chmod 700 "$t" && mv -f "$t" "$d/tombolo" && touch "$d" && cd "$c" || exit;
n=0; for v in $(ls -1t); do
test "$(expr "$v" : "[0-9a-f]*$")" = 64 || continue;
n=$((n+1)); test $n -le 2 || rm -rf "./$v";
done;
echo; echo "tombolo: stored"`

// look asks the host what it is.
func (a *attempt) look(ctx context.Context) (where place, err error) {
	err = a.within(ctx, a.d.limits.step, "asking the host what it is", func(ctx context.Context) error {
		answers, err := a.ask(ctx, lookScript, a.d.o.CacheDir)
		if err != nil {
			return err
		}
		where, err = parsePlace(answers)
		return err
	})
	return where, err
}

// upload puts the program on the host. One upload of this process runs at a time.
func (a *attempt) upload(ctx context.Context, program *binary, where place) error {
	a.d.once.Lock()
	defer a.d.once.Unlock()
	doing := fmt.Sprintf("putting the program on the host (%d MiB)", program.size>>20)
	file, err := program.open()
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer file.Close()
	session, err := a.session(ctx)
	if err != nil {
		return err
	}
	defer session.Close()
	out, errs := &bounded{limit: maxAnswer}, &bounded{limit: maxAnswer}
	session.Stdout, session.Stderr = out, errs
	input, err := session.StdinPipe()
	if err != nil {
		return err
	}
	err = a.within(ctx, a.d.limits.step, doing, func(context.Context) error {
		return session.Start(shell(uploadScript, where.cache, program.sum, strconv.FormatInt(kibibytes(program.size), 10)))
	})
	if err != nil {
		return err
	}
	sending := a.send(ctx, doing, input, file)
	// The script also ends when the host cannot take what it is sent, and says why.
	err = a.within(ctx, a.d.limits.start, doing, func(context.Context) error { return session.Wait() })
	if err != nil {
		if end := (*ssh.ExitError)(nil); errors.As(err, &end) {
			return programError{fmt.Errorf("%s: %w", doing, explainEnd(end, errs.text(), a.d.o)), maxUploadPause}
		}
		// The line was cut, or carries nothing: it may be a better one soon.
		return programError{errors.Join(sending, err), maxRefusalPause}
	}
	return uploaded(parseAnswers(out.data), sending, program, where)
}

// kibibytes are those that a file of a size takes up.
func kibibytes(size int64) int64 { return (size + 1<<10 - 1) >> 10 }

// send copies a file, as long as it goes on.
func (a *attempt) send(ctx context.Context, doing string, to io.WriteCloser, from io.Reader) error {
	chunk := make([]byte, 64<<10)
	for {
		n, err := from.Read(chunk)
		if n > 0 {
			err := a.within(ctx, a.d.limits.stall, doing, func(context.Context) error {
				_, err := to.Write(chunk[:n])
				return err
			})
			if err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return to.Close()
		}
		if err != nil {
			return errors.Join(err, to.Close())
		}
	}
}

// uploaded says what became of an upload.
func uploaded(answers []answer, sending error, program *binary, where place) error {
	for _, a := range answers {
		switch a.word {
		case "stored":
			return nil
		case "unsafe":
			return programError{unsafe(a.rest), maxRefusalPause}
		case "full":
			return programError{full(a.rest, program, where), maxRefusalPause} // next to nothing was sent
		case "damaged":
			return programError{errors.Join(sending, fmt.Errorf("what arrived at the host below %s is not what was sent, and was removed: is its disk full?", where.cache)), maxUploadPause}
		}
	}
	return programError{errors.Join(sending, errors.New("the host did not say that it has the program: a command that is forced in authorized_keys or sshd_config runs instead of what is asked for")), maxUploadPause}
}

// full says how much room is missing on the host. free is in KiB.
func full(free string, program *binary, where place) error {
	has, err := strconv.ParseInt(free, 10, 64)
	if err != nil {
		return fmt.Errorf("the host says that it has %q KiB of room below %s", printable(free), where.cache)
	}
	takes := kibibytes(program.size)
	return fmt.Errorf("the disk of the host is full: the program takes %d KiB, and %d KiB are free below %s, so that %d KiB are missing: make room, or choose another directory with --host-ssh-cache-dir",
		takes, has, where.cache, takes-has)
}

func unsafe(dir string) error {
	return fmt.Errorf("%s on the host belongs to another user, or others can write there, so that they could change the program: "+
		"remove that, or choose a directory with --host-ssh-cache-dir", printable(dir))
}
