#!/usr/bin/env bash
# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Runs a command in a small virtual machine with two RDMA devices in software (soft RoCE), rxe0 and rxe1, at the ends of
# a virtual cable, rdma0 and rdma1: tools/rdma_vm.sh COMMAND [ARGUMENT...]
#   The machine sees this system's files; its writes are discarded. Prints the command's output and returns its exit
#   code, or prints why the machine can't run here and returns 77. Needs no privileges: the kernel is only unpacked.
#   FUSEWIRE_RDMA_VM_LIMIT_S   time limit in seconds (300)
#   FUSEWIRE_RDMA_VM_CACHE     folder of the unpacked kernel (.cache/rdma-vm)
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
cache=${FUSEWIRE_RDMA_VM_CACHE:-$here/.cache/rdma-vm}
limit_s=${FUSEWIRE_RDMA_VM_LIMIT_S:-300}
PATH=$PATH:/usr/sbin:/sbin
[ $# -gt 0 ] || { sed -n '3,8s/^# *//p' "$0"; exit 2; }

skip() {
  echo "rdma_vm: skipped: $1" >&2
  exit 77
}

# In load order: each module after those that it needs.
modules=(virtio_pci 9pnet_virtio 9p overlay crc32_generic veth sch_netem ib_uverbs rdma_ucm rdma_rxe)

# Unpacks a kernel and creates the initial file system: busybox, the modules, and the init program.
prepare() {
  local work package kernel name path file
  work=$(mktemp -d "$cache/work.XXXXXX")
  # shellcheck disable=SC2064  # expand now: the folder may change
  trap "rm -rf '$work'" EXIT
  package=$(find "$cache" -maxdepth 1 -name 'linux-image-[0-9]*.deb' | sort -V | tail -n 1)
  if [ -z "$package" ]; then
    name=$(apt-cache depends linux-image-amd64 2>/dev/null |
      sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
    [ -n "$name" ] || skip "apt has no kernel package (linux-image-amd64); run apt-get update"
    (cd "$cache" && timeout -k 5 300 apt-get download "$name" >"$work/apt.log" 2>&1) ||
      skip "the kernel package $name can't be downloaded: $(tail -n 1 "$work/apt.log")"
    package=$(find "$cache" -maxdepth 1 -name 'linux-image-[0-9]*.deb' | sort -V | tail -n 1)
  fi
  dpkg-deb -x "$package" "$work/kernel"
  kernel=$(ls "$work/kernel/lib/modules")
  depmod -b "$work/kernel" "$kernel"
  mkdir -p "$work/first"/{bin,proc,sys,dev,host,top,all,modules}
  cp "$(command -v busybox)" "$work/first/bin/busybox"
  for name in "${modules[@]}"; do
    while read -r path; do
      file=$(basename "$path")
      [ -e "$work/first/modules/${file%.xz}" ] && continue
      case $path in
        *.xz) xz -dc "$path" >"$work/first/modules/${file%.xz}" ;;
        *) cp "$path" "$work/first/modules/$file" ;;
      esac
      echo "${file%.xz}" >>"$work/first/modules/order"
    done < <(modprobe -d "$work/kernel" -S "$kernel" --show-depends "$name" | sed -n 's/^insmod \([^ ]*\).*/\1/p')
  done
  write_init "$work/first/init"
  (cd "$work/first" && find . | cpio --quiet -o -H newc -R 0:0 | gzip) >"$work/first.gz"
  mv "$work"/kernel/boot/vmlinuz-* "$work/kernel.image"
  mv "$work/kernel.image" "$work/first.gz" "$cache/"
  cksum <"$0" >"$cache/made-by"
  rm -rf "$work"
  trap - EXIT
}

write_init() {
  cat >"$1" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
ln -s /proc/self/fd /dev/fd
while read -r module; do insmod "/modules/$module" || echo "rdma_vm: no $module"; done </modules/order
how=trans=virtio,version=9p2000.L,msize=262144
mount -t 9p -o "$how,ro,cache=loose" host /host || poweroff -f
mount -t tmpfs top /top
mkdir /top/upper /top/work
mount -t overlay -o lowerdir=/host,upperdir=/top/upper,workdir=/top/work root /all || poweroff -f
for folder in proc sys dev; do mount -o bind "/$folder" "/all/$folder"; done
mkdir -p /all/dev/shm /all/run/rdma_vm
mount -t tmpfs shm /all/dev/shm
mount -t tmpfs run /all/run
mkdir -p /all/run/rdma_vm
mount -t 9p -o "$how,cache=none" talk /all/run/rdma_vm || poweroff -f
ulimit -l unlimited
ulimit -n 20000
chroot /all /bin/sh /run/rdma_vm/begin.sh >/all/run/rdma_vm/output 2>&1 </dev/null
echo $? >/all/run/rdma_vm/status
sync
poweroff -f
INIT
  chmod +x "$1"
}

# Runs in the machine once it sees our files.
write_begin() {
  local word
  cat <<'BEGIN'
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ip link set lo up
ip link add rdma0 type veth peer name rdma1
for end in 0 1; do
  # Both addresses belong to this machine: make packets cross the cable anyway.
  echo 1 >/proc/sys/net/ipv4/conf/rdma$end/accept_local
  echo 0 >/proc/sys/net/ipv4/conf/rdma$end/rp_filter
  echo 0 >/proc/sys/net/ipv6/conf/rdma$end/accept_dad
  ip link set rdma$end mtu 4200
  ip address add 10.7.0.$((end + 1))/24 dev rdma$end
  ip link set rdma$end up
done
for end in 0 1; do rdma link add rxe$end type rxe netdev rdma$end || exit 125; done
for try in 1 2 3 4 5 6 7 8 9 10; do
  grep -q ffff: /sys/class/infiniband/rxe1/ports/1/gids/* 2>/dev/null && break
  sleep 0.1
done
BEGIN
  # With UCX 1.13, soft RoCE reaches no peer through the device's IPv4 GID; the link-local GID works.
  # It loses packets when the machine is busy, and by default waits a second for each.
  echo "export UCX_IB_GID_INDEX=0 UCX_RC_TIMEOUT=20ms HOME=/tmp"
  for word in $(compgen -e | grep -E '^(UCX_|GTEST_|FUSEWIRE_|[A-Z]+SAN_OPTIONS)' || true); do
    printf 'export %s=%q\n' "$word" "${!word}"
  done
  printf 'cd %q\nexec' "$PWD"
  printf ' %q' "$@"
  echo
}

[ "$(uname -m)" = x86_64 ] || skip "it supports only x86_64, not $(uname -m)"
missing=()
for program in qemu-system-x86_64 busybox modprobe depmod cpio dpkg-deb xz ip rdma; do
  command -v "$program" >/dev/null || missing+=("$program")
done
[ ${#missing[@]} -eq 0 ] || skip "missing: ${missing[*]}; tools/deps.sh rdma installs them"
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
[ "$(cat "$cache/made-by" 2>/dev/null)" = "$(cksum <"$0")" ] || prepare
flock -u 9

talk=$(mktemp -d)
trap 'rm -rf "$talk"' EXIT
write_begin "$@" >"$talk/begin.sh"
accelerator=(-accel "tcg,thread=multi" -cpu max)
# /dev/kvm without the processor's flag has been seen to hang.
if [ -w /dev/kvm ] && grep -qwE 'vmx|svm' /proc/cpuinfo; then accelerator=(-accel kvm -cpu host); fi
machine=0
timeout -k 5 "$limit_s" qemu-system-x86_64 -M pc "${accelerator[@]}" -m 1024 -smp 2 -nodefaults -no-user-config \
  -display none -no-reboot -kernel "$cache/kernel.image" -initrd "$cache/first.gz" \
  -append "console=ttyS0 panic=-1 quiet mitigations=off random.trust_cpu=on" \
  -serial "file:$talk/console" \
  -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
  -virtfs "local,path=$talk,mount_tag=talk,security_model=none" </dev/null >"$talk/qemu" 2>&1 || machine=$?
[ -e "$talk/output" ] && cat "$talk/output"
if [ ! -s "$talk/status" ]; then
  tail -n 20 "$talk/console" "$talk/qemu" >&2 || true
  [ "$machine" -eq 124 ] && echo "rdma_vm: stopped after $limit_s s (FUSEWIRE_RDMA_VM_LIMIT_S)" >&2
  echo "rdma_vm: the machine ended without a result" >&2
  exit 1
fi
exit "$(cat "$talk/status")"
