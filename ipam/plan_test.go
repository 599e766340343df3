package ipam_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"strait.dev/strait/ipam"
)

// inUse is what cluster a uses itself.
var inUse = []ipam.Reserved{
	{Prefix: pfx("10.0.0.0/16"), Use: "this cluster's pod CIDR"},
	{Prefix: pfx("10.96.0.0/12"), Use: "this cluster's service CIDR"},
	{Prefix: pfx("192.0.2.0/24"), Use: "this cluster's nodes"},
	{Prefix: pfx("10.80.0.0/16"), Use: "this cluster's internal CIDR"},
	{Prefix: pfx("10.70.0.0/16"), Use: "this cluster's external CIDR"},
	{Prefix: pfx("fd00:a::/48"), Use: "this cluster's pod CIDR"},
}

func planOf(t testing.TB, s *ipam.Space, owner, remote string) []ipam.Mapping {
	t.Helper()
	plan, err := s.Plan(owner, remotes(remote))
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// remotes are prefixes that may keep their addresses. A ! in front of one means that it may
// not.
func remotes(text string) (all []ipam.Remote) {
	for one := range strings.FieldsSeq(text) {
		cidr, moved := strings.CutPrefix(one, "!")
		r := ipam.Remote{CIDR: pfx(cidr)}
		if moved {
			r.Moved = cidr + " is not listed"
		}
		all = append(all, r)
	}
	return all
}

// text is a plan without its reasons.
func text(plan []ipam.Mapping) string {
	var s []string
	for _, m := range plan {
		s = append(s, m.CIDR.String()+">"+m.SeenAs.String())
	}
	return strings.Join(s, " ")
}

// grant takes what a plan says.
func grant(t testing.TB, s *ipam.Space, owner string, plan []ipam.Mapping) {
	t.Helper()
	for _, m := range plan {
		take(t, s, ipam.Grant{Owner: owner, Wanted: m.CIDR, Prefix: m.SeenAs})
	}
}

func TestAPrefixStaysAsItIsUnlessSomethingHereOverlapsIt(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "10.71.0.0/16 10.72.0.0/13 fd00:71::/32", inUse)
	want := []ipam.Mapping{
		{pfx("10.0.0.0/16"), pfx("10.71.0.0/16"), "10.0.0.0/16 overlaps this cluster's pod CIDR 10.0.0.0/16"},
		{pfx("10.70.0.0/16"), pfx("10.72.0.0/16"), "10.70.0.0/16 overlaps this cluster's external CIDR 10.70.0.0/16"},
		{pfx("100.64.0.0/16"), pfx("100.64.0.0/16"), "100.64.0.0/16 overlaps no prefix in use in this cluster"},
		{pfx("10.73.0.0/16"), pfx("10.73.0.0/16"), "10.73.0.0/16 overlaps no prefix in use in this cluster"},
		{pfx("10.100.4.0/24"), pfx("10.74.0.0/24"), "10.100.4.0/24 overlaps this cluster's service CIDR 10.96.0.0/12"},
		{pfx("192.0.0.0/19"), pfx("10.74.32.0/19"), "192.0.0.0/19 overlaps this cluster's nodes 192.0.2.0/24"},
		{pfx("fd00:a::/56"), pfx("fd00:71::/56"), "fd00:a::/56 overlaps this cluster's pod CIDR fd00:a::/48"},
	}
	// The /19 is wider than the /24 and so chooses first.
	want[4].SeenAs, want[5].SeenAs = pfx("10.74.32.0/24"), pfx("10.74.0.0/19")

	remote := "10.0.0.0/16 10.70.0.0/16 100.64.0.0/16 10.73.0.0/16 10.100.4.0/24 192.0.0.0/19 fd00:a::/56"
	for range 2 { // a plan changes nothing
		if got := planOf(t, s, "b", remote); !slices.Equal(got, want) {
			t.Fatalf("got\n%v\nwant\n%v", got, want)
		}
	}
	grant(t, s, "b", want)
	if got := planOf(t, s, "b", remote); !slices.Equal(got, want) {
		t.Fatalf("granted, the plan is\n%v\nwas\n%v", got, want)
	}
}

func TestALaterClusterChangesNothingForAnEarlierOne(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "10.64.0.0/11", inUse)
	const remote = "10.0.0.0/16 10.70.0.0/16 172.20.0.0/16"
	plans := map[string]string{}
	for _, owner := range []string{"d", "b", "c", "a"} {
		plan := planOf(t, s, owner, remote)
		grant(t, s, owner, plan)
		plans[owner] = text(plan)
	}
	for owner, want := range plans {
		if got := text(planOf(t, s, owner, remote)); got != want {
			t.Errorf("%s: was %s, is %s", owner, want, got)
		}
	}
	if got := plans["b"]; got != "10.0.0.0/16>10.66.0.0/16 10.70.0.0/16>10.67.0.0/16 172.20.0.0/16>10.68.0.0/16" {
		t.Errorf("the second cluster: %s", got)
	}
	if got := planOf(t, s, "e", "172.20.0.0/16")[0].Reason; got != "172.20.0.0/16 overlaps the grant of d 172.20.0.0/16" {
		t.Errorf("the reason names no cluster that stands in the way: %s", got)
	}
}

func TestThePlanDoesNotDependOnTheOrderOfTheRemotePrefixes(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	// Three move, and the lowest places they could move to are where others stay.
	remote := remotes("10.0.0.0/17 10.0.128.0/18 10.70.0.0/16 10.64.0.0/17 10.64.128.0/18 10.65.0.0/16")
	s := newSpace(t, "10.64.0.0/12", inUse)
	want := map[string]string{}
	for range 50 {
		random.Shuffle(len(remote), func(i, j int) { remote[i], remote[j] = remote[j], remote[i] })
		plan, err := s.Plan("b", remote)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range plan {
			cidr := m.CIDR.String()
			if m.CIDR != remote[i].CIDR {
				t.Fatalf("answer %d is for %v, the question for %v", i, m.CIDR, remote[i])
			}
			if want[cidr] == "" {
				want[cidr] = m.SeenAs.String()
			}
			if want[cidr] != m.SeenAs.String() {
				t.Fatalf("%v: once %s, now %v", cidr, want[cidr], m.SeenAs)
			}
			for _, other := range plan[:i] {
				if other.SeenAs.Overlaps(m.SeenAs) {
					t.Fatalf("%v and %v are both mapped to %v", m.CIDR, other.CIDR, m.SeenAs)
				}
			}
		}
	}
}

func TestAPlanThatDoesNotFitSaysWhyAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "10.71.0.0/16", inUse)
	_, err := s.Plan("b", remotes("10.0.0.0/16 10.70.0.0/16"))
	var exhausted *ipam.ExhaustedError
	if !errors.As(err, &exhausted) || !strings.Contains(err.Error(), "10.70.0.0/16 overlaps this cluster's external CIDR") {
		t.Fatalf("got %v", err)
	}
	if got := text(planOf(t, s, "c", "10.0.0.0/16")); got != "10.0.0.0/16>10.71.0.0/16" {
		t.Errorf("the plan that failed left something behind: %s", got)
	}
}

func TestWhatMovedOnceStaysWhereItIs(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "10.71.0.0/16", nil, ipam.Grant{Owner: "b", Wanted: pfx("10.0.0.0/16"), Prefix: pfx("10.71.0.0/16")})
	plan := planOf(t, s, "b", "10.0.0.0/16")
	if plan[0].SeenAs != pfx("10.71.0.0/16") || plan[0].Reason != "10.71.0.0/16 was granted when 10.0.0.0/16 was not free" {
		t.Errorf("got %v", plan)
	}
}

// A prefix that may not keep its addresses gets others in every case, in a pool or not, even
// if it is free. What it holds already stays.
func TestT7_WhatMayNotKeepItsAddressesGetsThoseOfAPool(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "10.64.0.0/11 fd00:71::/32", inUse, ipam.Grant{Owner: "b", Wanted: pfx("172.30.0.0/16"), Prefix: pfx("172.30.0.0/16")})
	want := []ipam.Mapping{
		{pfx("172.16.0.0/13"), pfx("10.72.0.0/13"), "172.16.0.0/13 is not listed"},
		{pfx("172.30.0.0/16"), pfx("172.30.0.0/16"), "172.30.0.0/16 was granted before, and stays"},
		{pfx("10.90.0.0/16"), pfx("10.65.0.0/16"), "10.90.0.0/16 is not listed"}, // of the pool itself
		{pfx("10.0.0.0/16"), pfx("10.64.0.0/16"), "10.0.0.0/16 overlaps this cluster's pod CIDR 10.0.0.0/16"},
		{pfx("10.91.0.0/16"), pfx("10.91.0.0/16"), "10.91.0.0/16 overlaps no prefix in use in this cluster"},
		{pfx("fd00:b::/48"), pfx("fd00:71::/48"), "fd00:b::/48 is not listed"},
	}
	const remote = "!172.16.0.0/13 !172.30.0.0/16 !10.90.0.0/16 !10.0.0.0/16 10.91.0.0/16 !fd00:b::/48"
	if got := planOf(t, s, "b", remote); !slices.Equal(got, want) {
		t.Fatalf("got\n%v\nwant\n%v", got, want)
	}
	grant(t, s, "b", want)
	if got := text(planOf(t, s, "b", remote)); got != text(want) {
		t.Errorf("granted, the plan is\n%s\nwas\n%s", got, text(want))
	}
}
