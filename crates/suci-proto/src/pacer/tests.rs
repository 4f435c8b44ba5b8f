//! Tests of pacer.
