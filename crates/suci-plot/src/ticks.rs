//! The values that an axis names, and their names.

use crate::{Axis, Unit};

/// Maximum number of measured values that each get a tick of their own.
const MOST_MEASURED: usize = 13;

/// Least pixels between two names below a horizontal axis.
const APART: f64 = 4.0;

/// Mantissas of ticks on a logarithmic axis, from coarse to fine.
const MANTISSAS: [&[f64]; 3] = [&[1.0], &[1.0, 3.0], &[1.0, 2.0, 5.0]];
const FINEST: &[f64] = &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0];

/// A value and its name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) value: f64,
    pub(crate) label: String,
}

/// Ticks between `least` and `most`, which a logarithmic axis has above 0.
pub(crate) fn ticks(axis: &Axis, least: f64, most: f64) -> Vec<Tick> {
    if !axis.logarithmic {
        return linear(axis.unit, least, most);
    }
    let values = match axis.unit {
        Unit::Bytes => powers_of_two(least, most),
        _ => decades(least, most),
    };
    if values.len() < 3 {
        return linear(axis.unit, least, most);
    }
    each(axis.unit, values)
}

/// A tick for each measured value, if there is room for that. `pixel` places a value, `letter` is
/// the width of one in a name.
pub(crate) fn measured(
    axis: &Axis,
    values: &[f64],
    pixel: impl Fn(f64) -> f64,
    letter: i32,
) -> Option<Vec<Tick>> {
    let ticks = each(axis.unit, values.to_vec());
    let half = |tick: &Tick| tick.label.chars().count() as f64 * f64::from(letter) / 2.0;
    let far = |pair: &[Tick]| match pair {
        [one, next] => pixel(next.value) - pixel(one.value) >= half(one) + half(next) + APART,
        _ => true,
    };
    let fits = values.len() <= MOST_MEASURED && ticks.windows(2).all(far);
    fits.then_some(ticks)
}

fn each(unit: Unit, values: Vec<f64>) -> Vec<Tick> {
    let tick = |value| Tick {
        value,
        label: name(unit, value),
    };
    values.into_iter().map(tick).collect()
}

fn powers_of_two(least: f64, most: f64) -> Vec<f64> {
    let (first, last) = (least.log2().ceil() as i32, most.log2().floor() as i32);
    let steps = [1, 2, 4, 8, 16];
    let all = |step: i32| (first..=last).filter(move |power| power.rem_euclid(step) == 0);
    let step = steps.into_iter().find(|step| all(*step).count() <= 11);
    all(step.unwrap_or(32))
        .map(|power| f64::from(power).exp2())
        .collect()
}

fn decades(least: f64, most: f64) -> Vec<f64> {
    let (first, last) = (least.log10().floor() as i32, most.log10().floor() as i32);
    let of = |mantissas: &[f64]| -> Vec<f64> {
        let decade = |power: i32| mantissas.iter().map(move |one| one * 10_f64.powi(power));
        let all = (first..=last).flat_map(decade);
        all.filter(|value| (least..=most).contains(value)).collect()
    };
    let mut coarse = MANTISSAS.iter().map(|mantissas| of(mantissas));
    let enough = coarse.find(|values| values.len() >= 4);
    enough.unwrap_or_else(|| of(FINEST))
}

/// Multiples of a round step. All have the prefix and the digits of the greatest.
fn linear(unit: Unit, least: f64, most: f64) -> Vec<Tick> {
    let rough = (most - least) / 5.0;
    if !(rough.is_finite() && rough > 0.0) {
        return each(unit, vec![least]);
    }
    let decade = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * decade);
    let step = steps
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(rough);
    let (scale, suffix) = prefix(unit, most.abs().max(least.abs()));
    let is_whole = |digits: &i32| {
        let shown = step / scale * 10_f64.powi(*digits);
        (shown - shown.round()).abs() < 1e-6 * shown
    };
    let digits = (0..6).find(is_whole).unwrap_or(6) as usize;
    let (first, last) = ((least / step).ceil() as i64, (most / step).floor() as i64);
    let tick = |at: i64| {
        let value = at as f64 * step;
        let label = format!("{:.digits$}{suffix}", value / scale);
        Tick { value, label }
    };
    (first..=last).map(tick).collect()
}

/// A value as people write it.
pub(crate) fn name(unit: Unit, value: f64) -> String {
    let (scale, suffix) = match unit {
        // A size between two powers is known by its bytes: 1,472.
        Unit::Bytes if value < 10_240.0 && value % 1_024.0 != 0.0 => (1.0, " B"),
        _ => prefix(unit, value.abs()),
    };
    format!("{}{suffix}", figure(value / scale))
}

/// The divisor of a value, and the unit of the quotient.
fn prefix(unit: Unit, value: f64) -> (f64, &'static str) {
    const KI: f64 = 1024.0;
    let known: &[(f64, &str)] = match unit {
        Unit::Bytes => &[
            (KI * KI * KI, " GiB"),
            (KI * KI, " MiB"),
            (KI, " KiB"),
            (1.0, " B"),
        ],
        Unit::BytesPerSecond => &[
            (1e9, " GB/s"),
            (1e6, " MB/s"),
            (1e3, " kB/s"),
            (1.0, " B/s"),
        ],
        Unit::BitsPerSecond => &[
            (1e9, " Gbit/s"),
            (1e6, " Mbit/s"),
            (1e3, " kbit/s"),
            (1.0, " bit/s"),
        ],
        Unit::Seconds => &[(1.0, " s"), (1e-3, " ms"), (1e-6, " us"), (1e-9, " ns")],
        Unit::PerSecond => &[(1e9, " G/s"), (1e6, " M/s"), (1e3, " k/s"), (1.0, " /s")],
        Unit::Count => &[(1.0, "")],
        Unit::Times => &[(1.0, "\u{d7}")],
        Unit::Percent => &[(1.0, " %")],
    };
    // A tick at 1 must not become 1000 of the next unit because of a rounding error.
    let fitting = known
        .iter()
        .find(|(scale, _)| value >= scale * (1.0 - 1e-9));
    let smallest = known.last().copied().unwrap_or((1.0, ""));
    match fitting {
        Some(found) => *found,
        None if value == 0.0 => known.first().copied().unwrap_or(smallest),
        None => smallest,
    }
}

/// Three digits, without zeros at the end; thousands are set apart.
fn figure(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        size => (2 - size.log10().floor() as i32).clamp(0, 6) as usize,
    };
    let text = format!("{value:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    match text.split_at_checked(text.len().saturating_sub(3)) {
        Some((thousands, rest)) if !text.contains('.') && value >= 1e3 => {
            format!("{thousands},{rest}")
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, least: f64, most: f64) -> Vec<String> {
        let all = ticks(axis, least, most).into_iter();
        all.map(|tick| tick.label).collect()
    }

    #[test]
    fn values_have_the_prefix_of_their_size() {
        let bytes = [1.0, 64.0, 1_024.0, 1_472.0, 65_536.0, 1_048_576.0];
        assert_eq!(
            bytes.map(|size| name(Unit::Bytes, size)),
            ["1 B", "64 B", "1 KiB", "1,472 B", "64 KiB", "1 MiB"]
        );
        let seconds = [1e-5, 0.000_99, 0.1, 1.0, 2.5];
        assert_eq!(
            seconds.map(|time| name(Unit::Seconds, time)),
            ["10 us", "990 us", "100 ms", "1 s", "2.5 s"]
        );
        assert_eq!(name(Unit::BitsPerSecond, 1e9), "1 Gbit/s");
        assert_eq!(name(Unit::PerSecond, 5e5), "500 k/s");
        assert_eq!(name(Unit::Count, 1_000.0), "1,000");
        assert_eq!(name(Unit::Times, 0.05), "0.05\u{d7}");
    }

    #[test]
    fn logarithmic_ticks_are_powers_or_finer() {
        let sizes = Axis::logarithmic("message", Unit::Bytes);
        assert_eq!(
            labels(&sizes, 12.0, 70_000.0),
            [
                "16 B", "64 B", "256 B", "1 KiB", "4 KiB", "16 KiB", "64 KiB"
            ]
        );
        let times = Axis::logarithmic("time", Unit::Seconds);
        assert_eq!(
            labels(&times, 5e-5, 0.3),
            ["100 us", "1 ms", "10 ms", "100 ms"]
        );
        assert_eq!(
            labels(&times, 8e-6, 6e-5),
            ["10 us", "15 us", "20 us", "30 us", "50 us"]
        );
    }

    #[test]
    fn linear_ticks_share_prefix_and_digits() {
        let times = Axis::linear("time", Unit::Seconds);
        assert_eq!(
            labels(&times, 0.0, 1.1),
            ["0.00 s", "0.25 s", "0.50 s", "0.75 s", "1.00 s"]
        );
        let ratio = Axis::linear("multiple", Unit::Times);
        assert_eq!(
            labels(&ratio, 0.78, 1.01),
            [
                "0.80\u{d7}",
                "0.85\u{d7}",
                "0.90\u{d7}",
                "0.95\u{d7}",
                "1.00\u{d7}"
            ]
        );
        assert_eq!(labels(&ratio, 1.0, 1.0), ["1\u{d7}"]);
    }
}
