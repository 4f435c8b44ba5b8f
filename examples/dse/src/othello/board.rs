//! The board and its rules. Squares are bits: a1 is bit 0, b1 bit 1, a2 bit 8.

/// A position, as the player sees it whose move it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Board {
    pub(super) own: u64,
    pub(super) other: u64,
}

/// Squares that are not in the first or the last column.
const MIDDLE: u64 = 0x7e7e_7e7e_7e7e_7e7e;

/// Worth of the squares of a quarter of the board, from the corner: corners are safe, and squares
/// beside them give the corner away.
const WORTH: [[i32; 4]; 4] = [
    [100, -20, 10, 5],
    [-20, -50, -2, -2],
    [10, -2, 1, 1],
    [5, -2, 1, 1],
];

/// Worth of a move that the player can choose from.
const MOBILITY: i32 = 5;

/// Worth of a disc when the game is over: more than all else.
const FINAL: i32 = 1_000;

impl Board {
    /// Black begins.
    pub(crate) const BEGIN: Self = Self {
        own: 1 << 28 | 1 << 35,
        other: 1 << 27 | 1 << 36,
    };

    /// The squares where this player may set a disc, as bits.
    pub(crate) fn moves(self) -> u64 {
        let empty = !(self.own | self.other);
        DIRECTIONS.iter().fold(0, |moves, direction| {
            moves | direction.step(self.run(*direction, self.own)) & empty
        })
    }

    /// Discs of the other player in a row that begins beside the squares `from`.
    fn run(self, direction: Direction, from: u64) -> u64 {
        let mut row = direction.step(from) & self.other;
        for _ in 0..5 {
            row |= direction.step(row) & self.other;
        }
        row
    }

    /// The position after a move, as the other player sees it.
    pub(crate) fn after(self, square: u32) -> Self {
        let disc = 1 << square;
        let turned = DIRECTIONS.iter().fold(0, |turned, direction| {
            let row = self.run(*direction, disc);
            match direction.step(row) & self.own & !row {
                0 => turned,
                _ => turned | row,
            }
        });
        Self {
            own: self.other & !turned,
            other: self.own | turned | disc,
        }
    }

    /// The position after this player passed.
    pub(crate) fn pass(self) -> Self {
        Self {
            own: self.other,
            other: self.own,
        }
    }

    /// Returns true if no player can move.
    pub(crate) fn is_over(self) -> bool {
        self.moves() == 0 && self.pass().moves() == 0
    }

    /// The squares for a move, those that are worth most first: bounds are then found early.
    pub(crate) fn ordered_moves(self) -> Vec<u32> {
        let moves = self.moves();
        let mut squares: Vec<u32> = (0..64).filter(|square| moves >> square & 1 == 1).collect();
        squares.sort_by_key(|square| -worth(*square));
        squares
    }

    /// The positions that may follow: after each move, or after a pass. None if the game is over.
    pub(crate) fn followers(self) -> Vec<Self> {
        let moves = self.ordered_moves();
        if moves.is_empty() && !self.is_over() {
            return vec![self.pass()];
        }
        moves.into_iter().map(|square| self.after(square)).collect()
    }

    /// The worth of a position for this player, without a look ahead.
    pub(crate) fn value(self) -> i32 {
        let sum = |discs: u64| -> i32 {
            let set = (0..64).filter(|square| discs >> square & 1 == 1);
            set.map(worth).sum()
        };
        let choices = count(self.moves()) - count(self.pass().moves());
        sum(self.own) - sum(self.other) + MOBILITY * choices
    }

    /// The worth of the end of a game for this player.
    pub(crate) fn final_value(self) -> i32 {
        FINAL * (count(self.own) - count(self.other))
    }

    /// The discs of black and of white.
    pub(crate) fn discs(self, is_black: bool) -> (i32, i32) {
        let (own, other) = (count(self.own), count(self.other));
        if is_black { (own, other) } else { (other, own) }
    }

    /// The board as text: x is black, o is white.
    pub(crate) fn drawn(self, is_black: bool) -> String {
        let (own, other) = if is_black { ('x', 'o') } else { ('o', 'x') };
        let mut text = "    a b c d e f g h".to_owned();
        for row in 0..8 {
            text += &format!("\n  {}", row + 1);
            for square in row * 8..row * 8 + 8 {
                let disc = match (self.own >> square & 1, self.other >> square & 1) {
                    (1, _) => own,
                    (_, 1) => other,
                    _ => '.',
                };
                text.extend([' ', disc]);
            }
        }
        text
    }
}

/// A step to one of the eight squares around.
#[derive(Clone, Copy)]
struct Direction {
    bits: i32,
    /// Squares that may be entered: rows do not continue in the next line.
    may_enter: u64,
}

const fn direction(bits: i32, across: i32) -> Direction {
    let may_enter = match across {
        0 => u64::MAX,
        1 => (MIDDLE << 1) | MIDDLE,
        _ => (MIDDLE >> 1) | MIDDLE,
    };
    Direction { bits, may_enter }
}

const DIRECTIONS: [Direction; 8] = [
    direction(1, 1),
    direction(-1, -1),
    direction(8, 0),
    direction(-8, 0),
    direction(9, 1),
    direction(-9, -1),
    direction(7, -1),
    direction(-7, 1),
];

impl Direction {
    fn step(self, squares: u64) -> u64 {
        let moved = match self.bits > 0 {
            true => squares << self.bits,
            false => squares >> -self.bits,
        };
        moved & self.may_enter
    }
}

fn count(squares: u64) -> i32 {
    squares.count_ones().cast_signed()
}

fn worth(square: u32) -> i32 {
    let fold = |at: u32| at.min(7 - at) as usize;
    WORTH[fold(square / 8)][fold(square % 8)]
}

/// The name of a square, as d3.
pub(crate) fn name(square: u32) -> String {
    let column = char::from_digit(10 + square % 8, 18).unwrap_or('?');
    format!("{column}{}", square / 8 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of games of a length: a pass counts as a move.
    fn games(board: Board, length: u32) -> u64 {
        let followers = board.followers();
        match (length, followers.is_empty()) {
            (0, _) | (_, true) => 1,
            _ => followers.iter().map(|next| games(*next, length - 1)).sum(),
        }
    }

    /// As others count them (perft).
    #[test]
    fn the_numbers_of_games_are_known() {
        let counts = [1, 4, 12, 56, 244, 1_396, 8_200, 55_092];
        for (length, count) in (0..).zip(counts) {
            assert_eq!(games(Board::BEGIN, length), count);
        }
    }

    #[test]
    fn the_first_moves_have_their_names() {
        let mut names: Vec<String> = Board::BEGIN.ordered_moves().into_iter().map(name).collect();
        names.sort();
        assert_eq!(names, ["c4", "d3", "e6", "f5"]);
        assert!(Board::BEGIN.drawn(true).contains("\n  4 . . . o x . . ."));
    }
}
