use super::*;

#[test]
fn a_class_wastes_at_most_a_quarter() {
    for len in (1..200_000).chain([1 << 30, (1 << 30) + 1]) {
        let class = class(len);
        assert!(class >= len && class >= POOLED);
        assert!(len < POOLED || class - len <= len / 4, "{len} in {class}");
    }
}

#[test]
fn a_buffer_goes_home_with_the_last_reference_and_is_used_again() {
    let pool = Pool::new(1 << 20);
    let mut buffer = pool.take(5_000);
    assert!(buffer.write(0, &[7; 5_000]));
    let bytes = buffer.freeze();
    assert_eq!(bytes.len(), 5_000);
    let memory = bytes.as_ptr();
    let second = bytes.slice(10..20);
    drop(bytes);
    assert_eq!(pool.kept(), 0, "still referenced");
    drop(second);
    assert_eq!(pool.kept(), class(5_000));
    let again = pool.take(5_100);
    assert_eq!(again.as_ref().as_ptr(), memory, "same class, same memory");
    assert_eq!(pool.kept(), 0);
}

#[test]
fn f32_unused_buffers_have_a_cap() {
    let pool = Pool::new(20_000);
    let buffers: Vec<_> = (0..10).map(|_| pool.take(8_192)).collect();
    drop(buffers);
    assert_eq!(pool.kept(), 2 * 8_192);
}

#[test]
fn small_buffers_are_exact_and_not_kept() {
    let pool = Pool::new(1 << 20);
    let buffer = pool.take(POOLED - 1);
    assert_eq!(buffer.heap(), POOLED - 1);
    drop(buffer.freeze());
    assert_eq!(pool.kept(), 0);
    drop(pool.take(POOLED));
    assert_eq!(pool.kept(), POOLED);
}

#[test]
fn writes_stay_inside_the_message() {
    let mut buffer = Pool::new(0).take(5_000);
    assert!(buffer.write(4_990, &[1; 10]));
    assert!(
        !buffer.write(4_991, &[1; 10]),
        "the class has room, the message has not"
    );
    assert!(!buffer.write(usize::MAX, &[1; 10]));
    assert!(buffer.resize(class(5_000)));
    assert!(!buffer.resize(class(5_000) + 1));
    assert_eq!(buffer.len(), class(5_000));
    assert_eq!(buffer.front(usize::MAX).len(), class(5_000));
}

#[test]
fn a_supplied_buffer_becomes_the_message_itself() {
    let memory = vec![3; 100];
    let address = memory.as_ptr();
    let bytes = Buffer::supplied(memory.into(), 60).freeze();
    assert_eq!((bytes.len(), bytes.as_ptr()), (60, address));
}

#[test]
fn small_messages_share_a_chunk() {
    let (mut chunk, pool) = (Chunk::default(), Pool::new(0));
    let mut kept = Vec::new();
    for n in 0..2_000_u32 {
        kept.push(chunk.copy(&pool, &[n as u8], &n.to_le_bytes()));
    }
    let neighbours = kept
        .windows(2)
        .filter(|pair| pair[0].as_ptr().wrapping_add(5) == pair[1].as_ptr())
        .count();
    assert!(
        neighbours > 1_980,
        "{neighbours} of 2,000 beside their predecessor"
    );
    for (n, bytes) in (0..2_000_u32).zip(&kept) {
        assert_eq!(bytes[0], n as u8);
        assert_eq!(bytes[1..], n.to_le_bytes());
    }
    assert!(chunk.copy(&pool, &[], &[]).is_empty());
}

#[test]
fn a_chunk_is_used_again_when_its_messages_are_gone() {
    let (mut chunk, pool) = (Chunk::default(), Pool::new(0));
    for _ in 0..10_000 {
        drop(chunk.copy(&pool, &[], &[0; 100]));
    }
    assert!(chunk.allocated <= CHUNK, "{} B", chunk.allocated);
}

#[test]
fn a_chunk_begins_small() {
    let (mut chunk, pool) = (Chunk::default(), Pool::new(0));
    drop(chunk.copy(&pool, &[], b"x"));
    assert!(chunk.space.capacity() < FIRST_CHUNK);
}

#[test]
fn a_full_chunk_is_used_again_once_its_messages_are_gone_though_another_came_meanwhile() {
    let (mut chunk, pool) = (Chunk::default(), Pool::new(0));
    let mut held = VecDeque::new();
    for n in 0..10_000_u32 {
        let message = chunk.copy(&pool, &n.to_le_bytes(), &[7; 100]);
        held.push_back((n, message));
        // Enough messages that a chunk is full before the program drops the first one in it.
        if held.len() > 120 {
            let (n, message) = held.pop_front().unwrap();
            assert_eq!(message[..4], n.to_le_bytes());
        }
    }
    // The chunks of growing size, and two or three of full size.
    assert!(chunk.allocated <= 4 * CHUNK, "{} B", chunk.allocated);
    // A program that drops no message uses no more memory than these messages need.
    for _ in 0..10_000 {
        held.push_back((0, chunk.copy(&pool, &[], &[7; 100])));
    }
    assert!(pool.lock().full_chunks.len() <= *FULL_CHUNKS.start());
}

/// A program that takes what came within a while at once, again and again.
#[test]
fn the_next_burst_reuses_the_buffers_of_the_last() {
    let (mut chunk, pool) = (Chunk::default(), Pool::new(1 << 20));
    for _ in 0..100 {
        let burst: Vec<_> = (0..500)
            .map(|_| chunk.copy(&pool, &[], &[7; 1_000]))
            .collect();
        drop(burst);
    }
    assert!(chunk.allocated <= 40 * CHUNK, "{} B", chunk.allocated);
}

/// Pieces of a message come in any order, and others are copied beside it meanwhile.
#[test]
fn a_message_in_pieces_has_a_place_in_a_chunk() {
    let (mut chunk, pool) = (Chunk::default(), Pool::new(0));
    let before = chunk.copy(&pool, &[], &[1; 100]);
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let mut buffer = chunk.reserve(&pool, 300).unwrap();
        let mut beside = Vec::new();
        for piece in order {
            assert!(buffer.write(100 * piece, &[10 + piece as u8; 100]));
            beside.push(chunk.copy(&pool, &[], &[9; 100]));
        }
        assert!(!buffer.write(201, &[0; 100]) && !buffer.write(usize::MAX, &[0; 100]));
        assert!(buffer.is_in_chunk() && buffer.resize(300));
        assert_eq!(buffer.front(usize::MAX).len(), 300);
        let message = buffer.freeze();
        let expected = [[10; 100], [11; 100], [12; 100]].concat();
        assert_eq!(message, expected, "{order:?}");
        assert!(beside.iter().all(|bytes| bytes[..] == [9; 100]));
        chunk.on_completed();
    }
    assert_eq!(before[..], [1; 100]);
}

#[test]
fn f03_a_chunk_lends_one_place_at_a_time_and_none_to_a_long_message() {
    let (mut chunk, pool) = (Chunk::default(), Pool::new(0));
    assert!(chunk.reserve(&pool, CHUNKED + 1).is_none());
    let first = chunk.reserve(&pool, CHUNKED);
    assert!(first.is_some() && chunk.reserve(&pool, 1).is_none());
    drop(first);
    assert!(
        chunk.reserve(&pool, 1).is_none(),
        "it did not become complete"
    );
    chunk.on_completed();
    assert!(chunk.reserve(&pool, 1).is_some());
}

/// Memory that tells when it is dropped.
struct Told(Vec<u8>, Arc<std::sync::atomic::AtomicU32>);

impl AsRef<[u8]> for Told {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsMut<[u8]> for Told {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn supplied_memory_of_any_owner_is_written_in_place_and_dropped_with_the_message() {
    let drops = Arc::default();
    let memory = Told(vec![3; 100], Arc::clone(&drops));
    let address = memory.0.as_ptr();
    let mut buffer = Buffer::supplied(ReceiveBuffer::from_owner(memory), 60);
    assert!(buffer.write(10, &[7; 50]) && !buffer.write(10, &[7; 51]));
    assert!(buffer.resize(100) && !buffer.resize(101) && buffer.resize(60));
    let bytes = buffer.freeze();
    assert_eq!((bytes.len(), bytes.as_ptr()), (60, address));
    assert_eq!((bytes[9], bytes[10], bytes[59]), (3, 7, 7));
    assert_eq!(drops.load(std::sync::atomic::Ordering::Relaxed), 0);
    drop(bytes);
    assert_eq!(drops.load(std::sync::atomic::Ordering::Relaxed), 1);
    drop(Buffer::supplied(
        ReceiveBuffer::from_owner(Told(vec![], Arc::clone(&drops))),
        60,
    ));
    assert_eq!(drops.load(std::sync::atomic::Ordering::Relaxed), 2);
}
