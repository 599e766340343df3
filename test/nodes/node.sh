# The first process of a node, in new namespaces except for the network: mounts the node's
# file systems and then reaps orphaned processes. Arguments: name, directory.
set -eu
name=$1 dir=$2
hostname "$name"
mount --make-rprivate /
mount -t proc proc /proc

# The machine and the node do not share these directories.
for place in /run /var/lib /var/log; do mount -t tmpfs -o mode=755 tmpfs "$place"; done

# cgroups, with the node's cgroup as their root. Its daemons are in a child, as version 2
# requires.
umount -R /sys
mount -t sysfs sysfs /sys
if ! grep -qv '^0:' /proc/self/cgroup; then
	mount -t cgroup2 cgroup2 /sys/fs/cgroup
	mkdir /sys/fs/cgroup/daemons
	echo 0 >/sys/fs/cgroup/daemons/cgroup.procs
	for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do echo "+$controller"; done | xargs >/sys/fs/cgroup/cgroup.subtree_control
else
	mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
	while IFS=: read -r number controllers path; do
		place=/sys/fs/cgroup/${controllers#name=}
		[ -n "$controllers" ] || place=/sys/fs/cgroup/unified
		mkdir "$place"
		case $controllers in
		"") mount -t cgroup2 cgroup2 "$place" ;;
		name=*) mount -t cgroup -o "none,$controllers" cgroup "$place" ;;
		*) mount -t cgroup -o "$controllers" cgroup "$place" ;;
		esac
		mkdir "$place/daemons"
		for file in cpuset.cpus cpuset.mems; do
			[ ! -e "$place/$file" ] || cat "$place/$file" >"$place/daemons/$file"
		done
	done </proc/self/cgroup
fi

# A kubelet sets these for the whole machine. It finds the values that it needs, and changes nothing.
while read -r setting value; do
	[ -e "/proc/sys/$setting" ] || continue
	echo "$value" >"$dir/${setting//\//.}"
	mount --bind "$dir/${setting//\//.}" "/proc/sys/$setting"
done <<-END
	vm/overcommit_memory 1
	vm/panic_on_oom 0
	kernel/panic 10
	kernel/panic_on_oops 1
	kernel/keys/root_maxkeys 1000000
	kernel/keys/root_maxbytes 25000000
END
mount --make-rshared / # as kubelets need it
touch "$dir/booted"
set +e
sleep infinity &
while :; do wait; done
