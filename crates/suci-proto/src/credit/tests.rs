//! Socket credit.
