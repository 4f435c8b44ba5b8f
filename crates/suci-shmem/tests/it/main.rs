//! Programs in C that use OpenSHMEM, and the header.

mod header;
mod programs;
mod toolchain;
