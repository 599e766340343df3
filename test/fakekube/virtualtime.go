package fakekube

import utilruntime "k8s.io/apimachinery/pkg/util/runtime"

// client-go's second error handler sleeps until a millisecond has passed since the last
// error of the process. In a synctest bubble, whose clock starts in the year 2000, that
// takes decades if the last error was outside of it, or in another bubble.
func init() { utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] }
