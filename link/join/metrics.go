// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Results of what hosts ask.
const (
	resultJoined             = "joined"
	resultRenewed            = "renewed"
	resultRefusedToken       = "refused_token"
	resultRefusedName        = "refused_name"
	resultRefusedCertificate = "refused_certificate"
	resultFailed             = "failed"
)

func newMetrics(registerer prometheus.Registerer) *prometheus.CounterVec {
	asked := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tombolo_node_joins_total",
		Help: "Hosts that asked for a certificate, by result. Those that begin with refused_ deserve a look.",
	}, []string{"result"})
	for _, result := range []string{resultJoined, resultRenewed, resultRefusedToken, resultRefusedName, resultRefusedCertificate, resultFailed} {
		asked.WithLabelValues(result)
	}
	if registerer != nil {
		registerer.MustRegister(asked)
	}
	return asked
}

// resultOf is what a refusal counts as.
func resultOf(err error) string {
	switch {
	case errors.Is(err, errUnknownToken), errors.Is(err, errUsedToken), errors.Is(err, errExpiredToken):
		return resultRefusedToken
	case errors.Is(err, errOtherName):
		return resultRefusedName
	case errors.Is(err, errRevoked), errors.Is(err, errNothingShown):
		return resultRefusedCertificate
	}
	return resultFailed
}
