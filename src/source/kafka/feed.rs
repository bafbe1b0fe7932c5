//! The thread that reads Kafka. It alone owns the consumer; it never waits for the loop without hearing what the client tells.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::client::{self, Client, Context, Purpose};
use super::errors;
use super::options::{KafkaOptions, OnDataLoss};
use super::raw::{self, Commits, Queue};
use super::refusal;
use super::resolve::Lookup;
use super::source::Split;
use super::topics::ANSWER;
use super::waiting::{Limits, Waiting};
use super::{Notice, Notices, ids, loss};
use crate::env::Env;
use crate::error::{Error, Result};
use crate::source::Status;

/// The longest wait for a record, or for room: what the client tells is heard so often.
const TURN: Duration = Duration::from_millis(50);
/// So many records are taken of the client at once.
const BATCH: usize = 1000;
/// How often positions that move without records are looked at.
const TICK: Duration = Duration::from_secs(1);
/// How often trouble that goes on is told.
const TELL: Duration = Duration::from_secs(30);
/// How long the last answer to a commit of group offsets is waited for.
const LAST_COMMIT: Duration = Duration::from_secs(3);

/// What the thread is given.
pub(super) struct FeedStart {
    pub(super) env: Env,
    pub(super) options: Arc<KafkaOptions>,
    pub(super) splits: Vec<Split>,
    pub(super) notices: Notices,
    pub(super) status: Arc<Status>,
}

/// A handle to the thread; ends it when dropped.
pub(super) struct Feed {
    pub(super) waiting: Arc<Waiting>,
    thread: std::thread::JoinHandle<()>,
}

impl Feed {
    /// Starts it: the splits are read from where they stand.
    pub(super) fn start(start: FeedStart) -> Result<Feed> {
        let waiting = Arc::new(Waiting::default());
        let reader = Reader::new(start, waiting.clone())?;
        let thread = spawn("kafka-feed", move || reader.run())?;
        Ok(Feed { waiting, thread })
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.waiting.ask(|state| state.stop = true);
        // What it does after its last word is to close the client, which may wait for brokers that are away: nobody needs to wait for that.
        while !self.thread.is_finished() && !self.waiting.lock().over {
            self.waiting.wait_for_room(TURN);
        }
    }
}

/// A thread of the source; whoever starts it tells it to end. The consumer must be polled while the loop waits for a store, or for a full pipeline,
/// and the ends of partitions are looked at meanwhile. Under simulation there is no Kafka.
pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<std::thread::JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map_err(|e| Error::unavailable("no thread could be started to read Kafka").because(e))
}

struct Reader {
    env: Env,
    options: Arc<KafkaOptions>,
    limits: Limits,
    notices: Notices,
    waiting: Arc<Waiting>,
    queue: Queue,
    client: Arc<Client>,
    context: Context,
    splits: Vec<Reading>,
    /// Topic -> partition -> place in `splits`.
    places: HashMap<String, HashMap<i32, usize>>,
    /// Where the last record came from: number of its topic, partition, place.
    last: (usize, i32, Option<usize>),
    /// Splits whose stop is not reached.
    left: usize,
    bounded: bool,
    commits: Commits,
    commit_out: bool,
    commit_next: Option<Vec<(usize, u64)>>,
    commit_failed: bool,
    trouble_told: Option<Duration>,
    status: Arc<Status>,
    /// Topics that were not there when they were last looked at.
    missing: HashSet<String>,
}

/// A split, as far as this thread is concerned.
struct Reading {
    split: Split,
    name: String,
    next: u64,
    done: bool,
    /// Where librdkafka says that it stands after it handed an error out: one more than the truth.
    phantom: Option<u64>,
    /// Where it stands is not in the partition; nothing comes until that is cleared up.
    astray: bool,
    /// Everything that is there was read, as far as is known.
    at_end: bool,
}

impl Reader {
    fn new(start: FeedStart, waiting: Arc<Waiting>) -> Result<Self> {
        let FeedStart { env, options, splits, notices, status } = start;
        let (client, context) = client::connect(&options, Purpose::Feed { partitions: splits.len() })?;
        let client = Arc::new(client);
        let limits = Limits { waiting: options.memory_bytes / 2, chunk: options.chunk_bytes.max(1), records: options.chunk_records.max(1) };
        let mut reader = Reader {
            queue: Queue::new(client.clone(), BATCH.min(limits.records))?,
            commits: Commits::new(client.clone())?,
            bounded: splits.iter().any(|split| split.stop.is_some()),
            env,
            options,
            limits,
            notices,
            waiting,
            client,
            context,
            splits: Vec::new(),
            places: HashMap::new(),
            last: (0, -1, None),
            left: 0,
            commit_out: false,
            commit_next: None,
            commit_failed: false,
            trouble_told: None,
            status,
            missing: HashSet::new(),
        };
        reader.add(splits)?;
        Ok(reader)
    }

    /// Begins to read these too, each from its place.
    fn add(&mut self, splits: Vec<Split>) -> Result<()> {
        let mut list = TopicPartitionList::with_capacity(splits.len());
        for split in splits {
            let (topic, partition, start) = (split.topic.clone(), split.partition, split.start);
            let place = self.splits.len();
            let done = split.stop.is_some_and(|stop| start >= stop);
            self.places.entry(topic.clone()).or_default().insert(partition, place);
            self.splits.push(Reading { name: split.name(), split, next: start, done, phantom: None, astray: false, at_end: false });
            if done {
                continue;
            }
            self.left += 1;
            self.queue.forward(&topic, partition)?;
            let offset = Offset::Offset(i64::try_from(start).unwrap_or(i64::MAX));
            let added = list.add_partition_offset(&topic, partition, offset);
            added.map_err(|e| errors::of(&e, &self.options, "assigning partitions"))?;
        }
        if list.count() == 0 {
            return Ok(());
        }
        self.client.incremental_assign(&list).map_err(|e| errors::of(&e, &self.options, "assigning partitions"))
    }

    fn run(mut self) {
        if let Err(error) = self.read() {
            self.waiting.lock().failed = Some(error);
            self.waiting.news.notify_one();
            self.only_listen();
        }
        self.last_commit();
        self.waiting.ask(|state| state.over = true);
    }

    fn read(&mut self) -> Result<()> {
        let mut ticked = self.env.monotonic();
        loop {
            if self.listen()? {
                return Ok(());
            }
            if self.bounded && self.left == 0 {
                self.waiting.lock().done = true;
                self.waiting.news.notify_one();
                self.waiting.wait_for_room(TURN);
                continue;
            }
            if self.is_full() {
                self.waiting.wait_for_room(TURN);
            } else {
                self.take()?;
            }
            if self.env.monotonic().saturating_sub(ticked) >= TICK {
                ticked = self.env.monotonic();
                self.tick()?;
            }
        }
    }

    /// Does too much wait to be taken?
    fn is_full(&self) -> bool {
        self.waiting.lock().cost() >= self.limits.waiting
    }

    /// Serves what the client tells and what the loop asks; true: it asks to end.
    fn listen(&mut self) -> Result<bool> {
        while let Some(polled) = self.client.poll(Duration::ZERO) {
            match polled {
                Ok(message) => {
                    use rdkafka::Message as _;
                    let at = format!("{}[{}]@{}", message.topic(), message.partition(), message.offset());
                    return Err(Error::internal("a record came past its queue").at(at));
                }
                Err(error) => tracing::debug!(%error, "kafka"),
            }
        }
        let told = self.context.take();
        if let Some(error) = told.token {
            self.tell(refusal::during_a_run(&error));
        }
        if let Some((error, reason)) = told.trouble {
            self.trouble(&error, reason)?;
        }
        while let Some(answer) = self.commits.answer(Duration::ZERO) {
            self.commit_answered(answer);
        }
        let mut state = self.waiting.lock();
        if let Some(commit) = state.commit.take() {
            self.commit_next = Some(commit);
        }
        let (stop, found) = (state.stop, std::mem::take(&mut state.found));
        state.added.extend(found.iter().cloned()); // the loop knows them before the first chunk of them
        drop(state);
        self.add(found)?;
        self.commit();
        Ok(stop)
    }

    /// After a failure: the error waits for the loop; offsets may still be told.
    fn only_listen(&mut self) {
        while !self.waiting.lock().stop {
            self.waiting.wait_for_room(TURN);
        }
    }

    // ---- records ---------------------------------------------------------------------------------------------------------------------

    fn take(&mut self) -> Result<()> {
        let waiting = self.waiting.clone();
        let (splits, places, last, limits) = (&mut self.splits, &self.places, &mut self.last, &self.limits);
        let context = &self.context;
        let (mut left, mut failed, mut swapped) = (self.left, Vec::new(), None);
        // Held for one batch: short against what the loop does with it.
        let mut state = None;
        self.queue.take(TURN, |message| {
            // Before a record of another topic by this name is taken for one of this.
            for (topic, id) in context.adopted() {
                swapped = swapped.take().or_else(|| other_topic(splits, &topic, &id));
            }
            if swapped.is_some() {
                return;
            }
            let here = (message.topic_number(), message.partition());
            if (last.0, last.1) != here {
                *last = (here.0, here.1, places.get(message.topic()).and_then(|p| p.get(&here.1)).copied());
            }
            let Some(place) = last.2 else { return };
            let reading = &mut splits[place];
            let offset = u64::try_from(message.offset()).unwrap_or(0);
            if reading.done {
                return;
            }
            if message.error().is_some() {
                reading.phantom = Some(offset + 1);
            }
            let state = state.get_or_insert_with(|| waiting.lock());
            match message.error() {
                None if offset < reading.next => {}
                None => {
                    reading.at_end = false;
                    let stop = reading.split.stop.unwrap_or(u64::MAX);
                    reading.next = (offset + 1).min(stop);
                    if offset < stop {
                        state.push(place, &message, offset, limits);
                    } else {
                        state.moved(place, stop, limits);
                    }
                    if reading.next >= stop {
                        (reading.done, left) = (true, left - 1);
                    }
                }
                // All that was there is here: the queue keeps the order. An end below the stop is another thing than the stop.
                Some(RDKafkaErrorCode::PartitionEOF) => {
                    reading.at_end = true;
                    if reading.moved(offset) {
                        state.moved(place, reading.next, limits);
                    }
                    left -= usize::from(reading.done);
                }
                Some(code) => {
                    let text = message.value().map(|t| String::from_utf8_lossy(t).into_owned()).unwrap_or_default();
                    failed.push((place, code, text));
                }
            }
        });
        let some = state.is_some();
        drop(state);
        self.left = left;
        if some {
            self.waiting.news.notify_one();
        }
        if let Some(error) = swapped {
            return Err(error);
        }
        failed.into_iter().try_for_each(|(place, code, text)| self.failed(place, code, &text))
    }

    /// Positions that moved without records: transaction markers, and what was aborted. And what the status says of the end.
    fn tick(&mut self) -> Result<()> {
        let held = self.is_full();
        self.status.update(|all| {
            for reading in &self.splits {
                let Some(status) = all.get_mut(&reading.name) else { continue };
                status.paused = held && !reading.done && !reading.at_end;
                // Whatever the high watermark says: above this a transaction is open, or records are about to come.
                status.readable = reading.at_end.then_some(reading.next);
            }
        });
        let positions = self.client.position().map_err(|e| errors::of(&e, &self.options, "asking for positions"))?;
        self.adopted()?;
        self.still_there()?;
        for place in 0..self.splits.len() {
            if self.splits[place].astray {
                self.out_of_range(place)?;
            }
        }
        for element in positions.elements() {
            let Offset::Offset(offset) = element.offset() else { continue };
            let place = self.places.get(element.topic()).and_then(|p| p.get(&element.partition())).copied();
            let (Some(place), Ok(offset)) = (place, u64::try_from(offset)) else { continue };
            let reading = &mut self.splits[place];
            if !reading.done && !reading.astray && reading.phantom != Some(offset) && reading.moved(offset) {
                self.left -= usize::from(reading.done);
                self.waiting.lock().moved(place, reading.next, &self.limits);
                self.waiting.news.notify_one();
            }
        }
        Ok(())
    }

    // ---- trouble ---------------------------------------------------------------------------------------------------------------------

    /// That a topic is gone the client tells nobody: it waits for another one of that name. Believed when it is said twice in a row.
    fn still_there(&mut self) -> Result<()> {
        let Some(topics) = self.waiting.lock().described.take() else { return Ok(()) };
        for (topic, answer) in topics {
            use RDKafkaErrorCode as Code;
            match answer {
                Ok(id) => {
                    self.missing.remove(&topic);
                    if let Some(error) = id.and_then(|id| other_topic(&self.splits, &topic, &id)) {
                        return Err(error);
                    }
                }
                Err(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownTopicId) => {
                    let reads = self.splits.iter().find(|r| r.split.topic == topic && !r.done);
                    if let Some(r) = reads
                        && !self.missing.insert(topic.clone())
                    {
                        return Err(ids::deleted(&topic, r.split.partition, r.next));
                    }
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// The client follows names. `Data` when a name is that of another topic now.
    fn adopted(&self) -> Result<()> {
        self.context.adopted().iter().find_map(|(topic, id)| other_topic(&self.splits, topic, id)).map_or(Ok(()), Err)
    }

    /// The position is not in the partition any more: was it deleted, or is it another topic, or are brokers not what they were?
    fn out_of_range(&mut self, place: usize) -> Result<()> {
        self.splits[place].astray = true;
        let (split, next) = (self.splits[place].split.clone(), self.splits[place].next);
        let lookup = Lookup { client: &self.client, options: &self.options, patience: ANSWER };
        let bounds = match loss::look(&lookup, &split, next) {
            Ok(bounds) => bounds,
            Err(e) if errors::passes(&e) => return Ok(()), // again at the next tick
            Err(e) => return Err(e),
        };
        let first = loss::judge(&split.topic, split.partition, next, bounds, self.options.on_data_loss == OnDataLoss::Earliest)?;
        let to = first.unwrap_or(next).min(split.stop.unwrap_or(u64::MAX));
        self.assign_again(&split, first.unwrap_or(next))?;
        let reading = &mut self.splits[place];
        (reading.astray, reading.phantom) = (false, None);
        if to > next {
            self.left -= usize::from(reading.moved(to) && reading.done);
            self.waiting.lock().lost(place, [next, to]);
            self.waiting.news.notify_one();
            self.notices.tell(Notice::Lost { topic: split.topic, partition: split.partition, from: next, to });
        }
        Ok(())
    }

    /// Reads a partition from another offset on. After an offset that is not there librdkafka seeks no more: it must be told anew.
    fn assign_again(&mut self, split: &Split, offset: u64) -> Result<()> {
        let failed = |e: &rdkafka::error::KafkaError| errors::of(e, &self.options, "assigning a partition again");
        let mut list = TopicPartitionList::new();
        let offset = Offset::Offset(i64::try_from(offset).unwrap_or(i64::MAX));
        list.add_partition_offset(&split.topic, split.partition, offset).map_err(|e| failed(&e))?;
        self.client.incremental_unassign(&list).map_err(|e| failed(&e))?;
        self.queue.forward(&split.topic, split.partition)?;
        self.client.incremental_assign(&list).map_err(|e| failed(&e))
    }

    /// An error of one partition.
    fn failed(&mut self, place: usize, code: RDKafkaErrorCode, text: &str) -> Result<()> {
        use RDKafkaErrorCode as Code;
        let reading = &self.splits[place];
        match code {
            Code::OffsetOutOfRange | Code::AutoOffsetReset | Code::LogTruncation => return self.out_of_range(place),
            Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition | Code::UnknownTopicId => {
                return Err(ids::deleted(&reading.split.topic, reading.split.partition, reading.next));
            }
            _ => {}
        }
        let at = format!("{}[{}]@{}", reading.split.topic, reading.split.partition, reading.next);
        let error = errors::of_code(code, &self.options, "reading Kafka failed").because(text.to_owned()).at(at);
        if errors::passes(&error) {
            self.tell(error.to_string())
        } else {
            return Err(error);
        }
        Ok(())
    }

    /// An error of the client as a whole.
    fn trouble(&mut self, error: &rdkafka::error::KafkaError, reason: String) -> Result<()> {
        // It was let in at the start, so somebody is changing passwords, certificates or brokers: that passes.
        if let Some((_, refused)) = refusal::of(error, &reason, &self.context.login) {
            self.tell(refusal::during_a_run(&refused));
            return self.log_in_anew();
        }
        let error = errors::of(error, &self.options, "Kafka does not answer; reading goes on when it does").because(reason);
        if errors::passes(&error) {
            self.tell(error.to_string())
        } else {
            return Err(error);
        }
        Ok(())
    }

    /// Takes a password that is in a file from there again.
    fn log_in_anew(&mut self) -> Result<()> {
        if !self.options.property_files.contains_key("sasl.password") {
            return Ok(());
        }
        let texts = self.options.text("sasl.username").and_then(|user| Ok((user, self.options.text("sasl.password")?)));
        match texts {
            Ok((Some(user), Some(password))) => raw::set_credentials(&self.client, &user, &password),
            Ok(_) => Ok(()),
            Err(error) => {
                self.tell(refusal::during_a_run(&error)); // the file is being replaced
                Ok(())
            }
        }
    }

    fn tell(&mut self, text: String) {
        let now = self.env.monotonic();
        if self.trouble_told.is_none_or(|at| now.saturating_sub(at) >= TELL) {
            self.trouble_told = Some(now);
            self.notices.tell(Notice::Trouble(text));
        }
    }

    // ---- group offsets ---------------------------------------------------------------------------------------------------------------

    /// Sends the newest offsets, one commit at a time.
    fn commit(&mut self) {
        if self.commit_out {
            return;
        }
        let Some(offsets) = self.commit_next.take() else { return };
        let mut list = TopicPartitionList::with_capacity(offsets.len());
        for (place, offset) in offsets {
            let Some(reading) = self.splits.get(place) else { continue };
            let offset = Offset::Offset(i64::try_from(offset).unwrap_or(i64::MAX));
            // Only a topic name with a zero byte is refused, and none such was assigned.
            let _ = list.add_partition_offset(&reading.split.topic, reading.split.partition, offset);
        }
        if list.count() == 0 {
            return;
        }
        match self.commits.send(&list) {
            Ok(()) => self.commit_out = true,
            Err(code) => self.commit_answered(Err(code)),
        }
    }

    fn commit_answered(&mut self, answer: Result<(), RDKafkaErrorCode>) {
        self.commit_out = false;
        let failed = answer.is_err();
        if let Err(error) = answer
            && !self.commit_failed
        {
            let group = self.options.group_id();
            self.notices.tell(Notice::Trouble(format!(
                "the offsets of group {group} could not be written ({error}): lag tools show it behind; the pipeline itself needs them not"
            )));
        }
        self.commit_failed = failed;
    }

    fn last_commit(&mut self) {
        let deadline = self.env.deadline(LAST_COMMIT);
        self.commit_next = self.waiting.lock().commit.take().or(self.commit_next.take());
        while (self.commit_out || self.commit_next.is_some()) && self.env.left(deadline).is_some() {
            self.commit();
            if let Some(answer) = self.commits.answer(TURN) {
                self.commit_answered(answer);
            }
            while self.client.poll(Duration::ZERO).is_some() {}
        }
    }
}

/// Is this topic, by this id, another one than that which is read?
fn other_topic(splits: &[Reading], topic: &str, id: &str) -> Option<Error> {
    let read = splits.iter().find(|r| r.split.topic == topic && r.split.id.as_deref().is_some_and(|read| read != id))?;
    Some(ids::recreated(topic, read.split.partition, read.next, read.split.id.as_deref()?, id))
}

impl Reading {
    /// Everything below `offset` has come; true: that is news.
    fn moved(&mut self, offset: u64) -> bool {
        let stop = self.split.stop.unwrap_or(u64::MAX);
        let next = offset.min(stop);
        if next <= self.next {
            return false;
        }
        self.next = next;
        self.done = next >= stop;
        true
    }
}
