//! Reading the lanes: one blocking pop at a time on a connection of its own, for as many hints as slots are free.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::sync::mpsc;

use crate::connection::{Redis, within};
use crate::error::Failure;
use crate::health::Line;
use crate::hint::Hint;
use crate::intake::{ClosesIntake, Delivery, Intake};
use crate::lanes::Lane;

/// How long one blocking pop waits for a hint.
const BLOCK: Duration = Duration::from_secs(1);
/// The same right after connecting: long enough to learn that Redis answers.
const FIRST_BLOCK: Duration = Duration::from_millis(10);
/// The same while lanes are left out because the slots that are left are not for them: theirs may come free.
const PARTIAL_BLOCK: Duration = Duration::from_millis(50);
/// How long an answer may be late before the connection is given up.
const GRACE: Duration = Duration::from_secs(4);
/// The same once the intake is shut: the pop is waited for only so that what it brings can be put back.
const LAST_CALL: Duration = Duration::from_millis(1_500);

/// What one pop brought: the lane's key, then members with their scores.
type Popped = Option<(String, Vec<(Vec<u8>, f64)>)>;

pub(crate) struct Reader {
    redis: Redis,
    line: Line,
    intake: Intake,
    worker: mpsc::Sender<Delivery>,
    max_batch: usize,
    keys: [String; 3],
    connection: Option<MultiplexedConnection>,
    /// The id Redis gave that connection.
    client_id: i64,
}

/// A connection without a response time-out, and the id Redis gave it.
async fn connect(redis: &Redis) -> Result<(MultiplexedConnection, i64), Failure> {
    let mut connection = redis.connect(None).await?;
    let mut command = redis::cmd("CLIENT");
    command.arg("ID");
    let id = within(GRACE, command.query_async(&mut connection)).await?;
    Ok((connection, id))
}

/// Ends the blocking pop of `client_id`, so that a stop need not wait for its time-out.
async fn unblock(redis: &Redis, client_id: i64) {
    let asked = async {
        let mut connection = redis.connect(Some(LAST_CALL)).await?;
        let mut command = redis::cmd("CLIENT");
        command.arg("UNBLOCK").arg(client_id);
        Ok::<_, Failure>(command.exec_async(&mut connection).await?)
    };
    // If this fails, the pop returns by itself within a second.
    let _ = tokio::time::timeout(LAST_CALL, asked).await;
}

impl Reader {
    pub(crate) fn new(
        redis: Redis,
        line: Line,
        intake: Intake,
        worker: mpsc::Sender<Delivery>,
        max_batch: usize,
    ) -> Self {
        let keys = Lane::ALL.map(|lane| lane.key(&redis));
        Self {
            redis,
            line,
            intake,
            worker,
            max_batch: max_batch.max(1),
            keys,
            connection: None,
            client_id: 0,
        }
    }

    /// Reads until the intake closes, through any failure of Redis.
    pub(crate) async fn run(mut self) {
        let _ends_worker = ClosesIntake(self.intake.clone());
        let intake = self.intake.clone();
        while intake.opened().await {
            let free = tokio::select! {
                free = intake.free_slots() => free,
                () = intake.shut() => continue,
            };
            let failure = match self.connected().await {
                Ok(fresh) => match self.pop(free.min(self.max_batch), fresh).await {
                    Ok(popped) => {
                        self.take(popped).await;
                        continue;
                    }
                    Err(failure) => failure,
                },
                Err(failure) => failure,
            };
            self.connection = None;
            let pause = self.line.failed(&failure);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = intake.closed() => {}
            }
        }
    }

    /// Connects unless connected already; returns whether the connection is new.
    async fn connected(&mut self) -> Result<bool, Failure> {
        if self.connection.is_some() {
            return Ok(false);
        }
        tokio::select! {
            connected = connect(&self.redis) => {
                let (connection, client_id) = connected?;
                (self.connection, self.client_id) = (Some(connection), client_id);
                Ok(true)
            }
            () = self.intake.closed() => Err(Failure::Closed),
        }
    }

    /// Waits for up to `count` hints of the most urgent lane that has any, of those there are slots for.
    async fn pop(&mut self, count: usize, fresh: bool) -> Result<Popped, Failure> {
        let Some(connection) = &mut self.connection else { return Err(Failure::Closed) };
        let lanes = self.intake.open_lanes();
        let block = match fresh {
            true => FIRST_BLOCK,
            false if lanes < self.keys.len() => PARTIAL_BLOCK,
            false => BLOCK,
        };
        let mut command = redis::cmd("BZMPOP");
        command
            .arg(block.as_secs_f64())
            .arg(lanes)
            .arg(&self.keys[..lanes])
            .arg("MIN")
            .arg("COUNT")
            .arg(count);
        let mut answer = std::pin::pin!(within(block + GRACE, command.query_async(connection)));
        let popped = tokio::select! {
            popped = &mut answer => popped,
            () = self.intake.shut() => {
                let last_call = tokio::time::timeout(LAST_CALL, answer);
                match tokio::join!(last_call, unblock(&self.redis, self.client_id)).0 {
                    Ok(popped) => popped,
                    Err(_) => Err(Failure::Stalled { seconds: LAST_CALL.as_secs_f32() }),
                }
            }
        }?;
        self.line.works();
        Ok(popped)
    }

    /// Hands what was popped to the worker, and puts back what it cannot take.
    async fn take(&mut self, popped: Popped) {
        let Some((key, members)) = popped else { return };
        let Some(lane) = Lane::ALL.into_iter().find(|lane| self.keys[lane.index()] == key) else { return };
        let mut rest = Vec::new();
        for (member, score) in members {
            let hint = match Hint::decode(&member) {
                Ok(hint) => hint,
                Err(error) => {
                    let seen = self.intake.counts.undecodable.fetch_add(1, Relaxed) + 1;
                    // Logged ever more rarely: a lane full of garbage must not fill the log.
                    if seen.is_power_of_two() {
                        let member: String = String::from_utf8_lossy(&member).chars().take(120).collect();
                        tracing::warn!(lane = key, member, %error, seen, "dropped a hint");
                    }
                    continue;
                }
            };
            // Hints from inside the process may have taken slots while Redis held the pop, and of the slots that
            // were free not all may be this lane's.
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

    /// Puts hints back where they were, for another worker or a later moment.
    async fn put_back(&mut self, key: &str, rest: &[(f64, Vec<u8>)]) {
        let Some(connection) = &mut self.connection else { return };
        let mut command = redis::cmd("ZADD");
        command.arg(key).arg("NX");
        for (score, member) in rest {
            command.arg(*score).arg(member);
        }
        let counts = &self.intake.counts;
        let count = match within(LAST_CALL, command.exec_async(connection)).await {
            Ok(()) => &counts.given_back,
            Err(failure) => {
                self.connection = None;
                tracing::warn!(hints = rest.len(), error = %failure, "could not put hints back");
                &counts.lost
            }
        };
        count.fetch_add(rest.len() as u64, Relaxed);
    }
}
