//! Datagram backends.
