#!/bin/sh
# Installs the C library: libsuci, its headers, the files for pkg-config and CMake, the man pages.
#
#   install.sh BUILD
#
# BUILD is the folder with libsuci_capi.so and libsuci_capi.a. From the environment:
#   PREFIX   where the library will be used (default /usr/local)
#   LIBDIR   the folder of libraries, an absolute path (default $PREFIX/lib)
#   DESTDIR  put before each path, for packages (default none)
# Root also refreshes the dynamic linker's cache, if the linker looks into LIBDIR.
set -eu

build=$1
prefix=${PREFIX:-/usr/local}
libdir=${LIBDIR:-$prefix/lib}
destdir=${DESTDIR:-}
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's/^#define SUCI_VERSION "\(.*\)"/\1/p' "$here/../include/suci/suci.h")

# The way from the folder of libraries to that of headers: ../include, or ../../include below it.
below=${libdir#"$prefix"/}
if [ "$below" = "$libdir" ]; then
  echo "LIBDIR=$libdir is not below PREFIX=$prefix: name a folder there" >&2
  exit 1
fi
up=$(printf '%s' "$below" | sed 's,[^/][^/]*,..,g')

fill() {
  sed -e "s,@PREFIX@,$prefix,g" -e "s,@LIBDIR@,$libdir,g" -e "s,@VERSION@,$version,g" \
    -e "s,@INCLUDE_FROM_LIBDIR@,$up/include,g" "$here/$1.in" > "$2/$1"
  chmod 644 "$2/$1"
}

lib=$destdir$libdir
include=$destdir$prefix/include/suci
man=$destdir$prefix/share/man/man3
install -d "$lib/pkgconfig" "$lib/cmake/Suci" "$include" "$man"

install -m 755 "$build/libsuci_capi.so" "$lib/libsuci.so.$version"
strip --strip-unneeded "$lib/libsuci.so.$version"
ln -sf "libsuci.so.$version" "$lib/libsuci.so.0"
ln -sf libsuci.so.0 "$lib/libsuci.so"
install -m 644 "$build/libsuci_capi.a" "$lib/libsuci.a"
strip --strip-debug "$lib/libsuci.a"

install -m 644 "$here"/../include/suci/*.h "$include"
install -m 644 "$here"/../man/*.3 "$man"
fill suci.pc "$lib/pkgconfig"
fill SuciConfig.cmake "$lib/cmake/Suci"
fill SuciConfigVersion.cmake "$lib/cmake/Suci"

# Without it no program finds the library before the next ldconfig.
PATH=$PATH:/usr/sbin:/sbin
if [ -z "$destdir" ] && [ "$(id -u)" = 0 ] && ldconfig -v -N -X 2> /dev/null | grep -q "^$libdir:"; then
  ldconfig
fi
