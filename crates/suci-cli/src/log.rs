//! The library's log at the terminal.
//!
//! Its warnings are told as sentences, as those of the command itself are, and a command that
//! listens tells of callers that it refuses: they hear why, and so should the person at this end.
//! `RUST_LOG` asks for the whole log instead of the warnings.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt as lines};

use crate::args::Command;
use crate::error::tell;

/// The target of the library's events.
const TARGET: &str = "suci";

/// The name of the event that a caller was refused.
const REFUSES: &str = "refuses";

/// Different sentences that are told, each once: anybody can call.
const SENTENCES: usize = 1_000;

/// Begins to tell what the library logs on behalf of `command`.
pub(crate) fn begin(command: &Command) {
    let whole = std::env::var_os(EnvFilter::DEFAULT_ENV).is_some().then(|| {
        let lines = lines::layer().with_writer(std::io::stderr).with_ansi(false);
        lines.with_filter(EnvFilter::from_default_env())
    });
    let level = match (command.listens(), &whole) {
        (true, _) => LevelFilter::DEBUG,
        (false, None) => LevelFilter::WARN,
        (false, Some(_)) => LevelFilter::OFF,
    };
    let sentences = Sentences {
        command: command.name(),
        warns: whole.is_none(),
        told: Mutex::default(),
    };
    let sentences = sentences.with_filter(Targets::new().with_target(TARGET, level));
    tracing_subscriber::registry()
        .with(whole)
        .with(sentences)
        .init();
}

/// Tells events as sentences.
struct Sentences {
    command: &'static str,
    /// Tells warnings, too.
    warns: bool,
    told: Mutex<BTreeSet<String>>,
}

impl<S: Subscriber> Layer<S> for Sentences {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let about = event.metadata();
        let mut fields = Fields::default();
        let sentence = if about.name() == REFUSES {
            event.record(&mut fields);
            refusal(&fields)
        } else if self.warns && *about.level() <= Level::WARN {
            event.record(&mut fields);
            format!("{}: {}", fields.text("message"), fields.text("error"))
        } else {
            return;
        };
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < SENTENCES && !told.contains(&sentence) {
            tell(format_args!("{}: {sentence}", self.command));
            told.insert(sentence);
        }
    }
}

/// Says who was refused, and why.
fn refusal(fields: &Fields) -> String {
    let (from, reason) = (fields.text("address"), fields.text("reason"));
    let why = match reason {
        "WrongNode" => "it called another command than this",
        "NoSocketCredit" => {
            "the receive buffer has no room for another connection: raise net.core.rmem_max, or wait until others have gone"
        }
        "NoMemory" => "there is no memory for another session",
        "TooManyPeers" => "there are as many callers as may be, or half of that from one address",
        "Unread" => "messages of its earlier sessions wait here",
        _ => fields.text("remedy"),
    };
    format!("refused {from}: {why}")
}

/// The fields of an event, as text.
#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Fields {
    fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}
