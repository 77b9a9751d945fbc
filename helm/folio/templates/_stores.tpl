{{/* The flags with the addresses of the stores. */}}
{{- define "folio.storeFlags" -}}
{{- $name := include "folio.fullname" . -}}
{{- if .Values.redis.bundled.enabled }}
- --redis=redis://{{ $name }}-redis:6379
{{- else if .Values.redis.url }}
- --redis={{ .Values.redis.url }}
{{- else if not .Values.redis.existingSecret }}
{{- fail "set redis.url or redis.existingSecret, or redis.bundled.enabled to evaluate the chart" }}
{{- end }}
{{- if .Values.cql.bundled.enabled }}
- --cql={{ $name }}-scylla:9042
{{- else if .Values.cql.contactPoints }}
- --cql={{ join "," .Values.cql.contactPoints }}
{{- else }}
{{- fail "set cql.contactPoints, or cql.bundled.enabled to evaluate the chart" }}
{{- end }}
{{- if .Values.blobs.url }}
- --blobs={{ .Values.blobs.url }}
{{- else if .Values.blobs.existingClaim }}
- --blobs=/var/lib/folio/blobs
{{- else }}
{{- fail "set blobs.url (s3://BUCKET) or blobs.existingClaim (ReadWriteMany): the pods share the bytes of documents" }}
{{- end }}
{{- end -}}

{{/* The environment variables for stores, models and further settings. */}}
{{- define "folio.env" -}}
{{- with .Values.redis.existingSecret }}
- name: FOLIO_STORAGE__REDIS__URL
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: {{ $.Values.redis.urlKey }}
{{- end }}
- name: FOLIO_STORAGE__CQL__KEYSPACE
  value: {{ .Values.cql.keyspace | quote }}
- name: FOLIO_STORAGE__CQL__REPLICATION_FACTOR
  value: {{ ternary 1 .Values.cql.replicationFactor .Values.cql.bundled.enabled | toString | quote }}
{{- with .Values.cql.datacenter }}
- name: FOLIO_STORAGE__CQL__DATACENTER
  value: {{ . | quote }}
{{- end }}
{{- with .Values.cql.existingSecret }}
- name: FOLIO_STORAGE__CQL__USER
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: {{ $.Values.cql.userKey }}
- name: FOLIO_STORAGE__CQL__PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: {{ $.Values.cql.passwordKey }}
{{- end }}
{{- with .Values.blobs.s3.endpoint }}
- name: FOLIO_STORAGE__S3__ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- with .Values.blobs.s3.region }}
- name: FOLIO_STORAGE__S3__REGION
  value: {{ . | quote }}
{{- end }}
{{- with .Values.blobs.s3.existingSecret }}
- name: AWS_ACCESS_KEY_ID
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: {{ $.Values.blobs.s3.accessKeyIdKey }}
- name: AWS_SECRET_ACCESS_KEY
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: {{ $.Values.blobs.s3.secretAccessKeyKey }}
{{- end }}
{{- with .Values.qdrant.url }}
- name: FOLIO_INDEX__QDRANT_URL
  value: {{ . | quote }}
{{- end }}
{{- with .Values.qdrant.existingSecret }}
- name: FOLIO_INDEX__QDRANT_API_KEY
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: {{ $.Values.qdrant.apiKeyKey }}
{{- end }}
{{- range .Values.modelKeys }}
- name: {{ .variable }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .key }}
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}
