//! Arguments of calls, checked once: errors name the argument, its value and the remedy.

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;
use suci::{ChannelId, NodeId};

/// A limit that stands for none, about 31 years.
pub(crate) const FOREVER: Duration = Duration::from_secs(1_000_000_000);

fn shown(value: &Bound<'_, PyAny>) -> String {
    value
        .repr()
        .map_or_else(|_| String::from("?"), |text| text.to_string())
}

/// A whole number from 0 to `most`. `means` says what it is, with its article.
fn number(value: &Bound<'_, PyAny>, what: &str, means: &str, most: u64) -> PyResult<u64> {
    let wrong = || format!("{what} must be {means}, an int from 0 to {most}, not ");
    let index = match value.is_instance_of::<PyBool>() {
        true => None,
        false => value
            .call_method0(pyo3::intern!(value.py(), "__index__"))
            .ok(),
    };
    let Some(index) = index else {
        let name = value.get_type().name()?;
        return Err(PyTypeError::new_err(format!("{}{name}", wrong())));
    };
    match index.extract::<u64>() {
        Ok(number) if number <= most => Ok(number),
        _ => Err(PyOverflowError::new_err(format!(
            "{}{}",
            wrong(),
            shown(value)
        ))),
    }
}

fn small(value: &Bound<'_, PyAny>, what: &str, means: &str, most: u32) -> PyResult<u32> {
    // The bound makes the conversion succeed.
    let number = number(value, what, means, u64::from(most))?;
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

pub(crate) fn node_id(value: &Bound<'_, PyAny>, what: &str) -> PyResult<NodeId> {
    // The usual case without any further call.
    if let Ok(id) = value.extract::<u32>()
        && !value.is_instance_of::<PyBool>()
    {
        return Ok(NodeId(id));
    }
    small(value, what, "a node ID", u32::MAX).map(NodeId)
}

pub(crate) fn channel(value: &Bound<'_, PyAny>, what: &str) -> PyResult<ChannelId> {
    small(value, what, "a channel", ChannelId::LAST_USER.0).map(ChannelId)
}

pub(crate) fn number32(value: &Bound<'_, PyAny>, what: &str) -> PyResult<u32> {
    small(value, what, "a number", u32::MAX)
}

pub(crate) fn word(value: &Bound<'_, PyAny>, what: &str) -> PyResult<u64> {
    number(value, what, "a number", u64::MAX)
}

pub(crate) fn byte(value: &Bound<'_, PyAny>, what: &str) -> PyResult<u8> {
    let number = small(value, what, "a number", u32::from(u8::MAX))?;
    Ok(u8::try_from(number).unwrap_or(u8::MAX))
}

/// A time in seconds.
pub(crate) fn seconds(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Duration> {
    let number = match value.is_instance_of::<PyBool>() {
        true => None,
        false => value.extract::<f64>().ok(),
    };
    let Some(number) = number else {
        let name = value.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "{what} must be a time in seconds (int or float), not {name}"
        )));
    };
    if number.is_nan() || number < 0.0 {
        return Err(PyValueError::new_err(format!(
            "{what} must be a time of 0 seconds or more, not {number}"
        )));
    }
    Ok(Duration::try_from_secs_f64(number)
        .unwrap_or(FOREVER)
        .min(FOREVER))
}

/// A time limit in seconds; none, for no limit.
pub(crate) fn timeout(value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Duration>> {
    let limit = value.map(|value| seconds(value, "timeout"));
    limit.transpose().map_err(|error| {
        let Some(value) = value else { return error };
        match error.is_instance_of::<PyTypeError>(value.py()) {
            true => PyTypeError::new_err(format!(
                "{}; None waits without limit",
                error.value(value.py())
            )),
            false => error,
        }
    })
}

pub(crate) fn text<'py>(value: &Bound<'py, PyAny>, what: &str) -> PyResult<Bound<'py, PyString>> {
    value.cast::<PyString>().cloned().map_err(|_| {
        let name = type_name(value);
        PyTypeError::new_err(format!("{what} must be a str, not {name}"))
    })
}

fn type_name(value: &Bound<'_, PyAny>) -> String {
    let name = value.get_type().name();
    name.map_or_else(|_| String::from("?"), |name| name.to_string())
}

pub(crate) fn flag(value: &Bound<'_, PyAny>, what: &str) -> PyResult<bool> {
    let flag = value.extract::<bool>();
    flag.map_err(|_| {
        PyTypeError::new_err(format!(
            "{what} must be True or False, not {}",
            type_name(value)
        ))
    })
}

/// A path: a `str` or anything with `__fspath__`.
pub(crate) fn path(value: &Bound<'_, PyAny>, what: &str) -> PyResult<std::path::PathBuf> {
    let path = value.extract();
    path.map_err(|_| {
        PyTypeError::new_err(format!("{what} must be a path, not {}", type_name(value)))
    })
}

/// An address: `"127.0.0.1:7000"`, `"[::1]:7000"`, or a pair of host and port.
pub(crate) fn address(value: &Bound<'_, PyAny>, what: &str) -> PyResult<SocketAddr> {
    let wrong = |shown: &str| {
        PyValueError::new_err(format!(
            "{what} {shown} is no address: write '127.0.0.1:7000', '[::1]:7000', or (host, port) with a numeric host"
        ))
    };
    if let Ok(text) = value.extract::<String>() {
        return text.parse().map_err(|_| wrong(&shown(value)));
    }
    let Ok((host, port)) = value.extract::<(String, u16)>() else {
        return Err(PyTypeError::new_err(format!(
            "{what} must be an address, such as '127.0.0.1:7000' or ('127.0.0.1', 7000), not {}",
            shown(value)
        )));
    };
    // A numeric host needs no name server, which could block.
    let numeric = host.parse::<std::net::IpAddr>().is_ok() || host.contains('%');
    let mut found = match numeric {
        true => (host.as_str(), port).to_socket_addrs().ok(),
        false => None,
    };
    let first = found.as_mut().and_then(Iterator::next);
    first.ok_or_else(|| wrong(&shown(value)))
}

/// One of several words.
pub(crate) fn choice<T: Copy>(
    value: &Bound<'_, PyAny>,
    what: &str,
    choices: &[(&str, T)],
) -> PyResult<T> {
    let given = text(value, what)?;
    let given = given.to_string_lossy();
    let found = choices.iter().find(|(name, _)| *name == given);
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<_> = choices
            .iter()
            .map(|(name, _)| format!("{name:?}"))
            .collect();
        let names = names.join(", ");
        PyValueError::new_err(format!("{what} must be one of {names}, not {given:?}"))
    })
}
