#!/bin/sh
# Makes the Debian packages libsma0 (the library) and libsma-dev (to compile and start programs).
#
#   deb.sh BUILD OUT
#
# BUILD is as in install.sh; the packages go to OUT. Only dpkg-deb is needed.
set -eu

build=$1
out=$2
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../../../Cargo.toml")
arch=$(dpkg --print-architecture)
lib=usr/lib/$(gcc -print-multiarch)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

PREFIX=/usr LIBDIR=/$lib DESTDIR=$work/dev "$here/install.sh" "$build"
mkdir -p "$work/lib/$lib" "$work/lib/DEBIAN" "$out"
mv "$work/dev/$lib/libsma.so.0" "$work/dev/$lib/libsma.so.$version" "$work/lib/$lib"
gzip -9n "$work"/dev/usr/share/man/man*/*
printf 'libsma 0 libsma0 (>= %s)\n' "$version" > "$work/lib/DEBIAN/shlibs"
printf 'activate-noawait ldconfig\n' > "$work/lib/DEBIAN/triggers"

control() {
  package=$1 depends=$2 section=$3 text=$4
  for doc in LICENSE-APACHE LICENSE-MIT; do
    install -D -m 644 "$here/../../../$doc" "$5/usr/share/doc/$package/$doc"
  done
  size=$(du -sk "$5" | cut -f1)
  mkdir -p "$5/DEBIAN"
  cat > "$5/DEBIAN/control" <<END
Package: $package
Version: $version
Architecture: $arch
Maintainer: The Suci maintainers <suci@localhost>
Installed-Size: $size
Depends: $depends
Section: $section
Priority: optional
Description: OpenSHMEM 1.5 on Suci ($text)
 Processes of a parallel program read and write each other's memory, with
 atomic operations, teams and collective operations, over one UDP socket each.
END
  dpkg-deb --root-owner-group --build "$5" "$out" > /dev/null
}

control libsma0 'libc6 (>= 2.34), libgcc-s1' libs 'library' "$work/lib"
control libsma-dev "libsma0 (= $version)" libdevel 'to compile and start programs' "$work/dev"
