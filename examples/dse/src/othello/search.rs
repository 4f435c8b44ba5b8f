//! Alpha-beta search (Knuth and Moore 1975): by one process, and split into tasks.

use std::cell::Cell;

use suci::Bytes;

use super::board::Board;
use crate::farm::{Tasks, Tick};
use crate::transport::Result;

/// Beyond all values.
const INFINITE: i32 = 1_000_000;

/// Positions between two looks for messages.
const POSITIONS: u32 = 512;

/// The chosen move and its value for the player.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) square: u32,
    pub(crate) value: i32,
}

/// The value of a position if it is between `alpha` and `beta`; else a bound on the same side.
fn search(
    board: Board,
    depth: u32,
    (mut alpha, beta): (i32, i32),
    positions: &Cell<u32>,
    tick: Tick<'_>,
) -> Result<i32> {
    positions.set(positions.get().wrapping_add(1));
    if positions.get().is_multiple_of(POSITIONS) {
        tick()?;
    }
    if depth == 0 && !board.is_over() {
        return Ok(board.value());
    }
    let followers = board.followers();
    if followers.is_empty() {
        return Ok(board.final_value());
    }
    let mut best = -INFINITE;
    for next in followers {
        let value = -search(next, depth - 1, (-beta, -alpha), positions, tick)?;
        best = best.max(value);
        alpha = alpha.max(value);
        if alpha >= beta {
            break;
        }
    }
    Ok(best)
}

/// Chooses the best move, alone.
pub(crate) fn choose(board: Board, depth: u32) -> Option<Choice> {
    let mut best: Option<Choice> = None;
    for square in board.ordered_moves() {
        let alpha = best.map_or(-INFINITE, |best| best.value);
        let window = (-INFINITE, -alpha);
        let next = board.after(square);
        let value = search(next, depth - 1, window, &Cell::new(0), &mut || Ok(()));
        let value = -value.unwrap_or(INFINITE);
        if value > alpha {
            best = Some(Choice { square, value });
        }
    }
    best
}

/// A move and what is known of it.
struct Candidate {
    square: u32,
    /// The positions after the other player's replies.
    replies: Vec<Board>,
    /// Replies that were handed out, and those whose results came.
    begun: usize,
    done: usize,
    /// The least value of the replies: exact when all are done.
    value: i32,
    /// A reply makes it no better than another move.
    is_refuted: bool,
}

/// The search for one move, split into tasks.
pub(super) struct Split {
    depth: u32,
    candidates: Vec<Candidate>,
    /// The best move whose value is exact, by its place.
    best: Option<(usize, i32)>,
}

impl Split {
    /// `depth` is 2 or more.
    pub(super) fn new(board: Board, depth: u32) -> Self {
        let candidate = |square| {
            let after = board.after(square);
            let replies = after.followers();
            let is_end = replies.is_empty();
            Candidate {
                square,
                replies,
                begun: 0,
                done: 0,
                value: if is_end {
                    -after.final_value()
                } else {
                    INFINITE
                },
                is_refuted: false,
            }
        };
        let candidates = board.ordered_moves().into_iter().map(candidate);
        let mut split = Self {
            depth,
            candidates: candidates.collect(),
            best: None,
        };
        for at in 0..split.candidates.len() {
            split.judge(at);
        }
        split
    }

    /// The value that a candidate must exceed. One that comes first need only reach the best.
    fn alpha(&self, at: usize) -> i32 {
        match self.best {
            None => -INFINITE,
            Some((best, value)) => value - i32::from(at < best),
        }
    }

    /// Makes a candidate the best if it is complete and better.
    fn judge(&mut self, at: usize) {
        let alpha = self.alpha(at);
        let Some(candidate) = self.candidates.get_mut(at) else {
            return;
        };
        candidate.is_refuted |= candidate.value <= alpha;
        let is_complete = candidate.done == candidate.replies.len();
        if is_complete && !candidate.is_refuted {
            self.best = Some((at, candidate.value));
        }
    }

    /// The best move, when all tasks are done.
    pub(super) fn choice(&self) -> Option<Choice> {
        let (at, value) = self.best?;
        let square = self.candidates.get(at)?.square;
        Some(Choice { square, value })
    }
}

/// A task as bytes: the position, the window, the depth, the candidate's place.
struct Task {
    board: Board,
    alpha: i32,
    beta: i32,
    depth: u8,
    candidate: u8,
}

impl Task {
    fn encode(&self) -> Bytes {
        let mut bytes = Vec::new();
        bytes.extend(self.board.own.to_le_bytes());
        bytes.extend(self.board.other.to_le_bytes());
        bytes.extend(self.alpha.to_le_bytes());
        bytes.extend(self.beta.to_le_bytes());
        bytes.extend([self.depth, self.candidate]);
        bytes.into()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (own, rest) = bytes.split_first_chunk()?;
        let (other, rest) = rest.split_first_chunk()?;
        let (alpha, rest) = rest.split_first_chunk()?;
        let (beta, rest) = rest.split_first_chunk()?;
        let [depth, candidate] = *rest else {
            return None;
        };
        Some(Self {
            board: Board {
                own: u64::from_le_bytes(*own),
                other: u64::from_le_bytes(*other),
            },
            alpha: i32::from_le_bytes(*alpha),
            beta: i32::from_le_bytes(*beta),
            depth,
            candidate,
        })
    }
}

/// The result of a task: the candidate's place and the value.
pub(super) fn compute(task: &[u8], tick: Tick<'_>) -> Result<Bytes> {
    let task = Task::decode(task).ok_or("not a task")?;
    let window = (task.alpha, task.beta);
    let value = search(task.board, task.depth.into(), window, &Cell::new(0), tick)?;
    let [a, b, c, d] = value.to_le_bytes();
    Ok(Bytes::copy_from_slice(&[task.candidate, a, b, c, d]))
}

impl Tasks for Split {
    fn next(&mut self) -> Option<Bytes> {
        for at in 0..self.candidates.len() {
            let alpha = self.alpha(at);
            let candidate = self.candidates.get_mut(at)?;
            // The best move may have become better than what is known of this one.
            candidate.is_refuted |= candidate.value <= alpha;
            if candidate.is_refuted {
                continue;
            }
            let Some(board) = candidate.replies.get(candidate.begun) else {
                continue;
            };
            candidate.begun += 1;
            let task = Task {
                board: *board,
                alpha,
                beta: candidate.value,
                depth: u8::try_from(self.depth - 2).ok()?,
                candidate: u8::try_from(at).ok()?,
            };
            return Some(task.encode());
        }
        None
    }

    fn take(&mut self, result: &[u8]) -> Result<()> {
        let [at, value @ ..] = result else {
            return Err("an empty result".into());
        };
        let (at, value) = (usize::from(*at), i32::from_le_bytes(value.try_into()?));
        let candidate = self.candidates.get_mut(at).ok_or("no such move")?;
        candidate.done += 1;
        candidate.value = candidate.value.min(value);
        self.judge(at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays with results that come in another order than the tasks, which have older bounds then.
    fn choose_by_tasks(board: Board, depth: u32, delay: usize) -> Option<Choice> {
        let mut split = Split::new(board, depth);
        let mut waiting = Vec::new();
        loop {
            let task = split.next();
            let is_last = task.is_none();
            waiting.extend(task);
            if waiting.len() > delay || (is_last && !waiting.is_empty()) {
                let task = waiting.swap_remove(waiting.len() * 7 % 5 % waiting.len());
                let result = compute(&task, &mut || Ok(())).unwrap();
                split.take(&result).unwrap();
            } else if is_last {
                return split.choice();
            }
        }
    }

    #[test]
    fn tasks_choose_the_move_of_one_search() {
        let mut board = Board::BEGIN;
        let mut count = 0;
        while !board.is_over() {
            let depth = 2 + count % 3;
            if board.moves() == 0 {
                board = board.pass();
                continue;
            }
            let choice = choose(board, depth);
            for delay in [0, 1, 5, 30] {
                assert_eq!(choose_by_tasks(board, depth, delay), choice, "move {count}");
            }
            board = board.after(choice.unwrap().square);
            count += 1;
        }
        assert!(count > 40);
    }

    #[test]
    fn tasks_return_as_they_were() {
        let task = Task {
            board: Board::BEGIN,
            alpha: -5,
            beta: 700,
            depth: 4,
            candidate: 9,
        };
        let again = Task::decode(&task.encode()).unwrap();
        assert_eq!(again.encode(), task.encode());
        assert!(Task::decode(b"short").is_none());
    }
}
