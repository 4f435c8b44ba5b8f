//! The model of cores, ports and locks beside the figures of CDP's thesis.

use super::{Figure, Line};
use crate::bench;
use crate::error::{Context, Result};

pub(super) const LINE: Line = Line {
    name: "cores",
    must: "a model of cores, fitted to 14.46 with coarse locks, predicts 82.55 with fine ones within 15 %, and that 8 ports suffice",
    run: |_| predicted(),
};

fn predicted() -> Result<Figure> {
    let said = bench::cores()?;
    let number = |name: &str| said[name].as_f64().context(format!("no {name}: {said}"));
    let truth = |name: &str| said[name].as_bool().context(format!("no {name}: {said}"));
    let (fine, more) = (number("fine")?, number("more_ports")?);
    let text = format!(
        "fine locks: {fine:.1} with 8 ports, {more:.1} with 32; coarse locks, fitted: {:.2}",
        number("coarse")?
    );
    Ok(Figure::new(
        truth("fine_is_near")? && truth("eight_suffice")?,
        text,
    ))
}
