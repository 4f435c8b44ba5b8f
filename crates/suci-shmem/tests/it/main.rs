//! Programs in C that use OpenSHMEM, and the header.

mod header;
mod nulls;
mod packaging;
mod programs;
mod toolchain;
