#!/bin/sh
# An example of a custom subject: gateways that consist of kernel devices only, without encryption. Run it with:
#
#	strait bench peer --subject kernel=bench/rig/testdata/kernel-gateways.sh
set -e

# gateway NAMESPACE UNDERLAY NODE_UNDERLAY INTERNAL NODE_INTERNAL OTHER_SEEN_AS OTHER_WAN
gateway() {
	mac() { printf '0a:58:%02x:%02x:%02x:%02x' $(echo "$1" | tr . ' '); }
	case $RIG_ENCAPSULATION_A in
	geneve) kind="geneve id $RIG_VNI_A remote $3 dstport $RIG_PORT_A" ;;
	vxlan) kind="vxlan id $RIG_VNI_A local $2 remote $3 dstport $RIG_PORT_A nolearning" ;;
	esac
	ip -n "$1" -batch - <<-LINES
		link add ov address $(mac "$4") mtu 1450 type $kind
		link set ov up
		addr add $4/24 dev ov
		neigh replace $5 lladdr $(mac "$5") nud permanent dev ov
		rule add iif ov lookup 100
		route add default via $7 dev wan table 100
		rule add iif wan lookup 101
		route add 10.0.0.0/16 via $5 dev ov table 101
	LINES
	ip netns exec "$1" nft -f - <<-RULES
		table ip gateway {
			chain prerouting {
				type nat hook prerouting priority dstnat;
				iifname "ov" ip daddr $6 dnat ip prefix to ip daddr map { $6 : 10.0.0.0/16 }
			}
			chain postrouting {
				type nat hook postrouting priority srcnat;
				oifname "ov" ip saddr 10.0.0.0/16 snat ip prefix to ip saddr map { 10.0.0.0/16 : $6 }
			}
		}
	RULES
}

gateway "$RIG_GATEWAY_A" "$RIG_UNDERLAY_A" "$RIG_NODE_UNDERLAY_A" "$RIG_INTERNAL_A" "$RIG_NODE_INTERNAL_A" "$RIG_SEEN_AS_B" "$RIG_WAN_B"
gateway "$RIG_GATEWAY_B" "$RIG_UNDERLAY_B" "$RIG_NODE_UNDERLAY_B" "$RIG_INTERNAL_B" "$RIG_NODE_INTERNAL_B" "$RIG_SEEN_AS_A" "$RIG_WAN_A"

# The gateways last as long as this does. There is nothing to end: the namespaces are the rig's.
trap exit TERM
while :; do sleep 3600 & wait $!; done
