//! Tests of timer.
