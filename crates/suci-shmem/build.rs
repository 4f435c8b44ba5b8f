//! Gives the library its soname, which is that of libsuci.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsma.so.0");
}
