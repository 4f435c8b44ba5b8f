//! Gives the library its soname. It stays 0 until messages can be encrypted.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsuci.so.0");
}
