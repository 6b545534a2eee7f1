{{/* Name of the release's objects. */}}
{{- define "tombolo.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What names one node in labels and names of objects: its name, or a piece of it that no other node has. */}}
{{- define "tombolo.short" -}}
{{- if or (contains "." .) (gt (len .) 20) -}}
{{- printf "%s-%s" (. | replace "." "-" | trunc 11 | trimSuffix "-") (. | sha256sum | trunc 8) -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}

{{- define "tombolo.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tombolo.labels" -}}
{{ include "tombolo.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "tombolo.image" -}}
{{- $registry := default .Values.image.registry .Values.global.imageRegistry -}}
{{- $repository := .Values.image.repository -}}
{{- if $registry }}{{ $repository = printf "%s/%s" $registry $repository }}{{ end -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The registry for mirrors holds this image, too. */}}
{{- define "tombolo.testImage" -}}
{{- printf "%s/%s" (default .Values.test.image.registry .Values.global.imageRegistry) .Values.test.image.repository -}}
{{- if .Values.test.image.digest }}@{{ .Values.test.image.digest }}{{ else }}:{{ .Values.test.image.tag }}{{ end -}}
{{- end -}}

{{/* Problems that a schema has no words for. */}}
{{- define "tombolo.check" -}}
{{- $seen := dict -}}
{{- range .Values.nodes -}}
{{- if hasKey $seen .name -}}
{{- fail (printf "nodes: %q is there twice; every node needs a name of its own" .name) -}}
{{- end -}}
{{- $_ := set $seen .name true -}}
{{- end -}}
{{- if eq (int .Values.kubeletAPI.port) (int .Values.metrics.port) -}}
{{- fail (printf "metrics.port: %d is kubeletAPI.port, too; give another one" (int .Values.metrics.port)) -}}
{{- end -}}
{{- range .Values.nodes -}}
{{- if and (hasPrefix "reverse://" .link) (has 8470 (list (int $.Values.kubeletAPI.port) (int $.Values.metrics.port))) -}}
{{- fail (printf "nodes: at port 8470 the host of %s connects; give kubeletAPI.port and metrics.port other ones" .name) -}}
{{- end -}}
{{- if and (dig "jumps" list (default dict .ssh)) (not (dig "knownHosts" "" (default dict .ssh))) -}}
{{- fail (printf "nodes: the keys of the jump hosts of %s must be in ssh.knownHosts" .name) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.service.enabled) -}}
{{- fail "metrics.serviceMonitor.enabled: it needs metrics.service.enabled as well" -}}
{{- end -}}
{{- if and .Values.kubeletAPI.clientCA .Values.kubeletAPI.clientCAFromCluster -}}
{{- fail "kubeletAPI.clientCA: set kubeletAPI.clientCAFromCluster to false if the authority is given" -}}
{{- end -}}
{{- end -}}

{{/* Users that the nodes are towards the API. */}}
{{- define "tombolo.users" -}}
{{- range .Values.nodes }}
- apiGroup: rbac.authorization.k8s.io
  kind: User
  name: {{ printf "system:node:%s" .name | quote }}
{{- end }}
{{- end -}}
