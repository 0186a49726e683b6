{{- define "houston.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "houston.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "houston.labels" -}}
{{ include "houston.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "houston.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "houston.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "houston.name" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "houston.secret" -}}
{{- required "existingSecret is required: the name of a Secret with DATABASE_URL and HOUSTON_REDIS_URL" .Values.existingSecret -}}
{{- end -}}

{{/* What all containers have. */}}
{{- define "houston.container" -}}
image: {{ include "houston.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
envFrom:
  - secretRef:
      name: {{ include "houston.secret" . | quote }}
env:
  - name: HOUSTON_LOG_FORMAT
    value: json
  - name: HOUSTON_FOLDER
    value: /tmp/houston
  {{- if .Values.jobs }}
  - name: HOUSTON_JOBS
    value: /etc/houston/jobs
  {{- end }}
  {{- range $name, $value := .Values.env }}
  - name: {{ $name }}
    {{- /* Helm reads numbers as floating-point numbers: 7776000 would be written as 7.776e+06. */}}
    value: {{ ternary $value (toJson $value) (kindIs "string" $value) | quote }}
  {{- end }}
  {{- if .Values.metrics.enabled }}
  - name: HOUSTON_METRICS_ADDRESS
    value: "0.0.0.0:{{ .Values.metrics.port }}"
  {{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{- define "houston.mounts" -}}
volumeMounts:
  - name: tmp
    mountPath: /tmp
  {{- if .Values.jobs }}
  - name: jobs
    mountPath: /etc/houston/jobs
    readOnly: true
  {{- end }}
{{- end -}}

{{/* What all pods have; `config` is the name of the ConfigMap with the files. */}}
{{- define "houston.pod" -}}
{{- $root := .root -}}
serviceAccountName: {{ .account }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
volumes:
  - name: tmp
    emptyDir: {}
  {{- if $root.Values.jobs }}
  - name: jobs
    configMap:
      name: {{ .config }}
      items:
        {{- range $path, $text := $root.Values.jobs }}
        - key: {{ include "houston.jobsKey" $path | quote }}
          path: {{ $path | quote }}
        {{- end }}
  {{- end }}
{{- end -}}

{{/* The key of a file of `jobs`: keys of a ConfigMap have no `/`, and paths of files no `..`. */}}
{{- define "houston.jobsKey" -}}
{{- . | replace "/" ".." -}}
{{- end -}}

{{/* The files of `jobs`, by their keys. */}}
{{- define "houston.jobsData" -}}
{{- $data := dict -}}
{{- range $path, $text := .Values.jobs -}}
{{- $_ := set $data (include "houston.jobsKey" $path) $text -}}
{{- end -}}
{{- toYaml $data -}}
{{- end -}}

{{- define "houston.scheduling" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "houston.selector" .root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Values that are right by themselves, but not together: Kubernetes would refuse them, or accept what never works. */}}
{{- define "houston.check" -}}
{{- with .Values.serve.autoscaling -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}
{{- fail (printf "serve.autoscaling.minReplicas is %d, more than maxReplicas, which is %d" (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- end -}}
{{- with .Values.work.keda -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}
{{- fail (printf "work.keda.minReplicas is %d, more than maxReplicas, which is %d" (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.metrics.enabled (eq (int .Values.metrics.port) 8080) -}}
{{- fail "metrics.port is 8080, where the API listens: `serve` could not start; choose another one, such as 9464" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.hosts is empty: name the hosts whose requests are for Houston, or set ingress.enabled to false" -}}
{{- end -}}
{{- end -}}
