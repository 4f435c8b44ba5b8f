//! The screen: a line about all, the table, the waits of the selected peer, the keys.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row as Cells, Table};
use suci::WaitReason;

use super::App;
use super::columns::{self, Column};
use crate::stats_reader::{PeerRow, brief, short};

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);

/// Draws everything into the room there is.
pub(super) fn draw(app: &mut App, frame: &mut Frame<'_>) {
    let lines = [1, 0, 3, 1].map(Constraint::Length);
    let [first, _, third, last] = lines;
    let areas = Layout::vertical([first, Constraint::Min(2), third, last]).areas(frame.area());
    let [summary, table, detail, keys]: [Rect; 4] = areas;
    frame.render_widget(Line::styled(headline(app), BOLD), summary);
    draw_table(app, frame, table);
    let selected = app.selected_row().and_then(|index| app.rows.get(index));
    for (line, at) in details(selected).into_iter().zip(detail.rows()) {
        frame.render_widget(Line::raw(line), at);
    }
    let bottom = match &app.trouble {
        Some(trouble) => Line::styled(trouble.clone(), BOLD),
        None => Line::styled(
            "j/k, arrows: select   s: sort by the next column   m: switch the mode   q: quit",
            DIM,
        ),
    };
    frame.render_widget(bottom, keys);
}

fn headline(app: &App) -> String {
    let sum = |rate: fn(&PeerRow) -> f64| app.rows.iter().map(rate).sum::<f64>();
    format!(
        "suci top: {} nodes, {} peers, {} Mbit/s out, {} in; sorted by {}",
        app.history.nodes(),
        app.history.peers(),
        brief(sum(|row| row.out_rate)),
        brief(sum(|row| row.in_rate)),
        app.key.name(),
    )
}

fn draw_table(app: &mut App, frame: &mut Frame<'_>, area: Rect) {
    if app.rows.is_empty() {
        let line = "no node with peers runs as this user; nodes appear here by themselves";
        frame.render_widget(Line::styled(line, DIM), area);
        return;
    }
    let columns = columns::fitting(area.width);
    let visible = usize::from(area.height.saturating_sub(1));
    let selected = app.selected_row().unwrap_or(0);
    // The window follows the selection, and does not begin further down than it must.
    let lowest = (selected + 1).saturating_sub(visible);
    app.offset = app
        .offset
        .clamp(lowest, selected.max(lowest))
        .min(app.rows.len().saturating_sub(visible).max(lowest));
    let shown = app.rows.iter().enumerate().skip(app.offset).take(visible);
    let rows = shown.map(|(at, row)| {
        let style = if at == selected { CHOSEN } else { Style::new() };
        Cells::new(
            columns
                .iter()
                .map(|column| cell(column, (column.value)(row))),
        )
        .style(style)
    });
    let head = Cells::new(
        columns
            .iter()
            .map(|column| cell(column, column.title.into())),
    )
    .style(BOLD);
    let widths = columns
        .iter()
        .map(|column| Constraint::Length(column.width));
    frame.render_widget(
        Table::new(rows, widths).header(head).column_spacing(1),
        area,
    );
}

fn cell(column: &Column, text: String) -> Cell<'static> {
    let line = Line::raw(text);
    Cell::new(if column.right {
        line.right_aligned()
    } else {
        line
    })
}

/// Returns three lines about the selected peer.
fn details(row: Option<&PeerRow>) -> Vec<String> {
    let Some(row) = row else { return Vec::new() };
    let (stats, traffic) = (&row.stats, &row.stats.traffic);
    let address = stats
        .address
        .map_or_else(|| "nowhere".into(), |at| at.to_string());
    let reasons = WaitReason::ALL
        .into_iter()
        .filter(|&reason| row.share(reason) >= 0.0005);
    let shares =
        reasons.map(|reason| format!("{} {:.1}%", reason.name(), row.share(reason) * 100.0));
    let shares: Vec<_> = shares.collect();
    let waited = match (shares.is_empty(), stats.waiting) {
        (false, _) => shares.join(", "),
        (true, Some(reason)) => format!("{} (now)", reason.name()),
        (true, None) => "nothing".into(),
    };
    vec![
        format!(
            "peer {} of node {} ({}, process {}) at {address}, packets of {} B",
            row.name.peer, row.name.node, row.program, row.name.pid, stats.mtu
        ),
        format!(
            "  rtt {} us, least {}, +-{}; window {}, in flight {}; lost {}, resent {} B, probes {}",
            stats.rtt.as_micros(),
            stats.min_rtt.as_micros(),
            stats.rtt_variance.as_micros(),
            short(stats.congestion_window),
            short(stats.in_flight),
            short(traffic.packets_lost),
            short(traffic.bytes_resent),
            short(traffic.probes),
        ),
        format!("  messages wait for: {waited}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats_reader::tests::snapshot;
    use crate::top::Next;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    use suci::{Mode, NodeId};

    fn app(peers: u32) -> App {
        let mut app = App::new(None);
        app.take(vec![snapshot(7, peers, 10)]);
        app.take(vec![snapshot(7, peers, 12)]);
        app
    }

    /// Returns the lines of a screen of that size, without the blanks at the ends.
    fn screen(app: &mut App, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(app, frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| {
            (0..width)
                .map(|x| buffer[(x, y)].symbol())
                .collect::<String>()
        };
        (0..height).map(|y| line(y).trim_end().to_owned()).collect()
    }

    fn press(app: &mut App, code: KeyCode) -> Next {
        app.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn everything_important_fits_80_by_24() {
        let lines = screen(&mut app(3), 80, 24);
        assert_eq!(
            lines[0],
            "suci top: 1 nodes, 3 peers, 48 Mbit/s out, 0 in; sorted by rate out"
        );
        let words: Vec<_> = lines[1].split_whitespace().collect();
        let titles = "NODE PEER STATE MODE OUT Mb IN Mb RTT us QUEUE WAITS FOR";
        assert_eq!(words.join(" "), titles);
        let words: Vec<_> = lines[2].split_whitespace().collect();
        assert_eq!(
            words.join(" "),
            "7 2 up adapt 24 0 120 12 25% socket_credit"
        );
        assert!(
            lines[4].trim_start().starts_with("7      0 up"),
            "{lines:#?}"
        );
        assert_eq!(lines[5], "");
        assert!(lines[20].starts_with("peer 2 of node 7 (solver, process 7) at 192.0.2.1:7000"));
        assert!(
            lines[21].contains("rtt 120 us, least 80, +-9; window 150k"),
            "{lines:#?}"
        );
        assert_eq!(lines[22], "  messages wait for: socket_credit 25.0%");
        assert!(lines[23].starts_with("j/k, arrows: select") && lines[23].ends_with("q: quit"));
    }

    #[test]
    fn a_wide_screen_shows_more() {
        let lines = screen(&mut app(3), 200, 60);
        for title in [
            "PROGRAM", "PID", "ADDRESS", "OUT/s", "CREDIT", "WINDOW", "FLIGHT", "LOSS%", "RESENT",
        ] {
            assert!(lines[1].contains(title), "no {title} in {}", lines[1]);
        }
        for value in [
            "solver",
            "192.0.2.1:7000",
            "300",
            "711",
            "150k",
            "14720",
            "1.00",
            "1.2M",
        ] {
            assert!(lines[2].contains(value), "no {value} in {}", lines[2]);
        }
        assert_eq!(lines[56].chars().next(), Some('p'), "{lines:#?}");
    }

    /// At any size, drawing does not panic, and columns are dropped rather than cut.
    #[test]
    fn any_size_can_be_drawn() {
        let mut app = app(300);
        for (width, height) in [(1, 1), (10, 3), (40, 10), (80, 6), (120, 30), (1_000, 2)] {
            screen(&mut app, width, height);
        }
        for width in 80..260 {
            let total: u16 = columns::fitting(width)
                .iter()
                .map(|column| column.width + 1)
                .sum();
            assert!(total <= width + 1, "{total} columns on {width}");
        }
        screen(&mut App::new(None), 80, 24);
    }

    #[test]
    fn the_selection_moves_and_stays_on_the_screen() {
        let mut app = app(100);
        let chosen = |app: &mut App| {
            screen(app, 80, 24);
            let selected = app.selected_row().unwrap();
            assert!(
                (app.offset..app.offset + 18).contains(&selected),
                "{selected} from {}",
                app.offset
            );
            app.rows[selected].name.peer
        };
        assert_eq!(chosen(&mut app), NodeId(99), "the busiest first");
        press(&mut app, KeyCode::Down);
        press(&mut app, KeyCode::Char('j'));
        assert_eq!(chosen(&mut app), NodeId(97));
        press(&mut app, KeyCode::End);
        assert_eq!(chosen(&mut app), NodeId(0));
        press(&mut app, KeyCode::Down);
        assert_eq!(chosen(&mut app), NodeId(0));
        press(&mut app, KeyCode::PageUp);
        assert_eq!(chosen(&mut app), NodeId(10));
        press(&mut app, KeyCode::Home);
        press(&mut app, KeyCode::Char('k'));
        assert_eq!(chosen(&mut app), NodeId(99));
        // The selection stays with its peer when the order changes, and moves on when the peer is
        // gone.
        while app.key != columns::Key::Name {
            press(&mut app, KeyCode::Char('s'));
        }
        press(&mut app, KeyCode::Down);
        let before = chosen(&mut app);
        assert_eq!(app.rows[0].name.peer, NodeId(0));
        app.take(vec![snapshot(7, before.0, 13)]);
        assert_eq!(chosen(&mut app), NodeId(0));
        app.take(Vec::new());
        press(&mut app, KeyCode::Down);
        assert_eq!(app.selected_row(), None);
    }

    #[test]
    fn keys_sort_switch_and_quit() {
        let mut app = app(2);
        let mut names = std::collections::BTreeSet::new();
        for _ in 0..7 {
            press(&mut app, KeyCode::Char('s'));
            assert!(names.insert(screen(&mut app, 80, 24)[0].clone()));
        }
        assert_eq!(app.key, columns::Key::Out);
        // There is no file behind this one: nothing is asked, nothing panics.
        assert_eq!(press(&mut app, KeyCode::Char('m')), Next::LookSoon);
        assert!(app.asked.is_empty());
        let mut asked = snapshot(7, 2, 13);
        asked.asked = Some((NodeId(1), Mode::Response));
        app.take(vec![asked]);
        assert!(screen(&mut app, 80, 24)[2].contains(">quick"));
        assert_eq!(press(&mut app, KeyCode::Char('q')), Next::Quit);
        let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(app.press(control), Next::Quit);
    }
}
