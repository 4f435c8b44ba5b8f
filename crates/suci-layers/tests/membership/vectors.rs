//! The messages of membership: the protocol's test vectors, and any bytes.

#[path = "../../../suci-proto/tests/it/page.rs"]
mod page;

use page::{Vector, hex, page, vectors};
use proptest::prelude::*;
use suci_layers::membership::{
    MembershipBody, MembershipMessage, Record, cluster_number, position,
};
use suci_proto::types::NodeId;

fn explain_record(record: &Record) -> String {
    format!(
        "node={} incarnation={:#x} version={} {:?} at={}",
        record.node, record.incarnation.0, record.version, record.status, record.address
    )
}

fn explain(message: &MembershipMessage) -> String {
    let records = |records: &[Record]| {
        let each = records
            .iter()
            .map(|it| format!(" [{}]", explain_record(it)));
        each.collect::<String>()
    };
    let body = match &message.body {
        MembershipBody::Digest { own, buckets } => {
            let sums: Vec<_> = buckets
                .iter()
                .enumerate()
                .filter(|(_, sum)| **sum != 0)
                .collect();
            format!("DIGEST [{}] buckets={sums:?}", explain_record(own))
        }
        MembershipBody::Records(all) => format!("RECORDS{}", records(all)),
        MembershipBody::Range {
            first,
            last,
            records: all,
        } => format!("RANGE {first:#x}..={last:#x}{}", records(all)),
        MembershipBody::OtherCluster(name) => format!("OTHER_CLUSTER {name}"),
    };
    let observed = message.observed.map(|at| format!(" observed={at}"));
    format!(
        "cluster={:#x}{} {body}",
        message.cluster,
        observed.unwrap_or_default()
    )
}

fn of_this_layer() -> Vec<Vector> {
    let mut all = vectors(&page());
    all.retain(|vector| vector.kind == "membership");
    all
}

#[test]
fn every_vector_means_what_the_page_says() {
    let mut refused = 0;
    for Vector { bytes, meaning, .. } in of_this_layer() {
        let Ok(message) = MembershipMessage::read(&bytes) else {
            assert_eq!(meaning, "refused", "{}", hex(&bytes));
            refused += 1;
            continue;
        };
        assert_eq!(explain(&message), meaning, "{}", hex(&bytes));
        assert_eq!(hex(&message.write()), hex(&bytes), "{meaning}");
    }
    assert_eq!((of_this_layer().len(), refused), (11, 6));
}

#[test]
fn names_and_positions_are_those_of_the_page() {
    assert_eq!(cluster_number("example"), 0x430b_1483_c8d6_6041);
    assert_eq!(
        [0, 1, 2].map(|id| position(NodeId(id))),
        [0, 0x514e_28b7, 0x30f4_c306]
    );
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_mean_what_their_writing_means(
        kind in 0..5u8,
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let bytes: Vec<u8> = [kind].into_iter().chain(bytes).collect();
        if let Ok(message) = MembershipMessage::read(&bytes) {
            prop_assert_eq!(MembershipMessage::read(&message.write()), Ok(message));
        }
    }
}
