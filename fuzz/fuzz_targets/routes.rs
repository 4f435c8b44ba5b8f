//! A router that receives arbitrary outer packets: those that can be read are written again with
//! the same meaning, and none goes back to where it came from, or on without a hop less.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::BTreeSet;
use suci_layers::routes::{Behind, MAX_HOPS, OuterHeader, Router, RouterSettings, Routes, Step};
use suci_proto::message::Message;
use suci_proto::types::{Kind, NodeId};

const OWN: NodeId = NodeId(1);

fn router(anyone: bool) -> Router {
    let mut routes = Routes::default();
    routes.add(7..=7, &[NodeId(2), NodeId(3)]).unwrap();
    routes.add(9..=20, &[NodeId(7)]).unwrap();
    Router::new(RouterSettings {
        own: OWN,
        forwards: true,
        anyone,
        neighbours: BTreeSet::from([NodeId(2), NodeId(3), NodeId(4)]),
        routes,
    })
}

fuzz_target!(|data: &[u8]| {
    let [anyone, rest @ ..] = data else { return };
    let mut router = router(anyone & 1 == 1);
    // Each piece begins with its sender, its kind and its length.
    let mut rest = rest;
    while let [from, kind, length, after @ ..] = rest {
        let (piece, more) = after.split_at(usize::from(*length).min(after.len()));
        rest = more;
        let (from, kind) = (NodeId((*from).into()), Kind(*kind));
        // No node is its own neighbour.
        if from == OWN {
            continue;
        }
        let header = OuterHeader::read(kind, piece).ok();
        if let Some(header) = header {
            assert_eq!(OuterHeader::read(kind, &header.write()), Ok(header));
        }
        let message = Message {
            channel: OuterHeader::channel(&header.unwrap_or(OuterHeader {
                destination: OWN,
                source: OWN,
                hops: MAX_HOPS,
                turn: 0,
            })),
            number: 0,
            tag: 0,
            kind,
            user_header: piece.to_vec().into(),
            payload: bytes::Bytes::new().into(),
        };
        match (router.receive(from, false, &message), header) {
            (Step::Forward(hop), Some(header)) => {
                assert_eq!(hop.header.hops + 1, header.hops);
                assert!(hop.next != from && hop.next != OWN && hop.next != header.source);
            }
            (Step::Deliver(source), Some(header)) => {
                assert_eq!((source.node, OWN), (header.source, header.destination));
                assert_eq!(Behind::at(source.address()), Some(source));
                assert!(
                    router
                        .originate(source)
                        .is_some_and(|hop| hop.next != source.node)
                );
            }
            (step, _) => assert!(matches!(step, Step::Drop(_)), "{step:?}"),
        }
        for node in 0..=u8::MAX {
            let hop = router.originate(Behind::by_route(NodeId(node.into())));
            assert!(hop.is_none_or(|hop| hop.next != NodeId(node.into())));
        }
        assert!(router.carriers().len() <= 3);
    }
});
