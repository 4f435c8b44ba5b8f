//! Othello, computer against computer, by alpha-beta search that is distributed over processes.
//!
//! A task is a move with one reply to it, so a position has many. Later tasks profit from the
//! bounds of results that came before. The value and the move are those of a search by one process:
//! of moves of equal value the first one wins.

mod board;
mod search;

use clap::Args;
use serde_json::{Value, json};

use crate::args::whole;
use crate::farm::{self, Ready};
use crate::process::Process;
use crate::program::{Program, Told};
use crate::progress::Progress;
use crate::transport::Result;
use board::{Board, name};
use search::{Choice, Split, choose, compute};

/// Moves of a game at most; some games end sooner.
const MOVES: u64 = 60;

/// Plays Othello, computer against computer
#[derive(Args)]
pub(crate) struct Othello {
    /// Moves that are looked ahead
    #[arg(long, default_value = "6", value_name = "N", value_parser = whole(2, 20),
          allow_negative_numbers = true)]
    depth: u32,
    /// Moves after which the game is broken off
    #[arg(long, default_value = "60", value_name = "N", value_parser = whole(1, 60),
          allow_negative_numbers = true)]
    moves: u32,
    /// Draw the board after each move
    #[arg(long)]
    show: bool,
}

/// A move of the game.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Move {
    /// The square, unless the player passes.
    choice: Option<Choice>,
    /// The board after it, as the next player sees it.
    board: Board,
}

impl Othello {
    /// Plays a game with choices by `choose`.
    fn play(
        &self,
        progress: &mut Progress,
        mut choose: impl FnMut(Board) -> Result<Choice>,
    ) -> Result<Vec<Move>> {
        let mut game = Vec::new();
        let (mut board, mut moves) = (Board::BEGIN, 0);
        while !board.is_over() && moves < self.moves {
            let choice = match board.moves() {
                0 => None,
                _ => Some(choose(board)?),
            };
            moves += u32::from(choice.is_some());
            board = choice.map_or(board.pass(), |choice| board.after(choice.square));
            game.push(Move { choice, board });
            progress.show(moves.into(), MOVES.min(self.moves.into()));
        }
        Ok(game)
    }
}

/// Lets all processes search for the best move.
fn choose_together(
    process: &mut Process,
    ready: &mut Ready,
    board: Board,
    depth: u32,
) -> Result<Choice> {
    let mut split = Split::new(board, depth);
    farm::hand_out(process, ready, &mut split, &compute)?;
    split.choice().ok_or("no move was found".into())
}

impl Program for Othello {
    type Found = Vec<Move>;

    fn check(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn parallel(
        &self,
        process: &mut Process,
        progress: &mut Progress,
    ) -> Result<Option<Vec<Move>>> {
        if !process.is_root() {
            farm::work(process, &compute)?;
            return Ok(None);
        }
        let mut ready = Ready::new(process, 1);
        let game = self.play(progress, |board| {
            choose_together(process, &mut ready, board, self.depth)
        })?;
        farm::finish(process)?;
        Ok(Some(game))
    }

    fn sequential(&self, progress: &mut Progress) -> Result<Vec<Move>> {
        self.play(progress, |board| {
            choose(board, self.depth).ok_or("no move was found".into())
        })
    }

    fn tell(&self, game: &Vec<Move>) -> Result<Told> {
        let mut lines = Vec::new();
        let mut moves = Vec::new();
        let mut board = Board::BEGIN;
        for (number, one) in game.iter().enumerate() {
            let player = if number.is_multiple_of(2) {
                "black"
            } else {
                "white"
            };
            let (square, value) = match one.choice {
                Some(choice) => (name(choice.square), format!(", value {}", choice.value)),
                None => ("pass".to_owned(), String::new()),
            };
            lines.push(format!("{:2}. {player} {square}{value}", number + 1));
            moves.push(json!({ "square": square, "value": one.choice.map(|choice| choice.value) }));
            board = one.board;
            if self.show {
                lines.push(board.drawn(number % 2 == 1));
            }
        }
        let (black, white) = board.discs(game.len().is_multiple_of(2));
        lines.push(format!("black {black}, white {white}"));
        Ok(Told {
            text: lines.join("\n"),
            json: json!({
                "depth": self.depth, "moves": Value::from(moves), "black": black, "white": white
            }),
        })
    }
}
