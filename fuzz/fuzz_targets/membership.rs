//! A member that receives arbitrary messages: those that can be read are written again with the
//! same meaning, and its table stays within its bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::net::SocketAddr;
use std::time::Duration;
use suci_layers::membership::{Contact, Membership, MembershipMessage, Settings, cluster_number};
use suci_proto::time::Instant;
use suci_proto::types::{Incarnation, NodeId};

const MOST: usize = 8;

fuzz_target!(|data: &[u8]| {
    let settings = Settings {
        cluster: "fuzz".into(),
        max_members: MOST,
        ..Settings::default()
    };
    let mut now = Instant::from_nanos(1);
    let own = (NodeId(0), Incarnation(7));
    let at = SocketAddr::from(([10, 0, 0, 9], 4000));
    let mut member = Membership::new(now, settings, own, at, [NodeId(1)], 1);
    // Each piece begins with its length and its sender.
    let mut rest = data;
    while let [length, from, after @ ..] = rest {
        let (piece, more) = after.split_at(usize::from(*length).min(after.len()));
        rest = more;
        let mut bytes = piece.to_vec();
        if let Some(cluster) = bytes.get_mut(1..9) {
            cluster.copy_from_slice(&cluster_number("fuzz").to_le_bytes());
        }
        if let Ok(message) = MembershipMessage::read(&bytes) {
            assert_eq!(MembershipMessage::read(&message.write()), Ok(message));
        }
        let from = NodeId((*from).into());
        member.on_message(now, from, &bytes, |node| Some(Incarnation(node.0.into())));
        now += Duration::from_millis(900);
        member.on_contact(now, from, Contact::Silent(None));
        member.on_time(now);
        while member.poll_message(now, |_| true, |_| Some(at)).is_some() {}
        while member.poll_change(|_| true).is_some() {}
        assert!(member.members().len() <= MOST + 1);
        assert_eq!(
            member.record(NodeId(0)).map(|it| it.incarnation),
            Some(own.1)
        );
    }
});
