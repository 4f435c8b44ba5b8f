//! Contexts that are opened and closed.

use suci_layers::remote::{Regions, SharedLayer};
use suci_proto::types::NodeId;

/// A program that still asks for an operation of the closed one must not get another's result.
#[test]
fn a_new_context_has_no_operation_of_one_that_was_closed() {
    let shared = SharedLayer::new(Regions::new());
    let mut layer = shared.lock();
    let mut earlier = Vec::new();
    for _ in 0..3 {
        let context = layer.open_context().unwrap();
        let operation = layer.initiator_of(context).flush(NodeId(2)).unwrap();
        assert_eq!(operation.context(), context);
        assert!(!earlier.contains(&operation), "{earlier:?}");
        for closed in &earlier {
            assert!(layer.take(*closed).is_none() && !layer.is_open(*closed));
        }
        assert_eq!(layer.take(operation), Some(Ok(None)));
        earlier.push(operation);
        layer.close_context(context);
        let again = layer.open_context().unwrap();
        assert_eq!(again, context, "its number is in use again");
        layer.close_context(again);
    }
}
