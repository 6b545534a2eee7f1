#!/bin/sh
# Makes the disk, the kernel and the initial RAM disk of the virtual machine in the folder OUT:
#   build.sh OUT SUITE PACKAGES INIT SOURCES...
# SOURCES are files in the format of apt's sources.list. One line for each step goes to standard output, the rest to standard error.
set -eu
out=$1 suite=$2 packages=$3 init=$4
shift 4
root=$out/root
kernel=linux-image-cloud-$(dpkg --print-architecture)

echo "userland of Debian $suite"
# The kernel is fetched while mmdebstrap has its lists of packages. The package $kernel is empty and depends on the newest one.
mmdebstrap --mode=root --variant=essential --include="$packages" \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt=force-unsafe-io \
	--customize-hook='export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"; cd "'"$out"'" && apt-get download \
		"$(apt-cache depends '"$kernel"' | sed -n "s/^ *Depends: \(linux-image-[0-9].*\)/\1/p" | head -n 1)" >&2' \
	"$suite" "$root" "$@"
# There is no udev, which a terminal would wait for, and no file system but the root.
for unit in getty@tty1 serial-getty@ttyS0; do
	ln -s /dev/null "$root/etc/systemd/system/$unit.service"
done
ln -s /lib/systemd/system/multi-user.target "$root/etc/systemd/system/default.target"
: > "$root/etc/fstab"

echo "kernel"
dpkg-deb -x "$out"/linux-image-*.deb "$out/kernel"
version=$(ls "$out/kernel/lib/modules")
cp -a "$out/kernel/lib/modules" "$root/usr/lib/"
chroot "$root" depmod "$version"
mv "$out/kernel/boot/vmlinuz-$version" "$out/vmlinuz"

echo "initial RAM disk"
initrd=$out/initrd.d
mkdir -p "$initrd/bin" "$initrd/dev" "$initrd/proc" "$initrd/new" "$initrd/modules"
cp "$(command -v busybox)" "$initrd/bin/busybox"
install -m 755 "$init" "$initrd/init"
for module in virtio_pci virtio_blk virtio_net virtio_rng; do
	chroot "$root" modprobe --set-version "$version" --show-depends "$module"
done | awk '$1 == "insmod" && !seen[$2]++ {print $2}' > "$out/modules"
number=10
while read -r file; do
	cp "$root/$file" "$initrd/modules/$number-$(basename "$file")"
	number=$((number + 1))
done < "$out/modules"
(cd "$initrd" && find . | busybox cpio -o -H newc) | gzip > "$out/initrd"

echo "disk"
truncate -s 8G "$out/disk.ext4"
mkfs.ext4 -q -F -d "$root" "$out/disk.ext4" >&2
rm -rf "$root" "$out/kernel" "$initrd" "$out/modules" "$out"/linux-image-*.deb
