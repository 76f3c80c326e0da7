#!/bin/busybox sh
# The first and only program of a test host: mounts what Linux programs
# expect, runs /command, hands the results to the host, switches off.
/bin/busybox mkdir -p /proc /sys /dev /tmp /run /result /root /bin /sbin /usr/bin /usr/sbin
/bin/busybox --install -s
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /result
mount -t tracefs tracefs /sys/kernel/tracing
mount -t debugfs debugfs /sys/kernel/debug
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup2 /sys/fs/cgroup
hostname testhost
ip link set lo up

# RESULTS_AT, RESULTS_BYTES: a part of memory that the kernel leaves alone.
# MODULES: modules to load, in this order. EDU: 1 if that device is there.
# SETTLE: seconds from boot to the command. CLOCKS: how often to tell the clock.
. /etc/testhost.conf
for module in $MODULES; do
	insmod "/modules/$module.ko" || echo "testhost: cannot load $module"
done
if [ "$EDU" = 1 ]; then
	echo 1234 11e8 > /sys/bus/pci/drivers/uio_pci_generic/new_id
fi

# What the kernel still does after boot would disturb what is measured.
sleep "$SETTLE"

# The kernel's list of timers begins with two headings, then "now at N nsecs".
tell_clock() {
	left=$CLOCKS
	while [ "$left" -gt 0 ]; do
		left=$((left - 1))
		{ read -r _; read -r _; read -r _ _ now _; } < /proc/timer_list
		echo "testhost: clock $now"
		sleep 0.02
	done
}

cd /root
tell_clock
echo "testhost: command begins"
setsid sh /command < /dev/null > /output 2>&1 &
command=$!
# A line from the host means that time is up.
(read -r _ < /dev/console && touch /tmp/stopped && kill -KILL "-$command") &
wait "$command"
status=$?
echo "testhost: command ends with status $status"
stopped=0
[ -e /tmp/stopped ] && stopped=1
tell_clock

# arm64: /dev/mem takes no write() to this memory.
put() {
	if [ -x /bin/store ]; then
		store "$1" $((RESULTS_AT + $2 * 4096)) 2> /tmp/put
	else
		dd "if=$1" of=/dev/mem bs=4096 seek=$((RESULTS_AT / 4096 + $2)) conv=notrunc 2> /tmp/put
	fi || { cat /tmp/put; return 1; }
}

tar -cf /tmp/results.tar -C / result output
bytes=$(stat -c %s /tmp/results.tar)
if [ "$bytes" -le $((RESULTS_BYTES - 4096)) ]; then
	put /tmp/results.tar 1 || bytes=0
fi
# The header last: it says that everything else is in place.
echo "testhost 1 status $status stopped $stopped bytes $bytes" > /tmp/header
put /tmp/header 0
poweroff -f
