package main

// The parts of the OCI image specification, v1.1, that are needed here.

const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
	typeEmpty    = "application/vnd.oci.empty.v1+json"
	typeSPDX     = "application/spdx+json"
)

// Annotations and labels of an image.
const (
	keyTitle    = "org.opencontainers.image.title"
	keyVersion  = "org.opencontainers.image.version"
	keyRevision = "org.opencontainers.image.revision"
	keyLicences = "org.opencontainers.image.licenses"
	keySource   = "org.opencontainers.image.source"
	keyCreated  = "org.opencontainers.image.created"
	keyTag      = "org.opencontainers.image.ref.name"
	keyName     = "io.containerd.image.name" // containerd's name for an imported image
)

type platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
}

// nowhere is the platform of a manifest that cannot run.
var nowhere = platform{"unknown", "unknown"}

type descriptor struct {
	MediaType    string            `json:"mediaType"`
	ArtifactType string            `json:"artifactType,omitempty"`
	Digest       string            `json:"digest"`
	Size         int               `json:"size"`
	Platform     *platform         `json:"platform,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
}

type index struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Manifests     []descriptor      `json:"manifests"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	ArtifactType  string            `json:"artifactType,omitempty"`
	Config        descriptor        `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Subject       *descriptor       `json:"subject,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type config struct {
	platform
	Created string `json:"created,omitempty"`
	Config  struct {
		User       string            `json:"User"`
		Entrypoint []string          `json:"Entrypoint"`
		WorkingDir string            `json:"WorkingDir"`
		Labels     map[string]string `json:"Labels"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
	History []history `json:"history"`
}

type history struct {
	Created   string `json:"created,omitempty"`
	CreatedBy string `json:"created_by"`
}
