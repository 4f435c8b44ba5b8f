//! Installing, as `make install` and the Debian packages do, and using what was installed.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::toolchain::{crate_dir, oshrun, packaging, prefix, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn fresh(name: &str) -> PathBuf {
    let dir = prefix().join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

#[test]
fn pkg_config_finds_the_library() {
    let prefix = prefix();
    let mut ask = Command::new("pkg-config");
    ask.args(["--cflags", "--libs", "suci-shmem"]);
    let flags = run(ask.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
    let program = prefix.join("by-pkg-config");
    let mut compile = Command::new("cc");
    compile.arg(crate_dir().join("tests/c/basics.c"));
    compile.args(["-lm", "-o"]).arg(&program);
    run(compile.args(flags.split_whitespace()));
    run(oshrun(&program, 2, &[]).env("LD_LIBRARY_PATH", prefix.join("lib")));
}

#[test]
fn the_library_has_a_soname() {
    let library = prefix().join("lib/libsma.so");
    let said = run(Command::new("readelf").arg("-d").arg(library));
    assert!(said.contains("Library soname: [libsma.so.0]"), "{said}");
}

#[test]
fn man_pages_have_no_fault_that_mandoc_finds() {
    for entry in fs::read_dir(crate_dir().join("man")).unwrap() {
        let page = entry.unwrap().path();
        let lint = ["-Tlint", "-Wwarning"];
        run(Command::new("mandoc").args(lint).arg(&page));
    }
    assert!(prefix().join("share/man/man7/suci-shmem.7").exists());
}

#[test]
fn a_folder_of_libraries_is_below_the_prefix() {
    let stage = fresh("stage");
    let mut outside = packaging("install.sh");
    outside.env("PREFIX", "/opt/suci").env("LIBDIR", "/lib");
    let refused = outside.env("DESTDIR", &stage).output().unwrap();
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("not below PREFIX"));
}

/// Installs the packages with dpkg into a root of their own, and compiles by what is there.
#[test]
fn the_debian_packages_install() {
    let (out, root) = (fresh("deb"), fresh("root"));
    let uncompressed = ("DPKG_DEB_COMPRESSOR_TYPE", "none");
    run(packaging("deb.sh")
        .arg(&out)
        .env(uncompressed.0, uncompressed.1));
    let admin = root.join("var/lib/dpkg");
    for dir in ["updates", "info", "triggers"] {
        fs::create_dir_all(admin.join(dir)).unwrap();
    }
    for file in ["status", "available"] {
        fs::write(admin.join(file), "").unwrap();
    }
    let packages = fs::read_dir(&out).unwrap();
    let packages: Vec<_> = packages.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(packages.len(), 2, "{packages:?}");
    let mut install = Command::new("dpkg");
    install.arg(format!("--root={}", root.display()));
    install.args(["--force-depends", "--force-not-root", "--log=/dev/null"]);
    run(install.arg("--install").args(&packages));
    assert!(root.join("usr/share/man/man1/oshcc.1.gz").exists());
    let program = root.join("basics");
    let mut compile = Command::new(root.join("usr/bin/oshcc"));
    compile.arg(crate_dir().join("tests/c/basics.c"));
    run(compile.args(["-lm", "-o"]).arg(&program));
    let oshrun = Path::new("usr/bin/oshrun");
    let mut start = Command::new("timeout");
    start.arg("120").arg(root.join(oshrun));
    run(start.args(["-n", "2"]).arg(&program));
}
