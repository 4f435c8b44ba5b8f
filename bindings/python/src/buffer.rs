//! Memory that Python and Suci share without a copy.
//!
//! | part | what it is |
//! |---|---|
//! | [`HeldBuffer`] | memory of a Python object, held until Suci releases it |
//! | [`WritableBuffer`] | memory of a Python object that one call fills |
//! | [`payload`] | received bytes, as a `memoryview` |
//!
//! PyO3 offers the buffer protocol from Python 3.11 on, where it became part of the stable ABI.
//! This file declares it itself, because the wheel is for Python 3.9 and newer. That is sound:
//! `Py_buffer` and these functions have had the same layout and meaning since Python 3.0, 3.11
//! froze them, and 3.9 and 3.10 no longer change.
//!
//! The threads of a node never run Python code. A buffer that they release goes on a list, which
//! the interpreter empties between two instructions of the main thread, and each call of this
//! module.

use bytes::Bytes;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi::{self, Py_ssize_t, PyObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyMemoryView, PyType};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use suci::Data;

/// Payloads up to this length are copied: that costs less than to hold and release a buffer.
const COPIED: usize = 4096;

const SIMPLE: c_int = 0;
const WRITABLE: c_int = 0x1;
const FORMAT: c_int = 0x4;
/// A shape without strides: exporters fail if the memory is not C-contiguous.
const SHAPE: c_int = 0x8;

/// `Py_buffer`.
#[repr(C)]
struct View {
    buf: *mut c_void,
    obj: *mut PyObject,
    len: Py_ssize_t,
    itemsize: Py_ssize_t,
    readonly: c_int,
    ndim: c_int,
    format: *mut c_char,
    shape: *mut Py_ssize_t,
    strides: *mut Py_ssize_t,
    suboffsets: *mut Py_ssize_t,
    internal: *mut c_void,
}

unsafe extern "C" {
    fn PyObject_CheckBuffer(object: *mut PyObject) -> c_int;
    fn PyObject_GetBuffer(object: *mut PyObject, view: *mut View, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut View);
    fn PyBuffer_FillInfo(
        view: *mut View,
        object: *mut PyObject,
        buf: *mut c_void,
        len: Py_ssize_t,
        readonly: c_int,
        flags: c_int,
    ) -> c_int;
}

impl View {
    const EMPTY: Self = Self {
        buf: ptr::null_mut(),
        obj: ptr::null_mut(),
        len: 0,
        itemsize: 0,
        readonly: 0,
        ndim: 0,
        format: ptr::null_mut(),
        shape: ptr::null_mut(),
        strides: ptr::null_mut(),
        suboffsets: ptr::null_mut(),
        internal: ptr::null_mut(),
    };

    /// Asks `object` for its memory, which must be contiguous. `what` names it in errors.
    fn of(object: &Bound<'_, PyAny>, what: &str, writable: bool) -> PyResult<Box<Self>> {
        // SAFETY: the object is valid, and the thread is attached to the interpreter.
        if unsafe { PyObject_CheckBuffer(object.as_ptr()) } == 0 {
            return Err(no_buffer(object, what));
        }
        let access = if writable { WRITABLE } else { SIMPLE };
        let view = match Self::ask(object, access | SHAPE | FORMAT) {
            Ok(view) => view,
            // numpy has no format for some types, such as datetime64.
            Err(_) => Self::ask(object, access)
                .map_err(|error| unusable(object, what, writable, error))?,
        };
        if view.has_objects() {
            let mut view = view;
            view.release();
            return Err(PyTypeError::new_err(format!(
                "{what} holds Python objects, which mean nothing to another process: \
                 pickle them (pickle.dumps), or use an array of numbers"
            )));
        }
        Ok(view)
    }

    fn ask(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Box<Self>> {
        // On the heap: `shape` may point into the view itself.
        let mut view = Box::new(Self::EMPTY);
        // SAFETY: the object is valid, the view is writable, and the thread is attached.
        match unsafe { PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) } {
            0 => Ok(view),
            _ => Err(PyErr::fetch(object.py())),
        }
    }

    /// Whether the elements are pointers to objects (`O` in the format, outside of names).
    fn has_objects(&self) -> bool {
        if self.format.is_null() {
            return false;
        }
        // SAFETY: the exporter gave a string that lives as long as the view.
        let format = unsafe { CStr::from_ptr(self.format) };
        let parts = format.to_bytes().split(|&byte| byte == b':');
        parts.step_by(2).any(|part| part.contains(&b'O'))
    }

    fn len(&self) -> usize {
        usize::try_from(self.len).unwrap_or(0)
    }

    fn first(&self) -> NonNull<u8> {
        NonNull::new(self.buf.cast()).unwrap_or(NonNull::dangling())
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the exporter keeps `len` contiguous bytes at `buf` valid until the view is
        // released, which takes `&mut self`. Like every user of the buffer protocol, this module
        // relies on the program not to write there at the same time (docs/python.md says so).
        unsafe { std::slice::from_raw_parts(self.first().as_ptr(), self.len()) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the view was asked for as writable by both callers.
        unsafe { std::slice::from_raw_parts_mut(self.first().as_ptr(), self.len()) }
    }

    /// Gives the memory back. The thread is attached to the interpreter.
    fn release(&mut self) {
        // SAFETY: the view was filled by `PyObject_GetBuffer`. A second release does nothing, since
        // the first one sets `obj` to null.
        unsafe { PyBuffer_Release(self) };
    }
}

fn type_name(object: &Bound<'_, PyAny>) -> String {
    let name = object.get_type().name();
    name.map_or_else(|_| String::from("?"), |name| name.to_string())
}

fn no_buffer(object: &Bound<'_, PyAny>, what: &str) -> PyErr {
    let name = type_name(object);
    let remedy = match name.as_str() {
        "str" => "encode it first, as in text.encode()",
        _ => "pickle it (pickle.dumps), or copy it into bytes",
    };
    PyTypeError::new_err(format!(
        "{what} must have the buffer protocol, as bytes, bytearray, memoryview and numpy arrays do, \
         not {name}: {remedy}"
    ))
}

fn unusable(object: &Bound<'_, PyAny>, what: &str, writable: bool, cause: PyErr) -> PyErr {
    let py = object.py();
    let remedy = match writable {
        true => "pass contiguous, writable memory, such as bytearray or numpy.empty",
        false => "pass contiguous memory, such as bytes(view) or numpy.ascontiguousarray(array)",
    };
    let text = format!(
        "{what} ({}) gives no memory to use: {}; {remedy}",
        type_name(object),
        cause.value(py)
    );
    let error = PyBufferError::new_err(text);
    error.set_cause(py, Some(cause));
    error
}

/// Memory of a Python object. Other threads read it, and the last one releases it.
pub(crate) struct HeldBuffer(NonNull<Held>);

struct Held {
    view: Box<View>,
    next: *mut Self,
}

// SAFETY: `view` is used by shared reference only until the drop, which hands it to the list of
// buffers to be released. There only attached threads take it, each buffer once.
unsafe impl Send for HeldBuffer {}
// SAFETY: as above; reading plain memory from several threads is sound.
unsafe impl Sync for HeldBuffer {}

impl HeldBuffer {
    fn new(view: Box<View>) -> Self {
        let next = ptr::null_mut();
        let held = Box::leak(Box::new(Held { view, next }));
        Self(NonNull::from(held))
    }

    /// Holds memory that Suci reads.
    pub(crate) fn readable(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Self> {
        View::of(object, what, false).map(Self::new)
    }

    /// The format of its elements (`B` if the exporter names none), and their size.
    pub(crate) fn format(&self) -> (String, usize) {
        // SAFETY: the pointer is valid until the drop.
        let view = unsafe { &self.0.as_ref().view };
        if view.format.is_null() {
            return (String::from("B"), 1);
        }
        // SAFETY: the exporter gave a string that lives as long as the view.
        let format = unsafe { CStr::from_ptr(view.format) };
        let size = usize::try_from(view.itemsize).unwrap_or(0).max(1);
        (format.to_string_lossy().into_owned(), size)
    }

    /// Holds memory that Suci fills.
    pub(crate) fn writable(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Self> {
        View::of(object, what, true).map(Self::new)
    }
}

impl AsRef<[u8]> for HeldBuffer {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the pointer is valid until the drop.
        unsafe { self.0.as_ref() }.view.bytes()
    }
}

impl AsMut<[u8]> for HeldBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: the pointer is valid until the drop, and `&mut self` is the only reference. Only
        // `writable` buffers are handed to code that writes.
        unsafe { self.0.as_mut() }.view.bytes_mut()
    }
}

impl Drop for HeldBuffer {
    fn drop(&mut self) {
        let mut head = TO_RELEASE.load(Ordering::Relaxed);
        loop {
            // SAFETY: nobody else has the pointer until the exchange succeeds.
            unsafe { (*self.0.as_ptr()).next = head };
            let new = self.0.as_ptr();
            let (done, failed) = (Ordering::AcqRel, Ordering::Relaxed);
            match TO_RELEASE.compare_exchange_weak(head, new, done, failed) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        if head.is_null() && !IS_EXITING.load(Ordering::Acquire) {
            // SAFETY: any thread may call it, attached or not, while the interpreter runs. Nodes
            // are closed and their threads joined before it ends. If its queue is full, the next
            // call of this module empties the list.
            let _ = unsafe { ffi::Py_AddPendingCall(Some(release_pending), ptr::null_mut()) };
        }
    }
}

/// Buffers that no thread of a node uses any more.
static TO_RELEASE: AtomicPtr<Held> = AtomicPtr::new(ptr::null_mut());

/// The interpreter is about to end.
static IS_EXITING: AtomicBool = AtomicBool::new(false);

/// No thread asks the interpreter for anything from now on.
pub(crate) fn begin_exit() {
    IS_EXITING.store(true, Ordering::Release);
}

/// Gives back the memory that Suci has released.
pub(crate) fn release(_: Python<'_>) {
    if TO_RELEASE.load(Ordering::Relaxed).is_null() {
        return;
    }
    let mut next = TO_RELEASE.swap(ptr::null_mut(), Ordering::AcqRel);
    while !next.is_null() {
        // SAFETY: it came from `Box::leak`, and only this call has taken it from the list.
        let mut held = unsafe { Box::from_raw(next) };
        held.view.release();
        next = held.next;
    }
}

extern "C" fn release_pending(_: *mut c_void) -> c_int {
    // SAFETY: the interpreter makes pending calls on an attached thread.
    release(unsafe { Python::assume_attached() });
    0
}

/// The bytes of a message to be sent. Long ones are held until Suci releases them.
pub(crate) fn outgoing(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Bytes> {
    release(object.py());
    if let Ok(bytes) = object.cast::<PyBytes>() {
        let bytes = bytes.as_bytes();
        if bytes.len() <= COPIED {
            return Ok(Bytes::copy_from_slice(bytes));
        }
    }
    let mut view = View::of(object, what, false)?;
    if view.len() <= COPIED {
        let copy = Bytes::copy_from_slice(view.bytes());
        view.release();
        return Ok(copy);
    }
    Ok(Bytes::from_owner(HeldBuffer::new(view)))
}

/// Memory of a Python object that one call fills.
pub(crate) struct WritableBuffer<'py> {
    view: Box<View>,
    /// It is released on an attached thread.
    _attached: Python<'py>,
}

impl<'py> WritableBuffer<'py> {
    pub(crate) fn new(object: &Bound<'py, PyAny>, what: &str) -> PyResult<Self> {
        Ok(Self {
            view: View::of(object, what, true)?,
            _attached: object.py(),
        })
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        self.view.bytes_mut()
    }
}

impl Drop for WritableBuffer<'_> {
    fn drop(&mut self) {
        self.view.release();
    }
}

/// An object of the type that [`payload_type`] makes.
#[repr(C)]
struct PayloadObject {
    base: PyObject,
    /// A leaked box; null in an object that Python code made.
    data: *mut Data,
}

unsafe extern "C" fn get_payload(object: *mut PyObject, view: *mut View, flags: c_int) -> c_int {
    // SAFETY: the interpreter calls this with an object of the type, which holds its data until its
    // end, and a view to fill. The view holds a reference to the object.
    unsafe {
        let data = (*object.cast::<PayloadObject>()).data;
        let Some(data) = data.as_ref() else {
            (*view).obj = ptr::null_mut();
            ffi::PyErr_SetString(ffi::PyExc_BufferError, c"this payload is empty".as_ptr());
            return -1;
        };
        let len = Py_ssize_t::try_from(data.len()).unwrap_or(Py_ssize_t::MAX);
        let first = data.as_ptr().cast_mut().cast();
        PyBuffer_FillInfo(view, object, first, len, 1, flags)
    }
}

unsafe extern "C" fn drop_payload(object: *mut PyObject) {
    // SAFETY: the interpreter calls this once, with an object of the type that nobody refers to.
    // Its memory came from `PyType_GenericAlloc`, which took a reference to the type.
    unsafe {
        let data = (*object.cast::<PayloadObject>()).data;
        if !data.is_null() {
            drop(Box::from_raw(data));
        }
        let kind = ffi::Py_TYPE(object);
        ffi::PyObject_Free(object.cast());
        ffi::Py_DECREF(kind.cast());
    }
}

/// The type of objects that hold received bytes and have the buffer protocol.
fn payload_type(py: Python<'_>) -> PyResult<&Py<PyType>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    TYPE.get_or_try_init(py, || {
        let dealloc: unsafe extern "C" fn(*mut PyObject) = drop_payload;
        let get: unsafe extern "C" fn(*mut PyObject, *mut View, c_int) -> c_int = get_payload;
        let slot = |slot, pfunc| ffi::PyType_Slot { slot, pfunc };
        /// `Py_bf_getbuffer`.
        const GET_BUFFER: c_int = 1;
        let mut slots = [
            slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
            slot(GET_BUFFER, get as *mut c_void),
            slot(0, ptr::null_mut()),
        ];
        let mut spec = ffi::PyType_Spec {
            name: c"suci.Payload".as_ptr(),
            basicsize: size_of::<PayloadObject>() as c_int,
            itemsize: 0,
            flags: ffi::Py_TPFLAGS_DEFAULT as c_uint,
            slots: slots.as_mut_ptr(),
        };
        // SAFETY: the spec is complete, and the interpreter copies it. The slots have the
        // signatures that the interpreter expects. The result is a new reference to a type.
        unsafe {
            let made = ffi::PyType_FromSpec(&raw mut spec);
            let made = Bound::from_owned_ptr_or_err(py, made)?;
            Ok(made.cast_into_unchecked::<PyType>().unbind())
        }
    })
}

/// Received bytes as a read-only `memoryview`, without a copy.
pub(crate) fn payload<'py>(py: Python<'py>, data: Data) -> PyResult<Bound<'py, PyMemoryView>> {
    let kind = payload_type(py)?.as_ptr().cast();
    // SAFETY: the type is the one made above, so that its objects have the layout of
    // `PayloadObject`. The new object has no other user yet, and owns the box from now on.
    let object = unsafe {
        let object = ffi::PyType_GenericAlloc(kind, 0);
        let object = Bound::from_owned_ptr_or_err(py, object)?;
        (*object.as_ptr().cast::<PayloadObject>()).data = Box::into_raw(Box::new(data));
        object
    };
    PyMemoryView::from(&object)
}
