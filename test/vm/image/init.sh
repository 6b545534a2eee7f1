#!/bin/busybox sh
# The first program of the virtual machine: loads the drivers, puts the files of this run onto the disk, brings the network up as
# the command line of the kernel says, and hands over to systemd.
set -e
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs none /dev
mount -t proc none /proc
for module in /modules/*; do insmod "$module"; done
for word in $(cat /proc/cmdline); do
	case $word in
	vm.address=*) address=${word#*=} ;;
	vm.gateway=*) gateway=${word#*=} ;;
	esac
done

for disk in vda vdb; do
	until [ -b /dev/$disk ]; do sleep 0.1; done
done
mount -t ext4 -o noatime,noinit_itable /dev/vda /new
mkdir -p /new/opt/vm
mount -t ext4 -o ro /dev/vdb /new/opt/vm
cp -a /new/opt/vm/files/. /new/

ip link set lo up
ip address add "$address" dev eth0
ip link set eth0 up
ip route add default via "$gateway"
umount /proc /dev
exec switch_root /new /sbin/init
