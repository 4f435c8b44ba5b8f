//! Tests of pmtu.
