// Package diagnose joins what the checks of one cluster or two find into one list of causes, the most likely first.
//
// A peering is built in steps, from the API server to packets and names, and a step that fails makes later ones
// fail. So the cause is most likely the finding about the first step that the status shows as not reached; then that
// step by itself; then errors about other steps, which can be faults of their own.
package diagnose
