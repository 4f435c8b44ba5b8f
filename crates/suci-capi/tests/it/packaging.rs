//! Installing, as `make install` and the Debian packages do, and using what was installed.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::toolchain::{archive, crate_dir, run, scratch};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn fresh(name: &str) -> PathBuf {
    let dir = scratch().join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn packaging(script: &str) -> Command {
    let mut command = Command::new(crate_dir().join("packaging").join(script));
    command.arg(archive().parent().unwrap());
    for variable in ["PREFIX", "LIBDIR", "DESTDIR"] {
        command.env_remove(variable);
    }
    command
}

fn example() -> PathBuf {
    crate_dir().join("examples/hello.c")
}

/// Compiles the example with what pkg-config says of the library in `pc`, and runs it.
fn use_pkg_config(pc: &Path, sysroot: &Path, lib: &Path, name: &str) {
    let mut ask = Command::new("pkg-config");
    ask.args(["--cflags", "--libs", "suci"])
        .env("PKG_CONFIG_PATH", pc);
    ask.env("PKG_CONFIG_SYSROOT_DIR", sysroot);
    ask.env("PKG_CONFIG_ALLOW_SYSTEM_CFLAGS", "1")
        .env("PKG_CONFIG_ALLOW_SYSTEM_LIBS", "1");
    let flags = run(&mut ask);
    let program = scratch().join(name);
    let mut compile = Command::new("cc");
    compile
        .arg(example())
        .arg("-o")
        .arg(&program)
        .args(flags.split_whitespace());
    run(&mut compile);
    run(Command::new("timeout")
        .arg("60")
        .arg(program)
        .env("LD_LIBRARY_PATH", lib));
}

#[test]
fn what_make_install_installs_is_found_by_pkg_config_and_cmake() {
    let prefix = fresh("prefix");
    run(packaging("install.sh").env("PREFIX", &prefix));
    let lib = prefix.join("lib");
    use_pkg_config(
        &lib.join("pkgconfig"),
        Path::new("/"),
        &lib,
        "installed-hello",
    );
    assert!(prefix.join("share/man/man3/suci_send.3").exists());

    let project = fresh("cmake");
    let example = example();
    let text = format!(
        "cmake_minimum_required(VERSION 3.16)\nproject(hello C)\nfind_package(Suci {} REQUIRED)\n\
         add_executable(shared {1})\ntarget_link_libraries(shared Suci::suci)\n\
         add_executable(static {1})\ntarget_link_libraries(static Suci::suci_static)\n",
        env!("CARGO_PKG_VERSION"),
        example.display(),
    );
    fs::write(project.join("CMakeLists.txt"), text).unwrap();
    let at = format!("-DCMAKE_PREFIX_PATH={}", prefix.display());
    run(Command::new("cmake")
        .args(["-S", ".", "-B", "build"])
        .arg(at)
        .current_dir(&project));
    run(Command::new("cmake")
        .args(["--build", "build"])
        .current_dir(&project));
    for program in ["shared", "static"] {
        run(Command::new("timeout")
            .arg("60")
            .arg(project.join("build").join(program)));
    }
}

#[test]
fn a_folder_for_packages_comes_before_each_path() {
    let stage = fresh("stage");
    run(packaging("install.sh")
        .env("PREFIX", "/opt/suci")
        .env("DESTDIR", &stage));
    let pc = fs::read_to_string(stage.join("opt/suci/lib/pkgconfig/suci.pc")).unwrap();
    assert!(pc.contains("prefix=/opt/suci\n"), "{pc}");
    let mut outside = packaging("install.sh");
    outside
        .env("PREFIX", "/opt/suci")
        .env("LIBDIR", "/lib")
        .env("DESTDIR", &stage);
    let refused = outside.output().unwrap();
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("not below PREFIX"));
}

/// Installs the packages with dpkg into a root of their own.
#[test]
fn the_debian_packages_install() {
    let (out, root) = (fresh("deb"), fresh("root"));
    // Compressing the static library would take most of a minute.
    run(packaging("deb.sh")
        .arg(&out)
        .env("DPKG_DEB_COMPRESSOR_TYPE", "none"));
    let admin = root.join("var/lib/dpkg");
    for dir in ["updates", "info", "triggers"] {
        fs::create_dir_all(admin.join(dir)).unwrap();
    }
    for file in ["status", "available"] {
        fs::write(admin.join(file), "").unwrap();
    }
    let packages: Vec<_> = fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(packages.len(), 2, "{packages:?}");
    run(Command::new("dpkg")
        .arg(format!("--root={}", root.display()))
        .args([
            "--force-depends",
            "--force-not-root",
            "--log=/dev/null",
            "--install",
        ])
        .args(&packages));
    let triplet = run(Command::new("gcc").arg("-print-multiarch"));
    let lib = root.join("usr/lib").join(triplet.trim());
    assert!(root.join("usr/share/man/man3/suci_wake.3.gz").exists());
    use_pkg_config(&lib.join("pkgconfig"), &root, &lib, "packaged-hello");
}
