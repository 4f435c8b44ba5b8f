use super::*;

#[test]
fn varint_lengths_change_at_powers_of_128() {
    for bytes in 1..=8usize {
        let first_longer = 1u64 << (7 * bytes);
        assert_eq!(varint::size(first_longer - 1), bytes);
        assert_eq!(varint::size(first_longer), bytes + 1);
    }
    assert_eq!(varint::size(0), 1);
    assert_eq!(varint::size(u64::MAX), varint::MAX);
}

#[test]
fn varint_longer_forms_mean_the_same() {
    // 5 in every length from 1 to 9.
    for len in 1..=8u32 {
        let word = 5u64 << len | 1 << (len - 1);
        let bytes = &word.to_le_bytes()[..len as usize];
        let mut r = Reader::new(bytes);
        assert_eq!((r.varint(), r.is_empty()), (Ok(5), true), "{len} bytes");
    }
    let mut r = Reader::new(&[0, 5, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!((r.varint(), r.is_empty()), (Ok(5), true));
}

#[test]
fn reader_stops_at_the_end() {
    let mut r = Reader::new(&[1, 2, 3]);
    assert_eq!(r.u16(), Ok(0x0201));
    assert!(r.u16().is_err() && r.u32().is_err() && r.u64().is_err() && r.u128().is_err());
    assert!(r.bytes(2).is_err() && r.bytes(u64::MAX).is_err());
    assert_eq!(
        (r.remaining(), r.rest(), r.is_empty()),
        (1, &[3u8][..], true)
    );
    assert!(r.u8().is_err() && r.varint().is_err());
}

proptest! {
    #[test]
    fn varint_round_trip(value in number()) {
        let mut buf = vec![7];
        varint::put(&mut buf, value);
        prop_assert_eq!(buf.len() - 1, varint::size(value));
        let mut r = Reader::new(&buf[1..]);
        prop_assert_eq!(r.varint(), Ok(value));
        prop_assert!(r.is_empty());
        for cut in 1..buf.len() {
            prop_assert!(Reader::new(&buf[1..cut]).varint().is_err());
        }
    }
}
