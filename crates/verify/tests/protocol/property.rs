//! The properties that must hold in every state.

use stateright::Property;

use crate::database::{Awaited, Holder, Outcome};
use crate::history::{answers_once, is_valid, reads_once};
use crate::protocol::Protocol;
use crate::scenario::Class;
use crate::world::World;

/// R3: a write of a worker that does not hold the lock is not accepted.
pub(crate) const NO_STALE_WRITE: &str = "no stale write";
/// R4: an `effect` executes at most once.
pub(crate) const EFFECT_ONCE: &str = "an effect executes once";
/// A message enters the history at most once.
pub(crate) const READ_ONCE: &str = "a message is read once";
/// R2: a message is answered at most once.
pub(crate) const ANSWERED_ONCE: &str = "a message is answered once";
/// R5: a provider accepts every committed prefix of the history.
pub(crate) const VALID_HISTORY: &str = "the history is valid";
/// A run has one terminal event, and none after it.
pub(crate) const ENDS_ONCE: &str = "a run ends once";
/// While a message is unread, its run is open and the wake flag is set.
pub(crate) const NOT_FORGOTTEN: &str = "an unread message is not forgotten";
/// The end of a run settles the messages it has read.
pub(crate) const END_SETTLES: &str = "the end of a run settles its messages";
/// A cancel settles only messages posted before it.
pub(crate) const CANCEL_TAKES_EARLIER: &str = "a cancel takes only earlier messages";
/// A waiting run holds no lock.
pub(crate) const WAITING_IS_FREE: &str = "a waiting run holds no lock";
/// A waiting run has the wake flag, or what it waits for is still to come and nothing else has arrived.
pub(crate) const WAKE_IS_KEPT: &str = "a wake-up is not lost";
/// No claim takes a lock from a worker whose lease is valid.
pub(crate) const ONE_HOLDER: &str = "a wake-up starts no second holder";
/// R1, R9: a state without further progress has nothing pending and no lock held.
pub(crate) const NOTHING_PENDING_AT_REST: &str = "at rest nothing is pending";
/// R1: once faults stop, every message is answered, visibly failed or cancelled.
pub(crate) const SETTLES: &str = "everything settles";

pub(crate) fn all() -> Vec<Property<Protocol>> {
    vec![
        Property::always(NO_STALE_WRITE, |_, world: &World| !world.stale_write),
        Property::always(EFFECT_ONCE, |protocol: &Protocol, world: &World| {
            let tools = protocol.scenario.tools.iter().enumerate();
            let effects = tools.filter(|(_, class)| **class == Class::Effect);
            let effects = effects.fold(0, |set, (nth, _)| set | 1 << nth);
            world.repeated.iter().all(|repeated| repeated & effects == 0)
        }),
        Property::always(READ_ONCE, |_, world: &World| reads_once(&world.database.history)),
        Property::always(ANSWERED_ONCE, |_, world: &World| answers_once(&world.database.history)),
        Property::always(VALID_HISTORY, |_, world: &World| is_valid(&world.database.history)),
        Property::always(ENDS_ONCE, |_, world: &World| {
            let lock = &world.database.lock;
            let open = |run: usize| lock.open && run == usize::from(lock.run);
            world.database.runs.iter().enumerate().all(|(nth, run)| run.ends == u8::from(!open(nth)))
        }),
        Property::always(NOT_FORGOTTEN, |_, world: &World| {
            let lock = &world.database.lock;
            usize::from(lock.read) == world.database.messages.len() || (lock.open && lock.wake)
        }),
        Property::always(END_SETTLES, |_, world: &World| {
            let lock = &world.database.lock;
            let read = &world.database.messages[..usize::from(lock.read)];
            lock.open || read.iter().all(|message| *message != Outcome::Pending)
        }),
        Property::always(CANCEL_TAKES_EARLIER, |_, world: &World| {
            world.database.messages.iter().enumerate().all(|(nth, message)| match message {
                Outcome::Cancelled { run } => {
                    let cancel = world.database.runs[usize::from(*run)].cancel;
                    cancel.is_some_and(|posted| nth < usize::from(posted))
                }
                _ => true,
            })
        }),
        Property::always(WAITING_IS_FREE, |_, world: &World| {
            !world.database.is_waiting() || world.database.lock.holder == Holder::None
        }),
        Property::always(WAKE_IS_KEPT, |_, world: &World| {
            let (lock, runs) = (&world.database.lock, &world.database.runs);
            let waits = |run: usize| runs[run].awaited == Awaited::Answer || lock.until;
            let is_quiet = |run: usize| {
                runs[run].cancel.is_none() && usize::from(lock.read) == world.database.messages.len()
            };
            let run = usize::from(lock.run);
            !world.database.is_waiting() || lock.wake || (waits(run) && is_quiet(run))
        }),
        Property::always(ONE_HOLDER, |_, world: &World| !world.second_holder),
        Property::always(NOTHING_PENDING_AT_REST, |protocol: &Protocol, world: &World| {
            !protocol.is_at_rest(world) || protocol.is_settled(world)
        }),
        Property::always(SETTLES, |protocol: &Protocol, world: &World| protocol.settles(world)),
    ]
}
