// Small stands for the command line in releases of tests: it prints its arguments.
package main

import (
	"fmt"
	"os"
)

func main() { fmt.Println(os.Args[1:]) }
