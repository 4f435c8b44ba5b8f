//! A node that a thread serves.
use crate::builder::Opened;
use crate::error::Error;

/// A handle.
#[derive(Debug, Clone)]
pub struct SharedNode;
impl SharedNode {
    pub(crate) fn start(_opened: Opened) -> Result<Self, Error> {
        Err(Error::Closed)
    }
}
