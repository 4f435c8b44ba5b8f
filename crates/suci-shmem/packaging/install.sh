#!/bin/sh
# Installs OpenSHMEM: libsma, its headers, oshcc, oshc++ and oshrun, and the command suci beside them.
#
#   install.sh BUILD PREFIX
#
# BUILD is the folder with libsma.so and suci.
set -eu

build=$1
prefix=$2
here=$(cd "$(dirname "$0")" && pwd)
install -d "$prefix/bin" "$prefix/lib" "$prefix/include"
install -m 755 "$build/libsma.so" "$prefix/lib"
install -m 755 "$build/suci" "$here/bin/oshcc" "$here/bin/oshrun" "$prefix/bin"
ln -sf oshcc "$prefix/bin/oshc++"
install -m 644 "$here"/include/*.h "$prefix/include"
