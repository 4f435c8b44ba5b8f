//! How a connection gets new keys.

/// How connections get new keys: [`Engine::renew_keys`](crate::Engine::renew_keys).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The present keys serve until the fresh handshake is done: after a new cluster key came.
    Replace,
    /// Nothing more is sealed under the present keys: this process may run a second time with them,
    /// after a machine was restored from a snapshot.
    StopSealing,
    /// The present keys neither seal nor open any more: after a key was taken out, or too many
    /// packets were forged.
    Revoke,
    /// The session ends, and the peer is told: after its last key was taken out, or the right to
    /// use a layer.
    EndSession,
}
