// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/containerd/errdefs"
)

// Protocol is what both ends name as their application protocol (ALPN). After the handshake the host sends one question and the
// node one answer, both JSON.
const Protocol = "tombolo-join/1"

// maxMessage bounds a question and an answer.
const maxMessage = 32 << 10

// question is what a host asks. Without a token it shows a certificate that is to be renewed.
type question struct {
	TokenID string `json:"tokenID,omitempty"`
	Secret  []byte `json:"secret,omitempty"`
	// Request is the certificate request in PEM.
	Request []byte `json:"request"`
}

// answer has a certificate in PEM and that of its authority, or else says why not.
type answer struct {
	Certificate []byte `json:"certificate,omitempty"`
	Authority   []byte `json:"authority,omitempty"`
	Refusal     string `json:"refusal,omitempty"`
}

func send(w io.Writer, message any) error {
	data, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

// receive reads one message. What it is not made for is InvalidArgument.
func receive(r io.Reader, into any) error {
	limited := &io.LimitedReader{R: r, N: maxMessage}
	decoder := json.NewDecoder(limited)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		if limited.N == 0 {
			return fmt.Errorf("a message of more than %d bytes: %w", maxMessage, errdefs.ErrInvalidArgument)
		}
		return fmt.Errorf("reading a message: %w: %w", err, errdefs.ErrInvalidArgument)
	}
	return nil
}
