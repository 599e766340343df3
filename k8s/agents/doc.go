// Package agents runs pods of Strait's own image in a cluster for as long as a command
// needs them, in namespaces of their own that go with them.
//
//	crew, err := agents.Start(ctx, agents.Options{Client: c, Image: image, Purpose: "verify"},
//		agents.Agent{Name: "one", Profile: agents.Restricted},
//		agents.Agent{Name: "two", Node: "n2", Profile: agents.Host})
//	defer crew.End(ctx)
//	err = crew.Exec(ctx, "one", nil, &out, "agent", "probe", ...)
//
// An agent does nothing by itself: what it shall do is run in it, and prints JSON. So it
// needs no service account, no port and no way back to whoever asks.
package agents
