//! The findings, as text made of the figures, so that no sentence outlives them.

use std::fmt::Write as _;

use super::plan::{ADAPTIVE, EACH, END, PACKET, SUCI, TCP, TCP_EACH, TCP_KEPT, WINDOW, WRITE};
use super::{Measured, Pace, Weight};

/// Joins one clause for each network, and breaks the lines.
fn by_pace(clause: impl Fn(Pace) -> Option<String>) -> String {
    let all = Pace::ALL.into_iter().filter_map(|pace| {
        let text = clause(pace)?;
        Some(format!("{}: {text}", pace.shown()))
    });
    all.collect::<Vec<_>>().join("; ")
}

pub(super) fn wrapped(text: &str) -> String {
    let mut wrapped = String::new();
    let mut width = "**Found.** ".len();
    for word in text.split_whitespace() {
        if width + word.len() + 1 > 98 {
            wrapped.push('\n');
            width = 0;
        } else if !wrapped.is_empty() {
            wrapped.push(' ');
            width += 1;
        }
        wrapped.push_str(word);
        width += word.len();
    }
    wrapped
}

/// The first of `names` over the second, at the least and the greatest x.
fn ratios(measured: &Measured, pace: Pace, above: &str, below: &str) -> Option<(f64, f64)> {
    let (first, last) = (
        measured.curve(pace, above).first()?,
        measured.curve(pace, above).last()?,
    );
    let of = |point: &(f64, f64)| Some(point.1 / measured.at(pace, below, point.0)?);
    Some((of(first)?, of(last)?))
}

fn sizes(measured: &Measured, what: &str) -> String {
    let text = by_pace(|pace| {
        let (write, write_end) = ratios(measured, pace, WRITE, TCP)?;
        let (packet, packet_end) = ratios(measured, pace, PACKET, TCP)?;
        Some(format!(
            "write/read {write:.2} and {write_end:.2}, packets {packet:.2} and {packet_end:.2}"
        ))
    });
    wrapped(&format!(
        "{what} as a multiple of TCP's, for the shortest and the longest message. {text}."
    ))
}

pub(super) fn ping_pong(measured: &Measured) -> String {
    sizes(measured, "Throughput")
}

pub(super) fn broadcast(measured: &Measured) -> String {
    sizes(measured, "Throughput")
}

pub(super) fn n_data(measured: &Measured) -> String {
    let text = by_pace(|pace| {
        let (count, each) = *measured.curve(pace, EACH).last()?;
        let other = |name| measured.at(pace, name, count);
        Some(format!(
            "to acknowledge each takes {each:.1} ms, to acknowledge at the end {:.1}, packets {:.1}, TCP {:.1}",
            other(END)?,
            other(PACKET)?,
            other(TCP)?
        ))
    });
    wrapped(&format!("The most messages. {text}."))
}

pub(super) fn transactions(measured: &Measured) -> String {
    let text = by_pace(|pace| {
        let (count, time) = *measured.curve(pace, SUCI).last()?;
        let other = |name| Some(measured.at(pace, name, count)? / time);
        Some(format!(
            "{count} transactions take {time:.3} s, TCP with a connection for each {:.2} times as long, TCP kept open {:.2} times",
            other(TCP_EACH)?,
            other(TCP_KEPT)?
        ))
    });
    wrapped(&format!("{text}."))
}

/// The least throughput of a block size as a share of that of the next shorter one.
pub(crate) fn worst_step(curve: &[(f64, f64)]) -> Option<(f64, f64)> {
    let steps = curve.windows(2).filter_map(|pair| match pair {
        [before, after] => Some((after.0, after.1 / before.1)),
        _ => None,
    });
    steps.min_by(|a, b| a.1.total_cmp(&b.1))
}

pub(super) fn blocks(measured: &Measured) -> String {
    let text = by_pace(|pace| {
        let (size, share) = worst_step(measured.curve(pace, WRITE))?;
        let at = |x| measured.at(pace, WRITE, x).unwrap_or(f64::NAN);
        Some(format!(
            "{:.0} KB/s at 1,400 bytes and {:.0} at 2,000; the deepest step down is at {size} bytes, to {share:.2} of the size before",
            at(1400.0),
            at(2000.0)
        ))
    });
    let shares = [Pace::Mbit10, Pace::Mbit100].map(|pace| worst_step(measured.curve(pace, WRITE)));
    let verdict = match shares.iter().flatten().all(|(_, share)| *share >= 0.5) {
        true => "No block size collapses on the paced networks",
        false => "A block size loses more than half of what the size before has",
    };
    wrapped(&format!("{verdict}. {text}."))
}

pub(super) fn burst(measured: &Measured) -> String {
    let text = by_pace(|pace| {
        let at = |name, x| measured.at(pace, name, x).unwrap_or(f64::NAN);
        Some(format!(
            "{:.0} KB/s for 50 packets and {:.0} for 100 in a window of 50; {:.0} for 100 with the library's own window, TCP {:.0}",
            at(WINDOW, 50.0),
            at(WINDOW, 100.0),
            at(ADAPTIVE, 100.0),
            at(TCP, 100.0)
        ))
    });
    let share = |pace| Some(measured.at(pace, WINDOW, 100.0)? / measured.at(pace, WINDOW, 50.0)?);
    let shares = [Pace::Mbit10, Pace::Mbit100].map(share);
    let verdict = match shares.iter().flatten().all(|share| *share >= 0.5) {
        true => "Twice the window does not collapse on the paced networks",
        false => "Twice the window has less than half of what the window has",
    };
    wrapped(&format!("{verdict}. {text}."))
}

/// The part about the processor time of broadcasts.
pub(super) fn processor_table(weights: &[Weight]) -> String {
    let mut text = String::from(
        "## Processor time of a broadcast of 1 MiB to 9 receivers\n\nOne packet that is put to nine destinations, \
         nine writes, and nine TCP streams; unlimited. The\nmedian of nine rounds of 50 broadcasts each, in turns; \
         processor time is the sender's.\n\n| method | processor, ms | time, ms | payload bytes copied |\n|---|---|---|---|\n",
    );
    for weight in weights {
        let _ = writeln!(
            text,
            "| {} | {:.2} | {:.2} | {:.0} |",
            weight.method, weight.processor_ms, weight.total_ms, weight.copied
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_step_down_is_found() {
        let curve = [(1.0, 10.0), (2.0, 20.0), (3.0, 5.0), (4.0, 4.0)];
        assert_eq!(worst_step(&curve), Some((3.0, 0.25)));
        assert_eq!(worst_step(&[]), None);
    }

    #[test]
    fn lines_of_findings_are_short() {
        let text = wrapped(&"word ".repeat(100));
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
        assert_eq!(text.split_whitespace().count(), 100);
    }
}
