//! Pictures of measurements.

use super::super::{Figure, Line};
use crate::pictures::{self, Found};

pub(super) const LINES: &[Line] = &[Line {
    name: "pictures",
    must: "each series of every picture in the tree has a visible key of its own, bench/PICTURES.md says what is seen in it",
    run: |_| {
        let Found {
            pictures,
            panels,
            series,
        } = pictures::check()?;
        let text = format!(
            "{pictures} pictures, {panels} panels, {series} series, each with its key, all in the list"
        );
        Ok(Figure::new(true, text))
    },
}];
