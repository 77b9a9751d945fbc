{{/* The specification of a pod that serves: dict "root" . "component" gateway|node "values" VALUES-OF-COMPONENT. */}}
{{- define "folio.servingPod" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
{{- $clusterTls := ternary $values.cluster.tls.gatewaySecret $values.cluster.tls.nodeSecret (eq .component "gateway") -}}
{{- if ne (empty $values.cluster.tls.gatewaySecret) (empty $values.cluster.tls.nodeSecret) -}}
{{- fail "cluster.tls requires both gatewaySecret and nodeSecret, or neither" -}}
{{- end -}}
{{- if and $values.gateway.proxyProtocol (empty $values.gateway.trustedProxies) -}}
{{- fail "gateway.proxyProtocol requires gateway.trustedProxies" -}}
{{- end -}}
{{- if contains "[limits]" $values.settings -}}
{{- fail "settings must not contain [limits]: set limits" -}}
{{- end -}}
{{- $purchases := ternary $values.purchases.port 0 (eq .component "gateway") -}}
{{- $publicTls := ternary $values.gateway.tlsSecret "" (eq .component "gateway") -}}
serviceAccountName: {{ include "folio.serviceAccountName" $root }}
automountServiceAccountToken: false
enableServiceLinks: false
# Time for the drain, and for cancelling and settling the remaining work.
terminationGracePeriodSeconds: {{ add $values.preStopSeconds $values.drainTimeoutSeconds 15 }}
{{- include "folio.podSecurity" $root | trim | nindent 0 }}
containers:
  - name: folio
    image: {{ include "folio.image" $root }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    args:
      - serve
      - --config=/etc/folio/folio.toml
      - --roles={{ .component }}
      - --health-listen=0.0.0.0:8081
      {{- include "folio.storeFlags" $root | trim | nindent 6 }}
      {{- if eq .component "gateway" }}
      - --listen=0.0.0.0:8080
      {{- if $publicTls }}
      - --tls-cert=/etc/folio/tls/tls.crt
      - --tls-key=/etc/folio/tls/tls.key
      {{- else }}
      - --insecure
      {{- end }}
      {{- else }}
      - --node-listen=0.0.0.0:{{ $values.node.port }}
      - --node-advertise=$(POD_NAME).{{ include "folio.fullname" $root }}-node.$(POD_NAMESPACE).svc:{{ $values.node.port }}
      {{- end }}
    env:
      - name: POD_NAME
        valueFrom:
          fieldRef:
            fieldPath: metadata.name
      - name: POD_NAMESPACE
        valueFrom:
          fieldRef:
            fieldPath: metadata.namespace
      - name: FOLIO_SERVER__DRAIN_TIMEOUT_SECONDS
        value: {{ $values.drainTimeoutSeconds | toString | quote }}
      - name: FOLIO_LIMITS__REQUESTS_PER_SECOND
        value: {{ $values.limits.requestsPerSecond | int64 | toString | quote }}
      - name: FOLIO_LIMITS__CONCURRENT_TURNS
        value: {{ $values.limits.concurrentTurns | int64 | toString | quote }}
      - name: FOLIO_LIMITS__CONCURRENT_MODEL_CALLS
        value: {{ $values.limits.concurrentModelCalls | int64 | toString | quote }}
      - name: FOLIO_LIMITS__DOCUMENTS
        value: {{ $values.limits.documents | int64 | toString | quote }}
      - name: FOLIO_LIMITS__STORAGE_BYTES
        value: {{ $values.limits.storageBytes | int64 | toString | quote }}
      {{- if eq .component "gateway" }}
      {{- with $values.gateway.trustedProxies }}
      - name: FOLIO_GATEWAY__TRUSTED_PROXIES
        value: {{ toJson . | quote }}
      {{- end }}
      {{- if $values.gateway.proxyProtocol }}
      - name: FOLIO_GATEWAY__PROXY_PROTOCOL
        value: "true"
      {{- end }}
      {{- end }}
      - name: FOLIO_DOCUMENTS__SCRATCH
        value: /var/lib/folio/scratch
      {{- if eq .component "gateway" }}
      - name: FOLIO_DOCUMENTS__UPLOADS
        value: {{ $values.gateway.uploads | int64 | toString | quote }}
      - name: FOLIO_GATEWAY__UPLOAD_SPOOL_BYTES
        value: {{ $values.scratch.uploadSpoolBytes | int64 | toString | quote }}
      - name: FOLIO_GATEWAY__UPLOAD_SPOOL_BYTES_PER_ORGANIZATION
        value: {{ $values.scratch.uploadSpoolBytesPerOrganization | int64 | toString | quote }}
      {{- else if empty $values.qdrant.url }}
      - name: FOLIO_INDEX__DISK_BYTES
        value: {{ $values.scratch.indexBytes | int64 | toString | quote }}
      {{- end }}
      - name: FOLIO_DOCUMENTS__ISOLATION
        value: {{ $values.documents.isolation }}
      - name: FOLIO_CLUSTER__SECRET_FILE
        value: /etc/folio/cluster/secret
      {{- if $clusterTls }}
      - name: FOLIO_CLUSTER__TLS__CA
        value: /etc/folio/cluster-tls/ca.crt
      - name: FOLIO_CLUSTER__TLS__CERTIFICATE
        value: /etc/folio/cluster-tls/tls.crt
      - name: FOLIO_CLUSTER__TLS__KEY
        value: /etc/folio/cluster-tls/tls.key
      {{- else }}
      - name: FOLIO_CLUSTER__INSECURE
        value: "true"
      {{- end }}
      {{- with $values.telemetry.endpoint }}
      - name: FOLIO_TELEMETRY__ENDPOINT
        value: {{ . | quote }}
      {{- end }}
      {{- if $purchases }}
      - name: FOLIO_PURCHASES__LISTEN
        value: 0.0.0.0:{{ $purchases }}
      - name: FOLIO_PURCHASES__SECRETS
        valueFrom:
          secretKeyRef:
            name: {{ required "set purchases.existingSecret (signing secrets)" $values.purchases.existingSecret }}
            key: {{ $values.purchases.secretsKey }}
      {{- end }}
      {{- with $values.masterKeys.existingSecret }}
      - name: FOLIO_SECRETS__MASTER_KEYS
        valueFrom:
          secretKeyRef:
            name: {{ . }}
            key: {{ $values.masterKeys.secretKey }}
      {{- end }}
      {{- include "folio.env" $root | trim | nindent 6 }}
    ports:
      {{- if eq .component "gateway" }}
      - name: grpc
        containerPort: 8080
      {{- with $purchases }}
      - name: purchases
        containerPort: {{ . }}
      {{- end }}
      {{- else }}
      - name: node
        containerPort: {{ $values.node.port }}
      {{- end }}
      - name: health
        containerPort: 8081
    # A starting process may wait for the lock of a migration.
    startupProbe:
      grpc:
        port: 8081
        service: live
      periodSeconds: 5
      failureThreshold: 60
    livenessProbe:
      grpc:
        port: 8081
        service: live
      periodSeconds: 10
      timeoutSeconds: 5
      failureThreshold: 6
    readinessProbe:
      grpc:
        port: 8081
      periodSeconds: 5
      timeoutSeconds: 3
      failureThreshold: 2
    lifecycle:
      preStop:
        exec:
          command: ["sleep", {{ $values.preStopSeconds | toString | quote }}]
    resources:
      {{- toYaml .values.resources | nindent 6 }}
    {{- include "folio.containerSecurity" $root | nindent 4 }}
    volumeMounts:
      - name: settings
        mountPath: /etc/folio/folio.toml
        subPath: folio.toml
        readOnly: true
      - name: cluster
        mountPath: /etc/folio/cluster
        readOnly: true
      {{- if $clusterTls }}
      - name: cluster-tls
        mountPath: /etc/folio/cluster-tls
        readOnly: true
      {{- end }}
      {{- if $publicTls }}
      - name: tls
        mountPath: /etc/folio/tls
        readOnly: true
      {{- end }}
      {{- include "folio.scratchMounts" $root | nindent 6 }}
volumes:
  - name: settings
    configMap:
      name: {{ include "folio.fullname" $root }}
  - name: cluster
    secret:
      secretName: {{ required "set cluster.existingSecret (it signs RPCs)" $values.cluster.existingSecret }}
      defaultMode: 0440
      items:
        - key: {{ $values.cluster.secretKey }}
          path: secret
  {{- if $clusterTls }}
  - name: cluster-tls
    secret:
      secretName: {{ $clusterTls }}
      defaultMode: 0440
  {{- end }}
  {{- if $publicTls }}
  - name: tls
    secret:
      secretName: {{ $publicTls }}
      defaultMode: 0440
  {{- end }}
  {{- include "folio.scratchVolumes" $root | nindent 2 }}
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
{{- if .values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range .values.topologySpreadConstraints }}
  - {{ toYaml . | indent 4 | trim }}
    labelSelector:
      matchLabels:
        {{- include "folio.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "folio.podSecurity" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- define "folio.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{- define "folio.scratchMounts" -}}
- name: scratch
  mountPath: /var/lib/folio
- name: scratch
  mountPath: /tmp
  subPath: tmp
{{- if .Values.blobs.existingClaim }}
- name: blobs
  mountPath: /var/lib/folio/blobs
{{- end }}
{{- end -}}

{{- define "folio.scratchVolumes" -}}
- name: scratch
  emptyDir:
    sizeLimit: {{ .Values.scratch.sizeLimit }}
{{- with .Values.blobs.existingClaim }}
- name: blobs
  persistentVolumeClaim:
    claimName: {{ . }}
{{- end }}
{{- end -}}
