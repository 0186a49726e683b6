//! Reads the lanes: one blocking pop at a time on its own connection, for at most as many hints as slots are free.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::sync::mpsc;

use crate::connection::Redis;
use crate::error::{Failure, within};
use crate::health::ConnectionMonitor;
use crate::hint::{Hint, Lane};
use crate::intake::{CloseIntakeOnDrop, Delivery, Intake};

/// How long a blocking pop waits for a hint.
const POP_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the first pop on a new connection waits: just long enough to see that Redis answers.
const FIRST_POP_TIMEOUT: Duration = Duration::from_millis(10);
/// How long a pop waits that leaves out lanes without a free slot, because a slot for them may become free.
const PARTIAL_POP_TIMEOUT: Duration = Duration::from_millis(50);
/// How late an answer may be before the connection is dropped.
const RESPONSE_GRACE: Duration = Duration::from_secs(4);
/// How long a pending pop is awaited after the intake was closed, so that its hints can be put back.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(1_500);

/// The result of one pop: the lane's key, and members with their scores.
type Popped = Option<(String, Vec<(Vec<u8>, f64)>)>;

pub(crate) struct Reader {
    redis: Redis,
    monitor: ConnectionMonitor,
    intake: Intake,
    worker: mpsc::Sender<Delivery>,
    max_batch: usize,
    keys: [String; 3],
    connection: Option<MultiplexedConnection>,
    /// The id of the connection in Redis.
    client_id: i64,
    /// [`Redis::moves`] when the connection was opened.
    moves: u64,
    /// Members of lanes that this build could not decode.
    undecodable: u64,
}

/// Opens a connection without a response time limit. Returns it with its id in Redis.
async fn connect(redis: &Redis) -> Result<(MultiplexedConnection, i64), Failure> {
    let mut connection = redis.connect(None).await?;
    let mut command = redis::cmd("CLIENT");
    command.arg("ID");
    let id = within(RESPONSE_GRACE, command.query_async(&mut connection)).await?;
    Ok((connection, id))
}

/// Ends the blocking pop of `client_id`, so that a stop need not wait for its timeout.
async fn unblock(redis: &Redis, client_id: i64) {
    let asked = async {
        let mut connection = redis.connect(Some(SHUTDOWN_GRACE)).await?;
        let mut command = redis::cmd("CLIENT");
        command.arg("UNBLOCK").arg(client_id);
        Ok::<_, Failure>(command.exec_async(&mut connection).await?)
    };
    // If this fails, the pop returns by itself within a second.
    let _ = tokio::time::timeout(SHUTDOWN_GRACE, asked).await;
}

impl Reader {
    pub(crate) fn new(
        redis: Redis,
        monitor: ConnectionMonitor,
        intake: Intake,
        worker: mpsc::Sender<Delivery>,
        max_batch: usize,
    ) -> Self {
        let keys = Lane::ALL.map(|lane| redis.lane(lane));
        Self {
            redis,
            monitor,
            intake,
            worker,
            max_batch: max_batch.max(1),
            keys,
            connection: None,
            client_id: 0,
            moves: 0,
            undecodable: 0,
        }
    }

    /// Reads until the intake closes, and reconnects after any failure of Redis.
    pub(crate) async fn run(mut self) {
        let _close_on_end = CloseIntakeOnDrop(self.intake.clone());
        let intake = self.intake.clone();
        while intake.is_open() {
            let free = tokio::select! {
                free = intake.free_slots() => free,
                () = intake.closed.cancelled() => continue,
            };
            let popped = match self.connected().await {
                Ok(is_new) => self.pop(free.min(self.max_batch), is_new).await,
                Err(failure) => Err(failure),
            };
            match popped {
                Ok(popped) => self.dispatch(popped).await,
                Err(failure) => {
                    self.connection = None;
                    self.monitor.rest(&failure, &intake.closed).await;
                }
            }
        }
    }

    /// Connects if not connected. Returns whether the connection is new.
    async fn connected(&mut self) -> Result<bool, Failure> {
        let moves = self.redis.moves();
        if self.connection.is_some() && self.moves == moves {
            return Ok(false);
        }
        (self.connection, self.moves) = (None, moves);
        tokio::select! {
            connected = connect(&self.redis) => {
                let (connection, client_id) = connected?;
                (self.connection, self.client_id) = (Some(connection), client_id);
                Ok(true)
            }
            () = self.intake.closed.cancelled() => Err(Failure::Closed),
        }
    }

    /// Waits for up to `count` hints of the most urgent lane that has hints and a free slot.
    async fn pop(&mut self, count: usize, is_new: bool) -> Result<Popped, Failure> {
        let Some(connection) = &mut self.connection else { return Err(Failure::Closed) };
        let (lanes, is_partial) = self.intake.open_lanes();
        if lanes.is_empty() {
            tokio::time::sleep(PARTIAL_POP_TIMEOUT).await;
            return Ok(None);
        }
        let block = match is_new {
            true => FIRST_POP_TIMEOUT,
            false if is_partial => PARTIAL_POP_TIMEOUT,
            false => POP_TIMEOUT,
        };
        let keys: Vec<&String> = lanes.iter().map(|lane| &self.keys[*lane as usize]).collect();
        let mut command = redis::cmd("BZMPOP");
        command.arg(block.as_secs_f64()).arg(keys.len()).arg(keys).arg("MIN").arg("COUNT").arg(count);
        let mut answer = std::pin::pin!(within(block + RESPONSE_GRACE, command.query_async(connection)));
        let popped = tokio::select! {
            popped = &mut answer => popped,
            () = self.intake.closed.cancelled() => {
                let grace = within(SHUTDOWN_GRACE, answer);
                tokio::join!(grace, unblock(&self.redis, self.client_id)).0
            }
        }?;
        self.monitor.succeeded();
        Ok(popped)
    }

    /// Delivers popped hints to the worker and puts back those without a free slot.
    async fn dispatch(&mut self, popped: Popped) {
        let Some((key, members)) = popped else { return };
        let Some(lane) = Lane::ALL.into_iter().find(|lane| self.keys[*lane as usize] == key) else { return };
        let mut rest = Vec::new();
        for (member, score) in members {
            let hint = match Hint::decode(&member) {
                Ok(hint) => hint,
                Err(error) => {
                    self.undecodable += 1;
                    let seen = self.undecodable;
                    // Logged at powers of two only: a lane full of garbage must not fill the log.
                    if seen.is_power_of_two() {
                        let member: String = String::from_utf8_lossy(&member).chars().take(120).collect();
                        tracing::warn!(lane = key, member, %error, seen, "dropped a hint");
                    }
                    continue;
                }
            };
            // Local hints may have taken slots during the pop, and not all free slots may be for this lane.
            let slot = if self.intake.is_open() { self.intake.slot_now(lane) } else { None };
            let taken = slot.is_some_and(|slot| self.intake.deliver(hint, slot, &self.worker));
            if !taken {
                rest.push((score, member));
            }
        }
        if !rest.is_empty() {
            self.put_back(&key, &rest).await;
        }
    }

    /// Puts hints back with their old scores, for another worker or a later pop.
    async fn put_back(&mut self, key: &str, rest: &[(f64, Vec<u8>)]) {
        let Some(connection) = &mut self.connection else { return };
        let mut command = redis::cmd("ZADD");
        command.arg(key).arg("NX");
        for (score, member) in rest {
            command.arg(*score).arg(member);
        }
        if let Err(failure) = within(SHUTDOWN_GRACE, command.exec_async(connection)).await {
            self.connection = None;
            tracing::warn!(hints = rest.len(), error = %failure, "could not put hints back");
        }
    }
}
