package result

import "fmt"

// Machine describes what the figures of a run depend on, apart from the code.
type Machine struct {
	Kernel     string `json:"kernel"`
	CPU        string `json:"cpu"`                // model name
	Cores      int    `json:"cores"`              // logical cores available to this process
	Governor   string `json:"governor,omitempty"` // CPU frequency governor; empty if it cannot be read
	Memory     uint64 `json:"memory"`             // bytes
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	Go         string `json:"go"`
	GOMAXPROCS int    `json:"gomaxprocs"`
	Strait     string `json:"strait"` // version
}

// String formats the machine as one line.
func (m Machine) String() string {
	line := fmt.Sprintf("%s, %d cores (GOMAXPROCS %d), %.0f GiB, %s %s %s, %s, strait %s",
		orUnknown(m.CPU, "CPU"), m.Cores, m.GOMAXPROCS, float64(m.Memory)/(1<<30), m.OS, m.Kernel, m.Arch, m.Go, m.Strait)
	if m.Governor != "" {
		line += ", governor " + m.Governor
	}
	return line
}

func orUnknown(text, what string) string {
	if text == "" {
		return "unknown " + what
	}
	return text
}

// Differences lists the properties in which another machine would give other figures,
// except for the version of strait, which is what runs are compared for.
func (m Machine) Differences(other Machine) (all []string) {
	for _, f := range []struct {
		name string
		a, b any
	}{
		{"kernel", m.Kernel, other.Kernel},
		{"CPU", m.CPU, other.CPU},
		{"cores", m.Cores, other.Cores},
		{"governor", m.Governor, other.Governor},
		{"architecture", m.Arch, other.Arch},
		{"Go", m.Go, other.Go},
		{"GOMAXPROCS", m.GOMAXPROCS, other.GOMAXPROCS},
	} {
		if f.a != f.b {
			all = append(all, fmt.Sprintf("%s: %v, then %v", f.name, f.a, f.b))
		}
	}
	return all
}
