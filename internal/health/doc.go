// Package health serves what a process says of itself over HTTP: whether it lives, whether
// it does its work, and its metrics. There is nothing to change through it, and no profile
// to take.
package health
