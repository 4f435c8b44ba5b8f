//! The `suci` command.
fn main() {}
