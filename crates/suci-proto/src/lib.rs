//! The protocol.
#![forbid(unsafe_code)]
