//! Simulated clusters, as one program, since each takes seconds to link.

mod classes;
mod contact;
mod determinism;
mod faults_close;
mod faults_flow;
mod faults_hostile;
mod faults_network;
mod faults_process;
mod groups;
mod incast;
mod ladder;
mod members;
mod reordering;
mod routes;
mod scenario;
mod sealed;
mod slots;
mod sockets;
