//! The `suci-sim` command.
fn main() {}
