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
# Open MPI has commands of these names, too.
commands='oshcc oshc++ oshrun'
bin=$work/dev/usr/bin
man=$work/dev/usr/share/man/man1
mv "$bin/oshcc" "$bin/oshcc.suci"
ln -sf oshcc.suci "$bin/oshc++.suci"
rm "$bin/oshc++"
mv "$bin/oshrun" "$bin/oshrun.suci"
for page in oshcc oshrun; do mv "$man/$page.1.gz" "$man/$page.suci.1.gz"; done
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

mkdir -p "$work/dev/DEBIAN"
cat > "$work/dev/DEBIAN/postinst" <<END
#!/bin/sh
# The usual names are alternatives, where no other package has them as files.
set -e
for name in $commands; do
  link=/usr/bin/\$name
  case \$(readlink "\$DPKG_ROOT\$link" || true) in
    '' | /etc/alternatives/*) ;;
    *) echo "\$link belongs to another package: use \$name.suci"; continue ;;
  esac
  page=/usr/share/man/man1/\$name
  slave=
  if [ -e "\$DPKG_ROOT\$page.suci.1.gz" ] && [ ! -e "\$DPKG_ROOT\$page.1.gz" ]; then
    slave="--slave \$page.1.gz \$name.1.gz \$page.suci.1.gz"
  fi
  # shellcheck disable=SC2086
  update-alternatives --install "\$link" "\$name" "\$link.suci" 40 \$slave
done
END
cat > "$work/dev/DEBIAN/prerm" <<END
#!/bin/sh
set -e
if [ "\$1" != upgrade ]; then
  for name in $commands; do
    link=\$DPKG_ROOT/usr/bin/\$name
    # Another package may have put its own link there meanwhile.
    other=\$(readlink "\$link" || true)
    update-alternatives --remove "\$name" "/usr/bin/\$name.suci"
    case \$other in
      '' | /etc/alternatives/*) ;;
      *) [ -L "\$link" ] || ln -s "\$other" "\$link" ;;
    esac
  done
fi
END
chmod 755 "$work/dev/DEBIAN/postinst" "$work/dev/DEBIAN/prerm"

control libsma0 'libc6 (>= 2.34), libgcc-s1' libs 'library' "$work/lib"
control libsma-dev "libsma0 (= $version)" libdevel 'to compile and start programs' "$work/dev"
