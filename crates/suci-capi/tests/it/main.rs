//! The C library as C programs see it.

mod cdp;
mod classic;
mod fm;
mod header;
mod interface;
mod misuse;
mod packaging;
mod programs;
mod texts;
mod toolchain;
