//! credit
