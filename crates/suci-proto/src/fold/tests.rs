//! Everything comes back as it was.

use super::*;
use proptest::prelude::*;

fn again<T: Fold>(value: &T) -> T {
    let mut words = Words::default();
    value.fold(&mut words);
    T::unfold(&mut Words::unpack(&words.pack()))
}

proptest! {
    #[test]
    fn numbers_come_back(words: Vec<u64>, small in prop::collection::vec(0_u64..3, 0..40)) {
        prop_assert_eq!(&again(&words), &words);
        prop_assert_eq!(&again(&small), &small);
    }

    #[test]
    fn signs_and_fractions_come_back(signed: i64, short: i32, wide: u128, bits: u64) {
        prop_assert_eq!(again(&signed), signed);
        prop_assert_eq!(again(&short), short);
        prop_assert_eq!(again(&wide), wide);
        prop_assert_eq!(again(&f64::from_bits(bits)).to_bits(), bits);
    }

    #[test]
    fn instants_come_back_in_any_order(nanos in prop::collection::vec(0_u64..1 << 62, 0..10)) {
        let instants: Vec<_> = nanos.into_iter().map(Instant::from_nanos).collect();
        prop_assert_eq!(&again(&instants), &instants);
    }

    #[test]
    fn positions_come_back(positions: Vec<(u64, u64)>) {
        let ranges: Vec<_> = positions.into_iter().map(|(start, end)| start..=end).collect();
        prop_assert_eq!(&again(&ranges), &ranges);
    }

    #[test]
    fn addresses_come_back(v4: [u8; 4], v6: [u16; 8], port: u16, flow: u32, scope: u32) {
        let v4 = SocketAddr::from((v4, port));
        let v6 = SocketAddr::V6(SocketAddrV6::new(v6.into(), port, flow, scope));
        let all = vec![v4, v4, v6, v6, v4];
        prop_assert_eq!(&again(&all), &all);
        prop_assert_eq!(again(&v6.ip()), v6.ip());
    }
}

#[test]
fn zeros_cost_an_eighth_of_a_byte_and_those_at_the_end_nothing() {
    let pack = |numbers: &[u64]| {
        let mut words = Words::default();
        numbers.iter().for_each(|n| n.fold(&mut words));
        words.pack().len()
    };
    assert_eq!(pack(&[0; 100]), 0);
    assert_eq!(pack(&[0, 0, 0, 0, 0, 0, 0, 1]), 2);
    assert_eq!(pack(&[1; 8]), 9);
}

/// What is missing was zero: nothing that was read can be out of range.
#[test]
fn what_was_cut_off_is_read_as_zero() {
    let mut words = Words::default();
    (7_u64, 300_u64).fold(&mut words);
    let bytes = words.pack();
    for end in 0..bytes.len() {
        let (first, second) = <(u64, u64)>::unfold(&mut Words::unpack(&bytes[..end]));
        assert!(first == 7 || first == 0);
        assert_eq!(second, 0);
    }
}
