//! The extension module of the Python package `suci` (docs/python.md).
//!
//! | part | what it does |
//! |---|---|
//! | `node` | `suci.Node`: blocking calls |
//! | `operation` | the operations that `suci.aio.Node` awaits |
//! | `peer` | one peer of a node |
//! | `group` | groups and their collective operations |
//! | `message` | received messages, and arguments of calls that send |
//! | `buffer` | memory shared with Python, without a copy |
//! | `wait` | waits without the interpreter, ended by signals |
//! | `arguments`, `settings` | checks of what the program says |
//! | `event`, `names`, `stats` | what the library says, as dataclasses of `suci._events` |
//! | `error` | its errors, as exceptions of `suci._errors` |
//!
//! The threads of a node never enter the interpreter: they run no Python code, and take no lock
//! that a thread holds which waits for one of them.

mod arguments;
mod buffer;
mod error;
mod event;
mod group;
mod message;
mod names;
mod node;
mod operation;
mod peer;
mod settings;
mod stats;
mod wait;

use error::OrRaise;
use pyo3::prelude::*;

/// This process's node ID, if `suci run` started it; else None.
#[pyfunction]
fn env_id(py: Python<'_>) -> PyResult<Option<u32>> {
    Ok(suci::env::id().or_raise(py)?.map(|id| id.0))
}

/// How many processes `suci run` started, if it started this one; else None.
#[pyfunction]
fn env_size(py: Python<'_>) -> PyResult<Option<u32>> {
    suci::env::size().or_raise(py)
}

/// Checks a time limit in seconds; for suci.aio.
#[pyfunction]
fn seconds(timeout: &Bound<'_, PyAny>) -> PyResult<f64> {
    let limit = arguments::timeout(Some(timeout))?;
    Ok(limit.unwrap_or(arguments::FOREVER).as_secs_f64())
}

#[pymodule(gil_used = false)]
fn _suci(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<node::Node>()?;
    module.add_class::<peer::Peer>()?;
    module.add_class::<group::Group>()?;
    module.add_class::<message::Message>()?;
    module.add_class::<operation::Operations>()?;
    module.add_class::<operation::Operation>()?;
    module.add_function(wrap_pyfunction!(env_id, module)?)?;
    module.add_function(wrap_pyfunction!(env_size, module)?)?;
    module.add_function(wrap_pyfunction!(seconds, module)?)?;
    // A node is closed before the interpreter ends: afterwards its threads must not ask for
    // anything.
    let close_all = wrap_pyfunction!(node::close_all, module)?;
    module
        .py()
        .import("atexit")?
        .call_method1("register", (close_all,))?;
    Ok(())
}
