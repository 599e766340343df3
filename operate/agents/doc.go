// Package agents runs pods of Strait's own image in a cluster for as long as a command
// needs them, in separate namespaces that are deleted with them.
//
//	group, err := agents.Start(ctx, agents.Options{Client: c, Image: image, Purpose: "verify"},
//		agents.Agent{Name: "one", Profile: agents.Restricted},
//		agents.Agent{Name: "two", Node: "n2", Profile: agents.Node})
//	defer group.End(ctx)
//	err = group.Exec(ctx, "one", nil, &out, "agent", "probe", ...)
//
// An agent is idle: commands are run in it with exec and print JSON. So it needs no service
// account, no port, and no route back to the command.
package agents
