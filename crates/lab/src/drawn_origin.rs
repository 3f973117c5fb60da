//! Origins whose behaviour is drawn from a seed.
//!
//! Most tests are about what somebody met. These origins do what nobody may have met yet: each has habits, and each of its responses may have
//! a fault. What they do is always something that a client can notice. So a client that ends with success has one whole version of the file,
//! however it got there.

use std::time::Duration;

use crate::content::ResourceContent;
use crate::draw::Draw;
use crate::http2::{Http2Request, StreamAction};
use crate::origin::{
    OriginResource, OriginResponse, OriginResponseBody, OriginResponseFraming, RecordedRequest,
    RequestMatcher, faults,
};

/// Lengths of files: empty, of one segment, of several, and those around a power of two.
const LENGTHS: [u64; 8] = [0, 1, 1000, 65_535, 65_536, 300_000, 1 << 20, 1_300_007];

/// An origin of one file.
#[derive(Debug, Clone)]
pub struct DrawnOrigin {
    seed: u64,
    /// The versions of the file. Each is replaced by the next one.
    pub versions: Vec<ResourceContent>,
    /// After how many requests each version is replaced.
    replaced_after: Vec<usize>,
    /// How it tells versions apart.
    pub validators: DrawnValidators,
    /// What it does to each response.
    habit: Option<DrawnHabit>,
    /// Faulty responses in a hundred.
    fault_percent: u64,
    /// What its clock says, where it is wrong.
    clock: Option<&'static str>,
}

/// Times that a wrong clock says: before the epoch of all versions, after everything, never, and no time.
const WRONG_CLOCKS: [&str; 4] = [
    "Mon, 01 Jan 2001 00:00:00 GMT",
    "Fri, 01 Jan 2100 00:00:00 GMT",
    "Sun, 31 Feb 2024 25:61:00 GMT",
    "yesterday",
];

/// What the text of a refusal says of the time until the next request.
const WAITS: [Option<&str>; 9] = [
    None,
    Some("0"),
    Some("0"),
    Some("1"),
    Some("-1"),
    Some("soon"),
    Some("99999999999999999999999999"),
    Some("Mon, 01 Jan 2001 00:00:00 GMT"),
    Some("Fri, 01 Jan 2100 00:00:00 GMT"),
];

/// How an origin tells versions apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrawnValidators {
    /// By nothing.
    None,
    /// By a strong entity tag.
    Strong,
    /// By a weak entity tag.
    Weak,
    Date,
    /// By a strong entity tag and a date.
    StrongAndDate,
    /// By a strong entity tag that each of two nodes makes in its own way.
    OfNode,
}

/// What an origin does to each response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DrawnHabit {
    IgnoresRanges,
    IgnoresIfRange,
    HidesTotal,
    Chunked,
    Http10,
    LowerCaseNames,
    Compresses,
    RefusesSeveral,
    SendsDigest,
    SendsMultipart,
}

/// A fault of one response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DrawnFault {
    Status(u16),
    RetryLater(u16),
    Reset,
    CutByReset,
    CutByClose,
    Stall,
    Slow,
    Late,
    OverstatedLength,
    ExtraBytes,
    OtherRange,
    NoContentRange,
    IgnoredRange,
    WrongDigest,
    Page,
}

const FAULTS: [DrawnFault; 23] = [
    DrawnFault::Status(400),
    DrawnFault::Status(403),
    DrawnFault::Status(404),
    DrawnFault::Status(408),
    DrawnFault::Status(416),
    DrawnFault::Status(500),
    DrawnFault::Status(502),
    DrawnFault::Status(504),
    DrawnFault::RetryLater(429),
    DrawnFault::RetryLater(503),
    DrawnFault::Reset,
    DrawnFault::CutByReset,
    DrawnFault::CutByClose,
    DrawnFault::Stall,
    DrawnFault::Slow,
    DrawnFault::Late,
    DrawnFault::OverstatedLength,
    DrawnFault::ExtraBytes,
    DrawnFault::OtherRange,
    DrawnFault::NoContentRange,
    DrawnFault::IgnoredRange,
    DrawnFault::WrongDigest,
    DrawnFault::Page,
];

const HABITS: [DrawnHabit; 10] = [
    DrawnHabit::IgnoresRanges,
    DrawnHabit::IgnoresIfRange,
    DrawnHabit::HidesTotal,
    DrawnHabit::Chunked,
    DrawnHabit::Http10,
    DrawnHabit::LowerCaseNames,
    DrawnHabit::Compresses,
    DrawnHabit::RefusesSeveral,
    DrawnHabit::SendsDigest,
    DrawnHabit::SendsMultipart,
];

impl DrawnOrigin {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut draw = Draw::new(seed, u64::MAX);
        let count = draw.one_of(&[1, 1, 1, 2, 3]);
        let mut replaced_after: Vec<_> = (1..count)
            .map(|_| usize::try_from(1 + draw.below(8)).unwrap_or(1))
            .collect();
        replaced_after.sort_unstable();
        let length = draw.one_of(&LENGTHS);
        let same_length = draw.percent(50);
        let versions = (0..count).map(|number| {
            let length = if same_length || number == 0 {
                length
            } else {
                draw.one_of(&LENGTHS)
            };
            ResourceContent::random(seed.wrapping_mul(8).wrapping_add(number), length)
        });
        Self {
            seed,
            versions: versions.collect(),
            replaced_after,
            validators: draw.one_of(&[
                DrawnValidators::None,
                DrawnValidators::Strong,
                DrawnValidators::Strong,
                DrawnValidators::Weak,
                DrawnValidators::Date,
                DrawnValidators::StrongAndDate,
                DrawnValidators::OfNode,
            ]),
            habit: draw.percent(50).then(|| draw.one_of(&HABITS)),
            fault_percent: draw.one_of(&[0, 5, 20, 40, 80]),
            clock: {
                let mut draw = Draw::new(seed, u64::MAX - 1);
                draw.percent(20).then(|| draw.one_of(&WRONG_CLOCKS))
            },
        }
    }

    /// What it serves.
    #[must_use]
    pub fn resource(&self) -> OriginResource {
        let drawn = self.clone();
        OriginResource::without_validator(self.versions[0].clone()).rule(
            RequestMatcher::always(),
            move |request, response| {
                drawn.respond(request, response);
            },
        )
    }

    /// Its last version, without habits and faults.
    #[must_use]
    pub fn honest_resource(&self) -> OriginResource {
        self.version(self.versions.len() - 1, 0)
    }

    /// What it does with a request over HTTP/2, which is the `number`th for its file.
    #[must_use]
    pub fn http2_action(&self, request: &Http2Request, number: usize) -> StreamAction {
        let recorded = recorded_request(request, number);
        let mut response = OriginResponse::empty(500);
        self.respond(&recorded, &mut response);
        if Draw::new(self.seed, (1 << 44) + number as u64).percent(self.fault_percent / 10) {
            StreamAction::AbortConnection(ENHANCE_YOUR_CALM)
        } else {
            http2_action(response)
        }
    }

    /// What it does when it works again, and has its last version.
    #[must_use]
    pub fn honest_http2_action(&self, request: &Http2Request) -> StreamAction {
        let recorded = recorded_request(request, 0);
        http2_action(OriginResponse::conforming(
            &recorded,
            &self.honest_resource(),
        ))
    }

    fn version(&self, number: usize, node: usize) -> OriginResource {
        let resource = OriginResource::without_validator(self.versions[number].clone());
        let tag = format!("\"v{number}\"");
        let date = format!("Mon, 0{} Jan 2024 10:00:00 GMT", number + 1);
        match self.validators {
            DrawnValidators::None => resource,
            DrawnValidators::Strong => resource.etag(&tag),
            DrawnValidators::Weak => resource.etag(&format!("W/{tag}")),
            DrawnValidators::Date => resource.last_modified(&date),
            DrawnValidators::StrongAndDate => resource.etag(&tag).last_modified(&date),
            DrawnValidators::OfNode => resource.etag(&format!("\"v{number}-{node}\"")),
        }
    }

    fn respond(&self, request: &RecordedRequest, response: &mut OriginResponse) {
        let replaced = |after: &&usize| request.number_for_path >= **after;
        let number = self.replaced_after.iter().filter(replaced).count();
        let resource = self.version(number, request.connection % 2);
        *response = OriginResponse::conforming(request, &resource);
        if let Some(time) = self.clock {
            response.set_header("Date", time);
        }
        if let Some(habit) = self.habit {
            apply_habit(habit, request, response);
        }
        let mut draw = Draw::new(self.seed, request.number_for_path as u64);
        if draw.percent(self.fault_percent) {
            let fault = draw.one_of(&FAULTS);
            apply_fault(fault, &mut draw, request, response);
        }
    }
}

fn apply_habit(habit: DrawnHabit, request: &RecordedRequest, response: &mut OriginResponse) {
    match habit {
        DrawnHabit::IgnoresRanges => faults::ignore_range(request, response),
        DrawnHabit::IgnoresIfRange => faults::if_range_never_matches(request, response),
        DrawnHabit::HidesTotal => faults::content_range_from(|range, _| {
            format!("bytes {}-{}/*", range.start, range.end - 1)
        })(request, response),
        DrawnHabit::Chunked => faults::chunked(request, response),
        DrawnHabit::Http10 => faults::http10(request, response),
        DrawnHabit::LowerCaseNames => faults::lower_case_names(request, response),
        DrawnHabit::Compresses if response.status < 300 => faults::gzip(request, response),
        DrawnHabit::RefusesSeveral if request.active_requests > 2 => {
            faults::status(503)(request, response);
        }
        DrawnHabit::SendsDigest if response.status < 300 => {
            faults::right_digest(faults::DigestHeader::Repr)(request, response);
        }
        DrawnHabit::SendsMultipart => faults::multipart_byteranges(request, response),
        DrawnHabit::Compresses | DrawnHabit::RefusesSeveral | DrawnHabit::SendsDigest => {}
    }
}

/// Applies a fault. One that nobody could notice in this response is left out: a body whose end nothing marks may be cut, and what comes
/// whole may be longer.
fn apply_fault(
    fault: DrawnFault,
    draw: &mut Draw,
    request: &RecordedRequest,
    response: &mut OriginResponse,
) {
    let is_part = response.status == 206;
    let has_end = is_part || response.framing != OriginResponseFraming::CloseDelimited;
    let has_content = matches!(response.body, OriginResponseBody::Slice(..));
    let at = draw.below(response.body.length().max(1));
    match fault {
        DrawnFault::Status(status) => faults::status(status)(request, response),
        DrawnFault::RetryLater(status) => {
            faults::overloaded(status, draw.one_of(&WAITS))(request, response);
        }
        DrawnFault::Reset => faults::reset_connection(request, response),
        DrawnFault::CutByReset => faults::reset_after(at)(request, response),
        DrawnFault::CutByClose if has_end => faults::close_after(at)(request, response),
        DrawnFault::Stall => faults::stall_after(at)(request, response),
        DrawnFault::Slow => faults::body_rate(2 << 20)(request, response),
        DrawnFault::Late => {
            let time = Duration::from_millis(draw.below(60));
            faults::delay_response(time)(request, response);
        }
        DrawnFault::OverstatedLength
            if response.framing == OriginResponseFraming::ContentLength =>
        {
            faults::overstated_length(1 + draw.below(1000))(request, response);
        }
        DrawnFault::ExtraBytes if is_part => faults::extra_bytes(7)(request, response),
        DrawnFault::OtherRange if is_part => faults::content_range_from(|range, total| {
            format!("bytes {}-{}/{total}", range.start + 1, range.end)
        })(request, response),
        DrawnFault::NoContentRange if is_part => faults::no_content_range(request, response),
        DrawnFault::IgnoredRange if has_content => faults::ignore_range(request, response),
        DrawnFault::WrongDigest if response.status < 300 => {
            faults::wrong_digest(faults::DigestHeader::Repr)(request, response);
        }
        // As the first response it would be the file.
        DrawnFault::Page if request.range_start() > 0 => faults::error_page(request, response),
        DrawnFault::CutByClose
        | DrawnFault::IgnoredRange
        | DrawnFault::OverstatedLength
        | DrawnFault::ExtraBytes
        | DrawnFault::OtherRange
        | DrawnFault::NoContentRange
        | DrawnFault::WrongDigest
        | DrawnFault::Page => {}
    }
}

/// HTTP/2's reason for a connection with too many requests.
const ENHANCE_YOUR_CALM: u32 = 11;

fn recorded_request(request: &Http2Request, number: usize) -> RecordedRequest {
    let headers = request.headers.iter();
    RecordedRequest {
        number_for_path: number,
        connection: request.connection,
        active_requests: request.concurrent,
        method: "GET".to_owned(),
        target: request.path.clone(),
        headers: headers
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        ..RecordedRequest::default()
    }
}

/// Header fields that responses of drawn origins have.
const FIELDS: [&str; 11] = [
    "accept-ranges",
    "content-encoding",
    "content-range",
    "content-type",
    "date",
    "etag",
    "last-modified",
    "location",
    "repr-digest",
    "retry-after",
    "vary",
];

/// A response over HTTP/2. A body that is cut has the Content-Length of the whole.
fn http2_action(mut response: OriginResponse) -> StreamAction {
    if response.reset_connection || response.raw_bytes.is_some() {
        return StreamAction::CloseConnection;
    }
    let mut body = response.body.to_vec();
    if response.stall_after.is_some() {
        return StreamAction::Hang(0, body.into());
    }
    let field = |name: &'static str| Some((name, response.header(name)?.to_owned()));
    let mut fields: Vec<_> = FIELDS.into_iter().filter_map(field).collect();
    let length = response.false_length.take().unwrap_or(body.len() as u64);
    fields.push(("content-length", length.to_string()));
    if let Some(cut) = response.cut {
        body.truncate(usize::try_from(cut.offset()).unwrap_or(0));
    }
    StreamAction::RespondWith(response.status, fields, body.into())
}
