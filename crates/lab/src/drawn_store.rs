//! Stores whose behaviour is drawn from a seed, as [`DrawnOrigin`](crate::DrawnOrigin)s are.

use crate::draw::Draw;
use crate::object_store::{ObjectStore, StoreFault, StoreRequest};

/// What a store does instead of what is right. A client can notice each.
const FAULTS: [StoreFault; 16] = [
    StoreFault::Error(400, "RequestTimeout"),
    StoreFault::Error(403, "AccessDenied"),
    StoreFault::Error(404, "NoSuchUpload"),
    StoreFault::Error(409, "OperationAborted"),
    StoreFault::Error(412, "PreconditionFailed"),
    StoreFault::Error(429, "TooManyRequests"),
    StoreFault::Error(500, "InternalError"),
    StoreFault::Error(503, "SlowDown"),
    StoreFault::Error(501, "NotImplemented"),
    StoreFault::Reset,
    StoreFault::LostResponse,
    StoreFault::CutHead,
    StoreFault::CutBody,
    StoreFault::ErrorIn200("InternalError"),
    StoreFault::CutDocument,
    StoreFault::OtherChecksum,
];

/// A store with habits and faults.
#[derive(Debug, Clone, Copy)]
pub struct DrawnStore {
    seed: u64,
    /// Faulty responses in a hundred.
    fault_percent: u64,
    /// Parts and keys of a page of a list.
    page_size: usize,
    has_opaque_etags: bool,
    refuses_checksums: bool,
    lists_no_etags: bool,
}

impl DrawnStore {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut draw = Draw::new(seed, u64::MAX);
        Self {
            seed,
            fault_percent: draw.one_of(&[0, 5, 20, 40, 80]),
            page_size: draw.one_of(&[1, 2, 1000, 1000]),
            has_opaque_etags: draw.percent(20),
            refuses_checksums: draw.percent(20),
            lists_no_etags: draw.percent(10),
        }
    }

    pub async fn start(self) -> ObjectStore {
        let store = ObjectStore::start_with(move |request| self.fault(request)).await;
        store.set_page_size(self.page_size);
        if self.has_opaque_etags {
            store.make_etags_opaque();
        }
        if self.refuses_checksums {
            store.refuse_checksums();
        }
        if self.lists_no_etags {
            store.leave_etags_out_of_lists();
        }
        store
    }

    fn fault(self, request: &StoreRequest) -> Option<StoreFault> {
        let mut draw = Draw::new(self.seed, request.number as u64);
        draw.percent(self.fault_percent)
            .then(|| draw.one_of(&FAULTS))
    }
}
