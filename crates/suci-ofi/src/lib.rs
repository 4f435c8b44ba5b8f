//! A libfabric provider: MPI programs, and others on libfabric, run over Suci without a change.
//!
//! libfabric loads `libsuci-fi.so` from the folders in `FI_PROVIDER_PATH` and calls
//! [`fi_prov_ini`]. docs/mpi.md tells users how.
//!
//! | part | content |
//! |---|---|
//! | `abi` | libfabric's types |
//! | `handle` | the objects that C holds |
//! | `info` | what the provider offers, and what a caller asks for |
//! | `name` | addresses of endpoints |
//! | `fabric`, `domain`, `vector`, `queue`, `counter`, `events`, `endpoint` | the objects |
//! | `transfer` | sends and receives |
//! | `messages` | their functions in C |
//! | `progress` | completions, ends of peers |
//! | `runtime` | libfabric's own functions |
//! | `code` | error codes |

mod abi;
mod code;
mod counter;
mod domain;
mod endpoint;
mod events;
mod fabric;
mod handle;
mod info;
mod messages;
mod name;
mod progress;
mod queue;
mod runtime;
mod transfer;
mod vector;

use abi::Provider;
use std::sync::OnceLock;

/// The provider's own version: 0.1.
const VERSION: u32 = 1;

/// The provider, of which libfabric has one address.
struct Shared(Provider);

// SAFETY: the structure is not changed after it was made, and its name is a constant. libfabric
// alone uses `context`.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// Returns the provider. Null if the process has no libfabric.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *const core::ffi::c_void {
    static PROVIDER: OnceLock<Shared> = OnceLock::new();
    let Some(fi_version) = runtime::version() else {
        return std::ptr::null();
    };
    let provider = PROVIDER.get_or_init(|| {
        Shared(Provider {
            version: VERSION,
            // libfabric refuses providers that are older than what its caller asks for. The
            // structures have the fields of this libfabric, whichever it is.
            fi_version,
            context: [0; 4],
            name: c"suci".as_ptr(),
            getinfo: info::getinfo,
            fabric: fabric::open,
            cleanup,
        })
    });
    (&raw const provider.0).cast()
}

extern "C" fn cleanup() {}
