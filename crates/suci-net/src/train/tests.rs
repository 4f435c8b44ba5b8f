use super::*;

const DEST: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);

fn train<'a>(slices: &'a [IoSlice<'a>], segment: usize, len: usize) -> Train<'a> {
    Train {
        dest: DEST,
        source: None,
        ecn: Ecn::NotEct,
        segment,
        slices,
        len,
    }
}

fn refused(train: &Train<'_>, max: usize) -> TrainError {
    let error = train.admit(max).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    *error
        .get_ref()
        .unwrap()
        .downcast_ref::<TrainError>()
        .unwrap()
}

#[test]
fn segments_count_the_odd_last_and_the_empty_one() {
    let bytes = [0_u8; 250];
    let slices = [IoSlice::new(&bytes)];
    assert_eq!(train(&slices, 100, 250).segments(), 3);
    assert_eq!(train(&slices, 125, 250).segments(), 2);
    assert_eq!(train(&slices, 250, 250).segments(), 1);
    assert_eq!(train(&slices, 999, 250).segments(), 1);
    assert_eq!(train(&[], 0, 0).segments(), 1);
    assert_eq!(Train::single(DEST, Ecn::Ce, &slices).segments(), 1);
}

#[test]
fn each_broken_contract_has_its_error() {
    let bytes = vec![0_u8; 70_000];
    let slices = [IoSlice::new(&bytes)];
    assert_eq!(
        refused(&train(&slices, 10, 9), 64),
        TrainError::Length {
            len: 9,
            held: 70_000
        }
    );
    assert_eq!(
        refused(&train(&slices, 0, 70_000), 64),
        TrainError::EmptySegments { len: 70_000 }
    );
    assert_eq!(
        refused(&train(&slices, 2_000, 70_000), 64),
        TrainError::Bytes { len: 70_000 }
    );
    let segments = TrainError::Segments {
        segments: 70,
        max: 64,
    };
    assert_eq!(refused(&train(&slices, 1_000, 70_000), 64), segments);
    let many = [IoSlice::new(&bytes[..1]); MAX_SLICES + 1];
    let slices = TrainError::Slices {
        slices: MAX_SLICES + 1,
    };
    assert_eq!(refused(&train(&many, 2_000, MAX_SLICES + 1), 64), slices);
}

#[test]
fn what_needs_no_system_call_is_answered_at_once() {
    let bytes = vec![0_u8; MAX_TRAIN_BYTES + 1];
    let slices = [IoSlice::new(&bytes)];
    let whole = train(&slices, bytes.len(), bytes.len());
    assert_eq!(whole.admit(1).unwrap(), Some(SendOutcome::TooBig));
    assert_eq!(
        train(&slices, 2_000, bytes.len()).admit(1).unwrap(),
        Some(SendOutcome::NoGso)
    );
    let slices = [IoSlice::new(&bytes[..MAX_TRAIN_BYTES])];
    assert_eq!(
        train(&slices, MAX_TRAIN_BYTES, MAX_TRAIN_BYTES)
            .admit(1)
            .unwrap(),
        None
    );
    assert_eq!(
        train(&slices, 2_000, MAX_TRAIN_BYTES).admit(64).unwrap(),
        None
    );
    let mut nowhere = train(&slices, 2_000, MAX_TRAIN_BYTES);
    nowhere.dest.set_port(0);
    let no = SendOutcome::Unreachable(io::ErrorKind::InvalidInput);
    assert_eq!(nowhere.admit(64).unwrap(), Some(no));
}

#[test]
fn a_cut_is_what_the_flat_bytes_hold() {
    let bytes: Vec<u8> = (0..=255).collect();
    let slices: Vec<IoSlice<'_>> = [&bytes[..7], &bytes[7..7], &bytes[7..100], &bytes[100..]]
        .map(IoSlice::new)
        .to_vec();
    for from in (0..=256).step_by(5) {
        for to in (from..=256).step_by(3) {
            let mut out = Vec::new();
            cut(&slices, from, to, &mut out);
            let flat: Vec<u8> = out.iter().flat_map(|s| s.iter().copied()).collect();
            assert_eq!(flat, bytes[from..to]);
        }
    }
}

#[test]
fn only_mapped_addresses_are_unmapped() {
    let plain: SocketAddr = "[fe80::1]:5".parse().unwrap();
    assert_eq!(unmapped(plain), plain);
    assert_eq!(
        unmapped("[::ffff:10.0.0.1]:5".parse().unwrap()),
        "10.0.0.1:5".parse().unwrap()
    );
    assert_eq!(unmapped(DEST), DEST);
}
