package controller

import "time"

func init() { // leases change hands fast in tests
	leaseFor, renewWithin, retryEvery = 2*time.Second, time.Second, 100*time.Millisecond
	repairDelay = 100 * time.Millisecond // and what is edited by hand is put right again and again
}
