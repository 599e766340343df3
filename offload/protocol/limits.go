package protocol

import "time"

// Version is the version of the protocol.
const Version = 1

// Limits of the messages, and of what a lender keeps for one borrower.
const (
	MaxPods     = 2000      // in a list: four times the number of a large node
	MaxObjects  = 2000      // in a list: one for each pod
	MaxList     = 2 << 20   // bytes of a list: 512 for each pod and each object, with the longest names
	MaxTemplate = 256 << 10 // bytes of a template
	MaxLine     = 256 << 10 // bytes of a message: a status has 32 KiB before control characters are escaped
	MaxStock    = 32        // templates that a lender keeps until they are stored: 8 MiB
	MaxRecords  = 32 << 20  // bytes of all stored templates
	MaxContent  = 3 << 19   // bytes of an object's content: the API's limit of 1 MiB in base64, and the rest
	MaxShelf    = 8 << 20   // bytes of contents of ConfigMaps and Secrets that a lender keeps until they are stored
	MaxCopies   = 32 << 20  // bytes of all stored ConfigMaps and Secrets
	MaxServices = 8 << 20   // bytes of the contents of all Services, which a lender keeps
	MaxNeeds    = 32        // contents that a lender asks for at a time
	MaxHeader   = 8 << 10   // bytes of the header of a response
	MaxRequest  = 32 << 10  // bytes of the header of a request: a command is in its query
	MaxStreams  = 64        // logs, commands and forwarded ports at once

	maxText  = 1024
	maxGrace = 1 << 31
	maxLent  = 256 // namespaces, and types of resources
)

const (
	// HeartbeatInterval is the interval of heartbeats in the status stream.
	HeartbeatInterval = 5 * time.Second
	// Silence is how long a status stream may be silent before the link counts as down: less
	// than the 40 s for which the control plane waits for a node.
	Silence = 15 * time.Second
)

// Paths of the requests.
const (
	VersionsPath  = "/versions"
	DesiredPath   = "/v1/desired"
	TemplatesPath = "/v1/templates/" // followed by a hash
	ObjectsPath   = "/v1/objects/"   // followed by a hash
	StatusPath    = "/v1/status"
	PodsPath      = "/v1/pods/" // followed by a UID and a stream
)
