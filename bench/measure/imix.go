package measure

// IMIX is the "simple IMIX" of packet benchmarks in bytes of IP packet: of 12 packets, 7
// are small, 4 medium and 1 large.
var IMIX = []int{64, 64, 570, 64, 64, 570, 64, 570, 64, 64, 570, 1400}
