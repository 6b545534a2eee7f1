// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

func TestUntilAsksUntilAnAnswerComesAndSaysWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		began, asked := time.Now(), 0
		err := until(t.Context(), clock.RealClock{}, slog.New(slog.NewTextHandler(&log, nil)), "the tide", func(context.Context) error {
			if asked++; asked <= 12 {
				return errors.New("not yet")
			}
			return nil
		})
		if err != nil || asked != 13 || time.Since(began) != 12*time.Second {
			t.Errorf("err %v after %d attempts and %v, want none after 13 in 12 s", err, asked, time.Since(began))
		}
		if got := strings.Count(log.String(), `msg=Waiting for="the tide"`); got != 3 {
			t.Errorf("%d lines in 12 s, want one each 5 s:\n%s", got, log.String())
		}
	})
}

func TestUntilGivesEachAttemptADeadlineAndEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		attempts := 0
		err := until(ctx, clock.RealClock{}, slog.New(slog.DiscardHandler), "nothing", func(ctx context.Context) error {
			attempts++
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) || attempts != 3 {
			t.Errorf("err %v after %d attempts, want the end of the context after 3", err, attempts)
		}
	})
}

func TestClusterIDIsTheUIDOfTheServiceKubernetes(t *testing.T) {
	client := fake.NewClientset()
	if _, err := clusterID(t.Context(), client); !errdefs.IsNotFound(err) {
		t.Errorf("in a cluster that is not complete yet: %v", err)
	}
	service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes", UID: "c1"}}
	if _, err := client.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if id, err := clusterID(t.Context(), client); id != "c1" || err != nil {
		t.Errorf("clusterID = %q, %v", id, err)
	}
}

func TestRouteToIsTheLocalAddressOfTheWayToTheAPIServer(t *testing.T) {
	for name, tc := range map[string]struct{ server, want string }{
		"with a port":    {"https://127.0.0.1:6443", "127.0.0.1"},
		"without a port": {"https://127.0.0.1", "127.0.0.1"},
		"without TLS":    {"http://127.0.0.1", "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			addr, err := routeTo(t.Context(), &rest.Config{Host: tc.server})
			if err != nil || addr.String() != tc.want {
				t.Errorf("routeTo(%s) = %v, %v, want %s", tc.server, addr, err, tc.want)
			}
		})
	}
	if _, err := routeTo(t.Context(), &rest.Config{Host: "https://host.invalid"}); err == nil || !strings.Contains(err.Error(), "host.invalid") {
		t.Errorf("an error for a name that does not exist must name it: %v", err)
	}
}
