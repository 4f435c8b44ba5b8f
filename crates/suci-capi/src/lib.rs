//! The C library of Suci. `include/suci/suci.h` is its documentation.

pub mod version;
