#!/bin/sh
# Installs OpenSHMEM: libsma, its headers, the file for pkg-config, oshcc, oshc++ and oshrun with the
# command suci beside them, the man pages.
#
#   install.sh BUILD
#
# BUILD is the folder with libsma.so and suci. From the environment:
#   PREFIX   where the library will be used (default /usr/local)
#   LIBDIR   the folder of libraries, an absolute path below PREFIX (default $PREFIX/lib)
#   DESTDIR  put before each path, for packages (default none)
# Root also refreshes the dynamic linker's cache, if the linker looks into LIBDIR.
set -eu

build=$1
prefix=${PREFIX:-/usr/local}
libdir=${LIBDIR:-$prefix/lib}
destdir=${DESTDIR:-}
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../../../Cargo.toml")

below=${libdir#"$prefix"/}
if [ "$below" = "$libdir" ]; then
  echo "LIBDIR=$libdir is not below PREFIX=$prefix: name a folder there" >&2
  exit 1
fi

fill() {
  sed -e "s,@PREFIX@,$prefix,g" -e "s,@LIBDIR@,$libdir,g" -e "s,@VERSION@,$version,g" \
    -e "s,@LIBDIR_BELOW_PREFIX@,$below,g" "$here/$1.in" > "$2/$1"
}

bin=$destdir$prefix/bin
lib=$destdir$libdir
include=$destdir$prefix/include
man=$destdir$prefix/share/man
install -d "$bin" "$lib/pkgconfig" "$include" "$man/man1" "$man/man7"

install -m 755 "$build/libsma.so" "$lib/libsma.so.$version"
strip --strip-unneeded "$lib/libsma.so.$version"
ln -sf "libsma.so.$version" "$lib/libsma.so.0"
ln -sf libsma.so.0 "$lib/libsma.so"

install -m 755 "$build/suci" "$here/oshrun" "$bin"
strip "$bin/suci"
fill oshcc "$bin"
chmod 755 "$bin/oshcc"
ln -sf oshcc "$bin/oshc++"
install -m 644 "$here"/../include/*.h "$include"
fill suci-shmem.pc "$lib/pkgconfig"
chmod 644 "$lib/pkgconfig/suci-shmem.pc"
install -m 644 "$here"/../man/*.1 "$man/man1"
install -m 644 "$here"/../man/*.7 "$man/man7"

# Without it no program finds the library before the next ldconfig.
PATH=$PATH:/usr/sbin:/sbin
if [ -z "$destdir" ] && [ "$(id -u)" = 0 ] && ldconfig -v -N -X 2> /dev/null | grep -q "^$libdir:"; then
  ldconfig
fi
