//! pmtu
