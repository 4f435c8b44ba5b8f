//! PMIx, the interface of PRRTE (`prterun`, Open MPI's `mpirun`) and of Slurm (`--mpi=pmix`), by
//! the library `libpmix.so.2`, which is opened at run time: a program needs it only where such a
//! launcher starts it.
//!
//! The types and names are those of the PMIx Standard 4.1, whose layout all releases since 3 share.
//! Each use begins and ends a session with the server: it takes a process that ends within one for
//! a failure. A thread of its own makes the calls, so that a server that does not answer is an
//! error.

use crate::env;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The library's name.
const LIBRARY: &CStr = c"libpmix.so.2";

/// The key under which each process puts its card.
const KEY: &CStr = c"suci.card";
const JOB_SIZE: &CStr = c"pmix.job.size";
const COLLECT: &CStr = c"pmix.collect";
const TIMEOUT: &CStr = c"pmix.timeout";

const SUCCESS: c_int = 0;
/// Stands for all processes of a namespace.
const WILDCARD: u32 = u32::MAX - 1;
/// Values are for processes on all hosts.
const GLOBAL: u8 = 3;

const BOOL: u16 = 1;
const STRING: u16 = 3;
const INT: u16 = 6;
const UINT32: u16 = 14;

const NAMESPACE: usize = 256;
const KEY_LENGTH: usize = 512;

/// Longest card that is read, in bytes.
const LONGEST: usize = 16 << 10;

/// The most processes of the launcher's that are looked for among this one's ancestors.
const ANCESTORS: usize = 16;

/// `pmix_proc_t`
#[repr(C)]
#[derive(Clone, Copy)]
struct PmixProcess {
    namespace: [c_char; NAMESPACE],
    rank: u32,
}

/// `pmix_value_t`, whose union is read and written by [`PmixValue::kind`].
#[repr(C)]
#[derive(Clone, Copy)]
struct PmixValue {
    kind: u16,
    data: Data,
}

/// The union has 24 bytes, aligned as pointers are.
#[repr(C)]
#[derive(Clone, Copy)]
union Data {
    flag: bool,
    integer: c_int,
    uint32: u32,
    string: *const c_char,
    all: [*const c_void; 3],
}

/// `pmix_info_t`
#[repr(C)]
struct Info {
    key: [c_char; KEY_LENGTH],
    flags: u32,
    value: PmixValue,
}

/// As the headers of OpenPMIx 4.2 have them.
const _: () = {
    assert!(size_of::<PmixProcess>() == 260 && offset_of!(PmixProcess, rank) == 256);
    assert!(size_of::<*const c_void>() != 8 || size_of::<PmixValue>() == 32);
    assert!(size_of::<*const c_void>() != 8 || offset_of!(PmixValue, data) == 8);
    assert!(size_of::<*const c_void>() != 8 || size_of::<Info>() == 552);
    assert!(offset_of!(Info, flags) == 512 && offset_of!(Info, value) == 520);
};

type Init = unsafe extern "C" fn(*mut PmixProcess, *const Info, usize) -> c_int;
type Finalize = unsafe extern "C" fn(*const Info, usize) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut PmixValue) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type Fence = unsafe extern "C" fn(*const PmixProcess, usize, *const Info, usize) -> c_int;
type Get = unsafe extern "C" fn(
    *const PmixProcess,
    *const c_char,
    *const Info,
    usize,
    *mut *mut PmixValue,
) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;

/// The functions of the library, which stays open.
#[derive(Clone, Copy)]
struct Library {
    init: Init,
    finalize: Finalize,
    put: Put,
    commit: Commit,
    fence: Fence,
    get: Get,
    error_string: ErrorString,
}

impl Library {
    /// Opens the library: that which the environment names, that which the launcher itself uses, or
    /// that of the system.
    fn open() -> Result<Self, String> {
        if let Some(named) = env::pmix_library().map_err(|error| error.to_string())? {
            let path = CString::new(named.as_str());
            let handle = path.ok().and_then(|path| open(&path));
            return match handle {
                Some(handle) => Self::of(handle),
                None => Err(format!(
                    "{}={named}: this is no library that can be opened{}: name libpmix.so.2, or \
                     unset the variable",
                    env::PMIX_LIBRARY,
                    reason()
                )),
            };
        }
        // The launcher's own fits its server best.
        let beside =
            of_ancestors().and_then(|path| CString::new(path.into_os_string().as_bytes()).ok());
        match beside
            .and_then(|path| open(&path))
            .or_else(|| open(LIBRARY))
        {
            Some(handle) => Self::of(handle),
            None => Err(format!(
                "libpmix.so.2 cannot be opened{}: install it (Debian: libpmix2), or name its path \
                 ({})",
                reason(),
                env::PMIX_LIBRARY
            )),
        }
    }

    fn of(handle: *mut c_void) -> Result<Self, String> {
        // SAFETY: each symbol is the function of that name in the PMIx Standard, whose signature
        // its type has. The library is never closed.
        unsafe {
            Ok(Self {
                init: std::mem::transmute::<*mut c_void, Init>(symbol(handle, c"PMIx_Init")?),
                finalize: std::mem::transmute::<*mut c_void, Finalize>(symbol(
                    handle,
                    c"PMIx_Finalize",
                )?),
                put: std::mem::transmute::<*mut c_void, Put>(symbol(handle, c"PMIx_Put")?),
                commit: std::mem::transmute::<*mut c_void, Commit>(symbol(handle, c"PMIx_Commit")?),
                fence: std::mem::transmute::<*mut c_void, Fence>(symbol(handle, c"PMIx_Fence")?),
                get: std::mem::transmute::<*mut c_void, Get>(symbol(handle, c"PMIx_Get")?),
                error_string: std::mem::transmute::<*mut c_void, ErrorString>(symbol(
                    handle,
                    c"PMIx_Error_string",
                )?),
            })
        }
    }

    fn check(&self, what: &str, status: c_int) -> Result<(), String> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: takes a number, and returns null or a text that lives as long as the library.
        let text = unsafe { (self.error_string)(status).as_ref() };
        // SAFETY: as above.
        let text = text.map(|text| unsafe { CStr::from_ptr(text) }.to_string_lossy());
        let text = text.unwrap_or_default();
        Err(format!(
            "{what} failed: {text} ({status}): look for the launcher's own message"
        ))
    }

    /// Begins a session, runs `work` with the name of this process, and ends the session.
    fn session<T>(
        &self,
        work: impl FnOnce(&PmixProcess) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut own = PmixProcess {
            namespace: [0; NAMESPACE],
            rank: 0,
        };
        // SAFETY: `own` outlives the call; no information is passed.
        let status = unsafe { (self.init)(&raw mut own, std::ptr::null(), 0) };
        self.check("PMIx_Init", status)?;
        let done = work(&own);
        // SAFETY: the session began above; no information is passed.
        let status = unsafe { (self.finalize)(std::ptr::null(), 0) };
        let done = done?;
        self.check("PMIx_Finalize", status)?;
        Ok(done)
    }

    /// The value that a process put, or the server tells of all.
    fn value(&self, of: &PmixProcess, key: &CStr, limit: Duration) -> Result<PmixValue, String> {
        let mut found = std::ptr::null_mut();
        let limit = [timeout(limit)];
        // SAFETY: all pointers outlive the call; the key ends with a zero.
        let status = unsafe {
            (self.get)(
                &raw const *of,
                key.as_ptr(),
                limit.as_ptr(),
                limit.len(),
                &raw mut found,
            )
        };
        self.check("PMIx_Get", status)?;
        // SAFETY: after success it is null or a value, which the library leaves to this process.
        // Its few bytes stay until the process ends: old releases have no function that frees them.
        unsafe { found.as_ref() }
            .copied()
            .ok_or_else(|| "PMIx_Get gave nothing".to_owned())
    }

    fn size(&self, own: &PmixProcess, limit: Duration) -> Result<u32, String> {
        let all = PmixProcess {
            rank: WILDCARD,
            ..*own
        };
        let value = self.value(&all, JOB_SIZE, limit)?;
        match value.kind {
            // SAFETY: the kind says that this part of the union was written.
            UINT32 => Ok(unsafe { value.data.uint32 }),
            other => Err(format!(
                "pmix.job.size is of type {other}, which is no number"
            )),
        }
    }

    fn exchange(
        &self,
        own: &PmixProcess,
        card: &CStr,
        limit: Duration,
    ) -> Result<Vec<String>, String> {
        let size = self.size(own, limit)?;
        let mut value = PmixValue {
            kind: STRING,
            data: string(card),
        };
        // SAFETY: the library copies key and value, which end with a zero.
        let status = unsafe { (self.put)(GLOBAL, KEY.as_ptr(), &raw mut value) };
        self.check("PMIx_Put", status)?;
        // SAFETY: takes nothing.
        self.check("PMIx_Commit", unsafe { (self.commit)() })?;
        let all = PmixProcess {
            rank: WILDCARD,
            ..*own
        };
        let wishes = [collect(), timeout(limit)];
        // SAFETY: all pointers outlive the call.
        let status = unsafe { (self.fence)(&raw const all, 1, wishes.as_ptr(), wishes.len()) };
        self.check("waiting for the other processes (PMIx_Fence)", status)?;
        let card_of = |rank| {
            let process = PmixProcess { rank, ..*own };
            let value = self
                .value(&process, KEY, limit)
                .map_err(|problem| format!("process {rank} of {size} has no node: {problem}"))?;
            text(&value).ok_or_else(|| format!("process {rank} of {size} gave no text"))
        };
        (0..size).map(card_of).collect()
    }
}

/// The text of a value; nothing if it has none, or a longer one than any card.
fn text(value: &PmixValue) -> Option<String> {
    if value.kind != STRING {
        return None;
    }
    // SAFETY: the kind says that this part of the union was written: null or a text that ends with
    // a zero, in memory that is never freed.
    let text = unsafe { value.data.string.as_ref().map(|text| CStr::from_ptr(text)) };
    let text = text.filter(|text| text.count_bytes() <= LONGEST)?;
    Some(text.to_string_lossy().into_owned())
}

/// A union of which all bytes are written.
fn data(write: impl FnOnce(&mut Data)) -> Data {
    let mut data = Data {
        all: [std::ptr::null(); 3],
    };
    write(&mut data);
    data
}

fn string(text: &CStr) -> Data {
    data(|data| data.string = text.as_ptr())
}

fn info(key: &CStr, kind: u16, data: Data) -> Info {
    let mut name = [0; KEY_LENGTH];
    for (to, from) in name.iter_mut().zip(key.to_bytes()) {
        *to = from.cast_signed();
    }
    Info {
        key: name,
        flags: 0,
        value: PmixValue { kind, data },
    }
}

fn collect() -> Info {
    info(COLLECT, BOOL, data(|data| data.flag = true))
}

fn timeout(limit: Duration) -> Info {
    let seconds = c_int::try_from(limit.as_secs().max(1)).unwrap_or(c_int::MAX);
    info(TIMEOUT, INT, data(|data| data.integer = seconds))
}

fn open(path: &CStr) -> Option<*mut c_void> {
    // SAFETY: the path ends with a zero. The library's own initialisation runs, as if the program
    // had been linked with it.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    (!handle.is_null()).then_some(handle)
}

/// Why the last library was not opened.
fn reason() -> String {
    // SAFETY: returns null or a text that lives until this thread's next call of its kind.
    let text = unsafe { libc::dlerror().as_ref().map(|text| CStr::from_ptr(text)) };
    text.map(|text| format!(" ({})", text.to_string_lossy()))
        .unwrap_or_default()
}

fn symbol(handle: *mut c_void, name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: the handle is of an open library; the name ends with a zero.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    match found.is_null() {
        false => Ok(found),
        true => Err(format!(
            "libpmix.so.2 has no {}: install OpenPMIx 3 or later, or name its path ({})",
            name.to_string_lossy(),
            env::PMIX_LIBRARY
        )),
    }
}

/// The library that the launcher has open, an ancestor of this process and of the same user: the
/// wheel of Open MPI and spack's packages keep it where the system does not look.
fn of_ancestors() -> Option<PathBuf> {
    let mut process = std::os::unix::process::parent_id();
    for _ in 0..ANCESTORS {
        if process < 2 {
            return None;
        }
        let maps = std::fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
        if let Some(path) = library_in(&maps) {
            return Some(path);
        }
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // Behind the command, which may have brackets and blanks: the state and the parent.
        process = stat
            .rsplit_once(')')?
            .1
            .split_whitespace()
            .nth(1)?
            .parse()
            .ok()?;
    }
    None
}

/// The path of the library in a list of mappings.
fn library_in(maps: &[u8]) -> Option<PathBuf> {
    let is_library = |line: &&[u8]| {
        let name = line.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        name == LIBRARY.to_bytes() || name.starts_with(b"libpmix.so.2.")
    };
    let line = maps.split(|byte| *byte == b'\n').find(is_library)?;
    let begin = line.iter().position(|byte| *byte == b'/')?;
    Some(PathBuf::from(OsStr::from_bytes(line.get(begin..)?)))
}

/// Runs `work` on a thread of its own, for at most `limit`. If it does not end by then, the thread
/// stays until it does.
fn bounded<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce(&Library) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    /// Sessions of two threads would share the library's state.
    static ONE: Mutex<()> = Mutex::new(());
    let (told, done) = channel();
    let thread = std::thread::Builder::new().name("suci-pmix".into());
    let work = move || {
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        // The other end may have given up.
        let _ = told.send(Library::open().and_then(|library| work(&library)));
    };
    thread
        .spawn(work)
        .map_err(|error| format!("starting a thread: {error}"))?;
    // The library has the same limit, and a better message.
    done.recv_timeout(limit + Duration::from_secs(5)).unwrap_or_else(|error| {
        Err(match error {
            RecvTimeoutError::Timeout => format!(
                "the launcher did not answer: see whether all processes run and come to open their \
                 node, or allow more seconds ({})",
                env::LAUNCH_TIMEOUT
            ),
            RecvTimeoutError::Disconnected => "the library's thread failed".to_owned(),
        })
    })
}

/// The number of processes. `rank` is this one's. Remember it: each call is a session.
pub(super) fn size(rank: u32, limit: Duration) -> Result<u32, String> {
    let size = bounded(limit, move |library| {
        library.session(|own| library.size(own, limit))
    })?;
    match rank < size {
        true => Ok(size),
        false => Err(format!("PMIX_RANK={rank}: the job has {size} processes")),
    }
}

/// Puts this process's `card`, waits for all processes, and gets the cards of all, by rank.
pub(super) fn exchange(rank: u32, card: &str, limit: Duration) -> Result<Vec<String>, String> {
    let card = CString::new(card).map_err(|error| error.to_string())?;
    bounded(limit, move |library| {
        library.session(|own| match own.rank == rank {
            true => library.exchange(own, &card, limit),
            false => Err(format!(
                "PMIX_RANK={rank}: the launcher calls it {}",
                own.rank
            )),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launchers_library_is_found_in_its_mappings() {
        let maps = b"7f00-7f01 r--p 00000000 08:01 12 /usr/lib/libc.so.6\n\
            7f02-7f03 r--p 00000000 08:01 13   /opt/with blank/lib/libpmix.so.2.13.3\n";
        let path = library_in(maps).unwrap();
        assert_eq!(path, PathBuf::from("/opt/with blank/lib/libpmix.so.2.13.3"));
        for none in [
            &b""[..],
            b"\n",
            b"7f00-7f01 r--p 0 0:0 0\n",
            b"7 /lib/libpmix.so.1\n",
        ] {
            assert_eq!(library_in(none), None);
        }
    }

    #[test]
    fn only_short_texts_are_read() {
        let value = |kind, data| PmixValue { kind, data };
        let long = CString::new("x".repeat(LONGEST + 1)).unwrap();
        assert_eq!(
            text(&value(STRING, string(c"card"))),
            Some("card".to_owned())
        );
        assert_eq!(text(&value(STRING, string(&long))), None);
        assert_eq!(text(&value(STRING, data(|_| {}))), None);
        assert_eq!(text(&value(UINT32, data(|data| data.uint32 = 7))), None);
    }

    #[test]
    fn work_that_does_not_end_is_an_error() {
        let symbol = symbol(open(c"libc.so.6").unwrap(), c"PMIx_Init").unwrap_err();
        assert!(
            symbol.starts_with("libpmix.so.2 has no PMIx_Init: install"),
            "{symbol}"
        );
    }
}
