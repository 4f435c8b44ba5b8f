//! pacer
