//! Each attack of the red team fails, in both modes. How fast messages pass meanwhile is not
//! judged: all of them must.
#![cfg(not(suci_plant))]

use std::sync::{Mutex, PoisonError};

use red_team::{ATTACKS, Setting};

/// Hostile datagrams of floods: `red-team --volume 1000000` makes the long attack.
const VOLUME: u32 = 20_000;

/// The heap is counted for the whole process, so one attack is made at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn fails(name: &str) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let named = ATTACKS.iter().find(|attack| attack.name == name);
    let attack = named.unwrap_or_else(|| panic!("no attack {name}"));
    for sealed in [false, true]
        .into_iter()
        .filter(|mode| attack.plant(*mode).is_some())
    {
        let volume = VOLUME;
        if let Err(broken) = attack.run(Setting { sealed, volume }) {
            panic!("{name}, sealed: {sealed}: {broken}");
        }
    }
}

/// F01, F02.
#[test]
fn spoofed_hellos_fail() {
    fails("spoofed-hellos");
}

/// F01.
#[test]
fn reflection_fails() {
    fails("reflection");
}

/// F01.
#[test]
fn forged_cookies_fail() {
    fails("forged-cookies");
}

/// F02.
#[test]
fn slow_handshakes_fail() {
    fails("slow-handshakes");
}

/// F02.
#[test]
fn key_guessing_fails() {
    fails("key-guessing");
}

/// F02, F10.
#[test]
fn repeated_inits_fail() {
    fails("repeated-inits");
}

/// F02.
#[test]
fn forged_accepts_fail() {
    fails("forged-accepts");
}

/// F06, F10.
#[test]
fn replay_fails() {
    fails("replay");
}

/// F10, F14.
#[test]
fn replay_to_a_restarted_node_fails() {
    fails("replay-to-restarted");
}

/// F08, F30.
#[test]
fn noise_fails() {
    fails("noise");
}

/// F11.
#[test]
fn index_guessing_fails() {
    fails("index-guessing");
}

/// F10, F11.
#[test]
fn forged_numbers_fail() {
    fails("forged-numbers");
}

/// F11.
#[test]
fn forged_hints_fail() {
    fails("forged-hints");
}

/// F05.
#[test]
fn optimistic_acks_fail() {
    fails("optimistic-acks");
}

/// F07.
#[test]
fn fragment_bomb_fails() {
    fails("fragment-bomb");
}

/// F07.
#[test]
fn contradictory_lengths_fail() {
    fails("contradictory-lengths");
}

/// F04.
#[test]
fn challenge_flood_fails() {
    fails("challenge-flood");
}

/// F03.
#[test]
fn credit_overflow_fails() {
    fails("credit-overflow");
}

/// F11.
#[test]
fn foreign_session_fails() {
    fails("foreign-session");
}

/// F08.
#[test]
fn unknown_frames_fail() {
    fails("unknown-frames");
}

#[test]
fn impostor_fails() {
    fails("impostor");
}

#[test]
fn denied_layer_fails() {
    fails("denied-layer");
}
