# The first process of a node, in namespaces of its own but for the network: makes the
# node's file systems and then only waits for what loses its parent. Arguments: name, folder.
set -eu
name=$1 dir=$2
hostname "$name"
mount --make-rprivate /
mount -t proc proc /proc

# What the machine has there is none of the node's, and the other way round.
for place in /run /var/lib /var/log; do mount -t tmpfs -o mode=755 tmpfs "$place"; done

# cgroups, with the node's own as their root. Its daemons are in one inside, as version 2
# wants it.
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

# A kubelet sets these for the whole machine. It shall find what it wants, and change nothing.
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
