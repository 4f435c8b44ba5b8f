//! The parts that are common to the backends that make their own Ethernet frames: the frames, the
//! interface that they leave by, and the neighbours on its network.

pub(crate) mod frame;
pub(crate) mod interface;
pub(crate) mod own;
pub(crate) mod sys;
