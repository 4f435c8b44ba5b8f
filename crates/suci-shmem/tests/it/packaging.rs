//! Installing, as `make install` and the Debian packages do, and using what was installed.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::toolchain::{crate_dir, oshrun, packaging, prefix, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

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

/// The Debian packages.
fn packages() -> Vec<PathBuf> {
    static PACKAGES: OnceLock<Vec<PathBuf>> = OnceLock::new();
    let packages = PACKAGES.get_or_init(|| {
        let out = fresh("deb");
        let mut pack = packaging("deb.sh");
        run(pack.arg(&out).env("DPKG_DEB_COMPRESSOR_TYPE", "none"));
        let packages = fs::read_dir(&out).unwrap();
        packages.map(|entry| entry.unwrap().path()).collect()
    });
    assert_eq!(packages.len(), 2, "{packages:?}");
    packages.clone()
}

/// A root of its own for dpkg.
fn empty_root(name: &str) -> PathBuf {
    let root = fresh(name);
    let admin = root.join("var/lib/dpkg");
    for dir in ["updates", "info", "triggers", "alternatives"] {
        fs::create_dir_all(admin.join(dir)).unwrap();
    }
    fs::create_dir_all(root.join("etc/alternatives")).unwrap();
    fs::create_dir_all(root.join("var/log")).unwrap();
    for file in ["status", "available"] {
        fs::write(admin.join(file), "").unwrap();
    }
    root
}

fn dpkg(root: &Path, arguments: &[&str], packages: &[PathBuf]) {
    let mut dpkg = Command::new("dpkg");
    dpkg.arg(format!("--root={}", root.display()));
    let forced = ["--force-depends", "--force-not-root"];
    dpkg.args(forced).arg("--force-script-chrootless");
    dpkg.arg("--log=/dev/null").args(arguments);
    run(dpkg.args(packages));
}

/// Installs the packages with dpkg into a root of their own, and compiles by what is there.
#[test]
fn the_debian_packages_install() {
    let root = empty_root("root");
    dpkg(&root, &["--install"], &packages());
    let bin = root.join("usr/bin");
    for name in ["oshcc", "oshc++", "oshrun"] {
        let chosen = PathBuf::from(format!("/etc/alternatives/{name}"));
        assert_eq!(fs::read_link(bin.join(name)).unwrap(), chosen);
        let choice = root.join(format!("etc/alternatives/{name}"));
        let choice = fs::read_link(choice).unwrap();
        assert_eq!(choice, PathBuf::from(format!("/usr/bin/{name}.suci")));
    }
    assert!(root.join("usr/share/man/man1/oshcc.suci.1.gz").exists());
    let program = root.join("basics");
    for (wrapper, language) in [("oshcc.suci", "c"), ("oshc++.suci", "c++")] {
        let mut compile = Command::new(bin.join(wrapper));
        compile.args(["-x", language]);
        compile.arg(crate_dir().join("tests/c/basics.c"));
        run(compile.args(["-x", "none", "-lm", "-o"]).arg(&program));
        let mut start = Command::new("timeout");
        start.arg("120").arg(bin.join("oshrun.suci"));
        run(start.args(["-n", "2"]).arg(&program));
    }
    dpkg(&root, &["--remove", "libsma-dev"], &[]);
    assert!(fs::read_link(bin.join("oshcc")).is_err());
}

/// Debian's packages of Open MPI have commands and pages of the same names, as files.
#[test]
fn the_debian_packages_stay_beside_those_of_open_mpi() {
    let other = fresh("other");
    let (bin, man) = (other.join("usr/bin"), other.join("usr/share/man/man1"));
    for dir in [&bin, &man, &other.join("DEBIAN")] {
        fs::create_dir_all(dir).unwrap();
    }
    for name in ["oshcc", "oshc++", "oshrun"] {
        std::os::unix::fs::symlink("opal_wrapper", bin.join(name)).unwrap();
        fs::write(man.join(format!("{name}.1.gz")), "theirs").unwrap();
    }
    let control = "Package: openmpi\nVersion: 1\nArchitecture: all\nMaintainer: n <n@localhost>\n";
    let control = format!("{control}Description: as Open MPI\n");
    fs::write(other.join("DEBIAN/control"), control).unwrap();
    let package = prefix().join("openmpi.deb");
    run(Command::new("dpkg-deb")
        .arg("--build")
        .args([&other, &package]));
    for first in [true, false] {
        let root = empty_root(if first { "first" } else { "last" });
        let theirs = vec![package.clone()];
        let (before, after) = match first {
            true => (packages(), theirs),
            false => (theirs, packages()),
        };
        dpkg(&root, &["--install"], &before);
        dpkg(&root, &["--install"], &after);
        for name in ["oshcc", "oshc++", "oshrun"] {
            let link = fs::read_link(root.join("usr/bin").join(name)).unwrap();
            assert_eq!(link, PathBuf::from("opal_wrapper"), "{first}");
            assert!(root.join(format!("usr/bin/{name}.suci")).exists());
        }
        dpkg(&root, &["--remove", "libsma-dev"], &[]);
        let link = fs::read_link(root.join("usr/bin/oshcc")).unwrap();
        assert_eq!(link, PathBuf::from("opal_wrapper"), "{first}");
    }
}

/// A program finds a library in one of the linker's folders only once the linker's cache knows it.
#[test]
fn root_refreshes_the_cache_of_the_dynamic_linker() {
    let work = fresh("ldconfig");
    let (lib, ran) = (work.join("lib"), work.join("ran"));
    let script = format!(
        "#!/bin/sh\nif [ $# -gt 0 ]; then echo '{}: (from a test)'; else touch {}; fi\n",
        lib.display(),
        ran.display()
    );
    let fake = work.join("ldconfig");
    fs::write(&fake, script).unwrap();
    run(Command::new("chmod").arg("755").arg(&fake));
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", work.display());
    let install = |libdir: &Path, destdir: &str| {
        let _ = fs::remove_file(&ran);
        let mut install = packaging("install.sh");
        install.env("PREFIX", &work).env("LIBDIR", libdir);
        run(install.env("DESTDIR", destdir).env("PATH", &path));
        ran.exists()
    };
    assert!(!install(&work.join("lib/elsewhere"), ""));
    assert!(install(&lib, ""));
    let stage = work.join("stage");
    assert!(!install(&lib, stage.to_str().unwrap()));
}

/// The name for the number of processes may stand behind other options.
#[test]
fn oshrun_takes_its_options_in_any_order() {
    let program = prefix().join("count.sh");
    fs::write(&program, "#!/bin/sh\necho $SUCI_SIZE \"$@\"\n").unwrap();
    run(Command::new("chmod").arg("755").arg(&program));
    for options in [
        &["-np", "2"] as &[&str],
        &["--plain", "-np", "2"],
        &["-np=2", "--plain"],
        &["--np=2"],
        &["-np2", "--"],
        &["--faults", "loss=0", "-np", "2", "--"],
        &["--kill-on-failure", "--processes", "2"],
    ] {
        let mut oshrun = Command::new(prefix().join("bin/oshrun"));
        let said = run(oshrun.args(options).arg(&program).args(["-np", "3"]));
        assert_eq!(said, "2 -np 3\n2 -np 3\n");
    }
}

/// A process that is started again cannot take part in a job, wherever the option stands and
/// whatever stands behind it. The program keeps its own options.
#[test]
fn oshrun_refuses_to_start_processes_again() {
    for options in [
        &["--restart", "1", "-np", "2"] as &[&str],
        &["-np", "2", "--restart"],
        &["--plain", "--restart=1", "-np", "2"],
    ] {
        let mut oshrun = Command::new(prefix().join("bin/oshrun"));
        let refused = oshrun.args(options).arg("true").output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{options:?}");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains("start the whole job again"), "{said}");
    }
    let mut oshrun = Command::new(prefix().join("bin/oshrun"));
    run(oshrun.args(["-np", "2", "true", "--restart"]));
}
