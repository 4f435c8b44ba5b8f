//! `red-team`: makes the attacks in both modes and prints a table, or makes one of them.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use red_team::{ATTACKS, Attack, Setting};

const USAGE: &str = "usage: red-team [--list] [--attack NAME] [--mode plain|sealed] \
                     [--volume N] [--without-defence]
       red-team --noise ADDRESS RATE SECONDS | --drain ADDRESS SECONDS
  --list             print each attack, mode and defence
  --volume           hostile datagrams of floods (20000)
  --without-defence  remove the defence of each attack, which must then succeed
                     (builds with --cfg suci_plant only)
  --noise            send RATE datagrams a second of noise there
  --drain            receive there as a plain socket does
Both print their number of datagrams once a second.";

/// The attacks that the command line asks for, and how they are made.
struct Wanted {
    list: bool,
    attack: Option<String>,
    sealed: Option<bool>,
    volume: u32,
    without_defence: bool,
}

fn arguments() -> Result<Wanted, String> {
    let mut wanted = Wanted {
        list: false,
        attack: None,
        sealed: None,
        volume: 20_000,
        without_defence: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--list" => wanted.list = true,
            "--without-defence" => wanted.without_defence = true,
            "--attack" => wanted.attack = Some(value()?),
            "--volume" => {
                let said = value()?;
                let number = said
                    .parse()
                    .map_err(|_| format!("--volume {said}: no number"))?;
                wanted.volume = number;
            }
            "--mode" => {
                wanted.sealed = Some(match value()?.as_str() {
                    "plain" => false,
                    "sealed" => true,
                    other => return Err(format!("--mode {other}: plain or sealed")),
                });
            }
            other => return Err(format!("{other}: no such option\n{USAGE}")),
        }
    }
    Ok(wanted)
}

/// Makes one attack in one mode. Returns its line of the table, and whether it ended as it must.
fn make(attack: &Attack, sealed: bool, wanted: &Wanted) -> (String, bool) {
    let volume = wanted.volume;
    let setting = Setting { sealed, volume };
    if wanted.without_defence {
        return match attack.remove_defence(sealed) {
            Err(why) => (why, false),
            Ok(()) => match attack.run(setting) {
                Err(broken) => (format!("succeeds: {broken}"), true),
                Ok(_) => ("fails although its defence is gone".into(), false),
            },
        };
    }
    match attack.run(setting) {
        Err(broken) => (format!("SUCCEEDS: {broken}"), false),
        Ok(report) => {
            let newcomer = report.newcomer.map_or(0, |time| time.as_millis());
            let text = format!(
                "fails: {} hostile, {} of {} messages exchanged, {} KiB of heap, newcomer in {} ms",
                report.hostile,
                report.exchanged,
                report.exchanged,
                report.heap >> 10,
                newcomer,
            );
            (text, true)
        }
    }
}

/// Runs `--noise` or `--drain`, which print the number of datagrams once a second.
fn noise(arguments: &[String]) -> Result<(), String> {
    let number = |text: &String| {
        text.parse::<u32>()
            .map_err(|_| format!("{text}: no number"))
    };
    let address = |text: &String| {
        let parsed: Result<SocketAddr, _> = text.parse();
        parsed.map_err(|_| format!("{text}: no address"))
    };
    let span = |text: &String| Ok::<_, String>(Duration::from_secs(number(text)?.into()));
    let tell = |count| println!("{count}");
    match arguments {
        [what, to, rate, seconds] if what == "--noise" => {
            red_team::make_noise(address(to)?, number(rate)?, span(seconds)?, tell)
        }
        [what, at, seconds] if what == "--drain" => {
            red_team::drain(address(at)?, span(seconds)?, tell)
        }
        _ => Err(USAGE.into()),
    }
}

fn main() -> ExitCode {
    let said: Vec<String> = std::env::args().skip(1).collect();
    if said
        .first()
        .is_some_and(|a| ["--noise", "--drain"].contains(&a.as_str()))
    {
        return match noise(&said) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("red-team: {why}");
                ExitCode::from(2)
            }
        };
    }
    let wanted = match arguments() {
        Ok(wanted) => wanted,
        Err(why) => {
            eprintln!("red-team: {why}");
            return ExitCode::from(2);
        }
    };
    let (mut made, mut wrong) = (0_u32, 0_u32);
    for attack in ATTACKS {
        if wanted
            .attack
            .as_deref()
            .is_some_and(|name| name != attack.name)
        {
            continue;
        }
        for sealed in [false, true] {
            let Some(plant) = attack.plant(sealed) else {
                continue;
            };
            if wanted.sealed.is_some_and(|only| only != sealed) {
                continue;
            }
            let mode = if sealed { "sealed" } else { "plain" };
            let name = attack.name;
            made += 1;
            if wanted.list {
                println!("{name} {mode} {plant}: {}", attack.tries);
                continue;
            }
            let (text, right) = make(attack, sealed, &wanted);
            wrong += u32::from(!right);
            println!(
                "{} {name}, {mode}: {text}",
                if right { "ok" } else { "FAIL" }
            );
        }
    }
    println!("{} right, {wrong} wrong", made - wrong);
    match (made, wrong) {
        (1.., 0) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
