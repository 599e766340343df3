package tun

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/blake2s"
	"golang.org/x/crypto/chacha20poly1305"
	"golang.org/x/crypto/curve25519"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tai64n"
)

// tai64nBase is the label of 1970-01-01 00:00:10 TAI, as WireGuard counts it.
const tai64nBase = 0x400000000000000a

// initiationAt is the initiation that WireGuard sends when its clock shows a time.
func initiationAt(t *testing.T, from device.NoisePrivateKey, to device.NoisePublicKey, at time.Time) []byte {
	t.Helper()
	hash, chain := device.InitialHash, device.InitialChainKey
	var key [chacha20poly1305.KeySize]byte
	mix := func(b []byte) { hash = blake2s.Sum256(append(hash[:], b...)) }
	agree := func(private [32]byte) []byte {
		secret, err := curve25519.X25519(private[:], to[:])
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	seal := func(b []byte) []byte {
		aead, err := chacha20poly1305.New(key[:])
		if err != nil {
			t.Fatal(err)
		}
		return aead.Seal(nil, device.ZeroNonce[:], b, hash[:])
	}
	own, ephemeral := publicKey(from), newKey()
	ephemeralPublic := publicKey(ephemeral)
	mix(to[:])
	device.KDF1(&chain, chain[:], ephemeralPublic[:])
	mix(ephemeralPublic[:])
	device.KDF2(&chain, &key, chain[:], agree(ephemeral))
	static := seal(own[:])
	mix(static)
	device.KDF2(&chain, &key, chain[:], agree(from))
	var stamp tai64n.Timestamp
	binary.BigEndian.PutUint64(stamp[:], tai64nBase+uint64(at.Unix()))
	b := binary.LittleEndian.AppendUint32(nil, device.MessageInitiationType)
	b = binary.LittleEndian.AppendUint32(b, 1) // the sender's index
	b = append(append(append(b, ephemeralPublic[:]...), static...), seal(stamp[:])...)
	b = append(b, make([]byte, device.MessageInitiationSize-len(b))...)
	var macs device.CookieGenerator
	macs.Init(to)
	macs.AddMacs(b)
	return b
}

// stepBack makes the other end know an initiation of end i from the future: what is left when the clock of i was
// ahead and is set back.
//
//strait:virtualtime
func (p *slowPair) stepBack(i int, by time.Duration) {
	p.ends[1-i].in <- datagram{bytes: initiationAt(p.t, p.keys[i], publicKey(p.keys[1-i]), time.Now().Add(by))}
}

// An end whose clock is set back by an hour cannot initiate for an hour. The session goes on: when it ends, the
// other end initiates.
func TestF12_AClockThatIsSetBackEndsNoSession(t *testing.T) {
	if !inVirtualTime(t) {
		return
	}
	refused := uint64(0)
	for _, silent := range [][2]bool{{}, {false, true}, {true, false}} {
		for stepped := range 2 {
			synctest.Test(t, func(t *testing.T) {
				p := newSlowPair(t, 10*time.Millisecond, 1)
				p.silent = silent
				p.start(0)
				p.start(1)
				if p.bothUp(20*time.Second) == 20*time.Second {
					t.Error("the link does not come up")
				}
				time.Sleep(5 * time.Second)
				p.stepBack(stepped, time.Hour)
				time.Sleep(20 * time.Minute)
				if p.bothUp(0) > 0 || p.ends[0].downs.Load() > 0 || p.ends[1].downs.Load() > 0 {
					t.Errorf("without endpoints %v, the clock of end %d stepped: down %d and %d times", silent, stepped, p.ends[0].downs.Load(), p.ends[1].downs.Load())
				}
				refused += p.ends[1-stepped].link.wg.rejected.Load()
				p.end()
			})
		}
	}
	if refused == 0 {
		t.Error("no initiation was refused")
	}
}

// An end that is started after its clock was set back has no session, and its initiations are refused. The other end
// initiates, or, if it cannot, forgets the last timestamp.
func TestF12_AProcessThatStartsWithAnEarlierClockIsBackSoon(t *testing.T) {
	if !inVirtualTime(t) {
		return
	}
	for _, c := range []struct {
		silent [2]bool
		limit  time.Duration
	}{{[2]bool{}, 4 * time.Second}, {[2]bool{true, false}, 4 * time.Second}, {[2]bool{false, true}, 8 * time.Second}} {
		for yields := range 2 {
			for _, away := range []time.Duration{300 * time.Millisecond, 20 * time.Second} {
				synctest.Test(t, func(t *testing.T) {
					p := newSlowPair(t, 10*time.Millisecond, yields)
					p.silent = c.silent
					p.start(0)
					p.start(1)
					if p.bothUp(20*time.Second) == 20*time.Second {
						t.Error("the link does not come up")
					}
					time.Sleep(5 * time.Second)
					p.stepBack(0, time.Hour)
					time.Sleep(time.Second)
					p.kill(0)
					time.Sleep(away)
					p.start(0)
					up := p.bothUp(time.Minute)
					t.Logf("without endpoints %v, end %d yields, away for %v: back after %v", c.silent, yields, away, up)
					if up > c.limit {
						t.Errorf("without endpoints %v, end %d yields, away for %v: back after %v, want %v", c.silent, yields, away, up, c.limit)
					}
					p.end()
				})
			}
		}
	}
}
