//! Bytes that Python reads where they are.
#![expect(
    unsafe_code,
    reason = "the buffer protocol hands pointers over: Arrow shall have gigabytes of bodies without a copy of them"
)]

use std::ffi::c_int;

use bytes::Bytes;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::growing_buffer::GrowingBuffer;

/// Bytes that do not change any more, for `memoryview` and `pyarrow.py_buffer`.
#[pyclass(frozen, module = "haul._haul")]
pub(crate) struct ColumnBuffer {
    bytes: Bytes,
}

impl ColumnBuffer {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes: bytes.into(),
        }
    }

    pub(crate) fn from_owner(owner: GrowingBuffer) -> Self {
        Self {
            bytes: Bytes::from_owner(owner),
        }
    }
}

#[pymethods]
impl ColumnBuffer {
    /// Lends the bytes, read-only, as the buffer protocol has it.
    ///
    /// # Safety
    /// `view` is one that the interpreter wants filled.
    unsafe fn __getbuffer__(
        buffer: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = &buffer.get().bytes;
        let length = isize::try_from(bytes.len()).map_err(PyBufferError::new_err)?;
        let start = bytes.as_ptr().cast_mut().cast();
        // SAFETY: the view holds a reference to this object, which is frozen: its bytes neither move nor change as long as the view is there.
        // Nobody writes through it, since it is said to be read-only.
        match unsafe { ffi::PyBuffer_FillInfo(view, buffer.as_ptr(), start, length, 1, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(buffer.py())),
        }
    }
}
