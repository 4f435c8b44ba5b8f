//! Groups under all faults.

use suci_sim::profiles::Profile;
use suci_sim::runner::run_seed;

/// Random runs in which members once waited for ever: data of the next operation filled a queue
/// before the decision of an agreement found room in it; a member whose session was over took no
/// part in the next agreement, and told nobody.
#[test]
fn no_member_waits_for_ever() {
    for seed in [
        264_552_090_200,
        264_552_093_279,
        264_552_091_737,
        264_552_092_385,
    ] {
        let outcome = run_seed(seed, Profile::Groups, None, false);
        assert_eq!(outcome.failure, None, "seed {seed}");
    }
}
