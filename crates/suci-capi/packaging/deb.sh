#!/bin/sh
# Makes the Debian packages libsuci0 (the library) and libsuci-dev (to compile with it).
#
#   deb.sh BUILD OUT
#
# BUILD is as in install.sh; the packages go to OUT. dpkg-deb, which every Debian has, does the work:
# no other tool has to be built.
set -eu

build=$1
out=$2
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's/^#define SUCI_VERSION "\(.*\)"/\1/p' "$here/../include/suci/suci.h")
arch=$(dpkg --print-architecture)
triplet=$(gcc -print-multiarch)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

PREFIX=/usr LIBDIR=/usr/lib/$triplet DESTDIR=$work/dev "$here/install.sh" "$build"

# The library that programs load has a package of its own.
lib=usr/lib/$triplet
mkdir -p "$work/lib/$lib" "$out"
mv "$work/dev/$lib/libsuci.so.0" "$work/dev/$lib/libsuci.so.$version" "$work/lib/$lib"
gzip -9n "$work"/dev/usr/share/man/man3/*.3
# A page that only names another one has to name it as it is now.
for page in "$work"/dev/usr/share/man/man3/*.3.gz; do
  target=$(gzip -dc "$page" | sed -n '1s/^\.so man3\///p')
  if [ -n "$target" ]; then ln -sf "$target.gz" "$page"; fi
done

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
Multi-Arch: same
Description: reliable messages between the processes of a cluster ($text)
 Suci sends messages of any length from each process of a cluster to any other
 through one UDP socket: complete, unmodified, in order per channel, at most
 once.
END
  dpkg-deb --root-owner-group --build "$5" "$out" > /dev/null
}

printf 'libsuci 0 libsuci0 (>= %s)\n' "$version" > "$work/shlibs"
printf 'activate-noawait ldconfig\n' > "$work/triggers"
mkdir -p "$work/lib/DEBIAN"
install -m 644 "$work/shlibs" "$work/triggers" "$work/lib/DEBIAN"
control libsuci0 'libc6 (>= 2.34), libgcc-s1' libs 'library' "$work/lib"
control libsuci-dev "libsuci0 (= $version)" libdevel 'to compile with it' "$work/dev"
