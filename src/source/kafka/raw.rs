//! What rdkafka leaves to its raw bindings: one queue for all partitions, apart from the client's own, records taken from it in batches, and
//! the ids of topics.
#![expect(unsafe_code, reason = "rdkafka wraps neither a queue of one's own, nor batches, nor DescribeTopics")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::bindings as sys;
use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::topic_partition_list::TopicPartitionList;

use super::client::Client;
use super::ids;
use crate::error::{Error, Result};

/// A queue that the records and errors of partitions are forwarded to. What the client tells of its own accord does not come here, so it
/// can be heard while no records are taken.
pub(super) struct Queue {
    queue: *mut sys::rd_kafka_queue_t,
    batch: Vec<*mut sys::rd_kafka_message_t>,
    client: Arc<Client>,
}

// SAFETY: librdkafka's queues may be used from any thread; `batch` holds pointers only while `take` runs.
unsafe impl Send for Queue {}

impl Queue {
    /// A new queue; `most` records are taken at once.
    pub(super) fn new(client: Arc<Client>, most: usize) -> Result<Self> {
        // SAFETY: the client lives as long as the queue, which holds it.
        let queue = unsafe { sys::rd_kafka_queue_new(client.client().native_ptr()) };
        if queue.is_null() {
            return Err(Error::internal("librdkafka made no queue"));
        }
        Ok(Queue { queue, batch: vec![ptr::null_mut(); most.max(1)], client })
    }

    /// From now on, and before the partition is assigned, what comes of it comes here.
    pub(super) fn forward(&self, topic: &str, partition: i32) -> Result<()> {
        let name = CString::new(topic).map_err(|e| Error::invalid("a topic name holds a zero byte").at(topic).because(e))?;
        // SAFETY: the client and the name outlive the call; the partition's queue is a reference of ours, given back here.
        unsafe {
            let own = sys::rd_kafka_queue_get_partition(self.client.client().native_ptr(), name.as_ptr(), partition);
            if own.is_null() {
                return Err(Error::internal("librdkafka has no queue for this partition").at(format!("{topic}[{partition}]")));
            }
            sys::rd_kafka_queue_forward(own, self.queue);
            sys::rd_kafka_queue_destroy(own);
        }
        Ok(())
    }

    /// Takes what is there, waiting up to `patience` for a first one. Returns how many came.
    pub(super) fn take(&mut self, patience: Duration, mut each: impl FnMut(Message<'_>)) -> usize {
        let mut count = self.fill(0, self.batch.len(), Duration::ZERO);
        if count == 0 && !patience.is_zero() && self.fill(0, 1, patience) == 1 {
            count = 1 + self.fill(1, self.batch.len() - 1, Duration::ZERO);
        }
        for slot in 0..count {
            let message = self.batch[slot];
            // SAFETY: librdkafka filled this slot; the message is given back right after `each`, which cannot keep what it borrows.
            unsafe {
                each(Message { message, life: PhantomData });
                sys::rd_kafka_message_destroy(message);
            }
        }
        count
    }

    /// librdkafka waits until as many as asked for have come: so one waits for one, or not at all.
    fn fill(&mut self, from: usize, most: usize, patience: Duration) -> usize {
        let Some(slots) = self.batch.get_mut(from..from + most).filter(|slots| !slots.is_empty()) else { return 0 };
        let millis = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the slots have room for so many pointers, and nobody else takes from this queue.
        let count = unsafe { sys::rd_kafka_consume_batch_queue(self.queue, millis, slots.as_mut_ptr(), slots.len()) };
        usize::try_from(count).unwrap_or(0)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: made by `new`, given back once; the client is dropped after it.
        unsafe { sys::rd_kafka_queue_destroy(self.queue) }
    }
}

/// From the next connection on, the brokers are shown these.
pub(super) fn set_credentials(client: &Client, user: &str, password: &str) -> Result<()> {
    let text = |text: &str| {
        CString::new(text).map_err(|_| Error::invalid("`sasl.username` or `sasl.password` holds a zero byte").hint("correct it"))
    };
    let (user, password) = (text(user)?, text(password)?);
    // SAFETY: the client and both texts, which are copied, outlive the call; the error is ours, and given back here.
    unsafe {
        let error = sys::rd_kafka_sasl_set_credentials(client.client().native_ptr(), user.as_ptr(), password.as_ptr());
        if error.is_null() {
            return Ok(());
        }
        sys::rd_kafka_error_destroy(error);
    }
    Err(Error::internal("librdkafka takes no new password"))
}

/// Group offsets on their way, and the answers: rdkafka's own asynchronous commit gives none to a client that takes events.
pub(super) struct Commits {
    queue: *mut sys::rd_kafka_queue_t,
    client: Arc<Client>,
}

// SAFETY: librdkafka's queues may be used from any thread.
unsafe impl Send for Commits {}

impl Commits {
    /// Nothing is on its way.
    pub(super) fn new(client: Arc<Client>) -> Result<Self> {
        // SAFETY: the client lives as long as the queue, which holds it.
        let queue = unsafe { sys::rd_kafka_queue_new(client.client().native_ptr()) };
        if queue.is_null() { Err(Error::internal("librdkafka made no queue")) } else { Ok(Commits { queue, client }) }
    }

    /// Sends these offsets; returns at once.
    pub(super) fn send(&self, offsets: &TopicPartitionList) -> Result<(), RDKafkaErrorCode> {
        // SAFETY: the list is copied by the call; without a callback the answer comes as an event to our queue.
        let code =
            unsafe { sys::rd_kafka_commit_queue(self.client.client().native_ptr(), offsets.ptr(), self.queue, None, ptr::null_mut()) };
        if code == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR { Ok(()) } else { Err(code.into()) }
    }

    /// The next answer, waiting up to `patience` for it.
    pub(super) fn answer(&self, patience: Duration) -> Option<Result<(), RDKafkaErrorCode>> {
        let millis = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the queue is ours, and so is the event, which is given back here.
        let code = unsafe {
            let event = sys::rd_kafka_queue_poll(self.queue, millis);
            if event.is_null() {
                return None;
            }
            let code = sys::rd_kafka_event_error(event);
            sys::rd_kafka_event_destroy(event);
            code
        };
        Some(if code == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR { Ok(()) } else { Err(code.into()) })
    }
}

impl Drop for Commits {
    fn drop(&mut self) {
        // SAFETY: made by `new`, given back once; the client is dropped after it.
        unsafe { sys::rd_kafka_queue_destroy(self.queue) }
    }
}

/// One record, or an error of one partition.
pub(super) struct Message<'a> {
    message: *mut sys::rd_kafka_message_t,
    life: PhantomData<&'a ()>,
}

impl<'a> Message<'a> {
    fn get(&self) -> &'a sys::rd_kafka_message_t {
        // SAFETY: valid while `'a` lasts: see `Queue::take`.
        unsafe { &*self.message }
    }
    /// The same number for two messages in a row means: the same topic.
    pub(super) fn topic_number(&self) -> usize {
        self.get().rkt as usize
    }
    /// The topic's name.
    pub(super) fn topic(&self) -> &'a str {
        let topic = self.get().rkt;
        if topic.is_null() {
            return "";
        }
        // SAFETY: a topic's name lives as long as the topic, which the message holds. Topic names are ASCII.
        unsafe { CStr::from_ptr(sys::rd_kafka_topic_name(topic)) }.to_str().unwrap_or_default()
    }
    /// The partition.
    pub(super) fn partition(&self) -> i32 {
        self.get().partition
    }
    /// The offset of the record; of an error, where the partition stands.
    pub(super) fn offset(&self) -> i64 {
        self.get().offset
    }
    /// An error instead of a record.
    pub(super) fn error(&self) -> Option<RDKafkaErrorCode> {
        let code = self.get().err;
        (code != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR).then(|| code.into())
    }
    /// The value; none: a tombstone. Of an error: what it says.
    pub(super) fn value(&self) -> Option<&'a [u8]> {
        let m = self.get();
        // SAFETY: librdkafka's pointer and length of one buffer, valid as long as the message.
        (!m.payload.is_null()).then(|| unsafe { std::slice::from_raw_parts(m.payload.cast::<u8>(), m.len) })
    }
    /// The key.
    pub(super) fn key(&self) -> Option<&'a [u8]> {
        let m = self.get();
        // SAFETY: as above.
        (!m.key.is_null()).then(|| unsafe { std::slice::from_raw_parts(m.key.cast::<u8>(), m.key_len) })
    }
    /// When it was made or appended, milliseconds since 1970-01-01 UTC; -1: not known.
    pub(super) fn timestamp(&self) -> i64 {
        // SAFETY: the message is valid; a null type is allowed.
        unsafe { sys::rd_kafka_message_timestamp(self.message, ptr::null_mut()) }
    }
    /// Its headers, in order; names that are no UTF-8 are mended.
    pub(super) fn headers(&self, mut each: impl FnMut(&str, Option<&[u8]>)) {
        let mut headers = ptr::null_mut();
        // SAFETY: the message is valid and holds its headers; each pointer that is read was set by a call that said it succeeded.
        unsafe {
            if sys::rd_kafka_message_headers(self.message, &mut headers) != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                return;
            }
            for i in 0.. {
                let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
                let found = sys::rd_kafka_header_get_all(headers, i, &mut name, &mut value, &mut size);
                if found != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR || name.is_null() {
                    return;
                }
                let value = (!value.is_null()).then(|| std::slice::from_raw_parts(value.cast::<u8>(), size));
                each(&CStr::from_ptr(name).to_string_lossy(), value);
            }
        }
    }
}

/// Asks the brokers for the ids of topics; an error of one topic is in its place. Waits up to `patience`; none: they did not answer.
pub(super) fn topic_ids(client: &Client, names: &[String], patience: Duration) -> Option<Result<Described, RDKafkaErrorCode>> {
    let names: Vec<CString> = names.iter().filter_map(|name| CString::new(name.as_str()).ok()).collect();
    let mut pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    let millis = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
    let native = client.client().native_ptr();
    // Any broker knows; without this one the controller is asked, which a mock cluster does not have.
    let broker = client.fetch_metadata(names.first().and_then(|name| name.to_str().ok()), patience).ok()?.orig_broker_id();
    // SAFETY: the client and the names outlive these calls. The queue, the options and the collection are ours, and each is given back once;
    // librdkafka holds what it still needs of them. `event` is given back after the last look at what it holds.
    unsafe {
        let queue = sys::rd_kafka_queue_new(native);
        let options = sys::rd_kafka_AdminOptions_new(native, sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS);
        sys::rd_kafka_AdminOptions_set_request_timeout(options, millis, ptr::null_mut(), 0);
        sys::rd_kafka_AdminOptions_set_broker(options, broker, ptr::null_mut(), 0);
        let topics = sys::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len());
        sys::rd_kafka_DescribeTopics(native, topics, options, queue);
        sys::rd_kafka_TopicCollection_destroy(topics);
        sys::rd_kafka_AdminOptions_destroy(options);
        let event = sys::rd_kafka_queue_poll(queue, millis);
        let answer = (!event.is_null()).then(|| described(event));
        if !event.is_null() {
            sys::rd_kafka_event_destroy(event);
        }
        sys::rd_kafka_queue_destroy(queue);
        answer
    }
}

/// Topic -> its id (none: the brokers have none), or why it was not told.
pub(super) type Described = BTreeMap<String, Result<Option<String>, RDKafkaErrorCode>>;

/// What an answer to DescribeTopics says.
///
/// # Safety
/// `event` is one that librdkafka handed out and nobody has given back.
unsafe fn described(event: *mut sys::rd_kafka_event_t) -> Result<Described, RDKafkaErrorCode> {
    const FINE: sys::rd_kafka_resp_err_t = sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;
    let mut all = Described::new();
    // SAFETY: the event lives; what it holds lives as long. Pointers that may be null are looked at first.
    unsafe {
        let error = sys::rd_kafka_event_error(event);
        if error != FINE {
            return Err(error.into());
        }
        let result = sys::rd_kafka_event_DescribeTopics_result(event);
        if result.is_null() {
            return Err(RDKafkaErrorCode::Fail);
        }
        let mut count = 0;
        let topics = sys::rd_kafka_DescribeTopics_result_topics(result, &mut count);
        for i in 0..if topics.is_null() { 0 } else { count } {
            let topic = *topics.add(i);
            let name = CStr::from_ptr(sys::rd_kafka_TopicDescription_name(topic)).to_string_lossy().into_owned();
            let error = sys::rd_kafka_TopicDescription_error(topic);
            let code = if error.is_null() { FINE } else { sys::rd_kafka_error_code(error) };
            let id = sys::rd_kafka_TopicDescription_topic_id(topic);
            let id = || {
                let bits = (sys::rd_kafka_Uuid_most_significant_bits(id), sys::rd_kafka_Uuid_least_significant_bits(id));
                ids::text(bits.0, bits.1)
            };
            all.insert(name, if code == FINE { Ok(id()) } else { Err(code.into()) });
        }
    }
    Ok(all)
}
