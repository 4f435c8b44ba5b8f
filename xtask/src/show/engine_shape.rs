//! The shape of the engine: sizes, circles, a link that works alone.

use super::house::{WAY, code, size_of_protocol, way};
use super::tools::tests_of;
use super::{Figure, Line};
use crate::circles;
use crate::error::Result;
use crate::layers::PROTOCOL;
use crate::{exec, guards};

/// Files that use each other in a circle, at most.
const LARGEST_CIRCLE: usize = 6;

/// Lines of the test of a link alone stay below this.
const LINES_OF_TEST: usize = 150;

pub(super) const LINES: &[Line] = &[
    Line {
        name: "size",
        must: "link, channels and engine together have at most 26,000 lines, none more than 12,000",
        run: |_| {
            let sizes: Result<Vec<usize>> = PROTOCOL
                .iter()
                .map(|name| code(&format!("crates/{name}/src")))
                .collect();
            let most = sizes?.into_iter().max().unwrap_or_default();
            let (all, text) = size_of_protocol()?;
            Ok(Figure::new(all <= 26_000 && most <= 12_000, text))
        },
    },
    Line {
        name: "circles",
        must: "at most 6 files of a crate use each other in a circle",
        run: |_| circles_of_all(),
    },
    Line {
        name: "way",
        must: WAY,
        run: |_| way(),
    },
    Line {
        name: "link-alone",
        must: "a test below 150 lines: two links over a lossy pipe carry numbers",
        run: |_| link_alone(),
    },
    Line {
        name: "guards",
        must: "the figures of docs/costs.md hold",
        run: |_| guards::check(false).map(|()| Figure::new(true, "as docs/costs.md has them")),
    },
];

fn circles_of_all() -> Result<Figure> {
    let mut said = Vec::new();
    let mut most = 0;
    for name in PROTOCOL {
        let src = exec::root().join(format!("crates/{name}/src"));
        let circle = circles::largest(&src)?;
        most = most.max(circle.len());
        let files = circle
            .iter()
            .filter_map(|path| path.strip_prefix(&src).ok());
        let files: Vec<String> = files
            .take(12)
            .map(|path| path.display().to_string())
            .collect();
        said.push(format!("{name} {} ({})", circle.len(), files.join(", ")));
    }
    Ok(Figure::new(most <= LARGEST_CIRCLE, said.join("; ")))
}

fn link_alone() -> Result<Figure> {
    let test = exec::root().join("crates/suci-link/tests/lossy_pipe.rs");
    let lines = std::fs::read_to_string(&test)?.lines().count();
    let ran = tests_of("suci-link", "numbers_arrive_over_a_pipe", &[])?;
    let text = format!("{lines} lines, {}", ran.text);
    Ok(Figure::new(ran.holds && lines < LINES_OF_TEST, text))
}
