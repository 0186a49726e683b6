use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::message::Source;

const LIMITS: ReadLimits = ReadLimits { messages: 3, bytes: 10 };
const CRASHES: usize = 3;

fn unread(seq: i64, bytes: usize) -> Unread {
    let content = "x".repeat(bytes);
    Unread { seq, source: Source::User, metadata_type: None, content, is_for_run: true }
}

fn posted(lengths: &[usize]) -> Claimable {
    Claimable {
        worker_is_alive: true,
        holder: Holder::None,
        run_open: true,
        is_due: true,
        deaths: 0,
        attempts: 0,
        cancel_requested: false,
        is_awake: true,
        is_waiting: false,
        lacks_tokens: false,
        unread_count: 0,
        unread: (1..).zip(lengths).map(|(seq, bytes)| unread(seq, *bytes)).collect(),
        session: None,
    }
}

fn started(of: &Claimable) -> Start {
    match decide(of, 1, LIMITS, CRASHES, None) {
        Decision::Started(start) => start,
        other => panic!("{other:?}"),
    }
}

#[test]
fn first_attempt_reads_as_much_as_the_limits_allow() {
    let of = |lengths: &[usize]| {
        let start = started(&posted(lengths));
        (start.read, start.read_to.unwrap(), start.stays_awake)
    };
    assert_eq!(of(&[1]), (1, 1, false));
    assert_eq!(of(&[1, 1, 1]), (3, 3, false));
    assert_eq!(of(&[1, 1, 1, 1]), (3, 3, true), "three messages at most");
    assert_eq!(of(&[5, 5, 1]), (2, 2, true), "ten bytes at most");
    assert_eq!(of(&[50, 1]), (1, 1, true), "a longer message is read alone");
    assert_eq!(of(&[1, 50]), (1, 1, true));
}

type Change = fn(&mut Claimable);

#[test]
fn run_that_must_not_start_is_refused() {
    let refused: [Change; 4] = [
        |of| of.worker_is_alive = false,
        |of| of.holder = Holder::Alive,
        |of| of.run_open = false,
        |of| of.is_due = false,
    ];
    for change in refused {
        let mut of = posted(&[1]);
        change(&mut of);
        assert_eq!(decide(&of, 1, LIMITS, CRASHES, None), Decision::Refused, "{of:?}");
    }
    let full = decide(&posted(&[1]), 0, LIMITS, CRASHES, None);
    assert_eq!(full, Decision::Refused, "the user has enough runs");
}

#[test]
fn message_starts_its_run_at_once_only_when_nothing_waits() {
    let idle =
        PostTarget { run_open: false, is_held: false, is_awake: false, user_waits: false, has_team: false };
    assert!(idle.starts_at_once());
    let busy: [fn(&mut PostTarget); 5] = [
        |of| of.run_open = true,
        |of| of.is_held = true,
        |of| of.is_awake = true,
        |of| of.user_waits = true,
        |of| of.has_team = true,
    ];
    for change in busy {
        let mut of = idle;
        change(&mut of);
        assert!(!of.starts_at_once(), "{of:?}");
    }
}

#[test]
fn later_attempt_leaves_messages_to_its_next_step() {
    let of = Claimable { attempts: 1, ..posted(&[1, 1]) };
    let start = started(&of);
    assert_eq!((start.read, start.read_to, start.stays_awake), (0, None, true));
    let nothing = Claimable { attempts: 1, is_awake: false, ..posted(&[]) };
    assert!(!started(&nothing).stays_awake);
    // It waited for a time, and slept again after it had seen the message that came meanwhile.
    let slept = Claimable { unread_count: 1, ..nothing };
    assert!(started(&slept).stays_awake);
}

#[test]
fn run_that_waits_is_claimed_only_when_it_is_awake() {
    let waiting = Claimable { is_waiting: true, is_awake: false, attempts: 1, ..posted(&[]) };
    assert_eq!(decide(&waiting, 1, LIMITS, CRASHES, None), Decision::Refused, "a hint alone is no reason");
    assert_eq!(started(&Claimable { is_waiting: false, ..waiting.clone() }).read, 0, "its time has passed");
    let woken = Claimable { is_awake: true, ..waiting };
    assert!(!started(&woken).stays_awake);
    let session = OpenSession {
        last_entry_at: Some(DateTime::UNIX_EPOCH),
        requested_at: DateTime::UNIX_EPOCH + Duration::from_secs(9_000),
        quiet: Duration::from_secs(60),
        close_requested: true,
        has_unreported: false,
        is_scheduled: true,
    };
    let late = started(&Claimable { session: Some(session), ..woken });
    assert_eq!(late.turn, Turn::default(), "its session is not closed under it");
}

#[test]
fn only_a_run_that_begins_is_put_off() {
    let of = Claimable { lacks_tokens: true, ..posted(&[1]) };
    assert_eq!(decide(&of, 1, LIMITS, CRASHES, None), Decision::PutOff);
    assert_eq!(decide(&of, 0, LIMITS, CRASHES, None), Decision::Refused, "it has no slot anyway");
    assert_eq!(
        started(&Claimable { attempts: 1, ..of.clone() }).read,
        0,
        "it is never stopped in the middle"
    );
    assert!(started(&Claimable { cancel_requested: true, ..of }).stays_awake, "a cancel does not wait");
}

#[test]
fn request_to_cancel_keeps_the_agentable_awake() {
    let of = Claimable { cancel_requested: true, ..posted(&[1]) };
    assert!(started(&of).stays_awake, "the run ends before it would fall asleep");
    assert!(!started(&posted(&[1])).stays_awake);
}

#[test]
fn messages_of_another_run_are_moved() {
    let mut of = posted(&[1, 1]);
    of.unread[1].is_for_run = false;
    let start = started(&of);
    assert!(start.moves_messages && !start.is_plain());
    of.unread[1].is_for_run = true;
    assert!(started(&of).is_plain());
}

#[test]
fn run_that_kills_its_workers_is_doubted_before_it_is_given_up() {
    let of = |deaths, holder| Claimable { deaths, holder, attempts: 1, ..posted(&[1]) };
    let start = |deaths, holder| started(&of(deaths, holder));
    assert_eq!((start(0, Holder::Dead).deaths, start(0, Holder::Dead).is_suspect), (1, false));
    assert_eq!((start(1, Holder::Dead).deaths, start(1, Holder::Dead).is_suspect), (2, true));
    assert!(start(2, Holder::None).is_suspect);
    let judged = |holder, verdict| match decide(&of(3, holder), 1, LIMITS, CRASHES, verdict) {
        Decision::Started(start) => Ok((start.deaths, start.is_suspect, start.is_given_up)),
        other => Err(other),
    };
    assert_eq!(decide(&of(2, Holder::Dead), 1, LIMITS, CRASHES, None), Decision::Doubted);
    assert_eq!(judged(Holder::None, None), Err(Decision::Accused));
    assert_eq!(judged(Holder::None, Some(Verdict::Wait)), Err(Decision::Doubted));
    assert_eq!(judged(Holder::None, Some(Verdict::Try)), Ok((3, true, false)));
    // It is claimed to be given up, so it needs no worker of its own.
    assert_eq!(judged(Holder::None, Some(Verdict::GiveUp)), Ok((3, false, true)));
    assert_eq!(judged(Holder::Dead, Some(Verdict::GiveUp)), Err(Decision::Doubted), "it died once more");
}

#[test]
fn session_is_closed_when_it_was_quiet_or_a_close_was_requested() {
    let quiet = Duration::from_secs(60);
    let requested_at = DateTime::UNIX_EPOCH;
    let session = |ago: Option<u64>| OpenSession {
        last_entry_at: ago.map(|ago| requested_at - Duration::from_secs(ago)),
        requested_at,
        quiet,
        close_requested: false,
        has_unreported: false,
        is_scheduled: true,
    };
    let of = |session| started(&Claimable { session: Some(session), ..posted(&[1]) }).turn;
    let closed = of(session(Some(60)));
    assert!(closed.closes && closed.reports && closed.schedules);
    assert!(of(OpenSession { close_requested: true, ..session(Some(1)) }).closes);
    let nothing = of(OpenSession { close_requested: true, ..session(None) });
    assert!(!nothing.closes && nothing.schedules && nothing.settles_request, "there are no entries");
    let unreported = of(OpenSession { has_unreported: true, ..session(None) });
    assert!(unreported.reports && !unreported.closes && !unreported.is_plain());
    for (is_scheduled, schedules) in [(true, false), (false, true)] {
        let turn = of(OpenSession { is_scheduled, ..session(Some(59)) });
        assert!(turn.schedules == schedules && turn.is_plain());
    }
    let again = Claimable { session: Some(session(Some(60))), attempts: 1, ..posted(&[1]) };
    assert_eq!(started(&again).turn, Turn::default(), "a later attempt goes on with the session");
}

#[test]
fn frames_are_what_houston_wrote_without_task_instructions() {
    let of = |source, kind: Option<&str>| {
        Unread { source, metadata_type: kind.map(Into::into), ..unread(1, 1) }.is_frame()
    };
    assert!(of(Source::System, None) && of(Source::System, Some("task_ended")));
    assert!(!of(Source::System, Some("task_started")) && !of(Source::User, Some("task_ended")));
}

proptest! {
    #[test]
    fn each_message_is_read_once_in_order(lengths in proptest::collection::vec(0..15_usize, 1..30)) {
        let mut of = posted(&lengths);
        let (mut read, mut left) = (Vec::new(), of.unread.len());
        while left > 0 {
            let start = started(&of);
            prop_assert!(start.read >= 1 && start.read <= LIMITS.messages);
            let texts: usize = of.unread[..start.read].iter().map(|unread| unread.content.len()).sum();
            prop_assert!(start.read == 1 || texts <= LIMITS.bytes);
            read.extend(of.unread.drain(..start.read).map(|unread| unread.seq));
            prop_assert_eq!(start.read_to, read.last().copied());
            left = of.unread.len();
            prop_assert_eq!(start.stays_awake, left > 0);
        }
        prop_assert!(read.iter().copied().eq(1..=i64::try_from(lengths.len()).unwrap()));
    }
}

proptest! {
    #[test]
    fn claims_choose_among_as_many_numbers_as_are_free(
        held in prop::collection::hash_set(1..30, 0..12),
        free in 1_usize..40,
        percent in 0_usize..100,
        worker: u128,
    ) {
        let held: Vec<i32> = held.into_iter().collect();
        let claims = 1 + (free - 1) * percent / 99;
        let lists = slot_choices(&held, free, claims, WorkerId(Uuid::from_u128(worker)));
        prop_assert_eq!(lists.len(), claims);
        prop_assert!(lists.iter().all(|list| !list.is_empty() && list.len() <= MAX_TRIED));
        let all: Vec<i32> = lists.concat();
        let different: HashSet<i32> = all.iter().copied().collect();
        prop_assert_eq!(different.len(), all.len());
        let lowest: Vec<i32> = (1..).filter(|slot| !held.contains(slot)).take(free).collect();
        prop_assert!(all.iter().all(|slot| lowest.contains(slot)));
    }
}

#[test]
fn workers_begin_with_different_slots() {
    let first = |worker| slot_choices(&[2], 3, 1, WorkerId(Uuid::from_u128(worker)));
    assert_eq!(first(0), [[1, 3, 4]]);
    assert_eq!(first(1), [[3, 4, 1]]);
    assert!(slot_choices(&[], 0, 1, WorkerId(Uuid::nil())).concat().is_empty());
}
