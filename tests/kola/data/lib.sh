# shellcheck shell=bash
# Sourced by every test: . "$KOLA_EXT_DATA/lib.sh"
set -euo pipefail
RPMS=$KOLA_EXT_DATA/rpms
# What a test keeps over a reboot; not in the picture.
KEPT=/var/tmp/kola-transient
mkdir -p "$KEPT"

ok() { echo "ok: $*"; }
fatal() { echo "fatal: $*"; exit 1; }
skip() { echo "$*"; exit 77; }
must_fail() { if "$@" > "$KEPT/output" 2>&1; then cat "$KEPT/output"; fatal "should have failed: $*"; fi; }

transient() { rpm-ostree-transient "$@"; }
# Local packages, without any repository of the host.
layer() {
    local p files=()
    for p; do files+=("$RPMS/$p.rpm"); done
    transient install -y --disablerepo='*' --nogpgcheck "${files[@]}"
}
is_base() { # nothing of ours is there
    transient status --json > "$KEPT/status.json"
    grep -Eq '"generation": *0\b' "$KEPT/status.json" || { cat "$KEPT/status.json"; fatal 'status tells of a layer'; }
    if grep -q rpm-ostree-transient: /proc/self/mountinfo; then fatal 'an overlay is on /usr'; fi
    must_fail touch /usr/x
}

# Everything on the disk that is not a log: kind, mode, owner, size, link target of each path, and what is in the files
# of /etc and /var. Objects and deployments are read-only; their names and sizes do.
picture() {
    local root
    root=$(findmnt -no FSROOT /)
    {
        find /sysroot -xdev \( -path '/sysroot/ostree/deploy/*/var/log' -o -path '/sysroot/ostree/deploy/*/var/tmp' \
            -o -path /sysroot/lost+found -o -path /sysroot/ostree/repo/tmp \) -prune -o \
            -path '*/var/lib/systemd/*' -o -path '*/var/cache/rpm-ostree-transient*' -o -name .lock -o -path '*/var/cache' -o \
            -type d -printf '%y %m %U:%G %p\n' -o -printf '%y %m %U:%G %s %p %l\n'
        find "/sysroot$root/etc" /sysroot/ostree/deploy/*/var/{lib,opt,spool,home,roothome} /sysroot/boot/loader/ -xdev -type f \
            ! -path '*/lib/systemd/*' -exec sha256sum {} +
    } | LC_ALL=C sort -k 4
}
keep_picture() { sync; picture > "$KEPT/before"; }
same_picture() {
    picture > "$KEPT/after"
    diff -u "$KEPT/before" "$KEPT/after" > "$KEPT/diff" || { head -40 "$KEPT/diff"; fatal "the disk changed: $*"; }
    ok "the disk is as before: $*"
}
